/* The fingerprint of the kernels' bits. The bits of an exp or a sum depend on the instruction set,
 * on the compiler, which may compute a b + c by one instruction, on its flags, and on the C
 * library. A name made of all these would differ between builds whose bits are equal. So every
 * kernel that rounds runs on fixed numbers, which fill some vectors and a part of one, and the
 * results are hashed. Two contexts with equal fingerprints have the same bits, except for
 * differences that none of these numbers shows. Every NaN is hashed as the same number, because its
 * sign and payload are not part of a result.
 *
 * Kernels with the same signature are in one list. Kernels that only move, compare or choose
 * numbers are left out, except for those in the lists of src/kernels/unary.h. */
#include "kernel_bits.h"
#include "../kernels/attention_kernels.h"
#include "../kernels/elementwise.h"
#include "../kernels/products.h"
#include "../kernels/random.h"
#include "../kernels/rows.h"
#include "../kernels/unary.h"

#include <math.h>
#include <string.h>

#include "../kernels/libm.h"

enum {
    N = 83,
    PROBE_ROWS = 3,
    ROOM = 400
}; /* the elements of an input, the rows of an input, the elements of a result */

typedef struct {
    const cti_kernels *k;
    size_t size;                              /* the bytes of an element: 4 or 8 */
    double a[N], b[N], positive[N], small[N]; /* inputs, in the dtype of the kernels */
    double one[ROOM], two[ROOM], three[N];    /* results, in this dtype */
    uint64_t hash;
} bits_probe;

/* ---- the inputs, and the hash of the results ---- */

static void put_probe_number(const bits_probe *p, void *array, int64_t i, double value) {
    const float narrow = (float)value;
    if (p->size == sizeof narrow) memcpy((char *)array + i * 4, &narrow, sizeof narrow);
    else memcpy((char *)array + i * 8, &value, sizeof value);
}

static void copy_number(const bits_probe *p, void *array, int64_t i, const void *from, int64_t j) {
    memcpy((char *)array + (size_t)i * p->size, (const char *)from + (size_t)j * p->size, p->size);
}

/* The next sixteen bits of a linear congruential generator. */
static double next_number(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 16);
}

static void fill_inputs(bits_probe *p, uint32_t seed) {
    uint32_t state = seed;
    for (int64_t i = 0; i < N; i++) {
        put_probe_number(p, p->a, i, next_number(&state) / 8000 - 4);
        put_probe_number(p, p->b, i, next_number(&state) / 16000 - 2);
        put_probe_number(p, p->positive, i, (next_number(&state) + 1) / 66000);
        put_probe_number(p, p->small, i,
                         next_number(&state) * (p->size == 4 ? 0x1p-145 : 0x1p-1070));
    }
    put_probe_number(p, p->a, 7, 40); /* large numbers, at which most functions are saturated */
    put_probe_number(p, p->a, 8, -100);
}

static void zero_results(bits_probe *p) {
    memset(p->one, 0, sizeof p->one);
    memset(p->two, 0, sizeof p->two);
    memset(p->three, 0, sizeof p->three);
}

static void hash_word(bits_probe *p, uint64_t word) {
    p->hash = (p->hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    p->hash ^= p->hash >> 29;
}

static void hash_double(bits_probe *p, double value) {
    uint64_t word = 1;
    if (!isnan(value)) memcpy(&word, &value, sizeof word);
    hash_word(p, word);
}

static void hash_elements(bits_probe *p, const void *array, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        float narrow = 0;
        double wide = 0;
        if (p->size == sizeof narrow) memcpy(&narrow, (const char *)array + i * 4, sizeof narrow);
        else memcpy(&wide, (const char *)array + i * 8, sizeof wide);
        hash_double(p, p->size == sizeof narrow ? (double)narrow : wide);
    }
}
static void hash_one(bits_probe *p, int64_t n) { hash_elements(p, p->one, n); }
static void hash_two(bits_probe *p, int64_t n) { hash_elements(p, p->two, n); }
static void hash_three(bits_probe *p, int64_t n) { hash_elements(p, p->three, n); }

/* ---- elementwise ---- */

