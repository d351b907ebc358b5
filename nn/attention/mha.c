/* Multi-head attention (Vaswani et al. 2017, arXiv:1706.03762), as torch.nn.MultiheadAttention with
 * batch_first, with heads of d = head_dim numbers, by default E / H:
 *
 *     Q = q Wq^T + bq    (B, T, H d)
 *     K = k Wk^T + bk    (B, S, H_kv d)
 *     V = v Wv^T + bv    (B, S, H_kv d)
 *     out = combine(softmax(scale Q_h K_h^T + masks) V_h) Wo^T + bo,   scale = 1 / sqrt d
 *
 * Wq, Wk, Wv are the rows of in_proj_weight (3 H d, E), or of q_proj_weight,
 * k_proj_weight and v_proj_weight if their widths differ; bq, bk, bv are the rows of in_proj_bias.
 * With `separate` they belong to the children q_proj, k_proj and v_proj, each of which a caller may
 * replace. With qk_norm RMSNorm is applied to the heads of Q and K, with rope they are rotated by
 * their positions, and with a cache K and V are appended to its keys and values. */
#include "mha.h"

#include "../../ops/attention/attention_hidden.h"
#include "../../src/core/block_matrix.h"
#include "../../ops/support/rotary.h"
#include "../bare.h"

#include <math.h>

/* ---- construction ---- */

static bool is_packed(const ct_mha_opts *o) {
    return !o->separate && o->kdim == o->embed_dim && o->vdim == o->embed_dim &&
           o->num_kv_heads == o->num_heads;
}

/* The widths of all heads of queries, and of all heads of keys or of values, side by side. */
static int64_t q_width(const ct_mha_opts *o) { return o->head_dim * o->num_heads; }
static int64_t kv_width(const ct_mha_opts *o) { return o->head_dim * o->num_kv_heads; }

/* Returns whether the projections of queries, keys and values have a bias. */
static bool in_biased(const ct_mha_opts *o) { return o->bias != CT_BIAS_NONE; }
static bool out_biased(const ct_mha_opts *o) { return o->bias == CT_BIAS_ALL; }

/* Replaces sizes that are 0 by their defaults, and checks them. */
static bool mha_check_sizes(ct_context *context, ct_mha_opts *o) {
    const ct_module_type *type = &cti_nn_mha_type;
    if (!o->num_kv_heads) o->num_kv_heads = o->num_heads;
    if (!o->kdim) o->kdim = o->embed_dim;
    if (!o->vdim) o->vdim = o->embed_dim;
    if (!o->head_dim && o->embed_dim % o->num_heads)
        ct_fail(context, CT_ERR_ARGUMENT,
                "%s: embed_dim %" PRId64 " is not divisible by num_heads %" PRId64
                ", and head_dim is 0",
                type->name, o->embed_dim, o->num_heads);
    if (o->num_heads % o->num_kv_heads)
        ct_fail(context, CT_ERR_ARGUMENT,
                "%s: num_heads %" PRId64 " is not divisible by num_kv_heads %" PRId64, type->name,
                o->num_heads, o->num_kv_heads);
    if (!o->head_dim) o->head_dim = o->embed_dim / o->num_heads;
    int64_t width = 0;
    if (__builtin_mul_overflow(o->head_dim, o->num_heads, &width) || width > INT64_MAX / 3)
        ct_fail(context, CT_ERR_MEMORY, "%s: 3 num_heads head_dim overflows", type->name);
    return cti_ready(context);
}

/* Replaces rotary options that are 0 by their defaults, and checks them. */
static bool mha_check_rotary(ct_context *context, ct_mha_opts *o) {
    const char *name = cti_nn_mha_type.name;
    if (!cti_rotary_check(context, "MultiheadAttention: rotary.", &o->rotary, o->head_dim))
        return false;
    if (o->rope && o->rotary.dims > o->head_dim)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: rotary.dims %" PRId64 " is more than head_dim %" PRId64, name,
                       o->rotary.dims, o->head_dim);
    if (o->rope && o->rotary.dims % 2)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: rope rotates pairs, and head_dim %" PRId64 " (embed_dim %" PRId64
                       ", num_heads %" PRId64 ") is odd",
                       name, o->head_dim, o->embed_dim, o->num_heads);
    return true;
}

