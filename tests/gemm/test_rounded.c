/* Products whose operands are rounded to bf16: the rounding, the kernels of each instruction set
 * against their specification bit by bit, and the products that are made of them. */
#include "bf16_scalar.h"
#include "rounded_check.h"
#include "src/kernels/products.h"

static float of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Kernels that round: the specification, and the kernels of this machine's instruction sets. */
static int rounding_isas(rounding_isa list[4]) {
    int n = 0;
    rounding_isa_of(&list[n++], "scalar", "the specification", &bf16_scalar, NULL, NULL);
    for (int i = 0; cti_isa_at(i); i++) {
        const cti_kernels *k = cti_isa_at(i)->of[CT_F32];
        if (!k->bf16) continue;
        rounding_isa_of(&list[n], cti_isa_at(i)->name, cti_isa_at(i)->name, k->bf16, k->bf16x3,
                        k->bf16x6);
        n++;
    }
    return n;
}

/* Those that have the specification's layout of panels, and so its bits. */
static const cti_gemm_kernels *by_pairs(void) {
    const cti_isa *isa = cti_isa_find("avx512bf16");
    return isa ? isa->of[CT_F32]->bf16 : NULL;
}

/* ---- the rounding ---- */

/* Rounds n numbers by packing them as a column of B. */
static void rounded_by(const cti_gemm_kernels *kernels, int64_t n, const float *x, float *y) {
    const int64_t bytes = kernels->nr * cti_gemm_packed(kernels, n);
    uint16_t *packed = malloc((size_t)bytes);
    kernels->pack_b(n, 1, x, 1, n, packed);
    for (int64_t i = 0; i < n; i++)
        y[i] = of_bits((uint32_t)packed[i / 2 * 2 * kernels->nr + i % 2] << 16);
    free(packed);
}

/* Is y the bf16 of x? A NaN stays a NaN of its sign. */
static bool is_rounded_right(float x, float y) {
    if (isnan(x)) return isnan(y) && signbit(x) == signbit(y);
    return bits_of(y) == bits_of(nearest_bf16(x));
}

START_TEST(rounding) {
    static const struct {
        uint32_t x, y; /* bits */
    } known[] = {
        {0x3F800000, 0x3F800000}, /* 1 */
        {0x3F808000, 0x3F800000}, /* a tie: to even, down */
        {0x3F818000, 0x3F820000}, /* a tie: to even, up */
        {0x3F808001, 0x3F810000}, /* above the tie */
        {0xBF807FFF, 0xBF800000}, /* below */
        {0x7F7F7FFF, 0x7F7F0000}, /* the largest that is not infinite */
        {0x7F7F8000, 0x7F800000}, /* the least that is */
        {0xFF7FFFFF, 0xFF800000}, /* -FLT_MAX */
        {0x7F800000, 0x7F800000}, /* infinity */
        {0x00800000, 0x00800000}, /* the least normal number */
        {0x007FFFFF, 0x00000000}, /* the largest subnormal one */
        {0x80000001, 0x80000000}, /* the least, negative */
        {0x80000000, 0x80000000}, /* -0 */
    };
    const cti_gemm_kernels *const all[] = {&bf16_scalar, by_pairs()};
    for (int t = 0; t < COUNT(all); t++) {
        if (!all[t]) continue;
        for (int i = 0; i < COUNT(known); i++) {
            const float x = of_bits(known[i].x);
            float y;
            rounded_by(all[t], 1, &x, &y);
            ck_assert_msg(bits_of(y) == known[i].y, "%08x becomes %08x, not %08x", known[i].x,
                          bits_of(y), known[i].y);
        }
        const float nans[] = {NAN, -NAN, of_bits(0x7F800001), of_bits(0xFF80FFFF)};
        float y[4];
        rounded_by(all[t], 4, nans, y);
        for (int i = 0; i < 4; i++) ck_assert(is_rounded_right(nans[i], y[i]));
    }
}
END_TEST

