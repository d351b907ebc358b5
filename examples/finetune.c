/* Fine-tunes a language model of a Hugging Face folder on texts or conversations, by LoRA or all
 * parameters, and writes a folder that transformers or PEFT loads.
 *
 *     finetune SmolLM2-135M-Instruct --data chats.jsonl --out adapter
 *
 * The documents are encoded and packed into rows (documents.h). A step computes the loss of some
 * rows, in micro-batches, and divides it by the number of tokens that count in it; so the result
 * does not depend on how the rows are divided. One process trains, or several ranks (world.h), with
 * the same bits. With --checkpoint a run that was stopped goes on, also with the same bits
 * (run.h). */
#include "chat_tokens.h"
#include "documents.h"
#include "finetune_memory.h"
#include "finetune_out.h"
#include "finetune_sample.h"
#include "run.h"
#include "system.h"
#include "world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 4096 }; /* the most rows of a micro-batch */

/* Values of flags. */
static struct {
    const char *data, *valid, *out, *separator, *targets, *sample;
    long long template, length, padded, plain, format;
    long long lora, full, rank, merge, bf16, recompute, ignore_unknown;
    long long batch, accumulate, shares, steps, epochs, eval_every, sample_every, sample_tokens;
    long long seed, threads, matmul;
    double hold_out, alpha, dropout, lr, min_lr, warmup, decay, clip;
} option = {
    .length = 512,
    .rank = 16,
    .alpha = 32,
    .batch = 4,
    .accumulate = 1,
    .shares = 1,
    .epochs = 1,
    .eval_every = 50,
    .sample_every = 50,
    .sample_tokens = 60,
    .seed = 1,
    .warmup = 0.03,
    .clip = 1,
};

/* The model and its data. */
typedef struct {
    ct_context *context;
    ct_tokenizer *tokenizer;
    ct_module *lm;
    documents documents, held_documents;
    rows rows, held; /* held.n is 0 without a validation */
    row_order order;
    bool has_new_tokens; /* the tokenizer has tokens that the folder's has not */
    int64_t end_of_turn; /* the token that ends a turn of a chat; -1: no token */
} tuning;

/* ---- the model ---- */

static bool is_lora(void) { return !option.full; }

/* Gives the model a row for each id of the tokenizer. */
static void grow_model(const tuning *t) {
    const long long ids = ct_tokenizer_size(t->tokenizer);
    const long long before = ct_lm_about(t->lm).vocab_size;
    if (ids <= before) return;
    if (is_lora() && !option.merge)
        fail(EXIT_USAGE,
             "the tokenizer has %lld ids and the model %lld rows: new rows are no part of an "
             "adapter, so use --merge or --full",
             ids, before);
    ct_lm_resize(t->lm, ids);
    check(t->context, EXIT_FAILED);
    printf("The tokenizer has %lld ids and the model had %lld rows: it gets new ones\n", ids,
           before);
}

static void open_model(tuning *t, const char *folder) {
    const ct_lm_opts opts = {.dtype = option.bf16 ? CT_BF16 : CT_F32,
                             .recompute = option.recompute,
                             .ignore_unknown = option.ignore_unknown};
    t->lm = ct_lm_open(t->context, folder, opts);
    check(t->context, EXIT_USAGE);
    const ct_lm_info about = ct_lm_about(t->lm);
    if (!about.causal)
        fail(EXIT_USAGE, "%s is a %s, which does not predict the next token", folder, about.family);
    const long long longest = about.max_length;
    if (!flag_was_read("length") && longest > 0 && option.length > longest) option.length = longest;
    if (longest > 0 && option.length > longest)
        fail(EXIT_USAGE, "--length %lld is more than the model's %lld tokens", option.length,
             longest);
    grow_model(t);
}

/* Adds adapters to the Linears that match one of the patterns, with commas and spaces between them.
 * A name as PEFT has it, without dots and *, stands for all paths that end in it. */
