/* Fields that hide keys from the queries of multi-head attention: windows, segments and lengths,
 * with all other masks; a bias and a softcap of the scores. Values and gradients are compared with
 * a composition of elementary ops, whose mask is made pair by pair. */
#include "layer_model.h"

enum { B = 2, T = 7, S = 2, E = 8 };

static const ct_mha_opts all[] = {
    {.num_heads = 2},
    {.num_heads = 4, .num_kv_heads = 2, .head_dim = 4, .rope = true, .qk_norm = true},
    {.num_heads = 2, .separate = true, .scale = 0.6, .bias = CT_BIAS_QKV},
    {.num_heads = 2, .add_bias_kv = true, .add_zero_attn = true},
};
enum { ALL = sizeof all / sizeof *all, PLAIN = 0, EXTRA = 3 };

static const ct_window windows[] = {{0, 0}, {2, 0}, {0, 3}, {3, 2}, {1, 1}, {INT64_MAX, 1}};
enum { WINDOWS = sizeof windows / sizeof *windows };

static ct_mha_opts opts_at(int i, ct_window window, double softcap) {
    ct_mha_opts o = all[i];
    o.embed_dim = E, o.dtype = CT_F64, o.window = window, o.softcap = softcap;
    return o;
}

/* A call, and the numbers of its tensors. */
typedef struct {
    ct_mha_call call;
    int64_t keys, offset; /* the keys, and the index of query 0 */
    const int64_t *segments, *lengths;
} problem;

/* The mask (B, 1, queries, keys) of all that hides a key by its place, pair by pair. */
static ct_tensor *seen_by(const problem *p, ct_window w, int64_t queries) {
    ct_tensor *seen = ct_empty(context, CT_BOOL, CT_SHAPE(B, 1, queries, p->keys));
    bool *out = ct_data_bool(seen);
    for (int64_t b = 0; b < B; b++)
        for (int64_t t = 0; t < queries; t++)
            for (int64_t j = 0; j < p->keys; j++) {
                const int64_t i = p->offset + t;
                bool yes = !p->call.causal || j <= i;
                yes = yes && (!w.left || i - j < w.left) && (!w.right || j - i < w.right);
                if (p->segments)
                    yes = yes && p->segments[b * queries + t] == p->segments[b * queries + j];
                if (p->lengths) yes = yes && t < p->lengths[b] && j < p->lengths[b];
                *out++ = yes;
            }
    return seen;
}

static void compare(int which, ct_window window, int flags, int source) {
    char what[80];
    const bool cross = source & 1;
    snprintf(what, sizeof what, "options %d, window %d %d, flags %d, source %d", which,
             (int)window.left, (int)window.right, flags, source);
    const ct_mha_opts o = opts_at(which, window, flags & 1 ? 0.8 : 0);
    ct_module *m = shaken(ct_mha_new(context, o));
    const int64_t segments[B * T] = {3, 3, 3, -1, -1, 7, 7, 1, 1, 2, 1, 1, 2, 2},
                               lengths[B] = {source & 2 ? 0 : 4, T};
    problem p = {.keys = cross ? S : T, .call = {.causal = flags & 2, .per_head = true}};
    ct_tensor *q = leaf(CT_SHAPE(B, T, E)), *k = cross ? leaf(CT_SHAPE(B, S, E)) : q, *bias = NULL;
    if (flags & 4)
        p.call.bias = bias = leaf(source & 2 ? CT_SHAPE(T, 1) : CT_SHAPE(2, 1, T, p.keys));
    if (flags & 8 && !cross) {
        p.segments = segments;
        p.call.segments = ct_from_i64(context, CT_SHAPE(B, T), segments);
    }
    if (flags & 16 && !cross && which != EXTRA) {
        p.lengths = lengths;
        p.call.lengths = ct_from_i64(context, CT_SHAPE(B), lengths);
    }
    p.call.need_weights = flags & 32;
    ct_tensor *seen = seen_by(&p, window, T);
    if (source & 2) { /* a mask of the caller too */
        p.call.mask = ct_gt(ct_rand(context, CT_F64, CT_SHAPE(T, p.keys)),
                            ct_full(context, CT_F64, CT_SCALAR, 0.3));
        seen = ct_logical_and(seen, p.call.mask);
    }
    ct_tensor *in[] = {q, k, bias ? bias : q};
    const int outs = p.call.need_weights ? 2 : 1;
    const ct_mha_out y = ct_mha_forward(m, q, cross ? k : NULL, cross ? k : NULL, p.call);
    const results got = results_of(m, (ct_tensor *[]){y.out, y.weights}, outs, in, 3);
    const ct_mha_out z = model_mha_biased(m, &o, q, k, k, seen, bias);
    const results want = results_of(m, (ct_tensor *[]){z.out, z.weights}, outs, in, 3);
    results_same(what, &got, &want, 1e-12);
    if (p.call.need_weights) {
        p.call.per_head = false;
        const ct_mha_out mean = ct_mha_forward(m, q, cross ? k : NULL, cross ? k : NULL, p.call);
        ck_assert_double_lt(distance(mean.weights, ct_mean(z.weights, CT_DIMS(1), false)), 1e-13);
    }
    ct_module_free(m);
}

