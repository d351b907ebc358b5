/* Backward, a loop along the tape from the newest output to older nodes. A node is pending when a
 * gradient has arrived in one of its slots. The nodes of a node's inputs are older than the node,
 * so when the loop reaches a pending node, all its gradients have arrived. The loop ends when no
 * node is pending. It takes no memory. */
#include "observe.h"
#include "recompute.h"
#include "watch.h"

/* Whether the watcher sees this backward. It does not see those of ct_gradcheck and ct_jacobian,
 * which hold errors. */
static inline bool is_watched(const ct_context *context) {
    return context->watch && !context->held;
}

/* ---- one node ---- */

static bool values_are_unchanged(const cti_node *node) {
    for (int i = 0; i < node->saved_count; i++) {
        const ct_tensor *t = &node->saved[i];
        if (!t->storage || t->storage->writes == t->writes) continue;
        ct_fail(node->call.context, CT_ERR_GRAD,
                "backward: %s: a value of shape %s that was saved for backward has been changed in "
                "place since",
                node->call.op->name, SHAPE(t->shape));
        return false;
    }
    return true;
}

static bool gradient_refuse(const ct_call *c, int i, const ct_tensor *grad) {
    char what[48];
    snprintf(what, sizeof what, "backward's gradient for input %d is", i);
    return cti_call_owns(c, grad, CT_ERR_GRAD, what);
}

static bool is_gradient_of(const ct_call *c, int i, const ct_tensor *grad) {
    const ct_tensor *in = c->in[i];
    if (!grad)
        ct_fail(c->context, CT_ERR_GRAD, "%s: backward set no gradient for input %d", c->op->name,
                i);
    else if (!cti_tensor_is_of(grad, c->context)) return gradient_refuse(c, i, grad);
    else if (!cti_shape_same(&grad->shape, &in->shape))
        ct_fail(c->context, CT_ERR_GRAD,
                "%s: backward's gradient for input %d has shape %s, the input %s", c->op->name, i,
                SHAPE(grad->shape), SHAPE(in->shape));
    else if (grad->dtype != in->dtype)
        ct_fail(c->context, CT_ERR_GRAD, "%s: backward's gradient for input %d is %s, the input %s",
                c->op->name, i, cti_dtype_name(grad->dtype), cti_dtype_name(in->dtype));
    else return cti_tensor_has_values(grad, c->op->name);
    return false;
}

/* Adds a gradient to a slot; the slot's node, unless it is a leaf, becomes pending. */
static bool gradient_receive(cti_grad_slot *slot, ct_tensor *grad, const cti_frame *frame,
                             int *pending) {
    if (!cti_grad_slot_receive(slot, grad, frame)) return false;
    cti_node *node = cti_node_of(slot);
    if (node->call.op && !node->pending) {
        node->pending = true;
        cti_node_ref(node);
        ++*pending;
    }
    CTI_ASSERT(*pending > 0 || !node->call.op);
    return true;
}

bool cti_backward_continue(cti_grad_slot *slot, ct_tensor *grad) {
    ct_context *context = grad->context;
    return gradient_receive(slot, grad, context->frame, context->pending);
}

/* Calls the op's backward with the gradients in the node's slots. Adds the gradients that it
 * returns to the slots of the inputs. */
static bool node_call_backward(cti_node *node, ct_tensor **cotangent, ct_tensor **grad,
                               cti_frame *frame, int *pending) {
    const ct_call *c = &node->call;
    for (int k = 0; k < node->call.n_outs; k++) {
        cti_grad_slot *slot = &node->slot[k];
        cotangent[k] = slot->sum;
        if (!slot->sum) continue;
        cti_grad_slot_fill(slot);
        if (slot->retain && !cti_grad_slot_retain(slot, frame)) return false;
        if (c->op->flags & CT_OP_STRIDED) continue;
        cotangent[k] = cti_tensor_dense(slot->sum);
        if (!cotangent[k]) return false;
    }
    if (!c->op->backward(c, cotangent, grad) || c->context->status)
        return ct_fail(c->context, CT_ERR_GRAD, "%s: backward failed", c->op->name);
    if (c->context->observed) cti_observe_gradients(node, cotangent, grad);
    for (int k = 0; k < node->call.n_outs; k++) {
        if (!cotangent[k] || cotangent[k] != node->slot[k].sum) continue;
        /* The frame owns it now: if backward returned it as a gradient, it has one owner, and the
         * next slot can add to it in place. */
        cti_tensor_own(c->context->frame, cotangent[k]);
        node->slot[k].sum = NULL;
    }
    for (int i = 0; i < c->n; i++)
        CTI_ASSERT(!c->wants[i] || cti_node_may_be_older(cti_node_of(node->edge[i]), node));
    for (int i = 0; i < c->n; i++)
        if (c->wants[i] && (!is_gradient_of(c, i, grad[i]) ||
                            !gradient_receive(node->edge[i], grad[i], frame, pending)))
            return false;
    return true;
}

