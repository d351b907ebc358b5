/* Ranks that are processes of MPI, for ct_dist_new (cotangent/dist.h). A library of its own,
 * libcotangent_mpi; `make mpi` builds it for the MPI whose mpicc is found. */
#ifndef CT_MPI_H
#define CT_MPI_H

#include <cotangent/dist.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ranks of MPI_COMM_WORLD, by a duplicate of it: messages of the program's own do not mix with
 * the library's. Without mpirun it is one rank. Every rank calls it, as often and in the same order
 * as the others, from the thread that started MPI. Ends with its context, or by ct_comm_close.
 *
 * Starts MPI (MPI_THREAD_FUNNELED) where the program has not. What it has started it ends with the
 * last of its comms; as MPI starts once in a process, a call after that is an error. A program that
 * wants contexts one after the other calls MPI_Init itself before the first and MPI_Finalize after
 * the last.
 *
 * Closing a comm waits until all ranks have closed theirs, as MPI_Finalize does. After a failure
 * (a rank has died, left, or not answered in time) it waits for as long as was waited for the
 * answer, from 5 to 60 seconds, so that the others can report it too; then MPI_Abort ends them all.
 * A program that exits with a comm open leaves it by the same rules.
 *
 * NULL: an error is pending, on this rank or on another; out of memory; another thread; MPI has
 * been ended; not all ranks have called it within ten minutes. Each is an error on all ranks that
 * call. */
CT_API ct_comm *ct_mpi_comm(ct_context *context);

#ifdef __cplusplus
}
#endif
#endif
