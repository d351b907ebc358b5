/* Checks the masks of multi-head attention and converts them to masks of ct_attention, with a cache
 * and extra keys taken into account. */
#include "mha.h"

#include <math.h>

#include "../../ops/attention/attention_masks.h"

bool cti_nn_masks_fit(const ct_module *mha, const ct_mha_call *call, int64_t batch, int64_t t,
                      int64_t s) {
    const ct_mha_opts *o = cti_nn_data(mha);
    ct_context *context = mha->context;
    const ct_tensor *mask = call->mask, *key = call->key_mask;
    const char *name = cti_nn_kind_name(mha);
    if ((mask && !cti_tensor_in(mask, context, name)) ||
        (key && !cti_tensor_in(key, context, name)))
        return false;
    return cti_attention_check_masks(context, name, mask, key, o->dtype,
                                     CT_SHAPE(batch, o->num_heads, t, s));
}

ct_tensor *cti_nn_masks_clear(ct_tensor *x, ct_tensor *key_mask) {
    return ct_where(ct_unsqueeze(key_mask, 2), x, ct_zeros(x->context, x->dtype, CT_SCALAR));
}

/* Returns a bool mask (t, s): query i has position offset + i and may attend to keys 0 ... offset +
 * i. */
static ct_tensor *causal_mask(ct_context *context, int64_t t, int64_t s, int64_t offset) {
    ct_tensor *query = ct_arange(context, CT_I64, (double)offset, (double)(offset + t), 1);
    ct_tensor *key = ct_arange(context, CT_I64, 0, (double)s, 1);
    return ct_ge(ct_unsqueeze(query, 1), key);
}

/* Widens a mask over s keys by `extra` keys that every query may attend to. */
static ct_tensor *pad_mask(ct_tensor *mask, int64_t s, int64_t extra) {
    if (!mask || !extra) return mask;
    ct_shape shape = mask->shape;
    if (!shape.ndim) shape.ndim = 1, shape.dim[0] = 1;
    int64_t *last = &shape.dim[shape.ndim - 1];
    if (*last == 1) *last = s;
    ct_tensor *whole = ct_expand(mask, shape);
    *last = extra;
    ct_tensor *open = ct_full(mask->context, mask->dtype, shape, mask->dtype == CT_BOOL);
    return ct_cat((ct_tensor *[]){whole, open}, 2, shape.ndim - 1);
}

/* Returns one mask that applies both: a float mask becomes -inf in elements whose bool mask is
 * false. */
static ct_tensor *combine_masks(ct_tensor *bools, ct_tensor *mask) {
    if (!mask || !bools) return bools;
    if (mask->dtype == CT_BOOL) return ct_logical_and(bools, mask);
    return ct_where(bools, mask, ct_full(mask->context, mask->dtype, CT_SCALAR, -INFINITY));
}

void cti_nn_masks_prepare(const ct_module *mha, ct_mha_call *call, int64_t t, int64_t s,
                          int64_t offset) {
    int64_t extra = cti_nn_mha_extra_keys(cti_nn_data(mha));
    if (call->causal && (extra || offset)) { /* otherwise opts.causal of ct_attention applies */
        if (s > offset + 1)
            call->mask = combine_masks(causal_mask(mha->context, t, s, offset), call->mask);
        call->causal = false;
    }
    call->mask = pad_mask(call->mask, s, extra);
    call->key_mask = pad_mask(call->key_mask, s, extra);
}
