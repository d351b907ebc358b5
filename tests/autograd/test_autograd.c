/* The tape: sums of gradients, memory that is kept and released, and mistakes that are errors. */
#include <stdlib.h>
#include <string.h>

#include "vectors.h"

/* ---- what is added up ---- */

START_TEST(gradients_accumulate_until_zeroed) {
    ct_tensor *x = LEAF(1, 2, 3);
    ck_assert_ptr_null(ct_grad(x));
    ck_assert(ct_backward(sum(ct_mul(x, x))));
    IS(ct_grad(x), 2, 4, 6);
    ck_assert(ct_backward(sum(ct_scale(x, 10))));
    IS(ct_grad(x), 12, 14, 16);
    ck_assert(ct_zero_grad(x));
    ck_assert_ptr_null(ct_grad(x));
    ck_assert(ct_backward(sum(x)));
    IS(ct_grad(x), 1, 1, 1);
    no_error();
}
END_TEST

START_TEST(one_tensor_used_many_times) {
    ct_tensor *x = LEAF(1.5, -2), *y = ct_zeros(context, CT_F64, CT_SHAPE(2));
    for (int i = 1; i <= 100; i++) y = ct_add(y, ct_scale(x, i));
    y = ct_mul(y, ct_mul(x, x)); /* 5050 x^3 */
    ct_backward(sum(y));
    IS(ct_grad(x), 3 * 5050 * 2.25, 3 * 5050 * 4.0);
}
END_TEST

START_TEST(same_tensor_twice_in_one_call) {
    ct_tensor *x = LEAF(3, 5);
    ct_backward(sum(ct_div(ct_mul(x, x), x)));
    IS(ct_grad(x), 1, 1);
}
END_TEST

START_TEST(the_gradient_handed_out_is_not_a_cotangent_of_mine) {
    ct_tensor *x = LEAF(1, 2), *g = VECTOR(3, 4);
    ct_tensor *y = ct_add_scalar(x, 1);
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    y = ct_add_scalar(x, 1);
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    IS(ct_grad(x), 6, 8);
    IS(g, 3, 4);
}
END_TEST

START_TEST(two_leaves_of_one_sum_do_not_share_a_gradient) {
    ct_tensor *a = LEAF(1, 2), *b = LEAF(3, 4);
    ct_backward(sum(ct_add(a, b)));
    ck_assert_ptr_ne(ct_data_f64(ct_grad(a)), ct_data_f64(ct_grad(b)));
    ct_backward(sum(a));
    IS(ct_grad(a), 2, 2);
    IS(ct_grad(b), 1, 1);
}
END_TEST

/* y = h + norm(h), where h and a share y's cotangent until norm adds its own gradient to h's. */
START_TEST(a_norm_adds_to_a_gradient_that_others_share) {
    for (int rms = 0; rms < 2; rms++) {
        const ct_shape shape = CT_SHAPE(70, 7); /* rows for several pieces of work */
        ct_tensor *x = ct_randn(context, CT_F64, shape), *a = ct_randn(context, CT_F64, shape),
                  *g = ct_randn(context, CT_F64, shape);
        ct_tensor *kept = ct_from_f64(context, shape, ct_data_f64(g)),
                  *alone = ct_from_f64(context, shape, ct_data_f64(x));
        ct_set_requires_grad(alone, true);
        ct_tensor *norm =
            rms ? ct_rms_norm(alone, NULL, 1e-5) : ct_layer_norm(alone, NULL, NULL, 1e-5);
        ck_assert(ct_backward_with(&norm, &g, 1, (ct_backward_opts){0}));

        ct_set_requires_grad(x, true);
        ct_set_requires_grad(a, true);
        ct_tensor *h = ct_scale(x, 1);
        ct_retain_grad(h);
        ct_tensor *y = ct_add(ct_add(a, h), rms ? ct_rms_norm(h, NULL, 1e-5)
                                                : ct_layer_norm(h, NULL, NULL, 1e-5));
        ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
        const double *of_x = ct_data_f64(ct_grad(x)), *of_h = ct_data_f64(ct_grad(h)),
                     *of_a = ct_data_f64(ct_grad(a));
        const double *of_norm = ct_data_f64(ct_grad(alone)), *cotangent = ct_data_f64(g),
                     *before = ct_data_f64(kept);
        for (int i = 0; i < 70 * 7; i++) {
            ck_assert_double_eq(cotangent[i], before[i]);
            ck_assert_double_eq(of_a[i], before[i]);
            ck_assert_double_eq_tol(of_x[i], before[i] + of_norm[i], 1e-14);
            ck_assert_double_eq(of_h[i], of_x[i]);
        }
    }
}
END_TEST

