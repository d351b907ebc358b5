/* The families of models: the keys of their config.json with transformers' defaults, and the names
 * of their state dict. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#define END                   {.key = NULL}
#define NO_EFFECT(name)       {.key = (name), .kind = CTI_LM_NO_EFFECT}
#define OFF(name, text)       {.key = (name), .kind = CTI_LM_OFF, .why = (text)}
#define ALIAS(name, sort, of) NUMBER(name, sort, of, CTI_LM_ABSENT, false)
#define IDS(bos, eos, pad)                                                                         \
    {.key = "bos_token_id", .kind = CTI_LM_ID, .value = (bos)},                                    \
        {.key = "eos_token_id", .kind = CTI_LM_ID, .value = (eos)}, {                              \
        .key = "pad_token_id", .kind = CTI_LM_ID, .value = (pad)                                   \
    }
#define NONE CTI_LM_ABSENT

/* A key with a number: its kind, the number, the default, and whether it may be null. */
#define NUMBER(name, sort, of, standard, null)                                                     \
    {.key = (name),                                                                                \
     .kind = CTI_LM_##sort,                                                                        \
     .number = CTI_LM_##of,                                                                        \
     .value = (standard),                                                                          \
     .nullable = (null)}
/* The keys of all decoders with Llama's names; the sizes differ. */
#define LLAMA_KEYS(vocab, width, layers, heads, hidden, eps)                                       \
    NUMBER("vocab_size", SIZE, VOCAB, vocab, false),                                               \
        NUMBER("hidden_size", SIZE, WIDTH, width, false),                                          \
        NUMBER("num_hidden_layers", COUNT, LAYERS, layers, false),                                 \
        NUMBER("num_attention_heads", SIZE, HEADS, heads, false),                                  \
        NUMBER("intermediate_size", SIZE, HIDDEN, hidden, false),                                  \
        NUMBER("rms_norm_eps", POSITIVE, EPS, eps, false),                                         \
        NUMBER("initializer_range", REAL, RANGE, 0.02, false),                                     \
        NUMBER("attention_dropout", RATE, ATTENTION_DROPOUT, 0, true)
#define KV_HEADS(n)           NUMBER("num_key_value_heads", SIZE, KV_HEADS, n, true)
#define HEAD_DIM(n)           NUMBER("head_dim", SIZE, HEAD_DIM, n, true)
#define MAX_LENGTH(n)         NUMBER("max_position_embeddings", SIZE, MAX_LENGTH, n, false)
#define HIDDEN_ACT(key, name) NUMBER(key, NAME, ACTIVATION, name, false)
#define TIED(flag)            NUMBER("tie_word_embeddings", FLAG, TIED, flag, false)
#define ATTENTION_BIAS(flag)  NUMBER("attention_bias", FLAG, ATTENTION_BIAS, flag, false)
#define MLP_BIAS              NUMBER("mlp_bias", FLAG, MLP_BIAS, 0, false)
#define WINDOW(n)             NUMBER("sliding_window", SIZE, WINDOW, n, true)
#define USE_WINDOW            NUMBER("use_sliding_window", FLAG, USE_WINDOW, 0, false)
#define FULL_LAYERS           NUMBER("max_window_layers", COUNT, FULL_LAYERS, 28, false)

