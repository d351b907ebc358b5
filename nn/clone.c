/* clone: a copy of a tree of modules that shares no parameter and no buffer with it, as
 * copy.deepcopy of a torch module. */
#include "bare.h"
#include "module.h"
#include "switch.h"

/* ---- parameters and buffers ---- */

typedef struct {
    const ct_module *from; /* the roots of the two trees */
    ct_module *to;
} trees;

/* Returns the clone's copy of a tensor that has been copied under an earlier name (tied weights);
 * NULL if it has not. */
static ct_tensor *tensor_copied_before(const trees *t, const ct_tensor *tensor) {
    if (tensor->parameter == 1) return NULL;
    ct_param param = {0}, buffer = {0}; /* its first names; it may be a parameter and a buffer */
    while (ct_module_next(t->from, &param) && param.tensor != tensor) {}
    while (ct_module_next_buffer(t->from, &buffer) && buffer.tensor != tensor) {}
    ct_tensor *copy = param.tensor ? cti_nn_find(t->to, param.name) : NULL;
    return copy || !buffer.tensor ? copy : cti_nn_find(t->to, buffer.name);
}

static ct_tensor *tensor_clone(const trees *t, const ct_tensor *tensor) {
    ct_tensor *before = tensor_copied_before(t, tensor);
    if (before) return before;
    ct_tensor *copy = cti_nn_matrix_new(tensor->context, tensor->dtype, tensor->shape);
    if (copy) cti_tensor_copy(copy, tensor, false);
    return copy;
}

static bool tensors_copy(const trees *t, ct_module *to, const ct_module *from) {
    for (const cti_nn_entry *entry = from->params; entry; entry = entry->next) {
        ct_tensor *param = ct_module_add_param(to, entry->name, tensor_clone(t, entry->tensor));
        if (!param || !ct_set_requires_grad(param, ct_requires_grad(entry->tensor))) return false;
        param->frozen = entry->tensor->frozen;
        param->thaws = entry->tensor->thaws;
    }
    for (const cti_nn_entry *entry = from->buffers; entry; entry = entry->next) {
        ct_tensor *buffer = tensor_clone(t, entry->tensor);
        const bool trained = ct_requires_grad(buffer); /* it is a parameter under another name */
        if (trained) ct_set_requires_grad(buffer, false);
        if (!ct_module_add_buffer(to, entry->name, buffer, entry->persistent)) return false;
        if (trained) ct_set_requires_grad(buffer, true);
    }
    return true;
}

/* ---- the tree ---- */

static bool tree_copy(const trees *t, ct_module *to, const ct_module *from) {
    if (!tensors_copy(t, to, from)) return false;
    for (const ct_module *child = from->children; child; child = child->next) {
        ct_module *copy = cti_nn_copy(child);
        if (!copy || !cti_nn_child_add(to, child->name, copy) || !tree_copy(t, copy, child))
            return false;
    }
    return cti_nn_copy_data(to, from);
}

ct_module *ct_module_clone(const ct_module *module) {
    if (!cti_nn_ready(module, "ct_module_clone", NULL)) return NULL;
    ct_context *context = module->context;
    ct_module *from = (ct_module *)module, *clone = cti_nn_copy(module);
    if (!clone) return NULL;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    /* the originals of trained copies stand in their places meanwhile, where they may be tied */
    cti_trained_exchange(from);
    const bool copied = tree_copy(&(trees){from, clone}, clone, from);
    cti_trained_exchange(from);
    if (copied) cti_trained_clone(clone, from);
    cti_frame_close(context, &frame);
    return cti_nn_made(clone);
}
