/* Modules are trees of named parameters with a forward. Parameters have the names, layouts and
 * initial distributions of torch.nn, so a state dict of torch loads unchanged.
 *
 * A module belongs to its parent, or to the context if it has no parent. It starts in training
 * mode. Its forward opens a scope and keeps only the result. If a function for one kind of module,
 * such as ct_mha_forward, gets a module of another kind, that is CT_ERR_ARGUMENT. In all options
 * dtype is the dtype of the parameters, f32 (the default) or f64, and no_bias leaves out the
 * biases. */
#ifndef CT_NN_H
#define CT_NN_H

#include <cotangent/ops.h>
#include <cotangent/scope.h>
#include <cotangent/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Runs the forward of a module that has one input. */
CT_API ct_tensor *ct_forward(ct_module *module, ct_tensor *x);

/* ---- linear ---- */

/* y = x W^T + b. The parameters weight (out, in) and bias (out) are initialised to U(-1/sqrt in,
 * 1/sqrt in). */

typedef struct {
    int64_t in_features, out_features;
    bool no_bias;
    ct_dtype dtype;
} ct_linear_opts;
CT_API ct_module *ct_linear_new(ct_context *context, ct_linear_opts opts);

/* ---- embedding ---- */

/* ids, i64 (...) -> rows of weight (num_embeddings, embedding_dim), which is initialised to
 * N(0, 1). */

typedef struct {
    int64_t num_embeddings, embedding_dim;
    ct_dtype dtype;
} ct_embedding_opts;
CT_API ct_module *ct_embedding_new(ct_context *context, ct_embedding_opts opts);

/* ---- norms ---- */

/* Norms over the last dim, as ct_layer_norm and ct_rms_norm. weight is initialised to ones, bias to
 * zeros. */

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
    /* x / rms is multiplied by offset + weight, and weight is initialised to 1 - offset. Gemma's
     * norms have an offset of 1 */
    double offset;
} ct_rms_norm_opts;
CT_API ct_module *ct_rms_norm_new(ct_context *context, ct_rms_norm_opts opts);

/* ---- dropout ---- */

/* The forward returns ct_dropout(x, p) in training mode, and x otherwise. */
CT_API ct_module *ct_dropout_new(ct_context *context, double p);

/* ---- MLP ---- */

/* proj(dropout(activation(fc(x)))), with the children fc (hidden, dim) and proj (dim, hidden). With
 * gated it is proj(dropout(activation(gate(x)) fc(x))), with a third child, gate (hidden, dim);
 * with gated and CT_SILU it is SwiGLU (Shazeer 2020, arXiv:2002.05202). */

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

/* x (..., T, E) + table[first ... first + T - 1] (T, E). Without `learned` the table has sin and
 * cos of p / 10000^(2j/E), interleaved, and is no parameter (Vaswani et al. 2017). With `learned`
 * it is the parameter weight (max_length, E), initialised to N(0, 0.02^2). first + T above
 * max_length is CT_ERR_SHAPE. */

typedef struct {
    int64_t max_length, embed_dim;
    bool learned;
    double dropout; /* the dropout of the sum, in training */
    ct_dtype dtype;
} ct_positions_opts;
CT_API ct_module *ct_positions_new(ct_context *context, ct_positions_opts opts);
/* `first` is the position of x's first row, such as the length of a cache; ct_forward takes 0. */
CT_API ct_tensor *ct_positions_forward(ct_module *positions, ct_tensor *x, int64_t first);
/* x (B, T, E) plus the rows of the table at these positions, i64 (B, T), or (T) for all sequences.
 * A position outside [0, max_length) is CT_ERR_ARGUMENT, and the message has its place. */
CT_API ct_tensor *ct_positions_forward_at(ct_module *module, ct_tensor *x, ct_tensor *positions);

/* ---- multi-head attention ---- */

/* This module is torch.nn.MultiheadAttention with batch_first. */

