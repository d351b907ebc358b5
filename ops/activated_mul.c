/* activated_mul: y = f(a) b, f an activation: the middle of a gated feed-forward;
 * da = g b f'(a),  db = g f(a).
 *
 * f(a) is not saved for backward, which computes f and f' from one exponential. Shazeer 2020,
 * arXiv:2002.05202 */
#include "support/activation.h"
#include "../src/kernels/elementwise.h"

typedef struct {
    ct_activation activation;
} activated_mul_attrs;

typedef struct {
    const cti_kernels *k;
    cti_activation f;
    size_t size; /* bytes of an element */
    const char *a, *b, *g;
    char *y, *da, *db; /* da and db may be NULL */
} activated_mul_args;

/* The elements that stay in L1d between two kernels. */
enum { ACTIVATED_BLOCK = 512 };

static void activated_mul_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const activated_mul_args *m = arg;
    for (int64_t i = begin; i < end; i += ACTIVATED_BLOCK) {
        const int64_t n = end - i < ACTIVATED_BLOCK ? end - i : ACTIVATED_BLOCK;
        const size_t at = (size_t)i * m->size;
        cti_activate(&m->f, n, m->a + at, m->y + at);
        m->k->elementwise->mul(n, m->y + at, 1, m->b + at, 1, m->y + at);
    }
}

static void activated_mul_gradients(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const activated_mul_args *m = arg;
    double block[2][ACTIVATED_BLOCK]; /* da and f(a), if there is no tensor for da or db */
    for (int64_t i = begin; i < end; i += ACTIVATED_BLOCK) {
        const int64_t n = end - i < ACTIVATED_BLOCK ? end - i : ACTIVATED_BLOCK;
        const size_t at = (size_t)i * m->size;
        const char *a = m->a + at, *g = m->g + at;
        char *da = m->da ? m->da + at : (char *)block[0];
        char *db = m->db ? m->db + at : (char *)block[1];
        if (m->da) {
            m->k->elementwise->mul(n, g, 1, m->b + at, 1, da);
            cti_activation_both(&m->f, n, a, da, db, da);
        } else cti_activate(&m->f, n, a, db);
        if (m->db) m->k->elementwise->mul(n, g, 1, db, 1, db);
    }
}

static void activated_mul_run(const ct_call *c, cti_activation f, activated_mul_args m,
                              void (*range)(void *, int64_t, int64_t, int)) {
    m.k = kernels(c), m.f = f;
    m.size = cti_dtype_size(c->in[0]->dtype);
    m.a = c->in[0]->data;
    cti_parallel(c->context, c->in[0]->numel, cti_op_grain(4), range, &m);
}

static ct_tensor *activated_mul_forward(ct_call *c) {
    const ct_tensor *a = c->in[0], *b = c->in[1];
    cti_activation f;
    if (!cti_op_activation(c, ((const activated_mul_attrs *)c->attrs)->activation, &f) ||
        !cti_op_same_dtype(c))
        return NULL;
    if (!cti_shape_equal(a->shape, b->shape))
        return ct_fail(c->context, CT_ERR_SHAPE, "activated_mul: %s and %s differ", SHAPE(a->shape),
                       SHAPE(b->shape));
    c->drop = CT_DROP_OUT | (c->wants[0] ? 0 : CT_DROP_IN(1));
    ct_tensor *y = cti_op_new(c, a->dtype, a->shape);
    if (y)
        activated_mul_run(c, f, (activated_mul_args){.b = b->data, .y = y->data},
                          activated_mul_range);
    return y;
}

static bool activated_mul_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    cti_activation f;
    if (!cti_op_activation(c, ((const activated_mul_attrs *)c->attrs)->activation, &f) ||
        !cti_op_new_grads(c, 2, grad))
        return false;
    activated_mul_run(c, f,
                      (activated_mul_args){.b = c->wants[0] ? c->in[1]->data : NULL,
                                           .g = g[0]->data,
                                           .da = grad[0] ? grad[0]->data : NULL,
                                           .db = grad[1] ? grad[1]->data : NULL},
                      activated_mul_gradients);
    return true;
}

static const ct_op activated_mul = {.name = "activated_mul",
                                    .attrs_size = sizeof(activated_mul_attrs),
                                    .forward = activated_mul_forward,
                                    .backward = activated_mul_backward};

ct_tensor *ct_activated_mul(ct_tensor *a, ct_activation f, ct_tensor *b) {
    return ct_apply(&activated_mul, (ct_tensor *[]){a, b}, 2, &(activated_mul_attrs){f});
}
