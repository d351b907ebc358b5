/* Modules: trees of named parameters with a forward. Names, layouts and initialisation are those
 * of torch.nn, so a state dict loads unchanged. A module is owned by its parent, one without a
 * parent by the context. Modules start in training mode. A forward opens its own scope and keeps
 * only its result; one that is called with another kind of module is an error. */
#ifndef CT_NN_H
#define CT_NN_H

#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs any module with one input. */
CT_API ct_tensor *ct_forward(ct_module *module, ct_tensor *x);

/* ---- linear: y = x W^T + b. weight (out, in), bias (out): both U(-1/sqrt in, 1/sqrt in) ---- */
typedef struct {
    int64_t in_features, out_features;
    bool no_bias;
    ct_dtype dtype;
} ct_linear_opts;
CT_API ct_module *ct_linear_new(ct_context *context, ct_linear_opts opts);

/* ---- embedding: rows of weight (num_embeddings, embedding_dim), N(0, 1). Input: i64 ids ---- */
typedef struct {
    int64_t num_embeddings, embedding_dim;
    ct_dtype dtype;
} ct_embedding_opts;
CT_API ct_module *ct_embedding_new(ct_context *context, ct_embedding_opts opts);

/* ---- norms over the last dim: weight ones, bias zeros ---- */
typedef struct {
    int64_t dim;
    double eps; /* 0: 1e-5; or CT_ZERO */
    bool no_bias;
    ct_dtype dtype;
} ct_layer_norm_opts;
CT_API ct_module *ct_layer_norm_new(ct_context *context, ct_layer_norm_opts opts);

typedef struct {
    int64_t dim;
    double eps; /* 0: 1e-5; or CT_ZERO */
    ct_dtype dtype;
} ct_rms_norm_opts;
CT_API ct_module *ct_rms_norm_new(ct_context *context, ct_rms_norm_opts opts);

CT_API ct_module *ct_dropout_new(ct_context *context, double p);

/* ---- mlp ---- */

/* proj(dropout(activation(fc(x)))); children fc (hidden, dim) and proj (dim, hidden). Gated:
 * proj(dropout(activation(gate(x)) fc(x))), children fc, gate (hidden, dim) and proj; with
 * CT_SILU that is SwiGLU (Shazeer 2020, arXiv:2002.05202). */

typedef struct {
    int64_t dim, hidden; /* hidden 0: 4 dim */
    ct_activation activation;
    double dropout;
    bool no_bias;
    ct_dtype dtype;
    bool gated;
} ct_mlp_opts;
CT_API ct_module *ct_mlp_new(ct_context *context, ct_mlp_opts opts);

/* ---- positions ---- */

/* x (B, T, E) + table[first ... first + T - 1] (T, E). Sinusoidal: sin and cos of p / 10000^(2j/E),
 * interleaved, no parameters (Vaswani et al. 2017); learned: weight (max_length, E), N(0, 0.02^2).
 * first + T above max_length is CT_ERR_SHAPE. */

typedef struct {
    int64_t max_length, embed_dim;
    bool learned;
    double dropout; /* after the sum */
    ct_dtype dtype;
} ct_positions_opts;
CT_API ct_module *ct_positions_new(ct_context *context, ct_positions_opts opts);
/* first: the position of x's first row, e.g. the length of a cache */
CT_API ct_tensor *ct_positions_forward(ct_module *positions, ct_tensor *x, int64_t first);

/* ---- multi-head attention: torch.nn.MultiheadAttention, batch first ---- */
typedef enum {
    /* in_proj xavier_uniform as one (3E, E) matrix, out_proj U(-1/sqrt E, 1/sqrt E), biases zero */
    CT_INIT_TORCH,
    CT_INIT_XAVIER /* each of the four matrices xavier_uniform on its own, biases zero */
} ct_init_kind;

typedef struct {
    int64_t embed_dim, num_heads;
    int64_t num_kv_heads; /* 0: num_heads; a divisor of it: grouped-query attention */
    int64_t kdim, vdim;   /* 0: embed_dim */
    double dropout;       /* of the attention weights, in training */
    double out_dropout;   /* of the output, in training */
    bool no_bias, add_bias_kv, add_zero_attn;
    ct_init_kind init;
    ct_dtype dtype;
    /* rotary positions of queries and keys by ct_rope; head_dim must be even */
    bool rope;
    bool rope_interleaved; /* pairs (2j, 2j + 1) instead of (j, j + d/2) */
    double rope_base;      /* 0: 10000 */
    /* RMSNorm of each head's queries and keys before rope (Henry et al. 2020, arXiv:2010.04245):
     * q_norm.weight and k_norm.weight (head_dim), initially ones. Not applied to the keys of
     * add_bias_kv and add_zero_attn */
    bool qk_norm;
    double qk_norm_eps; /* 0: 1e-5; or CT_ZERO */
    /* children q_proj, k_proj and v_proj, each a Linear, instead of in_proj_weight (or
     * q_proj_weight, k_proj_weight, v_proj_weight) and in_proj_bias. Each matrix is
     * xavier_uniform, biases zero */
    bool separate;
} ct_mha_opts;
CT_API ct_module *ct_mha_new(ct_context *context, ct_mha_opts opts);

