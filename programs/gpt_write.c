/* Functions that write text with a GPT; see gpt_write.h. */
#include "gpt_write.h"

#include <stdlib.h>
#include <string.h>

/* Finds the tokens of the prompt. Without a prompt there is the token that ends a text, or id 0 if
 * the tokenizer has none. */
static int64_t prompt_tokens(const gpt *m, const char *prompt, int64_t *ids, int64_t room) {
    const int64_t n = prompt && *prompt ? ct_encode(m->tokenizer, prompt, strlen(prompt),
                                                    (ct_encode_opts){0}, ids, NULL, room)
                                        : 0;
    if (n < 0 || n > room) fail(EXIT_FAILED, "--prompt: out of memory");
    if (n > 0) return n;
    const int64_t end = ct_token_role(m->tokenizer, "eos_token");
    ids[0] = end < 0 ? 0 : end;
    return 1;
}

/* Returns the number of the prompt's ids. Without a prompt there is the id of a new line, or of the
 * first letter if the alphabet has no new line. */
static int64_t prompt_ids(const gpt *m, const char *prompt, int64_t *ids, int64_t room) {
    if (m->tokenizer) return prompt_tokens(m, prompt, ids, room);
    if (!prompt || !*prompt) {
        ids[0] = m->id['\n'] < 0 ? 0 : m->id['\n'];
        return 1;
    }
    int64_t n = (int64_t)strlen(prompt);
    for (int64_t i = 0; i < n; i++) ids[i] = m->id[(unsigned char)prompt[i]];
    return n;
}

/* Draws the id that follows ids[from] ... ids[to - 1]. Ids that are in the caches are not read
 * again. */
static int64_t draw_next(const gpt *m, const writing *w, const int64_t *ids, int64_t from,
                         int64_t to, ct_kv_cache **caches) {
    int64_t first = from;
    if (caches) first += ct_kv_cache_length(caches[0]);
    ct_scope scope = ct_scope_open_no_grad(m->context);
    ct_tensor *input = ct_from_i64(m->context, CT_SHAPE(1, to - first), ids + first); /* (1, t) */
    ct_tensor *x = gpt_features(m, input, (ct_stack_call){.caches = caches});   /* (1, t, E) */
    ct_tensor *last = ct_select(x, 1, -1);                                      /* (1, E) */
    ct_tensor *logits = ct_linear(last, ct_module_get(m->wte, "weight"), NULL); /* (1, letters) */
    ct_sample_opts opts = {
        .temperature = w->temperature,
        .top_k = w->top_k,
        .top_p = w->top_p,
    };
    int64_t id = 0;
    ct_sample(logits, opts, &id, 1);
    check(m->context, EXIT_FAILED);
    ct_scope_close(scope);
    return id;
}

/* Prints a character, or the characters that are whole after a token. The id -1 ends the text. */
static void print_id(const gpt *m, ct_decode_state *state, int64_t id) {
    if (!m->tokenizer && id >= 0) putchar(m->letter[id]);
    if (m->tokenizer) {
        const size_t room = ct_token_room(m->tokenizer);
        char *text = malloc(room);
        if (!text) fail(EXIT_FAILED, "out of memory");
        const int64_t n = ct_decode_next(m->tokenizer, state, id, text, room);
        if (n > 0) fwrite(text, 1, (size_t)n, stdout);
        free(text);
    }
    fflush(stdout);
}

/* Prints the prompt and the model's text, one character or token at a time.
 *
 * The model has learned positions, so its input is at most one window. When the window is full, a
 * new one begins with the last half of the old one. The model reads that half again, which costs
 * about as much as writing it. Without caches the model reads the whole window for each character.
 */
void gpt_write(const gpt *m, const writing *w) {
    int64_t prompt_room = 16; /* a tokenizer may add tokens */
    if (w->prompt) prompt_room += (int64_t)strlen(w->prompt);
    const int64_t room = w->length + prompt_room;
    int64_t *ids = ct_data_i64(ct_zeros(m->context, CT_I64, CT_SHAPE(room)));
    ct_kv_cache *layers[MAX_LAYERS];
    ct_kv_cache **caches = w->cached ? layers : NULL;
    if (caches) ct_kv_caches_new(m->h, 1, m->window, caches, m->layers);
    check(m->context, EXIT_FAILED);
    ct_module_train(m->root, false);

    ct_decode_state state = {0};
    int64_t begin = prompt_ids(m, w->prompt, ids, prompt_room);
    for (int64_t i = 0; i < begin; i++) print_id(m, &state, ids[i]);

    double begun = now();
    int64_t from = 0; /* the index of the window's first id */
    int64_t end = begin;
    while (end < begin + w->length && !interrupted()) {
        if (end - from > m->window) {
            from = end - (m->window + 1) / 2;
            for (int i = 0; caches && i < m->layers; i++) ct_kv_cache_truncate(caches[i], 0);
        }
        ids[end] = draw_next(m, w, ids, from, end, caches);
        print_id(m, &state, ids[end]);
        end++;
    }
    print_id(m, &state, -1);
    double seconds = now() - begun;
    double written = (double)(end - begin);
    printf("\n");
    if (end > begin) {
        printf("%.0f token%s, %.0f tokens/s %s a cache\n", written, PLURAL(written),
               written / seconds, caches ? "with" : "without");
    }
    for (int i = 0; caches && i < m->layers; i++) ct_kv_cache_free(caches[i]);
}
