/* Kernels of rows and columns, every table against long double: sums of badly conditioned numbers,
 * extrema with NaN and ties, softmax and its relatives, norms, the loss, rotary positions; every
 * length around the vector's; masked elements leave no trace. */
#include "kernels.h"
#include "src/kernels/rows.h"

/* |got - want| <= ulps units of the last place of want, or of magnitude if it is larger. If
 * e^(x - m) is compared, the mere rounding of x - m costs |x - m| / 2 units. */
static void near(table t, const char *what, int64_t n, double got, wide want, double magnitude,
                 double ulps) {
    const double error = error_in_ulp(t, got, want, magnitude);
    EXPECT(error <= ulps, "%s %s f%d, n = %d: got %.9g, want %.9Lg: %.3g ulp", t.isa, what,
           8 * (int)t.size, (int)n, got, want, error);
}

static const int64_t lengths[] = {1,  2,  3,  7,  8,   9,   15,  16,  17,  31,  33,
                                  48, 63, 64, 65, 127, 128, 129, 200, 257, 1000};

/* The error of 1 / sum e^x in units of the last place: one for e^x, half for the sum and half for
 * the quotient. This is doubled, because one unit of a sum just above a power of 2 is two units of
 * its inverse, which lies just below a power of 2. */
enum { INVERSE_ULPS = 4 };

/* ---- reductions ---- */

START_TEST(sum_of_bad_condition) {
    enum { N = 1000003 };
    table t;
    for (int i = 0; table_at(i, &t); i++) {
        array x = filled(t, N, 0.5, 1.5),
              y = output(t, 1); /* a thousandth of the sum of its terms' sizes */
        for (int64_t j = 0; j < N; j++) put(t, x.p, j, get(t, x.p, j) * (j % 2 ? -1000 : 1000) + 1);
        wide want = 0, size = 0;
        for (int64_t j = 0; j < N; j++)
            want += (wide)get(t, x.p, j), size += fabsl((wide)get(t, x.p, j));
        t.k->rows->sum(N, 1, x.p, 1, y.p);
        const double bound = (16 + 20) * t.eps / 2 * (double)size;
        EXPECT(fabsl(get(t, y.p, 0) - want) <= (wide)bound / 8, "%s: sum is %g, want %Lg", t.isa,
               get(t, y.p, 0), want);
        const double squares = t.k->rows->sum_squares(N, x.p);
        want = 0;
        for (int64_t j = 0; j < N; j++) want += (wide)get(t, x.p, j) * (wide)get(t, x.p, j);
        EXPECT(fabsl(squares / want - 1) < 1e-12L, "%s: sum of squares", t.isa);
        for (int64_t j = 0; j < N; j++)
            put(t, x.p, j, 0.1); /* in order, f32 would be off by a thousandth */
        want = (wide)get(t, x.p, 0) * N;
        t.k->rows->sum(N, 1, x.p, 1, y.p);
        near(t, "sum of tenths", N, get(t, y.p, 0), want, 0, 8);
        array columns = output(t, 3);
        t.k->rows->sum(N / 3, 3, x.p, 3, columns.p);
        for (int j = 0; j < 3; j++)
            near(t, "column sum of tenths", N, get(t, columns.p, j), want / N * (N / 3), 0, 8);
        release(x, "sum"), release(y, "sum"), release(columns, "sum");
    }
}
END_TEST

static double small_whole(bool nan) {
    const uint64_t k = noise_bits() % 24;
    return k == 0 && nan ? NAN : (double)(int)(k % 9) - 4;
}

