/* ct_lm_save: a set of files (src/io/set.h) whose head is config.json. */
#include <cotangent/autograd.h>

#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/set.h"
#include "../../src/os/os.h"
#include "folder.h"
#include "lora.h"

static const char save_op[] = "lm_save";

/* ---- files beside the weights ---- */

/* tokenizer.json is last: the tokenizer is not opened without it. */
static const char *const companions[] = {"tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "vocab.txt",
                                         "tokenizer.model",
                                         "generation_config.json",
                                         "chat_template.jinja",
                                         "chat_template.json",
                                         "tokenizer.json",
                                         NULL};

/* Copies a file in blocks. */
static bool file_copy(ct_context *context, const char *from, const char *to) {
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

/* Copies a file of the folder from which the model was opened, if it still exists and `to` is not
 * the same file. */
static bool companion_copy(ct_context *context, const char *from, const char *to) {
    cti_os_about old, own;
    if (!cti_file_find(context, save_op, from, &old) || !cti_file_find(context, save_op, to, &own))
        return false;
    const bool is_same =
        own.kind == old.kind && own.device == old.device && own.number == old.number;
    return old.kind != CTI_OS_FILE || is_same || file_copy(context, from, to);
}

static bool companion_save(const cti_lm *lm, const char *from, const char *to, const char *name) {
    if (lm->has_own_eos && !strcmp(name, "generation_config.json"))
        return cti_lm_save_eos(lm, save_op, from, to);
    return companion_copy(lm->context, from, to);
}

static bool companions_save(const cti_lm *lm, const char *folder) {
    bool ok = !lm->folder || cti_set_settle_folder(lm->context, save_op, lm->folder);
    for (const char *const *name = companions; ok && lm->folder && *name; name++) {
        char *from = cti_path_in(lm->context, lm->folder, *name),
             *to = from ? cti_path_in(lm->context, folder, *name) : NULL;
        ok = to && companion_save(lm, from, to, *name);
        cti_path_free(lm->context, from);
        cti_path_free(lm->context, to);
    }
    return ok;
}

/* ---- config.json ---- */

/* Writes the model's config.json with the format of its weights. */
static bool lm_config_write(const cti_lm *lm, const char *folder, ct_file_float floats) {
    ct_context *context = lm->context;
    const cti_text text = {lm->config.text, lm->config.text_size};
    cti_lm_edit edit;
    if (!cti_lm_edit_begin(context, save_op, text, &edit)) return false;
    bool ok = cti_lm_set_weights(lm, &edit, floats);
    char *path = ok ? cti_path_in(context, folder, "config.json") : NULL;
    ok = path && cti_file_write(context, save_op, path, edit.text, edit.size);
    cti_path_free(context, path);
    cti_lm_edit_end(&edit);
    return ok;
}

/* ---- weights ---- */

static bool weights_save(const cti_lm *lm, const char *folder, ct_save_opts opts) {
    static const char *const metadata[] = {"format", "pt", NULL};
    ct_context *context = lm->context;
    const cti_lm_style style = {.prefixed = lm->config.head != CTI_LM_HEAD_BARE};
    cti_lm_map map;
    if (!cti_lm_map_new(lm, &style, &map)) return false;
    char *path = cti_path_in(context, folder, "model.safetensors");
    if (!opts.metadata) opts.metadata = metadata;
    opts.map = map.n ? map.entry : NULL, opts.n_map = map.n;
    bool ok = path && ct_save(lm->module, opts.shard_bytes ? folder : path, opts);
    if (ok && !opts.shard_bytes) /* a save of shards removes a single file itself */
        ok = cti_set_remove(context, save_op, "model.safetensors.index.json");
    cti_path_free(context, path);
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
    cti_set set;
    return cti_lm_is_of_family(lm, save_op) && cti_set_begin(lm->context, save_op, folder, &set) &&
           cti_set_end(&set, weights_save(lm, folder, opts) && companions_save(lm, folder) &&
                                 lm_config_write(lm, folder, opts.floats));
}
