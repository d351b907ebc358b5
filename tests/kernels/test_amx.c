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
    return run_cases("AMX on a model of its tiles",
                     CASES({.name = "products",
                            .tests = TESTS(LOOP(values, packings()), LOOP(not_finite, packings()),
                                           LOOP(alone, packings()), LOOP(attention, packings()),
                                           LOOP(sums_of_terms, packings()))},
                           {.name = "several threads",
                            .tags = "several-threads",
                            .tests = TESTS(LOOP(any_threads, packings()))}));
}
