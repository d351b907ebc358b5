/* Layers and stacks composed of elementary ops, from the parameters of a module. */
#ifndef LAYER_MODEL_H
#define LAYER_MODEL_H

#include "attention_model.h"

static inline double eps_of(const ct_layer_opts *o) { return o->eps != 0 ? o->eps : 1e-5; }

/* The norm `name` of module m. */
static inline ct_tensor *model_norm(ct_module *m, const ct_layer_opts *o, const char *name,
                                    ct_tensor *x) {
    char path[32];
    snprintf(path, sizeof path, "%s.weight", name);
    ct_tensor *weight = param_of(m, path);
    ck_assert_msg(weight, "%s", path);
    if (o->rms_norm) return model_rms_norm(x, weight, eps_of(o), o->norm_offset);
    const ct_shape last = CT_DIMS(ct_ndim(x) - 1);
    ct_tensor *away = ct_sub(x, ct_mean(x, last, true)),
              *var = ct_mean(ct_mul(away, away), last, true);
    ct_tensor *y = ct_mul(ct_div(away, ct_sqrt(ct_add_scalar(var, eps_of(o)))), weight);
    snprintf(path, sizeof path, "%s.bias", name);
    ct_tensor *bias = param_of(m, path);
    return bias ? ct_add(y, bias) : y;
}

static inline ct_tensor *model_linear(ct_module *m, const char *name, ct_tensor *x) {
    char path[32];
    snprintf(path, sizeof path, "%s.weight", name);
    ct_tensor *y = ct_matmul(x, ct_transpose(param_of(m, path), 0, 1));
    snprintf(path, sizeof path, "%s.bias", name);
    ct_tensor *bias = param_of(m, path);
    return bias ? ct_add(y, bias) : y;
}

static inline ct_tensor *model_feed(ct_module *m, const ct_layer_opts *o, ct_tensor *x) {
    static ct_tensor *(*const activation[])(ct_tensor *) = {[CT_RELU] = ct_relu,
                                                            [CT_GELU] = ct_gelu,
                                                            [CT_GELU_TANH] = ct_gelu_tanh,
                                                            [CT_SILU] = ct_silu};
    ct_tensor *h = model_linear(m, "linear1", x);
    h = o->gated ? ct_mul(activation[o->activation](model_linear(m, "gate", x)), h)
                 : activation[o->activation](h);
    return model_linear(m, "linear2", h);
}

/* The options of a layer's attention. */
static inline ct_mha_opts model_attn(const ct_layer_opts *o, bool cross) {
    ct_mha_opts a = o->attn;
    a.embed_dim = o->embed_dim, a.num_heads = o->num_heads, a.no_bias = o->no_bias;
    a.dtype = o->dtype;
    if (a.qk_norm_eps == 0) a.qk_norm_eps = o->eps;
    if (cross) a.rope = false;
    return a;
}

/* The result of sublayer i of n, counted from 1. They are self-attention, cross-attention if n is
 * 3, and the feed-forward. */
static inline ct_tensor *model_sublayer(ct_module *m, const ct_layer_opts *o, int i, int n,
                                        ct_tensor *x, ct_tensor *memory, ct_tensor *seen) {
    if (i == n) return model_feed(m, o, x);
    const ct_mha_opts a = model_attn(o, i == 2);
    ct_tensor *k = i == 2 ? memory : x;
    return model_mha(ct_module_child(m, i == 2 ? "multihead_attn" : "self_attn"), &a, x, k, k,
                     i == 2 ? NULL : seen)
        .out;
}

/* A layer; memory is NULL for an encoder layer. `seen` is the mask of self-attention, or NULL. */
static inline ct_tensor *model_layer(ct_module *m, const ct_layer_opts *o, ct_tensor *x,
                                     ct_tensor *memory, ct_tensor *seen) {
    const int n = memory ? 3 : 2;
    ct_tensor *sum = x;
    for (int i = 1; i <= n; i++) {
        char norm[24], after[24];
        snprintf(norm, sizeof norm, "norm%d", i);
        snprintf(after, sizeof after, "norm%d_out", i);
        ct_tensor *in = o->parallel ? x : sum;
        if (o->norm_first) in = model_norm(m, o, norm, in);
        ct_tensor *f = model_sublayer(m, o, i, n, in, memory, seen);
        if (o->sandwich) f = model_norm(m, o, after, f);
        sum = ct_add(sum, f);
        if (!o->norm_first) sum = model_norm(m, o, norm, sum);
    }
    return sum;
}

/* A stack of n layers, whose options are o[0], o[1], ...; with a norm if the module has one. */
static inline ct_tensor *model_stack(ct_module *m, const ct_layer_opts *o, int n, ct_tensor *x,
                                     ct_tensor *memory, ct_tensor *seen) {
    for (int i = 0; i < n; i++) {
        char name[24];
        snprintf(name, sizeof name, "layers.%d", i);
        x = model_layer(ct_module_child(m, name), &o[i], x, memory, seen);
    }
    return param_of(m, "norm.weight") ? model_norm(m, &o[0], "norm", x) : x;
}

#endif
