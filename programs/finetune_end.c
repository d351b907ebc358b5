/* What becomes of the result of finetune; see finetune.h. */
#include "finetune.h"
#include "finetune_out.h"
#include "system.h"
#include "weights.h"

#include <string.h>

enum { MOST_EOS = 16 };

/* ---- what other programs need to know ---- */

/* A program stops at the model's eos ids, so the end of a turn becomes one of them. */
static void add_end_of_turn(tuning *t) {
    const ct_generate_opts opts = ct_lm_generate_opts(t->lm);
    const ct_lm_info about = ct_lm_about(t->lm);
    int64_t ids[MOST_EOS] = {t->end_of_turn}, n = 1;
    if (ct_error(t->context)) ct_error_clear(t->context); /* a key that only generation needs */
    const int64_t *old = opts.n_eos ? opts.eos : about.eos;
    const int64_t n_old = opts.n_eos ? opts.n_eos : about.n_eos;
    for (int64_t i = 0; i < n_old && n < MOST_EOS; i++) {
        if (old[i] == t->end_of_turn) return;
        if (old[i] < about.vocab_size) ids[n++] = old[i]; /* others are ids of another tokenizer */
    }
    ct_lm_set_eos(t->lm, ids, n);
    check(t->context, EXIT_FAILED);
}

/* Makes the folder say how a chat is written and where an answer ends. Returns the tokenizer if its
 * files are to be written, and otherwise NULL. */
static ct_tokenizer *complete_tokenizer(tuning *t) {
    if (t->end_of_turn < 0) return t->has_new_tokens ? t->tokenizer : NULL;
    if (!is_lora() || option.merge) add_end_of_turn(t);
    if (!option.chat.template) return t->has_new_tokens ? t->tokenizer : NULL;
    ct_token_add(t->tokenizer, ct_token(t->tokenizer, t->end_of_turn), "eos_token");
    check(t->context, EXIT_FAILED);
    return t->tokenizer;
}

/* ---- the result ---- */

/* Adds the adapters to the weights, which must be floats for that. */
static void merge(const tuning *t) {
    if (weights_are_blocks(t->weights)) ct_module_to(t->lm, CT_F32);
    ct_lora_merge(t->lm);
    check(t->context, EXIT_FAILED);
}

static bool is_blocks(ct_file_float floats) {
    return floats == CT_FILE_Q8_0 || floats == CT_FILE_Q4_0;
}

/* Says what a GGUF file of the model does not hold as it is. */
static void print_gguf_notes(const tuning *t, const char *path, ct_file_float floats) {
    const char *note = ct_lm_about(t->lm).gguf_note;
    if (*note) printf("%s: %s\n", path, note);
    if (is_blocks(floats) && option.merge && weights_are_blocks(t->weights))
        warn("the merged weights are rounded to blocks again, and most changes of a short training "
             "are smaller than the steps of the base's blocks: if the result answers as before, "
             "write --floats f16, or --adapter-only");
}

/* Writes the result, or sees that it is there already: a run that was killed behind its last step
 * comes here again. */
static void write_result(tuning *t, const char *path, const char *how) {
    const bool adapters = is_lora() && !option.merge;
    const char *what = adapters ? "adapters" : "model";
    if (option.merge) merge(t);
    ct_tokenizer *tokenizer = complete_tokenizer(t);
    if (tokenizer) ct_lm_set_tokenizer(t->lm, tokenizer);
    const result r = {.context = t->context,
                      .lm = t->lm,
                      .tokenizer = tokenizer,
                      .floats = option.floats ? (ct_file_float)(option.floats - 1) : CT_FILE_SAME,
                      .adapters = adapters};
    if (is_gguf(path) && !adapters) print_gguf_notes(t, path, r.floats);
    if (result_save(&r, path)) printf("%s the %s as %s\n", how, what, path);
    else printf("Done already: the %s %s as %s\n", what, adapters ? "are saved" : "is saved", path);
}

static int end_interrupted(tuning *t, const run *r, int64_t step) {
    if (option.keep_partial && run_is_first(r)) write_result(t, option.out, "Interrupted: saved");
    run_say_interrupted(r, step, option.keep_partial);
    return interrupt_exit();
}

static int end_worse(tuning *t, const run *r, training done) {
    char path[RESULT_PATH];
    result_path(option.out, "worse", path);
    if (run_is_first(r))
        warn("the loss over %s is %.4f after the training and was %.4f before it: the model is "
             "worse. "
             "Try a smaller --lr or fewer steps; --allow-worse takes the result as it is",
             t->held.n ? "the validation" : "rows of the data", done.after, done.before);
    if (option.allow_worse) return 0;
    if (run_is_first(r)) write_result(t, path, "Saved");
    return EXIT_FAILED;
}

int finetune_end(tuning *t, run *r, training done) {
    if (done.step < option.steps) return end_interrupted(t, r, done.step);
    const int code = loss_is_worse(done.after, done.before) ? end_worse(t, r, done) : 0;
    if (!code && run_is_first(r)) write_result(t, option.out, "Saved");
    return code;
}
