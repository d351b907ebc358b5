/* The tree of a model: its modules and parameters, with the names of the family's state dict. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/core/message.h"
#include "../../nn/bare.h"
#include "folder.h"

/* ---- parts of the tree ---- */

/* The maker of parts. A call that fails leaves an error of the context, and later calls do
 * nothing. */
typedef struct {
    const cti_lm_config *config;
    ct_context *context;
    ct_dtype matrices, others;
    bool recompute;
    /* how the file names its tensors; NULL: the model is not read from a file */
    const cti_lm_style *style;
} builder;

/* The dtype of the weight at a path of the tree. One that the file lacks is there to be trained, so
 * it is never at rest in bf16 or blocks. */
static ct_dtype lm_weight_dtype(const builder *b, const char *prefix, const char *path) {
    char name[CTI_LM_PATH];
    snprintf(name, sizeof name, "%s%s.weight", prefix, path);
    return b->style && cti_lm_is_drawn(b->config, b->style, name) ? b->others : b->matrices;
}

/* Adds a Linear with a bias, (width, width), to the root or to the base, whose prefix is given. */
static void lm_add_linear(builder *b, ct_module *owner, const char *prefix, const char *path) {
    const int64_t width = cti_lm_integer(b->config, CTI_LM_WIDTH);
    if (!path) return;
    const ct_linear_opts opts = {
        .in_features = width, .out_features = width, .dtype = lm_weight_dtype(b, prefix, path)};
    cti_nn_add_at(owner, path, cti_nn_linear_empty(b->context, opts));
}

static void lm_add_norm(builder *b, ct_module *owner, const char *path) {
    const cti_lm_family *family = b->config->family;
    const int64_t width = cti_lm_integer(b->config, CTI_LM_WIDTH);
    const double eps = b->config->number[CTI_LM_EPS];
    const ct_rms_norm_opts rms = {
        .dim = width, .eps = eps, .dtype = b->others, .offset = family->norm_offset};
    const ct_layer_norm_opts layer = {.dim = width, .eps = eps, .dtype = b->others};
    if (path)
        cti_nn_add_at(owner, path,
                      family->rms ? cti_nn_rms_norm_empty(b->context, rms)
                                  : cti_nn_layer_norm_empty(b->context, layer));
}

static void lm_add_embedding(builder *b, ct_module *owner, const char *path, cti_lm_number rows) {
    const bool tokens = rows == CTI_LM_VOCAB;
    const ct_embedding_opts opts = {.num_embeddings = cti_lm_integer(b->config, rows),
                                    .embedding_dim = cti_lm_integer(b->config, CTI_LM_WIDTH),
                                    .dtype = tokens ? b->matrices : b->others};
    if (!path) return;
    ct_module *table = cti_nn_embedding_empty(b->context, opts);
    if (!tokens) cti_nn_stay(table);
    cti_nn_add_at(owner, path, table);
}

/* ---- layers ---- */

static ct_mha_opts lm_attention_opts(const cti_lm_config *config, const cti_lm_layer *own) {
    const cti_lm_family *family = config->family;
    const bool bias = config->number[CTI_LM_ATTENTION_BIAS] > 0;
    ct_mha_opts attn = {
        .num_kv_heads = cti_lm_integer(config, CTI_LM_KV_HEADS),
        .head_dim = cti_lm_integer(config, CTI_LM_HEAD_DIM),
        .bias = bias || family->o_bias ? CT_BIAS_ALL
                : family->qkv_bias     ? CT_BIAS_QKV
                                       : CT_BIAS_NONE,
        .scale = own->scale,
        .window = {.left = own->window, .right = family->bidirectional ? own->window : 0},
        .qk_norm = family->names.layer.mha.q_norm,
        .qk_norm_offset = family->norm_offset,
        .rope = own->rope >= 0};
    if (attn.rope)
        attn.rotary = (ct_rope_opts){.dims = config->rope_dims[own->rope],
                                     .frequencies = config->frequencies[own->rope],
                                     .attention_factor = config->attention_factor[own->rope]};
    return attn;
}