static bool node_backward(cti_node *node, int *pending, bool retain_graph, cti_span *span) {
    const ct_call *c = &node->call;
    ct_context *context = c->context;
    if (node->released)
        return ct_fail(context, CT_ERR_GRAD,
                       "backward: %s: an earlier backward has released this part of the graph; it "
                       "can be kept with retain_graph",
                       c->op->name);
    if (!values_are_unchanged(node)) return false;
    enum { ON_STACK = 8 };
    ct_tensor *stack_grad[ON_STACK] = {0}, **grad = stack_grad, *cotangent[CT_MAX_OUTPUTS];
    const int n = c->n; /* a copy, because cti_node_release sets c->n to 0 */
    const size_t bytes = cti_bytes(n, sizeof *grad);
    if (n > ON_STACK) {
        grad = cti_take_zeroed(context, bytes);
        if (!grad) return false;
    }
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    context->op = context->backward = c->op->name;
    node->last = !retain_graph;
    const bool clean = context->observed && cti_observe_node(node, span);
    bool done = node_call_backward(node, cotangent, grad, &frame, pending);
    if (context->observed) done = cti_observe_node_end(node, span, clean, done);
    for (int i = 0; i < n; i++) /* a backward that succeeds has returned all loans */
        CTI_ASSERT(!done || !node->edge[i] || !node->edge[i]->lent);
    for (int i = 0; i < n; i++)
        if (node->edge[i]) cti_grad_slot_end_loans(node->edge[i]);
    context->op = "backward";
    cti_frame_close(context, &frame);
    if (n > ON_STACK) cti_give(context, grad, bytes);
    if (done && is_watched(context)) done = cti_watch_ran(context, node);
    if (done && !retain_graph) cti_node_release(node);
    return done;
}

/* ---- along the tape ---- */

static void pending_clear(cti_node *node, int *pending) {
    CTI_ASSERT(node->pending && *pending > 0);
    node->pending = false;
    --*pending;
    for (int k = 0; k < node->call.n_outs; k++) cti_grad_slot_empty(&node->slot[k]);
}

/* Clears the pending nodes after a failure, from `node` to older ones, and returns false. It holds
 * a reference to the current node, because a reference that is dropped may free older nodes. */
static bool backward_give_up(cti_node *node, int pending) {
    cti_node_ref(node);
    while (pending) {
        CTI_ASSERT(node);
        if (node->pending) {
            pending_clear(node, &pending);
            node->refs--; /* not the last reference, because this function holds one */
        }
        cti_node *older = node->prev;
        if (older) cti_node_ref(older);
        cti_node_unref(node);
        node = older;
    }
    if (node) cti_node_unref(node);
    return false;
}

/* Runs backward of the pending nodes, from `node` to older ones. The span belongs to the caller and
 * this function is not inlined, so that GCC inlines node_backward, which saves some 20 instructions
 * for each node. */
__attribute__((noinline)) static bool run_pending(cti_node *node, int pending, bool retain_graph,
                                                  cti_span *span) {
    node->call.context->pending = &pending;
    while (pending) {
        CTI_ASSERT(node); /* older nodes are left while one is pending */
        cti_node *older;
        if (node->pending) {
            if (!node_backward(node, &pending, retain_graph, span))
                return backward_give_up(node, pending);
            pending_clear(node, &pending);
            /* read only now, because node_backward may have freed older nodes or put nodes before
             * this one */
            older = node->prev;
            cti_node_unref(node);
        } else {
            older = node->prev;
        }
        node = older;
    }
    return true;
}

