/* The keys that the queries of attention see, and the effect on scores. All passes (forward,
 * backward, decoding, weights) use these functions, so a further mask changes this header and its
 * .c files only.
 *
 * A pair of a query and a key is visible if mask, key mask, lengths, diagonals (causal and the
 * window) and segments allow it. The first two are numbers in memory; the others are described by a
 * range of keys for each query, which is found without looking at pairs.
 *
 * Invariants:
 * 1. Query t of batch b has the index i = t among the keys; with lower_right i = n - T + t, n =
 *    lengths[b] or S. Diagonals leave visible the keys j with i - left < j < i + right; if causal,
 *    right is 1.
 * 2. cti_attention_keys_of and cti_attention_queries_of return ranges outside of which diagonals,
 *    lengths and segments hide all pairs of the tile. So a tile with an empty range is hidden and
 *    is not computed. The ranges depend on the tile only, not on threads.
 * 3. Inside these ranges cti_attention_mask_panel sets the score of each hidden pair to -inf,
 *    even if the score is NaN (attention_hidden.h has what follows from it).
 * 4. If !a->limited, lengths, segments, the window and lower_right are not given: then only the
 *    causal mask limits the ranges. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_MASKS_H
#define CTI_OPS_ATTENTION_ATTENTION_MASKS_H

#include "attention_tiles.h"

/* ---- checks; false: an error is recorded ---- */

/* Checks that a mask and a key mask (each may be NULL) fit scores (B, H, T, S) of this dtype. The
 * message of an error begins with `name`. */
bool cti_attention_check_masks(ct_context *context, const char *name, const ct_tensor *mask,
                               const ct_tensor *key_mask, ct_dtype dtype, ct_shape scores);
/* Checks a bias, beside a mask that may be NULL. */
bool cti_attention_check_bias(ct_context *context, const ct_tensor *bias, const ct_tensor *mask,
                              ct_dtype dtype, ct_shape scores);
/* Checks bias, lengths, segments and the window. */
bool cti_attention_check_seen(ct_context *context, const ct_attention_opts *opts, ct_dtype dtype,
                              ct_shape scores);

/* ---- keys ---- */

/* Which of the tile's keys are visible, that is, not hidden by the key mask or lengths. */
typedef enum { CTI_KEYS_ALL, CTI_KEYS_SOME, CTI_KEYS_NONE } cti_attention_keys;
/* Returns this for a tile of at least one key. Call it only if there is a key mask, or lengths. */
cti_attention_keys cti_attention_flagged_keys(const cti_attention_params *a,
                                              const cti_attention_tile *t);
static inline cti_attention_keys cti_attention_visible_keys(const cti_attention_params *a,
                                                            const cti_attention_tile *t) {
    return a->hides_keys && t->nk > 0 ? cti_attention_flagged_keys(a, t) : CTI_KEYS_ALL;
}

/* Returns the key mask's element for `key`; the elements for later keys follow, key_mask.stride[3]
 * apart. It may be called only if there is a key mask. */
static inline const bool *cti_attention_key_flags(const cti_attention_params *a, int64_t b,
                                                  int64_t key) {
    const int64_t *stride = a->key_mask.stride;
    return (const bool *)a->key_mask.data + b * stride[0] + key * stride[3];
}

/* Returns how many keys a batch has: its length or S. A length that the caller's memory has changed
 * since the check stays inside the tensors. */
static inline int64_t cti_attention_length(const cti_attention_params *a, int64_t b) {
    if (!a->lengths) return a->s;
    return cti_max(0, cti_min(a->lengths[b * a->lengths_stride], a->s));
}

static inline bool cti_attention_key_is_masked(const cti_attention_params *a, int64_t b,
                                               int64_t key) {
    return (a->key_mask.data && !*cti_attention_key_flags(a, b, key)) ||
           (a->lengths && key >= cti_attention_length(a, b));
}

/* ---- diagonals ---- */

/* Diagonals leave visible the pairs (query i, key j) of a tile with i + low <= j < i + high. i and
 * j are counted from q0 and k0. */
typedef struct {
    int64_t low, high;
} cti_attention_diagonals;

/* Returns the diagonals of a call with a window or lower_right. */
cti_attention_diagonals cti_attention_window_of(const cti_attention_params *a,
                                                const cti_attention_tile *t);
static inline cti_attention_diagonals cti_attention_diagonals_of(const cti_attention_params *a,
                                                                 const cti_attention_tile *t) {
    if (a->has_window) return cti_attention_window_of(a, t);
    return (cti_attention_diagonals){.low = -t->nq,
                                     .high = a->attrs.causal ? t->q0 + 1 - t->k0 : t->nk};
}

/* Returns the diagonals that leave the same pairs visible, written as (key i, query j). */
static inline cti_attention_diagonals cti_attention_transposed(cti_attention_diagonals x) {
    return (cti_attention_diagonals){.low = 1 - x.high, .high = 1 - x.low};
}