typedef struct {
    /* (T, S) or any shape that broadcasts to (B, H, T, S): bool, true = may attend, or float, added
     * to the scores */
    ct_tensor *mask;
    /* bool (B, S), true = a real token. Hidden rows of k and v that are not also queries may hold
     * any values, even NaN */
    ct_tensor *key_mask;
    bool causal, need_weights, per_head;
    ct_kv_cache *cache;
    /* for rope, the position of query 0 and key 0; with a cache, the position of the cache's first
     * key */
    int64_t rope_offset;
} ct_mha_call;

typedef struct {
    ct_tensor *out;     /* (B, T, E) */
    ct_tensor *weights; /* if need_weights, after dropout: mean over heads (B, T, S), or if per_head
                           (B, H, T, S) */
} ct_mha_out;

/* q (B, T, E), k (B, S, kdim), v (B, S, vdim); k and v both NULL: self-attention. With a cache of n
 * keys query i has position n + i, both for causality and for rope; without one the causal mask is
 * aligned to the top left. */
CT_API ct_mha_out ct_mha_forward(ct_module *mha, ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                 ct_mha_call call);

/* A cache for the keys and values of max_length positions of this module. In self-attention a
 * forward appends the keys of its queries, and masks are over all keys so far, S = length + T. In
 * cross-attention (k is not q) the first forward fills the cache with the keys and values of the
 * whole other sequence; later ones attend to these and read only the shapes of k and v. No gradient
 * flows through a cache. A forward that fails leaves it unchanged. From the second token on,
 * decoding one token at a time without weights, each in its own scope, does not call the allocator.
 * The caller frees it, before the context. */
CT_API ct_kv_cache *ct_kv_cache_new(ct_module *mha, int64_t batch, int64_t max_length);
/* A cache for attention of one's own, of no module (ct_mha_forward refuses it): f32 or f64. */
CT_API ct_kv_cache *ct_kv_cache_new_of(ct_context *context, ct_dtype dtype, int64_t batch,
                                       int64_t kv_heads, int64_t max_length, int64_t head_dim);
/* Appends *k and *v (B, H_kv, T, d), of the cache's dtype, and sets them to all keys and values so
 * far, (B, H_kv, length + T, d): views of the cache in the innermost scope, through which no
 * gradient flows and whose values stay until the cache is truncated. A module's cache takes them
 * too, unless it has add_bias_kv or add_zero_attn. False: an error, and the cache, *k and *v are
 * unchanged. Decoding does not call the allocator, as with a module's.
 *
 * Of these, ct_attention's .causal lets query i see keys 0 ... i: it counts from the first key, and
 * does not know that query i stands at length + i. So it is right only for the first append to an
 * empty cache. One query needs no mask, as it sees all; T of them, with n keys before, have
 *
 *     .mask = ct_tril(ct_ones(context, CT_BOOL, CT_SHAPE(T, n + T)), n) */
CT_API bool ct_kv_cache_append(ct_kv_cache *cache, ct_tensor **k, ct_tensor **v);
CT_API int64_t ct_kv_cache_length(const ct_kv_cache *cache); /* positions in it */
/* keeps the first `length` positions; more than the cache has: CT_ERR_ARGUMENT */
CT_API bool ct_kv_cache_truncate(ct_kv_cache *cache, int64_t length);
CT_API void ct_kv_cache_free(ct_kv_cache *cache);

/* ---- torch's TransformerEncoderLayer and TransformerDecoderLayer, batch first ---- */

/* The options from rms_norm on are those of later models. */

typedef struct {
    int64_t embed_dim, num_heads;
    int64_t hidden; /* 0: 4 embed_dim */
    ct_activation activation;
    double dropout; /* of attention weights, after each sublayer and inside the feed-forward */
    bool norm_first;
    double eps; /* 0: 1e-5; or CT_ZERO */
    bool no_bias;
    ct_dtype dtype;
    bool rms_norm; /* RMSNorm instead of LayerNorm */
    /* feed-forward linear2(dropout(activation(gate(x)) linear1(x))) with another child, gate
     * (hidden, embed_dim) */
    bool gated;
    int64_t num_kv_heads;        /* of every attention; 0: num_heads */
    bool rope, rope_interleaved; /* of self-attention, as in ct_mha_opts */
    double rope_base;            /* 0: 10000 */
    bool qk_norm;                /* of every attention, with the eps above */
    bool separate;               /* q_proj, k_proj, v_proj of every attention: see ct_mha_opts */
    /* each layer by ct_recompute: the tape keeps what it is given and not what it computes, and
     * backward runs it again, for the same bits in less memory. In training alone, and not where a
     * call has a cache or asks for weights. Masks are inputs of the layer; its modules must stay,
     * and stay in training, until backward */
    bool recompute;
} ct_layer_opts;
/* children self_attn, linear1, linear2, norm1, norm2 */
CT_API ct_module *ct_encoder_layer_new(ct_context *context, ct_layer_opts opts);
/* the same and multihead_attn, norm3 */
CT_API ct_module *ct_decoder_layer_new(ct_context *context, ct_layer_opts opts);