static bool same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void reductions_of(table t, int64_t n, int64_t inner, int64_t stride, bool nan) {
    const int64_t numel = n ? (n - 1) * stride + inner : 0;
    array x = filled(t, numel, 0, 0), sum = output(t, inner), max = output(t, inner),
          place = array_of_bytes(8, inner, true);
    array g = filled(t, inner, 1, 2), dx = output(t, numel);
    for (int64_t i = 0; i < numel; i++) put(t, x.p, i, small_whole(nan)), put(t, dx.p, i, 77);
    t.k->rows->sum(n, inner, x.p, stride, sum.p);
    if (n) {
        t.k->rows->max(n, inner, x.p, stride, max.p);
        t.k->rows->argmax(n, inner, x.p, stride, place.p);
        t.k->rows->max_backward(n, inner, x.p, stride, max.p, g.p, dx.p);
    }
    for (int64_t j = 0; j < inner; j++) {
        double total = 0, top = -INFINITY;
        int64_t first = -1, count = 0;
        for (int64_t i = 0; i < n; i++) {
            const double v = get(t, x.p, i * stride + j);
            total += v;
            if (first < 0 || v > top || (isnan(v) && !isnan(top))) top = v, first = i;
        }
        for (int64_t i = 0; i < n; i++) count += same(get(t, x.p, i * stride + j), top);
        EXPECT(same(get(t, sum.p, j), total), "%s: sum of %d x %d is %g, want %g", t.isa, (int)n,
               (int)inner, get(t, sum.p, j), total);
        if (!n) continue;
        EXPECT(same(get(t, max.p, j), top), "%s: max of %d x %d is %g, want %g", t.isa, (int)n,
               (int)inner, get(t, max.p, j), top);
        EXPECT(((int64_t *)place.p)[j] == first, "%s: argmax of %d x %d is %d, want %d", t.isa,
               (int)n, (int)inner, (int)((int64_t *)place.p)[j], (int)first);
        for (int64_t i = 0; i < n; i++) {
            const wide share =
                same(get(t, x.p, i * stride + j), top) ? (wide)get(t, g.p, j) / count : 0;
            near(t, "max_backward", n, get(t, dx.p, i * stride + j), share, 0, 0.5);
        }
    }
    release(x, "x"), release(sum, "sum"), release(max, "max"), release(place, "argmax"),
        release(g, "g"), release(dx, "max_backward");
}

START_TEST(reductions) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int nan = 0; nan < 2; nan++) {
            for (int64_t n = 0; n <= 70; n++) reductions_of(t, n, 1, 1, nan);
            for (int64_t n = 200; n < 1200; n += 333) reductions_of(t, n, 1, 1, nan);
            for (int64_t n = 0; n < 40; n += 3)
                for (int64_t inner = 0; inner <= 70; inner += inner < 18 ? 1 : 13)
                    reductions_of(t, n, inner, inner + n % 2, nan);
        }
}
END_TEST

START_TEST(finds_nan) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 0; n <= 70; n++) {
            array x = filled(t, n, -1, 1);
            EXPECT(!t.k->rows->has_nan(n, x.p), "%s: there is none", t.isa);
            EXPECT(t.k->rows->is_finite(n, x.p), "%s: all are", t.isa);
            for (int64_t j = 0; j < n; j++) {
                const double v = get(t, x.p, j);
                put(t, x.p, j, INFINITY);
                EXPECT(!t.k->rows->has_nan(n, x.p), "%s: infinity is a number", t.isa);
                EXPECT(!t.k->rows->is_finite(n, x.p), "%s: an infinity at %d", t.isa, (int)j);
                put(t, x.p, j, NAN);
                EXPECT(t.k->rows->has_nan(n, x.p), "%s: not found at %d", t.isa, (int)j);
                EXPECT(!t.k->rows->is_finite(n, x.p), "%s: a NaN at %d", t.isa, (int)j);
                put(t, x.p, j, v);
            }
            release(x, "has_nan");
        }
}
END_TEST

/* ---- softmax and its relatives ---- */

static wide sum_exp(table t, const void *x, int64_t n, const bool *keep, wide *max) {
    wide sum = 0;
    *max = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if ((!keep || keep[i]) && get(t, x, i) > *max) *max = (wide)get(t, x, i);
    for (int64_t i = 0; i < n; i++)
        if (!keep || keep[i]) sum += expl((wide)get(t, x, i) - *max);
    return sum;
}

