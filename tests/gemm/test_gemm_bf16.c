/* Products with A, B or both in bf16 against the same numbers in f32, bit for bit: every
 * instruction set, layout, number of threads and precision, a batch of matrices or one for all. */
#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

#include "src/core/context.h"
#include "src/gemm/gemm.h"
#include "src/kernels/half.h"

enum { BATCH = 3, A = 0, B = 1, NUMBERS = BATCH * 70 * 320 };

static uint16_t narrow[2][NUMBERS];
static float wide[2][NUMBERS], got[NUMBERS], expected[NUMBERS];

static void fill(void) {
    for (int side = A; side <= B; side++) {
        for (int i = 0; i < NUMBERS; i++) {
            narrow[side][i] = cti_bf16_of_f32((float)sin(i * 0.7 + side));
            const uint32_t bits = cti_bf16_widen(narrow[side][i]);
            memcpy(&wide[side][i], &bits, sizeof bits);
        }
    }
}

/* rows x cols, dense along one of them, with a gap behind each row or column. */
static cti_matrix laid_out(void *data, ct_dtype dtype, int64_t rows, int64_t cols, bool by_columns,
                           bool batched) {
    const int64_t step = (by_columns ? rows : cols) + 3;
    return (cti_matrix){.data = data,
                        .row = by_columns ? 1 : step,
                        .col = by_columns ? step : 1,
                        .batch = batched ? step * (by_columns ? cols : rows) : 0,
                        .dtype = dtype};
}

/* One product; bits 0 to 3 of how: A by columns, A batched, B by columns, B batched. */
static bool multiply(ct_context *context, const int64_t size[3], int how, bool bf16_a, bool bf16_b,
                     float *c) {
    const int64_t m = size[0], n = size[1], k = size[2];
    cti_gemm_args g = {.batch = BATCH, .m = m, .n = n, .k = k, .alpha = 0.5};
    g.a = bf16_a ? laid_out(narrow[A], CT_BF16, m, k, how & 1, how & 2)
                 : laid_out(wide[A], CT_F32, m, k, how & 1, how & 2);
    g.b = bf16_b ? laid_out(narrow[B], CT_BF16, k, n, how & 4, how & 8)
                 : laid_out(wide[B], CT_F32, k, n, how & 4, how & 8);
    g.c = laid_out(c, CT_F32, m, n, false, true);
    memset(c, 0, sizeof got);
    return cti_gemm(context, &g);
}

static void all_products(ct_context *context) {
    static const int64_t size[][3] = {{1, 70, 40},  {5, 33, 300}, {17, 1, 9},   {40, 130, 64},
                                      {2, 257, 31}, {33, 20, 0},  {19, 70, 299}};
    for (int i = 0; i < 7 * 16; i++) {
        ck_assert(multiply(context, size[i % 7], i / 7, false, false, expected));
        for (int which = 1; which < 4; which++) {
            ck_assert(multiply(context, size[i % 7], i / 7, which & 1, which & 2, got));
            ck_assert_msg(!memcmp(got, expected, sizeof got),
                          "%s, product %d, layout %d, bf16 in %s%s", context->isa->name, i % 7,
                          i / 7, which & 1 ? "A" : "", which & 2 ? "B" : "");
        }
    }
}

START_TEST(bits_of_f32) {
    fill();
    for (int isa = 0; cti_isa_at(isa); isa++) {
        for (int threads = 1; threads <= 2; threads++) {
            ct_context *context =
                ct_context_new((ct_context_opts){.threads = threads, .isa = cti_isa_at(isa)->name});
            all_products(context);
            ck_assert(ct_set_matmul(context, CT_MATMUL_BF16));
            all_products(context);
            ct_context_free(context);
        }
    }
}
END_TEST

int main(void) { return run_tests("gemm_bf16", NULL, NULL, TESTS(TEST(bits_of_f32))); }
