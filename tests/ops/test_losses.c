/* Cross entropy, beside test_ops.c: ignored rows, z_loss, error messages, blocks of rows, and
 * logits with a common offset. */
#include "rows_check.h"

START_TEST(rows_that_do_not_count) {
    const double ln3 = log(3);
    ct_tensor *x = REALS(CT_SHAPE(3, 3), 0, 0, 0, NAN, 5, INFINITY, 7, 7, 7);
    ct_tensor *y = ct_cross_entropy(x, I64(1, -100, 0), (ct_cross_entropy_opts){0});
    NEAR(y, 1e-15, ln3);
    backward(y);
    NEAR(ct_grad(x), 1e-15, 1. / 6, -1. / 3, 1. / 6, 0, 0, 0, -1. / 3, 1. / 6, 1. / 6);
    NEAR(ct_cross_entropy(x, I64(1, -100, 0), (ct_cross_entropy_opts){.reduction = CT_SUM}), 1e-15,
         2 * ln3);
    for (int sum = 0; sum < 2; sum++) { /* all rows ignored */
        ct_zero_grad(x);
        y = ct_cross_entropy(x, I64(-100, -100, -100),
                             (ct_cross_entropy_opts){.reduction = sum ? CT_SUM : CT_MEAN});
        IS(y, 0);
        backward(y);
        IS(ct_grad(x), 0, 0, 0, 0, 0, 0, 0, 0, 0);
        IS(ct_cross_entropy(of(CT_F64, CT_SHAPE(0, 3)), of(CT_I64, CT_SHAPE(0)),
                            (ct_cross_entropy_opts){.reduction = sum ? CT_SUM : CT_MEAN}),
           0);
    }
    IS(ct_cross_entropy(REALS(CT_SHAPE(1, 2), 1e5, 0), I64(1), (ct_cross_entropy_opts){0}), 1e5);
    NEAR(ct_cross_entropy(REALS(CT_SHAPE(1, 2), 1, 0), I64(1),
                          (ct_cross_entropy_opts){.label_smoothing = 1}),
         1e-15, log(exp(1) + 1) - 0.5);
}
END_TEST

START_TEST(a_row_whose_loss_is_nan_has_a_gradient_of_nan) {
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++) {
        ct_tensor *x = ct_cast(REALS(CT_SHAPE(2, 3), 0, INFINITY, 1, 0, 0, 0), (ct_dtype)dtype);
        ct_set_requires_grad(x = ct_detach(x), true);
        ct_tensor *y = ct_cross_entropy(x, I64(0, 1), (ct_cross_entropy_opts){.reduction = CT_SUM});
        ck_assert(isnan(ct_item(y)));
        ct_backward(y);
        ct_tensor *nan = ct_isnan(ct_grad(x));
        ck_assert(ct_item(ct_all(ct_select(nan, 0, 0), CT_ALL, false)) == 1);
        ck_assert(ct_item(ct_any(ct_select(nan, 0, 1), CT_ALL, false)) == 0);
    }
}
END_TEST

/* The loss with z_loss, composed of logsumexp and the losses without it: (...) of x (..., C). */
static ct_tensor *composed_loss(ct_tensor *x, ct_tensor *t, ct_cross_entropy_opts opts) {
    ct_cross_entropy_opts each = opts;
    each.reduction = CT_NONE, each.z_loss = 0;
    ct_tensor *counts = ct_ne_scalar(t, -100), *lse = ct_logsumexp(x, -1),
              *z = ct_scale(ct_mul(lse, lse), opts.z_loss),
              *y = ct_add(ct_cross_entropy(x, t, each), ct_mul(z, ct_cast(counts, CT_F64)));
    if (opts.reduction == CT_NONE) return y;
    ct_tensor *sum = ct_sum(y, CT_ALL, false);
    if (opts.reduction == CT_SUM) return sum;
    ct_tensor *share = ct_cast(counts, CT_F64), *first = ct_mul(t, ct_cast(counts, CT_I64));
    if (opts.weight)
        share = ct_mul(share, ct_view(ct_gather(opts.weight, 0, ct_reshape(first, CT_SHAPE(-1))),
                                      ct_shape_of(t)));
    return ct_div(sum, ct_sum(share, CT_ALL, false));
}

