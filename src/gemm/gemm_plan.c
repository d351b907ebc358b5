/* A product is planned in this order: whether it is computed transposed; the length of a K block;
 * the kind; and, for blocked products, which operands are packed by which threads, and which tiles
 * of C are tasks. All thresholds and their measurements are in the tuning table
 * (src/kernels/gemm_tuning_tmpl.h). */
#include "gemm_plan.h"
#include "../kernels/products.h"

#include "../core/cache_sets.h"
#include "../core/int_math.h"

/* The inputs of every decision. */
typedef struct {
    const cti_gemm_args *g;
    const cti_gemm_machine *machine;
    const cti_gemm_kernels *kernels;
    const cti_gemm_tuning *tuning;
    int64_t size; /* the bytes of an element of the computed type */
} plan_problem;

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }
/* Returns the multiply-adds of a product, as a double because int64_t might overflow. */
static double multiply_adds(int64_t a, int64_t b, int64_t c) {
    return (double)a * (double)b * (double)c;
}

/* Returns C' = B' A'. */
static cti_gemm_args transposed_of(const cti_gemm_args *g) {
    return (cti_gemm_args){.batch = g->batch,
                           .m = g->n,
                           .n = g->m,
                           .k = g->k,
                           .alpha = g->alpha,
                           .a = cti_matrix_transposed(&g->b),
                           .b = cti_matrix_transposed(&g->a),
                           .c = cti_matrix_transposed(&g->c),
                           .epilogue = g->epilogue};
}

/* ---- the order of sums: by sizes, strides and the ISA, never by caches or threads ---- */

static bool is_transposed(const cti_gemm_args *g, cti_rows rows) {
    return rows == CTI_ROWS_ANY && g->m > 1 && (g->n == 1 || (g->c.col != 1 && g->c.row == 1));
}

/* There are as few K blocks as the kc of the kernels allows. All but the last have the same length,
 * a multiple of 8 and of the padding of panels. A product that split-K could compute has at least
 * two, even on one thread, so that its bits are the same as with split-K. */
static int64_t plan_k_block(const plan_problem *p) {
    const cti_gemm_args *g = p->g;
    const cti_rows rows = p->machine->rows;
    const int64_t m = rows == CTI_ROWS_ONE ? 1 : g->m;
    const bool may_split = rows != CTI_ROWS_MANY && g->k >= CTI_GEMM_DEEP && g->k > m &&
                           g->k > g->n && m <= p->tuning->split_k_c_bytes / p->size / g->n;
    if (!may_split && g->k <= p->kernels->kc) return g->k;
    const int64_t count = cti_max(cti_ceil_div(g->k, p->kernels->kc), may_split ? 2 : 1);
    return cti_round_up(cti_ceil_div(g->k, count), cti_max(8, p->kernels->k_unit));
}

/* Returns whether A and B are rounded, which must be allowed and pay off. Both are then packed. A
 * product that is small enough to be direct is not rounded in a batch either: its bits are the same
 * with and without a batch. With CTI_ROWS_MANY no product counts as small. Kernels that look at
 * magnitudes are then not used: the numbers of one row could refuse them for all rows. */
static bool plan_is_rounded(const plan_problem *p) {
    const cti_gemm_args *g = p->g;
    const cti_gemm_kernels *rounded = p->machine->rounded;
    if (!rounded || p->machine->rows == CTI_ROWS_ONE) return false;
    if (p->machine->rows == CTI_ROWS_MANY)
        return !rounded->magnitudes && g->n >= rounded->tuning.rounded_lines;
    return cti_min(g->m, g->n) >= rounded->tuning.rounded_lines &&
           multiply_adds(g->m, g->n, g->k) > (double)rounded->tuning.rounded_flops;
}

/* Returns whether C is computed as dot products along K: A and B are dense along K, and there are
 * so few rows that adding up the lanes of each sum costs less than packing B. */
static bool is_dots(const plan_problem *p) {
    const cti_gemm_args *g = p->g;
    if (g->b.col == 1 || g->b.row != 1 || p->machine->rows == CTI_ROWS_MANY) return false;
    return p->machine->rows == CTI_ROWS_ONE || (g->a.col == 1 && g->m <= p->tuning->dots_max_m &&
                                                g->m <= g->k / p->tuning->dots_k_per_m);
}

