/* This program trains a GPT on the bytes of text files, measures its loss, and writes text with the
 * model. The default options are nanoGPT's recipe for a CPU.
 *
 * The alphabet is the set of bytes that occur in the text; the id of a byte is its index in the
 * alphabet. With --tokenizer a tokenizer.json gives the ids. The last tenth of the
 * ids is held back for validation.
 *
 * One process trains, or several processes, called ranks, divide the work (world.h). The result has
 * the same bits in both cases. All ranks run this program; only rank 0 prints, logs and writes
 * files. */
#include "gpt.h"
#include "gpt_write.h"
#include "plot.h"
#include "run.h"
#include "world.h"

#include <math.h>
#include <stdlib.h>

enum { MEASURED = 32 }; /* the number of windows in one batch of a validation */

/* Values of flags. The sizes of the model are in `gpt`, and the options of writing in
 * gpt_write.c. */
static struct {
    long long batch, micro_batches, shares, steps, warmup, eval_every, eval_windows;
    double lr, min_lr, beta1, beta2, weight_decay, clip;
    long long seed, threads, matmul;
    long long keep_partial, bf16_states;
    const char *out, *save, *sample, *tokenizer;
} option = {
    .batch = 12,
    .micro_batches = 1,
    .shares = 1,
    .steps = 2000,
    .warmup = 100,
    .eval_every = 100,
    .eval_windows = 128,
    .lr = 1e-3,
    .min_lr = 1e-4,
    .beta1 = 0.9,
    .beta2 = 0.99,
    .weight_decay = 0.1,
    .clip = 1,
    .seed = 1,
    .out = ".",
};

/* ---- the text ---- */

/* The whole text. */
typedef struct {
    int32_t *ids;
    int64_t n, bytes; /* the numbers of ids and of bytes */
} whole_text;

/* Reads the files one after the other, makes the alphabet, unless there is a tokenizer, and finds
 * the ids. */
static whole_text read_text(gpt *m, run *r, int files, char **paths) {
    contents t = m->tokenizer ? read_text_files(files, paths) : read_files(files, paths);
    run_same_text(r, &t);

    bool occurs[256] = {false};
    for (int64_t i = 0; i < t.length; i++) occurs[t.bytes[i]] = true;
    if (!m->tokenizer) gpt_alphabet(m, occurs);
    whole_text text = {.bytes = t.length};
    text.ids = gpt_encode(m, &t, &text.n);
    free(t.bytes);
    if (m->tokenizer) run_same_ids(r, text.ids, text.n);

    if (text.n < 20 || text.n - text.n / 10 <= m->window) {
        fail(EXIT_USAGE,
             "%lld %s of text are too few: "
             "nine tenths must be longer than the context of %lld",
             (long long)text.n, m->tokenizer ? "tokens" : "bytes", m->window);
    }
    return text;
}

/* ---- the loss ---- */

/* The ids of the text on which the model is trained. */
typedef struct {
    const int32_t *ids;
    int64_t n;      /* the number of ids */
    uint64_t phase; /* the start of the first window, as a fraction of the text times 2^64 */
} training_text;

/* Finds window i, which has t ids and the id that follows them; i counts windows over all steps. A
 * window starts later than the previous window by 0.618 of the text (the golden ratio), modulo the
 * text's length. This covers the text more evenly than random starts do. A window depends only on
 * i. So ranks need no messages to divide the windows, and a resumed run need not draw the earlier
 * windows. */
static const int32_t *window_at(const training_text *text, int64_t i, int64_t t) {
    uint64_t at = text->phase + (uint64_t)(i + 1) *
                                    0x9e3779b97f4a7c15u; /* 2^64 / 1.618...; the sum wraps around */
    double share = (double)(at >> 32) / 4294967296.0;
    return text->ids + (int64_t)(share * (double)(text->n - t));
}

/* Runs forward and backward of micro-batch i of a step, which adds to the gradients of the
 * parameters, and returns the loss. An error stays pending until the end of the step; then it
 * becomes an error of all ranks. */
