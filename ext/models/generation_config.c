/* Options of generation are read from generation_config.json or, if the folder has no such file,
 * from config.json. */
#include <cotangent/autograd.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/file.h"
#include "folder.h"

static const char generation_file[] = "generation_config.json", config_file[] = "config.json";

/* The keys of transformers that change which ids are generated and are not followed, each with the
 * value of no effect; NAN: there is none. null, false and an empty list have none either. Keys that
 * neither list has change nothing, or only speed, results beside the ids, and beams. */
static const struct {
    const char *key;
    double neutral;
    bool of_sampling; /* it has an effect only with do_sample */
} not_followed[] = {
    {"num_beams", 1, false},
    {"num_beam_groups", 1, false},
    {"diversity_penalty", 0, false},
    {"penalty_alpha", 0, false},
    {"dola_layers", NAN, false},
    {"guidance_scale", 1, false},
    {"min_length", 0, false},
    {"min_new_tokens", 0, false},
    {"max_time", NAN, false},
    {"stop_strings", NAN, false},
    {"no_repeat_ngram_size", 0, false},
    {"encoder_no_repeat_ngram_size", 0, false},
    {"encoder_repetition_penalty", 1, false},
    {"sequence_bias", NAN, false},
    {"bad_words_ids", NAN, false},
    {"force_words_ids", NAN, false},
    {"constraints", NAN, false},
    {"forced_bos_token_id", NAN, false},
    {"forced_eos_token_id", NAN, false},
    {"suppress_tokens", NAN, false},
    {"begin_suppress_tokens", NAN, false},
    {"exponential_decay_length_penalty", NAN, false},
    {"token_healing", NAN, false},
    {"watermarking_config", NAN, false},
    {"top_h", NAN, true},
    {"typical_p", 1, true},
    {"epsilon_cutoff", 0, true},
    {"eta_cutoff", 0, true},
};

static bool is_neutral(const cti_json_tree *tree, cti_json_at value, double neutral) {
    double number;
    switch (tree->value[value].kind) {
    case CTI_JSON_NULL:
    case CTI_JSON_FALSE: return true;
    case CTI_JSON_ARRAY: return !cti_json_first(tree, value);
    case CTI_JSON_NUMBER: return cti_json_real(tree, value, &number) && number == neutral;
    default: return false;
    }
}

/* Remembers the first key that is not followed for ct_lm_generate_opts: a program that does not
 * generate by the folder's options can use the model. */
static void keys_not_followed_find(const cti_lm_reader *reader, cti_lm *lm, bool samples) {
    if (lm->ignore_unknown) return;
    for (size_t i = 0; i < sizeof not_followed / sizeof *not_followed; i++) {
        const cti_json_at value = cti_json_member(reader->tree, 0, not_followed[i].key);
        if (!value || (not_followed[i].of_sampling && !samples) ||
            is_neutral(reader->tree, value, not_followed[i].neutral))
            continue;
        cti_lm_value_text(reader, value, lm->not_followed.value);
        lm->not_followed.key = not_followed[i].key;
        return;
    }
}

/* Reads a number that is at least 0; null and an absent key leave *out. */
static bool generate_number_read(const cti_lm_reader *reader, const char *key, double *out) {
    const cti_json_at value = cti_json_member(reader->tree, 0, key);
    if (!value || reader->tree->value[value].kind == CTI_JSON_NULL) return true;
    if (cti_json_real(reader->tree, value, out) && *out >= 0 && *out < 1e15) return true;
    return cti_lm_refuse(reader, key, value, "not a number of at least 0");
}

/* The keys of lm->sampling, in its order. */
static const char *const sampling_keys[CTI_LM_SAMPLINGS] = {[CTI_LM_TEMPERATURE] = "temperature",
                                                            [CTI_LM_TOP_K] = "top_k",
                                                            [CTI_LM_TOP_P] = "top_p",
                                                            [CTI_LM_MIN_P] = "min_p",
                                                            [CTI_LM_PENALTY] =
                                                                "repetition_penalty"};

