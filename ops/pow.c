/* pow: y = x^e for a number e, 0^0 = 1;   dx = g e x^(e-1), 0 for e = 0 */
#include "support/op.h"

static ct_tensor *pow_forward(ct_call *c) {
    c->drop = CT_DROP_OUT;
    return cti_op_unary_scalar(c, c->in[0], kernels(c)->pow, *(const double *)c->attrs);
}

typedef struct {
    const cti_kernels *k;
    double e;
    const char *x, *g;
    char *dx;
    int64_t size;
} pow_loop;

static void pow_task(void *arg, int64_t begin, int64_t end, int worker) {
    const pow_loop *p = arg;
    int64_t at = begin * p->size;
    (void)worker;
    p->k->pow_backward(end - begin, p->x + at, p->e, p->g + at, p->dx + at);
}

static bool pow_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *dx = cti_op_new(c, g[0]->dtype, g[0]->shape);
    if (!dx) return false;
    pow_loop p = {kernels(c), *(const double *)c->attrs,           c->in[0]->data, g[0]->data,
                  dx->data,   (int64_t)cti_dtype_size(g[0]->dtype)};
    cti_parallel(c->context, g[0]->numel, cti_op_grain(8), pow_task, &p);
    grad[0] = dx;
    return true;
}

static const ct_op pow_op = {.name = "pow",
                             .attrs_size = sizeof(double),
                             .forward = pow_forward,
                             .backward = pow_backward,
                             .flags = CTI_OP_EXACT_ATTRS};

ct_tensor *ct_pow(ct_tensor *x, double e) { return cti_apply(&pow_op, (ct_tensor *[]){x}, 1, &e); }
