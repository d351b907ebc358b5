"""Every key of every family's config.json against transformers, live: a key is changed, and then the logits are those of transformers, or the
model is refused with the key's name. The keys are those of transformers' classes and those that its code reads."""
import dataclasses
import inspect
import json
import re
import sys

import pytest
import torch
import transformers
from transformers import GenerationConfig, masking_utils, cache_utils, modeling_rope_utils

import ct
from ct import lib
from test_models_live import LLAMA3, YARN, error, forward, logits_of, make, old_config, open_lm

FAMILIES = {"gpt2": "gpt2", "llama": "llama", "mistral": "mistral", "qwen2": "qwen2 windows", "qwen3": "qwen3", "gemma3_text": "gemma3",
            "smollm3": "smollm3 windows", "olmo2": "olmo2", "gpt_neox": "gpt_neox", "granite": "granite",
            "granitemoehybrid": "granite 4", "gemma3_text both ways": "gemma3 both ways",
            "roberta": "roberta masked", "xlm-roberta": "xlm-roberta masked", "distilbert": "distilbert masked", "bert": "bert masked"}
# what transformers follows, or opens without following, and what is refused here by its name; with what the message says
REFUSED = {"quantization_config": "quantised", "compression_config": "quantised", "is_causal": "later tokens", "per_layer_config": "single layers",
           "is_encoder_decoder": "decoder", "is_decoder": "decoder", "add_cross_attention": "another model", "transformers_weights": "another name",
           "sliding_window": "", "attention_chunk_size": "cache", "kv_sharing_modes": "share",
           "pruned_heads": "left out", "position_embedding_type": "absolute", "model_type": "famil", "architectures": "architecture",
           "layer_types": "", "no_rope_layers": "", "query_pre_attn_scalar": "above 0", "partial_rotary_factor": "dims", "rotary_pct": "",
           "head_dim": "width"}
# values that no model has: of another JSON type, or outside of a range; null is what transformers makes of it
NONSENSE = {"torch_dtype", "num_labels", "attention_dropout", "max_position_embeddings", "max_window_layers", "sliding_window_pattern", "no_rope_layer_interval",
            "rope_scaling", "rope_parameters", "id2label", "classifier_dropout", "hidden_dropout", "seq_classif_dropout"}
LARGE = {"vocab_size", "hidden_size", "intermediate_size", "n_embd", "num_hidden_layers", "num_attention_heads"}   # of a default
ANY = [True, False, None, 3, "x", {"a": 1}]
# keys of files that nothing in transformers reads: no more than other programs' notes
NOTES = ["finetuned", "max_sequence_length", "hidden_dropout", "auto_map", "unsloth_version", "pretraining_tp", "_name_or_path", "torchscript"]


def read_keys(*modules):
    """The attributes of a config that the code of modules reads."""
    keys = set()
    for module in modules:
        text = inspect.getsource(module)
        keys |= set(re.findall(r"\bconfig\.(\w+)\b(?!\()", text)) | set(re.findall(r"attr\(\s*(?:self\.)?\w*config\w*,\s*[\"'](\w+)", text))
    return keys - {"per_layer_config", "json"}


def keys_of(model, everything):
    """name: value of the model's config."""
    kind = type(model.config)
    keys = [f.name for f in dataclasses.fields(kind)] + list(kind.attribute_map)
    keys += sorted(read_keys(sys.modules[type(model).__module__]))
    keys += ["is_causal", "head_dim", "layer_types", "sliding_window", "attention_chunk_size", "per_layer_config", "quantization_config"]
    if everything:
        keys += sorted(read_keys(masking_utils, cache_utils, modeling_rope_utils)) + list(GenerationConfig._get_default_generation_params())
        keys += [name for name in dir(kind) if getattr(inspect.getattr_static(kind, name), "fset", None)] + NOTES
    return {key: getattr(model.config, key, None) for key in dict.fromkeys(keys)}


