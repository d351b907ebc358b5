"""Contexts and what they own. A C object ends when its Python object has died; a parent lives as long as what was made of it."""
import collections
import functools
import itertools
import threading
import weakref
from pathlib import Path

from ._ffi import ffi
from ._headers import FUNCTIONS

lib = ffi.dlopen(str(next(p for p in Path(__file__).parent.iterdir() if p.suffix in (".so", ".dylib", ".dll"))))
# What ends an object: ct_release a tensor, ct_KIND_free or ct_KIND_close another. Its functions begin with the same words.
ENDS = {ffi.typeof(getattr(lib, name)).args[0]: name for name in FUNCTIONS
        if name.endswith(("_free", "_close", "_release"))
        and name not in ("ct_context_free", "ct_scope_close", "ct_module_on_free", "ct_context_on_free")}
serial = itertools.count()


class Error(Exception):
    """A call has failed. The message is the library's; status is its code, such as cotangent.ERR_SHAPE."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class Frame:
    """Tensors since a scope was opened or a callback was called: those that live, and the pointers of those whose objects have died."""

    def __init__(self):
        self.made, self.dead = weakref.WeakSet(), collections.deque()


class Methods:
    """x.softmax(-1) is cotangent.softmax(x, -1), and module.train(True) is cotangent.module_train(module, True)."""

    def __getattr__(self, name):
        from ._functions import function
        names = dict.fromkeys([self.prefix + name, "ct_" + name])
        for full in names:
            if full in FUNCTIONS and ffi.typeof(getattr(lib, full)).args[:1] == (self.ctype,):
                return functools.partial(function(full), self)
        raise AttributeError(f"there is no {' and no '.join(names)} of a {self.ctype.cname}")


class Context(Methods):
    """A context; the keywords are the fields of ct_context_opts. In a `with` it is the one that this thread's calls use. It ends when
    nothing that it owns is left. Calls of other threads wait until its present call is over."""

    ctype, prefix = ffi.typeof("ct_context *"), "ct_context_"

    def __init__(self, **options):
        from ._values import Call, struct
        self.lock, self.frames, self.callbacks, self.raised, self.before = threading.RLock(), [Frame()], {}, None, []
        call = Call(self)
        pointer = lib.ct_context_new(struct(ffi.typeof("ct_context_opts"), options, call)[0])
        if not pointer:
            raise MemoryError("context_new")
        self.pointer = ffi.gc(pointer, lib.ct_context_free)
        self.check()

    def check(self):
        """Raises what a callback has raised, or else the pending error."""
        status, raised = lib.ct_error(self.pointer), self.raised
        message = ffi.string(lib.ct_error_message(self.pointer)).decode(errors="replace")
        if status:
            lib.ct_error_clear(self.pointer)
        self.raised = None
        if raised:
            raise raised
        if status:
            raise Error(message, status)

    def sweep(self):
        """Ends the C objects whose Python objects have died; the younger first, because an optimiser is younger than its module.
        An object may die in any thread and at any time, so that its __del__ calls nothing of the library."""
        dead = self.frames[-1].dead
        if dead:
            for _, ctype, pointer in sorted((dead.popleft() for _ in range(len(dead))), key=lambda entry: -entry[0]):
                getattr(lib, ENDS[ctype])(pointer)
            lib.ct_error_clear(self.pointer)

    def __enter__(self):
        self.before.append(getattr(local, "context", None))
        local.context = self
        return self

    def __exit__(self, *_):
        local.context = self.before.pop()


local = threading.local()


def current():
    """The context of this thread's innermost `with`, or else one that is made for the thread."""
    if getattr(local, "context", None) is None:
        local.context = Context()
    return local.context


class Object(Methods):
    """A pointer of the library. `owned`: it ends with this object. `parents` are what must outlive it."""

    def __init__(self, pointer, ctype, context, owned, parents=()):
        self.address, self.ctype, self.context, self.owned, self.parents = pointer, ctype, context, owned, parents
        self.serial, self.prefix = next(serial), ENDS.get(ctype, "ct_").rpartition("_")[0] + "_"
        self.frame = context.frames[-1 if ctype is TENSOR else 0]
        if ctype is TENSOR:
            self.frame.made.add(self)

    @property
    def pointer(self):
        if self.address is None:
            raise Error(f"this {self.ctype.item.cname} has ended")
        return self.address

    def __del__(self):
        if self.owned and self.address is not None and self.ctype in ENDS:
            self.frame.dead.append((self.serial, self.ctype, self.address))

    def __repr__(self):
        return f"<{self.ctype.item.cname}>"

    def __call__(self, *args):
        """ct_forward, of a module."""
        return self.forward(*args)


TENSOR = ffi.typeof("ct_tensor *")


class Scope:
    """An open ct_scope. At its end the tensors whose objects live move to the scope around it, and all else that was made in it ends."""

    def __init__(self, value, context):
        self.value, self.context, self.frame = value, context, Frame()
        context.frames.append(self.frame)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self.context.lock:
            if self.context.frames[-1] is not self.frame:
                raise Error("a scope that was opened later is still open")
            self.context.sweep()
            self.context.frames.pop()
            for tensor in list(self.frame.made):
                if tensor.owned and tensor.address is not None:
                    lib.ct_scope_keep(self.value, tensor.address)
                tensor.frame = self.context.frames[-1]
                tensor.frame.made.add(tensor)
            lib.ct_scope_close(self.value)
            self.context.check()
