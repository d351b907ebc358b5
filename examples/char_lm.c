/* A GPT on the bytes of text files: trains it, measures it, lets it write. The defaults are nanoGPT's recipe for a CPU. The alphabet
 * is the bytes that occur, and the last tenth of the text is kept for validation. */
#include "gpt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MEASURED = 32 /* windows at once when nothing is learned */ };

/* What the flags set, beside the model's sizes. */
static long long batch = 12, steps = 2000, warmup = 100, eval_every = 100, length = 500, top_k = 0, cached = 1, seed = 1, threads = 0;
static double lr = 1e-3, min_lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0.1, clip = 1, temperature = 0.8, top_p = 0;
static const char *out = ".", *save_path = NULL, *sample = NULL, *prompt = NULL;
static unsigned char *text; /* the ids of its bytes */
static long long text_length, text_room;
static uint64_t phase; /* of the last training window: steps of the golden ratio cover the text evenly, which chance does not */

static void read_text(gpt *m, int files, char **paths) {
    bool occurs[256] = {false};
    for (int i = 0; i < files; i++) {
        long long before = text_length;
        FILE *file = fopen(paths[i], "rb");
        if (!file) fail(EXIT_USAGE, "cannot open %s: %s", paths[i], strerror(errno));
        for (int byte; (byte = getc(file)) != EOF; text[text_length++] = (unsigned char)byte, occurs[byte] = true)
            if (text_length == text_room && !(text = realloc(text, (size_t)(text_room = 2 * text_room + 65536))))
                fail(EXIT_FAILED, "out of memory");
        if (ferror(file)) fail(EXIT_USAGE, "cannot read %s: %s", paths[i], strerror(errno));
        if (text_length == before) fail(EXIT_USAGE, "%s is empty", paths[i]);
        fclose(file);
    }
    gpt_alphabet(m, occurs);
    for (long long i = 0; i < text_length; i++) text[i] = (unsigned char)m->id[text[i]];
    if (text_length < 20 || text_length - text_length / 10 <= m->window)
        fail(EXIT_USAGE, "%lld bytes of text are too few: nine tenths must be longer than the context of %lld", text_length, m->window);
}

/* The mean loss over k windows of t ids: in training some of ids (n), with their gradients; else consecutive ones. */
static double window_loss(const gpt *m, const unsigned char *ids, int64_t n, int64_t k, int64_t t) {
    bool training = ct_module_training(m->root);
    ct_scope scope = training ? ct_scope_open(m->context) : ct_scope_open_no_grad(m->context);
    ct_tensor *x = ct_zeros(m->context, CT_I64, CT_SHAPE(k, t)), *y = ct_zeros(m->context, CT_I64, CT_SHAPE(k * t));
    int64_t *in = ct_data_i64(x), *next = ct_data_i64(y);
    check(m->context, EXIT_FAILED);
    for (int64_t i = 0; i < k; i++) {
        int64_t start = i * t;
        if (training) start = (int64_t)((double)((phase += 0x9e3779b97f4a7c15u) >> 32) / 4294967296.0 * (double)(n - t));
        for (int64_t j = 0; j < t; j++) in[i * t + j] = ids[start + j], next[i * t + j] = ids[start + j + 1];
    }
    ct_tensor *f = ct_reshape(gpt_features(m, x, (ct_stack_call){0}), CT_SHAPE(k * t, m->width)); /* (k, t, E) -> (k t, E) */
    ct_tensor *loss = ct_linear_cross_entropy(f, ct_module_get(m->wte, "weight"), y, (ct_cross_entropy_opts){0});
    if (training) ct_backward(loss);
    double value = ct_item(loss);
    check(m->context, EXIT_FAILED); /* errors are sticky: one look at the end sees if any of these calls failed */
    ct_scope_close(scope);
    return value;
}

/* The mean loss over ids (n) in consecutive windows, the last one shorter. NaN after Ctrl-C. */
static double measure(const gpt *m, const unsigned char *ids, int64_t n) {
    double sum = 0;
    ct_module_train(m->root, false);
    for (int64_t from = 0, t = m->window, k; from < n - 1; from += k * t) {
        if (interrupted()) return NAN;
        k = (n - 1 - from) / t < MEASURED ? (n - 1 - from) / t : MEASURED;
        if (k == 0) k = 1, t = n - 1 - from;
        sum += window_loss(m, ids + from, n - from, k, t) * (double)(k * t);
    }
    ct_module_train(m->root, true);
    return sum / (double)(n - 1);
}