def values_of(key, old):
    if key == "per_layer_config":
        return [None, {"0": {"num_attention_heads": 2}}]
    if key == "quantization_config":
        return [None, {"quant_method": "bitsandbytes", "load_in_8bit": True}]
    if isinstance(old, bool):
        return [not old, None]
    if isinstance(old, (int, float)):
        return [old * 2, old + 1, old / 2, None]
    if isinstance(old, str):
        return ["x", None, "relu"]
    if key == "layer_types":
        return [None, ["full_attention"] * len(old or "123"), ["sliding_attention"] * len(old or "123"), ["attention"] * len(old or "123")]
    return ANY


class Programs:
    """One folder that both programs open with the changed texts of config.json."""

    def __init__(self, context, folder, family):
        self.context, self.folder, self.model = context, folder, make(FAMILIES[family])
        torch.set_num_threads(1)
        self.model.save_pretrained(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.state, self.ids = self.model.state_dict(), torch.randint(1, 97, (1, 21))

    def write(self, config):
        (self.folder / "config.json").write_text(json.dumps(config))

    def theirs(self, config):
        """None: transformers refuses it."""
        self.write(config)
        try:
            kind = type(self.model.config)
            model = type(self.model)(kind.from_pretrained(self.folder, attn_implementation="eager")).eval().float()
            model.load_state_dict(self.state)
            return logits_of(model, self.ids, return_dict=True)
        except Exception:
            return None

    def ours(self, config, **opts):
        """Logits, or the message of the error."""
        self.write(config)
        try:
            lm = open_lm(self.context, self.folder, **opts)
        except ct.Error as refusal:
            return str(refusal)
        out = self.context.value(forward(self.context, lm, self.ids))
        lib.ct_module_free(lm)
        return out

    def compare(self, key, value, config, wrong, refused=REFUSED):
        """Appends to `wrong` if the programs disagree. Returns whether transformers' logits are there."""
        want, what = self.theirs(config), (key, value)
        for ignore in (True, False):
            got = self.ours(config, ignore_unknown=ignore)
            if isinstance(got, torch.Tensor):
                if want is not None and not (got.shape == want.shape and error(got, want) < 1e-5):
                    wrong.append(what + ("other logits",))
                continue
            if not ignore and f'"{key}" is' in got and "not known for" in got:
                assert key not in {f.name for f in dataclasses.fields(self.model.config)}, got
                continue
            if want is None or (key in NONSENSE and value is not None) or (key == "head_dim" and isinstance(value, bool)) or got.startswith("load: "):   # the file has not the tensors
                continue
            if key not in refused or refused[key] not in got or "config.json: \"" not in got:
                wrong.append(what + (got,))
        return want is not None


@pytest.mark.parametrize("family", FAMILIES)
def test_each_key(context, folder, family):
    programs, wrong, opened = Programs(context, folder, family), [], 0
    config = programs.config
    for key, old in keys_of(programs.model, family == "llama").items():
        for value in values_of(key, old):
            opened += programs.compare(key, value, config | {key: value}, wrong)
        if key in config and key not in LARGE:
            programs.compare(key, "absent", {k: v for k, v in config.items() if k != key}, wrong)
    assert not wrong, wrong
    assert opened > 50


LINEAR = {"rope_type": "linear", "factor": 2.0}
CHANGES = {"factor": [3, None, 0.5], "rope_theta": [3e4], "original_max_position_embeddings": [24, None], "attention_factor": [1.3, None],
           "beta_fast": [20, 0, None], "beta_slow": [2, 0], "mscale": [0.8, 0], "mscale_all_dim": [0.6], "truncate": [False, None, 0, True],
           "low_freq_factor": [1.5], "high_freq_factor": [3.5], "attn_factor": [2.0], "finetuned": [True], "mrope_section": [[2, 1, 1]],
           "short_factor": [[1.0]], "partial_rotary_factor": [0.5, 0.75, 0.4, 0.9, 1.0], "type": ["yarn", "linear"], "rope_type": ["dynamic", "x", None]}
TOP = {"original_max_position_embeddings": [20, None], "rope_theta": [3e4], "partial_rotary_factor": [0.5, 0.4], "rotary_pct": [0.5, 0.4],
       "rotary_emb_base": [3e4], "max_position_embeddings": [128], "rope_local_base_freq": [3e3]}
ROPE_REFUSED = {"rope_type": "kinds", "partial_rotary_factor": "dims", "rotary_pct": "dims"}


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "gemma3_text"])
@pytest.mark.parametrize("dialect", ["rope_parameters", "rope_scaling"])
def test_rope_options(context, folder, family, dialect):
    """Each option of each kind of RoPE, in both dialects, and the keys of the top level beside it."""
    programs, wrong, opened = Programs(context, folder, family), [], 0
    base = old_config(programs.config) if dialect == "rope_scaling" else dict(programs.config)

    def compare(key, value, options, **top):
        if family == "gemma3_text" and dialect == "rope_parameters":
            options = {"full_attention": options, "sliding_attention": {"rope_type": "default"}}
        return programs.compare(key, value, base | {dialect: options} | top, wrong, ROPE_REFUSED)

    kinds = ({"rope_type": "default"}, LINEAR, LLAMA3, YARN)
    for kind in kinds[1::2] if family == "gemma3_text" else kinds:   # its model is the slowest
        kind = {k: v for k, v in kind.items() if k != "rope_theta"}
        for key, values in CHANGES.items():
            for value in values:
                opened += compare(key, value, kind | {key: value})
            if key in kind:
                compare(key, "absent", {k: v for k, v in kind.items() if k != key})
        for key, values in TOP.items():
            for value in values:
                opened += compare(key, value, kind, **{key: value})
    for key, value in (("mscale", 0.7), ("truncate", False)):   # beside others
        opened += compare(key, value, YARN | {"mscale_all_dim": 0.9, "beta_fast": 9.0} | {key: value})
    assert not wrong, wrong
    assert opened > 40


