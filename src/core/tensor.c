/* Handles and storages, copies between any two layouts, and reading values. */
#include "block_matrix.h"
#include "context.h"
#include "int_math.h"
#include "isa.h"
#include "message.h"
#include "strided_loop.h"
#include "../kernels/elementwise.h"

#include <math.h>
#include <string.h>

/* A storage and its data are one block. The data begin at byte STORAGE_HEADER. */
enum { STORAGE_HEADER = CTI_ALIGN };
_Static_assert(sizeof(cti_storage) <= STORAGE_HEADER, "the data begins behind the struct");

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

static inline cti_storage *storage_new(ct_context *context, size_t data_bytes) {
    size_t bytes = STORAGE_HEADER + data_bytes;
    cti_storage *storage = cti_take(context, bytes);
    if (storage)
        *storage =
            (cti_storage){.refs = 1, .data = (char *)storage + STORAGE_HEADER, .bytes = bytes};
    return storage;
}

/* Makes a handle of numel elements, which takes over the caller's reference to the storage. Sizes
 * are copied one by one: see cti_shape_same. */
static inline ct_tensor *handle(ct_context *context, cti_storage *storage, char *data,
                                ct_dtype dtype, const ct_shape *shape, int64_t numel,
                                const int64_t *stride) {
    ct_tensor *tensor = cti_handle_take(context);
    if (!tensor) {
        cti_storage_unref(context, storage);
        return NULL;
    }
    tensor->context = context;
    tensor->self = tensor;
    tensor->storage = storage;
    tensor->data = data;
    tensor->slot = NULL;
    tensor->numel = numel;
    tensor->shape.ndim = shape->ndim;
    int64_t step = 1;
    for (int d = shape->ndim - 1; d >= 0; d--) {
        const int64_t size = shape->dim[d];
        tensor->shape.dim[d] = size;
        tensor->stride[d] = stride ? stride[d] : step;
        step *= size ? size : 1;
    }
    tensor->maker = context->op;
    tensor->dtype = dtype;
    tensor->contiguous = !cti_is_blocks(dtype) && (!stride || is_dense(tensor));
    tensor->frozen = false;
    tensor->thaws = false;
    tensor->parameter = 0;
    CTI_ASSERT(cti_tensor_is_inside(tensor));
    cti_tensor_own(context->frame, tensor);
    return tensor;
}

static ct_tensor *blocks_new(ct_context *context, ct_dtype dtype, const ct_shape *shape) {
    if (!cti_block_shape_check(context, context->op, dtype, shape)) return NULL;
    const int64_t numel = cti_shape_numel(*shape);
    cti_storage *storage = storage_new(context, (size_t)cti_dtype_bytes(dtype, numel));
    return storage ? handle(context, storage, storage->data, dtype, shape, numel, NULL) : NULL;
}

ct_tensor *cti_tensor_of(ct_context *context, ct_dtype dtype, const ct_shape *shape) {
    const size_t size = cti_dtype_size(dtype);
    int64_t numel;
    if (size == 0) return blocks_new(context, dtype, shape);
    if (!cti_shape_fits(context, context->op, shape, size, &numel)) return NULL;
    cti_storage *storage = storage_new(context, (size_t)numel * size);
    return storage ? handle(context, storage, storage->data, dtype, shape, numel, NULL) : NULL;
}

ct_tensor *cti_tensor_new(ct_context *context, ct_dtype dtype, ct_shape shape) {
    return cti_tensor_of(context, dtype, &shape);
}

ct_tensor *cti_tensor_view(ct_tensor *of, char *data, ct_shape shape, const int64_t *stride) {
    int64_t numel;
    CTI_ASSERT(of->storage && of->storage->refs > 0);
    if (!cti_shape_fits(of->context, of->context->op, &shape, cti_dtype_size(of->dtype), &numel))
        return NULL;
    of->storage->refs++;
    return handle(of->context, of->storage, data, of->dtype, &shape, numel, stride);
}

