/* This header has optimisers, update rules of your own, parameter groups, gradient clipping and a
 * learning-rate schedule. The update formulas are torch's. A step leaves out parameters without a
 * gradient, and updates a shared parameter once. A step of the library's optimisers that fails
 * changes nothing.
 *
 * The state of a parameter (momentum, or m and v) is made at its first update. A parameter that has
 * had no update, is frozen or requires no gradient has no state and takes no memory for it. With
 * .state_dtype = CT_BF16 states are kept in bf16, which is half of f32's memory. A step widens them
 * for the update and rounds them afterwards, up or down, so that the errors cancel over the steps.
 * (Rounding to nearest would lose what a step adds to v.) Which way it rounds depends on the
 * number, the element and the step alone, so any number of threads and ranks gives the same bits. A
 * bf16 parameter cannot be trained: an optimiser leaves it out if ct_set_requires_grad(p, false)
 * has frozen it, and otherwise the constructor fails with CT_ERR_DTYPE. */
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
    bool nesterov;        /* requires a momentum and no dampening */
    double clip_norm;     /* as in ct_adamw_opts */
    bool skip_nonfinite;  /* as in ct_adamw_opts */
    ct_dtype state_dtype; /* as in ct_adamw_opts */
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
    ct_dtype state_dtype; /* 0: states have the parameter's dtype; or CT_BF16 */
} ct_adamw_opts;
typedef ct_adamw_opts ct_adam_opts;

/* muon, for matrices: b += (1 - momentum)(g - b) and u = nesterov ? g + momentum (b - g) : b. Then
 * p *= 1 - lr wd and p -= lr s orthogonal(u). Here ns_steps steps of a Newton-Schulz iteration
 * bring the singular values of u / max(|u|, eps) near 1, and s = sqrt(max(1, rows / columns)).
 * Products have the dtype of the matrix; in torch.optim.Muon they are bf16. Jordan et al. 2024,
 * kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982 */
typedef struct {
    double lr, momentum; /* 0: 1e-3, 0.95; or CT_ZERO */
    double weight_decay; /* 0: none */
    double eps;          /* 0: 1e-7; or CT_ZERO */
    int64_t ns_steps;    /* 0: 5; at most 99 */
    bool no_nesterov;
    bool match_rms_adamw; /* s is 0.2 sqrt(max(rows, columns)), so AdamW's lr and decay fit */
    double clip_norm;     /* as in ct_adamw_opts; the norm is over all parameters */
    bool skip_nonfinite;  /* as in ct_adamw_opts */
    /* AdamW steps the parameters that are not matrices, and those that match one of these patterns
     * (see ct_optim_group): mostly embeddings and the last layer. A pattern that matches nothing is
     * CT_ERR_ARGUMENT. */
    const char *const *adamw_names;
    int64_t n_adamw_names;
    /* The options of AdamW for these parameters; clip_norm, skip_nonfinite and state_dtype must be
     * unset. If ct_optim_set_lr changes the lr of the matrices, AdamW's lr changes in proportion.
     */
    ct_adamw_opts adamw;
    ct_dtype state_dtype; /* as in ct_adamw_opts, for all parameters */
} ct_muon_opts;

/* Each constructor returns an optimiser of all parameters that the module has now. The optimiser is
 * freed by ct_optim_free, or with the module. */

CT_API ct_optim *ct_sgd_new(ct_module *module, ct_sgd_opts opts);
CT_API ct_optim *ct_adam_new(ct_module *module, ct_adam_opts opts);
CT_API ct_optim *ct_adamw_new(ct_module *module, ct_adamw_opts opts);
CT_API ct_optim *ct_muon_new(ct_module *module, ct_muon_opts opts);

/* ---- parameter groups ---- */

/* ct_optim_group sets options for every parameter whose name matches the pattern. These options
 * replace the options of an earlier group: the last match wins. The pattern is compared with the
 * full name that the parameter had below the optimiser's module when the optimiser was made. In a
 * pattern * stands for any text, dots included, and ? for one character. A parameter with several
 * names (tied weights) matches by any of them.
 *
 *     ct_optim_group(optim, "*", (ct_group_opts){.weight_decay = 0.1});
 *     ct_optim_group(optim, "*norm*", (ct_group_opts){.weight_decay = 0});
 *     ct_optim_group(optim, "embed.*", (ct_group_opts){.frozen = true});
 *
 * The weight_decay of a group replaces the optimiser's, so 0 means no weight decay. A group may be
 * set at any time, also between steps. If no parameter matches, or a number is negative or not
 * finite, that is CT_ERR_ARGUMENT, and nothing changes. */
typedef struct {
    double lr_scale; /* the factor of the optimiser's current lr at every step; 0: 1; or CT_ZERO */
    double weight_decay;
    /* no step changes the parameter, and its gradient is ignored, also in norms. The memory of its
     * state is freed; if a later group unfreezes the parameter, the state starts anew. Backward
     * still computes its gradient, unless ct_set_requires_grad(parameter, false) is set too */
    bool frozen;
} ct_group_opts;
CT_API bool ct_optim_group(ct_optim *optim, const char *pattern, ct_group_opts opts);

