/* The plans of products as a table: the inputs of a plan and its choices. No product is computed
 * here. Rows of an instruction set that this machine lacks are skipped. */
#include "tests/support/suite.h"
#include <stdio.h>
#include <string.h>

#include "src/gemm/gemm_plan.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Inputs besides sizes and strides: alpha 0.5, a bias, a call for each complete tile. */
enum { ALPHA = 1, BIAS = 2, APPLY = 4 };

enum {
    ZERO = CTI_GEMM_ZERO,
    GEMV = CTI_GEMM_GEMV,
    DOTS = CTI_GEMM_DOTS,
    DIRECT = CTI_GEMM_DIRECT,
    BLOCKED = CTI_GEMM_BLOCKED,
    SPLIT_K = CTI_GEMM_SPLIT_K
};
enum {
    IN_PLACE = CTI_B_IN_PLACE,
    ON_STACK = CTI_B_ON_STACK,
    PER_WORKER = CTI_B_PER_WORKER,
    SHARED = CTI_B_SHARED
};

/* The choices of a plan; a number that its kind does not use is 0. */
typedef struct {
    int kind;
    bool transposed, bias_first, pack_a;
    int b;
    int64_t kc, k_pass, m_pass, batch_pass, mc, nc, grain;
    int workers;
    int64_t bytes; /* the size of the workspace */
} choices;

typedef struct {
    const char *isa;
    ct_dtype type;
    const char *abc; /* how A, B and C are stored: N by rows, T by columns */
    int64_t m, k, n, batch;
    int64_t l2_kb, ways;
    int threads, more;
    choices choose;
} row;

