/* Who trains together. A program is linked with one of two answers: world_one.c, this process
 * alone, or mpi/world_mpi.c, the ranks that mpirun has started. The program's own source knows
 * neither. */
#ifndef EXAMPLES_WORLD_H
#define EXAMPLES_WORLD_H

#include <cotangent/cotangent.h>

/* What connects the ranks, for ct_dist_new, ct_comm_rank and ct_comm_size; it ends with the
 * context. NULL: this process is alone, or an error is pending. */
ct_comm *example_world(ct_context *context);

#endif
