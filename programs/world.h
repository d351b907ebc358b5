/* The ranks that train together. A program is linked with one of two implementations: world_one.c,
 * a single process, or ext/ranks/mpi/world_mpi.c, the ranks that mpirun has started. The program's
 * source is the same for both. */
#ifndef PROGRAMS_WORLD_H
#define PROGRAMS_WORLD_H

#include <cotangent/cotangent.h>

/* The comm of the ranks, for ct_dist_new, ct_comm_rank and ct_comm_size. The context frees it.
 * It is NULL for a single process, or if an error is pending. */
ct_comm *example_world(ct_context *context);

#endif
