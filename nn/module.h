/* The struct behind ct_module, and the helpers that module kinds are built from. Errors are sticky,
 * so a constructor is a plain list of steps: after a failure the later steps do nothing, and
 * cti_nn_made at the end frees the incomplete module. */
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

/* A kind of module, like a class: one static instance for Linear, one for LayerNorm, ... */
typedef struct {
    const char *name;
    /* runs in its own scope; NULL: the kind has no forward of one input */
    ct_tensor *(*forward)(ct_module *module, ct_tensor *x);
    /* prints the options between the parentheses of torch's repr; NULL: none */
    void (*describe)(const ct_module *module, FILE *file);
    /* bytes of the kind's data */
    size_t size;
} cti_nn_kind;

/* A name for a parameter or a buffer. One tensor may have several (tied weights):
 * tensor->parameter counts them. */
typedef struct cti_nn_entry {
    cti_namer namer; /* must be first: the tape casts it back to the entry for the name */
    const ct_module *module;
    struct cti_nn_entry *next;
    ct_tensor *tensor;
    char *name;
    bool persistent; /* of a buffer: it is saved */
} cti_nn_entry;

/* In what is told that a module ends but is not its child: an optimiser, a cache. */
typedef struct cti_nn_dependent cti_nn_dependent;
struct cti_nn_dependent {
    cti_nn_dependent *next;
    void (*end)(cti_nn_dependent *self); /* also removes it */
};

struct ct_module {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_namer namer; /* finds its full name */
    const cti_nn_kind *kind;
    ct_module *parent, *next; /* next: the next sibling */
    ct_module *children;      /* in the order in which they were added, as are the parameters */
    cti_nn_entry *params, *buffers;
    cti_nn_dependent *dependents; /* optimisers, which are freed with the module, and caches */
    char *name;                   /* under its parent; NULL: it has no parent */
    char *label;                  /* the kind name of a user's module; NULL: use kind->name */
    ct_tensor *(*forward)(void *self, ct_tensor *x); /* set by ct_module_set_forward */
    void *self;
    void *kind_data; /* kind->size bytes */
    bool training;
    /* of the tree under it: parameters and children added, children removed, dtypes */
    int64_t changes;
};
_Static_assert(sizeof(ct_module) <= CTI_OBJECT_BYTES, "a module is an object");

/* Counts a change of the module's parameters or children, for it and those above. */
void cti_nn_changed(ct_module *module);

enum { CTI_NN_NAME_SIZE = sizeof(((ct_param *)0)->buffer) };

const char *cti_nn_kind_name(const ct_module *module);

/* ---- making ---- */

/* A new module of that kind, its data zeroed. NULL while an error is pending. */
ct_module *cti_nn_new(ct_context *context, const cti_nn_kind *kind);
/* The end of a constructor: returns the module, or frees it and returns NULL if an error is
 * pending. */
ct_module *cti_nn_made(ct_module *module);
static inline void *cti_nn_data(const ct_module *module) { return module->kind_data; }

/* Adds a new parameter with undefined values. NULL with an error recorded. */
ct_tensor *cti_nn_param_new(ct_module *module, const char *name, ct_dtype dtype, ct_shape shape);
/* Takes ownership of the child; on failure frees it. */
ct_module *cti_nn_child_add(ct_module *module, const char *name, ct_module *child);

/* Checks of options: value >= least; a probability in [0, 1]; finite and >= 0. False with an error
 * recorded that names the option. */
bool cti_nn_check_size(ct_context *context, const cti_nn_kind *kind, const char *option,
                       int64_t value, int64_t least);
bool cti_nn_check_chance(ct_context *context, const cti_nn_kind *kind, const char *option,
                         double value);
bool cti_nn_check_number(ct_context *context, const char *owner, const char *option, double value);

/* ---- dependents ---- */

