/* PEFT's adapter_config.json. Only its reading is here; lora_files.c writes one. */
#include "peft_config.h"

#include <cotangent/autograd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/core/message.h"
#include "../text/reading.h"
#include "../text/regex.h"
#include "folder.h"
#include "lora.h"

typedef enum {
    OF_READER,     /* it is read, below */
    WITHOUT_VALUE, /* it changes no value of an adapter that is loaded */
    IF_OFF,        /* refused, unless it is null, false, "none" or empty */
    IF_NULL        /* refused, unless it is null */
} peft_treatment;

/* The fields of PEFT's LoraConfig. A key that is not here is of another version, and must be off.
 */
static const struct {
    const char *key;
    peft_treatment treatment;
} peft_keys[] = {
    {"peft_type", OF_READER},
    {"r", OF_READER},
    {"lora_alpha", OF_READER},
    {"lora_dropout", OF_READER},
    {"target_modules", OF_READER},
    {"exclude_modules", OF_READER},
    {"layers_to_transform", OF_READER},
    {"layers_pattern", OF_READER},
    {"init_lora_weights", OF_READER},
    {"task_type", WITHOUT_VALUE},
    {"base_model_name_or_path", WITHOUT_VALUE},
    {"revision", WITHOUT_VALUE},
    {"inference_mode", WITHOUT_VALUE},
    {"fan_in_fan_out", WITHOUT_VALUE}, /* PEFT corrects it by the type of the module */
    {"auto_mapping", WITHOUT_VALUE},
    {"peft_version", WITHOUT_VALUE},
    {"megatron_core", WITHOUT_VALUE},
    {"qalora_group_size", WITHOUT_VALUE},
    {"runtime_config", WITHOUT_VALUE},
    {"ensure_weight_tying", OF_READER},
    {"loftq_config", WITHOUT_VALUE}, /* these belong to values of init_lora_weights */
    {"eva_config", WITHOUT_VALUE},
    {"corda_config", WITHOUT_VALUE},
    {"use_rslora", OF_READER},
    {"use_dora", OF_READER},
    {"use_qalora", IF_OFF},
    {"bias", IF_OFF},
    {"lora_bias", IF_OFF},
    {"modules_to_save", OF_READER},
    {"rank_pattern", OF_READER},
    {"alpha_pattern", OF_READER},
    {"target_parameters", IF_OFF},
    {"trainable_token_indices", IF_OFF},
    {"layer_replication", IF_OFF},
    {"megatron_config", IF_OFF},
    {"arrow_config", IF_NULL},
    {"alora_invocation_tokens", IF_NULL},
};

static peft_treatment treatment_of(cti_text key) {
    for (size_t i = 0; i < sizeof peft_keys / sizeof *peft_keys; i++)
        if (!cti_text_compare(cti_text_of(peft_keys[i].key), key)) return peft_keys[i].treatment;
    return IF_OFF;
}

static bool is_off(const cti_json_tree *tree, cti_json_at value) {
    const cti_json_value *v = &tree->value[value];
    return v->kind == CTI_JSON_NULL || v->kind == CTI_JSON_FALSE ||
           ((v->kind == CTI_JSON_ARRAY || v->kind == CTI_JSON_OBJECT) && v->count == 0) ||
           (v->kind == CTI_JSON_STRING &&
            !cti_text_compare(cti_json_text(tree, value), cti_text_of("none")));
}

static bool peft_keys_check(const cti_lm_reader *reader) {
    const cti_json_tree *tree = reader->tree;
    for (cti_json_at i = cti_json_first(tree, 0); i; i = tree->value[i].next) {
        const cti_text key = cti_json_key_of(tree, i);
        const peft_treatment treatment = treatment_of(key);
        char name[64];
        cti_text_shorten(name, sizeof name - 1, key.at, key.size);
        if ((treatment == IF_OFF && !is_off(tree, i)) ||
            (treatment == IF_NULL && tree->value[i].kind != CTI_JSON_NULL))
            return cti_lm_refuse(reader, name, i, "not supported");
    }
    return true;
}

static bool value_is(const cti_json_tree *tree, cti_json_at value, const char *text) {
    return tree->value[value].kind == CTI_JSON_STRING &&
           !cti_text_compare(cti_json_text(tree, value), cti_text_of(text));
}

/* The values that draw A and B only: what is loaded takes their place. With the others (pissa,
 * olora, corda, loftq) PEFT takes a part out of the base model's weights when it loads an adapter.
 */
