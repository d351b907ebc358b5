/* Kernels whose stored type is not their computed type: f32 in memory, f64 in arithmetic, f32 being
 * a struct that C does not convert by itself. No dtype of the library is like that yet; a 16-bit
 * one would be. Each kernel is compared with f64's on the same numbers: its results must
 * be the f64 result, rounded to f32 when stored. */
#define CTI_F64_KERNELS
#define CTI_STORED_APART
#if defined __x86_64__ && !defined __clang__ /* clang has no target for a part of a file */
#define CTI_VECTOR_BYTES 32
#pragma GCC target("avx2,fma")
#else
#define CTI_VECTOR_BYTES 0
#endif
#define CTI_SET stored_apart
#include "src/kernels/unary.c"
#include "src/kernels/elementwise.c"
#include "src/kernels/rows.c"
#include "src/kernels/products.c"
#include "src/kernels/elementwise.h"
#include "src/kernels/products.h"
#include "src/kernels/rows.h"
#include "src/kernels/unary.h"

#include "src/core/isa.h"

#include "tests/support/suite.h"

enum { N = 37, ROWS = 5, SIZE = N * ROWS };
static cti_kernels stored_apart;
static const cti_kernels *of_f64(void) { return cti_isa_at(0)->of[1]; }

/* The same numbers twice: as they are stored, and as f64. */
typedef struct {
    stored s[SIZE];
    double d[SIZE];
} pair;

static pair numbers(double low, double high) {
    static uint64_t state = 88172645463325252u;
    pair p;
    for (int i = 0; i < SIZE; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const double u = (double)(state >> 40) * 0x1p-24;
        p.s[i] = to_stored(low + (high - low) * u);
        p.d[i] = to_real(p.s[i]);
    }
    return p;
}

/* Lanes are summed in another order than by the scalar table, which f32 may round apart. */
static void same_numbers(const pair *p, int64_t n, const char *kernel) {
    for (int64_t i = 0; i < SIZE; i++) {
        const double got = to_real(p->s[i]), want = i < n ? (double)(float)p->d[i] : p->d[i];
        ck_assert_msg(fabs(got - want) <= fabs(want) * 0x1p-23 || (isnan(got) && isnan(want)),
                      "%s: element %d is %g, not %g", kernel, (int)i, got, want);
    }
}

/* Where terms cancel. */
static void close_numbers(const pair *p, int64_t n, const char *kernel) {
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(to_real(p->s[i]) - p->d[i]) < 2e-6, "%s: element %d is %g, not %g",
                      kernel, (int)i, to_real(p->s[i]), p->d[i]);
}

static void same_reals(int64_t n, const double *got, const double *want, const char *kernel) {
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabs(got[i] - want[i]) <= 1e-13 * fabs(want[i]),
                      "%s: number %d is %g, not %g", kernel, (int)i, got[i], want[i]);
}

/* ---- elementwise ---- */

START_TEST(of_one_array) {
/* The kernel of both tables. */
#define BOTH_OF(subject, name) {#name, stored_apart.subject->name, of_f64()->subject->name}
#define BOTH(name)             BOTH_OF(unary, name)
#define NONE(...)
#define VALUE(name, ...) BOTH(name),
#define SLOPE(name, ...) BOTH(name##_backward),
#define ACTIVATION(name) BOTH(name##_both),
    const struct {
        const char *name;
        cti_unary *s, *d;
    } f[] = {CTI_UNARY_KERNELS(VALUE, VALUE, VALUE, VALUE) BOTH_OF(rows, softmax),
             BOTH_OF(rows, log_softmax)};
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        pair x = numbers(0.1, 3), y = numbers(0, 1);
        f[i].s(N, x.s, y.s), f[i].d(N, x.d, y.d);
        same_numbers(&y, N, f[i].name);
    }
    const struct {
        const char *name;
        cti_unary_backward *s, *d;
    } b[] = {CTI_UNARY_KERNELS(NONE, SLOPE, SLOPE, SLOPE)};
    for (size_t i = 0; i < sizeof b / sizeof *b; i++) {
        pair x = numbers(0.1, 3), g = numbers(-1, 1), dx = numbers(0, 1);
        b[i].s(N, x.s, g.s, dx.s), b[i].d(N, x.d, g.d, dx.d);
        same_numbers(&dx, N, b[i].name);
    }
    const struct {
        const char *name;
        cti_unary_both *s, *d;
    } both_[] = {CTI_BOTH_KERNELS(ACTIVATION)};
    for (size_t i = 0; i < sizeof both_ / sizeof *both_; i++) {
        pair x = numbers(-3, 3), g = numbers(-1, 1), y = numbers(0, 1), dx = numbers(0, 1);
        both_[i].s(N, x.s, g.s, y.s, dx.s), both_[i].d(N, x.d, g.d, y.d, dx.d);
        same_numbers(&y, N, both_[i].name), same_numbers(&dx, N, both_[i].name);
    }
}
END_TEST

