/* The tensors of an optimiser in a checkpoint, and a load by way of a draft; see the header. */
#include "saved.h"
#include "../../src/core/assert.h"

#include <string.h>

/* Bytes for "optims.123.", a number's or state's name, "." and a parameter's name. */
enum { NAME_ROOM = 64 + CTI_NN_NAME_SIZE };

/* ---- collecting ---- */

/* Has the file the tensor KEY.FIELD.NAME? */
static bool file_has(const cti_shards *file, const char *key, const char *field, const char *name) {
    char full[NAME_ROOM];
    snprintf(full, sizeof full, "%s.%s.%s", key, field, name);
    return cti_shards_find(file, cti_text_of(full)) >= 0;
}

static bool gather_number(cti_nn_state *state, const char *key, const cti_nn_number *number,
                          void *object, const char *name) {
    char prefix[64];
    snprintf(prefix, sizeof prefix, name ? "%s.%s." : "%s.%s", key, number->name);
    return cti_nn_state_add_number(state, prefix, name ? name : "", number->dtype,
                                   (char *)object + number->offset);
}

static bool gather_item(cti_nn_state *state, const char *key, const cti_nn_rule *rule,
                        cti_nn_item *item) {
    const char *name = item->names->text;
    const int numbers = item->grouped ? CTI_NN_ITEM_NUMBERS : CTI_NN_GROUP_NUMBERS;
    for (int i = 0; i < numbers; i++)
        if (!gather_number(state, key, &cti_nn_item_numbers[i], item, name)) return false;
    for (int k = 0; k < CTI_NN_STATES && item->state[k]; k++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%s.%s.", key, rule->state[k]);
        if (!cti_nn_state_add(state, prefix, name, item->state[k])) return false;
        state->record[state->n - 1].direct = true;
    }
    return true;
}

bool cti_nn_optim_gather(cti_nn_state *state, const char *key, ct_optim *optim) {
    for (const cti_nn_number *number = optim->rule->numbers; number;
         number = cti_nn_number_after(number))
        if (!gather_number(state, key, number, optim, NULL)) return false;
    for (int64_t i = 0; i < optim->count; i++)
        if (!gather_item(state, key, optim->rule, &optim->items[i])) return false;
    return true;
}

/* ---- drafts ---- */

static bool has_group(const cti_shards *file, const char *key, const char *name) {
    bool any = false;
    for (int i = CTI_NN_GROUP_NUMBERS; i < CTI_NN_ITEM_NUMBERS; i++)
        any |= file_has(file, key, cti_nn_item_numbers[i].name, name);
    return any;
}

static bool has_state(const cti_shards *file, const char *key, const cti_nn_rule *rule,
                      const char *name) {
    bool any = false;
    for (int k = 0; k < CTI_NN_STATES && rule->state[k]; k++)
        any |= file_has(file, key, rule->state[k], name);
    return any;
}

void cti_nn_look_up(const ct_optim *optim, const char *key, const cti_shards *file,
                    unsigned char *found) {
    for (int64_t i = 0; i < optim->count; i++) {
        const char *name = optim->items[i].names->text;
        *found++ =
            (unsigned char)((has_group(file, key, name) ? CTI_NN_HAS_GROUP : 0) |
                            (has_state(file, key, optim->rule, name) ? CTI_NN_HAS_STATE : 0));
    }
}

bool cti_nn_draft_begin(ct_optim *draft, const ct_optim *optim, const unsigned char *found,
                        bool cut) {
    *draft = *optim;
    draft->items = cti_take_zeroed(optim->context, cti_bytes(optim->count, sizeof(cti_nn_item)));
    if (!draft->items) return false;
    for (int64_t i = 0; i < optim->count; i++) {
        cti_nn_item *item = &draft->items[i];
        *item = (cti_nn_item){.param = optim->items[i].param,
                              .range = cut ? optim->items[i].range : NULL,
                              .names = optim->items[i].names,
                              .lr_scale = 1,
                              .grouped = found[i] & CTI_NN_HAS_GROUP};
        if (found[i] & CTI_NN_HAS_STATE && !cti_nn_item_start(optim->rule, item)) return false;
    }
    return true;
}

static bool refuse_item(const cti_shards *file, const char *key, const char *field,
                        const char *name, const char *says) {
    return ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: %s.%s%s%s %s", file->op, file->path, key,
                   field, name ? "." : "", name ? name : "", says);
}

static bool refuse_fault(const cti_shards *file, const char *key, const char *name,
                         const cti_nn_fault *fault) {
    char says[128];
    snprintf(says, sizeof says, "is %s, must be %s", fault->value, fault->must);
    return refuse_item(file, key, fault->name, name, says);
}

static bool check_item(const ct_optim *draft, const cti_nn_item *item, const char *key,
                       const cti_shards *file) {
    const char *name = item->names->text, *state = draft->rule->state[0];
    const cti_nn_fault fault = cti_nn_item_fault(item);
    if (fault.name) return refuse_fault(file, key, name, &fault);
    if (item->frozen && item->state[0])
        return refuse_item(file, key, state, name, "is there, but the parameter is frozen");
    if (item->frozen && item->step > 0)
        return refuse_item(file, key, "step", name, "is not 0, but the parameter is frozen");
    if (state && item->step > 0 && !item->state[0])
        return refuse_item(file, key, state, name, "is missing, but the parameter was updated");
    return true;
}

bool cti_nn_draft_check(const ct_optim *draft, const char *key, const cti_shards *file) {
    const cti_nn_fault fault = cti_nn_optim_fault(draft);
    if (fault.name) return refuse_fault(file, key, NULL, &fault);
    for (int64_t i = 0; i < draft->count; i++)
        if (!check_item(draft, &draft->items[i], key, file)) return false;
    return true;
}

/* Version 0.1.0 also wrote states before the first update. They were zeros, so they are dropped. */
void cti_nn_draft_adopt(ct_optim *draft, ct_optim *optim) {
    optim->opts = draft->opts;
    optim->numbers = draft->numbers;
    optim->skipped = draft->skipped;
    for (int64_t i = 0; i < optim->count; i++) {
        cti_nn_item *from = &draft->items[i], *to = &optim->items[i];
        CTI_ASSERT(from->param == to->param);
        if (from->step == 0) cti_nn_item_reset(from);
        cti_nn_item_reset(to);
        from->range = to->range;
        *to = *from;
        memset(from->state, 0, sizeof from->state);
    }
}

void cti_nn_draft_end(ct_optim *draft) {
    if (!draft->items) return;
    for (int64_t i = 0; i < draft->count; i++) cti_nn_item_reset(&draft->items[i]);
    cti_give(draft->context, draft->items, cti_bytes(draft->count, sizeof(cti_nn_item)));
    draft->items = NULL;
}
