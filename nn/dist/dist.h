/* The struct behind ct_dist: which parameters are trained, and the buckets in which their gradients
 * are added up over the ranks.
 *
 * A bucket is one flat array of a few parameters, and is cut into as many consecutive parts as
 * there are ranks, at multiples of CTI_OP_SQUARES_UNIT elements of a parameter, so that a norm is
 * the sum of the same numbers whoever computes them. With 4 ranks, of which rank 2 is followed:
 *
 *     stage 0    |. . . .|x x x x|  wait: rank r keeps the half that bit 0 of r says, 0 the lower,
 *                                   sends the other one to r ^ 1, and adds what it receives
 *     stage 1    the same with a half of its half, bit 1 and r ^ 2
 *     -          the part is this rank's: it steps it
 *     stage 2    what it has to r ^ 2, and theirs from it
 *     stage 3    the same with r ^ 1: now it has the whole bucket
 *
 * After stage k each range has the sum over 2^(k + 1) consecutive ranks, so the sums are those of
 * the binary tree over all shares: 0 + 1, 2 + 3, then the sum of both. Addition commutes, so both
 * of a pair would compute the same. */
#ifndef CTI_NN_DIST_DIST_H
#define CTI_NN_DIST_DIST_H

#include "../../src/comm/agree.h"
#include "../../src/comm/wait.h"
#include "../optim/optim.h"

/* Tags of messages. Control has one tag for all of a comm's ct_dist, so that two that are in calls
 * of two of them meet; bulk data has two for each of the last 64. */
enum { CTI_DIST_CONTROL = 0, CTI_DIST_BULK = 1, CTI_DIST_TAGS = 2 };

/* A parameter that is trained: it required a gradient when the ct_dist was made. */
typedef struct {
    cti_nn_item *item;
    cti_nn_range range;
    int64_t bucket, at; /* elements [at, at + numel) of the bucket */
    int64_t unit;       /* of its squares: the first of all parameters' */
    int64_t uses;       /* in backward: edges to it of nodes that have not run */
    bool present;       /* this rank has had a gradient of it in this step */
} cti_dist_param;

typedef struct {
    int64_t first, count; /* of cti_dist.param */
    int64_t numel;
    /* The sum of the shares, then its ranges; while parameters are handed over, their values. */
    ct_tensor *work;
    ct_tensor *scratch; /* what is received; after the last sum this rank's part of the gradient */
    ct_tensor **set;    /* [levels] sums of 1, 2, 4, ... consecutive shares of this rank */
    int64_t *cut;       /* [ranks + 1] its parts begin there */
    int64_t unfinished; /* parameters with uses */
    int stage;          /* the one that runs or is next */
    bool runs;
    cti_transfer send, receive;
} cti_dist_bucket;

/* What ranks bring to a step: numbers that must be the same, which parameters have a gradient, and
 * the squares of their parts. */
typedef struct {
    uint64_t digest; /* of the optimiser's numbers, groups and step counts */
    uint64_t seed;
    double lr;
    int64_t matmul; /* ct_matmul_precision */
} cti_dist_numbers;
typedef struct {
    cti_agreement head;
    cti_dist_numbers numbers, other; /* of the lowest rank, and of the first that differs */
    int32_t differs;                 /* that rank; -1: none does */
    int32_t words;                   /* of bits: one bit for each parameter */
    uint64_t bits[];                 /* [words], and then units as f64, in which 0 is not mine */
} cti_dist_block;

struct ct_dist {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_backward_watch watch;
    ct_optim *optim;
    ct_comm *comm;           /* NULL: this process alone */
    int number;              /* of the comm's ct_dist */
    int ranks, rank, stages; /* stages: log2 ranks */
    int levels;              /* log2 of this rank's shares */
    ct_dist_opts opts;
    uint64_t fingerprint;    /* ct_fingerprint when it was made */
    cti_dist_param *param;   /* [params], in order of the optimiser's slots */
    cti_dist_bucket *bucket; /* [buckets], from the last parameters to the first */
    int64_t params, buckets, units;
    cti_dist_block *block, *peer_block; /* for agreement on a step: this rank's, and room */
    size_t block_bytes;
    double *own_squares; /* [units] */
    /* where this rank is in a step */
    int64_t steps;
    int64_t next;   /* how many of its micro-batches were handed out */
    bool begun;     /* the generator is a micro-batch's: `rng` is to be restored */
    bool finished;  /* ct_dist_next has returned false */
    bool early;     /* in the running backward buckets may start */
    int64_t staged; /* buckets whose exchange has begun, or is about to */
    ct_rng rng;
    ct_dist_traffic sent, last_sent;
};
_Static_assert(sizeof(ct_dist) <= CTI_OBJECT_BYTES, "a ct_dist is an object");