START_TEST(softmaxes) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int l = 0; l < COUNT(lengths) * 2; l++) {
            const int64_t n = lengths[l / 2];
            const double far = l % 2 ? 1000 : 0; /* a common part that must cancel */
            array x = filled(t, n, far - 10, far + 10), y = output(t, n), z = output(t, n),
                  g = filled(t, n, -1, 1), dx = output(t, n);
            array one = output(t, 1), top = output(t, 1), inverse = output(t, 1);
            wide max, dot = 0, total = 0;
            const wide sum = sum_exp(t, x.p, n, NULL, &max);
            t.k->rows->softmax(n, x.p, y.p);
            t.k->rows->log_softmax(n, x.p, z.p);
            /* Half an ulp for the addition, half for the logarithm, and a little for the sum. A
             * negative maximum and log(sum) may nearly cancel. */
            const double magnitude = (double)fmaxl(fabsl(max), logl(sum));
            t.k->rows->logsumexp(1, n, x.p, one.p, NULL, NULL);
            near(t, "logsumexp", n, get(t, one.p, 0), max + logl(sum), magnitude, 1.25);
            t.k->rows->logsumexp(1, n, x.p, one.p, top.p, inverse.p);
            near(t, "logsumexp", n, get(t, one.p, 0), max + logl(sum), magnitude, 1.25);
            near(t, "its max", n, get(t, top.p, 0), max, 0, 0);
            near(t, "its 1 / sum", n, get(t, inverse.p, 0), 1 / sum, 0, INVERSE_ULPS);
            for (int64_t j = 0; j < n; j++) {
                const wide p = expl((wide)get(t, x.p, j) - max) / sum;
                near(t, "softmax", n, get(t, y.p, j), p, 0, 20);
                near(t, "log_softmax", n, get(t, z.p, j), logl(p), 16, 2);
                dot += (wide)get(t, y.p, j) * (wide)get(t, g.p, j), total += (wide)get(t, g.p, j);
            }
            t.k->rows->softmax_backward(n, y.p, g.p, dx.p);
            for (int64_t j = 0; j < n; j++)
                near(t, "softmax_backward", n, get(t, dx.p, j),
                     (wide)get(t, y.p, j) * ((wide)get(t, g.p, j) - dot), get(t, y.p, j), 8);
            t.k->rows->log_softmax_backward(n, z.p, g.p, dx.p);
            for (int64_t j = 0; j < n; j++)
                near(t, "log_softmax_backward", n, get(t, dx.p, j),
                     (wide)get(t, g.p, j) - expl((wide)get(t, z.p, j)) * total,
                     1 + fabs((double)total), 4);
            t.k->rows->logsumexp_backward(n, x.p, top.p, inverse.p, g.p, dx.p);
            for (int64_t j = 0; j < n; j++)
                near(t, "logsumexp_backward", n, get(t, dx.p, j),
                     (wide)get(t, g.p, 0) * expl((wide)get(t, x.p, j) - max) / sum, 0, 20);
            memcpy(dx.p, x.p, dx.bytes);
            t.k->rows->softmax(n, dx.p, dx.p);
            EXPECT(memcmp(dx.p, y.p, y.bytes) == 0, "%s: softmax in place", t.isa);
            memcpy(dx.p, x.p, dx.bytes);
            t.k->rows->log_softmax(n, dx.p, dx.p);
            EXPECT(memcmp(dx.p, z.p, z.bytes) == 0, "%s: log_softmax in place", t.isa);
            release(x, "x"), release(y, "softmax"), release(z, "log_softmax"), release(g, "g"),
                release(dx, "dx");
            release(one, "logsumexp"), release(top, "its max"), release(inverse, "its 1 / sum");
        }
}
END_TEST

