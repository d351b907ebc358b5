/* Reverse-mode differentiation. An op computes at once and, when an input's gradient is wanted,
 * records a node. Backward visits the nodes from the newest to the oldest, without recursion, and
 * leaves gradients in the leaves.
 *
 * Values that backward still needs are saved by the tape. When a storage has been written since (an
 * optimiser's step, a load), backward through it is CT_ERR_GRAD, not a wrong number. There are no
 * gradients of gradients. */
#ifndef CT_AUTOGRAD_H
#define CT_AUTOGRAD_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a leaf collect its gradient, or stop. Only f32 and f64 tensors that no recorded op made.
 * Returns its argument. */
CT_API ct_tensor *ct_set_requires_grad(ct_tensor *tensor, bool requires_grad);
/* a leaf that collects, or what was computed from one */
CT_API bool ct_requires_grad(const ct_tensor *tensor);

/* Keeps an intermediate's gradient for ct_grad. Call it before backward. Returns its argument. */
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

/* The gradient: shape and dtype of the tensor, contiguous, owned by it; it ends with ct_zero_grad.
 * NULL, with no error, where no backward has reached the tensor since. */
CT_API ct_tensor *ct_grad(ct_tensor *tensor);
CT_API bool ct_zero_grad(ct_tensor *tensor);

/* the same values, cut off from what made them; a view */
CT_API ct_tensor *ct_detach(ct_tensor *tensor);

/* ---- The recorded graph, to look at ---- */

/* Writes what the tensor was computed from: ops, results, leaves (with the full names of modules'
 * parameters) and inputs without a gradient, with shapes and dtypes; after backward only what it
 * has not released. ct_graph_dot writes Graphviz's language (dot -Tsvg): gradients flow back along
 * solid arrows, none along dashed ones. ct_graph_print writes a line for each, in the order of
 * computation:
 *
 *     x1 = leaf (2, 8) f32
 *     x2 = parameter "fc.weight" (4, 8) f32
 *     %1 = linear(x1, x2, (4) f32) (2, 4) f32
 *
 * They also work while an error is pending. False: out of memory (two words a node are needed), or
 * the file has an error (CT_ERR_IO). */
CT_API bool ct_graph_dot(const ct_tensor *tensor, FILE *file);
CT_API bool ct_graph_print(const ct_tensor *tensor, FILE *file);

/* ---- Ops of your own ---- */

/* A forward and a backward made of public calls, run and recorded by ct_apply. They may take
 * attributes, save tensors, drop what backward does not read, and have several outputs. Backward
 * returns whole gradients, and the engine adds them. The library's ops use the same struct; only
 * they can also write into a gradient's memory (src/autograd/grad_slot.h). */

/* One call of an op. */
typedef struct {
    ct_context *context;
    const struct ct_op *op;
    const void *attrs;    /* the call's own copy */
    ct_tensor *const *in; /* contiguous, unless the op has CT_OP_STRIDED */
    int n, n_outs;
    const bool *wants; /* whose gradient is wanted */
    /* of an op with several outputs forward sets outs[1] ... outs[n_outs - 1], and returns the
     * first */
    ct_tensor **outs;
    ct_tensor *out, *saved[4]; /* forward sets saved; backward reads both. out is outs[0] */
    /* forward may say whose values backward does not read: CT_DROP_IN(i), CT_DROP_INPUTS,
     * CT_DROP_OUT. They are not kept; inputs' shapes and dtypes are, outs are NULL (a cotangent has
     * its output's) */
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
    /* a new tensor, or a view of an input; NULL with an error recorded. Not differentiated
     * itself */
    ct_tensor *(*forward)(ct_call *call);
    /* sets grad[i] where wants[i]: shape and dtype of in[i]. The engine adds. cotangents[k] is
     * output k's, NULL where nothing came back for it (of one output: never). NULL: no input has a
     * gradient */
    bool (*backward)(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad);
    unsigned flags;
    int outputs; /* at most CT_MAX_OUTPUTS; 0: 1 */
} ct_op;

enum { CT_MAX_OUTPUTS = 16 };

/* Runs the op and records it when a gradient is wanted. `op` must outlive the graph (in debug mode
 * its name the context); attrs is copied. All inputs are of one context. Errors that name the op: a
 * forward or backward that returns nothing; a result or a saved tensor of another context; a
 * gradient that is NULL, or of another shape, dtype or context; inputs whose values are used
 * although `drop` has them dropped; a forward or backward that closes a scope it has not opened. An
 * input that forward releases lasts until it has returned. A backward cannot call ct_backward nor
 * ct_zero_grad. examples/custom_op.c is one. */
/* of several outputs the first; the others end */
CT_API ct_tensor *ct_apply(const ct_op *op, ct_tensor *const *in, int n, const void *attrs);

/* The same with room for every output in outs. False: each is NULL. An output that is not f32 or
 * f64 has no gradient. */
CT_API bool ct_apply_many(const ct_op *op, ct_tensor *const *in, int n, const void *attrs,
                          ct_tensor **outs);

/* For a forward or backward of your own: record an error, in printf's manner, unless one is
 * pending. Returns NULL. */
CT_API void *ct_fail(ct_context *context, ct_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif
#endif