ct_tensor *ct_wrap(ct_context *context, ct_dtype dtype, ct_shape shape, const int64_t *strides,
                   void *data) {
    if (!cti_ready(context) || !cti_dtype_check(context, "wrap", dtype)) return NULL;
    size_t size = cti_dtype_size(dtype);
    int64_t numel;
    if (!cti_shape_fits(context, "wrap", &shape, size, &numel)) return NULL;
    if (!data && numel)
        return ct_fail(context, CT_ERR_ARGUMENT, "wrap: data is NULL for %s", SHAPE(shape));
    if ((uintptr_t)data % size)
        return ct_fail(context, CT_ERR_ARGUMENT, "wrap: data is not aligned for %s",
                       cti_dtype_name(dtype));
    int64_t step[CT_MAX_DIMS];
    uint64_t reach = 1, bytes; /* reach is size * |stride| of dim d + 1 */
    for (int d = shape.ndim - 1; strides && d >= 0; d--) {
        /* The stride of a dim of size 1 has no meaning, but a product with it could overflow. */
        step[d] = shape.dim[d] > 1 ? strides[d] : (int64_t)reach;
        const uint64_t stride = step[d] < 0 ? 0 - (uint64_t)step[d] : (uint64_t)step[d];
        if (__builtin_mul_overflow((uint64_t)shape.dim[d], stride, &reach) ||
            __builtin_mul_overflow(reach, size, &bytes) || bytes > CTI_MOST_BYTES)
            return ct_fail(context, CT_ERR_MEMORY, "wrap: the stride %lld of dim %d overflows",
                           (long long)strides[d], d);
    }
    cti_storage *storage = storage_new(context, 0);
    if (!storage) return NULL;
    storage->data = data;
    ct_tensor *tensor = handle(context, storage, data, dtype, &shape, numel, strides ? step : NULL);
    if (tensor) tensor->maker = "wrap";
    return tensor;
}

void cti_tensor_free(ct_tensor *tensor) {
    cti_tensor_disown(tensor);
    if (tensor->slot) cti_grad_slot_disown(tensor->slot);
    cti_storage_unref(tensor->context, tensor->storage);
    cti_handle_give(tensor->context, tensor);
}

/* Whether a tensor is an input or a saved tensor of this running op. */
static bool is_used_by(const cti_running *running, const ct_tensor *tensor) {
    const ct_call *call = running->call;
    bool used = false;
    for (int i = 0; i < running->n; i++)
        used |= running->given[i] == tensor || (call && call->in[i] == tensor);
    for (int k = 0; call && k < 4; k++) used |= call->saved[k] == tensor;
    return used;
}

/* Does the work of cti_tensor_end while a forward is running. It is a function of its own, not
 * inlined, so that cti_tensor_end is short. */
__attribute__((noinline)) static void end_in_forward(ct_tensor *tensor) {
    cti_frame *frame = NULL; /* the frame of the outermost op that uses the tensor */
    for (const cti_running *running = tensor->context->running; running; running = running->outer)
        if (is_used_by(running, tensor)) frame = running->frame;
    if (!frame) {
        cti_tensor_free(tensor);
        return;
    }
    cti_tensor_disown(tensor);
    cti_tensor_own(frame, tensor);
}

void cti_tensor_end(ct_tensor *tensor) {
    if (tensor->context->running) end_in_forward(tensor);
    else cti_tensor_free(tensor);
}

void cti_tensor_refuse_in(ct_context *context, const ct_tensor *t, const char *op,
                          const char *name) {
    const bool debug = cti_handle_context(t)->debug;
    cti_handle_context(t)->ended_uses += t->self != t;
    if (t->self == t) ct_fail(context, CT_ERR_ARGUMENT, "%s: tensors of different contexts", op);
    else if (debug && t->self == cti_handle_ended(t))
        ct_fail(context, CT_ERR_ARGUMENT,
                "%s: a tensor %s made by %s has ended: its scope was closed, or it was released",
                op, SHAPE(t->shape), t->maker ? t->maker : "the library");
    else
        ct_fail(context, CT_ERR_ARGUMENT,
                "%s: %s has ended: its scope was closed, or it was released; CT_DEBUG=1 says what "
                "made it",
                op, name);
}

bool cti_tensor_refuse(const ct_tensor *t, const char *op) {
    ct_context *c = cti_handle_context(t);
    if (t->self == t)
        ct_fail(c, CT_ERR_GRAD,
                "%s: the values of a tensor %s were not kept for the backward of %s, which drops "
                "them",
                op, SHAPE(t->shape), c->backward ? c->backward : "an op");
    else cti_tensor_refuse_in(c, t, op, "the tensor");
    return false;
}

bool cti_tensor_no_blocks(const ct_tensor *t, const char *op) {
    return !cti_is_blocks(t->dtype) ||
           ct_fail(t->context, CT_ERR_DTYPE, "%s: does not take %s", op, cti_dtype_name(t->dtype));
}

