/* A save by a map, which applies the entries of a load's map backwards. */
#ifndef CTI_IO_SAVE_MAP_H
#define CTI_IO_SAVE_MAP_H

#include "name_map.h"

/* A further name of a tensor that is to be saved, named[of]. */
typedef struct {
    const char *name;
    int64_t of;
} cti_other_name;

/* Saves as cti_safetensors_save does, but under the names and in the rows of opts.map. A tensor
 * without an entry keeps its name. A tensor of several names is saved under the first of them that
 * an entry matches, and also under each other name that is the .param of an entry without a
 * wildcard. CT_ERR_ARGUMENT: an entry is invalid or matches no name; a row of a tensor, or of a
 * tensor of the file, belongs to no entry or to two; a tensor of the file gets rows of different
 * shapes or dtypes. */
bool cti_save_mapped(ct_context *context, const char *op, const char *path, const ct_named *named,
                     int64_t n, const cti_other_name *other, int64_t others, ct_save_opts opts);

#endif
