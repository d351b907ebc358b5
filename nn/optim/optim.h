/* The struct behind ct_optim: a list of items, one for each parameter, and the rule that updates
 * them.
 *
 * An item has states exactly after its first update:
 *
 *     step == 0, state NULL  ------- first update ------>  step > 0, state of the rule
 *           ^                                                        |
 *           '---- frozen by a group; requires no gradient at a step -'
 *
 * A step runs in this order: is_complete, collect, measured, prepare, run. Everything before run
 * can fail and changes no parameter; undo then frees the states that prepare made.
 *
 * (1) state[k] is not NULL exactly if step > 0 and the rule has a name for state k. Between prepare
 * and run, items with step 0 have new states too.
 *
 * (2) steps[0 ... n_steps - 1] are the items whose grad is not NULL, in the order of the items.
 *
 * (3) A parameter outlives its module: the optimiser holds a reference, counted in
 * tensor->parameter.
 *
 * (4) If any rank steps only ranges (a ct_dist of several ranks), every trained item has a range,
 * and its states have the range's length. */
#ifndef CTI_NN_OPTIM_OPTIM_H
#define CTI_NN_OPTIM_OPTIM_H

#include <cotangent/dist.h>

#include "../module.h"

enum { CTI_NN_STATES = 2 };

/* One full name of a parameter, relative to the optimiser's module, as of the optimiser's
 * creation. */
typedef struct cti_nn_name cti_nn_name;
struct cti_nn_name {
    cti_nn_name *next;
    char text[];
};

/* The elements [start, start + length) of a parameter that this rank steps, under a ct_dist of
 * several ranks. */
typedef struct {
    int64_t start, length;
    ct_tensor *param,
        *grad;    /* one-dim views of a copy of the parameter, and of the ranks' mean gradient */
    bool present; /* some rank has a gradient of the parameter in this step */
} cti_nn_range;

/* A parameter, its states and its group. */
typedef struct {
    ct_tensor *param;
    cti_nn_range *range; /* owned by the ct_dist; NULL: the item steps the whole parameter */
    /* the states that the rule names: tensors of the parameter's dtype, and of its shape or the
     * range's length; NULL before the first update */
    ct_tensor *state[CTI_NN_STATES];
    ct_tensor *grad; /* the gradient during a step; NULL if the step leaves the parameter out */
    int64_t step;    /* number of updates */
    /* options of the item's group; without a group 1, unused, and false */
    double lr_scale, weight_decay;
    bool frozen;
    bool grouped;
    cti_nn_name
        *names; /* the first is used in checkpoints; the rest are further names of the tensor */
} cti_nn_item;

/* The allowed values of a number. An f64 must also be finite; a bool may have both values. */
typedef enum {
    CTI_NN_AT_LEAST_0,
    CTI_NN_BELOW_1,
    CTI_NN_OVER_0,
    CTI_NN_IS_0,
    CTI_NN_COUNT, /* an i64 in [0, CTI_NN_LAST_STEP] */
    CTI_NN_BOOL
} cti_nn_bounds;

/* The largest count of updates; counting stops here, so step + 1 never overflows. */
#define CTI_NN_LAST_STEP (INT64_MAX - 1)

/* Describes a number (f64, i64 or bool) in ct_optim or cti_nn_item that is checked and stored in
 * checkpoints. */
typedef struct {
    const char *name;
    ct_dtype dtype;
    size_t offset;
    cti_nn_bounds bounds;
} cti_nn_number;

/* The first number that is out of its bounds, with the text of the bounds for a message. */
typedef struct {
    const char *name; /* NULL if all numbers are valid */
    const char *must;
    char value[32];
} cti_nn_fault;

typedef struct {
    const char *name; /* "AdamW" */
    /* names of the states: "m", "v". A checkpoint has the tensor "m.<parameter's name>". NULL ends
     * the names */
    const char *state[CTI_NN_STATES];
    /* Fills in the numbers of the item's next step. `before` has the numbers of the previous item
     * in this step; NULL for the first item */
    void (*set)(const ct_optim *optim, const cti_nn_item *item, const cti_op_numbers *before,
                cti_op_numbers *numbers);
    bool (*step)(cti_op_step *all, int64_t n);
    const cti_nn_number *numbers; /* numbers that other rules lack; the list ends at a NULL name */
    /* finds a conflict between numbers that are valid one by one; may be NULL */
    cti_nn_fault (*conflict)(const ct_optim *optim);
} cti_nn_rule;

/* Options that every optimiser has. */
typedef struct {
    double lr;
    double clip_norm; /* 0: no clipping */
    bool skip_nonfinite;
    bool decay_matrices_only; /* affects parameters without a group */
} cti_nn_optim_opts;

