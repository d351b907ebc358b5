/* The tree of a model: its modules and parameters, with the names of the family's state dict. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/assert.h"
#include "../../src/core/memory.h"
#include "../../src/core/message.h"
#include "../../nn/bare.h"
#include "lm.h"

/* ---- parts of the tree ---- */

/* A module that was made only to hold others, such as self_attn. */
typedef struct {
    const ct_module *owner;
    ct_module *module;
    char name[32];
} lm_group;

enum { LM_GROUPS = 16 };

/* The maker of parts. A call that fails leaves an error of the context, and later calls do
 * nothing. */
typedef struct {
    const cti_lm_config *config;
    ct_context *context;
    ct_dtype matrices, others;
    ct_module *owner;          /* the module to which paths are relative */
    lm_group group[LM_GROUPS]; /* the groups below `owner` so far */
    int groups;
} builder;

static void build_in(builder *b, ct_module *owner) {
    b->owner = owner;
    b->groups = 0;
}

/* Adds a child, which is freed if it cannot be added. */
static ct_module *lm_add_child(ct_module *owner, const char *name, ct_module *child) {
    ct_module *added = ct_module_add_child(owner, name, child);
    if (!added) ct_module_free(child);
    return added;
}

static ct_module *lm_group_of(builder *b, ct_module *owner, const char *name, size_t size) {
    for (int i = 0; i < b->groups; i++)
        if (b->group[i].owner == owner && strlen(b->group[i].name) == size &&
            !memcmp(b->group[i].name, name, size))
            return b->group[i].module;
    CTI_ASSERT(b->groups < LM_GROUPS && size < sizeof b->group->name);
    lm_group *group = &b->group[b->groups++];
    snprintf(group->name, sizeof group->name, "%.*s", (int)size, name);
    group->owner = owner;
    group->module = lm_add_child(owner, group->name, ct_module_new(b->context, "Group"));
    return group->module;
}

/* Adds a module at a path below the owner, in groups that are made if they are missing. */
static ct_module *add_at(builder *b, const char *path, ct_module *module) {
    ct_module *owner = b->owner;
    for (const char *dot = strchr(path, '.'); dot && owner; dot = strchr(path, '.')) {
        owner = lm_group_of(b, owner, path, (size_t)(dot - path));
        path = dot + 1;
    }
    return lm_add_child(owner, path, module);
}

static void lm_add_param(builder *b, ct_module *module, const char *name, ct_dtype dtype,
                         ct_shape shape) {
    ct_scope scope = ct_scope_open(b->context);
    ct_module_add_param(module, name, ct_empty(b->context, dtype, shape));
    ct_scope_close(scope);
}

static void lm_add_linear(builder *b, const char *path, int64_t out, int64_t in, bool bias) {
    if (!path) return;
    const ct_linear_opts opts = {.in_features = in, .out_features = out, .no_bias = !bias};
    ct_module *linear = add_at(b, path, cti_nn_linear_bare(b->context, opts));
    lm_add_param(b, linear, "weight", b->matrices, CT_SHAPE(out, in));
    if (bias) lm_add_param(b, linear, "bias", b->others, CT_SHAPE(out));
}

static void lm_add_norm(builder *b, const char *path, int64_t width) {
    if (!path) return;
    const cti_lm_family *family = b->config->family;
    const double eps = b->config->number[CTI_LM_EPS];
    const ct_rms_norm_opts rms = {.dim = width, .eps = eps, .offset = family->norm_offset};
    const ct_layer_norm_opts layer = {.dim = width, .eps = eps};
    ct_module *norm = add_at(b, path,
                             family->rms ? cti_nn_rms_norm_bare(b->context, rms)
                                         : cti_nn_layer_norm_bare(b->context, layer));
    lm_add_param(b, norm, "weight", b->others, CT_SHAPE(width));
    if (!family->rms) lm_add_param(b, norm, "bias", b->others, CT_SHAPE(width));
}

static void lm_add_embedding(builder *b, const char *path, int64_t rows, int64_t width) {
    if (!path) return;
    const ct_embedding_opts opts = {.num_embeddings = rows, .embedding_dim = width};
    ct_module *table = add_at(b, path, cti_nn_embedding_bare(b->context, opts));
    lm_add_param(b, table, "weight", b->matrices, CT_SHAPE(rows, width));
}

/* ---- layers, the base, heads ---- */

bool cti_lm_has_qkv_bias(const cti_lm_config *config) {
    return config->family->qkv_bias || config->number[CTI_LM_ATTENTION_BIAS] > 0;
}

bool cti_lm_has_pooler(const cti_lm_config *config) {
    return !config->family->causal &&
           (config->head == CTI_LM_HEAD_BARE || config->head == CTI_LM_HEAD_CLASSES);
}

