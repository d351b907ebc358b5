/* The training of finetune; see finetune.h. */
#include "finetune.h"
#include "finetune_sample.h"

#include <math.h>
#include <stdio.h>

/* ---- the loss ---- */

/* The rows of micro-batch i of a step. */
static void find_rows(tuning *t, int64_t step, int64_t i, int64_t *which) {
    const int64_t first = (step * option.accumulate + i) * option.batch;
    for (int64_t k = 0; k < option.batch; k++) which[k] = row_at(&t->order, first + k);
}

/* The number of tokens that the loss of a step counts. */
static double count_learned(tuning *t, int64_t step) {
    int64_t n = 0;
    if (is_preferences()) return NAN; /* their loss is a mean over pairs */
    const int64_t all = option.batch * option.accumulate;
    for (int64_t k = 0; k < all; k++) n += t->rows.learned[row_at(&t->order, step * all + k)];
    return (double)n;
}

static ct_tensor *sum_of_losses(tuning *t, const rows *r, const int64_t *which, int64_t n) {
    if (option.task) return labels_loss(t, r, which, n);
    const row_batch b = rows_batch(t->context, r, which, n);
    const ct_cross_entropy_opts sum = {.reduction = CT_SUM};
    return ct_lm_loss(t->lm, b.ids, b.targets, b.call, sum);
}

/* Runs forward and backward of a micro-batch of pairs. The loss of a step is the mean over its
 * micro-batches. */
static preference_sums learn_pairs(tuning *t, int64_t step, int64_t i) {
    ct_scope scope = ct_scope_open(t->context);
    int64_t pair[MOST_ROWS];
    find_rows(t, step, i, pair);
    const preference_loss loss = finetune_preference(t, &t->rows, t->reference, pair, option.batch);
    ct_backward(loss.loss);
    const preference_sums sums = preference_sums_of(&loss, option.batch);
    ct_scope_close(scope);
    const double n = (double)option.accumulate;
    return (preference_sums){.loss = sums.loss / n,
                             .margin = sums.margin / n / (double)option.batch,
                             .right = sums.right / n / (double)option.batch};
}

/* Runs forward and backward of a micro-batch, and returns its part of the step's loss. The gradient
 * of a step is the mean over its micro-batches, so each is multiplied by their number. */
static double learn(tuning *t, int64_t step, int64_t i, double learned) {
    ct_scope scope = ct_scope_open(t->context);
    int64_t which[MOST_ROWS];
    find_rows(t, step, i, which);
    ct_tensor *loss = ct_scale(sum_of_losses(t, &t->rows, which, option.batch), 1 / learned);
    ct_backward(ct_scale(loss, (double)option.accumulate));
    const double value = ct_item(loss);
    ct_scope_close(scope);
    return value;
}

/* Row k of n at equal distances. */
static int64_t spread_row(const rows *of, int64_t k, int64_t n) { return k * rows_units(of) / n; }

/* The sum of the losses of rows, or of pairs. */
static double measure_batch(tuning *t, const rows *of, const int64_t *which, int64_t n) {
    if (!is_preferences()) return ct_item(sum_of_losses(t, of, which, n));
    const double *reference = of == &t->held ? t->held_reference : t->reference;
    const preference_loss loss = finetune_preference(t, of, reference, which, n);
    return (double)n * preference_sums_of(&loss, n).loss;
}

/* Returns the mean loss over n rows or pairs at equal distances. The ranks divide the batches among
 * them. */