struct ct_optim {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_nn_dependent dependent;
    ct_module *module;
    const cti_nn_rule *rule;
    cti_nn_optim_opts opts;
    cti_op_numbers
        numbers; /* the rule's options; lr and the numbers of a step are filled in at each step */
    int64_t skipped; /* steps that skip_nonfinite left out */
    ct_dist *dist;   /* if set, only this ct_dist may step the optimiser; freed with it */
    void (*end_dist)(ct_dist *dist);
    /* norm and clipping factor of the current or last step; NaN and 1 if the step needed no norm */
    double grad_norm, grad_scale;
    int64_t changes; /* the module's count of changes when the items were last compared with it */
    int64_t count;   /* number of items */
    cti_nn_item *items;
    cti_op_step *steps; /* [count] scratch: the parameters or ranges of one step */
    int64_t n_steps;    /* number of `steps` in use */
};
_Static_assert(sizeof(ct_optim) <= CTI_OBJECT_BYTES, "an optimiser is an object");

/* The next number of an optimiser. The rule's own numbers begin at rule->numbers; the numbers of
 * every optimiser follow. NULL after the last. */
const cti_nn_number *cti_nn_number_after(const cti_nn_number *number);

/* May the function use this optimiser? If it is NULL or freed, or an error is pending, that is
 * recorded. */
static inline bool cti_nn_optim_ready(const ct_optim *optim, const char *function) {
    return cti_object_is_ready(optim ? &optim->object : NULL, function, "optimiser", NULL);
}

/* Check the numbers of an optimiser, and of an item. Constructors, ct_optim_set, ct_optim_group and
 * checkpoints use them. */
cti_nn_fault cti_nn_optim_fault(const ct_optim *optim);
cti_nn_fault cti_nn_item_fault(const cti_nn_item *item);

/* The numbers of an item: first `step`, then the options of its group. */
enum { CTI_NN_ITEM_NUMBERS = 4, CTI_NN_GROUP_NUMBERS = 1 };
extern const cti_nn_number cti_nn_item_numbers[CTI_NN_ITEM_NUMBERS];

/* Makes an optimiser of the module's parameters, each once, in the order of ct_module_next. NULL
 * with an error recorded. */
ct_optim *cti_nn_optim_new(ct_module *module, const cti_nn_rule *rule, cti_nn_optim_opts opts,
                           cti_op_numbers numbers);

/* Makes the item's states, filled with zeros. On failure false with an error recorded, and the item
 * has no states. */
bool cti_nn_item_start(const cti_nn_rule *rule, cti_nn_item *item);
/* Frees the states and sets the number of updates to 0. */
void cti_nn_item_reset(cti_nn_item *item);

/* ---- the stages of a step, in this order ---- */

/* Has the optimiser an item for every parameter that the module has now? If not, an error is
 * recorded. */
bool cti_nn_step_is_complete(ct_optim *optim);
/* Collects the parameters to update: all that have a gradient and are not frozen. */
void cti_nn_step_collect(ct_optim *optim);
/* Does an option need the norm of the gradients? */
static inline bool cti_nn_step_needs_norm(const ct_optim *optim) {
    return optim->opts.clip_norm > 0 ||
           optim->opts.skip_nonfinite; /* a load may have changed the options */
}
/* Stores the norm, NaN if no option needs it. False, without an error, if skip_nonfinite leaves the
 * step out; that is counted. */
bool cti_nn_step_measured(ct_optim *optim, double norm);
/* Fills in the states and numbers of the step. At the first update of a parameter its states are
 * made. */
bool cti_nn_step_prepare(ct_optim *optim);
/* Runs and counts the step. All checks come before the first change, and no memory is taken. */
bool cti_nn_step_run(ct_optim *optim);
/* Frees the new states of a step that is not run. */
void cti_nn_step_undo(ct_optim *optim);

/* Runs all stages from collect on, for an optimiser without ranges. */
bool cti_nn_step_alone(ct_optim *optim);

/* The factor by which clipping multiplies gradients of this norm. */
double cti_nn_clip_scale(double norm, double max_norm);

/* The learning rate and the weight decay of an item: the group's, or the optimiser's. With
 * decay_matrices_only a vector without a group has weight decay 0. */
static inline double cti_nn_lr(const ct_optim *optim, const cti_nn_item *item) {
    return optim->opts.lr * item->lr_scale;
}
static inline double cti_nn_decay(const ct_optim *optim, const cti_nn_item *item,
                                  double weight_decay) {
    if (item->grouped) return item->weight_decay;
    return optim->opts.decay_matrices_only && item->param->shape.ndim < 2 ? 0 : weight_decay;
}

#endif
