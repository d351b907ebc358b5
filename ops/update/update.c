/* Checks before an update in place, and the loop over many tensors as one parallel job. */
#include "../support/op.h"
#include "update.h"

bool cti_op_updatable(ct_tensor *t, const char *name, bool real) {
    if (!t || !cti_tensor_has_values(t, name) || !cti_ready(t->context)) return false;
    if (real && !cti_is_real(t->dtype))
        return ct_fail(t->context, CT_ERR_DTYPE, "%s: takes f32 or f64, not %s", name,
                       cti_dtype_name(t->dtype));
    if (!t->contiguous)
        return ct_fail(t->context, CT_ERR_ARGUMENT, "%s: the tensor %s is not contiguous", name,
                       SHAPE(t->shape));
    return true;
}

/* Four of these for each parameter: one condition decides, and the checks below only say what is
 * wrong. */
static bool fits(const ct_tensor *t, const ct_tensor *u) {
    return u && u->self == u && u->context == t->context && u->storage && u->contiguous &&
           u->dtype == t->dtype && cti_shape_same(&u->shape, &t->shape);
}

bool cti_op_updates_with(ct_tensor *t, ct_tensor *u, const char *name) {
    if (fits(t, u)) return true;
    if (!u) return ct_fail(t->context, CT_ERR_ARGUMENT, "%s: a tensor is NULL", name);
    if (!cti_tensor_in(u, t->context, name)) return false;
    if (!cti_shape_equal(u->shape, t->shape))
        return ct_fail(t->context, CT_ERR_SHAPE, "%s: shapes differ: %s and %s", name,
                       SHAPE(t->shape), SHAPE(u->shape));
    if (u->dtype != t->dtype)
        return ct_fail(t->context, CT_ERR_DTYPE, "%s: dtypes differ: %s and %s", name,
                       cti_dtype_name(t->dtype), cti_dtype_name(u->dtype));
    return cti_op_updatable(u, name, false);
}

/* ---- from one tensor into another ---- */

/* Sorts the dims of more than one element by the distance of their elements: a dim whose distance
 * is more than all nearer ones reach has no address twice. A caller's strides (ct_wrap) that are
 * interleaved otherwise are refused too. */
static bool has_an_address_each(const ct_tensor *t) {
    int64_t distance[CT_MAX_DIMS], size[CT_MAX_DIMS], reach = 0;
    int n = 0;
    if (t->contiguous || t->numel <= 1) return true;
    for (int d = 0; d < t->shape.ndim; d++) {
        const int64_t step = t->stride[d] < 0 ? -t->stride[d] : t->stride[d];
        int at = n;
        if (t->shape.dim[d] == 1) continue;
        for (; at > 0 && distance[at - 1] > step; at--)
            distance[at] = distance[at - 1], size[at] = size[at - 1];
        distance[at] = step, size[at] = t->shape.dim[d];
        n++;
    }
    for (int i = 0; i < n; i++) {
        if (distance[i] <= reach) return false;
        reach += (size[i] - 1) * distance[i];
    }
    return true;
}

bool cti_op_writes_from(ct_tensor *to, const ct_tensor *from, const char *name) {
    ct_context *context = ct_context_of(to ? to : from);
    if (!to || !from)
        return context && ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL", name,
                                  to ? "from" : "to");
    if (!cti_tensor_has_values(to, name) || !cti_ready(context) ||
        !cti_tensor_in(from, context, name) || !cti_tensor_has_values(from, name))
        return false;
    if (!cti_shape_broadcasts_to(from->shape, to->shape))
        return ct_fail(context, CT_ERR_SHAPE, "%s: %s does not broadcast to %s", name,
                       SHAPE(from->shape), SHAPE(to->shape));
    if (!has_an_address_each(to))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: elements of %s share memory, as in an expanded tensor", name,
                       SHAPE(to->shape));
    return true;
}

/* The bytes from *low up to *high hold all elements. */
static void extent(const ct_tensor *t, uintptr_t *low, uintptr_t *high) {
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
    extent(to, &low[0], &high[0]);
    extent(from, &low[1], &high[1]);
    return low[0] < high[1] && low[1] < high[0];
}

ct_tensor *cti_op_copy_of(const ct_tensor *t) {
    ct_tensor *copy = cti_tensor_new(t->context, t->dtype, t->shape);
    if (copy) cti_tensor_copy(copy, t, false);
    return copy;
}

bool cti_op_update_open(ct_context *context, cti_op_update *update, const char *name) {
    if (!cti_enter(context)) return false;
    update->outer = context->op;
    context->op = name;
    cti_frame_open(context, &update->frame, true);
    return true;
}

void cti_op_update_close(ct_context *context, cti_op_update *update) {
    cti_frame_close(context, &update->frame);
    context->op = update->outer;
    cti_leave(context);
}

/* ---- checks of steps ---- */

bool cti_op_step_is_ready(const cti_op_step *s, int states, const char *name) {
    if (!cti_op_updatable(s->p, name, true) || !cti_op_updates_with(s->p, s->g, name)) return false;
    for (int i = 0; i < states; i++)
        if (!cti_op_updates_with(s->p, s->state[i], name)) return false;
    return true;
}

void cti_op_step_wrote(const cti_op_step *s, int states) {
    cti_tensor_wrote(s->p);
    for (int i = 0; i < states; i++) cti_tensor_wrote(s->state[i]);
}

/* ---- many tensors in one job, as a single bias is too small to be worth a thread ---- */

typedef struct {
    const cti_op_step *all;
    int64_t n, unit;
    cti_op_step_task *task;
    void *arg;
} row;

static int64_t units(int64_t count, int64_t unit) { return count / unit + (count % unit != 0); }

int64_t cti_op_step_units(const cti_op_step *all, int64_t n, int64_t unit) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += units(all[i].g->numel, unit);
    return sum;
}

/* The tensor that a unit belongs to: the last whose first unit is at most that one. Empty tensors
 * share their first unit with the next tensor, so the last is the one with elements. */
static int64_t step_at(const row *r, int64_t unit) {
    int64_t low = 0, high = r->n;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (r->all[middle].first <= unit) low = middle;
        else high = middle;
    }
    return low;
}

static void row_task(void *arg, int64_t begin, int64_t end, int worker) {
    const row *r = arg;
    (void)worker;
    for (int64_t i = step_at(r, begin), count; begin < end; i++, begin += units(count, r->unit)) {
        const cti_op_step *s = &r->all[i];
        const int64_t at = (begin - s->first) * r->unit, left = s->g->numel - at,
                      most = (end - begin) * r->unit;
        count = left < most ? left : most;
        if (count > 0) r->task(r->arg, s, begin, at, count);
    }
}

void cti_op_step_all(cti_op_step *all, int64_t n, int64_t unit, int64_t grain,
                     cti_op_step_task *task, void *arg) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        all[i].first = sum;
        sum += units(all[i].g->numel, unit);
    }
    if (sum < grain + grain / 2)
        grain = sum; /* less than half a piece more is not worth another thread */
    if (sum > 0)
        cti_parallel(all[0].g->context, sum, grain, row_task, &(row){all, n, unit, task, arg});
}
