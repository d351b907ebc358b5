/* The code of debug mode and of the profile that runs around an op's forward and backward. */
#include "observe.h"

bool cti_observe_enter(ct_context *context, const ct_op *op, cti_span *span) {
    if (context->debug && !cti_debug_enter(context)) return false;
    cti_span_begin(context, span, CTI_SPAN_FORWARD, op->name);
    return true;
}

void cti_observe_leave(ct_context *context, cti_span *span) {
    cti_span_end(context, span);
    if (context->debug) cti_debug_leave(context);
}

static bool is_view_of_one(const ct_tensor *out, ct_tensor *const *given, int n) {
    bool is = false;
    for (int i = 0; i < n; i++) is |= given[i] && given[i]->storage == out->storage;
    return is;
}

/* Counts the bytes that the call has made and read. An op that returns only views of its inputs has
 * read none. */
static void call_measure(cti_span *span, const ct_call *c, ct_tensor *const *given) {
    for (int k = 0; k < c->n_outs; k++)
        if (!is_view_of_one(c->outs[k], given, c->n)) span->made += cti_profile_bytes(c->outs[k]);
    if (!span->made) return;
    span->bytes = span->made;
    for (int i = 0; i < c->n; i++)
        if (given[i]) span->bytes += cti_profile_bytes(given[i]);
}

/* Counts the bytes that the node keeps. Parameters are not counted, because they exist anyway. */
static void node_measure(cti_span *span, cti_node *node, ct_tensor *const *given) {
    for (int i = 0; i < node->saved_count; i++) {
        const bool is_parameter = i < node->call.n && given[i] && given[i]->parameter;
        if (node->saved[i].storage && !is_parameter)
            span->kept += cti_profile_bytes(&node->saved[i]);
    }
}

bool cti_observe_result(const ct_call *c, ct_tensor *const *given) {
    cti_span *span = cti_span_open(c->context);
    if (span) {
        cti_node *node = NULL;
        for (int k = 0; k < c->n_outs && !node; k++)
            if (c->outs[k]->slot) node = cti_node_of(c->outs[k]->slot);
        call_measure(span, c, given);
        if (node) {
            if (!c->context->in_recompute) node_measure(span, node, given);
            node->mark = cti_profile_mark(c->context);
        }
        cti_span_shapes(c->context, span, given, c->n, c->outs, c->n_outs);
    }
    return !c->context->debug || cti_debug_result(c);
}

bool cti_observe_node(const cti_node *node, cti_span *span) {
    const ct_call *c = &node->call;
    const bool clean = c->context->debug && cti_debug_node_is_clean(node);
    if (cti_profile_is_running(c->context)) {
        ct_tensor *out[CT_MAX_OUTPUTS];
        for (int k = 0; k < c->n_outs; k++) out[k] = node->slot[k].sum;
        cti_span_begin_backward(c->context, span, c->op->name, node->mark);
        cti_span_shapes(c->context, span, c->in, c->n, out, c->n_outs);
    }
    return clean;
}

void cti_observe_gradients(const cti_node *node, ct_tensor *const *cotangents,
                           ct_tensor *const *grad) {
    const ct_call *c = &node->call;
    cti_span *span = cti_span_open(c->context);
    int64_t written = 0, read = 0;
    if (!span) return;
    for (int i = 0; i < c->n; i++) {
        const ct_tensor *g = c->wants[i] ? grad[i] : NULL;
        if (g && g->self == g && !is_view_of_one(g, cotangents, c->n_outs))
            written += cti_profile_bytes(g);
    }
    for (int k = 0; k < c->n_outs; k++)
        if (cotangents[k]) read += cti_profile_bytes(cotangents[k]);
    for (int i = 0; i < node->saved_count; i++)
        if (node->saved[i].storage) read += cti_profile_bytes(&node->saved[i]);
    if (written) span->bytes = read + written;
}

bool cti_observe_node_end(const cti_node *node, cti_span *span, bool clean, bool done) {
    if (done && clean) done = cti_debug_gradients(node);
    cti_span_end(node->call.context, span);
    return done;
}