typedef enum {
    /* in_proj_weight is xavier_uniform as one (3 H d, E) matrix, out_proj U(-b, b) with
     * b = 1/sqrt(H d), and the biases are zero */
    CT_INIT_TORCH,
    CT_INIT_XAVIER /* each of the four matrices is xavier_uniform, and the biases are zero */
} ct_init_kind;

/* The biases of the projections of attention. */
typedef enum {
    CT_BIAS_DEFAULT, /* CT_BIAS_NONE with no_bias, else CT_BIAS_ALL */
    CT_BIAS_ALL,
    CT_BIAS_QKV, /* queries, keys and values have biases, and out_proj has none, as in Qwen2 */
    CT_BIAS_NONE
} ct_bias;

typedef struct {
    int64_t embed_dim, num_heads;
    int64_t num_kv_heads; /* a divisor of num_heads, for grouped-query attention; 0: num_heads */
    int64_t kdim, vdim;   /* the widths of k and v; 0: embed_dim */
    double dropout;       /* the dropout of the attention weights, in training */
    double out_dropout;   /* the dropout of the output, in training */
    bool no_bias, add_bias_kv, add_zero_attn;
    ct_init_kind init;
    ct_dtype dtype;
    /* queries and keys are rotated by their positions, as by ct_rope with the options `rotary` and
     * d = head_dim. A copy of rotary.frequencies is the buffer rotary_frequencies (dims/2) of the
     * module, f64, which is neither trained nor saved */
    bool rope;
    ct_rope_opts rotary;
    /* RMSNorm is applied to each head's queries and keys before rope (Henry et al. 2020,
     * arXiv:2010.04245), with the weights q_norm.weight and k_norm.weight (head_dim), initially
     * ones. It is not applied to the keys of add_bias_kv and add_zero_attn */
    bool qk_norm;
    double qk_norm_eps; /* 0: 1e-5; or CT_ZERO */
    /* the projections are the children q_proj, k_proj and v_proj, each a Linear, and not the
     * parameters in_proj_weight (or q_proj_weight, k_proj_weight, v_proj_weight) and in_proj_bias.
     * Each matrix is xavier_uniform, and the biases are zero */
    bool separate;
    /* the width d of a head; 0: embed_dim / num_heads. in_proj_weight is (3 H d, E), q_proj_weight
     * (H d, E), k_proj_weight (H_kv d, kdim), and out_proj.weight (E, H d) */
    int64_t head_dim;
    ct_bias bias;   /* a value other than CT_BIAS_DEFAULT holds also with no_bias */
    double scale;   /* the factor of q k^T; 0: 1 / sqrt(d); or CT_ZERO */
    double softcap; /* the score is softcap tanh(scale q k^T / softcap); 0: none */
    /* the offset of q_norm and k_norm, as in ct_rms_norm_opts; without qk_norm it has no effect */
    double qk_norm_offset;
    ct_window window; /* as in ct_attention_opts; it hides no key of add_bias_kv or add_zero_attn */
} ct_mha_opts;
CT_API ct_module *ct_mha_new(ct_context *context, ct_mha_opts opts);

typedef struct {
    /* a mask (T, S), or of any shape that broadcasts to (B, H, T, S): bool, true if the query may
     * attend to the key, or float, added to the scores */
    ct_tensor *mask;
    /* bool (B, S), false for padding. Rows of k and v that it hides may hold any values, even NaN,
     * unless they are also queries */
    ct_tensor *key_mask;
    bool causal, need_weights, per_head; /* per_head: see ct_mha_out */
    ct_kv_cache *cache;                  /* a cache of this module, or NULL */
    /* the position, for rope, of query 0 and key 0; with a cache, of the cache's first key */
    int64_t rope_offset;
    /* i64 (T) or (B, T): the positions, for rope, of the queries, which in self-attention are also
     * the positions of their keys. They may be any numbers, and hide nothing: causality depends
     * only on the order of the keys. Keys of another sequence are at 0, 1, .... NULL: positions
     * count from rope_offset, and beside positions a rope_offset is CT_ERR_ARGUMENT. Without rope,
     * positions have no effect */
    ct_tensor *positions;
    /* the number that is added to a score; float (T, S), or of any shape that broadcasts to
     * (B, H, T, S). A float mask is a bias; a bias beside it is CT_ERR_ARGUMENT */
    ct_tensor *bias;
    /* i64 (B, T): a token sees only tokens of its own number. Only in self-attention without a
     * cache */
    ct_tensor *segments;
    /* i64 (B): row b of x has lengths[b] tokens, which come first. Queries behind them see nothing,
     * and nothing sees their keys. Row b of a cache grows by lengths[b] positions. Only in
     * self-attention without add_bias_kv and add_zero_attn */
    ct_tensor *lengths;
} ct_mha_call;

