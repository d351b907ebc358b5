"""GGUF files of models beside gguf-py, which reads what ct_lm_save writes and writes what ct_lm_open reads; and beside llama.cpp's converter,
if GGUF_CONVERTER is the path of its convert_hf_to_gguf.py."""
import json
import os
import subprocess
import sys
from pathlib import Path

import gguf
import numpy
import pytest
import torch
import transformers
from gguf import GGMLQuantizationType as Type

import ct
from ct import lib
from test_models_live import BERT, LLAMA, SMALL, error, forward, logits_of, make, open_lm

# Sizes whose rows are whole blocks.
WIDE = {"hidden_size": 64, "intermediate_size": 96}
DECODER = LLAMA | WIDE
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
SCALES = {"embedding_multiplier": 5, "attention_multiplier": 0.11, "residual_multiplier": 0.7, "logits_scaling": 3}
GGUF_MODELS = {
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 97, "n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64}),
    "llama": ("LlamaForCausalLM", DECODER),
    "llama tied, biases": ("LlamaForCausalLM", DECODER | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "head_dim": 24}),
    "llama 3": ("LlamaForCausalLM", DECODER | {"head_dim": 128, "rope_parameters": LLAMA3}),
    "llama yarn": ("LlamaForCausalLM", DECODER | {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "beta_fast": 16.0,
                                                                      "original_max_position_embeddings": 16}}),
    "llama linear": ("LlamaForCausalLM", DECODER | {"rope_parameters": {"rope_type": "linear", "rope_theta": 2e4, "factor": 2.0}}),
    "mistral": ("MistralForCausalLM", DECODER | {"sliding_window": None}),
    "qwen2": ("Qwen2ForCausalLM", DECODER),
    "qwen3": ("Qwen3ForCausalLM", DECODER | {"head_dim": 32}),
    "gemma3": ("Gemma3ForCausalLM", DECODER | {"num_hidden_layers": 7, "head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 16,
                                               "final_logit_softcapping": 9.0}),
    "gemma3 both ways": ("Gemma3TextModel", DECODER | {"num_hidden_layers": 7, "head_dim": 16, "sliding_window": 6, "query_pre_attn_scalar": 16,
                                                       "use_bidirectional_attention": True}),
    "smollm3": ("SmolLM3ForCausalLM", DECODER | {"num_hidden_layers": 5}),
    "olmo2": ("Olmo2ForCausalLM", DECODER),
    "granite": ("GraniteForCausalLM", DECODER | SCALES),
    "granite tied, biases": ("GraniteForCausalLM", DECODER | SCALES | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "head_dim": 24}),
    "granite 4": ("GraniteMoeHybridForCausalLM", DECODER | SCALES | {"layer_types": ["attention"] * 3, "num_local_experts": 0, "shared_intermediate_size": 96,
                                                                     "position_embedding_type": "rope", "num_experts_per_tok": 0, "mamba_n_heads": 4}),
    "granite 4 nope": ("GraniteMoeHybridForCausalLM", DECODER | SCALES | {"layer_types": ["attention"] * 3, "num_local_experts": 0, "shared_intermediate_size": 96,
                                                                          "position_embedding_type": "nope", "mamba_n_heads": 4}),
    "gpt_neox": ("GPTNeoXForCausalLM", SMALL | WIDE | {"max_position_embeddings": 64}),
    "bert": ("BertModel", BERT | WIDE),
}
ARCH = {"granitemoehybrid": "granite", "mistral": "llama", "gemma3_text": "gemma3", "gpt_neox": "gptneox"}
FLOATS = {"f32": (1, Type.F32), "f16": (2, Type.F16), "bf16": (3, Type.BF16), "q8_0": (4, Type.Q8_0), "q4_0": (5, Type.Q4_0)}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "model"


def arch_of(model):
    if getattr(model.config, "use_bidirectional_attention", False):
        return "gemma-embedding"
    return ARCH.get(model.config.model_type, model.config.model_type)