START_TEST(equals_its_formula) {
    setup();
    for (int flags = 0; flags < 64; flags++)
        for (int source = 0; source < 4; source++) {
            ct_scope scope = ct_scope_open(context);
            compare(_i % ALL, windows[(_i / ALL + flags) % WINDOWS], flags, source);
            ct_scope_close(scope);
        }
    teardown();
}
END_TEST

/* ---- caches ---- */

/* Tokens in steps of 1, 3, 1, ... with the rows of the whole call's bias. */
START_TEST(decoding_equals_the_whole) {
    for (int i = 0; i < ALL; i++)
        for (int w = 0; w < WINDOWS; w++)
            for (int causal = 0; causal < 2; causal++) {
                if (!causal && windows[w].right != 1) continue; /* later keys would be seen */
                ct_module *m = shaken(ct_mha_new(context, opts_at(i, windows[w], 0.9)));
                ct_tensor *x = randn(CT_SHAPE(B, T, E)), *bias = randn(CT_SHAPE(2, 1, T, T));
                if (all[i].num_heads != 2) bias = randn(CT_SHAPE(T, T));
                ct_mha_call call = {.causal = causal, .bias = bias, .need_weights = w % 2};
                ct_tensor *whole = ct_mha_forward(m, x, NULL, NULL, call).out;
                call.cache = ct_kv_cache_new(m, B, T);
                for (int64_t at = 0, n; at < T; at += n) {
                    n = at == 1 ? 3 : 1;
                    call.bias = ct_narrow(ct_narrow(bias, -2, at, n), -1, 0, at + n);
                    ct_tensor *y = ct_mha_forward(m, ct_narrow(x, 1, at, n), NULL, NULL, call).out;
                    ck_assert_double_lt(distance(y, ct_narrow(whole, 1, at, n)), 1e-13);
                }
                ct_kv_cache_free(call.cache);
            }
}
END_TEST

/* ---- layers ---- */

/* Recomputed layers take the tensors of a call as inputs, which may end before backward. */
static void layer_run(bool decoder, bool recompute, results *out) {
    ct_seed(context, 5);
    const ct_layer_opts o = {.embed_dim = E,
                             .num_heads = 2,
                             .dtype = CT_F64,
                             .dropout = 0.1,
                             .recompute = recompute,
                             .attn = {.window = {3, 0}, .softcap = 2, .rope = true}};
    ct_module *m = decoder ? ct_decoder_layer_new(context, o) : ct_encoder_layer_new(context, o);
    ct_tensor *x = leaf(CT_SHAPE(B, T, E)), *memory = leaf(CT_SHAPE(B, S, E)),
              *bias = leaf(CT_SHAPE(T, T)), *cross_bias = leaf(CT_SHAPE(T, S)),
              *in[] = {x, bias, memory, cross_bias};
    const int64_t segments[B * T] = {1, 1, 1, 1, 2, 2, 2, 5, 5, 5, 5, 5, 5, 4}, lengths[B] = {T, 6};
    ct_mha_call self = {.causal = true,
                        .bias = ct_scale(bias, 2),
                        .segments = ct_from_i64(context, CT_SHAPE(B, T), segments),
                        .lengths = ct_from_i64(context, CT_SHAPE(B), lengths)},
                cross = {.bias = ct_scale(cross_bias, 2)};
    ct_tensor *y = decoder ? ct_decoder_layer_forward(m, x, memory, self, cross).out
                           : ct_encoder_layer_forward(m, x, self).out;
    ct_release(self.bias), ct_release(self.segments), ct_release(self.lengths);
    ct_release(cross.bias);
    *out = results_of(m, &y, 1, in, decoder ? 4 : 2);
}

