/* Tokenizers inside GGUF files: small vocabularies of each kind, and files that are refused. Ids
 * are those of the tokenizers package for the same vocabulary (test_gguf_tokenizers_live.py
 * compares larger ones). */
#include "gguf_bytes.h"
#include "ext/text/gguf_tokens.h"
#include "tests/support/files.h"

#define GGML  "tokenizer.ggml."
#define BLOCK "\u2581"
#define GAP   "\u0120" /* the space in GPT-2's alphabet */

static void start(void) { setup(); }
static void stop(void) {
    pairs_free();
    teardown();
}

static ct_tokenizer *opened(void) {
    ct_tokenizer *tokenizer = ct_tokenizer_open(context, gguf_write(in_folder("x.gguf")));
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    return tokenizer;
}

/* Checks the ids of a text, which end with -1. */
static void has_ids(const ct_tokenizer *tokenizer, const char *text, const int64_t *want) {
    int64_t got[64], n = 0;
    while (want[n] >= 0) n++;
    const int64_t count =
        ct_encode(tokenizer, text, strlen(text), (ct_encode_opts){0}, got, NULL, 64);
    for (int64_t i = 0; i < n && i < count; i++)
        ck_assert_msg(got[i] == want[i], "'%s': id %lld is %lld, not %lld", text, (long long)i,
                      (long long)got[i], (long long)want[i]);
    ck_assert_msg(count == n, "'%s': %lld ids, not %lld", text, (long long)count, (long long)n);
}
#define IDS(...) ((const int64_t[]){__VA_ARGS__, -1})

static void decodes(const ct_tokenizer *tokenizer, const char *text, const char *want) {
    int64_t ids[64];
    char got[256];
    const int64_t n = ct_encode(tokenizer, text, strlen(text), (ct_encode_opts){0}, ids, NULL, 64);
    ck_assert(n >= 0 && ct_decode(tokenizer, ids, n, false, got, sizeof got) >= 0);
    ck_assert_str_eq(got, want);
}

/* A save gives the same ids, also if its folder is opened again. */
static void saves(ct_tokenizer *tokenizer, const char *text) {
    int64_t want[64], got[64];
    const int64_t n = ct_encode(tokenizer, text, strlen(text), (ct_encode_opts){0}, want, NULL, 64);
    ck_assert(ct_tokenizer_save(tokenizer, in_folder("s.json")));
    ct_tokenizer *again = ct_tokenizer_open(context, in_folder("s.json"));
    ck_assert_msg(again != NULL, "%s", ct_error_message(context));
    ck_assert_int_eq(ct_encode(again, text, strlen(text), (ct_encode_opts){0}, got, NULL, 64), n);
    ck_assert(n > 0 && !memcmp(want, got, (size_t)n * sizeof *want));
    ck_assert_ptr_null(ct_tokenizer_note(again));
    ct_tokenizer_close(again);
}

/* ---- byte-level BPE ---- */

static const char *const bpe_tokens[] = {
    "a",  "b",        "1",       "2",   GAP,       "\xc3\x83", "\xc2\xa9", "ab", GAP "a",
    "12", GAP GAP,    "<|end|>", "<x>", "[PAD13]", "'",        "s",        "'s", "\xc3\x83\xc2\xa9",
    "e",  "\xc3\x8c", "\xc4\xa3"};
static const int bpe_types[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 4, 5, 1, 1, 1, 1, 1, 1, 1};
static const char *const bpe_merges[] = {"a b",       GAP " a", "1 2",
                                         GAP " " GAP, "' s",    "\xc3\x83 \xc2\xa9"};
enum { BPE_TOKENS = sizeof bpe_tokens / sizeof *bpe_tokens, BPE_MERGES = 6 };

static void put_bpe(const char *pre) {
    put_text("general.architecture", "qwen2");
    put_text(GGML "model", "gpt2");
    put_text(GGML "pre", pre);
    put_texts(GGML "tokens", bpe_tokens, BPE_TOKENS);
    put_i32s(GGML "token_type", bpe_types, BPE_TOKENS);
    put_texts(GGML "merges", bpe_merges, BPE_MERGES);
    put_u32(GGML "eos_token_id", 11);
}