/* clang-format off */
static const row table[] = {
    /* isa     type    ABC      m     k      n  batch L2 ways threads, more
     * kind, transposed, bias first, A packed, B,
     *                                 kc k_pass m_pass batch_pass mc nc grain workers bytes */
    /* no sum; a row, a column; few rows with A and B dense along K */
    {"scalar", CT_F32, "NNN",    3,    0,     5,  1, 1024,  8, 1, 0,
     {ZERO,    0, 0, 0, IN_PLACE,      0,    0,    0,  0,    0,    0,  0, 1,       0}},
    {"scalar", CT_F32, "NNN",    3,    0,     5,  1, 1024,  8, 1, BIAS,
     {ZERO,    0, 1, 0, IN_PLACE,      0,    0,    0,  0,    0,    0,  0, 1,       0}},
    {"scalar", CT_F32, "NNN",    1,  500,  1100,  3, 1024,  8, 1, 0,
     {GEMV,    0, 0, 0, IN_PLACE,    500,    0,    0,  0,    0,  256,  1, 1,       0}},
    {"scalar", CT_F32, "NNN",  400,   70,     1,  1, 1024,  8, 1, 0,
     {DOTS,    1, 0, 0, IN_PLACE,     70,    0,    0,  0,    0,  512,  2, 1,       0}},
    {"scalar", CT_F32, "NNN",    1,   64,    64,  1, 1024,  8, 1, BIAS,
     {GEMV,    0, 1, 0, IN_PLACE,     64,    0,    0,  0,    0,  256, 16, 1,       0}},
    {"scalar", CT_F32, "NTN",   20,  512,   512,  1, 1024,  8, 1, 0,
     {DOTS,    0, 0, 0, IN_PLACE,    512,    0,    0,  0,    0,   64,  1, 1,       0}},
    {"scalar", CT_F64, "NTN",   26,  512,   512,  1, 1024,  8, 1, 0,
     {BLOCKED, 0, 0, 1, PER_WORKER,  512,  512,   26,  1,   26,   88,  1, 1,  475136}},
    {"scalar", CT_F32, "NTN",    2, 1100,    40,  1, 1024,  8, 2, 0,
     {DOTS,    0, 0, 0, IN_PLACE,   1100,    0,    0,  0,    0,   64,  1, 1,       0}},
    {"scalar", CT_F32, "NTN",    1,  768, 50257,  1, 1024,  8, 2, 0,
     {DOTS,    0, 0, 0, IN_PLACE,    768,    0,    0,  0,    0, 1024,  1, 1,       0}},
    {"scalar", CT_F32, "TTN",    1,   16,   300,  1, 1024,  8, 2, 0,
     {GEMV,    0, 0, 0, IN_PLACE,     16,    0,    0,  0,    0,  512, 13, 1,       0}},
    /* small: B in place, on the stack; too large for it; a batch is not small */
    {"scalar", CT_F32, "NNN",   16,   16,    16,  1, 1024,  8, 1, 0,
     {DIRECT,  0, 0, 0, IN_PLACE,     16,    0,    0,  0,    0,    0,  0, 1,       0}},
    {"scalar", CT_F32, "NTN",   16,   16,    16,  1, 1024,  8, 1, 0,
     {DIRECT,  0, 0, 0, ON_STACK,     16,    0,    0,  0,    0,    0,  0, 1,       0}},
    {"scalar", CT_F32, "NTN",   32,  128,    64,  1, 1024,  8, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  128,  128,   32,  1,   32,   64,  1, 1,   32768}},
    {"scalar", CT_F32, "NNN",   16,   16,    16,  4, 1024,  8, 1, 0,
     {BLOCKED, 0, 0, 0, IN_PLACE,     16,   16,   16,  4,   16,   16, 64, 1,       0}},
    {"scalar", CT_F32, "NNT",   16,   16,    20,  1, 1024,  8, 1, BIAS,
     {DIRECT,  1, 1, 0, ON_STACK,     16,    0,    0,  0,    0,    0,  0, 1,       0}},
    {"scalar", CT_F32, "NNN",   16,  900,    16,  1, 1024,  8, 1, 0,
     {DIRECT,  0, 0, 0, IN_PLACE,    456,    0,    0,  0,    0,    0,  0, 1,       0}},
    /* K blocks: deeper than kc; two where threads may split K, on every machine */
    {"scalar", CT_F32, "NNN", 2000, 1600,    64,  1, 1024,  8, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  536,  536, 2000,  1, 2000,   64,  1, 1,  137216}},
    {"scalar", CT_F64, "NNN", 2000, 1600,    64,  1, 1024,  8, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  400,  400, 2000,  1, 2000,   64,  1, 1,  204800}},
    {"scalar", CT_F32, "TNN",   70, 2600,    50,  1, 1024,  8, 1, 0,
     {BLOCKED, 0, 0, 1, IN_PLACE,    656,  656,   70,  1,   70,   52,  1, 1,  188928}},
    {"scalar", CT_F32, "TNN",   70, 2600,    50,  1, 1024,  8, 2, 0,
     {SPLIT_K, 0, 0, 0, IN_PLACE,    656, 1968,   70,  1,   12,   52,  1, 2,   28000}},
    {"scalar", CT_F32, "TNN",   70, 2600,    50,  1, 1024,  8, 2, ALPHA,
     {BLOCKED, 0, 0, 1, IN_PLACE,    656,  656,   70,  1,   12,   52,  1, 2,  188928}},
    {"scalar", CT_F32, "TNN",   70, 2600,    50,  1, 1024,  8, 2, APPLY,
     {BLOCKED, 0, 0, 1, IN_PLACE,    656,  656,   70,  1,   12,   52,  1, 2,  188928}},
    {"scalar", CT_F32, "TNN",   70,  520,    50,  1, 1024,  8, 2, 0,
     {SPLIT_K, 0, 0, 0, IN_PLACE,    264,  520,   70,  1,   36,   52,  1, 2,   14000}},
    /* threads share a packed B, or each packs its own */
    {"scalar", CT_F32, "NTN", 2048,  384,   384,  1, 1024,  8, 2, 0,
     {BLOCKED, 0, 0, 0, SHARED,      384,  384, 2048,  1,  256,  384,  1, 2,  589824}},
    {"scalar", CT_F32, "NTN",   60,  384,   384,  1, 1024,  8, 2, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  384,  384,   60,  1,   60,   28,  1, 2,   86016}},
    /* AVX2, 512 KB and 8 ways (EPYC): squares and the benchmark's shapes */
    {"avx2",   CT_F32, "NNN",  128,  128,   128,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 0, IN_PLACE,    128,  128,  128,  1,  128,  128,  1, 1,       0}},
    {"avx2",   CT_F32, "TNN",  128,  128,   128,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 1, IN_PLACE,    128,  128,  128,  1,  128,  128,  1, 1,   67584}},
    {"avx2",   CT_F32, "NNN",  384,  384,   384,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  384,  384,  384,  1,  384,  128,  1, 1,  196608}},
    {"avx2",   CT_F32, "NNN", 1024, 1024,  1024,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 1, PER_WORKER,  512,  512, 1024,  1, 1024,   96,  1, 1, 2297856}},
    {"avx2",   CT_F32, "TNN", 1024, 1024,  1024,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 1, PER_WORKER,  512,  512, 1024,  1, 1024,   96,  1, 1, 2297856}},
    {"avx2",   CT_F32, "NTN",  768,  128,   384,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  128,  128,  768,  1,  768,  384,  1, 1,  196608}},
    {"avx2",   CT_F32, "NTN", 2048,  384,  1152,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  384,  384, 2048,  1, 2048,  128,  1, 1,  196608}},
    {"avx2",   CT_F32, "NTN",  256,  768, 50257,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  768,  768,  256,  1,  256,   64,  1, 1,  196608}},
    {"avx2",   CT_F32, "NTN",  256,  768,  2304,  1,  512,  8, 2, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  768,  768,  256,  1,  256,   64,  1, 2,  393216}},
    {"avx2",   CT_F32, "NTN", 2048,  384,  1152,  1,  512,  8, 2, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  384,  384, 2048,  1, 1026,  128,  1, 2,  393216}},
    {"avx2",   CT_F32, "TNN",  384, 2048,  1152,  1,  512,  8, 2, 0,
     {BLOCKED, 0, 0, 1, PER_WORKER,  688,  688,  384,  1,  384,   64,  1, 2, 1409024}},
    {"avx2",   CT_F32, "NTN",   64,   33,    66, 20,  512,  8, 2, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,   33,   33,   64, 20,   64,   80,  1, 2,   21120}},
    {"avx2",   CT_F64, "TNN", 1024, 1024,    64,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 1, PER_WORKER,  512,  512,  516,  1,  516,   32,  1, 1, 2244608}},
    {"avx2",   CT_F64, "TNN", 1000, 1024,   128,  1,  512,  8, 1, 0,
     {BLOCKED, 0, 0, 1, PER_WORKER,  512,  512,  516,  1,  516,   48,  1, 1, 2310144}},
    /* AVX-512, 1 MB and 12 ways (Xeon): squares and the benchmark's shapes */
    {"avx512", CT_F32, "NNN",  128,  128,   128,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 0, IN_PLACE,    128,  128,  128,  1,  128,  128,  1, 1,       0}},
    {"avx512", CT_F32, "TNN",  128,  128,   128,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 0, IN_PLACE,    128,  128,  128,  1,  128,  128,  1, 1,       0}},
    {"avx512", CT_F32, "NNN",  384,  384,   384,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  384,  384,  384,  1,  384,  192,  1, 1,  294912}},
    {"avx512", CT_F32, "NNN", 1024, 1024,  1024,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  512,  512, 1024,  1, 1024,  192,  1, 1,  393216}},
    {"avx512", CT_F32, "TNN", 1024, 1024,  1024,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 1, PER_WORKER,  512,  512, 1024,  1, 1024,  192,  1, 1, 2506752}},
    {"avx512", CT_F32, "NTN",  768,  128,   384,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  128,  128,  768,  1,  768,  384,  1, 1,  196608}},
    {"avx512", CT_F32, "NTN", 2048,  384,  1152,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  384,  384, 2048,  1, 2048,  256,  1, 1,  393216}},
    {"avx512", CT_F32, "NTN",  256,  768, 50257,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  768,  768,  256,  1,  256,  128,  1, 1,  393216}},
    {"avx512", CT_F32, "NTN",  256,  768,  2304,  1, 1024, 12, 2, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  768,  768,  256,  1,  256,  128,  1, 2,  786432}},
    {"avx512", CT_F32, "NTN", 2048,  384,  1152,  1, 1024, 12, 2, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  384,  384, 2048,  1,  132,  192,  1, 2,  589824}},
    {"avx512", CT_F32, "TNN",  384, 2048,  1152,  1, 1024, 12, 2, 0,
     {BLOCKED, 0, 0, 1, PER_WORKER,  688,  688,  384,  1,  192,  128,  1, 2, 1761280}},
    {"avx512", CT_F32, "NTN",   64,   33,    66, 20, 1024, 12, 2, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,   33,   33,   64, 20,   64,   96,  1, 2,   25344}},
    {"avx512", CT_F64, "TNN", 1024, 1024,    64,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 1, PER_WORKER,  512,  512, 1024,  1, 1024,   64,  1, 1, 4489216}},
    {"avx512", CT_F64, "TNN", 1000, 1024,   128,  1, 1024, 12, 1, 0,
     {BLOCKED, 0, 0, 0, PER_WORKER,  512,  512, 1000,  1, 1000,   64,  1, 1,  262144}},
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

