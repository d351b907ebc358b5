/* Updates in place without a gradient, used by initialisation, loading and optimisers. Each counts
 * as a write, so that backward through values saved before is an error. Work is divided into fixed
 * chunks, so any number of threads gives the same bits. An update that fails records an error, has
 * changed nothing and returns false. All take contiguous tensors. The updates of tensor.h take any
 * strides; into.h has their helpers. */
#ifndef CTI_OPS_UPDATE_UPDATE_H
#define CTI_OPS_UPDATE_UPDATE_H

#include <cotangent/optim.h>

#include "../../src/kernels/kernels.h"

bool cti_op_fill(ct_tensor *t, double value); /* any dtype */
/* numbers in [low, high) of the generator's next stream */
bool cti_op_fill_uniform(ct_tensor *t, double low, double high);
/* numbers of the generator's next stream */
bool cti_op_fill_normal(ct_tensor *t, double mean, double std);
bool cti_op_scale_in_place(ct_tensor *t, double a); /* f32, f64 */

/* ---- optimisers: n parameters at once, of one context ---- */

/* The numbers of the items, in this order. */
enum { CTI_OP_BETA1, CTI_OP_BETA2, CTI_OP_EPS, CTI_OP_ADAM_NUMBERS };
enum { CTI_OP_MOMENTUM, CTI_OP_DAMPENING, CTI_OP_NESTEROV, CTI_OP_SGD_NUMBERS };

/* Each item has a parameter, its gradient and its optimiser states, all of one shape and dtype; but
 * the states may be bf16. They are Adam's m and v, or SGD's buffer, which may be NULL without
 * momentum. These steps write the items' work. `decoupled` is AdamW. */
bool cti_op_adam_step(ct_optim_item *all, int64_t n, bool decoupled);
bool cti_op_sgd_step(ct_optim_item *all, int64_t n);

/* Returns the sum of the squares of all gradients, in f64 and in a fixed order; NaN with an error.
 * Parameters are not read. */
double cti_op_sum_squares(ct_optim_item *all, int64_t n);

/* The two halves of cti_op_sum_squares, for gradients of which several processes have parts: the
 * first writes the sums of units, one behind the other, and the second adds them. A unit is
 * CTI_OP_SQUARES_UNIT elements of one gradient; the last may be shorter. */
enum { CTI_OP_SQUARES_UNIT = 16384 };
void cti_op_unit_squares(ct_optim_item *all, int64_t n, double *sums);
double cti_op_add_units(const double *sums, int64_t units);

/* ---- helpers of updates ---- */

/* Returns whether no error is pending and t is a contiguous tensor, of f32 or f64 if `real` is set.
 * If not, records the error. */
bool cti_op_updatable(ct_tensor *t, const char *name, bool real);

/* Returns whether the parameter, the gradient and the first `states` states exist and have one
 * shape and dtype, apart from states of bf16. If not, records the error. */
bool cti_op_step_is_ready(const ct_optim_item *item, int states, const char *name);
void cti_op_step_wrote(const ct_optim_item *item, int states);

/* One parallel job for all gradients, which a profile calls `name`. The job reads or writes
 * `arrays` arrays as large as the gradients once. Each gradient is divided into units of `unit`
 * elements, the last one shorter, and units are numbered through all gradients. The task gets a
 * range of one gradient, `count` elements from element `at`; the range begins with unit number
 * `first`. */
typedef void cti_op_step_task(void *arg, const ct_optim_item *item, int64_t first, int64_t at,
                              int64_t count);
typedef struct {
    const char *name;
    int64_t arrays;
    int64_t unit, grain; /* elements of a unit, units of a chunk */
    cti_op_step_task *task;
    void *arg;
} cti_op_step_job;
/* Updates `count` elements of the item from element `at` on by `kernel`, which gets the addresses
 * of the first of them. States of bf16 become the parameter's dtype before and are rounded
 * afterwards, some hundred elements at a time. */
typedef void cti_op_step_kernel(const cti_elementwise_kernels *kernels, int64_t n, void *param,
                                const void *grad, void *const state[2], const void *numbers);
enum { CTI_OP_STEP_STATES = 2 };
void cti_op_step_elements(const ct_optim_item *item, int states, int64_t at, int64_t count,
                          cti_op_step_kernel *kernel, const void *numbers);
/* Rounds a state to bf16 after a step, as these steps do. `wide` is contiguous and has the shape of
 * `state`; wide's first element is this element of the parameter. */
void cti_op_round_state(ct_tensor *state, const ct_tensor *wide, int64_t element, int64_t step);

int64_t cti_op_step_units(const ct_optim_item *all, int64_t n, int64_t unit);
void cti_op_step_all(ct_optim_item *all, int64_t n, cti_op_step_job job);

#endif
