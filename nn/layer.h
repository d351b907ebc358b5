/* The layer of torch's TransformerEncoder and TransformerDecoder, and of the families of models. */
#ifndef CTI_NN_LAYER_H
#define CTI_NN_LAYER_H

#include "module.h"
#include "names.h"

/* The data of a layer. */
typedef struct {
    ct_layer_opts opts; /* must be first; with defaults filled in */
    cti_nn_layer_more more;
} cti_nn_layer;

/* torch's two layers, and an encoder layer with a family's names. */
extern const ct_module_type cti_nn_encoder_layer_type, cti_nn_decoder_layer_type,
    cti_nn_family_layer_type;

/* The number of a layer's sublayers: attention, in a decoder attention of the memory, and the
 * feed-forward. */
static inline int cti_nn_sublayers(const ct_module *layer) {
    return layer->type == &cti_nn_decoder_layer_type ? 3 : 2;
}

/* Returns a LayerNorm, or an RMSNorm if the options have rms_norm. */
ct_module *cti_nn_layer_norm_new(ct_context *context, const ct_layer_opts *opts);

/* Returns whether x is (B, T, E) with the module's embed_dim. The module is a layer, a stack or a
 * transformer, whose data begins with a ct_layer_opts. `what` names x in the error. */
bool cti_nn_layer_takes(const ct_module *layer, const ct_tensor *x, const char *what);

#endif
