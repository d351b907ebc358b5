/* Heads: which one a model has, by the options or by "architectures" of its config.json. */
#include <cotangent/autograd.h>

#include "lm.h"

/* ---- the table ---- */

const cti_lm_head *cti_lm_head_of(const cti_lm_family *family, ct_lm_head kind) {
    const cti_lm_head *head = family->heads;
    while (head->architecture && head->kind != kind) head++;
    return head->architecture ? head : NULL;
}

static const cti_lm_head *head_of_architecture(const cti_lm_family *family, cti_text name) {
    const cti_lm_head *head = family->heads;
    while (head->architecture && cti_text_compare(cti_text_of(head->architecture), name)) head++;
    return head->architecture ? head : NULL;
}

bool cti_lm_is_classifier(const cti_lm_config *config) {
    return config->head->kind == CT_LM_HEAD_SEQUENCE || config->head->kind == CT_LM_HEAD_TOKEN;
}

bool cti_lm_has_pooler(const cti_lm_config *config) {
    return config->head->pick == CTI_LM_POOLER ||
           (config->head->kind == CT_LM_HEAD_NONE && config->family->names.pooler &&
            !config->no_pooler);
}

const char *cti_lm_head_path(const cti_lm *lm) {
    const cti_lm_config *config = &lm->config;
    return config->head->linear ? config->head->linear : config->family->names.head;
}

bool cti_lm_has_logits(const cti_lm *lm) {
    const ct_lm_head kind = lm->config.head->kind;
    return kind == CT_LM_HEAD_CAUSAL || kind == CT_LM_HEAD_MASKED;
}

const char *cti_lm_head_text(ct_lm_head kind) {
    switch (kind) {
    case CT_LM_HEAD_FILE:
    case CT_LM_HEAD_NONE: break;
    case CT_LM_HEAD_CAUSAL: return "with a causal head";
    case CT_LM_HEAD_MASKED: return "with the head of a masked language model";
    case CT_LM_HEAD_SEQUENCE: return "with a classifier of sequences";
    case CT_LM_HEAD_TOKEN: return "with a classifier of tokens";
    }
    return "without a head";
}

/* ---- the choice ---- */

/* Finds the row that "architectures" names: NULL without an error if the key is missing, or if it
 * names anything else. */
static const cti_lm_head *head_of_file(const cti_lm_reader *reader, cti_json_at list) {
    const cti_json_tree *tree = reader->tree;
    const cti_json_at first = list ? cti_json_first(tree, list) : 0;
    return list && tree->value[list].kind == CTI_JSON_ARRAY && tree->value[list].count == 1 &&
                   tree->value[first].kind == CTI_JSON_STRING
               ? head_of_architecture(reader->config->family, cti_json_text(tree, first))
               : NULL;
}

bool cti_lm_head_read(const cti_lm_reader *reader, const ct_lm_opts *opts) {
    cti_lm_config *config = reader->config;
    const cti_lm_family *family = config->family;
    const cti_json_at list = cti_json_member(reader->tree, 0, "architectures");
    const bool is_absent = !list || reader->tree->value[list].kind == CTI_JSON_NULL;
    const cti_lm_head *own = head_of_file(reader, list);
    config->draws = opts->head != CT_LM_HEAD_FILE;
    config->head = config->draws ? cti_lm_head_of(family, opts->head)
                   : is_absent   ? family->heads
                                 : own;
    config->keeps_head = own == config->head || is_absent;
    if (config->head) return true;
    if (config->draws)
        return ct_fail(reader->context, CT_ERR_ARGUMENT, "%s: %s: .head: there is no %s %s",
                       reader->op, reader->path, family->model_type, cti_lm_head_text(opts->head));
    const cti_json_at first = cti_json_first(reader->tree, list);
    return cti_lm_refuse(reader, "architectures", first ? first : list,
                         "not an architecture of %s that is supported", family->model_type);
}