static double learn(const gpt *m, const training_text *text, int64_t step, int64_t i) {
    ct_scope scope = ct_scope_open(m->context);
    int64_t k = option.batch / option.micro_batches;
    int64_t first = step * option.batch + i * k;
    gpt_batch b = gpt_batch_make(m, k, m->window);
    for (int64_t j = 0; j < k; j++) gpt_batch_set(&b, j, window_at(text, first + j, b.t));
    ct_tensor *loss = gpt_loss(m, &b);
    ct_backward(loss);
    double value = ct_item(loss);
    ct_scope_close(scope);
    return value;
}

/* The text for validation, which always has the same windows. */
typedef struct {
    const int32_t *ids;
    int64_t n;      /* the number of ids */
    int64_t bytes;  /* the number of bytes that they stand for */
    int64_t spread; /* the number of windows, at equal distances; 0: windows that cover all ids */
} held_text;

static held_text make_held_text(const gpt *m, const whole_text *t) {
    held_text h = {.n = t->n / 10, .spread = option.eval_windows};
    h.ids = t->ids + t->n - h.n;
    h.bytes = gpt_bytes(m, h.ids, h.n);
    if (h.spread >= (h.n - 1) / m->window) h.spread = 0; /* the text has no more windows */
    return h;
}

/* Finds the start of window i and returns the number of ids to predict: `window`, or fewer in the
 * last window of the whole text, because no id follows the last one. Returns 0 after the last
 * window. */
static int64_t held_window(const held_text *h, int64_t window, int64_t i, int64_t *begin) {
    if (h->spread > 0) {
        *begin = (2 * i + 1) * (h->n - 1 - window) / (2 * h->spread);
        return i < h->spread ? window : 0;
    }
    *begin = i * window;
    const int64_t left = h->n - 1 - *begin;
    if (left >= window) return window;
    return left > 0 ? left : 0;
}

/* Computes the sum of the losses over one batch: up to MEASURED windows of equal length, from
 * `first` on. Adds the number of their ids to *ids and returns the next window. Nothing is recorded
 * for backward. */
static int64_t measure_batch(const gpt *m, const held_text *h, int64_t first, bool here,
                             double *sum, int64_t *ids) {
    int64_t begin[MEASURED], k = 0;
    const int64_t t = held_window(h, m->window, first, &begin[0]);
    while (k < MEASURED && t > 0 && held_window(h, m->window, first + k, &begin[k]) == t) k++;
    *ids += k * t;
    if (k == 0 || !here) return first + k;
    ct_scope scope = ct_scope_open_no_grad(m->context);
    gpt_batch b = gpt_batch_make(m, k, t);
    for (int64_t i = 0; i < k; i++) gpt_batch_set(&b, i, h->ids + begin[i]);
    *sum = ct_item(gpt_loss(m, &b)) * (double)(k * t);
    ct_scope_close(scope);
    return first + k;
}

/* Returns the mean loss over the text for validation. The batches are divided among the ranks. */
static double measure(const gpt *m, const run *r, const held_text *h) {
    int64_t room = (h->n - 1) / (MEASURED * m->window) + h->spread / MEASURED + 3;
    ct_scope scope = ct_scope_open(m->context);
    /* One sum for each batch. */
    double *sums = ct_data_f64(ct_zeros(m->context, CT_F64, CT_SHAPE(room)));
    ct_module_train(m->root, false); /* no dropout */
    int64_t batches = 0, ids = 0, before = -1;
    for (int64_t i = 0; sums && i != before; batches++) {
        before = i;
        const bool here = batches % ct_comm_size(r->world) == ct_comm_rank(r->world);
        i = measure_batch(m, h, i, here, &sums[batches], &ids);
    }
    ct_module_train(m->root, true);
    ct_dist_sum(r->dist, sums, batches); /* now all ranks have all the sums */
    check(m->context, EXIT_FAILED);
    double sum = 0;
    for (int64_t i = 0; i < batches; i++) sum += sums[i];
    ct_scope_close(scope);
    return sum / (double)ids;
}

