/* Attention is compared with its scalar reference, with each kind of mask and with all together.
 * Drawing from logits is tested too. */
#include "tests/attention/reference_op.h"
#include "tests/support/op_check.h"

enum { B = 2, H = 4, T = 5, S = 6, D = 3, DV = 2 };

typedef struct {
    int kv_heads;
    bool causal, key_mask;
    /* 0 none, 1 bool (T, S), 2 bool (B, 1, T, S), 3 bool (B, H, T, S), 4 float (T, S), 5 float (B,
     * 1, 1, S), 6 float (H, T, S) */
    int mask;
    double scale;
} kind;

typedef struct {
    ct_tensor *q, *k, *v, *mask, *keys;
} given;

static ct_tensor *normal(ct_shape shape) {
    return ct_set_requires_grad(ct_randn(context, CT_F64, shape), true);
}

static given make(kind a) {
    given in = {.q = normal(CT_SHAPE(B, H, T, D)),
                .k = normal(CT_SHAPE(B, a.kv_heads, S, D)),
                .v = normal(CT_SHAPE(B, a.kv_heads, S, DV))};
    const ct_shape shapes[] = {
        CT_SCALAR,      CT_SHAPE(T, S),       CT_SHAPE(B, 1, T, S), CT_SHAPE(B, H, T, S),
        CT_SHAPE(T, S), CT_SHAPE(B, 1, 1, S), CT_SHAPE(H, T, S)};
    if (a.mask > 0) in.mask = ct_randn(context, CT_F64, shapes[a.mask]);
    if (a.mask > 0 && a.mask < 4) {
        in.mask = ct_gt(in.mask, ct_full(context, CT_F64, CT_SCALAR, -0.3));
        /* a row sees little or nothing */
        for (int j = 0; j < S; j++)
            ct_data_bool(in.mask)[S + j] = a.mask == 1 && j == 3 ? true : false;
    } else if (a.mask) {
        ct_data_f64(in.mask)[2] = -INFINITY;
        for (int j = 0; j < S && a.mask == 6; j++) ct_data_f64(in.mask)[3 * S + j] = -INFINITY;
        ct_set_requires_grad(in.mask, true);
    }
    if (a.key_mask) {
        in.keys = ct_ones(context, CT_BOOL, CT_SHAPE(B, S));
        for (int j = 0; j < S; j++) ct_data_bool(in.keys)[S + j] = j > 2;
        ct_data_bool(in.keys)[1] = false;
    }
    return in;
}

static double at4(ct_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
    const ct_shape s = ct_shape_of(t);
    return ct_data_f64(t)[((b * s.dim[1] + h) * s.dim[2] + i) * s.dim[3] + j];
}

static ct_attention_opts opts_of(kind a, given in) {
    return (ct_attention_opts){.mask = in.mask,
                               .key_mask = in.keys,
                               .causal = a.causal,
                               .scale = a.scale,
                               .need_weights = true};
}

static ct_attention_out attend(kind a, given in) {
    return ct_attention(in.q, in.k, in.v, opts_of(a, in));
}

static ct_tensor *attend_fn(ct_tensor *const *in, int n, void *arg) {
    const ct_attention_opts *opts = arg;
    ct_attention_opts own = *opts;
    if (n > 3) own.mask = in[3];
    return ct_attention(in[0], in[1], in[2], own).out;
}

