/* Weights of the base model in a file of adapters. */
#ifndef CTI_MODELS_PEFT_BASE_H
#define CTI_MODELS_PEFT_BASE_H

#include <cotangent/io.h>
#include <cotangent/nn.h>

#define CTI_PEFT_PREFIX "base_model.model." /* of every name in PEFT's files */

/* Whether a tensor of the file is a weight of the model, such as
 * base_model.model.lm_head.base_layer.weight, with the model's values. False: CT_ERR_FORMAT. */
bool cti_peft_check_base(ct_context *context, const ct_module *module, ct_safetensors *file,
                         const char *op, const char *path, const char *tensor);

/* Whether a tensor of a file has the bits of the model's, in the model's dtype. False also after an
 * error. */
bool cti_peft_equal(ct_tensor *model, ct_tensor *file);

#endif
