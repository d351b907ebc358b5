/* Visibility in attention: checks, ranges of keys and queries, and the effect on scores.
 * attention_segments.c reads segments. */
#include "attention_masks.h"
#include "../../src/kernels/attention_kernels.h"
#include "../../src/kernels/elementwise.h"
#include "../../src/kernels/unary.h"

#include <inttypes.h>
#include <math.h>

#include "attention_products.h"

/* ---- checks ---- */

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

static bool check_lengths(ct_context *context, const ct_tensor *lengths, ct_shape scores) {
    const int64_t b = scores.dim[0], s = scores.dim[3];
    if (lengths->dtype != CT_I64)
        return ct_fail(context, CT_ERR_DTYPE, "attention: the lengths are %s, not i64",
                       cti_dtype_name(lengths->dtype));
    if (!cti_shape_equal(lengths->shape, CT_SHAPE(b)))
        return ct_fail(context, CT_ERR_SHAPE, "attention: the lengths are %s, not (B) = %s",
                       SHAPE(lengths->shape), SHAPE(CT_SHAPE(b)));
    for (int64_t i = 0; i < b; i++) {
        const int64_t n = ((const int64_t *)lengths->data)[i * lengths->stride[0]];
        if (n < 0 || n > s)
            return ct_fail(context, CT_ERR_ARGUMENT,
                           "attention: length %" PRId64 " is %" PRId64
                           ", not in [0, S] = [0, %" PRId64 "]",
                           i, n, s);
    }
    return true;
}

static bool check_segments(ct_context *context, const ct_tensor *segments, ct_shape scores) {
    const int64_t b = scores.dim[0], t = scores.dim[2], s = scores.dim[3];
    if (segments->dtype != CT_I64)
        return ct_fail(context, CT_ERR_DTYPE, "attention: the segments are %s, not i64",
                       cti_dtype_name(segments->dtype));
    if (t != s)
        return ct_fail(context, CT_ERR_SHAPE,
                       "attention: segments need as many keys as queries, not T = %" PRId64
                       " and S = %" PRId64,
                       t, s);
    if (!cti_shape_equal(segments->shape, CT_SHAPE(b, t)))
        return ct_fail(context, CT_ERR_SHAPE, "attention: the segments are %s, not (B, T) = %s",
                       SHAPE(segments->shape), SHAPE(CT_SHAPE(b, t)));
    return true;
}

bool cti_attention_check_bias(ct_context *context, const ct_tensor *bias, const ct_tensor *mask,
                              ct_dtype dtype, ct_shape scores) {
    if (mask && mask->dtype != CT_BOOL)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "attention: both a bias and a %s mask, which is a bias, are given",
                       cti_dtype_name(mask->dtype));
    if (bias->dtype != dtype)
        return ct_fail(context, CT_ERR_DTYPE, "attention: the bias is %s, not %s",
                       cti_dtype_name(bias->dtype), cti_dtype_name(dtype));
    if (!cti_shape_broadcasts_to(bias->shape, scores))
        return ct_fail(context, CT_ERR_SHAPE,
                       "attention: the bias is %s, not (T, S) = %s, nor anything that broadcasts "
                       "to (B, H, T, S) = %s",
                       SHAPE(bias->shape), SHAPE(CT_SHAPE(scores.dim[2], scores.dim[3])),
                       SHAPE(scores));
    return true;
}

bool cti_attention_check_seen(ct_context *context, const ct_attention_opts *opts, ct_dtype dtype,
                              ct_shape scores) {
    if (opts->bias && !cti_attention_check_bias(context, opts->bias, opts->mask, dtype, scores))
        return false;
    if (opts->window.left < 0 || opts->window.right < 0)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "attention: the window is {%" PRId64 ", %" PRId64
                       "}; its numbers begin at 0",
                       opts->window.left, opts->window.right);
    return (!opts->lengths || check_lengths(context, opts->lengths, scores)) &&
           (!opts->segments || check_segments(context, opts->segments, scores));
}

/* ---- which keys are visible ---- */

cti_attention_keys cti_attention_flagged_keys(const cti_attention_params *a,
                                              const cti_attention_tile *t) {
    const int64_t n = cti_attention_length(a, t->b) - t->k0; /* keys from here on are hidden */
    if (n <= 0) return CTI_KEYS_NONE;
    if (!a->key_mask.data) return n < t->nk ? CTI_KEYS_SOME : CTI_KEYS_ALL;
    const bool *flag = cti_attention_key_flags(a, t->b, t->k0);
    const bool first = flag[0];
    if (first && n < t->nk) return CTI_KEYS_SOME;
    for (int64_t i = 1; i < cti_min(n, t->nk); i++)
        if (!flag[i * a->key_mask.stride[3]] != !first) return CTI_KEYS_SOME;
    return first ? CTI_KEYS_ALL : CTI_KEYS_NONE;
}