/* Makes layer i by the family's options and names. */
static ct_module *lm_layer_new(const builder *b, int64_t i) {
    const cti_lm_config *config = b->config;
    const cti_lm_family *family = config->family;
    const cti_nn_layer_names *names = &family->names.layer;
    const bool parallel = config->number[CTI_LM_PARALLEL] > 0;
    return cti_nn_layer_named(
        b->context,
        (ct_layer_opts){.embed_dim = cti_lm_integer(config, CTI_LM_WIDTH),
                        .num_heads = cti_lm_integer(config, CTI_LM_HEADS),
                        .hidden = cti_lm_integer(config, CTI_LM_HIDDEN),
                        .activation = config->activation,
                        .dropout = config->number[CTI_LM_DROPOUT],
                        .norm_first = !family->post_norm,
                        .eps = config->number[CTI_LM_EPS],
                        .no_bias = !family->up_bias && !(config->number[CTI_LM_MLP_BIAS] > 0),
                        .dtype = b->matrices,
                        .rms_norm = family->rms,
                        .gated = names->feed.gate || names->feed.gate_in,
                        .recompute = b->recompute,
                        .norm_offset = family->norm_offset,
                        .sandwich = names->norm_out[0],
                        .parallel = parallel,
                        .attn = lm_attention_opts(config, &config->layer[i])},
        (cti_nn_layer_more){.names = names,
                            .attention_dropout = config->number[CTI_LM_ATTENTION_DROPOUT],
                            .input_last = parallel,
                            .attention_undropped = family->attention_undropped,
                            .residual_scale = config->number[CTI_LM_RESIDUAL_SCALE]});
}

/* ---- the base, heads ---- */

static void base_model_add(builder *b, ct_module *base) {
    const cti_lm_names *names = &b->config->family->names;
    char prefix[CTI_LM_PART];
    lm_add_embedding(b, base, names->embed, CTI_LM_VOCAB);
    lm_add_embedding(b, base, names->positions, CTI_LM_MAX_LENGTH);
    lm_add_embedding(b, base, names->types, CTI_LM_TYPES);
    lm_add_norm(b, base, names->embed_norm);
    const char *dot = strrchr(names->layers, '.');
    ct_module *owner =
        dot ? cti_nn_group(base, names->layers, (size_t)(dot - names->layers)) : base;
    for (int64_t i = 0; i < cti_lm_integer(b->config, CTI_LM_LAYERS); i++) {
        ct_module *layer = lm_layer_new(b, i);
        if (!ct_module_append(owner, dot ? dot + 1 : names->layers, layer)) ct_module_free(layer);
    }
    lm_add_norm(b, base, names->norm);
    const bool bare = b->config->head->kind == CT_LM_HEAD_NONE;
    snprintf(prefix, sizeof prefix, "%s%s", bare ? "" : names->base, bare ? "" : ".");
    if (cti_lm_has_pooler(b->config)) lm_add_linear(b, base, prefix, names->pooler);
}

static void lm_add_param(builder *b, ct_module *module, const char *name, ct_dtype dtype,
                         ct_shape shape) {
    ct_scope scope = ct_scope_open(b->context);
    ct_module_add_param(module, name, cti_nn_matrix_new(b->context, dtype, shape));
    ct_scope_close(scope);
}

/* Adds the Linear of a classifier. It is small and is what a program trains, so it is never at
 * rest in bf16 or blocks. */
static void classifier_add(builder *b, ct_module *root) {
    const cti_lm_head *head = b->config->head;
    const ct_linear_opts opts = {.in_features = cti_lm_integer(b->config, CTI_LM_WIDTH),
                                 .out_features = b->config->labels.n,
                                 .no_bias = !head->bias,
                                 .dtype = b->others};
    ct_module *linear = cti_nn_linear_empty(b->context, opts);
    cti_nn_stay(linear);
    cti_nn_add_at(root, head->linear, linear);
}

/* Adds the Linear that makes the logits of the vocabulary; a tied one has the embedding's
 * parameter. */
