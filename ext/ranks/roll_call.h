/* The roll call, which finds the lost ranks after a time-out.
 *
 *     rank 0 waits for 1, which waits for 3, which does not answer
 *
 * Rank 0 has received nothing from rank 1, but rank 1 is not lost. So a rank whose time is up calls
 * the roll: it sends every rank the list of the ranks it waits for, and receives their lists for a
 * while. A rank that is waiting too sends its list when a call reaches it.
 *
 * Then the rank follows the lists, from its own peers to the ranks that these wait for, and so on.
 * It declares every rank lost that it reaches so and that did not answer. A rank that answered is
 * only waiting, and is not lost.
 *
 *     QUIET -- a moment's wait --> LISTENING -- time is up, or a list --> CALLED --> SETTLED
 *       ^                              |
 *       '-------- the wait ends -------'
 *
 * (1) A rank listens only after it has waited for a moment, so a short wait costs no message.
 *
 * (2) A rank calls the roll once at most. Then it has a fault and leaves the run. No list of an
 * earlier call is ever received.
 *
 * (3) A list that has arrived is kept. Its receive is started once for each peer. */
#ifndef CTI_EXT_RANKS_ROLL_CALL_H
#define CTI_EXT_RANKS_ROLL_CALL_H

#include "comm.h"

/* LISTENING: starts to receive the lists of the other ranks. */
void cti_roll_listen(ct_comm *comm);
bool cti_roll_is_called(const ct_comm *comm); /* another rank's list has arrived */
/* CALLED: sends the list of peers of this rank's transfers with the tag. */
void cti_roll_call(ct_comm *comm, int tag);
/* The first lost rank after rank `after`, or of all for -1. Returns -1 after the last. */
int cti_roll_silent(ct_comm *comm, int after);

#endif
