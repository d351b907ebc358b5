/* The context's fields, and what is inlined for the path of every op: taking and giving memory,
 * owning handles, opening and closing frames. */
#ifndef CTI_CORE_CONTEXT_H
#define CTI_CORE_CONTEXT_H

#include <cotangent/context.h>
#include <cotangent/scope.h>

#include "isa.h"
#include "closer.h"
#include "handle.h"
#include "memory.h"
#include "object.h"
#include "parallel.h"
#include "tensor.h"

#include <stdatomic.h>

/* A forward, or a function under gradcheck, that is running. Its inputs and saved tensors must
 * stay: where it releases one, cti_tensor_end moves the handle to `frame` instead. */
typedef struct cti_running cti_running;
struct cti_running {
    const cti_running *outer;
    ct_tensor *const *given; /* [n] the caller's inputs */
    int n;
    const ct_call *call; /* of an op: has the dense copies of inputs, and saved tensors */
    cti_frame *frame;
};

/* An open scope: a list of the handles it owns. The outermost is the context's root. Ids grow, so
 * of two open frames the one with the smaller id outlives the other. */
struct cti_frame {
    cti_frame *outer;
    uint64_t id;
    bool no_grad;
    bool pooled;  /* ct_scope_open's, from cti_take; else the library's, on the C stack */
    bool entered; /* ct_module_enter's: pooled, with a span of the profile behind it */
    bool ending;  /* functions that run when `module` is freed run in it */
    const cti_namer *module; /* whose forward it is, or runs around it; NULL: no module's */
    ct_tensor *tensors;
};

typedef struct cti_profile cti_profile;
struct cti_span;

/* What a call of the library changes in its context while it runs, and restores at its end. */
typedef struct {
    const char *op, *backward;
    const cti_running *running;
    int *pending;
    struct cti_data_copies *data_copies;
    struct cti_span *span;
    bool draft, held;
    int depth, engines;
} cti_call_state;

/* A frame that lay on the C stack, while a callback runs. */
typedef struct {
    cti_frame *home;
    cti_frame frame;
} cti_moved_frame;

/* A callback that is running: see callback.h. */
typedef struct cti_callback cti_callback;
struct cti_callback {
    cti_callback *outer;
    char name[40];    /* of the op or module whose callback it is */
    const char *what; /* "forward" */
    uintptr_t stack;  /* below it is the stack of the callback and of its calls */
    uintptr_t thread; /* cti_this_thread of the callback */
    cti_call_state inside;
    const cti_frame *innermost; /* context->frame when the callback began */
    size_t bytes;               /* of the record's block; of context->report: 0 */
    int count;
    cti_moved_frame *moved; /* [count] the innermost first */
};
enum { CTI_REPORT_FRAMES = 24 };

enum { CTI_MESSAGE_SIZE = 1024 };

/* While gradcheck runs a function on inputs of another layout or dtype: ct_data_* of a tensor that
 * it refuses notes the error here and gives a dense copy. An op that does not check what it gets
 * then has a diagnosis, and does not end the process by reading through NULL. */
enum { CTI_DATA_COPIES = 8 };
typedef struct cti_data_copies {
    cti_frame *frame;  /* owns the copies */
    char message[256]; /* of the first refusal; "" if there is none */
    /* the latest copies, so that a call for each element does not make a copy for each */
    struct {
        const ct_tensor *of;
        const char *data;
        ct_tensor *copy;
    } made[CTI_DATA_COPIES];
    int count;
} cti_data_copies;