static void probe_unary(bits_probe *p) {
    const cti_kernels *k = p->k;
#define PROBE_NONE(...)
#define PROBE_VALUE(name, ...) k->unary->name,
#define PROBE_SLOPE(name, ...) k->unary->name##_backward,
#define PROBE_BOTH(name)       k->unary->name##_both,
    cti_unary *const f[] = {CTI_UNARY_KERNELS(PROBE_VALUE, PROBE_VALUE, PROBE_VALUE, PROBE_VALUE)
                                k->rows->entropy_slope};
    cti_unary_backward *const d[] = {
        CTI_UNARY_KERNELS(PROBE_NONE, PROBE_SLOPE, PROBE_SLOPE, PROBE_SLOPE)};
    cti_unary_both *const both[] = {CTI_BOTH_KERNELS(PROBE_BOTH)};
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        f[i](N, p->a, p->one), hash_one(p, N);
        f[i](N, p->positive, p->one), hash_one(p, N);
        f[i](N, p->small, p->one), hash_one(p, N);
    }
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) d[i](N, p->a, p->b, p->one), hash_one(p, N);
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
        both[i](N, p->a, p->b, p->one, p->two), hash_one(p, N), hash_two(p, N);
}

/* The kernels of an array and a number. */
static void probe_scalar(bits_probe *p) {
    const cti_kernels *k = p->k;
    cti_unary_scalar *const f[] = {CTI_SCALAR_KERNELS(PROBE_VALUE, PROBE_VALUE, PROBE_VALUE)};
    cti_unary_scalar_backward *const d[] = {
        CTI_SCALAR_KERNELS(PROBE_NONE, PROBE_SLOPE, PROBE_SLOPE)};
    cti_unary_scalar_both *const both[] = {CTI_SCALAR_BOTH_KERNELS(PROBE_BOTH)};
    for (double e = -1.5; e < 4; e += 0.5) {
        for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
            f[i](N, p->a, e, p->one), hash_one(p, N);
            f[i](N, p->positive, e, p->one), hash_one(p, N);
        }
        for (size_t i = 0; i < sizeof d / sizeof *d; i++)
            d[i](N, p->a, e, p->b, p->one), hash_one(p, N);
        for (size_t i = 0; i < sizeof both / sizeof *both; i++)
            both[i](N, p->a, e, p->b, p->one, p->two), hash_one(p, N), hash_two(p, N);
    }
}

static void probe_binary(bits_probe *p) {
    const cti_kernels *k = p->k;
    cti_binary *const f[] = {k->elementwise->add, k->elementwise->sub, k->elementwise->mul,
                             k->elementwise->div, k->rows->kl_div,     k->rows->kl_div_log};
    for (size_t i = 0; i < sizeof f / sizeof *f; i++)
        for (int step = 0; step < 2; step++) {
            f[i](N, p->a, 1, p->positive, step, p->one);
            hash_one(p, N);
        }
    k->elementwise->mul(N, p->small, 1, p->positive, 1, p->one);
    hash_one(p, N);
    for (double e = -1.5; e < 4; e += 0.5) {
        memcpy(p->one, p->b, sizeof p->b);
        k->elementwise->axpy(N, 0.3 * e, p->a, p->one), hash_one(p, N);
        k->elementwise->lerp(N, p->a, p->b, 1, 0.3 * e, p->one), hash_one(p, N);
        k->elementwise->arange(N, 3, 0.1, e, p->one), hash_one(p, N);
    }
    k->rows->bce(N, p->a, p->positive, p->b, 1, p->one), hash_one(p, N);
    k->rows->bce_backward(&(cti_bce_backward){.n = N,
                                              .x = p->a,
                                              .t = p->positive,
                                              .w = p->b,
                                              .g = p->b,
                                              .w_step = 1,
                                              .g_step = 1,
                                              .scale = 0.3,
                                              .dx = p->one,
                                              .dt = p->two});
    hash_one(p, N), hash_two(p, N);
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        k->rows->rope(N - 1, p->a, p->b, p->positive, interleaved, 1, p->one);
        hash_one(p, N - 1);
    }
}

/* ---- rows and columns ---- */

/* The N elements are one row, PROBE_ROWS rows, or INNER columns that lie side by side. */

