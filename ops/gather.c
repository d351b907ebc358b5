/* gather: y[.., i, ..] = x[.., index[.., i, ..], ..] along dim d;
 * dx[.., j, ..] = sum of the g[.., i, ..] whose index is j
 *
 * A fibre is the elements along d at one index of the other dims. Fibres are independent: one
 * thread gathers a whole fibre, and accumulates its gradient. */
#include "support/index.h"
#include "support/shape_ops.h"

#include <string.h>

typedef struct {
    ct_dtype dtype;
    ct_shape other;                                     /* the index's shape with dim of size 1 */
    int64_t x_stride[CT_MAX_DIMS], stride[CT_MAX_DIMS]; /* strides of x; strides of index and y */
    int64_t n, x_step, step;                            /* a fibre's length, and its strides */
    const int64_t *index;
    char *x, *y; /* or dx, g */
} fibres;

/* The place of a fibre: its index along each dim, and its offsets in x and in y. */
typedef struct {
    int64_t i[CT_MAX_DIMS], x_at, at;
} gather_place;

static gather_place gather_locate(const fibres *a, int64_t fibre) {
    gather_place p = {.x_at = 0};
    for (int d = a->other.ndim - 1; d >= 0; d--) {
        p.i[d] = fibre % a->other.dim[d];
        fibre /= a->other.dim[d];
        p.x_at += p.i[d] * a->x_stride[d];
        p.at += p.i[d] * a->stride[d];
    }
    return p;
}

/* the count leads at most to the end of the last dim */
static void gather_advance(const fibres *a, gather_place *p, int64_t count) {
    for (int d = a->other.ndim - 1; d >= 0; d--, count = 1) {
        p->x_at += count * a->x_stride[d];
        p->at += count * a->stride[d];
        p->i[d] += count;
        if (p->i[d] < a->other.dim[d]) return;
        p->x_at -= p->i[d] * a->x_stride[d];
        p->at -= p->i[d] * a->stride[d];
        p->i[d] = 0;
    }
}

/* One fibre along the last dim, or a run of `m` adjacent fibres along another: m n elements that
 * are adjacent in memory. */
typedef struct {
    int64_t count, m, n,
        x_step; /* the fibres of the run; and the step of x from one fibre to the next */
} gather_run;

static gather_run gather_run_at(const fibres *a, const gather_place *p, int64_t left) {
    const int last = a->other.ndim - 1;
    const int64_t row = last < 0 ? 1 : a->other.dim[last] - p->i[last],
                  count = row < left ? row : left;
    return a->step > 1 ? (gather_run){count, a->n, count, 1} : (gather_run){1, 1, a->n, 0};
}

static void gather_look_up(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const fibres *a = arg;
    const size_t size = cti_dtype_size(a->dtype);
    gather_place p = gather_locate(a, begin);
    for (int64_t f = begin; f < end;) {
        const gather_run r = gather_run_at(a, &p, end - f);
        const char *x = a->x + (size_t)p.x_at * size;
        for (int64_t i = 0; i < r.m; i++) {
            const int64_t at = p.at + i * a->step, *index = a->index + at;
            char *y = a->y + (size_t)at * size;
            if (size == 4)
                for (int64_t j = 0; j < r.n; j++)
                    memcpy(y + j * 4, x + (index[j] * a->x_step + j * r.x_step) * 4, 4);
            else if (size == 2)
                for (int64_t j = 0; j < r.n; j++)
                    memcpy(y + j * 2, x + (index[j] * a->x_step + j * r.x_step) * 2, 2);
            else if (size == 8)
                for (int64_t j = 0; j < r.n; j++)
                    memcpy(y + j * 8, x + (index[j] * a->x_step + j * r.x_step) * 8, 8);
            else
                for (int64_t j = 0; j < r.n; j++) y[j] = x[index[j] * a->x_step + j * r.x_step];
        }
        gather_advance(a, &p, r.count);
        f += r.count;
    }
}

