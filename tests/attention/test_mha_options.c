/* Options of attention that torch's module lacks: heads of any width, biases only of queries, keys
 * and values, another scale. Values and gradients are compared with a composition of elementary
 * ops, and each use of a module is tried: caches, files, copies, bf16, other children. */
#include "attention_model.h"

#include <unistd.h>

enum { B = 2, T = 5, S = 4, E = 8 };

static const ct_mha_opts all[] = {
    {.num_heads = 2, .head_dim = 6},
    {.num_heads = 3, .head_dim = 2, .scale = 0.3},
    {.num_heads = 2, .head_dim = 3, .bias = CT_BIAS_QKV, .no_bias = true},
    {.num_heads = 2, .scale = CT_ZERO, .bias = CT_BIAS_NONE},
    {.num_heads = 2, .bias = CT_BIAS_ALL, .no_bias = true, .scale = 2},
    {.num_heads = 4, .num_kv_heads = 2, .head_dim = 4, .rope = true, .qk_norm = true},
    {.num_heads = 4, .num_kv_heads = 1, .head_dim = 2, .bias = CT_BIAS_QKV, .separate = true},
    {.num_heads = 3, .head_dim = 6, .separate = true, .qk_norm = true, .bias = CT_BIAS_NONE},
    {.num_heads = 2, .head_dim = 5, .kdim = 3, .vdim = 7, .bias = CT_BIAS_QKV},
    {.num_heads = 2, .head_dim = 3, .add_bias_kv = true, .add_zero_attn = true, .scale = 0.7},
    {.num_heads = 2, .head_dim = 6, .rope = true, .rotary.interleaved = true, .qk_norm = true},
};
enum { ALL = sizeof all / sizeof *all };

static ct_mha_opts opts_at(int i) {
    ct_mha_opts o = all[i];
    o.embed_dim = E, o.dtype = CT_F64;
    return o;
}

/* Random keys of each row are hidden; the first is not. */
static ct_tensor *some_keys(int64_t keys) {
    ct_tensor *mask = ct_gt(ct_rand(context, CT_F64, CT_SHAPE(B, keys)),
                            ct_full(context, CT_F64, CT_SCALAR, 0.4));
    for (int64_t b = 0; b < B; b++) ct_data_bool(mask)[b * keys] = true;
    return mask;
}

/* from: 0: self-attention; 1: another sequence; 2: keys and values of two sequences. */
static void compare(int which, int from, bool weights, bool masked) {
    char what[64];
    snprintf(what, sizeof what, "options %d, source %d, weights %d, masked %d", which, from,
             weights, masked);
    const ct_mha_opts opts = opts_at(which), *o = &opts;
    ct_module *m = shaken(ct_mha_new(context, opts));
    const int64_t keys = from ? S : T;
    ct_tensor *q = leaf(CT_SHAPE(B, T, E)), *k = NULL, *v = NULL;
    if (from) k = v = leaf(CT_SHAPE(B, S, o->kdim ? o->kdim : E));
    if (from == 2) v = leaf(CT_SHAPE(B, S, o->vdim ? o->vdim : E));
    ct_tensor *in[] = {q, k ? k : q, v ? v : q}, *seen = NULL;
    ct_mha_call call = {.need_weights = weights, .per_head = true};
    if (masked) {
        call.causal = true, call.key_mask = some_keys(keys);
        seen = ct_logical_and(ct_causal_mask(context, T, keys),
                              ct_reshape(call.key_mask, CT_SHAPE(B, 1, 1, keys)));
    }
    const ct_mha_out y = ct_mha_forward(m, q, k, v, call);
    const results got = results_of(m, (ct_tensor *[]){y.out, y.weights}, 1 + weights, in, 3);
    const ct_mha_out z = model_mha(m, o, in[0], in[1], in[2], seen);
    const results want = results_of(m, (ct_tensor *[]){z.out, z.weights}, 1 + weights, in, 3);
    results_same(what, &got, &want, 1e-12);
    ct_module_free(m);
}

START_TEST(equals_its_formula) {
    setup();
    const ct_mha_opts o = opts_at(_i);
    for (int from = 0; from < 3; from++)
        for (int flags = 0; flags < 4; flags++) {
            if ((o.kdim || o.vdim) && from < 2) continue;
            ct_scope scope = ct_scope_open(context);
            compare(_i, from, flags & 1, flags & 2);
            ct_scope_close(scope);
        }
    teardown();
}
END_TEST