static void add_adapters(tuning *t) {
    static const char between[] = ", ";
    const bool gpt2 = !strcmp(ct_lm_about(t->lm).family, "gpt2");
    const char *at = option.targets ? option.targets : "all-linear";
    const ct_lora_opts opts = {
        .rank = option.rank, .alpha = option.alpha, .dropout = option.dropout};
    at += strspn(at, between);
    if (!*at) fail(EXIT_USAGE, "--targets names no Linear");
    while (*at) {
        const int length = (int)strcspn(at, between);
        char name[250], pattern[256];
        snprintf(name, sizeof name, "%.*s", length, at);
        const bool all = !strcmp(name, "all-linear");
        if (all) snprintf(pattern, sizeof pattern, "%s", gpt2 ? "*h.*" : "*layers.*");
        else snprintf(pattern, sizeof pattern, "%s%s", strpbrk(name, ".*?") ? "" : "*.", name);
        ct_lora_add(t->lm, pattern, opts);
        check(t->context, EXIT_USAGE);
        at += length;
        at += strspn(at, between);
    }
}

/* ---- the data ---- */

static rows make_rows(const documents *d, const char *path) {
    rows r = rows_make(d, option.length, !option.padded);
    if (!r.n) fail(EXIT_USAGE, "%s has no token that the loss could count", path);
    if (r.cut)
        printf("%lld conversations are longer than %lld tokens and lose their end (--length)\n",
               (long long)r.cut, option.length);
    if (r.dropped)
        printf("%lld documents are left out, as the loss would count no token of theirs\n",
               (long long)r.dropped);
    printf("%s: %lld document%s, %lld tokens, of which the loss counts %lld; %lld rows of %lld, "
           "%.0f %% full\n",
           path, (long long)d->count, d->count == 1 ? "" : "s", (long long)r.tokens,
           (long long)r.all_learned, (long long)r.n, option.length,
           100 * (double)r.tokens / ((double)r.n * (double)option.length));
    return r;
}

/* The end of a turn must be one token, because generation ends with a token. Returns whether
 * tokens were added to the tokenizer. Their rows are trained, which needs --full. */
static bool add_chat_tokens(tuning *t) {
    char end[CHAT_TOKEN];
    t->end_of_turn = -1;
    if (!t->documents.chats && !t->held_documents.chats) return false;
    t->end_of_turn = chat_end(t->tokenizer, (ct_chat)option.template, end);
    if (t->end_of_turn >= 0 || !*end) return false;
    if (is_lora())
        fail(EXIT_USAGE,
             "the tokenizer has no token %s, which ends a turn of this template: --full adds it "
             "and trains its row, and adapters cannot; or use a template whose end it has "
             "(zephyr's turns end with eos_token)",
             end);
    chat_add_tokens(t->context, t->tokenizer, (ct_chat)option.template);
    t->end_of_turn = ct_token_id(t->tokenizer, end);
    t->has_new_tokens = true;
    grow_model(t);
    return true;
}

static void read_documents(tuning *t) {
    const ct_lm_info about = ct_lm_about(t->lm);
    documents_opts opts = {.tokenizer = t->tokenizer,
                           .end_id = ct_token_role(t->tokenizer, "eos_token"),
                           .separator = option.separator,
                           .plain = option.plain,
                           .format = (int)option.format,
                           .chat = {.kind = (ct_chat)option.template}};
    if (opts.end_id < 0 && about.n_eos) opts.end_id = about.eos[0];
    t->documents = documents_read(t->context, option.data, &opts);
    if (option.valid) t->held_documents = documents_read(t->context, option.valid, &opts);
}

static void read_data(tuning *t) {
    read_documents(t);
    if (add_chat_tokens(t)) {
        documents_free(&t->documents);
        documents_free(&t->held_documents);
        read_documents(t);
    }
    if (!option.valid && option.hold_out > 0)
        t->held_documents = documents_hold_out(&t->documents, option.hold_out);
    t->rows = make_rows(&t->documents, option.data);
    if (t->held_documents.count)
        t->held = make_rows(&t->held_documents, option.valid ? option.valid : "held out");
    else if (option.hold_out > 0)
        fail(EXIT_USAGE, "--hold-out %g of %lld documents is none", option.hold_out,
             (long long)t->documents.count);
    t->order = (row_order){.rows = &t->rows, .seed = (uint64_t)option.seed};
    if (!flag_was_read("batch") && option.batch > t->rows.n) option.batch = t->rows.n;
    const long long per_step = option.batch * option.accumulate;
    if (!option.steps) option.steps = (option.epochs * t->rows.n + per_step - 1) / per_step;
}

