/* The folder of a model: ct_lm_open and ct_lm_new, and the map between the names of a file and
 * the names of the tree. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../nn/load.h"
#include "../../src/core/memory.h"
#include "../../src/io/set.h"
#include "folder.h"
#include "lm_gguf.h"
#include "sentence_read.h"
#include "sentence_vector.h"

static const char open_name[] = "lm_open", new_name[] = "lm_new";

/* ---- names ---- */

/* Patterns of tensors in files that nothing needs: a pooler for a model that has none, in files of
 * masked language models the other head of BERT's pretraining, and in all old files masks, tables
 * and positions that are computed now. */
enum { ONLY_MASKED = 1 }; /* the number of patterns that only masked language models skip */
static const char pooler_skipped[] = "*pooler.dense.*";
static const char *const skipped[] = {"cls.seq_relationship.*",
                                      "*.attn.bias",
                                      "*.attn.masked_bias",
                                      "*.attention.bias",
                                      "*.attention.masked_bias",
                                      "*rotary_emb.inv_freq",
                                      "*embeddings.position_ids",
                                      "*embeddings.token_type_ids",
                                      NULL};

/* Reads the names of the weights: the style that they have, and whether there is a tensor at least
 * for each layer. A tree of more layers would be made in vain, for a long time if the number is a
 * large one. */
static bool weight_names_read(cti_lm_config *config, const cti_shards *weights, const char *path,
                              cti_lm_style *style) {
    const cti_lm_names *names = &config->family->names;
    char head[CTI_LM_PATH];
    const size_t base = strlen(names->base);
    const int64_t layers = cti_lm_integer(config, CTI_LM_LAYERS);
    snprintf(head, sizeof head, "%s.weight", names->old_head ? names->old_head : "");
    *style = (cti_lm_style){.file = weights, .gguf = weights->gguf ? weights : NULL};
    config->no_pooler = true;
    for (int64_t i = 0; i < weights->tensors; i++) {
        const char *name = weights->tensor[i]->name.at;
        style->prefixed |= !strncmp(name, names->base, base) && name[base] == '.';
        style->gamma |= strstr(name, "LayerNorm.gamma") != NULL;
        style->old_head |= names->old_head && !strcmp(name, head);
        if (names->pooler && strstr(name, names->pooler)) config->no_pooler = false;
    }
    return layers <= weights->tensors ||
           ct_fail(config->context, CT_ERR_FORMAT,
                   "%s: %s: %" PRId64 " layers, but the weights are %" PRId64 " tensors", open_name,
                   path, layers, weights->tensors);
}

bool cti_lm_file_has_transposed(const cti_lm *lm, const char *name) {
    const cti_nn_layer_names *layer = &lm->config.family->names.layer;
    const char *const parts[][2] = {{layer->attention[0], layer->mha.qkv},
                                    {layer->attention[0], layer->mha.out},
                                    {layer->feed_forward, layer->feed.in},
                                    {layer->feed_forward, layer->feed.out}};
    if (!lm->config.family->transposed) return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char end[CTI_LM_PATH];
        snprintf(end, sizeof end, ".%s.%s.weight", parts[i][0], parts[i][1]);
        if (cti_lm_ends_with(name, end)) return true;
    }
    return false;
}

/* Adds the entries of a parameter of which a GGUF file has two tensors, one behind the other. */
static void two_tensors_add(const ct_param *param, const cti_lm_gguf_param *file, cti_lm_map *map) {
    const int64_t rows = ct_shape_of(param->tensor).dim[0] / 2;
    for (int i = 0; i < 2; i++) {
        cti_lm_pair *text = &map->text[map->n];
        snprintf(text->param, sizeof text->param, "%s", param->name);
        snprintf(text->file, sizeof text->file, "%s", i ? file->second : file->name);
        map->entry[map->n++] = (ct_load_map){
            .param = text->param, .file = text->file, .param_start = i * rows, .rows = rows};
    }
}

