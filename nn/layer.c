/* Code common to torch's TransformerEncoderLayer and TransformerDecoderLayer: options, children,
 * and sublayers with their residual and norm. */
#include "layer.h"
#include "../src/autograd/recompute.h"
#include "attention/mha.h"

/* ---- construction ---- */

/* Returns whether the options of attention leave to the layer what the layer decides. */
static bool check_attention(ct_context *context, const cti_nn_kind *kind, const ct_layer_opts *o) {
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
                       kind->name, set, set);
    const bool wide_k = a->kdim && a->kdim != o->embed_dim,
               wide_v = a->vdim && a->vdim != o->embed_dim;
    if (wide_k || wide_v)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: attn.%s is %" PRId64 ", but the keys and values of a layer have its "
                       "embed_dim %" PRId64,
                       kind->name, wide_k ? "kdim" : "vdim", wide_k ? a->kdim : a->vdim,
                       o->embed_dim);
    return true;
}

/* Replaces `hidden` by its default if it is 0, and checks the options. */
static bool layer_check_options(ct_context *context, const cti_nn_kind *kind, ct_layer_opts *o) {
    if (!cti_nn_check_size(context, kind, "embed_dim", o->embed_dim, 1) ||
        !cti_nn_check_size(context, kind, "hidden", o->hidden, 0) ||
        !cti_nn_check_chance(context, kind, "dropout", o->dropout) ||
        !cti_nn_activation_check(context, kind, o->activation) ||
        !check_attention(context, kind, o))
        return false;
    if (o->norm_offset != 0 && !o->rms_norm)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: norm_offset %g needs rms_norm", kind->name,
                       o->norm_offset);
    if ((o->sandwich || o->parallel) && !o->norm_first)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s needs norm_first", kind->name,
                       o->sandwich ? "sandwich" : "parallel");
    if (!o->hidden && o->embed_dim > INT64_MAX / 4)
        return ct_fail(context, CT_ERR_MEMORY, "%s: 4 embed_dim overflows", kind->name);
    if (!o->hidden) o->hidden = 4 * o->embed_dim;
    return true;
}

/* The options of a layer's attention. Rotary positions and the window are only in self-attention:
 * in cross-attention queries and keys are positions of two different sequences, whose difference
 * means nothing. */
static ct_mha_opts attention_of(const ct_layer_opts *o, bool cross) {
    ct_mha_opts a = o->attn;
    a.embed_dim = o->embed_dim, a.num_heads = o->num_heads;
    a.dropout = o->dropout, a.no_bias = o->no_bias, a.dtype = o->dtype;
    if (a.qk_norm_eps == 0) a.qk_norm_eps = o->eps;
    if (cross) a.rope = false, a.rotary = (ct_rope_opts){0}, a.window = (ct_window){0};
    return a;
}

/* The numbers of a layer's norms, from 1: one before or after each sublayer. */
enum { MOST_NORMS = 3 };
static const char *const norm_name[] = {NULL, "norm1", "norm2", "norm3"}, *const out_name[] = {
                                                                              NULL, "norm1_out",
                                                                              "norm2_out",
                                                                              "norm3_out"};

