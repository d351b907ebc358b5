/* where: y = cond ? a : b, all three broadcast, a and b of any one dtype;   da = cond ? g : 0, db = cond ? 0 : g, each summed to its
 * input's shape */
#include "op.h"

/* The result as rows of n elements, along which each of cond, a and b has stride 1 or 0. */
typedef struct {
    const ct_kernels *k;
    const char *in[3];
    char *y;
    int64_t size[3], n;
    int ndim;                               /* of the rows' index */
    int64_t dim[CT_MAX_DIMS], stride[CT_MAX_DIMS][3];
} choice;

static void where_task(void *arg, int64_t begin, int64_t end, int worker) {
    const choice *w = arg;
    const int64_t *inner = w->stride[w->ndim];
    (void)worker;
    while (begin < end) {
        int64_t row = begin / w->n, col = begin % w->n, n = w->n - col < end - begin ? w->n - col : end - begin;
        int64_t at[3] = {col * inner[0], col * inner[1], col * inner[2]};
        for (int d = w->ndim - 1; d >= 0; row /= w->dim[d--])
            for (int i = 0; i < 3; i++) at[i] += row % w->dim[d] * w->stride[d][i];
        w->k->where(n, (const bool *)w->in[0] + at[0], inner[0], w->in[1] + at[1] * w->size[1], inner[1],
                    w->in[2] + at[2] * w->size[2], inner[2], w->y + begin * w->size[1]);
        begin += n;
    }
}

/* Takes over the dims of the result from the outermost on; neighbours that every input walks as one become one. */
static void choose_rows(choice *w, ct_tensor *const *in, ct_shape shape) {
    int count = 0;
    for (int d = 0; d < shape.ndim; d++) {
        int64_t stride[3];
        bool one = count > 0;
        if (shape.dim[d] == 1) continue;
        for (int i = 0; i < 3; i++) {
            int own = d - (shape.ndim - in[i]->shape.ndim);
            stride[i] = own < 0 || in[i]->shape.dim[own] == 1 ? 0 : in[i]->stride[own];
            one = one && w->stride[count - 1][i] == stride[i] * shape.dim[d];
        }
        if (!one) w->dim[count++] = 1;
        w->dim[count - 1] *= shape.dim[d];
        for (int i = 0; i < 3; i++) w->stride[count - 1][i] = stride[i];
    }
    w->ndim = count ? count - 1 : 0;
    w->n = count ? w->dim[count - 1] : 1;
}

static ct_tensor *where_forward(ct_call *c) {
    ct_tensor *cond = c->in[0], *a = c->in[1], *b = c->in[2];
    ct_shape shape;
    c->drop = CT_DROP_IN(1) | CT_DROP_IN(2) | CT_DROP_OUT;
    if (!op_is(c, 0, CT_BOOL)) return NULL;
    if (a->dtype != b->dtype)
        return ct_fail(c->context, CT_ERR_DTYPE, "where: dtypes differ: %s and %s", ct_dtype_name(a->dtype), ct_dtype_name(b->dtype));
    if (!ct_shape_broadcast(c->context, "where", a->shape, b->shape, &shape)) return NULL;
    if (!ct_shape_broadcast(c->context, "where", cond->shape, shape, &shape)) return NULL;
    ct_tensor *y = op_new(c, a->dtype, shape);
    if (!y || !y->numel) return y;
    int64_t size = (int64_t)ct_dtype_size(a->dtype);
    choice w = {.k = c->context->isa->of[a->dtype], .in = {cond->data, a->data, b->data}, .y = y->data, .size = {1, size, size}};
    choose_rows(&w, c->in, shape);
    ct_parallel(c->context, y->numel, op_grain(1), where_task, &w);
    return y;
}

static bool where_backward(const ct_call *c, ct_tensor *g, ct_tensor **grad) {
    ct_tensor *zero = ct_zeros(c->context, g->dtype, CT_SCALAR), *d;
    if (c->wants[1] && !((d = ct_where(c->in[0], g, zero)) && op_sum_to_input(c, 1, d, &grad[1]))) return false;
    if (c->wants[2] && !((d = ct_where(c->in[0], zero, g)) && op_sum_to_input(c, 2, d, &grad[2]))) return false;
    return true;
}

static const ct_op where = {.name = "where", .forward = where_forward, .backward = where_backward};

ct_tensor *ct_where(ct_tensor *cond, ct_tensor *a, ct_tensor *b) { return ct_apply(&where, (ct_tensor *[]){cond, a, b}, 3, NULL); }
