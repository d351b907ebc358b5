/* Makes and frees a ct_dist, and hands out micro-batches. */
#include "dist.h"

#include <cotangent/autograd.h>
#include <cotangent/optim.h>

#include "../../src/core/assert.h"
#include "../../src/core/busy.h"

enum { MOST_MICRO_BATCHES = 1 << 18 }; /* each has its own random streams: see stream_of */

/* ---- options ---- */

static bool is_power_of_two(int64_t n) { return n > 0 && !(n & (n - 1)); }

static bool dist_check(ct_context *context, int ranks, const ct_dist_opts *o) {
    if (!is_power_of_two(o->shares) || o->shares % ranks)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "dist_new: shares is %" PRId64
                       ", must be a power of two that %d ranks divide",
                       o->shares, ranks);
    if (o->micro_batches < 1 || o->micro_batches > MOST_MICRO_BATCHES ||
        o->micro_batches % o->shares)
        return ct_fail(context, CT_ERR_ARGUMENT,
                       "dist_new: micro_batches is %" PRId64
                       ", must be a multiple of shares, %" PRId64 ", and at most %d",
                       o->micro_batches, o->shares, MOST_MICRO_BATCHES);
    if (o->bucket_bytes < 0)
        return ct_fail(context, CT_ERR_ARGUMENT, "dist_new: bucket_bytes is %" PRId64,
                       o->bucket_bytes);
    return (o->timeout >= 0 && o->timeout <= 1e9) ||
           ct_fail(context, CT_ERR_ARGUMENT, "dist_new: timeout is %g", o->timeout);
}

static ct_dist_opts with_defaults(ct_dist_opts o, int ranks) {
    if (!o.shares) o.shares = ranks;
    if (!o.micro_batches) o.micro_batches = o.shares;
    if (!o.bucket_bytes) o.bucket_bytes = 4 << 20;
    if (o.timeout == 0) o.timeout = 600;
    return o;
}

static int log2_of(int64_t n) {
    int k = 0;
    while (n >> k > 1) k++;
    return k;
}

/* ---- making and ending ---- */

static void dist_end(ct_dist *dist) {
    ct_comm *comm = dist->comm;
    cti_dist_watch(dist, false);
    /* A comm that was closed has cancelled its transfers. */
    bool pending = false;
    for (int64_t i = 0; dist->bucket && i < dist->buckets; i++)
        pending |= dist->bucket[i].send.pending || dist->bucket[i].receive.pending;
    if (pending) cti_comm_break(comm, "the optimiser of a step was freed before its end");
    cti_optim_let_go(dist->optim);
    cti_dist_layout_free(dist);
    cti_object_end(&dist->object, "");
}

static bool client_may_end(const cti_optim_client *client, const char *function) {
    return !cti_is_lent(cti_dist_of_client(client)->context, function);
}
static void client_end(cti_optim_client *client) { dist_end(cti_dist_of_client(client)); }
static void client_move(cti_optim_client *client, const cti_optim_range *range, ct_tensor *whole,
                        ct_tensor *part, bool to_whole) {
    cti_dist_move(cti_dist_of_client(client), range, whole, part, to_whole);
}

static bool dist_lay_out(void *dist) { return cti_dist_layout(dist); }

/* Makes a ct_dist without any message to other ranks. Returns NULL with an error if this fails. */
static ct_dist *dist_make(ct_optim *optim, ct_comm *comm, ct_dist_opts opts) {
    const int ranks = comm ? comm->size : 1;
    if (!cti_object_is_ready(cti_optim_object(optim), "ct_dist_new", "optimiser",
                             comm ? comm->context : NULL) ||
        !cti_optim_is_idle(optim, "ct_dist_new") || !cti_nn_step_is_complete(optim))
        return NULL;
    ct_context *context = cti_optim_object(optim)->context;
    if (comm && comm->context != context) {
        ct_context *const both[] = {comm->context, context};
        for (int i = 0; i < 2; i++)
            ct_fail(both[i], CT_ERR_ARGUMENT, "dist_new: comm and optimiser are of two contexts");
        return NULL;
    }
    opts = with_defaults(opts, ranks);
    if (!dist_check(context, ranks, &opts)) return NULL;
    ct_dist *dist = cti_object_new(context, sizeof *dist, "ct_dist");
    if (!dist) return NULL;
    dist->client = (cti_optim_client){.noun = "ct_dist",
                                      .function = "ct_dist_step",
                                      .may_end = client_may_end,
                                      .end = client_end,
                                      .move = client_move,
                                      .group = &dist->group};
    if (!cti_optim_hold(optim, &dist->client, "dist_new")) {
        cti_object_end(&dist->object, "");
        return NULL;
    }
    dist->optim = optim;
    dist->comm = ranks > 1 ? comm : NULL;
    dist->ranks = ranks;
    dist->rank = comm ? comm->rank : 0;
    dist->stages = log2_of(ranks);
    dist->levels = log2_of(opts.shares / ranks);
    dist->opts = opts;
    if (dist->comm) dist->fingerprint = ct_fingerprint(context);
    cti_dist_make_group(dist);
    CTI_ASSERT(1 << dist->stages == ranks && ranks << dist->levels == opts.shares);
    if (cti_optim_run(optim, dist_lay_out, dist)) return dist;
    dist_end(dist);
    return NULL;
}