/* ---- diagonals and ranges ---- */

/* The bounds of a tile's diagonals lie in [-nq, nk]: this is enough for all pairs of the tile, and
 * sums of them do not overflow. */
cti_attention_diagonals cti_attention_window_of(const cti_attention_params *a,
                                                const cti_attention_tile *t) {
    const int64_t left = a->attrs.window.left, right = a->attrs.causal ? 1 : a->attrs.window.right;
    /* the index of the tile's first query among the tile's keys */
    const int64_t own =
        t->q0 - t->k0 + (a->attrs.lower_right ? cti_attention_length(a, t->b) - a->t : 0);
    cti_attention_diagonals x = {.low = -t->nq, .high = t->nk};
    if (left > 0 && left <= own + t->nq) x.low = cti_min(own - left + 1, t->nk);
    if (right > 0 && right <= t->nk - own) x.high = cti_max(own + right, -t->nq);
    return x;
}

cti_attention_span cti_attention_limited_keys(const cti_attention_params *a,
                                              const cti_attention_tile *t) {
    const cti_attention_diagonals seen = cti_attention_diagonals_of(a, t);
    cti_attention_span keys = {.begin = cti_max(0, seen.low),
                               .end = cti_min(t->nk, t->nq - 1 + seen.high)};
    keys.end = cti_min(keys.end, cti_attention_length(a, t->b) - t->k0);
    if (!a->segments) return keys;
    const cti_attention_segment *of = a->segments + t->b * a->t;
    int64_t first = a->s, end = 0;
    for (int64_t q = t->q0; q < t->q0 + t->nq; q = of[q].run_end) {
        first = cti_min(first, of[q].first);
        end = cti_max(end, of[q].end);
    }
    return (cti_attention_span){.begin = cti_max(keys.begin, first - t->k0),
                                .end = cti_min(keys.end, end - t->k0)};
}

cti_attention_span cti_attention_limited_queries(const cti_attention_params *a,
                                                 const cti_attention_tile *t) {
    const cti_attention_diagonals seen = cti_attention_diagonals_of(a, t);
    const int64_t keys = cti_min(t->nk, cti_attention_length(a, t->b) - t->k0);
    if (keys <= 0) return (cti_attention_span){0, 0};
    cti_attention_span queries = {.begin = cti_max(0, 1 - seen.high),
                                  .end = cti_min(t->nq, keys - seen.low)};
    if (!a->segments) return queries;
    const cti_attention_segment *of = a->segments + t->b * a->t;
    int64_t first = a->t, end = 0;
    for (int64_t k = t->k0; k < t->k0 + keys; k = of[k].run_end) {
        first = cti_min(first, of[k].first);
        end = cti_max(end, of[k].end);
    }
    return (cti_attention_span){.begin = cti_max(queries.begin, first - t->q0),
                                .end = cti_min(queries.end, end - t->q0)};
}

bool cti_attention_may_hide_pairs(const cti_attention_params *a, const cti_attention_tile *t) {
    if (a->mask.data || a->bias.data) return true;
    const cti_attention_diagonals seen = cti_attention_diagonals_of(a, t);
    return seen.high < t->nk || seen.low > 1 - t->nq ||
           (a->segments && cti_attention_segments_differ(a, t));
}

double cti_attention_pairs(const cti_attention_params *a) {
    if (!a->limited) {
        if (!a->attrs.causal) return (double)a->batch * (double)a->t * (double)a->s;
        const int64_t seeing_all = cti_max(0, a->t - a->s), others = a->t - seeing_all;
        return (double)a->batch *
               ((double)others * (double)(others + 1) / 2 + (double)seeing_all * (double)a->s);
    }
    double pairs = 0;
    for (int64_t b = 0; b < a->batch; b++)
        for (int64_t q = 0; q < a->t; q++) {
            const cti_attention_tile one = {.b = b, .q0 = q, .nq = 1, .nk = a->s};
            const cti_attention_span keys = cti_attention_limited_keys(a, &one);
            pairs += (double)cti_max(0, keys.end - keys.begin);
        }
    return pairs;
}

/* ---- scores ---- */

/* bias[i] = 0 if flag i is true, otherwise -inf, for n keys; flags are `stride` apart. Lanes from n
 * to `width` become zeros: kernels compute them too, so they must not be undefined memory. */
