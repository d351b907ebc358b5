/* ct_tokenizer_train: its options, and the tokenizer of the text that train_write.c makes. */
#include "train.h"

#include <cotangent/autograd.h>

#include <stdlib.h>
#include <string.h>

#include "../../src/core/message.h"
#include "tokenizer.h"
#include "utf8.h"

enum { DEFAULT_VOCABULARY = 30000, ALPHABET = 256 };

/* ---- options ---- */

static bool special_check(const cti_training *training, const char *text, int64_t i) {
    const size_t size = text ? strlen(text) : 0;
    const char *fault = NULL;
    if (!text) fault = "is NULL";
    else if (!size) fault = "is empty";
    else if (cti_utf8_check(text, size) != size) fault = "is not UTF-8";
    else if (memchr(text, '\n', size - 1)) fault = "has a line end before its last byte";
    return !fault || ct_fail(training->context, CT_ERR_ARGUMENT, "%s: special token %lld %s",
                             cti_train_op, (long long)i, fault);
}

/* Makes the list of the special tokens, each once. The caller frees it. */
static cti_text *specials_read(cti_training *training, const char *const *special, int64_t n) {
    if ((uint64_t)n >= SIZE_MAX / sizeof(cti_text)) return cti_training_no_memory(training), NULL;
    cti_text *list = malloc(((size_t)n + 1) * sizeof *list);
    bool ok = list || cti_training_no_memory(training);
    cti_tally seen = {0};
    for (int64_t i = 0; ok && i < n; i++) {
        ok = special_check(training, special[i], i);
        if (!ok) break;
        const cti_text text = cti_text_of(special[i]);
        const size_t index = cti_tally_add(&seen, text.at, text.size, 1);
        if (index == CTI_TALLY_FULL) ok = cti_training_no_memory(training);
        else if (index == (size_t)training->n_special) list[training->n_special++] = text;
    }
    cti_tally_free(&seen);
    if (!ok) free(list);
    return ok ? list : NULL;
}

static bool split_set(cti_training *training, ct_tokenizer_split split) {
    switch (split) {
    case CT_SPLIT_GPT2:
        training->next = cti_next_gpt2;
        training->use_regex = true;
        return true;
    case CT_SPLIT_LLAMA3:
        training->next = cti_next_llama3;
        training->expression = cti_llama3_expression;
        return true;
    case CT_SPLIT_QWEN2:
        training->next = cti_next_qwen2;
        training->expression = cti_qwen2_expression;
        return true;
    case CT_SPLIT_NONE: return true;
    }
    return ct_fail(training->context, CT_ERR_ARGUMENT, "%s: unknown split %d", cti_train_op,
                   (int)split);
}

static bool train_opts_check(ct_context *context, const char *const *paths, int64_t n,
                             const ct_tokenizer_opts *opts) {
    if (!paths || n < 1) return ct_fail(context, CT_ERR_ARGUMENT, "%s: no files", cti_train_op);
    if (opts->n_special < 0 || (opts->n_special && !opts->special))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %lld special tokens%s", cti_train_op,
                       (long long)opts->n_special, opts->special ? "" : ", but special is NULL");
    if (opts->min_frequency < 0)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: min_frequency is %lld", cti_train_op,
                       (long long)opts->min_frequency);
    return true;
}

static bool vocabulary_size_check(const cti_training *training) {
    const int64_t least = training->n_special + ALPHABET;
    if (training->vocab_size >= least && training->vocab_size < CTI_MOST_IDS) return true;
    return ct_fail(training->context, CT_ERR_ARGUMENT,
                   "%s: a vocabulary of %lld, and not of at least %lld (%d bytes and %lld special "
                   "tokens) and less than 2^31 - 1",
                   cti_train_op, (long long)training->vocab_size, (long long)least, ALPHABET,
                   (long long)training->n_special);
}

/* ---- the whole ---- */

static ct_tokenizer *trained_open(const cti_training *training, const cti_trained *trained) {
    cti_writer out = {0};
    cti_train_write(training, trained, &out);
    char *text = malloc(out.used);
    if (!text) return cti_training_no_memory(training), NULL;
    out = (cti_writer){.at = text, .size = out.used};
    cti_train_write(training, trained, &out);
    ct_tokenizer *tokenizer =
        cti_tokenizer_of(training->context, "the trained tokenizer", (cti_text){text, out.used});
    free(text);
    return tokenizer;
}

static ct_tokenizer *tokenizer_train_files(const cti_training *training, const char *const *paths,
                                           int64_t n) {
    cti_tally pieces = {0};
    cti_trained trained = {0};
    const bool ok = cti_train_count(training, paths, n, &pieces) &&
                    cti_train_merge(training, &pieces, &trained) &&
                    cti_training_goes_on(training, 1);
    cti_tally_free(&pieces);
    ct_tokenizer *tokenizer = ok ? trained_open(training, &trained) : NULL;
    cti_trained_free(&trained);
    return tokenizer;
}

ct_tokenizer *ct_tokenizer_train(ct_context *context, const char *const *paths, int64_t n,
                                 ct_tokenizer_opts opts) {
    ct_status pending = CT_OK;
    if (context) cti_pending_error(context, &pending);
    if (!context || pending != CT_OK || !train_opts_check(context, paths, n, &opts)) return NULL;
    cti_training training = {
        .context = context,
        .vocab_size = opts.vocab_size ? opts.vocab_size : DEFAULT_VOCABULARY,
        .min_frequency = opts.min_frequency,
        .progress = opts.progress,
        .arg = opts.arg,
    };
    if (!split_set(&training, opts.split)) return NULL;
    cti_text *special = specials_read(&training, opts.special, opts.n_special);
    if (!special) return NULL;
    training.special = special;
    ct_tokenizer *tokenizer =
        vocabulary_size_check(&training) ? tokenizer_train_files(&training, paths, n) : NULL;
    free(special);
    return tokenizer;
}