static bool mha_check_options(ct_context *context, ct_mha_opts *o) {
    const ct_module_type *type = &cti_nn_mha_type;
    if (!cti_nn_check_size(context, type, "embed_dim", o->embed_dim, 1) ||
        !cti_nn_check_size(context, type, "num_heads", o->num_heads, 1) ||
        !cti_nn_check_size(context, type, "num_kv_heads", o->num_kv_heads, 0) ||
        !cti_nn_check_size(context, type, "kdim", o->kdim, 0) ||
        !cti_nn_check_size(context, type, "vdim", o->vdim, 0) ||
        !cti_nn_check_size(context, type, "head_dim", o->head_dim, 0) ||
        !cti_nn_check_chance(context, type, "dropout", o->dropout) ||
        !cti_nn_check_chance(context, type, "out_dropout", o->out_dropout) ||
        !cti_nn_check_number(context, type->name, "scale", cti_option(o->scale, 1)) ||
        !cti_nn_check_number(context, type->name, "softcap", o->softcap) ||
        !cti_nn_check_size(context, type, "window.left", o->window.left, 0) ||
        !cti_nn_check_size(context, type, "window.right", o->window.right, 0) ||
        !cti_nn_check_number(context, type->name, "qk_norm_offset", o->qk_norm_offset) ||
        !cti_nn_check_number(context, type->name, "qk_norm_eps", cti_option(o->qk_norm_eps, 1e-5)))
        return false;
    if ((unsigned)o->bias > CT_BIAS_NONE)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: bias is %d, which is no ct_bias", type->name,
                       (int)o->bias);
    if (o->bias == CT_BIAS_DEFAULT) o->bias = o->no_bias ? CT_BIAS_NONE : CT_BIAS_ALL;
    return mha_check_sizes(context, o) && mha_check_rotary(context, o);
}

/* Adds a Linear (out, in) as a child. Its bias starts at zero, as in torch's attention. */
static void mha_add_linear(ct_module *mha, const char *name, ct_linear_opts opts, bool xavier) {
    const ct_mha_opts *o = cti_nn_data(mha);
    opts.dtype = o->dtype;
    ct_module *linear = cti_nn_child_add(mha, name, ct_linear_new(mha->context, opts));
    if (linear && xavier) ct_init_xavier_uniform(cti_nn_param(linear, "weight"), 1);
    if (linear && !opts.no_bias) ct_init_constant(cti_nn_param(linear, "bias"), 0);
}

static void mha_add_projection(ct_module *mha, const char *name, int64_t in, int64_t out) {
    const bool no_bias = !in_biased(cti_nn_data(mha));
    mha_add_linear(mha, name,
                   (ct_linear_opts){.in_features = in, .out_features = out, .no_bias = no_bias},
                   true);
}

static void mha_add_matrix(ct_module *mha, const char *name, int64_t in, int64_t out, double gain) {
    const ct_mha_opts *o = cti_nn_data(mha);
    ct_init_xavier_uniform(cti_nn_param_new(mha, name, o->dtype, CT_SHAPE(out, in)), gain);
}

/* Adds the projections of queries, keys and values. */
static void mha_add_projections(ct_module *mha) {
    const ct_mha_opts *o = cti_nn_data(mha);
    const int64_t e = o->embed_dim, n = q_width(o), w = kv_width(o);
    if (o->separate) {
        mha_add_projection(mha, "q_proj", e, n);
        mha_add_projection(mha, "k_proj", o->kdim, w);
        mha_add_projection(mha, "v_proj", o->vdim, w);
        return;
    }
    if (is_packed(o)) {
        /* xavier's bound for (3n, E) is sqrt(6 / (E + 3n)); this gain makes it the bound for
         * (n, E) */
        const double one = (double)e + (double)n, all = one + 2 * (double)n;
        mha_add_matrix(mha, "in_proj_weight", e, 3 * n,
                       o->init == CT_INIT_XAVIER ? sqrt(all / one) : 1);
    } else {
        mha_add_matrix(mha, "q_proj_weight", e, n, 1);
        mha_add_matrix(mha, "k_proj_weight", o->kdim, w, 1);
        mha_add_matrix(mha, "v_proj_weight", o->vdim, w, 1);
    }
    if (in_biased(o))
        ct_init_constant(cti_nn_param_new(mha, "in_proj_bias", o->dtype, CT_SHAPE(n + 2 * w)), 0);
}

