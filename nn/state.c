/* Named tensors: collected from a module, matched with a file's, read into temporaries, and copied
 * into the module only after everything was read. */
#include "state.h"

#include <string.h>

#include "../src/core/message.h"

/* ---- collecting ---- */

static bool make_room(cti_nn_state *state) {
    if (state->n < state->room) return true;
    int64_t room = state->room ? 2 * state->room : 64;
    cti_named *item = cti_take(state->context, cti_bytes(room, sizeof *item));
    if (!item) return false;
    if (state->n) memcpy(item, state->item, (size_t)state->n * sizeof *item);
    cti_give(state->context, state->item, (size_t)state->room * sizeof *item);
    state->item = item;
    state->room = room;
    return true;
}

bool cti_nn_state_add(cti_nn_state *state, const char *prefix, const char *name,
                      ct_tensor *tensor) {
    if (!make_room(state)) return false;
    size_t before = strlen(prefix), length = strlen(name);
    char *full = cti_take(state->context, before + length + 1);
    if (!full) return false;
    memcpy(full, prefix, before);
    memcpy(full + before, name, length + 1);
    state->item[state->n++] = (cti_named){.name = full, .tensor = tensor};
    return true;
}

bool cti_nn_state_add_number(cti_nn_state *state, const char *prefix, const char *name,
                             ct_dtype dtype, void *value) {
    ct_tensor *number = cti_number_new(state->context, dtype, value);
    if (!number || !cti_nn_state_add(state, prefix, name, number)) return false;
    state->item[state->n - 1].value = value;
    return true;
}

bool cti_nn_state_add_module(cti_nn_state *state, const char *prefix, const ct_module *module) {
    for (ct_param param = {0}; ct_module_next(module, &param);)
        if (!cti_nn_state_add(state, prefix, param.name, param.tensor)) return false;
    return true;
}

void cti_nn_state_free(cti_nn_state *state) {
    for (int64_t i = 0; i < state->n; i++)
        cti_give(state->context, state->item[i].name, strlen(state->item[i].name) + 1);
    cti_give(state->context, state->item, (size_t)state->room * sizeof *state->item);
    *state = (cti_nn_state){.context = state->context};
}

/* ---- one message with every mismatch ---- */

enum { PATH_SHOWN = 200, MORE_SHOWN = 40 };

typedef struct {
    cti_writer out;
    char text[CTI_MESSAGE_SIZE];
    const char *heading; /* of the last mismatch: "missing: ", "unexpected: " or "" */
    int64_t omitted;     /* mismatches that did not fit the message */
} report;

/* Reserves room for op, for at least PATH_SHOWN bytes of the path, and for "; and N more". */
static void report_begin(report *r, const cti_file *file) {
    const size_t path = strlen(file->path), shown = path < PATH_SHOWN ? path : PATH_SHOWN;
    const size_t around = strlen(file->op) + strlen(": : ") + shown + MORE_SHOWN;
    r->out = (cti_writer){r->text, sizeof r->text - around, 0};
    r->heading = NULL;
    r->omitted = 0;
}

/* Appends one mismatch. One that does not fit is counted instead; the very first is shortened. */
static void add_mismatch(report *r, const char *heading, const char *what) {
    const bool first = !r->heading, same = !first && !strcmp(r->heading, heading);
    const size_t used = r->out.used;
    if (!first) cti_write(&r->out, same && *heading ? ", " : "; ");
    if (!same) cti_write(&r->out, heading);
    const size_t before = r->out.used;
    cti_write(&r->out, what);
    r->heading = heading;
    if (r->out.used <= r->out.size && !r->omitted) return;
    if (first) {
        r->out.used =
            before + cti_shorten(r->text + before, r->out.size - before, what, strlen(what));
    } else {
        r->omitted++;
        r->out.used = used;
    }
}

static bool fits(const ct_tensor *tensor, const cti_file_tensor *from) {
    return from->ndim <= CT_MAX_DIMS && cti_shape_equal(tensor->shape, from->shape) &&
           cti_safetensors_fits(from->dtype, tensor->dtype);
}

