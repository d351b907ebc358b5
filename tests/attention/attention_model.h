/* Multi-head attention of elementary ops around the scalar reference, from the parameters of a
 * module, and the comparison of a module with it: values and all gradients in f64. */
#ifndef ATTENTION_MODEL_H
#define ATTENTION_MODEL_H

#include "tests/attention/reference_op.h"
#include "tests/support/nn_check.h"

static inline ct_tensor *param_of(ct_module *m, const char *name) {
    for (ct_param p = {0}; ct_module_next(m, &p);)
        if (!strcmp(p.name, name)) return p.tensor;
    return NULL;
}

/* Gives every parameter of one dim, and every bias, random values: no bias is 0 and no norm's
 * weight is 1. */
static inline ct_module *shaken(ct_module *module) {
    no_error();
    for (ct_param p = {0}; ct_module_next(module, &p);)
        if (ct_ndim(p.tensor) == 1 || strstr(p.name, "bias")) ct_init_normal(p.tensor, 0.5, 0.5);
    return module;
}

static inline ct_tensor *model_rms_norm(ct_tensor *x, ct_tensor *weight, double eps,
                                        double offset) {
    ct_tensor *mean = ct_mean(ct_mul(x, x), CT_DIMS(ct_ndim(x) - 1), true);
    return ct_mul(ct_div(x, ct_sqrt(ct_add_scalar(mean, eps))), ct_add_scalar(weight, offset));
}

/* The sizes of an attention, with defaults filled in. */
typedef struct {
    int64_t heads, kv_heads, d, kdim, vdim;
    double scale, eps;
} attention_sizes;
static inline attention_sizes sizes_of(const ct_mha_opts *o) {
    const int64_t d = o->head_dim ? o->head_dim : o->embed_dim / o->num_heads;
    return (attention_sizes){.heads = o->num_heads,
                             .kv_heads = o->num_kv_heads ? o->num_kv_heads : o->num_heads,
                             .d = d,
                             .kdim = o->kdim ? o->kdim : o->embed_dim,
                             .vdim = o->vdim ? o->vdim : o->embed_dim,
                             .scale = o->scale == CT_ZERO ? 0
                                      : o->scale != 0     ? o->scale
                                                          : 1 / sqrt((double)d),
                             .eps = o->qk_norm_eps != 0 ? o->qk_norm_eps : 1e-5};
}

/* The projection of x to queries (which 0), keys (1) or values (2), as heads (B, H, T, d). */
static inline ct_tensor *model_project(ct_module *m, const ct_mha_opts *o, int which,
                                       ct_tensor *x) {
    static const char letter[] = "qkv";
    const attention_sizes s = sizes_of(o);
    const int64_t heads = which ? s.kv_heads : s.heads, rows = heads * s.d,
                  first = which == 0   ? 0
                          : which == 1 ? s.heads * s.d
                                       : (s.heads + s.kv_heads) * s.d;
    char name[32];
    snprintf(name, sizeof name, "%c_proj.weight", letter[which]);
    ct_tensor *weight = param_of(m, name), *bias;
    if (weight) {
        snprintf(name, sizeof name, "%c_proj.bias", letter[which]);
        bias = param_of(m, name);
    } else {
        snprintf(name, sizeof name, "%c_proj_weight", letter[which]);
        weight = param_of(m, name);
        if (!weight) weight = ct_narrow(param_of(m, "in_proj_weight"), 0, first, rows);
        bias = param_of(m, "in_proj_bias");
        if (bias) bias = ct_narrow(bias, 0, first, rows);
    }
    ck_assert_int_eq(ct_dim(weight, 0), rows);
    ct_tensor *y = ct_matmul(x, ct_transpose(weight, 0, 1));
    if (bias) y = ct_add(y, bias);
    y = ct_reshape(y, CT_SHAPE(ct_dim(x, 0), ct_dim(x, 1), heads, s.d));
    return ct_permute(y, CT_DIMS(0, 2, 1, 3));
}

/* Norm and rotation of queries (which 0) or keys (1). */
static inline ct_tensor *model_turn(ct_module *m, const ct_mha_opts *o, int which, ct_tensor *x) {
    if (o->qk_norm)
        x = model_rms_norm(x, param_of(m, which ? "k_norm.weight" : "q_norm.weight"),
                           sizes_of(o).eps, o->qk_norm_offset);
    return o->rope ? ct_rope(x, NULL, o->rotary) : x;
}

/* Appends the extra keys or values. */
static inline ct_tensor *model_extend(ct_module *m, const ct_mha_opts *o, const char *bias,
                                      ct_tensor *x) {
    const attention_sizes s = sizes_of(o);
    const ct_shape one = CT_SHAPE(ct_dim(x, 0), s.kv_heads, 1, s.d);
    if (o->add_bias_kv) {
        ct_tensor *more = ct_reshape(param_of(m, bias), CT_SHAPE(1, s.kv_heads, 1, s.d));
        x = ct_cat((ct_tensor *[]){x, ct_expand(more, one)}, 2, 2);
    }
    if (o->add_zero_attn) x = ct_cat((ct_tensor *[]){x, ct_zeros(context, CT_F64, one)}, 2, 2);
    return x;
}

