/* Properties of products with rounded operands, for any kernels: included by the
 * suites of plain kernels (test_rounded.c) and of the model of AMX (test_amx.c). */
#ifndef ROUNDED_CHECK_H
#define ROUNDED_CHECK_H

#include "rounding_isa.h"

static uint64_t state = 1;
static uint32_t random_bits(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}
static float noise(void) { return (float)(int32_t)random_bits() * 0x1p-31f; }

/* The float that is the bf16 number nearest to x by definition: 8 bits of mantissa, and ties go to
 * even. A number that is half a unit or more above the largest becomes infinite; a number below the
 * least normal number becomes zero. */
static float nearest_bf16(float x) {
    if (isnan(x) || isinf(x) || x == 0) return x;
    if (fabsf(x) < 0x1p-126f) return copysignf(0, x);
    int exponent;
    const double mantissa = frexp((double)x, &exponent); /* [1/2, 1) */
    const double rounded = ldexp(nearbyint(ldexp(mantissa, 8)), exponent - 8);
    return fabs(rounded) > 0x1.FEp127 ? copysignf(INFINITY, x) : (float)rounded;
}

/* Returns n random floats in a block of exactly their size. */
static float *noise_of(int64_t n) {
    float *x = malloc((size_t)n * sizeof *x + 1);
    for (int64_t i = 0; i < n; i++) x[i] = noise();
    return x;
}

typedef struct {
    int64_t batch, m, n, k;
    bool ta, tb, tc; /* stored by columns */
    int64_t apart;   /* the distance in memory of neighbouring elements of A and of B, in elements;
                      * 0: 1 */
    bool add, bias;
    double alpha;
} rounded_case;

static cti_matrix laid_out(float *data, int64_t rows, int64_t cols, bool by_columns,
                           int64_t apart) {
    return (cti_matrix){.data = data,
                        .row = (by_columns ? 1 : cols) * apart,
                        .col = (by_columns ? rows : 1) * apart,
                        .batch = rows * cols * apart,
                        .dtype = CT_F32};
}

static float *element(const cti_matrix *x, int64_t item, int64_t i, int64_t j) {
    return cti_matrix_at(x, item, i, j);
}

typedef struct {
    float *a, *b, *c, *bias;
    cti_matrix ma, mb, mc;
} operands;

static operands operands_of(const rounded_case *p) {
    const int64_t apart = p->apart ? p->apart : 1;
    operands o = {.a = noise_of(p->batch * p->m * p->k * apart),
                  .b = noise_of(p->batch * p->k * p->n * apart),
                  .c = noise_of(p->batch * p->m * p->n),
                  .bias = noise_of(p->n)};
    o.ma = laid_out(o.a, p->m, p->k, p->ta, apart);
    o.mb = laid_out(o.b, p->k, p->n, p->tb, apart);
    o.mc = laid_out(o.c, p->m, p->n, p->tc, 1);
    return o;
}

static void operands_free(operands *o) {
    free(o->a);
    free(o->b);
    free(o->c);
    free(o->bias);
}

static void rounded_multiply(ct_context *context, const rounded_case *p, const operands *o,
                             float *c) {
    const cti_gemm_epilogue e = {.add = p->add, .bias = p->bias ? o->bias : NULL};
    cti_matrix mc = o->mc;
    mc.data = c;
    ck_assert(cti_gemm(context, &(cti_gemm_args){.batch = p->batch,
                                                 .m = p->m,
                                                 .n = p->n,
                                                 .k = p->k,
                                                 .alpha = p->alpha,
                                                 .a = o->ma,
                                                 .b = o->mb,
                                                 .c = mc,
                                                 .epilogue = &e}));
}

/* Compares with sums in f64 of the products of rounded operands. Products of bf16 are exact in f32,
 * so the only difference is the rounding of the sums in f32. */