START_TEST(several_outputs_with_cotangents) {
    ct_tensor *x = LEAF(1, 2, 3), *square = ct_mul(x, x),
              *outs[] = {square, sum(square), ct_neg(x)};
    ct_tensor *cotangents[] = {VECTOR(1, 0, 2), NULL, VECTOR(5, 6, 7)};
    ck_assert(ct_backward_with(outs, cotangents, 3, (ct_backward_opts){0}));
    IS(ct_grad(x), 2 * (1 + 1) - 5, 4 * (0 + 1) - 6, 6 * (2 + 1) - 7);
}
END_TEST

START_TEST(an_output_may_be_a_leaf_or_come_twice) {
    ct_tensor *x = LEAF(1, 2), *y = ct_scale(x, 3), *outs[] = {x, y, y};
    ct_tensor *cotangents[] = {VECTOR(1, 1), VECTOR(1, 0), VECTOR(1, 0)};
    ck_assert(ct_backward_with(outs, cotangents, 3, (ct_backward_opts){0}));
    IS(ct_grad(x), 7, 1);
}
END_TEST

START_TEST(through_views_and_broadcasts) {
    ct_tensor *x = LEAF(1, 2, 3, 4, 5, 6);
    ct_tensor *m = ct_transpose(ct_view(x, CT_SHAPE(2, 3)), 0, 1); /* (3, 2) */
    ct_tensor *row = ct_narrow(m, 0, 1, 1);                        /* 2, 5 */
    ct_tensor *y = ct_mul(m, ct_expand(row, CT_SHAPE(3, 2)));
    ct_backward(sum(y));
    IS(ct_grad(x), 2, 2 + 1 + 2 + 3, 2, 5, 5 + 4 + 5 + 6, 5);
}
END_TEST

/* Slices of a result, in any order, adjacent, overlapping or with gaps, of rows or columns, empty
 * or whole: the gradient is the sum of theirs and zero elsewhere, for any earlier content of the
 * memory.
 */
START_TEST(gradients_of_slices) {
    enum { M = 4, N = 6, MOST = 6 };
    for (int round = 0; round < 500; round++) {
        ct_scope scope = ct_scope_open(context);
        /* its memory is reused for the next tensor of this size */
        ct_release(ct_full(context, CT_F64, CT_SHAPE(M, N), NAN));
        double want[M * N] = {0};
        ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(M, N)), true);
        ct_tensor *y = round % 4 ? ct_scale(x, 2) : x,
                  *loss = NULL; /* leaves have another kind of slot */
        const double a = round % 4 ? 2 : 1;
        for (int64_t i = 0, n = 1 + ct_random_below(context, MOST); i < n; i++) {
            const int dim = (int)ct_random_below(context, 2);
            const int64_t size = dim ? N : M, step = dim ? 1 + ct_random_below(context, 3) : 2;
            /* adjacent slices are common */
            const int64_t start = ct_random_below(context, size / step + 1) * step;
            const int64_t length = ct_random_below(context, 4)
                                       ? ct_random_below(context, size - start + 1)
                                       : size - start;
            ct_tensor *part = ct_random_below(context, 8) ? ct_narrow(y, dim, start, length)
                                                          : ct_reshape(y, CT_SHAPE(M, N));
            ct_tensor *g = ct_randn(context, CT_F64, ct_shape_of(part)),
                      *term = sum(ct_mul(part, g));
            const bool whole = ct_numel(part) == M * N;
            for (int64_t r = 0; r < ct_dim(part, 0); r++)
                for (int64_t c = 0; c < ct_dim(part, 1); c++)
                    want[(r + (whole || dim ? 0 : start)) * N + c + (whole || !dim ? 0 : start)] +=
                        a * ct_data_f64(g)[r * ct_dim(part, 1) + c];
            loss = loss ? ct_add(loss, term) : term;
        }
        ck_assert(ct_backward(loss));
        is(ct_grad(x), M * N, want);
        ct_scope_close(scope);
    }
}
END_TEST

START_TEST(f32_and_zero_sizes) {
    ct_tensor *x = ct_set_requires_grad(ct_from_f32(context, CT_SHAPE(2), (float[]){1, 2}), true);
    ct_backward(ct_sum(ct_mul(x, x), CT_ALL, false));
    ck_assert_int_eq(ct_dtype_of(ct_grad(x)), CT_F32);
    ck_assert(ct_data_f32(ct_grad(x))[1] == 4);
    ct_tensor *none = ct_set_requires_grad(ct_zeros(context, CT_F64, CT_SHAPE(0, 3)), true);
    ck_assert(ct_backward(sum(ct_exp(none))));
    ck_assert_int_eq(ct_numel(ct_grad(none)), 0);
    ck_assert_int_eq(ct_dim(ct_grad(none), 1), 3);
}
END_TEST

