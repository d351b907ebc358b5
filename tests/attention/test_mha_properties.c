/* Properties of attention modules for any weights: hidden rows have no effect, permuted tokens and
 * heads give permuted results, attention weights sum to one. */
#include "tests/support/nn_check.h"

/* ---- everything that a run computes, for comparison by bits ---- */

typedef struct {
    double v[60000];
    int64_t n;
} record;

static record first, again;

static void note(record *r, ct_tensor *t) {
    no_error();
    ck_assert_ptr_nonnull(t);
    ck_assert_int_le(r->n + ct_numel(t), 60000);
    ck_assert(ct_to_f64(t, r->v + r->n, ct_numel(t)));
    r->n += ct_numel(t);
}

static void same_bits(const char *what) {
    ck_assert_int_eq(first.n, again.n);
    for (int64_t i = 0; i < first.n; i++)
        if (memcmp(&first.v[i], &again.v[i], sizeof(double)))
            ck_abort_msg("%s: value %d is %g, not %g", what, (int)i, again.v[i], first.v[i]);
}

static ct_module *shake(ct_module *module) { /* no bias is zero, no norm one */
    no_error();
    for (ct_param p = {0}; ct_module_next(module, &p);)
        if (ct_ndim(p.tensor) == 1) ct_init_normal(p.tensor, 0.5, 0.5);
    return module;
}

/* Rows x[b, i] for which `hidden` says so hold `value`. */
static void overwrite(ct_tensor *x, const bool *hidden, double value) {
    const int64_t rows = ct_dim(x, 0) * ct_dim(x, 1), width = ct_dim(x, 2);
    for (int64_t i = 0; i < rows * width; i++) {
        if (!hidden[i / width]) continue;
        if (ct_dtype_of(x) == CT_F32) ct_data_f32(x)[i] = (float)value;
        else ct_data_f64(x)[i] = value;
    }
}

static void rows_are_zero(ct_tensor *grad, const bool *hidden, const char *what) {
    const int64_t width = ct_dim(grad, 2);
    double *g = values(grad);
    for (int64_t i = 0; i < ct_numel(grad); i++)
        if (hidden[i / width] && g[i] != 0)
            ck_abort_msg("%s: the gradient of a hidden row is %g", what, g[i]);
    free(g);
}

static ct_tensor *input(ct_dtype dtype, int64_t b, int64_t n, int64_t width) {
    return ct_set_requires_grad(ct_randn(context, dtype, CT_SHAPE(b, n, width)), true);
}

/* Runs backward with random cotangents and records outputs and gradients of parameters and inputs.
 */
static void finish(record *r, ct_module *module, ct_tensor **in, int inputs, ct_tensor **out,
                   int outputs) {
    ct_tensor *g[8];
    for (int i = 0; i < outputs; i++) {
        note(r, out[i]);
        g[i] = ct_randn(context, ct_dtype_of(out[i]), ct_shape_of(out[i]));
    }
    ck_assert_msg(ct_backward_with(out, g, outputs, (ct_backward_opts){0}), "%s",
                  ct_error_message(context));
    for (ct_param p = {0}; ct_module_next(module, &p);)
        if (ct_grad(p.tensor)) note(r, ct_grad(p.tensor));
    for (int i = 0; i < inputs; i++) note(r, ct_grad(in[i]));
}

/* ---- padding: rows that a key mask hides may hold any values ---- */

enum { B = 2, T = 5, S = 9, E = 16 };