START_TEST(with_a_number) {
    const double powers_of[] = {0, 2, 3, -1, 0.5, 1.7};
    const struct {
        const char *name;
        cti_unary_scalar *s, *d;
    } f[] = {CTI_SCALAR_KERNELS(VALUE, VALUE, VALUE)};
    const struct {
        const char *name;
        cti_unary_scalar_backward *s, *d;
    } b[] = {CTI_SCALAR_KERNELS(NONE, SLOPE, SLOPE)};
    const struct {
        const char *name;
        cti_unary_scalar_both *s, *d;
    } both_[] = {CTI_SCALAR_BOTH_KERNELS(ACTIVATION)};
    for (size_t i = 0; i < sizeof powers_of / sizeof *powers_of; i++) {
        pair x = numbers(0.1, 3), g = numbers(-1, 1), y = numbers(0, 1), dx = numbers(0, 1);
        const double e = powers_of[i];
        for (size_t k = 0; k < sizeof f / sizeof *f; k++) {
            f[k].s(N, x.s, e, y.s), f[k].d(N, x.d, e, y.d);
            same_numbers(&y, N, f[k].name);
        }
        for (size_t k = 0; k < sizeof b / sizeof *b; k++) {
            b[k].s(N, x.s, e, g.s, dx.s), b[k].d(N, x.d, e, g.d, dx.d);
            same_numbers(&dx, N, b[k].name);
        }
        for (size_t k = 0; k < sizeof both_ / sizeof *both_; k++) {
            pair z = numbers(-3, 3), dz = numbers(0, 1);
            both_[k].s(N, z.s, e, g.s, y.s, dz.s), both_[k].d(N, z.d, e, g.d, y.d, dz.d);
            same_numbers(&y, N, both_[k].name), same_numbers(&dz, N, both_[k].name);
        }
        stored_apart.elementwise->fill(N, e, y.s), of_f64()->elementwise->fill(N, e, y.d);
        same_numbers(&y, N, "fill");
        stored_apart.elementwise->arange(N, 2, e, 0.3, y.s),
            of_f64()->elementwise->arange(N, 2, e, 0.3, y.d);
        same_numbers(&y, N, "arange");
        stored_apart.elementwise->axpy(N, e, x.s, y.s), of_f64()->elementwise->axpy(N, e, x.d, y.d);
        close_numbers(&y, N, "axpy");
        for (int se = 0; se < 2; se++) {
            stored_apart.elementwise->lerp(N, x.s, g.s, se, e, y.s),
                of_f64()->elementwise->lerp(N, x.d, g.d, se, e, y.d);
            same_numbers(&y, N, "lerp");
        }
    }
}
END_TEST