static double measure_rows(tuning *t, const run *r, const rows *of, int64_t n_rows) {
    const int64_t batches = (n_rows + option.batch - 1) / option.batch;
    double learned = 0;
    ct_scope scope = ct_scope_open_no_grad(t->context);
    double *sums = ct_data_f64(ct_zeros(t->context, CT_F64, CT_SHAPE(batches)));
    ct_module_train(t->lm, false); /* no dropout */
    for (int64_t i = ct_comm_rank(r->world); sums && i < batches; i += ct_comm_size(r->world)) {
        ct_scope inner = ct_scope_open(t->context);
        int64_t which[MOST_ROWS], n = 0;
        for (int64_t k = i * option.batch; k < n_rows && n < option.batch; k++)
            which[n++] = spread_row(of, k, n_rows);
        sums[i] = measure_batch(t, of, which, n);
        ct_scope_close(inner);
    }
    ct_module_train(t->lm, true);
    ct_dist_sum(r->dist, sums, batches);
    check(t->context, EXIT_FAILED);
    double sum = 0;
    for (int64_t i = 0; i < batches; i++) sum += sums[i];
    ct_scope_close(scope);
    if (is_preferences()) return sum / (double)n_rows;
    for (int64_t k = 0; k < n_rows; k++) learned += (double)of->learned[spread_row(of, k, n_rows)];
    return sum / learned;
}

/* The loss over the rows for validation, or NaN if there are none. */
static double measure(tuning *t, const run *r) {
    return t->held.n ? measure_rows(t, r, &t->held, rows_units(&t->held)) : NAN;
}

/* The loss over a few of the rows that are trained on. A run without validation compares this loss
 * before and after, to find whether it has made the model worse. */
static double measure_trained(tuning *t, const run *r) {
    const int64_t few = option.batch < 8 ? 8 : option.batch;
    const int64_t units = rows_units(&t->rows);
    return measure_rows(t, r, &t->rows, units < few ? units : few);
}

void finetune_write_sample(const tuning *t, int64_t step) {
    const finetune_sample sample = {.prompt = option.sample,
                                    .tokens = option.sample_tokens,
                                    .is_chat = t->documents.chats.conversations > 0,
                                    .chat = t->form.opts,
                                    .is_plain = option.plain,
                                    .end_of_turn = t->end_of_turn};
    sample_write(t->context, t->lm, t->tokenizer, &sample, step);
}

/* ---- training ---- */

ct_optim *finetune_optim(const tuning *t) {
    return ct_adamw_new(t->lm, (ct_adamw_opts){
                                   .weight_decay = option.decay,
                                   .decay_matrices_only = true,
                                   /* 1e300 clips nothing, but the norm is computed */
                                   .clip_norm = option.clip > 0 ? option.clip : 1e300,
                                   .state_dtype = option.bf16_states ? CT_BF16 : CT_F32,
                               });
}

/* The learning rate rises during the warm-up, then falls along a cosine. */
static double learning_rate(int64_t step) {
    const ct_lr_cosine_opts schedule = {
        .peak = option.lr,
        .floor = option.lr * option.min_lr,
        .warmup = (int64_t)(option.warmup * (double)option.steps),
        .total = option.steps,
    };
    return ct_lr_cosine(schedule, step);
}

/* Runs a step: each rank computes its micro-batches, and then all ranks update the parameters.
 * Returns the loss, of preferences also the
 * mean margin and the part of pairs that are right, and sets *ends if Ctrl-C was pressed on a rank.
 * Both are the same on all ranks. */
static preference_sums train_step(tuning *t, ct_dist *dist, int64_t step, bool *ends) {
    const int64_t n = option.accumulate;
    const double learned = count_learned(t, step);
    ct_scope scope = ct_scope_open(t->context);
    double *shared = ct_data_f64(ct_zeros(t->context, CT_F64, CT_SHAPE(3 * n + 1)));
    for (int64_t i; ct_dist_next(dist, &i);) {
        const preference_sums own = is_preferences()
                                        ? learn_pairs(t, step, i)
                                        : (preference_sums){.loss = learn(t, step, i, learned)};
        shared[3 * i] = own.loss, shared[3 * i + 1] = own.margin, shared[3 * i + 2] = own.right;
    }
    ct_dist_step(dist);
    if (shared) shared[3 * n] = interrupted();
    ct_dist_sum(dist, shared, 3 * n + 1); /* each rank has filled in only its own values */
    check(t->context, EXIT_FAILED);
    preference_sums sum = {0};
    for (const double *own = shared; own < shared + 3 * n; own += 3)
        sum.loss += own[0], sum.margin += own[1], sum.right += own[2];
    *ends = shared[3 * n] > 0;
    ct_scope_close(scope);
    return sum;
}

