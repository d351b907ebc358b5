/* The table of what the names of tokenizer.ggml.pre mean. */
#include <cotangent/autograd.h>

#include <stdarg.h>
#include <string.h>

#include "../../src/core/message.h"
#include "gguf_tokens.h"
#include "pattern.h"

const char *const cti_gguf_model_names[CTI_GGUF_MODELS] = {"gpt2", "llama", "bert", "t5", "gemma4"};
const char *const cti_gguf_id_keys[CTI_GGUF_IDS] = {
    "tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
    "tokenizer.ggml.eot_token_id",     "tokenizer.ggml.eom_token_id",
    "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.seperator_token_id",
    "tokenizer.ggml.padding_token_id", "tokenizer.ggml.cls_token_id",
    "tokenizer.ggml.mask_token_id"};
const int cti_gguf_id_role[CTI_GGUF_IDS] = {0, 1, -1, -1, 2, 3, 4, 5, 6};
const char *const cti_gguf_flag_keys[CTI_GGUF_FLAGS] = {"tokenizer.ggml.add_bos_token",
                                                        "tokenizer.ggml.add_eos_token",
                                                        "tokenizer.ggml.add_sep_token",
                                                        "tokenizer.ggml.add_space_prefix",
                                                        "tokenizer.ggml.remove_extra_whitespaces",
                                                        "tokenizer.ggml.normalizer.lowercase",
                                                        "tokenizer.ggml.normalizer.strip_accents"};

cti_gguf_vocab cti_gguf_vocab_of(cti_arena *arena, const char *op, const char *path) {
    cti_gguf_vocab vocab = {.context = arena->context, .op = op, .path = path, .arena = arena};
    for (int i = 0; i < CTI_GGUF_IDS; i++) vocab.id[i] = -1;
    memset(vocab.flag, -1, sizeof vocab.flag);
    return vocab;
}

bool cti_gguf_vocab_fail(const cti_gguf_vocab *vocab, const char *key, const char *format, ...) {
    char fault[CTI_MESSAGE_SIZE / 2];
    va_list list;
    va_start(list, format);
    cti_message(fault, sizeof fault, format, list);
    va_end(list);
    return ct_fail(vocab->context, CT_ERR_FORMAT, "%s: %s: key \"%s\": %s", vocab->op, vocab->path,
                   key, fault);
}

/* ---- expressions ---- */

/* o200k's words are capitals and then small letters; Mistral's have no contractions behind them. */
#define BEFORE  "[^\\r\\n\\p{L}\\p{N}]?"
#define CAPITAL "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define SMALL   "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CAPITALS_FIRST(contraction)                                                                \
    BEFORE CAPITAL "*" SMALL "+" contraction "|" BEFORE CAPITAL "+" SMALL "*" contraction
#define CONTRACTION "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define ENDS        "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
static const char gguf_o200k[] =
    CAPITALS_FIRST(CONTRACTION "?") "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" ENDS;
static const char gguf_tekken[] = CAPITALS_FIRST("") "|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" ENDS;
static const char gguf_qwen35[] =
    CONTRACTION "|" BEFORE "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" ENDS;
#undef BEFORE
#undef CAPITAL
#undef SMALL
#undef CAPITALS_FIRST
#undef CONTRACTION
#undef ENDS

/* ---- rows ---- */

#define NFC   "{\"type\":\"NFC\"}"
#define SPACE "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}"
#define PREFIX_SPACE                                                                               \
    "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\u2581\"}," SPACE \
    "]}"
