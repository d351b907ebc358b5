/* The keys tokenizer.* of a file that is being made, in the order in which llama.cpp's converter
 * writes them. */
#include <cotangent/autograd.h>

#include <stdio.h>
#include <string.h>

#include "gguf_tokens.h"

/* A merge as the file has it: a space inside a piece is U+0120. */
static bool merge_key_put(cti_gguf_vocab *vocab, cti_gguf_out *out, cti_gguf_merge merge) {
    const cti_text piece[2] = {merge.left, merge.right};
    char *text = cti_arena_take(vocab->arena, 2 * (merge.left.size + merge.right.size) + 2, 1);
    if (!text) return false;
    size_t size = 0;
    for (int k = 0; k < 2; k++) {
        if (k) text[size++] = ' ';
        for (size_t i = 0; i < piece[k].size; i++) {
            const bool space = piece[k].at[i] == ' ';
            if (space) text[size++] = (char)0xC4;
            text[size++] = space ? (char)0xA0 : piece[k].at[i];
        }
    }
    cti_gguf_add_text(out, (cti_text){text, size});
    return true;
}

static bool lists_put(cti_gguf_vocab *vocab, cti_gguf_out *out) {
    cti_gguf_put_array(out, "tokenizer.ggml.tokens", CTI_GGUF_STRING, vocab->count);
    for (int64_t i = 0; i < vocab->count; i++) cti_gguf_add_text(out, vocab->token[i]);
    if (vocab->score) {
        cti_gguf_put_array(out, "tokenizer.ggml.scores", CTI_GGUF_F32, vocab->count);
        for (int64_t i = 0; i < vocab->count; i++) cti_gguf_add_f32(out, (float)vocab->score[i]);
    }
    cti_gguf_put_array(out, "tokenizer.ggml.token_type", CTI_GGUF_I32, vocab->count);
    for (int64_t i = 0; i < vocab->count; i++) cti_gguf_add_i32(out, vocab->type[i]);
    if (!vocab->merges) return true;
    cti_gguf_put_array(out, "tokenizer.ggml.merges", CTI_GGUF_STRING, vocab->merges);
    for (int64_t i = 0; i < vocab->merges; i++)
        if (!merge_key_put(vocab, out, vocab->merge[i])) return false;
    return true;
}

static void ids_put(const cti_gguf_vocab *vocab, cti_gguf_out *out) {
    static const cti_gguf_role order[] = {CTI_GGUF_BOS, CTI_GGUF_EOS,  CTI_GGUF_UNK, CTI_GGUF_SEP,
                                          CTI_GGUF_PAD, CTI_GGUF_MASK, CTI_GGUF_EOT, CTI_GGUF_EOM};
    for (size_t k = 0; k < sizeof order / sizeof *order; k++)
        if (vocab->id[order[k]] >= 0)
            cti_gguf_put_u32(out, cti_gguf_id_keys[order[k]], (uint32_t)vocab->id[order[k]]);
    for (int k = 0; k < CTI_GGUF_FLAGS; k++)
        if (vocab->flag[k] >= 0) cti_gguf_put_flag(out, cti_gguf_flag_keys[k], vocab->flag[k] > 0);
}

/* ---- chat templates ---- */

/* A name in a key has letters, digits and '_' only. */
static cti_text template_key_name(const cti_gguf_vocab *vocab, cti_text name) {
    char *made = cti_arena_take(vocab->arena, name.size + 1, 1);
    if (!made) return (cti_text){0};
    for (size_t i = 0; i < name.size; i++) {
        const char c = name.at[i];
        const bool keeps =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        made[i] = '_';
        if (keeps) made[i] = c;
    }
    made[name.size] = 0;
    return (cti_text){made, name.size};
}

static bool is_default(const cti_gguf_template *chat) {
    return !cti_text_compare(chat->name, cti_text_of(cti_chat_default));
}