START_TEST(of_two_arrays) {
    const struct {
        const char *name;
        cti_binary *s, *d;
    } f[] = {BOTH_OF(elementwise, add),     BOTH_OF(elementwise, sub),
             BOTH_OF(elementwise, mul),     BOTH_OF(elementwise, div),
             BOTH_OF(elementwise, maximum), BOTH_OF(elementwise, minimum)};
    const struct {
        const char *name;
        cti_binary *s, *d;
    } c[] = {BOTH_OF(elementwise, eq), BOTH_OF(elementwise, ne), BOTH_OF(elementwise, lt),
             BOTH_OF(elementwise, le), BOTH_OF(elementwise, gt), BOTH_OF(elementwise, ge)};
    for (int strides = 0; strides < 4; strides++) {
        const int sa = strides & 1, sb = strides >> 1;
        for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
            pair a = numbers(1, 2), b = numbers(1, 2), y = numbers(0, 1);
            f[i].s(N, a.s, sa, b.s, sb, y.s), f[i].d(N, a.d, sa, b.d, sb, y.d);
            same_numbers(&y, N, f[i].name);
        }
        for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
            pair a = numbers(1, 2), b = numbers(1, 2);
            bool of_s[N], of_d[N];
            b.s[3] = a.s[3], b.d[3] = a.d[3];
            c[i].s(N, a.s, sa, b.s, sb, of_s), c[i].d(N, a.d, sa, b.d, sb, of_d);
            ck_assert_msg(!memcmp(of_s, of_d, sizeof of_s), "%s", c[i].name);
        }
        pair a = numbers(1, 2), b = numbers(1, 2), g = numbers(-1, 1), y = numbers(0, 1);
        stored_apart.elementwise->maximum_backward(N, a.s, sa, b.s, sb, g.s, y.s);
        of_f64()->elementwise->maximum_backward(N, a.d, sa, b.d, sb, g.d, y.d);
        same_numbers(&y, N, "maximum_backward");
        bool cond[N];
        for (int i = 0; i < N; i++) cond[i] = i % 3 == 0;
        stored_apart.elementwise->where(N, cond, 1, a.s, sa, b.s, sb, y.s);
        of_f64()->elementwise->where(N, cond, 1, a.d, sa, b.d, sb, y.d);
        same_numbers(&y, N, "where");
    }
}
END_TEST

START_TEST(moves) {
    pair x = numbers(-3, 3), y = numbers(0, 1);
    for (int add = 0; add < 2; add++) {
        stored_apart.elementwise->copy2d(N, ROWS, x.s, 1, N, y.s, ROWS, 1, add);
        of_f64()->elementwise->copy2d(N, ROWS, x.d, 1, N, y.d, ROWS, 1, add);
        close_numbers(&y, SIZE, "copy2d");
    }
    float f32[2][N];
    double f64[2][N];
    int64_t i64[2][N];
    bool truth[2][N];
    void *const to[2][4] = {{f32[0], f64[0], i64[0], truth[0]}, {f32[1], f64[1], i64[1], truth[1]}};
    for (int t = 0; t < 4; t++)
        stored_apart.elementwise->cast[t](N, x.s, to[0][t]),
            of_f64()->elementwise->cast[t](N, x.d, to[1][t]);
    ck_assert(!memcmp(f32[0], f32[1], sizeof f32[0]) && !memcmp(f64[0], f64[1], sizeof f64[0]));
    ck_assert(!memcmp(i64[0], i64[1], sizeof i64[0]) &&
              !memcmp(truth[0], truth[1], sizeof truth[0]));
}
END_TEST

/* ---- reductions and rows ---- */

