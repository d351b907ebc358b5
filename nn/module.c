/* The tree of modules: construction, names, lookup, destruction. */
#include "bare.h"
#include "module.h"
#include "names.h"
#include "../src/core/assert.h"

#include <math.h>
#include <string.h>

/* ---- making ---- */

static const char *module_path(const cti_namer *namer, char buffer[CTI_NAME_SIZE]);

ct_module *cti_nn_new(ct_context *context, const ct_module_type *type, const void *data,
                      size_t size) {
    ct_module *module = cti_object_new(context, sizeof *module, "module");
    if (!module) return NULL;
    module->namer.name = module_path;
    module->type = type;
    module->self = module;
    module->training = true;
    if (!size) return module;
    module->block = cti_take(context, size);
    module->block_size = size;
    if (module->block) {
        memcpy(module->block, data, size);
        return module;
    }
    cti_object_end(&module->object, type->name);
    return NULL;
}

ct_module *cti_nn_made(ct_module *module) {
    if (!module || cti_ready(module->context)) return module;
    ct_module_free(module);
    return NULL;
}

static void string_give(ct_context *context, char *string) {
    if (string) cti_give(context, string, strlen(string) + 1);
}

void cti_nn_changed(ct_module *module) {
    for (; module; module = module->parent) module->changes++;
}

static void child_unlink(ct_module *child) {
    if (!child->parent) return;
    cti_nn_changed(child->parent);
    ct_module **link = &child->parent->children;
    while (*link != child) {
        CTI_ASSERT(*link);
        link = &(*link)->next;
    }
    *link = child->next;
    child->parent = child->next = NULL;
    string_give(child->context, child->name);
    child->name = NULL;
}

/* ---- names ---- */

static ct_tensor *entry_tensor(const cti_nn_entry *entry) {
    const cti_trained_copy *trained = entry->trained;
    if (!trained) return entry->tensor;
    const bool original = cti_switch_is_off(entry->module->context, &trained->power);
    return original == trained->in_place ? trained->other : entry->tensor;
}

static ct_tensor *entry_named(const cti_nn_entry *entry, const char *name) {
    for (; entry; entry = entry->next)
        if (!strcmp(entry->name, name)) return entry_tensor(entry);
    return NULL;
}

ct_tensor *cti_nn_param(const ct_module *module, const char *name) {
    return entry_named(module->params, name);
}

ct_module *cti_nn_child(const ct_module *module, const char *name) {
    for (ct_module *child = module->children; child; child = child->next)
        if (!strcmp(child->name, name)) return child;
    return NULL;
}

/* The child whose name is the first `length` characters of name. */
static ct_module *child_named(const ct_module *module, const char *name, size_t length) {
    for (ct_module *child = module->children; child; child = child->next)
        if (!strncmp(child->name, name, length) && !child->name[length]) return child;
    return NULL;
}

static const ct_module *module_root(const ct_module *module) {
    while (module->parent) module = module->parent;
    return module;
}

static size_t entries_longest(const cti_nn_entry *entry) {
    size_t longest = 0;
    for (; entry; entry = entry->next) {
        size_t length = strlen(entry->name);
        if (length > longest) longest = length;
    }
    return longest;
}

/* Length in bytes of the longest name below the module, relative to it: "0.weight" */
static size_t module_longest_name(const ct_module *module) {
    const size_t params = entries_longest(module->params),
                 buffers = entries_longest(module->buffers);
    size_t longest = params > buffers ? params : buffers;
    for (ct_module *child = module->children; child; child = child->next) {
        size_t length = strlen(child->name) + 1 + module_longest_name(child);
        if (length > longest) longest = length;
    }
    return longest;
}

/* Does the full name from the root fit ct_param.buffer? This check also bounds the depth of a tree,
 * and with it the recursion in module_longest_name and module_print_at. `below` is the length of
 * the longest name below. */
static bool name_fits(const ct_module *module, const char *name, size_t below) {
    size_t length = strlen(name) + (below ? 1 + below : 0);
    for (const ct_module *m = module; m->parent; m = m->parent) length += strlen(m->name) + 1;
    if (length < CTI_NN_NAME_SIZE) return true;
    return ct_fail(module->context, CT_ERR_ARGUMENT,
                   "%s: a full name with \"%.40s\" takes %zu bytes, more than %d",
                   cti_nn_kind_name(module), name, length, (int)CTI_NN_NAME_SIZE - 1);
}

