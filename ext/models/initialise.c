/* Initial values of a new model, as transformers' _init_weights gives them. */
#include <cotangent/autograd.h>
#include <cotangent/init.h>
#include <cotangent/tensor.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lm.h"

static bool ends_with(const char *name, const char *end) {
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && !strcmp(name + n - m, end);
}

/* The standard deviation of a matrix: GPT-2 divides it in matrices whose results are added to the
 * residual stream (Radford et al. 2019). */
static double deviation_of(const cti_lm *lm, const char *name) {
    const double std = lm->config.number[CTI_LM_RANGE];
    const double layers = lm->config.number[CTI_LM_LAYERS];
    return lm->config.family->transposed && ends_with(name, "c_proj.weight")
               ? std / sqrt(2 * layers)
               : std;
}

/* Draws N(0, std^2). The numbers of a bf16 tensor are drawn in f32 and rounded. */
static bool normal_draw(ct_tensor *tensor, double std) {
    if (ct_dtype_of(tensor) != CT_BF16) return ct_init_normal(tensor, 0, std);
    ct_context *context = ct_context_of(tensor);
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *drawn = ct_empty(context, CT_F32, ct_shape_of(tensor));
    const bool ok =
        drawn && ct_init_normal(drawn, 0, std) && ct_copy_into(tensor, ct_cast(drawn, CT_BF16));
    ct_scope_close(scope);
    return ok;
}

static bool parameter_initialise(const cti_lm *lm, const ct_param *param) {
    const bool bias = ends_with(param->name, "bias");
    if (bias || ct_shape_of(param->tensor).ndim == 1)
        return ct_init_constant(param->tensor, bias ? 0 : 1 - lm->config.family->norm_offset);
    return normal_draw(param->tensor, deviation_of(lm, param->name));
}

bool cti_lm_has_padding(const cti_lm *lm) {
    const int64_t pad = lm->config.pad;
    return lm->config.family->padding_idx && pad >= 0 &&
           pad < cti_lm_integer(&lm->config, CTI_LM_VOCAB);
}

/* The row of the padding id is 0 in the families whose embedding has a padding_idx. */
static bool padding_clear(const cti_lm *lm) {
    char path[CTI_LM_PATH], part[CTI_LM_PART];
    const cti_lm_names *names = &lm->config.family->names;
    const int64_t pad = lm->config.pad;
    if (!cti_lm_has_padding(lm)) return true;
    snprintf(part, sizeof part, "%s.weight", names->embed);
    ct_scope scope = ct_scope_open_no_grad(lm->context);
    ct_tensor *table = ct_module_get(lm->module, cti_lm_path(lm, part, path));
    ct_tensor *row = ct_narrow(table, 0, pad, 1);
    const bool ok =
        row && ct_copy_into(row, ct_zeros(lm->context, ct_dtype_of(row), ct_shape_of(row)));
    ct_scope_close(scope);
    return ok;
}

bool cti_lm_initialise(const cti_lm *lm) {
    ct_param param = {0};
    while (ct_module_next(lm->module, &param))
        if (!parameter_initialise(lm, &param)) return false;
    return cti_lm_is_ready(lm->context) && padding_clear(lm);
}
