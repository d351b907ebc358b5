/* Keeps numbers that are not finite behind their masks; attention_hidden.h has the rule. */
#include "attention_hidden.h"
#include "../../src/kernels/rows.h"

#include <math.h>
#include <string.h>

#include "attention_products.h"
#include "../../src/kernels/elementwise.h"

/* ---- rows of a product's right factor ---- */

cti_hidden_rows cti_hidden_guard(const cti_kernels *f, int64_t size, cti_attention_rows *x,
                                 int64_t n, int64_t cols, const cti_hidden_buffers *w) {
    CTI_ASSERT(n > 0);
    /* A column's sum is not finite if one of its numbers is not. Sums of columns are a fast first
     * test, which finite numbers fail only if a sum overflows. */
    f->rows->sum(n, cols, x->data, x->stride, w->clean);
    if (f->rows->is_finite(cols, w->clean)) return (cti_hidden_rows){0};
    const cti_hidden_rows hidden = {.rows = *x, .bad = w->bad};
    for (int64_t i = 0; i < n; i++) {
        const char *from = x->data + i * x->stride * size;
        char *to = w->clean + i * cols * size;
        w->bad[i] = !f->rows->is_finite(cols, from);
        if (w->bad[i]) f->elementwise->fill(cols, 0, to);
        else memcpy(to, from, (size_t)(cols * size));
    }
    *x = (cti_attention_rows){.data = w->clean, .stride = cols};
    return hidden;
}

void cti_hidden_add(const cti_kernels *f, ct_dtype dtype, const cti_attention_band *a, int64_t cols,
                    double alpha, char *c, int64_t c_row) {
    const cti_attention_rows *b = &a->hidden->rows;
    const int64_t size = (int64_t)cti_dtype_size(dtype);
    for (int64_t k = 0; k < a->k; k++) {
        const int64_t at = a->hidden_first + k;
        if (!a->hidden->bad[at]) continue;
        const char *row = b->data + at * b->stride * size;
        /* i + low <= k < i + high */
        const int64_t end = cti_min(a->m, k - a->low + 1);
        for (int64_t i = cti_max(0, k - a->high + 1); i < end; i++) {
            const double x = cti_real_get(dtype, a->data, i * a->row + k * a->col);
            if (x != 0) f->elementwise->axpy(cols, alpha * x, row, c + i * c_row * size);
        }
    }
}

void cti_hidden_leave_out(const cti_attention_params *a, int64_t k, int64_t n, const char *weights,
                          const char *b, int64_t *row, int64_t *col, char *copy) {
    const int64_t from_row = *row, from_col = *col;
    const bool by_columns = from_row == 1 && from_col != 1;
    *row = by_columns ? 1 : n;
    *col = by_columns ? k : 1;
    memset(copy, 0, (size_t)(k * n * a->keys_size));
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < n && cti_real_get(a->dtype, weights, i) != 0; j++)
            memcpy(copy + (i * *row + j * *col) * a->keys_size,
                   b + (i * from_row + j * from_col) * a->keys_size, (size_t)a->keys_size);
}

/* ---- pairs of a tile ---- */

bool cti_hidden_breaks_weights(const cti_attention_params *a, const cti_attention_tile *t,
                               char *scratch) {
    const char *sums = a->inverse_sum + cti_attention_query(a, t, 0) * a->stat_size;
    a->kernels->rows->min(t->nq, 1, sums, 1, scratch);
    return !(cti_real_get(a->dtype, scratch, 0) > 0);
}

void cti_hidden_clear_pairs(const cti_attention_params *a, const cti_attention_tile *t,
                            const char *hidden, char *p, char *ds, int64_t ds_row) {
    for (int64_t i = 0; i < t->nq; i++)
        for (int64_t j = 0; j < t->nk; j++) {
            if (cti_real_get(a->dtype, hidden, i * a->nr + j) != -INFINITY) continue;
            cti_real_set(a->dtype, p, i * a->nr + j, 0);
            cti_real_set(a->dtype, ds, i * ds_row + j, 0);
        }
}

/* ---- tensors ---- */

