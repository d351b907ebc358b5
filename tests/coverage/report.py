#!/usr/bin/env python3
"""What `make coverage` says of a trace of lcov: totals, the worst files, and whether left.txt is right. Exit code 1 below a limit, or if an entry of
left.txt is stale. Lines that no test reaches and that are not in left.txt are printed.

    report.py TRACE [LINES BRANCHES]      per cent; without limits (a part of the suite) only the totals and the worst files
"""
import collections
import os
import re
import sys

sys.dont_write_bytecode = True
LIST = "tests/coverage/left.txt"
WORST = 12   # files of each table


class File:
    """How often each line and branch ran, summed over the objects that were compiled from the file."""
    def __init__(self):
        self.lines, self.branches, self.functions = collections.Counter(), collections.Counter(), {}

    def missed(self):
        return [line for line, count in sorted(self.lines.items()) if count == 0]

    def untaken(self):
        """Lines that run, of which a branch was never taken."""
        return sorted({key[0] for key, count in self.branches.items() if count == 0 and self.lines[key[0]]})

    def function(self, line):
        return self.functions.get(max((start for start in self.functions if start <= line), default=0), "")


def read_trace(path):
    files, file = collections.defaultdict(File), None
    for row in open(path):
        kind, _, rest = row.strip().partition(":")
        part = rest.split(",")
        if kind == "SF":
            file = files[os.path.relpath(rest)]
        elif kind == "FN":   # lcov 2 has the last line between the two
            file.functions[int(part[0])] = part[-1]
        elif kind == "DA":
            file.lines[int(part[0])] += int(part[1])
        elif kind == "BRDA":
            file.branches[int(part[0]), part[1], part[2]] += 0 if part[3] == "-" else int(part[3])
    return files


class Entry:
    def __init__(self, at, file, function):
        self.at, self.file, self.function, self.texts, self.reason = at, file, function, [], ""


def read_list(path):
    """The blocks of left.txt, and what is wrong with its form."""
    entries, faults, entry = [], [], None
    for at, row in enumerate(open(path).read().splitlines(), 1):
        mark, text = row[:2], row[2:].strip()
        if row.startswith("#") or not row.strip():
            continue
        if mark in ("- ", "? ", "/ ") and entry and not entry.reason and text:
            entry.texts.append((mark[0], text))
        elif mark == "= " and entry and entry.texts and text:
            entry.reason = text
        elif re.fullmatch(r"\S+\.[ch] \w+", row) and (not entry or entry.reason):
            entry = Entry(at, *row.split())
            entries.append(entry)
        else:
            faults.append(f"{path}:{at}: not a block of a file and a function, lines, and a reason: {row}")
    faults += [f"{path}:{e.at}: without a reason" for e in entries if not e.reason]
    return entries, faults


def check_list(files, sources, entries):
    """(what left.txt lacks, what is stale in it)."""
    known, stale = collections.Counter(), []
    for e in entries:
        where = f"{LIST}:{e.at}: {e.file} {e.function}:"
        if e.file not in files:
            stale.append(f"{where} no such file")
            continue
        file, source = files[e.file], sources[e.file]
        for mark, text in e.texts:
            same = [line for line in file.lines if source[line - 1].strip() == text and file.function(line) == e.function]
            gone = [line for line in same if file.lines[line] == 0]
            if not same:
                stale.append(f"{where} has no such line: {text}")
            elif mark == "/":
                if not any(line in file.untaken() for line in same):
                    stale.append(f"{where} all branches are taken now: {text}")
                continue
            elif not gone and mark == "-":
                stale.append(f"{where} runs now: {text}")
            for line in gone:
                known[e.file, line] += 1
    missing = [f"{name}:{line}: in {file.function(line)}: {sources[name][line - 1].strip()}"
               for name, file in sorted(files.items()) for line in file.missed() if not known[name, line]]
    return missing, stale


def share(counts):
    return 100 * sum(1 for count in counts if count) / len(counts) if counts else 100.0


def table(title, rows):
    print(f"{title}, the worst files")
    for bad, all_, name in sorted(rows, key=lambda row: (-row[0], row[2]))[:WORST]:
        if bad:
            print(f"  {bad:4d} of {all_:4d} missed, {100 * (all_ - bad) / all_:5.1f} %  {name}")


def main(trace, least_lines=None, least_branches=None):
    files = read_trace(trace)
    if not files:
        sys.exit(f"coverage: {trace} has no files")
    table("lines", [(len(f.missed()), len(f.lines), name) for name, f in files.items()])
    table("branches", [(sum(not c for c in f.branches.values()), len(f.branches), name) for name, f in files.items()])
    lines = [count for f in files.values() for count in f.lines.values()]
    branches = [count for f in files.values() for count in f.branches.values()]
    print(f"lines    {share(lines):6.2f} % of {len(lines)}")
    print(f"branches {share(branches):6.2f} % of {len(branches)}")
    if least_lines is None:
        return 0

    sources = {name: open(name).read().split("\n") for name in files}
    entries, faults = read_list(LIST)
    missing, stale = check_list(files, sources, entries)
    for fault in faults + stale:
        print(f"coverage: {fault}")
    for line in missing:
        print(f"coverage: not in {LIST}, and no test reaches {line}")
    for what, counts, least in (("lines", lines, float(least_lines)), ("branches", branches, float(least_branches))):
        if share(counts) < least:
            faults.append(what)
            print(f"coverage: fewer than {least:g} % of {what}")
    left = sum(not count for count in lines)
    print(f"coverage: {left} lines are left, {left - len(missing)} of them in {LIST}")
    return 1 if faults or stale else 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
