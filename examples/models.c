/* Three transformers, each composed from modules in about ten lines: a decoder as GPT-2's (Radford et al. 2019), one as Llama 2's
 * (Touvron et al. 2023, arXiv:2307.09288) and an encoder-decoder as the first of all (Vaswani et al. 2017, arXiv:1706.03762). Small, and
 * not trained: the program prints what each is made of and the shape that comes out, and then what sharing key heads saves. */
#include "common.h"

#include <math.h>

enum { WORDS = 100, WIDTH = 32, HEADS = 4, LAYERS = 2, LENGTH = 16 };

static const ct_embedding_opts words = {.num_embeddings = WORDS, .embedding_dim = WIDTH};

/* ---- GPT-2: learned positions, norms before each block, GELU, and logits from the rows of the embedding ---- */

static ct_module *gpt2_new(ct_context *c) {
    ct_layer_opts layer = {.embed_dim = WIDTH, .num_heads = HEADS, .activation = CT_GELU_TANH, .norm_first = true, .dropout = 0.1};
    ct_module *m = ct_module_new(c, "GPT2");
    ct_module_add_child(m, "wte", ct_embedding_new(c, words));
    ct_module_add_child(m, "wpe", ct_positions_new(c, (ct_positions_opts){LENGTH, WIDTH, .learned = true, .dropout = 0.1}));
    ct_module_add_child(m, "h", ct_encoder_new(c, layer, LAYERS, true));
    return m;
}

static ct_tensor *gpt2(ct_module *m, ct_tensor *ids) { /* (B, T) -> (B, T, words) */
    ct_tensor *x = ct_forward(ct_module_child(m, "wpe"), ct_forward(ct_module_child(m, "wte"), ids));
    x = ct_encoder_forward(ct_module_child(m, "h"), x, (ct_stack_call){.self.causal = true});
    return ct_linear(x, ct_module_get(m, "wte.weight"), NULL);
}

/* ---- Llama: rotary positions, RMSNorm, SwiGLU, two query heads to a key head, no bias anywhere, an output layer of its own ---- */

static ct_module *llama_new(ct_context *c) {
    ct_layer_opts layer = {.embed_dim = WIDTH, .num_heads = HEADS, .num_kv_heads = HEADS / 2, .hidden = 88, .activation = CT_SILU};
    layer.norm_first = layer.rms_norm = layer.gated = layer.rope = layer.no_bias = true;
    ct_module *m = ct_module_new(c, "Llama");
    ct_module_add_child(m, "embed_tokens", ct_embedding_new(c, words));
    ct_module_add_child(m, "model", ct_encoder_new(c, layer, LAYERS, true));
    ct_module_add_child(m, "lm_head", ct_linear_new(c, (ct_linear_opts){WIDTH, WORDS, .no_bias = true}));
    return m;
}

static ct_tensor *llama(ct_module *m, ct_tensor *ids) { /* (B, T) -> (B, T, words) */
    ct_tensor *x = ct_forward(ct_module_child(m, "embed_tokens"), ids);
    x = ct_encoder_forward(ct_module_child(m, "model"), x, (ct_stack_call){.self.causal = true});
    return ct_forward(ct_module_child(m, "lm_head"), x);
}

/* ---- encoder-decoder: sinusoidal positions, norms after each block, one embedding for source, target and output: rows as small as an
 * output layer's, so what is looked up is made larger ---- */

static ct_module *seq2seq_new(ct_context *c) {
    ct_layer_opts layer = {.embed_dim = WIDTH, .num_heads = HEADS, .activation = CT_RELU, .dropout = 0.1};
    ct_module *m = ct_module_new(c, "EncoderDecoder");
    ct_init_normal(ct_module_get(ct_module_add_child(m, "embed", ct_embedding_new(c, words)), "weight"), 0, 1 / sqrt(WIDTH));
    ct_module_add_child(m, "positions", ct_positions_new(c, (ct_positions_opts){LENGTH, WIDTH, .dropout = 0.1}));
    ct_module_add_child(m, "transformer", ct_transformer_new(c, (ct_transformer_opts){layer, LAYERS, LAYERS}));
    return m;
}

