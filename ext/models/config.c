/* The reading of config.json: architecture, numbers, layers, tokens of the model. */
#include "config.h"

#include <cotangent/autograd.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/core/message.h"

/* ---- numbers ---- */

static const struct {
    const char *name;
    ct_activation activation;
} activation_names[] = {
    {"relu", CT_RELU},
    {"gelu", CT_GELU},
    {"gelu_python", CT_GELU},
    {"gelu_new", CT_GELU_TANH},
    {"gelu_pytorch_tanh", CT_GELU_TANH},
    {"gelu_fast", CT_GELU_TANH},
    {"gelu_python_tanh", CT_GELU_TANH},
    {"silu", CT_SILU},
    {"swish", CT_SILU},
    {"leaky_relu", CT_LEAKY_RELU},
    {"relu2", CT_RELU_SQUARED},
    {"quick_gelu", CT_QUICK_GELU},
};

static bool activation_read(const cti_lm_reader *reader, const cti_lm_key *row, cti_json_at value) {
    const cti_text name = cti_json_text(reader->tree, value);
    if (reader->tree->value[value].kind == CTI_JSON_STRING)
        for (size_t i = 0; i < sizeof activation_names / sizeof *activation_names; i++)
            if (!cti_text_compare(cti_text_of(activation_names[i].name), name)) {
                reader->config->number[row->number] = activation_names[i].activation;
                return true;
            }
    return cti_lm_refuse(reader, row->key, value, "an activation that is not supported");
}

/* Sizes stay small enough for their products to be computed without an overflow of i64. */
#define MOST_SIZE ((int64_t)1 << 31)

static bool config_number(const cti_lm_reader *reader, const cti_lm_key *row, cti_json_at value) {
    double number = 0;
    int64_t whole = 0;
    const char *wanted = NULL;
    switch (row->kind) {
    case CTI_LM_SIZE:
    case CTI_LM_COUNT: {
        const bool natural = cti_json_whole(reader->tree, value, &whole) ||
                             (cti_json_real(reader->tree, value, &number) && number >= 0 &&
                              number < (double)MOST_SIZE && number == floor(number));
        if (natural && !whole) whole = (int64_t)number;
        if (!natural || whole < (row->kind == CTI_LM_SIZE) || whole >= MOST_SIZE)
            wanted = row->kind == CTI_LM_SIZE ? "not an integer of at least 1 and below 2^31"
                                              : "not an integer of at least 0 and below 2^31";
        number = (double)whole;
        break;
    }
    case CTI_LM_REAL:
        if (!cti_json_real(reader->tree, value, &number) || !(number >= 0) || isinf(number))
            wanted = "not a finite number of at least 0";
        break;
    case CTI_LM_POSITIVE:
        if (!cti_json_real(reader->tree, value, &number) || !(number > 0) || isinf(number))
            wanted = "not a finite number above 0";
        break;
    case CTI_LM_RATE:
        if (!cti_json_real(reader->tree, value, &number) || !(number >= 0 && number < 1))
            wanted = "not a number in [0, 1)";
        break;
    case CTI_LM_FLAG:
        number = reader->tree->value[value].kind == CTI_JSON_TRUE;
        if (number == 0 && reader->tree->value[value].kind != CTI_JSON_FALSE)
            wanted = "neither true nor false";
        break;
    case CTI_LM_IS_ROPE:
        number = reader->tree->value[value].kind == CTI_JSON_STRING &&
                 !cti_text_compare(cti_json_text(reader->tree, value), cti_text_of("rope"));
        break;
    case CTI_LM_NAME: return activation_read(reader, row, value);
    default: return true; /* it has no number */
    }
    if (wanted) return cti_lm_refuse(reader, row->key, value, "%s", wanted);
    reader->config->number[row->number] = number;
    return true;
}

static bool has_number(const cti_lm_key *row) { return row->kind <= CTI_LM_NAME; }