static bool contains_nan(const ct_tensor *x) {
    return x && x->numel > 0 && x->context->isa->of[x->dtype]->rows->has_nan(x->numel, x->data);
}

ct_tensor *cti_hidden_zero_rows(ct_tensor *x, ct_tensor *seen) {
    if (!x) return NULL;
    if (x->shape.ndim == 4) seen = ct_unsqueeze(seen, 1);
    return ct_where(ct_unsqueeze(seen, -1), x, ct_zeros(x->context, x->dtype, CT_SCALAR));
}

/* The matrices of a product of tensors, whose right factor is guarded. */
typedef struct {
    ct_tensor *a, *b, *clean, *bad; /* (b, h, m, k), (b, h, k, n) twice, bool (b, h, k); dense */
    int64_t m, k, n, size;
} guarded_product;

/* Makes `clean` of matrix i. */
static void guard_matrix(const guarded_product *p, int64_t i) {
    const cti_kernels *f = p->a->context->isa->of[p->a->dtype];
    char *clean = p->clean->data + i * p->k * p->n * p->size;
    const cti_hidden_buffers w = {.bad = (bool *)p->bad->data + i * p->k, .clean = clean};
    cti_attention_rows x = {.data = p->b->data + i * p->k * p->n * p->size, .stride = p->n};
    if (cti_hidden_guard(f, p->size, &x, p->k, p->n, &w).bad) return;
    memset(w.bad, 0, (size_t)p->k);
    memcpy(clean, x.data, (size_t)(p->k * p->n * p->size));
}

/* Adds to matrix i of y what was left out. */
static void add_matrix_rows(const guarded_product *p, int64_t i, ct_tensor *y) {
    const cti_kernels *f = y->context->isa->of[y->dtype];
    const cti_hidden_rows rows = {
        .rows = {.data = p->b->data + i * p->k * p->n * p->size, .stride = p->n},
        .bad = (const bool *)p->bad->data + i * p->k};
    const cti_attention_band all = {.data = p->a->data + i * p->m * p->k * p->size,
                                    .row = p->k,
                                    .col = 1,
                                    .m = p->m,
                                    .k = p->k,
                                    .low = -p->m,
                                    .high = p->k,
                                    .hidden = &rows};
    cti_hidden_add(f, y->dtype, &all, p->n, 1, y->data + i * p->m * p->n * p->size, p->n);
}

ct_tensor *cti_hidden_product(ct_tensor *a, ct_tensor *b) {
    ct_tensor *y = ct_matmul(a, b);
    if (!contains_nan(y)) return y;
    const int64_t *dim = b->shape.dim, matrices = dim[0] * dim[1];
    guarded_product p = {.m = y->shape.dim[2], .k = dim[2], .n = dim[3]};
    p.size = (int64_t)cti_dtype_size(y->dtype);
    p.a = ct_contiguous(a);
    p.b = ct_contiguous(b);
    p.clean = cti_tensor_new(y->context, b->dtype, b->shape);
    p.bad = cti_tensor_new(y->context, CT_BOOL, CT_SHAPE(dim[0], dim[1], dim[2]));
    if (!p.a || !p.b || !p.clean || !p.bad) return NULL;
    for (int64_t i = 0; i < matrices; i++) guard_matrix(&p, i);
    y = ct_matmul(p.a, p.clean);
    for (int64_t i = 0; y && i < matrices; i++) add_matrix_rows(&p, i, y);
    return y;
}

ct_tensor *cti_hidden_clear_gradient(ct_tensor *p, ct_tensor *ds) {
    if (!ds || ds->context->isa->of[ds->dtype]->rows->is_finite(ds->numel, ds->data)) return ds;
    return ct_where(ct_eq_scalar(p, 0), ct_zeros(p->context, p->dtype, CT_SCALAR), ds);
}

ct_tensor *cti_hidden_by_bias(ct_tensor *seen, ct_tensor *bias, const ct_tensor *scores) {
    if (!contains_nan(scores)) return seen;
    ct_tensor *by_bias = ct_ne_scalar(bias, -INFINITY);
    return seen ? ct_logical_and(seen, by_bias) : by_bias;
}
