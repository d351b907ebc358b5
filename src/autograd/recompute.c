/* ct_recompute, also called activation checkpointing (Chen et al. 2016, arXiv:1604.06174).
 *
 * Forward runs fn as usual, and then replaces the nodes that fn has recorded by one node:
 *
 *     tape   ... x | linear  gelu  linear | ...                the nodes that fn records
 *            ... x | recompute            | ...                the node that stays, with x saved
 *            ... x | linear  gelu  linear  recompute | ...     during backward
 *
 * The node's backward runs fn again from the saved inputs, with recording on and the generator in
 * its old state. It moves the nodes that this run records from the end of the tape to the older
 * side of its own node. So the loop of backward comes to these nodes next, in the order and with
 * the grad slots that they would have had without ct_recompute. There is no backward inside a
 * backward, and every sum of gradients has the same terms in the same order, and so the same bits.
 *
 * The first run records too. At its peak that takes no more memory than the second run will. It
 * shows whether the result has a gradient, and which leaves and outside results (mostly
 * parameters) fn uses. */
#include "recompute.h"
#include "fingerprint.h"
#include "observe.h"

#include <limits.h>
#include <string.h>

typedef struct {
    ct_fn fn;
    void *arg;
    bool copied; /* fn is given `copy`, not `arg` */
    int n; /* the number of fn's inputs; the node's later inputs are outside tensors that fn uses */
    ct_rng rng; /* the generator's state before the first run */
    ct_matmul_precision matmul;
    uint64_t switched; /* context->switched */
    uint64_t values;   /* the fingerprint of the first run's result */
    uint64_t graph;    /* the fingerprint of the nodes by which the first run computed its result */
    _Alignas(16) char copy[CTI_RECOMPUTE_ARG];
} recompute_attrs;

/* ---- a run ---- */

static ct_tensor *recompute_run_function(ct_context *context, const recompute_attrs *a,
                                         ct_tensor *const *in, cti_frame *frame) {
    const cti_running running = {.outer = context->running, .given = in, .n = a->n, .frame = frame};
    context->running = &running;
    ct_tensor *y = a->fn(in, a->n, a->copied ? (void *)a->copy : a->arg);
    context->running = running.outer;
    if (!y) ct_fail(context, CT_ERR_ARGUMENT, "recompute: the function returned nothing");
    else if (cti_tensor_in(y, context, "recompute")) cti_tensor_has_values(y, "recompute");
    return cti_ready(context) ? y : NULL;
}

/* ---- the nodes that a run has recorded ---- */

/* A node by which a run computed its result is inside; any other node to which an edge of such a
 * node leads is outside. During a walk along the tape the nodes inside are numbered from 1 in the
 * order in which the walk reaches them. A grad slot of a node outside is known if the walk has met
 * it already, or if it belongs to an input of fn; the node's number has a bit for each known slot.
 */
typedef struct {
    uint64_t mark; /* the sequence of the last node before the run */
    const cti_frame *frame;
} recompute_extent;

static bool is_inside_run(const cti_grad_slot *slot, recompute_extent e) {
    return cti_node_of(slot)->sequence > e.mark;
}

/* Returns the slot if it is outside. Returns NULL if it is inside, or belongs to a leaf that the
 * run made and that ends with the run. */
static cti_grad_slot *outside(cti_grad_slot *slot, recompute_extent e) {
    const cti_node *node = slot ? cti_node_of(slot) : NULL;
    if (!node || node->sequence > e.mark) return NULL;
    const ct_tensor *leaf = node->call.op ? NULL : node->owner;
    return leaf && leaf->frame && leaf->frame->id >= e.frame->id ? NULL : slot;
}

_Static_assert(CT_MAX_OUTPUTS < sizeof(int) * 8, "a node's number has a bit for each slot");
static bool is_known(const cti_grad_slot *slot) {
    return cti_node_of(slot)->number & 1 << slot->index;
}
static void slot_know(const cti_grad_slot *slot) { cti_node_of(slot)->number |= 1 << slot->index; }
static void slot_forget(const cti_grad_slot *slot) {
    cti_node_of(slot)->number &= ~(1 << slot->index);
}

