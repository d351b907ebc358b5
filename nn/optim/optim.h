/* The struct behind ct_optim: a list of items, one for each parameter, the rules that update them,
 * and the options.
 *
 * An item has states exactly after its first update:
 *
 *     step == 0, state NULL  ------- first update ------>  step > 0, states of its rule
 *           ^                                                        |
 *           '---- frozen by a group; requires no gradient at a step -'
 *
 * A step runs in this order: is_complete, collect, measured, prepare, run. Everything before run
 * can fail and changes no parameter; undo then frees the states that prepare made.
 *
 * (1) state[k] is not NULL exactly if step > 0 and the item's rule has a name for state k. Between
 * prepare and run, items with step 0 have new states too.
 *
 * (2) Between collect and prepare, steps[0 ... n_steps - 1] are the items whose grad is not NULL,
 * in the order of the items. After prepare they are grouped by rule, in the order of the rules, and
 * within a rule they are in the order of the items. Items without elements are then left out.
 *
 * (3) A parameter outlives its module: the optimiser holds a reference, counted in
 * tensor->parameter.
 *
 * (4) If any client holds the optimiser to step ranges, every trained item has a range, and its
 * states have the shape of range->param.
 *
 * (5) value[] has the options of every optimiser, then the numbers of each rule in the order of the
 * rules. */
#ifndef CTI_NN_OPTIM_OPTIM_H
#define CTI_NN_OPTIM_OPTIM_H

#include "../module.h"
#include "held.h"

enum {
    CTI_NN_STATES = sizeof(((ct_optim_item *)0)->state) / sizeof(ct_tensor *),
    CTI_NN_RULES = 4,        /* the largest number of rules: a rule and up to three rests */
    CTI_NN_OPTION_NAME = 64, /* bytes of the longest name of an option, "rest.rest.rest.beta1" */
};

/* A full name of a parameter, relative to the optimiser's module, that it had when the optimiser
 * was made. */
typedef struct cti_nn_name cti_nn_name;
struct cti_nn_name {
    cti_nn_name *next;
    char text[];
};

/* A parameter, its states and its group. */
typedef struct {
    ct_tensor *param;
    cti_optim_range *range; /* owned by the client; NULL: the item steps the whole parameter */
    int rule;               /* index of the rule that updates it */
    /* tensors of bf16 or of the parameter's dtype, and of its shape or the range's; NULL before the
     * first update */
    ct_tensor *state[CTI_NN_STATES];
    ct_tensor *grad; /* the gradient during a step; NULL if the step leaves the parameter out */
    int64_t step;    /* number of updates */
    /* the options of the item's group; without a group lr_scale is 1, frozen is false, and
     * weight_decay is not used */
    double lr_scale, weight_decay;
    bool frozen;
    bool grouped;
    cti_nn_name
        *names; /* the first is used in checkpoints; the rest are further names of the tensor */
} cti_nn_item;

/* The options of every optimiser, at the beginning of value[]. */
enum {
    CTI_NN_LR,
    CTI_NN_WEIGHT_DECAY,
    CTI_NN_MATRICES_ONLY,
    CTI_NN_CLIP_NORM,
    CTI_NN_SKIP_NONFINITE,
    CTI_NN_COMMON
};

/* A rule of an optimiser, and indices in value[]: of its first number, of the weight decay and the
 * decay_matrices_only of its parameters, and of the factor of their lr; -1: no such factor. */
typedef struct {
    const ct_optim_rule *is;
    int first, weight_decay, matrices_only, lr_scale;
    int64_t steps; /* in a step: how many of `steps` are this rule's */
} cti_nn_rule;

struct ct_optim {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    ct_module *module;
    cti_nn_rule rule[CTI_NN_RULES];
    int rules;  /* number of rules in use */
    int values; /* number of values */
    bool own;   /* the rules are the library's, so their functions are called directly, and each has
                   step_all */
    double *value;
    ct_dtype state_dtype; /* CT_F32: states have the parameter's dtype; or CT_BF16 */
    void *user;
    int busy;        /* functions of a program's rule that are running */
    int running;     /* running calls during which the optimiser must not end; see cti_optim_run */
    int64_t skipped; /* steps that skip_nonfinite left out */
    cti_optim_client *client; /* NULL: none */
    /* norm and clipping factor of the current or last step; NaN and 1 if the step needed no norm */
    double grad_norm, grad_scale;
    int64_t changes; /* the module's count of changes when the items were last compared with it */
    int64_t count;   /* number of items */
    cti_nn_item *items;
    ct_optim_item *steps; /* [count] scratch: the parameters or ranges of one step */
    int64_t n_steps;      /* number of `steps` in use */
};
_Static_assert(sizeof(ct_optim) <= CTI_OBJECT_BYTES, "an optimiser is an object");

