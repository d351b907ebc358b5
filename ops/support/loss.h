/* Code shared by the losses. */
#ifndef CTI_OPS_SUPPORT_LOSS_H
#define CTI_OPS_SUPPORT_LOSS_H

#include "op.h"

/* ---- losses of elements ---- */

/* Whether it is one of ct_reduction's, CT_BATCH_MEAN only with `batch`; else false, with the error
 * recorded. */
bool cti_op_reduction_check(const ct_call *c, ct_reduction reduction, bool batch);

/* The losses reduced; and the factor of each loss in the result. */
ct_tensor *cti_op_loss_reduced(const ct_call *c, ct_tensor *losses, ct_reduction reduction);
double cti_op_loss_share(const ct_call *c, int64_t losses, ct_reduction reduction);

/* A weight has no gradient: t detached, or t itself if it requires none. One that cannot be used
 * stays, so that ct_apply says why. */
static inline ct_tensor *cti_op_constant(ct_tensor *t) {
    ct_tensor *constant = t && t->self == t && t->slot ? ct_detach(t) : NULL;
    return constant ? constant : t;
}

/* ---- cross_entropy and linear_cross_entropy ---- */

enum { CTI_IGNORED = -100 }; /* target of a row that is left out of the loss, as in torch */

/* For the error of x that has not two dims: "; ct_reshape to (10, 8), and of the targets to (10),
 * would fit", or "" if it would not. */
enum { CTI_LOSS_HINT = 128 };
const char *cti_op_loss_hint(const ct_tensor *x, char buffer[CTI_LOSS_HINT]);

/* targets, in[i], are i64 (rows), each CTI_IGNORED or in [0, classes), the smoothing is in [0, 1],
 * and in[i + 1], if there is one, the weights of the classes. */
bool cti_op_loss_check(const ct_call *c, int i, int64_t rows, int64_t classes);

/* The factor of each row's loss: for a mean 1 / the number of rows that are not ignored, or 1 / the
 * sum of the weights of their targets, in[i]; 0 if all are ignored; else 1. */
double cti_op_loss_weight(const ct_call *c, int i);

/* The sum of the losses (rows), in the fixed order of the kernel's sum; with CT_NONE the losses. */
ct_tensor *cti_op_loss_total(const ct_call *c, ct_tensor *losses, double weight);

/* The factor of a row's gradient; g is the op's cotangent. */
typedef struct {
    double by;
    const char *each; /* a factor for each row besides; NULL: none */
} cti_loss_scale;
cti_loss_scale cti_op_loss_scale(const ct_call *c, ct_tensor *g, double weight);

/* Processes one block of rows of logits. If loss is not NULL, writes losses, maxima and 1 / sum
 * e^(x - max); if dx is not NULL (it may be x), writes gradients scale (softmax - target). An
 * ignored row has loss 0 and gradient 0. class_weight: in[i + 1] of cti_op_loss_check, or NULL. */
typedef struct {
    const cti_kernels *k;
    int64_t classes;
    size_t size;
    double smoothing, total; /* of the classes' weights */
    cti_loss_scale scale;
    const ct_tensor *class_weight;
    const int64_t *target;
    const char *x;
    char *loss, *max, *inverse, *dx;
} cti_loss_rows;
void cti_op_loss_rows(const ct_call *c, int64_t rows, cti_loss_rows a);

#endif