START_TEST(every_mask_alone_and_together) {
    const int mask = _i % 7, heads[] = {4, 2, 1};
    kind a = {.kv_heads = heads[_i / 7 % 3],
              .causal = _i / 21 % 2,
              .key_mask = _i / 42 % 2,
              .mask = mask,
              .scale = _i % 2 ? 0 : 1.5};
    given in = make(a);
    ct_attention_out y = attend(a, in);
    ck_assert_msg(y.out && y.weights, "%s", ct_error_message(context));
    const ct_attention_out want = reference_attention(in.q, in.k, in.v, opts_of(a, in));
    int hidden_rows = 0;
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++)
            for (int64_t i = 0; i < T; i++) {
                double total = 0;
                for (int64_t j = 0; j < S; j++) {
                    const double got = at4(y.weights, b, h, i, j),
                                 w = at4(want.weights, b, h, i, j);
                    ck_assert_msg(w == 0 ? got == 0 : fabs(got - w) < 1e-14,
                                  "weight (%d %d %d %d): %g, not %g", (int)b, (int)h, (int)i,
                                  (int)j, got, w);
                    total += got;
                }
                for (int64_t e = 0; e < DV; e++)
                    ck_assert_double_eq_tol(at4(y.out, b, h, i, e), at4(want.out, b, h, i, e),
                                            1e-13);
                ck_assert(total == 0 || fabs(total - 1) < 1e-14);
                hidden_rows += total == 0;
            }
    if (mask == 2 || mask == 3 || mask == 6) ck_assert_int_gt(hidden_rows, 0);

    ct_attention_opts opts = {
        .key_mask = in.keys, .causal = a.causal, .scale = a.scale, .mask = in.mask};
    if (mask < 4) {
        ct_gradcheck_result r = ct_gradcheck(attend_fn, &opts, (ct_tensor *[]){in.q, in.k, in.v}, 3,
                                             (ct_gradcheck_opts){.fast = true});
        ck_assert_msg(r.ok, "%s %s", r.diagnosis, ct_error_message(context));
    }
    /* a row that sees nothing, and an entry that is hidden, send nothing: not NaN */
    backward(y.out);
    ct_tensor *all[] = {in.q, in.k, in.v, mask > 3 ? in.mask : in.q};
    for (int n = 0; n < 4; n++)
        for (int64_t k = 0; k < ct_numel(all[n]); k++)
            ck_assert(isfinite(ct_data_f64(ct_grad(all[n]))[k]));
    if (mask > 3) ck_assert_double_eq(ct_data_f64(ct_grad(in.mask))[2], 0);
    for (int64_t e = 0; e < D && (mask == 2 || mask == 3); e++)
        ck_assert_double_eq(ct_data_f64(ct_grad(in.q))[D + e], 0);
}
END_TEST

START_TEST(no_row_sees_anything) {
    given in = make((kind){.kv_heads = H});
    ct_tensor *nothing = of(CT_BOOL, CT_SHAPE(B, S));
    ct_attention_out y =
        ct_attention(in.q, in.k, in.v, (ct_attention_opts){.key_mask = nothing, .causal = true});
    ck_assert_ptr_null(y.weights);
    backward(y.out);
    double zeros[B * H * S * D] = {0};
    is(y.out, "out", zeros, B * H * T * DV);
    is(ct_grad(in.q), "dq", zeros, B * H * T * D);
    is(ct_grad(in.k), "dk", zeros, B * H * S * D);
    is(ct_grad(in.v), "dv", zeros, B * H * S * DV);
}
END_TEST

START_TEST(the_future_changes_no_bit) {
    given in = make((kind){.kv_heads = 2});
    ct_attention_opts opts = {.causal = true};
    ct_tensor *before = ct_add_scalar(ct_attention(in.q, in.k, in.v, opts).out, 0);
    for (int b = 0; b < B; b++)
        for (int h = 0; h < 2; h++)
            for (int e = 0; e < D; e++) ct_data_f64(in.k)[((b * 2 + h) * S + 3) * D + e] = 1e3;
    ct_tensor *after = ct_attention(in.q, in.k, in.v, opts).out;
    for (int64_t row = 0; row < B * H * T; row++) {
        const int same = !memcmp(ct_data_f64(before) + row * DV, ct_data_f64(after) + row * DV,
                                 DV * sizeof(double));
        ck_assert_int_eq(same, row % T < 3);
    }
}
END_TEST

