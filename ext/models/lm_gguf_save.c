/* ct_lm_save of a GGUF file: keys and tensors as llama.cpp's converter writes them. */
#include <cotangent/autograd.h>
#include <cotangent/tensor.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/json_tree.h"
#include "../text/gguf_tokens.h"
#include "lm_gguf.h"

/* ---- the type of a tensor ---- */

/* What general.file_type says of files whose matrices have these types. */
static const struct {
    cti_file_dtype type;
    uint32_t number;
} gguf_file_types[] = {{CTI_FILE_F32, 0},
                       {CTI_FILE_F16, 1},
                       {CTI_FILE_Q4_0, 2},
                       {CTI_FILE_Q8_0, 7},
                       {CTI_FILE_BF16, 32}};
enum { GGUF_FILE_TYPES = sizeof gguf_file_types / sizeof *gguf_file_types };

/* Norms, biases, and tables of positions and of token types stay F32. */
static bool stays_f32(const char *name, const ct_tensor *tensor) {
    return ct_shape_of(tensor).ndim <= 1 || cti_lm_ends_with(name, "_norm.weight") ||
           !cti_lm_ends_with(name, ".weight") || !strcmp(name, "position_embd.weight") ||
           !strcmp(name, "token_types.weight");
}

/* A matrix of blocks has whole blocks in each row; another becomes F16. */
static cti_file_dtype gguf_type_of(const char *name, const ct_tensor *tensor,
                                   ct_file_float floats) {
    enum { BLOCK = 32 };
    const ct_shape shape = ct_shape_of(tensor);
    const bool whole = shape.ndim == 2 && shape.dim[1] % BLOCK == 0;
    if (stays_f32(name, tensor)) return CTI_FILE_F32;
    switch (floats) {
    case CT_FILE_F32: return CTI_FILE_F32;
    case CT_FILE_F16: return CTI_FILE_F16;
    case CT_FILE_BF16: return CTI_FILE_BF16;
    case CT_FILE_Q8_0: return whole ? CTI_FILE_Q8_0 : CTI_FILE_F16;
    case CT_FILE_Q4_0: return whole ? CTI_FILE_Q4_0 : CTI_FILE_F16;
    case CT_FILE_SAME: break;
    }
    switch (ct_dtype_of(tensor)) {
    case CT_BF16: return CTI_FILE_BF16;
    case CT_Q8_0: return CTI_FILE_Q8_0;
    case CT_Q4_0: return CTI_FILE_Q4_0;
    case CT_F32:
    case CT_F64:
    case CT_I64:
    case CT_BOOL: break;
    }
    return CTI_FILE_F32;
}

/* ---- tensors ---- */

typedef struct {
    const cti_lm *lm;
    cti_gguf_out *out;
    ct_file_float floats;
    int64_t numel;                     /* of all tensors */
    int64_t matrices[GGUF_FILE_TYPES]; /* how many there are of each type */
} gguf_saving;

static void gguf_put(gguf_saving *s, const char *name, const ct_tensor *tensor,
                     const cti_lm_gguf_param *how) {
    const cti_file_dtype type = gguf_type_of(name, tensor, s->floats);
    cti_gguf_put_tensor(s->out, name, tensor, type, how->grid, how->offset, false);
    s->numel += ct_numel(tensor);
    for (int i = 0; i < GGUF_FILE_TYPES; i++)
        s->matrices[i] += gguf_file_types[i].type == type && !stays_f32(name, tensor);
}

/* Puts a parameter, or its two halves. */
static void gguf_put_param(gguf_saving *s, ct_tensor *tensor, const cti_lm_gguf_param *how) {
    if (how->first) tensor = ct_narrow(tensor, 0, how->first, ct_dim(tensor, 0) - how->first);
    if (!tensor) return;
    if (!*how->second) {
        gguf_put(s, how->name, tensor, how);
        return;
    }
    const int64_t n = ct_dim(tensor, 0) / 2;
    ct_tensor *first = ct_narrow(tensor, 0, 0, n), *second = ct_narrow(tensor, 0, n, n);
    if (first) gguf_put(s, how->name, first, how);
    if (second) gguf_put(s, how->second, second, how);
}