static bool config_numbers(const cti_lm_reader *reader) {
    double *number = reader->config->number;
    for (int i = 0; i < CTI_LM_NUMBERS; i++) number[i] = CTI_LM_ABSENT;
    for (const cti_lm_key *row = reader->config->family->keys; row->key; row++) {
        const cti_json_at value = cti_json_member(reader->tree, 0, row->key);
        const bool is_null = value && reader->tree->value[value].kind == CTI_JSON_NULL;
        if (!has_number(row)) continue;
        if (is_null && row->null == CTI_LM_NULL_REFUSED)
            return cti_lm_refuse(reader, row->key, value, "a value is needed");
        if (!value || (is_null && row->null == CTI_LM_NULL_DEFAULT)) {
            if (row->value != CTI_LM_ABSENT) number[row->number] = row->value;
        } else if (is_null) {
            continue;
        } else if (!config_number(reader, row, value)) {
            return false;
        }
    }
    return true;
}

/* Gives numbers that follow from others their values, and checks that sizes fit each other. */
static bool numbers_complete(const cti_lm_reader *reader) {
    cti_lm_config *config = reader->config;
    double *number = config->number;
    const cti_lm_family *family = config->family;
    const int64_t width = cti_lm_integer(config, CTI_LM_WIDTH),
                  heads = cti_lm_integer(config, CTI_LM_HEADS);
    if (number[CTI_LM_KV_HEADS] < 0) number[CTI_LM_KV_HEADS] = number[CTI_LM_HEADS];
    config->has_head_dim = number[CTI_LM_HEAD_DIM] >= 0;
    if (!config->has_head_dim) {
        if (width % heads)
            return ct_fail(reader->context, CT_ERR_FORMAT,
                           "%s: %s: a width of %" PRId64 " is no multiple of %" PRId64 " heads",
                           reader->op, reader->path, width, heads);
        const int64_t head_dim = width / heads;
        number[CTI_LM_HEAD_DIM] = (double)head_dim;
    }
    if (family->names.layer.mha.interleaved &&
        cti_lm_integer(config, CTI_LM_HEAD_DIM) * heads != width)
        return cti_lm_refuse(reader, "head_dim", cti_json_member(reader->tree, 0, "head_dim"),
                             "in %s it must be the width divided by the number of heads",
                             family->model_type);
    if (number[CTI_LM_BOTH_WAYS] > 0) {
        config->family = cti_lm_family_both_ways(family);
        config->head = cti_lm_head_of(config->family, config->head->kind);
    }
    if (number[CTI_LM_EXPERTS] > 0)
        return cti_lm_refuse(reader, "num_local_experts",
                             cti_json_member(reader->tree, 0, "num_local_experts"),
                             "experts are not supported; only 0 is");
    if (heads % cti_lm_integer(config, CTI_LM_KV_HEADS))
        return ct_fail(reader->context, CT_ERR_FORMAT,
                       "%s: %s: %" PRId64 " heads are no multiple of %" PRId64 " key heads",
                       reader->op, reader->path, heads, cti_lm_integer(config, CTI_LM_KV_HEADS));
    if (number[CTI_LM_HIDDEN] < 0) number[CTI_LM_HIDDEN] = 4 * number[CTI_LM_WIDTH];
    if (number[CTI_LM_ATTENTION_BIAS] < 0) number[CTI_LM_ATTENTION_BIAS] = 0;
    if (number[CTI_LM_MLP_BIAS] < 0) number[CTI_LM_MLP_BIAS] = 0;
    if (number[CTI_LM_ATTENTION_DROPOUT] < 0) number[CTI_LM_ATTENTION_DROPOUT] = 0;
    if (number[CTI_LM_DROPOUT] < 0) number[CTI_LM_DROPOUT] = 0;
    if (number[CTI_LM_EMBEDDING_DROPOUT] < 0)
        number[CTI_LM_EMBEDDING_DROPOUT] = number[CTI_LM_DROPOUT];
    if (number[CTI_LM_CLASS_DROPOUT] < 0) number[CTI_LM_CLASS_DROPOUT] = number[CTI_LM_DROPOUT];
    if (number[CTI_LM_EPS] < 0) number[CTI_LM_EPS] = family->eps;
    if (number[CTI_LM_EMBED_SCALE] < 0)
        number[CTI_LM_EMBED_SCALE] = family->embed_scaled ? sqrt(number[CTI_LM_WIDTH]) : 1;
    if (number[CTI_LM_RESIDUAL_SCALE] < 0) number[CTI_LM_RESIDUAL_SCALE] = 1;
    if (number[CTI_LM_LOGITS_DIVISOR] < 0) number[CTI_LM_LOGITS_DIVISOR] = 1;
    config->activation = (ct_activation)number[CTI_LM_ACTIVATION];
    return true;
}

