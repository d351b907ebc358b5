/* The only loop that waits for transfers, with a limit in time. */
#ifndef CTI_EXT_RANKS_WAIT_H
#define CTI_EXT_RANKS_WAIT_H

#include "comm.h"

/* A wait for transfers of one tag. The caller tests whether they are pending:
 *
 *     cti_wait wait = cti_wait_begin(comm, tag);
 *     while (transfer.pending) cti_wait_turn(comm, &wait);
 *
 * Each turn polls all transfers. If none has ended it lets other threads run. After comm->timeout
 * seconds without an end it calls the roll (roll_call.h), which finds the lost ranks. After as many
 * seconds again all peers of this tag's transfers are declared lost. So every wait ends. */
typedef struct {
    int tag;
    int64_t turns, since; /* turns since a transfer ended; time of the first of them, in ns */
    int64_t called;       /* time of the roll call, in ns */
} cti_wait;
cti_wait cti_wait_begin(ct_comm *comm, int tag);
void cti_wait_turn(ct_comm *comm, cti_wait *wait);
void cti_comm_wait(ct_comm *comm, const cti_transfer *transfer); /* waits for this transfer */

#endif
