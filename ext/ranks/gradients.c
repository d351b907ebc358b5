/* Gradients: the sums of this rank's shares, and the exchange of buckets. dist.h has the states. */
#include "dist.h"

#include <cotangent/autograd.h>
#include <cotangent/ops.h>
#include <cotangent/scope.h>

#include "../../src/core/assert.h"

/* ---- shares ---- */

/* The sums of the shares so far are kept as the digits of a binary counter: set[k] is in use if bit
 * k of the number of shares is 1. A missing gradient is -0, because -0 + x has the bits of x; so it
 * may be left out of a sum.
 *
 * If an update fails, its error is pending and this rank takes it to the next agreement. */

/* The elements of a parameter in memory of its bucket, in the parameter's shape and in the
 * innermost scope. */
static ct_tensor *place_of(const cti_dist_param *p, ct_tensor *memory) {
    ct_tensor *elements = ct_narrow(memory, 0, p->at, p->numel);
    return elements ? ct_view(elements, ct_shape_of(p->of.tensor)) : NULL;
}

/* Copies the gradient to `to`, or adds it. */
static void grad_take(cti_dist_param *p, ct_tensor *to, bool add) {
    ct_tensor *grad = ct_grad(p->of.tensor);
    p->present |= grad != NULL;
    if (grad && add) ct_add_into(to, grad, 1);
    else if (grad) ct_copy_into(to, grad);
    else if (!add && to)
        ct_copy_into(to, ct_full(ct_context_of(to), ct_dtype_of(to), CT_SCALAR, -0.0));
}

void cti_dist_carry(ct_dist *dist, int64_t share) {
    int ones = 0; /* ones at the end of `share` in binary: sums to add up */
    while (share >> ones & 1) ones++;
    CTI_ASSERT(ones < dist->levels);
    const bool was_incomplete = dist->incomplete;
    dist->incomplete = true;
    const ct_scope scope = ct_scope_open_no_grad(dist->context);
    for (int64_t b = 0; b < dist->buckets; b++) {
        cti_dist_bucket *bucket = &dist->bucket[b];
        for (int64_t i = bucket->first; i < bucket->first + bucket->count; i++) {
            cti_dist_param *p = &dist->param[i];
            grad_take(p, place_of(p, bucket->set[0]), ones > 0);
            ct_zero_grad(p->of.tensor);
        }
        for (int k = 1; k < ones; k++) ct_add_into(bucket->set[k], bucket->set[k - 1], 1);
        if (!ones) continue;
        ct_tensor *sum = bucket->set[ones - 1];
        bucket->set[ones - 1] = bucket->set[ones];
        bucket->set[ones] = sum;
    }
    ct_scope_close(scope);
    dist->incomplete = was_incomplete || !cti_dist_is_ready(dist);
}

/* Makes a gradient of -0 for a parameter that had a gradient in earlier shares only. It is made by
 * a backward from the parameter itself, with -0 as the cotangent. */
static bool grad_make(const cti_dist_param *p) {
    ct_tensor *param = p->of.tensor;
    if (!p->present || !ct_requires_grad(param)) return true;
    ct_tensor *zeros = ct_full(ct_context_of(param), ct_dtype_of(param), ct_shape_of(param), -0.0);
    return zeros && ct_backward_with(&param, &zeros, 1, (ct_backward_opts){0});
}

static bool param_carry(ct_dist *dist, const cti_dist_param *p) {
    ct_tensor **set = dist->bucket[p->bucket].set;
    if (!ct_grad(p->of.tensor) && !grad_make(p)) return false;
    ct_tensor *grad = ct_grad(p->of.tensor);
    if (!grad) return true;
    for (int k = 0; k < dist->levels; k++)
        if (!ct_add_into(grad, place_of(p, set[k]), 1)) return false;
    return dist->opts.micro_batches == 1 ||
           ct_scale_into(grad, 1 / (double)dist->opts.micro_batches);
}

bool cti_dist_carry_last(ct_dist *dist) {
    const ct_scope scope = ct_scope_open_no_grad(dist->context);
    bool ok = true;
    for (int64_t i = 0; ok && i < dist->params; i++) ok = param_carry(dist, &dist->param[i]);
    ct_scope_close(scope);
    return ok;
}

void cti_dist_stage(ct_dist *dist) {
    CTI_ASSERT(dist->staged < dist->buckets);
    cti_dist_bucket *bucket = &dist->bucket[dist->staged++];
    CTI_ASSERT(bucket->stage == 0 && !bucket->runs);
    const ct_scope scope = ct_scope_open_no_grad(dist->context);
    for (int64_t i = bucket->first; i < bucket->first + bucket->count; i++) {
        cti_dist_param *p = &dist->param[i];
        grad_take(p, p->work, p->taken);
        p->taken = false;
        p->left = ct_grad(p->of.tensor) != NULL;
    }
    for (int k = 0; k < dist->levels; k++) ct_add_into(bucket->work, bucket->set[k], 1);
    ct_scope_close(scope);
}

void cti_dist_end_left(ct_dist *dist) {
    for (int64_t i = 0; i < dist->params; i++) {
        cti_dist_param *p = &dist->param[i];
        if (p->left) ct_zero_grad(p->of.tensor);
        p->left = false;
    }
}

/* ---- the exchange of a bucket: dist.h has the figure ---- */

typedef struct {
    int64_t from, to;
} bucket_span;
static bucket_span at_stage(const ct_dist *dist, const cti_dist_bucket *bucket, int rank,
                            int stage) {
    bucket_span r;
    cti_dist_bucket_range(dist, bucket, rank, stage, &r.from, &r.to);
    return r;
}

