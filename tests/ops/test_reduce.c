/* Reductions, what test_ops.c does not cover: every set of dims against plain loops, empty tensors,
 * the accuracy of sums, large tensors that are divided into pieces, and the same bits for any
 * number of threads. */
#include "tests/support/op_check.h"

/* ---- every set of dims ---- */

/* sum, mean and max of x and the gradients of w = 1, 2, 3, ... by plain loops in double. */
typedef struct {
    double value[3][512], grad[3][512];
    int64_t out;
    ct_shape kept, gone; /* the result's shape with and without its reduced dims */
} naive;

static void reduce_naively(ct_shape shape, unsigned set, const double *x, naive *r) {
    int64_t n = 1, index[512], count = 1, ties[512] = {0};
    memset(r, 0, sizeof *r);
    r->out = 1;
    for (int d = 0; d < shape.ndim; d++) {
        bool gone = set >> d & 1;
        n *= shape.dim[d];
        r->kept.dim[r->kept.ndim++] = gone ? 1 : shape.dim[d];
        if (!gone) r->gone.dim[r->gone.ndim++] = shape.dim[d], r->out *= shape.dim[d];
        else count *= shape.dim[d];
    }
    for (int64_t i = 0; i < r->out; i++) r->value[2][i] = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        int64_t o = 0;
        for (int64_t d = 0, rest = i, block = n; d < shape.ndim; d++) {
            block /= shape.dim[d];
            if (!(set >> d & 1)) o = o * shape.dim[d] + rest / block;
            rest %= block;
        }
        index[i] = o;
        r->value[0][o] += x[i];
        r->value[1][o] += x[i] / (double)count;
        r->value[2][o] = fmax(r->value[2][o], x[i]);
    }
    for (int64_t i = 0; i < n; i++) ties[index[i]] += x[i] == r->value[2][index[i]];
    for (int64_t i = 0; i < n; i++) {
        double g = (double)index[i] + 1;
        r->grad[0][i] = g;
        r->grad[1][i] = g / (double)count;
        r->grad[2][i] = x[i] == r->value[2][index[i]] ? g / (double)ties[index[i]] : 0;
    }
}

static void near(ct_tensor *t, const double *want, int64_t n, const char *what, unsigned set) {
    double got[512];
    ck_assert_msg(t && ct_to_f64(t, got, n), "%s over %x: %s", what, set,
                  ct_error_message(context));
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= 1e-12 * (1 + fabs(want[i])),
                      "%s over %x [%lld]: %g, not %g", what, set, (long long)i, got[i], want[i]);
}

static void every_set(ct_shape shape) {
    static naive r;
    static ct_tensor *(*const op[])(ct_tensor *, ct_shape, bool) = {ct_sum, ct_mean, ct_max};
    static const char *const name[] = {"sum", "mean", "max"};
    double values[512];
    int64_t n = 1;
    for (int d = 0; d < shape.ndim; d++) n *= shape.dim[d];
    for (int64_t i = 0; i < n; i++) values[i] = (double)(i * 7919 % 23) - 11; /* with ties */
    for (unsigned set = 1; set < 1u << shape.ndim; set++) {
        ct_shape dims = CT_SCALAR;
        /* dims in decreasing order, some negative */
        for (int d = shape.ndim - 1; d >= 0; d--)
            if (set >> d & 1) dims.dim[dims.ndim++] = d % 2 ? d - shape.ndim : d;
        reduce_naively(shape, set, values, &r);
        for (int keep = 0; keep < 2; keep++)
            for (int o = 0; o < 3; o++) {
                ct_scope scope = ct_scope_open(context);
                ct_tensor *x = ct_set_requires_grad(ct_from_f64(context, shape, values), true);
                ct_tensor *y = op[o](x, dims, keep);
                near(y, r.value[o], r.out, name[o], set);
                has_shape(y, keep ? r.kept : r.gone);
                backward(y);
                near(ct_grad(x), r.grad[o], n, name[o], set);
                if (keep && o == 0) near(ct_sum_to(x, r.kept), r.value[0], r.out, "sum_to", set);
                if (keep && o == 0 && shape.ndim) { /* rows with gaps */
                    const int64_t last = shape.dim[shape.ndim - 1];
                    near(ct_sum_to(ct_narrow(ct_cat((ct_tensor *[]){x, x}, 2, -1), -1, 0, last),
                                   r.kept),
                         r.value[0], r.out, "sum_to", set);
                }
                ct_scope_close(scope);
            }
    }
}

