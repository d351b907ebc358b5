/* ct_lm_resize, and the text of config.json of a model that has changed. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "config_edit.h"
#include "folder.h"

/* ---- the text ---- */

const char *cti_lm_format_of(const cti_lm *lm, ct_file_float floats) {
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

bool cti_lm_update_text(cti_lm *lm) {
    cti_lm_config *config = &lm->config;
    cti_lm_edit edit;
    char value[CTI_LM_PATH];
    if (!cti_lm_edit_begin(lm->context, "lm", (cti_text){config->text, config->text_size}, &edit))
        return false;
    const char *dtype = cti_lm_edit_has(&edit, "torch_dtype") ? "torch_dtype" : "dtype";
    bool ok = cti_lm_edit_set(&edit, dtype, cti_lm_format_of(lm, CT_FILE_SAME));
    snprintf(value, sizeof value, "%" PRId64, cti_lm_integer(config, CTI_LM_VOCAB));
    ok = ok && cti_lm_edit_set(&edit, "vocab_size", value);
    snprintf(value, sizeof value, "[\"%s\"]", architecture_of(lm));
    ok = ok && cti_lm_edit_set(&edit, "architectures", value);
    if (!ok) {
        cti_lm_edit_end(&edit);
        return false;
    }
    cti_give_any(lm->context, config->text, config->text_size + 1);
    config->text = edit.text, config->text_size = edit.size;
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

/* Puts a module with more rows in the place of the one at a path. */
static bool replace(const cti_lm *lm, const char *path, ct_module *module, bool weight, bool bias) {
    ct_module *old = ct_module_child(lm->module, path);
    if (!old || !module) return false;
    if (weight && !fill_rows(lm, ct_module_get(module, "weight"), ct_module_get(old, "weight")))
        return false;
    if (bias && !fill_rows(lm, ct_module_get(module, "bias"), ct_module_get(old, "bias")))
        return false;
    ct_module_train(module, ct_module_training(old));
    if (!ct_module_set_child(lm->module, path, module)) return false;
    ct_module_free(old);
    return true;
}

bool ct_lm_resize(ct_module *module, int64_t vocab_size) {
    cti_lm *lm = cti_lm_of(module);
    if (!lm || !cti_lm_is_ready(lm->context)) return false;
    const int64_t old = cti_lm_integer(&lm->config, CTI_LM_VOCAB),
                  width = cti_lm_integer(&lm->config, CTI_LM_WIDTH);
    if (vocab_size >= (int64_t)1 << 31)
        return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: a vocabulary of %" PRId64, resize_name,
                       vocab_size);
    if (vocab_size <= old) return true;
    if (lm->config.head == CTI_LM_HEAD_MASKED)
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       "%s: the head of a masked language model keeps its size", resize_name);
    const bool head = lm->config.head == CTI_LM_HEAD_CAUSAL,
               tied = lm->config.number[CTI_LM_TIED] > 0;
    char path[CTI_LM_PATH];
    cti_lm_path(lm, -1, lm->config.family->names.embed, path);
    if (head && !cti_lm_is_linear(ct_module_child(lm->module, cti_lm_head_path(lm))))
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       "%s: the head is no Linear: merge adapters "
                       "first",
                       resize_name);
    ct_module *table = cti_lm_embedding_new(lm, vocab_size, width);
    ct_module *linear = NULL;
    if (head)
        linear = cti_lm_linear_new(lm, vocab_size, width, false,
                                   tied ? ct_module_get(table, "weight") : NULL);
    if (!cti_lm_is_ready(lm->context) ||
        (head && !replace(lm, cti_lm_head_path(lm), linear, !tied, false))) {
        ct_module_free(linear);
        ct_module_free(table);
        return false;
    }
    if (!replace(lm, path, table, true, false)) return false;
    lm->config.number[CTI_LM_VOCAB] = (double)vocab_size;
    return cti_lm_update_text(lm);
}
