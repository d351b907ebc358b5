"""cotangent: tensors, gradients and transformers on the CPU, with numpy in and out.

Any function ct_x of the C library is cotangent.x, and CT_X is cotangent.X; help(cotangent.softmax) shows the header's comment.
"""
import contextlib
import weakref

import numpy

from . import _functions, _values
from ._ffi import ffi
from ._headers import FUNCTIONS, NUMBERS
from ._objects import TENSOR, Context, Error, Object, current, lib

__all__ = ["Context", "Error", "Tensor", "current", "tensor"]
F32, F64, I64, BOOL, BF16, Q8_0, Q4_0 = _values.ENUMS["ct_dtype"]
# dtype: its name in numpy and in the functions ct_from_*, ct_to_* and ct_data_*. numpy has no bfloat16: it sees such values as float32.
KINDS = {F32: ("float32", "f32"), F64: ("float64", "f64"), I64: ("int64", "i64"), BOOL: ("bool", "bool")}
CONSTANTS = {full[3:]: made[full[3:]] for name, made in _values.ENUMS.items() for full in ffi.typeof(name).elements.values()}


class Tensor(Object):
    """A tensor of the library. Its operators take numbers and arrays too, and its methods are the functions whose first argument it is."""

    shape = property(lambda self: _functions.function("ct_shape_of")(self))
    dtype = property(lambda self: _functions.function("ct_dtype_of")(self))
    grad = property(lambda self: _functions.function("ct_grad")(self), doc="The gradient, or None.")

    def numpy(self):
        """A copy as an array; bf16 and blocks as float32."""
        name, kind = KINDS.get(self.dtype, KINDS[F32])
        array = numpy.empty(self.shape, name)
        with self.context.lock:
            getattr(lib, "ct_to_" + kind)(self.pointer, ffi.cast(ffi.typeof(getattr(lib, "ct_to_" + kind)).args[1], array.ctypes.data), array.size)
            self.context.check()
        return array

    def __array__(self, dtype=None, copy=None):
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def item(self):
        """The number in a tensor of one element: an int is exact."""
        _functions.function("ct_item")(self)   # its error for another shape
        return self.numpy().item()

    @contextlib.contextmanager
    def data(self):
        """A memoryview of the elements themselves, to read and to write: with x.data() as view: numpy.asarray(view)[...] = 0. Behind the `with`
        the view is closed. An array of it must not outlive it: that is a BufferError. bf16 is seen as uint16."""
        name, kind = KINDS.get(self.dtype, ("uint16", "bf16"))
        with self.context.lock:
            pointer = getattr(lib, "ct_data_" + kind)(self.pointer)
            self.context.check()
        array = numpy.empty(self.shape, name)
        if array.size:
            held = ffi.gc(ffi.cast("char *", pointer), lambda _, tensor=self: None)   # an array of the memory keeps the tensor
            array = numpy.frombuffer(ffi.buffer(held, array.nbytes), name).reshape(self.shape)
        try:
            with memoryview(array) as view:
                memory = weakref.ref(array)
                del array   # from here on only the view holds it, and what is made of the view
                yield view
        finally:
            lib.ct_wrote(self.pointer)
        if memory() is not None:
            raise BufferError("an array of the view is still in use")

    def __repr__(self):
        if self.address is None:
            return "<a tensor that has ended>"
        return f"tensor({numpy.array2string(self.numpy(), separator=', ', prefix='tensor(')}, dtype={self.dtype.name.lower()})"

    def _operand(self, other):
        if isinstance(other, Tensor):
            return other
        return tensor(other, self.dtype if numpy.ndim(other) == 0 else None, context=self.context)

    def __neg__(self):
        return self.neg()


def _operator(name):
    operate = lambda a, b: _functions.function("ct_" + name)(a, a._operand(b))   # noqa: E731
    reverse = lambda b, a: _functions.function("ct_" + name)(b._operand(a), b)   # noqa: E731
    return operate, reverse


for _sign, _name in (("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("matmul", "matmul")):
    _forward, _reverse = _operator(_name)
    setattr(Tensor, f"__{_sign}__", _forward)
    setattr(Tensor, f"__r{_sign}__", _reverse)
Tensor.__array_ufunc__ = None   # array + tensor is the tensor's
_values.CLASSES[TENSOR] = Tensor


def tensor(data, dtype=None, requires_grad=False, context=None):
    """A copy of an array, or of what numpy makes one of. An array keeps its type: integers become i64, float16 f32. Python's own floats become
    f32, as in torch."""
    array, context = numpy.asarray(data), context or current()
    if dtype is None:
        dtype = {"b": BOOL, "i": I64, "u": I64, "f": F64 if array.dtype == "float64" and hasattr(data, "dtype") else F32}.get(array.dtype.kind)
    if dtype is None or array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise TypeError(f"there is no tensor of {array.dtype}")
    if dtype == I64 and array.dtype == "uint64" and array.size and array.max() > numpy.iinfo("int64").max:
        raise OverflowError(f"{array.max()} does not fit into i64")
    name, kind = KINDS.get(dtype, KINDS[F32])
    array = numpy.array(array, name, order="C")
    call = _values.Call(context)
    make = getattr(lib, "ct_from_" + kind)
    with context.lock:
        context.sweep()
        pointer = make(context.pointer, _values.to_c(array.shape, _values.SHAPE, call), ffi.cast(ffi.typeof(make).args[2], array.ctypes.data))
        context.check()
        made = Tensor(pointer, TENSOR, context, True)
    made = made if dtype in KINDS else made.cast(dtype)
    return made.set_requires_grad(True) if requires_grad else made


def __getattr__(name):
    if f"ct_{name}" in FUNCTIONS:
        return _functions.function(f"ct_{name}")
    if name in CONSTANTS:
        return CONSTANTS[name]
    if f"CT_{name}" in NUMBERS:
        return NUMBERS[f"CT_{name}"]
    if f"ct_{name}" in _values.ENUMS:
        return _values.ENUMS[f"ct_{name}"]
    raise AttributeError(f"cotangent has no {name}")


def __dir__():
    return sorted({*globals(), *CONSTANTS, *(full[3:] for full in [*FUNCTIONS, *NUMBERS, *_values.ENUMS])})
