/* ct_lm_save: a GGUF file, or a set of files (src/io/set.h) whose head is config.json. */
#include <cotangent/autograd.h>

#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/kind.h"
#include "../../src/io/set.h"
#include "../../src/os/os.h"
#include "folder.h"
#include "lm_gguf.h"
#include "lora.h"
#include "sentence_save.h"
#include "sentence_vector.h"
#include "small_file.h"

static const char save_op[] = "lm_save";

/* ---- files beside the weights ---- */

/* tokenizer.json is last: the tokenizer is not opened without it. */
static const char tokenizer_name[] = "tokenizer.json";
static const char *const tokenizer_files[] = {"tokenizer_config.json",
                                              "special_tokens_map.json",
                                              "added_tokens.json",
                                              "vocab.json",
                                              "merges.txt",
                                              "vocab.txt",
                                              "tokenizer.model",
                                              "chat_template.jinja",
                                              "chat_template.json",
                                              tokenizer_name,
                                              NULL};

/* Writes generation_config.json. For a model of a GGUF file it has the file's options. For a model
 * of a folder it is the folder's own, with the ids of ct_lm_set_eos. */
static bool generation_text_write(const cti_lm *lm, const char *from, const char *to) {
    size_t size;
    if (!lm->of_gguf) return cti_lm_save_eos(lm, save_op, from, to);
    char *text = cti_lm_generation_text(lm, &size);
    const bool ok = text && cti_file_write(lm->context, save_op, to, text, size);
    if (text) cti_give_any(lm->context, text, size + 1);
    return ok;
}

/* Saves the options of generation of a model that was opened. */
static bool generation_save(const cti_lm *lm, const char *folder) {
    static const char name[] = "generation_config.json";
    bool has;
    if (!cti_lm_has_file(lm->context, save_op, lm->folder, name, &has)) return false;
    if (!lm->of_gguf && !(lm->has_own_eos && has))
        return cti_lm_mirror_file(lm->context, save_op, lm->folder, folder, name);
    char *from = cti_path_in(lm->context, lm->folder, name),
         *to = from ? cti_path_in(lm->context, folder, name) : NULL;
    const bool ok = to && generation_text_write(lm, from, to);
    cti_path_free(lm->context, from);
    cti_path_free(lm->context, to);
    return ok;
}

/* Copies the files of the tokenizer. Beside a model without one stays the tokenizer that the
 * program may have saved. */
static bool tokenizer_copy(const cti_lm *lm, const char *folder) {
    ct_context *context = lm->context;
    bool whole, has;
    bool ok = cti_lm_has_file(context, save_op, lm->folder, tokenizer_name, &whole);
    for (const char *const *name = tokenizer_files; ok && *name; name++)
        ok = cti_lm_has_file(context, save_op, lm->folder, *name, &has) &&
             (!(whole || has) || cti_lm_mirror_file(context, save_op, lm->folder, folder, *name));
    return ok;
}

/* Saves the tokenizer that the program has set, or the one of a GGUF file. */
static bool tokenizer_save(const cti_lm *lm, const char *folder) {
    ct_tokenizer *opened;
    if (!cti_lm_open_tokenizer(lm, &opened)) return false;
    const ct_tokenizer *tokenizer = opened ? opened : lm->tokenizer;
    const bool ok = !tokenizer || ct_tokenizer_save(tokenizer, folder);
    ct_tokenizer_close(opened);
    return ok;
}

static bool companions_save(const cti_lm *lm, const char *folder, ct_file_float floats) {
    const bool copies = !lm->has_tokenizer && !lm->of_gguf;
    bool ok = !lm->folder || lm->of_gguf || cti_set_settle_folder(lm->context, save_op, lm->folder);
    if (ok && lm->folder) ok = generation_save(lm, folder);
    if (ok && copies && lm->folder) ok = tokenizer_copy(lm, folder);
    return ok && (copies || tokenizer_save(lm, folder)) &&
           cti_lm_save_sentence(lm, save_op, folder, floats);
}

bool ct_lm_set_tokenizer(ct_module *module, const ct_tokenizer *tokenizer) {
    cti_lm *lm = cti_lm_of(module);
    if (!lm || !cti_lm_is_ready(lm->context)) return false;
    lm->tokenizer = tokenizer, lm->has_tokenizer = true;
    return true;
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
    const cti_lm_style style = {.prefixed = lm->config.head->kind != CT_LM_HEAD_NONE};
    cti_lm_map map;
    if (!cti_lm_map_new(lm, &style, &map)) return false;
    char *path = cti_path_in(context, folder, "model.safetensors");
    if (!opts.metadata) opts.metadata = metadata;
    opts.map = map.n ? map.entry : NULL, opts.n_map = map.n;
    bool ok = path && cti_nn_save(lm->module, opts.shard_bytes ? folder : path, opts,
                                  cti_lm_is_of_dense, lm);
    if (ok && !opts.shard_bytes) /* a save of shards removes a single file itself */
        ok = cti_set_remove(context, save_op, "model.safetensors.index.json");
    cti_path_free(context, path);
    cti_lm_map_free(lm, &map);
    return ok;
}

static bool has_adapters(const ct_module *module) {
    ct_param param = {0};
    bool found = false;
    while (ct_module_next(module, &param))
        found |= cti_lora_is(param.owner) || cti_trained_original(&param);
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
    if (cti_kind_is_name(folder, "", CTI_KIND_GGUF))
        return cti_lm_is_of_family(lm, save_op) && cti_lm_gguf_save(lm, save_op, folder, opts);
    return cti_lm_is_of_family(lm, save_op) && cti_set_begin(lm->context, save_op, folder, &set) &&
           cti_set_end(&set, weights_save(lm, folder, opts) &&
                                 companions_save(lm, folder, opts.floats) &&
                                 lm_config_write(lm, folder, opts.floats));
}
