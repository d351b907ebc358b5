/* Named tensors: collected from a module, read into temporaries, and copied into the module only
 * after everything was read. */
#include "state.h"

#include <string.h>

#include "../src/core/block_matrix.h"
#include "../src/core/int_math.h"

/* ---- collecting ---- */

/* Returns a larger block for `more` items, with a copy of the first n, and frees the old one. */
static void *grown(ct_context *context, void *records, int64_t n, int64_t room, int64_t more,
                   size_t size) {
    void *block = cti_take(context, cti_bytes(more, size));
    if (!block) return NULL;
    if (n) memcpy(block, records, (size_t)n * size);
    cti_give(context, records, (size_t)room * size);
    return block;
}

static bool state_grow(cti_nn_state *state) {
    if (state->n < state->room) return true;
    const int64_t more = state->room ? 2 * state->room : 64;
    ct_named *named = cti_take(state->context, cti_bytes(more, sizeof *named));
    if (!named) return false;
    cti_nn_record *record =
        grown(state->context, state->record, state->n, state->room, more, sizeof *record);
    if (!record) {
        cti_give(state->context, named, (size_t)more * sizeof *named);
        return false;
    }
    if (state->n) memcpy(named, state->named, (size_t)state->n * sizeof *named);
    cti_give(state->context, state->named, (size_t)state->room * sizeof *named);
    state->named = named;
    state->record = record;
    state->room = more;
    return true;
}

char *cti_nn_prefixed(ct_context *context, const char *prefix, const char *name) {
    const size_t before = strlen(prefix), length = strlen(name);
    char *full = cti_take(context, before + length + 1);
    if (!full) return NULL;
    memcpy(full, prefix, before);
    memcpy(full + before, name, length + 1);
    return full;
}

bool cti_nn_state_add(cti_nn_state *state, const char *prefix, const char *name,
                      ct_tensor *tensor) {
    if (!state_grow(state)) return false;
    char *full = cti_nn_prefixed(state->context, prefix, name);
    if (!full) return false;
    state->named[state->n] = (ct_named){.name = full, .tensor = tensor};
    state->record[state->n++] = (cti_nn_record){0};
    return true;
}

bool cti_nn_state_add_number(cti_nn_state *state, const char *prefix, const char *name,
                             ct_dtype dtype, void *value) {
    ct_tensor *number = cti_number_new(state->context, dtype, value);
    if (!number || !cti_nn_state_add(state, prefix, name, number)) return false;
    state->record[state->n - 1].value = value;
    return true;
}

bool cti_nn_state_add_flag(cti_nn_state *state, const char *prefix, const char *name,
                           double *value) {
    const bool flag = *value != 0;
    ct_tensor *number = cti_number_new(state->context, CT_BOOL, &flag);
    if (!number || !cti_nn_state_add(state, prefix, name, number)) return false;
    state->record[state->n - 1].value = value;
    state->record[state->n - 1].flag = true;
    return true;
}

static bool state_wants(const cti_nn_state *state, const ct_param *param) {
    return !state->is_apart || !state->is_apart(state->apart_arg, param->name);
}

bool cti_nn_state_add_module(cti_nn_state *state, const char *prefix, const ct_module *module,
                             bool trained) {
    for (ct_param param = {0}; ct_module_next(module, &param);)
        if ((!trained || ct_requires_grad(param.tensor)) && state_wants(state, &param) &&
            !cti_nn_state_add(state, prefix, param.name, param.tensor))
            return false;
    for (ct_param buffer = {0}; ct_module_next_buffer(module, &buffer);)
        if (cti_nn_is_persistent(&buffer) && state_wants(state, &buffer) &&
            !cti_nn_state_add(state, prefix, buffer.name, buffer.tensor))
            return false;
    return true;
}

/* ---- the names under which a file may have them ---- */

static bool source_add(cti_nn_state *state, cti_nn_source source) {
    if (state->sources == state->source_room) {
        const int64_t more = cti_max(2 * state->source_room, state->n);
        cti_nn_source *block = grown(state->context, state->source, state->sources,
                                     state->source_room, more, sizeof *block);
        if (!block) return false;
        state->source = block;
        state->source_room = more;
    }
    state->source[state->sources++] = source;
    return true;
}

/* Adds a further name of a shared tensor, after its other names. */
static bool other_name_add(cti_nn_state *state, const char *prefix, const ct_param *param,
                           int64_t records) {
    int64_t i = 0;
    while (i < records && state->named[i].tensor != param->tensor) i++;
    if (i == records) return true; /* a buffer or a frozen parameter that is not saved */
    char *name = cti_nn_prefixed(state->context, prefix, param->name);
    if (!name) return false;
    if (!source_add(state, (cti_nn_source){.name = name, .record = i, .next = -1})) {
        cti_path_free(state->context, name);
        return false;
    }
    int64_t last = i;
    while (state->source[last].next >= 0) last = state->source[last].next;
    state->source[last].next = state->sources - 1;
    return true;
}

/* Adds the further names of shared tensors. Records are in the order of the iteration, so a name is
 * either the next record's own or a further name of an earlier record. */
