/* The ranks that mpirun has started, for programs/world.h; no part of the library. */
#include "../../../programs/world.h"

#include <cotangent/mpi.h>

ct_comm *example_world(ct_context *context) { return ct_mpi_comm(context); }
