/* The roll call; roll_call.h has the states. */
#include "roll_call.h"
#include "../../src/core/assert.h"

static bool has_said(const cti_roll *roll) { return roll->note.n >= 0 && !roll->receive.pending; }

void cti_roll_listen(ct_comm *comm) {
    comm->listens = true;
    for (int r = 0; r < comm->size && comm->engine; r++) {
        cti_roll *roll = &comm->roll[r];
        if (r == comm->rank || roll->posted) continue;
        roll->posted = true;
        cti_comm_start_bytes(comm, &roll->receive, CTI_ROLL_TAG, r, true, &roll->note,
                             sizeof roll->note);
    }
}

bool cti_roll_is_called(const ct_comm *comm) {
    for (int r = 0; r < comm->size; r++)
        if (r != comm->rank && has_said(&comm->roll[r])) return true;
    return false;
}

/* Adds a peer to the note, unless it is in it or the note is full. */
static void note_add_peer(cti_roll_note *note, int peer) {
    for (int i = 0; i < note->n; i++)
        if (note->peer[i] == peer) return;
    if (note->n < CTI_ROLL_PEERS) note->peer[note->n++] = peer;
}

void cti_roll_call(ct_comm *comm, int tag) {
    cti_roll_note *own = &comm->roll[comm->rank].note;
    CTI_ASSERT(!comm->called);
    if (!comm->listens) cti_roll_listen(comm);
    comm->called = true;
    own->n = 0;
    for (const cti_transfer *t = comm->pending; t; t = t->next)
        if (t->transfer.tag == tag) note_add_peer(own, t->transfer.peer);
    for (int r = 0; r < comm->size && comm->engine; r++)
        if (r != comm->rank)
            cti_comm_start_bytes(comm, &comm->roll[r].send, CTI_ROLL_TAG, r, false, own,
                                 sizeof *own);
}

/* Marks the ranks that `rank` waits for as reached. Returns whether any is new. */
static bool rank_reach_all_from(ct_comm *comm, int rank) {
    const cti_roll_note *note = &comm->roll[rank].note;
    bool more = false;
    for (int i = 0; i < note->n && i < CTI_ROLL_PEERS; i++) {
        const int32_t peer = note->peer[i];
        if (peer < 0 || peer >= comm->size || comm->roll[peer].reached) continue;
        more = comm->roll[peer].reached = true;
    }
    return more;
}

static void ranks_reach_all(ct_comm *comm) {
    bool more = true;
    for (int r = 0; r < comm->size; r++) comm->roll[r].reached = r == comm->rank;
    while (more) {
        more = false;
        for (int r = 0; r < comm->size; r++) {
            const cti_roll *roll = &comm->roll[r];
            if (roll->reached && (r == comm->rank || has_said(roll)))
                more |= rank_reach_all_from(comm, r);
        }
    }
}

int cti_roll_silent(ct_comm *comm, int after) {
    if (after < 0) ranks_reach_all(comm);
    for (int r = after + 1; r < comm->size; r++)
        if (r != comm->rank && comm->roll[r].reached && !has_said(&comm->roll[r])) return r;
    return -1;
}