/* Prints the loss, and the bits of a byte, which can be compared between models of different
 * ids. */
static void print_measured(const held_text *h, int64_t window, double loss) {
    if (h->spread == 0)
        printf("Loss over the whole last tenth, in windows of %lld: %.4f\n", (long long)window,
               loss);
    else
        printf("Loss over %lld window%s of %lld, evenly spread over the last tenth: %.4f\n",
               (long long)h->spread, PLURAL(h->spread), (long long)window, loss);
    printf("Bits per byte: %.4f\n", loss / log(2) * (double)h->n / (double)h->bytes);
}

/* ---- training ---- */

/* The data of the two curves in the picture. */
typedef struct {
    double *losses;        /* the loss of each training step */
    double *at, *measured; /* the step and the loss of each validation */
    int64_t points;        /* the number of validations */
    double
        seconds; /* the time that the run has taken, without the time between a stop and a resume */
} history;

static history make_history(ct_context *context) {
    int64_t room = option.steps + 2;
    history h = {
        .losses = ct_data_f64(ct_zeros(context, CT_F64, CT_SHAPE(room))),
        .at = ct_data_f64(ct_zeros(context, CT_F64, CT_SHAPE(room))),
        .measured = ct_data_f64(ct_zeros(context, CT_F64, CT_SHAPE(room))),
        .points = 1, /* the first point is the untrained model's */
    };
    check(context, EXIT_FAILED);
    return h; /* the context frees it */
}

/* Adds the log line of a step to the curves. It is also called for the steps that were logged
 * before a run was resumed. */
static void add_step(void *to, const log_line *line) {
    history *h = to;
    if (line->step > option.steps) return;
    h->losses[line->step - 1] = line->loss;
    h->seconds = line->seconds;
    if (isnan(line->validation)) return;
    h->at[h->points] = (double)line->step;
    h->measured[h->points] = line->validation;
    h->points++;
}

static void draw(const gpt *m, const history *h, int64_t steps, const char *path) {
    curve curves[] = {
        {.name = "training", .colour = "#1f6fb4", .y = h->losses, .n = steps, .noisy = true},
        {.name = "validation", .colour = "#c0392b", .x = h->at, .y = h->measured, .n = h->points},
    };
    plot_curves(path, "Loss of a GPT", "step",
                m->tokenizer ? "nats per token" : "nats per character", curves, 2);
}

static ct_optim *make_optim(const gpt *m) {
    ct_adamw_opts adamw = {
        .beta1 = option.beta1,
        .beta2 = option.beta2,
        .weight_decay = option.weight_decay,
        .decay_matrices_only = true,
        .clip_norm = option.clip > 0 ? option.clip
                                     : 1e300, /* 1e300 clips nothing, but the norm is computed */
        .state_dtype = option.bf16_states ? CT_BF16 : CT_F32,
    };
    return ct_adamw_new(m->root, adamw);
}

/* The learning rate rises during the warm-up, then falls along a cosine. */
static double learning_rate(int64_t step) {
    ct_lr_cosine_opts schedule = {
        .peak = option.lr,
        .floor = option.min_lr,
        .warmup = option.warmup,
        .total = option.steps,
    };
    return ct_lr_cosine(schedule, step);
}

/* Runs a training step: each rank computes its micro-batches, and then all ranks update the
 * parameters. Returns the loss, and sets *ends if Ctrl-C was pressed on a rank. Both are the same
 * on all ranks. */
static double train_step(const gpt *m, ct_dist *dist, const training_text *text, int64_t step,
                         bool *ends) {
    const int64_t n = option.micro_batches;
    ct_scope scope = ct_scope_open(m->context);
    double *shared = ct_data_f64(ct_zeros(m->context, CT_F64, CT_SHAPE(n + 1)));
    for (int64_t i; ct_dist_next(dist, &i);) shared[i] = learn(m, text, step, i);
    ct_dist_step(dist);
    if (shared) shared[n] = interrupted();
    ct_dist_sum(dist, shared, n + 1); /* each rank has filled in only its own values */
    check(m->context, EXIT_FAILED);   /* errors are sticky, so one check covers the whole step */
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += shared[i];
    *ends = shared[n] > 0;
    ct_scope_close(scope);
    return sum / (double)n;
}

