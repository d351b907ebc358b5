"""PyTorch's own sample inputs (OpInfo in torch.testing) for every op that both libraries have: values and gradients in f32 and f64, of the
inputs as they are and as views with other strides. What we refuse is counted, and REFUSED has the list."""
import collections
import re
import sys
import types
import unittest

import pytest
import torch

import ct
from ct import lib

sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))   # PyTorch's tests of itself need it, the inputs do not
from torch.testing._internal.common_methods_invocations import op_db   # noqa: E402

class Absent(Exception):
    """The call has no option for what the sample wants."""


def need(condition, what):
    if not condition:
        raise Absent(what)


def number(x, what="a tensor in place of a number"):
    need(isinstance(x, (int, float, bool)), what)
    return float(x)


def same_type(*xs):
    need(all(isinstance(x, torch.Tensor) for x in xs), "a number in place of a tensor")
    need(len({x.dtype for x in xs}) == 1, "operands of several dtypes")


def size(*n):
    return ct.shape([x for a in n for x in (a if isinstance(a, (tuple, list, torch.Size)) else [a])])


def dims(d):
    """All dims are an empty list, CT_ALL."""
    return size() if d is None else size(d)


def options(k, **defaults):
    """The keywords of a sample: those named here, and no other that is not its default."""
    rest = {n: v for n, v in k.items() if n not in defaults and not (v is None or v is False)}
    need(not rest, "the option " + ", ".join(sorted(rest)))
    return [k.get(n, v) for n, v in defaults.items()]


# ---- the table: an op's arguments as its call takes them ----

def unary(name, *more):
    def make(x, **k):
        options(k)
        return [x], lambda c, p: getattr(lib, "ct_" + name)(p, *more)
    return make


def binary(name):
    def make(a, b, alpha=1, **k):
        options(k)
        same_type(a, b)
        if alpha != 1:
            need(name in ("add", "sub"), "alpha")
            return [a, b], lambda c, p, q: getattr(lib, "ct_" + name)(p, lib.ct_scale(q, float(alpha)))
        return [a, b], lambda c, p, q: getattr(lib, "ct_" + name)(p, q)
    return make


def compared(name):
    def make(a, b):
        if isinstance(b, torch.Tensor):
            return binary(name)(a, b)
        return [a], lambda c, p: getattr(lib, f"ct_{name}_scalar")(p, float(b))
    return make


def reduction(name, argument="dim"):
    def make(x, *args, **k):
        dim, keepdim, dtype = options(k, **{argument: args[0] if args else None}, keepdim=args[1] if len(args) > 1 else False, dtype=None)
        need(dtype in (None, x.dtype), "the option dtype")
        return [x], lambda c, p: getattr(lib, "ct_" + name)(p, dims(dim), keepdim)
    return make


def along(name):
    def make(x, dim, **k):
        dtype, = options(k, dtype=None)
        need(dtype in (None, x.dtype), "the option dtype")
        return [x], lambda c, p: getattr(lib, "ct_" + name)(p, dim)
    return make


def var(x, *args, **k):
    unbiased = args[0] if args and isinstance(args[0], bool) else args[1] if len(args) > 1 else True
    dim, keepdim, unbiased, correction = options(k, dim=args[0] if args and not isinstance(args[0], bool) else None, keepdim=False, unbiased=unbiased, correction=None)
    correction = float(unbiased) if correction is None else correction
    return [x], lambda c, p: lib.ct_var(p, dims(dim), correction, keepdim)


def std(x, *args, **k):
    inputs, call = var(x, *args, **k)
    return inputs, lambda c, p: lib.ct_sqrt(call(c, p))


def kept(y, x, dim, keepdim):
    """y with the dim of x that the call has removed."""
    return lib.ct_unsqueeze(y, dim) if keepdim and x.ndim else y


