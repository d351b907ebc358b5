/* The keys of a config.json that all families treat alike, and the check of every key of a file. */
#include "config.h"

#include "../../src/core/message.h"

#define PASSED(name)           {.key = (name), .kind = CTI_LM_NO_EFFECT}
#define NAMED(name)            {.key = (name), .kind = CTI_LM_BY_NAME}
#define UNLESS_OFF(name, text) {.key = (name), .kind = CTI_LM_OFF, .why = (text)}

/* A row of a family's own table stands before these. */
static const cti_lm_key common_keys[] = {
    NAMED("architectures"),
    NAMED("model_type"),
    NAMED("dtype"),
    NAMED("torch_dtype"),
    NAMED("id2label"),
    NAMED("num_labels"),
    NAMED("problem_type"),
    NAMED("rope_parameters"),
    NAMED("rope_scaling"),
    NAMED("rope_theta"),
    NAMED("rope_local_base_freq"),
    NAMED("partial_rotary_factor"),
    NAMED("rotary_pct"),
    NAMED("rotary_emb_base"),
    NAMED("original_max_position_embeddings"),
    NAMED("layer_types"),
    /* what changes logits or generated ids */
    UNLESS_OFF("quantization_config", "quantised weights are not supported"),
    UNLESS_OFF("compression_config", "quantised weights are not supported"),
    UNLESS_OFF("is_encoder_decoder", "an encoder with a decoder is not supported"),
    UNLESS_OFF("pruned_heads", "heads that are left out are not supported"),
    UNLESS_OFF("per_layer_config", "options for single layers are not supported"),
    UNLESS_OFF("transformers_weights", "weights in a file of another name are not supported"),
    UNLESS_OFF("sliding_window", "transformers limits the cache to it in every family"),
    UNLESS_OFF("attention_chunk_size", "transformers limits the cache to it in every family"),
    UNLESS_OFF("kv_sharing_modes", "keys and values that layers share are not supported"),
    {.key = "is_causal", .kind = CTI_LM_ON, .why = "attention to later tokens is not supported"},
    {.key = "token_classification_bias",
     .kind = CTI_LM_ON,
     .why = "a classifier of tokens without a bias is not supported"},
    /* what programs, generation (which generation_config.json has too) and training read */
    PASSED("_name_or_path"),
    PASSED("_model_name_or_path"),
    PASSED("_commit_hash"),
    PASSED("_from_model_config"),
    PASSED("_num_labels"),
    PASSED("_attn_implementation"),
    PASSED("_attn_implementation_autoset"),
    PASSED("attn_implementation"),
    PASSED("transformers_version"),
    PASSED("use_cache"),
    PASSED("cache_implementation"),
    PASSED("output_hidden_states"),
    PASSED("output_attentions"),
    PASSED("return_dict"),
    PASSED("return_dict_in_generate"),
    PASSED("output_scores"),
    PASSED("torchscript"),
    PASSED("use_bfloat16"),
    PASSED("output_past"),
    PASSED("tf_legacy_loss"),
    PASSED("chunk_size_feed_forward"),
    PASSED("label2id"),
    PASSED("task_specific_params"),
    PASSED("tokenizer_class"),
    PASSED("prefix"),
    PASSED("finetuning_task"),
    PASSED("unk_token_id"),
    PASSED("sep_token_id"),
    PASSED("decoder_start_token_id"),
    PASSED("forced_bos_token_id"),
    PASSED("forced_eos_token_id"),
    PASSED("bad_words_ids"),
    PASSED("begin_suppress_tokens"),
    PASSED("suppress_tokens"),
    PASSED("max_length"),
    PASSED("min_length"),
    PASSED("do_sample"),
    PASSED("early_stopping"),
    PASSED("num_beams"),
    PASSED("num_beam_groups"),
    PASSED("diversity_penalty"),
    PASSED("temperature"),
    PASSED("top_k"),
    PASSED("top_p"),
    PASSED("typical_p"),
    PASSED("repetition_penalty"),
    PASSED("length_penalty"),
    PASSED("no_repeat_ngram_size"),
    PASSED("encoder_no_repeat_ngram_size"),
    PASSED("num_return_sequences"),
    PASSED("exponential_decay_length_penalty"),
    PASSED("remove_invalid_values"),
    PASSED("pretraining_tp"),
    PASSED("gradient_checkpointing"),
    PASSED("summary_type"),
    PASSED("summary_use_proj"),
    PASSED("summary_activation"),
    PASSED("summary_proj_to_labels"),
    PASSED("summary_first_dropout"),
    PASSED("predict_special_tokens"),
    PASSED("directionality"),
    PASSED("pooler_type"),
    PASSED("pooler_fc_size"),
    PASSED("pooler_num_fc_layers"),
    PASSED("pooler_num_attention_heads"),
    PASSED("pooler_size_per_head"),
    PASSED("reorder_and_upcast_attn"),
    PASSED("n_ctx"),
    PASSED("transformers.js_config"),
    PASSED("is_llama_config"),
    PASSED("rope_interleaved"),
    PASSED("use_mrope"),
    PASSED("unsloth_version"),
    PASSED("unsloth_fixed"),
    PASSED("_sliding_window_pattern"),
    PASSED("max_window_layers"),
    PASSED("classifier_dropout"),
    PASSED("auto_map"),
    PASSED("name_or_path"),
    PASSED("experts_implementation"),
    PASSED("_experts_implementation"),
    PASSED("tie_last_hidden_states"),
    PASSED("tie_encoder_decoder"),
    PASSED("cross_attention_hidden_size"),
    PASSED("is_decoder"),
    PASSED("add_cross_attention"),
    PASSED("position_embedding_type"),
    PASSED("hidden_dropout"),
    PASSED("max_sequence_length"),
    PASSED("epsilon_cutoff"),
    PASSED("eta_cutoff"),
    PASSED("encoder_repetition_penalty"),
    PASSED("num_assistant_tokens"),
    PASSED("num_assistant_tokens_schedule"),
    PASSED("assistant_confidence_threshold"),
    PASSED("assistant_lookbehind"),
    PASSED("target_lookbehind"),
    PASSED("max_new_tokens"),
    PASSED("min_new_tokens"),
    PASSED("max_time"),
    PASSED("stop_strings"),
    PASSED("use_mtp"),
    PASSED("cache_config"),
    PASSED("max_cache_len"),
    PASSED("min_p"),
    PASSED("top_h"),
    PASSED("renormalize_logits"),
    PASSED("sequence_bias"),
    PASSED("token_healing"),
    PASSED("guidance_scale"),
    PASSED("watermarking_config"),
    PASSED("output_logits"),
    PASSED("is_assistant"),
    PASSED("prompt_lookup_num_tokens"),
    PASSED("max_matching_ngram_size"),
    PASSED("assistant_early_exit"),
    PASSED("assistant_ensemble_weight"),
    PASSED("speculation_type"),
    PASSED("compile_config"),
    PASSED("disable_compile"),
    PASSED("continuous_batching_config"),
    PASSED("low_memory"),
    PASSED("penalty_alpha"),
    PASSED("dola_layers"),
    PASSED("constraints"),
    PASSED("force_words_ids"),
    PASSED("prefill_chunk_size"),
    {.key = NULL},
};

