/* ct_lm_resize, and the text of config.json of a model that has changed. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "folder.h"

/* ---- the text ---- */

/* The format of a file's floats as config.json names it. */
static const char *format_of(const cti_lm *lm, ct_file_float floats) {
    switch (floats) {
    case CT_FILE_F32: return "\"float32\"";
    case CT_FILE_F16: return "\"float16\"";
    case CT_FILE_BF16: return "\"bfloat16\"";
    case CT_FILE_SAME: break;
    }
    return lm->opts.dtype == CT_F64    ? "\"float64\""
           : lm->opts.dtype == CT_BF16 ? "\"bfloat16\""
                                       : "\"float32\"";
}

bool cti_lm_set_format(const cti_lm *lm, cti_lm_edit *edit, ct_file_float floats) {
    bool old;
    return cti_lm_edit_find(edit, "torch_dtype", &old) &&
           cti_lm_edit_set(edit, old ? "torch_dtype" : "dtype", format_of(lm, floats));
}

static const char *architecture_of(const cti_lm *lm) {
    const cti_lm_family *family = lm->config.family;
    switch (lm->config.head) {
    case CTI_LM_HEAD_CAUSAL: return family->causal;
    case CTI_LM_HEAD_MASKED: return family->masked;
    case CTI_LM_HEAD_CLASSES: return family->classes;
    case CTI_LM_HEAD_BARE: break;
    }
    return family->bare;
}

/* Makes the text of config.json for the model in its present state. After an error *edit has no
 * text. */
static bool make_text(const cti_lm *lm, cti_lm_edit *edit) {
    const cti_lm_config *config = &lm->config;
    char value[CTI_LM_PATH];
    if (!cti_lm_edit_begin(lm->context, "lm", (cti_text){config->text, config->text_size}, edit))
        return false;
    bool ok = cti_lm_set_format(lm, edit, CT_FILE_SAME);
    snprintf(value, sizeof value, "%" PRId64, cti_lm_integer(config, CTI_LM_VOCAB));
    ok = ok && cti_lm_edit_set(edit, "vocab_size", value);
    snprintf(value, sizeof value, "[\"%s\"]", architecture_of(lm));
    ok = ok && cti_lm_edit_set(edit, "architectures", value);
    if (!ok) cti_lm_edit_end(edit);
    return ok;
}

/* Moves a text into the model. */
static void take_text(cti_lm *lm, const cti_lm_edit *edit) {
    cti_give_any(lm->context, lm->config.text, lm->config.text_size + 1);
    lm->config.text = edit->text, lm->config.text_size = edit->size;
}

bool cti_lm_update_text(cti_lm *lm) {
    cti_lm_edit edit;
    if (!make_text(lm, &edit)) return false;
    take_text(lm, &edit);
    return true;
}

/* ---- resizing ---- */

static const char resize_name[] = "lm_resize";

/* Fills rows of `to`: the old ones, then their mean. */
static bool fill_rows(const cti_lm *lm, ct_tensor *to, ct_tensor *from) {
    const int64_t old = ct_shape_of(from).dim[0], rows = ct_shape_of(to).dim[0];
    const bool matrix = ct_shape_of(from).ndim == 2;
    const ct_dtype dtype = ct_dtype_of(from);
    ct_scope scope = ct_scope_open_no_grad(lm->context);
    ct_tensor *values = dtype == CT_BF16 ? ct_cast(from, CT_F32) : from;
    ct_tensor *mean = ct_mean(values, CT_DIMS(0), true);
    mean = ct_expand(mean, matrix ? CT_SHAPE(rows - old, -1) : CT_SHAPE(rows - old));
    const bool ok = ct_copy_into(ct_narrow(to, 0, 0, old), from) &&
                    ct_copy_into(ct_narrow(to, 0, old, rows - old),
                                 dtype == CT_BF16 ? ct_cast(mean, dtype) : mean);
    ct_scope_close(scope);
    return ok;
}

/* Gives a new module the rows of the one at a path. */
static bool fill_from(const cti_lm *lm, ct_module *module, const char *path) {
    ct_module *old = ct_module_child(lm->module, path);
    if (!old) return false;
    ct_module_train(module, ct_module_training(old));
    return fill_rows(lm, ct_module_get(module, "weight"), ct_module_get(old, "weight"));
}

/* Puts a module in the place of the one at a path, which is freed. Nothing can fail: the name is
 * there already. */
static void replace(const cti_lm *lm, const char *path, ct_module *module) {
    ct_module_free(ct_module_set_child(lm->module, path, module));
}

/* Makes the new embedding and the new head, if there is one, and puts them in place. If it returns
 * false, nothing has changed. */
static bool resize_to(const cti_lm *lm, const char *embedding, const char *head, int64_t rows) {
    const int64_t width = cti_lm_integer(&lm->config, CTI_LM_WIDTH);
    const bool tied = lm->config.number[CTI_LM_TIED] > 0;
    ct_module *table = cti_lm_embedding_new(lm, rows, width), *linear = NULL;
    if (head)
        linear =
            cti_lm_linear_new(lm, rows, width, false, tied ? ct_module_get(table, "weight") : NULL);
    const bool ok = cti_lm_is_ready(lm->context) && fill_from(lm, table, embedding) &&
                    (!head || tied || fill_from(lm, linear, head));
    if (!ok) {
        ct_module_free(linear);
        ct_module_free(table);
        return false;
    }
    if (head) replace(lm, head, linear);
    replace(lm, embedding, table);
    return true;
}

bool ct_lm_resize(ct_module *module, int64_t vocab_size) {
    cti_lm *lm = cti_lm_of(module);
    if (!lm || !cti_lm_is_ready(lm->context)) return false;
    if (vocab_size >= (int64_t)1 << 31)
        return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: a vocabulary of %" PRId64, resize_name,
                       vocab_size);
    const double old = lm->config.number[CTI_LM_VOCAB];
    if ((double)vocab_size <= old) return true;
    if (lm->config.head == CTI_LM_HEAD_MASKED)
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       "%s: the head of a masked language model keeps its size", resize_name);
    const char *head = lm->config.head == CTI_LM_HEAD_CAUSAL ? cti_lm_head_path(lm) : NULL;
    if (head && !cti_lm_is_linear(ct_module_child(lm->module, head)))
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       "%s: the head is no Linear: merge its adapter first", resize_name);
    char path[CTI_LM_PATH];
    cti_lm_path(lm, -1, lm->config.family->names.embed, path);
    lm->config.number[CTI_LM_VOCAB] = (double)vocab_size;
    cti_lm_edit text;
    if (!make_text(lm, &text) || !resize_to(lm, path, head, vocab_size)) {
        cti_lm_edit_end(&text);
        lm->config.number[CTI_LM_VOCAB] = old;
        return false;
    }
    take_text(lm, &text);
    return true;
}
