/* A seam for the floor of models: parts of a model that a program switches off and on, parameters
 * that are frozen for a time, and parameters with a trained copy.
 *
 * A function that ct_recompute runs again must see each switch as it was at its first run. So the
 * context counts the times that switches were set, the second run has the count of the first, and
 * a switch keeps the counts at which it changed as long as a function may run again. */
#ifndef CTI_NN_SWITCH_H
#define CTI_NN_SWITCH_H

#include <cotangent/nn.h>

typedef struct {
    bool off; /* as it was set last */
    /* [n of room] the context's count at each change */
    uint64_t *change;
    int64_t n, room;
} cti_switch;

/* Whether it is off for what is running now. */
bool cti_switch_is_off(const ct_context *context, const cti_switch *s);
/* Frees the record of changes. */
void cti_switch_end(ct_context *context, cti_switch *s);
/* Begins a change of several switches. Inside a function of ct_recompute it is CT_ERR_ARGUMENT. */
bool cti_switch_begin(ct_context *context, const char *op);
/* Makes room for a change of one of them. Returns false after an error, and then none has
 * changed. */
bool cti_switch_reserve(ct_context *context, cti_switch *s);
/* Counts the change, and sets the switches that have room for it; nothing can fail. */
void cti_switch_count(ct_context *context);
void cti_switch_set(const ct_context *context, cti_switch *s, bool off);

/* Notes of each parameter below root whether it is trained: it requires a gradient, or it would if
 * its dtype had one. */
void cti_nn_note_trained(ct_module *root);
/* Makes the parameters that were noted as trained require a gradient again. Returns false after an
 * error, and then nothing has changed. */
bool cti_nn_thaw(ct_module *root);

/* ---- trained copies: PEFT's modules_to_save ----
 *
 * A parameter with a trained copy has two tensors under one name. Lists of parameters and saves
 * have the copy. A forward computes with the copy too, or with the original while the copy is
 * switched off. Copies are f32, or f64 of f64, and ct_module_to converts their originals only. */

/* Makes copies of the parameters below a module that have none. Parameters that share a tensor
 * share the copy. They are not in place yet. If it returns false some are made, and
 * cti_trained_drop frees them. */
bool cti_trained_make(ct_module *module);
/* Makes the weight of a module, which has no copy, use the copy of another module's weight: of the
 * embedding to which it is tied. */
bool cti_trained_share(ct_module *module, const ct_module *with);
/* Puts all new copies of a tree in place, and frees those that are not in place. */
void cti_trained_put(ct_module *root);
void cti_trained_drop(ct_module *root);
/* Exchanges copies and originals of a tree; a second call undoes the first. */
void cti_trained_exchange(ct_module *root);
/* Leaves the tensors that are in place as the only ones. */
void cti_trained_end(ct_module *root);
/* Rounds copies in place to the dtype of their originals, which are no blocks. */
bool cti_trained_round(ct_module *root);
/* Switches, as cti_switch_reserve and cti_switch_set do. */
bool cti_trained_reserve(ct_module *root);
void cti_trained_set(ct_module *root, bool off);
/* Gives a clone of a tree, whose parameters are the originals, copies of the copies. */
bool cti_trained_clone(ct_module *clone, const ct_module *root);

/* Iterates over the names of parameters with a copy, also one that is not in place; param.tensor
 * is the copy. */
bool cti_trained_next(const ct_module *root, ct_param *param);
/* The original of the parameter that an iteration, also ct_module_next, has reached; NULL: it has
 * no copy. */
ct_tensor *cti_trained_original(const ct_param *param);
/* Whether a parameter of the module itself has a copy; whether all below a module have one, which
 * is no list. */
bool cti_trained_is(const ct_module *module);
bool cti_trained_is_whole(const ct_module *module);

#endif
