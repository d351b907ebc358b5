"""ct_attention against torch's flex_attention: mask_mod and score_mod say for each pair of query and key what our options mean. On the CPU
flex_attention runs uncompiled and has no backward, so gradients are those of attention written out, whose values are compared too."""
import math

import pytest
import torch
from torch.nn.attention import flex_attention as flex

import ct
import modules
from attention_cases import HEADS, KEY_MASKS, WEIGHTS, WINDOWS, flags, sizes
from covering import cover
from ct import lib

SIZES = [dict(T=t, S=s) for t, s in ((1, 1), (1, 40), (2, 5), (5, 3), (7, 7), (33, 20), (16, 150), (130, 130), (131, 4))]
SEGMENTS = [{}, dict(segments=1), dict(segments=2), dict(segments=3)]   # neighbours; in any order; each token by itself


def cases():
    options = [sizes("B", (1, 2, 3)), HEADS[1:], SIZES, sizes("d", (1, 4, 16, 24)), sizes("dv", (0, 5)), sizes("scale", (0, 0.2)),
               WEIGHTS[:2], KEY_MASKS, WINDOWS + [dict(window_left=40, window_right=40)], SEGMENTS, sizes("softcap", (0, 0.7, 20)),
               sizes("bias", ("", "ts", "b1ts", "bhts")), *flags("causal", "lower_right", "lengths")]
    return cover(options, lambda case: not case.get("segments") or case.get("T") == case.get("S"))


def draw(case):
    """The tensors of a case; i64, bool, or values that a float holds exactly."""
    generator = torch.Generator().manual_seed(1)
    b, h, t, s, d = (case[key] for key in ("B", "num_heads", "T", "S", "d"))
    kv = case["num_kv_heads"] or h
    randn = lambda *shape: torch.randn(shape, generator=generator)
    x = dict(q=randn(b, h, t, d), k=randn(b, kv, s, d), v=randn(b, kv, s, case["dv"] or d))
    if case["bias"]:
        x["bias"] = randn(*{"ts": (t, s), "b1ts": (b, 1, t, s), "bhts": (b, h, t, s)}[case["bias"]])
    if case["key_mask"]:
        x["key_mask"] = torch.rand((b, s), generator=generator) < 0.7
        x["key_mask"][:1] &= not case.get("all_masked")
    if case["lengths"]:
        x["lengths"] = torch.randint(0, s + 1, (b,), generator=generator)
    if case.get("segments"):
        segments = torch.randint(-2, 3, (b, t), generator=generator)
        x["segments"] = {1: segments.sort(-1).values, 2: segments, 3: torch.arange(t).expand(b, t)}[case["segments"]]
    return x


def mask_mod(case, x):
    """Is key j seen by query t of row b?"""
    left, right = [case.get(key, 0) for key in ("window_left", "window_right")]

    def seen(b, h, t, j):
        n = x["lengths"][b] if case["lengths"] else case["S"]
        i = t + n - case["T"] if case["lower_right"] else t
        rules = [j < n]
        if case["causal"]:
            rules.append(j <= i)
        if left:
            rules.append(j > i - left)
        if right:
            rules.append(j < i + right)
        if case["key_mask"]:
            rules.append(x["key_mask"][b, j])
        if case.get("segments"):
            rules.append(x["segments"][b, t] == x["segments"][b, j])
        while len(rules) > 1:
            rules.append(rules.pop() & rules.pop())
        return rules[0]

    return seen


def score_mod(case, x):
    cap = case["softcap"]
    bias = x["bias"].expand(case["B"], case["num_heads"], case["T"], case["S"]) if case["bias"] else None

    def score_of(score, b, h, t, j):
        if cap:
            score = cap * torch.tanh(score / cap)
        return score + bias[b, h, t, j] if case["bias"] else score

    return score_of


def by_flex(case, x):
    x = {name: v.double() if v.is_floating_point() else v for name, v in x.items()}
    shape = case["B"], case["num_heads"], case["T"], case["S"]
    blocks = flex.create_block_mask(mask_mod(case, x), *shape, device="cpu")
    return flex.flex_attention(x["q"], x["k"], x["v"], score_mod(case, x), blocks, case["scale"] or None, enable_gqa=True)


def composed(case, x, cotangents, dtype=torch.float64):
    """Outputs and gradients of attention written out."""
    x = {name: v.to(dtype).requires_grad_() if v.is_floating_point() else v for name, v in x.items()}
    keep = flex.create_mask(mask_mod(case, x), case["B"], case["num_heads"], case["T"], case["S"], "cpu")
    if case["bias"]:
        keep = x["bias"].masked_fill(~keep, -math.inf)
    outputs = modules.attend(x["q"], x["k"], x["v"], keep, case["scale"] or None, True, case["softcap"])
    outputs = dict(zip(("out", "weights"), outputs))
    leaves = {name: v for name, v in x.items() if v.requires_grad}
    grads = torch.autograd.grad([outputs[name] for name in cotangents], list(leaves.values()), [g.to(dtype) for g in cotangents.values()],
                                allow_unused=True)
    grads = {name: torch.zeros_like(v) if g is None else g for (name, v), g in zip(leaves.items(), grads)}
    return {name: v.detach() for name, v in outputs.items()}, grads


def check(context, case, x, theirs, outputs, grads, cotangents, dtype):
    float32 = lambda: composed(case, x, cotangents, torch.float32)
    leaves = {name: context.tensor(v.to(dtype) if v.is_floating_point() else v, v.is_floating_point()) for name, v in x.items()}
    own = {name: case[name] for name in ("causal", "lower_right", "scale", "softcap")} | {"need_weights": case.get("need_weights", 0)}
    own |= {name: leaves.get(name) for name in ("bias", "key_mask", "lengths", "segments")}
    window = ct.Window(case.get("window_left", 0), case.get("window_right", 0))
    y = lib.ct_attention(leaves["q"], leaves["k"], leaves["v"], ct.AttentionOpts(window=window, **own))
    context.check()
    compare = lambda *args, **kwargs: ct.compare("flex_attention", *args, dtype, **kwargs)
    compare("out", context.value(y.out), theirs, float32=lambda: float32()[0]["out"])
    if "weights" in cotangents:
        compare("weights", context.value(y.weights), outputs["weights"], float32=lambda: float32()[0]["weights"])
    context.backward([getattr(y, name) for name in cotangents], [g.to(dtype) for g in cotangents.values()])
    for name, want in grads.items():
        compare(f"gradient of {name}", context.grad(leaves[name]), want, float32=lambda: float32()[1][name])


@pytest.mark.parametrize("case", cases(), ids=modules.text)
def test_flex_attention(context, monkeypatch, case):
    monkeypatch.setattr(flex, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)   # torch.compile would trace each case anew
    x, generator = draw(case), torch.Generator().manual_seed(2)
    shapes = {"out": (*x["q"].shape[:3], x["v"].shape[-1])}
    if case.get("need_weights"):
        shapes["weights"] = (*x["q"].shape[:3], case["S"])
    cotangents = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    theirs, (outputs, grads) = by_flex(case, x), composed(case, x, cotangents)
    assert ct.distance(theirs, outputs["out"], 1e-2) < 1e-13   # two implementations of one function
    for dtype in (torch.float32, torch.float64):
        check(context, case, x, theirs, outputs, grads, cotangents, dtype)
