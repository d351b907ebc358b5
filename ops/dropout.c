/* dropout: y_i = x_i keep_i / (1 - p);   dx_i = g_i keep_i / (1 - p).   Srivastava et al. 2014
 *
 * keep_i is a function of (seed, stream, i) only, so backward computes it again and nothing is
 * saved. */
#include "support/op.h"
#include "../src/kernels/random.h"

typedef struct {
    double p; /* if p is 0, y is x itself */
    cti_random random;
} dropout_attrs;

typedef struct {
    const cti_kernels *k;
    const dropout_attrs *noise;
    size_t size;
    const char *x;
    char *y;
} dropout_args;

static void dropout_chunk(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const dropout_args *a = arg;
    const size_t at = (size_t)begin * a->size;
    a->k->random->dropout(end - begin, begin, a->noise->random, a->noise->p, a->x + at, a->y + at);
}

static ct_tensor *dropout_run(const ct_call *c, ct_tensor *x) {
    ct_tensor *dense = cti_tensor_dense(x), *y = dense ? cti_op_new(c, x->dtype, x->shape) : NULL;
    if (y)
        cti_parallel(
            c->context, y->numel, cti_op_grain(1), dropout_chunk,
            &(dropout_args){kernels(c), c->attrs, cti_dtype_size(x->dtype), dense->data, y->data});
    return y;
}

static ct_tensor *dropout_forward(ct_call *c) {
    ct_tensor *x = c->in[0];
    c->drop = CT_DROP_INPUTS | CT_DROP_OUT;
    if (!cti_op_is_real(c, 0)) return NULL;
    return ((const dropout_attrs *)c->attrs)->p > 0
               ? dropout_run(c, x)
               : cti_tensor_view(x, x->data, x->shape, x->stride);
}

static bool dropout_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ((const dropout_attrs *)c->attrs)->p > 0 ? dropout_run(c, g[0]) : g[0]) !=
           NULL;
}

static const ct_op dropout_op = {.name = "dropout",
                                 .attrs_size = sizeof(dropout_attrs),
                                 .forward = dropout_forward,
                                 .backward = dropout_backward,
                                 .flags = CT_OP_STRIDED | CTI_OP_EXACT_ATTRS};

ct_tensor *cti_op_dropout(ct_tensor *x, double p, cti_random random) {
    return ct_apply(&dropout_op, (ct_tensor *[]){x}, 1, &(dropout_attrs){.p = p, .random = random});
}

ct_tensor *ct_dropout(ct_tensor *x, double p, bool training) {
    if (!cti_tensor_ready(x, "dropout")) return NULL;
    if (!(p >= 0 && p <= 1))
        return ct_fail(x->context, CT_ERR_ARGUMENT, "dropout: p is %g, not in [0, 1]", p);
    dropout_attrs a = {.p = training ? p : 0};
    if (a.p > 0 && cti_is_real(x->dtype)) {
        const ct_rng next = cti_rng_next(x->context);
        a.random = (cti_random){next.seed, next.stream};
    }
    return ct_apply(&dropout_op, (ct_tensor *[]){x}, 1, &a);
}
