/* What cross_entropy and linear_cross_entropy share. */
#ifndef CTI_OPS_SUPPORT_LOSS_H
#define CTI_OPS_SUPPORT_LOSS_H

#include "op.h"

enum { CTI_IGNORED = -100 }; /* the target of a row that does not count */

/* targets, in[i], are i64 (rows), each CTI_IGNORED or in [0, classes), and the smoothing is in [0,
 * 1]. */
bool cti_op_loss_check(const ct_call *c, int i, int64_t rows, int64_t classes);

/* What each row's loss is multiplied by: 1 for a sum, 1 / count of the rows that count for a mean,
 * 0 where none does. */
double cti_op_loss_weight(const ct_call *c, const ct_tensor *targets);

/* The losses (rows) as one: in the fixed order of the kernel's sum. */
ct_tensor *cti_op_loss_total(const ct_call *c, const ct_tensor *losses, double weight);

/* One block of rows of logits: their losses, maxima and 1 / sum e^(x - max) where loss is not NULL,
 * their gradients scale (softmax - target) where dx is not NULL (it may be x). A row that does not
 * count has loss and gradient 0. */
typedef struct {
    const cti_kernels *k;
    int64_t classes;
    size_t size;
    double smoothing, scale;
    const int64_t *target;
    const char *x;
    char *loss, *max, *inverse, *dx;
} cti_loss_rows;
void cti_op_loss_rows(const ct_call *c, int64_t rows, cti_loss_rows a);

#endif
