/* The text of a config.json for a GGUF file, by its keys, and by its tensors where the keys say
 * nothing. */
#include <cotangent/autograd.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "lm_gguf.h"

/* ---- what the file says ---- */

typedef struct {
    const cti_shards *weights;
    const cti_gguf *file;
    const cti_lm_family *family;
    double number[CTI_LM_NUMBERS];
    bool *sliding; /* [layers] a block, or NULL: no layer has a window */
    const char *rope_type;
    cti_lm_gguf_llama3 rope;      /* the base, the factor and what Llama 3's formula needs */
    double local_base, partial;   /* CTI_LM_ABSENT: not there */
    double attention, fast, slow; /* of yarn */
    int64_t bos, pad, eos[CTI_LM_MOST_EOS], n_eos;
} gguf_facts;

enum { GGUF_KEY = 96 };
static const char *gguf_key_of(const gguf_facts *facts, const char *key, char out[GGUF_KEY]) {
    snprintf(out, GGUF_KEY, "%s.%s", facts->family->gguf.arch, key);
    return out;
}

static const cti_file_tensor *tensor_of(const gguf_facts *facts, const char *name) {
    const int64_t i = cti_shards_find(facts->weights, cti_text_of(name));
    return i < 0 ? NULL : facts->weights->tensor[i];
}

/* Reads an integer of at least 0 that may be written as a list with one value for each layer, which
 * must be equal. An absent key leaves *out. */
static bool size_read(const gguf_facts *facts, const char *key, double *out) {
    char text[GGUF_KEY];
    int64_t value = -1;
    const cti_gguf_pair *pair = cti_gguf_find(facts->file, gguf_key_of(facts, key, text));
    if (!pair) return true;
    if (!pair->is_array) {
        if (!cti_gguf_integer(facts->file, text, &value)) return false;
    } else {
        if (!cti_gguf_array(facts->file, text, CTI_GGUF_I64, &pair)) return false;
        for (int64_t i = 0; i < pair->count; i++) {
            const int64_t own = cti_gguf_integer_at(pair, i);
            if (i && own != value)
                return cti_gguf_fail(facts->file, text,
                                     "layer %" PRId64 " has %" PRId64 " and layer 0 %" PRId64
                                     ": layers of different sizes are not supported",
                                     i, own, value);
            value = own;
        }
    }
    if (value < 0 || value > INT32_MAX)
        return cti_gguf_fail(facts->file, text, "is %" PRId64 ", which is no size", value);
    *out = (double)value;
    return true;
}

/* Reads a finite number; an absent key leaves *out. */
static bool real_read(const gguf_facts *facts, const char *key, double *out) {
    char text[GGUF_KEY];
    if (!cti_gguf_real(facts->file, gguf_key_of(facts, key, text), out)) return false;
    return isfinite(*out) || cti_gguf_fail(facts->file, text, "is no finite number");
}

static bool number_read(const gguf_facts *facts, const cti_lm_gguf_key *row, double *out) {
    char text[GGUF_KEY];
    bool flag = *out > 0;
    switch (row->kind) {
    case CTI_LM_GGUF_U32: return size_read(facts, row->key, out);
    case CTI_LM_GGUF_F32: return real_read(facts, row->key, out);
    case CTI_LM_GGUF_FLAG:
        if (!cti_gguf_find(facts->file, gguf_key_of(facts, row->key, text))) return true;
        if (!cti_gguf_flag(facts->file, text, &flag)) return false;
        *out = flag;
        return true;
    }
    return true;
}

static bool numbers_read(gguf_facts *facts) {
    char text[GGUF_KEY];
    for (int i = 0; i < CTI_LM_NUMBERS; i++) facts->number[i] = CTI_LM_ABSENT;
    for (const cti_lm_gguf_key *row = cti_lm_gguf_keys; row->key; row++) {
        double value = CTI_LM_ABSENT, *number = &facts->number[row->number];
        const bool has = cti_lm_gguf_has(facts->family, row) || row->number == CTI_LM_HEAD_DIM;
        if (!has) continue;
        if (!number_read(facts, row, &value)) return false;
        if (value < 0 && row->required)
            return cti_gguf_fail(facts->file, gguf_key_of(facts, row->key, text), "is missing");
        if (value >= 0 && *number >= 0 && value != *number)
            return cti_gguf_fail(facts->file, gguf_key_of(facts, row->key, text),
                                 "is %g: keys and values of different sizes are not supported",
                                 value);
        if (value >= 0) *number = value;
    }
    return true;
}

