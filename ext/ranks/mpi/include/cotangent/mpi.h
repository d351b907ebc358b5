/* Ranks that are processes of MPI, for ct_dist_new (cotangent/dist.h). They are in a library of
 * their own, libcotangent_mpi; `make mpi` builds it by the mpicc in PATH or by $MPICC. */
#ifndef CT_MPI_H
#define CT_MPI_H

#include <cotangent/dist.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a comm of the ranks of MPI_COMM_WORLD. It uses a duplicate of that communicator, so the
 * program's own messages do not mix with the library's. Without mpirun there is one rank. All ranks
 * call the function equally often and in the same order, from the thread that started MPI. The comm
 * ends with its context, or by ct_comm_close.
 *
 * If the program has not started MPI, the function starts it (MPI_THREAD_FUNNELED), and the end of
 * the last comm ends it. MPI starts once in a process, so a call after that is an error. A program
 * that uses several contexts in turn calls MPI_Init itself before the first and MPI_Finalize after
 * the last.
 *
 * Closing a comm waits until all ranks have closed theirs, as MPI_Finalize does. After a failure (a
 * rank has died, has left, or has not answered in time) the wait is as long as the wait for the
 * answer was, between 5 and 60 seconds, so that other ranks can report the failure too. Then
 * MPI_Abort ends all ranks. A program that exits with an open comm closes it by the same rules.
 *
 * Returns NULL if an error is pending on any rank, memory is exhausted, another thread calls, MPI
 * has ended, or not all ranks have called within ten minutes. Each of these is an error on all
 * ranks that call. */
CT_API ct_comm *ct_mpi_comm(ct_context *context);

#ifdef __cplusplus
}
#endif
#endif
