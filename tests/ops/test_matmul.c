/* matmul and linear on views and broadcasts: values and gradients against sums over every index,
 * and the arguments that they refuse. */
#include "tests/support/suite.h"
#include <math.h>
#include <string.h>

#include <cotangent/cotangent.h>

#include "src/core/context.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* The element of an f64 tensor that stands at this index of 8 dims: the last ones are its own, and
 * dims of size 1 repeat. */
static double *element(ct_tensor *x, const int64_t *index) {
    int64_t offset = 0;
    for (int d = 0; d < ct_ndim(x); d++)
        offset += (ct_dim(x, d) == 1 ? 0 : index[8 - ct_ndim(x) + d]) * x->stride[d];
    return (double *)x->data + offset;
}
static double at(ct_tensor *x, const int64_t *index) { return *element(x, index); }

/* The product and both gradients against sums over every index. */

static void check_matmul(ct_tensor *a, ct_tensor *b) {
    ct_tensor *c = ct_matmul(a, b);
    ck_assert_msg(c, "%s", ct_error_message(ct_context_of(a)));
    const int64_t m = ct_dim(a, -2), n = ct_dim(b, -1), k = ct_dim(a, -1);
    ct_tensor *da = ct_zeros(ct_context_of(a), CT_F64, ct_shape_of(a)),
              *db = ct_zeros(ct_context_of(a), CT_F64, ct_shape_of(b));
    ct_tensor *g = ct_randn(ct_context_of(a), CT_F64, ct_shape_of(c));
    for (int64_t e = 0; e < ct_numel(c) / (m * n); e++) {
        int64_t index[8] = {0}, rest = e;
        for (int d = ct_ndim(c) - 3; d >= 0; d--) {
            index[8 - ct_ndim(c) + d] = rest % ct_dim(c, d);
            rest /= ct_dim(c, d);
        }
        for (int64_t i = 0; i < m; i++) {
            for (int64_t j = 0; j < n; j++) {
                double sum = 0, gij;
                index[6] = i, index[7] = j;
                gij = at(g, index);
                for (int64_t q = 0; q < k; q++) {
                    int64_t ia[8], ib[8];
                    memcpy(ia, index, sizeof ia);
                    memcpy(ib, index, sizeof ib);
                    ia[7] = q, ib[6] = q;
                    sum += at(a, ia) * at(b, ib);
                    *element(da, ia) += gij * at(b, ib);
                    *element(db, ib) += gij * at(a, ia);
                }
                ck_assert(fabs(sum - at(c, index)) < 1e-12);
            }
        }
    }
    ck_assert(ct_backward_with(&c, &g, 1, (ct_backward_opts){0}));
    for (int i = 0; i < 2; i++) {
        ct_tensor *want = i ? db : da, *got = ct_grad(i ? b : a);
        ck_assert(got != NULL);
        for (int64_t e = 0; e < ct_numel(want); e++)
            ck_assert(fabs(((double *)got->data)[e] - ((double *)want->data)[e]) < 1e-11);
    }
}

/* A view of a fresh leaf with its dims in another order, of that shape; the gradient of the view is
 * kept. */
static ct_tensor *permuted(ct_context *context, ct_shape shape, ct_shape order) {
    ct_shape stored = shape;
    for (int d = 0; d < shape.ndim; d++) stored.dim[order.dim[d]] = shape.dim[d];
    return ct_retain_grad(
        ct_permute(ct_set_requires_grad(ct_randn(context, CT_F64, stored), true), order));
}

START_TEST(matmul_of_views) {
    ct_context *context = ct_context_new((ct_context_opts){.threads = 2});
    static const int order[][4] = {
        {0, 1, 2, 3}, {0, 2, 1, 3}, {1, 0, 3, 2}, {3, 2, 1, 0}, {2, 3, 0, 1}};
    static const int64_t shape[][2][4] = {
        {{2, 3, 5, 4}, {2, 3, 4, 6}}, {{2, 3, 5, 4}, {1, 3, 4, 6}}, {{2, 1, 5, 4}, {2, 3, 4, 6}},
        {{2, 3, 5, 4}, {1, 1, 4, 6}}, {{1, 3, 5, 4}, {2, 1, 4, 6}}, {{1, 1, 5, 4}, {2, 3, 4, 6}},
        {{2, 3, 1, 4}, {1, 3, 4, 6}}, {{2, 3, 5, 1}, {2, 1, 1, 6}}, {{2, 3, 5, 4}, {2, 3, 4, 1}},
        {{3, 2, 1, 4}, {3, 1, 4, 1}}};
    for (int s = 0; s < COUNT(shape); s++) {
        for (int o = 0; o < COUNT(order) * COUNT(order); o++) {
            ct_scope scope = ct_scope_open(context);
            ct_shape x = {4, {0}}, y = x, ox = x, oy = x;
            for (int d = 0; d < 4; d++) {
                x.dim[d] = shape[s][0][d], y.dim[d] = shape[s][1][d];
                ox.dim[d] = order[o % COUNT(order)][d], oy.dim[d] = order[o / COUNT(order)][d];
            }
            check_matmul(permuted(context, x, ox), permuted(context, y, oy));
            ct_scope_close(scope);
        }
    }
    ct_context_free(context);
}
END_TEST

