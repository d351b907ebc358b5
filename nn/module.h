/* The struct behind ct_module, and helpers for the types of modules. Errors are sticky, so a
 * constructor is a plain list of steps: after a failure the later steps do nothing, and cti_nn_made
 * at the end frees the incomplete module.
 *
 * (1) Modules form a tree: a module has one parent or none, and is in its parent's list of children
 * exactly if it has one.
 *
 * (2) A name of a parameter, buffer or child is unique in its module, has no dot, and its full name
 * from the root fits CTI_NN_NAME_SIZE.
 *
 * (3) tensor->parameter counts the entries and optimisers that hold the tensor. The tensor ends
 * with the last one. An entry with a trained copy (switch.h) holds two.
 *
 * (4) `changes` of a module grows with each change of the parameters or children in its tree.
 *
 * (5) Every module has a type. Its functions get `self`:
 *
 *                               type                      self
 *     the library's modules     static, one for a kind    the module; its options are in block
 *     of ct_module_new_of       the program's             the program's data
 *     of ct_module_new          in block                  of ct_module_set_forward
 *
 * (6) A module owns `block`. A clone has its own. */
#ifndef CTI_NN_MODULE_H
#define CTI_NN_MODULE_H

#include <inttypes.h>

#include <cotangent/init.h>
#include <cotangent/nn.h>
#include <cotangent/ops.h>
#include <cotangent/optim.h>

#include "../ops/update/update.h"
#include "../src/core/assert.h"
#include "../src/core/option.h"
#include "../src/core/profile.h"
#include "../src/autograd/tape.h"
#include "names.h"
#include "switch.h"

/* The other tensor of a parameter with a trained copy (switch.h). */
typedef struct {
    ct_tensor *other; /* the tensor that is not in place */
    bool in_place;    /* entry->tensor is the copy, and the other one the original */
    cti_switch power; /* of ct_lora_enable */
} cti_trained_copy;

/* A name of a parameter or a buffer. A tensor may have several names (tied weights). */
typedef struct cti_nn_entry {
    cti_namer namer; /* must be first: the tape casts it back to the entry for the name */
    const ct_module *module;
    struct cti_nn_entry *next;
    ct_tensor *tensor;
    char *name;
    cti_trained_copy *trained; /* of a parameter with a trained copy; or NULL */
    bool persistent;           /* a buffer is saved */
} cti_nn_entry;

struct ct_module {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_namer namer; /* contains the function that returns the module's full name */
    const ct_module_type *type;
    void *self; /* the first argument of the functions of the type */
    void *block;
    size_t block_size;
    ct_module *parent, *next; /* next: the next sibling */
    ct_module *children; /* children, parameters and buffers are in the order of their addition */
    cti_nn_entry *params, *buffers;
    cti_hook *hooks; /* what is done when the module is freed: functions, optimisers, caches */
    char *name;      /* the name in the parent; NULL without a parent */
    bool ends_data;  /* the `end` of the type is still to be called */
    bool training;
    bool stays; /* ct_module_to leaves the parameters of the module itself as they are (bare.h) */
    /* the number of changes of the tree: a parameter or child was added, a child was removed, or a
     * dtype was changed */
    int64_t changes;
};
_Static_assert(sizeof(ct_module) <= CTI_OBJECT_BYTES, "a module is an object");

/* Counts a change of the module's parameters or children, in the module and all modules above
 * it. */
void cti_nn_changed(ct_module *module);

enum { CTI_NN_NAME_SIZE = sizeof(((ct_param *)0)->buffer) };

static inline const char *cti_nn_kind_name(const ct_module *module) { return module->type->name; }
/* Returns the module after this one in a walk over the tree below root, depth first, each module
 * before its children; NULL after the last. */
static inline ct_module *cti_nn_after(const ct_module *root, ct_module *module) {
    if (module->children) return module->children;
    while (module != root && !module->next) module = module->parent;
    return module == root ? NULL : module->next;
}