static bool seed_check(ct_context *context, const ct_tensor *out, const ct_tensor *cotangent,
                       int i) {
    if (!out) ct_fail(context, CT_ERR_ARGUMENT, "backward: output %d is NULL", i);
    else if (!cti_tensor_has_values(out, "backward") ||
             (cotangent && !cti_tensor_has_values(cotangent, "backward")))
        return false;
    else if (!out->slot)
        ct_fail(context, CT_ERR_GRAD,
                "backward: output %d %s was not computed from anything that requires a gradient", i,
                SHAPE(out->shape));
    else if (cti_node_of(out->slot)->released)
        ct_fail(context, CT_ERR_GRAD,
                "backward: %s: an earlier backward has released this graph; it can be kept with "
                "retain_graph",
                cti_node_of(out->slot)->call.op->name);
    else if (!cotangent && out->numel != 1)
        ct_fail(context, CT_ERR_GRAD,
                "backward: an output of shape %s is not one number; give it a cotangent",
                SHAPE(out->shape));
    else if (cotangent && out->dtype != cotangent->dtype)
        ct_fail(context, CT_ERR_DTYPE, "backward: the cotangent of output %d is %s, the output %s",
                i, cti_dtype_name(cotangent->dtype), cti_dtype_name(out->dtype));
    else if (cotangent && !cti_shape_equal(out->shape, cotangent->shape))
        ct_fail(context, CT_ERR_SHAPE,
                "backward: the cotangent of output %d has shape %s, the output %s", i,
                SHAPE(cotangent->shape), SHAPE(out->shape));
    else return true;
    return false;
}

/* Output i / 2, or its cotangent if i is odd; NULL if there is none. */
static const ct_tensor *seed_at(ct_tensor *const *outs, ct_tensor *const *cotangents, int64_t i) {
    ct_tensor *const *list = i % 2 ? cotangents : outs;
    return list ? list[i / 2] : NULL;
}

/* Whether outputs and cotangents belong to the context. If not, the error is recorded in the
 * contexts of all. */
static bool are_seeds_in(ct_context *context, ct_tensor *const *outs, ct_tensor *const *cotangents,
                         int n) {
    const ct_tensor *bad = NULL;
    const int64_t count = 2 * (int64_t)n;
    for (int64_t i = 0; i < count && !bad; i++) {
        const ct_tensor *t = seed_at(outs, cotangents, i);
        if (t && !cti_tensor_is_of(t, context)) bad = t;
    }
    for (int64_t i = 0; i < count && bad; i++)
        cti_tensor_refuse_in(ct_context_of(seed_at(outs, cotangents, i)), bad, "backward",
                             "the tensor");
    return !bad;
}

bool ct_backward_with(ct_tensor *const *outs, ct_tensor *const *cotangents, int n,
                      ct_backward_opts opts) {
    ct_context *context = cti_tensors_context(outs, n);
    if (!context && outs) context = cti_tensors_context(cotangents, n);
    if (!context || !are_seeds_in(context, outs, cotangents, n) || !cti_ready(context))
        return false;
    if (context->backward)
        return ct_fail(context, CT_ERR_GRAD, "backward: called inside the backward of %s",
                       context->backward);
    if (context->in_recompute)
        return ct_fail(context, CT_ERR_GRAD, "backward: called inside a function of ct_recompute");
    cti_node *newest = NULL;
    for (int i = 0; i < n; i++) {
        if (!seed_check(context, outs[i], cotangents ? cotangents[i] : NULL, i)) return false;
        cti_node *node = cti_node_of(outs[i]->slot);
        if (node->moved) newest = context->tape_last; /* its place on the tape is not known */
        else if (!newest || node->sequence > newest->sequence) newest = node;
    }
    if (!cti_context_enter(context)) return false;
    const char *outer_op = context->op;
    context->op = "backward";
    cti_frame frame;
    cti_span span; /* the span of the running node */
    cti_frame_open(context, &frame, true);
    context->backward = "backward";
    int pending = 0;
    bool ok = !is_watched(context) || cti_watch_begin(context, outs, n, opts.retain_graph);
    for (int i = 0; ok && i < n; i++) {
        ct_tensor *seed = cotangents && cotangents[i]
                              ? cotangents[i]
                              : ct_ones(context, outs[i]->dtype, outs[i]->shape);
        ok = seed && gradient_receive(outs[i]->slot, seed, &frame, &pending);
    }
    ok = ok ? run_pending(newest, pending, opts.retain_graph, &span)
            : backward_give_up(newest, pending);
    CTI_ASSERT(cti_tape_pending(context) == 0);
    if (is_watched(context)) ok = cti_watch_end(context, ok);
    cti_frame_close(context, &frame);
    context->backward = NULL;
    context->op = outer_op;
    cti_context_leave(context);
    return ok;
}