/* Two matrices: each as it lies or transposed, and with a gap between its rows or not. */
START_TEST(matmul_of_two_matrices) {
    ct_context *context = ct_context_new((ct_context_opts){.threads = 2});
    /* m, k, n */
    static const int64_t size[][3] = {{5, 4, 6}, {1, 4, 6},   {5, 1, 6},  {5, 4, 1},
                                      {1, 7, 1}, {17, 33, 9}, {40, 3, 35}};
    for (int s = 0; s < COUNT(size); s++) {
        for (int way = 0; way < 16; way++) {
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x[2];
            for (int i = 0; i < 2; i++) {
                const int64_t rows = size[s][i], cols = size[s][i + 1];
                const bool transposed = way >> i & 1, gap = way >> (2 + i) & 1;
                const ct_shape order = transposed ? CT_SHAPE(1, 0) : CT_SHAPE(0, 1);
                x[i] = permuted(context, CT_SHAPE(rows + 3 * gap, cols + 2 * gap), order);
                if (gap) x[i] = ct_retain_grad(ct_narrow(ct_narrow(x[i], 0, 1, rows), 1, 2, cols));
            }
            check_matmul(x[0], x[1]);
            ct_scope_close(scope);
        }
    }
    ct_context_free(context);
}
END_TEST

/* As many batch dims as there can be, none of which join. */
START_TEST(matmul_of_many_dims) {
    ct_context *context = ct_context_new((ct_context_opts){.threads = 1});
    const ct_shape order = CT_SHAPE(0, 1, 2, 3, 4, 5, 6, 7);
    ct_scope scope = ct_scope_open(context);
    check_matmul(permuted(context, CT_SHAPE(2, 1, 3, 1, 2, 1, 2, 3), order),
                 permuted(context, CT_SHAPE(1, 2, 1, 2, 1, 3, 3, 2), order));
    check_matmul(permuted(context, CT_SHAPE(1, 3, 1, 2, 1, 2, 2, 3), order),
                 permuted(context, CT_SHAPE(2, 1, 2, 1, 3, 1, 3, 2), order));
    ct_scope_close(scope);
    ct_context_free(context);
}
END_TEST

/* The bias comes to every element once, however the dims of x join: views, x that repeats, one
 * feature, rows of one. */
START_TEST(bias_of_views) {
    ct_context *context = ct_context_new((ct_context_opts){.threads = 2});
    static const int order[][4] = {
        {0, 1, 2, 3}, {0, 2, 1, 3}, {1, 0, 3, 2}, {3, 2, 1, 0}, {2, 3, 0, 1}};
    static const int64_t shape[][4] = {{2, 3, 5, 4}, {2, 3, 1, 4}, {1, 1, 1, 4},
                                       {2, 1, 5, 1}, {2, 3, 5, 0}, {2, 0, 5, 4}};
    for (int s = 0; s < COUNT(shape) * COUNT(order); s++) {
        for (int repeat = 0; repeat < 2; repeat++) {
            for (int64_t out = 1; out <= 70; out += 69) {
                ct_scope scope = ct_scope_open_no_grad(context);
                ct_shape of_x = {4, {0}}, order_x = of_x;
                for (int d = 0; d < 4; d++)
                    of_x.dim[d] = shape[s / COUNT(order)][d],
                    order_x.dim[d] = order[s % COUNT(order)][d];
                ct_shape stored = of_x;
                for (int d = 0; d < 4; d++) stored.dim[order_x.dim[d]] = of_x.dim[d];
                ct_tensor *x = ct_permute(ct_randn(context, CT_F64, stored), order_x);
                if (repeat) x = ct_expand(ct_narrow(x, 1, 0, of_x.dim[1] > 0), of_x);
                ct_tensor *w = ct_randn(context, CT_F64, CT_SHAPE(out, of_x.dim[3])),
                          *b = ct_randn(context, CT_F64, CT_SHAPE(out));
                ct_tensor *got = ct_linear(x, w, b),
                          *want = ct_add(ct_matmul(x, ct_transpose(w, 0, 1)), b);
                ck_assert_msg(got && want, "%s", ct_error_message(context));
                for (int64_t i = 0; i < ct_numel(want); i++)
                    ck_assert(fabs(ct_data_f64(got)[i] - ct_data_f64(want)[i]) < 1e-12);
                ct_scope_close(scope);
            }
        }
    }
    ct_context_free(context);
}
END_TEST

