/* A checkpoint of several processes. Its file is the same as the file of a single process. */
#include "together.h"
#include "optim/parts.h"

#include <string.h>

/* The group of the optimiser's client if it has several processes, which step ranges; otherwise
 * NULL. */
static ct_checkpoint_group *group_of_parts(const ct_optim *optim) {
    ct_checkpoint_group *group = optim->client ? optim->client->group : NULL;
    return group && group->several ? group : NULL;
}

/* ---- saving ---- */

/* Makes the first process's copy of the optimiser with whole states, whose values are still
 * undefined. On other processes the copy shares the items. */
static bool whole_make(ct_optim *whole, ct_optim *optim) {
    ct_context *context = optim->context;
    const ct_checkpoint_group *group = group_of_parts(optim);
    *whole = *optim;
    if (!group || !cti_group_is_first(group)) return true;
    whole->items = cti_take(context, cti_bytes(optim->count, sizeof(cti_nn_item)));
    if (!whole->items) return false;
    memcpy(whole->items, optim->items, (size_t)optim->count * sizeof(cti_nn_item));
    for (int64_t i = 0; i < optim->count; i++) {
        cti_nn_item *item = &whole->items[i];
        for (int k = 0; item->range && k < CTI_NN_STATES && item->state[k]; k++) {
            item->state[k] = cti_tensor_new(context, item->state[k]->dtype, item->param->shape);
            if (!item->state[k]) return false;
        }
    }
    return true;
}

/* The facts that must be equal on all processes of a save. */
typedef struct {
    int64_t step, optims, items;
} save_facts;

/* Whether this process has the same facts as the first. If not, an error is recorded. */
static bool has_first_facts(ct_checkpoint_group *group, ct_optim *const *optims, int64_t n,
                            int64_t step) {
    const char *process = group->fns->process;
    save_facts mine = {.step = step, .optims = n};
    for (int64_t i = 0; i < n; i++) mine.items += optims[i]->count;
    save_facts first = mine;
    group->fns->broadcast(group, &first, sizeof first);
    if (first.step != mine.step)
        return ct_fail(group->context, CT_ERR_ARGUMENT,
                       "checkpoint_save: %s %d has step %" PRId64 ", %s 0 has step %" PRId64,
                       process, group->number, mine.step, process, first.step);
    return (first.optims == mine.optims && first.items == mine.items) ||
           ct_fail(group->context, CT_ERR_ARGUMENT,
                   "checkpoint_save: %s %d has other optimisers than %s 0", process, group->number,
                   process);
}

bool cti_nn_gather(ct_checkpoint_group *group, ct_optim *const *optims, int64_t n, ct_optim *whole,
                   int64_t step, bool ok) {
    for (int64_t i = 0; i < n; i++) whole[i].items = NULL;
    for (int64_t i = 0; ok && i < n; i++) ok = whole_make(&whole[i], optims[i]);
    if (!cti_group_agree(group, CTI_GROUP_SAVE, 0, ok)) return false;
    if (!group || !group->several) return true;
    if (!cti_group_agree(group, CTI_GROUP_SAVE, 0, has_first_facts(group, optims, n, step)))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (group_of_parts(optims[i]))
            cti_nn_parts_move(optims[i], cti_group_is_first(group) ? whole[i].items : NULL,
                              optims[i]->items, true);
    return true;
}

void cti_nn_gathered_free(ct_optim *const *optims, int64_t n, ct_optim *whole) {
    for (int64_t i = 0; i < n; i++)
        if (whole[i].items && whole[i].items != optims[i]->items)
            cti_give(whole[i].context, whole[i].items,
                     cti_bytes(whole[i].count, sizeof(cti_nn_item)));
}

/* ---- loading ---- */

/* A hash of the names of all tensors that are loaded and, except for states, of their shapes and
 * dtypes. A state has its parameter's shape. */
