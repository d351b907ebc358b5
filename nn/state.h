/* The named tensors of a module, and of an optimiser, on their way to a file and back. */
#ifndef CT_NN_STATE_H
#define CT_NN_STATE_H

#include "../src/io/safetensors.h"
#include "module.h"

typedef struct {
    ct_context *context;
    ct_named *item;
    int64_t n, room;
} nn_state;

/* Add what has the name prefix + name. A module's shared parameter is added once, under its first name. */
bool nn_state_add(nn_state *state, const char *prefix, const char *name, ct_tensor *tensor);
/* A number is a scalar tensor of the innermost scope. */
bool nn_state_add_number(nn_state *state, const char *prefix, const char *name, ct_dtype dtype, void *value);
bool nn_state_add_module(nn_state *state, const char *prefix, const ct_module *module);
void nn_state_free(nn_state *state);

/* Finds each tensor in the file: by its name or, for a parameter of the module, by any other that it has there. Unless partial,
 * every tensor must be in the file and nothing else, else CT_ERR_FORMAT tells all that is missing, unexpected or does not fit. */
bool nn_state_match(nn_state *state, const ct_safetensors *file, const ct_module *module, const char *prefix, bool partial);

/* Then reads the values beside the tensors, into handles of the innermost scope; then copies them in, which cannot fail. */
bool nn_state_read(nn_state *state, const ct_safetensors *file);
void nn_state_commit(nn_state *state);

#endif
