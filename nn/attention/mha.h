/* What the layers and the cache know of multi-head attention. */
#ifndef CTI_NN_ATTENTION_MHA_H
#define CTI_NN_ATTENTION_MHA_H

#include "../module.h"

typedef struct {
    ct_mha_opts opts; /* defaults filled in; first, so that the data is these */
    ct_kv_cache *caches;
} cti_nn_mha_data;
extern const cti_nn_kind cti_nn_mha_kind;

/* Keys and values that are put behind those of the input. */
static inline int64_t cti_nn_mha_extra_keys(const ct_mha_opts *o) {
    return o->add_bias_kv + o->add_zero_attn;
}

/* Do the masks fit batch x heads x t x s scores, s with the cache's keys? */
bool cti_nn_masks_fit(const ct_module *mha, const ct_mha_call *call, int64_t batch, int64_t t,
                      int64_t s);

/* Keys or values (B, S, width) with zeros where the key mask (B, S) hides them: whatever stands
 * there, no product sees it, forward or backward, and its own gradient is zero. */
ct_tensor *cti_nn_masks_clear(ct_tensor *x, ct_tensor *key_mask);

/* Makes the call's masks and causality over s keys, of which `offset` are from a cache,
 * ct_attention's: queries stand behind the offset, and the extra keys are hidden from nobody. */
void cti_nn_masks_prepare(const ct_module *mha, ct_mha_call *call, int64_t t, int64_t s,
                          int64_t offset);

/* Keys and values, (B, H_kv, max_length + extra, d) each: of earlier positions, or of another
 * sequence, whole. They are values alone: no gradient goes through them. */
struct ct_kv_cache {
    ct_context *context;
    const ct_module *mha; /* whose they are; NULL: it has ended */
    ct_kv_cache *next;    /* of the same module */
    int64_t batch, length, max_length;
    ct_tensor *k, *v;
    /* of a decoder layer's self-attention: its cross-attention's, made when first used */
    ct_kv_cache *memory;
};

/* How many keys of a cache, or of NULL, come before those of this call: in self-attention, where k
 * is q, all that the cache holds. */
static inline int64_t cti_nn_cache_offset(const ct_kv_cache *cache, const ct_tensor *q,
                                          const ct_tensor *k) {
    return cache && k == q ? cache->length : 0;
}

/* Does the cache take this call's keys? k is q: one more for each query. Else those of another
 * sequence, which it has room for or holds. */
bool cti_nn_cache_takes(const ct_kv_cache *cache, const ct_module *mha, const ct_tensor *q,
                        const ct_tensor *k);

/* Writes *k and *v (B, H_kv, T + extra, d) behind the first n and makes them all of it, (B, H_kv, n
 * + T + extra, d). The length is the caller's to raise, when all has gone well. */
bool cti_nn_cache_extend(ct_kv_cache *cache, int64_t n, ct_tensor **k, ct_tensor **v);
void cti_nn_cache_read(const ct_kv_cache *cache, ct_tensor **k, ct_tensor **v); /* all of it */

/* The cache that the cross-attention of a decoder layer has beside that of its self-attention;
 * anew: another one, for this memory. */
ct_kv_cache *cti_nn_cache_of_memory(ct_kv_cache *self, ct_module *cross, const ct_tensor *memory,
                                    bool anew);

#endif
