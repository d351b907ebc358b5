#include "loss.h"
#include "index.h"

bool cti_op_loss_check(const ct_call *c, int i, int64_t rows, int64_t classes) {
    const ct_tensor *targets = c->in[i];
    const double smoothing = ((const ct_cross_entropy_opts *)c->attrs)->label_smoothing;
    if (!cti_op_is(c, i, CT_I64)) return false;
    if (targets->shape.ndim != 1 || targets->shape.dim[0] != rows)
        return ct_fail(c->context, CT_ERR_SHAPE, "%s: targets %s for the rows of %s", c->op->name,
                       SHAPE(targets->shape), SHAPE(c->in[0]->shape));
    if (!(smoothing >= 0 && smoothing <= 1))
        return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: the label smoothing is %g, not in [0, 1]",
                       c->op->name, smoothing);
    return cti_op_indices_inside(c, targets, "target", classes, CTI_IGNORED);
}

double cti_op_loss_weight(const ct_call *c, const ct_tensor *targets) {
    const int64_t *target = (const int64_t *)targets->data;
    int64_t count = 0;
    for (int64_t i = 0; i < targets->numel; i++) count += target[i] != CTI_IGNORED;
    if (count == 0) return 0;
    return ((const ct_cross_entropy_opts *)c->attrs)->sum ? 1 : 1 / (double)count;
}

ct_tensor *cti_op_loss_total(const ct_call *c, const ct_tensor *losses, double weight) {
    ct_tensor *y = cti_op_new(c, losses->dtype, CT_SCALAR);
    if (!y) return NULL;
    kernels(c)->sum(losses->numel, 1, losses->data, 1, y->data);
    kernels(c)->scale(1, y->data, weight, y->data);
    return y;
}

static void each_row(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const cti_loss_rows *a = arg;
    const size_t first = (size_t)begin * a->size;
    if (a->loss)
        a->k->cross_entropy(end - begin, a->classes, a->x + first * (size_t)a->classes,
                            a->target + begin, a->smoothing, a->loss + first, a->max + first,
                            a->inverse + first);
    for (int64_t r = begin; a->dx && r < end; r++) {
        const size_t one = (size_t)r * a->size, row = one * (size_t)a->classes;
        const bool counts = a->target[r] != CTI_IGNORED;
        if (!counts) a->k->fill(a->classes, 0, a->dx + row);
        else
            a->k->cross_entropy_backward(a->classes, a->x + row, a->target[r], a->smoothing,
                                         a->max + one, a->inverse + one, a->scale, a->dx + row);
    }
}

void cti_op_loss_rows(const ct_call *c, int64_t rows, cti_loss_rows a) {
    a.k = kernels(c);
    a.size = cti_dtype_size(c->in[0]->dtype);
    a.smoothing = ((const ct_cross_entropy_opts *)c->attrs)->label_smoothing;
    /* each element costs an exponential and a division */
    cti_parallel(c->context, rows, cti_op_grain(4 * a.classes), each_row, &a);
}
