/* The struct behind ct_optim: parameters, each with its state and step count, and the update
 * rule. */
#ifndef CTI_NN_OPTIM_OPTIM_H
#define CTI_NN_OPTIM_OPTIM_H

#include "../module.h"

enum { CTI_NN_STATES = 2 };

/* A parameter and its state. The optimiser holds a reference, so the tensor outlives its module. */
typedef struct {
    ct_tensor *param;
    /* one for each name in rule->state, of the parameter's shape and dtype, initially zero; NULL:
     * the rule has fewer */
    ct_tensor *state[CTI_NN_STATES];
    ct_tensor *grad; /* valid only while a step runs; NULL: no gradient */
    int64_t step;    /* number of updates so far */
    char *name;      /* the full name under the optimiser's module when the optimiser was made */
} cti_nn_slot;

/* The allowed range of a number, which must be finite. A bool has no range. */
typedef enum {
    CTI_NN_AT_LEAST_0,
    CTI_NN_OVER_0,
    CTI_NN_BELOW_1,
    CTI_NN_IS_0,
    CTI_NN_BOOL
} cti_nn_range;

/* A field of ct_optim, f64 or bool, that is checked and stored in a checkpoint. */
typedef struct {
    const char *name;
    ct_dtype dtype;
    size_t offset;
    cti_nn_range range;
} cti_nn_number;

/* The first number out of its range, and the words for what it must be. */
typedef struct {
    const char *name; /* NULL: all numbers are valid */
    double value;
    const char *must;
} cti_nn_fault;

typedef struct {
    const char *name; /* "AdamW" */
    /* "m", "v"; a checkpoint writes "m.<the parameter's name>". NULL: no such state */
    const char *state[CTI_NN_STATES];
    /* fills in what the slot's next step needs beyond the optimiser's numbers */
    void (*set)(const ct_optim *optim, const cti_nn_slot *slot, cti_op_numbers *numbers);
    bool (*step)(cti_op_step *all, int64_t n);
    const cti_nn_number *numbers; /* including lr and clip_norm; ends with a NULL name */
    /* checks combinations of numbers that are valid one by one; NULL: any combination is valid */
    cti_nn_fault (*conflict)(const ct_optim *optim);
} cti_nn_rule;

/* The largest step count, chosen so that step + 1 does not overflow; counting stops there. */
#define CTI_NN_LAST_STEP (INT64_MAX - 1)

struct ct_optim {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    cti_nn_dependent dependent;
    ct_module *module;
    const cti_nn_rule *rule;
    double lr;
    cti_op_numbers numbers; /* lr and what depends on the step are filled in at each step */
    bool decay_matrices_only;
    double clip_norm; /* 0: no clipping */
    /* of the current or last step; NaN and 1 without clip_norm */
    double grad_norm, grad_scale;
    int64_t changes; /* the module's when its parameters were last looked at */
    int64_t count;   /* of slots */
    cti_nn_slot *slots;
    cti_op_step *steps; /* scratch of count elements: the parameters with a gradient */
};
_Static_assert(sizeof(ct_optim) <= CTI_OBJECT_BYTES, "an optimiser is an object");

/* Whether a function may begin with an optimiser that a caller hands in. */
static inline bool cti_nn_optim_ready(const ct_optim *optim, const char *function) {
    return cti_object_is_ready(optim ? &optim->object : NULL, function, "optimiser", NULL);
}

/* Checks the numbers in rule->numbers. Used by constructors, ct_optim_set_lr and checkpoints. */
cti_nn_fault cti_nn_optim_fault(const ct_optim *optim);

/* An optimiser of the module's parameters, each once, in ct_module_next's order. NULL with an error
 * recorded. */
ct_optim *cti_nn_optim_new(ct_module *module, const cti_nn_rule *rule, double lr,
                           cti_op_numbers numbers, bool decay_matrices_only, double clip_norm);

/* The factor that clipping multiplies gradients of this norm by. */
double cti_nn_clip_scale(double norm, double max_norm);

/* The weight decay of this parameter: 0 for a vector under decay_matrices_only. */
static inline double cti_nn_decay(const ct_optim *optim, const cti_nn_slot *slot,
                                  double weight_decay) {
    return optim->decay_matrices_only && slot->param->shape.ndim < 2 ? 0 : weight_decay;
}

#endif
