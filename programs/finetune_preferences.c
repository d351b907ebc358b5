/* Preferences in finetune: batches of pairs, the reference of DPO, and the numbers of a batch. */
#include "finetune.h"

#include <math.h>
#include <stdlib.h>

/* The rows of pairs: the chosen answers, then the rejected ones. */
static row_batch pairs_batch(ct_context *context, const rows *of, const int64_t *pair, int64_t n) {
    int64_t which[2 * MOST_ROWS];
    for (int64_t i = 0; i < n; i++) {
        which[i] = 2 * pair[i];
        which[n + i] = 2 * pair[i] + 1;
    }
    return rows_batch(context, of, which, 2 * n);
}

/* The next id of each token of the rows, and NO_TARGET behind the last. */
static ct_tensor *next_ids(ct_context *context, const rows *of, const int64_t *pair, int64_t n,
                           ct_tensor *ids) {
    const int64_t T = ids ? ct_dim(ids, 1) : 0;
    ct_tensor *next = ct_full(context, CT_I64, CT_SHAPE(2 * n, T), NO_TARGET);
    const int64_t *from = ids ? ct_data_i64(ids) : NULL;
    int64_t *to = next ? ct_data_i64(next) : NULL;
    for (int64_t i = 0; from && to && i < 2 * n; i++) {
        const int64_t length = row_length(of, 2 * pair[i % n] + i / n);
        for (int64_t k = 0; k + 1 < length; k++) to[i * T + k] = from[i * T + k + 1];
    }
    return next;
}

preference_loss finetune_preference(tuning *t, const rows *of, const double *reference,
                                    const int64_t *pair, int64_t n) {
    const row_batch b = pairs_batch(t->context, of, pair, n);
    const preference_opts opts = {.beta = option.beta, .label_smoothing = option.label_smoothing};
    if (option.method == METHOD_ORPO)
        return preference_orpo(t->lm, b.ids, b.targets, next_ids(t->context, of, pair, n, b.ids),
                               opts);
    ct_tensor *log_p = preference_log_p(t->lm, b.ids, b.targets);
    double log_q[2 * MOST_ROWS];
    for (int64_t i = 0; i < 2 * n; i++) log_q[i] = reference[2 * pair[i % n] + i / n];
    ct_tensor *q = ct_cast(ct_from_f64(t->context, CT_SHAPE(2 * n), log_q),
                           log_p ? ct_dtype_of(log_p) : CT_F32);
    return preference_dpo(log_p, q, opts);
}

/* Computes log-probabilities of all pairs once, by the model before the first step, without its
 * adapters and without dropout. So training needs no second model, and no second forward. */
static double *reference_of(tuning *t, const run *r, const rows *of) {
    const int64_t pairs = rows_units(of);
    double *log_q = calloc((size_t)of->n, sizeof *log_q);
    if (!log_q) fail(EXIT_FAILED, "out of memory");
    ct_scope scope = ct_scope_open_no_grad(t->context);
    for (int64_t first = 0, batch = 0; first < pairs; first += option.batch, batch++) {
        if (batch % ct_comm_size(r->world) != ct_comm_rank(r->world)) continue;
        int64_t pair[MOST_ROWS], n = 0;
        for (; n < option.batch && first + n < pairs; n++) pair[n] = first + n;
        ct_scope inner = ct_scope_open(t->context);
        const row_batch b = pairs_batch(t->context, of, pair, n);
        ct_tensor *log_p = ct_cast(preference_log_p(t->lm, b.ids, b.targets), CT_F64);
        const double *value = log_p ? ct_data_f64(log_p) : NULL;
        for (int64_t i = 0; value && i < 2 * n; i++) log_q[2 * pair[i % n] + i / n] = value[i];
        ct_scope_close(inner);
    }
    ct_dist_sum(r->dist, log_q, of->n); /* each rank has filled in its own */
    ct_scope_close(scope);
    check(t->context, EXIT_FAILED);
    return log_q;
}

void finetune_reference(tuning *t, const run *r) {
    if (option.method != METHOD_DPO) return;
    if (is_lora()) ct_lora_enable(t->lm, false);
    ct_module_train(t->lm, false);
    t->reference = reference_of(t, r, &t->rows);
    if (t->held.n) t->held_reference = reference_of(t, r, &t->held);
    ct_module_train(t->lm, true);
    if (is_lora()) ct_lora_enable(t->lm, true);
    check(t->context, EXIT_FAILED);
}

preference_sums preference_sums_of(const preference_loss *loss, int64_t n) {
    preference_sums sums = {.loss = NAN};
    if (!loss->loss) return sums;
    sums.loss = ct_item(loss->loss);
    const double *chosen = ct_data_f64(ct_cast(loss->chosen, CT_F64)),
                 *rejected = ct_data_f64(ct_cast(loss->rejected, CT_F64));
    for (int64_t i = 0; chosen && rejected && i < n; i++) {
        sums.margin += chosen[i] - rejected[i];
        sums.right += chosen[i] > rejected[i];
    }
    return sums;
}
