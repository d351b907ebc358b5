/* torch.nn.TransformerEncoderLayer, batch first: self-attention, then the feed-forward. */
#include "attention/mha.h"
#include "layer.h"

static ct_tensor *forward_encoder_layer(ct_module *layer, ct_tensor *x) {
    return ct_encoder_layer_forward(layer, x, (ct_mha_call){0}).out;
}

static const cti_nn_kind encoder_kind = {.name = "TransformerEncoderLayer",
                                         .forward = forward_encoder_layer,
                                         .describe = cti_nn_layer_describe,
                                         .size = sizeof(ct_layer_opts)};

ct_module *ct_encoder_layer_new(ct_context *context, ct_layer_opts opts) {
    return cti_nn_layer_new(context, &encoder_kind, opts, false);
}

static ct_layer_out encoder_layer_run(ct_module *layer, ct_tensor *x, ct_mha_call self) {
    ct_layer_out y = {0};
    cti_nn_scope scope;
    cti_nn_enter(layer, &scope);
    cti_nn_cache_mark(self.cache);
    cti_nn_stream stream = {x, x};
    if (cti_nn_layer_takes(layer, x, "x") &&
        cti_nn_layer_attend(layer, "self_attn", 1, &stream, NULL, self, &y.self_weights) &&
        cti_nn_layer_feed(layer, 2, &stream))
        y.out = stream.sum;
    return cti_nn_layer_return(layer->context, &scope, self.cache, y);
}

static ct_tensor *encoder_layer_rerun(ct_tensor *const *in, int n, void *arg) {
    cti_nn_layer_call call;
    return cti_nn_layer_unpack(&call, &encoder_kind, in, n, arg)
               ? encoder_layer_run(call.layer, call.x, call.self).out
               : NULL;
}

ct_layer_out ct_encoder_layer_forward(ct_module *layer, ct_tensor *x, ct_mha_call self) {
    if (!cti_nn_is(layer, &encoder_kind, "ct_encoder_layer_forward", x) ||
        !cti_nn_cache_in(self.cache, layer, "ct_encoder_layer_forward"))
        return (ct_layer_out){0};
    const cti_nn_layer_call call = {.layer = layer, .x = x, .self = self};
    return cti_nn_layer_recomputes(&call) ? cti_nn_layer_recompute(encoder_layer_rerun, call)
                                          : encoder_layer_run(layer, x, self);
}
