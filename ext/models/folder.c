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

static const char open_name[] = "lm_open", new_name[] = "lm_new";

/* ---- names ---- */

/* Patterns of tensors in files that nothing needs: in files of masked language models the heads of
 * BERT's pretraining, and in all old files masks, tables and positions that are computed now. */
enum { ONLY_MASKED = 2 }; /* the number of patterns that only masked language models skip */
static const char *const skipped[] = {"*pooler.dense.*",
                                      "cls.seq_relationship.*",
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
static bool weight_names_read(const cti_lm_config *config, const cti_shards *weights,
                              const char *path, cti_lm_style *style) {
    const cti_lm_names *names = &config->family->names;
    char head[CTI_LM_PATH];
    const size_t base = strlen(names->base);
    const int64_t layers = cti_lm_integer(config, CTI_LM_LAYERS);
    snprintf(head, sizeof head, "%s.weight", names->old_head ? names->old_head : "");
    *style = (cti_lm_style){0};
    for (int64_t i = 0; i < weights->tensors; i++) {
        const char *name = weights->tensor[i]->name.at;
        style->prefixed |= !strncmp(name, names->base, base) && name[base] == '.';
        style->gamma |= strstr(name, "LayerNorm.gamma") != NULL;
        style->old_head |= names->old_head && !strcmp(name, head);
    }
    return layers <= weights->tensors ||
           ct_fail(config->context, CT_ERR_FORMAT,
                   "%s: %s: %" PRId64 " layers, but the weights are %" PRId64 " tensors", open_name,
                   path, layers, weights->tensors);
}

static bool file_has_transposed(const cti_lm *lm, const char *name) {
    const cti_nn_layer_names *layer = &lm->config.family->names.layer;
    const char *const parts[][2] = {{layer->attention[0], layer->mha.qkv},
                                    {layer->attention[0], layer->mha.out},
                                    {layer->feed_forward, layer->feed.in},
                                    {layer->feed_forward, layer->feed.out}};
    if (!lm->config.family->transposed) return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char end[CTI_LM_PATH];
        snprintf(end, sizeof end, ".%s.%s.weight", parts[i][0], parts[i][1]);
        const size_t n = strlen(name), m = strlen(end);
        if (n > m && !strcmp(name + n - m, end)) return true;
    }
    return false;
}

/* Writes the name that a file of this style has for a parameter. */
static void file_name(const cti_lm *lm, const cti_lm_style *style, const char *name,
                      char out[CTI_LM_PATH]) {
    const cti_lm_names *names = &lm->config.family->names;
    const bool bare = lm->config.head == CTI_LM_HEAD_BARE;
    const size_t base = strlen(names->base);
    const bool in_base = bare || (!strncmp(name, names->base, base) && name[base] == '.');
    const char *stem = in_base && !bare ? name + base + 1 : name;
    snprintf(out, CTI_LM_PATH, "%s%s%s", in_base && style->prefixed ? names->base : "",
             in_base && style->prefixed ? "." : "", stem);
    char *norm = style->gamma ? strstr(out, "LayerNorm.") : NULL;
    if (norm)
        strcpy(norm + strlen("LayerNorm."),
               !strcmp(norm, "LayerNorm.weight") ? "gamma" : "beta"); /* not longer */
    const size_t head = names->head ? strlen(names->head) : 0;
    if (style->old_head && !strncmp(name, names->head, head) && name[head] == '.')
        snprintf(out, CTI_LM_PATH, "%s%s", names->old_head, name + head);
}

static int64_t parameters_count(const cti_lm *lm) {
    ct_param param = {0};
    int64_t n = 0;
    while (ct_module_next(lm->module, &param)) n++;
    return n;
}

