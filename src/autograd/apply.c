/* ct_apply, which runs an op's forward and records the call if a gradient is wanted. */
#include "observe.h"

/* Whether the op takes input i, which is of blocks. */
static bool reads_blocks(const ct_call *c, const ct_tensor *t, int i) {
    if (c->op->flags & CTI_OP_READS_BLOCKS) return true;
    return ct_fail(c->context, CT_ERR_DTYPE, "%s: does not take %s, of which input %d is; ct_cast",
                   c->op->name, cti_dtype_name(t->dtype), i);
}

/* Checks the inputs `given`. Sets in[i] to the input or, for an op without CT_OP_STRIDED, to a
 * dense copy of it; wants[i] to whether its gradient is wanted; and *wanted to whether any gradient
 * is wanted. */
static inline __attribute__((always_inline)) bool apply_prepare(ct_call *c, ct_tensor *const *given,
                                                                ct_tensor **in, bool *wants,
                                                                bool recording, bool *wanted) {
    const ct_op *op = c->op;
    ct_context *context = c->context;
    for (int i = 0, n = c->n; i < n; i++) {
        ct_tensor *t = given[i];
        in[i] = t;
        wants[i] = false;
        if (!t) {
            if (i && op->flags & CT_OP_OPTIONAL) continue;
            ct_fail(context, CT_ERR_ARGUMENT, "%s: input %d is NULL", op->name, i);
            return false;
        }
        if (!cti_tensor_is_of(t, context)) return cti_tensors_in(given, n, context, op->name);
        wants[i] = recording && t->slot;
        *wanted |= wants[i];
        if (t->contiguous) continue;
        if (!cti_tensor_has_values(t, op->name)) return false;
        if (cti_is_blocks(t->dtype)) {
            if (!reads_blocks(c, t, i)) return false;
        } else if (!(op->flags & CT_OP_STRIDED)) {
            in[i] = cti_tensor_dense(t);
            if (!in[i]) return false;
        }
    }
    return true;
}

/* Output k as a new handle of this op's frame. It is a view if forward returned an input, another
 * tensor from outside, or the same tensor twice. */
static inline ct_tensor *own_result(const ct_call *c, const cti_frame *frame, int k) {
    ct_tensor *out = c->outs[k];
    if (!out && c->n_outs == 1)
        return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: forward returned nothing", c->op->name);
    if (!out)
        return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: forward set no output %d", c->op->name, k);
    bool own = out->frame == frame && !out->slot; /* an ended handle is in no frame */
    for (int before = 0; own && before < k; before++) own = c->outs[before] != out;
    if (own) return out;
    return cti_call_owns(c, out, CT_ERR_ARGUMENT, "forward returned a tensor") &&
                   cti_tensor_has_values(out, c->op->name)
               ? cti_tensor_view(out, out->data, out->shape, out->stride)
               : NULL;
}

static inline __attribute__((always_inline)) bool apply_compute(ct_call *c, ct_tensor *const *given,
                                                                cti_frame *frame) {
    const cti_running running = {
        .outer = c->context->running, .given = given, .n = c->n, .call = c, .frame = frame};
    c->context->running = &running;
    c->outs[0] = c->op->forward(c);
    c->context->running = running.outer;
    for (int k = 0; k < c->n_outs; k++) {
        ct_tensor *out = own_result(c, frame, k);
        c->outs[k] = out;
        if (!out) return false;
    }
    return cti_ready(c->context);
}

static bool has_gradient(const ct_call *c) {
    bool real = false;
    for (int k = 0; k < c->n_outs; k++) real |= cti_is_real(c->outs[k]->dtype);
    return real;
}

/* Runs the op in a frame. Then the outputs are in the outer scope. If it fails, they are NULL and
 * false is returned. */