START_TEST(bpe_by_names) {
    put_bpe("gpt-2");
    ct_tokenizer *t = opened();
    has_ids(t, "ab 12", IDS(7, 4, 9)); /* " 12" is a piece, whose merges are 1 2 */
    has_ids(t, "a  ab<|end|>b<x>1", IDS(0, 4, 4, 7, 11, 1, 12, 2));
    has_ids(t, "a   a", IDS(0, 10, 8));
    decodes(t, "a  ab<|end|>b<x>1", "a  abb<x>1");
    ck_assert_int_eq(ct_token_role(t, "eos_token"), 11);
    ck_assert_int_eq(ct_token_id(t, "[PAD13]"), -1);
    ck_assert_int_eq(ct_tokenizer_size(t), BPE_TOKENS);
    ck_assert(strstr(ct_tokenizer_note(t), "pre gpt-2"));
    saves(t, "a  ab<|end|>b<x>1 12");
    put_bpe("smollm"); /* each digit is a piece */
    has_ids(opened(), "ab 12", IDS(7, 4, 2, 3));
    put_bpe("qwen2"); /* é of two characters is the one of NFC */
    has_ids(opened(), "e\u0301 a", IDS(17, 8));
    put_bpe("stablelm2");
    has_ids(opened(), "e\u0301", IDS(18, 19, 20));
    put_bpe("gpt-4o");
    has_ids(opened(), "a12's", IDS(0, 9, 16));
    put_bpe("tekken");
    put_flag(GGML "add_bos_token", false);
    has_ids(opened(), "a12's", IDS(0, 2, 3, 16));
}
END_TEST

START_TEST(bpe_begins_and_ends) {
    put_bpe("llama-bpe");
    put_u32(GGML "bos_token_id", 11);
    ct_tokenizer *t = opened();
    has_ids(t, "ab", IDS(11, 7));
    saves(t, "ab");
    int types[BPE_TOKENS]; /* an end of texts is special, whatever its type is */
    memcpy(types, bpe_types, sizeof types);
    types[11] = 1;
    put_i32s(GGML "token_type", types, BPE_TOKENS);
    decodes(opened(), "ab<|end|>", "ab");
    put_flag(GGML "add_bos_token", false);
    put_flag(GGML "add_eos_token", true);
    has_ids(opened(), "ab", IDS(7, 11));
    put_flag(GGML "add_bos_token", true);
    put_flag(GGML "add_eos_token", true);
    has_ids(opened(), "", IDS(11, 11));
    put_bpe("gpt-2");
    put_nothing(GGML "pre");
    put_text("general.architecture", "gptneox"); /* old files of it have no name */
    put_flag(GGML "add_eos_token", false);
    has_ids(opened(), "12", IDS(11, 9));
}
END_TEST

/* ---- SentencePiece's BPE ---- */

/* The token "bab" can be made of "ba" and "b" or of "b" and "ab"; a text takes the pair of the
 * greater score first. */
static const char *const spm_tokens[] = {"<unk>",   "<s>",   "</s>",   "<0x21>", BLOCK,
                                         "a",       "b",     "ab",     "ba",     "bab",
                                         BLOCK "a", "<x> y", "<0xC3>", "<0xA9>"};
static const int spm_types[] = {2, 3, 3, 6, 1, 1, 1, 1, 1, 1, 1, 4, 6, 6};
static const float spm_scores[] = {0, 0, 0, 0, -9, -8, -7, -2, -1, -3, -4, -1000, 0, 0};
enum { SPM_TOKENS = 14 };

static void put_spm(const char *architecture) {
    put_text("general.architecture", architecture);
    put_text(GGML "model", "llama");
    put_text(GGML "pre", "default");
    put_texts(GGML "tokens", spm_tokens, SPM_TOKENS);
    put_i32s(GGML "token_type", spm_types, SPM_TOKENS);
    put_f32s(GGML "scores", spm_scores, SPM_TOKENS);
}

