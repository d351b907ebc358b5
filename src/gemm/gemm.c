/* This file carries out plans; gemm_blocked.c does that for the kinds blocked and split-K. */
#include "gemm.h"
#include "../core/isa.h"
#include "../kernels/elementwise.h"
#include "../kernels/products.h"

#include "../core/int_math.h"
#include "gemm_blocked.h"
#include "gemm_plan.h"
#include "gemm_range.h"
#include "gemm_widened.h"

#include <string.h>

/* The inputs of the tasks of a product. */
typedef struct {
    const cti_gemm_args *g;
    const cti_gemm_plan *plan;
    const cti_gemm_kernels *kernels;
    int64_t across; /* gemv and dots: the number of tasks of nc columns that make all n columns */
} planned_product;

static bool adds_to_c(const cti_gemm_args *g) { return g->epilogue && g->epilogue->add; }

/* ---- K = 0 ---- */

static void zero_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const planned_product *r = arg;
    const cti_gemm_args *g = r->g;
    const int64_t size = (int64_t)cti_dtype_size(g->c.dtype),
                  cols = g->c.col == 1 ? g->n : 1; /* cleared by one memset */
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t matrix = i / g->m, row = i % g->m;
        for (int64_t col = 0; col < g->n && !adds_to_c(g); col += cols)
            memset(cti_matrix_at(&g->c, matrix, row, col), 0, (size_t)(cols * size));
        cti_gemm_apply(g, r->plan, matrix, row, 0, 1, g->n);
    }
}

/* ---- gemv, dots ---- */

/* A task is nc columns of all rows of one matrix. */
static void gemm_columns_task(void *arg, int64_t begin, int64_t end, int worker) {
    const planned_product *r = arg;
    const cti_gemm_args *g = r->g;
    const cti_matrix *a = &g->a, *b = &g->b, *c = &g->c;
    const int64_t across = r->across;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        CTI_ASSERT(r->plan->kc <= r->kernels->kc || r->plan->kind == CTI_GEMM_DOTS);
        const int64_t matrix = i / across, n = i % across * r->plan->nc,
                      cols = cti_min(r->plan->nc, g->n - n);
        void *to = cti_matrix_at(c, matrix, 0, n);
        for (int64_t k = 0; k < g->k; k += r->plan->kc) {
            const int64_t kl = cti_min(r->plan->kc, g->k - k);
            const bool blocks = cti_is_blocks(b->dtype);
            const cti_gemm_rows rows = {.m = g->m,
                                        .n = cols,
                                        .k = kl,
                                        .a_row = a->row,
                                        .a_col = a->col,
                                        .b_row = b->row,
                                        .b_col = b->col,
                                        .b_first = !blocks                    ? 0
                                                   : cti_lines_are_columns(b) ? k
                                                                              : n,
                                        .row = c->row,
                                        .col = c->col,
                                        .a = cti_matrix_at(a, matrix, 0, k),
                                        .b = blocks ? cti_line_at(b, k, n)
                                                    : cti_matrix_at(b, matrix, k, n),
                                        .c = to,
                                        .alpha = g->alpha,
                                        .add = k > 0 || adds_to_c(g)};
            if (r->plan->kind == CTI_GEMM_GEMV) r->kernels->gemv(&rows);
            else r->kernels->dots(&rows);
        }
        cti_gemm_apply(g, r->plan, matrix, 0, n, g->m, cols);
    }
}

/* ---- direct ---- */

static void direct_product(const planned_product *r) {
    const cti_gemm_args *g = r->g;
    const int64_t panel = r->kernels->nr * (int64_t)cti_dtype_size(g->b.dtype);
    for (int64_t k = 0; k < g->k; k += r->plan->kc) {
        const int64_t kl = cti_min(r->plan->kc, g->k - k);
        cti_gemm_macro_kernel(r->kernels, g, k, kl, cti_matrix_at(&g->b, 0, k, 0), g->b.row, panel,
                              k > 0 || adds_to_c(g));
    }
    cti_gemm_apply(g, r->plan, 0, 0, 0, g->m, g->n);
}

/* Computes a direct product with all K blocks of B packed on the stack. It is not inlined, because
 * other products do not need this stack frame of 20 KB. */
__attribute__((noinline)) static void direct_product_packed(const cti_isa *isa,
                                                            const cti_gemm_args *g, int64_t kc) {
    _Alignas(CTI_ALIGN) char packed[CTI_GEMM_STACK_B];
    const cti_gemm_kernels *kernels = cti_gemm_kernels_of(isa, g);
    const int64_t nr = kernels->nr, row = nr * kernels->packed_bytes;
    CTI_ASSERT(cti_round_up(g->n, nr) * g->k * kernels->packed_bytes <= CTI_GEMM_STACK_B);
    kernels->pack_b(g->k, g->n, g->b.data, g->b.row, g->b.col, packed);
    for (int64_t k = 0; k < g->k; k += kc)
        cti_gemm_macro_kernel(kernels, g, k, cti_min(kc, g->k - k), packed + k * row, nr,
                              row * g->k, k > 0 || adds_to_c(g));
}

/* ---- small products ---- */

