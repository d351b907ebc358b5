#include "loss.h"
#include "index.h"

/* ---- losses of elements ---- */

bool cti_op_reduction_check(const ct_call *c, ct_reduction reduction, bool batch) {
    switch (reduction) {
    case CT_MEAN:
    case CT_SUM:
    case CT_NONE: return true;
    case CT_BATCH_MEAN:
        if (batch) return true;
        break;
    }
    return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: does not take reduction %d", c->op->name,
                   (int)reduction);
}

double cti_op_loss_share(const ct_call *c, int64_t losses, ct_reduction reduction) {
    const ct_shape shape = c->in[0]->shape;
    switch (reduction) {
    case CT_MEAN: return 1 / (double)losses;
    case CT_BATCH_MEAN: return shape.ndim ? 1 / (double)shape.dim[0] : 1;
    case CT_SUM:
    case CT_NONE: break;
    }
    return 1;
}

ct_tensor *cti_op_loss_reduced(const ct_call *c, ct_tensor *losses, ct_reduction reduction) {
    const ct_shape shape = c->in[0]->shape;
    switch (reduction) {
    case CT_MEAN: return ct_mean(losses, CT_ALL, false);
    case CT_SUM: return ct_sum(losses, CT_ALL, false);
    case CT_NONE: return losses;
    case CT_BATCH_MEAN:
        return ct_div(
            ct_sum(losses, CT_ALL, false),
            ct_full(c->context, losses->dtype, CT_SCALAR, shape.ndim ? (double)shape.dim[0] : 1));
    }
    return NULL;
}

/* ---- cross_entropy and linear_cross_entropy ---- */

static const ct_tensor *loss_class_weight(const ct_call *c, int i) {
    return i + 1 < c->n ? c->in[i + 1] : NULL;
}

static ct_reduction cross_entropy_reduction(const ct_call *c) {
    return ((const ct_cross_entropy_opts *)c->attrs)->reduction;
}

const char *cti_op_loss_hint(const ct_tensor *x, char buffer[CTI_LOSS_HINT]) {
    const int64_t n = x->shape.ndim > 2 ? x->shape.dim[x->shape.ndim - 1] : 0;
    if (n == 0) return "";
    const long long rows = (long long)(x->numel / n);
    snprintf(buffer, CTI_LOSS_HINT,
             "; ct_reshape to (%lld, %lld), and of the targets to (%lld), would fit", rows,
             (long long)n, rows);
    return buffer;
}

bool cti_op_loss_check(const ct_call *c, int i, int64_t rows, int64_t classes) {
    const ct_tensor *targets = c->in[i];
    const double smoothing = ((const ct_cross_entropy_opts *)c->attrs)->label_smoothing;
    if (!cti_op_is(c, i, CT_I64)) return false;
    if (targets->shape.ndim != 1 || targets->shape.dim[0] != rows)
        return ct_fail(c->context, CT_ERR_SHAPE, "%s: targets %s for the rows of %s, not %s",
                       c->op->name, SHAPE(targets->shape), SHAPE(c->in[0]->shape),
                       SHAPE(CT_SHAPE(rows)));
    if (!(smoothing >= 0 && smoothing <= 1))
        return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: the label smoothing is %g, not in [0, 1]",
                       c->op->name, smoothing);
    if (!cti_op_reduction_check(c, cross_entropy_reduction(c), false)) return false;
    const ct_tensor *weight = loss_class_weight(c, i);
    if (weight && weight->dtype != c->in[0]->dtype) return cti_op_refuse_dtypes(c, i + 1);
    if (weight && (weight->shape.ndim != 1 || weight->shape.dim[0] != classes))
        return ct_fail(c->context, CT_ERR_SHAPE, "%s: weights %s for %lld classes", c->op->name,
                       SHAPE(weight->shape), (long long)classes);
    return cti_op_indices_inside(c, targets, "target", classes, CTI_IGNORED);
}

double cti_op_loss_weight(const ct_call *c, int i) {
    const ct_tensor *targets = c->in[i], *weight = loss_class_weight(c, i);
    const int64_t *target = (const int64_t *)targets->data;
    double count = 0, sum = 0;
    for (int64_t r = 0; r < targets->numel; r++) {
        if (target[r] == CTI_IGNORED) continue;
        count++;
        sum += weight ? cti_real_get(weight->dtype, weight->data, target[r]) : 1;
    }
    if (count == 0) return 0;
    return cross_entropy_reduction(c) == CT_MEAN ? 1 / sum : 1;
}

ct_tensor *cti_op_loss_total(const ct_call *c, ct_tensor *losses, double weight) {
    if (cross_entropy_reduction(c) == CT_NONE) return losses;
    ct_tensor *y = cti_op_new(c, losses->dtype, CT_SCALAR);
    if (!y) return NULL;
    kernels(c)->sum(losses->numel, 1, losses->data, 1, y->data);
    kernels(c)->scale(1, y->data, weight, y->data);
    return y;
}

cti_loss_scale cti_op_loss_scale(const ct_call *c, ct_tensor *g, double weight) {
    if (cross_entropy_reduction(c) == CT_NONE) return (cti_loss_scale){.by = weight, .each = g};
    return (cti_loss_scale){.by = ct_item(g) * weight};
}

