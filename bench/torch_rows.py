"""The rows of rows.c in PyTorch: the same shapes, the same numbers to start from, the same work in a step, each in the way that is
fastest there without another library: scaled_dot_product_attention, a fused optimiser, batches that are tensors before the clock runs.

    echo 10 | python bench/torch_rows.py toy --threads 2 [--names FILE] [--compile] [--bf16]
"""
import argparse
import contextlib
import math

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from rounds import measure, name_bits

BATCHES = 8  # used in turns
END = 26  # microgpt's: before and after every name
GPT = {  # layers, heads, width, vocabulary, batch, length, positions, bias
    "toy": (2, 4, 64, 16, 32, 32, 32, True),
    "char_small": (4, 4, 128, 65, 12, 64, 64, False),
    "char_baby": (6, 6, 384, 65, 8, 256, 256, True),
    "gpt2_124m": (12, 12, 768, 50257, 4, 64, 1024, True),
    "gpt2_whole": (12, 12, 768, 50257, 8, 1024, 1024, True),
    "gpt2_recompute": (12, 12, 768, 50257, 8, 1024, 1024, True),
}
DECODE = {  # layers, heads, width, vocabulary; see decode.c
    "decode": (12, 12, 768, 50257),
    "decode_384": (6, 6, 384, 65),
}
PROMPT, LENGTH = 64, 128
WINDOW = 256  # the tokens of a sliding window
MHA = {"mha_tiny": (3, 4, 8, 2, False), "mha_seed": (2, 10, 512, 8, False)}  # batch, length, width, heads, causal


def fill(tensor, name, std):
    """In parts, so that the numbers on the way do not count as memory."""
    flat, a = tensor.detach().view(-1), numpy.float32(math.sqrt(3) * std)
    for i in range(0, flat.numel(), 1 << 16):
        bits = name_bits(name, i, min(1 << 16, flat.numel() - i))
        x = a * ((bits >> numpy.uint32(8)).astype(numpy.float32) * numpy.float32(2**-23) - numpy.float32(1))
        flat[i : i + len(x)] = torch.from_numpy(x)
    return tensor


def fill_module(module, std, std_residual):
    for name, p in module.named_parameters():
        residual = name.endswith(("out_proj.weight", "linear2.weight"))
        if p.dim() == 2:
            fill(p, name, std_residual if residual else std)
        elif "bias" in name:
            nn.init.zeros_(p)


class Attention(nn.Module):
    """Causal self-attention: one product for q, k and v, then PyTorch's fused kernel."""

    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * width)) if bias else None
        self.out_proj = nn.Linear(width, width, bias)

    def forward(self, x):
        b, t, e = x.shape
        qkv = F.linear(x, self.in_proj_weight, self.in_proj_bias).view(b, t, 3, self.heads, e // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).reshape(b, t, e))


class Block(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, bias=bias) for _ in range(2))
        self.self_attn = Attention(width, heads, bias)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width, bias), nn.Linear(4 * width, width, bias)

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Model(nn.Module):
    """A GPT with a tied head; forward gives the loss."""

    def __init__(self, layers, heads, width, vocabulary, positions, bias, recompute):
        super().__init__()
        self.recompute = recompute
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList(Block(width, heads, bias) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width, bias=bias)

    def forward(self, ids, targets):
        x = self.wte(ids) + self.wpe.weight[: ids.shape[1]]
        for block in self.h:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return F.cross_entropy(F.linear(self.ln_f(x), self.wte.weight).flatten(0, 1), targets)


