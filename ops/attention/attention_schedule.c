/* Cuts the passes of attention into tasks. */
#include "attention_schedule.h"

/* The multiplications from which on waking a thread pays off. */
enum { THREAD_COST = 1 << 20 };

/* ---- forward ---- */

/* The queries of a range are packed once, and their outputs are summed in the workspace: both must
 * stay in L2, so they take at most 512 KB. A block has 120 keys, so that a panel of scores (120 x
 * nr) stays in L1d; this does not depend on S, so the workspace does not grow with a KV cache.
 * Ranges are halved, down to 128 queries, until there are 16 tasks for the threads. */
enum {
    FORWARD_QUERIES = 1024, /* the most queries of a range */
    FORWARD_RANGE_BYTES = 512 << 10,
    FORWARD_KEYS = 120, /* the keys of a block */
    FORWARD_TASKS = 16,
};

cti_attention_forward_schedule cti_attention_schedule_forward(const cti_attention_params *a) {
    const int64_t heads = a->batch * a->heads;
    const int64_t row = a->d + a->dv; /* the numbers of a query */
    const int64_t capacity = FORWARD_RANGE_BYTES / a->size;
    int64_t range =
        row < capacity / FORWARD_QUERIES ? FORWARD_QUERIES : capacity / row / a->nr * a->nr;
    while (range > 128 && heads * cti_ceil_div(a->t, range) < FORWARD_TASKS) range /= 2;
    range = cti_max(range, a->nr);
    /* Ranges of equal length, in whole panels. */
    const int64_t queries = cti_ceil_div(a->t, cti_ceil_div(a->t, range));
    cti_attention_forward_schedule s = {.q_range = cti_min(cti_round_up(queries, a->nr), a->t),
                                        .k_block = FORWARD_KEYS};
    s.q_ranges = cti_ceil_div(a->t, s.q_range);
    CTI_ASSERT(s.q_range % a->nr == 0 || s.q_range == a->t); /* ranges are whole panels */
    /* The cost is in multiplications; the constants stand for the work around each row, column and
     * score. */
    const double cost = ((double)s.q_range + 8) * (double)(a->s + 8) * (double)(row + 16);
    s.grain = cost < THREAD_COST ? (int64_t)(THREAD_COST / cost) : 1;
    return s;
}

/* ---- backward ---- */

/* The keys and values of a range, and their gradients, must stay in L2, so they take at most 1,280
 * KB. Ranges are halved, down to 128 keys, until all heads together have 8. There is one range of
 * queries, unless a step would then have fewer than 16 tasks: with more ranges keys are packed more
 * often, once for each pair. */
enum {
    BACKWARD_RANGE_BYTES = 1280 << 10,
    BACKWARD_KEYS = 128, /* the keys of a block */
    BACKWARD_KEY_RANGES = 8,
    BACKWARD_TASKS = 16, /* the tasks of a step */
};

cti_attention_backward_schedule cti_attention_schedule_backward(const cti_attention_params *a) {
    const int64_t heads = a->batch * a->kv_heads;
    const int64_t row = 3 * a->d + 2 * a->dv; /* a key's K, packed K, dK; packed V, dV */
    const int64_t capacity = BACKWARD_RANGE_BYTES / a->size, most_keys = CTI_ATTENTION_MOST_KEYS;
    int64_t range = row <= capacity / most_keys ? most_keys : capacity / row / a->nr * a->nr;
    while (range > 128 && heads * cti_ceil_div(a->s, range) < BACKWARD_KEY_RANGES) range /= 2;
    range = cti_max(range, a->nr);
    cti_attention_backward_schedule s;
    s.k_range = cti_min(cti_round_up(cti_ceil_div(a->s, cti_ceil_div(a->s, range)), a->nr), a->s);
    s.k_ranges = cti_ceil_div(a->s, s.k_range);
    const int64_t most = cti_min(s.k_ranges, cti_ceil_div(a->t, CTI_ATTENTION_QUERY_BLOCK));
    s.q_ranges = cti_min(most, cti_ceil_div(BACKWARD_TASKS, heads));
    s.q_range = cti_ceil_div(a->t, s.q_ranges);
    s.k_block = cti_min(BACKWARD_KEYS / a->nr * a->nr, cti_round_up(s.k_range, a->nr));
    CTI_ASSERT(s.q_ranges <= s.k_ranges); /* otherwise two pairs of a step share keys */
    CTI_ASSERT(s.k_range % a->nr == 0 || s.k_range == a->s);
    CTI_ASSERT(s.k_range <= CTI_ATTENTION_MOST_KEYS || s.k_range == a->nr);
    CTI_ASSERT(s.k_block % a->nr == 0 && s.k_block <= BACKWARD_KEYS);
    /* The constants are the same as in forward. */
    const double cost =
        (double)(s.q_range + 8) * (double)(s.k_range + 8) * (double)(row + 16) * (double)a->group;
    s.grain = 1 + (int64_t)(THREAD_COST / cost);
    return s;
}

int64_t cti_attention_keys_of_step(const cti_attention_backward_schedule *s, int64_t q_range,
                                   int64_t step) {
    CTI_ASSERT(0 <= q_range && q_range < s->q_ranges && 0 <= step && step < s->k_ranges);
    return (q_range * (s->k_ranges / s->q_ranges) + step) % s->k_ranges;
}

/* ---- weights ---- */

cti_attention_weights_schedule cti_attention_schedule_weights(const cti_attention_params *a) {
    const double queries = (double)cti_min(CTI_ATTENTION_WEIGHTS_QUERIES, a->t);
    const double keys = (double)cti_min(CTI_ATTENTION_WEIGHTS_KEYS, a->s);
    const double summed_heads = a->attrs.mean_weights ? (double)a->heads : 1;
    const double cost = queries * keys * (double)(a->d + 16) * summed_heads;
    return (cti_attention_weights_schedule){
        .q_tiles = cti_ceil_div(a->t, CTI_ATTENTION_WEIGHTS_QUERIES),
        .k_tiles = cti_ceil_div(a->s, CTI_ATTENTION_WEIGHTS_KEYS),
        .grain = 1 + (int64_t)(THREAD_COST / cost)};
}
