/* Agreement: each rank brings a block, and all get the blocks of all, merged. It begins with where
 * the rank is and whether it has failed, so that ranks in two different calls, and a rank with an
 * error, are an error on every rank.
 *
 * In round k ranks r and r ^ 2^k exchange what they have: with 4 ranks
 *
 *     0   1   2   3
 *     01  01  23  23        0 with 1, 2 with 3
 *     0123 ...              0 with 2, 1 with 3
 *
 * All merge the lower ranks' block with the upper ranks', so all get the same. */
#ifndef CTI_COMM_AGREE_H
#define CTI_COMM_AGREE_H

#include "comm.h"

typedef enum {
    CTI_CALL_NEW,
    CTI_CALL_STEP,
    CTI_CALL_SUM,
    CTI_CALL_SAVE,
    CTI_CALL_LOAD
} cti_comm_call;

/* What must be equal on all ranks. */
typedef struct {
    int32_t call; /* cti_comm_call */
    int32_t dist; /* which of the comm's */
    int64_t step;
    int64_t count; /* of what the call exchanges */
} cti_place;

typedef struct {
    uint64_t version;
    cti_place place, other;  /* of the lowest rank, and of the first rank that is elsewhere */
    int32_t rank, elsewhere; /* those ranks; elsewhere -1: there is none */
    int32_t failed, status;  /* the lowest rank with an error, -1: none; and its ct_status */
    int32_t lost;            /* the error is that a rank was lost; message is the fault */
    char message[CTI_MESSAGE_SIZE];
} cti_agreement;

/* The begin of a block: this rank's place, and whether it is ok. If it is not, the error is the one
 * that is pending in the context. */
void cti_agreement_begin(cti_agreement *mine, const ct_comm *comm, cti_place place, bool ok);

/* Exchanges blocks of `size` bytes that begin with a cti_agreement; `theirs` is room for another.
 * merge, unless it is NULL, merges what follows. Returns how many bytes were sent. */
typedef void cti_merge(void *mine, const void *theirs, size_t size);
int64_t cti_agree(ct_comm *comm, int tag, cti_agreement *mine, cti_agreement *theirs, size_t size,
                  cti_merge *merge);

/* Whether all ranks are in the same call without an error. Else the error is recorded, and where a
 * rank was lost or is elsewhere the comm is broken. */
bool cti_agreement_holds(ct_comm *comm, const cti_agreement *all, cti_place place);

/* Whether a call may begin: the comm is neither closed nor broken, and its engine does not run. */
bool cti_comm_is_usable(ct_comm *comm, cti_comm_call call);

const char *cti_call_name(int call); /* "dist_step" */

#endif