#define FREQUENCIES "rotary_frequencies"

static void mha_add_frequencies(ct_module *mha, const double *frequencies, int64_t n) {
    cti_frame frame;
    cti_frame_open(mha->context, &frame, true);
    ct_tensor *table = ct_from_f64(mha->context, CT_SHAPE(n), frequencies);
    if (table) ct_module_add_buffer(mha, FREQUENCIES, table, false);
    cti_frame_close(mha->context, &frame);
}

/* Checks the options and replaces 0 by defaults; returns the module without projections. */
static ct_module *mha_new_empty(ct_context *context, const ct_module_type *type, ct_mha_opts *o,
                                const cti_nn_mha_names *names) {
    if (!mha_check_options(context, o)) return NULL;
    const double *frequencies = o->rotary.frequencies;
    o->rotary.frequencies = NULL; /* the caller's array; the module reads its buffer */
    const cti_nn_mha data = {*o, names};
    ct_module *module = cti_nn_new(context, type, &data, sizeof data);
    if (module && o->rope && frequencies)
        mha_add_frequencies(module, frequencies, o->rotary.dims / 2);
    return module;
}

ct_module *ct_mha_new(ct_context *context, ct_mha_opts o) {
    static const cti_nn_mha_names names = {.q = "q_proj",
                                           .k = "k_proj",
                                           .v = "v_proj",
                                           .q_norm = "q_norm",
                                           .k_norm = "k_norm",
                                           .out = "out_proj"};
    ct_module *module = mha_new_empty(context, &cti_nn_mha_type, &o, &names);
    if (!module) return NULL;
    const int64_t w = kv_width(&o);
    mha_add_projections(module);
    if (o.add_bias_kv) {
        ct_init_xavier_normal(cti_nn_param_new(module, "bias_k", o.dtype, CT_SHAPE(1, 1, w)), 1);
        ct_init_xavier_normal(cti_nn_param_new(module, "bias_v", o.dtype, CT_SHAPE(1, 1, w)), 1);
    }
    mha_add_linear(module, "out_proj",
                   (ct_linear_opts){.in_features = q_width(&o),
                                    .out_features = o.embed_dim,
                                    .no_bias = !out_biased(&o)},
                   o.init == CT_INIT_XAVIER);
    if (o.qk_norm) {
        ct_rms_norm_opts norm = {
            .dim = o.head_dim, .eps = o.qk_norm_eps, .dtype = o.dtype, .offset = o.qk_norm_offset};
        cti_nn_child_add(module, "q_norm", ct_rms_norm_new(context, norm));
        cti_nn_child_add(module, "k_norm", ct_rms_norm_new(context, norm));
    }
    return cti_nn_made(module);
}

/* ---- the attention of a family's layer ---- */

ct_module *cti_nn_mha_named(ct_context *context, ct_mha_opts o, const cti_nn_mha_names *names) {
    o.separate = !names->qkv;
    return cti_nn_made(mha_new_empty(context, &cti_nn_family_mha_type, &o, names));
}

static void mha_add_empty_linear(ct_module *mha, const char *path, int64_t in, int64_t out,
                                 bool biased) {
    const ct_mha_opts *o = cti_nn_data(mha);
    const ct_linear_opts opts = {
        .in_features = in, .out_features = out, .no_bias = !biased, .dtype = o->dtype};
    cti_nn_add_at(mha, path, cti_nn_linear_empty(mha->context, opts));
}

static void mha_add_empty_norm(ct_module *mha, const char *path, int64_t heads) {
    const cti_nn_mha *data = cti_nn_data(mha);
    const ct_rms_norm_opts opts = {.dim = data->opts.head_dim *
                                          (data->names->wide_qk_norm ? heads : 1),
                                   .eps = data->opts.qk_norm_eps,
                                   .dtype = cti_dtype_computed(data->opts.dtype),
                                   .offset = data->opts.qk_norm_offset};
    cti_nn_add_at(mha, path, cti_nn_rms_norm_empty(mha->context, opts));
}

