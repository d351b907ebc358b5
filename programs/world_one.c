/* A single process; see world.h. */
#include "world.h"

ct_comm *example_world(ct_context *context) {
    (void)context;
    return NULL;
}
