/* Documents of a tokenizer of bytes, for the tests of programs/finetune. */
#ifndef BYTE_DOCUMENTS_H
#define BYTE_DOCUMENTS_H

#include "programs/common.h" /* before check.h, which has a macro of the name fail */
#include "programs/documents.h"
#include "tests/support/files.h"

static inline const char *put_text(const char *name, const char *text) {
    const char *path = in_folder(name);
    write_all(path, text, strlen(text));
    return path;
}

/* A tokenizer of bytes: <e> is 0, and a byte's id is its place in GPT-2's alphabet + 1. */
static inline ct_tokenizer *bytes_tokenizer(void) {
    const char *paths[] = {put_text("corpus", "a")}, *special[] = {"<e>"};
    const ct_tokenizer_opts opts = {.vocab_size = 257, .special = special, .n_special = 1};
    ct_tokenizer *tokenizer = ct_tokenizer_train(context, paths, 1, opts);
    ck_assert_msg(tokenizer != NULL, "%s", ct_error_message(context));
    return tokenizer;
}

/* The ids of a document as text, with ~ for <e>. */
static inline const char *text_of(const ct_tokenizer *tokenizer, const int32_t *ids, int64_t n) {
    static char text[1000];
    size_t size = 0;
    for (int64_t t = 0; t < n; t++) {
        const int64_t id = ids[t];
        if (id == 0) text[size++] = '~';
        else size += (size_t)ct_decode(tokenizer, &id, 1, true, text + size, sizeof text - size);
    }
    text[size] = 0;
    return text;
}

/* The targets of a document as text, with _ for none. */
static inline const char *targets_of(const ct_tokenizer *tokenizer, const documents *d, int64_t i) {
    static char text[1000];
    size_t size = 0;
    for (int64_t t = d->begin[i]; t < d->begin[i + 1]; t++) {
        const int64_t id = d->targets[t];
        if (id <= 0) text[size++] = id ? '_' : '~';
        else size += (size_t)ct_decode(tokenizer, &id, 1, true, text + size, sizeof text - size);
    }
    text[size] = 0;
    return text;
}

static inline const char *document(const ct_tokenizer *tokenizer, const documents *d, int64_t i) {
    return text_of(tokenizer, d->ids + d->begin[i], d->begin[i + 1] - d->begin[i]);
}

/* A document for each line, or one. */
static inline documents read_lengths(const ct_tokenizer *tokenizer, const char *text) {
    const char *separator =
        strchr(text, '\n') ? "\n" : NULL; /* one that is not there is an error */
    const documents_opts opts = {.tokenizer = tokenizer, .end_id = -1, .separator = separator};
    return documents_read(context, put_text("lengths", text), &opts);
}

#endif
