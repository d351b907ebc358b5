/* Matrix products against a sum written out in double: every ISA, orientation, size around the
 * blocks, batch, stride; and the same bits for any number of threads. */
#include "tests/support/suite.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cotangent/cotangent.h>

#include "src/core/context.h"
#include "src/gemm/contract.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

typedef struct {
    int64_t batch, m, n, k;
    bool ta, tb, tc; /* stored by columns */
    bool add;
    double alpha;
    bool shared; /* one A and one B for the whole batch */
    bool bias;   /* B's first row is one */
} problem;

static uint64_t state = 1;
static double noise(void) { /* in [-1, 1) */
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)state * 0x1p-63;
}

static double get(const void *data, ct_dtype dtype, int64_t i) {
    return dtype == CT_F32 ? (double)((const float *)data)[i] : ((const double *)data)[i];
}
static void put(void *data, ct_dtype dtype, int64_t i, double x) {
    if (dtype == CT_F32) ((float *)data)[i] = (float)x;
    else ((double *)data)[i] = x;
}

static size_t size_of(ct_dtype dtype) { return dtype == CT_F32 ? 4 : 8; }

/* n elements of noise in a block of just that size: reads or writes past it are
 * AddressSanitizer's to find. */
static void *filled(ct_dtype dtype, int64_t n) {
    void *data = malloc((size_t)n * size_of(dtype) + 1);
    for (int64_t i = 0; i < n; i++) put(data, dtype, i, noise());
    return data;
}

static ct_context *context_of(const char *isa, int threads) {
    ct_context *context = ct_context_new((ct_context_opts){.isa = isa, .threads = threads});
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
    return context;
}

/* An item of a matrix as dense rows of doubles; the caller frees it. */
static double *widened(ct_dtype dtype, cti_matrix x, int64_t item, int64_t rows, int64_t cols) {
    double *to = malloc((size_t)(rows * cols + 1) * sizeof *to);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            to[i * cols + j] = get(x.data, dtype, item * x.batch + i * x.row + j * x.col);
    return to;
}

/* The largest error, in units of the rounding allowed: the sum of |a b| and of the old value, times
 * eps. */
static double error_of(const void *got, const void *before, const void *bias, ct_dtype dtype,
                       problem p, cti_matrix a, cti_matrix b, cti_matrix c) {
    double worst = 0, eps = dtype == CT_F32 ? 0x1p-23 : 0x1p-52;
    double *sum = malloc((size_t)(2 * p.n + 1) * sizeof *sum), *bound = sum + p.n;
    for (int64_t item = 0; item < p.batch; item++) {
        double *wide_a = widened(dtype, a, item, p.m, p.k),
               *wide_b = widened(dtype, b, item, p.k, p.n);
        for (int64_t i = 0; i < p.m; i++) {
            memset(sum, 0, (size_t)(2 * p.n) * sizeof *sum);
            for (int64_t q = 0; q < p.k; q++)
                for (int64_t j = 0; j < p.n; j++) {
                    const double term = wide_a[i * p.k + q] * wide_b[q * p.n + j];
                    sum[j] += term;
                    bound[j] += fabs(term);
                }
            for (int64_t j = 0; j < p.n; j++) {
                const int64_t at = item * c.batch + i * c.row + j * c.col;
                const double was = p.add ? get(before, dtype, at) : bias ? get(bias, dtype, j) : 0;
                const double error = fabs(get(got, dtype, at) - (p.alpha * sum[j] + was));
                if (!(error == 0))
                    worst =
                        fmax(worst, isnan(error)
                                        ? INFINITY
                                        : error / (eps * (fabs(p.alpha) * bound[j] + fabs(was))));
            }
        }
        free(wide_a), free(wide_b);
    }
    free(sum);
    return worst;
}

static cti_matrix strided(void *data, int64_t row, int64_t col, int64_t batch) {
    return (cti_matrix){.data = data, .row = row, .col = col, .batch = batch};
}

static cti_matrix laid_out(void *data, int64_t rows, int64_t cols, bool by_columns) {
    return by_columns ? strided(data, 1, rows, rows * cols) : strided(data, cols, 1, rows * cols);
}