static cti_gemm_plan plan_of(const row *r, const cti_kernels *kernels) {
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
    const cti_gemm_machine machine = {.kernels = kernels->gemm,
                                      .l2_bytes = r->l2_kb << 10,
                                      .l1d_ways = r->ways,
                                      .threads = r->threads};
    cti_gemm_plan plan;
    cti_gemm_args transposed;
    ck_assert(cti_gemm_plan_make(&g, &machine, &plan, &transposed) ==
              (plan.transposed ? &transposed : &g));
    ck_assert(plan.kernels == kernels->gemm && !plan.rounded);
    return plan;
}

static choices choices_of(const cti_gemm_plan *p) {
    return (choices){.kind = (int)p->kind,
                     .transposed = p->transposed,
                     .bias_first = p->bias_first,
                     .pack_a = p->pack_a,
                     .b = (int)p->b,
                     .kc = p->kc,
                     .k_pass = p->k_pass,
                     .m_pass = p->m_pass,
                     .batch_pass = p->batch_pass,
                     .mc = p->mc,
                     .nc = p->nc,
                     .grain = p->grain,
                     .workers = p->workers,
                     .bytes = cti_gemm_workspace(p)};
}

/* Prints choices as a row of the table has them, so that a failure shows the line to paste. */
enum { LINE_SIZE = 200 };
static void print_choices(const choices *c, char line[LINE_SIZE]) {
    static const char *const kind[] = {"ZERO", "GEMV", "DOTS", "DIRECT", "BLOCKED", "SPLIT_K"};
    static const char *const b[] = {"IN_PLACE", "ON_STACK", "PER_WORKER", "SHARED"};
    snprintf(line, LINE_SIZE,
             "{%s, %d, %d, %d, %s, %lld, %lld, %lld, %lld, %lld, %lld, %lld, %d, %lld}",
             kind[c->kind], c->transposed, c->bias_first, c->pack_a, b[c->b], (long long)c->kc,
             (long long)c->k_pass, (long long)c->m_pass, (long long)c->batch_pass, (long long)c->mc,
             (long long)c->nc, (long long)c->grain, c->workers, (long long)c->bytes);
}