/* ---- layers ---- */

static const char layer_types_key[] = "layer_types", old_types_key[] = "layers_block_type";

/* Whether layer i has a window by `layer_types`, if the file has this key. */
static bool type_of_layer(const cti_lm_reader *reader, cti_json_at types, int64_t i,
                          bool *sliding) {
    cti_json_at at = cti_json_first(reader->tree, types);
    for (int64_t k = 0; at && k < i; k++) at = reader->tree->value[at].next;
    const cti_text name = at && reader->tree->value[at].kind == CTI_JSON_STRING
                              ? cti_json_text(reader->tree, at)
                              : (cti_text){"", 0};
    *sliding = !cti_text_compare(name, cti_text_of("sliding_attention"));
    if (*sliding || !cti_text_compare(name, cti_text_of("full_attention")) ||
        !cti_text_compare(name, cti_text_of("attention")))
        return true;
    return cti_lm_refuse(reader, layer_types_key, at ? at : types,
                         "layer %" PRId64 " is neither full_attention nor sliding_attention", i);
}

/* Whether layer i turns queries and keys: by no_rope_layers of SmolLM3, or by its interval. */
static bool layer_has_rope(const cti_lm_reader *reader, cti_json_at list, int64_t i, bool *has) {
    const cti_lm_config *config = reader->config;
    if (!list) {
        const double interval = config->number[CTI_LM_ROPE_PATTERN];
        *has = interval < 0 || (i + 1) % (int64_t)interval != 0;
        return true;
    }
    cti_json_at at = cti_json_first(reader->tree, list);
    for (int64_t k = 0; at && k < i; k++) at = reader->tree->value[at].next;
    int64_t flag = -1;
    if (at && cti_json_whole(reader->tree, at, &flag) && flag <= 1) {
        *has = flag == 1;
        return true;
    }
    return cti_lm_refuse(reader, "no_rope_layers", at ? at : list,
                         "layer %" PRId64 " has neither 0 nor 1", i);
}

/* Whether layer i has a window if the file has no layer_types. */
static bool default_sliding(const cti_lm_config *config, int64_t i, bool has_rope) {
    const double *number = config->number;
    if (number[CTI_LM_PATTERN] > 0) return (i + 1) % (int64_t)number[CTI_LM_PATTERN] != 0;
    if (number[CTI_LM_FULL_LAYERS] >= 0) return i >= (int64_t)number[CTI_LM_FULL_LAYERS];
    if (number[CTI_LM_ROPE_PATTERN] > 0) return !has_rope;
    return true;
}

/* A list with one value for each layer; 0 if it is absent or null. */
static bool list_of_layers(const cti_lm_reader *reader, const char *key, cti_json_at *list) {
    *list = cti_json_member(reader->tree, 0, key);
    if (*list && reader->tree->value[*list].kind == CTI_JSON_NULL) *list = 0;
    if (!*list) return true;
    const cti_json_value *value = &reader->tree->value[*list];
    if (value->kind == CTI_JSON_ARRAY &&
        value->count == cti_lm_integer(reader->config, CTI_LM_LAYERS))
        return true;
    return cti_lm_refuse(reader, key, *list,
                         "not a list with one value for each of %" PRId64 " layers",
                         cti_lm_integer(reader->config, CTI_LM_LAYERS));
}

