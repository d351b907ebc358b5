/* The mistakes that can be made in attention by blocks, and a program that makes each of them. */
#ifndef COURSE_BLOCK_MISTAKES_H
#define COURSE_BLOCK_MISTAKES_H

#include "../attention_variants.h"
#include "../course.h"

#include <math.h>
#include <string.h>

enum {
    SUM_NOT_MOVED = ATTENTION_MISTAKES,
    OUT_NOT_MOVED,
    NOTHING_MOVED,
    MOVED_BACK,
    MAXIMUM_KEPT,
    SUM_ASSIGNED,
    OUT_ASSIGNED,
    DIVIDED_IN_BLOCKS,
    NEVER_DIVIDED,
    FIRST_BLOCK_ALONE,
    LAST_BLOCK_ALONE,
    PARTIAL_BLOCK_LOST,
    LAST_OF_BLOCK_LOST,
    FIRST_OF_BLOCK_LOST,
    VALUES_OF_FIRST_BLOCK,
    SCORES_OF_FIRST_BLOCK,
    CAUSAL_BY_BLOCK,
    CAUSAL_WHOLE_BLOCKS,
    OVER_BLOCKS,
    MEAN_OF_BLOCKS,
    FIRST_OF_BATCH,
    UNSUMMED_VALUES,
    OWN_MAXIMUM,
    STRICT_IN_LOOP,
    STRICT_BUT_FIRST,
    FIRST_BLOCK_LOST,
    FINAL_BLOCK_LOST,
    BLOCKS_OVERLAP,
    BLOCKS_APART,
    VALUES_STEP_ONE,
    VALUES_BY_COLUMN,
    VALUE_OF_FIRST_KEY,
    VALUE_OF_NEXT_KEY,
    FIRST_COLUMN,
    SUM_FROM_ONE,
    OLD_MAXIMUM,
    SUM_MOVED_TWICE,
    OUT_MOVED_TWICE,
    MOVED_BY_MAXIMA,
    MOVED_NEGATED,
    OUT_MOVED_FIRST_COLUMN,
    WEIGHTED_BY_SCORES,
    SUM_OF_SCORES,
    SUM_OF_COUNT,
    DIVIDED_BY_MAXIMUM,
    MAXIMUM_OF_FIRST,
    MAXIMUM_OF_LAST,
    MAXIMUM_NOT_STORED,
    MAXIMUM_WITHOUT_LAST,
    OUT_MOVED_BUT_FIRST,
    CARRIED_ON,
    CARRIED_SUM,
    STOPS_EARLY,
    SUM_OF_LAST_KEY,
    OUT_OF_LAST_KEY,
    CAUSAL_BEGIN_OF_BLOCK
};
static const course_mistake mistakes[] = {
    ATTENTION_MISTAKES_SAID,
    [SUM_NOT_MOVED] = {"when `sum` is not moved to the new maximum", true},
    [OUT_NOT_MOVED] = {"when `out` is not moved to the new maximum", true},
    [NOTHING_MOVED] = {"when neither `sum` nor `out` is moved to a new maximum", true},
    [MOVED_BACK] = {"when `sum` and `out` are moved by e^(new - old) in place of e^(old - new)",
                    true},
    [MAXIMUM_KEPT] = {"when a new block's maximum is taken although the old one is larger", true},
    [SUM_ASSIGNED] = {"when a block's sum takes the place of the one before it: = for +=", true},
    [OUT_ASSIGNED] = {"when a block's out takes the place of the one before it: = for +=", true},
    [DIVIDED_IN_BLOCKS] = {"when `out` is divided by `sum` after each block, not once at the end",
                           true},
    [NEVER_DIVIDED] = {"when out is not divided by the sum at the end", true},
    [FIRST_BLOCK_ALONE] = {"with the first block of keys alone", true},
    [LAST_BLOCK_ALONE] = {"with the last block of keys alone", true},
    [PARTIAL_BLOCK_LOST] = {"when a last block that is shorter than others is left out", true},
    [LAST_OF_BLOCK_LOST] = {"when the last key of each block is left out", true},
    [FIRST_OF_BLOCK_LOST] = {"when the first key of each block is left out", true},
    [VALUES_OF_FIRST_BLOCK] = {"when every block takes the values of the first: v + first * e is "
                               "where a block's begin",
                               true},
    [SCORES_OF_FIRST_BLOCK] = {"when every block takes the keys of the first", true},
    [CAUSAL_BY_BLOCK] = {"when a causal query sees the whole of the block that it stands in", true},
    [CAUSAL_WHOLE_BLOCKS] =
        {"when a causal query sees whole blocks alone, and not the begin of its "
         "own",
         true},
    [OVER_BLOCKS] = {"when the result is divided by the number of blocks", true},
    [MEAN_OF_BLOCKS] = {"when each block has a softmax of its own and their results are added",
                        true},
    [FIRST_OF_BATCH] = {"when every sequence of the batch takes the keys and values of the first",
                        true},
    [OWN_MAXIMUM] = {"when each block's own maximum is taken off its scores, and nothing is moved",
                     true},
    [STRICT_IN_LOOP] =
        {"when a causal query i sees keys j < i alone, and not j = i: the first sees "
         "none, which is 0 / 0",
         true},
    [STRICT_BUT_FIRST] = {"when a causal query i sees keys j < i alone, and not j = i, but for the "
                          "first",
                          true},
    [FIRST_BLOCK_LOST] = {"when the first block of keys is left out", true},
    [FINAL_BLOCK_LOST] = {"when the last block of keys is left out", true},
    [BLOCKS_OVERLAP] = {"when the last key of a block is the first of the next one, too", true},
    [BLOCKS_APART] = {"when a key is left out between two blocks", true},
    [VALUES_STEP_ONE] = {"when a block's values begin at v + first, and not at v + first * e",
                         true},
    [VALUES_BY_COLUMN] = {"when v is read column by column within a block: v[c n + j]", true},
    [VALUE_OF_FIRST_KEY] = {"when all keys of a block have the values of its first", true},
    [VALUE_OF_NEXT_KEY] = {"when a key of a block has the values of the next one", true},
    [FIRST_COLUMN] = {"when every column of out is the first one", true},
    [SUM_FROM_ONE] = {"when sum begins with 1, and not 0", true},
    [OLD_MAXIMUM] = {"with e^(score - the old maximum) for a block's keys", true},
    [SUM_MOVED_TWICE] = {"when sum is moved to the new maximum twice", true},
    [OUT_MOVED_TWICE] = {"when out is moved to the new maximum twice", true},
    [MOVED_BY_MAXIMA] = {"when what is there is multiplied by old / new maximum, without e^x",
                         true},
    [MOVED_NEGATED] = {"when what is there is multiplied by old - new maximum, without e^x", true},
    [OUT_MOVED_FIRST_COLUMN] = {"when only the first column of out is moved to the new maximum",
                                true},
    [WEIGHTED_BY_SCORES] = {"when out gets score v, and not e^(score - max) v", true},
    [SUM_OF_SCORES] = {"when sum gets scores, and not e^(score - max)", true},
    [SUM_OF_COUNT] = {"when sum counts keys, and does not add e^(score - max)", true},
    [DIVIDED_BY_MAXIMUM] = {"when out is divided by max, and not by sum", true},
    [MAXIMUM_OF_FIRST] = {"when only a block's first score is looked at for the maximum", true},
    [MAXIMUM_OF_LAST] = {"when only a block's last score is looked at for the maximum", true},
    [MAXIMUM_WITHOUT_LAST] = {"when the search for the maximum leaves out a block's last score",
                              true},
    [OUT_MOVED_BUT_FIRST] = {"when the first column of out is not moved to the new maximum", true},
    [MAXIMUM_NOT_STORED] = {"when the new maximum is not stored in max", true},
    [CARRIED_ON] = {"when max, sum and out are not set back for each query", true},
    [CARRIED_SUM] = {"when sum is not set back to 0 for each query", true},
    [SUM_OF_LAST_KEY] = {"when each key's e^(score - max) takes the place of the sum: = for +=",
                         true},
    [OUT_OF_LAST_KEY] = {"when what each key adds to out takes its place: = for +=", true},
    [STOPS_EARLY] = {"when the loop over blocks ends one key too early: first < keys - 1", true},
    [CAUSAL_BEGIN_OF_BLOCK] =
        {"when a causal query sees a whole block if it sees the block's first key", true},
    [UNSUMMED_VALUES] = {"when out gets v, and not e^(score - max) v", true},
};
/* The mistakes that can be made in attend_block only. */
#define STEP_MISTAKES                                                                              \
    (COURSE_BIT(SUM_NOT_MOVED) | COURSE_BIT(OUT_NOT_MOVED) | COURSE_BIT(NOTHING_MOVED) |           \
     COURSE_BIT(MOVED_BACK) | COURSE_BIT(MAXIMUM_KEPT) | COURSE_BIT(SUM_ASSIGNED) |                \
     COURSE_BIT(OUT_ASSIGNED) | COURSE_BIT(DIVIDED_IN_BLOCKS) | COURSE_BIT(LAST_OF_BLOCK_LOST) |   \
     COURSE_BIT(FIRST_OF_BLOCK_LOST) | COURSE_BIT(OWN_MAXIMUM) | COURSE_BIT(UNSUMMED_VALUES) |     \
     COURSE_BIT(VALUES_BY_COLUMN) | COURSE_BIT(VALUE_OF_FIRST_KEY) |                               \
     COURSE_BIT(VALUE_OF_NEXT_KEY) | COURSE_BIT(FIRST_COLUMN) | COURSE_BIT(OLD_MAXIMUM) |          \
     COURSE_BIT(SUM_MOVED_TWICE) | COURSE_BIT(OUT_MOVED_TWICE) | COURSE_BIT(MOVED_BY_MAXIMA) |     \
     COURSE_BIT(MOVED_NEGATED) | COURSE_BIT(OUT_MOVED_FIRST_COLUMN) |                              \
     COURSE_BIT(WEIGHTED_BY_SCORES) | COURSE_BIT(SUM_OF_SCORES) | COURSE_BIT(SUM_OF_COUNT) |       \
     COURSE_BIT(SUM_OF_LAST_KEY) | COURSE_BIT(OUT_OF_LAST_KEY) |                                   \
     COURSE_BIT(MAXIMUM_WITHOUT_LAST) | COURSE_BIT(OUT_MOVED_BUT_FIRST) |                          \
     COURSE_BIT(MAXIMUM_OF_FIRST) | COURSE_BIT(MAXIMUM_OF_LAST) | COURSE_BIT(MAXIMUM_NOT_STORED) | \
     COURSE_BIT(NO_MAXIMUM))

