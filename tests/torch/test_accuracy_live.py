"""How far float32 is off where it is hard: large offsets and scores, one key, one query, rows of
one element and of equals, numbers near both ends of the range. Ours and PyTorch's float32 are
compared with PyTorch's float64 of the same inputs: ours may be off by twice as much as PyTorch's,
and FLOOR units of the last place of the result's scale. docs/design.md says which differences are
meant."""
import math

import pytest
import torch
import torch.nn.functional as F

import ct
import modules
from ct import lib
from test_modules_live import ours_forward, ours_new, set_parameters
from test_ops_live import reference

FLOOR = 2
EPS, TINY, LARGEST = torch.finfo(torch.float32).eps, 2.0**-149, torch.finfo(torch.float32).max


# ---- how far off ----

def errors(got, want, each, scale=None):
    """The differences in units of the last place: of the largest value, with `each` of each value
    of its own, or of `scale`. Of one answer or of several, stacked: a row each."""
    rows = got.shape[: got.ndim - want.ndim]
    if not want.numel():
        return torch.zeros(*rows, 1)
    got, want = got.double(), want.double()
    size = want.abs()
    beyond = size > LARGEST * (1 + EPS / 4)   # rounds to infinity
    same = (got == want) | (got.isnan() & want.isnan()) | (beyond & (got == want.sign() * math.inf))
    finite = torch.where(want.isfinite() & ~beyond, size, 0.0)
    unit = EPS * (scale if scale is not None else finite if each else finite.max())
    off = torch.where(same, 0.0, (got - want).abs() / unit.clamp(min=TINY))
    return off.nan_to_num(math.inf, math.inf).reshape(*rows, -1)


class Judge:
    """Of several draws the worst error of ours and of PyTorch's; or a quantile, where the worst is
    luck: that of one near tie of large scores."""

    def __init__(self, each=False, quantile=1.0):
        self.each, self.quantile, self.heard = each, quantile, {}

    def hear(self, what, ours, theirs, want, scale=None):
        both = torch.stack([ours.double(), theirs.double()])
        self.heard.setdefault(what, []).append(errors(both, want, self.each, scale))

    def passes(self):
        worse = {}
        for what, heard in self.heard.items():
            every = torch.cat(heard, 1)
            place = 1 + math.ceil(self.quantile * (every.shape[1] - 1))
            ours, theirs = every.kthvalue(place).values.tolist()
            if not ours <= 2 * theirs + FLOOR:
                worse[what] = f"{ours:.3g}, PyTorch's {theirs:.3g}"
        assert not worse, worse


# ---- inputs ----

def normal(shape, generator):
    return torch.randn(shape, generator=generator)


def offset(by):
    return lambda shape, generator: normal(shape, generator) + by


def times(by):
    def draw(shape, generator):
        return (normal(shape, generator).double() * by).clamp(-LARGEST, LARGEST).float()
    return draw


def between(low, high):
    return lambda shape, generator: torch.rand(shape, generator=generator) * (high - low) + low


def equal(to):
    return lambda shape, generator: torch.full(shape, to)


def everywhere(shape, generator):
    """From the smallest number to what a thousand may be added of."""
    size = torch.rand(shape, generator=generator, dtype=torch.float64) * 264 - 149
    return (normal(shape, generator).sign().double() * 2**size).float()


KINDS = {"normal": normal, "everywhere": everywhere, "equals": equal(3.7), "equals 1e8": equal(1e8)}
KINDS |= {f"offset {by:g}": offset(by) for by in (1e2, -1e4, 1e6, 1e8)}
KINDS |= {f"times {by:g}": times(by) for by in (3e3, 1e4, 1e15, 3e38, 1e-20, 1e-38, 1e-42)}
KINDS |= {f"{low} to {high}": between(low, high)
          for low, high in ((-110, 110), (-6, -2), (-90, -80), (0, 2))}


# ---- ops ----

UNARY = ct.unary_ops()
BINARY = ("div", "mul", "add", "sub")
SUMS = ("sum", "mean", "sum_to", "cumsum", "matmul", "linear")   # may cancel: the scale is that of the terms
POSITIVE = ("log", "sqrt")   # and pow of a fraction
ONE_HARD = ("layer_norm", "rms_norm", "rms_norm_offset", "linear", "activated_linear", "linear_cross_entropy")
ROWS = {"rows": [(7, 33)], "rows of one": [(9, 1)], "long rows": [(2, 1000)]}