/* The types of layers, which some families have under another name too. */
static bool list_of_types(const cti_lm_reader *reader, cti_json_at *types) {
    const cti_lm_family *family = reader->config->family;
    cti_json_at old = 0;
    if (!list_of_layers(reader, layer_types_key, types) ||
        (cti_lm_key_of(family, cti_text_of(old_types_key)) &&
         !list_of_layers(reader, old_types_key, &old)))
        return false;
    if (old) *types = old;
    return *types || !family->needs_types ||
           cti_lm_refuse(reader, layer_types_key, 0,
                         "without it all layers of %s are Mamba layers, which are not supported",
                         family->model_type);
}

static double scale_of_layer(const cti_lm_config *config, int64_t i) {
    const double *number = config->number;
    if (number[CTI_LM_SCORE_SCALE] > 0) return number[CTI_LM_SCORE_SCALE];
    if (number[CTI_LM_QUERY_SCALAR] > 0) return 1 / sqrt(number[CTI_LM_QUERY_SCALAR]);
    const double scale = number[CTI_LM_SCALED] == 0 ? 1 : 1 / sqrt(number[CTI_LM_HEAD_DIM]);
    return number[CTI_LM_SCALED_LAYER] > 0 ? scale / (double)(i + 1) : scale;
}

static bool config_layers_read(const cti_lm_reader *reader) {
    cti_lm_config *config = reader->config;
    const int64_t n = cti_lm_integer(config, CTI_LM_LAYERS);
    const cti_lm_family *family = config->family;
    const double in_file = config->number[CTI_LM_WINDOW],
                 window = family->bidirectional && in_file > 0 ? floor(in_file / 2) + 1 : in_file;
    cti_json_at types = 0, ropes = 0;
    const bool has_types =
        cti_lm_key_of(family, cti_text_of(layer_types_key))->kind == CTI_LM_BY_NAME;
    if ((has_types && !list_of_types(reader, &types)) ||
        (config->number[CTI_LM_ROPE_PATTERN] > 0 &&
         !list_of_layers(reader, "no_rope_layers", &ropes)))
        return false;
    const bool windows = window > 0 && (config->number[CTI_LM_USE_WINDOW] != 0 ||
                                        (types && family->window_by_types));
    config->layer = cti_take_any(reader->context, cti_bytes(n ? n : 1, sizeof *config->layer));
    if (!config->layer) return false;
    for (int64_t i = 0; i < n; i++) {
        bool sliding, has_rope = true;
        if (!layer_has_rope(reader, ropes, i, &has_rope)) return false;
        sliding = default_sliding(config, i, has_rope);
        if (types && !type_of_layer(reader, types, i, &sliding)) return false;
        if (types && sliding && !windows)
            return cti_lm_refuse(reader, layer_types_key, types,
                                 "layer %" PRId64 " is sliding_attention, but there is no window",
                                 i);
        config->layer[i] = (cti_lm_layer){
            .window = windows && (sliding || family->one_window) ? (int64_t)window : 0,
            .rope = !has_rope || family->partial == 0 || config->number[CTI_LM_ROPED] == 0 ? -1
                    : sliding && family->local_base > 0                                    ? 1
                                                                                           : 0,
            .scale = scale_of_layer(config, i),
        };
    }
    return true;
}

/* ---- tokens ---- */

