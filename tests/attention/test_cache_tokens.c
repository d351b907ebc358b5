/* Decoding takes no memory from the allocator from the second token on, with every kind of cache,
 * and no more memory at a later token. */
#include "cache_model.h"

enum { LENGTH = 150, PROMPT = 20, EXTRA = 2, LAYERS = 2 };

static const ct_mha_opts extra[EXTRA] = {
    {.num_heads = H, .add_bias_kv = true},
    {.num_heads = H, .add_bias_kv = true, .add_zero_attn = true},
};

static ct_tensor *randn32(ct_shape shape) { return ct_randn(context, CT_F32, shape); }

/* ---- what a token takes ---- */

typedef struct {
    const char *what;
    ct_scope scope;
    int64_t live, peak, calls;
} token;

static void token_begin(token *t) {
    ct_memory_reset_peak(context);
    t->live = ct_memory(context).live;
    t->scope = ct_scope_open_no_grad(context);
}

/* Compares with the tokens before, unless it is the first of its kind. */
static void token_end(token *t, int64_t at, bool first, bool peaks) {
    no_error();
    ct_scope_close(t->scope);
    const ct_memory_stats now = ct_memory(context);
    const int64_t peak = now.peak - t->live;
    if (first) t->calls = now.allocator_calls, t->peak = peak;
    ck_assert_msg(now.allocator_calls == t->calls, "%s: %d calls more at token %d", t->what,
                  (int)(now.allocator_calls - t->calls), (int)at);
    ck_assert_msg(!peaks || peak == t->peak, "%s: %d bytes more at token %d", t->what,
                  (int)(peak - t->peak), (int)at);
}

/* ---- the caches of modules ---- */

/* All rows get a token; the same, with a key mask; rows have lengths of their own. */
enum { PLAIN, MASKED, RAGGED, KINDS };

typedef struct {
    ct_mha_opts opts;
    int threads, kind;
    bool bf16;
    int64_t prompt;
} decoding;

static void decode(const char *what, decoding d) {
    const bool ragged = d.kind == RAGGED;
    d.opts.embed_dim = E;
    ck_assert(ct_set_threads(context, d.threads));
    ct_module *m = shaken(ct_mha_new(context, d.opts));
    ct_kv_cache *cache = ct_kv_cache_new(m, B, LENGTH);
    if (d.bf16) ck_assert(ct_kv_cache_to_bf16(cache));
    ct_tensor *x = randn32(CT_SHAPE(B, LENGTH, E)),
              *seen = ct_gt_scalar(ct_rand(context, CT_F32, CT_SHAPE(B, LENGTH)), 0.3),
              *some = ct_from_i64(context, CT_SHAPE(B), (int64_t[]){7, PROMPT, 3});
    ct_memory_trim(context);
    ct_mha_call call = {.causal = true, .cache = cache, .lengths = ragged ? some : NULL};
    if (d.prompt) ck_assert(ct_mha_forward(m, ct_narrow(x, 1, 0, d.prompt), NULL, NULL, call).out);
    token t = {.what = what};
    for (int64_t at = d.prompt; at < LENGTH; at++) {
        token_begin(&t);
        if (d.kind == MASKED) call.key_mask = ct_narrow(seen, 1, 0, at + 1);
        call.lengths = NULL;
        if (ragged && at % 3)
            call.lengths = ct_from_i64(context, CT_SHAPE(B), (int64_t[]){at % 2, 1, 1});
        ct_mha_forward(m, ct_narrow(x, 1, at, 1), NULL, NULL, call);
        /* beside extra keys the key mask is widened, in memory */
        const bool peaks = !ragged && !(d.kind == MASKED && d.opts.add_bias_kv);
        token_end(&t, at, at < d.prompt + (ragged ? 3 : 1), peaks);
    }
    ct_kv_cache_free(cache);
    ct_module_free(m);
}

START_TEST(of_modules) {
    for (int i = 0; i < (ALL + EXTRA) * KINDS * 8; i++) {
        const int which = i / 8 / KINDS;
        const decoding d = {.opts = which < ALL ? all[which] : extra[which - ALL],
                            .kind = i / 8 % KINDS,
                            .threads = 1 + (i & 1),
                            .bf16 = i & 2,
                            .prompt = i & 4 ? PROMPT : 0};
        if (d.kind == RAGGED && d.opts.add_bias_kv) continue; /* its rows have one length */
        char what[80];
        snprintf(what, sizeof what, "options %d, kind %d, case %d", which, d.kind, i & 7);
        decode(what, d);
    }
}
END_TEST

/* ---- a cache of no module, and those of a decoder ---- */

START_TEST(of_no_module) {
    for (int i = 0; i < 4; i++) {
        ck_assert(ct_set_threads(context, 1 + i / 2));
        ct_kv_cache *cache = ct_kv_cache_new_of(context, CT_F32, B, 2, LENGTH, 2);
        ct_tensor *x = randn32(CT_SHAPE(B, LENGTH, E));
        ct_memory_trim(context);
        token t = {.what = "no module"};
        for (int64_t at = 0, n = i % 2 ? PROMPT : 1; at + n <= LENGTH; at += n, n = 1) {
            token_begin(&t);
            ct_tensor *q = ct_split_heads(ct_narrow(x, 1, at, n), H), *k = ct_narrow(q, 1, 0, 2),
                      *v = ct_narrow(q, 1, 2, 2);
            ck_assert(ct_kv_cache_append(cache, &k, &v));
            ct_attention(q, k, v, (ct_attention_opts){0});
            token_end(&t, at, at <= (i % 2 ? PROMPT : 0), false);
        }
        ct_kv_cache_free(cache);
    }
}
END_TEST

/* Caches may be freed before or after the decoder, and all memory is returned. */
START_TEST(of_a_decoder) {
    for (int late = 0; late < 2; late++) {
        const int64_t before = live();
        ct_scope outer = ct_scope_open_no_grad(context);
        const ct_layer_opts opts = {.embed_dim = E,
                                    .num_heads = H,
                                    .attn = {.num_kv_heads = 2, .rope = true, .qk_norm = true}};
        ct_module *decoder = ct_decoder_new(context, opts, LAYERS, false);
        ct_kv_cache *caches[LAYERS];
        ck_assert(ct_kv_caches_new(decoder, B, LENGTH, caches, LAYERS));
        ct_tensor *x = randn32(CT_SHAPE(B, LENGTH, E)), *memory = randn32(CT_SHAPE(B, 5, E));
        const ct_stack_call call = {.self.causal = true, .caches = caches};
        token t = {.what = "a decoder"};
        for (int64_t at = 0; at < LENGTH; at++) {
            token_begin(&t);
            ct_decoder_forward(decoder, ct_narrow(x, 1, at, 1), memory, call);
            token_end(&t, at, at == 0, false);
        }
        if (!late) ct_module_free(decoder);
        for (int i = 0; i < LAYERS; i++) ct_kv_cache_free(caches[i]);
        if (late) ct_module_free(decoder);
        ct_scope_close(outer);
        ck_assert_int_eq(live(), before);
    }
}
END_TEST

int main(void) {
    return run_tests("cache, tokens", setup, teardown,
                     TESTS(TEST(of_modules), TEST(of_no_module), TEST(of_a_decoder)));
}
