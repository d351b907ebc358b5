/* The families of models: the keys of their config.json with transformers' defaults, and the names
 * of their state dict. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#define END              {.key = NULL}
#define FALSE_ONLY(name) {.key = (name), .kind = CTI_LM_ONLY, .value = 0}

/* The keys of all decoders with Llama's names; the sizes differ. */
#define LLAMA_KEYS(vocab, width, layers, heads, hidden, eps)                                       \
    {"vocab_size", CTI_LM_SIZE, CTI_LM_VOCAB, vocab, false},                                       \
        {"hidden_size", CTI_LM_SIZE, CTI_LM_WIDTH, width, false},                                  \
        {"num_hidden_layers", CTI_LM_COUNT, CTI_LM_LAYERS, layers, false},                         \
        {"num_attention_heads", CTI_LM_SIZE, CTI_LM_HEADS, heads, false},                          \
        {"intermediate_size", CTI_LM_SIZE, CTI_LM_HIDDEN, hidden, false},                          \
        {"rms_norm_eps", CTI_LM_POSITIVE, CTI_LM_EPS, eps, false},                                 \
        {"initializer_range", CTI_LM_REAL, CTI_LM_RANGE, 0.02, false}, {                           \
        "attention_dropout", CTI_LM_RATE, CTI_LM_ATTENTION_DROPOUT, 0, false                       \
    }
#define KV_HEADS(n)           {"num_key_value_heads", CTI_LM_SIZE, CTI_LM_KV_HEADS, n, true}
#define HEAD_DIM(n)           {"head_dim", CTI_LM_SIZE, CTI_LM_HEAD_DIM, n, true}
#define MAX_LENGTH(n)         {"max_position_embeddings", CTI_LM_SIZE, CTI_LM_MAX_LENGTH, n, false}
#define HIDDEN_ACT(key, name) {key, CTI_LM_NAME, CTI_LM_ACTIVATION, name, false}
#define TIED(flag)            {"tie_word_embeddings", CTI_LM_FLAG, CTI_LM_TIED, flag, false}
#define ATTENTION_BIAS(flag)  {"attention_bias", CTI_LM_FLAG, CTI_LM_ATTENTION_BIAS, flag, false}
#define MLP_BIAS              {"mlp_bias", CTI_LM_FLAG, CTI_LM_MLP_BIAS, 0, false}
#define WINDOW(n)             {"sliding_window", CTI_LM_SIZE, CTI_LM_WINDOW, n, true}
#define USE_WINDOW            {"use_sliding_window", CTI_LM_FLAG, CTI_LM_USE_WINDOW, 0, false}
#define FULL_LAYERS           {"max_window_layers", CTI_LM_COUNT, CTI_LM_FULL_LAYERS, 28, false}

