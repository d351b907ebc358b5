/* This program composes three transformers from modules: a decoder like GPT-2 (Radford et al.
 * 2019), one like Llama 2 (Touvron et al. 2023, arXiv:2307.09288) and an encoder-decoder as in the
 * first paper (Vaswani et al. 2017, arXiv:1706.03762). They are small and not trained. The program
 * prints the modules of each and the shape of its output, and then how much memory and time
 * grouped-query attention saves. */
#include "../programs/common.h"

#include <math.h>

enum { WORDS = 100, WIDTH = 32, HEADS = 4, LAYERS = 2, LENGTH = 16 };

static const ct_embedding_opts words = {.num_embeddings = WORDS, .embedding_dim = WIDTH};

/* ---- GPT-2 ---- */

/* The model has learned positions, a norm before each block, and GELU. The logits are products with
 * the rows of the embedding. */

static ct_module *gpt2_new(ct_context *c) {
    ct_positions_opts positions = {
        .max_length = LENGTH,
        .embed_dim = WIDTH,
        .learned = true,
        .dropout = 0.1,
    };
    ct_layer_opts layer = {
        .embed_dim = WIDTH,
        .num_heads = HEADS,
        .activation = CT_GELU_TANH,
        .norm_first = true,
        .dropout = 0.1,
    };
    ct_module *m = ct_module_new(c, "GPT2");
    ct_module_add_child(m, "wte", ct_embedding_new(c, words));
    ct_module_add_child(m, "wpe", ct_positions_new(c, positions));
    ct_module_add_child(m, "h", ct_encoder_new(c, layer, LAYERS, true));
    return m;
}

/* (B, T) -> (B, T, words) */
static ct_tensor *gpt2(ct_module *m, ct_tensor *ids) {
    ct_tensor *x = ct_forward(ct_module_child(m, "wte"), ids);
    x = ct_forward(ct_module_child(m, "wpe"), x);
    x = ct_encoder_forward(ct_module_child(m, "h"), x, (ct_stack_call){.self.causal = true});
    return ct_linear(x, ct_module_get(m, "wte.weight"), NULL);
}

/* ---- Llama ---- */

/* The model has rotary positions, RMSNorm, SwiGLU, two query heads for each key head, no biases,
 * and an output layer that does not share the weights of the embedding. */

static ct_module *llama_new(ct_context *c) {
    ct_layer_opts layer = {
        .embed_dim = WIDTH,
        .num_heads = HEADS,
        .hidden = 88,
        .activation = CT_SILU,
        .norm_first = true,
        .rms_norm = true,
        .gated = true,
        .no_bias = true,
        .attn = {.num_kv_heads = HEADS / 2, .rope = true},
    };
    ct_linear_opts head = {.in_features = WIDTH, .out_features = WORDS, .no_bias = true};
    ct_module *m = ct_module_new(c, "Llama");
    ct_module_add_child(m, "embed_tokens", ct_embedding_new(c, words));
    ct_module_add_child(m, "model", ct_encoder_new(c, layer, LAYERS, true));
    ct_module_add_child(m, "lm_head", ct_linear_new(c, head));
    return m;
}

/* (B, T) -> (B, T, words) */
static ct_tensor *llama(ct_module *m, ct_tensor *ids) {
    ct_tensor *x = ct_forward(ct_module_child(m, "embed_tokens"), ids);
    x = ct_encoder_forward(ct_module_child(m, "model"), x, (ct_stack_call){.self.causal = true});
    return ct_forward(ct_module_child(m, "lm_head"), x);
}

/* ---- encoder-decoder ---- */

/* The model has sinusoidal positions, a norm after each block, and one embedding for source, target
 * and output. The embedding is initialised with small numbers like an output layer, so embedded
 * tokens are multiplied by sqrt E. */

static ct_module *seq2seq_new(ct_context *c) {
    ct_positions_opts positions = {.max_length = LENGTH, .embed_dim = WIDTH, .dropout = 0.1};
    ct_transformer_opts transformer = {
        .layer = {.embed_dim = WIDTH, .num_heads = HEADS, .activation = CT_RELU, .dropout = 0.1},
        .num_encoder_layers = LAYERS,
        .num_decoder_layers = LAYERS,
    };
    ct_module *m = ct_module_new(c, "EncoderDecoder");
    ct_module_add_child(m, "embed", ct_embedding_new(c, words));
    ct_init_normal(ct_module_get(m, "embed.weight"), 0, 1 / sqrt(WIDTH));
    ct_module_add_child(m, "positions", ct_positions_new(c, positions));
    ct_module_add_child(m, "transformer", ct_transformer_new(c, transformer));
    return m;
}