static const cti_lm_key *row_of(const cti_lm_key *row, cti_text key) {
    while (row->key && cti_text_compare(cti_text_of(row->key), key)) row++;
    return row->key ? row : NULL;
}

const cti_lm_key *cti_lm_key_of(const cti_lm_family *family, cti_text key) {
    const cti_lm_key *row = row_of(family->keys, key);
    return row ? row : row_of(common_keys, key);
}

static bool is_empty(const cti_json_tree *tree, cti_json_at value) {
    switch (tree->value[value].kind) {
    case CTI_JSON_NULL:
    case CTI_JSON_FALSE: return true;
    case CTI_JSON_ARRAY:
    case CTI_JSON_OBJECT: return tree->value[value].count == 0;
    case CTI_JSON_TRUE:
    case CTI_JSON_NUMBER:
    case CTI_JSON_STRING: return false;
    }
    return false;
}

/* Whether a value is the one with which a key of this kind has no effect. */
static bool is_harmless(const cti_json_tree *tree, cti_lm_kind kind, cti_json_at value) {
    const cti_json_kind json = tree->value[value].kind;
    switch (kind) {
    case CTI_LM_OFF: return is_empty(tree, value);
    case CTI_LM_ON: return json == CTI_JSON_TRUE;
    case CTI_LM_ABSOLUTE:
        return json == CTI_JSON_STRING &&
               !cti_text_compare(cti_json_text(tree, value), cti_text_of("absolute"));
    default: return true;
    }
}

static bool key_check(const cti_lm_reader *reader, cti_json_at value) {
    const cti_json_tree *tree = reader->tree;
    const cti_text key = cti_json_key_of(tree, value);
    const cti_lm_key *row = cti_lm_key_of(reader->config->family, key);
    char name[64];
    cti_text_shorten(name, sizeof name - 1, key.at, key.size);
    /* the parser looks for a key that is there twice only in a small object */
    for (cti_json_at i = tree->value[value].next; tree->value[0].count > 64 && i;
         i = tree->value[i].next)
        if (!cti_text_compare(cti_json_key_of(tree, i), key))
            return cti_lm_refuse(reader, name, value, "the key is there twice");
    if (row && !is_harmless(tree, row->kind, value))
        return cti_lm_refuse(reader, name, value, "%s", row->why);
    return row || reader->ignore_unknown ||
           cti_lm_refuse(reader, name, value,
                         "a key that is not known for %s; .ignore_unknown loads all the same",
                         reader->config->family->model_type);
}

bool cti_lm_check_keys(const cti_lm_reader *reader) {
    for (cti_json_at i = cti_json_first(reader->tree, 0); i; i = reader->tree->value[i].next)
        if (!key_check(reader, i)) return false;
    return true;
}
