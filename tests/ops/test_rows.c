/* Softmaxes, norms, look-ups, dropout and rotary positions, beside test_ops.c: masked elements,
 * error messages, streams of the generator. */
#include "rows_check.h"

/* ---- softmaxes ---- */

START_TEST(softmax_of_extremes) {
    ct_tensor *x =
        REALS(CT_SHAPE(3, 3), 1e4, 1e4, -1e4, -INFINITY, 0, 0, -INFINITY, -INFINITY, -INFINITY);
    IS(ct_softmax(x, -1), 0.5, 0.5, 0, 0, 0.5, 0.5, NAN, NAN, NAN);
    IS(ct_masked_softmax(x, NULL, -1), 0.5, 0.5, 0, 0, 0.5, 0.5, 0, 0, 0);
    NEAR(ct_logsumexp(x, -1), 1e-11, 1e4 + log(2), log(2), -INFINITY);
    ct_tensor *y = ct_logsumexp(x, -1);
    ct_zero_grad(x);
    backward(y);
    NEAR(ct_grad(x), 1e-12, 0.5, 0.5, 0, 0, 1, 1, 0, 0, 0);
    IS(ct_logsumexp(of(CT_F64, CT_SHAPE(2, 0)), 1), -INFINITY, -INFINITY);
    double sum =
        ct_item(ct_sum(ct_softmax(ct_randn(context, CT_F64, CT_SHAPE(100)), 0), CT_ALL, false));
    ck_assert_double_eq_tol(sum, 1, 1e-14);
}
END_TEST

START_TEST(hidden_values_are_not_read) {
    const double nan = NAN, inf = INFINITY;
    ct_tensor *x = REALS(CT_SHAPE(2, 2, 3), 0, nan, 0, nan, nan, nan, inf, 1, 1, nan, -inf, 3);
    ct_tensor *mask =
        ct_view(BOOL(true, false, true, false, false, false, false, true, true, false, true, true),
                CT_SHAPE(2, 2, 3));
    ct_tensor *y = ct_masked_softmax(x, mask, -1);
    IS(y, 0.5, 0, 0.5, 0, 0, 0, 0, 0.5, 0.5, 0, 0, 1);
    backward(y); /* cotangent 1 ... 12 */
    IS(ct_grad(x), -0.5, 0, 0.5, 0, 0, 0, 0, -0.25, 0.25, 0, 0, 0);
    ck_assert(!signbit(ct_data_f64(y)[1]));
    /* along another dim, and masks of every broadcast shape */
    IS(ct_masked_softmax(ct_transpose(x, 1, 2), ct_transpose(mask, 1, 2), 1), 0.5, 0, 0, 0, 0.5, 0,
       0, 0, 0.5, 0, 0.5, 1);
    ct_tensor *ones = of(CT_F64, CT_SHAPE(2, 2, 3));
    IS(ct_masked_softmax(ones, BOOL(true, false, true), -1), 0.5, 0, 0.5, 0.5, 0, 0.5, 0.5, 0, 0.5,
       0.5, 0, 0.5);
    IS(ct_masked_softmax(ones, ct_view(BOOL(false, true), CT_SHAPE(2, 1, 1)), -2), 0, 0, 0, 0, 0, 0,
       0.5, 0.5, 0.5, 0.5, 0.5, 0.5);
    IS(ct_masked_softmax(
           ones,
           ct_transpose(ct_view(BOOL(true, false, false, true, true, true), CT_SHAPE(3, 2)), 0, 1),
           -1),
       0.5, 0, 0.5, 0, 0.5, 0.5, 0.5, 0, 0.5, 0, 0.5, 0.5);
    IS(ct_masked_softmax(
           ones,
           ct_narrow(ct_view(BOOL(true, false, true, true, false, true), CT_SHAPE(2, 3)), 1, 0, 1),
           1),
       0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5);
    ct_tensor *scalar = of(CT_F64, CT_SCALAR);
    IS(ct_masked_softmax(scalar, ct_view(BOOL(false), CT_SCALAR), 0), 0);
    FAILS(ct_masked_softmax(ones, of(CT_F64, CT_SHAPE(3)), -1), CT_ERR_DTYPE, "masked_softmax");
    FAILS(ct_masked_softmax(ones, of(CT_BOOL, CT_SHAPE(4, 2, 2, 3)), -1), CT_ERR_SHAPE,
          "masked_softmax: the mask (4, 2, 2, 3) does not broadcast to (2, 2, 3)");
    FAILS(ct_masked_softmax(ones, of(CT_BOOL, CT_SHAPE(2)), -1), CT_ERR_SHAPE,
          "(2) does not broadcast to (2, 2, 3)");
    FAILS(ct_softmax(ones, 3), CT_ERR_SHAPE, "softmax: no dim 3");
    FAILS(ct_log_softmax(of(CT_I64, CT_SHAPE(2)), 0), CT_ERR_DTYPE, "log_softmax");
    FAILS(ct_logsumexp(ones, -4), CT_ERR_SHAPE, "logsumexp: no dim -4");
    FAILS(ct_masked_softmax(NULL, of(CT_BOOL, CT_SHAPE(2)), -1), CT_ERR_ARGUMENT, "masked_softmax");
}
END_TEST