START_TEST(heads_of_a_projection) { /* strided q, k, v: views of one (B, T, 3 E) */
    ct_tensor *packed = normal(CT_SHAPE(B, T, 3 * H * D)), *out[2], *grad[2];
    for (int dense = 0; dense < 2; dense++) {
        ct_tensor *part[3];
        ck_assert(ct_split(packed, H * D, -1, part, 3));
        for (int i = 0; i < 3; i++) {
            part[i] = ct_transpose(ct_view(part[i], CT_SHAPE(B, T, H, D)), 1, 2);
            if (dense) part[i] = ct_contiguous(part[i]);
        }
        ct_zero_grad(packed);
        out[dense] = ct_contiguous(
            ct_attention(part[0], part[1], part[2], (ct_attention_opts){.causal = true}).out);
        backward(out[dense]);
        grad[dense] = ct_add_scalar(ct_grad(packed), 0);
    }
    for (int64_t i = 0; i < ct_numel(out[0]); i++)
        ck_assert_double_eq_tol(ct_data_f64(out[0])[i], ct_data_f64(out[1])[i], 1e-14);
    for (int64_t i = 0; i < ct_numel(packed); i++)
        ck_assert_double_eq_tol(ct_data_f64(grad[0])[i], ct_data_f64(grad[1])[i], 1e-12);
}
END_TEST

START_TEST(dropped_weights) {
    given in = make((kind){.kv_heads = H});
    ct_tensor *whole =
        ct_attention(in.q, in.k, in.v, (ct_attention_opts){.need_weights = true}).weights;
    const uint64_t stream = ct_rng_get(context).stream;
    ct_attention_out y =
        ct_attention(in.q, in.k, in.v, (ct_attention_opts){.need_weights = true, .dropout = 0.5});
    ck_assert_uint_eq(ct_rng_get(context).stream, stream + 1);
    int dropped = 0;
    for (int64_t i = 0; i < B * H * T * S; i++) {
        const double w = ct_data_f64(y.weights)[i];
        ck_assert(w == 0 || fabs(w - 2 * ct_data_f64(whole)[i]) < 1e-14);
        dropped += w == 0;
    }
    ck_assert(dropped > B * H * T * S / 4 && dropped < B * H * T * S * 3 / 4);
    ct_tensor *again = ct_matmul(y.weights, in.v);
    for (int64_t i = 0; i < ct_numel(again); i++)
        ck_assert_double_eq_tol(ct_data_f64(again)[i], ct_data_f64(y.out)[i], 1e-14);
}
END_TEST

START_TEST(errors_of_attention) {
    ct_tensor *q = of(CT_F32, CT_SHAPE(2, 4, 5, 3)), *k = of(CT_F32, CT_SHAPE(2, 2, 6, 3)),
              *three = of(CT_F32, CT_SHAPE(2, 3, 6, 3));
    ct_attention_opts plain = {0};
    FAILS(ct_attention(q, three, three, plain).out, CT_ERR_SHAPE,
          "key heads of (2, 3, 6, 3) do not divide the query heads of (2, 4, 5, 3)");
    FAILS(ct_attention(q, k, three, plain).out, CT_ERR_SHAPE,
          "attention: q (2, 4, 5, 3), k (2, 2, 6, 3) and v (2, 3, 6, 3) do not fit");
    FAILS(ct_attention(q, of(CT_F32, CT_SHAPE(2, 2, 6, 4)), k, plain).out, CT_ERR_SHAPE,
          "k (2, 2, 6, 4)");
    FAILS(ct_attention(q, of(CT_F32, CT_SHAPE(2, 6, 3)), k, plain).out, CT_ERR_SHAPE,
          "k (2, 6, 3)");
    FAILS(ct_attention(q, ct_cast(k, CT_F64), k, plain).out, CT_ERR_DTYPE,
          "attention: q f32, k f64, v f32");
    FAILS(ct_attention(q, NULL, k, plain).out, CT_ERR_ARGUMENT, "attention: k is NULL");
    FAILS(ct_attention(NULL, k, k, plain).out, CT_ERR_ARGUMENT, "attention: q is NULL");
    FAILS(ct_attention(q, k, k, (ct_attention_opts){.mask = of(CT_BOOL, CT_SHAPE(6, 5))}).out,
          CT_ERR_SHAPE,
          "attention: the mask is (6, 5), not (T, S) = (5, 6), nor anything that broadcasts to (B, "
          "H, T, S) = (2, 4, 5, 6)");
    FAILS(ct_attention(q, k, k, (ct_attention_opts){.mask = of(CT_I64, CT_SHAPE(5, 6))}).out,
          CT_ERR_DTYPE, "attention: the mask is i64");
    FAILS(ct_attention(q, k, k, (ct_attention_opts){.mask = of(CT_F64, CT_SHAPE(5, 6))}).out,
          CT_ERR_DTYPE, "not bool or f32");
    FAILS(ct_attention(q, k, k, (ct_attention_opts){.key_mask = of(CT_BOOL, CT_SHAPE(2, 5))}).out,
          CT_ERR_SHAPE, "attention: the key mask is (2, 5), not (B, S) = (2, 6)");
    FAILS(ct_attention(q, k, k, (ct_attention_opts){.key_mask = of(CT_F32, CT_SHAPE(2, 6))}).out,
          CT_ERR_DTYPE, "the key mask is f32");
    FAILS(ct_attention(q, k, k, (ct_attention_opts){.dropout = 1.5}).out, CT_ERR_ARGUMENT,
          "attention: the dropout is 1.5");
    ck_assert_ptr_null(ct_attention(NULL, NULL, NULL, plain).out);
}
END_TEST

