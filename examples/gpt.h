/* A GPT on bytes, which char_lm trains and attention_map looks into: learned positions, pre-norm blocks, the output tied to the
 * embedding (Radford et al. 2019). */
#ifndef EXAMPLES_GPT_H
#define EXAMPLES_GPT_H

#include "common.h"

enum { MAX_LAYERS = 96 };

typedef struct {
    ct_context *context;
    long long layers, heads, width, window, bias; /* window: the bytes it sees at once; bias: of linear layers and norms, or none */
    double dropout;
    int letters, id[256];      /* of each byte; -1: it has none */
    unsigned char letter[256]; /* the byte of each id */
    ct_module *root, *wte, *wpe, *h;
} gpt;

void gpt_alphabet(gpt *m, const bool *occurs);     /* ids for the bytes that occur (256), in their order */
void gpt_prompt(const gpt *m, const char *prompt); /* fails where --prompt has a byte without an id */

void gpt_make(gpt *m);                         /* the modules, of the sizes in m, initialised as GPT-2's */
void gpt_save(const gpt *m, const char *path); /* the weights, and in the metadata all that it takes to make the model */
void gpt_load(gpt *m, const char *path);

/* What the blocks make of the ids: i64 (B, T) -> (B, T, E), standing behind what is in the call's caches. The logits are its products with
 * the rows of the embedding, wte.weight. */
ct_tensor *gpt_features(const gpt *m, ct_tensor *ids, ct_stack_call call);

#endif