typedef struct {
    ct_tensor *out; /* (B, T, E) */
    /* the weights after dropout: their mean over heads (B, T, S), or with per_head (B, H, T, S).
     * NULL unless need_weights */
    ct_tensor *weights;
} ct_mha_out;

/* Computes attention of q (B, T, E), k (B, S, kdim) and v (B, S, vdim). If k and v are both NULL,
 * it is self-attention. With a cache of n keys query i has position n + i, for causality and,
 * unless the call has positions, for rope. Without a cache, causal lets query i attend to keys
 * 0 ... i. */
CT_API ct_mha_out ct_mha_forward(ct_module *mha, ct_tensor *q, ct_tensor *k, ct_tensor *v,
                                 ct_mha_call call);

/* ---- caches of keys and values ---- */

/* Returns a cache for the keys and values of up to max_length positions of this module. The caller
 * frees it before the context.
 *
 * In self-attention a forward appends the keys and values of its queries, and its masks cover all
 * keys so far, S = length + T, where length is the longest row's. In cross-attention (k is not q)
 * the first forward fills the cache with the keys and values of the whole other sequence; later
 * forwards attend to these and read only the shapes of k and v. No gradient flows through a cache.
 * A forward that fails leaves the cache unchanged. A program that decodes one token at a time, each
 * in a scope of its own and without weights, does not call the allocator from the second token on.
 */
CT_API ct_kv_cache *ct_kv_cache_new(ct_module *mha, int64_t batch, int64_t max_length);
/* Returns a cache of f32 or f64 that belongs to no module, for attention of your own with
 * ct_kv_cache_append. ct_mha_forward refuses it. */
CT_API ct_kv_cache *ct_kv_cache_new_of(ct_context *context, ct_dtype dtype, int64_t batch,
                                       int64_t kv_heads, int64_t max_length, int64_t head_dim);
/* Makes a cache of f32 store bf16 from then on, which halves its memory and the bytes that a token
 * of a long sequence reads. Keys and values are rounded to nearest even when they are stored; all
 * else is computed in f32, with the bits of an f32 cache that holds the rounded numbers. Positions
 * that the cache has already, and its keys of a decoder layer's memory, are rounded. Nothing
 * changes in a cache of bf16; a cache of f64 is CT_ERR_DTYPE. Forwards of several tokens convert a
 * block of keys at a time. Only a call that needs weights, and has at most two queries, at most
 * 16,384 scores a head or dropout, makes a copy of the cache in f32. If it returns false, nothing
 * has changed. */
CT_API bool ct_kv_cache_to_bf16(ct_kv_cache *cache);
/* Appends *k and *v (B, H_kv, T, d), of the cache's dtype or f32 for bf16, and sets *k and *v to
 * all keys and values so far, (B, H_kv, length + T, d). These are views of the cache in the
 * innermost scope, of bf16 if the cache stores bf16: ct_attention takes them beside a q of f32. No
 * gradient flows through them, and their values stay until the cache is truncated. It also works on
 * a module's cache, unless the module has add_bias_kv or add_zero_attn. Decoding does not call the
 * allocator, as above. If it returns false, the cache, *k and *v are unchanged.
 *
 * Query i of the T queries that belong to these tokens stands at position length + i, so they need
 * .causal and .lower_right of ct_attention; with .causal only, query i sees keys 0 ... i. If the
 * rows have different lengths, the queries, and also a single one, need .lengths too: those of
 * ct_kv_cache_lengths after the append. */