/* Rows together have the bits of single rows. */
START_TEST(rows_together) {
    enum { ROWS = 21 };
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int l = 0; l < COUNT(lengths); l++) {
            const int64_t n = lengths[l];
            array x = filled(t, ROWS * n, -9, 9), y = output(t, ROWS), top = output(t, ROWS),
                  inverse = output(t, ROWS);
            array one = output(t, 3);
            int64_t target[ROWS];
            for (int r = 0; r < ROWS; r++) target[r] = r % 5 == 3 ? -100 : r * 7 % n;
            for (int loss = 0; loss < 2; loss++) {
                if (loss)
                    t.k->rows->cross_entropy(ROWS, n, x.p, target, 0.1, y.p, top.p, inverse.p);
                else t.k->rows->logsumexp(ROWS, n, x.p, y.p, top.p, inverse.p);
                for (int r = 0; r < ROWS; r++) {
                    void *row = at(t, x.p, r * n), *max = at(t, one.p, 1), *share = at(t, one.p, 2);
                    if (loss)
                        t.k->rows->cross_entropy(1, n, row, &target[r], 0.1, one.p, max, share);
                    else t.k->rows->logsumexp(1, n, row, one.p, max, share);
                    EXPECT(get(t, one.p, 0) == get(t, y.p, r) &&
                               get(t, one.p, 1) == get(t, top.p, r) &&
                               get(t, one.p, 2) == get(t, inverse.p, r),
                           "%s: row %d of %d, n = %d", t.isa, r, ROWS, (int)n);
                }
            }
            release(x, "x"), release(y, "rows"), release(top, "max"), release(inverse, "1 / sum"),
                release(one, "a row");
        }
}
END_TEST

/* Columns are rows that lie across. */
START_TEST(softmax_of_columns) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 1; n <= 40; n += 3)
            for (int64_t inner = 1; inner <= 90; inner += 11) {
                array x = filled(t, n * inner, -5, 5), g = filled(t, n * inner, -1, 1),
                      y = output(t, n * inner), dx = output(t, n * inner);
                array row = filled(t, n, 0, 0), z = output(t, n), dz = output(t, n);
                t.k->rows->softmax_columns(n, inner, x.p, inner, y.p);
                t.k->rows->softmax_columns_backward(n, inner, y.p, g.p, inner, dx.p);
                for (int64_t j = 0; j < inner; j++) {
                    for (int64_t r = 0; r < n; r++) put(t, row.p, r, get(t, x.p, r * inner + j));
                    t.k->rows->softmax(n, row.p, z.p);
                    for (int64_t r = 0; r < n; r++) put(t, row.p, r, get(t, g.p, r * inner + j));
                    t.k->rows->softmax_backward(n, z.p, row.p, dz.p);
                    for (int64_t r = 0; r < n; r++) {
                        near(t, "softmax of columns", n, get(t, y.p, r * inner + j),
                             (wide)get(t, z.p, r), 0, 8);
                        near(t, "softmax of columns, backward", n, get(t, dx.p, r * inner + j),
                             (wide)get(t, dz.p, r), get(t, z.p, r), 16);
                    }
                }
                release(x, "x"), release(g, "g"), release(y, "y"), release(dx, "dx"),
                    release(row, "row"), release(z, "z"), release(dz, "dz");
            }
}
END_TEST

