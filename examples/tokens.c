/* Trains a GPT on files of token ids that may be larger than memory: tokenize writes such files,
 * and so do nanoGPT and llm.c. Prints the loss, tokens per second and resident memory, which
 * does not depend on the length of the files. With --checkpoint and the same flags a run that was
 * stopped resumes with the same bits: a batch is a function of the step, so a checkpoint needs only
 * the step to resume the data. */
#include "../programs/gpt.h"
#include "../programs/system.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static struct {
    long long vocabulary, bytes, batch, steps, seed, threads, matmul;
    double lr;
    const char *checkpoint;
} option = {.vocabulary = 256, .batch = 12, .steps = 500, .seed = 1, .lr = 1e-3};

static double train_step(const gpt *m, ct_tokens *tokens, ct_optim *optim, int64_t step) {
    ct_scope scope = ct_scope_open(m->context);
    ct_tensor *x = NULL, *y = NULL; /* (B, T) */
    ct_tokens_batch(tokens, (uint64_t)option.seed, step, option.batch, m->window, &x, &y);
    ct_tensor *rows = ct_reshape(gpt_features(m, x, (ct_stack_call){0}), CT_SHAPE(-1, m->width));
    ct_tensor *loss =
        ct_linear_cross_entropy(rows, ct_module_get(m->wte, "weight"), ct_reshape(y, CT_SHAPE(-1)),
                                (ct_cross_entropy_opts){0});
    ct_optim_zero_grad(optim);
    ct_backward(loss);
    ct_optim_set_lr(optim, option.lr * fmin(1, (double)(step + 1) / 100)); /* a warm-up */
    ct_optim_step(optim);
    const double value = ct_item(loss);
    check(m->context, EXIT_FAILED); /* an error in the data names the file and the offset */
    ct_scope_close(scope);
    return value;
}

/* Detects ids that are read with too few bytes: if ids of 4 bytes, or NumPy's int64, are read as
 * ids of 2 bytes, there are zeros between them. */
static void warn_of_zeros(const gpt *m, ct_tokens *tokens) {
    enum { WINDOWS = 16, LEAST = 16 };
    int64_t windows = ct_tokens_windows(tokens, m->window), ids = 0;
    bool every_second = true;
    for (int64_t i = 0; m->window > 1 && i < windows && i < WINDOWS; i++) {
        ct_scope scope = ct_scope_open(m->context);
        ct_tensor *x = NULL, *y = NULL;
        ct_tokens_batch(tokens, (uint64_t)option.seed, i, 1, m->window, &x, &y);
        check(m->context, EXIT_FAILED);
        bool others[2] = {false, false}; /* in even and in odd places: ids other than 0 */
        for (int64_t t = 0; t < m->window; t++) others[t % 2] |= ct_data_i64(x)[t] != 0;
        every_second = every_second && others[0] != others[1];
        ids += m->window;
        ct_scope_close(scope);
    }
    if (every_second && ids >= LEAST)
        fprintf(stderr, "tokens: warning: every second id is 0. Has the file ids of 4 bytes "
                        "(--bytes 4) or of 8, as NumPy's int64 (--bytes 8)?\n");
}

