/* Transfers by MPI_Isend and MPI_Irecv, and how ranks part; the header has the states. */
#include "mpi_engine.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* MPI's counts are ints, so a longer message is sent in segments. */
#ifndef CTI_MPI_SEGMENT
#define CTI_MPI_SEGMENT ((size_t)1 << 30)
#endif

enum { LEAVE = 256, OVER }; /* the tags of transfers are smaller */
enum { ROLL = 255 };        /* tag of the roll call; its receives are always pending */

static const double patience[2] = {5, 60}; /* s, shortest and longest wait for others to part */
static const double grace = 1;             /* s, longest wait for a message that is under way */
static const double glance = 0.02;         /* s, longest wait for a message that has arrived */

/* The state of a transfer. */
struct cti_mpi_segments {
    cti_mpi_segments *next; /* next in cti_mpi.lost */
    double started;
    bool cancelled;
    int n;
    MPI_Status *statuses;
    MPI_Request requests[];
};
typedef cti_mpi_segments segments;

/* ---- reasons ---- */

static bool mpi_fail(cti_mpi *m, const char *reason) {
    snprintf(m->reason, sizeof m->reason, "%s", reason);
    m->failed = true;
    return false;
}

static bool mpi_fail_code(cti_mpi *m, int error) {
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(error, text, &length) != MPI_SUCCESS || !*text)
        snprintf(text, sizeof text, "MPI error %d", error);
    for (char *c = text; *c; c++)
        if (*c == '\n') *c = ' '; /* MPICH's texts have line ends */
    return mpi_fail(m, text);
}

/* Tests the requests one by one, because after an error MPI_Testall does not tell which of them
 * have ended. Returns whether all have ended. */
static bool test_all(int n, MPI_Request *requests, MPI_Status *statuses, int *error) {
    bool all = true;
    for (int i = 0; i < n; i++) {
        int done = 0, own;
        if (requests[i] == MPI_REQUEST_NULL) continue;
        own = MPI_Test(&requests[i], &done, statuses ? &statuses[i] : MPI_STATUS_IGNORE);
        if (own != MPI_SUCCESS) *error = own;
        all = all && requests[i] == MPI_REQUEST_NULL;
    }
    return all;
}

/* ---- how ranks part ---- */

void cti_mpi_nap(void) { nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL); }

static void has_left(cti_mpi *m, int rank, int tag) {
    m->left[rank] = true;
    if (tag == OVER) m->staying--;
}

/* Receives "leave" and "over" messages, at most once in a millisecond, because pending transfers
 * are tested often. */
static void leaves_take(cti_mpi *m) {
    const double now = MPI_Wtime();
    if (now - m->looked < 1e-3) return;
    m->looked = now;
    for (int tag = LEAVE; tag <= OVER; tag++) {
        MPI_Status status;
        int there = 0;
        while (MPI_Iprobe(MPI_ANY_SOURCE, tag, m->comm, &there, &status) == MPI_SUCCESS && there) {
            MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, tag, m->comm, MPI_STATUS_IGNORE);
            has_left(m, status.MPI_SOURCE, tag);
        }
    }
}

static void end_announce(cti_mpi *m, int tag, MPI_Request *requests) {
    for (int r = 0; r < m->size; r++)
        if (r != m->rank) MPI_Isend(NULL, 0, MPI_BYTE, r, tag, m->comm, &requests[r]);
}

/* Receives and discards messages that no transfer waits for, one at a time. */
static void messages_discard(cti_mpi *m) {
    for (;;) {
        int there = 0, size = 0, ended = 0;
        MPI_Message message;
        MPI_Status status;
        if (m->discard != MPI_REQUEST_NULL) {
            MPI_Test(&m->discard, &ended, MPI_STATUS_IGNORE);
            if (m->discard != MPI_REQUEST_NULL) return;
            free(m->discarded);
            m->discarded = NULL;
        }
        if (MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, m->comm, &there, &message, &status) !=
                MPI_SUCCESS ||
            !there)
            return;
        MPI_Get_count(&status, MPI_BYTE, &size);
        /* without memory the message is truncated to 0 bytes, which ends its send too */
        m->discarded = size > 0 ? malloc((size_t)size) : NULL;
        if (!m->discarded) size = 0;
        MPI_Imrecv(m->discarded, size, MPI_BYTE, &message, &m->discard);
        if (status.MPI_TAG >= LEAVE) has_left(m, status.MPI_SOURCE, status.MPI_TAG);
    }
}

