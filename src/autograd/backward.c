/* Backward: from the newest node to the oldest, along the tape. A node that has a gradient coming in is pending; each in its turn
 * hands gradients to the nodes of its inputs, which are all older. So the walk ends when nothing is pending, and takes no
 * memory of its own. */
#include "../core/context.h"
#include "debug.h"
#include "tape.h"

#include <string.h>

/* ---- the slots where gradients gather ---- */

static ct_tensor **slot_of(cti_node *node) { return node->call.op ? &node->incoming : &node->grad; }

/* Zeros from `start` to `end` of a dim of a row-major tensor. */
static void clear(ct_tensor *t, int dim, int64_t start, int64_t end) {
    const int64_t size = t->shape.dim[dim], inner = t->stride[dim] * (int64_t)cti_dtype_size(t->dtype);
    const int64_t outer = t->numel ? t->numel / (size * t->stride[dim]) : 0;
    for (int64_t o = 0; o < outer; o++) memset(t->data + (o * size + start) * inner, 0, (size_t)((end - start) * inner));
}

/* Before a slot that slices came into is read, or added to as a whole. */
static void close_hole(cti_node *node) {
    if (node->hole_start < node->hole_end) clear(node->incoming, node->hole_dim, node->hole_start, node->hole_end);
    node->hole_start = node->hole_end = 0;
}

/* The slot's own handle, out of every scope. A tensor of the frame of this backward is taken over as it is, unless it must be
 * row-major memory of its own (what ct_grad shows) and is not; any other tensor is viewed or copied. */
static ct_tensor *adopt(ct_tensor *grad, const cti_frame *frame, bool shown) {
    if (grad->frame != frame || grad->node || (shown && !cti_tensor_is_sole(grad))) {
        ct_tensor *from = grad;
        grad = shown ? cti_tensor_new(from->context, from->dtype, from->shape) : cti_tensor_view(from, from->data, from->shape, from->stride);
        if (!grad) return NULL;
        if (shown) cti_tensor_copy(grad, from, false);
    }
    cti_tensor_disown(grad);
    return grad;
}

/* The slot's tensor has the memory of another from now on, which is freed. The handle stays: a caller of ct_grad may hold it. */
static void replace(ct_tensor *slot, ct_tensor *by) {
    cti_storage *storage = slot->storage;
    slot->storage = by->storage;
    slot->data = by->data;
    slot->contiguous = true;
    memcpy(slot->stride, by->stride, sizeof by->stride);
    by->storage = storage;
    cti_tensor_free(by);
}

/* Puts the sum of the slot's tensor and grad into the slot: in place where nothing else holds its memory. */
static bool add_to(ct_tensor **slot, const ct_tensor *grad) {
    if (!cti_tensor_is_sole(*slot)) {
        ct_tensor *sum = cti_tensor_new(grad->context, grad->dtype, grad->shape);
        if (!sum) return false;
        cti_tensor_copy(sum, *slot, false);
        replace(*slot, sum);
    }
    cti_tensor_copy(*slot, grad, true);
    return true;
}

/* Hands a gradient to a node. */
static bool receive(cti_node *node, ct_tensor *grad, const cti_frame *frame, int *pending) {
    ct_tensor **slot = slot_of(node);
    const bool placed = *slot == grad && node->places;
    if (placed) node->places--;   /* written where it belongs */
    else close_hole(node);
    if (!placed && *slot && !add_to(slot, grad)) return false;
    if (!*slot && !(*slot = adopt(grad, frame, !node->call.op))) return false;
    if (node->call.op && !node->pending) {
        node->pending = true;
        cti_node_ref(node);
        ++*pending;
    }
    return true;
}

/* As cti_grad_place, but there may be a hole in it. */
static ct_tensor *place_of(const ct_call *call, int i, bool *add) {
    ct_tensor *in = call->in[i];
    *add = false;
    cti_node *node = ((const cti_node *)call)->edge[i];
    ct_tensor **slot = node ? slot_of(node) : NULL;
    if (slot && *slot && cti_tensor_is_sole(*slot)) {
        *add = true;
        node->places++;
        return *slot;
    }
    ct_tensor *place = cti_tensor_new(call->context, in->dtype, in->shape);
    if (place && slot && !*slot) {
        cti_tensor_disown(place);
        *slot = place;
        node->places = 1;
        node->fresh = true;
    }
    return place;
}

ct_tensor *cti_grad_place(const ct_call *call, int i, bool *add) {
    ct_tensor *place = place_of(call, i, add);
    if (*add) close_hole(((const cti_node *)call)->edge[i]);
    return place;
}

