/* ct_lm_resize, and the text of config.json of a model that has changed. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../nn/bare.h"
#include "../../src/core/memory.h"
#include "folder.h"
#include "lora.h"

/* ---- the text ---- */

/* The format of a file's floats as config.json names it. */
static const char *format_of(const cti_lm *lm, ct_file_float floats) {
    switch (floats) {
    case CT_FILE_F32: return "\"float32\"";
    case CT_FILE_F16: return "\"float16\"";
    case CT_FILE_BF16: return "\"bfloat16\"";
    case CT_FILE_SAME:
    case CT_FILE_Q8_0:
    case CT_FILE_Q4_0: break;
    }
    const ct_dtype dtype = cti_lm_dtype(lm);
    return dtype == CT_F64 ? "\"float64\"" : dtype == CT_BF16 ? "\"bfloat16\"" : "\"float32\"";
}

/* The tie is written if the text has it, or if it is not the family's default. */
bool cti_lm_set_weights(const cti_lm *lm, cti_lm_edit *edit, ct_file_float floats) {
    static const char tie[] = "tie_word_embeddings";
    const bool is_tied = cti_lm_has_logits(lm) && cti_lm_is_tied(lm);
    bool old_dtype, has_tie;
    if (!cti_lm_edit_find(edit, "torch_dtype", &old_dtype) ||
        !cti_lm_edit_find(edit, tie, &has_tie))
        return false;
    has_tie |= is_tied != (lm->config.number[CTI_LM_TIED] > 0);
    return cti_lm_edit_set(edit, old_dtype ? "torch_dtype" : "dtype", format_of(lm, floats)) &&
           (!cti_lm_has_logits(lm) || !has_tie ||
            cti_lm_edit_set(edit, tie, is_tied ? "true" : "false"));
}

/* Makes the text of config.json for the model in its present state. After an error *edit has no
 * text. */
static bool config_text_make(const cti_lm *lm, cti_lm_edit *edit) {
    const cti_lm_config *config = &lm->config;
    char value[CTI_LM_PATH];
    if (!cti_lm_edit_begin(lm->context, "lm", (cti_text){config->text, config->text_size}, edit))
        return false;
    bool ok = cti_lm_set_weights(lm, edit, CT_FILE_SAME);
    snprintf(value, sizeof value, "%" PRId64, cti_lm_integer(config, CTI_LM_VOCAB));
    ok = ok && cti_lm_edit_set(edit, "vocab_size", value);
    snprintf(value, sizeof value, "[\"%s\"]", config->head->architecture);
    ok = ok && cti_lm_edit_set(edit, "architectures", value) && cti_lm_set_labels(config, edit);
    if (!ok) cti_lm_edit_end(edit);
    return ok;
}

/* Moves a text into the model. */
static void config_text_take(cti_lm *lm, const cti_lm_edit *edit) {
    cti_give_any(lm->context, lm->config.text, lm->config.text_size + 1);
    lm->config.text = edit->text, lm->config.text_size = edit->size;
}

bool cti_lm_update_text(cti_lm *lm) {
    cti_lm_edit edit;
    if (!config_text_make(lm, &edit)) return false;
    config_text_take(lm, &edit);
    return true;
}

/* ---- resizing ---- */

static const char resize_name[] = "lm_resize";

/* Whether the rows of a table can be read and written. */
static bool is_resizable(const cti_lm *lm, ct_tensor *table) {
    const ct_dtype dtype = ct_dtype_of(table);
    return (dtype != CT_Q8_0 && dtype != CT_Q4_0) ||
           ct_fail(lm->context, CT_ERR_DTYPE,
                   "%s: the embedding or the head is of blocks: ct_module_to(lm, CT_BF16) first",
                   resize_name);
}