/* A (T, S) mask of (B, H, T, S) scores is read in place. */
START_TEST(masks_are_not_made_whole) {
    ct_tensor *x = of(CT_F32, CT_SHAPE(64, 8, 16, 16)), *mask = ct_causal_mask(context, 16, 16);
    int64_t live = ct_memory(context).live;
    ct_memory_reset_peak(context);
    ct_masked_softmax(x, mask, -1);
    ck_assert_int_lt(ct_memory(context).peak - live, 64 * 8 * 16 * 16 * 5);
}
END_TEST

/* ---- norms ---- */

START_TEST(norms) {
    ct_tensor *x = REALS(CT_SHAPE(2, 4), 1e8 + 1, 1e8 + 2, 1e8 + 3, 1e8 + 4, 5, 5, 5, 5);
    double r = 1 / sqrt(1.25);
    NEAR(ct_layer_norm(x, NULL, NULL, 0), 1e-9, -1.5 * r, -0.5 * r, 0.5 * r, 1.5 * r, NAN, NAN, NAN,
         NAN);
    NEAR(ct_narrow(ct_layer_norm(x, NULL, F64(1, 2, 3, 4), 1e-5), 0, 1, 1), 0, 1, 2, 3, 4);
    NEAR(ct_narrow(ct_rms_norm(x, F64(1, 2, 3, 4), 0), 0, 1, 1), 1e-15, 1, 2, 3, 4);
    has_shape(ct_layer_norm(of(CT_F32, CT_SHAPE(3, 0)), NULL, NULL, 1e-5), CT_SHAPE(3, 0));
    has_shape(ct_rms_norm(of(CT_F32, CT_SHAPE(3, 0)), of(CT_F32, CT_SHAPE(0)), 1e-5),
              CT_SHAPE(3, 0));

    /* no rows: gradients are zeros, not NULL */
    ct_tensor *none = of(CT_F64, CT_SHAPE(0, 4)), *w = F64(1, 1, 1, 1), *b = F64(1, 1, 1, 1);
    ct_set_requires_grad(none, true);
    backward(ct_layer_norm(none, w, b, 1e-5));
    IS(ct_grad(w), 0, 0, 0, 0);
    IS(ct_grad(b), 0, 0, 0, 0);
    FAILS(ct_layer_norm(x, of(CT_F64, CT_SHAPE(3)), NULL, 1e-5), CT_ERR_SHAPE,
          "layer_norm: the weight (3) is not the last dim of (2, 4)");
    FAILS(ct_layer_norm(x, NULL, of(CT_F64, CT_SHAPE(1, 4)), 1e-5), CT_ERR_SHAPE,
          "layer_norm: the bias (1, 4)");
    FAILS(ct_rms_norm(x, of(CT_F64, CT_SHAPE(2)), 1e-5), CT_ERR_SHAPE, "rms_norm: the weight (2)");
    FAILS(ct_rms_norm_offset(x, NULL, 1e-5, NAN), CT_ERR_ARGUMENT, "rms_norm: the offset is");
    FAILS(ct_rms_norm_offset(x, NULL, 1e-5, INFINITY), CT_ERR_ARGUMENT, "must be finite");
    FAILS(ct_rms_norm(x, of(CT_F32, CT_SHAPE(4)), 1e-5), CT_ERR_DTYPE,
          "rms_norm: dtypes differ: f64 and f32");
    FAILS(ct_layer_norm(of(CT_F64, CT_SCALAR), NULL, NULL, 1e-5), CT_ERR_SHAPE,
          "layer_norm: a scalar");
}
END_TEST

