/* The one loop that waits for transfers, and whom it gives up where none ends. */
#ifndef CTI_COMM_WAIT_H
#define CTI_COMM_WAIT_H

#include "comm.h"

/* A wait for transfers of one tag, which the caller sees to be pending:
 *
 *     cti_wait wait = cti_wait_begin(comm, tag);
 *     while (transfer.pending) cti_wait_turn(comm, &wait);
 *
 * Each turn polls. Where nothing has ended it lets other threads run. After comm->timeout seconds
 * in a row it calls the roll (roll_call.h) and gives up the silent ranks that the peers of that tag
 * wait for, or are; after as many seconds again, these peers. */
typedef struct {
    int tag;
    int64_t turns, since; /* without any end; nanoseconds */
    int64_t called;       /* when it has called the roll */
} cti_wait;
cti_wait cti_wait_begin(ct_comm *comm, int tag);
void cti_wait_turn(ct_comm *comm, cti_wait *wait);
void cti_comm_wait(ct_comm *comm, const cti_transfer *transfer); /* for this one */

#endif
