"""Random graphs by PyTorch in float64. A step applies a call to earlier values; the calls are the
lines of ops.def, on whatever the graph has computed before, and methods with random arguments.
Values are kept away from kinks, where the gradients of two right answers may differ."""
import collections
import math
import random

import torch

import ct
from ct import lib
from test_ops_live import reference

NEAR = 1e-6        # a value that is not further from a kink is left out
LARGE = 100        # a larger value is followed by tanh, and no range is larger
ELEMENTS = 400     # of a value, at most
Step = collections.namedtuple("Step", "call takes")


# ---- calls: torch(x) of tensors, ours(constants, x) of pointers ----

class Leaf:
    constants = ()

    def __init__(self, value, grad):
        self.value, self.grad, self.name = value, grad, "leaf"


class Method:
    """A method of torch.Tensor that the library has as a function with the same arguments."""
    constants = ()

    def __init__(self, name, *args):
        self.name, self.args = name, args

    def torch(self, x):
        name = {"scale": "mul", "add_scalar": "add"}.get(self.name, self.name)
        return getattr(x[0], name)(*self.args)

    def ours(self, context, constants, x):
        args = [ct.shape(arg) if isinstance(arg, list) else arg for arg in self.args]
        return getattr(lib, "ct_" + self.name)(x[0], *args)


class Line:
    """A line of ops.def. `fixed` has a constant or None for each input, and VALUE for those that
    are values of the graph."""
    VALUE = object()

    def __init__(self, line, fixed):
        self.line, self.fixed, self.name = line, fixed, line.name.decode()
        self.constants = [v for v in fixed if v is not Line.VALUE and v is not None]

    def inputs(self, x, constant):
        x = iter(x)
        return [next(x) if v is Line.VALUE else constant(v) for v in self.fixed]

    def torch(self, x):
        return reference(self.line, self.inputs(x, lambda v: v))

    def ours(self, context, constants, x):
        inputs = self.inputs(x, lambda v: None if v is None else constants[id(v)])
        return ct.case_run(context, self.line, inputs)


# ---- random arguments of methods, for a value of shape s with a dim ----

def a_dim(r, s):
    return r.randrange(-len(s), len(s))


def dims(r, s):
    return sorted(r.sample(range(len(s)), r.randint(1, len(s))))


def narrowed(r, s):
    dim = a_dim(r, s)
    start = r.randint(0, s[dim])
    return dim, start, r.randint(0, s[dim] - start)


def selected(r, s):
    dim = a_dim(r, s)
    return dim, r.randrange(-s[dim], s[dim])


def expanded(r, s):
    before = [r.randint(1, 3)] if len(s) < 5 and r.random() < 0.4 else []
    return (before + [r.randint(1, 4) if n == 1 else n for n in s],)


def reshaped(r, s):
    sizes, n = [], math.prod(s)
    while n > 1 and len(sizes) < 4:
        sizes.append(r.choice([d for d in range(2, n + 1) if n % d == 0]))
        n //= sizes[-1]
    return (sizes + [n],)


METHODS = dict(
    transpose=lambda r, s: (a_dim(r, s), a_dim(r, s)),
    permute=lambda r, s: (r.sample(range(len(s)), len(s)),),
    narrow=narrowed, select=selected, expand=expanded, reshape=reshaped,
    unsqueeze=lambda r, s: (r.randint(0, len(s)),),
    squeeze=lambda r, s: (a_dim(r, s),),
    roll=lambda r, s: (r.randint(-9, 9), a_dim(r, s)),
    cumsum=lambda r, s: (a_dim(r, s),),
    softmax=lambda r, s: (a_dim(r, s),),
    log_softmax=lambda r, s: (a_dim(r, s),),
    logsumexp=lambda r, s: (a_dim(r, s),),
    sum=lambda r, s: (dims(r, s), r.random() < 0.5),
    mean=lambda r, s: (dims(r, s), r.random() < 0.5),
    contiguous=lambda r, s: (), clone=lambda r, s: (), detach=lambda r, s: (),
)


# ---- lines, and how far their inputs are from a kink ----

def gaps(x):
    """Between neighbours in order: what decides which is the largest."""
    return x.flatten().sort()[0].diff()


ONE = lambda x: x[0]
TWO = lambda x: x[0] - x[1]
KINKS = dict(relu=ONE, leaky_relu=ONE, abs=ONE, sign=ONE, maximum=TWO, minimum=TWO,
             clamp=lambda x: torch.stack([x[0] - bound for bound in (-0.25, 0.75, 0)]),
             floor=lambda x: x[0] - x[0].round(),
             activated_linear=ONE, max=lambda x: gaps(x[0]), min=lambda x: gaps(x[0]),
             topk=lambda x: gaps(x[0]),
             normalize=lambda x: torch.cat([x[0].flatten(), gaps(x[0].abs())]))


def kinked(call, x):
    distance = KINKS[call.name](x).abs() if call.name in KINKS else x[0].new_zeros(0)
    return isinstance(call, Line) and distance.numel() > 0 and distance.min() <= NEAR


def variants(line):
    """Its lists of inputs of which some are values of a graph."""
    lists = [ct.case_specs(line, i) for i in range(ct.cases.case_variants(line.pointer))]
    return [specs for specs in lists if any(spec.kind in b"RD" for spec in specs) and
            all(max(-spec.low, spec.high) <= LARGE for spec in specs)]


def sizes(spec):
    return list(spec.shape.dim[0 : spec.shape.ndim])


