"""Modules by PyTorch: a case is a flat dict of numbers, from which both sides build the same module and the same call. The live
comparison and the golden files share these; tests/ops/test_golden.c reads a case from its text."""
import math
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from layouts import layout

warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")

ACTIVATIONS = [F.relu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.silu, F.elu, F.softplus, F.leaky_relu,
               lambda x: F.relu(x).square(), lambda x: x * torch.sigmoid(1.702 * x)]


def text(case):
    return " ".join(f"{key}={value}" for key, value in case.items())


class RmsNorm(nn.RMSNorm):
    """RMSNorm whose factor is offset + weight, as Gemma's."""

    def __init__(self, dim, eps, offset):
        super().__init__(dim, eps)
        self.offset = offset

    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight + self.offset, self.eps)


class Mlp(nn.Module):
    def __init__(self, dim, hidden, activation, bias, gated):
        super().__init__()
        self.fc, self.proj, self.activation = nn.Linear(dim, hidden, bias), nn.Linear(hidden, dim, bias), ACTIVATIONS[activation]
        self.gate = nn.Linear(dim, hidden, bias) if gated else None

    def forward(self, x):
        return self.proj(self.activation(self.gate(x)) * self.fc(x) if self.gate else self.activation(self.fc(x)))


class Positions(nn.Module):
    def __init__(self, length, dim, learned):
        super().__init__()
        if learned:
            self.weight = nn.Parameter(torch.randn(length, dim))
        else:
            angle = torch.arange(length).double()[:, None] * 10000.0 ** (-(torch.arange(dim) // 2 * 2).double() / dim)
            self.weight = torch.where(torch.arange(dim) % 2 == 1, angle.cos(), angle.sin())

    def forward(self, x):
        return x + self.weight[: x.shape[-2]].to(x)


def rope_table(dims):
    """The frequencies of a case with rope_table, dims / 2 numbers in place of the powers of a base: of both signs, and one is 0."""
    return [0.0 if j == 1 else math.cos(3 * j + 1) / (j + 1) for j in range(dims // 2)]


class Rope:
    """Rotary positions (Su et al. 2021) of x (B, H, T, d), by the options of a case: the first rope_dims elements of a row turn."""

    def __init__(self, case):
        g = lambda key, default=0: case.get(key) or default
        self.base, self.offset, self.dims, self.table = g("rope_base", 1e4), g("rope_offset"), g("rope_dims"), g("rope_table")
        self.interleaved, self.factor = g("rope_interleaved"), g("rope_factor", 1)

    def __call__(self, x, positions=None):
        dims = self.dims or x.shape[-1]
        if positions is None:
            positions = torch.arange(x.shape[-2]) + self.offset
        elif positions.ndim == 2:
            positions = positions[:, None]
        powers = self.base ** (-torch.arange(0, dims, 2).double() / dims)
        angle = positions.double()[..., None] * (torch.tensor(rope_table(dims), dtype=torch.float64) if self.table else powers)
        cos, sin = (self.factor * angle.cos()).to(x), (self.factor * angle.sin()).to(x)
        x, rest = x[..., :dims], x[..., dims:]
        a, b = (x[..., 0::2], x[..., 1::2]) if self.interleaved else x.chunk(2, -1)
        pair = a * cos - b * sin, a * sin + b * cos
        return torch.cat([torch.stack(pair, -1).flatten(-2) if self.interleaved else torch.cat(pair, -1), rest], -1)


BIAS = ("as no_bias says", "all", "qkv", "none")   # ct_bias


def biases(case):
    """Whether q, k and v have biases, and whether out_proj has."""
    kind = BIAS[case.get("bias", 0)]
    return (kind != "none", kind == "all") if case.get("bias") else (not case.get("no_bias"),) * 2


def attend(q, k, v, keep=None, scale=None, need_weights=False, softcap=None):
    """Output and weights (or None) of scaled_dot_product_attention on (B, H, T, d) and (B, H_kv, S, d). It gives no weights, and knows no
    keys at all: then it is written out, zeros for a query that sees nothing."""
    if k.shape[2] and not need_weights and not softcap:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, scale=scale, enable_gqa=True), None
    k, v = [x.repeat_interleave(q.shape[1] // max(k.shape[1], 1), 1) for x in (k, v)]
    scores = q @ k.mT * (scale or q.shape[-1] ** -0.5)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if keep is not None:
        scores = scores.masked_fill(~keep, -math.inf) if keep.dtype == torch.bool else scores + keep
    blind = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(blind, 0).softmax(-1).masked_fill(blind, 0)
    return weights @ v, weights if need_weights else None


class Attention(nn.Module):
    """nn.MultiheadAttention, with what torch has no module for: fewer key/value heads than queries', rotary positions, norms of heads, and
    zeros for queries that see nothing. Names of parameters as there; those of fewer heads as with kdim and vdim."""

    def __init__(self, case, rotary=True):
        super().__init__()
        g = lambda key, default=0: case.get(key) or default
        dim, self.heads = g("embed_dim"), g("num_heads")
        self.kv_heads, kdim, vdim, size = g("num_kv_heads", self.heads), g("kdim", dim), g("vdim", dim), g("head_dim", dim // self.heads)
        bias, out_bias = biases(case)
        own, width = size * self.heads, size * self.kv_heads
        if kdim == vdim == dim and width == own:
            self.in_proj_weight = nn.Parameter(torch.empty(3 * own, dim))
        else:
            self.q_proj_weight = nn.Parameter(torch.empty(own, dim))
            self.k_proj_weight = nn.Parameter(torch.empty(width, kdim))
            self.v_proj_weight = nn.Parameter(torch.empty(width, vdim))
        self.in_proj_bias = nn.Parameter(torch.empty(own + 2 * width)) if bias else None
        self.bias_k, self.bias_v = [nn.Parameter(torch.empty(1, 1, width)) if g("add_bias_kv") else None for _ in range(2)]
        self.zero = g("add_zero_attn")
        self.out_proj = nn.Linear(own, dim, out_bias)
        self.sizes, self.scale, self.softcap = [own, width, width], g("scale", None), g("softcap")
        norm = lambda: RmsNorm(size, g("qk_norm_eps", g("eps", 1e-5)), g("qk_norm_offset")) if g("qk_norm") else nn.Identity()
        self.q_norm, self.k_norm = norm(), norm()
        self.turn = Rope(case) if g("rope") and rotary else lambda x, positions=None: x
        self.positions = None   # of the queries, and of keys that are the same tokens

    def append(self, x, bias):
        """The keys or values that nobody is hidden from."""
        if bias is not None:
            x = torch.cat([x, bias.unflatten(-1, (self.kv_heads, -1)).transpose(1, 2).expand(len(x), -1, -1, -1)], 2)
        return F.pad(x, (0, 0, 0, 1)) if self.zero else x

    def forward(self, q, k, v, attn_mask=None, need_weights=False, average_attn_weights=True):
        packed, key_positions = getattr(self, "in_proj_weight", None), self.positions if k is q else None
        weight = packed.split(self.sizes) if packed is not None else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        bias = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.split(self.sizes)
        heads = (self.heads, self.kv_heads, self.kv_heads)
        keep, s = keep_of(attn_mask, len(q)), k.shape[1]
        q, k, v = [F.linear(x, w, b).unflatten(-1, (h, -1)).transpose(1, 2) for x, w, b, h in zip((q, k, v), weight, bias, heads)]
        q, k = self.turn(self.q_norm(q), self.positions), self.turn(self.k_norm(k), key_positions)
        k, v = self.append(k, self.bias_k), self.append(v, self.bias_v)
        if keep is not None:
            keep = F.pad(keep, (0, k.shape[2] - s), value=keep.dtype == torch.bool)
        y, weights = attend(q, k, v, keep, self.scale, need_weights, self.softcap)
        return self.out_proj(y.transpose(1, 2).flatten(2)), weights.mean(1) if need_weights and average_attn_weights else weights


class Layer(nn.Module):
    """A transformer layer with what torch's has not: RMSNorm, a gated feed-forward, the attention above; norms after the sublayers
    (sandwich), sublayers that all read the layer's input (parallel)."""

    def __init__(self, case, decoder):
        super().__init__()
        g = lambda key, default=0: case.get(key) or default
        dim, bias, eps = g("embed_dim"), not g("no_bias"), g("eps", 1e-5)
        hidden = g("hidden", 4 * dim)
        self.heads, self.first, self.activation = g("num_heads"), g("norm_first"), ACTIVATIONS[g("activation")]
        self.self_attn = Attention(case)
        self.linear1, self.linear2 = nn.Linear(dim, hidden, bias), nn.Linear(hidden, dim, bias)
        self.gate = nn.Linear(dim, hidden, bias) if g("gated") else None
        norm = lambda: RmsNorm(dim, eps, g("norm_offset")) if g("rms_norm") else nn.LayerNorm(dim, eps, bias=bias)
        self.sandwich, self.parallel = g("sandwich"), g("parallel")
        for i in range(1, 4 if decoder else 3):
            setattr(self, f"norm{i}", norm())
            if self.sandwich:
                setattr(self, f"norm{i}_out", norm())
        if decoder:
            self.multihead_attn = Attention(case, rotary=False)

    def feed(self, x):
        h = self.linear1(x)
        return self.linear2(self.activation(self.gate(x)) * h if self.gate else self.activation(h))

    def forward(self, x, memory=None, src_mask=None, tgt_mask=None, memory_mask=None):
        own = tgt_mask if src_mask is None else src_mask
        sublayers = [lambda x: self.self_attn(x, x, x, attn_mask=own)[0], self.feed]
        if memory is not None:
            sublayers.insert(1, lambda x: self.multihead_attn(x, memory, memory, attn_mask=memory_mask)[0])
        first = x
        for i, f in enumerate(sublayers, 1):
            norm, after = getattr(self, f"norm{i}"), getattr(self, f"norm{i}_out", lambda y: y)
            x = x + after(f(norm(first if self.parallel else x))) if self.first else norm(x + f(x))
        return x


class Stack(nn.Module):
    def __init__(self, layers, norm):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(self, x, *args, mask=None, **kwargs):
        kwargs |= {} if args else {"src_mask": mask}
        for layer in self.layers:
            x = layer(x, *args, **kwargs)
        return self.norm(x) if self.norm else x


def keep_of(mask, batch):
    """torch's one mask, (T, S) or (B H, T, S), true = ignore, as scaled_dot_product_attention takes it."""
    if mask is None:
        return None
    mask = ~mask if mask.dtype == torch.bool else mask
    return mask if mask.ndim == 2 else mask.unflatten(0, (batch, -1))


ATTENTION_BEYOND_TORCH = ("rope", "qk_norm", "head_dim", "bias", "scale", "softcap")
BEYOND_TORCH = ("rms_norm", "gated", "num_kv_heads", "sandwich", "parallel", *ATTENTION_BEYOND_TORCH)


def of_layer(case, i):
    """The options of layer i of a stack: every n-th layer has no rotary positions, as in SmolLM3."""
    return case | dict(rope=0) if case.get("no_rope_every") and (i + 1) % case["no_rope_every"] == 0 else case


def make(case):
    g = lambda key, default=0: case.get(key, default)
    bias = not g("no_bias")
    match case["kind"]:
        case "attention":
            return nn.Module()
        case "linear":
            return nn.Linear(g("in_features"), g("out_features"), bias)
        case "embedding":
            return nn.Embedding(g("num_embeddings"), g("embedding_dim"))
        case "layer_norm":
            return nn.LayerNorm(g("dim"), g("eps") or 1e-5, bias=bias)
        case "rms_norm":
            return RmsNorm(g("dim"), g("eps") or 1e-5, g("offset"))
        case "mlp":
            return Mlp(g("dim"), g("hidden") or 4 * g("dim"), g("activation"), bias, g("gated"))
        case "positions":
            return Positions(g("max_length"), g("embed_dim"), g("learned"))
        case "mha":
            dim, heads = g("embed_dim"), g("num_heads")
            kdim, vdim = g("kdim") or dim, g("vdim") or dim
            if g("num_kv_heads") not in (0, heads) or any(g(option) for option in ATTENTION_BEYOND_TORCH):
                return Attention(case)
            return nn.MultiheadAttention(dim, heads, bias=bias, add_bias_kv=bool(g("add_bias_kv")), add_zero_attn=bool(g("add_zero_attn")),
                                         kdim=kdim, vdim=vdim, batch_first=True, dropout=g("dropout")).train(not g("evaluate"))
        case "encoder_layer" | "decoder_layer" as kind:
            if any(g(option) for option in BEYOND_TORCH):
                return Layer(case, kind == "decoder_layer")
            layer = nn.TransformerEncoderLayer if kind == "encoder_layer" else nn.TransformerDecoderLayer
            return layer(g("embed_dim"), g("num_heads"), g("hidden") or 4 * g("embed_dim"), 0.0, ACTIVATIONS[g("activation")],
                         g("eps") or 1e-5, batch_first=True, norm_first=bool(g("norm_first")), bias=bias)
        case "encoder" | "decoder" as kind:
            layers = [make(of_layer(case, i) | {"kind": kind + "_layer"}) for i in range(g("num_layers"))]
            size = g("embed_dim"), g("eps") or 1e-5
            norm = (RmsNorm(*size, g("norm_offset")) if g("rms_norm") else nn.LayerNorm(*size, bias=bias)) if g("final_norm") else None
            if isinstance(layers[0], Layer):
                return Stack(layers, norm)
            if kind == "encoder":
                return nn.TransformerEncoder(layers[0], len(layers), norm, enable_nested_tensor=False)
            return nn.TransformerDecoder(layers[0], len(layers), norm)
        case "transformer":
            return nn.Transformer(g("embed_dim"), g("num_heads"), g("num_encoder_layers"), g("num_decoder_layers"),
                                  g("hidden") or 4 * g("embed_dim"), 0.0, ACTIVATIONS[g("activation")], layer_norm_eps=g("eps") or 1e-5,
                                  batch_first=True, norm_first=bool(g("norm_first")), bias=bias)
    raise ValueError(case["kind"])


def draw_mask(case, t, s, prefix, generator, open_rows):
    """The masks of one attention, ours: true = may attend."""
    b, h = case["B"], case["num_heads"]
    made = {}
    shape = {"ts": (t, s), "b11s": (b, 1, 1, s), "b1ts": (b, 1, t, s), "bhts": (b, h, t, s), "s": (s,), "hts": (h, t, s), "t1": (t, 1),
             "h11": (h, 1, 1), "bh1s": (b, h, 1, s), "1": (), "": None}[case.get(prefix + "mask", "")]
    hides = case.get(prefix + "hides")       # some queries see nothing, and a float mask is -inf here and there
    if shape is not None and case.get(prefix + "mask_float"):
        made["mask"] = torch.randn(shape, generator=generator)
        if hides:
            made["mask"] = made["mask"].masked_fill(torch.rand(shape, generator=generator) < 0.3, -math.inf)
    elif shape is not None:
        made["mask"] = torch.rand(shape, generator=generator) < 0.6
    if hides and shape and len(shape) > 1:
        rows = (..., slice(None, None, 3), slice(None)) if shape[-2] > 1 else 0
        made["mask"][rows] = -math.inf if case.get(prefix + "mask_float") else False
    if case.get(prefix + "key_mask"):
        made["key_mask"] = torch.rand((b, s), generator=generator) < 0.7
    if case.get(prefix + "all_masked"):      # every query of the first sequence sees nothing
        made["key_mask"] = made.get("key_mask", torch.ones(b, s, dtype=torch.bool))
        made["key_mask"][0] = False
    elif open_rows and not hides:            # every query sees the first key
        for mask in made.values():
            if mask.dtype == torch.bool:
                mask[..., :1] = True
    return {prefix + key: value for key, value in made.items()}


def draw(case, seed, parameters):
    """Parameters and inputs: values that a float holds exactly."""
    generator = torch.Generator().manual_seed(seed)
    b, t, s = case.get("B", 2), case.get("T", 1), case.get("S", 1)
    randn = lambda *shape: torch.randn(shape, generator=generator)
    kind = case["kind"]
    params = {}
    for name, p in parameters:
        params[name] = randn(*p.shape) * (0.5 if p.ndim < 2 else 1 / math.sqrt(p.shape[-1])) + (p.ndim < 2 and "norm" in kind + name)
    if kind == "attention":
        h, kv, d = case["num_heads"], case["num_kv_heads"], case["d"]
        inputs = {"q": randn(b, h, t, d), "k": randn(b, kv, s, d), "v": randn(b, kv, s, case.get("dv") or d)}
        if case.get("large"):   # scores of 1e4
            inputs |= {x: inputs[x] * (1e4 / (case["scale"] or d ** -0.5) / d ** 0.5) ** 0.5 for x in "qk"}
        inputs |= draw_mask(case, t, s, "", generator, False)
    elif kind == "embedding":
        inputs = {"x": torch.randint(case["num_embeddings"], (b, t), generator=generator)}
    elif kind == "mha":
        dim = case["embed_dim"]
        inputs = {"q": randn(b, t, dim)}
        if case.get("cross"):
            inputs["k"] = randn(b, s, case.get("kdim") or dim)
            if not case.get("same_kv"):
                inputs["v"] = randn(b, s, case.get("vdim") or dim)
        inputs |= draw_mask(case, t, s if case.get("cross") else t, "", generator, True)
        if case.get("segments"):
            inputs["segments"] = torch.randint(-1, 2, (b, t), generator=generator)
        if case.get("lengths"):
            inputs["lengths"] = torch.randint(0, t + 1, (b,), generator=generator)
    elif kind == "transformer":
        dim = case["embed_dim"]
        inputs = {"src": randn(b, s, dim), "tgt": randn(b, t, dim)} | draw_mask(case, s, s, "src_", generator, True)
        inputs |= draw_mask(case, t, s, "cross_", generator, True) | draw_mask(case, t, t, "", generator, True)
    elif kind.startswith(("encoder", "decoder")):
        dim = case["embed_dim"]
        inputs = {"x": randn(b, t, dim)}
        if kind.startswith("decoder"):
            inputs["memory"] = randn(b, s, dim)
            inputs |= draw_mask(case, t, s, "cross_", generator, True)
        inputs |= draw_mask(case, t, t, "", generator, True)
    else:
        inputs = {"x": randn(b, t, case.get("in_features") or case.get("dim") or case.get("embed_dim"))}
    if case.get("positions"):   # of all rows, or of each row; any numbers
        inputs["positions"] = torch.randint(-20, 200, (b, t) if case["positions"] == "bt" else (t,), generator=generator)
    return params, {k: layout(case, k).values(x) for k, x in inputs.items()}


def torch_mask(case, inputs, prefix, t, s):
    """All masks of one attention as torch's one: (T, S) or (B H, T, S), true = ignore, or float."""
    b, h = case["B"], case["num_heads"]
    mask, key_mask = inputs.get(prefix + "mask"), inputs.get(prefix + "key_mask")
    i, j, keep = torch.arange(t)[:, None], torch.arange(s), None
    hide = lambda seen: seen if keep is None else keep & seen
    if case.get(prefix + "causal"):
        keep = hide(j <= i)
    if case.get("window_left") and prefix != "cross_":   # a layer's window is that of its self-attention
        keep = hide(i - j < case["window_left"])
    if case.get("window_right") and prefix != "cross_":
        keep = hide(j - i < case["window_right"])
    if key_mask is not None:
        keep = hide(key_mask[:, None, None, :])
    if "segments" in inputs:
        keep = hide(inputs["segments"][:, None, :, None] == inputs["segments"][:, None, None, :])
    if "lengths" in inputs:
        keep = hide(torch.maximum(i, j) < inputs["lengths"][:, None, None, None])
    if mask is None and keep is None:
        return None
    if mask is None or mask.dtype == torch.bool:
        keep = mask if keep is None else keep if mask is None else keep & mask
        whole = ~keep
    else:
        whole = mask if keep is None else mask.masked_fill(~keep, -math.inf)
    return whole.expand(t, s) if whole.ndim == 2 else whole.expand(b, h, t, s).flatten(0, 1)


def weights_of(attention, case, prefix, found, key):
    """Makes the attention of a layer give its weights too."""

    def before(_, args, kwargs):
        return args, kwargs | {"need_weights": True, "average_attn_weights": not case.get(prefix + "per_head")}

    def after(_, args, kwargs, output):
        found[key] = output[1]

    if case.get(prefix + "need_weights"):
        attention.register_forward_pre_hook(before, with_kwargs=True)
        attention.register_forward_hook(after, with_kwargs=True)


def forward(case, params, inputs):
    """Output name to tensor."""
    if case["kind"] == "attention":
        q, k, v = [inputs[x] for x in "qkv"]
        keep = keep_of(torch_mask(case, inputs, "", q.shape[2], k.shape[2]), case["B"])
        out, weights = attend(q, k, v, keep, case.get("scale") or None, bool(case.get("need_weights")))
        return {"out": out} | ({} if weights is None else {"weights": weights})
    module = make(case).double() if next(iter(inputs.values())).dtype == torch.float64 or case["kind"] == "embedding" else make(case)
    call = lambda *args, **kwargs: torch.func.functional_call(module, params, args, kwargs)
    for attention in module.modules():
        if isinstance(attention, Attention):
            attention.positions = inputs.get("positions")
    kind, found = case["kind"], {}
    if kind == "mha":
        q = inputs["q"]
        k = inputs.get("k", q)
        v = inputs.get("v", k)
        t, s = q.shape[1], k.shape[1]
        mask = torch_mask(case, inputs, "", t, s)
        own = dict(attn_mask=mask, need_weights=bool(case.get("need_weights")), average_attn_weights=not case.get("per_head"))
        out, weights = call(q, k, v, **own)
        if weights is not None and weights.isnan().any():   # of a query that sees nothing: torch gives zeros without weights only
            out, weights = torch.func.functional_call(Attention(case), params, (q, k, v), own)
        return {"out": out} | ({} if weights is None else {"weights": weights})
    if kind == "encoder_layer":
        x = inputs["x"]
        weights_of(module.self_attn, case, "", found, "self_weights")
        return {"out": call(x, src_mask=torch_mask(case, inputs, "", x.shape[1], x.shape[1]))} | found
    if kind == "decoder_layer":
        x, memory = inputs["x"], inputs["memory"]
        t, s = x.shape[1], memory.shape[1]
        weights_of(module.self_attn, case, "", found, "self_weights")
        weights_of(module.multihead_attn, case, "cross_", found, "cross_weights")
        masks = dict(tgt_mask=torch_mask(case, inputs, "", t, t), memory_mask=torch_mask(case, inputs, "cross_", t, s))
        return {"out": call(x, memory, **masks)} | found
    if kind == "encoder":
        x = inputs["x"]
        return {"out": call(x, mask=torch_mask(case, inputs, "", x.shape[1], x.shape[1]))}
    if kind == "decoder":
        x, memory = inputs["x"], inputs["memory"]
        t, s = x.shape[1], memory.shape[1]
        return {"out": call(x, memory, tgt_mask=torch_mask(case, inputs, "", t, t), memory_mask=torch_mask(case, inputs, "cross_", t, s))}
    if kind == "transformer":
        src, tgt = inputs["src"], inputs["tgt"]
        s, t = src.shape[1], tgt.shape[1]
        masks = dict(src_mask=torch_mask(case, inputs, "src_", s, s), tgt_mask=torch_mask(case, inputs, "", t, t))
        return {"out": call(src, tgt, memory_mask=torch_mask(case, inputs, "cross_", t, s), **masks)}
    return {"out": call(inputs["x"])}


def answer(case, params, inputs, seed, dtype=torch.float64):
    """Outputs, cotangents and gradients (of parameters and real inputs, by name), as PyTorch computes them in that dtype."""
    real = lambda v: v.dtype.is_floating_point
    params = {k: v.to(dtype).requires_grad_() for k, v in params.items()}
    inputs = {k: v.to(dtype).requires_grad_() if real(v) else v for k, v in inputs.items()}
    outputs = forward(case, params, inputs)
    generator = torch.Generator().manual_seed(seed + 1)
    cotangents = {k: torch.randn(v.shape, generator=generator) for k, v in outputs.items() if v.requires_grad}
    leaves = params | {k: v for k, v in inputs.items() if real(v)}
    seeds = [g.to(dtype) for g in cotangents.values()]
    grads = torch.autograd.grad([outputs[k] for k in cotangents], list(leaves.values()), seeds, allow_unused=True)
    return {k: v.detach() for k, v in outputs.items()}, cotangents, \
        {k: torch.zeros_like(v) if d is None else d for (k, v), d in zip(leaves.items(), grads)}