bool cti_tensor_not_in(const ct_tensor *tensor, ct_context *context, const char *op) {
    cti_tensor_refuse_in(context, tensor, op, "the tensor");
    cti_tensor_refuse_in(cti_handle_context(tensor), tensor, op, "the tensor");
    return false;
}

ct_context *cti_tensors_context(ct_tensor *const *tensors, int n) {
    int first = 0;
    while (tensors && first < n && !tensors[first]) first++;
    return tensors && first < n ? cti_handle_context(tensors[first]) : NULL;
}

bool cti_tensors_in(ct_tensor *const *tensors, int n, ct_context *context, const char *op) {
    int bad = 0;
    while (bad < n && (!tensors[bad] || cti_tensor_is_of(tensors[bad], context))) bad++;
    if (bad == n) return true;
    char name[24];
    snprintf(name, sizeof name, "input %d", bad);
    cti_tensor_refuse_in(context, tensors[bad], op, name);
    for (int i = 0; i < n; i++)
        if (tensors[i])
            cti_tensor_refuse_in(cti_handle_context(tensors[i]), tensors[bad], op, name);
    return false;
}

bool cti_tensor_is_sole(const ct_tensor *tensor) {
    const cti_storage *storage = tensor->storage;
    return tensor->contiguous && storage->refs == 1 &&
           storage->data == (const char *)storage + STORAGE_HEADER;
}

void cti_tensor_exchange(ct_tensor *a, ct_tensor *b) {
    CTI_ASSERT(a->contiguous || cti_is_blocks(a->dtype));
    CTI_ASSERT(b->contiguous || cti_is_blocks(b->dtype));
    CTI_ASSERT(cti_shape_same(&a->shape, &b->shape));
    cti_storage *storage = a->storage;
    char *data = a->data;
    const ct_dtype dtype = a->dtype;
    a->storage = b->storage, a->data = b->data, a->dtype = b->dtype;
    b->storage = storage, b->data = data, b->dtype = dtype;
    a->contiguous = !cti_is_blocks(a->dtype), b->contiguous = !cti_is_blocks(b->dtype);
}

/* ---- copying ---- */

/* If the strided loop over both tensors has no dims besides the row, a copy goes by ranges of the
 * row. Otherwise it goes by blocks of rows along the last of the other dims, and copy2d copies a
 * block cache line by cache line. */

enum { COPY_TO, COPY_FROM };

typedef struct {
    cti_strided_loop loop;
    char *to;
    const char *from;
    int64_t size;
    const cti_kernels *kernels;
    bool add;
} copy;

/* Copies m rows of n elements, from element i on. */
static void copy_block(const copy *c, int64_t i, int64_t m, int64_t n) {
    static const int64_t none[CTI_STRIDED_MOST];
    const cti_strided_loop *loop = &c->loop;
    const int64_t *row = loop->ndim ? loop->stride[loop->ndim - 1] : none;
    int64_t at[CTI_STRIDED_MOST];
    cti_strided_loop_at(loop, i, at);
    c->kernels->elementwise->copy2d(m, n, c->from + at[COPY_FROM] * c->size, row[COPY_FROM],
                                    loop->step[COPY_FROM], c->to + at[COPY_TO] * c->size,
                                    row[COPY_TO], loop->step[COPY_TO], c->add);
}

static void copy_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    copy_block(arg, begin, 1, end - begin);
}

static void copy_row_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const cti_strided_loop *loop = &((copy *)arg)->loop;
    int64_t rows = loop->dim[loop->ndim - 1]; /* the rows of a block */
    while (begin < end) {
        const int64_t m = cti_min(rows - begin % rows, end - begin);
        copy_block(arg, begin * loop->n, m, loop->n);
        begin += m;
    }
}

