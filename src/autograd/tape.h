/* The tape: the list of nodes in the order in which they were recorded, except the nodes that
 * recompute.c moves. A node is one call of an op. It has the tensors that its backward may read,
 * the grad slots of its outputs, and pointers to the grad slots of its inputs, which are its edges.
 * A leaf has a node with one slot and no op, and this node is not on the tape.
 *
 *     cti_tape_record          a gradient arrives
 *     ----------------> LIVE ---------------------> PENDING
 *                       | ^                          |   |
 *                       | `--- its backward has run, '   | its backward has run
 *                       |      with retain_graph         v
 *                       |                             RELEASED
 *                       |                                |
 *                       `-------- last reference --------'---> freed
 *
 * Invariants:
 *
 * 1. The edges of a node lead to leaves and to older nodes, which are nearer to tape_first.
 * 2. `refs` counts the handles with a slot of the node, the edges to the node, and the running
 *    backward if the node is pending. The last reference frees the node. By 1 there are no cycles.
 * 3. During a backward a node is pending if a gradient has arrived in one of its slots. At other
 *    times no node is pending, and every slot is empty except in leaves.
 * 4. A released node is never run again. A node is released when its backward has succeeded without
 *    retain_graph, which drops its saved tensors and its edges, and also when its backward has
 *    taken a saved tensor (cti_saved_writable) and fails.
 * 5. `sequence` grows along the tape, except at moved nodes, and is 0 in a leaf.
 * 6. Nodes are freed by a loop over context->to_free, so the depth of the stack does not depend on
 *    the length of a chain of nodes. */
#ifndef CTI_AUTOGRAD_TAPE_H
#define CTI_AUTOGRAD_TAPE_H

#include <stddef.h>

#include "grad_slot.h"

struct cti_node {
    /* The argument of the op's backward. It is the first member, so that its address is the node's.
     * A leaf's call has a context and no op. */
    ct_call call;
    cti_node *prev, *next; /* the neighbours on the tape; next also links context->to_free */
    uint64_t sequence;     /* grows along the tape, except at moved nodes; a leaf has 0 */
    int64_t refs;
    size_t bytes; /* the size of this block */
    /* whether a slot has a gradient for the running backward, which holds a reference */
    bool pending;
    bool released; /* a backward has dropped the saved tensors, or taken one */
    bool last;     /* whether the running backward will release the node */
    /* Two flags are in one byte, because a fifth byte would make each node longer. */
    bool tainted : 1; /* debug mode: whether an input or an output had a NaN */
    bool moved : 1;   /* whether cti_tape_move has moved the node */
    int saved_count;
    union {
        cti_grad_slot **edge; /* [call.n] the slots of the inputs; NULL if no gradient is wanted */
        /* the tensor of a leaf; NULL if it has ended or requires no gradient any more */
        const ct_tensor *owner;
    };
    ct_tensor *saved; /* [saved_count] the saved tensors, to which call.in, outs and saved point */
    int number;       /* 0, except while graph.c, recompute.c or watch.c walks along the tape */
    uint32_t mark;    /* cti_profile_mark at the recording; 0 if no profile ran */
    cti_grad_slot slot[]; /* [call.n_outs] the slots of the outputs; a leaf has one */
};
_Static_assert(offsetof(cti_node, call) == 0, "a call's address is its node's");

/* A flag of ct_op: nodes that this op's backward puts on the tape may add to leaves after the op's
 * own node has run (recompute.h). */
#define CTI_OP_HIDES_LEAVES (1u << 8)
/* A flag of ct_op: the attributes are a struct without padding or pointers, so the bytes tell
 * whether two calls are equal. */
#define CTI_OP_EXACT_ATTRS (1u << 9)
/* A flag of ct_op: an input may be of blocks (../core/block_matrix.h), and is then given as it is.
 * The op refuses it where it wants another dtype. Any other op is an error before its forward
 * runs. */
#define CTI_OP_READS_BLOCKS (1u << 10)

static inline cti_node *cti_node_of(const cti_grad_slot *slot) {
    return (cti_node *)((char *)(slot - slot->index) - offsetof(cti_node, slot));
}

/* Whether a tensor that an op's forward or backward returns has not ended and belongs to the call's
 * context. If not, an error of this status is recorded in both contexts; `what` begins its text
 * "... of another context". */
bool cti_call_owns(const ct_call *call, const ct_tensor *tensor, ct_status status,
                   const char *what);

/* Records a call as the newest node, and points the outputs to its slots. `given` are the inputs of
 * ct_apply. Returns false with an error if memory is short or a tensor cannot be saved. */
bool cti_tape_record(const ct_call *call, ct_tensor *const *given);

/* ---- for recompute.c, whose nodes have more edges than inputs ---- */

/* Makes a node of one output that is not on the tape, with room for call->n saved tensors. It
 * copies call->attrs and leaves in, edge, wants, saved and slot undefined. Returns NULL with an
 * error if memory is short. */
cti_node *cti_tape_node(const ct_call *call);
/* Makes a saved tensor that holds the values. */
void cti_tape_save(ct_tensor *to, const ct_tensor *tensor);
/* Puts a node on the tape as the newest. */
void cti_tape_append(cti_node *node);
/* Moves a node along the tape to the older side of `before`. */
void cti_tape_move(cti_node *node, cti_node *before);

/* ---- nodes ---- */

/* Whether `node` is a leaf or older than the node `than`, for asserts. If one of them was moved the
 * result is true, because the sequence of a moved node does not give its place on the tape. */
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

/* Makes a leaf, a node without an op. Returns NULL with an error if memory is short. */
cti_node *cti_tape_leaf(ct_tensor *owner);

static inline void cti_node_ref(cti_node *node) { node->refs++; }
/* Drops a reference. The last one frees the node and, without recursion, the older nodes to which
 * only this node referred. */
void cti_node_unref(cti_node *node);
/* Drops the saved tensors and the references to the nodes of the inputs. */
void cti_node_release(cti_node *node);

#endif
