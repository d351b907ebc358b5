/* Tokenizers of the keys of a GGUF file, and the comparison of one with the tokenizer that the keys
 * were taken from. */
#include <cotangent/autograd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "byte_alphabet.h"
#include "gguf_tokens.h"

/* ---- building ---- */

/* A role needs an added token, as in transformers, where a role makes its token one. */
static void roles_give(const cti_gguf_vocab *vocab, cti_tokenizer_parts *parts) {
    const bool word_parts = vocab->model == CTI_GGUF_WORDPIECE && !vocab->json.at;
    for (int i = 0; i < CTI_GGUF_IDS; i++) {
        const int64_t id = vocab->id[i];
        const int role = cti_gguf_id_role[i];
        if (id < 0 || !cti_added_token_of(&parts->added, id)) continue;
        if (word_parts && (i == CTI_GGUF_BOS || i == CTI_GGUF_EOS)) continue; /* [CLS] and [SEP] */
        if (role >= 0) {
            parts->role[role] = id;
            parts->role_changed[role] = true;
        }
        if ((i == CTI_GGUF_EOS || i == CTI_GGUF_EOT || i == CTI_GGUF_EOM) &&
            parts->n_eos < CTI_MOST_EOS)
            parts->eos[parts->n_eos++] = id;
    }
}

static bool templates_give(const cti_gguf_vocab *vocab, ct_tokenizer *tokenizer) {
    for (int64_t i = 0; i < vocab->chats; i++) {
        const cti_text name = cti_arena_copy(&tokenizer->arena, vocab->chat[i].name);
        const cti_text text = cti_arena_copy(&tokenizer->arena, vocab->chat[i].text);
        if (!name.at || !text.at ||
            !cti_chat_template_set(&tokenizer->arena, &tokenizer->parts->chat_templates, name,
                                   text))
            return false;
        tokenizer->parts->template_changed = true;
    }
    return true;
}

static void note_write(cti_writer *out, const cti_gguf_vocab *vocab, const cti_gguf_row *row) {
    cti_string_write(out, vocab->path);
    cti_string_write(out, ": the tokenizer is made of the file's keys (");
    cti_string_write(out, cti_gguf_model_names[vocab->model]);
    if (vocab->model == CTI_GGUF_BPE) {
        cti_string_write(out, ", pre ");
        if (vocab->pre.at) cti_bytes_write(out, vocab->pre.at, vocab->pre.size);
        else cti_string_write(out, "absent");
    }
    cti_string_write(out,
                     "), which do not say everything that its tokenizer.json said: not whether "
                     "added tokens take the white space beside them");
    if (row->assumed) {
        cti_string_write(out, "; supposed is ");
        cti_string_write(out, row->assumed);
    }
}

static bool note_make(const cti_gguf_vocab *vocab, const cti_gguf_row *row,
                      ct_tokenizer *tokenizer) {
    cti_writer writer = {0};
    note_write(&writer, vocab, row);
    char *text = cti_arena_take(&tokenizer->arena, writer.used + 1, 1);
    if (!text) return false;
    writer = (cti_writer){.at = text, .size = writer.used};
    note_write(&writer, vocab, row);
    text[writer.used] = 0;
    tokenizer->parts->note = text;
    return true;
}

/* The name of the JSON in messages. */
static const char *source_name(const cti_gguf_vocab *vocab, cti_arena *arena) {
    static const char whole[] = ": tokenizer.huggingface.json", made[] = ": tokenizer.ggml";
    const size_t room = strlen(vocab->path) + sizeof whole;
    char *name = cti_arena_take(arena, room, 1);
    if (name) snprintf(name, room, "%s%s", vocab->path, vocab->json.at ? whole : made);
    return name;
}

bool cti_gguf_vocab_build(cti_gguf_vocab *vocab, ct_tokenizer *tokenizer) {
    cti_arena *arena = &tokenizer->arena;
    const cti_gguf_row *row = NULL;
    const cti_text json = vocab->json.at ? cti_arena_copy(arena, vocab->json)
                                         : cti_gguf_json_make(vocab, &row, arena);
    const char *name = json.at ? source_name(vocab, arena) : NULL;
    if (!name || !cti_tokenizer_read(tokenizer, vocab->op, name, json)) return false;
    roles_give(vocab, tokenizer->parts);
    return templates_give(vocab, tokenizer) && (!row || note_make(vocab, row, tokenizer));
}

/* ---- comparing ---- */

enum { CHECK_STRINGS = 1000, CHECK_TOKENS = 6, CHECK_BYTES = 1 << 12, CHECK_IDS = 2 * CHECK_BYTES };

/* What is drawn, and the texts that tokens are drawn from. */
typedef struct {
    const cti_gguf_vocab *vocab;
    const ct_tokenizer *tokenizer, *built;
    const cti_gguf_row *row;
    uint64_t state;
    char *text; /* [CHECK_BYTES] */
    size_t size;
    int64_t *ids[2]; /* [CHECK_IDS] */
} vocab_check;

/* The next number of SplitMix64, below n. */
static uint64_t check_draw(vocab_check *check, uint64_t n) {
    uint64_t z = check->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (z ^ z >> 31) % n;
}