/* Keeps the numbers that the file has, as it has them. */
static void sampling_note(const cti_lm_reader *reader, cti_lm *lm) {
    for (int i = 0; i < CTI_LM_SAMPLINGS; i++) {
        const cti_json_at value = cti_json_member(reader->tree, 0, sampling_keys[i]);
        double number;
        if (value && cti_json_real(reader->tree, value, &number)) lm->sampling[i] = number;
    }
}

/* As in transformers: without do_sample the largest logit is chosen; with it the defaults are
 * temperature 1 and top_k 50. */
static bool generate_opts_read(const cti_lm_reader *reader, cti_lm *lm) {
    const cti_json_tree *tree = reader->tree;
    if (tree->value[0].kind != CTI_JSON_OBJECT)
        return ct_fail(reader->context, CT_ERR_FORMAT, "%s: %s: not a JSON object", reader->op,
                       reader->path);
    ct_generate_opts *opts = &lm->generation;
    const cti_json_at sample = cti_json_member(tree, 0, "do_sample");
    const bool samples = sample && tree->value[sample].kind == CTI_JSON_TRUE;
    keys_not_followed_find(reader, lm, samples);
    double temperature = 1, top_k = 50, top_p = 1, min_p = 0, penalty = 1, most = 0;
    int64_t ids[CTI_LM_MOST_EOS], n;
    if (!generate_number_read(reader, "temperature", &temperature) ||
        !generate_number_read(reader, "top_k", &top_k) ||
        !generate_number_read(reader, "top_p", &top_p) ||
        !generate_number_read(reader, "min_p", &min_p) ||
        !generate_number_read(reader, "repetition_penalty", &penalty) ||
        !generate_number_read(reader, "max_new_tokens", &most) ||
        !cti_lm_read_ids(reader, "eos_token_id", ids, &n))
        return false;
    if (top_k != floor(top_k))
        return cti_lm_refuse(reader, "top_k", cti_json_member(tree, 0, "top_k"), "not an integer");
    sampling_note(reader, lm);
    if (penalty == 0)
        return cti_lm_refuse(reader, "repetition_penalty",
                             cti_json_member(tree, 0, "repetition_penalty"), "not above 0");
    if (top_p == 0) top_p = DBL_MIN; /* only the most probable id */
    if (samples)
        opts->sample = (ct_sample_opts){.temperature = temperature,
                                        .top_k = (int64_t)top_k,
                                        .top_p = top_p < 1 ? top_p : 0,
                                        .min_p = min_p};
    opts->repetition_penalty = penalty != 1 ? penalty : 0;
    opts->max_new = (int64_t)most;
    if (n) {
        memcpy(lm->eos, ids, (size_t)n * sizeof *ids);
        opts->n_eos = n;
    }
    return true;
}

/* Reads the options of a text, which is changed. */
static bool generate_text_read(cti_lm *lm, const char *op, const char *path, char *text,
                               size_t size) {
    cti_json_tree tree;
    if (!cti_json_tree_read(lm->context, op, path, text, size, &tree)) return false;
    const cti_lm_reader reader = {.context = lm->context, .op = op, .path = path, .tree = &tree};
    const bool ok = generate_opts_read(&reader, lm);
    cti_json_tree_free(&tree);
    return ok;
}

static bool generation_file_read(cti_lm *lm, const char *op, const char *path) {
    size_t size;
    char *text = cti_lm_read_file(lm->context, op, path, &size);
    const bool ok = text && generate_text_read(lm, op, path, text, size);
    if (text) cti_give_any(lm->context, text, size + 1);
    lm->not_followed.file = generation_file;
    return ok;
}

/* Reads options of generation from config.json, as transformers does without
 * generation_config.json. */
static bool config_generation_read(cti_lm *lm, const char *op) {
    const size_t size = lm->config.text_size + 1;
    if (lm->config.head->kind != CT_LM_HEAD_CAUSAL) return true;
    char *copy = cti_take_any(lm->context, size);
    if (!copy) return false;
    memcpy(copy, lm->config.text, size);
    const bool ok = generate_text_read(lm, op, config_file, copy, size - 1);
    cti_give_any(lm->context, copy, size);
    for (int i = 0; i < CTI_LM_SAMPLINGS; i++) lm->sampling[i] = CTI_LM_ABSENT;
    lm->not_followed.file = config_file;
    return ok;
}

