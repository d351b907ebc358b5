/* bce_with_logits: loss = (1 - t) x + (1 + (w - 1) t) log(1 + e^-x), the binary cross-entropy of t
 * and sigmoid(x), t the target and w the weight of the positives or 1; y = the mean, the sum or
 * all; dx = g ((1 - t) s - w t (1 - s)), s = sigmoid(x);  dt = g ((w - 1) log(1 + e^-x) - x) */
#include "support/loss.h"
#include "../src/core/strided_loop.h"
#include "../src/kernels/rows.h"

typedef struct {
    const cti_kernels *k;
    cti_strided_loop walk; /* the loop along w and g */
    size_t size;
    double scale;
    const char *x, *t, *w, *g; /* g is NULL in forward; w is NULL if it is 1 */
    char *y, *dt;              /* y is dx in backward */
} bce_elements;

static void bce_range(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const bce_elements *b = arg;
    const cti_strided_loop *loop = &b->walk;
    while (begin < end) {
        const int64_t left = cti_strided_loop_left(loop, begin),
                      n = left < end - begin ? left : end - begin;
        const size_t at = (size_t)begin * b->size;
        int64_t of[CTI_STRIDED_MOST];
        cti_strided_loop_at(loop, begin, of);
        const char *w = b->w ? b->w + of[0] * (int64_t)b->size : NULL;
        if (!b->g) b->k->rows->bce(n, b->x + at, b->t + at, w, loop->step[0], b->y + at);
        else
            b->k->rows->bce_backward(&(cti_bce_backward){.n = n,
                                                         .x = b->x + at,
                                                         .t = b->t + at,
                                                         .w = w,
                                                         .g = b->g + of[1] * (int64_t)b->size,
                                                         .w_step = loop->step[0],
                                                         .g_step = loop->step[1],
                                                         .scale = b->scale,
                                                         .dx = b->y ? b->y + at : NULL,
                                                         .dt = b->dt ? b->dt + at : NULL});
        begin += n;
    }
}

/* Runs a direction; g is NULL in forward. */
static void bce_each_element(const ct_call *c, bce_elements b, const ct_tensor *g) {
    const ct_tensor *x = c->in[0], *w = c->n > 2 ? c->in[2] : NULL;
    if (x->numel == 0) return;
    b.k = kernels(c);
    b.size = cti_dtype_size(x->dtype);
    b.x = x->data, b.t = c->in[1]->data;
    b.w = w ? w->data : NULL, b.g = g ? g->data : NULL;
    cti_strided_loop_over(&b.walk, x->shape, 2, (const ct_tensor *const[]){w ? w : x, g ? g : x});
    cti_parallel(c->context, x->numel, cti_op_grain(4), bce_range, &b);
}

static ct_reduction bce_reduction(const ct_call *c) {
    return ((const ct_bce_opts *)c->attrs)->reduction;
}

static ct_tensor *bce_forward(ct_call *c) {
    const ct_tensor *x = c->in[0], *t = c->in[1], *w = c->n > 2 ? c->in[2] : NULL;
    c->drop = CT_DROP_OUT;
    if (!cti_op_is_real(c, 0) || !cti_op_same_dtype(c) ||
        !cti_op_reduction_check(c, bce_reduction(c), false))
        return NULL;
    if (!cti_shape_equal(x->shape, t->shape))
        return ct_fail(c->context, CT_ERR_SHAPE, "bce_with_logits: shapes differ: %s and target %s",
                       SHAPE(x->shape), SHAPE(t->shape));
    if (w && !cti_shape_broadcasts_to(w->shape, x->shape))
        return ct_fail(c->context, CT_ERR_SHAPE,
                       "bce_with_logits: pos_weight %s does not broadcast to %s", SHAPE(w->shape),
                       SHAPE(x->shape));
    ct_tensor *losses = cti_op_new(c, x->dtype, x->shape);
    if (!losses) return NULL;
    bce_each_element(c, (bce_elements){.y = losses->data}, NULL);
    return cti_op_loss_reduced(c, losses, bce_reduction(c));
}

static bool bce_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const ct_tensor *x = c->in[0];
    if (!cti_op_new_grads(c, 2, grad)) return false;
    bce_each_element(c,
                     (bce_elements){.scale = cti_op_loss_share(c, x->numel, bce_reduction(c)),
                                    .y = c->wants[0] ? grad[0]->data : NULL,
                                    .dt = c->wants[1] ? grad[1]->data : NULL},
                     g[0]);
    return true;
}

static const ct_op bce_with_logits = {.name = "bce_with_logits",
                                      .attrs_size = sizeof(ct_bce_opts),
                                      .forward = bce_forward,
                                      .backward = bce_backward};

ct_tensor *ct_bce_with_logits(ct_tensor *x, ct_tensor *target, ct_bce_opts opts) {
    return cti_op_weighted_loss(&bce_with_logits, (ct_tensor *[3]){x, target}, 2, opts.pos_weight,
                                &opts);
}