static void flags_to_bias(const cti_attention_params *a, const void *flags, int64_t stride,
                          int64_t n, int64_t width, char *bias) {
    a->kernels->attention->mask_to_bias(n, flags, stride, bias);
    if (n < width) a->kernels->elementwise->fill(width - n, 0, bias + n * a->size);
}

/* Does this for the tile's keys, by the key mask and lengths. */
static void keys_to_bias(const cti_attention_params *a, const cti_attention_tile *t, int64_t width,
                         char *bias) {
    const int64_t n = cti_max(0, cti_min(t->nk, cti_attention_length(a, t->b) - t->k0));
    if (a->key_mask.data)
        flags_to_bias(a, cti_attention_key_flags(a, t->b, t->k0), a->key_mask.stride[3], t->nk,
                      width, bias);
    else a->kernels->elementwise->fill(width, 0, bias);
    if (n < t->nk) a->kernels->elementwise->fill(t->nk - n, -INFINITY, bias + n * a->size);
}

/* Returns the address of the mask's element for the tile's first query and key; an element has
 * `size` bytes. */
static const char *mask_at(const cti_attention_operand *mask, const cti_attention_tile *t,
                           int64_t size) {
    const int64_t *stride = mask->stride, head = t->b * stride[0] + t->h * stride[1];
    return mask->data + (head + t->q0 * stride[2] + t->k0 * stride[3]) * size;
}

/* Sets bias, a panel, to 0 for the pairs that the bool mask leaves visible, otherwise to -inf. */
static void mask_to_panel(const cti_attention_params *a, const cti_attention_tile *t,
                          bool transposed, char *bias, char *stage) {
    const int64_t query = a->mask.stride[2], key = a->mask.stride[3];
    const char *mask = mask_at(&a->mask, t, 1);
    char *rows = transposed ? stage : bias; /* a row for each query */
    const int64_t row = transposed ? t->nk : a->nr;
    const int64_t width = transposed ? t->nk : cti_attention_width(a, t->nk);
    for (int64_t i = 0; i < t->nq; i++)
        flags_to_bias(a, mask + i * query, key, t->nk, width, rows + i * row * a->size);
    if (transposed) cti_attention_pack(a, t->nk, t->nq, stage, 1, t->nk, bias);
}

/* Sets `panel` to the tile's elements of the bias. */
static void bias_to_panel(const cti_attention_params *a, const cti_attention_tile *t,
                          bool transposed, char *panel) {
    const int64_t query = a->bias.stride[2], key = a->bias.stride[3];
    const char *bias = mask_at(&a->bias, t, a->size);
    if (transposed) cti_attention_pack(a, t->nk, t->nq, bias, key, query, panel);
    else cti_attention_pack(a, t->nq, t->nk, bias, query, key, panel);
}

/* Sets scores of keys that the key mask or lengths hide to -inf. Keys are rows of a transposed
 * panel, and lanes of any other. */
static void mask_keys(const cti_attention_params *a, const cti_attention_tile *t, bool transposed,
                      int64_t width, char *panel, char *bias) {
    if (transposed) {
        for (int64_t i = 0; i < t->nk; i++)
            if (cti_attention_key_is_masked(a, t->b, t->k0 + i))
                a->kernels->elementwise->fill(width, -INFINITY, panel + i * a->nr * a->size);
    } else {
        keys_to_bias(a, t, width, bias);
        a->kernels->attention->add_bias(t->nq, width, panel, bias, 0);
    }
}

/* Sets scores of the diagonals' hidden pairs to -inf. If transposed, rows are keys: in the row of
 * key k0 + j queries before j - high + 1, and those after j - low, are hidden. Otherwise in the row
 * of query q0 + i keys from i + high on, and those before i + low, are hidden. */
static void mask_diagonals(const cti_attention_params *a, const cti_attention_tile *t,
                           bool transposed, int64_t width, char *panel) {
    const cti_attention_kernels *f = a->kernels->attention;
    const cti_attention_diagonals seen = cti_attention_diagonals_of(a, t);
    const int64_t rows = transposed ? t->nk : t->nq;
    const int64_t low = transposed ? 1 - seen.low : seen.low;
    const int64_t high = transposed ? 1 - seen.high : seen.high;
    if (seen.high < t->nk) f->mask_causal(rows, width, high, transposed, panel);
    if (seen.low > 1 - t->nq) f->mask_causal(rows, width, low, !transposed, panel);
}

/* Sets bias, a row of lanes, to 0 for tokens of segment `id`, otherwise to -inf; `of` has the
 * segments of n tokens. */