static void same_to_1e_12(ct_tensor *a, ct_tensor *b, int which) {
    const double off = ct_item(ct_max(ct_abs(ct_sub(a, b)), CT_ALL, false)),
                 size = ct_item(ct_max(ct_abs(b), CT_ALL, false));
    ck_assert_msg(off <= 1e-12 * size, "case %d: %g of %g", which, off, size);
}

START_TEST(z_loss_is_the_composed_one) {
    enum { C = 37, D = 5 };
    static const ct_shape shapes[] = {CT_SHAPE(3, 4), CT_SHAPE(7), {.ndim = 0}, CT_SHAPE(2, 1, 9)};
    for (int which = 0; which < 48; which++) {
        const ct_shape rows = shapes[which % 4];
        ct_shape wide = rows;
        wide.dim[wide.ndim++] = D;
        ct_tensor *w = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(C, D)), true),
                  *x = ct_set_requires_grad(ct_randn(context, CT_F64, wide), true),
                  *t = of(CT_I64, rows);
        for (int64_t i = 0; i < ct_numel(t); i++)
            ct_data_i64(t)[i] = i % 4 == 2 ? -100 : ct_random_below(context, C);
        const ct_cross_entropy_opts opts = {
            .reduction = (ct_reduction)(which / 4 % 3),
            .label_smoothing = which / 12 % 2 ? 0.2 : 0,
            .weight = which / 24 ? ct_rand(context, CT_F64, CT_SHAPE(C)) : NULL,
            .z_loss = which % 5 ? 0.3 : 1e-4};
        ct_tensor *seed = NULL, *y[3], *grads[3][2];
        for (int how = 0; how < 3; how++) {
            ct_tensor *logits = how == 2 ? NULL : ct_matmul(x, ct_transpose(w, 0, 1));
            y[how] = how == 0   ? composed_loss(logits, t, opts)
                     : how == 1 ? ct_cross_entropy(logits, t, opts)
                                : ct_linear_cross_entropy(x, w, t, opts);
            ck_assert_msg(y[how], "%s", ct_error_message(context));
            has_shape(y[how], opts.reduction == CT_NONE ? rows : CT_SCALAR);
            if (!seed) seed = ct_randn(context, CT_F64, ct_shape_of(y[how]));
            ck_assert(ct_backward_with(&y[how], &seed, 1, (ct_backward_opts){0}));
            grads[how][0] = ct_clone(ct_grad(x)), grads[how][1] = ct_clone(ct_grad(w));
            ct_zero_grad(x), ct_zero_grad(w);
            same_to_1e_12(y[how], y[0], which);
            for (int i = 0; i < 2; i++) same_to_1e_12(grads[how][i], grads[0][i], which);
        }
    }
}
END_TEST

START_TEST(z_loss_at_the_limits) {
    const ct_cross_entropy_opts z = {.reduction = CT_NONE, .z_loss = 0.5};
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++) {
        /* -inf beside others, only -inf, NaN, +inf, NaN in a row that is ignored, large */
        ct_tensor *x = ct_detach(
            ct_cast(REALS(CT_SHAPE(6, 3), 0, -INFINITY, 0, -INFINITY, -INFINITY, -INFINITY, 0, NAN,
                          1, 0, INFINITY, 1, NAN, 0, INFINITY, 1e5, 0, 0),
                    (ct_dtype)dtype));
        ct_set_requires_grad(x, true);
        ct_tensor *y = ct_cross_entropy(x, I64(0, 0, 0, 0, -100, 0), z),
                  *seed = ct_ones(context, (ct_dtype)dtype, CT_SHAPE(6));
        const double ln2 = log(2), unit = dtype == CT_F32 ? 1e-6 : 1e-14;
        ct_tensor *wide = ct_cast(ct_detach(y), CT_F64);
        NEAR(ct_narrow(wide, 0, 0, 1), unit, ln2 + 0.5 * ln2 * ln2);
        for (int i = 1; i < 4; i++) ck_assert(isnan(ct_data_f64(wide)[i]));
        NEAR(ct_narrow(wide, 0, 4, 2), 5e9 * unit, 0, 5e9);
        ck_assert(ct_backward_with(&y, &seed, 1, (ct_backward_opts){0}));
        ct_tensor *dx = ct_cast(ct_detach(ct_grad(x)), CT_F64);
        NEAR(ct_view(ct_narrow(dx, 0, 0, 1), CT_SHAPE(3)), unit, ln2 / 2 - 0.5, 0, ln2 / 2 + 0.5);
        for (int i = 3; i < 12; i++) ck_assert(isnan(ct_data_f64(dx)[i]));
        NEAR(ct_view(ct_narrow(dx, 0, 4, 2), CT_SHAPE(6)), 1e5 * unit, 0, 0, 0, 1e5, 0, 0);
        IS(ct_cross_entropy(x, I64(-100, -100, -100, -100, -100, -100),
                            (ct_cross_entropy_opts){.z_loss = 0.5}),
           0);
    }
}
END_TEST

