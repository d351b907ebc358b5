/* The workspace of attention, and the driver of its passes: forward, backward, decoding, weights.
 *
 * A pass has steps, and a step has tasks, which threads take a few at a time. A worker's workspace
 * is one block of memory in which the pass lays out its buffers.
 *
 * Invariants:
 * 1. Tasks of a step run in parallel and in any order. A step begins when all tasks of the step
 *    before have ended.
 * 2. The driver takes the workspaces of all workers before the first task and gives them back after
 *    the last. Tasks take no memory.
 * 3. A workspace belongs to one worker. Its buffers hold anything at the beginning of a task,
 *    except for ones (cti_attention_reserve_ones), which tasks do not change.
 * 4. reserve lays out the same buffers each time: once without memory, to count bytes, then for
 *    each worker. A buffer begins at a multiple of CTI_ALIGN. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_WORKSPACE_H
#define CTI_OPS_ATTENTION_ATTENTION_WORKSPACE_H

#include "attention_products.h"

/* ---- the workspace ---- */

typedef struct {
    const cti_attention_params *a;
    char *base;  /* NULL if bytes are only counted */
    size_t used; /* the bytes; SIZE_MAX after a size has overflowed, which cti_take refuses */
} cti_attention_workspace;

/* Returns the next rows x cols elements of the workspace; NULL if bytes are only counted. */
char *cti_attention_reserve(cti_attention_workspace *w, int64_t rows, int64_t cols);
/* Returns n ones, from which the dropout kernel makes its factors. */
char *cti_attention_reserve_ones(cti_attention_workspace *w, int64_t n);
/* Returns the buffers of a guard of n rows of `cols` numbers (attention_hidden.h). It is called
 * only if a->guarded. */
cti_hidden_buffers cti_attention_reserve_guard(cti_attention_workspace *w, int64_t n, int64_t cols);
/* Returns n packed columns of `bytes` each: d_bytes or dv_bytes. */
char *cti_attention_reserve_columns(cti_attention_workspace *w, int64_t n, int64_t bytes);
/* Return a left factor of n rows of `cols` numbers, and a right one of `cols` columns. They are
 * called only if products are rounded. */
char *cti_attention_reserve_left(cti_attention_workspace *w, int64_t n, int64_t cols);
char *cti_attention_reserve_right(cti_attention_workspace *w, int64_t cols);

/* ---- the driver ---- */

/* The most buffers that a pass has. Its struct of buffers has only char pointers. */
enum { CTI_ATTENTION_BUFFERS = 40 };

typedef struct {
    const cti_attention_params *a;
    const void *call; /* the first argument of both functions */
    /* Sets all pointers of the pass's struct of buffers (invariant 4). */
    void (*reserve)(const void *call, cti_attention_workspace *w, void *buffers);
    void (*run)(const void *call, const void *buffers, int64_t task);
    int64_t tasks; /* the tasks of a step */
    int64_t grain; /* the tasks that a thread takes at once */
    int64_t steps; /* the number of steps; tasks of step i are numbered from i * tasks on */
    bool steady;   /* whether the workspaces of all threads are taken also for few tasks: a token of
                    * decoding then takes the same memory as the last one, though it has more
                    * keys */
    int64_t flops; /* the multiplications for each pair of a query and a key, for a profile */
} cti_attention_pass;

/* Runs all tasks of all steps. False: out of memory, recorded. */
bool cti_attention_run(ct_context *context, const cti_attention_pass *pass);

#endif
