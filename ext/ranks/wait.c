/* Waiting for transfers; see the header. */
#include "wait.h"
#include "../../src/core/assert.h"

#include <stdio.h>

#include "../../src/os/os.h"
#include "roll_call.h"

/* ---- lost ranks ---- */

static void peer_lose(ct_comm *comm, int peer) {
    char says[CTI_LOSS_SIZE];
    snprintf(says, sizeof says, "has not answered for %g s", comm->timeout);
    cti_comm_lose(comm, peer, says);
}

/* SETTLED: declares the ranks lost that the roll call has found. If all of them have answered
 * meanwhile, the first peer in this rank's own list is lost. */
static void roll_call_settle(ct_comm *comm) {
    CTI_ASSERT(comm->called && !comm->settled);
    comm->settled = true;
    for (int r = cti_roll_silent(comm, -1); r >= 0; r = cti_roll_silent(comm, r))
        peer_lose(comm, r);
    const cti_roll_note *own = &comm->roll[comm->rank].note;
    if (!*comm->fault && own->n > 0) peer_lose(comm, own->peer[0]);
}

/* Declares the peers of all transfers of the tag lost. */
static void peers_give_up(ct_comm *comm, int tag) {
    cti_transfer *t = comm->pending;
    while (t) {
        const bool lost = t->transfer.tag == tag;
        if (lost) peer_lose(comm, t->transfer.peer);
        t = lost ? comm->pending : t->next;
    }
}

/* Seconds of waiting after which a rank listens. After a call a rank receives lists for four times
 * as long, because a slow rank may have begun to wait just before. */
static double listen_time(const ct_comm *comm) { return comm->timeout < 8 ? comm->timeout / 8 : 1; }

/* Takes the step of the roll call that is due after `waited` seconds. */
static void wait_look_around(ct_comm *comm, cti_wait *wait, double waited) {
    if (!comm->called) {
        if (waited > listen_time(comm) && !comm->listens) cti_roll_listen(comm);
        if (waited <= comm->timeout && !(comm->listens && cti_roll_is_called(comm))) return;
        cti_roll_call(comm, wait->tag);
        wait->called = cti_os_now();
    } else if (!comm->settled) {
        if ((double)(cti_os_now() - wait->called) <= 4 * listen_time(comm) * 1e9) return;
        roll_call_settle(comm);
        wait->turns = 0;
    } else if (waited > comm->timeout) {
        peers_give_up(comm, wait->tag);
        wait->turns = 0;
    }
}

/* ---- waiting ---- */

cti_wait cti_wait_begin(ct_comm *comm, int tag) {
    comm->listens = comm->called; /* an earlier wait's listening ends here */
    return (cti_wait){.tag = tag};
}

/* A message between two processes of a machine takes about a microsecond, so the first turns only
 * test. Later turns yield the core to other threads. After some milliseconds this rank sleeps, 20
 * us at first and 1 ms at most. */
void cti_wait_turn(ct_comm *comm, cti_wait *wait) {
    enum { TESTS = 64, YIELDS = 4096, LEAST = 20000, MOST = 1000000 };
    if (cti_comm_poll(comm)) {
        wait->turns = 0;
        if (comm->called && !comm->settled) roll_call_settle(comm);
        return;
    }
    const int64_t turn = wait->turns++;
    if (!turn) wait->since = cti_os_now();
    if (turn < TESTS) return;
    if (turn < YIELDS) {
        cti_os_sleep(0);
    } else {
        const int64_t sleep = LEAST * (1 + (turn - YIELDS) / 16);
        cti_os_sleep(sleep < MOST ? sleep : MOST);
    }
    wait_look_around(comm, wait, (double)(cti_os_now() - wait->since) * 1e-9);
}

void cti_comm_wait(ct_comm *comm, const cti_transfer *transfer) {
    cti_wait wait = cti_wait_begin(comm, transfer->transfer.tag);
    while (transfer->pending) cti_wait_turn(comm, &wait);
}
