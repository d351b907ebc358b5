/* What the weights of a model are now: a program may have converted them or replaced modules. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <stdio.h>
#include <string.h>

#include "../../nn/bare.h"
#include "../../src/core/assert.h"
#include "lora.h"
#include "sentence_vector.h"

ct_tensor *cti_lm_param(const ct_module *module, const char *name) {
    ct_param param = {0};
    while (module && ct_module_next(module, &param))
        if (!strcmp(param.name, name)) return param.tensor;
    return NULL;
}

/* A matrix of f32 among others of bf16 counts, as a file whose config.json says bfloat16 may be
 * read in bf16. Adapters are no part of that file, and tables of positions and types stay f32. */
ct_dtype cti_lm_dtype(const cti_lm *lm) {
    bool rest = false, single = false;
    ct_param param = {0};
    while (ct_module_next(lm->module, &param)) {
        const ct_dtype dtype = ct_dtype_of(param.tensor);
        if (dtype == CT_F64) return CT_F64;
        if (ct_shape_of(param.tensor).ndim != 2 || cti_lora_is(param.owner) ||
            cti_trained_original(&param) || cti_nn_stays(param.owner))
            continue;
        single |= dtype == CT_F32, rest |= dtype != CT_F32;
    }
    return rest && !single ? CT_BF16 : CT_F32;
}

bool cti_lm_is_tied(const cti_lm *lm) {
    char path[CTI_LM_PATH];
    cti_lm_path(lm, lm->config.family->names.embed, path);
    const ct_module *table = ct_module_child(lm->module, path),
                    *head = ct_module_child(lm->module, cti_lm_head_path(lm));
    ct_tensor *weight = cti_lm_param(table, "weight");
    return weight && cti_lm_param(head, "weight") == weight;
}

/* ---- what a folder can hold ---- */

/* Whether this is the second name of the head's bias, "cls.predictions.bias". */
static bool is_owned_bias(const cti_lm *lm, const char *name) {
    const char *owner = lm->config.head->bias_owner;
    const size_t n = owner ? strlen(owner) : 0;
    return owner && !strncmp(name, owner, n) && !strcmp(name + n, ".bias");
}

/* Whether the module has no other mathematics than config.json says. */
static bool is_of_config(const cti_lm *lm, const ct_param *param) {
    const double eps = lm->config.number[CTI_LM_EPS];
    const ct_layer_norm_opts *layer = cti_nn_layer_norm_of(param->owner);
    const ct_rms_norm_opts *rms = cti_nn_rms_norm_of(param->owner);
    if (rms)
        return lm->config.family->rms && rms->eps == eps &&
               rms->offset == lm->config.family->norm_offset;
    if (layer) return !lm->config.family->rms && layer->eps == eps;
    return cti_nn_is_linear(param->owner) || cti_nn_is_embedding(param->owner) ||
           is_owned_bias(lm, param->name);
}

const cti_lm_known *cti_lm_known_of(const cti_lm *lm, const char *name) {
    for (int64_t i = 0; i < lm->n_known; i++)
        if (!strcmp(lm->known[i].name, name)) return &lm->known[i];
    return NULL;
}

/* Whether this is the name of the head's weight. A tied head has none, and config.json says whether
 * it is tied. */
static bool is_head_weight(const cti_lm *lm, const char *name) {
    char path[CTI_LM_PATH];
    snprintf(path, sizeof path, "%s.weight", cti_lm_has_logits(lm) ? cti_lm_head_path(lm) : "");
    return !strcmp(name, path);
}

/* The shape that config.json gives a parameter of the family. Those with a row for each id may have
 * got more rows. */
static ct_shape shape_of_config(const cti_lm *lm, const char *name) {
    char table[CTI_LM_PATH], part[CTI_LM_PART];
    snprintf(part, sizeof part, "%s.weight", lm->config.family->names.embed);
    cti_lm_path(lm, part, table);
    const bool is_head = is_head_weight(lm, name);
    const cti_lm_known *known = cti_lm_known_of(lm, is_head ? table : name);
    CTI_ASSERT(known);
    ct_shape shape = known->shape;
    if (is_head || !strcmp(name, table) || is_owned_bias(lm, name))
        shape.dim[0] = cti_lm_integer(&lm->config, CTI_LM_VOCAB);
    return shape;
}

static bool has_shape(const ct_tensor *tensor, ct_shape want) {
    const ct_shape got = ct_shape_of(tensor);
    bool same = got.ndim == want.ndim;
    for (int d = 0; same && d < want.ndim; d++) same = got.dim[d] == want.dim[d];
    return same;
}

/* The first parameter of the family that the tree lacks; NULL: none. */
static const char *missing_name(const cti_lm *lm) {
    for (int64_t i = 0; i < lm->n_known; i++) {
        const char *name = lm->known[i].name;
        if (!cti_lm_param(lm->module, name) && !(is_head_weight(lm, name) && cti_lm_is_tied(lm)))
            return name;
    }
    return NULL;
}

/* Whether each Dense is the one of modules.json. */
static bool has_dense_modules(const cti_lm *lm, const char *op) {
    for (int i = 0; i < lm->sentence.steps; i++) {
        const cti_lm_step *step = &lm->sentence.step[i];
        if (step->kind == CTI_LM_STEP_DENSE && !*lm->sentence.refused &&
            !ct_module_is(ct_module_child(lm->module, step->path), &cti_dense_type))
            return ct_fail(lm->context, CT_ERR_ARGUMENT,
                           "%s: %s is no Dense as modules.json says (ct_save writes any module)",
                           op, step->path);
    }
    return true;
}

bool cti_lm_is_of_family(const cti_lm *lm, const char *op) {
    static const char remedy[] = "ct_save writes any module";
    const char *family = lm->config.family->model_type;
    ct_param param = {0};
    while (ct_module_next(lm->module, &param)) {
        if (!cti_lm_known_of(lm, param.name) && !is_head_weight(lm, param.name))
            return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: %s is no parameter of a %s (%s)", op,
                           param.name, family, remedy);
        if (!is_of_config(lm, &param))
            return ct_fail(lm->context, CT_ERR_ARGUMENT,
                           "%s: %s belongs to a %s that config.json cannot describe: a folder is "
                           "read with the modules of a %s (%s)",
                           op, param.name, ct_module_kind(param.owner), family, remedy);
        if (!has_shape(param.tensor, shape_of_config(lm, param.name)))
            return ct_fail(lm->context, CT_ERR_ARGUMENT,
                           "%s: %s has another shape than config.json says (%s)", op, param.name,
                           remedy);
    }
    if (!has_dense_modules(lm, op)) return false;
    const char *missing = missing_name(lm);
    return !missing ||
           ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: a %s has %s, but this one has not (%s)", op,
                   family, missing, remedy);
}
