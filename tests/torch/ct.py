"""The library for the comparison with PyTorch: the package's functions, on bare pointers whose lifetime is the scopes', as in C."""
import collections
import functools
import os
import re
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
sys.path.insert(0, str(BUILD / "python"))   # the package over the tree's library, which python/python.mk puts there

import cotangent   # noqa: E402
from cotangent import Error, ffi   # noqa: E402, F401
from cotangent._values import Call, to_c   # noqa: E402

DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool]
NAMES = ["f32", "f64", "i64", "bool"]
CASE_INPUTS = 6


class Library:
    """A shared library. Its functions take what the package takes: None, bytes, lists, dicts and arrays, and pointers as they are. A text
    that is returned is bytes, and NULL is None."""

    def __init__(self, path):
        self.c = ffi.dlopen(str(path))

    def __getattr__(self, name):
        c = getattr(self.c, name)
        types = ffi.typeof(c).args
        is_text = ffi.typeof(c).result.cname == "char *"

        def call(*args):
            held = Call(None)
            result = c(*[to_c(value, kind, held, counted=True) for value, kind in zip(args, types, strict=True)])
            if is_text and result:
                return ffi.string(result)
            return None if isinstance(result, ffi.CData) and ffi.typeof(result).kind == "pointer" and not result else result
        setattr(self, name, call)
        return call


lib = Library(BUILD / "libcotangent.so")
cases = Library(BUILD / "tests" / "libcases.so")


class Struct(dict):
    """The fields of a struct: what a call passes of it. ct.MhaOpts(embed_dim=8) is a ct_mha_opts."""
    __setattr__ = dict.__setitem__

    def __init__(self, /, *args, **fields):   # a field may be called self
        super().__init__(zip(self.fields, args), **fields)
        assert self.keys() <= set(self.fields), f"{type(self).__name__} has {self.fields}, not {list(self)}"

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(name)


@functools.cache
def __getattr__(name):
    snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    try:
        ctype = next(ffi.typeof(full) for full in (f"ct_{snake}", snake) if full in ffi.list_types()[0])
    except StopIteration:
        raise AttributeError(name) from None
    return type(name, (Struct,), {"fields": tuple(field for field, _ in ctype.fields)})


def new(name, **fields):
    """A struct that a function fills."""
    return ffi.new(f"{name} *", fields)


def room(size):
    return ffi.new("char[]", size)


def shape(sizes):
    return tuple(sizes)


class Context:
    """A context with one open scope; all tensors are bare pointers. `with` frees everything."""

    def __init__(self, threads=1, seed=1, isa=None):
        self.owner = cotangent.Context(seed=seed, threads=threads, isa=isa)
        self.pointer = self.owner.pointer

    def __enter__(self):
        return self

    def __exit__(self, *_):
        ffi.release(self.pointer)

    def check(self, result=True):
        """Hands the result through, or raises what is pending."""
        self.owner.check()
        return result

    def tensor(self, value, grad=False):
        if value is None:
            return None
        value = value.detach().contiguous()
        make = getattr(lib, "ct_from_" + NAMES[DTYPES.index(value.dtype)])
        pointer = self.check(make(self.pointer, shape(value.shape), ffi.cast("void *", value.data_ptr())))
        if grad:
            lib.ct_set_requires_grad(pointer, True)
        return self.check(pointer)

    def value(self, pointer):
        """A copy as a torch tensor of the same dtype; None of NULL."""
        if not pointer:
            return None
        dtype, s = lib.ct_dtype_of(pointer), lib.ct_shape_of(pointer)
        out = torch.empty(list(s.dim[0 : s.ndim]), dtype=DTYPES[dtype])
        getattr(lib, "ct_to_" + NAMES[dtype])(pointer, ffi.cast("void *", out.data_ptr()), out.numel())
        return self.check(out)

    def grad(self, pointer):
        return self.value(lib.ct_grad(pointer))

    def backward(self, outs, cotangents):
        lib.ct_backward_with(list(outs), [self.tensor(g) for g in cotangents], len(outs), {})
        self.check()

    def parameters(self, module):
        """Name to pointer, in the module's order."""
        found, param = {}, new("ct_param")
        while lib.ct_module_next(module, param):
            found[ffi.string(param.name).decode()] = param.tensor
        return self.check(found)


