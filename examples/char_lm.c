/* A GPT on the bytes of text files: trains it, measures its loss, and writes text with it. The
 * defaults are nanoGPT's recipe for a CPU. The alphabet is the set of bytes that occur in the text;
 * the id of a byte is its index in the alphabet. The last tenth of the text is not trained on: it
 * is for validation. */
#include "gpt.h"
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEASURED = 32 }; /* windows in a batch of a validation */

/* The values of the flags, except the model's sizes. */
static struct {
    long long batch, steps, warmup, eval_every;
    double lr, min_lr, beta1, beta2, weight_decay, clip;
    long long length, top_k, cached;
    double temperature, top_p;
    long long seed, threads;
    const char *out, *save, *sample, *prompt;
} option = {
    .batch = 12,
    .steps = 2000,
    .warmup = 100,
    .eval_every = 100,
    .lr = 1e-3,
    .min_lr = 1e-4,
    .beta1 = 0.9,
    .beta2 = 0.99,
    .weight_decay = 0.1,
    .clip = 1,
    .length = 500,
    .cached = 1,
    .temperature = 0.8,
    .seed = 1,
    .out = ".",
};

/* ---- the text ---- */

/* Reads the files one after the other, makes the alphabet, and replaces each byte by its id. */
static contents read_text(gpt *m, run *r, int files, char **paths) {
    contents t = read_files(files, paths);
    run_same_text(r, &t);

    bool occurs[256] = {false};
    for (int64_t i = 0; i < t.length; i++) occurs[t.bytes[i]] = true;
    gpt_alphabet(m, occurs);
    for (int64_t i = 0; i < t.length; i++) t.bytes[i] = (unsigned char)m->id[t.bytes[i]];

    if (t.length < 20 || t.length - t.length / 10 <= m->window) {
        fail(EXIT_USAGE,
             "%lld bytes of text are too few: "
             "nine tenths must be longer than the context of %lld",
             (long long)t.length, m->window);
    }
    return t;
}

/* ---- the loss ---- */

/* Where training window i of all steps begins, 0 ... n - 1. Steps of the golden ratio cover a text
 * more evenly than random starts do, and a run that goes on need not draw the earlier ones. */
