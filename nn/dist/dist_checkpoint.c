/* A checkpoint of several ranks. A save gathers the parts of states to rank 0, which then writes
 * the file that a process alone would write. A load is rank 0's, which has read everything; the
 * others get it, the states in parts. */
#include "dist_checkpoint.h"

#include <string.h>

/* ---- states between their parts and rank 0 ---- */

typedef struct {
    ct_dist *dist; /* of the optimiser */
    ct_optim *whole;
    ct_optim *parts;
    bool gathers; /* else scatters */
} exchange;

static cti_nn_slot *slot_of(const exchange *e, const ct_optim *optim, const cti_dist_param *p) {
    return &optim->slots[p->slot - e->dist->optim->slots];
}

/* Rank 0's own part. */
static void copy_own(const exchange *e, const cti_dist_param *p, int k) {
    ct_tensor *whole = slot_of(e, e->whole, p)->state[k], *part = slot_of(e, e->parts, p)->state[k];
    if (e->gathers) cti_op_range_copy(whole, p->part.start, part, 0, p->part.length);
    else cti_op_range_copy(part, 0, whole, p->part.start, p->part.length);
}

static void exchange_state(const exchange *e, const cti_dist_param *p, int k) {
    ct_dist *dist = e->dist;
    for (int rank = 1; rank < dist->ranks; rank++) {
        int64_t start, length;
        cti_transfer transfer;
        if (dist->rank != 0 && dist->rank != rank) continue;
        cti_dist_part(dist, p, rank, &start, &length);
        const bool first = dist->rank == 0;
        ct_tensor *state = slot_of(e, first ? e->whole : e->parts, p)->state[k];
        cti_comm_start(dist->comm, &transfer, CTI_DIST_BULK, first ? rank : 0, first == e->gathers,
                       state, first ? start : 0, length);
        cti_comm_wait(dist->comm, &transfer);
    }
    if (dist->rank == 0) copy_own(e, p, k);
}

static void exchange_states(const exchange *e) {
    for (int64_t i = 0; i < e->dist->params; i++) {
        const cti_dist_param *p = &e->dist->param[i];
        const ct_optim *has = e->dist->rank == 0 ? e->whole : e->parts;
        for (int k = 0; k < CTI_NN_STATES && slot_of(e, has, p)->state[k]; k++)
            exchange_state(e, p, k);
    }
}

/* ---- saving ---- */

/* A copy of the optimiser with whole states, whose values are still undefined. Rank 0's; the others
 * need none. */
static bool make_whole(ct_optim *whole, ct_optim *optim) {
    ct_context *context = optim->context;
    const ct_dist *dist = optim->dist;
    *whole = *optim;
    if (!dist || !dist->comm || dist->rank != 0) return true;
    whole->slots = cti_take(context, cti_bytes(optim->count, sizeof(cti_nn_slot)));
    if (!whole->slots) return false;
    memcpy(whole->slots, optim->slots, (size_t)optim->count * sizeof(cti_nn_slot));
    for (int64_t i = 0; i < optim->count; i++) {
        cti_nn_slot *slot = &whole->slots[i];
        for (int k = 0; slot->part && k < CTI_NN_STATES && slot->state[k]; k++) {
            slot->state[k] = cti_tensor_new(context, slot->param->dtype, slot->param->shape);
            if (!slot->state[k]) return false;
        }
    }
    return true;
}

/* What must be equal on all ranks that save. */
typedef struct {
    int64_t step, optims, slots;
} save_facts;

/* Whether this rank has rank 0's. */
static bool has_first_facts(ct_dist *dist, ct_optim *const *optims, int64_t n, int64_t step) {
    save_facts mine = {.step = step, .optims = n};
    for (int64_t i = 0; i < n; i++) mine.slots += optims[i]->count;
    save_facts first = mine;
    cti_dist_broadcast_bytes(dist, &first, sizeof first);
    if (first.step != mine.step)
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "checkpoint_save: rank %d has step %" PRId64 ", rank 0 has step %" PRId64,
                       dist->rank, mine.step, first.step);
    return (first.optims == mine.optims && first.slots == mine.slots) ||
           ct_fail(dist->context, CT_ERR_ARGUMENT,
                   "checkpoint_save: rank %d has other optimisers than rank 0", dist->rank);
}

bool cti_dist_gather(ct_dist *dist, ct_optim *const *optims, int64_t n, ct_optim *whole,
                     int64_t step, bool ok) {
    for (int64_t i = 0; i < n; i++) whole[i].slots = NULL;
    for (int64_t i = 0; ok && i < n; i++) ok = make_whole(&whole[i], optims[i]);
    if (!cti_dist_meet(dist, CTI_CALL_SAVE, 0, ok)) return false;
    if (dist && dist->comm &&
        !cti_dist_meet(dist, CTI_CALL_SAVE, 0, has_first_facts(dist, optims, n, step)))
        return false;
    for (int64_t i = 0; dist && dist->comm && i < n; i++)
        if (optims[i]->dist)
            exchange_states(&(exchange){optims[i]->dist, &whole[i], optims[i], .gathers = true});
    return true;
}

