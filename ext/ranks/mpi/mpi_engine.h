/* The engine of an MPI comm: transfers, and how ranks part.
 *
 * A launcher ends all ranks as soon as one exits with an error, and MPI cannot end before all its
 * messages have been received. So a rank that closes its comm announces this to every other rank by
 * empty messages:
 *
 *     OPEN -- close -----------------> PARTING, sends "over" -- every "over" received --> PARTED
 *       |                                 ^          |
 *       |                                 |          '-- after a failure, time is up --> MPI_Abort
 *       |                                 | the program or MPI ends
 *       '- close after a failure --> LEFT, sends "leave"
 *
 * (1) "leave" and "over" are behind everything that the rank has sent: MPI keeps the order of two
 * ranks' messages. So a receive that is unmatched when the sender's "leave" or "over" has arrived
 * will never be matched.
 *
 * (2) No rank waits for a transfer with a rank that has sent "leave" or "over". After a failure
 * "over" is sent only when the program ends; until then the rank can print its error.
 *
 * (3) For a moment after "leave", and from "over" on until every "over" has arrived, a rank
 * receives and discards all messages. So every send ends. Open MPI and MPICH ignore MPI_Cancel of a
 * send; MPI_Finalize waits for ever, or fails, if a send has no receiver.
 *
 * (4) left[r] is true after r's "leave" or "over"; `staying` counts the ranks whose "over" has not
 * arrived.
 *
 * (5) While `lost` is not empty, a PARTING rank does not call MPI, because the memory of a lost
 * transfer may be freed. */
#ifndef CTI_MPI_ENGINE_H
#define CTI_MPI_ENGINE_H

#include <cotangent/dist.h>
#include <mpi.h>

#include <sys/types.h>

typedef struct cti_mpi cti_mpi;
typedef struct cti_mpi_segments cti_mpi_segments;
struct cti_mpi {
    MPI_Comm comm; /* MPI_COMM_NULL after all ranks have parted */
    int rank, size;
    pid_t process;                  /* the owner; a child of fork has the struct, but no MPI */
    bool *left;                     /* [size] "leave" or "over" of that rank has arrived */
    int staying;                    /* number of other ranks from which no "over" has arrived */
    bool leaves, parts;             /* this rank has sent "leave"; "over" */
    MPI_Request *leaving, *parting; /* [size] the sends of "leave" and of "over" */
    MPI_Request discard;            /* the receive into `discarded` */
    void *discarded;
    cti_mpi_segments *lost; /* cancelled transfers that are still pending in MPI */
    bool failed;            /* a transfer has failed, or its peer has left */
    double waited;          /* s, longest time that a cancelled transfer had been pending */
    double looked;          /* time of the last look for "leave" and "over" */
    char reason[MPI_MAX_ERROR_STRING + 128];
    cti_mpi *next; /* in open_comms or failed_comms of mpi.c */
};

extern const ct_comm_engine cti_mpi_engine; /* the comm's data is a cti_mpi */

void cti_mpi_leave(cti_mpi *m); /* LEFT: closes the comm after a failure */

/* PARTING: sends "over" and waits until every "over" has arrived; after a failure for a limited
 * time. Returns whether all ranks have parted. */
bool cti_mpi_part(cti_mpi *m, bool failed);

/* Closes the comm (mpi.c). The struct is freed when all ranks have parted or MPI ends. */
void cti_mpi_close(cti_mpi *m, bool failed);

void cti_mpi_nap(void); /* sleeps 0.1 ms, so that other ranks get the core */

#endif
