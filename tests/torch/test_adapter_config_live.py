"""Every field of PEFT's LoraConfig in adapter_config.json against PEFT, live: a field is changed, and then the logits are PEFT's, or the adapter is
refused with the field's name; and adapters of heads, tied or not."""
import dataclasses
import json
import re

import pytest
import safetensors.torch
import torch

import ct
from ct import lib
from test_models_live import error, forward, logits_of, make, open_lm, peft_model

peft = pytest.importorskip("peft")

TARGETS = ["q_proj", "down_proj"]
CHANGES = {
    "peft_type": ["LORA", "IA3", None], "task_type": [None, "CAUSAL_LM", "SEQ_CLS"], "base_model_name_or_path": ["x", None], "revision": ["main"],
    "inference_mode": [False], "fan_in_fan_out": [True], "auto_mapping": [{"base_model_class": "x"}], "peft_version": ["9.9"],
    "megatron_core": ["x"], "qalora_group_size": [4], "runtime_config": [{"ephemeral_gpu_offload": False}], "ensure_weight_tying": [True],
    "r": [5], "lora_alpha": [3, 2.5, 0], "lora_dropout": [0.3],
    "target_modules": [["q_proj", "down_proj", "k_proj"], ["q_proj"], ["model.layers.0.self_attn.q_proj", "down_proj"], "all-linear", ".*(q|down)_proj",
                       r"model\.layers\.\d+\.(?:self_attn|mlp)\.(?:q|down)_proj", ".*proj", ".*q_proj", "q_proj", ".*(q|down)", None],
    "exclude_modules": [["v_proj"], ["q_proj"], "model.layers.2.*", ".*v_proj", [], None],
    "layers_to_transform": [0, [1, 2], [0, 1, 2], [], None], "layers_pattern": ["layers", "h", ["h", "layers"]],
    "init_lora_weights": [True, False, None, "gaussian", "eva", "orthogonal", "pissa", "pissa_niter_4", "olora", "corda", "loftq", "x"],
    "loftq_config": [{"loftq_bits": 4}], "eva_config": [{"rho": 2.0}], "corda_config": [{"corda_method": "kpm"}],
    "use_rslora": [True], "use_dora": [True], "use_qalora": [True], "bias": ["none", "all", "lora_only"], "lora_bias": [True],
    "modules_to_save": [["lm_head"], []], "rank_pattern": [{"q_proj": 2}, {}], "alpha_pattern": [{"q_proj": 2}, {}], "target_parameters": [["x"], []],
    "trainable_token_indices": [[1, 2]], "layer_replication": [[[0, 2], [1, 3]]], "megatron_config": [{"a": 1}], "arrow_config": [{"top_k": 1}],
    "alora_invocation_tokens": [[1, 2], []],
}
# what PEFT follows and is refused here, and what PEFT opens with a part of the file's matrices left out
REFUSED = {"use_rslora", "use_dora", "use_qalora", "bias", "lora_bias", "modules_to_save", "rank_pattern", "alpha_pattern", "target_parameters",
           "trainable_token_indices", "layer_replication", "megatron_config", "arrow_config", "alora_invocation_tokens",
           "target_modules", "exclude_modules", "layers_to_transform", "peft_type"}
REFUSED_STARTS = ("pissa", "olora", "corda", "loftq")


def test_every_field_is_changed():
    assert {f.name for f in dataclasses.fields(peft.LoraConfig)} == set(CHANGES)


@pytest.fixture
def adapter(folder, tmp_path):
    make("llama").save_pretrained(folder)
    peft_model("llama", target_modules=TARGETS).save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


def theirs(adapter, ids, name="llama"):
    try:
        return logits_of(peft.PeftModel.from_pretrained(make(name), adapter).eval(), ids)
    except Exception:
        return None


def ours(context, folder, adapter, ids):
    lm = open_lm(context, folder)
    try:
        context.check(lib.ct_lora_load(lm, str(adapter).encode()))
        return context.value(forward(context, lm, ids))
    except ct.Error as refusal:
        return str(refusal)
    finally:
        lib.ct_module_free(lm)


@pytest.mark.parametrize("field", CHANGES)
@pytest.mark.filterwarnings("ignore")
def test_each_field(context, folder, adapter, field):
    torch.set_num_threads(1)
    ids, path = torch.randint(1, 97, (1, 9)), adapter / "adapter_config.json"
    config, followed = json.loads(path.read_text()), 0
    for value in CHANGES[field]:
        change = {field: value} | ({"layers_to_transform": [0, 1, 2]} if field == "layers_pattern" else {})
        path.write_text(json.dumps(config | change))
        want, got = theirs(adapter, ids), ours(context, folder, adapter, ids)
        if isinstance(got, torch.Tensor):
            assert want is None or error(got, want) < 3e-6, (field, value)
            followed += want is not None
        elif want is not None:
            assert field in REFUSED or str(value).startswith(REFUSED_STARTS), (field, value, got)
            assert re.search(rf'adapter_config.json: "({field}|layers_to_transform)"', got), got
    path.write_text(json.dumps({k: v for k, v in config.items() if k != field}))
    want, got = theirs(adapter, ids), ours(context, folder, adapter, ids)
    assert want is None or isinstance(got, str) and field in ("peft_type", "target_modules") or error(got, want) < 3e-6, (field, got)


