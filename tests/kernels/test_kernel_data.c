/* Kernels that move, count and update: selecting, filling, casting, copying blocks; whole numbers
 * and truth values; Adam and SGD against their formulas; and which tables there are. */
#include "kernels.h"
#include "src/kernels/elementwise.h"
#include "src/kernels/rows.h"
#include "src/kernels/unary.h"

#include <stdint.h>

static const cti_kernels *whole_numbers(void) { return cti_isa_at(0)->of[2]; }
static const cti_kernels *truths(void) { return cti_isa_at(0)->of[3]; }

START_TEST(isas) {
    ck_assert_str_eq(cti_isa_at(0)->name, "scalar");
    ck_assert_ptr_null(cti_isa_at(-1));
    ck_assert_ptr_null(cti_isa_find("vax"));
    ck_assert_ptr_null(cti_isa_find(""));
    int n = 0;
    for (; cti_isa_at(n); n++) {
        ck_assert_ptr_eq(cti_isa_find(cti_isa_at(n)->name), cti_isa_at(n));
        ck_assert_ptr_nonnull(strstr(cti_isa_names(), cti_isa_at(n)->name));
        for (int d = 0; d < 4; d++) ck_assert_ptr_nonnull(cti_isa_at(n)->of[d]);
    }
    ck_assert_ptr_eq(cti_isa_find(NULL), cti_isa_at(n - 1)); /* the best is the last */
}
END_TEST

/* ---- real numbers ---- */

START_TEST(selects) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 1; n <= 70; n++)
            for (int strides = 0; strides < 8; strides++) {
                const int64_t sc = strides & 1, sa = strides >> 1 & 1, sb = strides >> 2;
                array a = filled(t, sa ? n : 1, 0, 1), b = filled(t, sb ? n : 1, 2, 3),
                      c = array_of_bytes(1, sc ? n : 1, false);
                array y = output(t, n);
                bool *cond = c.p;
                for (int64_t j = 0; j < (sc ? n : 1); j++) cond[j] = noise_bits() % 2;
                t.k->elementwise->where(n, cond, sc, a.p, sa, b.p, sb, y.p);
                for (int64_t j = 0; j < n; j++)
                    EXPECT(get(t, y.p, j) ==
                               (cond[j * sc] ? get(t, a.p, j * sa) : get(t, b.p, j * sb)),
                           "%s: where", t.isa);
                if (sb) {
                    t.k->elementwise->where(n, cond, sc, a.p, sa, b.p, sb, b.p);
                    EXPECT(memcmp(b.p, y.p, y.bytes) == 0, "%s: where in place", t.isa);
                }
                release(a, "a"), release(b, "where"), release(c, "cond"), release(y, "where");
            }
}
END_TEST

START_TEST(fills) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 0; n <= 70; n++) {
            array y = output(t, n), x = filled(t, n, -1, 1), z = output(t, n);
            t.k->elementwise->fill(n, -2.5, y.p);
            for (int64_t j = 0; j < n; j++) EXPECT(get(t, y.p, j) == -2.5, "%s: fill", t.isa);
            t.k->elementwise->axpy(n, 0.5, x.p, y.p);
            for (int64_t j = 0; j < n; j++)
                EXPECT(error_in_ulp(t, get(t, y.p, j), 0.5L * (wide)get(t, x.p, j) - 2.5L, 0) <=
                           0.5,
                       "%s: axpy", t.isa);
            t.k->elementwise->arange(n, 0, 0.1, 0.3, y.p); /* in two parts, the same */
            t.k->elementwise->arange(n / 2, 0, 0.1, 0.3, z.p);
            t.k->elementwise->arange(n - n / 2, n / 2, 0.1, 0.3, at(t, z.p, n / 2));
            for (int64_t j = 0; j < n; j++)
                EXPECT(error_in_ulp(t, get(t, y.p, j), 0.1L + 0.3L * (wide)j, 0) <= 2, "%s: arange",
                       t.isa);
            EXPECT(memcmp(y.p, z.p, y.bytes) == 0, "%s: arange in parts", t.isa);
            release(x, "x"), release(y, "fill"), release(z, "arange");
        }
}
END_TEST