START_TEST(softmax_of_infinities) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t n = 1; n <= 40; n++) {
            array x = filled(t, n, -INFINITY, -INFINITY), y = output(t, n), one = output(t, 1),
                  g = filled(t, 1, 1, 1);
            array top = output(t, 1), inverse = output(t, 1);
            for (int64_t j = 0; j < n; j++) put(t, x.p, j, -INFINITY);
            t.k->rows->softmax(n, x.p, y.p);
            for (int64_t j = 0; j < n; j++)
                EXPECT(isnan(get(t, y.p, j)), "%s: softmax of -inf", t.isa);
            t.k->rows->logsumexp(1, n, x.p, one.p, top.p, inverse.p);
            EXPECT(get(t, one.p, 0) == -INFINITY, "%s: logsumexp of -inf", t.isa);
            t.k->rows->logsumexp_backward(n, x.p, top.p, inverse.p, g.p, y.p);
            for (int64_t j = 0; j < n; j++)
                EXPECT(get(t, y.p, j) == 0, "%s: logsumexp' of -inf", t.isa);
            put(t, x.p, n - 1, 3); /* one that counts */
            t.k->rows->softmax(n, x.p, y.p);
            for (int64_t j = 0; j < n; j++)
                EXPECT(get(t, y.p, j) == (j == n - 1), "%s: -inf has weight", t.isa);
            t.k->rows->logsumexp(1, n, x.p, one.p, NULL, NULL);
            EXPECT(get(t, one.p, 0) == 3, "%s: logsumexp beside -inf", t.isa);
            put(t, x.p, n / 2, INFINITY);
            t.k->rows->logsumexp(1, n, x.p, one.p, top.p, inverse.p);
            EXPECT(get(t, one.p, 0) == INFINITY, "%s: logsumexp of inf", t.isa);
            t.k->rows->logsumexp_backward(n, x.p, top.p, inverse.p, g.p, y.p);
            for (int64_t j = 0; j < n; j++)
                EXPECT(j == n / 2 ? isnan(get(t, y.p, j)) : get(t, y.p, j) == 0,
                       "%s: logsumexp' of inf", t.isa);
            put(t, x.p, n / 2, NAN);
            t.k->rows->logsumexp(1, n, x.p, one.p, NULL, NULL);
            EXPECT(isnan(get(t, one.p, 0)), "%s: logsumexp of NaN", t.isa);
            release(x, "x"), release(y, "softmax"), release(one, "one"), release(g, "g"),
                release(top, "its max"), release(inverse, "its 1 / sum");
        }
    for (int i = 0; table_at(i, &t); i++) {
        array one = output(t, 1);
        t.k->rows->logsumexp(1, 0, one.p, one.p, NULL, NULL);
        EXPECT(get(t, one.p, 0) == -INFINITY, "%s: logsumexp of nothing", t.isa);
        release(one, "logsumexp");
    }
}
END_TEST

START_TEST(masked) {
    const double hidden[] = {NAN, INFINITY, -INFINITY, 1e30, 0};
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int l = 0; l < COUNT(lengths); l++)
            for (int h = 0; h < COUNT(hidden); h++) {
                const int64_t n = lengths[l];
                array x = filled(t, n, -5, 5), y = output(t, n), mask = array_of_bytes(1, n, false);
                bool *keep = mask.p;
                for (int64_t j = 0; j < n; j++) keep[j] = noise_bits() % (h == 4 ? 1000 : 3) == 0;
                for (int64_t j = 0; j < n; j++)
                    if (!keep[j]) put(t, x.p, j, hidden[h]);
                wide max;
                const wide sum = sum_exp(t, x.p, n, keep, &max);
                t.k->rows->masked_softmax(n, x.p, keep, 1, y.p);
                for (int64_t j = 0; j < n; j++) {
                    if (keep[j])
                        near(t, "masked_softmax", n, get(t, y.p, j),
                             expl((wide)get(t, x.p, j) - max) / sum, 0, 20);
                    else
                        EXPECT(get(t, y.p, j) == 0 && !signbit(get(t, y.p, j)),
                               "%s: hidden %g has weight", t.isa, hidden[h]);
                }
                t.k->rows->masked_softmax(n, x.p, keep, 1, x.p);
                EXPECT(memcmp(x.p, y.p, y.bytes) == 0, "%s: masked in place", t.isa);
                for (int64_t j = 0; j < n; j++) keep[j] = true, put(t, x.p, j, -INFINITY);
                t.k->rows->masked_softmax(n, x.p, keep, 1, y.p);
                for (int64_t j = 0; j < n; j++)
                    EXPECT(get(t, y.p, j) == 0, "%s: all -inf gives zeros", t.isa);
                put(t, x.p, n - 1, NAN);
                if (n > 1) keep[0] = false;
                t.k->rows->masked_softmax(n, x.p, keep, 1, y.p);
                for (int64_t j = 0; j < n; j++)
                    EXPECT(keep[j] ? isnan(get(t, y.p, j)) : get(t, y.p, j) == 0, "%s: a kept NaN",
                           t.isa);
                for (int64_t j = 0; j < n; j++) put(t, x.p, j, 1);
                const bool one[] = {false, true}; /* a single bool for the row */
                t.k->rows->masked_softmax(n, x.p, &one[0], 0, y.p);
                for (int64_t j = 0; j < n; j++)
                    EXPECT(get(t, y.p, j) == 0, "%s: all hidden", t.isa);
                t.k->rows->masked_softmax(n, x.p, &one[1], 0, y.p);
                for (int64_t j = 0; j < n; j++)
                    near(t, "masked_softmax", n, get(t, y.p, j), 1 / (wide)n, 0, 2);
                release(x, "x"), release(y, "masked_softmax"), release(mask, "mask");
            }
}
END_TEST

