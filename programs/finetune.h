/* The parts of finetune: finetune.c has the flags, finetune_model.c opens the model and reads the
 * data, finetune_train.c trains, and finetune_end.c decides what becomes of the result. */
#ifndef PROGRAMS_FINETUNE_H
#define PROGRAMS_FINETUNE_H

#include "chat_form.h"
#include "documents.h"
#include "run.h"

enum { MOST_ROWS = 4096 }; /* the most rows of a micro-batch */

/* Values of flags. */
typedef struct {
    const char *data, *valid, *out, *separator, *targets, *sample;
    chat_flags chat;
    long long length, padded, plain, format;
    long long lora, full, rank, merge, bf16, recompute, ignore_unknown;
    long long batch, accumulate, shares, steps, epochs, eval_every, sample_every, sample_tokens;
    long long keep_partial, allow_worse;
    long long seed, threads, matmul;
    double hold_out, alpha, dropout, lr, min_lr, warmup, decay, clip;
} finetune_options;
extern finetune_options option;

/* The model and its data. */
typedef struct {
    ct_context *context;
    ct_tokenizer *tokenizer;
    ct_module *lm;
    documents documents, held_documents;
    rows rows, held; /* held.n is 0 without a validation */
    row_order order;
    chat_form form;
    double date;         /* the instant of templates that write the date */
    bool has_new_tokens; /* the tokenizer has tokens that the folder's has not */
    int64_t end_of_turn; /* the token that ends a turn of a chat; -1: no token */
    bool out_exists;     /* the folder of --out was there at the start */
} tuning;

static inline bool is_lora(void) { return !option.full; }

/* Opens the model and its tokenizer, adds adapters, and reads the data. t->date is known. */
void finetune_open(tuning *t, const run *r, const char *folder);

ct_optim *finetune_optim(const tuning *t);
/* Prints a continuation of --sample. */
void finetune_write_sample(const tuning *t, int64_t step);

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
