/* A checkpoint of several ranks. Its file is the same as the file of a single process. The header
 * has the protocol. */
#include "dist_checkpoint.h"

#include <string.h>

/* ---- states: whole on rank 0, cut on each rank ---- */

typedef struct {
    ct_dist *dist; /* the ct_dist of the optimiser */
    ct_optim *whole;
    ct_optim *cut;
    bool gathers; /* true: cut to whole; false: whole to cut */
} state_exchange;

static cti_nn_item *item_of(const state_exchange *e, const ct_optim *optim,
                            const cti_dist_param *p) {
    return &optim->items[p->item - e->dist->optim->items];
}

/* Copies rank 0's own range. */
static void copy_own(const state_exchange *e, const cti_dist_param *p, int k) {
    ct_tensor *whole = item_of(e, e->whole, p)->state[k], *own = item_of(e, e->cut, p)->state[k];
    if (e->gathers) cti_op_range_copy(whole, p->range.start, own, 0, p->range.length);
    else cti_op_range_copy(own, 0, whole, p->range.start, p->range.length);
}

static void exchange_state(const state_exchange *e, const cti_dist_param *p, int k) {
    ct_dist *dist = e->dist;
    for (int rank = 1; rank < dist->ranks; rank++) {
        int64_t start, length;
        cti_transfer transfer;
        if (dist->rank != 0 && dist->rank != rank) continue;
        cti_dist_param_range(dist, p, rank, &start, &length);
        const bool first = dist->rank == 0;
        ct_tensor *state = item_of(e, first ? e->whole : e->cut, p)->state[k];
        cti_comm_start(dist->comm, &transfer, CTI_DIST_BULK, first ? rank : 0, first == e->gathers,
                       state, first ? start : 0, length);
        cti_comm_wait(dist->comm, &transfer);
    }
    if (dist->rank == 0) copy_own(e, p, k);
}

static void exchange_states(const state_exchange *e) {
    for (int64_t i = 0; i < e->dist->params; i++) {
        const cti_dist_param *p = &e->dist->param[i];
        const ct_optim *has = e->dist->rank == 0 ? e->whole : e->cut;
        for (int k = 0; k < CTI_NN_STATES && item_of(e, has, p)->state[k]; k++)
            exchange_state(e, p, k);
    }
}

/* ---- saving ---- */

/* Makes rank 0's copy of the optimiser with whole states, whose values are still undefined. On
 * other ranks the copy shares the items. */
static bool make_whole(ct_optim *whole, ct_optim *optim) {
    ct_context *context = optim->context;
    const ct_dist *dist = cti_dist_of(optim);
    *whole = *optim;
    if (!dist || !dist->comm || dist->rank != 0) return true;
    whole->items = cti_take(context, cti_bytes(optim->count, sizeof(cti_nn_item)));
    if (!whole->items) return false;
    memcpy(whole->items, optim->items, (size_t)optim->count * sizeof(cti_nn_item));
    for (int64_t i = 0; i < optim->count; i++) {
        cti_nn_item *item = &whole->items[i];
        for (int k = 0; item->range && k < CTI_NN_STATES && item->state[k]; k++) {
            item->state[k] = cti_tensor_new(context, item->param->dtype, item->param->shape);
            if (!item->state[k]) return false;
        }
    }
    return true;
}

/* The facts that must be equal on all ranks of a save. */
typedef struct {
    int64_t step, optims, items;
} save_facts;

/* Does this rank have rank 0's facts? */
static bool has_first_facts(ct_dist *dist, ct_optim *const *optims, int64_t n, int64_t step) {
    save_facts mine = {.step = step, .optims = n};
    for (int64_t i = 0; i < n; i++) mine.items += optims[i]->count;
    save_facts first = mine;
    cti_dist_broadcast_bytes(dist, &first, sizeof first);
    if (first.step != mine.step)
        return ct_fail(dist->context, CT_ERR_ARGUMENT,
                       "checkpoint_save: rank %d has step %" PRId64 ", rank 0 has step %" PRId64,
                       dist->rank, mine.step, first.step);
    return (first.optims == mine.optims && first.items == mine.items) ||
           ct_fail(dist->context, CT_ERR_ARGUMENT,
                   "checkpoint_save: rank %d has other optimisers than rank 0", dist->rank);
}

bool cti_dist_gather(ct_dist *dist, ct_optim *const *optims, int64_t n, ct_optim *whole,
                     int64_t step, bool ok) {
    for (int64_t i = 0; i < n; i++) whole[i].items = NULL;
    for (int64_t i = 0; ok && i < n; i++) ok = make_whole(&whole[i], optims[i]);
    if (!cti_dist_meet(dist, CTI_CALL_SAVE, 0, ok)) return false;
    if (dist && dist->comm &&
        !cti_dist_meet(dist, CTI_CALL_SAVE, 0, has_first_facts(dist, optims, n, step)))
        return false;
    for (int64_t i = 0; dist && dist->comm && i < n; i++)
        if (optims[i]->client)
            exchange_states(
                &(state_exchange){cti_dist_of(optims[i]), &whole[i], optims[i], .gathers = true});
    return true;
}

