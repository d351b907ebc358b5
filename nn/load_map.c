/* The map of a load. An entry stands for one piece of each parameter whose name it matches. */
#include "load_map.h"

#include <string.h>

/* ---- entries ---- */

static bool refuse(const cti_nn_match *match, int64_t k, const char *what) {
    const ct_load_map *entry = &match->load.map[k];
    return ct_fail(match->file->context, CT_ERR_ARGUMENT, "%s: %s: map entry %" PRId64 " (%s): %s",
                   match->file->op, match->file->path, k, entry->param ? entry->param : "NULL",
                   what);
}

static int stars(const char *pattern) {
    int n = 0;
    for (; *pattern; pattern++) n += *pattern == '*';
    return n;
}

static bool check_entry(const cti_nn_match *match, int64_t k) {
    const ct_load_map *entry = &match->load.map[k];
    if (!entry->param || !entry->file) return refuse(match, k, "param or file is NULL");
    if (stars(entry->param) > 1 || stars(entry->file) > 1)
        return refuse(match, k, "more than one *");
    if (stars(entry->file) > stars(entry->param))
        return refuse(match, k, "a * in file, but none in param");
    if (entry->param_start < 0 || entry->file_start < 0 || entry->rows < 0)
        return refuse(match, k, "param_start, file_start or rows is negative");
    return true;
}

/* Whether a pattern with a * matches the name; *text is then what the * stands for. */
static bool matches(const char *pattern, const char *name, cti_text *text) {
    const char *star = strchr(pattern, '*');
    const size_t before = (size_t)(star - pattern), after = strlen(star + 1), size = strlen(name);
    if (size < before + after || memcmp(pattern, name, before) ||
        memcmp(star + 1, name + size - after, after))
        return false;
    *text = (cti_text){name + before, size - before - after};
    return true;
}

/* The name in the file: the pattern with the text for its *; of strlen + 1 bytes. */
static char *name_in_file(ct_context *context, const char *pattern, cti_text text) {
    const char *star = strchr(pattern, '*');
    const size_t before = star ? (size_t)(star - pattern) : strlen(pattern);
    const size_t middle = star ? text.size : 0, after = star ? strlen(star + 1) : 0;
    char *name = cti_take(context, before + middle + after + 1);
    if (!name) return NULL;
    memcpy(name, pattern, before);
    memcpy(name + before, text.at, middle);
    if (after) memcpy(name + before + middle, star + 1, after);
    name[before + middle + after] = 0;
    return name;
}

/* ---- pieces ---- */

static bool add_piece(cti_nn_state *state, const cti_nn_match *match, const ct_load_map *entry,
                      int64_t i, cti_text text) {
    char *name = name_in_file(state->context, entry->file, text);
    if (!name) return false;
    const int64_t j = cti_shards_find(match->file, cti_text_of(name));
    cti_path_free(state->context, name);
    cti_nn_item *item = &state->item[i];
    if (!item->pieces) item->piece = state->pieces;
    item->mapped = true;
    item->pieces++;
    return cti_nn_state_add_piece(state,
                                  (cti_nn_piece){.from = j < 0 ? NULL : match->file->tensor[j],
                                                 .entry = entry,
                                                 .param_start = entry->param_start,
                                                 .file_start = entry->file_start,
                                                 .rows = entry->rows,
                                                 .transposed = entry->transposed});
}

/* Checks the entries. Sets only[k] to the item that entry k names, by any of its names; PATTERN: it
 * has a *, and matches at least one. */
enum { PATTERN = -1 };
static bool check_entries(const cti_nn_state *state, const cti_nn_match *match, int64_t *only) {
    cti_text text;
    for (int64_t k = 0; k < match->load.n_map; k++) {
        if (!check_entry(match, k)) return false;
        const char *param = match->load.map[k].param;
        int64_t i = 0;
        if (stars(param)) {
            while (i < state->n && !matches(param, state->named[i].name, &text)) i++;
            only[k] = PATTERN;
        } else {
            only[k] = i = cti_nn_item_named(state, match->module, param);
        }
        if (i < 0 || i == state->n) return refuse(match, k, "no parameter has such a name");
    }
    return true;
}

static bool add_pieces(cti_nn_state *state, const cti_nn_match *match, const int64_t *only) {
    for (int64_t i = 0; i < state->n; i++)
        for (int64_t k = 0; k < match->load.n_map; k++) {
            const ct_load_map *entry = &match->load.map[k];
            cti_text text = {"", 0};
            if (only[k] != i &&
                (only[k] != PATTERN || !matches(entry->param, state->named[i].name, &text)))
                continue;
            if (!add_piece(state, match, entry, i, text)) return false;
        }
    return true;
}