def test_both_dialects_and_nested_options(context, folder):
    programs, wrong = Programs(context, folder, "gemma3_text"), []
    nested = {"full_attention": LINEAR, "sliding_attention": {"rope_type": "default", "rope_theta": 3e3}}
    rows = [({"rope_scaling": {"rope_type": "linear", "factor": 4.0}, "rope_parameters": nested}, "rope_scaling"),
            ({"rope_scaling": {"factor": 4.0}, "rope_parameters": nested}, "rope_scaling"),
            ({"rope_parameters": nested | {"full_attention": YARN, "truncate": False}}, "truncate"),
            ({"rope_parameters": {"full_attention": None, "sliding_attention": LINEAR}}, "full_attention"),
            ({"rope_parameters": {"full_attention": YARN | {"truncate": False}}}, "truncate"),
            ({"rope_parameters": None}, "rope_parameters"), ({"rope_parameters": {}}, "rope_parameters"),
            ({"rope_parameters": None, "rope_theta": 3e5, "rope_local_base_freq": 3e3}, "rope_theta")]
    for change, key in rows:
        want = programs.compare(key, change, programs.config | change, wrong, {})
        assert want or not isinstance(programs.ours(programs.config | change), torch.Tensor) or change["rope_parameters"] == {}, change
    assert not wrong, wrong
    llama = Programs(context, folder, "llama")
    for scaling in (LINEAR, {}, None):
        assert llama.compare("rope_scaling", scaling, llama.config | {"rope_scaling": scaling, "rope_parameters": YARN}, wrong, {})
    assert not wrong, wrong


def test_a_smollm3_with_windows_by_its_list(context, folder):
    """use_sliding_window says which layers have a window only if layer_types does not."""
    programs, wrong = Programs(context, folder, "smollm3"), []
    types = ["sliding_attention", "full_attention"] * 2 + ["sliding_attention"]
    for change in ({"use_sliding_window": False}, {"use_sliding_window": True}):
        assert programs.compare("layer_types", types, programs.config | {"layer_types": types, "sliding_window": 4} | change, wrong, {})
    assert not wrong, wrong


