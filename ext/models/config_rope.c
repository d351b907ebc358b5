/* The frequencies of rotary positions by config.json, in both dialects: rope_theta and rope_scaling
 * at the top level, or rope_parameters, which Gemma 3 has for each type of layer. */
#include "config.h"

#include <cotangent/autograd.h>
#include <cotangent/ops.h>

#include <math.h>

#include "../../src/core/memory.h"

/* An object of options, and the key under which config.json has it. */
typedef struct {
    const cti_lm_reader *reader;
    const char *key;
    cti_json_at object; /* 0: there is none */
} rope_source;

/* Reads a number of the object, and if it is absent the number `outer` of the top level, unless
 * `outer` is NULL. */
static bool rope_number(const rope_source *source, const char *key, const char *outer,
                        double *out) {
    const cti_json_tree *tree = source->reader->tree;
    cti_json_at value = source->object ? cti_json_member(tree, source->object, key) : 0;
    if (!value && outer) value = cti_json_member(tree, 0, outer);
    if (!value || tree->value[value].kind == CTI_JSON_NULL) return true;
    if (cti_json_real(tree, value, out) && *out > 0 && !isinf(*out)) return true;
    return cti_lm_refuse(source->reader, key, value, "not a finite number above 0");
}

static const struct {
    const char *name;
    ct_rope_scaling kind;
    const char *keys[8]; /* the keys that only this kind has */
} rope_types[] = {
    {"default", CT_ROPE_DEFAULT, {NULL}},
    {"linear", CT_ROPE_LINEAR, {"factor"}},
    {"llama3",
     CT_ROPE_LLAMA3,
     {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
    {"yarn",
     CT_ROPE_YARN,
     {"factor", "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim",
      "truncate", "original_max_position_embeddings"}},
};
enum { ROPE_TYPES = sizeof rope_types / sizeof *rope_types };

/* The kind of the object; -1 after an error. */
static int rope_kind_of(const rope_source *source) {
    const cti_json_tree *tree = source->reader->tree;
    if (!source->object) return 0;
    cti_json_at type = cti_json_member(tree, source->object, "rope_type");
    if (!type) type = cti_json_member(tree, source->object, "type");
    if (!type) return 0;
    if (tree->value[type].kind == CTI_JSON_STRING)
        for (int i = 0; i < ROPE_TYPES; i++)
            if (!cti_text_compare(cti_json_text(tree, type), cti_text_of(rope_types[i].name)))
                return i;
    cti_lm_refuse(source->reader, "rope_type", type,
                  "the kinds are default, linear, llama3 and yarn; others depend on the length of "
                  "the sequence or are not known");
    return -1;
}

static bool check_rope_keys(const rope_source *source, int kind) {
    static const char *const all[] = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
    const cti_json_tree *tree = source->reader->tree;
    if (!source->object) return true;
    for (cti_json_at i = cti_json_first(tree, source->object); i; i = tree->value[i].next) {
        const cti_text key = cti_json_key_of(tree, i);
        bool known = tree->value[i].kind == CTI_JSON_NULL;
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            known |= !cti_text_compare(key, cti_text_of(all[k]));
        for (int k = 0; k < 8 && rope_types[kind].keys[k]; k++)
            known |= !cti_text_compare(key, cti_text_of(rope_types[kind].keys[k]));
        if (!known)
            return cti_lm_refuse(source->reader, source->key, i,
                                 "its option \"%.*s\" is not one of the kind %s",
                                 key.size < 60 ? (int)key.size : 60, key.at, rope_types[kind].name);
    }
    return true;
}

static bool rope_options(const rope_source *source, int kind, ct_rope_scaling_opts *opts) {
    const cti_json_tree *tree = source->reader->tree;
    double original = 0;
    opts->kind = rope_types[kind].kind;
    if (opts->kind == CT_ROPE_DEFAULT) return true;
    if (!rope_number(source, "factor", NULL, &opts->factor)) return false;
    if (opts->factor == 0)
        return cti_lm_refuse(source->reader, source->key, source->object, "a factor is needed");
    if (opts->kind == CT_ROPE_LINEAR) return true;
    if (!rope_number(source, "original_max_position_embeddings", NULL, &original)) return false;
    if (original == 0) original = source->reader->config->number[CTI_LM_MAX_LENGTH];
    opts->original_length = original < 1e15 ? (int64_t)original : INT64_MAX;
    if (opts->kind == CT_ROPE_LLAMA3)
        return rope_number(source, "low_freq_factor", NULL, &opts->low) &&
               rope_number(source, "high_freq_factor", NULL, &opts->high);
    const cti_json_at truncate = cti_json_member(tree, source->object, "truncate");
    opts->no_truncate = truncate && tree->value[truncate].kind == CTI_JSON_FALSE;
    if (opts->no_truncate && source->reader->config->family->local_base != 0)
        return cti_lm_refuse(source->reader, "truncate", truncate,
                             "transformers does not read it in options for a type of layer");
    return rope_number(source, "beta_slow", NULL, &opts->low) &&
           rope_number(source, "beta_fast", NULL, &opts->high) &&
           rope_number(source, "attention_factor", NULL, &opts->attention_factor) &&
           rope_number(source, "mscale", NULL, &opts->mscale) &&
           rope_number(source, "mscale_all_dim", NULL, &opts->mscale_all_dim);
}

/* The names of GPT-NeoX at the top level for rope_theta and partial_rotary_factor. */
static const char rotary_base[] = "rotary_emb_base", rotary_part[] = "rotary_pct";
static bool has_rotary_names(const cti_lm_family *family) { return family->partial < 1; }

/* Refuses a key of the top level that transformers does not read in such a family, unless another
 * key has the number. */
static bool check_rotary_name(const rope_source *source, const char *key, const char *name) {
    const cti_json_tree *tree = source->reader->tree;
    const cti_json_at value = cti_json_member(tree, 0, key);
    if (!value || tree->value[value].kind == CTI_JSON_NULL || cti_json_member(tree, 0, name) ||
        (source->object && cti_json_member(tree, source->object, key)))
        return true;
    return cti_lm_refuse(source->reader, key, value, "%s has it as %s, or in rope_parameters",
                         source->reader->config->family->model_type, name);
}

/* Reads the frequencies number `config->ropes` from an object; `outer` is the key of the base at
 * the top level. */
static bool read_rope(const rope_source *source, const char *outer, double base) {
    cti_lm_config *config = source->reader->config;
    ct_context *context = source->reader->context;
    double partial = config->family->partial;
    const int kind = rope_kind_of(source);
    if (kind < 0 || !check_rope_keys(source, kind)) return false;
    const bool rotary = has_rotary_names(config->family);
    if (rotary && (!check_rotary_name(source, "rope_theta", rotary_base) ||
                   !check_rotary_name(source, "partial_rotary_factor", rotary_part)))
        return false;
    const char *part = rotary ? rotary_part : "partial_rotary_factor"; /* at the top level */
    if (!rope_number(source, "rope_theta", rotary ? rotary_base : outer, &base) ||
        !rope_number(source, "partial_rotary_factor", part, &partial))
        return false;
    const int64_t head_dim = cti_lm_integer(config, CTI_LM_HEAD_DIM),
                  dims = (int64_t)((double)head_dim * partial);
    if (dims < 2 || dims > head_dim || dims % 2 || (config->family->partial == 1 && partial != 1))
        return cti_lm_refuse(source->reader, part, cti_json_member(source->reader->tree, 0, part),
                             "%lld of the %lld dims of a head cannot be turned in %s",
                             (long long)dims, (long long)head_dim, config->family->model_type);
    ct_rope_scaling_opts opts = {.base = base, .dims = dims};
    if (!rope_options(source, kind, &opts)) return false;
    double *frequencies = cti_take_any(context, cti_bytes(dims / 2, sizeof(double)));
    if (!frequencies) return false;
    const int i = config->ropes++;
    config->rope_dims[i] = dims, config->frequencies[i] = frequencies;
    return ct_rope_frequencies(context, opts, frequencies, &config->attention_factor[i]);
}

/* Finds an object of options below `owner`; null and an object without options are none. */
static bool rope_object(const cti_lm_reader *reader, cti_json_at owner, const char *key,
                        cti_json_at *object) {
    const cti_json_tree *tree = reader->tree;
    *object = cti_json_member(tree, owner, key);
    if (!*object || tree->value[*object].kind == CTI_JSON_NULL) {
        *object = 0;
        return true;
    }
    if (tree->value[*object].kind != CTI_JSON_OBJECT)
        return cti_lm_refuse(reader, key, *object, "not an object");
    if (!tree->value[*object].count) *object = 0;
    return true;
}

/* Finds the options of full and of sliding layers, for a family in which they differ. */
static bool find_layered(const cti_lm_reader *reader, cti_json_at scaling, cti_json_at parameters,
                         rope_source *full, rope_source *local) {
    if (scaling && parameters)
        return cti_lm_refuse(reader, "rope_scaling", scaling,
                             "rope_parameters are there too, so it is not clear which hold");
    if (!parameters) {
        full->object = scaling;
        return true;
    }
    if (!rope_object(reader, parameters, "full_attention", &full->object) ||
        !rope_object(reader, parameters, "sliding_attention", &local->object))
        return false;
    return full->object || local->object ||
           cti_lm_refuse(reader, "rope_parameters", parameters,
                         "%s needs options for full_attention and for sliding_attention",
                         reader->config->family->model_type);
}

/* If a file has both rope_scaling and rope_parameters, rope_scaling holds, as in transformers. */
bool cti_lm_read_ropes(const cti_lm_reader *reader) {
    const cti_json_tree *tree = reader->tree;
    const cti_lm_family *family = reader->config->family;
    if (family->partial == 0) return true;
    cti_json_at scaling, parameters;
    if (!rope_object(reader, 0, "rope_scaling", &scaling) ||
        !rope_object(reader, 0, "rope_parameters", &parameters))
        return false;
    rope_source full = {.reader = reader, .key = scaling ? "rope_scaling" : "rope_parameters"},
                local = full;
    const bool layered = family->local_base != 0;
    if (layered && !find_layered(reader, scaling, parameters, &full, &local)) return false;
    if (!layered) full.object = scaling ? scaling : parameters;
    if (!layered && full.object && cti_json_member(tree, full.object, "full_attention"))
        return cti_lm_refuse(reader, full.key, full.object,
                             "options for each type of layer are not supported in %s",
                             family->model_type);
    return read_rope(&full, "rope_theta", family->rope_base) &&
           (!layered || read_rope(&local, "rope_local_base_freq", family->local_base));
}
