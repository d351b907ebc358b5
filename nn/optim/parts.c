/* The states of the ranges that a client steps: made, moved and put in place. parts.h has the
 * invariants. */
#include "parts.h"

#include <string.h>

static bool parts_start(cti_optim_parts *parts) {
    const ct_optim *held = parts->held;
    for (int64_t i = 0; i < held->count; i++) {
        const cti_nn_item *item = &held->items[i];
        if (!item->range) continue;
        parts->item[i] =
            (cti_nn_item){.param = item->param, .range = item->range, .rule = item->rule};
        if (parts->of->items[i].state[0] && !cti_nn_item_start(held, &parts->item[i])) return false;
    }
    return true;
}

cti_optim_parts *cti_nn_parts_new(const ct_optim *held, ct_optim *of) {
    ct_context *context = held->context;
    cti_optim_parts *parts = cti_take(context, sizeof *parts);
    if (!parts) return NULL;
    *parts = (cti_optim_parts){.held = held, .of = of};
    parts->item = cti_take_zeroed(context, cti_bytes(held->count, sizeof *parts->item));
    if (parts->item && parts_start(parts)) return parts;
    cti_optim_parts_end(parts, false);
    return NULL;
}

cti_optim_parts *cti_optim_parts_new(ct_optim *optim) { return cti_nn_parts_new(optim, optim); }

void cti_nn_parts_move(const ct_optim *held, cti_nn_item *whole, cti_nn_item *part, bool to_whole) {
    cti_optim_client *client = held->client;
    for (int64_t i = 0; i < held->count; i++) {
        const cti_optim_range *range = held->items[i].range;
        for (int k = 0; range && k < CTI_NN_STATES && part[i].state[k]; k++)
            client->move(client, range, whole ? whole[i].state[k] : NULL, part[i].state[k],
                         to_whole);
    }
}

static void parts_replace_states(cti_optim_parts *parts) {
    for (int64_t i = 0; i < parts->held->count; i++) {
        cti_nn_item *whole = &parts->of->items[i], *part = &parts->item[i];
        if (!part->range) continue;
        ct_tensor *state[CTI_NN_STATES];
        memcpy(state, whole->state, sizeof state);
        memcpy(whole->state, part->state, sizeof state);
        memcpy(part->state, state, sizeof state);
    }
}

void cti_optim_parts_move(cti_optim_parts *parts) {
    cti_nn_parts_move(parts->held, parts->of->items, parts->item, false);
}

void cti_optim_parts_end(cti_optim_parts *parts, bool replace) {
    if (!parts) return;
    ct_context *context = parts->held->context;
    const int64_t count = parts->held->count;
    if (replace) parts_replace_states(parts);
    for (int64_t i = 0; parts->item && i < count; i++) cti_nn_item_reset(&parts->item[i]);
    cti_give(context, parts->item, cti_bytes(count, sizeof *parts->item));
    cti_give(context, parts, sizeof *parts);
}
