/* ct_rope against loops in f64: options, positions, gradients, layouts, threads, errors. */
#include "tests/support/op_check.h"

static ct_tensor *randn(ct_shape shape) { return ct_randn(context, CT_F64, shape); }

/* ---- the reference ---- */

typedef struct {
    int64_t b, h, t, d; /* x (b, h, t, d) */
    ct_rope_opts opts;
    int kind; /* the kind of the positions: 0 NULL, 1 (t), 2 (b, t) */
} rope_case;

static int64_t turned(const rope_case *c) { return c->opts.dims ? c->opts.dims : c->d; }

static double angle_of(const rope_case *c, int64_t position, int64_t j) {
    const double base = c->opts.base > 0 ? c->opts.base : 10000;
    return (double)position * (c->opts.frequencies
                                   ? c->opts.frequencies[j]
                                   : pow(base, -2.0 * (double)j / (double)turned(c)));
}

/* y = x rotated; sign -1: the transpose, which is the gradient. */
static void reference(const rope_case *c, const double *x, const int64_t *position, double sign,
                      double *y) {
    const double factor = c->opts.attention_factor > 0 ? c->opts.attention_factor : 1;
    const int64_t half = turned(c) / 2;
    for (int64_t r = 0; r < c->b * c->h * c->t; r++) {
        const int64_t t = r % c->t, b = r / (c->h * c->t),
                      p = c->kind == 0   ? t
                          : c->kind == 1 ? position[t]
                                         : position[b * c->t + t];
        const double *from = x + r * c->d;
        double *to = y + r * c->d;
        for (int64_t i = 2 * half; i < c->d; i++) to[i] = from[i];
        for (int64_t j = 0; j < half; j++) {
            const int64_t u = c->opts.interleaved ? 2 * j : j,
                          v = c->opts.interleaved ? 2 * j + 1 : j + half;
            const double angle = angle_of(c, p, j), cosine = factor * cos(angle),
                         sine = sign * factor * sin(angle);
            to[u] = from[u] * cosine - from[v] * sine;
            to[v] = from[u] * sine + from[v] * cosine;
        }
    }
}

enum { MOST = 4000 };

static void draw_positions(int64_t n, int64_t *position) {
    double u[MOST];
    ck_assert(n <= MOST && ct_to_f64(ct_rand(context, CT_F64, CT_SHAPE(n)), u, n));
    for (int64_t i = 0; i < n; i++) position[i] = (int64_t)(u[i] * 2000) - 500;
}

static ct_tensor *positions_of(const rope_case *c, const int64_t *position) {
    if (c->kind == 0) return NULL;
    return ct_from_i64(context, c->kind == 1 ? CT_SHAPE(c->t) : CT_SHAPE(c->b, c->t), position);
}

/* Relative to the largest possible value, 2 x. */
static void close_to(ct_tensor *got, const double *want, int64_t n, double tolerance,
                     const char *what) {
    double value[MOST];
    ck_assert_msg(got != NULL, "%s: %s", what, ct_error_message(context));
    ck_assert(ct_to_f64(got, value, n));
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(value[i] - want[i]) <= tolerance * (1 + fabs(want[i])),
                      "%s [%lld]: %.17g, not %.17g", what, (long long)i, value[i], want[i]);
}

static ct_tensor *sum_with(ct_tensor *y, ct_tensor *g) {
    return ct_sum(ct_mul(y, g), CT_ALL, false);
}

/* Value and gradient; x is also consumed a second time, by another rope. */
static void check_case(const rope_case *c, ct_dtype dtype) {
    const int64_t n = c->b * c->h * c->t * c->d;
    const double tolerance = dtype == CT_F32 ? 4e-7 : 1e-15;
    const ct_shape shape = CT_SHAPE(c->b, c->h, c->t, c->d);
    ct_tensor *x = ct_cast(ct_cast(randn(shape), CT_F32), dtype),
              *g = ct_cast(ct_cast(randn(shape), CT_F32), dtype);
    ct_set_requires_grad(x, true);
    int64_t position[MOST];
    double xs[MOST], gs[MOST], want[MOST], back[MOST];
    draw_positions(c->b * c->t, position);
    ck_assert(n <= MOST && ct_to_f64(x, xs, n) && ct_to_f64(g, gs, n));
    reference(c, xs, position, 1, want);
    ct_tensor *y = ct_rope(x, positions_of(c, position), c->opts);
    close_to(y, want, n, tolerance, "rope");
    reference(c, gs, position, -1, back);
    ck_assert(ct_backward(sum_with(y, g)));
    close_to(ct_grad(x), back, n, tolerance, "its gradient");
    ct_zero_grad(x);
    rope_case other = *c;
    other.kind = 0, other.opts.interleaved = !other.opts.interleaved;
    ct_tensor *z = ct_rope(x, NULL, other.opts);
    y = ct_rope(x, positions_of(c, position), c->opts);
    ck_assert(ct_backward(ct_add(sum_with(y, g), sum_with(z, g))));
    reference(&other, gs, position, -1, want);
    for (int64_t i = 0; i < n; i++) want[i] += back[i];
    close_to(ct_grad(x), want, n, 2 * tolerance, "the gradient of both");
}

