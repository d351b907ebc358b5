/* matmul: C = A B, (..., M, K) @ (..., K, N) -> (..., M, N);
 * dA = G B',  dB = A' G, summed over the batch dims that were broadcast.
 *
 * A 1-D operand is a vector: A a row (K), B a column (K), and the result has no dim for it.
 * Operands may have any strides and are never copied, and gradients are accumulated in their grad
 * slots. */
#include "support/op.h"

#include "../src/gemm/contract.h"

static int matmul_batch_dims(const ct_tensor *x) {
    return x->shape.ndim > 2 ? x->shape.ndim - 2 : 0;
}

/* The size of a batch dim, counted back from the last one, and its step, or 0 if it is
 * broadcast. */
static int64_t matmul_batch_size(const ct_tensor *x, int back) {
    return back < matmul_batch_dims(x) ? x->shape.dim[matmul_batch_dims(x) - 1 - back] : 1;
}
static int64_t matmul_batch_step(const ct_tensor *x, int back) {
    return matmul_batch_size(x, back) == 1 ? 0 : x->stride[matmul_batch_dims(x) - 1 - back];
}

/* Describes the product. *p is set field by field without clearing it first: clearing and copying a
 * struct of this size takes as long as computing a small product. */
static void describe_matmul(cti_contraction *p, const ct_tensor *a, const ct_tensor *b,
                            const ct_tensor *c) {
    const int a_row = a->shape.ndim > 1,
              b_col = b->shape.ndim > 1; /* 0 for a vector, which lacks this dim */
    const int at_a = matmul_batch_dims(a), at_b = matmul_batch_dims(b),
              dims = at_a > at_b ? at_a : at_b;
    p->dims = dims;
    p->m = a_row ? (cti_contract_dim){a->shape.dim[at_a], {a->stride[at_a], 0, c->stride[dims]}}
                 : (cti_contract_dim){1, {0}};
    p->n = b_col ? (cti_contract_dim){b->shape.dim[at_b + 1],
                                      {0, b->stride[at_b + 1], c->stride[dims + a_row]}}
                 : (cti_contract_dim){1, {0}};
    p->k = (cti_contract_dim){a->shape.dim[at_a + a_row],
                              {a->stride[at_a + a_row], b->stride[at_b], 0}};
    for (int i = 0; i < dims; i++) {
        const int64_t size = c->shape.dim[dims - 1 - i];
        p->batch[i] = (cti_contract_dim){size,
                                         {matmul_batch_step(a, i), matmul_batch_step(b, i),
                                          size == 1 ? 0 : c->stride[dims - 1 - i]}};
    }
}

/* Turns a product into the product that computes the gradient of x, CTI_A or CTI_B: C and x change
 * places, and so do k and the dim that x does not have. */
static void exchange_with_c(cti_contraction *p, int x) {
    cti_contract_dim *outer = x == CTI_A ? &p->n : &p->m, *all[] = {&p->m, &p->n, &p->k};
    const cti_contract_dim k = p->k;
    p->k = *outer;
    *outer = k;
    for (int i = 0; i < 3 + p->dims; i++) {
        cti_contract_dim *d = i < 3 ? all[i] : &p->batch[i - 3];
        const int64_t step = d->step[x];
        d->step[x] = d->step[CTI_C];
        d->step[CTI_C] = step;
    }
}

/* Checks the operands and computes their product, except for two matrices that fit. It is not
 * inlined, so that two matrices do not pay for this stack frame. */
