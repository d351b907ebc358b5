"""Models of Hugging Face folders against transformers, live: logits, hidden states, gradients, masks, caches, adapters, and
files in both directions."""
import json

import pytest
import safetensors.torch
import torch
import transformers
from transformers import AutoConfig

import ct
from ct import lib

SMALL = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
LLAMA = SMALL | {"num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16}
GEMMA_BOTH = LLAMA | {"num_hidden_layers": 7, "head_dim": 16, "sliding_window": 6, "query_pre_attn_scalar": 20, "use_bidirectional_attention": True}
GRANITE = LLAMA | {"embedding_multiplier": 5, "attention_multiplier": 0.11, "residual_multiplier": 0.7, "logits_scaling": 3}
GRANITE4 = GRANITE | {"layer_types": ["attention"] * 3, "num_local_experts": 0, "shared_intermediate_size": 40, "position_embedding_type": "rope",
                      "mamba_n_heads": 4}
ROBERTA = SMALL | {"max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1}
DISTILBERT = {"vocab_size": 97, "dim": 32, "hidden_dim": 48, "n_layers": 3, "n_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0}
BERT = SMALL | {"max_position_embeddings": 64, "type_vocab_size": 3, "pad_token_id": 0}

# name: (class, config)
MODELS = {
    "gpt2": ("GPT2LMHeadModel", {"vocab_size": 97, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64}),
    "gpt2 scaled": ("GPT2LMHeadModel", {"vocab_size": 97, "n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64, "n_inner": 50,
                                        "scale_attn_by_inverse_layer_idx": True, "activation_function": "relu"}),
    "gpt2 bare": ("GPT2Model", {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}),
    "llama": ("LlamaForCausalLM", LLAMA),
    "llama tied, biases": ("LlamaForCausalLM", LLAMA | {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True, "head_dim": 12}),
    "llama 3": ("LlamaForCausalLM", LLAMA | {"rope_parameters": LLAMA3}),
    "llama yarn": ("LlamaForCausalLM", LLAMA | {"rope_parameters": YARN}),
    "llama linear": ("LlamaForCausalLM", LLAMA | {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}}),
    "llama bare": ("LlamaModel", LLAMA),
    "mistral": ("MistralForCausalLM", LLAMA | {"sliding_window": 5}),
    "mistral without window": ("MistralForCausalLM", LLAMA | {"sliding_window": None}),
    "qwen2": ("Qwen2ForCausalLM", LLAMA),
    "qwen2 windows": ("Qwen2ForCausalLM", LLAMA | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1}),
    "qwen3": ("Qwen3ForCausalLM", LLAMA | {"head_dim": 16}),
    "gemma3": ("Gemma3ForCausalLM", LLAMA | {"num_hidden_layers": 7, "head_dim": 16, "sliding_window": 5, "query_pre_attn_scalar": 20}),
    "gemma3 softcap": ("Gemma3ForCausalLM", LLAMA | {"num_hidden_layers": 2, "head_dim": 16, "final_logit_softcapping": 1.5}),
    "gemma3 bare both ways": ("Gemma3TextModel", GEMMA_BOTH),
    "gemma3 bare both ways, odd window": ("Gemma3TextModel", GEMMA_BOTH | {"sliding_window": 7, "layer_types": ["full_attention", "sliding_attention"] * 2,
                                                                      "num_hidden_layers": 4}),
    "gemma3 both ways": ("Gemma3ForCausalLM", GEMMA_BOTH | {"num_hidden_layers": 3, "layer_types": ["sliding_attention", "full_attention",
                                                                                                             "sliding_attention"]}),
    "smollm3": ("SmolLM3ForCausalLM", LLAMA | {"num_hidden_layers": 5}),
    "smollm3 windows": ("SmolLM3ForCausalLM", LLAMA | {"num_hidden_layers": 5, "use_sliding_window": True, "sliding_window": 4}),
    "olmo2": ("Olmo2ForCausalLM", LLAMA),
    "olmo2 tied, biases": ("Olmo2ForCausalLM", LLAMA | {"tie_word_embeddings": True, "attention_bias": True, "head_dim": 12}),
    "olmo2 bare": ("Olmo2Model", LLAMA),
    "granite": ("GraniteForCausalLM", GRANITE | {"attention_bias": True, "mlp_bias": True, "head_dim": 12}),
    "granite tied": ("GraniteForCausalLM", GRANITE | {"tie_word_embeddings": True}),
    "granite bare": ("GraniteModel", GRANITE),
    "granite 4": ("GraniteMoeHybridForCausalLM", GRANITE4),
    "granite 4 tied": ("GraniteMoeHybridForCausalLM", GRANITE4 | {"tie_word_embeddings": True, "position_embedding_type": None, "attention_bias": True}),
    "granite 4 bare": ("GraniteMoeHybridModel", GRANITE4),
    "gpt_neox": ("GPTNeoXForCausalLM", SMALL | {"max_position_embeddings": 64}),
    "gpt_neox in sequence": ("GPTNeoXForCausalLM", SMALL | {"use_parallel_residual": False, "attention_bias": False,
                                                            "rope_parameters": {"rope_theta": 2e4, "partial_rotary_factor": 0.5}}),
    "bert": ("BertModel", BERT),
    "bert masked": ("BertForMaskedLM", BERT),
    "roberta bare": ("RobertaModel", ROBERTA),
    "roberta masked": ("RobertaForMaskedLM", ROBERTA | {"hidden_act": "relu"}),
    "roberta classes": ("RobertaForSequenceClassification", ROBERTA | {"num_labels": 5}),
    "roberta tokens": ("RobertaForTokenClassification", ROBERTA | {"num_labels": 5}),
    "xlm-roberta bare": ("XLMRobertaModel", ROBERTA),
    "xlm-roberta masked": ("XLMRobertaForMaskedLM", ROBERTA | {"pad_token_id": 4}),
    "xlm-roberta classes": ("XLMRobertaForSequenceClassification", ROBERTA | {"num_labels": 5}),
    "distilbert bare": ("DistilBertModel", DISTILBERT | {"sinusoidal_pos_embds": True}),
    "distilbert masked": ("DistilBertForMaskedLM", DISTILBERT),
    "distilbert classes": ("DistilBertForSequenceClassification", DISTILBERT | {"num_labels": 5}),
    "distilbert tokens": ("DistilBertForTokenClassification", DISTILBERT | {"num_labels": 5}),
    "bert classes": ("BertForSequenceClassification", BERT | {"num_labels": 5}),
}
CONFIGS = {"GPT2": "GPT2Config", "Llama": "LlamaConfig", "Mistral": "MistralConfig", "Qwen2": "Qwen2Config", "Qwen3": "Qwen3Config",
           "Roberta": "RobertaConfig", "XLMRoberta": "XLMRobertaConfig", "DistilBert": "DistilBertConfig", "GraniteMoeHybrid": "GraniteMoeHybridConfig", "Granite": "GraniteConfig", "Gemma3": "Gemma3TextConfig", "SmolLM3": "SmolLM3Config", "Olmo2": "Olmo2Config", "GPTNeoX": "GPTNeoXConfig", "Bert": "BertConfig"}


def make(name, dtype=torch.float32, models=MODELS):
    kind, config = models[name]
    prefix = next(p for p in CONFIGS if kind.startswith(p))
    config = getattr(transformers, CONFIGS[prefix])(**config, attn_implementation="eager")
    torch.manual_seed(5)
    model = getattr(transformers, kind)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.to(dtype)


def open_lm(context, folder, **opts):
    return context.check(lib.ct_lm_open(context.pointer, str(folder).encode(), ct.LmOpts(**opts)))


def forward(context, lm, ids, **call):
    call = {k: context.tensor(v) if isinstance(v, torch.Tensor) else v for k, v in call.items()}
    return context.check(lib.ct_lm_forward(lm, context.tensor(ids), ct.LmCall(**call)))


def result(out):
    return out.logits if "logits" in out else out.last_hidden_state


def error(a, b):
    return ((a.double() - b.double()).abs().max() / b.double().abs().max()).item()


def logits_of(model, ids, **more):
    with torch.no_grad():
        return result(model(ids, **more))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "model"


DRAWS = 24   # the errors of eight differ by more than half from those of eighty


def first_name(key):
    """XLM-RoBERTa's head stands before its base, and names the tied matrix."""
    return key.replace("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight")


def gradients(model, ids, cotangent):
    model.zero_grad()
    result(model(ids)).backward(cotangent)
    return {first_name(key): value.grad.clone() for key, value in model.named_parameters() if value.grad is not None}


@pytest.mark.parametrize("name", MODELS)
def test_values_and_gradients(context, folder, name):
    model = make(name)
    model.save_pretrained(folder)
    exact = make(name).double()
    ids = torch.randint(1, 97, (2, 13))
    want = logits_of(exact, ids)
    lm = open_lm(context, folder)
    parameters, off, values_off = context.parameters(lm), {}, []
    context.check(lib.ct_module_train(lm, False))
    for _ in range(DRAWS):
        text, cotangent = torch.randint(1, 97, ids.shape), torch.randn(want.shape)
        for pointer in parameters.values():
            lib.ct_zero_grad(pointer)
        ours, double = forward(context, lm, text), logits_of(exact, text)
        values_off.append([error(context.value(ours), double), error(logits_of(model, text), double)])
        context.backward([ours], [cotangent])
        grads, singles = gradients(exact, text, cotangent.double()), gradients(model, text, cotangent)
        largest = max(grad.abs().max() for grad in grads.values())
        for key, grad in grads.items():
            got, single = context.grad(parameters[key]), singles[key]
            if MODELS[name][0].startswith("GPT2") and key.split(".")[-2] in ("c_attn", "c_proj", "c_fc") and grad.ndim == 2:
                grad, single = grad.T, single.T
            if grad.abs().max() < 1e-12 * largest:   # a bias of keys moves all scores of a query alike
                assert got.abs().max() < 2e-7 * largest, key
                continue
            scale = max(grad.abs().max(), 1e-3 * largest)
            off.setdefault(key, []).append([(x - grad).abs().max() / scale for x in (got, single)])
    for key, errors in [("values", values_off), *off.items()]:   # one draw's may be several times another's
        got, single = torch.tensor(errors).mean(0).tolist()
        assert got <= max(2 * single, 5e-7 if key == "values" else 2e-6), (key, errors)
    with ct.Context() as other:
        lm = open_lm(other, folder, dtype=1)
        exact_ids = forward(other, lm, ids)
        # transformers computes frequencies, and some norms, in f32
        assert error(other.value(exact_ids), want) < 2e-6


@pytest.mark.parametrize("name", MODELS)
def test_saved_folders(context, folder, tmp_path, name):
    model = make(name)
    model.save_pretrained(folder)
    lm = open_lm(context, folder)
    for opts, out in (({}, "one"), ({"shard_bytes": 20000}, "shards"), ({}, "shards")):
        context.check(lib.ct_lm_save(lm, str(tmp_path / out).encode(), ct.SaveOpts(**opts)))
        again, info = type(model).from_pretrained(tmp_path / out, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"] and not info["mismatched_keys"]
        for key, value in model.state_dict().items():
            assert torch.equal(again.state_dict()[key], value), key
        open_lm(context, tmp_path / out)


def old_config(config):
    """The same config.json as transformers 4 wrote it."""
    config = dict(config)
    rope = config.pop("rope_parameters", None)
    config["torch_dtype"] = config.pop("dtype", "float32")
    for key in ("layer_types", "no_rope_layers"):
        config.pop(key, None)
    if rope and config["model_type"] == "gpt_neox":
        config |= {"rotary_emb_base": rope["rope_theta"], "rotary_pct": rope["partial_rotary_factor"]}
    elif rope and "full_attention" in rope:
        config |= {"rope_theta": rope["full_attention"]["rope_theta"], "rope_local_base_freq": rope["sliding_attention"]["rope_theta"],
                   "sliding_window_pattern": 6, "rope_scaling": None}
    elif rope:
        config["rope_theta"] = rope["rope_theta"]
        scaling = {k: v for k, v in rope.items() if k != "rope_theta"}
        if scaling["rope_type"] == "linear":
            scaling["type"] = scaling.pop("rope_type")
        config["rope_scaling"] = None if scaling.get("rope_type") == "default" else scaling
    return config


def old_tensors(name, state, prefix):
    """The same weights under names of older files: with or without the prefix, gamma and beta, buffers that nothing needs."""
    kind, out = MODELS[name][0], {}
    for key, value in state.items():
        if key in ("lm_head.weight", "cls.predictions.decoder.weight", "cls.predictions.decoder.bias") and (kind.startswith(("GPT2", "Bert"))):
            continue
        if key in ("lm_head.decoder.weight", "lm_head.decoder.bias", "vocab_projector.weight"):   # of encoders: they are tied
            continue
        key = key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        if kind.startswith("GPTNeoX"):
            key = key.replace("lm_head", "embed_out")
        out[key.removeprefix(prefix + ".") if prefix else key] = value.clone()
    if kind.startswith("GPT2"):
        out["h.0.attn.bias"], out["h.1.attn.masked_bias"] = torch.ones(1, 1, 4, 4), torch.tensor(-1e4)
    if "ert" in kind:
        out["embeddings.position_ids"] = torch.arange(64)[None]
    if kind.startswith("Llama") and not prefix:
        out["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    return out


@pytest.mark.parametrize("name, prefix", [("gpt2", "transformer"), ("gpt2", ""), ("llama", "model"), ("llama 3", ""), ("llama linear", ""),
                                          ("llama yarn", ""), ("gemma3", "model"), ("smollm3", ""), ("gpt_neox", ""), ("gpt_neox in sequence", "gpt_neox"), ("granite", ""),
                                          ("bert masked", "bert"), ("bert masked", ""), ("bert classes", "bert"), ("qwen2", ""), ("mistral", ""),
                                          ("roberta masked", "roberta"), ("xlm-roberta masked", "roberta"), ("xlm-roberta classes", "roberta"),
                                          ("roberta bare", ""), ("distilbert masked", "distilbert"), ("distilbert classes", "distilbert"), ("distilbert bare", "")])
def test_old_folders(context, folder, name, prefix):
    """config.json of transformers 4, and names of old files, give the same bits."""
    model = make(name)
    model.save_pretrained(folder)
    ids = torch.randint(1, 97, (2, 9))
    want = context.value(forward(context, open_lm(context, folder), ids))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(old_config(config)))
    safetensors.torch.save_file(old_tensors(name, model.state_dict(), prefix), folder / "model.safetensors", {"format": "pt"})
    assert torch.equal(context.value(forward(context, open_lm(context, folder), ids)), want)


@pytest.mark.parametrize("name", ["llama tied, biases", "gpt2", "gemma3", "olmo2 tied, biases", "granite 4 tied"])
def test_a_tied_matrix_under_the_name_of_the_head(context, folder, name):
    """safetensors.torch.save_model keeps the alphabetically first of the names of a shared tensor."""
    model = make(name)
    model.save_pretrained(folder)
    ids = torch.randint(1, 97, (2, 9))
    want = context.value(forward(context, open_lm(context, folder), ids))
    safetensors.torch.save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})
    with safetensors.safe_open(folder / "model.safetensors", "pt") as file:
        assert "lm_head.weight" in file.keys() and not any("embed_tokens" in key or "wte" in key for key in file.keys())
    assert error(logits_of(type(model).from_pretrained(folder), ids), logits_of(model, ids)) < 1e-5
    assert torch.equal(context.value(forward(context, open_lm(context, folder), ids)), want)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name, owner", [("roberta masked", "lm_head"), ("bert masked", "cls.predictions")])
