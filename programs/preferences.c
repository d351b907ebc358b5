/* Losses of preferences; see preferences.h. */
#include "preferences.h"
#include "documents.h"

/* -log p of each token (rows, T); 0 for a token without a target. */
static ct_tensor *token_losses(ct_module *lm, ct_tensor *ids, ct_tensor *targets) {
    const ct_cross_entropy_opts each = {.reduction = CT_NONE};
    return ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, each);
}

ct_tensor *preference_log_p(ct_module *lm, ct_tensor *ids, ct_tensor *targets) {
    return ct_neg(ct_sum(token_losses(lm, ids, targets), CT_DIMS(1), false));
}

/* Of 2 B rows the chosen ones, or the rejected ones. */
static ct_tensor *half(ct_tensor *x, bool rejected) {
    const int64_t pairs = ct_dim(x, 0) / 2;
    return ct_narrow(x, 0, rejected ? pairs : 0, pairs);
}

static ct_tensor *difference(ct_tensor *x) { return ct_sub(half(x, false), half(x, true)); }

static ct_tensor *minus_log_sigmoid(ct_tensor *x) { return ct_softplus(ct_neg(x)); }

static ct_tensor *mean(ct_tensor *x) { return ct_mean(x, CT_ALL, false); }

preference_loss preference_dpo(ct_tensor *log_p, ct_tensor *log_q, preference_opts opts) {
    ct_tensor *rewards = ct_scale(ct_sub(log_p, log_q), opts.beta), *s = difference(rewards);
    ct_tensor *loss = mean(minus_log_sigmoid(s));
    if (opts.label_smoothing > 0)
        loss = ct_add(ct_scale(loss, 1 - opts.label_smoothing),
                      ct_scale(mean(minus_log_sigmoid(ct_neg(s))), opts.label_smoothing));
    rewards = ct_detach(rewards);
    return (preference_loss){loss, half(rewards, false), half(rewards, true)};
}

/* log(1 - e^m) for m < 0. 1 - e^m would lose its digits near 0, and 2 t / (1 + t) with
 * t = tanh(-m / 2), which is the same, does not. */
static ct_tensor *log_one_minus_exp(ct_tensor *m) {
    ct_tensor *t = ct_tanh(ct_scale(m, -0.5));
    return ct_log(ct_div(ct_scale(t, 2), ct_add_scalar(t, 1)));
}

preference_loss preference_orpo(ct_module *lm, ct_tensor *ids, ct_tensor *targets, ct_tensor *next,
                                preference_opts opts) {
    ct_tensor *losses = token_losses(lm, ids, next);
    if (!losses) return (preference_loss){0};
    const ct_dtype dtype = ct_dtype_of(losses);
    ct_tensor *answer = ct_cast(ct_ne_scalar(targets, NO_TARGET), dtype),
              *counted = ct_cast(ct_ne_scalar(half(next, false), NO_TARGET), dtype);
    ct_tensor *nll =
        ct_div(ct_sum(half(losses, false), CT_ALL, false), ct_sum(counted, CT_ALL, false));
    ct_tensor *m = ct_neg(ct_div(ct_sum(ct_mul(losses, answer), CT_DIMS(1), false),
                                 ct_sum(answer, CT_DIMS(1), false)));
    ct_tensor *odds = ct_sub(m, log_one_minus_exp(m));
    ct_tensor *loss = ct_add(nll, ct_scale(mean(minus_log_sigmoid(difference(odds))), opts.beta));
    ct_tensor *rewards = ct_detach(ct_scale(m, opts.beta));
    return (preference_loss){loss, half(rewards, false), half(rewards, true)};
}
