/* The kernels of AMX (src/kernels/amx.c) on a model of its tiles: so they are tested on every
 * machine. Each test runs with panels packed in plain C, and where the machine has AVX512-BF16 once
 * more with panels packed by it (amx_avx512.c). */
#include "tests/attention/attention_rounded_check.h"
#include "tests/gemm/rounded_check.h"

#include "amx_model.h"

void kernels_of_model(cti_kernels *table);
void kernels_packed_by_avx512(cti_kernels *table);
#define cti_kernels_amx  kernels_of_model
#define CTI_VECTOR_BYTES 0
#include "src/kernels/amx.c"

enum { PLAIN, BY_AVX512 };

static int packings(void) {
    cti_kernels table = {0};
    kernels_packed_by_avx512(&table);
    return table.bf16 && cti_isa_find("avx512bf16") ? BY_AVX512 + 1 : PLAIN + 1;
}

static rounding_isa model_isa(int packing) {
    static rounding_isa isa;
    cti_kernels table = {0};
    (packing == BY_AVX512 ? kernels_packed_by_avx512 : kernels_of_model)(&table);
    rounding_isa_of(&isa, cti_isa_find(NULL)->name, "amx", table.bf16, table.bf16x3, table.bf16x6);
    return isa;
}
#define WITH_MODEL(isa)                                                                            \
    static rounding_isa isa;                                                                       \
    isa = model_isa(_i);                                                                           \
    isa.isa.of[CT_F32] = &isa.f32

START_TEST(values) {
    WITH_MODEL(isa);
    check_values(&isa);
}
END_TEST

START_TEST(any_threads) {
    WITH_MODEL(isa);
    for (int p = CT_MATMUL_BF16X6; p <= CT_MATMUL_BF16; p++)
        check_threads(&isa, (ct_matmul_precision)p);
}
END_TEST

START_TEST(not_finite) {
    WITH_MODEL(isa);
    for (int p = CT_MATMUL_BF16X6; p <= CT_MATMUL_BF16; p++)
        check_not_finite(&isa, (ct_matmul_precision)p);
}
END_TEST

START_TEST(alone) {
    WITH_MODEL(isa);
    for (int p = CT_MATMUL_BF16X6; p <= CT_MATMUL_BF16; p++)
        check_alone(&isa, (ct_matmul_precision)p);
}
END_TEST

/* Where f32's panels of scores are as wide as AMX's tiles of C. */
START_TEST(attention) {
    WITH_MODEL(isa);
    if (isa.f32.gemm->nr != isa.f32.bf16->nr) return;
    check_near_f32(&isa);
    check_attention_threads(&isa);
}
END_TEST

/* ---- panels, and where tiles are stored ---- */

static const cti_gemm_kernels *kernels_of_terms(const rounding_isa *isa, int terms) {
    return terms == 1 ? isa->f32.bf16 : terms == 2 ? isa->f32.bf16x3 : isa->f32.bf16x6;
}

/* Returns where a panel has a term of element k of a line, in numbers of bf16. */
static int64_t place_in_panels(bool is_b, int terms, int64_t k, int64_t line, int64_t at,
                               int term) {
    const int64_t chunks = (k + 31) / 32, chunk = line / 32 * chunks + at / 32, i = at % 32;
    return (chunk * terms + term) * 32 * 32 +
           (is_b ? (i / 2 * 32 + line % 32) * 2 + i % 2 : line % 32 * 32 + i);
}