def rows_by_pairs(value, heads):
    """Rows i and i + D/2 of each head become neighbours."""
    return value.reshape(heads, 2, -1, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def in_file(model, key, value):
    """A parameter as a GGUF file has it."""
    config = model.config
    if config.model_type == "gpt2" and key.split(".")[-2] in ("c_attn", "c_proj", "c_fc") and value.ndim == 2:
        return value.T
    if config.model_type == "gpt_neox" and "query_key_value" in key:
        return value.reshape(config.num_attention_heads, 3, -1, *value.shape[1:]).swapaxes(0, 1).reshape(value.shape)
    if config.model_type == "gemma3_text" and key.endswith("norm.weight"):
        return value + 1
    if arch_of(model) in ("llama", "smollm3", "granite") and "q_proj" in key:
        return rows_by_pairs(value, config.num_attention_heads)
    if arch_of(model) in ("llama", "smollm3", "granite") and "k_proj" in key:
        return rows_by_pairs(value, config.num_key_value_heads)
    return value


def parts_of(key, value):
    """The names and tensors into which a file divides a parameter: Granite 4's gate and up, and what lies behind them, are Llama's."""
    if "shared_mlp.input_linear" in key:
        return list(zip((key.replace("shared_mlp.input_linear", f"mlp.{part}_proj") for part in ("gate", "up")), value.chunk(2)))
    return [(key.replace("shared_mlp.output_linear", "mlp.down_proj"), value)]


def tensors_of(model):
    """{name: array} of a GGUF file, with gguf-py's names."""
    names = gguf.get_tensor_name_map(next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch_of(model)), 99)
    out, seen = {}, set()
    for key, value in model.state_dict().items():
        if value.data_ptr() in seen or "pooler" in key:
            continue
        seen.add(value.data_ptr())
        for own, part in parts_of(key, value):
            name = names.get_name(own, try_suffixes=(".weight", ".bias"))
            assert name, own
            out[name] = numpy.ascontiguousarray(in_file(model, own, part).numpy())
    return out


def stays_f32(name, array):
    return array.ndim <= 1 or name.endswith("_norm.weight") or name in ("position_embd.weight", "token_types.weight") or not name.endswith(".weight")


def bytes_of(array, kind):
    if kind == Type.F32:
        return array.astype(numpy.float32).tobytes()
    return gguf.quants.quantize(array.astype(numpy.float32), kind).tobytes()


def read(path):
    reader = gguf.GGUFReader(path)
    keys = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    return keys, {t.name: t for t in reader.tensors}


