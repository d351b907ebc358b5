/* A seam for the floor of models: the modules of one parameter or two of which a tree is built,
 * without values or without parameters, and questions about a module's type. A type is told by its
 * address: a program's own type may have any name. */
#ifndef CTI_NN_BARE_H
#define CTI_NN_BARE_H

#include <cotangent/nn.h>

#include "../src/core/object.h"

/* These return a module whose parameters have undefined values. Its options are checked as the
 * public constructor checks them. The dtype of a Linear or an Embedding may be bf16 or of blocks,
 * which is that of the matrix; a bias is f32 then. */
ct_module *cti_nn_linear_empty(ct_context *context, ct_linear_opts opts);
ct_module *cti_nn_embedding_empty(ct_context *context, ct_embedding_opts opts);
ct_module *cti_nn_layer_norm_empty(ct_context *context, ct_layer_norm_opts opts);
ct_module *cti_nn_rms_norm_empty(ct_context *context, ct_rms_norm_opts opts);
/* These return a module whose parameters (weight, and bias unless the options have no_bias) the
 * caller adds. */
ct_module *cti_nn_linear_bare(ct_context *context, ct_linear_opts opts);
ct_module *cti_nn_embedding_bare(ct_context *context, ct_embedding_opts opts);

/* A Linear is y = x W^T + b of its parameters weight and bias, which may be missing, and nothing
 * else. */
bool cti_nn_is_linear(const ct_module *module);
bool cti_nn_is_embedding(const ct_module *module);
/* The options of a norm; NULL for any other module. */
const ct_layer_norm_opts *cti_nn_layer_norm_of(const ct_module *module);
const ct_rms_norm_opts *cti_nn_rms_norm_of(const ct_module *module);

/* Makes ct_module_to leave the parameters of the module itself as they are, as long as it converts
 * to a smaller dtype: a table of positions, which is an Embedding. */
void cti_nn_stay(ct_module *module);
bool cti_nn_stays(const ct_module *module);

/* Returns a new matrix with undefined values in the innermost scope, of the dtype that
 * ct_module_to(dtype) gives it. */
ct_tensor *cti_nn_matrix_new(ct_context *context, ct_dtype dtype, ct_shape shape);

/* Makes ct_module_free of the module, or of a module above it, end the object by `end`. */
void cti_nn_end_with(ct_module *module, cti_object *object, void (*end)(cti_hook *self));

#endif