/* Meets the other ranks, which are waiting, after the call has failed on this rank before a ct_dist
 * was made. */
static bool meet_without(ct_comm *comm, ct_dist_opts opts) {
    ct_dist none = {.object = {.context = comm->context},
                    .comm = comm,
                    .number = comm->dists,
                    .opts = with_defaults(opts, comm->size)};
    if (!(none.opts.timeout >= 0)) none.opts.timeout = 600;
    return cti_dist_meet(&none, CTI_CALL_NEW, 0, false);
}

/* Compares the ct_dist with the ct_dist of rank 0, and receives its values. */
static bool dist_begin_as_first(void *arg) {
    ct_dist *dist = arg;
    return cti_dist_meet(dist, CTI_CALL_NEW, 0, true) && cti_dist_compare(dist) &&
           cti_dist_broadcast_all(dist);
}

ct_dist *ct_dist_new(ct_optim *optim, ct_comm *comm, ct_dist_opts opts) {
    if (comm && optim && comm->object.self != &comm->object) {
        cti_object_in(&comm->object, cti_optim_object(optim)->context, "ct_dist_new");
        return NULL;
    }
    if (comm && !cti_comm_is_usable(comm, CTI_CALL_NEW)) return NULL;
    if (comm && !is_power_of_two(comm->size))
        return ct_fail(comm->context, CT_ERR_ARGUMENT,
                       "dist_new: %d ranks, their number must be a power of two", comm->size);
    ct_dist *dist = dist_make(optim, comm, opts);
    if (!comm || comm->size == 1) return dist;
    bool ok;
    if (dist) {
        dist->number = comm->dists;
        ok = cti_optim_run(optim, dist_begin_as_first, dist);
    } else {
        ok = meet_without(comm, opts);
    }
    comm->dists++;
    if (ok) return dist;
    if (dist) dist_end(dist);
    return NULL;
}

/* ---- the next micro-batch ---- */

/* The first random stream of a micro-batch. Bit 63 separates these streams from all others. A
 * micro-batch has 2^20 streams and a step 2^18 micro-batches; step numbers repeat after 2^25. */
static uint64_t stream_of(int64_t step, int64_t micro_batch) {
    return UINT64_C(1) << 63 | ((uint64_t)step & 0x1ffffff) << 38 | (uint64_t)micro_batch << 20;
}

static void dist_step_begin(ct_dist *dist) {
    ct_optim_zero_grad(dist->optim);
    dist->sent = (ct_dist_traffic){0}; /* until now it has counted the bytes of other calls */
    dist->rng = ct_rng_get(dist->context);
    dist->begun = true;
}

/* The micro-batch that ct_dist_next has begun last. */
static int64_t last_micro_batch(const ct_dist *dist) {
    return dist->rank * cti_dist_micro_batches(dist) + dist->next - 1;
}

/* Begins the next micro-batch of the rank; false if there is no other one. */
static bool begin_micro_batch(void *arg) {
    ct_dist *dist = arg;
    const int64_t count = cti_dist_micro_batches(dist),
                  share = dist->opts.micro_batches / dist->opts.shares;
    CTI_ASSERT(dist->begun == (dist->next > 0) && dist->next <= count);
    if (dist->next == count) {
        ct_rng_set(dist->context, dist->rng);
        dist->begun = false;
        dist->finished = true;
        cti_dist_watch(dist, false);
        cti_dist_end_left(dist);
        return false;
    }
    if (dist->next == 0) dist_step_begin(dist);
    else if (dist->next % share == 0) cti_dist_carry(dist, dist->next / share - 1);
    if (++dist->next == count && dist->comm) cti_dist_watch(dist, true);
    ct_rng_set(dist->context,
               (ct_rng){.seed = dist->rng.seed,
                        .stream = stream_of(dist->group.steps, last_micro_batch(dist))});
    return true;
}

bool ct_dist_next(ct_dist *dist, int64_t *micro_batch) {
    if (!dist || !cti_dist_is_usable(dist, CTI_CALL_STEP) || !cti_dist_is_ready(dist)) return false;
    if (!micro_batch)
        return ct_fail(dist->context, CT_ERR_ARGUMENT, "dist_next: micro_batch is NULL");
    if (cti_in_backward(dist->context))
        return ct_fail(dist->context, CT_ERR_GRAD, "dist_next: called inside a backward");
    if (dist->finished || !cti_optim_run(dist->optim, begin_micro_batch, dist)) return false;
    *micro_batch = last_micro_batch(dist);
    return true;
}

/* ---- reading ---- */

int64_t ct_dist_steps(const ct_dist *dist) {
    return dist && cti_object_is_open(&dist->object, "ct_dist_steps") ? dist->group.steps : -1;
}

ct_dist_traffic ct_dist_sent(const ct_dist *dist) {
    return dist && cti_object_is_open(&dist->object, "ct_dist_sent") ? dist->last_sent
                                                                     : (ct_dist_traffic){0};
}
