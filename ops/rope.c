/* rope: each pair (a, b) of a row at position p is rotated by t = (p + offset) base^(-2j/d):
 * (a cos t - b sin t, a sin t + b cos t);
 * dx = g rotated by -t.
 * Su et al. 2021, arXiv:2104.09864 */
#include "support/along.h"

#include <math.h>

typedef struct {
    const cti_kernels *k;
    int64_t n, positions;
    size_t size, angle_size; /* bytes of an element of x, and of a cosine */
    const char *x, *cos, *sin;
    bool interleaved;
    double sign; /* -1 rotates back */
    char *y;
} rope_args;

static void rope_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const rope_args *a = arg;
    for (int64_t r = begin; r < end; r++) {
        const size_t row = (size_t)(r * a->n) * a->size,
                     angles = (size_t)(r % a->positions * (a->n / 2)) * a->angle_size;
        a->k->rope(a->n, a->x + row, a->cos + angles, a->sin + angles, a->interleaved, a->sign,
                   a->y + row);
    }
}

static ct_tensor *rope_turn(const ct_call *c, ct_tensor *x, double sign) {
    ct_tensor *y = cti_op_new(c, x->dtype, x->shape);
    if (y && y->numel > 0) {
        const int64_t n = x->shape.dim[x->shape.ndim - 1];
        rope_args a = {.k = kernels(c),
                       .n = n,
                       .positions = x->shape.dim[x->shape.ndim - 2],
                       .size = cti_dtype_size(x->dtype),
                       .angle_size = cti_dtype_size(c->saved[0]->dtype),
                       .x = x->data,
                       .cos = c->saved[0]->data,
                       .sin = c->saved[1]->data,
                       .interleaved = ((const ct_rope_opts *)c->attrs)->interleaved,
                       .sign = sign,
                       .y = y->data};
        cti_parallel(c->context, y->numel / n, cti_op_grain(n), rope_rows, &a);
    }
    return y;
}

typedef struct {
    const double *rate; /* base^(-2j/d) */
    int64_t half;
    double offset;
    ct_tensor *cos, *sin;
} angle_table;

static void fill_angles(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const angle_table *t = arg;
    for (int64_t p = begin; p < end; p++)
        for (int64_t j = 0; j < t->half; j++) {
            const double angle = ((double)p + t->offset) * t->rate[j], c = cos(angle),
                         s = sin(angle);
            const int64_t at = p * t->half + j;
            cti_real_set(t->cos->dtype, t->cos->data, at, c);
            cti_real_set(t->sin->dtype, t->sin->data, at, s);
        }
}

static ct_tensor *rope_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    const ct_rope_opts *opts = c->attrs;
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!cti_op_is_real(c, 0)) return NULL;
    if (x->shape.ndim < 2 || x->shape.dim[x->shape.ndim - 1] % 2 != 0)
        return ct_fail(c->context, CT_ERR_SHAPE, "rope: %s is not (..., T, d) with an even d",
                       SHAPE(x->shape));
    /* if d = 0 any number of positions has no element, and no table is needed */
    if (x->numel == 0) return cti_op_new(c, x->dtype, x->shape);
    const int64_t positions = x->shape.dim[x->shape.ndim - 2],
                  half = x->shape.dim[x->shape.ndim - 1] / 2;
    ct_tensor *rate = cti_op_new(c, CT_F64, CT_SHAPE(half));
    const ct_dtype statistics = cti_dtype_statistics(x->dtype); /* kernels compute in it */
    c->saved[0] = cti_op_new(c, statistics, CT_SHAPE(positions, half));
    c->saved[1] = cti_op_new(c, statistics, CT_SHAPE(positions, half));
    if (!rate || !c->saved[0] || !c->saved[1]) return NULL;
    double *r = (double *)rate->data;
    for (int64_t j = 0; j < half; j++) r[j] = pow(opts->base, -(double)j / (double)half);
    cti_parallel(c->context, positions, cti_op_grain(half * 16), fill_angles,
                 &(angle_table){.rate = r,
                                .half = half,
                                .offset = (double)opts->offset,
                                .cos = c->saved[0],
                                .sin = c->saved[1]});
    return rope_turn(c, x, 1);
}

static bool rope_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = rope_turn(c, g[0], -1)) != NULL;
}

static const ct_op rope_op = {.name = "rope",
                              .attrs_size = sizeof(ct_rope_opts),
                              .forward = rope_forward,
                              .backward = rope_backward};

ct_tensor *ct_rope(ct_tensor *x, ct_rope_opts opts) {
    if (!cti_tensor_ready(x, "rope")) return NULL;
    opts.base = cti_option(opts.base, 10000);
    if (!(opts.base > 0) || isinf(opts.base))
        return ct_fail(x->context, CT_ERR_ARGUMENT,
                       "rope: the base is %g, must be finite and more than 0", opts.base);
    return cti_apply(&rope_op, (ct_tensor *[]){x}, 1, &opts);
}
