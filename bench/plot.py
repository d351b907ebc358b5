"""Draws the benchmark's two pictures as SVG: steps.svg, the time of a step beside PyTorch's; attention.svg, attention's time and memory
by T. `python3 bench/plot.py [RESULTS [PICTURE]]` draws the first from results.json; without arguments, docs/steps.svg from
docs/results.json, the figures of docs/performance.md."""
import json
import math
import sys

OURS, THEIRS, INK, GRID = "#1f6fb4", "#c8641e", "#333", "#ddd"


class Picture:
    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="system-ui, sans-serif" font-size="13">',
            f"<title>{title}</title>",
            f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6" fill="white" stroke="{GRID}"/>']
        self.text(width / 2, 26, title, anchor="middle", size=17)

    def text(self, x, y, text, anchor="start", size=13, color=INK, turn=0):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{color}"{turned}>{text}</text>')

    def line(self, points, color, width=1.0, dash=""):
        at = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{at}" fill="none" stroke="{color}" stroke-width="{width}"{dashed}/>')

    def dot(self, x, y, color, hollow=False, radius=5):
        fill = "white" if hollow else color
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{fill}" stroke="{color}" stroke-width="2"/>')

    def box(self, x, y, width, height, color):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{color}"/>')

    def diamond(self, x, y, color, size=6):
        self.parts.append(f'<path d="M{x - size:.1f} {y:.1f}l{size} {-size}l{size} {size}l{-size} {size}z" fill="{color}"/>')

    def save(self, path):
        with open(path, "w") as file:
            file.write("\n".join(self.parts + ["</svg>\n"]))
        return [path]


def log_axis(values, low, high):
    """Where a value stands, and the powers of ten around the values."""
    first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    last += first == last
    return lambda v: low + (high - low) * (math.log10(v) - first) / (last - first), [10.0**e for e in range(first, last + 1)]