/* Fills rows of `to`: the old ones, then their mean. */
static bool old_rows_fill(const cti_lm *lm, ct_tensor *to, ct_tensor *from) {
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

/* Gives a module the parameter `name` of the old one with `rows` rows, in its dtype. */
static bool grown_tensor_add(const cti_lm *lm, ct_module *module, const ct_module *old,
                             const char *name, int64_t rows) {
    ct_tensor *from = cti_lm_param(old, name);
    if (!from) return true;
    ct_shape shape = ct_shape_of(from);
    shape.dim[0] = rows;
    ct_scope scope = ct_scope_open(lm->context);
    ct_tensor *to =
        ct_module_add_param(module, name, ct_empty(lm->context, ct_dtype_of(from), shape));
    const bool ok = to && old_rows_fill(lm, to, from);
    ct_scope_close(scope);
    return ok;
}

/* The embedding and the head with `rows` rows. */
static ct_module *grown_table(const cti_lm *lm, const ct_module *old, int64_t rows) {
    const int64_t width = ct_shape_of(cti_lm_param(old, "weight")).dim[1];
    ct_module *table = cti_nn_embedding_bare(
        lm->context, (ct_embedding_opts){.num_embeddings = rows, .embedding_dim = width});
    ct_module_train(table, ct_module_training(old));
    if (table && grown_tensor_add(lm, table, old, "weight", rows)) return table;
    ct_module_free(table);
    return NULL;
}

static ct_module *grown_head(const cti_lm *lm, const ct_module *old, int64_t rows,
                             ct_tensor *tied) {
    const int64_t width = ct_shape_of(cti_lm_param(old, "weight")).dim[1];
    ct_module *head = cti_nn_linear_bare(
        lm->context, (ct_linear_opts){.in_features = width,
                                      .out_features = rows,
                                      .no_bias = cti_lm_param(old, "bias") == NULL});
    ct_module_train(head, ct_module_training(old));
    const bool ok = head && (tied ? ct_module_add_param(head, "weight", tied) != NULL
                                  : grown_tensor_add(lm, head, old, "weight", rows));
    if (ok && grown_tensor_add(lm, head, old, "bias", rows)) return head;
    ct_module_free(head);
    return NULL;
}

/* Puts a module in the place of the one at a path, which is freed. Nothing can fail: the name is
 * there already. */
static void module_replace(const cti_lm *lm, const char *path, ct_module *module) {
    ct_module_free(ct_module_set_child(lm->module, path, module));
}

/* The modules that take the places of old ones. */
typedef struct {
    ct_module *table, *linear; /* the embedding and the head */
    /* For a head whose bias belongs to a module above it too: a new one of these, and empty modules
     * that take the places of the old one's other children. Otherwise NULL. */
    ct_module *owner, *left[2];
} resized;

/* Writes the name of child i beside the Linear of a head, which dense or norm lies in; false: there
 * is none, or it is that of child 0. */
static bool beside_linear(const cti_lm_head *head, int i, char out[CTI_LM_PATH]) {
    const char *const paths[] = {head->dense, head->norm};
    char first[CTI_LM_PATH];
    if (!paths[i]) return false;
    snprintf(out, CTI_LM_PATH, "%s", paths[i] + strlen(head->bias_owner) + 1);
    out[strcspn(out, ".")] = 0;
    return i == 0 || !beside_linear(head, 0, first) || strcmp(first, out) != 0;
}

static const char *linear_name(const cti_lm_head *head) {
    return head->linear + strlen(head->bias_owner) + 1;
}

/* Makes the owner of the head's bias, with empty modules in the places of its other children. */
static bool bias_owner_make(const cti_lm *lm, resized *new) {
    const cti_lm_head *head = lm->config.head;
    ct_module *old = ct_module_child(lm->module, head->bias_owner);
    ct_module *owner = new->owner = ct_module_new(lm->context, ct_module_kind(old));
    char name[CTI_LM_PATH];
    for (int i = 0; i < 2; i++) {
        if (!beside_linear(head, i, name)) continue;
        new->left[i] = ct_module_new(lm->context, ct_module_kind(old));
        ct_module *moved = ct_module_new(lm->context, ct_module_kind(old));
        if (!ct_module_add_child(owner, name, moved)) ct_module_free(moved);
    }
    if (!cti_lm_is_ready(lm->context) ||
        !ct_module_add_param(owner, "bias", ct_module_get(new->linear, "bias")))
        return false;
    ct_module_train(owner, ct_module_training(old));
    if (!ct_module_add_child(owner, linear_name(head), new->linear)) return false;
    new->linear = NULL; /* it belongs to its owner now */
    return true;
}

/* Puts the owner in its place, with the old one's other children. Nothing can fail. */
static void bias_owner_place(const cti_lm *lm, const resized *new) {
    const cti_lm_head *head = lm->config.head;
    ct_module *old = ct_module_child(lm->module, head->bias_owner);
    char name[CTI_LM_PATH];
    for (int i = 0; i < 2; i++) {
        if (!beside_linear(head, i, name)) continue;
        ct_module *child = ct_module_set_child(old, name, new->left[i]);
        ct_module_free(ct_module_set_child(new->owner, name, child));
    }
    module_replace(lm, head->bias_owner, new->owner);
}

/* Whether the head's bias is also a parameter of its owner, as in a masked language model. */
static bool owner_has_bias(const cti_lm *lm, const ct_module *head) {
    const char *owner = lm->config.head->bias_owner;
    ct_tensor *bias = owner ? cti_lm_param(head, "bias") : NULL;
    return bias && cti_lm_param(ct_module_child(lm->module, owner), "bias") == bias;
}

/* The parameters of a new module require a gradient if the old ones do. This comes after all names
 * are set, because a module makes every parameter that it gets require a gradient. */
static bool want_as_before(const ct_module *new, const ct_module *old) {
    ct_param param = {0};
    while (new &&ct_module_next(new, &param))
        if (!ct_set_requires_grad(param.tensor, ct_requires_grad(cti_lm_param(old, param.name))))
            return false;
    return true;
}

/* Makes the new embedding and the new head, if there is one, and puts them in place. If it returns
 * false, nothing has changed. */
static bool resize_to(const cti_lm *lm, const char *embedding, const char *head, int64_t rows) {
    const ct_module *old_table = ct_module_child(lm->module, embedding),
                    *old_head = head ? ct_module_child(lm->module, head) : NULL;
    const bool tied = head && cti_lm_is_tied(lm);
    const bool shared = old_head && owner_has_bias(lm, old_head);
    resized new = {.table = grown_table(lm, old_table, rows)};
    if (new.table && head)
        new.linear =
            grown_head(lm, old_head, rows, tied ? cti_lm_param(new.table, "weight") : NULL);
    const ct_module *new_head = new.linear;
    const bool ok = new.table && (!head || new_head) && (!shared || bias_owner_make(lm, &new)) &&
                    want_as_before(new.table, old_table) && want_as_before(new_head, old_head);
    if (!ok) {
        ct_module_free(new.owner);
        ct_module_free(new.left[0]);
        ct_module_free(new.left[1]);
        ct_module_free(new.linear);
        ct_module_free(new.table);
        return false;
    }
    if (shared) bias_owner_place(lm, &new);
    else if (head) module_replace(lm, head, new.linear);
    module_replace(lm, embedding, new.table);
    return true;
}

/* Whether the embedding and the head are modules whose rows can be added to. */
static bool can_grow(const cti_lm *lm, const char *embedding, const char *head) {
    const ct_module *table = ct_module_child(lm->module, embedding),
                    *linear = head ? ct_module_child(lm->module, head) : NULL;
    if (!table || (head && !linear)) return false;
    if (!cti_nn_is_embedding(table))
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       "%s: %s must be an Embedding of this library; it is a %s of another type",
                       resize_name, embedding, ct_module_kind(table));
    const bool saved = cti_trained_is(table);
    if (saved || (head && cti_trained_is(linear)))
        return ct_fail(lm->context, CT_ERR_ARGUMENT,
                       "%s: %s has a trained copy (modules_to_save): resize before ct_lora_add, or "
                       "merge first",
                       resize_name, saved ? embedding : head);
    if (!is_resizable(lm, cti_lm_param(table, "weight"))) return false;
    if (!head || cti_nn_is_linear(linear))
        return !head || is_resizable(lm, cti_lm_param(linear, "weight"));
    if (cti_lora_is(linear))
        return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: %s has an adapter: merge it first",
                       resize_name, head);
    return ct_fail(lm->context, CT_ERR_ARGUMENT,
                   "%s: %s must be a Linear of this library; it is a %s of another type",
                   resize_name, head, ct_module_kind(linear));
}

bool ct_lm_resize(ct_module *module, int64_t vocab_size) {
    cti_lm *lm = cti_lm_of(module);
    if (!lm || !cti_lm_is_ready(lm->context)) return false;
    if (vocab_size >= (int64_t)1 << 31)
        return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: a vocabulary of %" PRId64, resize_name,
                       vocab_size);
    const double old = lm->config.number[CTI_LM_VOCAB];
    if ((double)vocab_size <= old) return true;
    const char *head = cti_lm_has_logits(lm) ? cti_lm_head_path(lm) : NULL;
    char path[CTI_LM_PATH];
    cti_lm_path(lm, lm->config.family->names.embed, path);
    if (!can_grow(lm, path, head)) return false;
    lm->config.number[CTI_LM_VOCAB] = (double)vocab_size;
    cti_lm_edit text;
    if (!config_text_make(lm, &text) || !resize_to(lm, path, head, vocab_size)) {
        cti_lm_edit_end(&text);
        lm->config.number[CTI_LM_VOCAB] = old;
        return false;
    }
    config_text_take(lm, &text);
    return true;
}
