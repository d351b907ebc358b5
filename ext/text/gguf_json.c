/* The text of the tokenizer.json that the keys of a GGUF file stand for. */
#include <stdio.h>
#include <string.h>

#include "gguf_tokens.h"
#include "utf8.h"

static const char tokens_key[] = "tokenizer.ggml.tokens";
static const char block[] = "\u2581"; /* SentencePiece's space */
enum { BLOCK_BYTES = 3 };

/* ---- spellings ---- */

bool cti_gguf_is_gap(const cti_gguf_vocab *vocab, int64_t i) {
    char gap[32];
    const int size = snprintf(gap, sizeof gap, "[PAD%lld]", (long long)i);
    return vocab->type[i] == CTI_GGUF_UNUSED &&
           !cti_text_compare(vocab->token[i], (cti_text){gap, (size_t)size});
}

/* A token of SentencePiece that is all spaces, as the model has it. */
static bool spaces_respell(cti_gguf_vocab *vocab, int64_t i) {
    const cti_text text = vocab->token[i];
    for (size_t k = 0; k < text.size; k++)
        if (text.at[k] != ' ') return true;
    char *made = cti_arena_take(vocab->arena, BLOCK_BYTES * text.size + 1, 1);
    if (!made) return false;
    for (size_t k = 0; k < text.size; k++) memcpy(made + BLOCK_BYTES * k, block, BLOCK_BYTES);
    vocab->token[i] = (cti_text){made, BLOCK_BYTES * text.size};
    made[BLOCK_BYTES * text.size] = 0;
    return true;
}

/* A file spells the beginning of a word with U+2581 and its later parts without "##". */
static bool word_part_respell(cti_gguf_vocab *vocab, int64_t i) {
    const cti_text text = vocab->token[i];
    if (text.size >= BLOCK_BYTES && !memcmp(text.at, block, BLOCK_BYTES)) {
        vocab->token[i] = (cti_text){text.at + BLOCK_BYTES, text.size - BLOCK_BYTES};
        return true;
    }
    char *made = cti_arena_take(vocab->arena, text.size + 3, 1);
    if (!made) return false;
    memcpy(made, "##", 2);
    if (text.size) memcpy(made + 2, text.at, text.size);
    made[text.size + 2] = 0;
    vocab->token[i] = (cti_text){made, text.size + 2};
    return true;
}

static bool tokens_respell(cti_gguf_vocab *vocab) {
    const bool gemma = cti_gguf_is_gemma(vocab) || vocab->model == CTI_GGUF_GEMMA4;
    bool done = true;
    for (int64_t i = 0; i < vocab->count && done; i++) {
        if (vocab->model == CTI_GGUF_WORDPIECE && vocab->type[i] != CTI_GGUF_CONTROL)
            done = word_part_respell(vocab, i);
        if (gemma && vocab->type[i] == CTI_GGUF_USER) done = spaces_respell(vocab, i);
    }
    return done;
}

/* The ids of all tokens but gaps. */
static bool tokens_index(const cti_gguf_vocab *vocab, cti_vocabulary *index) {
    *index = (cti_vocabulary){.arena = vocab->arena};
    if (!cti_vocabulary_reserve(index, vocab->count, vocab->count)) return false;
    for (int64_t i = 0; i < vocab->count; i++) {
        if (cti_gguf_is_gap(vocab, i)) continue;
        const cti_text text = vocab->token[i];
        const int64_t known = cti_vocabulary_find(index, text.at, text.size);
        if (known != CTI_NO_ID)
            return cti_gguf_vocab_fail(vocab, tokens_key, "tokens %lld and %lld are both '%.*s'",
                                       (long long)known, (long long)i,
                                       (int)(text.size < 100 ? text.size : 100), text.at);
        if (!cti_vocabulary_add(index, text, i)) return false;
    }
    return true;
}