/* The next older node inside, or NULL. */
static cti_node *next_inside(const cti_node *node, recompute_extent e) {
    cti_node *older = node->prev;
    while (older && older->sequence > e.mark && !older->number) older = older->prev;
    return older && older->sequence > e.mark ? older : NULL;
}

/* Collects the nodes that fn recorded and the outside slots that they use. Returns the number of
 * slots that were not known before. */
static int64_t nodes_collect(const ct_tensor *y, recompute_extent e) {
    CTI_ASSERT(is_inside_run(y->slot, e) && !cti_node_of(y->slot)->number);
    int64_t found = 0;
    int reached = 1;
    cti_node_of(y->slot)->number = reached;
    for (cti_node *node = cti_node_of(y->slot); node; node = next_inside(node, e))
        for (int i = 0; i < node->call.n; i++) {
            cti_grad_slot *edge = node->edge[i], *slot = outside(edge, e);
            if (edge && is_inside_run(edge, e) && !cti_node_of(edge)->number)
                cti_node_of(edge)->number = ++reached;
            if (!slot || is_known(slot)) continue;
            slot_know(slot);
            found++;
        }
    return found;
}

/* Continues a fingerprint by one input of a node inside. A gradient goes on to another node inside,
 * or to a slot outside, which is the same in both runs. Other inputs are constants, and backward
 * reads their values if they are saved. */
static uint64_t input_print(uint64_t print, const ct_tensor *in, cti_grad_slot *edge,
                            recompute_extent e) {
    if (!in) return cti_fingerprint_add(print, 0);
    print = cti_fingerprint_type(print, in);
    if (edge && is_inside_run(edge, e)) {
        print = cti_fingerprint_add(print, (uint64_t)cti_node_of(edge)->number);
        return cti_fingerprint_add(print, edge->index);
    }
    if (outside(edge, e)) return cti_fingerprint_add(print, (uintptr_t)edge);
    return in->storage ? cti_fingerprint_values(print, in) : print;
}

static uint64_t attrs_print(uint64_t print, const ct_call *c) {
    const size_t size = c->op->flags & CTI_OP_EXACT_ATTRS ? c->op->attrs_size : 0;
    for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)c->attrs + i, size - i < sizeof word ? size - i : sizeof word);
        print = cti_fingerprint_add(print, word);
    }
    return print;
}

/* The fingerprint of the nodes inside, while they are numbered. */
static uint64_t graph_print(const ct_tensor *y, recompute_extent e) {
    uint64_t print = cti_fingerprint_add(CTI_FINGERPRINT, y->slot->index);
    for (const cti_node *node = cti_node_of(y->slot); node; node = next_inside(node, e)) {
        print = cti_fingerprint_add(print, (uintptr_t)node->call.op);
        print = attrs_print(print, &node->call);
        print = cti_fingerprint_add(print, (uint64_t)node->call.n);
        for (int i = 0; i < node->call.n; i++)
            print = input_print(print, node->call.in[i], node->edge[i], e);
    }
    return print;
}

/* ---- the first run ---- */

/* Saves a tensor as input i of the node, with an edge to the slot, if there is one. */
static void input_add(cti_node *node, int i, const ct_tensor *tensor, cti_grad_slot *slot) {
    cti_tape_save(&node->saved[i], tensor);
    ((ct_tensor **)node->call.in)[i] = &node->saved[i];
    node->edge[i] = slot;
    if (slot) cti_node_ref(cti_node_of(slot));
}

/* Adds the inputs of fn. An input that is given twice is saved once, so that the second run is
 * given one tensor twice, too. */