static bool names_add(cti_nn_state *state, const char *prefix, const ct_module *module,
                      bool (*next)(const ct_module *, ct_param *), int64_t *records) {
    const size_t before = strlen(prefix);
    for (ct_param param = {0}; next(module, &param);) {
        if (*records < state->n && !strcmp(state->named[*records].name + before, param.name))
            ++*records;
        else if (!other_name_add(state, prefix, &param, *records)) return false;
    }
    return true;
}

bool cti_nn_state_add_sources(cti_nn_state *state, const char *prefix, const ct_module *module) {
    for (int64_t i = 0; i < state->n; i++) {
        const cti_nn_source own = {.name = state->named[i].name, .record = i, .next = -1};
        if (!source_add(state, own)) return false;
        state->record[i].source = -1;
    }
    int64_t records = 0;
    return names_add(state, prefix, module, cti_nn_next_name, &records) &&
           names_add(state, prefix, module, cti_nn_next_buffer_name, &records);
}

bool cti_nn_state_add_slice(cti_nn_state *state, cti_nn_slice slice) {
    if (state->slices == state->slice_room) {
        const int64_t more = state->slice_room ? 2 * state->slice_room : 64;
        cti_nn_slice *block = grown(state->context, state->slice, state->slices, state->slice_room,
                                    more, sizeof *block);
        if (!block) return false;
        state->slice = block;
        state->slice_room = more;
    }
    state->slice[state->slices++] = slice;
    return true;
}

/* ---- the end ---- */

void cti_nn_state_free(cti_nn_state *state) {
    ct_context *context = state->context;
    for (int64_t i = 0; i < state->n; i++)
        cti_give(context, (char *)state->named[i].name, strlen(state->named[i].name) + 1);
    for (int64_t k = state->n; k < state->sources; k++)
        cti_path_free(context, (char *)state->source[k].name);
    cti_give(context, state->named, (size_t)state->room * sizeof *state->named);
    cti_give(context, state->record, (size_t)state->room * sizeof *state->record);
    cti_give(context, state->source, (size_t)state->source_room * sizeof *state->source);
    cti_give(context, state->slice, (size_t)state->slice_room * sizeof *state->slice);
    *state = (cti_nn_state){.context = context};
}

/* ---- reading ---- */

/* Reads rows that the file has as columns: reads the whole tensor, and copies from a transposed
 * view. */
static bool transposed_read(const cti_nn_slice *slice, ct_tensor *to) {
    ct_context *context = to->context;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    const bool blocks = cti_is_blocks(to->dtype);
    ct_tensor *all = cti_tensor_new(context, blocks ? CT_F32 : to->dtype, slice->from->shape);
    const bool ok = all && cti_file_tensor_read(slice->from, 0, slice->from->numel, all, 0);
    ct_tensor *rows =
        ok ? ct_narrow(ct_transpose(all, 0, 1), 0, slice->file_start, slice->rows) : NULL;
    ct_tensor *place =
        rows ? blocks ? cti_tensor_dense(rows) : ct_narrow(to, 0, slice->param_start, slice->rows)
             : NULL;
    if (place && blocks) cti_block_matrix_set_floats(to, slice->param_start, place);
    else if (place) cti_tensor_copy(place, rows, false);
    cti_frame_close(context, &frame);
    return place;
}

static bool source_slice_read(const cti_nn_slice *slice, ct_tensor *to) {
    if (slice->rows == 0 || to->numel == 0) return true;
    if (slice->transposed) return transposed_read(slice, to);
    const int64_t row = to->numel / (to->shape.ndim ? to->shape.dim[0] : 1);
    return cti_file_tensor_read(slice->from, slice->file_start * row, slice->rows * row, to,
                                slice->param_start * row);
}

bool cti_nn_state_read_source(const cti_nn_state *state, int64_t source, ct_tensor *to) {
    const cti_nn_source *at = &state->source[source];
    if (at->from) return cti_file_tensor_read(at->from, 0, at->from->numel, to, 0);
    for (int64_t k = 0; k < at->slices; k++)
        if (!source_slice_read(&state->slice[at->slice + k], to)) return false;
    return true;
}

bool cti_nn_state_read(cti_nn_state *state) {
    for (int64_t i = 0; i < state->n; i++) {
        cti_nn_record *record = &state->record[i];
        if (record->source < 0 || record->read) continue;
        ct_tensor *tensor = state->named[i].tensor;
        if (record->direct) cti_tensor_wrote(tensor);
        record->read =
            record->direct ? tensor : cti_tensor_new(state->context, tensor->dtype, tensor->shape);
        if (!record->read || !cti_nn_state_read_source(state, record->source, record->read))
            return false;
    }
    return true;
}

void cti_nn_state_write_numbers(cti_nn_state *state) {
    for (int64_t i = 0; i < state->n; i++) {
        const cti_nn_record *record = &state->record[i];
        bool flag = false;
        if (!record->read || !record->value) continue;
        cti_number_get(record->read, record->flag ? &flag : record->value);
        if (record->flag) *(double *)record->value = flag;
    }
}

void cti_nn_state_commit(cti_nn_state *state) {
    for (int64_t i = 0; i < state->n; i++) {
        const cti_nn_record *record = &state->record[i];
        ct_tensor *tensor = state->named[i].tensor;
        if (!record->read || record->value || record->read == tensor) continue;
        cti_tensor_copy(tensor, record->read, false);
        cti_tensor_wrote(tensor);
    }
}