HEADS = [("llama", ["q_proj", "lm_head"]), ("llama tied, biases", ["q_proj", "lm_head"]), ("gpt2", ["c_attn", "lm_head"]), ("gemma3", ["lm_head"])]


@pytest.mark.parametrize("name, targets", HEADS, ids=[h[0] for h in HEADS])
@pytest.mark.filterwarnings("ignore")
def test_adapters_of_heads(context, folder, tmp_path, name, targets):
    """PEFT stores the head's weight too. Merged, a tied head gets a weight of its own: the embedding stays."""
    model = make(name)
    model.save_pretrained(folder)
    peft_model(name, target_modules=targets, fan_in_fan_out=name == "gpt2").save_pretrained(tmp_path / "theirs")
    tensors = safetensors.torch.load_file(tmp_path / "theirs" / "adapter_model.safetensors")
    assert "base_model.model.lm_head.base_layer.weight" in tensors
    ids = torch.randint(1, 97, (2, 9))
    want = theirs(tmp_path / "theirs", ids, name)
    assert want is not None
    lm = open_lm(context, folder)
    base = context.value(forward(context, lm, ids))
    for _ in range(2):   # the second time fills the adapters that are there
        context.check(lib.ct_lora_load(lm, str(tmp_path / "theirs").encode()))
        assert error(context.value(forward(context, lm, ids)), want) < 3e-6 and error(base, want) > 1e-3
    targets_of_loss = torch.randint(0, 97, (2, 9))
    loss = context.check(lib.ct_lm_loss(lm, context.tensor(ids), context.tensor(targets_of_loss), ct.LmCall(), ct.CrossEntropyOpts()))
    assert error(context.value(loss), torch.nn.functional.cross_entropy(want.flatten(0, 1), targets_of_loss.flatten())) < 1e-5
    context.check(lib.ct_lora_save(lm, str(tmp_path / "ours").encode()))
    assert error(theirs(tmp_path / "ours", ids, name), want) < 3e-6
    context.check(lib.ct_lora_merge(lm))
    assert error(context.value(forward(context, lm, ids)), want) < 3e-6
    context.check(lib.ct_lm_save(lm, str(tmp_path / "merged").encode(), ct.SaveOpts()))
    again = type(model).from_pretrained(tmp_path / "merged").eval()
    assert error(logits_of(again, ids), want) < 5e-6
    assert torch.equal(again.get_input_embeddings().weight, model.get_input_embeddings().weight)
    # the weight of another model
    tensors["base_model.model.lm_head.base_layer.weight"][3, 1] += 0.5
    safetensors.torch.save_file(tensors, tmp_path / "theirs" / "adapter_model.safetensors", {"format": "pt"})
    other = open_lm(context, folder)
    with pytest.raises(ct.Error, match="lm_head.base_layer.weight.* differs from the model's"):
        context.check(lib.ct_lora_load(other, str(tmp_path / "theirs").encode()))
    assert torch.equal(context.value(forward(context, other, ids)), base)


@pytest.mark.filterwarnings("ignore")
def test_stored_embeddings_and_halves(context, folder, tmp_path):
    """Rows for new tokens make PEFT store the embedding too; a bf16 model has the rounded values of the file."""
    make("llama").save_pretrained(folder)
    model = peft_model("llama", target_modules=["q_proj", "lm_head"])
    model.save_pretrained(tmp_path / "all")
    tensors = safetensors.torch.load_file(tmp_path / "all" / "adapter_model.safetensors")
    tensors["base_model.model.model.embed_tokens.weight"] = model.get_input_embeddings().weight.detach().clone()
    safetensors.torch.save_file(tensors, tmp_path / "all" / "adapter_model.safetensors", {"format": "pt"})
    ids = torch.randint(1, 97, (2, 9))
    assert error(ours(context, folder, tmp_path / "all", ids), logits_of(model, ids)) < 3e-6
    lm = open_lm(context, folder, dtype=4)
    context.check(lib.ct_lora_load(lm, str(tmp_path / "all").encode()))
    assert error(context.value(forward(context, lm, ids)), logits_of(model, ids)) < 0.05


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3", "gpt_neox", "bert", "qwen3"])
@pytest.mark.filterwarnings("ignore")
def test_targets_of_a_family(context, folder, tmp_path, name):
    """Without target_modules PEFT adapts some Linears of each family."""
    make(name).save_pretrained(folder)
    peft_model(name).save_pretrained(tmp_path / "adapter")
    path = tmp_path / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"target_modules": None}))
    ids = torch.randint(1, 97, (1, 9))
    assert error(ours(context, folder, tmp_path / "adapter", ids), theirs(tmp_path / "adapter", ids, name)) < 3e-6