static void segments_free(segments *p) {
    free(p->statuses);
    free(p);
}

static void lost_peers_end(cti_mpi *m) {
    int error = MPI_SUCCESS;
    for (segments **link = &m->lost; *link;) {
        segments *p = *link;
        if (test_all(p->n, p->requests, NULL, &error)) {
            *link = p->next;
            segments_free(p);
        } else link = &p->next;
    }
}

/* Other ranks cancel their sends to this rank when they receive "leave". The transfers that this
 * rank has cancelled may still end, because their memory is still valid here. */
void cti_mpi_leave(cti_mpi *m) {
    double until = MPI_Wtime() + grace;
    bool all = false;
    m->leaves = true;
    end_announce(m, LEAVE, m->leaving);
    while (!all && MPI_Wtime() < until) {
        cti_mpi_nap();
        messages_discard(m);
        lost_peers_end(m);
        all = !m->lost;
        for (int r = 0; r < m->size; r++) all = all && (m->left[r] || r == m->rank);
    }
}

/* Seconds that other ranks get to part after a failure. If this rank never waited for an answer,
 * they may be computing, which can take long. */
static double seconds_to_part(const cti_mpi *m) {
    if (m->waited == 0 || m->waited > patience[1]) return patience[1];
    return m->waited > patience[0] ? m->waited : patience[0];
}

bool cti_mpi_part(cti_mpi *m, bool failed) {
    double until = MPI_Wtime() + seconds_to_part(m);
    int error = MPI_SUCCESS;
    m->parts = true;
    end_announce(m, OVER, m->parting);
    for (;; cti_mpi_nap()) {
        /* While a transfer is lost MPI is not called: it could use memory that is no longer
         * valid. */
        if (failed && MPI_Wtime() > until) return false;
        if (m->lost) continue;
        messages_discard(m);
        bool sent = test_all(m->size, m->leaving, NULL, &error) &&
                    test_all(m->size, m->parting, NULL, &error);
        if (sent && m->staying == 0 && m->discard == MPI_REQUEST_NULL) return true;
    }
}

/* ---- transfers ---- */

static void segments_release(ct_transfer *t) {
    segments *p = t->state;
    t->state = NULL;
    segments_free(p);
}

static size_t segment_size(const ct_transfer *t, int i) {
    size_t left = t->size - (size_t)i * CTI_MPI_SEGMENT;
    return left < CTI_MPI_SEGMENT ? left : CTI_MPI_SEGMENT;
}

static void receives_cancel(segments *p) {
    for (int i = 0; i < p->n; i++)
        if (p->requests[i] != MPI_REQUEST_NULL) MPI_Cancel(&p->requests[i]);
    p->cancelled = true;
}

/* Ends the pending requests of a transfer:
 *
 * - A receive without a matching message ends at once; a matched one ends with its message.
 * - A send ends when the peer receives it, or discards it after it has left.
 * - If the peer does not answer, the request stays with MPI until the program ends, on the list
 * `lost`. MPI may still use its data if the peer answers later. */
static void mpi_end(cti_mpi *m, ct_transfer *t) {
    segments *p = t->state;
    const double start = MPI_Wtime();
    double now = start;
    int error = MPI_SUCCESS;
    if (t->tag != ROLL && now - p->started > m->waited) m->waited = now - p->started;
    if (t->receives && !p->cancelled) receives_cancel(p);
    bool done = test_all(p->n, p->requests, NULL, &error);
    for (; !done; now = MPI_Wtime()) {
        leaves_take(m);
        if (now - start > (t->receives || m->left[t->peer] ? grace : glance)) break;
        cti_mpi_nap();
        done = test_all(p->n, p->requests, NULL, &error);
    }
    if (done) {
        segments_release(t);
    } else {
        p->next = m->lost;
        m->lost = p;
        t->state = NULL;
    }
}

/* May MPI be called with the comm? */
static bool has_mpi(const cti_mpi *m) {
    int over = 0;
    if (m->process != getpid() || m->comm == MPI_COMM_NULL) return false;
    MPI_Finalized(&over);
    return !over;
}

