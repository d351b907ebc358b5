/* ct_encode_files: documents of files become one file of ids with llm.c's header.
 *
 * A document ends at the separator or with its file. It is read into a buffer that grows until the
 * separator is in it, so one document is in memory, with its ids. The header has the number of ids,
 * which is known at the end; the new file has its name only then. */
#include <cotangent/autograd.h>

#include <stdlib.h>
#include <string.h>

#include "../../src/core/int_math.h"
#include "../../src/core/message.h"
#include "../../src/io/file.h"
#include "tokenizer.h"

static const char corpus_op[] = "encode_files";

enum {
    CORPUS_HEADER = 1024,
    CORPUS_MAGIC_2 = 20240520, /* the magic of ids of 2 bytes, version 1 */
    CORPUS_MAGIC_4 = 20240801, /* the magic of ids of 4 bytes, version 7 */
    CORPUS_READ = 1 << 20,
    CORPUS_WRITE = 1 << 16, /* bytes that are written at once */
};

typedef struct {
    const ct_tokenizer *tokenizer;
    ct_context *context;
    const ct_corpus_opts *opts;
    cti_text separator; /* .size is 0 if there is none */
    cti_file_new out;
    int bytes; /* the size of an id in the file */
    int64_t count;
    char *text; /* the bytes that were read and not yet encoded */
    size_t size, room;
    int64_t *ids; /* the ids of a document */
    size_t ids_room;
} corpus_writer;

static bool corpus_no_memory(const corpus_writer *corpus) {
    return ct_fail(corpus->context, CT_ERR_MEMORY, "%s: out of memory", corpus_op);
}

/* ---- writing ---- */

static void put_little(unsigned char *at, uint64_t number, int bytes) {
    for (int b = 0; b < bytes; b++) at[b] = (unsigned char)(number >> 8 * b);
}

static bool write_corpus_header(const corpus_writer *corpus) {
    unsigned char header[CORPUS_HEADER] = {0};
    put_little(header, corpus->bytes == 2 ? CORPUS_MAGIC_2 : CORPUS_MAGIC_4, 4);
    put_little(header + 4, corpus->bytes == 2 ? 1 : 7, 4);
    put_little(header + 8, (uint64_t)corpus->count, 4);
    return cti_file_new_write_at(&corpus->out, 0, header, sizeof header);
}

static bool write_ids(corpus_writer *corpus, const int64_t *ids, int64_t n) {
    unsigned char block[CORPUS_WRITE];
    const int64_t most = CORPUS_WRITE / corpus->bytes;
    if (n > INT32_MAX - corpus->count)
        return ct_fail(corpus->context, CT_ERR_FORMAT,
                       "%s: %s: more than 2^31 - 1 ids, the most that llm.c's header can say",
                       corpus_op, corpus->out.path);
    for (int64_t i = 0; i < n; i += most) {
        const int64_t part = cti_min(most, n - i);
        for (int64_t k = 0; k < part; k++)
            put_little(block + k * corpus->bytes, (uint64_t)ids[i + k], corpus->bytes);
        if (!cti_file_new_write(&corpus->out, block, (size_t)(part * corpus->bytes))) return false;
    }
    corpus->count += n;
    return true;
}

/* ---- documents ---- */

static bool grow_ids(corpus_writer *corpus, size_t room) {
    if (room > SIZE_MAX / sizeof *corpus->ids) return corpus_no_memory(corpus);
    int64_t *ids = realloc(corpus->ids, room * sizeof *ids);
    if (!ids) return corpus_no_memory(corpus);
    corpus->ids = ids;
    corpus->ids_room = room;
    return true;
}

/* Encodes a document. Most texts have fewer ids than half their bytes; others are encoded twice. */
static bool encode_document(corpus_writer *corpus, const char *text, size_t size) {
    if (!size) return true;
    const size_t guess = size / 2 + 64;
    if (guess > corpus->ids_room && !grow_ids(corpus, guess)) return false;
    int64_t n;
    for (;;) {
        n = ct_encode(corpus->tokenizer, text, size, corpus->opts->encode, corpus->ids, NULL,
                      (int64_t)corpus->ids_room);
        if (n < 0) return corpus_no_memory(corpus);
        if ((uint64_t)n <= corpus->ids_room) break;
        if (!grow_ids(corpus, (size_t)n)) return false;
    }
    if (!write_ids(corpus, corpus->ids, n)) return false;
    return corpus->opts->end_id < 0 || write_ids(corpus, &corpus->opts->end_id, 1);
}

/* The offset of the separator in the buffer at or after `from`; the buffer's size if there is
 * none. */
