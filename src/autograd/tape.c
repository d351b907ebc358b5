/* The tape: recording a node, releasing what it holds, and its end. A node is one block, laid out as
 *     node | attrs | notes | in | edge | wants */
#include "tape.h"

#include <string.h>

static size_t aligned(size_t size) { return (size + 15) & ~(size_t)15; }

/* The tape's own handle on a tensor: with its values, or only its shape and dtype. Copied number by number, which `volatile` ensures: see
 * cti_shape_same. */
static void note(ct_tensor *to, const ct_tensor *tensor, bool with_values) {
    const volatile int64_t *dim = tensor->shape.dim, *stride = tensor->stride;
    to->context = tensor->context;
    to->storage = with_values ? tensor->storage : NULL;
    to->data = with_values ? tensor->data : NULL;
    to->node = NULL;
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

static bool can_save(const ct_call *c, const ct_tensor *saved) {
    if (saved->context == c->context) return cti_tensor_has_values(saved, c->op->name);
    ct_fail(c->context, CT_ERR_ARGUMENT, "%s: forward saved a tensor of another context", c->op->name);
    return false;
}

cti_node *cti_tape_record(const ct_call *c, ct_tensor *const *given) {
    ct_context *context = c->context;
    const bool with_out = !(c->drop & CT_DROP_OUT);
    size_t n = (size_t)c->n, notes = n + with_out;
    const size_t attrs = aligned(c->attrs ? c->op->attrs_size : 0);
    for (int k = 0; k < 4; k++) {
        if (c->saved[k] && !can_save(c, c->saved[k])) return NULL;
        notes += c->saved[k] != NULL;
    }
    const size_t per_input = sizeof(ct_tensor *) + sizeof(cti_node *) + sizeof(bool);
    const uint64_t bytes = aligned(sizeof(cti_node)) + attrs + (uint64_t)notes * sizeof(ct_tensor) + (uint64_t)n * per_input;
    cti_node *node = cti_take(context, bytes > CTI_MOST_BYTES ? SIZE_MAX : (size_t)bytes);
    if (!node) return NULL;
    char *at = (char *)node + aligned(sizeof *node);
    void *attrs_copy = at;
    ct_tensor *tensor = (ct_tensor *)(at + attrs);
    ct_tensor **in = (ct_tensor **)(tensor + notes);
    cti_node **edge = (cti_node **)(in + n);
    bool *wants = (bool *)(edge + n);

    memset((char *)node + sizeof node->call, 0, sizeof *node - sizeof node->call);
    node->call.context = context;
    node->call.op = c->op;
    node->call.attrs = c->attrs ? memcpy(attrs_copy, c->attrs, c->op->attrs_size) : NULL;
    node->call.in = in;
    node->call.n = c->n;
    node->call.wants = wants;
    node->call.out = NULL;
    node->call.drop = c->drop;
    node->bytes = (size_t)bytes;
    node->refs = 1;
    node->edge = edge;
    node->notes = tensor;
    node->note_count = (int)notes;
    for (int i = 0; i < c->n; i++) {
        bool drop = c->drop & CT_DROP_INPUTS || (i < 30 && c->drop & CT_DROP_IN(i));
        in[i] = NULL;
        if (c->in[i]) note(in[i] = tensor++, c->in[i], !drop);
        else (tensor++)->storage = NULL;
        wants[i] = c->wants[i];
        edge[i] = wants[i] ? given[i]->node : NULL;
        if (edge[i]) cti_node_ref(edge[i]);
    }
    if (with_out) note(node->call.out = tensor++, c->out, true);
    for (int k = 0; k < 4; k++) {
        node->call.saved[k] = NULL;
        if (c->saved[k]) note(node->call.saved[k] = tensor++, c->saved[k], true);
    }

    node->sequence = ++context->sequence;
    node->prev = context->tape_last;
    *(node->prev ? &node->prev->next : &context->tape_first) = node;
    context->tape_last = node;
    return node;
}

/* Lets go of what backward would have read, and of the nodes below. */
void cti_node_release(cti_node *node) {
    node->released = true;
    ct_context *context = node->call.context;
    for (int i = 0; i < node->note_count; i++) {
        cti_storage_unref(context, node->notes[i].storage);
        node->notes[i].storage = NULL;
    }
    node->note_count = 0;
    for (int i = 0; i < node->call.n; i++)
        if (node->edge[i]) {
            cti_node *edge = node->edge[i];
            node->edge[i] = NULL;
            cti_node_unref(edge);
        }
    node->call.n = 0;
}

/* A chain of nodes ends one by one from a list, not one inside the other. */
void cti_node_unref(cti_node *node) {
    if (--node->refs) return;
    ct_context *context = node->call.context;
    if (node->sequence) {
        if (node->next) node->next->prev = node->prev;
        else context->tape_last = node->prev;
        *(node->prev ? &node->prev->next : &context->tape_first) = node->next;
    }
    node->next = context->dying;
    context->dying = node;
    if (context->freeing) return;
    context->freeing = true;
    while ((node = context->dying)) {
        context->dying = node->next;
        cti_node_release(node);
        if (node->grad) cti_tensor_free(node->grad);
        if (node->incoming) cti_tensor_free(node->incoming);
        cti_give(context, node, node->bytes);
    }
    context->freeing = false;
}

void cti_node_disown(cti_node *node) {
    if (!node->call.op) node->owner = NULL;
    cti_node_unref(node);
}
