/* The end of a step of several ranks, in five phases. A rank with an error takes part in phases 1
 * and 2, because others wait for it.
 *
 *     phase                          transfers           fails on all ranks if
 *     1 meet                         control             one has an error or makes another call
 *     2 sums of gradients            stages 0 ... K - 1  (phase 3 finds a lost rank)
 *     3 agree on numbers, gradients  control             numbers differ, or a rank was lost
 *       present, squares
 *     4 make states, meet            control             a rank has no memory
 *     5 step ranges, exchange        stages K ... 2K - 1 (no agreement follows: a rank that
 *       parameters                                       fails here leaves the run)
 *
 * (1) Until phase 5 no state and no parameter changes; states made in phase 4 are freed on failure.
 *
 * (2) The step changes a copy of the range, bucket->work. Parameters are written from it after all
 * ranges have arrived. */
#include "dist.h"

#include <cotangent/autograd.h>
#include <cotangent/ops.h>
#include <cotangent/optim.h>
#include <cotangent/scope.h>

#include "../../src/core/assert.h"
#include "../../src/core/busy.h"
#include "../../src/core/kernel_bits.h"

#include <math.h>
#include <string.h>

/* ---- whether the step may begin ---- */

/* Whether every parameter that requires a gradient now is one that the ct_dist trains. */
static bool trains_what_it_did(const ct_dist *dist) {
    cti_optim_param param;
    int64_t next = 0;
    for (int64_t i = 0; cti_optim_param_at(dist->optim, i, &param); i++) {
        if (next < dist->params && dist->param[next].number == i) next++;
        else if (ct_requires_grad(param.tensor) && !param.frozen)
            return ct_fail(dist->context, CT_ERR_ARGUMENT,
                           "dist_step: %s requires a gradient since ct_dist_new; make the "
                           "optimiser and its ct_dist anew",
                           param.name);
    }
    return true;
}

/* Whether a parameter has got a gradient after its bucket was sent. */
static bool has_late_gradient(const ct_dist *dist) {
    for (int64_t b = 0; b < dist->staged; b++) {
        const cti_dist_bucket *bucket = &dist->bucket[b];
        for (int64_t i = bucket->first; i < bucket->first + bucket->count; i++) {
            const cti_dist_param *p = &dist->param[i];
            if (!ct_grad(p->of.tensor)) continue;
            ct_fail(dist->context, CT_ERR_ARGUMENT,
                    "dist_step: %s has got a gradient after its sum was sent: the last "
                    "micro-batch of a step has one backward, of one loss",
                    p->of.name);
            return true;
        }
    }
    return false;
}

static bool may_begin(const ct_dist *dist) {
    if (!cti_dist_is_ready(dist)) return false;
    if (!dist->finished)
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "dist_step: %" PRId64 " of %" PRId64
                       " micro-batches were asked for; it comes after ct_dist_next has returned "
                       "false",
                       dist->next, cti_dist_micro_batches(dist));
    if (dist->incomplete)
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "dist_step: ct_dist_next or the last backward has failed, so the sums lack "
                       "gradients");
    return cti_nn_step_is_complete(dist->optim) && trains_what_it_did(dist) &&
           !has_late_gradient(dist);
}

/* ---- agreement on the step ---- */

static cti_dist_numbers numbers_of(const ct_dist *dist) {
    return (cti_dist_numbers){.digest = cti_optim_digest(dist->optim),
                              .seed = ct_rng_get(dist->context).seed,
                              .lr = cti_optim_lr(dist->optim),
                              .matmul = ct_get_matmul(dist->context)};
}

static void sum_block_merge(void *mine, const void *theirs, size_t size) {
    cti_dist_block *a = mine;
    const cti_dist_block *b = theirs;
    const bool lower = a->head.rank < b->head.rank;
    const cti_dist_block *first = lower ? a : b, *second = lower ? b : a;
    cti_dist_block head = {
        .numbers = first->numbers, .other = first->other, .differs = first->differs};
    if (head.differs < 0 && memcmp(&first->numbers, &second->numbers, sizeof head.numbers) != 0) {
        head.differs = second->head.rank;
        head.other = second->numbers;
    } else if (head.differs < 0) {
        head.differs = second->differs;
        head.other = second->other;
    }
    a->numbers = head.numbers, a->other = head.other, a->differs = head.differs;
    for (int32_t i = 0; i < a->words; i++) a->bits[i] |= b->bits[i];
    double *squares = (double *)(a->bits + a->words);
    const double *add = (const double *)(b->bits + a->words);
    const size_t units = (size - sizeof *a) / sizeof(uint64_t) - (size_t)a->words;
    for (size_t i = 0; i < units; i++) squares[i] += add[i];
}

/* Agrees with all ranks on equal numbers, on the parameters that have a gradient, and on the
 * norm. */
