#include "op.h"
#include "../../src/core/isa.h"
#include "../../src/core/strided_loop.h"

#include <math.h>

/* ---- checks ---- */

bool cti_op_refuse(const ct_call *c, ct_dtype dtype) {
    return ct_fail(c->context, CT_ERR_DTYPE, "%s: does not take %s", c->op->name,
                   cti_dtype_name(dtype));
}

bool cti_op_is(const ct_call *c, int i, ct_dtype dtype) {
    if (c->in[i]->dtype == dtype) return true;
    return ct_fail(c->context, CT_ERR_DTYPE, "%s: input %d must be %s and is %s", c->op->name, i,
                   cti_dtype_name(dtype), cti_dtype_name(c->in[i]->dtype));
}

bool cti_op_is_whole(const ct_call *c, double a) {
    if (fabs(a) < 0x1p63 && a == floor(a)) return true;
    return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: i64 needs a whole number, not %g", c->op->name,
                   a);
}

bool cti_op_refuse_dtypes(const ct_call *c, int i) {
    return ct_fail(c->context, CT_ERR_DTYPE, "%s: dtypes differ: %s and %s; ct_cast converts",
                   c->op->name, cti_dtype_name(c->in[0]->dtype), cti_dtype_name(c->in[i]->dtype));
}

bool cti_op_same_dtype_or_weight(const ct_call *c, int weight) {
    const ct_dtype dtype = c->in[weight]->dtype;
    const bool at_rest = c->in[0]->dtype == CT_F32 && (dtype == CT_BF16 || cti_is_blocks(dtype));
    for (int i = 1; i < c->n; i++)
        if (c->in[i] && c->in[i]->dtype != c->in[0]->dtype && !(at_rest && i == weight))
            return cti_op_refuse_dtypes(c, i);
    return true;
}

/* ---- elementwise loops ---- */

typedef struct {
    cti_unary *map;
    cti_unary_backward *backward;
    cti_unary_scalar *scalar;
    cti_unary_scalar_backward *scalar_backward;
    const char *x, *g;
    char *y;
    double a;
    int64_t size, length; /* bytes of an element; elements of a row, or 1 in an elementwise loop */
    int64_t cost;         /* an element's cost in an elementwise loop, for cti_op_grain; 0: 1 */
} op_loop;

static void map_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const op_loop *l = arg;
    int64_t at = begin * l->size;
    if (l->map) l->map(end - begin, l->x + at, l->y + at);
    else if (l->scalar) l->scalar(end - begin, l->x + at, l->a, l->y + at);
    else if (l->backward) l->backward(end - begin, l->x + at, l->g + at, l->y + at);
    else l->scalar_backward(end - begin, l->x + at, l->a, l->g + at, l->y + at);
}

static void row_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const op_loop *l = arg;
    for (int64_t row = begin; row < end; row++) {
        int64_t at = row * l->length * l->size;
        if (l->map) l->map(l->length, l->x + at, l->y + at);
        else l->backward(l->length, l->x + at, l->g + at, l->y + at);
    }
}

/* Makes the output and runs the loop over elements, or over rows of the last dim. */
static ct_tensor *op_run(const ct_call *c, ct_tensor *x, op_loop *l, bool rows) {
    if (!l->map && !l->backward && !l->scalar && !l->scalar_backward) {
        cti_op_refuse(c, x->dtype);
        return NULL;
    }
    CTI_ASSERT(x->contiguous);
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    if (!y || y->numel == 0) return y;
    l->x = x->data;
    l->y = y->data;
    l->size = (int64_t)cti_dtype_size(x->dtype);
    l->length = rows && x->shape.ndim ? x->shape.dim[x->shape.ndim - 1] : 1;
    if (rows) cti_parallel(c->context, x->numel / l->length, cti_op_grain(l->length), row_range, l);
    else cti_parallel(c->context, x->numel, cti_op_grain(l->cost), map_range, l);
    return y;
}