/* Adds the second name of a head's bias, for a save of a model whose head is not tied. transformers
 * ties the two biases only if it ties the weights. Otherwise it draws the bias that a file lacks.
 */
static void second_bias_add(const cti_lm *lm, const ct_param *param, cti_lm_map *map) {
    const cti_lm_head *head = lm->config.head;
    char owner[CTI_LM_PATH];
    snprintf(owner, sizeof owner, "%s.bias", head->bias_owner ? head->bias_owner : "");
    if (strcmp(param->name, owner) || cti_lm_is_tied(lm)) return;
    for (int i = 0; i < 2; i++) {
        cti_lm_pair *text = &map->text[map->n];
        snprintf(text->param, sizeof text->param, "%s.bias", i ? head->linear : head->bias_owner);
        snprintf(text->file, sizeof text->file, "%s", text->param);
        map->entry[map->n++] = (ct_load_map){.param = text->param, .file = text->file};
    }
}

static int64_t parameters_count(const cti_lm *lm) {
    ct_param param = {0};
    int64_t n = 0;
    while (ct_module_next(lm->module, &param)) n++;
    return n;
}

bool cti_lm_map_new(const cti_lm *lm, const cti_lm_style *style, cti_lm_map *map) {
    *map = (cti_lm_map){.room = 2 * parameters_count(lm) + 2};
    map->entry = cti_take_any(lm->context, cti_bytes(map->room + 1, sizeof *map->entry));
    map->text = cti_take_any(lm->context, cti_bytes(map->room + 1, sizeof *map->text));
    if (!map->entry || !map->text) {
        cti_lm_map_free(lm, map);
        return false;
    }
    ct_param param = {0};
    while (ct_module_next(lm->module, &param) && map->n + 2 < map->room) {
        cti_lm_gguf_param of_gguf;
        if (cti_lm_is_of_dense(lm, param.name)) continue;
        if (style->gguf && cti_lm_gguf_param_of(&lm->config, param.name, &of_gguf) &&
            *of_gguf.second) {
            two_tensors_add(&param, &of_gguf, map);
            continue;
        }
        if (!style->file) second_bias_add(lm, &param, map);
        cti_lm_pair *text = &map->text[map->n];
        snprintf(text->param, sizeof text->param, "%s", param.name);
        cti_lm_file_name(&lm->config, style, param.name, text->file);
        ct_load_map entry = {.param = text->param, .file = text->file};
        if (!style->gguf) entry.transposed = cti_lm_file_has_transposed(lm, param.name);
        else if (cti_lm_gguf_fused(&lm->config, param.name, text->file, &entry.file_start) &&
                 cti_shards_find(style->gguf, cti_text_of(text->file)) >= 0)
            entry.rows = ct_shape_of(param.tensor).dim[0];
        else snprintf(text->file, sizeof text->file, "%s", param.name);
        if (entry.transposed || strcmp(text->param, text->file)) map->entry[map->n++] = entry;
    }
    return true;
}

void cti_lm_map_free(const cti_lm *lm, cti_lm_map *map) {
    if (map->entry)
        cti_give_any(lm->context, map->entry, cti_bytes(map->room + 1, sizeof *map->entry));
    if (map->text)
        cti_give_any(lm->context, map->text, cti_bytes(map->room + 1, sizeof *map->text));
    map->entry = NULL, map->text = NULL;
}

/* The name in the file of the bias that a module above the head shares with it, if the file has one
 * for each. transformers adds the head's own then. NULL: it has not. */
static const char *second_bias(const cti_lm *lm, const cti_lm_style *style) {
    const cti_lm_head *head = lm->config.head;
    char own[CTI_LM_PATH], owner[CTI_LM_PATH];
    if (!head->bias_owner) return NULL;
    snprintf(own, sizeof own, "%s.bias", head->linear);
    snprintf(owner, sizeof owner, "%s.bias", head->bias_owner);
    const int64_t at = cti_shards_find(style->file, cti_text_of(owner));
    return at >= 0 && cti_shards_find(style->file, cti_text_of(own)) >= 0
               ? style->file->tensor[at]->name.at
               : NULL;
}

