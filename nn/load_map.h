/* The map of a load: which rows of which tensors of the file fill a parameter. */
#ifndef CTI_NN_LOAD_MAP_H
#define CTI_NN_LOAD_MAP_H

#include "match.h"

/* Adds to the state's sources the pieces by which the map's entries fill them. A piece whose tensor
 * the file lacks has from NULL. CT_ERR_ARGUMENT: an entry is wrong in itself, or names no
 * parameter. */
bool cti_nn_map_apply(cti_nn_state *state, const cti_nn_match *match);

/* Whether the pieces of a source are there, fit, and fill all of its item once. If not, the text
 * says why; pieces' rows are set. */
enum { CTI_NN_MAP_FAULT = CTI_NAME_TEXT + 2 * CTI_SHAPE_TEXT + 256 + 120 };
cti_nn_found cti_nn_map_check(cti_nn_state *state, int64_t source, char what[CTI_NN_MAP_FAULT]);

/* Whether the file's shape is the tensor's, the other way round. */
bool cti_nn_is_transpose(const ct_tensor *tensor, const cti_file_tensor *from);

/* Whether the item is loaded from a square matrix as it is, although other matrices with a side of
 * this length are transposed: a map that leaves this one out would not be noticed. */
bool cti_nn_map_forgets(const cti_nn_state *state, int64_t i);

#endif