class Micro(nn.Module):
    """microgpt: see micro.c."""

    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(END + 1, 16), nn.Embedding(16, 16)
        self.attention = Attention(16, 4, False)
        self.mlp = nn.ModuleDict({"fc": nn.Linear(16, 64, False), "proj": nn.Linear(64, 16, False)})
        self.head = nn.Linear(16, END + 1, False)

    def forward(self, ids, targets):
        x = F.rms_norm(self.wte(ids) + self.wpe.weight[: ids.shape[1]], (16,), None, 1e-5)
        x = x + self.attention(F.rms_norm(x, (16,), None, 1e-5))
        x = x + self.mlp["proj"](F.relu(self.mlp["fc"](F.rms_norm(x, (16,), None, 1e-5))))
        return F.cross_entropy(self.head(x).flatten(0, 1), targets)


def training(model, optim, batches, clip, options):
    """A whole step of training; returns step and value."""
    run = torch.compile(model) if options.compile else model
    parameters = list(model.parameters())
    state = {"step": 0, "loss": math.nan}

    def step():
        ids, targets = batches[state["step"] % len(batches)]
        state["step"] += 1
        optim.zero_grad()
        with options.autocast():
            loss = run(ids, targets)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(parameters, clip)
        optim.step()
        state["loss"] = loss.item()

    return step, lambda: state["loss"]


def gpt_row(options):
    layers, heads, width, vocabulary, batch, length, positions, bias = GPT[options.row]
    model = Model(layers, heads, width, vocabulary, positions, bias, options.row == "gpt2_recompute")
    fill_module(model, 0.02, 0.02 / math.sqrt(2 * layers))
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    ids = name_bits("tokens", 0, BATCHES * batch * (length + 1)) % numpy.uint32(vocabulary)
    ids = torch.from_numpy(ids.astype(numpy.int64)).view(BATCHES, batch, length + 1)
    return training(model, optim, [(b[:, :-1].contiguous(), b[:, 1:].flatten()) for b in ids], 1.0, options)