/* The inputs of the tasks, which each compute some rows of a block. */
typedef struct {
    const cti_kernels *k;
    const cti_loss_rows *block;
    ct_dtype dtype;             /* the type of logits, losses, gradients and scale.each */
    size_t size, stat_size;     /* bytes of an element of dtype, and of a statistic */
    double smoothing, total;    /* total: the sum of the classes' weights */
    const ct_tensor *weight;    /* weights of the classes, or NULL */
    const int64_t *target;      /* targets of the rows */
    char *loss, *max, *inverse; /* one number for each row */
} loss_rows_job;

static double weight_of(const loss_rows_job *a, int64_t class) {
    CTI_ASSERT(class >= 0 && class < a->block->classes);
    return cti_real_get(a->weight->dtype, a->weight->data, class);
}

/* The kernel has written lse - x_t to the loss of row r. Replaces it by (1 - s) w_t (lse - x_t) + s
 * / C sum_j w_j (lse - x_j). */
static void weigh_loss(const loss_rows_job *a, int64_t r) {
    const int64_t t = a->target[r], classes = a->block->classes;
    const double own = cti_real_get(a->dtype, a->loss, r);
    double loss = (1 - a->smoothing) * weight_of(a, t) * own;
    if (a->smoothing != 0)
        loss += a->smoothing / (double)classes *
                (a->total * own + a->k->weighted_gap(classes,
                                                     a->block->x + (size_t)(r * classes) * a->size,
                                                     a->weight->data, t));
    cti_real_set(a->dtype, a->loss, r, loss);
}

/* Writes scale ((own + even) softmax(x)_j - own [j = t] - s / C w_j) for each class j of a row,
 * with own = (1 - s) w_t and even = s / C times the sum of weights. It begins with (own + even)
 * (softmax(x)_j - [j = t]). The target's own weight is subtracted from the sum first, so that a
 * single class leaves no rounding error. */
static void weighted_gradient(const loss_rows_job *a, int64_t r, double scale) {
    const int64_t t = a->target[r], classes = a->block->classes;
    const size_t one = (size_t)r * a->stat_size, row = (size_t)(r * classes) * a->size;
    const double share = a->smoothing / (double)classes, weight = weight_of(a, t),
                 own = (1 - a->smoothing) * weight, even = share * a->total;
    char *dx = a->block->dx + row;
    a->k->cross_entropy_backward(classes, a->block->x + row, t, 0, a->max + one, a->inverse + one,
                                 scale * (own + even), dx);
    if (a->smoothing == 0) return;
    const double of_t = cti_real_get(a->dtype, dx, t) + scale * share * (a->total - weight);
    a->k->axpy(classes, -scale * share, a->weight->data, dx);
    cti_real_set(a->dtype, dx, t, of_t);
}

static void gradient_of_row(const loss_rows_job *a, int64_t r) {
    const int64_t classes = a->block->classes;
    const cti_loss_scale *s = &a->block->scale;
    const size_t one = (size_t)r * a->stat_size, row = (size_t)(r * classes) * a->size;
    const double each =
        s->each ? cti_real_get(s->each->dtype, s->each->data, a->block->first + r) : 1;
    if (a->target[r] == CTI_IGNORED) a->k->fill(classes, 0, a->block->dx + row);
    else if (a->weight) weighted_gradient(a, r, s->by * each);
    else
        a->k->cross_entropy_backward(classes, a->block->x + row, a->target[r], a->smoothing,
                                     a->max + one, a->inverse + one, s->by * each,
                                     a->block->dx + row);
}

static void loss_rows_task(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const loss_rows_job *a = arg;
    const size_t first = (size_t)begin * a->size, stat = (size_t)begin * a->stat_size;
    if (a->loss)
        a->k->cross_entropy(end - begin, a->block->classes,
                            a->block->x + first * (size_t)a->block->classes, a->target + begin,
                            a->weight ? 0 : a->smoothing, a->loss + first, a->max + stat,
                            a->inverse + stat);
    for (int64_t r = begin; a->loss && a->weight && r < end; r++)
        if (a->target[r] != CTI_IGNORED) weigh_loss(a, r);
    for (int64_t r = begin; a->block->dx && r < end; r++) gradient_of_row(a, r);
}

void cti_op_loss_rows(const ct_call *c, int i, int64_t rows, const cti_loss_rows *block) {
    const ct_tensor *statistics = block->statistics;
    const ct_dtype dtype = c->in[0]->dtype;
    loss_rows_job a = {.k = kernels(c),
                       .block = block,
                       .dtype = dtype,
                       .size = cti_dtype_size(dtype),
                       .stat_size = cti_dtype_size(statistics->dtype),
                       .smoothing = ((const ct_cross_entropy_opts *)c->attrs)->label_smoothing,
                       .weight = loss_class_weight(c, i),
                       .target = (const int64_t *)c->in[i]->data + block->first,
                       .max = statistics->data,
                       .inverse = cti_op_second_half(statistics)};
    CTI_ASSERT(statistics->dtype == cti_dtype_statistics(dtype) && statistics->numel >= 2 * rows);
    CTI_ASSERT(!block->losses || block->losses->dtype == dtype);
    CTI_ASSERT(block->first + rows <= c->in[i]->numel);
    if (block->losses) a.loss = block->losses->data + (size_t)block->first * a.size;
    for (int64_t j = 0; a.weight && j < a.weight->numel; j++) a.total += weight_of(&a, j);
    /* each element costs an exponential and a division */
    cti_parallel(c->context, rows, cti_op_grain(4 * block->classes), loss_rows_task, &a);
}
