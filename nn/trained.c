/* Parameters that are frozen for a time, and parameters with a trained copy; see switch.h. */
#include "switch.h"

#include <string.h>

#include "module.h"

/* ---- frozen for a time ---- */

/* A parameter of bf16 has no gradient, but an optimiser leaves it out only if it is frozen. */
void cti_nn_note_trained(ct_module *root) {
    ct_param param = {0};
    while (ct_module_next(root, &param)) {
        ct_tensor *t = param.tensor;
        t->thaws = ct_requires_grad(t) || (!cti_is_real(t->dtype) && !t->frozen);
    }
}

bool cti_nn_thaw(ct_module *root) {
    ct_param param = {0}, again = {0};
    bool ok = true;
    while (ok && ct_module_next(root, &param))
        if (param.tensor->thaws && cti_is_real(param.tensor->dtype))
            ok = ct_set_requires_grad(param.tensor, true) != NULL;
    while (ct_module_next(root, &again)) {
        ct_tensor *t = again.tensor;
        if (!t->thaws) continue;
        if (!ok && t->slot) {
            cti_grad_slot_disown(t->slot);
            t->slot = NULL;
        }
        t->frozen = !ok;
        if (ok) t->thaws = false;
    }
    return ok;
}

/* ---- trained copies ---- */

static cti_nn_entry *entry_at(const ct_param *param) {
    return (cti_nn_entry *)(uintptr_t)param->position[0];
}

static ct_tensor *trained_copy_of(const cti_nn_entry *entry) {
    return entry->trained->in_place ? entry->tensor : entry->trained->other;
}

ct_tensor *cti_trained_original(const ct_param *param) {
    return cti_trained_original_of(entry_at(param));
}

bool cti_trained_is(const ct_module *module) {
    const cti_nn_entry *entry = module->params;
    while (entry && !entry->trained) entry = entry->next;
    return entry;
}

bool cti_trained_is_whole(const ct_module *module) {
    ct_param param = {0};
    bool any = false;
    while (cti_nn_next_name(module, &param)) {
        if (!entry_at(&param)->trained) return false;
        any = true;
    }
    return any && module->type != &cti_nn_list_type;
}

bool cti_trained_next(const ct_module *root, ct_param *param) {
    while (cti_nn_next_name(root, param)) {
        const cti_nn_entry *entry = entry_at(param);
        if (!entry->trained) continue;
        param->tensor = trained_copy_of(entry);
        return true;
    }
    return false;
}

/* ---- making ---- */

/* Gives an entry a copy that is not in place. */
static bool copy_add(cti_nn_entry *entry, ct_tensor *copy) {
    ct_context *context = entry->module->context;
    cti_trained_copy *trained = copy ? cti_take_any(context, sizeof *trained) : NULL;
    if (!trained) return false;
    *trained = (cti_trained_copy){.other = copy};
    cti_nn_hold(entry, copy);
    entry->trained = trained;
    return true;
}

/* The copy of an earlier entry below the module whose original is the same tensor. */
static ct_tensor *copy_before(const ct_module *module, const cti_nn_entry *entry) {
    ct_param before = {0};
    if (entry->tensor->parameter == 1) return NULL;
    while (cti_trained_next(module, &before))
        if (cti_trained_original(&before) == entry->tensor) return before.tensor;
    return NULL;
}

/* A copy with the original's values, in the innermost scope. */
static ct_tensor *copy_new(const ct_module *module, const cti_nn_entry *entry) {
    ct_tensor *shared = copy_before(module, entry), *of = entry->tensor;
    if (shared) return shared;
    ct_tensor *copy =
        of->dtype == CT_F64 || of->dtype == CT_F32 ? ct_clone(ct_detach(of)) : ct_cast(of, CT_F32);
    return copy ? ct_set_requires_grad(copy, true) : NULL;
}

bool cti_trained_make(ct_module *module) {
    ct_param param = {0};
    bool ok = true;
    if (module->type == &cti_nn_list_type)
        return ct_fail(module->context, CT_ERR_ARGUMENT,
                       "modules_to_save: %s is a list of modules, which has no forward",
                       module->name ? module->name : "the root");
    ct_scope scope = ct_scope_open(module->context);
    while (ok && cti_nn_next_name(module, &param)) {
        cti_nn_entry *entry = entry_at(&param);
        if (!entry->trained) ok = copy_add(entry, copy_new(module, entry));
    }
    ct_scope_close(scope);
    return ok && cti_ready(module->context);
}

