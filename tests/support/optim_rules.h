/* Optimisers of a program for the tests: Lion, which is elementwise, and a rule that
 * divides each gradient by its norm, which is not. */
#ifndef OPTIM_RULES_H
#define OPTIM_RULES_H

#include <cotangent/cotangent.h>

enum { LION_BETA1, LION_BETA2, LION_NUMBERS };

/* c = b1 m + (1 - b1) g;  p *= 1 - lr wd;  p -= lr sign(c);  m = b2 m + (1 - b2) g */
static inline bool lion_step(const ct_optim_item *p, void *user) {
    ct_tensor *m = p->state[0], *c = ct_clone(m);
    (void)user;
    return ct_lerp_into(c, p->grad, 1 - p->numbers[LION_BETA1]) &&
           ct_scale_into(p->param, 1 - p->lr * p->weight_decay) &&
           ct_add_into(p->param, ct_sign(c), -p->lr) &&
           ct_lerp_into(m, p->grad, 1 - p->numbers[LION_BETA2]);
}
static inline const char *lion_fault(const double *numbers) {
    return numbers[LION_BETA1] > numbers[LION_BETA2] ? "beta1 must not be greater than beta2"
                                                     : NULL;
}
static const char *const lion_states[] = {"m"};
static const ct_optim_number lion_numbers[LION_NUMBERS] = {
    [LION_BETA1] = {.name = "beta1", .value = 0.9, .most = 1, .open_most = true},
    [LION_BETA2] = {.name = "beta2", .value = 0.99, .most = 1, .open_most = true},
};
static const ct_optim_rule lion = {.name = "Lion",
                                   .states = lion_states,
                                   .n_states = 1,
                                   .numbers = lion_numbers,
                                   .n_numbers = LION_NUMBERS,
                                   .step = lion_step,
                                   .fault = lion_fault,
                                   .elementwise = true};

/* m += (1 - beta)(g - m), p -= lr m / (|m| + eps), with |m| the norm of the whole tensor. */
static inline bool normed_step(const ct_optim_item *p, void *user) {
    ct_tensor *m = p->state[0];
    (void)user;
    if (!ct_lerp_into(m, p->grad, 1 - p->numbers[0])) return false;
    const double norm = ct_item(ct_sqrt(ct_sum(ct_mul(m, m), CT_ALL, false)));
    return ct_add_into(p->param, m, -p->lr / (norm + p->numbers[1]));
}
static const ct_optim_number normed_numbers[] = {
    {.name = "beta", .value = 0.5, .most = 1, .open_most = true},
    {.name = "eps", .value = 1e-6, .open_least = true},
};
static const char *const normed_states[] = {"mean"};
static inline bool takes_matrices(const char *name, const ct_tensor *param, void *user) {
    (void)name, (void)user;
    return ct_ndim(param) >= 2;
}
static const ct_optim_rule normed = {.name = "Normed",
                                     .states = normed_states,
                                     .n_states = 1,
                                     .numbers = normed_numbers,
                                     .n_numbers = 2,
                                     .step = normed_step,
                                     .takes = takes_matrices,
                                     .rest = &lion};

#endif