void cti_dist_gathered_free(ct_optim *const *optims, int64_t n, ct_optim *whole) {
    for (int64_t i = 0; i < n; i++)
        if (whole[i].slots && whole[i].slots != optims[i]->slots)
            cti_give(whole[i].context, whole[i].slots,
                     cti_bytes(whole[i].count, sizeof(cti_nn_slot)));
}

/* ---- loading ---- */

/* New states for the parts, where rank 0's draft has whole ones. */
static bool make_parts(ct_optim *parts, const ct_optim *draft, const ct_dist *dist) {
    *parts = *draft;
    parts->slots = cti_take_zeroed(draft->context, cti_bytes(draft->count, sizeof(cti_nn_slot)));
    for (int64_t i = 0; parts->slots && i < dist->params; i++) {
        cti_dist_param *p = &dist->param[i];
        const int64_t at = p->slot - dist->optim->slots;
        cti_nn_slot *slot = &parts->slots[at];
        *slot = (cti_nn_slot){.param = p->slot->param, .part = &p->part};
        if (draft->slots[at].state[0] && !cti_nn_slot_start(draft->rule, slot)) return false;
    }
    return parts->slots;
}

static void end_parts(ct_optim *parts) {
    if (!parts->slots) return;
    for (int64_t i = 0; i < parts->count; i++) cti_nn_slot_reset(&parts->slots[i]);
    cti_give(parts->context, parts->slots, cti_bytes(parts->count, sizeof(cti_nn_slot)));
}

static void swap_states(ct_optim *a, ct_optim *b) {
    for (int64_t i = 0; i < a->count; i++) {
        cti_nn_slot *x = &a->slots[i], *y = &b->slots[i];
        if (!y->part) continue;
        ct_tensor *state[CTI_NN_STATES];
        memcpy(state, x->state, sizeof state);
        memcpy(x->state, y->state, sizeof state);
        memcpy(y->state, state, sizeof state);
    }
}

/* A hash of the names, dtypes and shapes of what is loaded; states have their parameters'. */
static uint64_t hash_of(const cti_nn_state *state) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < state->n; i++) {
        char text[32] = "";
        const ct_tensor *t = state->named[i].tensor;
        if (!state->item[i].direct)
            snprintf(text, sizeof text, "%" PRId64 ":%d:%d", t->numel, t->shape.ndim,
                     (int)t->dtype);
        for (const char *s = state->named[i].name; *s; s++)
            hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
        for (const char *s = text; *s; s++)
            hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* New tensors on the ranks that have read no file. */
static bool make_room(const ct_dist *dist, cti_nn_state *state) {
    for (int64_t i = 0; dist->rank != 0 && i < state->n; i++) {
        cti_nn_item *item = &state->item[i];
        const ct_tensor *t = state->named[i].tensor;
        item->read = item->direct ? state->named[i].tensor
                                  : cti_tensor_new(dist->context, t->dtype, t->shape);
        if (!item->read) return false;
    }
    return true;
}

/* Of what is in no part. */
static void send_whole_states(ct_dist *dist, const ct_optim *optim, ct_optim *draft) {
    for (int64_t i = 0; i < draft->count; i++)
        for (int k = 0; k < CTI_NN_STATES && draft->slots[i].state[k]; k++)
            if (!optim->slots[i].part) cti_dist_broadcast(dist, draft->slots[i].state[k]);
}

bool cti_dist_scatter(ct_dist *dist, ct_optim *const *optims, int64_t n, ct_optim *drafts,
                      cti_nn_state *state, bool ok) {
    ct_context *context = dist->context;
    const bool first = dist->rank == 0;
    const size_t bytes = cti_bytes(n, sizeof(ct_optim));
    ct_optim *parts = cti_take_zeroed(context, bytes);
    ok = ok && parts && make_room(dist, state);
    for (int64_t i = 0; ok && first && i < n; i++)
        if (optims[i]->dist) ok = make_parts(&parts[i], &drafts[i], optims[i]->dist);
    ok = cti_dist_meet(dist, CTI_CALL_LOAD, 1, ok);
    uint64_t mine = ok ? hash_of(state) : 0, hash = mine;
    if (ok) {
        cti_dist_broadcast_bytes(dist, &hash, sizeof hash);
        if (hash != mine)
            ct_fail(context, CT_ERR_ARGUMENT,
                    "checkpoint_load: rank %d has other names, shapes or dtypes than rank 0",
                    dist->rank);
        ok = cti_dist_meet(dist, CTI_CALL_LOAD, 2, hash == mine);
    }
    for (int64_t i = 0; ok && i < state->n; i++)
        if (!state->item[i].direct) cti_dist_broadcast(dist, state->item[i].read);
    for (int64_t i = 0; ok && i < n; i++) {
        send_whole_states(dist, optims[i], &drafts[i]);
        if (!optims[i]->dist) continue;
        ct_optim *own = first ? &parts[i] : &drafts[i];
        exchange_states(&(exchange){optims[i]->dist, &drafts[i], own, .gathers = false});
        if (first) swap_states(&drafts[i], &parts[i]);
    }
    for (int64_t i = 0; parts && i < n; i++) end_parts(&parts[i]);
    cti_give(context, parts, bytes);
    if (!ok) return false;
    if (!first) cti_nn_state_write_numbers(state);
    return cti_dist_meet(dist, CTI_CALL_LOAD, 3, true);
}