START_TEST(plans) {
    for (int i = 0; i < COUNT(table); i++) {
        const cti_isa *isa = cti_isa_find(table[i].isa);
        if (!isa) continue;
        const cti_gemm_plan plan = plan_of(&table[i], isa->of[table[i].type]);
        const choices chosen = choices_of(&plan);
        char seen[LINE_SIZE], expected[LINE_SIZE];
        print_choices(&chosen, seen);
        print_choices(&table[i].choose, expected);
        ck_assert_msg(!strcmp(seen, expected), "row %d: the plan is %s, not %s", i, seen, expected);
    }
}
END_TEST

/* The kind of a product and its K blocks decide the order of a sum, so they must not depend on
 * caches and threads. A blocked product may be split-K on some machines, because both have the same
 * order. */
START_TEST(order_of_sums) {
    static const int64_t l2_kb[] = {256, 1024, 4096}, ways[] = {8, 12};
    for (int i = 0; i < COUNT(table); i++) {
        const cti_isa *isa = cti_isa_find(table[i].isa);
        if (!isa) continue;
        const choices *c = &table[i].choose;
        for (int machine = 0; machine < 18; machine++) {
            row r = table[i];
            r.l2_kb = l2_kb[machine % 3], r.ways = ways[machine / 3 % 2],
            r.threads = 1 + machine / 6;
            const cti_gemm_plan plan = plan_of(&r, isa->of[r.type]);
            const int kind = plan.kind == CTI_GEMM_SPLIT_K ? BLOCKED : (int)plan.kind;
            ck_assert_msg(plan.kc == c->kc && kind == (c->kind == SPLIT_K ? BLOCKED : c->kind),
                          "row %d: another order of sums on machine %d", i, machine);
        }
    }
}
END_TEST

/* ---- the rule of rows (src/core/row_rule.h) ---- */

/* What decides the bits of an element. */
typedef struct {
    bool zero, by_lanes, rounded;
    const cti_gemm_kernels *kernels;
    int64_t kc;
} order;

