/* A language model: the data of the root of its tree.
 *
 * Invariants:
 *
 * 1. The tree has the names of the family's table (families.c). A layer is an encoder layer of nn.h
 *    with these names. Linears, norms and embeddings are run by ct_forward, and so is any module
 *    that a program puts in the place of one, such as an adapter. Whether a module is one of ours
 *    is told by the address of its kind or type.
 * 2. If the embedding and the head are tied, one parameter has both names.
 * 3. The model has no other tensors than its parameters, and the frequencies of rotary positions,
 *    which are buffers of the layers and not saved.
 * 4. The dtype of a model is that of its parameters, which a program may change
 *    (ct_module_to). */
#ifndef CTI_MODELS_LM_H
#define CTI_MODELS_LM_H

#include <cotangent/models.h>

#include "../../src/core/object.h"
#include "config.h"
#include "sentence.h"

typedef struct cti_lm cti_lm;
typedef struct cti_lm_style cti_lm_style; /* folder.h */

/* Room for any path of the tree, and for the path of a part below the base or a layer. */
enum { CTI_LM_PATH = 192, CTI_LM_PART = 96 };

/* A parameter as the family has it. */
typedef struct {
    char name[CTI_LM_PATH];
    ct_shape shape;
} cti_lm_known;

/* Options of generation_config.json that a GGUF file has too, as numbers of general.sampling. */
typedef enum {
    CTI_LM_TEMPERATURE,
    CTI_LM_TOP_K,
    CTI_LM_TOP_P,
    CTI_LM_MIN_P,
    CTI_LM_PENALTY,
    CTI_LM_SAMPLINGS
} cti_lm_sampling;

struct cti_lm {
    ct_context *context;
    ct_module *module; /* the root of the tree */
    cti_lm_config config;
    bool ignore_unknown; /* as in ct_lm_opts */
    cti_lm_known *known; /* [n_known] the parameters that the family gives it */
    int64_t n_known;
    char *folder;    /* the path from which it was opened; NULL: none */
    bool of_gguf;    /* the path is a GGUF file, or a folder with one */
    bool has_tokens; /* this GGUF file has a tokenizer */
    /* A save writes this tokenizer if has_tokenizer, and otherwise the one of the path. */
    const ct_tokenizer *tokenizer;
    bool has_tokenizer;
    double sampling[CTI_LM_SAMPLINGS]; /* general.sampling of a GGUF file; or CTI_LM_ABSENT */
    /* the options of the folder's generation_config.json, or of config.json without that file; .eos
     * points to `eos`, the ids of that file, or of config.json if that file has none */
    ct_generate_opts generation;
    int64_t eos[CTI_LM_MOST_EOS];
    bool has_own_eos;   /* ct_lm_set_eos has set them, and saves write them */
    cti_lm_texts drawn; /* the parameters that the file lacked, and that were drawn */
    struct {
        const char *file; /* the file that has the options */
        const char *key;  /* the first of its keys that is not supported; NULL: none */
        char value[CTI_LM_VALUE];
    } not_followed;
    cti_lm_sentence sentence;
};

/* Reads the options of generation for an op. */
bool cti_lm_read_generation(cti_lm *lm, const char *op);
/* Makes the text of a generation_config.json of the ids and lm->sampling, a block of *size + 1
 * bytes of the context; NULL after an error. */
char *cti_lm_generation_text(const cti_lm *lm, size_t *size);
/* Opens the tokenizer of the path from which the model was opened, if saves write this one and
 * there is one; otherwise *tokenizer is NULL. The caller closes it. */
bool cti_lm_open_tokenizer(const cti_lm *lm, ct_tokenizer **tokenizer);
/* Copies a file with the model's own ids that end a text. */
bool cti_lm_save_eos(const cti_lm *lm, const char *op, const char *from, const char *to);