CT_API bool ct_kv_cache_append(ct_kv_cache *cache, ct_tensor **k, ct_tensor **v);
/* Returns the number of positions of the longest row. */
CT_API int64_t ct_kv_cache_length(const ct_kv_cache *cache);
/* Keeps at most the first `length` positions of each row. A length above the longest row's is
 * CT_ERR_ARGUMENT. */
CT_API bool ct_kv_cache_truncate(ct_kv_cache *cache, int64_t length);
/* Rows have different lengths after a forward with .lengths, or after ct_kv_cache_set_lengths. The
 * next tokens of each row then stand behind the row's own last position, and see only the row's own
 * keys. In these functions the arrays have a number for each row of the batch. set_lengths keeps
 * the first lengths[b] positions of row b; a length above the row's is CT_ERR_ARGUMENT, and so are
 * different lengths with add_bias_kv or add_zero_attn. select makes row b what row rows[b] was, as
 * beam search needs, also in the keys of a decoder layer's memory. If one of them returns false,
 * nothing has changed. */
CT_API bool ct_kv_cache_lengths(const ct_kv_cache *cache, int64_t *lengths);
CT_API bool ct_kv_cache_set_lengths(ct_kv_cache *cache, const int64_t *lengths);
CT_API bool ct_kv_cache_select(ct_kv_cache *cache, const int64_t *rows);
/* Frees a cache. It does nothing for NULL or a cache that is freed already. */
CT_API void ct_kv_cache_free(ct_kv_cache *cache);

/* ---- transformer layers ---- */

/* torch's TransformerEncoderLayer and TransformerDecoderLayer with batch_first. torch's layers lack
 * the options from rms_norm on, which later models need. The layers of some models, always with
 * norm_first and causal calls:
 *
 *     GPT-2    .activation = CT_GELU_TANH
 *     Llama    .activation = CT_SILU, .gated, .rms_norm, .no_bias, .attn = {.rope, .num_kv_heads}
 *     Qwen2    Llama's and .attn.bias = CT_BIAS_QKV
 *     Qwen3    Llama's and .attn.head_dim, .attn.qk_norm
 *     Gemma 3  .activation = CT_GELU_TANH, .gated, .rms_norm, .no_bias, .norm_offset = 1,
 * .sandwich, .attn = {.num_kv_heads, .head_dim, .scale, .rope, .qk_norm, .qk_norm_offset = 1}
 *     Pythia   .activation = CT_GELU, .parallel, .attn = {.rope} */

typedef struct {
    int64_t embed_dim, num_heads;
    int64_t hidden; /* the width of the feed-forward; 0: 4 embed_dim */
    ct_activation activation;
    /* the dropout of attention weights, after each sublayer and inside the feed-forward */
    double dropout;
    bool norm_first;
    double eps; /* the eps of all norms; 0: 1e-5; or CT_ZERO */
    bool no_bias;
    ct_dtype dtype;
    bool rms_norm; /* the norms are RMSNorm instead of LayerNorm */
    /* the feed-forward is linear2(dropout(activation(gate(x)) linear1(x))), with another child,
     * gate (hidden, embed_dim) */
    bool gated;
    /* each layer runs by ct_recompute: the tape keeps the layer's inputs, masks included, but not
     * its intermediate values, and backward runs the layer again. The bits are the same and memory
     * is less. The layer's modules must stay, in training mode, until backward. The option has no
     * effect outside training mode and for a call that has a cache or asks for weights */
    bool recompute;
    double norm_offset; /* the offset of all norms, as in ct_rms_norm_opts; it needs rms_norm */
    /* These two need norm_first. With sandwich the result of each sublayer f passes another norm
     * before it is added: x + norm1_out(f(norm1(x))), then likewise with norm2 and norm2_out, as in
     * Gemma 3. With parallel all sublayers read the layer's input:
     * x + attention(norm1(x)) + feed_forward(norm2(x)), as in GPT-NeoX; in a decoder layer
     * x + self(norm1(x)) + cross(norm2(x)) + feed_forward(norm3(x)) */
    bool sandwich, parallel;
    /* the options of every attention, except these five, which are 0 here and are the layer's own:
     * embed_dim, num_heads, dropout, no_bias and dtype. If qk_norm_eps is 0, it is the eps above.
     * kdim and vdim are 0 or embed_dim. Rotary positions and the window are only in
     * self-attention */
    ct_mha_opts attn;
} ct_layer_opts;
/* The children are self_attn, linear1, linear2, norm1, norm2, and with sandwich norm1_out and
 * norm2_out. */
