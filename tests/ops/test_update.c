/* Updates in place: their values for any number of threads, and that backward through values saved
 * before is an error. */
#include "tests/support/op_check.h"

#include <float.h>

#include "ops/update/update.h"

static void refused(bool done, ct_status status, const char *message) {
    ck_assert(!done);
    ck_assert_msg(ct_error(context) == status && strstr(ct_error_message(context), message),
                  "\"%s\"", ct_error_message(context));
    ct_error_clear(context);
}

static double squares_of(ct_tensor *g) {
    return cti_op_sum_squares(&(ct_optim_item){.grad = g}, 1);
}

/* The numbers of an item of AdamW or SGD, without its tensors. */
typedef struct {
    double number[CTI_OP_ADAM_NUMBERS]; /* beta1, beta2, eps; or momentum, dampening, nesterov */
    double lr, weight_decay, grad_scale;
    int64_t step;
} step_numbers;

static ct_optim_item item_of(ct_tensor *p, ct_tensor *g, ct_tensor *first, ct_tensor *second,
                             const step_numbers *n) {
    return (ct_optim_item){.param = p,
                           .grad = g,
                           .state = {first, second},
                           .step = n->step,
                           .lr = n->lr,
                           .weight_decay = n->weight_decay,
                           .grad_scale = n->grad_scale,
                           .numbers = n->number};
}
static bool adam(ct_tensor *p, ct_tensor *g, ct_tensor *m, ct_tensor *v, step_numbers numbers) {
    ct_optim_item item = item_of(p, g, m, v, &numbers);
    return cti_op_adam_step(&item, 1, true);
}
/* The numbers of a first step. */
static step_numbers first_step(double lr) {
    return (step_numbers){.number = {0.9, 0.99, 1e-8}, .lr = lr, .grad_scale = 1, .step = 1};
}
static void *bytes_of(ct_tensor *t) {
    return ct_dtype_of(t) == CT_F32 ? (void *)ct_data_f32(t) : ct_data_f64(t);
}
static bool sgd(ct_tensor *p, ct_tensor *g, ct_tensor *buffer, step_numbers numbers) {
    ct_optim_item item = item_of(p, g, buffer, NULL, &numbers);
    return cti_op_sgd_step(&item, 1);
}

START_TEST(filling_and_copying) {
    for (ct_dtype dtype = CT_F32; dtype <= CT_BOOL; dtype++) {
        ct_tensor *t = of(dtype, CT_SHAPE(3));
        ck_assert(cti_op_fill(t, 2));
        if (dtype == CT_BOOL) IS(t, 1, 1, 1);
        else IS(t, 2, 2, 2);
    }
    ct_tensor *to = of(CT_F64, CT_SHAPE(2, 3)),
              *from = ct_view(I64(1, 2, 3, 4, 5, 6), CT_SHAPE(3, 2));
    ck_assert(ct_copy_into(to, ct_transpose(from, 0, 1)));
    IS(to, 1, 3, 5, 2, 4, 6);
    ck_assert(ct_copy_into(ct_narrow(to, 1, 1, 2), ct_narrow(ct_transpose(from, 0, 1), 1, 0, 2)));
    IS(to, 1, 1, 3, 2, 2, 4);
    ck_assert(cti_op_scale_in_place(to, 10));
    IS(to, 10, 10, 30, 20, 20, 40);
    ck_assert_double_eq(squares_of(to), 100 + 100 + 900 + 400 + 400 + 1600);
    ck_assert_double_eq(squares_of(of(CT_F32, CT_SHAPE(0))), 0);
    refused(ct_copy_into(to, from), CT_ERR_SHAPE, "copy_into: (3, 2) does not broadcast to (2, 3)");
    refused(cti_op_fill(ct_transpose(to, 0, 1), 0), CT_ERR_ARGUMENT,
            "fill: the tensor (3, 2) is not contiguous");
    refused(cti_op_fill_normal(from, 0, 1), CT_ERR_DTYPE, "fill_normal");
    refused(cti_op_scale_in_place(from, 2), CT_ERR_DTYPE, "scale_in_place");
    ck_assert(isnan(squares_of(from)));
    refused(false, CT_ERR_DTYPE, "sum_squares");
    ck_assert(!cti_op_fill(NULL, 0));
}
END_TEST