static void add_layer(builder *b, ct_module *list_owner, const char *list) {
    const cti_lm_config *config = b->config;
    const cti_lm_names *names = &config->family->names;
    const int64_t width = cti_lm_integer(config, CTI_LM_WIDTH),
                  hidden = cti_lm_integer(config, CTI_LM_HIDDEN),
                  d = cti_lm_integer(config, CTI_LM_HEAD_DIM),
                  all = cti_lm_integer(config, CTI_LM_HEADS) * d,
                  kv = cti_lm_integer(config, CTI_LM_KV_HEADS) * d;
    const bool qkv_bias = cti_lm_has_qkv_bias(config),
               o_bias = config->family->o_bias || config->number[CTI_LM_ATTENTION_BIAS] > 0,
               mlp_bias = config->family->up_bias || config->number[CTI_LM_MLP_BIAS] > 0;
    ct_module *layer = ct_module_new(b->context, "Layer");
    if (!ct_module_append(list_owner, list, layer)) {
        ct_module_free(layer);
        layer = NULL;
    }
    build_in(b, layer);
    lm_add_norm(b, names->norm1, width);
    lm_add_linear(b, names->qkv, all + 2 * kv, width, qkv_bias);
    lm_add_linear(b, names->q, all, width, qkv_bias);
    lm_add_linear(b, names->k, kv, width, qkv_bias);
    lm_add_linear(b, names->v, kv, width, qkv_bias);
    lm_add_norm(b, names->q_norm, config->family->wide_qk_norm ? all : d);
    lm_add_norm(b, names->k_norm, config->family->wide_qk_norm ? kv : d);
    lm_add_linear(b, names->o, width, all, o_bias);
    lm_add_norm(b, names->norm1_out, width);
    lm_add_norm(b, names->norm2, width);
    lm_add_linear(b, names->gate, hidden, width, mlp_bias);
    lm_add_linear(b, names->up, hidden, width, mlp_bias);
    lm_add_linear(b, names->down, width, hidden, mlp_bias);
    lm_add_norm(b, names->norm2_out, width);
}

static void add_base(builder *b, ct_module *base) {
    const cti_lm_config *config = b->config;
    const cti_lm_names *names = &config->family->names;
    const int64_t width = cti_lm_integer(config, CTI_LM_WIDTH);
    build_in(b, base);
    lm_add_embedding(b, names->embed, cti_lm_integer(config, CTI_LM_VOCAB), width);
    lm_add_embedding(b, names->positions, cti_lm_integer(config, CTI_LM_MAX_LENGTH), width);
    lm_add_embedding(b, names->types, cti_lm_integer(config, CTI_LM_TYPES), width);
    lm_add_norm(b, names->embed_norm, width);
    const char *dot = strrchr(names->layers, '.');
    ct_module *owner =
        dot ? lm_group_of(b, base, names->layers, (size_t)(dot - names->layers)) : base;
    for (int64_t i = 0; i < cti_lm_integer(config, CTI_LM_LAYERS); i++)
        add_layer(b, owner, dot ? dot + 1 : names->layers);
    build_in(b, base);
    lm_add_norm(b, names->norm, width);
    if (cti_lm_has_pooler(config)) lm_add_linear(b, "pooler.dense", width, width, true);
}

/* Adds the head; a tied head has the embedding's parameter. */
static void add_head(builder *b, ct_module *root) {
    const cti_lm_config *config = b->config;
    const cti_lm_names *names = &config->family->names;
    const int64_t width = cti_lm_integer(config, CTI_LM_WIDTH),
                  vocab = cti_lm_integer(config, CTI_LM_VOCAB);
    const bool masked = config->head == CTI_LM_HEAD_MASKED;
    char embedding[CTI_LM_PATH];
    snprintf(embedding, sizeof embedding, "%s.%s.weight", names->base, names->embed);
    build_in(b, root);
    if (config->head == CTI_LM_HEAD_CLASSES) {
        lm_add_linear(b, "classifier", config->labels, width, true);
        return;
    }
    if (masked) {
        lm_add_linear(b, "cls.predictions.transform.dense", width, width, true);
        lm_add_norm(b, "cls.predictions.transform.LayerNorm", width);
    }
    const ct_linear_opts opts = {.in_features = width, .out_features = vocab, .no_bias = !masked};
    ct_module *head = add_at(b, masked ? "cls.predictions.decoder" : names->head,
                             cti_nn_linear_bare(b->context, opts));
    if (config->number[CTI_LM_TIED] > 0)
        ct_module_add_param(head, "weight", ct_module_get(root, embedding));
    else lm_add_param(b, head, "weight", b->matrices, CT_SHAPE(vocab, width));
    if (!masked) return;
    lm_add_param(b, head, "bias", b->others, CT_SHAPE(vocab));
    ct_module_add_param(ct_module_child(root, "cls.predictions"), "bias",
                        ct_module_get(head, "bias"));
}

/* ---- the root ---- */

static size_t steps_bytes(const cti_lm *lm) {
    const int64_t n = cti_lm_integer(&lm->config, CTI_LM_LAYERS);
    return cti_bytes(n ? n : 1, sizeof *lm->step);
}

