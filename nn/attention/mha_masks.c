/* Checks the masks of multi-head attention and converts them to those of ct_attention, with a cache
 * and extra keys taken into account. */
#include "mha.h"

#include <math.h>

bool cti_nn_masks_fit(const ct_module *mha, const ct_mha_call *call, int64_t batch, int64_t t,
                      int64_t s) {
    const ct_mha_opts *o = cti_nn_data(mha);
    ct_context *context = mha->context;
    const ct_tensor *mask = call->mask, *key = call->key_mask;
    const char *name = cti_nn_kind_name(mha);
    const ct_shape scores = CT_SHAPE(batch, o->num_heads, t, s);
    if ((mask && mask->context != context) || (key && key->context != context))
        ct_fail(context, CT_ERR_ARGUMENT, "%s: a mask is of another context", name);
    if (mask && mask->dtype != CT_BOOL && mask->dtype != o->dtype)
        ct_fail(context, CT_ERR_DTYPE, "%s: the mask is %s, not bool or %s", name,
                cti_dtype_name(mask->dtype), cti_dtype_name(o->dtype));
    if (mask && !cti_shape_broadcasts_to(mask->shape, scores))
        ct_fail(context, CT_ERR_SHAPE,
                "%s: the mask is %s, not (T, S) = %s, nor anything that broadcasts to (B, H, T, S) "
                "= %s",
                name, SHAPE(mask->shape), SHAPE(CT_SHAPE(t, s)), SHAPE(scores));
    if (key && key->dtype != CT_BOOL)
        ct_fail(context, CT_ERR_DTYPE, "%s: the key mask is %s, not bool", name,
                cti_dtype_name(key->dtype));
    if (key && !cti_shape_equal(key->shape, CT_SHAPE(batch, s)))
        ct_fail(context, CT_ERR_SHAPE, "%s: the key mask is %s, not (B, S) = %s", name,
                SHAPE(key->shape), SHAPE(CT_SHAPE(batch, s)));
    return cti_ready(context);
}

ct_tensor *cti_nn_masks_clear(ct_tensor *x, ct_tensor *key_mask) {
    return ct_where(ct_unsqueeze(key_mask, 2), x, ct_zeros(x->context, x->dtype, CT_SCALAR));
}

/* bool (t, s): query i has position offset + i and may attend to keys 0 ... offset + i. */
static ct_tensor *causal_mask(ct_context *context, int64_t t, int64_t s, int64_t offset) {
    ct_tensor *query = ct_arange(context, CT_I64, (double)offset, (double)(offset + t), 1);
    ct_tensor *key = ct_arange(context, CT_I64, 0, (double)s, 1);
    return ct_ge(ct_unsqueeze(query, 1), key);
}

/* Widens a mask over s keys by `extra` keys that every query may attend to. */
static ct_tensor *pad(ct_tensor *mask, int64_t s, int64_t extra) {
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

/* One mask that applies both: a float mask becomes -inf where the bool one is false. */
static ct_tensor *combine(ct_tensor *bools, ct_tensor *mask) {
    if (!mask || !bools) return bools;
    if (mask->dtype == CT_BOOL) return ct_logical_and(bools, mask);
    return ct_where(bools, mask, ct_full(mask->context, mask->dtype, CT_SCALAR, -INFINITY));
}

void cti_nn_masks_prepare(const ct_module *mha, ct_mha_call *call, int64_t t, int64_t s,
                          int64_t offset) {
    int64_t extra = cti_nn_mha_extra_keys(cti_nn_data(mha));
    if (call->causal && (extra || offset)) { /* otherwise opts.causal of ct_attention applies */
        if (s > offset + 1)
            call->mask = combine(causal_mask(mha->context, t, s, offset), call->mask);
        call->causal = false;
    }
    call->mask = pad(call->mask, s, extra);
    call->key_mask = pad(call->key_mask, s, extra);
}