void cti_nn_mha_fill(ct_module *mha) {
    if (!mha) return;
    const cti_nn_mha *data = cti_nn_data(mha);
    const cti_nn_mha_names *names = data->names;
    const ct_mha_opts *o = &data->opts;
    const int64_t e = o->embed_dim, n = q_width(o), w = kv_width(o);
    if (names->qkv) mha_add_empty_linear(mha, names->qkv, e, n + 2 * w, in_biased(o));
    else {
        mha_add_empty_linear(mha, names->q, e, n, in_biased(o));
        mha_add_empty_linear(mha, names->k, e, w, in_biased(o));
        mha_add_empty_linear(mha, names->v, e, w, in_biased(o));
    }
    if (o->qk_norm) {
        mha_add_empty_norm(mha, names->q_norm, o->num_heads);
        mha_add_empty_norm(mha, names->k_norm, o->num_kv_heads);
    }
    mha_add_empty_linear(mha, names->out, n, e, out_biased(o));
    ((cti_nn_mha *)mha->block)->opts.dtype = cti_dtype_computed(o->dtype);
}

/* Returns the frequencies that the options gave; NULL: the powers of the base. */
static const ct_tensor *mha_frequencies(const ct_module *mha) {
    return mha->buffers ? cti_nn_find(mha, FREQUENCIES) : NULL;
}

static void rotary_describe(const ct_module *mha, const ct_rope_opts *o, int64_t d, FILE *file) {
    if (mha_frequencies(mha)) fprintf(file, ", rope=frequencies");
    else fprintf(file, ", rope=%g", o->base);
    if (o->interleaved) fprintf(file, " interleaved");
    if (o->dims != d) fprintf(file, " dims=%" PRId64, o->dims);
    if (o->attention_factor != 1) fprintf(file, " attention_factor=%g", o->attention_factor);
}

static void mha_describe(const void *self, FILE *file) {
    const ct_mha_opts *o = cti_nn_data(self);
    fprintf(file, "embed_dim=%" PRId64 ", num_heads=%" PRId64, o->embed_dim, o->num_heads);
    if (o->num_kv_heads != o->num_heads) fprintf(file, ", num_kv_heads=%" PRId64, o->num_kv_heads);
    if (q_width(o) != o->embed_dim) fprintf(file, ", head_dim=%" PRId64, o->head_dim);
    if (o->kdim != o->embed_dim) fprintf(file, ", kdim=%" PRId64, o->kdim);
    if (o->vdim != o->embed_dim) fprintf(file, ", vdim=%" PRId64, o->vdim);
    if (o->dropout > 0) fprintf(file, ", dropout=%g", o->dropout);
    if (o->out_dropout > 0) fprintf(file, ", out_dropout=%g", o->out_dropout);
    if (o->bias != CT_BIAS_ALL) fprintf(file, ", bias=%s", in_biased(o) ? "qkv" : "False");
    if (o->add_bias_kv) fprintf(file, ", add_bias_kv=True");
    if (o->add_zero_attn) fprintf(file, ", add_zero_attn=True");
    if (o->separate) fprintf(file, ", separate=True");
    if (o->scale != 0) fprintf(file, ", scale=%g", cti_option(o->scale, 1));
    if (o->softcap > 0) fprintf(file, ", softcap=%g", o->softcap);
    if (o->window.left || o->window.right)
        fprintf(file, ", window=(%" PRId64 ", %" PRId64 ")", o->window.left, o->window.right);
    if (o->rope) rotary_describe(self, &o->rotary, o->head_dim, file);
}

/* ---- projections ---- */

static ct_tensor *weight_rows(ct_tensor *x, int64_t start, int64_t length) {
    if (x && cti_is_blocks(x->dtype)) return cti_block_matrix_rows(x, start, length);
    return x ? ct_narrow(x, 0, start, length) : NULL;
}

