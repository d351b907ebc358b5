/* Handles and storages; copying between any two layouts. */
#include "context.h"
#include "tape.h"

#include <math.h>
#include <string.h>

/* Stands in front of the data of a storage, so that one block serves both. */
enum { HEADER = CT_ALIGN };
_Static_assert(sizeof(ct_storage) <= HEADER, "the data is behind the header");

static bool is_dense(const ct_tensor *t) {
    int64_t step = 1;
    if (t->numel == 0) return true;
    for (int d = t->shape.ndim - 1; d >= 0; d--) {
        if (t->shape.dim[d] == 1) continue;
        if (t->stride[d] != step) return false;
        step *= t->shape.dim[d];
    }
    return true;
}

/* A handle on a storage, whose count it takes over. */
static ct_tensor *handle(ct_context *context, ct_storage *storage, char *data, ct_dtype dtype, ct_shape shape, const int64_t *stride) {
    ct_tensor *tensor = ct_take(context, sizeof *tensor);
    if (!tensor) {
        ct_storage_unref(context, storage);
        return NULL;
    }
    tensor->context = context;
    tensor->storage = storage;
    tensor->data = data;
    tensor->node = NULL;
    tensor->numel = ct_shape_numel(shape);
    tensor->shape = shape;
    if (stride) memcpy(tensor->stride, stride, (size_t)shape.ndim * sizeof *stride);
    else ct_shape_strides(shape, tensor->stride);
    tensor->dtype = dtype;
    tensor->contiguous = !stride || is_dense(tensor);
    tensor->parameter = false;
    ct_tensor_own(tensor);
    return tensor;
}

static ct_storage *storage_new(ct_context *context, size_t data_bytes) {
    size_t bytes = HEADER + data_bytes;
    ct_storage *storage = ct_take(context, bytes);
    if (storage) *storage = (ct_storage){.refs = 1, .data = (char *)storage + HEADER, .bytes = bytes};
    return storage;
}

void ct_storage_unref(ct_context *context, ct_storage *storage) {
    if (storage && --storage->refs == 0) ct_give(context, storage, storage->bytes);
}

static const char *op_name(const ct_context *context) { return context->op ? context->op : "tensor"; }

ct_tensor *ct_tensor_new(ct_context *context, ct_dtype dtype, ct_shape shape) {
    size_t size = ct_dtype_size(dtype);
    if (!ct_shape_check(context, op_name(context), shape, size)) return NULL;
    ct_storage *storage = storage_new(context, (size_t)ct_shape_numel(shape) * size);
    return storage ? handle(context, storage, storage->data, dtype, shape, NULL) : NULL;
}

ct_tensor *ct_tensor_view(ct_tensor *of, char *data, ct_shape shape, const int64_t *stride) {
    if (!ct_shape_check(of->context, op_name(of->context), shape, ct_dtype_size(of->dtype))) return NULL;
    of->storage->refs++;
    return handle(of->context, of->storage, data, of->dtype, shape, stride);
}

ct_tensor *ct_wrap(ct_context *context, ct_dtype dtype, ct_shape shape, const int64_t *strides, void *data) {
    if (!ct_ready(context) || !ct_dtype_check(context, "wrap", dtype)) return NULL;
    size_t size = ct_dtype_size(dtype);
    if (!ct_shape_check(context, "wrap", shape, size)) return NULL;
    if (!data && ct_shape_numel(shape)) return ct_fail(context, CT_ERR_ARGUMENT, "wrap: data is NULL for %s", SHAPE(shape));
    if ((uintptr_t)data % size) return ct_fail(context, CT_ERR_ARGUMENT, "wrap: data is not aligned for %s", ct_dtype_name(dtype));
    for (int d = 0; strides && d < shape.ndim; d++) {
        int64_t reach;   /* the distance of the first and last element along the dim, in bytes */
        if (shape.dim[d] && (__builtin_mul_overflow(shape.dim[d], strides[d], &reach) || __builtin_mul_overflow(reach, (int64_t)size, &reach)))
            return ct_fail(context, CT_ERR_MEMORY, "wrap: the stride %lld of dim %d overflows", (long long)strides[d], d);
    }
    ct_storage *storage = storage_new(context, 0);
    if (!storage) return NULL;
    storage->data = data;
    return handle(context, storage, data, dtype, shape, strides);
}

