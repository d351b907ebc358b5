/* A seam for the floor of models, which looks at the names in a file before it makes the module. */
#ifndef CTI_NN_LOAD_H
#define CTI_NN_LOAD_H

#include <cotangent/io.h>

#include "../src/io/shards.h"

/* ct_load of files that are open. The caller closes them. */
bool cti_nn_load(ct_module *module, const cti_shards *file, ct_load_opts opts);

#endif