static void probe_sums(bits_probe *p) {
    enum { INNER = 7, LONG = N / INNER };
    const cti_row_kernels *k = p->k->rows;
    double mean[INNER], squares[INNER];
    k->sum(N, 1, p->a, 1, p->one), hash_one(p, 1);
    k->sum(LONG, INNER, p->a, INNER, p->one), hash_one(p, INNER);
    k->sum_rows(PROBE_ROWS, N / PROBE_ROWS, p->a, p->one), hash_one(p, PROBE_ROWS);
    k->cumsum(LONG, INNER, p->a, INNER, false, p->one), hash_one(p, LONG * INNER);
    k->cumsum(N, 1, p->a, 1, true, p->one), hash_one(p, N);
    k->moments(LONG, INNER, p->a, INNER, mean, squares);
    for (int i = 0; i < INNER; i++) hash_double(p, mean[i]), hash_double(p, squares[i]);
    k->var_backward(LONG, INNER, p->a, INNER, mean, p->b, 0.3, p->one);
    hash_one(p, LONG * INNER);
    k->moments(N, 1, p->a, 1, mean, squares), hash_double(p, *mean), hash_double(p, *squares);
    hash_double(p, k->sum_squares(N, p->a));
    hash_double(p, k->weighted_gap(N, p->a, p->b, 5));
    k->softmax_columns(LONG, INNER, p->a, INNER, p->one), hash_one(p, LONG * INNER);
    k->softmax_columns_backward(LONG, INNER, p->a, p->b, INNER, p->one);
    hash_one(p, LONG * INNER);
}

static void probe_softmax(bits_probe *p) {
    const cti_row_kernels *k = p->k->rows;
    const int64_t target[PROBE_ROWS] = {2, 0, 7}, n = N / PROBE_ROWS;
    bool keep[N];
    for (int i = 0; i < N; i++) keep[i] = i % 5 != 2;
    k->softmax(N, p->a, p->one), hash_one(p, N);
    k->softmax(5, p->a, p->one), hash_one(p, 5);
    k->log_softmax(N, p->a, p->one), hash_one(p, N);
    k->softmax_backward(N, p->positive, p->b, p->one), hash_one(p, N);
    k->log_softmax_backward(N, p->a, p->b, p->one), hash_one(p, N);
    k->masked_softmax(N, p->a, keep, 1, p->one), hash_one(p, N);
    k->logsumexp(PROBE_ROWS, n, p->a, p->one, p->two, p->three);
    hash_one(p, PROBE_ROWS), hash_two(p, PROBE_ROWS), hash_three(p, PROBE_ROWS);
    k->logsumexp_backward(n, p->a, p->two, p->three, p->b, p->one), hash_one(p, n);
    k->cross_entropy(PROBE_ROWS, n, p->a, target, 0.1, p->one, p->two, p->three);
    hash_one(p, PROBE_ROWS), hash_two(p, PROBE_ROWS), hash_three(p, PROBE_ROWS);
    const cti_loss_factors factors = {
        .scale = 0.7, .softmax = 1, .more = 0.3, .target = 0.9, .each = 0.01};
    k->cross_entropy_backward(n, p->a, 4, p->two, p->three, &factors, p->one), hash_one(p, n);
}

/* Runs with few long rows and with many short rows, for which norms have different code. */
static void probe_norms(bits_probe *p) {
    const cti_row_kernels *k = p->k->rows;
    for (int64_t rows = 1; rows <= 20; rows = 3 * rows + 1) {
        const int64_t n = N / rows;
        zero_results(p);
        void *dw = p->two, *db = (char *)p->two + N * p->size, *mean = p->three,
             *rstd = (char *)p->three + (size_t)rows * p->size;
        const cti_norm forward = {.rows = rows,
                                  .n = n,
                                  .x = p->a,
                                  .w = p->b,
                                  .b = p->positive,
                                  .eps = 1e-5,
                                  .y = p->one,
                                  .mean = mean,
                                  .rstd = rstd};
        cti_norm_backward backward = {.rows = rows,
                                      .n = n,
                                      .x = p->a,
                                      .w = p->b,
                                      .g = p->positive,
                                      .mean = mean,
                                      .rstd = rstd,
                                      .base = p->b,
                                      .dx = p->one,
                                      .dw = dw,
                                      .db = db};
        k->layer_norm(&forward);
        hash_one(p, rows * n), hash_three(p, 2 * rows);
        k->layer_norm_backward(&backward);
        hash_one(p, rows * n), hash_two(p, N + n);
        k->rms_norm(&forward), hash_one(p, rows * n);
        backward.base = NULL;
        k->rms_norm_backward(&backward);
        hash_one(p, rows * n), hash_two(p, n);
    }
}