/* The module that a frame or a span names. */
static inline const ct_module *cti_nn_module_of(const cti_namer *namer) {
    return (const ct_module *)((const char *)namer - offsetof(ct_module, namer));
}

/* ---- making ---- */

/* Returns a new module of the library with a block that is a copy of `data`; NULL while an error is
 * pending. */
ct_module *cti_nn_new(ct_context *context, const ct_module_type *type, const void *data,
                      size_t size);
/* The end of a constructor: returns the module, or frees it and returns NULL if an error is
 * pending. */
ct_module *cti_nn_made(ct_module *module);
static inline const void *cti_nn_data(const ct_module *module) { return module->block; }

/* The dtype of a matrix after ct_module_to(dtype): blocks are for rows that are multiples of 32. */
ct_dtype cti_nn_dtype_at_rest(ct_dtype dtype, const ct_shape *shape);

/* Adds a new parameter with undefined values. Returns NULL after it has recorded an error. */
ct_tensor *cti_nn_param_new(ct_module *module, const char *name, ct_dtype dtype, ct_shape shape);
/* Adds a child and takes ownership of it. If this fails, the child is freed. */
ct_module *cti_nn_child_add(ct_module *module, const char *name, ct_module *child);

/* These check an option: that value >= least; that it is a probability in [0, 1]; that it is finite
 * and >= 0. Otherwise they record an error with the option's name and return false. */
bool cti_nn_check_size(ct_context *context, const ct_module_type *type, const char *option,
                       int64_t value, int64_t least);
bool cti_nn_check_chance(ct_context *context, const ct_module_type *type, const char *option,
                         double value);
bool cti_nn_check_number(ct_context *context, const char *owner, const char *option, double value);

/* ---- functions that run when a module is freed: hook.h ---- */

/* Runs the functions of the module and of all modules below it. The functions of a module run
 * before the functions of its children, and may change the tree. */
void cti_nn_run_functions(ct_module *module);
/* The module has functions now, so it is a hook of its context. */
void cti_nn_functions_added(ct_module *module);
/* Returns whether such functions of the module, or of a module above it, are running. */
static inline bool cti_nn_is_ending(const ct_module *module) {
    for (const cti_frame *frame = module->context->frame; frame; frame = frame->outer)
        for (const ct_module *m = module; frame->ending && m; m = m->parent)
            if (m == cti_nn_module_of(frame->module)) return true;
    return false;
}

/* ---- using ---- */

/* Returns whether a function may use this module; see cti_object_is_ready. `beside` is another
 * argument of the function, a tensor or NULL. */
static inline bool cti_nn_ready(const ct_module *module, const char *function,
                                const ct_tensor *beside) {
    return cti_object_is_ready(module ? &module->object : NULL, function, "module",
                               ct_context_of(beside));
}

/* Does the same, and also checks that the module is of the type. */
bool cti_nn_is(const ct_module *module, const ct_module_type *type, const char *function,
               const ct_tensor *beside);
/* Returns the parameter or child of that name in the module itself, not in its children; NULL,
 * without an error, if there is none. */
ct_tensor *cti_nn_param(const ct_module *module, const char *name);
/* Makes an entry hold a tensor, and lets go of it. The tensor ends with its last holder. */
void cti_nn_hold(cti_nn_entry *entry, ct_tensor *tensor);
void cti_nn_let_go(cti_nn_entry *entry, ct_tensor *tensor);
/* The original of a parameter with a trained copy; or NULL. */
static inline ct_tensor *cti_trained_original_of(const cti_nn_entry *entry) {
    if (!entry->trained) return NULL;
    return entry->trained->in_place ? entry->trained->other : entry->tensor;
}
/* Frees the record of a copy, and the tensor that is not in place. */
void cti_trained_forget(cti_nn_entry *entry);
ct_module *cti_nn_child(const ct_module *module, const char *name);
/* Returns the parameter or buffer with that full name ("layers.0.norm1.weight"); NULL, without an
 * error, if there is none. */
