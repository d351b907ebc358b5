/* The struct behind ct_dist: the trained parameters, and the buckets in which their gradients are
 * added up over the ranks.
 *
 * A bucket is one flat array of a few parameters. It is cut into as many consecutive ranges as
 * there are ranks, at multiples of CTI_OPTIM_UNIT elements of a parameter; so a norm is the sum of
 * the same numbers for any number of ranks. With 4 ranks, seen from rank 2:
 *
 *     stage 0    |. . . .|x x x x|  rank r keeps the half that bit 0 of r selects (0: lower half),
 *                                   sends the other half to r ^ 1, and adds the half it receives
 *     stage 1    the same with a half of that half, bit 1 and r ^ 2
 *     -          the remaining range is this rank's: the optimiser steps it
 *     stage 2    sends its range to r ^ 2, and receives the range of r ^ 2
 *     stage 3    the same with r ^ 1; now this rank has the whole bucket
 *
 * The states of a bucket, with K = log2(ranks). A step moves it to the right and end_step back:
 *
 *     unstaged --stage--> stage 0 --> ... --> stage K --step--> stage K --> ... --> stage 2K
 *                         '--- sums of gradients ---'           '----- parameters -----'
 *
 * In each stage `runs` is false, then true while the two transfers are under way; then the next
 * stage begins.
 *
 * (1) After stage k < K a range has the sum over 2^(k+1) consecutive ranks. So the sums are the
 * binary tree over all shares: 0 + 1, 2 + 3, then the sum of both. Addition commutes, so both ranks
 * of a pair would compute the same bits.
 *
 * (2) Buckets are staged in the order of `bucket`: the first `staged` ones have begun, or will
 * next.
 *
 * (3) Bucket b begins a stage only after bucket b - 1 has begun it. So all ranks start the
 * transfers of one stage in the same order; messages between two ranks have no other order.
 *
 * (4) cut[0] <= cut[1] <= ... <= cut[ranks]. Every range begins at a unit of a parameter.
 *
 * (5) In a step parameters change only in params_write, after all ranks have agreed and every
 * bucket has reached stage 2K.
 *
 * (6) The optimiser is running (cti_optim_run) in all calls of a ct_dist.
 * Therefore a function of the program that these calls run cannot free it or call the ct_dist.
 *
 * (7) All ranks make the same calls in the same order, with an error too. A rank with an error
 * exchanges undefined data, and all agree afterwards (agree.h). */
#ifndef CTI_EXT_RANKS_DIST_H
#define CTI_EXT_RANKS_DIST_H

#include <cotangent/dist.h>

#include <cotangent/context.h>
#include <cotangent/tensor.h>

#include <inttypes.h>

#include "../../nn/checkpoint_group.h"
#include "../../nn/optim/held.h"
#include "../../src/core/dtype.h"
#include "../../src/core/memory.h"
#include "agree.h"
#include "wait.h"

/* Tags of messages. Control messages of all ct_dist of a comm have one tag, so two ranks in calls
 * of two different ct_dist meet and find the difference. Bulk data has two tags for each of the
 * last 64 ct_dist. */
enum { CTI_DIST_CONTROL = 0, CTI_DIST_BULK = 1, CTI_DIST_TAGS = 2 };

/* A trained parameter: it required a gradient when the ct_dist was made. */
typedef struct {
    int64_t number;     /* its number in the optimiser */
    cti_optim_param of; /* as when the ct_dist was made; a group may have frozen it since */
    cti_optim_range range;
    int64_t bucket, at, numel; /* elements [at, at + numel) of the bucket */
    ct_tensor *work;           /* these elements of bucket->work, in the parameter's shape */
    bool taken;                /* its gradient was added to `work` before the bucket was staged */
    bool left;    /* its gradient is in `work`, and ends when the running backward has ended */
    bool present; /* this rank has had a gradient of the parameter in this step */
} cti_dist_param;