static void exchange_start(ct_dist *dist, cti_dist_bucket *bucket) {
    CTI_ASSERT(!bucket->runs && bucket->stage < 2 * dist->stages);
    const bool sums = bucket->stage < dist->stages;
    const int k = sums ? bucket->stage : 2 * dist->stages - 1 - bucket->stage,
              peer = dist->rank ^ 1 << k, tag = cti_dist_tag(dist, !sums);
    const bucket_span mine = at_stage(dist, bucket, dist->rank, k + 1),
                      theirs = at_stage(dist, bucket, peer, k + 1);
    const bucket_span out = sums ? theirs : mine, in = sums ? mine : theirs;
    const int64_t sent = cti_comm_start(dist->comm, &bucket->send, tag, peer, false, bucket->work,
                                        out.from, out.to - out.from);
    cti_comm_start(dist->comm, &bucket->receive, tag, peer, true,
                   sums ? bucket->scratch : bucket->work, sums ? 0 : in.from, in.to - in.from);
    *(sums ? &dist->sent.gradients : &dist->sent.parameters) += sent;
    bucket->runs = true;
}

/* Ends a stage: adds the received data. After the last stage of sums, scratch has the mean. */
static void exchange_end(ct_dist *dist, cti_dist_bucket *bucket) {
    CTI_ASSERT(bucket->runs && !bucket->send.pending && !bucket->receive.pending);
    bucket->runs = false;
    if (bucket->stage++ >= dist->stages) return;
    const bucket_span r = at_stage(dist, bucket, dist->rank, bucket->stage);
    const ct_scope scope = ct_scope_open_no_grad(dist->context);
    ct_tensor *own = ct_narrow(bucket->work, 0, r.from, r.to - r.from),
              *received = ct_narrow(bucket->scratch, 0, 0, r.to - r.from);
    if (bucket->stage < dist->stages) {
        ct_add_into(own, received, 1);
    } else {
        ct_add_into(received, own, 1);
        if (dist->opts.micro_batches > 1)
            ct_scale_into(received, 1 / (double)dist->opts.micro_batches);
    }
    ct_scope_close(scope);
}

/* Whether the bucket has begun this stage: see invariant (3) of dist.h. */
static bool has_begun(const cti_dist_bucket *bucket, int stage) {
    return bucket->stage > stage || (bucket->stage == stage && bucket->runs);
}

bool cti_dist_advance(ct_dist *dist, int stage) {
    bool all = dist->staged == dist->buckets;
    for (int64_t b = 0; b < dist->staged; b++) {
        cti_dist_bucket *bucket = &dist->bucket[b];
        while (bucket->stage < stage) {
            if (bucket->runs && (bucket->send.pending || bucket->receive.pending)) break;
            if (bucket->runs) exchange_end(dist, bucket);
            else if (b == 0 || has_begun(bucket - 1, bucket->stage)) exchange_start(dist, bucket);
            else break;
        }
        all &= bucket->stage >= stage;
    }
    return all;
}

void cti_dist_finish(ct_dist *dist, int stage) {
    cti_wait wait = cti_wait_begin(dist->comm, cti_dist_tag(dist, stage > dist->stages));
    while (!cti_dist_advance(dist, stage)) cti_wait_turn(dist->comm, &wait);
}

/* ---- in backward ---- */

static void watch_begin(void *self, const bool *reached, bool retain_graph) {
    ct_dist *dist = self;
    dist->early = !retain_graph; /* after retain_graph another backward may follow */
    dist->was_incomplete = dist->incomplete;
    for (int64_t b = 0; b < dist->buckets; b++) dist->bucket[b].unfinished = 0;
    for (int64_t i = 0; i < dist->leaves; i++) {
        cti_dist_param *p = dist->watched[i];
        dist->bucket[p->bucket].unfinished += reached[i];
        if (reached[i]) p->left = false; /* if it is staged, its gradient comes too late */
    }
}

/* Adds a gradient to its bucket, so that the rest of the backward may use its memory. The gradient
 * of a bucket that was staged comes too late, and stays: has_late_gradient finds it. */
static bool watch_whole(void *self, int64_t i, ct_tensor *grad) {
    ct_dist *dist = self;
    cti_dist_param *p = dist->watched[i];
    cti_dist_bucket *bucket = &dist->bucket[p->bucket];
    CTI_ASSERT(bucket->unfinished > 0);
    bucket->unfinished--;
    (void)grad;
    if (!dist->early || p->bucket < dist->staged) return false;
    dist->incomplete = true; /* until the backward has succeeded */
    grad_take(p, p->work, p->taken);
    p->taken = true;
    return true;
}

/* Stages the buckets whose gradients are final, in order. */
static void watch_turn(void *self) {
    ct_dist *dist = self;
    if (!dist->early) return;
    while (dist->staged < dist->buckets && !dist->bucket[dist->staged].unfinished)
        cti_dist_stage(dist);
    if (dist->comm->pending) cti_comm_poll(dist->comm);
    cti_dist_advance(dist, dist->stages);
}

static void watch_end(void *self, bool ok) {
    ct_dist *dist = self;
    if (ok) dist->incomplete = dist->was_incomplete;
}

static const ct_watch_fns watch_fns = {
    .begin = watch_begin, .whole = watch_whole, .turn = watch_turn, .end = watch_end};

void cti_dist_watch(ct_dist *dist, bool on) {
    ct_context *context = dist->context;
    if (!on) {
        ct_unwatch(context, dist);
        return;
    }
    dist->leaves = 0;
    for (int64_t i = 0; i < dist->params; i++) {
        ct_tensor *leaf = dist->param[i].of.tensor;
        if (!ct_requires_grad(leaf)) continue;
        dist->watched[dist->leaves] = &dist->param[i];
        dist->leaf[dist->leaves++] = leaf;
    }
    ct_watch(context, dist->leaf, dist->leaves, &watch_fns, dist);
}
