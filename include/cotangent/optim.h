/* Optimisers, parameter groups, gradient clipping and a learning-rate schedule. The update formulas
 * are torch's. A step leaves out parameters without a gradient, and updates a shared parameter
 * once. A step that fails changes nothing.
 *
 * The state of a parameter (momentum, or m and v) is made at its first update. A parameter that has
 * had no update, is frozen or requires no gradient has no state, which saves its memory. */
#ifndef CT_OPTIM_H
#define CT_OPTIM_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimisers ---- */

/* SGD, for a parameter p with gradient g and momentum buffer b:
 *
 *     g += weight_decay p
 *     b = momentum b + (1 - dampening) g          (b = g at the first update)
 *     p -= lr (nesterov ? g + momentum b : b)     (p -= lr g without momentum) */
typedef struct {
    double lr; /* 0: 1e-3; or CT_ZERO */
    double momentum, dampening, weight_decay;
    bool nesterov;       /* requires a momentum and no dampening */
    double clip_norm;    /* as in ct_adamw_opts */
    bool skip_nonfinite; /* as in ct_adamw_opts */
} ct_sgd_opts;

/* Adam (Kingma & Ba 2014, arXiv:1412.6980) and AdamW (Loshchilov & Hutter 2017, arXiv:1711.05101),
 * for the t-th update of a parameter p with gradient g:
 *
 *     Adam:  g += weight_decay p
 *     AdamW: p *= 1 - lr weight_decay
 *     m += (1 - beta1) (g - m)
 *     v = beta2 v + (1 - beta2) g^2
 *     p -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps) */
typedef struct {
    double lr; /* 0: 1e-3; or CT_ZERO */
    /* 0: 0.9, 0.999, 1e-8; or CT_ZERO. With an eps of CT_ZERO an element whose gradients have all
     * been 0 becomes NaN, as in torch */
    double beta1, beta2, eps;
    double weight_decay; /* 0: none */
    /* weight_decay applies only to parameters of two or more dims; a group overrides this */
    bool decay_matrices_only;
    /* the largest norm of the gradients; 0: no clipping. The step multiplies the gradients that it
     * uses by min(1, clip_norm / (norm + 1e-6)), with the 2-norm over all of them. The parameters
     * become the same as with ct_clip_grad_norm before the step, but the stored gradients do not
     * change, and one pass over memory is saved */
    double clip_norm;
    /* a step is skipped if the norm of its gradients is not finite: it returns true and changes no
     * parameter, no state and no count of updates. ct_optim_skipped counts such steps. Without
     * clip_norm this option costs one pass over the gradients */
    bool skip_nonfinite;
} ct_adamw_opts;
typedef ct_adamw_opts ct_adam_opts;

/* Each constructor returns an optimiser of all parameters that the module has now. It is freed by
 * ct_optim_free, or with its module. */

CT_API ct_optim *ct_sgd_new(ct_module *module, ct_sgd_opts opts);
CT_API ct_optim *ct_adam_new(ct_module *module, ct_adam_opts opts);
CT_API ct_optim *ct_adamw_new(ct_module *module, ct_adamw_opts opts);

/* ---- parameter groups ---- */

/* ct_optim_group sets options for every parameter whose name matches the pattern. They replace the
 * options of an earlier group: the last match wins. The pattern is compared with the full name that
 * the parameter had below the optimiser's module when the optimiser was made. In a pattern * stands
 * for any text, dots included, and ? for one character. A parameter with several names (tied
 * weights) matches by any of them.
 *
 *     ct_optim_group(optim, "*", (ct_group_opts){.weight_decay = 0.1});
 *     ct_optim_group(optim, "*norm*", (ct_group_opts){.weight_decay = 0});
 *     ct_optim_group(optim, "embed.*", (ct_group_opts){.frozen = true});
 *
 * The weight_decay of a group replaces the optimiser's, so with 0 the parameter has none. A group
 * may be set at any time, also between steps. CT_ERR_ARGUMENT, without a change: no parameter
 * matches, or a number is negative or not finite. */
typedef struct {
    double lr_scale; /* multiplies the optimiser's current lr at every step; 0: 1; or CT_ZERO */
    double weight_decay;
    /* no step changes the parameter, and its gradient is ignored, also in norms. The memory of its
     * state is freed; if a later group unfreezes the parameter, the state starts anew. Backward
     * still computes its gradient, unless ct_set_requires_grad(parameter, false) is set too */
    bool frozen;
} ct_group_opts;
CT_API bool ct_optim_group(ct_optim *optim, const char *pattern, ct_group_opts opts);

/* ---- steps ---- */

/* Updates the parameters. It takes no memory, except for the state of a parameter at its first
 * update. A parameter that no longer requires a gradient loses its state. If the module has got a
 * parameter since the optimiser was made, that is CT_ERR_ARGUMENT. */
CT_API bool ct_optim_step(ct_optim *optim);
/* Ends the gradients of all its parameters, frozen ones included. */
CT_API void ct_optim_zero_grad(ct_optim *optim);
CT_API void ct_optim_set_lr(ct_optim *optim, double lr); /* ct_optim_set(optim, "lr", lr) */
/* Sets an option from now on: "lr", "clip_norm", "skip_nonfinite", "weight_decay"; for Adam and
 * AdamW "beta1", "beta2", "eps", "decay_matrices_only"; for SGD "momentum", "dampening",
 * "nesterov". Checkpoints store options under these names. The load of a checkpoint replaces the
 * options of the constructor, and ct_optim_set changes them after it.
 *
 * The value 0 (or CT_ZERO) means the number 0 and not a default; a bool takes 0 and 1. Parameters
 * in a group keep the group's weight decay. CT_ERR_ARGUMENT, without a change: there is no such
 * option, or the constructor would refuse the value, or the momentum of an SGD changes from 0 or to
 * 0. With a ct_dist all ranks must set the same value before the same step; otherwise that step
 * fails. */
CT_API bool ct_optim_set(ct_optim *optim, const char *number, double value);
/* Returns the norm of the gradients before clipping in the last step; NaN if that step had neither
 * clip_norm nor skip_nonfinite. */
CT_API double ct_optim_grad_norm(const ct_optim *optim);
/* Returns the number of steps that skip_nonfinite has skipped. */
CT_API int64_t ct_optim_skipped(const ct_optim *optim);
/* Frees the optimiser, as ct_module_free of its module and ct_context_free do. */
CT_API void ct_optim_free(ct_optim *optim);

/* ---- clipping and learning rate ---- */

/* Multiplies the gradients of all parameters of the module by min(1, max_norm / (norm + 1e-6)) and
 * returns norm, their 2-norm before. Gradients of parameters that an optimiser has frozen count
 * too. A negative max_norm is CT_ERR_ARGUMENT, and NaN is returned. */
CT_API double ct_clip_grad_norm(ct_module *module, double max_norm);

/* The learning rate of a step: a linear warm-up, then half a cosine (Loshchilov & Hutter 2016,
 * arXiv:1608.03983).
 *
 *     step < warmup      peak (step + 1) / (warmup + 1)
 *     step < total       floor + (peak - floor) (1 + cos(pi u)) / 2,
 *                        u = (step - warmup) / (total - warmup)
 *     step >= total      floor
 *
 * Without a total it is NaN, which ct_optim_set_lr refuses. */
typedef struct {
    double peak, floor;
    int64_t warmup, total;
} ct_lr_cosine_opts;
CT_API double ct_lr_cosine(ct_lr_cosine_opts opts, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
