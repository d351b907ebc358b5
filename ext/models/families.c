/* The families of models: the keys of their config.json with transformers' defaults, and the names
 * of their state dict. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#define END                   {.key = NULL}
#define NO_EFFECT(name)       {.key = (name), .kind = CTI_LM_NO_EFFECT}
#define OFF(name, text)       {.key = (name), .kind = CTI_LM_OFF, .why = (text)}
#define ALIAS(name, sort, of) NUMBER(name, sort, of, CTI_LM_ABSENT, REFUSED)
#define IDS(bos, eos, pad)                                                                         \
    {.key = "bos_token_id", .kind = CTI_LM_ID, .value = (bos)},                                    \
        {.key = "eos_token_id", .kind = CTI_LM_ID, .value = (eos)}, {                              \
        .key = "pad_token_id", .kind = CTI_LM_ID, .value = (pad)                                   \
    }
#define NONE CTI_LM_ABSENT

/* A key with a number: its kind, the number, the default, and what null means. */
#define NUMBER(name, sort, of, standard, none)                                                     \
    {.key = (name),                                                                                \
     .kind = CTI_LM_##sort,                                                                        \
     .number = CTI_LM_##of,                                                                        \
     .value = (standard),                                                                          \
     .null = CTI_LM_NULL_##none}
/* The keys of all decoders with Llama's names; the sizes differ. */
#define LLAMA_KEYS(vocab, width, layers, heads, hidden, eps)                                       \
    LLAMA_KEYS_WITH("intermediate_size", vocab, width, layers, heads, hidden, eps)
#define LLAMA_KEYS_WITH(hidden_key, vocab, width, layers, heads, hidden, eps)                      \
    NUMBER("vocab_size", SIZE, VOCAB, vocab, REFUSED),                                             \
        NUMBER("hidden_size", SIZE, WIDTH, width, REFUSED),                                        \
        NUMBER("num_hidden_layers", COUNT, LAYERS, layers, REFUSED),                               \
        NUMBER("num_attention_heads", SIZE, HEADS, heads, REFUSED),                                \
        NUMBER(hidden_key, SIZE, HIDDEN, hidden, REFUSED),                                         \
        NUMBER("rms_norm_eps", POSITIVE, EPS, eps, REFUSED),                                       \
        NUMBER("initializer_range", REAL, RANGE, 0.02, REFUSED),                                   \
        NUMBER("attention_dropout", RATE, ATTENTION_DROPOUT, 0, ABSENT), TOKEN_DROPOUT
/* The dropout of a decoder's classifier of tokens. */
#define TOKEN_DROPOUT                                                                              \
    NUMBER("hidden_dropout", RATE, CLASS_DROPOUT, 0.1, DEFAULT),                                   \
        NUMBER("classifier_dropout", RATE, CLASS_DROPOUT, CTI_LM_ABSENT, ABSENT)
#define KV_HEADS(n)           NUMBER("num_key_value_heads", SIZE, KV_HEADS, n, ABSENT)
#define HEAD_DIM(n)           NUMBER("head_dim", SIZE, HEAD_DIM, n, ABSENT)
#define MAX_LENGTH(n)         NUMBER("max_position_embeddings", SIZE, MAX_LENGTH, n, REFUSED)
#define HIDDEN_ACT(key, name) NUMBER(key, NAME, ACTIVATION, name, REFUSED)
#define TIED(flag)            NUMBER("tie_word_embeddings", FLAG, TIED, flag, REFUSED)
#define ATTENTION_BIAS(flag)  NUMBER("attention_bias", FLAG, ATTENTION_BIAS, flag, REFUSED)
#define MLP_BIAS              NUMBER("mlp_bias", FLAG, MLP_BIAS, 0, REFUSED)
#define WINDOW(n)             NUMBER("sliding_window", SIZE, WINDOW, n, ABSENT)
#define USE_WINDOW            NUMBER("use_sliding_window", FLAG, USE_WINDOW, 0, REFUSED)
#define FULL_LAYERS           NUMBER("max_window_layers", COUNT, FULL_LAYERS, 28, REFUSED)

static const cti_lm_key gpt2_keys[] = {
    NUMBER("vocab_size", SIZE, VOCAB, 50257, REFUSED),
    NUMBER("n_positions", SIZE, MAX_LENGTH, 1024, REFUSED),
    NUMBER("n_embd", SIZE, WIDTH, 768, REFUSED),
    NUMBER("n_layer", COUNT, LAYERS, 12, REFUSED),
    NUMBER("n_head", SIZE, HEADS, 12, REFUSED),
    NUMBER("n_inner", SIZE, HIDDEN, CTI_LM_ABSENT, ABSENT),
    HIDDEN_ACT("activation_function", CT_GELU_TANH),
    NUMBER("resid_pdrop", RATE, DROPOUT, 0.1, REFUSED),
    NUMBER("embd_pdrop", RATE, EMBEDDING_DROPOUT, 0.1, REFUSED),
    NUMBER("attn_pdrop", RATE, ATTENTION_DROPOUT, 0.1, REFUSED),
    NUMBER("layer_norm_epsilon", POSITIVE, EPS, 1e-5, REFUSED),
    NUMBER("initializer_range", REAL, RANGE, 0.02, REFUSED),
    NUMBER("scale_attn_weights", FLAG, SCALED, 1, REFUSED),
    NUMBER("scale_attn_by_inverse_layer_idx", FLAG, SCALED_LAYER, 0, REFUSED),
    TIED(1),
    ALIAS("hidden_size", SIZE, WIDTH),
    ALIAS("max_position_embeddings", SIZE, MAX_LENGTH),
    ALIAS("num_attention_heads", SIZE, HEADS),
    ALIAS("num_hidden_layers", COUNT, LAYERS),
    TOKEN_DROPOUT,
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
    NUMBER("query_pre_attn_scalar", POSITIVE, QUERY_SCALAR, 256, REFUSED),
    NUMBER("final_logit_softcapping", POSITIVE, FINAL_CAP, CTI_LM_ABSENT, ABSENT),
    NUMBER("sliding_window_pattern", SIZE, PATTERN, 6, DEFAULT),
    NUMBER("use_bidirectional_attention", FLAG, BOTH_WAYS, 0, ABSENT),
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
    NUMBER("no_rope_layer_interval", SIZE, ROPE_PATTERN, 4, REFUSED),
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
#define GRANITE_SCALES(none)                                                                       \
    NUMBER("embedding_multiplier", POSITIVE, EMBED_SCALE, 1, REFUSED),                             \
        NUMBER("attention_multiplier", POSITIVE, SCORE_SCALE, 1, none),                            \
        NUMBER("residual_multiplier", POSITIVE, RESIDUAL_SCALE, 1, REFUSED),                       \
        NUMBER("logits_scaling", POSITIVE, LOGITS_DIVISOR, 1, none)
static const cti_lm_key granite_keys[] = {
    LLAMA_KEYS(32000, 4096, 32, 32, 11008, 1e-6),
    KV_HEADS(CTI_LM_ABSENT),
    HEAD_DIM(CTI_LM_ABSENT),
    MAX_LENGTH(2048),
    HIDDEN_ACT("hidden_act", CT_SILU),
    TIED(0),
    ATTENTION_BIAS(0),
    MLP_BIAS,
    GRANITE_SCALES(REFUSED),
    IDS(1, 2, NONE),
    END,
};
/* Granite 4.0. What Mamba layers and routed experts read has no effect, because there are none. */
static const cti_lm_key granite_hybrid_keys[] = {
    LLAMA_KEYS_WITH("shared_intermediate_size", 32000, 4096, 32, 32, 1024, 1e-6),
    KV_HEADS(CTI_LM_ABSENT),
    HEAD_DIM(CTI_LM_ABSENT),
    MAX_LENGTH(2048),
    HIDDEN_ACT("hidden_act", CT_SILU),
    TIED(0),
    ATTENTION_BIAS(0),
    GRANITE_SCALES(ABSENT),
    NUMBER("num_local_experts", COUNT, EXPERTS, 8, REFUSED),
    NUMBER("position_embedding_type", IS_ROPE, ROPED, 0, DEFAULT),
    {.key = "layers_block_type", .kind = CTI_LM_BY_NAME},
    NO_EFFECT("intermediate_size"),
    NO_EFFECT("num_experts_per_tok"),
    NO_EFFECT("output_router_logits"),
    NO_EFFECT("router_aux_loss_coef"),
    NO_EFFECT("mamba_n_heads"),
    NO_EFFECT("mamba_n_groups"),
    NO_EFFECT("mamba_d_state"),
    NO_EFFECT("mamba_d_head"),
    NO_EFFECT("mamba_d_conv"),
    NO_EFFECT("mamba_expand"),
    NO_EFFECT("mamba_chunk_size"),
    NO_EFFECT("mamba_conv_bias"),
    NO_EFFECT("mamba_proj_bias"),
    NO_EFFECT("time_step_limit"),
    NO_EFFECT("init_method"),
    NO_EFFECT("normalization_function"),
    IDS(1, 2, NONE),
    END,
};
static const cti_lm_key gpt_neox_keys[] = {
    NUMBER("vocab_size", SIZE, VOCAB, 50432, REFUSED),
    NUMBER("hidden_size", SIZE, WIDTH, 6144, REFUSED),
    NUMBER("num_hidden_layers", COUNT, LAYERS, 44, REFUSED),
    NUMBER("num_attention_heads", SIZE, HEADS, 64, REFUSED),
    NUMBER("intermediate_size", SIZE, HIDDEN, 24576, REFUSED),
    HIDDEN_ACT("hidden_act", CT_GELU),
    NUMBER("attention_dropout", RATE, ATTENTION_DROPOUT, 0, REFUSED),
    NUMBER("hidden_dropout", RATE, DROPOUT, 0, REFUSED),
    NUMBER("classifier_dropout", RATE, CLASS_DROPOUT, 0.1, REFUSED),
    MAX_LENGTH(2048),
    NUMBER("initializer_range", REAL, RANGE, 0.02, REFUSED),
    NUMBER("layer_norm_eps", POSITIVE, EPS, 1e-5, REFUSED),
    NUMBER("use_parallel_residual", FLAG, PARALLEL, 1, REFUSED),
    TIED(0),
    ATTENTION_BIAS(1),
    HEAD_DIM(CTI_LM_ABSENT),
    IDS(0, 2, NONE),
    END,
};
/* What a mask of an encoder does not read. */
#define ENCODER_KEYS                                                                               \
    NO_EFFECT("is_causal"), NO_EFFECT("sliding_window"), NO_EFFECT("layer_types"),                 \
        NO_EFFECT("attention_chunk_size")
#define BERT_KEYS(vocab)                                                                           \
    NUMBER("vocab_size", SIZE, VOCAB, vocab, REFUSED),                                             \
        NUMBER("hidden_size", SIZE, WIDTH, 768, REFUSED),                                          \
        NUMBER("num_hidden_layers", COUNT, LAYERS, 12, REFUSED),                                   \
        NUMBER("num_attention_heads", SIZE, HEADS, 12, REFUSED),                                   \
        NUMBER("intermediate_size", SIZE, HIDDEN, 3072, REFUSED),                                  \
        HIDDEN_ACT("hidden_act", CT_GELU),                                                         \
        NUMBER("hidden_dropout_prob", RATE, DROPOUT, 0.1, REFUSED),                                \
        NUMBER("attention_probs_dropout_prob", RATE, ATTENTION_DROPOUT, 0.1, REFUSED),             \
        NUMBER("classifier_dropout", RATE, CLASS_DROPOUT, CTI_LM_ABSENT, ABSENT), MAX_LENGTH(512), \
        NUMBER("type_vocab_size", SIZE, TYPES, 2, REFUSED),                                        \
        NUMBER("initializer_range", REAL, RANGE, 0.02, REFUSED),                                   \
        NUMBER("layer_norm_eps", POSITIVE, EPS, 1e-12, REFUSED), TIED(1),                          \
        OFF("is_decoder", "a decoder is not supported"), ENCODER_KEYS, {                           \
        .key = "position_embedding_type", .kind = CTI_LM_ABSOLUTE,                                 \
        .why = "only \"absolute\" is supported; transformers 5 ignores it"                         \
    }
static const cti_lm_key bert_keys[] = {BERT_KEYS(30522), IDS(NONE, NONE, 0), END};
static const cti_lm_key roberta_keys[] = {BERT_KEYS(50265), IDS(0, 2, 1), END};
static const cti_lm_key xlm_roberta_keys[] = {BERT_KEYS(30522), IDS(0, 2, 1), END};
static const cti_lm_key distilbert_keys[] = {
    NUMBER("vocab_size", SIZE, VOCAB, 30522, REFUSED),
    MAX_LENGTH(512),
    NUMBER("dim", SIZE, WIDTH, 768, REFUSED),
    NUMBER("n_layers", COUNT, LAYERS, 6, REFUSED),
    NUMBER("n_heads", SIZE, HEADS, 12, REFUSED),
    NUMBER("hidden_dim", SIZE, HIDDEN, 3072, REFUSED),
    HIDDEN_ACT("activation", CT_GELU),
    NUMBER("dropout", RATE, DROPOUT, 0.1, REFUSED),
    NUMBER("attention_dropout", RATE, ATTENTION_DROPOUT, 0.1, REFUSED),
    NUMBER("seq_classif_dropout", RATE, CLASS_DROPOUT, 0.2, REFUSED),
    NUMBER("initializer_range", REAL, RANGE, 0.02, REFUSED),
    TIED(1),
    ALIAS("hidden_size", SIZE, WIDTH),
    ALIAS("num_attention_heads", SIZE, HEADS),
    ALIAS("num_hidden_layers", COUNT, LAYERS),
    NUMBER("sinusoidal_pos_embds", FLAG, SINES, 0, REFUSED), /* a file has the table */
    NO_EFFECT("qa_dropout"),
    NO_EFFECT("tie_weights_"),
    ENCODER_KEYS,
    IDS(NONE, NONE, 0),
    END,
};

/* The names in GGUF files. A family uses those of the modules that it has. */
#define GGUF_PARTS                                                                                 \
    .embed = "token_embd", .positions = "position_embd", .types = "token_types",                   \
    .embed_norm = "token_embd_norm", .layers = "blk", .norm = "output_norm", .head = "output",     \
    .layer.mha = {.qkv = "attn_qkv",                                                               \
                  .q = "attn_q",                                                                   \
                  .k = "attn_k",                                                                   \
                  .v = "attn_v",                                                                   \
                  .q_norm = "attn_q_norm",                                                         \
                  .k_norm = "attn_k_norm",                                                         \
                  .out = "attn_output"},                                                           \
    .layer.feed = {.in = "ffn_up", .gate = "ffn_gate", .out = "ffn_down"}
static const cti_lm_names gguf_names = {GGUF_PARTS, .layer.norm = {"attn_norm", "ffn_norm"},
                                        .layer.norm_out = {"post_attention_norm", "post_ffw_norm"}},
                          gguf_post_norm_names = {
                              GGUF_PARTS, .layer.norm = {"attn_output_norm", "layer_output_norm"}};
#define GGUF(name)            .gguf = {.arch = (name), .names = &gguf_names}
#define GGUF_WITH(name, what) .gguf = {.arch = (name), .names = &gguf_names, .what = true}
#define GGUF_LLAMA                                                                                 \
    .gguf = {.arch = "llama", .names = &gguf_names, .neighbours = true, .rope_freqs = true}

/* Llama's names without the norms of a layer. */
#define LLAMA_PARTS                                                                                \
    LLAMA_PARTS_BUT_FEED, .layer.feed_forward = "mlp",                                             \
                          .layer.feed = {.in = "up_proj", .gate = "gate_proj", .out = "down_proj"}
#define LLAMA_PARTS_BUT_FEED                                                                       \
    .base = "model", .embed = "embed_tokens", .layers = "layers", .norm = "norm",                  \
    .head = "lm_head", .layer.attention = {"self_attn"}, .layer.mha.q = "q_proj",                  \
    .layer.mha.k = "k_proj", .layer.mha.v = "v_proj", .layer.mha.out = "o_proj"
#define LLAMA_NAMES  LLAMA_PARTS, .layer.norm = {"input_layernorm", "post_attention_layernorm"}
#define QK_NORMS     .layer.mha.q_norm = "q_norm", .layer.mha.k_norm = "k_norm"
#define PEFT_TARGETS .peft_targets = {"q_proj", "v_proj"}
#define LLAMA_FAMILY(type, table)                                                                  \
    .model_type = (type), .keys = (table), .rms = true, .padding_idx = true, .partial = 1

/* The heads of decoders. A classifier of sequences reads the last token; both classifiers are the
 * same code in all families of transformers, but some lack the one of tokens. */
#define CAUSAL(name) {.kind = CT_LM_HEAD_CAUSAL, .architecture = (name)}
#define BARE(name)   {.kind = CT_LM_HEAD_NONE, .architecture = (name)}
#define SCORE(name)                                                                                \
    {.kind = CT_LM_HEAD_SEQUENCE, .architecture = (name), .pick = CTI_LM_LAST, .linear = "score"}
#define TOKENS(name, path)                                                                         \
    {.kind = CT_LM_HEAD_TOKEN,                                                                     \
     .architecture = (name),                                                                       \
     .linear = (path),                                                                             \
     .bias = true,                                                                                 \
     .dropout = CTI_LM_CLASS_DROPOUT}
#define DECODER_HEADS(name)                                                                        \
    .heads = {CAUSAL(name "ForCausalLM"), BARE(name "Model"),                                      \
              SCORE(name "ForSequenceClassification"),                                             \
              TOKENS(name "ForTokenClassification", "score")}

#define GEMMA3_CAUSAL CAUSAL("Gemma3ForCausalLM")
#define GEMMA3_BARE   BARE("Gemma3TextModel")
#define GEMMA3_SCORE  SCORE("Gemma3TextForSequenceClassification")
#define GEMMA3_FAMILY                                                                              \
    LLAMA_FAMILY("gemma3_text", gemma3_keys), PEFT_TARGETS,                                        \
        .names = {LLAMA_PARTS, QK_NORMS,                                                           \
                  .layer.norm = {"input_layernorm", "pre_feedforward_layernorm"},                  \
                  .layer.norm_out = {"post_attention_layernorm", "post_feedforward_layernorm"}},   \
        .rope_base = 1e6, .local_base = 1e4, .norm_offset = 1, .embed_scaled = true

/* Encoders. */
#define ENCODER_PARTS                                                                              \
    .post_norm = true, .bidirectional = true, .padding_idx = true, .qkv_bias = true,               \
    .o_bias = true, .up_bias = true,                                                               \
    .gguf = {.arch = "bert", .names = &gguf_post_norm_names, .tanh = true}
#define BERT_PARTS ENCODER_PARTS, .peft_targets = {"query", "value"}
#define BERT_NAMES                                                                                 \
    .embed = "embeddings.word_embeddings", .positions = "embeddings.position_embeddings",          \
    .types = "embeddings.token_type_embeddings", .embed_norm = "embeddings.LayerNorm",             \
    .layers = "encoder.layer", .pooler = "pooler.dense",                                           \
    .layer = {                                                                                     \
        .attention = {"attention"},                                                                \
        .mha = {.q = "self.query", .k = "self.key", .v = "self.value", .out = "output.dense"},     \
        .feed = {.in = "intermediate.dense", .out = "output.dense"},                               \
        .norm = {"attention.output.LayerNorm", "output.LayerNorm"}}
#define ROBERTA_HEADS(name)                                                                        \
    .heads = {BARE(name "Model"),                                                                  \
              {.kind = CT_LM_HEAD_MASKED,                                                          \
               .architecture = name "ForMaskedLM",                                                 \
               .dense = "lm_head.dense",                                                           \
               .activation = ct_gelu,                                                              \
               .norm = "lm_head.layer_norm",                                                       \
               .linear = "lm_head.decoder",                                                        \
               .bias = true,                                                                       \
               .bias_owner = "lm_head"},                                                           \
              {.kind = CT_LM_HEAD_SEQUENCE,                                                        \
               .architecture = name "ForSequenceClassification",                                   \
               .pick = CTI_LM_FIRST,                                                               \
               .dense = "classifier.dense",                                                        \
               .activation = ct_tanh,                                                              \
               .linear = "classifier.out_proj",                                                    \
               .bias = true,                                                                       \
               .dropout = CTI_LM_CLASS_DROPOUT,                                                    \
               .dense_dropout = true},                                                             \
              TOKENS(name "ForTokenClassification", "classifier")}

static const cti_lm_family families[] = {
    {
        .model_type = "gpt2",
        .peft_targets = {"c_attn"},
        .heads = {CAUSAL("GPT2LMHeadModel"), BARE("GPT2Model"),
                  SCORE("GPT2ForSequenceClassification"),
                  TOKENS("GPT2ForTokenClassification", "classifier")},
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
        GGUF("gpt2"),
    },
    {LLAMA_FAMILY("llama", llama_keys), DECODER_HEADS("Llama"), PEFT_TARGETS,
     .names = {LLAMA_NAMES}, .rope_base = 10000, GGUF_LLAMA},
    {LLAMA_FAMILY("mistral", mistral_keys), DECODER_HEADS("Mistral"), PEFT_TARGETS,
     .names = {LLAMA_NAMES}, .rope_base = 10000, .one_window = true, GGUF_LLAMA},
    {LLAMA_FAMILY("qwen2", qwen2_keys), DECODER_HEADS("Qwen2"), PEFT_TARGETS,
     .names = {LLAMA_NAMES}, .rope_base = 10000, .qkv_bias = true, GGUF("qwen2")},
    {LLAMA_FAMILY("qwen3", qwen3_keys), DECODER_HEADS("Qwen3"), PEFT_TARGETS,
     .names = {LLAMA_NAMES, QK_NORMS}, .rope_base = 10000, GGUF("qwen3")},
    {GEMMA3_FAMILY, .heads = {GEMMA3_CAUSAL, GEMMA3_BARE, GEMMA3_SCORE}, GGUF("gemma3")},
    /* EmbeddingGemma */
    {GEMMA3_FAMILY, .heads = {GEMMA3_BARE, GEMMA3_CAUSAL, GEMMA3_SCORE}, .bidirectional = true,
     GGUF("gemma-embedding")},
    {LLAMA_FAMILY("smollm3", smollm3_keys), DECODER_HEADS("SmolLM3"), .names = {LLAMA_NAMES},
     .rope_base = 2e6, .window_by_types = true, GGUF_WITH("smollm3", neighbours)},
    {LLAMA_FAMILY("olmo2", olmo2_keys),
     .heads = {CAUSAL("Olmo2ForCausalLM"), BARE("Olmo2Model"),
               SCORE("Olmo2ForSequenceClassification")},
     .names = {LLAMA_PARTS, QK_NORMS, .layer.mha.wide_qk_norm = true,
               .layer.norm_out = {"post_attention_layernorm", "post_feedforward_layernorm"}},
     .rope_base = 10000,
     .gguf = {.arch = "olmo2", .names = &gguf_names, .needs_head = true, .windows = true}},
    {LLAMA_FAMILY("granite", granite_keys),
     .heads = {CAUSAL("GraniteForCausalLM"), BARE("GraniteModel")}, .names = {LLAMA_NAMES},
     .rope_base = 10000, GGUF_WITH("granite", neighbours)},
    {LLAMA_FAMILY("granitemoehybrid", granite_hybrid_keys),
     .heads = {CAUSAL("GraniteMoeHybridForCausalLM"), BARE("GraniteMoeHybridModel")},
     .names = {LLAMA_PARTS_BUT_FEED, .layer.norm = {"input_layernorm", "post_attention_layernorm"},
               .layer.feed_forward = "shared_mlp",
               .layer.feed = {.gate_in = "input_linear", .out = "output_linear"}},
     .rope_base = 10000, .needs_types = true, GGUF_WITH("granite", neighbours)},
    {
        .model_type = "gpt_neox",
        .peft_targets = {"query_key_value"},
        .heads = {CAUSAL("GPTNeoXForCausalLM"), BARE("GPTNeoXModel"),
                  SCORE("GPTNeoXForSequenceClassification"),
                  TOKENS("GPTNeoXForTokenClassification", "classifier")},
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
        .gguf = {.arch = "gptneox", .names = &gguf_names, .needs_head = true, .tanh = true},
    },
    {BERT_PARTS, .model_type = "bert",
     .heads = {BARE("BertModel"),
               {.kind = CT_LM_HEAD_MASKED,
                .architecture = "BertForMaskedLM",
                .dense = "cls.predictions.transform.dense",
                .norm = "cls.predictions.transform.LayerNorm",
                .linear = "cls.predictions.decoder",
                .bias = true,
                .bias_owner = "cls.predictions"},
               {.kind = CT_LM_HEAD_SEQUENCE,
                .architecture = "BertForSequenceClassification",
                .pick = CTI_LM_POOLER,
                .linear = "classifier",
                .bias = true,
                .dropout = CTI_LM_CLASS_DROPOUT},
               TOKENS("BertForTokenClassification", "classifier")},
     .keys = bert_keys, .names = {.base = "bert", BERT_NAMES}},
    {BERT_PARTS, ROBERTA_HEADS("Roberta"), .model_type = "roberta", .keys = roberta_keys,
     .names = {.base = "roberta", BERT_NAMES}, .behind_padding = true},
    {BERT_PARTS, ROBERTA_HEADS("XLMRoberta"), .model_type = "xlm-roberta", .keys = xlm_roberta_keys,
     .names = {.base = "roberta", BERT_NAMES}, .behind_padding = true},
    {
        ENCODER_PARTS,
        .model_type = "distilbert",
        .peft_targets = {"q_lin", "v_lin"},
        .heads = {BARE("DistilBertModel"),
                  {.kind = CT_LM_HEAD_MASKED,
                   .architecture = "DistilBertForMaskedLM",
                   .dense = "vocab_transform",
                   .norm = "vocab_layer_norm",
                   .linear = "vocab_projector",
                   .bias = true},
                  {.kind = CT_LM_HEAD_SEQUENCE,
                   .architecture = "DistilBertForSequenceClassification",
                   .pick = CTI_LM_FIRST,
                   .dense = "pre_classifier",
                   .activation = ct_relu,
                   .linear = "classifier",
                   .bias = true,
                   .dropout = CTI_LM_CLASS_DROPOUT},
                  {.kind = CT_LM_HEAD_TOKEN,
                   .architecture = "DistilBertForTokenClassification",
                   .linear = "classifier",
                   .bias = true,
                   .dropout = CTI_LM_DROPOUT}},
        .keys = distilbert_keys,
        .names = {.base = "distilbert",
                  .embed = "embeddings.word_embeddings",
                  .positions = "embeddings.position_embeddings",
                  .embed_norm = "embeddings.LayerNorm",
                  .layers = "transformer.layer",
                  .layer = {.attention = {"attention"},
                            .mha = {.q = "q_lin", .k = "k_lin", .v = "v_lin", .out = "out_lin"},
                            .feed_forward = "ffn",
                            .feed = {.in = "lin1", .out = "lin2"},
                            .norm = {"sa_layer_norm", "output_layer_norm"}}},
        .eps = 1e-12,
        .attention_undropped = true,
    },
};

const cti_lm_family *cti_lm_family_of(cti_text model_type) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!cti_text_compare(cti_text_of(families[i].model_type), model_type)) return &families[i];
    return NULL;
}