/* ---- names ---- */

/* The parameters as "name(rows,columns) ...". */
static const char *names_of(ct_module *m) {
    static char text[1024];
    int at = 0;
    no_error();
    for (ct_param p = {0}; ct_module_next(m, &p);) {
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%s(", at ? " " : "", p.name);
        for (int i = 0; i < ct_ndim(p.tensor); i++)
            at += snprintf(text + at, sizeof text - (size_t)at, "%s%lld", i ? "," : "",
                           (long long)ct_dim(p.tensor, i));
        at += snprintf(text + at, sizeof text - (size_t)at, ")");
    }
    return text;
}

START_TEST(names_and_shapes) {
    ck_assert_str_eq(names_of(ct_mha_new(context, opts_at(0))),
                     "in_proj_weight(36,8) in_proj_bias(36) out_proj.weight(8,12) "
                     "out_proj.bias(8)");
    ck_assert_str_eq(names_of(ct_mha_new(context, opts_at(2))),
                     "in_proj_weight(18,8) in_proj_bias(18) out_proj.weight(8,6)");
    ck_assert_str_eq(names_of(ct_mha_new(context, opts_at(3))),
                     "in_proj_weight(24,8) out_proj.weight(8,8)");
    ck_assert_str_eq(names_of(ct_mha_new(context, opts_at(4))),
                     "in_proj_weight(24,8) in_proj_bias(24) out_proj.weight(8,8) out_proj.bias(8)");
    ck_assert_str_eq(names_of(ct_mha_new(context, opts_at(5))),
                     "q_proj_weight(16,8) k_proj_weight(8,8) v_proj_weight(8,8) in_proj_bias(32) "
                     "out_proj.weight(8,16) out_proj.bias(8) q_norm.weight(4) k_norm.weight(4)");
    ck_assert_str_eq(names_of(ct_mha_new(context, opts_at(6))),
                     "q_proj.weight(8,8) q_proj.bias(8) k_proj.weight(2,8) k_proj.bias(2) "
                     "v_proj.weight(2,8) v_proj.bias(2) out_proj.weight(8,8)");
    ck_assert_str_eq(names_of(ct_mha_new(context, opts_at(8))),
                     "q_proj_weight(10,8) k_proj_weight(10,3) v_proj_weight(10,7) "
                     "in_proj_bias(30) out_proj.weight(8,10)");
    ck_assert_str_eq(names_of(ct_mha_new(context, opts_at(9))),
                     "in_proj_weight(18,8) in_proj_bias(18) bias_k(1,1,6) bias_v(1,1,6) "
                     "out_proj.weight(8,6) out_proj.bias(8)");
}
END_TEST

static void prints(ct_mha_opts o, const char *want) {
    char text[1024];
    FILE *file = tmpfile();
    o.embed_dim = E;
    ct_module_print(ct_mha_new(context, o), file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    ck_assert_msg(strstr(text, want), "%s", text);
}

START_TEST(printed_lines) {
    prints((ct_mha_opts){.num_heads = 2, .head_dim = 3, .bias = CT_BIAS_QKV, .scale = 0.25},
           "  embed_dim=8, num_heads=2, head_dim=3, bias=qkv, scale=0.25\n");
    prints((ct_mha_opts){.num_heads = 2, .head_dim = 4, .bias = CT_BIAS_NONE, .scale = CT_ZERO},
           "  embed_dim=8, num_heads=2, bias=False, scale=0\n");
    prints((ct_mha_opts){.num_heads = 2, .bias = CT_BIAS_ALL, .no_bias = true},
           "  embed_dim=8, num_heads=2\n");
}
END_TEST

/* Bounds of the initial values: one xavier matrix (3 H d, E), or each of the three. */
START_TEST(initial_values) {
    for (int xavier = 0; xavier < 2; xavier++) {
        const ct_mha_opts o = {.embed_dim = 40,
                               .num_heads = 4,
                               .head_dim = 30,
                               .init = xavier ? CT_INIT_XAVIER : CT_INIT_TORCH};
        ct_module *m = ct_mha_new(context, o);
        const double bound = sqrt(6.0 / (40 + (xavier ? 1 : 3) * 120)),
                     out = xavier ? sqrt(6.0 / 160) : 1 / sqrt(120.0);
        const double most = largest(param_of(m, "in_proj_weight")),
                     most_out = largest(param_of(m, "out_proj.weight"));
        ck_assert_msg(most <= bound && most > 0.99 * bound, "%g of %g", most, bound);
        ck_assert_msg(most_out <= out && most_out > 0.99 * out, "%g of %g", most_out, out);
        ck_assert_double_eq(largest(param_of(m, "in_proj_bias")), 0);
        ck_assert_double_eq(largest(param_of(m, "out_proj.bias")), 0);
    }
}
END_TEST

/* ---- uses ---- */

/* Tokens in steps of 1, 2, 1, ... through a cache. */
START_TEST(decoding_equals_the_whole) {
    for (int i = 0; i < ALL; i++) {
        if (all[i].kdim) continue;
        ct_module *m = shaken(ct_mha_new(context, opts_at(i)));
        ct_tensor *x = randn(CT_SHAPE(B, T, E));
        ct_mha_call call = {.causal = true, .need_weights = i % 2};
        ct_tensor *whole = ct_mha_forward(m, x, NULL, NULL, call).out;
        call.cache = ct_kv_cache_new(m, B, T);
        for (int64_t at = 0, n; at < T; at += n) {
            n = at == 1 ? 2 : 1;
            ct_tensor *y = ct_mha_forward(m, ct_narrow(x, 1, at, n), NULL, NULL, call).out;
            ck_assert_double_lt(distance(y, ct_narrow(whole, 1, at, n)), 1e-13);
        }
        ct_kv_cache_free(call.cache);
    }
}
END_TEST

START_TEST(copies_and_files) {
    char path[] = "/tmp/cotangent-mha-XXXXXX";
    const int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file); /* on Windows an open file cannot be replaced */
    for (int i = 0; i < ALL; i++) {
        if (all[i].kdim) continue;
        ct_module *m = shaken(ct_mha_new(context, opts_at(i))), *copy = ct_module_clone(m),
                  *other = ct_mha_new(context, opts_at(i));
        ck_assert(ct_save(m, path, (ct_save_opts){0}) &&
                  ct_load(other, path, (ct_load_opts){.report = NULL}));
        ct_tensor *x = randn(CT_SHAPE(B, T, E)), *y = ct_forward(m, x);
        ck_assert_double_eq(distance(ct_forward(copy, x), y), 0);
        ck_assert_double_eq(distance(ct_forward(other, x), y), 0);
    }
    remove(path);
}
END_TEST

/* Matrices at rest in bf16 give the bits of f32 with the rounded values. */
START_TEST(weights_in_bf16) {
    for (int i = 0; i < ALL; i++) {
        if (all[i].kdim) continue;
        ct_mha_opts o = opts_at(i);
        o.dtype = CT_F32;
        ct_module *m = shaken(ct_mha_new(context, o)), *rounded = ct_module_clone(m);
        ck_assert(ct_module_to(m, CT_BF16));
        ck_assert(ct_module_to(rounded, CT_BF16) && ct_module_to(rounded, CT_F32));
        ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(B, T, E));
        ck_assert_double_eq(distance(ct_forward(m, x), ct_forward(rounded, x)), 0);
    }
}
END_TEST