/* Declares that a resumed run must have the same data and the same frozen weights. */
static void declare_data(const tuning *t, run *r) {
    const documents *d = &t->documents, *held = &t->held_documents;
    const contents ids = {.bytes = (unsigned char *)d->ids,
                          .length = d->n * (int64_t)sizeof *d->ids};
    run_same_text(r, &ids);
    run_same_ids(r, d->targets, d->n);
    run_same_ids(r, held->ids, held->n);
    run_same_ids(r, held->targets, held->n);
    run_same_model(r, t->lm, ct_lm_about(t->lm).config);
}

/* ---- the loss ---- */

/* The rows of micro-batch i of a step. */
static void find_rows(tuning *t, int64_t step, int64_t i, int64_t *which) {
    const int64_t first = (step * option.accumulate + i) * option.batch;
    for (int64_t k = 0; k < option.batch; k++) which[k] = row_at(&t->order, first + k);
}

/* The number of tokens that the loss of a step counts. */
static double count_learned(tuning *t, int64_t step) {
    int64_t n = 0;
    const int64_t all = option.batch * option.accumulate;
    for (int64_t k = 0; k < all; k++) n += t->rows.learned[row_at(&t->order, step * all + k)];
    return (double)n;
}

static ct_tensor *sum_of_losses(tuning *t, const rows *r, const int64_t *which, int64_t n) {
    const row_batch b = rows_batch(t->context, r, which, n);
    const ct_cross_entropy_opts sum = {.reduction = CT_SUM};
    return ct_lm_loss(t->lm, b.ids, b.targets, b.call, sum);
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

/* Returns the mean loss over the rows for validation, or NaN if there are none. The ranks divide
 * the batches among them. */
static double measure(tuning *t, const run *r) {
    if (!t->held.n) return NAN;
    const int64_t batches = (t->held.n + option.batch - 1) / option.batch;
    ct_scope scope = ct_scope_open_no_grad(t->context);
    double *sums = ct_data_f64(ct_zeros(t->context, CT_F64, CT_SHAPE(batches)));
    ct_module_train(t->lm, false); /* no dropout */
    for (int64_t i = ct_comm_rank(r->world); sums && i < batches; i += ct_comm_size(r->world)) {
        ct_scope inner = ct_scope_open(t->context);
        int64_t which[MOST_ROWS], n = 0;
        for (int64_t row = i * option.batch; row < t->held.n && n < option.batch; row++)
            which[n++] = row;
        sums[i] = ct_item(sum_of_losses(t, &t->held, which, n));
        ct_scope_close(inner);
    }
    ct_module_train(t->lm, true);
    ct_dist_sum(r->dist, sums, batches);
    check(t->context, EXIT_FAILED);
    double sum = 0;
    for (int64_t i = 0; i < batches; i++) sum += sums[i];
    ct_scope_close(scope);
    return sum / (double)t->held.all_learned;
}

static void write_sample(const tuning *t, int64_t step) {
    const finetune_sample sample = {.prompt = option.sample,
                                    .tokens = option.sample_tokens,
                                    .is_chat = t->documents.chats > 0,
                                    .is_plain = option.plain,
                                    .kind = (ct_chat)option.template,
                                    .end_of_turn = t->end_of_turn};
    sample_write(t->context, t->lm, t->tokenizer, &sample, step);
}

/* ---- training ---- */

static ct_optim *make_optim(const tuning *t) {
    return ct_adamw_new(t->lm, (ct_adamw_opts){
                                   .weight_decay = option.decay,
                                   .decay_matrices_only = true,
                                   /* 1e300 clips nothing, but the norm is computed */
                                   .clip_norm = option.clip > 0 ? option.clip : 1e300,
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
 * Returns the loss, and sets *ends if Ctrl-C was pressed on a rank. Both are the same on all
 * ranks. */
static double train_step(tuning *t, ct_dist *dist, int64_t step, bool *ends) {
    const int64_t n = option.accumulate;
    const double learned = count_learned(t, step);
    ct_scope scope = ct_scope_open(t->context);
    double *shared = ct_data_f64(ct_zeros(t->context, CT_F64, CT_SHAPE(n + 1)));
    for (int64_t i; ct_dist_next(dist, &i);) shared[i] = learn(t, step, i, learned);
    ct_dist_step(dist);
    if (shared) shared[n] = interrupted();
    ct_dist_sum(dist, shared, n + 1); /* each rank has filled in only its own values */
    check(t->context, EXIT_FAILED);
    double loss = 0;
    for (int64_t i = 0; i < n; i++) loss += shared[i];
    *ends = shared[n] > 0;
    ct_scope_close(scope);
    return loss;
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

static void show(progress *bar, const history *h, const log_line *line) {
    char validation[64] = "", of_step[32] = "";
    if (h->measured_at < line->step)
        snprintf(of_step, sizeof of_step, " (step %lld)", (long long)h->measured_at);
    if (!isnan(h->validation))
        snprintf(validation, sizeof validation, "  validation %.4f%s", h->validation, of_step);
    progress_show(bar, line->step, "loss %.4f%s", line->loss, validation);
}

/* Trains until all steps are done or Ctrl-C is pressed. Returns the number of steps that were
 * done. */
static int64_t train(tuning *t, run *r, ct_optim *optim) {
    history h = {.validation = NAN};
    run_restore(r, "validation", &h.validation);
    int64_t step = run_start(r, t->lm, optim, add_line, &h);
    if (step > 0) printf("Goes on after step %lld\n", (long long)step);
    else h.validation = measure(t, r);
    if (step == 0 && t->held.n) printf("Validation before the first step: %.4f\n", h.validation);
    const double rows_a_step = (double)(option.batch * option.accumulate);
    progress bar = {
        .total = option.steps,
        .first = step,
        .per_step = rows_a_step * (double)t->rows.tokens / (double)t->rows.n,
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
        const double loss = train_step(t, r->dist, step, &ends);
        step++;
        log_line line = {
            .step = step,
            .loss = loss,
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
        if (!isfinite(loss))
            fail(EXIT_FAILED, "the loss of step %lld is no number: try a smaller --lr",
                 (long long)step);
        show(&bar, &h, &line);
        if (option.sample && run_is_first(r) && (step % option.sample_every == 0 || last))
            write_sample(t, step);
        run_profile_show(t->context);
    }
    progress_end();
    ct_profile_stop(t->context);
    run_save(r, step);
    return step;
}

/* ---- what is said before ---- */

static double count_trained(const tuning *t, int64_t *tensors) {
    double n = 0;
    for (ct_param p = {0}; ct_module_next(t->lm, &p);) {
        if (!ct_requires_grad(p.tensor)) continue;
        n += (double)ct_numel(p.tensor);
        ++*tensors;
    }
    return n;
}

static memory_estimate describe(const tuning *t, const run *r) {
    int64_t tensors = 0;
    const double all = (double)ct_module_count(t->lm), trained = count_trained(t, &tensors);
    printf("A %s of %.4g million parameters, of which %.4g million are trained, %s%lld matrices\n",
           ct_lm_about(t->lm).family, all * 1e-6, trained * 1e-6,
           is_lora() ? "the adapters of " : "in ", (long long)(is_lora() ? tensors / 2 : tensors));
    const memory_opts opts = {.tokens = option.batch * t->rows.longest,
                              .length = t->rows.longest,
                              .micro_batches = option.accumulate,
                              .shares = option.shares,
                              .ranks = ct_comm_size(r->world)};
    const memory_estimate m = memory_estimate_of(t->context, t->lm, opts);
    const long long rows_of_step = option.batch * option.accumulate;
    printf("%lld steps of %lld row%s; memory: about %.0f MB (program %.0f, weights %.0f, gradients "
           "%.0f, optimiser %.0f, activations %.0f)\n",
           option.steps, rows_of_step, rows_of_step == 1 ? "" : "s", memory_sum(&m) * 1e-6,
           m.program * 1e-6, m.weights * 1e-6, m.gradients * 1e-6, m.optimiser * 1e-6,
           m.activations * 1e-6);
    fflush(stdout);
    return m;
}

/* ---- the program ---- */

/* Checks flags that do not fit together, and fills in those that depend on others. */
static void check_flags(const run *r) {
    if (!option.data) fail_usage("no data to train on: --data FILE");
    if (!option.out) fail_usage("no folder for the result: --out FOLDER");
    if (option.lora && option.full) fail(EXIT_USAGE, "--lora or --full, and not both");
    if (flag_was_read("lora") && !option.lora && !option.full)
        fail(EXIT_USAGE, "--no-lora needs --full, as no parameter would be trained");
    static const char *const of_lora[] = {"rank", "alpha", "dropout", "targets", "merge"};
    for (int i = 0; option.full && i < 5; i++)
        if (flag_was_read(of_lora[i]))
            fail(EXIT_USAGE, "--%s is about adapters, and --full has none", of_lora[i]);
    if (option.full && option.bf16)
        fail(EXIT_USAGE, "--full trains the matrices, which must be f32: --bf16 needs adapters "
                         "(--matmul bf16 multiplies f32 matrices in bf16)");
    if (option.valid && option.hold_out > 0)
        fail(EXIT_USAGE, "--valid FILE or --hold-out PART, and not both");
    if (flag_was_read("steps") && flag_was_read("epochs"))
        fail(EXIT_USAGE, "--steps or --epochs, and not both");
    for (int i = 0; i < 2 && !r->folder; i++)
        if (flag_was_read(i ? "keep" : "every"))
            fail(EXIT_USAGE, "--%s is about checkpoints: --checkpoint DIR says where they go",
                 i ? "keep" : "every");
    if (option.separator && !*option.separator) fail(EXIT_USAGE, "--separator is empty");
    if (option.lr == 0) option.lr = is_lora() ? 2e-4 : 2e-5;
}

/* Opens and reads everything, trains, and writes the result. */
static void fine_tune(tuning *t, run *r, const char *folder, const flag *flags, int n_flags) {
    t->tokenizer = ct_tokenizer_open(t->context, folder);
    check(t->context, EXIT_USAGE);
    open_model(t, folder);
    if (is_lora()) add_adapters(t);
    read_data(t);
    run_same_flags(r, flags, n_flags,
                   "template length padded full rank alpha dropout targets merge bf16 batch "
                   "accumulate shares steps lr min-lr warmup decay clip eval-every hold-out seed "
                   "matmul");
    declare_data(t, r);
    r->all.trained = is_lora();
    ct_module_train(t->lm, true);
    const memory_estimate memory = describe(t, r);
    if (option.sample && run_is_first(r)) write_sample(t, 0);
    ct_optim *optim = make_optim(t);
    r->dist =
        ct_dist_new(optim, r->world,
                    (ct_dist_opts){.micro_batches = option.accumulate, .shares = option.shares});
    check(t->context, EXIT_USAGE);
    catch_interrupts();
    const int64_t step = train(t, r, optim);
    const bool complete = step == option.steps;
    if (!complete && r->folder) {
        printf("Interrupted after step %lld; the same command goes on from there\n",
               (long long)step);
    } else {
        if (option.merge) ct_lora_merge(t->lm);
        check(t->context, EXIT_FAILED);
        if (run_is_first(r))
            out_save(t->context, t->lm, t->has_new_tokens ? t->tokenizer : NULL, option.out,
                     is_lora() && !option.merge);
        printf("%s %s as %s\n", complete ? "Saved" : "Interrupted: saved",
               is_lora() && !option.merge ? "the adapters" : "the model", option.out);
    }
    printf("Memory at most %.0f MB; about %.0f were expected\n", system_peak_memory() * 1e-6,
           memory_sum(&memory) * 1e-6);
    run_end(r);
}

int main(int argc, char **argv) {
    run r = {.every = 100, .keep = 3};
    const flag flags[] = {
        flag_text("data", &option.data, "FILE",
                  "plain text, or JSON: objects in lines or in an array"),
        flag_text("valid", &option.valid, "FILE", "data for validation, of the same kinds"),
        flag_real("hold-out", &option.hold_out, "PART", 0, 0.9,
                  "part of the data to hold out for validation, instead of --valid"),
        flag_text("separator", &option.separator, "TEXT",
                  "text between documents of a plain text; default: one document"),
        flag_choice("format", &option.format, "text|json",
                    "what the data is; default: JSON if the file begins or is named so"),
        flag_switch("plain", &option.plain,
                    "special tokens that are spelled in texts are ordinary text"),
        flag_choice("template", &option.template, "chatml|llama3|gemma|zephyr|phi3",
                    "the form of a chat, in place of the folder's"),
        flag_integer("length", &option.length, 2, 1e6,
                     "tokens in a row, at most the model's limit"),
        flag_switch("padded", &option.padded, "one document in each row, padded"),
        flag_heading("Parameters"),
        flag_switch("lora", &option.lora, "train adapters (the default)"),
        flag_switch("full", &option.full, "train all parameters"),
        flag_integer("rank", &option.rank, 1, 4096, "rank of the adapters"),
        flag_real("alpha", &option.alpha, "X", 1e-6, 1e6,
                  "adapters are multiplied by alpha / rank"),
        flag_real("dropout", &option.dropout, "P", 0, 0.99, "dropout of the adapters' input"),
        flag_text("targets", &option.targets, "LIST",
                  "Linears with adapters, such as q_proj,v_proj; default: all-linear"),
        flag_switch("bf16", &option.bf16, "keep the frozen matrices in bf16: half the memory"),
        flag_switch("recompute", &option.recompute,
                    "run layers again in backward: less memory, more time"),
        flag_switch("ignore-unknown", &option.ignore_unknown,
                    "keys of the folder's config.json that no model has are no error"),
        flag_heading("Training"),
        flag_integer("batch", &option.batch, 1, MOST_ROWS, "rows in a micro-batch"),
        flag_integer("accumulate", &option.accumulate, 1, 65536, "micro-batches in a step"),
        flag_integer("shares", &option.shares, 1, 65536,
                     "most ranks that can train; a power of two that divides --accumulate"),
        flag_integer("steps", &option.steps, 0, 1e9,
                     "number of training steps; 0: given by --epochs"),
        flag_integer("epochs", &option.epochs, 1, 1e6, "passes over the data"),
        flag_real("lr", &option.lr, "X", 0, 10,
                  "highest learning rate; 0: 2e-4 for adapters, 2e-5 for all"),
        flag_real("min-lr", &option.min_lr, "PART", 0, 1,
                  "part of the learning rate that is left at the end"),
        flag_real("warmup", &option.warmup, "PART", 0, 1,
                  "part of the steps in which the learning rate rises"),
        flag_real("decay", &option.decay, "X", 0, 10, "weight decay of matrices"),
        flag_real("clip", &option.clip, "X", 0, 1e9, "largest norm of the gradient; 0: any"),
        flag_integer("eval-every", &option.eval_every, 1, 1e9,
                     "steps from one validation to the next"),
        flag_text("sample", &option.sample, "PROMPT",
                  "print the model's continuation of this text during training"),
        flag_integer("sample-every", &option.sample_every, 1, 1e9, "steps between samples"),
        flag_integer("sample-tokens", &option.sample_tokens, 1, 1000, "most tokens of a sample"),
        flag_heading("The run"),
        flag_integer("seed", &option.seed, 0, 1e18, "seed of the random numbers"),
        flag_integer("threads", &option.threads, 0, 1024,
                     "number of threads; 0: one for each core"),
        flag_matmul(&option.matmul),
        flag_text("out", &option.out, "FOLDER", "new folder for the adapters or the model"),
        flag_switch("merge", &option.merge, "add the adapters to the weights, and save the model"),
        flag_text("checkpoint", &r.folder, "DIR",
                  "folder of checkpoints; continues from the newest one, with equal flags"),
        flag_integer("every", &r.every, 1, 1e9, "steps from one checkpoint to the next"),
        flag_integer("keep", &r.keep, 1, 1e9, "number of newest checkpoints to keep"),
        flag_text("log", &r.log_path, "FILE", "file with a line of JSON for each step"),
    };
    const char *usage = "FOLDER --data FILE --out FOLDER [flags]\n\n"
                        "Fine-tunes a language model of a Hugging Face folder.\n\n"
                        "The data:";
    run_profile_catch();
    const int n_flags = sizeof flags / sizeof *flags;
    if (read_flags(argc, argv, flags, n_flags, usage) != 1)
        fail_usage("one folder of a model is needed");
    check_flags(&r);
    const ct_context_opts opts = {.seed = (uint64_t)option.seed,
                                  .threads = (int)option.threads,
                                  .matmul = (ct_matmul_precision)option.matmul};
    tuning t = {.context = ct_context_new(opts)};
    check(t.context, EXIT_USAGE);
    option.matmul = ct_get_matmul(t.context); /* the environment variable may have set it */
    r.context = t.context;
    r.world = example_world(t.context);
    check(t.context, EXIT_FAILED);
    speak_as(ct_comm_rank(r.world), ct_comm_size(r.world));
    input_paths(1, (char *[]){(char *)option.data});
    if (option.valid) input_paths(1, (char *[]){(char *)option.valid});
    if (run_is_first(&r)) {
        run_files(&r);
        out_check(option.out);
    }
    fine_tune(&t, &r, argv[1], flags, n_flags);
    rows_free(&t.rows);
    rows_free(&t.held);
    documents_free(&t.documents);
    documents_free(&t.held_documents);
    free(t.order.order);
    ct_context_free(t.context);
    return 0;
}
