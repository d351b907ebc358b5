/* Saves a module's parameters to a safetensors file, and loads them. */
#include <cotangent/io.h>

#include <string.h>

#include "state.h"

bool ct_save(ct_module *module, const char *path, const char *const *metadata) {
    if (!module || !cti_object_is_open(&module->object, "ct_save")) return false;
    ct_context *context = module->context;
    if (!path) return ct_fail(context, CT_ERR_ARGUMENT, "save: path is NULL");
    cti_nn_state state = {.context = context};
    bool ok = cti_nn_state_add_module(&state, "", module) &&
              cti_safetensors_write(context, "save", path, metadata, state.item, state.n);
    cti_nn_state_free(&state);
    return ok;
}

bool ct_load(ct_module *module, const char *path, ct_load_opts opts) {
    if (!cti_nn_ready(module, "ct_load", NULL)) return false;
    ct_context *context = module->context;
    if (!path) return ct_fail(context, CT_ERR_ARGUMENT, "load: path is NULL");
    cti_safetensors file;
    if (!cti_safetensors_open(context, "load", path, &file)) return false;
    cti_nn_state state = {.context = context};
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    bool ok = cti_nn_state_add_module(&state, "", module) &&
              cti_nn_state_match(&state, &file, module, "", opts.partial) &&
              cti_nn_state_read(&state, &file);
    if (ok) cti_nn_state_commit(&state);
    cti_frame_close(context, &frame);
    cti_nn_state_free(&state);
    cti_safetensors_close(&file);
    return ok;
}

bool ct_load_metadata(ct_context *context, const char *path, const char *key, char *out,
                      size_t size) {
    if (!context) return false;
    if (!path || !key || !out)
        return ct_fail(context, CT_ERR_ARGUMENT, "load_metadata: path, key or out is NULL");
    cti_safetensors file;
    if (!cti_safetensors_open(context, "load_metadata", path, &file)) return false;
    const cti_text *value = cti_safetensors_metadata(&file, cti_text_of(key));
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
    cti_safetensors_close(&file);
    return ok;
}