static inline int64_t cti_dist_micro_batches(const ct_dist *dist) { /* of this rank */
    return dist->opts.micro_batches / dist->ranks;
}
static inline int64_t cti_dist_words(const ct_dist *dist) { return (dist->params + 63) / 64; }
static inline size_t cti_dist_block_bytes(const ct_dist *dist) {
    return sizeof(cti_dist_block) + cti_bytes(cti_dist_words(dist) + dist->units, sizeof(uint64_t));
}
static inline int cti_dist_tag(const ct_dist *dist, bool parameters) {
    return CTI_DIST_TAGS + dist->number % 64 * 2 + parameters;
}

/* ---- layout.c: buckets, parts and all memory ---- */

/* Divides the parameters and takes all memory of the steps. False with an error recorded;
 * cti_dist_layout_free frees what there is. */
bool cti_dist_layout(ct_dist *dist);
void cti_dist_layout_free(ct_dist *dist);
/* Elements [*from, *to) of a bucket that rank r has before stage k of the exchange. */
void cti_dist_bucket_range(const ct_dist *dist, const cti_dist_bucket *bucket, int rank, int stage,
                           int64_t *from, int64_t *to);
/* Elements [*start, *start + *length) of the parameter are rank r's. */
void cti_dist_param_range(const ct_dist *dist, const cti_dist_param *param, int rank,
                          int64_t *start, int64_t *length);

/* ---- gradients.c: sums of shares, and their exchange ---- */

/* Adds the gradients of this rank's share number `share`, not its last one, to the sums that wait,
 * as a binary counter carries, and ends them. */
void cti_dist_carry(ct_dist *dist, int64_t share);
/* The last share without other ranks: its gradients become the sum of all. */
bool cti_dist_carry_last(ct_dist *dist);
/* The same of several ranks, to bucket->work, of one bucket more; its exchange may begin. */
void cti_dist_stage(ct_dist *dist);
/* Goes on with the exchange of all staged buckets, up to a stage. Whether all have reached it. */
bool cti_dist_advance(ct_dist *dist, int stage);
/* Waits for that. */
void cti_dist_finish(ct_dist *dist, int stage);
/* To start buckets early: for the last micro-batch's backward. */
void cti_dist_watch(ct_dist *dist, bool on);

/* ---- compare.c: what must be the same on all ranks ---- */

/* Whether the optimiser, its parameters and the options are those of rank 0. Else the first
 * difference is an error on all ranks. */
bool cti_dist_compare(ct_dist *dist);

/* ---- share.c: from rank 0 to all ---- */

/* Gives all ranks rank 0's parameters, buffers, states and generator, and cuts the states. */
bool cti_dist_broadcast_all(ct_dist *dist);
/* Sends a tensor of rank 0, or bytes, to all. */
void cti_dist_broadcast(ct_dist *dist, ct_tensor *tensor);
void cti_dist_broadcast_bytes(ct_dist *dist, void *data, size_t size);

/* ---- meet.c ---- */

/* Whether this rank has the file of a checkpoint; also without a dist. */
static inline bool cti_dist_is_first(const ct_dist *dist) { return !dist || dist->rank == 0; }

/* Whether all ranks are in this call with the same count, and all are `ok`. Else all have the
 * error. Without other ranks, or a dist: ok. */
bool cti_dist_meet(ct_dist *dist, cti_comm_call call, int64_t count, bool ok);
/* Whether a call may begin that all ranks take part in: neither the dist (not NULL) nor its comm
 * has ended, and no rank was lost. */
bool cti_dist_is_usable(const ct_dist *dist, cti_comm_call call);

#endif
