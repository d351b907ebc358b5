/* The internals of multi-head attention, for its module, its masks, its cache and the decoder's
 * layers. */
#ifndef CTI_NN_ATTENTION_MHA_H
#define CTI_NN_ATTENTION_MHA_H

#include "../module.h"

#include "../../src/core/int_math.h"

/* The data of an attention. */
typedef struct {
    ct_mha_opts opts; /* must be first; with defaults filled in */
    const cti_nn_mha_names *names;
} cti_nn_mha;

/* torch's module, and the attention of a family's layer, which prints as a Group. */
extern const ct_module_type cti_nn_mha_type, cti_nn_family_mha_type;
static inline bool cti_nn_is_mha(const ct_module *module) {
    return module && (module->type == &cti_nn_mha_type || module->type == &cti_nn_family_mha_type);
}
/* Returns whether a function may use this attention; otherwise records an error. */
static inline bool cti_nn_mha_is_ready(const ct_module *mha, const char *function,
                                       const ct_tensor *beside) {
    const bool family = mha && mha->type == &cti_nn_family_mha_type;
    return cti_nn_is(mha, family ? &cti_nn_family_mha_type : &cti_nn_mha_type, function, beside);
}

/* Returns the attention of a family's layer without children, and adds these, with undefined
 * values. */
ct_module *cti_nn_mha_named(ct_context *context, ct_mha_opts opts, const cti_nn_mha_names *names);
void cti_nn_mha_fill(ct_module *mha);

/* Returns the number of keys that add_bias_kv and add_zero_attn append to the input's keys: 0, 1 or
 * 2. */
static inline int64_t cti_nn_mha_extra_keys(const ct_mha_opts *o) {
    return o->add_bias_kv + o->add_zero_attn;
}

/* What is known of a forward before it computes anything: its inputs, which have been checked, and
 * their sizes. */
typedef struct {
    ct_module *mha;
    const ct_mha_opts *opts;
    const cti_nn_mha_names *names;
    ct_tensor *q, *k, *v; /* the inputs, (B, T, E), (B, S, kdim) and (B, S, vdim) */
    const ct_mha_call *call;
    int64_t batch, t, s; /* B, T, S */
    int64_t offset;      /* the keys in the cache's longest row, which come before the call's */
    bool self;           /* k is q; otherwise keys are another sequence */
    bool projected;      /* the cache has the other sequence already: k and v are not projected */
    /* Whether ct_packed_attention can read Q, K and V from the product with in_proj_weight. It
     * cannot if the heads are normed, rotated, cached or extended in between */
    bool packed;
} cti_mha_plan;

/* Returns whether the masks and the bias broadcast to the scores, which include keys in the cache,
 * and whether segments and lengths fit the tokens. If not, records an error. */
bool cti_mha_check_masks(const cti_mha_plan *p);

/* Returns the options of ct_attention. Query i is the key number offset + i of the sequence, so a
 * causal mask hides the keys from offset + i + 1 on. Every query sees the extra keys. If the
 * cache's rows are ragged, the offset of a row is its own length, and the masks are cut to the keys
 * that the cache has room for. */
ct_attention_opts cti_mha_attention_opts(const cti_mha_plan *p);

/* Makes the results of queries behind the lengths (B) of their rows zeros, because such queries see
 * nothing: out (B, T, width), and the weights if there are any. */
void cti_mha_zero_queries(ct_tensor *lengths, ct_attention_out *attention);

/* Keys and values (B, H_kv, max_length + extra, d), stored in the dtype of the module or, after
 * ct_kv_cache_to_bf16, in bf16. In self-attention they are of earlier positions, in cross-attention
 * of the whole other sequence. No gradient flows through a cache.
 *
 * Invariants:
 * 1. Row b has rows[b] positions, and length is the largest of these; 0 <= length <= max_length. k
 *    and v have one shape and dtype, with room for max_length positions and the extra keys of the
 *    module.
 * 2. Positions 0 ... rows[b] - 1 of row b are filled. The extra keys follow them and are
 *    overwritten by the next position. A module with extra keys has rows of one length.
 * 3. rows grow only after a whole forward, or ct_kv_cache_append, has succeeded. A call that fails
 *    changes no filled position.
 * 4. The caller owns the cache. It is a hook of its module, so that mha becomes NULL when the
 *    module is freed.
 * 5. memory belongs to the cache and is freed with it.
 * 6. While `marks` is not 0, a layer or a stack runs, which sets rows back to `marked` if it
 *    fails. */