START_TEST(reductions) {
    pair x = numbers(1, 2), g = numbers(-1, 1), y = numbers(0, 1), dx = numbers(0, 1);
    const struct {
        int64_t n, inner, stride;
    } forms[] = {{N, 1, 1}, {ROWS, N, N}, {ROWS, 3, N}};
    for (int i = 0; i < 3; i++) {
        const int64_t n = forms[i].n, inner = forms[i].inner, stride = forms[i].stride;
        int64_t at[2][N];
        stored_apart.rows->sum(n, inner, x.s, stride, y.s),
            of_f64()->rows->sum(n, inner, x.d, stride, y.d);
        same_numbers(&y, inner, "sum");
        stored_apart.rows->max(n, inner, x.s, stride, y.s),
            of_f64()->rows->max(n, inner, x.d, stride, y.d);
        same_numbers(&y, inner, "max");
        stored_apart.rows->max_backward(n, inner, x.s, stride, y.s, g.s, dx.s);
        of_f64()->rows->max_backward(n, inner, x.d, stride, y.d, g.d, dx.d);
        same_numbers(&dx, SIZE, "max_backward");
        stored_apart.rows->argmax(n, inner, x.s, stride, at[0]);
        of_f64()->rows->argmax(n, inner, x.d, stride, at[1]);
        ck_assert(!memcmp(at[0], at[1], (size_t)inner * sizeof at[0][0]));
    }
    stored_apart.rows->sum_rows(ROWS, N, x.s, y.s), of_f64()->rows->sum_rows(ROWS, N, x.d, y.d);
    same_numbers(&y, ROWS, "sum_rows");
    stored_apart.rows->max_rows(ROWS, N, x.s, y.s), of_f64()->rows->max_rows(ROWS, N, x.d, y.d);
    same_numbers(&y, ROWS, "max_rows");
    const double squares = of_f64()->rows->sum_squares(SIZE, x.d);
    ck_assert(fabs(stored_apart.rows->sum_squares(SIZE, x.s) - squares) <= 1e-13 * squares);
    ck_assert(!stored_apart.rows->has_nan(N, x.s));
    x.s[N - 1] = to_stored((double)NAN);
    ck_assert(stored_apart.rows->has_nan(N, x.s));
}
END_TEST

START_TEST(softmaxes) {
    pair x = numbers(-3, 3), g = numbers(-1, 1), y = numbers(0, 1), dx = numbers(0, 1);
    double max[2][ROWS], inverse[2][ROWS];
    stored_apart.rows->softmax_columns(ROWS, N, x.s, N, y.s),
        of_f64()->rows->softmax_columns(ROWS, N, x.d, N, y.d);
    close_numbers(&y, SIZE, "softmax_columns");
    const bool mask[3] = {true, false, true};
    stored_apart.rows->masked_softmax(3, x.s, mask, 1, y.s),
        of_f64()->rows->masked_softmax(3, x.d, mask, 1, y.d);
    close_numbers(&y, 3, "masked_softmax");
    stored_apart.rows->logsumexp(ROWS, N, x.s, y.s, max[0], inverse[0]);
    of_f64()->rows->logsumexp(ROWS, N, x.d, y.d, max[1], inverse[1]);
    close_numbers(&y, ROWS, "logsumexp");
    same_reals(ROWS, max[0], max[1], "logsumexp"),
        same_reals(ROWS, inverse[0], inverse[1], "logsumexp");
    stored_apart.rows->logsumexp_backward(N, x.s, max[0], inverse[0], g.s, dx.s);
    of_f64()->rows->logsumexp_backward(N, x.d, max[1], inverse[1], g.d, dx.d);
    same_numbers(&dx, N, "logsumexp_backward");
    for (int smooth = 0; smooth < 2; smooth++) {
        const int64_t target[ROWS] = {0, 7, -1, 3, N - 1};
        pair loss = numbers(0, 1);
        stored_apart.rows->cross_entropy(ROWS, N, x.s, target, 0.1 * smooth, loss.s, max[0],
                                         inverse[0]);
        of_f64()->rows->cross_entropy(ROWS, N, x.d, target, 0.1 * smooth, loss.d, max[1],
                                      inverse[1]);
        same_numbers(&loss, ROWS, "cross_entropy");
        same_reals(ROWS, inverse[0], inverse[1], "cross_entropy");
        const cti_loss_factors factors = {.scale = 0.5,
                                          .softmax = 1,
                                          .more = 0.2 * smooth,
                                          .target = 1 - 0.1 * smooth,
                                          .each = 0.1 * smooth / N};
        stored_apart.rows->cross_entropy_backward(N, x.s, 0, max[0], inverse[0], &factors, dx.s);
        of_f64()->rows->cross_entropy_backward(N, x.d, 0, max[1], inverse[1], &factors, dx.d);
        close_numbers(&dx, N, "cross_entropy_backward");
    }
}
END_TEST

