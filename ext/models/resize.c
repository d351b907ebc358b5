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

/* Gives a parameter of a new module the rows of the one of an old module. */
static bool fill_param(const cti_lm *lm, ct_module *module, ct_module *old, const char *name) {
    ct_tensor *to = ct_module_get(module, name), *from = ct_module_get(old, name);
    if (!to || !from || !fill_rows(lm, to, from)) return false;
    ct_set_requires_grad(to, ct_requires_grad(from));
    return true;
}

/* Gives a new module the rows of the one at a path. */
static bool fill_from(const cti_lm *lm, ct_module *module, const char *path) {
    ct_module *old = ct_module_child(lm->module, path);
    if (!old) return false;
    ct_module_train(module, ct_module_training(old));
    return fill_param(lm, module, old, "weight");
}

/* Puts a module in the place of the one at a path, which is freed. Nothing can fail: the name is
 * there already. */
static void replace(const cti_lm *lm, const char *path, ct_module *module) {
    ct_module_free(ct_module_set_child(lm->module, path, module));
}

/* The modules that take the places of old ones. */
typedef struct {
    ct_module *table, *linear; /* the embedding and the head */
    /* For a masked language model: the owner of the head and its bias, and an empty module that
     * takes the transform's place in the old owner; otherwise NULL. */
    ct_module *predictions, *left;
} resized;

static const char predictions_path[] = "cls.predictions", transform_name[] = "transform";

/* Makes the owner of the head of a masked language model, which has the head's bias too. */
static bool make_predictions(const cti_lm *lm, resized *new) {
    ct_module *old = ct_module_child(lm->module, predictions_path);
    ct_module *owner = new->predictions = ct_module_new(lm->context, ct_module_kind(old));
    new->left = ct_module_new(lm->context, ct_module_kind(old));
    ct_module *moved = ct_module_new(lm->context, ct_module_kind(old));
    if (!ct_module_add_child(owner, transform_name, moved)) ct_module_free(moved);
    ct_tensor *bias = ct_module_get(new->linear, "bias");
    if (!cti_lm_is_ready(lm->context) || !ct_module_add_param(owner, "bias", bias) ||
        !fill_param(lm, new->linear, ct_module_child(old, "decoder"), "bias"))
        return false;
    ct_module_train(owner, ct_module_training(old));
    if (!ct_module_add_child(owner, "decoder", new->linear)) return false;
    new->linear = NULL; /* it belongs to its owner now */
    return true;
}

/* Puts the owner in its place, with the old transform. Nothing can fail. */
static void place_predictions(const cti_lm *lm, const resized *new) {
    ct_module *old = ct_module_child(lm->module, predictions_path);
    ct_module *transform = ct_module_set_child(old, transform_name, new->left);
    ct_module_free(ct_module_set_child(new->predictions, transform_name, transform));
    replace(lm, predictions_path, new->predictions);
}

/* Makes the new embedding and the new head, if there is one, and puts them in place. If it returns
 * false, nothing has changed. */
static bool resize_to(const cti_lm *lm, const char *embedding, const char *head, int64_t rows) {
    const int64_t width = cti_lm_integer(&lm->config, CTI_LM_WIDTH);
    const bool tied = lm->config.number[CTI_LM_TIED] > 0;
    const bool masked = lm->config.head == CTI_LM_HEAD_MASKED;
    resized new = {.table = cti_lm_embedding_new(lm, rows, width)};
    if (head)
        new.linear = cti_lm_linear_new(lm, rows, width, masked,
                                       tied ? ct_module_get(new.table, "weight") : NULL);
    const bool ok = cti_lm_is_ready(lm->context) && fill_from(lm, new.table, embedding) &&
                    (!head || tied || fill_from(lm, new.linear, head)) &&
                    (!masked || make_predictions(lm, &new));
    if (!ok) {
        ct_module_free(new.predictions);
        ct_module_free(new.left);
        ct_module_free(new.linear);
        ct_module_free(new.table);
        return false;
    }
    if (masked) place_predictions(lm, &new);
    else if (head) replace(lm, head, new.linear);
    replace(lm, embedding, new.table);
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
    const bool has_head =
        lm->config.head == CTI_LM_HEAD_CAUSAL || lm->config.head == CTI_LM_HEAD_MASKED;
    const char *head = has_head ? cti_lm_head_path(lm) : NULL;
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
