/* A GPT on bytes or on the tokens of a tokenizer, which char_lm trains and attention_map draws. It
 * has learned positions, pre-norm blocks, and an output layer that shares the weights of the
 * embedding (Radford et al. 2019). */
#ifndef PROGRAMS_GPT_H
#define PROGRAMS_GPT_H

#include "common.h"

#include <cotangent/tokenizer.h>

enum { MAX_LAYERS = 96 };

typedef struct {
    ct_context *context;

    /* The sizes. */
    long long layers, heads, width;
    long long window; /* the longest input in ids */
    long long bias;   /* 1 if linear layers and norms have biases; 0 if not */
    double dropout;
    bool separate; /* q_proj, k_proj and v_proj in each attention instead of in_proj_weight */

    /* The alphabet. With a tokenizer only `letters` is used. */
    ct_tokenizer *tokenizer;   /* NULL: an id stands for a byte */
    int letters;               /* the number of ids */
    int id[256];               /* the id of each byte; -1 for a byte without an id */
    unsigned char letter[256]; /* the byte of each id */

    /* The modules: token embedding, positions and blocks are children of root. */
    ct_module *root, *wte, *wpe, *h;
} gpt;

void gpt_alphabet(gpt *m, const bool *occurs); /* gives ids to the bytes with occurs[byte] */
/* Opens a tokenizer.json, or a folder with one, whose ids the model has. */
void gpt_tokenizer(gpt *m, const char *path);

/* Encodes a text; a byte that has no id is left out. Returns *n ids, which the caller frees. */
int32_t *gpt_encode(const gpt *m, const contents *text, int64_t *n);
/* The number of bytes that n ids stand for. */
int64_t gpt_bytes(const gpt *m, const int32_t *ids, int64_t n);

/* Fails if --prompt has a byte without an id. */
void gpt_prompt(const gpt *m, const char *prompt);

void gpt_make(gpt *m);                         /* makes the modules, initialised as in GPT-2 */
void gpt_save(const gpt *m, const char *path); /* sizes and alphabet are the metadata */
/* Loads a saved model; m->separate selects the form of its projections. A model of tokens needs
 * gpt_tokenizer first. */
void gpt_load(gpt *m, const char *path);

/* Returns the output of the last block (B, T, E) for ids i64 (B, T). With caches, ids follow the
 * tokens that are in the caches. The logits are the products of this output with the rows of the
 * embedding, wte.weight. */
ct_tensor *gpt_features(const gpt *m, ct_tensor *ids, ct_stack_call call);

/* A batch of k windows of t ids, and the id that follows each of these ids in the text. */
typedef struct {
    ct_tensor *input;  /* i64 (k, t) */
    ct_tensor *target; /* i64 (k t) */
    int64_t k, t;
} gpt_batch;
gpt_batch gpt_batch_make(const gpt *m, int64_t k, int64_t t);
/* Window i is ids[0] ... ids[t - 1]; ids[t] is read too. Does nothing if an error is pending. */
void gpt_batch_set(gpt_batch *b, int64_t i, const int32_t *ids);
/* Returns the mean cross-entropy over all k t ids. */
ct_tensor *gpt_loss(const gpt *m, const gpt_batch *b);

#endif