bool cti_gemm_small(ct_context *context, const cti_gemm_args *g) {
    if (g->a.dtype == CT_BF16 || cti_is_blocks(g->b.dtype)) return cti_gemm_planned(context, g);
    const cti_gemm_kernels *kernels = cti_gemm_kernels_of(context->isa, g);
    const cti_gemm_tuning *t = &kernels->tuning;
    const cti_gemm_epilogue *e = g->epilogue;
    const int64_t size = (int64_t)cti_dtype_size(cti_gemm_computed_type(g));
    const int64_t packed_bytes = (g->n + kernels->nr) * g->k * size;
    const bool gemv = g->m == 1 && g->n > 0 && g->n * g->k <= t->row_task_flops && !(e && e->bias);
    /* With few rows for their K, dot products may be faster: the plan decides (is_dots). */
    const bool packed = g->m > 1 && g->n > 1 && g->c.col == 1 && packed_bytes <= CTI_GEMM_STACK_B &&
                        g->m * t->dots_k_per_m > g->k && context->rows == CTI_ROWS_ANY;
    if (gemv)
        kernels->gemv(&(cti_gemm_rows){.m = 1,
                                       .n = g->n,
                                       .k = g->k,
                                       .a_row = g->a.row,
                                       .a_col = g->a.col,
                                       .b_row = g->b.row,
                                       .b_col = g->b.col,
                                       .row = g->c.row,
                                       .col = g->c.col,
                                       .a = g->a.data,
                                       .b = g->b.data,
                                       .c = g->c.data,
                                       .alpha = g->alpha,
                                       .add = adds_to_c(g)});
    else if (packed) direct_product_packed(context->isa, g, g->k);
    else return cti_gemm_planned(context, g);
    if (e && e->apply) e->apply(e->arg, &g->c, g->m, g->n);
    return true;
}

void cti_gemm_count(ct_context *context, int64_t batch, int64_t m, int64_t n, int64_t k) {
    cti_profile_add_flops(context, 2 * (double)batch * (double)m * (double)n * (double)k);
}

/* ---- planned products ---- */

/* Sets every row of the C of the caller, not of C', to the bias. */
static void fill_with_bias(const cti_kernels *kernels, const cti_gemm_args *args) {
    for (int64_t i = 0; i < args->batch; i++)
        kernels->elementwise->copy2d(args->m, args->n, args->epilogue->bias, 0, 1,
                                     cti_matrix_at(&args->c, i, 0, 0), args->c.row, args->c.col,
                                     false);
}

/* Computes a product from copies of operands that no kernel reads directly. */
static bool planned_widened(ct_context *context, const cti_gemm_args *args, bool dense_a) {
    cti_gemm_widened wide;
    if (!cti_gemm_widen(context, args, dense_a, &wide)) return false;
    const bool done = cti_gemm_planned(context, &wide.args);
    cti_gemm_widened_end(context, &wide);
    return done;
}

/* Whether no kernel reads an A of bf16, or a B of bf16 or blocks, as this plan of the caller's
 * product wants it: kernels that split operands into terms look at f32 first, and gemv takes blocks
 * only as dense rows. */
static bool needs_wide_copies(const cti_gemm_args *args, const cti_gemm_plan *plan) {
    if (!cti_gemm_is_mixed(args)) return false;
    const bool blocks = cti_is_blocks(args->b.dtype), gemv = plan->kind == CTI_GEMM_GEMV;
    return args->a.dtype == CT_BF16 || plan->transposed ||
           (plan->rounded && plan->kernels->magnitudes) ||
           (blocks && gemv && (cti_lines_are_columns(&args->b) || args->c.col != 1));
}

bool cti_gemm_planned(ct_context *context, const cti_gemm_args *args) {
    if (args->batch <= 0 || args->m <= 0 || args->n <= 0) return true;
    const cti_kernels *kernels = context->isa->of[cti_gemm_computed_type(args)];
    const bool f32 = cti_gemm_computed_type(args) == CT_F32;
    cti_gemm_machine machine = {.kernels = cti_gemm_kernels_of(context->isa, args),
                                .rounded = f32 ? context->rounded : NULL,
                                .l2_bytes = context->l2_bytes,
                                .l1d_ways = context->l1d_ways,
                                .threads = cti_parallel_width(context),
                                .rows = context->rows};
    cti_gemm_plan plan;
    cti_gemm_args transposed, onto_bias;
    cti_gemm_epilogue add;
    const cti_gemm_args *g = cti_gemm_plan_make(args, &machine, &plan, &transposed);
    const bool sparse_dots = plan.kind == CTI_GEMM_DOTS && g->a.col != 1;
    if (sparse_dots || needs_wide_copies(args, &plan))
        return planned_widened(context, args, sparse_dots);
    if (plan.rounded && plan.kernels->magnitudes && !cti_gemm_in_range(context, g, plan.kernels)) {
        machine.rounded = NULL;
        g = cti_gemm_plan_make(args, &machine, &plan, &transposed);
    }
    if (plan.bias_first) {
        fill_with_bias(kernels, args);
        add = (cti_gemm_epilogue){
            .add = true, .apply = args->epilogue->apply, .arg = args->epilogue->arg};
        onto_bias = *g;
        onto_bias.epilogue = &add;
        g = &onto_bias;
    }
    planned_product run = {.g = g, .plan = &plan, .kernels = machine.kernels};
    switch (plan.kind) {
    case CTI_GEMM_ZERO:
        cti_parallel(context, g->batch * g->m,
                     cti_ceil_div(kernels->gemm->tuning.zero_task_elements, g->n), zero_rows, &run);
        return true;
    case CTI_GEMM_GEMV:
    case CTI_GEMM_DOTS:
        run.across = cti_ceil_div(g->n, plan.nc);
        cti_parallel(context, g->batch * run.across, plan.grain, gemm_columns_task, &run);
        return true;
    case CTI_GEMM_DIRECT:
        if (plan.b == CTI_B_IN_PLACE) {
            direct_product(&run);
            return true;
        }
        direct_product_packed(context->isa, g, plan.kc);
        cti_gemm_apply(g, &plan, 0, 0, 0, g->m, g->n);
        return true;
    case CTI_GEMM_BLOCKED:
    case CTI_GEMM_SPLIT_K: return cti_gemm_blocked(context, g, &plan);
    }
    return true;
}