/* Projects q, k and v by the children, which a caller may have replaced. */
static void mha_project_by_children(ct_module *mha, ct_tensor **q, ct_tensor **k, ct_tensor **v) {
    const cti_nn_mha *data = cti_nn_data(mha);
    const cti_nn_mha_names *names = data->names;
    const int64_t w = kv_width(&data->opts);
    *q = cti_nn_forward(mha, names->q, *q, q_width(&data->opts));
    if (!*k) return;
    *k = cti_nn_forward(mha, names->k, *k, w);
    *v = cti_nn_forward(mha, names->v, *v, w);
}

/* Projects x by the one child that makes Q, K and V. If its rows are interleaved, the results are
 * split in heads already, (B, H, T, d). */
static void mha_project_by_child(ct_module *mha, ct_tensor *x, ct_tensor **q, ct_tensor **k,
                                 ct_tensor **v) {
    const cti_nn_mha *data = cti_nn_data(mha);
    const ct_mha_opts *o = &data->opts;
    const int64_t n = q_width(o), w = kv_width(o), d = o->head_dim;
    ct_tensor *all = cti_nn_forward(mha, data->names->qkv, x, n + 2 * w);
    if (data->names->interleaved) {
        all = ct_split_heads(all, o->num_heads); /* (B, H, T, 3 d) */
        *q = ct_narrow(all, 3, 0, d);
        *k = ct_narrow(all, 3, d, d);
        *v = ct_narrow(all, 3, 2 * d, d);
    } else {
        *q = ct_narrow(all, 2, 0, n);
        *k = ct_narrow(all, 2, n, w);
        *v = ct_narrow(all, 2, n + w, w);
    }
}

/* Projects q, k and v, or only q if *k and *v are NULL. Inputs that are one tensor are projected by
 * one product, whose columns are narrowed afterwards. */
static void mha_project(ct_module *mha, ct_tensor **q, ct_tensor **k, ct_tensor **v) {
    const cti_nn_mha *data = cti_nn_data(mha);
    const ct_mha_opts *o = &data->opts;
    if (data->names->qkv) {
        mha_project_by_child(mha, *q, q, k, v);
        return;
    }
    if (o->separate) {
        mha_project_by_children(mha, q, k, v);
        return;
    }
    const int64_t n = q_width(o), w = kv_width(o);
    ct_tensor *weight = cti_nn_param(mha, "in_proj_weight"),
              *bias = cti_nn_param(mha, "in_proj_bias");
    if (weight && *q == *k && *k == *v) {
        ct_tensor *qkv = ct_linear(*q, weight, bias); /* (B, T, 3n) */
        *q = ct_narrow(qkv, 2, 0, n);
        *k = ct_narrow(qkv, 2, n, n);
        *v = ct_narrow(qkv, 2, 2 * n, n);
        return;
    }
    ct_tensor *wq = weight ? weight_rows(weight, 0, n) : cti_nn_param(mha, "q_proj_weight");
    *q = ct_linear(*q, wq, weight_rows(bias, 0, n));
    if (!*k) return;
    if (weight && *k == *v) {
        /* (B, S, 2n) */
        ct_tensor *kv = ct_linear(*k, weight_rows(weight, n, 2 * n), weight_rows(bias, n, 2 * n));
        *k = ct_narrow(kv, 2, 0, n);
        *v = ct_narrow(kv, 2, n, n);
        return;
    }
    ct_tensor *wk = weight ? weight_rows(weight, n, n) : cti_nn_param(mha, "k_proj_weight");
    ct_tensor *wv = weight ? weight_rows(weight, 2 * n, n) : cti_nn_param(mha, "v_proj_weight");
    *k = ct_linear(*k, wk, weight_rows(bias, n, w));
    *v = ct_linear(*v, wv, weight_rows(bias, n + w, w));
}

/* Returns the positions first, first + 1, ... of n tokens, for ct_rope; NULL if rope is off, or
 * they begin at 0. With a cache they are made also at 0, so that every token needs the same memory.
 */
static ct_tensor *positions_count(const cti_mha_plan *p, int64_t first, int64_t n) {
    if (!p->opts->rope || (first == 0 && !p->call->cache)) return NULL;
    return ct_arange(p->mha->context, CT_I64, (double)first, (double)(first + n), 1);
}

/* Returns the positions of the queries, (T), or (B, T) if the cache's rows have different lengths;
 * NULL as positions_count does. */
