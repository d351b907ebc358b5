/* Updates of a tensor of any strides: checks, whether two tensors overlap, and the loop over their
 * rows. */
#include "../support/op.h"
#include "../../src/core/isa.h"
#include "into.h"

#include "../../src/core/int_math.h"
#include "../../src/core/strided_loop.h"

#include <math.h>

/* ---- checks ---- */

static uint64_t step_of(const ct_tensor *t, int d) {
    return t->stride[d] < 0 ? 0 - (uint64_t)t->stride[d] : (uint64_t)t->stride[d];
}

/* Whether the stride of each dim is larger than all that the dims with smaller strides reach. Then
 * no two elements have the same address. This is the test of torch's as_strided: it is false for
 * some layouts whose elements are apart, which are interleaved. */
static bool strides_are_nested(const ct_tensor *t) {
    const ct_shape *shape = &t->shape;
    for (int d = 0; d < shape->ndim && t->numel; d++) {
        uint64_t reach = 0;
        for (int e = 0; e < shape->ndim; e++)
            if (e != d && step_of(t, e) <= step_of(t, d))
                reach += (uint64_t)(shape->dim[e] - 1) * step_of(t, e);
        if (shape->dim[d] > 1 && step_of(t, d) <= reach) return false;
    }
    return true;
}

static bool has_an_address_each(const ct_tensor *to, const char *name) {
    if (to->contiguous || strides_are_nested(to)) return true;
    return ct_fail(to->context, CT_ERR_ARGUMENT,
                   "%s: elements of %s share memory, as in an expanded tensor, or are interleaved",
                   name, SHAPE(to->shape));
}

bool cti_op_writes(ct_tensor *to, const char *name) {
    return cti_tensor_ready(to, name) && cti_tensor_has_values(to, name) &&
           cti_tensor_no_blocks(to, name) && has_an_address_each(to, name);
}

bool cti_op_writes_from(ct_tensor *to, const ct_tensor *from, const char *name) {
    ct_tensor *const given[] = {to, (ct_tensor *)from};
    ct_context *context = cti_tensors_context(given, 2);
    if (context && !cti_tensors_in(given, 2, context, name)) return false;
    if (!to || !from)
        return context &&
               ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL", name, to ? "from" : "to");
    if (!cti_tensor_has_values(to, name) || !cti_ready(context) ||
        !cti_tensor_has_values(from, name))
        return false;
    if (!cti_tensor_no_blocks(to, name) || !cti_tensor_no_blocks(from, name)) return false;
    if (!cti_shape_broadcasts_to(from->shape, to->shape))
        return ct_fail(context, CT_ERR_SHAPE, "%s: %s does not broadcast to %s", name,
                       SHAPE(from->shape), SHAPE(to->shape));
    return has_an_address_each(to, name);
}

bool cti_op_computes_into(const ct_tensor *to, double number, const char *name) {
    if (!cti_is_real(to->dtype) && to->dtype != CT_BF16)
        return ct_fail(to->context, CT_ERR_DTYPE, "%s: takes f32, f64 or bf16, not %s", name,
                       cti_dtype_name(to->dtype));
    return isfinite(number) ||
           ct_fail(to->context, CT_ERR_ARGUMENT, "%s: a factor of %g", name, number);
}

/* ---- overlap ---- */

/* Sets *low and *high so that all elements of t lie in the bytes [*low, *high). */
static void address_range(const ct_tensor *t, uintptr_t *low, uintptr_t *high) {
    const int64_t size = (int64_t)cti_dtype_size(t->dtype);
    *low = (uintptr_t)t->data;
    *high = *low + (uintptr_t)size;
    for (int d = 0; d < t->shape.ndim; d++) {
        const int64_t reach = (t->shape.dim[d] - 1) * t->stride[d] * size;
        *(reach < 0 ? low : high) += (uintptr_t)reach;
    }
}

bool cti_op_may_overlap(const ct_tensor *to, const ct_tensor *from) {
    uintptr_t low[2], high[2];
    if (!to->numel || !from->numel) return false;
    address_range(to, &low[0], &high[0]);
    address_range(from, &low[1], &high[1]);
    return low[0] < high[1] && low[1] < high[0];
}