def test_two_biases_of_a_head(context, folder, tmp_path, name, owner, tied):
    """If a file has both names of the bias, transformers adds the decoder's; an untied head needs both in the folder that is saved."""
    kind, config = MODELS[name]
    make(name, models={name: (kind, config | {"tie_word_embeddings": tied})}).save_pretrained(folder)
    state = safetensors.torch.load_file(folder / "model.safetensors")
    state |= {owner + ".bias": torch.randn(97), owner + ".decoder.bias": torch.randn(97)}
    safetensors.torch.save_file(state, folder / "model.safetensors", {"format": "pt"})
    ids = torch.randint(5, 97, (2, 9))
    theirs = getattr(transformers, kind)
    lm = open_lm(context, folder)
    got = context.value(forward(context, lm, ids))
    assert error(got, logits_of(theirs.from_pretrained(folder).eval(), ids)) < 5e-6
    context.check(lib.ct_lm_save(lm, str(tmp_path / "again").encode(), ct.SaveOpts()))
    again, info = theirs.from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert error(logits_of(again.eval(), ids), got) < 5e-6
    assert torch.equal(context.value(forward(context, open_lm(context, tmp_path / "again"), ids)), got)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_halves(context, folder, tmp_path, name, dtype):
    """Files of halves have the bits of their numbers in float32; a bf16 model those of its matrices."""
    model = make(name).to(dtype)
    model.save_pretrained(folder)
    ids = torch.randint(1, 97, (2, 9))
    model.float().save_pretrained(tmp_path / "wide")
    want = context.value(forward(context, open_lm(context, tmp_path / "wide"), ids))
    assert torch.equal(context.value(forward(context, open_lm(context, folder), ids)), want)
    if dtype == torch.bfloat16:
        assert torch.equal(context.value(forward(context, open_lm(context, folder, dtype=4), ids)), want)