static void vocabulary_head_add(builder *b, ct_module *root) {
    const cti_lm_config *config = b->config;
    const cti_lm_head *head = config->head;
    const cti_lm_names *names = &config->family->names;
    const int64_t width = cti_lm_integer(config, CTI_LM_WIDTH),
                  vocab = cti_lm_integer(config, CTI_LM_VOCAB);
    const char *path = head->linear ? head->linear : names->head;
    char embedding[CTI_LM_PATH];
    snprintf(embedding, sizeof embedding, "%s.%s.weight", names->base, names->embed);
    const ct_linear_opts opts = {
        .in_features = width, .out_features = vocab, .no_bias = !head->bias};
    ct_module *linear = cti_nn_add_at(root, path, cti_nn_linear_bare(b->context, opts));
    if (config->number[CTI_LM_TIED] > 0)
        ct_module_add_param(linear, "weight", ct_module_get(root, embedding));
    else lm_add_param(b, linear, "weight", lm_weight_dtype(b, "", path), CT_SHAPE(vocab, width));
    if (head->bias) lm_add_param(b, linear, "bias", b->others, CT_SHAPE(vocab));
    if (head->bias_owner)
        ct_module_add_param(ct_module_child(root, head->bias_owner), "bias",
                            ct_module_get(linear, "bias"));
}

static void head_add(builder *b, ct_module *root) {
    const cti_lm_head *head = b->config->head;
    lm_add_linear(b, root, "", head->dense);
    lm_add_norm(b, root, head->norm);
    if (cti_lm_is_classifier(b->config)) classifier_add(b, root);
    else vocabulary_head_add(b, root);
}

/* ---- the root ---- */

static size_t known_bytes(const cti_lm *lm) { return cti_bytes(lm->n_known, sizeof *lm->known); }

static void lm_end(void *data) {
    cti_lm *lm = data;
    ct_context *context = lm->context;
    if (lm->folder) cti_give_any(context, lm->folder, strlen(lm->folder) + 1);
    if (lm->known) cti_give_any(context, lm->known, known_bytes(lm));
    cti_lm_texts_free(context, &lm->drawn);
    if (lm->sentence.prompts)
        cti_give_any(context, lm->sentence.prompts, lm->sentence.prompts_size);
    cti_lm_config_free(&lm->config);
    cti_give_any(context, lm, sizeof *lm);
}

static void lm_describe(const void *data, FILE *file) {
    const cti_lm *lm = data;
    fprintf(file, "%s, %" PRId64 " layers", lm->config.family->model_type,
            cti_lm_integer(&lm->config, CTI_LM_LAYERS));
}

/* Makes the data of a root, whose module is made later. It takes *config over; if it returns NULL,
 * *config is still the caller's. */
static cti_lm *lm_data_new(ct_context *context, cti_lm_config *config, bool ignore_unknown,
                           const char *folder) {
    cti_lm *lm = cti_take_any(context, sizeof *lm);
    if (!lm) return NULL;
    *lm = (cti_lm){.context = context, .config = *config, .ignore_unknown = ignore_unknown};
    lm->folder = folder ? cti_string_take(context, folder) : NULL;
    if (folder && !lm->folder) {
        cti_give_any(context, lm, sizeof *lm);
        return NULL;
    }
    memcpy(lm->eos, config->eos, sizeof lm->eos);
    lm->generation = (ct_generate_opts){.eos = lm->eos, .n_eos = config->n_eos};
    for (int i = 0; i < CTI_LM_SAMPLINGS; i++) lm->sampling[i] = CTI_LM_ABSENT;
    return lm;
}

static void sentence_copy(const cti_lm *from, cti_lm *to) {
    to->sentence = from->sentence;
    if (!from->sentence.prompts) return;
    to->sentence.prompts = cti_take_any(from->context, from->sentence.prompts_size);
    if (to->sentence.prompts)
        memcpy(to->sentence.prompts, from->sentence.prompts, from->sentence.prompts_size);
}