struct ct_context {
    cti_pool pool;
    /* one number, so that cti_ready compares once */
    union {
        struct {
            ct_status status;
            int callbacks; /* how many are running: the length of the list `callback` */
        };
        uint64_t status_or_callbacks;
    };
    char message[CTI_MESSAGE_SIZE];
    ct_error_fn on_error;
    void *on_error_data;
    bool reporting; /* on_error is running: ct_error_clear does nothing */
    bool held;   /* nobody is told of an error yet: the call that is running reports or drops it */
    bool unseen; /* the pending error was not looked at; ct_context_free prints it */
    const char *op;             /* that is running, for messages about shapes and memory; or NULL */
    const cti_isa *isa;         /* the kernels */
    ct_matmul_precision matmul; /* as it was set */
    const cti_gemm_kernels *rounded; /* those of f32 products that are rounded; NULL: none is */
    ct_rng rng;
    int64_t l2_bytes; /* of a core's L2 cache */
    int64_t l1d_ways; /* associativity of its L1d cache */
    int threads;
    bool debug;
    bool observed;                /* debug mode, or a profile runs: the slow path around each op */
    cti_workers *workers;         /* made when first needed */
    cti_frame *frame, root;       /* the innermost scope, and the outermost */
    const cti_running *running;   /* the innermost, or NULL */
    cti_data_copies *data_copies; /* see above; NULL: ct_data_* refuses */
    uint64_t scopes;              /* the last id of a frame */
    cti_node *tape_first, *tape_last; /* live nodes in the order they were recorded */
    uint64_t sequence;                /* of the last node recorded */
    cti_node *to_free;                /* nodes without references: see cti_node_unref */
    bool freeing;
    int64_t ended_uses;   /* how often a tensor that has ended was refused */
    const char *backward; /* name of the op whose backward is running, or NULL */
    int *pending;         /* how many nodes of that backward are pending */
    bool draft;           /* what is recorded is dropped soon: see autograd/recompute.c */
    struct cti_backward_watch *watch; /* of the tape; NULL: none */
    _Atomic uintptr_t inside;         /* debug mode: the thread that is inside a call, or 0 */
    _Atomic bool intruded;            /* and whether another one has called meanwhile */
    int depth;                        /* of its calls inside each other */
    cti_callback *callback;           /* the innermost that is running, or NULL */
    cti_callback report;              /* of on_error */
    cti_moved_frame report_moved[CTI_REPORT_FRAMES];
    /* after a backward was left: no node is pending any more */
    void (*give_up_backward)(ct_context *context);
    cti_handles handles;
    cti_objects objects;
    cti_closer *closers;       /* closed with the context */
    bool closing;              /* ct_context_free is closing them */
    int engines;               /* how many functions of comms' engines are running */
    const char *engine_misuse; /* a function that one has called and must not; or NULL */
    cti_profile *profile;      /* profile.h; NULL: none was started */
};

/* "bf16x3", as CT_MATMUL has it. */
const char *cti_matmul_name(ct_matmul_precision precision);
bool cti_set_matmul(ct_context *context, ct_matmul_precision precision); /* also with an error */

/* A block of at least size bytes (size 0 too), its content undefined. NULL with CT_ERR_MEMORY
 * recorded. */
static inline void *cti_take(ct_context *context, size_t size) {
    cti_pool *pool = &context->pool;
    if (!cti_is_linear(size) || !pool->plain) return cti_take_any(context, size);
    size_t bytes;
    const int class = cti_linear_class(size, &bytes);
    cti_free_block *block = pool->free[class];
    if (!block) return cti_take_any(context, size);
    pool->free[class] = block->next;
    pool->live += (int64_t)bytes;
    if (pool->live > pool->peak) pool->peak = pool->live;
    return block;
}

/* Gives a block back; size is that of cti_take. NULL is harmless. */
static inline void cti_give(ct_context *context, void *block, size_t size) {
    cti_pool *pool = &context->pool;
    if (!block || !cti_is_linear(size) || !pool->plain) {
        cti_give_any(context, block, size);
        return;
    }
    size_t bytes;
    const int class = cti_linear_class(size, &bytes);
    cti_free_block *free = block;
    free->next = pool->free[class];
    pool->free[class] = free;
    pool->live -= (int64_t)bytes;
}

/* Counts handles in use as memory in use. */
enum { CTI_HANDLE_BYTES = (sizeof(ct_tensor) + CTI_ALIGN - 1) / CTI_ALIGN * CTI_ALIGN };
static inline void cti_handle_count(ct_context *context, int count) {
    cti_pool *pool = &context->pool;
    pool->live += count * CTI_HANDLE_BYTES;
    if (pool->live > pool->peak) pool->peak = pool->live;
}

/* Room for a handle, its content undefined. NULL with CT_ERR_MEMORY recorded. */
static inline ct_tensor *cti_handle_take(ct_context *context) {
    ct_tensor *ended = context->handles.free;
    if (!ended || !context->pool.plain) return cti_handle_take_any(context);
    context->handles.free = ended->next;
    cti_handle_count(context, 1);
    return cti_slot_next(ended);
}

/* Ends a handle: from now on its address is that of no handle. */
static inline void cti_handle_give(ct_context *context, ct_tensor *tensor) {
    cti_handles *handles = &context->handles;
    tensor->self = cti_handle_ended(tensor);
    context->pool.live -= CTI_HANDLE_BYTES;
    if (cti_slot_is_last(handles, tensor)) {
        cti_handle_enqueue(context, tensor);
        return;
    }
    tensor->next = handles->free;
    handles->free = tensor;
}

