/* linear: Y = X W' + b, x (..., in), weight (out, in), bias (out) -> (..., out);
 * dX = G W,  dW = G' X,  db = sum of G's rows. As torch.nn.functional.linear; the bias may be
 * NULL. x may have any strides. W may be bf16 or blocks beside f32, and then has no gradient. */
#include "support/op.h"

#include "../src/gemm/contract.h"

/* Describes the rows of a tensor `in`, all its dims but the last, as dims of a product in which
 * `in` is operand x and `out` is operand y. The last of them becomes *m, the others batch dims,
 * whose number is returned. */
static int rows_as_dims(const ct_tensor *in, const ct_tensor *out, int x, int y,
                        cti_contract_dim *m, cti_contract_dim batch[CT_MAX_DIMS]) {
    const int rows = in->shape.ndim - 1;
    *m = (cti_contract_dim){1, {0}};
    for (int i = 0; i < rows; i++) {
        cti_contract_dim d = {in->shape.dim[i], {0}};
        d.step[x] = in->stride[i];
        d.step[y] = out->stride[i];
        if (i < rows - 1) batch[i] = d;
        else *m = d;
    }
    return rows > 1 ? rows - 1 : 0;
}

static ct_tensor *linear_forward(ct_call *c) {
    const ct_tensor *x = c->in[0], *w = c->in[1];
    ct_tensor *bias = c->in[2];
    if (!w) return ct_fail(c->context, CT_ERR_ARGUMENT, "linear: weight is NULL");
    if (!cti_op_is_real(c, 0) || !cti_op_same_dtype_or_weight(c, 1)) return NULL;
    if (w->shape.ndim != 2)
        return ct_fail(c->context, CT_ERR_SHAPE, "linear: weight must be (out, in), not %s",
                       SHAPE(w->shape));
    if (x->shape.ndim == 0 || x->shape.dim[x->shape.ndim - 1] != w->shape.dim[1])
        return ct_fail(c->context, CT_ERR_SHAPE, "linear: inner sizes differ: %s with weight %s",
                       SHAPE(x->shape), SHAPE(w->shape));
    const int last = x->shape.ndim - 1;
    const int64_t out_features = w->shape.dim[0];
    if (bias && (bias->shape.ndim != 1 || bias->shape.dim[0] != out_features))
        return ct_fail(c->context, CT_ERR_SHAPE, "linear: bias %s does not fit weight %s",
                       SHAPE(bias->shape), SHAPE(w->shape));

    c->drop = CT_DROP_OUT | CT_DROP_IN(2) | (c->wants[0] ? 0 : CT_DROP_IN(1)) |
              (c->wants[1] ? 0 : CT_DROP_IN(0));
    ct_shape shape = x->shape;
    shape.dim[last] = out_features;
    ct_tensor *y = cti_op_new(c, x->dtype, shape);
    if (!y) return NULL;
    cti_contraction p;
    p.n = (cti_contract_dim){out_features, {[CTI_B] = w->stride[0], [CTI_C] = 1}};
    p.k = (cti_contract_dim){w->shape.dim[1], {[CTI_A] = x->stride[last], [CTI_B] = w->stride[1]}};
    p.dims = rows_as_dims(x, y, CTI_A, CTI_C, &p.m, p.batch);
    if (bias) {
        bias = cti_tensor_dense(bias);
        if (!bias) return NULL;
    }
    const cti_gemm_epilogue end = {.bias = bias ? bias->data : NULL};
    return cti_contract(c->context, &p, (const ct_tensor *const[]){x, w, y}, &end) ? y : NULL;
}

static bool linear_backward(const ct_call *c, ct_tensor *const *g, ct_tensor **grad) {
    const ct_tensor *x = c->in[0], *w = c->in[1];
    const int last = x->shape.ndim - 1;
    const int64_t in = x->shape.dim[last], out = g[0]->shape.dim[last];
    cti_contraction p;
    bool add;
    if (c->wants[0]) { /* (..., out) @ (out, in) */
        grad[0] = cti_grad_writable(c, 0, &add);
        if (!grad[0]) return false;
        p.n = (cti_contract_dim){in, {[CTI_B] = w->stride[1], [CTI_C] = 1}};
        p.k = (cti_contract_dim){out, {[CTI_A] = g[0]->stride[last], [CTI_B] = w->stride[0]}};
        p.dims = rows_as_dims(g[0], grad[0], CTI_A, CTI_C, &p.m, p.batch);
        if (!cti_contract(c->context, &p, (const ct_tensor *const[]){g[0], w, grad[0]},
                          &(cti_gemm_epilogue){.add = add}))
            return false;
    }
    if (c->wants[1]) { /* (out, ...) @ (..., in): rows are summed over */
        grad[1] = cti_grad_writable(c, 1, &add);
        if (!grad[1]) return false;
        p.m = (cti_contract_dim){out, {[CTI_A] = g[0]->stride[last], [CTI_C] = in}};
        p.n = (cti_contract_dim){in, {[CTI_B] = x->stride[last], [CTI_C] = 1}};
        p.dims = rows_as_dims(g[0], x, CTI_A, CTI_B, &p.k, p.batch);
        if (!cti_contract(c->context, &p, (const ct_tensor *const[]){g[0], x, grad[1]},
                          &(cti_gemm_epilogue){.add = add}))
            return false;
    }
    return !c->wants[2] || cti_op_sum_to_input(c, 2, g[0], &grad[2]);
}

static const ct_op linear = {.name = "linear",
                             .forward = linear_forward,
                             .backward = linear_backward,
                             .flags = CT_OP_STRIDED | CT_OP_OPTIONAL | CTI_OP_READS_BLOCKS};

ct_tensor *ct_linear(ct_tensor *x, ct_tensor *weight, ct_tensor *bias) {
    return ct_apply(&linear, (ct_tensor *[]){x, weight, bias}, 3, NULL);
}