static bool initialisation_check(const cti_lm_reader *reader) {
    const cti_json_tree *tree = reader->tree;
    const cti_json_at init = cti_json_member(tree, 0, "init_lora_weights");
    if (!init || tree->value[init].kind == CTI_JSON_TRUE || is_off(tree, init) ||
        value_is(tree, init, "gaussian") || value_is(tree, init, "eva") ||
        value_is(tree, init, "orthogonal"))
        return true;
    return cti_lm_refuse(reader, "init_lora_weights", init,
                         "an initialisation that changes the base model, or is not known");
}

static bool switch_read(const cti_lm_reader *reader, const char *key, bool *on) {
    const cti_json_at at = cti_json_member(reader->tree, 0, key);
    *on = at && reader->tree->value[at].kind == CTI_JSON_TRUE;
    return *on || !at || is_off(reader->tree, at) || cti_lm_refuse(reader, key, at, "not a bool");
}

static bool is_rank(const cti_json_tree *tree, cti_json_at at, int64_t *rank) {
    return cti_json_whole(tree, at, rank) && *rank >= 1 && *rank < INT32_MAX;
}

/* Whether the values of a pattern are ranks, or numbers. */
static bool pattern_check(const cti_lm_reader *reader, const char *key) {
    const cti_json_tree *tree = reader->tree;
    const cti_json_at pattern = cti_json_member(tree, 0, key);
    const bool ranks = *key == 'r';
    int64_t rank;
    double alpha;
    if (!pattern || is_off(tree, pattern)) return true;
    if (tree->value[pattern].kind != CTI_JSON_OBJECT)
        return cti_lm_refuse(reader, key, pattern, "not an object");
    for (cti_json_at i = cti_json_first(tree, pattern); i; i = tree->value[i].next)
        if (ranks ? !is_rank(tree, i, &rank) : !cti_json_real(tree, i, &alpha))
            return cti_lm_refuse(reader, key, i, ranks ? "not a rank" : "not a number");
    return true;
}

/* Whether modules_to_save is a list of names, or off. */
static bool modules_to_save_check(const cti_lm_reader *reader) {
    static const char key[] = "modules_to_save";
    const cti_json_tree *tree = reader->tree;
    const cti_json_at list = cti_json_member(tree, 0, key);
    if (!list || is_off(tree, list)) return true;
    bool ok = tree->value[list].kind == CTI_JSON_ARRAY;
    for (cti_json_at i = ok ? cti_json_first(tree, list) : 0; ok && i; i = tree->value[i].next)
        ok = tree->value[i].kind == CTI_JSON_STRING && cti_json_text(tree, i).size > 0;
    return ok || cti_lm_refuse(reader, key, list, "not a list of names");
}

/* PEFT ties the copy of a head if one of these names is in the list, and the head's is not. */
static bool ends_tie(const cti_lora_ends *ends) {
    bool embedding = false, head = false;
    for (int64_t i = 0; i < ends->n; i++) {
        embedding |= !cti_text_compare(ends->end[i], cti_text_of("embed_tokens"));
        head |= !cti_text_compare(ends->end[i], cti_text_of("lm_head"));
    }
    return embedding && !head;
}

bool cti_peft_config_save_make(const cti_peft_config *config, ct_module *module) {
    const cti_json_tree *tree = &config->tree;
    const cti_json_at list = config->text ? cti_json_member(tree, 0, "modules_to_save") : 0;
    if (!list || is_off(tree, list)) return true;
    cti_lora_ends ends = {.n = 0};
    const size_t size = cti_bytes(tree->value[list].count, sizeof(cti_text));
    cti_text *end = cti_take_any(config->reader.context, size);
    int64_t found;
    if (!end) return false;
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next)
        end[ends.n++] = cti_json_text(tree, i);
    ends.end = end;
    ends.tie = config->opts.ensure_weight_tying && ends_tie(&ends);
    const bool ok = cti_lora_save_make(module, config->reader.op, &ends, &found);
    cti_give_any(config->reader.context, end, size);
    return ok;
}

