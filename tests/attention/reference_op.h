/* ops/attention/attention_reference.h as an op, with ct_attention's arguments and gradients. It
 * computes in f64, whatever the dtype, one query after another. */
#ifndef REFERENCE_OP_H
#define REFERENCE_OP_H

#include <stdlib.h>

#include <cotangent/cotangent.h>

#include "ops/attention/attention_reference.h"

enum {
    REFERENCE_Q,
    REFERENCE_K,
    REFERENCE_V,
    REFERENCE_BIAS,
    REFERENCE_MASK,
    REFERENCE_KEY_MASK,
    REFERENCE_LENGTHS,
    REFERENCE_SEGMENTS,
    REFERENCE_FACTORS,
    REFERENCE_INPUTS
};

typedef struct {
    double scale, softcap;
    ct_window window;
    bool causal, lower_right;
} reference_attrs;

static inline double *reference_numbers(const ct_tensor *x) {
    if (!x) return NULL;
    const int64_t n = ct_numel(x);
    double *y = calloc((size_t)n + 1, sizeof *y);
    ct_to_f64(x, y, n);
    return y;
}
static inline ct_tensor *reference_tensor(const ct_call *c, ct_shape shape, double *x) {
    ct_tensor *y = ct_cast(ct_from_f64(c->context, shape, x), ct_dtype_of(c->in[0]));
    free(x);
    return y;
}

/* Reads the inputs of a call; reference_close frees what was read. */
static inline attention_reference reference_open(const ct_call *c) {
    const reference_attrs *o = c->attrs;
    ct_tensor *const *in = c->in;
    const ct_shape q = ct_shape_of(in[REFERENCE_Q]), k = ct_shape_of(in[REFERENCE_K]);
    return (attention_reference){
        .batch = q.dim[0],
        .heads = q.dim[1],
        .kv_heads = k.dim[1],
        .t = q.dim[2],
        .s = k.dim[2],
        .d = q.dim[3],
        .dv = ct_dim(in[REFERENCE_V], 3),
        .q = reference_numbers(in[REFERENCE_Q]),
        .k = reference_numbers(in[REFERENCE_K]),
        .v = reference_numbers(in[REFERENCE_V]),
        .bias = reference_numbers(in[REFERENCE_BIAS]),
        .factors = reference_numbers(in[REFERENCE_FACTORS]),
        .mask = in[REFERENCE_MASK] ? ct_data_bool(in[REFERENCE_MASK]) : NULL,
        .key_mask = in[REFERENCE_KEY_MASK] ? ct_data_bool(in[REFERENCE_KEY_MASK]) : NULL,
        .lengths = in[REFERENCE_LENGTHS] ? ct_data_i64(in[REFERENCE_LENGTHS]) : NULL,
        .segments = in[REFERENCE_SEGMENTS] ? ct_data_i64(in[REFERENCE_SEGMENTS]) : NULL,
        .scale = o->scale,
        .softcap = o->softcap,
        .causal = o->causal,
        .lower_right = o->lower_right,
        .left = o->window.left,
        .right = o->window.right};
}
static inline void reference_close(const attention_reference *a) {
    free((void *)a->q), free((void *)a->k), free((void *)a->v);
    free((void *)a->bias), free((void *)a->factors);
}

static inline double *reference_zeros(int64_t n) { return calloc((size_t)n + 1, sizeof(double)); }

static inline ct_tensor *reference_op_forward(ct_call *c) {
    const attention_reference a = reference_open(c);
    const int64_t rows = a.batch * a.heads * a.t;
    double *out = reference_zeros(rows * a.dv), *p = reference_zeros(rows * a.s);
    reference_forward(&a, out, p);
    for (int64_t i = 0; i < rows * a.s && a.factors; i++) p[i] *= a.factors[i];
    c->outs[1] = reference_tensor(c, CT_SHAPE(a.batch, a.heads, a.t, a.s), p);
    reference_close(&a);
    return reference_tensor(c, CT_SHAPE(a.batch, a.heads, a.t, a.dv), out);
}

static inline bool reference_op_backward(const ct_call *c, ct_tensor *const *cotangents,
                                         ct_tensor **grad) {
    const attention_reference a = reference_open(c);
    const int64_t rows = a.batch * a.heads * a.t, n = a.batch * a.kv_heads * a.s;
    double *out = reference_zeros(rows * a.dv), *p = reference_zeros(rows * a.s),
           *dout = reference_numbers(cotangents[0]), *dweights = reference_numbers(cotangents[1]),
           *dx[4] = {reference_zeros(rows * a.d), reference_zeros(n * a.d),
                     reference_zeros(n * a.dv), reference_zeros(rows * a.s)};
    reference_forward(&a, out, p);
    if (!dout) dout = reference_zeros(rows * a.dv);
    reference_backward(&a, p, dout, dweights, dx[0], dx[1], dx[2], dx[3]);
    for (int i = 0; i < 4; i++)
        if (c->wants[i]) grad[i] = reference_tensor(c, ct_shape_of(c->in[i]), dx[i]);
        else free(dx[i]);
    free(out), free(p), free(dout), free(dweights);
    reference_close(&a);
    return true;
}

static const ct_op reference_op = {.name = "attention_reference",
                                   .attrs_size = sizeof(reference_attrs),
                                   .forward = reference_op_forward,
                                   .backward = reference_op_backward,
                                   .flags = CT_OP_OPTIONAL,
                                   .outputs = 2};

/* ct_attention(q, k, v, o) by the reference, always with the weights. Its dropout draws the factors
 * that ct_attention draws. */
static inline ct_attention_out reference_attention(ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                                   ct_attention_opts o) {
    ct_context *c = ct_context_of(q);
    const ct_shape n = ct_shape_of(q);
    const ct_shape pairs = CT_SHAPE(n.dim[0], n.dim[1], n.dim[2], ct_dim(k, 2));
    const double scale = o.scale == CT_ZERO ? 0 : 1 / sqrt((double)n.dim[3]);
    const reference_attrs attrs = {.scale = o.scale != 0 && o.scale != CT_ZERO ? o.scale : scale,
                                   .softcap = o.softcap,
                                   .window = o.window,
                                   .causal = o.causal,
                                   .lower_right = o.lower_right};
    if (o.mask && ct_dtype_of(o.mask) != CT_BOOL) o.bias = o.mask, o.mask = NULL;
    ct_tensor *in[REFERENCE_INPUTS] = {
        q,
        ct_cast(k, ct_dtype_of(q)),
        ct_cast(v, ct_dtype_of(q)),
        o.bias ? ct_expand(o.bias, pairs) : NULL,
        o.mask ? ct_expand(o.mask, pairs) : NULL,
        o.key_mask,
        o.lengths,
        o.segments,
        o.dropout > 0 ? ct_dropout(ct_full(c, ct_dtype_of(q), pairs, 1), o.dropout, true) : NULL};
    ct_tensor *outs[2] = {NULL, NULL};
    ct_apply_many(&reference_op, in, REFERENCE_INPUTS, &attrs, outs);
    if (outs[1] && o.mean_weights) outs[1] = ct_mean(outs[1], CT_DIMS(1), false);
    return (ct_attention_out){.out = outs[0], .weights = outs[1]};
}

#endif
