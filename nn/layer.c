/* A transformer layer: its options and its children. layer_forward.c runs it. */
#include "layer.h"

#include <string.h>

#include "attention/mha.h"
#include "bare.h"

/* ---- names ---- */

static const cti_nn_layer_names names_of_torch = {
    .attention = {"self_attn", "multihead_attn"},
    .feed = {.in = "linear1", .gate = "gate", .out = "linear2"},
    .norm = {"norm1", "norm2", "norm3"},
    .norm_out = {"norm1_out", "norm2_out", "norm3_out"},
};

static bool is_of_family(const ct_module *layer) {
    return layer->type == &cti_nn_family_layer_type;
}

/* ---- options ---- */

/* Returns whether the options of attention leave to the layer what the layer decides. */
static bool layer_attention_check(ct_context *context, const ct_module_type *type,
                                  const ct_layer_opts *o) {
    const ct_mha_opts *a = &o->attn;
    const char *set = a->embed_dim         ? "embed_dim"
                      : a->num_heads       ? "num_heads"
                      : a->dropout != 0    ? "dropout"
                      : a->no_bias         ? "no_bias"
                      : a->dtype != CT_F32 ? "dtype"
                                           : NULL;
    if (set)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: attn.%s is set; it must be 0, because the layer's own %s is also its "
                       "attention's",
                       type->name, set, set);
    const bool wide_k = a->kdim && a->kdim != o->embed_dim,
               wide_v = a->vdim && a->vdim != o->embed_dim;
    if (wide_k || wide_v)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: attn.%s is %" PRId64 ", but the keys and values of a layer have its "
                       "embed_dim %" PRId64,
                       type->name, wide_k ? "kdim" : "vdim", wide_k ? a->kdim : a->vdim,
                       o->embed_dim);
    return true;
}

/* Replaces `hidden` by its default if it is 0, and checks the options. */
static bool layer_check_options(ct_context *context, const ct_module_type *type, ct_layer_opts *o) {
    if (!cti_nn_check_size(context, type, "embed_dim", o->embed_dim, 1) ||
        !cti_nn_check_size(context, type, "hidden", o->hidden, 0) ||
        !cti_nn_check_chance(context, type, "dropout", o->dropout) ||
        !cti_nn_activation_check(context, type, o->activation) ||
        !layer_attention_check(context, type, o))
        return false;
    if (o->norm_offset != 0 && !o->rms_norm)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: norm_offset %g needs rms_norm", type->name,
                       o->norm_offset);
    if ((o->sandwich || o->parallel) && !o->norm_first)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s needs norm_first", type->name,
                       o->sandwich ? "sandwich" : "parallel");
    if (!o->hidden && o->embed_dim > INT64_MAX / 4)
        return ct_fail(context, CT_ERR_MEMORY, "%s: 4 embed_dim overflows", type->name);
    if (!o->hidden) o->hidden = 4 * o->embed_dim;
    return true;
}

/* The options of a layer's attention. Rotary positions and the window are only in self-attention:
 * in cross-attention queries and keys are positions of two different sequences, whose difference
 * means nothing. */
static ct_mha_opts attention_of(const ct_module *layer, bool cross) {
    const cti_nn_layer *data = cti_nn_data(layer);
    const ct_layer_opts *o = &data->opts;
    ct_mha_opts a = o->attn;
    a.embed_dim = o->embed_dim, a.num_heads = o->num_heads;
    a.dropout = data->more.attention_dropout, a.no_bias = o->no_bias, a.dtype = o->dtype;
    if (a.qk_norm_eps == 0) a.qk_norm_eps = o->eps;
    if (cross) a.rope = false, a.rotary = (ct_rope_opts){0}, a.window = (ct_window){0};
    return a;
}

/* ---- children ---- */

/* Does a path lead to the child of that name, or below it? */
static bool path_leads_to(const char *path, const char *name) {
    const size_t length = name ? strlen(name) : 0;
    return length && !strncmp(path, name, length) && (path[length] == '.' || !path[length]);
}

/* Makes the attention or the feed-forward of a family's layer, without children, if a path leads to
 * it and it is missing. */
static void owner_make(ct_module *layer, const char *path) {
    const cti_nn_layer *data = cti_nn_data(layer);
    const cti_nn_layer_names *names = data->more.names;
    const ct_layer_opts *o = &data->opts;
    if (path_leads_to(path, names->attention[0]) && !cti_nn_child(layer, names->attention[0]))
        cti_nn_child_add(layer, names->attention[0],
                         cti_nn_mha_named(layer->context, attention_of(layer, false), &names->mha));
    if (path_leads_to(path, names->feed_forward) && !cti_nn_child(layer, names->feed_forward)) {
        const ct_mlp_opts mlp = {.dim = o->embed_dim,
                                 .hidden = o->hidden,
                                 .activation = o->activation,
                                 .dropout = data->more.hidden_dropout,
                                 .gated = o->gated};
        cti_nn_child_add(layer, names->feed_forward,
                         cti_nn_mlp_named(layer->context, mlp, &names->feed));
    }
}