ct_tensor *cti_grad_onto(const ct_call *call, int i, ct_tensor **base) {
    cti_node *node = ((const cti_node *)call)->edge[i];
    ct_tensor *slot = node && node->call.op ? node->incoming : NULL;
    bool add;
    if (!slot || cti_tensor_is_sole(slot) || !slot->contiguous) {
        ct_tensor *place = cti_grad_place(call, i, &add);
        *base = add ? place : NULL;
        return place;
    }
    close_hole(node);
    *base = cti_tensor_view(slot, slot->data, slot->shape, NULL);   /* holds the memory */
    ct_tensor *sum = *base ? cti_tensor_new(call->context, slot->dtype, slot->shape) : NULL;
    if (!sum) return NULL;
    replace(slot, sum);
    node->places++;
    return slot;
}

/* Takes what a slice will write off an end of the hole. False: it does not lie there, and the hole is closed. */
static bool shrink_hole(cti_node *node, int dim, int64_t start, int64_t end) {
    const bool same = dim == node->hole_dim;
    if (same && start == node->hole_start && end <= node->hole_end) node->hole_start = end;
    else if (same && end == node->hole_end && start >= node->hole_start) node->hole_end = start;
    else return close_hole(node), false;
    return true;
}

bool cti_grad_slice(const ct_call *call, int i, int dim, int64_t start, int64_t length, const ct_tensor *g, ct_tensor **grad) {
    cti_node *node = ((const cti_node *)call)->edge[i];
    bool add;
    ct_tensor *place = place_of(call, i, &add);
    if (!place) return false;
    const bool gathers = node && place == node->incoming;   /* a leaf's slot is seen by the caller: it has no hole */
    if (!add && gathers) node->hole_dim = dim, node->hole_start = 0, node->hole_end = place->shape.dim[dim];
    else if (!add) clear(place, dim, 0, place->shape.dim[dim]);
    add = !gathers || !shrink_hole(node, dim, start, start + length);
    ct_shape shape = place->shape;
    shape.dim[dim] = length;
    ct_tensor *slice = cti_tensor_view(place, place->data + start * place->stride[dim] * (int64_t)cti_dtype_size(place->dtype), shape, place->stride);
    if (!slice) return false;
    cti_tensor_copy(slice, g, add);
    *grad = place;
    return true;
}

ct_tensor *cti_saved_take(const ct_call *call, int k) {
    cti_node *node = (cti_node *)call;
    ct_tensor *saved = call->saved[k];
    if (node->last && cti_tensor_is_sole(saved)) {
        ct_tensor *taken = cti_tensor_view(saved, saved->data, saved->shape, NULL);
        if (!taken) return NULL;
        node->released = true;   /* what is taken is gone, even if this backward fails */
        cti_storage_unref(call->context, saved->storage);
        saved->storage = NULL;
        return taken;
    }
    ct_tensor *copy = cti_tensor_new(saved->context, saved->dtype, saved->shape);
    if (copy) cti_tensor_copy(copy, saved, false);
    return copy;
}

/* ---- one node ---- */

static bool values_are_unchanged(const cti_node *node) {
    for (int i = 0; i < node->note_count; i++) {
        const ct_tensor *t = &node->notes[i];
        if (!t->storage || t->storage->writes == t->writes) continue;
        ct_fail(node->call.context, CT_ERR_GRAD, "backward: %s: a value of shape %s that was saved for backward has been changed in place since",
                node->call.op->name, SHAPE(t->shape));
        return false;
    }
    return true;
}

static bool is_gradient_of(const ct_call *c, int i, const ct_tensor *grad) {
    const ct_tensor *in = c->in[i];
    if (!grad)
        ct_fail(c->context, CT_ERR_GRAD, "%s: backward set no gradient for input %d", c->op->name, i);
    else if (grad->context != c->context)
        ct_fail(c->context, CT_ERR_GRAD, "%s: backward's gradient for input %d is of another context", c->op->name, i);
    else if (!cti_shape_same(&grad->shape, &in->shape))
        ct_fail(c->context, CT_ERR_GRAD, "%s: backward's gradient for input %d has shape %s, the input %s", c->op->name, i, SHAPE(grad->shape), SHAPE(in->shape));
    else if (grad->dtype != in->dtype)
        ct_fail(c->context, CT_ERR_GRAD, "%s: backward's gradient for input %d is %s, the input %s", c->op->name, i, cti_dtype_name(grad->dtype), cti_dtype_name(in->dtype));
    else if (!grad->storage)
        return cti_tensor_refuse(grad, c->op->name);
    else return true;
    return false;
}