ct_module *cti_nn_layer_new(ct_context *context, const cti_nn_kind *kind, ct_layer_opts o,
                            bool cross) {
    if (!layer_check_options(context, kind, &o)) return NULL;
    ct_module *layer = cti_nn_new(context, kind);
    if (!layer) return NULL;
    *(ct_layer_opts *)cti_nn_data(layer) = o;
    ct_linear_opts in = {.in_features = o.embed_dim,
                         .out_features = o.hidden,
                         .no_bias = o.no_bias,
                         .dtype = o.dtype},
                   out = {.in_features = o.hidden,
                          .out_features = o.embed_dim,
                          .no_bias = o.no_bias,
                          .dtype = o.dtype};
    cti_nn_child_add(layer, "self_attn", ct_mha_new(context, attention_of(&o, false)));
    if (cross)
        cti_nn_child_add(layer, "multihead_attn", ct_mha_new(context, attention_of(&o, true)));
    cti_nn_child_add(layer, "linear1", ct_linear_new(context, in));
    if (o.gated) cti_nn_child_add(layer, "gate", ct_linear_new(context, in));
    cti_nn_child_add(layer, "linear2", ct_linear_new(context, out));
    const int norms = cross ? MOST_NORMS : MOST_NORMS - 1;
    for (int i = 1; i <= norms; i++)
        cti_nn_child_add(layer, norm_name[i], cti_nn_layer_norm_new(context, &o));
    for (int i = 1; i <= norms && o.sandwich; i++)
        cti_nn_child_add(layer, out_name[i], cti_nn_layer_norm_new(context, &o));
    return cti_nn_made(layer);
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

void cti_nn_layer_describe(const ct_module *layer, FILE *file) {
    const ct_layer_opts *o = cti_nn_data(layer);
    fprintf(file, "activation=%s, dropout=%g, norm_first=%s", cti_nn_activation_name(o->activation),
            o->dropout, cti_nn_bool(o->norm_first));
    if (o->sandwich) fprintf(file, ", sandwich=True");
    if (o->parallel) fprintf(file, ", parallel=True");
}

/* ---- sublayers ---- */

/* Returns the input of a sublayer's function. */
static ct_tensor *layer_before(ct_module *layer, int norm, const cti_nn_stream *stream) {
    const ct_layer_opts *o = cti_nn_data(layer);
    return o->norm_first ? cti_nn_forward(layer, norm_name[norm], stream->in, o->embed_dim)
                         : stream->in;
}

/* Makes `sum`, to which the sublayer's result has been added, the stream's. */
static bool layer_added(ct_module *layer, int norm, cti_nn_stream *stream, ct_tensor *sum) {
    const ct_layer_opts *o = cti_nn_data(layer);
    if (sum && !o->norm_first) sum = cti_nn_forward(layer, norm_name[norm], sum, o->embed_dim);
    stream->sum = sum;
    if (!o->parallel) stream->in = sum;
    return sum;
}

/* Adds the result of a sublayer's function to the stream. */
static bool layer_add(ct_module *layer, int norm, cti_nn_stream *stream, ct_tensor *fx) {
    const ct_layer_opts *o = cti_nn_data(layer);
    if (fx && o->sandwich) fx = cti_nn_forward(layer, out_name[norm], fx, o->embed_dim);
    return layer_added(layer, norm, stream,
                       fx ? ct_add(stream->sum, cti_nn_dropout(layer, fx, o->dropout)) : NULL);
}

bool cti_nn_layer_attend(ct_module *layer, const char *attention, int norm, cti_nn_stream *stream,
                         ct_tensor *memory, ct_mha_call call, ct_tensor **weights) {
    ct_mha_out y = ct_mha_forward(ct_module_child(layer, attention),
                                  layer_before(layer, norm, stream), memory, memory, call);
    *weights = y.weights;
    return layer_add(layer, norm, stream, y.out);
}

bool cti_nn_layer_feed(ct_module *layer, int norm, cti_nn_stream *stream) {
    const ct_layer_opts *o = cti_nn_data(layer);
    cti_nn_feed_forward feed = {.in = "linear1",
                                .gate = o->gated ? "gate" : NULL,
                                .out = "linear2",
                                .activation = o->activation,
                                .dropout = o->dropout,
                                .width = o->embed_dim};
    ct_tensor *in = layer_before(layer, norm, stream);
    if (o->sandwich || (o->dropout > 0 && layer->training))
        return layer_add(layer, norm, stream, cti_nn_feed(layer, feed, in, NULL));
    return layer_added(layer, norm, stream, cti_nn_feed(layer, feed, in, stream->sum));
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
                                 ct_layer_out y) {
    if (!cti_ready(context)) y = (ct_layer_out){0};
    cti_nn_cache_unmark(cache, cti_ready(context));
    cti_nn_hand_out(context, scope, y.self_weights);
    cti_nn_hand_out(context, scope, y.cross_weights);
    cti_nn_leave(context, scope, y.out);
    return y;
}

/* ---- recompute ---- */

/* The tensors of a call of attention, by number. */
enum { CALL_TENSORS = 6 };
static ct_tensor **call_tensor(ct_mha_call *call, int i) {
    ct_tensor **const all[CALL_TENSORS] = {&call->mask,      &call->key_mask, &call->bias,
                                           &call->positions, &call->segments, &call->lengths};
    return all[i];
}

/* The inputs of the function that runs again: x, memory, and the tensors of both calls. */
enum { X, MEMORY, SELF, CROSS = SELF + CALL_TENSORS, N_LAYER_INPUTS = CROSS + CALL_TENSORS };
_Static_assert(sizeof(cti_nn_layer_call) <= CTI_RECOMPUTE_ARG, "the node has room for a copy");

static void inputs(const cti_nn_layer_call *call, ct_tensor *in[N_LAYER_INPUTS]) {
    cti_nn_layer_call c = *call;
    in[X] = c.x, in[MEMORY] = c.memory;
    for (int i = 0; i < CALL_TENSORS; i++) {
        in[SELF + i] = *call_tensor(&c.self, i);
        in[CROSS + i] = *call_tensor(&c.cross, i);
    }
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
    for (int i = 0; i < CALL_TENSORS; i++) {
        *call_tensor(&c->self, i) = in[SELF + i];
        *call_tensor(&c->cross, i) = in[CROSS + i];
    }
    return true;
}