static void *lm_clone(void *data, ct_module *copy) {
    const cti_lm *from = data;
    cti_lm_config config;
    if (!cti_lm_config_copy(&from->config, &config)) return NULL;
    cti_lm *lm = lm_data_new(from->context, &config, from->ignore_unknown, from->folder);
    if (lm) {
        lm->module = copy;
        lm->n_known = from->n_known;
        lm->known = cti_take_any(from->context, known_bytes(lm));
        if (lm->known) memcpy(lm->known, from->known, known_bytes(lm));
        memcpy(lm->eos, from->eos, sizeof lm->eos);
        lm->generation = from->generation;
        lm->generation.eos = lm->eos;
        lm->has_own_eos = from->has_own_eos;
        lm->of_gguf = from->of_gguf, lm->has_tokens = from->has_tokens;
        lm->tokenizer = from->tokenizer, lm->has_tokenizer = from->has_tokenizer;
        memcpy(lm->sampling, from->sampling, sizeof lm->sampling);
        lm->not_followed = from->not_followed;
        cti_lm_texts_clone(from->context, &from->drawn, &lm->drawn);
        sentence_copy(from, lm);
    } else {
        cti_lm_config_free(&config);
    }
    return lm;
}

const ct_module_type cti_lm_type = {
    .name = "LanguageModel", .describe = lm_describe, .clone = lm_clone, .end = lm_end};

bool cti_lm_is_ready(ct_context *context) {
    ct_status status = CT_ERR_ARGUMENT;
    if (context) cti_pending_error(context, &status);
    return status == CT_OK;
}

cti_lm *cti_lm_of(const ct_module *module) {
    return module ? ct_module_data(module, &cti_lm_type) : NULL;
}

const char *cti_lm_path(const cti_lm *lm, const char *part, char out[CTI_LM_PATH]) {
    const bool bare = lm->config.head->kind == CT_LM_HEAD_NONE;
    snprintf(out, CTI_LM_PATH, "%s%s%s", bare ? "" : lm->config.family->names.base, bare ? "" : ".",
             part);
    return out;
}

ct_module *cti_lm_first_layer(const cti_lm *lm) {
    char path[CTI_LM_PATH];
    const ct_module *list =
        ct_module_child(lm->module, cti_lm_path(lm, lm->config.family->names.layers, path));
    return list ? cti_nn_first_child(list) : NULL;
}

bool cti_lm_note_parameters(cti_lm *lm) {
    ct_param counted = {0}, param = {0};
    if (lm->known) cti_give_any(lm->context, lm->known, known_bytes(lm));
    lm->n_known = 0;
    while (ct_module_next(lm->module, &counted)) lm->n_known++;
    cti_lm_known *known = lm->known = cti_take_any(lm->context, known_bytes(lm));
    for (; known && ct_module_next(lm->module, &param); known++) {
        snprintf(known->name, sizeof known->name, "%s", param.name);
        known->shape = ct_shape_of(param.tensor);
    }
    return lm->known;
}

ct_module *cti_lm_build(ct_context *context, cti_lm_config *config, ct_lm_opts opts,
                        const char *folder, const cti_lm_style *style) {
    cti_lm *lm = lm_data_new(context, config, opts.ignore_unknown, folder);
    ct_module *root = lm ? ct_module_new_of(context, &cti_lm_type, lm) : NULL;
    if (!root) {
        if (lm) lm_end(lm);
        else cti_lm_config_free(config);
        return NULL;
    }
    lm->module = root;
    builder b = {
        .config = &lm->config,
        .context = context,
        .matrices = opts.dtype,
        .others = opts.dtype == CT_F64 ? CT_F64 : CT_F32,
        .recompute = opts.recompute,
        .style = style,
    };
    const bool bare = config->head->kind == CT_LM_HEAD_NONE;
    ct_module *base = root;
    if (!bare)
        base = cti_nn_add_at(root, config->family->names.base, ct_module_new(context, "Model"));
    base_model_add(&b, base);
    if (!bare) head_add(&b, root);
    if (cti_lm_is_ready(context)) cti_lm_note_parameters(lm);
    if (cti_lm_is_ready(context)) return root;
    ct_module_free(root);
    return NULL;
}