static bool multiply(ct_context *context, ct_dtype dtype, problem p, cti_matrix a, cti_matrix b,
                     cti_matrix c) {
    const cti_gemm_epilogue epilogue = {.add = p.add, .bias = p.bias ? b.data : NULL};
    a.dtype = b.dtype = c.dtype = dtype;
    return cti_gemm(context, &(cti_gemm_args){.batch = p.batch,
                                              .m = p.m,
                                              .n = p.n,
                                              .k = p.k,
                                              .alpha = p.alpha,
                                              .a = a,
                                              .b = b,
                                              .c = c,
                                              .epilogue = p.add || p.bias ? &epilogue : NULL});
}

/* The elements of C's memory as the epilogue of a product has seen them, and how often it has seen
 * each. */
typedef struct {
    ct_dtype dtype;
    char *c, *seen;
    uint8_t *times;
} witness;

static void look(void *arg, const cti_matrix *c, int64_t rows, int64_t cols) {
    const witness *w = arg;
    const int64_t size = (int64_t)size_of(w->dtype), base = ((char *)c->data - w->c) / size;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < cols; j++) {
            const int64_t at = base + i * c->row + j * c->col;
            memcpy(w->seen + at * size, w->c + at * size, (size_t)size);
            w->times[at]++;
        }
    }
}

/* C has a margin of columns, which must stay as it is. The epilogue must see every other element
 * once, with its final value. Half of the products that are not added to C are added to a bias. */
static void check(ct_context *context, ct_dtype dtype, problem p) {
    enum { MARGIN = 3 };
    void *a = filled(dtype, p.batch * p.m * p.k), *b = filled(dtype, p.batch * p.k * p.n);
    const int64_t count = p.batch * (p.tc ? p.n * (p.m + MARGIN) : p.m * (p.n + MARGIN));
    void *c = filled(dtype, count), *before = malloc((size_t)count * size_of(dtype) + 1);
    memcpy(before, c, (size_t)count * size_of(dtype));
    cti_matrix ma = laid_out(a, p.m, p.k, p.ta), mb = laid_out(b, p.k, p.n, p.tb);
    cti_matrix mc =
        p.tc ? laid_out(c, p.m + MARGIN, p.n, true) : laid_out(c, p.m, p.n + MARGIN, false);
    if (p.shared) ma.batch = mb.batch = 0;
    witness w = {dtype, c, malloc((size_t)count * size_of(dtype) + 1),
                 calloc((size_t)count + 1, 1)};
    memcpy(w.seen, c, (size_t)count * size_of(dtype));
    void *bias = !p.add && noise() > 0 ? filled(dtype, p.n) : NULL;
    const cti_gemm_epilogue epilogue = {.add = p.add, .bias = bias, .apply = look, .arg = &w};
    ma.dtype = mb.dtype = mc.dtype = dtype;
    ck_assert(cti_gemm(context, &(cti_gemm_args){.batch = p.batch,
                                                 .m = p.m,
                                                 .n = p.n,
                                                 .k = p.k,
                                                 .alpha = p.alpha,
                                                 .a = ma,
                                                 .b = mb,
                                                 .c = mc,
                                                 .epilogue = &epilogue}));
    ck_assert_msg(!memcmp(w.seen, c, (size_t)count * size_of(dtype)), "%s: an end before the end",
                  context->isa->name);
    int64_t seen = 0, most = 0;
    for (int64_t i = 0; i < count; i++) {
        if (w.times[i] > most) most = w.times[i];
        seen += w.times[i];
    }
    ck_assert_int_le(most, 1);
    ck_assert_int_eq(seen, p.batch * p.m * p.n);
    const double error = error_of(c, before, bias, dtype, p, ma, mb, mc);
    /* a sum in blocks of kc: its error grows with the root of k, with a bound far under k */
    ck_assert_msg(error <= 4 + sqrt((double)p.k),
                  "%s %s: %d (%d %d %d) t %d%d%d add %d bias %d alpha %g: error %g",
                  context->isa->name, dtype == CT_F32 ? "f32" : "f64", (int)p.batch, (int)p.m,
                  (int)p.n, (int)p.k, p.ta, p.tb, p.tc, p.add, bias != NULL, p.alpha, error);
    for (int64_t item = 0, at = 0; item < p.batch; item++) {
        for (int64_t row = 0; row < (p.tc ? p.n : p.m); row++) {
            at += p.tc ? p.m : p.n;
            const size_t offset = (size_t)at * size_of(dtype);
            ck_assert_msg(
                !memcmp((char *)c + offset, (char *)before + offset, MARGIN * size_of(dtype)),
                "%s writes past C's rows", context->isa->name);
            at += MARGIN;
        }
    }
    free(a);
    free(b);
    free(c);
    free(before);
    free(bias);
    free(w.seen);
    free(w.times);
}

