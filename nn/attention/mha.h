/* The internals of multi-head attention, for its module, its masks, its cache and the decoder's
 * layers. */
#ifndef CTI_NN_ATTENTION_MHA_H
#define CTI_NN_ATTENTION_MHA_H

#include "../module.h"

/* A module of this kind has a ct_mha_opts, with defaults filled in, as its data. */
extern const cti_nn_kind cti_nn_mha_kind;

/* Returns the number of keys that add_bias_kv and add_zero_attn append to the input's keys: 0, 1 or
 * 2. */
static inline int64_t cti_nn_mha_extra_keys(const ct_mha_opts *o) {
    return o->add_bias_kv + o->add_zero_attn;
}

/* Returns whether the masks broadcast to scores (batch, H, t, s); s includes the keys in the cache.
 * If not, records an error. */
bool cti_nn_masks_fit(const ct_module *mha, const ct_mha_call *call, int64_t batch, int64_t t,
                      int64_t s);

/* Returns x (B, S, width) with zeros in rows whose element of the key mask (B, S) is false. So
 * hidden keys and values may be NaN: they reach no product, forward or backward, and their gradient
 * is zero. */
ct_tensor *cti_nn_masks_clear(ct_tensor *x, ct_tensor *key_mask);

/* Converts the call's masks and causal flag to masks of ct_attention over s keys, of which the
 * first `offset` come from a cache: query i has position offset + i, and every query may attend to
 * the extra keys. */
void cti_nn_masks_prepare(const ct_module *mha, ct_mha_call *call, int64_t t, int64_t s,
                          int64_t offset);

/* Keys and values (B, H_kv, max_length + extra, d). In self-attention they are of earlier
 * positions, in cross-attention of the whole other sequence. No gradient flows through a cache.
 *
 * Invariants:
 * 1. 0 <= length <= max_length. k and v have one shape, with room for max_length positions and the
 *    extra keys of the module.
 * 2. Positions 0 ... length - 1 are filled. The extra keys follow them and are overwritten by the
 *    next position.
 * 3. length grows only after a whole forward, or ct_kv_cache_append, has succeeded. A call that
 *    fails changes no filled position.
 * 4. The caller owns the cache. The module has it in the list of its dependents, and mha becomes
 *    NULL when the module is freed.
 * 5. memory belongs to the cache and is freed with it. */
struct ct_kv_cache {
    union {
        cti_object object; /* must be the first member */
        ct_context *context;
    };
    ct_module *mha; /* its module; NULL if it has none, or the module was freed */
    cti_nn_dependent dependent;
    int64_t batch, length, max_length;
    ct_tensor *k, *v;
    /* the cache of the decoder layer's cross-attention, made on first use; NULL in other caches */
    ct_kv_cache *memory;
};

/* Returns whether invariant 1 holds. For asserts. */
static inline bool cti_nn_cache_is_sound(const ct_kv_cache *cache) {
    const int64_t extra = cache->mha ? cti_nn_mha_extra_keys(cti_nn_data(cache->mha)) : 0;
    return 0 <= cache->length && cache->length <= cache->max_length &&
           cache->k->shape.dim[2] >= cache->max_length + extra &&
           cti_shape_equal(cache->k->shape, cache->v->shape);
}

/* Returns whether a cache that a caller hands in has not been freed and is of the module's context;
 * NULL counts as such a cache. If not, records an error that begins with the function's name. */
static inline bool cti_nn_cache_in(const ct_kv_cache *cache, const ct_module *module,
                                   const char *function) {
    return !cache || cti_object_in(&cache->object, module->context, function);
}

/* Returns the number of keys that come before this call's keys: in self-attention (k == q) all keys
 * in the cache, otherwise 0. cache may be NULL. */
static inline int64_t cti_nn_cache_offset(const ct_kv_cache *cache, const ct_tensor *q,
                                          const ct_tensor *k) {
    return cache && k == q ? cache->length : 0;
}

/* Returns whether the cache can be used in this call. In self-attention (k == q) it needs room for
 * one more key for each query. Otherwise k is another sequence, which must fit if the cache is
 * empty, and must have the cache's length if it is not. If the cache cannot be used, records an
 * error. */
bool cti_nn_cache_takes(const ct_kv_cache *cache, const ct_module *mha, const ct_tensor *q,
                        const ct_tensor *k);

/* The next two functions record an error if a child that projects, which may be a caller's, has
 * freed the cache.
 *
 * Copies *k and *v (B, H_kv, T + extra, d) to positions n, n + 1, ... of the cache, and sets them
 * to views of all its keys and values, (B, H_kv, n + T + extra, d). It does not change
 * cache->length: the caller does that after the whole forward has succeeded. */
bool cti_nn_cache_extend(ct_kv_cache *cache, int64_t n, ct_tensor **k, ct_tensor **v);
/* Sets *k and *v to views of all keys and values in the cache. */
void cti_nn_cache_read(const ct_kv_cache *cache, ct_tensor **k, ct_tensor **v);

/* Returns the cache of a decoder layer's cross-attention, which is stored in the cache of its
 * self-attention and made on first use. With anew it is replaced, because memory is a new
 * sequence. */
ct_kv_cache *cti_nn_cache_of_memory(ct_kv_cache *self, ct_module *cross, const ct_tensor *memory,
                                    bool anew);

#endif
