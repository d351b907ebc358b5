/* What the losses share: checks, reductions, and the rows of the cross-entropies. */
#ifndef CTI_OPS_SUPPORT_LOSS_H
#define CTI_OPS_SUPPORT_LOSS_H

#include "op.h"

/* ---- losses of elements ---- */

/* Returns whether reduction is a ct_reduction that the op takes; CT_BATCH_MEAN is taken only with
 * `batch`. If not, an error is recorded. */
bool cti_op_reduction_check(const ct_call *c, ct_reduction reduction, bool batch);

/* Return the reduced losses, and the factor by which each loss enters the result. */
ct_tensor *cti_op_loss_reduced(const ct_call *c, ct_tensor *losses, ct_reduction reduction);
double cti_op_loss_share(const ct_call *c, int64_t losses, ct_reduction reduction);

/* Returns a weight, which has no gradient: t detached, or t itself if it requires no gradient. A t
 * that cannot be used is returned unchanged, so that ct_apply records the error. */
static inline ct_tensor *cti_op_constant(ct_tensor *t) {
    ct_tensor *constant = t && t->self == t && t->slot ? ct_detach(t) : NULL;
    return constant ? constant : t;
}

/* Calls a loss of n inputs and, if it is not NULL, a weight as input n. `in` has room for it. */
static inline ct_tensor *cti_op_weighted_loss(const ct_op *op, ct_tensor **in, int n,
                                              ct_tensor *weight, const void *opts) {
    in[n] = cti_op_constant(weight);
    return ct_apply(op, in, in[n] ? n + 1 : n, opts);
}

/* ---- cross_entropy and linear_cross_entropy ---- */

enum { CTI_IGNORED = -100 }; /* the target of a row that has no loss; the same in torch */

/* Checks that the targets, in[i], are i64 with in[0]'s shape without its last dim, each CTI_IGNORED
 * or in [0, classes), that the smoothing is in [0, 1] and z_loss finite and at least 0, and that
 * in[i + 1], if the call has it, is the weights of the classes. */
bool cti_op_loss_check(const ct_call *c, int i, int64_t classes);

/* Returns the factor of each row's loss: for a mean 1 / the number of rows that are not ignored, or
 * 1 / the sum of the weights of their targets, in[i]; 0 if all are ignored; otherwise 1. */
double cti_op_loss_weight(const ct_call *c, int i);

/* Returns the sum of the losses (rows), in the fixed order of the kernel; with CT_NONE returns the
 * losses themselves. */
ct_tensor *cti_op_loss_total(const ct_call *c, ct_tensor *losses, double weight);

/* The factors of the rows' gradients: `by`, times the row's element of `each` if that is not NULL.
 * g is the op's cotangent, weight cti_op_loss_weight's. */
typedef struct {
    double by;
    const ct_tensor *each;
} cti_loss_scale;
cti_loss_scale cti_op_loss_scale(const ct_call *c, ct_tensor *g, double weight);

/* Returns a new tensor (2, rows) for the statistics of rows of logits: maxima, and 1 / sum e^(x -
 * max). */
static inline ct_tensor *cti_op_loss_statistics(const ct_call *c, int64_t rows) {
    return cti_op_new(c, cti_dtype_statistics(c->in[0]->dtype), CT_SHAPE(2, rows));
}

/* A block of rows of logits: rows first, first + 1, ... of all. x, dx and the statistics have only
 * these rows, the losses and the factors in `scale` all of them. */
typedef struct {
    int64_t first, classes;
    const char *x;         /* logits of in[0]'s dtype */
    ct_tensor *losses;     /* the losses to compute, and the statistics with them; or NULL */
    ct_tensor *statistics; /* made by cti_op_loss_statistics */
    char *dx;              /* receives scale times the gradient of x; or NULL. It may be x */
    cti_loss_scale scale;
} cti_loss_rows;

/* Computes a block. An ignored row has loss 0 and gradient 0. i is the same as for
 * cti_op_loss_check. */
void cti_op_loss_rows(const ct_call *c, int i, int64_t rows, const cti_loss_rows *block);

#endif