static bool usable(cti_mpi *m) {
    if (!has_mpi(m))
        return mpi_fail(m, m->process == getpid() ? "MPI has been ended"
                                                  : "a child of fork has no MPI");
    if (m->leaves || m->parts) return mpi_fail(m, "this rank has left");
    m->reason[0] = 0;
    return true;
}

static bool mpi_start(ct_comm *comm, ct_transfer *t) {
    cti_mpi *m = ct_comm_data(comm);
    if (!usable(m)) return false;
    size_t n = t->size / CTI_MPI_SEGMENT + (t->size % CTI_MPI_SEGMENT != 0 || t->size == 0);
    segments *p = malloc(sizeof *p + n * sizeof *p->requests);
    MPI_Status *statuses = malloc(n * sizeof *statuses);
    if (!p || !statuses) {
        free(p);
        free(statuses);
        return mpi_fail(m, "out of memory");
    }
    *p = (segments){.started = MPI_Wtime(), .statuses = statuses};
    t->state = p;
    for (size_t i = 0; i < n; i++) {
        char *data = t->size ? (char *)t->data + i * CTI_MPI_SEGMENT : NULL;
        int size = (int)segment_size(t, (int)i);
        MPI_Request *request = &p->requests[i];
        int error = t->receives
                        ? MPI_Irecv(data, size, MPI_BYTE, t->peer, t->tag, m->comm, request)
                        : MPI_Isend(data, size, MPI_BYTE, t->peer, t->tag, m->comm, request);
        if (error != MPI_SUCCESS) {
            mpi_fail_code(m, error);
            mpi_end(m, t);
            return false;
        }
        p->n++;
    }
    return true;
}

/* Returns the result of a transfer. All its segments have ended. */
static ct_transfer_state transfer_outcome(cti_mpi *m, const ct_transfer *t) {
    const segments *p = t->state;
    for (int i = 0; t->receives && i < p->n; i++) {
        int cancelled = 0, size = 0;
        MPI_Test_cancelled(&p->statuses[i], &cancelled);
        if (cancelled) {
            m->failed = true;
            return CT_TRANSFER_LEFT;
        }
        MPI_Get_count(&p->statuses[i], MPI_BYTE, &size);
        if ((size_t)size != segment_size(t, i)) {
            snprintf(m->reason, sizeof m->reason, "it sent %d bytes where %zu were expected", size,
                     segment_size(t, i));
            m->failed = true;
            return CT_TRANSFER_FAILED;
        }
    }
    return CT_TRANSFER_DONE;
}

static void mpi_cancel(ct_comm *comm, ct_transfer *t) {
    cti_mpi *m = ct_comm_data(comm);
    if (!t->state) return;
    if (has_mpi(m)) mpi_end(m, t);
    else segments_release(t);
}

static ct_transfer_state mpi_test(ct_comm *comm, ct_transfer *t) {
    cti_mpi *m = ct_comm_data(comm);
    segments *p = t->state;
    int error = MPI_SUCCESS;
    bool done;
    if (!usable(m)) {
        mpi_cancel(comm, t);
        return CT_TRANSFER_FAILED;
    }
    done = test_all(p->n, p->requests, p->statuses, &error);
    if (!done && error == MPI_SUCCESS && t->receives && !p->cancelled) {
        leaves_take(m);
        if (m->left[t->peer]) {
            receives_cancel(p);
            done = test_all(p->n, p->requests, p->statuses, &error);
        }
    }
    if (error != MPI_SUCCESS) {
        mpi_fail_code(m, error);
        mpi_end(m, t);
        return CT_TRANSFER_FAILED;
    }
    if (!done) return CT_TRANSFER_PENDING;
    ct_transfer_state state = transfer_outcome(m, t);
    segments_release(t);
    return state;
}

static const char *mpi_reason(ct_comm *comm) {
    const cti_mpi *m = ct_comm_data(comm);
    return m->reason;
}

static void comm_close(ct_comm *comm, bool failed) { cti_mpi_close(ct_comm_data(comm), failed); }

const ct_comm_engine cti_mpi_engine = {
    .name = "MPI",
    .start = mpi_start,
    .test = mpi_test,
    .cancel = mpi_cancel,
    .reason = mpi_reason,
    .close = comm_close,
};