/* ---- GGUF ---- */

static void generation_id_write(cti_writer *out, const char *key, const int64_t *ids, int64_t n) {
    if (!n) return;
    cti_string_write(out, out->used > 1 ? ",\n  \"" : "\n  \"");
    cti_string_write(out, key);
    cti_string_write(out, n > 1 ? "\": [" : "\": ");
    for (int64_t i = 0; i < n; i++) {
        if (i) cti_string_write(out, ", ");
        cti_natural_write(out, ids[i]);
    }
    if (n > 1) cti_string_write(out, "]");
}

/* A GGUF file does not say do_sample: a file with options of sampling is meant to sample. */
static void generation_write(const cti_lm *lm, cti_writer *out) {
    bool samples = false;
    for (int i = 0; i < CTI_LM_PENALTY; i++) samples |= lm->sampling[i] >= 0;
    samples &= lm->sampling[CTI_LM_TEMPERATURE] != 0;
    cti_string_write(out, "{");
    generation_id_write(out, "bos_token_id", &lm->config.bos, lm->config.bos >= 0);
    generation_id_write(out, "eos_token_id", lm->eos, lm->generation.n_eos);
    generation_id_write(out, "pad_token_id", &lm->config.pad, lm->config.pad >= 0);
    if (samples)
        cti_string_write(out,
                         out->used > 1 ? ",\n  \"do_sample\": true" : "\n  \"do_sample\": true");
    for (int i = 0; i < CTI_LM_SAMPLINGS; i++) {
        if (lm->sampling[i] < 0 || (i < CTI_LM_PENALTY && !samples)) continue;
        cti_string_write(out, out->used > 1 ? ",\n  \"" : "\n  \"");
        cti_string_write(out, sampling_keys[i]);
        cti_string_write(out, "\": ");
        if (i == CTI_LM_TOP_K) cti_natural_write(out, (int64_t)lm->sampling[i]);
        else cti_real_write(out, lm->sampling[i]);
    }
    cti_string_write(out, "\n}\n");
}

char *cti_lm_generation_text(const cti_lm *lm, size_t *size) {
    cti_writer out = {0};
    generation_write(lm, &out); /* measures it */
    *size = out.used;
    char *text = cti_take_any(lm->context, *size + 1);
    if (!text) return NULL;
    out = (cti_writer){.at = text, .size = *size};
    generation_write(lm, &out);
    text[*size] = 0;
    return text;
}

/* The options that a GGUF file says are in lm->sampling already. */
static bool gguf_generation_read(cti_lm *lm, const char *op) {
    size_t size;
    char *text = cti_lm_generation_text(lm, &size);
    const bool ok = text && generate_text_read(lm, op, lm->folder, text, size);
    if (text) cti_give_any(lm->context, text, size + 1);
    return ok;
}

bool cti_lm_read_generation(cti_lm *lm, const char *op) {
    cti_os_about about;
    if (!lm->folder) return config_generation_read(lm, op);
    if (lm->of_gguf) return gguf_generation_read(lm, op);
    char *path = cti_path_in(lm->context, lm->folder, generation_file);
    bool ok = path && cti_file_find(lm->context, op, path, &about);
    if (ok)
        ok = about.kind == CTI_OS_FILE ? generation_file_read(lm, op, path)
                                       : config_generation_read(lm, op);
    cti_path_free(lm->context, path);
    return ok;
}

ct_generate_opts ct_lm_generate_opts(const ct_module *module) {
    const cti_lm *lm = cti_lm_of(module);
    if (!lm || !cti_lm_is_ready(lm->context)) return (ct_generate_opts){0};
    if (!lm->not_followed.key) return lm->generation;
    ct_fail(lm->context, CT_ERR_FORMAT,
            "lm_generate_opts: %s: %s: \"%s\" is %s, which is not supported "
            "(ignore_unknown leaves it out)",
            lm->folder ? lm->folder : "lm_new", lm->not_followed.file, lm->not_followed.key,
            lm->not_followed.value);
    return (ct_generate_opts){0};
}
