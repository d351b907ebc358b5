/* The cache of a model: a KV cache for each layer. */
#include <cotangent/autograd.h>

#include <inttypes.h>

#include "../../nn/bare.h"
#include "../../src/core/memory.h"
#include "lm.h"

static size_t lengths_bytes(const ct_lm_cache *cache) {
    return cti_bytes(cache->batch > 0 ? cache->batch : 1, 3 * sizeof(int64_t));
}

static void lm_cache_end(cti_hook *self) {
    ct_lm_cache *cache = (ct_lm_cache *)self;
    ct_context *context = cache->context;
    for (int64_t i = 0; cache->layer && i < cache->layers; i++) ct_kv_cache_free(cache->layer[i]);
    cti_give_any(context, cache->layer, cti_bytes(cache->layers + 1, sizeof *cache->layer));
    cti_give_any(context, cache->before, lengths_bytes(cache));
    cti_object_end(&cache->object, "of a language model");
}

void ct_lm_cache_free(ct_lm_cache *cache) {
    if (cache && cache->object.self == &cache->object) lm_cache_end(&cache->object.hook);
}

static bool lm_cache_fill(ct_lm_cache *cache, const cti_lm *lm, ct_dtype dtype) {
    ct_context *context = cache->context;
    cache->layer = cti_take_zeroed(context, cti_bytes(cache->layers + 1, sizeof *cache->layer));
    cache->before = cti_take_zeroed(context, lengths_bytes(cache));
    if (!cache->layer || !cache->before) return false;
    cache->after = cache->before + cache->batch, cache->length = cache->after + cache->batch;
    ct_module *layer = cache->layers ? cti_lm_first_layer(lm) : NULL;
    for (int64_t i = 0; i < cache->layers; i++, layer = layer ? cti_nn_next_child(layer) : NULL) {
        ct_module *attention = cti_nn_layer_attention(layer);
        cache->layer[i] = attention
                              ? ct_kv_cache_new(attention, cache->batch, cache->max_length)
                              : ct_kv_cache_new_of(context, dtype, cache->batch,
                                                   cti_lm_integer(&lm->config, CTI_LM_KV_HEADS),
                                                   cache->max_length,
                                                   cti_lm_integer(&lm->config, CTI_LM_HEAD_DIM));
        if (!cache->layer[i]) return false;
    }
    cti_nn_end_with(cache->module, &cache->object, lm_cache_end);
    return true;
}

ct_lm_cache *ct_lm_cache_new(ct_module *module, int64_t batch, int64_t max_length) {
    const cti_lm *lm = cti_lm_of(module);
    if (!lm) return NULL;
    if (batch < 1 || max_length < 1 || lm->config.family->bidirectional)
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       lm->config.family->bidirectional ? "lm_cache_new: the model is not causal"
                                                        : "lm_cache_new: a batch of %" PRId64
                                                          " and a length of %" PRId64,
                       batch, max_length);
    ct_lm_cache *cache = cti_object_new(lm->context, sizeof *cache, "cache");
    if (!cache) return NULL;
    cache->module = module;
    cache->batch = batch, cache->max_length = max_length;
    cache->layers = cti_lm_integer(&lm->config, CTI_LM_LAYERS);
    if (lm_cache_fill(cache, lm, cti_lm_dtype(lm) == CT_F64 ? CT_F64 : CT_F32)) return cache;
    lm_cache_end(&cache->object.hook);
    return NULL;
}

/* A layer whose cache is larger than the others' is no harm, so an error leaves them so. */
bool cti_lm_cache_reserve(ct_lm_cache *cache, int64_t max_length) {
    if (max_length <= cache->max_length) return true;
    for (int64_t i = 0; i < cache->layers; i++)
        if (!cti_nn_cache_reserve(cache->layer[i], max_length)) return false;
    cache->max_length = max_length;
    return true;
}

/* ---- lengths and rows ---- */

bool cti_lm_cache_align(ct_lm_cache *cache) {
    for (int64_t i = 0; i < cache->layers; i++)
        if (!ct_kv_cache_set_lengths(cache->layer[i], cache->length)) return false;
    return true;
}

/* Whether a function may begin: the cache is alive, and `numbers`, one for each row, are not
 * NULL. */
static bool lm_cache_is_ready(const ct_lm_cache *cache, const char *function,
                              const int64_t *numbers) {
    if (!cti_object_is_ready(cache ? &cache->object : NULL, function, "cache", NULL)) return false;
    return numbers || ct_fail(cache->context, CT_ERR_ARGUMENT, "%s: the array is NULL", function);
}

bool ct_lm_cache_lengths(const ct_lm_cache *cache, int64_t *lengths) {
    if (!lm_cache_is_ready(cache, "lm_cache_lengths", lengths)) return false;
    for (int64_t b = 0; b < cache->batch; b++) lengths[b] = cache->length[b];
    return true;
}

bool ct_lm_cache_set_lengths(ct_lm_cache *cache, const int64_t *lengths) {
    static const char name[] = "lm_cache_set_lengths";
    if (!lm_cache_is_ready(cache, name, lengths)) return false;
    for (int64_t b = 0; b < cache->batch; b++)
        if (lengths[b] < 0 || lengths[b] > cache->length[b])
            return ct_fail(cache->context, CT_ERR_ARGUMENT,
                           "%s: row %" PRId64 ": a length of %" PRId64 " from one of %" PRId64,
                           name, b, lengths[b], cache->length[b]);
    for (int64_t b = 0; b < cache->batch; b++) cache->length[b] = lengths[b];
    return true;
}

/* Only the selection in the first layer can lack memory: the later ones reuse its memory, because
 * all layers have one size. */
bool ct_lm_cache_select(ct_lm_cache *cache, const int64_t *rows) {
    static const char name[] = "lm_cache_select";
    if (!lm_cache_is_ready(cache, name, rows)) return false;
    for (int64_t b = 0; b < cache->batch; b++)
        if (rows[b] < 0 || rows[b] >= cache->batch)
            return ct_fail(cache->context, CT_ERR_ARGUMENT,
                           "%s: row %" PRId64 " is to be row %" PRId64 " of %" PRId64, name, b,
                           rows[b], cache->batch);
    if (!cti_lm_cache_align(cache)) return false;
    for (int64_t i = 0; i < cache->layers; i++)
        if (!ct_kv_cache_select(cache->layer[i], rows)) return false;
    for (int64_t b = 0; b < cache->batch; b++) cache->after[b] = cache->length[rows[b]];
    for (int64_t b = 0; b < cache->batch; b++) cache->length[b] = cache->after[b];
    return true;
}
