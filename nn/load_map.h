/* The map of a load: the rows of tensors in the file that fill a parameter. */
#ifndef CTI_NN_LOAD_MAP_H
#define CTI_NN_LOAD_MAP_H

#include "match.h"

/* Adds the pieces of the map's entries to the state's sources. A piece has from == NULL if the file
 * lacks its tensor. CT_ERR_ARGUMENT if an entry is invalid or matches no parameter. */
bool cti_nn_map_apply(cti_nn_state *state, const cti_nn_match *match);

/* Are the pieces of a source in the file, do they fit, and do they fill the tensor exactly once?
 * Otherwise the text has the reason. Sets the pieces' `rows`. */
enum { CTI_NN_MAP_FAULT = CTI_NAME_TEXT + 2 * CTI_SHAPE_TEXT + 256 + 120 };
cti_nn_found cti_nn_map_check(cti_nn_state *state, int64_t source, char what[CTI_NN_MAP_FAULT]);

/* Has the file the tensor's shape with its two dims exchanged? */
bool cti_nn_is_transpose(const ct_tensor *tensor, const cti_file_tensor *from);

/* Is the record loaded from a square matrix as it is, although other matrices with a side of this
 * length are transposed? A map that forgets this matrix would load it without an error. */
bool cti_nn_map_forgets(const cti_nn_state *state, int64_t i);

#endif