static void given_add(cti_node *node, ct_tensor *const *in, int n) {
    ct_tensor **saved = (ct_tensor **)node->call.in;
    for (int i = 0; i < n; i++) {
        int first = 0;
        while (in[first] != in[i]) first++;
        node->saved[i].storage = NULL;
        node->edge[i] = NULL;
        saved[i] = NULL;
        if (in[i] && first == i) input_add(node, i, in[i], in[i]->slot);
        else if (in[i]) saved[i] = saved[first];
    }
}

/* Adds a slot outside that fn has used. A leaf's tensor is saved, so that a change of it in place
 * is found. For a result the node saves the values of `used`, which is the input of a node inside.
 */
static void outside_add(cti_node *node, int i, cti_grad_slot *slot, const ct_tensor *used) {
    const cti_node *from = cti_node_of(slot);
    if (!from->call.op && from->owner) {
        input_add(node, i, from->owner, slot);
        return;
    }
    if (used->storage) {
        input_add(node, i, used, slot);
        node->saved[i].writes = used->writes;
        return;
    }
    node->saved[i] = *used;
    node->saved[i].self = &node->saved[i];
    ((ct_tensor **)node->call.in)[i] = &node->saved[i];
    node->edge[i] = slot;
    cti_node_ref(cti_node_of(slot));
}

/* Walks along the tape again, adds the known slots to the inputs of the node from input n on, and
 * makes them unknown, so that each is added once. If node is NULL, it only makes them unknown. */
static void outside_add_all(cti_node *node, const ct_tensor *y, recompute_extent e, int n) {
    cti_node *next;
    for (cti_node *inside = cti_node_of(y->slot); inside; inside = next) {
        for (int i = 0; i < inside->call.n; i++) {
            cti_grad_slot *slot = outside(inside->edge[i], e);
            if (!slot || !is_known(slot)) continue;
            slot_forget(slot);
            if (node) outside_add(node, n++, slot, inside->call.in[i]);
        }
        next = next_inside(inside, e);
        inside->number = 0;
    }
    CTI_ASSERT(!node || n == node->call.n);
}

/* Collects the outside slots that are not inputs of fn. Returns their number. */
static int64_t others_collect(const ct_tensor *y, recompute_extent e, ct_tensor *const *in, int n) {
    for (int i = 0; i < n; i++)
        if (in[i] && in[i]->slot) slot_know(in[i]->slot);
    const int64_t others = nodes_collect(y, e);
    for (int i = 0; i < n; i++)
        if (in[i] && in[i]->slot) slot_forget(in[i]->slot);
    return others;
}

/* Records the node that stands for all nodes inside, and makes y its result. No slot is known
 * during the allocation, because on_error may draw a graph, which uses the numbers, too. */
static cti_node *recompute_record(ct_context *context, recompute_attrs *a, ct_tensor *const *in,
                                  ct_tensor *y, recompute_extent e) {
    const int64_t others = others_collect(y, e, in, a->n);
    a->graph = graph_print(y, e);
    outside_add_all(NULL, y, e, 0);
    const bool fits = others <= INT_MAX - a->n;
    const ct_call call = {.context = context,
                          .op = &cti_op_recompute,
                          .attrs = a,
                          .n = fits ? a->n + (int)others : 0,
                          .drop = CT_DROP_OUT};
    cti_node *node = fits ? cti_tape_node(&call) : NULL;
    if (!fits) ct_fail(context, CT_ERR_MEMORY, "recompute: more than %d tensors", INT_MAX);
    if (!node) return NULL;
    given_add(node, in, a->n);
    others_collect(y, e, in, a->n);
    outside_add_all(node, y, e, a->n);
    memset((bool *)node->call.wants, 0, (size_t)call.n * sizeof(bool));
    node->slot[0] = (cti_grad_slot){.retain = y->slot->retain};
    cti_tape_append(node);
    cti_node_ref(node);
    cti_grad_slot_disown(y->slot);
    y->slot = &node->slot[0];
    return node;
}