static ct_tensor *positions_of_queries(const cti_mha_plan *p) {
    const ct_mha_call *call = p->call;
    if (call->positions || !p->opts->rope) return call->positions;
    if (!p->offset || !cti_nn_cache_is_ragged(call->cache, p->t))
        return positions_count(p, call->rope_offset + p->offset, p->t);
    return ct_add_scalar(cti_nn_cache_indices(call->cache, p->t), (double)call->rope_offset);
}

/* Applies a norm to each head's row of x (B, T, H d), or to all heads' rows together. */
static ct_tensor *heads_norm(ct_module *mha, const char *norm, ct_tensor *x, int64_t heads) {
    const cti_nn_mha *data = cti_nn_data(mha);
    const int64_t d = data->opts.head_dim, parts = data->names->wide_qk_norm ? 1 : heads;
    const ct_shape shape = ct_shape_of(x);
    ct_tensor *rows = ct_reshape(x, CT_SHAPE(shape.dim[0], shape.dim[1], parts, heads / parts * d));
    return rows ? ct_reshape(cti_nn_forward(mha, norm, rows, heads / parts * d), shape) : NULL;
}

/* Returns the heads (B, H, T, d) of queries or keys (B, T, H d), after qk_norm and rope, if these
 * are enabled, at these positions. Those of an interleaved projection are heads already. */
static ct_tensor *heads_of(ct_module *mha, const char *norm, ct_tensor *positions, ct_tensor *x,
                           int64_t heads) {
    const ct_mha_opts *o = cti_nn_data(mha);
    if (!x) return NULL;
    if (x->shape.ndim == 3) {
        if (o->qk_norm) x = heads_norm(mha, norm, x, heads);
        x = ct_split_heads(x, heads);
    }
    if (!o->rope) return x;
    ct_rope_opts turn = o->rotary;
    turn.frequencies = cti_rotary_values(mha_frequencies(mha));
    return ct_rope(x, positions, turn);
}

/* Appends the keys or values of add_bias_kv (bias_k or bias_v) and add_zero_attn (zeros): (B, H_kv,
 * S, d) -> (B, H_kv, S + extra, d). */
static ct_tensor *heads_append_extra(const ct_module *mha, ct_tensor *x, const char *bias) {
    const ct_mha_opts *o = cti_nn_data(mha);
    if (!x || !cti_nn_mha_extra_keys(o)) return x;
    ct_shape one = x->shape;
    one.dim[2] = 1;
    ct_tensor *parts[3] = {x};
    int n = 1;
    if (o->add_bias_kv)
        parts[n++] = ct_expand(ct_split_heads(cti_nn_param(mha, bias), o->num_kv_heads), one);
    if (o->add_zero_attn) parts[n++] = ct_zeros(mha->context, x->dtype, one);
    return ct_cat(parts, n, 2);
}

/* ---- forward ---- */

static bool mha_check_inputs(const cti_mha_plan *p) {
    const ct_mha_opts *o = p->opts;
    ct_context *context = p->mha->context;
    const ct_tensor *q = p->q, *k = p->k, *v = p->v;
    const char *name = cti_nn_kind_name(p->mha);
    if (!cti_tensor_in(q, context, name) || !cti_tensor_in(k, context, name) ||
        !cti_tensor_in(v, context, name) || !cti_tensor_no_blocks(q, name) ||
        !cti_tensor_no_blocks(k, name) || !cti_tensor_no_blocks(v, name))
        return false;
    if (q->shape.ndim != 3 || q->shape.dim[2] != o->embed_dim)
        ct_fail(context, CT_ERR_SHAPE, "%s: expected query (B, T, %" PRId64 "), got %s", name,
                o->embed_dim, SHAPE(q->shape));
    if (k->shape.ndim != 3 || k->shape.dim[2] != o->kdim || k->shape.dim[0] != q->shape.dim[0])
        ct_fail(context, CT_ERR_SHAPE,
                "%s: expected key (%" PRId64 ", S, %" PRId64 ") with query %s, got %s", name,
                q->shape.dim[0], o->kdim, SHAPE(q->shape), SHAPE(k->shape));
    if (v->shape.ndim != 3 || v->shape.dim[2] != o->vdim || v->shape.dim[0] != k->shape.dim[0] ||
        v->shape.dim[1] != k->shape.dim[1])
        ct_fail(context, CT_ERR_SHAPE,
                "%s: expected value (%" PRId64 ", %" PRId64 ", %" PRId64 ") with key %s, got %s",
                name, k->shape.dim[0], k->shape.dim[1], o->vdim, SHAPE(k->shape), SHAPE(v->shape));
    return cti_ready(context);
}

