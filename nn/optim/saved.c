/* The tensors of an optimiser in a checkpoint, and a load by way of a draft. saved.h has the names
 * and the invariants. */
#include "saved.h"
#include "../../src/core/assert.h"

#include <string.h>

/* Bytes for "optims.123.", a number's or state's name, "." and a parameter's name. */
enum { FIELD = 128, NAME_ROOM = FIELD + CTI_NN_NAME_SIZE };

/* ---- collecting ---- */

/* Whether the file has the tensor KEY.FIELD.NAME. */
static bool file_has(const cti_shards *file, const char *key, const char *field, const char *name) {
    char full[NAME_ROOM];
    snprintf(full, sizeof full, "%s.%s.%s", key, field, name);
    return cti_shards_find(file, cti_text_of(full)) >= 0;
}

/* Adds a number of an item. */
static bool number_gather(cti_nn_state *state, const char *key, const cti_nn_number *number,
                          cti_nn_item *item) {
    char prefix[FIELD];
    snprintf(prefix, sizeof prefix, "%s.%s.", key, number->name);
    return cti_nn_state_add_number(state, prefix, item->names->text, number->dtype,
                                   (char *)item + number->offset);
}

/* Writes the name of state k of an item's parameter, without key and name: "rest.m". */
static const char *state_field(const ct_optim *optim, const cti_nn_item *item, int k,
                               char field[FIELD]) {
    snprintf(field, FIELD, "%s%s", cti_nn_rest(item->rule), cti_nn_rule_of(optim, item)->states[k]);
    return field;
}

static bool item_gather(cti_nn_state *state, const char *key, const ct_optim *optim,
                        cti_nn_item *item) {
    const int numbers = item->grouped ? CTI_NN_ITEM_NUMBERS : CTI_NN_GROUP_NUMBERS;
    for (int i = 0; i < numbers; i++)
        if (!number_gather(state, key, &cti_nn_item_numbers[i], item)) return false;
    for (int k = 0; k < CTI_NN_STATES && item->state[k]; k++) {
        char prefix[2 * FIELD], field[FIELD];
        snprintf(prefix, sizeof prefix, "%s.%s.", key, state_field(optim, item, k, field));
        if (!cti_nn_state_add(state, prefix, item->names->text, item->state[k])) return false;
        state->record[state->n - 1].direct = true;
    }
    return true;
}

static bool option_gather(cti_nn_state *state, const char *key, ct_optim *optim, int i) {
    char prefix[FIELD], name[CTI_NN_OPTION_NAME];
    snprintf(prefix, sizeof prefix, "%s.", key);
    cti_nn_option_name(optim, i, name);
    return cti_nn_option(optim, i)->flag
               ? cti_nn_state_add_flag(state, prefix, name, &optim->value[i])
               : cti_nn_state_add_number(state, prefix, name, CT_F64, &optim->value[i]);
}

bool cti_nn_optim_gather(cti_nn_state *state, const char *key, ct_optim *optim) {
    char prefix[FIELD];
    for (int i = 0; i < optim->values; i++)
        if (!option_gather(state, key, optim, i)) return false;
    snprintf(prefix, sizeof prefix, "%s.", key);
    if (!cti_nn_state_add_number(state, prefix, "skipped", CT_I64, &optim->skipped)) return false;
    for (int64_t i = 0; i < optim->count; i++)
        if (!item_gather(state, key, optim, &optim->items[i])) return false;
    return true;
}

/* ---- drafts ---- */

static bool has_group(const cti_shards *file, const char *key, const char *name) {
    bool any = false;
    for (int i = CTI_NN_GROUP_NUMBERS; i < CTI_NN_ITEM_NUMBERS; i++)
        any |= file_has(file, key, cti_nn_item_numbers[i].name, name);
    return any;
}

static bool has_state(const cti_shards *file, const char *key, const ct_optim *optim,
                      const cti_nn_item *item) {
    bool any = false;
    char field[FIELD];
    for (int k = 0; k < cti_nn_rule_of(optim, item)->n_states; k++)
        any |= file_has(file, key, state_field(optim, item, k, field), item->names->text);
    return any;
}