/* Runs the op's backward on what has come in. grad has room for a gradient of each input. */
static bool run(cti_node *node, ct_tensor **grad, cti_frame *frame, int *pending) {
    const ct_call *c = &node->call;
    close_hole(node);
    ct_tensor *g = node->incoming;
    if (node->retain && node->grad && !add_to(&node->grad, g)) return false;
    if (node->retain && !node->grad && !(node->grad = adopt(g, frame, true))) return false;
    if (!(c->op->flags & CT_OP_STRIDED) && !(g = cti_tensor_dense(g))) return false;
    if (!c->op->backward(c, g, grad) || c->context->status) return ct_fail(c->context, CT_ERR_GRAD, "%s: backward failed", c->op->name);
    if (g == node->incoming) {   /* so that a gradient handed on as it came has one holder, and is added to in place */
        cti_tensor_own(c->context->frame, g);
        node->incoming = NULL;
    }
    for (int i = 0; i < c->n; i++)
        if (c->wants[i] && (!is_gradient_of(c, i, grad[i]) || !receive(node->edge[i], grad[i], frame, pending))) return false;
    return true;
}

/* Ends what cti_grad_place began. After a failure a new place that was not handed back holds no gradient. */
static void end_places(cti_node *node) {
    for (int i = 0; i < node->call.n; i++) {
        cti_node *edge = node->edge[i];
        if (!edge) continue;
        if (edge->fresh && edge->places) {
            ct_tensor **slot = slot_of(edge);
            cti_tensor_free(*slot);
            *slot = NULL;
            edge->hole_start = edge->hole_end = 0;
        }
        edge->places = 0;
        edge->fresh = false;
    }
}

static bool pass(cti_node *node, int *pending, bool retain_graph) {
    const ct_call *c = &node->call;
    ct_context *context = c->context;
    if (node->released) {
        ct_fail(context, CT_ERR_GRAD, "backward: %s: an earlier backward has released this part of the graph; it can be kept with retain_graph", c->op->name);
        return false;
    }
    if (!values_are_unchanged(node)) return false;
    enum { FEW = 8 };
    ct_tensor *few[FEW] = {0}, **grad = few;
    const size_t bytes = cti_bytes(c->n, sizeof *grad);
    if (c->n > FEW && !(grad = cti_take_zeroed(context, bytes))) return false;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    context->op = context->backward = c->op->name;
    int n = c->n;
    node->last = !retain_graph;
    const bool watched = context->debug && cti_debug_watches(node);
    const bool done = run(node, grad, &frame, pending) && (!watched || cti_debug_gradients(node));
    end_places(node);
    context->op = "backward";
    cti_frame_close(context, &frame);
    if (n > FEW) cti_give(context, grad, bytes);
    if (done && !retain_graph) cti_node_release(node);
    return done;
}

/* ---- the walk ---- */

static void settle(cti_node *node, int *pending) {
    node->pending = false;
    --*pending;
    node->hole_start = node->hole_end = 0;
    if (node->incoming) {
        cti_tensor_free(node->incoming);
        node->incoming = NULL;
    }
}

/* After a failure: clears what is pending from `node` on down. It holds the node that it stands on, since one that ends may be the last
 * to hold those below. */
static bool give_up(cti_node *node, int pending) {
    cti_node_ref(node);
    while (pending) {
        if (node->pending) {
            settle(node, &pending);
            node->refs--;
        }
        cti_node *older = node->prev;
        if (older) cti_node_ref(older);
        cti_node_unref(node);
        node = older;
    }
    if (node) cti_node_unref(node);
    return false;
}

/* Goes down the tape from `node` until nothing is pending. */
static bool walk(cti_node *node, int pending, bool retain_graph) {
    while (pending) {
        cti_node *older;
        if (node->pending) {
            if (!pass(node, &pending, retain_graph)) return give_up(node, pending);
            settle(node, &pending);
            older = node->prev;   /* only now: what pass released may have been the next one */
            cti_node_unref(node);
        } else {
            older = node->prev;
        }
        node = older;
    }
    return true;
}

static bool check_seed(ct_context *context, const ct_tensor *out, const ct_tensor *cotangent, int i) {
    if (!out)
        ct_fail(context, CT_ERR_ARGUMENT, "backward: output %d is NULL", i);
    else if (!out->storage || (cotangent && !cotangent->storage))
        cti_tensor_refuse(out->storage ? cotangent : out, "backward");
    else if (!out->node)
        ct_fail(context, CT_ERR_GRAD, "backward: output %d %s was not computed from anything that requires a gradient", i, SHAPE(out->shape));
    else if (out->node->released)
        ct_fail(context, CT_ERR_GRAD, "backward: %s: an earlier backward has released this graph; it can be kept with retain_graph", out->node->call.op->name);
    else if (!cotangent && out->numel != 1)
        ct_fail(context, CT_ERR_GRAD, "backward: an output of shape %s is not one number; give it a cotangent", SHAPE(out->shape));
    else if (cotangent && !cti_shape_equal(out->shape, cotangent->shape))
        ct_fail(context, CT_ERR_SHAPE, "backward: the cotangent of output %d has shape %s, the output %s", i, SHAPE(cotangent->shape), SHAPE(out->shape));
    else if (cotangent && out->dtype != cotangent->dtype)
        ct_fail(context, CT_ERR_DTYPE, "backward: the cotangent of output %d is %s, the output %s", i, cti_dtype_name(cotangent->dtype), cti_dtype_name(out->dtype));
    else return true;
    return false;
}