def takes_any_shape(lists):
    """Whether its lists have scalars and one, two and three dims; of two inputs, that broadcast."""
    plain = [specs for specs in lists if all(spec.kind in b"RD" for spec in specs)]
    ranks = {len(sizes(specs[0])) for specs in plain}
    broadcast = any(sizes(specs[0]) != sizes(specs[-1]) for specs in plain)
    inputs = {len(specs) for specs in plain}
    return {0, 1, 2, 3} <= ranks and (inputs == {1} or (inputs == {2} and broadcast))


def lines():
    """By op each line that torch has too and whose results are real, with its lists."""
    for line in ct.case_lines():
        lists = variants(line)
        if line.torch != b"NONE" and lists:
            example = [sample(spec, torch.Generator().manual_seed(1)) for spec in lists[0]]
            if reference(line, example).is_floating_point():
                assert line.name.decode() in KINKS or all(s.kind != b"D" for s in lists[0]), line.name
                yield line.name, (line, lists, takes_any_shape(lists))


def sample(spec, generator):
    """Random values for an input."""
    if spec.kind == b"N":
        return None
    u = torch.rand(sizes(spec), generator=generator, dtype=torch.float64)
    if spec.kind == b"B":
        return u > 0.3
    if spec.ranged:
        u = u * (spec.high - spec.low) + spec.low
        return u.floor().long() if spec.kind == b"I" else u
    return torch.randn(u.shape, generator=generator, dtype=torch.float64)


LINES = {}
for op, found in lines():
    LINES.setdefault(op, []).append(found)


# ---- graphs ----

class Graph:
    """`steps` and, of each, its value."""

    def __init__(self, seed):
        self.r, self.generator = random.Random(seed), torch.Generator().manual_seed(seed)
        self.steps, self.values = [], []
        for _ in range(self.r.randint(2, 4)):
            self.leaf([self.r.choice([1, 2, 3, 4, 5, 7]) for _ in range(self.r.randint(1, 4))])
        for _ in range(self.r.choice([5, 10, 20, 40])):
            self.method() if self.r.random() < 0.3 else self.line()

    def keep(self, call, takes, value):
        self.steps.append(Step(call, takes))
        self.values.append(value)
        return len(self.values) - 1

    def leaf(self, shape):
        value = torch.randn(shape, generator=self.generator, dtype=torch.float64)
        grad = self.r.random() < 0.85
        return self.keep(Leaf(value, grad), [], value.clone().requires_grad_(grad))

    def push(self, call, takes):
        """The new value's number; None if the graph is better without it."""
        x = [self.values[i] for i in takes]
        if kinked(call, x):
            return None
        y = call.torch(x)
        if any(y is v for v in x):   # PyTorch's contiguous and others; the library has a new handle
            y = y.view_as(y)
        if y.numel() > ELEMENTS or not y.isfinite().all():
            return None
        i = self.keep(call, takes, y)
        return self.push(Method("tanh"), [i]) if y.numel() and y.abs().max() > LARGE else i

    def pick(self, fits=lambda value: True):
        """A value that fits, the newest a third of the time; None if there is none."""
        fitting = [i for i, value in enumerate(self.values) if fits(value)]
        if not fitting:
            return None
        return fitting[-1] if self.r.random() < 0.35 else self.r.choice(fitting)

    def method(self):
        name = self.r.choice(list(METHODS))
        most = 7 if name == "unsqueeze" else 8  # dims
        i = self.pick(lambda value: 0 < value.ndim <= most and value.numel())
        if i is None:
            return
        self.push(Method(name, *METHODS[name](self.r, list(self.values[i].shape))), [i])

    def line(self):
        line, lists, any_shape = self.r.choice(LINES[self.r.choice(list(LINES))])
        specs = self.r.choice(lists)
        real = [spec for spec in specs if spec.kind in b"RD"]
        if any_shape and real == specs and self.r.random() < 0.8:
            takes = self.broadcasting(len(specs))
        else:
            takes = [self.shaped(sizes(spec)) for spec in real]
        takes = [self.between(i, spec.low, spec.high) if spec.ranged else i
                 for i, spec in zip(takes, real)]
        fixed = [Line.VALUE if spec.kind in b"RD" else sample(spec, self.generator) for spec in specs]
        self.push(Line(line, fixed), takes)

    def broadcasting(self, inputs):
        """Values that broadcast, of any shapes."""
        first = self.pick()
        shape = list(self.values[first].shape)
        if inputs == 1:
            return [first]
        second = self.pick(lambda value: broadcasts(value.shape, shape))
        if self.r.random() < 0.3:
            part = [n if self.r.random() < 0.6 else 1 for n in shape]
            second = self.leaf(part[self.r.randint(0, len(part)):])
        return self.r.sample([first, second], 2)

    def shaped(self, shape):
        """A value of this shape: one there is, one by views of another, or a leaf."""
        i = self.pick(lambda value: list(value.shape) == shape)
        if i is not None and self.r.random() < 0.7:
            return i
        i, n = self.pick(torch.numel), math.prod(shape)
        if i is None or n > ELEMENTS or self.r.random() < 0.3:
            return self.leaf(shape)
        have = self.values[i].numel()
        calls = [Method("reshape", [have])]
        if have < n:
            times = -(-n // have)
            calls += [Method("unsqueeze", self.r.choice([0, 1]))]
            calls += [Method("expand", [times, have] if calls[-1].args[0] == 0 else [have, times])]
            calls += [Method("reshape", [have * times])]
        if calls[-1].args[0][0] != n:
            calls += [Method("narrow", 0, 0, n)]
        for call in calls + [Method("reshape", shape)]:
            x = self.values[i]
            i = self.keep(call, [i], call.torch([x]))
        return i

    def between(self, i, low, high):
        """The value, moved into a range."""
        for call in (Method("sigmoid"), Method("scale", high - low), Method("add_scalar", low)):
            i = self.keep(call, [i], call.torch([self.values[i]]))
        return i


def broadcasts(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b)))