class Scaled(torch.nn.Module):
    """A head that is no Linear."""

    def __init__(self, rows, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(columns, rows))

    def forward(self, x):
        return 3 * (x @ self.weight)


@ct.ffi.callback("ct_tensor *(void *, ct_tensor *)")
def scaled(module, x):
    return lib.ct_scale(lib.ct_matmul(x, lib.ct_module_get(ct.ffi.cast("ct_module *", module), b"weight")), 3)


def put_head(context, lm, path, head):
    """The same head in our model, with the name Linear whatever it is."""
    if isinstance(head, Scaled):
        ours = lib.ct_module_new(context.pointer, b"Linear")
        lib.ct_module_add_param(ours, b"weight", context.tensor(head.weight))
        lib.ct_module_set_forward(ours, scaled, ours)
    else:
        opts = ct.LinearOpts(in_features=head.in_features, out_features=head.out_features, no_bias=head.bias is None, dtype=1)
        ours = lib.ct_linear_new(context.pointer, opts)
        for key, value in head.named_parameters():
            lib.ct_copy_into(lib.ct_module_get(ours, key.encode()), context.tensor(value))
    lib.ct_module_free(context.check(lib.ct_module_set_child(lm, path.encode(), ours)))


HEADS = {"bert masked": "cls.predictions.decoder", "roberta masked": "lm_head.decoder", "distilbert masked": "vocab_projector",
         "bert classes": "classifier", "roberta classes": "classifier.out_proj", "distilbert classes": "classifier",
         "roberta tokens": "classifier", "distilbert tokens": "classifier"}