Line = collections.namedtuple("Line", "pointer name call torch inputs")


@functools.cache
def case_lines():
    lines = [cases.case_at(i) for i in range(cases.case_count())]
    return [Line(line, *(ffi.string(text) for text in (line.name, line.call, line.torch, line.inputs))) for line in lines]


def unary_ops():
    """The ops of the rows of src/kernels/unary.h."""
    rows = (ROOT / "src" / "kernels" / "unary.h").read_text().split("clang-format off")[1]
    return tuple(dict.fromkeys(re.findall(r"^ +[A-Z_]+\((\w+)[,)]", rows, re.M)))


def case_text(line, variant):
    return line.inputs.decode().split("|")[variant].strip()


def case_specs(line, variant, scale=1):
    """What each input of a list is: kind, range, shape."""
    specs = ffi.new("case_input[]", CASE_INPUTS)
    n = cases.case_inputs(line.pointer, variant, scale, specs)
    assert n >= 0, "inputs that cannot be read: " + case_text(line, variant)
    return [ffi.new("case_input *", spec)[0] for spec in specs[0:n]]


def case_inputs(context, line, variant, scale, dtype, seed, single):
    """The inputs as pointers, and which of them collect a gradient."""
    specs, pointers = case_specs(line, variant, scale), ffi.new("ct_tensor *[]", CASE_INPUTS)
    cases.case_build(context.pointer, specs, len(specs), dict(dtype=dtype, seed=seed, single=single), pointers)
    context.check()
    return pointers, [spec.kind in b"RD" for spec in specs]


def case_run(context, line, pointers):
    return cases.case_run(context.pointer, line.pointer, [*pointers, *[None] * (CASE_INPUTS - len(pointers))])


# ---- comparing ----

worst = {}   # by what: the largest error of a dtype, and how many comparisons

GATE = {torch.float32: 3e-6, torch.float64: 1e-12}


def distance(got, want, least):
    """The largest difference over the largest finite value of the reference, or over `least` where that is more: what is zero
    mathematically has no scale of its own."""
    same = (got == want) | (got.isnan() & want.isnan())
    difference = torch.where(same, 0.0, (got - want).abs())
    largest = torch.where(want.isfinite(), want.abs(), 0.0)
    return (difference.max() / largest.max().clamp(min=least)).item() if got.numel() else 0.0


def compare(what, how, got, want, dtype, least=1e-2, float32=None, gate=0, nudged=None):
    """got is ours; want the reference, which for real numbers is f64. float32() is PyTorch's own answer in float32: where a cancellation
    leaves both far from the reference, ours may be off by twice as much as that. nudged() are references whose inputs are off
    by a few of float32's roundings, as what comes after a projection, a norm and scores is, each with PyTorch's float32 answer to the same
    inputs: ours may be off by twice what these references differ, and by twice the largest of PyTorch's own errors, too."""
    assert got is not None, f"{what}: {how}: there is none"
    assert list(got.shape) == list(want.shape), f"{what}: {how}: shape {list(got.shape)}, not {list(want.shape)}"
    entry = worst.setdefault(what, {"count": 0})
    entry["count"] += 1
    if not want.dtype.is_floating_point:
        assert got.dtype == want.dtype and torch.equal(got, want), f"{what}: {how}: other values"
        return
    assert got.dtype.is_floating_point, f"{what}: {how}: is {got.dtype}"
    error = distance(got.double(), want.double(), least)
    entry[dtype] = max(entry.get(dtype, 0.0), error)
    gate = max(gate, GATE[dtype])
    if error > gate and dtype == torch.float32 and float32:
        others = [(float32(), want)] + [pair for exact, single in (nudged() if nudged else []) for pair in ((exact, want), (single, exact))]
        gate = max([gate] + [2 * distance(other.double(), exact.double(), least) for other, exact in others])
    assert error <= gate, f"{what}: {how}: off by {error:.2e} of the largest value (gate {gate:.0e})"