bool cti_lm_map_new(const cti_lm *lm, const cti_lm_style *style, cti_lm_map *map) {
    *map = (cti_lm_map){.room = parameters_count(lm)};
    map->entry = cti_take_any(lm->context, cti_bytes(map->room + 1, sizeof *map->entry));
    map->text = cti_take_any(lm->context, cti_bytes(map->room + 1, sizeof *map->text));
    if (!map->entry || !map->text) {
        cti_lm_map_free(lm, map);
        return false;
    }
    ct_param param = {0};
    while (ct_module_next(lm->module, &param) && map->n < map->room) {
        cti_lm_pair *text = &map->text[map->n];
        snprintf(text->param, sizeof text->param, "%s", param.name);
        file_name(lm, style, param.name, text->file);
        const bool transposed = file_has_transposed(lm, param.name);
        if (!transposed && !strcmp(text->param, text->file)) continue;
        map->entry[map->n++] =
            (ct_load_map){.param = text->param, .file = text->file, .transposed = transposed};
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

static bool weights_load(const cti_lm *lm, const cti_shards *weights, const cti_lm_style *style) {
    cti_lm_map map;
    if (!cti_lm_map_new(lm, style, &map)) return false;
    const bool masked = lm->config.head == CTI_LM_HEAD_MASKED;
    const bool ok = cti_nn_load(lm->module, weights,
                                (ct_load_opts){.map = map.n ? map.entry : NULL,
                                               .n_map = map.n,
                                               .in_place = true,
                                               .ignore = masked ? skipped : skipped + ONLY_MASKED});
    cti_lm_map_free(lm, &map);
    return ok;
}

/* ---- opening and making ---- */

static bool lm_check_opts(ct_context *context, const char *op, const void *text,
                          const ct_lm_opts *opts) {
    if (!cti_lm_is_ready(context)) return false;
    if (!text) return ct_fail(context, CT_ERR_ARGUMENT, "%s: the text is NULL", op);
    if (opts->dtype == CT_F32 || opts->dtype == CT_F64 || opts->dtype == CT_BF16) return true;
    return ct_fail(context, CT_ERR_DTYPE, "%s: the dtype must be f32, f64 or bf16", op);
}

/* Makes the model of a configuration, which this takes, and reads its weights. */
static ct_module *lm_open_weights(cti_lm_config *config, const cti_shards *weights,
                                  const char *folder, const char *path, ct_lm_opts opts) {
    cti_lm_style style;
    if (!weight_names_read(config, weights, path, &style)) {
        cti_lm_config_free(config);
        return NULL;
    }
    ct_module *module = cti_lm_build(config->context, config, opts, folder);
    if (!module) return NULL;
    ct_module_train(module, false);
    cti_lm *lm = cti_lm_of(module);
    if (weights_load(lm, weights, &style) && cti_lm_update_text(lm) &&
        cti_lm_read_generation(lm, open_name))
        return module;
    ct_module_free(module);
    return NULL;
}

static ct_module *lm_open_folder(ct_context *context, const char *folder, const char *path,
                                 ct_lm_opts opts) {
    size_t size;
    cti_lm_config config;
    cti_shards weights;
    char *text = cti_lm_read_file(context, open_name, path, &size);
    if (!text) return NULL;
    const bool ok = cti_lm_config_read(context, open_name, path, (cti_text){text, size},
                                       opts.ignore_unknown, &config);
    cti_give_any(context, text, size + 1);
    if (!ok) return NULL;
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
    if (!cti_lm_config_read(context, new_name, "the text", cti_text_of(config_json),
                            opts.ignore_unknown, &config))
        return NULL;
    ct_module *module = cti_lm_build(context, &config, opts, NULL);
    cti_lm *lm = module ? cti_lm_of(module) : NULL;
    if (!lm) return NULL;
    if (cti_lm_initialise(lm) && cti_lm_update_text(lm) && cti_lm_read_generation(lm, new_name))
        return module;
    ct_module_free(module);
    return NULL;
}

/* ---- facts ---- */

ct_lm_info ct_lm_about(const ct_module *module) {
    const cti_lm *lm = cti_lm_of(module);
    if (!lm) return (ct_lm_info){.bos = -1, .pad = -1};
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
        .max_length = cti_lm_integer(config, CTI_LM_MAX_LENGTH),
        .causal = !config->family->bidirectional,
        .bos = config->bos,
        .pad = config->pad,
        .eos = config->eos,
        .n_eos = config->n_eos,
    };
}
