/* The context's insides. */
#ifndef CTI_CORE_CONTEXT_H
#define CTI_CORE_CONTEXT_H

#include <cotangent/context.h>
#include <cotangent/scope.h>

#include "../kernels/kernels.h"
#include "memory.h"
#include "parallel.h"
#include "tensor.h"

/* A forward, or a function under gradcheck, that is running. What it was given lasts until it is
 * through: see cti_tensor_end. */
typedef struct cti_running cti_running;
struct cti_running {
    const cti_running *outer;
    ct_tensor *const *given;
    int n; /* of them */
    /* of an op, else NULL: dense copies of what was given, and what is saved, last as long */
    const ct_call *call;
    cti_frame *until; /* what is to last ends with it */
};

/* An open scope: a list of the handles it owns. The outermost is the context's own. */
struct cti_frame {
    cti_frame *outer;
    uint64_t id;
    bool no_grad;
    bool pooled; /* from cti_take, not on the C stack */
    ct_tensor *tensors;
};

enum { CTI_MESSAGE_SIZE = 1024 };

struct ct_context {
    cti_pool pool;
    ct_status status;
    char message[CTI_MESSAGE_SIZE];
    ct_error_fn on_error;
    void *on_error_data;
    /* on_error is running: what failed has not returned yet, and the error stays */
    bool telling;
    /* what is being computed, for messages about memory; NULL: nothing */
    const char *op;
    const cti_isa *isa; /* the kernels */
    ct_rng rng;
    /* bytes of a core's second-level cache: what blocks of products are made to fit */
    int64_t cache;
    /* lines of a set of its first-level cache: what may begin in the same place and stay */
    int64_t ways;
    int threads;
    bool debug;
    cti_workers *workers;             /* made when first needed; NULL: none yet */
    cti_frame *frame, root;           /* the innermost scope, and the outermost */
    const cti_running *running;       /* the innermost; NULL: none */
    uint64_t scopes;                  /* ids given so far */
    cti_node *tape_first, *tape_last; /* live nodes in the order they were recorded */
    /* nodes whose count fell to zero, waiting to be freed: no recursion */
    cti_node *dying;
    uint64_t sequence;
    bool freeing;
    const char *backward; /* whose backward is running; NULL: nobody's */
    /* of debug mode: handles that have ended, the oldest first */
    ct_tensor *ended_first, *ended_last;
    int64_t ended; /* how many */
};

/* A block of at least size bytes, its content undefined. NULL with CT_ERR_MEMORY recorded. size 0
 * gives a block too. */
static inline void *cti_take(ct_context *context, size_t size) {
    cti_pool *pool = &context->pool;
    if (!cti_is_small(size) || !pool->plain) return cti_take_any(context, size);
    size_t bytes;
    const int class = cti_small_class(size, &bytes);
    cti_free_block *block = pool->free[class];
    if (!block) return cti_take_any(context, size);
    pool->free[class] = block->next;
    pool->live += (int64_t)bytes;
    if (pool->live > pool->peak) pool->peak = pool->live;
    return block;
}

/* Gives a block back, with the size it was taken with. NULL is harmless. */
static inline void cti_give(ct_context *context, void *block, size_t size) {
    cti_pool *pool = &context->pool;
    if (!block || !cti_is_small(size) || !pool->plain) {
        cti_give_any(context, block, size);
        return;
    }
    size_t bytes;
    const int class = cti_small_class(size, &bytes);
    cti_free_block *free = block;
    free->next = pool->free[class];
    pool->free[class] = free;
    pool->live -= (int64_t)bytes;
}

static inline void cti_storage_unref(ct_context *context, cti_storage *storage) {
    if (storage && --storage->refs == 0) cti_give(context, storage, storage->bytes);
}

/* Gives a handle to a scope, or takes it out of its own: the owner is then the caller. */
static inline void cti_tensor_own(cti_frame *frame, ct_tensor *tensor) {
    tensor->frame = frame;
    tensor->prev = NULL;
    tensor->next = frame->tensors;
    if (frame->tensors) frame->tensors->prev = tensor;
    frame->tensors = tensor;
}

static inline void cti_tensor_disown(ct_tensor *tensor) {
    if (!tensor->frame) return;
    if (tensor->next) tensor->next->prev = tensor->prev;
    *(tensor->prev ? &tensor->prev->next : &tensor->frame->tensors) = tensor->next;
    tensor->frame = NULL;
}

/* Hands the tensor to `frame`, unless its owner is that or one that lives longer. */
static inline void cti_tensor_lift(ct_tensor *tensor, cti_frame *frame) {
    if (!tensor || !tensor->frame || tensor->frame->id <= frame->id) return;
    cti_tensor_disown(tensor);
    cti_tensor_own(frame, tensor);
}

/* Enters and leaves a scope of the library's own, kept on the C stack. What is left in it ends. No
 * ct_scope_close ends it, nor a scope around it: the code that runs inside may be a caller's. */
static inline void cti_frame_open(ct_context *context, cti_frame *frame, bool no_grad) {
    *frame = (cti_frame){.outer = context->frame,
                         .id = ++context->scopes,
                         .no_grad = no_grad || context->frame->no_grad};
    context->frame = frame;
}

void cti_frame_close(ct_context *context, cti_frame *frame);

/* Hands the tensor out and closes a frame on the C stack: mostly nothing else is in it. */
static inline ct_tensor *cti_frame_return(ct_context *context, cti_frame *frame,
                                          ct_tensor *tensor) {
    if (context->frame == frame && tensor && frame->tensors == tensor && !tensor->next) {
        cti_tensor_own(context->frame = frame->outer, tensor);
        return tensor;
    }
    cti_tensor_lift(tensor, frame->outer);
    cti_frame_close(context, frame);
    return tensor;
}

/* Calls on_error with the error that is pending. */
void cti_error_tell(ct_context *context);

/* Takes the generator's next stream. */
ct_rng cti_rng_next(ct_context *context);

/* Are they one? Else the op's error is recorded in both, as the caller may look at either. */
bool cti_same_context(ct_context *a, ct_context *b, const char *op);

/* Is no error pending? What computes or changes something asks first. */
static inline bool cti_ready(const ct_context *context) {
    return context && context->status == CT_OK;
}

#endif