@pytest.mark.parametrize("name", [name for name in MODELS if "bare" not in name and name != "bert"])
def test_losses(context, folder, name):
    """The loss and the gradients of all parameters, with the model's own head and with others in its place."""
    make(name).save_pretrained(folder)
    path = HEADS.get(name.removeprefix("xlm-"), "lm_head")
    for number, other in enumerate([None, lambda: torch.nn.Linear(32, 97, bias=False), lambda: torch.nn.Linear(32, 101), lambda: Scaled(97, 32)]):
        model, lm = make(name).double(), open_lm(context, folder, dtype=1)
        if other:
            head = other().double()
            model.set_submodule(path, head)
            put_head(context, lm, path, head)
        lib.ct_module_train(lm, False)
        parameters = context.parameters(lm)
        for reduction in ("mean", "sum", "none"):
            ids = torch.randint(1, 97, (2, 9))
            logits = result(model(ids))
            targets = torch.randint(0, logits.shape[-1], logits.shape[:-1])
            if targets.ndim == 2:
                targets[torch.rand(2, 9) < (0.2, 0.7)[number % 2]] = -100
                targets[1, 2] = 4
            want = torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction=reduction)
            opts = ct.CrossEntropyOpts(reduction=["mean", "sum", "none"].index(reduction))
            loss = context.check(lib.ct_lm_loss(lm, context.tensor(ids), context.tensor(targets), ct.LmCall(), opts))
            assert error(context.value(loss).flatten(), want) < 2e-6, (number, reduction)
            cotangent = torch.randn(want.shape, dtype=torch.float64)
            for pointer in parameters.values():
                lib.ct_zero_grad(pointer)
            context.backward([loss], [cotangent.reshape(context.value(loss).shape)])
            model.zero_grad()
            want.backward(cotangent)
            own = name.startswith("xlm") and not other
            grads = {first_name(key) if own else key: value.grad for key, value in model.named_parameters() if value.grad is not None}
            largest = max(grad.abs().max() for grad in grads.values())
            assert {key for key, pointer in parameters.items() if lib.ct_grad(pointer)} == set(grads)
            for key, grad in grads.items():
                if name.startswith("gpt2") and key.split(".")[-2] in ("c_attn", "c_proj", "c_fc") and grad.ndim == 2:
                    grad = grad.T
                assert (context.grad(parameters[key]) - grad).abs().max() < 1e-5 * max(grad.abs().max(), 1e-3 * largest), (number, reduction, key)