void ct_tensor_free(ct_tensor *tensor) {
    ct_tensor_disown(tensor);
    if (tensor->node) ct_node_unref(tensor->node);
    ct_storage_unref(tensor->context, tensor->storage);
    ct_give(tensor->context, tensor, sizeof *tensor);
}

bool ct_tensor_is_sole(const ct_tensor *tensor) {
    const ct_storage *storage = tensor->storage;
    return tensor->contiguous && storage->refs == 1 && storage->data == (const char *)storage + HEADER;
}

/* ---- copying. Dims that both layouts run through in one stride are merged; what is left is a loop of 2-d blocks. ---- */

typedef struct {
    int ndim;   /* at least 2: the last two are the block */
    int64_t dim[CT_MAX_DIMS + 2], to_stride[CT_MAX_DIMS + 2], from_stride[CT_MAX_DIMS + 2];
    char *to;
    const char *from;
    int64_t size;
    const ct_kernels *kernels;
    bool add;
} copy;

static void merge(copy *c, const ct_tensor *to, const ct_tensor *from) {
    c->ndim = 0;
    for (int d = 0; d < to->shape.ndim; d++) {
        int64_t n = to->shape.dim[d], t = to->stride[d], f = from->stride[d];
        int last = c->ndim - 1;
        if (n == 1) continue;
        if (last >= 0 && c->to_stride[last] == n * t && c->from_stride[last] == n * f) {
            c->dim[last] *= n;
            c->to_stride[last] = t;
            c->from_stride[last] = f;
        } else {
            c->dim[c->ndim] = n;
            c->to_stride[c->ndim] = t;
            c->from_stride[c->ndim++] = f;
        }
    }
    while (c->ndim < 2) {   /* one row, or one element */
        memmove(c->dim + 1, c->dim, (size_t)c->ndim * sizeof *c->dim);
        memmove(c->to_stride + 1, c->to_stride, (size_t)c->ndim * sizeof *c->dim);
        memmove(c->from_stride + 1, c->from_stride, (size_t)c->ndim * sizeof *c->dim);
        c->dim[0] = 1;
        c->to_stride[0] = c->from_stride[0] = 0;
        c->ndim++;
    }
}

/* Rows of the outermost loops together, row i: a block of one row, or more that lie in one block. */
static void copy_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const copy *c = arg;
    int r = c->ndim - 2;
    int64_t rows = c->dim[r], columns = c->dim[r + 1];
    while (begin < end) {
        int64_t row = begin % rows, block = begin / rows, count = rows - row < end - begin ? rows - row : end - begin;
        int64_t to = row * c->to_stride[r], from = row * c->from_stride[r];
        for (int d = r - 1; d >= 0; d--) {
            int64_t i = block % c->dim[d];
            block /= c->dim[d];
            to += i * c->to_stride[d];
            from += i * c->from_stride[d];
        }
        c->kernels->copy2d(count, columns, c->from + from * c->size, c->from_stride[r], c->from_stride[r + 1], c->to + to * c->size,
                           c->to_stride[r], c->to_stride[r + 1], c->add);
        begin += count;
    }
}

void ct_tensor_copy(ct_tensor *to, const ct_tensor *from, bool add) {
    if (to->numel == 0) return;
    ct_context *context = to->context;
    copy c = {.to = to->data, .from = from->data, .size = (int64_t)ct_dtype_size(to->dtype), .kernels = context->isa->of[to->dtype], .add = add};
    merge(&c, to, from);
    if (c.dim[c.ndim - 2] == 1 && c.ndim == 2) {   /* one long row: cut it into rows of a piece each */
        int64_t piece = 16384, n = c.dim[1], rows = n / piece;
        if (rows > 1) {
            copy rest = c;
            c.dim[0] = rows, c.dim[1] = piece;
            c.to_stride[0] = piece * c.to_stride[1], c.from_stride[0] = piece * c.from_stride[1];
            ct_parallel(context, rows, 1, copy_rows, &c);
            rest.to += rows * c.to_stride[0] * c.size, rest.from += rows * c.from_stride[0] * c.size;
            rest.dim[1] = n - rows * piece;
            copy_rows(&rest, 0, 1, 0);
            return;
        }
    }
    int64_t rows = to->numel / c.dim[c.ndim - 1], grain = 16384 / c.dim[c.ndim - 1];
    ct_parallel(context, rows, grain < 64 ? 64 : grain, copy_rows, &c);
}

