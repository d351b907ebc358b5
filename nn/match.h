/* The matching of a file's tensors with the tensors of a state. */
#ifndef CTI_NN_MATCH_H
#define CTI_NN_MATCH_H

#include "state.h"

typedef struct {
    const cti_shards *file;
    const ct_module *module;
    const char *prefix; /* the prefix of the module's names in the file */
    ct_load_opts load;
    bool trained;       /* whether the state has no frozen parameters; the file may have them */
    bool ignore_others; /* whether unused tensors of the file are no error */
} cti_nn_match;

/* Finds the values of each tensor of the state in the file, by its name or by the map; for a shared
 * tensor, by any of its names.
 *
 * The file must have exactly these tensors with equal shapes, and for several names of one tensor
 * equal values. Otherwise CT_ERR_FORMAT lists all mismatches: missing, unexpected, of another
 * shape, of different values. A partial load leaves out mismatches, and is CT_ERR_FORMAT only if
 * nothing fits.
 *
 * Fills in the report. Values that were compared have been read, into tensors of the innermost
 * scope. */
bool cti_nn_state_match(cti_nn_state *state, const cti_nn_match *match);

#endif
