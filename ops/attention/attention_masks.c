/* Attention's masks: their check, the keys that they hide, and their effect on scores. */
#include "attention_masks.h"

#include <math.h>

#include "attention_products.h"

bool cti_attention_check_masks(ct_context *context, const char *name, const ct_tensor *mask,
                               const ct_tensor *key_mask, ct_dtype dtype, ct_shape scores) {
    const ct_shape queries_keys = CT_SHAPE(scores.dim[2], scores.dim[3]);
    const ct_shape keys = CT_SHAPE(scores.dim[0], scores.dim[3]);
    if (mask && mask->dtype != CT_BOOL && mask->dtype != dtype)
        return ct_fail(context, CT_ERR_DTYPE, "%s: the mask is %s, not bool or %s", name,
                       cti_dtype_name(mask->dtype), cti_dtype_name(dtype));
    if (mask && !cti_shape_broadcasts_to(mask->shape, scores))
        return ct_fail(context, CT_ERR_SHAPE,
                       "%s: the mask is %s, not (T, S) = %s, nor anything that broadcasts to "
                       "(B, H, T, S) = %s",
                       name, SHAPE(mask->shape), SHAPE(queries_keys), SHAPE(scores));
    if (key_mask && key_mask->dtype != CT_BOOL)
        return ct_fail(context, CT_ERR_DTYPE, "%s: the key mask is %s, not bool", name,
                       cti_dtype_name(key_mask->dtype));
    if (key_mask && !cti_shape_equal(key_mask->shape, keys))
        return ct_fail(context, CT_ERR_SHAPE, "%s: the key mask is %s, not (B, S) = %s", name,
                       SHAPE(key_mask->shape), SHAPE(keys));
    return true;
}

/* ---- which pairs are seen ---- */

cti_attention_keys cti_attention_flagged_keys(const cti_attention_params *a,
                                              const cti_attention_tile *t) {
    const bool *flag = cti_attention_key_flags(a, t->b, t->k0);
    const bool first = flag[0];
    for (int64_t i = 1; i < t->nk; i++)
        if (!flag[i * a->key_mask.stride[3]] != !first) return CTI_KEYS_SOME;
    return first ? CTI_KEYS_ALL : CTI_KEYS_NONE;
}

double cti_attention_pairs(const cti_attention_params *a) {
    if (!a->attrs.causal) return (double)a->t * (double)a->s;
    const int64_t seeing_all = cti_max(0, a->t - a->s), others = a->t - seeing_all;
    return (double)others * (double)(others + 1) / 2 + (double)seeing_all * (double)a->s;
}

/* ---- scores ---- */

/* bias[i] = 0 if flag i is true, otherwise -inf, for n keys; flags are `stride` apart. Lanes from n
 * to `width` become zeros: kernels compute them too, so they must not be undefined memory. */
static void flags_to_bias(const cti_attention_params *a, const void *flags, int64_t stride,
                          int64_t n, int64_t width, char *bias) {
    a->kernels->attention.mask_to_bias(n, flags, stride, bias);
    if (n < width) a->kernels->fill(width - n, 0, bias + n * a->size);
}

static void key_mask_to_bias(const cti_attention_params *a, const cti_attention_tile *t,
                             int64_t width, char *bias) {
    const bool *flags = cti_attention_key_flags(a, t->b, t->k0);
    flags_to_bias(a, flags, a->key_mask.stride[3], t->nk, width, bias);
}

/* Returns the address of the mask's element for the tile's first query and key. */
static const char *mask_at(const cti_attention_params *a, const cti_attention_tile *t) {
    const int64_t *stride = a->mask.stride, size = a->mask_is_bool ? 1 : a->size;
    const int64_t head = t->b * stride[0] + t->h * stride[1];
    return a->mask.data + (head + t->q0 * stride[2] + t->k0 * stride[3]) * size;
}

/* Sets bias to the mask's elements for the tile, in a panel of numbers that are added to the
 * scores. */
static void mask_to_panel(const cti_attention_params *a, const cti_attention_tile *t,
                          bool transposed, char *bias, char *stage) {
    const int64_t *stride = a->mask.stride, query = stride[2], key = stride[3];
    const char *mask = mask_at(a, t);
    if (a->mask_is_bool) {
        char *rows = transposed ? stage : bias; /* a row for each query */
        const int64_t row = transposed ? t->nk : a->nr;
        const int64_t width = transposed ? t->nk : cti_attention_width(a, t->nk);
        for (int64_t i = 0; i < t->nq; i++)
            flags_to_bias(a, mask + i * query, key, t->nk, width, rows + i * row * a->size);
        if (transposed) cti_attention_pack(a, t->nk, t->nq, stage, 1, t->nk, bias);
    } else if (transposed) {
        cti_attention_pack(a, t->nk, t->nq, mask, key, query, bias);
    } else {
        cti_attention_pack(a, t->nq, t->nk, mask, query, key, bias);
    }
}

/* Sets scores of keys that the key mask hides to -inf. Keys are rows of a transposed panel, and
 * lanes of any other. */
static void mask_keys(const cti_attention_params *a, const cti_attention_tile *t, bool transposed,
                      int64_t width, char *panel, char *bias) {
    if (transposed) {
        const bool *flags = cti_attention_key_flags(a, t->b, t->k0);
        for (int64_t i = 0; i < t->nk; i++)
            if (!flags[i * a->key_mask.stride[3]])
                a->kernels->fill(width, -INFINITY, panel + i * a->nr * a->size);
    } else {
        key_mask_to_bias(a, t, width, bias);
        a->kernels->attention.add_bias(t->nq, width, panel, bias, 0);
    }
}

void cti_attention_mask_panel(const cti_attention_params *a, const cti_attention_tile *t,
                              bool transposed, char *panel, char *bias, char *stage) {
    const cti_attention_kernels *f = &a->kernels->attention;
    const int64_t rows = transposed ? t->nk : t->nq;
    const int64_t width = cti_attention_width(a, transposed ? t->nq : t->nk);
    if (a->mask.data) {
        mask_to_panel(a, t, transposed, bias, stage);
        f->add_bias(rows, width, panel, bias, a->nr);
    }
    /* If transposed, queries before key k0 + i are hidden in the row of this key. Otherwise keys
     * after query q0 + i are hidden in the row of this query. */
    const int64_t high = cti_attention_diagonals_of(a, t).high;
    if (high < t->nk) f->mask_causal(rows, width, transposed ? 1 - high : high, transposed, panel);
    if (cti_attention_visible_keys(a, t) != CTI_KEYS_ALL)
        mask_keys(a, t, transposed, width, panel, bias);
}

void cti_attention_mask_row(const cti_attention_params *a, const cti_attention_tile *t,
                            char *scores, char *bias) {
    const cti_attention_kernels *f = &a->kernels->attention;
    const int64_t n = t->nk, rows = cti_ceil_div(n, a->nr); /* read as a panel */
    const int64_t width = rows * a->nr;
    if (a->mask.data) {
        const char *mask = mask_at(a, t);
        const int64_t key = a->mask.stride[3];
        if (a->mask_is_bool) {
            flags_to_bias(a, mask, key, n, width, bias);
        } else {
            a->kernels->fill(width, 0, bias);
            a->kernels->copy2d(1, n, mask, n, key, bias, n, 1, false);
        }
        f->add_bias(rows, a->nr, scores, bias, a->nr);
    }
    if (cti_attention_visible_keys(a, t) == CTI_KEYS_ALL) return;
    key_mask_to_bias(a, t, width, bias);
    f->add_bias(rows, a->nr, scores, bias, a->nr);
}
