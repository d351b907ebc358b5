/* GGUF files of the library, which does not export them, for tests in Python. A probe is an open
 * file, or one that is being written. */
#ifndef CT_TESTS_GGUF_PROBE_H
#define CT_TESTS_GGUF_PROBE_H

#include <cotangent/types.h>

typedef struct gguf_probe gguf_probe;

CT_API gguf_probe *gguf_probe_new(const char *path, int threads);
CT_API void gguf_probe_free(gguf_probe *p);
CT_API const char *gguf_probe_error(gguf_probe *p);
CT_API bool gguf_probe_open(gguf_probe *p);
CT_API int64_t gguf_probe_tensors(const gguf_probe *p);
CT_API const char *gguf_probe_name(const gguf_probe *p, int64_t i);
CT_API const char *gguf_probe_dtype(const gguf_probe *p, int64_t i);
CT_API int64_t gguf_probe_shape(const gguf_probe *p, int64_t i, int64_t *dims);
/* Values as f32, or as f64. */
CT_API bool gguf_probe_values(gguf_probe *p, int64_t i, void *out, bool wide);
/* The number of elements of a key; -1 if it is absent, or not of the kind: s, i, f or b. */
CT_API int64_t gguf_probe_count(const gguf_probe *p, const char *key, char what);
CT_API int64_t gguf_probe_integer(const gguf_probe *p, const char *key, char what, int64_t i);
CT_API double gguf_probe_real(const gguf_probe *p, const char *key, int64_t i);
CT_API const char *gguf_probe_text(const gguf_probe *p, const char *key, int64_t i);
CT_API void gguf_probe_begin(gguf_probe *p);
CT_API void gguf_probe_put_text(gguf_probe *p, const char *key, const char *text);
CT_API void gguf_probe_put_u32(gguf_probe *p, const char *key, int64_t x);
CT_API void gguf_probe_put_i32(gguf_probe *p, const char *key, int64_t x);
CT_API void gguf_probe_put_f32(gguf_probe *p, const char *key, double x);
CT_API void gguf_probe_put_flag(gguf_probe *p, const char *key, bool x);
CT_API void gguf_probe_put_texts(gguf_probe *p, const char *key, const char *const *x, int64_t n);
CT_API void gguf_probe_put_i32s(gguf_probe *p, const char *key, const void *x, int64_t n);
CT_API void gguf_probe_put_f32s(gguf_probe *p, const char *key, const void *x, int64_t n);
/* A tensor of f32 values, to be written as the type of this name. */
CT_API bool gguf_probe_put_tensor(gguf_probe *p, const char *name, const void *values,
                                  const int64_t *dims, int ndim, const char *type);
CT_API bool gguf_probe_write(gguf_probe *p);

#endif
