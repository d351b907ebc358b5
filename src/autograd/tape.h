/* The tape: nodes in the order they were recorded. A node is one call of an op: the tensors that
 * its backward may read, where the gradients of its outputs gather, and where those of its inputs
 * do. A leaf has a node too, with no op and one slot. */
#ifndef CTI_AUTOGRAD_TAPE_H
#define CTI_AUTOGRAD_TAPE_H

#include <stddef.h>

#include "grad_slot.h"

/* How a parameter's full name is found: what a module keeps of a parameter begins with one. */
enum { CTI_NAME_SIZE = 256 };
struct cti_namer {
    const char *(*name)(const cti_namer *namer, char buffer[CTI_NAME_SIZE]);
};

struct cti_node {
    /* what backward is handed; first, so that a call is its node. A leaf's has a context alone */
    ct_call call;
    cti_node *prev, *next; /* on the tape; a leaf is not on it */
    uint64_t sequence;
    int64_t refs;
    size_t bytes; /* of this block */
    /* a gradient has come to a slot, and waits for the node's turn; holds a reference */
    bool pending;
    bool released; /* backward has passed, its values are gone */
    bool last;     /* the backward that is running releases it */
    bool tainted;  /* debug mode: an input or a result had a NaN */
    int saved_count;
    union {
        /* [n] where the gradient of each input gathers; NULL: it is not wanted */
        cti_grad_slot **edge;
        /* of a leaf: the tensor whose node it is; NULL: that has ended, or needs no gradient any
         * more */
        const ct_tensor *owner;
    };
    ct_tensor *saved; /* saved tensors: those that call points to, inputs and outputs too */
    int number;       /* in the graph that is being written, from 1; else 0 */
    /* [call.n_outs] where the gradients of the outputs gather; of a leaf one */
    cti_grad_slot slot[];
};

/* The node that a slot is in. */
static inline cti_node *cti_node_of(const cti_grad_slot *slot) {
    return (cti_node *)((char *)(slot - slot->index) - offsetof(cti_node, slot));
}

/* Records a call whose gradient is wanted, as the newest node, and makes it the outputs' node.
 * False: out of memory, recorded. */
bool cti_tape_record(const ct_call *call, ct_tensor *const *given);

/* A leaf: a node without an op. NULL: out of memory, recorded. */
cti_node *cti_tape_leaf(ct_tensor *owner);

static inline void cti_node_ref(cti_node *node) { node->refs++; }
/* frees what is left without an owner, without recursion */
void cti_node_unref(cti_node *node);
void cti_node_release(cti_node *node); /* lets go of what backward would have read */

#endif
