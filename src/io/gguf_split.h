/* GGUF models of several files. Each file has its own header and data, the first has the metadata.
 * It has split.count, and each has split.no, from 0 on, and the same names but for the number. */
#ifndef CTI_IO_GGUF_SPLIT_H
#define CTI_IO_GGUF_SPLIT_H

#include "gguf.h"

/* Sets *path to the .gguf file of a folder, or to the first of a split set, in a block of
 * strlen + 1; to NULL, without an error, if there is none. Several are an error. */
bool cti_gguf_find_in(ct_context *context, const char *op, const char *folder, char **path);

typedef struct {
    int64_t number, count; /* the file's number, from 0 on, and the number of files; 0 and 1 */
    int64_t tensors;       /* of all files; -1: not said */
} cti_gguf_split;

/* Reads what an open file says of its set. It must be the first, by its name too. */
bool cti_gguf_split_first(const cti_gguf *gguf, cti_gguf_split *split);
/* The path of file i, in a block of strlen + 1; NULL if memory is short. */
char *cti_gguf_split_path(const cti_gguf *first, const cti_gguf_split *split, int64_t i);
/* Whether an open file is file i of the set. */
bool cti_gguf_split_check(const cti_gguf *gguf, const cti_gguf_split *split, int64_t i);
/* Whether the files have as many tensors as the first says. */
bool cti_gguf_split_sum(const cti_gguf *first, const cti_gguf_split *split, int64_t tensors);

#endif