/* A token's id, or null; an absent key has the default of the class. */
static bool config_token_read(const cti_lm_reader *reader, const char *key, int64_t *id) {
    const cti_json_at value = cti_json_member(reader->tree, 0, key);
    const cti_lm_key *row =
        reader->config ? cti_lm_key_of(reader->config->family, cti_text_of(key)) : NULL;
    *id = !value && row && row->value < reader->config->number[CTI_LM_VOCAB] ? (int64_t)row->value
                                                                             : -1;
    if (!value || reader->tree->value[value].kind == CTI_JSON_NULL) return true;
    double number;
    if (cti_json_whole(reader->tree, value, id)) return true;
    if (cti_json_real(reader->tree, value, &number) && number == -1) return true;
    return cti_lm_refuse(reader, key, value, "not an id");
}

bool cti_lm_read_ids(const cti_lm_reader *reader, const char *key, int64_t *ids, int64_t *n) {
    const cti_json_at value = cti_json_member(reader->tree, 0, key);
    *n = 0;
    if (!value || reader->tree->value[value].kind != CTI_JSON_ARRAY) {
        const bool ok = config_token_read(reader, key, &ids[0]);
        *n = ids[0] >= 0;
        return ok;
    }
    for (cti_json_at i = cti_json_first(reader->tree, value); i; i = reader->tree->value[i].next)
        if (*n == CTI_LM_MOST_EOS || !cti_json_whole(reader->tree, i, &ids[(*n)++]))
            return cti_lm_refuse(reader, key, value, "not a list of at most %d ids",
                                 CTI_LM_MOST_EOS);
    return true;
}

/* ---- the whole ---- */

static bool config_family_read(const cti_lm_reader *reader) {
    const cti_json_at type = cti_json_member(reader->tree, 0, "model_type");
    if (reader->tree->value[0].kind != CTI_JSON_OBJECT)
        return ct_fail(reader->context, CT_ERR_FORMAT, "%s: %s: not a JSON object", reader->op,
                       reader->path);
    reader->config->family = type && reader->tree->value[type].kind == CTI_JSON_STRING
                                 ? cti_lm_family_of(cti_json_text(reader->tree, type))
                                 : NULL;
    if (reader->config->family) return true;
    /* a model of several modalities has the config of its text model inside */
    const cti_json_at part = cti_json_member(reader->tree, 0, "text_config"),
                      inner = part ? cti_json_member(reader->tree, part, "model_type") : 0;
    if (inner && reader->tree->value[inner].kind == CTI_JSON_STRING &&
        cti_lm_family_of(cti_json_text(reader->tree, inner)))
        return cti_lm_refuse(reader, "model_type", type,
                             "a model of several modalities; only its text model, of the family "
                             "%s, can be opened, from a folder of its own",
                             cti_lm_family_of(cti_json_text(reader->tree, inner))->model_type);
    char names[200];
    cti_lm_family_names(names, sizeof names);
    return cti_lm_refuse(reader, "model_type", type, "the families are %s", names);
}

/* The format of the weights is read from the files; the key must only be a name that exists. */
static bool config_format_check(const cti_lm_reader *reader, const char *key) {
    static const char *const names[] = {"float32", "float16", "bfloat16", "float64",
                                        "auto",    "float",   "half",     "double"};
    const cti_json_at value = cti_json_member(reader->tree, 0, key);
    if (!value || reader->tree->value[value].kind == CTI_JSON_NULL) return true;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (reader->tree->value[value].kind == CTI_JSON_STRING &&
            !cti_text_compare(cti_json_text(reader->tree, value), cti_text_of(names[i])))
            return true;
    return cti_lm_refuse(reader, key, value, "not a format of floats");
}

/* Whether a family whose positions begin behind pad_token_id has this id, and a position. */
static bool config_padding_check(const cti_lm_reader *reader) {
    const cti_lm_config *config = reader->config;
    return !config->family->behind_padding ||
           (config->pad >= 0 && cti_lm_most_tokens(config) > 0) ||
           cti_lm_refuse(reader, "pad_token_id", cti_json_member(reader->tree, 0, "pad_token_id"),
                         "positions begin behind it, and there are %" PRId64,
                         cti_lm_integer(config, CTI_LM_MAX_LENGTH));
}