def logsumexp(x, dim, keepdim=False):
    need(isinstance(dim, int) or len(dim) == 1, "several dims")
    d = dim if isinstance(dim, int) else dim[0]
    return [x], lambda c, p: kept(lib.ct_logsumexp(p, d), x, d, keepdim)


def argmax(x, dim=None, keepdim=False):
    if dim is None:
        need(not keepdim, "keepdim of all dims")
        return [x], lambda c, p: lib.ct_argmax(lib.ct_reshape(p, size(-1)), 0)
    return [x], lambda c, p: kept(lib.ct_argmax(p, dim), x, dim, keepdim)


def extremum_of(name):
    """max and min along a dim, of which torch also gives the index."""
    def make(x, dim=None, keepdim=False):
        return [x], lambda c, p: [getattr(lib, "ct_" + name)(p, dims(dim), keepdim)]
    return make


def sort(x, dim=-1, descending=False, stable=False):
    def call(c, p):
        order = lib.ct_argsort(p, dim, descending)
        return [lib.ct_gather(p, dim, order), order]
    return [x], call


def topk(x, k, dim=-1, largest=True, sorted=True):
    need(largest, "the smallest")
    def call(c, p):
        out = lib.ct_topk(p, k, dim)
        return [out.values, out.indices]
    return [x], call


def einsum(operands, equation):
    need(len(operands) <= 2, "more than two operands")
    return list(operands), lambda c, *p: lib.ct_einsum(equation.encode(), p[0], p[1] if len(p) > 1 else None)


def masked_fill(x, mask, value):
    if isinstance(value, torch.Tensor):
        need(value.ndim == 0 and not value.requires_grad, "a value with a gradient")
        value = value.item()
    return [x, mask], lambda c, p, q: lib.ct_masked_fill(p, q, float(value))


def where(x, cond, other):
    same_type(x, other)
    return [cond, x, other], lambda c, p, a, b: lib.ct_where(p, a, b)


def clamp(x, lo=None, hi=None, **k):
    lo, hi = options(k, min=lo, max=hi)
    lo, hi = (number(b) if b is not None else s * float("inf") for b, s in ((lo, -1), (hi, 1)))
    return [x], lambda c, p: lib.ct_clamp(p, lo, hi)


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    need(len(shape) == 1, "several dims")
    return [x, weight, bias], lambda c, p, w, b: lib.ct_layer_norm(p, w, b, eps)


def rms_norm(x, shape, weight=None, eps=None):
    need(len(shape) == 1, "several dims")
    return [x, weight], lambda c, p, w: lib.ct_rms_norm(p, w, torch.finfo(x.dtype).eps if eps is None else eps)


def embedding(weight, ids, **k):
    options(k)
    return [ids, weight], lambda c, p, w: lib.ct_embedding(p, w)


def index_add(x, dim, index, src, alpha=1):
    call = lambda c, p, i, s: lib.ct_index_add(p, dim, i, lib.ct_scale(s, float(alpha)) if alpha != 1 else s)
    return [x, index, src], call


def gather(x, dim, index, **k):
    options(k)
    need(index.dtype == torch.int64, "indices of int32")
    return [x, index], lambda c, p, i: lib.ct_gather(p, dim, i)


def loss(name, opts, **fields):
    """A loss of x and target with a reduction."""
    def make(x, target, **k):
        reduction, *more = options(k, reduction="mean", **fields)
        more = [m.detach() if isinstance(m, torch.Tensor) else m for m in more]   # it gets no gradient
        tensors = [m for m in more if isinstance(m, torch.Tensor)]
        def call(c, p, t, *q):
            q = list(q)
            values = {n: (q.pop(0) if isinstance(m, torch.Tensor) else m) for n, m in zip(fields, more) if m is not None}
            return getattr(lib, "ct_" + name)(p, t, getattr(ct, opts)(reduction=REDUCTIONS[reduction], **values))
        return [x, target, *tensors], call
    return make


REDUCTIONS = {"mean": 0, "sum": 1, "none": 2, "batchmean": 3}