typedef struct {
    int64_t first, count; /* in cti_dist.param */
    int64_t numel;
    /* The sum of this rank's shares, then sums of ranges; in stages K ... 2K the parameters'
     * values. */
    ct_tensor *work;
    ct_tensor *scratch; /* received data; from stage K on this rank's range of the mean gradient */
    ct_tensor **set;    /* [levels] sums of 1, 2, 4, ... consecutive shares of this rank */
    int64_t *cut;       /* [ranks + 1] the first elements of the ranges */
    int64_t
        unfinished; /* number of parameters whose gradient the running backward has yet to finish */
    int stage;      /* the stage that runs or is next */
    bool runs;
    cti_transfer send, receive;
} cti_dist_bucket;

/* A rank's block in the agreement on a step: numbers that must be equal, a bit for each parameter
 * that has a gradient, and the sums of squares of the rank's ranges. */
typedef struct {
    uint64_t digest; /* hash of the optimiser's numbers, groups and step counts */
    uint64_t seed;
    double lr;
    int64_t matmul; /* ct_matmul_precision */
} cti_dist_numbers;
typedef struct {
    cti_agreement head;
    cti_dist_numbers numbers,
        other;       /* numbers of the lowest rank, and of the first rank that differs */
    int32_t differs; /* the rank that differs; -1: none */
    int32_t words;   /* number of words in bits: one bit for each parameter */
    uint64_t bits[]; /* [words], then one f64 for each unit; 0 in units of other ranks */
} cti_dist_block;

struct ct_dist {
    union {
        cti_object object; /* must be first */
        ct_context *context;
        ct_checkpoint_group group; /* has the count of steps */
    };
    cti_optim_client client; /* holds the optimiser */
    ct_optim *optim;
    ct_comm *comm;           /* NULL: this process is the only rank */
    int number;              /* number of this ct_dist on its comm */
    int ranks, rank, stages; /* stages: log2 of ranks, K above */
    int levels;              /* log2 of the number of this rank's shares */
    ct_dist_opts opts;
    uint64_t fingerprint;    /* ct_fingerprint when the ct_dist was made */
    cti_dist_param *param;   /* [params], in the order of the optimiser's items */
    cti_dist_bucket *bucket; /* [buckets], from the last parameters to the first */
    /* the watched parameters, which require a gradient now: `leaves` is their number, `watched` and
     * `leaf`, with room for [params], are the parameters and their tensors */
    int64_t leaves;
    cti_dist_param **watched;
    ct_tensor **leaf;
    int64_t params, buckets, units;
    cti_dist_block *block,
        *peer_block; /* blocks of the agreement on a step: this rank's, and scratch for a peer's */
    size_t block_bytes;
    double *own_squares; /* [units] scratch of the sums of squares */
    /* this rank's progress in the step */
    int64_t next;  /* micro-batches that ct_dist_next has returned */
    bool begun;    /* the generator is a micro-batch's; `rng` has the one to restore */
    bool finished; /* ct_dist_next has returned false */
    /* the sums lack gradients, or may lack them: a function that adds some has failed, or runs */
    bool incomplete, was_incomplete; /* was_incomplete: before the running backward */
    bool early;                      /* the running backward may stage buckets */
    int64_t staged;                  /* number of staged buckets */
    ct_rng rng;
    ct_dist_traffic sent, last_sent;
};
_Static_assert(sizeof(ct_dist) <= CTI_OBJECT_BYTES, "a ct_dist is an object");

static inline ct_dist *cti_dist_of_client(const cti_optim_client *client) {
    return (ct_dist *)((char *)(uintptr_t)client - offsetof(ct_dist, client));
}

/* Returns whether the ct_dist, which has not ended, may begin a call: no error is pending. */
static inline bool cti_dist_is_ready(const ct_dist *dist) {
    return cti_object_is_ready(&dist->object, "", "ct_dist", NULL);
}
static inline int64_t cti_dist_micro_batches(const ct_dist *dist) { /* micro-batches of this rank */
    return dist->opts.micro_batches / dist->ranks;
}
static inline int64_t cti_dist_words(const ct_dist *dist) { return (dist->params + 63) / 64; }
static inline size_t cti_dist_block_bytes(const ct_dist *dist) {
    return sizeof(cti_dist_block) + cti_bytes(cti_dist_words(dist) + dist->units, sizeof(uint64_t));
}
static inline int cti_dist_tag(const ct_dist *dist, bool parameters) {
    return CTI_DIST_TAGS + dist->number % 64 * 2 + parameters;
}