static const cti_lm_key gpt2_keys[] = {
    NUMBER("vocab_size", SIZE, VOCAB, 50257, false),
    NUMBER("n_positions", SIZE, MAX_LENGTH, 1024, false),
    NUMBER("n_embd", SIZE, WIDTH, 768, false),
    NUMBER("n_layer", COUNT, LAYERS, 12, false),
    NUMBER("n_head", SIZE, HEADS, 12, false),
    NUMBER("n_inner", SIZE, HIDDEN, CTI_LM_ABSENT, true),
    HIDDEN_ACT("activation_function", CT_GELU_TANH),
    NUMBER("resid_pdrop", RATE, DROPOUT, 0.1, false),
    NUMBER("embd_pdrop", RATE, EMBEDDING_DROPOUT, 0.1, false),
    NUMBER("attn_pdrop", RATE, ATTENTION_DROPOUT, 0.1, false),
    NUMBER("layer_norm_epsilon", POSITIVE, EPS, 1e-5, false),
    NUMBER("initializer_range", REAL, RANGE, 0.02, false),
    NUMBER("scale_attn_weights", FLAG, SCALED, 1, false),
    NUMBER("scale_attn_by_inverse_layer_idx", FLAG, SCALED_LAYER, 0, false),
    TIED(1),
    ALIAS("hidden_size", SIZE, WIDTH),
    ALIAS("max_position_embeddings", SIZE, MAX_LENGTH),
    ALIAS("num_attention_heads", SIZE, HEADS),
    ALIAS("num_hidden_layers", COUNT, LAYERS),
    OFF("add_cross_attention", "attention to another model is not supported"),
    IDS(50256, 50256, NONE),
    END,
};
static const cti_lm_key llama_keys[] = {
    LLAMA_KEYS(32000, 4096, 32, 32, 11008, 1e-6),
    KV_HEADS(CTI_LM_ABSENT),
    HEAD_DIM(CTI_LM_ABSENT),
    MAX_LENGTH(2048),
    HIDDEN_ACT("hidden_act", CT_SILU),
    TIED(0),
    ATTENTION_BIAS(0),
    MLP_BIAS,
    IDS(1, 2, NONE),
    END,
};
static const cti_lm_key mistral_keys[] = {
    LLAMA_KEYS(32000, 4096, 32, 32, 14336, 1e-6),
    KV_HEADS(8),
    HEAD_DIM(CTI_LM_ABSENT),
    MAX_LENGTH(4096 * 32),
    HIDDEN_ACT("hidden_act", CT_SILU),
    TIED(0),
    WINDOW(4096),
    IDS(1, 2, NONE),
    END,
};
static const cti_lm_key qwen2_keys[] = {
    LLAMA_KEYS(151936, 4096, 32, 32, 22016, 1e-6),
    KV_HEADS(32),
    HEAD_DIM(CTI_LM_ABSENT),
    MAX_LENGTH(32768),
    HIDDEN_ACT("hidden_act", CT_SILU),
    TIED(0),
    WINDOW(4096),
    USE_WINDOW,
    FULL_LAYERS,
    IDS(NONE, NONE, NONE),
    END,
};
static const cti_lm_key qwen3_keys[] = {
    LLAMA_KEYS(151936, 4096, 32, 32, 22016, 1e-6),
    KV_HEADS(32),
    HEAD_DIM(128),
    MAX_LENGTH(32768),
    HIDDEN_ACT("hidden_act", CT_SILU),
    TIED(0),
    ATTENTION_BIAS(0),
    WINDOW(4096),
    USE_WINDOW,
    FULL_LAYERS,
    IDS(NONE, NONE, NONE),
    END,
};
static const cti_lm_key gemma3_keys[] = {
    LLAMA_KEYS(262208, 2304, 26, 8, 9216, 1e-6),
    KV_HEADS(4),
    HEAD_DIM(256),
    MAX_LENGTH(131072),
    HIDDEN_ACT("hidden_activation", CT_GELU_TANH),
    TIED(1),
    ATTENTION_BIAS(0),
    WINDOW(4096),
    NUMBER("query_pre_attn_scalar", POSITIVE, QUERY_SCALAR, 256, false),
    NUMBER("final_logit_softcapping", POSITIVE, FINAL_CAP, CTI_LM_ABSENT, true),
    NUMBER("sliding_window_pattern", SIZE, PATTERN, 6, false),
    OFF("use_bidirectional_attention", "attention to later tokens is not supported"),
    NO_EFFECT("attn_logit_softcapping"),
    IDS(2, 1, 0),
    END,
};
static const cti_lm_key smollm3_keys[] = {
    LLAMA_KEYS(128256, 2048, 36, 16, 11008, 1e-6),
    KV_HEADS(4),
    HEAD_DIM(CTI_LM_ABSENT),
    MAX_LENGTH(32768),
    HIDDEN_ACT("hidden_act", CT_SILU),
    TIED(1),
    ATTENTION_BIAS(0),
    MLP_BIAS,
    WINDOW(CTI_LM_ABSENT),
    USE_WINDOW,
    NUMBER("no_rope_layer_interval", SIZE, ROPE_PATTERN, 4, false),
    {.key = "no_rope_layers", .kind = CTI_LM_BY_NAME},
    IDS(128000, 128001, 128004),
    END,
};
static const cti_lm_key olmo2_keys[] = {
    LLAMA_KEYS(50304, 4096, 32, 32, 11008, 1e-5),
    KV_HEADS(CTI_LM_ABSENT),
    HEAD_DIM(CTI_LM_ABSENT),
    MAX_LENGTH(2048),
    HIDDEN_ACT("hidden_act", CT_SILU),
    TIED(0),
    ATTENTION_BIAS(0),
    IDS(NONE, 50279, 1),
    END,
};
static const cti_lm_key gpt_neox_keys[] = {
    NUMBER("vocab_size", SIZE, VOCAB, 50432, false),
    NUMBER("hidden_size", SIZE, WIDTH, 6144, false),
    NUMBER("num_hidden_layers", COUNT, LAYERS, 44, false),
    NUMBER("num_attention_heads", SIZE, HEADS, 64, false),
    NUMBER("intermediate_size", SIZE, HIDDEN, 24576, false),
    HIDDEN_ACT("hidden_act", CT_GELU),
    NUMBER("attention_dropout", RATE, ATTENTION_DROPOUT, 0, false),
    NUMBER("hidden_dropout", RATE, DROPOUT, 0, false),
    MAX_LENGTH(2048),
    NUMBER("initializer_range", REAL, RANGE, 0.02, false),
    NUMBER("layer_norm_eps", POSITIVE, EPS, 1e-5, false),
    NUMBER("use_parallel_residual", FLAG, PARALLEL, 1, false),
    TIED(0),
    ATTENTION_BIAS(1),
    HEAD_DIM(CTI_LM_ABSENT),
    IDS(0, 2, NONE),
    END,
};
static const cti_lm_key bert_keys[] = {
    NUMBER("vocab_size", SIZE, VOCAB, 30522, false),
    NUMBER("hidden_size", SIZE, WIDTH, 768, false),
    NUMBER("num_hidden_layers", COUNT, LAYERS, 12, false),
    NUMBER("num_attention_heads", SIZE, HEADS, 12, false),
    NUMBER("intermediate_size", SIZE, HIDDEN, 3072, false),
    HIDDEN_ACT("hidden_act", CT_GELU),
    NUMBER("hidden_dropout_prob", RATE, DROPOUT, 0.1, false),
    NUMBER("attention_probs_dropout_prob", RATE, ATTENTION_DROPOUT, 0.1, false),
    NUMBER("classifier_dropout", RATE, CLASS_DROPOUT, CTI_LM_ABSENT, true),
    MAX_LENGTH(512),
    NUMBER("type_vocab_size", SIZE, TYPES, 2, false),
    NUMBER("initializer_range", REAL, RANGE, 0.02, false),
    NUMBER("layer_norm_eps", POSITIVE, EPS, 1e-12, false),
    TIED(1),
    OFF("is_decoder", "a decoder is not supported"),
    NO_EFFECT("is_causal"),
    NO_EFFECT("sliding_window"),
    NO_EFFECT("layer_types"),
    NO_EFFECT("attention_chunk_size"),
    {.key = "position_embedding_type",
     .kind = CTI_LM_ABSOLUTE,
     .why = "only \"absolute\" is supported; transformers 5 ignores it"},
    IDS(NONE, NONE, 0),
    END,
};