START_TEST(casts) {
    const double values[] = {0,    -0.0,  1,      -1.75,   2.5, 1e9,      -1e9,      9e18,
                             1e19, -1e19, 0x1p63, -0x1p63, NAN, INFINITY, -INFINITY, 1e-30};
    enum { N = 3 * COUNT(values) };
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        array x = filled(t, N, 0, 0), f = array_of_bytes(4, N, true),
              d = array_of_bytes(8, N, true), w = array_of_bytes(8, N, true),
              b = array_of_bytes(1, N, true);
        for (int j = 0; j < N; j++) put(t, x.p, j, values[j % COUNT(values)]);
        t.k->elementwise->cast[0](N, x.p, f.p), t.k->elementwise->cast[1](N, x.p, d.p),
            t.k->elementwise->cast[2](N, x.p, w.p), t.k->elementwise->cast[3](N, x.p, b.p);
        for (int j = 0; j < N; j++) {
            const double v = get(t, x.p, j);
            const float single = ((float *)f.p)[j];
            EXPECT((isnan(v) && isnan(single)) || single == (float)v, "%s: %g to f32", t.isa, v);
            const double twice = ((double *)d.p)[j];
            EXPECT((isnan(v) && isnan(twice)) || twice == v, "%s: %g to f64", t.isa, v);
            const int64_t want = v >= -0x1p63 && v < 0x1p63 ? (int64_t)v : INT64_MIN;
            EXPECT(((int64_t *)w.p)[j] == want, "%s: %g to i64 is %lld", t.isa, v,
                   (long long)((int64_t *)w.p)[j]);
            EXPECT(((bool *)b.p)[j] == (v != 0), "%s: %g to bool", t.isa, v);
        }
        release(x, "x"), release(f, "cast"), release(d, "cast"), release(w, "cast"),
            release(b, "cast");
    }
}
END_TEST

/* An m x n block between any two layouts. */
START_TEST(copies) {
    const int64_t sizes[][2] = {{1, 1},   {1, 40},  {40, 1}, {5, 7},
                                {33, 65}, {70, 31}, {0, 3},  {3, 0}};
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int s = 0; s < COUNT(sizes); s++)
            for (int layouts = 0; layouts < 9; layouts++)
                for (int add = 0; add < 2; add++) {
                    const int64_t m = sizes[s][0], n = sizes[s][1];
                    /* layouts: by rows; by columns; every second element, in rows with three
                     * unused elements at their end */
                    const int64_t strides[][2] = {{n, 1}, {1, m}, {2 * n + 3, 2}},
                                  room = m * (2 * n + 3) + 1;
                    const int64_t xr = strides[layouts % 3][0], xc = strides[layouts % 3][1];
                    const int64_t yr = strides[layouts / 3][0], yc = strides[layouts / 3][1];
                    array x = filled(t, room, -1, 1), y = output(t, room), before = output(t, room);
                    for (int64_t j = 0; j < room; j++) put(t, y.p, j, (double)j);
                    memcpy(before.p, y.p, y.bytes);
                    t.k->elementwise->copy2d(m, n, x.p, xr, xc, y.p, yr, yc, add);
                    for (int64_t r = 0; r < m; r++)
                        for (int64_t c = 0; c < n; c++) {
                            const int64_t to = r * yr + c * yc;
                            const double old = get(t, before.p, to),
                                         v = get(t, x.p, r * xr + c * xc), want = add ? old + v : v;
                            EXPECT(get(t, y.p, to) == (t.dtype ? want : (double)(float)want),
                                   "%s: copy2d %d, add %d", t.isa, layouts, add);
                            put(t, y.p, to, old);
                        }
                    EXPECT(memcmp(y.p, before.p, y.bytes) == 0, "%s: copy2d wrote between", t.isa);
                    release(x, "x"), release(y, "copy2d"), release(before, "copy2d");
                }
}
END_TEST