@pytest.mark.parametrize("name", ["llama", "gemma3", "granite", "bert masked"])
def test_losses_in_training(context, folder, name):
    """Recomputed layers, in f32."""
    model = make(name)
    model.save_pretrained(folder)
    lm = open_lm(context, folder, recompute=True)
    ids, targets = torch.randint(1, 97, (2, 9)), torch.randint(0, 97, (2, 9))
    targets[0, 3:5] = -100
    want = torch.nn.functional.cross_entropy(logits_of(model, ids).flatten(0, -2), targets.flatten())
    for training in (False, True):
        lib.ct_module_train(lm, training and not name.startswith("bert"))   # without dropout
        loss = context.check(lib.ct_lm_loss(lm, context.tensor(ids), context.tensor(targets), ct.LmCall(), ct.CrossEntropyOpts()))
        assert error(context.value(loss), want) < 1e-6


@pytest.mark.parametrize("name", ["llama", "llama tied, biases", "gpt2", "qwen3", "gpt_neox", "granite", "granite 4 tied", "bert masked"])
def test_more_tokens(context, folder, tmp_path, name):
    """ct_lm_resize: old logits stay, new rows are the mean of the old, and transformers loads the folder."""
    model = make(name)
    model.save_pretrained(folder)
    lm = open_lm(context, folder)
    ids = torch.randint(1, 97, (2, 9))
    before = context.value(forward(context, lm, ids))
    context.check(lib.ct_lm_resize(lm, 101))
    after = context.value(forward(context, lm, ids))
    assert after.shape[-1] == 101 and torch.equal(after[..., :97], before)
    context.check(lib.ct_lm_save(lm, str(tmp_path / "more").encode(), ct.SaveOpts()))
    again = type(model).from_pretrained(tmp_path / "more")
    table = again.get_input_embeddings().weight
    assert table.shape[0] == 101 and torch.equal(table[:97], model.get_input_embeddings().weight)
    assert error(table[99], table[:97].double().mean(0)) < 1e-6
    assert error(logits_of(again, ids), after) < 5e-6


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3", "gpt_neox", "qwen2", "olmo2", "granite", "granite 4"])
def test_new_models(context, tmp_path, name):
    """A model that is made from the text of a config.json is one that transformers opens."""
    model = make(name)
    lm = context.check(lib.ct_lm_new(context.pointer, json.dumps({"model_type": model.config.model_type} | MODELS[name][1]).encode(), ct.LmOpts()))
    lib.ct_module_train(lm, False)
    ids = torch.randint(1, 97, (2, 9))
    context.check(lib.ct_lm_save(lm, str(tmp_path / "new").encode(), ct.SaveOpts()))
    again, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "new", output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert error(context.value(forward(context, lm, ids)), logits_of(again.eval(), ids)) < 2e-5
    std = again.get_input_embeddings().weight[5:].std().item()
    assert abs(std - 0.02) < 0.002


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma3", "gpt_neox", "granite 4", "granite 4 tied", "gemma3 bare both ways", "bert", "roberta bare", "distilbert bare"])
def test_padding_on_the_left_and_on_the_right(context, folder, name):
    model = make(name)
    model.save_pretrained(folder)
    lm = open_lm(context, folder)
    ids = torch.randint(2, 97, (3, 11))
    for left in (True, False):
        mask = torch.ones(3, 11, dtype=torch.bool)
        for row, n in enumerate((0, 4, 7)):
            mask[row, :n] = not left or n == 0
            if not left and n:
                mask[row] = torch.arange(11) < 11 - n
            elif n:
                mask[row, :n] = False
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0) + (2 if "roberta" in name else 0)
        want = logits_of(model, ids, attention_mask=mask.long(), position_ids=positions)
        got = context.value(forward(context, lm, ids, key_mask=mask))
        assert error(got[mask], want[mask]) < 5e-6