@pytest.mark.parametrize("floats", FLOATS)
@pytest.mark.parametrize("name", GGUF_MODELS)
def test_written(context, folder, tmp_path, name, floats):
    """gguf-py reads the tensors that it would have written."""
    model, (number, kind) = make(name, models=GGUF_MODELS), FLOATS[floats]
    model.save_pretrained(folder)
    lm = open_lm(context, folder)
    context.check(lib.ct_lm_save(lm, str(tmp_path / "m.gguf").encode(), ct.SaveOpts(floats=number)))
    keys, tensors = read(tmp_path / "m.gguf")
    want = tensors_of(model)
    assert keys["general.architecture"] == arch_of(model)
    assert keys["general.file_type"] == {"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7, "q4_0": 2}[floats]
    assert set(tensors) - {"rope_freqs.weight"} == set(want)
    for key, array in want.items():
        is_kind = Type.F32 if stays_f32(key, array) else kind
        tensor = tensors[key]
        assert tensor.tensor_type == is_kind and tuple(tensor.shape[::-1]) == array.shape, key
        assert tensor.data.tobytes() == bytes_of(array, is_kind), key


def keys_of(model, arch):
    """The keys that llama.cpp needs, by gguf-py's names."""
    config, writer = model.config, {}
    if arch == "gemma-embedding":   # the class has halved it
        writer |= {"attention.sliding_window": config.to_dict()["sliding_window"], "pooling_type": 1}
    rope = getattr(config, "rope_parameters", None) or {}
    rope = rope.get("full_attention", rope)
    for key, names in {"context_length": ("max_position_embeddings", "n_positions"), "embedding_length": ("hidden_size", "n_embd"),
                       "block_count": ("num_hidden_layers", "n_layer"), "feed_forward_length": ("shared_intermediate_size", "intermediate_size"),
                       "attention.scale": ("attention_multiplier",), "embedding_scale": ("embedding_multiplier",),
                       "residual_scale": ("residual_multiplier",), "logit_scale": ("logits_scaling",),
                       "attention.head_count": ("num_attention_heads", "n_head"), "attention.head_count_kv": ("num_key_value_heads",),
                       "attention.layer_norm_rms_epsilon": ("rms_norm_eps",), "attention.sliding_window": ("sliding_window",),
                       "attention.layer_norm_epsilon": ("layer_norm_eps", "layer_norm_epsilon"), "final_logit_softcapping": ("final_logit_softcapping",),
                       "attention.key_length": ("head_dim",), "use_parallel_residual": ("use_parallel_residual",)}.items():
        for own in names:
            if getattr(config, own, None) is not None and key not in writer:
                writer[key] = float(getattr(config, own)) if "scale" in key else getattr(config, own)
    writer.setdefault("feed_forward_length", 4 * config.hidden_size)
    if getattr(config, "position_embedding_type", None) == "nope":   # from which Granite's readers take whether there are rotary positions
        writer["rope.scaling.finetuned"] = False
    if rope.get("rope_theta"):
        writer["rope.freq_base"] = float(rope["rope_theta"])
    if rope.get("rope_type") in ("linear", "yarn"):
        writer |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": float(rope["factor"])}
    if rope.get("rope_type") == "yarn":
        writer |= {"rope.scaling.original_context_length": rope["original_max_position_embeddings"],
                   "rope.scaling.yarn_beta_fast": rope["beta_fast"]}
    if rope.get("partial_rotary_factor"):
        writer["rope.dimension_count"] = int(rope["partial_rotary_factor"] * config.hidden_size // config.num_attention_heads)
    return writer


def write(path, model, kind=Type.F32, tensors=None, keys={}):
    """A file by gguf-py."""
    arch = arch_of(model)
    writer = gguf.GGUFWriter(path, arch)
    for key, value in (keys_of(model, arch) | keys).items():
        add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, list: writer.add_array}[type(value)]
        add(f"{arch}.{key}", value)
    for name, array in (tensors or tensors_of(model)).items():
        is_kind = Type.F32 if stays_f32(name, array) else kind
        writer.add_tensor(name, array if is_kind == Type.F32 else gguf.quants.quantize(array, is_kind), raw_dtype=is_kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def divisors(model):
    """rope_freqs.weight of Llama 3."""
    rope, dim = model.config.rope_parameters, model.config.head_dim
    inverse = 1 / rope["rope_theta"] ** (torch.arange(0, dim, 2).double() / dim)
    scaled = model.model.rotary_emb.inv_freq.double()
    return {"rope_freqs.weight": (inverse / scaled).float().numpy()}


@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "q8_0"])
@pytest.mark.parametrize("name", GGUF_MODELS)
def test_read(context, tmp_path, name, kind):
    """A file of gguf-py is the model: its logits are transformers', with the values that the file has."""
    model = make(name, models=GGUF_MODELS)
    tensors = tensors_of(model) | (divisors(model) if name == "llama 3" else {})
    write(tmp_path / "m.gguf", model, FLOATS[kind][1], tensors)
    with torch.no_grad():
        names = gguf.get_tensor_name_map(next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch_of(model)), 99)
        for key, value in (part for whole in model.named_parameters() for part in parts_of(*whole)):
            known = names.get_name(key, try_suffixes=(".weight", ".bias"))
            if known and not stays_f32(known, tensors[known]) and kind != "f32":   # rounding and the order of rows are independent, but for T
                rows = value.T if in_file(model, key, value).shape != value.shape or (name == "gpt2" and ".c_" in key) else value
                rounded = gguf.quants.dequantize(gguf.quants.quantize(rows.numpy(), FLOATS[kind][1]), FLOATS[kind][1])
                rounded = torch.from_numpy(rounded.reshape(rows.shape).copy())
                value.copy_(rounded.T if rows is not value else rounded)
    ids = torch.randint(1, 97, (2, 13))
    lm = open_lm(context, tmp_path / "m.gguf")
    assert error(context.value(forward(context, lm, ids)), logits_of(model, ids)) < 2e-5
    if name == "bert":
        return
    context.check(lib.ct_lm_save(lm, str(tmp_path / "again").encode(), ct.SaveOpts()))
    kind = type(model) if "both" in name else transformers.AutoModelForCausalLM
    again, info = kind.from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
    assert error(logits_of(again.eval(), ids), logits_of(model, ids)) < 1e-5