/* Each of the 2^16 leading halves, with halves behind it on both sides of the tie; and noise. */
START_TEST(rounding_of_all_numbers) {
    enum { N = 4096 };
    static const uint32_t low[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF};
    const cti_gemm_kernels *const all[] = {&bf16_scalar, by_pairs()};
    static float x[N], y[N];
    for (int t = 0; t < COUNT(all); t++) {
        if (!all[t]) continue;
        for (int l = 0; l <= COUNT(low); l++)
            for (uint32_t high = 0; high < 0x10000; high += N) {
                for (uint32_t i = 0; i < N; i++)
                    x[i] = of_bits(l < COUNT(low) ? (high + i) << 16 | low[l] : random_bits());
                rounded_by(all[t], N, x, y);
                for (int i = 0; i < N; i++)
                    ck_assert_msg(is_rounded_right(x[i], y[i]), "%08x becomes %08x", bits_of(x[i]),
                                  bits_of(y[i]));
            }
    }
}
END_TEST

/* ---- kernels against the specification ---- */

/* Numbers whose products and sums meet every case: usual, subnormal, huge, not finite. */
static float any_number(int kind) {
    const uint32_t bits = random_bits();
    switch (kind) {
    case 0: return noise();
    case 1: return of_bits((bits & 0x807FFFFF) | (random_bits() % 90) << 23); /* products vanish */
    case 2: return of_bits((bits & 0x807FFFFF) | (180 + random_bits() % 74) << 23);
    default: return of_bits(bits);
    }
}

/* Packed panels are the same bytes, for lines that are dense, dense along K, neither, backward. */
START_TEST(panels) {
    static const int64_t sizes[][2] = {{1, 1},  {5, 3},    {12, 2},   {13, 31}, {16, 32},
                                       {31, 7}, {33, 33},  {40, 64},  {45, 70}, {64, 100},
                                       {96, 5}, {100, 65}, {7, 1025}, {32, 96}, {24, 97}};
    const cti_gemm_kernels *spec = &bf16_scalar, *fast = by_pairs();
    if (!fast) return;
    for (int i = 0; i < COUNT(sizes); i++)
        for (int by = 0; by < 4; by++)
            for (int of_b = 0; of_b < 2; of_b++) {
                const int64_t n = sizes[i][0], k = sizes[i][1]; /* lines, and elements of each */
                float *x = malloc((size_t)(2 * n * k) * sizeof *x);
                for (int64_t j = 0; j < 2 * n * k; j++) x[j] = any_number(i % 4);
                const int64_t line = by == 0 ? 1 : by == 1 ? k : by == 2 ? 2 : -k;
                const int64_t step = by == 0 ? n : by == 1 ? 1 : by == 2 ? 2 * n : 1;
                const float *first = by == 3 ? x + (n - 1) * k : x;
                const int64_t width = of_b ? spec->nr : spec->mr;
                const size_t bytes =
                    (size_t)(cti_round_up(n, width) * cti_gemm_packed(spec, k)) + 64;
                unsigned char *a = malloc(bytes), *b = malloc(bytes);
                memset(a, 0xA5, bytes);
                memset(b, 0xA5, bytes);
                if (of_b) {
                    spec->pack_b(k, n, first, step, line, a);
                    fast->pack_b(k, n, first, step, line, b);
                } else {
                    spec->pack_a(n, k, first, line, step, a);
                    fast->pack_a(n, k, first, line, step, b);
                }
                ck_assert_msg(!memcmp(a, b, bytes), "%d lines of %d, strides %d and %d", (int)n,
                              (int)k, (int)line, (int)step);
                for (size_t j = bytes - 64; j < bytes; j++) ck_assert(a[j] == 0xA5);
                free(x);
                free(a);
                free(b);
            }
}
END_TEST

static bool same_number(float x, float y) { /* to the bit, but for which NaN it is */
    return isnan(x) ? isnan(y) : bits_of(x) == bits_of(y);
}

