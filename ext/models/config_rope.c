/* The frequencies of rotary positions by config.json, in both dialects: rope_theta and rope_scaling
 * at the top level, or rope_parameters, which Gemma 3 has for each type of layer. */
#include "config.h"

#include <cotangent/autograd.h>
#include <cotangent/ops.h>

#include <float.h>
#include <math.h>

#include "../../src/core/memory.h"
#include "../../src/core/message.h"

/* The options of one kind of layers. transformers lays the rope_scaling of Gemma 3 over the
 * rope_parameters of its full layers, so there may be two objects. */
typedef struct {
    const cti_lm_reader *reader;
    const char *key;             /* config.json has the object under it */
    cti_json_at object, beneath; /* 0: there is none */
    cti_json_at outer;           /* the object that has `truncate` */
    const char *base, *part;     /* the keys of the base and of the turned part at the top level */
    const char *original;        /* the same of original_max_position_embeddings; NULL: not read */
} rope_source;

/* The value of an option: of the object, of the one beneath it, or of the key `top` of the top
 * level unless it is NULL. 0: there is none. */
static cti_json_at rope_option(const rope_source *source, const char *key, const char *top) {
    const cti_json_tree *tree = source->reader->tree;
    cti_json_at value = source->object ? cti_json_member(tree, source->object, key) : 0;
    if (!value && source->beneath) value = cti_json_member(tree, source->beneath, key);
    return value || !top ? value : cti_json_member(tree, 0, top);
}

static bool rope_value(const rope_source *source, const char *key, cti_json_at value, double least,
                       double *out) {
    const cti_json_tree *tree = source->reader->tree;
    if (!value || tree->value[value].kind == CTI_JSON_NULL) return true;
    if (cti_json_real(tree, value, out) && *out >= least && !isinf(*out)) return true;
    return cti_lm_refuse(source->reader, key, value, "not a finite number %s",
                         least > 0 ? "above 0" : "of at least 0");
}

/* Reads a number above 0; null and an absent key leave *out. */
static bool rope_number(const rope_source *source, const char *key, const char *top, double *out) {
    return rope_value(source, key, rope_option(source, key, top), DBL_TRUE_MIN, out);
}

/* The same of an option for which 0 is the same as an absent key. */
static bool rope_choice(const rope_source *source, const char *key, double *out) {
    return rope_value(source, key, rope_option(source, key, NULL), 0, out);
}

static const struct {
    const char *name;
    ct_rope_scaling kind;
} rope_types[] = {
    {"default", CT_ROPE_DEFAULT},
    {"linear", CT_ROPE_LINEAR},
    {"llama3", CT_ROPE_LLAMA3},
    {"yarn", CT_ROPE_YARN},
};

/* The kind of the options; false after an error. */
static bool rope_kind_of(const rope_source *source, ct_rope_scaling *kind) {
    const cti_json_tree *tree = source->reader->tree;
    cti_json_at type = rope_option(source, "rope_type", NULL);
    if (!type) type = rope_option(source, "type", NULL);
    *kind = CT_ROPE_DEFAULT;
    if (!type) return true;
    if (tree->value[type].kind == CTI_JSON_STRING)
        for (size_t i = 0; i < sizeof rope_types / sizeof *rope_types; i++)
            if (!cti_text_compare(cti_json_text(tree, type), cti_text_of(rope_types[i].name))) {
                *kind = rope_types[i].kind;
                return true;
            }
    return cti_lm_refuse(source->reader, "rope_type", type,
                         "the kinds are default, linear, llama3 and yarn; others depend on the "
                         "length of the sequence or are not known");
}

/* The options that transformers or the authors of models write. A kind reads those of its formula
 * only; the others have no effect. An option that nobody writes may be one that is misspelt. */
static bool rope_keys_check(const rope_source *source, cti_json_at object) {
    static const char *const all[] = {"rope_type",        "type",
                                      "rope_theta",       "partial_rotary_factor",
                                      "factor",           "original_max_position_embeddings",
                                      "attention_factor", "beta_fast",
                                      "beta_slow",        "short_factor",
                                      "long_factor",      "low_freq_factor",
                                      "high_freq_factor", "mscale",
                                      "mscale_all_dim",   "truncate",
                                      "mrope_section",    "mrope_interleaved",
                                      "attn_factor",      "extrapolation_factor",
                                      "short_mscale",     "long_mscale",
                                      "finetuned"};
    const cti_json_tree *tree = source->reader->tree;
    for (cti_json_at i = object ? cti_json_first(tree, object) : 0; i; i = tree->value[i].next) {
        const cti_text key = cti_json_key_of(tree, i);
        bool known = source->reader->ignore_unknown || tree->value[i].kind == CTI_JSON_NULL;
        for (size_t k = 0; k < sizeof all / sizeof *all; k++)
            known |= !cti_text_compare(key, cti_text_of(all[k]));
        char name[64];
        cti_text_shorten(name, sizeof name - 1, key.at, key.size);
        if (!known)
            return cti_lm_refuse(source->reader, name, i,
                                 "an option of %s that is not known; .ignore_unknown loads all the "
                                 "same",
                                 source->key);
    }
    return true;
}