/* The rows of a name are in the order in which a tokenizer is compared with them. */
static const cti_gguf_row gguf_rows[] = {
    {CTI_GGUF_BPE, " roberta-bpe jina-v1-en jina-v2-code ", .gpt2 = true, .adds_sep = true},
    {CTI_GGUF_BPE,
     " gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert gigachat jais "
     "trillion granite-docling exaone4 ",
     .gpt2 = true},
    {CTI_GGUF_BPE, " olmo mpt ", .normalizer = NFC, .gpt2 = true, .assumed = "the normal form NFC"},
    {CTI_GGUF_BPE, " smollm starcoder refact codeshell exaone minerva-7b mellum2 ", .digits = true,
     .gpt2 = true},
    {CTI_GGUF_BPE, " command-r ", .normalizer = NFC, .digits = true, .gpt2 = true,
     .assumed = "the normal form NFC"},
    {CTI_GGUF_BPE,
     " llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano ",
     .split = {cti_llama3_expression}, .ignore_merges = true, .adds_bos = true},
    {CTI_GGUF_BPE, " glm4 glm5 ", .split = {cti_llama3_expression}, .ignore_merges = true},
    {CTI_GGUF_BPE, " dbrx smaug-bpe chatglm-bpe ", .split = {cti_llama3_expression}},
    {CTI_GGUF_BPE, " qwen2 deepseek-r1-qwen kormo f2llmv2 megrez ", .normalizer = NFC,
     .split = {cti_qwen2_expression}, .assumed = "the normal form NFC"},
    {CTI_GGUF_BPE, " stablelm2 hunyuan solar-open ", .split = {cti_qwen2_expression}},
    {CTI_GGUF_BPE, " qwen35 ", .split = {gguf_qwen35}, .assumed = "no normal form"},
    {CTI_GGUF_BPE, " gpt-4o llama4 kanana2 talkie ", .split = {gguf_o200k}},
    {CTI_GGUF_BPE, " tekken ", .split = {gguf_tekken}, .ignore_merges = true, .adds_bos = true},
    {CTI_GGUF_SPM, "", .normalizer = PREFIX_SPACE, .prefix = 1,
     .assumed = "that a space is put before the text and behind each special token"},
    {CTI_GGUF_SPM, "", .prefix = 1, .shape = "Metaspace(\u2581,first,false);", .loose = true},
    {CTI_GGUF_SPM, "", .prefix = 1, .shape = "Metaspace(\u2581,always,false);", .loose = true},
    {CTI_GGUF_SPM, "", .normalizer = SPACE, .prefix = 0},
    {CTI_GGUF_SPM, "", .normalizer = SPACE, .prefix = 0,
     .shape = "Split(String, ,MergedWithPrevious,false);"},
    {CTI_GGUF_SPM, "", .prefix = 0, .shape = "Metaspace(\u2581,never,false);"},
    {CTI_GGUF_WORDPIECE, "", .prefix = -1},
    {CTI_GGUF_UNIGRAM, "", .prefix = -1,
     .assumed = "how SentencePiece's table is applied, and what stands between the two of a pair"},
    {CTI_GGUF_GEMMA4, "", .normalizer = SPACE, .split = {"\\n+"}},
};
#undef NFC
#undef SPACE
#undef PREFIX_SPACE
enum { GGUF_ROWS = sizeof gguf_rows / sizeof *gguf_rows };

const cti_gguf_row *cti_gguf_row_at(int i) { return i < GGUF_ROWS ? &gguf_rows[i] : NULL; }

static bool row_has_name(const cti_gguf_row *row, cti_text name) {
    if (memchr(name.at, ' ', name.size)) return false;
    for (const char *at = row->pre; *at && at[1]; at = strchr(at + 1, ' '))
        if (!strncmp(at + 1, name.at, name.size) && at[1 + name.size] == ' ') return true;
    return false;
}

/* Old files of these architectures have no name: their tokenizer is GPT-2's or GPT-NeoX's. */
static bool is_nameless(const cti_gguf_vocab *vocab) {
    return !vocab->pre.at && (!cti_text_compare(vocab->architecture, cti_text_of("gpt2")) ||
                              !cti_text_compare(vocab->architecture, cti_text_of("gptneox")));
}

const cti_gguf_row *cti_gguf_row_of(const cti_gguf_vocab *vocab) {
    const cti_text name = is_nameless(vocab) ? cti_text_of("gpt-2") : vocab->pre;
    const bool prefix = vocab->flag[CTI_GGUF_SPACE_PREFIX] != 0;
    for (int i = 0; i < GGUF_ROWS; i++) {
        const cti_gguf_row *row = &gguf_rows[i];
        if (row->model != vocab->model || row->shape) continue;
        if (vocab->model == CTI_GGUF_BPE ? name.at && row_has_name(row, name)
                                         : vocab->model != CTI_GGUF_SPM || row->prefix == prefix)
            return row;
    }
    const char *key = "tokenizer.ggml.pre";
    if (!name.at) cti_gguf_vocab_fail(vocab, key, "is absent: nothing says how a text is divided");
    else
        cti_gguf_vocab_fail(vocab, key,
                            "'%.*s' is no known way to divide a text; a tokenizer.json beside the "
                            "file stands before it",
                            (int)(name.size < 100 ? name.size : 100), name.at);
    return NULL;
}

/* ---- the pre-tokenizer of a row ---- */

static void split_write(cti_writer *writer, const char *expression) {
    cti_string_write(writer, "{\"type\":\"Split\",\"pattern\":{\"Regex\":");
    cti_quoted_write(writer, cti_text_of(expression));
    cti_string_write(writer, "},\"behavior\":\"Isolated\",\"invert\":false}");
}

void cti_gguf_pretokenizer_write(cti_writer *writer, const cti_gguf_row *row) {
    static const char digits[] = "{\"type\":\"Digits\",\"individual_digits\":true}";
    static const char bytes[] =
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"trim_offsets\":true,\"use_regex\":";
    const bool ends = row->model == CTI_GGUF_BPE;
    if (!ends && !row->split[0]) {
        cti_string_write(writer, "null");
        return;
    }
    const bool several = row->digits || (row->split[0] && (ends || row->split[1]));
    if (several) cti_string_write(writer, "{\"type\":\"Sequence\",\"pretokenizers\":[");
    if (row->digits) cti_string_write(writer, digits);
    for (int i = 0; row->split[i]; i++) {
        if (row->digits || i) cti_string_write(writer, ",");
        split_write(writer, row->split[i]);
    }
    if (ends) {
        if (several) cti_string_write(writer, ",");
        cti_string_write(writer, bytes);
        cti_string_write(writer, row->gpt2 ? "true}" : "false}");
    }
    if (several) cti_string_write(writer, "]}");
}
