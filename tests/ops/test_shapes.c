/* Views and copies of shapes, what test_ops.c does not cover: shared memory, which strides allow a
 * view, error messages. */
#include "tests/support/op_check.h"

static ct_tensor *counted(ct_shape shape) { /* 0, 1, 2, ... with a gradient */
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    return ct_set_requires_grad(
        ct_contiguous(ct_detach(ct_view(ct_arange(context, CT_F64, 0, (double)n, 1), shape))),
        true);
}

static bool shares(ct_tensor *view, ct_tensor *x, int64_t offset) {
    return ct_data_f64(ct_numel(view) == 1 ? ct_view(view, CT_SHAPE(1)) : view) ==
           ct_data_f64(x) + offset;
}

START_TEST(views_share_memory) {
    ct_tensor *x = counted(CT_SHAPE(2, 3, 4));
    ck_assert(shares(ct_view(x, CT_SHAPE(6, 4)), x, 0));
    ck_assert(shares(ct_reshape(x, CT_SHAPE(4, -1)), x, 0));
    ck_assert(shares(ct_narrow(x, 0, 1, 1), x, 12));
    ck_assert(shares(ct_select(x, 0, -1), x, 12));
    ck_assert(shares(ct_squeeze(x, 0), x, 0));
    ck_assert(shares(ct_unsqueeze(x, 1), x, 0));
    ck_assert(shares(ct_contiguous(x), x, 0));
    ck_assert(shares(ct_cast(x, CT_F64), x, 0));
    ck_assert(shares(ct_dropout(x, 0.5, false), x, 0));
    ck_assert(shares(ct_transpose(ct_transpose(x, 0, 2), 0, 2), x, 0));
    ck_assert(shares(ct_permute(ct_permute(x, CT_DIMS(1, 2, 0)), CT_DIMS(2, 0, 1)), x, 0));
    ck_assert(!shares(ct_contiguous(ct_narrow(x, 0, 0, 1)), x, 12));
    ck_assert(!shares(ct_reshape(ct_transpose(x, 0, 1), CT_SHAPE(24)), x, 0));
    ct_tensor *out[2];
    ck_assert(ct_split(x, 1, 0, out, 2));
    ck_assert(shares(out[0], x, 0) && shares(out[1], x, 12));
    ct_data_f64(x)[12] = 70;
    ck_assert_double_eq(ct_data_f64(out[1])[0], 70);
}
END_TEST

START_TEST(values_of_views) {
    ct_tensor *x = counted(CT_SHAPE(2, 3));
    IS(ct_transpose(x, 0, 1), 0, 3, 1, 4, 2, 5);
    IS(ct_narrow(ct_transpose(x, 0, 1), 0, -2, 2), 1, 4, 2, 5);
    IS(ct_select(x, 1, -2), 1, 4);
    IS(ct_reshape(ct_transpose(x, 0, 1), CT_SHAPE(2, 3)), 0, 3, 1, 4, 2, 5);
    IS(ct_expand(ct_select(x, 0, 1), CT_SHAPE(2, -1)), 3, 4, 5, 3, 4, 5);
    has_shape(ct_expand(of(CT_F32, CT_SHAPE(1, 3)), CT_SHAPE(0, 3)), CT_SHAPE(0, 3));
    has_shape(ct_view(of(CT_F32, CT_SHAPE(0, 3)), CT_SHAPE(-1, 3)), CT_SHAPE(0, 3));
    has_shape(ct_view(of(CT_F32, CT_SHAPE(0, 3)), CT_SHAPE(5, 0, 2)), CT_SHAPE(5, 0, 2));
    ct_tensor *scalar = ct_full(context, CT_F64, CT_SCALAR, 7);
    IS(ct_transpose(scalar, 0, -1), 7);
    has_shape(ct_transpose(scalar, -1, 0), CT_SCALAR);
    has_shape(ct_squeeze(scalar, 0), CT_SCALAR);
    has_shape(ct_permute(scalar, CT_SCALAR), CT_SCALAR);
    has_shape(ct_softmax(scalar, -1), CT_SCALAR);
    has_shape(ct_logsumexp(scalar, 0), CT_SCALAR);
    has_shape(ct_stack((ct_tensor *[]){scalar, scalar, scalar}, 3, -1), CT_SHAPE(3));
    has_shape(ct_squeeze(x, 0), CT_SHAPE(2, 3));
}
END_TEST

