/* The gradients of tensors that exist before a call of ct_jacobian, such as a module's parameters,
 * are hidden from its backwards: they leave their slots before the first backward and return after
 * the last.
 *
 * Invariants:
 *
 * 1. Between cti_check_hide and cti_check_show the leaves to which live nodes have edges, and the
 *    results of ct_retain_grad, have only gradients of the backwards between. cti_check_show drops
 *    these.
 * 2. An entry holds a reference to its node, so the field with the gradient exists until
 *    cti_check_show.
 * 3. A field may have several entries. The first has the gradient, and the others have NULL. */
#include "check.h"

#include "../autograd/tape.h"

static void hide_gradient(cti_hidden *h, cti_node *node, ct_tensor **grad) {
    if (h->entry) {
        h->entry[h->count] = (cti_hidden_entry){.node = node, .at = grad, .grad = *grad};
        *grad = NULL;
        cti_node_ref(node);
    }
    h->count++;
}

static void hide_leaf(cti_hidden *h, cti_grad_slot *slot) {
    if (slot && !cti_node_of(slot)->call.op) hide_gradient(h, cti_node_of(slot), &slot->sum);
}

/* Makes the entries; if h->entry is NULL it only counts them. */
static void hide_all(cti_hidden *h, const ct_tensor *y) {
    h->count = 0;
    hide_leaf(h, y->slot); /* if fn returns a leaf, no node has an edge to it */
    for (cti_node *node = y->context->tape_first; node; node = node->next) {
        for (int i = 0; i < node->call.n; i++) hide_leaf(h, node->edge[i]);
        for (int k = 0; k < node->call.n_outs; k++)
            if (node->slot[k].retain) hide_gradient(h, node, &node->slot[k].retained);
    }
}

bool cti_check_hide(cti_check *k, const ct_tensor *y, cti_hidden *h) {
    *h = (cti_hidden){0};
    hide_all(h, y);
    h->bytes = cti_bytes(h->count, sizeof *h->entry);
    h->entry = cti_take(k->context, h->bytes);
    if (!h->entry) return false;
    hide_all(h, y);
    return true;
}

void cti_check_show(cti_check *k, cti_hidden *h) {
    for (int64_t i = 0; i < h->count; i++) {
        ct_tensor **grad = h->entry[i].at;
        if (*grad) cti_tensor_free(*grad);
        *grad = NULL;
    }
    for (int64_t i = 0; i < h->count; i++) {
        if (h->entry[i].grad) *h->entry[i].at = h->entry[i].grad;
        cti_node_unref(h->entry[i].node);
    }
    cti_give(k->context, h->entry, h->bytes);
}
