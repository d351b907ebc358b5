/* muon, for matrices:
 *
 *     b = b + (1 - momentum) (g - b),   u = nesterov ? g + momentum (b - g) : b
 *     p *= 1 - lr wd,   p -= lr s orthogonal(u)
 *
 * orthogonal(u) replaces the singular values of u by values near 1, by steps of a Newton-Schulz
 * iteration: with x = u / max(|u|, eps), transposed if u has more rows than columns,
 *
 *     a = x x^T,   x = 3.4445 x + (-4.7750 a + 2.0315 a a) x
 *
 * s is sqrt(max(1, rows / columns)), or with match_rms_adamw 0.2 sqrt(max(rows, columns)). Jordan
 * et al. 2024, kellerjordan.github.io/posts/muon; Liu et al. 2025, arXiv:2502.16982. Other
 * parameters are stepped by AdamW, the rest of the rule. */
#include "adam.h"

#include <math.h>

#include "../../src/io/name_map.h"

/* ---- matrices ---- */

enum { MUON_MOMENTUM, MUON_EPS, MUON_NS_STEPS, MUON_NESTEROV, MUON_MATCH_RMS, MUON_NUMBERS };

/* x = 3.4445 x + (-4.7750 a + 2.0315 a a) x, in place. */
static bool newton_schulz(ct_tensor *x) {
    ct_scope scope = ct_scope_open(x->context);
    ct_tensor *a = ct_matmul(x, ct_transpose(x, 0, 1)), *b = ct_scale(a, -4.7750);
    const bool ok = b && ct_add_into(b, ct_matmul(a, a), 2.0315) && (a = ct_matmul(b, x)) &&
                    ct_scale_into(x, 3.4445) && ct_add_into(x, a, 1);
    ct_scope_close(scope);
    return ok;
}

/* A new row-major tensor. */
static ct_tensor *orthogonal(ct_tensor *u, double eps, int steps) {
    const double norm = sqrt(cti_op_sum_squares(&(ct_optim_item){.grad = u}, 1));
    const bool tall = ct_dim(u, 0) > ct_dim(u, 1);
    ct_tensor *x = ct_scale(u, 1 / (norm < eps ? eps : norm));
    if (tall) x = ct_contiguous(ct_transpose(x, 0, 1));
    for (int i = 0; i < steps && x; i++)
        if (!newton_schulz(x)) return NULL;
    return tall ? ct_contiguous(ct_transpose(x, 0, 1)) : x;
}

/* Computes orthogonal(u). The momentum does not change yet. */
static ct_tensor *muon_update(const ct_optim_item *item) {
    const double momentum = item->numbers[MUON_MOMENTUM];
    ct_scope scope = ct_scope_open(item->param->context);
    ct_tensor *b = ct_clone(item->state[0]), *u = b;
    bool ok = b && ct_lerp_into(b, item->grad, 1 - momentum);
    if (ok && item->numbers[MUON_NESTEROV] != 0) {
        u = ct_clone(item->grad);
        ok = u && ct_lerp_into(u, b, momentum);
    }
    if (ok) u = orthogonal(u, item->numbers[MUON_EPS], (int)item->numbers[MUON_NS_STEPS]);
    return ct_scope_return(scope, ok ? u : NULL);
}

static double muon_lr(const ct_optim_item *item) {
    const double rows = (double)ct_dim(item->param, 0), columns = (double)ct_dim(item->param, 1);
    return item->lr * (item->numbers[MUON_MATCH_RMS] != 0 ? 0.2 * sqrt(fmax(rows, columns))
                                                          : sqrt(fmax(1, rows / columns)));
}

/* Computes all that needs memory or can fail: item->grad becomes row-major and clipped, and
 * state[1], which is no state of the rule, becomes the update. */
static bool muon_prepare(ct_optim_item *item) {
    if (!isfinite(muon_lr(item)) || !isfinite(item->lr * item->weight_decay))
        return ct_fail(item->param->context, CT_ERR_ARGUMENT,
                       "Muon: %s: a learning rate of %g is too large", item->name, item->lr);
    item->grad =
        item->grad_scale == 1 ? ct_contiguous(item->grad) : ct_scale(item->grad, item->grad_scale);
    item->state[1] = item->grad ? muon_update(item) : NULL;
    return item->state[1];
}

static bool muon_apply(const ct_optim_item *item) {
    return ct_lerp_into(item->state[0], item->grad, 1 - item->numbers[MUON_MOMENTUM]) &&
           ct_scale_into(item->param, 1 - item->lr * item->weight_decay) &&
           ct_add_into(item->param, item->state[1], -muon_lr(item));
}

static bool muon_step(ct_optim_item *items, int64_t n, void *user) {
    (void)user;
    if (!n) return true;
    bool ok = true;
    ct_scope scope = ct_scope_open_no_grad(items->param->context);
    for (int64_t i = 0; ok && i < n; i++) ok = muon_prepare(&items[i]);
    for (int64_t i = 0; ok && i < n; i++) ok = muon_apply(&items[i]);
    ct_scope_close(scope);
    return ok;
}

static const char *muon_fault(const double *numbers) {
    const double steps = numbers[MUON_NS_STEPS];
    return steps != floor(steps) ? "ns_steps must be whole" : NULL;
}

/* ---- rules ---- */

/* Patterns of names of matrices that AdamW steps. */
typedef struct {
    const char *const *pattern;
    int64_t n;
} name_patterns;

static bool muon_takes(const char *name, const ct_tensor *param, void *user) {
    const name_patterns *p = user;
    bool takes = ct_ndim(param) == 2;
    for (int64_t i = 0; takes && i < p->n; i++)
        takes = !cti_name_matches(p->pattern[i], cti_text_of(name));
    return takes;
}