/* Returns whether rope can use the call's positions or offset. If not, records an error. */
static bool mha_check_positions(const cti_mha_plan *p) {
    ct_context *context = p->mha->context;
    const char *name = cti_nn_kind_name(p->mha);
    const ct_tensor *x = p->call->positions;
    const int64_t rope_offset = p->call->rope_offset;
    /* counted positions are exact as doubles */
    const int64_t most = ((int64_t)1 << 53) - p->offset - (p->t > p->s ? p->t : p->s);
    if (rope_offset < -most || rope_offset > most)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: a rope_offset of %" PRId64, name,
                       rope_offset);
    if (!x) return true;
    if (!cti_tensor_in(x, context, name)) return false;
    if (rope_offset)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: positions and also a rope_offset of %" PRId64,
                       name, rope_offset);
    if (x->dtype != CT_I64)
        return ct_fail(context, CT_ERR_DTYPE, "%s: positions are %s, not i64", name,
                       cti_dtype_name(x->dtype));
    if ((x->shape.ndim != 1 && (x->shape.ndim != 2 || x->shape.dim[0] != p->batch)) ||
        x->shape.dim[x->shape.ndim - 1] != p->t)
        return ct_fail(context, CT_ERR_SHAPE,
                       "%s: expected positions (%" PRId64 ") or (%" PRId64 ", %" PRId64 "), got %s",
                       name, p->t, p->batch, p->t, SHAPE(x->shape));
    return true;
}

/* Checks all that a caller hands in, and sets all fields of p but its mha, q, k, v and call, of
 * which k and v may be NULL. */
static bool mha_plan(cti_mha_plan *p) {
    ct_module *mha = p->mha;
    const cti_nn_mha *data = cti_nn_data(mha);
    ct_kv_cache *cache = p->call->cache;
    if (!p->q || !p->k != !p->v)
        return ct_fail(mha->context, CT_ERR_ARGUMENT, "%s: %s is NULL", cti_nn_kind_name(mha),
                       !p->q  ? "query"
                       : p->k ? "value"
                              : "key");
    if (!p->k) p->k = p->v = p->q;
    p->opts = &data->opts;
    p->names = data->names;
    p->self = p->k == p->q;
    if (p->names->qkv && !(p->self && p->v == p->q))
        return ct_fail(mha->context, CT_ERR_ARGUMENT,
                       "%s: one product makes its queries, keys and values, so it is only for "
                       "self-attention",
                       cti_nn_kind_name(mha));
    if (!cti_nn_cache_in(cache, mha, "ct_mha_forward") || !mha_check_inputs(p)) return false;
    p->batch = p->q->shape.dim[0];
    p->t = p->q->shape.dim[1];
    p->s = p->k->shape.dim[1];
    p->offset = cache && p->self ? cache->length : 0;
    p->projected = cache && !p->self && cache->length > 0;
    p->packed = p->self && p->v == p->q && !cache && !p->opts->rope && !p->opts->qk_norm &&
                !cti_nn_mha_extra_keys(p->opts) && cti_nn_param(mha, "in_proj_weight");
    return (!cache || cti_nn_cache_takes(cache, p)) && cti_mha_check_masks(p) &&
           (!cache || cti_nn_cache_plan(cache, p->self, p->s, p->call->lengths)) &&
           mha_check_positions(p);
}

/* Zeroes hidden keys and values, except those that are also queries: they may hold NaN, and the
 * gradient of k_proj_weight would be 0 * NaN (attention_hidden.h, invariant 3). */
