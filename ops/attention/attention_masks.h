/* Attention's masks: their check, the pairs of a query and a key that they leave visible, and their
 * effect on scores. All passes use these functions, so a further mask changes this header and its
 * .c only. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_MASKS_H
#define CTI_OPS_ATTENTION_ATTENTION_MASKS_H

#include "attention_tiles.h"

/* ---- the check ---- */

/* Checks that a mask and a key mask (each may be NULL) fit scores (B, H, T, S) of this dtype.
 * False: an error is recorded, whose message begins with `name`. */
bool cti_attention_check_masks(ct_context *context, const char *name, const ct_tensor *mask,
                               const ct_tensor *key_mask, ct_dtype dtype, ct_shape scores);

/* ---- keys ---- */

/* Which of the tile's keys are visible, that is, not hidden by the key mask. */
typedef enum { CTI_KEYS_ALL, CTI_KEYS_SOME, CTI_KEYS_NONE } cti_attention_keys;
/* Tells this of a tile if there is a key mask and nk is not 0. */
cti_attention_keys cti_attention_flagged_keys(const cti_attention_params *a,
                                              const cti_attention_tile *t);
static inline cti_attention_keys cti_attention_visible_keys(const cti_attention_params *a,
                                                            const cti_attention_tile *t) {
    return a->key_mask.data && t->nk > 0 ? cti_attention_flagged_keys(a, t) : CTI_KEYS_ALL;
}

/* Returns the key mask's element for `key`; the elements for later keys follow, key_mask.stride[3]
 * apart. It may be called only if there is a key mask. */
static inline const bool *cti_attention_key_flags(const cti_attention_params *a, int64_t b,
                                                  int64_t key) {
    const int64_t *stride = a->key_mask.stride;
    return (const bool *)a->key_mask.data + b * stride[0] + key * stride[3];
}

static inline bool cti_attention_key_is_masked(const cti_attention_params *a, int64_t b,
                                               int64_t key) {
    return a->key_mask.data && !*cti_attention_key_flags(a, b, key);
}

/* ---- diagonals ---- */

/* A mask of diagonals, such as the causal one, leaves visible the pairs (query i, key j) of a tile
 * with i + low <= j < i + high. i and j are counted from q0 and k0. */
typedef struct {
    int64_t low, high;
} cti_attention_diagonals;

static inline cti_attention_diagonals cti_attention_diagonals_of(const cti_attention_params *a,
                                                                 const cti_attention_tile *t) {
    return (cti_attention_diagonals){.low = -t->nq,
                                     .high = a->attrs.causal ? t->q0 + 1 - t->k0 : t->nk};
}

/* Returns the diagonals that leave the same pairs visible, written as (key i, query j). */
static inline cti_attention_diagonals cti_attention_transposed(cti_attention_diagonals x) {
    return (cti_attention_diagonals){.low = 1 - x.high, .high = 1 - x.low};
}

/* Returns the first of the tile's keys, counted from k0, from which on diagonals hide all keys from
 * all queries of the tile; at most nk. If it is 0 or less, the whole tile is hidden. */
static inline int64_t cti_attention_key_end(const cti_attention_params *a,
                                            const cti_attention_tile *t) {
    return cti_min(t->nk, t->nq - 1 + cti_attention_diagonals_of(a, t).high);
}

/* Returns the first of the tile's queries, counted from q0, to which diagonals leave a key of the
 * tile visible. If it is nq or more, the whole tile is hidden. */
static inline int64_t cti_attention_first_query(const cti_attention_params *a,
                                                const cti_attention_tile *t) {
    return cti_max(0, 1 - cti_attention_diagonals_of(a, t).high);
}

/* Returns the number of pairs of a query and a key of one head that diagonals leave visible. */
double cti_attention_pairs(const cti_attention_params *a);

/* ---- scores ---- */

/* Applies all masks to the scores of a tile that is one panel: hidden scores become -inf, and a
 * real mask is added. Rows are queries and lanes are keys; if transposed, rows are keys and lanes
 * are queries. bias is scratch memory of a panel; stage, of (nq, nk) elements, is used only for a
 * bool mask and a transposed panel. */
void cti_attention_mask_panel(const cti_attention_params *a, const cti_attention_tile *t,
                              bool transposed, char *panel, char *bias, char *stage);

/* Applies all masks but the diagonals to a tile of one query, whose scores are one row of nk.
 * scores and bias (scratch memory) have room for nk rounded up to a multiple of nr. */
void cti_attention_mask_row(const cti_attention_params *a, const cti_attention_tile *t,
                            char *scores, char *bias);

/* Returns whether masks hide all keys from the tile's query i. The query's statistics must be
 * known. */
static inline bool cti_attention_sees_nothing(const cti_attention_params *a,
                                              const cti_attention_tile *t, int64_t i) {
    if (!a->mask.data && !a->key_mask.data) return false; /* key 0 is visible to all */
    return cti_real_get(a->stats_dtype, a->inverse_sum, cti_attention_query(a, t, i)) == 0;
}

#endif