START_TEST(random_fills) {
    enum { N = 100000 };
    ct_tensor *t = of(CT_F64, CT_SHAPE(N));
    const uint64_t stream = ct_rng_get(context).stream;
    double sum[2] = {0}, squares[2] = {0};
    for (int k = 0; k < 2; k++) {
        ck_assert(k ? cti_op_fill_normal(t, 3, 2) : cti_op_fill_uniform(t, -1, 4));
        for (int i = 0; i < N; i++) {
            const double v = ct_data_f64(t)[i];
            ck_assert(k || (v >= -1 && v < 4));
            sum[k] += v / N, squares[k] += v * v / N;
        }
    }
    ck_assert_uint_eq(ct_rng_get(context).stream, stream + 2);
    ck_assert_double_eq_tol(sum[0], 1.5, 5 * sqrt(25. / 12 / N));
    ck_assert_double_eq_tol(squares[0] - sum[0] * sum[0], 25. / 12, 0.03);
    ck_assert_double_eq_tol(sum[1], 3, 5 * sqrt(4. / N));
    ck_assert_double_eq_tol(squares[1] - sum[1] * sum[1], 4, 0.1);
}
END_TEST

START_TEST(steps) {
    ct_tensor *p = F64(1, -2), *g = F64(0.5, 4), *m = F64(0.1, 0.2), *v = F64(0.01, 0.04),
              *b = F64(1, 1);
    const double w[] = {1, -2}, d[] = {1, 8}, m0[] = {0.1, 0.2}, v0[] = {0.01, 0.04}; /* d = 2 g */
    const step_numbers a = {.number = {0.9, 0.99, 1e-8},
                            .lr = 0.1,
                            .weight_decay = 0.1,
                            .grad_scale = 2,
                            .step = 2}; /* 1 - beta^2: 0.19 and 0.0199 */
    ck_assert(adam(p, g, m, v, a));
    for (int i = 0; i < 2; i++) {
        const double mi = m0[i] + 0.1 * (d[i] - m0[i]), vi = 0.99 * v0[i] + 0.01 * d[i] * d[i];
        ck_assert_double_eq_tol(ct_data_f64(m)[i], mi, 1e-15);
        ck_assert_double_eq_tol(ct_data_f64(v)[i], vi, 1e-15);
        ck_assert_double_eq_tol(ct_data_f64(p)[i],
                                w[i] * 0.99 - 0.1 / 0.19 * mi / (sqrt(vi) / sqrt(0.0199) + 1e-8),
                                1e-14);
    }
    ck_assert(cti_op_fill(p, 1));
    ck_assert(sgd(p, g, NULL, (step_numbers){.lr = 0.5, .grad_scale = 2, .weight_decay = 1}));
    IS(p, 1 - 0.5 * (1 + 1), 1 - 0.5 * (8 + 1));
    ck_assert(cti_op_fill(p, 0));
    ck_assert(
        sgd(p, g, b, (step_numbers){.number = {0.5, 0.5, 1}, .lr = 1, .grad_scale = 1, .step = 2}));
    IS(b, 0.5 + 0.25, 0.5 + 2);
    IS(p, -(0.5 + 0.375), -(4 + 1.25));
    refused(adam(p, g, m, of(CT_F64, CT_SHAPE(3)), a), CT_ERR_SHAPE,
            "adam_step: shapes differ: (2) and (3)");
    refused(adam(p, of(CT_F32, CT_SHAPE(2)), m, v, a), CT_ERR_DTYPE,
            "adam_step: dtypes differ: f64 and f32");
    refused(sgd(p, g, NULL, (step_numbers){.number = {0.5}}), CT_ERR_ARGUMENT,
            "sgd_step: a tensor is NULL");
}
END_TEST