/* Many rows at once: the bits of single rows, of every length around the vector's. */
START_TEST(rows_at_once) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 0; n <= 150; n++)
            for (int64_t rows = n % 2, most = n / 2 % 2; rows <= 35;
                 rows += n % 3 + 5, most = !most) {
                array x = filled(t, rows * n, -1, 1), y = output(t, rows), one = output(t, rows);
                (most ? t.k->rows->max_rows : t.k->rows->sum_rows)(rows, n, x.p, y.p);
                for (int64_t r = 0; r < rows; r++)
                    (most ? t.k->rows->max : t.k->rows->sum)(n, 1, at(t, x.p, r * n), 1,
                                                             at(t, one.p, r));
                EXPECT(memcmp(y.p, one.p, y.bytes) == 0, "%s %s of %d x %d", t.isa,
                       most ? "max" : "sum", (int)rows, (int)n);
                release(x, "x"), release(y, "rows at once"), release(one, "one row");
            }
}
END_TEST

/* ---- i64 and bool ---- */

START_TEST(wraps) {
    const cti_kernels *k = whole_numbers();
    const int64_t a[] = {INT64_MAX, INT64_MIN, 5, -7, 0}, b[] = {1, -1, -9, 3, 0};
    int64_t y[5];
    k->elementwise->add(5, a, 1, b, 1, y);
    ck_assert(y[0] == INT64_MIN && y[1] == INT64_MAX && y[2] == -4 && y[3] == -4);
    k->elementwise->sub(5, a, 1, b, 1, y);
    ck_assert(y[0] == INT64_MAX - 1 && y[1] == INT64_MIN + 1 && y[2] == 14 && y[3] == -10);
    k->elementwise->mul(5, a, 1, b, 0, y);
    ck_assert(y[0] == INT64_MAX && y[1] == INT64_MIN && y[2] == 5 && y[3] == -7);
    k->unary->neg(5, a, y);
    ck_assert(y[0] == -INT64_MAX && y[1] == INT64_MIN && y[2] == -5 && y[3] == 7);
    k->unary->abs(5, a, y);
    ck_assert(y[0] == INT64_MAX && y[1] == INT64_MIN && y[2] == 5 && y[3] == 7);
    k->elementwise->maximum(5, a, 1, b, 1, y);
    ck_assert(y[0] == INT64_MAX && y[1] == -1 && y[2] == 5 && y[3] == 3);
    k->elementwise->minimum(5, a, 1, b, 1, y);
    ck_assert(y[0] == 1 && y[1] == INT64_MIN && y[2] == -9 && y[3] == -7);
    k->unary->scale(5, a, -3, y);
    ck_assert(y[2] == -15 && y[3] == 21);
    k->unary->add_scalar(5, a, 2, y);
    ck_assert(y[0] == INT64_MIN + 1 && y[2] == 7 && y[3] == -5);
    k->elementwise->axpy(5, 2, b, y);
    ck_assert(y[2] == -11 && y[3] == 1);
    k->elementwise->arange(5, 1, 10, -3, y);
    ck_assert(y[0] == 7 && y[4] == -5);
    k->elementwise->fill(5, 1e300, y);
    ck_assert(y[0] == INT64_MIN);
    k->rows->sum(5, 1, a, 1, y);
    ck_assert(y[0] == -3);
    k->rows->sum(2, 2, a, 2, y);
    ck_assert(y[0] == INT64_MIN + 4 && y[1] == INT64_MAX - 6);
    k->rows->sum(0, 2, a, 2, y);
    ck_assert(y[0] == 0 && y[1] == 0);
    k->rows->max(5, 1, a, 1, y);
    ck_assert(y[0] == INT64_MAX);
    k->rows->max(2, 2, b, 3, y);
    ck_assert(y[0] == 3 && y[1] == 0);
    const int64_t ties[] = {3, 1, 3, 9, 0, 9};
    k->rows->argmax(6, 1, ties, 1, y);
    ck_assert(y[0] == 3);
    k->rows->argmax(3, 2, ties, 2, y);
    ck_assert(y[0] == 0 && y[1] == 1);
    bool smaller[5];
    k->elementwise->lt(5, a, 1, b, 1, smaller);
    ck_assert(!smaller[0] && smaller[1] && !smaller[2] && smaller[3] && !smaller[4]);
    float f[5];
    k->elementwise->cast[0](5, a, f);
    ck_assert(f[0] == 0x1p63f && f[3] == -7);
    k->elementwise->cast[3](5, a, smaller);
    ck_assert(smaller[0] && smaller[3] && !smaller[4]);
}
END_TEST