/* Llama's names without the norms of a layer. */
#define LLAMA_PARTS                                                                                \
    .base = "model", .embed = "embed_tokens", .layers = "layers", .norm = "norm",                  \
    .head = "lm_head", .layer.attention = {"self_attn"}, .layer.mha.q = "q_proj",                  \
    .layer.mha.k = "k_proj", .layer.mha.v = "v_proj", .layer.mha.out = "o_proj",                   \
    .layer.feed_forward = "mlp", .layer.feed = {"up_proj", "gate_proj", "down_proj"}
#define LLAMA_NAMES  LLAMA_PARTS, .layer.norm = {"input_layernorm", "post_attention_layernorm"}
#define QK_NORMS     .layer.mha.q_norm = "q_norm", .layer.mha.k_norm = "k_norm"
#define PEFT_TARGETS .peft_targets = {"q_proj", "v_proj"}
#define LLAMA_FAMILY(type, with_head, without, table)                                              \
    .model_type = (type), .causal = (with_head), .bare = (without), .keys = (table), .rms = true,  \
    .padding_idx = true, .partial = 1

static const cti_lm_family families[] = {
    {
        .model_type = "gpt2",
        .peft_targets = {"c_attn"},
        .causal = "GPT2LMHeadModel",
        .bare = "GPT2Model",
        .keys = gpt2_keys,
        .names = {.base = "transformer",
                  .embed = "wte",
                  .positions = "wpe",
                  .layers = "h",
                  .norm = "ln_f",
                  .head = "lm_head",
                  .layer = {.attention = {"attn"},
                            .mha = {.qkv = "c_attn", .out = "c_proj"},
                            .feed_forward = "mlp",
                            .feed = {.in = "c_fc", .out = "c_proj"},
                            .norm = {"ln_1", "ln_2"}}},
        .transposed = true,
        .qkv_bias = true,
        .o_bias = true,
        .up_bias = true,
    },
    {LLAMA_FAMILY("llama", "LlamaForCausalLM", "LlamaModel", llama_keys), PEFT_TARGETS,
     .names = {LLAMA_NAMES}, .rope_base = 10000},
    {LLAMA_FAMILY("mistral", "MistralForCausalLM", "MistralModel", mistral_keys), PEFT_TARGETS,
     .names = {LLAMA_NAMES}, .rope_base = 10000, .one_window = true},
    {LLAMA_FAMILY("qwen2", "Qwen2ForCausalLM", "Qwen2Model", qwen2_keys), PEFT_TARGETS,
     .names = {LLAMA_NAMES}, .rope_base = 10000, .qkv_bias = true},
    {LLAMA_FAMILY("qwen3", "Qwen3ForCausalLM", "Qwen3Model", qwen3_keys), PEFT_TARGETS,
     .names = {LLAMA_NAMES, QK_NORMS}, .rope_base = 10000},
    {LLAMA_FAMILY("gemma3_text", "Gemma3ForCausalLM", "Gemma3TextModel", gemma3_keys), PEFT_TARGETS,
     .names = {LLAMA_PARTS, QK_NORMS,
               .layer.norm = {"input_layernorm", "pre_feedforward_layernorm"},
               .layer.norm_out = {"post_attention_layernorm", "post_feedforward_layernorm"}},
     .rope_base = 1e6, .local_base = 1e4, .norm_offset = 1, .embed_scaled = true},
    {LLAMA_FAMILY("smollm3", "SmolLM3ForCausalLM", "SmolLM3Model", smollm3_keys),
     .names = {LLAMA_NAMES}, .rope_base = 2e6, .window_by_types = true},
    {LLAMA_FAMILY("olmo2", "Olmo2ForCausalLM", "Olmo2Model", olmo2_keys),
     .names = {LLAMA_PARTS, QK_NORMS, .layer.mha.wide_qk_norm = true,
               .layer.norm_out = {"post_attention_layernorm", "post_feedforward_layernorm"}},
     .rope_base = 10000},
    {
        .model_type = "gpt_neox",
        .peft_targets = {"query_key_value"},
        .causal = "GPTNeoXForCausalLM",
        .bare = "GPTNeoXModel",
        .keys = gpt_neox_keys,
        .names = {.base = "gpt_neox",
                  .embed = "embed_in",
                  .layers = "layers",
                  .norm = "final_layer_norm",
                  .head = "lm_head",
                  .old_head = "embed_out",
                  .layer = {.attention = {"attention"},
                            .mha = {.qkv = "query_key_value", .interleaved = true, .out = "dense"},
                            .feed_forward = "mlp",
                            .feed = {.in = "dense_h_to_4h", .out = "dense_4h_to_h"},
                            .norm = {"input_layernorm", "post_attention_layernorm"}}},
        .up_bias = true,
        .rope_base = 10000,
        .partial = 0.25,
    },
    {
        .model_type = "bert",
        .peft_targets = {"query", "value"},
        .bare = "BertModel",
        .masked = "BertForMaskedLM",
        .classes = "BertForSequenceClassification",
        .keys = bert_keys,
        .names = {.base = "bert",
                  .embed = "embeddings.word_embeddings",
                  .positions = "embeddings.position_embeddings",
                  .types = "embeddings.token_type_embeddings",
                  .embed_norm = "embeddings.LayerNorm",
                  .layers = "encoder.layer",
                  .layer = {.attention = {"attention"},
                            .mha = {.q = "self.query",
                                    .k = "self.key",
                                    .v = "self.value",
                                    .out = "output.dense"},
                            .feed = {.in = "intermediate.dense", .out = "output.dense"},
                            .norm = {"attention.output.LayerNorm", "output.LayerNorm"}}},
        .post_norm = true,
        .bidirectional = true,
        .padding_idx = true,
        .qkv_bias = true,
        .o_bias = true,
        .up_bias = true,
    },
};

const cti_lm_family *cti_lm_family_of(cti_text model_type) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!cti_text_compare(cti_text_of(families[i].model_type), model_type)) return &families[i];
    return NULL;
}

void cti_lm_family_names(char *out, size_t size) {
    *out = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "%s%s", used ? ", " : "", families[i].model_type);
    }
}
