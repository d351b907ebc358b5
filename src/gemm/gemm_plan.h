/* A plan describes how a product is computed. cti_gemm_plan_make makes it from the args and the
 * machine, without reading a matrix; gemm.c and gemm_blocked.c carry it out.
 * tests/gemm/test_gemm_plan.c is a table of plans.
 *
 * A task is the work that one worker does at a time: for blocked products and split-K a tile of C,
 * for gemv and dots a range of columns. A pass is the range of the product for which the workspace
 * holds packed panels and partial sums: k_pass of K, m_pass rows, batch_pass matrices. The loops
 * over passes are outside of the loop over tasks.
 *
 * Invariants of a plan, most of which cti_gemm_plan_make asserts:
 * 1. The order of sums follows from sizes, strides and the ISA, never from caches or threads: an
 *    element of C is summed over k in order within a K block, and K blocks are added in order.
 * 2. The kind is zero if and only if K = 0. gemv has M = 1; dots has A and B dense along K.
 * 3. A K block has kc of K, at most the kc of the kernels. kc is K, or a multiple of 8 and of the
 *    kernels' k_unit. For dots kc is K, however long.
 * 4. A tile has mc rows, all of the pass or a multiple of mr, and nc columns, a multiple of nr.
 * 5. A pass has m_pass rows, all of them or a multiple of mr. If A is in place, a pass has all rows
 *    and all matrices.
 * 6. A pass of a blocked product has one K block; a pass of split-K has several. k_pass is K or a
 *    multiple of kc.
 * 7. split-K has one matrix, alpha 1, rows of C that are dense, and no apply.
 * 8. A shared B is the B of one matrix. If the product is rounded, both A and B are packed.
 * 9. With rows other than CTI_ROWS_ANY the order of sums and what is rounded do not depend on m,
 *    and no product is transposed (../core/row_rule.h). A of dots is then copied if it is not
 *    dense.
 * 10. The workspace has packed A, then the copies of packed B, then the partial sums; each begins
 *     at a multiple of CTI_ALIGN. A copy of B belongs to one worker, or, if B is shared, to all. */
#ifndef CTI_GEMM_GEMM_PLAN_H
#define CTI_GEMM_GEMM_PLAN_H

#include "gemm.h"

typedef struct {
    const cti_gemm_kernels *kernels; /* the kernels for the dtype of B, with mr, nr, kc and the
                                      * tuning table */
    const cti_gemm_kernels *rounded; /* the kernels that may round A and B while they pack them; or
                                      * NULL */
    int64_t l2_bytes, l1d_ways;      /* the caches of one core */
    int threads;
    cti_rows rows; /* the number of rows for which kernels are chosen */
} cti_gemm_machine;

typedef enum {
    CTI_GEMM_ZERO,    /* K = 0 */
    CTI_GEMM_GEMV,    /* M = 1: a vector times a matrix, nothing packed */
    CTI_GEMM_DOTS,    /* few rows, A and B dense along K: dot products, nothing packed */
    CTI_GEMM_DIRECT,  /* small: one thread, one macro-kernel call for each K block, no workspace */
    CTI_GEMM_BLOCKED, /* the tasks are tiles of C, mc x nc */
    CTI_GEMM_SPLIT_K, /* the tasks are tiles of C by K blocks; partial sums are added at the end */
} cti_gemm_kind;

typedef enum {
    CTI_B_IN_PLACE,
    CTI_B_ON_STACK,   /* direct: the thread of the caller packs it */
    CTI_B_PER_WORKER, /* each worker packs the panels of its task */
    CTI_B_SHARED,     /* all threads pack it once, for all */
} cti_gemm_b;

typedef struct {
    cti_gemm_kind kind;
    /* The machine's kernels. If A and B are rounded (blocked and split-K only) they are the
     * machine's kernels that round. */
    const cti_gemm_kernels *kernels;
    bool rounded;
    /* Whether C' = B' A' is computed: a single column becomes a row, and a C that is dense by
     * columns becomes one that is dense by rows. Below, m, n, A and B then mean those operands of
     * this product. */
    bool transposed;
    /* Whether C is filled with the bias before the product, which then adds to C. This is for
     * kernels that cannot start from a bias. */
    bool bias_first;
    int64_t kc; /* the length of a K block, which one call of the micro-kernel sums */
    /* The tile of a task, mc x nc. gemv and dots have only nc. */
    int64_t mc, nc;
    int64_t grain; /* the number of tasks that a worker takes at once */

    /* The fields below are for blocked products and split-K. */
    cti_gemm_b b;
    bool pack_a;                /* whether all threads pack A before the tasks of a pass; otherwise
                                 * A is in place */
    int64_t k_pass;             /* the K of a pass */
    int64_t m_pass, batch_pass; /* the rows and matrices of a pass */
    int workers;                /* 1 if there is too little work to share */
    /* The bytes of packed A, of one copy of packed B, and of the partial sums of split-K. */
    int64_t a_bytes, b_bytes, sum_bytes;
} cti_gemm_plan;

/* Returns the product to compute: args or, if the plan is transposed, *transposed. It has the
 * epilogue of args, which gets tiles of C and not of C' (cti_gemm_apply). */
const cti_gemm_args *cti_gemm_plan_make(const cti_gemm_args *args, const cti_gemm_machine *machine,
                                        cti_gemm_plan *plan, cti_gemm_args *transposed);

/* Returns the number of copies of packed B in the workspace. */
static inline int cti_gemm_b_copies(const cti_gemm_plan *p) {
    return p->b == CTI_B_PER_WORKER ? p->workers : p->b == CTI_B_SHARED;
}
static inline int64_t cti_gemm_workspace(const cti_gemm_plan *p) {
    return p->a_bytes + cti_gemm_b_copies(p) * p->b_bytes + p->sum_bytes;
}

/* Calls the apply of the epilogue for a complete tile: rows x cols of the product that is computed,
 * from (m, n) on. apply gets the tile in terms of the caller's C. */
static inline void cti_gemm_apply(const cti_gemm_args *g, const cti_gemm_plan *plan, int64_t matrix,
                                  int64_t m, int64_t n, int64_t rows, int64_t cols) {
    const cti_gemm_epilogue *e = g->epilogue;
    if (!e || !e->apply) return;
    const cti_matrix tile = {.data = cti_matrix_at(&g->c, matrix, m, n),
                             .row = plan->transposed ? g->c.col : g->c.row,
                             .col = plan->transposed ? g->c.row : g->c.col,
                             .dtype = g->c.dtype};
    e->apply(e->arg, &tile, plan->transposed ? cols : rows, plan->transposed ? rows : cols);
}

#endif