START_TEST(logic) {
    const cti_kernels *k = truths();
    const bool a[] = {false, false, true, true}, b[] = {false, true, false, true};
    bool y[4];
    cti_binary *const run[] = {k->elementwise->logical_and, k->elementwise->logical_or,
                               k->elementwise->eq,          k->elementwise->ne,
                               k->elementwise->lt,          k->elementwise->le,
                               k->elementwise->gt,          k->elementwise->ge};
    const unsigned want[] = {8, 14, 9, 6, 2, 11, 4, 13}; /* bit j: the result for (a[j], b[j]) */
    for (int r = 0; r < COUNT(run); r++) {
        run[r](4, a, 1, b, 1, y);
        for (int j = 0; j < 4; j++) ck_assert(y[j] == (want[r] >> j & 1));
        run[r](4, a, 1, &b[1], 0, y); /* with true */
        for (int j = 0; j < 4; j++) ck_assert(y[j] == (want[r] >> (a[j] ? 3 : 1) & 1));
    }
    k->unary->logical_not(4, a, y);
    ck_assert(y[0] && y[1] && !y[2] && !y[3]);
    int64_t count[2];
    k->rows->sum(4, 1, b, 1, count);
    ck_assert(count[0] == 2);
    k->rows->sum(2, 2, a, 2, count);
    ck_assert(count[0] == 1 && count[1] == 1);
    k->rows->max(2, 2, b, 1, y);
    ck_assert(y[0] && y[1]);
    int64_t numbers[4];
    k->elementwise->cast[2](4, a, numbers);
    ck_assert(numbers[1] == 0 && numbers[2] == 1);
    k->elementwise->where(4, a, 1, b, 1, a, 1, y);
    ck_assert(!y[0] && !y[1] && !y[2] && y[3]);
}
END_TEST

/* ---- optimisers ---- */

