/* The struct behind ct_optim: parameters, each with its state, step count and group, and the update
 * rule. */
#ifndef CTI_NN_OPTIM_OPTIM_H
#define CTI_NN_OPTIM_OPTIM_H

#include <cotangent/dist.h>

#include "../module.h"

enum { CTI_NN_STATES = 2 };

/* A full name of a parameter under the optimiser's module when the optimiser was made. */
typedef struct cti_nn_name cti_nn_name;
struct cti_nn_name {
    cti_nn_name *next;
    char text[];
};

/* Under a ct_dist of several ranks: elements [start, start + length) of a parameter, which this
 * rank steps, as one dim. It has the states of those elements. */
typedef struct {
    int64_t start, length;
    ct_tensor *param, *grad; /* the part of a copy, and the mean of all ranks' gradients of it */
    bool present;            /* whether any rank has a gradient in this step */
} cti_nn_range;

/* A parameter and its state. The optimiser holds a reference, so the tensor outlives its module. */
typedef struct {
    ct_tensor *param;
    cti_nn_range *range; /* ct_dist's; NULL: all of it */
    /* one for each name in rule->state, of the parameter's shape and dtype, of a part (length),
     * initially zero. They are there while step > 0 and the rule has such a state, else NULL */
    ct_tensor *state[CTI_NN_STATES];
    ct_tensor *grad; /* valid only while a step runs; NULL: it is not updated */
    int64_t step;    /* number of updates so far */
    /* of its group; without one 1, not used, and false */
    double lr_scale, weight_decay;
    bool frozen;
    bool grouped;
    cti_nn_name *names; /* its first one, by which checkpoints call it, and further ones */
} cti_nn_item;

/* The allowed range of a number, which must be finite. A bool has no range. */
typedef enum {
    CTI_NN_AT_LEAST_0,
    CTI_NN_BELOW_1,
    CTI_NN_OVER_0,
    CTI_NN_IS_0,
    CTI_NN_COUNT, /* of an i64: [0, CTI_NN_LAST_STEP] */
    CTI_NN_BOOL
} cti_nn_bounds;

/* The largest step count, chosen so that step + 1 does not overflow; counting stops there. */
#define CTI_NN_LAST_STEP (INT64_MAX - 1)

/* A field of ct_optim or of cti_nn_item, f64, i64 or bool, that is checked and stored in a
 * checkpoint. */
typedef struct {
    const char *name;
    ct_dtype dtype;
    size_t offset;
    cti_nn_bounds bounds;
} cti_nn_number;

/* The first number out of its range, and the words for what it must be. */
typedef struct {
    const char *name; /* NULL: all numbers are valid */
    const char *must;
    char value[32];
} cti_nn_fault;

typedef struct {
    const char *name; /* "AdamW" */
    /* "m", "v"; a checkpoint writes "m.<the parameter's name>". NULL: no such state */
    const char *state[CTI_NN_STATES];
    /* fills in what the slot's next step needs beyond the optimiser's numbers. before: the numbers
     * of the slot before it in this step; NULL: it is the first */
    void (*set)(const ct_optim *optim, const cti_nn_item *item, const cti_op_numbers *before,
                cti_op_numbers *numbers);
    bool (*step)(cti_op_step *all, int64_t n);
    const cti_nn_number
        *numbers; /* the numbers that only this rule has; a NULL name ends the list */
    /* checks combinations of numbers that are valid one by one; NULL: any combination is valid */
    cti_nn_fault (*conflict)(const ct_optim *optim);
} cti_nn_rule;

/* The options of every optimiser. */
typedef struct {
    double lr;
    double clip_norm; /* 0: no clipping */
    bool skip_nonfinite;
    bool decay_matrices_only; /* of parameters without a group */
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
    cti_op_numbers numbers; /* lr and what depends on the step are filled in at each step */
    int64_t skipped;        /* steps, by skip_nonfinite */
    ct_dist *dist;          /* that alone may step it, and ends with it; NULL: none */
    void (*end_dist)(ct_dist *dist);
    /* of the current or last step; NaN and 1 where no norm was needed */
    double grad_norm, grad_scale;
    int64_t changes; /* the module's when its parameters were last looked at */
    int64_t count;   /* of slots */
    cti_nn_item *items;
    cti_op_step *steps; /* scratch of count elements: the parameters, or parts, of a step */
    int64_t n_steps;    /* how many it updates */
};
_Static_assert(sizeof(ct_optim) <= CTI_OBJECT_BYTES, "an optimiser is an object");

