"""Random graphs of some forty calls against PyTorch, both in float64: segments that ct_recompute
computes, also one in another; retained gradients; several backwards; handles that are released
before backward; several outputs, with cotangents of other layouts. GRAPH_SEEDS=5000 runs more of
them, --seed 17 one."""
import os
import random

import pytest
import torch

import ct
import graphs
from ct import lib

SEEDS = int(os.environ.get("GRAPH_SEEDS", 300))
GATE = 1e-11   # of up to 40 calls in a row; 1e-12 held for all of 2,000 seeds


class Segments(dict):
    """By result: the steps, of up to 30 in a row, that a function of ct_recompute runs for it, in
    order and itself the last. A step may be in several, and is computed outside too."""

    def __init__(self, r, steps):
        for _ in range(r.choice([0, 1, 3, 6])):
            within = range(len(steps))
            if self and r.random() < 0.5:   # a part of an earlier one
                within = r.choice(list(self.values()))
            result = r.choice(within)
            first = max(within[0], result - r.choice([0, 3, 10, 30]))
            wanted = {result}
            for i in range(result, first - 1, -1):
                if i in wanted:
                    wanted.update(j for j in steps[i].takes if j >= first)
            inside = sorted(i for i in wanted if not is_leaf(steps[i]))
            if result in inside:
                self.setdefault(result, inside)
        self.inner = {i for result, inside in self.items() for i in inside if i != result}
        self.outer = {j: [] for j in range(len(steps))}   # by step, the segments that take it
        for result, inside in self.items():
            for j in self.taken(steps, result):
                self.outer[j].append(result)

    def taken(self, steps, result):
        """What its steps take from outside, each once."""
        inside = self[result]
        return list(dict.fromkeys(j for i in inside for j in steps[i].takes if j not in inside))


def is_leaf(step):
    return isinstance(step.call, graphs.Leaf)


class Ours:
    """The graph by the library: a pointer for each of its values."""

    def __init__(self, context, graph, segments, seed):
        self.context, self.steps, self.segments, self.seed = context, graph.steps, segments, seed
        self.callbacks = []   # must stay until the last backward
        constants = [v for step in self.steps for v in step.call.constants]
        self.constants = {id(v): context.tensor(v) for v in constants}
        self.values = {i: context.tensor(step.call.value, step.call.grad)
                       for i, step in enumerate(self.steps) if is_leaf(step)}
        for i, step in enumerate(self.steps):
            if not is_leaf(step):
                run = self.recompute if i in segments else self.step
                self.values[i] = context.check(run(i, self.values))
                assert self.values[i], f"{step.call.name} returns NULL without an error"

    def step(self, i, values):
        call, takes = self.steps[i]
        return call.ours(self.context, self.constants, [values[j] for j in takes])

    def recompute(self, result, values, around=frozenset()):
        """The result by ct_recompute. Its function is given some of what it takes, sometimes one
        twice, and finds the others outside. What the runs around it have made or were given ends
        with them, so that is always given."""
        r = random.Random(self.seed * 1000003 + result)
        steps, taken = self.segments[result], self.segments.taken(self.steps, result)
        given = [j for j in taken if r.random() < 0.6 or j in around] or taken[:1]
        given += given[:1] if r.random() < 0.2 else []
        around = around | set(given) | set(steps)

        def run(inputs, n, arg):
            inside = dict(values) | {j: inputs[k] for k, j in enumerate(given)}
            for i in steps:
                nested = i in self.segments and set(self.segments[i]) < set(steps)
                inside[i] = self.recompute(i, inside, around) if nested else self.step(i, inside)
            return inside[result]

        self.callbacks.append(ct.ffi.callback("ct_fn", run))
        pointers = [values[j] for j in given]
        return lib.ct_recompute(self.callbacks[-1], None, pointers, len(given))


def backward(context, outs, cotangents, r, retain_graph):
    """Some cotangents are transposed views."""
    seeds = []
    for g in cotangents:
        turned = g.ndim > 1 and r.random() < 0.3
        seed = context.tensor(g.transpose(0, -1) if turned else g)
        seeds.append(lib.ct_transpose(seed, 0, -1) if turned else seed)
    n = len(outs)
    options = ct.BackwardOpts(retain_graph=retain_graph)
    assert context.check(lib.ct_backward_with(list(outs), list(seeds), n, options))


def pytest_generate_tests(metafunc):
    seed = metafunc.config.getoption("seed")
    metafunc.parametrize("seed", range(SEEDS) if seed is None else [seed])


def compare(how, got, want):
    ct.compare("graphs", how, got, want, torch.float64, least=1, gate=GATE)


def compare_gradients(context, ours, graph, numbers, how):
    """No gradient is as good as zeros."""
    for i in numbers:
        want, got = graph.values[i].grad, context.grad(ours.values[i])
        zeros = torch.zeros_like(graph.values[i])
        compare(f"{how} of {i}, {graph.steps[i].call.name}", zeros if got is None else got,
                zeros if want is None else want)


@pytest.mark.filterwarnings("ignore")
def test_graph(seed):
    graph, r = graphs.Graph(seed), random.Random(-1 - seed)
    numbers, steps = range(len(graph.steps)), graph.steps
    segments = Segments(r, steps)
    with ct.Context(threads=r.choice([1, 2])) as context:
        ours = Ours(context, graph, segments, seed)
        for i in numbers:
            if r.random() < 0.3 or i == numbers[-1]:
                compare(f"value {i}, {steps[i].call.name}", context.value(ours.values[i]),
                        graph.values[i].detach())
        differentiable = [i for i in numbers if not is_leaf(steps[i]) and
                          graph.values[i].requires_grad and lib.ct_requires_grad(ours.values[i])]
        if not differentiable:
            return
        # Of a value inside of a segment and outside there are two, each with its own gradient.
        several = [i for i in differentiable if i not in segments.inner]
        retained = r.sample(several, min(len(several), r.choice([0, 1, 3])))
        for i in retained:
            graph.values[i].retain_grad()
            lib.ct_retain_grad(ours.values[i])
        rounds = r.choice([1, 1, 2, 3])
        outs = [r.sample(differentiable, min(len(differentiable), r.randint(1, 3)))
                if r.random() < 0.6 else differentiable[-1:] for _ in range(rounds)]
        used = set(sum(outs, [])) | set(retained)
        for i in numbers:   # what a segment takes is used until backward
            if not (is_leaf(steps[i]) or i in used or segments.outer[i]) and r.random() < 0.3:
                lib.ct_release(ours.values[i])
        for n in range(rounds):
            cotangents = [torch.randn(graph.values[i].shape, generator=graph.generator,
                                      dtype=torch.float64) for i in outs[n]]
            torch.autograd.backward([graph.values[i] for i in outs[n]], cotangents,
                                    retain_graph=True)
            backward(context, [ours.values[i] for i in outs[n]], cotangents, r, n < rounds - 1)
            leaves = [i for i in numbers if is_leaf(steps[i]) and steps[i].call.grad]
            compare_gradients(context, ours, graph, leaves, f"backward {n}, gradient")
            compare_gradients(context, ours, graph, retained, f"backward {n}, retained gradient")
