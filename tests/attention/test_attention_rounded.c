/* Attention whose products round their operands: near f32's results, forward and backward, for all
 * masks and shapes; the specification's bits; the same bits for any number of threads. */
#include "attention_rounded_check.h"
#include "tests/gemm/bf16_scalar.h"

/* AVX-512's kernels with the rounded products of the specification, and with AVX512-BF16's. */
static int isas(rounding_isa to[2]) {
    if (!cti_isa_find("avx512")) return 0;
    rounding_isa_of(&to[0], "avx512", "the specification", &bf16_scalar, NULL, NULL);
    const cti_isa *fast = cti_isa_find("avx512bf16");
    if (!fast) return 1;
    rounding_isa_of(&to[1], "avx512bf16", "avx512bf16", fast->of[CT_F32]->bf16, NULL, NULL);
    return 2;
}

START_TEST(near_f32) {
    rounding_isa isa[2];
    const int n = isas(isa);
    if (n) check_near_f32(&isa[n - 1]);
}
END_TEST

START_TEST(specification) {
    rounding_isa isa[2];
    if (isas(isa) < 2) return;
    for (int i = 0; i < COUNT(attention_cases); i++) {
        results x = attend(&isa[0].isa, 1, CT_MATMUL_BF16, CT_MATMUL_BF16, &attention_cases[i]);
        results y = attend(&isa[1].isa, 1, CT_MATMUL_BF16, CT_MATMUL_BF16, &attention_cases[i]);
        ck_assert_msg(same_bits(&x, &y), "case %d has not the specification's bits", i);
        results_free(&x);
        results_free(&y);
    }
}
END_TEST

START_TEST(any_threads) {
    rounding_isa isa[2];
    const int n = isas(isa);
    if (n) check_attention_threads(&isa[n - 1]);
}
END_TEST

/* Backward computes forward's scores again, so it rounds as forward has. */
START_TEST(setting_between) {
    rounding_isa isa[2];
    const int n = isas(isa);
    for (int i = 0; i < 7 && n; i++) { /* without weights, whose backward are other ops */
        results all =
            attend(&isa[n - 1].isa, 1, CT_MATMUL_BF16, CT_MATMUL_BF16, &attention_cases[i]);
        results changed =
            attend(&isa[n - 1].isa, 1, CT_MATMUL_BF16, CT_MATMUL_F32, &attention_cases[i]);
        ck_assert_msg(same_bits(&all, &changed), "case %d: a later setting changes its backward",
                      i);
        results_free(&all);
        results_free(&changed);
    }
}
END_TEST

/* The weights that are returned belong to the rounded scores: the sum of each row is 1. */
START_TEST(weights_of_scores) {
    rounding_isa isa[2];
    const int n = isas(isa);
    for (int i = 0; i < COUNT(attention_cases) && n; i++) {
        const attention_case *p = &attention_cases[i];
        if (!p->weights) continue;
        results r = attend(&isa[n - 1].isa, 1, CT_MATMUL_BF16, CT_MATMUL_BF16, p);
        for (int64_t row = 0; row < r.n[5] / p->s; row++) {
            double sum = 0;
            for (int64_t j = 0; j < p->s; j++) sum += (double)r.x[5][row * p->s + j];
            ck_assert_msg(fabs(sum - 1) < 1e-5, "case %d: row %d sums to %.8f", i, (int)row, sum);
        }
        results_free(&r);
    }
}
END_TEST

int main(void) {
    return run_tests("attention with rounded products", NULL, NULL,
                     TESTS(TEST(near_f32), TEST(specification), TEST(any_threads),
                           TEST(setting_between), TEST(weights_of_scores)));
}
