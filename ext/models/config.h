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

#include <cotangent/models.h>
#include <cotangent/nn.h>
#include <cotangent/ops.h>
#include <cotangent/types.h>

#include "../../nn/names.h"
#include "../../src/io/json_tree.h"

/* The numbers of a model that its config.json has under one key. Flags are 0 or 1; CTI_LM_ABSENT
 * stands for null or an absent key without a default. */
typedef enum {
    CTI_LM_NO_NUMBER,
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
    CTI_LM_EMBED_SCALE,    /* the factor of embeddings; always there */
    CTI_LM_SCORE_SCALE,    /* the factor of scores, in place of 1 / sqrt(head_dim) */
    CTI_LM_RESIDUAL_SCALE, /* the factor of a sublayer's result; always there */
    CTI_LM_LOGITS_DIVISOR, /* always there */
    CTI_LM_EXPERTS,        /* the number of experts among which a router chooses */
    CTI_LM_ROPED,          /* whether there is RoPE */
    CTI_LM_BOTH_WAYS,      /* whether tokens attend to later ones */
    CTI_LM_SINES,          /* whether a new table of positions has sines and cosines */
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
    CTI_LM_IS_ROPE, /* a flag: true if the value is "rope" */
    CTI_LM_NAME,    /* the name of an activation */
    CTI_LM_ID,      /* an id, a list of ids, or null, that config.c reads; `value` is the default */
    /* kinds without a number */
    CTI_LM_NO_EFFECT, /* no value changes logits */
    CTI_LM_BY_NAME,   /* config.c or config_rope.c reads it by its name */
    CTI_LM_OFF,       /* refused, unless it is null, false or empty */
    CTI_LM_ON,        /* refused, unless it is true */
    CTI_LM_ABSOLUTE   /* refused, unless it is "absolute" */
} cti_lm_kind;

/* What null means as the value of a number. transformers' classes take it where their type says
 * "| None", and for each key that they have no field for. */
typedef enum {
    CTI_LM_NULL_REFUSED,
    CTI_LM_NULL_ABSENT, /* the number is not there, whatever the key's default is */
    CTI_LM_NULL_DEFAULT /* the number has the default of its key */
} cti_lm_null;

/* A row of a table of keys. A key that is absent has the default `value`. Two keys may have one
 * number: the later row is transformers' other name of it, whose value holds if both are there; its
 * default is CTI_LM_ABSENT. */
typedef struct {
    const char *key;
    cti_lm_kind kind;
    cti_lm_number number; /* not read if the kind has no number */
    double value;
    cti_lm_null null;
    const char *why; /* the reason of a refusal */
} cti_lm_key;

/* The paths of a family's modules in its state dict; NULL: the family has no such module. */
typedef struct {
    const char *base; /* the prefix of the model without its head: "model" */
    const char *embed, *positions, *types, *embed_norm;
    const char *layers;          /* the list of layers: "layers", "encoder.layer" */
    const char *norm;            /* the last norm */
    const char *pooler;          /* a Linear whose tanh of the first token is CT_LM_POOLED */
    const char *head, *old_head; /* the head, and its name in files of transformers 4 */
    cti_nn_layer_names layer;    /* the modules of a layer */
} cti_lm_names;

/* A family in GGUF files (lm_gguf.h). */
typedef struct {
    const char *arch;          /* general.architecture, which several families may share */
    const cti_lm_names *names; /* the same modules as in .names; the layers are blk.0, blk.1, ... */
    bool neighbours; /* the reader turns rows 2i and 2i + 1 of a head's q and k, and not i and i +
                        head_dim / 2 */
    bool needs_head; /* the reader needs output.weight also if the head is tied */
    bool tanh;       /* the reader computes GELU in its tanh form */
    bool rope_freqs; /* the reader has rope_freqs.weight, by which a file says Llama 3's RoPE */
    bool windows;    /* the reader follows sliding_window, which other models of the architecture
                        have; elsewhere the key says nothing */
} cti_lm_gguf;