struct ct_kv_cache {
    union {
        cti_object object; /* must be the first member */
        ct_context *context;
    };
    ct_module *mha; /* its module; NULL if it has none, or the module was freed */
    int64_t batch, length, max_length;
    ct_tensor *k, *v;
    /* the lengths of the rows: now, after the forward that cti_nn_cache_plan was called for, and
     * when the outermost layer or stack began. One block of memory */
    int64_t *rows, *after, *marked;
    int marks; /* the number of layers and stacks that run with the cache */
    /* the cache of the decoder layer's cross-attention, made on first use; NULL in other caches */
    ct_kv_cache *memory;
};

/* Returns the length of the longest of `batch` rows; 0 if there are none. */
static inline int64_t cti_nn_longest(const int64_t *rows, int64_t batch) {
    int64_t longest = 0;
    for (int64_t b = 0; b < batch; b++) longest = rows[b] > longest ? rows[b] : longest;
    return longest;
}

/* Returns whether invariant 1 holds. For asserts. */
static inline bool cti_nn_cache_is_sound(const ct_kv_cache *cache) {
    const int64_t extra = cache->mha ? cti_nn_mha_extra_keys(cti_nn_data(cache->mha)) : 0;
    return cache->length == cti_nn_longest(cache->rows, cache->batch) &&
           cache->length <= cache->max_length &&
           cache->k->shape.dim[2] >= cache->max_length + extra &&
           cti_shape_equal(cache->k->shape, cache->v->shape) && cache->k->dtype == cache->v->dtype;
}

/* Returns whether a cache that a caller hands in has not been freed and is of the module's context;
 * NULL counts as such a cache. If not, records an error that begins with the function's name. */
static inline bool cti_nn_cache_in(const ct_kv_cache *cache, const ct_module *module,
                                   const char *function) {
    return !cache || cti_object_in(&cache->object, module->context, function);
}

/* Returns whether the cache is one of this module and fits the batch. In cross-attention the other
 * sequence must fit if the cache is empty, and must have the cache's length if it is not. If the
 * cache cannot be used, records an error. */
bool cti_nn_cache_takes(const ct_kv_cache *cache, const cti_mha_plan *p);
/* Computes cache->after: each row grows by t positions, or by lengths[b] of them if lengths, i64
 * (B), is not NULL. In cross-attention (self is false) each row gets t positions
 * in place of its own. Returns false, with an error recorded, if a row has no room. */
bool cti_nn_cache_plan(ct_kv_cache *cache, bool self, int64_t t, const ct_tensor *lengths);
/* Returns whether the planned forward of t positions has rows that begin at different positions or
 * grow by fewer than t. */
bool cti_nn_cache_is_ragged(const ct_kv_cache *cache, int64_t t);
/* Returns whether each row of a has the length of the row of b; both have one batch. */
bool cti_nn_cache_rows_equal(const ct_kv_cache *a, const ct_kv_cache *b);
/* Returns the indices rows[b], rows[b] + 1, ... of t further positions of each row, i64 (B, t). */
ct_tensor *cti_nn_cache_indices(const ct_kv_cache *cache, int64_t t);
/* Makes the planned lengths the lengths of the rows. */
void cti_nn_cache_grow(ct_kv_cache *cache);

/* Remember the lengths of the rows before a layer or a stack runs, and, if it has failed, restore
 * them. Calls may be nested. cache may be NULL. */
void cti_nn_cache_mark(ct_kv_cache *cache);
void cti_nn_cache_unmark(ct_kv_cache *cache, bool good);

/* The next two functions record an error if a child that projects, which may be a caller's, has
 * freed the cache.
 *
 * Copies *k and *v (B, H_kv, T + extra, d) behind the first n positions of the cache, or of each
 * row if the planned forward is ragged, and sets them to views of all its keys and values, (B,
 * H_kv, n + T + extra, d), or fewer if the cache has no room for so many. It does not change the
 * lengths of the rows: the caller does that after the whole forward has succeeded. */
bool cti_nn_cache_extend(ct_kv_cache *cache, int64_t n, int64_t t, ct_tensor **k, ct_tensor **v);
/* Sets *k and *v to views of all keys and values in the cache. */
void cti_nn_cache_read(const ct_kv_cache *cache, ct_tensor **k, ct_tensor **v);

/* Returns the cache of a decoder layer's cross-attention, which is stored in the cache of its
 * self-attention and made on first use, of bf16 if that one is. With anew it is replaced, because
 * memory is a new sequence. */
ct_kv_cache *cti_nn_cache_of_memory(ct_kv_cache *self, ct_module *cross, const ct_tensor *memory,
                                    bool anew);

#endif
