"""Modules, optimisers and state dicts against PyTorch's, on given and on random sizes."""
import fnmatch
import random
import types

import pytest
import safetensors.torch
import torch

import attention_cases
import ct
import modules
from ct import lib
from layouts import layout

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")   # nn.Transformer cannot be told otherwise
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])


# ---- the cases ----

def given():
    """The sizes and masks that must be there."""
    sizes = [dict(B=3, T=4, embed_dim=8, num_heads=2), dict(B=2, T=10, embed_dim=512, num_heads=8),
             dict(B=1, T=3, S=7, embed_dim=32, num_heads=4, cross=1), dict(B=2, T=8, S=12, embed_dim=512, num_heads=8, cross=1)]
    calls = [{}, dict(no_bias=1), dict(causal=1), dict(key_mask=1, need_weights=1),
             dict(key_mask=1, causal=1, mask="ts", need_weights=1, per_head=1),
             dict(all_masked=1), dict(all_masked=1, need_weights=1)]
    calls += [dict(mask=mask, mask_float=real, need_weights=1) for mask in ("ts", "b11s", "b1ts", "bhts") for real in (0, 1)]
    return [dict(kind="mha") | size | call for size in sizes for call in calls]


def mask_options(r, prefix=""):
    mask = r.choice(["", "", "ts", "b11s", "b1ts", "bhts"])
    return {prefix + "mask": mask, prefix + "mask_float": r.randint(0, 1) if mask else 0, prefix + "key_mask": r.randint(0, 1),
            prefix + "causal": r.randint(0, 1), prefix + "need_weights": r.randint(0, 1), prefix + "per_head": r.randint(0, 1)}


def random_layer(kind, seed):
    r = random.Random(seed)
    heads = r.choice([1, 2, 4])
    case = dict(kind=kind, B=r.randint(1, 3), T=r.randint(1, 11), S=r.randint(1, 11), num_heads=heads,
                embed_dim=heads * r.choice([4, 8, 11]), hidden=r.choice([0, 7, 40]), activation=r.randrange(len(modules.ACTIVATIONS)), norm_first=r.randint(0, 1),
                no_bias=int(r.random() < 0.3),
                eps=r.choice([0, 1e-3])) | mask_options(r)
    return case | mask_options(r, "cross_") if kind == "decoder_layer" else case