START_TEST(recomputed_layers) {
    for (int decoder = 0; decoder < 2; decoder++) {
        results want, got;
        layer_run(decoder, false, &want);
        layer_run(decoder, true, &got);
        results_same("a recomputed layer", &got, &want, 0);
        for (int i = 0; i < want.n; i++) ck_assert(want.t[i] && largest(want.t[i]) > 0);
    }
}
END_TEST

/* The window of a layer does not limit its cross-attention. */
START_TEST(windows_of_layers) {
    ct_layer_opts o = {.embed_dim = E, .num_heads = 2, .dtype = CT_F64, .attn.window = {2, 0}};
    ct_module *m = shaken(ct_decoder_layer_new(context, o));
    ct_tensor *x = randn(CT_SHAPE(B, T, E)), *memory = randn(CT_SHAPE(B, S, E));
    problem p = {.keys = T, .call.causal = true};
    ct_tensor *y = ct_decoder_layer_forward(m, x, memory, p.call, (ct_mha_call){0}).out;
    ct_tensor *z = model_layer(m, &o, x, memory, seen_by(&p, o.attn.window, T));
    ck_assert_double_lt(distance(y, z), 1e-13);
}
END_TEST

/* ---- memory ---- */

typedef struct {
    ct_context *c;
    ct_module *m;
    ct_tensor *x;
    ct_mha_call call;
} seen_run;
static bool run_seen(void *arg) {
    const seen_run *r = arg;
    return ct_mha_forward(r->m, r->x, NULL, NULL, r->call).out;
}

START_TEST(a_failed_forward_leaves_nothing) {
    ct_context *plain = context, *c = refusing_context();
    context = c;
    for (int which = 0; which < 4; which++) {
        ct_mha_opts o = all[which & 1 ? EXTRA : PLAIN];
        o.embed_dim = 96, o.dtype = CT_F64, o.window = (ct_window){5, 2}, o.softcap = 1;
        seen_run r = {.c = c, .m = ct_mha_new(c, o), .x = randn(CT_SHAPE(B, 30, 96))};
        r.call.segments = ct_zeros(c, CT_I64, CT_SHAPE(B, 30));
        r.call.bias = randn(CT_SHAPE(30, 30));
        r.call.need_weights = which & 2;
        if (!(which & 1)) r.call.lengths = ct_full(c, CT_I64, CT_SHAPE(B), 20);
        memory_sweep((fault_case){.name = "a forward",
                                  .context = &r.c,
                                  .arg = &r,
                                  .run = run_seen,
                                  .grows = true,
                                  .least = 3,
                                  .most = 300});
    }
    ct_context_free(c);
    context = plain;
}
END_TEST

/* ---- errors ---- */

static void refused(ct_module *m, ct_tensor *k, ct_mha_call call, ct_status status,
                    const char *word1, const char *word2) {
    ct_tensor *q = randn(CT_SHAPE(B, T, E));
    for (int weights = 0; weights < 2; weights++) {
        call.need_weights = weights;
        ck_refused(ct_mha_forward(m, q, k, k, call).out, status, word1, word2);
    }
}