static cti_nn_entry *weight_entry(const ct_module *module) {
    cti_nn_entry *entry = module->params;
    while (entry && strcmp(entry->name, "weight") != 0) entry = entry->next;
    return entry;
}

bool cti_trained_share(ct_module *module, const ct_module *with) {
    return copy_add(weight_entry(module), trained_copy_of(weight_entry(with)));
}

/* ---- putting in place, and taking away ---- */

static void entry_exchange(cti_nn_entry *entry) {
    cti_trained_copy *trained = entry->trained;
    ct_tensor *tensor = entry->tensor;
    entry->tensor = trained->other, trained->other = tensor;
    trained->in_place = !trained->in_place;
    cti_nn_changed((ct_module *)entry->module);
}

void cti_trained_put(ct_module *root) {
    ct_param param = {0};
    while (cti_trained_next(root, &param))
        if (!entry_at(&param)->trained->in_place) entry_exchange(entry_at(&param));
}

void cti_trained_drop(ct_module *root) {
    ct_param param = {0};
    while (cti_trained_next(root, &param))
        if (!entry_at(&param)->trained->in_place) cti_trained_forget(entry_at(&param));
}

void cti_trained_exchange(ct_module *root) {
    ct_param param = {0};
    while (cti_trained_next(root, &param)) entry_exchange(entry_at(&param));
}

void cti_trained_end(ct_module *root) {
    ct_param param = {0};
    while (cti_trained_next(root, &param)) cti_trained_forget(entry_at(&param));
}

bool cti_trained_round(ct_module *root) {
    ct_param param = {0};
    bool ok = true;
    ct_scope scope = ct_scope_open_no_grad(root->context);
    while (ok && cti_trained_next(root, &param)) {
        const ct_dtype dtype = cti_trained_original(&param)->dtype;
        if (param.tensor->dtype == dtype) continue;
        ct_tensor *rounded = ct_cast(ct_detach(param.tensor), dtype);
        ok = rounded && ct_set_requires_grad(param.tensor, false);
        if (ok) cti_tensor_exchange(param.tensor, rounded);
    }
    ct_scope_close(scope);
    return ok && cti_ready(root->context);
}

/* ---- switching ---- */

bool cti_trained_reserve(ct_module *root) {
    ct_param param = {0};
    bool ok = true;
    while (ok && cti_trained_next(root, &param))
        ok = cti_switch_reserve(root->context, &entry_at(&param)->trained->power);
    return ok;
}

void cti_trained_set(ct_module *root, bool off) {
    ct_param param = {0};
    while (cti_trained_next(root, &param))
        cti_switch_set(root->context, &entry_at(&param)->trained->power, off);
}

/* ---- cloning ---- */

/* The clone of a copy: that of an earlier entry with the same copy, or a new one. Both trees are
 * walked together, as they have the same entries. */
static ct_tensor *copy_clone(ct_module *clone, const ct_module *root, const ct_tensor *copy) {
    ct_param from = {0}, to = {0};
    while (copy->parameter > 1 && cti_nn_next_name(root, &from) && cti_nn_next_name(clone, &to)) {
        const cti_nn_entry *entry = entry_at(&from), *cloned = entry_at(&to);
        if (entry->trained && cloned->trained && trained_copy_of(entry) == copy)
            return trained_copy_of(cloned);
    }
    ct_tensor *made = cti_tensor_new(clone->context, copy->dtype, copy->shape);
    if (!made) return NULL;
    cti_tensor_copy(made, copy, false);
    return ct_set_requires_grad(made, ct_requires_grad(copy));
}

bool cti_trained_clone(ct_module *clone, const ct_module *root) {
    ct_param from = {0}, to = {0};
    while (cti_nn_next_name(root, &from) && cti_nn_next_name(clone, &to)) {
        cti_nn_entry *entry = entry_at(&from), *cloned = entry_at(&to);
        if (!entry->trained) continue;
        if (!copy_add(cloned, copy_clone(clone, root, trained_copy_of(entry)))) return false;
        cloned->trained->power.off = entry->trained->power.off;
        trained_copy_of(cloned)->frozen = trained_copy_of(entry)->frozen;
    }
    cti_trained_put(clone);
    return true;
}
