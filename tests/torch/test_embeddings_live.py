"""Sentence vectors: CT_LM_EMBED of folders as sentence-transformers has them, beside its rules on transformers' hidden states. The package is
not installed; its rules are written here: Pooling (by sentence_transformers' pooling.py), Dense, Normalize."""
import copy
import json

import pytest
import safetensors.torch
import torch
import transformers

import ct
from ct import lib
from test_models_live import BERT, LLAMA, error, make, open_lm

EMBED = 5
MODELS = {
    "bert": ("BertModel", BERT),
    "qwen3": ("Qwen3ForCausalLM", LLAMA | {"head_dim": 16, "tie_word_embeddings": True}),
    "gemma3": ("Gemma3TextModel", LLAMA | {"num_hidden_layers": 3, "head_dim": 16, "sliding_window": 5, "use_bidirectional_attention": True}),
}
MODES = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")
FLAGS = {"cls": "cls_token", "max": "max_tokens", "mean": "mean_tokens", "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
         "weightedmean": "weightedmean_tokens", "lasttoken": "lasttoken"}
ACTIVATIONS = {"Identity": "linear.Identity", "Tanh": "activation.Tanh", "ReLU": "activation.ReLU", "GELU": "activation.GELU", "SiLU": "activation.SiLU",
               "Sigmoid": "activation.Sigmoid"}


# ---- the rules ----

def pooled(x, mask, modes, prompt=0):
    """x (B, T, E), mask (B, T). The numbers of weightedmean count a row's tokens, as where sentence-transformers has no padding."""
    first = mask.int().argmax(1)
    mask = mask & (torch.arange(mask.shape[1])[None] >= (first + prompt)[:, None])
    m = mask[..., None].to(x.dtype)
    out = []
    for mode in modes:
        if mode == "cls":
            out.append(torch.stack([row[i] for row, i in zip(x, mask.int().argmax(1))]))
        elif mode == "max":
            out.append(x.masked_fill(m == 0, float("-inf")).max(1).values)
        elif mode == "mean":
            out.append((x * m).sum(1) / m.sum(1))
        elif mode == "mean_sqrt_len_tokens":
            out.append((x * m).sum(1) / m.sum(1).sqrt())
        elif mode == "weightedmean":
            weight = mask.cumsum(1)[..., None] * m
            out.append((x * weight).sum(1) / weight.sum(1))
        else:
            last = mask.shape[1] - 1 - mask.flip(1).int().argmax(1)
            out.append(torch.stack([row[i] for row, i in zip(x, last)]))
    return torch.cat(out, 1)


def vector(model, modules, ids, mask, prompt=0):
    """The sentence vectors of a model of transformers. Each row's hidden states are computed without padding, and are then padded."""
    base = getattr(model, "model", model)
    rows = [torch.zeros(*ids.shape[1:], model.config.hidden_size, dtype=model.dtype).index_put((m.nonzero()[:, 0],), base(i[m][None]).last_hidden_state[0])
            for i, m in zip(ids, mask)]
    x = torch.stack(rows)
    x = pooled(x, mask, modules["modes"], 0 if modules.get("include_prompt", True) else prompt)
    for step in modules["steps"]:
        if step == "normalize":
            x = torch.nn.functional.normalize(x, p=2, dim=1)
        else:
            x = getattr(torch.nn, step["f"])()(step["linear"](x))
    return x


def doubled(modules):
    """Copies of the modules in f64."""
    steps = [step if step == "normalize" else step | {"linear": copy.deepcopy(step["linear"]).double()} for step in modules["steps"]]
    return modules | {"steps": steps}


# ---- the folders ----

def write(path, value):
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value))


def save(folder, model, modules, new=False):
    """A folder as sentence-transformers writes it; new: with the names and keys of its version 5.4."""
    model.save_pretrained(folder)
    room = "sentence_transformers.sentence_transformer.modules.{1}.{0}" if new else "sentence_transformers.models.{0}"
    names = [("Transformer", "transformer", ""), ("Pooling", "pooling", "1_Pooling")]
    modes, width = modules["modes"], model.config.hidden_size
    if new:
        pooling = {"embedding_dimension": width, "pooling_mode": modes[0] if len(modes) == 1 else list(modes)}
    else:
        pooling = {"word_embedding_dimension": width} | {f"pooling_mode_{flag}": mode in modes for mode, flag in FLAGS.items()}
    write(folder / "1_Pooling" / "config.json", pooling | {"include_prompt": modules.get("include_prompt", True)})
    for i, step in enumerate(modules["steps"], 2):
        if step == "normalize":
            names.append(("Normalize", "normalize", f"{i}_Normalize"))
            continue
        names.append(("Dense", "dense", f"{i}_Dense"))
        linear = step["linear"]
        config = {"in_features": linear.in_features, "out_features": linear.out_features, "bias": linear.bias is not None,
                  "activation_function": "torch.nn.modules." + ACTIVATIONS[step["f"]]}
        if new:
            config |= {"module_input_name": "sentence_embedding", "module_output_name": None, "use_residual": False}
        write(folder / f"{i}_Dense" / "config.json", config)
        tensors = {f"linear.{k}": v.detach().clone() for k, v in linear.named_parameters()}
        safetensors.torch.save_file(tensors, folder / f"{i}_Dense" / "model.safetensors")
    write(folder / "modules.json", [{"idx": i, "name": str(i), "path": path, "type": room.format(kind, file)} for i, (kind, file, path) in enumerate(names)])