static uint64_t state_hash(const cti_nn_state *state) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int64_t i = 0; i < state->n; i++) {
        char text[CTI_SHAPE_TEXT + 8] = "";
        const ct_tensor *t = state->named[i].tensor;
        if (!state->record[i].direct)
            snprintf(text, sizeof text, "%s %d", SHAPE(t->shape), (int)t->dtype);
        for (const char *s = state->named[i].name; *s; s++)
            hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
        for (const char *s = text; *s; s++)
            hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Makes the tensors that receive values, on the processes that have read no file. */
static bool tensors_make(const ct_checkpoint_group *group, cti_nn_state *state) {
    for (int64_t i = 0; !cti_group_is_first(group) && i < state->n; i++) {
        cti_nn_record *record = &state->record[i];
        const ct_tensor *t = state->named[i].tensor;
        record->read = record->direct ? state->named[i].tensor
                                      : cti_tensor_new(group->context, t->dtype, t->shape);
        if (!record->read) return false;
    }
    return true;
}

/* Whether this process has the same hash as the first. If not, an error is recorded. */
static bool has_first_names(ct_checkpoint_group *group, const cti_nn_state *state) {
    const uint64_t mine = state_hash(state);
    uint64_t first = mine;
    group->fns->broadcast(group, &first, sizeof first);
    return first == mine ||
           ct_fail(group->context, CT_ERR_ARGUMENT,
                   "checkpoint_load: %s %d has other names, shapes or dtypes than %s 0",
                   group->fns->process, group->number, group->fns->process);
}

/* Sends the states of items that have no range. */
static void broadcast_whole_states(ct_checkpoint_group *group, const ct_optim *optim,
                                   ct_optim *draft) {
    for (int64_t i = 0; i < draft->count; i++)
        for (int k = 0; k < CTI_NN_STATES && draft->items[i].state[k]; k++)
            if (!optim->items[i].range)
                group->fns->broadcast_tensor(group, draft->items[i].state[k]);
}

/* Sends the states of a draft to all processes. `parts` are the first process's. */
static void scatter_states(ct_checkpoint_group *group, const ct_optim *optim, ct_optim *draft,
                           cti_optim_parts *parts) {
    broadcast_whole_states(group, optim, draft);
    if (parts) cti_optim_parts_move(parts);
    else if (group_of_parts(optim)) cti_nn_parts_move(optim, NULL, draft->items, false);
}

bool cti_nn_scatter(ct_checkpoint_group *group, ct_optim *const *optims, int64_t n,
                    ct_optim *drafts, cti_nn_state *state, bool ok) {
    ct_context *context = group->context;
    const bool first = cti_group_is_first(group);
    const size_t bytes = cti_bytes(n, sizeof(cti_optim_parts *));
    cti_optim_parts **parts = cti_take_zeroed(context, bytes);
    ok = ok && parts && tensors_make(group, state);
    for (int64_t i = 0; ok && first && i < n; i++) {
        if (!group_of_parts(optims[i])) continue;
        parts[i] = cti_nn_parts_new(optims[i], &drafts[i]);
        ok = parts[i];
    }
    ok = cti_group_agree(group, CTI_GROUP_LOAD, 1, ok);
    ok = ok && cti_group_agree(group, CTI_GROUP_LOAD, 2, has_first_names(group, state));
    for (int64_t i = 0; ok && i < state->n; i++)
        if (!state->record[i].direct) group->fns->broadcast_tensor(group, state->record[i].read);
    for (int64_t i = 0; ok && i < n; i++) scatter_states(group, optims[i], &drafts[i], parts[i]);
    for (int64_t i = 0; parts && i < n; i++) cti_optim_parts_end(parts[i], ok);
    cti_give(context, parts, bytes);
    if (!ok) return false;
    if (!first) cti_nn_state_write_numbers(state);
    return cti_group_agree(group, CTI_GROUP_LOAD, 3, true);
}
