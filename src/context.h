/* The context's insides. */
#ifndef CT_SRC_CONTEXT_H
#define CT_SRC_CONTEXT_H

#include <cotangent/context.h>
#include <cotangent/scope.h>

#include "kernels/kernels.h"
#include "memory.h"
#include "parallel.h"
#include "tensor.h"

/* An open scope: a list of the handles it owns. The outermost is the context's own. */
struct ct_frame {
    ct_frame *outer;
    uint64_t id;
    bool no_grad;
    bool pooled;          /* from ct_take, not on the C stack */
    ct_tensor *tensors;
};

/* The memory of a context. */
enum { CT_SIZE_CLASSES = 8 * 64 };
typedef struct ct_block ct_block;
typedef struct {
    char *at, *end;                    /* what is not yet carved of the newest slab */
} ct_slab;
typedef struct {
    ct_allocator allocator;
    int64_t limit, held, live, peak, calls;
    size_t plain;                      /* blocks of up to that many units of 64 bytes are given back without a further thought */
    bool poison;                       /* what is free, and what is new, is all ones: NaN, or -1 */
    ct_block *blocks;                  /* all that came from the allocator: what ct_context_free hands back */
    void *free[CT_SIZE_CLASSES];       /* lists of free blocks by class */
    size_t carved;                     /* bytes of a block that is carved from a slab, at most */
    ct_slab small, medium;
} ct_pool;

void ct_pool_init(ct_pool *pool, ct_allocator allocator, int64_t limit, bool poison);   /* an allocator of NULLs is malloc and free */
void ct_pool_free(ct_pool *pool);

enum { CT_MESSAGE_SIZE = 1024 };

struct ct_context {
    ct_pool pool;
    ct_status status;
    char message[CT_MESSAGE_SIZE];
    ct_error_fn on_error;
    void *on_error_data;
    const char *op;                    /* what is being computed, for messages about memory; NULL: nothing */
    const ct_isa *isa;                 /* the kernels */
    ct_rng rng;
    int64_t cache;                     /* bytes of a core's second-level cache: what blocks of products are made to fit */
    int64_t ways;                      /* lines of a set of its first-level cache: what may begin in the same place and stay */
    int threads;
    bool debug;
    ct_workers *workers;               /* made when first needed; NULL: none yet */
    ct_frame *frame, root;             /* the innermost scope, and the outermost */
    uint64_t scopes;                   /* ids given so far */
    ct_node *tape_first, *tape_last;   /* live nodes in the order they were recorded */
    ct_node *dying;                    /* nodes whose count fell to zero, waiting to be freed: no recursion */
    uint64_t sequence;
    bool freeing;
    const char *backward;              /* whose backward is running; NULL: nobody's */
    ct_tensor *ended_first, *ended_last;   /* of debug mode: handles that have ended, the oldest first */
    int64_t ended;                         /* how many */
};

/* Or was it closed from inside? */
static inline bool ct_frame_is_open(const ct_context *context, const ct_frame *frame) {
    const ct_frame *open = context->frame;
    while (open && open != frame) open = open->outer;
    return open;
}

/* Enters and leaves a scope kept on the C stack. What is left in it ends. */
void ct_frame_open(ct_context *context, ct_frame *frame, bool no_grad);
void ct_frame_close(ct_context *context, ct_frame *frame);
ct_tensor *ct_frame_return(ct_context *context, ct_frame *frame, ct_tensor *tensor);   /* hands the tensor out and closes */

/* Takes the generator's next stream. */
ct_rng ct_rng_next(ct_context *context);

/* Is no error pending? What computes or changes something asks first. */
static inline bool ct_ready(const ct_context *context) { return context && context->status == CT_OK; }

#endif
