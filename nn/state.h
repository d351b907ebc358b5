/* The named tensors of a module and of optimisers, for saving to a file and loading from it. */
#ifndef CTI_NN_STATE_H
#define CTI_NN_STATE_H

#include "../src/io/shards.h"
#include "module.h"

/* What loads one tensor of the state. */
typedef struct {
    void *value;     /* of a number: where the program has it */
    bool direct;     /* nobody else has the tensor: it is read without a copy */
    bool exact;      /* dtypes must be equal, not only fit */
    int64_t source;  /* that it is loaded from; -1: none */
    ct_tensor *read; /* the values, before they are copied */
} cti_nn_record;

/* Rows of a parameter from rows of a file's tensor, which is transposed first. */
typedef struct {
    const cti_file_tensor *from; /* NULL: the file has none */
    const ct_load_map *entry;    /* that it is of */
    int64_t param_start, file_start, rows;
    bool transposed;
} cti_nn_piece;

/* What a file has for a name: values that fit; nothing; a part of the tensors that a map names; or
 * what does not fit. */
typedef enum { CTI_NN_GOOD, CTI_NN_ABSENT, CTI_NN_PART, CTI_NN_MISFIT } cti_nn_found;

/* One name of an item, and the values that the file has for it: one tensor, or pieces. */
typedef struct {
    const char *name;     /* the item's own; of a shared tensor another one, which is the state's */
    int64_t record, next; /* next: of the item, its further names in turn; -1: no more */
    const cti_file_tensor *from; /* the tensor of that name; NULL: none, or pieces */
    int64_t piece, pieces;       /* [piece, piece + pieces) of the state's; 0: none */
    cti_nn_found found;
} cti_nn_source;

typedef struct {
    ct_context *context;
    ct_named *named;       /* [n] the names are the state's */
    cti_nn_record *record; /* [n] */
    int64_t n, room;
    cti_nn_source *source; /* [sources]; source i < n is that of item i's own name */
    int64_t sources, source_room;
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
/* Adds a source without values for each name: of the module, whose tensors are the first of the
 * state and have that prefix, every name of a tensor; of others their own. Once, when all tensors
 * are there. */
bool cti_nn_state_add_sources(cti_nn_state *state, const char *prefix, const ct_module *module);
bool cti_nn_state_add_piece(cti_nn_state *state, cti_nn_piece piece);
void cti_nn_state_free(cti_nn_state *state);

/* Reads a source's values into a row-major tensor. */
bool cti_nn_state_read_source(const cti_nn_state *state, int64_t source, ct_tensor *to);

/* Reads the values that are not read yet into new tensors of the innermost scope, so that a failed
 * read changes nothing; then numbers are written to their places, and commit copies tensors into
 * the module. These two cannot fail. */
bool cti_nn_state_read(cti_nn_state *state);
void cti_nn_state_write_numbers(cti_nn_state *state);
void cti_nn_state_commit(cti_nn_state *state);

#endif