typedef struct {
    ct_tensor *out, *self_weights, *cross_weights;
} ct_layer_out;

/* A decoder layer's cache in `self` also holds the projected keys and values of memory. They are
 * computed when the cache is empty, so memory must stay the same until it is empty again. */
CT_API ct_layer_out ct_encoder_layer_forward(ct_module *layer, ct_tensor *x, ct_mha_call self);
CT_API ct_layer_out ct_decoder_layer_forward(ct_module *layer, ct_tensor *x, ct_tensor *memory,
                                             ct_mha_call self, ct_mha_call cross);

/* ---- torch's TransformerEncoder and TransformerDecoder ---- */

/* layers.0, layers.1, ..., and with final_norm a norm of the same kind as the layers'. Layers
 * are initialised independently. An encoder with rms_norm, gated, CT_SILU, rope, norm_first,
 * no_bias and a causal call is a decoder like Llama's; with CT_GELU_TANH, norm_first and a causal
 * call, one like GPT-2's. */

CT_API ct_module *ct_encoder_new(ct_context *context, ct_layer_opts layer, int64_t num_layers,
                                 bool final_norm);
CT_API ct_module *ct_decoder_new(ct_context *context, ct_layer_opts layer, int64_t num_layers,
                                 bool final_norm);

/* The arguments of a forward: the same call for every layer, and what each layer has of its own. */
typedef struct {
    /* cache and need_weights must be unset; an encoder has no cross */
    ct_mha_call self, cross;
    ct_kv_cache *const *caches; /* one for each layer, all of the same length; NULL: no caches */
    /* arrays that receive each layer's weights; NULL: weights are not computed */
    ct_tensor **self_weights;
    ct_tensor **cross_weights;
} ct_stack_call;
/* (B, T, E) -> (B, T, E) */
CT_API ct_tensor *ct_encoder_forward(ct_module *encoder, ct_tensor *x, ct_stack_call call);
/* memory (B, S, E) */
CT_API ct_tensor *ct_decoder_forward(ct_module *decoder, ct_tensor *x, ct_tensor *memory,
                                     ct_stack_call call);

/* Makes one cache for each of the n layers of an encoder or a decoder. False: an error, and all are
 * NULL. */
CT_API bool ct_kv_caches_new(ct_module *stack, int64_t batch, int64_t max_length,
                             ct_kv_cache **caches, int64_t n);

/* ---- torch's Transformer ---- */

/* Children encoder and decoder, each with a final norm; every matrix xavier_uniform. To decode one
 * token at a time, run ct_encoder_forward on its encoder once, then ct_decoder_forward on its
 * decoder with caches. */

typedef struct {
    ct_layer_opts layer;
    int64_t num_encoder_layers, num_decoder_layers; /* 0: 6 */
} ct_transformer_opts;
CT_API ct_module *ct_transformer_new(ct_context *context, ct_transformer_opts opts);

/* src (B, S, E), tgt (B, T, E) -> (B, T, E): decoder(tgt, encoder(src)). The encoder's call must
 * have no caches. */
CT_API ct_tensor *ct_transformer_forward(ct_module *transformer, ct_tensor *src, ct_tensor *tgt,
                                         ct_stack_call encoder, ct_stack_call decoder);

/* ---- modules of your own ---- */
CT_API ct_module *ct_module_new(ct_context *context, const char *kind);
/* forward must return: see context.h */
CT_API ct_module *ct_module_set_forward(ct_module *module,
                                        ct_tensor *(*forward)(void *self, ct_tensor *x),
                                        void *self);
/* Takes ownership of the tensor and sets requires_grad. A tensor may be added under several names
 * (shared weights); it is counted, stepped and saved once. */
CT_API ct_tensor *ct_module_add_param(ct_module *module, const char *name, ct_tensor *tensor);
/* Takes ownership of the tensor, of any dtype, contiguous and without a gradient: a state that is
 * not trained. A persistent one is saved and loaded with the parameters. No optimiser steps it, and
 * ct_module_count leaves it out. */