START_TEST(spm_of_scores) {
    put_spm("llama");
    ct_tokenizer *t = opened();
    has_ids(t, "ab", IDS(1, 4, 7)); /* ab before U+2581 a */
    has_ids(t, "a", IDS(1, 10));
    has_ids(t, "abab", IDS(1, 10, 9)); /* ba first, then bab, then U+2581 a */
    has_ids(t, "!\u00e9", IDS(1, 4, 3, 12, 13));
    has_ids(t, "b<x> ya", IDS(1, 4, 6, 11, 10)); /* a space behind an added token, too */
    has_ids(t, "Z", IDS(1, 4, 0));               /* no bytes for it */
    decodes(t, "ab a!", "ab a!");
    ck_assert_int_eq(ct_token_role(t, "bos_token"), 1);
    ck_assert_int_eq(ct_token_role(t, "eos_token"), 2);
    ck_assert_int_eq(ct_token_role(t, "unk_token"), 0);
    saves(t, "abab a");
    put_flag(GGML "add_space_prefix", false);
    put_flag(GGML "add_bos_token", false);
    put_flag(GGML "add_eos_token", true);
    t = opened();
    has_ids(t, "abab a", IDS(5, 9, 10, 2));
    decodes(t, " ab", " ab");
    saves(t, "abab a");
}
END_TEST

/* Integers are scores too, and a file without types has those of bytes and of the ids with a role.
 */
START_TEST(spm_of_old_files) {
    put_spm("llama");
    put_i32s(GGML "scores", (const int[]){0, 0, 0, 0, -9, -8, -7, -1, -2, -3, -4, -5, 0, 0},
             SPM_TOKENS);
    has_ids(opened(), "abab", IDS(1, 4, 7, 7));
    put_nothing(GGML "token_type");
    put_u32(GGML "bos_token_id", 1);
    put_u32(GGML "eos_token_id", 2);
    put_u32(GGML "unknown_token_id", 0);
    ct_tokenizer *t = opened();
    has_ids(t, "abab!</s>", IDS(1, 4, 7, 7, 3, 2));
    ck_assert_int_eq(ct_token_role(t, "eos_token"), 2);
}
END_TEST

/* Gemma's runs of spaces are made by merges, and merges are in the order of ids. */
START_TEST(gemma) {
    static const char *const tokens[] = {"<pad>", "<eos>", "<bos>", "<unk>", "  ",      "   ",
                                         BLOCK,   "a",     "b",     "ab",    BLOCK "a", "ba"};
    static const int types[] = {3, 3, 3, 2, 4, 4, 1, 1, 1, 1, 1, 1};
    static const float scores[12] = {0};
    put_text("general.architecture", "gemma3");
    put_text(GGML "model", "llama");
    put_texts(GGML "tokens", tokens, 12);
    put_i32s(GGML "token_type", types, 12);
    put_f32s(GGML "scores", scores, 12);
    put_u32(GGML "bos_token_id", 2);
    put_u32(GGML "eos_token_id", 1);
    put_u32(GGML "unknown_token_id", 3);
    put_flag(GGML "add_space_prefix", false);
    ct_tokenizer *t = opened();
    has_ids(t, "ab", IDS(2, 9));
    has_ids(t, " a", IDS(2, 10));
    has_ids(t, "   a", IDS(2, 5, 7)); /* the third space joins the two before the a does */
    has_ids(t, "bab    b", IDS(2, 8, 9, 4, 4, 8));
    decodes(t, "  ab   ", "  ab   ");
    saves(t, "bab    b");
    put_text("general.architecture", "llama"); /* without an order of scores nothing is known */
    ck_refused(ct_tokenizer_open(context, gguf_write(in_folder("x.gguf"))), CT_ERR_FORMAT,
               GGML "scores", "the same");
}
END_TEST

START_TEST(gemma4) {
    static const char *const tokens[] = {"<unk>", "<bos>", BLOCK,  "a",      "b",     BLOCK "a",
                                         "ab",    "\n",    "\n\n", "<0xC3>", "<0xA9>"};
    static const int types[] = {2, 3, 1, 1, 1, 1, 1, 1, 1, 6, 6};
    static const char *const merges[] = {"a b", BLOCK " a", "\n \n"};
    put_text("general.architecture", "gemma4");
    put_text(GGML "model", "gemma4");
    put_texts(GGML "tokens", tokens, 11);
    put_i32s(GGML "token_type", types, 11);
    put_texts(GGML "merges", merges, 3);
    put_u32(GGML "bos_token_id", 1);
    put_flag(GGML "add_bos_token", true);
    ct_tokenizer *t = opened();
    has_ids(t, "ab a\n\n\na\u00e9", IDS(1, 6, 5, 8, 7, 3, 9, 10));
    saves(t, "ab a\n\n");
}
END_TEST