static bool has(course_set bits, int mistake) { return bits >> mistake & 1; }

/* A query's state between blocks, with its mistakes. */
typedef struct {
    double max, sum, *out;
} simulated;

/* The factor of sum, and of column c of out, when the maximum changes. */
static double moved_by(double old, double new, course_set bits) {
    if (has(bits, NOTHING_MOVED) || has(bits, MEAN_OF_BLOCKS) || has(bits, OWN_MAXIMUM)) return 1;
    if (isinf(old)) return 0;
    if (has(bits, MOVED_BY_MAXIMA)) return old / new;
    if (has(bits, MOVED_NEGATED)) return old - new;
    return exp(has(bits, MOVED_BACK) ? new - old : old - new);
}

/* One block of n keys. */
static void simulate_block(simulated *state, int64_t n, const double *s, int64_t e, const double *x,
                           course_set bits) {
    const double old = state->max;
    double new = old, sums = 0, *out = state->out;
    if (has(bits, MAXIMUM_KEPT) || has(bits, MEAN_OF_BLOCKS) || has(bits, OWN_MAXIMUM))
        new = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        if (!(has(bits, MAXIMUM_OF_FIRST) && j) && !(has(bits, MAXIMUM_OF_LAST) && j < n - 1) &&
            !(has(bits, MAXIMUM_WITHOUT_LAST) && j == n - 1))
            new = fmax(new, s[j]);
    if (has(bits, NO_MAXIMUM)) new = 0;
    const double move = moved_by(old, new, bits);
    if (!has(bits, SUM_NOT_MOVED)) state->sum *= has(bits, SUM_MOVED_TWICE) ? move * move : move;
    for (int64_t c = 0; c < e && !has(bits, OUT_NOT_MOVED); c++)
        if (isinf(old) || ((!has(bits, OUT_MOVED_FIRST_COLUMN) || c == 0) &&
                           (!has(bits, OUT_MOVED_BUT_FIRST) || c > 0)))
            out[c] *= has(bits, OUT_MOVED_TWICE) ? move * move : move;
    if (has(bits, SUM_ASSIGNED)) state->sum = 0;
    for (int64_t c = 0; c < e && has(bits, OUT_ASSIGNED); c++) out[c] = 0;
    const double off = has(bits, OLD_MAXIMUM) && isfinite(old) ? old : new;
    const int64_t from = has(bits, FIRST_OF_BLOCK_LOST), to = n - has(bits, LAST_OF_BLOCK_LOST);
    for (int64_t j = from; j < to; j++) {
        if (has(bits, SUM_OF_LAST_KEY)) state->sum = sums = 0;
        sums += has(bits, SUM_OF_SCORES) ? s[j] : has(bits, SUM_OF_COUNT) ? 1 : exp(s[j] - off);
    }
    for (int64_t j = from; j < to; j++)
        for (int64_t c = 0; c < e; c++) {
            const int64_t key = has(bits, VALUE_OF_FIRST_KEY)  ? 0
                                : has(bits, VALUE_OF_NEXT_KEY) ? (j + 1 < n ? j + 1 : j)
                                                               : j;
            const double value = has(bits, VALUES_BY_COLUMN) ? x[c * n + j]
                                 : has(bits, FIRST_COLUMN)   ? x[key * e]
                                                             : x[key * e + c];
            if (has(bits, OUT_OF_LAST_KEY)) out[c] = 0;
            out[c] += (has(bits, UNSUMMED_VALUES)      ? 1
                       : has(bits, WEIGHTED_BY_SCORES) ? s[j]
                       : has(bits, MEAN_OF_BLOCKS)     ? exp(s[j] - off) / sums
                                                       : exp(s[j] - off)) *
                      value;
        }
    state->sum += sums;
    if (!has(bits, MAXIMUM_NOT_STORED)) state->max = new;
    for (int64_t c = 0; c < e && has(bits, DIVIDED_IN_BLOCKS); c++) out[c] /= state->sum;
}

