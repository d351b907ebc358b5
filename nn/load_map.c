/* The map of a load. An entry stands for one slice of each parameter whose name it matches. */
#include "load_map.h"

#include <string.h>

#include "../src/core/int_math.h"
#include "../src/io/name_map.h"

/* ---- slices ---- */

static bool map_add_slice(cti_nn_state *state, const cti_nn_match *match, const ct_load_map *entry,
                          int64_t source, cti_text text) {
    char *name = cti_name_map_file(state->context, entry, text);
    if (!name) return false;
    const int64_t j = cti_shards_find(match->file, cti_text_of(name));
    cti_path_free(state->context, name);
    cti_nn_source *of = &state->source[source];
    if (!of->slices) of->slice = state->slices;
    of->slices++;
    return cti_nn_state_add_slice(state,
                                  (cti_nn_slice){.from = j < 0 ? NULL : match->file->tensor[j],
                                                 .entry = entry,
                                                 .param_start = entry->param_start,
                                                 .file_start = entry->file_start,
                                                 .rows = entry->rows,
                                                 .transposed = entry->transposed});
}

/* Sets used[k] for each entry that matches a tensor, under any of the tensor's names. */
static bool map_add_slices(cti_nn_state *state, const cti_nn_match *match, const cti_name_map *map,
                           bool *used) {
    cti_text text;
    for (int64_t s = 0; s < state->sources; s++) {
        const bool called = s >= state->n && cti_name_map_calls(map, state->source[s].name);
        for (int64_t k = 0; k < map->n; k++) {
            const ct_load_map *entry = &map->entry[k];
            if (!cti_name_map_matches(entry, state->source[s].name, &text)) continue;
            used[k] = true;
            if (called && strcmp(entry->param, state->source[s].name) != 0) continue;
            if (!map_add_slice(state, match, entry, s, text)) return false;
        }
    }
    return true;
}

bool cti_nn_map_apply(cti_nn_state *state, const cti_nn_match *match) {
    const cti_name_map map = {.context = state->context,
                              .op = match->file->op,
                              .path = match->file->path,
                              .entry = match->load.map,
                              .n = match->load.n_map};
    if (!cti_name_map_check(&map)) return false;
    const size_t bytes = cti_bytes(map.n, sizeof(bool));
    bool *used = cti_take_zeroed(state->context, bytes);
    bool ok = used && map_add_slices(state, match, &map, used);
    for (int64_t k = 0; ok && k < map.n; k++)
        ok = used[k] || cti_name_map_refuse(&map, k, "no parameter has such a name");
    cti_give(state->context, used, bytes);
    return ok;
}

/* ---- do they fill the parameter? ---- */

static int64_t leading_dim(ct_shape shape) { return shape.ndim ? shape.dim[0] : 1; }

/* Sets the file's shape, with its dims exchanged if the slice is transposed. Returns false if the
 * tensor cannot be transposed. */
static bool shape_of(const cti_nn_slice *slice, ct_shape *shape) {
    *shape = slice->from->shape;
    if (slice->from->ndim > CT_MAX_DIMS) return false;
    if (!slice->transposed) return true;
    if (shape->ndim != 2) return false;
    *shape = CT_SHAPE(shape->dim[1], shape->dim[0]);
    return true;
}

/* Whether the file's rows have the shape of the tensor's rows and a dtype that fits. */
static bool rows_fit(const cti_nn_slice *slice, const ct_tensor *tensor, ct_shape *shape) {
    if (!shape_of(slice, shape) || !cti_file_tensor_fits(slice->from->dtype, tensor->dtype) ||
        shape->ndim != tensor->shape.ndim)
        return false;
    for (int d = 1; d < shape->ndim; d++)
        if (shape->dim[d] != tensor->shape.dim[d]) return false;
    return true;
}

/* Whether the slice's rows are inside both tensors. Sets `rows` if the entry means all rows. */
static bool slice_fits(cti_nn_slice *slice, const ct_tensor *tensor) {
    ct_shape shape;
    if (!rows_fit(slice, tensor, &shape)) return false;
    const int64_t has = leading_dim(shape), wants = leading_dim(tensor->shape);
    if (slice->file_start > has || slice->param_start > wants) return false;
    if (!slice->rows) slice->rows = has - slice->file_start;
    return slice->rows <= has - slice->file_start && slice->rows <= wants - slice->param_start;
}

static bool slices_overlap(const cti_nn_slice *a, const cti_nn_slice *b) {
    return a->param_start < b->param_start + b->rows && b->param_start < a->param_start + a->rows;
}