def dense(in_features, out_features, f, bias):
    torch.manual_seed(in_features + out_features)
    return {"linear": torch.nn.Linear(in_features, out_features, bias=bias), "f": f}


def embed(context, lm, ids, mask, **call):
    call = {k: context.tensor(v) if isinstance(v, torch.Tensor) else v for k, v in call.items()}
    return context.check(lib.ct_lm_forward(lm, context.tensor(ids), ct.LmCall(key_mask=context.tensor(mask), result=EMBED, **call)))


def batch(left, seed=3):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 97, (5, 11), generator=generator)
    mask = torch.arange(11)[None] < torch.tensor([11, 1, 7, 4, 10])[:, None]
    return ids, mask.flip(1) if left else mask


# As e5 has them, Qwen3-Embedding, EmbeddingGemma, sentence-transformers' older models; then the rest.
FOLDERS = {
    "e5": ("bert", dict(modes=["mean"], steps=["normalize"])),
    "bge": ("bert", dict(modes=["cls"], steps=["normalize"])),
    "qwen3-embedding": ("qwen3", dict(modes=["lasttoken"], steps=["normalize"])),
    "embeddinggemma": ("gemma3", dict(modes=["mean"], steps=[dense(32, 96, "Identity", False), dense(96, 32, "Identity", False), "normalize"])),
    "distiluse": ("bert", dict(modes=["mean"], steps=[dense(32, 20, "Tanh", True)])),
    "two poolings": ("bert", dict(modes=["max", "mean"], steps=["normalize", dense(64, 7, "GELU", True)])),
    "all poolings": ("qwen3", dict(modes=list(MODES), steps=[])),
    "without the prompt": ("bert", dict(modes=["cls", "mean", "weightedmean"], steps=["normalize"], include_prompt=False)),
    "activations": ("bert", dict(modes=["mean"], steps=[dense(32, 9, "Sigmoid", True), dense(9, 33, "SiLU", False), dense(33, 6, "ReLU", True)])),
}


