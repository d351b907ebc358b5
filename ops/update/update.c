/* Checks before an update in place, and the loop over many tensors as one parallel job. */
#include "../../src/core/profile.h"
#include "../support/op.h"
#include "update.h"
#include "../../src/kernels/elementwise.h"

#include <string.h>

bool cti_op_updatable(ct_tensor *t, const char *name, bool real) {
    if (!t || !cti_tensor_has_values(t, name) || !cti_ready(t->context)) return false;
    if (real && !cti_is_real(t->dtype))
        return ct_fail(t->context, CT_ERR_DTYPE, "%s: takes f32 or f64, not %s", name,
                       cti_dtype_name(t->dtype));
    if (!cti_tensor_no_blocks(t, name)) return false;
    if (!t->contiguous)
        return ct_fail(t->context, CT_ERR_ARGUMENT, "%s: the tensor %s is not contiguous", name,
                       SHAPE(t->shape));
    return true;
}

/* A step calls this four times for each parameter. So one condition decides whether anything is
 * wrong, and the checks below only find out what it is. */
static bool update_fits(const ct_tensor *t, const ct_tensor *u, bool state) {
    return u && u->self == u && u->context == t->context && u->storage && u->contiguous &&
           (u->dtype == t->dtype || (state && u->dtype == CT_BF16)) &&
           cti_shape_same(&u->shape, &t->shape);
}

/* Returns whether u, the gradient or a state, is contiguous and has t's context, shape and dtype; a
 * state may be bf16. If not, records the error. */
static bool updates_with(ct_tensor *t, ct_tensor *u, bool state, const char *name) {
    if (update_fits(t, u, state)) return true;
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

bool cti_op_step_is_ready(const ct_optim_item *item, int states, const char *name) {
    if (!cti_op_updatable(item->param, name, true) ||
        !updates_with(item->param, item->grad, false, name))
        return false;
    for (int i = 0; i < states; i++)
        if (!updates_with(item->param, item->state[i], true, name)) return false;
    return true;
}

void cti_op_step_wrote(const ct_optim_item *item, int states) {
    cti_tensor_wrote(item->param);
    for (int i = 0; i < states; i++) cti_tensor_wrote(item->state[i]);
}

/* ---- states of bf16 ---- */

void cti_op_step_elements(const ct_optim_item *item, int states, int64_t at, int64_t count,
                          cti_op_step_kernel *kernel, const void *numbers) {
    enum { PIECE = 512 };
    double room[CTI_OP_STEP_STATES][PIECE];
    const ct_tensor *p = item->param;
    const cti_isa *isa = p->context->isa;
    const cti_elementwise_kernels *k = isa->of[p->dtype]->elementwise;
    const int64_t size = (int64_t)cti_dtype_size(p->dtype), end = at + count;
    const bool rounds = states && item->state[0]->dtype != p->dtype;
    for (int64_t n; at < end; at += n) {
        void *state[CTI_OP_STEP_STATES] = {NULL};
        n = rounds && end - at > PIECE ? PIECE : end - at;
        for (int i = 0; i < states; i++) {
            const ct_tensor *s = item->state[i];
            state[i] = rounds ? (void *)room[i] : s->data + at * size;
            if (rounds)
                isa->of[CT_BF16]->elementwise->cast[p->dtype](
                    n, s->data + at * (int64_t)sizeof(uint16_t), state[i]);
        }
        kernel(k, n, p->data + at * size, item->grad->data + at * size, state, numbers);
        for (int i = 0; rounds && i < states; i++)
            k->round(n, state[i], item->element + at, item->step,
                     item->state[i]->data + at * (int64_t)sizeof(uint16_t));
    }
}

typedef struct {
    ct_tensor *state;
    const ct_tensor *wide;
    int64_t element, step;
} round_state;

static void round_task(void *arg, int64_t begin, int64_t end, int worker) {
    const round_state *r = arg;
    const ct_tensor *wide = r->wide;
    (void)worker;
    wide->context->isa->of[wide->dtype]->elementwise->round(
        end - begin, wide->data + begin * (int64_t)cti_dtype_size(wide->dtype), r->element + begin,
        r->step, r->state->data + begin * (int64_t)sizeof(uint16_t));
}

void cti_op_round_state(ct_tensor *state, const ct_tensor *wide, int64_t element, int64_t step) {
    CTI_ASSERT(state->contiguous && wide->contiguous && state->numel == wide->numel);
    cti_parallel(state->context, state->numel, cti_op_grain(1), round_task,
                 &(round_state){state, wide, element, step});
    cti_tensor_wrote(state);
}

/* ---- many tensors in one job, because a single bias is too small to be worth a thread ---- */

typedef struct {
    const ct_optim_item *all;
    int64_t n;
    const cti_op_step_job *job;
} step_row;

static int64_t units_of(int64_t count, int64_t unit) { return count / unit + (count % unit != 0); }

/* The place in an item's `work` of the number of its first unit, an int64_t. */
enum { FIRST_UNIT = 3 };
static int64_t first_unit(const ct_optim_item *item) {
    int64_t unit;
    memcpy(&unit, &item->work[FIRST_UNIT], sizeof unit);
    return unit;
}

int64_t cti_op_step_units(const ct_optim_item *all, int64_t n, int64_t unit) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += units_of(all[i].grad->numel, unit);
    return sum;
}

/* Returns the tensor to which a unit belongs: the last one whose first unit is at most this unit.
 * Empty tensors have the same first unit as the next tensor, so the last one has elements. */
static int64_t step_at(const step_row *r, int64_t unit) {
    int64_t low = 0, high = r->n;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (first_unit(&r->all[middle]) <= unit) low = middle;
        else high = middle;
    }
    return low;
}

static void step_row_task(void *arg, int64_t begin, int64_t end, int worker) {
    const step_row *r = arg;
    (void)worker;
    for (int64_t i = step_at(r, begin), count; begin < end;
         i++, begin += units_of(count, r->job->unit)) {
        const ct_optim_item *item = &r->all[i];
        CTI_ASSERT(i < r->n && begin >= first_unit(item));
        const int64_t at = (begin - first_unit(item)) * r->job->unit, left = item->grad->numel - at,
                      most = (end - begin) * r->job->unit;
        count = left < most ? left : most;
        if (count > 0) r->job->task(r->job->arg, item, begin, at, count);
    }
}

static int64_t step_bytes(const ct_optim_item *all, int64_t n) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < n; i++) bytes += cti_profile_bytes(all[i].grad);
    return bytes;
}

void cti_op_step_all(ct_optim_item *all, int64_t n, cti_op_step_job job) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&all[i].work[FIRST_UNIT], &sum, sizeof sum);
        sum += units_of(all[i].grad->numel, job.unit);
    }
    if (sum < job.grain + job.grain / 2)
        job.grain = sum; /* less than half a chunk more is not worth another thread */
    if (sum == 0) return;
    ct_context *context = all[0].grad->context;
    cti_span span;
    cti_update_begin(context, &span, job.name);
    cti_parallel(context, sum, job.grain, step_row_task, &(step_row){all, n, &job});
    if (context->observed) cti_update_ended(context, &span, job.arrays * step_bytes(all, n));
}