/* Parameters of all sizes, also empty ones, in one job give the same as each on its own, for any
 * number of threads; if one of them is refused, none is changed. */
START_TEST(steps_of_many) {
    enum { N = 12 };
    static const int64_t size[N] = {0, 1, 70001, 0, 0, 63, 64, 65, 4096, 16385, 5000, 0};
    for (int threads = 1; threads <= 5; threads += 2) {
        ck_assert(ct_set_threads(context, threads));
        ct_optim_item all[2][N];
        step_numbers numbers[N];
        double squares[2] = {0, 0};
        for (int k = 0; k < 2; k++) {
            ct_seed(context, 3);
            for (int i = 0; i < N; i++) {
                const ct_dtype dtype = i % 3 ? CT_F32 : CT_F64;
                ct_tensor *t[4];
                for (int j = 0; j < 4; j++)
                    ck_assert((t[j] = of(dtype, CT_SHAPE(size[i]))) &&
                              cti_op_fill_uniform(t[j], 0.5, 1));
                numbers[i] = first_step(0.1 * i);
                numbers[i].step += i / 2;
                all[k][i] = item_of(t[0], t[1], t[2], t[3], &numbers[i]);
                if (k == 0) squares[0] += cti_op_sum_squares(&all[0][i], 1);
            }
            if (k == 0)
                for (int i = 0; i < N; i++) ck_assert(cti_op_adam_step(&all[0][i], 1, true));
        }
        squares[1] = cti_op_sum_squares(all[1], N);
        ck_assert_double_eq_tol(squares[0], squares[1], 1e-13 * squares[0]);

        static char before[4][70001 * 4];
        ct_tensor *const of_long[] = {all[1][2].param, all[1][2].grad, all[1][2].state[0],
                                      all[1][2].state[1]};
        for (int j = 0; j < 4; j++) memcpy(before[j], ct_data_f32(of_long[j]), sizeof before[j]);
        ct_tensor *const last = all[1][N - 1].state[1];
        all[1][N - 1].state[1] = of(CT_F32, CT_SHAPE(1));
        refused(cti_op_adam_step(all[1], N, true), CT_ERR_SHAPE,
                "adam_step: shapes differ: (0) and (1)");
        for (int j = 0; j < 4; j++)
            ck_assert_mem_eq(before[j], ct_data_f32(of_long[j]), sizeof before[j]);
        all[1][N - 1].state[1] = last;

        ck_assert(cti_op_adam_step(all[1], N, true) && cti_op_adam_step(NULL, 0, true) &&
                  cti_op_sum_squares(NULL, 0) == 0);
        for (int i = 0; i < N; i++) {
            const size_t bytes = (size_t)size[i] * (i % 3 ? 4 : 8);
            ct_tensor *const of_one[] = {all[0][i].param, all[0][i].state[0], all[0][i].state[1]};
            ct_tensor *const of_all[] = {all[1][i].param, all[1][i].state[0], all[1][i].state[1]};
            for (int j = 0; j < 3 && bytes > 0; j++)
                ck_assert_mem_eq(bytes_of(of_one[j]), bytes_of(of_all[j]), bytes);
        }
    }
}
END_TEST

/* Moments of a gradient that stays zero; 17 elements, to include a partial vector. */
START_TEST(moments_fade_to_zero) {
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++) {
        ct_tensor *p = of((ct_dtype)dtype, CT_SHAPE(17)), *g = of((ct_dtype)dtype, CT_SHAPE(17));
        ct_tensor *m = of((ct_dtype)dtype, CT_SHAPE(17)), *v = of((ct_dtype)dtype, CT_SHAPE(17));
        const double least = dtype == CT_F32 ? FLT_MIN : DBL_MIN;
        ck_assert(cti_op_fill(p, 1) && cti_op_fill(g, 0) && cti_op_fill(m, -1.05 * least) &&
                  cti_op_fill(v, 3 * least));
        step_numbers a = first_step(0.1);
        a.number[CTI_OP_BETA2] = 0.5;
        ck_assert(adam(p, g, m, v, a));
        for (int i = 0; i < 17; i++) {
            /* would be 0.945 of the smallest normal number */
            ck_assert_double_eq(ct_item(ct_select(m, 0, i)), 0);
            ck_assert_double_gt(ct_item(ct_select(v, 0, i)), least); /* 1.5 of it */
        }
        ck_assert(cti_op_fill(g, NAN) && adam(p, g, m, v, a));
        ck_assert(isnan(ct_item(ct_select(m, 0, 16))) && isnan(ct_item(ct_select(v, 0, 16))));
    }
}
END_TEST

