/* What the weights of a model are now: a program may have converted them or replaced modules. */
#include <cotangent/tensor.h>

#include <string.h>

#include "lora.h"

const char *cti_lm_head_path(const cti_lm *lm) {
    switch (lm->config.head) {
    case CTI_LM_HEAD_MASKED: return "cls.predictions.decoder";
    case CTI_LM_HEAD_CLASSES: return "classifier";
    case CTI_LM_HEAD_CAUSAL:
    case CTI_LM_HEAD_BARE: break;
    }
    return lm->config.family->names.head;
}

bool cti_lm_has_logits(const cti_lm *lm) {
    return lm->config.head == CTI_LM_HEAD_CAUSAL || lm->config.head == CTI_LM_HEAD_MASKED;
}

ct_tensor *cti_lm_param(const ct_module *module, const char *name) {
    ct_param param = {0};
    while (module && ct_module_next(module, &param))
        if (!strcmp(param.name, name)) return param.tensor;
    return NULL;
}

/* A matrix of f32 among others of bf16 counts, as a file whose config.json says bfloat16 may be
 * read in bf16. Adapters are no part of that file. */
ct_dtype cti_lm_dtype(const cti_lm *lm) {
    bool half = false, single = false;
    ct_param param = {0};
    while (ct_module_next(lm->module, &param)) {
        const ct_dtype dtype = ct_dtype_of(param.tensor);
        if (dtype == CT_F64) return CT_F64;
        if (ct_shape_of(param.tensor).ndim != 2 || cti_lora_is(param.owner)) continue;
        half |= dtype == CT_BF16, single |= dtype == CT_F32;
    }
    return half && !single ? CT_BF16 : CT_F32;
}

bool cti_lm_is_tied(const cti_lm *lm) {
    char path[CTI_LM_PATH];
    cti_lm_path(lm, -1, lm->config.family->names.embed, path);
    const ct_module *table = ct_module_child(lm->module, path),
                    *head = ct_module_child(lm->module, cti_lm_head_path(lm));
    ct_tensor *weight = cti_lm_param(table, "weight");
    return weight && cti_lm_param(head, "weight") == weight;
}