/* ---- WordPiece and Unigram ---- */

START_TEST(bert) {
    static const char *const tokens[] = {"[PAD]",    "[UNK]", "[CLS]",   "[SEP]",   "[MASK]",
                                         BLOCK "ab", "c",     BLOCK "e", BLOCK ".", BLOCK "[PAD9]"};
    static const int types[] = {3, 3, 3, 3, 3, 1, 1, 1, 1, 5};
    put_text("general.architecture", "bert");
    put_text(GGML "model", "bert");
    put_text(GGML "pre", "jina-v2-en");
    put_texts(GGML "tokens", tokens, 10);
    put_i32s(GGML "token_type", types, 10);
    put_u32(GGML "bos_token_id", 2);
    put_u32(GGML "seperator_token_id", 3);
    put_u32(GGML "unknown_token_id", 1);
    put_u32(GGML "padding_token_id", 0);
    put_u32(GGML "mask_token_id", 4);
    ct_tokenizer *t = opened();
    has_ids(t, "ABCC \u00c9.x [MASK]", IDS(2, 5, 6, 6, 7, 8, 1, 4, 3));
    ck_assert_int_eq(ct_token_role(t, "cls_token"), 2);
    ck_assert_int_eq(ct_token_role(t, "sep_token"), 3);
    ck_assert_int_eq(ct_token_role(t, "pad_token"), 0);
    ck_assert_int_eq(ct_token_role(t, "bos_token"), -1);
    ck_assert_int_eq(ct_token_id(t, "##c"), 6);
    saves(t, "abcc e.");
    ct_batch batch = ct_encode_batch(t, (const char *const[]){"ab"}, (const char *const[]){"e"}, 1,
                                     (ct_batch_opts){0});
    ck_assert(batch.ids && ct_dim(batch.ids, 1) == 5); /* [CLS] ab [SEP] e [SEP] */
    ck_assert_int_eq(ct_data_i64(batch.types)[4], 1);
    put_flag(GGML "normalizer.lowercase", false);
    has_ids(opened(), "AB e", IDS(2, 1, 7, 3));
    put_flag(GGML "normalizer.strip_accents", true);
    has_ids(opened(), "\u00e9", IDS(2, 7, 3));
}
END_TEST

START_TEST(unigram) {
    static const char *const tokens[] = {"<pad>", "</s>", "<unk>", BLOCK,
                                         "a",     "b",    "ab",    BLOCK "a"};
    static const int types[] = {3, 3, 2, 1, 1, 1, 1, 1};
    static const float scores[] = {0, 0, 0, -2, -3, -3, -5, -4.5F};
    put_text("general.architecture", "t5");
    put_text(GGML "model", "t5");
    put_texts(GGML "tokens", tokens, 8);
    put_i32s(GGML "token_type", types, 8);
    put_f32s(GGML "scores", scores, 8);
    put_u32(GGML "eos_token_id", 1);
    put_u32(GGML "unknown_token_id", 2);
    put_flag(GGML "add_space_prefix", true);
    put_flag(GGML "remove_extra_whitespaces", true);
    ct_tokenizer *t = opened();
    has_ids(t, "ab", IDS(3, 6, 1)); /* -7; U+2581 a and b have -7.5 */
    has_ids(t, "  a   aZ ", IDS(7, 7, 2, 1));
    decodes(t, "ab a", "ab a");
    saves(t, "ab  a");
    put_flag(GGML "remove_extra_whitespaces", false);
    has_ids(opened(), "a  a", IDS(7, 3, 7, 1));
}
END_TEST

/* ---- what stands beside the vocabulary ---- */