START_TEST(loss) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int l = 0; l < COUNT(lengths) * 4; l++) {
            const int64_t n = lengths[l / 4], target = (int64_t)(noise_bits() % (uint64_t)n);
            const double smoothing = l % 2 ? 0.1 : 0, far = l % 4 / 2 ? 1e6 : 0;
            array x = filled(t, n, far - 8, far + 8), dx = output(t, n), one = output(t, 1),
                  top = output(t, 1), inverse = output(t, 1);
            if (l % 3 == 0) put(t, x.p, target, far + 40); /* sure, and right: the loss is tiny */
            wide max, mean = 0, rest = 0;
            const wide sum = sum_exp(t, x.p, n, NULL, &max);
            for (int64_t j = 0; j < n; j++) mean += ((wide)get(t, x.p, j) - max) / n;
            for (int64_t j = 0; j < n; j++)
                rest += j == target ? 0 : expl((wide)get(t, x.p, j) - max);
            const wide own = (wide)get(t, x.p, target) - max,
                       log_sum = own == 0 ? log1pl(rest) : logl(sum);
            t.k->rows->cross_entropy(1, n, x.p, &target, smoothing, one.p, top.p, inverse.p);
            const wide want_loss = log_sum - (1 - (wide)smoothing) * own - (wide)smoothing * mean;
            near(t, "cross_entropy", n, get(t, one.p, 0), want_loss, smoothing * 50, 40);
            near(t, "its max", n, get(t, top.p, 0), max, 0, 0);
            near(t, "its 1 / sum", n, get(t, inverse.p, 0), 1 / sum, 0, INVERSE_ULPS);
            /* some rows as with a z_loss */
            const cti_loss_factors factors = {.scale = 0.25,
                                              .softmax = 1,
                                              .more = n % 3 == 1 ? 0.5 : 0,
                                              .target = 1 - smoothing,
                                              .each = smoothing / (double)n};
            t.k->rows->cross_entropy_backward(n, x.p, target, top.p, inverse.p, &factors, dx.p);
            for (int64_t j = 0; j < n; j++) {
                const wide p = expl((wide)get(t, x.p, j) - max) / sum;
                const wide want = (p * (1 + (wide)factors.more) -
                                   (j == target ? 1 - (wide)smoothing : 0) - (wide)smoothing / n) /
                                  4;
                const bool cancels = j == target || smoothing != 0;
                near(t, "cross_entropy_backward", n, get(t, dx.p, j), want, cancels ? 0.25 : 0,
                     cancels ? 4 : 40);
            }
            t.k->rows->cross_entropy_backward(n, x.p, target, top.p, inverse.p, &factors, x.p);
            EXPECT(memcmp(x.p, dx.p, dx.bytes) == 0, "%s: loss in place", t.isa);
            release(x, "x"), release(dx, "dx"), release(one, "loss"), release(top, "its max"),
                release(inverse, "its 1 / sum");
        }
}
END_TEST

/* ---- norms ---- */

/* x[j] less the centre of the drawn numbers, from which the mean is counted here: a mean of 10,000
 * has too few digits left even when wide */
static wide apart(table t, array x, int64_t j, double centre) {
    return (wide)get(t, x.p, j) - (wide)centre;
}