START_TEST(every_set_of_dims) {
    every_set(CT_SHAPE(3, 4, 2, 5));
    every_set(CT_SHAPE(2, 1, 3, 17));
    every_set(CT_SHAPE(1, 5));
    every_set(CT_SHAPE(2, 1, 2, 2, 1, 2, 3, 2));
}
END_TEST

START_TEST(scalars) {
    ct_tensor *x = ct_set_requires_grad(ct_full(context, CT_F64, CT_SCALAR, 3), true);
    has_shape(ct_sum(x, CT_DIMS(-1), true), CT_SCALAR);
    IS(ct_mean(x, CT_DIMS(0), false), 3);
    IS(ct_max(x, CT_ALL, false), 3);
    IS(ct_argmax(x, 0), 0);
    IS(ct_argmax(x, -1), 0);
    backward(ct_mul(ct_max(x, CT_ALL, true), ct_sum(x, CT_ALL, false)));
    IS(ct_grad(x), 6);
    FAILS(ct_sum(x, CT_DIMS(1), false), CT_ERR_SHAPE, "sum");
    FAILS(ct_argmax(x, 1), CT_ERR_SHAPE, "argmax");
}
END_TEST

START_TEST(no_element) {
    ct_tensor *x = of(CT_F64, CT_SHAPE(0, 3)), *z = of(CT_F64, CT_SHAPE(2, 0, 3));
    IS(ct_sum(x, CT_DIMS(0), false), 0, 0, 0);
    IS(ct_sum(x, CT_ALL, false), 0);
    IS(ct_sum(z, CT_DIMS(0, 1), true), 0, 0, 0);
    IS(ct_sum(of(CT_BOOL, CT_SHAPE(0, 2)), CT_DIMS(0), false), 0, 0);
    IS(ct_mean(x, CT_ALL, false), NAN);
    IS(ct_mean(x, CT_DIMS(0), true), NAN, NAN, NAN);
    IS(ct_mse_loss(x, x), NAN);
    has_shape(ct_sum(x, CT_DIMS(1), false), CT_SHAPE(0));
    has_shape(ct_max(x, CT_DIMS(1), false), CT_SHAPE(0));
    has_shape(ct_argmax(z, 2), CT_SHAPE(2, 0));
    FAILS(ct_max(x, CT_DIMS(0), false), CT_ERR_SHAPE, "max");
    FAILS(ct_max(x, CT_ALL, false), CT_ERR_SHAPE, "(0, 3)");
    FAILS(ct_argmax(z, 1), CT_ERR_SHAPE, "argmax: dim 1 of (2, 0, 3) has no element");
    has_shape(ct_causal_mask(context, 0, 3), CT_SHAPE(0, 3));
    has_shape(ct_causal_mask(context, 3, 0), CT_SHAPE(3, 0));
    has_shape(ct_where(of(CT_BOOL, CT_SHAPE(0, 1)), ct_zeros(context, CT_F64, CT_SCALAR), x),
              CT_SHAPE(0, 3));
}
END_TEST

/* The same bits as without gaps, also if a pass is divided. */
START_TEST(rows_with_gaps) {
    for (int64_t width = 1; width < 7; width += 2) {
        ct_tensor *gaps = ct_narrow(ct_randn(context, CT_F32, CT_SHAPE(3, 40000, 7)), 2, 1, width),
                  *dense = ct_contiguous(gaps);
        ct_tensor *a = ct_sum_to(gaps, CT_SHAPE(width)), *b = ct_sum_to(dense, CT_SHAPE(width));
        ck_assert(a && b && memcmp(ct_data_f32(a), ct_data_f32(b), (size_t)width * 4) == 0);
        a = ct_sum_to(gaps, CT_SHAPE(1, width)), b = ct_sum_to(dense, CT_SHAPE(1, width));
        ck_assert(a && b && memcmp(ct_data_f32(a), ct_data_f32(b), (size_t)width * 4) == 0);
        a = ct_sum_to(gaps, CT_SHAPE(40000, 1)), b = ct_sum_to(dense, CT_SHAPE(40000, 1));
        ck_assert(a && b && memcmp(ct_data_f32(a), ct_data_f32(b), 160000) == 0);
        a = ct_sum_to(ct_transpose(gaps, 0, 1), CT_SHAPE(width)),
        b = ct_sum_to(ct_transpose(dense, 0, 1), CT_SHAPE(width));
        ck_assert(a && b && memcmp(ct_data_f32(a), ct_data_f32(b), (size_t)width * 4) == 0);
    }
}
END_TEST

