"""Models by the config.json with which they were published, with fewer and narrower layers, against transformers: each key of these files is
followed or has no effect. Files of models that have no test of their own because their families have one."""
import json

import pytest
import safetensors.torch
import torch
import transformers

from ct import lib
from test_models_live import error, first_name, forward, open_lm, result

GEMMA = {"_sliding_window_pattern": 6, "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": None, "bos_token_id": 2,
         "eos_token_id": 1, "final_logit_softcapping": None, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "initializer_range": 0.02,
         "model_type": "gemma3_text", "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0,
         "rope_scaling": None, "rope_theta": 1000000.0, "sliding_window": 512, "use_cache": True, "vocab_size": 262144}
PUBLISHED = {
    "Llama-3.2-1B-Instruct": {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009], "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02,
        "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": False, "model_type": "llama", "num_attention_heads": 32,
        "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
                         "rope_type": "llama3"},
        "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": True,
        "vocab_size": 128256},
    "DeepSeek-R1-Distill-Qwen-1.5B": {
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151646, "eos_token_id": 151643, "hidden_act": "silu",
        "hidden_size": 1536, "initializer_range": 0.02, "intermediate_size": 8960, "max_position_embeddings": 131072, "max_window_layers": 21,
        "model_type": "qwen2", "num_attention_heads": 12, "num_hidden_layers": 28, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 10000, "sliding_window": 4096, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "transformers_version": "4.44.0",
        "use_cache": True, "use_mrope": False, "use_sliding_window": False, "vocab_size": 151936},
    "Qwen3-Embedding-0.6B": {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151643,
        "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
        "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
        "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000, "sliding_window": None,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.51.3", "use_cache": True, "use_sliding_window": False,
        "vocab_size": 151669},
    "functiongemma-270m-it": GEMMA | {
        "architectures": ["Gemma3ForCausalLM"], "eos_token_id": [1, 50], "hidden_size": 640, "intermediate_size": 2048,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 3, "max_position_embeddings": 32768, "num_attention_heads": 4,
        "num_hidden_layers": 18, "num_key_value_heads": 1, "torch_dtype": "bfloat16", "transformers_version": "4.57.1",
        "use_bidirectional_attention": False},
    "embeddinggemma-300m": GEMMA | {
        "architectures": ["Gemma3TextModel"], "dtype": "float32", "hidden_size": 768, "intermediate_size": 1152,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 4, "max_position_embeddings": 2048, "num_attention_heads": 3,
        "num_hidden_layers": 24, "num_key_value_heads": 1, "transformers_version": "4.57.0.dev0", "use_bidirectional_attention": True},
    "OLMo-2-0425-1B": {
        "architectures": ["Olmo2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "eos_token_id": 100257, "hidden_act": "silu",
        "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 4096, "model_type": "olmo2",
        "num_attention_heads": 16, "num_hidden_layers": 16, "num_key_value_heads": 16, "pad_token_id": 100277, "rms_norm_eps": 1e-06,
        "rope_scaling": None, "rope_theta": 500000, "tie_word_embeddings": False, "torch_dtype": "float32", "transformers_version": "4.47.0",
        "use_cache": True, "vocab_size": 100352},
    "granite-3.3-2b-instruct": {
        "architectures": ["GraniteForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attention_multiplier": 0.015625,
        "bos_token_id": 0, "embedding_multiplier": 12.0, "eos_token_id": 0, "hidden_act": "silu", "hidden_size": 2048,
        "initializer_range": 0.02, "intermediate_size": 8192, "logits_scaling": 8.0, "max_position_embeddings": 131072, "mlp_bias": False,
        "model_type": "granite", "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8, "pad_token_id": 0,
        "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000000.0, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "transformers_version": "4.49.0", "use_cache": True, "vocab_size": 49159},
    "granite-4.0-350m": {
        "architectures": ["GraniteMoeHybridForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attention_multiplier": 0.015625,
        "bos_token_id": 100257, "embedding_multiplier": 12, "eos_token_id": 100257, "hidden_act": "silu", "hidden_size": 1024,
        "init_method": "mup", "initializer_range": 0.1, "intermediate_size": 2048, "layer_types": ["attention"] * 28, "logits_scaling": 4,
        "mamba_chunk_size": 256, "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_head": 16, "mamba_d_state": 256, "mamba_expand": 2,
        "mamba_n_groups": 1, "mamba_n_heads": 128, "mamba_proj_bias": False, "max_position_embeddings": 32768,
        "model_type": "granitemoehybrid", "normalization_function": "rmsnorm", "num_attention_heads": 16, "num_experts_per_tok": 0,
        "num_hidden_layers": 28, "num_key_value_heads": 4, "num_local_experts": 0, "output_router_logits": False, "pad_token_id": 100256,
        "position_embedding_type": "rope", "residual_multiplier": 0.263, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000000,
        "router_aux_loss_coef": 0.01, "shared_intermediate_size": 2048, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "transformers_version": "4.56.0", "use_cache": True, "vocab_size": 100352},
}

ROBERTA = {"attention_probs_dropout_prob": 0.1, "bos_token_id": 0, "eos_token_id": 2, "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
           "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-05, "max_position_embeddings": 514, "num_attention_heads": 12,
           "num_hidden_layers": 12, "pad_token_id": 1, "type_vocab_size": 1}
PUBLISHED |= {
    "roberta-base": ROBERTA | {"architectures": ["RobertaForMaskedLM"], "model_type": "roberta", "vocab_size": 50265},
    "xlm-roberta-base": ROBERTA | {
        "architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "output_past": True, "position_embedding_type": "absolute",
        "transformers_version": "4.17.0.dev0", "use_cache": True, "vocab_size": 250002},
    "distilbert-base-uncased": {
        "activation": "gelu", "architectures": ["DistilBertForMaskedLM"], "attention_dropout": 0.1, "dim": 768, "dropout": 0.1, "hidden_dim": 3072,
        "initializer_range": 0.02, "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": 12, "n_layers": 6, "pad_token_id": 0,
        "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True,
        "transformers_version": "4.10.0.dev0", "vocab_size": 30522},
}
SMALLER = {"hidden_size": 48, "dim": 48, "intermediate_size": 72, "hidden_dim": 72, "num_attention_heads": 3, "n_heads": 3, "num_hidden_layers": 3, "n_layers": 3}


def shrunk(config):
    """The same options with two groups of heads, seven layers at most and few ids."""
    config = dict(config, vocab_size=131)
    if "ForMaskedLM" in config["architectures"][0]:
        return {key: SMALLER.get(key, value) for key, value in config.items()}
    heads, groups = config["num_attention_heads"], config.get("num_key_value_heads", config["num_attention_heads"])
    config["num_key_value_heads"] = 2 if groups > 1 else 1
    config["num_attention_heads"] = config["num_key_value_heads"] * min(heads // groups, 3)
    dim = config["head_dim"] // 8 if "head_dim" in config else 16
    if "head_dim" in config:
        config["head_dim"] = dim
    config["hidden_size"] = config["num_attention_heads"] * dim
    for key in ("intermediate_size", "shared_intermediate_size"):
        if key in config:
            config[key] = 72
    if "mamba_n_heads" in config:
        config |= {"mamba_n_heads": 2, "mamba_d_head": config["hidden_size"]}
    if (config.get("pad_token_id") or 0) >= 131:
        config["pad_token_id"] = 5
    if config.get("sliding_window") and "layer_types" in config:
        config["sliding_window"] = 6
    config["num_hidden_layers"] = layers = 7 if "layer_types" in config else 3
    if "layer_types" in config:
        config["layer_types"] = config["layer_types"][:layers]
    return config


@pytest.mark.parametrize("name", PUBLISHED)
def test_published(context, tmp_path, name):
    """The logits, and the gradient of the embedding; the folder that is saved has the config.json of the file."""
    text = shrunk(PUBLISHED[name])
    (tmp_path / "config.json").write_text(json.dumps(text))
    config = transformers.AutoConfig.from_pretrained(tmp_path, attn_implementation="eager")
    torch.manual_seed(3)
    model = getattr(transformers, text["architectures"][0])(config).eval().float()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    base = "" if text["architectures"][0].endswith("Model") else model.base_model_prefix + "."
    own = dict(model.named_parameters())   # each tied one once
    state = {key: value for key, value in model.state_dict().items() if key in own}
    names = {key: key.removeprefix(base) for key in state} if "Embedding" in name and base else {key: key for key in state}
    safetensors.torch.save_file({names[key]: value.contiguous() for key, value in state.items()}, tmp_path / "model.safetensors", {"format": "pt"})
    ids = torch.randint(3, 131, (2, 15))
    want = result(model(ids))
    lm = open_lm(context, tmp_path)
    lib.ct_module_train(lm, False)
    ours = forward(context, lm, ids)
    assert error(context.value(ours), want.detach()) < 5e-6
    cotangent = torch.randn(want.shape)
    want.backward(cotangent)
    context.backward([ours], [cotangent])
    embedding = next(first_name(key) for key, value in model.named_parameters() if value is model.get_input_embeddings().weight)
    assert error(context.grad(context.parameters(lm)[embedding]), model.get_input_embeddings().weight.grad) < 2e-5
