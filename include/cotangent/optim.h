/* Optimisers, gradient clipping and a learning-rate schedule. Update formulas are torch's. A step
 * skips parameters without a gradient, and updates shared parameters once. A step that fails
 * changes nothing. */
#ifndef CT_OPTIM_H
#define CT_OPTIM_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* sgd: g += wd p; b = momentum b + (1 - dampening) g (first b: g); p -= lr (nesterov ? g + momentum
 * b : b) */
typedef struct {
    double lr; /* 0: 1e-3 */
    double momentum, dampening, weight_decay;
    bool nesterov;
    double clip_norm; /* as in ct_adamw_opts */
} ct_sgd_opts;

/* adam: g += wd p first. adamw: p *= 1 - lr wd first. Then m += (1 - b1)(g - m), v = b2 v + (1 -
 * b2) g^2, p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps). Kingma & Ba 2014,
 * arXiv:1412.6980; Loshchilov & Hutter 2017, arXiv:1711.05101 */
typedef struct {
    double lr;                /* 0: 1e-3 */
    double beta1, beta2, eps; /* 0: 0.9, 0.999, 1e-8 */
    double weight_decay;      /* 0: none */
    bool decay_matrices_only; /* apply weight_decay only to parameters of two or more dims */
    /* 0: no clipping; otherwise the step multiplies gradients by min(1, clip_norm / (norm + 1e-6)),
     * with the 2-norm over all of them, as ct_clip_grad_norm before the step would, but in one pass
     * less over memory. The stored gradients do not change */
    double clip_norm;
} ct_adamw_opts;
typedef ct_adamw_opts ct_adam_opts;

CT_API ct_optim *ct_sgd_new(ct_module *module, ct_sgd_opts opts);
CT_API ct_optim *ct_adam_new(ct_module *module, ct_adam_opts opts);
CT_API ct_optim *ct_adamw_new(ct_module *module, ct_adamw_opts opts);

/* CT_ERR_ARGUMENT where the module has got a parameter since the optimiser was made */
CT_API bool ct_optim_step(ct_optim *optim);
CT_API void ct_optim_zero_grad(ct_optim *optim);
CT_API void ct_optim_set_lr(ct_optim *optim, double lr);
/* the norm before clipping in the last step; NaN if there was no step with a clip_norm */
CT_API double ct_optim_grad_norm(const ct_optim *optim);
CT_API void ct_optim_free(ct_optim *optim); /* ct_module_free and ct_context_free free it too */

/* Scales all gradients by min(1, max_norm / (norm + 1e-6)); returns the 2-norm over all of them
 * before. */
CT_API double ct_clip_grad_norm(ct_module *module, double max_norm);

/* step < warmup: peak (step + 1) / (warmup + 1); step >= total: floor; between: floor + (peak -
 * floor) (1 + cos(pi u)) / 2, u = (step - warmup) / (total - warmup). Loshchilov & Hutter 2016,
 * arXiv:1608.03983. Without a total NaN, which ct_optim_set_lr refuses. */
typedef struct {
    double peak, floor;
    int64_t warmup, total;
} ct_lr_cosine_opts;
CT_API double ct_lr_cosine(ct_lr_cosine_opts opts, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