/* Rows with a large mean and a small deviation lose no accuracy in f32, forward and backward. */
START_TEST(a_large_mean_costs_no_digits) {
    enum { ROWS = 3, N = 37, ALL = ROWS * N };
    double x[ALL], y[2][ALL], dx[2][ALL];
    for (int i = 0; i < ALL; i++) x[i] = 20000 + (double)(i * 29 % 41) / 16;
    for (int d = 0; d < 2; d++) {
        ct_tensor *in = ct_set_requires_grad(
            ct_cast(ct_from_f64(context, CT_SHAPE(ROWS, N), x), d ? CT_F64 : CT_F32), true);
        ct_tensor *out = ct_layer_norm(in, NULL, NULL, 1e-5);
        backward(out);
        ck_assert(ct_to_f64(out, y[d], ALL) && ct_to_f64(ct_grad(in), dx[d], ALL));
    }
    double largest = 0;
    for (int i = 0; i < ALL; i++) largest = fmax(largest, fabs(dx[1][i]));
    for (int i = 0; i < ALL; i++) {
        ck_assert_double_eq_tol(y[0][i], y[1][i], 1e-6);
        ck_assert_double_eq_tol(dx[0][i], dx[1][i], 3e-6 * largest);
    }
}
END_TEST

/* Sums over many rows have the error of pairwise summation: a running f32 sum of 0.1 is off by 1.4
 * after 100,000 of them. */
START_TEST(sums_over_rows_are_exact) {
    enum { ROWS = 100000 };
    ct_tensor *x = ct_rand(context, CT_F32, CT_SHAPE(ROWS, 2)),
              *b = ct_set_requires_grad(of(CT_F32, CT_SHAPE(2)), true);
    ct_tensor *y = ct_layer_norm(x, NULL, b, 1e-5),
              *g = ct_full(context, CT_F32, CT_SHAPE(ROWS, 2), 0.1);
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    NEAR(ct_grad(b), ROWS * 4e-8, ROWS * (double)0.1f, ROWS * (double)0.1f);
}
END_TEST

/* ---- look-ups ---- */

START_TEST(look_ups) {
    ct_tensor *w = REALS(CT_SHAPE(3, 2), 0, 1, 10, 11, 20, 21),
              *ids = ct_view(I64(2, 0, 2, 2), CT_SHAPE(2, 2));
    IS(ct_embedding(ids, w), 20, 21, 0, 1, 20, 21, 20, 21);
    backward(ct_embedding(ids, w));
    IS(ct_grad(w), 3, 4, 0, 0, 1 + 5 + 7, 2 + 6 + 8);
    /* accumulated onto an earlier gradient */
    ck_assert(ct_backward(ct_sum(ct_embedding(I64(1), w), CT_ALL, false)));
    IS(ct_grad(w), 3, 4, 1, 1, 13, 16);
    FAILS(ct_embedding(ct_view(I64(0, 1, 2, 3), CT_SHAPE(2, 2)), w), CT_ERR_ARGUMENT,
          "embedding: index 3 at (1, 1) is outside [0, 3)");
    FAILS(ct_embedding(ct_view(I64(0, -1), CT_SHAPE(2, 1)), w), CT_ERR_ARGUMENT,
          "embedding: index -1 at (1, 0) is outside [0, 3)");
    FAILS(ct_embedding(ct_select(I64(9), 0, 0), w), CT_ERR_ARGUMENT,
          "index 9 at () is outside [0, 3)");
    FAILS(ct_embedding(I64(0), of(CT_F64, CT_SHAPE(3))), CT_ERR_SHAPE,
          "embedding: the weight (3) is not (V, D)");
    FAILS(ct_embedding(w, w), CT_ERR_DTYPE, "embedding");
    FAILS(ct_embedding(I64(0), of(CT_I64, CT_SHAPE(3, 2))), CT_ERR_DTYPE, "embedding");
    FAILS(ct_embedding(NULL, w), CT_ERR_ARGUMENT, "embedding: input 0 is NULL");

    ct_tensor *index = ct_view(I64(2, 0, 1, 1, 2, 2), CT_SHAPE(3, 2));
    IS(ct_gather(w, 0, index), 20, 1, 10, 11, 20, 21);
    FAILS(ct_gather(w, 1, index), CT_ERR_ARGUMENT, "gather: index 2 at (0, 0) is outside [0, 2)");
    FAILS(ct_gather(w, 1, ct_view(index, CT_SHAPE(6, 1))), CT_ERR_SHAPE,
          "gather: the index (6, 1) does not fit (3, 2) along dim 1");
    FAILS(ct_gather(w, 0, I64(0)), CT_ERR_SHAPE, "gather: the index (1) does not fit (3, 2)");
    FAILS(ct_gather(w, 2, index), CT_ERR_SHAPE, "gather: no dim 2");
    FAILS(ct_gather(w, 0, w), CT_ERR_DTYPE, "gather");
    IS(ct_gather(BOOL(true, false), 0, I64(1, 0, 0)), 0, 1, 1);
}
END_TEST