/* The name of the optimiser's kind: "AdamW". */
static inline const char *cti_nn_optim_name(const ct_optim *optim) {
    return optim->rule[0].is->name;
}
static inline const ct_optim_rule *cti_nn_rule_of(const ct_optim *optim, const cti_nn_item *item) {
    return optim->rule[item->rule].is;
}

/* Returns whether a function may use this optimiser. It may not if the optimiser is NULL or freed,
 * if an error is pending, or if a function of its rule is running; the reason is recorded. */
static inline bool cti_nn_optim_ready(const ct_optim *optim, const char *function) {
    return cti_object_is_ready(optim ? &optim->object : NULL, function, "optimiser", NULL) &&
           cti_optim_is_idle(optim, function);
}

/* Makes an optimiser of the module's parameters, each once, in the order of ct_module_next. `own`
 * is set if the rules are the library's. Returns NULL with an error if this fails. */
ct_optim *cti_nn_optim_new(ct_module *module, const ct_optim_rule *rule, ct_optim_opts opts,
                           bool own);

/* Makes the item's states, filled with zeros. If this fails, records an error and returns false,
 * and the item has no states. */
bool cti_nn_item_start(const ct_optim *optim, cti_nn_item *item);
/* Frees the states and sets the number of updates to 0. */
void cti_nn_item_reset(cti_nn_item *item);
/* Returns whether the pattern matches a name of a parameter. */
bool cti_nn_optim_has(const ct_optim *optim, const char *pattern);

/* ---- optim_options.c: numbers ---- */

/* The first fault of the numbers of an optimiser or an item, in the words of a message. */
typedef struct {
    char name[CTI_NN_OPTION_NAME]; /* the number's name; "" if the rule's `fault` found the fault */
    char says[160];                /* "is 1, must be at least 0 and less than 1" */
} cti_nn_fault;

/* These check the numbers of an optimiser and of an item. `of` is `optim` itself or, if that is a
 * draft, its optimiser. They return true if there is a fault or an error was recorded.
 * Constructors, ct_optim_set, ct_optim_group and checkpoints call them. */
bool cti_nn_optim_fault(const ct_optim *optim, ct_optim *of, cti_nn_fault *fault);
bool cti_nn_item_fault(const cti_nn_item *item, cti_nn_fault *fault);
/* Records a fault of the optimiser's numbers as the error of a constructor or of ct_optim_set. */
bool cti_nn_optim_check(const ct_optim *optim, ct_optim *of);

/* Option i of value[], and its name: "rest.beta1". */
const ct_optim_number *cti_nn_option(const ct_optim *optim, int i);
const char *cti_nn_option_name(const ct_optim *optim, int i, char name[CTI_NN_OPTION_NAME]);
/* Returns whether the rule and its rests are complete and have names that checkpoints can have.
 * Fills in the rules and the number of values. */
bool cti_nn_rules_fit(ct_context *context, ct_optim *optim, const ct_optim_rule *rule);
/* Fills in value[] from the options of a constructor. */
void cti_nn_options_fill(ct_optim *optim, const ct_optim_opts *opts);
/* The beginning of the names of a rule's numbers and states: "", "rest.", "rest.rest.", ... */
const char *cti_nn_rest(int rule);

/* The largest count of updates; counting stops here, so step + 1 never overflows. */
#define CTI_NN_LAST_STEP (INT64_MAX - 1)

/* Describes a number (f64, i64 or bool) of an item that is checked and stored in checkpoints. */
typedef struct {
    const char *name;
    ct_dtype dtype;
    size_t offset;
} cti_nn_number;

/* The numbers of an item: first `step`, then the options of its group. */
enum { CTI_NN_ITEM_NUMBERS = 4, CTI_NN_GROUP_NUMBERS = 1 };
extern const cti_nn_number cti_nn_item_numbers[CTI_NN_ITEM_NUMBERS];

/* ---- optim_rule.c: functions of a rule ---- */

/* Returns the index of the rule that updates a parameter; the rules are asked for each of its
 * names. Returns -1 if no rule does, or if an error was recorded. */
int cti_nn_rule_for(ct_optim *optim, const cti_nn_item *item);
/* Returns the fault that the rule finds in its numbers, in words, or NULL if it finds none or an
 * error was recorded. */
const char *cti_nn_rule_fault(ct_optim *of, const ct_optim_rule *rule, const double *numbers);
/* Runs the rules of a prepared step. Returns how many of optim->steps were updated: all, or fewer
 * with an error recorded. */
int64_t cti_nn_rules_run(ct_optim *optim);

/* ---- optim_step.c has the stages of a step, which held.h declares ---- */

/* Returns whether the optimiser can be made for the parameter: it can train it or leaves it out.
 * Errors name the parameter. */
bool cti_nn_can_train(const ct_optim *optim, const ct_param *param);
static inline bool cti_nn_leaves_out(const ct_tensor *param) {
    return !cti_is_real(param->dtype) && param->frozen;
}

/* The factor by which clipping multiplies gradients of this norm. */
double cti_nn_clip_scale(double norm, double max_norm);

#endif