static cti_gemm_kind sum_kind(const plan_problem *p) {
    if (p->g->k <= 0) return CTI_GEMM_ZERO;
    if (is_dots(p) && !plan_is_rounded(p)) return CTI_GEMM_DOTS;
    return p->g->m == 1 && p->machine->rows != CTI_ROWS_MANY ? CTI_GEMM_GEMV : CTI_GEMM_BLOCKED;
}

/* ---- gemv, dots ---- */

/* A task is nc columns of all rows of C. nc is doubled until a task has row_task_flops; if all n
 * columns together have fewer, a worker takes several tasks (of a batch) at once. */
static void plan_rows(const plan_problem *p, cti_gemm_plan *plan) {
    const cti_gemm_args *g = p->g;
    const double least = (double)p->tuning->row_task_flops;
    const bool dots = plan->kind == CTI_GEMM_DOTS;
    const int64_t share = g->n / (p->tuning->dots_tasks_per_thread * p->machine->threads);
    plan->nc = dots ? p->tuning->dots_columns : p->tuning->gemv_task_columns;
    while (plan->nc < g->n && multiply_adds(plan->nc, g->m, g->k) < least) plan->nc *= 2;
    while (dots && plan->nc <= share / 2) plan->nc *= 2;
    const double flops = multiply_adds(cti_min(plan->nc, g->n), g->m, g->k);
    plan->grain = flops < least ? (int64_t)(least / flops) : 1;
}

/* ---- direct ---- */

static bool plan_direct(const plan_problem *p, cti_gemm_plan *plan) {
    const cti_gemm_args *g = p->g;
    if (g->batch != 1 || !cti_gemm_is_small(g->m, g->n, g->k) || plan_is_rounded(p)) return false;
    if (cti_is_blocks(g->b.dtype)) return false;
    if (g->b.col == 1 && g->b.dtype != CT_BF16) plan->b = CTI_B_IN_PLACE;
    else if ((g->n + p->kernels->nr) * g->k * p->size <= CTI_GEMM_STACK_B) plan->b = CTI_B_ON_STACK;
    else return false;
    plan->kind = CTI_GEMM_DIRECT;
    return true;
}

/* ---- blocked, split-K ---- */

/* Returns whether B is read in place. It must be of the computed type, and its rows dense. Then
 * packing does not pay if few tiles of rows of A read it, or if all of it stays in L2 and its rows
 * do not cause conflict misses in L1d. */
static bool b_stays_in_place(const plan_problem *p) {
    const cti_gemm_args *g = p->g;
    const cti_gemm_tuning *t = p->tuning;
    if (g->b.col != 1 || cti_gemm_is_mixed(g)) return false;
    if (g->m <= t->b_in_place_tiles * p->kernels->mr) return true;
    const int64_t stride = magnitude(g->b.row) * (int64_t)cti_dtype_size(g->b.dtype);
    const int64_t offsets = cti_l1d_offsets(stride);
    if (stride > p->machine->l2_bytes / 8 * t->b_in_place_l2_eighths / g->k) return false;
    return g->k <= t->b_rows_per_l1d_set * offsets ||
           (offsets > t->b_conflict_offsets &&
            g->m <= t->b_in_place_tiles_conflicts * p->kernels->mr);
}

/* Returns whether A is packed. Each panel of B reads all of A again. In place that is slow if A's
 * lines evict each other (conflict misses), or if its columns are so far apart that each line has
 * one element of a row tile. Packing pays if C has more panels than the table has for A's
 * strides. */
static bool a_is_packed(const plan_problem *p, int64_t kc) {
    const cti_gemm_args *g = p->g;
    const cti_gemm_pack_a_panels *limit =
        &p->tuning->a_panels[p->machine->l1d_ways > p->tuning->a_few_ways];
    const int64_t nr = p->kernels->nr, size = (int64_t)cti_dtype_size(g->a.dtype);
    const int64_t row = magnitude(g->a.row) * size, col = magnitude(g->a.col) * size;
    if (g->a.col == 1) return cti_l1d_offsets(row) == 1 && g->n > limit->rows_set_1 * nr;
    if (col <= p->tuning->a_stride_bytes) return false;
    const int64_t offsets = cti_l1d_offsets(col);
    int64_t panels = offsets <= 2 ? limit->sets_2 : offsets <= 16 ? limit->sets_16 : limit->strided;
    if (offsets == 1 && col > p->machine->l2_bytes / cti_min(g->k, kc))
        panels = limit->set_1_beyond_l2;
    return g->n > panels * nr;
}