/* Makes the list of names and patterns of tensors that the model leaves out, which ends with NULL,
 * in a block of *bytes. */
static const char **skipped_list(const cti_lm *lm, const cti_lm_style *style, size_t *bytes) {
    const cti_shards *file = style->file;
    const bool masked = lm->config.head->kind == CT_LM_HEAD_MASKED;
    int64_t n = 0;
    for (int64_t i = 0; i < file->tensors; i++)
        n += cti_lm_is_other_head(&lm->config, style, file->tensor[i]->name.at);
    const char *second = second_bias(lm, style);
    *bytes = cti_bytes(n, sizeof(char *)) + sizeof skipped + 2 * sizeof(char *);
    const char **list = cti_take_any(lm->context, *bytes), **at = list;
    if (!list) return NULL;
    for (int64_t i = 0; i < file->tensors; i++)
        if (cti_lm_is_other_head(&lm->config, style, file->tensor[i]->name.at))
            *at++ = file->tensor[i]->name.at;
    if (lm->config.family->names.pooler && !cti_lm_has_pooler(&lm->config)) *at++ = pooler_skipped;
    if (second) *at++ = second;
    memcpy(at, skipped + (masked ? 0 : ONLY_MASKED),
           sizeof skipped - (masked ? 0 : ONLY_MASKED * sizeof *skipped));
    return list;
}

static bool weights_load(const cti_lm *lm, const cti_shards *weights, const cti_lm_style *style) {
    cti_lm_map map;
    size_t bytes;
    if (!cti_lm_map_new(lm, style, &map)) return false;
    const char **ignore = skipped_list(lm, style, &bytes);
    const bool ok = ignore && cti_nn_load(lm->module, weights,
                                          (ct_load_opts){.map = map.n ? map.entry : NULL,
                                                         .n_map = map.n,
                                                         .in_place = true,
                                                         .ignore = ignore},
                                          lm->drawn.at, lm->drawn.n);
    if (ignore) cti_give_any(lm->context, ignore, bytes);
    cti_lm_map_free(lm, &map);
    return ok;
}

/* Makes the matrices CT_Q8_0 that would be CT_Q4_0, and are of other blocks in the file. Returns
 * how many there are, or -1 after an error. */
static int64_t other_blocks_keep(const cti_lm *lm, const cti_shards *weights) {
    ct_param param = {0};
    int64_t n = 0;
    while (ct_module_next(lm->module, &param)) {
        const int64_t at = ct_dtype_of(param.tensor) == CT_Q4_0
                               ? cti_shards_find(weights, cti_text_of(param.name))
                               : -1;
        if (at < 0) continue;
        const cti_file_dtype type = weights->tensor[at]->dtype;
        if (type == CTI_FILE_Q4_0 || cti_file_dtype_elements(type) == 1) continue;
        if (!ct_module_to(param.owner, CT_Q8_0)) return -1;
        n++;
    }
    return n;
}

/* The blocks of the file decide the dtype of each matrix. A matrix must have values when it is
 * converted, so a file of several kinds of blocks is read twice. */
static bool blocks_load(const cti_lm *lm, const cti_shards *weights, const cti_lm_style *style) {
    if (!weights_load(lm, weights, style)) return false;
    const int64_t n = weights->gguf ? other_blocks_keep(lm, weights) : 0;
    return n == 0 || (n > 0 && weights_load(lm, weights, style));
}

/* ---- opening and making ---- */

static bool lm_check_opts(ct_context *context, const char *op, const void *text,
                          const ct_lm_opts *opts) {
    if (!cti_lm_is_ready(context)) return false;
    if (!text) return ct_fail(context, CT_ERR_ARGUMENT, "%s: the text is NULL", op);
    if (!cti_lm_head_opts_check(context, op, opts)) return false;
    if ((unsigned)opts->dtype <= CT_Q4_0 && opts->dtype != CT_I64 && opts->dtype != CT_BOOL)
        return true;
    return ct_fail(context, CT_ERR_DTYPE, "%s: the dtype must be f32, f64, bf16, q8_0 or q4_0", op);
}