/* Widths whose rows would share sets of a cache, and those that would not, one or several rows; x a
 * leaf or not; every activation, whichever gradients are wanted. */
START_TEST(activated_linear_is_both) {
    ct_context *context = ct_context_new((ct_context_opts){.seed = 11, .threads = 2});
    static const ct_shape shapes[] = {
        CT_SHAPE(256),          CT_SHAPE(5, 256),     CT_SHAPE(2, 3, 512),
        CT_SHAPE(2, 2, 3, 256), CT_SHAPE(3, 40, 512), CT_SHAPE(3, 255),
        CT_SHAPE(1, 4, 257),    CT_SHAPE(24, 4096),   CT_SHAPE(3, 11, 4001)};
    for (int i = 0; i < 6 * COUNT(shapes); i++) {
        const ct_shape shape = shapes[i / 6];
        const ct_activation f = (ct_activation)((i + i / 18) % CT_QUICK_GELU + 1);
        const bool inner = i % 2, wanted[] = {i / 2 % 3 != 1, i / 2 % 3 != 2}; /* dx, dw */
        ct_scope scope = ct_scope_open(context);
        /* cut into blocks of columns */
        const int64_t in = shape.dim[shape.ndim - 1], out = in / 1000 == 4 ? 64 : 7;
        ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F64, shape), wanted[0]);
        ct_tensor *w =
                      ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(out, in)), wanted[1]),
                  *leaf[] = {x, w}, *grad[2][2], *y[2];
        ct_tensor *g = NULL;
        for (int fused = 0; fused < 2; fused++) {
            ct_tensor *own = inner ? ct_scale(x, 3) : x;
            y[fused] = fused ? ct_activated_linear(own, f, w, NULL, NULL)
                             : ct_linear(ct_activate(own, f), w, NULL);
            ck_assert_msg(y[fused], "%s", ct_error_message(context));
            if (!g) g = ct_randn(context, CT_F64, ct_shape_of(y[fused]));
            ck_assert(ct_backward_with(&y[fused], &g, 1, (ct_backward_opts){0}));
            for (int l = 0; l < 2; l++) {
                if (!wanted[l]) continue;
                grad[fused][l] = ct_scale(ct_grad(leaf[l]), 1);
                ck_assert(ct_data_f64(ct_grad(leaf[l])) != NULL);
                ct_zero_grad(leaf[l]);
            }
        }
        for (int64_t e = 0; e < ct_numel(g); e++)
            ck_assert(fabs(ct_data_f64(y[0])[e] - ct_data_f64(y[1])[e]) < 1e-10);
        for (int l = 0; l < 2; l++)
            for (int64_t e = 0; wanted[l] && e < ct_numel(leaf[l]); e++)
                ck_assert(fabs(ct_data_f64(grad[0][l])[e] - ct_data_f64(grad[1][l])[e]) < 1e-12);
        ct_scope_close(scope);
    }
    ct_context_free(context);
}
END_TEST

/* The gradient that activated_linear hands on: rows of 2,048 bytes or a multiple are 16 numbers
 * apart, others not. */
static int64_t handed_on; /* a row's step */
static ct_tensor *pass_forward(ct_call *c) { return ct_scale(c->in[0], 1); }
static bool pass_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    (void)c;
    handed_on = g[0]->stride[g[0]->shape.ndim - 2];
    return (grad[0] = g[0]) != NULL;
}

START_TEST(rows_apart) {
    static const ct_op pass = {
        .name = "pass", .forward = pass_forward, .backward = pass_backward, .flags = CT_OP_STRIDED};
    static const int64_t widths[][3] = {{512, 528, 528},    {256, 256, 272},    {768, 768, 784},
                                        {1024, 1040, 1040}, {2049, 2049, 2049}, {8, 8, 8},
                                        {1, 1, 1}}; /* in f32, in f64 */
    ct_context *context = ct_context_new((ct_context_opts){.seed = 12, .threads = 1});
    for (int i = 0; i < 2 * COUNT(widths); i++) {
        const ct_dtype dtype = i % 2 ? CT_F64 : CT_F32;
        ct_scope scope = ct_scope_open(context);
        ct_tensor *x =
            ct_set_requires_grad(ct_randn(context, dtype, CT_SHAPE(2, 5, widths[i / 2][0])), true);
        ct_tensor *w = ct_randn(context, dtype, CT_SHAPE(3, widths[i / 2][0]));
        ct_tensor *y = ct_activated_linear(ct_apply(&pass, &x, 1, NULL), CT_GELU, w, NULL, NULL);
        ct_tensor *g = ct_randn(context, dtype, CT_SHAPE(2, 5, 3));
        ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
        ck_assert_int_eq(handed_on, widths[i / 2][1 + i % 2]);
        ct_scope_close(scope);
    }
    ct_context_free(context);
}
END_TEST