static inline __attribute__((always_inline)) bool apply_run(ct_call *c, ct_tensor *const *given,
                                                            ct_tensor **in, bool *wants) {
    ct_context *context = c->context;
    const bool recording = !context->frame->no_grad && c->op->backward;
    bool wanted = false;
    const char *outer_op = context->op;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    context->op = c->op->name;
    bool done =
        apply_prepare(c, given, in, wants, recording, &wanted) && apply_compute(c, given, &frame);
    if (done && wanted && has_gradient(c)) done = cti_tape_record(c, given);
    if (done && context->observed) done = cti_observe_result(c, given);
    for (int k = 1; k < c->n_outs; k++) {
        if (done) cti_tensor_lift(c->outs[k], frame.outer);
        else c->outs[k] = NULL;
    }
    c->outs[0] = cti_frame_return(context, &frame, done ? c->outs[0] : NULL);
    context->op = outer_op;
    return done;
}

static bool call_apply(const ct_op *op, ct_tensor *const *in, int n, const void *attrs,
                       ct_tensor **outs) {
    ct_context *context = NULL;
    for (int i = 0; in && i < n && !context; i++)
        if (in[i]) context = cti_handle_context(in[i]);
    if (!cti_ready(context)) { /* the context of another input may have no error yet */
        if (context) cti_tensors_in(in, n, context, op && op->name ? op->name : "apply");
        return false;
    }
    if (!op || !op->forward || !op->name)
        return ct_fail(context, CT_ERR_ARGUMENT, "apply: the op has no forward or no name");
    if (op->attrs_size && !attrs)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: attrs is NULL", op->name);
    enum { ON_STACK = 8 };
    ct_tensor *stack_in[ON_STACK], **call_in = stack_in;
    bool stack_wants[ON_STACK], *wants = stack_wants;
    const size_t bytes = n > ON_STACK ? cti_bytes(n, sizeof *in + sizeof *wants) : 0;
    cti_span span;
    if (context->observed && !cti_observe_enter(context, op, &span)) return false;
    if (bytes) {
        call_in = cti_take(context, bytes);
        if (!call_in) {
            if (context->observed) cti_observe_leave(context, &span);
            return false;
        }
        wants = (bool *)(call_in + n);
    }
    ct_call call = {.context = context,
                    .op = op,
                    .attrs = op->attrs_size ? attrs : NULL,
                    .in = call_in,
                    .n = n,
                    .wants = wants,
                    .outs = outs,
                    .n_outs = op->outputs > 1 ? op->outputs : 1};
    const bool done = apply_run(&call, in, call_in, wants);
    if (bytes) cti_give(context, call_in, bytes);
    if (context->observed) cti_observe_leave(context, &span);
    return done;
}

/* Returns the first of several outputs and ends the others. */
static ct_tensor *first_output(const ct_op *op, ct_tensor **outs) {
    for (int k = 1; k < op->outputs; k++) ct_release(outs[k]);
    return outs[0];
}

ct_tensor *ct_apply(const ct_op *op, ct_tensor *const *in, int n, const void *attrs) {
    ct_tensor *outs[CT_MAX_OUTPUTS], *out = NULL;
    if (!op || op->outputs < 2) return call_apply(op, in, n, attrs, &out) ? out : NULL;
    return ct_apply_many(op, in, n, attrs, outs) ? first_output(op, outs) : NULL;
}

/* Sets the outputs to NULL. Returns false with an error if `outs` has no room for them. */
static bool outs_clear(const ct_op *op, ct_tensor *const *in, int n, ct_tensor **outs) {
    if (!outs || (op && op->outputs > CT_MAX_OUTPUTS)) {
        for (int i = 0; in && i < n; i++)
            if (in[i])
                ct_fail(cti_handle_context(in[i]), CT_ERR_ARGUMENT, "%s: %s",
                        op && op->name ? op->name : "apply",
                        outs ? "too many outputs" : "outs is NULL");
        return false;
    }
    for (int k = 0; k < CT_MAX_OUTPUTS && (k < 1 || (op && k < op->outputs)); k++) outs[k] = NULL;
    return true;
}

bool ct_apply_many(const ct_op *op, ct_tensor *const *in, int n, const void *attrs,
                   ct_tensor **outs) {
    return outs_clear(op, in, n, outs) && call_apply(op, in, n, attrs, outs);
}
