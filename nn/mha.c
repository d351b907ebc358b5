/* Multi-head attention (Vaswani et al. 2017, arXiv:1706.03762), as torch.nn.MultiheadAttention with batch_first:
 *
 *     Q = q Wq^T + bq (B, T, E)    K = k Wk^T + bk (B, S, H_kv d)    V = v Wv^T + bv (B, S, H_kv d)    d = E / H
 *     out = combine(softmax(Q_h K_h^T / sqrt d + masks) V_h) Wo^T + bo
 *
 * Wq, Wk, Wv are the rows of in_proj_weight (3E, E), or where their widths differ q_proj_weight, k_proj_weight and
 * v_proj_weight; bq, bk, bv are those of in_proj_bias either way. */
#include "mha.h"

#include <math.h>

/* ---- making ---- */

static bool is_packed(const ct_mha_opts *o) {
    return o->kdim == o->embed_dim && o->vdim == o->embed_dim && o->num_kv_heads == o->num_heads;
}

static int64_t kv_width(const ct_mha_opts *o) { return o->embed_dim / o->num_heads * o->num_kv_heads; }

static int64_t extra_keys(const ct_mha_opts *o) { return o->add_bias_kv + o->add_zero_attn; }

static bool check_options(ct_context *context, ct_mha_opts *o) {
    const nn_kind *kind = &nn_mha_kind;
    if (!nn_check_size(context, kind, "embed_dim", o->embed_dim, 1) || !nn_check_size(context, kind, "num_heads", o->num_heads, 1) ||
        !nn_check_size(context, kind, "num_kv_heads", o->num_kv_heads, 0) || !nn_check_size(context, kind, "kdim", o->kdim, 0) ||
        !nn_check_size(context, kind, "vdim", o->vdim, 0) || !nn_check_chance(context, kind, "dropout", o->dropout) ||
        !nn_check_chance(context, kind, "out_dropout", o->out_dropout))
        return false;
    if (!o->num_kv_heads) o->num_kv_heads = o->num_heads;
    if (!o->kdim) o->kdim = o->embed_dim;
    if (!o->vdim) o->vdim = o->embed_dim;
    if (o->embed_dim % o->num_heads)
        ct_fail(context, CT_ERR_ARGUMENT, "%s: embed_dim %" PRId64 " is not divisible by num_heads %" PRId64, kind->name, o->embed_dim,
                o->num_heads);
    else if (o->num_heads % o->num_kv_heads)
        ct_fail(context, CT_ERR_ARGUMENT, "%s: num_heads %" PRId64 " is not divisible by num_kv_heads %" PRId64, kind->name, o->num_heads,
                o->num_kv_heads);
    else if (o->embed_dim > INT64_MAX / 3) ct_fail(context, CT_ERR_MEMORY, "%s: 3 embed_dim overflows", kind->name);
    else return true;
    return false;
}

ct_module *ct_mha_new(ct_context *context, ct_mha_opts o) {
    if (!check_options(context, &o)) return NULL;
    ct_module *module = nn_new(context, &nn_mha_kind);
    if (!module) return NULL;
    *(ct_mha_opts *)nn_data(module) = o;
    int64_t e = o.embed_dim, w = kv_width(&o);
    if (is_packed(&o)) { /* gain sqrt 2: the bound of three (E, E) matrices instead of one (3E, E) */
        ct_tensor *weight = nn_param_new(module, "in_proj_weight", o.dtype, CT_SHAPE(3 * e, e));
        ct_init_xavier_uniform(weight, o.init == CT_INIT_XAVIER ? sqrt(2) : 1);
    } else {
        ct_init_xavier_uniform(nn_param_new(module, "q_proj_weight", o.dtype, CT_SHAPE(e, e)), 1);
        ct_init_xavier_uniform(nn_param_new(module, "k_proj_weight", o.dtype, CT_SHAPE(w, o.kdim)), 1);
        ct_init_xavier_uniform(nn_param_new(module, "v_proj_weight", o.dtype, CT_SHAPE(w, o.vdim)), 1);
    }
    if (!o.no_bias) ct_init_constant(nn_param_new(module, "in_proj_bias", o.dtype, CT_SHAPE(e + 2 * w)), 0);
    if (o.add_bias_kv) {
        ct_init_xavier_normal(nn_param_new(module, "bias_k", o.dtype, CT_SHAPE(1, 1, w)), 1);
        ct_init_xavier_normal(nn_param_new(module, "bias_v", o.dtype, CT_SHAPE(1, 1, w)), 1);
    }
    ct_module *out = nn_child_add(module, "out_proj", ct_linear_new(context, (ct_linear_opts){e, e, o.no_bias, o.dtype}));
    if (out && o.init == CT_INIT_XAVIER) ct_init_xavier_uniform(nn_param(out, "weight"), 1);
    if (out && !o.no_bias) ct_init_constant(nn_param(out, "bias"), 0);
    return nn_made(module);
}

