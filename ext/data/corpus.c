/* Turns the documents of files into one file of ids, with llm.c's header.
 *
 * A document ends at the separator or with its file. Documents are read into a buffer, one behind
 * the other, and divided into groups of at least CORPUS_GROUP_BYTES. When there are CORPUS_GROUPS
 * of them, or CORPUS_MOST bytes, the threads of the context encode one group after the other, and
 * the ids are written in the order of the groups. So the file does not depend on the number of
 * threads. The header has the number of ids, which is known only at the end. The new file gets its
 * name then. */
#include "corpus.h"

#include <cotangent/autograd.h>

#include <stdlib.h>
#include <string.h>

#include "../../src/core/int_math.h"
#include "../../src/core/message.h"
#include "../../src/core/parallel.h"
#include "token_file.h"

enum {
    CORPUS_READ = 1 << 20,
    CORPUS_WRITE = 1 << 16, /* bytes that are written at once */
    CORPUS_GROUPS = 16,
    CORPUS_GROUP_BYTES = 1 << 18,
    CORPUS_GROUP_DOCUMENTS = 1 << 12, /* a group of many small documents has no more */
    CORPUS_MOST = CORPUS_GROUPS * CORPUS_GROUP_BYTES, /* no more than one document above it */
};

typedef struct {
    size_t begin, end;
} corpus_document;

/* Documents [first, end) of the buffer, and their ids. */
typedef struct {
    size_t first, end, bytes;
    int64_t *ids; /* [count], in a block of `room`, which later groups use again */
    size_t count, room;
    bool failed;
} corpus_group;

typedef struct {
    const cti_corpus_job *job;
    ct_context *context;
    const char *op;
    size_t separator; /* the bytes of the job's separator; 0 if it has none */
    cti_file_new out;
    int bytes; /* the size of an id in the file */
    int64_t count;
    char *text; /* the bytes that were read and not yet encoded */
    size_t size, room;
    size_t begin, seen; /* the document that is read begins at begin, and has no separator that
                         * begins before seen */
    corpus_document *document; /* [documents]: whole documents in the buffer */
    size_t documents;
    corpus_group group[CORPUS_GROUPS]; /* the last of the groups is not yet full */
    int groups;
} corpus_writer;

static bool corpus_no_memory(const corpus_writer *corpus) {
    return ct_fail(corpus->context, CT_ERR_MEMORY, "%s: out of memory", corpus->op);
}

/* ---- writing ---- */

static bool ids_write(corpus_writer *corpus, const int64_t *ids, int64_t n) {
    unsigned char block[CORPUS_WRITE];
    const int64_t most = CORPUS_WRITE / corpus->bytes;
    if (n > INT32_MAX - corpus->count)
        return ct_fail(corpus->context, CT_ERR_FORMAT,
                       "%s: %s: more than 2^31 - 1 ids, the most that llm.c's header can say",
                       corpus->op, corpus->out.path);
    for (int64_t i = 0; i < n; i += most) {
        const int64_t part = cti_min(most, n - i);
        for (int64_t k = 0; k < part; k++)
            cti_token_put(block + k * corpus->bytes, (uint64_t)ids[i + k], corpus->bytes);
        if (!cti_file_new_write(&corpus->out, block, (size_t)(part * corpus->bytes))) return false;
    }
    corpus->count += n;
    return true;
}

/* ---- documents ---- */

static bool ids_grow(corpus_group *group, size_t more) {
    if (group->room - group->count >= more) return true;
    if (more > SIZE_MAX / sizeof *group->ids / 2 - group->count) return false;
    const size_t room = group->count + group->count / 2 + more;
    int64_t *ids = realloc(group->ids, room * sizeof *ids);
    if (!ids) return false;
    group->ids = ids;
    group->room = room;
    return true;
}

/* Appends the ids of a document. Most texts have fewer ids than half their bytes; others are
 * encoded twice. */