/* Llama 3's divisors of the frequencies. */
static bool gguf_put_divisors(gguf_saving *s) {
    const cti_lm_config *config = &s->lm->config;
    const ct_rope_scaling_opts *rope = &config->rope[0];
    const int64_t dim = cti_lm_integer(config, CTI_LM_HEAD_DIM);
    if (!config->ropes || rope->kind != CT_ROPE_LLAMA3) return true;
    const size_t bytes = cti_bytes(dim / 2, sizeof(float));
    float *divisor = cti_take_any(s->lm->context, bytes);
    if (!divisor) return false;
    cti_lm_gguf_divisors((cti_lm_gguf_llama3){.base = rope->base,
                                              .factor = rope->factor,
                                              .low = rope->low > 0 ? rope->low : 1,
                                              .high = rope->high > 0 ? rope->high : 4,
                                              .original = (double)rope->original_length},
                         dim, divisor);
    const ct_tensor *tensor = ct_from_f32(s->lm->context, CT_SHAPE(dim / 2), divisor);
    cti_give_any(s->lm->context, divisor, bytes);
    if (tensor) gguf_put(s, "rope_freqs.weight", tensor, &(cti_lm_gguf_param){.offset = 0});
    return tensor != NULL;
}

/* A pooler has no name there: cti_lm_gguf_note says so. */
static bool gguf_put_all(gguf_saving *s) {
    const cti_lm *lm = s->lm;
    cti_lm_gguf_param how;
    ct_param param = {0};
    if (!gguf_put_divisors(s)) return false;
    while (ct_module_next(lm->module, &param))
        if (cti_lm_gguf_param_of(&lm->config, param.name, &how))
            gguf_put_param(s, param.tensor, &how);
    if (lm->config.family->gguf.needs_head && cti_lm_is_tied(lm)) {
        char path[CTI_LM_PATH];
        snprintf(path, sizeof path, "%s.weight", cti_lm_head_path(lm));
        if (cti_lm_gguf_param_of(&lm->config, path, &how))
            gguf_put(s, how.name, ct_module_get(lm->module, path), &how);
    }
    return true;
}

/* ---- keys ---- */

static void gguf_put_u32(gguf_saving *s, const char *key, double value) {
    char text[96];
    snprintf(text, sizeof text, "%s.%s", s->lm->config.family->gguf.arch, key);
    cti_gguf_put_u32(s->out, text, (uint32_t)value);
}

static void gguf_put_f32(gguf_saving *s, const char *key, double value) {
    char text[96];
    snprintf(text, sizeof text, "%s.%s", s->lm->config.family->gguf.arch, key);
    cti_gguf_put_f32(s->out, text, (float)value);
}

static void gguf_put_flag(gguf_saving *s, const char *key, bool value) {
    char text[96];
    snprintf(text, sizeof text, "%s.%s", s->lm->config.family->gguf.arch, key);
    cti_gguf_put_flag(s->out, text, value);
}

/* Whether a key is written: one without a value is not, nor is the size of a head that config.json
 * leaves to width and heads. */
static bool gguf_is_written(const cti_lm *lm, const cti_lm_gguf_key *row) {
    return cti_lm_gguf_has(lm->config.family, row) && lm->config.number[row->number] >= 0 &&
           (row->number != CTI_LM_HEAD_DIM || lm->config.has_head_dim);
}

static void gguf_put_numbers(gguf_saving *s) {
    for (const cti_lm_gguf_key *row = cti_lm_gguf_keys; row->key; row++) {
        const double value = row->number == CTI_LM_MAX_LENGTH
                                 ? (double)cti_lm_most_tokens(&s->lm->config)
                                 : s->lm->config.number[row->number];
        if (!gguf_is_written(s->lm, row)) continue;
        switch (row->kind) {
        case CTI_LM_GGUF_U32: gguf_put_u32(s, row->key, value); break;
        case CTI_LM_GGUF_F32: gguf_put_f32(s, row->key, value); break;
        case CTI_LM_GGUF_FLAG: gguf_put_flag(s, row->key, value > 0); break;
        }
    }
}