extern const ct_module_type cti_lm_type;
/* Whether a context is not NULL and has no pending error. */
bool cti_lm_is_ready(ct_context *context);
/* The data of a model for a function that begins with it; NULL after an error. */
cti_lm *cti_lm_of(const ct_module *module);

bool cti_lm_ends_with(const char *name, const char *end);
/* Writes the path of a part of the model without its head, "model.norm". */
const char *cti_lm_path(const cti_lm *lm, const char *part, char out[CTI_LM_PATH]);
/* The first layer, which the others follow (cti_nn_next_child). */
ct_module *cti_lm_first_layer(const cti_lm *lm);

/* Makes the tree, of parameters that have no values yet, for the file of a style, or for none. On
 * an error there is nothing to free. */
ct_module *cti_lm_build(ct_context *context, cti_lm_config *config, ct_lm_opts opts,
                        const char *folder, const cti_lm_style *style);
/* Writes down which parameters the family and modules.json give it, before a program can replace a
 * module. */
bool cti_lm_note_parameters(cti_lm *lm);
bool cti_lm_has_pooler(const cti_lm_config *config);
bool cti_lm_is_classifier(const cti_lm_config *config); /* of sequences or of tokens */
/* The dtype of a model's matrices in a file: CT_F64, CT_F32, or CT_BF16 if all of them are bf16 or
 * blocks. */
ct_dtype cti_lm_dtype(const cti_lm *lm);
/* A module's own parameter; NULL, without an error, if there is none of that name. */
ct_tensor *cti_lm_param(const ct_module *module, const char *name);
/* Sets the vocabulary's size, the format of the weights, the architecture and the labels in the
 * text of config.json. */
bool cti_lm_update_text(cti_lm *lm);
/* The path of the Linear that makes the logits; NULL for an encoder without a head. */
const char *cti_lm_head_path(const cti_lm *lm);
/* Whether the head's weight is the embedding's. */
bool cti_lm_is_tied(const cti_lm *lm);
/* Whether a folder can hold the model: its parameters are those of the family, in modules of this
 * library with the mathematics that config.json says. Otherwise records an error. */
bool cti_lm_is_of_family(const cti_lm *lm, const char *op);
/* Whether each token has a logit for every id of the vocabulary. */
bool cti_lm_has_logits(const cti_lm *lm);
/* Whether the embedding has a padding_idx: a row that gets no gradient by look-ups. */
bool cti_lm_has_padding(const cti_lm *lm);
/* Gives a model's matrices and biases their initial values; or only one parameter. */
bool cti_lm_initialise(const cti_lm *lm);
bool cti_lm_initialise_param(const cti_lm *lm, const ct_param *param);
/* The parameter as the family has it; NULL: the family has none of this name. */
const cti_lm_known *cti_lm_known_of(const cti_lm *lm, const char *name);
/* Checks the targets of a batch of B sequences, and makes the loss of targets that are floats. */
bool cti_lm_sequence_targets_check(const cti_lm *lm, const char *op, const ct_tensor *targets,
                                   int64_t B);
ct_tensor *cti_lm_float_loss(const cti_lm *lm, const char *op, ct_tensor *logits,
                             ct_tensor *targets, const ct_cross_entropy_opts *opts);

struct ct_lm_cache {
    union {
        cti_object object; /* must be first */
        ct_context *context;
    };
    ct_module *module;
    int64_t batch, max_length, layers;
    ct_kv_cache **layer; /* [layers] */
    /* [batch] each, in one block that begins with `before`: the lengths at the beginning of a
     * forward, the numbers of its tokens, and the lengths of the rows. After a forward that failed
     * a layer's cache may be longer than `length` */
    int64_t *before, *after, *length;
};

/* Shortens the caches of all layers to cache->length. */
bool cti_lm_cache_align(ct_lm_cache *cache);
/* Makes room for rows of up to max_length tokens. After an error the cache is as it was. */
bool cti_lm_cache_reserve(ct_lm_cache *cache, int64_t max_length);

#endif
