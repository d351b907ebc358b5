/* Blocked and split-K products, by the loops of Goto & van de Geijn around the micro-kernel:
 *
 *     for each k_pass of K                  packs a shared B, by all threads
 *       for each batch_pass of matrices
 *         for each m_pass of rows           packs A, by all threads, if pack_a
 *           for each task, on all threads   a tile of C (mc x nc), for split-K also a K block
 *                                           packs its own panels of B
 *             for each mr rows of the task  one call of the macro-kernel over the panels of B
 *       adds split-K's partial sums
 *
 * mr rows of A stay in L1d while the panels of B stream from L2. An element of C is summed over k
 * in order within a K block, and K blocks are added in order, so neither tiles nor threads change
 * its bits. */
#include "gemm_blocked.h"
#include "../core/isa.h"
#include "../kernels/elementwise.h"
#include "../kernels/products.h"

#include "../core/int_math.h"

/* A product that is being computed. */
typedef struct {
    const cti_gemm_args *g;
    const cti_gemm_plan *plan;
    const cti_gemm_kernels *kernels; /* the kernels of the plan */
    cti_binary *add;                 /* y = a + b in the computed type */
    void (*widen)(int64_t n, const void *x,
                  void *y);         /* bf16 to f32, if B is of bf16 and rounded; or NULL */
    const cti_gemm_kernels *blocks; /* kernels that widen a B of blocks; else NULL */
    int64_t size;                   /* the bytes of an element of the computed type */
    /* The workspace: packed A; packed B, one copy for all workers or one for each; partial sums,
     * each a dense m x n matrix. */
    char *packed_a, *packed_b, *sums;
    /* The ranges of this pass: K [k0, k0 + kl), matrices [matrix0, matrix0 + matrices), rows [m0,
     * m0 + ml). */
    int64_t k0, kl, matrix0, matrices, m0, ml;
} blocked_product;

static bool blocked_is_split_k(const blocked_product *r) {
    return r->plan->kind == CTI_GEMM_SPLIT_K;
}
static int64_t blocked_k_blocks(const blocked_product *r) {
    return blocked_is_split_k(r) ? cti_ceil_div(r->kl, r->plan->kc) : 1;
}

/* ---- packing ---- */

/* Returns the address of row m of a matrix in packed A, which has panels of mr rows and kl columns.
 * m - m0 is a multiple of mr. */
static char *packed_rows(const blocked_product *r, int64_t matrix, int64_t m) {
    CTI_ASSERT(m >= r->m0 && m < r->m0 + r->ml && (m - r->m0) % r->kernels->mr == 0);
    CTI_ASSERT(matrix >= r->matrix0 && matrix < r->matrix0 + r->matrices);
    return r->packed_a +
           ((matrix - r->matrix0) * cti_round_up(r->ml, r->kernels->mr) + (m - r->m0)) *
               cti_gemm_packed(r->kernels, r->kl);
}

static void pack_a_task(void *arg, int64_t begin, int64_t end, int worker) {
    const blocked_product *r = arg;
    const cti_matrix *a = &r->g->a;
    const int64_t rows = r->kernels->tuning.a_task_tiles * r->kernels->mr,
                  tasks = cti_ceil_div(r->ml, rows); /* tasks of a matrix */
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const int64_t matrix = r->matrix0 + i / tasks, at = i % tasks * rows, m = r->m0 + at;
        r->kernels->pack_a(cti_min(rows, r->ml - at), r->kl, cti_matrix_at(a, matrix, m, r->k0),
                           a->row, a->col, packed_rows(r, matrix, m));
    }
}

/* Packs k x n of a B of bf16 by kernels that round f32: a chunk of a panel at a time is converted
 * to f32, which stays in L1d, and packed from f32. */
