"""Writes tests/models/model_values.h: logits that transformers gives for small models of each family, in f64, with weights that are a function of
their names. tests/models/test_model_values.c makes the same models from the same texts of config.json."""
import json
import sys
from pathlib import Path

import numpy
import torch
import transformers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch"))

SIZES = {"vocab_size": 31, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4}
LLAMA = SIZES | {"num_key_value_heads": 2}
WIDE = LLAMA | {"num_attention_heads": 2}   # heads with four frequencies
GPT2 = {"vocab_size": 31, "n_embd": 16, "n_layer": 2, "n_head": 4, "n_positions": 32}
SCALES = {"embedding_multiplier": 3, "attention_multiplier": 0.2, "residual_multiplier": 0.6, "logits_scaling": 4}
GRANITE4 = {"layer_types": ["attention"] * 3, "num_local_experts": 0, "shared_intermediate_size": 20, "mamba_n_heads": 4}
BERT = SIZES | {"max_position_embeddings": 32, "type_vocab_size": 3}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.5, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}

# (architecture, the config.json; what differs from it in transformers' class, if that is another dialect)
MODELS = [
    ("GPT2LMHeadModel", "gpt2", GPT2, {}),
    ("GPT2LMHeadModel", "gpt2", GPT2 | {"n_inner": 20, "scale_attn_by_inverse_layer_idx": True, "activation_function": "relu"}, {}),
    ("GPT2LMHeadModel", "gpt2", GPT2 | {"scale_attn_weights": False, "activation_function": "gelu"}, {}),
    ("LlamaForCausalLM", "llama", LLAMA, {}),
    ("LlamaForCausalLM", "llama", SIZES | {"hidden_act": "quick_gelu"}, {}),
    ("LlamaForCausalLM", "llama", LLAMA | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "head_dim": 6,
                                           "hidden_act": "leaky_relu"}, {}),
    ("LlamaForCausalLM", "llama", WIDE | {"rope_theta": 5e3, "rope_scaling": {"type": "linear", "factor": 2.0}},
     {"rope_theta": None, "rope_scaling": None, "rope_parameters": {"rope_type": "linear", "rope_theta": 5e3, "factor": 2.0}}),
    ("LlamaForCausalLM", "llama", WIDE | {"rope_theta": 100.0, "rope_scaling": {"rope_type": "llama3"} | LLAMA3},
     {"rope_theta": None, "rope_scaling": None, "rope_parameters": {"rope_type": "llama3", "rope_theta": 100.0} | LLAMA3}),
    ("LlamaForCausalLM", "llama", WIDE | {"max_position_embeddings": 16, "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e2, "factor": 4.0}},
     {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e2, "factor": 4.0, "original_max_position_embeddings": 16}}),
    ("LlamaForCausalLM", "llama", WIDE | {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e3, "factor": 4.0, "attention_factor": 1.5,
                                                              "beta_fast": 5.0, "beta_slow": 0.2, "truncate": False,
                                                              "original_max_position_embeddings": 16}}, {}),
    ("MistralForCausalLM", "mistral", LLAMA | {"sliding_window": 4}, {}),
    ("Qwen2ForCausalLM", "qwen2", LLAMA | {"sliding_window": 3, "max_window_layers": 0}, {}),
    ("Qwen2ForCausalLM", "qwen2", LLAMA | {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}, {}),
    ("Qwen3ForCausalLM", "qwen3", LLAMA | {"head_dim": 6, "hidden_act": "relu2"}, {}),
    ("Gemma3ForCausalLM", "gemma3_text", LLAMA | {"num_hidden_layers": 7, "head_dim": 6, "sliding_window": 3, "query_pre_attn_scalar": 10,
                                                  "final_logit_softcapping": 5.0}, {}),
    ("Gemma3ForCausalLM", "gemma3_text", LLAMA | {"num_hidden_layers": 3, "head_dim": 6, "sliding_window": 3, "sliding_window_pattern": 3,
                                                  "rope_theta": 3e5, "rope_local_base_freq": 50.0},
     {"rope_theta": None, "rope_local_base_freq": None, "sliding_window_pattern": None,
      "layer_types": ["sliding_attention"] * 2 + ["full_attention"],
      "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 3e5},
                          "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}}),
    ("Gemma3ForCausalLM", "gemma3_text", WIDE | {"num_hidden_layers": 2, "head_dim": 8, "sliding_window": 4,
                                                 "layer_types": ["full_attention", "sliding_attention"],
                                                 "rope_parameters": {"full_attention": {"rope_type": "linear", "rope_theta": 3e4, "factor": 2.0},
                                                                     "sliding_attention": {"rope_type": "default", "rope_theta": 70.0}}}, {}),
    ("Gemma3TextModel", "gemma3_text", LLAMA | {"num_hidden_layers": 7, "head_dim": 6, "sliding_window": 5, "use_bidirectional_attention": True}, {}),
    ("SmolLM3ForCausalLM", "smollm3", WIDE | {"num_hidden_layers": 5}, {}),
    ("SmolLM3ForCausalLM", "smollm3", LLAMA | {"no_rope_layers": [0, 1, 1], "use_sliding_window": True, "sliding_window": 3}, {}),
    ("Olmo2ForCausalLM", "olmo2", LLAMA, {}),
    ("GraniteForCausalLM", "granite", LLAMA | SCALES | {"head_dim": 6, "attention_bias": True}, {}),
    ("GraniteMoeHybridForCausalLM", "granitemoehybrid", WIDE | SCALES | GRANITE4 | {"position_embedding_type": "rope"}, {}),
    ("GraniteMoeHybridForCausalLM", "granitemoehybrid", WIDE | SCALES | GRANITE4, {}),
    ("GPTNeoXForCausalLM", "gpt_neox", SIZES | {"hidden_size": 64, "rotary_emb_base": 2e3},
     {"rotary_emb_base": None, "rope_parameters": {"rope_type": "default", "rope_theta": 2e3, "partial_rotary_factor": 0.25}}),
    ("GPTNeoXForCausalLM", "gpt_neox", SIZES | {"num_attention_heads": 2, "use_parallel_residual": False, "attention_bias": False, "hidden_act": "gelu_new", "rotary_pct": 0.5,
                                             "rotary_emb_base": 3000},
     {"rotary_pct": None, "rotary_emb_base": None,
      "rope_parameters": {"rope_type": "default", "rope_theta": 3e3, "partial_rotary_factor": 0.5}}),
    ("BertModel", "bert", BERT, {}),
    ("BertForMaskedLM", "bert", BERT, {}),
    ("BertForSequenceClassification", "bert", BERT | {"id2label": {str(i): str(i) for i in range(5)}}, {}),
]
CONFIGS = {"granitemoehybrid": "GraniteMoeHybridConfig", "gemma3_text": "Gemma3TextConfig", "gpt2": "GPT2Config", "gpt_neox": "GPTNeoXConfig", "smollm3": "SmolLM3Config"}
IDS = [3, 14, 15, 9, 26, 5, 30, 0, 7]
VALUES = 8


def weights(name, shape):
    """0.2 + 1.2 u, with u uniform in [-0.5, 0.5) by a hash of the name and the index."""
    seed = 2166136261
    for byte in name.encode():
        seed = ((seed ^ byte) * 16777619) % 2**32
    x = (numpy.arange(numpy.prod(shape, dtype=int), dtype=numpy.uint64) * 2654435761 + seed) % 2**32
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = ((x ^ (x >> shift)) * factor) % 2**32
    x ^= x >> 16
    return torch.from_numpy(0.2 + 1.2 * (x.astype(numpy.float64) / 2**32 - 0.5)).reshape(*shape)


def values(architecture, family, config, other):
    config = {"pad_token_id": 0} | {k: v for k, v in (config | other).items() if v is not None}
    kind = CONFIGS.get(family, family.title() + "Config")
    model = getattr(transformers, architecture)(getattr(transformers, kind)(**config, attn_implementation="eager")).eval().double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            turned = family == "gpt2" and name.split(".")[-2] in ("c_attn", "c_proj", "c_fc") and parameter.ndim == 2
            shape = parameter.T.shape if turned else parameter.shape
            parameter.copy_(weights(name, shape).T if turned else weights(name, shape))
        out = model(torch.tensor([IDS]))
    y = out.logits if "logits" in out else out.last_hidden_state
    return y.numel(), y.flatten()[-VALUES:].tolist()


def main():
    rows = []
    for architecture, family, config, other in MODELS:
        text = json.dumps({"model_type": family, "architectures": [architecture]} | config).replace('"', "'")
        size, last = values(architecture, family, config, other)
        numbers = ", ".join(f"{x:.10g}" for x in last)
        pieces = "\n     ".join(f'"{text[i:i + 90]}"' for i in range(0, len(text), 90))
        rows.append(f"    {{{pieces},\n     {size},\n     {{{numbers}}}}},\n")
    head = ("/* Logits of small models by transformers, which tests/golden/model_values.py wrote. In the texts ' stands for \". */\n"
            "#ifndef MODEL_VALUES_H\n#define MODEL_VALUES_H\n\n#include <stdint.h>\n\n"
            f"enum {{ MODEL_VALUES = {VALUES}, MODEL_IDS = {len(IDS)} }};\n"
            f"static const int64_t model_ids[] = {{{', '.join(map(str, IDS))}}};\n"
            "/* The text of a config.json, the number of the model's results for these ids, and the last of them. */\n"
            "static const struct {\n    const char *config;\n    int64_t size;\n    double value[MODEL_VALUES];\n} model_values[] = {\n")
    Path(__file__).resolve().parents[1].joinpath("models/model_values.h").write_text(head + "".join(rows) + "};\n\n#endif\n")


if __name__ == "__main__":
    main()