static const cti_lm_key gpt2_keys[] = {
    {"vocab_size", CTI_LM_SIZE, CTI_LM_VOCAB, 50257, false},
    {"n_positions", CTI_LM_SIZE, CTI_LM_MAX_LENGTH, 1024, false},
    {"n_embd", CTI_LM_SIZE, CTI_LM_WIDTH, 768, false},
    {"n_layer", CTI_LM_COUNT, CTI_LM_LAYERS, 12, false},
    {"n_head", CTI_LM_SIZE, CTI_LM_HEADS, 12, false},
    {"n_inner", CTI_LM_SIZE, CTI_LM_HIDDEN, CTI_LM_ABSENT, true},
    HIDDEN_ACT("activation_function", CT_GELU_TANH),
    {"resid_pdrop", CTI_LM_RATE, CTI_LM_DROPOUT, 0.1, false},
    {"embd_pdrop", CTI_LM_RATE, CTI_LM_EMBEDDING_DROPOUT, 0.1, false},
    {"attn_pdrop", CTI_LM_RATE, CTI_LM_ATTENTION_DROPOUT, 0.1, false},
    {"layer_norm_epsilon", CTI_LM_POSITIVE, CTI_LM_EPS, 1e-5, false},
    {"initializer_range", CTI_LM_REAL, CTI_LM_RANGE, 0.02, false},
    {"scale_attn_weights", CTI_LM_FLAG, CTI_LM_SCALED, 1, false},
    {"scale_attn_by_inverse_layer_idx", CTI_LM_FLAG, CTI_LM_SCALED_LAYER, 0, false},
    TIED(1),
    FALSE_ONLY("add_cross_attention"),
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
    {"query_pre_attn_scalar", CTI_LM_POSITIVE, CTI_LM_QUERY_SCALAR, 256, false},
    {"final_logit_softcapping", CTI_LM_POSITIVE, CTI_LM_FINAL_CAP, CTI_LM_ABSENT, true},
    {"sliding_window_pattern", CTI_LM_SIZE, CTI_LM_PATTERN, 6, false},
    FALSE_ONLY("use_bidirectional_attention"),
    FALSE_ONLY("attn_logit_softcapping"),
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
    {"no_rope_layer_interval", CTI_LM_SIZE, CTI_LM_ROPE_PATTERN, 4, false},
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
    END,
};
static const cti_lm_key gpt_neox_keys[] = {
    {"vocab_size", CTI_LM_SIZE, CTI_LM_VOCAB, 50432, false},
    {"hidden_size", CTI_LM_SIZE, CTI_LM_WIDTH, 6144, false},
    {"num_hidden_layers", CTI_LM_COUNT, CTI_LM_LAYERS, 44, false},
    {"num_attention_heads", CTI_LM_SIZE, CTI_LM_HEADS, 64, false},
    {"intermediate_size", CTI_LM_SIZE, CTI_LM_HIDDEN, 24576, false},
    HIDDEN_ACT("hidden_act", CT_GELU),
    {"attention_dropout", CTI_LM_RATE, CTI_LM_ATTENTION_DROPOUT, 0, false},
    {"hidden_dropout", CTI_LM_RATE, CTI_LM_DROPOUT, 0, false},
    MAX_LENGTH(2048),
    {"initializer_range", CTI_LM_REAL, CTI_LM_RANGE, 0.02, false},
    {"layer_norm_eps", CTI_LM_POSITIVE, CTI_LM_EPS, 1e-5, false},
    {"use_parallel_residual", CTI_LM_FLAG, CTI_LM_PARALLEL, 1, false},
    TIED(0),
    ATTENTION_BIAS(1),
    END,
};
static const cti_lm_key bert_keys[] = {
    {"vocab_size", CTI_LM_SIZE, CTI_LM_VOCAB, 30522, false},
    {"hidden_size", CTI_LM_SIZE, CTI_LM_WIDTH, 768, false},
    {"num_hidden_layers", CTI_LM_COUNT, CTI_LM_LAYERS, 12, false},
    {"num_attention_heads", CTI_LM_SIZE, CTI_LM_HEADS, 12, false},
    {"intermediate_size", CTI_LM_SIZE, CTI_LM_HIDDEN, 3072, false},
    HIDDEN_ACT("hidden_act", CT_GELU),
    {"hidden_dropout_prob", CTI_LM_RATE, CTI_LM_DROPOUT, 0.1, false},
    {"attention_probs_dropout_prob", CTI_LM_RATE, CTI_LM_ATTENTION_DROPOUT, 0.1, false},
    {"classifier_dropout", CTI_LM_RATE, CTI_LM_CLASS_DROPOUT, CTI_LM_ABSENT, true},
    MAX_LENGTH(512),
    {"type_vocab_size", CTI_LM_SIZE, CTI_LM_TYPES, 2, false},
    {"initializer_range", CTI_LM_REAL, CTI_LM_RANGE, 0.02, false},
    {"layer_norm_eps", CTI_LM_POSITIVE, CTI_LM_EPS, 1e-12, false},
    TIED(1),
    FALSE_ONLY("is_decoder"),
    FALSE_ONLY("add_cross_attention"),
    END,
};

