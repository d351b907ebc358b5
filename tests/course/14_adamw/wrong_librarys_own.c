/* expect 0/10
 * all failed: refused: it calls ct_adamw_new, ct_module_add_param, ct_module_new, ct_optim_step
 */
/* The library's optimiser does it. */
#include "exercise.h"

void adamw_step(int64_t n, double *w, const double *g, double *m, double *v, int64_t t,
                adamw_opts opts) {
    (void)n, (void)w, (void)g, (void)m, (void)v, (void)t, (void)opts;
}

bool train(ct_context *context, ct_tensor *const *params, int n, loss_function loss, void *arg,
           int steps, adamw_opts opts, double *losses) {
    ct_module *module = ct_module_new(context, "Module");
    for (int i = 0; i < n; i++) ct_module_add_param(module, "w", params[i]);
    ct_optim *optim = ct_adamw_new(module, (ct_adamw_opts){.lr = opts.lr});
    for (int step = 0; step < steps; step++) {
        ct_tensor *out = loss(arg);
        losses[step] = ct_item(out);
        ct_backward(out);
        ct_optim_step(optim);
    }
    return true;
}