static int64_t window_start(uint64_t phase, int64_t i, int64_t n) {
    uint64_t at = phase + (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u; /* 2^64 over the golden ratio */
    double share = (double)(at >> 32) / 4294967296.0;              /* the sum wraps around */
    return (int64_t)(share * (double)n);
}

/* Forward and backward of the batch of a step from ids (n). Returns the loss; the gradients are in
 * the model. */
static double learn(const gpt *m, const unsigned char *ids, int64_t n, uint64_t phase,
                    int64_t step) {
    ct_scope scope = ct_scope_open(m->context);
    gpt_batch b = gpt_batch_make(m, option.batch, m->window);
    for (int64_t i = 0; i < b.k; i++)
        gpt_batch_set(&b, i, ids + window_start(phase, step * b.k + i, n - b.t));
    ct_tensor *loss = gpt_loss(m, &b);
    ct_backward(loss);
    double value = ct_item(loss);
    check(m->context, EXIT_FAILED); /* errors are sticky, so one check covers all of these calls */
    ct_scope_close(scope);
    return value;
}

/* The mean loss over k windows of t ids that follow each other. Nothing is recorded for
 * backward. */
static double measure_windows(const gpt *m, const unsigned char *ids, int64_t k, int64_t t) {
    ct_scope scope = ct_scope_open_no_grad(m->context);
    gpt_batch b = gpt_batch_make(m, k, t);
    for (int64_t i = 0; i < k; i++) gpt_batch_set(&b, i, ids + i * t);
    double value = ct_item(gpt_loss(m, &b));
    check(m->context, EXIT_FAILED);
    ct_scope_close(scope);
    return value;
}

/* The mean loss over ids (n). NaN if it may be interrupted, and Ctrl-C came first. */
static double measure(const gpt *m, const unsigned char *ids, int64_t n, bool may_end) {
    double sum = 0;
    int64_t done = 0;
    ct_module_train(m->root, false); /* without dropout */
    while (done < n - 1 && !(may_end && interrupted())) {
        int64_t left = n - 1 - done; /* the last id has none that follows it */
        int64_t t = m->window;
        int64_t k = left / t;
        if (k > MEASURED) k = MEASURED;
        if (k == 0) { /* the last window is shorter */
            k = 1;
            t = left;
        }
        sum += measure_windows(m, ids + done, k, t) * (double)(k * t);
        done += k * t;
    }
    ct_module_train(m->root, true);
    return done < n - 1 ? NAN : sum / (double)(n - 1);
}

/* ---- training ---- */

/* The two curves of the picture. */
typedef struct {
    double *losses;        /* of each training step */
    double *at, *measured; /* validation: after how many steps, and the loss */
    int64_t points;        /* how many of these */
    double seconds;        /* of the run so far, without pauses */
} history;

static history make_history(ct_context *context) {
    int64_t room = option.steps + 2;
    history h = {
        .losses = ct_data_f64(ct_zeros(context, CT_F64, CT_SHAPE(room))),
        .at = ct_data_f64(ct_zeros(context, CT_F64, CT_SHAPE(room))),
        .measured = ct_data_f64(ct_zeros(context, CT_F64, CT_SHAPE(room))),
        .points = 1, /* the first is of the untrained model */
    };
    check(context, EXIT_FAILED);
    return h; /* the context frees it */
}

/* What a step adds, also one of a run that goes on, from its log. */
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

static void draw(const history *h, int64_t steps, const char *path) {
    curve curves[] = {
        {.name = "training", .colour = "#1f6fb4", .y = h->losses, .n = steps, .noisy = true},
        {.name = "validation", .colour = "#c0392b", .x = h->at, .y = h->measured, .n = h->points},
    };
    plot_curves(path, "Loss of a GPT", "step", "nats per character", curves, 2);
}

static ct_optim *make_optim(const gpt *m) {
    ct_adamw_opts adamw = {
        .beta1 = option.beta1,
        .beta2 = option.beta2,
        .weight_decay = option.weight_decay,
        .decay_matrices_only = true,
        .clip_norm = option.clip > 0 ? option.clip : 1e300, /* so that a step has a norm to log */
    };
    return ct_adamw_new(m->root, adamw);
}

/* Rises during the warm-up, then falls along a cosine. */
static double learning_rate(int64_t step) {
    ct_lr_cosine_opts schedule = {
        .peak = option.lr,
        .floor = option.min_lr,
        .warmup = option.warmup,
        .total = option.steps,
    };
    return ct_lr_cosine(schedule, step);
}

/* Trains until all steps are done or Ctrl-C; saves the model and draws its loss. */
static void train(gpt *m, const contents *t, run *r, const char *model_path,
                  const char *picture_path) {
    int64_t held = t->length / 10; /* the last tenth */
    int64_t n = t->length - held;
    int64_t sample = held; /* for the validations during training, a part of a long text */
    if (sample > 128 * m->window) sample = 128 * m->window;
    const unsigned char *validation = t->bytes + n;

    ct_optim *optim = make_optim(m);
    history h = make_history(m->context);
    uint64_t phase = (uint64_t)ct_random_below(m->context, INT64_MAX);
    printf("%lld parameters; %lld bytes of text, %d different ones\n",
           (long long)ct_module_count(m->root), (long long)t->length, m->letters);

    catch_interrupts();
    double measured = NAN;
    run_restore(r, "untrained", &h.measured[0]);
    run_restore(r, "validation", &measured);
    int64_t step = run_start(r, m->root, optim, add_step, &h);
    if (step > 0) printf("Goes on after step %lld\n", (long long)step);
    else h.measured[0] = measured = measure(m, validation, sample, false);

    ct_profile_start(m->context);
    progress bar = {
        .total = option.steps,
        .first = step,
        .per_step = (double)(option.batch * m->window),
        .unit = "tokens/s",
        .begun = now(),
    };
    double earlier = h.seconds;
    while (step < option.steps && !interrupted()) {
        double begun = now();
        ct_optim_zero_grad(optim);
        double loss = learn(m, t->bytes, n, phase, step);
        ct_optim_set_lr(optim, learning_rate(step));
        ct_optim_step(optim);
        check(m->context, EXIT_FAILED);
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
        if (step % option.eval_every == 0 || step == option.steps)
            line.validation = measured = measure(m, validation, sample, false);
        line.seconds = earlier + now() - bar.begun;
        add_step(&h, &line);
        run_step(r, &line);
        if (!isfinite(loss))
            fail(EXIT_FAILED, "the loss of step %lld is no number: try a smaller --lr",
                 (long long)step);
        progress_show(&bar, step, "loss %.3f  validation %.3f", loss, measured);
        run_profile_show(m->context);
    }
    progress_end();
    ct_profile_stop(m->context);

    bool complete = step == option.steps;
    run_save(r, step);
    gpt_save(m, model_path);
    if (complete) {
        measured = measure(m, validation, held, true);
        if (!isnan(measured))
            printf("Loss over the whole last tenth, in windows of %lld: %.4f\n", m->window,
                   measured);
    }
    draw(&h, step, picture_path);
    printf("%s the model as %s, its loss as %s\n", complete ? "Saved" : "Interrupted: saved",
           model_path, picture_path);
    run_end(r);
}

/* ---- writing ---- */

/* The ids of --prompt; without one, of a new line, or of the first letter if there is no new
 * line. */
static int64_t prompt_ids(const gpt *m, int64_t *ids) {
    if (!option.prompt || !*option.prompt) {
        ids[0] = m->id['\n'] < 0 ? 0 : m->id['\n'];
        return 1;
    }
    int64_t n = (int64_t)strlen(option.prompt);
    for (int64_t i = 0; i < n; i++) ids[i] = m->id[(unsigned char)option.prompt[i]];
    return n;
}

/* Draws the id that follows ids[from] ... ids[to - 1]. Ids that are in the caches are not read
 * again. */
static int64_t draw_next(const gpt *m, const int64_t *ids, int64_t from, int64_t to,
                         ct_kv_cache **caches) {
    int64_t first = from;
    if (caches) first += ct_kv_cache_length(caches[0]);
    ct_scope scope = ct_scope_open_no_grad(m->context);
    ct_tensor *input = ct_from_i64(m->context, CT_SHAPE(1, to - first), ids + first); /* (1, t) */
    ct_tensor *x = gpt_features(m, input, (ct_stack_call){.caches = caches});   /* (1, t, E) */
    ct_tensor *last = ct_select(x, 1, -1);                                      /* (1, E) */
    ct_tensor *logits = ct_linear(last, ct_module_get(m->wte, "weight"), NULL); /* (1, letters) */
    ct_sample_opts opts = {
        .temperature = option.temperature,
        .top_k = option.top_k,
        .top_p = option.top_p,
    };
    int64_t id = 0;
    ct_sample(logits, opts, &id, 1);
    check(m->context, EXIT_FAILED);
    ct_scope_close(scope);
    return id;
}

static void print_id(const gpt *m, int64_t id) {
    putchar(m->letter[id]);
    fflush(stdout);
}

/* Prints the prompt and what the model makes of it, one character at a time.
 *
 * The model has learned positions, so it reads at most one window. When the window is full, a new
 * one begins with the last half of the old one, which is read again: about one more character for
 * each one written. Without caches the whole window is read for each character. */
static void write_text(const gpt *m) {
    int64_t room = option.length + 1;
    if (option.prompt) room += (int64_t)strlen(option.prompt);
    int64_t *ids = ct_data_i64(ct_zeros(m->context, CT_I64, CT_SHAPE(room)));
    ct_kv_cache *layers[MAX_LAYERS];
    ct_kv_cache **caches = option.cached ? layers : NULL;
    if (caches) ct_kv_caches_new(m->h, 1, m->window, caches, m->layers);
    check(m->context, EXIT_FAILED);
    ct_module_train(m->root, false);

    int64_t begin = prompt_ids(m, ids);
    for (int64_t i = 0; i < begin; i++) print_id(m, ids[i]);

    double begun = now();
    int64_t from = 0; /* where the window begins */
    int64_t end = begin;
    while (end < begin + option.length && !interrupted()) {
        if (end - from > m->window) {
            from = end - (m->window + 1) / 2;
            for (int i = 0; caches && i < m->layers; i++) ct_kv_cache_truncate(caches[i], 0);
        }
        ids[end] = draw_next(m, ids, from, end, caches);
        print_id(m, ids[end]);
        end++;
    }
    double seconds = now() - begun;
    double written = (double)(end - begin);
    printf("\n");
    if (end > begin) {
        printf("%.0f tokens, %.0f tokens/s %s a cache\n", written, written / seconds,
               caches ? "with" : "without");
    }
    for (int i = 0; caches && i < m->layers; i++) ct_kv_cache_free(caches[i]);
}

/* ---- the program ---- */

int main(int argc, char **argv) {
    gpt m = {.layers = 4, .heads = 4, .width = 128, .window = 64};
    run r = {.every = 100, .keep = 3};
    const flag flags[] = {
        flag_integer("layers", &m.layers, 1, MAX_LAYERS, "blocks of attention and feed-forward"),
        flag_integer("heads", &m.heads, 1, 1024, "of attention; a divisor of the width"),
        flag_integer("width", &m.width, 1, 65536, "numbers that stand for a character"),
        flag_integer("context", &m.window, 1, 65536, "characters it sees at once"),
        flag_switch("bias", &m.bias, "biases in linear layers and norms"),
        flag_real("dropout", &m.dropout, "P", 0, 0.99,
                  "of attention weights, blocks and embeddings"),
        flag_heading("Training"),
        flag_integer("steps", &option.steps, 1, 1e9, "training steps"),
        flag_integer("batch", &option.batch, 1, 65536, "windows a step"),
        flag_real("lr", &option.lr, "X", 0, 10, "highest learning rate, after the warm-up"),
        flag_real("min-lr", &option.min_lr, "X", 0, 10, "learning rate at the end, down a cosine"),
        flag_integer("warmup", &option.warmup, 0, 1e9, "steps in which the rate rises"),
        flag_real("beta1", &option.beta1, "X", 1e-6, 0.999999, "AdamW's decay of the mean"),
        flag_real("beta2", &option.beta2, "X", 1e-6, 0.999999, "AdamW's decay of the square"),
        flag_real("weight-decay", &option.weight_decay, "X", 0, 10, "of matrices"),
        flag_real("clip", &option.clip, "X", 0, 1e9, "largest norm of the gradient; 0: any"),
        flag_integer("eval-every", &option.eval_every, 1, 1e9,
                     "steps from one validation to the next"),
        flag_heading("Writing"),
        flag_text("sample", &option.sample, "FILE", "write with this model, train nothing"),
        flag_text("prompt", &option.prompt, "TEXT", "what the text begins with"),
        flag_integer("length", &option.length, 0, 1e9, "characters to write"),
        flag_real("temperature", &option.temperature, "X", 0, 100,
                  "below 1 safer, above 1 wilder; 0: always the likeliest"),
        flag_integer("top-k", &option.top_k, 0, 256, "choose among the k likeliest; 0: all"),
        flag_real("top-p", &option.top_p, "P", 0, 1, "among the likeliest that make up p; 0: all"),
        flag_switch("cache", &option.cached,
                    "keep the keys and values of what is written: the same text, sooner"),
        flag_heading("The run"),
        flag_integer("seed", &option.seed, 0, 1e18, "of everything random"),
        flag_integer("threads", &option.threads, 0, 1024, "that compute; 0: every core"),
        flag_text("out", &option.out, "DIR", "where the loss curve goes, and the model"),
        flag_text("save", &option.save, "FILE", "where the model goes instead"),
        flag_text("checkpoint", &r.folder, "DIR", "for checkpoints; goes on from the newest"),
        flag_integer("every", &r.every, 1, 1e9, "steps from one checkpoint to the next"),
        flag_integer("keep", &r.keep, 1, 1e9, "checkpoints that stay, the newest"),
        flag_text("log", &r.log_path, "FILE", "a line of JSON for each step"),
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
    if (!option.sample && !files) fail(EXIT_USAGE, "no text to train on (--help says more)");

    ct_context_opts opts = {.seed = (uint64_t)option.seed, .threads = (int)option.threads};
    m.context = ct_context_new(opts);
    check(m.context, EXIT_USAGE);
    if (option.sample) {
        gpt_load(&m, option.sample);
        gpt_prompt(&m, option.prompt);
    } else {
        const char *model_path = option.save ? output_path(NULL, option.save)
                                             : output_path(option.out, "char_lm.safetensors");
        const char *picture_path = output_path(option.out, "char_lm_loss.svg");
        r.context = m.context;
        run_same_flags(&r, flags, n_flags,
                       "layers heads width context bias dropout steps batch lr min-lr warmup beta1 "
                       "beta2 weight-decay clip eval-every seed");
        contents t = read_text(&m, &r, files, argv + 1);
        gpt_prompt(&m, option.prompt);
        gpt_make(&m);
        train(&m, &t, &r, model_path, picture_path);
        free(t.bytes);
    }
    if (!interrupted()) write_text(&m);
    ct_context_free(m.context);
    return 0;
}