@pytest.mark.parametrize("name", ["llama 3", "gpt2", "gemma3", "qwen3", "mistral", "smollm3 windows", "olmo2", "gpt_neox", "granite", "granite 4",
                                  "granite 4 tied"])
def test_caches_of_unequal_rows(context, folder, name):
    """Prompts of unequal length, then tokens one by one, are each row's logits by itself."""
    make(name).save_pretrained(folder)
    lm = open_lm(context, folder)
    texts = [torch.randint(1, 97, (n,)) for n in (9, 4, 7)]
    prompts = (5, 2, 3)
    cache = context.check(lib.ct_lm_cache_new(lm, 3, 16))
    ids, mask = torch.zeros(3, 5, dtype=torch.long), torch.zeros(3, 5, dtype=torch.bool)
    for row, n in enumerate(prompts):
        ids[row, :n], mask[row, :n] = texts[row][:n], True
    got = [context.value(forward(context, lm, ids, key_mask=mask, cache=cache, result=1))]
    for step in range(2):
        token = torch.tensor([[texts[row][n + step]] for row, n in enumerate(prompts)])
        got.append(context.value(forward(context, lm, token, cache=cache, result=1)))
    for row, n in enumerate(prompts):
        alone = context.value(forward(context, lm, texts[row][None, :]))[0]
        for step in range(3):
            assert error(got[step][row], alone[n - 1 + step]) < 3e-6
        single = context.check(lib.ct_lm_cache_new(lm, 1, 16))
        steps = [texts[row][None, :n], texts[row][None, n:n + 1], texts[row][None, n + 1:n + 2]]
        for step, part in enumerate(steps):
            assert error(context.value(forward(context, lm, part, cache=single, result=1))[0], got[step][row]) < 3e-6