static void recompute_observe(cti_node *node, ct_tensor *const *in, int n, ct_tensor *y) {
    ct_context *context = node->call.context;
    cti_span *span = cti_span_open(context);
    if (!span) return;
    for (int i = 0; i < n && !context->in_recompute; i++)
        if (node->saved[i].storage && !in[i]->parameter)
            span->kept += cti_profile_bytes(&node->saved[i]);
    node->mark = cti_profile_mark(context);
    cti_span_shapes(context, span, in, n, &y, 1);
}

/* The number of changes in place of all inputs so far. */
static uint64_t writes_to(ct_tensor *const *in, int n) {
    uint64_t writes = 0;
    for (int i = 0; i < n; i++)
        if (in[i]) writes += in[i]->storage->writes;
    return writes;
}

/* Whether a leaf was changed in place after a node of this run has used it. A strided leaf is left
 * out, because the node may have used a copy. */
static bool wrote_to_leaf(const ct_context *context, recompute_extent e) {
    bool wrote = false;
    for (const cti_node *node = context->tape_last; node && node->sequence > e.mark;
         node = node->prev)
        for (int i = 0; i < node->call.n; i++) {
            const cti_grad_slot *slot = outside(node->edge[i], e);
            const cti_node *from = slot ? cti_node_of(slot) : NULL;
            if (from && !from->call.op && from->owner && from->owner->contiguous)
                wrote |= node->call.in[i]->writes != from->owner->storage->writes;
        }
    return wrote;
}

static ct_tensor *first_run(ct_context *context, recompute_attrs *a, ct_tensor *const *in,
                            cti_frame *frame) {
    if (frame->no_grad) return recompute_run_function(context, a, in, frame);
    const recompute_extent e = {.mark = context->sequence, .frame = frame};
    const uint64_t writes = writes_to(in, a->n);
    const bool in_recompute = context->in_recompute;
    context->in_recompute = true;
    ct_tensor *y = recompute_run_function(context, a, in, frame);
    context->in_recompute = in_recompute;
    /* If no node inside leads to y, because nothing has a gradient or y is an outside tensor, there
     * is nothing to recompute. */
    if (!y || !y->slot || !is_inside_run(y->slot, e)) return y;
    if (writes_to(in, a->n) != writes || wrote_to_leaf(context, e))
        return ct_fail(context, CT_ERR_GRAD,
                       "recompute: the function has changed an input, or a leaf that it uses, in "
                       "place, so its second run would begin with other values");
    a->values = cti_fingerprint_values(CTI_FINGERPRINT, y);
    cti_node *node = recompute_record(context, a, in, y, e);
    if (node && context->observed) recompute_observe(node, in, a->n, y);
    return node ? y : NULL;
}

ct_tensor *cti_recompute(ct_fn fn, void *arg, size_t arg_size, ct_tensor *const *in, int n) {
    ct_context *context = cti_tensors_context(in, n);
    if (context && !cti_tensors_in(in, n, context, "recompute")) return NULL;
    for (int i = 0; context && i < n; i++)
        if (in[i] && !cti_tensor_has_values(in[i], "recompute")) return NULL;
    if (!cti_ready(context)) return NULL;
    if (!fn) return ct_fail(context, CT_ERR_ARGUMENT, "recompute: the function is NULL");
    CTI_ASSERT(arg_size <= CTI_RECOMPUTE_ARG);
    recompute_attrs a = {.fn = fn,
                         .arg = arg,
                         .copied = arg_size > 0,
                         .n = n,
                         .rng = context->rng,
                         .matmul = context->matmul,
                         .switched = context->switched};
    if (arg_size) memcpy(a.copy, arg, arg_size);
    cti_span span;
    if (context->observed && !cti_observe_enter(context, &cti_op_recompute, &span)) return NULL;
    cti_frame frame;
    cti_frame_open(context, &frame, false);
    ct_tensor *y = first_run(context, &a, in, &frame);
    y = cti_frame_return(context, &frame, y);
    if (context->observed) cti_observe_leave(context, &span);
    return y;
}

ct_tensor *ct_recompute(ct_fn fn, void *arg, ct_tensor *const *in, int n) {
    return cti_recompute(fn, arg, 0, in, n);
}

