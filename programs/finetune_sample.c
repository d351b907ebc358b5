/* Samples of a model; see finetune_sample.h. */
#include "finetune_sample.h"
#include "common.h"

#include <string.h>

enum { SAMPLE_ROOM = 1024, SAMPLE_TEXT = 16384 };

static int64_t sample_ids(const ct_tokenizer *tokenizer, const finetune_sample *sample,
                          int64_t *ids) {
    const ct_message message = {.role = "user", .content = sample->prompt};
    char error[500] = "out of memory";
    ct_chat_opts form = sample->chat;
    form.add_generation_prompt = true, form.error = error, form.error_room = sizeof error;
    const int64_t n =
        sample->is_chat
            ? ct_chat_encode(tokenizer, &message, 1, form, ids, NULL, SAMPLE_ROOM)
            : ct_encode(tokenizer, sample->prompt, strlen(sample->prompt),
                        (ct_encode_opts){.plain = sample->is_plain}, ids, NULL, SAMPLE_ROOM);
    if (n < 0) fail(EXIT_USAGE, "--sample: %s", error_text(error));
    if (n < 1 || n > SAMPLE_ROOM)
        fail(EXIT_USAGE, "--sample has %lld tokens, and not 1 to %d", (long long)n, SAMPLE_ROOM);
    return n;
}

/* The most tokens of a sample: --sample-tokens, or what the model's longest text has left. The last
 * token needs no position. */
static int64_t most_tokens(const ct_module *lm, const finetune_sample *sample, int64_t prompt) {
    const long long longest = ct_lm_about(lm).max_length;
    if (longest < 1) return sample->tokens;
    if (prompt > longest)
        fail(EXIT_USAGE, "--sample has %lld tokens, and the model at most %lld", (long long)prompt,
             longest);
    const int64_t left = longest - prompt + 1;
    return left < sample->tokens ? left : sample->tokens;
}

void sample_write(ct_context *context, ct_module *lm, const ct_tokenizer *tokenizer,
                  const finetune_sample *sample, int64_t step) {
    static int64_t ids[2 * SAMPLE_ROOM];
    static char text[SAMPLE_TEXT];
    const int64_t prompt = sample_ids(tokenizer, sample, ids);
    int64_t n = prompt;
    ct_scope scope = ct_scope_open(context);
    const ct_batch prompts = ct_batch_of(context, ids, NULL, &n, 1, (ct_batch_opts){0});
    ct_generate_opts opts = {.max_new = most_tokens(lm, sample, prompt)};
    if (sample->is_chat && sample->end_of_turn >= 0) {
        opts.eos = &sample->end_of_turn;
        opts.n_eos = 1;
    }
    ct_generator *generator = ct_generate_new(lm, prompts, opts);
    while (n < 2 * SAMPLE_ROOM && ct_generate_next(generator, &ids[n])) n++;
    ct_generate_free(generator);
    check(context, EXIT_FAILED);
    ct_decode(tokenizer, ids + prompt, n - prompt, false, text, sizeof text);
    ct_scope_close(scope);
    progress_end();
    printf("  step %lld: %s >> %s\n", (long long)step, sample->prompt, text);
    fflush(stdout);
}
