/* Broadcasts from rank 0 to all ranks, and the moves of states between rank 0 and the ranges. */
#include "dist.h"

#include <cotangent/nn.h>

#include <string.h>

/* ---- from rank 0 to all: rank r, with highest bit b, receives the data from r - b ---- */

static void broadcast_pass_on(ct_dist *dist, void *data, size_t size, ct_tensor *tensor) {
    ct_comm *comm = dist->comm;
    for (int bit = 1; bit < comm->size; bit *= 2) {
        const bool receives = comm->rank >= bit;
        cti_transfer transfer;
        if (comm->rank >= 2 * bit) continue;
        const int peer = comm->rank ^ bit;
        const int64_t bytes = tensor ? cti_comm_start(comm, &transfer, CTI_DIST_BULK, peer,
                                                      receives, tensor, 0, ct_numel(tensor))
                                     : cti_comm_start_bytes(comm, &transfer, CTI_DIST_BULK, peer,
                                                            receives, data, size);
        if (!receives) dist->sent.other += bytes;
        cti_comm_wait(comm, &transfer);
    }
}

void cti_dist_broadcast(ct_dist *dist, ct_tensor *tensor) {
    broadcast_pass_on(dist, NULL, 0, tensor);
    ct_wrote(tensor);
}
void cti_dist_broadcast_bytes(ct_dist *dist, void *data, size_t size) {
    broadcast_pass_on(dist, data, size, NULL);
}

/* ---- between rank 0 and the ranges ---- */

/* Copies rank 0's own range. */
static void own_range_move(const cti_optim_range *range, ct_tensor *whole, ct_tensor *part,
                           bool to_whole) {
    const size_t size = cti_dtype_size(ct_dtype_of(part));
    char *in_whole = cti_comm_elements(whole) + (size_t)range->start * size,
         *own = cti_comm_elements(part);
    if (range->length)
        memcpy(to_whole ? in_whole : own, to_whole ? own : in_whole, (size_t)range->length * size);
}

void cti_dist_move(ct_dist *dist, const cti_optim_range *range, ct_tensor *whole, ct_tensor *part,
                   bool to_whole) {
    const cti_dist_param *p =
        (const cti_dist_param *)((const char *)range - offsetof(cti_dist_param, range));
    const bool first = dist->rank == 0;
    for (int rank = 1; rank < dist->ranks; rank++) {
        int64_t start, length;
        cti_transfer transfer;
        if (!first && dist->rank != rank) continue;
        cti_dist_param_range(dist, p, rank, &start, &length);
        cti_comm_start(dist->comm, &transfer, CTI_DIST_BULK, first ? rank : 0, first == to_whole,
                       first ? whole : part, first ? start : 0, length);
        cti_comm_wait(dist->comm, &transfer);
    }
    if (first) own_range_move(range, whole, part, to_whole);
    ct_wrote(to_whole ? whole : part);
}

/* ---- the initial values of a ct_dist ---- */

static void share_module(ct_dist *dist) {
    ct_rng rng = ct_rng_get(dist->context);
    cti_optim_param param;
    for (int64_t i = 0; cti_optim_param_at(dist->optim, i, &param); i++)
        cti_dist_broadcast(dist, param.tensor);
    for (ct_param buffer = {0}; ct_module_next_buffer(cti_optim_module(dist->optim), &buffer);)
        cti_dist_broadcast(dist, buffer.tensor);
    cti_dist_broadcast_bytes(dist, &rng, sizeof rng);
    ct_rng_set(dist->context, rng);
}

bool cti_dist_broadcast_all(ct_dist *dist) {
    for (int64_t i = 0; i < dist->params; i++)
        cti_optim_set_range(dist->optim, dist->param[i].number, &dist->param[i].range);
    cti_optim_parts *parts = cti_optim_parts_new(dist->optim);
    bool ok = cti_dist_meet(dist, CTI_CALL_NEW, 0, parts);
    if (ok) {
        share_module(dist);
        cti_optim_parts_move(parts);
        ok = cti_dist_meet(dist, CTI_CALL_NEW, 1, true);
    }
    cti_optim_parts_end(parts, ok);
    return ok;
}
