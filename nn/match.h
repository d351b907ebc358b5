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
 * parameter of the module also by any other name that it has there. Unless partial, the file must
 * have exactly these tensors, with the same shapes; otherwise CT_ERR_FORMAT lists all that are
 * missing, unexpected or of another shape. Partial: what does not fit is left out, and if nothing
 * fits that is CT_ERR_FORMAT. Fills in the report. */
bool cti_nn_state_match(cti_nn_state *state, const cti_nn_match *match);

#endif
