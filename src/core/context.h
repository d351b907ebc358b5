/* The fields of a context, and the functions that are inlined on the path of every op: they take
 * and give memory, own handles, and open and close frames.
 *
 * The pending error is in one of these states:
 *
 *             ct_fail                       ct_error, ct_error_message
 *     NONE ------------> REPORTED, UNSEEN --------------------------> REPORTED, SEEN
 *       |                    ^
 *       | ct_fail            | cti_error_report
 *       | while held is set  |
 *       `--------------> HELD
 *
 *     ct_error_clear leads from every state back to NONE, except while on_error runs.
 *
 * NONE      status is CT_OK.
 * HELD      status is an error that was neither printed nor passed to on_error.
 * REPORTED  status is an error that was passed to on_error, if there is one, and printed in debug
 *           mode. With an on_error the error counts as seen; otherwise `unseen` is set until the
 *           program looks at it.
 *
 * Invariants:
 *
 * 1. status and message are the first error since NONE. Later errors are dropped.
 * 2. An error is reported at most once.
 * 3. The call that sets `held` restores its old value, and then reports the pending error, replaces
 *    it, or clears it.
 * 4. ct_context_free prints an error that is unseen. */
#ifndef CTI_CORE_CONTEXT_H
#define CTI_CORE_CONTEXT_H

#include <cotangent/context.h>
#include <cotangent/scope.h>

#include "handle.h"
#include "memory.h"
#include "message.h"
#include "object.h"
#include "parallel.h"
#include "row_rule.h"
#include "tensor.h"

#include <stdatomic.h>

/* A running forward of an op, or a running function of ct_gradcheck or ct_recompute. Its inputs and
 * saved tensors must exist until it returns. If code inside it releases one of them, cti_tensor_end
 * moves the handle to `frame` instead of ending it. */
typedef struct cti_running cti_running;
struct cti_running {
    const cti_running *outer;
    ct_tensor *const *given; /* [n] the caller's inputs */
    int n;
    const ct_call *call; /* an op's call, with its dense copies of inputs and its saved tensors */
    cti_frame *frame;
};

/* An open scope: a list of the handles that it owns. The outermost frame is the context's root.
 * Each new frame gets a larger id, so of two open frames the frame with the smaller id outlives the
 * other. */
struct cti_frame {
    cti_frame *outer;
    uint64_t id;
    bool no_grad;
    bool pooled;  /* whether it is a block from cti_take; other frames are on the C stack */
    bool entered; /* whether ct_module_enter opened it: a block with a span behind the frame */
    bool ending;  /* whether it is open for the functions that run when `module` is freed */
    const cti_namer *module; /* the module whose forward opened it or a frame around it, or NULL */
    const cti_namer *steps; /* the module whose optimiser opened it to change parameters, or NULL */
    ct_tensor *tensors;
};

typedef struct cti_profile cti_profile;
struct cti_span;

/* The loans of a context: see busy.h. */
typedef struct {
    int open;            /* the number of loans that have not ended */
    const char *owner;   /* the owner of the function of the last loan */
    const char *refused; /* the last function that was refused in the open loans, or NULL */
} cti_loans;

/* The record of a run in which gradcheck calls a function on inputs of another layout or dtype. If
 * ct_data_* refuses a tensor during this run, it stores its message here and returns a dense copy
 * instead of NULL. So gradcheck can diagnose an op that does not check its inputs, and the op does
 * not crash. */
enum { CTI_DATA_COPIES = 8 };
typedef struct cti_data_copies {
    cti_frame *frame;  /* the owner of the copies */
    char message[256]; /* the message of the first refusal; "" if there was none */
    /* the latest copies: an op that calls ct_data_* for each element gets the same copy again */
    struct {
        const ct_tensor *of;
        const char *data;
        ct_tensor *copy;
    } made[CTI_DATA_COPIES];
    int count;
} cti_data_copies;