/* Each merge joins two tokens to a third. */
static bool merges_check(const cti_gguf_vocab *vocab, const cti_vocabulary *index) {
    static const char key[] = "tokenizer.ggml.merges";
    size_t longest = 0;
    for (int64_t i = 0; i < vocab->count; i++)
        if (vocab->token[i].size > longest) longest = vocab->token[i].size;
    char *room = cti_arena_take(vocab->arena, longest + 1, 1);
    if (!room) return false;
    for (int64_t i = 0; i < vocab->merges; i++) {
        const cti_gguf_merge merge = vocab->merge[i];
        const size_t size = merge.left.size + merge.right.size;
        bool known = size <= longest;
        if (known) {
            memcpy(room, merge.left.at, merge.left.size);
            memcpy(room + merge.left.size, merge.right.at, merge.right.size);
            known = cti_vocabulary_find(index, room, size) != CTI_NO_ID &&
                    cti_vocabulary_find(index, merge.left.at, merge.left.size) != CTI_NO_ID &&
                    cti_vocabulary_find(index, merge.right.at, merge.right.size) != CTI_NO_ID;
        }
        if (!known)
            return cti_gguf_vocab_fail(
                vocab, key, "merge %lld, '%.*s %.*s', joins no two tokens to a third", (long long)i,
                (int)(merge.left.size < 100 ? merge.left.size : 100), merge.left.at,
                (int)(merge.right.size < 100 ? merge.right.size : 100), merge.right.at);
    }
    return true;
}

/* ---- what the file leaves to its reader ---- */

/* Gives a role its default id if the token of this id can be one. */
static void default_id(cti_gguf_vocab *vocab, cti_gguf_role role, int64_t id) {
    const bool is_special = id < vocab->count && (vocab->type[id] == CTI_GGUF_CONTROL ||
                                                  vocab->type[id] == CTI_GGUF_UNKNOWN);
    if (vocab->id[role] < 0 && is_special) vocab->id[role] = id;
}

static void default_flag(cti_gguf_vocab *vocab, cti_gguf_option flag, bool value) {
    if (vocab->flag[flag] < 0) vocab->flag[flag] = value;
}

static void defaults_set(cti_gguf_vocab *vocab, const cti_gguf_row *row) {
    const cti_gguf_model model = vocab->model;
    const bool words_model = model == CTI_GGUF_WORDPIECE;
    if (model == CTI_GGUF_SPM) {
        default_id(vocab, CTI_GGUF_BOS, 1);
        default_id(vocab, CTI_GGUF_EOS, 2);
        default_id(vocab, CTI_GGUF_UNK, 0);
    }
    if (words_model) {
        if (vocab->id[CTI_GGUF_CLS] < 0) vocab->id[CTI_GGUF_CLS] = vocab->id[CTI_GGUF_BOS];
        default_id(vocab, CTI_GGUF_CLS, 101);
        default_id(vocab, CTI_GGUF_UNK, 100);
        default_id(vocab, CTI_GGUF_SEP, 102);
        default_id(vocab, CTI_GGUF_PAD, 0);
        default_id(vocab, CTI_GGUF_MASK, 103);
        default_flag(vocab, CTI_GGUF_LOWERCASE, true);
    }
    default_flag(vocab, CTI_GGUF_ADD_BOS,
                 model == CTI_GGUF_SPM || words_model || (model == CTI_GGUF_BPE && row->adds_bos));
    default_flag(vocab, CTI_GGUF_ADD_EOS, model == CTI_GGUF_UNIGRAM);
    default_flag(vocab, CTI_GGUF_ADD_SEP, row->adds_sep);
    default_flag(vocab, CTI_GGUF_SPACE_PREFIX, model == CTI_GGUF_SPM || model == CTI_GGUF_UNIGRAM);
    for (int64_t i = 0; i < vocab->count && vocab->id[CTI_GGUF_UNK] < 0; i++)
        if (vocab->type[i] == CTI_GGUF_UNKNOWN) vocab->id[CTI_GGUF_UNK] = i;
}

/* ---- the members ---- */

static void id_quote(cti_writer *out, const cti_gguf_vocab *vocab, int64_t id) {
    cti_quoted_write(out, vocab->token[id]);
}

/* Whether a token is found in a text before the model sees it. */
static bool is_added(const cti_gguf_vocab *vocab, int64_t i) {
    const int type = vocab->type[i];
    return type == CTI_GGUF_CONTROL || type == CTI_GGUF_USER || type == CTI_GGUF_UNKNOWN;
}

static void added_tokens_write(cti_writer *out, const cti_gguf_vocab *vocab) {
    const char *separator = "\"added_tokens\":[\n{\"id\":";
    for (int64_t i = 0; i < vocab->count; i++) {
        if (!is_added(vocab, i)) continue;
        cti_string_write(out, separator);
        cti_natural_write(out, i);
        cti_string_write(out, ",\"content\":");
        id_quote(out, vocab, i);
        cti_string_write(out, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                              "\"normalized\":false,\"special\":");
        cti_string_write(out, vocab->type[i] == CTI_GGUF_USER ? "false}" : "true}");
        separator = ",\n{\"id\":";
    }
    cti_string_write(out, separator[0] == '"' ? "\"added_tokens\":[]" : "\n]");
}