/* Makes the model of a configuration, which this takes, and reads its weights. */
static ct_module *lm_open_weights(cti_lm_config *config, const cti_shards *weights,
                                  const char *folder, const char *path, ct_lm_opts opts) {
    cti_lm_style style;
    if (!weight_names_read(config, weights, path, &style)) {
        cti_lm_config_free(config);
        return NULL;
    }
    ct_module *module = cti_lm_build(config->context, config, opts, folder, &style);
    if (!module) return NULL;
    ct_module_train(module, false);
    cti_lm *lm = cti_lm_of(module);
    lm->of_gguf = weights->gguf != NULL;
    lm->has_tokens = weights->gguf && cti_gguf_find(weights->gguf, "tokenizer.ggml.tokens");
    if (cti_lm_drawn_find(lm, &style) && blocks_load(lm, weights, &style) && cti_lm_draw(lm) &&
        cti_lm_update_text(lm) &&
        (!lm->of_gguf ||
         (cti_lm_gguf_sampling(lm, weights->gguf) && cti_lm_gguf_pooling(lm, weights->gguf))) &&
        cti_lm_read_generation(lm, open_name) && cti_lm_read_sentence(lm, open_name))
        return module;
    ct_module_free(module);
    return NULL;
}

/* Reads the config from a text, a block of size + 1 bytes, which ends. */
static bool lm_read_config(ct_context *context, const char *path, char *text, size_t size,
                           ct_lm_opts opts, cti_lm_config *config) {
    const bool ok =
        cti_lm_config_read(context, open_name, path, (cti_text){text, size}, &opts, config);
    cti_give_any(context, text, size + 1);
    return ok;
}

static ct_module *lm_open_gguf(ct_context *context, const char *path, ct_lm_opts opts) {
    size_t size;
    cti_lm_config config;
    cti_shards weights;
    ct_module *module = NULL;
    if (!cti_shards_open(context, open_name, path, &weights)) return NULL;
    char *text = cti_lm_gguf_text(&weights, &size);
    if (text && lm_read_config(context, path, text, size, opts, &config)) {
        if (cti_lm_gguf_rename(&config, &weights))
            module = lm_open_weights(&config, &weights, path, path, opts);
        else cti_lm_config_free(&config);
    }
    cti_shards_close(&weights);
    return module;
}

static ct_module *lm_open_folder(ct_context *context, const char *folder, const char *path,
                                 ct_lm_opts opts) {
    size_t size;
    cti_lm_config config;
    cti_shards weights;
    char *text = cti_lm_read_file(context, open_name, path, &size);
    if (!text || !lm_read_config(context, path, text, size, opts, &config)) return NULL;
    if (!cti_shards_open(context, "load", folder, &weights)) {
        cti_lm_config_free(&config);
        return NULL;
    }
    ct_module *module = lm_open_weights(&config, &weights, folder, path, opts);
    cti_shards_close(&weights);
    return module;
}

ct_module *ct_lm_open(ct_context *context, const char *folder, ct_lm_opts opts) {
    if (!lm_check_opts(context, open_name, folder, &opts)) return NULL;
    bool is_gguf;
    if (!cti_lm_gguf_is(context, open_name, folder, &is_gguf)) return NULL;
    if (is_gguf) return lm_open_gguf(context, folder, opts);
    char *path = cti_path_in(context, folder, "config.json");
    cti_set_reading reading = {
        .context = context, .op = open_name, .folder = folder, .head = {"config.json"}};
    ct_module *module = NULL;
    bool again = path != NULL;
    while (again && cti_set_read_begin(&reading)) {
        if (cti_lm_check_folder(context, open_name, folder))
            module = lm_open_folder(context, folder, path, opts);
        if (cti_set_read_end(&reading, module != NULL, &again)) break;
        ct_module_free(module);
        module = NULL;
    }
    cti_path_free(context, path);
    return module;
}

