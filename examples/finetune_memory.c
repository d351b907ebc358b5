/* The memory of a fine-tuning; see finetune_memory.h. */
#include "finetune_memory.h"
#include "common.h"
#include "system.h"

#include <math.h>

/* The tokens of the longer micro-batch that is measured. */
enum { PROBE = 384 };

/* Runs forward and backward of a row of n tokens, and returns the bytes that they took besides the
 * bytes that were in use before. */
static double probe(ct_context *context, ct_module *lm, int64_t n) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *ids = ct_zeros(context, CT_I64, CT_SHAPE(1, n));
    ct_tensor *targets = ct_full(context, CT_I64, CT_SHAPE(1, n), 1);
    ct_memory_reset_peak(context);
    const double before = (double)ct_memory(context).live;
    const ct_cross_entropy_opts sum = {.reduction = CT_SUM};
    ct_backward(ct_lm_loss(lm, ids, targets, (ct_lm_call){0}, sum));
    const double peak = (double)ct_memory(context).peak;
    check(context, EXIT_FAILED);
    ct_scope_close(scope);
    return peak - before;
}

static double count_trained(const ct_module *lm) {
    double n = 0;
    for (ct_param p = {0}; ct_module_next(lm, &p);)
        if (ct_requires_grad(p.tensor)) n += (double)ct_numel(p.tensor);
    return n;
}

/* The bytes that the activations of so many tokens take, by a line through two measured points. */
static double measure_activations(ct_context *context, ct_module *lm, double tokens,
                                  int64_t length) {
    const int64_t longer = length < PROBE ? length : PROBE, shorter = (longer + 2) / 3;
    probe(context, lm, shorter); /* makes the gradients, which are in use before the next ones */
    const double low = probe(context, lm, shorter), high = probe(context, lm, longer);
    for (ct_param p = {0}; ct_module_next(lm, &p);) ct_zero_grad(p.tensor);
    ct_memory_trim(context);
    if (shorter == longer) return high * tokens / (double)longer;
    return high + (high - low) / (double)(longer - shorter) * (tokens - (double)longer);
}

memory_estimate memory_estimate_of(ct_context *context, ct_module *lm, memory_opts opts) {
    const double trained = 4 * count_trained(lm); /* f32 */
    memory_estimate m = {.weights = (double)ct_memory(context).live,
                         .optimiser = 2 * trained / (double)opts.ranks,
                         .accumulates = opts.micro_batches > 1};
    m.program = fmax(system_peak_memory() - m.weights, 0);
    /* ct_dist keeps a sum for each doubling of the shares, and buffers to send and to receive */
    double copies = 1 + (opts.ranks > 1 ? 1.5 : 0);
    for (int64_t shares = opts.shares / opts.ranks; shares > 1; shares /= 2) copies++;
    m.gradients = copies * trained;
    m.activations = measure_activations(context, lm, (double)opts.tokens, opts.length);
    return m;
}

double memory_sum(const memory_estimate *m) {
    const double fixed = m->program + m->weights + m->optimiser;
    if (m->accumulates) return fixed + m->gradients + m->activations;
    return fixed + fmax(m->gradients, m->activations);
}
