/* Walks over the tree of modules: parameters, buffers, training mode. */
#include "module.h"

/* Depth first as torch's named_parameters: a module's own parameters, then its children's, each in
 * the order in which they were added. Buffers likewise. */

typedef enum { PARAMS, BUFFERS } list;

static cti_nn_entry *list_first(const ct_module *module, list of) {
    return of == PARAMS ? module->params : module->buffers;
}

/* The entry after `entry` of *owner in the tree below root (entry NULL: the first of *owner). Sets
 * *owner to the module that has it. */
static cti_nn_entry *entry_after(const ct_module *root, cti_nn_entry *entry, ct_module **owner,
                                 list of) {
    cti_nn_entry *next = entry ? entry->next : list_first(*owner, of);
    while (!next) {
        *owner = cti_nn_after(root, *owner);
        if (!*owner) return NULL;
        next = list_first(*owner, of);
    }
    return next;
}

/* Whether the tensor has an earlier name in the tree below root, so that this name is skipped. */
static bool entry_named_before(const ct_module *root, const cti_nn_entry *entry, list of) {
    if (entry->tensor->parameter == 1) return false;
    ct_module *owner = (ct_module *)root;
    cti_nn_entry *before = NULL;
    do before = entry_after(root, before, &owner, of);
    while (before->tensor != entry->tensor);
    return before != entry;
}

/* Whether the entry that an iteration has reached is still in the tree below root. Its owner may
 * have been freed or removed from the tree between two calls. */
static bool param_is_below(const ct_module *root, const ct_param *at, list of,
                           const char *function) {
    const ct_module *module = at->owner;
    if (!cti_object_is_open(&module->object, function)) return false;
    const cti_nn_entry *entry = list_first(module, of);
    while (entry && (uintptr_t)entry != at->position[0]) entry = entry->next;
    while (entry && module && module != root) module = module->parent;
    if (entry && module) return true;
    return ct_fail(root->context, CT_ERR_ARGUMENT,
                   "%s: the %s of the last call has left the tree of the %s", function,
                   cti_nn_kind_name(at->owner), cti_nn_kind_name(root));
}

/* position[0] is the entry that was returned last; position[1] is true after the last. */
static bool param_iterate(const ct_module *module, ct_param *param, list of, bool every_name,
                          const char *function) {
    if (!module || !param || param->position[1]) return false;
    if (!cti_object_is_open(&module->object, function)) return false;
    cti_nn_entry *entry = (cti_nn_entry *)(uintptr_t)param->position[0];
    if (!entry) param->owner = (ct_module *)module;
    else if (!param_is_below(module, param, of, function)) return false;
    do entry = entry_after(module, entry, &param->owner, of);
    while (entry && !every_name && entry_named_before(module, entry, of));
    param->position[0] = (uintptr_t)entry;
    param->position[1] = !entry;
    param->tensor = entry ? entry->tensor : NULL;
    param->name = entry ? cti_nn_full_name(module, param->owner, entry->name, param->buffer) : NULL;
    return entry;
}

bool ct_module_next(const ct_module *module, ct_param *param) {
    return param_iterate(module, param, PARAMS, false, "ct_module_next");
}

bool cti_nn_next_name(const ct_module *module, ct_param *param) {
    return param_iterate(module, param, PARAMS, true, "cti_nn_next_name");
}

bool ct_module_next_buffer(const ct_module *module, ct_param *buffer) {
    return param_iterate(module, buffer, BUFFERS, false, "ct_module_next_buffer");
}

bool cti_nn_next_buffer_name(const ct_module *module, ct_param *buffer) {
    return param_iterate(module, buffer, BUFFERS, true, "cti_nn_next_buffer_name");
}

int64_t ct_module_count(const ct_module *module) {
    int64_t count = 0;
    for (ct_param param = {0}; ct_module_next(module, &param);) count += ct_numel(param.tensor);
    return count;
}

void ct_module_train(ct_module *module, bool training) {
    if (!cti_nn_ready(module, "ct_module_train", NULL)) return;
    for (ct_module *m = module; m; m = cti_nn_after(module, m)) m->training = training;
}

bool ct_module_training(const ct_module *module) {
    return module && cti_object_is_open(&module->object, "ct_module_training") && module->training;
}
