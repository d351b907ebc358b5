/* Rows that decode with a GPT, one token of each sequence a step: embedding, positions, blocks with
 * caches of keys and values, final norm, and the logits of the next token. decode_8 is GPT-2 with
 * 124 M parameters and a batch of 8; decode_384_8 has width 384; decode_bf16_8 has its matrices in
 * bf16. The caches begin with PROMPT positions; full ones are truncated to that length. In
 * decode_long_8, with matrices in bf16, they begin with 2,048; in decode_long_cache_bf16_8 they
 * store bf16 too. PyTorch does not run these two. */
#include "row.h"

#include <math.h>
#include <string.h>

enum { MAX_LAYERS = 12, PROMPT = 64, LENGTH = 128, POSITIONS = 1024, LONG = 2048 };

typedef struct {
    int64_t layers, heads, width, vocabulary;
    bool bf16;
    int64_t prompt; /* 0: PROMPT */
    bool cache_bf16;
} decode_size;

static const decode_size gpt2 = {12, 12, 768, 50257, false, 0, false},
                         gpt2_bf16 = {12, 12, 768, 50257, true, 0, false},
                         gpt2_long = {12, 12, 768, 50257, true, LONG, false},
                         gpt2_long_bf16 = {12, 12, 768, 50257, true, LONG, true},
                         small = {6, 6, 384, 65, false, 0, false},
                         small_bf16 = {6, 6, 384, 65, true, 0, false};

static decode_size size;
static int64_t batch, steps, prompt;
static ct_module *root, *wte, *wpe, *h[MAX_LAYERS], *ln_f;
static ct_kv_cache *caches[MAX_LAYERS];
static double sum;

/* The logits (B, T, V) of T tokens of each sequence, which are then in the caches too. */
static ct_tensor *logits(ct_context *c, int64_t length) {
    const int64_t first = ct_kv_cache_length(caches[0]);
    ct_tensor *ids = ct_empty(c, CT_I64, CT_SHAPE(batch, length));
    int64_t *id = ct_data_i64(ids);
    for (int64_t i = 0; id && i < batch * length; i++)
        id[i] = name_bits("tokens", (uint32_t)(i / length * LENGTH + first + i % length)) %
                (uint32_t)size.vocabulary;
    ct_tensor *x = ct_positions_forward(wpe, ct_forward(wte, ids), first);
    for (int64_t i = 0; i < size.layers; i++)
        x = ct_encoder_layer_forward(h[i], x, (ct_mha_call){.causal = true, .cache = caches[i]})
                .out;
    return ct_linear(ct_forward(ln_f, x), ct_module_get(wte, "weight"), NULL);
}

static void step(ct_context *c) {
    if (ct_kv_cache_length(caches[0]) == prompt + LENGTH - PROMPT)
        for (int64_t i = 0; i < size.layers; i++) ct_kv_cache_truncate(caches[i], prompt);
    ct_scope scope = ct_scope_open_no_grad(c);
    ct_tensor *z = logits(c, 1);
    sum = steps++ < 3 ? sum_of_sizes(z) : NAN; /* PyTorch compares the first three steps */
    ct_scope_close(scope);
}

static bool make(const row *r, ct_context *c, int64_t number, const char *names) {
    const int64_t positions = ((const decode_size *)r->arg)->prompt ? 2 * LONG : POSITIONS;
    (void)names;
    size = *(const decode_size *)r->arg;
    batch = number;
    prompt = size.prompt ? size.prompt : PROMPT;
    root = ct_module_new(c, "GPT");
    wte = ct_module_add_child(
        root, "wte",
        ct_embedding_new(c, (ct_embedding_opts){.num_embeddings = size.vocabulary,
                                                .embedding_dim = size.width}));
    wpe = ct_module_add_child(root, "wpe",
                              ct_positions_new(c, (ct_positions_opts){.max_length = positions,
                                                                      .embed_dim = size.width,
                                                                      .learned = true}));
    for (int64_t i = 0; i < size.layers; i++)
        h[i] = ct_module_append(root, "h",
                                ct_encoder_layer_new(c, (ct_layer_opts){.embed_dim = size.width,
                                                                        .num_heads = size.heads,
                                                                        .activation = CT_GELU,
                                                                        .norm_first = true}));
    ln_f = ct_module_add_child(root, "ln_f",
                               ct_layer_norm_new(c, (ct_layer_norm_opts){.dim = size.width}));
    fill_module(root, 0.02, 0.02 / sqrt(2 * (double)size.layers));
    ct_module_train(root, false);
    for (int64_t i = 0; i < size.layers; i++) {
        caches[i] =
            ct_kv_cache_new(ct_module_child(h[i], "self_attn"), batch, prompt + LENGTH - PROMPT);
        if (size.cache_bf16) ct_kv_cache_to_bf16(caches[i]);
    }
    ct_scope scope = ct_scope_open_no_grad(c);
    if (size.bf16) ct_module_to(root, CT_BF16);
    ct_tensor *z = logits(c, prompt);
    ct_scope_close(scope);
    return z;
}

static double value(void) { return sum; }

const row decode_rows[] = {
    {"decode_384_bf16_", make, step, value, &small_bf16},
    {"decode_384_", make, step, value, &small},
    {"decode_long_cache_bf16_", make, step, value, &gpt2_long_bf16},
    {"decode_long_", make, step, value, &gpt2_long},
    {"decode_bf16_", make, step, value, &gpt2_bf16},
    {"decode_", make, step, value, &gpt2},
    {NULL, NULL, NULL, NULL, NULL},
};