# What a changed key becomes.
def peft_model(name, **opts):
    import peft

    torch.manual_seed(7)
    model = peft.get_peft_model(make(name), peft.LoraConfig(**{"r": 4, "lora_alpha": 6} | opts)).eval()
    for key, value in model.named_parameters():
        if "lora_B" in key:
            torch.nn.init.normal_(value, std=0.3)
    return model


ADAPTED = [("llama", ["q_proj", "v_proj", "down_proj"], "*_proj"), ("gpt2", ["c_attn", "c_fc"], "*.c_attn"),
           ("gpt_neox", ["query_key_value"], "*query_key_value"), ("granite", ["q_proj", "down_proj", "lm_head"], "*_proj"),
           ("granite 4", ["k_proj", "input_linear"], "*_linear"), ("bert", ["query", "dense"], "*.query")]


@pytest.mark.parametrize("name, targets, pattern", ADAPTED, ids=[a[0] for a in ADAPTED])
def test_adapters(context, folder, tmp_path, name, targets, pattern):
    """PEFT's adapters here, and ours in PEFT: the same logits; merged, the same again."""
    import peft

    make(name).save_pretrained(folder)
    theirs = peft_model(name, target_modules=targets, fan_in_fan_out=name == "gpt2")
    theirs.save_pretrained(tmp_path / "theirs")
    ids = torch.randint(1, 97, (2, 9))
    want = logits_of(theirs, ids)
    lm = open_lm(context, folder)
    base = context.value(forward(context, lm, ids))
    context.check(lib.ct_lora_load(lm, str(tmp_path / "theirs").encode()))
    ours = context.value(forward(context, lm, ids))
    assert error(ours, want) < 3e-6 and error(base, want) > 1e-3
    context.check(lib.ct_lora_save(lm, str(tmp_path / "ours").encode()))
    again = peft.PeftModel.from_pretrained(make(name), tmp_path / "ours").eval()
    assert error(logits_of(again, ids), want) < 3e-6
    for key, value in theirs.state_dict().items():
        if "lora_" in key:
            assert torch.equal(again.state_dict()[key], value), key
    with pytest.raises(ct.Error, match="has adapters"):
        context.check(lib.ct_lm_save(lm, str(tmp_path / "x").encode(), ct.SaveOpts()))
    context.check(lib.ct_lora_merge(lm))
    assert error(context.value(forward(context, lm, ids)), want) < 3e-6
    context.check(lib.ct_lm_save(lm, str(tmp_path / "merged").encode(), ct.SaveOpts()))
    assert error(logits_of(type(make(name)).from_pretrained(tmp_path / "merged").eval(), ids), want) < 5e-6


