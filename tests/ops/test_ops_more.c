/* Properties of single ops that the walk over ops.def does not test: order, look-ups, moments,
 * einsum; errors and their messages, NaN and ties, bounds, and large tensors that are split. */
#include "tests/support/op_check.h"

#define REALS(shape, ...)                                                                          \
    ct_set_requires_grad(ct_from_f64(context, shape, (double[]){__VA_ARGS__}), true)

/* ---- errors ---- */

START_TEST(what_is_refused) {
    ct_tensor *x = of(CT_F64, CT_SHAPE(2, 3)), *i = of(CT_I64, CT_SHAPE(2)),
              *b = of(CT_BOOL, CT_SHAPE(2)), *s = of(CT_F64, CT_SCALAR);
    FAILS(ct_sin(i), CT_ERR_DTYPE, "sin");
    FAILS(ct_cos(b), CT_ERR_DTYPE, "cos");
    FAILS(ct_floor(i), CT_ERR_DTYPE, "floor: does not take i64");
    FAILS(ct_sign(b), CT_ERR_DTYPE, "sign");
    FAILS(ct_clamp(b, 0, 1), CT_ERR_DTYPE, "clamp");
    FAILS(ct_clamp(i, 0.5, 1), CT_ERR_ARGUMENT, "clamp: i64 needs whole bounds, not 0.5 and 1");
    FAILS(ct_clamp(i, 0, NAN), CT_ERR_ARGUMENT, "clamp");
    FAILS(ct_var(i, CT_ALL, 1, false), CT_ERR_DTYPE, "var");
    FAILS(ct_var(x, CT_DIMS(2), 1, false), CT_ERR_SHAPE, "var: no dim 2");
    FAILS(ct_var(x, CT_ALL, NAN, false), CT_ERR_ARGUMENT, "var: the correction is NaN");
    FAILS(ct_min(b, CT_DIMS(1), false), CT_ERR_SHAPE, "min: no dim 1");
    FAILS(ct_min(of(CT_F64, CT_SHAPE(0, 3)), CT_ALL, false), CT_ERR_SHAPE,
          "min: no element to choose from in (0, 3)");
    FAILS(ct_any(x, CT_DIMS(0, 0), false), CT_ERR_SHAPE, "any: dim 0 is named twice");
    FAILS(ct_all(x, CT_DIMS(-3), false), CT_ERR_SHAPE, "all: no dim -3");
    FAILS(ct_cumsum(x, 2), CT_ERR_SHAPE, "cumsum: no dim 2");
    FAILS(ct_argsort(x, -3, false), CT_ERR_SHAPE, "argsort: no dim -3");
    FAILS(ct_topk(x, 4, 1).values, CT_ERR_ARGUMENT, "topk: no 4 largest in dim 1 of (2, 3)");
    FAILS(ct_topk(x, -1, 1).indices, CT_ERR_ARGUMENT, "topk: no -1 largest");
    FAILS(ct_topk(x, 1, 2).values, CT_ERR_SHAPE, "topk: no dim 2");
    FAILS(ct_topk(b, 1, 0).values, CT_ERR_DTYPE, "topk");
    FAILS(ct_index_select(x, 1, I64(0, 3)), CT_ERR_ARGUMENT,
          "index_select: index 3 at (1) is outside [0, 3)");
    FAILS(ct_index_select(x, 0, I64(-1)), CT_ERR_ARGUMENT, "index -1 at (0) is outside [0, 2)");
    FAILS(ct_index_select(x, 0, ct_view(I64(0, 1), CT_SHAPE(2, 1))), CT_ERR_SHAPE,
          "index_select: the index (2, 1) is not one dim of indices of (2, 3)");
    FAILS(ct_index_select(s, 0, I64(0, 0)), CT_ERR_SHAPE, "index_select: the index (2)");
    FAILS(ct_index_select(x, 0, x), CT_ERR_DTYPE, "index_select");
    FAILS(ct_index_select(x, 0, NULL), CT_ERR_ARGUMENT, "index_select: input 1 is NULL");
    FAILS(ct_index_add(x, 0, I64(2), of(CT_F64, CT_SHAPE(1, 3))), CT_ERR_ARGUMENT,
          "index_add: index 2 at (0) is outside [0, 2)");
    FAILS(ct_index_add(x, 0, I64(0), of(CT_F64, CT_SHAPE(2, 3))), CT_ERR_SHAPE,
          "index_add: src (2, 3) for 1 indices along dim 0 of (2, 3)");
    FAILS(ct_index_add(x, 0, I64(0), of(CT_F32, CT_SHAPE(1, 3))), CT_ERR_DTYPE, "index_add");
    FAILS(ct_index_add(b, 0, I64(0), of(CT_BOOL, CT_SHAPE(1))), CT_ERR_DTYPE, "index_add");
    FAILS(ct_one_hot(I64(0, 5), 5, CT_F32), CT_ERR_ARGUMENT,
          "one_hot: index 5 at (1) is outside [0, 5)");
    FAILS(ct_one_hot(I64(0), -1, CT_F32), CT_ERR_SHAPE, "one_hot");
    FAILS(ct_one_hot(I64(0), INT64_MAX / 2, CT_F32), CT_ERR_MEMORY, "one_hot: the size of");
    FAILS(ct_one_hot(x, 2, CT_F32), CT_ERR_DTYPE, "one_hot");
    FAILS(ct_one_hot(I64(0), 2, (ct_dtype)9), CT_ERR_DTYPE, "one_hot: there is no dtype 9");
    FAILS(ct_one_hot(of(CT_I64, CT_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), 2, CT_F32), CT_ERR_SHAPE,
          "8 dims already");
    FAILS(ct_pad(x, 0, -1, -2, 0), CT_ERR_SHAPE,
          "pad: -1 and -2 cut off more than dim 0 of (2, 3)");
    FAILS(ct_pad(x, 0, 9, -3, 0), CT_ERR_SHAPE, "pad: 9 and -3 cut off");
    FAILS(ct_pad(x, 0, INT64_MIN, 0, 0), CT_ERR_SHAPE, "pad");
    FAILS(ct_pad(x, 0, 0, INT64_MIN, 0), CT_ERR_SHAPE, "pad");
    FAILS(ct_pad(x, 0, INT64_MAX, 0, 0), CT_ERR_MEMORY, "pad: the size of dim 0 overflows");
    FAILS(ct_pad(x, 0, 1, INT64_MAX, 0), CT_ERR_MEMORY, "pad: the size of dim 0 overflows");
    FAILS(ct_pad(x, 0, 0, INT64_MAX / 16, 0), CT_ERR_MEMORY, "pad: the size of (");
    FAILS(ct_pad(s, 0, 1, 0, 0), CT_ERR_SHAPE, "pad: no dim 0");
    FAILS(ct_roll(s, 1, 0), CT_ERR_SHAPE, "roll: no dim 0");
    FAILS(ct_tril(i, 0), CT_ERR_SHAPE, "tril: (2) has fewer than two dims");
    ck_assert_ptr_null(ct_sin(NULL));
    ck_assert_ptr_null(ct_topk(NULL, 1, 0).values);
    ck_assert_ptr_null(ct_one_hot(NULL, 1, CT_F32));
    ck_assert_ptr_null(ct_einsum("i,i->i", NULL, NULL));
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

/* ---- one element at a time ---- */

START_TEST(bounds_and_steps) {
    ct_tensor *x = F64(-3, -0.25, 0, 0.75, 2, NAN, INFINITY);
    IS(ct_clamp(x, -0.25, 0.75), -0.25, -0.25, 0, 0.75, 0.75, NAN, 0.75);
    backward(ct_clamp(x, -0.25, 0.75));
    IS(ct_grad(x), 0, 2, 3, 4, 0, 0, 0);
    IS(ct_clamp(x, 5, 2), 2, 2, 2, 2, 2, NAN, 2);
    IS(ct_clamp(F64(1, 2), NAN, 3), NAN, NAN);
    IS(ct_clamp(F64(1, 2), 0, NAN), NAN, NAN);
    ct_tensor *whole = ct_clamp(I64(INT64_MIN, 7, INT64_MAX), -INFINITY, 1e30);
    ck_assert(ct_data_i64(whole)[0] == INT64_MIN && ct_data_i64(whole)[2] == INT64_MAX);
    IS(ct_clamp(I64(-9, 2, 9), -2, INFINITY), -2, 2, 9);
    IS(ct_sign(x), -1, -1, 0, 1, 1, 0, 1);
    IS(ct_sign(I64(INT64_MIN, 0, 5)), -1, 0, 1);
    IS(ct_floor(x), -3, -1, 0, 0, 2, NAN, INFINITY);
    ck_assert(signbit(ct_item(ct_floor(F64(-0.)))));
    const double big[] = {8388607.5, -8388607.5, 4194304.5, 16777216, -0.5, 0.5};
    IS(ct_floor(ct_cast(ct_from_f64(context, CT_SHAPE(6), big), CT_F32)), 8388607, -8388608,
       4194304, 16777216, -1, 0);
    ct_zero_grad(x);
    backward(ct_add(ct_sign(x), ct_floor(x)));
    IS(ct_grad(x), 0, 0, 0, 0, 0, 0, 0);
    IS(ct_isnan(x), 0, 0, 0, 0, 0, 1, 0);
    IS(ct_isnan(I64(1)), 0);
}
END_TEST

/* Next to a multiple of pi/2, and beyond the quick reduction. */
START_TEST(angles) {
    const double x[] = {0x1.921fb54442d18p+0,
                        0x1.921fb54442d18p+1,
                        1e22,
                        0x1.6ac5b262ca1ffp+849,
                        1048576,
                        1048577,
                        -1e300};
    const double sine[] = {1,
                           1.2246467991473532e-16,
                           -0.8522008497671888,
                           1,
                           0.2978202210317962,
                           -0.6424175766068973,
                           0.8178819121159085};
    const double cosine[] = {6.123233995736766e-17, -1, 0.5232147853951389,
                             -4.6871659242546277e-19};
    for (int i = 0; i < 7; i++) {
        ct_tensor *t = ct_full(context, CT_F64, CT_SCALAR, x[i]);
        if (i != 4 && i != 5 && i != 6)
            ck_assert_double_eq_tol(ct_item(ct_sin(t)), sine[i], 2.3e-16);
        ck_assert_double_eq_tol(ct_item(ct_sin(t)), sin(x[i]), 2.3e-16);
        ck_assert_double_eq_tol(ct_item(ct_cos(t)), cos(x[i]), 2.3e-16);
        if (i < 4) ck_assert_double_eq_tol(ct_item(ct_cos(t)) / cosine[i], 1, 1e-15);
    }
    ck_assert(signbit(ct_item(ct_sin(F64(-0.)))));
    IS(ct_cos(F64(INFINITY, -INFINITY, NAN, 0)), NAN, NAN, NAN, 1);
}
END_TEST

/* ---- reductions ---- */

START_TEST(truth) {
    ct_tensor *none = of(CT_F32, CT_SHAPE(0, 2));
    IS(ct_any(none, CT_DIMS(0), false), 0, 0);
    IS(ct_all(none, CT_DIMS(0), false), 1, 1);
    IS(ct_all(none, CT_ALL, false), 1);
    IS(ct_any(F64(0, NAN), CT_ALL, false), 1);
    IS(ct_all(I64(3, -2), CT_ALL, false), 1);
    IS(ct_all(I64(3, 0), CT_DIMS(0), true), 0);
    ck_assert_int_eq(ct_dtype_of(ct_any(F64(0), CT_ALL, false)), CT_BOOL);
    ct_tensor *many = ct_ones(context, CT_BOOL, CT_SHAPE(300000));
    IS(ct_all(many, CT_ALL, false), 1);
    ct_data_bool(many)[299999] = false;
    IS(ct_all(many, CT_ALL, false), 0);
    IS(ct_any(many, CT_ALL, false), 1);
}
END_TEST

START_TEST(smallest) {
    IS(ct_min(F64(2, NAN, 1), CT_ALL, false), NAN);
    IS(ct_min(ct_view(F64(2, NAN, 1, 3), CT_SHAPE(2, 2)), CT_DIMS(0), false), 1, NAN);
    ct_tensor *x = F64(3, 1, 1, 2, 1, 0, 0, 0);
    backward(ct_min(ct_view(x, CT_SHAPE(2, 4)), CT_DIMS(1), false));
    IS(ct_grad(x), 0, .5, .5, 0, 0, 2 / 3., 2 / 3., 2 / 3.);
    ck_assert_int_eq(ct_data_i64(ct_min(I64(INT64_MAX, INT64_MIN), CT_ALL, false))[0], INT64_MIN);
    for (int n = 1; n < 70; n++) { /* in every lane and the tail */
        ct_tensor *t = ct_ones(context, CT_F32, CT_SHAPE(n));
        ct_data_f32(t)[n * 7 % n] = -1, ct_data_f32(t)[n - 1] = -2;
        IS(ct_min(t, CT_ALL, false), -2);
    }
}
END_TEST

START_TEST(variances) {
    IS(ct_var(F64(1), CT_ALL, 1, false), NAN);
    IS(ct_var(F64(1, 2), CT_ALL, 2, false), INFINITY);
    IS(ct_var(F64(1, 2), CT_ALL, 3, false), INFINITY);
    IS(ct_var(F64(1, 2), CT_ALL, 0.5, false), 0.5 / 1.5);
    IS(ct_var(of(CT_F64, CT_SHAPE(0)), CT_ALL, 1, false), NAN);
    IS(ct_var(of(CT_F64, CT_SHAPE(2, 0)), CT_DIMS(1), 0, true), NAN, NAN);
    IS(ct_var(F64(1, INFINITY), CT_ALL, 1, false), NAN);
    IS(ct_var(ct_full(context, CT_F64, CT_SCALAR, 3), CT_DIMS(0), 0, false), 0);
    ct_tensor *one = F64(4);
    backward(ct_var(one, CT_ALL, 1, false));
    IS(ct_grad(one), NAN);

    /* cut into pieces, with a large mean: 0, 1, 2 and so on, three times over */
    enum { N = 200001 };
    const ct_shape shapes[] = {CT_SHAPE(N), CT_SHAPE(3, N / 3), CT_SHAPE(N / 3, 3)};
    for (int s = 0; s < 3; s++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = ct_add_scalar(ct_cast(ct_arange(context, CT_I64, 0, N, 1), CT_F64), 1e8);
        x = ct_set_requires_grad(ct_contiguous(ct_detach(ct_view(x, shapes[s]))), true);
        ct_tensor *y = ct_var(x, CT_ALL, 0, false);
        const double want = ((double)N * N - 1) / 12, mean = 1e8 + (N - 1) / 2.0;
        ck_assert_double_eq_tol(ct_item(y) / want, 1, 1e-14);
        ck_assert(ct_backward(y));
        for (int i = 0; i < N; i += 997)
            ck_assert_double_eq_tol(ct_data_f64(ct_grad(x))[i], 2 * (1e8 + i - mean) / N, 1e-13);
        ct_scope_close(scope);
    }
    ct_tensor *tall = ct_randn(context, CT_F32, CT_SHAPE(70000, 2));
    for (int d = 0; d < 2; d++) {
        ct_tensor *x = d ? tall : ct_add_scalar(tall, 1000);
        ct_tensor *mean = ct_mean(ct_cast(x, CT_F64), CT_DIMS(0), true),
                  *away = ct_sub(ct_cast(x, CT_F64), mean),
                  *want = ct_scale(ct_sum(ct_mul(away, away), CT_DIMS(0), false), 1 / 69999.0);
        double got[2], wanted[2];
        ck_assert(ct_to_f64(ct_var(x, CT_DIMS(0), 1, false), got, 2) && ct_to_f64(want, wanted, 2));
        for (int j = 0; j < 2; j++) ck_assert_double_eq_tol(got[j] / wanted[j], 1, 1e-7);
    }
}
END_TEST

START_TEST(running_sums) {
    IS(ct_cumsum(BOOL(true, false, true), 0), 1, 1, 2);
    ck_assert_int_eq(ct_dtype_of(ct_cumsum(BOOL(true), 0)), CT_I64);
    IS(ct_cumsum(F64(1, INFINITY, 2, -INFINITY, 3), 0), 1, INFINITY, INFINITY, NAN, NAN);
    IS(ct_cumsum(F64(1e100, 1, -1e100), 0), 1e100, 1e100, 1);
    ct_tensor *y = ct_cumsum(ct_full(context, CT_F32, CT_SHAPE(1 << 20), 0.1), 0);
    ck_assert_double_eq_tol(ct_data_f32(y)[(1 << 20) - 1] / ((1 << 20) * (double)0.1f), 1, 6e-8);
}
END_TEST

/* ---- order ---- */

START_TEST(order) {
    ct_tensor *x = F64(1, NAN, -INFINITY, INFINITY, NAN, 1, -1);
    IS(ct_argsort(x, 0, false), 2, 6, 0, 5, 3, 1, 4);
    IS(ct_argsort(x, 0, true), 1, 4, 3, 0, 5, 6, 2);
    IS(ct_argsort(F64(0, -0., 0, 1), 0, true), 3, 0, 1, 2);
    IS(ct_argsort(I64(3, INT64_MIN, INT64_MAX, 3), 0, false), 1, 0, 3, 2);
    IS(ct_argsort(BOOL(true, false, true, false), 0, false), 1, 3, 0, 2);
    IS(ct_argsort(ct_full(context, CT_F64, CT_SCALAR, 3), -1, false), 0);
    ct_topk_out t = ct_topk(x, 4, 0);
    IS(t.values, NAN, NAN, INFINITY, 1);
    IS(t.indices, 1, 4, 3, 0);
    ck_assert_int_eq(ct_dtype_of(t.indices), CT_I64);
    ck_assert(!ct_requires_grad(t.indices));
    backward(t.values);
    IS(ct_grad(x), 4, 1, 0, 3, 2, 0, 0);
    IS(ct_topk(I64(5, 7, 7, 6), 3, 0).indices, 1, 2, 3);
    has_shape(ct_topk(of(CT_F32, CT_SHAPE(2, 3)), 0, 1).values, CT_SHAPE(2, 0));
    IS(ct_topk(ct_full(context, CT_F64, CT_SCALAR, 3), 1, 0).values, 3);
    /* the indices are the caller's, too: backward looks at them */
    ct_tensor *y = F64(3, 1, 2);
    t = ct_topk(y, 2, 0);
    ct_data_i64(t.indices)[1] = 3;
    FAILS(ct_backward(ct_sum(t.values, CT_ALL, false)) ? y : NULL, CT_ERR_ARGUMENT,
          "topk: index 3 at (1) is outside [0, 3)");
    t = ct_topk(y, 2, 0);
    ct_data_i64(t.indices)[0] = -1;
    FAILS(ct_backward(ct_sum(t.values, CT_ALL, false)) ? y : NULL, CT_ERR_ARGUMENT,
          "topk: index -1 at (0) is outside [0, 3)");
    /* against a plain sort, with ties */
    enum { N = 3000 };
    ct_tensor *v = ct_floor(ct_scale(ct_rand(context, CT_F32, CT_SHAPE(N)), 100));
    const float *at = ct_data_f32(v);
    const int64_t *up = ct_data_i64(ct_argsort(v, 0, false)),
                  *down = ct_data_i64(ct_argsort(v, 0, true));
    for (int i = 1; i < N; i++) {
        ck_assert(at[up[i - 1]] < at[up[i]] || (at[up[i - 1]] == at[up[i]] && up[i - 1] < up[i]));
        ck_assert(at[down[i - 1]] > at[down[i]] ||
                  (at[down[i - 1]] == at[down[i]] && down[i - 1] < down[i]));
    }
}
END_TEST

START_TEST(permutations) {
    enum { N = 1000, DRAWS = 12000 };
    uint64_t stream = ct_rng_get(context).stream;
    bool seen[N] = {false};
    ct_tensor *y = ct_randperm(context, N);
    ck_assert_uint_eq(ct_rng_get(context).stream, stream + 1);
    for (int i = 0; i < N; i++) seen[ct_data_i64(y)[i]] = true;
    for (int i = 0; i < N; i++) ck_assert(seen[i]);
    FAILS(ct_randperm(context, -1), CT_ERR_SHAPE, "randperm: a size is negative");
    FAILS(ct_randperm(context, INT64_MAX), CT_ERR_MEMORY, "randperm: the size of");
    ck_assert_uint_eq(ct_rng_get(context).stream, stream + 1);
    ck_assert_ptr_null(ct_randperm(NULL, 3));
    const char *isa[] = {"scalar", "avx2", "avx512", "neon", "simd128"}; /* the same on each */
    for (int k = 0; k < 4; k++) {
        ct_context *other = ct_context_new((ct_context_opts){.seed = 1, .isa = isa[k]});
        ct_rng_set(other, (ct_rng){ct_rng_get(context).seed, stream});
        if (ct_error(other) == CT_OK)
            ck_assert_mem_eq(ct_data_i64(ct_randperm(other, N)), ct_data_i64(y), N * 8);
        ct_context_free(other);
    }
    /* each of the 24 orders of 4 some 500 times */
    int count[256] = {0};
    for (int i = 0; i < DRAWS; i++) {
        ct_tensor *p = ct_randperm(context, 4);
        const int64_t *at = ct_data_i64(p);
        count[at[0] | at[1] << 2 | at[2] << 4 | at[3] << 6]++;
        ct_release(p);
    }
    double chi = 0;
    int orders = 0;
    for (int i = 0; i < 256; i++)
        if (count[i]) orders++, chi += (count[i] - 500.) * (count[i] - 500.) / 500;
    ck_assert_int_eq(orders, 24);
    ck_assert_msg(chi < 50, "chi squared of 23 degrees: %g", chi);
}
END_TEST

START_TEST(even_steps) {
    IS(ct_linspace(context, CT_F64, 0, 1, 5), 0, 0.25, 0.5, 0.75, 1);
    IS(ct_linspace(context, CT_F32, 3, 7, 1), 3);
    has_shape(ct_linspace(context, CT_F32, 3, 7, 0), CT_SHAPE(0));
    IS(ct_linspace(context, CT_F64, -1e308, 1e308, 3), -1e308, 0, 1e308);
    ct_tensor *t = ct_linspace(context, CT_F32, -0.1, 0.1, 1001);
    const float *at = ct_data_f32(t);
    ck_assert(at[0] == -0.1f && at[1000] == 0.1f && at[500] == 0);
    for (int i = 0; i < 1001; i++) ck_assert(at[i] == -at[1000 - i]);
    FAILS(ct_linspace(context, CT_BOOL, 0, 1, 2), CT_ERR_DTYPE, "linspace: does not take bool");
    FAILS(ct_linspace(context, CT_F32, 0, INFINITY, 2), CT_ERR_ARGUMENT, "linspace");
    FAILS(ct_linspace(context, CT_F32, 0, 1, -2), CT_ERR_SHAPE, "linspace");
    FAILS(ct_linspace(context, CT_F32, 0, 1, INT64_MAX), CT_ERR_MEMORY, "linspace");
    FAILS(ct_linspace(context, (ct_dtype)7, 0, 1, 2), CT_ERR_DTYPE, "linspace");
}
END_TEST

/* ---- rows ---- */

START_TEST(rows_by_index) {
    ct_tensor *x = REALS(CT_SHAPE(3, 2), 0, 1, 10, 11, 20, 21), *index = I64(2, 0, 2);
    IS(ct_index_select(x, 0, index), 20, 21, 0, 1, 20, 21);
    IS(ct_index_select(BOOL(true, false), 0, I64(1, 1, 0)), 0, 0, 1);
    IS(ct_index_add(x, 0, index, REALS(CT_SHAPE(3, 2), 1, 2, 3, 4, 5, 6)), 3, 5, 10, 11, 26, 29);
    IS(x, 0, 1, 10, 11, 20, 21); /* as it was */
    IS(ct_index_add(I64(1, 2), 0, I64(1, 1), I64(5, 7)), 1, 14);
    /* a caller's buffer may change: backward looks again before it reads or writes */
    for (int add = 0; add < 2; add++) {
        int64_t buffer[2] = {0, 1};
        ct_tensor *i = ct_wrap(context, CT_I64, CT_SHAPE(2), NULL, buffer), *src = F64(5, 6),
                  *leaf = F64(1, 2, 3);
        ct_tensor *y = add ? ct_index_add(leaf, 0, i, src) : ct_index_select(leaf, 0, i);
        buffer[1] = 3;
        FAILS(ct_backward(ct_sum(y, CT_ALL, false)) ? y : NULL, CT_ERR_ARGUMENT,
              "index 3 at (1) is outside [0, 3)");
    }
    IS(ct_roll(I64(1, 2, 3), INT64_MIN, 0), 3, 1, 2);
    IS(ct_roll(I64(1, 2, 3), INT64_MAX, 0), 3, 1, 2);
    IS(ct_roll(I64(1, 2, 3), -4, 0), 2, 3, 1);
    IS(ct_pad(I64(1, 2, 3), 0, 1, -2, 2.7), 2, 1);
    IS(ct_pad(F64(1, 2, 3), 0, -3, 2, NAN), NAN, NAN);
    has_shape(ct_pad(F64(1, 2, 3), 0, -3, 0, 0), CT_SHAPE(0));
    ct_tensor *nan = REALS(CT_SHAPE(2, 2), 1, NAN, 2, 3);
    IS(ct_tril(nan, 0), 1, 0, 2, 3);
    IS(ct_tril(nan, INT64_MAX), 1, NAN, 2, 3);
    IS(ct_tril(nan, INT64_MIN), 0, 0, 0, 0);
    IS(ct_one_hot(I64(1, 0), 2, CT_BOOL), 0, 1, 1, 0);
    has_shape(ct_one_hot(of(CT_I64, CT_SHAPE(0)), 0, CT_F32), CT_SHAPE(0, 0));
}
END_TEST

/* ---- losses ---- */

START_TEST(reductions_and_weights) {
    ct_tensor *x = REALS(CT_SHAPE(2, 3), 1, 2, 3, 0, 0, 0), *t = I64(0, 1), *w = F64(1, 2, 3);
    ct_cross_entropy_opts batch = {.reduction = CT_BATCH_MEAN};
    FAILS(ct_cross_entropy(x, t, batch), CT_ERR_ARGUMENT,
          "cross_entropy: does not take reduction 3");
    FAILS(ct_cross_entropy(x, t, (ct_cross_entropy_opts){.reduction = (ct_reduction)7}),
          CT_ERR_ARGUMENT, "reduction 7");
    FAILS(ct_linear_cross_entropy(x, of(CT_F64, CT_SHAPE(4, 3)), t, batch), CT_ERR_ARGUMENT,
          "linear_cross_entropy: does not take");
    FAILS(ct_bce_with_logits(x, x, (ct_bce_opts){.reduction = CT_BATCH_MEAN}), CT_ERR_ARGUMENT,
          "bce_with_logits: does not take reduction 3");
    FAILS(ct_cross_entropy(x, t, (ct_cross_entropy_opts){.weight = F64(1, 2)}), CT_ERR_SHAPE,
          "cross_entropy: weights (2) for 3 classes");
    FAILS(ct_cross_entropy(x, t, (ct_cross_entropy_opts){.weight = ct_cast(w, CT_F32)}),
          CT_ERR_DTYPE, "cross_entropy: dtypes differ");
    FAILS(ct_bce_with_logits(x, w, (ct_bce_opts){0}), CT_ERR_SHAPE,
          "bce_with_logits: shapes differ: (2, 3) and target (3)");
    FAILS(ct_bce_with_logits(x, x, (ct_bce_opts){.pos_weight = F64(1, 2)}), CT_ERR_SHAPE,
          "bce_with_logits: pos_weight (2) does not broadcast to (2, 3)");
    FAILS(ct_bce_with_logits(t, t, (ct_bce_opts){0}), CT_ERR_DTYPE, "bce_with_logits");
    FAILS(ct_bce_with_logits(x, NULL, (ct_bce_opts){0}), CT_ERR_ARGUMENT, "input 1 is NULL");
    FAILS(ct_kl_div(x, F64(1, 2), (ct_kl_div_opts){0}), CT_ERR_SHAPE, "kl_div: shapes do not");
    FAILS(ct_kl_div(t, t, (ct_kl_div_opts){0}), CT_ERR_DTYPE, "kl_div");
    FAILS(ct_kl_div(x, ct_cast(x, CT_F32), (ct_kl_div_opts){0}), CT_ERR_DTYPE, "kl_div");

    /* weights have no gradient, though they ask for one */
    ct_tensor *y = ct_cross_entropy(x, I64(-100, 1), (ct_cross_entropy_opts){.weight = w});
    ck_assert_double_eq_tol(ct_item(y), log(3), 1e-15);
    backward(y);
    ck_assert_ptr_null(ct_grad(w));
    IS(ct_narrow(ct_grad(x), 0, 0, 1), 0, 0, 0);
    IS(ct_cross_entropy(x, I64(-100, -100), (ct_cross_entropy_opts){.weight = w}), 0);
    IS(ct_cross_entropy(x, t, (ct_cross_entropy_opts){.weight = of(CT_F64, CT_SHAPE(3))}), NAN);
    y = ct_cross_entropy(x, I64(-100, 1), (ct_cross_entropy_opts){.reduction = CT_NONE});
    has_shape(y, CT_SHAPE(2));
    ck_assert(ct_data_f64(y)[0] == 0);

    IS(ct_bce_with_logits(of(CT_F32, CT_SHAPE(0)), of(CT_F32, CT_SHAPE(0)), (ct_bce_opts){0}), NAN);
    ct_bce_opts each = {.reduction = CT_NONE};
    IS(ct_bce_with_logits(F64(-1e4, 1e4), F64(1, 0), each), 1e4, 1e4);
    IS(ct_bce_with_logits(F64(1e4, -1e4), F64(1, 0), each), 0, 0);
    IS(ct_bce_with_logits(F64(INFINITY, -INFINITY, NAN), F64(0, 1, 0.5), each), INFINITY, NAN, NAN);
    ct_tensor *p = F64(0, 0.5), *q = F64(0, 0);
    IS(ct_kl_div(q, p, (ct_kl_div_opts){.reduction = CT_NONE}), 0, 0.5 * log(0.5));
    backward(ct_kl_div(q, p, (ct_kl_div_opts){.reduction = CT_SUM}));
    IS(ct_grad(q), -0., -0.5);
    IS(ct_grad(p), NAN, log(0.5) + 1);
}
END_TEST

/* Of each row, in several blocks: the same as of logits made whole. */
START_TEST(linear_loss_of_each_row) {
    enum { N = 300, D = 3, C = 10000 };
    ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(N, D)), true);
    ct_tensor *w = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(C, D)), true);
    ct_tensor *t = of(CT_I64, CT_SHAPE(N)), *g = ct_randn(context, CT_F64, CT_SHAPE(N));
    for (int i = 0; i < N; i++) ct_data_i64(t)[i] = i % 7 == 3 ? -100 : i * 31 % C;
    ct_cross_entropy_opts opts = {.label_smoothing = 0.1,
                                  .reduction = CT_NONE,
                                  .weight = ct_rand(context, CT_F64, CT_SHAPE(C)),
                                  .z_loss = 1e-3};
    ct_tensor *y = ct_cross_entropy(ct_matmul(x, ct_transpose(w, 0, 1)), t, opts);
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    ct_tensor *dx = ct_scale(ct_grad(x), -1), *dw = ct_scale(ct_grad(w), -1);
    ct_zero_grad(x), ct_zero_grad(w);
    ct_tensor *z = ct_linear_cross_entropy(x, w, t, opts);
    ck_assert(ct_backward_with(&z, &g, 1, (ct_backward_opts){0}));
    ct_tensor *off[] = {ct_sub(y, z), ct_add(ct_grad(x), dx), ct_add(ct_grad(w), dw)};
    for (int i = 0; i < 3; i++)
        ck_assert_double_lt(ct_item(ct_max(ct_abs(off[i]), CT_ALL, false)), 1e-12);
}
END_TEST

