"""Every line of ops.def on random extreme values: infinities, NaN, zeros of both signs, denormals,
huge, tiny and equal numbers, in other layouts too. Values and gradients in float32 are compared with
PyTorch's float64 of the same inputs: a NaN or an infinity must be where it is there, unless PyTorch's
float32 has lost the number as well; other numbers may be off as test_accuracy_live.py says.
EXTREME_DRAWS=100 draws more for each line and style, --seed 17 one; what fails says its seed."""
import collections
import functools
import math
import os
import random

import pytest
import torch
import torch.nn.functional as F

import ct
import graphs
import test_accuracy_live as accuracy
from ct import lib
from layouts import LAYOUTS
from test_ops_live import compiled, reference

DRAWS = int(os.environ.get("EXTREME_DRAWS", 2))
SPECIAL = torch.tensor([0.0, -0.0, 1, -1, math.inf, -math.inf, math.nan, 1e30, -1e30, 1e-40, 3e38,
                        -3e38, 0.5, 88.8, -104])


# ---- inputs ----

def special(shape, generator):
    """Of some of these numbers only: with all of them most results are NaN."""
    few = SPECIAL[torch.randperm(len(SPECIAL), generator=generator)]
    few = few[: 1 + torch.randint(len(SPECIAL), (), generator=generator)]
    return few[torch.randint(len(few), shape, generator=generator)]


def zeros(shape, generator):
    return torch.where(torch.rand(shape, generator=generator) < 0.5, 0.0, -0.0)


def ties(shape, generator):
    return torch.randint(-2, 3, shape, generator=generator).float()


def orders(low, high):
    """Of these orders of magnitude."""
    def draw(shape, generator):
        order = torch.randint(low, high + 1, shape, generator=generator).double()
        return (accuracy.normal(shape, generator).double() * 10**order).float()
    return draw


STYLES = dict(special=special, zeros=zeros, ties=ties, wide=orders(-3, 3), mixed=orders(-20, 19),
              huge=accuracy.times(1e30), tiny=accuracy.times(1e-30), denormal=accuracy.times(1e-39))
STYLES |= {f"offset {by:g}": accuracy.offset(by) for by in (1e3, -1e6)}

# Inputs that are hard in these styles only: scores of attention, whose rounding decides which key is
# chosen if they are large, and weights of norms, as large ones cancel in the gradient of an outlier.
CALM = ("zeros", "ties", "tiny", "denormal")
TAME = dict(attention=(0, 1, 3), packed_attention=(0, 1), layer_norm=(1, 2), rms_norm=(1,), rms_norm_offset=(1,))

# Functions of each element, of which each value has a scale of its own, and a zero its sign. (Of the
# maximum of 0 and -0 the sign is either.)
EACH = accuracy.UNARY + accuracy.BINARY + ("clamp",)

# Linear in each input: what is a sum in them or in their gradients has the terms of the sizes.
LINEAR = accuracy.SUMS + ("einsum", "add", "mul", "expand", "embedding", "gather",
                          "index_select", "index_add", "cat", "stack", "where")

# From this input on they are probabilities, their logarithms or weights, and keep to their range.
RANGED = dict(bce_with_logits=1, kl_div=0, cross_entropy=1, linear_cross_entropy=2)


def draw(line, style, seed):
    """Values, layouts, and which collect a gradient."""
    r, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    lists = ct.cases.case_variants(line.pointer)
    specs = ct.case_specs(line, r.randrange(lists))
    name = line.name.decode()
    ranged = RANGED.get(name, len(specs))
    values, layouts = [], []
    for i, spec in enumerate(specs):
        value = graphs.sample(spec, generator)
        fits = ["dense"]
        if accuracy.real(value):
            if i < ranged:
                tame = r.random() < 0.2 or (style not in CALM and i in TAME.get(name, ()))
                value = (accuracy.normal if tame else STYLES[style])(value.shape, generator)
            value = value.float()
            fits += ["narrowed"] * (value.ndim > 0) + ["turned", "moved"] * (value.ndim > 1)
        values.append(value)
        layouts.append(LAYOUTS[r.choice(fits)])
    return values, layouts, [spec.kind in b"RD" for spec in specs]


# ---- what PyTorch is asked for in place of the line's text ----

def topk(x, k, dim):
    """Of equals the first is first; torch.topk says nothing of them."""
    values, indices = torch.sort(x, dim=dim, descending=True, stable=True)
    kept = values.narrow(dim, 0, k), indices.narrow(dim, 0, k)
    return collections.namedtuple("Topk", "values indices")(*kept)