/* Trains until all steps are done or Ctrl-C, saves and draws. The last tenth of the text is never trained on. */
static void train(gpt *m, const char *path, const char *picture) {
    long long held = text_length / 10, n = text_length - held, some = held < 128 * m->window ? held : 128 * m->window, done = 0, points = 0;
    ct_adamw_opts adamw = {.beta1 = beta1, .beta2 = beta2, .weight_decay = weight_decay, .decay_matrices_only = true, .clip_norm = clip};
    ct_optim *optim = ct_adamw_new(m->root, adamw);
    ct_tensor *room = ct_zeros(m->context, CT_F64, CT_SHAPE(3, steps + 2)); /* the context frees it */
    double *losses = ct_data_f64(room), *at = losses + steps + 2, *values = at + steps + 2, value = NAN;
    check(m->context, EXIT_FAILED);
    printf("%lld parameters; %lld bytes of text, %d different ones\n", (long long)ct_module_count(m->root), text_length, m->letters);
    phase = (uint64_t)ct_random_below(m->context, INT64_MAX);
    catch_interrupts();
    progress bar = {steps, (double)(batch * m->window), "tokens/s", now(), 0};
    for (; done < steps && !interrupted(); done++) {
        if (done % eval_every == 0 && !isnan(value = measure(m, text + n, some))) at[points] = (double)done, values[points++] = value;
        ct_optim_zero_grad(optim);
        losses[done] = window_loss(m, text, n, batch, m->window);
        ct_optim_set_lr(optim, ct_lr_cosine((ct_lr_cosine_opts){.peak = lr, .floor = min_lr, .warmup = warmup, .total = steps}, done));
        ct_optim_step(optim);
        check(m->context, EXIT_FAILED);
        if (!isfinite(losses[done])) fail(EXIT_FAILED, "the loss of step %lld is no number: try a smaller --lr", done + 1);
        progress_show(&bar, done + 1, "loss %.3f  validation %.3f", losses[done], value);
    }
    progress_end();
    gpt_save(m, path);
    if (done == steps && !isnan(value = measure(m, text + n, some))) at[points] = (double)done, values[points++] = value;
    if (done == steps && !isnan(value = measure(m, text + n, held)))
        printf("Loss over the whole last tenth, in windows of %lld: %.4f\n", m->window, value);
    curve curves[] = {{"training", "#1f6fb4", NULL, losses, done, true}, {"validation", "#c0392b", at, values, points, false}};
    plot_curves(picture, "Loss of a GPT", "step", "nats per character", curves, 2);
    printf("%s the model as %s, its loss as %s\n", done < steps ? "Interrupted: saved" : "Saved", path, picture);
}

/* Prints the prompt and what the model makes of it, one character at a time: what was read already is in the caches. Positions
 * are absolute, so where the window is full a new one begins, with the last half of the old one, which is then read again; over the whole
 * text that is one character more to read for each one written. Without caches all of the window is read each time. */
static void write_text(const gpt *m) {
    char newline[2] = {(char)(m->id['\n'] < 0 ? m->letter[0] : '\n')};
    const char *start = prompt && *prompt ? prompt : newline;
    int64_t n = start == newline ? 1 : (int64_t)strlen(start), i = n, from = 0;
    int64_t *ids = ct_data_i64(ct_zeros(m->context, CT_I64, CT_SHAPE(n + length)));
    ct_kv_cache *caches[MAX_LAYERS];
    if (cached) ct_kv_caches_new(m->h, 1, m->window, caches, m->layers);
    check(m->context, EXIT_FAILED);
    for (int64_t j = 0; j < n; j++) ids[j] = m->id[(unsigned char)start[j]];
    ct_module_train(m->root, false);
    fwrite(start, 1, (size_t)n, stdout);
    double begun = now();
    for (; i < n + length && !interrupted(); i++) {
        if (i - from > m->window) {
            from = i - (m->window + 1) / 2;
            for (int j = 0; j < m->layers && cached; j++) ct_kv_cache_truncate(caches[j], 0);
        }
        int64_t next = cached ? from + ct_kv_cache_length(caches[0]) : from; /* the first that is to be read */
        ct_scope scope = ct_scope_open_no_grad(m->context);
        ct_tensor *read = ct_from_i64(m->context, CT_SHAPE(1, i - next), ids + next);
        ct_tensor *f = gpt_features(m, read, (ct_stack_call){.caches = cached ? caches : NULL});
        ct_tensor *logits = ct_linear(ct_select(f, 1, -1), ct_module_get(m->wte, "weight"), NULL); /* (1, t, E) -> (1, E) -> (1, letters) */
        ct_sample(logits, (ct_sample_opts){temperature, top_k, top_p}, ids + i, 1);
        check(m->context, EXIT_FAILED);
        ct_scope_close(scope);
        putchar(m->letter[ids[i]]);
        fflush(stdout);
    }
    double written = (double)(i - n), seconds = now() - begun;
    printf("\n");
    if (i > n) printf("%.0f tokens, %.0f tokens/s %s a cache\n", written, written / seconds, cached ? "with" : "without");
    for (int j = 0; j < m->layers && cached; j++) ct_kv_cache_free(caches[j]);
}