/* ---- einsum ---- */

START_TEST(letters) {
    ct_tensor *a = of(CT_F64, CT_SHAPE(2, 3)), *b = of(CT_F64, CT_SHAPE(3, 4));
    FAILS(ct_einsum(NULL, a, b), CT_ERR_ARGUMENT, "einsum: the equation is NULL");
    FAILS(ct_einsum("ij,jk->ik", a, NULL), CT_ERR_ARGUMENT, "has not one operand, and b is NULL");
    FAILS(ct_einsum("ij,jk->ik", NULL, b), CT_ERR_ARGUMENT, "einsum: input 0 is NULL");
    FAILS(ct_einsum("....j,jk->k", a, b), CT_ERR_ARGUMENT, "'.' at 3");
    FAILS(ct_einsum("...i...->i", a, NULL), CT_ERR_ARGUMENT, "'.' at 4");
    FAILS(ct_einsum("..ij->i", a, NULL), CT_ERR_ARGUMENT, "'.' at 0");
    FAILS(ct_einsum("i...jk->i", a, NULL), CT_ERR_SHAPE, "operand 0 is \"ijk\" and (2, 3)");
    FAILS(ct_einsum("ij->...k", a, NULL), CT_ERR_ARGUMENT, "no operand has 'k'");
    FAILS(ct_einsum("...,...->...", a, b), CT_ERR_SHAPE, "'1' is 2 in (2, 3) \"10\" and 3 in");
    FAILS(ct_einsum("ii,ij->j", a, b), CT_ERR_ARGUMENT, "'i' stands twice in one operand");
    FAILS(ct_einsum("ij,jk->ii", a, b), CT_ERR_ARGUMENT, "'i' stands twice");
    FAILS(ct_einsum("ij,jk->ix", a, b), CT_ERR_ARGUMENT, "no operand has 'x'");
    FAILS(ct_einsum("ij->i", a, b), CT_ERR_ARGUMENT, "has not two operands");
    FAILS(ct_einsum("ij->i,j", a, b), CT_ERR_ARGUMENT, "has not two operands");
    FAILS(ct_einsum("ij,jk,k->i", a, b), CT_ERR_ARGUMENT, "',' at 5");
    FAILS(ct_einsum("ij,j1->i", a, b), CT_ERR_ARGUMENT, "'1' at 4");
    FAILS(ct_einsum("ijk,jk->i", a, b), CT_ERR_SHAPE, "operand 0 is \"ijk\" and (2, 3)");
    FAILS(ct_einsum("ij,j->i", a, b), CT_ERR_SHAPE, "operand 1 is \"j\" and (3, 4)");
    FAILS(ct_einsum("ij,kj->ik", a, b), CT_ERR_SHAPE,
          "einsum: 'j' is 3 in (2, 3) \"ij\" and 4 in (3, 4) \"kj\"");
    FAILS(ct_einsum("ij,jk->ik", a, ct_cast(b, CT_F32)), CT_ERR_DTYPE, "einsum");
    FAILS(ct_einsum("i,i->", I64(1), I64(1)), CT_ERR_DTYPE, "einsum");
    FAILS(ct_einsum("abcdefghi,a", a, b), CT_ERR_SHAPE, "more than 8 dims");
    FAILS(ct_einsum("abcdefgh,ijklmnop", of(CT_F64, CT_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)),
                    of(CT_F64, CT_SHAPE(1, 1, 1, 1, 1, 1, 1, 1))),
          CT_ERR_SHAPE, "a result of more than 8 dims");
    ct_tensor *wide = of(CT_F32, CT_SHAPE(2, 2, 2, 2, 2, 2, 2, 2));
    FAILS(ct_einsum("abcdefgh,aecgijkl->bdfhijkl", wide, wide), CT_ERR_SHAPE, "einsum: more than");
    /* nothing is copied: the product of two views takes its result and no more */
    ct_tensor *q = ct_transpose(ct_randn(context, CT_F32, CT_SHAPE(4, 64, 8, 32)), 1, 2);
    ct_tensor *k = ct_transpose(ct_randn(context, CT_F32, CT_SHAPE(4, 64, 8, 32)), 1, 2);
    ct_release(ct_einsum("bhtd,bhsd->bhts", q, k));
    const int64_t live = ct_memory(context).live;
    ct_memory_reset_peak(context);
    ct_tensor *s = ct_einsum("bhtd,bhsd->bhts", q, k);
    ck_assert_int_lt(ct_memory(context).peak - live, 4 * 8 * 64 * 64 * 4 + 200000);
    ct_tensor *want = ct_matmul(q, ct_transpose(k, 2, 3));
    ck_assert_double_lt(ct_item(ct_max(ct_abs(ct_sub(s, want)), CT_ALL, false)), 1e-4);
}
END_TEST

int main(void) {
    return run_cases(
        "more ops",
        CASES({.name = "all",
               .before = open_context,
               .after = close_context,
               .tests =
                   TESTS(TEST(what_is_refused), TEST(bounds_and_steps), TEST(truth), TEST(smallest),
                         TEST(variances), TEST(running_sums), TEST(order), TEST(permutations),
                         TEST(even_steps), TEST(rows_by_index), TEST(reductions_and_weights),
                         TEST(linear_loss_of_each_row), TEST(letters))},
              {.name = "against the C library's sin",
               .tags = "exact-sin",
               .before = open_context,
               .after = close_context,
               .tests = TESTS(TEST(angles))}));
}
