/* Code common to torch's TransformerEncoderLayer and TransformerDecoderLayer: options, children,
 * and sublayers with their residual and norm. */
#include "layer.h"
#include "../src/autograd/recompute.h"
#include "attention/mha.h"

ct_module *cti_nn_layer_new(ct_context *context, const cti_nn_kind *kind, ct_layer_opts o,
                            bool cross) {
    if (!cti_nn_check_size(context, kind, "embed_dim", o.embed_dim, 1) ||
        !cti_nn_check_size(context, kind, "hidden", o.hidden, 0) ||
        !cti_nn_check_chance(context, kind, "dropout", o.dropout) ||
        !cti_nn_activation_check(context, kind, o.activation))
        return NULL;
    if (!o.hidden && o.embed_dim > INT64_MAX / 4)
        return ct_fail(context, CT_ERR_MEMORY, "%s: 4 embed_dim overflows", kind->name);
    if (!o.hidden) o.hidden = 4 * o.embed_dim;
    ct_module *layer = cti_nn_new(context, kind);
    if (!layer) return NULL;
    *(ct_layer_opts *)cti_nn_data(layer) = o;

    ct_mha_opts attention = {.embed_dim = o.embed_dim,
                             .num_heads = o.num_heads,
                             .num_kv_heads = o.num_kv_heads,
                             .dropout = o.dropout,
                             .no_bias = o.no_bias,
                             .dtype = o.dtype,
                             .qk_norm = o.qk_norm,
                             .qk_norm_eps = o.eps,
                             .separate = o.separate};
    /* Rotary positions only in self-attention: in cross-attention queries and keys are positions of
     * two different sequences, whose difference means nothing. */
    ct_mha_opts self = attention;
    self.rope = o.rope, self.rope_interleaved = o.rope_interleaved, self.rope_base = o.rope_base;
    ct_linear_opts in = {.in_features = o.embed_dim,
                         .out_features = o.hidden,
                         .no_bias = o.no_bias,
                         .dtype = o.dtype},
                   out = {.in_features = o.hidden,
                          .out_features = o.embed_dim,
                          .no_bias = o.no_bias,
                          .dtype = o.dtype};
    cti_nn_child_add(layer, "self_attn", ct_mha_new(context, self));
    if (cross) cti_nn_child_add(layer, "multihead_attn", ct_mha_new(context, attention));
    cti_nn_child_add(layer, "linear1", ct_linear_new(context, in));
    if (o.gated) cti_nn_child_add(layer, "gate", ct_linear_new(context, in));
    cti_nn_child_add(layer, "linear2", ct_linear_new(context, out));
    cti_nn_child_add(layer, "norm1", cti_nn_layer_norm_new(context, &o));
    cti_nn_child_add(layer, "norm2", cti_nn_layer_norm_new(context, &o));
    if (cross) cti_nn_child_add(layer, "norm3", cti_nn_layer_norm_new(context, &o));
    return cti_nn_made(layer);
}

ct_module *cti_nn_layer_norm_new(ct_context *context, const ct_layer_opts *o) {
    if (o->rms_norm)
        return ct_rms_norm_new(
            context, (ct_rms_norm_opts){.dim = o->embed_dim, .eps = o->eps, .dtype = o->dtype});
    return ct_layer_norm_new(
        context, (ct_layer_norm_opts){
                     .dim = o->embed_dim, .eps = o->eps, .no_bias = o->no_bias, .dtype = o->dtype});
}

void cti_nn_layer_describe(const ct_module *layer, FILE *file) {
    const ct_layer_opts *o = cti_nn_data(layer);
    fprintf(file, "activation=%s, dropout=%g, norm_first=%s", cti_nn_activation_name(o->activation),
            o->dropout, cti_nn_bool(o->norm_first));
}

static ct_tensor *layer_before(ct_module *layer, const char *norm, ct_tensor *x) {
    const ct_layer_opts *o = cti_nn_data(layer);
    return o->norm_first ? cti_nn_forward(layer, norm, x, o->embed_dim) : x;
}

static ct_tensor *layer_after(ct_module *layer, const char *norm, ct_tensor *x, ct_tensor *fx) {
    const ct_layer_opts *o = cti_nn_data(layer);
    ct_tensor *sum = fx ? ct_add(x, cti_nn_dropout(layer, fx, o->dropout)) : NULL;
    return o->norm_first ? sum : cti_nn_forward(layer, norm, sum, o->embed_dim);
}

ct_tensor *cti_nn_layer_attend(ct_module *layer, const char *attention, const char *norm,
                               ct_tensor *x, ct_tensor *memory, ct_mha_call call,
                               ct_tensor **weights) {
    ct_mha_out y = ct_mha_forward(ct_module_child(layer, attention), layer_before(layer, norm, x),
                                  memory, memory, call);
    *weights = y.weights;
    return layer_after(layer, norm, x, y.out);
}

