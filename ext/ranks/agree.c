/* Agreement of all ranks, by recursive doubling. */
#include "agree.h"

#include <cotangent/autograd.h>

#include "../../src/core/assert.h"
#include "wait.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A library of another version, or a machine of another byte order, has another number. */
static const uint64_t version = UINT64_C(0x636f74616e676500) + CT_VERSION_MAJOR * 10000 +
                                CT_VERSION_MINOR * 100 + CT_VERSION_PATCH;

const char *cti_call_name(int call) {
    static const char *const names[] = {[CTI_CALL_NEW] = "dist_new",
                                        [CTI_CALL_STEP] = "dist_step",
                                        [CTI_CALL_SUM] = "dist_sum",
                                        [CTI_CALL_SAVE] = "checkpoint_save",
                                        [CTI_CALL_LOAD] = "checkpoint_load"};
    return call >= 0 && call <= CTI_CALL_LOAD ? names[call] : "another call";
}

static void agreement_add_error(cti_agreement *mine, const ct_comm *comm, int status, bool lost,
                                const char *message) {
    mine->failed = comm->rank;
    mine->status = status;
    mine->lost = lost;
    snprintf(mine->message, sizeof mine->message, "%s", message);
}

void cti_agreement_begin(cti_agreement *mine, const ct_comm *comm, cti_place place, bool ok) {
    memset(mine, 0, sizeof *mine);
    mine->version = version;
    mine->place = place;
    mine->rank = comm->rank;
    mine->elsewhere = mine->failed = -1;
    if (ok) return;
    ct_status status;
    const char *message = cti_pending_error(comm->context, &status);
    agreement_add_error(mine, comm, status ? status : CT_ERR_ARGUMENT, false,
                        status ? message : "failed");
}

static bool same_place(const cti_place *a, const cti_place *b) {
    return a->call == b->call && a->dist == b->dist && a->step == b->step && a->count == b->count;
}

/* `upper` is the block of higher ranks than `lower`. The result is in `lower`. */
static void agreement_merge_head(cti_agreement *lower, const cti_agreement *upper) {
    CTI_ASSERT(lower->rank < upper->rank);
    if (lower->elsewhere < 0 && !same_place(&lower->place, &upper->place)) {
        lower->elsewhere = upper->rank;
        lower->other = upper->place;
    } else if (lower->elsewhere < 0 && upper->elsewhere >= 0) {
        lower->elsewhere = upper->elsewhere;
        lower->other = upper->other;
    }
    if (upper->failed < 0 || (lower->failed >= 0 && lower->lost >= upper->lost)) return;
    lower->failed = upper->failed;
    lower->status = upper->status;
    lower->lost = upper->lost;
    memcpy(lower->message, upper->message, sizeof lower->message);
}

/* Whether a message is the one that the peer should send. By now the peer's block is merged from
 * `bit` ranks, of which the peer is one; so the message's lowest rank must be among these. It is
 * not if the engine mixes messages up, or if two processes have one rank. */
static bool is_block_of(const cti_agreement *theirs, int peer, int bit) {
    return theirs->rank / bit == peer / bit && theirs->rank >= 0 &&
           memchr(theirs->message, 0, sizeof theirs->message);
}

int64_t cti_agree(ct_comm *comm, int tag, cti_agreement *mine, cti_agreement *theirs, size_t size,
                  cti_merge *merge) {
    int64_t sent = 0;
    CTI_ASSERT((comm->size & (comm->size - 1)) == 0);
    for (int bit = 1; bit < comm->size; bit *= 2) {
        const int peer = comm->rank ^ bit;
        cti_transfer send, receive;
        sent += cti_comm_start_bytes(comm, &send, tag, peer, false, mine, size);
        cti_comm_start_bytes(comm, &receive, tag, peer, true, theirs, size);
        cti_comm_wait(comm, &receive);
        cti_comm_wait(comm, &send);
        if (*comm->fault && !mine->lost)
            agreement_add_error(mine, comm, CT_ERR_IO, true, comm->fault);
        if (!receive.done) continue;
        const bool same_version = theirs->version == version;
        if (!same_version || !is_block_of(theirs, peer, bit)) {
            agreement_add_error(mine, comm, CT_ERR_ARGUMENT, true,
                                same_version ? "a rank has received the message of another rank"
                                             : "ranks run different versions of the library");
            continue;
        }
        cti_agreement head = *(peer < comm->rank ? theirs : mine);
        agreement_merge_head(&head, peer < comm->rank ? mine : theirs);
        if (merge) merge(mine, theirs, size);
        *mine = head;
    }
    return sent;
}

bool cti_agreement_holds(ct_comm *comm, const cti_agreement *all, cti_place place) {
    ct_context *context = comm->context;
    const char *call = cti_call_name(place.call);
    const cti_place *a = &all->place, *b = &all->other;
    const bool dist = a->dist != b->dist, apart = a->call != b->call || a->step != b->step || dist;
    /* A rank that finds ranks in different calls leaves the run. Another rank may find both the
     * difference and the loss; the difference is the better error. */
    if (all->lost && all->elsewhere < 0) {
        ct_fail(context, CT_ERR_IO, "%s: %s; this rank is in step %" PRId64, call, all->message,
                place.step);
        if (comm->engine) cti_comm_break(comm, all->message);
        return false;
    }
    if (all->elsewhere >= 0 && (apart || all->lost || all->failed < 0)) {
        char says[CTI_FAULT_SIZE];
        if (apart)
            snprintf(says, sizeof says,
                     "rank %d is in %s of step %" PRId64 ", rank %d in %s of step %" PRId64 "%s",
                     all->elsewhere, cti_call_name(b->call), b->step, all->rank,
                     cti_call_name(a->call), a->step, dist ? " of another ct_dist" : "");
        else
            snprintf(says, sizeof says, "rank %d has %" PRId64 " values, rank %d %" PRId64,
                     all->elsewhere, b->count, all->rank, a->count);
        ct_fail(context, CT_ERR_ARGUMENT, "%s: %s", call, says);
        cti_comm_break(comm, says);
        return false;
    }
    if (all->failed < 0) return true;
    if (all->failed != comm->rank)
        ct_fail(context, (ct_status)all->status, "rank %d: %s", all->failed, all->message);
    return false;
}

bool cti_comm_is_usable(ct_comm *comm, cti_comm_call call) {
    const char *name = cti_call_name(call);
    if (!cti_object_is_open(&comm->object, name) || cti_comm_is_inside(comm, name)) return false;
    if (comm->engine) return true;
    return ct_fail(comm->context, CT_ERR_IO, "%s: the ranks cannot go on, as %s", name,
                   comm->fault);
}
