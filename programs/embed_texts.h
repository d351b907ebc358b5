/* The texts of the program embed and their vectors. */
#ifndef PROGRAMS_EMBED_TEXTS_H
#define PROGRAMS_EMBED_TEXTS_H

#include "common.h"

typedef struct {
    char **text, **shown; /* [n] with the prompt, and as it stands in the file */
    int64_t *line;        /* [n] where it begins, from 1 on */
    int64_t n, room;
} texts;

/* Adds a text of `size` bytes. White space at the beginning and end of prompt + text is left out,
 * as sentence-transformers does it. */
void texts_add(texts *t, const char *prompt, const char *text, size_t size, int64_t line);
/* Reads the lines of a text, or the objects of a .jsonl file. Fails if there is no text. */
texts texts_read(ct_context *context, char *path, const char *prompt);
void texts_free(texts *t);
/* The indices of the texts by their number of tokens, the longest first. The caller frees them. */
int64_t *texts_order(const texts *t, const ct_tokenizer *tokenizer);

typedef struct {
    float *at; /* [n][dim] */
    int64_t n, dim;
} vectors;

/* Puts n rows of `dim` numbers in the places `order`. */
void vectors_put(vectors *v, const int64_t *order, int64_t n, int64_t dim, const float *rows);
/* Writes a NumPy file. */
void vectors_write(const vectors *v, const char *path);

#endif