static const double table[] = {1.5, -0.25, 0, 0.0078125, 3e-5};

START_TEST(options_and_positions) {
    const ct_rope_opts opts[] = {
        {0},
        {.base = 50, .interleaved = true},
        {.dims = 6},
        {.dims = 10, .interleaved = true, .frequencies = table},
        {.dims = 4, .attention_factor = 1.375, .frequencies = table},
        {.attention_factor = 0.5, .base = 500000},
    };
    const rope_case shapes[] = {{.b = 2, .h = 3, .t = 5, .d = 10},
                                {.b = 1, .h = 1, .t = 1, .d = 12},
                                {.b = 3, .h = 1, .t = 7, .d = 34},
                                {.b = 2, .h = 2, .t = 9, .d = 68}};
    for (size_t i = 0; i < sizeof opts / sizeof *opts; i++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            for (int kind = 0; kind < 3; kind++)
                for (int dtype = CT_F32; dtype <= CT_F64; dtype++) {
                    ct_scope scope = ct_scope_open(context);
                    rope_case c = shapes[s];
                    c.opts = opts[i], c.kind = kind;
                    if (c.opts.dims % 4 == 0 && c.opts.dims)
                        c.d++; /* an odd d, a part of it turns */
                    check_case(&c, (ct_dtype)dtype);
                    ct_scope_close(scope);
                }
}
END_TEST

/* ---- equal bits ---- */

static bool same_bits(ct_tensor *a, ct_tensor *b) {
    ck_assert_msg(a && b, "%s", ct_error_message(ct_context_of(a ? a : b)));
    const size_t size = ct_dtype_of(a) == CT_F32 ? 4 : 8;
    const void *x = size == 4 ? (void *)ct_data_f32(a) : (void *)ct_data_f64(a),
               *y = size == 4 ? (void *)ct_data_f32(b) : (void *)ct_data_f64(b);
    return ct_numel(a) == ct_numel(b) && !memcmp(x, y, size * (size_t)ct_numel(a));
}

START_TEST(written_out_options_change_no_bit) {
    double powers[17];
    for (int j = 0; j < 17; j++) powers[j] = pow(10000, -(double)j / 17);
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++) {
        ct_tensor *x = ct_randn(context, (ct_dtype)dtype, CT_SHAPE(2, 3, 5, 34)),
                  *plain = ct_rope(x, NULL, (ct_rope_opts){0}),
                  *positions = ct_arange(context, CT_I64, 0, 5, 1);
        ct_tensor *each = ct_contiguous(ct_expand(positions, CT_SHAPE(2, 5)));
        const ct_rope_opts opts = {
            .base = 10000, .dims = 34, .frequencies = powers, .attention_factor = 1};
        ck_assert(same_bits(plain, ct_rope(x, positions, (ct_rope_opts){0})));
        ck_assert(same_bits(plain, ct_rope(x, each, (ct_rope_opts){0})));
        ck_assert(same_bits(plain, ct_rope(x, NULL, opts)));
        /* strided x and positions */
        ct_tensor *turned_x = ct_transpose(ct_contiguous(ct_transpose(x, 1, 2)), 1, 2),
                  *narrowed = ct_narrow(ct_arange(context, CT_I64, -2, 9, 1), 0, 2, 5),
                  *stepped = ct_expand(positions, CT_SHAPE(2, 5));
        ck_assert(same_bits(plain, ct_rope(turned_x, narrowed, (ct_rope_opts){0})));
        ck_assert(same_bits(plain, ct_rope(turned_x, stepped, (ct_rope_opts){0})));
    }
}
END_TEST