START_TEST(norms) {
    pair x = numbers(-3, 3), w = numbers(0.5, 1), b = numbers(1, 2), g = numbers(-1, 1),
         y = numbers(0, 1);
    pair dx = numbers(0, 0), dw = numbers(0, 0), db = numbers(0, 0);
    double mean[2][ROWS], rstd[2][ROWS];
    const cti_norm of_s = {.rows = ROWS,
                           .n = N,
                           .x = x.s,
                           .w = w.s,
                           .b = b.s,
                           .eps = 1e-5,
                           .y = y.s,
                           .mean = mean[0],
                           .rstd = rstd[0]},
                   of_d = {.rows = ROWS,
                           .n = N,
                           .x = x.d,
                           .w = w.d,
                           .b = b.d,
                           .eps = 1e-5,
                           .y = y.d,
                           .mean = mean[1],
                           .rstd = rstd[1]};
    const cti_norm_backward back_s = {.rows = ROWS,
                                      .n = N,
                                      .x = x.s,
                                      .w = w.s,
                                      .g = g.s,
                                      .mean = mean[0],
                                      .rstd = rstd[0],
                                      .dx = dx.s,
                                      .dw = dw.s,
                                      .db = db.s},
                            back_d = {.rows = ROWS,
                                      .n = N,
                                      .x = x.d,
                                      .w = w.d,
                                      .g = g.d,
                                      .mean = mean[1],
                                      .rstd = rstd[1],
                                      .dx = dx.d,
                                      .dw = dw.d,
                                      .db = db.d};
    stored_apart.rows->layer_norm(&of_s), of_f64()->rows->layer_norm(&of_d);
    same_reals(ROWS, rstd[0], rstd[1], "layer_norm");
    close_numbers(&y, SIZE, "layer_norm");
    stored_apart.rows->layer_norm_backward(&back_s), of_f64()->rows->layer_norm_backward(&back_d);
    close_numbers(&dx, SIZE, "layer_norm_backward");
    close_numbers(&dw, N, "layer_norm_backward");
    close_numbers(&db, N, "layer_norm_backward");
    stored_apart.rows->rms_norm(&of_s), of_f64()->rows->rms_norm(&of_d);
    same_reals(ROWS, rstd[0], rstd[1], "rms_norm");
    same_numbers(&y, SIZE, "rms_norm");
    stored_apart.rows->rms_norm_backward(&back_s), of_f64()->rows->rms_norm_backward(&back_d);
    close_numbers(&dx, SIZE, "rms_norm_backward");
}
END_TEST

START_TEST(rotation_and_steps) {
    double cosine[N], sine[N];
    for (int i = 0; i < N; i++) cosine[i] = cos(i), sine[i] = sin(i);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        pair x = numbers(-1, 1), y = numbers(0, 1);
        stored_apart.rows->rope(N - 1, x.s, cosine, sine, interleaved, -1, y.s);
        of_f64()->rows->rope(N - 1, x.d, cosine, sine, interleaved, -1, y.d);
        close_numbers(&y, N, "rope");
    }
    pair p = numbers(-1, 1), g = numbers(-1, 1), m = numbers(-1, 1), v = numbers(1, 2);
    const cti_adam_numbers adam_numbers = {.lr = 0.1,
                                           .beta1 = 0.9,
                                           .beta2 = 0.99,
                                           .eps = 1e-8,
                                           .bias1 = 0.5,
                                           .bias2 = 0.5,
                                           .grad_scale = 1};
    stored_apart.elementwise->adam(N, p.s, g.s, m.s, v.s, &adam_numbers),
        of_f64()->elementwise->adam(N, p.d, g.d, m.d, v.d, &adam_numbers);
    close_numbers(&p, N, "adam"), close_numbers(&v, N, "adam");
    const cti_sgd_numbers sgd_numbers = {.lr = 0.1, .momentum = 0.9, .grad_scale = 1};
    stored_apart.elementwise->sgd(N, p.s, g.s, m.s, &sgd_numbers),
        of_f64()->elementwise->sgd(N, p.d, g.d, m.d, &sgd_numbers);
    close_numbers(&p, N, "sgd");
}
END_TEST

