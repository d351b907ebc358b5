/* An op of your own: its forward, its backward, and a checker that says whether they fit.
 *
 *     swish(x) = x s,  s = sigmoid(beta x)
 *     dx = g (s + beta x s (1 - s))           Ramachandran et al. 2017, arXiv:1710.05941 */
#include <cotangent/cotangent.h>

/* An op's attributes: plain numbers, copied with each call. */
typedef struct {
    double beta;
} swish_attrs;

static ct_tensor *swish_forward(ct_call *c) {
    const swish_attrs *a = c->attrs;
    c->saved[0] = ct_sigmoid(ct_scale(c->in[0], a->beta)); /* kept for backward, like the result */
    c->drop = CT_DROP_INPUTS;                              /* backward reads y = x s, not x */
    return ct_mul(c->in[0], c->saved[0]);
}

static bool swish_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    const swish_attrs *a = c->attrs;
    ct_tensor *g = cotangents[0], *s = c->saved[0], *y = c->out;
    ct_tensor *slope =
        ct_add(s, ct_scale(ct_sub(y, ct_mul(y, s)), a->beta)); /* s + beta y (1 - s) */
    grad[0] = ct_mul(g, slope);
    return grad[0] != NULL; /* NULL: the error is recorded already */
}

/* A wrong backward: it takes s for a constant. */
static bool wrong_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    grad[0] = ct_mul(cotangents[0], c->saved[0]);
    return grad[0] != NULL;
}

static const ct_op swish_op = {
    .name = "swish",
    .attrs_size = sizeof(swish_attrs),
    .forward = swish_forward,
    .backward = swish_backward,
};
static const ct_op wrong_op = {
    .name = "wrong_swish",
    .attrs_size = sizeof(swish_attrs),
    .forward = swish_forward,
    .backward = wrong_backward,
};

/* The function of tensors that the checker differentiates. The checker passes it `arg`, which is
 * the op here. */
static ct_tensor *swish(ct_tensor *const *in, int n, void *arg) {
    return ct_apply(arg, in, n, &(swish_attrs){.beta = 1.5});
}

static void print_check(const ct_op *op, ct_tensor *x) {
    ct_gradcheck_result r = ct_gradcheck(swish, (void *)op, &x, 1, (ct_gradcheck_opts){0});
    if (r.ok) printf("the backward of %s is right\n", op->name);
    else printf("the backward of %s is wrong: %s\n", op->name, r.diagnosis);
}

int main(void) {
    ct_context *context = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!context) return 1;
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 3)); /* f32 would be too inexact */
    print_check(&swish_op, x);
    print_check(&wrong_op, x);

    ct_set_requires_grad(x, true);
    ct_tensor *y = swish(&x, 1, (void *)&swish_op);
    ct_backward(ct_sum(y, CT_ALL, false));
    printf("d sum(swish(x)) / d x:\n");
    ct_print(ct_grad(x), stdout);
    ct_context_free(context);
    return 0;
}
