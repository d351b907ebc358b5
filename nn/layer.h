/* What the encoder's and the decoder's layers share: sublayers around a residual. */
#ifndef CTI_NN_LAYER_H
#define CTI_NN_LAYER_H

#include "module.h"

/* A layer of that kind, its data the ct_layer_opts with defaults filled in: self_attn,
 * multihead_attn (with cross), linear1, gate (where gated), linear2, norm1, norm2, norm3 (with
 * cross). */
ct_module *cti_nn_layer_new(ct_context *context, const cti_nn_kind *kind, ct_layer_opts opts,
                            bool cross);
/* LayerNorm or RMSNorm */
ct_module *cti_nn_layer_norm_new(ct_context *context, const ct_layer_opts *opts);
void cti_nn_layer_describe(const ct_module *layer, FILE *file);

/* post-norm: norm(x + dropout(f(x)));   norm_first: x + dropout(f(norm(x))).   f is attention
 * (memory NULL: over x itself), or linear2(dropout(activation(linear1(x)))), or
 * linear2(dropout(activation(gate(x)) linear1(x))). */
ct_tensor *cti_nn_layer_attend(ct_module *layer, const char *attention, const char *norm,
                               ct_tensor *x, ct_tensor *memory, ct_mha_call call,
                               ct_tensor **weights);
ct_tensor *cti_nn_layer_feed(ct_module *layer, const char *norm, ct_tensor *x);

/* Is it an input, (B, T, E), for the layer, or whatever has the layers' options for its data? */
bool cti_nn_layer_takes(const ct_module *layer, const ct_tensor *x, const char *what);

/* Hands the results out and closes the frame; where there is an error nothing, and the cache is as
 * long as before. */
ct_layer_out cti_nn_layer_return(ct_context *context, cti_frame *frame, ct_kv_cache *cache,
                                 int64_t length, ct_layer_out y);

#endif