/* Sizes that the tensors say. */
static bool tensors_read(gguf_facts *facts) {
    static const struct {
        const char *tensor;
        cti_lm_number number;
        bool needed;
    } rows[] = {{"token_embd.weight", CTI_LM_VOCAB, true},
                {"token_types.weight", CTI_LM_TYPES, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const cti_file_tensor *tensor = tensor_of(facts, rows[i].tensor);
        if (!cti_lm_gguf_row(facts->family, rows[i].number) || (!tensor && !rows[i].needed))
            continue;
        if (!tensor || tensor->ndim != 2)
            return ct_fail(facts->file->context, CT_ERR_FORMAT, "%s: %s: %s %s", facts->file->op,
                           facts->file->path, rows[i].tensor,
                           tensor ? "is not a matrix" : "is missing");
        facts->number[rows[i].number] = (double)tensor->shape.dim[0];
    }
    facts->number[CTI_LM_TIED] = !tensor_of(facts, "output.weight");
    facts->number[CTI_LM_ATTENTION_BIAS] = tensor_of(facts, "blk.0.attn_output.bias") != NULL ||
                                           tensor_of(facts, "blk.0.attn_q.bias") != NULL;
    facts->number[CTI_LM_BOTH_WAYS] = facts->family->bidirectional;
    facts->number[CTI_LM_EXPERTS] = 0;
    facts->number[CTI_LM_MLP_BIAS] = tensor_of(facts, "blk.0.ffn_up.bias") != NULL;
    return true;
}

/* Checks the size of a head, which is the width over the heads if no key says it. */
static bool head_dim_read(gguf_facts *facts) {
    char text[GGUF_KEY];
    double *number = facts->number;
    const cti_lm_key *row = cti_lm_gguf_row(facts->family, CTI_LM_HEAD_DIM);
    const double heads = number[CTI_LM_HEADS], dim = floor(number[CTI_LM_WIDTH] / heads);
    if (heads < 1)
        return cti_gguf_fail(facts->file, gguf_key_of(facts, "attention.head_count", text), "is 0");
    if (!row && number[CTI_LM_HEAD_DIM] >= 0 && number[CTI_LM_HEAD_DIM] != dim)
        return cti_gguf_fail(facts->file, gguf_key_of(facts, "attention.key_length", text),
                             "is %g, but in %s a head has width / heads = %g",
                             number[CTI_LM_HEAD_DIM], facts->family->model_type, dim);
    if (row && number[CTI_LM_HEAD_DIM] < 0 && row->value != CTI_LM_ABSENT)
        number[CTI_LM_HEAD_DIM] = dim;
    if (number[CTI_LM_KV_HEADS] < 0) number[CTI_LM_KV_HEADS] = heads;
    if (number[CTI_LM_FINAL_CAP] == 0) number[CTI_LM_FINAL_CAP] = CTI_LM_ABSENT;
    return true;
}

/* Factors that are 0 or absent are those of other families; config.json's defaults are not. */
static void scales_complete(gguf_facts *facts) {
    static const cti_lm_number ones[] = {CTI_LM_EMBED_SCALE, CTI_LM_RESIDUAL_SCALE,
                                         CTI_LM_LOGITS_DIVISOR};
    double *number = facts->number;
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        if (number[ones[i]] == 0) number[ones[i]] = CTI_LM_ABSENT;
    if (cti_lm_gguf_row(facts->family, CTI_LM_SCORE_SCALE) && number[CTI_LM_SCORE_SCALE] <= 0)
        number[CTI_LM_SCORE_SCALE] =
            1 / sqrt(number[CTI_LM_HEAD_DIM] > 0 ? number[CTI_LM_HEAD_DIM]
                                                 : number[CTI_LM_WIDTH] / number[CTI_LM_HEADS]);
}

/* ---- windows ---- */

static bool layer_count_check(const gguf_facts *facts) {
    char text[GGUF_KEY];
    return facts->number[CTI_LM_LAYERS] <= (double)facts->weights->tensors ||
           cti_gguf_fail(facts->file, gguf_key_of(facts, "block_count", text),
                         "is %g, but there are %" PRId64 " tensors", facts->number[CTI_LM_LAYERS],
                         facts->weights->tensors);
}

/* Which layers of Gemma 3 have a window: all but every 6th, or as the pattern says. */
static bool windows_read(gguf_facts *facts) {
    char text[GGUF_KEY];
    const int64_t layers = (int64_t)facts->number[CTI_LM_LAYERS];
    double every = 6;
    const cti_gguf_pair *list = NULL;
    if (facts->family->local_base == 0) {
        double window = 0;
        if (facts->family->gguf.windows && !size_read(facts, "attention.sliding_window", &window))
            return false;
        return window == 0 ||
               cti_gguf_fail(facts->file, gguf_key_of(facts, "attention.sliding_window", text),
                             "windows of this architecture (Olmo 3) are not supported");
    }
    if (facts->number[CTI_LM_WINDOW] == 0) facts->number[CTI_LM_WINDOW] = CTI_LM_ABSENT;
    if (facts->number[CTI_LM_WINDOW] < 0 || !layers) return true;
    list = cti_gguf_find(facts->file, gguf_key_of(facts, "attention.sliding_window_pattern", text));
    if (list && !list->is_array) {
        if (!size_read(facts, "attention.sliding_window_pattern", &every)) return false;
        list = NULL;
    } else if (list && (!cti_gguf_array(facts->file, text, CTI_GGUF_BOOL, &list) ||
                        list->count != layers)) {
        return cti_gguf_fail(facts->file, text, "has not one value for each of %" PRId64 " layers",
                             layers);
    }
    facts->sliding = cti_take_any(facts->file->context, (size_t)layers);
    for (int64_t i = 0; facts->sliding && i < layers; i++)
        facts->sliding[i] =
            list ? cti_gguf_integer_at(list, i) != 0 : every == 0 || (i + 1) % (int64_t)every != 0;
    return facts->sliding != NULL;
}

/* ---- rotary positions ---- */

/* The tensor of divisors, which Llama 3's files have in place of keys. */
static bool divisors_read(gguf_facts *facts, const cti_file_tensor *tensor) {
    ct_context *context = facts->file->context;
    const double *number = facts->number;
    const int64_t dim = number[CTI_LM_HEAD_DIM] >= 0
                            ? (int64_t)number[CTI_LM_HEAD_DIM]
                            : (int64_t)(number[CTI_LM_WIDTH] / number[CTI_LM_HEADS]);
    bool ok = tensor->ndim == 1 && tensor->dtype == CTI_FILE_F32 &&
              tensor->shape.dim[0] == dim / 2 && dim / 2 <= 2048;
    if (!ok)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: rope_freqs.weight is not F32 with an element for each pair of a "
                       "head's %" PRId64 " dims",
                       facts->file->op, facts->file->path, dim);
    ct_scope scope = ct_scope_open_no_grad(context);
    ct_tensor *values = cti_lm_gguf_values(tensor);
    float divisor[2048], first = 0;
    bool plain = values != NULL, found = false;
    for (int64_t i = 0; values && i < dim / 2; i++) {
        divisor[i] = (float)ct_item(ct_select(values, 0, i));
        if (!i) first = divisor[i];
        plain = plain && divisor[i] == first;
    }
    ok = values != NULL;
    ct_scope_close(scope);
    if (!ok || (plain && first == 1)) return ok;
    found = cti_lm_gguf_find_llama3(divisor, dim, &facts->rope);
    facts->rope_type = "llama3";
    return found || ct_fail(context, CT_ERR_FORMAT,
                            "%s: %s: the values of rope_freqs.weight are not those of Llama 3's "
                            "scaling",
                            facts->file->op, facts->file->path);
}

