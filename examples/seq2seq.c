/* Trains the encoder-decoder of seq2seq_model.h to reverse or sort digits, and tests it on
 * sequences that are not in the training set. */
#include "../programs/plot.h"
#include "seq2seq_model.h"

#include <math.h>
#include <string.h>

static const char *const token_names[TOKENS] = {"0", "1", "2", "3", "4",   "5", "6",
                                                "7", "8", "9", ">", "end", "."};

/* ---- training ---- */

/* Trains until all steps are done or Ctrl-C is pressed; returns the number of steps done. losses
 * (steps) receives the loss of each step. */
static int64_t train(ct_context *context, const model *m, bool sort, int64_t steps,
                     double *losses) {
    ct_optim *optim = make_optim(m);
    progress bar = {.total = steps, .per_step = 1, .unit = "steps/s", .begun = now()};
    double mean = 0; /* the fraction of exact answers, averaged over several batches */
    int64_t done = 0;
    while (done < steps && !interrupted()) {
        double exact = 0;
        ct_optim_set_lr(optim, learning_rate(done, steps));
        losses[done] = train_step(context, m, optim, sort, &exact);
        done++;
        if (!isfinite(losses[done - 1]))
            fail(EXIT_FAILED, "the loss of step %lld is no number", (long long)done);
        mean += (exact - mean) / (double)(done < 20 ? done : 20);
        progress_show(&bar, done, "loss %.4f  exact %5.1f %%", losses[done - 1], 100 * mean);
    }
    progress_end();
    return done;
}

/* ---- testing ---- */

/* Draws the decoder's attention to the source while it writes one answer. */
static void plot_attention(ct_context *context, const model *m, const sequence *s,
                           const char *path) {
    double weights[T * S];
    const int written = s->length + 1; /* the digits and END */
    attention_of(context, m, s, weights);

    const char *columns[S], *rows[T];
    for (int j = 0; j < s->length; j++) columns[j] = token_names[s->digits[j]];
    for (int t = 0; t < s->length; t++) rows[t] = token_names[s->answer[t]];
    rows[s->length] = token_names[END];
    const map picture = {
        .title = "Where the decoder looks",
        .x_label = "digits read",
        .y_label = "digits written, from the top",
        .columns = columns,
        .rows = rows,
        .n_columns = s->length,
        .n_rows = written,
        .values = weights,
    };
    plot_map(path, &picture);
}

static void print_tokens(const int64_t *tokens, int n) {
    int width = printf("  ");
    for (int i = 0; i < n && tokens[i] != END; i++) width += printf("%s ", token_names[tokens[i]]);
    printf("%*s", 28 - width, "");
}

static void print_answer(const sequence *s, const int64_t *said) {
    bool right = is_right(s, said);
    const char *colour = right ? "\033[32m" : "\033[31m";
    print_tokens(s->digits, s->length);
    print_tokens(s->answer, s->length);
    print_tokens(said, T);
    printf("  %s%s%s\n", colours() ? colour : "", right ? "right" : "wrong",
           colours() ? "\033[0m" : "");
}

static bool same_digits(const sequence *a, const sequence *b) {
    return a->length == b->length && !memcmp(a->digits, b->digits, sizeof a->digits);
}

static bool is_among(const sequence *s, const sequence *others, int n) {
    for (int i = 0; i < n; i++)
        if (same_digits(s, &others[i])) return true;
    return false;
}

/* Tests the model on different sequences of the test set, on which it was not trained. Prints the
 * number of answers that are exactly right, and some answers. */
