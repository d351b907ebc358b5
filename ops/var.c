/* var: y = sum (x - mean)^2 / (n - correction) over dims, n elements each;
 * dx = g (x - mean) 2 / (n - correction).
 * If n - correction <= 0, y is a division by 0, NaN or inf, as in torch; NaN for no elements.
 *
 * The mean of each run of 128 rows is computed first, then the squares about it, both in f64; runs
 * are combined by their counts (Chan, Golub, LeVeque 1983). So x is read once from memory, and a
 * large mean costs no digits. */
#include "support/reduce.h"
#include "../src/kernels/rows.h"

#include <math.h>

enum { VAR_CHUNK = 65536, VAR_COLUMNS = 256 };

typedef struct {
    ct_shape dims;
    double correction;
    bool keepdim;
} var_attrs;

/* The rows of all columns are cut into chunks, which depend on the sizes only. */
typedef struct {
    const cti_kernels *k;
    cti_columns of;
    int64_t rows, chunks; /* rows of each chunk but the last; chunks of a column */
    size_t size;
    double factor;
    const char *x, *g;
    double *mean, *squares; /* one number for each chunk, in forward */
    char *dx;
} var_args;

static var_args var_cut(const ct_call *c, const ct_tensor *x, cti_columns of) {
    var_args v = {.k = kernels(c),
                  .of = of,
                  .rows = VAR_CHUNK / (of.inner < VAR_COLUMNS ? of.inner : VAR_COLUMNS),
                  .size = cti_dtype_size(x->dtype),
                  .x = x->data};
    v.chunks = (of.n + v.rows - 1) / v.rows;
    return v;
}

static void var_each_chunk(const ct_call *c, const var_args *v, cti_columns_task *f) {
    const cti_columns of = {v->of.outer * v->chunks, v->rows < v->of.n ? v->rows : v->of.n,
                            v->of.inner};
    cti_columns_each(c->context, &of, 2, f, v);
}

/* Returns the rows of a chunk, and sets the offset of their first element in x and the column's
 * number. */
static int64_t var_rows_of(const var_args *v, int64_t chunk, int64_t j, size_t *at,
                           int64_t *column) {
    const int64_t o = chunk / v->chunks, first = chunk % v->chunks * v->rows,
                  left = v->of.n - first;
    *at = (size_t)((o * v->of.n + first) * v->of.inner + j) * v->size;
    *column = o * v->of.inner + j;
    return left < v->rows ? left : v->rows;
}

static void moments_of_chunk(const void *arg, int64_t chunk, int64_t j, int64_t width) {
    const var_args *v = arg;
    size_t at;
    int64_t column;
    const int64_t n = var_rows_of(v, chunk, j, &at, &column), to = chunk * v->of.inner + j;
    v->k->rows->moments(n, width, v->x + at, v->of.inner, v->mean + to, v->squares + to);
}

static void gradient_of_chunk(const void *arg, int64_t chunk, int64_t j, int64_t width) {
    const var_args *v = arg;
    size_t at;
    int64_t column;
    const int64_t n = var_rows_of(v, chunk, j, &at, &column);
    v->k->rows->var_backward(n, width, v->x + at, v->of.inner, v->mean + column,
                             v->g + (size_t)column * v->size, v->factor, v->dx + at);
}

/* Combines the chunks of column (o, j) in their order. */
static void var_combine(const var_args *v, int64_t o, int64_t j, double *mean, double *squares) {
    double count = 0, m = 0, s = 0;
    for (int64_t p = 0; p < v->chunks; p++) {
        const int64_t at = (o * v->chunks + p) * v->of.inner + j, left = v->of.n - p * v->rows;
        const double n = (double)(left < v->rows ? left : v->rows), apart = v->mean[at] - m;
        if (p == 0) {
            count = n, m = v->mean[at], s = v->squares[at];
            continue;
        }
        s += v->squares[at] + apart * apart * (count * n / (count + n));
        m += apart * (n / (count + n));
        count += n;
    }
    *mean = m, *squares = s;
}

static double var_divisor(const var_attrs *attrs, double n) {
    return n > attrs->correction ? n - attrs->correction : 0;
}

static ct_tensor *var_forward(ct_call *c) {
    const var_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0];
    unsigned set;
    c->drop = CT_DROP_OUT;
    if (!cti_op_is_real(c, 0) || !cti_dim_set(c->context, "var", attrs->dims, x->shape.ndim, &set))
        return NULL;
    if (isnan(attrs->correction))
        return ct_fail(c->context, CT_ERR_ARGUMENT, "var: the correction is NaN");
    const ct_shape shape = cti_shape_reduced(x->shape, set, attrs->keepdim);
    if (x->numel == 0) return ct_full(c->context, x->dtype, shape, (double)NAN);

    cti_columns of;
    ct_shape back;
    ct_tensor *y = cti_op_new(c, CT_F64, shape), *mean = cti_op_new(c, CT_F64, shape);
    if (!y || !mean) return NULL;
    x = cti_reduce_as_columns(x, set, &of, &back);
    if (!x) return NULL;
    var_args v = var_cut(c, x, of);
    ct_tensor *chunks = cti_op_new(c, CT_F64, CT_SHAPE(2, of.outer, v.chunks, of.inner));
    if (!chunks) return NULL;
    v.mean = (double *)chunks->data;
    v.squares = (double *)cti_op_second_half(chunks);
    var_each_chunk(c, &v, moments_of_chunk);
    const double by = var_divisor(attrs, (double)of.n);
    for (int64_t o = 0, at = 0; o < of.outer; o++)
        for (int64_t j = 0; j < of.inner; j++, at++) {
            double squares;
            var_combine(&v, o, j, &((double *)mean->data)[at], &squares);
            ((double *)y->data)[at] = squares / by;
        }
    c->saved[0] = mean;
    return ct_cast(y, x->dtype);
}

static bool var_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const var_attrs *attrs = c->attrs;
    ct_tensor *x = c->in[0];
    unsigned set;
    if (x->numel == 0) return (grad[0] = ct_zeros(c->context, x->dtype, x->shape)) != NULL;
    cti_columns of;
    ct_shape back;
    if (!cti_dim_set(c->context, "var", attrs->dims, x->shape.ndim, &set)) return false;
    x = cti_reduce_as_columns(x, set, &of, &back);
    if (!x) return false;
    ct_tensor *dx = cti_op_new(c, x->dtype, x->shape);
    if (!dx) return false;
    var_args v = var_cut(c, x, of);
    v.mean = (double *)c->saved[0]->data;
    v.g = g[0]->data;
    v.factor = 2 / var_divisor(attrs, (double)of.n);
    v.dx = dx->data;
    var_each_chunk(c, &v, gradient_of_chunk);
    return (grad[0] = back.ndim ? ct_permute(dx, back) : dx) != NULL;
}

static const ct_op var_op = {.name = "var",
                             .attrs_size = sizeof(var_attrs),
                             .forward = var_forward,
                             .backward = var_backward};

ct_tensor *ct_var(ct_tensor *x, ct_shape dims, double correction, bool keepdim) {
    return ct_apply(&var_op, (ct_tensor *[]){x}, 1, &(var_attrs){dims, correction, keepdim});
}
