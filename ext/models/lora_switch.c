/* Adapters switched off and on, and taken away. */
#include "lora.h"

#include <cotangent/autograd.h>

#include "../../src/core/memory.h"

static const char lora_enable_op[] = "lora_enable", lora_remove_op[] = "lora_remove";

static cti_lora *data_of_place(const cti_lora_places *places, int64_t i) {
    return ct_module_data(places->place[i].adapter, &cti_lora_type);
}

/* Collects the adapters of a tree, at least one; false after an error. */
static bool adapters_find(ct_module *module, const char *op, cti_lora_places *places) {
    if (!module || !cti_lora_find(module, places)) return false;
    if (places->n) return true;
    ct_context *context = places->context;
    cti_lora_places_free(places);
    return ct_fail(context, CT_ERR_ARGUMENT, "%s: there is no adapter", op);
}

/* ---- off and on ---- */

bool ct_lora_enable(ct_module *module, bool on) {
    cti_lora_places places;
    if (!adapters_find(module, lora_enable_op, &places)) return false;
    ct_context *context = places.context;
    bool ok = cti_switch_begin(context, lora_enable_op);
    for (int64_t i = 0; ok && i < places.n; i++)
        ok = cti_switch_reserve(context, &data_of_place(&places, i)->power);
    ok = ok && cti_trained_reserve(module);
    if (ok) cti_switch_count(context);
    for (int64_t i = 0; ok && i < places.n; i++)
        cti_switch_set(context, &data_of_place(&places, i)->power, !on);
    if (ok) cti_trained_set(module, !on);
    cti_lora_places_free(&places);
    return ok;
}

/* ---- taking away ---- */

/* Makes an empty module for each adapter, which takes its Linear's place; false after an error. */
static bool empties_make(const cti_lora_places *places, ct_module **empty) {
    for (int64_t i = 0; i < places->n; i++) {
        empty[i] = ct_module_new(places->context, "Empty");
        if (empty[i]) continue;
        while (i-- > 0) ct_module_free(empty[i]);
        return false;
    }
    return true;
}

bool ct_lora_remove(ct_module *module) {
    cti_lora_places places;
    if (!adapters_find(module, lora_remove_op, &places)) return false;
    const size_t size = cti_bytes(places.n, sizeof(ct_module *));
    ct_module **empty = cti_take_any(places.context, size);
    bool ok = empty && empties_make(&places, empty);
    if (ok) cti_trained_exchange(module);
    if (ok && !cti_nn_thaw(module)) {
        cti_trained_exchange(module);
        for (int64_t i = 0; i < places.n; i++) ct_module_free(empty[i]);
        ok = false;
    }
    for (int64_t i = 0; ok && i < places.n; i++) {
        ct_module *linear = ct_module_set_child(places.place[i].adapter, CTI_LORA_BASE, empty[i]);
        ct_module_free(ct_module_set_child(module, places.place[i].path, linear));
    }
    if (ok) cti_trained_end(module);
    if (empty) cti_give_any(places.context, empty, size);
    cti_lora_places_free(&places);
    return ok;
}
