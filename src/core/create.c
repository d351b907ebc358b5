/* New tensors: undefined, filled with one value, a range, random, or copied from an array. */
#include "context.h"
#include "isa.h"
#include "../kernels/elementwise.h"
#include "../kernels/random.h"

#include <math.h>
#include <string.h>

static ct_tensor *create(ct_context *context, const char *op, ct_dtype dtype, ct_shape shape) {
    if (!cti_ready(context) || !cti_dtype_check(context, op, dtype)) return NULL;
    if (!cti_context_enter(context)) return NULL;
    const char *outer = context->op;
    context->op = op;
    ct_tensor *tensor = cti_tensor_new(context, dtype, shape);
    context->op = outer;
    cti_context_leave(context);
    return tensor;
}

static ct_tensor *filled(ct_context *context, const char *op, ct_dtype dtype, ct_shape shape,
                         double value) {
    ct_tensor *tensor = create(context, op, dtype, shape);
    if (tensor) context->isa->of[dtype]->elementwise->fill(tensor->numel, value, tensor->data);
    return tensor;
}

ct_tensor *ct_empty(ct_context *context, ct_dtype dtype, ct_shape shape) {
    return create(context, "empty", dtype, shape);
}
ct_tensor *ct_zeros(ct_context *context, ct_dtype dtype, ct_shape shape) {
    return filled(context, "zeros", dtype, shape, 0);
}
ct_tensor *ct_ones(ct_context *context, ct_dtype dtype, ct_shape shape) {
    return filled(context, "ones", dtype, shape, 1);
}
ct_tensor *ct_full(ct_context *context, ct_dtype dtype, ct_shape shape, double value) {
    return filled(context, "full", dtype, shape, value);
}

ct_tensor *ct_arange(ct_context *context, ct_dtype dtype, double start, double end, double step) {
    if (!cti_ready(context) || !cti_dtype_check(context, "arange", dtype)) return NULL;
    if (dtype == CT_BOOL || dtype == CT_BF16)
        return ct_fail(context, CT_ERR_DTYPE, "arange: does not take %s", cti_dtype_name(dtype));
    if (!isfinite(start) || !isfinite(end) || !isfinite(step) || step == 0 ||
        (step > 0 ? end < start : end > start))
        return ct_fail(context, CT_ERR_ARGUMENT, "arange: no way from %g to %g in steps of %g",
                       start, end, step);
    const double length = end - start, /* may overflow to infinity */
        steps = isinf(length) ? 2 * ((end / 2 - start / 2) / step) : length / step;
    /* Unless start is end, the result has `start`, even if the quotient underflows to 0. */
    const double count = start == end ? 0 : fmax(1, ceil(steps));
    if (!(count < 0x1p53)) return ct_fail(context, CT_ERR_MEMORY, "arange: %g elements", count);
    ct_tensor *tensor = create(context, "arange", dtype, CT_SHAPE((int64_t)count));
    if (tensor)
        context->isa->of[dtype]->elementwise->arange(tensor->numel, 0, start, step, tensor->data);
    return tensor;
}

typedef struct {
    ct_tensor *tensor;
    cti_random random;
    bool normal;
} create_fill;

static void draw_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const create_fill *d = arg;
    const cti_kernels *k = d->tensor->context->isa->of[d->tensor->dtype];
    void *y = d->tensor->data + begin * (int64_t)cti_dtype_size(d->tensor->dtype);
    if (d->normal) k->random->normal(end - begin, begin, d->random, 0, 1, y);
    else k->random->uniform(end - begin, begin, d->random, 0, 1, y);
}

static ct_tensor *drawn(ct_context *context, const char *op, ct_dtype dtype, ct_shape shape,
                        bool normal) {
    if (!cti_ready(context) || !cti_dtype_check(context, op, dtype)) return NULL;
    if (!cti_is_real(dtype))
        return ct_fail(context, CT_ERR_DTYPE, "%s: does not take %s", op, cti_dtype_name(dtype));
    ct_tensor *tensor = create(context, op, dtype, shape);
    if (!tensor) return NULL;
    ct_rng rng = cti_rng_next(context);
    create_fill d = {.tensor = tensor, .random = {rng.seed, rng.stream}, .normal = normal};
    cti_parallel(context, tensor->numel, 4096, draw_range, &d);
    return tensor;
}

ct_tensor *ct_rand(ct_context *context, ct_dtype dtype, ct_shape shape) {
    return drawn(context, "rand", dtype, shape, false);
}
ct_tensor *ct_randn(ct_context *context, ct_dtype dtype, ct_shape shape) {
    return drawn(context, "randn", dtype, shape, true);
}

static ct_tensor *from(ct_context *context, const char *op, ct_dtype dtype, ct_shape shape,
                       const void *data) {
    ct_tensor *tensor = create(context, op, dtype, shape);
    if (!tensor || tensor->numel == 0) return tensor;
    if (data) {
        memcpy(tensor->data, data, (size_t)tensor->numel * cti_dtype_size(dtype));
        return tensor;
    }
    ct_release(tensor);
    return ct_fail(context, CT_ERR_ARGUMENT, "%s: data is NULL for %s", op, SHAPE(shape));
}

ct_tensor *ct_from_f32(ct_context *context, ct_shape shape, const float *data) {
    return from(context, "from_f32", CT_F32, shape, data);
}
ct_tensor *ct_from_f64(ct_context *context, ct_shape shape, const double *data) {
    return from(context, "from_f64", CT_F64, shape, data);
}
ct_tensor *ct_from_i64(ct_context *context, ct_shape shape, const int64_t *data) {
    return from(context, "from_i64", CT_I64, shape, data);
}
ct_tensor *ct_from_bool(ct_context *context, ct_shape shape, const bool *data) {
    return from(context, "from_bool", CT_BOOL, shape, data);
}