ct_tensor *cti_nn_layer_feed(ct_module *layer, const char *norm, ct_tensor *x) {
    const ct_layer_opts *o = cti_nn_data(layer);
    if (!x) return NULL;
    cti_nn_feed_forward feed = {.in = "linear1",
                                .gate = o->gated ? "gate" : NULL,
                                .out = "linear2",
                                .activation = o->activation,
                                .dropout = o->dropout,
                                .width = o->embed_dim};
    ct_tensor *in = layer_before(layer, norm, x);
    if (o->dropout > 0 && layer->training)
        return layer_after(layer, norm, x, cti_nn_feed(layer, feed, in, NULL));
    ct_tensor *sum = cti_nn_feed(layer, feed, in, x);
    return o->norm_first ? sum : cti_nn_forward(layer, norm, sum, o->embed_dim);
}

bool cti_nn_layer_takes(const ct_module *layer, const ct_tensor *x, const char *what) {
    const ct_layer_opts *o = cti_nn_data(layer);
    const char *name = cti_nn_kind_name(layer);
    if (!x) ct_fail(layer->context, CT_ERR_ARGUMENT, "%s: %s is NULL", name, what);
    else if (!cti_tensor_in(x, layer->context, name)) return false;
    else if (x->shape.ndim != 3 || x->shape.dim[2] != o->embed_dim)
        ct_fail(layer->context, CT_ERR_SHAPE, "%s: expected %s (B, T, %" PRId64 "), got %s", name,
                what, o->embed_dim, SHAPE(x->shape));
    else return true;
    return false;
}

ct_layer_out cti_nn_layer_return(ct_context *context, cti_nn_scope *scope, ct_kv_cache *cache,
                                 int64_t length, ct_layer_out y) {
    if (!cti_ready(context)) {
        y = (ct_layer_out){0};
        if (cache) cache->length = length;
    }
    cti_nn_hand_out(context, scope, y.self_weights);
    cti_nn_hand_out(context, scope, y.cross_weights);
    cti_nn_leave(context, scope, y.out);
    return y;
}

/* ---- recompute ---- */

/* The inputs of the function that runs again. */
enum { X, MEMORY, SELF_MASK, SELF_KEY_MASK, CROSS_MASK, CROSS_KEY_MASK, N_LAYER_INPUTS };
_Static_assert(sizeof(cti_nn_layer_call) <= CTI_RECOMPUTE_ARG, "the node has room for a copy");

static void inputs(const cti_nn_layer_call *c, ct_tensor *in[N_LAYER_INPUTS]) {
    in[X] = c->x, in[MEMORY] = c->memory;
    in[SELF_MASK] = c->self.mask, in[SELF_KEY_MASK] = c->self.key_mask;
    in[CROSS_MASK] = c->cross.mask, in[CROSS_KEY_MASK] = c->cross.key_mask;
}

/* Is the call recomputed? A tensor that the layer refuses is left to the layer, whose message is
 * better. */
bool cti_nn_layer_recomputes(const cti_nn_layer_call *c) {
    const ct_layer_opts *o = cti_nn_data(c->layer);
    if (!o->recompute || !c->layer->training || !c->x || c->self.cache || c->cross.cache ||
        c->self.need_weights || c->cross.need_weights)
        return false;
    ct_tensor *in[N_LAYER_INPUTS];
    inputs(c, in);
    bool good = true;
    for (int i = 0; i < N_LAYER_INPUTS; i++)
        good &= !in[i] || (in[i]->self == in[i] && in[i]->context == c->layer->context);
    return good;
}

ct_layer_out cti_nn_layer_recompute(ct_fn run, cti_nn_layer_call c) {
    ct_tensor *in[N_LAYER_INPUTS];
    inputs(&c, in);
    return (ct_layer_out){.out = cti_recompute(run, &c, sizeof c, in, N_LAYER_INPUTS)};
}

bool cti_nn_layer_unpack(cti_nn_layer_call *c, const cti_nn_kind *kind, ct_tensor *const *in, int n,
                         const void *arg) {
    (void)n;
    *c = *(const cti_nn_layer_call *)arg;
    if (!cti_nn_is(c->layer, kind, kind->name, in[X])) return false;
    if (!c->layer->training)
        return ct_fail(c->layer->context, CT_ERR_GRAD,
                       "%s: with recompute a layer must be in training until backward has run",
                       cti_nn_kind_name(c->layer));
    c->x = in[X], c->memory = in[MEMORY];
    c->self.mask = in[SELF_MASK], c->self.key_mask = in[SELF_KEY_MASK];
    c->cross.mask = in[CROSS_MASK], c->cross.key_mask = in[CROSS_KEY_MASK];
    return true;
}
