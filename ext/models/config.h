/* config.json of a Hugging Face folder: the numbers that fix a model's mathematics, in one struct
 * for all families.
 *
 * Invariants:
 *
 * 1. Every key that transformers reads has one row: in the table of its family (families.c), or in
 *    common_keys (config_keys.c) if all families treat it alike. The row says whether the
 *    key is followed, has no effect on logits, or is refused, and why.
 * 2. A key without a row is one that transformers does not read in this family. It is an error,
 *    unless the caller ignores unknown keys. So what is ignored never changes logits.
 * 3. Both dialects are read: rope_theta and rope_scaling of transformers 4, rope_parameters of
 *    transformers 5. */
#ifndef CTI_MODELS_CONFIG_H
#define CTI_MODELS_CONFIG_H

#include <cotangent/nn.h>
#include <cotangent/types.h>

#include "../../nn/names.h"
#include "../../src/io/json_tree.h"

/* The numbers of a model that its config.json has under one key. Flags are 0 or 1; CTI_LM_ABSENT
 * stands for null or an absent key without a default. */
typedef enum {
    CTI_LM_VOCAB,
    CTI_LM_WIDTH,
    CTI_LM_LAYERS,
    CTI_LM_HEADS,
    CTI_LM_KV_HEADS,
    CTI_LM_HEAD_DIM,
    CTI_LM_HIDDEN,
    CTI_LM_MAX_LENGTH,
    CTI_LM_TYPES,
    CTI_LM_EPS,
    CTI_LM_RANGE, /* the standard deviation of initial weights */
    CTI_LM_ACTIVATION,
    CTI_LM_TIED,
    CTI_LM_ATTENTION_BIAS,
    CTI_LM_MLP_BIAS,
    CTI_LM_WINDOW,
    CTI_LM_USE_WINDOW,
    CTI_LM_FULL_LAYERS,  /* max_window_layers: the layers before it have no window */
    CTI_LM_PATTERN,      /* every layer of this number has no window: 6 in Gemma 3 */
    CTI_LM_ROPE_PATTERN, /* every layer of this number has no RoPE: 4 in SmolLM3 */
    CTI_LM_QUERY_SCALAR, /* the scale of scores is its inverse square root */
    CTI_LM_FINAL_CAP,    /* the softcap of logits */
    CTI_LM_PARALLEL,
    CTI_LM_SCALED,       /* scale_attn_weights */
    CTI_LM_SCALED_LAYER, /* scale_attn_by_inverse_layer_idx */
    CTI_LM_ATTENTION_DROPOUT,
    CTI_LM_DROPOUT, /* the dropout of a sublayer's result */
    CTI_LM_EMBEDDING_DROPOUT,
    CTI_LM_CLASS_DROPOUT,
    CTI_LM_NUMBERS
} cti_lm_number;
#define CTI_LM_ABSENT (-1.0)

typedef enum {
    CTI_LM_SIZE,     /* an integer of at least 1 */
    CTI_LM_COUNT,    /* an integer of at least 0 */
    CTI_LM_REAL,     /* a finite number of at least 0 */
    CTI_LM_POSITIVE, /* a finite number greater than 0 */
    CTI_LM_RATE,     /* a number in [0, 1) */
    CTI_LM_FLAG,
    CTI_LM_NAME, /* the name of an activation */
    CTI_LM_ID,   /* an id, a list of ids, or null, that config.c reads; `value` is the default */
    /* kinds without a number */
    CTI_LM_NO_EFFECT, /* no value changes logits */
    CTI_LM_BY_NAME,   /* config.c or config_rope.c reads it by its name */
    CTI_LM_OFF,       /* refused, unless it is null, false or empty */
    CTI_LM_ON,        /* refused, unless it is true */
    CTI_LM_ABSOLUTE   /* refused, unless it is "absolute" */
} cti_lm_kind;

/* A row of a table of keys. A key that is absent has the default `value`; null is allowed if
 * `nullable`, and is CTI_LM_ABSENT. Two keys may have one number: the later row is transformers'
 * other name of it, whose value holds if both are there; its default is CTI_LM_ABSENT. */
typedef struct {
    const char *key;
    cti_lm_kind kind;
    cti_lm_number number; /* not read if the kind has no number */
    double value;
    bool nullable;
    const char *why; /* the reason of a refusal */
} cti_lm_key;

/* The paths of a family's modules in its state dict; NULL: the family has no such module. */
typedef struct {
    const char *base; /* the prefix of the model without its head: "model" */
    const char *embed, *positions, *types, *embed_norm;
    const char *layers;          /* the list of layers: "layers", "encoder.layer" */
    const char *norm;            /* the last norm */
    const char *head, *old_head; /* the head, and its name in files of transformers 4 */
    cti_nn_layer_names layer;    /* the modules of a layer */
} cti_lm_names;