/* Rows one behind the other, of one size. Sums over rows are added to the old values. */
static void norm_of(table t, int64_t rows, int64_t n, double centre, bool weight, bool bias,
                    bool rms) {
    const int64_t all = rows * n;
    array x = filled(t, all, centre - 1, centre + 1), w = filled(t, n, 0.5, 2),
          b = filled(t, n, -1, 1), g = filled(t, all, -1, 1);
    array y = output(t, all), mean = output(t, rows), rstd = output(t, rows), dx = output(t, all),
          dw = filled(t, n, -1, 1);
    array db = filled(t, n, -1, 1), only = output(t, n);
    wide *want_w = calloc((size_t)n + 1, sizeof *want_w),
         *want_b = calloc((size_t)n + 1, sizeof *want_b), most = 1;
    const double eps = 1e-5;
    void *wp = weight ? w.p : NULL, *bp = bias ? b.p : NULL;
    for (int64_t j = 0; j < n; j++)
        want_w[j] = (wide)get(t, dw.p, j), want_b[j] = (wide)get(t, db.p, j);
    memcpy(only.p, dw.p, dw.bytes);
    void (*const norm)(const cti_norm *) = rms ? t.k->rows->rms_norm : t.k->rows->layer_norm;
    void (*const norm_backward)(const cti_norm_backward *) =
        rms ? t.k->rows->rms_norm_backward : t.k->rows->layer_norm_backward;
    cti_norm forward = {.rows = rows,
                        .n = n,
                        .x = x.p,
                        .w = wp,
                        .b = bp,
                        .eps = eps,
                        .y = y.p,
                        .mean = mean.p,
                        .rstd = rstd.p};
    cti_norm_backward backward = {.rows = rows,
                                  .n = n,
                                  .x = x.p,
                                  .w = wp,
                                  .g = g.p,
                                  .mean = mean.p,
                                  .rstd = rstd.p,
                                  .dx = dx.p,
                                  .dw = dw.p,
                                  .db = db.p};
    norm(&forward);
    norm_backward(&backward);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t at = i * n;
        wide m = 0, v = 0, h = 0, hx = 0, size = 1;
        for (int64_t j = 0; j < n && !rms; j++) m += apart(t, x, at + j, centre) / n;
        for (int64_t j = 0; j < n; j++)
            v += (apart(t, x, at + j, centre) - m) * (apart(t, x, at + j, centre) - m) / n;
        const wide r = 1 / sqrtl(v + (wide)eps);
        near(t, "rstd", n, get(t, rstd.p, i), r, 0, 8);
        if (!rms) near(t, "mean", n, get(t, mean.p, i), m + (wide)centre, fabs(centre) + 1, 3);
        for (int64_t j = 0; j < n; j++) {
            const wide hat = (apart(t, x, at + j, centre) - m) * r,
                       scale = weight ? (wide)get(t, w.p, j) : 1;
            const wide shift = bias && !rms ? (wide)get(t, b.p, j) : 0,
                       c = (wide)get(t, g.p, at + j);
            near(t, rms ? "rms_norm" : "layer_norm", n, get(t, y.p, at + j), hat * scale + shift, 4,
                 8);
            h += rms ? 0 : c * scale / n, hx += c * scale * hat / n;
            want_w[j] += c * hat, want_b[j] += c;
            if (fabsl(hat) > size) size = fabsl(hat);
        }
        for (int64_t j = 0; j < n; j++) {
            const wide hat = (apart(t, x, at + j, centre) - m) * r,
                       c = (wide)get(t, g.p, at + j) * (weight ? (wide)get(t, w.p, j) : 1);
            near(t, "norm dx", n, get(t, dx.p, at + j), r * (c - h - hat * hx),
                 (double)(r * 4 * size), 8);
        }
        if (size > most) most = size;
    }
    for (int64_t j = 0; j < n; j++) {
        near(t, "norm dw", n, get(t, dw.p, j), want_w[j], (double)(most * (rows + 1)), 8);
        if (!rms) near(t, "norm db", n, get(t, db.p, j), want_b[j], (double)(rows + 1), 4);
    }
    array base = filled(t, all, -1, 1),
          sum = output(t, all); /* only dw, dx added to something, dx over g, y over x */
    backward.dx = backward.db = NULL, backward.dw = only.p;
    norm_backward(&backward);
    EXPECT(memcmp(only.p, dw.p, dw.bytes) == 0, "%s: dw alone", t.isa);
    backward.base = base.p, backward.dx = sum.p, backward.dw = NULL;
    norm_backward(&backward);
    for (int64_t j = 0; j < all; j++)
        near(t, "norm dx onto", n, get(t, sum.p, j),
             (wide)get(t, base.p, j) + (wide)get(t, dx.p, j), 1 + fabs(get(t, dx.p, j)), 2);
    backward.base = NULL, backward.dx = g.p;
    norm_backward(&backward);
    EXPECT(memcmp(g.p, dx.p, dx.bytes) == 0, "%s: dx alone, in place", t.isa);
    forward.y = x.p;
    norm(&forward);
    EXPECT(memcmp(x.p, y.p, y.bytes) == 0, "%s: norm in place", t.isa);
    release(x, "x"), release(w, "w"), release(b, "b"), release(g, "g"), release(y, "norm"),
        release(mean, "mean"), release(rstd, "rstd");
    release(dx, "dx"), release(dw, "dw"), release(db, "db"), release(only, "dw"),
        release(base, "base"), release(sum, "dx");
    free(want_w), free(want_b);
}

