/* Documents of files, as one file of ids with llm.c's header. */
#ifndef CTI_EXT_DATA_CORPUS_H
#define CTI_EXT_DATA_CORPUS_H

#include <cotangent/types.h>

#include <stddef.h>

typedef struct {
    ct_context *context;
    const char *op; /* its name in messages */
    /* a document ends at this text, and at the end of its file; NULL: a file is a document */
    const char *separator;
    int64_t end_id;     /* the id behind each document; -1: none */
    int64_t vocabulary; /* ids are below it, which decides their size in the file */
    /* Encodes a document: writes the first `room` of its ids and returns their number, or -1.
     * Several threads call it at the same time, and it records no error. After -1 one call of
     * `failed` records the error and returns false. */
    int64_t (*encode)(const void *arg, const char *text, size_t size, int64_t *ids, int64_t room);
    bool (*failed)(const void *arg);
    const void *arg;
} cti_corpus_job;

/* Encodes the documents of n files into the file `out`. Returns the number of ids; -1 after an
 * error. */
int64_t cti_corpus_write(const cti_corpus_job *job, const char *const *paths, int64_t n,
                         const char *out);

#endif