/* Views of every permutation of a (2, 3, 2) tensor and of a narrowed one, in every shape of 12
 * elements. A view has the values of reshape. It is possible exactly if each of its dims has one
 * stride. */
START_TEST(viewed_or_refused) {
    const ct_shape shapes[] = {CT_SHAPE(12),           CT_SHAPE(1, 12),   CT_SHAPE(2, 6),
                               CT_SHAPE(6, 2),         CT_SHAPE(3, 4),    CT_SHAPE(4, 3),
                               CT_SHAPE(2, 3, 2),      CT_SHAPE(3, 2, 2), CT_SHAPE(2, 2, 3),
                               CT_SHAPE(1, 2, 1, 6),   CT_SHAPE(2, 6, 1), CT_SHAPE(12, 1, 1),
                               CT_SHAPE(3, 1, 2, 2, 1)};
    const ct_shape orders[] = {CT_DIMS(0, 1, 2), CT_DIMS(0, 2, 1), CT_DIMS(1, 0, 2),
                               CT_DIMS(1, 2, 0), CT_DIMS(2, 0, 1), CT_DIMS(2, 1, 0)};
    int viewed = 0, refused = 0;
    for (int whole = 0; whole < 2; whole++)
        for (int o = 0; o < 6; o++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                ct_tensor *base = ct_detach(counted(CT_SHAPE(2, 3, whole ? 2 : 4)));
                ct_tensor *x = ct_permute(whole ? base : ct_narrow(base, 2, 1, 2), orders[o]);
                double want[12], place[12];
                ct_to_f64(x, want, 12);
                ct_tensor *copy = ct_reshape(x, shapes[s]);
                ck_assert_msg(ct_to_f64(copy, place, 12), "%s", ct_error_message(context));
                ck_assert_mem_eq(want, place, sizeof want);
                /* a value is the element's place in memory, so along each dim neighbours must
                 * differ by one number */
                bool regular = true;
                int64_t inner = 1;
                for (int d = shapes[s].ndim - 1; d >= 0; inner *= shapes[s].dim[d--])
                    for (int64_t i = 0; i < 12; i++) {
                        const int64_t at = i / inner % shapes[s].dim[d];
                        if (at > 0)
                            regular = regular && want[i] - want[i - inner] == want[inner] - want[0];
                    }
                ct_tensor *view = ct_view(x, shapes[s]);
                ck_assert_msg(regular == (view != NULL), "order %d, shape %d: %s", o, (int)s,
                              regular ? ct_error_message(context) : "a view");
                if (view) {
                    ct_to_f64(view, place, 12);
                    ck_assert_mem_eq(want, place, sizeof want);
                    viewed++;
                } else {
                    ck_assert_int_eq(ct_error(context), CT_ERR_SHAPE);
                    ck_assert_ptr_nonnull(strstr(ct_error_message(context), "ct_reshape"));
                    ct_error_clear(context);
                    refused++;
                }
            }
    ck_assert_int_gt(viewed, 30);
    ck_assert_int_gt(refused, 30);
}
END_TEST

