"""Writes rope.safetensors: the frequencies of scaled rotary positions, in float64, by formulas that are written here again, after
transformers' modeling_rope_utils.py. `build/venv/bin/python tests/golden/rope.py` runs it.

    metadata N: "kind=3 base=10000 dims=64 ..."   the options of ct_rope_frequencies, without `factors`
    tensors     N.frequencies (dims / 2), N.attention_factor (), and N.factors (dims / 2) of CT_ROPE_LONGROPE
"""
import math
from pathlib import Path

import torch

DEFAULT, LINEAR, LLAMA3, YARN, LONGROPE = range(5)


def rates(o):
    """1 / theta^(2j / dim)"""
    return 1 / o.get("base", 10000.0) ** (torch.arange(0, o["dims"], 2).double() / o["dims"])


def default(o):
    return rates(o), 1.0


def linear(o):
    return rates(o) / o["factor"], 1.0


def llama3(o):
    rate, factor, low, high, length = rates(o), o["factor"], o.get("low", 1), o.get("high", 4), o["original_length"]
    wavelength = 2 * math.pi / rate
    smooth = (length / wavelength - low) / (high - low)
    between = (1 - smooth) * rate / factor + smooth * rate
    long, short = wavelength > length / low, wavelength < length / high
    return torch.where(long, rate / factor, torch.where(short, rate, between)), 1.0


def yarn(o):
    base, dims, factor, length = o.get("base", 10000.0), o["dims"], o["factor"], o["original_length"]
    pair = lambda rotations: dims * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(base))
    first, last = pair(o.get("high", 32)), pair(o.get("low", 1))
    if not o.get("no_truncate"):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dims - 1)
    ramp = ((torch.arange(dims // 2).double() - first) / ((last if last != first else last + 0.001) - first)).clamp(0, 1)
    magnitude = lambda m: 0.1 * m * math.log(factor) + 1 if factor > 1 else 1.0
    both = o.get("mscale") and o.get("mscale_all_dim")
    a = o.get("attention_factor") or (magnitude(o["mscale"]) / magnitude(o["mscale_all_dim"]) if both else magnitude(1))
    return rates(o) / factor * ramp + rates(o) * (1 - ramp), a


def longrope(o):
    factor, a = o.get("factor", 1.0), o.get("attention_factor")
    a = a or (math.sqrt(1 + math.log(factor) / math.log(o["original_length"])) if factor > 1 else 1.0)
    return rates(o) / torch.tensor(o["factors"], dtype=torch.float64), a


FORMULAS = [default, linear, llama3, yarn, longrope]
STRETCH = lambda n, by: [1 + by * i * i / 64 for i in range(n)]   # exact in binary
CASES = [
    dict(kind=DEFAULT, dims=64), dict(kind=DEFAULT, dims=2, base=500000.0), dict(kind=DEFAULT, dims=10, base=0.5),
    dict(kind=LINEAR, dims=128, factor=2.0), dict(kind=LINEAR, dims=6, base=1000000.0, factor=8.5), dict(kind=LINEAR, dims=6, factor=0.5),
    dict(kind=LLAMA3, dims=64, base=500000.0, factor=32.0, low=1.0, high=4.0, original_length=8192),   # Llama 3.2
    dict(kind=LLAMA3, dims=128, base=500000.0, factor=8.0, original_length=8192),                      # Llama 3.1
    dict(kind=LLAMA3, dims=34, factor=4.0, low=0.75, high=9.5, original_length=100),
    dict(kind=LLAMA3, dims=8, factor=4.0, original_length=1),
    dict(kind=YARN, dims=128, base=1000000.0, factor=4.0, original_length=32768),                      # Qwen 2.5 and 3
    dict(kind=YARN, dims=64, base=150000.0, factor=32.0, original_length=4096, no_truncate=1),         # gpt-oss
    dict(kind=YARN, dims=64, factor=40.0, original_length=4096, mscale=1.0, mscale_all_dim=0.707),     # DeepSeek V2
    dict(kind=YARN, dims=64, factor=40.0, original_length=4096, mscale=0.707),                         # one of the two: no effect
    dict(kind=YARN, dims=48, base=70.0, factor=3.0, original_length=500, low=2.0, high=11.0, attention_factor=1.25),
    dict(kind=YARN, dims=20, factor=0.75, original_length=300), dict(kind=YARN, dims=20, factor=2.0, original_length=3),
    dict(kind=YARN, dims=20, factor=2.0, original_length=1000000000000),
    dict(kind=YARN, dims=20, factor=2.0, original_length=1000000, high=200.0),                         # the last pair is above dims / 2
    dict(kind=YARN, dims=32, factor=16.0, original_length=2048, low=5.0, high=5.0, no_truncate=1),
    dict(kind=LONGROPE, dims=96, factor=32.0, original_length=4096, factors=STRETCH(48, 1)),           # Phi-3
    dict(kind=LONGROPE, dims=96, factor=0.5, original_length=4096, factors=STRETCH(48, 4)),
    dict(kind=LONGROPE, dims=10, base=300.0, attention_factor=1.5, factors=STRETCH(5, 2)),
]

if __name__ == "__main__":
    import make

    metadata, tensors = {}, {}
    for n, case in enumerate(CASES):
        frequencies, factor = FORMULAS[case["kind"]](case)
        metadata[str(n)] = " ".join(f"{key}={value:.17g}" for key, value in case.items() if key != "factors")
        tensors |= {f"{n}.frequencies": frequencies, f"{n}.attention_factor": torch.tensor(factor, dtype=torch.float64)}
        if "factors" in case:
            tensors[f"{n}.factors"] = torch.tensor(case["factors"], dtype=torch.float64)
    make.write(Path(__file__).resolve().parent / "rope.safetensors", metadata, tensors)
