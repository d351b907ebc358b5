/* Matching the tensors of a file with those of a state. */
#ifndef CTI_NN_MATCH_H
#define CTI_NN_MATCH_H

#include "state.h"

typedef struct {
    const cti_shards *file;
    const ct_module *module;
    const char *prefix; /* of the module's names in the file */
    ct_load_opts load;
    bool ignore_others; /* tensors of the file that nothing asks for are no error */
} cti_nn_match;

/* Finds for each tensor of the state its own in the file, by its name, or what the map says; for a
 * shared tensor of the module by any of its names. Unless partial, the file must have exactly these
 * tensors, with the same shapes, and for several names of one the same values; otherwise
 * CT_ERR_FORMAT lists all that are missing, unexpected, of another shape or of two values. Partial:
 * what does not fit is left out, and if nothing fits that is CT_ERR_FORMAT. Fills in the report.
 * Values that were compared are read already, into tensors of the innermost scope. */
bool cti_nn_state_match(cti_nn_state *state, const cti_nn_match *match);

#endif
