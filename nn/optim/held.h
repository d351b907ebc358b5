/* The interface for a client that holds an optimiser: only the client steps the optimiser, by
 * ranges of parameters.
 *
 *     hold --> collect, measured, prepare, run or undo, again and again --> let go
 *
 * (1) An optimiser has at most one client. While it has one, ct_optim_step is an error.
 *
 * (2) The optimiser ends its client when it is freed; the client lets go of it when it ends itself.
 *
 * (3) Between hold and let go an item may have a range of the client's. The step then reads and
 * changes range->param, and reads range->grad, in place of the parameter and its gradient. The
 * client copies values to and from there.
 *
 * (4) A range of a parameter whose rule is not elementwise is the whole parameter or nothing
 * (cti_nn_is_whole), and range->param has the parameter's shape or no element. Any other range is
 * one dim.
 *
 * (5) All ranks of a client have the same facts: the texts of cti_optim_fact, and the same digest
 * before each step (cti_optim_digest). */
#ifndef CTI_NN_OPTIM_HELD_H
#define CTI_NN_OPTIM_HELD_H

#include <cotangent/types.h>

typedef struct cti_optim_client cti_optim_client;
struct cti_optim_client {
    const char *noun;     /* "ct_dist", for messages */
    const char *function; /* the function that steps the optimiser: "ct_dist_step" */
    /* Returns whether the client may end now. If not, it records an error that names the calling
     * function. */
    bool (*may_end)(const cti_optim_client *self, const char *function);
    void (*end)(cti_optim_client *self); /* ends the client, which lets go of the optimiser */
};

/* The elements [start, start + length) of a parameter that a client steps. */
typedef struct {
    int64_t start, length;
    ct_tensor *param, *grad; /* views of the client's memory */
    bool present;            /* whether the parameter has a gradient in this step */
} cti_nn_range;

/* Makes the client hold the optimiser, which has none. */
void cti_optim_hold(ct_optim *optim, cti_optim_client *client);
/* Ends the hold, and all ranges with it. */
void cti_optim_let_go(ct_optim *optim);

/* A hash of all numbers of the optimiser and its items. */
uint64_t cti_optim_digest(const ct_optim *optim);

/* The optimiser's facts as names and values in words: fact i, or false after the last. */
enum { CTI_OPTIM_FACT_NAME = 288, CTI_OPTIM_FACT_VALUE = 256 };
typedef struct {
    char name[CTI_OPTIM_FACT_NAME], value[CTI_OPTIM_FACT_VALUE];
} cti_optim_fact;
bool cti_optim_fact_at(const ct_optim *optim, int64_t i, cti_optim_fact *fact);

#endif