bool cti_nn_map_apply(cti_nn_state *state, const cti_nn_match *match) {
    const size_t bytes = cti_bytes(match->load.n_map, sizeof(int64_t));
    int64_t *only = cti_take(state->context, bytes);
    const bool ok = only && check_entries(state, match, only) && add_pieces(state, match, only);
    cti_give(state->context, only, bytes);
    return ok;
}

void cti_nn_map_mark(const cti_nn_match *match, const cti_nn_state *state, int64_t *taker,
                     int64_t mark) {
    for (int64_t k = 0; k < state->pieces; k++) {
        const cti_file_tensor *from = state->piece[k].from;
        const int64_t j = from ? cti_shards_find(match->file, from->name) : -1;
        if (j >= 0 && taker[j] < 0) taker[j] = mark;
    }
}

/* ---- do they fill the parameter? ---- */

static int64_t rows_of(ct_shape shape) { return shape.ndim ? shape.dim[0] : 1; }

/* The file's shape, the other way round if transposed. False: it cannot be. */
static bool shape_of(const cti_nn_piece *piece, ct_shape *shape) {
    *shape = piece->from->shape;
    if (piece->from->ndim > CT_MAX_DIMS) return false;
    if (!piece->transposed) return true;
    if (shape->ndim != 2) return false;
    *shape = CT_SHAPE(shape->dim[1], shape->dim[0]);
    return true;
}

/* Whether the piece's rows are inside both tensors. Sets rows where the entry means all. */
static bool piece_fits(cti_nn_piece *piece, const ct_tensor *tensor) {
    ct_shape shape;
    if (!shape_of(piece, &shape) || !cti_safetensors_fits(piece->from->dtype, tensor->dtype) ||
        shape.ndim != tensor->shape.ndim)
        return false;
    for (int d = 1; d < shape.ndim; d++)
        if (shape.dim[d] != tensor->shape.dim[d]) return false;
    const int64_t has = rows_of(shape), wants = rows_of(tensor->shape);
    if (piece->file_start > has || piece->param_start > wants) return false;
    if (!piece->rows) piece->rows = has - piece->file_start;
    return piece->rows <= has - piece->file_start && piece->rows <= wants - piece->param_start;
}

static bool overlap(const cti_nn_piece *a, const cti_nn_piece *b) {
    return a->param_start < b->param_start + b->rows && b->param_start < a->param_start + a->rows;
}

cti_nn_map_state cti_nn_map_check(cti_nn_state *state, int64_t i, char what[CTI_NN_MAP_FAULT]) {
    const cti_nn_item *item = &state->item[i];
    const ct_tensor *tensor = state->named[i].tensor;
    const char *name = state->named[i].name;
    cti_nn_piece *piece = &state->piece[item->piece];
    for (int64_t k = 0; k < item->pieces; k++)
        if (!piece[k].from) {
            snprintf(what, CTI_NN_MAP_FAULT, "%s for %s", NAME(cti_text_of(piece[k].entry->file)),
                     name);
            return CTI_NN_MAP_MISSING;
        }
    int64_t filled = 0;
    for (int64_t k = 0; k < item->pieces; k++) {
        const cti_file_tensor *from = piece[k].from;
        if (!piece_fits(&piece[k], tensor)) {
            snprintf(what, CTI_NN_MAP_FAULT,
                     "%s is %s %s, file has %s %s%s for rows from %" PRId64 " on", name,
                     cti_dtype_name(tensor->dtype), SHAPE(tensor->shape),
                     cti_file_dtype_name(from->dtype), SHAPE(from->shape),
                     piece[k].transposed ? " transposed" : "", piece[k].param_start);
            return CTI_NN_MAP_MISFIT;
        }
        for (int64_t before = 0; before < k; before++)
            if (overlap(&piece[before], &piece[k])) {
                snprintf(what, CTI_NN_MAP_FAULT,
                         "%s: two entries of the map fill rows from %" PRId64 " on", name,
                         piece[before].param_start > piece[k].param_start
                             ? piece[before].param_start
                             : piece[k].param_start);
                return CTI_NN_MAP_MISFIT;
            }
        filled += piece[k].rows;
    }
    if (filled == rows_of(tensor->shape)) return CTI_NN_MAP_GOOD;
    snprintf(what, CTI_NN_MAP_FAULT, "%s: the map fills %" PRId64 " of its %" PRId64 " rows", name,
             filled, rows_of(tensor->shape));
    return CTI_NN_MAP_MISFIT;
}