bool ct_backward_with(ct_tensor *const *outs, ct_tensor *const *cotangents, int n, ct_backward_opts opts) {
    ct_context *context = NULL;
    for (int i = 0; outs && i < n; i++) {
        ct_tensor *given[] = {outs[i], cotangents ? cotangents[i] : NULL};
        for (int j = 0; j < 2; j++) {
            if (!context) context = ct_context_of(given[j]);
            if (given[j] && !cti_same_context(context, given[j]->context, "backward")) return false;
        }
    }
    if (!cti_ready(context)) return false;
    if (context->backward) return ct_fail(context, CT_ERR_GRAD, "backward: called inside the backward of %s", context->backward);
    cti_node *newest = NULL;
    for (int i = 0; i < n; i++) {
        if (!check_seed(context, outs[i], cotangents ? cotangents[i] : NULL, i)) return false;
        if (!newest || outs[i]->node->sequence > newest->sequence) newest = outs[i]->node;
    }
    const char *outer_op = context->op;
    context->op = "backward";
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    context->backward = "backward";
    int pending = 0;
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        ct_tensor *seed = cotangents && cotangents[i] ? cotangents[i] : ct_ones(context, outs[i]->dtype, outs[i]->shape);
        ok = seed && receive(outs[i]->node, seed, &frame, &pending);
    }
    ok = ok ? walk(newest, pending, opts.retain_graph) : give_up(newest, pending);
    cti_frame_close(context, &frame);
    context->backward = NULL;
    context->op = outer_op;
    return ok;
}

bool ct_backward(ct_tensor *loss) { return loss && ct_backward_with(&loss, NULL, 1, (ct_backward_opts){0}); }

/* ---- leaves and gradients ---- */

ct_tensor *ct_set_requires_grad(ct_tensor *t, bool requires_grad) {
    if (!t || !cti_ready(t->context) || !cti_tensor_has_values(t, "set_requires_grad")) return NULL;
    ct_context *context = t->context;
    if (t->node && t->node->call.op)
        return ct_fail(context, CT_ERR_GRAD, "set_requires_grad: a result of %s is not a leaf; detach it first", t->node->call.op->name);
    if (requires_grad && !cti_is_real(t->dtype))
        return ct_fail(context, CT_ERR_DTYPE, "set_requires_grad: %s has no gradient", cti_dtype_name(t->dtype));
    if (requires_grad && !t->node) {
        cti_node *leaf = cti_take(context, sizeof *leaf);
        if (!leaf) return NULL;
        *leaf = (cti_node){.call.context = context, .refs = 1, .bytes = sizeof *leaf};
        leaf->owner = t;
        t->node = leaf;
    } else if (!requires_grad && t->node) {
        cti_node_disown(t->node);
        t->node = NULL;
    }
    return t;
}

bool ct_requires_grad(const ct_tensor *t) { return t && cti_tensor_is_open(t, "requires_grad") && t->node; }

ct_tensor *ct_retain_grad(ct_tensor *t) {
    if (!t || !cti_ready(t->context) || !cti_tensor_has_values(t, "retain_grad")) return NULL;
    if (!t->node) return ct_fail(t->context, CT_ERR_GRAD, "retain_grad: %s was not computed from anything that requires a gradient", SHAPE(t->shape));
    t->node->retain = true;
    return t;
}

ct_tensor *ct_grad(ct_tensor *t) { return t && cti_tensor_has_values(t, "grad") && t->node ? t->node->grad : NULL; }

bool ct_zero_grad(ct_tensor *t) {
    if (!t || !cti_ready(t->context) || !cti_tensor_has_values(t, "zero_grad")) return false;
    if (t->context->backward)
        return ct_fail(t->context, CT_ERR_GRAD, "zero_grad: called inside the backward of %s", t->context->backward);
    if (t->node && t->node->grad) {
        cti_tensor_end(t->node->grad);
        t->node->grad = NULL;
    }
    return true;
}

ct_tensor *ct_detach(ct_tensor *t) {
    if (!t || !cti_ready(t->context) || !cti_tensor_has_values(t, "detach")) return NULL;
    ct_tensor *detached = cti_tensor_view(t, t->data, t->shape, t->stride);
    if (detached) detached->maker = "detach";
    return detached;
}
