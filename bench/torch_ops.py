"""Times in PyTorch what build/bench/ops timed: reads its lines on stdin, prints one for each with ns of forward and of both. The
expression is ops.def's torch column, the inputs have the shapes of ours."""
import json
import math
import re
import statistics
import sys
import time

import torch
import torch.nn.functional as F

ROUNDS = 15


def make(spec):
    kind, low, high, sizes = re.fullmatch(r"(\w)(?:\(([^,]+),([^)]+)\))?(?:\[([\d,]*)\])?", spec).groups()
    shape = [int(s) for s in sizes.split(",")] if sizes else []
    if kind == "N":
        return None
    if kind == "I":
        return torch.randint(int(float(low)), int(float(high)), shape)
    if kind == "B":
        return torch.rand(shape) < 0.5
    x = torch.randn(shape) if low is None else torch.empty(shape).uniform_(float(low), float(high))
    return x.requires_grad_(kind != "C")


def median_ns(call):
    start = time.perf_counter_ns()
    call()
    n, rounds = int(500_000 / (time.perf_counter_ns() - start)) + 1, []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter_ns()
        for _ in range(n):
            call()
        rounds.append((time.perf_counter_ns() - start) / n)
    return statistics.median(rounds[1:])


def measure(op):
    if op["torch"] == "NONE" or "error" in op:
        return {"forward": None, "both": None}
    x = [make(spec) for spec in op["inputs"].split()]
    run = eval("lambda: " + op["torch"], {"torch": torch, "F": F, "math": math, "x": x})
    with torch.no_grad():
        result = {"forward": median_ns(run), "both": None}
    y = run()
    if isinstance(y, torch.Tensor) and y.requires_grad:
        g = torch.randn_like(y)

        def both():
            for t in x:
                if t is not None:
                    t.grad = None
            run().backward(g)

        result["both"] = median_ns(both)
    return result


torch.set_num_threads(int(sys.argv[1]))
for line in sys.stdin:
    try:
        print(json.dumps(measure(json.loads(line))), flush=True)
    except Exception as error:  # a call that does not fit the grown shapes here
        print(json.dumps({"forward": None, "both": None, "error": str(error)}), flush=True)