/* What a head gets of the last hidden states (B, T, E). */
typedef enum {
    CTI_LM_EACH,  /* every token */
    CTI_LM_FIRST, /* the first token of each row, as BERT's [CLS] */
    CTI_LM_LAST,  /* the last token of each row that key_mask shows */
    CTI_LM_POOLER /* the first token, through the pooler of the base */
} cti_lm_pick;

/* A head of a family. Its modules stand beside the base, and their order is: dropout, dense,
 * activation, norm, dropout, linear. */
typedef struct {
    ct_lm_head kind;
    const char *architecture; /* the name in "architectures"; NULL behind the last head */
    cti_lm_pick pick;
    const char *dense, *norm; /* paths of a Linear (width, width) and a norm; NULL: none */
    ct_tensor *(*activation)(ct_tensor *x); /* behind dense; NULL: the one of config.json */
    /* The Linear that makes the logits: of a masked language model and of a classifier. The one of
     * a causal model is cti_lm_names.head */
    const char *linear;
    bool bias;              /* whether this Linear has one */
    const char *bias_owner; /* a module above it that has this bias too; NULL: none */
    cti_lm_number dropout;  /* the rate before `linear`; CTI_LM_NO_NUMBER: none */
    bool dense_dropout;     /* the same dropout stands before `dense` as well */
} cti_lm_head;

enum { CTI_LM_MOST_HEADS = 5 };

typedef struct {
    const char *model_type;
    /* The first is the head of a file without "architectures". The last row is empty */
    cti_lm_head heads[CTI_LM_MOST_HEADS + 1];
    const cti_lm_key *keys; /* ends with a NULL key */
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
        *peft_targets[2];     /* the Linears that PEFT adapts without target_modules; NULL: none */
    bool window_by_types;     /* layer_types may name windows without use_sliding_window */
    bool behind_padding;      /* the first token has position pad_token_id + 1 */
    bool attention_undropped; /* the dropout of sublayers is only the feed-forward's */
    double eps;               /* the norms' eps in a family whose config.json has no key for it */
    bool needs_types;         /* without layer_types no layer would have attention */
    cti_lm_gguf gguf;
} cti_lm_family;

const cti_lm_family *cti_lm_family_of(cti_text model_type); /* NULL: there is none */
/* The row of a model_type whose tokens attend to later ones, where a key chooses; NULL: none. */
const cti_lm_family *cti_lm_family_both_ways(const cti_lm_family *family);
/* The first family of a general.architecture of GGUF; NULL: there is none. */
const cti_lm_family *cti_lm_family_of_gguf(cti_text arch);
/* The row of the same architecture of GGUF without token types; NULL: there is none. */
const cti_lm_family *cti_lm_family_without_types(const cti_lm_family *family);
/* The row of the same architecture of GGUF whose config.json can say that there is no RoPE; NULL:
 * there is none. */
const cti_lm_family *cti_lm_family_without_rope(const cti_lm_family *family);
void cti_lm_family_names(char *out, size_t size);      /* all model_types, "gpt2, llama, ..." */
void cti_lm_family_gguf_names(char *out, size_t size); /* all architectures of GGUF */

/* "with a classifier of sequences", for messages. */
const char *cti_lm_head_text(ct_lm_head kind);
/* The family's head of a kind; NULL: there is none. */
const cti_lm_head *cti_lm_head_of(const cti_lm_family *family, ct_lm_head kind);

/* Texts in one block of the context: n pointers, and behind them the texts. */
typedef struct {
    const char **at; /* [n]; NULL if n is 0 */
    int64_t n;
    size_t bytes; /* size of the block */
} cti_lm_texts;

/* Copies n texts. On an error *out is empty. */
bool cti_lm_texts_copy(ct_context *context, const cti_text *from, int64_t n, cti_lm_texts *out);
bool cti_lm_texts_clone(ct_context *context, const cti_lm_texts *from, cti_lm_texts *out);
void cti_lm_texts_free(ct_context *context, cti_lm_texts *texts);

