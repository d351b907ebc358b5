/* The masks of multi-head attention, and all other fields of a call that hide keys: their check,
 * and their conversion to options of ct_attention, with a cache and extra keys taken into account.
 */
#include "mha.h"

#include <math.h>

#include "../../ops/attention/attention_hidden.h"
#include "../../ops/attention/attention_masks.h"

/* ---- the check ---- */

/* Returns whether a tensor of a call is i64 of this shape. If not, records an error. */
static bool is_of_ids(const ct_module *mha, const char *what, const ct_tensor *x, ct_shape shape) {
    if (x->dtype != CT_I64)
        return ct_fail(mha->context, CT_ERR_DTYPE, "%s: the %s are %s, not i64",
                       cti_nn_kind_name(mha), what, cti_dtype_name(x->dtype));
    if (cti_shape_equal(x->shape, shape)) return true;
    return ct_fail(mha->context, CT_ERR_SHAPE, "%s: the %s are %s, not %s", cti_nn_kind_name(mha),
                   what, SHAPE(x->shape), SHAPE(shape));
}

/* Returns whether a call may have segments and lengths, if it has them. */
static bool tokens_fit(const cti_mha_plan *p) {
    const ct_module *mha = p->mha;
    const ct_mha_call *call = p->call;
    ct_context *context = mha->context;
    const char *name = cti_nn_kind_name(mha);
    const char *given = call->segments ? "segments" : call->lengths ? "lengths" : NULL;
    if (given && !p->self)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: %s are only for self-attention; a key_mask hides keys of another "
                       "sequence",
                       name, given);
    if (call->segments && call->cache)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: segments with a cache, which has none for its keys", name);
    if (call->lengths && cti_nn_mha_extra_keys(p->opts))
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: lengths with the extra keys of add_bias_kv or add_zero_attn", name);
    return (!call->segments ||
            is_of_ids(mha, "segments", call->segments, CT_SHAPE(p->batch, p->t))) &&
           (!call->lengths || is_of_ids(mha, "lengths", call->lengths, CT_SHAPE(p->batch)));
}

bool cti_mha_check_masks(const cti_mha_plan *p) {
    const ct_mha_opts *o = p->opts;
    const ct_mha_call *call = p->call;
    ct_context *context = p->mha->context;
    const ct_tensor *const given[] = {call->mask, call->key_mask, call->bias, call->segments,
                                      call->lengths};
    const char *name = cti_nn_kind_name(p->mha);
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (given[i] && !cti_tensor_in(given[i], context, name)) return false;
    const ct_shape scores = CT_SHAPE(p->batch, o->num_heads, p->t, p->offset + p->s);
    return cti_attention_check_masks(context, name, call->mask, call->key_mask, o->dtype, scores) &&
           (!call->bias ||
            cti_attention_check_bias(context, call->bias, call->mask, o->dtype, scores)) &&
           tokens_fit(p);
}

/* ---- masks ---- */

/* Returns one mask that applies both, of which either may be NULL: the float mask `mask` becomes
 * -inf in elements whose bool mask is false. */
static ct_tensor *masks_combine(ct_tensor *bools, ct_tensor *mask) {
    if (!mask || !bools) return bools ? bools : mask;
    if (mask->dtype == CT_BOOL) return ct_logical_and(bools, mask);
    return ct_where(bools, mask, ct_full(mask->context, mask->dtype, CT_SCALAR, -INFINITY));
}

/* Widens a mask or a bias over s keys by `extra` keys that every query sees. */
static ct_tensor *mask_pad(ct_tensor *mask, int64_t s, int64_t extra) {
    if (!mask) return NULL;
    ct_shape shape = mask->shape;
    if (!shape.ndim) shape.ndim = 1, shape.dim[0] = 1;
    int64_t *last = &shape.dim[shape.ndim - 1];
    if (*last == 1) *last = s;
    ct_tensor *whole = ct_expand(mask, shape);
    *last = extra;
    ct_tensor *open = ct_full(mask->context, mask->dtype, shape, mask->dtype == CT_BOOL);
    return ct_cat((ct_tensor *[]){whole, open}, 2, shape.ndim - 1);
}

/* Returns a bool mask of the keys that a window leaves visible, of s keys, to queries of the given
 * indices (..., T, 1); NULL if the window is open on both sides. */
static ct_tensor *mask_of_window(ct_tensor *index, int64_t s, ct_window window) {
    if (!index) return NULL; /* after an error */
    ct_tensor *seen = NULL, *key = ct_arange(index->context, CT_I64, 0, (double)s, 1);
    if (window.right) seen = ct_lt(key, ct_add_scalar(index, (double)window.right));
    if (window.left)
        seen = masks_combine(seen, ct_gt(key, ct_add_scalar(index, -(double)window.left)));
    return seen;
}

/* Replaces causal, the window and segments of the options by a mask, and widens the masks by the
 * extra keys: these follow all other keys, and every query sees them. */
