/* Messages between ranks: the transfers of a comm. wait.h waits for them; agree.h makes all ranks
 * decide alike.
 *
 *     WORKING ---- a peer has left or does not answer ----> FAULTY
 *        |                                                    |
 *        | the engine fails, or                               | the ranks agree that a rank
 *        | ranks are in different calls                       | was lost, or the step ends
 *        v                                                    |
 *     BROKEN <------------------------------------------------'
 *
 *     state      fault    engine     transfers with lost peers        other transfers
 *     WORKING    ""       set        (no peer is lost)                run
 *     FAULTY     set      set        end at once, data undefined      run
 *     BROKEN     set      NULL       end at once, data undefined      end at once, data undefined
 *
 * (1) comm->pending lists the transfers whose `pending` is true, in the order in which they were
 * started.
 *
 * (2) No transfer with a lost peer is pending.
 *
 * (3) A broken comm has no pending transfer and never calls its engine.
 *
 * (4) The first fault stays until cti_comm_break replaces it.
 *
 * (5) `inside` is true while a function of the engine runs. The comm is not used or closed then.
 *
 * A caller therefore exchanges all messages of a call without looking at the state. The agreement
 * at the call's end finds every fault. */
#ifndef CTI_EXT_RANKS_COMM_H
#define CTI_EXT_RANKS_COMM_H

#include <cotangent/dist.h>

#include "../../src/core/object.h"

typedef struct cti_transfer cti_transfer;
struct cti_transfer {
    ct_transfer transfer;
    cti_transfer *next, *prev; /* neighbours in comm->pending */
    bool pending, done;        /* done: the transfer has ended and its data is valid */
};

enum { CTI_FAULT_SIZE = 200, CTI_LOSS_SIZE = CTI_FAULT_SIZE - 24 }; /* without "rank N " */

/* The message of the roll call (roll_call.h): the ranks that the sender waits for. */
enum { CTI_ROLL_TAG = 255, CTI_ROLL_PEERS = 8 };
typedef struct {
    int32_t n; /* -1: no message has come */
    int32_t peer[CTI_ROLL_PEERS];
} cti_roll_note;
typedef struct {
    cti_transfer send, receive;
    cti_roll_note note; /* the message of that rank; in this rank's own entry, the message that it
                         * has sent */
    bool posted;        /* `receive` was started, which happens once */
    bool reached;
} cti_roll;

struct ct_comm {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    const ct_comm_engine *engine;  /* NULL when the comm is broken */
    void *data;                    /* belongs to the engine */
    cti_transfer *pending, *last;  /* oldest and newest, by start */
    bool *lost;                    /* [size] */
    cti_roll *roll;                /* [size] */
    bool listens, called, settled; /* states of the roll call */
    bool inside;                   /* a function of the engine is running */
    const char *misuse; /* the last function of the library that the engine has called wrongly in a
                         * start or a test, or after it; NULL: none */
    double timeout;
    int rank, size;
    int dists;                  /* number of ct_dist that were made on this comm */
    char fault[CTI_FAULT_SIZE]; /* "rank 3 has left the run"; "" without a fault */
};
_Static_assert(sizeof(ct_comm) <= CTI_OBJECT_BYTES, "a comm is an object");

/* The elements of a tensor that is row-major. */
char *cti_comm_elements(ct_tensor *tensor);

/* Starts to send or receive elements [at, at + n) of a row-major tensor, or bytes. Returns the
 * number of bytes. With 0 bytes, a lost peer or a broken comm it returns 0 and the transfer is not
 * pending. */
int64_t cti_comm_start(ct_comm *comm, cti_transfer *transfer, int tag, int peer, bool receives,
                       ct_tensor *tensor, int64_t at, int64_t n);
int64_t cti_comm_start_bytes(ct_comm *comm, cti_transfer *transfer, int tag, int peer,
                             bool receives, void *data, size_t size);

/* Returns whether a function of the comm's engine is running. If so, an error of `function` is
 * recorded, because the comm cannot be used or closed while its engine runs. The transfer that the
 * engine is starting or testing then fails too. */
bool cti_comm_is_inside(ct_comm *comm, const char *function);

/* Tests every pending transfer once, without waiting. Returns whether any has ended. */
bool cti_comm_poll(ct_comm *comm);

/* Declares a peer lost and cancels all transfers with it. `says` continues "rank 3 ...": "has left
 * the run". It becomes the fault unless the comm has one. */
void cti_comm_lose(ct_comm *comm, int peer, const char *says);

/* Cancels all transfers and closes the engine. A fault that is not NULL replaces the comm's. */
void cti_comm_break(ct_comm *comm, const char *fault);

#endif
