/* Code shared by cross_entropy and linear_cross_entropy. */
#ifndef CTI_OPS_SUPPORT_LOSS_H
#define CTI_OPS_SUPPORT_LOSS_H

#include "op.h"

enum { CTI_IGNORED = -100 }; /* target of a row that is left out of the loss, as in torch */

/* targets, in[i], are i64 (rows), each CTI_IGNORED or in [0, classes), and the smoothing is in [0,
 * 1]. */
bool cti_op_loss_check(const ct_call *c, int i, int64_t rows, int64_t classes);

/* The factor of each row's loss: 1 for a sum, 1 / (number of rows that are not ignored) for a mean,
 * 0 if all are ignored. */
double cti_op_loss_weight(const ct_call *c, const ct_tensor *targets);

/* The sum of the losses (rows), in the fixed order of the kernel's sum. */
ct_tensor *cti_op_loss_total(const ct_call *c, const ct_tensor *losses, double weight);

/* Processes one block of rows of logits. If loss is not NULL, writes losses, maxima and 1 / sum
 * e^(x - max); if dx is not NULL (it may be x), writes gradients scale (softmax - target). An
 * ignored row has loss 0 and gradient 0. */
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