struct ct_context {
    cti_pool pool;
    ct_status status;
    char message[CTI_MESSAGE_SIZE];
    ct_error_fn on_error;
    void *on_error_data;
    bool reporting; /* whether on_error is running, so that ct_error_clear does nothing */
    bool held;      /* whether errors are held by a running call */
    bool unseen;    /* whether the program has not looked at the pending error */
    const char *op; /* the running op, for messages about shapes and memory; NULL if none runs */
    const struct cti_isa *isa;  /* the kernels */
    ct_matmul_precision matmul; /* the setting of ct_set_matmul */
    const struct cti_gemm_kernels
        *rounded;  /* the kernels for rounded products; NULL if f32's are used */
    cti_rows rows; /* the number of rows for which kernels are chosen */
    ct_rng rng;
    int64_t l2_bytes; /* the size of a core's L2 cache */
    int64_t l1d_ways; /* the associativity of a core's L1d cache */
    int threads;
    bool debug;
    bool observed;        /* whether ops take the slow path, for debug mode or a running profile */
    cti_workers *workers; /* the threads, made for the first job that needs them; or NULL */
    cti_frame *frame, root;           /* the innermost scope and the outermost scope */
    const cti_running *running;       /* the innermost running forward, or NULL */
    cti_data_copies *data_copies;     /* the record for ct_data_*; NULL if ct_data_* refuses */
    uint64_t scopes;                  /* the last id of a frame */
    cti_node *tape_first, *tape_last; /* the live nodes in the order in which they were recorded */
    uint64_t sequence;                /* the sequence of the last node that was recorded */
    cti_node *to_free;                /* nodes without references: see cti_node_unref */
    bool freeing;
    int64_t ended_uses;   /* the number of times that a tensor was refused because it had ended */
    const char *backward; /* the name of the op whose backward is running, or NULL */
    int *pending;         /* the number of pending nodes of this backward */
    /* the number of times that ct_lora_enable has switched something; while a function of
     * ct_recompute runs again, the number at its first run */
    uint64_t switched;
    bool in_recompute; /* a function of ct_recompute runs; its nodes are dropped at its end */
    struct cti_file_set *set; /* the set that files of a running save join, or NULL: io/set.h */
    struct cti_watch *watch;  /* the watcher of the leaves, or NULL */
    _Atomic uintptr_t inside; /* debug mode: the thread that is inside a call, or 0 */
    _Atomic bool intruded;    /* debug mode: whether another thread has called meanwhile */
    int depth;                /* debug mode: the number of nested calls of the thread inside */
    cti_handles handles;
    cti_objects objects;
    cti_hook *hooks; /* what is done when the context is freed: see hook.h */
    bool closing;    /* whether ct_context_free is closing them */
    cti_loans loans;
    cti_profile *profile; /* the profile; NULL if none was started */
};

/* Does the work of ct_set_matmul, also while an error is pending. */
bool cti_set_matmul(ct_context *context, ct_matmul_precision precision);

/* Takes a block of at least `size` bytes with undefined content; size may be 0. Returns NULL with
 * CT_ERR_MEMORY if memory is short. */
static inline void *cti_take(ct_context *context, size_t size) {
    cti_pool *pool = &context->pool;
    if (!cti_is_linear(size) || !pool->plain) return cti_take_any(context, size);
    size_t bytes;
    const int class = cti_linear_class(size, &bytes);
    cti_free_block *block = pool->free[class];
    if (!block) return cti_take_any(context, size);
    CTI_ASSERT((uintptr_t)block % CTI_ALIGN == 0);
    pool->free[class] = block->next;
    pool->live += (int64_t)bytes;
    if (pool->live > pool->peak) pool->peak = pool->live;
    return block;
}

/* Gives back a block that was taken with this size. NULL is harmless. */
static inline void cti_give(ct_context *context, void *block, size_t size) {
    cti_pool *pool = &context->pool;
    if (!block || !cti_is_linear(size) || !pool->plain) {
        cti_give_any(context, block, size);
        return;
    }
    size_t bytes;
    const int class = cti_linear_class(size, &bytes);
    cti_free_block *free = block;
    CTI_ASSERT((uintptr_t)block % CTI_ALIGN == 0 && pool->free[class] != free);
    CTI_ASSERT(pool->live >= (int64_t)bytes);
    free->next = pool->free[class];
    pool->free[class] = free;
    pool->live -= (int64_t)bytes;
}

/* Counts `count` handles as memory in use. */
enum { CTI_HANDLE_BYTES = (sizeof(ct_tensor) + CTI_ALIGN - 1) / CTI_ALIGN * CTI_ALIGN };
static inline void cti_handle_count(ct_context *context, int count) {
    cti_pool *pool = &context->pool;
    pool->live += count * CTI_HANDLE_BYTES;
    if (pool->live > pool->peak) pool->peak = pool->live;
}

/* Takes the memory of a handle, whose content is undefined. Returns NULL with CT_ERR_MEMORY if
 * memory is short. */
static inline ct_tensor *cti_handle_take(ct_context *context) {
    ct_tensor *ended = context->handles.free;
    if (!ended || !context->pool.plain) return cti_handle_take_any(context);
    CTI_ASSERT(cti_handle_is_placed(context, ended) && ended->self != ended);
    context->handles.free = ended->next;
    cti_handle_count(context, 1);
    return cti_cell_next(ended);
}

/* Ends a handle. From now on its address is not the address of a handle. */
static inline void cti_handle_give(ct_context *context, ct_tensor *tensor) {
    cti_handles *handles = &context->handles;
    CTI_ASSERT(tensor->self == tensor && cti_handle_is_placed(context, tensor));
    tensor->self = cti_handle_ended(tensor);
    context->pool.live -= CTI_HANDLE_BYTES;
    if (cti_cell_is_last(handles, tensor)) {
        cti_handle_enqueue(context, tensor);
        return;
    }
    tensor->next = handles->free;
    handles->free = tensor;
}