static inline void cti_storage_unref(ct_context *context, cti_storage *storage) {
    if (storage && --storage->refs == 0) cti_give(context, storage, storage->bytes);
}

/* Adds a handle without an owner to a scope. */
static inline void cti_tensor_own(cti_frame *frame, ct_tensor *tensor) {
    tensor->frame = frame;
    tensor->prev = NULL;
    tensor->next = frame->tensors;
    if (frame->tensors) frame->tensors->prev = tensor;
    frame->tensors = tensor;
}

/* Takes a handle out of its scope, if it is in one. The caller owns it then. */
static inline void cti_tensor_disown(ct_tensor *tensor) {
    if (!tensor->frame) return;
    if (tensor->next) tensor->next->prev = tensor->prev;
    *(tensor->prev ? &tensor->prev->next : &tensor->frame->tensors) = tensor->next;
    tensor->frame = NULL;
}

/* Moves a tensor of a frame inside `frame` to it. One that already lives as long stays. */
static inline void cti_tensor_lift(ct_tensor *tensor, cti_frame *frame) {
    if (!tensor || !tensor->frame || tensor->frame->id <= frame->id) return;
    cti_tensor_disown(tensor);
    cti_tensor_own(frame, tensor);
}

/* Opens a frame of the library's, on the C stack. Code of a caller may run inside it, so
 * ct_scope_close ends neither this frame nor a scope around it. */
static inline void cti_frame_open(ct_context *context, cti_frame *frame, bool no_grad) {
    *frame = (cti_frame){.outer = context->frame,
                         .id = ++context->scopes,
                         .no_grad = no_grad || context->frame->no_grad,
                         .module = context->frame->module};
    context->frame = frame;
}

/* Opens a scope of the program's in which errors, debug mode and the profile name the module. The
 * scope has a span of the profile, which the caller begins and the end of the scope ends; NULL: the
 * scope is not open. */
ct_scope cti_scope_enter(ct_context *context, const cti_namer *module, struct cti_span **span);

/* Closes it, with every frame inside it. Their tensors end. */
void cti_frame_close(ct_context *context, cti_frame *frame);

/* Moves the tensor (or NULL) to the outer frame and closes this one. Mostly the frame holds nothing
 * else, so that needs no call. */
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

/* ct_fail in the contexts of two arguments of a call, as the caller may look at either. Each keeps
 * an error that it has already; NULL, and twice the same, are harmless. */
void *cti_fail_in_both(ct_context *a, ct_context *b, ct_status status, const char *format, ...)
    CT_FORMAT(4, 5);

/* Tells of the error that is pending, unless the context holds errors: calls on_error, and prints
 * it in debug mode. */
void cti_error_report(ct_context *context);
/* Prints the pending error if the caller has not looked at it. */
void cti_error_print_unseen(const ct_context *context);

/* Whether a function of a comm's engine is running: an error of the function that asks. */
bool cti_in_engine(ct_context *context, const char *function);

/* Takes the generator's next stream. */
ct_rng cti_rng_next(ct_context *context);

/* Whether there is a context without a pending error. Every function that computes or changes
 * something checks this first. */
bool cti_ready_in_callback(const ct_context *context);
static inline bool cti_ready(const ct_context *context) {
    return context && (!context->status_or_callbacks || cti_ready_in_callback(context));
}

/* Records an error if a callback was left by an exception or longjmp (callback.h). For functions
 * that also work while an error is pending, before they read anything else. */
void cti_callback_check(ct_context *context);
static inline void cti_check_callbacks(const ct_context *context) {
    if (context->callbacks) cti_callback_check((ct_context *)(uintptr_t)context);
}

/* A number for the thread that calls. */
uintptr_t cti_this_thread(void);

/* Around what allocates or changes lists of the context. In debug mode a call from a second thread
 * at the same time is refused (false, with no error: the context is the first one's), and the first
 * records it as it leaves. */
bool cti_debug_enter(ct_context *context);
void cti_debug_leave(ct_context *context);
static inline bool cti_enter(ct_context *context) {
    return !context->debug || cti_debug_enter(context);
}
static inline void cti_leave(ct_context *context) {
    if (context->debug) cti_debug_leave(context);
}

/* Whether an op may begin with a tensor that a caller hands in: it is not NULL, has not ended, and
 * its context has no error pending. */
static inline bool cti_tensor_ready(const ct_tensor *tensor, const char *op) {
    return tensor && cti_tensor_is_open(tensor, op) && cti_ready(tensor->context);
}

#endif
