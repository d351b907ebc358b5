/* The map of a load. An entry stands for one range of each parameter whose name it matches. */
#include "load_map.h"

#include <string.h>

#include "../src/core/int_math.h"
#include "../src/io/name_map.h"

/* ---- ranges ---- */

static bool map_add_range(cti_nn_state *state, const cti_nn_match *match, const ct_load_map *entry,
                          int64_t source, cti_text text) {
    char *name = cti_name_map_file(state->context, entry, text);
    if (!name) return false;
    const int64_t j = cti_shards_find(match->file, cti_text_of(name));
    cti_path_free(state->context, name);
    cti_nn_source *of = &state->source[source];
    if (!of->ranges) of->range = state->ranges;
    of->ranges++;
    return cti_nn_state_add_range(state,
                                  (cti_nn_range){.from = j < 0 ? NULL : match->file->tensor[j],
                                                 .entry = entry,
                                                 .param_start = entry->param_start,
                                                 .file_start = entry->file_start,
                                                 .rows = entry->rows,
                                                 .transposed = entry->transposed});
}

/* Sets used[k] for each entry that matches a tensor, under any of the tensor's names. */
static bool map_add_ranges(cti_nn_state *state, const cti_nn_match *match, const cti_name_map *map,
                           bool *used) {
    cti_text text;
    for (int64_t s = 0; s < state->sources; s++) {
        const bool called = s >= state->n && cti_name_map_calls(map, state->source[s].name);
        for (int64_t k = 0; k < map->n; k++) {
            const ct_load_map *entry = &map->entry[k];
            if (!cti_name_map_matches(entry, state->source[s].name, &text)) continue;
            used[k] = true;
            if (called && strcmp(entry->param, state->source[s].name) != 0) continue;
            if (!map_add_range(state, match, entry, s, text)) return false;
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
    bool ok = used && map_add_ranges(state, match, &map, used);
    for (int64_t k = 0; ok && k < map.n; k++)
        ok = used[k] || cti_name_map_refuse(&map, k, "no parameter has such a name");
    cti_give(state->context, used, bytes);
    return ok;
}

/* ---- do they fill the parameter? ---- */

static int64_t leading_dim(ct_shape shape) { return shape.ndim ? shape.dim[0] : 1; }

/* Sets the file's shape, with its dims exchanged if the range is transposed. Returns false if the
 * tensor cannot be transposed. */
static bool shape_of(const cti_nn_range *range, ct_shape *shape) {
    *shape = range->from->shape;
    if (range->from->ndim > CT_MAX_DIMS) return false;
    if (!range->transposed) return true;
    if (shape->ndim != 2) return false;
    *shape = CT_SHAPE(shape->dim[1], shape->dim[0]);
    return true;
}

/* Whether the file's rows have the shape of the tensor's rows and a dtype that fits. */
static bool rows_fit(const cti_nn_range *range, const ct_tensor *tensor, ct_shape *shape) {
    if (!shape_of(range, shape) || !cti_safetensors_fits(range->from->dtype, tensor->dtype) ||
        shape->ndim != tensor->shape.ndim)
        return false;
    for (int d = 1; d < shape->ndim; d++)
        if (shape->dim[d] != tensor->shape.dim[d]) return false;
    return true;
}

/* Whether the range's rows are inside both tensors. Sets `rows` if the entry means all rows. */
static bool range_fits(cti_nn_range *range, const ct_tensor *tensor) {
    ct_shape shape;
    if (!rows_fit(range, tensor, &shape)) return false;
    const int64_t has = leading_dim(shape), wants = leading_dim(tensor->shape);
    if (range->file_start > has || range->param_start > wants) return false;
    if (!range->rows) range->rows = has - range->file_start;
    return range->rows <= has - range->file_start && range->rows <= wants - range->param_start;
}

static bool ranges_overlap(const cti_nn_range *a, const cti_nn_range *b) {
    return a->param_start < b->param_start + b->rows && b->param_start < a->param_start + a->rows;
}

/* The end of the message: the change by which the range would fit, if there is one. */
static const char *remedy(const cti_nn_range *range, const ct_tensor *tensor) {
    cti_nn_range other = *range;
    other.transposed = !range->transposed;
    if (!range_fits(&other, tensor)) return "";
    return other.transposed ? ": `.transposed = true` would fit"
                            : ": it fits without `.transposed`";
}

static cti_nn_found misfit(const cti_nn_source *source, const cti_nn_range *range,
                           const ct_tensor *tensor, char what[CTI_NN_MAP_FAULT]) {
    snprintf(what, CTI_NN_MAP_FAULT, "%s is %s %s, file has %s %s%s for rows from %" PRId64 " on%s",
             source->name, cti_dtype_name(tensor->dtype), SHAPE(tensor->shape),
             cti_file_dtype_name(range->from->dtype), SHAPE(range->from->shape),
             range->transposed ? " transposed" : "", range->param_start, remedy(range, tensor));
    return CTI_NN_MISFIT;
}

/* Whether the file has the tensor of every range. If not, `what` has the missing tensors. */
static cti_nn_found source_check_there(const cti_nn_state *state, const cti_nn_source *source,
                                       char what[CTI_NN_MAP_FAULT]) {
    const cti_nn_range *range = &state->range[source->range], *missing = NULL;
    int64_t there = 0;
    for (int64_t k = 0; k < source->ranges; k++) {
        there += range[k].from != NULL;
        if (!range[k].from && !missing) missing = &range[k];
    }
    if (!missing) return CTI_NN_GOOD;
    snprintf(what, CTI_NN_MAP_FAULT, "%s for %s", NAME(cti_text_of(missing->entry->file)),
             source->name);
    return there ? CTI_NN_PART : CTI_NN_ABSENT;
}

cti_nn_found cti_nn_map_check(cti_nn_state *state, int64_t s, char what[CTI_NN_MAP_FAULT]) {
    const cti_nn_source *source = &state->source[s];
    const ct_tensor *tensor = state->named[source->record].tensor;
    cti_nn_range *range = &state->range[source->range];
    const cti_nn_found there = source_check_there(state, source, what);
    if (there != CTI_NN_GOOD) return there;
    int64_t filled = 0;
    for (int64_t k = 0; k < source->ranges; k++) {
        if (!range_fits(&range[k], tensor)) return misfit(source, &range[k], tensor, what);
        for (int64_t before = 0; before < k; before++) {
            if (!ranges_overlap(&range[before], &range[k])) continue;
            snprintf(what, CTI_NN_MAP_FAULT,
                     "%s: two entries of the map fill rows from %" PRId64 " on", source->name,
                     cti_max(range[before].param_start, range[k].param_start));
            return CTI_NN_MISFIT;
        }
        filled += range[k].rows;
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
    for (int64_t k = 0; side > 1 && k < state->ranges; k++) {
        const cti_nn_range *other = &state->range[k];
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
    for (int64_t k = 0; k < source->ranges; k++) {
        const cti_nn_range *range = &state->range[source->range + k];
        if (!range->transposed && has_transposed_sibling(state, range->from)) return true;
    }
    return false;
}