static void describe(const ct_module *module, FILE *file) {
    const ct_mha_opts *o = nn_data(module);
    fprintf(file, "embed_dim=%" PRId64 ", num_heads=%" PRId64, o->embed_dim, o->num_heads);
    if (o->num_kv_heads != o->num_heads) fprintf(file, ", num_kv_heads=%" PRId64, o->num_kv_heads);
    if (o->kdim != o->embed_dim) fprintf(file, ", kdim=%" PRId64, o->kdim);
    if (o->vdim != o->embed_dim) fprintf(file, ", vdim=%" PRId64, o->vdim);
    if (o->dropout > 0) fprintf(file, ", dropout=%g", o->dropout);
    if (o->out_dropout > 0) fprintf(file, ", out_dropout=%g", o->out_dropout);
    if (o->no_bias) fprintf(file, ", bias=False");
    if (o->add_bias_kv) fprintf(file, ", add_bias_kv=True");
    if (o->add_zero_attn) fprintf(file, ", add_zero_attn=True");
}

/* ---- projections ---- */

static ct_tensor *rows(ct_tensor *x, int64_t start, int64_t length) { return x ? ct_narrow(x, 0, start, length) : NULL; }

/* One product for all that have the same input, cut by columns. */
static void project(const ct_module *mha, ct_tensor **q, ct_tensor **k, ct_tensor **v) {
    const ct_mha_opts *o = nn_data(mha);
    int64_t e = o->embed_dim, w = kv_width(o);
    ct_tensor *weight = nn_param(mha, "in_proj_weight"), *bias = nn_param(mha, "in_proj_bias");
    if (weight && *q == *k && *k == *v) {
        ct_tensor *qkv = ct_linear(*q, weight, bias); /* (B, T, 3E) */
        *q = ct_narrow(qkv, 2, 0, e);
        *k = ct_narrow(qkv, 2, e, e);
        *v = ct_narrow(qkv, 2, 2 * e, e);
        return;
    }
    ct_tensor *wq = weight ? rows(weight, 0, e) : nn_param(mha, "q_proj_weight");
    *q = ct_linear(*q, wq, rows(bias, 0, e));
    if (weight && *k == *v) {
        ct_tensor *kv = ct_linear(*k, rows(weight, e, 2 * e), rows(bias, e, 2 * e)); /* (B, S, 2E) */
        *k = ct_narrow(kv, 2, 0, e);
        *v = ct_narrow(kv, 2, e, e);
        return;
    }
    ct_tensor *wk = weight ? rows(weight, e, e) : nn_param(mha, "k_proj_weight");
    ct_tensor *wv = weight ? rows(weight, 2 * e, e) : nn_param(mha, "v_proj_weight");
    *k = ct_linear(*k, wk, rows(bias, e, w));
    *v = ct_linear(*v, wv, rows(bias, e + w, w));
}

/* Appends bias_k or bias_v, then a zero, as one more key or value each: (B, H_kv, S, d) -> (B, H_kv, S + extra, d). */
static ct_tensor *append(const ct_module *mha, ct_tensor *x, const char *bias) {
    const ct_mha_opts *o = nn_data(mha);
    if (!x || !extra_keys(o)) return x;
    ct_shape one = x->shape;
    one.dim[2] = 1;
    ct_tensor *parts[3] = {x};
    int n = 1;
    if (o->add_bias_kv) parts[n++] = ct_expand(ct_split_heads(nn_param(mha, bias), o->num_kv_heads), one);
    if (o->add_zero_attn) parts[n++] = ct_zeros(mha->context, x->dtype, one);
    return ct_ready(mha->context) ? ct_cat(parts, n, 2) : NULL;
}

/* ---- masks ---- */

/* bool (T, S): query i, which stands at offset + i, sees keys up to its own. */
static ct_tensor *causal_mask(ct_context *context, int64_t t, int64_t s, int64_t offset) {
    ct_tensor *query = ct_arange(context, CT_I64, (double)offset, (double)(offset + t), 1);
    ct_tensor *key = ct_arange(context, CT_I64, 0, (double)s, 1);
    return ct_ge(ct_unsqueeze(query, 1), key);
}

/* Widens a mask over s keys by keys that every query may attend to. */
static ct_tensor *pad(ct_tensor *mask, int64_t s, int64_t extra) {
    if (!mask || !extra) return mask;
    ct_shape shape = mask->shape;
    if (!shape.ndim) shape.ndim = 1, shape.dim[0] = 1;
    int64_t *last = &shape.dim[shape.ndim - 1];
    if (*last == 1) *last = s;
    ct_tensor *whole = ct_expand(mask, shape);
    *last = extra;
    ct_tensor *open = ct_full(mask->context, mask->dtype, shape, mask->dtype == CT_BOOL);
    return whole && open ? ct_cat((ct_tensor *[]){whole, open}, 2, shape.ndim - 1) : NULL;
}

/* Both apply: a float mask is -inf where the bool one is false. */
static ct_tensor *combine(ct_tensor *bools, ct_tensor *mask) {
    if (!mask || !bools) return bools;
    if (mask->dtype == CT_BOOL) return ct_logical_and(bools, mask);
    return ct_where(bools, mask, ct_full(mask->context, mask->dtype, CT_SCALAR, -INFINITY));
}