/* An adapter in place of a projection: was(x) + x A B. */
static ct_tensor *adapted(void *self, ct_tensor *x) {
    return ct_add(ct_forward(ct_module_child(self, "was"), x),
                  ct_matmul(ct_matmul(x, ct_module_get(self, "a")), ct_module_get(self, "b")));
}

START_TEST(projections_of_ones_own) {
    static const char *const names[] = {"q_proj", "k_proj", "v_proj", "out_proj"};
    const ct_mha_opts o = opts_at(6);
    ct_module *m = shaken(ct_mha_new(context, o)), *same = ct_module_clone(m);
    ct_tensor *x = leaf(CT_SHAPE(B, T, E));
    for (int i = 0; i < 4; i++) {
        ct_module *own = ct_module_new(context, "Adapter"),
                  *was = ct_module_set_child(m, names[i], own);
        const int64_t out = ct_dim(ct_module_get(was, "weight"), 0),
                      in = ct_dim(ct_module_get(was, "weight"), 1);
        ct_module_add_child(own, "was", was);
        ct_tensor *a = ct_module_add_param(own, "a", randn(CT_SHAPE(in, 2))),
                  *b = ct_module_add_param(own, "b", randn(CT_SHAPE(2, out)));
        ct_module_set_forward(own, adapted, own);
        char weight[32];
        snprintf(weight, sizeof weight, "%s.weight", names[i]);
        ct_scope scope = ct_scope_open_no_grad(context);
        ct_tensor *w = param_of(same, weight);
        ct_copy_into(w, ct_add(w, ct_transpose(ct_matmul(a, b), 0, 1)));
        ct_scope_close(scope);
    }
    ck_assert_double_lt(distance(ct_forward(m, x), ct_forward(same, x)), 1e-12);
}
END_TEST

