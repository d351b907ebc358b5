/* Weights of the base model in a file of adapters. PEFT stores them beside the adapter of a head or
 * an embedding, and puts them in the place of the model's when it loads the file. */
#include "peft_base.h"

#include <cotangent/autograd.h>
#include <cotangent/ops.h>
#include <cotangent/tensor.h>

#include <stdio.h>
#include <string.h>

#include "lm.h"
#include "lora.h"

static const char base_layer[] = "." CTI_LORA_BASE ".";

/* The weight of the head, if that is its name: a tied one is listed under the embedding's name. */
static ct_tensor *head_weight(const ct_module *module, const char *name) {
    if (!ct_module_is(module, &cti_lm_type)) return NULL;
    const cti_lm *lm = cti_lm_of(module);
    char path[CTI_LM_PATH];
    snprintf(path, sizeof path, "%s.weight", cti_lm_has_logits(lm) ? cti_lm_head_path(lm) : "");
    if (strcmp(name, path)) return NULL;
    ct_module *head = ct_module_child(lm->module, cti_lm_head_path(lm));
    if (head && cti_lora_is(head)) head = ct_module_child(head, CTI_LORA_BASE);
    return head ? cti_lm_param(head, "weight") : NULL;
}

/* The parameter of the model that a name of the file stands for; NULL: there is none. */
static ct_tensor *base_param(const ct_module *module, const char *name) {
    char plain[CTI_LM_PATH];
    ct_tensor *param = cti_lm_param(module, name);
    const char *base = strstr(name, base_layer);
    if (param || strlen(name) >= sizeof plain) return param;
    if (base)
        snprintf(plain, sizeof plain, "%.*s.%s", (int)(base - name), name,
                 base + sizeof base_layer - 1);
    else snprintf(plain, sizeof plain, "%s", name);
    param = cti_lm_param(module, plain);
    return param ? param : head_weight(module, plain);
}

bool cti_peft_equal(ct_tensor *model, ct_tensor *file) {
    const ct_shape a = ct_shape_of(model), b = ct_shape_of(file);
    if (a.ndim != b.ndim) return false;
    for (int i = 0; i < a.ndim; i++)
        if (a.dim[i] != b.dim[i]) return false;
    if (ct_dtype_of(file) != ct_dtype_of(model)) file = ct_cast(file, ct_dtype_of(model));
    const ct_dtype dtype = ct_dtype_of(model);
    if (file && (dtype == CT_BF16 || dtype == CT_Q8_0 || dtype == CT_Q4_0))
        model = ct_cast(model, CT_F32), file = ct_cast(file, CT_F32);
    ct_tensor *all = file && model ? ct_all(ct_eq(model, file), (ct_shape){0}, false) : NULL;
    return all && ct_item(all) != 0;
}

bool cti_peft_check_base(ct_context *context, const ct_module *module, ct_safetensors *file,
                         const char *op, const char *path, const char *tensor) {
    const size_t n = sizeof CTI_PEFT_PREFIX - 1;
    ct_tensor *param = strncmp(tensor, CTI_PEFT_PREFIX, n) ? NULL : base_param(module, tensor + n);
    if (!param)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: \"%s\" is not a matrix of an adapter of this module", op, path,
                       tensor);
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *stored = ct_safetensors_read(file, tensor);
    const bool equal = stored && cti_peft_equal(param, stored);
    ct_scope_close(scope);
    if (equal || ct_error(context)) return equal;
    return ct_fail(context, CT_ERR_FORMAT,
                   "%s: %s: \"%s\" differs from the model's weight: the adapter is of another "
                   "model, or of one that was trained or grown further",
                   op, path, tensor);
}
