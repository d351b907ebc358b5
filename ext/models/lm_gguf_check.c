/* What a GGUF file cannot say of a model, or its readers (llama.cpp, ollama) compute otherwise. */
#include <cotangent/autograd.h>

#include <math.h>
#include <string.h>

#include "lm_gguf.h"

static bool gguf_cannot_say(const cti_lm *lm, const char *op, const char *path, const char *key,
                            const char *why) {
    return ct_fail(lm->context, CT_ERR_ARGUMENT, "%s: %s: %s: %s", op, path, key, why);
}

/* Gemma 3's readers follow a pattern; those of the other families attend to all keys. */
static bool windows_check(const cti_lm *lm, const char *op, const char *path) {
    const cti_lm_config *config = &lm->config;
    for (int64_t i = 0; i < cti_lm_integer(config, CTI_LM_LAYERS); i++) {
        const cti_lm_layer *layer = &config->layer[i];
        if (config->family->local_base != 0 && config->family->bidirectional &&
            (layer->window > 0) != ((i + 1) % 6 != 0))
            return gguf_cannot_say(lm, op, path,
                                   layer->window > 0 ? "layer_types" : "sliding_window",
                                   "readers of a GGUF file of this family have a window in all "
                                   "but every 6th layer");
        if (config->family->local_base == 0 && layer->window > 0 &&
            layer->window < cti_lm_integer(config, CTI_LM_MAX_LENGTH))
            return gguf_cannot_say(lm, op, path, "sliding_window",
                                   "readers of a GGUF file of this family attend to all tokens");
        if (config->family->local_base != 0 && (layer->window > 0) != (layer->rope == 1))
            return gguf_cannot_say(
                lm, op, path, "sliding_window",
                "readers of a GGUF file turn layers with and without a window by "
                "different frequencies");
    }
    return true;
}

static bool ropes_check(const cti_lm *lm, const char *op, const char *path) {
    const cti_lm_config *config = &lm->config;
    for (int64_t i = 0; i < cti_lm_integer(config, CTI_LM_LAYERS); i++)
        if (config->number[CTI_LM_ROPE_PATTERN] > 0 &&
            (config->layer[i].rope < 0) != ((i + 1) % 4 == 0))
            return gguf_cannot_say(lm, op, path, "no_rope_layers",
                                   "readers of a GGUF file leave every 4th layer without RoPE");
    for (int i = 0; i < config->ropes; i++) {
        const ct_rope_scaling_opts *rope = &config->rope[i];
        const double usual = rope->factor > 1 ? 0.1 * log(rope->factor) + 1 : 1;
        if (rope->kind == CT_ROPE_LLAMA3 && !config->family->gguf.rope_freqs)
            return gguf_cannot_say(lm, op, path, "rope_type",
                                   "readers of a GGUF file have \"llama3\" only for llama");
        if (i && rope->kind != CT_ROPE_DEFAULT)
            return gguf_cannot_say(lm, op, path, "rope_type",
                                   "a GGUF file cannot scale the frequencies of sliding layers");
        if (rope->kind == CT_ROPE_YARN &&
            (rope->mscale != 0 || rope->mscale_all_dim != 0 || rope->no_truncate ||
             (rope->attention_factor != 0 && fabs(rope->attention_factor - usual) > 1e-6)))
            return gguf_cannot_say(lm, op, path, "rope_type",
                                   "readers of a GGUF file have \"yarn\" without mscale, "
                                   "mscale_all_dim, truncate and an attention_factor of its own");
        if (config->rope_odd)
            return gguf_cannot_say(lm, op, path, "partial_rotary_factor",
                                   "a GGUF file cannot turn an odd number of dims");
    }
    return true;
}

/* Numbers that readers take from the family. */
static bool numbers_check(const cti_lm *lm, const char *op, const char *path) {
    const cti_lm_config *config = &lm->config;
    const double *number = config->number;
    const cti_lm_key *act = cti_lm_gguf_row(config->family, CTI_LM_ACTIVATION);
    if (act && number[CTI_LM_ACTIVATION] != act->value)
        return gguf_cannot_say(lm, op, path, act->key,
                               "readers of a GGUF file have only the family's own activation");
    if (number[CTI_LM_SCALED] == 0)
        return gguf_cannot_say(lm, op, path, "scale_attn_weights", "a GGUF file cannot say false");
    if (number[CTI_LM_SCALED_LAYER] > 0)
        return gguf_cannot_say(lm, op, path, "scale_attn_by_inverse_layer_idx",
                               "a GGUF file cannot say true");
    if (config->family->transposed && number[CTI_LM_HIDDEN] != 4 * number[CTI_LM_WIDTH])
        return gguf_cannot_say(lm, op, path, "n_inner",
                               "readers of a GGUF file expect four times n_embd");
    if (number[CTI_LM_QUERY_SCALAR] > 0 &&
        number[CTI_LM_QUERY_SCALAR] !=
            cti_lm_gguf_query_scalar(number[CTI_LM_LAYERS], number[CTI_LM_WIDTH],
                                     number[CTI_LM_HEADS], number[CTI_LM_HEAD_DIM]))
        return gguf_cannot_say(lm, op, path, "query_pre_attn_scalar",
                               "readers of a GGUF file take the size of a head");
    return true;
}

bool cti_lm_gguf_check(const cti_lm *lm, const char *op, const char *path) {
    for (int i = 0; i < lm->sentence.steps; i++)
        if (lm->sentence.step[i].kind == CTI_LM_STEP_DENSE)
            return gguf_cannot_say(lm, op, path, lm->sentence.step[i].path,
                                   "a GGUF file cannot have the Dense modules of modules.json");
    if (cti_lm_gguf_pooling_type(lm) < 0)
        return gguf_cannot_say(lm, op, path, "pooling_mode",
                               "readers of a GGUF file have mean, cls and lasttoken, one of them "
                               "and with the prompt");
    switch (lm->config.head->kind) {
    case CT_LM_HEAD_FILE:
    case CT_LM_HEAD_CAUSAL:
        if (!lm->config.family->bidirectional) break;
        return gguf_cannot_say(lm, op, path, "architectures",
                               "readers of a GGUF file have no head behind attention to later "
                               "tokens");
    case CT_LM_HEAD_NONE:
        if (lm->config.family->bidirectional) break;
        return gguf_cannot_say(lm, op, path, "architectures",
                               "a GGUF file of a decoder needs a head");
    case CT_LM_HEAD_MASKED:
        return gguf_cannot_say(lm, op, path, "architectures",
                               "a GGUF file cannot have the head of a masked language model");
    case CT_LM_HEAD_SEQUENCE:
    case CT_LM_HEAD_TOKEN:
        return gguf_cannot_say(lm, op, path, "architectures",
                               "a GGUF file cannot have a classifier of sequences or tokens");
    }
    return numbers_check(lm, op, path) && windows_check(lm, op, path) && ropes_check(lm, op, path);
}

const char *cti_lm_gguf_note(const cti_lm *lm) {
    if (lm->config.family->gguf.tanh)
        return lm->config.family->names.pooler
                   ? "readers compute GELU in its tanh form; the pooler is left out"
                   : "readers compute GELU in its tanh form";
    return "";
}
