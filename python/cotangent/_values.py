"""Values of Python as values of C, and back."""
import collections
import enum
import functools
import os

import numpy

from ._ffi import ffi
from ._objects import TENSOR, Context, Frame, Object, Scope, lib

ENUMS = {name: enum.IntEnum(name[3:], {full[3:]: value for value, full in sorted(ffi.typeof(name).elements.items())})
         for name in ffi.list_types()[0] if name.startswith("ct_") and ffi.typeof(name).kind == "enum"}
SHAPE, SCOPE, CONTEXT = (ffi.typeof(name) for name in ("ct_shape", "ct_scope", "ct_context *"))
NUMPY = {"float": "float32", "double": "float64", "int64_t": "int64", "_Bool": "bool", "uint16_t": "uint16"}


class Call:
    """What one call holds on to until it returns: memory, and the objects among its arguments."""

    def __init__(self, context):
        self.context, self.memory, self.objects, self.error = context, [], [], None

    def new(self, ctype, value=None):
        self.memory.append(ffi.new(ctype, value))
        return self.memory[-1]


@functools.lru_cache(None)
def opaque(ctype):
    """Whether it is a pointer to a struct that only the library knows."""
    if ctype.kind != "pointer" or ctype.item.kind != "struct" or not ctype.item.cname.startswith("struct ct_"):
        return False
    try:
        return not ffi.sizeof(ctype.item)
    except ffi.error:
        return True


def has_fields(ctype):
    return ctype.kind == "struct" and "ct_" in ctype.cname and not opaque(ffi.typeof(ffi.getctype(ctype, "*")))


# ---- to C ----

def struct(ctype, fields, call):
    """A pointer to a struct with these fields, all others zero. A list in x also sets n_x."""
    types = {name: field.type for name, field in ctype.fields}
    made = call.new(ffi.getctype(ctype, "*"))
    for name, value in fields.items():
        if name not in types:
            raise TypeError(f"{ctype.cname} has no field {name!r}; its fields are {', '.join(types)}")
        if value is None and types[name].kind in ("pointer", "function"):
            continue
        setattr(made, name, to_c(value, types[name], call))
        if f"n_{name}" in types and f"n_{name}" not in fields:
            setattr(made, f"n_{name}", len(value))
    return made


def utf8(value):
    return os.fsencode(value) if isinstance(value, os.PathLike) else value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def text(value, call, counted):
    """A text with a NUL behind it. Only where its length is passed too may there be one inside."""
    if b"\0" in utf8(value) and not counted:
        raise ValueError("a text with the character U+0000")
    return call.new("char[]", utf8(value))


def to_c(value, ctype, call, counted=False):
    if isinstance(value, Object):
        call.objects.append(value)
        return value.pointer
    if isinstance(value, numpy.generic):
        value = value.item()
    if isinstance(value, ffi.CData) or ctype.kind in ("primitive", "enum"):
        return value
    if isinstance(value, Context):
        return value.pointer
    if value is None:
        return ffi.NULL
    if ctype is SHAPE:
        dims = [value] if isinstance(value, int) else list(value)
        if len(dims) > len(ffi.new("ct_shape *").dim):
            raise ValueError(f"a shape of {len(dims)} dims")
        return struct(SHAPE, {"ndim": len(dims), "dim": dims}, call)[0]
    if ctype.kind == "struct":
        return struct(ctype, value._asdict() if hasattr(value, "_asdict") else value, call)[0]
    if ctype.kind == "function" or ctype.kind == "pointer" and ctype.item.kind == "function":
        return callback(ctype, value, call.context)
    if ctype.kind != "pointer" or ctype.item.cname == "FILE":
        return value
    if isinstance(value, dict):
        return struct(ctype.item, value, call)
    if ctype.item.cname == "char" and isinstance(value, (str, bytes, os.PathLike)):
        return text(value, call, counted)
    if isinstance(value, numpy.ndarray):
        want = NUMPY.get(ctype.item.cname, value.dtype if ctype.item.kind == "void" else None)
        if value.dtype != want or not value.flags.c_contiguous:
            raise TypeError(f"a contiguous numpy array of {want} is needed, not {value.dtype} with strides {value.strides}")
        call.memory.append(value)
        return ffi.cast(ctype, value.ctypes.data)
    if isinstance(value, (list, tuple)):
        items = [to_c(item, ctype.item, call) for item in value]
        if ctype.item.kind == "pointer":
            items.append(ffi.NULL)   # some lists end so, and others do not read it
        return call.new(ffi.getctype(ctype.item, "[]"), items)
    raise TypeError(f"{type(value).__name__} for a {ctype.cname}")


