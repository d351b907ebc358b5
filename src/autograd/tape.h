/* The tape: nodes in the order they were recorded. A node notes one call of an op: what backward may read, and which nodes its
 * inputs came from. A leaf has a node too, with no op: the slot where its gradient gathers. */
#ifndef CTI_AUTOGRAD_TAPE_H
#define CTI_AUTOGRAD_TAPE_H

#include "../core/context.h"

/* How a parameter's full name is found: what a module keeps of a parameter begins with one. */
enum { CTI_NAME_SIZE = 256 };
struct cti_namer {
    const char *(*name)(const cti_namer *namer, char buffer[CTI_NAME_SIZE]);
};

struct cti_node {
    ct_call call;             /* what backward is handed; first, so that a call is its node */
    cti_node *prev, *next;     /* on the tape; a leaf is not on it */
    uint64_t sequence;
    int64_t refs;
    size_t bytes;             /* of this block */
    ct_tensor *grad;          /* of a leaf, or retained: what ct_grad returns */
    ct_tensor *incoming;      /* the running sum of this backward's gradients */
    bool pending;             /* has incoming, waits for its turn; holds a reference */
    bool retain;              /* ct_retain_grad */
    bool released;            /* backward has passed, its values are gone */
    bool last;                /* the backward that is running releases it */
    bool tainted;             /* debug mode: an input or the result had a NaN */
    bool fresh;               /* the slot was made by cti_grad_place in the backward that is running */
    int places;               /* how often it was handed out and not yet handed back */
    int hole_dim;             /* incoming is not written yet from hole_start to hole_end of this dim */
    int64_t hole_start, hole_end;
    union {
        cti_node **edge;           /* [n] the node of each input whose gradient is wanted, else NULL */
        const ct_tensor *owner;   /* of a leaf: the tensor whose node it is; NULL: that has ended, or needs no gradient any more */
    };
    ct_tensor *notes;         /* the tensors that call points to */
    int note_count;
    int number;               /* in the graph that is being written, from 1; else 0 */
};

/* Records a call whose gradient is wanted, as the newest node. NULL: out of memory, recorded as an error. */
cti_node *cti_tape_record(const ct_call *call, ct_tensor *const *given);

static inline void cti_node_ref(cti_node *node) { node->refs++; }
void cti_node_unref(cti_node *node);     /* frees what is left without an owner, without recursion */
void cti_node_release(cti_node *node);   /* lets go of what backward would have read */

/* For a backward that can write or add its gradient in place: the tensor where in[i]'s gradient gathers, contiguous, of in[i]'s
 * shape. *add says whether to add to what is there; else every element must be written. Fill it before the next place is asked
 * for, and hand it back as grad[i]. NULL: out of memory, recorded. */
ct_tensor *cti_grad_place(const ct_call *call, int i, bool *add);

/* For a backward that can write base + its gradient: as cti_grad_place, with what gathered so far, contiguous, in *base: NULL for nothing,
 * the place itself, or memory that others still read. */
ct_tensor *cti_grad_onto(const ct_call *call, int i, ct_tensor **base);

/* saved[k] for the backward to write to or hand back as a gradient: the tensor itself where nothing will read it again, else a
 * copy. Row-major; once a call. NULL: out of memory, recorded. */
ct_tensor *cti_saved_take(const ct_call *call, int k);

/* For the backward of an input's slice: adds g to `length` of a dim from `start` of the place where in[i]'s gradient gathers, and sets
 * grad[i]. Slices that follow one another need no zeros before them. False: out of memory, recorded. */
bool cti_grad_slice(const ct_call *call, int i, int dim, int64_t start, int64_t length, const ct_tensor *g, ct_tensor **grad);

#endif
