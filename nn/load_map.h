/* The map of a load: the rows of tensors in the file that fill a parameter. */
#ifndef CTI_NN_LOAD_MAP_H
#define CTI_NN_LOAD_MAP_H

#include "match.h"

/* Adds the slices of the map's entries to the state's sources. A slice has from == NULL if the file
 * lacks its tensor. An entry that is invalid or matches no parameter is CT_ERR_ARGUMENT. */
bool cti_nn_map_apply(cti_nn_state *state, const cti_nn_match *match);

/* Returns whether the slices of a source are in the file, fit, and fill the tensor exactly once. If
 * not, the text has the reason. Sets `rows` of the slices. */
enum { CTI_NN_MAP_FAULT = CTI_NAME_TEXT + 2 * CTI_SHAPE_TEXT + 256 + 120 };
cti_nn_found cti_nn_map_check(cti_nn_state *state, int64_t source, char what[CTI_NN_MAP_FAULT]);

/* Returns whether the file's tensor has the shape with its two dims exchanged. */
bool cti_nn_is_transpose(const ct_tensor *tensor, const cti_file_tensor *from);

/* Returns whether the record is loaded from a square matrix without transposition, although other
 * matrices with a side of this length are transposed. The map has probably forgotten to transpose
 * this matrix, and the load cannot find the mistake, because the shape fits both ways. */
bool cti_nn_map_forgets(const cti_nn_state *state, int64_t i);

#endif