/* ---- layout.c: buckets, ranges and all memory ---- */

/* Divides the parameters into buckets and takes all memory of the steps. False with an error
 * recorded; cti_dist_layout_free frees the memory that was taken. */
bool cti_dist_layout(ct_dist *dist);
void cti_dist_layout_free(ct_dist *dist);
/* Sets the elements [*from, *to) of a bucket that the rank is responsible for before this stage of
 * sums. */
void cti_dist_bucket_range(const ct_dist *dist, const cti_dist_bucket *bucket, int rank, int stage,
                           int64_t *from, int64_t *to);
/* Sets the elements [*start, *start + *length) of a parameter that the rank steps. */
void cti_dist_param_range(const ct_dist *dist, const cti_dist_param *param, int rank,
                          int64_t *start, int64_t *length);

/* ---- gradients.c: sums of shares, and their exchange ---- */

/* Adds the gradients of this rank's share number `share`, which is not its last one, to the waiting
 * sums as a binary counter carries, and empties the gradients. */
void cti_dist_carry(ct_dist *dist, int64_t share);
/* Takes the last share if this is the only rank: its gradients become the mean over all
 * micro-batches. */
bool cti_dist_carry_last(ct_dist *dist);
/* Takes the last share if there are several ranks: stages the next bucket, with the rank's sum in
 * bucket->work. This may run inside a backward, where gradients cannot be ended, so they are left
 * to cti_dist_end_left. */
void cti_dist_stage(ct_dist *dist);
/* Ends the gradients that cti_dist_stage has left. */
void cti_dist_end_left(ct_dist *dist);
/* Continues the exchange of all staged buckets, up to a stage. Returns whether all buckets have
 * reached it. */
bool cti_dist_advance(ct_dist *dist, int stage);
/* Waits until all buckets have reached the stage. */
void cti_dist_finish(ct_dist *dist, int stage);
/* Turns on the watch of the last micro-batch's backward, which stages buckets as soon as their
 * gradients are final. */
void cti_dist_watch(ct_dist *dist, bool on);

/* ---- dist_compare.c: properties that must be equal on all ranks ---- */

/* Returns whether this rank has rank 0's options, optimiser and parameters. The first difference of
 * any rank is an error on all ranks. */
bool cti_dist_compare(ct_dist *dist);

/* ---- broadcast.c: from rank 0 to all, and between rank 0 and the ranges ---- */

/* Sends rank 0's parameters, buffers, states and generator to all ranks. The optimiser gets the
 * ranges and, in place of its states, states of the ranges. */
bool cti_dist_broadcast_all(ct_dist *dist);
/* Sends a tensor, or bytes, of rank 0 to all ranks. */
void cti_dist_broadcast(ct_dist *dist, ct_tensor *tensor);
void cti_dist_broadcast_bytes(ct_dist *dist, void *data, size_t size);

/* Moves a state between rank 0, which has it whole, and the ranges of all ranks: see
 * cti_optim_client.move. */
void cti_dist_move(ct_dist *dist, const cti_optim_range *range, ct_tensor *whole, ct_tensor *part,
                   bool to_whole);

/* ---- dist_group.c: the ranks as the group of a checkpoint ---- */

void cti_dist_make_group(ct_dist *dist);

/* ---- meet.c ---- */

/* Returns whether all ranks are in this call with the same count, and all are `ok`. If not, all
 * ranks record the error. There must be other ranks. */
bool cti_dist_meet(ct_dist *dist, cti_comm_call call, int64_t count, bool ok);
/* Returns whether a call of all ranks may begin: neither the ct_dist, which is not NULL, nor its
 * comm has ended, no rank is lost, and no other call of the ct_dist is running. */
bool cti_dist_is_usable(ct_dist *dist, cti_comm_call call);

/* Resets to the state before the first micro-batch. */
void cti_dist_end_step(ct_dist *dist);

#endif