static void run_with(int threads, float *y, float *dx, int64_t n) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 3, .threads = threads});
    ct_tensor *x = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(3, 4, 301, 24)), true),
              *g = ct_randn(c, CT_F32, CT_SHAPE(3, 4, 301, 24));
    ct_tensor *positions = ct_cast(ct_scale(ct_rand(c, CT_F32, CT_SHAPE(3, 301)), 9999), CT_I64);
    ct_tensor *out = ct_rope(x, positions, (ct_rope_opts){.dims = 10, .attention_factor = 1.5});
    ck_assert(ct_backward_with(&out, &g, 1, (ct_backward_opts){0}));
    ck_assert(ct_to_f32(out, y, n) && ct_to_f32(ct_grad(x), dx, n));
    ct_context_free(c);
}

START_TEST(threads_change_no_bit) {
    enum { N = 3 * 4 * 301 * 24 };
    static float y[2][N], dx[2][N];
    run_with(1, y[0], dx[0], N);
    for (int threads = 2; threads < 5; threads++) {
        run_with(threads, y[1], dx[1], N);
        ck_assert(!memcmp(y[0], y[1], sizeof y[0]) && !memcmp(dx[0], dx[1], sizeof dx[0]));
    }
}
END_TEST

/* A batch so large that jobs begin in the middle of a sequence: the bits of each sequence by
 * itself. */
START_TEST(sequences_are_independent) {
    enum { BATCH = 3, HEADS = 4, ROWS = 301 };
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(BATCH, HEADS, ROWS, 24)),
              *at = ct_cast(ct_scale(ct_rand(context, CT_F32, CT_SHAPE(BATCH, ROWS)), 999), CT_I64),
              *y = ct_rope(x, at, (ct_rope_opts){0});
    for (int64_t b = 0; b < BATCH; b++)
        ck_assert(same_bits(ct_select(y, 0, b),
                            ct_rope(ct_select(x, 0, b), ct_select(at, 0, b), (ct_rope_opts){0})));
}
END_TEST

/* ---- precision ---- */

/* An angle in f32 would be wrong by 0.06 at the first of these positions. */
START_TEST(large_positions_are_exact) {
    const int64_t position[] = {1000003, -98765431, INT64_C(1) << 40};
    ct_tensor *at = ct_from_i64(context, CT_SHAPE(3), position);
    for (int dtype = CT_F32; dtype <= CT_F64; dtype++) {
        ct_tensor *x =
            ct_cast(ct_narrow(ct_expand(F64(1, 0), CT_SHAPE(3, 2)), 0, 0, 3), (ct_dtype)dtype);
        double want[6];
        for (int i = 0; i < 3; i++)
            want[2 * i] = cos((double)position[i]), want[2 * i + 1] = sin((double)position[i]);
        close_to(ct_rope(x, at, (ct_rope_opts){0}), want, 6, dtype == CT_F32 ? 6e-8 : 1e-15,
                 "far away");
    }
}
END_TEST

/* ---- ownership ---- */

START_TEST(arrays_are_copied) {
    double frequencies[] = {0.5, 0.25};
    int64_t position[] = {1, 2, 3};
    ct_tensor *x = ct_set_requires_grad(randn(CT_SHAPE(3, 4)), true);
    ct_tensor *at = ct_from_i64(context, CT_SHAPE(3), position);
    ct_tensor *y = ct_rope(x, at, (ct_rope_opts){.frequencies = frequencies}),
              *g = randn(CT_SHAPE(3, 4));
    double gs[12], want[12];
    ck_assert(ct_to_f64(g, gs, 12));
    const rope_case c = {
        .b = 1, .h = 1, .t = 3, .d = 4, .kind = 1, .opts = {.frequencies = frequencies}};
    reference(&c, gs, position, -1, want);
    frequencies[0] = frequencies[1] = NAN;
    ct_data_i64(at)[0] = 77; /* backward has the angles, and needs no position */
    ct_release(at);
    ck_assert(ct_backward_with(&y, &g, 1, (ct_backward_opts){0}));
    close_to(ct_grad(x), want, 12, 1e-15, "after the arrays have changed");
}
END_TEST