const cti_lm_family *cti_lm_family_both_ways(const cti_lm_family *family) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (families[i].bidirectional && !strcmp(families[i].model_type, family->model_type))
            return &families[i];
    return NULL;
}

const cti_lm_family *cti_lm_family_of_gguf(cti_text arch) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!cti_text_compare(cti_text_of(families[i].gguf.arch), arch)) return &families[i];
    return NULL;
}

/* The first row of the same architecture of GGUF that `is_wanted`; NULL: there is none. */
static const cti_lm_family *family_beside(const cti_lm_family *family,
                                          bool (*is_wanted)(const cti_lm_family *row)) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i].gguf.arch, family->gguf.arch) && is_wanted(&families[i]))
            return &families[i];
    return NULL;
}

static bool has_no_types(const cti_lm_family *row) { return !row->names.types; }

static bool chooses_rope(const cti_lm_family *row) {
    const cti_lm_key *key = row->keys;
    while (key->key && key->kind != CTI_LM_IS_ROPE) key++;
    return key->key != NULL;
}

const cti_lm_family *cti_lm_family_without_types(const cti_lm_family *family) {
    return family_beside(family, has_no_types);
}

const cti_lm_family *cti_lm_family_without_rope(const cti_lm_family *family) {
    return family_beside(family, chooses_rope);
}

/* Appends a name to a list of names. */
static void family_name_add(char *out, size_t size, const char *name) {
    const size_t used = strlen(out);
    snprintf(out + used, size - used, "%s%s", used ? ", " : "", name);
}

void cti_lm_family_names(char *out, size_t size) {
    *out = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (cti_lm_family_of(cti_text_of(families[i].model_type)) == &families[i])
            family_name_add(out, size, families[i].model_type);
}

void cti_lm_family_gguf_names(char *out, size_t size) {
    *out = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (cti_lm_family_of_gguf(cti_text_of(families[i].gguf.arch)) == &families[i])
            family_name_add(out, size, families[i].gguf.arch);
}