/* ---- errors ---- */

static void no_module(ct_mha_opts o, ct_status status, const char *word1, const char *word2) {
    const int64_t before = live();
    if (!o.embed_dim) o.embed_dim = E;
    if (!o.num_heads) o.num_heads = 2;
    ck_refused(ct_mha_new(context, o), status, word1, word2);
    ck_assert_int_eq(live(), before);
}

START_TEST(options_are_checked) {
    no_module((ct_mha_opts){.head_dim = -1}, CT_ERR_ARGUMENT, "head_dim is -1", "at least 0");
    no_module((ct_mha_opts){.num_heads = 3}, CT_ERR_ARGUMENT, "embed_dim 8", "head_dim is 0");
    no_module((ct_mha_opts){.head_dim = 3, .rope = true}, CT_ERR_ARGUMENT, "head_dim 3", "odd");
    no_module((ct_mha_opts){.head_dim = INT64_MAX / 2}, CT_ERR_MEMORY, "head_dim", "overflow");
    no_module((ct_mha_opts){.head_dim = INT64_MAX}, CT_ERR_MEMORY, "head_dim", "overflow");
    no_module((ct_mha_opts){.head_dim = INT64_MAX / 8}, CT_ERR_MEMORY, "", "");
    no_module((ct_mha_opts){.scale = -1}, CT_ERR_ARGUMENT, "scale is -1", "at least 0");
    no_module((ct_mha_opts){.scale = NAN}, CT_ERR_ARGUMENT, "scale is nan", "MultiheadAttention");
    no_module((ct_mha_opts){.scale = INFINITY}, CT_ERR_ARGUMENT, "scale is inf", "");
    no_module((ct_mha_opts){.bias = (ct_bias)4}, CT_ERR_ARGUMENT, "bias is 4", "ct_bias");
    no_module((ct_mha_opts){.bias = (ct_bias)-1}, CT_ERR_ARGUMENT, "bias is -1", "ct_bias");
    /* children of one's own must have the width of the heads */
    ct_module *m = ct_mha_new(context, opts_at(6));
    ct_linear_opts narrow = {.in_features = E, .out_features = 4, .dtype = CT_F64};
    ct_module_set_child(m, "q_proj", ct_linear_new(context, narrow));
    ck_refused(ct_forward(m, randn(CT_SHAPE(B, T, E))), CT_ERR_SHAPE, "q_proj made",
               "its last dim must be 8");
}
END_TEST

static ct_module *make_any(ct_context *c, int which) {
    ct_mha_opts o = all[which];
    o.embed_dim = 1024;
    return ct_mha_new(c, o);
}
START_TEST(a_failed_constructor_leaves_nothing) { constructors_leave_nothing(make_any, ALL, 2); }
END_TEST

int main(void) {
    return run_cases("mha options",
                     CASES({.name = "formula", .tests = TESTS(LOOP(equals_its_formula, ALL))},
                           {.name = "uses",
                            .before = setup,
                            .after = teardown,
                            .tests = TESTS(TEST(names_and_shapes), TEST(printed_lines),
                                           TEST(initial_values), TEST(decoding_equals_the_whole),
                                           TEST(copies_and_files), TEST(weights_in_bf16),
                                           TEST(projections_of_ones_own), TEST(options_are_checked),
                                           TEST(a_failed_constructor_leaves_nothing))}));
}