static void refused(ct_context *context, ct_tensor *out, ct_status status, const char *message) {
    ck_assert(out == NULL);
    ck_assert_int_eq(ct_error(context), status);
    ck_assert_str_eq(ct_error_message(context), message);
    ct_error_clear(context);
}

START_TEST(refusals) {
    ct_context *context = ct_context_new((ct_context_opts){.threads = 1});
#define ZEROS(...) ct_zeros(context, CT_F32, CT_SHAPE(__VA_ARGS__))
    refused(context, ct_matmul(ZEROS(2, 10, 512), ZEROS(256, 64)), CT_ERR_SHAPE,
            "matmul: inner sizes differ: (2, 10, 512) @ (256, 64)");
    refused(context, ct_matmul(ZEROS(3), ZEROS(4)), CT_ERR_SHAPE,
            "matmul: inner sizes differ: (3) @ (4)");
    refused(context, ct_matmul(ZEROS(2, 3, 4), ZEROS(3, 4, 5)), CT_ERR_SHAPE,
            "matmul: batch dims do not broadcast: (2, 3, 4) @ (3, 4, 5)");
    refused(context, ct_matmul(ZEROS(2, 3), ct_zeros(context, CT_F32, CT_SCALAR)), CT_ERR_SHAPE,
            "matmul: a scalar has no inner size: (2, 3) @ ()");
    refused(context, ct_linear(ZEROS(2, 10), ZEROS(4, 5), NULL), CT_ERR_SHAPE,
            "linear: inner sizes differ: (2, 10) with weight (4, 5)");
    refused(context, ct_linear(ZEROS(2, 5), ZEROS(4, 5), ZEROS(5)), CT_ERR_SHAPE,
            "linear: bias (5) does not fit weight (4, 5)");
    refused(context, ct_linear(ZEROS(2, 5), ZEROS(5), NULL), CT_ERR_SHAPE,
            "linear: weight must be (out, in), not (5)");
    refused(context, ct_linear(ZEROS(2, 5), NULL, NULL), CT_ERR_ARGUMENT, "linear: weight is NULL");
    refused(context, ct_activated_linear(ZEROS(2, 5), CT_GELU, NULL, NULL, NULL), CT_ERR_ARGUMENT,
            "activated_linear: weight is NULL");
    refused(context, ct_activated_linear(ZEROS(2, 5), (ct_activation)9, ZEROS(4, 5), NULL, NULL),
            CT_ERR_ARGUMENT, "activated_linear: no activation 9");
    refused(context, ct_activated_linear(ZEROS(2, 5), CT_RELU, ZEROS(4, 3), NULL, NULL),
            CT_ERR_SHAPE,
            "activated_linear: (2, 5) with weight (4, 3), not (..., in) with (out, in)");
    refused(context, ct_activated_linear(ZEROS(2, 5), CT_RELU, ZEROS(4, 5), ZEROS(5), NULL),
            CT_ERR_SHAPE, "activated_linear: bias (5) does not fit weight (4, 5)");
    refused(context, ct_activated_linear(ZEROS(2, 5), CT_RELU, ZEROS(4, 5), NULL, ZEROS(4)),
            CT_ERR_SHAPE, "activated_linear: residual (4) beside a result of (2, 4)");
    ck_assert(!ct_matmul(ZEROS(2, 3), ct_zeros(context, CT_F64, CT_SHAPE(3, 2))) &&
              ct_error(context) == CT_ERR_DTYPE);
    ct_error_clear(context);
    ct_tensor *whole = ct_zeros(context, CT_I64, CT_SHAPE(3, 3));
    ck_assert(!ct_matmul(whole, whole) && ct_error(context) == CT_ERR_DTYPE);
    ct_error_clear(context);
    ck_assert(!ct_linear(ZEROS(2, 3), ZEROS(4, 3), ct_zeros(context, CT_F64, CT_SHAPE(4))) &&
              ct_error(context) == CT_ERR_DTYPE);
    ct_context_free(context);
}
END_TEST

int main(void) {
    return run_tests("matmul", NULL, NULL,
                     TESTS(TEST(matmul_of_views), TEST(matmul_of_two_matrices),
                           TEST(matmul_of_many_dims), TEST(bias_of_views),
                           TEST(activated_linear_is_both), TEST(rows_apart), TEST(refusals)));
}
