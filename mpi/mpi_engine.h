/* The engine of an MPI comm: transfers, and how ranks part.
 *
 * A rank that closes its comm tells every other so by an empty message: "over" when all is well.
 * After a failure it sends "leave" at once, so that others need not wait for it, and "over" when
 * the program ends, which is when it has said what failed: a launcher ends all ranks as soon as one
 * exits with an error, and MPI ends when all have sent "over".
 *
 * A rank that parts receives and discards what still comes until everybody's "over". MPI keeps the
 * order of two ranks' messages, so
 *
 *     - a receive that is unmatched when the sender has left will stay so, and
 *     - every send ends: Open MPI and MPICH ignore MPI_Cancel of a send, and wait in MPI_Finalize,
 *       or break, where its receiver never takes it. */
#ifndef CTI_MPI_ENGINE_H
#define CTI_MPI_ENGINE_H

#include <cotangent/dist.h>
#include <mpi.h>

#include <sys/types.h>

typedef struct cti_mpi cti_mpi;
typedef struct cti_mpi_segments cti_mpi_segments;
struct cti_mpi {
    MPI_Comm comm; /* MPI_COMM_NULL: all have parted */
    int rank, size;
    pid_t process;                  /* a child of fork has the struct, but no MPI */
    bool *left;                     /* [size]: this rank's "leave" or "over" has come */
    int staying;                    /* other ranks whose "over" has not */
    bool leaves, parts;             /* this rank's are sent, by */
    MPI_Request *leaving, *parting; /* [size] */
    MPI_Request discard;            /* of a message that is received into discarded */
    void *discarded;
    cti_mpi_segments *lost; /* of transfers that were cancelled, but are pending in MPI */
    bool failed;            /* a transfer has failed, or its peer has left */
    double waited;          /* s, the longest that a cancelled transfer had been pending */
    double looked;          /* when it was last looked for who has left */
    char reason[MPI_MAX_ERROR_STRING + 128];
    cti_mpi *next; /* on a list of mpi.c */
};

extern const ct_comm_engine cti_mpi_engine; /* its data is a cti_mpi */

void cti_mpi_leave(cti_mpi *m); /* after a failure */

/* Sends "over" and waits for everybody's: without a limit, or after a failure as mpi.h says. False:
 * some have not parted. */
bool cti_mpi_part(cti_mpi *m, bool failed);

/* In mpi.c: the comm is closed, and freed then or when MPI ends. */
void cti_mpi_close(cti_mpi *m, bool failed);

void cti_mpi_nap(void); /* gives the core to others while this rank waits */

#endif