void cti_tensor_copy(ct_tensor *to, const ct_tensor *from, bool add) {
    /* A chunk has 64 rows or more, so that a transpose reads whole cache lines. */
    enum { CHUNK = 16384, ROWS = 64 };
    CTI_ASSERT(to->dtype == from->dtype && cti_shape_broadcasts_to(from->shape, to->shape));
    if (to->numel == 0) return;
    if (cti_is_blocks(to->dtype)) {
        CTI_ASSERT(!add);
        cti_block_matrix_cast(to, from);
        return;
    }
    ct_context *context = to->context;
    copy c = {.to = to->data,
              .from = from->data,
              .size = (int64_t)cti_dtype_size(to->dtype),
              .kernels = context->isa->of[to->dtype],
              .add = add};
    cti_strided_loop_over(&c.loop, to->shape, 2,
                          (const ct_tensor *const[]){[COPY_TO] = to, [COPY_FROM] = from});
    int64_t n = c.loop.n;
    if (c.loop.ndim == 0) cti_parallel(context, n, CHUNK, copy_range, &c);
    else cti_parallel(context, to->numel / n, cti_max(CHUNK / n, ROWS), copy_row_range, &c);
}

ct_tensor *cti_tensor_dense(ct_tensor *tensor) {
    if (tensor->contiguous) return tensor;
    CTI_ASSERT(!cti_is_blocks(tensor->dtype));
    ct_tensor *dense = cti_tensor_new(tensor->context, tensor->dtype, tensor->shape);
    if (dense) cti_tensor_copy(dense, tensor, false);
    return dense;
}

/* ---- reading ---- */

ct_context *ct_context_of(const ct_tensor *t) { return t ? cti_handle_context(t) : NULL; }
ct_dtype ct_dtype_of(const ct_tensor *t) {
    return t && cti_tensor_is_open(t, "dtype_of") ? t->dtype : CT_F32;
}
ct_shape ct_shape_of(const ct_tensor *t) {
    return t && cti_tensor_is_open(t, "shape_of") ? t->shape : CT_SCALAR;
}
int ct_ndim(const ct_tensor *t) { return t && cti_tensor_is_open(t, "ndim") ? t->shape.ndim : 0; }
int64_t ct_numel(const ct_tensor *t) { return t && cti_tensor_is_open(t, "numel") ? t->numel : 0; }

int64_t ct_dim(const ct_tensor *t, int dim) {
    int d = t && cti_tensor_is_open(t, "dim") ? cti_dim_index(t->context, "dim", dim, t->shape.ndim)
                                              : -1;
    return d < 0 ? -1 : t->shape.dim[d];
}

/* Moves the pending error to the context's data_copies, and returns a dense copy of this dtype. */
static void *data_of_copy(ct_tensor *t, ct_dtype dtype) {
    ct_context *context = t->context;
    cti_data_copies *copies = context->data_copies;
    if (!*copies->message)
        cti_text_shorten(copies->message, sizeof copies->message - 1, context->message,
                         strlen(context->message));
    ct_error_clear(context);
    for (int i = 0; i < CTI_DATA_COPIES; i++) {
        ct_tensor *made = copies->made[i].copy;
        if (made && copies->made[i].of == t && copies->made[i].data == t->data &&
            made->dtype == dtype && cti_shape_same(&made->shape, &t->shape))
            return made->data;
    }
    ct_tensor *dense = cti_tensor_dense(t),
              *fresh = dense ? cti_tensor_new(context, dtype, t->shape) : NULL;
    if (!fresh) return NULL;
    context->isa->of[t->dtype]->elementwise->cast[dtype](t->numel, dense->data, fresh->data);
    cti_tensor_lift(fresh, copies->frame);
    const int at = copies->count++ % CTI_DATA_COPIES;
    copies->made[at].of = t, copies->made[at].data = t->data, copies->made[at].copy = fresh;
    return fresh->data;
}

static void *typed_data(ct_tensor *t, ct_dtype dtype) {
    if (!t || !cti_tensor_has_values(t, "data")) return NULL;
    if (t->dtype == dtype && t->contiguous) return t->data;
    const bool first = cti_ready(t->context);
    if (t->dtype != dtype)
        ct_fail(t->context, CT_ERR_DTYPE, "data_%s: the tensor is %s", cti_dtype_name(dtype),
                cti_dtype_name(t->dtype));
    else
        ct_fail(t->context, CT_ERR_ARGUMENT,
                "data_%s: %s is not contiguous; take ct_contiguous of it", cti_dtype_name(dtype),
                SHAPE(t->shape));
    const bool copies = first && !cti_is_blocks(t->dtype) && t->context->data_copies;
    return copies ? data_of_copy(t, dtype) : NULL;
}

