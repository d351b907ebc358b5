/* Recording, releasing and freeing nodes. A node is one block:
 *
 *     cti_node | grad slots | attrs | saved tensors | outs, if several | in | edge | wants
 *
 * attrs and saved tensors begin at multiples of 16 bytes. */
#include "tape.h"

#include <string.h>

static size_t aligned(size_t size) { return (size + 15) & ~(size_t)15; }

/* Makes a saved tensor: with a reference to the values, or with shape and dtype only. `volatile`
 * keeps the compiler from copying dims and strides by wide loads, which would be store-forwarding
 * stalls (docs/design.md). */
static void tape_save(ct_tensor *to, const ct_tensor *tensor, bool with_values) {
    const volatile int64_t *dim = tensor->shape.dim, *stride = tensor->stride;
    to->context = tensor->context;
    to->self = to;
    to->storage = with_values ? tensor->storage : NULL;
    to->data = with_values ? tensor->data : NULL;
    to->slot = NULL;
    to->numel = tensor->numel;
    to->shape.ndim = tensor->shape.ndim;
    for (int d = 0; d < tensor->shape.ndim; d++) {
        to->shape.dim[d] = dim[d];
        to->stride[d] = stride[d];
    }
    to->writes = tensor->storage->writes;
    to->dtype = tensor->dtype;
    to->contiguous = with_values && tensor->contiguous;
    to->parameter = 0;
    to->frame = NULL;
    if (with_values) to->storage->refs++;
}

bool cti_call_owns(const ct_call *c, const ct_tensor *tensor, ct_status status, const char *what) {
    if (tensor->self != tensor) return cti_tensor_in(tensor, c->context, c->op->name);
    return tensor->context == c->context ||
           cti_fail_in_both(c->context, tensor->context, status, "%s: %s of another context",
                            c->op->name, what);
}

static bool can_save(const ct_call *c, const ct_tensor *saved) {
    return cti_call_owns(c, saved, CT_ERR_ARGUMENT, "forward saved a tensor") &&
           cti_tensor_has_values(saved, c->op->name);
}

/* Makes a node of c's op that is not on the tape, with room for its arrays. Copies attrs and leaves
 * in, edge, wants, the saved tensors and the slots undefined. Returns NULL with an error if memory
 * is short. */
static inline cti_node *new_node(const ct_call *c, size_t attrs_size, size_t saved, int n_outs) {
    const size_t n = (size_t)c->n, outs = (size_t)n_outs, attrs = aligned(attrs_size);
    const size_t per_input = sizeof(ct_tensor *) + sizeof(cti_grad_slot *) + sizeof(bool);
    const size_t head = aligned(sizeof(cti_node) + outs * sizeof(cti_grad_slot)),
                 out_list = outs > 1 ? outs * sizeof(ct_tensor *) : 0;
    const uint64_t bytes =
        head + attrs + (uint64_t)saved * sizeof(ct_tensor) + out_list + (uint64_t)n * per_input;
    cti_node *node = cti_take(c->context, bytes > CTI_MOST_BYTES ? SIZE_MAX : (size_t)bytes);
    if (!node) return NULL;
    char *attrs_copy = (char *)node + head;
    ct_tensor *tensor = (ct_tensor *)(attrs_copy + attrs);
    ct_tensor **out = (ct_tensor **)(tensor + saved);
    ct_tensor **in = out_list ? out + outs : out;
    cti_grad_slot **edge = (cti_grad_slot **)(in + n);

    memset((char *)node + sizeof node->call, 0, sizeof *node - sizeof node->call);
    node->call.context = c->context;
    node->call.op = c->op;
    node->call.attrs = c->attrs ? memcpy(attrs_copy, c->attrs, attrs_size) : NULL;
    node->call.in = in;
    node->call.n = c->n;
    node->call.wants = (bool *)(edge + n);
    node->call.outs = out_list ? out : &node->call.out;
    node->call.n_outs = n_outs;
    node->call.out = NULL;
    node->call.drop = c->drop;
    node->bytes = (size_t)bytes;
    node->edge = edge;
    node->saved = tensor;
    node->saved_count = (int)saved;
    return node;
}

static inline void tape_append(cti_node *node) {
    ct_context *context = node->call.context;
    node->sequence = ++context->sequence;
    node->prev = context->tape_last;
    CTI_ASSERT(!node->prev || (!node->prev->next && cti_node_may_be_older(node->prev, node)));
    *(node->prev ? &node->prev->next : &context->tape_first) = node;
    context->tape_last = node;
}

/* This is inlined for one output, which most ops have, so that its loops over outputs fold. It
 * saves 0.3 % of the instructions of a step of small ops. */
