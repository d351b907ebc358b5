/* Internals of multi-head attention that its layers, masks and cache use. */
#ifndef CTI_NN_ATTENTION_MHA_H
#define CTI_NN_ATTENTION_MHA_H

#include "../module.h"

/* Its data is the ct_mha_opts with defaults filled in. */
extern const cti_nn_kind cti_nn_mha_kind;

/* The number of keys that add_bias_kv and add_zero_attn append to the input's keys: 0, 1 or 2. */
static inline int64_t cti_nn_mha_extra_keys(const ct_mha_opts *o) {
    return o->add_bias_kv + o->add_zero_attn;
}

/* Do the masks broadcast to scores (batch, H, t, s)? s includes the keys in the cache. */
bool cti_nn_masks_fit(const ct_module *mha, const ct_mha_call *call, int64_t batch, int64_t t,
                      int64_t s);

/* x (B, S, width) with zeros where the key mask (B, S) is false. So hidden keys and values may be
 * NaN: they reach no product, forward or backward, and their gradient is zero. */
ct_tensor *cti_nn_masks_clear(ct_tensor *x, ct_tensor *key_mask);

/* Converts the call's masks and causal flag to masks of ct_attention over s keys, of which the
 * first `offset` come from a cache: query i has position offset + i, and every query may attend to
 * the extra keys. */
void cti_nn_masks_prepare(const ct_module *mha, ct_mha_call *call, int64_t t, int64_t s,
                          int64_t offset);

/* Keys and values (B, H_kv, max_length + extra, d): in self-attention of earlier positions, in
 * cross-attention of the whole other sequence. No gradient flows through a cache. */
struct ct_kv_cache {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    ct_module *mha; /* the module it belongs to; NULL: none, or one that was freed */
    cti_nn_dependent dependent;
    int64_t batch, length, max_length;
    ct_tensor *k, *v;
    /* for a decoder layer's self-attention: the cache of its cross-attention, made on first use */
    ct_kv_cache *memory;
};

/* Its invariants, for asserts. */
static inline bool cti_nn_cache_is_sound(const ct_kv_cache *cache) {
    const int64_t extra = cache->mha ? cti_nn_mha_extra_keys(cti_nn_data(cache->mha)) : 0;
    return 0 <= cache->length && cache->length <= cache->max_length &&
           cache->k->shape.dim[2] >= cache->max_length + extra &&
           cti_shape_equal(cache->k->shape, cache->v->shape);
}

/* Whether a cache that a caller hands in, or NULL, has not been freed and is of the module's
 * context; else the function's error. */
static inline bool cti_nn_cache_in(const ct_kv_cache *cache, const ct_module *module,
                                   const char *function) {
    return !cache || cti_object_in(&cache->object, module->context, function);
}

/* The number of keys of a cache, or of NULL, that come before this call's keys: in self-attention,
 * where k is q, all that the cache holds. */
static inline int64_t cti_nn_cache_offset(const ct_kv_cache *cache, const ct_tensor *q,
                                          const ct_tensor *k) {
    return cache && k == q ? cache->length : 0;
}

/* Can the cache be used in this call? k == q (self-attention): it needs room for one more key per
 * query. Otherwise k is another sequence, which must fit if the cache is empty, and must have the
 * cache's length if it is not. */
bool cti_nn_cache_takes(const ct_kv_cache *cache, const ct_module *mha, const ct_tensor *q,
                        const ct_tensor *k);

/* Both are errors where a child of the caller's, which projects, has freed the cache.
 *
 * Copies *k and *v (B, H_kv, T + extra, d) to positions n, n + 1, ... of the cache, and sets them
 * to views of all its keys and values, (B, H_kv, n + T + extra, d). Does not change cache->length:
 * the caller does after the whole forward has succeeded. */
bool cti_nn_cache_extend(ct_kv_cache *cache, int64_t n, ct_tensor **k, ct_tensor **v);
/* Sets *k and *v to views of all keys and values in the cache. */
void cti_nn_cache_read(const ct_kv_cache *cache, ct_tensor **k, ct_tensor **v);

/* The cache of a decoder layer's cross-attention, stored in the cache of its self-attention and
 * made on first use. anew: it is replaced, because memory is a new sequence. */
ct_kv_cache *cti_nn_cache_of_memory(ct_kv_cache *self, ct_module *cross, const ct_tensor *memory,
                                    bool anew);

#endif
