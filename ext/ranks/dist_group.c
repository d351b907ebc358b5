/* The ranks of a ct_dist as the group of a checkpoint (nn/checkpoint_group.h). */
#include <cotangent/autograd.h>

#include "dist.h"

static const cti_group_fns group_fns;

static ct_dist *dist_of_group(const ct_checkpoint_group *group) {
    return (ct_dist *)(uintptr_t)group; /* a ct_dist begins with its group */
}

static cti_comm_call comm_call(cti_group_call call) {
    return call == CTI_GROUP_SAVE ? CTI_CALL_SAVE : CTI_CALL_LOAD;
}

static bool group_may_begin(ct_checkpoint_group *group, cti_group_call call) {
    return cti_dist_is_usable(dist_of_group(group), comm_call(call));
}

static bool group_may_join(const ct_checkpoint_group *group, const ct_checkpoint_group *of,
                           const char *op) {
    const ct_dist *dist = dist_of_group(group);
    if (!of || of->fns != &group_fns || dist_of_group(of)->comm != dist->comm)
        return ct_fail(dist->context, CT_ERR_ARGUMENT, "%s: an optimiser has a ct_dist%s", op,
                       of ? " of another comm" : ", whose group .group must be");
    return (dist->next == 0 && !dist->finished) ||
           ct_fail(dist->context, CT_ERR_ARGUMENT, "%s: step %" PRId64 " has not ended", op,
                   group->steps);
}

static bool group_agree(ct_checkpoint_group *group, cti_group_call call, int64_t stage, bool ok) {
    return cti_dist_meet(dist_of_group(group), comm_call(call), stage, ok);
}

static void group_broadcast(ct_checkpoint_group *group, void *data, size_t size) {
    cti_dist_broadcast_bytes(dist_of_group(group), data, size);
}

static void group_broadcast_tensor(ct_checkpoint_group *group, ct_tensor *tensor) {
    cti_dist_broadcast(dist_of_group(group), tensor);
}

static const cti_group_fns group_fns = {.process = "rank",
                                        .steps = "dist",
                                        .may_begin = group_may_begin,
                                        .may_join = group_may_join,
                                        .agree = group_agree,
                                        .broadcast = group_broadcast,
                                        .broadcast_tensor = group_broadcast_tensor};

void cti_dist_make_group(ct_dist *dist) {
    dist->group.fns = &group_fns;
    dist->group.number = dist->rank;
    dist->group.several = dist->comm;
}

ct_checkpoint_group *ct_dist_group(ct_dist *dist) { return dist ? &dist->group : NULL; }