static inline bool tape_record(const ct_call *c, ct_tensor *const *given, int n_outs) {
    const bool with_outs = !(c->drop & CT_DROP_OUT);
    size_t saved = (size_t)c->n + (with_outs ? (size_t)n_outs : 0);
    for (int k = 0; k < 4; k++) {
        if (c->saved[k] && !can_save(c, c->saved[k])) return false;
        saved += c->saved[k] != NULL;
    }
    cti_node *node = new_node(c, c->attrs ? c->op->attrs_size : 0, saved, n_outs);
    if (!node) return false;
    ct_tensor *tensor = node->saved, **in = (ct_tensor **)node->call.in;
    cti_grad_slot **edge = node->edge;
    bool *wants = (bool *)node->call.wants;
    for (int i = 0; i < c->n; i++) {
        const bool drop = c->drop & CT_DROP_INPUTS || (i < 30 && c->drop & CT_DROP_IN(i));
        in[i] = NULL;
        if (c->in[i]) tape_save(in[i] = tensor++, c->in[i], !drop);
        else (tensor++)->storage = NULL;
        wants[i] = c->wants[i];
        edge[i] = wants[i] ? given[i]->slot : NULL;
        CTI_ASSERT(!edge[i] || cti_node_of(edge[i])->refs > 0);
        if (edge[i]) cti_node_ref(cti_node_of(edge[i]));
    }
    for (int k = 0; k < n_outs; k++) {
        node->slot[k] = (cti_grad_slot){.index = (unsigned char)k};
        node->call.outs[k] = NULL;
        if (with_outs) tape_save(node->call.outs[k] = tensor++, c->outs[k], true);
        if (!cti_is_real(c->outs[k]->dtype)) continue;
        c->outs[k]->slot = &node->slot[k];
        node->refs++;
    }
    node->call.out = node->call.outs[0];
    for (int k = 0; k < 4; k++) {
        node->call.saved[k] = NULL;
        if (c->saved[k]) tape_save(node->call.saved[k] = tensor++, c->saved[k], true);
    }
    tape_append(node);
    return true;
}

bool cti_tape_record(const ct_call *call, ct_tensor *const *given) {
    return call->n_outs == 1 ? tape_record(call, given, 1) : tape_record(call, given, call->n_outs);
}

cti_node *cti_tape_node(const ct_call *call) {
    return new_node(call, call->op->attrs_size, (size_t)call->n, 1);
}

void cti_tape_save(ct_tensor *to, const ct_tensor *tensor) { tape_save(to, tensor, true); }

void cti_tape_append(cti_node *node) { tape_append(node); }

/* Takes a node out of the tape. */
static void node_unlink(cti_node *node) {
    ct_context *context = node->call.context;
    CTI_ASSERT((node->next ? node->next->prev : context->tape_last) == node);
    CTI_ASSERT((node->prev ? node->prev->next : context->tape_first) == node);
    if (node->next) node->next->prev = node->prev;
    else context->tape_last = node->prev;
    *(node->prev ? &node->prev->next : &context->tape_first) = node->next;
}

void cti_tape_move(cti_node *node, cti_node *before) {
    CTI_ASSERT(node != before && !node->moved && before->sequence);
    node_unlink(node);
    node->next = before;
    node->prev = before->prev;
    *(node->prev ? &node->prev->next : &node->call.context->tape_first) = node;
    before->prev = node;
    node->moved = true;
}

cti_node *cti_tape_leaf(ct_tensor *owner) {
    const size_t bytes = sizeof(cti_node) + sizeof(cti_grad_slot);
    cti_node *leaf = cti_take_zeroed(owner->context, bytes);
    if (!leaf) return NULL;
    leaf->call.context = owner->context;
    leaf->refs = 1;
    leaf->bytes = bytes;
    leaf->owner = owner;
    leaf->call.n_outs = 1;
    return leaf;
}

void cti_node_release(cti_node *node) {
    node->released = true;
    ct_context *context = node->call.context;
    for (int i = 0; i < node->saved_count; i++) {
        cti_storage_unref(context, node->saved[i].storage);
        node->saved[i].storage = NULL;
    }
    node->saved_count = 0;
    for (int i = 0; i < node->call.n; i++)
        if (node->edge[i]) {
            cti_node *input = cti_node_of(node->edge[i]);
            node->edge[i] = NULL;
            cti_node_unref(input);
        }
    node->call.n = 0;
}

/* Releasing a node drops references to older nodes, so this function is called inside itself. The
 * inner call only puts its node on context->to_free, and the outermost call frees that list in a
 * loop: the depth stays 2 however long a chain of nodes is. */
void cti_node_unref(cti_node *node) {
    CTI_ASSERT(node->refs > 0);
    if (--node->refs) return;
    CTI_ASSERT(!node->pending); /* a pending node has a reference */
    ct_context *context = node->call.context;
    if (node->sequence) node_unlink(node);
    node->next = context->to_free;
    context->to_free = node;
    if (context->freeing) return;
    context->freeing = true;
    while (context->to_free) {
        node = context->to_free;
        context->to_free = node->next;
        cti_node_release(node);
        for (int k = 0; k < node->call.n_outs; k++) {
            cti_grad_slot_empty(&node->slot[k]);
            if (node->slot[k].retained) cti_tensor_free(node->slot[k].retained);
        }
        cti_give(context, node, node->bytes);
    }
    context->freeing = false;
}

void cti_grad_slot_disown(cti_grad_slot *slot) {
    if (!cti_node_of(slot)->call.op) cti_node_of(slot)->owner = NULL;
    cti_node_unref(cti_node_of(slot));
}