static void check_panels(const cti_gemm_kernels *kernels, int terms, bool is_b, int64_t lines,
                         int64_t k, int64_t line, int64_t step) {
    const int64_t panels = (lines + 31) / 32, depth = cti_round_up(k, 32),
                  count = panels * 32 * depth * terms;
    ck_assert_int_eq(panels * 32 * cti_gemm_packed(kernels, k), count * (int64_t)sizeof(uint16_t));
    float *x = noise_of(lines * k * 3);
    uint16_t *packed = malloc((size_t)(count + 1) * sizeof *packed);
    packed[count] = 0x1234;
    if (is_b) kernels->pack_b(k, lines, x, step, line, packed);
    else kernels->pack_a(lines, k, x, line, step, packed);
    ck_assert_int_eq(packed[count], 0x1234);
    for (int64_t i = 0; i < panels * 32; i++)
        for (int64_t j = 0; j < depth; j++) {
            float rest = i < lines && j < k ? x[i * line + j * step] : 0;
            for (int t = 0; t < terms; t++) {
                const float term = nearest_bf16(rest);
                ck_assert_msg(bf16_value(packed[place_in_panels(is_b, terms, k, i, j, t)]) == term,
                              "%s, %d terms: %d lines of %d, steps %d and %d: term %d of (%d, %d)",
                              is_b ? "B" : "A", terms, (int)lines, (int)k, (int)line, (int)step, t,
                              (int)i, (int)j);
                rest -= term;
            }
        }
    free(x);
    free(packed);
}

/* A panel has each chunk once for each term, and zeros behind the last line and the last k. */
START_TEST(panels) {
    WITH_MODEL(isa);
    static const int64_t lines[] = {1, 17, 32, 45}, depths[] = {1, 31, 32, 70};
    for (int terms = 1; terms <= 3; terms++)
        for (int i = 0; i < COUNT(lines) * COUNT(depths) * 2; i++) {
            const int64_t n = lines[i / 2 % COUNT(lines)], k = depths[i / 2 / COUNT(lines)];
            const cti_gemm_kernels *kernels = kernels_of_terms(&isa, terms);
            check_panels(kernels, terms, i % 2, n, k, k + 2, 1);
            check_panels(kernels, terms, i % 2, n, k, 1, n + 2);
            check_panels(kernels, terms, i % 2, n, k, 3, 3 * n);
        }
}
END_TEST

enum { TILE_DEPTH = 70, MOST_COLUMNS = 80, GAP = 3, UNTOUCHED = 12345 };

/* Panels of TILE_DEPTH k, one of A and those of MOST_COLUMNS columns of B. */
typedef struct {
    const cti_gemm_kernels *kernels;
    int64_t panel; /* in bytes */
    char *a, *b;
} tile_operands;

static tile_operands tile_operands_of(const cti_gemm_kernels *kernels) {
    const int64_t panel = 32 * cti_gemm_packed(kernels, TILE_DEPTH);
    float *a = noise_of(32 * TILE_DEPTH), *b = noise_of(TILE_DEPTH * MOST_COLUMNS);
    tile_operands o = {kernels, panel, malloc((size_t)panel), malloc(3 * (size_t)panel)};
    kernels->pack_a(32, TILE_DEPTH, a, TILE_DEPTH, 1, o.a);
    kernels->pack_b(TILE_DEPTH, MOST_COLUMNS, b, MOST_COLUMNS, 1, o.b);
    free(a);
    free(b);
    return o;
}

static void tiles_multiply(const tile_operands *o, int64_t m, int64_t n, cti_gemm_params params,
                           const float *base, float *c) {
    params.k = TILE_DEPTH;
    o->kernels->begin();
    o->kernels->macro_kernel(&params, m, n, o->a, o->b, o->panel, base, c);
    o->kernels->end();
}

/* Computes m x n of C between GAPs, with every kind of base, and compares with the sums. */
static void check_stores(const tile_operands *o, int64_t m, int64_t n, double alpha,
                         const float *sums) {
    const int64_t row = n + GAP, size = GAP + m * row;
    static float c[GAP + 32 * (MOST_COLUMNS + GAP)], bias[MOST_COLUMNS];
    enum { NO_BASE, ADD, BIAS };
    for (int kind = NO_BASE; kind <= BIAS; kind++) {
        for (int64_t i = 0; i < size; i++) c[i] = UNTOUCHED;
        for (int64_t j = 0; j < n; j++) bias[j] = noise();
        for (int64_t i = 0; i < m * n; i++) c[GAP + i / n * row + i % n] = bias[i % n];
        const cti_gemm_params params = {
            .row = row, .col = 1, .base_row = kind == ADD ? row : 0, .alpha = alpha};
        tiles_multiply(o, m, n, params,
                       kind == ADD    ? c + GAP
                       : kind == BIAS ? bias
                                      : NULL,
                       c + GAP);
        for (int64_t i = 0; i < size; i++) {
            const int64_t at = i - GAP, line = at / row, column = at % row;
            if (at < 0 || column >= n) {
                ck_assert_msg(c[i] == UNTOUCHED, "%d x %d: written outside of C", (int)m, (int)n);
                continue;
            }
            const float product = (float)alpha * sums[line * n + column];
            const float sum = bias[column] + product, expected = kind == NO_BASE ? product : sum;
            ck_assert_msg(c[i] == expected,
                          "%d x %d, base %d, alpha %g: (%d, %d) is %.9g, not %.9g", (int)m, (int)n,
                          kind, alpha, (int)line, (int)column, (double)c[i], (double)expected);
        }
    }
}