/* ---- steps ---- */

/* Updates the parameters. SGD, Adam and AdamW take no memory, except for the state of a parameter
 * at its first update; Muon takes the memory of the matrices, and twice as much if it clips. A
 * parameter that no longer requires a gradient loses its state. If a parameter has been added to
 * the module since the optimiser was made, that is CT_ERR_ARGUMENT. */
CT_API bool ct_optim_step(ct_optim *optim);
/* Ends the gradients of all parameters of the optimiser, frozen parameters included. */
CT_API void ct_optim_zero_grad(ct_optim *optim);
CT_API void ct_optim_set_lr(ct_optim *optim, double lr); /* ct_optim_set(optim, "lr", lr) */
/* Sets an option from now on. Every optimiser has "lr", "weight_decay", "decay_matrices_only",
 * "clip_norm" and "skip_nonfinite"; Adam and AdamW have "beta1", "beta2" and "eps"; SGD has
 * "momentum", "dampening" and "nesterov"; Muon has "momentum", "eps", "ns_steps", "nesterov",
 * "match_rms_adamw", and for the AdamW inside it "rest.beta1", "rest.beta2", "rest.eps",
 * "rest.weight_decay", "rest.decay_matrices_only" and "rest.lr_scale". Checkpoints store options
 * under these names. The load of a checkpoint replaces the options of the constructor; ct_optim_set
 * may change them after the load.
 *
 * The value 0 (or CT_ZERO) means the number 0 and not a default; a bool takes 0 and 1. Parameters
 * in a group keep the group's weight decay. It is CT_ERR_ARGUMENT, and nothing changes, if there is
 * no such option, if the constructor would refuse the value, or if the momentum of an SGD changes
 * from 0 or to 0. With a ct_dist all ranks must set the same value before the same step; otherwise
 * that step fails. */
CT_API bool ct_optim_set(ct_optim *optim, const char *number, double value);
/* Returns the norm of the gradients before clipping in the last step; NaN if that step had neither
 * clip_norm nor skip_nonfinite. */
CT_API double ct_optim_grad_norm(const ct_optim *optim);
/* Returns the number of steps that skip_nonfinite has skipped. */
CT_API int64_t ct_optim_skipped(const ct_optim *optim);
/* Frees the optimiser, as ct_module_free of its module and ct_context_free do. While a step, a
 * save or a load of the optimiser is running, as in on_error, it is CT_ERR_ARGUMENT, and nothing is
 * freed. */
CT_API void ct_optim_free(ct_optim *optim);

/* ---- a program's own optimiser ---- */

/* A rule updates one parameter. The optimiser adds gradient clipping, groups, skipped steps,
 * checkpoints and several ranks. Lion (Chen et al. 2023, arXiv:2302.06675) as a rule:
 *
 *     static bool lion_step(const ct_optim_item *p, void *user) {
 *         const double beta1 = p->numbers[0], beta2 = p->numbers[1];
 *         ct_tensor *m = p->state[0], *c = ct_clone(m);
 *         return ct_lerp_into(c, p->grad, 1 - beta1) &&
 *                ct_scale_into(p->param, 1 - p->lr * p->weight_decay) &&
 *                ct_add_into(p->param, ct_sign(c), -p->lr) && ct_lerp_into(m, p->grad, 1 - beta2);
 *     }
 *     static const char *const states[] = {"m"};
 *     static const ct_optim_number numbers[] = {
 *         {.name = "beta1", .value = 0.9, .most = 1, .open_most = true},
 *         {.name = "beta2", .value = 0.99, .most = 1, .open_most = true}};
 *     static const ct_optim_rule lion = {.name = "Lion", .states = states, .n_states = 1,
 *                                        .numbers = numbers, .n_numbers = 2, .step = lion_step,
 *                                        .elementwise = true};
 *     ct_optim *optim = ct_optim_new(module, &lion, (ct_optim_opts){.lr = 1e-4});
 *
 * The program examples/lion.c trains with it. */

/* A number of a rule, which is an option of the optimiser. Its name has at most 31 characters,
 * which are letters, digits or _. `value` is the default. Valid values are finite and lie between
 * `least` and `most`; a bound is itself valid unless it is open. Values are checked when the
 * optimiser is made, in ct_optim_set, and when a checkpoint is loaded. */
typedef struct {
    const char *name;
    double value, least, most; /* most 0: no upper bound; or CT_ZERO */
    bool open_least, open_most;
    bool flag; /* the value is 0 or 1 and is stored as a bool in checkpoints */
} ct_optim_number;

/* A parameter in a step, with its gradient and states, which have the same shape and dtype; a rule
 * with .bf16_states gets states of bf16 as they are. States are initially zero. With several ranks
 * an elementwise rule gets a range of the parameter's elements, and the tensors have one dim. */
typedef struct {
    const char *name;
    ct_tensor *param, *grad, *state[4];
    int64_t step;            /* the number of this update of the parameter, from 1 */
    double lr, weight_decay; /* the values for this parameter, with its group applied */
    double grad_scale;       /* the factor by which clipping multiplies grad; 1 for `step`, whose
                              * grad is clipped already */
    const double *numbers;   /* the numbers of the rule, in the order of its .numbers */
    double work[4];          /* numbers that step_all may use as it likes */
    int64_t element;         /* the first element of the range; 0 for a whole parameter */
} ct_optim_item;