CT_API ct_module *ct_encoder_layer_new(ct_context *context, ct_layer_opts opts);
/* The children are self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3, and with
 * sandwich norm1_out, norm2_out and norm3_out. */
CT_API ct_module *ct_decoder_layer_new(ct_context *context, ct_layer_opts opts);

typedef struct {
    ct_tensor *out, *self_weights, *cross_weights; /* weights are NULL unless need_weights */
} ct_layer_out;

/* A module of one input may stand in the place of an attention (ct_module_set_child). It gets x,
 * and of the call only `causal` may be set: memory, a cache, padding, segments, positions, a mask,
 * a bias or weights are CT_ERR_ARGUMENT, because it cannot follow them.
 *
 * x (B, T, E) -> (B, T, E). memory (B, S, E) is the output of the encoder. In a decoder layer the
 * cache of `self` also holds the projected keys and values of memory. The first forward with an
 * empty cache computes them, so memory must stay the same until the cache is empty again. */
CT_API ct_layer_out ct_encoder_layer_forward(ct_module *layer, ct_tensor *x, ct_mha_call self);
CT_API ct_layer_out ct_decoder_layer_forward(ct_module *layer, ct_tensor *x, ct_tensor *memory,
                                             ct_mha_call self, ct_mha_call cross);

/* ---- stacks of layers ---- */

/* These modules are torch's TransformerEncoder and TransformerDecoder. Their children are layers.0,
 * layers.1, ..., and with final_norm also `norm`, of the same kind as the norms in the layers. The
 * layers are initialised independently. An encoder with causal calls is a decoder like GPT-2's or
 * Llama's. */

CT_API ct_module *ct_encoder_new(ct_context *context, ct_layer_opts layer, int64_t num_layers,
                                 bool final_norm);
/* Makes an encoder of n layers, each with its own options, for models whose layers differ in their
 * attention (Gemma 3, SmolLM3). embed_dim and dtype must be the same in all of them. The final norm
 * has the options of layers[0]. */
CT_API ct_module *ct_encoder_new_of(ct_context *context, const ct_layer_opts *layers, int64_t n,
                                    bool final_norm);
CT_API ct_module *ct_decoder_new(ct_context *context, ct_layer_opts layer, int64_t num_layers,
                                 bool final_norm);

/* The arguments of a forward: the calls of the attentions, which are the same for every layer, and
 * the cache and the weights of each layer. */
typedef struct {
    /* the calls of the attentions of each layer; cross is used only by decoders. Both must have
     * cache NULL and need_weights false */
    ct_mha_call self, cross;
    ct_kv_cache *const *caches; /* one for each layer, all of the same length; NULL: no caches */
    /* arrays that receive the weights of each layer; NULL: weights are not computed */
    ct_tensor **self_weights;
    ct_tensor **cross_weights;
} ct_stack_call;
/* x (B, T, E) -> (B, T, E) */
CT_API ct_tensor *ct_encoder_forward(ct_module *encoder, ct_tensor *x, ct_stack_call call);
/* x (B, T, E), memory (B, S, E) -> (B, T, E) */
CT_API ct_tensor *ct_decoder_forward(ct_module *decoder, ct_tensor *x, ct_tensor *memory,
                                     ct_stack_call call);

