/* kv_cache: memory for the keys and values of max_length positions, filled in place, and for the
 * extra keys of add_bias_kv and add_zero_attn, which follow the last position and are overwritten
 * by the next. In cross-attention the first call fills the cache and later calls only read it. A
 * module lists its caches and, when it is freed, clears their `mha`, so that no cache refers to a
 * freed module. */
#include "mha.h"

int64_t ct_kv_cache_length(const ct_kv_cache *cache) {
    return cache && cti_object_is_open(&cache->object, "ct_kv_cache_length") ? cache->length : 0;
}

bool ct_kv_cache_truncate(ct_kv_cache *cache, int64_t length) {
    if (!cti_object_is_ready(cache ? &cache->object : NULL, "ct_kv_cache_truncate", "cache", NULL))
        return false;
    if (length < 0 || length > cache->length)
        return ct_fail(cache->context, CT_ERR_ARGUMENT,
                       "ct_kv_cache_truncate: a length of %" PRId64 " from one of %" PRId64, length,
                       cache->length);
    cache->length = length;
    return true;
}

void ct_kv_cache_free(ct_kv_cache *cache) {
    if (!cache || cache->object.self != &cache->object) return;
    if (cache->mha) {
        ct_kv_cache **link = &((cti_nn_mha_data *)cti_nn_data(cache->mha))->caches;
        while (*link != cache) link = &(*link)->next;
        *link = cache->next;
    }
    ct_kv_cache_free(cache->memory);
    if (cache->k) cti_tensor_end(cache->k);
    if (cache->v) cti_tensor_end(cache->v);
    cti_object_end(&cache->object, "of keys and values");
}

bool cti_nn_cache_takes(const ct_kv_cache *cache, const ct_module *mha, const ct_tensor *q,
                        const ct_tensor *k) {
    ct_context *context = mha->context;
    const int64_t s = k->shape.dim[1], offset = cti_nn_cache_offset(cache, q, k);
    if (cache->mha != mha)
        ct_fail(context, CT_ERR_ARGUMENT,
                "MultiheadAttention: the cache was made for another module");
    if (q->shape.dim[0] != cache->batch)
        ct_fail(context, CT_ERR_SHAPE,
                "MultiheadAttention: query %s with a cache for a batch of %" PRId64,
                SHAPE(q->shape), cache->batch);
    if (k != q && cache->length && s != cache->length)
        ct_fail(context, CT_ERR_SHAPE,
                "MultiheadAttention: key %s with a cache that holds the %" PRId64
                " keys of another sequence",
                SHAPE(k->shape), cache->length);
    if (s > cache->max_length - offset)
        ct_fail(context, CT_ERR_SHAPE,
                "MultiheadAttention: %" PRId64 " positions more than the %" PRId64 " of %" PRId64
                " that the cache has",
                s, offset, cache->max_length);
    return cti_ready(context);
}

static ct_tensor *extend(ct_tensor *buffer, int64_t length, ct_tensor *x) {
    int64_t t = ct_dim(x, 2);
    return cti_op_copy_into(ct_narrow(buffer, 2, length, t), x)
               ? ct_narrow(buffer, 2, 0, length + t)
               : NULL;
}

bool cti_nn_cache_extend(ct_kv_cache *cache, int64_t n, ct_tensor **k, ct_tensor **v) {
    *k = extend(cache->k, n, *k);
    *v = extend(cache->v, n, *v);
    return *k && *v;
}

void cti_nn_cache_read(const ct_kv_cache *cache, ct_tensor **k, ct_tensor **v) {
    const int64_t rows = cache->length + cti_nn_mha_extra_keys(cti_nn_data(cache->mha));
    *k = ct_narrow(cache->k, 2, 0, rows);
    *v = ct_narrow(cache->v, 2, 0, rows);
}
