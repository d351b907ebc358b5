/* torch.nn.TransformerDecoderLayer, batch first: self-attention, attention over the encoder's memory, then the feed-forward. */
#include "layer.h"
#include "mha.h"

static const nn_kind decoder_kind = {"TransformerDecoderLayer", NULL, nn_layer_describe, sizeof(ct_layer_opts), NULL};

ct_module *ct_decoder_layer_new(ct_context *context, ct_layer_opts opts) { return nn_layer_new(context, &decoder_kind, opts, true); }

ct_layer_out ct_decoder_layer_forward(ct_module *layer, ct_tensor *x, ct_tensor *memory, ct_mha_call self, ct_mha_call cross) {
    ct_layer_out y = {0};
    if (!nn_is(layer, &decoder_kind, "ct_decoder_layer_forward") || !nn_layer_takes(layer, x, "x") ||
        !nn_layer_takes(layer, memory, "memory"))
        return y;
    const int64_t length = ct_kv_cache_length(self.cache);
    ct_frame frame;
    ct_frame_open(layer->context, &frame, false);
    x = nn_layer_attend(layer, "self_attn", "norm1", x, NULL, self, &y.self_weights);
    if (self.cache && x && !cross.cache)
        cross.cache = nn_cache_of_memory(self.cache, nn_child(layer, "multihead_attn"), memory, length == 0);
    x = nn_layer_attend(layer, "multihead_attn", "norm2", x, memory, cross, &y.cross_weights);
    y.out = nn_layer_feed(layer, "norm3", x);
    return nn_layer_return(layer->context, &frame, self.cache, length, y);
}