START_TEST(errors_of_losses) {
    ct_cross_entropy_opts plain = {0};
    ct_tensor *x = of(CT_F64, CT_SHAPE(2, 3)), *t = I64(0, 2), *w = of(CT_F64, CT_SHAPE(5, 3));
    FAILS(ct_cross_entropy(x, I64(0, 3), plain), CT_ERR_ARGUMENT,
          "cross_entropy: target 3 at (1) is outside [0, 3)");
    FAILS(ct_cross_entropy(x, I64(-1, 3), plain), CT_ERR_ARGUMENT,
          "cross_entropy: target -1 at (0) is outside [0, 3)");
    FAILS(ct_cross_entropy(x, I64(0), plain), CT_ERR_SHAPE,
          "cross_entropy: targets (1) for the rows of (2, 3), not (2)");
    FAILS(ct_cross_entropy(of(CT_F64, CT_SHAPE(2, 5, 8)), t, plain), CT_ERR_SHAPE,
          "targets (2) for the rows of (2, 5, 8), not (2, 5)");
    FAILS(ct_cross_entropy(of(CT_F64, CT_SHAPE(2, 5, 8)), of(CT_I64, CT_SHAPE(2, 8)), plain),
          CT_ERR_SHAPE, "not (2, 5); the classes are the last dim, not dim 1 as in torch");
    FAILS(ct_linear_cross_entropy(of(CT_F64, CT_SHAPE(2, 4, 3)), w, t, plain), CT_ERR_SHAPE,
          "targets (2) for the rows of (2, 4, 3), not (2, 4)");
    FAILS(ct_cross_entropy(of(CT_F64, CT_SHAPE(2, 5, 0)), t, plain), CT_ERR_SHAPE,
          "targets (2) for the rows of (2, 5, 0), not (2, 5)");
    FAILS(ct_cross_entropy(of(CT_F64, CT_SHAPE(2, 0)), t, plain), CT_ERR_ARGUMENT,
          "cross_entropy: target 0 at (0) is outside [0, 0)");
    FAILS(ct_cross_entropy(of(CT_F64, CT_SHAPE(2)), t, plain), CT_ERR_SHAPE,
          "cross_entropy: targets (2) for the rows of (2), not ()");
    FAILS(ct_cross_entropy(of(CT_F64, CT_SCALAR), t, plain), CT_ERR_SHAPE,
          "cross_entropy: the logits () are not (..., C)");
    FAILS(ct_linear_cross_entropy(of(CT_F64, CT_SCALAR), w, t, plain), CT_ERR_SHAPE,
          "linear_cross_entropy: () and the weight (5, 3) are not (..., D) and (C, D)");
    static const double outside[] = {-0.1, -1e-9, NAN, INFINITY, -INFINITY, CT_ZERO};
    for (int i = 0; i < 6; i++) {
        const ct_cross_entropy_opts wrong = {.z_loss = outside[i]};
        FAILS(ct_cross_entropy(x, t, wrong), CT_ERR_ARGUMENT, "cross_entropy: z_loss is");
        FAILS(ct_linear_cross_entropy(x, w, t, wrong), CT_ERR_ARGUMENT,
              "linear_cross_entropy: z_loss is");
    }
    FAILS(ct_cross_entropy(x, x, plain), CT_ERR_DTYPE, "cross_entropy");
    FAILS(ct_cross_entropy(t, t, plain), CT_ERR_DTYPE, "cross_entropy");
    FAILS(ct_cross_entropy(x, t, (ct_cross_entropy_opts){.label_smoothing = -0.1}), CT_ERR_ARGUMENT,
          "the label smoothing is -0.1, not in [0, 1]");
    FAILS(ct_cross_entropy(x, t, (ct_cross_entropy_opts){.label_smoothing = NAN}), CT_ERR_ARGUMENT,
          "label smoothing");
    FAILS(ct_linear_cross_entropy(x, w, I64(0, 5), plain), CT_ERR_ARGUMENT,
          "linear_cross_entropy: target 5 at (1) is outside [0, 5)");
    FAILS(ct_linear_cross_entropy(x, of(CT_F64, CT_SHAPE(5, 2)), t, plain), CT_ERR_SHAPE,
          "(2, 3) and the weight (5, 2)");
    FAILS(ct_linear_cross_entropy(x, of(CT_F32, CT_SHAPE(5, 3)), t, plain), CT_ERR_DTYPE,
          "linear_cross_entropy");
}
END_TEST

