"""What every program of Python that runs a row has: the numbers to start from, and the rounds. As in rows.c."""
import json
import resource
import sys
import time

import numpy


def name_bits(name, start, count):
    """Values start ... start + count of a name: see row.h."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    h = numpy.uint32(h) ^ numpy.arange(start, start + count, dtype=numpy.uint32) * numpy.uint32(0x9E3779B9)
    h = (h ^ h >> numpy.uint32(16)) * numpy.uint32(0x85EBCA6B)
    h = (h ^ h >> numpy.uint32(13)) * numpy.uint32(0xC2B2AE35)
    return h ^ h >> numpy.uint32(16)


def peak_memory():
    for line in open("/proc/self/status") if sys.platform == "linux" else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(options, make):
    """Makes the row, then runs as many steps as each line of stdin says, and prints a line of JSON for each; see rows.c."""
    base = peak_memory()  # of Python with its packages, before any model
    step, value = make(options)
    step()
    print(json.dumps({"row": options.row, "threads": options.threads, "value": value()}), flush=True)
    steps = 1
    for line in sys.stdin:
        start, work = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            step()
        seconds, cpu = time.perf_counter() - start, time.process_time() - work
        steps += int(line)
        print(json.dumps({"steps": int(line), "seconds": seconds, "cpu": cpu, "value": value()}), flush=True)
    print(json.dumps({"memory": peak_memory(), "memory_before": base, "steps": steps}), flush=True)