SHAPES = {name: {"many": [(600,)]} for name in UNARY}
SHAPES |= {name: {"two": [(600,), (600,)]} for name in BINARY}
SHAPES |= {name: ROWS for name in ("softmax", "log_softmax", "logsumexp", "max", "min", "var")}
SHAPES |= {
    "sum": {"rows": [(5, 33)], "one": [(1, 1)], "long": [(2, 5000)]},
    "sum_to": {"rows": [(300, 7)]},
    "cumsum": {"rows": [(7, 33)], "long": [(2, 5000)]},
    "bce_with_logits": {"rows": [(7, 33), (7, 33), (33,)]},
    "mse_loss": {"two": [(400,), (400,)], "one": [(1,), (1,)]},
    "masked_softmax": {"rows": [(7, 33), (7, 33)], "one key": [(7, 1), (7, 1)]},
    "layer_norm": {"rows": [(7, 33), (33,), (33,)], "one element": [(9, 1), (1,), (1,)],
                   "two": [(9, 2), (2,), (2,)], "long": [(3, 768), (768,), (768,)]},
    "cross_entropy": {"rows": [(9, 33), (9,), (33,)], "one class": [(9, 1), (9,), (1,)],
                      "many": [(3, 2000), (3,), (2000,)]},
    "linear_cross_entropy": {"rows": [(9, 5), (33, 5), (9,), (33,)],
                             "one class": [(9, 5), (1, 5), (9,), (1,)]},
    "matmul": {"square": [(20, 40), (40, 30)], "a vector": [(1, 300), (300, 7)],
               "one": [(1, 1), (1, 1)]},
    "linear": {"all": [(9, 40), (30, 40), (30,)]},
    "activated_linear": {"all": [(9, 40), (30, 40), (30,), (9, 30)]},
    "embedding": {"often": [(300,), (7, 5)]},
    "rope": {"all": [(5, 8), (5,)]},
}
SHAPES["mean"] = SHAPES["sum"]
SHAPES["rms_norm"] = {name: shapes[:2] for name, shapes in SHAPES["layer_norm"].items()}
SHAPES["rms_norm_offset"] = {name: SHAPES["rms_norm"][name] for name in ("rows", "two", "long")}
# Which input is of integers, and which input's which dim limits them.
INTEGERS = {"cross_entropy": (1, 0, -1), "linear_cross_entropy": (2, 1, 0), "embedding": (0, 1, 0), "rope": (1, 0, 0)}
WEIGHTS = {"cross_entropy": 2, "linear_cross_entropy": 3, "bce_with_logits": 2}   # no gradient
OTHER_SHAPES = (b"0, 2", b"ct_dim(in[0], 1)")   # in calls that want three dims

# What stays as it is, and why.
ALLOWED = {("div", "times 3e+38"): "b's gradient is -(g / b) y, as a's is g / b; PyTorch's is "
                                   "-g (y / b). Each is off where its quotient is denormal"}


def real(v):
    return v is not None and v.is_floating_point()


def has_gradient(line, i, v):
    return real(v) and WEIGHTS.get(line.name.decode()) != i


def op_cases():
    for index, line in enumerate(ct.case_lines()):
        name = line.name.decode()
        if name not in SHAPES or line.torch == b"NONE" or any(x in line.call for x in OTHER_SHAPES):
            continue
        for shape in SHAPES[name]:
            if shape == "one class" and b"linear" in line.call and b"z_loss" in line.call:
                continue   # z times the square of a logit, in which the rounding of matmul doubles
            for kind in KINDS:
                if kind == "times 3e+38" and b".weight" in line.call and b"z_loss" in line.call:
                    continue   # weighted gaps overflow, and their NaN is as good as an infinity
                yield pytest.param(index, shape, kind, id=f"{name}-{index}-{shape}-{kind}")