static void flag_word_write(cti_writer *out, const char *key, int flag) {
    cti_string_write(out, key);
    cti_string_write(out, flag < 0 ? "null" : flag ? "true" : "false");
}

static void base64_write(cti_writer *out, cti_text bytes) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes.size; i += 3) {
        const size_t left = bytes.size - i;
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++)
            group = group << 8 | (k < left ? (unsigned char)bytes.at[i + k] : 0);
        char text[4];
        for (int k = 0; k < 4; k++) text[k] = digit[group >> (18 - 6 * k) & 63];
        if (left < 3) text[3] = '=';
        if (left < 2) text[2] = '=';
        cti_bytes_write(out, text, 4);
    }
}

static void normalizer_write(cti_writer *out, const cti_gguf_vocab *vocab,
                             const cti_gguf_row *row) {
    if (vocab->model == CTI_GGUF_WORDPIECE) {
        flag_word_write(out,
                        "{\"type\":\"BertNormalizer\",\"clean_text\":true,"
                        "\"handle_chinese_chars\":true,\"strip_accents\":",
                        vocab->flag[CTI_GGUF_STRIP_ACCENTS]);
        flag_word_write(out, ",\"lowercase\":", vocab->flag[CTI_GGUF_LOWERCASE]);
        cti_string_write(out, "}");
        return;
    }
    if (vocab->model != CTI_GGUF_UNIGRAM) {
        cti_string_write(out, row->normalizer ? row->normalizer : "null");
        return;
    }
    const bool strips = vocab->flag[CTI_GGUF_ONE_SPACE] > 0;
    cti_string_write(out, "{\"type\":\"Sequence\",\"normalizers\":[");
    if (vocab->charsmap.at) {
        cti_string_write(out, "{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"");
        base64_write(out, vocab->charsmap);
        cti_string_write(out, strips ? "\"}," : "\"}");
    }
    if (strips)
        cti_string_write(out, "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true},"
                              "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},"
                              "\"content\":\" \"}");
    cti_string_write(out, "]}");
}

static void presplit_write(cti_writer *out, const cti_gguf_vocab *vocab, const cti_gguf_row *row) {
    if (vocab->model == CTI_GGUF_WORDPIECE)
        cti_string_write(out, "{\"type\":\"BertPreTokenizer\"}");
    else if (vocab->model == CTI_GGUF_UNIGRAM) {
        cti_string_write(out, "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\","
                              "\"prepend_scheme\":");
        cti_string_write(out, vocab->flag[CTI_GGUF_SPACE_PREFIX] ? "\"always\"" : "\"never\"");
        cti_string_write(out, ",\"split\":true}");
    } else cti_gguf_pretokenizer_write(out, row);
}

static void decoder_write(cti_writer *out, const cti_gguf_vocab *vocab) {
    switch (vocab->model) {
    case CTI_GGUF_BPE:
        cti_string_write(out, "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
                              "\"trim_offsets\":true,\"use_regex\":true}");
        break;
    case CTI_GGUF_WORDPIECE:
        cti_string_write(out, "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}");
        break;
    case CTI_GGUF_UNIGRAM:
        cti_string_write(out, "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\","
                              "\"prepend_scheme\":\"always\",\"split\":true}");
        break;
    default:
        cti_string_write(out, "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
                              "\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"},"
                              "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}");
        if (vocab->model == CTI_GGUF_SPM && vocab->flag[CTI_GGUF_SPACE_PREFIX])
            cti_string_write(out, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
        cti_string_write(out, "]}");
    }
}

/* ---- the tokens around a text ---- */

static void special_write(cti_writer *out, const cti_gguf_vocab *vocab, int64_t id, int type) {
    if (id < 0) return;
    cti_string_write(out, "{\"SpecialToken\":{\"id\":");
    id_quote(out, vocab, id);
    cti_string_write(out, type ? ",\"type_id\":1}}" : ",\"type_id\":0}}");
}

/* [BOS] A [EOS], or its second half with B. */
static void sequence_write(cti_writer *out, const cti_gguf_vocab *vocab, int64_t bos, int64_t eos,
                           int type) {
    special_write(out, vocab, bos, type);
    if (bos >= 0) cti_string_write(out, ",");
    cti_string_write(out, type ? "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}"
                               : "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}");
    if (eos >= 0) cti_string_write(out, ",");
    special_write(out, vocab, eos, type);
}

static void template_write(cti_writer *out, const cti_gguf_vocab *vocab, int64_t bos, int64_t eos) {
    const bool pairs = vocab->model == CTI_GGUF_WORDPIECE;
    const bool sep = vocab->flag[CTI_GGUF_ADD_SEP] > 0 && !pairs;
    cti_string_write(out, "{\"type\":\"TemplateProcessing\",\"single\":[");
    sequence_write(out, vocab, bos, eos, 0);
    cti_string_write(out, "],\"pair\":[");
    sequence_write(out, vocab, bos, eos, 0);
    cti_string_write(out, ",");
    sequence_write(out, vocab, pairs ? -1 : sep ? eos : bos, eos, 1);
    cti_string_write(out, "],\"special_tokens\":{");
    const int64_t ids[] = {bos, eos == bos ? -1 : eos};
    const char *separator = "";
    for (int i = 0; i < 2; i++) {
        if (ids[i] < 0) continue;
        cti_string_write(out, separator);
        id_quote(out, vocab, ids[i]);
        cti_string_write(out, ":{\"id\":");
        id_quote(out, vocab, ids[i]);
        cti_string_write(out, ",\"ids\":[");
        cti_natural_write(out, ids[i]);
        cti_string_write(out, "],\"tokens\":[");
        id_quote(out, vocab, ids[i]);
        cti_string_write(out, "]}");
        separator = ",";
    }
    cti_string_write(out, "}}");
}

/* The ids before and behind a text; -1: none. */
static void ends_of(const cti_gguf_vocab *vocab, int64_t *bos, int64_t *eos) {
    const bool parts = vocab->model == CTI_GGUF_WORDPIECE;
    *bos = parts                               ? vocab->id[CTI_GGUF_CLS]
           : vocab->flag[CTI_GGUF_ADD_BOS] > 0 ? vocab->id[CTI_GGUF_BOS]
                                               : -1;
    *eos = parts                               ? vocab->id[CTI_GGUF_SEP]
           : vocab->flag[CTI_GGUF_ADD_EOS] > 0 ? vocab->id[CTI_GGUF_EOS]
                                               : -1;
}

static void postprocessor_write(cti_writer *out, const cti_gguf_vocab *vocab) {
    static const char bytes[] = "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
                                "\"trim_offsets\":true,\"use_regex\":true}";
    int64_t bos, eos;
    ends_of(vocab, &bos, &eos);
    const bool around = bos >= 0 || eos >= 0, is_bytes = vocab->model == CTI_GGUF_BPE;
    if (around && is_bytes) cti_string_write(out, "{\"type\":\"Sequence\",\"processors\":[");
    if (is_bytes) cti_string_write(out, bytes);
    if (around && is_bytes) cti_string_write(out, ",");
    if (around) template_write(out, vocab, bos, eos);
    if (around && is_bytes) cti_string_write(out, "]}");
    if (!around && !is_bytes) cti_string_write(out, "null");
}

/* ---- the model ---- */

static void merges_list_write(cti_writer *out, const cti_gguf_vocab *vocab) {
    cti_string_write(out, ",\"merges\":[");
    for (int64_t i = 0; i < vocab->merges; i++) {
        cti_string_write(out, i ? ",\n[" : "\n[");
        cti_quoted_write(out, vocab->merge[i].left);
        cti_string_write(out, ",");
        cti_quoted_write(out, vocab->merge[i].right);
        cti_string_write(out, "]");
    }
    cti_string_write(out, "]");
}

static void unigram_write(cti_writer *out, const cti_gguf_vocab *vocab) {
    bool bytes = false;
    cti_string_write(out, "{\"type\":\"Unigram\",\"unk_id\":");
    if (vocab->id[CTI_GGUF_UNK] >= 0) cti_natural_write(out, vocab->id[CTI_GGUF_UNK]);
    else cti_string_write(out, "null");
    cti_string_write(out, ",\"vocab\":[");
    for (int64_t i = 0; i < vocab->count; i++) {
        cti_string_write(out, i ? ",\n[" : "\n[");
        id_quote(out, vocab, i);
        cti_string_write(out, ",");
        cti_real_write(out, vocab->score[i]);
        cti_string_write(out, "]");
        bytes |= vocab->type[i] == CTI_GGUF_BYTE;
    }
    flag_word_write(out, "],\"byte_fallback\":", bytes);
    cti_string_write(out, "}");
}

static void vocab_write(cti_writer *out, const cti_gguf_vocab *vocab) {
    const char *separator = ",\"vocab\":{\n";
    for (int64_t i = 0; i < vocab->count; i++) {
        if (cti_gguf_is_gap(vocab, i)) continue;
        cti_string_write(out, separator);
        id_quote(out, vocab, i);
        cti_string_write(out, ":");
        cti_natural_write(out, i);
        separator = ",\n";
    }
    cti_string_write(out, separator[1] == '"' ? ",\"vocab\":{}" : "}");
}

static void json_model_write(cti_writer *out, const cti_gguf_vocab *vocab,
                             const cti_gguf_row *row) {
    if (vocab->model == CTI_GGUF_UNIGRAM) {
        unigram_write(out, vocab);
        return;
    }
    const bool parts = vocab->model == CTI_GGUF_WORDPIECE, bytes = vocab->model == CTI_GGUF_BPE;
    const int64_t unknown = bytes ? -1 : vocab->id[CTI_GGUF_UNK];
    cti_string_write(out, parts ? "{\"type\":\"WordPiece\",\"unk_token\":"
                                : "{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (unknown >= 0) id_quote(out, vocab, unknown);
    else cti_string_write(out, parts ? "\"[UNK]\"" : "null");
    if (parts)
        cti_string_write(out,
                         ",\"continuing_subword_prefix\":\"##\",\"max_input_chars_per_word\":100");
    else {
        cti_string_write(out, ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null");
        flag_word_write(out, ",\"fuse_unk\":", !bytes);
        flag_word_write(out, ",\"byte_fallback\":", !bytes);
        flag_word_write(out, ",\"ignore_merges\":", row->ignore_merges);
    }
    vocab_write(out, vocab);
    if (!parts) merges_list_write(out, vocab);
    cti_string_write(out, "}");
}

/* ---- the whole ---- */

static void json_write(cti_writer *out, const cti_gguf_vocab *vocab, const cti_gguf_row *row) {
    cti_string_write(out, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n");
    added_tokens_write(out, vocab);
    cti_string_write(out, ",\n\"normalizer\":");
    normalizer_write(out, vocab, row);
    cti_string_write(out, ",\n\"pre_tokenizer\":");
    presplit_write(out, vocab, row);
    cti_string_write(out, ",\n\"post_processor\":");
    postprocessor_write(out, vocab);
    cti_string_write(out, ",\n\"decoder\":");
    decoder_write(out, vocab);
    cti_string_write(out, ",\n\"model\":");
    json_model_write(out, vocab, row);
    cti_string_write(out, "}\n");
}

/* A token that stands around texts must be there. */
static bool ends_check(const cti_gguf_vocab *vocab) {
    static const cti_gguf_role id[] = {CTI_GGUF_BOS, CTI_GGUF_EOS};
    static const cti_gguf_option flag[] = {CTI_GGUF_ADD_BOS, CTI_GGUF_ADD_EOS};
    for (int i = 0; i < 2 && vocab->model != CTI_GGUF_WORDPIECE; i++)
        if (vocab->flag[flag[i]] > 0 && vocab->id[id[i]] < 0)
            return cti_gguf_vocab_fail(vocab, cti_gguf_id_keys[id[i]],
                                       "is absent, though this token stands around each text");
    return true;
}

cti_text cti_gguf_json_make(cti_gguf_vocab *vocab, const cti_gguf_row **row, cti_arena *arena) {
    cti_text none = {0};
    cti_vocabulary index;
    *row = cti_gguf_row_of(vocab);
    if (!*row || !tokens_respell(vocab) || !tokens_index(vocab, &index)) return none;
    defaults_set(vocab, *row);
    if (!ends_check(vocab)) return none;
    if (vocab->model == CTI_GGUF_SPM && !cti_gguf_merges_make(vocab, &index)) return none;
    if (!merges_check(vocab, &index)) return none;
    cti_writer writer = {0};
    json_write(&writer, vocab, *row);
    char *text = cti_arena_take(arena, writer.used + 1, 1);
    if (!text) return none;
    writer = (cti_writer){.at = text, .size = writer.used};
    json_write(&writer, vocab, *row);
    text[writer.used] = 0;
    return (cti_text){text, writer.used};
}