/* ---- what is kept ---- */

START_TEST(retain_graph_lets_backward_run_again) {
    ct_tensor *x = LEAF(1, 2), *loss = sum(ct_exp(ct_mul(x, x)));
    ck_assert(ct_backward_with(&loss, (ct_tensor *[]){NULL}, 1,
                               (ct_backward_opts){.retain_graph = true}));
    double a = ct_data_f64(ct_grad(x))[1];
    ck_assert(fabs(a - 4 * exp(4)) < 1e-12);
    ck_assert(ct_backward(loss));
    ck_assert(ct_data_f64(ct_grad(x))[1] == 2 * a);
    ck_refused(ct_backward(loss), CT_ERR_GRAD, "backward", "retain_graph");
    ck_assert(ct_data_f64(ct_grad(x))[1] == 2 * a);
}
END_TEST

START_TEST(a_second_backward_is_an_error) {
    ct_tensor *x = LEAF(1, 2), *y = ct_mul(x, x), *a = sum(y), *b = sum(ct_neg(y));
    ck_assert(ct_backward(a));
    ck_assert(!ct_backward(b)); /* through y, which is released */
    expect(CT_ERR_GRAD, "backward", "retain_graph");
    IS(ct_grad(x), 2, 4); /* the failed backward added nothing */
}
END_TEST

START_TEST(retained_gradients_of_intermediates) {
    ct_tensor *x = LEAF(1, 2), *y = ct_retain_grad(ct_mul(x, x)), *z = ct_scale(y, 3);
    ct_backward(sum(z));
    IS(ct_grad(y), 3, 3);
    IS(ct_grad(x), 6, 12);
    ck_assert_ptr_null(ct_grad(z));
    no_error();
    ck_assert(ct_zero_grad(y));
    ck_assert_ptr_null(ct_grad(y));
    /* nothing to retain */
    ck_refused(ct_retain_grad(ct_zeros(context, CT_F64, CT_SHAPE(1))), CT_ERR_GRAD, "retain_grad",
               "");
}
END_TEST

START_TEST(detach_cuts_and_shares) {
    ct_tensor *x = LEAF(1, 2), *y = ct_mul(x, x), *d = ct_detach(y);
    ck_assert(!ct_requires_grad(d) && ct_requires_grad(y));
    ck_assert_ptr_eq(ct_data_f64(d), ct_data_f64(y));
    ct_backward(sum(ct_mul(y, d)));
    IS(ct_grad(x), 2 * 1 * 1, 2 * 2 * 4);
}
END_TEST

START_TEST(no_grad_scopes_record_nothing) {
    ct_tensor *x = LEAF(1, 2);
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *y = ct_scope_keep(scope, ct_mul(x, x));
    ck_assert(!ct_requires_grad(y));
    ct_scope inner = ct_scope_open(context);
    ck_assert(!ct_requires_grad(ct_mul(x, x))); /* an ordinary scope inside does not switch it on */
    ct_scope_close(inner);
    ct_scope_close(scope);
    ct_tensor *z = ct_mul(x, y);
    ck_assert(ct_requires_grad(z));
    ct_backward(sum(z));
    IS(ct_grad(x), 1, 4);
}
END_TEST

START_TEST(closed_scopes_under_a_live_tape) {
    ct_tensor *x = LEAF(1, 2), *loss;
    ct_scope outer = ct_scope_open(context);
    {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *y = ct_mul(x, ct_exp(ct_mul(x, VECTOR(3, 4))));
        loss = ct_scope_return(scope, sum(y));
    }
    ct_scope other = ct_scope_open(context);
    /* released memory may be reused */
    for (int i = 0; i < 20; i++) ct_full(context, CT_F64, CT_SHAPE(2), NAN);
    ct_scope_close(other);
    ck_assert(ct_backward(loss));
    ck_assert(fabs(ct_data_f64(ct_grad(x))[1] - exp(8) * (1 + 2 * 4)) < 1e-9);
    ct_scope_close(outer);
    /* the gradient is the leaf's */
    ck_assert(fabs(ct_data_f64(ct_grad(x))[0] - exp(3) * (1 + 3)) < 1e-12);
}
END_TEST

