/* A module's parameters to a safetensors file, and from one. */
#include <cotangent/io.h>

#include <string.h>

#include "state.h"

bool ct_save(ct_module *module, const char *path, const char *const *metadata) {
    if (!module) return false;
    ct_context *context = module->context;
    if (!path) return ct_fail(context, CT_ERR_ARGUMENT, "save: path is NULL");
    nn_state state = {.context = context};
    bool ok = nn_state_add_module(&state, "", module) && ct_safetensors_write(context, "save", path, metadata, state.item, state.n);
    nn_state_free(&state);
    return ok;
}

bool ct_load(ct_module *module, const char *path, ct_load_opts opts) {
    if (!module || !ct_ready(module->context)) return false;
    ct_context *context = module->context;
    if (!path) return ct_fail(context, CT_ERR_ARGUMENT, "load: path is NULL");
    ct_safetensors file;
    if (!ct_safetensors_open(context, "load", path, &file)) return false;
    nn_state state = {.context = context};
    ct_frame frame;
    ct_frame_open(context, &frame, true);
    bool ok = nn_state_add_module(&state, "", module) && nn_state_match(&state, &file, module, "", opts.partial) &&
              nn_state_read(&state, &file);
    if (ok) nn_state_commit(&state);
    ct_frame_close(context, &frame);
    nn_state_free(&state);
    ct_safetensors_close(&file);
    return ok;
}

bool ct_load_metadata(ct_context *context, const char *path, const char *key, char *out, size_t size) {
    if (!context) return false;
    if (!path || !key || !out) return ct_fail(context, CT_ERR_ARGUMENT, "load_metadata: path, key or out is NULL");
    ct_safetensors file;
    if (!ct_safetensors_open(context, "load_metadata", path, &file)) return false;
    const ct_text *value = ct_safetensors_metadata(&file, ct_text_of(key));
    bool ok = value && value->size < size;
    if (!value) {
        ct_fail(context, CT_ERR_ARGUMENT, "load_metadata: %s: no metadata key \"%s\"", path, NAME(ct_text_of(key)));
    } else if (!ok) {
        ct_fail(context, CT_ERR_ARGUMENT, "load_metadata: %s: \"%s\" takes %zu bytes with its NUL, out has %zu", path,
                NAME(ct_text_of(key)), value->size + 1, size);
    } else {
        memcpy(out, value->at, value->size + 1);
    }
    ct_safetensors_close(&file);
    return ok;
}