/* The time of the run without the time between a stop and a resume, and the last validation. */
typedef struct {
    double seconds, validation;
    int64_t measured_at; /* the step of the validation */
} history;

static void add_line(void *to, const log_line *line) {
    history *h = to;
    h->seconds = line->seconds;
    if (isnan(line->validation)) return;
    h->validation = line->validation;
    h->measured_at = line->step;
}

static void show(progress *bar, const history *h, const log_line *line, preference_sums of) {
    char validation[64] = "", of_step[32] = "", pairs[64] = "";
    if (is_preferences())
        snprintf(pairs, sizeof pairs, "  margin %.4f  accuracy %.2f", of.margin, of.right);
    if (h->measured_at < line->step)
        snprintf(of_step, sizeof of_step, " (step %lld)", (long long)h->measured_at);
    if (!isnan(h->validation))
        snprintf(validation, sizeof validation, "  validation %.4f%s", h->validation, of_step);
    progress_show(bar, line->step, "loss %.4f%s%s", line->loss, pairs, validation);
}

/* Ends the run if a number shows that training has failed. */
static void check_numbers(const log_line *line, bool has_validation) {
    const bool lost = !isfinite(line->loss) || !isfinite(line->grad_norm);
    if (lost || (has_validation && !isfinite(line->validation)))
        fail(EXIT_FAILED, "the %s of step %lld is no number: try a smaller --lr",
             isfinite(line->loss) ? lost ? "gradient" : "validation" : "loss",
             (long long)line->step);
}

training finetune_train(tuning *t, run *r, ct_optim *optim) {
    history h = {.validation = NAN};
    double before = NAN;
    run_restore(r, "validation", &h.validation);
    run_restore(r, "loss before", &before);
    finetune_reference(t, r);
    int64_t step = run_start(r, t->lm, optim, add_line, &h);
    if (t->out_exists && step < option.steps)
        fail(EXIT_USAGE, "%s is there already: --out names a folder that will be made", option.out);
    if (step > 0) {
        printf("Goes on after step %lld\n", (long long)step);
    } else {
        h.validation = measure(t, r);
        before = t->held.n ? h.validation : measure_trained(t, r);
    }
    if (step == 0 && t->held.n) printf("Validation before the first step: %.4f\n", h.validation);
    const double rows_a_step = (double)(option.batch * option.accumulate);
    progress bar = {
        .total = option.steps,
        .first = step,
        .per_step = rows_a_step * (double)t->rows.tokens / (double)rows_units(&t->rows),
        .unit = "tokens/s",
        .begun = now(),
    };
    const double earlier = h.seconds;
    ct_profile_start(t->context);
    bool ends = false;
    while (step < option.steps && !ends) {
        const double begun = now();
        const double lr = learning_rate(step);
        ct_optim_set_lr(optim, lr);
        const preference_sums sums = train_step(t, r->dist, step, &ends);
        step++;
        log_line line = {
            .step = step,
            .loss = sums.loss,
            .validation = NAN,
            .lr = lr,
            .grad_norm = ct_optim_grad_norm(optim),
            .tokens_per_s = bar.per_step / (now() - begun),
            .peak_bytes = ct_memory(t->context).peak,
        };
        const bool last = step == option.steps;
        if (step % option.eval_every == 0 || last) line.validation = measure(t, r);
        line.seconds = earlier + now() - bar.begun;
        add_line(&h, &line);
        run_step(r, &line);
        check_numbers(&line, t->held.n && (step % option.eval_every == 0 || last));
        show(&bar, &h, &line, sums);
        if (option.sample && run_is_first(r) && (step % option.sample_every == 0 || last))
            finetune_write_sample(t, step);
        run_profile_show(t->context);
    }
    progress_end();
    ct_profile_stop(t->context);
    run_save(r, step);
    const bool measured = t->held.n || step < option.steps;
    const double after = measured ? h.validation : measure_trained(t, r);
    return (training){.step = step, .before = before, .after = after};
}
