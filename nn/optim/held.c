/* The functions of a client that holds an optimiser; optim_step.c has the stages of its steps. */
#include "held.h"
#include "../../ops/update/update.h"
#include "../../src/core/assert.h"
#include "optim.h"

#include <math.h>
#include <string.h>

/* ---- the client ---- */

bool cti_optim_hold(ct_optim *optim, cti_optim_client *client, const char *op) {
    if (optim->client)
        return ct_fail(optim->context, CT_ERR_ARGUMENT, "%s: the optimiser has a %s already", op,
                       optim->client->noun);
    optim->client = client;
    return true;
}

void cti_optim_let_go(ct_optim *optim) {
    for (int64_t i = 0; i < optim->count; i++) optim->items[i].range = NULL;
    optim->client = NULL;
}

const cti_object *cti_optim_object(const ct_optim *optim) { return optim ? &optim->object : NULL; }
ct_module *cti_optim_module(const ct_optim *optim) { return optim->module; }
double cti_optim_lr(const ct_optim *optim) { return optim->value[CTI_NN_LR]; }

/* ---- running ---- */

bool cti_optim_run(ct_optim *optim, bool (*run)(void *arg), void *arg) {
    ct_context *context = optim->context;
    cti_frame frame;
    cti_frame_open(context, &frame, true);
    frame.steps = &optim->module->namer;
    optim->running++;
    const bool ok = run(arg);
    optim->running--;
    cti_frame_close(context, &frame);
    return ok;
}

bool cti_optim_is_running(const ct_optim *optim) { return optim->running > 0; }

/* ---- parameters and ranges ---- */

bool cti_optim_param_at(const ct_optim *optim, int64_t i, cti_optim_param *param) {
    if (i >= optim->count) return false;
    const cti_nn_item *item = &optim->items[i];
    *param = (cti_optim_param){.tensor = item->param,
                               .name = item->names->text,
                               .frozen = item->frozen,
                               .whole = !cti_nn_rule_of(optim, item)->elementwise};
    return true;
}

void cti_optim_set_range(ct_optim *optim, int64_t i, cti_optim_range *range) {
    CTI_ASSERT(optim->client && !optim->items[i].range);
    optim->items[i].range = range;
}

/* ---- the norm ---- */

_Static_assert((int)CTI_OPTIM_UNIT == (int)CTI_OP_SQUARES_UNIT, "one unit");

void cti_optim_unit_sums(ct_optim *optim, double *sums, double *scratch) {
    const cti_nn_item *end = optim->items + optim->count;
    int64_t n = 0;
    for (const cti_nn_item *item = optim->items; item < end; item++)
        if (item->range && !item->frozen) optim->steps[n++].grad = item->range->grad;
    cti_op_unit_squares(optim->steps, n, scratch);
    for (const cti_nn_item *item = optim->items; item < end; item++) {
        if (!item->range) continue;
        const int64_t units = item->frozen ? 0 : cti_optim_units(item->range->length);
        if (units) /* a range without elements has start 0 */
            memcpy(sums + item->range->start / CTI_OPTIM_UNIT, scratch,
                   (size_t)units * sizeof *scratch);
        scratch += units;
        sums += cti_optim_units(item->param->numel);
    }
}

double cti_optim_norm(const double *sums, int64_t units) {
    return sqrt(cti_op_add_units(sums, units));
}