START_TEST(a_leaf_may_end_before_backward) {
    ct_tensor *x = LEAF(1, 2);
    ct_scope scope = ct_scope_open(context);
    ct_tensor *y = LEAF(3, 4), *loss = ct_scope_keep(scope, sum(ct_mul(x, y)));
    ct_scope_close(scope);
    ck_assert(ct_backward(loss));
    IS(ct_grad(x), 3, 4);
}
END_TEST

START_TEST(a_million_nodes) {
    ct_tensor *x = LEAF(2);
    ct_scope warm = ct_scope_open(context);
    ct_backward(sum(ct_neg(x)));
    ct_scope_close(warm);
    ct_zero_grad(x);
    int64_t before = live();
    ct_scope scope = ct_scope_open(context);
    ct_tensor *y = x;
    for (int i = 0; i < 1000000; i++) {
        ct_tensor *next = ct_neg(y);
        if (y != x) ct_release(y);
        y = next;
    }
    ck_assert(ct_backward(sum(y)));
    ct_scope_close(scope);
    IS(ct_grad(x), 1);
    ct_zero_grad(x);
    ck_assert_int_eq(live(), before);

    /* a graph without a backward and with all handles open: closing the scope must not recurse */
    scope = ct_scope_open(context);
    y = x;
    for (int i = 0; i < 1000000; i++) y = ct_add_scalar(y, 1);
    ck_assert(ct_item(y) == 1000002);
    ct_scope_close(scope);
    ck_assert_int_eq(live(), before);
}
END_TEST

START_TEST(backward_lets_go_what_it_has_passed) {
    ct_tensor *x = ct_set_requires_grad(ct_ones(context, CT_F64, CT_SHAPE(1000)), true);
    ct_backward(sum(x));
    int64_t before = live();
    ct_scope scope = ct_scope_open(context);
    ct_tensor *y = x;
    for (int i = 0; i < 50; i++) {
        ct_tensor *next = ct_tanh(y);
        if (y != x) ct_release(y);
        y = next;
    }
    ct_tensor *loss = sum(y);
    ct_release(y);
    ck_assert(live() - before > 50 * 8000);
    ck_assert(ct_backward(loss));
    ck_assert_msg(live() - before < 3 * 8000, "%ld bytes are still held", (long)(live() - before));
    ct_scope_close(scope);
    ck_assert_int_eq(live(), before);
}
END_TEST

/* ---- mistakes ---- */

START_TEST(a_loss_of_several_elements) {
    ct_tensor *x = LEAF(1, 2), *y = ct_mul(x, x);
    ck_refused(ct_backward(y), CT_ERR_GRAD, "backward", "(2)");
    ck_refused(ct_backward_with(&y, (ct_tensor *[]){NULL}, 1, (ct_backward_opts){0}), CT_ERR_GRAD,
               "backward", "(2)");
    ck_assert(ct_backward(ct_view(sum(y), CT_SHAPE(1, 1)))); /* one element of any shape */
    IS(ct_grad(x), 2, 4);
}
END_TEST

START_TEST(nothing_to_go_back_through) {
    ck_refused(ct_backward(sum(VECTOR(1, 2))), CT_ERR_GRAD, "backward", "");
    ck_assert(!ct_backward(NULL)); /* without a tensor there is no context for the error */
    no_error();
}
END_TEST

START_TEST(cotangents_that_do_not_fit) {
    ct_tensor *x = LEAF(1, 2), *y = ct_mul(x, x), *g = VECTOR(1, 2, 3);
    ck_refused(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), CT_ERR_SHAPE, "(3)", "(2)");
    g = ct_ones(context, CT_F32, CT_SHAPE(2));
    ck_refused(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}), CT_ERR_DTYPE, "f32", "f64");
    ck_assert_ptr_null(ct_grad(x));
    g = VECTOR(1, 1);
    /* a refused backward has released nothing */
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    IS(ct_grad(x), 2, 4);
}
END_TEST

START_TEST(saved_values_that_changed) {
    ct_tensor *x = LEAF(1, 2), *loss = sum(ct_mul(x, x));
    ck_assert(ct_init_constant(x, 5));
    ck_refused(ct_backward(loss), CT_ERR_GRAD, "mul", "changed");
    ck_assert_ptr_null(ct_grad(x));

    ct_module *module = ct_linear_new(
        context, (ct_linear_opts){.in_features = 2, .out_features = 2, .dtype = CT_F64});
    ct_optim *optim = ct_sgd_new(module, (ct_sgd_opts){.lr = 0.1});
    ct_tensor *in = ct_set_requires_grad(ct_ones(context, CT_F64, CT_SHAPE(1, 2)), true);
    ct_tensor *early = sum(ct_forward(module, in));
    ct_backward(sum(ct_forward(module, in)));
    ck_assert(ct_optim_step(optim));
    ck_refused(ct_backward(early), CT_ERR_GRAD, "changed", "");
}
END_TEST