/* May a parameter, buffer or child be added under that name? */
static bool name_is_free(const ct_module *module, const char *name, size_t below) {
    ct_context *context = module->context;
    if (!name || !*name || strchr(name, '.')) {
        ct_fail(context, CT_ERR_ARGUMENT, "%s: a name may not be empty or have a dot: \"%s\"",
                cti_nn_kind_name(module), name ? name : "NULL");
        return false;
    }
    if (cti_nn_param(module, name) || entry_named(module->buffers, name) ||
        cti_nn_child(module, name)) {
        ct_fail(context, CT_ERR_ARGUMENT, "%s: there is a \"%s\" already", cti_nn_kind_name(module),
                name);
        return false;
    }
    return name_fits(module, name, below);
}

/* Writes the full name at the end of the buffer, from its last component to its first. It fits,
 * because name_is_free has checked its length. */
const char *cti_nn_full_name(const ct_module *root, const ct_module *owner, const char *name,
                             char buffer[CTI_NN_NAME_SIZE]) {
    char *at = buffer + CTI_NN_NAME_SIZE - 1 - strlen(name);
    strcpy(at, name);
    for (; owner != root; owner = owner->parent) {
        size_t length = strlen(owner->name);
        *--at = '.';
        at -= length;
        CTI_ASSERT(at >= buffer);
        memcpy(at, owner->name, length);
    }
    return at;
}

static const char *entry_name(const cti_namer *namer, char buffer[CTI_NAME_SIZE]) {
    const cti_nn_entry *entry = (const cti_nn_entry *)namer;
    return cti_nn_full_name(module_root(entry->module), entry->module, entry->name, buffer);
}

static const char *module_path(const cti_namer *namer, char buffer[CTI_NAME_SIZE]) {
    const ct_module *module = cti_nn_module_of(namer);
    return module->parent
               ? cti_nn_full_name(module_root(module), module->parent, module->name, buffer)
               : "";
}

void cti_nn_begin_span(const ct_module *module, cti_span *span) {
    if (!cti_profile_is_running(module->context)) return;
    char buffer[CTI_NAME_SIZE];
    const char *name = module_path(&module->namer, buffer);
    cti_span_begin_module(module->context, span, &module->namer,
                          *name ? name : cti_nn_kind_name(module));
}

/* ---- ending ---- */

/* The name of a freed module in debug mode: its kind and full name, "Linear layers.2.linear1". */
static void module_write_name(const ct_module *module, char text[CTI_OBJECT_NAME]) {
    char buffer[CTI_NAME_SIZE];
    const char *name = module_path(&module->namer, buffer);
    snprintf(text, CTI_OBJECT_NAME, "%.60s%s%s", cti_nn_kind_name(module), *name ? " " : "", name);
}

void cti_nn_let_go(cti_nn_entry *entry, ct_tensor *tensor) {
    CTI_ASSERT(tensor->parameter > 0);
    if (tensor->namer == &entry->namer) tensor->namer = NULL;
    if (--tensor->parameter == 0) cti_tensor_end(tensor);
}

void cti_trained_forget(cti_nn_entry *entry) {
    ct_context *context = entry->module->context;
    cti_trained_copy *trained = entry->trained;
    entry->trained = NULL;
    cti_switch_end(context, &trained->power);
    cti_nn_let_go(entry, trained->other);
    if (!entry->tensor->namer) entry->tensor->namer = &entry->namer;
    cti_give_any(context, trained, sizeof *trained);
}

static void entries_free(ct_context *context, cti_nn_entry *entry) {
    for (cti_nn_entry *next; entry; entry = next) {
        next = entry->next;
        if (entry->trained) cti_trained_forget(entry);
        cti_nn_let_go(entry, entry->tensor);
        string_give(context, entry->name);
        cti_give(context, entry, sizeof *entry);
    }
}

/* Is the module the one that a frame names, or above it? */
static bool module_is_above(const ct_module *module, const cti_namer *named) {
    const ct_module *m = named ? cti_nn_module_of(named) : NULL;
    while (m && m != module) m = m->parent;
    return m;
}

/* Is a forward or an optimiser's step of the module, or of a module below it, running? */
static bool module_is_running(const ct_module *module) {
    for (const cti_frame *frame = module->context->frame; frame; frame = frame->outer)
        if (module_is_above(module, frame->module) || module_is_above(module, frame->steps))
            return true;
    return false;
}

