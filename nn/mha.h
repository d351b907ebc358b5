/* What the layers and the cache know of multi-head attention. */
#ifndef CT_NN_MHA_H
#define CT_NN_MHA_H

#include "module.h"

extern const nn_kind nn_mha_kind; /* its data is the ct_mha_opts, defaults filled in */

/* Keys and values of earlier positions, (B, H_kv, max_length, d) each. They are values alone: no gradient goes through them. */
struct ct_kv_cache {
    ct_context *context;
    const ct_module *mha; /* whose they are; only compared */
    int64_t batch, length, max_length;
    ct_tensor *k, *v;
};

/* Does the cache take t more positions of q's batch for this module? */
bool nn_cache_takes(const ct_kv_cache *cache, const ct_module *mha, const ct_tensor *q, int64_t t);

/* Writes *k and *v (B, H_kv, T, d) behind what is there and makes them all of it, (B, H_kv, n + T, d). The length is the
 * caller's to raise, when all has gone well. */
bool nn_cache_extend(ct_kv_cache *cache, ct_tensor **k, ct_tensor **v);

#endif