START_TEST(errors_of_shapes) {
    ct_tensor *x = of(CT_F32, CT_SHAPE(2, 3)), *none = of(CT_F32, CT_SHAPE(0, 3)),
              *scalar = of(CT_F32, CT_SCALAR);
    ct_tensor *full = of(CT_F32, CT_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), *i = of(CT_I64, CT_SHAPE(2, 3));
    FAILS(ct_view(x, CT_SHAPE(4)), CT_ERR_SHAPE, "view: (2, 3)");
    FAILS(ct_view(x, CT_SHAPE(-1, 4)), CT_ERR_SHAPE, "(-1, 4)");
    FAILS(ct_view(x, CT_SHAPE(-1, -1)), CT_ERR_SHAPE,
          "view: only one size may be inferred: (-1, -1)");
    FAILS(ct_view(x, CT_SHAPE(-2, 3)), CT_ERR_SHAPE, "view");
    FAILS(ct_view(none, CT_SHAPE(0, -1)), CT_ERR_SHAPE, "ambiguous");
    FAILS(ct_view(x, CT_SHAPE(0, -1)), CT_ERR_SHAPE, "view");
    FAILS(ct_view(ct_transpose(x, 0, 1), CT_SHAPE(6)), CT_ERR_SHAPE,
          "view: the strides of (3, 2) cannot express (6); ct_reshape");
    FAILS(ct_view(x, CT_SHAPE(INT64_MAX, 4)), CT_ERR_MEMORY, "view");
    FAILS(ct_reshape(x, CT_SHAPE(5)), CT_ERR_SHAPE, "reshape: (2, 3)");
    FAILS(ct_transpose(x, 0, 2), CT_ERR_SHAPE, "transpose: no dim 2");
    FAILS(ct_transpose(scalar, 0, 1), CT_ERR_SHAPE, "transpose");
    FAILS(ct_permute(x, CT_DIMS(0)), CT_ERR_SHAPE,
          "permute: (0) does not name every dim of (2, 3) once");
    FAILS(ct_permute(x, CT_DIMS(0, -2)), CT_ERR_SHAPE, "permute: dim -2 is named twice");
    FAILS(ct_permute(x, CT_DIMS(0, 2)), CT_ERR_SHAPE, "permute: no dim 2");
    FAILS(ct_narrow(x, 1, 2, 2), CT_ERR_SHAPE, "narrow: 2 from 2 is outside dim 1 of (2, 3)");
    FAILS(ct_narrow(x, 1, -4, 1), CT_ERR_SHAPE, "narrow: 1 from -4");
    FAILS(ct_narrow(x, 1, 0, -1), CT_ERR_SHAPE, "narrow: -1 from 0");
    FAILS(ct_narrow(x, 1, 1, INT64_MAX), CT_ERR_SHAPE, "narrow");
    FAILS(ct_narrow(scalar, 0, 0, 0), CT_ERR_SHAPE, "narrow: no dim 0");
    FAILS(ct_select(x, 0, 2), CT_ERR_SHAPE, "select: index 2 is outside dim 0 of (2, 3)");
    FAILS(ct_select(x, 1, -4), CT_ERR_SHAPE, "select: index -4 is outside dim 1 of (2, 3)");
    FAILS(ct_select(none, 0, 0), CT_ERR_SHAPE, "select");
    FAILS(ct_expand(x, CT_SHAPE(4, 3)), CT_ERR_SHAPE, "expand: (2, 3) does not expand to (4, 3)");
    FAILS(ct_expand(x, CT_SHAPE(3)), CT_ERR_SHAPE, "expand: (2, 3) does not expand to (3)");
    FAILS(ct_expand(x, CT_SHAPE(-1, 2, 3)), CT_ERR_SHAPE, "expand");
    FAILS(ct_squeeze(x, 2), CT_ERR_SHAPE, "squeeze: no dim 2");
    FAILS(ct_unsqueeze(x, 3), CT_ERR_SHAPE, "unsqueeze: no dim 3");
    FAILS(ct_unsqueeze(full, 0), CT_ERR_SHAPE, "unsqueeze");
    FAILS(ct_cast(x, (ct_dtype)9), CT_ERR_DTYPE, "cast");
    FAILS(ct_cat((ct_tensor *[]){x, none}, 2, 1), CT_ERR_SHAPE,
          "cat: sizes differ beyond dim 1: (2, 3) and (0, 3)");
    FAILS(ct_cat((ct_tensor *[]){x, scalar}, 2, 0), CT_ERR_SHAPE,
          "cat: sizes differ beyond dim 0: (2, 3) and ()");
    FAILS(ct_cat(&scalar, 1, 0), CT_ERR_SHAPE, "cat: a scalar");
    FAILS(ct_cat((ct_tensor *[]){x, i}, 2, 0), CT_ERR_DTYPE, "cat: dtypes differ: f32 and i64");
    FAILS(ct_cat((ct_tensor *[]){x, NULL}, 2, 0), CT_ERR_ARGUMENT, "cat: input 1 is NULL");
    FAILS(ct_cat(&x, 1, 2), CT_ERR_SHAPE, "cat: no dim 2");
    FAILS(ct_stack((ct_tensor *[]){x, none}, 2, 0), CT_ERR_SHAPE,
          "stack: shapes differ: (2, 3) and (0, 3)");
    FAILS(ct_stack((ct_tensor *[]){x, i}, 2, 0), CT_ERR_DTYPE, "stack");
    FAILS(ct_stack(&full, 1, 0), CT_ERR_SHAPE, "stack");
    ck_assert_ptr_null(ct_cat(NULL, 0, 0));
    ck_assert_ptr_null(ct_stack(&x, 0, 0));
    ck_assert_int_eq(ct_error(context), CT_OK);
}
END_TEST