static bool chat_put(const cti_gguf_vocab *vocab, cti_gguf_out *out) {
    static const char key[] = "tokenizer.chat_template";
    int64_t named = 0;
    for (int64_t i = 0; i < vocab->chats; i++) {
        if (is_default(&vocab->chat[i])) continue;
        const cti_text name = template_key_name(vocab, vocab->chat[i].name);
        const size_t room = sizeof key + 1 + name.size;
        char *whole = name.at ? cti_arena_take(vocab->arena, room, 1) : NULL;
        if (!whole) return false;
        snprintf(whole, room, "%s.%s", key, name.at);
        cti_gguf_put_text(out, whole, vocab->chat[i].text);
        named++;
    }
    cti_gguf_put_array(out, "tokenizer.chat_templates", CTI_GGUF_STRING, named);
    for (int64_t i = 0; i < vocab->chats; i++) {
        const cti_text name = template_key_name(vocab, vocab->chat[i].name);
        if (!name.at) return false;
        if (!is_default(&vocab->chat[i])) cti_gguf_add_text(out, name);
    }
    for (int64_t i = 0; i < vocab->chats; i++)
        if (is_default(&vocab->chat[i])) cti_gguf_put_text(out, key, vocab->chat[i].text);
    return true;
}

/* ---- the whole ---- */

static bool vocab_put(cti_gguf_vocab *vocab, cti_gguf_out *out) {
    const char *model = cti_gguf_model_names[vocab->model];
    cti_gguf_put_text(out, "tokenizer.ggml.model", cti_text_of(model));
    cti_gguf_put_text(out, "tokenizer.ggml.pre", vocab->pre);
    if (!lists_put(vocab, out)) return false;
    ids_put(vocab, out);
    return chat_put(vocab, out);
}

/* The text of general.architecture, which was put already; .at is NULL if it was not. A pair is the
 * length of its key (u64), the key, the kind (u32), and of a text the length and the bytes. */
static cti_text architecture_put(const cti_gguf_out *out) {
    static const char key[] = "general.architecture";
    enum { KEY = sizeof key - 1, AT = 8 + KEY + 4 + 8 };
    for (int64_t i = 0; i < out->pairs; i++) {
        const char *pair = (const char *)out->text + out->pair[i];
        const int64_t left = out->used - out->pair[i];
        if (left < AT || memcmp(pair + 8, key, KEY) != 0 || pair[0] != KEY) continue;
        size_t size = 0;
        for (int k = 3; k >= 0; k--) size = size << 8 | (unsigned char)pair[8 + KEY + 4 + k];
        return (cti_text){pair + AT, size};
    }
    return (cti_text){0};
}

static void ends_add(cti_gguf_vocab *vocab, const int64_t *ends, int64_t n) {
    int64_t *id = vocab->id;
    for (int64_t i = 0; i < n; i++) {
        const bool known = ends[i] == id[CTI_GGUF_EOS] || ends[i] == id[CTI_GGUF_EOT];
        if (known || ends[i] < 0 || ends[i] >= vocab->count) continue;
        if (id[CTI_GGUF_EOT] < 0) id[CTI_GGUF_EOT] = ends[i];
        else if (id[CTI_GGUF_EOM] < 0) id[CTI_GGUF_EOM] = ends[i];
    }
}

bool cti_tokenizer_put(const ct_tokenizer *tokenizer, cti_gguf_out *out, int64_t rows,
                       const int64_t *ends, int64_t n) {
    cti_arena arena = {.context = out->context};
    cti_gguf_vocab vocab = cti_gguf_vocab_of(&arena, out->op, out->path);
    const cti_gguf_row *row;
    const cti_text architecture = architecture_put(out);
    /* the file's memory moves when keys are put */
    vocab.architecture = cti_arena_copy(&arena, architecture.at ? architecture : cti_text_of(""));
    bool done = vocab.architecture.at && cti_gguf_vocab_take(tokenizer, rows, &vocab, &row) &&
                cti_gguf_vocab_check(&vocab, row, tokenizer);
    if (done) ends_add(&vocab, ends, n);
    done = done && vocab_put(&vocab, out);
    cti_arena_free(&arena);
    if (!done) out->failed = true;
    return done && !out->failed;
}