static int64_t plan_k_blocks(const cti_gemm_plan *plan) {
    return plan->kind == CTI_GEMM_SPLIT_K ? cti_ceil_div(plan->k_pass, plan->kc) : 1;
}

/* Returns the multiply-adds of a task. */
static double task_flops(const cti_gemm_plan *plan) {
    return multiply_adds(plan->mc, plan->nc,
                         plan->kind == CTI_GEMM_SPLIT_K ? plan->kc : plan->k_pass);
}

static int64_t task_count(const plan_problem *p, const cti_gemm_plan *plan) {
    return plan_k_blocks(plan) * plan->batch_pass * cti_ceil_div(plan->m_pass, plan->mc) *
           cti_ceil_div(p->g->n, plan->nc);
}

/* Returns whether the tile divides the pass evenly among the threads. Each thread must have several
 * tasks, so that a thread that starts late costs little. And the work must be at least min_useful
 * of the work that all threads could do in as many rounds: the rest of their time goes to tiles
 * that are cut off at an edge, and to threads without a task in the last round. */
static bool is_balanced(const plan_problem *p, const cti_gemm_plan *plan) {
    const int threads = p->machine->threads;
    const int64_t count = task_count(p, plan), rounds = cti_ceil_div(count, threads);
    const double work =
        (double)(plan_k_blocks(plan) * plan->batch_pass) * (double)plan->m_pass * (double)p->g->n;
    const double least = p->tuning->min_useful * (double)rounds * (double)threads *
                         (double)plan->mc * (double)plan->nc;
    return count >= p->tuning->tasks_per_thread * threads && work >= least;
}

/* Chooses the tile mc x nc. It starts as all rows of the pass by all columns. If each worker packs
 * B, it starts with only as many columns as fit into the worker's eighths of L2 when they are
 * packed. With one thread this is the tile. With several, the tile shrinks until it is balanced or
 * has fewer than 2 task_flops:
 * 1. mc is halved: each thread then has its own rows of A and C in its own L2. If each worker packs
 *    B, this stops at mc_min_tiles_private_b, because packing pays off only over many rows.
 * 2. nc shrinks by an eighth at a time, at least by a panel, down to nc_min_panels.
 * 3. mc is halved again, down to mc_min_tiles. */
static void choose_tile(const plan_problem *p, cti_gemm_plan *plan) {
    const cti_gemm_tuning *t = p->tuning;
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr, n = p->g->n;
    const bool private_b = plan->b == CTI_B_PER_WORKER;
    plan->mc = plan->m_pass;
    plan->nc = cti_round_up(n, nr);
    if (private_b) {
        const int64_t depth = plan->kind == CTI_GEMM_SPLIT_K ? plan->kc : plan->k_pass;
        const int64_t fits = p->machine->l2_bytes / 8 * t->b_panels_l2_eighths /
                             cti_gemm_packed(p->kernels, depth) / nr * nr;
        plan->nc = cti_round_up(cti_ceil_div(n, cti_ceil_div(n, cti_max(fits, nr))), nr);
    }
    if (p->machine->threads == 1) return;
    while (task_flops(plan) > 2 * (double)t->task_flops && !is_balanced(p, plan)) {
        if (plan->mc > (private_b ? t->mc_min_tiles_private_b : t->mc_min_tiles) * mr)
            plan->mc = cti_round_up(cti_ceil_div(plan->mc, 2), mr);
        else if (plan->nc > t->nc_min_panels * nr)
            plan->nc = cti_min(cti_round_up(plan->nc / 8 * 7, nr), plan->nc - nr);
        else if (plan->mc > t->mc_min_tiles * mr)
            plan->mc = cti_round_up(cti_ceil_div(plan->mc, 2), mr);
        else break;
    }
}

/* Returns whether threads may share the K blocks. Split-K stores the sum of each K block and adds
 * these sums to C in order. It has the bits of a blocked product only for alpha 1: with another
 * alpha the micro-kernel may round alpha * sum + C once (FMA), whereas split-K rounds twice. A
 * product with an apply is not split, because no task of split-K completes a tile of C. */
static bool plan_is_split_k(const plan_problem *p, int64_t kc, int64_t k_pass) {
    const cti_gemm_args *g = p->g;
    const bool applies = g->epilogue && g->epilogue->apply;
    return g->alpha == 1 && k_pass > kc && g->c.col == 1 && !applies &&
           g->m * g->n * p->size <= p->tuning->split_k_c_bytes;
}

