/* PEFT's adapter_config.json of a LoRA adapter. */
#ifndef CTI_MODELS_PEFT_CONFIG_H
#define CTI_MODELS_PEFT_CONFIG_H

#include <cotangent/models.h>

#include "lm.h"

typedef struct {
    ct_lora_opts opts;
    cti_lm_reader reader; /* has the path, which must outlive the config */
    cti_json_tree tree;
    char *text; /* a block of `room` bytes, in which the tree's strings are */
    size_t room;
} cti_peft_config;

/* Reads the file. A key that is not known and not off is CT_ERR_FORMAT, as is any value that would
 * change logits in another way than a rank, an alpha and a dropout. If it returns false, there is
 * nothing to free. */
bool cti_peft_config_read(ct_context *context, const char *op, const char *path,
                          cti_peft_config *config);
/* Gives opts the rank and alpha of the Linear of this name: those of the first key of rank_pattern
 * and of alpha_pattern that its end matches, behind a point, as an expression. False:
 * CT_ERR_FORMAT. */
bool cti_peft_config_opts(const cti_peft_config *config, const char *linear, ct_lora_opts *opts);
void cti_peft_config_free(cti_peft_config *config);

/* Whether PEFT adapts the Linear of this name, such as "model.layers.0.self_attn.q_proj", of a
 * model (NULL: of a program's own module). Three conditions must hold. target_modules has the name:
 * it is a list of names and ends of names, a regular expression of whole names, or "all-linear" for
 * all Linears except the head. exclude_modules, a list or an expression, does not have it.
 * layers_to_transform has its layer, unless target_modules has the whole name. False:
 * CT_ERR_FORMAT. */
bool cti_peft_config_adapts(const cti_peft_config *config, const cti_lm *lm, const char *linear);

/* Makes trained copies, which are not in place yet, of the modules that modules_to_save names. */
bool cti_peft_config_save_make(const cti_peft_config *config, ct_module *module);

#endif
