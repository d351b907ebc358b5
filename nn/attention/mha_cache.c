/* A KV cache in multi-head attention: whether it fits a call, and its keys and values. */
#include "mha.h"

bool cti_nn_cache_takes(const ct_kv_cache *cache, const cti_mha_plan *p) {
    ct_context *context = p->mha->context;
    if (cache->mha != p->mha)
        ct_fail(context, CT_ERR_ARGUMENT,
                "MultiheadAttention: the cache was made for another module, or for none");
    if (p->batch != cache->batch)
        ct_fail(context, CT_ERR_SHAPE,
                "MultiheadAttention: query %s with a cache for a batch of %" PRId64,
                SHAPE(p->q->shape), cache->batch);
    if (!p->self && cache->length && p->s != cache->length)
        ct_fail(context, CT_ERR_SHAPE,
                "MultiheadAttention: key %s with a cache that holds the %" PRId64
                " keys of another sequence",
                SHAPE(p->k->shape), cache->length);
    for (int64_t b = 0; !p->self && b < cache->batch; b++)
        if (cache->rows[b] != cache->length)
            ct_fail(context, CT_ERR_ARGUMENT,
                    "MultiheadAttention: rows 0 and %" PRId64 " of the cache have lengths %" PRId64
                    " and %" PRId64 ", but the keys of another sequence are one for all",
                    b, cache->rows[0], cache->rows[b]);
    return cti_ready(context);
}

/* ---- lengths ---- */

bool cti_nn_cache_plan(ct_kv_cache *cache, bool self, int64_t t, const ct_tensor *lengths) {
    if (lengths && !ct_to_i64(lengths, cache->after, cache->batch)) return false;
    for (int64_t b = 0; b < cache->batch; b++) {
        const int64_t before = self ? cache->rows[b] : 0, n = lengths ? cache->after[b] : t;
        if (n < 0 || n > t)
            return ct_fail(cache->context, CT_ERR_ARGUMENT,
                           "MultiheadAttention: length %" PRId64 " is %" PRId64
                           ", not in [0, T] = [0, %" PRId64 "]",
                           b, n, t);
        if (n > cache->max_length - before)
            return ct_fail(cache->context, CT_ERR_SHAPE,
                           "MultiheadAttention: the cache has room for %" PRId64
                           " positions and holds %" PRId64 "; %" PRId64 " more do not fit",
                           cache->max_length, before, n);
        cache->after[b] = before + n;
    }
    return true;
}

bool cti_nn_cache_is_ragged(const ct_kv_cache *cache, int64_t t) {
    for (int64_t b = 0; b < cache->batch; b++)
        if (cache->rows[b] != cache->length || cache->after[b] != cache->length + t) return true;
    return false;
}

bool cti_nn_cache_rows_equal(const ct_kv_cache *a, const ct_kv_cache *b) {
    CTI_ASSERT(a->batch == b->batch);
    for (int64_t i = 0; i < a->batch; i++)
        if (a->rows[i] != b->rows[i]) return false;
    return true;
}

ct_tensor *cti_nn_cache_indices(const ct_kv_cache *cache, int64_t t) {
    ct_tensor *first = ct_from_i64(cache->context, CT_SHAPE(cache->batch, 1), cache->rows);
    return ct_add(first, ct_arange(cache->context, CT_I64, 0, (double)t, 1));
}

void cti_nn_cache_grow(ct_kv_cache *cache) {
    for (int64_t b = 0; b < cache->batch; b++) cache->rows[b] = cache->after[b];
    cache->length = cti_nn_longest(cache->rows, cache->batch);
    CTI_ASSERT(cti_nn_cache_is_sound(cache));
}

void cti_nn_cache_mark(ct_kv_cache *cache) {
    if (!cache || cache->marks++) return;
    for (int64_t b = 0; b < cache->batch; b++) cache->marked[b] = cache->rows[b];
}

void cti_nn_cache_unmark(ct_kv_cache *cache, bool good) {
    if (!cache || cache->object.self != &cache->object) return; /* a callback may have freed it */
    for (int64_t b = 0; !good && b < cache->batch; b++) cache->rows[b] = cache->marked[b];
    if (!good) cache->length = cti_nn_longest(cache->rows, cache->batch);
    cache->marks--;
}

/* ---- keys and values ---- */

/* Copies the first after[b] - rows[b] positions of x to the end of row b. */
static bool row_extend(const ct_kv_cache *cache, ct_tensor *buffer, ct_tensor *x, int64_t b) {
    const int64_t at = cache->rows[b], n = cache->after[b] - at;
    return n == 0 || ct_copy_into(ct_narrow(ct_narrow(buffer, 0, b, 1), 2, at, n),
                                  ct_narrow(ct_narrow(x, 0, b, 1), 2, 0, n));
}
static bool rows_extend(const ct_kv_cache *cache, ct_tensor *buffer, ct_tensor *x) {
    bool good = true;
    const ct_scope scope = ct_scope_open_no_grad(cache->context);
    for (int64_t b = 0; good && b < cache->batch; b++) good = row_extend(cache, buffer, x, b);
    ct_scope_close(scope);
    return good;
}

/* A child that makes another dtype is an error, the same as without a cache: only a cache of bf16
 * converts. */
static ct_tensor *buffer_extend(const ct_kv_cache *cache, ct_tensor *buffer, int64_t length,
                                bool ragged, ct_tensor *x) {
    if (!x) return NULL;
    if (x->dtype != cti_dtype_computed(buffer->dtype))
        return ct_fail(buffer->context, CT_ERR_DTYPE,
                       "MultiheadAttention: the cache is %s, the keys or values are %s",
                       cti_dtype_name(buffer->dtype), cti_dtype_name(x->dtype));
    const int64_t all = cti_min(length + x->shape.dim[2], buffer->shape.dim[2]);
    CTI_ASSERT(0 <= length && (ragged || length + x->shape.dim[2] <= buffer->shape.dim[2]));
    const bool good = ragged ? rows_extend(cache, buffer, x)
                             : ct_copy_into(ct_narrow(buffer, 2, length, x->shape.dim[2]), x);
    return good ? ct_narrow(buffer, 2, 0, all) : NULL;
}

bool cti_nn_cache_extend(ct_kv_cache *cache, int64_t n, int64_t t, ct_tensor **k, ct_tensor **v) {
    if (!cti_object_is_open(&cache->object, "MultiheadAttention")) return false;
    const bool ragged = cti_nn_cache_is_ragged(cache, t);
    *k = buffer_extend(cache, cache->k, n, ragged, *k);
    *v = buffer_extend(cache, cache->v, n, ragged, *v);
    return *k && *v;
}

void cti_nn_cache_read(const ct_kv_cache *cache, ct_tensor **k, ct_tensor **v) {
    if (!cti_object_is_open(&cache->object, "MultiheadAttention")) return;
    const int64_t rows = cache->length + cti_nn_mha_extra_keys(cti_nn_data(cache->mha));
    *k = ct_narrow(cache->k, 2, 0, rows);
    *v = ct_narrow(cache->v, 2, 0, rows);
}