def short(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


# The rows in the picture of steps, and their titles there.
STEPS = {
    "micro": "microgpt, 4,192 parameters",
    "micro_16": "the same, 16 names a step",
    "toy": "GPT, 2 layers, width 64",
    "char_small": "GPT, 4 layers, width 128",
    "char_baby": "GPT, 6 layers, width 384",
    "gpt2_124m": "GPT-2, 124 M parameters",
    "mha_seed": "attention, 20 tokens",
    "mha_long_512": "attention, 512 tokens, causal",
    "mha_long_4096": "attention, 4,096 tokens, causal",
    "mha_long_weights_4096": "the same, with its weights"}


# The sides in bfloat16 of the picture of steps.
BF16 = (("ours_bf16", "ours", "#123f66"), ("bf16", "PyTorch", THEIRS))


def figure(value):
    """Three digits, or all before the point: 0.0123, 1.30, 1,757."""
    return f"{value:,.{max(0, 2 - math.floor(math.log10(value)))}f}"


def faster(result):
    """The time of the faster of PyTorch's two, eager and compiled, and how many times ours it is, of rounds side by side."""
    found = [result[side] for side in ("torch", "compiled") if side in result]
    return min(s["ms"] for s in found), result.get("ratio") or min(s["ratio"] for s in found)


def steps(results, path, wanted=STEPS):
    """A bar a row and number of threads: the time of our step, PyTorch's being 1. Diamonds: ours and PyTorch's in bfloat16,
    where that is less."""
    rows = [r for r in results["rows"] if r["row"] in STEPS and r["row"] in wanted and ("torch" in r or "compiled" in r)]
    if not rows:
        return []
    kinds, threads = list(dict.fromkeys(r["row"] for r in rows)), sorted({r["threads"] for r in rows})
    shades = dict(zip(threads, (OURS, "#7fb2dc", "#b9d4ec")))
    bar, left, right, top = 14, 232, 632, 112
    height = bar * len(threads) + 16
    bottom = top + height * len(kinds)
    p = Picture(900, bottom + 62, "Time of a training step, or of attention with its gradients")
    x = lambda share: left + (right - left) * share / 1.1
    for share in (0, 0.25, 0.5, 0.75, 1):
        p.line([(x(share), top), (x(share), bottom)], INK if share == 1 else GRID, 2 if share == 1 else 1)
        p.text(x(share), top - 9, f"{share:g}" if share != 1 else "PyTorch = 1", "middle")
    at = left
    for t in threads:
        p.box(at, 52, 22, bar - 2, shades[t])
        p.text(at + 28, 63, f"{t} thread{'s' * (t > 1)}")
        at += 110
    for side, name, color in BF16:
        if any(side in r for r in rows):
            p.diamond(at + 6, 58, color)
            p.text(at + 18, 63, f"{name} in bf16")
            at += 110
    p.text(right + 24, top - 9, "times as fast")
    p.text(868, top - 9, "ms, ours : PyTorch", "end")
    for i, kind in enumerate(kinds):
        y = top + height * i + 8
        p.text(left - 12, y + bar * len(threads) / 2 + 4, STEPS[kind], "end")
        for r in (r for r in rows if r["row"] == kind):
            theirs, ratio = faster(r)
            p.box(left, y, x(1 / ratio) - left, bar - 2, shades[r["threads"]])
            for (side, _, color), f32 in zip(BF16, (r["ours"]["ms"], theirs)):
                if side in r and r[side]["ms"] < f32:
                    p.diamond(x(r[side]["ms"] / theirs), y + bar / 2 - 1, color)
            p.text(right + 24, y + 11, f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}", size=12)
            p.text(868, y + 11, f"{figure(r['ours']['ms'])} : {figure(theirs)}", "end", 12)
            y += bar
    m = results["machine"]
    p.text(left, bottom + 24, "Shorter is faster. Bars: f32, the faster of eager and torch.compile. Diamonds: bf16, where less.")
    p.text(left, bottom + 44, f"Attention: E 512, H 8. {m['cpu']}, {m['cores']} cores; PyTorch {m['torch']}; {m['date'][:10]}")
    return p.save(path)


def attention(results, path, lengths):
    """Two panels over T, both axes logarithmic: time, and memory beyond what the program had before."""
    measured = {}
    for r in results["rows"]:
        if r["row"].startswith("attention_"):
            measured[r["row"], r["threads"]] = r
    threads = max((t for _, t in measured), default=0)
    curves = []
    for side, name, color in (("ours", "cotangent", OURS), ("torch", "PyTorch", THEIRS)):
        for kind, what, dash in (("attention", "fused", ""), ("attention_weights", "with weights", "6 4")):
            found = [(t, measured[f"{kind}_{t}", threads].get(side)) for t in lengths if (f"{kind}_{t}", threads) in measured]
            found = [(t, s) for t, s in found if s]
            if len(found) > 1:
                curves.append((f"{name}, {what}", color, dash, found))
    if not curves:
        return []
    p = Picture(1000, 470, f"Attention, forward and backward: B 1, H 8, d 64, causal, f32, {threads} thread{'s' * (threads > 1)}")
    growth = lambda s: max(1e5, s["memory"] - s["memory_before"]) / 1e6
    panels = (("milliseconds", lambda s: s["ms"]), ("megabytes beyond the start", growth))
    for i, (what, value) in enumerate(panels):
        left, right, top, bottom = 80 + 490 * i, 480 + 490 * i, 100, 400
        x = lambda t: left + (right - left) * math.log2(t / lengths[0]) / math.log2(lengths[-1] / lengths[0])
        y, marks = log_axis([value(s) for c in curves for _, s in c[3]], bottom, top)
        for mark in marks:
            p.line([(left, y(mark)), (right, y(mark))], GRID)
            p.text(left - 8, y(mark) + 4, short(mark), "end")
        for t in lengths:
            p.line([(x(t), top), (x(t), bottom)], GRID)
            p.text(x(t), bottom + 18, f"{t:,}", "middle")
        p.text((left + right) / 2, bottom + 42, "T, queries and keys", "middle")
        p.text(left - 54, (top + bottom) / 2, what, "middle", turn=-90)
        for _, color, dash, found in curves:
            p.line([(x(t), y(value(s))) for t, s in found], color, 2, dash)
            for t, s in found:
                p.dot(x(t), y(value(s)), color, bool(dash), 4)
    for i, (name, color, dash, _) in enumerate(curves):
        p.line([(80 + 236 * i, 62), (110 + 236 * i, 62)], color, 2, dash)
        p.text(118 + 236 * i, 66, name)
    return p.save(path)


if __name__ == "__main__":
    source, picture = (sys.argv[1:] + ["docs/results.json", "docs/steps.svg"][len(sys.argv) - 1 :])[:2]
    with open(source) as file:
        drawn = steps(json.load(file), picture)
    if not drawn:
        sys.exit(f"{source} has no row beside PyTorch")