static void plan_packing(const plan_problem *p, bool several_threads, cti_gemm_plan *plan) {
    const cti_gemm_args *g = p->g;
    const cti_gemm_tuning *t = p->tuning;
    const int64_t mr = p->kernels->mr, nr = p->kernels->nr;
    const int64_t row = cti_gemm_packed(p->kernels, plan->k_pass), panel = mr * row;
    const bool split_k = plan->kind == CTI_GEMM_SPLIT_K;
    plan->pack_a = plan->rounded || (!split_k && a_is_packed(p, plan->kc));
    const bool share = several_threads && !split_k &&
                       g->m >= t->b_shared_tiles * p->machine->threads * mr &&
                       cti_round_up(g->n, nr) <= t->b_shared_bytes / row;
    plan->b = !plan->rounded && b_stays_in_place(p) ? CTI_B_IN_PLACE
              : share                               ? CTI_B_SHARED
                                                    : CTI_B_PER_WORKER;
    plan->m_pass = g->m;
    plan->batch_pass = g->batch;
    if (!plan->pack_a) return;
    const int64_t bytes = p->machine->l2_bytes / 8 * t->a_l2_eighths;
    plan->m_pass = cti_min(g->m, cti_ceil_div(bytes, panel) * mr);
    plan->batch_pass =
        cti_min(g->batch, cti_ceil_div(bytes, cti_ceil_div(plan->m_pass, mr) * panel));
}

static void plan_workspace(const plan_problem *p, cti_gemm_plan *plan) {
    const cti_gemm_args *g = p->g;
    const bool split_k = plan->kind == CTI_GEMM_SPLIT_K;
    if (plan->pack_a)
        plan->a_bytes = cti_round_up(plan->batch_pass * cti_round_up(plan->m_pass, p->kernels->mr) *
                                         cti_gemm_packed(p->kernels, plan->k_pass),
                                     CTI_ALIGN);
    if (plan->b != CTI_B_IN_PLACE) {
        const int64_t columns =
            cti_round_up(plan->b == CTI_B_SHARED ? g->n : plan->nc, p->kernels->nr);
        plan->b_bytes = cti_round_up(
            columns * cti_gemm_packed(p->kernels, split_k ? plan->kc : plan->k_pass), CTI_ALIGN);
    }
    if (split_k) plan->sum_bytes = (plan_k_blocks(plan) - 1) * g->m * g->n * p->size;
}

static void plan_blocked(plan_problem *p, cti_gemm_plan *plan) {
    if (plan_is_rounded(p)) {
        plan->rounded = true;
        p->kernels = plan->kernels = p->machine->rounded;
        p->tuning = &p->kernels->tuning;
        plan->kc = plan_k_block(p);
    }
    const cti_gemm_args *g = p->g;
    const int threads = p->machine->threads;
    const double least = (double)p->tuning->task_flops;
    const bool several_threads =
        threads > 1 && g->batch == 1 && multiply_adds(g->m, g->n, g->k) > 2 * least;
    const int64_t split_k_pass =
        cti_min(g->k, p->tuning->split_k_pass_bytes / (plan->kc * p->size) * plan->kc);
    const bool split_k = several_threads && plan_is_split_k(p, plan->kc, split_k_pass);
    plan->kind = split_k ? CTI_GEMM_SPLIT_K : CTI_GEMM_BLOCKED;
    plan->k_pass = split_k ? split_k_pass : cti_min(g->k, plan->kc);
    plan_packing(p, several_threads, plan);
    choose_tile(p, plan);
    const double flops = task_flops(plan);
    plan->grain = flops < least ? (int64_t)(least / flops) : 1;
    plan->workers = task_count(p, plan) > plan->grain ? threads : 1;
    plan_workspace(p, plan);
}

/* ---- the plan ---- */

/* The fields are set one by one, which compiles to six vector stores. (cti_gemm_plan){0} compiles
 * to rep stos, which takes longer than all of the planning for a vector times a small matrix. */
static void clear_plan(cti_gemm_plan *plan) {
    plan->kind = CTI_GEMM_ZERO;
    plan->transposed = plan->bias_first = plan->rounded = plan->pack_a = false;
    plan->b = CTI_B_IN_PLACE;
    plan->kc = plan->mc = plan->nc = plan->grain = 0;
    plan->k_pass = plan->m_pass = plan->batch_pass = 0;
    plan->a_bytes = plan->b_bytes = plan->sum_bytes = 0;
    plan->workers = 1;
}

