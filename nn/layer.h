/* This header has the code that encoder and decoder layers share: the constructor, and sublayers
 * with a residual connection and a norm. */
#ifndef CTI_NN_LAYER_H
#define CTI_NN_LAYER_H

#include "module.h"

/* Returns a new layer of that kind; its data is the ct_layer_opts with defaults filled in. The
 * children are self_attn, multihead_attn (if cross), linear1, gate (if gated), linear2, norm1,
 * norm2 and norm3 (if cross), and with sandwich norm1_out, norm2_out and norm3_out (if cross). */
ct_module *cti_nn_layer_new(ct_context *context, const cti_nn_kind *kind, ct_layer_opts opts,
                            bool cross);
/* Returns a LayerNorm, or an RMSNorm if the options have rms_norm. */
ct_module *cti_nn_layer_norm_new(ct_context *context, const ct_layer_opts *opts);
void cti_nn_layer_describe(const ct_module *layer, FILE *file);

/* The value that runs through a layer's sublayers: each computes f(in) and adds it to `sum`.
 *
 *     post-norm      in = sum = norm(sum + dropout(f(in)))
 *     norm_first     in = sum = sum + dropout(f(norm(in)))
 *     sandwich       in = sum = sum + dropout(norm_out(f(norm(in))))
 *     parallel       sum = sum + dropout(f(norm(in)));  `in` stays the layer's input
 *
 * At first both are the layer's input. f is attention (memory NULL: self-attention), or
 * linear2(dropout(activation(linear1(x)))), or linear2(dropout(activation(gate(x)) linear1(x))).
 * `norm` is the number of the sublayer's norm, from 1. After an error the two functions return
 * false, and sum is NULL. */
typedef struct {
    ct_tensor *in, *sum;
} cti_nn_stream;
bool cti_nn_layer_attend(ct_module *layer, const char *attention, int norm, cti_nn_stream *stream,
                         ct_tensor *memory, ct_mha_call call, ct_tensor **weights);
bool cti_nn_layer_feed(ct_module *layer, int norm, cti_nn_stream *stream);

/* Returns whether x is (B, T, E) with the module's embed_dim. The module is a layer, a stack or a
 * transformer, whose data is a ct_layer_opts. `what` names x in the error. */
bool cti_nn_layer_takes(const ct_module *layer, const ct_tensor *x, const char *what);

/* ---- ct_layer_opts.recompute ---- */

/* A call of a layer. For an encoder layer memory and cross are empty. */
typedef struct {
    ct_module *layer;
    ct_tensor *x, *memory;
    ct_mha_call self, cross;
} cti_nn_layer_call;

bool cti_nn_layer_recomputes(const cti_nn_layer_call *call);
/* Runs the call as `run`, which gets the call's tensors as inputs and the call itself by
 * cti_nn_layer_unpack. cti_nn_layer_unpack returns false, with an error recorded, if the layer can
 * no longer do the same computation. */
ct_layer_out cti_nn_layer_recompute(ct_fn run, cti_nn_layer_call call);
bool cti_nn_layer_unpack(cti_nn_layer_call *call, const cti_nn_kind *kind, ct_tensor *const *in,
                         int n, const void *arg);

/* Moves the results out of the frame and closes it. If an error is pending, all results are NULL
 * and the cache, which has been marked, gets its former lengths. */
ct_layer_out cti_nn_layer_return(ct_context *context, cti_nn_scope *scope, ct_kv_cache *cache,
                                 ct_layer_out y);

#endif
