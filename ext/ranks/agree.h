/* Agreement: every rank contributes a block, and every rank gets the same merged block. A block
 * begins with a cti_agreement: the call that the rank is in, and its error if it has one. So an
 * error of one rank, or ranks in two different calls, become an error on every rank.
 *
 * In round k ranks r and r ^ 2^k exchange their blocks. With 4 ranks:
 *
 *     before     0     1     2     3
 *     round 0    01    01    23    23        0 with 1, 2 with 3
 *     round 1    0123  0123  0123  0123      0 with 2, 1 with 3
 *
 * (1) The number of ranks is a power of two.
 *
 * (2) The block of the lower ranks is the first operand of every merge. So after round k the
 * 2^(k+1) ranks whose blocks are merged have the same block, if none was lost.
 *
 * (3) Every rank takes part in every round, also with an error and after a peer was lost.
 *
 * (4) The block of a rank that has lost a peer has `lost` set, and so has every block that is
 * merged with it. */
#ifndef CTI_EXT_RANKS_AGREE_H
#define CTI_EXT_RANKS_AGREE_H

#include "../../src/core/message.h"
#include "comm.h"

typedef enum {
    CTI_CALL_NEW,
    CTI_CALL_STEP,
    CTI_CALL_SUM,
    CTI_CALL_SAVE,
    CTI_CALL_LOAD
} cti_comm_call;

/* The values that must be equal on all ranks. */
typedef struct {
    int32_t call; /* cti_comm_call */
    int32_t dist; /* number of the ct_dist on its comm */
    int64_t step;
    int64_t count; /* number of values that the call exchanges */
} cti_place;

typedef struct {
    uint64_t version;
    cti_place place,
        other; /* place of the lowest rank; place of the first rank that is in another */
    int32_t rank,
        elsewhere; /* these two ranks; elsewhere is -1 if all ranks are in the same place */
    int32_t failed, status; /* the lowest rank with an error, or -1; its ct_status */
    int32_t lost;           /* whether the error is a lost rank; message is then the comm's fault */
    char message[CTI_MESSAGE_SIZE];
} cti_agreement;

/* Fills in the head of this rank's block. If `ok` is false the head has the context's pending
 * error. */
void cti_agreement_begin(cti_agreement *mine, const ct_comm *comm, cti_place place, bool ok);

/* Exchanges blocks of `size` bytes, each beginning with a cti_agreement. `theirs` is scratch memory
 * of the same size. merge combines the bytes after the head; it may be NULL. Returns the number of
 * bytes sent. */
typedef void cti_merge(void *mine, const void *theirs, size_t size);
int64_t cti_agree(ct_comm *comm, int tag, cti_agreement *mine, cti_agreement *theirs, size_t size,
                  cti_merge *merge);

/* Returns whether all ranks are in the same call without an error. If not, the error is recorded;
 * if a rank was lost or is in another call, the comm is broken too. */
bool cti_agreement_holds(ct_comm *comm, const cti_agreement *all, cti_place place);

/* Returns whether the call may begin: the comm is open and not broken, and no function of its
 * engine is running. If not, an error is recorded. */
bool cti_comm_is_usable(ct_comm *comm, cti_comm_call call);

const char *cti_call_name(int call); /* "dist_step" */

#endif