static bool scaling_read(gguf_facts *facts) {
    char text[GGUF_KEY];
    cti_text type = cti_text_of("linear");
    double original = CTI_LM_ABSENT;
    facts->rope.factor = 0;
    if (!real_read(facts, "rope.scale_linear", &facts->rope.factor) ||
        !real_read(facts, "rope.scaling.factor", &facts->rope.factor) ||
        !cti_gguf_text(facts->file, gguf_key_of(facts, "rope.scaling.type", text), &type))
        return false;
    if (!cti_text_compare(type, cti_text_of("linear"))) {
        if (facts->rope.factor > 0 && facts->rope.factor != 1) facts->rope_type = "linear";
        return true;
    }
    if (!cti_text_compare(type, cti_text_of("none"))) return true;
    if (cti_text_compare(type, cti_text_of("yarn")))
        return cti_gguf_fail(facts->file, text, "is \"%.*s\": the kinds are none, linear and yarn",
                             (int)(type.size < 40 ? type.size : 40), type.at);
    facts->rope_type = "yarn";
    facts->rope.original = facts->number[CTI_LM_MAX_LENGTH];
    if (!size_read(facts, "rope.scaling.original_context_length", &original) ||
        !real_read(facts, "rope.scaling.yarn_attn_factor", &facts->attention) ||
        !real_read(facts, "rope.scaling.yarn_beta_fast", &facts->fast) ||
        !real_read(facts, "rope.scaling.yarn_beta_slow", &facts->slow))
        return false;
    if (original > 0) facts->rope.original = original;
    static const char *const neutral[] = {"rope.scaling.attn_factor",
                                          "rope.scaling.yarn_ext_factor"};
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++) {
        double factor = 1;
        if (!real_read(facts, neutral[i], &factor)) return false;
        if (factor != 1)
            return cti_gguf_fail(facts->file, gguf_key_of(facts, neutral[i], text),
                                 "is %g: only 1 is supported", factor);
    }
    double logs = 0;
    return real_read(facts, "rope.scaling.yarn_log_multiplier", &logs) &&
           (logs == 0 ||
            cti_gguf_fail(facts->file, gguf_key_of(facts, "rope.scaling.yarn_log_multiplier", text),
                          "is %g: it is not supported", logs));
}

