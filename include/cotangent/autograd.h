/* Reverse-mode differentiation. An op computes its result at once. If the gradient of an input is
 * wanted, it also records a node on the tape. Backward visits the nodes from the newest to the
 * oldest, without recursion, and adds gradients to the leaves.
 *
 * A node saves the values that its backward needs. If one of these values has been overwritten
 * since (by an optimiser's step or a load), backward fails with CT_ERR_GRAD instead of computing a
 * wrong gradient. Gradients of gradients are not supported. */
#ifndef CT_AUTOGRAD_H
#define CT_AUTOGRAD_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gradients ---- */

/* Sets whether backward accumulates a gradient in a leaf, and returns the leaf. A leaf is an f32 or
 * f64 tensor that no recorded op has computed. A result of a recorded op is CT_ERR_GRAD, and
 * another dtype is CT_ERR_DTYPE. With false the leaf loses the gradient that it has. */
CT_API ct_tensor *ct_set_requires_grad(ct_tensor *tensor, bool requires_grad);
/* Returns true for a leaf with requires_grad, and for a result that was computed from such a leaf
 * while ops were recorded. */
CT_API bool ct_requires_grad(const ct_tensor *tensor);

/* Makes a later backward keep the gradient of an intermediate result for ct_grad, and returns its
 * argument. */
CT_API ct_tensor *ct_retain_grad(ct_tensor *tensor);

/* Adds d loss / d leaf to the gradient of every leaf from which loss was computed. loss has one
 * element. Backward releases each node of the recorded graph after its use, so a second backward
 * through the graph is CT_ERR_GRAD. When backward fails, some leaves may already have received
 * gradients. */
CT_API bool ct_backward(ct_tensor *loss);

typedef struct {
    bool retain_graph; /* the graph is not released, and another backward may pass through it */
} ct_backward_opts;

/* Adds sum_i <cotangents[i], d outs[i] / d leaf> to the gradient of every leaf. A cotangent has the
 * shape and dtype of its output. A NULL cotangent means 1, for an output of one element; if
 * cotangents is NULL, all are 1. */
CT_API bool ct_backward_with(ct_tensor *const *outs, ct_tensor *const *cotangents, int n,
                             ct_backward_opts opts);

/* Returns the gradient of a tensor, a contiguous tensor of the same shape and dtype. `tensor` owns
 * the gradient until ct_zero_grad ends it. Returns NULL, without an error, if no backward has
 * reached the tensor since the last ct_zero_grad. */
CT_API ct_tensor *ct_grad(ct_tensor *tensor);
/* Ends the gradient, so that the next backward starts a new one. */
CT_API bool ct_zero_grad(ct_tensor *tensor);

/* Returns a view of the same values that requires no gradient. It is of blocks if `tensor` is. */
CT_API ct_tensor *ct_detach(ct_tensor *tensor);

/* ---- activation checkpointing ---- */

/* Runs fn(in, n, arg), returns its result, and keeps only the inputs for backward. Backward runs fn
 * again to compute the intermediate values, which saves memory and costs time (activation
 * checkpointing: Chen et al. 2016, arXiv:1604.06174; torch.utils.checkpoint). For the layers of a
 * transformer there is ct_layer_opts.recompute.
 *
 *     static ct_tensor *block(ct_tensor *const *in, int n, void *arg) {
 *         return ct_forward(arg, in[0]);
 *     }
 *     ct_tensor *y = ct_recompute(block, module, &x, 1);
 *
 * Results and gradients have the bits that a plain call of fn gives them. The second run starts
 * from the same state of the random generator and of ct_set_matmul as the first. Gradients go to
 * the same tensors in the same order. They also flow to tensors that fn uses besides its inputs
 * (parameters, results from outside fn), even if no input requires a gradient. `in` may contain a
 * tensor several times, and NULLs, which fn receives unchanged; at least one of the n tensors is
 * not NULL.
 *
 * The second run must repeat the first: until backward has finished, arg and everything that fn
 * reaches through arg must stay valid, and fn must compute the same values by the same ops. The two
 * runs are compared by fingerprints. A fingerprint covers the values of the result and, for each
 * recorded op, its kind, the shapes and dtypes of its inputs, the inputs that have a gradient, and
 * the values of the other inputs that its backward reads. A second run that differs is CT_ERR_GRAD;
 * the usual reason is that a module was changed between the runs (converted by ct_module_to,
 * loaded, given another child, taken out of training).
 *
 * These are CT_ERR_GRAD too: an input, a leaf or a result from outside fn was changed in place
 * between the runs; fn changes one of its inputs in place, or changes a leaf after its use; fn
 * calls ct_backward or ct_zero_grad. If the second run fails with an error of its own, backward
 * fails with that status. Side effects of fn, such as counting, happen once in forward and once in
 * each backward.
 *
 * The handles that fn makes end when fn returns, except its result and the handles that fn keeps by
 * ct_keep. Each run makes its own handle of a tensor that fn keeps. So if fn calls ct_retain_grad
 * on such a tensor, only the handle of the second run gets a gradient. ct_retain_grad works as
 * usual on the result of ct_recompute. If fn returns a tensor from outside (such as an input) or a
 * tensor without a gradient, ct_recompute returns it too and keeps nothing.
 *
 * fn may call ct_recompute. In a scope of ct_scope_open_no_grad nothing is recorded, and
 * ct_recompute only calls fn. With retain_graph each backward runs fn again. While the first run
 * lasts it takes as much memory as the second. A drawn graph shows one node, "recompute". A profile
 * counts the second run as backward. */