static void gguf_put_ropes(gguf_saving *s) {
    const cti_lm_config *config = &s->lm->config;
    const ct_rope_scaling_opts *rope = &config->rope[0];
    const bool parts = config->family->partial < 1;
    /* readers of Granite's files take it for whether there is RoPE */
    if (config->number[CTI_LM_ROPED] == 0) gguf_put_flag(s, "rope.scaling.finetuned", false);
    if (!config->ropes) return;
    if (parts || config->family->gguf.neighbours)
        gguf_put_u32(s, "rope.dimension_count", (double)rope->dims);
    if (!parts || rope->base != config->family->rope_base)
        gguf_put_f32(s, "rope.freq_base", rope->base);
    if (config->ropes > 1) gguf_put_f32(s, "rope.freq_base_swa", config->rope[1].base);
    if (rope->kind != CT_ROPE_LINEAR && rope->kind != CT_ROPE_YARN) return;
    const bool yarn = rope->kind == CT_ROPE_YARN;
    char key[96];
    snprintf(key, sizeof key, "%s.rope.scaling.type", config->family->gguf.arch);
    cti_gguf_put_text(s->out, key, cti_text_of(yarn ? "yarn" : "linear"));
    gguf_put_f32(s, "rope.scaling.factor", rope->factor);
    if (!yarn) return;
    gguf_put_u32(s, "rope.scaling.original_context_length", (double)rope->original_length);
    if (rope->attention_factor > 0)
        gguf_put_f32(s, "rope.scaling.yarn_attn_factor", rope->attention_factor);
    if (rope->high > 0) gguf_put_f32(s, "rope.scaling.yarn_beta_fast", rope->high);
    if (rope->low > 0) gguf_put_f32(s, "rope.scaling.yarn_beta_slow", rope->low);
}

/* Which layers have a window, unless it is the pattern that readers assume. */
static void gguf_put_windows(gguf_saving *s) {
    const cti_lm_config *config = &s->lm->config;
    const int64_t layers = cti_lm_integer(config, CTI_LM_LAYERS);
    bool usual = true;
    char key[96];
    if (config->family->local_base == 0) return;
    for (int64_t i = 0; i < layers; i++)
        usual = usual && (config->layer[i].window > 0) == ((i + 1) % 6 != 0);
    if (usual) return;
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", config->family->gguf.arch);
    cti_gguf_put_array(s->out, key, CTI_GGUF_BOOL, layers);
    for (int64_t i = 0; i < layers; i++) cti_gguf_add_flag(s->out, config->layer[i].window > 0);
}

void cti_lm_gguf_label(int64_t numel, char out[CTI_LM_GGUF_LABEL]) {
    static const struct {
        double above, unit;
        const char *suffix;
    } units[] = {{1e12, 1e-12, "T"}, {1e9, 1e-9, "B"}, {1e6, 1e-6, "M"}, {-1, 1e-3, "K"}};
    int i = 0, digits = 0;
    while ((double)numel <= units[i].above) i++;
    const double scaled = (double)numel * units[i].unit;
    for (double rest = nearbyint(scaled); rest >= 1; rest /= 10) digits++;
    snprintf(out, CTI_LM_GGUF_LABEL - 1, "%.*f", digits < 2 ? 2 - digits : 0, scaled);
    cti_json_point(out);
    strcat(out, units[i].suffix);
}

void cti_lm_gguf_title(cti_gguf_out *out, const char *path) {
    const char *name = path + strlen(path), *end = name - strlen(".gguf");
    while (name > path && name[-1] != '/' && name[-1] != '\\') name--;
    if (end > name) cti_gguf_put_text(out, "general.name", (cti_text){name, (size_t)(end - name)});
}

static void gguf_put_general(gguf_saving *s, const char *path) {
    char label[CTI_LM_GGUF_LABEL];
    const double *option = s->lm->sampling;
    cti_gguf_put_text(s->out, "general.architecture", cti_text_of(s->lm->config.family->gguf.arch));
    cti_gguf_put_text(s->out, "general.type", cti_text_of("model"));
    for (int i = 0; i < CTI_LM_SAMPLINGS; i++) {
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", cti_lm_gguf_sampling_keys[i]);
        if (option[i] < 0) continue;
        if (i == CTI_LM_TOP_K) cti_gguf_put_i32(s->out, key, (int32_t)option[i]);
        else cti_gguf_put_f32(s->out, key, (float)option[i]);
    }
    cti_lm_gguf_title(s->out, path);
    cti_lm_gguf_label(s->numel, label);
    cti_gguf_put_text(s->out, "general.size_label", cti_text_of(label));
}

/* The ids of the config, for a file without a tokenizer, and their number, which readers take from
 * the tokenizer otherwise. */
static void gguf_put_ids(gguf_saving *s) {
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    const cti_lm_config *config = &s->lm->config;
    cti_gguf_put_text(s->out, "tokenizer.ggml.model", cti_text_of("none"));
    if (!config->family->gguf.neighbours)
        gguf_put_u32(s, "vocab_size", config->number[CTI_LM_VOCAB]);
    if (config->bos >= 0)
        cti_gguf_put_u32(s->out, "tokenizer.ggml.bos_token_id", (uint32_t)config->bos);
    for (int i = 0; i < 3 && i < config->n_eos; i++)
        cti_gguf_put_u32(s->out, ends[i], (uint32_t)config->eos[i]);
    if (config->pad >= 0)
        cti_gguf_put_u32(s->out, "tokenizer.ggml.padding_token_id", (uint32_t)config->pad);
}

