/* The parts of finetune: finetune.c has the flags, finetune_model.c opens the model and reads the
 * data, finetune_labels.c does what a classifier needs, finetune_preferences.c has --method,
 * finetune_train.c trains, and finetune_end.c decides what becomes of the result. */
#ifndef PROGRAMS_FINETUNE_H
#define PROGRAMS_FINETUNE_H

#include "chat_form.h"
#include "documents.h"
#include "label_rows.h"
#include "preferences.h"
#include "run.h"

typedef enum { METHOD_SFT = 1, METHOD_DPO, METHOD_ORPO } method; /* the words of --method */

/* Values of flags. */
typedef struct {
    long long task; /* 0, or a labelled_task */
    const char *data, *valid, *out, *separator, *targets, *sample;
    chat_flags chat;
    long long length, padded, plain, format;
    long long lora, full, rank, merge, adapter_only, floats, base, bf16, bf16_states, recompute,
        ignore_unknown;
    long long batch, accumulate, shares, steps, epochs, eval_every, sample_every, sample_tokens;
    long long keep_partial, allow_worse;
    long long seed, threads, matmul;
    long long method; /* a method */
    double hold_out, alpha, dropout, lr, min_lr, warmup, decay, clip, beta, label_smoothing;
} finetune_options;
extern finetune_options option;

/* The model and its data. */
typedef struct {
    ct_context *context;
    ct_tokenizer *tokenizer;
    ct_module *lm;
    ct_dtype weights; /* what its matrices are kept in */
    documents documents, held_documents;
    labelled labelled, held_labelled; /* of --task, for the documents */
    rows rows, held;                  /* held.n is 0 without a validation */
    row_order order;
    double *reference, *held_reference; /* [rows] log-probabilities of DPO's reference; or NULL */
    chat_form form;
    double date;         /* the instant of templates that write the date */
    bool has_new_tokens; /* the tokenizer has tokens that the folder's has not */
    int64_t end_of_turn; /* the token that ends a turn of a chat; -1: no token */
    bool out_exists;     /* the folder of --out was there at the start */
} tuning;

static inline bool is_lora(void) { return !option.full; }
static inline bool is_preferences(void) { return option.method != METHOD_SFT; }

/* Opens the model and its tokenizer, adds adapters, and reads the data. t->date is known. */
void finetune_open(tuning *t, const run *r, const char *folder);

/* For --task: opens the model with the labels of the data. */
void labels_open_model(tuning *t, const char *folder, ct_lm_opts opts);
/* The modules that are trained and saved whole beside adapters: those of the head, which are all
 * modules beside the base, the first of the tree; and what is drawn. */
enum { MOST_HEADS = 8 };
typedef struct {
    char path[MOST_HEADS][256];
    const char *name[MOST_HEADS];
    int64_t n;
} head_modules;
void labels_head(const tuning *t, head_modules *h);
/* Declares that a resumed run must have the same labels. */
void labels_declare(const tuning *t, run *r);
ct_tensor *labels_loss(const tuning *t, const rows *r, const int64_t *which, int64_t n);
/* Prints accuracy and F1, or the error of real numbers, over the rows for validation. */
void labels_report(const tuning *t);

ct_optim *finetune_optim(const tuning *t);
/* Prints a continuation of --sample. */
void finetune_write_sample(const tuning *t, int64_t step);

/* The reference of DPO: the model as it was opened. r->dist is set, and no checkpoint is loaded. */
void finetune_reference(tuning *t, const run *r);
/* The loss of n pairs of rows (--method), the mean over them. */
preference_loss finetune_preference(tuning *t, const rows *of, const double *reference,
                                    const int64_t *pair, int64_t n);
/* The loss, the sum of the margins of n pairs, and how many are right. */
typedef struct {
    double loss, margin, right;
} preference_sums;
preference_sums preference_sums_of(const preference_loss *loss, int64_t n);

/* How a training ended. The losses before and after it are of the rows for validation or, without
 * them, of some rows of the training. */
typedef struct {
    int64_t step; /* the number of steps that were done */
    double before, after;
} training;

/* Trains until all steps are done or the run is interrupted. */
training finetune_train(tuning *t, run *r, ct_optim *optim);

/* Writes the result, unless the run was interrupted or has made the model worse. Returns the exit
 * code. */
int finetune_end(tuning *t, run *r, training done);

#endif
