/* Broadcasts from rank 0 to all ranks. */
#include "dist.h"

#include <string.h>

/* ---- from rank 0 to all: rank r, with highest bit b, gets it from r - b ---- */

static void pass_on(ct_dist *dist, void *data, size_t size, ct_tensor *tensor) {
    ct_comm *comm = dist->comm;
    for (int bit = 1; bit < comm->size; bit *= 2) {
        const bool receives = comm->rank >= bit;
        cti_transfer transfer;
        if (comm->rank >= 2 * bit) continue;
        const int peer = comm->rank ^ bit;
        const int64_t bytes = tensor ? cti_comm_start(comm, &transfer, CTI_DIST_BULK, peer,
                                                      receives, tensor, 0, tensor->numel)
                                     : cti_comm_start_bytes(comm, &transfer, CTI_DIST_BULK, peer,
                                                            receives, data, size);
        if (!receives) dist->sent.other += bytes;
        cti_comm_wait(comm, &transfer);
    }
}

void cti_dist_broadcast(ct_dist *dist, ct_tensor *tensor) {
    pass_on(dist, NULL, 0, tensor);
    cti_tensor_wrote(tensor);
}
void cti_dist_broadcast_bytes(ct_dist *dist, void *data, size_t size) {
    pass_on(dist, data, size, NULL);
}

/* ---- the initial values of a ct_dist ---- */

static void share_module(ct_dist *dist) {
    ct_optim *optim = dist->optim;
    for (int64_t i = 0; i < optim->count; i++) cti_dist_broadcast(dist, optim->items[i].param);
    for (ct_param buffer = {0}; ct_module_next_buffer(optim->module, &buffer);)
        cti_dist_broadcast(dist, buffer.tensor);
    cti_dist_broadcast_bytes(dist, &dist->context->rng, sizeof dist->context->rng);
}

/* Replaces whole states by the states of the ranges: `cut` are items with new, cut states. */
static void share_states(ct_dist *dist, cti_nn_item *cut) {
    for (int64_t i = 0; i < dist->params; i++) {
        cti_nn_item *item = dist->param[i].item;
        const cti_nn_range *range = &dist->param[i].range;
        for (int k = 0; k < CTI_NN_STATES && item->state[k]; k++) {
            ct_tensor *whole = item->state[k];
            cti_dist_broadcast(dist, whole);
            cti_op_range_copy(cut[i].state[k], 0, whole, range->start, range->length);
            cti_tensor_end(whole);
            item->state[k] = cut[i].state[k];
        }
        memset(cut[i].state, 0, sizeof cut[i].state);
    }
}

bool cti_dist_broadcast_all(ct_dist *dist) {
    const size_t bytes = cti_bytes(dist->params, sizeof(cti_nn_item));
    cti_nn_item *cut = cti_take_zeroed(dist->context, bytes);
    bool ok = cut;
    for (int64_t i = 0; ok && i < dist->params; i++) {
        cti_dist_param *p = &dist->param[i];
        cut[i] = (cti_nn_item){.param = p->item->param, .range = &p->range};
        if (p->item->step > 0)
            ok = cti_nn_item_start(cti_nn_rule_of(dist->optim, p->item), &cut[i]);
    }
    ok = cti_dist_meet(dist, CTI_CALL_NEW, 0, ok);
    if (ok) {
        share_module(dist);
        share_states(dist, cut);
    }
    for (int64_t i = 0; cut && i < dist->params; i++) cti_nn_item_reset(&cut[i]);
    cti_give(dist->context, cut, bytes);
    return ok && cti_dist_meet(dist, CTI_CALL_NEW, 1, true);
}