/* ---- products: A and B are stored, what is packed and C are computed; so is A in dots and gemv
 * ---- */

START_TEST(products) {
    enum { M = 11, K = 13, COLS = 9 };
    const cti_gemm_kernels *f = stored_apart.gemm;
    double panels_a[64 * K], panels_b[64 * K], c[M * COLS], row_[COLS];
    for (int layout = 0; layout < 4; layout++) {
        const pair a = numbers(-1, 1), b = numbers(-1, 1);
        const int64_t a_row = layout & 1 ? 1 : K, a_col = layout & 1 ? M : 1;
        const int64_t b_row = layout & 2 ? 1 : COLS, b_col = layout & 2 ? K : 1;
        double want[M * COLS];
        for (int i = 0; i < M * COLS; i++) {
            want[i] = 0;
            for (int p = 0; p < K; p++)
                want[i] += a.d[i / COLS * a_row + p * a_col] * b.d[p * b_row + i % COLS * b_col];
        }
        f->pack_b(K, COLS, b.s, b_row, b_col, panels_b);
        for (int64_t i = 0; i < M; i += f->mr) {
            const int64_t rows = M - i < f->mr ? M - i : f->mr;
            f->pack_a(rows, K, a.s + i * a_row, a_row, a_col, panels_a);
            const cti_gemm_params params = {.k = K,
                                            .a_row = 1,
                                            .a_col = f->mr,
                                            .b_row = f->nr,
                                            .row = COLS,
                                            .col = 1,
                                            .alpha = 1};
            f->macro_kernel(&params, rows, COLS, panels_a, panels_b,
                            f->nr * K * (int64_t)sizeof(real), NULL, c + i * COLS);
        }
        for (int i = 0; i < M * COLS; i++) ck_assert(fabs(c[i] - want[i]) < 1e-13);
        cti_gemm_rows rows = {.m = 1,
                              .n = COLS,
                              .k = K,
                              .a_row = a_row,
                              .a_col = a_col,
                              .b_row = b_row,
                              .b_col = b_col,
                              .row = COLS,
                              .col = 1,
                              .a = a.d,
                              .b = b.s,
                              .c = row_,
                              .alpha = 1};
        f->gemv(&rows);
        for (int i = 0; i < COLS; i++) ck_assert(fabs(row_[i] - want[i]) < 1e-13);
        if (a_col != 1 || b_row != 1) continue;
        rows.m = M, rows.c = c;
        f->dots(&rows);
        for (int i = 0; i < M * COLS; i++) ck_assert(fabs(c[i] - want[i]) < 1e-13);
    }
}
END_TEST

int main(void) {
#if CTI_VECTOR_BYTES
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
#endif
    CTI_PUT(unary)(&stored_apart);
    CTI_PUT(elementwise)(&stored_apart);
    CTI_PUT(rows)(&stored_apart);
    CTI_PUT(products)(&stored_apart);
    Suite *suite = suite_create("stored type apart from computed type");
    TCase *tests = tcase_create("kernels");
    tcase_add_test(tests, of_one_array);
    tcase_add_test(tests, with_a_number);
    tcase_add_test(tests, of_two_arrays);
    tcase_add_test(tests, moves);
    tcase_add_test(tests, reductions);
    tcase_add_test(tests, softmaxes);
    tcase_add_test(tests, norms);
    tcase_add_test(tests, rotation_and_steps);
    tcase_add_test(tests, products);
    suite_add_tcase(suite, tests);
    return run_suite(suite);
}
