/* Low-rank adapters: y = base(x) + factor B A dropout(x) in the place of a Linear (Hu et al. 2021,
 * arXiv:2106.09685); the factor is alpha / rank, or alpha / sqrt(rank) of rsLoRA.
 *
 * Invariants:
 *
 * 1. An adapter has the child base_layer, which is the Linear whose place it took, and the
 *    parameters lora_A (rank, in) and lora_B (out, rank), and lora_magnitude_vector (out) of DoRA.
 * 2. Several adapters are put in place together: after an error none of them is in the tree.
 *
 * 3. Modules that are saved whole (modules_to_save) are parameters with a trained copy
 *    (nn/switch.h). They come and go with adapters: there is no copy without an adapter. */
#ifndef CTI_MODELS_LORA_H
#define CTI_MODELS_LORA_H

#include <cotangent/io.h>
#include <cotangent/models.h>

#include "../../nn/switch.h"
#include "lm.h"

typedef struct {
    ct_context *context;
    ct_module *module; /* the adapter itself */
    ct_lora_opts opts; /* complete: no field stands for a default */
    cti_switch power;  /* of ct_lora_enable */
} cti_lora;

extern const ct_module_type cti_lora_type;
#define CTI_LORA_BASE "base_layer"
enum { CTI_LORA_NAME = sizeof(((ct_param *)0)->buffer) }; /* room for any name of a tree */
#define CTI_LORA_NORM "lora_magnitude_vector"

/* The adapters that are to be put in place, or that are in place. */
typedef struct {
    ct_module *adapter;
    ct_lora_opts opts; /* of an adapter that is to be made */
    char path[CTI_LM_PATH];
} cti_lora_place;
typedef struct {
    ct_context *context;
    cti_lora_place *place; /* [room], a block of the context */
    int64_t n, room;
} cti_lora_places;

/* Makes room for a place of each parameter of a tree. Returns false after an error. */
bool cti_lora_places_new(const ct_module *module, cti_lora_places *places);
/* Adds a place. The names of an adapter below its path must fit a tree. */
bool cti_lora_place_at(cti_lora_places *places, const char *path, ct_module *adapter);
bool cti_lora_is(const ct_module *module);
/* The number by which B A x is multiplied. */
double cti_lora_factor(const ct_lora_opts *opts);
/* Whether an adapter computes what its base does. */
bool cti_lora_is_off(const cti_lora *lora);
/* Collects the adapters of a tree. Returns false after an error. */
bool cti_lora_find(const ct_module *module, cti_lora_places *places);
void cti_lora_places_free(cti_lora_places *places);
/* Makes an adapter for each place, of its options. If it returns false some are made, and
 * cti_lora_drop frees them. */
bool cti_lora_make(ct_module *module, cti_lora_places *places);
void cti_lora_drop(const cti_lora_places *places);
/* Puts adapters that were made in place, and ends the gradients of all parameters that are not of
 * an adapter. Nothing can fail: no memory is taken, and every name is shorter than a module
 * allows. */
void cti_lora_put(ct_module *module, const cti_lora_places *places);

/* ---- modules that are saved whole ---- */

/* The ends of paths of modules to save. */
typedef struct {
    const cti_text *end;
    int64_t n;
    bool tie; /* a head that is tied to a saved embedding, and is not saved, shares its copy */
} cti_lora_ends;

/* Makes copies for the modules below whose paths end so and that have none; *found is the number of
 * modules. Returns false after an error; cti_trained_drop frees what was made. */
bool cti_lora_save_make(ct_module *module, const char *op, const cti_lora_ends *ends,
                        int64_t *found);
/* Whether the head shares the copy of the embedding. */
bool cti_lora_save_is_tied(const ct_module *module);
/* Whether a path is the head's. */
bool cti_lora_save_is_head(const ct_module *module, const char *path);

/* A parameter with a copy, as PEFT's files have it. */
typedef struct {
    ct_tensor *copy, *original;
    bool transposed;             /* the file has (in, out) */
    char name[CTI_LM_PATH + 48]; /* base_model.model.lm_head.weight */
} cti_lora_saved;
/* Iterates over them; param = {0} at first. False after the last one, or after an error. */
bool cti_lora_saved_next(const ct_module *module, ct_param *param, cti_lora_saved *saved);

/* Whether a tensor of the file belongs to one of them. */
bool cti_lora_saved_has(const ct_module *module, const char *tensor);
/* Whether the file has all copies. */
bool cti_lora_saved_check(ct_context *context, const ct_module *module, ct_safetensors *file,
                          const char *op, const char *path);
/* Reads the copies into from[2 n], for n such parameters, in the innermost scope; and the originals
 * if the file has them, as PEFT's has if the vocabulary was resized. */
bool cti_lora_saved_read(ct_context *context, const ct_module *module, ct_safetensors *file,
                         const char *op, ct_tensor **from);
bool cti_lora_saved_write(const ct_module *module, ct_tensor *const *from);

#endif
