/* Stacks of layers: torch's TransformerEncoder and TransformerDecoder. */
#ifndef CTI_NN_STACK_H
#define CTI_NN_STACK_H

#include "layer.h"

/* The types of torch's two stacks. A module of either has as its data the ct_layer_opts that the
 * caller gave, without defaults filled in. */
extern const ct_module_type cti_nn_encoder_type, cti_nn_decoder_type;

int64_t cti_nn_stack_layers(const ct_module *stack);

#endif