static bool dist_step_agree(ct_dist *dist, double *norm) {
    cti_dist_block *block = dist->block;
    const cti_place place = {
        .call = CTI_CALL_STEP, .dist = dist->number, .step = dist->group.steps};
    const bool ok = cti_dist_is_ready(dist), measures = cti_nn_step_needs_norm(dist->optim);
    memset(block, 0, dist->block_bytes);
    cti_agreement_begin(&block->head, dist->comm, place, ok);
    block->numbers = numbers_of(dist);
    block->differs = -1;
    block->words = (int32_t)cti_dist_words(dist);
    for (int64_t i = 0; i < dist->params; i++)
        block->bits[i / 64] |= (uint64_t)dist->param[i].present << i % 64;
    double *squares = (double *)(block->bits + block->words);
    if (ok && measures) cti_optim_unit_sums(dist->optim, squares, dist->own_squares);
    dist->sent.other += cti_agree(dist->comm, CTI_DIST_CONTROL, &block->head,
                                  &dist->peer_block->head, dist->block_bytes, sum_block_merge);
    if (!cti_agreement_holds(dist->comm, &block->head, place)) return false;
    const cti_dist_numbers *a = &block->numbers, *b = &block->other;
    if (block->differs >= 0 && a->lr != b->lr)
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "dist_step: rank %d has a learning rate of %.17g, rank 0 of %.17g",
                       block->differs, b->lr, a->lr);
    if (block->differs >= 0 && a->seed != b->seed)
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "dist_step: rank %d has the seed %" PRIu64 ", rank 0 %" PRIu64,
                       block->differs, b->seed, a->seed);
    if (block->differs >= 0 && a->matmul != b->matmul)
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "dist_step: rank %d has the matmul precision %s, rank 0 has %s",
                       block->differs, cti_matmul_name((ct_matmul_precision)b->matmul),
                       cti_matmul_name((ct_matmul_precision)a->matmul));
    if (block->differs >= 0)
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "dist_step: rank %d has other groups or numbers of the optimiser than "
                       "rank 0",
                       block->differs);
    for (int64_t i = 0; i < dist->params; i++)
        dist->param[i].range.present = block->bits[i / 64] >> i % 64 & 1;
    *norm = measures ? cti_optim_norm(squares, dist->units) : (double)NAN;
    return true;
}

/* ---- parameters ---- */

/* Copies this rank's ranges of the parameters; the step changes the copy. */
static bool ranges_copy(ct_dist *dist) {
    const ct_scope scope = ct_scope_open_no_grad(dist->context);
    bool ok = true;
    for (int64_t i = 0; ok && i < dist->params; i++) {
        const cti_dist_param *p = &dist->param[i];
        const ct_shape shape = ct_shape_of(p->range.param);
        ct_tensor *all = ct_view(p->of.tensor, CT_SHAPE(p->numel)),
                  *own = all ? ct_narrow(all, 0, p->range.start, p->range.length) : NULL;
        ok = own && ct_copy_into(p->range.param, ct_view(own, shape));
    }
    ct_scope_close(scope);
    return ok;
}

/* Writes the parameters that were stepped, by any rank. */
static bool params_write(ct_dist *dist) {
    bool ok = true;
    for (int64_t i = 0; i < dist->params; i++) {
        const cti_dist_param *p = &dist->param[i];
        cti_optim_param param = {0};
        CTI_ASSERT(dist->bucket[p->bucket].stage == 2 * dist->stages);
        cti_optim_param_at(dist->optim, p->number, &param);
        if (p->range.present && !param.frozen) ok &= ct_copy_into(param.tensor, p->work);
    }
    return ok;
}

/* ---- the step ---- */

/* Phases 3 to 5, when the sums of gradients are complete. */
static bool dist_step_together(ct_dist *dist) {
    ct_optim *optim = dist->optim;
    double norm = (double)NAN;
    if (!dist_step_agree(dist, &norm)) return false;
    cti_nn_step_collect(optim);
    if (!cti_nn_step_measured(optim, norm)) return true;
    CTI_ASSERT(dist->staged == dist->buckets);
    const bool prepared = ranges_copy(dist) && cti_nn_step_prepare(optim);
    if (!cti_dist_meet(dist, CTI_CALL_STEP, 1, prepared)) {
        cti_nn_step_undo(optim);
        return false;
    }
    if (!cti_nn_step_run(optim)) {
        cti_comm_break(dist->comm, "the optimiser has failed on one of them");
        return false;
    }
    if (dist->comm->object.self != &dist->comm->object)
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "dist_step: the comm was closed by the optimiser's rule");
    cti_dist_finish(dist, 2 * dist->stages);
    if (*dist->comm->fault) { /* to other ranks this rank is lost now */
        ct_fail(dist->context, CT_ERR_IO, "dist_step: %s; this rank is in step %" PRId64,
                dist->comm->fault, dist->group.steps);
        cti_comm_break(dist->comm, NULL);
        return false;
    }
    if (params_write(dist)) return true;
    cti_comm_break(dist->comm, "one of them has failed to write its parameters");
    return false;
}

static bool several(ct_dist *dist) {
    const bool met = cti_dist_meet(dist, CTI_CALL_STEP, 0, may_begin(dist));
    while (dist->staged < dist->buckets) {
        cti_dist_stage(dist);
        cti_dist_advance(dist, dist->stages);
    }
    cti_dist_end_left(dist);
    cti_dist_finish(dist, dist->stages);
    return met && dist_step_together(dist);
}

static bool alone(ct_dist *dist) {
    return may_begin(dist) && cti_dist_carry_last(dist) && cti_nn_step_alone(dist->optim);
}

static bool dist_step_run(void *arg) {
    ct_dist *dist = arg;
    cti_dist_watch(dist, false);
    cti_dist_end_left(dist);
    if (dist->begun) ct_rng_set(dist->context, dist->rng);
    const bool ok = dist->comm ? several(dist) : alone(dist);
    cti_dist_end_step(dist);
    if (ok) dist->group.steps++;
    return ok;
}

bool ct_dist_step(ct_dist *dist) {
    if (!dist || !cti_dist_is_usable(dist, CTI_CALL_STEP)) return false;
    if (cti_in_backward(dist->context))
        return ct_fail(dist->context, CT_ERR_GRAD, "dist_step: called inside a backward");
    return cti_optim_run(dist->optim, dist_step_run, dist);
}