START_TEST(norms) {
    static const int64_t counts[] = {1,  2,  3, 15,
                                     16, 17, 33}; /* rows, beside batches of every vector's lanes */
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int l = 0; l < COUNT(lengths); l++) {
            const int64_t rows = counts[l % COUNT(counts)];
            for (int k = 0; k < 4; k++)
                norm_of(t, k ? 1 : rows, lengths[l], 0, k & 1, k & 2, false);
            norm_of(t, rows, lengths[l], 10000, true, true,
                    false); /* a large mean costs no digits */
            norm_of(t, rows, lengths[l], 0, true, false, true);
            norm_of(t, 1, lengths[l], 0, false, false, true);
        }
}
END_TEST

START_TEST(rotary) {
    table t;
    for (int i = 0; table_at(i, &t); i++)
        for (int64_t half = 0; half <= 40; half++)
            for (int interleaved = 0; interleaved < 2; interleaved++) {
                array x = filled(t, 2 * half, -1, 1), c = filled(t, half, -1, 1),
                      s = filled(t, half, -1, 1), y = output(t, 2 * half);
                for (int back = -1; back <= 1; back += 2) {
                    t.k->rows->rope(2 * half, x.p, c.p, s.p, interleaved, back, y.p);
                    for (int64_t j = 0; j < half; j++) {
                        const int64_t p = interleaved ? 2 * j : j,
                                      q = interleaved ? 2 * j + 1 : j + half;
                        const wide u = (wide)get(t, x.p, p), v = (wide)get(t, x.p, q);
                        const wide cosine = (wide)get(t, c.p, j),
                                   sine = back * (wide)get(t, s.p, j);
                        near(t, "rope", half, get(t, y.p, p), u * cosine - v * sine, 1, 1);
                        near(t, "rope", half, get(t, y.p, q), v * cosine + u * sine, 1, 1);
                    }
                }
                t.k->rows->rope(2 * half, x.p, c.p, s.p, interleaved, 1, x.p);
                EXPECT(memcmp(x.p, y.p, y.bytes) == 0, "%s: rope in place", t.isa);
                release(x, "x"), release(c, "cos"), release(s, "sin"), release(y, "rope");
            }
}
END_TEST

int main(void) {
    return run_tests("kernels of rows", NULL, NULL,
                     TESTS(TEST(sum_of_bad_condition), TEST(reductions), TEST(finds_nan),
                           TEST(softmaxes), TEST(rows_together), TEST(softmax_of_columns),
                           TEST(softmax_of_infinities), TEST(masked), TEST(loss), TEST(norms),
                           TEST(rotary)));
}
