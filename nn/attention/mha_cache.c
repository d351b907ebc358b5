/* A KV cache in multi-head attention: whether it fits a call, and its keys and values. */
#include "mha.h"

bool cti_nn_cache_takes(const ct_kv_cache *cache, const ct_module *mha, const ct_tensor *q,
                        const ct_tensor *k) {
    ct_context *context = mha->context;
    const int64_t s = k->shape.dim[1], offset = cti_nn_cache_offset(cache, q, k);
    if (cache->mha != mha)
        ct_fail(context, CT_ERR_ARGUMENT,
                "MultiheadAttention: the cache was made for another module, or for none");
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
                "MultiheadAttention: the cache has room for %" PRId64
                " positions and holds %" PRId64 "; %" PRId64 " more do not fit",
                cache->max_length, offset, s);
    return cti_ready(context);
}

/* A child that makes another dtype is an error, the same as without a cache: nothing is
 * converted. */
static ct_tensor *extend(ct_tensor *buffer, int64_t length, ct_tensor *x) {
    if (!x) return NULL;
    if (x->dtype != buffer->dtype)
        return ct_fail(buffer->context, CT_ERR_DTYPE,
                       "MultiheadAttention: the cache is %s, the keys or values are %s",
                       cti_dtype_name(buffer->dtype), cti_dtype_name(x->dtype));
    const int64_t t = x->shape.dim[2];
    CTI_ASSERT(0 <= length && length + t <= buffer->shape.dim[2]);
    return ct_copy_into(ct_narrow(buffer, 2, length, t), x) ? ct_narrow(buffer, 2, 0, length + t)
                                                            : NULL;
}

bool cti_nn_cache_extend(ct_kv_cache *cache, int64_t n, ct_tensor **k, ct_tensor **v) {
    if (!cti_object_is_open(&cache->object, "MultiheadAttention")) return false;
    *k = extend(cache->k, n, *k);
    *v = extend(cache->v, n, *v);
    return *k && *v;
}

void cti_nn_cache_read(const ct_kv_cache *cache, ct_tensor **k, ct_tensor **v) {
    if (!cti_object_is_open(&cache->object, "MultiheadAttention")) return;
    const int64_t rows = cache->length + cti_nn_mha_extra_keys(cti_nn_data(cache->mha));
    *k = ct_narrow(cache->k, 2, 0, rows);
    *v = ct_narrow(cache->v, 2, 0, rows);
}
