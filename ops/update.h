/* Updates in place, with no gradient: what initialisation, loading and optimisers are made of. Each is counted as a write, so
 * that backward through values saved before is an error. Elementwise in fixed pieces on all threads: the same bits for any
 * number of them. False with the error recorded: nothing has been changed. All but op_copy_into take contiguous tensors. */
#ifndef CT_OPS_UPDATE_H
#define CT_OPS_UPDATE_H

#include <cotangent/types.h>

#include "../src/kernels/kernels.h"

bool op_fill(ct_tensor *t, double value);                    /* any dtype */
bool op_fill_uniform(ct_tensor *t, double low, double high); /* in [low, high); takes the generator's next stream */
bool op_fill_normal(ct_tensor *t, double mean, double std);  /* takes the generator's next stream */
bool op_copy_into(ct_tensor *to, ct_tensor *from);           /* the same shape; any strides; casts where dtypes differ */
bool op_scale_in_place(ct_tensor *t, double a);              /* f32, f64 */
double op_sum_squares(ct_tensor *t);                         /* in f64, in a fixed order; NaN with an error */

/* One step of a parameter p with gradient g; m, v and the buffer are the optimiser's own, of p's shape and dtype. The buffer may
 * be NULL without momentum. */
bool op_adam_step(ct_tensor *p, ct_tensor *g, ct_tensor *m, ct_tensor *v, const ct_adam_numbers *numbers);
bool op_sgd_step(ct_tensor *p, ct_tensor *g, ct_tensor *buffer, const ct_sgd_numbers *numbers);

/* ---- what they share ---- */

/* No error is pending, and t is there and contiguous; `real`: and f32 or f64. */
bool op_updatable(ct_tensor *t, const char *name, bool real);

/* And u, the update's other tensor, has t's context, shape and dtype and is contiguous. */
bool op_updates_with(ct_tensor *t, ct_tensor *u, const char *name);

#endif