/* Makes one cache for each of the n layers of an encoder or a decoder. If it returns false, all are
 * NULL. */
CT_API bool ct_kv_caches_new(ct_module *stack, int64_t batch, int64_t max_length,
                             ct_kv_cache **caches, int64_t n);

/* ---- transformer ---- */

/* This module is torch's Transformer. Its children are encoder and decoder, each with a final norm.
 * Every matrix is xavier_uniform. To decode one token at a time, run ct_encoder_forward on the
 * child encoder once, then ct_decoder_forward on the child decoder with caches. */

typedef struct {
    ct_layer_opts layer;
    int64_t num_encoder_layers, num_decoder_layers; /* 0: 6 */
} ct_transformer_opts;
CT_API ct_module *ct_transformer_new(ct_context *context, ct_transformer_opts opts);

/* src (B, S, E), tgt (B, T, E) -> decoder(tgt, encoder(src)), (B, T, E). The encoder's call must
 * have no caches. */
CT_API ct_tensor *ct_transformer_forward(ct_module *transformer, ct_tensor *src, ct_tensor *tgt,
                                         ct_stack_call encoder, ct_stack_call decoder);

/* ---- modules of your own ---- */

/* Returns a module without parameters and children. `kind` is the name that is printed for it. */
CT_API ct_module *ct_module_new(ct_context *context, const char *kind);
/* Sets the function that ct_forward calls, and `self`, the first argument of this function; returns
 * the module. forward is a callback and must return; see context.h. */
CT_API ct_module *ct_module_set_forward(ct_module *module,
                                        ct_tensor *(*forward)(void *self, ct_tensor *x),
                                        void *self);
/* The type of modules that have data of the program. The type and everything to which it points
 * must outlive its modules. Any function may be NULL. The functions are callbacks and must return;
 * see context.h. */
typedef struct {
    const char *name; /* the name in errors and in ct_module_print, such as "GatedPooling" */
    /* Computes y from x for ct_forward, which opens a scope for the call. NULL: ct_forward fails. A
     * module with several inputs needs a forward function of its own, which calls
     * ct_module_enter. */
    ct_tensor *(*forward)(void *data, ct_tensor *x);
    void (*describe)(const void *data,
                     FILE *file); /* prints the options, like torch's extra_repr */
    /* Returns the data for a copy of the module. ct_module_clone calls it after the copy has got
     * its parameters and children, unless the data is NULL. If clone is NULL and the data is not,
     * ct_module_clone fails with CT_ERR_ARGUMENT. */
    void *(*clone)(void *data, ct_module *copy);
    void (*end)(
        void *data); /* frees the data; called when the module is freed, see ct_module_on_free */
} ct_module_type;

/* Returns a module of that type without parameters and children. After an error it returns NULL and
 * does not call `end`: the data still belongs to the caller. */
CT_API ct_module *ct_module_new_of(ct_context *context, const ct_module_type *type, void *data);
/* Returns the data of a module of that type. It works while an error is pending. A module of
 * another type is CT_ERR_ARGUMENT, and NULL is returned. */
CT_API void *ct_module_data(const ct_module *module, const ct_module_type *type);
/* Returns whether a module was made with that type. A type is told by its address, so another type
 * of the same name is another type. Records no error; false for NULL or a freed module. */
CT_API bool ct_module_is(const ct_module *module, const ct_module_type *type);

/* Opens a scope for a forward with any inputs, and returns it. Until the scope is closed, error
 * messages begin with the module's path, debug mode and the profile name the module, and the module
 * cannot be freed.
 *
 *     ct_tensor *pool(ct_module *m, ct_tensor *x, ct_tensor *mask) {
 *         ct_scope scope = ct_module_enter(m);
 *         ct_tensor *score = ct_linear(x, ct_module_get(m, "weight"), NULL);
 *         ...
 *         return ct_scope_return(scope, y);
 *     }
 *
 * To return further results, move them out of the scope by ct_scope_keep. */
