/* How a product is computed. cti_plan_gemm decides everything from what is asked and from the machine, and touches no matrix; gemm.c and
 * gemm_blocked.c carry a plan out. tests/test_gemm_plan.c is a table of plans. */
#ifndef CTI_GEMM_GEMM_PLAN_H
#define CTI_GEMM_GEMM_PLAN_H

#include "gemm.h"

typedef struct {
    const cti_gemm_kernels *kernels;   /* of the computed type: sizes of the micro-kernel and the tuning table */
    int64_t l2_bytes, l1d_ways;        /* of a core */
    int threads;
} cti_gemm_machine;

typedef enum {
    CTI_GEMM_ZERO,      /* K = 0 */
    CTI_GEMM_GEMV,      /* M = 1: a vector times a matrix, nothing packed */
    CTI_GEMM_DOTS,      /* few rows, A and B dense along K: sums of the lanes of vectors, nothing packed */
    CTI_GEMM_DIRECT,    /* small: one thread, one call of the macro-kernel for each K block, no workspace */
    CTI_GEMM_BLOCKED,   /* tiles of C (mc x nc) are the tasks */
    CTI_GEMM_SPLIT_K,   /* tiles of C and K blocks are the tasks; partial sums of the K blocks are added up at the end */
} cti_gemm_kind;

typedef enum {
    CTI_B_IN_PLACE,
    CTI_B_ON_STACK,     /* direct: packed by the caller's thread */
    CTI_B_PER_WORKER,   /* each worker packs the panels of its task */
    CTI_B_SHARED,       /* packed once, by all threads, for all */
} cti_gemm_b;

/* Everything below `transposed` is about the product that is computed: m, n, A, B of C' = B' A' where it is set. */
typedef struct {
    cti_gemm_kind kind;
    bool transposed;             /* C' = B' A': a column becomes a row, and a C dense by columns one dense by rows */
    bool bias_first;             /* C is filled with the bias and added to, for kernels that cannot begin with a bias */
    int64_t kc;                  /* K block: the longest sum of one micro-kernel call */
    int64_t mc, nc;              /* tile of C that is a task; a multiple of mr and of nr, or all of m or n. gemv and dots have nc only */
    int64_t grain;               /* tasks that a worker takes at once */
    /* blocked and split-K: */
    bool pack_a;                 /* by all threads, m_pass rows of batch_pass matrices at a time; else in place */
    cti_gemm_b b;
    int64_t k_pass;              /* of K, computed before the next is begun: one K block, for split-K several */
    int64_t m_pass, batch_pass;  /* of rows and matrices, computed before the next ones are packed */
    int workers;                 /* 1: too little work to share */
    int64_t a_bytes, b_bytes, sum_bytes;   /* workspace: of packed A, of one packed copy of B, of split-K's partial sums */
} cti_gemm_plan;

/* Returns the product to compute: args or, if the plan is transposed, *transposed, whose epilogue is still the caller's. */
const cti_gemm_args *cti_plan_gemm(const cti_gemm_args *args, const cti_gemm_machine *machine, cti_gemm_plan *plan,
                                   cti_gemm_args *transposed);

/* How many copies of packed B the workspace holds. */
static inline int cti_gemm_b_copies(const cti_gemm_plan *p) { return p->b == CTI_B_PER_WORKER ? p->workers : p->b == CTI_B_SHARED; }
static inline int64_t cti_gemm_workspace(const cti_gemm_plan *p) { return p->a_bytes + cti_gemm_b_copies(p) * p->b_bytes + p->sum_bytes; }

/* Calls the epilogue for a complete tile, whose first element is (m, n) in the product that is computed. */
static inline void cti_gemm_apply(const cti_gemm_args *g, const cti_gemm_plan *plan, int64_t item, int64_t m, int64_t n, int64_t rows,
                                  int64_t cols) {
    const cti_gemm_epilogue *e = g->epilogue;
    if (!e || !e->apply) return;
    const cti_matrix tile = {.data = cti_matrix_at(&g->c, item, m, n), .row = plan->transposed ? g->c.col : g->c.row,
                             .col = plan->transposed ? g->c.row : g->c.col, .dtype = g->c.dtype};
    e->apply(e->arg, &tile, plan->transposed ? cols : rows, plan->transposed ? rows : cols);
}

/* The plan in a line: "blocked: A in place, B shared; kc 384, tasks of 96 x 256, grain 1; 2 workers, 393216 bytes". */
enum { CTI_GEMM_PLAN_TEXT = 320 };   /* enough for the largest numbers */
const char *cti_gemm_plan_text(const cti_gemm_plan *plan, char text[CTI_GEMM_PLAN_TEXT]);

#endif