def test_fused(context, tmp_path):
    """attn_qkv in place of q, k and v, which llama.cpp reads too; q and k have their own order of rows, v has not."""
    for name in ("llama tied, biases", "qwen2", "gemma3"):
        model, tensors = make(name, models=GGUF_MODELS), {}
        for key, array in tensors_of(model).items():
            if ".attn_q." in key or ".attn_k." in key or ".attn_v." in key:
                fused = key.replace(".attn_q.", ".attn_qkv.").replace(".attn_k.", ".attn_qkv.").replace(".attn_v.", ".attn_qkv.")
                tensors.setdefault(fused, {})[key.split(".")[2]] = array
            else:
                tensors[key] = array
        tensors = {key: numpy.concatenate([parts[p] for p in ("attn_q", "attn_k", "attn_v")]) if isinstance(parts, dict) else parts
                   for key, parts in tensors.items()}
        path = tmp_path / (name.split()[0] + ".gguf")
        write(path, model, tensors=tensors)
        ids = torch.randint(1, 97, (2, 13))
        assert error(context.value(forward(context, open_lm(context, path), ids)), logits_of(model, ids)) < 2e-5


# ---- llama.cpp's converter ----

CONVERT = """
import runpy, sys
home = sys.argv.pop(1)
sys.path[:0] = [home, home + "/gguf-py"]
from conversion import base
import conversion
for name in ("gpt2", "gptneox", "llama", "qwen", "gemma", "olmo", "bert", "mistral"):
    __import__("conversion." + name)
def subclasses(kind):
    return {kind}.union(*map(subclasses, kind.__subclasses__()))
for kind in subclasses(base.ModelBase):   # tokenizers have their own test
    if "set_vocab" in vars(kind):
        kind.set_vocab = lambda self: None
theirs = conversion.gptneox.GPTNeoXModel.set_gguf_parameters
def with_rotary(self):   # which it looks for under its name of transformers 4
    self.hparams["rotary_pct"] = self.hparams["rope_parameters"]["partial_rotary_factor"]
    theirs(self)
conversion.gptneox.GPTNeoXModel.set_gguf_parameters = with_rotary
sys.argv[0] = home + "/convert_hf_to_gguf.py"
runpy.run_path(sys.argv[0], run_name="__main__")
"""
OF_WRITER = ("general.name", "general.basename", "general.finetune", "general.version", "general.organization", "general.base_model", "general.tags", "tokenizer.")


def convert(folder, out, kind):
    home = Path(os.environ["GGUF_CONVERTER"]).parent
    run = subprocess.run([sys.executable, "-c", CONVERT, str(home), str(folder), "--outfile", str(out), "--outtype", kind], capture_output=True)
    assert run.returncode == 0, run.stderr.decode()[-2000:]


def for_converter(folder, model):
    """The config.json and the files that the converter looks for."""
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(97)}}, "added_tokens": []}))
    path, config = folder / "config.json", json.loads((folder / "config.json").read_text())
    if model.config.model_type == "gpt2":
        config["n_ctx"] = config["n_positions"]
    path.write_text(json.dumps(config))