float *ct_data_f32(ct_tensor *t) { return typed_data(t, CT_F32); }
double *ct_data_f64(ct_tensor *t) { return typed_data(t, CT_F64); }
int64_t *ct_data_i64(ct_tensor *t) { return typed_data(t, CT_I64); }
bool *ct_data_bool(ct_tensor *t) { return typed_data(t, CT_BOOL); }
uint16_t *ct_data_bf16(ct_tensor *t) { return typed_data(t, CT_BF16); }

void ct_wrote(ct_tensor *t) {
    if (t && cti_tensor_has_values(t, "wrote")) cti_tensor_wrote(t);
}

/* Does the work of the function below for blocks, row by row. */
static bool read_blocks_as(const ct_tensor *t, ct_dtype dtype, void *out) {
    enum { CHUNK = 256 };
    float wide[CHUNK];
    const int64_t cols = t->shape.dim[1], size = (int64_t)cti_dtype_size(dtype);
    if (!cti_is_real(dtype))
        return ct_fail(t->context, CT_ERR_DTYPE, "to_%s: does not take %s", cti_dtype_name(dtype),
                       cti_dtype_name(t->dtype));
    for (int64_t i = 0, n; i < t->numel; i += n) {
        n = cti_min(cols - i % cols, CHUNK);
        cti_block_row_widen(t, i / cols, i % cols, n, wide);
        t->context->isa->of[CT_F32]->elementwise->cast[dtype](n, wide, (char *)out + i * size);
    }
    return true;
}

/* Copies the values. Strided rows go through a small buffer on the stack, because reading must not
 * fail if memory is short. */
static bool read_values_as(const ct_tensor *t, ct_dtype dtype, void *out, int64_t count) {
    if (!t || !cti_tensor_has_values(t, "to")) return false;
    if (count != t->numel || (count && !out)) {
        ct_fail(t->context, CT_ERR_ARGUMENT, "to_%s: %s into %s of %lld elements",
                cti_dtype_name(dtype), SHAPE(t->shape), out ? "an array" : "NULL",
                (long long)count);
        return false;
    }
    if (cti_is_blocks(t->dtype)) return read_blocks_as(t, dtype, out);
    if (count == 0) return true;
    enum { CHUNK = 256 };
    int64_t buffer[CHUNK], size = (int64_t)cti_dtype_size(t->dtype),
                           out_size = (int64_t)cti_dtype_size(dtype);
    const cti_kernels *kernels = t->context->isa->of[t->dtype];
    if (t->contiguous) {
        kernels->elementwise->cast[dtype](count, t->data, out);
        return true;
    }
    int last = t->shape.ndim - 1;
    int64_t n = t->shape.dim[last], stride = t->stride[last];
    for (int64_t row = 0; row < count / n; row++) {
        int64_t offset = 0, index = row;
        for (int d = last - 1; d >= 0; d--) {
            offset += index % t->shape.dim[d] * t->stride[d];
            index /= t->shape.dim[d];
        }
        for (int64_t i = 0; i < n; i += CHUNK) {
            const int64_t m = cti_min(n - i, CHUNK);
            kernels->elementwise->copy2d(1, m, t->data + (offset + i * stride) * size, 0, stride,
                                         buffer, 0, 1, false);
            kernels->elementwise->cast[dtype](m, buffer, (char *)out + (row * n + i) * out_size);
        }
    }
    return true;
}

bool ct_to_f32(const ct_tensor *t, float *out, int64_t count) {
    return read_values_as(t, CT_F32, out, count);
}
bool ct_to_f64(const ct_tensor *t, double *out, int64_t count) {
    return read_values_as(t, CT_F64, out, count);
}
bool ct_to_i64(const ct_tensor *t, int64_t *out, int64_t count) {
    return read_values_as(t, CT_I64, out, count);
}
bool ct_to_bool(const ct_tensor *t, bool *out, int64_t count) {
    return read_values_as(t, CT_BOOL, out, count);
}

double ct_item(const ct_tensor *t) {
    if (!t || !cti_tensor_has_values(t, "item")) return (double)NAN;
    if (cti_is_blocks(t->dtype)) {
        ct_fail(t->context, CT_ERR_DTYPE, "item: does not take %s", cti_dtype_name(t->dtype));
        return (double)NAN;
    }
    if (t->numel != 1) {
        ct_fail(t->context, CT_ERR_SHAPE, "item: %s does not have one element", SHAPE(t->shape));
        return (double)NAN;
    }
    double value;
    t->context->isa->of[t->dtype]->elementwise->cast[CT_F64](1, t->data, &value);
    return value;
}
