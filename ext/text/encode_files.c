/* ct_encode_files: a tokenizer encodes the documents of files. */
#include "../data/corpus.h"
#include "tokenizer.h"

static const char encode_files_op[] = "encode_files";

typedef struct {
    const ct_tokenizer *tokenizer;
    ct_encode_opts opts;
} document_encoder;

static int64_t document_encode(const void *arg, const char *text, size_t size, int64_t *ids,
                               int64_t room) {
    const document_encoder *encoder = arg;
    return ct_encode(encoder->tokenizer, text, size, encoder->opts, ids, NULL, room);
}

static bool document_failed(const void *arg) {
    const document_encoder *encoder = arg;
    return cti_encode_failed(encoder->tokenizer, encode_files_op);
}

int64_t ct_encode_files(ct_tokenizer *tokenizer, const char *const *paths, int64_t n,
                        const char *out, ct_corpus_opts opts) {
    if (!tokenizer ||
        !cti_object_is_ready(&tokenizer->object, "ct_encode_files", "tokenizer", NULL))
        return -1;
    const document_encoder encoder = {.tokenizer = tokenizer, .opts = opts.encode};
    const cti_corpus_job job = {
        .context = tokenizer->context,
        .op = encode_files_op,
        .separator = opts.separator,
        .end_id = opts.end_id,
        .vocabulary = ct_tokenizer_size(tokenizer),
        .encode = document_encode,
        .failed = document_failed,
        .arg = &encoder,
    };
    return cti_corpus_write(&job, paths, n, out);
}
