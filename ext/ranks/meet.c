/* A meeting, in which the ranks check that all of them make the same call. */
#include "dist.h"

#include <cotangent/autograd.h>

#include "../../src/core/assert.h"

/* After an error the next call may be ct_dist_step again. */
void cti_dist_end_step(ct_dist *dist) {
    for (int64_t i = 0; i < dist->params; i++) dist->param[i].present = false;
    for (int64_t b = 0; b < dist->buckets; b++) dist->bucket[b].stage = 0;
    dist->staged = 0;
    dist->begun = dist->finished = dist->incomplete = false;
    dist->next = 0;
    dist->last_sent = dist->sent;
}

bool cti_dist_is_usable(ct_dist *dist, cti_comm_call call) {
    const char *name = cti_call_name(call);
    if (!cti_object_is_open(&dist->object, name) ||
        (dist->comm && cti_comm_is_inside(dist->comm, name)))
        return false;
    if (cti_optim_is_running(dist->optim))
        return ct_fail(dist->context, CT_ERR_ARGUMENT, "%s: called inside a call of its ct_dist",
                       name);
    return !dist->comm || cti_comm_is_usable(dist->comm, call);
}

bool cti_dist_meet(ct_dist *dist, cti_comm_call call, int64_t count, bool ok) {
    CTI_ASSERT(dist->comm);
    const cti_place place = {
        .call = (int32_t)call, .dist = dist->number, .step = dist->group.steps, .count = count};
    cti_agreement mine, theirs;
    dist->comm->timeout = dist->opts.timeout;
    cti_agreement_begin(&mine, dist->comm, place, ok);
    dist->sent.other += cti_agree(dist->comm, CTI_DIST_CONTROL, &mine, &theirs, sizeof mine, NULL);
    return cti_agreement_holds(dist->comm, &mine, place);
}