START_TEST(adam_steps) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int variant = 0; variant < 4; variant++)
            for (int64_t n = 0; n <= 40; n += n < 4 ? 1 : 3) {
                array p = filled(t, n, -1, 1), g = filled(t, n, -1, 1), m = output(t, n),
                      v = output(t, n);
                const double lr = 1e-2, b1 = 0.9, b2 = 0.999, eps = 1e-8,
                             wd = variant & 1 ? 0.1 : 0;
                double *want = calloc((size_t)n * 3 + 1, sizeof *want);
                for (int64_t j = 0; j < n; j++)
                    want[j] = get(t, p.p, j), put(t, m.p, j, 0), put(t, v.p, j, 0);
                for (int step = 1; step <= 5; step++) {
                    for (int64_t j = 0; j < n; j++) put(t, g.p, j, noise(-1, 1));
                    const cti_adam_numbers a = {.lr = lr,
                                                .beta1 = b1,
                                                .beta2 = b2,
                                                .eps = eps,
                                                .weight_decay = wd,
                                                .bias1 = 1 - pow(b1, step),
                                                .bias2 = 1 - pow(b2, step),
                                                .grad_scale = 0.5,
                                                .decoupled = variant >> 1};
                    t.k->elementwise->adam(n, p.p, g.p, m.p, v.p, &a);
                    for (int64_t j = 0; j < n; j++) {
                        double *q = &want[j], *m1 = &want[n + j], *m2 = &want[2 * n + j],
                               grad = 0.5 * get(t, g.p, j);
                        if (a.decoupled) *q *= 1 - lr * wd;
                        else grad += wd * *q;
                        *m1 += (1 - b1) * (grad - *m1);
                        *m2 = b2 * *m2 + (1 - b2) * grad * grad;
                        *q -= lr / a.bias1 * *m1 / (sqrt(*m2) / sqrt(a.bias2) + eps);
                        EXPECT(error_in_ulp(t, get(t, p.p, j), (wide)*q, 1) <= 4,
                               "%s adam: %.9g, want %.9g", t.isa, get(t, p.p, j), *q);
                        EXPECT(error_in_ulp(t, get(t, m.p, j), (wide)*m1, 0.1) <= 8, "%s adam: m",
                               t.isa);
                        EXPECT(error_in_ulp(t, get(t, v.p, j), (wide)*m2, 1e-4) <= 8, "%s adam: v",
                               t.isa);
                    }
                }
                free(want);
                release(p, "adam"), release(g, "g"), release(m, "adam"), release(v, "adam");
            }
}
END_TEST

START_TEST(sgd_steps) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int variant = 0; variant < 8; variant++)
            for (int64_t n = 0; n <= 40; n += n < 4 ? 1 : 3) {
                const double momentum = variant & 1 ? 0.9 : 0, dampening = variant & 2 ? 0.3 : 0,
                             wd = variant & 4 ? 0.1 : 0;
                const bool nesterov = momentum != 0 && dampening == 0;
                array p = filled(t, n, -1, 1), g = filled(t, n, -1, 1), buffer = output(t, n);
                double *want = calloc((size_t)n * 2 + 1, sizeof *want);
                for (int64_t j = 0; j < n; j++)
                    want[j] = get(t, p.p, j),
                    put(t, buffer.p, j, NAN); /* the first step does not read it */
                for (int step = 0; step < 4; step++) {
                    for (int64_t j = 0; j < n; j++) put(t, g.p, j, noise(-1, 1));
                    const cti_sgd_numbers a = {0.1, momentum, dampening, wd,
                                               2,   nesterov, step == 0};
                    t.k->elementwise->sgd(n, p.p, g.p, momentum != 0 ? buffer.p : NULL, &a);
                    for (int64_t j = 0; j < n; j++) {
                        double *q = &want[j], *b = &want[n + j],
                               grad = 2 * get(t, g.p, j) + wd * *q;
                        *b = step ? momentum * *b + (1 - dampening) * grad : grad;
                        *q -= 0.1 * (momentum == 0 ? grad : nesterov ? grad + momentum * *b : *b);
                        EXPECT(error_in_ulp(t, get(t, p.p, j), (wide)*q, 1) <= 4,
                               "%s sgd: %.9g, want %.9g", t.isa, get(t, p.p, j), *q);
                        if (momentum != 0)
                            EXPECT(error_in_ulp(t, get(t, buffer.p, j), (wide)*b, 2) <= 4,
                                   "%s sgd: buffer", t.isa);
                    }
                }
                free(want);
                release(p, "sgd"), release(g, "g"), release(buffer, "sgd");
            }
}
END_TEST

int main(void) {
    return run_tests("kernels of data", NULL, NULL,
                     TESTS(TEST(isas), TEST(selects), TEST(fills), TEST(casts), TEST(copies),
                           TEST(rows_at_once), TEST(wraps), TEST(logic), TEST(adam_steps),
                           TEST(sgd_steps)));
}
