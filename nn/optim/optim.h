/* What an optimiser is inside: its parameters, each with its state and count of steps, and a
 * rule. */
#ifndef CTI_NN_OPTIM_OPTIM_H
#define CTI_NN_OPTIM_OPTIM_H

#include "../module.h"

enum { CTI_NN_STATES = 2 };

/* A parameter. The optimiser holds it: it lives while the optimiser does, also when its module has
 * gone. */
typedef struct {
    ct_tensor *param;
    /* of the rule's names; the parameter's shape and dtype; zeros at the start; NULL: not used */
    ct_tensor *state[CTI_NN_STATES];
    ct_tensor *grad; /* as long as a step runs; NULL: none */
    int64_t step;    /* how often it was updated */
    /* full, under the optimiser's module, when the optimiser was made */
    char *name;
} cti_nn_slot;

/* What a number may be; never one that is not finite. A bool is what it is. */
typedef enum {
    CTI_NN_AT_LEAST_0,
    CTI_NN_OVER_0,
    CTI_NN_BELOW_1,
    CTI_NN_IS_0,
    CTI_NN_BOOL
} cti_nn_range;

/* A number of ct_optim that a checkpoint keeps: f64 or bool. */
typedef struct {
    const char *name;
    ct_dtype dtype;
    size_t offset;
    cti_nn_range range;
} cti_nn_number;

/* A number that an optimiser does not take, and what it must be. */
typedef struct {
    const char *name; /* NULL: there is none */
    double value;
    const char *must;
} cti_nn_fault;

typedef struct {
    const char *name; /* "AdamW" */
    /* "m", "v"; a checkpoint writes "m.<the parameter's name>". NULL: no such state */
    const char *state[CTI_NN_STATES];
    /* for the slot's next step, from the optimiser's */
    void (*set)(const ct_optim *optim, const cti_nn_slot *slot, cti_op_numbers *numbers);
    bool (*step)(cti_op_step *all, int64_t n);
    const cti_nn_number *numbers; /* lr and clip_norm among them; the last one has no name */
    /* of numbers that are each in range; NULL: they never are in conflict */
    cti_nn_fault (*conflict)(const ct_optim *optim);
} cti_nn_rule;

/* The last count of steps: that of one more does not overflow. A slot that has reached it stays
 * there. */
#define CTI_NN_LAST_STEP (INT64_MAX - 1)

struct ct_optim {
    cti_nn_dependent dependent; /* first; of the module */
    ct_context *context;
    ct_module *module;
    const cti_nn_rule *rule;
    double lr;
    cti_op_numbers numbers; /* lr and what depends on the step are filled in at each step */
    bool decay_matrices_only;
    double clip_norm; /* 0: gradients are taken as they are */
    /* of the step that runs, or the last; NaN and 1 without clip_norm */
    double grad_norm, grad_scale;
    int64_t count; /* of slots */
    cti_nn_slot *slots;
    cti_op_step *steps; /* of those with a gradient, as long as a step runs; room for all */
};

/* The first fault of the numbers that rule->numbers names. Constructors, ct_optim_set_lr and
 * checkpoints all ask this. */
cti_nn_fault cti_nn_optim_fault(const ct_optim *optim);

/* An optimiser of the module's parameters, each once, in ct_module_next's order. NULL with an error
 * recorded. */
ct_optim *cti_nn_optim_new(ct_module *module, const cti_nn_rule *rule, double lr,
                           cti_op_numbers numbers, bool decay_matrices_only, double clip_norm);

/* What gradients of this norm are multiplied by. */
double cti_nn_clip_scale(double norm, double max_norm);

/* The decay for this parameter. */
static inline double cti_nn_decay(const ct_optim *optim, const cti_nn_slot *slot,
                                  double weight_decay) {
    return optim->decay_matrices_only && slot->param->shape.ndim < 2 ? 0 : weight_decay;
}

#endif