/* Saves the model, draws its loss, and says so. */
static void save(gpt *m, const history *h, int64_t step, const char *model_path,
                 const char *picture_path) {
    gpt_save(m, model_path);
    draw(m, h, step, picture_path);
    printf("%s the model as %s, its loss as %s\n",
           step == option.steps ? "Saved" : "Interrupted: saved", model_path, picture_path);
}

/* Trains until all steps are done or Ctrl-C is pressed; then saves the model and draws its loss.
 * Returns false if the run was interrupted. */
static bool train(gpt *m, const whole_text *t, run *r, const char *model_path,
                  const char *picture_path) {
    const held_text held = make_held_text(m, t); /* the last tenth */
    ct_optim *optim = make_optim(m);
    ct_dist_opts parts = {.micro_batches = option.micro_batches, .shares = option.shares};
    r->dist = ct_dist_new(optim, r->world, parts);
    check(m->context, EXIT_USAGE);
    history h = make_history(m->context);
    training_text text = {
        .ids = t->ids,
        .n = t->n - held.n,
        .phase = (uint64_t)ct_random_below(m->context, INT64_MAX),
    };
    if (m->tokenizer)
        printf("%lld parameters; %lld bytes of text, %lld tokens, vocabulary %d\n",
               (long long)ct_module_count(m->root), (long long)t->bytes, (long long)t->n,
               m->letters);
    else
        printf("%lld parameters; %lld bytes of text, %d different ones\n",
               (long long)ct_module_count(m->root), (long long)t->bytes, m->letters);

    catch_interrupts();
    double measured = NAN;
    run_restore(r, "untrained", &h.measured[0]);
    run_restore(r, "validation", &measured);
    int64_t step = run_start(r, m->root, optim, add_step, &h);
    if (step > 0) printf("Goes on after step %lld\n", (long long)step);
    else h.measured[0] = measured = measure(m, r, &held);
    int64_t measured_at = step - step % option.eval_every;

    ct_profile_start(m->context);
    progress bar = {
        .total = option.steps,
        .first = step,
        .per_step = (double)(option.batch * m->window),
        .unit = "tokens/s",
        .begun = now(),
    };
    double earlier = h.seconds;
    bool ends = false;
    while (step < option.steps && !ends) {
        double begun = now();
        ct_optim_set_lr(optim, learning_rate(step));
        double loss = train_step(m, r->dist, &text, step, &ends);
        step++;

        log_line line = {
            .step = step,
            .loss = loss,
            .validation = NAN,
            .lr = learning_rate(step - 1),
            .grad_norm = ct_optim_grad_norm(optim),
            .tokens_per_s = bar.per_step / (now() - begun),
            .peak_bytes = ct_memory(m->context).peak,
        };
        if (step % option.eval_every == 0 || step == option.steps) {
            line.validation = measured = measure(m, r, &held);
            measured_at = step;
        }
        line.seconds = earlier + now() - bar.begun;
        add_step(&h, &line);
        run_step(r, &line);
        if (!isfinite(loss) || !isfinite(line.grad_norm))
            fail(EXIT_FAILED, "the %s of step %lld is no number: try a smaller --lr",
                 isfinite(loss) ? "gradient" : "loss", (long long)step);
        char of_step[32] = ""; /* names the step if the loss was measured at an earlier step */
        if (measured_at < step)
            snprintf(of_step, sizeof of_step, " (step %lld)", (long long)measured_at);
        progress_show(&bar, step, "loss %.3f  validation %.3f%s", loss, measured, of_step);
        run_profile_show(m->context);
    }
    progress_end();
    ct_profile_stop(m->context);

    bool complete = step == option.steps;
    run_save(r, step);
    if (complete) print_measured(&held, m->window, measured);
    else run_say_interrupted(r, step, option.keep_partial);
    if (complete && loss_is_worse(measured, h.measured[0]))
        fail(EXIT_FAILED,
             "the loss over the last tenth is %.4f after the training and was %.4f before it: "
             "nothing is saved. Try a smaller --lr",
             measured, h.measured[0]);
    if (run_is_first(r) && (complete || option.keep_partial))
        save(m, &h, step, model_path, picture_path);
    run_end(r);
    return complete;
}