static bool ids_add(const corpus_writer *corpus, corpus_document document, corpus_group *group) {
    const size_t size = document.end - document.begin;
    size_t need = size / 2 + 64;
    for (;;) {
        if (!ids_grow(group, need)) return false;
        const size_t left = group->room - group->count;
        const int64_t n = corpus->job->encode(corpus->job->arg, corpus->text + document.begin, size,
                                              group->ids + group->count, (int64_t)left);
        if (n < 0) return false;
        need = (size_t)n + 1; /* one more for the end_id */
        if (need <= left) break;
    }
    group->count += need - 1;
    if (corpus->job->end_id >= 0) group->ids[group->count++] = corpus->job->end_id;
    return true;
}

/* Encodes groups [begin, end). */
static void groups_encode(void *arg, int64_t begin, int64_t end, int thread) {
    corpus_writer *corpus = arg;
    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        corpus_group *group = &corpus->group[i];
        group->count = 0;
        group->failed = false;
        for (size_t d = group->first; d < group->end && !group->failed; d++)
            group->failed = !ids_add(corpus, corpus->document[d], group);
    }
}

/* Encodes and writes the documents of the buffer, and moves the rest to its beginning. */
static bool flush_documents(corpus_writer *corpus) {
    cti_parallel(corpus->context, corpus->groups, 1, groups_encode, corpus);
    for (int i = 0; i < corpus->groups; i++) {
        corpus_group *group = &corpus->group[i];
        if (group->failed) return corpus->job->failed(corpus->job->arg);
        if (!ids_write(corpus, group->ids, (int64_t)group->count)) return false;
        if (group->room > CORPUS_MOST) { /* a large document made it grow */
            free(group->ids);
            group->ids = NULL;
            group->room = 0;
        }
    }
    corpus->groups = 0;
    corpus->documents = 0;
    corpus->size -= corpus->begin;
    if (corpus->begin) memmove(corpus->text, corpus->text + corpus->begin, corpus->size);
    corpus->seen -= corpus->begin;
    corpus->begin = 0;
    return true;
}

static bool group_is_full(const corpus_group *group) {
    return group->bytes >= CORPUS_GROUP_BYTES ||
           group->end - group->first == CORPUS_GROUP_DOCUMENTS;
}

/* Adds the document [corpus->begin, end) to the last group, or to a new one. */
static bool document_add(corpus_writer *corpus, size_t end) {
    const size_t size = end - corpus->begin;
    if (!size) return true;
    corpus_group *last = corpus->groups ? &corpus->group[corpus->groups - 1] : NULL;
    if (!last || group_is_full(last)) {
        last = &corpus->group[corpus->groups++];
        last->first = last->end = corpus->documents;
        last->bytes = 0;
    }
    corpus->document[corpus->documents++] = (corpus_document){corpus->begin, end};
    last->end++;
    last->bytes += size;
    corpus->begin = end;
    const bool full = corpus->groups == CORPUS_GROUPS && group_is_full(last);
    return (!full && end < CORPUS_MOST) || flush_documents(corpus);
}

/* The offset of the separator in the buffer at or after `from`; the buffer's size if there is
 * none. */
static size_t separator_find(const corpus_writer *corpus, size_t from) {
    const size_t length = corpus->separator;
    const char *text = corpus->text, *separator = corpus->job->separator;
    while (length && corpus->size - from >= length) {
        const char *at = memchr(text + from, separator[0], corpus->size - from - length + 1);
        if (!at) break;
        if (!memcmp(at, separator, length)) return (size_t)(at - text);
        from = (size_t)(at - text) + 1;
    }
    return corpus->size;
}

/* Adds the documents that end in the buffer at a separator. */
static bool whole_text_add(corpus_writer *corpus) {
    const size_t length = corpus->separator;
    for (;;) {
        const size_t end = separator_find(corpus, corpus->seen);
        if (end == corpus->size) break;
        corpus->seen = end + length;
        const size_t size = corpus->size;
        if (!document_add(corpus, end)) return false;
        corpus->begin = end + length - (size - corpus->size); /* a flush moves the buffer */
    }
    const size_t tail = length ? length - 1 : 0, least = corpus->begin;
    corpus->seen = corpus->size > least + tail ? corpus->size - tail : least;
    return corpus->begin < CORPUS_MOST || flush_documents(corpus); /* many separators */
}