START_TEST(templates_and_ends) {
    put_bpe("gpt-2");
    put_u32(GGML "eot_token_id", 12);
    put_text("tokenizer.chat_template",
             "{% for m in messages %}{{ m.content }}<|end|>{% endfor %}");
    put_text("tokenizer.chat_template.tool_use", "tools");
    put_texts("tokenizer.chat_templates", (const char *const[]){"tool_use"}, 1);
    ct_tokenizer *t = opened();
    ck_assert_str_eq(ct_chat_template(t, "tool_use"), "tools");
    ck_assert_int_eq(ct_chat_end(t, (ct_chat_opts){0}), 11);
    int64_t ids[8];
    const ct_message message = {.role = "user", .content = "ab"};
    ck_assert_int_eq(ct_chat_encode(t, &message, 1, (ct_chat_opts){0}, ids, NULL, 8), 2);
    ck_assert(ids[0] == 7 && ids[1] == 11);
    ck_assert(ct_tokenizer_save(t, in_folder("")));
    ct_tokenizer_close(t);
    t = ct_tokenizer_open(context, folder);
    ck_assert_msg(t != NULL, "%s", ct_error_message(context));
    ck_assert_str_eq(ct_chat_template(t, "tool_use"), "tools");
    ck_assert_int_eq(ct_token_role(t, "eos_token"), 11);
}
END_TEST

static const char whole_json[] =
    "{\"added_tokens\":[{\"id\":2,\"content\":\"<e>\",\"single_word\":false,\"lstrip\":false,"
    "\"rstrip\":true,\"normalized\":false,\"special\":true}],\"pre_tokenizer\":null,\"model\":{"
    "\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0,\"b\":1,\"<e>\":2}}}";

/* A tokenizer.json in the file, or beside it, stands before the keys. */
START_TEST(json_before_keys) {
    put_bpe("no such name");
    put_text("tokenizer.huggingface.json", whole_json);
    put_u32(GGML "eos_token_id", 2);
    ct_tokenizer *t = opened();
    has_ids(t, "b<e>  x", IDS(1, 2, 0));
    ck_assert_int_eq(ct_token_role(t, "eos_token"), 2);
    ck_assert_ptr_null(ct_tokenizer_note(t));
    put_text("tokenizer.huggingface.json", "{");
    ck_refused(ct_tokenizer_open(context, gguf_write(in_folder("x.gguf"))), CT_ERR_FORMAT,
               "x.gguf: tokenizer.huggingface.json", "byte");
    put_nothing("tokenizer.huggingface.json");
    FILE *file = fopen(in_folder("tokenizer.json"), "w");
    ck_assert(file && fputs(whole_json, file) >= 0 && !fclose(file));
    t = opened();
    has_ids(t, "b<e>  x", IDS(1, 2, 0));
    ck_assert_int_eq(ct_token_role(t, "eos_token"), -1);
}
END_TEST

START_TEST(folders) {
    put_bpe("gpt-2");
    gguf_write(in_folder("x-00001-of-00002.gguf"));
    gguf_write(in_folder("x-00002-of-00002.gguf"));
    ct_tokenizer *t = ct_tokenizer_open(context, folder);
    ck_assert_msg(t != NULL, "%s", ct_error_message(context));
    has_ids(t, "ab", IDS(7));
    gguf_write(in_folder("a.gguf"));
    ck_refused(ct_tokenizer_open(context, folder), CT_ERR_FORMAT,
               "a.gguf and x-00001-of-00002.gguf", "name one");
}
END_TEST

/* ---- refused ---- */

/* Changes one key of a good file; the message names the file and both words. */
static void is_refused(const char *word1, const char *word2) {
    ck_refused(ct_tokenizer_open(context, gguf_write(in_folder("x.gguf"))), CT_ERR_FORMAT, word1,
               word2);
    const char *again = gguf_write(in_folder("x.gguf"));
    ct_tokenizer_open(context, again);
    ck_assert(strstr(ct_error_message(context), "x.gguf"));
    ct_error_clear(context);
}