static inline void cti_storage_unref(ct_context *context, cti_storage *storage) {
    CTI_ASSERT(!storage || storage->refs > 0);
    if (storage && --storage->refs == 0) cti_give(context, storage, storage->bytes);
}

/* Adds a handle without an owner to a scope. */
static inline void cti_tensor_own(cti_frame *frame, ct_tensor *tensor) {
    CTI_ASSERT(tensor->self == tensor && !tensor->parameter);
    CTI_ASSERT(!frame->tensors || !frame->tensors->prev);
    tensor->frame = frame;
    tensor->prev = NULL;
    tensor->next = frame->tensors;
    if (frame->tensors) frame->tensors->prev = tensor;
    frame->tensors = tensor;
}

/* Takes a handle out of its scope, if it is in one. The caller then owns it. */
static inline void cti_tensor_disown(ct_tensor *tensor) {
    if (!tensor->frame) return;
    CTI_ASSERT(tensor == (tensor->prev ? tensor->prev->next : tensor->frame->tensors));
    CTI_ASSERT(!tensor->next || tensor->next->prev == tensor);
    if (tensor->next) tensor->next->prev = tensor->prev;
    *(tensor->prev ? &tensor->prev->next : &tensor->frame->tensors) = tensor->next;
    tensor->frame = NULL;
}

/* Moves a tensor to `frame` from a frame inside it. A tensor of this frame, or of a frame around
 * it, stays. NULL and a tensor in no frame are harmless. */
static inline void cti_tensor_lift(ct_tensor *tensor, cti_frame *frame) {
    if (!tensor || !tensor->frame || tensor->frame->id <= frame->id) return;
    cti_tensor_disown(tensor);
    cti_tensor_own(frame, tensor);
}

/* Opens a frame of the library, which lies on the C stack. Code of the program may run inside it,
 * so ct_scope_close closes neither this frame nor a scope around it. */
static inline void cti_frame_open(ct_context *context, cti_frame *frame, bool no_grad) {
    CTI_ASSERT(context->frame && context->frame->id <= context->scopes);
    *frame = (cti_frame){.outer = context->frame,
                         .id = ++context->scopes,
                         .no_grad = no_grad || context->frame->no_grad,
                         .module = context->frame->module};
    context->frame = frame;
}

/* Opens a scope of the program in which errors, debug mode and the profile name the module. The
 * scope has a span of the profile. The caller begins the span, and the end of the scope ends it. If
 * the scope cannot be opened *span is NULL. */
ct_scope cti_scope_enter(ct_context *context, const cti_namer *module, struct cti_span **span);

/* Closes a frame and every frame inside it. Their tensors end. */
void cti_frame_close(ct_context *context, cti_frame *frame);

/* Moves a tensor to the outer frame and closes this frame. Usually the frame has no other tensor,
 * and then this inline code does all the work. The tensor may be NULL. */
static inline ct_tensor *cti_frame_return(ct_context *context, cti_frame *frame,
                                          ct_tensor *tensor) {
    if (context->frame == frame && tensor && frame->tensors == tensor && !tensor->next) {
        context->frame = frame->outer;
        cti_tensor_own(frame->outer, tensor);
        return tensor;
    }
    cti_tensor_lift(tensor, frame->outer);
    cti_frame_close(context, frame);
    return tensor;
}

/* Does the work of ct_fail in the contexts of two arguments of a call, because the caller may look
 * at either. A context with a pending error keeps it. A context may be NULL, and both may be the
 * same. */
void *cti_fail_in_both(ct_context *a, ct_context *b, ct_status status, const char *format, ...)
    CT_FORMAT(4, 5);

/* Reports the pending error, unless the context holds errors: calls on_error and, in debug mode,
 * prints the error. */
void cti_error_report(ct_context *context);
/* Prints the pending error if the caller has not looked at it. */
void cti_error_print_unseen(const ct_context *context);

/* Takes the generator's next stream. */
ct_rng cti_rng_next(ct_context *context);

/* Whether the context is not NULL and has no pending error. Every function that computes or changes
 * something checks this first. */
static inline bool cti_ready(const ct_context *context) {
    return context && context->status == CT_OK;
}

/* cti_context_enter and cti_context_leave run around code that allocates or changes lists of the
 * context. In debug mode cti_context_enter returns false, without an error, while another thread is
 * inside. The other thread owns the context then, and records the error when it leaves. */
bool cti_debug_enter(ct_context *context);
void cti_debug_leave(ct_context *context);
static inline bool cti_context_enter(ct_context *context) {
    return !context->debug || cti_debug_enter(context);
}
static inline void cti_context_leave(ct_context *context) {
    if (context->debug) cti_debug_leave(context);
}

/* Whether an op may begin with a tensor that is its argument: the tensor is not NULL, has not
 * ended, and its context has no pending error. */
static inline bool cti_tensor_ready(const ct_tensor *tensor, const char *op) {
    return tensor && cti_tensor_is_open(tensor, op) && cti_ready(tensor->context);
}

#endif