/* Whole tiles are stored to C, and others through a buffer, with the same bits; none writes outside
 * of C. The sums to compare with are those of a C whose columns are apart, which no tile fits. */
START_TEST(stores) {
    WITH_MODEL(isa);
    static const int64_t rows[] = {1, 15, 16, 17, 31, 32}, columns[] = {1, 16, 17, 31, 32, 48, 80};
    for (int terms = 1; terms <= 3; terms++) {
        tile_operands o = tile_operands_of(kernels_of_terms(&isa, terms));
        for (int i = 0; i < COUNT(rows) * COUNT(columns); i++) {
            const int64_t m = rows[i % COUNT(rows)], n = columns[i / COUNT(rows)];
            static float apart[32 * MOST_COLUMNS * 2], sums[32 * MOST_COLUMNS];
            tiles_multiply(&o, m, n, (cti_gemm_params){.row = 2 * n, .col = 2, .alpha = 1}, NULL,
                           apart);
            for (int64_t j = 0; j < m * n; j++) sums[j] = apart[2 * j];
            check_stores(&o, m, n, 1, sums);
            check_stores(&o, m, n, -0.7, sums);
        }
        free(o.a);
        free(o.b);
    }
}
END_TEST

/* The least magnitude is of the numbers that are not 0. */
START_TEST(magnitudes) {
    WITH_MODEL(isa);
    static float x[3 * 70];
    for (int n = 0; n <= 70; n++)
        for (int step = 1; step <= 3; step += 2) {
            uint32_t least = UINT32_MAX, most = 0;
            memset(x, 0, sizeof x);
            isa.f32.bf16x3->magnitudes(n, x, step, &least, &most);
            ck_assert(least == UINT32_MAX && most == 0);
            float low = INFINITY, high = 0;
            for (int i = 0; i < n * step; i++) {
                x[i] = i % 4 == 1 ? -0.0f : ldexpf(noise(), (int)(random_bits() % 200) - 100);
                if (i % step || x[i] == 0) continue;
                low = fminf(low, fabsf(x[i]));
                high = fmaxf(high, fabsf(x[i]));
            }
            isa.f32.bf16x3->magnitudes(n, x, step, &least, &most);
            float bits[2];
            memcpy(&bits[0], &least, sizeof least);
            memcpy(&bits[1], &most, sizeof most);
            ck_assert(high == bits[1] && (high == 0 ? least == UINT32_MAX : low == bits[0]));
        }
}
END_TEST

/* ---- how exact terms are ---- */

enum { SIZE = 72, DEPTH = 200 };

/* Fills A (SIZE, DEPTH) and B (DEPTH, SIZE). */
static void fill(int kind, float *a, float *b) {
    for (int i = 0; i < SIZE * DEPTH; i++) a[i] = noise(), b[i] = noise();
    for (int i = 0; i < SIZE * DEPTH; i++) {
        const int row = i / DEPTH, col = i % SIZE, of_a = i % DEPTH, of_b = i / SIZE;
        switch (kind) {
        case 0: break;                                                               /* random */
        case 1: a[i] = ldexpf(a[i], -row / 2), b[i] = ldexpf(b[i], -col / 2); break; /* graded */
        case 2: /* cancelling */
            if (of_a % 2) a[i] = -a[i - 1] * (1 + 0x1p-12f);
            if (of_b % 2) b[i] = b[i - SIZE];
            break;
        case 3: a[i] = ldexpf(a[i], -130), b[i] = ldexpf(b[i], 20); break;  /* subnormal */
        case 4: a[i] = ldexpf(a[i], 60), b[i] = ldexpf(b[i], 58); break;    /* huge */
        case 5: a[i] = ldexpf(a[i], (int)(random_bits() % 40) - 20); break; /* mixed */
        }
    }
}

