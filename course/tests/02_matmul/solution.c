/* The product of matrices: one nest of loops for forward and for both gradients. */
#include "exercise.h"

/* How to find the elements: a_mk of batch z is a[z a_batch + m a_row + k a_column], and so b and y.
 * What is shared by the batch has the batch step 0; what is transposed has the steps of its rows
 * and columns exchanged. */
typedef struct {
    int64_t batch, rows, inner, columns;
    int64_t a_batch, a_row, a_column, b_batch, b_row, b_column, y_batch, y_row;
} product;

static bool product_of(const ct_call *call, product *p) {
    const matmul_attrs *attrs = call->attrs;
    ct_tensor *a = call->in[0], *b = call->in[1];
    const int64_t batch_a = ct_ndim(a) == 3 ? ct_dim(a, 0) : 1,
                  batch_b = ct_ndim(b) == 3 ? ct_dim(b, 0) : 1;
    const int64_t b_rows = ct_dim(b, -2), b_columns = ct_dim(b, -1),
                  b_inner = attrs->transpose ? b_columns : b_rows;
    *p = (product){.rows = ct_dim(a, -2),
                   .inner = ct_dim(a, -1),
                   .columns = attrs->transpose ? b_rows : b_columns};
    if (p->inner != b_inner)
        return ct_fail(call->context, CT_ERR_SHAPE, "matmul: inner sizes %lld and %lld differ",
                       (long long)p->inner, (long long)b_inner);
    if (batch_a != batch_b && batch_a != 1 && batch_b != 1)
        return ct_fail(call->context, CT_ERR_SHAPE, "matmul: batches of %lld and %lld differ",
                       (long long)batch_a, (long long)batch_b);
    p->batch = batch_a == 1 ? batch_b : batch_a;
    p->a_batch = batch_a == 1 ? 0 : p->rows * p->inner;
    p->a_row = p->inner, p->a_column = 1;
    p->b_batch = batch_b == 1 ? 0 : p->inner * p->columns;
    p->b_row = attrs->transpose ? 1 : b_columns, p->b_column = attrs->transpose ? b_columns : 1;
    p->y_batch = p->rows * p->columns, p->y_row = p->columns;
    return true;
}

/* Each product a_mk b_kn is in one sum, y_mn. So backward goes through the same products: to a_mk
 * goes g_mn b_kn, and to b_kn a_mk g_mn. Sums are added to: of a matrix that the batch shares they
 * also run over the batch. */
static void each_product(const product *p, void work(double *a, double *b, double *y), double *a,
                         double *b, double *y) {
    for (int64_t z = 0; z < p->batch; z++)
        for (int64_t m = 0; m < p->rows; m++)
            for (int64_t n = 0; n < p->columns; n++)
                for (int64_t k = 0; k < p->inner; k++)
                    work(a + z * p->a_batch + m * p->a_row + k * p->a_column,
                         b + z * p->b_batch + k * p->b_row + n * p->b_column,
                         y + z * p->y_batch + m * p->y_row + n);
}

static void forward(double *a, double *b, double *y) { *y += *a * *b; }
static void to_a(double *da, double *b, double *g) { *da += *g * *b; }
static void to_b(double *a, double *db, double *g) { *db += *a * *g; }

static ct_tensor *matmul_forward(ct_call *call) {
    product p;
    if (!product_of(call, &p)) return NULL;
    const bool batched = ct_ndim(call->in[0]) == 3 || ct_ndim(call->in[1]) == 3;
    ct_tensor *out =
        ct_zeros(call->context, CT_F64,
                 batched ? CT_SHAPE(p.batch, p.rows, p.columns) : CT_SHAPE(p.rows, p.columns));
    if (!out) return NULL;
    each_product(&p, forward, ct_data_f64(call->in[0]), ct_data_f64(call->in[1]), ct_data_f64(out));
    return out;
}

static bool matmul_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    product p;
    if (!product_of(call, &p)) return false;
    for (int i = 0; i < 2; i++) {
        grad[i] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[i]));
        if (!grad[i]) return false;
    }
    double *a = ct_data_f64(call->in[0]), *b = ct_data_f64(call->in[1]),
           *g = ct_data_f64(cotangents[0]);
    each_product(&p, to_a, ct_data_f64(grad[0]), b, g);
    each_product(&p, to_b, a, ct_data_f64(grad[1]), g);
    return true;
}

const ct_op matmul = {.name = "matmul",
                      .attrs_size = sizeof(matmul_attrs),
                      .forward = matmul_forward,
                      .backward = matmul_backward};
