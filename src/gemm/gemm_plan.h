/* How a product is computed. cti_plan_gemm decides it from the args and the machine, without
 * reading a matrix; gemm.c and gemm_blocked.c carry the plan out. tests/test_gemm_plan.c is a table
 * of plans. */
#ifndef CTI_GEMM_GEMM_PLAN_H
#define CTI_GEMM_GEMM_PLAN_H

#include "gemm.h"

typedef struct {
    const cti_gemm_kernels *kernels; /* for B's dtype: mr, nr, kc and the tuning table */
    const cti_gemm_kernels *rounded; /* those that may round A and B while packing; or NULL */
    int64_t l2_bytes, l1d_ways;      /* of a core */
    int threads;
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
    CTI_B_ON_STACK,   /* direct: packed by the caller's thread */
    CTI_B_PER_WORKER, /* each worker packs the panels of its task */
    CTI_B_SHARED,     /* packed once, by all threads, for all */
} cti_gemm_b;

/* A task is what one worker computes: a tile of C. A pass is the part of the product for which the
 * workspace holds packed panels and partial sums: k_pass of K, m_pass rows, batch_pass matrices.
 * The loops over passes are outside of the loop over tasks. */
typedef struct {
    cti_gemm_kind kind;
    /* The machine's kernels or, where A and B are rounded (blocked and split-K only), those that
     * round. */
    const cti_gemm_kernels *kernels;
    bool rounded;
    /* C' = B' A' is computed: so a single column becomes a row, and a C dense by columns one dense
     * by rows. m, n, A and B below are then those of this product. */
    bool transposed;
    /* C is filled with the bias before the product, which adds to it: for kernels that cannot start
     * from a bias. */
    bool bias_first;
    int64_t kc; /* length of a K block, which one micro-kernel call sums */
    /* A task's tile of C: mc a multiple of mr, or all rows; nc a multiple of nr. gemv, dots: nc. */
    int64_t mc, nc;
    int64_t grain; /* tasks that a worker takes at once */

    /* blocked and split-K: */
    cti_gemm_b b;
    bool pack_a;                /* by all threads, before the tasks of a pass; else A is in place */
    int64_t k_pass;             /* one K block; split-K: several */
    int64_t m_pass, batch_pass; /* everything, unless A is packed */
    int workers;                /* 1: too little work to share */
    /* Workspace: packed A, one copy of packed B, split-K's partial sums. */
    int64_t a_bytes, b_bytes, sum_bytes;
} cti_gemm_plan;

/* Returns the product to compute: args or, if the plan is transposed, *transposed. Its epilogue is
 * still the caller's, who expects tiles of C and not of C': see cti_gemm_apply. */
const cti_gemm_args *cti_plan_gemm(const cti_gemm_args *args, const cti_gemm_machine *machine,
                                   cti_gemm_plan *plan, cti_gemm_args *transposed);

/* How many copies of packed B the workspace holds. */
static inline int cti_gemm_b_copies(const cti_gemm_plan *p) {
    return p->b == CTI_B_PER_WORKER ? p->workers : p->b == CTI_B_SHARED;
}
static inline int64_t cti_gemm_workspace(const cti_gemm_plan *p) {
    return p->a_bytes + cti_gemm_b_copies(p) * p->b_bytes + p->sum_bytes;
}

/* Calls the epilogue's apply for a complete tile. (m, n), rows and cols are of the product that is
 * computed; apply is given them as of the caller's C. */
static inline void cti_gemm_apply(const cti_gemm_args *g, const cti_gemm_plan *plan, int64_t item,
                                  int64_t m, int64_t n, int64_t rows, int64_t cols) {
    const cti_gemm_epilogue *e = g->epilogue;
    if (!e || !e->apply) return;
    const cti_matrix tile = {.data = cti_matrix_at(&g->c, item, m, n),
                             .row = plan->transposed ? g->c.col : g->c.row,
                             .col = plan->transposed ? g->c.row : g->c.col,
                             .dtype = g->c.dtype};
    e->apply(e->arg, &tile, plan->transposed ? cols : rows, plan->transposed ? rows : cols);
}

/* Prints the plan, such as "direct: B in place; kc 16". */
enum { CTI_GEMM_PLAN_TEXT = 320 }; /* enough for the largest numbers */
const char *cti_gemm_plan_text(const cti_gemm_plan *plan, char text[CTI_GEMM_PLAN_TEXT]);

#endif
