/* Saves a module's parameters and buffers to safetensors files, and loads them. */
#include <cotangent/io.h>

#include <string.h>

#include "../src/io/save_map.h"
#include "load.h"
#include "match.h"

/* Saves a module. Only a map needs the further names of shared tensors. */
static bool module_save(cti_nn_state *state, const ct_module *module, const char *path,
                        ct_save_opts opts) {
    ct_context *context = state->context;
    if (!cti_nn_state_add_module(state, "", module, false)) return false;
    if (opts.n_map && !cti_nn_state_add_sources(state, "", module)) return false;
    const int64_t others = opts.n_map ? state->sources - state->n : 0;
    const size_t bytes = cti_bytes(others, sizeof(cti_other_name));
    cti_other_name *other = cti_take(context, bytes);
    if (!other) return false;
    for (int64_t k = 0; k < others; k++) {
        const cti_nn_source *source = &state->source[state->n + k];
        other[k] = (cti_other_name){source->name, source->record};
    }
    const bool ok =
        cti_save_mapped(context, "save", path, state->named, state->n, other, others, opts);
    cti_give(context, other, bytes);
    return ok;
}

bool ct_save(ct_module *module, const char *path, ct_save_opts opts) {
    return cti_nn_save(module, path, opts, NULL, NULL);
}

bool cti_nn_save(ct_module *module, const char *path, ct_save_opts opts, cti_nn_apart *is_apart,
                 const void *arg) {
    if (!module || !cti_object_is_open(&module->object, "ct_save")) return false;
    ct_context *context = module->context;
    if (!path) return ct_fail(context, CT_ERR_ARGUMENT, "save: path is NULL");
    cti_nn_state state = {.context = context, .is_apart = is_apart, .apart_arg = arg};
    const bool ok = module_save(&state, module, path, opts);
    cti_nn_state_free(&state);
    return ok;
}

/* Marks the records of parameters for which the file is not asked. */
static void state_keep(cti_nn_state *state, const char *const *kept, int64_t n) {
    for (int64_t i = 0; i < state->n; i++)
        for (int64_t k = 0; k < n && !state->record[i].kept; k++)
            state->record[i].kept = !strcmp(state->named[i].name, kept[k]);
}

bool cti_nn_load(ct_module *module, const cti_shards *file, ct_load_opts opts,
                 const char *const *kept, int64_t n_kept) {
    cti_nn_state state = {.context = module->context};
    const cti_nn_match match = {.file = file, .module = module, .prefix = "", .load = opts};
    cti_frame frame;
    cti_frame_open(module->context, &frame, true);
    bool ok = cti_nn_state_add_module(&state, "", module, false);
    state_keep(&state, kept, n_kept);
    ok = ok && cti_nn_state_match(&state, &match);
    for (int64_t i = 0; i < state.n; i++) state.record[i].direct = opts.in_place;
    ok = ok && cti_nn_state_read(&state);
    if (ok) cti_nn_state_commit(&state);
    cti_frame_close(module->context, &frame);
    cti_nn_state_free(&state);
    return ok;
}

bool ct_load(ct_module *module, const char *path, ct_load_opts opts) {
    if (opts.report) *opts.report = (ct_load_report){0};
    if (!cti_nn_ready(module, "ct_load", NULL)) return false;
    ct_context *context = module->context;
    if (!path) return ct_fail(context, CT_ERR_ARGUMENT, "load: path is NULL");
    cti_shards file;
    if (!cti_shards_open_safetensors(context, "load", path, &file)) return false;
    const bool ok = cti_nn_load(module, &file, opts, NULL, 0);
    if (!ok && opts.report) { /* nothing was loaded */
        opts.report->loaded = 0;
        memset(opts.report->loaded_names, 0, sizeof opts.report->loaded_names);
    }
    cti_shards_close(&file);
    return ok;
}

bool ct_load_metadata(ct_context *context, const char *path, const char *key, char *out,
                      size_t size) {
    if (!context) return false;
    if (!path || !key || !out)
        return ct_fail(context, CT_ERR_ARGUMENT, "load_metadata: path, key or out is NULL");
    cti_shards file;
    if (!cti_shards_open_safetensors(context, "load_metadata", path, &file)) return false;
    const cti_text *value = cti_shards_metadata(&file, cti_text_of(key));
    bool ok = value && value->size < size;
    if (!value) {
        ct_fail(context, CT_ERR_ARGUMENT, "load_metadata: %s: no metadata key \"%s\"", path,
                NAME(cti_text_of(key)));
    } else if (!ok) {
        ct_fail(context, CT_ERR_ARGUMENT,
                "load_metadata: %s: \"%s\" takes %zu bytes with its NUL, out has %zu", path,
                NAME(cti_text_of(key)), value->size + 1, size);
    } else {
        memcpy(out, value->at, value->size + 1);
    }
    cti_shards_close(&file);
    return ok;
}
