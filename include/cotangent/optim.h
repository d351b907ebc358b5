/* Optimisers, parameter groups, gradient clipping and a learning-rate schedule. Update formulas are
 * torch's. A step leaves out parameters without a gradient, and updates shared parameters once. A
 * step that fails changes nothing.
 *
 * A parameter's state (momentum; m and v) is made at its first step. Parameters that have had none,
 * are frozen or require no gradient have no state and take no memory. */
#ifndef CT_OPTIM_H
#define CT_OPTIM_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* sgd: g += wd p; b = momentum b + (1 - dampening) g (first b: g); p -= lr (nesterov ? g + momentum
 * b : b) */
typedef struct {
    double lr; /* 0: 1e-3; or CT_ZERO */
    double momentum, dampening, weight_decay;
    bool nesterov;
    double clip_norm;    /* as in ct_adamw_opts */
    bool skip_nonfinite; /* as in ct_adamw_opts */
} ct_sgd_opts;

/* adam: g += wd p first. adamw: p *= 1 - lr wd first. Then m += (1 - b1)(g - m), v = b2 v + (1 -
 * b2) g^2, p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + eps). Kingma & Ba 2014,
 * arXiv:1412.6980; Loshchilov & Hutter 2017, arXiv:1711.05101 */
typedef struct {
    double lr; /* 0: 1e-3; or CT_ZERO */
    /* 0: 0.9, 0.999, 1e-8; or CT_ZERO. With eps CT_ZERO an element whose gradients have all been 0
     * becomes NaN, as in torch */
    double beta1, beta2, eps;
    double weight_decay; /* 0: none */
    /* apply weight_decay only to parameters of two or more dims, of those without a group */
    bool decay_matrices_only;
    /* 0: no clipping; otherwise the step multiplies gradients by min(1, clip_norm / (norm + 1e-6)),
     * with the 2-norm over all that it takes part in, as ct_clip_grad_norm before the step would,
     * but in one pass less over memory. The stored gradients do not change */
    double clip_norm;
    /* A step whose gradients have a norm that is not finite changes nothing, no state and no count,
     * returns true and is counted: ct_optim_skipped. Without clip_norm it costs one pass over the
     * gradients for their norm */
    bool skip_nonfinite;
} ct_adamw_opts;
typedef ct_adamw_opts ct_adam_opts;

CT_API ct_optim *ct_sgd_new(ct_module *module, ct_sgd_opts opts);
CT_API ct_optim *ct_adam_new(ct_module *module, ct_adam_opts opts);
CT_API ct_optim *ct_adamw_new(ct_module *module, ct_adamw_opts opts);

/* Parameter groups. The options hold from now on for every parameter that the pattern matches, in
 * place of an earlier group's: the last match wins. A pattern is compared with whole full names
 * under the optimiser's module, as they were when the optimiser was made; * stands for any text,
 * also with dots, and ? for one character. A parameter with several names (tied weights) is
 * matched by any of them.
 *
 *     ct_optim_group(optim, "*", (ct_group_opts){.weight_decay = 0.1});
 *     ct_optim_group(optim, "*norm*", (ct_group_opts){.weight_decay = 0});
 *     ct_optim_group(optim, "embed.*", (ct_group_opts){.frozen = true});
 *
 * In a group every field means what it says: weight_decay 0 is none, whatever the optimiser's
 * options are. CT_ERR_ARGUMENT, and nothing changes, where no parameter has such a name or a number
 * is negative or not finite. May be called at any time, between steps too. */
typedef struct {
    double lr_scale; /* the optimiser's lr is multiplied by it, whatever it is then; 0: 1; or
                        CT_ZERO */
    double weight_decay;
    /* No step changes the parameter, its gradient is ignored, in norms too, and its state's memory
     * is given back: when frozen is false again the state starts anew. Its gradient is computed
     * still; ct_set_requires_grad(parameter, false) saves that too */
    bool frozen;
} ct_group_opts;
CT_API bool ct_optim_group(ct_optim *optim, const char *pattern, ct_group_opts opts);

/* CT_ERR_ARGUMENT where the module has got a parameter since the optimiser was made. Takes no
 * memory but for the state of a parameter's first step. A parameter that has stopped requiring a
 * gradient loses its state. */
CT_API bool ct_optim_step(ct_optim *optim);
CT_API void ct_optim_zero_grad(ct_optim *optim);         /* of frozen parameters too */
CT_API void ct_optim_set_lr(ct_optim *optim, double lr); /* ct_optim_set of "lr" */
/* Sets an option from now on, also after the load of a checkpoint, whose options replace those of
 * the constructor: "lr", "clip_norm", "skip_nonfinite", "weight_decay"; of Adam and AdamW "beta1",
 * "beta2", "eps", "decay_matrices_only"; of SGD "momentum", "dampening", "nesterov". These are the
 * names in checkpoints, and later ones have the new value. The value is what it says: 0 or CT_ZERO
 * is 0 and no default; an option that is a bool takes 0 and 1. Parameters in a group keep the
 * group's weight decay. CT_ERR_ARGUMENT, and nothing changes, where the constructor refuses the
 * value (a momentum of an SGD that was made without one too), or there is no such option. With a
 * ct_dist every rank sets the same before the same step; else that step is an error. */
CT_API bool ct_optim_set(ct_optim *optim, const char *number, double value);
/* the norm before clipping in the last step; NaN if it had neither clip_norm nor skip_nonfinite */
CT_API double ct_optim_grad_norm(const ct_optim *optim);
/* how many steps skip_nonfinite has left out */
CT_API int64_t ct_optim_skipped(const ct_optim *optim);
CT_API void ct_optim_free(ct_optim *optim); /* ct_module_free and ct_context_free free it too */

/* Scales all gradients by min(1, max_norm / (norm + 1e-6)); returns the 2-norm over all of them
 * before. It knows no optimiser: gradients of frozen parameters count. */
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