static void add_misfit(report *r, const ct_tensor *tensor, const cti_file_tensor *from) {
    char what[CTI_NAME_TEXT + 2 * CTI_SHAPE_TEXT + 40];
    const char *name = NAME(from->name);
    if (from->ndim > CT_MAX_DIMS) {
        snprintf(what, sizeof what, "%s has shape %s, file has %" PRId64 " dims", name,
                 SHAPE(tensor->shape), from->ndim);
    } else if (!cti_shape_equal(tensor->shape, from->shape)) {
        snprintf(what, sizeof what, "%s has shape %s, file has %s", name, SHAPE(tensor->shape),
                 SHAPE(from->shape));
    } else {
        snprintf(what, sizeof what, "%s is %s, file has %s", name, cti_dtype_name(tensor->dtype),
                 cti_file_dtype_name(from->dtype));
    }
    add_mismatch(r, "", what);
}

/* Records the error; false if there was no mismatch. */
static bool report_end(const report *r, const cti_file *file) {
    if (!r->heading) return false;
    char more[MORE_SHOWN] = "", path[CTI_MESSAGE_SIZE];
    if (r->omitted) snprintf(more, sizeof more, "; and %" PRId64 " more", r->omitted);
    const size_t taken = strlen(file->op) + strlen(": : ") + r->out.used + strlen(more);
    cti_shorten(path, CTI_MESSAGE_SIZE - 1 - taken, file->path, strlen(file->path));
    ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: %.*s%s", file->op, path, (int)r->out.used,
            r->text, more);
    return true;
}

/* ---- matching ---- */

/* The item of the parameter that has this name in the module, be it its first name or another;
 * NULL if there is none. */
static cti_named *item_named(const cti_nn_state *state, const ct_module *module, const char *prefix,
                             cti_text name) {
    size_t before = strlen(prefix);
    if (name.size < before || memcmp(name.at, prefix, before) || strlen(name.at) != name.size)
        return NULL;
    const ct_tensor *tensor = cti_nn_find(module, name.at + before);
    if (!tensor) return NULL;
    int64_t i = 0;
    while (state->item[i].tensor != tensor) i++; /* every parameter of the module has an item */
    return &state->item[i];
}

bool cti_nn_state_match(cti_nn_state *state, const cti_safetensors *file, const ct_module *module,
                        const char *prefix, bool partial) {
    ct_context *context = state->context;
    size_t bytes = cti_bytes(file->tensors, sizeof(cti_named *));
    /* for each tensor of the file the item that reads it; NULL: no item does */
    cti_named **taker = cti_take_zeroed(context, bytes);
    if (!taker) return false;

    for (int64_t i = 0; i < state->n; i++) {
        cti_named *item = &state->item[i];
        item->from = cti_safetensors_find(file, cti_text_of(item->name));
        if (item->from) taker[item->from - file->tensor] = item;
    }
    for (int64_t j = 0; j < file->tensors; j++) {
        const cti_file_tensor *from = &file->tensor[j];
        if (!taker[j]) taker[j] = item_named(state, module, prefix, from->name);
        if (!taker[j]) continue;
        if (!taker[j]->from || (partial && !fits(taker[j]->tensor, taker[j]->from)))
            taker[j]->from = from;
    }

    report r;
    report_begin(&r, &file->file);
    if (!partial) {
        for (int64_t i = 0; i < state->n; i++)
            if (!state->item[i].from) add_mismatch(&r, "missing: ", state->item[i].name);
        for (int64_t j = 0; j < file->tensors; j++)
            if (!taker[j]) add_mismatch(&r, "unexpected: ", NAME(file->tensor[j].name));
        for (int64_t j = 0; j < file->tensors; j++)
            if (taker[j] && !fits(taker[j]->tensor, &file->tensor[j]))
                add_misfit(&r, taker[j]->tensor, &file->tensor[j]);
    } else {
        for (int64_t i = 0; i < state->n; i++)
            if (state->item[i].from && !fits(state->item[i].tensor, state->item[i].from))
                state->item[i].from = NULL;
    }
    cti_give(context, taker, bytes);
    return !report_end(&r, &file->file);
}

bool cti_nn_state_read(cti_nn_state *state, const cti_safetensors *file) {
    for (int64_t i = 0; i < state->n; i++) {
        cti_named *item = &state->item[i];
        if (!item->from) continue;
        item->read = cti_tensor_new(state->context, item->tensor->dtype, item->tensor->shape);
        if (!item->read || !cti_safetensors_read(file, item->from, item->read)) return false;
    }
    return true;
}

void cti_nn_state_commit(cti_nn_state *state) {
    for (int64_t i = 0; i < state->n; i++) {
        cti_named *item = &state->item[i];
        if (!item->read) continue;
        if (item->value) {
            cti_number_get(item->read, item->value);
        } else {
            cti_tensor_copy(item->tensor, item->read, false);
            cti_tensor_wrote(item->tensor);
        }
    }
}