typedef struct {
    const char *model_type;
    const char *causal, *bare, *masked, *classes; /* "architectures"; NULL: there is none */
    const cti_lm_key *keys;                       /* ends with a NULL key */
    cti_lm_names names;
    bool rms, post_norm, bidirectional, transposed;
    bool qkv_bias, up_bias; /* whether q, k and v, and whether up and down, always have biases */
    bool o_bias;            /* o has a bias always */
    bool one_window; /* all layers have the window of sliding_window, if there is one; layer_types
                        says nothing then */
    double norm_offset, rope_base, local_base; /* the bases of full and of sliding layers */
    double partial;    /* the default of partial_rotary_factor; 0: no RoPE */
    bool embed_scaled; /* embeddings are multiplied by sqrt(width) */
    bool padding_idx;  /* look-ups of pad_token_id give no gradient to its row of the embedding */
    const char
        *peft_targets[2]; /* the Linears that PEFT adapts without target_modules; NULL: none */
    bool window_by_types; /* layer_types may name windows without use_sliding_window */
} cti_lm_family;

const cti_lm_family *cti_lm_family_of(cti_text model_type); /* NULL: there is none */
void cti_lm_family_names(char *out, size_t size); /* all model_types, "gpt2, llama, ..." */

typedef enum {
    CTI_LM_HEAD_CAUSAL,
    CTI_LM_HEAD_BARE,
    CTI_LM_HEAD_MASKED,
    CTI_LM_HEAD_CLASSES
} cti_lm_head;

/* The options that differ between the layers of a model. */
typedef struct {
    int64_t window; /* the keys that a query sees, with its own; 0: all */
    int rope;       /* the index of its frequencies; -1: none */
    double scale;   /* the factor of the scores */
} cti_lm_layer;

enum { CTI_LM_ROPES = 2, CTI_LM_MOST_EOS = 16 };

typedef struct {
    ct_context *context;
    const cti_lm_family *family;
    cti_lm_head head;
    double number[CTI_LM_NUMBERS];
    ct_activation activation;
    int64_t labels;      /* of CTI_LM_HEAD_CLASSES */
    cti_lm_layer *layer; /* [layers], a block of the context */
    int ropes;
    int64_t rope_dims[CTI_LM_ROPES];
    double *frequencies[CTI_LM_ROPES]; /* [rope_dims / 2], blocks of the context */
    double attention_factor[CTI_LM_ROPES];
    int64_t bos, pad, eos[CTI_LM_MOST_EOS], n_eos; /* -1: none */
    char *text; /* config.json as it was read, with a NUL; a block of text_size + 1 */
    size_t text_size;
} cti_lm_config;

static inline int64_t cti_lm_integer(const cti_lm_config *config, cti_lm_number number) {
    return (int64_t)config->number[number];
}

/* A reader of one config.json. */
typedef struct {
    ct_context *context;
    const char *op, *path; /* the function and the path that messages name */
    const cti_json_tree *tree;
    cti_lm_config *config;
    bool ignore_unknown;
} cti_lm_reader;

/* Writes the text of a value, in which a long value is shortened. */
enum { CTI_LM_VALUE = 96 };
void cti_lm_value_text(const cti_lm_reader *reader, cti_json_at value, char out[CTI_LM_VALUE]);
/* Records CT_ERR_FORMAT "op: path: key = value: reason". Returns false. */
bool cti_lm_refuse(const cti_lm_reader *reader, const char *key, cti_json_at value,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The row of a key for the family of the config; NULL: transformers does not read it. */
const cti_lm_key *cti_lm_key_of(const cti_lm_family *family, cti_text key);
/* Whether every key is followed, without effect, or unknown and ignored; the family is known. */
bool cti_lm_check_keys(const cti_lm_reader *reader);
/* Reads the frequencies of all layers; the numbers are read already. */
bool cti_lm_read_ropes(const cti_lm_reader *reader);

/* Reads a config.json, whose text is copied. If it returns false, there is nothing to free. */
bool cti_lm_config_read(ct_context *context, const char *op, const char *path, cti_text text,
                        bool ignore_unknown, cti_lm_config *config);
/* Reads an id or a list of ids under a key into ids[CTI_LM_MOST_EOS]; *n is 0 if there is none. */
bool cti_lm_read_ids(const cti_lm_reader *reader, const char *key, int64_t *ids, int64_t *n);
bool cti_lm_config_copy(const cti_lm_config *from, cti_lm_config *to);
void cti_lm_config_free(cti_lm_config *config);

#endif