/* These are the invariants of gemm_plan.h, on which gemm.c and gemm_blocked.c rely. */
static void check_order_of_sums(const plan_problem *p, const cti_gemm_plan *plan) {
    const int64_t k = p->g->k, unit = cti_max(8, plan->kernels->k_unit);
    CTI_ASSERT((plan->kind == CTI_GEMM_ZERO) == (k <= 0));
    CTI_ASSERT(plan->kind != CTI_GEMM_GEMV || p->g->m == 1);
    CTI_ASSERT(plan->kind != CTI_GEMM_DOTS ||
               ((p->g->a.col == 1 || p->machine->rows == CTI_ROWS_ONE) && p->g->b.row == 1));
    CTI_ASSERT(!plan->transposed || p->machine->rows == CTI_ROWS_ANY);
    if (plan->kind == CTI_GEMM_ZERO || plan->kind == CTI_GEMM_DOTS) return;
    CTI_ASSERT(plan->kc > 0 && plan->kc <= plan->kernels->kc);
    CTI_ASSERT(plan->kc == k || plan->kc % unit == 0);
}

static void check_blocked(const plan_problem *p, const cti_gemm_plan *plan) {
    const cti_gemm_args *g = p->g;
    const int64_t mr = plan->kernels->mr, nr = plan->kernels->nr;
    const bool split_k = plan->kind == CTI_GEMM_SPLIT_K;
    CTI_ASSERT(plan->mc > 0 && (plan->mc == plan->m_pass || plan->mc % mr == 0));
    CTI_ASSERT(plan->nc > 0 && plan->nc % nr == 0);
    CTI_ASSERT(plan->grain > 0 && plan->workers > 0);
    CTI_ASSERT(plan->workers == 1 || plan->workers == p->machine->threads);
    CTI_ASSERT(plan->m_pass > 0 && (plan->m_pass == g->m || plan->m_pass % mr == 0));
    CTI_ASSERT(plan->batch_pass > 0 && plan->batch_pass <= g->batch);
    CTI_ASSERT(plan->pack_a || (plan->m_pass == g->m && plan->batch_pass == g->batch));
    CTI_ASSERT(split_k ? plan->k_pass > plan->kc : plan->k_pass <= plan->kc);
    CTI_ASSERT(plan->k_pass == g->k || plan->k_pass % plan->kc == 0);
    CTI_ASSERT(!split_k || (g->batch == 1 && g->alpha == 1 && g->c.col == 1));
    CTI_ASSERT(!plan->rounded || (plan->pack_a && plan->b != CTI_B_IN_PLACE));
    CTI_ASSERT(plan->b != CTI_B_ON_STACK && (plan->b != CTI_B_SHARED || g->batch == 1));
    CTI_ASSERT(plan->a_bytes % CTI_ALIGN == 0 && plan->b_bytes % CTI_ALIGN == 0);
    CTI_ASSERT(plan->pack_a == (plan->a_bytes > 0));
}

const cti_gemm_args *cti_gemm_plan_make(const cti_gemm_args *args, const cti_gemm_machine *machine,
                                        cti_gemm_plan *plan, cti_gemm_args *transposed) {
    plan_problem p = {.g = args,
                      .machine = machine,
                      .kernels = machine->kernels,
                      .tuning = &machine->kernels->tuning,
                      .size = (int64_t)cti_dtype_size(cti_gemm_computed_type(args))};
    clear_plan(plan);
    plan->kernels = p.kernels;
    plan->transposed = is_transposed(args, machine->rows);
    if (plan->transposed) {
        *transposed = transposed_of(args);
        p.g = transposed;
    }
    plan->kc = plan_k_block(&p);
    plan->kind = sum_kind(&p);
    if (plan->kind == CTI_GEMM_DOTS) plan->kc = p.g->k;
    const bool bias = args->epilogue && args->epilogue->bias && !args->epilogue->add;
    plan->bias_first =
        bias && (plan->transposed || p.g->c.col != 1 || plan->kind != CTI_GEMM_BLOCKED);
    if (plan->kind == CTI_GEMM_GEMV || plan->kind == CTI_GEMM_DOTS) plan_rows(&p, plan);
    else if (plan->kind == CTI_GEMM_BLOCKED && !plan_direct(&p, plan)) plan_blocked(&p, plan);
    check_order_of_sums(&p, plan);
    if (plan->kind == CTI_GEMM_BLOCKED || plan->kind == CTI_GEMM_SPLIT_K) check_blocked(&p, plan);
    return p.g;
}