START_TEST(sum_to_shares_memory) {
    float v[6] = {1, 2, 3, 4, 5, 6};
    ct_tensor *x = ct_from_f32(context, CT_SHAPE(2, 3), v), *t = ct_transpose(x, 0, 1);
    ck_assert_ptr_eq(ct_data_f32(ct_sum_to(x, CT_SHAPE(2, 3))), ct_data_f32(x));
    IS(ct_sum_to(t, CT_SHAPE(3, 2)), 1, 4, 2, 5, 3, 6);
    IS(ct_sum_to(t, CT_SHAPE(2)), 6, 15);
    has_shape(ct_sum_to(ct_reshape(x, CT_SHAPE(1, 2, 3)), CT_SHAPE(2, 3)), CT_SHAPE(2, 3));
    has_shape(ct_sum_to(x, CT_SCALAR), CT_SCALAR);
}
END_TEST

/* ---- large tensors: divided into pieces ---- */

START_TEST(sums_are_accurate) {
    const int64_t n = 1 << 20;
    static const ct_shape shapes[] = {{1, {1 << 20}},    {2, {1 << 20, 1}},  {2, {1 << 18, 4}},
                                      {2, {4, 1 << 18}}, {2, {1 << 15, 32}}, {3, {256, 16, 256}}};
    double tenth = (double)0.1f;
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (unsigned set = 1; set < 1u << shapes[s].ndim; set++) {
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = ct_full(context, CT_F32, shapes[s], tenth);
            ct_shape dims = CT_SCALAR;
            double count = 1;
            for (int d = 0; d < shapes[s].ndim; d++)
                if (set >> d & 1) dims.dim[dims.ndim++] = d, count *= (double)shapes[s].dim[d];
            ct_tensor *y = ct_sum(x, dims, false), *m = ct_mean(x, dims, false);
            double worst = 0, *got = malloc((size_t)n * sizeof *got);
            int64_t out = ct_numel(y);
            ck_assert(ct_to_f64(y, got, out));
            for (int64_t i = 0; i < out; i++)
                worst = fmax(worst, fabs(got[i] / (count * tenth) - 1));
            ck_assert(ct_to_f64(m, got, out));
            for (int64_t i = 0; i < out; i++) worst = fmax(worst, fabs(got[i] / tenth - 1));
            free(got);
            ck_assert_msg(worst < 5e-7, "shape %zu over %x: off by %g", s, set, worst);
            ct_scope_close(scope);
        }
}
END_TEST

static double value_of(int64_t i) { return (double)(i * 2654435761 % 1000003) / 1000003 - 0.5; }

START_TEST(large_reductions_are_right) {
    static const ct_shape shapes[] = {
        {2, {1, 150001}}, {2, {70001, 3}}, {2, {2100, 70}}, {2, {33, 5003}}, {2, {3, 50001}}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        int64_t rows = shapes[s].dim[0], cols = shapes[s].dim[1];
        double *v = malloc((size_t)(rows * cols) * sizeof *v),
               *got = malloc((size_t)(rows + cols) * sizeof *got);
        for (int64_t i = 0; i < rows * cols; i++) v[i] = value_of(i);
        for (int dim = 0; dim < 2; dim++) {
            ct_scope scope = ct_scope_open(context);
            ct_tensor *x = ct_from_f64(context, shapes[s], v);
            ct_tensor *y[] = {ct_sum(x, CT_DIMS(dim), false), ct_max(x, CT_DIMS(dim), false),
                              ct_argmax(x, dim)};
            int64_t out = dim ? rows : cols, n = dim ? cols : rows;
            for (int k = 0; k < 3; k++) {
                ck_assert(y[k] && ct_to_f64(y[k], got, out));
                for (int64_t o = 0; o < out; o++) {
                    double want[3] = {0, -INFINITY, 0};
                    for (int64_t i = 0; i < n; i++) {
                        double e = v[dim ? o * cols + i : i * cols + o];
                        want[0] += e;
                        if (e > want[1]) want[1] = e, want[2] = (double)i;
                    }
                    ck_assert_msg(fabs(got[o] - want[k]) < (k ? 1e-300 : 1e-9),
                                  "shape %zu, dim %d, %d [%lld]: %g, not %g", s, dim, k,
                                  (long long)o, got[o], want[k]);
                }
            }
            ct_scope_close(scope);
        }
        free(v), free(got);
    }
}
END_TEST

