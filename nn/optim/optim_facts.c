/* The facts and the digest of an optimiser, by which the processes of a client compare theirs: see
 * held.h. */
#include "optim.h"

#include <string.h>

#include "../../src/io/json.h"

/* ---- facts ---- */

enum { FACTS_OF_ITEM = 5, FACTS_OF_BUFFER = 2, FACT_NUMBER = 40 };

/* The processes may have different locales. */
static const char *number_spell(double number, char text[FACT_NUMBER]) {
    cti_real_write(&(cti_writer){.at = text, .size = FACT_NUMBER - 1}, number);
    return text;
}

static const char *item_name(const cti_nn_item *item) { return item->names->text; }

/* Writes the names of the rules and the dtype of states: "Muon + AdamW, states of bf16". */
static void kind_write(const ct_optim *optim, char *text, size_t size) {
    size_t used = 0;
    for (int i = 0; i < optim->rules && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " + " : "",
                                 optim->rule[i].is->name);
    if (optim->state_dtype == CT_BF16 && used < size)
        snprintf(text + used, size - used, ", states of bf16");
}

static void item_say(const ct_optim *optim, const cti_nn_item *item, int64_t which,
                     cti_optim_fact *fact) {
    static const char *const of[FACTS_OF_ITEM] = {"the parameter ", "the dtype of ", "the step of ",
                                                  "the group of ", "the rule of "};
    const ct_optim_rule *rule = cti_nn_rule_of(optim, item);
    const ct_tensor *t = item->param;
    char *value = fact->value;
    const size_t size = sizeof fact->value;
    snprintf(fact->name, sizeof fact->name, "%s%s", of[which], item_name(item));
    switch (which) {
    case 0: snprintf(value, size, "%s", SHAPE(t->shape)); break;
    case 1: snprintf(value, size, "%s", cti_dtype_name(t->dtype)); break;
    case 2:
        snprintf(value, size, "%" PRId64 "%s", item->step,
                 t->slot ? "" : ", and it requires no gradient");
        break;
    case 4:
        snprintf(value, size, "%s, %d states%s", rule->name, rule->n_states,
                 rule->elementwise ? ", elementwise" : "");
        break;
    default:
        snprintf(value, size, "(lr_scale %s, weight_decay %s%s%s)",
                 number_spell(item->lr_scale, (char[FACT_NUMBER]){0}),
                 number_spell(item->weight_decay, (char[FACT_NUMBER]){0}),
                 item->frozen ? ", frozen" : "", item->grouped ? "" : ", none");
    }
}

/* Writes the shape of the next buffer, and then its dtype. */
static bool buffer_say(const ct_module *module, ct_param *buffer, bool dtype,
                       cti_optim_fact *fact) {
    if (!dtype && !ct_module_next_buffer(module, buffer)) return false;
    const ct_tensor *t = buffer->tensor;
    snprintf(fact->name, sizeof fact->name, "%s%s", dtype ? "the dtype of " : "the buffer ",
             buffer->name);
    snprintf(fact->value, sizeof fact->value, "%s",
             dtype ? cti_dtype_name(t->dtype) : SHAPE(t->shape));
    return true;
}

int64_t cti_optim_facts(const ct_optim *optim) {
    int64_t n = optim->values + 2 + FACTS_OF_ITEM * optim->count;
    for (ct_param buffer = {0}; ct_module_next_buffer(optim->module, &buffer);)
        n += FACTS_OF_BUFFER;
    return n;
}

bool cti_optim_next_fact(const ct_optim *optim, cti_optim_fact_walk *walk, cti_optim_fact *fact) {
    int64_t i = walk->next++;
    char *value = fact->value, option[CTI_NN_OPTION_NAME];
    const size_t size = sizeof fact->value;
    const char *name = option;
    if (i == 0) {
        name = "the optimiser";
        kind_write(optim, value, size);
    } else if (i <= optim->values) {
        cti_nn_option_name(optim, (int)i - 1, option);
        snprintf(value, size, "%s", number_spell(optim->value[i - 1], (char[FACT_NUMBER]){0}));
    } else if (i == optim->values + 1) {
        name = "skipped";
        snprintf(value, size, "%" PRId64, optim->skipped);
    } else {
        i -= optim->values + 2;
        if (i >= FACTS_OF_ITEM * optim->count)
            return buffer_say(optim->module, &walk->buffer,
                              (i - FACTS_OF_ITEM * optim->count) % FACTS_OF_BUFFER, fact);
        item_say(optim, &optim->items[i / FACTS_OF_ITEM], i % FACTS_OF_ITEM, fact);
        return true;
    }
    snprintf(fact->name, sizeof fact->name, "%s", name);
    return true;
}

/* ---- the digest ---- */

static uint64_t hash_add(uint64_t hash, const void *bytes, size_t size) { /* FNV-1a */
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t cti_optim_digest(const ct_optim *optim) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    hash = hash_add(hash, optim->value, (size_t)optim->values * sizeof(double));
    hash = hash_add(hash, &optim->skipped, sizeof optim->skipped);
    for (int64_t i = 0; i < optim->count; i++) {
        const cti_nn_item *item = &optim->items[i];
        const bool flags[] = {item->grouped, item->param->slot != NULL,
                              cti_nn_rule_of(optim, item)->elementwise};
        for (int k = 0; k < CTI_NN_ITEM_NUMBERS; k++) {
            const cti_nn_number *number = &cti_nn_item_numbers[k];
            hash =
                hash_add(hash, (const char *)item + number->offset, cti_dtype_size(number->dtype));
        }
        hash = hash_add(hash, flags, sizeof flags);
    }
    return hash;
}
