/* The forward of a transformer layer, batch first: attention, in a decoder attention over the
 * encoder's memory, and the feed-forward. Each of these sublayers computes f(in) and adds it to the
 * stream's `sum`:
 *
 *     post-norm      in = sum = norm(sum + dropout(f(in)))
 *     norm_first     in = sum = sum + dropout(f(norm(in)))
 *     sandwich       in = sum = sum + dropout(norm_out(f(norm(in))))
 *     parallel       sum = sum + dropout(f(norm(in)));  `in` stays the layer's input
 *
 * With a residual_scale the dropout's result is multiplied by it.
 *
 * f is attention, or linear2(dropout(activation(linear1(x)))), or with a gate
 * linear2(dropout(activation(gate(x)) linear1(x))). */
#include "layer.h"

#include "../ops/support/activation.h"
#include "../src/autograd/recompute.h"
#include "attention/mha.h"

/* ---- the stream ---- */

/* `in` is what the next sublayer reads, and `sum` the running sum. Both begin as the layer's input,
 * but with input_last `sum` begins as NULL and the layer adds its input at the end. After an error
 * `sum` is NULL. */
typedef struct {
    ct_tensor *in, *sum;
} layer_stream;

/* Returns what sublayer i computes f of: the stream's `in`, after the norm if the layer has
 * norm_first. */
static ct_tensor *layer_before(ct_module *layer, int i, const layer_stream *stream) {
    const cti_nn_layer *data = cti_nn_data(layer);
    const char *norm = data->more.names->norm[i];
    return data->opts.norm_first && norm
               ? cti_nn_forward(layer, norm, stream->in, data->opts.embed_dim)
               : stream->in;
}

/* Stores `sum`, to which sublayer i has added its result, in the stream, after the norm in a
 * post-norm layer. */
static bool layer_added(ct_module *layer, int i, layer_stream *stream, ct_tensor *sum) {
    const cti_nn_layer *data = cti_nn_data(layer);
    if (sum && !data->opts.norm_first)
        sum = cti_nn_forward(layer, data->more.names->norm[i], sum, data->opts.embed_dim);
    stream->sum = sum;
    if (!data->opts.parallel) stream->in = sum;
    return sum;
}

/* Adds f(in) of sublayer i to the stream. */
static bool layer_add(ct_module *layer, int i, layer_stream *stream, ct_tensor *fx) {
    const cti_nn_layer *data = cti_nn_data(layer);
    if (fx && data->opts.sandwich)
        fx = cti_nn_forward(layer, data->more.names->norm_out[i], fx, data->opts.embed_dim);
    if (fx && (i == cti_nn_sublayers(layer) - 1 || !data->more.attention_undropped))
        fx = cti_nn_dropout(layer, fx, data->opts.dropout);
    if (fx && data->more.residual_scale != 1) fx = ct_scale(fx, data->more.residual_scale);
    return layer_added(layer, i, stream, fx && stream->sum ? ct_add(stream->sum, fx) : fx);
}

/* ---- sublayers ---- */

/* Returns whether a module of one input in the place of attention can do what a call asks for. */
static bool call_is_plain(const ct_module *layer, const ct_module *attention,
                          const ct_tensor *memory, const ct_mha_call *call) {
    const char *given = memory                                 ? "memory"
                        : call->cache                          ? "a cache"
                        : call->key_mask || call->lengths      ? "padding"
                        : call->segments                       ? "segments"
                        : call->positions || call->rope_offset ? "positions"
                        : call->mask                           ? "a mask"
                        : call->bias                           ? "a bias"
                        : call->need_weights                   ? "weights"
                                                               : NULL;
    return !given || ct_fail(layer->context, CT_ERR_ARGUMENT,
                             "%s: the attention is a %s, of one input, and the call has %s",
                             cti_nn_kind_name(layer), cti_nn_kind_name(attention), given);
}

static bool layer_attend(ct_module *layer, int i, layer_stream *stream, ct_tensor *memory,
                         ct_mha_call call, ct_tensor **weights) {
    const cti_nn_layer *data = cti_nn_data(layer);
    const char *name = data->more.names->attention[i];
    ct_module *attention = ct_module_child(layer, name);
    ct_tensor *in = layer_before(layer, i, stream);
    if (!attention || !in) return layer_add(layer, i, stream, NULL);
    if (!cti_nn_is_mha(attention))
        return call_is_plain(layer, attention, memory, &call) &&
               layer_add(layer, i, stream, cti_nn_forward(layer, name, in, data->opts.embed_dim));
    ct_mha_out y = ct_mha_forward(attention, in, memory, memory, call);
    *weights = y.weights;
    return layer_add(layer, i, stream, y.out);
}