/* hidden; the second sequence has no key */
static const bool padding[B * S] = {0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const double junk[] = {-3, 1e30, NAN, INFINITY, -INFINITY};
enum { JUNK = sizeof junk / sizeof *junk };

static ct_tensor *padding_mask(void) {
    bool real[B * S];
    for (int i = 0; i < B * S; i++) real[i] = !padding[i];
    return ct_from_bool(context, CT_SHAPE(B, S), real);
}

static const ct_mha_opts attentions[] = {
    {.num_heads = 4},
    {.num_heads = 2, .no_bias = true},
    {.num_heads = 2, .kdim = 6, .vdim = 3},
    {.num_heads = 4, .num_kv_heads = 2, .rope = true, .qk_norm = true, .no_bias = true},
    {.num_heads = 2, .add_bias_kv = true, .add_zero_attn = true, .qk_norm = true}};
enum { ATTENTIONS = sizeof attentions / sizeof *attentions };

/* Runs attention and backward with `value` in the padded rows of keys and values. keys = 1: k and v
 * are one tensor; 2: they are two; 3: the values are the queries, which a key mask does not clear.
 */
static void attend(record *r, ct_mha_opts opts, int keys, bool whole, ct_dtype dtype,
                   double value) {
    ct_seed(context, 5);
    r->n = 0;
    opts.embed_dim = E, opts.dtype = dtype;
    ct_module *mha = shake(ct_mha_new(context, opts));
    ct_tensor *q = input(dtype, B, T, E), *k = input(dtype, B, S, opts.kdim ? opts.kdim : E),
              *v = keys == 1 ? k : input(dtype, B, S, opts.vdim ? opts.vdim : E),
              *mask = padding_mask();
    overwrite(k, padding, value);
    if (v != k) overwrite(v, padding, value);
    ct_mha_out y = ct_mha_forward(
        mha, q, k, v, (ct_mha_call){.key_mask = mask, .need_weights = whole, .per_head = true});
    finish(r, mha, (ct_tensor *[]){q, k, v}, 3, (ct_tensor *[]){y.out, y.weights}, whole ? 2 : 1);
    rows_are_zero(ct_grad(k), padding, "keys");
    rows_are_zero(ct_grad(v), padding, "values");
    ct_module_free(mha);
}

START_TEST(padding_reaches_nothing) {
    ct_scope scope = ct_scope_open(context);
    const ct_mha_opts opts = attentions[_i % ATTENTIONS];
    const int keys = _i / ATTENTIONS % 2 && !opts.kdim ? 1 : 2;
    for (int which = 0; which < 4; which++) {
        attend(&first, opts, keys, which & 1, which & 2 ? CT_F64 : CT_F32, 0.5);
        for (int i = 0; i < JUNK; i++) {
            attend(&again, opts, keys, which & 1, which & 2 ? CT_F64 : CT_F32, junk[i]);
            same_bits(which & 1 ? "whole" : "fused");
        }
    }
    ct_scope_close(scope);
}
END_TEST

/* Separate keys with the queries as values, and the reverse: rows that are also queries are not
 * cleared. */
START_TEST(queries_are_never_cleared) {
    ct_module *mha =
        shake(ct_mha_new(context, (ct_mha_opts){.embed_dim = E, .num_heads = 2, .dtype = CT_F64}));
    ct_tensor *q = input(CT_F64, B, S, E), *other = input(CT_F64, B, S, E);
    ct_mha_call call = {.key_mask = padding_mask()};
    ct_tensor *copy = ct_add_scalar(q, 0); /* equal to the queries but another tensor: cleared */
    ck_assert_double_eq(distance(ct_mha_forward(mha, q, q, q, call).out,
                                 ct_mha_forward(mha, q, copy, copy, call).out),
                        0);
    ck_assert_double_eq(distance(ct_mha_forward(mha, q, q, other, call).out,
                                 ct_mha_forward(mha, q, copy, other, call).out),
                        0);
    overwrite(other, padding, NAN);
    ck_assert(isfinite(largest(ct_mha_forward(mha, q, q, other, call).out)));
    ck_assert(isfinite(largest(ct_mha_forward(mha, q, other, q, call).out)));
    ct_tensor *y = ct_mha_forward(mha, q, other, q, call).out;
    ck_assert(ct_backward(ct_sum(ct_mul(y, randn(CT_SHAPE(B, S, E))), CT_ALL, false)));
    for (ct_param p = {0}; ct_module_next(mha, &p);)
        ck_assert_msg(isfinite(largest(ct_grad(p.tensor))), "%s", p.name);
    rows_are_zero(ct_grad(other), padding, "other");
}
END_TEST

/* The same with a cache that is filled from it and then read. */
START_TEST(padding_in_a_cache) {
    ct_module *mha = shake(ct_mha_new(
        context,
        (ct_mha_opts){.embed_dim = E, .num_heads = 4, .num_kv_heads = 2, .dtype = CT_F64}));
    ct_tensor *q = input(CT_F64, B, T, E), *k = randn(CT_SHAPE(B, S, E)), *y[2];
    ct_mha_call call = {.key_mask = padding_mask()};
    ct_tensor *whole = ct_mha_forward(mha, q, k, k, call).out;
    overwrite(k, padding, NAN);
    call.cache = ct_kv_cache_new(mha, B, S);
    for (int i = 0; i < 2; i++) {
        y[i] = ct_mha_forward(mha, q, k, k, call).out;
        ck_assert_double_lt(distance(whole, y[i]), 1e-14);
    }
    ck_assert(ct_backward(ct_sum(y[0], CT_ALL, false)));
    ck_assert(isfinite(largest(ct_grad(q))));
    for (ct_param p = {0}; ct_module_next(mha, &p);)
        ck_assert_msg(!ct_grad(p.tensor) || isfinite(largest(ct_grad(p.tensor))), "%s", p.name);
    ct_kv_cache_free(call.cache);
}
END_TEST

/* Padding of memory in modules with cross-attention: a layer, a stack, a transformer's decoder. */
static void decode(record *r, int kind, bool whole, ct_dtype dtype, double value) {
    ct_seed(context, 5);
    r->n = 0;
    const ct_layer_opts opts = {.embed_dim = E,
                                .num_heads = 2,
                                .hidden = 20,
                                .norm_first = kind & 1,
                                .rms_norm = kind == 3,
                                .gated = kind == 3,
                                .dtype = dtype,
                                .attn = {.qk_norm = kind == 3, .num_kv_heads = kind == 3}};
    ct_module *all = shake(
        kind < 2   ? ct_decoder_layer_new(context, opts)
        : kind < 4 ? ct_decoder_new(context, opts, 2, true)
                   : ct_transformer_new(context, (ct_transformer_opts){.layer = opts,
                                                                       .num_encoder_layers = 1,
                                                                       .num_decoder_layers = 2}));
    ct_module *decoder = kind < 4 ? all : ct_module_child(all, "decoder");
    ct_tensor *x = input(dtype, B, T, E), *memory = input(dtype, B, S, E), *out[3] = {0};
    overwrite(memory, padding, value);
    ct_mha_call self = {.causal = true}, cross = {.key_mask = padding_mask(), .per_head = true};
    if (kind < 2) {
        cross.need_weights = whole;
        ct_layer_out y = ct_decoder_layer_forward(decoder, x, memory, self, cross);
        out[0] = y.out, out[1] = y.cross_weights;
    } else {
        out[0] = ct_decoder_forward(
            decoder, x, memory,
            (ct_stack_call){.self = self, .cross = cross, .cross_weights = whole ? out + 1 : NULL});
    }
    finish(r, all, (ct_tensor *[]){x, memory}, 2, out, whole ? kind < 2 ? 2 : 3 : 1);
    rows_are_zero(ct_grad(memory), padding, "memory");
    ct_module_free(all);
}

START_TEST(padding_of_a_memory) {
    for (int which = 0; which < 4; which++) {
        decode(&first, _i, which & 1, which & 2 ? CT_F64 : CT_F32, 0.5);
        for (int i = 0; i < JUNK; i++) {
            decode(&again, _i, which & 1, which & 2 ? CT_F64 : CT_F32, junk[i]);
            same_bits(which & 1 ? "whole" : "fused");
        }
    }
}
END_TEST

/* Padding in a whole transformer: padded rows are queries in the encoder too, but affect only
 * themselves. */
START_TEST(padding_of_a_source) {
    ct_module *t = shake(ct_transformer_new(
        context, (ct_transformer_opts){.layer = {.embed_dim = E, .num_heads = 2, .hidden = 20},
                                       .num_encoder_layers = 2,
                                       .num_decoder_layers = 2}));
    ct_tensor *src = ct_randn(context, CT_F32, CT_SHAPE(B, S, E)),
              *tgt = ct_randn(context, CT_F32, CT_SHAPE(B, T, E));
    ct_stack_call encoder = {.self.key_mask = padding_mask()},
                  decoder = {.self.causal = true, .cross.key_mask = padding_mask()};
    ct_tensor *y = ct_transformer_forward(t, src, tgt, encoder, decoder);
    for (int i = 0; i < JUNK; i++) {
        overwrite(src, padding, junk[i]);
        ck_assert_double_eq(distance(y, ct_transformer_forward(t, src, tgt, encoder, decoder)), 0);
    }
}
END_TEST

/* ---- masks: hidden finite rows change no bit ---- */

/* The last rows are hidden from the queries that the loss depends on, by each kind of mask: of
 * `shape`, bool or float, causal, or a key mask. */
typedef enum { KEY_MASK, CAUSAL, BOOL_MASK, FLOAT_MASK, MASKS } hider;

static ct_tensor *mask_of(hider by, int shape, int64_t b, int64_t h, int64_t n, int64_t seen,
                          ct_dtype dtype) {
    const ct_shape shapes[] = {CT_SHAPE(n, n), CT_SHAPE(n), CT_SHAPE(b, 1, 1, n),
                               CT_SHAPE(b, 1, n, n), CT_SHAPE(b, h, n, n)};
    const ct_shape s = by == KEY_MASK ? CT_SHAPE(b, n) : shapes[shape];
    ct_tensor *place = ct_arange(context, CT_I64, 0, (double)n, 1),
              *end = ct_full(context, CT_I64, CT_SCALAR, (double)seen);
    ct_tensor *open = ct_lt(place, end),
              *some = ct_gt(ct_rand(context, CT_F32, s), ct_full(context, CT_F32, CT_SCALAR, 0.2));
    ct_tensor *keep = ct_logical_and(some, open);
    if (by != FLOAT_MASK) return keep;
    return ct_where(keep, ct_randn(context, dtype, s),
                    ct_full(context, dtype, CT_SCALAR, -INFINITY));
}

static void look(record *r, ct_mha_opts opts, hider by, int shape, bool whole, ct_dtype dtype,
                 int64_t n, double value) {
    ct_seed(context, 6);
    r->n = 0;
    opts.embed_dim = E, opts.dtype = dtype;
    const int64_t seen = n * 2 / 3;
    bool hidden[2 * 70];
    for (int64_t i = 0; i < B * n; i++) hidden[i] = i % n >= seen;
    ct_module *mha = shake(ct_mha_new(context, opts));
    ct_tensor *q = input(dtype, B, n, E),
              *k = by == CAUSAL ? q : input(dtype, B, n, opts.kdim ? opts.kdim : E);
    ct_tensor *v = by == CAUSAL ? q : input(dtype, B, n, opts.vdim ? opts.vdim : E);
    overwrite(k, hidden, value);
    overwrite(v, hidden, -value);
    ct_mha_call call = {.causal = by == CAUSAL, .need_weights = whole, .per_head = true};
    if (by == KEY_MASK) call.key_mask = mask_of(by, 0, B, opts.num_heads, n, seen, dtype);
    else if (by != CAUSAL) call.mask = mask_of(by, shape, B, opts.num_heads, n, seen, dtype);
    ct_mha_out y = ct_mha_forward(mha, q, k, v, call);
    if (by == CAUSAL)
        y.out = ct_narrow(y.out, 1, 0, seen),
        y.weights = whole ? ct_narrow(y.weights, 2, 0, seen) : NULL;
    finish(r, mha, (ct_tensor *[]){q, k, v}, 3, (ct_tensor *[]){y.out, y.weights}, whole ? 2 : 1);
    rows_are_zero(ct_grad(k), hidden, "keys");
    rows_are_zero(ct_grad(v), hidden, "values");
    ct_module_free(mha);
}

START_TEST(hidden_rows_change_no_bit) {
    const ct_mha_opts opts = attentions[_i / 2 % ATTENTIONS];
    const int64_t n = _i % 2 ? 70 : 6;
    for (int which = 0; which < 4; which++)
        for (hider by = KEY_MASK; by < MASKS; by++) {
            if (by == CAUSAL && opts.kdim) continue;
            for (int shape = 0; shape < (by < BOOL_MASK ? 1 : 5); shape++) {
                ct_scope scope = ct_scope_open(context);
                look(&first, opts, by, shape, which & 1, which & 2 ? CT_F64 : CT_F32, n, 0.5);
                look(&again, opts, by, shape, which & 1, which & 2 ? CT_F64 : CT_F32, n, 300);
                same_bits(by == KEY_MASK    ? "key mask"
                          : by == CAUSAL    ? "causal"
                          : by == BOOL_MASK ? "bool mask"
                                            : "float mask");
                ct_scope_close(scope);
            }
        }
}
END_TEST

/* ---- weights ---- */

START_TEST(weights_are_shares) {
    int64_t ones = 0, zeros = 0;
    for (int which = 0; which < 4 * ATTENTIONS; which++) {
        const ct_dtype dtype = which & 1 ? CT_F64 : CT_F32;
        ct_mha_opts opts = attentions[which / 4];
        opts.embed_dim = E, opts.dtype = dtype;
        ct_module *mha = shake(ct_mha_new(context, opts));
        ct_tensor *q = ct_randn(context, dtype, CT_SHAPE(B, T, E)),
                  *k = ct_randn(context, dtype, CT_SHAPE(B, S, opts.kdim ? opts.kdim : E));
        ct_tensor *v = ct_randn(context, dtype, CT_SHAPE(B, S, opts.vdim ? opts.vdim : E));
        ct_tensor *rows = ct_gt(ct_rand(context, CT_F32, CT_SHAPE(T, 1)),
                                ct_full(context, CT_F32, CT_SCALAR, 0.4));
        ct_tensor *mask = ct_logical_and(rows, ct_gt(ct_rand(context, CT_F32, CT_SHAPE(T, S)),
                                                     ct_full(context, CT_F32, CT_SCALAR, 0.4)));
        if (which & 2)
            mask = ct_where(mask, ct_randn(context, dtype, CT_SHAPE(T, S)),
                            ct_full(context, dtype, CT_SCALAR, -INFINITY));
        ct_mha_call call = {.mask = mask,
                            .key_mask = padding_mask(),
                            .causal = which & 2,
                            .need_weights = true,
                            .per_head = true};
        double *sum =
            values(ct_sum(ct_mha_forward(mha, q, k, v, call).weights, CT_DIMS(-1), false));
        for (int64_t i = 0; i < B * opts.num_heads * T; i++) {
            ck_assert_msg(sum[i] == 0 || fabs(sum[i] - 1) < (dtype == CT_F64 ? 1e-14 : 1e-6), "%g",
                          sum[i]);
            ones += sum[i] != 0, zeros += sum[i] == 0;
        }
        if (opts.add_bias_kv) /* no mask hides this key */
            for (int64_t i = 0; i < B * opts.num_heads * T; i++) ck_assert_double_gt(sum[i], 0.5);
        free(sum);
    }
    ck_assert_int_gt(ones, 100);
    ck_assert_int_gt(zeros, 100);
}
END_TEST

START_TEST(a_mask_of_one_number) { /* with the module's extra keys, which the mask does not cover */
    for (int which = 0; which < 2 * ATTENTIONS; which++) {
        ct_mha_opts opts = attentions[which / 2];
        opts.embed_dim = E, opts.dtype = CT_F64, opts.kdim = opts.vdim = 0;
        ct_module *mha = shake(ct_mha_new(context, opts));
        ct_tensor *x = randn(CT_SHAPE(B, S, E)),
                  *none = ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){0}).out;
        ct_tensor *mask = which & 1 ? ct_full(context, CT_BOOL, CT_SCALAR, true)
                                    : ct_zeros(context, CT_F64, CT_SCALAR);
        ck_assert_double_lt(
            distance(ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){.mask = mask}).out, none),
            1e-13);
    }
}
END_TEST

