/* The named tensors of a module and of an optimiser, for saving to a file and loading from it. */
#ifndef CTI_NN_STATE_H
#define CTI_NN_STATE_H

#include "../src/io/safetensors.h"
#include "module.h"

typedef struct {
    ct_context *context;
    cti_named *item;
    int64_t n, room;
} cti_nn_state;

/* Adds a tensor under the name prefix + name. cti_nn_state_add_module adds every parameter, a
 * shared one once, under its first name. */
bool cti_nn_state_add(cti_nn_state *state, const char *prefix, const char *name, ct_tensor *tensor);
/* Adds a number as a scalar tensor of the innermost scope; a commit writes it to *value. */
bool cti_nn_state_add_number(cti_nn_state *state, const char *prefix, const char *name,
                             ct_dtype dtype, void *value);
bool cti_nn_state_add_module(cti_nn_state *state, const char *prefix, const ct_module *module);
void cti_nn_state_free(cti_nn_state *state);

/* Finds each tensor in the file by its name; a parameter of the module also by any other name that
 * it has in the module. Unless partial, the file must have exactly these tensors, with the same
 * shapes; otherwise CT_ERR_FORMAT lists all that are missing, unexpected or of another shape. */
bool cti_nn_state_match(cti_nn_state *state, const cti_safetensors *file, const ct_module *module,
                        const char *prefix, bool partial);

/* Reads the values into new tensors of the innermost scope, so that a failed read changes nothing;
 * then commit copies them into the module, which cannot fail. */
bool cti_nn_state_read(cti_nn_state *state, const cti_safetensors *file);
void cti_nn_state_commit(cti_nn_state *state);

#endif
