/* The memory of a fine-tuning; see finetune_memory.h. */
#include "finetune_memory.h"
#include "common.h"
#include "documents.h"
#include "system.h"

#include <math.h>
#include <string.h>

/* The loss computes its logits in blocks of at most so many rows. Two micro-batches that both fill
 * a block show how much memory grows with the tokens; smaller ones would show how the block grows.
 */
enum { BLOCK_ROWS = 256, PROBE_MAX = 1024 };

/* Runs forward and backward of rows of n tokens, and returns the bytes that they took besides the
 * bytes that were in use before. */
static double probe(ct_context *context, ct_module *lm, int64_t n_rows, int64_t n, double learned) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *ids = ct_zeros(context, CT_I64, CT_SHAPE(n_rows, n));
    ct_tensor *targets = ct_full(context, CT_I64, CT_SHAPE(n_rows, n), NO_TARGET);
    int64_t *target = ct_data_i64(targets);
    const int64_t counted = (int64_t)ceil(learned * (double)(n_rows * n));
    const ct_lm_info about = ct_lm_about(lm);
    const bool is_token = about.head == CT_LM_HEAD_TOKEN;
    for (int64_t i = 0; target && i < counted; i++) target[i] = is_token ? 0 : 1;
    if (about.head == CT_LM_HEAD_SEQUENCE) {
        const bool single = !about.problem_type || strstr(about.problem_type, "single");
        targets = single ? ct_zeros(context, CT_I64, CT_SHAPE(n_rows))
                         : ct_zeros(context, CT_F32, CT_SHAPE(n_rows, about.labels));
    }
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

/* The bytes that the activations of the largest micro-batch take: by running it if it is small, and
 * else by a line through two measured points. */
static double measure_activations(ct_context *context, ct_module *lm, const memory_opts *o) {
    const double tokens = (double)o->tokens, learned = fmin(fmax(o->learned, 1e-3), 1);
    const int64_t block = (int64_t)fmin(ceil(BLOCK_ROWS / learned), PROBE_MAX);
    const int64_t length = o->length < block ? o->length : block;
    const int64_t n_rows = (block + length - 1) / length, shorter = n_rows * length;
    probe(context, lm, 1, 1, 1); /* makes the gradients, which are in use before the next ones */
    double bytes;
    if (o->tokens <= 2 * shorter) {
        bytes = probe(context, lm, o->tokens / o->length, o->length, learned);
    } else {
        const double low = probe(context, lm, n_rows, length, learned),
                     high = probe(context, lm, 2 * n_rows, length, learned);
        bytes = high + (high - low) / (double)shorter * (tokens - 2 * (double)shorter);
    }
    for (ct_param p = {0}; ct_module_next(lm, &p);) ct_zero_grad(p.tensor);
    ct_memory_trim(context);
    return bytes;
}

memory_estimate memory_estimate_of(ct_context *context, ct_module *lm, memory_opts opts) {
    const double trained = 4 * count_trained(lm); /* f32 */
    memory_estimate m = {.weights = (double)ct_memory(context).live,
                         .optimiser = (opts.bf16_states ? 1 : 2) * trained / (double)opts.ranks,
                         .accumulates = opts.micro_batches > 1 || opts.recompute};
    /* what the context holds for later use will serve the activations */
    m.program = fmax(system_peak_memory() - m.weights - (double)ct_memory(context).pooled, 0);
    /* ct_dist keeps a sum for each doubling of the shares, and buffers to send and to receive */
    double copies = 1 + (opts.ranks > 1 ? 1.5 : 0);
    for (int64_t shares = opts.shares / opts.ranks; shares > 1; shares /= 2) copies++;
    m.gradients = copies * trained;
    m.activations = measure_activations(context, lm, &opts);
    if (opts.widens) m.merged = m.weights + 4 * (double)ct_module_count(lm);
    return m;
}

double memory_sum(const memory_estimate *m) {
    /* what a context holds besides what is in use */
    const double held = 1.09;
    double used = m->weights + m->optimiser;
    if (m->accumulates) used += m->gradients + m->activations;
    else used += fmax(m->gradients, m->activations);
    return m->program + held * fmax(used, m->merged);
}
