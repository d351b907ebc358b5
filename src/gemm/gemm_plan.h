/* A plan says how a product is computed. cti_plan_gemm makes it from the args and the machine,
 * without reading a matrix; gemm.c and gemm_blocked.c carry it out. tests/test_gemm_plan.c is a
 * table of plans. */
#ifndef CTI_GEMM_GEMM_PLAN_H
#define CTI_GEMM_GEMM_PLAN_H

#include "gemm.h"

typedef struct {
    const cti_gemm_kernels *kernels; /* the kernels for the dtype of B, with mr, nr, kc and the
                                      * tuning table */
    const cti_gemm_kernels *rounded; /* the kernels that may round A and B while they pack them; or
                                      * NULL */
    int64_t l2_bytes, l1d_ways;      /* a core's */
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
    CTI_B_ON_STACK,   /* direct: the thread of the caller packs it */
    CTI_B_PER_WORKER, /* each worker packs the panels of its task */
    CTI_B_SHARED,     /* all threads pack it once, for all */
} cti_gemm_b;

/* A task is a tile of C, computed by one worker. A pass is the range of the product for which the
 * workspace holds packed panels and partial sums: k_pass of K, m_pass rows, batch_pass matrices.
 * The loops over passes are outside of the loop over tasks. */
typedef struct {
    cti_gemm_kind kind;
    /* The kernels of the machine; if A and B are rounded (blocked and split-K only), those that
     * round. */
    const cti_gemm_kernels *kernels;
    bool rounded;
    /* Whether C' = B' A' is computed: so a single column becomes a row, and a C that is dense by
     * columns one that is dense by rows. m, n, A and B below are then those of this product. */
    bool transposed;
    /* Whether C is filled with the bias before the product, which then adds to it: for kernels that
     * cannot start from a bias. */
    bool bias_first;
    int64_t kc; /* the length of a K block, which one call of the micro-kernel sums */
    /* The tile of a task: mc is a multiple of mr, or all rows; nc is a multiple of nr. gemv and
     * dots have only nc. */
    int64_t mc, nc;
    int64_t grain; /* the number of tasks that a worker takes at once */

    /* blocked and split-K: */
    cti_gemm_b b;
    bool pack_a;                /* whether all threads pack A before the tasks of a pass; otherwise
                                 * A is in place */
    int64_t k_pass;             /* one K block; split-K: several */
    int64_t m_pass, batch_pass; /* everything, unless A is packed */
    int workers;                /* 1 if there is too little work to share */
    /* The bytes of packed A, of one copy of packed B, and of the partial sums of split-K. */
    int64_t a_bytes, b_bytes, sum_bytes;
} cti_gemm_plan;

/* Returns the product to compute: args or, if the plan is transposed, *transposed. Its epilogue is
 * still that of args, which gets tiles of C and not of C' (cti_gemm_apply). */
const cti_gemm_args *cti_plan_gemm(const cti_gemm_args *args, const cti_gemm_machine *machine,
                                   cti_gemm_plan *plan, cti_gemm_args *transposed);

/* The number of copies of packed B in the workspace. */
static inline int cti_gemm_b_copies(const cti_gemm_plan *p) {
    return p->b == CTI_B_PER_WORKER ? p->workers : p->b == CTI_B_SHARED;
}
static inline int64_t cti_gemm_workspace(const cti_gemm_plan *p) {
    return p->a_bytes + cti_gemm_b_copies(p) * p->b_bytes + p->sum_bytes;
}

/* Calls the apply of the epilogue for a complete tile. (m, n), rows and cols are those of the
 * product that is computed; apply gets them in terms of the caller's C. */
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

/* Prints the plan, for example "direct: B in place; kc 16". */
enum { CTI_GEMM_PLAN_TEXT = 320 }; /* enough for the largest numbers */
const char *cti_gemm_plan_text(const cti_gemm_plan *plan, char text[CTI_GEMM_PLAN_TEXT]);

#endif