/* As in Python: whether a value counts as true. */
static bool is_true(const cti_json_tree *tree, cti_json_at value) {
    double number;
    switch (tree->value[value].kind) {
    case CTI_JSON_NULL:
    case CTI_JSON_FALSE: return false;
    case CTI_JSON_TRUE: return true;
    case CTI_JSON_NUMBER: return !cti_json_real(tree, value, &number) || number != 0;
    case CTI_JSON_STRING: return cti_json_text(tree, value).size > 0;
    case CTI_JSON_ARRAY:
    case CTI_JSON_OBJECT: return tree->value[value].count > 0;
    }
    return true;
}

/* Reads original_max_position_embeddings. A key of the top level stands before the option. */
static bool original_read(const rope_source *source, ct_rope_scaling_opts *opts) {
    static const char key[] = "original_max_position_embeddings";
    const cti_json_tree *tree = source->reader->tree;
    cti_json_at value = source->original ? cti_json_member(tree, 0, source->original) : 0;
    double original = 0;
    if (!value) value = rope_option(source, key, NULL);
    if (!rope_value(source, key, value, DBL_TRUE_MIN, &original)) return false;
    if (original == 0) original = source->reader->config->number[CTI_LM_MAX_LENGTH];
    if (original != floor(original))
        return cti_lm_refuse(source->reader, key, value, "not an integer");
    opts->original_length = original < 1e15 ? (int64_t)original : INT64_MAX;
    return true;
}

static bool yarn_read(const rope_source *source, ct_rope_scaling_opts *opts) {
    const cti_json_tree *tree = source->reader->tree;
    const cti_json_at truncate =
        source->outer ? cti_json_member(tree, source->outer, "truncate") : 0;
    opts->no_truncate = truncate && !is_true(tree, truncate);
    return rope_choice(source, "beta_slow", &opts->low) &&
           rope_choice(source, "beta_fast", &opts->high) &&
           rope_number(source, "attention_factor", NULL, &opts->attention_factor) &&
           rope_choice(source, "mscale", &opts->mscale) &&
           rope_choice(source, "mscale_all_dim", &opts->mscale_all_dim);
}

static bool rope_options(const rope_source *source, ct_rope_scaling_opts *opts) {
    if (opts->kind == CT_ROPE_DEFAULT) return true;
    const cti_json_at factor = rope_option(source, "factor", NULL);
    if (!rope_number(source, "factor", NULL, &opts->factor)) return false;
    if (opts->kind != CT_ROPE_LINEAR && !original_read(source, opts)) return false;
    if (opts->factor == 0 && factor && opts->kind == CT_ROPE_YARN) /* it is null */
        opts->factor =
            source->reader->config->number[CTI_LM_MAX_LENGTH] / (double)opts->original_length;
    if (opts->factor == 0)
        return cti_lm_refuse(source->reader, "factor", factor, "%s needs a factor", source->key);
    switch (opts->kind) {
    case CT_ROPE_LLAMA3:
        return rope_number(source, "low_freq_factor", NULL, &opts->low) &&
               rope_number(source, "high_freq_factor", NULL, &opts->high);
    case CT_ROPE_YARN: return yarn_read(source, opts);
    default: return true;
    }
}

/* Sets how many dims of a head are turned, and the base. transformers has a frequency for each even
 * number below int(head_dim * partial_rotary_factor). If that is odd, one more dim is turned, and
 * the exponents are those of another base. Only GPT-NeoX turns a part of a head; the other families
 * do not read the factor with unscaled positions, and fail if it leaves dims out. */