static order order_of(const cti_gemm_args *g, const cti_gemm_machine *machine) {
    cti_gemm_plan plan;
    cti_gemm_args transposed;
    if (cti_gemm_plan_make(g, machine, &plan, &transposed) != g) ck_abort_msg("transposed");
    const bool dense_b = g->b.row == 1 && g->b.col != 1;
    return (order){.zero = plan.kind == CTI_GEMM_ZERO,
                   .by_lanes = plan.kind == CTI_GEMM_DOTS ||
                               (plan.kind == CTI_GEMM_GEMV && dense_b), /* its kernel is dots */
                   .rounded = plan.rounded,
                   .kernels = plan.kernels,
                   .kc = plan.kc};
}

/* Compares the orders of all m with the one of a single row, dense and without an epilogue. */
static void check_rows(const cti_gemm_machine *machine, cti_gemm_args g, cti_gemm_epilogue with) {
    const ct_dtype type = cti_gemm_computed_type(&g);
    cti_gemm_args one = g;
    one.m = 1, one.a = stored('N', 1, g.k, type), one.c = stored('N', 1, g.n, type);
    const order want = order_of(&one, machine);
    for (int64_t m = 1; m <= 300; m++) {
        const int64_t how = (3 * m + g.n + g.k) % 8;
        cti_gemm_machine other = *machine;
        g.m = m;
        g.batch = how & 1 ? 3 : 1;
        g.a = stored(how & 2 ? 'T' : 'N', m, g.k, type);
        g.c = stored(how & 4 ? 'T' : 'N', m, g.n, type);
        g.epilogue = how ? &with : NULL;
        other.threads = 1 + (int)m % 3;
        const order got = order_of(&g, &other);
        if (got.zero != want.zero || got.by_lanes != want.by_lanes || got.rounded != want.rounded ||
            got.kernels != want.kernels || got.kc != want.kc)
            ck_abort_msg("%lld rows, n %lld, k %lld, B by %s, how %lld: not the order of one row",
                         (long long)m, (long long)g.n, (long long)g.k,
                         g.b.col == 1 ? "rows" : "columns", (long long)how);
    }
}

/* Sets the kernels that round: none, those of bf16, or a stand-in for bf16x3 and bf16x6, which look
 * at magnitudes. */
static const cti_gemm_kernels *rounding(const cti_kernels *kernels, int setting) {
    static cti_gemm_kernels terms;
    if (setting == 0 || !kernels->bf16) return NULL;
    terms = *kernels->bf16;
    terms.magnitudes = (void (*)(int64_t, const void *, int64_t, uint32_t *, uint32_t *))abort;
    return setting == 1 ? kernels->bf16 : &terms;
}

START_TEST(rows_beside_rows) {
    static const int64_t sizes[] = {1, 8, 15, 16, 20, 511, 512, 3000};
    static const double bias[1];
    const cti_isa *isa = cti_isa_at(_i / 3);
    const int type = _i % 3; /* f32, f64, bf16 */
    if (!isa) return;
    const ct_dtype computed = type == 1 ? CT_F64 : CT_F32;
    const cti_kernels *kernels = isa->of[computed];
    for (int i = 0; i < COUNT(sizes) * COUNT(sizes) * 12; i++) {
        const int64_t n = sizes[i % COUNT(sizes)], k = sizes[i / COUNT(sizes) % COUNT(sizes)];
        const int rest = i / COUNT(sizes) / COUNT(sizes);
        const cti_gemm_machine machine = {
            .kernels = type == 2 ? kernels->gemm_of_bf16 : kernels->gemm,
            .rounded = computed == CT_F32 ? rounding(kernels, rest / 4) : NULL,
            .l2_bytes = 1 << 20,
            .l1d_ways = 8,
            .threads = 1,
            .rows = rest & 1 ? CTI_ROWS_MANY : CTI_ROWS_ONE};
        const cti_gemm_args g = {
            .batch = 1,
            .n = n,
            .k = k,
            .alpha = 1,
            .b = stored(rest & 2 ? 'T' : 'N', k, n, type == 2 ? CT_BF16 : computed)};
        check_rows(&machine, g,
                   i % 2 ? (cti_gemm_epilogue){.bias = bias}
                         : (cti_gemm_epilogue){.add = true, .apply = apply});
    }
}
END_TEST

int main(void) {
    int isas = 0;
    while (cti_isa_at(isas)) isas++;
    return run_tests("gemm plans", NULL, NULL,
                     TESTS(TEST(plans), TEST(order_of_sums), LOOP(rows_beside_rows, 3 * isas)));
}