/* The worst and the mean error of a product, in units of 2^-24 of the sum of |a b|. */
typedef struct {
    double worst, mean;
} errors;

static errors errors_of(const rounding_isa *isa, ct_matmul_precision precision, int64_t k,
                        const float *a, const float *b) {
    ct_context *c = rounding_context(isa, 1, precision);
    static float y[SIZE * SIZE];
    ck_assert(cti_gemm(
        c, &(cti_gemm_args){.batch = 1,
                            .m = SIZE,
                            .n = SIZE,
                            .k = k,
                            .alpha = 1,
                            .a = {.data = (void *)a, .row = DEPTH, .col = 1, .dtype = CT_F32},
                            .b = {.data = (void *)b, .row = SIZE, .col = 1, .dtype = CT_F32},
                            .c = {.data = y, .row = SIZE, .col = 1, .dtype = CT_F32}}));
    errors e = {0, 0};
    for (int i = 0; i < SIZE; i++)
        for (int j = 0; j < SIZE; j++) {
            double sum = 0, bound = 0;
            for (int64_t p = 0; p < k; p++) {
                const double term = (double)a[i * DEPTH + p] * (double)b[p * SIZE + j];
                sum += term;
                bound += fabs(term);
            }
            const double error = fabs((double)y[i * SIZE + j] - sum) / bound * 0x1p24;
            if (error > e.worst) e.worst = error; /* GCC 12 for aarch64 crashes on fmax here */
            e.mean += error / (SIZE * SIZE);
        }
    ct_context_free(c);
    return e;
}

/* Sums of six products are as exact as f32 in the mean, and off by at most one unit if the sum
 * cancels; sums of three are exact to some 2^-16. If the range of the numbers forbids terms, both
 * are computed in f32. */
START_TEST(sums_of_terms) {
    static float a[SIZE * DEPTH], b[SIZE * DEPTH];
    static const char *const names[] = {"random",    "graded", "cancelling",
                                        "subnormal", "huge",   "mixed"};
    WITH_MODEL(isa);
    for (int kind = 0; kind < COUNT(names); kind++)
        for (int64_t k = 64; k <= DEPTH; k += 136) {
            fill(kind, a, b);
            const errors f32 = errors_of(&isa, CT_MATMUL_F32, k, a, b);
            const errors x6 = errors_of(&isa, CT_MATMUL_BF16X6, k, a, b);
            const errors x3 = errors_of(&isa, CT_MATMUL_BF16X3, k, a, b);
            ck_assert_msg(x6.worst <= fmax(f32.worst, 1) && x6.mean <= f32.mean,
                          "%s, K %d: X6 is %g off, %g in the mean, f32 %g and %g", names[kind],
                          (int)k, x6.worst, x6.mean, f32.worst, f32.mean);
            ck_assert_msg(x3.worst <= 256, "%s: X3 is %g off", names[kind], x3.worst);
            if (kind == 3) ck_assert(x6.worst == f32.worst && x3.worst == f32.worst);
            else ck_assert(x3.worst > 4 * x6.worst);
        }
}
END_TEST

int main(void) {
    return run_cases(
        "AMX on a model of its tiles",
        CASES({.name = "products",
               .tests = TESTS(LOOP(values, packings()), LOOP(not_finite, packings()),
                              LOOP(alone, packings()), LOOP(attention, packings()),
                              LOOP(sums_of_terms, packings()), LOOP(panels, packings()),
                              LOOP(stores, packings()), LOOP(magnitudes, packings()))},
              {.name = "several threads",
               .tags = "several-threads",
               .tests = TESTS(LOOP(any_threads, packings()))}));
}
