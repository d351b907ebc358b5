/* Low-rank adapters: y = base(x) + alpha / rank B A dropout(x) in the place of a Linear (Hu et al.
 * 2021, arXiv:2106.09685).
 *
 * Invariants:
 *
 * 1. An adapter has the child base_layer, which is the Linear whose place it took, and the
 *    parameters lora_A (rank, in) and lora_B (out, rank).
 * 2. Several adapters are put in place together: after an error none of them is in the tree. */
#ifndef CTI_MODELS_LORA_H
#define CTI_MODELS_LORA_H

#include <cotangent/models.h>

#include "lm.h"

typedef struct {
    ct_context *context;
    ct_module *module; /* the adapter itself */
    ct_lora_opts opts; /* complete: no field stands for a default */
} cti_lora;

extern const ct_module_type cti_lora_type;
#define CTI_LORA_BASE "base_layer"

/* The adapters that are to be put in place, or that are in place. */
typedef struct {
    ct_module *adapter;
    char path[CTI_LM_PATH];
} cti_lora_place;
typedef struct {
    ct_context *context;
    cti_lora_place *place; /* [room], a block of the context */
    int64_t n, room;
} cti_lora_places;

/* Makes room for a place of each parameter of a tree. Returns false after an error. */
bool cti_lora_places_new(const ct_module *module, cti_lora_places *places);
/* Ends the gradients of all parameters that are not of an adapter. */
void cti_lora_freeze_others(ct_module *module);
bool cti_lora_is(const ct_module *module);
/* Collects the adapters of a tree. Returns false after an error. */
bool cti_lora_find(const ct_module *module, cti_lora_places *places);
void cti_lora_places_free(cti_lora_places *places);
/* Makes an adapter for each place. If it returns false some are made, and cti_lora_drop frees
 * them. */
bool cti_lora_make(ct_module *module, cti_lora_places *places, ct_lora_opts opts);
void cti_lora_drop(const cti_lora_places *places);
/* Puts adapters that were made in place. Nothing can fail: no memory is taken, and every name is
 * shorter than a module allows. */
void cti_lora_put(ct_module *module, const cti_lora_places *places);

#endif