/* ---- ranges ---- */

/* The consecutive keys or queries [begin, end) of a tile, counted from k0 or q0. It is empty if
 * begin >= end. */
typedef struct {
    int64_t begin, end;
} cti_attention_span;

/* The two functions below, for a call that is limited. */
cti_attention_span cti_attention_limited_keys(const cti_attention_params *a,
                                              const cti_attention_tile *t);
cti_attention_span cti_attention_limited_queries(const cti_attention_params *a,
                                                 const cti_attention_tile *t);

/* Returns a range of keys outside of which no key is visible to any query of the tile. If there are
 * only diagonals and lengths, and the tile has one query, all keys of the range are visible. */
static inline cti_attention_span cti_attention_keys_of(const cti_attention_params *a,
                                                       const cti_attention_tile *t) {
    if (a->limited) return cti_attention_limited_keys(a, t);
    return (cti_attention_span){
        .begin = 0, .end = cti_min(t->nk, t->nq - 1 + cti_attention_diagonals_of(a, t).high)};
}

/* Returns a range of queries outside of which no query sees any key of the tile. */
static inline cti_attention_span cti_attention_queries_of(const cti_attention_params *a,
                                                          const cti_attention_tile *t) {
    if (a->limited) return cti_attention_limited_queries(a, t);
    return (cti_attention_span){.begin = cti_max(0, 1 - cti_attention_diagonals_of(a, t).high),
                                .end = t->nq};
}

static inline bool cti_attention_is_hidden(const cti_attention_params *a,
                                           const cti_attention_tile *t) {
    const cti_attention_span keys = cti_attention_keys_of(a, t);
    return keys.begin >= keys.end;
}

/* Returns whether single pairs of the tile may be hidden, apart from keys that the key mask or
 * lengths hide from all queries: its products then need a guard (attention_hidden.h). */
bool cti_attention_may_hide_pairs(const cti_attention_params *a, const cti_attention_tile *t);
static inline bool cti_attention_hides_pairs(const cti_attention_params *a,
                                             const cti_attention_tile *t) {
    return a->guarded && t->nk > 0 && cti_attention_may_hide_pairs(a, t);
}

/* Returns the number of pairs of a query and a key of one head, summed over batches, inside the
 * ranges of keys. */
double cti_attention_pairs(const cti_attention_params *a);

/* ---- segments ---- */

/* The segment of the token at one index. Only tokens in [first, end) can have its id, and all
 * tokens in [index, run_end) have it. */
struct cti_attention_segment {
    int64_t id, first, end, run_end;
};

/* Reads the segments of a call, x->segments, into x->extents, (B, T, 4). False: an error. */
bool cti_attention_read_segments(const ct_call *c, cti_attention_tensors *x);

/* Returns whether segments hide any pair of the tile; there are segments. */
bool cti_attention_segments_differ(const cti_attention_params *a, const cti_attention_tile *t);

/* ---- scores ---- */

/* Turns the panel's products, scale q k^T / softcap, into scores. If tanh is not NULL it is a panel
 * that is set to tanh of the products. It is called only if there is a softcap. */
void cti_attention_cap_panel(const cti_attention_params *a, int64_t rows, int64_t width,
                             char *panel, char *tanh);

/* Applies all masks to the scores of a tile that is one panel: hidden scores become -inf, and a
 * bias is added. Rows are queries and lanes are keys; if transposed, rows are keys and lanes are
 * queries. bias is scratch memory of a panel; stage, of (nq, nk) elements, is used only for a bool
 * mask and a transposed panel. */
void cti_attention_apply_masks(const cti_attention_params *a, const cti_attention_tile *t,
                               bool transposed, char *panel, char *bias, char *stage);
static inline void cti_attention_mask_panel(const cti_attention_params *a,
                                            const cti_attention_tile *t, bool transposed,
                                            char *panel, char *bias, char *stage) {
    if (a->masked || a->attrs.causal)
        cti_attention_apply_masks(a, t, transposed, panel, bias, stage);
}

/* Applies all masks but diagonals and lengths to a tile of one query, whose scores are one row of
 * nk. scores and bias (scratch memory) have room for nk rounded up to a multiple of nr. */
void cti_attention_mask_row(const cti_attention_params *a, const cti_attention_tile *t,
                            char *scores, char *bias);

/* Returns whether the tile's query i sees no key. The query's statistics must be known. */
static inline bool cti_attention_sees_nothing(const cti_attention_params *a,
                                              const cti_attention_tile *t, int64_t i) {
    if (!a->masked) return false; /* key 0 is visible to all */
    return cti_real_get(a->stats_dtype, a->inverse_sum, cti_attention_query(a, t, i)) == 0;
}

/* Returns whether lengths, segments, a window or lower_right are given. */
static inline bool cti_attention_is_limited(const ct_attention_opts *opts) {
    return opts->lengths || opts->segments || opts->window.left || opts->window.right ||
           opts->lower_right;
}

#endif