/* Many blocks of rows: equal to the loss of whole logits, in less memory. */
START_TEST(linear_loss_in_blocks) {
    enum { N = 800, D = 3, C = 10000 };
    ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(N, D)), true);
    ct_tensor *w = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(C, D)), true);
    ct_tensor *t = of(CT_I64, CT_SHAPE(N)), *three = ct_full(context, CT_F64, CT_SCALAR, 3);
    for (int i = 0; i < N; i++) ct_data_i64(t)[i] = i % 7 == 3 ? -100 : ct_random_below(context, C);
    ct_cross_entropy_opts opts = {.label_smoothing = 0.1};
    ct_tensor *whole = ct_cross_entropy(ct_matmul(x, ct_transpose(w, 0, 1)), t, opts);
    ck_assert(ct_backward_with(&whole, &three, 1, (ct_backward_opts){0}));
    ct_tensor *dx = ct_add_scalar(ct_grad(x), 0), *dw = ct_add_scalar(ct_grad(w), 0);

    int64_t live = ct_memory(context).live;
    ct_memory_reset_peak(context);
    /* both accumulate onto earlier gradients */
    for (int times = 2; times <= 3; times++) {
        ct_tensor *y = ct_linear_cross_entropy(x, w, t, opts);
        ck_assert_double_eq_tol(ct_item(y), ct_item(whole), 1e-12);
        ck_assert(ct_backward_with(&y, &three, 1, (ct_backward_opts){0}));
        ct_tensor *ex = ct_max(ct_abs(ct_sub(ct_grad(x), ct_scale(dx, times))), CT_ALL, false);
        ct_tensor *ew = ct_max(ct_abs(ct_sub(ct_grad(w), ct_scale(dw, times))), CT_ALL, false);
        ck_assert_double_lt(ct_item(ex), 1e-13);
        ck_assert_double_lt(ct_item(ew), 1e-13);
    }
    ck_assert_int_lt(ct_memory(context).peak - live, N * C * 8 / 2);
}
END_TEST

/* gradients are computed in forward; only the last backward may return their memory */
START_TEST(linear_loss_again) {
    enum { N = 5, D = 3, C = 4 };
    ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(N, D)), true);
    ct_tensor *w = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(C, D)), true);
    static const double seeds[] = {1, 2, -1};
    double first[3][C * D + N * D];
    for (int seed = 0; seed < 3; seed++) {
        ct_tensor *g = ct_full(context, CT_F64, CT_SCALAR, seeds[seed]),
                  *y =
                      ct_linear_cross_entropy(x, w, I64(0, 3, 1, 1, 2), (ct_cross_entropy_opts){0});
        for (int time = 0; time < 3; time++) {
            double now[C * D + N * D];
            ct_zero_grad(x);
            ct_zero_grad(w);
            ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){.retain_graph = time < 2}));
            ck_assert(ct_to_f64(ct_grad(x), now, N * D) &&
                      ct_to_f64(ct_grad(w), now + N * D, C * D));
            if (!time) memcpy(first[seed], now, sizeof now);
            ck_assert_mem_eq(first[seed], now, sizeof now);
        }
        ck_assert(!ct_backward(y));
        ck_assert_int_eq(ct_error(context), CT_ERR_GRAD);
        ct_error_clear(context);
    }
    for (int seed = 1; seed < 3; seed++)
        for (int i = 0; i < C * D + N * D; i++)
            ck_assert_double_eq_tol(first[seed][i], seeds[seed] * first[0][i], 1e-15);
}
END_TEST

