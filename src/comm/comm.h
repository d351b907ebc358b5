/* Messages between ranks: transfers that are under way. wait.h waits for them.
 *
 * A peer that has left or does not answer is *lost*: its transfers end with undefined data, later
 * ones with it do at once, and the comm has a fault, the sentence that says so. So a caller
 * exchanges what it has to without looking, and all ranks then agree on whether any had a fault
 * (agree.h). After that the comm is broken: it is closed, which the other ranks see, and only says
 * why. Where the engine fails it is broken at once. */
#ifndef CTI_COMM_COMM_H
#define CTI_COMM_COMM_H

#include <cotangent/dist.h>

#include "../core/context.h"

typedef struct cti_transfer cti_transfer;
struct cti_transfer {
    ct_transfer transfer;
    cti_transfer *next, *prev; /* on comm->pending */
    bool pending, done;        /* done: it has ended well */
};

enum { CTI_FAULT_SIZE = 200, CTI_LOSS_SIZE = CTI_FAULT_SIZE - 24 }; /* without "rank N " */

/* What a rank that waits says when the roll is called: see roll_call.h. */
enum { CTI_ROLL_TAG = 255, CTI_ROLL_PEERS = 8 };
typedef struct {
    int32_t n; /* -1: nothing yet */
    int32_t peer[CTI_ROLL_PEERS];
} cti_roll_note;
typedef struct {
    cti_transfer send, receive;
    cti_roll_note note; /* of that rank; of the own one what it has sent */
    bool posted;        /* the receive, once: an engine need not give its message to another */
    bool reached;
} cti_roll;

struct ct_comm {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_closer closer;
    const ct_comm_engine *engine;  /* NULL: the comm is broken */
    void *data;                    /* the engine's */
    cti_transfer *pending, *last;  /* in the order in which they were started */
    bool *lost;                    /* [size] */
    cti_roll *roll;                /* [size] */
    bool listens, called, settled; /* to the roll; has called it; has given up whom it has shown */
    bool inside;                   /* a function of the engine is running */
    double timeout;
    int rank, size;
    int dists;                  /* how many ct_dist it has had */
    char fault[CTI_FAULT_SIZE]; /* "rank 3 has left the run"; "" if there is none */
};
_Static_assert(sizeof(ct_comm) <= CTI_OBJECT_BYTES, "a comm is an object");

/* Starts the transfer of elements [at, at + n) of a row-major tensor, or of bytes. Returns how many
 * bytes that is. It is not pending afterwards if it has no bytes or the peer is lost. */
int64_t cti_comm_start(ct_comm *comm, cti_transfer *transfer, int tag, int peer, bool receives,
                       ct_tensor *tensor, int64_t at, int64_t n);
int64_t cti_comm_start_bytes(ct_comm *comm, cti_transfer *transfer, int tag, int peer,
                             bool receives, void *data, size_t size);

/* Whether a function of the comm's engine is running, which is an error of the function that asks:
 * the comm cannot be used or closed while it waits for its engine. A transfer that is being started
 * or tested fails by that. */
bool cti_comm_is_inside(ct_comm *comm, const char *function);

/* Tests every transfer once, without waiting. Whether any has ended. */
bool cti_comm_poll(ct_comm *comm);

/* Takes a transfer back that is pending, if it is. */
void cti_comm_cancel(ct_comm *comm, cti_transfer *transfer);

/* Ends all transfers with a peer. The first fault stays; says: "has left the run". */
void cti_comm_lose(ct_comm *comm, int peer, const char *says);

/* Takes back what is pending of the roll call. */
void cti_comm_hush(ct_comm *comm);

/* Closes the engine, with its transfers: from now on the comm only says this fault, or if it is
 * NULL the one that it has. */
void cti_comm_break(ct_comm *comm, const char *fault);

#endif