START_TEST(threads_write_the_same_bits) {
    enum { N = 70001 };
    static float first[N], now[N];
    double squares = 0;
    for (int threads = 1; threads <= 7; threads++) {
        ck_assert(ct_set_threads(context, threads));
        ct_seed(context, 3);
        ct_tensor *p = of(CT_F32, CT_SHAPE(N)), *g = of(CT_F32, CT_SHAPE(N)),
                  *m = of(CT_F32, CT_SHAPE(N)), *v = of(CT_F32, CT_SHAPE(N));
        ck_assert(cti_op_fill_normal(p, 0, 1) && cti_op_fill_uniform(g, -1, 1));
        const step_numbers a = first_step(0.1);
        ck_assert(adam(p, g, m, v, a) && cti_op_scale_in_place(p, 3));
        ck_assert(ct_to_f32(ct_dropout(p, 0.2, true), now, N));
        const double s = squares_of(p);
        if (threads == 1) memcpy(first, now, sizeof now), squares = s;
        ck_assert_mem_eq(first, now, sizeof now);
        ck_assert(s == squares);
    }
}
END_TEST

static ct_tensor *saved_by(int which, ct_tensor *x, ct_tensor *ids) {
    switch (which) {
    case 0: return ct_layer_norm(x, NULL, NULL, 1e-5);
    case 1: return ct_cross_entropy(x, ids, (ct_cross_entropy_opts){0});
    case 2: return ct_mul(ct_select(x, 0, 0), ct_select(x, 0, 1)); /* views of the tensor */
    default: return ct_logsumexp(x, -1);
    }
}

/* A write to a tensor that backward reads is an error of that backward; other writes are not. */
START_TEST(values_changed_since) {
    ct_tensor *x = ct_set_requires_grad(ct_randn(context, CT_F64, CT_SHAPE(2, 3)), true),
              *ids = I64(0, 2);
    for (int which = 0; which < 4; which++) {
        ct_tensor *y = ct_sum(saved_by(which, x, ids), CT_ALL, false);
        ck_assert(cti_op_scale_in_place(x, 2));
        refused(ct_backward(y), CT_ERR_GRAD, "changed");
    }
    /* backward of these reads only their results */
    ct_tensor *y =
        ct_sum(ct_softmax(ct_transpose(ct_dropout(x, 0.5, true), 0, 1), -1), CT_ALL, false);
    ck_assert(cti_op_fill(x, 7));
    ck_assert(ct_backward(y));
    ct_tensor *w = ct_set_requires_grad(of(CT_F64, CT_SHAPE(3, 2)), true),
              *e = ct_embedding(ids, w);
    ck_assert(cti_op_fill(w, 7) && ct_backward(ct_sum(e, CT_ALL, false)));
    e = ct_embedding(ids, w);
    ck_assert(cti_op_fill(ids, 1));
    refused(ct_backward(ct_sum(e, CT_ALL, false)), CT_ERR_GRAD, "embedding");
}
END_TEST

int main(void) {
    return run_tests("update", open_context, close_context,
                     TESTS(TEST(filling_and_copying), TEST(random_fills), TEST(steps),
                           TEST(steps_of_many), TEST(moments_fade_to_zero),
                           TEST(threads_write_the_same_bits), TEST(values_changed_since)));
}