static ct_dtype dtype_of(int i) { return i % 2 ? CT_F64 : CT_F32; }

START_TEST(sizes) {
    static const int64_t size[] = {0, 1, 2, 3, 7, 16, 33, 64, 65};
    for (int isa = 0; cti_isa_at(isa); isa++) {
        ct_context *context = context_of(cti_isa_at(isa)->name, 1);
        int turn = 0;
        for (int m = 0; m < COUNT(size); m++) {
            for (int n = 0; n < COUNT(size); n++) {
                for (int k = 0; k < COUNT(size);
                     k++, turn++) { /* `turn` selects the other fields, with periods that have no
                                       common factor */
                    problem p = {1,
                                 size[m],
                                 size[n],
                                 size[k],
                                 turn & 1,
                                 turn & 2,
                                 turn % 5 == 0,
                                 turn % 3 == 0,
                                 turn % 7 ? 1 : -0.5,
                                 false,
                                 false};
                    check(context, dtype_of(turn / 4), p);
                }
            }
        }
        ct_context_free(context);
    }
}
END_TEST

START_TEST(orientations) {
    static const int64_t size[][3] = {
        {13, 35, 20},    {1, 70, 400},    {70, 1, 400},  {1, 300, 9},
        {130, 150, 400}, {128, 128, 128}, {33, 17, 800}, {30, 100, 1700},
        {40, 40, 3300},  {30, 1024, 70},                   /* deeper than a strip; far rows of B */
        {2, 66, 40},     {5, 131, 133},   {23, 67, 1700}}; /* few rows */
    for (int isa = 0; cti_isa_at(isa); isa++) {
        ct_context *context = context_of(cti_isa_at(isa)->name, 2);
        for (int s = 0; s < COUNT(size); s++) {
            for (int t = 0; t < 16; t++) {
                problem p = {1,     size[s][0], size[s][1], size[s][2], t & 1, t & 2,
                             t & 4, t & 8,      1.5,        false,      false};
                if (p.m * p.n * p.k > 1000000 && (t & 4)) continue;
                check(context, dtype_of(s + t / 4), p);
            }
        }
        ct_context_free(context);
    }
}
END_TEST

/* Several chunks of a packed A, several strips of B. */
START_TEST(large) {
    static const problem list[] = {{1, 650, 66, 900, true, .alpha = 1},
                                   {1, 1024, 67, 900, true, .alpha = 1},
                                   {1, 26, 1100, 700, false, true, .alpha = 1},
                                   {1, 26, 700, 1100, .add = true, .alpha = 1}};
    for (int isa = 0; cti_isa_at(isa); isa++) {
        ct_context *context = context_of(cti_isa_at(isa)->name, 2);
        for (int i = 0; i < 2 * COUNT(list); i++) check(context, dtype_of(i), list[i / 2]);
        ct_context_free(context);
    }
}
END_TEST