/* May all hooks of the tree end? If one may not, an error was recorded. */
static bool hooks_may_end(ct_module *root) {
    for (ct_module *module = root; module; module = cti_nn_after(root, module))
        for (const cti_hook *hook = module->hooks; hook; hook = hook->next)
            if (hook->may_end && !hook->may_end(hook, "ct_module_free")) return false;
    return true;
}

static void module_end(ct_module *module) {
    ct_context *context = module->context;
    CTI_ASSERT(!module->ends_data && !module->object.hook.link);
    char text[CTI_OBJECT_NAME] = "";
    if (context->debug) module_write_name(module, text);
    while (module->hooks) cti_hook_end(module->hooks);
    while (module->children) module_end(module->children);
    entries_free(context, module->params);
    entries_free(context, module->buffers);
    child_unlink(module);
    CTI_ASSERT(!module->parent && !module->name);
    cti_give(context, module->block, module->block_size);
    cti_object_end(&module->object, text);
}

void ct_module_free(ct_module *module) {
    if (!module || module->object.self != &module->object) return;
    if (module_is_running(module)) {
        ct_fail(module->context, CT_ERR_ARGUMENT,
                "ct_module_free: the %s is running: free it when its forward, or the step of its "
                "optimiser, has returned",
                cti_nn_kind_name(module));
        return;
    }
    if (!hooks_may_end(module)) return;
    cti_nn_run_functions(module);
    module_end(module);
}

/* ---- building a tree ---- */

/* May the module hold the tensor under that name? `noun` is "parameter" or "buffer". */
static bool module_can_hold(const ct_module *module, const char *noun, const char *name,
                            const ct_tensor *tensor) {
    ct_context *context = module->context;
    const char *kind = cti_nn_kind_name(module);
    if (!tensor)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the %s \"%s\" is NULL", kind, noun,
                       name ? name : "NULL");
    if (!cti_tensor_in(tensor, context, kind) || !cti_tensor_has_values(tensor, kind)) return false;
    if (!name_is_free(module, name, 0)) return false;
    if (!tensor->contiguous && !cti_is_blocks(tensor->dtype))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: %s %s is not contiguous", kind, name,
                       SHAPE(tensor->shape));
    if (!tensor->parameter && !tensor->frame)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "%s: %s is a gradient or a saved tensor; a %s must be of its own", kind,
                       name, noun);
    return true;
}

void cti_nn_hold(cti_nn_entry *entry, ct_tensor *tensor) {
    if (!tensor->parameter++) {
        cti_tensor_disown(tensor);
        tensor->namer = NULL;
    }
    if (!tensor->namer) tensor->namer = &entry->namer;
}

/* Appends an entry to one of the module's lists; the module then holds the tensor. */
static cti_nn_entry *entry_append(ct_module *module, cti_nn_entry **list, const char *name,
                                  ct_tensor *tensor) {
    ct_context *context = module->context;
    cti_nn_entry *entry = cti_take(context, sizeof *entry);
    if (!entry) return NULL;
    *entry = (cti_nn_entry){.namer = {entry_name},
                            .module = module,
                            .tensor = tensor,
                            .name = cti_string_take(context, name)};
    if (!entry->name || (list == &module->params && cti_is_real(tensor->dtype) &&
                         !ct_set_requires_grad(tensor, true))) {
        string_give(context, entry->name);
        cti_give(context, entry, sizeof *entry);
        return NULL;
    }
    cti_nn_hold(entry, tensor);
    while (*list) list = &(*list)->next;
    *list = entry;
    return entry;
}

ct_tensor *ct_module_add_param(ct_module *module, const char *name, ct_tensor *tensor) {
    if (!cti_nn_ready(module, "ct_module_add_param", tensor)) return NULL;
    if (!module_can_hold(module, "parameter", name, tensor)) return NULL;
    if (tensor->dtype == CT_I64 || tensor->dtype == CT_BOOL)
        return ct_fail(module->context, CT_ERR_DTYPE,
                       "%s: %s is %s; a parameter is f32, f64, bf16 or blocks",
                       cti_nn_kind_name(module), name, cti_dtype_name(tensor->dtype));
    if (!entry_append(module, &module->params, name, tensor)) return NULL;
    cti_nn_changed(module);
    return tensor;
}

