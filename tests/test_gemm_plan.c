/* The plans of products as a table: what is asked, of which machine, and the plan in words. No
 * product is computed here. Rows of an instruction set that this machine lacks are skipped. */
#include "suite.h"
#include <stdio.h>
#include <string.h>

#include "../src/gemm/gemm_plan.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* What else is asked: alpha 0.5, a bias, a call for each complete tile. */
enum { ALPHA = 1, BIAS = 2, APPLY = 4 };

typedef struct {
    const char *isa;
    ct_dtype type;
    const char *abc; /* how A, B and C are stored: N by rows, T by columns */
    int64_t m, k, n, batch;
    int64_t l2_kb, ways;
    int threads, more;
    const char *plan;
} row;

/* clang-format off */
static const row table[] = {
    /* isa     type    abc     m     k     n  batch   L2  ways threads */
    /* no sum; a row, a column; few rows with A and B dense along K */
    {"scalar", CT_F32, "NNN",     3,    0,     5,   1,  1024,   8, 1, 0, "zero"},
    {"scalar", CT_F32, "NNN",     3,    0,     5,   1,  1024,   8, 1, BIAS, "zero, bias first"},
    {"scalar", CT_F32, "NNN",     1,  500,  1100,   3,  1024,   8, 1, 0,
     "gemv: kc 500, tasks of 256 columns, grain 1"},
    {"scalar", CT_F32, "NNN",   400,   70,     1,   1,  1024,   8, 1, 0,
     "dots, transposed: kc 70, tasks of 512 columns, grain 2"},
    {"scalar", CT_F32, "NNN",     1,   64,    64,   1,  1024,   8, 1, BIAS,
     "gemv, bias first: kc 64, tasks of 256 columns, grain 16"},
    {"scalar", CT_F32, "NTN",    20,  512,   512,   1,  1024,   8, 1, 0,
     "dots: kc 512, tasks of 64 columns, grain 1"},
    {"scalar", CT_F64, "NTN",    26,  512,   512,   1,  1024,   8, 1, 0,
     "blocked: A packed, B per worker; "
     "kc 512, 26 rows x 1 at once, tasks of 26 x 88, grain 1; 1 workers, 475136 bytes"},
    {"scalar", CT_F32, "NTN",     2, 1100,    40,   1,  1024,   8, 2, 0,
     "dots: kc 1100, tasks of 64 columns, grain 1"},
    {"scalar", CT_F32, "NTN",     1,  768, 50257,   1,  1024,   8, 2, 0,
     "dots: kc 768, tasks of 1024 columns, grain 1"},
    {"scalar", CT_F32, "TTN",     1,   16,   300,   1,  1024,   8, 2, 0,
     "gemv: kc 16, tasks of 512 columns, grain 13"},
    /* small: B in place, on the stack; too large for it; a batch is not small */
    {"scalar", CT_F32, "NNN",    16,   16,    16,   1,  1024,   8, 1, 0,
     "direct: B in place; kc 16"},
    {"scalar", CT_F32, "NTN",    16,   16,    16,   1,  1024,   8, 1, 0,
     "direct: B on the stack; kc 16"},
    {"scalar", CT_F32, "NTN",    32,  128,    64,   1,  1024,   8, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 128, tasks of 32 x 64, grain 1; 1 workers, 32768 bytes"},
    {"scalar", CT_F32, "NNN",    16,   16,    16,   4,  1024,   8, 1, 0,
     "blocked: A in place, B in place; kc 16, tasks of 16 x 16, grain 64; 1 workers, 0 bytes"},
    {"scalar", CT_F32, "NNT",    16,   16,    20,   1,  1024,   8, 1, BIAS,
     "direct, transposed, bias first: B on the stack; kc 16"},
    {"scalar", CT_F32, "NNN",    16,  900,    16,   1,  1024,   8, 1, 0,
     "direct: B in place; kc 456"},
    /* K blocks: deeper than kc; two where threads may split K, on every machine */
    {"scalar", CT_F32, "NNN",  2000, 1600,    64,   1,  1024,   8, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 536, tasks of 2000 x 64, grain 1; 1 workers, 137216 bytes"},
    {"scalar", CT_F64, "NNN",  2000, 1600,    64,   1,  1024,   8, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 400, tasks of 2000 x 64, grain 1; 1 workers, 204800 bytes"},
    {"scalar", CT_F32, "TNN",    70, 2600,    50,   1,  1024,   8, 1, 0,
     "blocked: A packed, B in place; "
     "kc 656, 70 rows x 1 at once, tasks of 70 x 52, grain 1; 1 workers, 188928 bytes"},
    {"scalar", CT_F32, "TNN",    70, 2600,    50,   1,  1024,   8, 2, 0,
     "split-K: A in place, B in place; "
     "kc 656 of 1968, tasks of 12 x 52, grain 1; 2 workers, 28000 bytes"},
    {"scalar", CT_F32, "TNN",    70, 2600,    50,   1,  1024,   8, 2, ALPHA,
     "blocked: A packed, B in place; "
     "kc 656, 70 rows x 1 at once, tasks of 12 x 52, grain 1; 2 workers, 188928 bytes"},
    {"scalar", CT_F32, "TNN",    70, 2600,    50,   1,  1024,   8, 2, APPLY,
     "blocked: A packed, B in place; "
     "kc 656, 70 rows x 1 at once, tasks of 12 x 52, grain 1; 2 workers, 188928 bytes"},
    {"scalar", CT_F32, "TNN",    70,  520,    50,   1,  1024,   8, 2, 0,
     "split-K: A in place, B in place; "
     "kc 264 of 520, tasks of 36 x 52, grain 1; 2 workers, 14000 bytes"},
    /* threads share a packed B, or each packs its own */
    {"scalar", CT_F32, "NTN",  2048,  384,   384,   1,  1024,   8, 2, 0,
     "blocked: A in place, B shared; kc 384, tasks of 256 x 384, grain 1; 2 workers, 589824 bytes"},
    {"scalar", CT_F32, "NTN",    60,  384,   384,   1,  1024,   8, 2, 0,
     "blocked: A in place, B per worker; "
     "kc 384, tasks of 60 x 28, grain 1; 2 workers, 86016 bytes"},
    /* AVX2, 512 KB and 8 ways (EPYC): squares and the benchmark's shapes */
    {"avx2",   CT_F32, "NNN",   128,  128,   128,   1,   512,   8, 1, 0,
     "blocked: A in place, B in place; kc 128, tasks of 128 x 128, grain 1; 1 workers, 0 bytes"},
    {"avx2",   CT_F32, "TNN",   128,  128,   128,   1,   512,   8, 1, 0,
     "blocked: A packed, B in place; "
     "kc 128, 128 rows x 1 at once, tasks of 128 x 128, grain 1; 1 workers, 67584 bytes"},
    {"avx2",   CT_F32, "NNN",   384,  384,   384,   1,   512,   8, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 384, tasks of 384 x 128, grain 1; 1 workers, 196608 bytes"},
    {"avx2",   CT_F32, "NNN",  1024, 1024,  1024,   1,   512,   8, 1, 0,
     "blocked: A packed, B per worker; "
     "kc 512, 1024 rows x 1 at once, tasks of 1024 x 96, grain 1; 1 workers, 2297856 bytes"},
    {"avx2",   CT_F32, "TNN",  1024, 1024,  1024,   1,   512,   8, 1, 0,
     "blocked: A packed, B per worker; "
     "kc 512, 1024 rows x 1 at once, tasks of 1024 x 96, grain 1; 1 workers, 2297856 bytes"},
    {"avx2",   CT_F32, "NTN",   768,  128,   384,   1,   512,   8, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 128, tasks of 768 x 384, grain 1; 1 workers, 196608 bytes"},
    {"avx2",   CT_F32, "NTN",  2048,  384,  1152,   1,   512,   8, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 384, tasks of 2048 x 128, grain 1; 1 workers, 196608 bytes"},
    {"avx2",   CT_F32, "NTN",   256,  768, 50257,   1,   512,   8, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 768, tasks of 256 x 64, grain 1; 1 workers, 196608 bytes"},
    {"avx2",   CT_F32, "NTN",   256,  768,  2304,   1,   512,   8, 2, 0,
     "blocked: A in place, B per worker; "
     "kc 768, tasks of 256 x 64, grain 1; 2 workers, 393216 bytes"},
    {"avx2",   CT_F32, "NTN",  2048,  384,  1152,   1,   512,   8, 2, 0,
     "blocked: A in place, B per worker; "
     "kc 384, tasks of 1026 x 128, grain 1; 2 workers, 393216 bytes"},
    {"avx2",   CT_F32, "TNN",   384, 2048,  1152,   1,   512,   8, 2, 0,
     "blocked: A packed, B per worker; "
     "kc 688, 384 rows x 1 at once, tasks of 384 x 64, grain 1; 2 workers, 1409024 bytes"},
    {"avx2",   CT_F32, "NTN",    64,   33,    66,  20,   512,   8, 2, 0,
     "blocked: A in place, B per worker; kc 33, tasks of 64 x 80, grain 1; 2 workers, 21120 bytes"},
    {"avx2",   CT_F64, "TNN",  1024, 1024,    64,   1,   512,   8, 1, 0,
     "blocked: A packed, B per worker; "
     "kc 512, 516 rows x 1 at once, tasks of 516 x 32, grain 1; 1 workers, 2244608 bytes"},
    {"avx2",   CT_F64, "TNN",  1000, 1024,   128,   1,   512,   8, 1, 0,
     "blocked: A packed, B per worker; "
     "kc 512, 516 rows x 1 at once, tasks of 516 x 48, grain 1; 1 workers, 2310144 bytes"},
    /* AVX-512, 1 MB and 12 ways (Xeon): squares and the benchmark's shapes */
    {"avx512", CT_F32, "NNN",   128,  128,   128,   1,  1024,  12, 1, 0,
     "blocked: A in place, B in place; kc 128, tasks of 128 x 128, grain 1; 1 workers, 0 bytes"},
    {"avx512", CT_F32, "TNN",   128,  128,   128,   1,  1024,  12, 1, 0,
     "blocked: A in place, B in place; kc 128, tasks of 128 x 128, grain 1; 1 workers, 0 bytes"},
    {"avx512", CT_F32, "NNN",   384,  384,   384,   1,  1024,  12, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 384, tasks of 384 x 192, grain 1; 1 workers, 294912 bytes"},
    {"avx512", CT_F32, "NNN",  1024, 1024,  1024,   1,  1024,  12, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 512, tasks of 1024 x 192, grain 1; 1 workers, 393216 bytes"},
    {"avx512", CT_F32, "TNN",  1024, 1024,  1024,   1,  1024,  12, 1, 0,
     "blocked: A packed, B per worker; "
     "kc 512, 1024 rows x 1 at once, tasks of 1024 x 192, grain 1; 1 workers, 2506752 bytes"},
    {"avx512", CT_F32, "NTN",   768,  128,   384,   1,  1024,  12, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 128, tasks of 768 x 384, grain 1; 1 workers, 196608 bytes"},
    {"avx512", CT_F32, "NTN",  2048,  384,  1152,   1,  1024,  12, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 384, tasks of 2048 x 256, grain 1; 1 workers, 393216 bytes"},
    {"avx512", CT_F32, "NTN",   256,  768, 50257,   1,  1024,  12, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 768, tasks of 256 x 128, grain 1; 1 workers, 393216 bytes"},
    {"avx512", CT_F32, "NTN",   256,  768,  2304,   1,  1024,  12, 2, 0,
     "blocked: A in place, B per worker; "
     "kc 768, tasks of 256 x 128, grain 1; 2 workers, 786432 bytes"},
    {"avx512", CT_F32, "NTN",  2048,  384,  1152,   1,  1024,  12, 2, 0,
     "blocked: A in place, B per worker; "
     "kc 384, tasks of 132 x 192, grain 1; 2 workers, 589824 bytes"},
    {"avx512", CT_F32, "TNN",   384, 2048,  1152,   1,  1024,  12, 2, 0,
     "blocked: A packed, B per worker; "
     "kc 688, 384 rows x 1 at once, tasks of 192 x 128, grain 1; 2 workers, 1761280 bytes"},
    {"avx512", CT_F32, "NTN",    64,   33,    66,  20,  1024,  12, 2, 0,
     "blocked: A in place, B per worker; kc 33, tasks of 64 x 96, grain 1; 2 workers, 25344 bytes"},
    {"avx512", CT_F64, "TNN",  1024, 1024,    64,   1,  1024,  12, 1, 0,
     "blocked: A packed, B per worker; "
     "kc 512, 1024 rows x 1 at once, tasks of 1024 x 64, grain 1; 1 workers, 4489216 bytes"},
    {"avx512", CT_F64, "TNN",  1000, 1024,   128,   1,  1024,  12, 1, 0,
     "blocked: A in place, B per worker; "
     "kc 512, tasks of 1000 x 64, grain 1; 1 workers, 262144 bytes"},
};
/* clang-format on */

static void apply(void *arg, const cti_matrix *c, int64_t rows, int64_t cols) {
    (void)arg, (void)c, (void)rows, (void)cols;
}

static cti_matrix stored(char by, int64_t rows, int64_t cols, ct_dtype type) {
    return (cti_matrix){.row = by == 'T' ? 1 : cols,
                        .col = by == 'T' ? rows : 1,
                        .batch = rows * cols,
                        .dtype = type};
}

static void plan_of(const row *r, const cti_kernels *kernels, char text[CTI_GEMM_PLAN_TEXT]) {
    static const double bias[1];
    const cti_gemm_epilogue epilogue = {.bias = r->more & BIAS ? bias : NULL,
                                        .apply = r->more & APPLY ? apply : NULL};
    const cti_gemm_args g = {.batch = r->batch,
                             .m = r->m,
                             .n = r->n,
                             .k = r->k,
                             .alpha = r->more & ALPHA ? 0.5 : 1,
                             .epilogue = &epilogue,
                             .a = stored(r->abc[0], r->m, r->k, r->type),
                             .b = stored(r->abc[1], r->k, r->n, r->type),
                             .c = stored(r->abc[2], r->m, r->n, r->type)};
    const cti_gemm_machine machine = {.kernels = &kernels->gemm,
                                      .l2_bytes = r->l2_kb << 10,
                                      .l1d_ways = r->ways,
                                      .threads = r->threads};
    cti_gemm_plan plan;
    cti_gemm_args transposed;
    ck_assert(cti_plan_gemm(&g, &machine, &plan, &transposed) ==
              (plan.transposed ? &transposed : &g));
    cti_gemm_plan_text(&plan, text);
}

START_TEST(plans) {
    for (int i = 0; i < COUNT(table); i++) {
        const cti_isa *isa = cti_isa_find(table[i].isa);
        char text[CTI_GEMM_PLAN_TEXT];
        if (!isa) continue;
        plan_of(&table[i], isa->of[table[i].type], text);
        ck_assert_msg(!strcmp(text, table[i].plan), "row %d: the plan is \"%s\", not \"%s\"", i,
                      text, table[i].plan);
    }
}
END_TEST

/* What decides the order of a sum, the kind by which it is made and its K blocks, is the same on
 * every machine; only blocked products may be split-K on some, which has the same order. */
START_TEST(order_of_sums) {
    static const int64_t l2_kb[] = {256, 1024, 4096}, ways[] = {8, 12};
    for (int i = 0; i < COUNT(table); i++) {
        const cti_isa *isa = cti_isa_find(table[i].isa);
        if (!isa) continue;
        const cti_kernels *kernels = isa->of[table[i].type];
        char first[CTI_GEMM_PLAN_TEXT] = "";
        for (int machine = 0; machine < 18; machine++) {
            row r = table[i];
            r.l2_kb = l2_kb[machine % 3], r.ways = ways[machine / 3 % 2],
            r.threads = 1 + machine / 6;
            char text[CTI_GEMM_PLAN_TEXT], order[CTI_GEMM_PLAN_TEXT];
            plan_of(&r, kernels, text);
            const char *kc = strstr(text, "kc ");
            snprintf(order, sizeof order, "%.4s %.*s",
                     strncmp(text, "split-K", 7) ? text : "blocked",
                     kc ? (int)strcspn(kc + 3, " ,") + 3 : 0, kc ? kc : "");
            if (machine == 0) strcpy(first, order);
            ck_assert_msg(!strcmp(first, order), "row %d: %s on one machine, %s on another", i,
                          first, order);
        }
    }
}
END_TEST

/* The longest plan fits the text. */
START_TEST(long_text) {
    char text[CTI_GEMM_PLAN_TEXT];
    const cti_gemm_plan plan = {.kind = CTI_GEMM_SPLIT_K,
                                .transposed = true,
                                .bias_first = true,
                                .kc = INT64_MAX,
                                .mc = INT64_MAX,
                                .nc = INT64_MAX,
                                .grain = INT64_MAX,
                                .pack_a = true,
                                .b = CTI_B_ON_STACK,
                                .k_pass = INT64_MAX,
                                .m_pass = INT64_MAX,
                                .batch_pass = INT64_MAX,
                                .workers = 1,
                                .sum_bytes = INT64_MAX};
    const char *end = " bytes";
    cti_gemm_plan_text(&plan, text);
    ck_assert(strlen(text) > strlen(end) && !strcmp(text + strlen(text) - strlen(end), end));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gemm plans");
    TCase *tcase = tcase_create("gemm plans");
    tcase_add_test(tcase, plans);
    tcase_add_test(tcase, order_of_sums);
    tcase_add_test(tcase, long_text);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