/* The end of the message: the change by which the slice would fit, if there is one. */
static const char *remedy(const cti_nn_slice *slice, const ct_tensor *tensor) {
    cti_nn_slice other = *slice;
    other.transposed = !slice->transposed;
    if (!slice_fits(&other, tensor)) return "";
    return other.transposed ? ": `.transposed = true` would fit"
                            : ": it fits without `.transposed`";
}

static cti_nn_found misfit(const cti_nn_source *source, const cti_nn_slice *slice,
                           const ct_tensor *tensor, char what[CTI_NN_MAP_FAULT]) {
    snprintf(what, CTI_NN_MAP_FAULT,
             "%s is %s %s, file has %s %s%s for rows from %" PRId64 " on%s%s", source->name,
             cti_dtype_name(tensor->dtype), SHAPE(tensor->shape),
             cti_file_dtype_name(slice->from->dtype), SHAPE(slice->from->shape),
             slice->transposed ? " transposed" : "", slice->param_start, remedy(slice, tensor),
             cti_file_dtype_advice(slice->from->dtype));
    return CTI_NN_MISFIT;
}

/* Whether the file has the tensor of every slice. If not, `what` has the missing tensors. */
static cti_nn_found source_check_there(const cti_nn_state *state, const cti_nn_source *source,
                                       char what[CTI_NN_MAP_FAULT]) {
    const cti_nn_slice *slice = &state->slice[source->slice], *missing = NULL;
    int64_t there = 0;
    for (int64_t k = 0; k < source->slices; k++) {
        there += slice[k].from != NULL;
        if (!slice[k].from && !missing) missing = &slice[k];
    }
    if (!missing) return CTI_NN_GOOD;
    snprintf(what, CTI_NN_MAP_FAULT, "%s for %s", NAME(cti_text_of(missing->entry->file)),
             source->name);
    return there ? CTI_NN_PART : CTI_NN_ABSENT;
}

cti_nn_found cti_nn_map_check(cti_nn_state *state, int64_t s, char what[CTI_NN_MAP_FAULT]) {
    const cti_nn_source *source = &state->source[s];
    const ct_tensor *tensor = state->named[source->record].tensor;
    cti_nn_slice *slice = &state->slice[source->slice];
    const cti_nn_found there = source_check_there(state, source, what);
    if (there != CTI_NN_GOOD) return there;
    int64_t filled = 0;
    for (int64_t k = 0; k < source->slices; k++) {
        if (!slice_fits(&slice[k], tensor)) return misfit(source, &slice[k], tensor, what);
        for (int64_t before = 0; before < k; before++) {
            if (!slices_overlap(&slice[before], &slice[k])) continue;
            snprintf(what, CTI_NN_MAP_FAULT,
                     "%s: two entries of the map fill rows from %" PRId64 " on", source->name,
                     cti_max(slice[before].param_start, slice[k].param_start));
            return CTI_NN_MISFIT;
        }
        filled += slice[k].rows;
    }
    if (filled == leading_dim(tensor->shape)) return CTI_NN_GOOD;
    snprintf(what, CTI_NN_MAP_FAULT, "%s: the map fills %" PRId64 " of its %" PRId64 " rows",
             source->name, filled, leading_dim(tensor->shape));
    return CTI_NN_MISFIT;
}

/* ---- transposed ---- */

bool cti_nn_is_transpose(const ct_tensor *tensor, const cti_file_tensor *from) {
    return from->ndim == 2 && tensor->shape.ndim == 2 &&
           from->shape.dim[0] == tensor->shape.dim[1] && from->shape.dim[1] == tensor->shape.dim[0];
}

/* Whether the matrix is square, and another matrix with a side of this length is transposed. */
static bool has_transposed_sibling(const cti_nn_state *state, const cti_file_tensor *from) {
    if (!from || from->ndim != 2 || from->shape.dim[0] != from->shape.dim[1]) return false;
    const int64_t side = from->shape.dim[0];
    for (int64_t k = 0; side > 1 && k < state->slices; k++) {
        const cti_nn_slice *other = &state->slice[k];
        if (other->transposed && other->from && other->from->ndim == 2 &&
            (other->from->shape.dim[0] == side || other->from->shape.dim[1] == side))
            return true;
    }
    return false;
}

bool cti_nn_map_forgets(const cti_nn_state *state, int64_t i) {
    if (state->record[i].source < 0) return false;
    const cti_nn_source *source = &state->source[state->record[i].source];
    if (has_transposed_sibling(state, source->from)) return true;
    for (int64_t k = 0; k < source->slices; k++) {
        const cti_nn_slice *slice = &state->slice[source->slice + k];
        if (!slice->transposed && has_transposed_sibling(state, slice->from)) return true;
    }
    return false;
}