def beyond_torch(case, r):
    """What later models have and torch.nn has not."""
    heads = case["num_heads"]
    case = case | r.choice([{}, {}, dict(head_dim=r.choice([3, 6, 16]))])
    case |= r.choice([{}, {}, dict(window_left=3, window_right=2), dict(window_left=2)])
    case |= dict(bias=r.choice([0, 0, 1, 2, 3]), scale=r.choice([0, 0, 0.4]), softcap=r.choice([0, 0, 1.5]))
    if case["norm_first"]:
        case |= dict(sandwich=r.randint(0, 1), parallel=r.randint(0, 1))
    size = case.get("head_dim") or case["embed_dim"] // heads
    options = dict(rope=r.randint(0, int(size % 2 == 0)), rope_interleaved=r.randint(0, 1), rope_base=r.choice([0, 100]),
                   qk_norm=r.randint(0, int(size > 2)),   # the norm of one value is its sign: float32's gradient is noise
                   num_kv_heads=r.choice([d for d in range(1, heads + 1) if heads % d == 0]))
    if options["rope"]:
        options |= dict(rope_dims=r.choice([0, 2, size // 4 * 2]), rope_table=r.randint(0, 1), rope_factor=r.choice([0, 0, 1.5]),
                        positions=r.choice(["", "t", "bt"]))
    return case | options | dict(rms_norm=r.randint(0, 1), gated=r.randint(0, 1), need_weights=0, cross_need_weights=0)


def random_stack(kind, seed):
    r = random.Random(seed)
    case = random_layer("decoder_layer", seed) | mask_options(r, "src_")
    case["embed_dim"] = case["num_heads"] * r.choice([16, 22])   # norms over a few values, one after the other, leave float32 little
    case |= dict(kind=kind, num_layers=r.randint(1, 3), final_norm=r.randint(0, 1))
    case |= dict(num_encoder_layers=r.randint(1, 2), num_decoder_layers=r.randint(1, 2))
    case |= dict(need_weights=0, cross_need_weights=0, src_need_weights=0)
    return beyond_torch(case, r) if kind != "transformer" and seed % 2 else case


def random_beyond(kind, seed):
    return beyond_torch(random_layer(kind, seed), random.Random(seed))


CAUSAL = dict(kind="encoder", B=2, T=9, embed_dim=32, num_heads=4, norm_first=1, causal=1, num_layers=2, final_norm=1)
LLAMA = CAUSAL | dict(num_kv_heads=2, hidden=48, activation=3, gated=1, rms_norm=1, no_bias=1, rope=1)
GPT2 = CAUSAL | dict(activation=2)
QWEN2 = LLAMA | dict(bias=2)
QWEN3 = LLAMA | dict(head_dim=16, qk_norm=1, eps=1e-6)
MISTRAL = LLAMA | dict(window_left=4)
GEMMA3 = QWEN3 | dict(activation=2, sandwich=1, norm_offset=1, qk_norm_offset=1, scale=0.25, num_kv_heads=1, window_left=4)
PYTHIA = CAUSAL | dict(activation=1, parallel=1, rope=1, rope_dims=2)
SMOLLM3 = LLAMA | dict(num_layers=4, no_rope_every=2)
MODELS = [LLAMA, MISTRAL, GPT2, QWEN2, QWEN3, GEMMA3, PYTHIA, SMOLLM3]


def random_small(kind, seed):
    r = random.Random(seed)
    case = dict(kind=kind, B=r.randint(1, 4), T=r.randint(1, 9))
    n, m = r.randint(1, 70), r.randint(1, 70)
    return case | {
        "linear": dict(in_features=n, out_features=m, no_bias=seed % 2),
        "embedding": dict(num_embeddings=n, embedding_dim=m),
        "layer_norm": dict(dim=n + 1, eps=r.choice([0, 1e-3]), no_bias=seed % 2),
        "rms_norm": dict(dim=n, eps=r.choice([0, 1e-3]), offset=seed % 2),
        "mlp": dict(dim=n, hidden=r.choice([0, m]), activation=seed % len(modules.ACTIVATIONS), no_bias=seed // 4 % 2, gated=seed // 2 % 2),
        "positions": dict(max_length=9 + seed, embed_dim=m, learned=seed % 2),
    }[kind]


SMALL = ["linear", "embedding", "layer_norm", "rms_norm", "mlp", "positions"]
CASES = given() + attention_cases.MHA + attention_cases.WIDE + attention_cases.ATTENTION
CASES += [random_layer(kind, seed) for kind in ("encoder_layer", "decoder_layer") for seed in range(40)]
CASES += [random_stack(kind, seed) for kind in ("encoder", "decoder", "transformer") for seed in range(16)] + MODELS
CASES += [random_beyond(kind, seed) for kind in ("encoder_layer", "decoder_layer") for seed in range(24)]
CASES += [random_small(kind, seed) for kind in SMALL for seed in range(8)]


# ---- our side ----

LAYERS_OWN = ("embed_dim", "num_heads", "dropout", "no_bias", "dtype")   # and not those of the layer's attn
OPTS = dict(linear=ct.LinearOpts, embedding=ct.EmbeddingOpts, layer_norm=ct.LayerNormOpts, rms_norm=ct.RmsNormOpts, mlp=ct.MlpOpts,
            positions=ct.PositionsOpts, mha=ct.MhaOpts, encoder_layer=ct.LayerOpts, decoder_layer=ct.LayerOpts,
            encoder=ct.LayerOpts, decoder=ct.LayerOpts, transformer=ct.LayerOpts)


def opts_of(opts, case, dtype):
    fields = lambda opts, but=(): {name: case[name] for name in opts.fields if name in case and name not in but}
    made = opts(**fields(opts), dtype=ct.DTYPES.index(dtype))
    if opts is ct.LayerOpts:
        made.attn = ct.MhaOpts(**fields(ct.MhaOpts, LAYERS_OWN))
    attention = made.attn if opts is ct.LayerOpts else made
    if opts in (ct.LayerOpts, ct.MhaOpts):
        attention.window = ct.Window(case.get("window_left", 0), case.get("window_right", 0))
        dims = case.get("rope_dims", 0)
        table = modules.rope_table(dims or case.get("head_dim") or case["embed_dim"] // case["num_heads"]) if case.get("rope_table") else None
        attention.rotary = ct.RopeOpts(base=case.get("rope_base", 0), dims=dims, interleaved=case.get("rope_interleaved", 0),
                                       frequencies=table, attention_factor=case.get("rope_factor", 0))
    return made


def ours_new(context, case, dtype):
    if case["kind"] == "attention":
        return None
    opts = OPTS[case["kind"]]
    options = [opts_of(opts, case, dtype)]
    if case["kind"] == "transformer":
        options = [ct.TransformerOpts(options[0], case["num_encoder_layers"], case["num_decoder_layers"])]
    elif case["kind"] in ("encoder", "decoder"):
        options += [case["num_layers"], case["final_norm"]]
    new = getattr(lib, f"ct_{case['kind']}_new")
    if case.get("no_rope_every"):
        new, each = lib.ct_encoder_new_of, [opts_of(opts, modules.of_layer(case, i), dtype) for i in range(case["num_layers"])]
        options[0] = each
    module = context.check(new(context.pointer, *options))
    lib.ct_module_train(module, not case.get("evaluate"))
    return module


def set_parameters(context, module, params, folder):
    """By way of a file: what torch writes, ct_load reads."""
    path = str(folder / "torch.safetensors")
    safetensors.torch.save_file({k: v.contiguous() for k, v in params.items()}, path)
    lib.ct_load(module, path.encode(), ct.LoadOpts())
    context.check()


def ours_forward(case, module, x):
    flags = ("causal", "need_weights", "per_head")
    call = lambda prefix: ct.MhaCall(mask=x.get(prefix + "mask"), key_mask=x.get(prefix + "key_mask"),
                                     positions=x.get("positions") if prefix == "" else None,
                                     **{flag: case.get(prefix + flag, 0) for flag in flags})
    out = lambda pointer: types.SimpleNamespace(out=pointer)
    if case["kind"] == "attention":
        own = {name: case.get(name, 0) for name in ("causal", "scale", "need_weights")}
        return lib.ct_attention(x["q"], x["k"], x["v"], ct.AttentionOpts(mask=x.get("mask"), key_mask=x.get("key_mask"), **own))
    if case["kind"] == "mha":
        k, own = x.get("k"), call("")
        own.rope_offset, own.segments, own.lengths = case.get("rope_offset", 0), x.get("segments"), x.get("lengths")
        return lib.ct_mha_forward(module, x["q"], k, x.get("v", k), own)
    if case["kind"] == "encoder":
        return out(lib.ct_encoder_forward(module, x["x"], ct.StackCall(self=call(""))))
    stack = lambda: ct.StackCall(self=call(""), cross=call("cross_"))
    if case["kind"] == "decoder":
        return out(lib.ct_decoder_forward(module, x["x"], x["memory"], stack()))
    if case["kind"] == "transformer":
        return out(lib.ct_transformer_forward(module, x["src"], x["tgt"], ct.StackCall(self=call("src_")), stack()))
    if case["kind"] == "encoder_layer":
        return lib.ct_encoder_layer_forward(module, x["x"], call(""))
    if case["kind"] == "decoder_layer":
        return lib.ct_decoder_layer_forward(module, x["x"], x["memory"], call(""), call("cross_"))
    return out(lib.ct_forward(module, x["x"]))


def largest_score(case):
    """Where they are large: on purpose, by their scale, or of heads that are all of length sqrt(d)."""
    if case.get("large"):
        return 4e4
    if "num_heads" not in case:
        return 0
    size = case.get("d") or case.get("head_dim") or case["embed_dim"] / case["num_heads"]
    if case.get("qk_norm"):
        return 8 * size * (case.get("scale") or size ** -0.5)
    return 8 * case.get("scale", 0) * size ** 0.5


def nudged(case, params, inputs):
    """What PyTorch answers in float64 and in float32 where everything that goes in is off by at most two units of float32's last place."""
    noise = torch.Generator().manual_seed(1)
    off = lambda v: v * (1 + (2 * torch.rand(v.shape, generator=noise, dtype=v.dtype) - 1) * 2**-22)
    nudge = lambda v: off(v).float().double() if v.is_floating_point() else v
    each = lambda values: {name: nudge(value) for name, value in values.items()}
    draws = [(each(params), each(inputs)) for _ in range(8)]
    return [[modules.answer(case, *draw, 1, *dtype) for dtype in ((), (torch.float32,))] for draw in draws]


@DTYPES
@pytest.mark.parametrize("case", CASES, ids=modules.text)
def test_module(context, folder, case, dtype):
    params, inputs = modules.draw(case, 1, modules.make(case).named_parameters())
    outputs, cotangents, grads = modules.answer(case, params, inputs, 1)
    float32 = lambda: modules.answer(case, params, inputs, 1, torch.float32)
    gate = largest_score(case) * torch.finfo(dtype).eps   # the rounding of a score is so much of its weight
    what = case["kind"] + (" of large scores" if case.get("large") else "")
    module = ours_new(context, case, dtype)
    if params:
        set_parameters(context, module, params, folder)
    names = context.parameters(module) if module else {}
    assert sorted(names) == sorted(params)

    leaf = lambda v: context.tensor(v.to(dtype) if v.is_floating_point() else v, v.is_floating_point())
    leaves = {k: leaf(layout(case, k).leaf(v)) for k, v in inputs.items()}
    x = {k: layout(case, k).view(leaves[k], v.shape) for k, v in inputs.items()}
    y = ours_forward(case, module, x)
    context.check()
    for name, want in outputs.items():
        ct.compare(what, name, context.value(getattr(y, name)), want, dtype, float32=lambda: float32()[0][name], gate=gate)
    for name in vars(y) if isinstance(y, types.SimpleNamespace) else dir(y):
        assert name in outputs or not getattr(y, name), f"{name} was not asked for"
    context.backward([getattr(y, name) for name in cotangents], [g.to(dtype) for g in cotangents.values()])
    largest = max([1e-2] + [g.abs().max().item() for g in grads.values() if g.numel()])
    for name, want in grads.items():
        turn = layout(case, name).gradient
        got, want = context.grad(leaves.get(name) or names[name]), turn(want)
        # zero mathematically, as that of K's bias, of the scores of a single key or, but for extra keys, of what shifts all of a query's
        zero = not want.numel() or want.abs().max() < 1e-9 * largest or name == "mask" and case["mask"] in ("t1", "h11", "1")
        deep = "num_layers" in case and dtype == torch.float32   # what has come through many layers carries the rounding of the largest
        least = largest if zero or deep else 100 if case.get("large") else 1e-2
        ct.compare(what, f"gradient of {name}", got, want, dtype, least, lambda: turn(float32()[2][name]), gate,
                   lambda: [[turn(other[2][name]) for other in pair] for pair in nudged(case, params, inputs)])


# ---- optimisers ----

def two_layers(context, dtype):
    case = dict(kind="mlp", B=4, T=3, dim=5, hidden=9, activation=1)
    params, inputs = modules.draw(case, 3, modules.make(case).named_parameters())
    return case, params, inputs, ours_new(context, case, dtype)


OPTIMISERS = [
    ("sgd", dict(lr=0.1), {}),
    ("sgd", dict(lr=0.1, momentum=0.9), {}),
    ("sgd", dict(lr=0.05, momentum=0.8, dampening=0.3, weight_decay=0.1), {}),
    ("sgd", dict(lr=0.05, momentum=0.8, nesterov=1, weight_decay=0.01), {}),
    ("sgd", dict(lr=0.05, weight_decay=0.2), {}),
    ("adam", dict(lr=0.01), {}),
    ("adam", dict(lr=0.01, beta1=0.8, beta2=0.95, eps=1e-4, weight_decay=0.1), {}),
    ("adamw", dict(lr=0.01), {}),
    ("adamw", dict(lr=0.01, weight_decay=0.1), {}),
    ("adamw", dict(lr=0.03, beta1=0.5, beta2=0.9, eps=1e-3, weight_decay=0.3), {}),
    ("adamw", dict(lr=0.01, weight_decay=0.5), dict(matrices_only=True)),
    ("adamw", dict(lr=0.01, weight_decay=0.1), dict(schedule=True)),
    ("adam", dict(), {}),
]


def torch_optimiser(kind, opts, params, extra):
    opts = {"lr": 1e-3} | opts
    if kind == "sgd":
        return torch.optim.SGD(params.values(), **(opts | dict(nesterov=bool(opts.get("nesterov")))))
    betas = (opts.pop("beta1", 0.9), opts.pop("beta2", 0.999))
    decay = opts.pop("weight_decay", 0)
    matrices = [p for p in params.values() if p.ndim > 1]
    rest = [p for p in params.values() if p.ndim <= 1]
    groups = [dict(params=matrices, weight_decay=decay), dict(params=rest, weight_decay=0 if extra.get("matrices_only") else decay)]
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](groups, betas=betas, **opts)


@DTYPES
@pytest.mark.parametrize("clip", [0, 0.05, 100.0])
@pytest.mark.parametrize("kind, opts, extra", OPTIMISERS)
def test_optimiser(context, folder, kind, opts, extra, clip, dtype):
    case, params, inputs, module = two_layers(context, dtype)
    set_parameters(context, module, params, folder)
    leaves = {k: v.double().requires_grad_() for k, v in params.items()}
    theirs = torch_optimiser(kind, dict(opts), leaves, extra)
    struct = ct.SgdOpts if kind == "sgd" else ct.AdamwOpts
    fields = dict(opts) | (dict(decay_matrices_only=1) if extra.get("matrices_only") else {})
    ours = context.check(getattr(lib, f"ct_{kind}_new")(module, struct(**fields)))
    names = context.parameters(module)
    generator = torch.Generator().manual_seed(5)
    for step in range(6):
        if extra.get("schedule"):
            cosine = ct.LrCosineOpts(peak=0.02, floor=0.001, warmup=2, total=6)
            rate = lib.ct_lr_cosine(cosine, step)
            lib.ct_optim_set_lr(ours, rate)
            for group in theirs.param_groups:
                group["lr"] = rate
        x = torch.randn(4, 3, 5, generator=generator)
        g = torch.randn(4, 3, 5, generator=generator)
        theirs.zero_grad()
        modules.forward(case, leaves, {"x": x.double()})["out"].backward(g.double())
        scope = lib.ct_scope_open(context.pointer)
        lib.ct_optim_zero_grad(ours)
        context.backward([lib.ct_forward(module, context.tensor(x.to(dtype)))], [g.to(dtype)])
        if clip:
            want = torch.nn.utils.clip_grad_norm_(leaves.values(), clip)
            got = lib.ct_clip_grad_norm(module, clip)
            ct.compare("clip_grad_norm", "norm", torch.tensor(got, dtype=dtype), want.detach(), dtype)
            for name, p in leaves.items():
                ct.compare("clip_grad_norm", name, context.grad(names[name]), p.grad, dtype, clip)
        theirs.step()
        assert context.check(lib.ct_optim_step(ours))
        lib.ct_scope_close(scope)
    for name, p in leaves.items():
        ct.compare(kind, name, context.value(names[name]), p.detach(), dtype)


# Patterns with ct_group_opts, in order: the last match wins.
GROUPS = [
    ("*.bias", dict(lr_scale=2.0)),
    ("proj.*", dict(lr_scale=0.5, weight_decay=0.3)),
    ("fc.w*", dict(weight_decay=0.05)),
]


@DTYPES
@pytest.mark.parametrize("clip", [0, 0.05])
@pytest.mark.parametrize("kind, opts", [
    ("sgd", dict(momentum=0.9, weight_decay=0.1)), ("adam", dict(weight_decay=0.1)), ("adamw", dict(weight_decay=0.1)),
])
def test_parameter_groups(context, folder, kind, opts, clip, dtype):
    """Against torch's param_groups, one for each parameter; proj.weight is frozen in steps 3 to 5, when torch forgets its state."""
    case, params, inputs, module = two_layers(context, dtype)
    set_parameters(context, module, params, folder)
    leaves = {k: v.double().requires_grad_() for k, v in params.items()}
    groups = []
    for name, p in leaves.items():
        last = [group for pattern, group in GROUPS if fnmatch.fnmatchcase(name, pattern)][-1]
        groups.append(dict(params=[p], weight_decay=last.get("weight_decay", 0), scale=last.get("lr_scale", 1)))
    extra = dict(momentum=0.9) if kind == "sgd" else {}
    theirs = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](groups, lr=1.0, **extra)
    struct = ct.SgdOpts if kind == "sgd" else ct.AdamwOpts
    ours = context.check(getattr(lib, f"ct_{kind}_new")(module, struct(clip_norm=clip, **opts)))
    for pattern, group in GROUPS:
        assert context.check(lib.ct_optim_group(ours, pattern.encode(), ct.GroupOpts(**group)))
    names = context.parameters(module)
    generator = torch.Generator().manual_seed(6)
    for step in range(9):
        lib.ct_optim_set_lr(ours, 0.02 / (step + 1))
        for group in theirs.param_groups:
            group["lr"] = 0.02 / (step + 1) * group["scale"]
        frozen = 3 <= step < 6
        if step in (3, 6):
            proj = dict(GROUPS)["proj.*"] | dict(frozen=frozen)
            assert context.check(lib.ct_optim_group(ours, b"proj.weight", ct.GroupOpts(**proj)))
        x = torch.randn(4, 3, 5, generator=generator)
        g = torch.randn(4, 3, 5, generator=generator)
        theirs.zero_grad()
        modules.forward(case, leaves, {"x": x.double()})["out"].backward(g.double())
        scope = lib.ct_scope_open(context.pointer)
        lib.ct_optim_zero_grad(ours)
        context.backward([lib.ct_forward(module, context.tensor(x.to(dtype)))], [g.to(dtype)])
        if frozen:
            leaves["proj.weight"].grad = None
            theirs.state.pop(leaves["proj.weight"], None)
        norm = torch.nn.utils.clip_grad_norm_(leaves.values(), clip) if clip else None
        theirs.step()
        assert context.check(lib.ct_optim_step(ours))
        if clip:
            ct.compare("clip_norm", "norm", torch.tensor(lib.ct_optim_grad_norm(ours), dtype=dtype), norm.detach(), dtype)
        lib.ct_scope_close(scope)
    for name, p in leaves.items():
        ct.compare(kind, name, context.value(names[name]), p.detach(), dtype)


def orthogonal(grad, coefficients, steps, eps):
    """torch.optim._muon._zeropower_via_newtonschulz, in the gradient's dtype and not in bfloat16."""
    a, b, c = coefficients
    x = grad.T if grad.size(0) > grad.size(1) else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.size(0) > grad.size(1) else x


MUONS = [
    (dict(), dict()),
    (dict(lr=0.02, momentum=0.9, weight_decay=0.1, ns_steps=3), dict(lr=0.01, weight_decay=0.2)),
    (dict(lr=0.02, no_nesterov=1, eps=1e-3), dict(lr=0.03, beta1=0.8)),
    (dict(lr=0.01, match_rms_adamw=1, weight_decay=0.3), dict(lr=0.01, weight_decay=0.3)),
]


@DTYPES
@pytest.mark.parametrize("clip", [0, 0.05])
@pytest.mark.parametrize("named", [False, True], ids=["matrices", "proj by AdamW"])
@pytest.mark.parametrize("opts, rest", MUONS)
def test_muon(context, folder, monkeypatch, opts, rest, named, clip, dtype):
    """50 steps of a model, whose vectors, and if it is named a matrix, AdamW steps; lr changes, and AdamW's in proportion."""
    monkeypatch.setattr("torch.optim._muon._zeropower_via_newtonschulz", orthogonal)
    case, params, inputs, module = two_layers(context, dtype)
    set_parameters(context, module, params, folder)
    fields = opts | dict(clip_norm=clip, adamw_names=["proj.w*"] if named else None, n_adamw_names=int(named))
    ours = context.check(lib.ct_muon_new(module, ct.MuonOpts(adamw=ct.AdamwOpts(**rest), **fields)))
    names = context.parameters(module)
    lr, rest_lr = opts.get("lr", 1e-3), rest.get("lr", 1e-3)

    def torch_run(real):
        leaves = {k: v.to(real).requires_grad_() for k, v in params.items()}
        by_muon = [k for k, p in leaves.items() if p.ndim == 2 and not (named and k.startswith("proj.w"))]
        muon = torch.optim.Muon([leaves[k] for k in by_muon], lr=lr, momentum=opts.get("momentum", 0.95), eps=opts.get("eps", 1e-7),
                                weight_decay=opts.get("weight_decay", 0), nesterov=not opts.get("no_nesterov"),
                                ns_steps=opts.get("ns_steps", 5), adjust_lr_fn="match_rms_adamw" if opts.get("match_rms_adamw") else None)
        adamw = torch.optim.AdamW([p for k, p in leaves.items() if k not in by_muon], lr=rest_lr,
                                  betas=(rest.get("beta1", 0.9), 0.999), weight_decay=rest.get("weight_decay", 0))
        return leaves, muon, adamw

    runs = [torch_run(real) for real in (torch.float64, torch.float32)]
    generator = torch.Generator().manual_seed(7)
    for step in range(50):
        x = torch.randn(4, 3, 5, generator=generator)
        g = torch.randn(4, 3, 5, generator=generator)
        scale = 1 if step < 25 else 0.5
        lib.ct_optim_set_lr(ours, lr * scale)
        for leaves, muon, adamw in runs:
            real = next(iter(leaves.values())).dtype
            muon.param_groups[0]["lr"], adamw.param_groups[0]["lr"] = lr * scale, rest_lr * scale
            muon.zero_grad(), adamw.zero_grad()
            modules.forward(case, leaves, {"x": x.to(real)})["out"].backward(g.to(real))
            if clip:
                torch.nn.utils.clip_grad_norm_(leaves.values(), clip)
            muon.step(), adamw.step()
        scope = lib.ct_scope_open(context.pointer)
        lib.ct_optim_zero_grad(ours)
        context.backward([lib.ct_forward(module, context.tensor(x.to(dtype)))], [g.to(dtype)])
        assert context.check(lib.ct_optim_step(ours))
        lib.ct_scope_close(scope)
    for name, p in runs[0][0].items():
        ct.compare("muon", name, context.value(names[name]), p.detach(), dtype, float32=lambda: runs[1][0][name].detach())


def test_cosine_schedule():
    cosine = ct.LrCosineOpts(peak=3.0, floor=0.5, warmup=4, total=20)
    rates = [lib.ct_lr_cosine(cosine, step) for step in range(25)]
    for step in range(4):
        assert rates[step] == pytest.approx(3.0 * (step + 1) / 5)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimiser = torch.optim.SGD([parameter], lr=3.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=16, eta_min=0.5)
    for step in range(4, 20):
        assert rates[step] == pytest.approx(optimiser.param_groups[0]["lr"], rel=1e-12)
        optimiser.step()
        theirs.step()
    assert rates[20:] == [0.5] * 5


# ---- state dicts ----

@DTYPES
@pytest.mark.parametrize("case", [random_layer("decoder_layer", 5), random_layer("encoder_layer", 2), attention_cases.MHA[1],
                                  random_stack("encoder", 4), random_stack("decoder", 6), random_stack("transformer", 2), LLAMA,
                                  dict(kind="mha", embed_dim=8, num_heads=2, kdim=3, vdim=5, add_bias_kv=1), random_small("mlp", 3),
                                  random_small("embedding", 1)], ids=modules.text)
def test_state_dict_round_trip(context, folder, case, dtype):
    theirs = modules.make(case).to(dtype)
    module = ours_new(context, case, dtype)
    for pointer in context.parameters(module).values():
        lib.ct_init_normal(pointer, 0, 1)
    path = str(folder / "ours.safetensors")
    assert context.check(lib.ct_save(module, path.encode(), ct.SaveOpts(metadata=["epoch", "7"])))
    with safetensors.safe_open(path, "pt") as file:
        assert file.metadata() == {"epoch": "7"}
    theirs.load_state_dict(safetensors.torch.load_file(path))   # strict: the names are torch's
    for name, p in theirs.named_parameters():
        assert torch.equal(context.value(lib.ct_module_get(module, name.encode())), p)
    for p in theirs.parameters():
        torch.nn.init.normal_(p)
    set_parameters(context, module, dict(theirs.state_dict()), folder)
    for name, p in theirs.named_parameters():
        assert torch.equal(context.value(lib.ct_module_get(module, name.encode())), p)


@pytest.mark.parametrize("stored", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_are_converted(context, folder, stored):
    module = ours_new(context, dict(kind="linear", in_features=33, out_features=5), torch.float32)
    weight = torch.randn(5, 33) * 10.0 ** torch.randint(-7, 4, (5, 33))
    state = {"weight": weight.to(stored), "bias": torch.tensor([0.0, -0.0, float("inf"), float("nan"), 1]).to(stored)}
    set_parameters(context, module, state, folder)
    for name, v in state.items():
        got = context.value(lib.ct_module_get(module, name.encode()))
        assert torch.equal(got.view(torch.int32), v.float().view(torch.int32)) or torch.equal(got.nan_to_num(9), v.float().nan_to_num(9))