/* Concatenated values and gradients of ops whose work is divided. */
static size_t compute(int threads, float *out) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 3, .threads = threads});
    ct_tensor *x = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(7, 90, 301)), true);
    ct_tensor *b = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(90, 1)), true),
              *mask = ct_causal_mask(c, 90, 301);
    ct_tensor *tall = ct_reshape(x, CT_SHAPE(7 * 90 * 301 / 3, 3));
    ct_tensor *y[] = {
        ct_sum(x, CT_ALL, false),
        ct_sum(x, CT_DIMS(0, 2), false),
        ct_mean(tall, CT_DIMS(0), false),
        ct_max(x, CT_DIMS(1), false),
        ct_max(x, CT_DIMS(0, 2), false),
        ct_gelu(ct_mul(x, b)),
        ct_where(mask, ct_maximum(x, b), b),
        ct_div(x, ct_exp(b)),
        ct_mse_loss(x, ct_pow(x, 2)),
    };
    int n = (int)(sizeof y / sizeof *y);
    ct_tensor *cotangent[sizeof y / sizeof *y];
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        ck_assert_msg(y[i] != NULL, "%s", ct_error_message(c));
        cotangent[i] = ct_randn(c, CT_F32, ct_shape_of(y[i]));
        ck_assert(ct_to_f32(y[i], out + at, ct_numel(y[i])));
        at += (size_t)ct_numel(y[i]);
    }
    ck_assert_msg(ct_backward_with(y, cotangent, n, (ct_backward_opts){0}), "%s",
                  ct_error_message(c));
    ck_assert(ct_to_f32(ct_grad(x), out + at, ct_numel(x)));
    at += (size_t)ct_numel(x);
    ck_assert(ct_to_f32(ct_grad(b), out + at, ct_numel(b)));
    at += (size_t)ct_numel(b);
    ct_context_free(c);
    return at;
}

START_TEST(same_bits_for_any_threads) {
    size_t room = 6 * 7 * 90 * 301;
    float *one = malloc(room * sizeof *one), *other = malloc(room * sizeof *other);
    size_t n = compute(1, one);
    ck_assert_uint_le(n, room);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(compute((int[]){2, 3, 7}[i], other), n);
        ck_assert_msg(!memcmp(one, other, n * sizeof *one), "%d threads: other bits",
                      (int[]){2, 3, 7}[i]);
    }
    free(one), free(other);
}
END_TEST

/* Zeros and ties, as torch has them: elements that are 0 have no part in the norm's slope, the
 * largest share it, and a norm below eps is a constant. w of the gradient is 1, 2, 3, ... */
START_TEST(normalize_at_kinks) {
    static const struct {
        double p, eps, x[3], y[3], dx[3];
    } cases[] = {
        {2, 1e-3, {0, 0, 0}, {0, 0, 0}, {1e3, 2e3, 3e3}},
        {2, 10, {3, 0, 4}, {0.3, 0, 0.4}, {0.1, 0.2, 0.3}},
        {2, 5, {3, 0, 4}, {0.6, 0, 0.8}, {-0.16, 0.4, 0.12}}, /* the norm is eps */
        {1, 1e-12, {1, 0, -3}, {0.25, 0, -0.75}, {0.75, 0.5, 0.25}},
        {0.5, 1e-12, {1, 0, 1}, {0.25, 0, 0.25}, {-0.25, 0.5, 0.25}},
        {3, 1e-12, {0, 0, -2}, {0, 0, -1}, {0.5, 1, 0}},
        {INFINITY, 1e-12, {2, -2, 1}, {1, -1, 0.5}, {0.375, 1.125, 1.5}},
        {0, 1e-12, {4, 0, 2}, {2, 0, 1}, {0.5, 1, 1.5}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ct_tensor *x = ct_set_requires_grad(ct_from_f64(context, CT_SHAPE(1, 3), cases[i].x), true);
        ct_tensor *y = ct_normalize(x, cases[i].p, 1, cases[i].eps);
        near(y, cases[i].y, 3, "normalize, case", (unsigned)i);
        backward(y);
        near(ct_grad(x), cases[i].dx, 3, "normalize's gradient, case", (unsigned)i);
    }
}
END_TEST

int main(void) {
    return run_tests("reductions", open_context, close_context,
                     TESTS(TEST(every_set_of_dims), TEST(scalars), TEST(no_element),
                           TEST(sum_to_shares_memory), TEST(rows_with_gaps),
                           TEST(sums_are_accurate), TEST(large_reductions_are_right),
                           TEST(same_bits_for_any_threads), TEST(normalize_at_kinks)));
}