/* ---- the program ---- */

int main(int argc, char **argv) {
    gpt m = {.layers = 4, .heads = 4, .width = 128, .window = 64};
    run r = {.every = 100, .keep = 3};
    writing w = {.length = 500, .temperature = 0.8, .cached = 1};
    const flag flags[] = {
        flag_integer("layers", &m.layers, 1, MAX_LAYERS, "blocks of attention and feed-forward"),
        flag_integer("heads", &m.heads, 1, 1024, "attention heads; must divide the width"),
        flag_integer("width", &m.width, 1, 65536, "size of a character's vector"),
        flag_integer("context", &m.window, 1, 65536, "most characters or tokens in the context"),
        flag_text("tokenizer", &option.tokenizer, "FILE",
                  "a tokenizer.json, whose tokens replace bytes; also for --sample"),
        flag_switch("bias", &m.bias, "biases in linear layers and norms"),
        flag_real("dropout", &m.dropout, "P", 0, 0.99,
                  "dropout of attention weights, blocks and embeddings"),
        flag_heading("Training"),
        flag_integer("steps", &option.steps, 1, 1e9, "training steps"),
        flag_integer("batch", &option.batch, 1, 65536, "windows in a step, over all micro-batches"),
        flag_integer("micro-batches", &option.micro_batches, 1, 65536,
                     "parts of the batch; one at a time is in memory"),
        flag_integer("shares", &option.shares, 1, 65536,
                     "most ranks that can train; a power of two that divides --micro-batches"),
        flag_real("lr", &option.lr, "X", 0, 10, "highest learning rate, after the warm-up"),
        flag_real("min-lr", &option.min_lr, "X", 0, 10, "learning rate at the end of its cosine"),
        flag_integer("warmup", &option.warmup, 0, 1e9, "steps in which the rate rises"),
        flag_real("beta1", &option.beta1, "X", 1e-6, 0.999999, "AdamW's decay of the mean"),
        flag_real("beta2", &option.beta2, "X", 1e-6, 0.999999, "AdamW's decay of the square"),
        flag_switch("bf16-states", &option.bf16_states,
                    "keep AdamW's averages in bf16: half their memory"),
        flag_real("weight-decay", &option.weight_decay, "X", 0, 10, "weight decay of matrices"),
        flag_real("clip", &option.clip, "X", 0, 1e9, "largest norm of the gradient; 0: any"),
        flag_integer("eval-every", &option.eval_every, 1, 1e9,
                     "steps from one validation to the next"),
        flag_integer("eval-windows", &option.eval_windows, 0, 1e9,
                     "windows in a validation, spread over the last tenth; 0: all"),
        flag_heading("Writing"),
        flag_text("sample", &option.sample, "FILE", "write text with this model, without training"),
        flag_text("prompt", &w.prompt, "TEXT", "beginning of the text"),
        flag_integer("length", &w.length, 0, 1e9, "characters or tokens to write"),
        flag_real("temperature", &w.temperature, "X", 0, 100,
                  "below 1 more predictable, above 1 less; 0: the most probable"),
        flag_integer("top-k", &w.top_k, 0, 1e9, "draw among the k most probable; 0: all"),
        flag_real("top-p", &w.top_p, "P", 0, 1,
                  "draw among the most probable, up to a sum of P; 0: all"),
        flag_switch("cache", &w.cached, "cache keys and values: the same text, faster"),
        flag_heading("The run"),
        flag_integer("seed", &option.seed, 0, 1e18, "seed of the random numbers"),
        flag_integer("threads", &option.threads, 0, 1024,
                     "number of threads; 0: one for each core"),
        flag_matmul(&option.matmul),
        flag_text("out", &option.out, "DIR", "folder for the loss curve and the model"),
        flag_switch("keep-partial", &option.keep_partial, "save also if the run is interrupted"),
        flag_text("save", &option.save, "FILE", "file for the model, instead of --out"),
        flag_text("checkpoint", &r.folder, "DIR",
                  "folder of checkpoints; continues from the newest one, with equal flags"),
        flag_integer("every", &r.every, 1, 1e9, "steps from one checkpoint to the next"),
        flag_integer("keep", &r.keep, 1, 1e9, "number of newest checkpoints to keep"),
        flag_text("log", &r.log_path, "FILE", "file with a line of JSON for each step"),
    };
    const char *usage =
        "[flags] FILE...\n\n"
        "Trains a GPT on text files, or with --sample writes text from a trained one.\n\n"
        "The model:";
    run_profile_catch();
    const int n_flags = sizeof flags / sizeof *flags;
    int files = read_flags(argc, argv, flags, n_flags, usage);
    if (option.sample && files)
        fail(EXIT_USAGE, "--sample trains nothing, so it takes no text: %s", argv[1]);
    if (!option.sample && !files) fail_usage("no text to train on");
    if (option.sample && (r.folder || r.log_path || option.save))
        fail(EXIT_USAGE, "--sample trains nothing, so it takes no %s",
             r.folder     ? "--checkpoint"
             : r.log_path ? "--log"
                          : "--save");
    for (int i = 0; i < 2 && !r.folder; i++) {
        const char *name = i ? "keep" : "every";
        if (flag_was_read(name))
            fail(EXIT_USAGE, "--%s is about checkpoints: --checkpoint DIR says where they go",
                 name);
    }
    if (option.batch % option.micro_batches)
        fail(EXIT_USAGE, "--batch %lld is no multiple of --micro-batches %lld", option.batch,
             option.micro_batches);

    ct_context_opts opts = {
        .seed = (uint64_t)option.seed,
        .threads = (int)option.threads,
        .matmul = (ct_matmul_precision)option.matmul,
    };
    m.context = ct_context_new(opts);
    check(m.context, EXIT_USAGE);
    option.matmul =
        ct_get_matmul(m.context); /* the environment variable CT_MATMUL may have set it */
    r.context = m.context;
    r.world = example_world(m.context);
    check(m.context, EXIT_FAILED);
    speak_as(ct_comm_rank(r.world), ct_comm_size(r.world));
    input_paths(files, argv + 1);
    if (option.tokenizer) input_paths(1, (char *[]){(char *)option.tokenizer});
    const bool writes = run_is_first(&r);
    bool complete = true;
    if (option.tokenizer) gpt_tokenizer(&m, option.tokenizer);
    if (option.sample) {
        gpt_load(&m, option.sample);
        gpt_prompt(&m, w.prompt);
    } else {
        const char *model_path = NULL, *picture_path = NULL;
        if (run_is_first(&r)) {
            model_path = option.save ? output_path(NULL, option.save)
                                     : output_path(option.out, "char_lm.safetensors");
            picture_path = output_path(option.out, "char_lm_loss.svg");
            run_files(&r);
        }
        run_same_flags(&r, flags, n_flags,
                       "layers heads width context bias dropout steps batch micro-batches shares "
                       "lr min-lr warmup beta1 beta2 bf16-states weight-decay clip eval-every "
                       "eval-windows seed matmul");
        whole_text t = read_text(&m, &r, files, argv + 1);
        gpt_prompt(&m, w.prompt);
        gpt_make(&m);
        complete = train(&m, &t, &r, model_path, picture_path);
        free(t.ids);
    }
    if (writes && complete && !interrupted()) gpt_write(&m, &w);
    ct_context_free(m.context);
    return complete ? 0 : interrupt_exit();
}
