/* Saving by a map: the entries of a load's map, backwards. */
#ifndef CTI_IO_SAVE_MAP_H
#define CTI_IO_SAVE_MAP_H

#include "name_map.h"

/* A further name of a tensor that is to be saved: of named[of]. */
typedef struct {
    const char *name;
    int64_t of;
} cti_other_name;

/* Saves as cti_safetensors_save does, tensors of names and rows as opts.map says. A tensor without
 * an entry keeps its name; one of several names is saved once, under the first one that an entry
 * has, and besides under each one that an entry without a * has. CT_ERR_ARGUMENT: an entry is wrong
 * in itself or has no tensor; rows of a tensor or of the file that no entry has, or two; rows of
 * different shapes or dtypes in one tensor of the file. */
bool cti_save_mapped(ct_context *context, const char *op, const char *path, const ct_named *named,
                     int64_t n, const cti_other_name *other, int64_t others, ct_save_opts opts);

#endif