START_TEST(nothing_to_rotate) {
    ct_tensor *none = of(CT_I64, CT_SHAPE(0)), *two = of(CT_I64, CT_SHAPE(2));
    has_shape(ct_rope(of(CT_F32, CT_SHAPE(2, 0, 4)), none, (ct_rope_opts){0}), CT_SHAPE(2, 0, 4));
    has_shape(ct_rope(of(CT_F32, CT_SHAPE(2, 0, 4)), of(CT_I64, CT_SHAPE(2, 0)), (ct_rope_opts){0}),
              CT_SHAPE(2, 0, 4));
    has_shape(ct_rope(of(CT_F32, CT_SHAPE(0, 2, 4)), two, (ct_rope_opts){.dims = 2}),
              CT_SHAPE(0, 2, 4));
    has_shape(ct_rope(of(CT_F32, CT_SHAPE(3, 2, 0)), two, (ct_rope_opts){0}), CT_SHAPE(3, 2, 0));
    ct_tensor *x = ct_set_requires_grad(of(CT_F64, CT_SHAPE(0, 3, 4)), true);
    ck_assert(ct_backward(ct_sum(ct_rope(x, NULL, (ct_rope_opts){0}), CT_ALL, false)));
    has_shape(ct_grad(x), CT_SHAPE(0, 3, 4));
}
END_TEST

/* ---- errors ---- */

START_TEST(refusals) {
    ct_tensor *x = of(CT_F32, CT_SHAPE(2, 3, 4)), *odd = of(CT_F32, CT_SHAPE(2, 3, 5));
    const ct_rope_opts none = {0};
    const double bad[] = {1, INFINITY};
    FAILS(ct_rope(odd, NULL, none), CT_ERR_SHAPE, "rope: (2, 3, 5) is not (..., T, d)");
    FAILS(ct_rope(x, NULL, (ct_rope_opts){.dims = 3}), CT_ERR_ARGUMENT, "rope: dims is 3");
    FAILS(ct_rope(x, NULL, (ct_rope_opts){.dims = -2}), CT_ERR_ARGUMENT, "rope: dims is -2");
    FAILS(ct_rope(x, NULL, (ct_rope_opts){.dims = 6}), CT_ERR_SHAPE, "dims = 6");
    FAILS(ct_rope(x, NULL, (ct_rope_opts){.base = -1}), CT_ERR_ARGUMENT, "rope: base is -1");
    FAILS(ct_rope(x, NULL, (ct_rope_opts){.attention_factor = -1}), CT_ERR_ARGUMENT,
          "rope: attention_factor is -1");
    FAILS(ct_rope(x, NULL, (ct_rope_opts){.attention_factor = NAN}), CT_ERR_ARGUMENT,
          "rope: attention_factor is nan");
    FAILS(ct_rope(x, NULL, (ct_rope_opts){.frequencies = bad}), CT_ERR_ARGUMENT,
          "rope: frequencies[1] is inf");
    FAILS(ct_rope(x, of(CT_F32, CT_SHAPE(3)), none), CT_ERR_DTYPE, "rope");
    FAILS(ct_rope(x, of(CT_I64, CT_SHAPE(2)), none), CT_ERR_SHAPE, "rope: positions (2) are not");
    FAILS(ct_rope(x, of(CT_I64, CT_SHAPE(3, 3)), none), CT_ERR_SHAPE, "positions (3, 3)");
    FAILS(ct_rope(x, of(CT_I64, CT_SHAPE(2, 2)), none), CT_ERR_SHAPE, "positions (2, 2)");
    FAILS(ct_rope(x, of(CT_I64, CT_SCALAR), none), CT_ERR_SHAPE, "positions ()");
    FAILS(ct_rope(x, of(CT_I64, CT_SHAPE(1, 2, 3)), none), CT_ERR_SHAPE, "positions (1, 2, 3)");
    /* rows of one sequence have no batch */
    FAILS(ct_rope(of(CT_F32, CT_SHAPE(3, 4)), of(CT_I64, CT_SHAPE(3, 3)), none), CT_ERR_SHAPE,
          "of x = (3, 4)");
    FAILS(ct_rope(of(CT_BF16, CT_SHAPE(3, 4)), NULL, none), CT_ERR_DTYPE, "rope");
    ct_context *other = ct_context_new((ct_context_opts){.threads = 1});
    ck_assert_ptr_null(ct_rope(x, ct_zeros(other, CT_I64, CT_SHAPE(3)), none));
    ck_refused(false, CT_ERR_ARGUMENT, "rope", "different contexts");
    ct_error_clear(other);
    ct_context_free(other);
}
END_TEST

int main(void) {
    return run_tests("rope", open_context, close_context,
                     TESTS(TEST(options_and_positions), TEST(written_out_options_change_no_bit),
                           TEST(threads_change_no_bit), TEST(sequences_are_independent),
                           TEST(large_positions_are_exact), TEST(arrays_are_copied),
                           TEST(nothing_to_rotate), TEST(refusals)));
}