ct_tensor *ct_tensor_dense(ct_tensor *tensor) {
    if (tensor->contiguous) return tensor;
    ct_tensor *dense = ct_tensor_new(tensor->context, tensor->dtype, tensor->shape);
    if (dense) ct_tensor_copy(dense, tensor, false);
    return dense;
}

/* ---- what a reader asks ---- */

ct_context *ct_context_of(const ct_tensor *t) { return t ? t->context : NULL; }
ct_dtype ct_dtype_of(const ct_tensor *t) { return t ? t->dtype : CT_F32; }
ct_shape ct_shape_of(const ct_tensor *t) { return t ? t->shape : CT_SCALAR; }
int ct_ndim(const ct_tensor *t) { return t ? t->shape.ndim : 0; }
int64_t ct_numel(const ct_tensor *t) { return t ? t->numel : 0; }

int64_t ct_dim(const ct_tensor *t, int dim) {
    int d = t ? ct_dim_index(t->context, "dim", dim, t->shape.ndim) : -1;
    return d < 0 ? -1 : t->shape.dim[d];
}

static void *data_of(ct_tensor *t, ct_dtype dtype) {
    if (!t) return NULL;
    if (t->dtype != dtype)
        return ct_fail(t->context, CT_ERR_DTYPE, "data_%s: the tensor is %s", ct_dtype_name(dtype), ct_dtype_name(t->dtype));
    if (!t->contiguous)
        return ct_fail(t->context, CT_ERR_ARGUMENT, "data_%s: %s is not contiguous; take ct_contiguous of it", ct_dtype_name(dtype), SHAPE(t->shape));
    return t->data;
}

float *ct_data_f32(ct_tensor *t) { return data_of(t, CT_F32); }
double *ct_data_f64(ct_tensor *t) { return data_of(t, CT_F64); }
int64_t *ct_data_i64(ct_tensor *t) { return data_of(t, CT_I64); }
bool *ct_data_bool(ct_tensor *t) { return data_of(t, CT_BOOL); }

/* Row by row through a small buffer: a reader needs no memory of the context's. */
static bool read_as(const ct_tensor *t, ct_dtype dtype, void *out, int64_t count) {
    if (!t) return false;
    if (count != t->numel || (count && !out)) {
        ct_fail(t->context, CT_ERR_ARGUMENT, "to_%s: %s into %s of %lld elements", ct_dtype_name(dtype), SHAPE(t->shape), out ? "an array" : "NULL",
                (long long)count);
        return false;
    }
    if (count == 0) return true;
    enum { CHUNK = 256 };
    int64_t buffer[CHUNK], size = (int64_t)ct_dtype_size(t->dtype), out_size = (int64_t)ct_dtype_size(dtype);
    const ct_kernels *kernels = t->context->isa->of[t->dtype];
    if (t->contiguous) {
        kernels->cast[dtype](count, t->data, out);
        return true;
    }
    int last = t->shape.ndim - 1;
    int64_t n = t->shape.dim[last], stride = t->stride[last];
    for (int64_t row = 0; row < count / n; row++) {
        int64_t offset = 0, index = row;
        for (int d = last - 1; d >= 0; index /= t->shape.dim[d--]) offset += index % t->shape.dim[d] * t->stride[d];
        for (int64_t i = 0; i < n; i += CHUNK) {
            int64_t m = n - i < CHUNK ? n - i : CHUNK;
            kernels->copy2d(1, m, t->data + (offset + i * stride) * size, 0, stride, buffer, 0, 1, false);
            kernels->cast[dtype](m, buffer, (char *)out + (row * n + i) * out_size);
        }
    }
    return true;
}

bool ct_to_f32(const ct_tensor *t, float *out, int64_t count) { return read_as(t, CT_F32, out, count); }
bool ct_to_f64(const ct_tensor *t, double *out, int64_t count) { return read_as(t, CT_F64, out, count); }
bool ct_to_i64(const ct_tensor *t, int64_t *out, int64_t count) { return read_as(t, CT_I64, out, count); }
bool ct_to_bool(const ct_tensor *t, bool *out, int64_t count) { return read_as(t, CT_BOOL, out, count); }

double ct_item(const ct_tensor *t) {
    if (!t) return (double)NAN;
    if (t->numel != 1) {
        ct_fail(t->context, CT_ERR_SHAPE, "item: %s does not have one element", SHAPE(t->shape));
        return (double)NAN;
    }
    double value;
    t->context->isa->of[t->dtype]->cast[CT_F64](1, t->data, &value);
    return value;
}