static size_t find_separator(const corpus_writer *corpus, size_t from) {
    const cti_text separator = corpus->separator;
    const char *text = corpus->text;
    while (separator.size && corpus->size - from >= separator.size) {
        const char *at =
            memchr(text + from, separator.at[0], corpus->size - from - separator.size + 1);
        if (!at) break;
        if (!memcmp(at, separator.at, separator.size)) return (size_t)(at - text);
        from = (size_t)(at - text) + 1;
    }
    return corpus->size;
}

/* Encodes the documents that end in the buffer, and moves the rest to its beginning. No separator
 * begins in the first *seen bytes; the number for the next call is returned in it. */
static bool encode_whole(corpus_writer *corpus, size_t *seen) {
    size_t begin = 0;
    for (size_t end = find_separator(corpus, *seen); end < corpus->size;
         end = find_separator(corpus, begin)) {
        if (!encode_document(corpus, corpus->text + begin, end - begin)) return false;
        begin = end + corpus->separator.size;
    }
    corpus->size -= begin;
    if (begin) memmove(corpus->text, corpus->text + begin, corpus->size);
    const size_t tail = corpus->separator.size ? corpus->separator.size - 1 : 0;
    *seen = corpus->size > tail ? corpus->size - tail : 0;
    return true;
}

/* Makes room to read a part of a file of which `left` bytes are left. */
static bool grow_text(corpus_writer *corpus, int64_t left) {
    const size_t more = (size_t)cti_min(left, CORPUS_READ);
    if (corpus->room - corpus->size >= more) return true;
    if (corpus->room > SIZE_MAX / 2 - more) return corpus_no_memory(corpus);
    const size_t room = corpus->room / 2 + corpus->room + more;
    char *text = realloc(corpus->text, room);
    if (!text) return corpus_no_memory(corpus);
    corpus->text = text;
    corpus->room = room;
    return true;
}

static bool encode_file(corpus_writer *corpus, const char *path) {
    cti_file file;
    if (!cti_file_open(corpus->context, corpus_op, path, &file)) return false;
    bool ok = true;
    corpus->size = 0;
    size_t seen = 0;
    for (int64_t at = 0; ok && at < file.size;) {
        ok = grow_text(corpus, file.size - at);
        if (!ok) break;
        const int64_t n = cti_min(file.size - at, CORPUS_READ);
        ok = cti_file_read(&file, at, corpus->text + corpus->size, (size_t)n);
        if (!ok) break;
        at += n;
        corpus->size += (size_t)n;
        ok = encode_whole(corpus, &seen);
    }
    cti_file_close(&file);
    return ok && encode_document(corpus, corpus->text, corpus->size);
}

/* ---- the whole ---- */

static bool check_corpus(const corpus_writer *corpus, const char *const *paths, int64_t n,
                         const char *out) {
    const int64_t size = ct_tokenizer_size(corpus->tokenizer), end = corpus->opts->end_id;
    if (!paths || n < 1 || !out)
        return ct_fail(corpus->context, CT_ERR_ARGUMENT, "%s: %s", corpus_op,
                       !out ? "out is NULL" : "no files");
    for (int64_t i = 0; i < n; i++)
        if (!paths[i])
            return ct_fail(corpus->context, CT_ERR_ARGUMENT, "%s: path %lld of %lld is NULL",
                           corpus_op, (long long)i, (long long)n);
    if (end >= -1 && end < size) return true;
    return ct_fail(corpus->context, CT_ERR_ARGUMENT,
                   "%s: the end_id %lld is neither -1 nor an id of the vocabulary of %lld",
                   corpus_op, (long long)end, (long long)size);
}

int64_t ct_encode_files(ct_tokenizer *tokenizer, const char *const *paths, int64_t n,
                        const char *out, ct_corpus_opts opts) {
    if (!tokenizer ||
        !cti_object_is_ready(&tokenizer->object, "ct_encode_files", "tokenizer", NULL))
        return -1;
    corpus_writer corpus = {
        .tokenizer = tokenizer,
        .context = tokenizer->context,
        .opts = &opts,
        .separator = opts.separator ? cti_text_of(opts.separator) : (cti_text){0},
        .bytes = ct_tokenizer_size(tokenizer) <= UINT16_MAX + 1 ? 2 : 4,
    };
    if (!check_corpus(&corpus, paths, n, out) ||
        !cti_file_new_open(corpus.context, corpus_op, out, &corpus.out))
        return -1;
    static const unsigned char header[CORPUS_HEADER]; /* zeros, until the number of ids is known */
    bool ok = cti_file_new_write(&corpus.out, header, sizeof header);
    for (int64_t i = 0; ok && i < n; i++) ok = encode_file(&corpus, paths[i]);
    free(corpus.text);
    free(corpus.ids);
    ok = ok && write_corpus_header(&corpus);
    if (!ok) cti_file_new_drop(&corpus.out);
    return ok && cti_file_new_commit(&corpus.out) ? corpus.count : -1;
}
