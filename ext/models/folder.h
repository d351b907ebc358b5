/* The names of a file's tensors, and the text of its config.json. */
#ifndef CTI_MODELS_FOLDER_H
#define CTI_MODELS_FOLDER_H

#include "../../nn/load.h"
#include "../../src/core/assert.h"
#include "config_edit.h"
#include "lm.h"
#include "small_file.h"

/* How a file names the tensors of a model. */
struct cti_lm_style {
    bool prefixed;          /* the names of the base have the family's prefix ("model.") */
    bool gamma;             /* norms have gamma and beta in place of weight and bias */
    bool old_head;          /* the head has its name of transformers 4 */
    const cti_shards *file; /* its tensors; NULL: the file is yet to be written */
    /* the tensors of a GGUF file, which have the names of the tree, but for q, k and v if they are
     * one; NULL: the file is none */
    const cti_shards *gguf;
};

/* Writes the name that a file of this style has for a parameter. */
void cti_lm_file_name(const cti_lm_config *config, const cti_lm_style *style, const char *name,
                      char out[CTI_LM_PATH]);

/* Whether a parameter is not read from the file, but drawn: it is of a head that the file has not.
 */
bool cti_lm_is_drawn(const cti_lm_config *config, const cti_lm_style *style, const char *name);
/* Finds lm->drawn, and draws these parameters from the context's generator. */
bool cti_lm_drawn_find(cti_lm *lm, const cti_lm_style *style);
bool cti_lm_draw(const cti_lm *lm);
/* Whether a tensor of the file belongs to a head that the model has not. */
bool cti_lm_is_other_head(const cti_lm_config *config, const cti_lm_style *style, const char *name);

typedef struct {
    char param[CTI_LM_PATH], file[CTI_LM_PATH];
} cti_lm_pair;

/* A map for ct_load and ct_save: an entry for each parameter whose name or layout in the file
 * differs, and the texts to which the entries point. */
typedef struct {
    ct_load_map *entry; /* [room], of which n are used */
    cti_lm_pair *text;  /* [room] */
    int64_t n, room;
} cti_lm_map;

bool cti_lm_map_new(const cti_lm *lm, const cti_lm_style *style, cti_lm_map *map);
void cti_lm_map_free(const cti_lm *lm, cti_lm_map *map);

/* Whether a folder's file has the parameter of this name transposed: GPT-2's Conv1D. */
bool cti_lm_file_has_transposed(const cti_lm *lm, const char *name);

/* Whether a path is a folder with config.json and weights. If it is not, the error names a file
 * that the folder has instead, such as a pickle, and the remedy. */
bool cti_lm_check_folder(ct_context *context, const char *op, const char *folder);

/* Sets id2label, label2id and problem_type of a classifier. */
bool cti_lm_set_labels(const cti_lm_config *config, cti_lm_edit *edit);
/* Sets what the text of a config.json says about the weights, as they are now: their dtype, under
 * whichever key the text has for it, and whether the head is tied. */
bool cti_lm_set_weights(const cti_lm *lm, cti_lm_edit *edit, ct_file_float floats);

#endif