START_TEST(refused_bpe) {
    put_bpe("unheard");
    is_refused(GGML "pre", "'unheard'");
    put_bpe("gpt-2 phi-2"); /* two names are none */
    is_refused(GGML "pre", "'gpt-2 phi-2'");
    put_nothing(GGML "pre");
    is_refused(GGML "pre", "absent");
    put_bpe("gpt-2");
    put_text(GGML "model", "rwkv");
    is_refused(GGML "model", "'rwkv'");
    put_nothing(GGML "model");
    is_refused(GGML "model", "no tokenizer");
    put_bpe("gpt-2");
    put_i32s(GGML "token_type", bpe_types, BPE_TOKENS - 1);
    is_refused(GGML "token_type", "20 elements");
    put_i32s(GGML "token_type", (const int[BPE_TOKENS]){7}, BPE_TOKENS);
    is_refused(GGML "token_type", "type 7");
    put_bpe("gpt-2");
    put_u32(GGML "eos_token_id", BPE_TOKENS);
    is_refused(GGML "eos_token_id", "none of the file's");
    put_bpe("gpt-2");
    put_u32(GGML "padding_token_id", UINT32_MAX);
    is_refused(GGML "padding_token_id", "4294967295");
    put_nothing(GGML "padding_token_id");
    put_texts(GGML "merges", (const char *const[]){"a b", "ab"}, 2);
    is_refused(GGML "merges", "merge 1");
    put_texts(GGML "merges", (const char *const[]){"a b", "a 1"}, 2);
    is_refused(GGML "merges", "'a 1'");
    put_nothing(GGML "merges");
    is_refused(GGML "merges", "absent");
    put_bpe("gpt-2");
    put_flag(GGML "add_bos_token", true);
    is_refused(GGML "bos_token_id", "absent");
    put_nothing(GGML "add_bos_token");
    put_texts(GGML "tokens", (const char *const[]){"a", "b", "a"}, 3);
    put_i32s(GGML "token_type", bpe_types, 3);
    put_nothing(GGML "eos_token_id");
    is_refused(GGML "tokens", "0 and 2 are both 'a'");
    put_texts(GGML "tokens", (const char *const[]){"a", "b\xff", "c"}, 3);
    is_refused("x.gguf", "UTF-8");
    put_nothing(GGML "tokens");
    is_refused(GGML "tokens", "absent");
}
END_TEST

START_TEST(refused_spm) {
    put_spm("llama");
    put_nothing(GGML "scores");
    is_refused(GGML "scores", "absent");
    put_f32s(GGML "scores", spm_scores, SPM_TOKENS - 2);
    is_refused(GGML "scores", "12 elements");
    float scores[SPM_TOKENS];
    memcpy(scores, spm_scores, sizeof scores);
    scores[3] = -0.0F / 0.0F;
    put_f32s(GGML "scores", scores, SPM_TOKENS);
    is_refused(GGML "scores", "token 3");
    const char *tokens[SPM_TOKENS];
    memcpy(tokens, spm_tokens, sizeof tokens);
    put_spm("llama");
    tokens[3] = "<0x-1>";
    put_texts(GGML "tokens", tokens, SPM_TOKENS);
    is_refused(GGML "tokens", "'<0x-1>'");
    tokens[3] = "<0x210>";
    put_texts(GGML "tokens", tokens, SPM_TOKENS);
    is_refused(GGML "tokens", "'<0x210>'");
}
END_TEST

/* Work in proportion to the file: a token of a megabyte is refused, and so are tokens that can be
 * cut in very many ways. */
START_TEST(cuts_are_bounded) {
    put_spm("llama");
    char *long_token = malloc(1 << 20);
    memset(long_token, 'a', 1 << 20);
    long_token[(1 << 20) - 1] = 0;
    const char *tokens[SPM_TOKENS];
    memcpy(tokens, spm_tokens, sizeof tokens);
    tokens[9] = long_token;
    put_texts(GGML "tokens", tokens, SPM_TOKENS);
    is_refused(GGML "tokens", "token 9 has 1048575 bytes");
    long_token[1024] = 0; /* as long as may be */
    put_texts(GGML "tokens", tokens, SPM_TOKENS);
    ct_tokenizer_close(opened());
    enum { RUNS = 200 };
    static const char *runs[RUNS];
    int types[RUNS];
    float scores[RUNS];
    for (int i = 0; i < RUNS; i++) { /* "a", "aa", "aaa", ...: i ways to cut token i */
        runs[i] = long_token + 1024 - 1 - i;
        types[i] = 1;
        scores[i] = (float)-i;
    }
    put_texts(GGML "tokens", runs, RUNS);
    put_i32s(GGML "token_type", types, RUNS);
    put_f32s(GGML "scores", scores, RUNS);
    put_flag(GGML "add_bos_token", false);
    is_refused(GGML "tokens", "more than 16 ways");
    put_texts(GGML "tokens", runs, 32);
    put_i32s(GGML "token_type", types, 32);
    put_f32s(GGML "scores", scores, 32);
    ct_tokenizer_close(opened());
    free(long_token);
}
END_TEST