START_TEST(batches) {
    static const problem list[] = {
        {2, 3, 4, 5, .alpha = 1},
        {7, 33, 9, 17, true, false, .add = true, .alpha = 2},
        {40, 8, 8, 8, false, true, .alpha = 1},
        {3, 1, 40, 30, .alpha = 1},
        {0, 3, 4, 5, .alpha = 1},
        {20, 70, 66, 33, true, true, .alpha = 1},
        {2, 128, 96, 100, .alpha = 1},
        {5, 64, 1, 20, .add = true, .alpha = 1},
        {4, 9, 8, 800, .alpha = 1, .shared = true},
        {4, 600, 9, 20, .alpha = 1, .shared = true},
        {4, 9, 600, 20, .alpha = 1, .shared = true},
        {4, 30, 20, 10, .alpha = 1, .shared = true},
        {3, 4, 5, 0, .alpha = 1},
        {3, 4, 5, 0, .add = true, .alpha = 1},
        {4, 512, 66, 70, true, .alpha = 1, .shared = true},
        {15, 512, 66, 70, true,
         .alpha = 1}, /* A is packed: its columns are far from each other. In f64 in two chunks */
    };
    for (int isa = 0; cti_isa_at(isa); isa++) {
        ct_context *context = context_of(cti_isa_at(isa)->name, 2);
        for (int i = 0; i < COUNT(list); i++) {
            check(context, CT_F32, list[i]);
            check(context, CT_F64, list[i]);
        }
        ct_context_free(context);
    }
}
END_TEST

/* Steps of 0 and backward, no dim of step 1, one matrix for a whole batch. */
START_TEST(strides) {
    enum { M = 19, N = 37, K = 23, BATCH = 3 };
    for (int isa = 0; cti_isa_at(isa); isa++) {
        ct_context *context = context_of(cti_isa_at(isa)->name, 1);
        for (int i = 0; i < 64; i++) {
            const ct_dtype dtype = dtype_of(isa);
            const int64_t size = (int64_t)size_of(dtype),
                          space = 3 * BATCH * (M + N + K) * (M + N + K);
            void *a = filled(dtype, space), *b = filled(dtype, space), *c = filled(dtype, space),
                 *before = malloc((size_t)(space * size));
            memcpy(before, c, (size_t)(space * size));
            problem p = {BATCH,
                         i % 16 == 15 ? 1 : M,
                         N,
                         i % 8 == 7 ? 1 : K,
                         .add = i & 1,
                         .bias = i % 2 == 0 && i / 8 % 2,
                         .alpha = 1};
            const cti_matrix ma[] = {strided(a, K, 1, 0), strided(a, 0, 1, K), strided(a, 1, 0, M),
                                     strided((char *)a + M * K * 2 * size, -2 * K, 2, 0),
                                     strided((char *)a + K * size, 2 * K, -1, 5)};
            const cti_matrix mb[] = {strided(b, N, 1, 0), strided(b, 0, 1, N), strided(b, 1, 0, K),
                                     strided((char *)b + K * N * 2 * size, -N, 3, 0),
                                     strided(b, 2, 2 * K, 1)};
            const cti_matrix mc[] = {strided(c, N, 1, M * N), strided(c, 2, 2 * M, 2 * M * N),
                                     strided((char *)c + M * N * size, -N, 1, M * N),
                                     strided(c, N * BATCH, 1, N)};
            cti_matrix x = ma[i % 5], y = mb[i / 5 % 5], z = mc[i / 2 % 4];
            ck_assert(multiply(context, dtype, p, x, y, z));
            const int64_t base = ((char *)z.data - (char *)c) / size;
            const double error = error_of(z.data, (char *)before + base * size,
                                          p.bias ? y.data : NULL, dtype, p, x, y, z);
            ck_assert_msg(error <= 8, "case %d of %s: error %g", i, context->isa->name, error);
            free(a);
            free(b);
            free(c);
            free(before);
        }
        ct_context_free(context);
    }
}
END_TEST

/* A single product, which may be direct, has the bits of the same product in a batch, which is
 * never direct. */