/* Llama's names without the norms of a layer. */
#define LLAMA_PARTS                                                                                \
    .base = "model", .embed = "embed_tokens", .layers = "layers", .norm = "norm",                  \
    .head = "lm_head", .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj",  \
    .o = "self_attn.o_proj", .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"
#define LLAMA_NAMES LLAMA_PARTS, .norm1 = "input_layernorm"
#define LLAMA_FAMILY(type, with_head, without, table)                                              \
    .model_type = (type), .causal = (with_head), .bare = (without), .keys = (table), .rms = true,  \
    .gated = true, .padding_idx = true, .partial = 1

static const cti_lm_family families[] = {
    {
        .model_type = "gpt2",
        .causal = "GPT2LMHeadModel",
        .bare = "GPT2Model",
        .keys = gpt2_keys,
        .names = {.base = "transformer",
                  .embed = "wte",
                  .positions = "wpe",
                  .layers = "h",
                  .norm = "ln_f",
                  .head = "lm_head",
                  .norm1 = "ln_1",
                  .norm2 = "ln_2",
                  .qkv = "attn.c_attn",
                  .o = "attn.c_proj",
                  .up = "mlp.c_fc",
                  .down = "mlp.c_proj"},
        .qkv = CTI_LM_SIDE,
        .transposed = true,
        .qkv_bias = true,
        .o_bias = true,
        .up_bias = true,
    },
    {LLAMA_FAMILY("llama", "LlamaForCausalLM", "LlamaModel", llama_keys),
     .names = {LLAMA_NAMES, .norm2 = "post_attention_layernorm"}, .rope_base = 10000},
    {LLAMA_FAMILY("mistral", "MistralForCausalLM", "MistralModel", mistral_keys),
     .names = {LLAMA_NAMES, .norm2 = "post_attention_layernorm"}, .rope_base = 10000,
     .one_window = true},
    {LLAMA_FAMILY("qwen2", "Qwen2ForCausalLM", "Qwen2Model", qwen2_keys),
     .names = {LLAMA_NAMES, .norm2 = "post_attention_layernorm"}, .rope_base = 10000,
     .qkv_bias = true},
    {LLAMA_FAMILY("qwen3", "Qwen3ForCausalLM", "Qwen3Model", qwen3_keys),
     .names = {LLAMA_NAMES, .norm2 = "post_attention_layernorm", .q_norm = "self_attn.q_norm",
               .k_norm = "self_attn.k_norm"},
     .rope_base = 10000},
    {LLAMA_FAMILY("gemma3_text", "Gemma3ForCausalLM", "Gemma3TextModel", gemma3_keys),
     .names = {LLAMA_NAMES, .norm1_out = "post_attention_layernorm",
               .norm2 = "pre_feedforward_layernorm", .norm2_out = "post_feedforward_layernorm",
               .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"},
     .rope_base = 1e6, .local_base = 1e4, .norm_offset = 1, .embed_scaled = true},
    {LLAMA_FAMILY("smollm3", "SmolLM3ForCausalLM", "SmolLM3Model", smollm3_keys),
     .names = {LLAMA_NAMES, .norm2 = "post_attention_layernorm"}, .rope_base = 2e6},
    {LLAMA_FAMILY("olmo2", "Olmo2ForCausalLM", "Olmo2Model", olmo2_keys),
     .names = {LLAMA_PARTS, .norm1_out = "post_attention_layernorm",
               .norm2_out = "post_feedforward_layernorm", .q_norm = "self_attn.q_norm",
               .k_norm = "self_attn.k_norm"},
     .rope_base = 10000, .wide_qk_norm = true},
    {
        .model_type = "gpt_neox",
        .causal = "GPTNeoXForCausalLM",
        .bare = "GPTNeoXModel",
        .keys = gpt_neox_keys,
        .names = {.base = "gpt_neox",
                  .embed = "embed_in",
                  .layers = "layers",
                  .norm = "final_layer_norm",
                  .head = "lm_head",
                  .old_head = "embed_out",
                  .norm1 = "input_layernorm",
                  .norm2 = "post_attention_layernorm",
                  .qkv = "attention.query_key_value",
                  .o = "attention.dense",
                  .up = "mlp.dense_h_to_4h",
                  .down = "mlp.dense_4h_to_h"},
        .qkv = CTI_LM_INTERLEAVED,
        .up_bias = true,
        .rope_base = 10000,
        .partial = 0.25,
    },
    {
        .model_type = "bert",
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
                  .norm1 = "attention.output.LayerNorm",
                  .norm2 = "output.LayerNorm",
                  .q = "attention.self.query",
                  .k = "attention.self.key",
                  .v = "attention.self.value",
                  .o = "attention.output.dense",
                  .up = "intermediate.dense",
                  .down = "output.dense"},
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

/* Keys of any family that have no effect on values or gradients, or that config.c reads by name:
 * those of programs, of generation (generation_config.json has them too) and of training by
 * transformers. */
const char *const cti_lm_ignored[] = {"_name_or_path",
                                      "_model_name_or_path",
                                      "_commit_hash",
                                      "_from_model_config",
                                      "_num_labels",
                                      "_attn_implementation",
                                      "_attn_implementation_autoset",
                                      "attn_implementation",
                                      "transformers_version",
                                      "dtype",
                                      "torch_dtype",
                                      "use_cache",
                                      "cache_implementation",
                                      "output_hidden_states",
                                      "output_attentions",
                                      "return_dict",
                                      "return_dict_in_generate",
                                      "output_scores",
                                      "torchscript",
                                      "use_bfloat16",
                                      "output_past",
                                      "tf_legacy_loss",
                                      "chunk_size_feed_forward",
                                      "problem_type",
                                      "id2label",
                                      "label2id",
                                      "num_labels",
                                      "task_specific_params",
                                      "tokenizer_class",
                                      "prefix",
                                      "finetuning_task",
                                      "pad_token_id",
                                      "unk_token_id",
                                      "sep_token_id",
                                      "decoder_start_token_id",
                                      "bos_token_id",
                                      "eos_token_id",
                                      "forced_bos_token_id",
                                      "forced_eos_token_id",
                                      "bad_words_ids",
                                      "begin_suppress_tokens",
                                      "suppress_tokens",
                                      "max_length",
                                      "min_length",
                                      "do_sample",
                                      "early_stopping",
                                      "num_beams",
                                      "num_beam_groups",
                                      "diversity_penalty",
                                      "temperature",
                                      "top_k",
                                      "top_p",
                                      "typical_p",
                                      "repetition_penalty",
                                      "length_penalty",
                                      "no_repeat_ngram_size",
                                      "encoder_no_repeat_ngram_size",
                                      "num_return_sequences",
                                      "exponential_decay_length_penalty",
                                      "remove_invalid_values",
                                      "pretraining_tp",
                                      "gradient_checkpointing",
                                      "summary_type",
                                      "summary_use_proj",
                                      "summary_activation",
                                      "summary_proj_to_labels",
                                      "summary_first_dropout",
                                      "predict_special_tokens",
                                      "directionality",
                                      "pooler_type",
                                      "pooler_fc_size",
                                      "pooler_num_fc_layers",
                                      "pooler_num_attention_heads",
                                      "pooler_size_per_head",
                                      "reorder_and_upcast_attn",
                                      "n_ctx",
                                      "transformers.js_config",
                                      "is_llama_config",
                                      "rope_interleaved",
                                      "use_mrope",
                                      "unsloth_version",
                                      "unsloth_fixed",
                                      "_sliding_window_pattern",
                                      "max_window_layers",
                                      "classifier_dropout",
                                      NULL};