int main(int argc, char **argv) {
    gpt m = {.layers = 4, .heads = 4, .width = 128, .window = 64};
    const flag flags[] = {
        flag_integer("vocabulary", &option.vocabulary, 1, 1e9,
                     "size of the vocabulary; ids are smaller"),
        flag_integer("bytes", &option.bytes, 0, 8,
                     "bytes of an id, 2, 4 or 8; 0: given by the header, or 2"),
        flag_integer("layers", &m.layers, 1, MAX_LAYERS, "blocks of attention and feed-forward"),
        flag_integer("heads", &m.heads, 1, 1024, "attention heads; must divide the width"),
        flag_integer("width", &m.width, 1, 65536, "size of a token's vector"),
        flag_integer("context", &m.window, 1, 65536, "most tokens in the context"),
        flag_integer("batch", &option.batch, 1, 65536, "windows in a step"),
        flag_integer("steps", &option.steps, 1, 1e9, "training steps"),
        flag_real("lr", &option.lr, "X", 0, 10, "learning rate after the warm-up"),
        flag_integer("seed", &option.seed, 0, 1e18,
                     "seed of the model and of the order of windows"),
        flag_integer("threads", &option.threads, 0, 1024,
                     "number of threads; 0: one for each core"),
        flag_matmul(&option.matmul),
        flag_text("checkpoint", &option.checkpoint, "FILE", "file to continue from, and to write"),
    };
    const char *usage = "[flags] FILE...\n\nTrains a GPT on files of token ids (see tokenize):";
    const int files = read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage);
    if (!files) fail_usage("no files of token ids");
    input_paths(files, argv + 1);
    if (option.checkpoint) option.checkpoint = output_path(NULL, option.checkpoint);
    ct_context_opts opts = {
        .seed = (uint64_t)option.seed,
        .threads = (int)option.threads,
        .matmul = (ct_matmul_precision)option.matmul,
    };
    m.context = ct_context_new(opts);
    check(m.context, EXIT_USAGE);
    ct_tokens_opts ids = {.vocabulary = option.vocabulary, .bytes = (int)option.bytes};
    ct_tokens *tokens = ct_tokens_open(m.context, (const char *const *)argv + 1, files, ids);
    check(m.context, EXIT_USAGE);
    m.letters = (int)option.vocabulary;
    gpt_make(&m);
    ct_optim *optim = ct_adamw_new(
        m.root, (ct_adamw_opts){.weight_decay = 0.1, .decay_matrices_only = true, .clip_norm = 1});
    ct_checkpoint run = {.module = m.root, .optim = optim};
    FILE *earlier = option.checkpoint ? system_fopen(option.checkpoint, "rb") : NULL;
    if (option.checkpoint && !earlier && errno != ENOENT) /* a save would overwrite it */
        fail(EXIT_USAGE, "cannot read %s: %s", option.checkpoint, strerror(errno));
    if (earlier) {
        fclose(earlier);
        ct_checkpoint_load(option.checkpoint, &run);
    }
    check(m.context, EXIT_USAGE);
    const double windows = (double)ct_tokens_windows(tokens, m.window);
    const double batches = ceil(windows / (double)option.batch);
    printf("%lld parameters; %lld tokens, %.0f batch%s an epoch; from step %lld\n",
           (long long)ct_module_count(m.root), (long long)ct_tokens_count(tokens), batches,
           batches == 1 ? "" : "es", (long long)run.step);

    warn_of_zeros(&m, tokens);
    catch_interrupts();
    const int64_t begun = run.step, a_step = option.batch * m.window;
    const double start = now();
    double loss = 0;
    for (; run.step < option.steps && !interrupted(); run.step++) {
        loss = train_step(&m, tokens, optim, run.step);
        if (!isfinite(loss))
            fail(EXIT_FAILED, "the loss of step %lld is no number: try a smaller --lr",
                 (long long)run.step + 1);
        if ((run.step + 1) % 50 && run.step + 1 < option.steps) continue;
        printf("step %lld  epoch %.2f  loss %.4f  %.0f tokens/s  %.0f MB resident\n",
               (long long)run.step + 1, (double)((run.step + 1) * option.batch) / windows, loss,
               (double)((run.step + 1 - begun) * a_step) / (now() - start),
               system_peak_memory() * 1e-6);
        fflush(stdout);
    }
    if (loss > 2 * log((double)m.letters)) /* a guess among all tokens has half */
        fail(EXIT_FAILED, "the last loss is %g: nothing is saved. Try a smaller --lr", loss);
    if (option.checkpoint) ct_checkpoint_save(option.checkpoint, &run);
    check(m.context, EXIT_FAILED);
    const bool complete = run.step >= option.steps;
    if (!complete)
        printf("Interrupted after step %lld%s\n", (long long)run.step,
               option.checkpoint ? "; the same command goes on from there" : "");
    ct_context_free(m.context);
    return complete ? 0 : interrupt_exit();
}