static bool config_read_whole(const cti_lm_reader *reader, const ct_lm_opts *opts) {
    return config_family_read(reader) && cti_lm_check_keys(reader) &&
           cti_lm_head_read(reader, opts) && config_format_check(reader, "dtype") &&
           config_format_check(reader, "torch_dtype") && config_numbers(reader) &&
           numbers_complete(reader) && config_layers_read(reader) && cti_lm_read_ropes(reader) &&
           cti_lm_labels_read(reader, opts) &&
           config_token_read(reader, "bos_token_id", &reader->config->bos) &&
           config_token_read(reader, "pad_token_id", &reader->config->pad) &&
           config_padding_check(reader) &&
           cti_lm_read_ids(reader, "eos_token_id", reader->config->eos, &reader->config->n_eos);
}

static char *text_copy(ct_context *context, cti_text text) {
    char *copy = cti_take_any(context, text.size + 1);
    if (!copy) return NULL;
    memcpy(copy, text.at, text.size);
    copy[text.size] = 0;
    return copy;
}

bool cti_lm_config_read(ct_context *context, const char *op, const char *path, cti_text text,
                        const ct_lm_opts *opts, cti_lm_config *config) {
    *config = (cti_lm_config){.context = context, .text_size = text.size};
    config->text = text_copy(context, text);
    char *parsed = config->text ? text_copy(context, text) : NULL;
    cti_json_tree tree;
    bool ok = parsed && cti_json_tree_read(context, op, path, parsed, text.size, &tree);
    if (ok) {
        const cti_lm_reader reader = {.context = context,
                                      .op = op,
                                      .path = path,
                                      .tree = &tree,
                                      .config = config,
                                      .ignore_unknown = opts->ignore_unknown};
        ok = config_read_whole(&reader, opts);
        cti_json_tree_free(&tree);
    }
    if (parsed) cti_give_any(context, parsed, text.size + 1);
    if (!ok) cti_lm_config_free(config);
    return ok;
}

static void *config_block(ct_context *context, const void *block, size_t size) {
    void *copy = cti_take_any(context, size);
    if (copy) memcpy(copy, block, size);
    return copy;
}

static size_t layers_bytes(const cti_lm_config *config) {
    const int64_t n = cti_lm_integer(config, CTI_LM_LAYERS);
    return cti_bytes(n ? n : 1, sizeof *config->layer);
}

bool cti_lm_config_copy(const cti_lm_config *from, cti_lm_config *to) {
    ct_context *context = from->context;
    *to = *from;
    to->layer = config_block(context, from->layer, layers_bytes(from));
    to->text = text_copy(context, (cti_text){from->text, from->text_size});
    bool ok = cti_lm_texts_clone(context, &from->labels, &to->labels) && to->layer && to->text;
    for (int i = 0; i < from->ropes; i++) {
        to->frequencies[i] = config_block(context, from->frequencies[i],
                                          cti_bytes(from->rope_dims[i] / 2, sizeof(double)));
        ok = ok && to->frequencies[i];
    }
    if (!ok) cti_lm_config_free(to);
    return ok;
}

void cti_lm_config_free(cti_lm_config *config) {
    ct_context *context = config->context;
    if (config->layer) cti_give_any(context, config->layer, layers_bytes(config));
    if (config->text) cti_give_any(context, config->text, config->text_size + 1);
    for (int i = 0; i < config->ropes; i++)
        if (config->frequencies[i])
            cti_give_any(context, config->frequencies[i],
                         cti_bytes(config->rope_dims[i] / 2, sizeof(double)));
    cti_lm_texts_free(context, &config->labels);
    config->layer = NULL, config->text = NULL, config->ropes = 0;
}