/* ---- the rest ---- */

static void probe_updates(bits_probe *p) {
    const cti_kernels *k = p->k;
    const cti_random stream = {42, 7};
    k->random->uniform(N, 5, stream, -1, 3, p->one), hash_one(p, N);
    k->random->normal(N, 5, stream, 1, 2, p->one), hash_one(p, N);
    k->random->dropout(N, 5, stream, 0.3, p->a, p->one), hash_one(p, N);
    for (int kind = 0; kind < 2; kind++) {
        const cti_adam_numbers adam = {.lr = 0.01,
                                       .beta1 = 0.9,
                                       .beta2 = 0.99,
                                       .eps = 1e-8,
                                       .weight_decay = 0.1,
                                       .bias1 = 0.19,
                                       .bias2 = 0.0199,
                                       .grad_scale = 0.7,
                                       .decoupled = kind};
        const cti_sgd_numbers sgd = {.lr = 0.01,
                                     .momentum = 0.9,
                                     .dampening = kind ? 0 : 0.3,
                                     .weight_decay = 0.1,
                                     .grad_scale = 0.7,
                                     .nesterov = kind};
        memcpy(p->one, p->a, sizeof p->a), memcpy(p->two, p->b, sizeof p->b);
        memcpy(p->three, p->positive, sizeof p->positive);
        k->elementwise->adam(N, p->one, p->b, p->two, p->three, &adam);
        hash_one(p, N), hash_two(p, N), hash_three(p, N);
        k->elementwise->sgd(N, p->one, p->a, p->two, &sgd), hash_one(p, N), hash_two(p, N);
        k->elementwise->round(N, p->two, kind, 3, p->three), hash_three(p, N / 4);
    }
}

/* Computes a product of M rows and nr columns by each kernel that sums: packed, dots and gemv. */
static void probe_gemm(bits_probe *p, const cti_gemm_kernels *g) {
    enum { M = 3, K = 20, MOST_NR = 64, MOST_MR = 32, MOST_PACKED = 8 * (K + 12) };
    _Static_assert(M * MOST_NR <= ROOM && K * M <= N, "C and A fit");
    const int64_t nr = g->nr, panel = cti_gemm_packed(g, K),
                  /* the numbers that decide the order of sums */
        order[] = {g->kc,
                   g->k_unit,
                   g->tuning.dots_max_m,
                   g->tuning.dots_k_per_m,
                   g->tuning.split_k_c_bytes,
                   g->tuning.rounded_lines,
                   g->tuning.rounded_flops};
    double a[MOST_MR * MOST_PACKED / 8] = {0}, b[MOST_NR * MOST_PACKED / 8] = {0},
                                     whole[K * MOST_NR];
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) hash_word(p, (uint64_t)order[i]);
    if (nr > MOST_NR || g->mr > MOST_MR || panel > MOST_PACKED) return;
    for (int64_t i = 0; i < K * nr; i++) copy_number(p, whole, i, p->b, (i * 7 + i / N) % N);
    g->pack_a(M, K, p->a, K, 1, a);
    g->pack_b(K, nr, whole, nr, 1, b);
    const cti_gemm_params packed = {
        .k = K, .a_row = 1, .a_col = g->mr, .b_row = nr, .row = nr, .col = 1, .alpha = 0.7};
    if (g->begin) g->begin();
    g->macro_kernel(&packed, M, nr, a, b, panel * nr, NULL, p->one);
    if (g->end) g->end();
    hash_one(p, M * nr);
    if (!g->dots) return;
    cti_gemm_rows dots = {.m = M,
                          .n = M,
                          .k = K,
                          .a_row = K,
                          .a_col = 1,
                          .b_row = 1,
                          .b_col = K,
                          .row = M,
                          .col = 1,
                          .a = p->a,
                          .b = p->a,
                          .c = p->one,
                          .alpha = 0.7};
    cti_gemm_rows gemv = {.m = 1,
                          .n = nr,
                          .k = K,
                          .a_row = K,
                          .a_col = 1,
                          .b_row = nr,
                          .b_col = 1,
                          .row = nr,
                          .col = 1,
                          .a = p->a,
                          .b = whole,
                          .c = p->one,
                          .alpha = 0.7};
    g->dots(&dots), hash_one(p, M * M);
    g->gemv(&gemv), hash_one(p, nr);
}

