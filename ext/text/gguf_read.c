/* The vocabulary of a GGUF file: its keys tokenizer.*, checked one by one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../src/io/gguf.h"
#include "gguf_tokens.h"
#include "utf8.h"

typedef struct {
    const cti_gguf *file;
    cti_gguf_vocab *vocab;
} vocab_reading;

/* Finds an array whose length is that of the tokens. *pair is NULL if there is none. */
static bool column_find(const vocab_reading *read, const char *key, cti_gguf_kind kind,
                        const cti_gguf_pair **pair) {
    const cti_gguf_vocab *vocab = read->vocab;
    if (!cti_gguf_array(read->file, key, kind, pair)) return false;
    return !*pair || (*pair)->count == vocab->count ||
           cti_gguf_vocab_fail(vocab, key, "has %lld elements, and tokenizer.ggml.tokens %lld",
                               (long long)(*pair)->count, (long long)vocab->count);
}

static bool model_read(const vocab_reading *read) {
    static const char key[] = "tokenizer.ggml.model";
    cti_gguf_vocab *vocab = read->vocab;
    cti_text name = {0};
    if (!cti_gguf_text(read->file, key, &name)) return false;
    if (!name.at && vocab->json.at) return true;
    if (!name.at) return cti_gguf_vocab_fail(vocab, key, "is absent: the file has no tokenizer");
    for (int i = 0; i < CTI_GGUF_MODELS; i++) {
        if (cti_text_compare(name, cti_text_of(cti_gguf_model_names[i])) != 0) continue;
        vocab->model = (cti_gguf_model)i;
        return true;
    }
    return vocab->json.at || cti_gguf_vocab_fail(vocab, key, "'%.*s' is not supported",
                                                 (int)(name.size < 100 ? name.size : 100), name.at);
}

static bool tokens_read(const vocab_reading *read) {
    static const char key[] = "tokenizer.ggml.tokens";
    cti_gguf_vocab *vocab = read->vocab;
    const cti_gguf_pair *pair = NULL;
    if (!cti_gguf_array(read->file, key, CTI_GGUF_STRING, &pair)) return false;
    vocab->count = pair ? pair->count : 0;
    if (!vocab->count && !vocab->json.at)
        return cti_gguf_vocab_fail(vocab, key, pair ? "has no tokens" : "is absent");
    if (vocab->count >= CTI_MOST_IDS) return cti_gguf_vocab_fail(vocab, key, "has too many tokens");
    vocab->token = cti_arena_take(vocab->arena, (size_t)vocab->count, sizeof *vocab->token);
    if (!vocab->token) return false;
    cti_gguf_cursor cursor = {0};
    for (int64_t i = 0; i < vocab->count; i++) {
        const cti_text text = cti_gguf_next_text(pair, &cursor);
        if (cti_utf8_check(text.at, text.size) != text.size || memchr(text.at, 0, text.size))
            return cti_gguf_vocab_fail(vocab, key, "token %lld is not UTF-8", (long long)i);
        vocab->token[i] = text;
    }
    return true;
}

/* ---- types ---- */

/* Types that a file does not have, as old ones: those of bytes and of tokens with a role. */
static void types_suppose(cti_gguf_vocab *vocab) {
    for (int64_t i = 0; i < vocab->count; i++) {
        const cti_text text = vocab->token[i];
        const bool byte = text.size == 6 && !memcmp(text.at, "<0x", 3) && text.at[5] == '>';
        vocab->type[i] = byte && vocab->model != CTI_GGUF_BPE ? CTI_GGUF_BYTE : CTI_GGUF_NORMAL;
    }
    for (int k = 0; k < CTI_GGUF_IDS; k++)
        if (vocab->id[k] >= 0)
            vocab->type[vocab->id[k]] = k == CTI_GGUF_UNK && vocab->model == CTI_GGUF_SPM
                                            ? CTI_GGUF_UNKNOWN
                                            : CTI_GGUF_CONTROL;
}

static bool byte_token_check(const cti_gguf_vocab *vocab, int64_t i) {
    const cti_text text = vocab->token[i];
    const char *digits = "0123456789ABCDEFabcdef";
    const bool good = text.size == 6 && !memcmp(text.at, "<0x", 3) && text.at[5] == '>' &&
                      strchr(digits, text.at[3]) && strchr(digits, text.at[4]);
    return good ||
           cti_gguf_vocab_fail(vocab, "tokenizer.ggml.tokens",
                               "token %lld, '%.*s', has the type of a byte, and is none",
                               (long long)i, (int)(text.size < 100 ? text.size : 100), text.at);
}

