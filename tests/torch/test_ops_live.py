"""Every line of ops.def on every list of its inputs, values and gradients, against PyTorch computing in float64."""
import functools

import pytest
import torch
import torch.nn.functional as F

import ct

SEEDS = (1, 2, 3)


def walk():
    for index, line in enumerate(ct.case_lines()):
        if line.torch != b"NONE":
            for variant in range(ct.cases.case_variants(line.pointer)):
                yield pytest.param(index, variant, id=f"{line.name.decode()}-{index}-{ct.case_text(line, variant)}")


compiled = functools.cache(lambda text: compile(text, "ops.def", "eval"))


def reference(line, x):
    y = eval(compiled(line.torch), {"torch": torch, "F": F, "x": x})
    return y if isinstance(y, torch.Tensor) else torch.tensor(y)


def answers(line, x, collects, seed):
    """Value and gradients by PyTorch; a gradient for each input that collects one, else None."""
    x = [v.detach().clone() if v is not None else None for v in x]
    leaves = [v.requires_grad_() for v, wanted in zip(x, collects) if wanted and v is not None and v.is_floating_point()]
    y = reference(line, x)
    if not (y.is_floating_point() and y.requires_grad):
        return y.detach(), None, []
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32)
    grads = torch.autograd.grad(y, leaves, g.to(y.dtype), allow_unused=True)
    return y.detach(), g, [torch.zeros_like(v) if d is None else d for v, d in zip(leaves, grads)]


def cast(x, dtype):
    return [v.to(dtype) if v is not None and v.is_floating_point() else v for v in x]


def least(want):
    return 1.0 if want.numel() == 1 else 1e-2   # one value may be all that a cancellation left


def compare(context, index, variant, dtype, seed, scale):
    line = ct.case_lines()[index]
    name = line.name.decode()
    pointers, collects = ct.case_inputs(context, line, variant, scale, ct.DTYPES.index(dtype), seed, dtype == torch.float32)
    y = ct.case_run(context, line, pointers)
    try:
        context.check()
    except ct.Error:
        if scale > 1:   # a call that fixes its sizes
            return
        raise
    x = [context.value(pointers[i]) for i in range(len(collects))]
    want, g, grads = answers(line, cast(x, torch.float64), collects, seed)
    ours = context.value(y)
    float32 = lambda: answers(line, cast(x, torch.float32), collects, seed)
    ct.compare(name, "value", ours, want, dtype, least(want), lambda: float32()[0])
    if g is None:
        assert not ct.lib.ct_requires_grad(y)
        return
    context.backward([y], [g.to(ours.dtype)])
    wanted = [p for p, w, v in zip(pointers, collects, x) if w and v is not None]
    for k, (pointer, grad) in enumerate(zip(wanted, grads, strict=True)):
        ct.compare(name, f"gradient {k}", context.grad(pointer), grad, dtype, least(grad), lambda: float32()[2][k])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("index, variant", list(walk()))
def test_op(context, index, variant, dtype):
    for scale, seed in enumerate(SEEDS, 1):
        scope = ct.lib.ct_scope_open(context.pointer)
        compare(context, index, variant, dtype, seed, scale)
        ct.lib.ct_scope_close(scope)