/* The number after one of an optimiser's: the numbers of its rule begin at rule->numbers, and the
 * numbers that every optimiser has follow them. NULL after the last. */
const cti_nn_number *cti_nn_number_after(const cti_nn_number *number);

/* Whether a function may begin with an optimiser that a caller hands in. */
static inline bool cti_nn_optim_ready(const ct_optim *optim, const char *function) {
    return cti_object_is_ready(optim ? &optim->object : NULL, function, "optimiser", NULL);
}

/* Check the numbers in rule->numbers, or those of a slot. Used by constructors, ct_optim_set_lr,
 * ct_optim_group and checkpoints. */
cti_nn_fault cti_nn_optim_fault(const ct_optim *optim);
cti_nn_fault cti_nn_item_fault(const cti_nn_item *item);

/* The numbers of a slot: step, and then those of its group. */
enum { CTI_NN_ITEM_NUMBERS = 4, CTI_NN_GROUP_NUMBERS = 1 };
extern const cti_nn_number cti_nn_item_numbers[CTI_NN_ITEM_NUMBERS];

/* An optimiser of the module's parameters, each once, in ct_module_next's order. NULL with an error
 * recorded. */
ct_optim *cti_nn_optim_new(ct_module *module, const cti_nn_rule *rule, cti_nn_optim_opts opts,
                           cti_op_numbers numbers);

/* New states of zeros in the innermost scope. False with an error recorded: none is there. */
bool cti_nn_item_start(const cti_nn_rule *rule, cti_nn_item *item);
/* Gives the states back; the slot's next update is a first one. */
void cti_nn_item_reset(cti_nn_item *item);

/* ---- a step in its parts, in this order ---- */

/* Whether the optimiser has every parameter that its module has now; else an error. */
bool cti_nn_step_is_complete(ct_optim *optim);
/* Collects the parameters to update: those with a gradient that are not frozen. */
void cti_nn_step_collect(ct_optim *optim);
/* Whether an option needs the norm of the gradients. */
static inline bool cti_nn_step_needs_norm(const ct_optim *optim) {
    return optim->opts.clip_norm > 0 || optim->opts.skip_nonfinite; /* a load may change them */
}
/* Takes the norm, NaN where none is needed. False, without an error: the step is left out, by
 * skip_nonfinite, and has been counted. */
bool cti_nn_step_measured(ct_optim *optim, double norm);
/* Fills in the states, new ones at a parameter's first step, and what the rule needs. */
bool cti_nn_step_prepare(ct_optim *optim);
/* Runs and counts the step. It checks everything before it changes anything, and takes no
 * memory. */
bool cti_nn_step_run(ct_optim *optim);
/* Gives back the new states of a step that is not run. */
void cti_nn_step_undo(ct_optim *optim);

/* All of these, from collect on, for an optimiser that has whole parameters. */
bool cti_nn_step_alone(ct_optim *optim);

/* The factor that clipping multiplies gradients of this norm by. */
double cti_nn_clip_scale(double norm, double max_norm);

/* The learning rate and the weight decay of this parameter: those of its group, or the optimiser's,
 * of a vector 0 under decay_matrices_only. */
static inline double cti_nn_lr(const ct_optim *optim, const cti_nn_item *item) {
    return optim->opts.lr * item->lr_scale;
}
static inline double cti_nn_decay(const ct_optim *optim, const cti_nn_item *item,
                                  double weight_decay) {
    if (item->grouped) return item->weight_decay;
    return optim->opts.decay_matrices_only && item->param->shape.ndim < 2 ? 0 : weight_decay;
}

#endif