/* ---- the second run ---- */

/* A handle for input i, whose gradient goes to the slot of the first run. For a leaf it is the
 * leaf. */
static ct_tensor *input_again(const cti_node *node, int i) {
    ct_tensor *saved = node->call.in[i];
    cti_grad_slot *slot = node->edge[i];
    cti_node *from = slot ? cti_node_of(slot) : NULL;
    if (from && !from->call.op && from->owner) return (ct_tensor *)from->owner;
    ct_tensor *t = cti_tensor_view(saved, saved->data, saved->shape, saved->stride);
    if (!t || !slot) return t;
    t->slot = slot;
    cti_node_ref(from);
    return t;
}

static ct_tensor *function_run_again(const cti_node *node, cti_frame *frame) {
    enum { ON_STACK = 8 };
    const recompute_attrs *a = node->call.attrs;
    ct_context *context = node->call.context;
    ct_tensor *const *saved = node->call.in;
    ct_tensor *stack_in[ON_STACK], **in = stack_in;
    const size_t bytes = cti_bytes(a->n, sizeof *in);
    if (a->n > ON_STACK) in = cti_take(context, bytes);
    bool able = in;
    for (int i = 0; able && i < a->n; i++) {
        int first = 0;
        while (saved[first] != saved[i]) first++;
        in[i] = first < i ? in[first] : NULL;
        if (!saved[i] || first < i) continue;
        in[i] = input_again(node, i);
        able = in[i];
    }
    const ct_rng rng = context->rng;
    const ct_matmul_precision matmul = context->matmul;
    const uint64_t switched = context->switched;
    context->rng = a->rng;
    context->switched = a->switched;
    cti_set_matmul(context, a->matmul);
    ct_tensor *y = able ? recompute_run_function(context, a, in, frame) : NULL;
    context->rng = rng;
    context->switched = switched;
    cti_set_matmul(context, matmul);
    if (a->n > ON_STACK) cti_give(context, in, bytes);
    return y;
}

/* Runs fn again. An error of fn is held until its text names the second run. */
static ct_tensor *second_run(const cti_node *node, cti_frame *frame) {
    ct_context *context = node->call.context;
    const bool held = context->held;
    context->held = true;
    ct_tensor *y = function_run_again(node, frame);
    context->held = held;
    if (y) return y;
    const ct_status status = context->status;
    char message[CTI_MESSAGE_SIZE];
    memcpy(message, context->message, sizeof message);
    context->status = CT_OK;
    return ct_fail(context, status, "recompute: in the function's second run: %s", message);
}

/* Whether the second run's result has the shape and dtype of the first run's, and was recorded. */
static bool is_same(const ct_tensor *y, const ct_tensor *cotangent, recompute_extent e) {
    ct_context *context = y->context;
    if (!cti_shape_same(&y->shape, &cotangent->shape) || y->dtype != cotangent->dtype)
        return ct_fail(context, CT_ERR_GRAD,
                       "recompute: the function returned %s %s in its second run, and %s %s in its "
                       "first",
                       SHAPE(y->shape), cti_dtype_name(y->dtype), SHAPE(cotangent->shape),
                       cti_dtype_name(cotangent->dtype));
    if (!y->slot || !is_inside_run(y->slot, e))
        return ct_fail(context, CT_ERR_GRAD,
                       "recompute: the result %s of the function's second run was not computed "
                       "from anything that requires a gradient, and that of the first was",
                       SHAPE(y->shape));
    return true;
}

/* Whether each leaf that the first run used, and that still exists, has the storage that it had
 * then. (Changes in place are found as for any node.) */
static bool leaves_have_their_storage(const cti_node *node) {
    for (int i = 0; i < node->call.n; i++) {
        const cti_node *from = node->edge[i] ? cti_node_of(node->edge[i]) : NULL;
        if (!from || from->call.op || !from->owner) continue;
        if (from->owner->storage == node->call.in[i]->storage) continue;
        return ct_fail(node->call.context, CT_ERR_GRAD,
                       "recompute: the values of a leaf %s, which the function has used, have been "
                       "exchanged since",
                       SHAPE(from->owner->shape));
    }
    return true;
}

