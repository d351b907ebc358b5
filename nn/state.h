/* The named tensors of a module, and of an optimiser, on their way to a file and back. */
#ifndef CTI_NN_STATE_H
#define CTI_NN_STATE_H

#include "../src/io/safetensors.h"
#include "module.h"

typedef struct {
    ct_context *context;
    cti_named *item;
    int64_t n, room;
} cti_nn_state;

/* Add what has the name prefix + name. A module's shared parameter is added once, under its first
 * name. */
bool cti_nn_state_add(cti_nn_state *state, const char *prefix, const char *name, ct_tensor *tensor);
/* A number is a scalar tensor of the innermost scope. */
bool cti_nn_state_add_number(cti_nn_state *state, const char *prefix, const char *name,
                             ct_dtype dtype, void *value);
bool cti_nn_state_add_module(cti_nn_state *state, const char *prefix, const ct_module *module);
void cti_nn_state_free(cti_nn_state *state);

/* Finds each tensor in the file: by its name or, for a parameter of the module, by any other that
 * it has there. Unless partial, every tensor must be in the file and nothing else, else
 * CT_ERR_FORMAT tells all that is missing, unexpected or does not fit. */
bool cti_nn_state_match(cti_nn_state *state, const cti_safetensors *file, const ct_module *module,
                        const char *prefix, bool partial);

/* Then reads the values beside the tensors, into handles of the innermost scope; then copies them
 * in, which cannot fail. */
bool cti_nn_state_read(cti_nn_state *state, const cti_safetensors *file);
void cti_nn_state_commit(cti_nn_state *state);

#endif
