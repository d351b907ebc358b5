/* Modules of a program: with a type (ct_module_new_of), or with a name and a forward that is set
 * afterwards (ct_module_new); and how a module of any type is copied. */
#include "module.h"

#include <string.h>

/* ---- making ---- */

/* The block of a module of ct_module_new: a type of its own. */
typedef struct {
    ct_module_type type; /* must be first */
    char name[];
} own_type;

static bool module_has_own_type(const ct_module *module) { return module->type == module->block; }

static ct_module *own_new(ct_context *context, const char *name,
                          ct_tensor *(*forward)(void *self, ct_tensor *x)) {
    const size_t size = sizeof(own_type) + strlen(name) + 1;
    own_type *own = cti_take(context, size);
    if (!own) return NULL;
    own->type = (ct_module_type){.name = strcpy(own->name, name), .forward = forward};
    ct_module *module = cti_nn_new(context, &own->type, NULL, 0);
    if (!module) {
        cti_give(context, own, size);
        return NULL;
    }
    module->block = own, module->block_size = size;
    module->self = NULL;
    return module;
}

ct_module *ct_module_new(ct_context *context, const char *kind) {
    if (!cti_ready(context)) return NULL;
    if (!kind || !*kind)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "ct_module_new: a module needs the name of its kind");
    return own_new(context, kind, NULL);
}

ct_module *ct_module_set_forward(ct_module *module, ct_tensor *(*forward)(void *self, ct_tensor *x),
                                 void *self) {
    if (!cti_nn_ready(module, "ct_module_set_forward", NULL)) return NULL;
    if (!module_has_own_type(module))
        return ct_fail(module->context, CT_ERR_ARGUMENT,
                       "ct_module_set_forward: expected a Module of ct_module_new, got a %s, whose "
                       "forward is its type's",
                       cti_nn_kind_name(module));
    ((own_type *)module->block)->type.forward = forward;
    module->self = self;
    return module;
}

/* Gives the module its data, of which it is the owner now. */
static void module_set_data(ct_module *module, void *data) {
    module->self = data;
    module->ends_data = module->type->end;
    if (module->ends_data) cti_nn_functions_added(module);
}

ct_module *ct_module_new_of(ct_context *context, const ct_module_type *type, void *data) {
    if (!cti_ready(context)) return NULL;
    if (!type || !type->name || !*type->name)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "ct_module_new_of: a module needs a type with a name");
    if (type->end && !cti_functions_can_be_added(context)) return NULL;
    ct_module *module = cti_nn_new(context, type, NULL, 0);
    if (module) module_set_data(module, data);
    return module;
}

/* ---- children ---- */

ct_module *cti_nn_group(ct_module *module, const char *name, size_t length) {
    char group[CTI_NN_NAME_SIZE];
    if (!module) return NULL;
    snprintf(group, sizeof group, "%.*s", (int)length, name);
    ct_module *child = cti_nn_child(module, group);
    return child ? child : cti_nn_child_add(module, group, ct_module_new(module->context, "Group"));
}

ct_module *cti_nn_add_at(ct_module *module, const char *path, ct_module *child) {
    for (const char *dot; module && (dot = strchr(path, '.')); path = dot + 1)
        module = cti_nn_group(module, path, (size_t)(dot - path));
    return cti_nn_child_add(module, path, child);
}

ct_module *cti_nn_first_child(const ct_module *module) { return module->children; }
ct_module *cti_nn_next_child(const ct_module *child) { return child->next; }
const char *cti_nn_child_name(const ct_module *child) { return child->name; }

/* ---- using ---- */

bool ct_module_is(const ct_module *module, const ct_module_type *type) {
    return module && module->object.self == &module->object && type && module->type == type;
}

void *ct_module_data(const ct_module *module, const ct_module_type *type) {
    if (!module || !cti_object_is_open(&module->object, "ct_module_data")) return NULL;
    if (ct_module_is(module, type)) return module->self;
    return ct_fail(module->context, CT_ERR_ARGUMENT, "ct_module_data: expected a %s, got a %s",
                   type && type->name ? type->name : "type", cti_nn_kind_name(module));
}

const char *ct_module_kind(const ct_module *module) {
    if (!module || !cti_object_is_open(&module->object, "ct_module_kind")) return "";
    return cti_nn_kind_name(module);
}

ct_scope ct_module_enter(ct_module *module) {
    if (!cti_nn_ready(module, "ct_module_enter", NULL)) return (ct_scope){0};
    cti_span *span;
    const ct_scope scope = cti_scope_enter(module->context, &module->namer, &span);
    if (span) cti_nn_begin_span(module, span);
    return scope;
}

/* ---- copying ---- */

static ct_tensor *no_forward(void *self, ct_tensor *x) {
    (void)self;
    return ct_fail(x->context, CT_ERR_ARGUMENT,
                   "a clone has no forward, as its own would run the modules of the original: "
                   "ct_module_set_forward");
}

/* A `self` of ct_module_set_forward that is neither NULL nor the module is a program's struct,
 * which may point to the original's modules. So the copy gets neither `self` nor the forward. */
static ct_module *own_copy(const ct_module *from) {
    const ct_module_type *type = from->type;
    const bool known = !type->forward || !from->self || from->self == from;
    return own_new(from->context, type->name, known ? type->forward : no_forward);
}

ct_module *cti_nn_copy(const ct_module *from) {
    ct_module *to = module_has_own_type(from)
                        ? own_copy(from)
                        : cti_nn_new(from->context, from->type, from->block, from->block_size);
    if (!to) return NULL;
    to->self = from->self == from ? to : NULL;
    to->training = from->training;
    to->stays = from->stays;
    return to;
}

/* While clone runs, the copy counts as running, so that it cannot be freed. */
static void *data_clone(ct_module *to, const ct_module *from) {
    ct_context *context = to->context;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    frame.module = &to->namer;
    void *made = from->type->clone(from->self, to);
    if (!made)
        ct_fail(context, CT_ERR_ARGUMENT, "%s: it cannot be cloned: its clone returned NULL",
                cti_nn_kind_name(from));
    cti_frame_close(context, &frame);
    return made;
}

bool cti_nn_copy_data(ct_module *to, const ct_module *from) {
    const ct_module_type *type = from->type;
    if (module_has_own_type(from) || from->self == from) return cti_ready(to->context);
    if (from->self && !type->clone)
        return ct_fail(to->context, CT_ERR_ARGUMENT,
                       "%s: it cannot be cloned, as its type has no clone", cti_nn_kind_name(from));
    if (!cti_ready(to->context) || (type->end && !cti_functions_can_be_added(to->context)))
        return false;
    void *data = from->self ? data_clone(to, from) : NULL;
    if (data || !from->self) module_set_data(to, data);
    return cti_ready(to->context);
}