START_TEST(micro_kernels) {
    enum { M = 12, N = 70, K = 67 };
    static const double alphas[] = {1, 0.37};
    const cti_gemm_kernels *spec = &bf16_scalar, *fast = by_pairs();
    if (!fast) return;
    const int64_t nr = spec->nr;
    unsigned char *a = malloc((size_t)(spec->mr * cti_gemm_packed(spec, K)));
    unsigned char *b = malloc((size_t)(3 * nr * cti_gemm_packed(spec, K)));
    float x[M * K], y[K * N], c[2][M * N * 2], base[M * N * 2];
    for (int i = 0; i < 96; i++) {
        const int64_t m = 1 + i % M, n = i % 5 ? 1 + random_bits() % N : N, k = i % 3 ? K : 8 + i;
        const int64_t used = k < K ? k : K, col = 1 + i % 2;
        for (int j = 0; j < M * K; j++) x[j] = any_number(i % 4);
        for (int j = 0; j < K * N; j++) y[j] = any_number(i % 4);
        for (int j = 0; j < M * N * 2; j++) base[j] = c[0][j] = c[1][j] = any_number(i % 2 * 3);
        spec->pack_a(m, used, x, K, 1, a);
        spec->pack_b(used, n, y, N, 1, b);
        const cti_gemm_params params = {.k = used,
                                        .row = N * col,
                                        .col = col,
                                        .base_row = i % 3 ? N * col : 0,
                                        .alpha = alphas[i / 2 % 2]};
        const int64_t panel = nr * cti_gemm_packed(spec, used);
        const float *from = i % 4 == 0 ? NULL : base;
        spec->macro_kernel(&params, m, n, a, b, panel, from, c[0]);
        fast->macro_kernel(&params, m, n, a, b, panel, from, c[1]);
        for (int j = 0; j < M * N * 2; j++)
            ck_assert_msg(same_number(c[0][j], c[1][j]), "case %d: element %d is %a, not %a", i, j,
                          c[1][j], c[0][j]);
    }
    free(a);
    free(b);
}
END_TEST

/* ---- products ---- */

START_TEST(values) {
    rounding_isa list[4];
    for (int i = 0, n = rounding_isas(list); i < n; i++) check_values(&list[i]);
}
END_TEST

START_TEST(any_threads) {
    rounding_isa list[4];
    for (int i = 0, n = rounding_isas(list); i < n; i++)
        for (int p = CT_MATMUL_BF16X6; p <= CT_MATMUL_BF16; p++)
            check_threads(&list[i], (ct_matmul_precision)p);
}
END_TEST

START_TEST(not_finite) {
    rounding_isa list[4];
    for (int i = 0, n = rounding_isas(list); i < n; i++)
        for (int p = CT_MATMUL_BF16X6; p <= CT_MATMUL_BF16; p++)
            check_not_finite(&list[i], (ct_matmul_precision)p);
}
END_TEST

START_TEST(alone) {
    rounding_isa list[4];
    for (int i = 0, n = rounding_isas(list); i < n; i++) check_alone(&list[i], CT_MATMUL_BF16);
}
END_TEST

/* Products that no setting rounds: those of instruction sets without kernels for bf16 products,
 * small ones, and those of f64. Their bits are those of CT_MATMUL_F32. */
START_TEST(not_rounded) {
    static const int64_t sizes[] = {5, 64, 200}; /* the last is large */
    for (int isa = 0; cti_isa_at(isa); isa++) {
        const bool rounds = cti_isa_at(isa)->of[CT_F32]->bf16 != NULL;
        for (int i = 0; i < COUNT(sizes); i++)
            for (int dtype = CT_F32; dtype <= CT_F64; dtype++) {
                float *got[2] = {NULL, NULL};
                size_t bytes = 0;
                for (int p = 0; p < 2; p++) {
                    ct_context *c = ct_context_new(
                        (ct_context_opts){.threads = 1,
                                          .isa = cti_isa_at(isa)->name,
                                          .matmul = p ? CT_MATMUL_BF16 : CT_MATMUL_F32});
                    const ct_shape shape = CT_SHAPE(sizes[i], sizes[i]);
                    ct_tensor *x = ct_randn(c, (ct_dtype)dtype, shape);
                    ct_tensor *y =
                        ct_cast(ct_matmul(x, ct_randn(c, (ct_dtype)dtype, shape)), CT_F32);
                    ck_assert_int_eq(ct_error(c), CT_OK);
                    bytes = (size_t)ct_numel(y) * sizeof(float);
                    got[p] = malloc(bytes);
                    memcpy(got[p], ct_data_f32(y), bytes);
                    ct_context_free(c);
                }
                const bool same = !memcmp(got[0], got[1], bytes);
                ck_assert_msg(same == !(rounds && dtype == CT_F32 && sizes[i] == 200),
                              "%s: a product of %d in %s has %s bits", cti_isa_at(isa)->name,
                              (int)sizes[i], dtype == CT_F32 ? "f32" : "f64",
                              same ? "f32's" : "other");
                free(got[0]);
                free(got[1]);
            }
    }
}
END_TEST

