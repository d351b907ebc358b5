/* Reverse-mode differentiation. An op computes at once and, when an input's gradient is wanted,
 * records a node. Backward visits the nodes from the newest to the oldest, without recursion, and
 * leaves gradients in the leaves.
 *
 * Values that backward still needs are saved by the tape. If one has been
 * written to since (by an optimiser's step or a load), backward through it fails with CT_ERR_GRAD
 * instead of giving wrong numbers. There are no gradients of gradients. */
#ifndef CT_AUTOGRAD_H
#define CT_AUTOGRAD_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a leaf accumulates its gradient. A leaf is an f32 or f64 tensor that is not the result of
 * a recorded op. Returns its argument. */
CT_API ct_tensor *ct_set_requires_grad(ct_tensor *tensor, bool requires_grad);
/* true for a leaf with requires_grad and for results computed from one */
CT_API bool ct_requires_grad(const ct_tensor *tensor);

/* Makes backward keep the gradient of an intermediate result for ct_grad. Call it before backward.
 * Returns its argument. */
CT_API ct_tensor *ct_retain_grad(ct_tensor *tensor);

/* Adds d loss / d leaf to the gradient of every leaf that loss was computed from. loss has one
 * element. The recorded graph is released as backward passes: a second backward through it is
 * CT_ERR_GRAD. */
CT_API bool ct_backward(ct_tensor *loss);

typedef struct {
    bool retain_graph; /* keep what was recorded for another backward */
} ct_backward_opts;

/* Adds sum_i <cotangents[i], d outs[i] / d leaf> to every leaf's gradient. A cotangent has its
 * output's shape and dtype; NULL means 1 for an output of one element. */
CT_API bool ct_backward_with(ct_tensor *const *outs, ct_tensor *const *cotangents, int n,
                             ct_backward_opts opts);

/* The gradient, contiguous and of the tensor's shape and dtype. The tensor owns it; ct_zero_grad
 * ends it. NULL, without an error, if no backward has reached the tensor since. */
CT_API ct_tensor *ct_grad(ct_tensor *tensor);
CT_API bool ct_zero_grad(ct_tensor *tensor);

/* a view of the same values, without a gradient */
CT_API ct_tensor *ct_detach(ct_tensor *tensor);

/* ---- Memory for time ---- */

/* Runs fn(in, n, arg) and keeps only its inputs for backward, which runs fn again to compute the
 * values between them and the result (activation checkpointing: Chen et al. 2016,
 * arXiv:1604.06174). For a stack of layers see ct_layer_opts.recompute.
 *
 *     static ct_tensor *block(ct_tensor *const *in, int n, void *arg) {
 *         return ct_forward(arg, in[0]);
 *     }
 *     ct_tensor *y = ct_recompute(block, module, &x, 1);
 *
 * Results and gradients are the same bits as of fn alone. The second run finds the random generator
 * and ct_get_matmul as the first did, and gradients go where they would have gone, in the same
 * order: also to what fn uses besides its inputs, parameters or results from outside, even if no
 * input requires a gradient. A tensor may come several times in `in`; NULLs are passed on. n is at
 * least 1, and one tensor is not NULL.
 *
 * Until backward is done with the graph, arg and what fn finds by it must stay: fn must compute
 * from them and its inputs what it did before, by the same ops. A second run is compared with the
 * first by fingerprints of the result's values and of the recorded ops: their kinds, shapes,
 * dtypes, the tensors with a gradient that they use, and the values of all others that their
 * backward reads. A second run that differs is CT_ERR_GRAD: for example, because a module that fn
 * calls was converted (ct_module_to_bf16), loaded, given another child or taken out of training.
 * Inputs, leaves and results of outside that were changed in place since are CT_ERR_GRAD too, as
 * for saved tensors, also if fn itself changes an input or, after its use, a leaf. A second run
 * that fails is an error with the status of its own. What fn changes besides, such as a count, it
 * changes at each run: once in forward, and once for each backward.
 *
 * Handles made in fn end with it, but for its result. One that it keeps by ct_keep is made anew by
 * the second run; so ct_retain_grad of it, in fn, makes ct_grad of the second handle show its
 * gradient, and not that of the first. Of the result it works as ever. If fn returns a tensor from
 * outside, an input for one, or one without a gradient, so does ct_recompute, and keeps nothing.
 *
 * fn may call ct_recompute. It may not call ct_backward or ct_zero_grad (CT_ERR_GRAD). Where
 * nothing is recorded, in ct_scope_open_no_grad, ct_recompute only calls fn. With retain_graph each
 * backward runs fn again. The first run takes as much memory as the second, until it returns. In a
 * graph that is drawn it is one node, "recompute". A profile counts the second run as a part of
 * backward. */
CT_API ct_tensor *ct_recompute(ct_fn fn, void *arg, ct_tensor *const *in, int n);

/* ---- The recorded graph, to look at ---- */