bool ct_backward(ct_tensor *loss) {
    return loss && ct_backward_with(&loss, NULL, 1, (ct_backward_opts){0});
}

/* ---- leaves and gradients ---- */

/* Records that a dtype has no gradients. The error names a parameter of bf16. */
static ct_tensor *dtype_refuse(const ct_tensor *t) {
    char buffer[CTI_NAME_SIZE];
    const bool named = t->parameter && t->namer;
    return ct_fail(t->context, CT_ERR_DTYPE, "set_requires_grad: %s%s%s has no gradient",
                   named ? t->namer->name(t->namer, buffer) : "", named ? " is bf16, which" : "",
                   named ? "" : cti_dtype_name(t->dtype));
}

ct_tensor *ct_set_requires_grad(ct_tensor *t, bool requires_grad) {
    if (!t || !cti_tensor_has_values(t, "set_requires_grad") || !cti_ready(t->context)) return NULL;
    ct_context *context = t->context;
    if (t->slot && cti_node_of(t->slot)->call.op)
        return ct_fail(context, CT_ERR_GRAD,
                       "set_requires_grad: a result of %s is not a leaf; detach it first",
                       cti_node_of(t->slot)->call.op->name);
    if (requires_grad && !cti_is_real(t->dtype)) return dtype_refuse(t);
    if (requires_grad && !t->slot) {
        cti_node *leaf = cti_tape_leaf(t);
        if (!leaf) return NULL;
        t->slot = &leaf->slot[0];
    } else if (!requires_grad && t->slot) {
        cti_grad_slot_disown(t->slot);
        t->slot = NULL;
    }
    t->frozen = !requires_grad;
    return t;
}

bool ct_requires_grad(const ct_tensor *t) {
    return t && cti_tensor_is_open(t, "requires_grad") && t->slot;
}

ct_tensor *ct_retain_grad(ct_tensor *t) {
    if (!t || !cti_tensor_has_values(t, "retain_grad") || !cti_ready(t->context)) return NULL;
    if (!t->slot)
        return ct_fail(t->context, CT_ERR_GRAD,
                       "retain_grad: %s was not computed from anything that requires a gradient",
                       SHAPE(t->shape));
    t->slot->retain = true;
    return t;
}

/* The gradient that ct_grad returns. */
static ct_tensor **shown_grad(cti_grad_slot *slot) {
    return cti_node_of(slot)->call.op ? &slot->retained : &slot->sum;
}

ct_tensor *ct_grad(ct_tensor *t) {
    return t && cti_tensor_has_values(t, "grad") && t->slot ? *shown_grad(t->slot) : NULL;
}

bool ct_zero_grad(ct_tensor *t) {
    if (!t || !cti_tensor_has_values(t, "zero_grad") || !cti_ready(t->context)) return false;
    if (t->context->backward)
        return ct_fail(t->context, CT_ERR_GRAD, "zero_grad: called inside the backward of %s",
                       t->context->backward);
    if (t->context->in_recompute)
        return ct_fail(t->context, CT_ERR_GRAD,
                       "zero_grad: called inside a function of ct_recompute");
    ct_tensor **grad = t->slot ? shown_grad(t->slot) : NULL;
    if (grad && *grad) {
        cti_tensor_end(*grad);
        *grad = NULL;
    }
    return true;
}

ct_tensor *ct_detach(ct_tensor *t) {
    if (!t || !cti_tensor_has_values(t, "detach") || !cti_ready(t->context)) return NULL;
    ct_tensor *detached = cti_tensor_view(t, t->data, t->shape, t->stride);
    if (detached) detached->maker = "detach";
    return detached;
}