static bool gguf_put_tokenizer(gguf_saving *s) {
    const cti_lm *lm = s->lm;
    ct_tokenizer *opened;
    if (!cti_lm_open_tokenizer(lm, &opened)) return false;
    const ct_tokenizer *tokenizer = opened ? opened : lm->tokenizer;
    bool ok = true;
    /* other files have the ends that llama.cpp's converter writes, of which a reader finds more by
     * their texts */
    const int64_t n_ends = lm->has_own_eos || lm->of_gguf ? lm->generation.n_eos : 0;
    if (tokenizer)
        ok = cti_tokenizer_put(tokenizer, s->out, cti_lm_integer(&lm->config, CTI_LM_VOCAB),
                               lm->generation.eos, n_ends);
    else gguf_put_ids(s);
    if (tokenizer && lm->config.number[CTI_LM_TYPES] > 0)
        cti_gguf_put_u32(s->out, "tokenizer.ggml.token_type_count",
                         (uint32_t)lm->config.number[CTI_LM_TYPES]);
    ct_tokenizer_close(opened);
    return ok;
}

/* The number for the most frequent type of matrices. */
static uint32_t gguf_file_type(const gguf_saving *s) {
    int most = 0;
    for (int i = 1; i < GGUF_FILE_TYPES; i++)
        if (s->matrices[i] > s->matrices[most]) most = i;
    return gguf_file_types[most].number;
}

/* How the tokens become one vector; EmbeddingGemma's readers ask for it, 1: by their mean. And
 * BERT's flag. */
static void gguf_put_encoder(gguf_saving *s) {
    const bool both_ways = s->lm->config.family->bidirectional,
               gemma = both_ways && s->lm->config.family->local_base != 0;
    const int pooling = cti_lm_gguf_pooling_type(s->lm);
    if (pooling || gemma) gguf_put_u32(s, "pooling_type", pooling ? pooling : 1);
    if (both_ways && !gemma) gguf_put_flag(s, "attention.causal", false);
}

static bool gguf_put_keys(gguf_saving *s, const char *path) {
    gguf_put_general(s, path);
    gguf_put_numbers(s);
    if (s->lm->config.family->gguf.neighbours)
        gguf_put_u32(s, "vocab_size", s->lm->config.number[CTI_LM_VOCAB]);
    gguf_put_ropes(s);
    gguf_put_windows(s);
    gguf_put_encoder(s);
    cti_gguf_put_u32(s->out, "general.file_type", gguf_file_type(s));
    cti_gguf_put_u32(s->out, "general.quantization_version", 2);
    return gguf_put_tokenizer(s);
}

/* ---- the file ---- */

static bool gguf_opts_check(const cti_lm *lm, const char *op, const char *path, ct_save_opts opts) {
    const char *fault = opts.shard_bytes ? "shard_bytes: a GGUF file is written as one file"
                        : opts.metadata  ? "metadata: the keys of a GGUF file are the model's own"
                                         : NULL;
    return !fault || ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: %s: %s", op, path, fault);
}

static bool gguf_floats_check(const cti_lm *lm, const char *op, const char *path,
                              ct_file_float floats) {
    ct_param param = {0};
    while (ct_module_next(lm->module, &param))
        if (floats == CT_FILE_SAME && ct_dtype_of(param.tensor) == CT_F64)
            return ct_fail(lm->context, CT_ERR_DTYPE,
                           "%s: %s: %s is f64, which readers of a GGUF file do not have: set "
                           ".floats",
                           op, path, param.name);
    return true;
}

bool cti_lm_gguf_save(const cti_lm *lm, const char *op, const char *path, ct_save_opts opts) {
    cti_gguf_out out;
    if (!gguf_opts_check(lm, op, path, opts) || !cti_lm_gguf_check(lm, op, path) ||
        !gguf_floats_check(lm, op, path, opts.floats) ||
        !cti_gguf_out_begin(lm->context, op, path, &out))
        return false;
    gguf_saving saving = {.lm = lm, .out = &out, .floats = opts.floats};
    ct_scope scope = ct_scope_open_no_grad(lm->context);
    const bool ok = cti_lm_is_ready(lm->context) && gguf_put_all(&saving) &&
                    gguf_put_keys(&saving, path) && cti_gguf_out_write(&out);
    ct_scope_close(scope);
    cti_gguf_out_end(&out);
    return ok;
}