/* (B, T) -> (B, T, WIDTH) */
static ct_tensor *embed(ct_module *m, ct_tensor *ids) {
    ct_tensor *x = ct_forward(ct_module_child(m, "embed"), ids);
    return ct_forward(ct_module_child(m, "positions"), ct_scale(x, sqrt(WIDTH)));
}

/* Returns the logits (B, T, words) for src (B, S) and tgt (B, T). src_real (B, S) is false for
 * padding in src. */
static ct_tensor *seq2seq(ct_module *m, ct_tensor *src, ct_tensor *tgt, ct_tensor *src_real) {
    ct_stack_call encoder = {.self.key_mask = src_real};
    ct_stack_call decoder = {.self.causal = true, .cross.key_mask = src_real};
    ct_module *transformer = ct_module_child(m, "transformer");
    ct_tensor *y =
        ct_transformer_forward(transformer, embed(m, src), embed(m, tgt), encoder, decoder);
    return ct_linear(y, ct_module_get(m, "embed.weight"), NULL);
}

/* ---- what the program prints ---- */

static void show(const char *title, const ct_module *m, const ct_tensor *y) {
    printf("== %s\n", title);
    ct_module_print(m, stdout);
    printf("%lld parameters; logits (%lld, %lld, %lld)\n\n", (long long)ct_module_count(m),
           (long long)ct_dim(y, 0), (long long)ct_dim(y, 1), (long long)ct_dim(y, 2));
}

/* Returns the seconds that the last of `length` positions takes if the others are in the cache: the
 * minimum of 50 measurements. */
static double last_token(ct_context *c, ct_module *mha, ct_kv_cache *cache, int64_t length) {
    ct_scope scope = ct_scope_open_no_grad(c);
    ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(1, length, 512));
    ct_tensor *all_but_one = ct_narrow(x, 1, 0, length - 1);
    ct_tensor *last = ct_narrow(x, 1, length - 1, 1);
    ct_mha_call call = {.causal = true, .cache = cache};
    ct_mha_forward(mha, all_but_one, NULL, NULL, call);
    double least = 1e9;
    for (int i = 0; i < 50; i++) {
        double begun = now();
        ct_mha_forward(mha, last, NULL, NULL, call);
        least = fmin(least, now() - begun);
        ct_kv_cache_truncate(cache, length - 1);
    }
    ct_scope_close(scope);
    return least;
}

static void show_cache(ct_context *c, const char *name, int64_t kv_heads) {
    ct_mha_opts opts = {.embed_dim = 512, .num_heads = 8, .num_kv_heads = kv_heads};
    ct_module *mha = ct_mha_new(c, opts);
    int64_t before = ct_memory(c).live;
    ct_kv_cache *cache = ct_kv_cache_new(mha, 1, 4096);
    int64_t measured = ct_memory(c).live - before;
    int64_t formula = 2 * kv_heads * 4096 * 64 * (int64_t)sizeof(float); /* 2 B H_kv L d numbers */
    printf("%-13s  %lld key heads, %7lld parameters, ", name, (long long)kv_heads,
           (long long)ct_module_count(mha));
    printf("cache %8lld bytes, measured %8lld, ", (long long)formula, (long long)measured);
    printf("%4.0f us\n", 1e6 * last_token(c, mha, cache, 4096));
    ct_kv_cache_free(cache);
    ct_module_free(mha);
}

int main(void) {
    /* This context prints the first error and exits. */
    ct_context *c = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!c) return 1;
    const int64_t numbers[] = {3, 14, 15, 92, 65, 35, 89, 79, 2, 71, 82, 81, 82, 84, 59, 4};
    const int64_t lengths[] = {8, 6}; /* the second source is shorter */
    ct_tensor *ids = ct_from_i64(c, CT_SHAPE(2, 8), numbers);
    ct_tensor *tgt = ct_narrow(ids, 1, 0, 5);
    ct_tensor *place = ct_arange(c, CT_I64, 0, 8, 1);
    ct_tensor *real = ct_lt(place, ct_from_i64(c, CT_SHAPE(2, 1), lengths)); /* (2, 8) */

    ct_module *m = gpt2_new(c);
    show("A decoder like GPT-2: ids (2, 8)", m, gpt2(m, ids));
    m = llama_new(c);
    show("A decoder like Llama: ids (2, 8)", m, llama(m, ids));
    m = seq2seq_new(c);
    show("An encoder-decoder: source (2, 8), target (2, 5)", m, seq2seq(m, ids, tgt, real));

    printf("== Keys and values of 4,096 positions, width 512, 8 query heads; "
           "and the time of the last of them\n");
    show_cache(c, "multi-head", 8);
    show_cache(c, "grouped-query", 2);
    show_cache(c, "multi-query", 1);
    ct_context_free(c);
    return 0;
}