def mse_loss(x, target, **k):
    reduction, = options(k, reduction="mean")
    need(reduction == "mean", "the option reduction")
    return [x, target], lambda c, p, t: lib.ct_mse_loss(p, t)


def cross_entropy(x, target, **k):
    weight, ignore, smoothing, reduction = options(k, weight=None, ignore_index=-100, label_smoothing=0.0, reduction="mean")
    need(target.dtype == torch.int64, "targets that are probabilities")
    weight = weight.detach() if weight is not None else None
    target = torch.where(target == ignore, -100, target)
    def call(c, p, t, w=None):
        classes = lib.ct_permute(p, size(0, *range(2, x.ndim), 1)) if x.ndim > 1 else p
        return lib.ct_cross_entropy(classes, t, ct.CrossEntropyOpts(label_smoothing=smoothing, reduction=REDUCTIONS[reduction], weight=w))
    return [x, target] + ([weight] if weight is not None else []), call


def attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    need(dropout_p == 0, "dropout")
    masks = [attn_mask] if attn_mask is not None else []
    return [q, k, v, *masks], lambda c, q, k, v, m=None: lib.ct_attention(q, k, v, ct.AttentionOpts(mask=m, causal=is_causal, scale=scale or 0)).out


def cat(tensors, dim=0, **k):
    dim, = options(k, dim=dim)
    return list(tensors), lambda c, *p: lib.ct_cat(list(p), len(p), dim)


def stack(tensors, dim=0):
    return list(tensors), lambda c, *p: lib.ct_stack(list(p), len(p), dim)


