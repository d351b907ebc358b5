"""Any ct_x as a Python function, made of its C type, of its parameters' names and of these rules:

- a context is that of the arguments, or else this thread's; a count n or bytes is the length of what stands before it;
- the fields of structs of options are keywords, and so are all parameters;
- what C writes through a pointer is returned: handles, a struct at the end, and what `room` bounds;
- ct_x_next, which fills a struct, is an iterator; a call that fails is an exception.
"""
import functools

import numpy

from ._ffi import ffi
from ._headers import FUNCTIONS
from ._objects import ENDS, Context, Error, Object, current, lib
from ._values import CONTEXT, NUMPY, Call, has_fields, opaque, struct, to_c, to_python, utf8

# What is left out: what needs memory or functions that outlive a call, and what Python's own objects do.
LEFT_OUT = dict.fromkeys("apply apply_many optim_new module_new_of module_data module_is comm_new comm_data watch unwatch fail".split(),
                         "it is for parts that are written in C")
LEFT_OUT |= dict.fromkeys("scope_close scope_return scope_keep keep module_on_free context_on_free context_free".split(),
                          "a tensor lives as long as its Python object, a scope as long as its `with`")
LEFT_OUT |= dict.fromkeys("wrap from_f32 from_f64 from_i64 from_bool".split(), "use tensor(array)")
LEFT_OUT |= dict.fromkeys("to_f32 to_f64 to_i64 to_bool".split(), "use Tensor.numpy()")
LEFT_OUT |= dict.fromkeys("data_f32 data_f64 data_i64 data_bool data_bf16 wrote".split(), "use `with tensor.data() as view`")
LEFT_OUT |= {"context_new": "use Context(...)", "error_die": "errors are exceptions", "error_clear": "errors are exceptions"}
# Whom a result and an argument belong to is the one thing that the types do not say.
# What is borrowed belongs to the first argument, and what is given passes to it.
BORROWS = {"ct_module_get", "ct_module_child", "ct_module_next", "ct_module_next_buffer", "ct_dist_group"}
GIVES = {"ct_module_add_param", "ct_module_add_buffer", "ct_module_add_child", "ct_module_set_child", "ct_module_append"}


@functools.lru_cache(None)
def function(name):
    if name[3:] in LEFT_OUT:
        raise AttributeError(f"cotangent has no {name[3:]}: {LEFT_OUT[name[3:]]}")
    return Function(name)