def draw(name, line, shapes, kind, generator):
    if b"in[1], NULL, in[2]" in line.call:   # activated_linear without a bias
        shapes = shapes[:2] + shapes[3:]
    none = [text == "N" for text in ct.case_text(line, 0).split()]
    x = [None if n else KINDS[kind](shape, generator) for shape, n in zip(shapes, none)]
    if name in POSITIVE or (name == "pow" and b"." in line.call):
        x[0] = x[0].abs()
    if name in INTEGERS and INTEGERS[name][0] < len(x):
        at, of, dim = INTEGERS[name]
        x[at] = torch.randint(shapes[of][dim], shapes[at], generator=generator)
        if "cross_entropy" in name and len(x[at]) > 4:
            x[at][3] = -100   # does not count
    for i in range(WEIGHTS.get(name, len(x)), len(x)):
        x[i] = between(0.1, 2)(shapes[i], generator)
    if name == "bce_with_logits":
        x[1] = between(0, 1)(shapes[1], generator)
    if name == "masked_softmax" and x[1] is not None:
        x[1] = torch.rand(shapes[1], generator=generator) < 0.7
        x[1][..., 0] = True
    if name in ONE_HARD or name in ("matmul", "embedding"):
        hard = 0 if name in ONE_HARD else 1
        x = [normal(v.shape, generator) if has_gradient(line, i, v) and i != hard else v
             for i, v in enumerate(x)]
    return x


def exact_gelu(x):
    return x * torch.special.erfc(-x * 0.5**0.5) / 2


def exact_gelu_tanh(x):
    return x * torch.sigmoid((8 / math.pi) ** 0.5 * (x + 0.044715 * x**3))


def exact_logsumexp(x, dim):
    if not x.numel():
        return torch.logsumexp(x, dim)
    top = x.amax(dim, keepdim=True).detach().nan_to_num(posinf=0, neginf=0)
    return torch.logsumexp(x - top, dim) + top.squeeze(dim)


def exact(line, x):
    """In float64, also where PyTorch's own cancels: 1 + erf and 1 + tanh in a tail, and max + log
    sum of a large max."""
    text = line.torch.decode()
    for call, f in (("F.gelu(x[0])", exact_gelu),
                    ('F.gelu(x[0], approximate="tanh")', exact_gelu_tanh)):
        if call in text:
            return eval(text.replace(call, "f(x[0])"), {"torch": torch, "F": F, "x": x, "f": f})
    if line.name == b"logsumexp":
        return exact_logsumexp(x[0], -1 if text.endswith("-1)") else 1)
    return reference(line, x)


def ours(context, line, x, cotangent):
    """Value and gradients."""
    pointers = [context.tensor(v, has_gradient(line, i, v)) for i, v in enumerate(x)]
    y = ct.case_run(context, line, pointers)
    value = context.check(context.value(y))
    context.backward([y], [cotangent(value)])
    return [value] + [context.grad(pointers[i])
                      for i, v in enumerate(x) if has_gradient(line, i, v)]


def theirs(f, line, x, cotangent, dtype):
    x = [v.to(dtype).requires_grad_(has_gradient(line, i, v)) if real(v) else v
         for i, v in enumerate(x)]
    leaves = [v for v in x if real(v) and v.requires_grad]
    y = f(line, x)
    grads = torch.autograd.grad(y, leaves, cotangent(y).to(dtype), allow_unused=True)
    return [y.detach()] + [torch.zeros_like(v) if d is None else d for v, d in zip(leaves, grads)]


@pytest.mark.parametrize("index, shape, kind", list(op_cases()))
def test_op(context, index, shape, kind):
    line = ct.case_lines()[index]
    name = line.name.decode()
    if (name, kind) in ALLOWED:
        pytest.skip(ALLOWED[name, kind])
    one = shape == "one" or name in ("sum", "mean")   # of few values: more draws
    judge = Judge(each=name in UNARY + BINARY)
    for seed in range(16 if one else 4):
        x = draw(name, line, SHAPES[name][shape], kind, torch.Generator().manual_seed(seed))
        generator = lambda: torch.Generator().manual_seed(seed + 100)
        cotangent = lambda y: torch.randn(y.shape, generator=generator())
        scope = lib.ct_scope_open(context.pointer)
        got = ours(context, line, x, cotangent)
        lib.ct_scope_close(scope)
        single = theirs(reference, line, x, cotangent, torch.float32)
        want = theirs(exact, line, x, cotangent, torch.float64)
        terms = None
        if name in SUMS:
            terms = reference(line, [v.double().abs() if real(v) else v for v in x])
        for i, each in enumerate(zip(got, single, want, strict=True)):
            judge.hear(f"gradient {i - 1}" if i else "value", *each, None if i else terms)
    judge.passes()


