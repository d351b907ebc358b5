/* Who is to blame for a time-out.
 *
 *     rank 0 waits for 1, which waits for 3, which does not answer
 *
 * Rank 0 sees that 1 is silent, and no more. So a rank whose time is up calls the roll: it tells
 * every other rank for whom it waits, and listens for a while. A rank that waits too, hears that
 * and does the same; one that does not answer says nothing. Who is reached from the ranks that one
 * waits for, and has said nothing, is given up; those that have answered will go on.
 *
 * A rank listens once it has waited for a moment, so that most waits cost nothing. Whoever has
 * called has a fault, and leaves the run; so there is one call at most, and no old one is heard. */
#ifndef CTI_COMM_ROLL_CALL_H
#define CTI_COMM_ROLL_CALL_H

#include "comm.h"

/* Receives what others say. */
void cti_roll_listen(ct_comm *comm);
bool cti_roll_is_called(const ct_comm *comm); /* by another rank, as far as was heard */
/* Says for which peers of transfers with the tag this rank waits. */
void cti_roll_call(ct_comm *comm, int tag);
/* A rank to give up after one was before, or -1 at first; -1: there is none any more. */
int cti_roll_silent(ct_comm *comm, int after);

#endif