/* Logits with a large common offset have the same gradients as without it, because backward does
 * not use max + log sum. */
enum { LOSS, SMOOTHED, FUSED, LSE, SOFTMAX, LOG_SOFTMAX, MASKED, OF_LOGITS };
enum { SOME = 5, CLASSES = 70, LOGITS = SOME * CLASSES };

static void gradient_of_logits(int what, ct_dtype dtype, double offset, double unit,
                               double dx[LOGITS]) {
    double z[LOGITS], two[LOGITS * 2], g[LOGITS], row[SOME * 2];
    for (int i = 0; i < LOGITS; i++) {
        two[2 * i] = z[i] = unit * (i * 37 % 101 % 50 - 25) + offset, two[2 * i + 1] = 0;
        g[i] = (i * 53 % 17 - 8.0) / 8;
    }
    for (int r = 0; r < SOME; r++) row[2 * r] = 1, row[2 * r + 1] = 0;
    const ct_scope scope = ct_scope_open(context);
    ct_tensor *x = ct_cast(ct_from_f64(context, CT_SHAPE(SOME, CLASSES), z), dtype),
              *t = I64(3, 69, -100, 11, 0), *y = NULL;
    if (what == FUSED) x = ct_cast(ct_from_f64(context, CT_SHAPE(CLASSES, 2), two), dtype);
    ct_set_requires_grad(x, true);
    ct_tensor *rows = ct_cast(ct_from_f64(context, CT_SHAPE(SOME, 2), row), dtype);
    switch (what) {
    case LOSS: y = ct_cross_entropy(x, t, (ct_cross_entropy_opts){0}); break;
    case SMOOTHED:
        y = ct_cross_entropy(x, t,
                             (ct_cross_entropy_opts){.label_smoothing = 0.2, .reduction = CT_SUM});
        break;
    case FUSED:
        y = ct_linear_cross_entropy(rows, x, t, (ct_cross_entropy_opts){.label_smoothing = 0.1});
        break;
    case LSE: y = ct_logsumexp(x, 1); break;
    case SOFTMAX: y = ct_softmax(x, 1); break;
    case LOG_SOFTMAX: y = ct_log_softmax(x, 1); break;
    case MASKED: y = ct_masked_softmax(x, NULL, 1); break;
    }
    ct_tensor *seed =
        ct_cast(ct_reshape(ct_narrow(ct_from_f64(context, CT_SHAPE(LOGITS), g), 0, 0, ct_numel(y)),
                           ct_shape_of(y)),
                dtype);
    ck_assert_msg(ct_backward_with(&y, &seed, 1, (ct_backward_opts){0}), "%s",
                  ct_error_message(context));
    memset(dx, 0, LOGITS * sizeof *dx);
    ct_to_f64(ct_grad(x), dx, ct_numel(x));
    ct_scope_close(scope);
}

START_TEST(a_common_offset_costs_no_digits) {
    static const double offsets[6] = {1e2, -1e4, 1e6, -1e8, 1e20, 1e30};
    double want[LOGITS], got[LOGITS];
    for (int single = 0; single < 2; single++)
        for (int k = 0; k < 6; k++) { /* logits that are multiples of a unit, or equal */
            const double place = exp2(ceil(log2(fabs(offsets[k]) * (single ? 0x1p-23 : 0x1p-52))));
            const double unit = place > 0.25 ? place : 0.25,
                         offset = round(offsets[k] / unit) * unit;
            gradient_of_logits(_i, single ? CT_F32 : CT_F64, 0, unit, want);
            gradient_of_logits(_i, single ? CT_F32 : CT_F64, offset, unit, got);
            for (int i = 0; i < LOGITS; i++)
                ck_assert_msg(got[i] == want[i], "%d: at %g [%d]: %.17g, not %.17g", _i, offset, i,
                              got[i], want[i]);
        }
}
END_TEST

int main(void) {
    return run_tests(
        "losses", open_context, close_context,
        TESTS(TEST(rows_that_do_not_count), TEST(a_row_whose_loss_is_nan_has_a_gradient_of_nan),
              TEST(z_loss_is_the_composed_one), TEST(z_loss_at_the_limits), TEST(errors_of_losses),
              TEST(linear_loss_in_blocks), TEST(linear_loss_again),
              LOOP(a_common_offset_costs_no_digits, OF_LOGITS)));
}
