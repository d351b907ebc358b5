/* Internal parts of the text floor for tests in Python, which see only what a library exports. */
#ifndef TEXT_PROBE_H
#define TEXT_PROBE_H

#include <cotangent/types.h>

typedef struct text_probe text_probe;

/* Reads the value of a "normalizer". Returns NULL and writes the error's text if it is refused. */
CT_API text_probe *text_probe_open(const char *json, char *message, size_t room);
CT_API void text_probe_close(text_probe *probe);
/* For tests in C. */
const struct cti_normalizer *text_probe_normalizer(const text_probe *probe);

/* Normalizes a section of a text, [base, base + size). Writes the bytes of the result, and the
 * range in the text that each of them came from. Returns the number of bytes; -1 if memory is
 * short. */
CT_API int64_t text_probe_normalize(const text_probe *probe, const char *text, int64_t base,
                                    int64_t size, char *out, int64_t *from, int64_t room);

/* Writes the tokenizer of a path into a GGUF file of no tensors, for a model of this architecture
 * and so many ids. If it is refused, returns false and writes the error's text. */
CT_API bool text_probe_gguf(const char *path, const char *architecture, int64_t rows,
                            const char *gguf, char *message, size_t room);

#endif
