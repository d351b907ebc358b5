/* What the keys of a GGUF file say of a tokenizer. What it cannot say is refused. */
#include <cotangent/autograd.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/assert.h"
#include "../../src/core/message.h"
#include "gguf_tokens.h"

/* A tokenizer that is being taken apart. */
typedef struct {
    cti_gguf_vocab *vocab;
    const ct_tokenizer *tokenizer;
    const cti_tokenizer_parts *parts;
    cti_json_tree tree; /* of its tokenizer.json */
    cti_json_at model;
} vocab_taking;

/* Records CT_ERR_ARGUMENT and returns false. */
static bool take_refuse(const vocab_taking *take, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool take_refuse(const vocab_taking *take, const char *format, ...) {
    char fault[CTI_MESSAGE_SIZE / 2];
    va_list list;
    va_start(list, format);
    cti_message(fault, sizeof fault, format, list);
    va_end(list);
    return ct_fail(take->vocab->context, CT_ERR_ARGUMENT,
                   "%s: %s: a GGUF file cannot have this tokenizer: %s", take->vocab->op,
                   take->vocab->path, fault);
}

/* ---- the row ---- */

static bool member_is_true(const vocab_taking *take, const char *key) {
    const cti_json_at value = cti_json_member(&take->tree, take->model, key);
    return value && take->tree.value[value].kind == CTI_JSON_TRUE;
}

/* Whether a member of the model is a text that is not empty. */
static bool member_has_text(const vocab_taking *take, const char *key) {
    const cti_json_at value = cti_json_member(&take->tree, take->model, key);
    return value && take->tree.value[value].kind == CTI_JSON_STRING && take->tree.value[value].size;
}

static bool model_take(vocab_taking *take) {
    cti_gguf_vocab *vocab = take->vocab;
    const bool merges = cti_json_member(&take->tree, take->model, "merges") != 0;
    const cti_json_at type = cti_json_member(&take->tree, take->model, "type");
    const cti_text name =
        type ? cti_json_text(&take->tree, type) : cti_text_of(merges ? "BPE" : "WordPiece");
    if (!cti_text_compare(name, cti_text_of("WordPiece"))) {
        int64_t most = 0;
        const cti_json_at limit =
            cti_json_member(&take->tree, take->model, "max_input_chars_per_word");
        vocab->model = CTI_GGUF_WORDPIECE;
        return (limit && cti_json_whole(&take->tree, limit, &most) && most == 100) ||
               take_refuse(take, "a word has at most 100 characters");
    }
    if (cti_text_compare(name, cti_text_of("BPE")) != 0)
        return take_refuse(take, "the model is %s, and only BPE and WordPiece are written",
                           name.at);
    vocab->model = take->parts->bytes ? CTI_GGUF_BPE : CTI_GGUF_SPM;
    if (!take->parts->bytes && !member_is_true(take, "byte_fallback"))
        return take_refuse(take, "its BPE is neither one of bytes nor one with byte_fallback");
    if (member_has_text(take, "continuing_subword_prefix") ||
        member_has_text(take, "end_of_word_suffix"))
        return take_refuse(take, "its BPE has a prefix or a suffix of parts of words");
    return true;
}

static cti_text shape_text(const cti_gguf_vocab *vocab, const cti_json_tree *tree,
                           cti_json_at value) {
    cti_writer writer = {0};
    cti_gguf_shape_write(&writer, tree, value);
    char *text = cti_arena_take(vocab->arena, writer.used + 1, 1);
    if (!text) return (cti_text){0};
    writer = (cti_writer){.at = text, .size = writer.used};
    cti_gguf_shape_write(&writer, tree, value);
    text[writer.used] = 0;
    return (cti_text){text, writer.used};
}

/* The shape of a JSON text of ours, which is put into an array, because value 0 stands for none. */
static cti_text shape_of_json(const cti_gguf_vocab *vocab, cti_text json) {
    char *copy = cti_arena_take(vocab->arena, json.size + 3, 1);
    cti_text shape = {0};
    cti_json_tree tree;
    if (!copy) return shape;
    snprintf(copy, json.size + 3, "[%s]", json.at);
    if (!cti_json_tree_read(vocab->context, vocab->op, vocab->path, copy, json.size + 2, &tree))
        return shape;
    shape = shape_text(vocab, &tree, 1);
    cti_json_tree_free(&tree);
    return shape;
}

/* The shapes of a row's normalizer and pre-tokenizer; false after an error. */
static bool row_shapes(const cti_gguf_vocab *vocab, const cti_gguf_row *row, cti_text shape[2]) {
    if (vocab->model == CTI_GGUF_WORDPIECE) {
        shape[0] = cti_text_of("BertNormalizer(true,true);");
        shape[1] = cti_text_of("BertPreTokenizer();");
        return true;
    }
    shape[0] = shape_of_json(vocab, cti_text_of(row->normalizer ? row->normalizer : "null"));
    if (row->shape) shape[1] = cti_text_of(row->shape);
    else {
        char text[2048];
        cti_writer writer = {.at = text, .size = sizeof text - 1};
        cti_gguf_pretokenizer_write(&writer, row);
        CTI_ASSERT(writer.used <= writer.size);
        text[writer.used] = 0;
        shape[1] = shape_of_json(vocab, (cti_text){text, writer.used});
    }
    return shape[0].at && shape[1].at;
}

/* Finds the row whose reader does what this tokenizer does. */
static bool row_take(const vocab_taking *take, const cti_gguf_row **row) {
    cti_gguf_vocab *vocab = take->vocab;
    const bool ignores = member_is_true(take, "ignore_merges");
    const bool sep = vocab->flag[CTI_GGUF_ADD_SEP] > 0;
    cti_text own[2], shape[2];
    own[0] = shape_text(vocab, &take->tree, cti_json_member(&take->tree, 0, "normalizer"));
    own[1] = shape_text(vocab, &take->tree, cti_json_member(&take->tree, 0, "pre_tokenizer"));
    if (!own[0].at || !own[1].at) return false;
    for (int i = 0; (*row = cti_gguf_row_at(i)) != NULL; i++) {
        const cti_gguf_row *at = *row;
        if (at->model != vocab->model) continue;
        if (!row_shapes(vocab, at, shape)) return false;
        if (!cti_text_compare(own[0], shape[0]) && !cti_text_compare(own[1], shape[1]) &&
            at->ignore_merges == ignores && (sep || !at->adds_sep))
            return true;
    }
    return take_refuse(take, "no name stands for its normalizer %s and pre-tokenizer %s%s",
                       own[0].size ? own[0].at : "(none)", own[1].size ? own[1].at : "(none)",
                       ignores ? " with ignore_merges" : "");
}

/* ---- tokens ---- */

static bool begins_and_ends(cti_text text, const char *begin, const char *end) {
    const size_t a = strlen(begin), b = strlen(end);
    return text.size >= a + b && !memcmp(text.at, begin, a) &&
           !memcmp(text.at + text.size - b, end, b);
}

/* Added tokens that are control tokens, though their files do not say that they are special. */
static bool looks_special(cti_text text) {
    static const char *const names[] = {"<pad>", "<mask>", "<2mass>", "[@BOS@]"};
    for (int i = 0; i < 4; i++)
        if (!cti_text_compare(text, cti_text_of(names[i]))) return true;
    return begins_and_ends(text, "<|", "|>") || begins_and_ends(text, "<\uFF5C", "\uFF5C>") ||
           begins_and_ends(text, "<unused", ">");
}

static bool is_byte_token(cti_text text) {
    static const char digits[] = "0123456789ABCDEF";
    return text.size == 6 && begins_and_ends(text, "<0x", ">") && text.at[3] && text.at[4] &&
           strchr(digits, text.at[3]) && strchr(digits, text.at[4]);
}

static unsigned char token_type(const vocab_taking *take, int64_t id, cti_text text) {
    const cti_added_token *added = cti_added_token_of(&take->parts->added, id);
    const bool spm = take->vocab->model == CTI_GGUF_SPM;
    if (spm && (id == take->parts->role[2] || id == cti_model_unknown(take->parts->model)))
        return CTI_GGUF_UNKNOWN;
    if (added) return added->special || looks_special(text) ? CTI_GGUF_CONTROL : CTI_GGUF_USER;
    return spm && is_byte_token(text) ? CTI_GGUF_BYTE : CTI_GGUF_NORMAL;
}

/* The spelling of a token in the file. */
static cti_text token_spell(const vocab_taking *take, cti_text text, unsigned char type) {
    const cti_gguf_vocab *vocab = take->vocab;
    static const char block[] = "\u2581";
    char *made = cti_arena_take(vocab->arena, text.size + 4, 1);
    if (!made) return (cti_text){0};
    size_t size = 0;
    if (vocab->model == CTI_GGUF_WORDPIECE && type != CTI_GGUF_CONTROL) {
        const bool part = text.size >= 2 && !memcmp(text.at, "##", 2);
        if (part) text = (cti_text){text.at + 2, text.size - 2};
        else memcpy(made, block, 3), size = 3;
    }
    const bool spaces = type == CTI_GGUF_USER && cti_gguf_is_gemma(vocab);
    for (size_t i = 0; i < text.size; i++) {
        const bool space = spaces && text.size - i >= 3 && !memcmp(text.at + i, block, 3);
        made[size++] = space ? ' ' : text.at[i];
        i += space ? 2 : 0;
    }
    made[size] = 0;
    return (cti_text){made, size};
}

static bool tokens_take(const vocab_taking *take, int64_t rows) {
    cti_gguf_vocab *vocab = take->vocab;
    const int64_t size = take->parts->size;
    if (size > rows)
        return take_refuse(take, "it has %lld ids, and the model %lld", (long long)size,
                           (long long)rows);
    vocab->count = rows;
    vocab->token = cti_arena_take(vocab->arena, (size_t)rows, sizeof *vocab->token);
    vocab->type = cti_arena_take(vocab->arena, (size_t)rows, 1);
    if (!vocab->token || !vocab->type) return false;
    for (int64_t i = 0; i < rows; i++) {
        cti_text text = cti_token_text(take->parts, i);
        if (text.at) {
            vocab->type[i] = token_type(take, i, text);
            vocab->token[i] = token_spell(take, text, vocab->type[i]);
        } else {
            char gap[32];
            const int used = snprintf(gap, sizeof gap, "[PAD%lld]", (long long)i);
            vocab->type[i] = CTI_GGUF_UNUSED;
            vocab->token[i] = token_spell(take, (cti_text){gap, (size_t)used}, CTI_GGUF_UNUSED);
        }
        if (!vocab->token[i].at) return false;
    }
    return true;
}

/* ---- merges and scores ---- */

/* The two parts of a merge: ["a", "b"], or "a b". A line "#version..." is none. */
static bool merge_parts(const vocab_taking *take, cti_json_at item, cti_gguf_merge *merge) {
    const cti_json_tree *tree = &take->tree;
    if (tree->value[item].kind == CTI_JSON_ARRAY) {
        const cti_json_at first = cti_json_first(tree, item);
        *merge = (cti_gguf_merge){cti_json_text(tree, first),
                                  cti_json_text(tree, tree->value[first].next)};
        return true;
    }
    const cti_text text = cti_json_text(tree, item);
    const char *space = memchr(text.at, ' ', text.size);
    if (!space || (text.size >= 8 && !memcmp(text.at, "#version", 8))) return false;
    const size_t left = (size_t)(space - text.at);
    *merge = (cti_gguf_merge){{text.at, left}, {space + 1, text.size - left - 1}};
    return true;
}

static bool merges_take(const vocab_taking *take) {
    cti_gguf_vocab *vocab = take->vocab;
    const cti_json_at list = cti_json_member(&take->tree, take->model, "merges");
    const size_t most = list ? take->tree.value[list].count : 0;
    vocab->merge = cti_arena_take(vocab->arena, most, sizeof *vocab->merge);
    if (!vocab->merge) return false;
    for (cti_json_at i = list ? cti_json_first(&take->tree, list) : 0; i;
         i = take->tree.value[i].next)
        vocab->merges += merge_parts(take, i, &vocab->merge[vocab->merges]);
    return vocab->merges || take_refuse(take, "its BPE has no merges");
}

/* Minus the index of the first merge that makes the token; tokens that no merge makes come behind
 * all others. A control token is made by no merge, and its score is the one of llama.cpp's
 * converter. */
static bool scores_take(const vocab_taking *take) {
    cti_gguf_vocab *vocab = take->vocab;
    size_t longest = 0;
    for (int64_t i = 0; i < vocab->count; i++)
        if (vocab->token[i].size > longest) longest = vocab->token[i].size;
    char *room = cti_arena_take(vocab->arena, 2 * longest + 1, 1);
    vocab->score = cti_arena_take(vocab->arena, (size_t)vocab->count, sizeof *vocab->score);
    if (!room || !vocab->score) return false;
    if (vocab->merges + vocab->count >= 1 << 24)
        return take_refuse(take, "it has more than 2^24 merges");
    for (int64_t i = 0; i < vocab->count; i++) {
        const int type = vocab->type[i];
        const double last = -(double)(vocab->merges + i);
        vocab->score[i] = type == CTI_GGUF_NORMAL                             ? last
                          : type == CTI_GGUF_UNKNOWN || type == CTI_GGUF_BYTE ? 0
                          : type == CTI_GGUF_UNUSED                           ? -10000
                                                                              : -1000;
    }
    for (int64_t k = vocab->merges - 1; k >= 0; k--) {
        const cti_gguf_merge merge = vocab->merge[k];
        memcpy(room, merge.left.at, merge.left.size);
        memcpy(room + merge.left.size, merge.right.at, merge.right.size);
        const int64_t id =
            cti_vocabulary_find(&take->parts->vocabulary, room, merge.left.size + merge.right.size);
        if (id >= 0 && vocab->type[id] == CTI_GGUF_NORMAL) vocab->score[id] = k ? -(double)k : 0;
    }
    vocab->merges = 0; /* the file has none */
    return true;
}

/* ---- ids and flags ---- */

static void flags_of_words(const vocab_taking *take) {
    cti_gguf_vocab *vocab = take->vocab;
    const cti_json_at normalizer = cti_json_member(&take->tree, 0, "normalizer");
    const cti_json_at accents = cti_json_member(&take->tree, normalizer, "strip_accents");
    const cti_json_at lower = cti_json_member(&take->tree, normalizer, "lowercase");
    const cti_json_value *value = take->tree.value;
    vocab->flag[CTI_GGUF_LOWERCASE] = lower && value[lower].kind == CTI_JSON_TRUE;
    if (accents && value[accents].kind != CTI_JSON_NULL)
        vocab->flag[CTI_GGUF_STRIP_ACCENTS] = value[accents].kind == CTI_JSON_TRUE;
}

/* add_sep_token says what stands between the two texts of a pair, besides what stands around one:
 * a token if nothing stands behind one, or two tokens. */
static void separator_take(const vocab_taking *take, int64_t last) {
    const cti_postprocessor *post = &take->parts->postprocessor;
    int64_t first = -1, second = -1;
    for (int64_t i = 0; i < post->pairs; i++) {
        if (post->pair[i].id == CTI_FIRST_TEXT) first = i;
        if (post->pair[i].id == CTI_SECOND_TEXT) second = i;
    }
    if (first < 0 || second <= first + 1) return;
    const int64_t id = post->pair[first + 1].id, between = second - first - 1;
    if (id != take->vocab->id[CTI_GGUF_SEP] && id != take->vocab->id[CTI_GGUF_EOS]) return;
    take->vocab->flag[CTI_GGUF_ADD_SEP] = between == 2 || (between == 1 && last < 0);
}

/* What stands around a text is at most the bos_token and the eos_token. */
static bool ends_take(const vocab_taking *take) {
    cti_gguf_vocab *vocab = take->vocab;
    const cti_postprocessor *post = &take->parts->postprocessor;
    int64_t first = -1, last = -1, at = 0;
    while (at < post->singles && post->single[at].id != CTI_FIRST_TEXT) at++;
    if (post->singles && (at > 1 || post->singles - at > 2 || at == post->singles))
        return take_refuse(take, "its post-processor puts more than one token before or behind a "
                                 "text");
    if (at == 1) first = post->single[0].id;
    if (post->singles - at == 2) last = post->single[at + 1].id;
    int64_t *id = vocab->id;
    if (id[CTI_GGUF_BOS] < 0) id[CTI_GGUF_BOS] = id[CTI_GGUF_CLS];
    if (id[CTI_GGUF_EOS] < 0) id[CTI_GGUF_EOS] = id[CTI_GGUF_SEP];
    if (first >= 0 && id[CTI_GGUF_BOS] < 0) id[CTI_GGUF_BOS] = first;
    if (first >= 0 && first != id[CTI_GGUF_BOS])
        return take_refuse(take,
                           "its post-processor puts the token %lld before a text, and the "
                           "bos_token is %lld",
                           (long long)first, (long long)id[CTI_GGUF_BOS]);
    if (last >= 0 && last != id[CTI_GGUF_EOS]) {
        id[CTI_GGUF_EOT] = id[CTI_GGUF_EOS]; /* it ends turns, if not texts */
        id[CTI_GGUF_EOS] = last;
    }
    if (vocab->model == CTI_GGUF_WORDPIECE && (first < 0 || last < 0))
        return take_refuse(take, "a WordPiece needs [CLS] before and [SEP] behind a text");
    vocab->flag[CTI_GGUF_ADD_BOS] = first >= 0;
    vocab->flag[CTI_GGUF_ADD_EOS] = last >= 0;
    separator_take(take, last);
    return true;
}

static bool templates_take(const vocab_taking *take) {
    const cti_chat_templates *from = &take->parts->chat_templates;
    cti_gguf_vocab *vocab = take->vocab;
    vocab->chat = cti_arena_take(vocab->arena, (size_t)from->count, sizeof *vocab->chat);
    if (!vocab->chat) return false;
    for (; vocab->chats < from->count; vocab->chats++)
        vocab->chat[vocab->chats] =
            (cti_gguf_template){from->at[vocab->chats].name, from->at[vocab->chats].text};
    return true;
}

/* ---- the whole ---- */

static bool all_take(vocab_taking *take, int64_t rows, const cti_gguf_row **row) {
    cti_gguf_vocab *vocab = take->vocab;
    for (int i = 0; i < CTI_GGUF_IDS; i++)
        if (cti_gguf_id_role[i] >= 0) vocab->id[i] = take->parts->role[cti_gguf_id_role[i]];
    if (!model_take(take) || !ends_take(take) || !row_take(take, row)) return false;
    vocab->pre = cti_text_of((*row)->pre + (*(*row)->pre == ' '));
    const char *end = strchr(vocab->pre.at, ' ');
    if (end) vocab->pre.size = (size_t)(end - vocab->pre.at);
    else vocab->pre = cti_text_of("default");
    if (vocab->model == CTI_GGUF_SPM) vocab->flag[CTI_GGUF_SPACE_PREFIX] = (*row)->prefix;
    if (vocab->model == CTI_GGUF_WORDPIECE) flags_of_words(take);
    if (!tokens_take(take, rows)) return false;
    if (vocab->model != CTI_GGUF_WORDPIECE && !merges_take(take)) return false;
    if (vocab->model == CTI_GGUF_SPM && !scores_take(take)) return false;
    return templates_take(take);
}

bool cti_gguf_vocab_take(const ct_tokenizer *tokenizer, int64_t rows, cti_gguf_vocab *vocab,
                         const cti_gguf_row **row) {
    vocab_taking take = {.vocab = vocab, .tokenizer = tokenizer, .parts = tokenizer->parts};
    const cti_text copy = cti_arena_copy(vocab->arena, tokenizer->parts->file);
    if (!copy.at || !cti_json_tree_read(vocab->context, vocab->op, vocab->path, (char *)copy.at,
                                        copy.size, &take.tree))
        return false;
    take.model = cti_json_member(&take.tree, 0, "model");
    const bool done = all_take(&take, rows, row);
    cti_json_tree_free(&take.tree);
    return done;
}