static void inputs_zero_hidden(const cti_mha_plan *p, ct_tensor **k, ct_tensor **v) {
    ct_tensor *seen = p->call->key_mask;
    if (p->k != p->q) *k = cti_hidden_zero_rows(p->k, seen);
    if (p->v == p->k) *v = *k;
    else if (p->v != p->q) *v = cti_hidden_zero_rows(p->v, seen);
}

/* Sets q, k and v to projected heads (B, H, T, d), with k and v including the heads in the cache.
 */
static bool mha_project_heads(const cti_mha_plan *p, ct_tensor **q, ct_tensor **k, ct_tensor **v) {
    const ct_mha_opts *o = p->opts;
    ct_module *mha = p->mha;
    ct_kv_cache *cache = p->call->cache;
    *q = p->q;
    *k = p->projected ? NULL : p->k;
    *v = p->projected ? NULL : p->v;
    if (p->call->key_mask && !cache) inputs_zero_hidden(p, k, v); /* a cache has no gradient */
    mha_project(mha, q, k, v);
    ct_tensor *positions = positions_of_queries(p);
    *q = heads_of(mha, p->names->q_norm, positions, *q, o->num_heads);
    if (p->projected) {
        cti_nn_cache_read(cache, k, v);
        return true;
    }
    if (!p->self) positions = positions_count(p, p->call->rope_offset, p->s);
    *k = heads_of(mha, p->names->k_norm, positions, *k, o->num_kv_heads); /* (B, H_kv, S, d) */
    *k = heads_append_extra(mha, *k, "bias_k");
    if (*v && (*v)->shape.ndim == 3) *v = ct_split_heads(*v, o->num_kv_heads);
    *v = heads_append_extra(mha, *v, "bias_v");
    return !cache || cti_nn_cache_extend(cache, p->offset, p->s, k, v);
}

static ct_mha_out mha_attend(const cti_mha_plan *p) {
    ct_module *mha = p->mha;
    const ct_mha_call *call = p->call;
    ct_tensor *q = NULL, *k = NULL, *v = NULL;
    if (!p->packed && !mha_project_heads(p, &q, &k, &v)) return (ct_mha_out){0};
    const ct_attention_opts opts = cti_mha_attention_opts(p);
    ct_attention_out a;
    if (p->packed) {
        ct_tensor *qkv =
            ct_linear(p->q, cti_nn_param(mha, "in_proj_weight"), cti_nn_param(mha, "in_proj_bias"));
        a = ct_packed_attention(qkv, p->opts->num_heads, opts);
    } else {
        a = ct_attention(q, k, v, opts);
        a.out = ct_combine_heads(a.out); /* (B, H, T, d) -> (B, T, H d) */
    }
    if (call->lengths && a.out) cti_mha_zero_queries(call->lengths, &a);
    ct_tensor *out = cti_nn_forward(mha, p->names->out, a.out, p->opts->embed_dim);
    const ct_mha_out y = {.out = cti_nn_dropout(mha, out, p->opts->out_dropout),
                          .weights = a.weights};
    if (call->cache && cti_ready(mha->context)) cti_nn_cache_grow(call->cache);
    return y;
}

ct_mha_out ct_mha_forward(ct_module *mha, ct_tensor *q, ct_tensor *k, ct_tensor *v,
                          ct_mha_call call) {
    const ct_mha_out none = {0};
    if (!cti_nn_mha_is_ready(mha, "ct_mha_forward", q)) return none;
    ct_context *context = mha->context;
    cti_nn_scope scope;
    cti_nn_enter(mha, &scope);
    cti_mha_plan plan = {.mha = mha, .q = q, .k = k, .v = v, .call = &call};
    ct_mha_out y = mha_plan(&plan) ? mha_attend(&plan) : none;
    if (!cti_ready(context)) y = none;
    cti_nn_hand_out(context, &scope, y.weights);
    cti_nn_leave(context, &scope, y.out);
    return y;
}

static ct_tensor *mha_forward(void *self, ct_tensor *x) {
    return ct_mha_forward(self, x, NULL, NULL, (ct_mha_call){0}).out;
}

const ct_module_type cti_nn_mha_type = {
    .name = "MultiheadAttention", .forward = mha_forward, .describe = mha_describe};
const ct_module_type cti_nn_family_mha_type = {.name = "Group", .forward = mha_forward};