static inline void cti_nn_dependent_add(ct_module *module, cti_nn_dependent *dependent,
                                        void (*end)(cti_nn_dependent *self)) {
    *dependent = (cti_nn_dependent){module->dependents, end};
    module->dependents = dependent;
}
static inline void cti_nn_dependent_remove(ct_module *module, cti_nn_dependent *dependent) {
    cti_nn_dependent **link = &module->dependents;
    while (*link != dependent) {
        CTI_ASSERT(*link);
        link = &(*link)->next;
    }
    *link = dependent->next;
}

/* ---- using ---- */

/* Whether a function may begin with a module that a caller hands in: see cti_object_is_ready.
 * `beside` is a tensor that was handed in too, or NULL. */
static inline bool cti_nn_ready(const ct_module *module, const char *function,
                                const ct_tensor *beside) {
    return cti_object_is_ready(module ? &module->object : NULL, function, "module",
                               ct_context_of(beside));
}

/* The same, and whether it is of the kind. */
bool cti_nn_is(const ct_module *module, const cti_nn_kind *kind, const char *function,
               const ct_tensor *beside);
/* The module's own parameter or child of that name, not its children's. NULL, without an error, if
 * there is none. */
ct_tensor *cti_nn_param(const ct_module *module, const char *name);
ct_module *cti_nn_child(const ct_module *module, const char *name);
/* The parameter or buffer with that full name ("layers.0.norm1.weight"); NULL, without an error, if
 * none. */
ct_tensor *cti_nn_find(const ct_module *module, const char *name);

/* Around a module's forward: a frame, in which errors begin with the module's full name, and a span
 * of the profile. */
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

/* The name below root of what is called `name` in its owner, at the end of the buffer. */
const char *cti_nn_full_name(const ct_module *root, const ct_module *owner, const char *name,
                             char buffer[CTI_NN_NAME_SIZE]);
/* As ct_module_next and ct_module_next_buffer, but a tensor comes once for each of its names. */
bool cti_nn_next_name(const ct_module *module, ct_param *param);
bool cti_nn_next_buffer_name(const ct_module *module, ct_param *buffer);
/* Whether the buffer that an iteration has reached is saved. */
static inline bool cti_nn_is_persistent(const ct_param *buffer) {
    return ((const cti_nn_entry *)(uintptr_t)buffer->position[0])->persistent;
}

/* Runs a child, whatever stands there (ct_module_set_child). Its result must have x's dims but for
 * the last one, `width`; 0: any. */
ct_tensor *cti_nn_forward(ct_module *module, const char *child, ct_tensor *x, int64_t width);
ct_tensor *cti_nn_dropout(const ct_module *module, ct_tensor *x, double p); /* in training */

/* Linear: a child of that kind may be computed as part of another op, from its weight and bias. */
extern const cti_nn_kind cti_nn_linear_kind;

/* What ct_module_append makes. */
extern const cti_nn_kind cti_nn_list_kind;

bool cti_nn_activation_check(ct_context *context, const cti_nn_kind *kind,
                             ct_activation activation);
const char *cti_nn_activation_name(ct_activation activation);

/* residual + out(dropout(activation(in(x)))), or with a gate residual +
 * out(dropout(activation(gate(x)) in(x))). residual may be NULL: no sum. */
typedef struct {
    const char *in, *gate, *out; /* names of children; gate NULL: no gate */
    ct_activation activation;
    double dropout;
    int64_t width; /* of the result; 0: any */
} cti_nn_feed_forward;
ct_tensor *cti_nn_feed(ct_module *module, cti_nn_feed_forward f, ct_tensor *x, ct_tensor *residual);

/* Moves a tensor out of the frame, which stays open. */
static inline ct_tensor *cti_nn_hand_out(ct_context *context, const cti_nn_scope *scope,
                                         ct_tensor *tensor) {
    return ct_scope_keep((ct_scope){context, scope->frame.id}, tensor);
}

static inline const char *cti_nn_bool(bool value) { return value ? "True" : "False"; }

#endif
