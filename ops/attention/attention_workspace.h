/* The workspace of attention, and the driver of its passes: forward, backward, decoding, weights.
 *
 * A pass is a number of items, which threads take a few at a time. Each worker has a workspace, one
 * block of memory in which the pass lays out its buffers. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_WORKSPACE_H
#define CTI_OPS_ATTENTION_ATTENTION_WORKSPACE_H

#include "attention_tiles.h"

/* ---- the workspace ---- */

typedef struct {
    const cti_attention_params *a;
    char *base;  /* NULL: bytes are only counted */
    size_t used; /* bytes; SIZE_MAX when a size has overflowed, which cti_take refuses */
} cti_attention_workspace;

/* The next rows x cols elements of the workspace; NULL if bytes are only counted. */
char *cti_attention_reserve(cti_attention_workspace *w, int64_t rows, int64_t cols);
/* n numbers that are 1, from which the dropout kernel makes its factors. */
char *cti_attention_reserve_ones(cti_attention_workspace *w, int64_t n);
/* n packed columns of `bytes` each: d_bytes or dv_bytes. */
char *cti_attention_reserve_columns(cti_attention_workspace *w, int64_t n, int64_t bytes);
/* A left factor of n rows of `cols` numbers, and a right one of `cols` columns. They are called
 * only if products are rounded. */
char *cti_attention_reserve_left(cti_attention_workspace *w, int64_t n, int64_t cols);
char *cti_attention_reserve_right(cti_attention_workspace *w, int64_t cols);

/* ---- the driver ---- */

/* The most buffers that a pass has. Its struct of them has only char pointers. */
enum { CTI_ATTENTION_BUFFERS = 24 };

typedef struct {
    const cti_attention_params *a;
    const void *call; /* first argument of both functions */
    /* Sets all pointers of the pass's struct of buffers. Called once without memory, to count. */
    void (*reserve)(const void *call, cti_attention_workspace *w, void *buffers);
    void (*run)(const void *call, const void *buffers, int64_t item);
    int64_t items; /* of a step; they run in parallel */
    int64_t grain; /* items that a thread takes at once */
    int64_t steps; /* one after the other; items of step i are numbered from i * items on */
    bool steady;   /* take the memory of all threads also for few items: a token of decoding then
                      takes the same memory as the last one, though it has more keys */
    int64_t flops; /* multiplications for each pair of a query and a key, for a profile */
} cti_attention_pass;

/* Runs all items of all steps. False: out of memory, recorded. */
bool cti_attention_run(ct_context *context, const cti_attention_pass *pass);

#endif