/* ---- order ---- */

static ct_tensor *reorder(ct_tensor *x, int dim, int64_t n, const int64_t *from) {
    ct_tensor *part[16];
    for (int64_t i = 0; i < n; i++) part[i] = ct_select(x, dim, from[i]);
    return ct_stack(part, (int)n, dim);
}

/* Self-attention without positions is equivariant: permuted tokens give permuted results. */
START_TEST(tokens_may_be_permuted) {
    static const int64_t to[S] = {4, 7, 0, 8, 2, 6, 1, 3, 5};
    for (int which = 0; which < 2 * ATTENTIONS; which++) {
        ct_mha_opts opts = attentions[which / 2];
        opts.embed_dim = E, opts.dtype = CT_F64, opts.rope = false, opts.kdim = opts.vdim = 0;
        ct_module *mha = shake(ct_mha_new(context, opts));
        ct_tensor *x = input(CT_F64, B, S, E),
                  *moved = ct_set_requires_grad(ct_detach(reorder(x, 1, S, to)), true);
        ct_tensor *g = randn(CT_SHAPE(B, S, E)), *moved_g = reorder(g, 1, S, to);
        const ct_mha_call call = {.need_weights = which & 1, .per_head = true};
        ct_mha_out y = ct_mha_forward(mha, x, NULL, NULL, call);
        ck_assert(ct_backward_with(&y.out, &g, 1, (ct_backward_opts){0}));
        ct_tensor *of_weights = ct_add_scalar(ct_grad(ct_module_get(mha, "out_proj.weight")), 0);
        for (ct_param p = {0}; ct_module_next(mha, &p);) ct_zero_grad(p.tensor);
        ct_mha_out z = ct_mha_forward(mha, moved, NULL, NULL, call);
        ck_assert(ct_backward_with(&z.out, &moved_g, 1, (ct_backward_opts){0}));
        ck_assert_double_lt(distance(z.out, reorder(y.out, 1, S, to)), 1e-12);
        ck_assert_double_lt(distance(ct_grad(moved), reorder(ct_grad(x), 1, S, to)), 1e-12);
        ck_assert_double_lt(distance(ct_grad(ct_module_get(mha, "out_proj.weight")), of_weights),
                            1e-11);
        ck_assert_double_gt(distance(ct_grad(moved), ct_grad(x)), 1e-3);
        if (!(which & 1)) continue;
        /* without the extra keys */
        ct_tensor *own = ct_narrow(y.weights, 3, 0, S), *moved_own = ct_narrow(z.weights, 3, 0, S);
        ck_assert_double_lt(distance(moved_own, reorder(reorder(own, 2, S, to), 3, S, to)), 1e-13);
    }
    ct_module *stack = shake(ct_encoder_new(
        context, (ct_layer_opts){.embed_dim = E, .num_heads = 4, .dtype = CT_F64}, 2, true));
    ct_tensor *x = randn(CT_SHAPE(B, S, E));
    ck_assert_double_lt(
        distance(ct_forward(stack, reorder(x, 1, S, to)), reorder(ct_forward(stack, x), 1, S, to)),
        1e-12);
}
END_TEST

int main(void) {
    return run_tests(
        "mha properties", setup, teardown,
        TESTS(LOOP(padding_reaches_nothing, 2 * ATTENTIONS), TEST(queries_are_never_cleared),
              TEST(padding_in_a_cache), LOOP(padding_of_a_memory, 5), TEST(padding_of_a_source),
              LOOP(hidden_rows_change_no_bit, 2 * ATTENTIONS), TEST(weights_are_shares),
              TEST(a_mask_of_one_number), TEST(tokens_may_be_permuted)));
}