int main(int argc, char **argv) {
    gpt m = {.layers = 4, .heads = 4, .width = 128, .window = 64};
    const flag flags[] = {
        {"layers", INTEGER, &m.layers, "N", "blocks of attention and feed-forward", 1, MAX_LAYERS},
        {"heads", INTEGER, &m.heads, "N", "of attention; a divisor of the width", 1, 1024},
        {"width", INTEGER, &m.width, "N", "numbers that stand for a character", 1, 65536},
        {"context", INTEGER, &m.window, "N", "characters it sees at once", 1, 65536},
        {"bias", SWITCH, &m.bias, "", "biases in linear layers and norms", 0, 0},
        {"dropout", REAL, &m.dropout, "P", "of attention weights, blocks and embeddings", 0, 0.99},
        {NULL, HEADING, NULL, NULL, "Training", 0, 0},
        {"steps", INTEGER, &steps, "N", "training steps", 1, 1e9},
        {"batch", INTEGER, &batch, "N", "windows a step", 1, 65536},
        {"lr", REAL, &lr, "X", "highest learning rate, after the warm-up", 0, 10},
        {"min-lr", REAL, &min_lr, "X", "learning rate at the end, down a cosine", 0, 10},
        {"warmup", INTEGER, &warmup, "N", "steps in which the rate rises", 0, 1e9},
        {"beta1", REAL, &beta1, "X", "AdamW's decay of the mean", 1e-6, 0.999999},
        {"beta2", REAL, &beta2, "X", "AdamW's decay of the square", 1e-6, 0.999999},
        {"weight-decay", REAL, &weight_decay, "X", "of matrices", 0, 10},
        {"clip", REAL, &clip, "X", "largest norm of the gradient; 0: any", 0, 1e9},
        {"eval-every", INTEGER, &eval_every, "N", "steps from one validation to the next", 1, 1e9},
        {NULL, HEADING, NULL, NULL, "Writing", 0, 0},
        {"sample", TEXT, &sample, "FILE", "write with this model, train nothing", 0, 0},
        {"prompt", TEXT, &prompt, "TEXT", "what the text begins with", 0, 0},
        {"length", INTEGER, &length, "N", "characters to write", 0, 1e9},
        {"temperature", REAL, &temperature, "X", "below 1 safer, above 1 wilder; 0: always the likeliest", 0, 100},
        {"top-k", INTEGER, &top_k, "N", "choose among the k likeliest; 0: all", 0, 256},
        {"top-p", REAL, &top_p, "P", "among the likeliest that make up p; 0: all", 0, 1},
        {"cache", SWITCH, &cached, "", "keep the keys and values of what is written: the same text, sooner", 0, 0},
        {NULL, HEADING, NULL, NULL, "The run", 0, 0},
        {"seed", INTEGER, &seed, "N", "of everything random", 0, 1e18},
        {"threads", INTEGER, &threads, "N", "that compute; 0: every core", 0, 1024},
        {"out", TEXT, &out, "DIR", "where the loss curve goes, and the model", 0, 0},
        {"save", TEXT, &save_path, "FILE", "where the model goes instead", 0, 0},
    };
    const char *usage = "[flags] FILE...\n\nTrains a GPT on text files, or with --sample writes text from a trained one.\n\nThe model:";
    int files = read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage);
    if (sample && files) fail(EXIT_USAGE, "--sample trains nothing, so it takes no text: %s", argv[1]);
    if (!sample && !files) fail(EXIT_USAGE, "no text to train on (--help says more)");
    m.context = ct_context_new((ct_context_opts){.seed = (uint64_t)seed, .threads = (int)threads});
    check(m.context, EXIT_USAGE);
    if (sample) {
        gpt_load(&m, sample);
        gpt_prompt(&m, prompt);
    } else {
        const char *path = save_path ? output_path(NULL, save_path) : output_path(out, "char_lm.safetensors");
        read_text(&m, files, argv + 1);
        gpt_prompt(&m, prompt);
        gpt_make(&m);
        train(&m, path, output_path(out, "char_lm_loss.svg"));
    }
    if (!interrupted()) write_text(&m);
    ct_context_free(m.context);
    return 0;
}
