/* Documents for training: texts and conversations of a file, their ids, and rows in which several
 * documents lie one behind the other. */
#ifndef PROGRAMS_DOCUMENTS_H
#define PROGRAMS_DOCUMENTS_H

#include "conversations.h"

enum { NO_TARGET = -100 }; /* cross-entropy ignores such a token */
enum { MOST_ROWS = 4096 }; /* the most rows of a batch; or pairs */

/* The documents of a file. Document i has the ids from begin[i] to begin[i + 1]. The target of a
 * token is the next id, if the loss counts it, and otherwise NO_TARGET. */
typedef struct {
    int32_t *ids, *targets; /* [n] */
    int64_t n, room;
    int64_t *begin; /* [count + 1] */
    bool *is_whole; /* [count] a conversation or a completion, which is not cut into rows */
    int64_t *bytes; /* [count] of a text; 0 for another document */
    int64_t count, count_room;
    chat_tally chats; /* the conversations that were read */
    bool pairs;       /* of preferences */
    int64_t dropped;  /* pairs that were left out */
} documents;

typedef struct {
    const ct_tokenizer *tokenizer;
    int64_t end_id;        /* the id behind each text; -1: none */
    const char *separator; /* the text between documents of a plain file; NULL: there is one */
    bool plain;            /* special tokens that are spelled in a text are ordinary text */
    bool open_texts;       /* end_id is only behind completions, and not behind texts */
    enum { DOCUMENTS_ANY, DOCUMENTS_TEXT, DOCUMENTS_JSON } format;
    ct_chat_opts chat; /* the form of chats */
    /* each line has two answers: documents 2 i and 2 i + 1 are a prompt with the chosen one and
     * with the rejected one. Pairs of which one has no answer in its first `length` tokens are left
     * out */
    bool preferences;
    int64_t length;
} documents_opts;

/* Reads a file. If .format does not say, it is one of JSON lines or of a JSON array if its name
 * ends in .json, .jsonl or .ndjson, or if its first bytes look like JSON; otherwise it is plain
 * text. In a text each token counts in the loss, in a completion the tokens behind the prompt, and
 * in a conversation the assistant's words and the end of its turns. Prints a message and exits if
 * it fails. */
documents documents_read(ct_context *context, const char *path, const documents_opts *opts);
/* Whether documents_read reads a file as JSON. */
bool documents_are_json(const char *path, const documents_opts *opts);
void documents_free(documents *d);
/* Adds a document that is not cut, with the target of each token. It may have no token, so that the
 * documents have the numbers of what they are made of; rows leave it out. */
void documents_add(documents *d, const int64_t *ids, const int64_t *targets, int64_t n);

/* Moves every k-th document to the result, which then has about this part of them. If there is
 * only one document, its end is moved. */
documents documents_hold_out(documents *d, double part);

/* A document, or a part of one: ids from `begin` on. */
typedef struct {
    int64_t begin, length;
} piece;

typedef struct {
    const documents *documents;
    piece *pieces;    /* in the order of the rows */
    int64_t *first;   /* [n + 1] row i has the pieces from first[i] to first[i + 1] */
    int64_t *learned; /* [n] the number of tokens of the row that have a target */
    int64_t n;
    int64_t length, longest;     /* the most tokens of a row, and the tokens of the longest one */
    int64_t tokens, all_learned; /* sums over the rows */
    bool pairs;                  /* rows 2 i and 2 i + 1 are a pair of preferences */
    int64_t cut, dropped; /* whole documents that were shortened, and documents without target */
} rows;

/* Makes rows of at most `length` tokens. A text that is longer is cut into several pieces, and a
 * longer conversation or completion loses its end. With `packed` a row has as many pieces as fit,
 * and otherwise one. */
rows rows_make(const documents *d, int64_t length, bool packed);
void rows_free(rows *r);
int64_t rows_units(const rows *r);              /* the number of rows, or of pairs */
int64_t row_length(const rows *r, int64_t row); /* its tokens, without padding */

typedef struct {
    ct_tensor *ids, *targets; /* i64 (n, T) */
    ct_lm_call call; /* has the segments, so that documents of a row do not see each other */
} row_batch;

/* Makes a batch of n rows; T is the length of the longest. */
row_batch rows_batch(ct_context *context, const rows *r, const int64_t *which, int64_t n);

/* The order of the rows, or of the pairs of rows. It differs in each epoch, and depends only on the
 * seed and the epoch. So a resumed run and all ranks have the same order. */
typedef struct {
    const rows *rows;
    uint64_t seed;
    int64_t *order; /* [rows->n, or half of them], of this epoch; NULL at first */
    int64_t epoch;
} row_order;

/* The row or pair at a place of the run: place 0 is the first one of the first epoch. Pair i is the
 * rows 2 i and 2 i + 1. */
int64_t row_at(row_order *order, int64_t place);

#endif
