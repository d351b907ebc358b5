/* Your file defines AdamW's update, and a loop that trains with it. */
#ifndef EXERCISE_H
#define EXERCISE_H

#include <cotangent/cotangent.h>

typedef struct {
    double lr, beta1, beta2, eps, weight_decay;
} adamw_opts;

/* One update of n numbers w with the gradient g. m and v are the running means, zeros before the
 * first update; t is the number of this update, 1 for the first. Writes to w, m and v. */
extern void adamw_step(int64_t n, double *w, const double *g, double *m, double *v, int64_t t,
                       adamw_opts opts);

/* Computes a loss of one number from the parameters; `arg` is the argument of train. Returns NULL
 * with an error if this fails. */
typedef ct_tensor *(*loss_function)(void *arg);

/* Trains n parameters, which are f64, dense, and require a gradient: `steps` times it computes the
 * gradients of the loss and updates each parameter that has one. losses[i] is the loss that step i
 * computed, before its update. If the loss or its backward fails, it returns false at once and
 * leaves the error pending. */
extern bool train(ct_context *context, ct_tensor *const *params, int n, loss_function loss,
                  void *arg, int steps, adamw_opts opts, double *losses);

#endif
