/* The parts of evaluate: evaluate.c has the flags and opens the models, evaluate_texts.c,
 * evaluate_choices.c and evaluate_labels.c score one kind of data each, and evaluate_report.c
 * compares, prints and writes JSON. */
#ifndef PROGRAMS_EVALUATE_H
#define PROGRAMS_EVALUATE_H

#include "chat_form.h"
#include "label_rows.h"

/* Values of flags. */
typedef struct {
    const char *data, *against, *adapter, *base, *json, *separator, *delimiter, *labels;
    chat_flags chat;
    long long window, stride, length, task, batch, plain, format, bos, dtype, ignore_unknown,
        threads, matmul;
} evaluate_options;
extern evaluate_options option;

/* What is scored by itself: a document, or a window if there is one document; a question; a
 * labelled line. */
typedef struct {
    double nats;             /* of a text: the sum of -log p of its tokens that count */
    int64_t tokens;          /* of a text: their number; of a labelled line: decisions */
    int64_t right;           /* of a labelled line: the decisions that are right */
    double squared_error;    /* of a labelled line with a number */
    int64_t bytes;           /* of a text, unless it is a conversation or a window */
    int64_t answer;          /* the right choice */
    int64_t chosen;          /* the choice that the model finds most probable */
    int64_t chosen_per_byte; /* the choice that it finds most probable for its length */
} scored;

typedef enum { DATA_TEXTS, DATA_CHOICES, DATA_LABELS } data_kind;

/* A model, and what it made of the data. */
typedef struct {
    const char *path, *base, *adapter; /* base: of adapters at the path; adapter: more adapters */
    ct_context *context;
    ct_module *lm;
    ct_tokenizer *tokenizer;
    chat_form form;

    data_kind kind;
    scored *unit; /* [n] */
    int64_t n, room;
    bool of_windows;                   /* a unit is a window of the only document */
    int64_t documents, window, stride; /* window: also the most tokens of a labelled line */
    int64_t bytes;                     /* of all texts */
    bool bos; /* of DATA_CHOICES: ids begin with the post-processor's tokens */
    /* of DATA_LABELS */
    labelled labelled;
    label_scores scores;
    int64_t left_out; /* texts, or words, that the model did not read */
    double seconds;
} evaluation;

/* Adds a unit, of zeros, and returns it. */
scored *evaluation_add(evaluation *e);
/* A row of ids to score: ids begin ... begin + length - 1 of an array. The tokens that are
 * predicted are those whose target is not ignored, the target of place `from` of the row being the
 * first. */
typedef struct {
    int64_t begin, length, from;
    double nats;    /* the result: the sum of -log p of these tokens */
    int64_t tokens; /* and their number */
} score_row;

typedef struct {
    int32_t *ids, *targets; /* the target of a place is the next id, or negative */
    score_row *row;         /* [n] */
    int64_t n, room;
} score_rows;

void score_rows_add(score_rows *set, score_row row);

/* Computes the results of all rows, in batches of about one length. */
void evaluation_run(evaluation *e, score_rows *set);

void evaluate_texts(evaluation *e);
void evaluate_choices(evaluation *e);
void evaluate_labels(evaluation *e);

/* Prints what the models made of the data, and their difference if there are two (b is not NULL).
 * Writes --json. */
void evaluate_report(const evaluation *a, const evaluation *b);

#endif