ct_module *ct_lm_new(ct_context *context, const char *config_json, ct_lm_opts opts) {
    if (!lm_check_opts(context, new_name, config_json, &opts)) return NULL;
    cti_lm_config config;
    if (!cti_lm_config_read(context, new_name, "the text", cti_text_of(config_json), &opts,
                            &config))
        return NULL;
    const ct_dtype dtype = opts.dtype;
    const bool blocks = dtype == CT_Q8_0 || dtype == CT_Q4_0; /* drawn in f32 */
    if (blocks) opts.dtype = CT_F32;
    ct_module *module = cti_lm_build(context, &config, opts, NULL, NULL);
    cti_lm *lm = module ? cti_lm_of(module) : NULL;
    if (!lm) return NULL;
    if (cti_lm_initialise(lm) && (!blocks || ct_module_to(module, dtype)) &&
        cti_lm_update_text(lm) && cti_lm_read_generation(lm, new_name))
        return module;
    ct_module_free(module);
    return NULL;
}

/* ---- facts ---- */

/* The dtype that holds the values of a file's matrices, or takes as much memory as they. */
static ct_dtype dtype_for(cti_file_dtype type) {
    switch (type) {
    case CTI_FILE_F16:
    case CTI_FILE_BF16: return CT_BF16;
    case CTI_FILE_Q4_0: return CT_Q4_0;
    default: return cti_file_dtype_elements(type) > 1 ? CT_Q8_0 : CT_F32;
    }
}

ct_dtype ct_lm_file_dtype(ct_context *context, const char *path) {
    static const char op[] = "lm_file_dtype";
    int64_t matrices[CTI_FILE_DTYPE_COUNT] = {0}, most = 0;
    cti_shards weights;
    ct_dtype dtype = CT_F32;
    if (!cti_lm_is_ready(context)) return dtype;
    if (!path) {
        ct_fail(context, CT_ERR_ARGUMENT, "%s: the path is NULL", op);
        return dtype;
    }
    if (!cti_shards_open(context, op, path, &weights)) return dtype;
    for (int64_t i = 0; i < weights.tensors; i++) {
        const cti_file_dtype type = weights.tensor[i]->dtype;
        if (weights.tensor[i]->ndim != 2 || ++matrices[type] <= most) continue;
        most = matrices[type];
        dtype = dtype_for(type);
    }
    cti_shards_close(&weights);
    return dtype;
}

ct_lm_info ct_lm_about(const ct_module *module) {
    const cti_lm *lm = cti_lm_of(module);
    if (!lm) return (ct_lm_info){.bos = -1, .pad = -1, .gguf_note = ""};
    const cti_lm_config *config = &lm->config;
    return (ct_lm_info){
        .family = config->family->model_type,
        .config = config->text,
        .vocab_size = cti_lm_integer(config, CTI_LM_VOCAB),
        .width = cti_lm_integer(config, CTI_LM_WIDTH),
        .layers = cti_lm_integer(config, CTI_LM_LAYERS),
        .heads = cti_lm_integer(config, CTI_LM_HEADS),
        .kv_heads = cti_lm_integer(config, CTI_LM_KV_HEADS),
        .head_dim = cti_lm_integer(config, CTI_LM_HEAD_DIM),
        .max_length =
            lm->sentence.max_length ? lm->sentence.max_length : cti_lm_most_tokens(config),
        .causal = !config->family->bidirectional,
        .bos = config->bos,
        .pad = config->pad,
        .eos = config->eos,
        .n_eos = config->n_eos,
        .gguf_note = cti_lm_gguf_note(lm),
        .head = config->head->kind,
        .labels = config->labels.n,
        .label_names = config->labels.at,
        .problem_type = cti_lm_problem_name(config->problem),
        .drawn = lm->drawn.at,
        .n_drawn = lm->drawn.n,
    };
}
