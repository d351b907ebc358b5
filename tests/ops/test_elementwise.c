/* Elementwise ops and comparisons, what test_ops.c does not cover: error messages, i64 and bool,
 * ties, kinks, NaN, and which tensors the tape saves. */
#include "src/core/dtype.h"
#include "src/kernels/unary.h"
#include "tests/support/op_check.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* The ops of unary.h's rows. The number of an op of a tensor and a number is 2. */
#define BY_TWO(name, ...)                                                                          \
    static ct_tensor *name##_by_two(ct_tensor *x) { return ct_##name(x, 2); }
CTI_SCALAR_KERNELS(BY_TWO, BY_TWO, BY_TWO)
#define OF_ONE(name, ...) {#name, ct_##name},
#define OF_TWO(name, ...) {#name, name##_by_two},
static const struct {
    const char *name;
    ct_tensor *(*call)(ct_tensor *);
} of_one[] = {CTI_UNARY_KERNELS(OF_ONE, OF_ONE, OF_ONE, OF_ONE)
                  CTI_SCALAR_KERNELS(OF_TWO, OF_TWO, OF_TWO)};
enum { OPS_OF_ONE = sizeof of_one / sizeof *of_one };

/* ---- errors ---- */

START_TEST(dtypes_that_are_refused) {
    ct_tensor *f = of(CT_F32, CT_SHAPE(3)), *d = of(CT_F64, CT_SHAPE(3)),
              *i = of(CT_I64, CT_SHAPE(3)), *b = of(CT_BOOL, CT_SHAPE(3));
    FAILS(ct_add(f, d), CT_ERR_DTYPE, "add");
    FAILS(ct_mul(f, i), CT_ERR_DTYPE, "mul");
    FAILS(ct_maximum(i, f), CT_ERR_DTYPE, "maximum");
    FAILS(ct_eq(f, i), CT_ERR_DTYPE, "eq");
    FAILS(ct_mse_loss(f, d), CT_ERR_DTYPE, "mse_loss");
    FAILS(ct_where(b, f, d), CT_ERR_DTYPE, "where: dtypes differ: f32 and f64");
    FAILS(ct_div(i, i), CT_ERR_DTYPE, "div");
    FAILS(ct_mean(i, CT_ALL, false), CT_ERR_DTYPE, "mean");
    FAILS(ct_sum_to(i, CT_SCALAR), CT_ERR_DTYPE, "sum_to");
    FAILS(ct_mse_loss(i, i), CT_ERR_DTYPE, "mse_loss");
    FAILS(ct_add(b, b), CT_ERR_DTYPE, "add");
    FAILS(ct_argmax(b, 0), CT_ERR_DTYPE, "argmax");
    FAILS(ct_logical_and(f, f), CT_ERR_DTYPE, "logical_and");
    FAILS(ct_logical_or(i, i), CT_ERR_DTYPE, "logical_or");
    FAILS(ct_logical_not(i), CT_ERR_DTYPE, "logical_not");
    FAILS(ct_where(f, f, f), CT_ERR_DTYPE, "where");
    FAILS(ct_masked_fill(f, i, 0), CT_ERR_DTYPE, "masked_fill");
}
END_TEST

/* Ops of one tensor take f32 and f64. Some of them take i64, too. */
START_TEST(dtypes_of_one_tensor) {
    static const char *const take_i64[] = {"neg", "sign", "abs", "scale", "add_scalar"};
    for (int op = 0; op < OPS_OF_ONE; op++) {
        char message[64];
        bool whole = false;
        for (size_t k = 0; k < sizeof take_i64 / sizeof *take_i64; k++)
            whole |= !strcmp(of_one[op].name, take_i64[k]);
        for (int d = 0; d < CTI_DTYPES; d++) {
            ct_tensor *x = d == CT_Q8_0 || d == CT_Q4_0
                               ? ct_cast(of(CT_F32, CT_SHAPE(1, 32)), (ct_dtype)d)
                               : of((ct_dtype)d, CT_SHAPE(3));
            ct_tensor *y = of_one[op].call(x);
            snprintf(message, sizeof message, "%s: does not take ", of_one[op].name);
            if (d == CT_F32 || d == CT_F64 || (d == CT_I64 && whole))
                ck_assert_msg(y && ct_dtype_of(y) == (ct_dtype)d, "%s", of_one[op].name);
            else FAILS(y, CT_ERR_DTYPE, message);
        }
    }
}
END_TEST

