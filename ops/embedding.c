/* embedding: y[i] = W[ids[i]];   dW[v] = sum of g[i] over the i with ids[i] = v, in increasing i.
 * If W is bf16 or blocks, y is f32. */
#include "support/index.h"
#include "../src/core/block_matrix.h"
#include "../src/core/isa.h"
#include "support/shape_ops.h"
#include "../src/kernels/elementwise.h"

#include <string.h>

/* The least columns of a task of backward. Work is divided by columns, so that each column of dW
 * has one thread even if ids repeat. */
enum { EMBEDDING_COLUMNS = 64 };

typedef struct {
    const cti_kernels *k;
    const int64_t *ids;
    int64_t tokens, n;
    size_t size, row_size;                            /* bytes: an element of weight, of rows */
    char *weight, *rows;                              /* W or dW; y or g */
    void (*widen)(int64_t n, const void *x, void *y); /* bf16 to f32 if W is of bf16; or NULL */
    const ct_tensor *blocks;                          /* W if it is of blocks; or NULL */
} embedding_lookup;

static void look_up_rows(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const embedding_lookup *a = arg;
    const size_t row = (size_t)a->n * a->size, to = (size_t)a->n * a->row_size;
    for (int64_t i = begin; a->blocks && i < end; i++)
        cti_block_row_widen(a->blocks, a->ids[i], 0, a->n,
                            (float *)(void *)(a->rows + (size_t)i * to));
    if (a->blocks) return;
    for (int64_t i = begin; a->widen && i < end; i++)
        a->widen(a->n, a->weight + (size_t)a->ids[i] * row, a->rows + (size_t)i * to);
    for (int64_t i = begin; !a->widen && i < end; i++)
        memcpy(a->rows + (size_t)i * to, a->weight + (size_t)a->ids[i] * row, row);
}

static void add_gradient_columns(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    const embedding_lookup *a = arg;
    const size_t row = (size_t)a->n * a->size, at = (size_t)begin * a->size;
    for (int64_t i = 0; i < a->tokens; i++)
        a->k->elementwise->axpy(end - begin, 1, a->rows + (size_t)i * row + at,
                                a->weight + (size_t)a->ids[i] * row + at);
}

static ct_tensor *embedding_forward(ct_call *c) {
    ct_tensor *ids = c->in[0], *weight = c->in[1];
    c->drop = CT_DROP_IN(1) | CT_DROP_OUT;
    if (!cti_op_is(c, 0, CT_I64)) return NULL;
    const bool bf16 = weight->dtype == CT_BF16, blocks = cti_is_blocks(weight->dtype);
    if (!bf16 && !blocks && !cti_op_is_real(c, 1)) return NULL;
    if (weight->shape.ndim != 2)
        return ct_fail(c->context, CT_ERR_SHAPE, "embedding: the weight %s is not (V, D)",
                       SHAPE(weight->shape));
    if (ids->shape.ndim == CT_MAX_DIMS)
        return ct_fail(c->context, CT_ERR_SHAPE, "embedding: ids %s have %d dims already",
                       SHAPE(ids->shape), CT_MAX_DIMS);
    if (!cti_op_indices_inside(c, ids, "index", weight->shape.dim[0], 0)) return NULL;
    ct_shape shape = ids->shape;
    shape.dim[shape.ndim++] = weight->shape.dim[1];
    ct_tensor *y = cti_op_new(c, cti_dtype_computed(weight->dtype), shape);
    if (y)
        cti_parallel(
            c->context, ids->numel, cti_op_grain(weight->shape.dim[1]), look_up_rows,
            &(embedding_lookup){
                .ids = (const int64_t *)ids->data,
                .n = weight->shape.dim[1],
                .size = cti_dtype_size(weight->dtype),
                .row_size = cti_dtype_size(y->dtype),
                .widen = bf16 ? c->context->isa->of[CT_BF16]->elementwise->cast[CT_F32] : NULL,
                .blocks = blocks ? weight : NULL,
                .weight = weight->data,
                .rows = y->data});
    return y;
}

static bool embedding_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    ct_tensor *ids = c->in[0];
    /* the ids are checked again, because they may be in a buffer of the caller that has changed */
    if (!cti_op_indices_inside(c, ids, "index", c->in[1]->shape.dim[0], 0)) return false;
    ct_tensor *dw = cti_op_grad_sum(c, 1);
    grad[1] = dw;
    if (!dw) return false;
    if (ids->numel == 0) return true;
    embedding_lookup a = {.ids = (const int64_t *)ids->data,
                          .tokens = ids->numel,
                          .n = dw->shape.dim[1],
                          .weight = dw->data,
                          .rows = g[0]->data};
    a.k = c->context->isa->of[dw->dtype];
    a.size = a.row_size = cti_dtype_size(dw->dtype);
    CTI_ASSERT(g[0]->dtype == dw->dtype);
    cti_parallel(c->context, a.n, EMBEDDING_COLUMNS * cti_op_grain(a.tokens * EMBEDDING_COLUMNS),
                 add_gradient_columns, &a);
    return true;
}

static const ct_op embedding = {.name = "embedding",
                                .forward = embedding_forward,
                                .backward = embedding_backward,
                                .flags = CTI_OP_READS_BLOCKS};

ct_tensor *ct_embedding(ct_tensor *ids, ct_tensor *weight) {
    return ct_apply(&embedding, (ct_tensor *[]){ids, weight}, 2, NULL);
}
