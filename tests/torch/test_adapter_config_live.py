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
    "modules_to_save": [["lm_head"], ["none"], "lm_head", []], "rank_pattern": [{"v_proj": 2}, {"q_proj": 4, "down_proj": 4}, {}],
    "alpha_pattern": [{"q_proj": 2, "proj": 9, ".*_proj": 1.5}, {r"layers\.[01]\..*": 3}, {"x": 9}, {}], "target_parameters": [["x"], []],
    "trainable_token_indices": [[1, 2]], "layer_replication": [[[0, 2], [1, 3]]], "megatron_config": [{"a": 1}], "arrow_config": [{"top_k": 1}],
    "alora_invocation_tokens": [[1, 2], []],
}
# what PEFT follows and is refused here, what PEFT opens with a part of the file's matrices left out, and DoRA without its norms in the file
REFUSED = {"use_dora", "use_qalora", "bias", "lora_bias", "modules_to_save", "target_parameters",
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
            assert re.search(rf'adapter_config.json: "({field}|layers_to_transform)"', got) or field == "use_dora" and "lora_magnitude" in got, got
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


def has_values(context, lm, ids, want):
    return error(context.value(forward(context, lm, ids)), want) < 3e-6


def has_gradients(context, lm, ids, model):
    """Of the loss with fixed targets, for all that is trained."""
    targets = (ids * 7 + 3) % 97
    model.zero_grad()
    torch.nn.functional.cross_entropy(model(input_ids=ids).logits.flatten(0, 1), targets.flatten()).backward()
    context.backward([context.check(lib.ct_lm_loss(lm, context.tensor(ids), context.tensor(targets), ct.LmCall(), ct.CrossEntropyOpts()))], [torch.ones(())])
    n = 0
    for name, param in model.named_parameters():
        if "lora_" not in name:
            continue
        ours_of = context.check(lib.ct_module_get(lm, name.removeprefix("base_model.model.").replace(".default", "").removesuffix(".weight").encode()))
        assert param.grad.abs().max() > 1e-5 and error(context.grad(ours_of), param.grad) < 1e-5, name
        n += 1
    return n


def both_ways(context, folder, tmp_path, name, model, ids):
    """PEFT's folder here and ours there, off and on, merged."""
    model.save_pretrained(tmp_path / "theirs")
    want = logits_of(model.eval(), ids)
    lm = open_lm(context, folder)
    base = context.value(forward(context, lm, ids))
    context.check(lib.ct_lora_load(lm, str(tmp_path / "theirs").encode()))
    assert has_values(context, lm, ids, want) and error(base, want) > 1e-3
    assert has_gradients(context, lm, ids, model) >= 6
    context.check(lib.ct_lora_enable(lm, False))
    with model.disable_adapter():
        assert has_values(context, lm, ids, logits_of(model, ids))
    assert torch.equal(context.value(forward(context, lm, ids)), base)
    context.check(lib.ct_lora_enable(lm, True))
    context.check(lib.ct_lora_save(lm, str(tmp_path / "ours").encode()))
    assert error(theirs(tmp_path / "ours", ids, name), want) < 3e-6
    context.check(lib.ct_lora_merge(lm))
    assert has_values(context, lm, ids, want)
    return lm


@pytest.mark.parametrize("name, options", [("llama", {"use_rslora": True}), ("llama", {"use_dora": True}), ("gpt2", {"use_dora": True, "use_rslora": True, "target_modules": ["c_attn", "c_proj"], "fan_in_fan_out": True}),
                                           ("llama", {"rank_pattern": {"down_proj": 2, r"1\.self_attn\.q_proj": 7}, "alpha_pattern": {"layers.0.*": 2.5}, "use_dora": True}),
                                           ("gpt2", {"use_rslora": True, "target_modules": ["c_attn"], "fan_in_fan_out": True})])
@pytest.mark.filterwarnings("ignore")
def test_options_both_ways(context, folder, tmp_path, name, options):
    make(name).save_pretrained(folder)
    both_ways(context, folder, tmp_path, name, peft_model(name, **{"target_modules": TARGETS} | options), torch.randint(1, 97, (2, 9)))


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


SAVED = [("llama", ["lm_head"], {}), ("llama", ["embed_tokens", "lm_head"], {}), ("llama", ["mlp", "norm"], {"target_modules": ["q_proj"]}), ("llama", ["1.self_attn.k_proj", "1.mlp.up_proj"], {"target_modules": ["down_proj"]}),
         ("llama tied, biases", ["lm_head"], {}), ("llama tied, biases", ["embed_tokens"], {}), ("llama tied, biases", ["embed_tokens", "lm_head"], {}),
         ("llama tied, biases", ["embed_tokens"], {"ensure_weight_tying": True}), ("llama tied, biases", ["embed_tokens", "lm_head"], {"ensure_weight_tying": True}),
         ("gpt2", ["mlp", "wte"], {"target_modules": ["c_attn"], "fan_in_fan_out": True}), ("gpt2", ["h.0.attn", "lm_head"], {"target_modules": ["c_fc"], "fan_in_fan_out": True}),
         ("gpt_neox", ["embed_in", "query_key_value"], {"target_modules": ["dense_4h_to_h"]}), ("gemma3", ["embed_tokens"], {"use_dora": True}),
         ("bert", ["attention.output.dense", "embeddings.LayerNorm"], {"target_modules": ["query"]})]


def saved_model(name, names, options):
    model = peft_model(name, **{"target_modules": TARGETS, "modules_to_save": names} | options)
    for key, value in model.named_parameters():
        if "modules_to_save" in key:
            torch.nn.init.normal_(value, std=0.3)
    return model


def ours_of(context, lm, key):
    """The tensor here of a name in PEFT's state dict."""
    key = key.removeprefix("base_model.model.").replace(".modules_to_save.default", "")
    return context.check(lib.ct_module_get(lm, (key.replace(".default", "").removesuffix(".weight") if "lora_" in key else key).encode()))


@pytest.mark.parametrize("name, names, options", SAVED, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_modules_to_save(context, folder, tmp_path, name, names, options):
    """Values and gradients of saved modules, off and on, PEFT's file here and ours there, merged."""
    make(name).save_pretrained(folder)
    model = saved_model(name, names, options)
    ids = torch.randint(1, 97, (2, 9))
    model.save_pretrained(tmp_path / "theirs")
    want, seed = logits_of(model, ids), torch.randn(2, 9, logits_of(model, ids).shape[-1])
    lm = open_lm(context, folder)
    base = context.value(forward(context, lm, ids))
    for _ in range(2):
        context.check(lib.ct_lora_load(lm, str(tmp_path / "theirs").encode()))
        assert has_values(context, lm, ids, want) and error(base, want) > 1e-3
    model.zero_grad()
    out = model(input_ids=ids)
    (out.logits if hasattr(out, "logits") else out.last_hidden_state).backward(seed)
    context.backward([forward(context, lm, ids)], [seed])
    trained = {key: value for key, value in model.named_parameters(remove_duplicate=False) if value.requires_grad}
    assert any("modules_to_save" in key for key in trained)
    for key, value in trained.items():
        tensor = ours_of(context, lm, key)
        transposed = name == "gpt2" and "modules_to_save" in key and value.ndim == 2 and not re.search("wte|lm_head", key)
        if value.grad is not None:
            assert error(context.grad(tensor), value.grad.T if transposed else value.grad) < 2e-5, key
    mine = {key for key, tensor in context.parameters(lm).items() if lib.ct_requires_grad(tensor)}
    assert len({id(value) for value in trained.values()}) == len(mine)
    context.check(lib.ct_lora_enable(lm, False))
    with model.disable_adapter():
        assert has_values(context, lm, ids, logits_of(model, ids))
    assert torch.equal(context.value(forward(context, lm, ids)), base)
    context.check(lib.ct_lora_save(lm, str(tmp_path / "ours").encode()))
    context.check(lib.ct_lora_enable(lm, True))
    again = peft.PeftModel.from_pretrained(make(name), tmp_path / "ours", is_trainable=True).eval()
    assert error(logits_of(again, ids), want) < 3e-6
    assert {key for key, value in again.named_parameters(remove_duplicate=False) if value.requires_grad} == set(trained)
    stored = [safetensors.torch.load_file(tmp_path / where / "adapter_model.safetensors") for where in ("theirs", "ours")]
    for key in stored[0]:
        assert torch.equal(stored[0][key], stored[1][key]), key
    assert set(stored[0]) == set(stored[1])
    context.check(lib.ct_lora_merge(lm))
    assert has_values(context, lm, ids, want)
    context.check(lib.ct_lm_save(lm, str(tmp_path / "merged").encode(), ct.SaveOpts()))
    merged = type(make(name)).from_pretrained(tmp_path / "merged").eval()
    assert error(logits_of(merged, ids), want) < 5e-6


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.filterwarnings("ignore")
def test_modules_of_a_grown_vocabulary(context, folder, tmp_path, tied):
    """PEFT then stores the originals too, whose new rows it draws."""
    name = "llama tied, biases" if tied else "llama"
    make(name).save_pretrained(folder)
    model = type(make(name)).from_pretrained(folder)
    model.resize_token_embeddings(101)
    model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=TARGETS, modules_to_save=["embed_tokens", "lm_head"])).eval()
    for key, value in model.named_parameters():
        if "lora_B" in key or "modules_to_save" in key:
            torch.nn.init.normal_(value, std=0.3)
    model.save_pretrained(tmp_path / "theirs")
    assert any("original_module" in key for key in safetensors.torch.load_file(tmp_path / "theirs" / "adapter_model.safetensors"))
    ids = torch.randint(1, 101, (2, 9))
    lm = open_lm(context, folder)
    with pytest.raises(ct.Error, match="embed_tokens.weight.*ct_lm_resize"):
        context.check(lib.ct_lora_load(lm, str(tmp_path / "theirs").encode()))
    context.check(lib.ct_lm_resize(lm, 101))
    context.check(lib.ct_lora_load(lm, str(tmp_path / "theirs").encode()))
    assert has_values(context, lm, ids, logits_of(model, ids))
    context.check(lib.ct_lora_enable(lm, False))
    with model.disable_adapter():
        assert has_values(context, lm, ids, logits_of(model, ids))


@pytest.mark.filterwarnings("ignore")
def test_an_adapter_inside_a_saved_module(context, folder, tmp_path):
    make("llama").save_pretrained(folder)
    peft_model("llama", target_modules=TARGETS).save_pretrained(tmp_path / "adapter")
    path = tmp_path / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"modules_to_save": ["mlp"]}))
    lm = open_lm(context, folder)
    names = list(context.parameters(lm))
    with pytest.raises(ct.Error, match="mlp.down_proj, which is in modules_to_save"):
        context.check(lib.ct_lora_load(lm, str(tmp_path / "adapter").encode()))
    assert list(context.parameters(lm)) == names