static void pack_widened(const blocked_product *r, int64_t k, int64_t n, const char *from,
                         char *packed) {
    enum {
        K_CHUNK = 128
    }; /* a multiple of every k_unit, so that chunks of a panel lie one behind
        * the other */
    const cti_matrix *b = &r->g->b;
    const int64_t nr = r->kernels->nr, row = b->row * (int64_t)sizeof(uint16_t),
                  col = b->col * (int64_t)sizeof(uint16_t);
    float wide[CTI_GEMM_ROUNDED_NR * K_CHUNK];
    CTI_ASSERT(nr <= CTI_GEMM_ROUNDED_NR && K_CHUNK % r->kernels->k_unit == 0);
    for (int64_t j = 0; j < n; j += nr, packed += nr * cti_gemm_packed(r->kernels, k)) {
        const int64_t columns = cti_min(nr, n - j);
        for (int64_t p = 0; p < k; p += K_CHUNK) {
            const int64_t chunk = cti_min(K_CHUNK, k - p);
            const char *at = from + p * row + j * col;
            for (int64_t i = 0; b->row == 1 && i < columns; i++)
                r->widen(chunk, at + i * col, wide + i * K_CHUNK);
            for (int64_t q = 0; b->row != 1 && q < chunk; q++)
                for (int64_t i = 0; i < columns; i += b->col == 1 ? columns : 1)
                    r->widen(b->col == 1 ? columns : 1, at + q * row + i * col, wide + q * nr + i);
            r->kernels->pack_b(chunk, columns, wide, b->row == 1 ? 1 : nr,
                               b->row == 1 ? K_CHUNK : 1,
                               packed + nr * cti_gemm_packed(r->kernels, p));
        }
    }
}

/* Packs rows [k0, k0 + k) and columns [n0, n0 + n) of a B of blocks, by kernels that pack f32. As
 * in pack_widened, a chunk of a panel is in f32 for a moment. */
static void pack_blocks(const blocked_product *r, int64_t k0, int64_t k, int64_t n0, int64_t n,
                        char *packed) {
    enum { K_CHUNK = 128 };
    const cti_matrix *b = &r->g->b;
    const int64_t nr = r->kernels->nr, length = cti_line_length(b);
    const bool columns = cti_lines_are_columns(b);
    float wide[CTI_GEMM_BLOCKS_NR * K_CHUNK];
    CTI_ASSERT(nr <= CTI_GEMM_BLOCKS_NR && K_CHUNK % r->kernels->k_unit == 0);
    for (int64_t j = 0; j < n; j += nr, packed += nr * cti_gemm_packed(r->kernels, k)) {
        const int64_t panel = cti_min(nr, n - j);
        for (int64_t p = 0; p < k; p += K_CHUNK) {
            const int64_t chunk = cti_min(K_CHUNK, k - p), row = k0 + p, col = n0 + j;
            for (int64_t i = 0; columns && i < panel; i++)
                r->blocks->widen(length, cti_line_at(b, row, col + i), row, chunk,
                                 wide + i * K_CHUNK);
            for (int64_t i = 0; !columns && i < chunk; i++)
                r->blocks->widen(length, cti_line_at(b, row + i, col), col, panel, wide + i * nr);
            r->kernels->pack_b(chunk, panel, wide, columns ? 1 : nr, columns ? K_CHUNK : 1,
                               packed + nr * cti_gemm_packed(r->kernels, p));
        }
    }
}

/* Packs k rows from row k0 on, and n columns from column n0 on, of one matrix of B. */
static void pack_panels_of_b(const blocked_product *r, int64_t matrix, int64_t k0, int64_t k,
                             int64_t n0, int64_t n, char *packed) {
    const cti_matrix *b = &r->g->b;
    if (r->blocks) {
        pack_blocks(r, k0, k, n0, n, packed);
        return;
    }
    const char *from = cti_matrix_at(b, matrix, k0, n0);
    if (r->widen) pack_widened(r, k, n, from, packed);
    else r->kernels->pack_b(k, n, from, b->row, b->col, packed);
}

/* Packs columns [begin, end) of the B that all threads share; begin is a multiple of nr. */
static void pack_b_task(void *arg, int64_t begin, int64_t end, int worker) {
    const blocked_product *r = arg;
    (void)worker;
    CTI_ASSERT(begin % r->kernels->nr == 0);
    pack_panels_of_b(r, 0, r->k0, r->kl, begin, end - begin,
                     r->packed_b + begin * cti_gemm_packed(r->kernels, r->kl));
}

/* ---- tasks ---- */

/* The terms that a task sums, K [k, k + kl) counted from the k0 of the pass, and the matrix to
 * which it writes the sums. */
typedef struct {
    int64_t k, kl;
    bool add;
    const char *bias;
    cti_matrix c;
} k_range;