static bool peft_options_read(const cti_lm_reader *reader, ct_lora_opts *opts) {
    const cti_json_tree *tree = reader->tree;
    if (tree->value[0].kind != CTI_JSON_OBJECT)
        return ct_fail(reader->context, CT_ERR_FORMAT, "%s: %s: not a JSON object", reader->op,
                       reader->path);
    const cti_json_at type = cti_json_member(tree, 0, "peft_type");
    if (!type || !value_is(tree, type, "LORA"))
        return cti_lm_refuse(reader, "peft_type", type, "only LORA is supported");
    if (!peft_keys_check(reader) || !initialisation_check(reader)) return false;
    const cti_json_at r = cti_json_member(tree, 0, "r"),
                      alpha = cti_json_member(tree, 0, "lora_alpha"),
                      dropout = cti_json_member(tree, 0, "lora_dropout");
    *opts = (ct_lora_opts){.rank = 8, .alpha = 8};
    if (!switch_read(reader, "use_rslora", &opts->use_rslora) ||
        !switch_read(reader, "use_dora", &opts->use_dora) ||
        !switch_read(reader, "ensure_weight_tying", &opts->ensure_weight_tying) ||
        !modules_to_save_check(reader) || !pattern_check(reader, "rank_pattern") ||
        !pattern_check(reader, "alpha_pattern"))
        return false;
    if (r && !is_rank(tree, r, &opts->rank)) return cti_lm_refuse(reader, "r", r, "not a rank");
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
        if (peft_options_read(&config->reader, &config->opts)) return true;
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

/* Whether a list of names has this one, or its end behind a point. */
typedef enum { NOT_LISTED, LISTED_BY_END, LISTED_WHOLE } peft_listed;
static peft_listed listed_as(const cti_json_tree *tree, cti_json_at list, const char *linear) {
    const size_t n = strlen(linear);
    peft_listed listed = NOT_LISTED;
    for (cti_json_at i = cti_json_first(tree, list); i; i = tree->value[i].next) {
        const cti_text name = cti_json_text(tree, i);
        if (name.size > n || memcmp(linear + n - name.size, name.at, name.size)) continue;
        if (name.size == n) return LISTED_WHOLE;
        if (linear[n - name.size - 1] == '.') listed = LISTED_BY_END;
    }
    return listed;
}

/* Whether the whole of a name matches an expression, as Python's re.fullmatch says; `before` stands
 * in front of it, and messages name `value`. */
static bool matches_text(const cti_lm_reader *reader, const char *key, cti_json_at value,
                         const char *before, cti_text text, const char *linear, bool *matches) {
    ct_context *context = reader->context;
    const size_t size = text.size + strlen(before) + 16,
                 path_size = strlen(reader->path) + strlen(key) + 8;
    char *whole = cti_take_any(context, size + path_size);
    if (!whole) return false;
    const int n = snprintf(whole, size, "\\A%s(?:%.*s)\\z", before, (int)text.size, text.at);
    char *path = whole + size; /* with the key, for messages */
    snprintf(path, path_size, "%s: \"%s\"", reader->path, key);
    cti_arena arena = {.context = context};
    const cti_reading reading = {
        .context = context, .arena = &arena, .path = path, .tree = reader->tree, .op = reader->op};
    cti_pattern_memory memory = {0};
    cti_regex regex;
    cti_extent found;
    bool ok = cti_regex_compile(&reading, value, (cti_text){whole, (size_t)n}, &regex);
    if (ok) {
        const cti_find_result result =
            cti_regex_search(&regex, linear, strlen(linear), 0, &memory, &found);
        *matches = result == CTI_FOUND;
        ok = result != CTI_NO_MEMORY ||
             ct_fail(context, CT_ERR_MEMORY, "%s: no memory for an expression", reader->op);
        cti_pattern_memory_free(&memory);
    }
    cti_arena_free(&arena);
    cti_give_any(context, whole, size + path_size);
    return ok;
}

static bool matches_expression(const cti_lm_reader *reader, const char *key, cti_json_at value,
                               const char *linear, bool *matches) {
    return matches_text(reader, key, value, "", cti_json_text(reader->tree, value), linear,
                        matches);
}

/* Whether layers_pattern, a name or a list of names, has the name of this list of layers. Without a
 * layers_pattern every name does. */
static bool is_list_of_layers(const cti_json_tree *tree, cti_json_at patterns, cti_text name) {
    if (!patterns || is_off(tree, patterns)) return true;
    if (tree->value[patterns].kind != CTI_JSON_ARRAY)
        return !cti_text_compare(cti_json_text(tree, patterns), name);
    for (cti_json_at i = cti_json_first(tree, patterns); i; i = tree->value[i].next)
        if (!cti_text_compare(cti_json_text(tree, i), name)) return true;
    return false;
}

/* The number of the layer in a name as PEFT finds it: the last one behind the name of a list that
 * is not the first name, such as 3 in "model.layers.3.mlp.up_proj". -1: there is none. */
static int64_t layer_of(const cti_json_tree *tree, cti_json_at patterns, const char *linear) {
    int64_t layer = -1;
    for (const char *dot = strchr(linear, '.'); dot; dot = strchr(dot + 1, '.')) {
        const cti_text list = {dot + 1, strcspn(dot + 1, ".")};
        const char *number = list.at + list.size;
        if (*number == '.') number++;
        const size_t digits = strspn(number, "0123456789");
        if (digits && number[digits] == '.' && is_list_of_layers(tree, patterns, list))
            layer = strtoll(number, NULL, 10);
    }
    return layer;
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

static bool is_none(const cti_json_tree *tree, cti_json_at value) {
    return !value || tree->value[value].kind == CTI_JSON_NULL;
}

static bool is_head_of(const cti_lm *lm, const char *linear) {
    return lm && cti_lm_has_logits(lm) && !strcmp(linear, cti_lm_head_path(lm));
}

/* Whether PEFT adapts the Linear if target_modules are not given. */
static bool is_default_target(const cti_lm *lm, const char *linear) {
    const char *end = strrchr(linear, '.');
    for (int i = 0; i < 2 && lm && end; i++) {
        const char *target = lm->config.family->peft_targets[i];
        if (target && !strcmp(end + 1, target)) return true;
    }
    return !lm;
}

/* Whether target_modules has the Linear, and whether it has its whole name. */
static bool peft_target_find(const cti_lm_reader *reader, const cti_lm *lm, const char *linear,
                             bool *is_target, bool *is_whole) {
    static const char key[] = "target_modules";
    const cti_json_tree *tree = reader->tree;
    const cti_json_at targets = cti_json_member(tree, 0, key);
    *is_whole = false;
    if (is_none(tree, targets)) {
        *is_target = is_default_target(lm, linear);
    } else if (value_is(tree, targets, "all-linear")) {
        *is_target = !is_head_of(lm, linear);
    } else if (tree->value[targets].kind == CTI_JSON_STRING) {
        return matches_expression(reader, key, targets, linear, is_target);
    } else {
        const peft_listed listed = listed_as(tree, targets, linear);
        *is_target = listed != NOT_LISTED, *is_whole = listed == LISTED_WHOLE;
    }
    return true;
}

bool cti_peft_config_adapts(const cti_peft_config *config, const cti_lm *lm, const char *linear) {
    const cti_json_tree *tree = &config->tree;
    const cti_lm_reader *reader = &config->reader;
    const cti_json_at excluded = cti_json_member(tree, 0, "exclude_modules"),
                      layers = cti_json_member(tree, 0, "layers_to_transform"),
                      patterns = cti_json_member(tree, 0, "layers_pattern");
    const char *fault = NULL;
    bool is_target, is_whole, is_excluded = false;
    if (!peft_target_find(reader, lm, linear, &is_target, &is_whole)) return false;
    if (!is_target) fault = "target_modules";
    else if (!is_whole && !is_none(tree, layers) && !is_off(tree, layers) &&
             !is_transformed(tree, layers, layer_of(tree, patterns, linear)))
        fault = "layers_to_transform";
    if (!is_none(tree, excluded)) {
        if (tree->value[excluded].kind != CTI_JSON_STRING)
            is_excluded = listed_as(tree, excluded, linear) != NOT_LISTED;
        else if (!matches_expression(reader, "exclude_modules", excluded, linear, &is_excluded))
            return false;
    }
    if (!fault && is_excluded) fault = "exclude_modules";
    return !fault || cti_lm_refuse(reader, fault, cti_json_member(tree, 0, fault),
                                   "the weights have an adapter of %s", linear);
}

/* ---- ranks and alphas of single Linears ---- */

/* Finds the first key of a pattern that the end of a name matches; *found is 0 if there is none. */
static bool pattern_find(const cti_peft_config *config, const char *key, const char *linear,
                         cti_json_at *found) {
    const cti_json_tree *tree = &config->tree;
    const cti_json_at pattern = cti_json_member(tree, 0, key);
    *found = 0;
    if (!pattern || tree->value[pattern].kind != CTI_JSON_OBJECT) return true;
    for (cti_json_at i = cti_json_first(tree, pattern); i; i = tree->value[i].next) {
        bool matches;
        if (!matches_text(&config->reader, key, i, "(?:.*\\.)?", cti_json_key_of(tree, i), linear,
                          &matches))
            return false;
        if (!matches) continue;
        *found = i;
        return true;
    }
    return true;
}

bool cti_peft_config_opts(const cti_peft_config *config, const char *linear, ct_lora_opts *opts) {
    cti_json_at rank, alpha;
    *opts = config->opts;
    if (!pattern_find(config, "rank_pattern", linear, &rank) ||
        !pattern_find(config, "alpha_pattern", linear, &alpha))
        return false;
    if (rank) is_rank(&config->tree, rank, &opts->rank);
    if (alpha) cti_json_real(&config->tree, alpha, &opts->alpha);
    return true;
}
