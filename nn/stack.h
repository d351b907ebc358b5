/* Stacks of layers: torch's TransformerEncoder and TransformerDecoder. */
#ifndef CT_NN_STACK_H
#define CT_NN_STACK_H

#include "layer.h"

extern const nn_kind nn_encoder_kind, nn_decoder_kind; /* their data is the ct_layer_opts, as given */

int64_t nn_stack_layers(const ct_module *stack);

#endif