# ---- attention ----

HARD = {"normal": {}, "queries times 3e3": dict(q=times(3e3)),
        "queries times 1e4": dict(q=times(1e4)), "keys offset 1e2": dict(k=offset(1e2)),
        "keys times 1e-20": dict(k=times(1e-20)),
        "keys equal": dict(k=equal(3.7)), "values offset 1e4": dict(v=offset(1e4)),
        "values offset 1e8": dict(v=offset(1e8)), "values times 1e-42": dict(v=times(1e-42)),
        "values times 1e30": dict(v=times(1e30)),
        "queries times 30, keys offset -30": dict(q=times(30), k=offset(-30))}
CALLS = {"plain": {}, "weights": dict(need_weights=1), "causal": dict(causal=1),
         "few heads": dict(num_kv_heads=1), "mask": dict(mask="ts", mask_float=1),
         "keys": dict(key_mask=1)}
LENGTHS = {call: [(1, 300), (2, 7), (8, 130)] for call in CALLS}
LENGTHS["plain"] = [(t, s) for t in (1, 2, 3) for s in (1, 300)]
LENGTHS["plain"] += [(1, 2), (2, 7), (8, 130), (130, 130), (130, 1)]
LENGTHS["weights"].append((130, 130))   # in blocks


def terms_of(case, inputs, g):
    """What the output and the gradients are sums of, added up without signs."""
    q, k, v = [inputs[x].double() for x in "qkv"]
    mask = modules.torch_mask(case, inputs, "", q.shape[2], k.shape[2])
    mask = modules.keep_of(mask, case["B"])
    mask = mask.double() if real(mask) else mask
    _, p = modules.attend(q, k, v, mask, None, True)
    kv_heads = k.shape[1]
    shared = lambda x: x.unflatten(1, (kv_heads, -1)).sum(2)
    k, v = [x.repeat_interleave(q.shape[1] // kv_heads, 1).abs() for x in (k, v)]
    g_out = g["out"].double().abs()
    dp = g_out @ v.mT + (g["weights"].double().abs() if "weights" in g else 0)
    ds = p * (dp + (p * dp).sum(-1, keepdim=True))
    scaled = ds * q.shape[-1] ** -0.5
    return {"out": p @ v, "weights": p, "gradient of q": scaled @ k, "gradient of mask": ds,
            "gradient of k": shared(scaled.mT @ q.abs()), "gradient of v": shared(p.mT @ g_out)}


def attention_cases():
    for call in CALLS:
        for t, s in LENGTHS[call]:
            for kind in HARD:
                yield pytest.param(call, t, s, kind, id=f"{call}-{t}-{s}-{kind}")


@pytest.mark.parametrize("call, t, s, kind", list(attention_cases()))
def test_attention(context, call, t, s, kind):
    case = dict(kind="attention", B=max(2, 24 // t), T=t, S=s, num_heads=2, num_kv_heads=2, d=16)
    case |= CALLS[call]
    judge = Judge(quantile=0.9)
    for seed in range(4 if t < 130 else 2):
        _, inputs = modules.draw(case, seed, [])
        generator = torch.Generator().manual_seed(seed)
        for name, make in HARD[kind].items():
            inputs[name] = make(inputs[name].shape, generator)
        if "key_mask" in inputs:
            inputs["key_mask"][:, 0] = True
        # PyTorch then has the weights whole and subtracts sum P dP, not <dO, O>.
        whole = call in ("weights", "mask")
        compare(context, judge, case, None, {}, inputs, seed, terms_of if whole else None)
    judge.passes()


def compare(context, judge, case, module, params, inputs, seed, terms=None):
    """Outputs and gradients of a module's case."""
    want, cotangents, grads = modules.answer(case, params, inputs, seed)
    single, _, single_grads = modules.answer(case, params, inputs, seed, torch.float32)
    scale = {}
    if terms:
        scale = {name: x.max() for name, x in terms(case, inputs, cotangents).items()}
    scope = lib.ct_scope_open(context.pointer)
    leaves = {k: context.tensor(v, real(v)) for k, v in inputs.items()}
    y = ours_forward(case, module, leaves)
    context.check()
    context.backward([getattr(y, name) for name in cotangents], list(cotangents.values()))
    for name, value in want.items():
        got = context.value(getattr(y, name))
        judge.hear(name, got, single[name], value, scale.get(name))
    leaves |= context.parameters(module) if module else {}
    largest = max(g.abs().max() for g in grads.values())
    for name, value in grads.items():
        # What is zero mathematically, as that of a key projection's bias, has no scale of its own.
        nothing = module and value.abs().max() < 1e-9 * largest
        what = f"gradient of {name}"
        judge.hear(what, context.grad(leaves[name]), single_grads[name], value,
                   largest if nothing else scale.get(what))
    lib.ct_scope_close(scope)


# ---- modules ----

MHA = dict(kind="mha", embed_dim=32, num_heads=4)
MODULES = [MHA | dict(B=4, T=9), MHA | dict(B=8, T=1, S=40, cross=1),
           MHA | dict(B=8, T=2, S=1, cross=1, need_weights=1),
           MHA | dict(B=4, T=9, causal=1, need_weights=1),
           dict(kind="linear", B=4, T=9, in_features=33, out_features=20),
           dict(kind="layer_norm", B=4, T=9, dim=48), dict(kind="rms_norm", B=4, T=9, dim=48),
           dict(kind="mlp", B=4, T=9, dim=24, activation=1),
           dict(kind="encoder_layer", B=2, T=9, embed_dim=32, num_heads=4, norm_first=1),
           dict(kind="decoder_layer", B=2, T=5, S=7, embed_dim=32, num_heads=4)]


@pytest.mark.parametrize("kind", ["normal", "offset 100", "offset -10000", "times 3000",
                                  "times 1e-20", "times 1e-38", "times 1e+15"])
@pytest.mark.parametrize("case", MODULES, ids=modules.text)
def test_module(context, folder, case, kind):
    judge = Judge(quantile=0.9)
    module = ours_new(context, case, torch.float32)
    for seed in range(16 if "num_heads" in case else 4):   # large scores: the error of one draw may be a thousand times another's
        params, inputs = modules.draw(case, seed, modules.make(case).named_parameters())
        set_parameters(context, module, params, folder)
        first = next(iter(inputs))
        inputs[first] = KINDS[kind](inputs[first].shape, torch.Generator().manual_seed(seed))
        for pointer in context.parameters(module).values():
            lib.ct_zero_grad(pointer)
        compare(context, judge, case, module, params, inputs, seed)
    judge.passes()


# ---- a step of Adam ----

@pytest.mark.parametrize("size", [1.0, 1e-8, 1e-12, 1e-18, 1e-20, 1e-25, 1e-38, 1e-42, 1e4, 1e18])
@pytest.mark.parametrize("eps", [1e-8, 1e-15])
@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_step(context, folder, kind, eps, size):
    n, lr = 24, 1e-2
    generator = torch.Generator().manual_seed(1)
    start = normal((n, n), generator)
    case = dict(kind="linear", in_features=n, out_features=n, no_bias=1)
    module = ours_new(context, case, torch.float32)
    set_parameters(context, module, {"weight": start}, folder)
    weight = context.parameters(module)["weight"]
    optim = context.check(getattr(lib, f"ct_{kind}_new")(module, ct.AdamwOpts(lr=lr, eps=eps)))
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind]
    single, double = [torch.nn.Parameter(start.to(d)) for d in (torch.float32, torch.float64)]
    steps = [make([p], lr=lr, eps=eps, weight_decay=0) for p in (single, double)]
    for _ in range(4):
        g = times(size)((n, n), generator)
        scope = lib.ct_scope_open(context.pointer)
        lib.ct_optim_zero_grad(optim)
        y = lib.ct_forward(module, context.tensor(torch.eye(n)))   # W^T: dW is g, to the bit
        context.backward([y], [g.T])
        assert torch.equal(context.grad(weight), g)
        assert context.check(lib.ct_optim_step(optim))
        lib.ct_scope_close(scope)
        for p, step in zip((single, double), steps):
            p.grad = g.to(p.dtype)
            step.step()
    judge = Judge()
    moved = lambda p: p.detach().double() - start.double()
    largest = start.abs().max()
    judge.hear("step", moved(context.value(weight)), moved(single), moved(double), largest)
    judge.passes()