/* Forgets the slots to which the nodes inside have edges. Returns the number of the node's slots
 * that are not among them, without the slots of fn's inputs, which fn need not use. */
static int64_t used_forget(const cti_node *node, const ct_tensor *y, recompute_extent e) {
    const recompute_attrs *a = node->call.attrs;
    int64_t unused = 0;
    for (const cti_node *inside = cti_node_of(y->slot); inside; inside = next_inside(inside, e))
        for (int i = 0; i < inside->call.n; i++)
            if (outside(inside->edge[i], e)) slot_forget(inside->edge[i]);
    for (int i = 0; i < node->call.n; i++) {
        if (!node->edge[i] || !is_known(node->edge[i])) continue;
        unused += i >= a->n;
        slot_forget(node->edge[i]);
    }
    return unused;
}

/* Records how the second run differs from the first, and returns false. `others` tensors with a
 * gradient were used by the second run only, `unused` by the first only. */
static bool second_run_refuse(ct_context *context, int64_t others, int64_t unused,
                              bool same_values) {
    if (others)
        return ct_fail(context, CT_ERR_GRAD,
                       "recompute: the function's second run has used tensors with a gradient that "
                       "its first run has not used (%lld)",
                       (long long)others);
    if (unused)
        return ct_fail(context, CT_ERR_GRAD,
                       "recompute: the function's second run has not used tensors with a gradient "
                       "that its first run has used (%lld)",
                       (long long)unused);
    return ct_fail(context, CT_ERR_GRAD,
                   "recompute: the function %s in its second run than in its first: something that "
                   "it reads besides its inputs has changed",
                   same_values ? "has computed its result by other ops or from other constants"
                               : "returned other values");
}

/* Moves the nodes inside to the older side of this node if they equal the nodes of the first run.
 * Their edges lead to nodes that are still older, because the first run has used these too, so the
 * loop of backward reaches them. */
static bool nodes_move(cti_node *node, const ct_tensor *y, recompute_extent e) {
    const recompute_attrs *a = node->call.attrs;
    for (int i = 0; i < node->call.n; i++)
        if (node->edge[i]) slot_know(node->edge[i]);
    const int64_t others = nodes_collect(y, e);
    const bool same_graph = graph_print(y, e) == a->graph;
    const int64_t unused = used_forget(node, y, e);
    const bool same_values = cti_fingerprint_values(CTI_FINGERPRINT, y) == a->values;
    const bool same = same_graph && same_values && !others && !unused;
    cti_node *next, *before = node;
    for (cti_node *inside = cti_node_of(y->slot); inside; inside = next) {
        next = next_inside(inside, e);
        inside->number = 0;
        if (!same) continue;
        cti_tape_move(inside, before);
        before = inside;
    }
    return same || second_run_refuse(node->call.context, others, unused, same_values);
}

static bool recompute_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    (void)grad; /* no gradient is wanted: c->wants is all false */
    cti_node *node = (cti_node *)c;
    cti_frame frame;
    cti_frame_open(c->context, &frame, false);
    frame.no_grad = false; /* the frame of backward around this one records nothing */
    const recompute_extent e = {.mark = c->context->sequence, .frame = &frame};
    ct_tensor *y = leaves_have_their_storage(node) ? second_run(node, &frame) : NULL;
    const bool done = y && is_same(y, cotangents[0], e) && nodes_move(node, y, e) &&
                      cti_backward_continue(y->slot, cotangents[0]);
    cti_frame_close(c->context, &frame);
    return done;
}

const ct_op cti_op_recompute = {.name = "recompute",
                                .attrs_size = sizeof(recompute_attrs),
                                .backward = recompute_backward,
                                .flags = CT_OP_STRIDED | CTI_OP_HIDES_LEAVES};