static void check_values(const rounding_isa *isa) {
    static const rounded_case list[] = {
        {1, 65, 67, 63, .alpha = 1},
        {1, 65, 67, 63, true, false, false, .add = true, .alpha = 1},
        {1, 64, 96, 64, false, true, false, .bias = true, .alpha = 0.5},
        {1, 33, 130, 101, true, true, false, .alpha = -1.5},
        {1, 130, 33, 100, false, false, true, .add = true, .alpha = 1},
        {1, 70, 50, 129, false, false, true, .bias = true, .alpha = 1},
        {1, 60, 90, 77, true, false, false, 3, .alpha = 1},
        {1, 50, 110, 64, false, true, false, 2, .add = true, .alpha = 2},
        {3, 70, 66, 65, false, true, false, .alpha = 1},
        {2, 129, 31, 90, true, true, true, .bias = true, .alpha = 1},
        {1, 16, 40, 500, .alpha = 1},
        {1, 300, 17, 70, true, .alpha = 1},
        {1, 20, 64, 1100, false, true, .alpha = 1}, /* computed by dot products in f32 */
        {1, 36, 44, 2300, true, .alpha = 1},        /* several K blocks */
    };
    for (int i = 0; i < COUNT(list); i++) {
        const rounded_case *p = &list[i];
        ct_context *context = rounding_context(isa, 1 + i % 2, CT_MATMUL_BF16);
        operands o = operands_of(p);
        const int64_t count = p->batch * p->m * p->n;
        float *before = malloc((size_t)count * sizeof *before);
        memcpy(before, o.c, (size_t)count * sizeof *before);
        rounded_multiply(context, p, &o, o.c);
        int rounded = 0; /* elements that differ from the product of unrounded operands */
        for (int64_t at = 0; at < count; at++) {
            const int64_t item = at / p->m / p->n, m = at / p->n % p->m, n = at % p->n;
            double sum = 0, bound = 0, exact = 0;
            for (int64_t k = 0; k < p->k; k++) {
                const float a = *element(&o.ma, item, m, k), b = *element(&o.mb, item, k, n);
                const double term = (double)nearest_bf16(a) * (double)nearest_bf16(b);
                sum += term;
                bound += fabs(term);
                exact += (double)a * (double)b;
            }
            float *c = element(&o.mc, item, m, n);
            const double base = p->add ? (double)before[c - o.c] : p->bias ? (double)o.bias[n] : 0;
            const double error = fabs((double)*c - (base + p->alpha * sum));
            const double most =
                (4 + sqrt((double)p->k)) * 0x1p-24 * (fabs(p->alpha) * bound + fabs(base));
            ck_assert_msg(error <= most, "%s: case %d, (%d, %d, %d): error %g, not %g", isa->name,
                          i, (int)item, (int)m, (int)n, error, most);
            rounded += fabs((double)*c - (base + p->alpha * exact)) > 2 * most;
        }
        ck_assert_msg(rounded > count / 8, "%s: case %d is not rounded", isa->name, i);
        operands_free(&o);
        free(before);
        ct_context_free(context);
    }
}

/* Checks that any number of threads and any cache give the same bits: blocked, split-K, with B
 * shared or not. */
static void check_threads(const rounding_isa *isa, ct_matmul_precision precision) {
    static const rounded_case list[] = {
        {1, 150, 170, 300, .add = true, .alpha = 0.7},
        {1, 70, 50, 2600, true, .alpha = 1}, /* split-K */
        {1, 70, 50, 2100, true, .bias = true, .alpha = 1},
        {1, 700, 90, 140, false, true, .alpha = 1},
        {3, 70, 130, 65, true, true, .alpha = 1},
        {1, 33, 600, 40, false, false, true, .alpha = 1},
    };
    for (int i = 0; i < COUNT(list); i++) {
        const rounded_case *p = &list[i];
        operands o = operands_of(p);
        const size_t bytes = (size_t)(p->batch * p->m * p->n) * sizeof(float);
        float *first = malloc(bytes), *c = malloc(bytes);
        for (int threads = 1; threads <= 16; threads += threads < 3 ? 1 : 13) {
            ct_context *context = rounding_context(isa, threads, precision);
            context->l2_bytes = (int64_t)(64 << 10) << threads % 5;
            context->l1d_ways = threads % 2 ? 8 : 12;
            float *to = threads == 1 ? first : c;
            memcpy(to, o.c, bytes);
            rounded_multiply(context, p, &o, to);
            ck_assert_msg(!memcmp(first, to, bytes), "%s: %d threads change case %d", isa->name,
                          threads, i);
            ct_context_free(context);
        }
        free(first);
        free(c);
        operands_free(&o);
    }
}

