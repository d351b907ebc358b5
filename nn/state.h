/* The named tensors of a module and of optimisers, for saving to a file and loading from it. */
#ifndef CTI_NN_STATE_H
#define CTI_NN_STATE_H

#include "../src/io/shards.h"
#include "module.h"

/* What loads one tensor of the state. */
typedef struct {
    void *value;                 /* of a number: where the program has it */
    bool direct;                 /* nobody else has the tensor: it is read without a copy */
    bool exact;                  /* dtypes must be equal, not only fit */
    bool mapped;                 /* pieces fill it, and not a tensor of its own name */
    const cti_file_tensor *from; /* the file's tensor of that name; NULL: none, or pieces */
    int64_t piece, pieces;       /* [piece, piece + pieces) of the state's; 0: none */
    ct_tensor *read;             /* the values, before they are copied */
} cti_nn_item;

/* Rows of a parameter from rows of a file's tensor, which is transposed first. */
typedef struct {
    const cti_file_tensor *from; /* NULL: the file has none */
    const ct_load_map *entry;    /* that it is of */
    int64_t param_start, file_start, rows;
    bool transposed;
} cti_nn_piece;

typedef struct {
    ct_context *context;
    ct_named *named;   /* [n] the names are the state's */
    cti_nn_item *item; /* [n] */
    int64_t n, room;
    cti_nn_piece *piece; /* [pieces] */
    int64_t pieces, piece_room;
} cti_nn_state;

/* Adds a tensor under the name prefix + name. cti_nn_state_add_module adds every parameter, then
 * every persistent buffer, a shared one once, under its first name. */
bool cti_nn_state_add(cti_nn_state *state, const char *prefix, const char *name, ct_tensor *tensor);
/* Adds a number as a scalar tensor of the innermost scope, to write to *value. */
bool cti_nn_state_add_number(cti_nn_state *state, const char *prefix, const char *name,
                             ct_dtype dtype, void *value);
bool cti_nn_state_add_module(cti_nn_state *state, const char *prefix, const ct_module *module);
bool cti_nn_state_add_piece(cti_nn_state *state, cti_nn_piece piece);
void cti_nn_state_free(cti_nn_state *state);

/* The item of the parameter or buffer that has this name in the module, its first or another; -1:
 * there is none. */
int64_t cti_nn_item_named(const cti_nn_state *state, const ct_module *module, const char *name);

/* Reads the values into new tensors of the innermost scope, so that a failed read changes nothing;
 * then numbers are written to their places, and commit copies tensors into the module. These two
 * cannot fail. */
bool cti_nn_state_read(cti_nn_state *state);
void cti_nn_state_write_numbers(cti_nn_state *state);
void cti_nn_state_commit(cti_nn_state *state);

#endif