CT_API ct_scope ct_module_enter(ct_module *module);

/* Makes the library call fn(arg) once when the module is freed: by ct_module_free of the module or
 * of a module above it, or with the context. The call comes while the module's parameters and
 * children still exist, even if an error is pending. The functions of a module run in the reverse
 * order of their addition, then `end` of its type, then the functions of its children.
 *
 * fn is a callback and must return. It may use the module. If fn frees the module, or adds
 * children or functions to a module that is being freed, that is CT_ERR_ARGUMENT. If the argument
 * fn is NULL, the function that was added last with this arg is removed. If ct_module_on_free
 * returns false, nothing has changed. */
CT_API bool ct_module_on_free(ct_module *module, void (*fn)(void *arg), void *arg);

/* Adds a parameter and returns it. The module takes ownership of the tensor (contiguous; f32, f64,
 * or bf16, which has no gradient) and sets requires_grad. A tensor may be added under several names
 * (shared weights); the tensor is counted, updated and saved once. */
CT_API ct_tensor *ct_module_add_param(ct_module *module, const char *name, ct_tensor *tensor);
/* Adds a buffer, a state that is not trained, and returns it. The module takes ownership of the
 * tensor (contiguous, of any dtype, without requires_grad). A persistent buffer is saved and loaded
 * with the parameters. No optimiser steps a buffer, and ct_module_count does not count it. */
CT_API ct_tensor *ct_module_add_buffer(ct_module *module, const char *name, ct_tensor *tensor,
                                       bool persistent);
/* Adds a child, takes ownership of it, and returns it. */
CT_API ct_module *ct_module_add_child(ct_module *module, const char *name, ct_module *child);
/* Replaces the module at `path` ("layers.0.linear1") by `child`, which takes its name and its place
 * in the order of children. Returns the old module, or NULL after an error, and then nothing has
 * changed. The old module has no parent now: the caller may free it or add it to another module,
 * often to the new child.
 *
 * The layers of this header run the children out_proj, linear1, linear2, gate, fc, proj, q_proj,
 * k_proj, v_proj and the norms by ct_forward. A new child whose result has another shape than the
 * old one's is CT_ERR_SHAPE. Make optimisers after the replacement: an existing optimiser refuses
 * to step while the tree has parameters that are new to it, and holds the old ones until it is
 * freed. */
CT_API ct_module *ct_module_set_child(ct_module *module, const char *path, ct_module *child);
/* Adds the child to the end of a list: list "h" has the children h.0, h.1, ... */
CT_API ct_module *ct_module_append(ct_module *module, const char *list, ct_module *child);
/* Returns the module at a path below this module, such as "encoder.0". If there is none, that is
 * CT_ERR_ARGUMENT. */
CT_API ct_module *ct_module_child(ct_module *module, const char *name);
/* Returns the parameter or buffer at a path below this module, such as
 * "layers.0.self_attn.in_proj_weight". If there is none, that is CT_ERR_ARGUMENT. */
CT_API ct_tensor *ct_module_get(ct_module *module, const char *name);

typedef struct {
    const char *name; /* the full name below the module iterated over; valid until the next call */
    ct_tensor *tensor;
    ct_module
        *owner; /* the module that has the tensor; the last part of `name` is its name there */
    uint64_t position[2]; /* the state of the iteration */
    char buffer[256];     /* the memory of name */
} ct_param;
/* Iterates over all parameters of the tree; the first call gets a zeroed ct_param. Returns false,
 * without an error, after the last parameter. Between two calls modules may be added to the tree.
 * If the owner of the parameter that the last call returned has left the tree, the next call is
 * CT_ERR_ARGUMENT. */
CT_API bool ct_module_next(const ct_module *module, ct_param *param);
/* Iterates in the same way over all buffers, persistent or not. */
CT_API bool ct_module_next_buffer(const ct_module *module, ct_param *buffer);