static k_range k_range_of(const blocked_product *r, int64_t k_block) {
    const cti_gemm_args *g = r->g;
    const cti_gemm_epilogue *e = g->epilogue;
    const int64_t k = k_block * r->plan->kc;
    if (k_block > 0) { /* split-K: the block has a partial sum of its own */
        char *sums = r->sums + (k_block - 1) * g->m * g->n * r->size;
        const cti_matrix c = {.data = sums, .row = g->n, .col = 1, .dtype = g->c.dtype};
        return (k_range){.k = k, .kl = cti_min(r->plan->kc, r->kl - k), .c = c};
    }
    return (k_range){.k = 0,
                     .kl = blocked_is_split_k(r) ? cti_min(r->plan->kc, r->kl) : r->kl,
                     .add = r->k0 > 0 || (e && e->add),
                     .bias = e ? e->bias : NULL,
                     .c = g->c};
}

/* Columns [n, n + cols) of B over one K range, in place or as packed panels. */
typedef struct {
    const char *data;
    int64_t panel, row; /* bytes from one panel to the next; elements from one row to the next */
    int64_t n, cols;
    /* if the worker has packed them: the first element's offset in B by matrix, and its row; else
     * is_packed is false */
    bool is_packed;
    int64_t matrix, k;
} b_panels;

/* Returns the panels of the columns of a task, from n on. A B in place or shared is ready;
 * otherwise the worker packs the panels, unless the task before (`last`) had the same. */
static b_panels panels_of(const blocked_product *r, const k_range *k, int64_t matrix, int64_t n,
                          const b_panels *last, int worker) {
    const cti_matrix *b = &r->g->b;
    const int64_t nr = r->kernels->nr, cols = cti_min(r->plan->nc, r->g->n - n);
    if (r->plan->b == CTI_B_IN_PLACE)
        return (b_panels){.data = cti_matrix_at(b, matrix, r->k0 + k->k, n),
                          .panel = nr * (int64_t)cti_dtype_size(b->dtype),
                          .row = b->row,
                          .n = n,
                          .cols = cols};
    const bool shared = r->plan->b == CTI_B_SHARED;
    CTI_ASSERT(shared || worker < r->plan->workers);
    CTI_ASSERT(n % nr == 0);
    const int64_t column = cti_gemm_packed(r->kernels, k->kl);
    char *packed = r->packed_b + (shared ? n * column : worker * r->plan->b_bytes);
    const b_panels panels = {.data = packed,
                             .panel = nr * column,
                             .row = nr,
                             .n = n,
                             .cols = cols,
                             .is_packed = !shared,
                             .matrix = matrix * b->batch,
                             .k = r->k0 + k->k};
    if (!shared && !(last->is_packed && last->n == n && last->cols == cols &&
                     last->matrix == panels.matrix && last->k == panels.k))
        pack_panels_of_b(r, matrix, panels.k, k->kl, n, cols, packed);
    return panels;
}

/* Computes rows [m, m + rows) of C, at most mr of them, over the columns of the panels. */
static void multiply_rows(const blocked_product *r, const k_range *k, int64_t matrix, int64_t m,
                          int64_t rows, const b_panels *b) {
    const cti_matrix *a = &r->g->a;
    const bool packed = r->plan->pack_a;
    CTI_ASSERT(rows <= r->kernels->mr);
    const char *from =
        packed ? packed_rows(r, matrix, m) + r->kernels->mr * cti_gemm_packed(r->kernels, k->k)
               : cti_matrix_at(a, matrix, m, r->k0 + k->k);
    const cti_gemm_params params = {.k = k->kl,
                                    .a_row = packed ? 1 : a->row,
                                    .a_col = packed ? r->kernels->mr : a->col,
                                    .b_row = b->row,
                                    .row = k->c.row,
                                    .col = k->c.col,
                                    .base_row = k->add ? k->c.row : 0,
                                    .alpha = r->g->alpha};
    char *c = cti_matrix_at(&k->c, matrix, m, b->n);
    const char *base = k->add ? c : k->bias ? k->bias + b->n * r->size : NULL;
    r->kernels->macro_kernel(&params, rows, b->cols, from, b->data, b->panel, base, c);
    if (r->k0 + r->kl == r->g->k) cti_gemm_apply(r->g, r->plan, matrix, m, b->n, rows, b->cols);
}

/* Tasks that use the same panels of B are consecutive: first come all rows of a matrix, then all
 * matrices, which may share B. */