/* How many dims of a head are turned. */
static bool partial_read(gguf_facts *facts) {
    char text[GGUF_KEY];
    const double *number = facts->number;
    const double dim = number[CTI_LM_HEAD_DIM] >= 0
                           ? number[CTI_LM_HEAD_DIM]
                           : floor(number[CTI_LM_WIDTH] / number[CTI_LM_HEADS]);
    double turned = dim;
    if (!size_read(facts, "rope.dimension_count", &turned)) return false;
    facts->partial = facts->family->partial < 1 ? turned / dim : 1;
    if (floor(facts->partial * dim) < turned) facts->partial = nextafter(facts->partial, 2);
    if (facts->family->partial < 1 ? turned > dim || turned < 2 : turned != dim)
        return cti_gguf_fail(facts->file, gguf_key_of(facts, "rope.dimension_count", text),
                             "is %g of a head's %g dims, which is not supported in %s", turned, dim,
                             facts->family->model_type);
    return true;
}

static bool rope_read_all(gguf_facts *facts) {
    static const char *const refused[] = {"rope_factors_long.weight", "rope_factors_short.weight",
                                          "blk.0.rope_factors_long.weight"};
    if (facts->family->partial == 0) return true;
    facts->rope.base = 10000;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (tensor_of(facts, refused[i]))
            return ct_fail(facts->file->context, CT_ERR_FORMAT,
                           "%s: %s: %s: frequencies that depend on the length of the sequence "
                           "(longrope) are not supported",
                           facts->file->op, facts->file->path, refused[i]);
    facts->local_base = facts->family->local_base;
    if (!real_read(facts, "rope.freq_base", &facts->rope.base) ||
        !real_read(facts, "rope.freq_base_swa", &facts->local_base) || !partial_read(facts) ||
        !scaling_read(facts))
        return false;
    const cti_file_tensor *divisors = tensor_of(facts, "rope_freqs.weight");
    return facts->rope_type || !divisors || divisors_read(facts, divisors);
}

/* ---- ids ---- */

static bool gguf_ids_read(gguf_facts *facts) {
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const int64_t rows = (int64_t)facts->number[CTI_LM_VOCAB];
    facts->bos = facts->pad = -1;
    if (!cti_gguf_integer(facts->file, "tokenizer.ggml.bos_token_id", &facts->bos) ||
        !cti_gguf_integer(facts->file, "tokenizer.ggml.padding_token_id", &facts->pad))
        return false;
    if (facts->bos >= rows) facts->bos = -1;
    if (facts->pad >= rows) facts->pad = -1;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int64_t id = -1;
        bool known = false;
        if (!cti_gguf_integer(facts->file, ends[i], &id)) return false;
        for (int64_t k = 0; k < facts->n_eos; k++) known |= facts->eos[k] == id;
        if (id >= 0 && id < rows && !known) facts->eos[facts->n_eos++] = id;
    }
    return true;
}

/* ---- the text ---- */

static void member_begin(cti_writer *out, const char *key) {
    cti_string_write(out, ",\n  \"");
    cti_string_write(out, key);
    cti_string_write(out, "\": ");
}

/* Writes a number that transformers wants as a float: with a point or an exponent. */
static void float_write(cti_writer *out, double number) {
    char text[40];
    cti_writer digits = {.at = text, .size = sizeof text - 1};
    cti_real_write(&digits, cti_lm_gguf_shortest(number));
    text[digits.used] = 0;
    cti_string_write(out, text);
    if (!strpbrk(text, ".e")) cti_string_write(out, ".0");
}