START_TEST(splitting) {
    ct_tensor *x = counted(CT_SHAPE(2, 5)), *out[3];
    ck_assert(ct_split(x, 2, 1, out, 3));
    IS(out[0], 0, 1, 5, 6);
    IS(out[2], 4, 9);
    backward(ct_mul(out[1], out[1]));
    IS(ct_grad(x), 0, 0, 2 * 1 * 2, 2 * 2 * 3, 0, 0, 0, 2 * 3 * 7, 2 * 4 * 8, 0);
    ct_tensor *marks[4] = {x, x, x, x};
    ck_assert(!ct_split(x, 2, 1, marks, 2));
    ck_assert_msg(
        strstr(ct_error_message(context), "split: dim 1 of (2, 5) in parts of 2 gives 3, not 2"),
        "%s", ct_error_message(context));
    for (int k = 0; k < 4; k++) ck_assert_ptr_eq(marks[k], k < 2 ? NULL : x);
    ct_error_clear(context);
    ck_assert(!ct_split(x, 0, 1, out, 3) && ct_error(context) == CT_ERR_ARGUMENT);
    ct_error_clear(context);
    ck_assert(!ct_split(x, 2, 2, out, 3) && ct_error(context) == CT_ERR_SHAPE);
    ct_error_clear(context);
    ck_assert(!ct_split(NULL, 2, 1, out, 3) && !out[0] && !out[2]);
}
END_TEST

/* Overlapping parts, and a view used together with the whole tensor: gradients are added at their
 * indices. */
START_TEST(gradients_of_parts_add_up) {
    ct_tensor *x = counted(CT_SHAPE(2, 3));
    ct_tensor *y = ct_add(ct_sum(ct_narrow(x, 1, 0, 2), CT_ALL, false),
                          ct_scale(ct_sum(ct_narrow(x, 1, 1, 2), CT_ALL, false), 10));
    y = ct_add(y, ct_scale(ct_sum(ct_select(x, 0, 1), CT_ALL, false), 100));
    ck_assert(ct_backward(ct_add(y, ct_scale(ct_sum(x, CT_ALL, false), 1000))));
    IS(ct_grad(x), 1001, 1011, 1010, 1101, 1111, 1110);
    ck_assert(
        ct_backward(ct_sum(ct_narrow(x, 0, 0, 1), CT_ALL, false))); /* onto an earlier gradient */
    IS(ct_grad(x), 1002, 1012, 1011, 1101, 1111, 1110);
    ct_zero_grad(x);
    backward(ct_narrow(ct_transpose(x, 0, 1), 0, 1, 2)); /* into an intermediate's gradient */
    IS(ct_grad(x), 0, 1, 3, 0, 2, 4);
    ct_zero_grad(x);
    backward(ct_cat((ct_tensor *[]){x, x}, 2, 1));
    IS(ct_grad(x), 1 + 4, 2 + 5, 3 + 6, 7 + 10, 8 + 11, 9 + 12);
    ct_zero_grad(x);
    backward(ct_stack((ct_tensor *[]){x, x}, 2, 1));
    IS(ct_grad(x), 1 + 4, 2 + 5, 3 + 6, 7 + 10, 8 + 11, 9 + 12);
}
END_TEST

