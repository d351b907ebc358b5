/* torch.nn.TransformerDecoderLayer, batch first: self-attention, attention over the encoder's
 * memory, then the feed-forward. */
#include "layer.h"
#include "attention/mha.h"

static const cti_nn_kind decoder_kind = {.name = "TransformerDecoderLayer",
                                         .describe = cti_nn_layer_describe,
                                         .size = sizeof(ct_layer_opts)};

ct_module *ct_decoder_layer_new(ct_context *context, ct_layer_opts opts) {
    return cti_nn_layer_new(context, &decoder_kind, opts, true);
}

static ct_layer_out decoder_layer_run(ct_module *layer, ct_tensor *x, ct_tensor *memory,
                                      ct_mha_call self, ct_mha_call cross) {
    ct_layer_out y = {0};
    const int64_t length = ct_kv_cache_length(self.cache);
    cti_nn_scope scope;
    cti_nn_enter(layer, &scope);
    cti_nn_cache_mark(self.cache);
    cti_nn_stream stream = {x, x};
    if (!cti_nn_layer_takes(layer, x, "x") || !cti_nn_layer_takes(layer, memory, "memory") ||
        !cti_nn_layer_attend(layer, "self_attn", 1, &stream, NULL, self, &y.self_weights))
        return cti_nn_layer_return(layer->context, &scope, self.cache, y);
    if (self.cache && !cross.cache)
        cross.cache = cti_nn_cache_of_memory(self.cache, cti_nn_child(layer, "multihead_attn"),
                                             memory, length == 0);
    if (cti_nn_layer_attend(layer, "multihead_attn", 2, &stream, memory, cross, &y.cross_weights) &&
        cti_nn_layer_feed(layer, 3, &stream))
        y.out = stream.sum;
    return cti_nn_layer_return(layer->context, &scope, self.cache, y);
}

static ct_tensor *decoder_layer_rerun(ct_tensor *const *in, int n, void *arg) {
    cti_nn_layer_call call;
    return cti_nn_layer_unpack(&call, &decoder_kind, in, n, arg)
               ? decoder_layer_run(call.layer, call.x, call.memory, call.self, call.cross).out
               : NULL;
}

ct_layer_out ct_decoder_layer_forward(ct_module *layer, ct_tensor *x, ct_tensor *memory,
                                      ct_mha_call self, ct_mha_call cross) {
    if (!cti_nn_is(layer, &decoder_kind, "ct_decoder_layer_forward", x) ||
        !cti_nn_cache_in(self.cache, layer, "ct_decoder_layer_forward") ||
        !cti_nn_cache_in(cross.cache, layer, "ct_decoder_layer_forward"))
        return (ct_layer_out){0};
    const cti_nn_layer_call call = {
        .layer = layer, .x = x, .memory = memory, .self = self, .cross = cross};
    return cti_nn_layer_recomputes(&call) ? cti_nn_layer_recompute(decoder_layer_rerun, call)
                                          : decoder_layer_run(layer, x, memory, self, cross);
}