ct_tensor *cti_op_copy_of(const ct_tensor *t) {
    ct_tensor *copy = cti_tensor_new(t->context, t->dtype, t->shape);
    if (copy) cti_tensor_copy(copy, t, false);
    return copy;
}

/* ---- rows ---- */

enum { INTO_TO, INTO_FROM };

typedef struct {
    cti_strided_loop loop;
    cti_op_into_row *update;
    cti_op_row row; /* the row that begins with element 0 */
} into_args;

static void into_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const into_args *a = arg;
    cti_op_row row = a->row;
    while (begin < end) {
        int64_t at[CTI_STRIDED_MOST];
        cti_strided_loop_at(&a->loop, begin, at);
        row.n = cti_min(cti_strided_loop_left(&a->loop, begin), end - begin);
        row.to = (char *)a->row.to + at[INTO_TO] * row.size;
        if (row.from) row.from = (const char *)a->row.from + at[INTO_FROM] * row.size;
        a->update(&row);
        begin += row.n;
    }
}

/* The stride of t along a row of the loop, or 1 if a row has one element. */
static int64_t into_step(const ct_tensor *t, const ct_tensor *to) {
    cti_strided_loop loop;
    cti_strided_loop_over(&loop, to->shape, 1, &t);
    return loop.n == 1 ? 1 : loop.step[0];
}

/* If the rows of `to` are not dense it is copied, changed and copied back. */
bool cti_op_into_rows(ct_tensor *to, const ct_tensor *from, double w, cti_op_into_row *update) {
    if (to->numel == 0) return true;
    ct_tensor *values = into_step(to, to) == 1 ? to : cti_op_copy_of(to);
    if (!values) return false;
    if (from) {
        const int64_t step = into_step(from, to);
        if ((step != 0 && step != 1) || cti_op_may_overlap(to, from)) from = cti_op_copy_of(from);
        if (!from) return false;
    }
    into_args a = {.update = update,
                   .row = {.kernels = to->context->isa->of[to->dtype],
                           .size = (int64_t)cti_dtype_size(to->dtype),
                           .to = values->data,
                           .from = from ? from->data : NULL,
                           .w = w}};
    cti_strided_loop_over(&a.loop, to->shape, from ? 2 : 1,
                          (const ct_tensor *const[]){[INTO_TO] = values, [INTO_FROM] = from});
    a.row.step = from ? a.loop.step[INTO_FROM] : 0;
    cti_parallel(to->context, to->numel, cti_op_grain(1), into_range, &a);
    if (values != to) cti_tensor_copy(to, values, false);
    cti_tensor_wrote(to);
    return true;
}

bool cti_op_into_computed(ct_tensor *to, const ct_tensor *from, double w, cti_op_into_row *update) {
    const ct_dtype dtype = to->dtype == CT_BF16 ? CT_F32 : to->dtype;
    if (from && from->dtype != dtype) {
        from = ct_cast((ct_tensor *)from, dtype); /* only read */
        if (!from) return false;
    }
    if (to->dtype == dtype) return cti_op_into_rows(to, from, w, update);
    ct_tensor *values = ct_cast(to, dtype), *rounded = NULL;
    if (values && cti_op_into_rows(values, from, w, update)) rounded = ct_cast(values, to->dtype);
    if (!rounded) return false;
    cti_tensor_copy(to, rounded, false);
    cti_tensor_wrote(to);
    return true;
}

/* ---- the frame of an update ---- */

bool cti_op_update_open(ct_context *context, cti_op_update *update, const char *name) {
    if (!cti_context_enter(context)) return false;
    update->outer = context->op;
    context->op = name;
    cti_frame_open(context, &update->frame, true);
    cti_update_begin(context, &update->span, name);
    return true;
}

void cti_op_update_close(ct_context *context, cti_op_update *update, int64_t bytes) {
    cti_update_end(context, &update->span, bytes);
    cti_frame_close(context, &update->frame);
    context->op = update->outer;
    cti_context_leave(context);
}
