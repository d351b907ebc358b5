/* Modules that are saved whole beside adapters, PEFT's modules_to_save: which they are, and their
 * tensors in PEFT's files.
 *
 *     base_model.model.X.weight                    the trained copy
 *     base_model.model.X.modules_to_save.weight    again, and
 *     base_model.model.X.original_module.weight    the original: of a vocabulary that was resized
 */
#include <cotangent/autograd.h>
#include <cotangent/io.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../nn/names.h"
#include "folder.h"
#include "lora.h"
#include "peft_base.h"

/* ---- which modules ---- */

static bool ends_have(const cti_lora_ends *ends, const char *path) {
    const size_t size = strlen(path);
    for (int64_t i = 0; i < ends->n; i++) {
        const cti_text end = ends->end[i];
        if (size >= end.size && !memcmp(path + size - end.size, end.at, end.size)) return true;
    }
    return false;
}

static bool saved_make_one(ct_module *module, const char *op, const char *path) {
    ct_param param = {0};
    while (ct_module_next(module, &param))
        if (cti_lora_is(param.owner))
            return ct_fail(ct_context_of(param.tensor), CT_ERR_ARGUMENT,
                           "%s: modules_to_save: %s has an adapter already", op, path);
    return cti_trained_make(module);
}

/* Makes copies below a module whose path, of n bytes, stands in `path`. A name in a tree fits
 * ct_param.buffer, which bounds the depth. */
static bool saved_make_below(ct_module *module, const char *op, const cti_lora_ends *ends,
                             char path[CTI_LM_PATH + CTI_LM_PATH], size_t n, int64_t *found) {
    if (cti_lora_is(module)) return true;
    for (ct_module *child = cti_nn_first_child(module); child; child = cti_nn_next_child(child)) {
        const char *name = cti_nn_child_name(child);
        const int more = snprintf(path + n, 2 * CTI_LM_PATH - n, "%s%s", n ? "." : "", name);
        const bool fits = more > 0 && n + (size_t)more < CTI_LM_PATH;
        bool ok = true;
        if (fits && ends_have(ends, path)) {
            ok = saved_make_one(child, op, path);
            ++*found;
        } else if (fits) {
            ok = saved_make_below(child, op, ends, path, n + (size_t)more, found);
        }
        if (!ok) return false;
    }
    return true;
}

/* The head and the embedding of a model with a tied head; false: it has none. */
static bool tied_pair(const ct_module *module, ct_module **table, ct_module **head) {
    char path[CTI_LM_PATH];
    if (!ct_module_is(module, &cti_lm_type)) return false;
    const cti_lm *lm = cti_lm_of(module);
    if (!cti_lm_has_logits(lm)) return false;
    *table = ct_module_child(lm->module, cti_lm_path(lm, lm->config.family->names.embed, path));
    *head = ct_module_child(lm->module, cti_lm_head_path(lm));
    return *table && *head && cti_lm_is_tied(lm);
}

bool cti_lora_save_is_tied(const ct_module *module) {
    ct_module *table, *head;
    return tied_pair(module, &table, &head) && cti_trained_is(table) && cti_trained_is(head);
}

bool cti_lora_save_is_head(const ct_module *module, const char *path) {
    return ct_module_is(module, &cti_lm_type) && !strcmp(path, cti_lm_head_path(cti_lm_of(module)));
}

bool cti_lora_save_make(ct_module *module, const char *op, const cti_lora_ends *ends,
                        int64_t *found) {
    char path[CTI_LM_PATH + CTI_LM_PATH];
    ct_module *table, *head;
    *found = 0;
    if (!saved_make_below(module, op, ends, path, 0, found)) return false;
    return !ends->tie || !tied_pair(module, &table, &head) || !cti_trained_is(table) ||
           cti_trained_is(head) || cti_trained_share(head, table);
}

/* ---- their tensors ---- */

bool cti_lora_saved_next(const ct_module *module, ct_param *param, cti_lora_saved *saved) {
    if (!cti_trained_next(module, param)) return false;
    const cti_lm *lm = ct_module_is(module, &cti_lm_type) ? cti_lm_of(module) : NULL;
    *saved = (cti_lora_saved){.copy = param->tensor, .original = cti_trained_original(param)};
    saved->transposed = lm && cti_lm_file_has_transposed(lm, param->name);
    if (strlen(param->name) < CTI_LM_PATH) {
        snprintf(saved->name, sizeof saved->name, CTI_PEFT_PREFIX "%s", param->name);
        return true;
    }
    return ct_fail(ct_context_of(param->tensor), CT_ERR_ARGUMENT, "lora: %s: the name is too long",
                   param->name);
}

static const char of_copy[] = ".modules_to_save", of_original[] = ".original_module";