static bool layer_feed(ct_module *layer, int i, layer_stream *stream) {
    const cti_nn_layer *data = cti_nn_data(layer);
    const cti_nn_layer_names *names = data->more.names;
    const ct_layer_opts *o = &data->opts;
    ct_tensor *in = layer_before(layer, i, stream);
    if (names->feed_forward)
        return layer_add(layer, i, stream,
                         in ? cti_nn_forward(layer, names->feed_forward, in, o->embed_dim) : NULL);
    const cti_nn_feed_forward feed = {.names = &names->feed,
                                      .activation = o->activation,
                                      .gated = o->gated,
                                      .dropout = data->more.hidden_dropout,
                                      .width = o->embed_dim};
    if (o->sandwich || (o->dropout > 0 && layer->training) || data->more.residual_scale != 1)
        return layer_add(layer, i, stream, cti_nn_feed(layer, feed, in, NULL));
    return layer_added(layer, i, stream, cti_nn_feed(layer, feed, in, stream->sum));
}

/* ---- the layer ---- */

/* A call of a layer. For an encoder layer memory and cross are empty. */
typedef struct {
    const ct_module_type *type;
    ct_module *layer;
    ct_tensor *x, *memory;
    ct_mha_call self, cross;
} layer_call;

/* Runs the sublayers; returns NULL after an error. */
static ct_tensor *layer_run_all(layer_call *call, ct_layer_out *weights) {
    ct_module *layer = call->layer;
    const cti_nn_layer *data = cti_nn_data(layer);
    const bool decodes = cti_nn_sublayers(layer) == CTI_NN_SUBLAYERS, last = data->more.input_last;
    const int64_t length = ct_kv_cache_length(call->self.cache);
    layer_stream stream = {call->x, last ? NULL : call->x};
    int i = 0;
    if (!cti_nn_layer_takes(layer, call->x, "x") ||
        (decodes && !cti_nn_layer_takes(layer, call->memory, "memory")) ||
        !layer_attend(layer, i++, &stream, NULL, call->self, &weights->self_weights))
        return NULL;
    if (decodes) {
        if (call->self.cache && !call->cross.cache)
            call->cross.cache = cti_nn_cache_of_memory(
                call->self.cache, cti_nn_child(layer, data->more.names->attention[i]), call->memory,
                length == 0);
        if (!layer_attend(layer, i++, &stream, call->memory, call->cross, &weights->cross_weights))
            return NULL;
    }
    if (!layer_feed(layer, i, &stream)) return NULL;
    return last ? ct_add(stream.sum, call->x) : stream.sum;
}

/* After an error all results are NULL, and the cache gets its former lengths. */
static ct_layer_out layer_run(layer_call call) {
    ct_context *context = call.layer->context;
    ct_layer_out y = {0};
    cti_nn_scope scope;
    cti_nn_enter(call.layer, &scope);
    cti_nn_cache_mark(call.self.cache);
    y.out = layer_run_all(&call, &y);
    if (!cti_ready(context)) y = (ct_layer_out){0};
    cti_nn_cache_unmark(call.self.cache, cti_ready(context));
    cti_nn_hand_out(context, &scope, y.self_weights);
    cti_nn_hand_out(context, &scope, y.cross_weights);
    cti_nn_leave(context, &scope, y.out);
    return y;
}