/* Each op with a dim of (2, 3, 1, 4), with `end` the same dim counted from the end. */
static ct_tensor *along(int which, ct_tensor *x, int end) {
    ct_tensor *twice[] = {x, ct_scale(x, 2)};
    switch (which) {
    case 0: return ct_permute(x, CT_DIMS(3 - end, 0, 2 - end, 1 - end));
    case 1: return ct_transpose(x, 3 - end, 0 - end);
    case 2: return ct_narrow(x, 1 - end, 1, 2);
    case 3: return ct_select(x, 3 - end, 2);
    case 4: return ct_squeeze(x, 2 - end);
    case 5: return ct_unsqueeze(x, end ? 1 - end - 1 : 1);
    case 6: return ct_cat(twice, 2, 1 - end);
    case 7: return ct_stack(twice, 2, end ? 0 - end - 1 : 0);
    case 8: return ct_softmax(x, 1 - end);
    case 9: return ct_logsumexp(x, 0 - end);
    case 10: return ct_gather(x, 1 - end, ct_zeros(context, CT_I64, CT_SHAPE(2, 2, 1, 4)));
    case 11: return ct_sum(x, CT_DIMS(3 - end, 1), false);
    case 12: return ct_mean(x, CT_DIMS(0 - end, 3), true);
    case 13: return ct_max(x, CT_DIMS(1 - end), false);
    default: return NULL;
    }
}

START_TEST(gradients_of_dims_from_the_end) {
    double values[24], grad[2][24];
    for (int i = 0; i < 24; i++) values[i] = sin(5 * i + 1);
    for (int which = 0; which < 14; which++) {
        for (int end = 0; end < 2; end++) {
            ct_tensor *x =
                ct_set_requires_grad(ct_from_f64(context, CT_SHAPE(2, 3, 1, 4), values), true);
            backward(along(which, x, 4 * end));
            ck_assert(ct_to_f64(ct_grad(x), grad[end], 24));
        }
        ck_assert_msg(!memcmp(grad[0], grad[1], sizeof grad[0]),
                      "op %d: the gradient depends on how its dim is named", which);
    }
}
END_TEST

START_TEST(casting) {
    const double values[] = {-1.9, -0.5, 0, 0.5, 2.9};
    ct_tensor *x = ct_set_requires_grad(ct_from_f64(context, CT_SHAPE(5), values), true);
    IS(ct_cast(x, CT_I64), -1, 0, 0, 0, 2);
    IS(ct_cast(x, CT_BOOL), 1, 1, 0, 1, 1);
    IS(ct_cast(ct_cast(x, CT_BOOL), CT_F32), 1, 1, 0, 1, 1);
    ck_assert(!ct_requires_grad(ct_cast(x, CT_I64)));
    ct_tensor *y = ct_cast(ct_mul(x, x), CT_F32);
    ck_assert_int_eq(ct_dtype_of(y), CT_F32);
    backward(y);
    ck_assert_int_eq(ct_dtype_of(ct_grad(x)), CT_F64);
    IS(ct_grad(x), -3.8, -2, 0, 4, 29);
}
END_TEST

/* The tape saves neither the input's nor the output's values for a view. */
START_TEST(views_keep_no_values) {
    ct_tensor *x = ct_set_requires_grad(ct_zeros(context, CT_F64, CT_SHAPE(64, 64)), true);
    ct_scope scope = ct_scope_open(context);
    ct_tensor *y = ct_scale(x, 1),
              *one = ct_scope_keep(scope,
                                   ct_sum(ct_select(ct_transpose(y, 0, 1), 0, 3), CT_ALL, false));
    ct_scope_close(scope);
    ck_assert_int_lt(ct_memory(context).live, 64 * 64 * 8 * 3 / 2);
    ck_assert(ct_backward(one));
    ck_assert_double_eq(ct_data_f64(ct_grad(x))[64 * 5 + 3], 1);
    ck_assert_double_eq(ct_data_f64(ct_grad(x))[64 * 5 + 4], 0);
}
END_TEST

int main(void) {
    return run_tests("shapes", open_context, close_context,
                     TESTS(TEST(views_share_memory), TEST(values_of_views), TEST(viewed_or_refused),
                           TEST(errors_of_shapes), TEST(splitting), TEST(gradients_of_parts_add_up),
                           TEST(gradients_of_dims_from_the_end), TEST(casting),
                           TEST(views_keep_no_values)));
}
