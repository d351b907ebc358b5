/* A meeting, in which the ranks check that all of them make the same call. */
#include "dist.h"

bool cti_dist_is_usable(const ct_dist *dist, cti_comm_call call) {
    return cti_object_is_open(&dist->object, cti_call_name(call)) &&
           (!dist->comm || cti_comm_is_usable(dist->comm, call));
}

bool cti_dist_meet(ct_dist *dist, cti_comm_call call, int64_t count, bool ok) {
    if (!dist->comm) return ok;
    const cti_place place = {
        .call = (int32_t)call, .dist = dist->number, .step = dist->group.steps, .count = count};
    cti_agreement mine, theirs;
    dist->comm->timeout = dist->opts.timeout;
    cti_agreement_begin(&mine, dist->comm, place, ok);
    dist->sent.other += cti_agree(dist->comm, CTI_DIST_CONTROL, &mine, &theirs, sizeof mine, NULL);
    return cti_agreement_holds(dist->comm, &mine, place);
}