static void simulate_begin(simulated *state, int64_t e, course_set bits) {
    state->max = has(bits, MAXIMUM_FROM_ZERO) ? 0 : -INFINITY;
    state->sum = has(bits, SUM_FROM_ONE);
    memset(state->out, 0, (size_t)e * sizeof *state->out);
}

/* The number of keys that a query sees with these mistakes; without them it is `keys`, and `all` is
 * the number of all keys. */
static int64_t simulated_keys(int64_t keys, int64_t all, int64_t block, course_set bits) {
    if (has(bits, CAUSAL_BY_BLOCK) || has(bits, CAUSAL_BEGIN_OF_BLOCK))
        keys = (keys + block - 1) / block * block;
    if (has(bits, CAUSAL_WHOLE_BLOCKS) && keys < all) keys = keys / block * block;
    if (has(bits, PARTIAL_BLOCK_LOST)) keys = keys / block * block;
    return keys > all ? all : keys;
}

/* Computes one query that sees `keys` of `all` keys, in blocks, with mistakes. `state` still has
 * the numbers of the query before.
 *  */
static void simulate(simulated *state, const double *score, const double *v, int64_t keys,
                     int64_t all, int64_t e, int64_t block, course_set bits) {
    int64_t blocks = 0;
    const double old = state->sum;
    if (!has(bits, CARRIED_ON)) simulate_begin(state, e, bits);
    if (has(bits, CARRIED_SUM)) state->sum = old;
    keys = simulated_keys(keys, all, block, bits);
    int64_t step = block + has(bits, BLOCKS_APART) - (has(bits, BLOCKS_OVERLAP) && block > 1);
    for (int64_t first = 0; first < keys - has(bits, STOPS_EARLY); first += step, blocks++) {
        int64_t n = keys - first < block ? keys - first : block;
        const bool last = first + block >= keys;
        if (has(bits, FIRST_BLOCK_ALONE) && first > 0) break;
        if (has(bits, LAST_BLOCK_ALONE) && !last) continue;
        if (has(bits, FIRST_BLOCK_LOST) && first == 0) continue;
        if (has(bits, FINAL_BLOCK_LOST) && last) break;
        const double *s = has(bits, SCORES_OF_FIRST_BLOCK) ? score : score + first,
                     *x = has(bits, VALUES_OF_FIRST_BLOCK) ? v
                          : has(bits, VALUES_STEP_ONE)     ? v + first
                                                           : v + first * e;
        simulate_block(state, n, s, e, x, bits);
    }
    double over = has(bits, OVER_BLOCKS) ? state->sum * (double)blocks : state->sum;
    if (has(bits, DIVIDED_BY_MAXIMUM)) over = state->max;
    if (has(bits, DIVIDED_IN_BLOCKS) || has(bits, MEAN_OF_BLOCKS) || has(bits, NEVER_DIVIDED) ||
        has(bits, NOT_DIVIDED))
        over = 1;
    for (int64_t c = 0; c < e; c++) state->out[c] /= over;
}

#endif
