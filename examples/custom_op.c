/* An op of your own in forty lines: its forward, its backward, and a checker that says whether they fit.
 *
 *     swish(x) = x s,  s = sigmoid(beta x);   dx = g (s + beta x s (1 - s))        Ramachandran et al. 2017, arXiv:1710.05941 */
#include <cotangent/cotangent.h>

typedef struct {
    double beta; /* an attribute: a plain number that the op keeps with each call */
} swish_attrs;

static ct_tensor *swish_forward(ct_call *c) {
    const swish_attrs *a = c->attrs;
    c->saved[0] = ct_sigmoid(ct_scale(c->in[0], a->beta)); /* kept for backward, as the result is */
    c->drop = CT_DROP_INPUTS;                              /* x itself is not needed: x s is the result */
    return ct_mul(c->in[0], c->saved[0]);
}

static bool swish_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const swish_attrs *a = c->attrs;
    ct_tensor *s = c->saved[0], *y = c->out;
    ct_tensor *slope = ct_add(s, ct_scale(ct_sub(y, ct_mul(y, s)), a->beta)); /* s + beta y (1 - s) */
    return (grad[0] = ct_mul(g[0], slope)) != NULL;                               /* NULL: the error is recorded already */
}

static bool wrong_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    return (grad[0] = ct_mul(g[0], c->saved[0])) != NULL; /* as if s did not depend on x */
}

static const ct_op swish_op = {.name = "swish", .attrs_size = sizeof(swish_attrs), .forward = swish_forward, .backward = swish_backward};
static const ct_op wrong_op = {.name = "wrong_swish", .attrs_size = sizeof(swish_attrs), .forward = swish_forward, .backward = wrong_backward};

/* What is checked is a function of tensors; arg is what it was given besides. */
static ct_tensor *swish(ct_tensor *const *in, int n, void *arg) {
    return ct_apply(arg, in, n, &(swish_attrs){.beta = 1.5});
}

int main(void) {
    ct_context *context = ct_context_new((ct_context_opts){.seed = 1, .on_error = ct_error_die});
    if (!context) return 1;
    ct_tensor *x = ct_randn(context, CT_F64, CT_SHAPE(2, 3)); /* differences want f64 */
    const ct_op *ops[] = {&swish_op, &wrong_op};
    for (int i = 0; i < 2; i++) {
        ct_gradcheck_result r = ct_gradcheck(swish, (void *)ops[i], &x, 1, (ct_gradcheck_opts){0});
        printf("the backward of %s is %s%s%s\n", ops[i]->name, r.ok ? "right" : "wrong", r.ok ? "" : ": ", r.diagnosis);
    }

    ct_set_requires_grad(x, true);
    ct_backward(ct_sum(swish(&x, 1, (void *)&swish_op), CT_ALL, false));
    printf("d sum(swish(x)) / d x:\n");
    ct_print(ct_grad(x), stdout);
    ct_context_free(context);
    return 0;
}