class Largest(torch.autograd.Function):
    """torch.amax, where NaN is a maximum too, which shares the gradient with other NaN. PyTorch
    divides by the number of elements that equal NaN, 0."""

    @staticmethod
    def forward(ctx, x, dims, keepdim):
        y = torch.amax(x, dims, keepdim=True)
        ctx.largest = (x == y) | (x.isnan() & y.isnan())
        ctx.dims, ctx.shape = dims, y.shape
        return y if keepdim else torch.amax(x, dims)

    @staticmethod
    def backward(ctx, g):
        count = ctx.largest.sum(ctx.dims, keepdim=True)
        return ctx.largest * (g.reshape(ctx.shape) / count), None, None


def amax(x, dims=None, keepdim=False):
    return Largest.apply(x, tuple(range(x.ndim)) if dims is None else dims, keepdim)


def amin(x, dims=None, keepdim=False):
    return -amax(-x, dims, keepdim)


def logsumexp(x, dim):
    """Of a row of -inf with a zero gradient, as softmax's; PyTorch's is NaN."""
    blind = (x == -math.inf).all(dim, keepdim=True)
    x = x.masked_fill(blind, 0)
    y = accuracy.exact_logsumexp(x, dim) if x.dtype == torch.float64 else torch.logsumexp(x, dim)
    return y.masked_fill(blind.squeeze(dim), -math.inf)


def masked_softmax(x, mask, dim):
    """0 for what is hidden, also beside NaN, and in rows of -inf."""
    x = x.masked_fill(~mask, -math.inf)
    blind = (x == -math.inf).all(dim, keepdim=True)
    return torch.softmax(x.masked_fill(blind, 0), dim).masked_fill(blind | ~mask, 0)


def softmax(x, dim):
    """Of -inf 0 with a zero gradient, in a row of nothing else and beside NaN too."""
    hidden = x == -math.inf
    x = x.masked_fill(hidden.all(dim, keepdim=True), 0)
    return torch.softmax(x, dim).masked_fill(hidden, 0)