/* The numbers of AdamW for the parameters that Muon leaves to it: AdamW's own, and options that may
 * differ from those of the matrices. */
enum { REST_WEIGHT_DECAY = CTI_OP_ADAM_NUMBERS, REST_MATRICES_ONLY, REST_LR_SCALE, REST_NUMBERS };
static const ct_optim_number rest_numbers[REST_NUMBERS] = {
    [CTI_OP_BETA1] = CTI_NN_BETA1,
    [CTI_OP_BETA2] = CTI_NN_BETA2,
    [CTI_OP_EPS] = CTI_NN_EPS,
    [REST_WEIGHT_DECAY] = {.name = "weight_decay"},
    [REST_MATRICES_ONLY] = {.name = "decay_matrices_only", .flag = true},
    [REST_LR_SCALE] = {.name = "lr_scale", .value = 1},
};
static const ct_optim_rule rest_rule = {.name = "AdamW",
                                        .states = cti_nn_adam_states,
                                        .n_states = 2,
                                        .numbers = rest_numbers,
                                        .n_numbers = REST_NUMBERS,
                                        .step_all = cti_nn_adamw_step,
                                        .bf16_states = true,
                                        .elementwise = true};

static const char *const muon_states[] = {"momentum"};
static const ct_optim_number muon_numbers[MUON_NUMBERS] = {
    [MUON_MOMENTUM] = {.name = "momentum", .value = 0.95},
    [MUON_EPS] = {.name = "eps", .value = 1e-7},
    [MUON_NS_STEPS] = {.name = "ns_steps", .value = 5, .least = 1, .most = 99},
    [MUON_NESTEROV] = {.name = "nesterov", .value = 1, .flag = true},
    [MUON_MATCH_RMS] = {.name = "match_rms_adamw", .flag = true},
};
static const ct_optim_rule muon_rule = {.name = "Muon",
                                        .states = muon_states,
                                        .n_states = 1,
                                        .numbers = muon_numbers,
                                        .n_numbers = MUON_NUMBERS,
                                        .step_all = muon_step,
                                        .fault = muon_fault,
                                        .takes = muon_takes,
                                        .rest = &rest_rule};

/* ---- making ---- */

static bool muon_check(ct_context *context, const ct_muon_opts *o) {
    if (o->n_adamw_names < 0 || (o->n_adamw_names && !o->adamw_names))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "Muon: adamw_names is NULL, or n_adamw_names negative");
    for (int64_t i = 0; i < o->n_adamw_names; i++)
        if (!o->adamw_names[i])
            return ct_fail(context, CT_ERR_ARGUMENT, "Muon: adamw_names[%" PRId64 "] is NULL", i);
    if (o->adamw.clip_norm != 0 || o->adamw.skip_nonfinite || o->adamw.state_dtype != CT_F32)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "Muon: clip_norm, skip_nonfinite and state_dtype are for all parameters, "
                       "not of .adamw");
    if (cti_option(o->lr, 1e-3) == 0 && cti_option(o->adamw.lr, 1e-3) != 0)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "Muon: lr is 0, and AdamW's lr cannot be in proportion to it");
    return true;
}

/* A value of options as a number whose default is not wanted. */
static double given(double value) { return value == 0 ? CT_ZERO : value; }

static ct_optim *muon_make(ct_module *module, const ct_muon_opts *o, name_patterns *patterns) {
    const double lr = cti_option(o->lr, 1e-3), rest_lr = cti_option(o->adamw.lr, 1e-3);
    const double numbers[MUON_NUMBERS + REST_NUMBERS] = {
        [MUON_MOMENTUM] = o->momentum,
        [MUON_EPS] = o->eps,
        [MUON_NS_STEPS] = (double)o->ns_steps,
        [MUON_NESTEROV] = o->no_nesterov ? CT_ZERO : 0,
        [MUON_MATCH_RMS] = o->match_rms_adamw,
        [MUON_NUMBERS + CTI_OP_BETA1] = o->adamw.beta1,
        [MUON_NUMBERS + CTI_OP_BETA2] = o->adamw.beta2,
        [MUON_NUMBERS + CTI_OP_EPS] = o->adamw.eps,
        [MUON_NUMBERS + REST_WEIGHT_DECAY] = o->adamw.weight_decay,
        [MUON_NUMBERS + REST_MATRICES_ONLY] = o->adamw.decay_matrices_only,
        [MUON_NUMBERS + REST_LR_SCALE] = lr == rest_lr ? 0 : given(rest_lr / lr)};
    return cti_nn_optim_new(module, &muon_rule,
                            (ct_optim_opts){.lr = o->lr,
                                            .weight_decay = o->weight_decay,
                                            .clip_norm = o->clip_norm,
                                            .skip_nonfinite = o->skip_nonfinite,
                                            .state_dtype = o->state_dtype,
                                            .numbers = numbers,
                                            .user = patterns},
                            true);
}

ct_optim *ct_muon_new(ct_module *module, ct_muon_opts opts) {
    name_patterns patterns = {.pattern = opts.adamw_names, .n = opts.n_adamw_names};
    if (!cti_nn_ready(module, "Muon", NULL) || !muon_check(module->context, &opts)) return NULL;
    ct_optim *optim = muon_make(module, &opts, &patterns);
    if (!optim) return NULL;
    optim->user = NULL; /* the patterns were only for muon_takes */
    for (int64_t i = 0; i < patterns.n; i++) {
        if (cti_nn_optim_has(optim, patterns.pattern[i])) continue;
        ct_fail(module->context, CT_ERR_ARGUMENT, "Muon: no parameter is called \"%s\"",
                patterns.pattern[i]);
        ct_optim_free(optim);
        return NULL;
    }
    return optim;
}