START_TEST(values_that_nobody_saved_may_change) {
    ct_tensor *x = LEAF(1, 2), *loss = sum(ct_add(x, x));
    ck_assert(ct_init_constant(x, 5));
    ck_assert(ct_backward(loss));
    IS(ct_grad(x), 2, 2);
}
END_TEST

START_TEST(only_real_leaves_collect) {
    ck_refused(ct_set_requires_grad(ct_zeros(context, CT_I64, CT_SHAPE(2)), true), CT_ERR_DTYPE,
               "requires_grad", "i64");
    ck_refused(ct_set_requires_grad(ct_zeros(context, CT_BOOL, CT_SHAPE(2)), true), CT_ERR_DTYPE,
               "requires_grad", "bool");
    ct_tensor *x = LEAF(1, 2), *y = ct_neg(x);
    ck_refused(ct_set_requires_grad(y, false), CT_ERR_GRAD, "requires_grad", "");
    ck_assert(!ct_requires_grad(NULL) && !ct_grad(NULL));

    ck_assert_ptr_eq(ct_set_requires_grad(x, false), x);
    ck_assert(!ct_requires_grad(ct_neg(x)));
    ct_tensor *z = VECTOR(1);
    ck_assert_ptr_eq(ct_set_requires_grad(z, true), z);
    ck_assert_ptr_eq(ct_set_requires_grad(z, true), z);
    ck_assert(ct_requires_grad(z));
    no_error();
}
END_TEST

START_TEST(a_pending_error_stops_backward) {
    ct_tensor *x = LEAF(1, 2), *loss = sum(ct_mul(x, x));
    ct_fail(context, CT_ERR_IO, "first");
    ck_assert(!ct_backward(loss));
    ck_assert(!ct_zero_grad(x));
    ck_assert_ptr_null(ct_detach(x));
    ck_assert_ptr_null(ct_set_requires_grad(x, false));
    ck_assert_str_eq(ct_error_message(context), "first");
    ct_error_clear(context);
    ck_assert_ptr_null(ct_grad(x));
    ck_assert(ct_backward(loss));
    IS(ct_grad(x), 2, 4);
}
END_TEST

/* ---- contexts that are not the same ---- */

START_TEST(two_contexts_do_not_mix) {
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ct_tensor *a = VECTOR(1, 2), *b = ct_ones(other, CT_F64, CT_SHAPE(2));
    ck_refused(ct_add(a, b), CT_ERR_ARGUMENT, "add", "context");
    ct_tensor *x = LEAF(1, 2), *y = ct_mul(x, x);
    ck_refused(ct_backward_with(&y, &b, 1, (ct_backward_opts){0}), CT_ERR_ARGUMENT, "backward",
               "context");
    ct_context_free(other);
}
END_TEST

int main(void) {
    return run_cases(
        "autograd",
        CASES({.name = "a large tape",
               .tags = "one-thread",
               .before = setup,
               .after = teardown,
               .tests = TESTS(TEST(a_million_nodes))},
              {.name = "autograd",
               .before = setup,
               .after = teardown,
               .tests = TESTS(
                   TEST(gradients_accumulate_until_zeroed), TEST(one_tensor_used_many_times),
                   TEST(same_tensor_twice_in_one_call),
                   TEST(the_gradient_handed_out_is_not_a_cotangent_of_mine),
                   TEST(two_leaves_of_one_sum_do_not_share_a_gradient),
                   TEST(a_norm_adds_to_a_gradient_that_others_share),
                   TEST(several_outputs_with_cotangents),
                   TEST(an_output_may_be_a_leaf_or_come_twice), TEST(through_views_and_broadcasts),
                   TEST(gradients_of_slices), TEST(f32_and_zero_sizes),
                   TEST(retain_graph_lets_backward_run_again), TEST(a_second_backward_is_an_error),
                   TEST(retained_gradients_of_intermediates), TEST(detach_cuts_and_shares),
                   TEST(no_grad_scopes_record_nothing), TEST(closed_scopes_under_a_live_tape),
                   TEST(a_leaf_may_end_before_backward), TEST(backward_lets_go_what_it_has_passed),
                   TEST(a_loss_of_several_elements), TEST(nothing_to_go_back_through),
                   TEST(cotangents_that_do_not_fit), TEST(saved_values_that_changed),
                   TEST(values_that_nobody_saved_may_change), TEST(only_real_leaves_collect),
                   TEST(a_pending_error_stops_backward), TEST(two_contexts_do_not_mix))}));
}