void cti_nn_look_up(const ct_optim *optim, const char *key, const cti_shards *file,
                    unsigned char *found) {
    for (int64_t i = 0; i < optim->count; i++) {
        const cti_nn_item *item = &optim->items[i];
        *found++ =
            (unsigned char)((has_group(file, key, item->names->text) ? CTI_NN_HAS_GROUP : 0) |
                            (has_state(file, key, optim, item) ? CTI_NN_HAS_STATE : 0));
    }
}

bool cti_nn_draft_begin(ct_optim *draft, const ct_optim *optim, const unsigned char *found,
                        bool cut) {
    *draft = *optim;
    draft->value = cti_take_zeroed(optim->context, cti_bytes(optim->values, sizeof(double)));
    draft->items = cti_take_zeroed(optim->context, cti_bytes(optim->count, sizeof(cti_nn_item)));
    if (!draft->value || !draft->items) return false;
    for (int64_t i = 0; i < optim->count; i++) {
        cti_nn_item *item = &draft->items[i];
        *item = (cti_nn_item){.param = optim->items[i].param,
                              .range = cut ? optim->items[i].range : NULL,
                              .rule = optim->items[i].rule,
                              .names = optim->items[i].names,
                              .lr_scale = 1,
                              .grouped = found[i] & CTI_NN_HAS_GROUP};
        if (found[i] & CTI_NN_HAS_STATE && !cti_nn_item_start(draft, item)) return false;
    }
    return true;
}

/* Records that KEY.FIELD, or KEY.FIELD.NAME, `says` something wrong. field "": KEY itself. */
static bool item_refuse(const cti_shards *file, const char *key, const char *field,
                        const char *name, const char *says) {
    return ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: %s%s%s%s%s%s %s", file->op, file->path,
                   key, *field ? "." : "", field, name ? "." : "", name ? name : "",
                   *field ? "" : ":", says);
}

static bool saved_item_check(const ct_optim *draft, const cti_nn_item *item, const char *key,
                             const cti_shards *file) {
    const char *name = item->names->text;
    char state[FIELD];
    cti_nn_fault fault;
    const bool has_states = cti_nn_rule_of(draft, item)->n_states > 0;
    if (has_states) state_field(draft, item, 0, state);
    if (cti_nn_item_fault(item, &fault))
        return item_refuse(file, key, fault.name, name, fault.says);
    if (item->frozen && item->state[0])
        return item_refuse(file, key, state, name, "is there, but the parameter is frozen");
    if (item->frozen && item->step > 0)
        return item_refuse(file, key, "step", name, "is not 0, but the parameter is frozen");
    if (has_states && item->step > 0 && !item->state[0])
        return item_refuse(file, key, state, name, "is missing, but the parameter was updated");
    return true;
}

bool cti_nn_draft_check(const ct_optim *draft, ct_optim *optim, const char *key,
                        const cti_shards *file) {
    cti_nn_fault fault;
    if (cti_nn_optim_fault(draft, optim, &fault))
        return item_refuse(file, key, fault.name, NULL, fault.says);
    if (draft->skipped < 0 || draft->skipped > CTI_NN_LAST_STEP)
        return ct_fail(file->context, CT_ERR_FORMAT,
                       "%s: %s: %s.skipped is %" PRId64 ", must be at least 0 and at most %" PRId64,
                       file->op, file->path, key, draft->skipped, CTI_NN_LAST_STEP);
    for (int64_t i = 0; i < draft->count; i++)
        if (!saved_item_check(draft, &draft->items[i], key, file)) return false;
    return true;
}

/* A file may have states of a parameter without an update, where an item has none. */
void cti_nn_draft_adopt(ct_optim *draft, ct_optim *optim) {
    memcpy(optim->value, draft->value, (size_t)optim->values * sizeof(double));
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
    for (int64_t i = 0; draft->items && i < draft->count; i++) cti_nn_item_reset(&draft->items[i]);
    cti_give(draft->context, draft->items, cti_bytes(draft->count, sizeof(cti_nn_item)));
    cti_give(draft->context, draft->value, cti_bytes(draft->values, sizeof(double)));
    draft->items = NULL;
    draft->value = NULL;
}