/* Widens x by `extra` keys of this value. */
static inline ct_tensor *model_widen(ct_tensor *x, int64_t extra, double value) {
    if (!extra) return x;
    ct_shape more = ct_shape_of(x);
    more.dim[3] = extra;
    return ct_cat((ct_tensor *[]){x, ct_full(context, ct_dtype_of(x), more, value)}, 2, 3);
}

/* The attention of module m, whose options are o, with the weights of each head. `seen` is a bool
 * mask that broadcasts to (B, H, T, S), or NULL; the extra keys are always seen. `bias` broadcasts
 * to the same shape, or is NULL. */
static inline ct_mha_out model_mha_biased(ct_module *m, const ct_mha_opts *o, ct_tensor *q,
                                          ct_tensor *k, ct_tensor *v, ct_tensor *seen,
                                          ct_tensor *bias) {
    const attention_sizes s = sizes_of(o);
    const int64_t b = ct_dim(q, 0), t = ct_dim(q, 1), keys = ct_dim(k, 1);
    ct_tensor *qq = model_turn(m, o, 0, model_project(m, o, 0, q)),
              *kk = model_turn(m, o, 1, model_project(m, o, 1, k)), *vv = model_project(m, o, 2, v);
    kk = model_extend(m, o, "bias_k", kk);
    vv = model_extend(m, o, "bias_v", vv);
    const ct_shape all = CT_SHAPE(b, s.heads, t, keys);
    const int64_t extra = ct_dim(kk, 2) - keys;
    if (bias) bias = model_widen(ct_expand(bias, all), extra, 0);
    if (seen) seen = model_widen(ct_expand(seen, all), extra, 1);
    const ct_attention_out a =
        reference_attention(qq, kk, vv,
                            (ct_attention_opts){.mask = seen,
                                                .bias = bias,
                                                .scale = s.scale != 0 ? s.scale : CT_ZERO,
                                                .softcap = o->softcap});
    ct_tensor *y = ct_permute(a.out, CT_DIMS(0, 2, 1, 3));
    y = ct_reshape(y, CT_SHAPE(b, t, s.heads * s.d));
    y = ct_matmul(y, ct_transpose(param_of(m, "out_proj.weight"), 0, 1));
    ct_tensor *last = param_of(m, "out_proj.bias");
    return (ct_mha_out){.out = last ? ct_add(y, last) : y, .weights = a.weights};
}
static inline ct_mha_out model_mha(ct_module *m, const ct_mha_opts *o, ct_tensor *q, ct_tensor *k,
                                   ct_tensor *v, ct_tensor *seen) {
    return model_mha_biased(m, o, q, k, v, seen, NULL);
}

/* ---- comparison ---- */

/* The results of one run: the outputs, then the gradients of the inputs and of all parameters. */
enum { MOST_RESULTS = 120 };
typedef struct {
    int n;
    ct_tensor *t[MOST_RESULTS]; /* NULL: no gradient has arrived */
    char name[MOST_RESULTS][64];
} results;

static inline void results_add(results *r, const char *name, ct_tensor *t) {
    ck_assert_int_lt(r->n, MOST_RESULTS);
    snprintf(r->name[r->n], sizeof *r->name, "%s", name);
    r->t[r->n++] = t ? ct_clone(ct_detach(t)) : NULL;
}

/* Runs backward from `n_outs` outputs with random cotangents, which depend only on their shapes,
 * and collects outputs and gradients, which it then clears. */
static inline results results_of(ct_module *m, ct_tensor *const *outs, int n_outs,
                                 ct_tensor *const *in, int n_in) {
    results r = {0};
    ct_tensor *cotangents[4];
    no_error();
    ct_seed(context, 77);
    for (int i = 0; i < n_outs; i++) {
        results_add(&r, "an output", outs[i]);
        cotangents[i] = randn(ct_shape_of(outs[i]));
    }
    ck_assert_msg(ct_backward_with(outs, cotangents, n_outs, (ct_backward_opts){0}), "%s",
                  ct_error_message(context));
    for (int i = 0; i < n_in; i++) {
        results_add(&r, "the gradient of an input", ct_grad(in[i]));
        ct_zero_grad(in[i]);
    }
    for (ct_param p = {0}; ct_module_next(m, &p);) {
        results_add(&r, p.name, ct_grad(p.tensor));
        ct_zero_grad(p.tensor);
    }
    no_error();
    return r;
}

/* Compares results. An error may be up to `gate` times the model's largest value, or times 1 if
 * that is larger: a gradient that is zero mathematically has no scale of its own. */
static inline void results_same(const char *what, const results *got, const results *want,
                                double gate) {
    ck_assert_int_eq(got->n, want->n);
    for (int i = 0; i < want->n; i++) {
        ck_assert_msg(!got->t[i] == !want->t[i], "%s: %s", what, want->name[i]);
        if (!want->t[i]) continue;
        const double off = distance(got->t[i], want->t[i]), scale = fmax(1, largest(want->t[i]));
        ck_assert_msg(off <= gate * scale, "%s: %s is off by %g of %g", what, want->name[i], off,
                      scale);
    }
}

/* An input with a gradient. */
static inline ct_tensor *leaf(ct_shape shape) { return ct_set_requires_grad(randn(shape), true); }

#endif
