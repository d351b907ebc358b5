/* The interface of a client that holds an optimiser: only the client steps the optimiser, and it
 * may step ranges of parameters in place of whole ones. A client may have several processes, each
 * of which steps different ranges.
 *
 *     hold --> collect, measured --> prepare --> run, or undo --> collect ... --> let go
 *
 * (1) An optimiser has at most one client. While it has one, ct_optim_step is an error.
 *
 * (2) The optimiser ends its client when it is freed; the client lets go of it when it ends itself.
 *
 * (3) Between hold and let go a parameter may have a range, which belongs to the client. A step
 * then reads and changes range->param, and reads range->grad, in place of the parameter and its
 * gradient. The client copies values to and from range->param.
 *
 * (4) A range of a parameter whose rule is not elementwise is the whole parameter or nothing, and
 * range->param has the parameter's shape or no element. Any other range is one dim.
 *
 * (5) A parameter with a range has states of the range's shape. cti_optim_parts makes them from the
 * whole states that it had before.
 *
 * (6) Everything before `run` can fail and changes no parameter. If the processes of a client step
 * ranges of the same parameters, all have the same facts (cti_optim_facts), and before each step
 * the same digest. */
#ifndef CTI_NN_OPTIM_HELD_H
#define CTI_NN_OPTIM_HELD_H

#include <cotangent/nn.h>

typedef struct cti_object cti_object;

/* The elements [start, start + length) of a parameter that a client steps. */
typedef struct {
    int64_t start, length;
    ct_tensor *param, *grad; /* the client's copy of the elements, and their gradient */
    bool present;            /* whether the parameter has a gradient in this step */
} cti_optim_range;

/* ---- the client ---- */

typedef struct cti_optim_client cti_optim_client;
struct cti_optim_client {
    const char *noun;     /* the client in messages: "the optimiser has a NOUN" */
    const char *function; /* the function that steps the optimiser, in messages */
    /* Returns whether the client may end now. If not, it records an error that names the calling
     * function. */
    bool (*may_end)(const cti_optim_client *self, const char *function);
    void (*end)(cti_optim_client *self); /* ends the client, which lets go of the optimiser */
    /* Moves a state of a parameter between `whole`, a tensor of the parameter's shape that one of
     * the client's processes has, and the ranges of all of them: to `whole`, or from it. `part` is
     * the state of this process's range. In the other processes `whole` is not used and may be
     * NULL. */
    void (*move)(cti_optim_client *self, const cti_optim_range *range, ct_tensor *whole,
                 ct_tensor *part, bool to_whole);
    /* the group in which the optimiser is saved and loaded: see nn/checkpoint_group.h */
    ct_checkpoint_group *group;
};

/* Makes the client hold the optimiser. An optimiser that has a client already is an error of the
 * function `op`. */
bool cti_optim_hold(ct_optim *optim, cti_optim_client *client, const char *op);
/* Ends the hold, and all ranges with it. */
void cti_optim_let_go(ct_optim *optim);

const cti_object *cti_optim_object(const ct_optim *optim); /* NULL for NULL */
ct_module *cti_optim_module(const ct_optim *optim);
/* Returns whether no function of a rule of the optimiser is running. If one is, records an error.
 */
bool cti_optim_is_idle(const ct_optim *optim, const char *function);

/* Runs a function that changes the optimiser or its parameters. While it runs, the optimiser and
 * its module cannot be freed, and no parameter gets another dtype. */
bool cti_optim_run(ct_optim *optim, bool (*run)(void *arg), void *arg);
/* Returns whether such a function of the optimiser is running. */
bool cti_optim_is_running(const ct_optim *optim);

/* ---- parameters and ranges ---- */

/* A parameter that the optimiser was made for. */
typedef struct {
    ct_tensor *tensor;
    const char *name;
    bool frozen; /* whether its group keeps steps from changing it */
    bool whole;  /* whether its rule is not elementwise: see (4) */
} cti_optim_param;

/* Describes parameter i; returns false after the last. */
bool cti_optim_param_at(const ct_optim *optim, int64_t i, cti_optim_param *param);

