/* The engine of an MPI comm: transfers, and how ranks part. A rank that closes its comm sends an
 * empty "leave" message to every other and then receives and discards what still comes from each
 * until that one's leave. MPI keeps the order of two ranks' messages, so
 *
 *     - a receive that is unmatched when the sender's leave is there will stay so, and
 *     - every send ends: what its receiver did not want is discarded. MPI has no other way to end
 *       one (Open MPI and MPICH ignore MPI_Cancel of a send, and MPI_Finalize waits for it). */
#ifndef CTI_MPI_ENGINE_H
#define CTI_MPI_ENGINE_H

#include <cotangent/dist.h>
#include <mpi.h>

#include <sys/types.h>

typedef struct cti_mpi cti_mpi;
struct cti_mpi {
    MPI_Comm comm;
    int rank, size;
    pid_t process; /* a child of fork has the struct, but no MPI */
    int staying;   /* other ranks whose leave has not come */
    bool *left;    /* [size] this rank's has */
    bool leaving;  /* leaves were sent, by leaves[size] */
    MPI_Request *leaves;
    MPI_Request discard; /* of a message that is received into discarded */
    void *discarded;
    /* A transfer did not end in time and MPI may use its data still: nothing may be called but
     * MPI_Abort. */
    bool lost;
    bool failed;   /* a transfer was cancelled, lost, or failed */
    double waited; /* s, the longest that a cancelled transfer had been pending */
    double tested; /* when a test last found its transfer pending */
    char reason[MPI_MAX_ERROR_STRING + 128];
    cti_mpi *next; /* of the open comms */
};

extern const ct_comm_engine cti_mpi_engine; /* its data is a cti_mpi */

/* Sends leaves and waits for everybody's: without a limit, or after a failure as mpi.h says. False:
 * some have not left. */
bool cti_mpi_leave(cti_mpi *m, bool failed);

/* Closes the comm: leaves, and ends MPI where it was the last one. */
void cti_mpi_close(cti_mpi *m, bool failed);

void cti_mpi_nap(void); /* gives the core to others while this rank waits */

#endif