/* Writes the graph that the tensor was computed by: ops, results, leaves (parameters with their
 * full names) and inputs without a gradient, with shapes and dtypes. After backward only the part
 * that it has not released is left. ct_graph_dot writes Graphviz's DOT language; gradients flow
 * back along solid arrows and not along dashed ones. ct_graph_print writes one line for each
 * result, in the order of computation:
 *
 *     x1 = leaf (2, 8) f32
 *     x2 = parameter "fc.weight" (4, 8) f32
 *     %1 = linear(x1, x2, (4) f32) (2, 4) f32
 *
 * Both work while an error is pending. False: out of memory (they allocate three words per node),
 * or writing the file failed (CT_ERR_IO). */
CT_API bool ct_graph_dot(const ct_tensor *tensor, FILE *file);
CT_API bool ct_graph_print(const ct_tensor *tensor, FILE *file);

/* What ct_graph_dot_with shows at each node besides. A node with a NaN or an infinity is red. */
typedef struct {
    /* up to 8 elements as they are; of more the minimum, mean and maximum of the finite ones, and
     * the counts of NaN and infinities. "values not kept": the tensor has ended, and no backward
     * needs them. A leaf shows the values it has now */
    bool values;
    /* the norm of each gradient that ct_grad would return: of leaves, and of results with
     * ct_retain_grad. To see these in the whole graph keep it: ct_backward_with, retain_graph */
    bool grads;
} ct_graph_opts;

/* ct_graph_dot, with numbers. Reading them allocates nothing but a word for each result. */
CT_API bool ct_graph_dot_with(const ct_tensor *tensor, FILE *file, ct_graph_opts opts);

/* ---- Ops of your own ---- */

/* An op is a forward and a backward made of public calls, which ct_apply runs and records. It may
 * take attributes, save tensors, drop tensors that backward does not read, and have several
 * outputs. Backward returns whole gradients, and the engine adds them. The library's own ops use
 * the same struct; only they can also write into a gradient's memory (src/autograd/grad_slot.h). */

/* One call of an op. */
typedef struct {
    ct_context *context;
    const struct ct_op *op;
    const void *attrs;    /* the call's own copy */
    ct_tensor *const *in; /* contiguous, unless the op has CT_OP_STRIDED */
    int n, n_outs;
    const bool *wants; /* for each input, whether its gradient is wanted */
    /* n_outs outputs. The forward of an op with several returns the first and sets outs[1],
     * outs[2], ... */
    ct_tensor **outs;
    ct_tensor *out, *saved[4]; /* out is outs[0]. forward sets saved; backward reads both */
    /* forward sets which values backward does not read: CT_DROP_IN(i), CT_DROP_INPUTS, CT_DROP_OUT.
     * Their values are not kept. In backward dropped inputs still have shapes and dtypes, dropped
     * outs are NULL (a cotangent has its output's shape and dtype) */
    unsigned drop;
} ct_call;

#define CT_DROP_IN(i)  (1u << (i)) /* i up to 29 */
#define CT_DROP_INPUTS (1u << 30)
#define CT_DROP_OUT    (1u << 31)

#define CT_OP_STRIDED  1u /* takes inputs and cotangents with any strides */
#define CT_OP_OPTIONAL 2u /* inputs may be NULL */

typedef struct ct_op {
    const char *name;
    size_t attrs_size;
    /* returns a new tensor or a view of an input; NULL with an error recorded. Ops called inside
     * are not recorded */
    ct_tensor *(*forward)(ct_call *call);
    /* sets grad[i] for each i with wants[i], of in[i]'s shape and dtype; the engine adds it to what
     * is there. cotangents[k] belongs to output k; it is NULL if no gradient reached this output,
     * which cannot happen if there is only one. backward itself NULL: no input has a gradient */
    bool (*backward)(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad);
    unsigned flags;
    int outputs; /* at most CT_MAX_OUTPUTS; 0: 1 */
} ct_op;

enum { CT_MAX_OUTPUTS = 16 };

/* Runs the op, and records it if a gradient is wanted. `op` must outlive the graph, and in debug
 * mode its name must outlive the context; attrs is copied. All inputs must be of one context. These
 * are errors that name the op: a forward or backward that returns nothing; a result or a saved
 * tensor of another context; a gradient that is NULL or of another shape, dtype or context; use of
 * values that `drop` dropped; closing a scope that was opened outside. An input that forward
 * releases stays valid until forward has returned. backward may not call ct_backward or
 * ct_zero_grad. Both must return (context.h). For an example see examples/custom_op.c. Returns the
 * output; of several outputs the first, and the others end. */
CT_API ct_tensor *ct_apply(const ct_op *op, ct_tensor *const *in, int n, const void *attrs);

/* The same for an op with several outputs, stored in outs. False: all are NULL. An output that is
 * not f32 or f64 has no gradient. */
CT_API bool ct_apply_many(const ct_op *op, ct_tensor *const *in, int n, const void *attrs,
                          ct_tensor **outs);

/* Records an error with a message in printf's format, unless one is pending. For a forward or
 * backward of your own. Returns NULL. */
CT_API void *ct_fail(ct_context *context, ct_status status, const char *format, ...)
    CT_FORMAT(3, 4);

#ifdef __cplusplus
}
#endif
#endif