ct_tensor *ct_module_add_buffer(ct_module *module, const char *name, ct_tensor *tensor,
                                bool persistent) {
    if (!cti_nn_ready(module, "ct_module_add_buffer", tensor)) return NULL;
    if (!module_can_hold(module, "buffer", name, tensor)) return NULL;
    if (cti_is_blocks(tensor->dtype))
        return ct_fail(module->context, CT_ERR_DTYPE, "%s: %s is %s, which is for parameters",
                       cti_nn_kind_name(module), name, cti_dtype_name(tensor->dtype));
    if (ct_requires_grad(tensor))
        return ct_fail(module->context, CT_ERR_ARGUMENT,
                       "%s: %s requires a gradient; a buffer has none", cti_nn_kind_name(module),
                       name);
    cti_nn_entry *entry = entry_append(module, &module->buffers, name, tensor);
    if (!entry) return NULL;
    entry->persistent = persistent;
    return tensor;
}

ct_dtype cti_nn_dtype_at_rest(ct_dtype dtype, const ct_shape *shape) {
    const bool fits = shape->ndim == 2 && shape->dim[1] % CTI_BLOCK_LENGTH == 0;
    return cti_is_blocks(dtype) && !fits ? CT_BF16 : dtype;
}

ct_tensor *cti_nn_matrix_new(ct_context *context, ct_dtype dtype, ct_shape shape) {
    if (!cti_ready(context)) return NULL;
    const bool exists = (unsigned)dtype < CTI_DTYPES;
    if (exists) dtype = cti_nn_dtype_at_rest(dtype, &shape);
    return exists && cti_is_blocks(dtype) ? cti_tensor_new(context, dtype, shape)
                                          : ct_empty(context, dtype, shape);
}

ct_tensor *cti_nn_param_new(ct_module *module, const char *name, ct_dtype dtype, ct_shape shape) {
    cti_frame frame;
    cti_frame_open(module->context, &frame, false);
    ct_tensor *tensor =
        ct_module_add_param(module, name, cti_nn_matrix_new(module->context, dtype, shape));
    cti_frame_close(module->context, &frame);
    return tensor;
}

/* Are both open, and is no error pending? A NULL module is an error of the child's context. */
static bool module_can_add(const ct_module *module, const char *function, const ct_module *child) {
    ct_context *beside = child ? child->context : NULL;
    if (module && child && child->object.self != &child->object)
        return cti_object_in(&child->object, module->context, function);
    return (!child || cti_object_is_open(&child->object, function)) &&
           cti_object_is_ready(module ? &module->object : NULL, function, "module", beside);
}

/* May the module own the child? It must have no parent, and be of the same context. */
static bool module_can_own(const ct_module *module, const char *name, const ct_module *child) {
    ct_context *context = module->context;
    const char *kind = cti_nn_kind_name(module);
    if (!child)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the child \"%s\" is NULL", kind,
                       name ? name : "NULL");
    if (child->context != context)
        return cti_fail_in_both(context, child->context, CT_ERR_ARGUMENT,
                                "%s: the child is of another context", kind);
    if (child->parent)
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the %s has a parent already", kind,
                       cti_nn_kind_name(child));
    if (child == module_root(module))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: a module cannot be inside itself", kind);
    if (cti_nn_is_ending(module))
        return ct_fail(context, CT_ERR_ARGUMENT, "%s: the module is being freed", kind);
    return true;
}

ct_module *ct_module_add_child(ct_module *module, const char *name, ct_module *child) {
    if (!module_can_add(module, "ct_module_add_child", child) ||
        !module_can_own(module, name, child) ||
        !name_is_free(module, name, module_longest_name(child)))
        return NULL;
    child->name = cti_string_take(module->context, name);
    if (!child->name) return NULL;
    child->parent = module;
    ct_module **end = &module->children;
    while (*end) end = &(*end)->next;
    *end = child;
    cti_nn_changed(module);
    return child;
}

ct_module *cti_nn_child_add(ct_module *module, const char *name, ct_module *child) {
    if (ct_module_add_child(module, name, child)) return child;
    ct_module_free(child);
    return NULL;
}

const ct_module_type cti_nn_list_type = {.name = "ModuleList"};