CT_API ct_tensor *ct_recompute(ct_fn fn, void *arg, ct_tensor *const *in, int n);

/* ---- watching leaves ---- */

/* Functions that backward calls while it runs. Any of them may be NULL. Each is a callback and must
 * return (context.h). If one of them records an error, backward stops and fails with this error.
 * They may read gradients, change their values in place, and call ct_unwatch; a backward or
 * ct_zero_grad is CT_ERR_GRAD. */
typedef struct {
    /* Called before the first node runs. reached[i] is true if this backward will add to the
     * gradient of leaf i; the array is valid only during the call. */
    void (*begin)(void *self, const bool *reached, bool retain_graph);
    /* Called once for each reached leaf, when nothing will be added to its gradient any more: when
     * every recorded op that uses the leaf has run its backward. grad is ct_grad of the leaf. If
     * the function returns true, the gradient ends, and backward reuses its memory. If another
     * recorded graph uses the leaf too, the call comes only at the end of the backward. The calls
     * for all leaves come at the end if the backward retains the graph, if an output is itself a
     * leaf, or if the tape has a ct_recompute, which hides the uses of leaves. */
    bool (*whole)(void *self, int64_t i, ct_tensor *grad);
    void (*turn)(void *self);         /* called after each node */
    void (*end)(void *self, bool ok); /* called last; ok is true if the backward has succeeded */
} ct_watch_fns;

/* Watches n leaves that require a gradient in each backward of the context from now on, until
 * ct_unwatch. Backwards that ct_gradcheck and ct_jacobian run are not watched. The functions
 * outlive the watch; `self` is their first argument. The watch of a leaf ends when the leaf ends or
 * no longer requires a gradient. A context has at most one watcher: if it already has one, the
 * result is false without an error. A tensor that is not a leaf that requires a gradient is
 * CT_ERR_GRAD, and a leaf that is given twice is CT_ERR_ARGUMENT. Backward takes no memory for the
 * watch. */
CT_API bool ct_watch(ct_context *context, ct_tensor *const *leaves, int64_t n,
                     const ct_watch_fns *fns, void *self);
/* Ends the watch with this `self`; does nothing if there is no such watch. */
CT_API void ct_unwatch(ct_context *context, void *self);

/* ---- printing the recorded graph ---- */

/* Writes the graph from which the tensor was computed: ops, results, leaves (parameters with their
 * full names) and inputs without a gradient, with shapes and dtypes. After a backward only nodes
 * that it has not released are left. ct_graph_dot writes Graphviz's DOT language: gradients flow
 * back along the solid arrows and not along the dashed ones. ct_graph_print writes one line for
 * each result, in the order of computation:
 *
 *     x1 = leaf (2, 8) f32
 *     x2 = parameter "fc.weight" (4, 8) f32
 *     %1 = linear(x1, x2, (4) f32) (2, 4) f32
 *
 * Both work while an error is pending. They return false if memory is exhausted (they allocate
 * three words for each node) or the file cannot be written (CT_ERR_IO). */
CT_API bool ct_graph_dot(const ct_tensor *tensor, FILE *file);
CT_API bool ct_graph_print(const ct_tensor *tensor, FILE *file);

/* The options of ct_graph_dot_with, which select the numbers that it adds to each node. A node that
 * has a NaN or an infinity is red. */
typedef struct {
    /* whether values are shown: all elements of a tensor of up to 8 elements; of a larger tensor
     * the minimum, mean and maximum of its finite elements and the counts of NaN and infinities. A
     * leaf shows its present values. "values not kept" means that the tensor has ended and no
     * backward needs its values */
    bool values;
    /* whether the norm of each gradient that ct_grad would return is shown, for leaves and for
     * results with ct_retain_grad. Backward must keep the graph (ct_backward_with with
     * retain_graph), or only a part of it is left to draw afterwards */
    bool grads;
} ct_graph_opts;

