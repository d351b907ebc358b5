/* torch.nn.Transformer, batch first: decoder(tgt, encoder(src)), both with a final norm; every
 * matrix xavier_uniform (Vaswani et al. 2017, arXiv:1706.03762). */
#include "stack.h"

static const ct_module_type transformer_type = {.name = "Transformer"};

ct_module *ct_transformer_new(ct_context *context, ct_transformer_opts o) {
    if (!cti_nn_check_size(context, &transformer_type, "num_encoder_layers", o.num_encoder_layers,
                           0) ||
        !cti_nn_check_size(context, &transformer_type, "num_decoder_layers", o.num_decoder_layers,
                           0))
        return NULL;
    ct_module *module = cti_nn_new(context, &transformer_type, &o.layer, sizeof(ct_layer_opts));
    if (!module) return NULL;
    cti_nn_child_add(
        module, "encoder",
        ct_encoder_new(context, o.layer, o.num_encoder_layers ? o.num_encoder_layers : 6, true));
    cti_nn_child_add(
        module, "decoder",
        ct_decoder_new(context, o.layer, o.num_decoder_layers ? o.num_decoder_layers : 6, true));
    for (ct_param p = {0}; cti_ready(context) && ct_module_next(module, &p);)
        if (ct_ndim(p.tensor) > 1) ct_init_xavier_uniform(p.tensor, 1);
    return cti_nn_made(module);
}

/* Moves the weights of n layers out of the frame; NULL after an error. */
static void hand_out_all(ct_context *context, const cti_nn_scope *scope, ct_tensor **weights,
                         int64_t n, bool good) {
    for (int64_t i = 0; weights && i < n; i++)
        weights[i] = good ? cti_nn_hand_out(context, scope, weights[i]) : NULL;
}

ct_tensor *ct_transformer_forward(ct_module *transformer, ct_tensor *src, ct_tensor *tgt,
                                  ct_stack_call encoder, ct_stack_call decoder) {
    if (!cti_nn_is(transformer, &transformer_type, "ct_transformer_forward", src) ||
        !cti_nn_layer_takes(transformer, src, "src") ||
        !cti_nn_layer_takes(transformer, tgt, "tgt"))
        return NULL;
    ct_context *context = transformer->context;
    if (encoder.caches)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the encoder reads src whole, without caches",
                       cti_nn_kind_name(transformer));
    ct_module *first = ct_module_child(transformer, "encoder"),
              *second = ct_module_child(transformer, "decoder");
    if (!first || !second) return NULL;
    const int64_t layers[2] = {cti_nn_stack_layers(first), cti_nn_stack_layers(second)};
    cti_nn_scope scope; /* the frame owns `memory`; the tape keeps it for backward */
    cti_nn_enter(transformer, &scope);
    ct_tensor *memory = ct_encoder_forward(first, src, encoder);
    ct_tensor *y = memory ? ct_decoder_forward(second, tgt, memory, decoder) : NULL;
    hand_out_all(context, &scope, encoder.self_weights, layers[0], y);
    hand_out_all(context, &scope, decoder.self_weights, layers[1], y);
    hand_out_all(context, &scope, decoder.cross_weights, layers[1], y);
    return cti_nn_leave(context, &scope, y);
}