/* The values of problem_type, which say what the targets of a sequence are. */
typedef enum {
    CTI_LM_NO_PROBLEM, /* not said: the dtype of the targets tells */
    CTI_LM_REGRESSION,
    CTI_LM_ONE_LABEL,
    CTI_LM_MANY_LABELS
} cti_lm_problem;
const char *cti_lm_problem_name(cti_lm_problem problem); /* NULL: not said */
bool cti_lm_problem_find(cti_text name, cti_lm_problem *problem);

/* The options that differ between the layers of a model. */
typedef struct {
    int64_t window; /* the keys that a query sees on one side, with its own; 0: all */
    int rope;       /* the index of its frequencies; -1: none */
    double scale;   /* the factor of the scores */
} cti_lm_layer;

enum { CTI_LM_ROPES = 2, CTI_LM_MOST_EOS = 16, CTI_LM_MOST_LABELS = 1 << 20 };

typedef struct {
    ct_context *context;
    const cti_lm_family *family;
    const cti_lm_head *head; /* a row of the family's table */
    /* whether the file's own head is of this kind and has these labels; if not, its weights are not
     * read, and the head is drawn */
    bool keeps_head;
    bool draws; /* the program has named the head: what the file lacks of it is drawn */
    double number[CTI_LM_NUMBERS];
    bool has_head_dim; /* the size of a head is said, and not width / heads */
    ct_activation activation;
    cti_lm_texts labels; /* the names of a classifier's labels; otherwise empty */
    cti_lm_problem problem;
    bool no_pooler;      /* the weights of a model without a head have none */
    cti_lm_layer *layer; /* [layers], a block of the context */
    int ropes;
    int64_t rope_dims[CTI_LM_ROPES];
    double *frequencies[CTI_LM_ROPES]; /* [rope_dims / 2], blocks of the context */
    double attention_factor[CTI_LM_ROPES];
    ct_rope_scaling_opts rope[CTI_LM_ROPES]; /* the options, with the base as the file has it */
    bool rope_odd; /* the file says that an odd number of dims is turned */
    int64_t bos, pad, eos[CTI_LM_MOST_EOS], n_eos; /* -1: none */
    char *text; /* config.json as it was read, with a NUL; a block of text_size + 1 */
    size_t text_size;
} cti_lm_config;

static inline int64_t cti_lm_integer(const cti_lm_config *config, cti_lm_number number) {
    return (int64_t)config->number[number];
}

/* The length of the longest row: the rows of a table of positions up to pad_token_id are none of a
 * token if positions begin behind it. */
static inline int64_t cti_lm_most_tokens(const cti_lm_config *config) {
    return cti_lm_integer(config, CTI_LM_MAX_LENGTH) -
           (config->family->behind_padding ? config->pad + 1 : 0);
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
                        const ct_lm_opts *opts, cti_lm_config *config);
/* Whether the options' head and labels make sense, whatever the file is. */
bool cti_lm_head_opts_check(ct_context *context, const char *op, const ct_lm_opts *opts);
/* Chooses the head: the one of the options, or else of "architectures". */
bool cti_lm_head_read(const cti_lm_reader *reader, const ct_lm_opts *opts);
/* Reads the labels of a classifier, after its head is chosen. */
bool cti_lm_labels_read(const cti_lm_reader *reader, const ct_lm_opts *opts);
/* Reads an id or a list of ids under a key into ids[CTI_LM_MOST_EOS]; *n is 0 if there is none. */
bool cti_lm_read_ids(const cti_lm_reader *reader, const char *key, int64_t *ids, int64_t *n);
bool cti_lm_config_copy(const cti_lm_config *from, cti_lm_config *to);
void cti_lm_config_free(cti_lm_config *config);

#endif