static void number_member(cti_writer *out, const char *key, double number) {
    member_begin(out, key);
    if (number == floor(number)) cti_natural_write(out, (int64_t)number);
    else cti_real_write(out, cti_lm_gguf_shortest(number));
}

static void id_member(cti_writer *out, const char *key, const int64_t *ids, int64_t n) {
    member_begin(out, key);
    if (n > 1) cti_string_write(out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i) cti_string_write(out, ", ");
        cti_natural_write(out, ids[i]);
    }
    cti_string_write(out, n > 1 ? "]" : n ? "" : "null");
}

/* Writes the options of one kind of layers. */
static void rope_write(const gguf_facts *facts, cti_writer *out, bool local) {
    const char *type = facts->rope_type && !local ? facts->rope_type : "default";
    cti_string_write(out, "{\"rope_type\": \"");
    cti_string_write(out, type);
    cti_string_write(out, "\", \"rope_theta\": ");
    float_write(out, local ? facts->local_base : facts->rope.base);
    const bool llama3 = !strcmp(type, "llama3"), yarn = !strcmp(type, "yarn");
    const struct {
        const char *key;
        double value;
        bool is;
    } members[] = {
        {"partial_rotary_factor", facts->partial, facts->family->partial < 1},
        {"factor", facts->rope.factor, strcmp(type, "default") != 0},
        {"original_max_position_embeddings", facts->rope.original, llama3 || yarn},
        {"low_freq_factor", facts->rope.low, llama3},
        {"high_freq_factor", facts->rope.high, llama3},
        {"attention_factor", facts->attention, yarn && facts->attention > 0},
        {"beta_fast", facts->fast, yarn && facts->fast > 0},
        {"beta_slow", facts->slow, yarn && facts->slow > 0},
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        if (!members[i].is) continue;
        cti_string_write(out, ", \"");
        cti_string_write(out, members[i].key);
        cti_string_write(out, "\": ");
        if (i == 2) cti_natural_write(out, (int64_t)members[i].value);
        else float_write(out, members[i].value);
    }
    cti_string_write(out, "}");
}

static void ropes_write(const gguf_facts *facts, cti_writer *out) {
    if (facts->family->partial == 0) return;
    member_begin(out, "rope_parameters");
    if (facts->family->local_base != 0) {
        cti_string_write(out, "{\"full_attention\": ");
        rope_write(facts, out, false);
        cti_string_write(out, ", \"sliding_attention\": ");
        rope_write(facts, out, true);
        cti_string_write(out, "}");
    } else {
        rope_write(facts, out, false);
    }
}

static void layers_write(const gguf_facts *facts, cti_writer *out) {
    if (facts->family->local_base == 0 && !facts->family->needs_types) return;
    member_begin(out, "layer_types");
    cti_string_write(out, "[");
    for (int64_t i = 0; i < (int64_t)facts->number[CTI_LM_LAYERS]; i++) {
        cti_string_write(out, i ? ", " : "");
        cti_string_write(out, facts->family->needs_types            ? "\"attention\""
                              : facts->sliding && facts->sliding[i] ? "\"sliding_attention\""
                                                                    : "\"full_attention\"");
    }
    cti_string_write(out, "]");
}

static void text_write(const gguf_facts *facts, cti_writer *out) {
    const cti_lm_family *family = facts->family;
    cti_string_write(out, "{\n  \"architectures\": [\"");
    cti_string_write(out, family->heads->architecture);
    cti_string_write(out, "\"]");
    member_begin(out, "model_type");
    cti_quoted_write(out, cti_text_of(family->model_type));
    for (const cti_lm_key *row = family->keys; row->key; row++) {
        const double number = row->kind <= CTI_LM_FLAG ? facts->number[row->number] : -1;
        if (row->kind == CTI_LM_IS_ROPE) {
            member_begin(out, row->key);
            cti_string_write(out, "\"nope\"");
        }
        if (number < 0 || cti_lm_gguf_row(family, row->number) != row) continue;
        if (row->kind == CTI_LM_FLAG) {
            member_begin(out, row->key);
            cti_string_write(out, number > 0 ? "true" : "false");
        } else if (row->number == CTI_LM_FINAL_CAP) {
            member_begin(out, row->key);
            float_write(out, number);
        } else {
            number_member(out, row->key, number);
        }
    }
    layers_write(facts, out);
    ropes_write(facts, out);
    id_member(out, "bos_token_id", &facts->bos, facts->bos >= 0);
    id_member(out, "eos_token_id", facts->eos, facts->n_eos);
    id_member(out, "pad_token_id", &facts->pad, facts->pad >= 0);
    cti_string_write(out, "\n}\n");
}