/* The masks over s keys, of which `offset` are from a cache, then the extra ones that no mask hides. */
static void prepare_masks(const ct_module *mha, ct_mha_call *call, int64_t t, int64_t s, int64_t offset) {
    int64_t extra = extra_keys(nn_data(mha));
    if (call->causal && (extra || offset)) { /* else ct_attention's own does */
        if (extra || t > 1) call->mask = combine(causal_mask(mha->context, t, s, offset), call->mask);
        call->causal = false;
    }
    call->mask = pad(call->mask, s, extra);
    call->key_mask = pad(call->key_mask, s, extra);
}

/* ---- forward ---- */

static bool check_inputs(const ct_module *mha, const ct_tensor *q, const ct_tensor *k, const ct_tensor *v) {
    const ct_mha_opts *o = nn_data(mha);
    ct_context *context = mha->context;
    const char *name = nn_kind_name(mha);
    if (q->context != context || k->context != context || v->context != context)
        ct_fail(context, CT_ERR_ARGUMENT, "%s: an input is of another context", name);
    else if (q->shape.ndim != 3 || q->shape.dim[2] != o->embed_dim)
        ct_fail(context, CT_ERR_SHAPE, "%s: expected query (B, T, %" PRId64 "), got %s", name, o->embed_dim, SHAPE(q->shape));
    else if (k->shape.ndim != 3 || k->shape.dim[2] != o->kdim || k->shape.dim[0] != q->shape.dim[0])
        ct_fail(context, CT_ERR_SHAPE, "%s: expected key (%" PRId64 ", S, %" PRId64 ") with query %s, got %s", name, q->shape.dim[0],
                o->kdim, SHAPE(q->shape), SHAPE(k->shape));
    else if (v->shape.ndim != 3 || v->shape.dim[2] != o->vdim || v->shape.dim[0] != k->shape.dim[0] || v->shape.dim[1] != k->shape.dim[1])
        ct_fail(context, CT_ERR_SHAPE, "%s: expected value (%" PRId64 ", %" PRId64 ", %" PRId64 ") with key %s, got %s", name,
                k->shape.dim[0], k->shape.dim[1], o->vdim, SHAPE(k->shape), SHAPE(v->shape));
    else return true;
    return false;
}

static ct_mha_out attend(ct_module *mha, ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_mha_call call) {
    const ct_mha_opts *o = nn_data(mha);
    int64_t t = q->shape.dim[1], s = k->shape.dim[1], offset = call.cache ? call.cache->length : 0;
    project(mha, &q, &k, &v);
    q = ct_split_heads(q, o->num_heads);    /* (B, H, T, d) */
    k = ct_split_heads(k, o->num_kv_heads); /* (B, H_kv, S, d) */
    v = ct_split_heads(v, o->num_kv_heads);
    if (call.cache && !nn_cache_extend(call.cache, &k, &v)) return (ct_mha_out){0};
    k = append(mha, k, "bias_k");
    v = append(mha, v, "bias_v");
    prepare_masks(mha, &call, t, offset + s, offset);

    ct_attention_opts opts = {.mask = call.mask, .key_mask = call.key_mask, .causal = call.causal, .need_weights = call.need_weights};
    if (mha->training) opts.dropout = o->dropout;
    ct_attention_out a = ct_attention(q, k, v, opts);
    ct_mha_out y = {.out = nn_forward(mha, "out_proj", ct_combine_heads(a.out))}; /* (B, H, T, d) -> (B, T, E) */
    y.out = nn_dropout(mha, y.out, o->out_dropout);
    if (call.need_weights) y.weights = call.per_head ? a.weights : ct_mean(a.weights, CT_DIMS(1), false);
    if (call.cache && ct_ready(mha->context)) call.cache->length += t;
    return y;
}

ct_mha_out ct_mha_forward(ct_module *mha, ct_tensor *q, ct_tensor *k, ct_tensor *v, ct_mha_call call) {
    ct_mha_out none = {0};
    if (!nn_is(mha, &nn_mha_kind, "ct_mha_forward")) return none;
    ct_context *context = mha->context;
    if (!q || !k != !v) {
        ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is NULL", nn_kind_name(mha), !q ? "query" : k ? "value" : "key");
        return none;
    }
    if (!k) k = v = q;
    if (!check_inputs(mha, q, k, v) || (call.cache && !nn_cache_takes(call.cache, mha, q, k->shape.dim[1]))) return none;
    ct_frame frame;
    ct_frame_open(context, &frame, false);
    ct_mha_out y = attend(mha, q, k, v, call);
    if (!ct_ready(context)) y = none;
    nn_hand_out(context, &frame, y.weights);
    ct_frame_return(context, &frame, y.out);
    return y;
}

static ct_tensor *forward(ct_module *mha, ct_tensor *x) { return ct_mha_forward(mha, x, NULL, NULL, (ct_mha_call){0}).out; }

const nn_kind nn_mha_kind = {"MultiheadAttention", forward, describe, sizeof(ct_mha_opts), NULL};
