/* How the passes of attention are cut into tasks.
 *
 * Invariants:
 * 1. A schedule follows from sizes only: no sum depends on the number of threads.
 * 2. Tasks of forward and of weights write disjoint elements, so they may run in any order.
 * 3. Backward runs in k_ranges steps, one after the other. In a step each range of queries meets
 *    one range of keys, and no two ranges of queries the same one (q_ranges <= k_ranges); over all
 *    steps each pair occurs once. So tasks of a step write disjoint rows of dQ, dK and dV, and each
 *    of these rows is summed in the order of the steps.
 * 4. Ranges of queries of forward and ranges of keys of backward are whole panels (multiples of
 *    nr), except the last one, which may be shorter. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_SCHEDULE_H
#define CTI_OPS_ATTENTION_ATTENTION_SCHEDULE_H

#include "attention_tiles.h"

enum {
    /* Backward: a multiple of every micro-kernel's rows but AMX's, whose fourth tile of 32 then has
     * 24 rows. */
    CTI_ATTENTION_QUERY_BLOCK = 120,
    CTI_ATTENTION_MOST_KEYS = 1024, /* backward: the longest range of keys */
    /* A tile's weights (240 x 256) stay in L2, and a panel of a block's scores (120 x nr) in L1d.
     */
    CTI_ATTENTION_WEIGHTS_QUERIES = 240,
    CTI_ATTENTION_WEIGHTS_KEYS = 256,
};

/* Forward: a task is a range of q_range queries of one head against all keys, k_block of them at a
 * time. */
typedef struct {
    int64_t q_ranges, q_range, k_block;
    int64_t grain; /* the tasks that a thread takes at once */
} cti_attention_forward_schedule;
cti_attention_forward_schedule cti_attention_schedule_forward(const cti_attention_params *a);

/* Backward: a task is a pair of a range of q_range queries and a range of k_range keys. There are
 * q_ranges x k_ranges pairs; the last range of each is shorter. Inside a pair, blocks of
 * CTI_ATTENTION_QUERY_BLOCK queries meet blocks of k_block keys. */
typedef struct {
    int64_t q_ranges, q_range, k_ranges, k_range, k_block;
    int64_t grain; /* the pairs of ranges that a thread takes at once */
} cti_attention_backward_schedule;
/* Neither B, H, T nor S may be 0. */
cti_attention_backward_schedule cti_attention_schedule_backward(const cti_attention_params *a);

/* Returns the range of keys with which a range of queries is paired in a step, 0 <= step <
 * k_ranges. */
int64_t cti_attention_keys_of_step(const cti_attention_backward_schedule *s, int64_t q_range,
                                   int64_t step);

/* Weights: a task is a tile of CTI_ATTENTION_WEIGHTS_QUERIES x CTI_ATTENTION_WEIGHTS_KEYS of one
 * head or, for a mean, of all heads one after the other. */
typedef struct {
    int64_t q_tiles, k_tiles;
    int64_t grain; /* the tiles that a thread takes at once */
} cti_attention_weights_schedule;
cti_attention_weights_schedule cti_attention_schedule_weights(const cti_attention_params *a);

#endif