/* Returns a copy of the tree with its own parameters and buffers. It has the same values, names,
 * options, training flags and requires_grad; tied weights are tied in the copy too. It has no
 * gradients, optimisers, caches or parent, and belongs to the caller. If the forward of
 * ct_module_set_forward has a `self` that is neither NULL nor the module, the copy has no forward,
 * because `self` belongs to the original; set the forward of the copy by ct_module_set_forward. For
 * a moving average of the weights see ct_lerp_into. */
CT_API ct_module *ct_module_clone(const ct_module *module);

/* ---- weights at rest ---- */

/* Converts the weights of all Linears, attentions and token embeddings in the tree, so that
 * inference, or the training of an adapter, needs less memory for them:
 *
 *     CT_BF16    half of f32's memory; rounded to nearest even, as torch's .to(torch.bfloat16)
 *     CT_Q8_0    8.5 bits an element: blocks of 32 elements, rounded as llama.cpp does
 *     CT_Q4_0    4.5 bits an element
 *     CT_F32     back, exactly
 *
 * A matrix whose rows are no multiple of 32 becomes bf16 in place of blocks. Other parameters stay
 * as they are: biases, weights of norms, tables of positions and of token types, adapters
 * (ct_lora_add), matrices of a program's own modules; and so do buffers. To CT_F32 every parameter
 * of bf16 or blocks is widened. An f64 matrix is CT_ERR_DTYPE, and so is another dtype.
 *
 * A result has the bits of the same module in f32 with the converted values, for any number of
 * threads: activations and sums are f32, and ct_set_matmul has the same effect. ct_linear,
 * ct_activated_linear, ct_linear_cross_entropy, ct_embedding (whose result is f32) and all modules
 * of this header read such weights, and gradients pass to x. Of the other ops only those that take
 * any dtype (ops.h) take bf16, and CT_Q8_0 (types.h) says what reads blocks; the rest refuse them
 * with CT_ERR_DTYPE.
 *
 * A parameter stays the same tensor, under all its names, but loses its gradient and cannot require
 * one. These are CT_ERR_DTYPE with its name: ct_set_requires_grad on it, a new optimiser of it, and
 * the next step of an existing optimiser, unless it was frozen by ct_set_requires_grad(param,
 * false). The f32 values are freed unless something else holds them, such as a recorded graph. A
 * backward through a ct_recompute that ran before the conversion is CT_ERR_GRAD. ct_save writes
 * such a parameter as BF16, in which blocks are rounded, or as its options say. ct_load reads
 * floats of any format into it and rounds them; BF16 into bf16 is exact. A checkpoint of a module
 * with blocks needs ct_checkpoint.trained.
 *
 * To CT_F32 each converted parameter requires a gradient again. An optimiser that was made before
 * both conversions still holds its parameters.
 *
 * If the function returns false, nothing has changed. Inside a step of an optimiser it is
 * CT_ERR_ARGUMENT. */
CT_API bool ct_module_to(ct_module *module, ct_dtype dtype);

/* ---- other functions of modules ---- */

/* Returns the name of a module's kind, such as "Linear", or of its ct_module_type. It is valid
 * until the module is freed, and "" for NULL or a freed module. The name is for messages: two types
 * may have the same one, and ct_module_is tells them apart. */
CT_API const char *ct_module_kind(const ct_module *module);
/* Returns the number of elements of all parameters; a shared parameter counts once. */
CT_API int64_t ct_module_count(const ct_module *module);
/* Turns training mode on or off for a module and all modules below it. Dropout is active only in
 * training mode. */
CT_API void ct_module_train(ct_module *module, bool training);
/* Returns whether the module is in training mode; false for NULL. */
CT_API bool ct_module_training(const ct_module *module);
/* Prints the tree as torch's repr does. */
CT_API void ct_module_print(const ct_module *module, FILE *file);
/* Frees a module with its children, as ct_context_free does. If a forward of one of these modules
 * or a step of its optimiser is running, that is CT_ERR_ARGUMENT, and nothing is freed. */
CT_API void ct_module_free(ct_module *module);

#ifdef __cplusplus
}
#endif
#endif