static void layer_add_norm(ct_module *layer, const char *path) {
    const ct_layer_opts *o = cti_nn_data(layer);
    if (!path) return;
    if (!is_of_family(layer)) {
        cti_nn_child_add(layer, path, cti_nn_layer_norm_new(layer->context, o));
        return;
    }
    owner_make(layer, path);
    const ct_dtype dtype = cti_dtype_computed(o->dtype);
    const ct_rms_norm_opts rms = {
        .dim = o->embed_dim, .eps = o->eps, .dtype = dtype, .offset = o->norm_offset};
    const ct_layer_norm_opts norm = {.dim = o->embed_dim, .eps = o->eps, .dtype = dtype};
    cti_nn_add_at(layer, path,
                  o->rms_norm ? cti_nn_rms_norm_empty(layer->context, rms)
                              : cti_nn_layer_norm_empty(layer->context, norm));
}

static void layer_add_linear(ct_module *layer, const char *name, int64_t in, int64_t out) {
    const cti_nn_layer *data = cti_nn_data(layer);
    const ct_linear_opts opts = {.in_features = in,
                                 .out_features = out,
                                 .no_bias = data->opts.no_bias,
                                 .dtype = data->opts.dtype};
    if (!is_of_family(layer)) {
        cti_nn_child_add(layer, name, ct_linear_new(layer->context, opts));
        return;
    }
    const char *feed = data->more.names->feed_forward;
    if (feed) owner_make(layer, feed);
    ct_module *owner = feed ? ct_module_child(layer, feed) : layer;
    cti_nn_add_at(owner, name, cti_nn_linear_empty(layer->context, opts));
}

static void layer_add_feed(ct_module *layer) {
    const cti_nn_layer *data = cti_nn_data(layer);
    const cti_nn_feed_names *names = &data->more.names->feed;
    const int64_t e = data->opts.embed_dim, hidden = data->opts.hidden;
    const bool gate_first = is_of_family(layer), gated = data->opts.gated && !names->gate_in;
    if (gated && gate_first) layer_add_linear(layer, names->gate, e, hidden);
    if (names->gate_in) layer_add_linear(layer, names->gate_in, e, 2 * hidden);
    else layer_add_linear(layer, names->in, e, hidden);
    if (gated && !gate_first) layer_add_linear(layer, names->gate, e, hidden);
    layer_add_linear(layer, names->out, hidden, e);
}

static void layer_add_attention(ct_module *layer, int i) {
    const cti_nn_layer *data = cti_nn_data(layer);
    const char *name = data->more.names->attention[i];
    if (is_of_family(layer)) {
        owner_make(layer, name);
        cti_nn_mha_fill(cti_nn_child(layer, name));
    } else {
        cti_nn_child_add(layer, name, ct_mha_new(layer->context, attention_of(layer, i > 0)));
    }
}

/* The order of the children: a family's norms stand beside their sublayers, torch's come after all
 * sublayers. */
static void layer_add_children(ct_module *layer) {
    const cti_nn_layer *data = cti_nn_data(layer);
    const cti_nn_layer_names *names = data->more.names;
    const int n = cti_nn_sublayers(layer);
    const bool family = is_of_family(layer), sandwich = data->opts.sandwich;
    for (int i = 0; i < n; i++) {
        if (family) layer_add_norm(layer, names->norm[i]);
        if (i < n - 1) layer_add_attention(layer, i);
        else layer_add_feed(layer);
        if (family && sandwich) layer_add_norm(layer, names->norm_out[i]);
    }
    for (int i = 0; i < n && !family; i++) layer_add_norm(layer, names->norm[i]);
    for (int i = 0; i < n && !family && sandwich; i++) layer_add_norm(layer, names->norm_out[i]);
}

/* ---- construction ---- */

static ct_module *layer_new(ct_context *context, const ct_module_type *type, ct_layer_opts opts,
                            cti_nn_layer_more more) {
    if (!layer_check_options(context, type, &opts)) return NULL;
    ct_module *layer = cti_nn_new(context, type, &(cti_nn_layer){.opts = opts, .more = more},
                                  sizeof(cti_nn_layer));
    if (!layer) return NULL;
    layer_add_children(layer);
    /* the caller's array, which the attention has copied */
    ((cti_nn_layer *)layer->block)->opts.attn.rotary.frequencies = NULL;
    return cti_nn_made(layer);
}

static cti_nn_layer_more more_of_torch(const ct_layer_opts *opts) {
    return (cti_nn_layer_more){.names = &names_of_torch,
                               .attention_dropout = opts->dropout,
                               .hidden_dropout = opts->dropout,
                               .residual_scale = 1};
}

ct_module *ct_encoder_layer_new(ct_context *context, ct_layer_opts opts) {
    return layer_new(context, &cti_nn_encoder_layer_type, opts, more_of_torch(&opts));
}

ct_module *ct_decoder_layer_new(ct_context *context, ct_layer_opts opts) {
    return layer_new(context, &cti_nn_decoder_layer_type, opts, more_of_torch(&opts));
}

ct_module *cti_nn_layer_named(ct_context *context, ct_layer_opts opts, cti_nn_layer_more more) {
    return layer_new(context, &cti_nn_family_layer_type, opts, more);
}

ct_module *cti_nn_layer_norm_new(ct_context *context, const ct_layer_opts *o) {
    if (o->rms_norm)
        return ct_rms_norm_new(context, (ct_rms_norm_opts){.dim = o->embed_dim,
                                                           .eps = o->eps,
                                                           .dtype = o->dtype,
                                                           .offset = o->norm_offset});
    return ct_layer_norm_new(
        context, (ct_layer_norm_opts){
                     .dim = o->embed_dim, .eps = o->eps, .no_bias = o->no_bias, .dtype = o->dtype});
}