static ct_tensor *embed(ct_module *m, ct_tensor *ids) { /* (B, T) -> (B, T, WIDTH) */
    return ct_forward(ct_module_child(m, "positions"), ct_scale(ct_forward(ct_module_child(m, "embed"), ids), sqrt(WIDTH)));
}

static ct_tensor *seq2seq(ct_module *m, ct_tensor *src, ct_tensor *tgt, ct_tensor *src_real) { /* (B, S), (B, T) -> (B, T, words) */
    ct_stack_call encoder = {.self.key_mask = src_real}, decoder = {.self.causal = true, .cross.key_mask = src_real};
    ct_tensor *y = ct_transformer_forward(ct_module_child(m, "transformer"), embed(m, src), embed(m, tgt), encoder, decoder);
    return ct_linear(y, ct_module_get(m, "embed.weight"), NULL);
}

static void show(const char *title, const ct_module *m, const ct_tensor *y) {
    printf("== %s\n", title);
    ct_module_print(m, stdout);
    printf("%lld parameters; logits (%lld, %lld, %lld)\n\n", (long long)ct_module_count(m), (long long)ct_dim(y, 0),
           (long long)ct_dim(y, 1), (long long)ct_dim(y, 2));
}

/* Seconds that the last of so many positions takes, where the others are in the cache: the least of some. */
static double last_token(ct_context *c, ct_module *mha, ct_kv_cache *cache, int64_t length) {
    ct_scope scope = ct_scope_open_no_grad(c);
    ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(1, length, 512));
    ct_mha_call call = {.causal = true, .cache = cache};
    ct_mha_forward(mha, ct_narrow(x, 1, 0, length - 1), NULL, NULL, call);
    double least = 1e9;
    for (int i = 0; i < 50; i++) {
        double begun = now();
        ct_mha_forward(mha, ct_narrow(x, 1, length - 1, 1), NULL, NULL, call);
        least = fmin(least, now() - begun);
        ct_kv_cache_truncate(cache, length - 1);
    }
    ct_scope_close(scope);
    return least;
}

/* What attention keeps of 4,096 positions while it writes, 2 B H_kv L d numbers a layer, and how long it takes to read. */
static void show_caches(ct_context *c) {
    printf("== Keys and values of 4,096 positions, width 512, 8 query heads; and the time of the last of them\n");
    const char *const names[] = {"multi-head", "grouped-query", "multi-query"};
    const int64_t key_heads[] = {8, 2, 1};
    for (int i = 0; i < 3; i++) {
        const int64_t kv = key_heads[i];
        ct_module *mha = ct_mha_new(c, (ct_mha_opts){.embed_dim = 512, .num_heads = 8, .num_kv_heads = kv});
        int64_t before = ct_memory(c).live;
        ct_kv_cache *cache = ct_kv_cache_new(mha, 1, 4096);
        int64_t measured = ct_memory(c).live - before;
        printf("%-13s  %lld key heads, %7lld parameters, cache %8lld bytes, measured %8lld, %4.0f us\n", names[i], (long long)kv,
               (long long)ct_module_count(mha), (long long)(2 * kv * 4096 * 64 * 4), (long long)measured,
               1e6 * last_token(c, mha, cache, 4096));
        ct_kv_cache_free(cache);
        ct_module_free(mha);
    }
}

int main(void) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die}); /* prints the first error and exits */
    if (!c) return 1;
    ct_tensor *ids = ct_from_i64(c, CT_SHAPE(2, 8), (int64_t[]){3, 14, 15, 92, 65, 35, 89, 79, 2, 71, 82, 81, 82, 84, 59, 4});
    ct_tensor *tgt = ct_narrow(ids, 1, 0, 5);
    ct_tensor *real = ct_lt(ct_arange(c, CT_I64, 0, 8, 1), ct_from_i64(c, CT_SHAPE(2, 1), (int64_t[]){8, 6})); /* the second is shorter */

    ct_module *m = gpt2_new(c);
    show("A decoder like GPT-2: ids (2, 8)", m, gpt2(m, ids));
    m = llama_new(c);
    show("A decoder like Llama: ids (2, 8)", m, llama(m, ids));
    m = seq2seq_new(c);
    show("An encoder-decoder: source (2, 8), target (2, 5)", m, seq2seq(m, ids, tgt, real));
    show_caches(c);
    ct_context_free(c);
    return 0;
}