__attribute__((noinline)) static ct_tensor *
matmul_batched_forward(const ct_call *c, const ct_tensor *a, const ct_tensor *b) {
    if (a->shape.ndim == 0 || b->shape.ndim == 0)
        return ct_fail(c->context, CT_ERR_SHAPE, "matmul: a scalar has no inner size: %s @ %s",
                       SHAPE(a->shape), SHAPE(b->shape));
    if (a->shape.dim[a->shape.ndim - 1] != b->shape.dim[matmul_batch_dims(b)])
        return ct_fail(c->context, CT_ERR_SHAPE, "matmul: inner sizes differ: %s @ %s",
                       SHAPE(a->shape), SHAPE(b->shape));
    const int dims =
        matmul_batch_dims(a) > matmul_batch_dims(b) ? matmul_batch_dims(a) : matmul_batch_dims(b);
    ct_shape shape = {.ndim = dims};
    for (int i = 0; i < dims; i++) {
        const int64_t of_a = matmul_batch_size(a, i), of_b = matmul_batch_size(b, i);
        if (of_a != of_b && of_a != 1 && of_b != 1)
            return ct_fail(c->context, CT_ERR_SHAPE, "matmul: batch dims do not broadcast: %s @ %s",
                           SHAPE(a->shape), SHAPE(b->shape));
        shape.dim[dims - 1 - i] = of_a == 1 ? of_b : of_a;
    }
    if (a->shape.ndim > 1) shape.dim[shape.ndim++] = a->shape.dim[a->shape.ndim - 2];
    if (b->shape.ndim > 1) shape.dim[shape.ndim++] = b->shape.dim[b->shape.ndim - 1];

    ct_tensor *out = cti_tensor_of(c->context, a->dtype, &shape);
    if (!out) return NULL;
    cti_contraction p;
    describe_matmul(&p, a, b, out);
    return cti_contract(c->context, &p, (const ct_tensor *const[]){a, b, out}, NULL) ? out : NULL;
}

/* Two matrices go to cti_gemm without a description and a search for dims that merge, which would
 * take as long as a small product: 16 x 16 x 16 1.05 times as fast. */
static ct_tensor *matmul_forward(ct_call *c) {
    const ct_tensor *a = c->in[0], *b = c->in[1];
    if (!cti_op_is_real(c, 0) || !cti_op_same_dtype(c)) return NULL;
    c->drop = CT_DROP_OUT | (c->wants[0] ? 0 : CT_DROP_IN(1)) | (c->wants[1] ? 0 : CT_DROP_IN(0));
    if (a->shape.ndim != 2 || b->shape.ndim != 2 || a->shape.dim[1] != b->shape.dim[0])
        return matmul_batched_forward(c, a, b);
    const int64_t m = a->shape.dim[0], n = b->shape.dim[1], k = b->shape.dim[0];
    ct_shape shape; /* the shape that matmul_batched_forward would make */
    shape.ndim = 2, shape.dim[0] = m, shape.dim[1] = n;
    ct_tensor *out = cti_tensor_of(c->context, a->dtype, &shape);
    if (!out) return NULL;
    const cti_matrix of_a = cti_matrix_of(a, a->stride[0], a->stride[1]),
                     of_b = cti_matrix_of(b, b->stride[0], b->stride[1]),
                     of_out = cti_matrix_of(out, n, 1);
    return cti_gemm_single(c->context, m, n, k, &of_a, &of_b, &of_out, NULL) ? out : NULL;
}

static bool matmul_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    for (int x = CTI_A; x <= CTI_B; x++) {
        bool add;
        if (!c->wants[x]) continue;
        grad[x] = cti_grad_writable(c, x, &add);
        if (!grad[x]) return false;
        const ct_tensor *operand[CTI_OPERANDS] = {c->in[CTI_A], c->in[CTI_B], g[0]};
        cti_contraction p;
        operand[x] = grad[x];
        describe_matmul(&p, operand[CTI_A], operand[CTI_B], g[0]);
        exchange_with_c(&p, x);
        operand[x] = g[0];
        operand[CTI_C] = grad[x];
        if (!cti_contract(c->context, &p, operand, &(cti_gemm_epilogue){.add = add})) return false;
    }
    return true;
}

static const ct_op matmul = {.name = "matmul",
                             .forward = matmul_forward,
                             .backward = matmul_backward,
                             .flags = CT_OP_STRIDED};

ct_tensor *ct_matmul(ct_tensor *a, ct_tensor *b) {
    return ct_apply(&matmul, (ct_tensor *[]){a, b}, 2, NULL);
}