static void tile_task(void *arg, int64_t begin, int64_t end, int worker) {
    const blocked_product *r = arg;
    const int64_t mr = r->kernels->mr, mc = r->plan->mc, nc = r->plan->nc;
    const int64_t down = cti_ceil_div(r->ml, mc), across = cti_ceil_div(r->g->n, nc);
    b_panels b = {0};
    if (r->kernels->begin) r->kernels->begin();
    for (int64_t i = begin; i < end; i++) {
        const int64_t matrix = r->matrix0 + i / down % r->matrices, first = i % down * mc,
                      column = i / down / r->matrices;
        const k_range k = k_range_of(r, column / across);
        b = panels_of(r, &k, matrix, column % across * nc, &b, worker);
        for (int64_t m = first, last = cti_min(first + mc, r->ml); m < last; m += mr)
            multiply_rows(r, &k, matrix, r->m0 + m, cti_min(mr, last - m), &b);
    }
    if (r->kernels->end) r->kernels->end();
}

/* Adds rows [begin, end) of the partial sums of split-K to C, in the order of the K blocks. */
static void add_sums_task(void *arg, int64_t begin, int64_t end, int worker) {
    const blocked_product *r = arg;
    (void)worker;
    for (int64_t block = 1; block < blocked_k_blocks(r); block++) {
        const k_range k = k_range_of(r, block);
        for (int64_t m = begin; m < end; m++) {
            void *c = cti_matrix_at(&r->g->c, 0, m, 0);
            r->add(r->g->n, c, 1, cti_matrix_at(&k.c, 0, m, 0), 1, c);
        }
    }
}

/* ---- passes ---- */

static void run_rows(ct_context *context, blocked_product *r) {
    const cti_gemm_plan *plan = r->plan;
    if (plan->pack_a) {
        const int64_t rows = r->kernels->tuning.a_task_tiles * r->kernels->mr;
        cti_parallel(context, r->matrices * cti_ceil_div(r->ml, rows), 1, pack_a_task, r);
    }
    const int64_t tasks = blocked_k_blocks(r) * r->matrices * cti_ceil_div(r->ml, plan->mc) *
                          cti_ceil_div(r->g->n, plan->nc);
    cti_parallel(context, tasks, plan->grain, tile_task, r);
}

static void run_pass(ct_context *context, blocked_product *r) {
    const cti_gemm_args *g = r->g;
    const cti_gemm_plan *plan = r->plan;
    if (plan->b == CTI_B_SHARED) {
        const int64_t panels = cti_ceil_div(g->n, r->kernels->nr),
                      share = cti_ceil_div(panels, 2 * cti_parallel_width(context));
        cti_parallel(context, g->n, share * r->kernels->nr, pack_b_task, r);
    }
    for (r->matrix0 = 0; r->matrix0 < g->batch; r->matrix0 += plan->batch_pass) {
        r->matrices = cti_min(plan->batch_pass, g->batch - r->matrix0);
        for (r->m0 = 0; r->m0 < g->m; r->m0 += plan->m_pass) {
            r->ml = cti_min(plan->m_pass, g->m - r->m0);
            run_rows(context, r);
        }
    }
    if (blocked_is_split_k(r))
        cti_parallel(context, g->m, cti_ceil_div(r->kernels->tuning.sum_task_elements, g->n),
                     add_sums_task, r);
}

bool cti_gemm_blocked(ct_context *context, const cti_gemm_args *g, const cti_gemm_plan *plan) {
    CTI_ASSERT(plan->kind == CTI_GEMM_BLOCKED || plan->kind == CTI_GEMM_SPLIT_K);
    CTI_ASSERT(plan->kind != CTI_GEMM_SPLIT_K || g->batch == 1);
    const ct_dtype type = cti_gemm_computed_type(g);
    const size_t bytes = cti_bytes(cti_gemm_workspace(plan), 1);
    char *workspace = bytes ? cti_take(context, bytes) : NULL;
    if (bytes && !workspace) return false;
    blocked_product run = {
        .g = g,
        .plan = plan,
        .kernels = plan->kernels,
        .add = context->isa->of[type]->elementwise->add,
        .widen = plan->rounded && g->b.dtype == CT_BF16
                     ? context->isa->of[CT_BF16]->elementwise->cast[CT_F32]
                     : NULL,
        .blocks = cti_is_blocks(g->b.dtype) ? cti_gemm_kernels_of(context->isa, g) : NULL,
        .size = (int64_t)cti_dtype_size(type)};
    if (workspace) {
        run.packed_a = workspace;
        run.packed_b = run.packed_a + plan->a_bytes;
        run.sums = run.packed_b + cti_gemm_b_copies(plan) * plan->b_bytes;
    }
    for (run.k0 = 0; run.k0 < g->k; run.k0 += plan->k_pass) {
        run.kl = cti_min(plan->k_pass, g->k - run.k0);
        run_pass(context, &run);
    }
    cti_give(context, workspace, bytes);
    return true;
}