void cti_dist_gathered_free(ct_optim *const *optims, int64_t n, ct_optim *whole) {
    for (int64_t i = 0; i < n; i++)
        if (whole[i].items && whole[i].items != optims[i]->items)
            cti_give(whole[i].context, whole[i].items,
                     cti_bytes(whole[i].count, sizeof(cti_nn_item)));
}

/* ---- loading ---- */

/* Makes this rank's cut states for a draft that has whole states. */
static bool make_cut(ct_optim *cut, const ct_optim *draft, const ct_dist *dist) {
    *cut = *draft;
    cut->items = cti_take_zeroed(draft->context, cti_bytes(draft->count, sizeof(cti_nn_item)));
    for (int64_t i = 0; cut->items && i < dist->params; i++) {
        cti_dist_param *p = &dist->param[i];
        const int64_t at = p->item - dist->optim->items;
        cti_nn_item *item = &cut->items[at];
        *item = (cti_nn_item){.param = p->item->param, .range = &p->range, .rule = p->item->rule};
        if (draft->items[at].state[0] && !cti_nn_item_start(cti_nn_rule_of(draft, item), item))
            return false;
    }
    return cut->items;
}

static void end_cut(ct_optim *cut) {
    if (!cut->items) return;
    for (int64_t i = 0; i < cut->count; i++) cti_nn_item_reset(&cut->items[i]);
    cti_give(cut->context, cut->items, cti_bytes(cut->count, sizeof(cti_nn_item)));
}

static void swap_states(ct_optim *a, ct_optim *b) {
    for (int64_t i = 0; i < a->count; i++) {
        cti_nn_item *x = &a->items[i], *y = &b->items[i];
        if (!y->range) continue;
        ct_tensor *state[CTI_NN_STATES];
        memcpy(state, x->state, sizeof state);
        memcpy(x->state, y->state, sizeof state);
        memcpy(y->state, state, sizeof state);
    }
}

/* A hash of the names, dtypes and shapes that are loaded. States are left out; they have their
 * parameters' shapes. */
static uint64_t state_hash(const cti_nn_state *state) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < state->n; i++) {
        char text[32] = "";
        const ct_tensor *t = state->named[i].tensor;
        if (!state->record[i].direct)
            snprintf(text, sizeof text, "%" PRId64 ":%d:%d", t->numel, t->shape.ndim,
                     (int)t->dtype);
        for (const char *s = state->named[i].name; *s; s++)
            hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
        for (const char *s = text; *s; s++)
            hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Makes the tensors that receive values, on the ranks that have read no file. */
static bool make_tensors(const ct_dist *dist, cti_nn_state *state) {
    for (int64_t i = 0; dist->rank != 0 && i < state->n; i++) {
        cti_nn_record *record = &state->record[i];
        const ct_tensor *t = state->named[i].tensor;
        record->read = record->direct ? state->named[i].tensor
                                      : cti_tensor_new(dist->context, t->dtype, t->shape);
        if (!record->read) return false;
    }
    return true;
}

/* Sends the states of items that have no range. */
static void send_whole_states(ct_dist *dist, const ct_optim *optim, ct_optim *draft) {
    for (int64_t i = 0; i < draft->count; i++)
        for (int k = 0; k < CTI_NN_STATES && draft->items[i].state[k]; k++)
            if (!optim->items[i].range) cti_dist_broadcast(dist, draft->items[i].state[k]);
}

bool cti_dist_scatter(ct_dist *dist, ct_optim *const *optims, int64_t n, ct_optim *drafts,
                      cti_nn_state *state, bool ok) {
    ct_context *context = dist->context;
    const bool first = dist->rank == 0;
    const size_t bytes = cti_bytes(n, sizeof(ct_optim));
    ct_optim *cut = cti_take_zeroed(context, bytes);
    ok = ok && cut && make_tensors(dist, state);
    for (int64_t i = 0; ok && first && i < n; i++)
        if (optims[i]->client) ok = make_cut(&cut[i], &drafts[i], cti_dist_of(optims[i]));
    ok = cti_dist_meet(dist, CTI_CALL_LOAD, 1, ok);
    uint64_t mine = ok ? state_hash(state) : 0, hash = mine;
    if (ok) {
        cti_dist_broadcast_bytes(dist, &hash, sizeof hash);
        if (hash != mine)
            ct_fail(context, CT_ERR_ARGUMENT,
                    "checkpoint_load: rank %d has other names, shapes or dtypes than rank 0",
                    dist->rank);
        ok = cti_dist_meet(dist, CTI_CALL_LOAD, 2, hash == mine);
    }
    for (int64_t i = 0; ok && i < state->n; i++)
        if (!state->record[i].direct) cti_dist_broadcast(dist, state->record[i].read);
    for (int64_t i = 0; ok && i < n; i++) {
        send_whole_states(dist, optims[i], &drafts[i]);
        if (!optims[i]->client) continue;
        ct_optim *own = first ? &cut[i] : &drafts[i];
        exchange_states(
            &(state_exchange){cti_dist_of(optims[i]), &drafts[i], own, .gathers = false});
        if (first) swap_states(&drafts[i], &cut[i]);
    }
    for (int64_t i = 0; cut && i < n; i++) end_cut(&cut[i]);
    cti_give(context, cut, bytes);
    if (!ok) return false;
    if (!first) cti_nn_state_write_numbers(state);
    return cti_dist_meet(dist, CTI_CALL_LOAD, 3, true);
}