@pytest.mark.parametrize("name, targets, pattern", ADAPTED, ids=[a[0] for a in ADAPTED])
def test_new_adapters(context, folder, name, targets, pattern):
    """B is 0, so nothing changes at first; only A and B get gradients, which are PEFT's."""
    make(name).save_pretrained(folder)
    for dtype in (0, 4):
        lm = open_lm(context, folder, dtype=dtype)
        ids = torch.randint(1, 97, (2, 9))
        before = context.value(forward(context, lm, ids))
        n = lib.ct_lora_add(lm, pattern.encode(), ct.LoraOpts(rank=3))
        context.check()
        assert n > 0
        out = forward(context, lm, ids)
        assert torch.equal(context.value(out), before)
        context.backward([out], [torch.randn(before.shape)])
        reached = {k for k, p in context.parameters(lm).items() if lib.ct_grad(p)}
        assert reached and all(k.endswith((".lora_A", ".lora_B")) for k in reached) and len(reached) == 2 * n
        for key, pointer in context.parameters(lm).items():
            if key.endswith("lora_A"):
                a = context.value(pointer)
                assert a.shape[0] == 3 and a.abs().max() <= a.shape[1] ** -0.5 and a.std() > 0.4 * a.shape[1] ** -0.5
        with pytest.raises(ct.Error, match="has an adapter already"):
            context.check(lib.ct_lora_add(lm, pattern.encode(), ct.LoraOpts()) > 0)
        with pytest.raises(ct.Error, match="no Linear matches"):
            context.check(lib.ct_lora_add(lm, b"nothing", ct.LoraOpts()) > 0)


@pytest.mark.parametrize("change", [{"modules_to_save": "lm_head"}, {"bias": "all"}, {"peft_type": "IA3"}, {"init_lora_weights": "pissa"}, {"new_option": 3}, {"r": 5},
                                    {"target_modules": ["k_proj", "j_proj"]}, {"exclude_modules": ["self_attn.q_proj"]}, {"layers_to_transform": 0},
                                    {"layers_to_transform": [1, 2]}], ids=str)
def test_adapters_that_are_refused(context, folder, tmp_path, change):
    make("llama").save_pretrained(folder)
    peft_model("llama", target_modules=["q_proj"]).save_pretrained(tmp_path / "adapter")
    path = tmp_path / "adapter" / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    lm = open_lm(context, folder)
    names = list(context.parameters(lm))
    with pytest.raises(ct.Error, match=next(iter(change)) if "r" not in change else "another shape"):
        context.check(lib.ct_lora_load(lm, str(tmp_path / "adapter").encode()))
    assert list(context.parameters(lm)) == names