ct_tensor *cti_nn_find(const ct_module *module, const char *name);

/* The scope of a module's forward: a frame, in which errors begin with the module's full name, and
 * a span of the profile. */
typedef struct {
    cti_frame frame;
    cti_span span; /* undefined unless a profile runs */
} cti_nn_scope;
void cti_nn_begin_span(const ct_module *module, cti_span *span);
static inline void cti_nn_enter(ct_module *module, cti_nn_scope *scope) {
    cti_frame_open(module->context, &scope->frame, false);
    scope->frame.module = &module->namer;
    if (module->context->observed) cti_nn_begin_span(module, &scope->span);
}

/* Moves y (or NULL) out of the frame and closes it. */
static inline ct_tensor *cti_nn_leave(ct_context *context, cti_nn_scope *scope, ct_tensor *y) {
    cti_frame_return(context, &scope->frame, y);
    if (context->observed) cti_span_end(context, &scope->span);
    return y;
}

/* Writes the full name of `name` in its owner, relative to root, at the end of the buffer and
 * returns the start of the name. */
const char *cti_nn_full_name(const ct_module *root, const ct_module *owner, const char *name,
                             char buffer[CTI_NN_NAME_SIZE]);
/* These iterate as ct_module_next and ct_module_next_buffer do, but over every name of a tensor. */
bool cti_nn_next_name(const ct_module *module, ct_param *param);
bool cti_nn_next_buffer_name(const ct_module *module, ct_param *buffer);
/* Returns whether the buffer that an iteration has reached is saved. */
static inline bool cti_nn_is_persistent(const ct_param *buffer) {
    return ((const cti_nn_entry *)(uintptr_t)buffer->position[0])->persistent;
}

/* Runs the child, which may have been replaced (ct_module_set_child). The result must have the
 * dims of x except the last, which must be `width`; with width 0 it may be any. */
ct_tensor *cti_nn_forward(ct_module *module, const char *child, ct_tensor *x, int64_t width);
ct_tensor *cti_nn_dropout(const ct_module *module, ct_tensor *x, double p); /* in training */

/* Returns a copy of a module without parameters, children and the program's data. */
ct_module *cti_nn_copy(const ct_module *from);
/* Gives the copy, which has its parameters and children already, the data that its type's clone
 * returns. Returns false after it has recorded an error. */
bool cti_nn_copy_data(ct_module *to, const ct_module *from);

/* The type of the lists that ct_module_append makes. */
extern const ct_module_type cti_nn_list_type;

bool cti_nn_activation_check(ct_context *context, const ct_module_type *type,
                             ct_activation activation);

/* residual + out(dropout(activation(in(x)))), or with a gate residual +
 * out(dropout(activation(gate(x)) in(x))). If residual is NULL, nothing is
 * added. */
typedef struct {
    const cti_nn_feed_names *names; /* of children */
    ct_activation activation;
    bool gated;
    double dropout;
    int64_t width; /* the last dim of the result; 0: any */
} cti_nn_feed_forward;
ct_tensor *cti_nn_feed(ct_module *module, cti_nn_feed_forward f, ct_tensor *x, ct_tensor *residual);

/* Returns the feed-forward of a family's layer, whose Linears the layer adds. It prints as a
 * Group. */
ct_module *cti_nn_mlp_named(ct_context *context, ct_mlp_opts opts, const cti_nn_feed_names *names);

/* Moves a tensor out of the frame, which stays open. */
static inline ct_tensor *cti_nn_hand_out(ct_context *context, const cti_nn_scope *scope,
                                         ct_tensor *tensor) {
    return ct_scope_keep((ct_scope){context, scope->frame.id}, tensor);
}

static inline const char *cti_nn_bool(bool value) { return value ? "True" : "False"; }

#endif