CT_API ct_tensor *ct_module_add_buffer(ct_module *module, const char *name, ct_tensor *tensor,
                                       bool persistent);
/* Takes ownership of the child and returns it. */
CT_API ct_module *ct_module_add_child(ct_module *module, const char *name, ct_module *child);
/* Puts the child where the one of that path stands ("layers.0.linear1"), at the same place in the
 * order of children. Returns the one that stood there: it has no parent now and is the caller's to
 * free or to add to another module, often to the new child. Built-in layers call what stands in
 * out_proj, linear1, linear2, gate, fc, proj, the norms, q_proj, k_proj and v_proj by ct_forward;
 * one that returns another shape than was there is CT_ERR_SHAPE. An optimiser refuses to step when
 * the tree has parameters that are new to it, and holds the old ones until it is freed: make it
 * afterwards. NULL: an error, and nothing has changed. */
CT_API ct_module *ct_module_set_child(ct_module *module, const char *path, ct_module *child);
/* adds the child to a list: list "h" has children h.0, h.1, ... */
CT_API ct_module *ct_module_append(ct_module *module, const char *list, ct_module *child);
/* "encoder.0"; no such child: CT_ERR_ARGUMENT */
CT_API ct_module *ct_module_child(ct_module *module, const char *name);
/* A parameter or buffer: "layers.0.self_attn.in_proj_weight"; no such: CT_ERR_ARGUMENT */
CT_API ct_tensor *ct_module_get(ct_module *module, const char *name);

typedef struct {
    const char *name; /* full name below the module iterated over; valid until the next call */
    ct_tensor *tensor;
    ct_module *owner; /* the module that has it under the last part of its name */
    uint64_t position[2];
    char buffer[256];
} ct_param;
/* Iterates over all parameters: start with a zeroed ct_param. False, without an error, after the
 * last. Between two calls modules may be added to the tree; once the owner of the last parameter is
 * not in it any more, the next call is CT_ERR_ARGUMENT. */
CT_API bool ct_module_next(const ct_module *module, ct_param *param);
/* The same over all buffers, persistent or not. */
CT_API bool ct_module_next_buffer(const ct_module *module, ct_param *buffer);

/* A copy of the tree with parameters and buffers of its own: the same values, names, options,
 * training flags and requires_grad; weights that are tied in the tree are tied in the copy. No
 * gradients, optimisers or caches. It has no parent and is the caller's. A module of one's own
 * whose forward has a `self` other than NULL or the module needs ct_module_set_forward, as `self`
 * would lead to the original. For a moving average of the weights see ct_lerp_into. */
CT_API ct_module *ct_module_clone(const ct_module *module);

/* ---- weights at rest ---- */

/* ct_module_to_bf16: every f32 parameter of two dims of the tree, rounded to bf16 (to nearest even,
 * as torch's .to(torch.bfloat16)), in half the memory, for inference. Parameters of other dims,
 * such as biases and those of norms, and buffers stay as they are; an f64 matrix is CT_ERR_DTYPE.
 *
 * A result is what the same module in f32 with those rounded values gives, bit for bit, for any
 * number of threads: activations and sums are f32, and ct_set_matmul rounds what it would round
 * there. ct_linear, ct_activated_linear, ct_linear_cross_entropy and ct_embedding (whose result is
 * f32) read bf16, and so do all modules of this header; gradients pass to x. Other ops say that
 * they do not take bf16, or that dtypes differ.
 *
 * A parameter is the same tensor as before, tied ones too; its gradient is gone, and none can be
 * required: ct_set_requires_grad of it, an optimiser over it and the step of one that was made
 * before are CT_ERR_DTYPE with its name. The f32 values are freed unless something else holds them,
 * such as a recorded graph; backward through a ct_recompute before the conversion is CT_ERR_GRAD.
 * ct_save writes BF16, and ct_load of BF16 is exact; F32, F64 and F16 of
 * a file are rounded, as others are converted.
 *
 * ct_module_to_f32: every bf16 matrix as f32, exactly; it requires a gradient again. An optimiser
 * that was made before both holds its parameters still.
 *
 * False: an error, and nothing has changed. */
CT_API bool ct_module_to_bf16(ct_module *module);
CT_API bool ct_module_to_f32(ct_module *module);

/* number of elements of all parameters, shared ones counted once */
CT_API int64_t ct_module_count(const ct_module *module);
CT_API void ct_module_train(ct_module *module, bool training);
CT_API bool ct_module_training(const ct_module *module);
/* prints the tree as torch's repr does */
CT_API void ct_module_print(const ct_module *module, FILE *file);
/* Frees a module with its children; ct_context_free does too. While a forward of one of them is
 * running it is CT_ERR_ARGUMENT, and nothing is freed. */
CT_API void ct_module_free(ct_module *module);

#ifdef __cplusplus
}
#endif
#endif