/* ---- drawing ---- */

static ct_tensor *repeated(const double *logit, int64_t v, int64_t n) {
    return ct_expand(ct_from_f64(context, CT_SHAPE(1, v), logit), CT_SHAPE(n, v));
}

START_TEST(greedy_and_narrow_choices) {
    const double logit[] = {1, 5, -2, 5, 4.9};
    int64_t out[50];
    const uint64_t stream = ct_rng_get(context).stream;
    ck_assert(ct_sample(repeated(logit, 5, 50), (ct_sample_opts){0}, out, 50));
    ck_assert_uint_eq(ct_rng_get(context).stream, stream); /* greedy takes none */
    for (int i = 0; i < 50; i++) ck_assert_int_eq(out[i], 1);
    const ct_sample_opts one[] = {{.temperature = 1, .top_k = 1},
                                  {.temperature = 100, .top_p = 1e-9},
                                  {.temperature = 100, .top_k = 3, .top_p = 0.3}};
    for (int k = 0; k < 3; k++) {
        ck_assert(ct_sample(repeated(logit, 5, 50), one[k], out, 50));
        for (int i = 0; i < 50; i++) ck_assert_int_eq(out[i], 1); /* the first of equal logits */
    }
    ck_assert_uint_eq(ct_rng_get(context).stream, stream + 3);
    ck_assert(ct_sample(repeated(logit, 5, 50), (ct_sample_opts){.temperature = 1e-300}, out, 50));
    for (int i = 0; i < 50; i++) ck_assert(out[i] == 1 || out[i] == 3);
    ck_assert(ct_sample(repeated(logit, 5, 50), (ct_sample_opts){.temperature = 9, .min_p = 1}, out,
                        50)); /* all of the largest */
    for (int i = 0; i < 50; i++) ck_assert(out[i] == 1 || out[i] == 3);
    const double certain[] = {-INFINITY, 0, -INFINITY}, endless[] = {3, INFINITY, 1e308};
    ck_assert(ct_sample(repeated(certain, 3, 50), (ct_sample_opts){.temperature = 5, .top_k = 3},
                        out, 50));
    for (int i = 0; i < 50; i++) ck_assert_int_eq(out[i], 1);
    ck_assert(ct_sample(repeated(endless, 3, 50), (ct_sample_opts){.temperature = 5}, out, 50));
    for (int i = 0; i < 50; i++) ck_assert_int_eq(out[i], 1);
    ck_assert(ct_sample(of(CT_F32, CT_SHAPE(0, 3)), (ct_sample_opts){.temperature = 1}, out, 0));
}
END_TEST