static void probe_attention(bits_probe *p) {
    enum { KEYS = 5, D = 3, DOTS = 6, MOST_WIDTH = 64 };
    _Static_assert(KEYS * MOST_WIDTH <= ROOM && (int)MOST_WIDTH <= (int)N, "panels fit");
    const cti_attention_kernels *a = p->k->attention;
    const int64_t width = p->k->gemm->nr;
    double max[MOST_WIDTH] = {0}, sum[MOST_WIDTH] = {0}, y[MOST_WIDTH * D];
    if (width > MOST_WIDTH) return;
    zero_results(p);
    for (int64_t i = 0; i < KEYS * width; i++) copy_number(p, p->one, i, p->a, i * 5 % N);
    for (int64_t i = 0; i < width; i++) put_probe_number(p, max, i, -INFINITY);
    a->add_bias(KEYS, width, p->one, p->b, 0);
    a->online_softmax_update(KEYS, width, p->one, max, sum, D, p->two);
    hash_one(p, KEYS * width), hash_elements(p, sum, width);
    for (int64_t i = 0; i < width * D; i++) put_probe_number(p, p->two, i, (double)i / 16 - 1);
    a->online_softmax_finalize(width, D, max, sum, p->two, y, D);
    hash_elements(p, y, width * D), hash_elements(p, sum, width);
    a->row_dots(DOTS, D, p->a, D, p->b, D, y), hash_elements(p, y, DOTS);
    a->softmax_from_stats(1, width, p->one, max, sum, 0.7), hash_one(p, width);
    a->softmax_backward(1, width, p->a, p->b, max, sum, p->positive, p->two, width);
    hash_two(p, width);
}

/* Runs the functions of the C library that the ops and optimisers call: for schedules, angles and
 * corrections of moments. */
static void probe_library(bits_probe *p) {
    for (int i = 1; i < N; i++) {
        volatile double x = 0.013 * i; /* the compiler cannot compute these values itself */
        hash_double(p, cti_libm_pow(x, 1.7)), hash_double(p, pow(0.999, 10 * x));
        hash_double(p, sin(9 * x)), hash_double(p, cos(9 * x));
        hash_double(p, exp(x)), hash_double(p, log(x));
    }
}

/* ---- all of them ---- */

uint64_t cti_fingerprint(const cti_isa *isa, const cti_gemm_kernels *rounded) {
    bits_probe p = {.hash = UINT64_C(0xcbf29ce484222325)};
    for (int wide = 0; wide < 2; wide++) {
        p.k = isa->of[wide];
        p.size = wide ? sizeof(double) : sizeof(float);
        zero_results(&p);
        /* A function or a sum has an error of an ulp or two in every build, so two builds differ in
         * only few values. The numbers of eight seeds make it likely that one of these values is
         * among them. */
        for (uint32_t seed = 1; seed <= 8; seed++) {
            fill_inputs(&p, seed);
            probe_unary(&p);
            probe_sums(&p);
            probe_softmax(&p);
        }
        probe_scalar(&p);
        probe_binary(&p);
        probe_norms(&p);
        probe_updates(&p);
        probe_gemm(&p, p.k->gemm);
        if (rounded && !wide) probe_gemm(&p, rounded);
        probe_attention(&p);
    }
    probe_library(&p);
    return p.hash;
}

#define TEXT_OF(x) #x
#define VERSION(x) TEXT_OF(x)
#if defined __clang__
#define COMPILER "clang " VERSION(__clang_major__) "." VERSION(__clang_minor__)
#elif defined __GNUC__
#define COMPILER "GCC " VERSION(__GNUC__) "." VERSION(__GNUC_MINOR__)
#else
#define COMPILER "another compiler"
#endif

/* The Makefile defines this: the build's option -O. */
#ifndef CTI_OPTIMISED
#ifdef __OPTIMIZE__
#define CTI_OPTIMISED "optimised"
#else
#define CTI_OPTIMISED "not optimised"
#endif
#endif

const char *cti_build(void) { return COMPILER ", " CTI_OPTIMISED; }
