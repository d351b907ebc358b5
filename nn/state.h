/* The named tensors of a module and of optimisers, for saving to a file and loading from it.
 *
 *     collect: add, add_module, ...  -->  match  -->  read  -->  write_numbers, commit
 *
 * (1) Before write_numbers and commit no tensor or number of the program has changed, except those
 * that are read directly. These two cannot fail.
 *
 * (2) named[i] and record[i] are of the same tensor. For i < n, source[i] has the first name of
 * this tensor; further names have later sources. */
#ifndef CTI_NN_STATE_H
#define CTI_NN_STATE_H

#include "../src/io/shards.h"
#include "module.h"

/* One tensor of the state, and how it is loaded. */
typedef struct {
    void *value;     /* the address of a number of the program; NULL for a tensor */
    bool flag;       /* the number is a double, 0 or 1, and the tensor a bool */
    bool direct;     /* the values are read into the tensor itself, without a copy */
    bool kept;       /* the tensor keeps its values; the file is not asked */
    bool exact;      /* dtypes must be equal; otherwise the file's dtype may be converted */
    int64_t source;  /* the source that it is loaded from; -1: none */
    ct_tensor *read; /* the values in the file, before commit copies them */
} cti_nn_record;

/* Rows of a parameter that are filled with rows of a tensor in the file, which may be transposed
 * first. */
typedef struct {
    const cti_file_tensor *from; /* NULL: the file has no such tensor */
    const ct_load_map *entry;    /* the map's entry */
    int64_t param_start, file_start, rows;
    bool transposed;
} cti_nn_slice;

/* The result of looking for a name in the file: values that fit; nothing; some of the map's
 * tensors; values that do not fit. */
typedef enum { CTI_NN_GOOD, CTI_NN_ABSENT, CTI_NN_PART, CTI_NN_MISFIT } cti_nn_found;

/* One name of a record, and its values in the file: one tensor, or slices. */
typedef struct {
    const char *name;            /* owned by the state if it is a further name of a shared tensor */
    int64_t record, next;        /* next: the source of the record's next name; -1: no more */
    const cti_file_tensor *from; /* the tensor of that name; NULL: none, or slices */
    int64_t slice, slices;       /* [slice, slice + slices) in the state's slices; 0: none */
    cti_nn_found found;
} cti_nn_source;

typedef struct {
    ct_context *context;
    bool (*is_apart)(const void *arg, const char *name); /* add_module leaves these out; or NULL */
    const void *apart_arg;
    ct_named *named;       /* [n] the state owns the names */
    cti_nn_record *record; /* [n] */
    int64_t n, room;
    cti_nn_source *source; /* [sources] */
    int64_t sources, source_room;
    cti_nn_slice *slice; /* [slices] */
    int64_t slices, slice_room;
} cti_nn_state;

/* Returns prefix + name in a new block, which cti_path_free frees; NULL if there is no memory. */
char *cti_nn_prefixed(ct_context *context, const char *prefix, const char *name);

/* Adds a tensor under the name prefix + name. cti_nn_state_add_module adds every parameter, or if
 * `trained` every parameter that requires a gradient, then every persistent buffer; a shared tensor
 * is added once, under its first name. */
bool cti_nn_state_add(cti_nn_state *state, const char *prefix, const char *name, ct_tensor *tensor);
/* Adds a number as a scalar tensor in the innermost scope. A load writes it to *value. */
bool cti_nn_state_add_number(cti_nn_state *state, const char *prefix, const char *name,
                             ct_dtype dtype, void *value);
/* Adds a double that is 0 or 1 as a bool. */
bool cti_nn_state_add_flag(cti_nn_state *state, const char *prefix, const char *name,
                           double *value);
bool cti_nn_state_add_module(cti_nn_state *state, const char *prefix, const ct_module *module,
                             bool trained);
/* Adds a source, without values yet, for each tensor, and one more for each further name that the
 * module has for it. The module's tensors must come first in the state, under that prefix. Call it
 * once, after all tensors were added. */
bool cti_nn_state_add_sources(cti_nn_state *state, const char *prefix, const ct_module *module);
bool cti_nn_state_add_slice(cti_nn_state *state, cti_nn_slice slice);
void cti_nn_state_free(cti_nn_state *state);

/* Reads a source's values into a row-major tensor. */
bool cti_nn_state_read_source(const cti_nn_state *state, int64_t source, ct_tensor *to);

/* Reads the values that are not read yet, into new tensors of the innermost scope or directly. Then
 * cti_nn_state_write_numbers writes numbers to their addresses, and cti_nn_state_commit copies
 * tensors into the module. */
bool cti_nn_state_read(cti_nn_state *state);
void cti_nn_state_write_numbers(cti_nn_state *state);
void cti_nn_state_commit(cti_nn_state *state);

#endif
