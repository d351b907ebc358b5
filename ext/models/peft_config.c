/* PEFT's adapter_config.json. Only its reading is here; lora_files.c writes one. */
#include "peft_config.h"

#include <cotangent/autograd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "folder.h"

/* Keys of PEFT that change no value, or that are read. */
static const char *const peft_keys[] = {
    "peft_type",      "task_type",           "base_model_name_or_path",
    "revision",       "inference_mode",      "r",
    "lora_alpha",     "lora_dropout",        "target_modules",
    "fan_in_fan_out", "auto_mapping",        "peft_version",
    "megatron_core",  "qalora_group_size",   "exclude_modules",
    "layers_pattern", "layers_to_transform", "init_lora_weights",
    "runtime_config", "ensure_weight_tying", NULL};

static bool is_peft_key(cti_text key) {
    for (const char *const *name = peft_keys; *name; name++)
        if (!cti_text_compare(cti_text_of(*name), key)) return true;
    return false;
}

static bool is_off(const cti_json_tree *tree, cti_json_at value) {
    const cti_json_value *v = &tree->value[value];
    return v->kind == CTI_JSON_NULL || v->kind == CTI_JSON_FALSE ||
           ((v->kind == CTI_JSON_ARRAY || v->kind == CTI_JSON_OBJECT) && v->count == 0) ||
           (v->kind == CTI_JSON_STRING &&
            !cti_text_compare(cti_json_text(tree, value), cti_text_of("none")));
}

static bool read_peft_options(const cti_lm_reader *reader, ct_lora_opts *opts) {
    const cti_json_tree *tree = reader->tree;
    if (tree->value[0].kind != CTI_JSON_OBJECT)
        return ct_fail(reader->context, CT_ERR_FORMAT, "%s: %s: not a JSON object", reader->op,
                       reader->path);
    const cti_json_at type = cti_json_member(tree, 0, "peft_type");
    if (!type || cti_text_compare(cti_json_text(tree, type), cti_text_of("LORA")))
        return cti_lm_refuse(reader, "peft_type", type, "only LORA is supported");
    for (cti_json_at i = cti_json_first(tree, 0); i; i = tree->value[i].next) {
        const cti_text key = cti_json_key_of(tree, i);
        char name[64];
        snprintf(name, sizeof name, "%.*s", key.size < 60 ? (int)key.size : 60, key.at);
        if (!is_peft_key(key) && !is_off(tree, i))
            return cti_lm_refuse(reader, name, i, "not supported");
    }
    const cti_json_at init = cti_json_member(tree, 0, "init_lora_weights");
    if (init && tree->value[init].kind == CTI_JSON_STRING &&
        cti_text_compare(cti_json_text(tree, init), cti_text_of("gaussian")))
        return cti_lm_refuse(reader, "init_lora_weights", init,
                             "an initialisation that changes the base model");
    const cti_json_at r = cti_json_member(tree, 0, "r"),
                      alpha = cti_json_member(tree, 0, "lora_alpha"),
                      dropout = cti_json_member(tree, 0, "lora_dropout");
    *opts = (ct_lora_opts){.rank = 8, .alpha = 8};
    if (r && (!cti_json_whole(tree, r, &opts->rank) || opts->rank < 1 || opts->rank >= INT32_MAX))
        return cti_lm_refuse(reader, "r", r, "not a rank");
    if (alpha && !cti_json_real(tree, alpha, &opts->alpha))
        return cti_lm_refuse(reader, "lora_alpha", alpha, "not a number");
    if (dropout && (!cti_json_real(tree, dropout, &opts->dropout) ||
                    !(opts->dropout >= 0 && opts->dropout < 1)))
        return cti_lm_refuse(reader, "lora_dropout", dropout, "not a number in [0, 1)");
    return true;
}

bool cti_peft_config_read(ct_context *context, const char *op, const char *path,
                          cti_peft_config *config) {
    size_t size;
    *config = (cti_peft_config){.text = cti_lm_read_file(context, op, path, &size)};
    if (!config->text) return false;
    config->room = size + 1;
    config->reader = (cti_lm_reader){.context = context, .op = op, .path = path};
    if (cti_json_tree_read(context, op, path, config->text, size, &config->tree)) {
        config->reader.tree = &config->tree;
        if (read_peft_options(&config->reader, &config->opts)) return true;
        cti_json_tree_free(&config->tree);
    }
    cti_give_any(context, config->text, config->room);
    return false;
}

void cti_peft_config_free(cti_peft_config *config) {
    cti_json_tree_free(&config->tree);
    cti_give_any(config->reader.context, config->text, config->room);
}

/* ---- the Linears that are adapted ---- */

/* Whether a list of names has this one or its end behind a point. */
static bool is_listed(const cti_json_tree *tree, cti_json_at list, const char *linear) {
    const size_t n = strlen(linear);
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next) {
        const cti_text name = cti_json_text(tree, i);
        if (name.size > n || memcmp(linear + n - name.size, name.at, name.size)) continue;
        if (name.size == n || linear[n - name.size - 1] == '.') return true;
    }
    return false;
}

/* The number in a name, such as 3 in "model.layers.3.mlp.up_proj"; -1 if there is none. */
static int64_t layer_of(const char *linear) {
    for (const char *at = strchr(linear, '.'); at; at = strchr(at + 1, '.')) {
        char *end;
        const long long layer = strtoll(at + 1, &end, 10);
        if (end > at + 1 && *end == '.') return layer;
    }
    return -1;
}

/* Whether layers_to_transform, a number or a list of numbers, has the layer. */
static bool is_transformed(const cti_json_tree *tree, cti_json_at layers, int64_t layer) {
    int64_t one;
    if (tree->value[layers].kind != CTI_JSON_ARRAY)
        return cti_json_whole(tree, layers, &one) && one == layer;
    for (cti_json_at i = cti_json_first(tree, layers); i; i = tree->value[i].next)
        if (cti_json_whole(tree, i, &one) && one == layer) return true;
    return false;
}

bool cti_peft_config_adapts(const cti_peft_config *config, const char *linear) {
    const cti_json_tree *tree = &config->tree;
    const cti_json_at targets = cti_json_member(tree, 0, "target_modules"),
                      excluded = cti_json_member(tree, 0, "exclude_modules"),
                      layers = cti_json_member(tree, 0, "layers_to_transform");
    if (targets && tree->value[targets].kind == CTI_JSON_ARRAY && !is_listed(tree, targets, linear))
        return cti_lm_refuse(&config->reader, "target_modules", targets,
                             "the weights have an adapter of %s", linear);
    if (excluded && is_listed(tree, excluded, linear))
        return cti_lm_refuse(&config->reader, "exclude_modules", excluded,
                             "the weights have an adapter of %s", linear);
    if (layers && !is_off(tree, layers) && !is_transformed(tree, layers, layer_of(linear)))
        return cti_lm_refuse(&config->reader, "layers_to_transform", layers,
                             "the weights have an adapter of %s", linear);
    return true;
}