/* A rule defines how parameters are updated. The rule and everything to which it points must
 * outlive the optimiser.
 *
 * The functions of a rule run on the context's thread. Each runs in a new scope in which ops are
 * not recorded. `user` is ct_optim_opts.user. The functions need not call ct_wrote for parameters
 * and states. A function that returns false or leaves an error ends the step: the error begins with
 * the names of the rule and the parameter, and the parameters before this parameter have been
 * updated. With several ranks this rank then leaves the run. A function must not call the optimiser
 * or its ct_dist, or free its module. `fault` must not free or change what a checkpoint is loaded
 * into. */
typedef struct ct_optim_rule {
    const char *name;          /* the name in messages and checkpoints, such as "Lion" */
    const char *const *states; /* the names of the states in checkpoints, such as "m" */
    int n_states;              /* 0 to 4 */
    const ct_optim_number *numbers;
    int n_numbers; /* without the options that every optimiser has */
    /* Updates one parameter: changes param and states in place, by any ops. grad is clipped
     * already. */
    bool (*step)(const ct_optim_item *item, void *user);
    /* Replaces `step` if it is set: updates n parameters. It must multiply each gradient by
     * grad_scale. It may change the items. If it returns false, no parameter counts as updated. */
    bool (*step_all)(ct_optim_item *items, int64_t n, void *user);
    /* Checks numbers that are valid one by one, and returns a fault as a text ("beta2 must not be
     * less than beta1"), or NULL if there is none. The function itself may be NULL. */
    const char *(*fault)(const double *numbers);
    /* Whether the update of an element does not depend on other elements. With several ranks each
     * rank then updates a range of a parameter's elements. If it is false, a rank updates whole
     * parameters. */
    bool elementwise;
    /* Whether the functions above take states of bf16, and round by themselves. If it is false,
     * they get copies of the parameter's dtype in place of states of bf16. The memory of the copies
     * is taken before the function runs: for step one parameter's, for step_all that of all. */
    bool bf16_states;
    /* Returns whether this rule updates a parameter; otherwise `rest` updates it. It is called when
     * the optimiser is made, with each name of a parameter; one result of false is enough. NULL:
     * the rule updates all parameters. */
    bool (*takes)(const char *name, const ct_tensor *param, void *user);
    /* The rule of the other parameters. If it has a number called "weight_decay" or
     * "decay_matrices_only", this number replaces the optimiser's option for these parameters; if
     * it has "lr_scale", their lr is multiplied by it. */
    const struct ct_optim_rule *rest;
} ct_optim_rule;

typedef struct {
    double lr;                /* 0: 1e-3; or CT_ZERO */
    double weight_decay;      /* 0: none */
    bool decay_matrices_only; /* this and the next two options: as in ct_adamw_opts */
    double clip_norm;
    bool skip_nonfinite;
    /* The numbers of the rule, then the numbers of its rest, which are called "rest.beta1" in
     * ct_optim_set and checkpoints. 0 selects a number's default; or CT_ZERO. NULL: all numbers
     * have their defaults */
    const double *numbers;
    void *user; /* the last argument of the rule's functions; must outlive the optimiser */
    ct_dtype state_dtype; /* as in ct_adamw_opts */
} ct_optim_opts;

/* Returns an optimiser with a rule of your own. It is CT_ERR_ARGUMENT if the rule lacks a name or a
 * step, has an invalid number or two equal names, or if no rule takes a parameter. */
CT_API ct_optim *ct_optim_new(ct_module *module, const ct_optim_rule *rule, ct_optim_opts opts);

/* Returns the rule of ct_adamw_new, which is elementwise and has the numbers beta1, beta2 and eps.
 * It can be the `rest` of a rule that takes only matrices. */
CT_API const ct_optim_rule *ct_adamw_rule(void);

/* ---- clipping and learning rate ---- */

/* Multiplies the gradients of all parameters of the module by min(1, max_norm / (norm + 1e-6)) and
 * returns norm, the 2-norm of all gradients before the multiplication. Gradients of parameters that
 * an optimiser has frozen count too. A negative max_norm is CT_ERR_ARGUMENT, and NaN is returned.
 */
CT_API double ct_clip_grad_norm(ct_module *module, double max_norm);

/* ct_lr_cosine returns the learning rate of a step: a linear warm-up, then half a cosine
 * (Loshchilov & Hutter 2016, arXiv:1608.03983).
 *
 *     step < warmup      peak (step + 1) / (warmup + 1)
 *     step < total       floor + (peak - floor) (1 + cos(pi u)) / 2,
 *                        u = (step - warmup) / (total - warmup)
 *     step >= total      floor
 *
 * If total is not positive it returns NaN, which ct_optim_set_lr refuses. */
typedef struct {
    double peak, floor;
    int64_t warmup, total;
} ct_lr_cosine_opts;
CT_API double ct_lr_cosine(ct_lr_cosine_opts opts, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