/* Writes the graph as ct_graph_dot does, with numbers. It allocates one more word per result. */
CT_API bool ct_graph_dot_with(const ct_tensor *tensor, FILE *file, ct_graph_opts opts);

/* ---- ops of your own ---- */

/* An op is a forward and a backward, which use only public functions; ct_apply runs and records the
 * op. An op may have attributes and several outputs, may save tensors for backward, and may drop
 * tensors that backward does not read. Backward returns the gradient that this op contributes to
 * each input, and the library adds up the contributions. The library's own ops use the same struct,
 * and they can also write directly into the memory of a gradient (src/autograd/grad_slot.h). For an
 * example see examples/custom_op.c. */

/* One call of an op. */
typedef struct {
    ct_context *context;
    const struct ct_op *op;
    const void *attrs;    /* the attributes that ct_apply was given; in backward a copy of them */
    ct_tensor *const *in; /* the n inputs, contiguous unless the op has CT_OP_STRIDED */
    int n, n_outs;        /* the numbers of inputs and of outputs */
    const bool *wants;    /* [n] true for an input whose gradient is wanted */
    /* [n_outs] the outputs. The forward of an op with several outputs returns the first and sets
     * outs[1], outs[2], ... */
    ct_tensor **outs;
    ct_tensor *out, *saved[4]; /* out is outs[0]; forward sets saved; backward may read both */
    /* the inputs and outputs whose values backward does not read, so that they are not kept.
     * forward sets a union of CT_DROP_IN(i), CT_DROP_INPUTS and CT_DROP_OUT. In backward a dropped
     * input has only a shape and a dtype, and dropped outputs are NULL (a cotangent has the
     * output's shape and dtype) */
    unsigned drop;
} ct_call;

#define CT_DROP_IN(i)  (1u << (i)) /* input i, 0 to 29 */
#define CT_DROP_INPUTS (1u << 30)  /* all inputs */
#define CT_DROP_OUT    (1u << 31)  /* all outputs */

#define CT_OP_STRIDED  1u /* inputs and cotangents may have any strides */
#define CT_OP_OPTIONAL 2u /* inputs after the first may be NULL */

typedef struct ct_op {
    const char *name;
    size_t attrs_size; /* in bytes; 0: no attributes */
    /* Returns a new tensor or a view of an input; or NULL after it has recorded an error. Ops that
     * it calls are not recorded. */
    ct_tensor *(*forward)(ct_call *call);
    /* Sets grad[i], of in[i]'s shape and dtype, for each i with wants[i]; the library adds it to
     * the gradient of in[i]. cotangents[k] belongs to output k. It is NULL if no gradient has
     * reached this output, which cannot happen if there is only one output. If backward itself is
     * NULL, no input has a gradient. */
    bool (*backward)(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad);
    unsigned flags; /* CT_OP_STRIDED, CT_OP_OPTIONAL */
    int outputs;    /* the number of outputs, at most CT_MAX_OUTPUTS; 0: 1 */
} ct_op;

enum { CT_MAX_OUTPUTS = 16 };

/* Runs the op, records it if a gradient is wanted, and returns the output. If the op has several
 * outputs, ct_apply returns the first, and the handles of the others end. All inputs must belong to
 * one context. attrs is copied. `op` must outlive the graph, and in debug mode its name must
 * outlive the context.
 *
 * An input that forward releases stays valid until forward has returned. backward must not call
 * ct_backward or ct_zero_grad. Both functions are callbacks and must return; see context.h.
 *
 * These mistakes are errors that name the op: a forward or backward that returns nothing; a result
 * or a saved tensor of another context; a gradient that is NULL or has another shape, dtype or
 * context; a use of values that `drop` has dropped; a call that closes a scope that was opened
 * before the op began. */
CT_API ct_tensor *ct_apply(const ct_op *op, ct_tensor *const *in, int n, const void *attrs);

/* Runs an op with several outputs as ct_apply does, and stores the outputs in outs. If it returns
 * false, all of outs are NULL. An output that is not f32 or f64 has no gradient. */
CT_API bool ct_apply_many(const ct_op *op, ct_tensor *const *in, int n, const void *attrs,
                          ct_tensor **outs);

/* Records an error with a message in printf's format, unless an error is pending, and returns NULL.
 * It is meant for the forward or backward of an op of your own. */
CT_API void *ct_fail(ct_context *context, ct_status status, const char *format, ...)
    CT_FORMAT(3, 4);

#ifdef __cplusplus
}
#endif
#endif
