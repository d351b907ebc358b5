/* Scopes: a stack of frames. Each frame has a list of the handles that it owns. */
#include "context.h"
#include "profile.h"

/* The frame of ct_module_enter, which is also a span of the profile. */
typedef struct {
    cti_frame frame; /* the first member, so that its address is the block's */
    cti_span span;   /* undefined if no profile was running when the scope was opened */
} entered_frame;

/* Closes the innermost frame. */
static void pop(ct_context *context) {
    cti_frame *frame = context->frame;
    CTI_ASSERT(frame != &context->root && frame->outer->id < frame->id);
    while (frame->tensors) cti_tensor_free(frame->tensors);
    context->frame = frame->outer;
    if (frame->entered && context->profile)
        context->profile->end_span(context, &((entered_frame *)frame)->span);
    if (frame->pooled)
        cti_give(context, frame, frame->entered ? sizeof(entered_frame) : sizeof *frame);
}

/* The open frame with this id, or NULL if there is none. */
static cti_frame *find(const ct_context *context, uint64_t id) {
    cti_frame *frame = context->frame;
    while (frame && frame->id != id) frame = frame->outer;
    return frame;
}

void cti_frame_close(ct_context *context, cti_frame *frame) {
    while (context->frame != frame) pop(context);
    pop(context);
}

/* Opens a frame of the program in a block of `bytes` bytes. Returns NULL if it cannot be opened. */
static cti_frame *open_frame(ct_context *context, bool no_grad, size_t bytes) {
    if (!cti_context_enter(context)) return NULL;
    cti_frame *frame = cti_take(context, bytes);
    if (frame) {
        cti_frame_open(context, frame, no_grad);
        frame->pooled = true;
    }
    cti_context_leave(context);
    return frame;
}

static ct_scope open_scope(ct_context *context, bool no_grad) {
    if (!context) return (ct_scope){0};
    const cti_frame *frame = open_frame(context, no_grad, sizeof *frame);
    return frame ? (ct_scope){context, frame->id} : (ct_scope){0};
}

ct_scope ct_scope_open(ct_context *context) { return open_scope(context, false); }
ct_scope ct_scope_open_no_grad(ct_context *context) { return open_scope(context, true); }

ct_scope cti_scope_enter(ct_context *context, const cti_namer *module, cti_span **span) {
    entered_frame *entered = (entered_frame *)open_frame(context, false, sizeof *entered);
    *span = entered ? &entered->span : NULL;
    if (!entered) return (ct_scope){0};
    entered->frame.entered = true;
    entered->frame.module = module;
    return (ct_scope){context, entered->frame.id};
}

/* The frame of a scope; NULL if it is not open. Id 0 is the id of the root and of a scope that
 * could not be opened, and neither can be closed. */
static cti_frame *frame_of(ct_scope scope) {
    return scope.context && scope.id ? find(scope.context, scope.id) : NULL;
}

ct_tensor *ct_scope_keep(ct_scope scope, ct_tensor *tensor) {
    if (tensor && scope.context && !cti_tensor_in(tensor, scope.context, "scope_keep")) return NULL;
    if (tensor && !cti_tensor_has_values(tensor, "scope_keep")) return NULL;
    cti_frame *frame = frame_of(scope);
    if (frame) cti_tensor_lift(tensor, frame->outer);
    return tensor;
}

ct_tensor *ct_scope_return(ct_scope scope, ct_tensor *tensor) {
    tensor = ct_scope_keep(scope, tensor);
    ct_scope_close(scope);
    return tensor;
}

/* Whether a frame of the library is open inside this one. A forward or a backward that began inside
 * the scope is then running, and may use the scope's tensors. */
static bool is_in_use(const ct_context *context, const cti_frame *frame) {
    for (const cti_frame *open = context->frame; open != frame; open = open->outer)
        if (!open->pooled) return true;
    return false;
}

void ct_scope_close(ct_scope scope) {
    ct_context *context = scope.context;
    cti_frame *frame = frame_of(scope);
    if (frame && (!frame->pooled || is_in_use(context, frame)))
        ct_fail(context, context->backward ? CT_ERR_GRAD : CT_ERR_ARGUMENT,
                "%s: closed a scope that it had not opened",
                context->op ? context->op : "a module's forward");
    else if (frame) cti_frame_close(context, frame);
}

ct_tensor *ct_keep(ct_tensor *tensor) {
    if (tensor && !cti_tensor_has_values(tensor, "keep")) return NULL;
    if (tensor) cti_tensor_lift(tensor, &tensor->context->root);
    return tensor;
}

/* A tensor in no scope, such as a parameter or a gradient, belongs to a module or the tape and
 * stays. */
void ct_release(ct_tensor *tensor) {
    if (tensor && cti_tensor_is_open(tensor, "release") && tensor->frame) cti_tensor_end(tensor);
}