static void gather_add_up(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const fibres *a = arg;
    gather_place p = gather_locate(a, begin);
    for (int64_t f = begin; f < end;) {
        const gather_run r = gather_run_at(a, &p, end - f);
        for (int64_t i = 0; i < r.m; i++) {
            const int64_t at = p.at + i * a->step, *index = a->index + at;
            for (int64_t j = 0; j < r.n; j++) {
                const int64_t to = p.x_at + index[j] * a->x_step + j * r.x_step;
                cti_real_add(a->dtype, a->x, to, a->y, at + j);
            }
        }
        gather_advance(a, &p, r.count);
        f += r.count;
    }
}

/* Runs the task over all fibres. A scalar is one fibre of one element. */
/* A scalar counts as one element along a dim, as in torch. */
static ct_shape at_least_1d(ct_shape shape) { return shape.ndim > 0 ? shape : CT_SHAPE(1); }

static void gather_each_fibre(const ct_call *c, ct_shape x, char *x_data, char *y_data,
                              ct_dtype dtype, cti_task *task) {
    ct_tensor *index = c->in[1];
    if (index->numel == 0) return;
    fibres a = {.dtype = dtype,
                .other = at_least_1d(index->shape),
                .n = 1,
                .index = (const int64_t *)index->data,
                .x = x_data,
                .y = y_data};
    const int64_t asked = *(const int *)c->attrs, dim = asked < 0 ? asked + a.other.ndim : asked;
    cti_shape_strides(at_least_1d(x), a.x_stride);
    cti_shape_strides(a.other, a.stride);
    a.n = a.other.dim[dim], a.x_step = a.x_stride[dim], a.step = a.stride[dim];
    a.other.dim[dim] = 1;
    cti_parallel(c->context, cti_shape_numel(a.other), cti_op_grain(a.n * 4), task, &a);
}

static bool gather_indices_inside(const ct_call *c) {
    const ct_tensor *x = c->in[0];
    const ct_shape shape = at_least_1d(x->shape);
    const int asked = *(const int *)c->attrs, dim = asked < 0 ? asked + shape.ndim : asked;
    return cti_op_indices_inside(c, c->in[1], "index", shape.dim[dim], 0);
}

static ct_tensor *gather_forward(ct_call *c) {
    ct_tensor *x = c->in[0], *index = c->in[1];
    c->drop = CT_DROP_IN(0) | CT_DROP_OUT;
    const int dim = cti_op_dim_or_scalar(c->op->name, x, *(const int *)c->attrs);
    if (dim < 0 || !cti_op_is(c, 1, CT_I64)) return NULL;
    const ct_shape of_x = at_least_1d(x->shape), of_index = at_least_1d(index->shape);
    bool fits = of_index.ndim == of_x.ndim;
    for (int d = 0; fits && d < of_x.ndim; d++) fits = d == dim || of_index.dim[d] <= of_x.dim[d];
    if (!fits && index->numel > 0) /* an index without elements has any shape, as in torch */
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "gather: the index %s does not fit %s along dim %d", SHAPE(index->shape),
                       SHAPE(x->shape), dim);
    if (!gather_indices_inside(c)) return NULL;
    ct_tensor *y = cti_op_new(c, x->dtype, index->shape);
    if (y) gather_each_fibre(c, x->shape, x->data, y->data, x->dtype, gather_look_up);
    return y;
}

static bool gather_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    if (!gather_indices_inside(c))
        return false; /* checked again: the index may be in a caller's buffer that has changed */
    ct_tensor *dx = cti_op_grad_sum(c, 0);
    if (dx) gather_each_fibre(c, dx->shape, dx->data, g[0]->data, dx->dtype, gather_add_up);
    return (grad[0] = dx) != NULL;
}

static const ct_op gather_op = {.name = "gather",
                                .attrs_size = sizeof(int),
                                .forward = gather_forward,
                                .backward = gather_backward,
                                .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_gather(ct_tensor *x, int dim, ct_tensor *index) {
    return ct_apply(&gather_op, (ct_tensor *[]){x, index}, 2, &dim);
}