@pytest.mark.parametrize("new", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("name", FOLDERS)
def test_values_and_gradients(context, tmp_path, name, left, new):
    kind, modules = FOLDERS[name]
    model = make(kind, models=MODELS)
    save(tmp_path, model, modules, new)
    lm = open_lm(context, tmp_path)
    ids, mask = batch(left)
    prompt = 2 if not modules.get("include_prompt", True) else 0
    if prompt:
        mask[1, :4] = True   # a row longer than its prompt
    double = doubled(modules)
    exact = make(kind, torch.float64, MODELS)
    want = vector(exact, double, ids, mask, prompt=prompt)
    got = embed(context, lm, ids, mask, prompt_tokens=prompt)
    single = vector(model, modules, ids, mask, prompt=prompt)
    assert error(context.value(got), want) <= max(3 * error(single.detach(), want), 1e-6)
    cotangent = torch.randn(want.shape, generator=torch.Generator().manual_seed(1))
    want.backward(cotangent.double())
    context.backward([got], [cotangent])
    parameters = context.parameters(lm)
    theirs = {f"{i}_Dense.linear.{key}": p for i, step in enumerate(double["steps"], 2) if step != "normalize"
              for key, p in step["linear"].named_parameters()}
    assert theirs.keys() == {key for key in parameters if "_Dense." in key}
    theirs |= {key: p for key, p in exact.named_parameters() if p.grad is not None and "lm_head" not in key}
    largest = max(p.grad.abs().max() for p in theirs.values())
    for key, p in theirs.items():
        grad = context.grad(parameters[key]).double()
        assert (grad - p.grad).abs().max() <= 3e-5 * max(p.grad.abs().max(), 1e-2 * largest), key


@pytest.mark.parametrize("name", ["embeddinggemma", "distiluse", "qwen3-embedding"])
def test_files_are_kept(context, tmp_path, name):
    """A save has all files; the weights of Dense modules are as they were trained, and transformers loads the model's own."""
    kind, modules = FOLDERS[name]
    model = make(kind, models=MODELS)
    save(tmp_path / "old", model, modules)
    side = {"sentence_bert_config.json": {"max_seq_length": 17, "do_lower_case": False},
            "config_sentence_transformers.json": {"prompts": {"query": "q: ", "document": ""}, "default_prompt_name": "query"}}
    for file, value in side.items():
        write(tmp_path / "old" / file, value)
    lm = open_lm(context, tmp_path / "old")
    about = lib.ct_lm_about(lm)
    assert about.max_length == 17
    assert lib.ct_lm_prompt(lm, b"query") == b"q: " and lib.ct_lm_prompt(lm, None) == b"q: "
    assert lib.ct_lm_prompt(lm, b"document") == b"" and lib.ct_lm_prompt(lm, b"other") is None
    parameters = context.parameters(lm)
    trained = {}
    for key, pointer in parameters.items():
        if "_Dense." in key:
            trained[key] = torch.randn(context.value(pointer).shape)
            context.check(lib.ct_copy_into(pointer, context.tensor(trained[key])))
    ids, mask = batch(False)
    want = context.value(embed(context, lm, ids, mask)).clone()
    context.check(lib.ct_lm_save(lm, str(tmp_path / "new").encode(), ct.SaveOpts()))
    old = {str(p.relative_to(tmp_path / "old")) for p in (tmp_path / "old").rglob("*") if p.is_file()}
    new = {str(p.relative_to(tmp_path / "new")) for p in (tmp_path / "new").rglob("*") if p.is_file()}
    assert old - {"generation_config.json"} == new - {"generation_config.json"}
    for file in old - {"config.json", "generation_config.json"}:
        same = (tmp_path / "old" / file).read_bytes() == (tmp_path / "new" / file).read_bytes()
        assert same or file.endswith("model.safetensors"), file
    for key, value in trained.items():
        folder, _, rest = key.partition(".")
        assert torch.equal(safetensors.torch.load_file(tmp_path / "new" / folder / "model.safetensors")[rest], value)
    assert not any("Dense" in key for key in safetensors.torch.load_file(tmp_path / "new" / "model.safetensors"))
    again = getattr(transformers, MODELS[kind][0]).from_pretrained(tmp_path / "new")
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values()))
    with ct.Context() as other:
        assert torch.equal(other.value(embed(other, open_lm(other, tmp_path / "new"), ids, mask)), want)


def test_dtypes_and_adapters(context, tmp_path):
    """Dense modules stay f32 in a converted model, and get no adapter; all paths that a pattern means are the transformer's."""
    kind, modules = FOLDERS["embeddinggemma"]
    model = make(kind, models=MODELS)
    save(tmp_path, model, modules)
    ids, mask = batch(False)
    with torch.no_grad():
        want = vector(model.double(), doubled(modules), ids, mask)
    for dtype, most in ((1, 1e-6), (4, 3e-2), (5, 6e-2)):   # f64, bf16, q8_0
        lm = open_lm(context, tmp_path, dtype=dtype)
        kinds = {key: lib.ct_dtype_of(p) for key, p in context.parameters(lm).items() if "_Dense." in key}
        assert set(kinds.values()) == {1 if dtype == 1 else 0}
        assert error(context.value(embed(context, lm, ids, mask)), want) < most
    lm = open_lm(context, tmp_path)
    before = context.value(embed(context, lm, ids, mask)).clone()
    assert lib.ct_lora_add(lm, b"*", ct.LoraOpts(rank=2)) == 7 * 3
    assert not any("_Dense" in key and "lora" in key for key in context.parameters(lm))
    assert torch.equal(context.value(embed(context, lm, ids, mask)), before)
    context.check(lib.ct_lora_save(lm, str(tmp_path / "adapter").encode()))
    context.check(lib.ct_lora_merge(lm))
    context.check(lib.ct_module_to(lm, 4))
    context.check(lib.ct_lm_save(lm, str(tmp_path / "bf16").encode(), ct.SaveOpts()))
    assert json.loads((tmp_path / "bf16" / "config.json").read_text())["dtype"] == "bfloat16"
    clone = context.check(lib.ct_module_clone(lm))
    lib.ct_module_free(lm)
    assert error(context.value(embed(context, clone, ids, mask)), want) < 3e-2