START_TEST(calls_are_checked) {
    ct_module *m = ct_mha_new(context, opts_at(PLAIN, windows[0], 0)),
              *extra = ct_mha_new(context, opts_at(EXTRA, windows[0], 0));
    ct_tensor *ids = ct_zeros(context, CT_I64, CT_SHAPE(B, T)), *other = randn(CT_SHAPE(B, S, E)),
              *lengths = ct_full(context, CT_I64, CT_SHAPE(B), 3),
              *f32 = ct_ones(context, CT_F32, CT_SHAPE(T, T));
    refused(m, NULL, (ct_mha_call){.bias = f32}, CT_ERR_DTYPE, "bias is f32", "f64");
    refused(m, NULL, (ct_mha_call){.bias = randn(CT_SHAPE(3, T))}, CT_ERR_SHAPE, "bias is (3, 7)",
            "(7, 7)");
    refused(m, NULL, (ct_mha_call){.bias = randn(CT_SHAPE(T, T)), .mask = randn(CT_SHAPE(T, T))},
            CT_ERR_ARGUMENT, "both a bias and", "mask");
    refused(extra, NULL,
            (ct_mha_call){.bias = randn(CT_SHAPE(T, T)), .mask = randn(CT_SHAPE(T, T))},
            CT_ERR_ARGUMENT, "both a bias and", "mask");
    for (int i = 0; i < 2; i++) {
        ct_module *any = i ? extra : m;
        refused(any, NULL, (ct_mha_call){.segments = lengths}, CT_ERR_SHAPE, "segments are (2)",
                "not (2, 7)");
        refused(any, NULL, (ct_mha_call){.segments = randn(CT_SHAPE(B, T))}, CT_ERR_DTYPE,
                "segments are f64", "not i64");
        refused(any, other, (ct_mha_call){.segments = ids}, CT_ERR_ARGUMENT, "segments",
                "self-attention");
        ct_kv_cache *cache = ct_kv_cache_new(any, B, T);
        refused(any, NULL, (ct_mha_call){.segments = ids, .cache = cache}, CT_ERR_ARGUMENT,
                "segments", "cache");
        ck_assert_int_eq(ct_kv_cache_length(cache), 0);
        ct_kv_cache_free(cache);
    }
    refused(m, NULL, (ct_mha_call){.lengths = ids}, CT_ERR_SHAPE, "lengths are (2, 7)", "not (2)");
    refused(m, NULL, (ct_mha_call){.lengths = randn(CT_SHAPE(B))}, CT_ERR_DTYPE, "lengths are f64",
            "not i64");
    refused(m, other, (ct_mha_call){.lengths = lengths}, CT_ERR_ARGUMENT, "lengths",
            "self-attention");
    refused(extra, NULL, (ct_mha_call){.lengths = lengths}, CT_ERR_ARGUMENT, "lengths",
            "add_bias_kv");
    ct_data_i64(lengths)[1] = T + 1;
    refused(m, NULL, (ct_mha_call){.lengths = lengths}, CT_ERR_ARGUMENT, "length 1 is 8", "[0, 7]");
    ct_data_i64(lengths)[1] = -1;
    refused(m, NULL, (ct_mha_call){.lengths = lengths}, CT_ERR_ARGUMENT, "length 1 is -1", "");
    ct_release(ids);
    refused(m, NULL, (ct_mha_call){.segments = ids}, CT_ERR_ARGUMENT, "MultiheadAttention",
            "released");
}
END_TEST

START_TEST(options_are_checked) {
    const ct_mha_opts o = {.embed_dim = E, .num_heads = 2};
    ct_mha_opts bad = o;
    bad.softcap = -1;
    ck_refused(ct_mha_new(context, bad), CT_ERR_ARGUMENT, "softcap is -1", "at least 0");
    bad.softcap = NAN;
    ck_refused(ct_mha_new(context, bad), CT_ERR_ARGUMENT, "softcap is nan", "");
    bad = o, bad.window.left = -1;
    ck_refused(ct_mha_new(context, bad), CT_ERR_ARGUMENT, "window.left is -1", "at least 0");
    bad = o, bad.window.right = INT64_MIN;
    ck_refused(ct_mha_new(context, bad), CT_ERR_ARGUMENT, "window.right is -9", "at least 0");
    char text[400];
    FILE *file = tmpfile();
    bad = o, bad.window = (ct_window){4, 1}, bad.softcap = 50;
    ct_module_print(ct_mha_new(context, bad), file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    ck_assert_msg(strstr(text, ", softcap=50, window=(4, 1)\n"), "%s", text);
}
END_TEST

int main(void) {
    return run_cases(
        "mha, seen",
        CASES({.name = "formula", .tests = TESTS(LOOP(equals_its_formula, ALL * 2))},
              {.name = "uses",
               .before = setup,
               .after = teardown,
               .tests = TESTS(TEST(decoding_equals_the_whole), TEST(recomputed_layers),
                              TEST(windows_of_layers), TEST(a_failed_forward_leaves_nothing),
                              TEST(calls_are_checked), TEST(options_are_checked))}));
}