def pieces(parts):
    """split and chunk: parts(size of the dim, the argument) is a piece's size."""
    def make(x, n, dim=0, **k):
        dim, = options(k, dim=dim)
        each = parts(x.shape[dim], n)
        def call(c, p):
            count = max(1, -(-x.shape[dim] // each)) if each else 1
            out = ct.ffi.new("ct_tensor *[]", count)
            lib.ct_split(p, each, dim, out, count)
            return list(out)
        return [x], call
    return make


def pad(x, amounts, mode="constant", value=0.0):
    def call(c, p):
        for i in range(len(amounts) // 2):
            p = lib.ct_pad(p, -1 - i, amounts[2 * i], amounts[2 * i + 1], float(value or 0))
        return p
    return [x], call


def roll(x, shifts, dims=None):
    shifts, dims = ([a] if isinstance(a, int) else a for a in (shifts, dims))
    def call(c, p):
        if not dims:
            return lib.ct_reshape(lib.ct_roll(lib.ct_reshape(p, size(-1)), shifts[0], 0), size(x.shape))
        for s, d in zip(shifts, dims):
            p = lib.ct_roll(p, s, d)
        return p
    return [x], call


def squeeze(x, dim=None):
    need(isinstance(dim, int), "no dim or several")
    return [x], lambda c, p: lib.ct_squeeze(p, dim)


def softplus(x, beta=1, threshold=20):
    need(beta == 1 and threshold == 20, "the options beta and threshold")
    return [x], lambda c, p: lib.ct_softplus(p)


def gelu(x, approximate="none"):
    return [x], lambda c, p: (lib.ct_gelu if approximate == "none" else lib.ct_gelu_tanh)(p)


def power(x, e):
    e = number(e)
    return [x], lambda c, p: lib.ct_pow(p, e)


def linear(x, weight, bias=None):
    return [x, weight, bias], lambda c, p, w, b: lib.ct_linear(p, w, b)


def shaped(name):
    def make(x, *n):
        n = n[0].shape if n and isinstance(n[0], torch.Tensor) else n
        return [x], lambda c, p: getattr(lib, "ct_" + name)(p, size(*n))
    return make


def flatten(x, start_dim=0, end_dim=-1):
    want = torch.flatten(x, start_dim, end_dim).shape
    return [x], lambda c, p: lib.ct_reshape(p, size(want))


def one_hot(x, num_classes=-1):
    n = num_classes if num_classes != -1 else int(x.max()) + 1
    return [x], lambda c, p: lib.ct_one_hot(p, n, ct.DTYPES.index(torch.int64))


def logical(name, wants=2):
    def make(*x):
        need(all(isinstance(v, torch.Tensor) and v.dtype == torch.bool for v in x), "operands that are not bool")
        return list(x), lambda c, *p: getattr(lib, "ct_" + name)(*p)
    return make


def linspace(start, end, steps, dtype=None, **k):
    options({n: v for n, v in k.items() if n != "device"})
    return [], lambda c: lib.ct_linspace(c.pointer, ct.DTYPES.index(dtype or torch.float32), float(start), float(end), steps)


OPS = {name: unary(name) for name in "exp log sqrt abs tanh sigmoid sin cos sign floor neg isnan clone contiguous".split()}
OPS |= {f"nn.functional.{name}": unary(name) for name in ("relu", "silu")}
OPS |= {name: binary(ours) for name, ours in {"add": "add", "sub": "sub", "mul": "mul", "div.no_rounding_mode": "div", "true_divide": "div", "maximum": "maximum",
                                              "minimum": "minimum", "max.binary": "maximum", "min.binary": "minimum", "matmul": "matmul", "mm": "matmul",
                                              "bmm": "matmul", "mv": "matmul", "dot": "matmul"}.items()}
OPS |= {name: compared(name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
OPS |= {"sum": reduction("sum"), "mean": reduction("mean"), "amax": reduction("max"), "amin": reduction("min"), "any": reduction("any"), "all": reduction("all"),
        "max.reduction_no_dim": reduction("max"), "min.reduction_no_dim": reduction("min"), "max.reduction_with_dim": extremum_of("max"),
        "min.reduction_with_dim": extremum_of("min"), "var": var, "var.unbiased": var, "std": std, "std.unbiased": std}
OPS |= {"cumsum": along("cumsum"), "softmax": along("softmax"), "log_softmax": along("log_softmax"), "logsumexp": logsumexp, "argmax": argmax, "sort": sort, "topk": topk,
        "argsort": lambda x, dim=-1, descending=False, stable=False: ([x], lambda c, p: lib.ct_argsort(p, dim, descending))}
OPS |= {"square": unary("pow", 2.0), "rsqrt": unary("pow", -0.5), "reciprocal": unary("pow", -1.0), "pow": power, "nn.functional.softplus": softplus,
        "nn.functional.gelu": gelu, "nn.functional.elu": lambda x, alpha=1.0: ([x], lambda c, p: lib.ct_elu(p, float(alpha))),
        "nn.functional.leaky_relu": lambda x, negative_slope=0.01: ([x], lambda c, p: lib.ct_leaky_relu(p, float(negative_slope))),
        "clamp": clamp, "clamp_min": lambda x, m: clamp(x, m), "clamp_max": lambda x, m: clamp(x, None, m), "where": where, "masked_fill": masked_fill,
        "logical_and": logical("logical_and"), "logical_or": logical("logical_or"), "logical_not": logical("logical_not")}
OPS |= {"nn.functional.normalize": lambda x, p=2.0, dim=1, eps=1e-12: ([x], lambda c, q: lib.ct_normalize(q, float(p), dim, eps))}
OPS |= {"einsum": einsum, "nn.functional.linear": linear, "nn.functional.layer_norm": layer_norm, "nn.functional.rms_norm": rms_norm, "nn.functional.embedding": embedding,
        "nn.functional.scaled_dot_product_attention": attention, "nn.functional.mse_loss": mse_loss, "nn.functional.cross_entropy": cross_entropy,
        "nn.functional.binary_cross_entropy_with_logits": loss("bce_with_logits", "BceOpts", pos_weight=None),
        "nn.functional.kl_div": loss("kl_div", "KlDivOpts", log_target=False), "nn.functional.one_hot": one_hot}
OPS |= {"gather": gather, "index_select": lambda x, dim, index: ([x, index], lambda c, p, i: lib.ct_index_select(p, dim, i)), "index_add": index_add,
        "view": shaped("view"), "reshape": shaped("reshape"), "reshape_as": shaped("reshape"), "expand": shaped("expand"), "expand_as": shaped("expand"),
        "broadcast_to": shaped("expand"), "permute": shaped("permute"), "sum_to_size": shaped("sum_to"), "flatten": flatten, "ravel": flatten,
        "transpose": lambda x, a, b: ([x], lambda c, p: lib.ct_transpose(p, a, b)),
        "narrow": lambda x, dim, start, n: ([x], lambda c, p: lib.ct_narrow(p, dim, int(start), n)),
        "select": lambda x, dim, i: ([x], lambda c, p: lib.ct_select(p, dim, i)), "squeeze": squeeze, "unsqueeze": along("unsqueeze"), "cat": cat, "stack": stack,
        "split": pieces(lambda n, each: each), "chunk": pieces(lambda n, count: -(-n // count)), "nn.functional.pad.constant": pad, "roll": roll,
        "tril": lambda x, k=0: ([x], lambda c, p: lib.ct_tril(p, k)), "linspace": linspace}
INFOS = {o.name + ("." + o.variant_test_name if o.variant_test_name else ""): o for o in op_db}

# Scores up to 200, and rows of two elements that cancel: roundings in f32 are this part of the gradients.
GATES = {"nn.functional.scaled_dot_product_attention": 4e-5, "nn.functional.layer_norm": 1e-5}

# What we refuse: how many samples of an op in f32, by reason.
REFUSED = {
    "cat": {"cat: no dim 1 in a tensor of 1 dims": 1},
    "clamp": {"a tensor in place of a number": 7},
    "clamp_max": {"a tensor in place of a number": 9},
    "clamp_min": {"a tensor in place of a number": 9},
    "einsum": {"einsum: \"...\": 'i' stands twice in one operand": 1},
    "gather": {"indices of int32": 3},
    "logsumexp": {"several dims": 3},
    "masked_fill": {"a value with a gradient": 3},
    "nn.functional.binary_cross_entropy_with_logits": {"the option weight": 15},
    "nn.functional.cross_entropy": {"targets that are probabilities": 10},
    "nn.functional.layer_norm": {"several dims": 2},
    "nn.functional.mse_loss": {"the option reduction": 2},
    "nn.functional.rms_norm": {"several dims": 2},
    "nn.functional.scaled_dot_product_attention": {
        "dropout": 12, "attention: q (...), k (...), v (...) are not (B, H, T, d), (B, H_kv, S, d), (B, H_kv, S, d_v)": 4},
    "nn.functional.softplus": {"the options beta and threshold": 3},
    "pow": {"a tensor in place of a number": 9},
    "squeeze": {"no dim or several": 2},
}


def leaf(context, x, grad, strided):
    """(our tensor, the leaf that collects its gradient): the same, or a view into a leaf of one dim more."""
    if not strided or x.ndim == 0 or x.ndim > 6:
        p = context.tensor(x, grad)
        return p, p
    p = context.tensor(torch.stack([x, x], -1), grad)
    return context.check(lib.ct_select(p, -1, 1)), p


def reference(info, sample, inputs, dtype):
    """torch's results and its gradients with respect to the inputs, computed in `dtype`."""
    copies = {id(x): x.detach().to(dtype if x.is_floating_point() else x.dtype).requires_grad_(x.is_floating_point()) for x in inputs}
    swap = lambda v: copies.get(id(v), v.detach().to(dtype) if v.is_floating_point() else v) if isinstance(v, torch.Tensor) else \
        type(v)(map(swap, v)) if type(v) in (list, tuple) else dtype if v in (torch.float32, torch.float64) and isinstance(v, torch.dtype) else v
    out = info.op(swap(sample.input), *map(swap, sample.args), **{k: swap(v) for k, v in sample.kwargs.items()})
    return [o for o in (out if isinstance(out, (list, tuple)) else [out])], [copies[id(x)] for x in inputs]


def gradients(outs, inputs, seed):
    """The cotangents of the results that have gradients, and what they give for each input."""
    real = [o for o in outs if o.is_floating_point() and o.requires_grad]
    cotangents = [torch.randn(o.shape, generator=torch.Generator().manual_seed(seed + i)) for i, o in enumerate(real)]
    wanted = [x for x in inputs if x.is_floating_point()]
    found = torch.autograd.grad(real, wanted, [g.to(o.dtype) for g, o in zip(cotangents, real)], allow_unused=True) if real and wanted else []
    return cotangents, [torch.zeros_like(x) if d is None else d for x, d in zip(wanted, found)]


def compare(context, name, info, sample, made, dtype, strided):
    inputs, call = [x for x in made[0] if x is not None], made[1]
    ours = [leaf(context, x, x.is_floating_point(), strided) for x in inputs]
    at = iter(ours)
    pointers = [next(at)[0] if x is not None else None for x in made[0]]
    outs = call(context, *pointers)
    context.check()
    outs = outs if isinstance(outs, list) else [outs]
    want, copies = reference(info, sample, inputs, torch.float64)
    want = want[:len(outs)]
    cotangents, grads = gradients(want, copies, 3)
    gate = GATES.get(name, 0) if dtype == torch.float32 else 0

    def float32():
        y, x = reference(info, sample, inputs, torch.float32)
        return y, gradients(y[:len(outs)], x, 3)[1]
    what, shapes = "OpInfo " + name, f"{[list(x.shape) for x in inputs]}, {sample.args}, {sample.kwargs}"
    for i, (y, w) in enumerate(zip(outs, want, strict=True)):
        ct.compare(what, f"value {i} of {shapes}", context.value(y), w.detach(), dtype, 1e-2, lambda i=i: float32()[0][i].detach(), gate)
    real = [y for y, w in zip(outs, want) if w.is_floating_point() and w.requires_grad]
    if not grads or not real:
        return
    context.backward(real, [g.to(dtype) for g in cotangents])
    leaves = [l for x, (_, l) in zip(inputs, ours) if x.is_floating_point()]
    for i, (l, w) in enumerate(zip(leaves, grads, strict=True)):
        got = context.grad(l)
        got = torch.zeros_like(w, dtype=dtype) if got is None else got if got.shape == w.shape else got[..., 1]
        ct.compare(what, f"gradient {i} of {shapes}", got, w, dtype, 1e-2, lambda i=i: float32()[1][i], gate)


def samples_of(info, name, dtype):
    dtype = torch.bool if name.startswith("logical") else torch.int64 if name.endswith("one_hot") else dtype
    return info.sample_inputs("cpu", dtype, requires_grad=info.supports_autograd and dtype.is_floating_point)


def plain(message):
    return re.sub(r"\([-\d, ]*\)", "(...)", re.sub(r"\"[^\"]*\"", '"..."', message)).split(";")[0]


@pytest.mark.parametrize("name", sorted(OPS))
def test_samples(context, name):
    info, refused = INFOS[name], collections.Counter()
    compared = 0
    for dtype in (torch.float32, torch.float64):
        torch.manual_seed(0)
        for sample in samples_of(info, name, dtype):
            scope = lib.ct_scope_open(context.pointer)
            try:
                made = OPS[name](sample.input, *sample.args, **sample.kwargs)
                for strided in (False, True):
                    compare(context, name, info, sample, made, dtype, strided)
                compared += 1
            except (Absent, ct.Error) as error:
                refused[plain(str(error))] += dtype == torch.float32
            lib.ct_scope_close(scope)
    assert compared or REFUSED[name]
    assert {reason: n for reason, n in refused.items() if n} == REFUSED.get(name, {})