/* Whether a product is rounded follows from its sizes: on every machine, for all threads. */
START_TEST(choice) {
    static const struct {
        int64_t batch, m, n, k;
        cti_gemm_kind kind; /* split-K counts as blocked */
        bool rounded;       /* and if so, A and B are packed, B by each worker */
    } list[] = {
        {1, 64, 64, 64, CTI_GEMM_DIRECT, false},   {1, 64, 64, 65, CTI_GEMM_BLOCKED, true},
        {9, 64, 64, 64, CTI_GEMM_BLOCKED, false},  {1, 15, 512, 512, CTI_GEMM_BLOCKED, false},
        {1, 16, 512, 512, CTI_GEMM_BLOCKED, true}, {1, 512, 15, 512, CTI_GEMM_BLOCKED, false},
        {1, 70, 50, 2600, CTI_GEMM_BLOCKED, true}, {1, 1, 4096, 4096, CTI_GEMM_GEMV, false},
    };
    const cti_isa *scalar = cti_isa_find("scalar");
    for (int i = 0; i < COUNT(list); i++)
        for (int threads = 1; threads <= 16; threads *= 4) {
            const cti_gemm_machine machine = {.kernels = scalar->of[CT_F32]->gemm,
                                              .rounded = &bf16_scalar,
                                              .l2_bytes = (int64_t)(256 << 10) * threads,
                                              .l1d_ways = 8,
                                              .threads = threads};
            const int64_t m = list[i].m, n = list[i].n, k = list[i].k;
            const cti_gemm_args g = {.batch = list[i].batch,
                                     .m = m,
                                     .n = n,
                                     .k = k,
                                     .alpha = 1,
                                     .a = {.row = k, .col = 1, .batch = m * k, .dtype = CT_F32},
                                     .b = {.row = n, .col = 1, .batch = k * n, .dtype = CT_F32},
                                     .c = {.row = n, .col = 1, .batch = m * n, .dtype = CT_F32}};
            cti_gemm_plan plan;
            cti_gemm_args transposed;
            cti_gemm_plan_make(&g, &machine, &plan, &transposed);
            const bool rounded = list[i].rounded, split = plan.kind == CTI_GEMM_SPLIT_K;
            ck_assert_msg(
                (split ? CTI_GEMM_BLOCKED : plan.kind) == list[i].kind && plan.rounded == rounded &&
                    plan.pack_a == rounded && (!rounded || plan.b == CTI_B_PER_WORKER) &&
                    !plan.transposed && !plan.bias_first,
                "%d threads, row %d: kind %d, B %d%s%s", threads, i, (int)plan.kind, (int)plan.b,
                plan.rounded ? ", rounded" : "", plan.pack_a ? ", A packed" : "");
        }
}
END_TEST

int main(void) {
    return run_cases("products with rounded operands",
                     CASES({.name = "kernels",
                            .tests = TESTS(TEST(rounding), TEST(rounding_of_all_numbers),
                                           TEST(panels), TEST(micro_kernels))},
                           {.name = "products",
                            .tests = TESTS(TEST(values), TEST(any_threads), TEST(not_finite),
                                           TEST(alone), TEST(not_rounded), TEST(choice))}));
}
