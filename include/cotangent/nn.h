/* Modules: trees of named parameters with a forward. Names, layouts and initialisation are
 * torch.nn's, so a state dict loads unchanged. A module belongs to its parent, the outermost to the
 * context. Every module starts in training mode; a forward is checked to be handed its own kind. A
 * forward opens a scope of its own and hands out its result alone. */
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

/* ---- embedding: rows of weight (num_embeddings, embedding_dim), N(0, 1). Its input is i64 ---- */
typedef struct {
    int64_t num_embeddings, embedding_dim;
    ct_dtype dtype;
} ct_embedding_opts;
CT_API ct_module *ct_embedding_new(ct_context *context, ct_embedding_opts opts);

/* ---- norms over the last dim: weight ones, bias zeros ---- */
typedef struct {
    int64_t dim;
    double eps; /* 0: 1e-5 */
    bool no_bias;
    ct_dtype dtype;
} ct_layer_norm_opts;
CT_API ct_module *ct_layer_norm_new(ct_context *context, ct_layer_norm_opts opts);

typedef struct {
    int64_t dim;
    double eps; /* 0: 1e-5 */
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

/* x (B, T, E) + table (T, E). Sinusoidal: sin and cos of p / 10000^(2j/E), interleaved, no
 * parameters (Vaswani et al. 2017); learned: weight (max_length, E), N(0, 0.02^2). T over
 * max_length: CT_ERR_SHAPE. */

typedef struct {
    int64_t max_length, embed_dim;
    bool learned;
    double dropout; /* after the sum */
    ct_dtype dtype;
} ct_positions_opts;
CT_API ct_module *ct_positions_new(ct_context *context, ct_positions_opts opts);
/* x's first row stands at `first`: rows first ... first + T - 1 of the table, as after a cache of
 * that length */
CT_API ct_tensor *ct_positions_forward(ct_module *positions, ct_tensor *x, int64_t first);

/* ---- multi-head attention: torch.nn.MultiheadAttention, batch first ---- */
typedef enum {
    /* in_proj xavier_uniform as one (3E, E) matrix, out_proj U(-1/sqrt E, 1/sqrt E), biases zero */
    CT_INIT_TORCH,
    CT_INIT_XAVIER /* each of the four matrices xavier_uniform on its own, biases zero */
} ct_init_kind;

typedef struct {
    int64_t embed_dim, num_heads;
    int64_t num_kv_heads; /* 0: num_heads; else a divisor of it: grouped queries */
    int64_t kdim, vdim;   /* 0: embed_dim */
    double dropout;       /* of the weights, in training */
    double out_dropout;   /* of the output, in training */
    bool no_bias, add_bias_kv, add_zero_attn;
    ct_init_kind init;
    ct_dtype dtype;
    /* rotary positions of queries and keys, as ct_rope; head_dim must be even */
    bool rope;
    bool rope_interleaved; /* pairs (2j, 2j + 1) instead of (j, j + d/2) */
    double rope_base;      /* 0: 10000 */
    /* before that, RMSNorm of each head's queries and keys: q_norm.weight, k_norm.weight
     * (head_dim), ones (Henry et al. 2020, arXiv:2010.04245). Keys that add_bias_kv or
     * add_zero_attn add are left as they are */
    bool qk_norm;
    double qk_norm_eps; /* 0: 1e-5 */
} ct_mha_opts;
CT_API ct_module *ct_mha_new(ct_context *context, ct_mha_opts opts);

typedef struct {
    /* bool, true = may attend, or float, added: (T, S) or what broadcasts to (B, H, T, S) */
    ct_tensor *mask;
    /* bool (B, S), true = a real token. What it hides of k and v where they are not q may be
     * anything, NaN too */
    ct_tensor *key_mask;
    bool causal, need_weights, per_head;
    ct_kv_cache *cache;
    /* where query 0 and key 0 stand, for rope; with a cache, where its own first key does */
    int64_t rope_offset;
} ct_mha_call;

typedef struct {
    ct_tensor *out;     /* (B, T, E) */
    ct_tensor *weights; /* (B, T, S), or per_head (B, H, T, S), where asked for; after dropout */
} ct_mha_out;

/* q (B, T, E), k (B, S, kdim), v (B, S, vdim); k and v both NULL: self-attention. With a cache of n
 * keys query i stands at n + i, for causality and rotary alike; else masks are top-left. */
CT_API ct_mha_out ct_mha_forward(ct_module *mha, ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                 ct_mha_call call);

/* Room for the keys and values of max_length positions of this module, filled as it runs: with a
 * cache each query brings one key, and masks are over all keys so far, S = length + T. Where k is
 * not q the cache is of that other sequence: empty, it takes all of its keys and values; from then
 * on these are attended to, and of k and v only the shapes are read. What is in a cache are values
 * alone: no gradient goes through them. A forward that fails leaves it as it was. After the first
 * token the next ones, one at a time, without weights and in a scope of their own, ask the
 * allocator for nothing. It is the caller's to free, before the context. */
CT_API ct_kv_cache *ct_kv_cache_new(ct_module *mha, int64_t batch, int64_t max_length);
CT_API int64_t ct_kv_cache_length(const ct_kv_cache *cache); /* positions in it */
/* keeps the first; more than there are: CT_ERR_ARGUMENT */
CT_API bool ct_kv_cache_truncate(ct_kv_cache *cache, int64_t length);
CT_API void ct_kv_cache_free(ct_kv_cache *cache);

/* ---- torch's TransformerEncoderLayer and TransformerDecoderLayer, batch first ---- */

/* The last options are those of later models. */

typedef struct {
    int64_t embed_dim, num_heads;
    int64_t hidden; /* 0: 4 embed_dim */
    ct_activation activation;
    double dropout; /* of the weights, after each block and inside the feed-forward */
    bool norm_first;
    double eps; /* 0: 1e-5 */
    bool no_bias;
    ct_dtype dtype;
    bool rms_norm; /* RMSNorm for LayerNorm */
    /* linear2(dropout(activation(gate(x)) linear1(x))), one child more, gate (hidden, embed_dim) */
    bool gated;
    int64_t num_kv_heads;        /* of every attention; 0: num_heads */
    bool rope, rope_interleaved; /* of self-attention, as in ct_mha_opts */
    double rope_base;            /* 0: 10000 */
    bool qk_norm;                /* of every attention, with this eps */
} ct_layer_opts;
/* self_attn, linear1, linear2, norm1, norm2 */
CT_API ct_module *ct_encoder_layer_new(ct_context *context, ct_layer_opts opts);
/* and multihead_attn, norm3 */
CT_API ct_module *ct_decoder_layer_new(ct_context *context, ct_layer_opts opts);

typedef struct {
    ct_tensor *out, *self_weights, *cross_weights;
} ct_layer_out;

/* A cache in `self` keeps for a decoder layer what it has projected of memory, too: memory is read
 * when the cache is empty, and is to be the same until it is empty again. */
CT_API ct_layer_out ct_encoder_layer_forward(ct_module *layer, ct_tensor *x, ct_mha_call self);
CT_API ct_layer_out ct_decoder_layer_forward(ct_module *layer, ct_tensor *x, ct_tensor *memory,
                                             ct_mha_call self, ct_mha_call cross);

/* ---- torch's TransformerEncoder and TransformerDecoder ---- */

/* layers.0, layers.1, ..., and with final_norm a norm of the layers' kind. Every layer is
 * initialised on its own. An encoder with rms_norm, gated, CT_SILU, rope, norm_first, no_bias
 * and a causal call is Llama's kind of decoder; with CT_GELU_TANH, norm_first and a causal call,
 * GPT-2's. */

CT_API ct_module *ct_encoder_new(ct_context *context, ct_layer_opts layer, int64_t num_layers,
                                 bool final_norm);
CT_API ct_module *ct_decoder_new(ct_context *context, ct_layer_opts layer, int64_t num_layers,
                                 bool final_norm);

/* The same call for every layer, but for what is of each: */
typedef struct {
    /* their cache and need_weights must not be set; an encoder has no cross */
    ct_mha_call self, cross;
    ct_kv_cache *const *caches; /* one for each layer, all of one length; NULL: none */
    /* room for each layer's weights, which are then made; NULL: they are not */
    ct_tensor **self_weights;
    ct_tensor **cross_weights;
} ct_stack_call;
/* (B, T, E) -> (B, T, E) */
CT_API ct_tensor *ct_encoder_forward(ct_module *encoder, ct_tensor *x, ct_stack_call call);
/* memory (B, S, E) */
CT_API ct_tensor *ct_decoder_forward(ct_module *decoder, ct_tensor *x, ct_tensor *memory,
                                     ct_stack_call call);

/* A cache for each layer of an encoder or a decoder that has n of them: of its self-attention and,
 * once it has run, of memory. False: an error, and nothing was made. */
CT_API bool ct_kv_caches_new(ct_module *stack, int64_t batch, int64_t max_length,
                             ct_kv_cache **caches, int64_t n);

/* ---- torch's Transformer ---- */

/* Children encoder and decoder, each with a final norm; every matrix xavier_uniform. One token
 * at a time: ct_encoder_forward of its encoder once, then ct_decoder_forward of its decoder with
 * caches. */

typedef struct {
    ct_layer_opts layer;
    int64_t num_encoder_layers, num_decoder_layers; /* 0: 6 */
} ct_transformer_opts;
CT_API ct_module *ct_transformer_new(ct_context *context, ct_transformer_opts opts);

/* src (B, S, E), tgt (B, T, E) -> (B, T, E): decoder(tgt, encoder(src)). The encoder's call has no
 * caches. */
CT_API ct_tensor *ct_transformer_forward(ct_module *transformer, ct_tensor *src, ct_tensor *tgt,
                                         ct_stack_call encoder, ct_stack_call decoder);

/* ---- modules of your own ---- */
CT_API ct_module *ct_module_new(ct_context *context, const char *kind);
CT_API ct_module *ct_module_set_forward(ct_module *module,
                                        ct_tensor *(*forward)(void *self, ct_tensor *x),
                                        void *self);
/* takes it over and sets requires_grad; one tensor may have several names: it is counted, stepped
 * and saved once */
CT_API ct_tensor *ct_module_add_param(ct_module *module, const char *name, ct_tensor *tensor);
/* takes it over; returns the child */
CT_API ct_module *ct_module_add_child(ct_module *module, const char *name, ct_module *child);
/* "h": h.0, h.1, ... */
CT_API ct_module *ct_module_append(ct_module *module, const char *list, ct_module *child);
/* "encoder.0"; no such child: CT_ERR_ARGUMENT */
CT_API ct_module *ct_module_child(ct_module *module, const char *name);
/* "layers.0.self_attn.in_proj_weight" */
CT_API ct_tensor *ct_module_get(ct_module *module, const char *name);

typedef struct {
    const char *name; /* the full name under the module iterated over; good until the next call */
    ct_tensor *tensor;
    ct_module *owner; /* the module that holds it */
    uint64_t position[2];
    char buffer[256];
} ct_param;
/* from a zeroed ct_param; false, with no error, after the last */
CT_API bool ct_module_next(const ct_module *module, ct_param *param);

/* elements of all parameters, a shared one once */
CT_API int64_t ct_module_count(const ct_module *module);
CT_API void ct_module_train(ct_module *module, bool training);
CT_API bool ct_module_training(const ct_module *module);
/* the tree, in the manner of torch's repr */
CT_API void ct_module_print(const ct_module *module, FILE *file);
/* with its children; ct_context_free does it too */
CT_API void ct_module_free(ct_module *module);

#ifdef __cplusplus
}
#endif
#endif