@pytest.mark.skipif("GGUF_CONVERTER" not in os.environ, reason="GGUF_CONVERTER is not set")
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "q8_0"])
@pytest.mark.parametrize("name", GGUF_MODELS)
def test_converter(context, folder, tmp_path, name, kind):
    """Every byte of every tensor, and every key but those that name the writer."""
    model = make(name, models=GGUF_MODELS)
    model.save_pretrained(folder)
    lm = open_lm(context, folder)
    context.check(lib.ct_lm_set_tokenizer(lm, None))
    context.check(lib.ct_lm_save(lm, str(tmp_path / "ours.gguf").encode(), ct.SaveOpts(floats=FLOATS[kind][0])))
    for_converter(folder, model)
    convert(folder, tmp_path / "theirs.gguf", kind)
    keys, tensors = read(tmp_path / "ours.gguf")
    want_keys, want = read(tmp_path / "theirs.gguf")
    assert set(tensors) == set(want)
    for key, tensor in want.items():
        assert tensors[key].tensor_type == tensor.tensor_type and tuple(tensors[key].shape) == tuple(tensor.shape), key
        assert tensors[key].data.tobytes() == tensor.data.tobytes(), key
    keys, want_keys = ({k: v for k, v in d.items() if not k.startswith(OF_WRITER)} for d in (keys, want_keys))
    if name == "gpt_neox":   # the converter leaves it out
        assert keys.pop("general.file_type") == {"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7}[kind]
        want_keys.pop("general.file_type", None)
    assert keys == want_keys


# ---- adapters ----

def adapted(name, targets):
    import peft

    torch.manual_seed(7)
    model = peft.get_peft_model(make(name, models=GGUF_MODELS), peft.LoraConfig(r=4, lora_alpha=6, target_modules=targets)).eval()
    for key, value in model.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(value, std=0.3)
    return model


def adapter_tensors(model):
    """The matrices of an adapter by gguf-py's names."""
    base = model.get_base_model()
    names = gguf.get_tensor_name_map(next(k for k, v in gguf.MODEL_ARCH_NAMES.items() if v == arch_of(base)), 99)
    out = {}
    for key, value in model.state_dict().items():
        if "lora_" not in key:
            continue
        path, matrix = key.removeprefix("base_model.model.").split(".lora_")
        path = parts_of(path, None)[0][0]
        name = names.get_name(path + ".weight", try_suffixes=(".weight",))
        reordered = matrix[0] == "B" and base.config.model_type != "gpt2"
        out[f"{name}.lora_{matrix[0].lower()}"] = (in_file(base, path + ".weight", value) if reordered else value).contiguous().numpy()
    return out


ADAPTED = {"llama": ["q_proj", "k_proj", "v_proj", "down_proj"], "llama tied, biases": ["q_proj", "o_proj"], "gpt2": ["c_attn", "c_fc"],
           "gpt_neox": ["query_key_value", "dense"], "bert": ["query", "intermediate.dense"], "smollm3": ["k_proj", "gate_proj"], "gemma3": ["q_proj"], "granite 4": ["k_proj", "output_linear"]}


@pytest.mark.parametrize("name", ADAPTED)
def test_adapters(context, folder, tmp_path, name):
    """An adapter of PEFT goes into a file whose tensors gguf-py reads, and comes back with the same logits."""
    model = adapted(name, ADAPTED[name])
    make(name, models=GGUF_MODELS).save_pretrained(folder)
    model.save_pretrained(tmp_path / "adapter")
    ids = torch.randint(1, 97, (2, 13))
    lm = open_lm(context, folder)
    context.check(lib.ct_lora_load(lm, str(tmp_path / "adapter").encode()))
    want = context.value(forward(context, lm, ids))
    assert error(want, logits_of(model, ids)) < 1e-5
    path = tmp_path / "adapter.gguf"
    context.check(lib.ct_lora_save(lm, str(path).encode()))
    keys, tensors = read(path)
    assert keys["general.type"] == "adapter" and keys["adapter.type"] == "lora" and keys["adapter.lora.alpha"] == 6
    expected = adapter_tensors(model)
    assert set(tensors) == set(expected)
    for key, array in expected.items():
        assert tensors[key].tensor_type == Type.F32 and tensors[key].data.tobytes() == array.tobytes(), key
    lm = open_lm(context, folder)
    context.check(lib.ct_lora_load(lm, str(path).encode()))
    assert torch.equal(context.value(forward(context, lm, ids)), want)


@pytest.mark.skipif("GGUF_CONVERTER" not in os.environ, reason="GGUF_CONVERTER is not set")
@pytest.mark.parametrize("name", ["llama", "llama tied, biases", "gemma3", "smollm3", "bert"])
def test_adapters_of_converter(context, folder, tmp_path, name):
    """llama.cpp's converter of adapters writes the same file."""
    model = adapted(name, ADAPTED[name])
    make(name, models=GGUF_MODELS).save_pretrained(folder)
    model.save_pretrained(tmp_path / "adapter")
    lm = open_lm(context, folder)
    context.check(lib.ct_lora_load(lm, str(tmp_path / "adapter").encode()))
    context.check(lib.ct_lora_save(lm, str(tmp_path / "ours.gguf").encode()))
    for_converter(folder, model.get_base_model())
    script = Path(os.environ["GGUF_CONVERTER"]).parent / "convert_lora_to_gguf.py"
    run = subprocess.run([sys.executable, str(script), str(tmp_path / "adapter"), "--base", str(folder), "--outfile", str(tmp_path / "theirs.gguf")],
                         capture_output=True)
    assert run.returncode == 0, run.stderr.decode()[-2000:]
    keys, tensors = read(tmp_path / "ours.gguf")
    want_keys, want = read(tmp_path / "theirs.gguf")
    assert set(tensors) == set(want)
    for key, tensor in want.items():
        assert tensors[key].data.tobytes() == tensor.data.tobytes() and tuple(tensors[key].shape) == tuple(tensor.shape), key
    keys, want_keys = ({k: v for k, v in d.items() if not k.startswith(OF_WRITER)} for d in (keys, want_keys))
    assert keys == want_keys