def attend(q, k, v, attn_mask=None, scale=None, is_causal=False, enable_gqa=False):
    """Values of hidden keys are not read. PyTorch multiplies them by 0, which of NaN is NaN."""
    if q.ndim == 4:   # other inputs have no dim of heads
        k, v = [x.repeat_interleave(q.shape[1] // max(1, k.shape[1]), 1) for x in (k, v)]
    scores = q @ k.mT * (scale or max(1, q.shape[-1]) ** -0.5)
    hidden = torch.zeros(scores.shape, dtype=torch.bool)
    if is_causal:
        hidden = torch.ones(scores.shape, dtype=torch.bool).triu(1)
    if attn_mask is not None and accuracy.real(attn_mask):
        hidden, scores = hidden | (attn_mask == -math.inf), scores + attn_mask
    elif attn_mask is not None:
        hidden = hidden | ~attn_mask
    weights = softmax(scores.masked_fill(hidden, -math.inf), -1)
    return (weights[..., None] * v[..., None, :, :]).masked_fill(hidden[..., None], 0).sum(-2)


def gelu(x, approximate="none"):
    """With the limits of its slope at infinities, 1 and 0; PyTorch computes inf 0."""
    infinite = x.isinf()
    finite = x.masked_fill(infinite, 0)
    double = x.dtype == torch.float64
    f = accuracy.exact_gelu if approximate == "none" else accuracy.exact_gelu_tanh
    y = f(finite) if double else F.gelu(finite, approximate=approximate)
    return torch.where(infinite, torch.where(x > 0, x, x.detach() * 0), y)


def quick_gelu(x):
    """With the limits of its slope, as gelu."""
    infinite = x.isinf()
    finite = x.masked_fill(infinite, 0)
    return torch.where(infinite, torch.where(x > 0, x, x.detach() * 0), finite * torch.sigmoid(1.702 * finite))


CALLS = {"torch.topk": "topk", "x[0] * torch.sigmoid(1.702 * x[0])": "quick_gelu(x[0])",
         "F.scaled_dot_product_attention": "attend", "F.gelu": "gelu",
         "F.dropout(x[0], 1, True)": "x[0].masked_fill(torch.tensor(True), 0)",   # not x 0
         "torch.nan_to_num(torch.softmax(x[0].masked_fill(~x[1], -torch.inf)":
             "(masked_softmax(x[0], x[1]",
         "torch.amax": "amax", "torch.amin": "amin", "torch.logsumexp": "logsumexp"}


def exact(line, x):
    text = line.torch.decode()
    for call, f in CALLS.items():
        text = text.replace(call, f)
    if b"attention" in line.name:
        text = text.replace("torch.softmax", "softmax")
    if line.name == b"masked_softmax":
        text = text.replace("torch.softmax(x[0]", "masked_softmax(x[0], torch.tensor(True)")
    if text == line.torch.decode():
        double = any(v.dtype == torch.float64 for v in x if v is not None)
        return (accuracy.exact if double else reference)(line, x)
    return eval(compiled(text), globals() | {"x": x})


# What is not compared, by a part of the call, the answer and the style.
DIFFERENT = {
    ("ct_div(", "gradient 1", "denormal", "special"):
        "it is -(g / b) y, PyTorch's -g (y / b): each loses digits where its quotient leaves the "
        "range",
    ("ct_tanh(", "value", "zeros", "special"): "of -0 it is 0, PyTorch's -0",
    ("ct_var(", "gradient 0", "special"):
        "beside an infinity all is NaN, as the variance is; PyTorch's is infinite if x is finite",
    ("ct_attention(", "gradient 3", "denormal"):
        "of the mask it is P (dP - <dO, O>), PyTorch's P (dP - sum P dP)",
    ("ct_activated_linear(", "value", "gradient 0", "special"):
        "sums beyond the range, of which only linear knows the terms",
    (".weight = in[2], .label_smoothing", "value", "special"):
        "gaps from a target's logit near the end of the range overflow, then NaN is as good as inf",
    (".weight = in[3], .label_smoothing", "value", "special"): "likewise",
}


def different(line, what, style):
    return any(key[0] in line.call.decode() and {what, style} <= set(key) for key in DIFFERENT)


# Styles that attention has not: rounding and sums beyond the range decide there, whose terms
# test_accuracy_live.py knows; NaN among hidden values is for tests/attention/test_attention_hidden.c.
NOT_OF_ATTENTION = ("special", "offset 1000", "offset -1e+06")


# ---- answers: by what it is, the value and the gradients ----

def theirs(f, line, x, collects, cotangent, dtype):
    x = [v.to(dtype).requires_grad_(wanted) if accuracy.real(v) else v
         for v, wanted in zip(x, collects)]
    y = f(line, x)
    answers = {"value": y.detach()}
    if y.requires_grad:
        leaves = {f"gradient {i}": v for i, v in enumerate(x) if v is not None and v.requires_grad}
        grads = torch.autograd.grad(y, list(leaves.values()), cotangent(y).to(y.dtype),
                                    allow_unused=True)
        answers |= {what: torch.zeros_like(v) if d is None else d
                    for (what, v), d in zip(leaves.items(), grads)}
    return answers


def ours(context, line, x, layouts, collects, cotangent):
    """The gradients are of the leaves, and so in their layouts."""
    leaves = [None if v is None else context.tensor(way.leaf(v), accuracy.real(v) and wanted)
              for v, way, wanted in zip(x, layouts, collects)]
    views = [None if v is None else way.view(leaf, v.shape)
             for v, way, leaf in zip(x, layouts, leaves)]
    y = ct.case_run(context, line, views)
    answers = {"value": context.check(context.value(y))}
    if lib.ct_requires_grad(y):
        context.backward([y], [cotangent(answers["value"]).to(answers["value"].dtype)])
        answers |= {f"gradient {i}": context.grad(leaf) for i, leaf in enumerate(leaves)
                    if leaf and lib.ct_requires_grad(leaf)}
    return answers


# ---- comparing ----

class Judge:
    """Of several draws the worst error of ours and of PyTorch's in float32, as in
    test_accuracy_live.py. Where PyTorch's float32 has lost the number (no digit is right, or it is
    NaN or infinite) ours may be NaN or infinite too, or as wrong. It may also be NaN or infinite
    where the terms of a sum are together beyond the range, and in the gradient of a function of
    one element where that element is NaN: PyTorch's abs has 0 there, its elu the cotangent. Where terms cancel, ours may
    also be off by twice as much as float64 is by nudged inputs."""
    LOST = 2**20   # units

    def __init__(self):
        self.theirs, self.heard = {}, []   # by answer the worst error; draws that are worse than it

    def hear(self, what, seed, got, single, want, each, scale, beyond, nudged):
        if not want.numel():
            return
        off, others = accuracy.errors(torch.stack([got, single]), want, each, scale)
        if each and what == "value":
            # Of a function of each element a zero has PyTorch's sign: with AVX2 its gelu has another one in float32 than in float64.
            zero = (want == 0) & (got == 0) & (single == 0)
            other = (got.signbit() != single.signbit()) & (got.signbit() != want.signbit())
            off[(zero & other).flatten()] = math.inf
        lost = others > self.LOST
        as_wrong = lost & others.isfinite() & (off <= 2 * others)
        no_number = (lost | beyond.flatten()) & ~got.isfinite().flatten()
        off = torch.where(as_wrong | no_number, 0.0, off)
        theirs = torch.where(lost, 0.0, others).max().item()
        self.theirs[what] = max(self.theirs.get(what, 0), theirs)
        if not off.max() <= 2 * theirs + accuracy.FLOOR:
            answers = torch.stack([want, *nudged()])
            moved = accuracy.errors(answers, want, each, scale).nan_to_num(posinf=0).max().item()
            at = off.argmax().item()
            numbers = [x.flatten()[at].item() for x in (got, single, want)]
            self.heard.append((what, seed, off[at].item(), moved, numbers))

    def passes(self):
        worse = ["{}, --seed {}: off by {:.3g} units, {:.9g}; PyTorch's float32 {:.9g}, float64 {:.9g}"
                 .format(what, seed, off, *numbers) for what, seed, off, moved, numbers in self.heard
                 if not off <= 2 * max(moved, self.theirs[what]) + accuracy.FLOOR]
        assert not worse, "\n".join(worse)


def largest_number(x):
    return torch.where(x.isfinite(), x.abs(), 0.0).max()


def nudge(v, generator):
    """Off by at most two units of float32's last place, of a denormal by one; 0 stays."""
    if not accuracy.real(v):   # an index, a mask, None
        return v
    noise = 2 * torch.rand(v.shape, generator=generator).double() - 1
    return v.double() + noise * (2 * accuracy.EPS * v.abs() + accuracy.TINY * (v != 0))


def compare(context, line, style, seed, judge):
    """One draw: the value and each gradient."""
    name = line.name.decode()
    x, layouts, collects = draw(line, style, seed)
    cotangent = lambda y: torch.randn(y.shape, generator=torch.Generator().manual_seed(seed))
    scope = lib.ct_scope_open(context.pointer)
    got = ours(context, line, x, layouts, collects, cotangent)
    lib.ct_scope_close(scope)
    answer = lambda x, dtype: theirs(exact, line, x, collects, cotangent, dtype)
    single, want = answer(x, torch.float32), answer(x, torch.float64)
    assert got.keys() == want.keys()
    terms = None
    if name in LINEAR:
        sizes = [v.double().abs() if accuracy.real(v) else v for v in x]
        terms = theirs(exact, line, sizes, collects, lambda y: cotangent(y).abs(), torch.float64)
    noise = torch.Generator().manual_seed(seed)
    nudged = functools.cache(lambda: [] if name in graphs.KINKS else [
        answer([nudge(v, noise) for v in x], torch.float64) for _ in range(8)])
    for what, value in want.items():
        if different(line, what, style):
            continue
        turn = layouts[int(what[-1])].gradient if what != "value" else lambda g: g
        # Of a broadcast the gradient is a sum.
        each = name in EACH and value.shape == want["value"].shape
        scale = turn(terms[what]) if terms and not each else None
        if "cross_entropy" in name and what == "gradient 0" and value.numel():
            # Of equal logits nothing is left, which has no scale of its own.
            least = cotangent(want["value"]).abs().max().double() / x[0].numel()
            scale = torch.maximum(largest_number(value), least)
        largest = accuracy.LARGEST / (max(1, x[0].numel()) if name == "mean" else 1)
        beyond = torch.zeros((), dtype=torch.bool) if scale is None else scale > largest
        if what != "value" and name in accuracy.UNARY or (name, what) == ("activated_mul", "gradient 0"):
            beyond = turn(x[0].isnan().double()) > 0
        judge.hear(what, seed, got[what], turn(single[what]), turn(value), each, scale, beyond,
                   lambda: [turn(answers[what]) for answers in nudged()])


def cases():
    for index, line in enumerate(ct.case_lines()):
        name = line.name.decode()
        if line.torch != b"NONE" and any(s.kind in b"RDC" for s in ct.case_specs(line, 0)):
            for style in STYLES:
                if "attention" not in name or style not in NOT_OF_ATTENTION:
                    yield pytest.param(index, style, id=f"{name}-{index}-{style}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("index, style", list(cases()))
def test_extreme(context, request, index, style):
    seed, judge = request.config.getoption("seed"), Judge()
    draws = DRAWS * (6 if style == "special" else 1)
    for seed in range(draws) if seed is None else [seed]:
        compare(context, ct.case_lines()[index], style, seed, judge)
    judge.passes()