static void test(ct_context *context, const model *m, bool sort, const char *map_path) {
    static sequence tests[TESTS];
    static int64_t said[TESTS][T];
    for (int i = 0; i < TESTS; i++) {
        tests[i] = draw_sequence(context, sort, true);
        while (is_among(&tests[i], tests, i)) tests[i] = draw_sequence(context, sort, true);
    }
    ct_module_train(m->root, false);
    write_answers(context, m, tests, TESTS, said[0]);

    int right = 0;
    for (int i = 0; i < TESTS; i++) right += is_right(&tests[i], said[i]);
    printf("\n%d sequences never seen in training: %d exactly right (%.1f %%)\n\n", TESTS, right,
           100.0 * right / TESTS);
    printf("  %-28s%-28s%-28s\n", "input", "expected", "written");
    for (int i = 0; i < 8; i++) print_answer(&tests[i], said[i]);
    int shown = 0; /* prints up to four wrong answers */
    for (int i = 8; i < TESTS && shown < 4; i++) {
        if (!is_right(&tests[i], said[i])) {
            print_answer(&tests[i], said[i]);
            shown++;
        }
    }

    int drawn = 0; /* draws a long sequence, which gives a better picture */
    while (drawn + 1 < TESTS && tests[drawn].length < 8) drawn++;
    plot_attention(context, m, &tests[drawn], map_path);
    printf("\nWhere the decoder looks while it writes one of them: %s\n", map_path);
}

/* ---- the program ---- */

enum { REVERSE = 1, SORT }; /* the numbers of the words in tasks */
static const char tasks[] = "reverse|sort";

int main(int argc, char **argv) {
    const char *out = ".", *save = NULL;
    long long task = REVERSE, seed = 1, steps = 600, threads = 0, matmul = CT_MATMUL_DEFAULT;
    long long keep_partial = 0;
    const flag flags[] = {
        flag_choice("task", &task, tasks, "the task to learn"),
        flag_integer("steps", &steps, 1, 1e6, "training steps"),
        flag_integer("seed", &seed, 0, 1e18, "seed of the random numbers"),
        flag_integer("threads", &threads, 0, 1024, "number of threads; 0: one for each core"),
        flag_matmul(&matmul),
        flag_switch("keep-partial", &keep_partial, "save also if the run is interrupted"),
        flag_text("out", &out, "DIR", "folder for the pictures and the model"),
        flag_text("save", &save, "FILE", "file for the model, instead of --out"),
    };
    const char *usage = "[flags]\n\n"
                        "Trains an encoder-decoder to reverse or sort 4 to 12 digits, "
                        "and tests it on sequences it never saw.\n";
    int others = read_flags(argc, argv, flags, sizeof flags / sizeof *flags, usage);
    if (others) fail_usage("takes flags only, not %s", argv[1]);
    const bool sort = task == SORT;
    const char *task_name = sort ? "sort" : "reverse";
    const char *loss_path = output_path(out, "seq2seq_loss.svg");
    const char *map_path = output_path(out, "seq2seq_attention.svg");
    const char *model_path =
        save ? output_path(NULL, save) : output_path(out, "seq2seq.safetensors");

    ct_context_opts opts = {
        .seed = (uint64_t)seed,
        .threads = (int)threads,
        .matmul = (ct_matmul_precision)matmul,
    };
    ct_context *context = ct_context_new(opts);
    check(context, EXIT_USAGE);
    model m = make_model(context);
    ct_tensor *losses = ct_zeros(context, CT_F64, CT_SHAPE(steps)); /* freed with the context */
    check(context, EXIT_FAILED);
    printf("Learning to %s digits: %lld parameters, %lld step%s of %d sequences\n", task_name,
           (long long)ct_module_count(m.root), steps, PLURAL(steps), BATCH);

    catch_interrupts();
    int64_t done = train(context, &m, sort, steps, ct_data_f64(losses));
    if (done < steps && !keep_partial)
        fail(interrupt_exit(),
             "interrupted: nothing is saved (--keep-partial saves what there is)");
    ct_save(m.root, model_path,
            (ct_save_opts){.metadata = (const char *[]){"task", task_name, NULL}});
    check(context, EXIT_FAILED);
    curve loss = {
        .name = "loss", .colour = "#1f6fb4", .y = ct_data_f64(losses), .n = done, .noisy = true};
    plot_curves(loss_path, "Training loss", "step", "cross-entropy", &loss, 1);
    printf("%s the model as %s, its loss as %s\n", done < steps ? "Interrupted: saved" : "Saved",
           model_path, loss_path);
    if (done == steps) test(context, &m, sort, map_path);
    ct_context_free(context);
    return done == steps ? 0 : interrupt_exit();
}