/* Many tokens, and columns in several pieces with a rest: each gradient is a sum of whole
 * numbers. */
/* A caller's buffer of indices may change after the forward: backward looks again before it
 * writes. */
START_TEST(indices_are_checked_again) {
    const struct {
        const char *name;
        int64_t outside;
    } ops[] = {{"embedding", 4},         {"gather", 4},
               {"gather", -1},           {"cross_entropy", 3},
               {"embedding", INT64_MIN}, {"cross_entropy", INT64_MAX}};
    for (int i = 0; i < (int)(sizeof ops / sizeof *ops); i++) {
        int64_t buffer[4] = {0, 1, 2, 1};
        ct_tensor *index = ct_wrap(context, CT_I64, CT_SHAPE(4), NULL, buffer);
        ct_tensor *x = ct_set_requires_grad(ct_ones(context, CT_F32, CT_SHAPE(4, 3)), true), *y;
        if (!strcmp(ops[i].name, "embedding")) y = ct_embedding(index, x);
        else if (!strcmp(ops[i].name, "gather")) y = ct_gather(ct_select(x, 1, 1), 0, index);
        else y = ct_cross_entropy(x, index, (ct_cross_entropy_opts){0});
        ct_tensor *loss = ct_sum(y, CT_ALL, false);
        ck_assert(loss);
        buffer[2] = ops[i].outside;
        FAILS(ct_backward(loss) ? loss : NULL, CT_ERR_ARGUMENT, "at (2) is outside");
        ck_assert(!ct_grad(x));
    }
}
END_TEST

START_TEST(embedding_of_wide_rows) {
    static const int64_t widths[] = {63, 64, 65, 128, 197};
    enum { TOKENS = 300 };
    int64_t ids[TOKENS];
    for (int i = 0; i < TOKENS; i++) ids[i] = i * i % 3;
    for (int k = 0; k < 5; k++) {
        const int64_t n = widths[k];
        ct_scope scope = ct_scope_open(context);
        ct_tensor *w = ct_set_requires_grad(of(CT_F64, CT_SHAPE(3, n)), true),
                  *y = ct_embedding(ct_from_i64(context, CT_SHAPE(TOKENS), ids), w);
        backward(y);
        const double *grad = ct_data_f64(ct_grad(w));
        for (int64_t v = 0; v < 3; v++)
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t i = 0; i < TOKENS; i++)
                    sum += ids[i] == v ? (double)(i * n + j + 1) : 0;
                ck_assert_msg(grad[v * n + j] == sum, "%d wide: dw[%d, %d] is %g, not %g", (int)n,
                              (int)v, (int)j, grad[v * n + j], sum);
            }
        ct_scope_close(scope);
    }
}
END_TEST

/* ---- dropout ---- */

START_TEST(dropout_drops) {
    enum { N = 40000 };
    ct_tensor *x = ct_set_requires_grad(ct_ones(context, CT_F64, CT_SHAPE(N)), true);
    for (int k = 1; k < 10; k += 4) {
        const double p = k / 10.0, scale = 1 / (1 - p);
        ct_tensor *y = ct_dropout(x, p, true), *again = ct_dropout(x, p, true);
        const double *v = ct_data_f64(y), *u = ct_data_f64(again);
        int dropped = 0, pairs = 0, same = 0;
        for (int i = 0; i < N; i++) {
            ck_assert(v[i] == 0 || fabs(v[i] - scale) < 1e-6);
            dropped += v[i] == 0;
            pairs += i > 0 && v[i] == 0 && v[i - 1] == 0;
            same += v[i] == 0 && u[i] == 0;
        }
        const double sd = sqrt(p * (1 - p) / N), sd2 = 2 * sqrt(p * p / N);
        ck_assert_msg(fabs((double)dropped / N - p) < 5 * sd, "p = %g: %d dropped", p, dropped);
        ck_assert_msg(fabs((double)pairs / N - p * p) < 5 * sd2,
                      "neighbours are not independent: %d", pairs);
        ck_assert_msg(fabs((double)same / N - p * p) < 5 * sd2, "two calls are not independent: %d",
                      same);
        ct_zero_grad(x);
        ck_assert(
            ct_backward(ct_sum(y, CT_ALL, false))); /* the generator's stream has advanced since */
        ck_assert_mem_eq(ct_data_f64(ct_grad(x)), v, N * sizeof *v);
    }
    IS(ct_dropout(F64(1, NAN, 3), 1, true), 0, 0, 0);
}
END_TEST