def decode_row(options, kind, batch):
    """A token of each sequence a step, with keys and values in tensors that are made before; bf16: the whole model."""
    layers, heads, width, vocabulary = DECODE[kind.replace("_bf16", "")]
    model = Model(layers, heads, width, vocabulary, 1024, True, False)
    fill_module(model, 0.02, 0.02 / math.sqrt(2 * layers))
    dtype = torch.bfloat16 if "_bf16" in kind else torch.float32
    model = model.to(dtype).eval()
    k, v = (torch.zeros(layers, batch, heads, LENGTH, width // heads, dtype=dtype) for _ in range(2))
    all_ids = torch.from_numpy((name_bits("tokens", 0, batch * LENGTH) % numpy.uint32(vocabulary)).astype(numpy.int64)).view(batch, LENGTH)
    state = {"length": 0, "steps": 0, "sum": math.nan}

    def logits(count):
        first, end = state["length"], state["length"] + count
        x = model.wte(all_ids[:, first:end]) + model.wpe.weight[first:end]
        for i, block in enumerate(model.h):
            attention = block.self_attn
            qkv = F.linear(block.norm1(x), attention.in_proj_weight, attention.in_proj_bias)
            q, new_k, new_v = qkv.view(batch, count, 3, heads, width // heads).permute(2, 0, 3, 1, 4).unbind(0)
            k[i, :, :, first:end], v[i, :, :, first:end] = new_k, new_v
            y = F.scaled_dot_product_attention(q, k[i, :, :, :end], v[i, :, :, :end], is_causal=count > 1)
            x = x + attention.out_proj(y.transpose(1, 2).reshape(batch, count, width))
            x = x + block.linear2(F.gelu(block.linear1(block.norm2(x))))
        state["length"] = end
        return F.linear(model.ln_f(x), model.wte.weight)

    @torch.inference_mode()
    def step():
        if state["length"] == LENGTH:
            state["length"] = PROMPT
        z = logits(1)
        state["sum"] = sum_of_sizes(z.float()) if state["steps"] < 3 else math.nan
        state["steps"] += 1

    with torch.inference_mode():
        logits(PROMPT)
    return step, lambda: state["sum"]


def micro_row(options, batch):
    names = []
    for line in open(options.names):
        ids = [END] + [ord(c) - ord("a") for c in line if "a" <= c <= "z"] + [END]
        t = min(16, len(ids) - 1)
        if len(ids) > 2:
            names.append((ids[:t], ids[1 : t + 1]))
    batches = []
    for i in range(0, len(names) - batch + 1, batch):  # padded to the longest; causality hides what comes last, and it has no loss
        t = max(len(ids) for ids, _ in names[i : i + batch])
        pad = lambda ids, value: ids + [value] * (t - len(ids))
        inputs, targets = zip(*((pad(ids, END), pad(next_ids, -100)) for ids, next_ids in names[i : i + batch]))
        batches.append((torch.tensor(inputs), torch.tensor(targets).flatten()))
    model = Micro()
    fill_module(model, 0.08, 0.08)
    return training(model, torch.optim.Adam(model.parameters(), lr=0.01, betas=(0.85, 0.99), fused=True), batches, 0, options)


def sum_of_sizes(*tensors):
    return sum(t.double().abs().sum().item() for t in tensors)


def hidden_pairs(t, window):
    """True where a causal mask, or one with a sliding window (0: none), hides the key."""
    ones = torch.ones(t, t, dtype=torch.bool)
    return ones.triu(1) | ones.tril(-window) if window else ones.triu(1)


def mha_row(options, b, t, e, heads, causal, weights, window=0):
    mha = nn.MultiheadAttention(e, heads, batch_first=True)
    fill_module(mha, 1 / math.sqrt(e), 1 / math.sqrt(e))
    x, cotangent = (fill(torch.empty(b, t, e), name, 1) for name in ("x", "cotangent"))
    x.requires_grad_()
    mask = hidden_pairs(t, window) if causal else None
    run = torch.compile(mha) if options.compile else mha

    def step():
        mha.zero_grad()
        x.grad = None
        with options.autocast():
            y, _ = run(x, x, x, need_weights=weights, attn_mask=mask, is_causal=causal and not window)
        y.backward(cotangent)

    return step, lambda: sum_of_sizes(x.grad, mha.in_proj_weight.grad)


def attention_row(options, t, weights, window):
    q, k, v, cotangent = (fill(torch.empty(1, 8, t, 64), name, 1) for name in ("q", "k", "v", "cotangent"))
    for x in (q, k, v):
        x.requires_grad_()

    seen = ~hidden_pairs(t, window) if window else None  # this function's true shows

    def attend(q, k, v):
        if not weights:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, is_causal=not window)
        return torch.softmax((q @ k.mT * 64**-0.5).masked_fill(hidden_pairs(t, 0), -math.inf), -1) @ v

    run = torch.compile(attend) if options.compile else attend

    def step():
        q.grad = k.grad = v.grad = None
        with options.autocast():
            y = run(q, k, v)
        y.backward(cotangent)

    return step, lambda: sum_of_sizes(q.grad, k.grad, v.grad)


def make(options):
    if options.row in GPT:
        return gpt_row(options)
    if options.row == "micro":
        return micro_row(options, 1)
    weights, window = "_weights" in options.row, WINDOW if "_window" in options.row else 0
    kind, _, number = options.row.replace("_weights", "").replace("_window", "").rpartition("_")
    if kind == "micro":
        return micro_row(options, int(number))
    if kind.startswith("decode") and number.isdigit():
        return decode_row(options, kind, int(number))
    if kind == "mha_long" and number.isdigit():
        return mha_row(options, 1, int(number), 512, 8, True, weights, window)
    if kind == "attention" and number.isdigit():
        return attention_row(options, int(number), weights, window)
    return mha_row(options, *MHA[f"{kind}_{number}"], weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--names", default="bench/names.txt")
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    parser.add_argument("--bf16", action="store_true", help="under autocast to bfloat16")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    options.autocast = (lambda: torch.autocast("cpu", torch.bfloat16)) if options.bf16 else contextlib.nullcontext
    measure(options, make)


if __name__ == "__main__":
    main()
