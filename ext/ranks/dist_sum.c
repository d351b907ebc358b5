/* Sums of numbers over the ranks. */
#include "dist.h"

#include <cotangent/autograd.h>

#include <string.h>

/* Gathers the values of all ranks. Rank r begins with its own values at r n; after round k it has
 * the values of 2^(k+1) ranks. */
static void sum_values_gather(ct_dist *dist, double *all, int64_t n) {
    ct_comm *comm = dist->comm;
    for (int bit = 1; bit < comm->size; bit *= 2) {
        const int mine = comm->rank & -bit, peer = comm->rank ^ bit, theirs = peer & -bit;
        const size_t bytes = (size_t)(bit * n) * sizeof *all;
        cti_transfer send, receive;
        cti_comm_start_bytes(comm, &send, CTI_DIST_BULK, peer, false, all + mine * n, bytes);
        cti_comm_start_bytes(comm, &receive, CTI_DIST_BULK, peer, true, all + theirs * n, bytes);
        cti_comm_wait(comm, &receive);
        cti_comm_wait(comm, &send);
    }
}

typedef struct {
    ct_dist *dist;
    double *values;
    int64_t n;
} sum_args;

static bool dist_sum_run(void *arg) {
    const sum_args *args = arg;
    ct_dist *dist = args->dist;
    double *values = args->values;
    const int64_t n = args->n;
    ct_context *context = dist->context;
    bool ok = cti_dist_is_ready(dist);
    if (ok && (n < 0 || (n > 0 && !values)))
        ok = ct_fail(context, CT_ERR_ARGUMENT, "dist_sum: values is NULL, or n negative");
    if (!dist->comm) return ok;
    const size_t bytes = ok ? cti_bytes(n, dist->ranks * sizeof(double)) : 0;
    double *all = ok ? cti_take_zeroed(context, bytes) : NULL;
    if (cti_dist_meet(dist, CTI_CALL_SUM, n, all)) {
        if (n) memcpy(all + dist->rank * n, values, (size_t)n * sizeof *all);
        sum_values_gather(dist, all, n);
        ok = cti_dist_meet(dist, CTI_CALL_SUM, n, true);
        for (int64_t i = 0; ok && i < n; i++) {
            values[i] = 0;
            for (int rank = 0; rank < dist->ranks; rank++) values[i] += all[rank * n + i];
        }
    } else {
        ok = false;
    }
    cti_give_any(context, all, bytes);
    return ok;
}

bool ct_dist_sum(ct_dist *dist, double *values, int64_t n) {
    return dist && cti_dist_is_usable(dist, CTI_CALL_SUM) &&
           cti_optim_run(dist->optim, dist_sum_run, &(sum_args){dist, values, n});
}