# ---- to Python ----

def wrap(pointer, ctype, context, owned=True, arguments=()):
    """The object of a pointer. A call may return one of its arguments; any other object keeps the arguments alive, but for a tensor that
    was computed: the tape keeps what it needs."""
    if not pointer:
        return None
    for value in arguments:
        if value.address == pointer:
            return value
    return CLASSES.get(ctype, Object)(pointer, ctype, context, owned, () if ctype is TENSOR and owned else arguments)


CLASSES = {}   # the class of a type that has one of its own


@functools.lru_cache(None)
def fields_of(ctype):
    """A struct's fields without counts, and a named tuple of them."""
    names = [name for name, _ in ctype.fields if not (name.startswith("n_") and name[2:] in dict(ctype.fields))]
    return names, collections.namedtuple(ctype.cname[3:] if ctype.cname.startswith("ct_") else "struct", names, rename=True)


def to_python(value, ctype, context, count=None, **how):
    if ctype.kind == "enum" and ctype.cname in ENUMS:
        return ENUMS[ctype.cname](value)
    if ctype is CONTEXT:
        return context
    if opaque(ctype):
        return wrap(value, ctype, context, **how)
    if ctype is SCOPE:
        return Scope(value, context)
    if ctype is SHAPE:
        return tuple(value.dim[0:value.ndim])
    if has_fields(ctype):
        names, made = fields_of(ctype)
        fields = dict(ctype.fields)
        return made(*(to_python(getattr(value, n), fields[n].type, context, getattr(value, f"n_{n}", None), **how) for n in names))
    if count is not None or ctype.kind == "array" and ctype.item.cname not in ("char", "unsigned char"):
        return [to_python(value[i], ctype.item, context, **how) for i in range(ctype.length if count is None else count if value else 0)]
    if ctype.kind in ("pointer", "array") and ctype.item.cname == "char":
        return ffi.string(value).decode(errors="replace") if ctype.kind == "array" or value else None
    if ctype.kind in ("pointer", "function") and not value:
        return None
    return value


# ---- callbacks ----

def callback(ctype, function, context):
    """A C function that calls a Python one: with tensors, a list for a pointer and a number, and without void pointers. It lives as long
    as the context, because the library may call it later; the same function is kept once. What it raises, the call raises that ran it."""
    key = ctype, function
    if key in context.callbacks:
        return context.callbacks[key]
    signature = ctype.item if ctype.kind == "pointer" else ctype

    def run(*args):
        frame, result = Frame(), None
        context.frames.append(frame)
        try:
            values, skip = [], False
            for i, (value, kind) in enumerate(zip(args, signature.args)):
                if skip or kind.cname == "void *":
                    skip = False
                elif kind.kind == "pointer" and opaque(kind.item):
                    values.append([wrap(value[k], kind.item, context, owned=False) for k in range(args[i + 1])])
                    skip = True
                else:
                    values.append(to_python(value, kind, context, owned=False))
            result = function(*values)
            call = Call(context)
            return None if signature.result.kind == "void" else to_c(result, signature.result, call)
        except BaseException as raised:
            context.raised = raised
            lib.ct_fail(context.pointer, lib.CT_ERR_ARGUMENT, b"%s", ffi.new("char[]", str(raised).encode(errors="replace")))
            return None if signature.result.kind == "void" else ffi.new(ffi.getctype(signature.result, "*"))[0]
        finally:
            context.sweep()
            context.frames.pop()
            for tensor in list(frame.made):
                if not tensor.owned or tensor is result:   # the library's: an argument, and what was returned
                    tensor.address = None
                else:
                    lib.ct_keep(tensor.address)
                    tensor.frame = context.frames[-1]
                    tensor.frame.made.add(tensor)

    context.callbacks[key] = made = ffi.callback(ffi.getctype(ctype) if ctype.kind == "function" else ctype, run)
    return made