static void opts_add_extra_keys(ct_context *context, ct_attention_opts *a, int64_t t, int64_t s,
                                int64_t offset, int64_t extra) {
    ct_window window = a->window;
    if (a->causal) window.right = 1;
    if (s == offset + 1) window.right = 0; /* the only query stands at the last key */
    if (window.left >= offset + t)
        window.left = 0; /* no key is so far away, and smaller numbers are exact as doubles */
    window.right = cti_min(window.right, s);
    if (window.left || window.right) {
        ct_tensor *index = ct_arange(context, CT_I64, (double)offset, (double)(offset + t), 1);
        a->mask = masks_combine(mask_of_window(ct_unsqueeze(index, 1), s, window), a->mask);
    }
    if (a->segments) {
        ct_tensor *same = ct_eq(ct_unsqueeze(a->segments, 2), ct_unsqueeze(a->segments, 1));
        a->mask = masks_combine(ct_unsqueeze(same, 1), a->mask); /* (B, 1, T, T) */
    }
    a->mask = mask_pad(a->mask, s, extra);
    a->bias = mask_pad(a->bias, s, extra);
    a->key_mask = mask_pad(a->key_mask, s, extra);
    a->causal = false, a->window = (ct_window){0}, a->segments = NULL;
}

/* Cuts a mask or a bias over s keys to its first n keys. */
static ct_tensor *mask_cut(ct_tensor *mask, int64_t s, int64_t n) {
    const int last = mask ? mask->shape.ndim - 1 : -1;
    return last >= 0 && n < s && mask->shape.dim[last] == s ? ct_narrow(mask, last, 0, n) : mask;
}

/* Fits the options to rows of different lengths: t queries of each row stand behind the row's keys
 * in the cache. Row b then has after[b] keys, of which the queries see those that causal and the
 * window allow. */
static void opts_fit_rows(ct_attention_opts *a, const ct_kv_cache *cache, int64_t t) {
    const int64_t longest = cache->length + t, s = cti_min(longest, cache->max_length);
    a->mask = mask_cut(a->mask, longest, s), a->bias = mask_cut(a->bias, longest, s);
    a->key_mask = mask_cut(a->key_mask, longest, s);
    a->lengths = ct_from_i64(cache->context, CT_SHAPE(cache->batch), cache->after);
    ct_window window = a->window;
    if (a->causal) window.right = 1;
    bool whole = true; /* each row's last query stands at the row's last key */
    for (int64_t b = 0; b < cache->batch; b++) whole &= cache->after[b] == cache->rows[b] + t;
    if (cache->length == 0 || (!window.left && !window.right)) return; /* query i has the index i */
    if (t == 1 && !window.left) a->causal = false, a->window.right = 0;
    else if (whole || t == 1) a->lower_right = true;
    if (whole || t == 1) return;
    if (window.left > s)
        window.left = 0; /* no key is so far away, and smaller numbers are exact as doubles */
    window.right = cti_min(window.right, s);
    ct_tensor *index = ct_unsqueeze(cti_nn_cache_indices(cache, t), 2),
              *seen = mask_of_window(index, s, window); /* (B, T, S), or NULL */
    if (seen) a->mask = masks_combine(ct_unsqueeze(seen, 1), a->mask);
    a->causal = false, a->window = (ct_window){0};
}

ct_attention_opts cti_mha_attention_opts(const cti_mha_plan *p) {
    const ct_mha_opts *o = p->opts;
    const ct_mha_call *call = p->call;
    const int64_t extra = cti_nn_mha_extra_keys(o), t = p->t, offset = p->offset;
    /* A call's lengths count its own tokens; opts_fit_rows counts the keys in a cache. */
    ct_attention_opts a = {.mask = call->mask,
                           .bias = call->bias,
                           .key_mask = call->key_mask,
                           .lengths = call->cache ? NULL : call->lengths,
                           .segments = call->segments,
                           .window = o->window,
                           .causal = call->causal,
                           .dropout = p->mha->training ? o->dropout : 0,
                           .scale = o->scale,
                           .softcap = o->softcap,
                           .need_weights = call->need_weights,
                           .mean_weights = !call->per_head};
    if (extra) opts_add_extra_keys(p->mha->context, &a, t, offset + p->s, offset, extra);
    else if (call->cache && p->self && cti_nn_cache_is_ragged(call->cache, t))
        opts_fit_rows(&a, call->cache, t);
    else if (offset && t == 1 && !a.window.left) a.causal = false, a.window.right = 0;
    else if (offset) a.lower_right = a.causal || a.window.left || a.window.right;
    return a;
}

void cti_mha_zero_queries(ct_tensor *lengths, ct_attention_out *a) {
    const int64_t t = a->out->shape.dim[1];
    ct_tensor *index = ct_arange(lengths->context, CT_I64, 0, (double)t, 1),
              *real = ct_lt(index, ct_unsqueeze(lengths, 1)); /* (B, T) */
    a->out = cti_hidden_zero_rows(a->out, real);
    if (a->weights) a->weights = cti_hidden_zero_rows(a->weights, real);
}
