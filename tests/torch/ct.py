"""The library through ctypes: as much of it as the comparison with PyTorch needs."""
import ctypes as C
import os
import re
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
lib = C.CDLL(str(BUILD / "libcotangent.so"))
cases = C.CDLL(str(BUILD / "tests" / "libcases.so"))

P, I, L, D, S, B = C.c_void_p, C.c_int, C.c_int64, C.c_double, C.c_char_p, C.c_bool
DTYPES = [torch.float32, torch.float64, torch.int64, torch.bool]
NAMES = ["f32", "f64", "i64", "bool"]


def struct(title, /, **fields):
    return type(title, (C.Structure,), {"_fields_": list(fields.items())})


# The structs as the headers have them, in their order: a new option moves nothing here.
TYPES = {"int": I, "unsigned": C.c_uint, "int64_t": L, "uint64_t": C.c_uint64, "uint8_t": C.c_uint8, "size_t": C.c_size_t, "double": D, "bool": B}
TYPES |= {"void": None, "char": C.c_char, "ct_error_fn": P, "ct_fn": P}


def field(text):
    """(name, type) of each name that a declaration of one or more fields declares."""
    if "(*" in text:   # a pointer to a function
        yield re.search(r"\(\*(\w+)\)", text)[1], P
        return
    base, names = re.match(r"(?:const |struct )*(\w+)((?: const)?\b.*)", text, re.S).groups()
    for name in names.split(","):
        pointers, name, sizes = re.match(r"([\s*]*(?:const\b)?[\s*]*)(\w+)((?:\[\w+\])*)", name.strip()).groups()
        kind = (S if base == "char" and pointers.count("*") == 1 else P) if "*" in pointers else TYPES[base]
        for size in reversed(re.findall(r"\w+", sizes)):
            kind *= 8 if size == "CT_MAX_DIMS" else int(size)
        yield name, kind


def structs(path):
    """ct_mha_opts becomes MhaOpts, case_line CaseLine."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S).replace("unsigned char", "uint8_t")
    TYPES.update((name, I) for name in re.findall(r"typedef enum\s*\{[^}]*\}\s*(\w+);", text))
    for body, name in re.findall(r"typedef struct\s*(?:\w+\s*)?\{(.*?)\}\s*(\w+);", text, re.S):
        fields = [f for line in body.split(";") if line.strip() for f in field(line.strip())]
        title = name.removeprefix("ct_").title().replace("_", "")
        TYPES[name] = globals()[title] = struct(title, **dict(fields))
    TYPES.update((name, TYPES[of]) for of, name in re.findall(r"typedef (\w+) (\w+);", text) if of in TYPES)


def functions(library, path):
    """Declares the functions of a header; not those that take a function that has no type's name."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    kind = lambda declaration: next(field(declaration))[1]
    for result, name, arguments in re.findall(r"CT_API\s+([\w\s*]+?)\b(\w+)\(([^()]*)\)", text):
        function = getattr(library, name)
        function.restype = kind(result + "_")
        arguments = [re.sub(r"(\w+)\[\w*\]$", r"*\1", x.strip()) for x in arguments.split(",")]
        function.argtypes = [kind(x) for x in arguments if x not in ("void", "...")]


HEADERS = [ROOT / "include" / "cotangent" / f"{name}.h" for name in
           ("types", "context", "scope", "tensor", "init", "autograd", "ops", "nn", "optim", "io", "models", "tokenizer")]
for header in HEADERS:
    structs(header)
structs(ROOT / "tests" / "support" / "cases.h")
for header in HEADERS:
    functions(lib, header)
functions(cases, ROOT / "tests" / "support" / "cases.h")
FN = C.CFUNCTYPE(P, C.POINTER(P), I, P)   # ct_fn
CASE_INPUTS = 6


class Error(Exception):
    """What the context has recorded."""


def shape(sizes):
    return Shape(len(sizes), (L * 8)(*sizes))


class Context:
    """A context with one open scope; all tensors are bare pointers. `with` frees everything."""

    def __init__(self, threads=1, seed=1, isa=None):
        self.pointer = lib.ct_context_new(ContextOpts(seed=seed, threads=threads, isa=isa))
        self.check()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        lib.ct_context_free(self.pointer)

    def check(self, result=True):
        """Hands the result through, or raises what is pending."""
        if lib.ct_error(self.pointer):
            message = lib.ct_error_message(self.pointer).decode()
            lib.ct_error_clear(self.pointer)
            raise Error(message)
        return result

    def tensor(self, value, grad=False):
        if value is None:
            return None
        value = value.detach().contiguous()
        make = getattr(lib, "ct_from_" + NAMES[DTYPES.index(value.dtype)])
        pointer = self.check(make(self.pointer, shape(value.shape), value.data_ptr()))
        if grad:
            lib.ct_set_requires_grad(pointer, True)
        return self.check(pointer)

    def value(self, pointer):
        """A copy as a torch tensor of the same dtype; None of NULL."""
        if not pointer:
            return None
        dtype, s = lib.ct_dtype_of(pointer), lib.ct_shape_of(pointer)
        out = torch.empty(list(s.dim[: s.ndim]), dtype=DTYPES[dtype])
        getattr(lib, "ct_to_" + NAMES[dtype])(pointer, out.data_ptr(), out.numel())
        return self.check(out)

    def grad(self, pointer):
        return self.value(lib.ct_grad(pointer))

    def backward(self, outs, cotangents):
        n = len(outs)
        seeds = (P * n)(*[self.tensor(g) for g in cotangents])
        lib.ct_backward_with((P * n)(*outs), seeds, n, BackwardOpts())
        self.check()

    def parameters(self, module):
        """Name to pointer, in the module's order."""
        found, param = {}, Param()
        while lib.ct_module_next(module, C.byref(param)):
            found[param.name.decode()] = param.tensor
        return self.check(found)


def case_lines():
    return [CaseLine.from_address(cases.case_at(i)) for i in range(cases.case_count())]


def unary_ops():
    """The ops of the rows of src/kernels/unary.h."""
    rows = (ROOT / "src" / "kernels" / "unary.h").read_text().split("clang-format off")[1]
    return tuple(dict.fromkeys(re.findall(r"^ +[A-Z_]+\((\w+)[,)]", rows, re.M)))


def case_text(line, variant):
    return line.inputs.decode().split("|")[variant].strip()


def case_specs(line, variant, scale=1):
    """What each input of a list is: kind, range, shape."""
    specs = (CaseInput * CASE_INPUTS)()
    n = cases.case_inputs(C.byref(line), variant, scale, specs)
    assert n >= 0, "inputs that cannot be read: " + case_text(line, variant)
    return list(specs[:n])


def case_inputs(context, line, variant, scale, dtype, seed, single):
    """The inputs as pointers, and which of them collect a gradient."""
    specs, pointers = case_specs(line, variant, scale), (P * CASE_INPUTS)()
    cases.case_build(context.pointer, (CaseInput * CASE_INPUTS)(*specs), len(specs), CaseBuildOpts(dtype, 0, seed, single), pointers)
    context.check()
    return pointers, [spec.kind in b"RD" for spec in specs]


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