/* ---- writing ---- */

/* Writes the keys of a tokenizer for a model of this architecture. */
static bool puts_keys(const ct_tokenizer *tokenizer, const char *architecture, int64_t rows) {
    cti_gguf_out out;
    if (!cti_gguf_out_begin(context, "lm_save", in_folder("y.gguf"), &out)) return false;
    cti_gguf_put_text(&out, "general.architecture", cti_text_of(architecture));
    const bool done = cti_tokenizer_put(tokenizer, &out, rows, NULL, 0);
    const bool written = cti_gguf_out_write(&out);
    cti_gguf_out_end(&out);
    ck_assert(done == written); /* a refused tokenizer leaves no file */
    return done;
}

/* A tokenizer that is written and read has the ids, roles and templates that it had. */
static void comes_back(const ct_tokenizer *tokenizer, const char *architecture, int64_t rows,
                       const char *text) {
    int64_t want[64], got[64];
    ck_assert_msg(puts_keys(tokenizer, architecture, rows), "%s", ct_error_message(context));
    ct_tokenizer *again = ct_tokenizer_open(context, in_folder("y.gguf"));
    ck_assert_msg(again != NULL, "%s", ct_error_message(context));
    const int64_t n = ct_encode(tokenizer, text, strlen(text), (ct_encode_opts){0}, want, NULL, 64);
    ck_assert_int_eq(ct_encode(again, text, strlen(text), (ct_encode_opts){0}, got, NULL, 64), n);
    ck_assert(n > 2 && !memcmp(want, got, (size_t)n * sizeof *want));
    static const char *const roles[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(ct_token_role(again, roles[i]), ct_token_role(tokenizer, roles[i]));
    ck_assert(
        !ct_chat_template(tokenizer, "tool_use") ||
        !strcmp(ct_chat_template(again, "tool_use"), ct_chat_template(tokenizer, "tool_use")));
    ct_tokenizer_close(again);
}

START_TEST(written) {
    put_bpe("smollm");
    put_text("tokenizer.chat_template", "t");
    put_text("tokenizer.chat_template.tool_use", "u");
    comes_back(opened(), "llama", BPE_TOKENS + 4, "ab 12<|end|>a  b<x>");
    put_bpe("qwen2");
    comes_back(opened(), "qwen2", BPE_TOKENS, "e\u0301 ab 12<|end|>");
    put_bpe("llama-bpe");
    put_u32(GGML "bos_token_id", 11);
    put_flag(GGML "add_eos_token", true);
    comes_back(opened(), "llama", BPE_TOKENS, "ab 12<x>");
    put_nothing(GGML "merges");
    put_nothing(GGML "add_eos_token");
    put_spm("llama");
    comes_back(opened(), "llama", SPM_TOKENS + 1, "abab! b<x> y a");
    cti_gguf file; /* its merges follow from its scores */
    ck_assert(cti_gguf_open(context, "test", in_folder("y.gguf"), &file));
    ck_assert(cti_gguf_find(&file, GGML "scores") && !cti_gguf_find(&file, GGML "merges"));
    cti_gguf_close(&file);
    put_flag(GGML "add_space_prefix", false);
    comes_back(opened(), "llama", SPM_TOKENS, "abab! b<x> y a");
}
END_TEST

/* The ids that end a text of the model are written as far as the keys go, each once. */
START_TEST(ends_are_written) {
    put_bpe("smollm");
    ct_tokenizer *tokenizer = opened();
    const int64_t eos = ct_token_role(tokenizer, "eos_token"), ends[] = {5, eos, 5, 3, 4};
    cti_gguf_out out;
    ck_assert(eos >= 0 && cti_gguf_out_begin(context, "lm_save", in_folder("y.gguf"), &out));
    cti_gguf_put_text(&out, "general.architecture", cti_text_of("llama"));
    ck_assert(cti_tokenizer_put(tokenizer, &out, BPE_TOKENS, ends, 5) && cti_gguf_out_write(&out));
    cti_gguf_out_end(&out);
    cti_gguf file;
    ck_assert(cti_gguf_open(context, "test", in_folder("y.gguf"), &file));
    static const char *const keys[] = {GGML "eos_token_id", GGML "eot_token_id",
                                       GGML "eom_token_id"};
    const int64_t want[] = {eos, 5, 3};
    for (int i = 0; i < 3; i++) {
        int64_t got = -1;
        ck_assert(cti_gguf_integer(&file, keys[i], &got));
        ck_assert_int_eq(got, want[i]);
    }
    cti_gguf_close(&file);
}
END_TEST

/* Tokenizers that a GGUF file cannot have; each message names the tokenizer's part. */
START_TEST(refused_to_be_written) {
    static const struct {
        const char *pretokenizer, *model, *word;
    } cases[] = {
        {"null", "'WordLevel','unk_token':'a','vocab':{'a':0,'b':1}", "WordLevel"},
        {"{'type':'ByteLevel','add_prefix_space':true,'trim_offsets':true}",
         "'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a b']", "ByteLevel(true,true)"},
        {"{'type':'ByteLevel','add_prefix_space':false,'trim_offsets':true}",
         "'BPE','vocab':{'a':0,'b':1},'merges':[]", "no merges"},
        {"null", "'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a b']", "byte_fallback"},
        {"{'type':'BertPreTokenizer'}",
         "'WordPiece','unk_token':'a','continuing_subword_prefix':'##',"
         "'max_input_chars_per_word':50,'vocab':{'a':0}",
         "100 characters"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[512];
        const int size = snprintf(json, sizeof json, "{'pre_tokenizer':%s,'model':{'type':%s}}",
                                  cases[i].pretokenizer, cases[i].model);
        for (char *at = json; *at; at++)
            if (*at == '\'') *at = '"';
        ct_tokenizer *t = ct_tokenizer_parse(context, json, (size_t)size);
        ck_assert_msg(t != NULL, "%s", ct_error_message(context));
        ck_refused(puts_keys(t, "llama", 10), CT_ERR_ARGUMENT, "lm_save", cases[i].word);
    }
    put_bpe("smollm");
    ck_refused(puts_keys(opened(), "llama", BPE_TOKENS - 1), CT_ERR_ARGUMENT, "21 ids", "20");
}
END_TEST

/* An added token that takes the space before it is found by the strings that are compared. */
START_TEST(other_ids_are_refused) {
    static const char json[] =
        "{\"added_tokens\":[{\"id\":3,\"content\":\"<m>\",\"single_word\":false,\"lstrip\":true,"
        "\"rstrip\":false,\"normalized\":false,\"special\":true}],\"pre_tokenizer\":{\"type\":"
        "\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true},\"model\":{\"type\":"
        "\"BPE\",\"vocab\":{\"a\":0,\"\u0120\":1,\"\u0120a\":2,\"<m>\":3},\"merges\":[\"\u0120 "
        "a\"]}}";
    const ct_tokenizer *t = ct_tokenizer_parse(context, json, sizeof json - 1);
    ck_assert_msg(t != NULL, "%s", ct_error_message(context));
    ck_refused(puts_keys(t, "llama", 4), CT_ERR_ARGUMENT, " <m>", "other ids");
}
END_TEST

int main(void) {
    return run_tests("tokenizers inside GGUF files", start, stop,
                     TESTS(TEST(bpe_by_names), TEST(bpe_begins_and_ends), TEST(spm_of_scores),
                           TEST(spm_of_old_files), TEST(gemma), TEST(gemma4), TEST(bert),
                           TEST(unigram), TEST(templates_and_ends), TEST(json_before_keys),
                           TEST(folders), TEST(refused_bpe), TEST(refused_spm),
                           TEST(cuts_are_bounded), TEST(written), TEST(ends_are_written),
                           TEST(refused_to_be_written), TEST(other_ids_are_refused)));
}