/* The scale of Gemma 3's scores, which its largest model has by its number of layers. */
static void query_scalar_set(gguf_facts *facts) {
    double *number = facts->number;
    if (cti_lm_gguf_row(facts->family, CTI_LM_QUERY_SCALAR))
        number[CTI_LM_QUERY_SCALAR] =
            cti_lm_gguf_query_scalar(number[CTI_LM_LAYERS], number[CTI_LM_WIDTH],
                                     number[CTI_LM_HEADS], number[CTI_LM_HEAD_DIM]);
}

/* Whether the norms have the eps of a family whose config.json has no key for it. */
static bool eps_check(const gguf_facts *facts) {
    const double eps = facts->number[CTI_LM_EPS], fixed = facts->family->eps;
    if (cti_lm_gguf_row(facts->family, CTI_LM_EPS) || (float)eps == (float)fixed) return true;
    char text[GGUF_KEY];
    return cti_gguf_fail(facts->file, gguf_key_of(facts, "attention.layer_norm_epsilon", text),
                         "is %g; a %s has %g", eps, facts->family->model_type, fixed);
}

/* Chooses between the families of one architecture: by the tensor of token types, and by the key
 * from which a reader of Granite's files takes whether there are rotary positions. */
static bool family_choose(gguf_facts *facts) {
    char text[GGUF_KEY];
    bool rope = true;
    const cti_lm_family *without_types = cti_lm_family_without_types(facts->family),
                        *without_rope = cti_lm_family_without_rope(facts->family);
    if (facts->family->names.types && !tensor_of(facts, "token_types.weight") && without_types)
        facts->family = without_types;
    if (without_rope &&
        cti_gguf_find(facts->file, gguf_key_of(facts, "rope.scaling.finetuned", text)) &&
        !cti_gguf_flag(facts->file, text, &rope))
        return false;
    if (!rope) facts->family = without_rope;
    return true;
}

static bool facts_read(gguf_facts *facts) {
    static const char key[] = "general.architecture";
    cti_text arch = {NULL, 0};
    if (!cti_gguf_text(facts->file, key, &arch)) return false;
    if (!arch.at) return cti_gguf_fail(facts->file, key, "is missing");
    facts->family = cti_lm_family_of_gguf(arch);
    if (!facts->family) {
        char names[200];
        cti_lm_family_gguf_names(names, sizeof names);
        return cti_gguf_fail(facts->file, key, "is \"%.*s\"; the architectures are %s",
                             (int)(arch.size < 40 ? arch.size : 40), arch.at, names);
    }
    if (!family_choose(facts)) return false;
    if (tensor_of(facts, "cls.output.weight") || tensor_of(facts, "cls.weight"))
        return ct_fail(facts->file->context, CT_ERR_FORMAT,
                       "%s: %s: a classifier, which is not opened from a GGUF file: it lacks the "
                       "pooler",
                       facts->file->op, facts->file->path);
    if (!numbers_read(facts) || !eps_check(facts) || !tensors_read(facts) ||
        !head_dim_read(facts) || !layer_count_check(facts) || !windows_read(facts) ||
        !rope_read_all(facts) || !gguf_ids_read(facts))
        return false;
    query_scalar_set(facts);
    scales_complete(facts);
    return true;
}

char *cti_lm_gguf_text(const cti_shards *weights, size_t *size) {
    gguf_facts facts = {.weights = weights,
                        .file = weights->gguf,
                        .attention = CTI_LM_ABSENT,
                        .fast = CTI_LM_ABSENT,
                        .slow = CTI_LM_ABSENT};
    ct_context *context = weights->context;
    char *text = NULL;
    if (facts_read(&facts)) {
        cti_writer out = {0};
        text_write(&facts, &out); /* measures it */
        *size = out.used;
        text = cti_take_any(context, *size + 1);
        out = (cti_writer){.at = text, .size = *size};
        if (text) {
            text_write(&facts, &out);
            text[*size] = 0;
        }
    }
    if (facts.sliding) cti_give_any(context, facts.sliding, (size_t)facts.number[CTI_LM_LAYERS]);
    return text;
}