/* Whether a name of the file without its first `part` is the other name. */
static bool is_without(const char *tensor, const char *part, const char *name) {
    const char *at = strstr(tensor, part);
    const size_t before = at ? (size_t)(at - tensor) : 0;
    return at && !strncmp(tensor, name, before) && !strcmp(at + strlen(part), name + before);
}

bool cti_lora_saved_has(const ct_module *module, const char *tensor) {
    ct_param param = {0};
    cti_lora_saved saved;
    while (cti_lora_saved_next(module, &param, &saved))
        if (!strcmp(tensor, saved.name) || is_without(tensor, of_copy, saved.name) ||
            is_without(tensor, of_original, saved.name))
            return true;
    return false;
}

bool cti_lora_saved_check(ct_context *context, const ct_module *module, ct_safetensors *file,
                          const char *op, const char *path) {
    ct_param param = {0};
    cti_lora_saved saved;
    while (cti_lora_saved_next(module, &param, &saved)) {
        ct_safetensors_entry entry = {0};
        bool found = false;
        while (!found && ct_safetensors_next(file, &entry)) found = !strcmp(entry.name, saved.name);
        if (!found)
            return ct_fail(context, CT_ERR_FORMAT, "%s: %s: no tensor \"%s\" of modules_to_save",
                           op, path, saved.name);
    }
    return cti_lm_is_ready(context);
}

/* The file's tensor as the model has it: transposed, in the dtype and of the shape of `to`. */
static ct_tensor *saved_tensor_read(ct_safetensors *file, const char *op, const char *name,
                                    const cti_lora_saved *saved, const ct_tensor *to) {
    ct_tensor *from = ct_safetensors_read(file, name);
    if (!from) return NULL;
    if (saved->transposed && ct_shape_of(from).ndim == 2)
        from = ct_contiguous(ct_transpose(from, 0, 1));
    const ct_shape want = ct_shape_of(to), got = ct_shape_of(from);
    bool same = got.ndim == want.ndim;
    for (int i = 0; same && i < want.ndim; i++) same = got.dim[i] == want.dim[i];
    if (same) return ct_dtype_of(from) == ct_dtype_of(to) ? from : ct_cast(from, ct_dtype_of(to));
    if (!from) return NULL;
    return ct_fail(ct_context_of(to), CT_ERR_FORMAT,
                   "%s: %s has %" PRId64 " rows and %d dims, and the model's %" PRId64
                   " and %d (a model whose vocabulary was resized needs ct_lm_resize first)",
                   op, name, got.ndim ? got.dim[0] : 1, got.ndim, want.ndim ? want.dim[0] : 1,
                   want.ndim);
}

/* Reads the original that a file has into *from, unless the model has the same values. Blocks
 * cannot be written. */
static bool saved_original_read(ct_safetensors *file, const char *op, const char *name,
                                const cti_lora_saved *saved, ct_tensor **from) {
    const ct_dtype dtype = ct_dtype_of(saved->original);
    *from = saved_tensor_read(file, op, name, saved, saved->original);
    if (!*from) return false;
    if (cti_peft_equal(saved->original, *from)) *from = NULL;
    ct_context *context = ct_context_of(saved->original);
    if (!*from || (dtype != CT_Q8_0 && dtype != CT_Q4_0)) return cti_lm_is_ready(context);
    return ct_fail(context, CT_ERR_FORMAT,
                   "%s: %s: differs from the model's weight, which is of blocks", op, name);
}

/* Finds the original of a parameter in the file; NULL: it has none. */
static const char *saved_original_find(ct_safetensors *file, const cti_lora_saved *saved,
                                       ct_safetensors_entry *entry) {
    *entry = (ct_safetensors_entry){0};
    while (ct_safetensors_next(file, entry))
        if (is_without(entry->name, of_original, saved->name)) return entry->name;
    return NULL;
}

bool cti_lora_saved_read(ct_context *context, const ct_module *module, ct_safetensors *file,
                         const char *op, ct_tensor **from) {
    ct_param param = {0};
    cti_lora_saved saved;
    for (; cti_lora_saved_next(module, &param, &saved); from += 2) {
        ct_safetensors_entry entry;
        const char *original = saved_original_find(file, &saved, &entry);
        from[0] = saved_tensor_read(file, op, saved.name, &saved, saved.copy);
        from[1] = NULL;
        if (!from[0] || (original && !saved_original_read(file, op, original, &saved, &from[1])))
            return false;
    }
    return cti_lm_is_ready(context);
}

bool cti_lora_saved_write(const ct_module *module, ct_tensor *const *from) {
    ct_param param = {0};
    cti_lora_saved saved;
    for (; cti_lora_saved_next(module, &param, &saved); from += 2)
        if (!ct_copy_into(saved.copy, from[0]) ||
            (from[1] && !ct_copy_into(saved.original, from[1])))
            return false;
    return true;
}