ct_tensor *cti_op_unary(const ct_call *c, ct_tensor *x, cti_unary *f) {
    return op_run(c, x, &(op_loop){.map = f}, false);
}
ct_tensor *cti_op_rows(const ct_call *c, ct_tensor *x, cti_unary *f) {
    return op_run(c, x, &(op_loop){.map = f}, true);
}
ct_tensor *cti_op_unary_scalar(const ct_call *c, ct_tensor *x, cti_unary_scalar *f, double a) {
    return op_run(c, x, &(op_loop){.scalar = f, .a = a}, false);
}

bool cti_op_unary_backward(const ct_call *c, ct_tensor *xy, ct_tensor *g, cti_unary_backward *f,
                           ct_tensor **dx) {
    CTI_ASSERT(g->contiguous && g->dtype == xy->dtype && g->numel == xy->numel);
    return (*dx = op_run(c, xy, &(op_loop){.backward = f, .g = g->data}, false)) != NULL;
}

bool cti_op_unary_scalar_backward(const ct_call *c, ct_tensor *x, double a, ct_tensor *g,
                                  cti_unary_scalar_backward *f, int64_t cost, ct_tensor **dx) {
    CTI_ASSERT(g->contiguous && g->dtype == x->dtype && g->numel == x->numel);
    op_loop l = {.scalar_backward = f, .a = a, .g = g->data, .cost = cost};
    return (*dx = op_run(c, x, &l, false)) != NULL;
}

bool cti_op_rows_backward(const ct_call *c, ct_tensor *xy, ct_tensor *g, cti_unary_backward *f,
                          ct_tensor **dx) {
    CTI_ASSERT(g->contiguous && g->dtype == xy->dtype && g->numel == xy->numel);
    return (*dx = op_run(c, xy, &(op_loop){.backward = f, .g = g->data}, true)) != NULL;
}

/* ---- two inputs that broadcast ---- */

typedef struct {
    cti_binary *f;
    cti_strided_loop walk;
    const char *a, *b;
    char *y;
    int64_t size, out_size;
} zip;

static void zip_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const zip *z = arg;
    const cti_strided_loop *w = &z->walk;
    while (begin < end) {
        int64_t left = cti_strided_loop_left(w, begin), n = left < end - begin ? left : end - begin,
                at[CTI_STRIDED_MOST];
        cti_strided_loop_at(w, begin, at);
        z->f(n, z->a + at[0] * z->size, w->step[0], z->b + at[1] * z->size, w->step[1],
             z->y + begin * z->out_size);
        begin += n;
    }
}

ct_tensor *cti_op_binary(const ct_call *c, cti_binary *f, ct_dtype out) {
    ct_tensor *a = c->in[0], *b = c->in[1];
    if (!cti_op_same_dtype(c) || (!f && !cti_op_refuse(c, a->dtype))) return NULL;
    const bool same = cti_shape_same(&a->shape, &b->shape);
    ct_shape shape;
    if (!same && !cti_shape_broadcast(c->context, c->op->name, a->shape, b->shape, &shape))
        return NULL;
    ct_tensor *y = same ? cti_op_new(c, out, a->shape) : cti_op_new(c, out, shape);
    if (!y || y->numel == 0) return y;
    if (same && y->numel <= cti_op_grain(1)) { /* small */
        CTI_ASSERT(a->contiguous && b->contiguous);
        f(y->numel, a->data, 1, b->data, 1, y->data);
        return y;
    }
    zip z;
    z.f = f, z.a = a->data, z.b = b->data, z.y = y->data;
    z.size = (int64_t)cti_dtype_size(a->dtype), z.out_size = (int64_t)cti_dtype_size(out);
    cti_strided_loop_over(&z.walk, y->shape, 2, (const ct_tensor *const[]){a, b});
    cti_parallel(c->context, y->numel, cti_op_grain(1), zip_range, &z);
    return y;
}