/* Gives parameter i a range, which belongs to the client. */
void cti_optim_set_range(ct_optim *optim, int64_t i, cti_optim_range *range);

/* ---- the stages of a step, in this order ---- */

/* Returns whether the optimiser has every parameter that its module has now. If not, records an
 * error. */
bool cti_nn_step_is_complete(ct_optim *optim);
/* Collects the parameters to update: all that have a gradient and are not frozen. */
void cti_nn_step_collect(ct_optim *optim);
/* Returns whether an option needs the norm of the gradients. */
bool cti_nn_step_needs_norm(const ct_optim *optim);
/* Stores the norm, which is NaN if no option needs it. If skip_nonfinite leaves the step out,
 * counts the step as skipped and returns false, without an error. */
bool cti_nn_step_measured(ct_optim *optim, double norm);
/* Fills in the states and numbers of the step. At the first update of a parameter its states are
 * made. */
bool cti_nn_step_prepare(ct_optim *optim);
/* Runs and counts the step. The library's rules make all checks before the first change, and take
 * no memory after it. If a rule fails at a parameter, the parameters before it count as updated. */
bool cti_nn_step_run(ct_optim *optim);
/* Frees the new states of a step that is not run. */
void cti_nn_step_undo(ct_optim *optim);

/* Runs all stages from collect on, for an optimiser without ranges. */
bool cti_nn_step_alone(ct_optim *optim);

double cti_optim_lr(const ct_optim *optim);

/* ---- the norm ---- */

/* The norm of all gradients is computed from the sum of squares of each unit. A unit is
 * CTI_OPTIM_UNIT consecutive elements of one gradient; the last unit of a gradient may be shorter.
 * So the norm has the same bits for any ranges that begin at multiples of a unit. The units of the
 * parameters that have a range are numbered in the order of the parameters. */
enum { CTI_OPTIM_UNIT = 16384 };
static inline int64_t cti_optim_units(int64_t numel) {
    return numel / CTI_OPTIM_UNIT + (numel % CTI_OPTIM_UNIT != 0);
}
/* Writes the sums of the units in the ranges of this process to their places in `sums`, except
 * units of frozen parameters. `scratch` has as much room as `sums`. */
void cti_optim_unit_sums(ct_optim *optim, double *sums, double *scratch);
/* The norm, from the sums of all units. */
double cti_optim_norm(const double *sums, int64_t units);

/* ---- states of the ranges ---- */

/* States of the ranges that have just been set, to replace the whole states that the optimiser has:
 *
 *     new, which takes the memory --> move, which calls the client's move --> end
 *
 * `new` returns NULL with an error recorded; the others cannot fail. `end` replaces the whole
 * states or, if `replace` is false, frees the new states. */
typedef struct cti_optim_parts cti_optim_parts;
cti_optim_parts *cti_optim_parts_new(ct_optim *optim);
void cti_optim_parts_move(cti_optim_parts *parts);
void cti_optim_parts_end(cti_optim_parts *parts, bool replace); /* NULL does nothing */

/* ---- facts and digest ---- */

/* A fact of the optimiser or of its module: a name and a value in words. */
enum { CTI_OPTIM_FACT_NAME = 288, CTI_OPTIM_FACT_VALUE = 256 };
typedef struct {
    char name[CTI_OPTIM_FACT_NAME], value[CTI_OPTIM_FACT_VALUE];
} cti_optim_fact;
/* The state of an iteration over the facts; zero at the begin. */
typedef struct {
    int64_t next;    /* the number of the next fact */
    ct_param buffer; /* the buffer of the last fact; the facts of buffers come last */
} cti_optim_fact_walk;
int64_t cti_optim_facts(const ct_optim *optim); /* the number of facts */
/* Writes the next fact; returns false after the last. */
bool cti_optim_next_fact(const ct_optim *optim, cti_optim_fact_walk *walk, cti_optim_fact *fact);

/* A hash of all numbers of the optimiser and its parameters. */
uint64_t cti_optim_digest(const ct_optim *optim);

#endif