START_TEST(shapes_that_do_not_fit) {
    ct_tensor *a = of(CT_F32, CT_SHAPE(2, 3)), *b = of(CT_F32, CT_SHAPE(4));
    ct_tensor *m = of(CT_BOOL, CT_SHAPE(2, 2, 3)), *n = of(CT_BOOL, CT_SHAPE(4));
    FAILS(ct_add(a, b), CT_ERR_SHAPE, "add: shapes do not broadcast: (2, 3) and (4)");
    FAILS(ct_lt(b, a), CT_ERR_SHAPE, "lt: shapes do not broadcast: (4) and (2, 3)");
    FAILS(ct_where(m, a, b), CT_ERR_SHAPE, "where: shapes do not broadcast: (2, 3) and (4)");
    FAILS(ct_where(n, a, a), CT_ERR_SHAPE, "where: shapes do not broadcast: (4) and (2, 3)");
    FAILS(ct_masked_fill(a, n, 0), CT_ERR_SHAPE,
          "masked_fill: shapes do not broadcast: (2, 3) and (4)");
    FAILS(ct_mse_loss(a, of(CT_F32, CT_SHAPE(3))), CT_ERR_SHAPE,
          "mse_loss: shapes differ: (2, 3) and (3)");
    FAILS(ct_sum_to(a, CT_SHAPE(2)), CT_ERR_SHAPE, "sum_to: (2) does not broadcast to (2, 3)");
    FAILS(ct_sum_to(b, CT_SHAPE(1, 4)), CT_ERR_SHAPE, "sum_to: (1, 4) does not broadcast to (4)");
    FAILS(ct_sum_to(b, CT_SHAPE(-1)), CT_ERR_SHAPE, "sum_to");
    FAILS(ct_sum(a, CT_DIMS(2), false), CT_ERR_SHAPE, "sum: no dim 2");
    FAILS(ct_mean(a, CT_DIMS(-3), false), CT_ERR_SHAPE, "mean: no dim -3");
    FAILS(ct_max(a, CT_DIMS(1, -1), false), CT_ERR_SHAPE, "max: dim -1 is named twice");
    FAILS(ct_argmax(a, 2), CT_ERR_SHAPE, "argmax: no dim 2");
    FAILS(ct_normalize(a, 2, -3, 1e-12), CT_ERR_SHAPE, "normalize: no dim -3");
    FAILS(ct_normalize(a, NAN, 0, 1e-12), CT_ERR_ARGUMENT, "normalize: p is nan");
    FAILS(ct_normalize(a, 2, 0, NAN), CT_ERR_ARGUMENT, "eps is nan");
    FAILS(ct_causal_mask(context, -1, 3), CT_ERR_SHAPE, "causal_mask");
    FAILS(ct_causal_mask(context, 3, -1), CT_ERR_SHAPE, "causal_mask");
    FAILS(ct_add(a, NULL), CT_ERR_ARGUMENT, "add");
    FAILS(ct_where(NULL, a, a), CT_ERR_ARGUMENT, "where");
    ck_assert_ptr_null(ct_exp(NULL));
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

/* ---- i64 and bool ---- */

START_TEST(integers) {
    int64_t big = ((int64_t)1 << 53) + 1; /* a number that no double holds */
    ct_tensor *a = I64(big, -3, 5), *b = I64(2, -4, 5);
    ct_tensor *sum = ct_add(a, b), *one = ct_sub(ct_add_scalar(ct_neg(a), 1), ct_scale(a, -1));
    ck_assert_int_eq(ct_data_i64(sum)[0], big + 2);
    IS(one, 1, 1, 1);
    IS(ct_sub(b, I64(1)), 1, -5, 4);
    IS(ct_mul(b, b), 4, 16, 25);
    IS(ct_maximum(a, b), (double)(big - 1), -3, 5);
    ck_assert_int_eq(ct_data_i64(ct_maximum(a, b))[0], big);
    IS(ct_minimum(a, b), 2, -4, 5);
    IS(ct_abs(b), 2, 4, 5);
    ck_assert_int_eq(ct_data_i64(ct_sum(a, CT_ALL, false))[0], big + 2);
    ck_assert_int_eq(ct_data_i64(ct_max(a, CT_ALL, false))[0], big);
    IS(ct_eq(a, I64(big - 1)), 0, 0, 0);
    IS(ct_lt(b, a), 1, 1, 0);
    IS(ct_argmax(b, 0), 2);
    FAILS(ct_scale(a, 0.5), CT_ERR_ARGUMENT, "scale: i64 needs a whole number, not 0.5");
    FAILS(ct_scale(a, INFINITY), CT_ERR_ARGUMENT, "scale");
    FAILS(ct_add_scalar(a, -1.5), CT_ERR_ARGUMENT,
          "add_scalar: i64 needs a whole number, not -1.5");
    FAILS(ct_add_scalar(a, NAN), CT_ERR_ARGUMENT, "add_scalar");
    IS(ct_masked_fill(b, BOOL(false, true, false), 9), 2, 9, 5);
    IS(ct_where(BOOL(false, true, true), b, I64(7)), 7, -4, 5);

    ct_tensor *t = BOOL(true, false, true), *f = BOOL(true);
    ct_tensor *count = ct_sum(t, CT_ALL, false);
    ck_assert_int_eq(ct_dtype_of(count), CT_I64);
    IS(count, 2);
    IS(ct_eq(t, f), 1, 0, 1);
    IS(ct_ne(t, f), 0, 1, 0);
    IS(ct_lt(t, f), 0, 1, 0);
    IS(ct_ge(t, f), 1, 0, 1);
    IS(ct_where(t, t, f), 1, 1, 1);
    IS(ct_masked_fill(t, t, 0), 0, 0, 0);
    IS(ct_max(t, CT_ALL, false), 1); /* any */
    ck_assert_int_eq(ct_dtype_of(ct_logical_not(t)), CT_BOOL);

    bool many[1000];
    memset(many, 1, sizeof many);
    IS(ct_sum(ct_from_bool(context, CT_SHAPE(500, 2), many), CT_DIMS(0), false), 500, 500);
    IS(ct_sum(ct_from_bool(context, CT_SHAPE(10, 2, 50), many), CT_DIMS(0, 2), false), 500, 500);
}
END_TEST

/* ---- ties, kinks and NaN ---- */

START_TEST(ties_share) {
    ct_tensor *a = F64(1, 2, 3, NAN, 1), *b = F64(1, 3, 2, 1, NAN);
    backward(ct_maximum(a, b));
    IS(ct_grad(a), .5, 0, 3, 4, 5);
    IS(ct_grad(b), .5, 2, 0, 4, 5);
    ct_zero_grad(a), ct_zero_grad(b);
    backward(ct_minimum(a, b));
    IS(ct_grad(a), .5, 2, 0, 4, 5);
    IS(ct_grad(b), .5, 0, 3, 4, 5);

    /* both broadcast: (5, 2) */
    ct_tensor *column = ct_reshape(a, CT_SHAPE(5, 1)), *row = F64(2, 2);
    ct_zero_grad(a);
    backward(ct_maximum(column, row));
    IS(ct_grad(a), 0, (3 + 4) / 2., 5 + 6, 7 + 8, 0);
    IS(ct_grad(row), 1 + 3 / 2. + 7 + 9, 2 + 4 / 2. + 8 + 10);

    ct_tensor *x = F64(1, 3, 3, 2, 3, 0, 0, 0);
    backward(ct_max(ct_reshape(x, CT_SHAPE(2, 4)), CT_DIMS(1), false));
    IS(ct_grad(x), 0, .5, .5, 0, 2, 0, 0, 0);
    ct_zero_grad(x);
    backward(ct_max(ct_reshape(x, CT_SHAPE(2, 4)), CT_DIMS(0), true));
    IS(ct_grad(x), 0, 2, 3, 4, 1, 0, 0, 0);
    ct_zero_grad(x);
    backward(ct_max(x, CT_ALL, false));
    IS(ct_grad(x), 0, 1 / 3., 1 / 3., 0, 1 / 3., 0, 0, 0);
    /* dims 0 and 2 with dim 1 between: three equal maxima get a third each. A maximum over one dim
     * after the other would give a half and two quarters */
    ct_tensor *y = F64(3, 3, 0, 1, 3, 2, 1, 1);
    backward(ct_max(ct_reshape(y, CT_SHAPE(2, 2, 2)), CT_DIMS(0, 2), true));
    IS(ct_grad(y), 1 / 3., 1 / 3., 0, 2 / 3., 1 / 3., 0, 2 / 3., 2 / 3.);
}
END_TEST

START_TEST(kinks) {
    ct_tensor *x = F64(-1, -0., 0, 2);
    backward(ct_abs(x));
    IS(ct_grad(x), -1, 0, 0, 4);
    ct_zero_grad(x);
    backward(ct_relu(x));
    IS(ct_grad(x), 0, 0, 0, 4);
    ct_tensor *huge = F64(-800, -40, 40, 800);
    IS(ct_sigmoid(huge), 0, exp(-40) / (1 + exp(-40)), 1, 1);
    IS(ct_tanh(huge), -1, -1, 1, 1);
    backward(ct_silu(huge));
    for (int i = 0; i < 4; i++)
        ck_assert_msg(fabs(ct_data_f64(ct_grad(huge))[i] - (i < 2 ? 0 : i + 1)) < 1e-12,
                      "silu' far out");
    ct_zero_grad(huge);
    backward(ct_gelu_tanh(huge));
    IS(ct_grad(huge), 0, 0, 3, 4);
    ct_zero_grad(huge);
    backward(ct_gelu(huge));
    IS(ct_grad(huge), 0, 0, 3, 4);
}
END_TEST

/* A slope of 0 is 0 also beside an infinite cotangent, as in torch. */
START_TEST(infinite_cotangents) {
    for (int squared = 0; squared < 2; squared++) {
        ct_tensor *x = ct_from_f64(context, CT_SHAPE(3), (double[]){-1, 0, 2}),
                  *g = ct_full(context, CT_F64, CT_SHAPE(3), INFINITY);
        ct_set_requires_grad(x, true);
        ct_tensor *y = squared ? ct_relu_squared(x) : ct_relu(x);
        ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
        const double *dx = ct_data_f64(ct_grad(x));
        ck_assert(dx[0] == 0 && dx[1] == 0 && dx[2] == INFINITY);
    }
}
END_TEST

START_TEST(powers) {
    ct_tensor *x = F64(0, -2, 3);
    const struct {
        double e, y[3], dx[3];
    } cases[] = {
        {0, {1, 1, 1}, {0, 0, 0}},
        {1, {0, -2, 3}, {1, 2, 3}},
        {2, {0, 4, 9}, {0, -8, 18}},
        {3, {0, -8, 27}, {0, 24, 81}},
        {-1, {INFINITY, -.5, 1 / 3.}, {-INFINITY, -.5, -1 / 3.}},
        {.5, {0, NAN, sqrt(3)}, {INFINITY, NAN, 1.5 / sqrt(3)}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_tensor *y = ct_pow(x, cases[i].e);
        double got[3];
        ct_zero_grad(x);
        for (int side = 0; side < 2; side++) {
            const double *want = side ? cases[i].dx : cases[i].y;
            if (side) backward(y);
            ck_assert(ct_to_f64(side ? ct_grad(x) : y, got, 3));
            for (int j = 0; j < 3; j++)
                ck_assert_msg(got[j] == want[j] || (isnan(got[j]) && isnan(want[j])) ||
                                  fabs(got[j] - want[j]) < 1e-14,
                              "%s of x^%g [%d]: %g, not %g", side ? "gradient" : "value",
                              cases[i].e, j, got[j], want[j]);
        }
    }
}
END_TEST

/* Each comparison with each number, of each dtype, against C. f32 compares with the number rounded
 * to f32; i64 exactly, which long double or an integer decides. */
typedef ct_tensor *comparison(ct_tensor *x, double a);
static comparison *const comparisons[] = {ct_eq_scalar, ct_ne_scalar, ct_lt_scalar,
                                          ct_le_scalar, ct_gt_scalar, ct_ge_scalar};
static const char *const comparison_names[] = {"eq_scalar", "ne_scalar", "lt_scalar",
                                               "le_scalar", "gt_scalar", "ge_scalar"};
static bool is_true(int which, int order, bool ordered) { /* order: the sign of x - a */
    if (!ordered) return which == 1;
    const bool results[] = {order == 0, order != 0, order < 0, order <= 0, order > 0, order >= 0};
    return results[which];
}
static void compares(ct_tensor *x, double a, const int *order, bool ordered) {
    for (int f = 0; f < COUNT(comparisons); f++) {
        ct_tensor *y = comparisons[f](x, a);
        ck_assert_msg(y, "%s", ct_error_message(context));
        ck_assert(ct_dtype_of(y) == CT_BOOL && !ct_requires_grad(y));
        has_shape(y, ct_shape_of(x));
        const bool *got = ct_data_bool(y);
        for (int64_t i = 0; i < ct_numel(y); i++)
            ck_assert_msg(got[i] == is_true(f, order[i], ordered && order[i] != 2),
                          "%s of %s element %d and %.17g is %d", comparison_names[f],
                          ct_dtype_of(x) == CT_I64 ? "i64" : "another dtype's", (int)i, a, got[i]);
    }
}
static int order_of(double x, double a) { return isnan(x) ? 2 : (x > a) - (x < a); }

START_TEST(comparisons_with_a_number) {
    static const double numbers[] = {0,       -0.0,    1,      -1,      0.5,        -0.5,
                                     1.5,     2,       0.1,    NAN,     INFINITY,   -INFINITY,
                                     0x1p63,  -0x1p63, 1e300,  0x1p53,  -1e300,     2.25,
                                     -0x1p62, 1e-40,   5e-324, -5e-324, 16777216.5, 3.5e38};
    static const double reals[] = {0,   -0.0, 0.1, 0.5, -0.5,     1,         -1,    1.5,
                                   NAN, 2.25, 2,   3,   INFINITY, -INFINITY, 1e-40, 3e38};
    static const int64_t whole[] = {0,
                                    1,
                                    -1,
                                    2,
                                    3,
                                    INT64_MAX,
                                    INT64_MIN,
                                    16777216,
                                    16777217,
                                    INT64_MAX - 1,
                                    INT64_MIN + 1,
                                    (int64_t)1 << 53,
                                    ((int64_t)1 << 53) + 1};
    enum { LONG = 40000 }; /* several tasks */
    for (int k = 0; k < COUNT(numbers); k++) {
        const double a = numbers[k];
        int order[COUNT(reals)];
        ct_tensor *x = ct_from_f64(context, CT_SHAPE(COUNT(reals)), reals),
                  *single = ct_cast(x, CT_F32);
        for (int i = 0; i < COUNT(reals); i++) order[i] = order_of(reals[i], a);
        compares(x, a, order, !isnan(a));
        for (int i = 0; i < COUNT(reals); i++)
            order[i] = order_of((double)(float)reals[i], (double)(float)a);
        compares(single, a, order, !isnan(a));
        for (int i = 0; i < COUNT(whole); i++) {
            if (fabs(a) >= 0x1p63)
                order[i] = a > 0 ? -1 : a < -0x1p63 || whole[i] > INT64_MIN ? 1 : 0;
            else if (!isnan(a)) {
                const int64_t f = (int64_t)floor(a);
                order[i] = whole[i] > f ? 1 : whole[i] < f || a > floor(a) ? -1 : 0;
            }
        }
        compares(ct_from_i64(context, CT_SHAPE(COUNT(whole)), whole), a, order, !isnan(a));
        for (int i = 0; i < 2; i++) order[i] = order_of(i, a);
        compares(BOOL(false, true), a, order, !isnan(a));
        for (int i = 0; i < 3; i++) order[i] = order_of((double[]){0, 1, 2}[i], a);
        ct_tensor *rows = ct_arange(context, CT_I64, 0, 6, 1); /* a view with steps */
        compares(ct_select(ct_reshape(rows, CT_SHAPE(3, 2)), 1, 0), a * 2,
                 (int[]){order_of(0, a * 2), order_of(2, a * 2), order_of(4, a * 2)}, !isnan(a));
    }
    for (int f = 0; f < COUNT(comparisons); f++) {
        has_shape(comparisons[f](of(CT_F32, CT_SHAPE(0, 3)), 0.5), CT_SHAPE(0, 3));
        FAILS(comparisons[f](ct_cast(of(CT_F32, CT_SHAPE(3)), CT_BF16), 0), CT_ERR_DTYPE,
              comparison_names[f]);
        ct_tensor *ones = ct_ones(context, CT_I64, CT_SHAPE(LONG));
        for (int64_t a = 0; a < 3; a++) {
            const double count = ct_item(ct_sum(comparisons[f](ones, (double)a), CT_ALL, false));
            ck_assert_double_eq(count, is_true(f, 1 - (int)a, true) ? LONG : 0);
        }
        ck_assert_double_eq(ct_item(ct_sum(comparisons[f](ones, 0.5), CT_ALL, false)),
                            is_true(f, 1, true) ? LONG : 0);
    }
}
END_TEST

START_TEST(nan_in_nan_out) {
    ct_tensor *x = F64(1, NAN, 2, NAN), *all = ct_detach(x);
    IS(ct_max(x, CT_ALL, false), NAN);
    IS(ct_max(ct_reshape(x, CT_SHAPE(2, 2)), CT_DIMS(0), false), 2, NAN);
    IS(ct_argmax(x, 0), 1);
    IS(ct_relu(x), 1, NAN, 2, NAN);
    IS(ct_maximum(x, F64(0)), 1, NAN, 2, NAN);
    IS(ct_minimum(F64(0), x), 0, NAN, 0, NAN);
    IS(ct_sum(x, CT_ALL, false), NAN);
    IS(ct_eq(x, x), 1, 0, 1, 0);
    IS(ct_ne(x, x), 0, 1, 0, 1);
    IS(ct_le(x, F64(1.5)), 1, 0, 0, 0);
    IS(ct_ge(x, F64(1.5)), 0, 0, 1, 0);

    /* a mask removes it, from values and from gradients */
    ct_tensor *y = ct_masked_fill(x, ct_ne(all, all), -1);
    IS(y, 1, -1, 2, -1);
    ct_tensor *g = F64(1, NAN, 1, NAN);
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    IS(ct_grad(x), 1, 0, 1, 0);
    ct_tensor *b = F64(5);
    backward(ct_where(ct_eq(all, all), x, b));
    IS(ct_grad(x), 2, 0, 4, 0);
    IS(ct_grad(b), 2 + 4);

    float row[130]; /* longer than any vector, so that main loop and tail are tested */
    for (int at = 0; at < 130; at += 43) {
        for (int i = 0; i < 130; i++) row[i] = (float)(i % 50);
        IS(ct_argmax(ct_from_f32(context, CT_SHAPE(130), row), 0), 49);
        row[at] = NAN;
        ct_tensor *t = ct_from_f32(context, CT_SHAPE(130), row);
        IS(ct_argmax(t, -1), at);
        ck_assert(isnan(ct_item(ct_max(t, CT_ALL, false))));
    }
}
END_TEST

START_TEST(causal_masks) {
    IS(ct_causal_mask(context, 3, 4), 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0);
    IS(ct_causal_mask(context, 4, 2), 1, 0, 1, 1, 1, 1, 1, 1);
    ck_assert_ptr_null(ct_causal_mask(NULL, 1, 1));
    ct_fail(context, CT_ERR_ARGUMENT, "first");
    ck_assert_ptr_null(ct_causal_mask(context, 2, 2));
    ck_assert_str_eq(ct_error_message(context), "first");
    ct_error_clear(context);
}
END_TEST

/* ---- what the tape keeps ---- */

static ct_tensor *fixed, *mask;

static ct_tensor *add_fixed(ct_tensor *x) { return ct_add(x, fixed); }
static ct_tensor *sub_fixed(ct_tensor *x) { return ct_sub(fixed, x); }
static ct_tensor *mul_fixed(ct_tensor *x) { return ct_mul(x, fixed); }
static ct_tensor *div_fixed(ct_tensor *x) { return ct_div(x, fixed); }
static ct_tensor *by_fixed(ct_tensor *x) { return ct_div(fixed, x); }
static ct_tensor *maximum_fixed(ct_tensor *x) { return ct_maximum(fixed, x); }
static ct_tensor *squared(ct_tensor *x) { return ct_mul(x, x); }
static ct_tensor *filled(ct_tensor *x) { return ct_masked_fill(x, mask, 1); }
static ct_tensor *chosen(ct_tensor *x) { return ct_where(mask, x, fixed); }
static ct_tensor *summed(ct_tensor *x) { return ct_add(fixed, ct_sum(x, CT_DIMS(0), true)); }
static ct_tensor *averaged(ct_tensor *x) { return ct_add(fixed, ct_mean(x, CT_DIMS(0), false)); }

#define KEEPS_NONE(name, ...)        {#name, ct_##name, 0},
#define KEEPS_ONE(name, ...)         {#name, ct_##name, 1},
#define BY_TWO_KEEPS_NONE(name, ...) {#name, name##_by_two, 0},
#define BY_TWO_KEEPS_ONE(name, ...)  {#name, name##_by_two, 1},

/* The number of tensors of that size that the tape keeps for each call, in a chain of calls whose
 * intermediate handles end. add_scalar, which keeps none, lies between two calls, so that the
 * output of one is not the input of the next. */
START_TEST(what_the_tape_keeps) {
    static const struct {
        const char *name;
        ct_tensor *(*call)(ct_tensor *);
        int kept;
    } cases[] = {
        CTI_UNARY_KERNELS(KEEPS_NONE, KEEPS_ONE, KEEPS_ONE, KEEPS_ONE)
            CTI_SCALAR_KERNELS(BY_TWO_KEEPS_NONE, BY_TWO_KEEPS_ONE, BY_TWO_KEEPS_ONE)
        /* and others */
        {"add", add_fixed, 0},
        {"sub", sub_fixed, 0},
        {"mul", mul_fixed, 0},
        {"div", div_fixed, 0},
        {"where", chosen, 0},
        {"masked_fill", filled, 0},
        {"sum", summed, 0},
        {"mean", averaged, 0},
        {"1/x", by_fixed, 2},
        {"x x", squared, 1},
        {"maximum", maximum_fixed, 1},
    };
    const int64_t side = 256, empty = ct_memory(context).live;
    fixed = ct_full(context, CT_F32, CT_SHAPE(side, side), 0.5);
    const double size = (double)(ct_memory(context).live - empty);
    mask = ct_causal_mask(context, side, side);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x = ct_set_requires_grad(ct_full(context, CT_F32, CT_SHAPE(side, side), 0.7),
                                            true),
                  *y = cases[i].call(x);
        int64_t before = ct_memory(context).live;
        for (int k = 0; k < 4; k++) {
            ct_scope inner = ct_scope_open(context);
            ct_tensor *next = ct_scope_return(inner, cases[i].call(ct_add_scalar(y, 0)));
            ct_release(y);
            y = next;
        }
        double grown = (double)(ct_memory(context).live - before) / size / 4;
        ck_assert_msg(y != NULL, "%s: %s", cases[i].name, ct_error_message(context));
        ck_assert_msg(fabs(grown - cases[i].kept) < 0.1, "%s: a call keeps %.2f tensors, not %d",
                      cases[i].name, grown, cases[i].kept);
        ct_scope_close(scope);
    }
    /* nothing is saved if no gradient is wanted */
    ct_tensor *y = ct_exp(fixed);
    int64_t before = ct_memory(context).live;
    for (int k = 0; k < 3; k++) {
        ct_tensor *next = ct_exp(y);
        ct_release(y);
        y = next;
    }
    ck_assert_int_eq(ct_memory(context).live, before);
}
END_TEST

int main(void) {
    return run_tests("elementwise", open_context, close_context,
                     TESTS(TEST(dtypes_that_are_refused), TEST(dtypes_of_one_tensor),
                           TEST(shapes_that_do_not_fit), TEST(integers), TEST(ties_share),
                           TEST(kinks), TEST(infinite_cotangents), TEST(powers),
                           TEST(comparisons_with_a_number), TEST(nan_in_nan_out),
                           TEST(causal_masks), TEST(what_the_tape_keeps)));
}