class Function:
    def __init__(self, name):
        parameters, self.__doc__ = FUNCTIONS[name]
        self.name, self.__name__, self.c = name, name[3:], getattr(lib, name)
        self.names, self.types, self.result_type = [n for n, _ in parameters], ffi.typeof(self.c).args, ffi.typeof(self.c).result
        self.roles = []
        for i, (parameter, reads) in enumerate(parameters):
            self.roles.append(self.role_of(i, parameter, reads, self.types[i]))
        self.visible = [n for n, role in zip(self.names, self.roles) if role in ("plain", "handle")]
        self.options = {n: t.item if role == "struct" else t
                        for n, role, t in zip(self.names, self.roles, self.types) if role in ("options", "struct")}

    def role_of(self, i, name, reads, ctype):
        """What a parameter is for; "plain" are those that the caller passes as they are."""
        before, behind = self.types[i - 1] if i else None, self.names[i + 1:i + 2]
        if i == 0 and ctype is CONTEXT:
            return "context"
        if ctype.kind == "struct" and ctype.cname.endswith(("_opts", "_call")):
            return "options"
        if name in ("n", "bytes") and before and before.kind == "pointer" and not opaque(before) and self.roles[-1] == "plain":
            return "count"
        if before and before.kind == "function" and ctype.cname == "void *":
            return "void"   # what a function is called with: a Python function has its own
        if name == "room":
            return "room"
        if ctype.kind != "pointer" or reads:
            return "plain"
        if opaque(ctype.item):
            return "handles" if behind == ["n"] else "handle"
        if has_fields(ctype.item) and i == len(self.types) - 1:
            return "struct"
        return "bounded" if "room" in self.names[i:] and ctype.item.cname in ("char", "int64_t") else "plain"

    def __repr__(self):
        return f"<cotangent.{self.__name__}({', '.join(self.visible + [f'**{o}' for o in self.options])})>"

    def __call__(self, /, *args, **keywords):   # an option may be called self
        context = None
        if self.roles[:1] == ["context"] and args and isinstance(args[0], Context):
            context, *args = args
        given, fields = self.given(args, keywords)
        call = Call(context or next((o.context for o in objects_in([given, fields])), None) or current())
        values = [self.argument(i, given, fields, call) for i in range(len(self.names))]
        if any(o.context is not call.context for o in call.objects):
            raise Error(f"{self.__name__}: its arguments belong to several contexts", lib.CT_ERR_ARGUMENT)
        if "struct" in self.roles and "_next" in self.name:
            return self.iterate(call, values)
        with call.context.lock:
            return self.result(call, self.run(call, values), values)

    # ---- arguments ----

    def given(self, args, keywords):
        """Name to argument; and for each struct of options its fields."""
        if len(args) > len(self.visible):
            raise TypeError(f"{self.__name__} takes ({', '.join(self.visible)}), and {len(args)} arguments were given")
        given, fields = dict(zip(self.visible, args)), {name: {} for name in self.options}
        for key, value in keywords.items():
            having = [name for name, ctype in self.options.items() if key in dict(ctype.fields)]
            if key in given:
                raise TypeError(f"{self.__name__}: {key} is given twice")
            if key in self.visible:
                given[key] = value
            elif key in fields:
                fields[key] |= value._asdict() if hasattr(value, "_asdict") else value
            elif len(having) == 1:
                fields[having[0]][key] = value
            elif having:
                raise TypeError(f"{self.__name__}: {' and '.join(having)} have a field {key}: write {having[0]}=dict({key}=...)")
            else:
                names = self.visible + [n for ctype in self.options.values() for n, _ in ctype.fields]
                raise TypeError(f"{self.__name__} has no argument {key!r}; its arguments are {', '.join(names)}")
        missing = [n for n, role in zip(self.names, self.roles) if role == "plain" and n not in given]
        if missing:
            raise TypeError(f"{self.__name__} needs {', '.join(missing)}")
        return given, fields

    def argument(self, i, given, fields, call):
        """What C gets as parameter i."""
        name, role, ctype = self.names[i], self.roles[i], self.types[i]
        if role == "context":
            return call.context.pointer
        if role == "count":   # of the list before, or, if that is None, of the one before it
            of = next((given[n] for n in reversed(self.names[:i]) if hasattr(given.get(n), "__len__")), ())
            return len(utf8(of) if isinstance(of, str) else of)
        if role == "options":
            if "error_room" in dict(ctype.fields) and "error" not in fields[name]:   # such a call writes its error there
                call.error = call.new("char[]", 1000)
                fields[name] |= {"error": call.error, "error_room": 1000}
            return struct(ctype, fields[name], call)[0]
        if role == "struct":
            return struct(ctype.item, fields[name], call)
        if role in ("handle", "handles"):   # C may read what stands there, and replaces it
            now = [to_c(given.get(name), ctype.item, call)] if role == "handle" else given["n"]
            return call.new(ffi.getctype(ctype.item, "[]"), now)
        if role in ("bounded", "room", "void"):
            return 0 if role == "room" else ffi.NULL
        return to_c(given[name], ctype, call, counted=self.roles[i + 1:i + 2] == ["count"])

    # ---- the call ----

    def run(self, call, values):
        call.context.sweep()
        result = self.c(*values)
        if "room" in self.roles and result >= 0:   # as snprintf: the first call says how much there is
            for i, name in enumerate(self.names):
                if self.roles[i] == "bounded":
                    values[i] = call.new(ffi.getctype(self.types[i].item, "[]"), result * (2 if name == "offsets" else 1) + 1)
                elif name == "room":
                    values[i] = result + 1
            result = self.c(*values)
        call.context.check()
        if call.error and call.error[0] != b"\0":
            raise Error(ffi.string(call.error).decode(errors="replace"), lib.CT_ERR_ARGUMENT)
        if "room" in self.roles and result < 0:
            raise Error(f"{self.__name__} has no result (it returns {result})", lib.CT_ERR_ARGUMENT)
        return result

    def iterate(self, call, values):
        while True:
            with call.context.lock:
                if not self.run(call, values):
                    return
                yield self.written(call, True, values)[0]

    # ---- what it returns ----

    def result(self, call, result, values):
        if self.name in GIVES:
            taker, gift = call.objects[0], call.objects[-1]
            gift.owned, gift.parents = False, [taker]
        if self.name in ENDS.values():
            call.objects[0].address = None
        if self.name == "ct_grad" and result:   # a handle of our own, as zero_grad ends the gradient's
            result = lib.ct_detach(result)
        written = self.written(call, result, values)
        if written:
            return written[0] if len(written) == 1 else tuple(written)
        return None if self.result_type.kind == "void" else self.python_of(result, self.result_type, call)

    def python_of(self, value, ctype, call):
        return to_python(value, ctype, call.context, owned=self.name not in BORROWS, arguments=call.objects)

    def written(self, call, n, values):
        """What C wrote through pointers, where the caller did not pass memory for it."""
        made = []
        for name, role, ctype, value in zip(self.names, self.roles, self.types, values):
            if role in ("handle", "struct"):
                made.append(self.python_of(value[0], ctype.item, call))
            elif role == "handles":
                made.append([self.python_of(pointer, ctype.item, call) for pointer in value])
            elif role == "bounded" and ctype.item.cname == "char":
                made.append(ffi.buffer(value, n)[:].decode(errors="replace"))
            elif role == "bounded":
                array = numpy.frombuffer(ffi.buffer(value), NUMPY[ctype.item.cname]).copy()[:-1]
                made.append(array.reshape(-1, 2) if name == "offsets" else array)
        return made


def objects_in(value):
    """The library's objects among arguments."""
    if isinstance(value, Object):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from objects_in(item)
