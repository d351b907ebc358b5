/* adamw_step and train: see README.md. */
#include "exercise.h"

void adamw_step(int64_t n, double *w, const double *g, double *m, double *v, int64_t t,
                adamw_opts opts) {
    (void)n, (void)w, (void)g, (void)m, (void)v, (void)t, (void)opts; /* it is not written yet */
}

bool train(ct_context *context, ct_tensor *const *params, int n, loss_function loss, void *arg,
           int steps, adamw_opts opts, double *losses) {
    (void)params, (void)n, (void)loss, (void)arg, (void)steps, (void)opts, (void)losses;
    return ct_fail(context, CT_ERR_ARGUMENT, "train: it is not written yet");
}
