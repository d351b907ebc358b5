/* The map of a load: which rows of which tensors of the file fill a parameter. */
#ifndef CTI_NN_LOAD_MAP_H
#define CTI_NN_LOAD_MAP_H

#include "match.h"

/* Adds to the state the pieces of each parameter that an entry of the map names. A piece whose
 * tensor the file lacks has from NULL. CT_ERR_ARGUMENT: an entry is wrong in itself, or names no
 * parameter. */
bool cti_nn_map_apply(cti_nn_state *state, const cti_nn_match *match);

/* Sets taker[j] to `mark`, which is negative, for each tensor of the file that a piece takes and no
 * item does (taker[j] < 0). */
void cti_nn_map_mark(const cti_nn_match *match, const cti_nn_state *state, int64_t *taker,
                     int64_t mark);

/* Whether the pieces of an item are there, fit, and fill all of it once. If not, the text says why;
 * pieces' rows are set. */
typedef enum { CTI_NN_MAP_GOOD, CTI_NN_MAP_MISSING, CTI_NN_MAP_MISFIT } cti_nn_map_state;
enum { CTI_NN_MAP_FAULT = CTI_NAME_TEXT + 2 * CTI_SHAPE_TEXT + 256 + 80 };
cti_nn_map_state cti_nn_map_check(cti_nn_state *state, int64_t i, char what[CTI_NN_MAP_FAULT]);

#endif
