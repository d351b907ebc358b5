#include "gguf_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/context.h"
#include "src/io/shards.h"

struct gguf_probe {
    ct_context *context;
    cti_shards shards;
    cti_gguf_out out;
    ct_scope scope;
    char path[4096];
};

gguf_probe *gguf_probe_new(const char *path, int threads) {
    gguf_probe *p = calloc(1, sizeof *p);
    p->context = ct_context_new((ct_context_opts){.threads = threads});
    p->scope = ct_scope_open(p->context);
    snprintf(p->path, sizeof p->path, "%s", path);
    return p;
}
void gguf_probe_free(gguf_probe *p) {
    if (p->shards.context) cti_shards_close(&p->shards);
    if (p->out.context) cti_gguf_out_end(&p->out);
    ct_context_free(p->context);
    free(p);
}
const char *gguf_probe_error(gguf_probe *p) { return ct_error_message(p->context); }

/* ---- reading ---- */

bool gguf_probe_open(gguf_probe *p) {
    return cti_shards_open(p->context, "probe", p->path, &p->shards);
}
int64_t gguf_probe_tensors(const gguf_probe *p) { return p->shards.tensors; }
const char *gguf_probe_name(const gguf_probe *p, int64_t i) { return p->shards.tensor[i]->name.at; }
const char *gguf_probe_dtype(const gguf_probe *p, int64_t i) {
    return cti_file_dtype_name(p->shards.tensor[i]->dtype);
}
int64_t gguf_probe_shape(const gguf_probe *p, int64_t i, int64_t *dims) {
    const cti_file_tensor *t = p->shards.tensor[i];
    memcpy(dims, t->shape.dim, (size_t)t->shape.ndim * sizeof *dims);
    return t->ndim;
}
/* Values as f32, or as f64. */
bool gguf_probe_values(gguf_probe *p, int64_t i, void *out, bool wide) {
    const cti_file_tensor *t = p->shards.tensor[i];
    ct_tensor *x = ct_empty(p->context, wide ? CT_F64 : CT_F32, t->shape);
    if (!x || !cti_file_tensor_read(t, 0, t->numel, x, 0)) return false;
    return wide ? ct_to_f64(x, out, t->numel) : ct_to_f32(x, out, t->numel);
}
/* The number of elements of a key; -1 if it is absent or an error. what: s, i, f or b. */
static const cti_gguf_pair *pair_of(const gguf_probe *p, const char *key, char what) {
    const cti_gguf_pair *pair = NULL;
    const cti_gguf_kind kind = what == 's'   ? CTI_GGUF_STRING
                               : what == 'i' ? CTI_GGUF_I64
                               : what == 'f' ? CTI_GGUF_F64
                                             : CTI_GGUF_BOOL;
    return cti_gguf_array(p->shards.gguf, key, kind, &pair) ? pair : NULL;
}
int64_t gguf_probe_count(const gguf_probe *p, const char *key, char what) {
    const cti_gguf_pair *pair = pair_of(p, key, what);
    return pair ? pair->count : -1;
}
int64_t gguf_probe_integer(const gguf_probe *p, const char *key, char what, int64_t i) {
    return cti_gguf_integer_at(pair_of(p, key, what), i);
}
double gguf_probe_real(const gguf_probe *p, const char *key, int64_t i) {
    return cti_gguf_real_at(pair_of(p, key, 'f'), i);
}
const char *gguf_probe_text(const gguf_probe *p, const char *key, int64_t i) {
    const cti_gguf_pair *pair = pair_of(p, key, 's');
    cti_gguf_cursor cursor = {0};
    cti_text text = {0};
    for (int64_t k = 0; k <= i; k++) text = cti_gguf_next_text(pair, &cursor);
    return text.at;
}

/* ---- writing ---- */

void gguf_probe_begin(gguf_probe *p) { cti_gguf_out_begin(p->context, "probe", p->path, &p->out); }
void gguf_probe_put_text(gguf_probe *p, const char *key, const char *text) {
    cti_gguf_put_text(&p->out, key, cti_text_of(text));
}
void gguf_probe_put_u32(gguf_probe *p, const char *key, int64_t x) {
    cti_gguf_put_u32(&p->out, key, (uint32_t)x);
}
void gguf_probe_put_i32(gguf_probe *p, const char *key, int64_t x) {
    cti_gguf_put_i32(&p->out, key, (int32_t)x);
}
void gguf_probe_put_f32(gguf_probe *p, const char *key, double x) {
    cti_gguf_put_f32(&p->out, key, (float)x);
}
void gguf_probe_put_flag(gguf_probe *p, const char *key, bool x) {
    cti_gguf_put_flag(&p->out, key, x);
}
void gguf_probe_put_texts(gguf_probe *p, const char *key, const char *const *x, int64_t n) {
    cti_gguf_put_array(&p->out, key, CTI_GGUF_STRING, n);
    for (int64_t i = 0; i < n; i++) cti_gguf_add_text(&p->out, cti_text_of(x[i]));
}
void gguf_probe_put_i32s(gguf_probe *p, const char *key, const void *x, int64_t n) {
    cti_gguf_put_array(&p->out, key, CTI_GGUF_I32, n);
    for (int64_t i = 0; i < n; i++) cti_gguf_add_i32(&p->out, ((const int32_t *)x)[i]);
}
void gguf_probe_put_f32s(gguf_probe *p, const char *key, const void *x, int64_t n) {
    cti_gguf_put_array(&p->out, key, CTI_GGUF_F32, n);
    for (int64_t i = 0; i < n; i++) cti_gguf_add_f32(&p->out, ((const float *)x)[i]);
}
/* A tensor of f32 values, to be written as the type of this name. */
bool gguf_probe_put_tensor(gguf_probe *p, const char *name, const void *values, const int64_t *dims,
                           int ndim, const char *type) {
    ct_shape shape = {.ndim = ndim};
    memcpy(shape.dim, dims, (size_t)ndim * sizeof *dims);
    ct_tensor *x = ct_from_f32(p->context, shape, values);
    for (int t = 0; x && t < CTI_FILE_DTYPE_COUNT; t++)
        if (!strcmp(type, cti_file_dtype_name((cti_file_dtype)t))) {
            cti_gguf_put_tensor(&p->out, name, x, (cti_file_dtype)t, (cti_row_grid){0}, 0, false);
            return ct_error(p->context) == CT_OK;
        }
    return false;
}
bool gguf_probe_write(gguf_probe *p) { return cti_gguf_out_write(&p->out); }
