/* Small language models for tests, and the actions of tests on them. */
#ifndef SMALL_LM_H
#define SMALL_LM_H

#include "tests/support/files.h"
#include "tests/support/remove_tree.h"
#include <math.h>

static inline void end_with_folders(void) {
    ct_context_free(context);
    remove_tree(folder);
}

#define SIZES                                                                                      \
    "\"vocab_size\": 31, \"hidden_size\": 16, \"intermediate_size\": 24, "                         \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4"
#define LLAMA "{\"model_type\": \"llama\", \"num_key_value_heads\": 2, " SIZES "}"
#define GEMMA                                                                                      \
    "{\"model_type\": \"gemma3_text\", \"num_key_value_heads\": 2, \"head_dim\": 8, "              \
    "\"sliding_window\": 3, \"layer_types\": [\"sliding_attention\", \"full_attention\"], " SIZES  \
    "}"
#define WITH_QK_NORMS(family)                                                                      \
    "{\"model_type\": \"" family "\", \"num_key_value_heads\": 2, \"head_dim\": 4, " SIZES "}"
#define GPT2                                                                                       \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 31, \"n_embd\": 16, \"n_layer\": 2, "              \
    "\"n_head\": 4, \"n_positions\": 32}"
#define SCALES                                                                                     \
    "\"embedding_multiplier\": 3, \"attention_multiplier\": 0.2, \"residual_multiplier\": 0.6, "   \
    "\"logits_scaling\": 4, "
#define GRANITE "{\"model_type\": \"granite\", \"num_key_value_heads\": 2, " SCALES SIZES "}"
#define GRANITE4                                                                                   \
    "{\"model_type\": \"granitemoehybrid\", \"num_key_value_heads\": 2, "                          \
    "\"layer_types\": [\"attention\", \"attention\"], \"num_local_experts\": 0, "                  \
    "\"shared_intermediate_size\": 20, \"position_embedding_type\": \"rope\", " SCALES SIZES "}"
#define NEOX "{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.5, " SIZES "}"
#define BERT(architecture)                                                                         \
    "{\"model_type\": \"bert\", \"architectures\": [\"" architecture "\"], "                       \
    "\"max_position_embeddings\": 32, \"num_labels\": 3, " SIZES "}"

#define ROBERTA(family, architecture)                                                              \
    "{\"model_type\": \"" family "\", \"architectures\": [\"" architecture "\"], "                 \
    "\"max_position_embeddings\": 34, \"pad_token_id\": 1, \"type_vocab_size\": 1, "               \
    "\"num_labels\": 3, " SIZES "}"
#define DISTILBERT(architecture)                                                                   \
    "{\"model_type\": \"distilbert\", \"architectures\": [\"" architecture "\"], "                 \
    "\"vocab_size\": 31, \"dim\": 16, \"hidden_dim\": 24, \"n_layers\": 2, \"n_heads\": 4, "       \
    "\"max_position_embeddings\": 32, \"num_labels\": 3}"

static inline ct_module *new_lm(const char *config, ct_lm_opts opts) {
    ct_module *lm = ct_lm_new(context, config, opts);
    ck_assert_msg(lm != NULL, "%s", ct_error_message(context));
    ct_module_train(lm, false);
    return lm;
}

/* A model whose weights are far from their small initial values, so that each part counts. */
static inline ct_module *rough_lm(const char *config, ct_lm_opts opts) {
    ct_module *lm = new_lm(config, opts);
    ct_param param = {0};
    while (ct_module_next(lm, &param)) ct_init_normal(param.tensor, 0.2, 0.5);
    return lm;
}

static inline ct_tensor *some_ids(int64_t B, int64_t T) {
    int64_t ids[64];
    for (int64_t i = 0; i < B * T; i++) ids[i] = ct_random_below(context, 31);
    return ct_from_i64(context, CT_SHAPE(B, T), ids);
}

static inline ct_tensor *run_lm(ct_module *lm, ct_tensor *ids, ct_lm_call call) {
    ct_tensor *y = ct_lm_forward(lm, ids, call);
    ck_assert_msg(y != NULL, "%s", ct_error_message(context));
    return y;
}

/* The largest difference of two tensors of one size. */
static inline double apart(ct_tensor *a, ct_tensor *b) {
    ck_assert(a && b && ct_numel(a) == ct_numel(b));
    ct_tensor *d = ct_sub(ct_reshape(a, CT_SHAPE(-1)), ct_reshape(b, CT_SHAPE(-1)));
    const double most = ct_item(ct_max(ct_abs(d), CT_ALL, false));
    ck_assert_msg(ct_error(context) == CT_OK, "%s", ct_error_message(context));
    return most;
}

static inline bool same_shape(const ct_tensor *x, ct_shape want) {
    const ct_shape got = ct_shape_of(x);
    bool same = got.ndim == want.ndim;
    for (int i = 0; i < want.ndim; i++) same = same && got.dim[i] == want.dim[i];
    return same;
}

/* The gradients of all parameters as one tensor, after they were set to zero and y was run
 * backward from `seed`. */
static inline ct_tensor *gradients_of(ct_module *lm, ct_tensor *y, ct_tensor *seed) {
    ct_param each = {0}, again = {0};
    while (ct_module_next(lm, &each)) ct_zero_grad(each.tensor);
    ck_assert(ct_backward_with(&y, &seed, 1, (ct_backward_opts){0}));
    ct_tensor *grad[64];
    int n = 0;
    while (ct_module_next(lm, &again)) {
        ct_tensor *of = ct_grad(again.tensor); /* NULL: y does not depend on the parameter */
        if (!of) of = ct_zeros(context, ct_dtype_of(again.tensor), ct_shape_of(again.tensor));
        grad[n++] = ct_clone(ct_reshape(of, CT_SHAPE(-1)));
    }
    return ct_cat(grad, n, 0);
}

static const ct_lm_opts f64 = {.dtype = CT_F64};

static inline void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    ck_assert(file && fwrite(text, 1, strlen(text), file) == strlen(text) && !fclose(file));
}

static inline char *read_text(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

#endif