START_TEST(alone) {
    static const problem list[] = {{4, 16, 16, 16, .alpha = 1},
                                   {4, 13, 31, 20, false, true, .alpha = 0.7},
                                   {4, 33, 40, 50, true, .alpha = 1},
                                   {4, 30, 5, 900, true, true, .add = true, .alpha = 1},
                                   {4, 9, 1, 40, .add = true, .alpha = 1},
                                   {4, 8, 30, 1000, false, true, .alpha = 1},
                                   {4, 3, 150, 900, false, true, .add = true, .alpha = 0.7}};
    for (int isa = 0; cti_isa_at(isa); isa++) {
        ct_context *context = context_of(cti_isa_at(isa)->name, 1);
        for (int i = 0; i < 2 * COUNT(list); i++) {
            const problem p = list[i / 2];
            const ct_dtype dtype = dtype_of(i);
            const size_t bytes = (size_t)(p.batch * p.m * p.n) * size_of(dtype);
            void *a = filled(dtype, p.batch * p.m * p.k), *b = filled(dtype, p.batch * p.k * p.n);
            void *together = filled(dtype, p.batch * p.m * p.n), *one = malloc(bytes);
            memcpy(one, together, bytes);
            cti_matrix ma = laid_out(a, p.m, p.k, p.ta), mb = laid_out(b, p.k, p.n, p.tb),
                       mc = laid_out(together, p.m, p.n, false);
            ck_assert(multiply(context, dtype, p, ma, mb, mc));
            mc.data = one;
            problem single = p;
            single.batch = 1;
            for (int64_t item = 0; item < p.batch; item++) {
                ck_assert(multiply(context, dtype, single, ma, mb, mc));
                ma.data = (char *)ma.data + ma.batch * (int64_t)size_of(dtype);
                mb.data = (char *)mb.data + mb.batch * (int64_t)size_of(dtype);
                mc.data = (char *)mc.data + mc.batch * (int64_t)size_of(dtype);
            }
            ck_assert_msg(!memcmp(one, together, bytes), "%s: case %d alone has other bits",
                          context->isa->name, i);
            free(a);
            free(b);
            free(together);
            free(one);
        }
        ct_context_free(context);
    }
}
END_TEST

/* Several slices, blocks and terms of bf16; C shared out by slices, B packed for all: the same bits
 * for any number of threads and any cache; A is packed or not. */
START_TEST(threads) {
    static const problem list[] = {{1, 150, 300, 800, .add = true, .alpha = 0.7},
                                   {30, 40, 33, 70, .alpha = 1},
                                   {3, 1, 1100, 500, .alpha = 1},
                                   {1, 520, 70, 130, true, true, .alpha = 1},
                                   {2, 257, 129, 65, .alpha = 1},
                                   {2, 19, 400, 900, false, true, .alpha = 1},
                                   {1, 70, 50, 2600, true, .alpha = 0.3},
                                   {1, 70, 50, 2600, true, .add = true, .alpha = 1},
                                   {1, 70, 50, 2600, true, .bias = true, .alpha = 1},
                                   {2, 19, 400, 900, false, true, .bias = true, .alpha = 1},
                                   {1, 130, 65, 1601, false, true, .alpha = 1},
                                   {1, 70, 600, 1025, true, .alpha = 1},
                                   {1, 200, 130, 700, false, true, .alpha = 1},
                                   {1, 700, 90, 140, false, true, .alpha = 1},
                                   {1, 1024, 70, 600, true, .alpha = 1},
                                   {1, 1024, 50, 600, true, .alpha = 1},
                                   {1, 70, 50, 520, true, .add = true, .alpha = 1},
                                   {1, 900, 300, 70, false, true, .add = true, .alpha = 1},
                                   {1, 150, 600, 1024, .alpha = 1}};
    static const int count[] = {1, 2, 3, 7};
    for (int isa = 0; cti_isa_at(isa); isa++) {
        for (int i = 0; i < 2 * COUNT(list); i++) {
            const problem p = list[i / 2];
            const ct_dtype dtype = dtype_of(i);
            const size_t bytes = (size_t)(p.batch * p.m * p.n) * size_of(dtype);
            void *a = filled(dtype, p.batch * p.m * p.k), *b = filled(dtype, p.batch * p.k * p.n);
            void *c = filled(dtype, p.batch * p.m * p.n);
            void *got[COUNT(count)];
            for (int t = 0; t < COUNT(count); t++) {
                ct_context *context = context_of(cti_isa_at(isa)->name, count[t]);
                context->l2_bytes = (64 << 10) << 2 * t;
                context->l1d_ways = t % 2 ? 8 : 12;
                got[t] = malloc(bytes);
                memcpy(got[t], c, bytes);
                ck_assert(multiply(context, dtype, p, laid_out(a, p.m, p.k, p.ta),
                                   laid_out(b, p.k, p.n, p.tb), laid_out(got[t], p.m, p.n, false)));
                ck_assert_msg(!memcmp(got[0], got[t], bytes), "%s: %d threads change case %d",
                              context->isa->name, count[t], i);
                ct_context_free(context);
            }
            for (int t = 0; t < COUNT(count); t++) free(got[t]);
            free(a);
            free(b);
            free(c);
        }
    }
}
END_TEST

