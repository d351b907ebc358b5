/* Initial values of a new model, as transformers' _init_weights gives them. */
#include <cotangent/autograd.h>
#include <cotangent/init.h>
#include <cotangent/tensor.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "folder.h"

/* The standard deviation of a matrix: GPT-2 divides it in matrices whose results are added to the
 * residual stream (Radford et al. 2019). */
static double deviation_of(const cti_lm *lm, const char *name) {
    const double std = lm->config.number[CTI_LM_RANGE];
    const double layers = lm->config.number[CTI_LM_LAYERS];
    return lm->config.family->transposed && cti_lm_ends_with(name, "c_proj.weight")
               ? std / sqrt(2 * layers)
               : std;
}

/* Draws N(0, std^2). The numbers of a bf16 tensor are drawn in f32 and rounded. A new model of
 * blocks is drawn in f32 and converted (ct_lm_new). */
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

bool cti_lm_initialise_param(const cti_lm *lm, const ct_param *param) {
    const bool bias = cti_lm_ends_with(param->name, "bias");
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
static bool padding_clear(const cti_lm *lm, const char *table_name) {
    char path[CTI_LM_PATH], part[CTI_LM_PART];
    const int64_t pad = lm->config.pad;
    snprintf(part, sizeof part, "%s.weight", table_name);
    ct_scope scope = ct_scope_open_no_grad(lm->context);
    ct_tensor *table = ct_module_get(lm->module, cti_lm_path(lm, part, path));
    ct_tensor *row = ct_narrow(table, 0, pad, 1);
    const bool ok =
        row && ct_copy_into(row, ct_zeros(lm->context, ct_dtype_of(row), ct_shape_of(row)));
    ct_scope_close(scope);
    return ok;
}

/* Fills a table of positions (n, d): its row p has sin(p / 10000^(2i/d)) in dim 2i, and the cosine
 * of this angle in dim 2i + 1. */
static bool sines_fill(const cti_lm *lm) {
    char path[CTI_LM_PATH], part[CTI_LM_PART];
    snprintf(part, sizeof part, "%s.weight", lm->config.family->names.positions);
    ct_scope scope = ct_scope_open_no_grad(lm->context);
    ct_tensor *table = ct_module_get(lm->module, cti_lm_path(lm, part, path)),
              *sines = table ? ct_empty(lm->context, CT_F64, ct_shape_of(table)) : NULL;
    double *out = sines ? ct_data_f64(sines) : NULL;
    const int64_t n = out ? ct_dim(table, 0) : 0, d = out ? ct_dim(table, 1) : 0;
    for (int64_t p = 0; p < n; p++)
        for (int64_t i = 0; i < d; i++) {
            const double angle = (double)p / pow(10000, (double)(i - i % 2) / (double)d);
            out[p * d + i] = i % 2 ? cos(angle) : sin(angle);
        }
    const bool ok = out && ct_copy_into(table, ct_cast(sines, ct_dtype_of(table)));
    ct_scope_close(scope);
    return ok;
}

bool cti_lm_initialise(const cti_lm *lm) {
    ct_param param = {0};
    while (ct_module_next(lm->module, &param))
        if (!cti_lm_initialise_param(lm, &param)) return false;
    const cti_lm_family *family = lm->config.family;
    return cti_lm_is_ready(lm->context) &&
           (!cti_lm_has_padding(lm) || padding_clear(lm, family->names.embed)) &&
           (!family->behind_padding || padding_clear(lm, family->names.positions)) &&
           (lm->config.number[CTI_LM_SINES] <= 0 || sines_fill(lm));
}

/* ---- what the file lacks ---- */

/* The number of parameters that are drawn; with `names` it sets these. */
static int64_t drawn_list(const cti_lm *lm, const cti_lm_style *style, cti_text *names) {
    int64_t n = 0;
    ct_param param = {0};
    while (ct_module_next(lm->module, &param)) {
        if (!cti_lm_is_drawn(&lm->config, style, param.name)) continue;
        const cti_lm_known *known = names ? cti_lm_known_of(lm, param.name) : NULL;
        if (known) names[n] = cti_text_of(known->name); /* param.name ends with the next one */
        n++;
    }
    return n;
}

bool cti_lm_drawn_find(cti_lm *lm, const cti_lm_style *style) {
    const int64_t n = drawn_list(lm, style, NULL);
    const size_t bytes = cti_bytes(n, sizeof(cti_text));
    cti_text *names = n ? cti_take_any(lm->context, bytes) : NULL;
    if (n && !names) return false;
    drawn_list(lm, style, names);
    const bool ok = cti_lm_texts_copy(lm->context, names, n, &lm->drawn);
    if (n) cti_give_any(lm->context, names, bytes);
    return ok;
}

bool cti_lm_draw(const cti_lm *lm) {
    ct_param param = {0};
    int64_t i = 0; /* the names are in the order of the tree */
    while (i < lm->drawn.n && ct_module_next(lm->module, &param)) {
        if (strcmp(param.name, lm->drawn.at[i])) continue;
        if (!cti_lm_initialise_param(lm, &param)) return false;
        i++;
    }
    return true;
}
