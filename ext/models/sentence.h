/* The sentence vector of a model: what sentence-transformers' modules.json says behind the
 * transformer.
 *
 *     modules.json, 1_Pooling/config.json, 2_Dense/... --cti_lm_read_sentence--> cti_lm_sentence,
 *                                                              and Dense modules in the tree
 *     the last hidden state (B, T, E) --Pooling--> (B, n E) --Dense, Normalize, ...--> (B, D)
 *
 * Invariants:
 *
 * 1. A module that is not followed is no error of the open, as the model has other uses. `refused`
 *    says which file and key, and CT_LM_EMBED fails with it. A file that is no JSON, or that cannot
 *    be read, is an error of the open.
 * 2. A Dense is a child of the root and has the name of its folder, so 2_Dense.linear.weight is
 *    linear.weight of 2_Dense/model.safetensors. Its Linear stays as it is when the model is
 *    converted, and gets no adapter. It is in no file of the model itself.
 * 3. If something is refused, the tree has no Dense. */
#ifndef CTI_MODELS_SENTENCE_H
#define CTI_MODELS_SENTENCE_H

#include <cotangent/models.h>

typedef enum {
    CTI_LM_POOL_CLS, /* the first token */
    CTI_LM_POOL_MAX,
    CTI_LM_POOL_MEAN,
    CTI_LM_POOL_SQRT,     /* the sum over the root of the number of tokens */
    CTI_LM_POOL_WEIGHTED, /* the mean of tokens weighted by 1, 2, ... */
    CTI_LM_POOL_LAST,
    CTI_LM_POOLS
} cti_lm_pool;

typedef enum {
    CTI_LM_STEP_OTHER, /* a type that is not followed */
    CTI_LM_STEP_TRANSFORMER,
    CTI_LM_STEP_POOLING,
    CTI_LM_STEP_DENSE,
    CTI_LM_STEP_NORMALIZE
} cti_lm_step_kind;

enum { CTI_LM_STEPS = 16, CTI_LM_STEP_PATH = 32, CTI_LM_MOST_POOLS = 8, CTI_LM_REFUSED = 400 };

/* An item of modules.json. */
typedef struct {
    cti_lm_step_kind kind;
    char path[CTI_LM_STEP_PATH]; /* its folder in the model's, "2_Dense"; "": the model's */
} cti_lm_step;

typedef struct {
    int steps; /* 0: there is no modules.json */
    cti_lm_step step[CTI_LM_STEPS];
    int pools;
    cti_lm_pool pool[CTI_LM_MOST_POOLS];
    bool without_prompt; /* include_prompt is false */
    int64_t max_length;  /* max_seq_length; 0: none */
    /* [n_prompts] names and texts in turn, each with its NUL, a block of the context */
    char *prompts;
    size_t prompts_size;
    int n_prompts, default_prompt; /* default_prompt: an index; -1: none */
    /* "", or the file and the key for which CT_LM_EMBED, and for which ct_lm_prompt, fails */
    char refused[CTI_LM_REFUSED], refused_prompts[CTI_LM_REFUSED];
} cti_lm_sentence;

#endif