/* An element does not depend on where in C it lies, nor on how large C is: single rows are rows of
 * the whole. */
START_TEST(part_of_whole) {
    enum { M = 61, N = 83, K = 450 };
    static const int some[] = {
        N - 5, 72, 66}; /* columns of C, of which the last ones lie in a smaller block then */
    for (int isa = 0; cti_isa_at(isa); isa++) {
        ct_context *context = context_of(cti_isa_at(isa)->name, 2);
        float *a = filled(CT_F32, M * K), *b = filled(CT_F32, K * N), *c = filled(CT_F32, M * N),
              *part = filled(CT_F32, M * N);
        ck_assert(multiply(context, CT_F32, (problem){1, M, N, K, .alpha = 1},
                           laid_out(a, M, K, false), laid_out(b, K, N, false),
                           laid_out(c, M, N, false)));
        for (int m = 2; m < M; m += 5) {
            const int n = some[m % COUNT(some)];
            ck_assert(multiply(context, CT_F32, (problem){1, m, n, K, .alpha = 1},
                               laid_out(a, M, K, false), laid_out(b, K, N, false),
                               laid_out(part, M, N, false)));
            for (int i = 0; i < m; i++)
                ck_assert(!memcmp(part + i * N, c + i * N, (size_t)n * sizeof(float)));
        }
        free(a);
        free(b);
        free(c);
        free(part);
        ct_context_free(context);
    }
}
END_TEST

/* Few rows, A and B dense along K: a row has the same bits by itself, among any number of others,
 * and whether columns of B follow each other or have a gap between them. */
START_TEST(few_rows) {
    enum { M = 32, N = 83, K = 701, GAP = 5 };
    for (int i = 0; cti_isa_at(i / 2); i++) {
        ct_context *context = context_of(cti_isa_at(i / 2)->name, 2);
        const ct_dtype dtype = dtype_of(i);
        const size_t size = size_of(dtype);
        char *a = filled(dtype, M * K), *b = filled(dtype, N * K), *c = filled(dtype, M * N),
             *part = filled(dtype, M * N), *apart = malloc(N * (K + GAP) * size);
        for (int64_t n = 0; n < N; n++)
            memcpy(apart + n * (K + GAP) * (int64_t)size, b + n * K * (int64_t)size, K * size);
        cti_matrix ma = laid_out(a, M, K, false), mc = laid_out(c, M, N, false);
        ck_assert(multiply(context, dtype, (problem){1, M, N, K, .alpha = 0.7}, ma,
                           laid_out(b, K, N, true), mc));
        for (int m = 1; m <= M; m++) {
            const int n = m % 3 ? N : N - 13;
            cti_matrix mb = laid_out(m % 2 ? b : apart, K, N, true);
            if (m % 2 == 0) mb.col = K + GAP;
            mc.data = part;
            ck_assert(multiply(context, dtype, (problem){1, m, n, K, .alpha = 0.7}, ma, mb, mc));
            for (int64_t row = 0; row < m; row++)
                ck_assert_msg(!memcmp(part + row * N * (int64_t)size, c + row * N * (int64_t)size,
                                      (size_t)n * size),
                              "%s: row %d of %d", context->isa->name, (int)row, m);
        }
        free(a);
        free(b);
        free(c);
        free(part);
        free(apart);
        ct_context_free(context);
    }
}
END_TEST

/* A NaN or an infinity in A or B reaches its row or column of C, and no other element by way of the
 * padding. Without add, a NaN in the old C does not reach the new one. */