def test_a_null_that_is_not_looked_at_or_has_a_meaning(context, folder):
    """Only layer_types are read of Gemma 3's windows then. Granite 4.0 without a multiplier has sdpa's own scale, 1 / sqrt(d)."""
    programs, wrong = Programs(context, folder, "gemma3_text"), []
    assert programs.compare("sliding_window_pattern", None, programs.config | {"sliding_window_pattern": None}, wrong, {})
    programs = Programs(context, folder, "granitemoehybrid")
    config = programs.config | {"attention_multiplier": None}
    programs.write(config)
    model = type(programs.model).from_pretrained(folder, attn_implementation="sdpa").eval()
    assert error(programs.ours(config), logits_of(model, programs.ids)) < 1e-5
    assert error(programs.ours(programs.config), logits_of(model, programs.ids)) > 1e-3
    assert not wrong, wrong


def test_sines_of_a_new_distilbert(context):
    """The table of positions that transformers makes."""
    config = {"vocab_size": 97, "dim": 32, "n_layers": 1, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64}
    theirs = transformers.DistilBertModel(transformers.DistilBertConfig(**config, sinusoidal_pos_embds=True))
    want = theirs.embeddings.position_embeddings.weight
    for sines in (True, False):
        text = json.dumps(config | {"model_type": "distilbert", "sinusoidal_pos_embds": sines})
        lm = context.check(lib.ct_lm_new(context.pointer, text.encode(), ct.LmOpts()))
        got = context.value(context.parameters(lm)["embeddings.position_embeddings.weight"])
        assert ((got - want).abs().max() < 1e-6) == sines
    assert want.abs().max() == 1


def test_options_of_generation(context, folder):
    """config.json may have every option of generation: they change no logits."""
    programs = Programs(context, folder, "llama")
    options = {key: value for key, value in vars(GenerationConfig(num_beams=1, min_p=0.1, max_new_tokens=3)).items() if not key.startswith("_")}
    assert torch.equal(programs.ours(options | programs.config), programs.ours(programs.config))


def test_keys_that_are_there_twice(context, folder):
    """A large object too: one of the values would be passed over."""
    programs = Programs(context, folder, "llama")
    many = programs.config | {name: None for name in list(GenerationConfig._get_default_generation_params())[:60]}
    text = json.dumps({k: v for k, v in many.items() if k in programs.config or k in ("temperature", "top_k", "top_p")} | {f"_note_{i}": i for i in range(64)})
    (folder / "config.json").write_text(text[:-1] + ', "rms_norm_eps": 0.1}')
    with pytest.raises(ct.Error, match='"rms_norm_eps" is .*twice'):
        open_lm(context, folder, ignore_unknown=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_that_a_file_leaves_out(context, family):
    """They have the defaults of the class: which ids end a row, and which row of the embedding gets no gradient."""
    size = {"n_embd": 16, "n_head": 2, "n_layer": 0} if family == "gpt2" else {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 0}
    more = {"num_local_experts": 0, "layer_types": []} if family == "granitemoehybrid" else {}
    config = {"model_type": family.split()[0], "vocab_size": 130000, "intermediate_size": 4, "head_dim": 8, "num_key_value_heads": 2} | size | more
    lm = context.check(lib.ct_lm_new(context.pointer, json.dumps(config).encode(), ct.LmOpts(ignore_unknown=True)))
    about, theirs = lib.ct_lm_about(lm), type(make(FAMILIES[family]).config)()
    eos = [about.eos[i] for i in range(about.n_eos)]
    assert [about.bos, eos, about.pad] == [-1 if theirs.bos_token_id is None else theirs.bos_token_id,
                                           [] if theirs.eos_token_id is None else [theirs.eos_token_id],
                                           -1 if theirs.pad_token_id is None else theirs.pad_token_id]