static void segments_to_bias(const cti_attention_params *a, const cti_attention_segment *of,
                             int64_t n, int64_t id, int64_t width, char *bias) {
    enum { FLAGS = 256 };
    bool flags[FLAGS];
    a->kernels->elementwise->fill(width, 0, bias);
    for (int64_t i = 0; i < n; i += FLAGS) {
        const int64_t count = cti_min(FLAGS, n - i);
        for (int64_t j = 0; j < count; j++) flags[j] = of[i + j].id == id;
        a->kernels->attention->mask_to_bias(count, flags, 1, bias + i * a->size);
    }
}

static void mask_segments(const cti_attention_params *a, const cti_attention_tile *t,
                          bool transposed, int64_t width, char *panel, char *bias) {
    const cti_attention_segment *of = a->segments + t->b * a->t;
    const int64_t row0 = transposed ? t->k0 : t->q0, rows = transposed ? t->nk : t->nq;
    const int64_t lane0 = transposed ? t->q0 : t->k0, lanes = transposed ? t->nq : t->nk;
    for (int64_t i = 0; i < rows; i++) {
        if (i == 0 || of[row0 + i].id != of[row0 + i - 1].id)
            segments_to_bias(a, of + lane0, lanes, of[row0 + i].id, width, bias);
        a->kernels->attention->add_bias(1, width, panel + i * a->nr * a->size, bias, 0);
    }
}

void cti_attention_cap_panel(const cti_attention_params *a, int64_t rows, int64_t width,
                             char *panel, char *tanh) {
    /* only `width` lanes of a row are defined */
    const int64_t n = width == a->nr ? rows * width : width, calls = width == a->nr ? 1 : rows;
    for (int64_t i = 0; i < calls; i++) {
        const int64_t at = i * a->nr * a->size;
        char *capped = tanh ? tanh + at : panel + at;
        a->kernels->unary->tanh(n, panel + at, capped);
        a->kernels->unary->scale(n, capped, a->cap, panel + at);
    }
}

/* The bias comes first: all that hides a pair replaces the score, also a NaN of the bias. */
void cti_attention_apply_masks(const cti_attention_params *a, const cti_attention_tile *t,
                               bool transposed, char *panel, char *bias, char *stage) {
    const cti_attention_kernels *f = a->kernels->attention;
    const int64_t rows = transposed ? t->nk : t->nq;
    const int64_t width = cti_attention_width(a, transposed ? t->nq : t->nk);
    if (a->bias.data) {
        bias_to_panel(a, t, transposed, bias);
        f->add_bias(rows, width, panel, bias, a->nr);
    }
    if (a->mask.data) {
        mask_to_panel(a, t, transposed, bias, stage);
        f->add_bias(rows, width, panel, bias, a->nr);
    }
    if (a->attrs.causal || a->has_window) mask_diagonals(a, t, transposed, width, panel);
    if (cti_attention_visible_keys(a, t) != CTI_KEYS_ALL)
        mask_keys(a, t, transposed, width, panel, bias);
    if (a->segments && cti_attention_segments_differ(a, t))
        mask_segments(a, t, transposed, width, panel, bias);
}

void cti_attention_mask_row(const cti_attention_params *a, const cti_attention_tile *t,
                            char *scores, char *bias) {
    const cti_attention_kernels *f = a->kernels->attention;
    const int64_t n = t->nk, rows = cti_ceil_div(n, a->nr); /* read as a panel */
    const int64_t width = rows * a->nr;
    if (a->bias.data) {
        a->kernels->elementwise->fill(width, 0, bias);
        a->kernels->elementwise->copy2d(1, n, mask_at(&a->bias, t, a->size), n, a->bias.stride[3],
                                        bias, n, 1, false);
        f->add_bias(rows, a->nr, scores, bias, a->nr);
    }
    if (a->mask.data) {
        flags_to_bias(a, mask_at(&a->mask, t, 1), a->mask.stride[3], n, width, bias);
        f->add_bias(rows, a->nr, scores, bias, a->nr);
    }
    if (cti_attention_visible_keys(a, t) != CTI_KEYS_ALL) {
        keys_to_bias(a, t, width, bias);
        f->add_bias(rows, a->nr, scores, bias, a->nr);
    }
    if (a->segments && cti_attention_segments_differ(a, t)) {
        const cti_attention_segment *of = a->segments + t->b * a->t;
        segments_to_bias(a, of + t->k0, n, of[t->q0].id, width, bias);
        f->add_bias(rows, a->nr, scores, bias, a->nr);
    }
}