static void check_put(vocab_check *check, const char *at, size_t size) {
    if (size > CHECK_BYTES - check->size) size = CHECK_BYTES - check->size;
    memcpy(check->text + check->size, at, size);
    check->size += size;
}

/* Appends a token as a text has it. */
static void check_token(vocab_check *check, cti_text token, bool added) {
    char bytes[CHECK_BYTES];
    size_t size = SIZE_MAX;
    if (!added && check->vocab->model == CTI_GGUF_BPE && token.size <= sizeof bytes)
        size = cti_alphabet_to_bytes(token, bytes);
    if (size != SIZE_MAX) {
        check_put(check, bytes, size);
        return;
    }
    const bool parts = check->vocab->model == CTI_GGUF_WORDPIECE && !added;
    const bool continues = parts && token.size > 2 && !memcmp(token.at, "##", 2);
    if (parts && !continues) check_put(check, " ", 1);
    if (continues) token = (cti_text){token.at + 2, token.size - 2};
    for (size_t i = 0; i < token.size; i++) {
        const bool space = !added && token.size - i >= 3 && !memcmp(token.at + i, "\u2581", 3);
        check_put(check, space ? " " : token.at + i, 1);
        i += space ? 2 : 0;
    }
}

/* Draws a string: tokens one behind the other, of which each fourth is an added one. A row that is
 * loose about spaces before a text, and behind special tokens, gets neither. */
static void check_string(vocab_check *check) {
    const cti_tokenizer_parts *parts = check->tokenizer->parts;
    const uint64_t n = 1 + check_draw(check, CHECK_TOKENS);
    check->size = 0;
    for (uint64_t i = 0; i < n; i++) {
        const cti_added_tokens *added = &parts->added;
        if (added->count && !check->row->loose && !check_draw(check, 4)) {
            const uint64_t k = check_draw(check, (uint64_t)added->count);
            check_token(check, added->token[k].content, true);
            continue;
        }
        const int64_t id = (int64_t)check_draw(check, (uint64_t)parts->vocabulary.size);
        const cti_text text = cti_vocabulary_text(&parts->vocabulary, id);
        if (text.at && !cti_added_token_of(added, id)) check_token(check, text, false);
    }
    size_t spaces = 0;
    while (check->row->loose && spaces < check->size && check->text[spaces] == ' ') spaces++;
    check->size -= spaces;
    memmove(check->text, check->text + spaces, check->size);
}

static bool check_differs(vocab_check *check) {
    char shown[101];
    const size_t size = check->size < 100 ? check->size : 100;
    memcpy(shown, check->text, size);
    shown[size] = 0;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)shown[i] < 0x20) shown[i] = ' ';
    return ct_fail(check->vocab->context, CT_ERR_ARGUMENT,
                   "%s: %s: a GGUF file cannot say what this tokenizer does: of '%s' its reader "
                   "would make other ids",
                   check->vocab->op, check->vocab->path, shown);
}

static bool strings_compare(vocab_check *check) {
    for (int i = 0; i < CHECK_STRINGS; i++) {
        int64_t n[2];
        check_string(check);
        for (int k = 0; k < 2; k++)
            n[k] = ct_encode(k ? check->built : check->tokenizer, check->text, check->size,
                             (ct_encode_opts){0}, check->ids[k], NULL, CHECK_IDS);
        /* both refuse a text that needs an unknown token which is not there */
        if (n[0] != n[1] && (n[0] < 0 || n[1] < 0))
            return cti_encode_failed(n[0] < 0 ? check->tokenizer : check->built, check->vocab->op);
        if (n[0] != n[1]) return check_differs(check);
        if (n[0] > 0 && n[0] <= CHECK_IDS &&
            memcmp(check->ids[0], check->ids[1], (size_t)n[0] * sizeof(int64_t)) != 0)
            return check_differs(check);
    }
    return true;
}

bool cti_gguf_vocab_check(const cti_gguf_vocab *vocab, const cti_gguf_row *row,
                          const ct_tokenizer *tokenizer) {
    cti_gguf_vocab copy = *vocab; /* building respells tokens */
    copy.token = cti_arena_take(vocab->arena, (size_t)vocab->count, sizeof *copy.token);
    vocab_check check = {.vocab = vocab, .tokenizer = tokenizer, .row = row};
    check.text = cti_arena_take(vocab->arena, CHECK_BYTES, 1);
    for (int k = 0; k < 2; k++)
        check.ids[k] = cti_arena_take(vocab->arena, CHECK_IDS, sizeof(int64_t));
    if (!copy.token || !check.text || !check.ids[0] || !check.ids[1]) return false;
    if (vocab->count) memcpy(copy.token, vocab->token, (size_t)vocab->count * sizeof *copy.token);
    ct_tokenizer *built = cti_tokenizer_new(vocab->context);
    if (built) built = cti_tokenizer_begin(built, cti_gguf_vocab_build(&copy, built));
    if (!built) return false;
    check.built = built;
    const bool same = strings_compare(&check);
    ct_tokenizer_close(built);
    return same;
}