/* Makes room to read a part of a file of which `left` bytes are left. */
static bool text_grow(corpus_writer *corpus, int64_t left) {
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

static bool file_encode(corpus_writer *corpus, const char *path) {
    cti_file file;
    if (!cti_file_open(corpus->context, corpus->op, path, &file)) return false;
    bool ok = true;
    corpus->begin = corpus->seen = corpus->size;
    for (int64_t at = 0; ok && at < file.size;) {
        ok = text_grow(corpus, file.size - at);
        if (!ok) break;
        const int64_t n = cti_min(file.size - at, CORPUS_READ);
        ok = cti_file_read(&file, at, corpus->text + corpus->size, (size_t)n);
        if (!ok) break;
        at += n;
        if (at == n && n >= 3 && !memcmp(corpus->text + corpus->size, "\xef\xbb\xbf", 3))
            corpus->begin = corpus->seen = corpus->size + 3; /* a byte order mark */
        corpus->size += (size_t)n;
        ok = whole_text_add(corpus);
    }
    cti_file_close(&file);
    return ok && document_add(corpus, corpus->size);
}

/* ---- the whole ---- */

static bool corpus_check(const cti_corpus_job *job, const char *const *paths, int64_t n,
                         const char *out) {
    if (!paths || n < 1 || !out)
        return ct_fail(job->context, CT_ERR_ARGUMENT, "%s: %s", job->op,
                       !out ? "out is NULL" : "no files");
    for (int64_t i = 0; i < n; i++)
        if (!paths[i])
            return ct_fail(job->context, CT_ERR_ARGUMENT, "%s: path %lld of %lld is NULL", job->op,
                           (long long)i, (long long)n);
    if (job->end_id >= -1 && job->end_id < job->vocabulary) return true;
    return ct_fail(job->context, CT_ERR_ARGUMENT,
                   "%s: the end_id %lld is neither -1 nor an id of the vocabulary of %lld", job->op,
                   (long long)job->end_id, (long long)job->vocabulary);
}

int64_t cti_corpus_write(const cti_corpus_job *job, const char *const *paths, int64_t n,
                         const char *out) {
    corpus_writer corpus = {
        .job = job,
        .context = job->context,
        .op = job->op,
        .separator = job->separator ? strlen(job->separator) : 0,
        .bytes = job->vocabulary <= UINT16_MAX + 1 ? 2 : 4,
    };
    if (!corpus_check(job, paths, n, out) ||
        !cti_file_new_open(job->context, job->op, out, &corpus.out))
        return -1;
    const size_t documents = (size_t)CORPUS_GROUPS * CORPUS_GROUP_DOCUMENTS;
    corpus.document = malloc(documents * sizeof *corpus.document);
    unsigned char header[CTI_TOKEN_HEADER];
    cti_token_header(header, corpus.bytes, 0);
    bool ok = (corpus.document || corpus_no_memory(&corpus)) &&
              cti_file_new_write(&corpus.out, header, sizeof header);
    for (int64_t i = 0; ok && i < n; i++) ok = file_encode(&corpus, paths[i]);
    ok = ok && flush_documents(&corpus);
    free(corpus.text);
    free(corpus.document);
    for (int i = 0; i < CORPUS_GROUPS; i++) free(corpus.group[i].ids);
    cti_token_header(header, corpus.bytes, corpus.count); /* now their number is known */
    ok = ok && cti_file_new_write_at(&corpus.out, 0, header, sizeof header);
    if (!ok) cti_file_new_drop(&corpus.out);
    return ok && cti_file_new_commit(&corpus.out) ? corpus.count : -1;
}