START_TEST(not_finite) {
    ct_context *context = context_of(NULL, 1);
    float a[5 * 5], b[5 * 5], c[5 * 5];
    for (int i = 0; i < 25; i++) a[i] = b[i] = 1, c[i] = NAN;
    a[1 * 5 + 2] = NAN;
    b[3 * 5 + 4] = INFINITY;
    ck_assert(multiply(context, CT_F32, (problem){1, 5, 5, 5, .alpha = 1}, laid_out(a, 5, 5, false),
                       laid_out(b, 5, 5, false), laid_out(c, 5, 5, false)));
    for (int i = 0; i < 25; i++) {
        if (i / 5 == 1) ck_assert(isnan(c[i]));
        else if (i % 5 == 4) ck_assert(isinf(c[i]));
        else ck_assert(c[i] == 5);
    }
    ct_context_free(context);
}
END_TEST

/* The second product of a size makes no call to the allocator. */
START_TEST(steady_memory) {
    ct_context *context = context_of(NULL, 2);
    float *a = filled(CT_F32, 300 * 300), *b = filled(CT_F32, 300 * 300),
          *c = filled(CT_F32, 300 * 300);
    int64_t calls = 0;
    for (int i = 0; i < 3; i++) {
        for (int64_t n = 10; n <= 300; n += 145) {
            ck_assert(multiply(context, CT_F32, (problem){1, n, n, n, .alpha = 1},
                               laid_out(a, n, n, false), laid_out(b, n, n, false),
                               laid_out(c, n, n, false)));
        }
        if (i == 1) calls = ct_memory(context).allocator_calls;
    }
    ck_assert_int_eq(calls, ct_memory(context).allocator_calls);
    ck_assert_int_eq(ct_memory(context).live, 0);
    free(a);
    free(b);
    free(c);
    ct_context_free(context);
}
END_TEST

/* If C is a sum of products, the epilogue runs after the last of them: C (2, 3, 5) is summed over a
 * batch dim that it does not have. */
START_TEST(end_of_sum) {
    enum { R = 4, P = 2, M = 3, K = 6, N = 5 };
    ct_context *context = context_of(NULL, 1);
    double *a = filled(CT_F64, R * P * M * (K + 1)), *b = filled(CT_F64, R * (K + 1) * N),
           c[P * M * N], seen[P * M * N];
    const double bias[N] = {1, 2, 3, 4, 5};
    uint8_t times[P * M * N] = {0};
    witness w = {CT_F64, (char *)c, (char *)seen, times};
    const cti_contraction product = {
        .m = {M, {K + 1, 0, N}},
        .n = {N, {0, 1, 1}},
        .k = {K, {1, N, 0}},
        .batch = {{R, {P * M * (K + 1), (K + 1) * N, 0}}, {P, {M * (K + 1), 0, M * N}}},
        .dims = 2};
    const ct_tensor of_a = {.data = (char *)a, .dtype = CT_F64},
                    of_b = {.data = (char *)b, .dtype = CT_F64};
    const ct_tensor of_c = {.data = (char *)c, .dtype = CT_F64};
    ck_assert(cti_contract(context, &product, (const ct_tensor *const[]){&of_a, &of_b, &of_c},
                           &(cti_gemm_epilogue){.bias = bias, .apply = look, .arg = &w}));
    for (int i = 0; i < P * M * N; i++) {
        double sum = bias[i % N];
        for (int r = 0; r < R; r++)
            for (int q = 0; q < K; q++)
                sum += a[(r * P * M + i / N) * (K + 1) + q] * b[(r * (K + 1) + q) * N + i % N];
        ck_assert(fabs(sum - c[i]) < 1e-12 && seen[i] == c[i] && times[i] == 1);
    }
    free(a);
    free(b);
    ct_context_free(context);
}
END_TEST

int main(void) {
    return run_cases(
        "gemm", CASES({.name = "values of many products",
                       .tags = "one-thread",
                       .tests = TESTS(TEST(orientations), TEST(large))},
                      {.name = "gemm",
                       .tests = TESTS(TEST(sizes), TEST(batches), TEST(strides), TEST(alone),
                                      TEST(threads), TEST(part_of_whole), TEST(few_rows),
                                      TEST(not_finite), TEST(steady_memory), TEST(end_of_sum))}));
}