static bool rope_dims(const rope_source *source, ct_rope_scaling_opts *opts) {
    cti_lm_config *config = source->reader->config;
    const int64_t head_dim = cti_lm_integer(config, CTI_LM_HEAD_DIM);
    const bool parts = config->family->partial < 1;
    const bool reads = parts || opts->kind != CT_ROPE_DEFAULT;
    const cti_json_at factor = rope_option(source, "partial_rotary_factor", source->part);
    double partial = config->family->partial;
    if (reads && !rope_number(source, "partial_rotary_factor", source->part, &partial))
        return false;
    const double wanted = (double)head_dim * partial;
    const int64_t n = wanted < 2e9 ? (int64_t)wanted : INT32_MAX;
    opts->dims = n + n % 2;
    if (opts->dims < 2 || opts->dims > head_dim || (!parts && opts->dims != head_dim) ||
        (n % 2 && opts->kind == CT_ROPE_YARN))
        return cti_lm_refuse(source->reader, "partial_rotary_factor", factor,
                             "%lld of the %lld dims of a head cannot be turned in %s", (long long)n,
                             (long long)head_dim, config->family->model_type);
    config->rope_odd |= n % 2;
    if (n % 2) opts->base = pow(opts->base, (double)opts->dims / (double)n);
    return true;
}

/* Reads the frequencies number `config->ropes`. */
static bool rope_read(const rope_source *source, double base) {
    cti_lm_config *config = source->reader->config;
    ct_context *context = source->reader->context;
    ct_rope_scaling_opts opts = {.base = base};
    if (!rope_kind_of(source, &opts.kind) || !rope_keys_check(source, source->object) ||
        !rope_keys_check(source, source->beneath) ||
        !rope_number(source, "rope_theta", source->base, &opts.base) ||
        !rope_options(source, &opts))
        return false;
    config->rope[config->ropes] = opts;
    if (!rope_dims(source, &opts)) return false;
    double *frequencies = cti_take_any(context, cti_bytes(opts.dims / 2, sizeof(double)));
    if (!frequencies) return false;
    const int i = config->ropes++;
    config->rope_dims[i] = opts.dims, config->frequencies[i] = frequencies;
    config->rope[i].dims = opts.dims;
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

/* The options of a family in which they differ between full and sliding layers. */
static bool layered_rope_read(const cti_lm_reader *reader, cti_json_at scaling,
                              cti_json_at parameters) {
    const cti_lm_family *family = reader->config->family;
    rope_source full = {.reader = reader,
                        .key = scaling ? "rope_scaling" : "rope_parameters",
                        .object = scaling,
                        .outer = parameters,
                        .base = "rope_theta",
                        .part = "partial_rotary_factor"},
                local = full;
    local.key = "rope_parameters", local.object = 0, local.base = "rope_local_base_freq";
    if (parameters && (!rope_object(reader, parameters, "full_attention", &full.beneath) ||
                       !rope_object(reader, parameters, "sliding_attention", &local.object)))
        return false;
    if (parameters && !full.beneath && !local.object)
        return cti_lm_refuse(reader, "rope_parameters", parameters,
                             "%s needs options for full_attention and for sliding_attention",
                             family->model_type);
    if (scaling && !cti_json_member(reader->tree, scaling, "rope_type") &&
        cti_json_member(reader->tree, scaling, "type"))
        return cti_lm_refuse(reader, "type", cti_json_member(reader->tree, scaling, "type"),
                             "in %s rope_scaling needs rope_type; transformers does not read type",
                             family->model_type);
    return rope_read(&full, family->rope_base) && rope_read(&local, family->local_base);
}

bool cti_lm_read_ropes(const cti_lm_reader *reader) {
    const cti_lm_family *family = reader->config->family;
    if (family->partial == 0) return true;
    cti_json_at scaling, parameters;
    if (!rope_object(reader, 0, "rope_scaling", &scaling) ||
        !rope_object(reader, 0, "rope_parameters", &parameters))
        return false;
    if (family->local_base != 0) return layered_rope_read(reader, scaling, parameters);
    /* if a file has both, rope_scaling holds, as in transformers */
    const cti_json_at object = scaling ? scaling : parameters;
    const bool parts = family->partial < 1; /* GPT-NeoX has names of its own at the top level */
    const rope_source source = {.reader = reader,
                                .key = scaling ? "rope_scaling" : "rope_parameters",
                                .object = object,
                                .outer = object,
                                .base = parts ? "rotary_emb_base" : "rope_theta",
                                .part = parts ? "rotary_pct" : "partial_rotary_factor",
                                .original = "original_max_position_embeddings"};
    if (object && cti_json_member(reader->tree, object, "full_attention"))
        return cti_lm_refuse(reader, source.key, object,
                             "options for each type of layer are not supported in %s",
                             family->model_type);
    return rope_read(&source, family->rope_base);
}