START_TEST(frequencies_are_the_probabilities) {
    enum { N = 20000, V = 6 };
    const double logit[V] = {0.5, -INFINITY, 2, 1, -1, 1.5};
    static int64_t out[N];
    /* The largest logits are 2, 1.5, 1, 0.5 and -1. Their probabilities at temperature 1 are .44,
     * .27, .16, .10 and .022, and .44 + .27 reach .6. */
    const struct {
        ct_sample_opts opts;
        bool kept[V];
    } tries[] = {{{.temperature = 1}, {1, 0, 1, 1, 1, 1}},
                 {{.temperature = 2}, {1, 0, 1, 1, 1, 1}},
                 {{.temperature = 1, .top_k = 3}, {0, 0, 1, 1, 0, 1}},
                 {{.temperature = 1, .top_k = 9}, {1, 0, 1, 1, 1, 1}},
                 {{.temperature = 1, .top_p = 0.6}, {0, 0, 1, 0, 0, 1}},
                 {{.temperature = 1, .top_p = 1}, {1, 0, 1, 1, 1, 1}},
                 {{.temperature = 1, .top_k = 2, .top_p = 0.63}, {0, 0, 1, 0, 0, 1}},
                 /* ratios to the largest: 1, .61, .37, .22, .050; at temperature 2 1, .78, .61,
                  * .47, .22. After top_k and top_p only the remaining candidates count. */
                 {{.temperature = 1, .min_p = 0.3}, {0, 0, 1, 1, 0, 1}},
                 {{.temperature = 2, .min_p = 0.3}, {1, 0, 1, 1, 0, 1}},
                 {{.temperature = 1, .min_p = 0.05}, {1, 0, 1, 1, 0, 1}},
                 {{.temperature = 1, .min_p = 0.04}, {1, 0, 1, 1, 1, 1}},
                 {{.temperature = 1, .top_k = 2, .min_p = 0.3}, {0, 0, 1, 0, 0, 1}},
                 {{.temperature = 1, .top_k = 4, .min_p = 0.5}, {0, 0, 1, 0, 0, 1}},
                 {{.temperature = 1, .top_p = 0.8, .min_p = 0.5}, {0, 0, 1, 0, 0, 1}},
                 {{.temperature = 1, .top_p = 0.6, .min_p = 0.3}, {0, 0, 1, 0, 0, 1}}};
    for (size_t k = 0; k < sizeof tries / sizeof *tries; k++) {
        double p[V], sum = 0;
        int count[V] = {0};
        for (int i = 0; i < V; i++)
            sum += p[i] = tries[k].kept[i] ? exp(logit[i] / tries[k].opts.temperature) : 0;
        ck_assert(ct_sample(repeated(logit, V, N), tries[k].opts, out, N));
        for (int i = 0; i < N; i++) {
            ck_assert(out[i] >= 0 && out[i] < V);
            count[out[i]]++;
        }
        for (int i = 0; i < V; i++) {
            const double want = p[i] / sum, sd = sqrt(want * (1 - want) / N);
            ck_assert_msg(fabs((double)count[i] / N - want) <= 5 * sd,
                          "try %d: %d is drawn %d times of %d, not %.0f", (int)k, i, count[i], N,
                          want * N);
        }
    }
}
END_TEST

START_TEST(sampling_repeats_itself) {
    ct_tensor *logits = ct_randn(context, CT_F32, CT_SHAPE(40, 300));
    int64_t a[40], b[40];
    ct_seed(context, 9);
    ck_assert(ct_sample(logits, (ct_sample_opts){.temperature = 1, .top_k = 40}, a, 40));
    ck_assert(ct_sample(logits, (ct_sample_opts){.temperature = 1, .top_k = 40}, b, 40));
    ck_assert(memcmp(a, b, sizeof a) != 0);
    ct_seed(context, 9);
    ck_assert(ct_sample(ct_transpose(ct_contiguous(ct_transpose(logits, 0, 1)), 0, 1),
                        (ct_sample_opts){.temperature = 1, .top_k = 40}, b, 40));
    ck_assert_mem_eq(a, b, sizeof a);
}
END_TEST

