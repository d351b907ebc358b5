/* A seam for the floor of models, which looks at the names in a file before it makes the module,
 * and whose tree may have modules with files of their own. */
#ifndef CTI_NN_LOAD_H
#define CTI_NN_LOAD_H

#include <cotangent/io.h>

#include "../src/io/shards.h"

/* ct_load of files that are open. The caller closes them. `kept` are the names of n_kept parameters
 * for which the file is not asked: they keep their values. */
bool cti_nn_load(ct_module *module, const cti_shards *file, ct_load_opts opts,
                 const char *const *kept, int64_t n_kept);

/* ct_save without the parameters and buffers for whose names is_apart(arg, name) is true; NULL:
 * none is apart. */
typedef bool cti_nn_apart(const void *arg, const char *name);
bool cti_nn_save(ct_module *module, const char *path, ct_save_opts opts, cti_nn_apart *is_apart,
                 const void *arg);

#endif