START_TEST(dropout_takes_a_stream_when_it_acts) {
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(40, 50));
    uint64_t stream = ct_rng_get(context).stream;
    ct_dropout(x, 0.5, false);
    ct_dropout(x, 0, true);
    ck_assert_uint_eq(ct_rng_get(context).stream, stream);
    ct_tensor *y = ct_dropout(x, 0.5, true);
    ck_assert_uint_eq(ct_rng_get(context).stream, stream + 1);
    ct_rng_set(context, (ct_rng){1, stream}); /* the mask depends on indices, not on strides */
    ct_tensor *strided =
        ct_dropout(ct_transpose(ct_contiguous(ct_transpose(x, 0, 1)), 0, 1), 0.5, true);
    ck_assert_mem_eq(ct_data_f32(y), ct_data_f32(strided), 2000 * sizeof(float));
    FAILS(ct_dropout(x, -0.1, true), CT_ERR_ARGUMENT, "dropout: p is -0.1, not in [0, 1]");
    FAILS(ct_dropout(x, 1.5, false), CT_ERR_ARGUMENT, "dropout: p is 1.5");
    FAILS(ct_dropout(x, NAN, true), CT_ERR_ARGUMENT, "dropout");
    FAILS(ct_dropout(of(CT_I64, CT_SHAPE(3)), 0.5, true), CT_ERR_DTYPE, "dropout");
    ck_assert_uint_eq(ct_rng_get(context).stream, stream + 1);
}
END_TEST

/* ---- rotary positions ---- */

static ct_tensor *position(int64_t p) { return ct_from_i64(context, CT_SHAPE(1), &p); }

START_TEST(rotary_positions) {
    ct_tensor *q = ct_randn(context, CT_F64, CT_SHAPE(1, 8)),
              *k = ct_randn(context, CT_F64, CT_SHAPE(1, 8));
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        double first = 0;
        /* dot products depend only on the distance */
        for (int64_t shift = -2; shift < 500; shift += 100) {
            ct_tensor *a =
                ct_rope(q, position(shift + 7), (ct_rope_opts){.interleaved = interleaved});
            ct_tensor *b = ct_rope(k, position(shift), (ct_rope_opts){.interleaved = interleaved});
            double dot = ct_item(ct_sum(ct_mul(a, b), CT_ALL, false));
            if (shift == -2) first = dot;
            ck_assert_double_eq_tol(dot, first, 1e-12);
        }
        double still[8];
        ct_to_f64(q, still, 8);
        near(ct_rope(q, NULL, (ct_rope_opts){.interleaved = interleaved}), still, 8, 0);
    }
    NEAR(ct_rope(REALS(CT_SHAPE(1, 4), 1, 0, 0, 1), position(2), (ct_rope_opts){.base = 100}),
         1e-15, cos(2), -sin(0.2), sin(2), cos(0.2));
    NEAR(ct_rope(REALS(CT_SHAPE(1, 4), 1, 0, 0, 1), position(2),
                 (ct_rope_opts){.base = 100, .interleaved = true}),
         1e-15, cos(2), sin(2), -sin(0.2), cos(0.2));
    FAILS(ct_rope(of(CT_F32, CT_SHAPE(2, 3)), NULL, (ct_rope_opts){0}), CT_ERR_SHAPE,
          "rope: (2, 3) is not (..., T, d) with an even d");
    FAILS(ct_rope(of(CT_F32, CT_SHAPE(4)), NULL, (ct_rope_opts){0}), CT_ERR_SHAPE, "rope: (4)");
    FAILS(ct_rope(of(CT_I64, CT_SHAPE(2, 4)), NULL, (ct_rope_opts){0}), CT_ERR_DTYPE, "rope");
    FAILS(ct_rope(q, NULL, (ct_rope_opts){.base = -1}), CT_ERR_ARGUMENT, "rope: base is -1");
}
END_TEST

int main(void) {
    return run_tests("rows", open_context, close_context,
                     TESTS(TEST(softmax_of_extremes), TEST(hidden_values_are_not_read),
                           TEST(masks_are_not_made_whole), TEST(norms),
                           TEST(sums_over_rows_are_exact), TEST(look_ups),
                           TEST(indices_are_checked_again), TEST(embedding_of_wide_rows),
                           TEST(dropout_drops), TEST(dropout_takes_a_stream_when_it_acts),
                           TEST(a_large_mean_costs_no_digits), TEST(rotary_positions)));
}