static void refuses(ct_tensor *logits, ct_sample_opts opts, int64_t n, ct_status status,
                    const char *message) {
    int64_t out[2] = {7, 7};
    const uint64_t stream = ct_rng_get(context).stream;
    ck_assert(!ct_sample(logits, opts, out, n));
    ck_assert_msg(ct_error(context) == status && strstr(ct_error_message(context), message),
                  "\"%s\"", ct_error_message(context));
    ct_error_clear(context);
    /* nothing has changed */
    ck_assert(out[0] == 7 && out[1] == 7 && ct_rng_get(context).stream == stream);
}

START_TEST(errors_of_sampling) {
    const double bad[] = {0, 1, 2, NAN}, none[] = {0, 1, -INFINITY, -INFINITY};
    ct_tensor *x = of(CT_F32, CT_SHAPE(2, 3));
    ct_sample_opts plain = {.temperature = 1};
    refuses(ct_from_f64(context, CT_SHAPE(2, 2), bad), plain, 2, CT_ERR_ARGUMENT,
            "sample: the logit at (1, 1) is NaN");
    refuses(ct_from_f64(context, CT_SHAPE(2, 2), bad), (ct_sample_opts){0}, 2, CT_ERR_ARGUMENT,
            "NaN");
    refuses(ct_from_f64(context, CT_SHAPE(2, 2), none), plain, 2, CT_ERR_ARGUMENT,
            "sample: every logit of row 1 is -inf");
    refuses(x, (ct_sample_opts){.temperature = -1}, 2, CT_ERR_ARGUMENT,
            "sample: the temperature is -1");
    refuses(x, (ct_sample_opts){.temperature = NAN}, 2, CT_ERR_ARGUMENT, "temperature");
    refuses(x, (ct_sample_opts){.temperature = 1, .top_k = -1}, 2, CT_ERR_ARGUMENT, "top_k is -1");
    refuses(x, (ct_sample_opts){.temperature = 1, .top_p = 1.1}, 2, CT_ERR_ARGUMENT,
            "top_p is 1.1");
    static const double outside[] = {-0.1, 1.1, NAN, INFINITY, CT_ZERO};
    for (int i = 0; i < 5; i++)
        refuses(x, (ct_sample_opts){.temperature = 1, .min_p = outside[i]}, 2, CT_ERR_ARGUMENT,
                "min_p is");
    refuses(x, plain, 1, CT_ERR_SHAPE, "sample: logits (2, 3) are not (n, V) for n = 1");
    refuses(of(CT_F32, CT_SHAPE(2)), plain, 2, CT_ERR_SHAPE, "sample: logits (2)");
    refuses(of(CT_F32, CT_SHAPE(2, 0)), plain, 2, CT_ERR_SHAPE, "sample: logits (2, 0)");
    refuses(of(CT_I64, CT_SHAPE(2, 3)), plain, 2, CT_ERR_DTYPE, "sample");
    ck_assert(!ct_sample(x, plain, NULL, 2) && ct_error(context) == CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ck_assert(!ct_sample(NULL, plain, NULL, 0));
}
END_TEST

int main(void) {
    return run_tests("attention", open_context, close_context,
                     TESTS(LOOP(every_mask_alone_and_together, 7 * 3 * 2 * 2),
                           TEST(no_row_sees_anything), TEST(the_future_changes_no_bit),
                           TEST(heads_of_a_projection), TEST(dropped_weights),
                           TEST(errors_of_attention), TEST(greedy_and_narrow_choices),
                           TEST(frequencies_are_the_probabilities), TEST(sampling_repeats_itself),
                           TEST(errors_of_sampling)));
}
