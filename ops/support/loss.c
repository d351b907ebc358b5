#include "loss.h"
#include "index.h"
#include "../../src/kernels/elementwise.h"
#include "../../src/kernels/rows.h"
#include "../../src/kernels/unary.h"

#include <math.h>

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

/* Returns the end of an error's message for targets that fit torch's layout, or "". */
static const char *loss_layout_hint(ct_shape x, ct_shape targets) {
    for (int d = 1; d < x.ndim - 1; d++) x.dim[d] = x.dim[d + 1];
    x.ndim--;
    return x.ndim > 1 && cti_shape_equal(x, targets)
               ? "; the classes are the last dim, not dim 1 as in torch"
               : "";
}

bool cti_op_loss_check(const ct_call *c, int i, int64_t classes) {
    const ct_tensor *targets = c->in[i];
    const ct_cross_entropy_opts *opts = c->attrs;
    if (!cti_op_is(c, i, CT_I64)) return false;
    ct_shape rows = c->in[0]->shape;
    rows.ndim--;
    if (!cti_shape_equal(targets->shape, rows))
        return ct_fail(c->context, CT_ERR_SHAPE, "%s: targets %s for the rows of %s, not %s%s",
                       c->op->name, SHAPE(targets->shape), SHAPE(c->in[0]->shape), SHAPE(rows),
                       loss_layout_hint(c->in[0]->shape, targets->shape));
    if (!(opts->label_smoothing >= 0 && opts->label_smoothing <= 1))
        return ct_fail(c->context, CT_ERR_ARGUMENT, "%s: the label smoothing is %g, not in [0, 1]",
                       c->op->name, opts->label_smoothing);
    if (!(opts->z_loss >= 0) || isinf(opts->z_loss))
        return ct_fail(c->context, CT_ERR_ARGUMENT,
                       "%s: z_loss is %g, must be finite and at least 0", c->op->name,
                       opts->z_loss);
    if (!cti_op_reduction_check(c, opts->reduction, false)) return false;
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
    kernels(c)->rows->sum(losses->numel, 1, losses->data, 1, y->data);
    kernels(c)->unary->scale(1, y->data, weight, y->data);
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
    ct_dtype stat_dtype;        /* the type of the statistics */
    size_t size, stat_size;     /* bytes of an element of each type */
    double smoothing, z;        /* of ct_cross_entropy_opts */
    double total;               /* the sum of the classes' weights */
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
                (a->total * own +
                 a->k->rows->weighted_gap(classes, a->block->x + (size_t)(r * classes) * a->size,
                                          a->weight->data, t));
    cti_real_set(a->dtype, a->loss, r, loss);
}

/* Returns the logsumexp of row r. */
static double loss_lse(const loss_rows_job *a, int64_t r) {
    return cti_real_get(a->stat_dtype, a->max, r) - log(cti_real_get(a->stat_dtype, a->inverse, r));
}

static void add_z_loss(const loss_rows_job *a, int64_t r) {
    const double lse = loss_lse(a, r);
    cti_real_set(a->dtype, a->loss, r, cti_real_get(a->dtype, a->loss, r) + a->z * lse * lse);
}

/* Writes the gradient of row r without weights: scale ((1 + more) softmax(x)_j - (1 - s) [j = t] -
 * s / C), with more = 2 z lse. */
static void plain_gradient(const loss_rows_job *a, int64_t r, double scale, double more) {
    const size_t one = (size_t)r * a->stat_size, row = (size_t)(r * a->block->classes) * a->size;
    const cti_loss_factors f = {.scale = scale,
                                .softmax = 1,
                                .more = more,
                                .target = 1 - a->smoothing,
                                .each = a->smoothing / (double)a->block->classes};
    a->k->rows->cross_entropy_backward(a->block->classes, a->block->x + row, a->target[r],
                                       a->max + one, a->inverse + one, &f, a->block->dx + row);
}

/* Writes scale ((own + even + more) softmax(x)_j - own [j = t] - s / C w_j) for each class j of a
 * row, with own = (1 - s) w_t and even = s / C times the sum of weights. The kernel computes (own +
 * even + more) softmax(x)_j - (own + even) [j = t]. Then s / C w_j is subtracted, and for the
 * target even - s / C w_t is added. That difference is computed from the sum of weights less w_t,
 * so that it is exactly 0 if there is a single class. */
static void weighted_gradient(const loss_rows_job *a, int64_t r, double scale, double more) {
    const int64_t t = a->target[r], classes = a->block->classes;
    const size_t one = (size_t)r * a->stat_size, row = (size_t)(r * classes) * a->size;
    const double share = a->smoothing / (double)classes, weight = weight_of(a, t),
                 both = (1 - a->smoothing) * weight + share * a->total;
    const cti_loss_factors f = {.scale = scale, .softmax = both, .more = more, .target = both};
    char *dx = a->block->dx + row;
    a->k->rows->cross_entropy_backward(classes, a->block->x + row, t, a->max + one,
                                       a->inverse + one, &f, dx);
    if (a->smoothing == 0) return;
    const double of_t = cti_real_get(a->dtype, dx, t) + scale * share * (a->total - weight);
    a->k->elementwise->axpy(classes, -scale * share, a->weight->data, dx);
    cti_real_set(a->dtype, dx, t, of_t);
}

static void gradient_of_row(const loss_rows_job *a, int64_t r) {
    const int64_t classes = a->block->classes;
    const cti_loss_scale *s = &a->block->scale;
    if (a->target[r] == CTI_IGNORED) {
        a->k->elementwise->fill(classes, 0, a->block->dx + (size_t)(r * classes) * a->size);
        return;
    }
    const double each =
        s->each ? cti_real_get(s->each->dtype, s->each->data, a->block->first + r) : 1;
    const double more = a->z != 0 ? 2 * a->z * loss_lse(a, r) : 0;
    if (a->weight) weighted_gradient(a, r, s->by * each, more);
    else plain_gradient(a, r, s->by * each, more);
}

static void loss_rows_task(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const loss_rows_job *a = arg;
    const size_t first = (size_t)begin * a->size, stat = (size_t)begin * a->stat_size;
    if (a->loss)
        a->k->rows->cross_entropy(end - begin, a->block->classes,
                                  a->block->x + first * (size_t)a->block->classes,
                                  a->target + begin, a->weight ? 0 : a->smoothing, a->loss + first,
                                  a->max + stat, a->inverse + stat);
    for (int64_t r = begin; a->loss && a->weight && r < end; r++)
        if (a->target[r] != CTI_IGNORED) weigh_loss(a, r);
    for (int64_t r = begin; a->loss && a->z != 0 && r < end; r++)
        if (a->target[r] != CTI_IGNORED) add_z_loss(a, r);
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
                       .stat_dtype = statistics->dtype,
                       .smoothing = ((const ct_cross_entropy_opts *)c->attrs)->label_smoothing,
                       .z = ((const ct_cross_entropy_opts *)c->attrs)->z_loss,
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