bool cti_nn_layer_takes(const ct_module *layer, const ct_tensor *x, const char *what) {
    const ct_layer_opts *o = cti_nn_data(layer);
    const char *name = cti_nn_kind_name(layer);
    if (!x) ct_fail(layer->context, CT_ERR_ARGUMENT, "%s: %s is NULL", name, what);
    else if (!cti_tensor_in(x, layer->context, name) || !cti_tensor_no_blocks(x, name))
        return false;
    else if (x->shape.ndim != 3 || x->shape.dim[2] != o->embed_dim)
        ct_fail(layer->context, CT_ERR_SHAPE, "%s: expected %s (B, T, %" PRId64 "), got %s", name,
                what, o->embed_dim, SHAPE(x->shape));
    else return true;
    return false;
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
_Static_assert(sizeof(layer_call) <= CTI_RECOMPUTE_ARG, "the node has room for a copy");

static void layer_inputs(const layer_call *call, ct_tensor *in[N_LAYER_INPUTS]) {
    layer_call c = *call;
    in[X] = c.x, in[MEMORY] = c.memory;
    for (int i = 0; i < CALL_TENSORS; i++) {
        in[SELF + i] = *call_tensor(&c.self, i);
        in[CROSS + i] = *call_tensor(&c.cross, i);
    }
}

/* Is the call recomputed? A tensor that the layer refuses is left to the layer, whose message is
 * better. */
static bool layer_recomputes(const layer_call *c) {
    const ct_layer_opts *o = cti_nn_data(c->layer);
    if (!o->recompute || !c->layer->training || !c->x || c->self.cache || c->cross.cache ||
        c->self.need_weights || c->cross.need_weights)
        return false;
    ct_tensor *in[N_LAYER_INPUTS];
    layer_inputs(c, in);
    bool good = true;
    for (int i = 0; i < N_LAYER_INPUTS; i++)
        good &= !in[i] || (in[i]->self == in[i] && in[i]->context == c->layer->context);
    return good;
}

/* The second run, from the inputs and a copy of the call. The layer may have been freed or changed
 * since the first. */
static ct_tensor *layer_rerun(ct_tensor *const *in, int n, void *arg) {
    (void)n;
    layer_call c = *(const layer_call *)arg;
    if (!cti_nn_is(c.layer, c.type, c.type->name, in[X])) return NULL;
    if (!c.layer->training)
        return ct_fail(c.layer->context, CT_ERR_GRAD,
                       "%s: with recompute a layer must be in training until backward has run",
                       cti_nn_kind_name(c.layer));
    c.x = in[X], c.memory = in[MEMORY];
    for (int i = 0; i < CALL_TENSORS; i++) {
        *call_tensor(&c.self, i) = in[SELF + i];
        *call_tensor(&c.cross, i) = in[CROSS + i];
    }
    return layer_run(c).out;
}

static ct_layer_out layer_forward(layer_call call) {
    if (!layer_recomputes(&call)) return layer_run(call);
    ct_tensor *in[N_LAYER_INPUTS];
    layer_inputs(&call, in);
    return (ct_layer_out){.out =
                              cti_recompute(layer_rerun, &call, sizeof call, in, N_LAYER_INPUTS)};
}

/* ---- the two kinds of calls ---- */

ct_layer_out ct_encoder_layer_forward(ct_module *layer, ct_tensor *x, ct_mha_call self) {
    static const char name[] = "ct_encoder_layer_forward";
    const bool family = layer && layer->type == &cti_nn_family_layer_type;
    const ct_module_type *type = family ? &cti_nn_family_layer_type : &cti_nn_encoder_layer_type;
    if (!cti_nn_is(layer, type, name, x) || !cti_nn_cache_in(self.cache, layer, name))
        return (ct_layer_out){0};
    return layer_forward((layer_call){.type = type, .layer = layer, .x = x, .self = self});
}

ct_layer_out ct_decoder_layer_forward(ct_module *layer, ct_tensor *x, ct_tensor *memory,
                                      ct_mha_call self, ct_mha_call cross) {
    static const char name[] = "ct_decoder_layer_forward";
    if (!cti_nn_is(layer, &cti_nn_decoder_layer_type, name, x) ||
        !cti_nn_cache_in(self.cache, layer, name) || !cti_nn_cache_in(cross.cache, layer, name))
        return (ct_layer_out){0};
    return layer_forward((layer_call){.type = &cti_nn_decoder_layer_type,
                                      .layer = layer,
                                      .x = x,
                                      .memory = memory,
                                      .self = self,
                                      .cross = cross});
}

ct_module *cti_nn_layer_attention(const ct_module *layer) {
    if (!layer || layer->type != &cti_nn_family_layer_type) return NULL;
    const cti_nn_layer *data = cti_nn_data(layer);
    ct_module *attention = cti_nn_child(layer, data->more.names->attention[0]);
    return cti_nn_is_mha(attention) ? attention : NULL;
}

/* ---- types ---- */

static void layer_describe(const void *self, FILE *file) {
    const ct_layer_opts *o = cti_nn_data(self);
    fprintf(file, "activation=%s, dropout=%g, norm_first=%s", cti_activation_name(o->activation),
            o->dropout, cti_nn_bool(o->norm_first));
    if (o->sandwich) fprintf(file, ", sandwich=True");
    if (o->parallel) fprintf(file, ", parallel=True");
}

static ct_tensor *layer_forward_one(void *self, ct_tensor *x) {
    return ct_encoder_layer_forward(self, x, (ct_mha_call){0}).out;
}

const ct_module_type cti_nn_encoder_layer_type = {
    .name = "TransformerEncoderLayer", .forward = layer_forward_one, .describe = layer_describe};
const ct_module_type cti_nn_decoder_layer_type = {.name = "TransformerDecoderLayer",
                                                  .describe = layer_describe};
const ct_module_type cti_nn_family_layer_type = {.name = "Layer", .forward = layer_forward_one};

ct_tensor *cti_nn_state_next(ct_tensor *x, ct_tensor *y) {
    if (x != y && x->frame == x->context->frame) ct_release(x);
    return y;
}
