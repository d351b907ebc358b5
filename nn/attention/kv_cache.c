/* kv_cache: room for max_length keys and values, filled in place, and for the keys that add_bias_kv and add_zero_attn put behind
 * them, which the next ones overwrite. One whose keys are of another sequence is filled at once and read from then on. A module knows its
 * caches, so that one that outlives it is nobody's. */
#include "mha.h"

static ct_tensor *room(ct_context *context, ct_dtype dtype, ct_shape shape) {
    ct_tensor *tensor = ct_zeros(context, dtype, shape);
    if (tensor) cti_tensor_disown(tensor);
    return tensor;
}

ct_kv_cache *ct_kv_cache_new(ct_module *mha, int64_t batch, int64_t max_length) {
    if (!cti_nn_is(mha, &cti_nn_mha_kind, "ct_kv_cache_new")) return NULL;
    ct_context *context = mha->context;
    const ct_mha_opts *o = cti_nn_data(mha);
    if (batch < 0 || max_length < 0)
        return ct_fail(context, CT_ERR_ARGUMENT, "ct_kv_cache_new: a batch of %" PRId64 " and a length of %" PRId64, batch, max_length);
    int64_t rows = 0;
    if (__builtin_add_overflow(max_length, cti_nn_mha_extra_keys(o), &rows))
        return ct_fail(context, CT_ERR_MEMORY, "ct_kv_cache_new: a length of %" PRId64 " overflows", max_length);
    ct_kv_cache *cache = cti_take(context, sizeof *cache);
    if (!cache) return NULL;
    cti_nn_mha_data *data = cti_nn_data(mha);
    *cache = (ct_kv_cache){.context = context, .mha = mha, .next = data->caches, .batch = batch, .max_length = max_length};
    data->caches = cache;
    ct_shape shape = CT_SHAPE(batch, o->num_kv_heads, rows, o->embed_dim / o->num_heads);
    cache->k = room(context, o->dtype, shape);
    cache->v = room(context, o->dtype, shape);
    if (cache->k && cache->v) return cache;
    ct_kv_cache_free(cache);
    return NULL;
}

int64_t ct_kv_cache_length(const ct_kv_cache *cache) { return cache ? cache->length : 0; }

bool ct_kv_cache_truncate(ct_kv_cache *cache, int64_t length) {
    if (!cache || !cti_ready(cache->context)) return false;
    if (length < 0 || length > cache->length)
        return ct_fail(cache->context, CT_ERR_ARGUMENT, "ct_kv_cache_truncate: a length of %" PRId64 " from one of %" PRId64, length,
                       cache->length);
    cache->length = length;
    return true;
}

void ct_kv_cache_free(ct_kv_cache *cache) {
    if (!cache) return;
    if (cache->mha) {
        ct_kv_cache **link = &((cti_nn_mha_data *)cti_nn_data(cache->mha))->caches;
        while (*link != cache) link = &(*link)->next;
        *link = cache->next;
    }
    ct_kv_cache_free(cache->memory);
    if (cache->k) cti_tensor_end(cache->k);
    if (cache->v) cti_tensor_end(cache->v);
    cti_give(cache->context, cache, sizeof *cache);
}

bool cti_nn_cache_takes(const ct_kv_cache *cache, const ct_module *mha, const ct_tensor *q, const ct_tensor *k) {
    ct_context *context = mha->context;
    const int64_t s = k->shape.dim[1];
    if (cache->mha != mha)
        ct_fail(context, CT_ERR_ARGUMENT, "MultiheadAttention: the cache was made for another module");
    if (q->shape.dim[0] != cache->batch)
        ct_fail(context, CT_ERR_SHAPE, "MultiheadAttention: query %s with a cache for a batch of %" PRId64, SHAPE(q->shape), cache->batch);
    if (k != q && cache->length && s != cache->length)
        ct_fail(context, CT_ERR_SHAPE, "MultiheadAttention: key %s with a cache that holds the %" PRId64 " keys of another sequence",
                SHAPE(k->shape), cache->length);
    if (s > cache->max_length - (k == q ? cache->length : 0))
        ct_fail(context, CT_ERR_SHAPE,
                "MultiheadAttention: %" PRId64 " positions more than the %" PRId64 " of %" PRId64 " that the cache has", s,
                k == q ? cache->length : 0, cache->max_length);
    return cti_ready(context);
}

static ct_tensor *extend(ct_tensor *room, int64_t length, ct_tensor *x) {
    int64_t t = ct_dim(x, 2);
    return cti_op_copy_into(ct_narrow(room, 2, length, t), x) ? ct_narrow(room, 2, 0, length + t) : NULL;
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

ct_kv_cache *cti_nn_cache_of_memory(ct_kv_cache *self, ct_module *cross, const ct_tensor *memory, bool anew) {
    if (anew || (self->memory && self->memory->mha != cross)) {
        ct_kv_cache_free(self->memory);
        self->memory = NULL;
    }
    if (!self->memory) self->memory = ct_kv_cache_new(cross, memory->shape.dim[0], memory->shape.dim[1]);
    return self->memory;
}