static size_t known_bytes(const cti_lm *lm) { return cti_bytes(lm->n_known, sizeof *lm->known); }

static void lm_end(void *data) {
    cti_lm *lm = data;
    ct_context *context = lm->context;
    if (lm->step) cti_give_any(context, lm->step, steps_bytes(lm));
    if (lm->folder) cti_give_any(context, lm->folder, strlen(lm->folder) + 1);
    if (lm->known) cti_give_any(context, lm->known, known_bytes(lm));
    cti_lm_config_free(&lm->config);
    cti_give_any(context, lm, sizeof *lm);
}

static void lm_describe(const void *data, FILE *file) {
    const cti_lm *lm = data;
    fprintf(file, "%s, %" PRId64 " layers", lm->config.family->model_type,
            cti_lm_integer(&lm->config, CTI_LM_LAYERS));
}

/* The data of a root that has no module yet. *config is moved into it; NULL: it stays. */
static cti_lm *lm_data_new(ct_context *context, cti_lm_config *config, ct_lm_opts opts,
                           const char *folder) {
    cti_lm *lm = cti_take_any(context, sizeof *lm);
    if (!lm) return NULL;
    *lm = (cti_lm){.context = context,
                   .config = *config,
                   .recompute = opts.recompute,
                   .ignore_unknown = opts.ignore_unknown};
    lm->step = cti_take_any(context, steps_bytes(lm));
    lm->folder = folder ? cti_take_string(context, folder) : NULL;
    if (lm->step && (lm->folder || !folder)) {
        for (int64_t i = 0; i < cti_lm_integer(config, CTI_LM_LAYERS); i++)
            lm->step[i] = (cti_lm_step){.lm = lm, .layer = i};
        memcpy(lm->eos, config->eos, sizeof lm->eos);
        lm->generation = (ct_generate_opts){.eos = lm->eos, .n_eos = config->n_eos};
        return lm;
    }
    if (lm->step) cti_give_any(context, lm->step, steps_bytes(lm));
    if (lm->folder) cti_give_any(context, lm->folder, strlen(lm->folder) + 1);
    cti_give_any(context, lm, sizeof *lm);
    return NULL;
}

static void *lm_clone(void *data, ct_module *copy) {
    const cti_lm *from = data;
    cti_lm_config config;
    const ct_lm_opts opts = {.recompute = from->recompute, .ignore_unknown = from->ignore_unknown};
    if (!cti_lm_config_copy(&from->config, &config)) return NULL;
    cti_lm *lm = lm_data_new(from->context, &config, opts, from->folder);
    if (lm) {
        lm->module = copy;
        lm->n_known = from->n_known;
        lm->known = cti_take_any(from->context, known_bytes(lm));
        if (lm->known) memcpy(lm->known, from->known, known_bytes(lm));
        memcpy(lm->eos, from->eos, sizeof lm->eos);
        lm->generation = from->generation;
        lm->generation.eos = lm->eos;
        lm->has_own_eos = from->has_own_eos;
        lm->not_followed = from->not_followed;
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

const char *cti_lm_path(const cti_lm *lm, int64_t layer, const char *part, char out[CTI_LM_PATH]) {
    const cti_lm_names *names = &lm->config.family->names;
    const bool bare = lm->config.head == CTI_LM_HEAD_BARE;
    const char *base = bare ? "" : names->base, *dot = bare ? "" : ".";
    if (layer < 0) snprintf(out, CTI_LM_PATH, "%s%s%s", base, dot, part);
    else snprintf(out, CTI_LM_PATH, "%s%s%s.%" PRId64 ".%s", base, dot, names->layers, layer, part);
    return out;
}

/* Writes down which parameters the family has, before a program can replace a module. */
static void note_parameters(cti_lm *lm) {
    ct_param counted = {0}, param = {0};
    while (ct_module_next(lm->module, &counted)) lm->n_known++;
    cti_lm_known *known = lm->known = cti_take_any(lm->context, known_bytes(lm));
    for (; known && ct_module_next(lm->module, &param); known++) {
        snprintf(known->name, sizeof known->name, "%s", param.name);
        known->shape = ct_shape_of(param.tensor);
    }
}

ct_module *cti_lm_build(ct_context *context, cti_lm_config *config, ct_lm_opts opts,
                        const char *folder) {
    cti_lm *lm = lm_data_new(context, config, opts, folder);
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
    };
    const bool bare = config->head == CTI_LM_HEAD_BARE;
    ct_module *base = root;
    if (!bare)
        base = lm_add_child(root, config->family->names.base, ct_module_new(context, "Model"));
    add_base(&b, base);
    if (!bare) add_head(&b, root);
    if (cti_lm_is_ready(context)) note_parameters(lm);
    if (cti_lm_is_ready(context)) return root;
    ct_module_free(root);
    return NULL;
}
