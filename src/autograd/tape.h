/* The tape: nodes in the order they were recorded, but for those that recompute.c moves. A node is
 * one call of an op: the tensors that its backward may read, the grad slots of its outputs, and
 * pointers to the grad slots of its inputs. A leaf has a node with one slot and no op, which is not
 * on the tape. */
#ifndef CTI_AUTOGRAD_TAPE_H
#define CTI_AUTOGRAD_TAPE_H

#include <stddef.h>

#include "grad_slot.h"

struct cti_node {
    /* backward's argument; first, so that a ct_call * is its node. Of a leaf: a context, no op */
    ct_call call;
    cti_node *prev, *next; /* on the tape; of a freed node: next on context->to_free */
    uint64_t sequence;     /* grows along the tape, but for nodes that were moved; of a leaf 0 */
    int64_t refs;
    size_t bytes;          /* of this block */
    bool pending;          /* a slot has a gradient to run backward on; holds a reference */
    unsigned char special; /* a sum of the CTI_NODE_... below; mostly 0 */
    bool last;             /* the backward that is running will release it */
    /* one byte, as a fifth one would make each node longer */
    bool tainted : 1; /* debug mode: an input or an output had a NaN */
    bool moved : 1;   /* by cti_tape_move */
    int saved_count;
    union {
        cti_grad_slot **edge; /* [call.n] the input's slot; NULL: no gradient is wanted */
        /* of a leaf: its tensor; NULL: that has ended, or needs no gradient any more */
        const ct_tensor *owner;
    };
    ct_tensor *saved;     /* [saved_count] saved tensors: what call.in, outs and saved point to */
    int number;           /* while graph.c or recompute.c walks along the tape; else 0 */
    uint32_t mark;        /* cti_profile_mark when it was recorded; 0: no profile ran */
    cti_grad_slot slot[]; /* [call.n_outs]; of a leaf one */
};
enum {
    CTI_NODE_RELEASED = 1, /* by a backward: saved tensors are gone */
    CTI_NODE_OWN = 2       /* its op is the program's, whose backward is a callback */
};
_Static_assert(offsetof(cti_node, call) == 0, "a call's address is its node's");

/* In ct_op.flags: what this op's backward puts on the tape may add to leaves after its node has
 * run: see recompute.h. */
#define CTI_OP_HIDES_LEAVES (1u << 8)
/* In ct_op.flags: the attributes are a struct without padding or pointers, so that two calls can be
 * compared by its bytes. */
#define CTI_OP_EXACT_ATTRS (1u << 9)

/* ct_apply and ct_apply_many for the library's own ops, whose forward and backward are no callbacks
 * of the program and return. */
ct_tensor *cti_apply(const ct_op *op, ct_tensor *const *in, int n, const void *attrs);
bool cti_apply_many(const ct_op *op, ct_tensor *const *in, int n, const void *attrs,
                    ct_tensor **outs);

/* Told of each backward, to see which leaves have their whole gradient before it ends: a leaf does
 * when no node that is left has an edge to it. It takes no memory and records no error. */
typedef struct cti_backward_watch cti_backward_watch;
struct cti_backward_watch {
    /* before the first node runs, with the whole tape there */
    void (*begin)(cti_backward_watch *watch, bool retain_graph);
    /* a node has run, and added its gradients; its edges are there still */
    void (*ran)(cti_backward_watch *watch, const cti_node *node);
};

static inline cti_node *cti_node_of(const cti_grad_slot *slot) {
    return (cti_node *)((char *)(slot - slot->index) - offsetof(cti_node, slot));
}

/* Whether a tensor that an op's forward or backward hands over has not ended and is of the call's
 * context; else the error is recorded in both contexts. `what` begins the error's text "... of
 * another context", which has that status. */
bool cti_call_owns(const ct_call *call, const ct_tensor *tensor, ct_status status,
                   const char *what);

/* Records a call as the newest node, and points the outputs to its slots. `given` are the inputs of
 * ct_apply. False, with an error recorded: out of memory, or a tensor that cannot be saved. */
bool cti_tape_record(const ct_call *call, ct_tensor *const *given);

/* ---- for recompute.c, whose nodes have more edges than inputs ---- */

/* A node of one output, with room for as many saved tensors as call->n, and not on the tape: in,
 * edge, wants, saved and slot are undefined. call->attrs is copied. NULL: out of memory, recorded.
 */
cti_node *cti_tape_node(const ct_call *call);
/* Makes a saved tensor, with the values. */
void cti_tape_save(ct_tensor *to, const ct_tensor *tensor);
/* Puts it on the tape as the newest node. */
void cti_tape_append(cti_node *node);
/* Moves a node along the tape to the older side of another. */
void cti_tape_move(cti_node *node, cti_node *before);

/* ---- nodes ---- */

/* The order of the tape, for asserts. A leaf is not on the tape; of a node that was moved, or of
 * one beside it, the sequence does not tell. */
static inline bool cti_node_may_be_older(const cti_node *node, const cti_node *than) {
    return !node->call.op || node->moved || than->moved || node->sequence < than->sequence;
}

/* The number of pending nodes on the tape, for asserts. */
static inline int64_t cti_tape_pending(const ct_context *context) {
    int64_t pending = 0;
    for (const cti_node *node = context->tape_first; node; node = node->next)
        pending += node->pending;
    return pending;
}

/* A leaf: a node without an op. NULL: out of memory, recorded. */
cti_node *cti_tape_leaf(ct_tensor *owner);

static inline bool cti_node_is_released(const cti_node *node) {
    return node->special & CTI_NODE_RELEASED;
}

static inline void cti_node_ref(cti_node *node) { node->refs++; }
/* Drops a reference. Frees the node and, without recursion, those that only it referred to. */
void cti_node_unref(cti_node *node);
/* Drops the saved tensors and the references to the nodes of the inputs. */
void cti_node_release(cti_node *node);

#endif
