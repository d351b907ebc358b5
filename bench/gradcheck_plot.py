"""Draws what gradcheck_eps prints: the error of central differences by the step, and the noise that the check reports.
Usage: PICTURE < LINES"""
import sys

from plot import GRID, INK, OURS, THEIRS, Picture, log_axis

curves = {}
for line in sys.stdin:
    dtype, *numbers = line.split()
    curves.setdefault(dtype, []).append([max(float(n), 1e-16) for n in numbers])
every = [row for rows in curves.values() for row in rows]

left, right, top, bottom = 80, 740, 60, 440
p = Picture(900, 510, "Central differences: the error by the step")
x, steps = log_axis([row[0] for row in every], left, right)
y, errors = log_axis([v for row in every for v in row[1:]], bottom, top)
for mark in steps:
    p.line([(x(mark), top), (x(mark), bottom)], GRID)
    p.text(x(mark), bottom + 18, f"{mark:.0e}", "middle", 11)
for mark in errors[::2]:
    p.line([(left, y(mark)), (right, y(mark))], GRID)
    p.text(left - 8, y(mark) + 4, f"{mark:.0e}", "end", 11)
p.text((left + right) / 2, bottom + 44, "eps", "middle")
p.text(22, (top + bottom) / 2, "largest error of an element", "middle", turn=-90)
for dtype, color, default in (("f64", OURS, 1e-6), ("f32", THEIRS, 1e-2)):
    rows = curves[dtype]
    p.line([(x(default), top), (x(default), bottom)], color, 1, "2 4")
    p.text(x(default), top - 8, f"{dtype}: default {default:g}", "middle", 12, color)
    p.line([(x(e), y(error)) for e, error, _ in rows], color, 2.5)
    p.line([(x(e), y(noise)) for e, _, noise in rows], color, 1.2, "6 3")
    e, error, _ = rows[0]
    p.text(x(e) + 6, y(error) - 10, dtype, "start", 15, color)
for i, (dash, width, what) in enumerate((("", 2.5, "error: difference"), ("6 3", 1.2, "noise: what two steps"))):
    p.line([(right + 12, 100 + 48 * i), (right + 40, 100 + 48 * i)], INK, width, dash)
    p.text(right + 12, 118 + 48 * i, what, size=11)
    p.text(right + 12, 131 + 48 * i, ("and backward disagree", "disagree by")[i], size=11)
p.save(sys.argv[1])
