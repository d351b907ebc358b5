/* ct_lm_save: weights, the files beside them, and config.json last. */
#include <cotangent/autograd.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/file.h"
#include "../../src/os/os.h"
#include "folder.h"
#include "lora.h"

static const char save_op[] = "lm_save";

/* ---- files beside the weights ---- */

static const char *const companions[] = {"tokenizer.json",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "vocab.txt",
                                         "tokenizer.model",
                                         "generation_config.json",
                                         "chat_template.jinja",
                                         "chat_template.json",
                                         NULL};

static bool write_file(ct_context *context, const char *path, const char *bytes, size_t size) {
    cti_file_new file;
    if (!cti_file_new_open(context, save_op, path, &file)) return false;
    if (cti_file_new_write(&file, bytes, size)) return cti_file_new_commit(&file);
    cti_file_new_drop(&file);
    return false;
}

/* Copies a file in blocks. */
static bool copy_file(ct_context *context, const char *from, const char *to) {
    enum { BLOCK = 1 << 16 };
    cti_file old;
    cti_file_new file;
    if (!cti_file_open(context, save_op, from, &old)) return false;
    char *block = cti_take_any(context, BLOCK);
    bool ok = block && cti_file_new_open(context, save_op, to, &file);
    if (ok) {
        for (int64_t at = 0; at < old.size && ok; at += BLOCK) {
            const size_t n = old.size - at < BLOCK ? (size_t)(old.size - at) : BLOCK;
            ok = cti_file_read(&old, at, block, n) && cti_file_new_write(&file, block, n);
        }
        if (ok) ok = cti_file_new_commit(&file);
        else cti_file_new_drop(&file);
    }
    if (block) cti_give_any(context, block, BLOCK);
    cti_file_close(&old);
    return ok;
}

static bool is_same_file(const cti_os_about *a, const char *path) {
    cti_os_about b;
    return cti_os_about_path(path, &b) && a->device == b.device && a->number == b.number;
}

/* Copies a file of the folder from which the model was opened, if it still exists. */
static bool copy_companion(const cti_lm *lm, const char *folder, const char *name) {
    ct_context *context = lm->context;
    char *from = cti_lm_join(context, lm->folder, name), *to = NULL;
    cti_os_about about;
    bool ok = from != NULL;
    if (ok && cti_os_about_path(from, &about) && about.kind == CTI_OS_FILE) {
        to = cti_lm_join(context, folder, name);
        ok = to && (is_same_file(&about, to) || copy_file(context, from, to));
    }
    if (from) cti_give_any(context, from, strlen(from) + 1);
    if (to) cti_give_any(context, to, strlen(to) + 1);
    return ok;
}

static bool save_companion(const cti_lm *lm, const char *folder, const char *name) {
    if (lm->has_own_eos && !strcmp(name, "generation_config.json"))
        return cti_lm_save_eos(lm, save_op, folder, name);
    return copy_companion(lm, folder, name);
}

/* ---- config.json ---- */

/* Writes the model's config.json with the format of its weights. */
static bool write_config(const cti_lm *lm, const char *folder, ct_file_float floats) {
    ct_context *context = lm->context;
    const cti_text text = {lm->config.text, lm->config.text_size};
    cti_lm_edit edit;
    if (!cti_lm_edit_begin(context, save_op, text, &edit)) return false;
    bool ok = cti_lm_set_weights(lm, &edit, floats);
    char *path = ok ? cti_lm_join(context, folder, "config.json") : NULL;
    ok = path && write_file(context, path, edit.text, edit.size);
    if (path) cti_give_any(context, path, strlen(path) + 1);
    cti_lm_edit_end(&edit);
    return ok;
}

/* ---- weights ---- */

/* Removes the weights of another layout, with which the folder could not be loaded. */
static bool remove_other_weights(ct_context *context, const char *folder, bool shards) {
    char *path =
        cti_lm_join(context, folder, shards ? "model.safetensors" : "model.safetensors.index.json");
    cti_os_about about;
    const bool ok =
        path && (!cti_os_about_path(path, &about) || cti_file_remove(context, save_op, path));
    if (path) cti_give_any(context, path, strlen(path) + 1);
    return ok;
}

static bool save_weights(const cti_lm *lm, const char *folder, ct_save_opts opts) {
    static const char *const metadata[] = {"format", "pt", NULL};
    ct_context *context = lm->context;
    const cti_lm_style style = {.prefixed = lm->config.head != CTI_LM_HEAD_BARE};
    cti_lm_map map;
    if (!cti_lm_map_new(lm, &style, &map)) return false;
    char *path = cti_lm_join(context, folder, "model.safetensors");
    if (!opts.metadata) opts.metadata = metadata;
    opts.map = map.n ? map.entry : NULL, opts.n_map = map.n;
    const bool ok = path && ct_save(lm->module, opts.shard_bytes ? folder : path, opts) &&
                    remove_other_weights(context, folder, opts.shard_bytes != 0);
    if (path) cti_give_any(context, path, strlen(path) + 1);
    cti_lm_map_free(lm, &map);
    return ok;
}

static bool has_adapters(const ct_module *module) {
    ct_param param = {0};
    bool found = false;
    while (ct_module_next(module, &param)) found |= cti_lora_is(param.owner);
    return found;
}

bool ct_lm_save(ct_module *module, const char *folder, ct_save_opts opts) {
    const cti_lm *lm = cti_lm_of(module);
    if (!lm || !cti_lm_is_ready(lm->context)) return false;
    if (!folder || opts.map || opts.n_map)
        return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: %s", save_op,
                       folder ? "a map is the model's own" : "the folder is NULL");
    if (has_adapters(module))
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       "%s: the model has adapters: ct_lora_merge them, or save them by "
                       "ct_lora_save",
                       save_op);
    if (!cti_lm_is_of_family(lm, save_op)) return false;
    if (!cti_os_make_folder(folder) && errno != EEXIST)
        return cti_file_fail(lm->context, save_op, folder, "cannot make the folder");
    if (!save_weights(lm, folder, opts)) return false;
    for (const char *const *name = companions; lm->folder && *name; name++)
        if (!save_companion(lm, folder, *name)) return false;
    return write_config(lm, folder, opts.floats);
}
