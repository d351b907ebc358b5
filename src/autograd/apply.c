/* Running an op. */
#include "debug.h"
#include "tape.h"

/* Checks the inputs, fills in dense copies where the op wants them, and says whose gradient is wanted, and whether one is. */
static bool prepare(ct_call *c, ct_tensor *const *given, ct_tensor **in, bool *wants, bool recording, bool *wanted) {
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
        if (t->context != context) return cti_same_context(context, t->context, op->name);
        wants[i] = recording && t->node;
        *wanted |= wants[i];
        if (t->contiguous) continue;
        if (!cti_tensor_has_values(t, op->name)) return false;
        if (!(op->flags & CT_OP_STRIDED) && !(in[i] = cti_tensor_dense(t))) return false;
    }
    return true;
}

/* The result as a handle of its own: a forward may hand back an input, or a tensor from outside. */
static ct_tensor *own_result(ct_call *c, const cti_frame *frame, ct_tensor *out) {
    if (!out) {
        ct_fail(c->context, CT_ERR_ARGUMENT, "%s: forward returned nothing", c->op->name);
        return NULL;
    }
    if (out->context != c->context) {
        ct_fail(c->context, CT_ERR_ARGUMENT, "%s: forward returned a tensor of another context", c->op->name);
        return NULL;
    }
    if (out->frame == frame && !out->node) return out;
    return cti_tensor_has_values(out, c->op->name) ? cti_tensor_view(out, out->data, out->shape, out->stride) : NULL;
}

static ct_tensor *run(ct_call *c, ct_tensor *const *given, ct_tensor **in, bool *wants) {
    ct_context *context = c->context;
    bool recording = !context->frame->no_grad && c->op->backward, wanted = false;
    const char *outer_op = context->op;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    context->op = c->op->name;
    ct_tensor *out = NULL;
    if (prepare(c, given, in, wants, recording, &wanted)) {
        const cti_running running = {context->running, given, c->n, c, &frame};
        context->running = &running;
        out = own_result(c, &frame, c->op->forward(c));
        context->running = running.outer;
    }
    if (context->status) out = NULL;
    if (out && wanted && cti_is_real(out->dtype)) {
        c->out = out;
        out->node = cti_tape_record(c, given);
        if (!out->node) out = NULL;
    }
    if (out && context->debug && !cti_debug_result(c, out)) out = NULL;
    out = cti_frame_return(context, &frame, out);
    context->op = outer_op;
    return out;
}

ct_tensor *ct_apply(const ct_op *op, ct_tensor *const *in, int n, const void *attrs) {
    ct_context *context = NULL;
    for (int i = 0; in && i < n && !context; i++)
        if (in[i]) context = in[i]->context;
    if (!cti_ready(context)) {   /* its error may not be known in another context */
        for (int i = 0; context && i < n; i++)
            if (in[i]) cti_same_context(context, in[i]->context, op && op->name ? op->name : "apply");
        return NULL;
    }
    if (!op || !op->forward || !op->name) return ct_fail(context, CT_ERR_ARGUMENT, "apply: the op has no forward or no name");
    if (op->attrs_size && !attrs) return ct_fail(context, CT_ERR_ARGUMENT, "%s: attrs is NULL", op->name);
    enum { FEW = 8 };
    ct_tensor *few_in[FEW], **call_in = few_in;
    bool few_wants[FEW], *wants = few_wants;
    const size_t many = n > FEW ? cti_bytes(n, sizeof *in + sizeof *wants) : 0;
    if (many) {
        if (!(call_in = cti_take(context, many))) return NULL;
        wants = (bool *)(call_in + n);
    }
    ct_call call = {.context = context, .op = op, .attrs = op->attrs_size ? attrs : NULL, .in = call_in, .n = n, .wants = wants};
    ct_tensor *out = run(&call, in, call_in, wants);
    if (many) cti_give(context, call_in, many);
    return out;
}