/* A token that begins or ends texts or turns is a control token, whatever the file says. */
static void ends_are_control(cti_gguf_vocab *vocab) {
    for (int k = CTI_GGUF_BOS; k <= CTI_GGUF_EOM; k++)
        if (vocab->id[k] >= 0 && vocab->type[vocab->id[k]] == CTI_GGUF_NORMAL)
            vocab->type[vocab->id[k]] = CTI_GGUF_CONTROL;
}

static bool types_read(const vocab_reading *read) {
    static const char key[] = "tokenizer.ggml.token_type";
    cti_gguf_vocab *vocab = read->vocab;
    const cti_gguf_pair *pair = NULL;
    if (!column_find(read, key, CTI_GGUF_I64, &pair)) return false;
    vocab->type = cti_arena_take(vocab->arena, (size_t)vocab->count, 1);
    if (!vocab->type) return false;
    if (!pair) {
        types_suppose(vocab);
        return true;
    }
    for (int64_t i = 0; i < vocab->count; i++) {
        const int64_t type = cti_gguf_integer_at(pair, i);
        if (type < CTI_GGUF_NORMAL || type > CTI_GGUF_BYTE)
            return cti_gguf_vocab_fail(vocab, key, "token %lld has the unknown type %lld",
                                       (long long)i, (long long)type);
        vocab->type[i] = (unsigned char)type;
        if (type == CTI_GGUF_BYTE && !byte_token_check(vocab, i)) return false;
    }
    ends_are_control(vocab);
    return true;
}

/* ---- scores and merges ---- */

static bool scores_read(const vocab_reading *read) {
    static const char key[] = "tokenizer.ggml.scores";
    cti_gguf_vocab *vocab = read->vocab;
    if (vocab->model != CTI_GGUF_SPM && vocab->model != CTI_GGUF_UNIGRAM) return true;
    const cti_gguf_pair *pair = cti_gguf_find(read->file, key);
    const bool real = pair && (pair->kind == CTI_GGUF_F32 || pair->kind == CTI_GGUF_F64);
    if (!column_find(read, key, real ? CTI_GGUF_F64 : CTI_GGUF_I64, &pair)) return false;
    if (!pair) return vocab->model == CTI_GGUF_SPM || cti_gguf_vocab_fail(vocab, key, "is absent");
    vocab->score = cti_arena_take(vocab->arena, (size_t)vocab->count, sizeof *vocab->score);
    if (!vocab->score) return false;
    for (int64_t i = 0; i < vocab->count; i++) {
        const double score =
            real ? cti_gguf_real_at(pair, i) : (double)cti_gguf_integer_at(pair, i);
        if (!isfinite(score))
            return cti_gguf_vocab_fail(vocab, key, "the score of token %lld is %g", (long long)i,
                                       score);
        vocab->score[i] = score;
    }
    return true;
}

/* A merge is "left right"; the first piece has at least one byte. */
static bool merge_list_read(const vocab_reading *read) {
    static const char key[] = "tokenizer.ggml.merges";
    cti_gguf_vocab *vocab = read->vocab;
    const cti_gguf_pair *pair = NULL;
    if (vocab->model != CTI_GGUF_BPE && vocab->model != CTI_GGUF_GEMMA4) return true;
    if (!cti_gguf_array(read->file, key, CTI_GGUF_STRING, &pair)) return false;
    if (!pair) return cti_gguf_vocab_fail(vocab, key, "is absent");
    vocab->merge = cti_arena_take(vocab->arena, (size_t)pair->count, sizeof *vocab->merge);
    if (!vocab->merge) return false;
    cti_gguf_cursor cursor = {0};
    for (; vocab->merges < pair->count; vocab->merges++) {
        const cti_text text = cti_gguf_next_text(pair, &cursor);
        const char *space = text.size > 1 ? memchr(text.at + 1, ' ', text.size - 1) : NULL;
        if (!space || cti_utf8_check(text.at, text.size) != text.size)
            return cti_gguf_vocab_fail(vocab, key, "merge %lld is not two pieces of UTF-8",
                                       (long long)vocab->merges);
        const size_t left = (size_t)(space - text.at);
        vocab->merge[vocab->merges] =
            (cti_gguf_merge){{text.at, left}, {space + 1, text.size - left - 1}};
    }
    return true;
}

/* ---- ids, flags, the table of texts ---- */