/* Checks that infinities and NaN appear in the same elements as in f32, and that large numbers stay
 * finite. */
static void check_not_finite(const rounding_isa *isa, ct_matmul_precision precision) {
    const rounded_case p = {1, 70, 75, 66, .alpha = 1};
    ct_context *context = rounding_context(isa, 1, precision);
    operands o = operands_of(&p);
    for (int64_t i = 0; i < p.m * p.k; i++) o.a[i] = fabsf(o.a[i]) + 0.5f;
    for (int64_t i = 0; i < p.k * p.n; i++) o.b[i] = fabsf(o.b[i]) + 0.5f;
    *element(&o.ma, 0, 3, 65) = NAN;
    *element(&o.ma, 0, 40, 0) = INFINITY;
    *element(&o.mb, 0, 64, 74) = -INFINITY;
    *element(&o.mb, 0, 1, 31) = NAN;
    *element(&o.ma, 0, 69, 5) = 0x1p120f;
    rounded_multiply(context, &p, &o, o.c);
    for (int64_t m = 0; m < p.m; m++)
        for (int64_t n = 0; n < p.n; n++) {
            const float c = *element(&o.mc, 0, m, n);
            if (m == 3 || n == 31 || (m == 40 && n == 74)) ck_assert(isnan(c));
            else if (m == 40) ck_assert(c == INFINITY);
            else if (n == 74) ck_assert(c == -INFINITY);
            else if (m == 69) ck_assert(c > 0x1p118f && isfinite(c));
            else ck_assert(c > 16 && c < 150);
        }
    operands_free(&o);
    ct_context_free(context);
}

/* Checks that the products of a batch, and of any part of it, have the same bits as single
 * products. */
static void check_alone(const rounding_isa *isa, ct_matmul_precision precision) {
    static const rounded_case list[] = {{4, 70, 66, 90, .alpha = 1},
                                        {3, 64, 64, 64, false, true, .alpha = 1}, /* small */
                                        {3, 15, 200, 300, true, .alpha = 1},
                                        {4, 40, 130, 55, true, true, .add = true, .alpha = 0.3}};
    for (int i = 0; i < COUNT(list); i++) {
        const rounded_case *p = &list[i];
        ct_context *context = rounding_context(isa, 2, precision);
        operands o = operands_of(p), one = o;
        const size_t bytes = (size_t)(p->batch * p->m * p->n) * sizeof(float);
        float *together = malloc(bytes), *alone = malloc(bytes);
        memcpy(together, o.c, bytes);
        memcpy(alone, o.c, bytes);
        rounded_multiply(context, p, &o, together);
        rounded_case single = *p;
        single.batch = 1;
        for (int64_t item = 0; item < p->batch; item++) {
            one.ma.data = element(&o.ma, item, 0, 0);
            one.mb.data = element(&o.mb, item, 0, 0);
            rounded_multiply(context, &single, &one, alone + item * p->m * p->n);
        }
        ck_assert_msg(!memcmp(together, alone, bytes), "%s: case %d alone has other bits",
                      isa->name, i);
        free(together);
        free(alone);
        operands_free(&o);
        ct_context_free(context);
    }
}

#endif