ct_module *ct_module_append(ct_module *module, const char *list, ct_module *child) {
    if (!module_can_add(module, "ct_module_append", child)) return NULL;
    ct_module *children = list ? cti_nn_child(module, list) : NULL, *made = NULL;
    if (!children)
        children = made =
            cti_nn_child_add(module, list, cti_nn_new(module->context, &cti_nn_list_type, NULL, 0));
    if (!children) return NULL;
    if (children->type != &cti_nn_list_type)
        return ct_fail(module->context, CT_ERR_ARGUMENT, "%s: \"%s\" is a %s, not a list",
                       cti_nn_kind_name(module), list, cti_nn_kind_name(children));
    int64_t last = -1;
    /* a name that is not a number leaves `last` unchanged */
    for (ct_module *m = children->children; m; m = m->next) sscanf(m->name, "%" SCNd64, &last);
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, last + 1);
    if (ct_module_add_child(children, name, child)) return child;
    ct_module_free(made);
    return NULL;
}

/* ---- lookup ---- */

/* The owner of "a.b.c" is child a.b; *last is set to "c". NULL if there is no such child. */
static const ct_module *path_owner(const ct_module *module, const char *name, const char **last) {
    for (const char *dot; module && (dot = strchr(name, '.')); name = dot + 1)
        module = child_named(module, name, (size_t)(dot - name));
    *last = name;
    return module;
}

ct_module *cti_nn_child_at(const ct_module *module, const char *path) {
    const char *last;
    const ct_module *owner = path_owner(module, path, &last);
    return owner ? cti_nn_child(owner, last) : NULL;
}

ct_module *ct_module_child(ct_module *module, const char *name) {
    if (!module || !cti_object_is_open(&module->object, "ct_module_child")) return NULL;
    ct_module *child = name ? cti_nn_child_at(module, name) : NULL;
    if (!child)
        ct_fail(module->context, CT_ERR_ARGUMENT, "%s: no child \"%s\"", cti_nn_kind_name(module),
                name ? name : "NULL");
    return child;
}

ct_module *ct_module_set_child(ct_module *module, const char *path, ct_module *child) {
    if (!module_can_add(module, "ct_module_set_child", child)) return NULL;
    ct_module *old = ct_module_child(module, path);
    if (!old) return NULL;
    ct_module *owner = old->parent;
    if (!module_can_own(owner, old->name, child) ||
        !name_fits(owner, old->name, module_longest_name(child)))
        return NULL;
    ct_module **link = &owner->children;
    while (*link != old) link = &(*link)->next;
    *link = child;
    child->name = old->name, child->parent = owner, child->next = old->next;
    old->name = NULL, old->parent = old->next = NULL;
    cti_nn_changed(owner);
    return old;
}

ct_tensor *cti_nn_find(const ct_module *module, const char *name) {
    const char *last;
    const ct_module *owner = path_owner(module, name, &last);
    if (!owner) return NULL;
    ct_tensor *param = cti_nn_param(owner, last);
    return param ? param : entry_named(owner->buffers, last);
}

ct_tensor *ct_module_get(ct_module *module, const char *name) {
    if (!module || !cti_object_is_open(&module->object, "ct_module_get")) return NULL;
    ct_tensor *tensor = name ? cti_nn_find(module, name) : NULL;
    if (!tensor)
        ct_fail(module->context, CT_ERR_ARGUMENT, "%s: no parameter \"%s\"",
                cti_nn_kind_name(module), name ? name : "NULL");
    return tensor;
}

/* ---- options ---- */

bool cti_nn_check_size(ct_context *context, const ct_module_type *type, const char *option,
                       int64_t value, int64_t least) {
    if (value >= least) return true;
    ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is %" PRId64 ", must be at least %" PRId64,
            type->name, option, value, least);
    return false;
}

bool cti_nn_check_chance(ct_context *context, const ct_module_type *type, const char *option,
                         double value) {
    if (value >= 0 && value <= 1) return true;
    ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is %g, must be between 0 and 1", type->name, option,
            value);
    return false;
}

bool cti_nn_check_number(ct_context *context, const char *owner, const char *option, double value) {
    if (!cti_ready(context)) return false;
    if (value >= 0 && isfinite(value)) return true;
    ct_fail(context, CT_ERR_ARGUMENT, "%s: %s is %g, must be a number of at least 0", owner, option,
            value);
    return false;
}