static bool special_ids_read(const vocab_reading *read) {
    cti_gguf_vocab *vocab = read->vocab;
    for (int k = 0; k < CTI_GGUF_IDS; k++) {
        int64_t id = -1;
        if (!cti_gguf_find(read->file, cti_gguf_id_keys[k])) continue;
        if (!cti_gguf_integer(read->file, cti_gguf_id_keys[k], &id)) return false;
        if (id < 0 || (id >= vocab->count && vocab->count))
            return cti_gguf_vocab_fail(vocab, cti_gguf_id_keys[k],
                                       "%lld is none of the file's %lld ids", (long long)id,
                                       (long long)vocab->count);
        vocab->id[k] = id;
    }
    return true;
}

static bool flags_read(const vocab_reading *read) {
    for (int k = 0; k < CTI_GGUF_FLAGS; k++) {
        bool flag = false;
        if (!cti_gguf_find(read->file, cti_gguf_flag_keys[k])) continue;
        if (!cti_gguf_flag(read->file, cti_gguf_flag_keys[k], &flag)) return false;
        read->vocab->flag[k] = flag;
    }
    return true;
}

static bool charsmap_read(const vocab_reading *read) {
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    const cti_gguf_pair *pair = cti_gguf_find(read->file, key);
    if (!pair || read->vocab->model != CTI_GGUF_UNIGRAM) return true;
    if (!pair->is_array || (pair->kind != CTI_GGUF_U8 && pair->kind != CTI_GGUF_I8))
        return cti_gguf_vocab_fail(read->vocab, key, "is no array of bytes");
    if (pair->count)
        read->vocab->charsmap = (cti_text){(const char *)pair->at, (size_t)pair->count};
    return true;
}

/* ---- chat templates ---- */

/* The text after "tokenizer.chat_template." of a key; .at is NULL for another key. */
static cti_text template_name(cti_text key) {
    static const char begin[] = "tokenizer.chat_template";
    const size_t size = sizeof begin - 1;
    if (key.size < size || memcmp(key.at, begin, size) != 0) return (cti_text){0};
    if (key.size == size) return cti_text_of(cti_chat_default);
    if (key.at[size] != '.' || key.size == size + 1) return (cti_text){0};
    return (cti_text){key.at + size + 1, key.size - size - 1};
}

static bool chat_read(const vocab_reading *read) {
    cti_gguf_vocab *vocab = read->vocab;
    int64_t count = 0;
    for (int64_t i = 0; i < read->file->pairs; i++)
        count += template_name(read->file->pair[i].key).at != NULL;
    vocab->chat = cti_arena_take(vocab->arena, (size_t)count, sizeof *vocab->chat);
    if (!vocab->chat) return false;
    for (int64_t i = 0; i < read->file->pairs; i++) {
        const cti_gguf_pair *pair = &read->file->pair[i];
        const cti_text name = template_name(pair->key);
        if (!name.at) continue;
        const cti_text key = cti_arena_copy(vocab->arena, pair->key);
        cti_text text = {0};
        if (!key.at || !cti_gguf_text(read->file, key.at, &text)) return false;
        vocab->chat[vocab->chats++] = (cti_gguf_template){name, text};
    }
    return true;
}

bool cti_gguf_vocab_read(const cti_gguf *file, cti_gguf_vocab *vocab) {
    const vocab_reading read = {file, vocab};
    return cti_gguf_text(file, "general.architecture", &vocab->architecture) &&
           cti_gguf_text(file, "tokenizer.huggingface.json", &vocab->json) && model_read(&read) &&
           cti_gguf_text(file, "tokenizer.ggml.pre", &vocab->pre) && tokens_read(&read) &&
           special_ids_read(&read) && flags_read(&read) &&
           (vocab->json.at || (types_read(&read) && scores_read(&read) && merge_list_read(&read) &&
                               charsmap_read(&read))) &&
           chat_read(&read);
}

bool cti_gguf_tokenizer_read(ct_tokenizer *tokenizer, const char *op, const char *path) {
    cti_gguf file;
    if (!cti_gguf_open(tokenizer->context, op, path, &file)) return false;
    cti_arena arena = {.context = tokenizer->context};
    cti_gguf_vocab vocab = cti_gguf_vocab_of(&arena, op, path);
    const bool done = cti_gguf_vocab_read(&file, &vocab) && cti_gguf_vocab_build(&vocab, tokenizer);
    cti_arena_free(&arena);
    cti_gguf_close(&file);
    return done;
}
