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
#include "phases.h"

#include "../autograd/tape.h"

typedef struct {
    cti_node *node;
    ct_tensor **at;  /* the field with the gradient: a leaf's sum, or a result's `retained` */
    ct_tensor *grad; /* the gradient before the backwards, or NULL */
} hidden_entry;

struct cti_hidden_gradients {
    int64_t count;
    size_t bytes; /* the size of this block */
    hidden_entry entry[];
};

/* Appends an entry, or only counts it if h is NULL. */
static void gradient_hide(cti_hidden_gradients *h, int64_t *count, cti_node *node,
                          ct_tensor **grad) {
    if (h) {
        h->entry[*count] = (hidden_entry){.node = node, .at = grad, .grad = *grad};
        *grad = NULL;
        cti_node_ref(node);
    }
    ++*count;
}
/* The same for the gradient of a slot, if it is a leaf's. */
static void leaf_hide(cti_hidden_gradients *h, int64_t *count, cti_grad_slot *slot) {
    if (slot && !cti_node_of(slot)->call.op) gradient_hide(h, count, cti_node_of(slot), &slot->sum);
}

/* Returns the number of entries. */
static int64_t gradients_hide_all(cti_hidden_gradients *h, const ct_tensor *y) {
    int64_t count = 0;
    leaf_hide(h, &count, y->slot); /* if fn returns a leaf, no node has an edge to it */
    for (cti_node *node = y->context->tape_first; node; node = node->next) {
        for (int i = 0; i < node->call.n; i++) leaf_hide(h, &count, node->edge[i]);
        for (int o = 0; o < node->call.n_outs; o++)
            if (node->slot[o].retain) gradient_hide(h, &count, node, &node->slot[o].retained);
    }
    return count;
}

cti_hidden_gradients *cti_check_hide(cti_check *check, const ct_tensor *y) {
    const int64_t count = gradients_hide_all(NULL, y);
    const size_t bytes = sizeof(cti_hidden_gradients) + cti_bytes(count, sizeof(hidden_entry));
    cti_hidden_gradients *h = cti_take(check->context, bytes);
    if (!h) return NULL;
    h->count = count;
    h->bytes = bytes;
    gradients_hide_all(h, y);
    return h;
}

void cti_check_show(cti_check *check, cti_hidden_gradients *h) {
    for (int64_t i = 0; i < h->count; i++) {
        ct_tensor **grad = h->entry[i].at;
        if (*grad) cti_tensor_free(*grad);
        *grad = NULL;
    }
    for (int64_t i = 0; i < h->count; i++) {
        if (h->entry[i].grad) *h->entry[i].at = h->entry[i].grad;
        cti_node_unref(h->entry[i].node);
    }
    cti_give(check->context, h, h->bytes);
}
