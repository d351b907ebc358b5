"""Draws the benchmark's two pictures as SVG: steps.svg, the time of a step by row; attention.svg, attention's time and memory by T."""
import math

OURS, THEIRS, INK, GRID = "#1f6fb4", "#c8641e", "#333", "#ddd"


class Picture:
    def __init__(self, width, height, title):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            'font-family="system-ui, sans-serif" font-size="13">',
            f"<title>{title}</title>", f'<rect width="{width}" height="{height}" fill="white"/>']
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


def steps(results, path, wanted):
    """A line a row and number of threads: a dot for ours, one for PyTorch's, and how many times as fast ours is."""
    rows = [r for r in results["rows"] if r["row"] in wanted]
    if not rows:
        return []
    many = len({r["threads"] for r in rows}) > 1
    top, left, right, gap = 92, 190, 800, 24
    bottom = top + gap * len(rows)
    p = Picture(900, bottom + 60, "Time of a whole step")
    x, marks = log_axis([r[s]["ms"] for r in rows for s in ("ours", "torch") if s in r], left, right)
    for mark in marks:
        p.line([(x(mark), top), (x(mark), bottom)], GRID)
        p.text(x(mark), bottom + 18, short(mark), "middle")
    p.text((left + right) / 2, bottom + 42, "milliseconds, each mark ten times the last", "middle")
    for i, (name, color, here) in enumerate([("cotangent", OURS, 0), ("PyTorch, eager", THEIRS, 130)]):
        p.dot(left + here, 56, color)
        p.text(left + here + 12, 60, name)
    if many:
        p.dot(left + 290, 56, INK, hollow=True)
        p.text(left + 302, 60, "hollow: more than one thread")
    p.text(right + 14, top - 10, "times as fast")
    for i, r in enumerate(rows):
        y = top + gap * (i + 0.5)
        if i == 0 or rows[i - 1]["row"] != r["row"]:
            p.text(left - 14, y + 5, r["row"], "end")
            p.line([(left, y - gap / 2), (right, y - gap / 2)], GRID)
        if "torch" in r:
            p.line([(x(r["ours"]["ms"]), y), (x(r["torch"]["ms"]), y)], "#bbb", 2)
            p.dot(x(r["torch"]["ms"]), y, THEIRS, r["threads"] > 1)
            p.text(right + 14, y + 5, f"{r['torch']['ratio']:.2f}", color=OURS if r["torch"]["ratio"] >= 1 else THEIRS)
        p.dot(x(r["ours"]["ms"]), y, OURS, r["threads"] > 1)
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
        for kind, what, dash in (("attention", "fused", ""), ("cti_attention_weights", "with weights", "6 4")):
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
