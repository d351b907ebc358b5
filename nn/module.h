/* What a module is inside, and what its kinds are made with. Errors are sticky, so a constructor is
 * a plain list of steps: each does nothing after one that failed, and cti_nn_made ends what was
 * begun. */
#ifndef CTI_NN_MODULE_H
#define CTI_NN_MODULE_H

#include <inttypes.h>

#include <cotangent/init.h>
#include <cotangent/nn.h>
#include <cotangent/ops.h>
#include <cotangent/optim.h>

#include "../ops/update/update.h"
#include "../src/core/context.h"
#include "../src/autograd/tape.h"

/* A kind of module: its name, its forward of one input, and what it prints between its
 * parentheses. */
typedef struct {
    const char *name;
    /* in a scope of its own; NULL: none of one input */
    ct_tensor *(*forward)(ct_module *module, ct_tensor *x);
    void (*describe)(const ct_module *module, FILE *file); /* NULL: nothing */
    /* of its data, right behind the module */
    size_t size;
    /* gives back what the data holds; NULL: nothing */
    void (*end)(ct_module *module);
} cti_nn_kind;

/* A name for a parameter. One tensor may have several; the tensor counts its holders. */
typedef struct cti_nn_entry {
    cti_namer namer; /* first: the tape asks it for the name */
    const ct_module *module;
    struct cti_nn_entry *next;
    ct_tensor *tensor;
    char *name;
} cti_nn_entry;

/* What ends with a module without being a part of it: its first member is one of these. */
typedef struct cti_nn_dependent cti_nn_dependent;
struct cti_nn_dependent {
    cti_nn_dependent *next;
    void (*end)(cti_nn_dependent *self); /* takes itself off the module's list */
};

struct ct_module {
    ct_context *context;
    const cti_nn_kind *kind;
    ct_module *parent, *next; /* the next child of the same parent */
    ct_module *children;      /* in the order of adding, as are the parameters */
    cti_nn_entry *params;
    cti_nn_dependent *dependents; /* optimisers: they end with the module */
    char *name;                   /* under its parent; NULL: outermost */
    /* what a user's module prints as; NULL: the kind's name */
    char *label;
    ct_tensor *(*forward)(void *self, ct_tensor *x); /* a user's */
    void *self;
    bool training;
};

enum { CTI_NN_NAME_SIZE = sizeof(((ct_param *)0)->buffer) };

const char *cti_nn_kind_name(const ct_module *module);

/* ---- making ---- */

/* A module of that kind with its data zeroed. NULL while an error is pending. */
ct_module *cti_nn_new(ct_context *context, const cti_nn_kind *kind);
ct_module *cti_nn_made(ct_module *module); /* the module; after an error: ends it, NULL */
static inline void *cti_nn_data(const ct_module *module) { return (void *)(module + 1); }

/* A new parameter, its values undefined. NULL, with an error recorded. */
ct_tensor *cti_nn_param_new(ct_module *module, const char *name, ct_dtype dtype, ct_shape shape);
/* takes the child also when it fails */
ct_module *cti_nn_child_add(ct_module *module, const char *name, ct_module *child);

/* Options: is the number at least `least`; is it a probability, 0 ... 1; is it finite and not
 * negative? */
bool cti_nn_check_size(ct_context *context, const cti_nn_kind *kind, const char *option,
                       int64_t value, int64_t least);
bool cti_nn_check_chance(ct_context *context, const cti_nn_kind *kind, const char *option,
                         double value);
bool cti_nn_check_number(ct_context *context, const char *owner, const char *option, double value);

/* ---- using ---- */

/* No error is pending and the module is of that kind? */
bool cti_nn_is(const ct_module *module, const cti_nn_kind *kind, const char *function);
/* its own; NULL, with no error, where there is none */
ct_tensor *cti_nn_param(const ct_module *module, const char *name);
ct_module *cti_nn_child(const ct_module *module, const char *name); /* likewise */
/* by its full name, any of them; likewise */
ct_tensor *cti_nn_find(const ct_module *module, const char *name);

ct_tensor *cti_nn_forward(ct_module *module, const char *child, ct_tensor *x); /* runs a child */
ct_tensor *cti_nn_dropout(const ct_module *module, ct_tensor *x, double p);    /* in training */

bool cti_nn_activation_check(ct_context *context, const cti_nn_kind *kind,
                             ct_activation activation);
const char *cti_nn_activation_name(ct_activation activation);

/* A feed-forward, and what goes round it where residual is not NULL: residual +
 * out(dropout(activation(in(x)))), or with a gate residual + out(dropout(activation(gate(x))
 * in(x))). */
typedef struct {
    const char *in, *gate, *out; /* children; gate NULL: none */
    ct_activation activation;
    double dropout;
} cti_nn_feed_forward;
ct_tensor *cti_nn_feed(ct_module *module, cti_nn_feed_forward f, ct_tensor *x, ct_tensor *residual);

/* Hands a tensor out of a frame that stays open. */
static inline ct_tensor *cti_nn_hand_out(ct_context *context, const cti_frame *frame,
                                         ct_tensor *tensor) {
    return ct_scope_keep((ct_scope){context, frame->id}, tensor);
}

static inline const char *cti_nn_bool(bool value) { return value ? "True" : "False"; }

#endif
