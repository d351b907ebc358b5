#!/usr/bin/env python3
"""Mutation testing of the backward code in ops/, of nn/ and of ext/ranks/: `make mutate`. README.md says what is counted and how.
From the environment: SAMPLE, SEED, FILE, LEAST, JOBS, FRESH, BUILD."""
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.dont_write_bytecode = True
os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
import equivalents as listed
from suite import BUILD, CC, FLAGS, HERE, JOBS, SANITIZED, Suite, compile_text, digest, run

WARN = shlex.split(os.environ["WARN"])
SAMPLE = int(os.environ.get("SAMPLE") or 0)
SEED = int(os.environ.get("SEED") or 1)
FILE = os.environ.get("FILE")
ABOVE = 1000       # mutants of nn/ and ext/ranks/ in a whole run
GROUPS = {"ops": ("ops/",), "nn and ext": ("nn/", "ext/")}
LEAST = float(os.environ.get("LEAST") or 0.99)   # of the mutants that can be told apart must be killed
FATES = ["mutants", "did not compile", "same object", "duplicates", "warned", "equivalent", "killed", "by sanitizers", "survived"]


class Notes:
    """What is known, a line a fact, written as it is found: so a run that ended goes on where it was."""
    def __init__(self, path):
        if os.environ.get("FRESH"):
            Path(path).unlink(missing_ok=True)
        self.known, self.lock = {}, threading.Lock()
        if os.path.exists(path):
            for line in Path(path).read_text().splitlines():
                try:
                    key, value = json.loads(line)
                    self.known[key] = value
                except ValueError:   # cut off as it was written
                    pass
        self.file = open(path, "a")

    def get(self, key):
        return self.known.get(key)

    def put(self, key, value):
        with self.lock:
            self.known[key] = value
            self.file.write(json.dumps([key, value]) + "\n")
            self.file.flush()


class Compiler:
    def __init__(self, notes):
        self.notes = notes
        self.version, self.states = run([CC, "--version"]), {}
        self.folder = f"{HERE}/objects"
        os.makedirs(self.folder, exist_ok=True)

    def state(self, file):
        """Of all that its objects depend on besides its own text."""
        if file not in self.states:
            headers = re.findall(r"\S+\.h\b(?!:)", Path(f"{BUILD}/obj/{file[:-2]}.d").read_text())
            self.states[file] = digest(self.version, *FLAGS, *(Path(h).read_bytes() for h in sorted(set(headers))))
        return self.states[file]

    def path(self, object):
        return f"{self.folder}/{object}.o"

    def compile(self, file, text):
        """What identifies the object, which is kept; "": it does not compile."""
        with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as out:
            pass
        object = digest(Path(out.name).read_bytes()) if compile_text(file, text, out.name) else ""
        if object:
            os.replace(out.name, self.path(object))
        else:
            os.unlink(out.name)
        return object

    def object_of(self, file, text):
        key = "compiled " + digest(self.state(file), file, text)
        object = self.notes.get(key)
        if object is None:
            object = self.compile(file, text)
            self.notes.put(key, object)
        return object

    def object_file(self, mutant):
        if not os.path.exists(self.path(mutant.object)):
            self.compile(mutant.file, mutant.text)
        return self.path(mutant.object)


def distinct(mutants, compiler, pool, most=None):
    """Those that compile to an object of their own, up to so many; each mutant that was looked at has a fate."""
    originals = {file: compiler.object_of(file, Path(file).read_text()) for file in {m.file for m in mutants}}
    seen, chosen = set(), []
    for at in range(0, len(mutants), 64):
        part = mutants[at:at + 64]
        for m, object in zip(part, pool.map(lambda m: compiler.object_of(m.file, m.text), part)):
            if most is not None and len(chosen) == most:
                return chosen
            m.object = object
            if not object:
                m.fate = "did not compile"
            elif object == originals[m.file]:
                m.fate = "same object"
            elif (m.file, object) in seen:
                m.fate = "duplicates"
            else:
                seen.add((m.file, object))
                chosen.append(m)
        if at % 1024 == 0:
            print(f"  {min(at + 64, len(mutants))} of {len(mutants)} looked at, {len(chosen)} to run", flush=True)
    return chosen


class Judge:
    def __init__(self, suite, compiler, notes):
        self.suite, self.compiler, self.notes = suite, compiler, notes
        self.tries, self.kills = Counter(), Counter()
        self.lock, self.sanitized = threading.Lock(), None

    def verdict_key(self, mutant, program):
        return f"passed {mutant.object} {self.suite.sha[program]}"

    def order(self, mutant):
        """[(program, tests)]: who has killed this one before; then who kills most of this file's a second."""
        def worth(entry):
            program, tests = entry
            known = self.notes.get(self.verdict_key(mutant, program))
            place = (mutant.file, program)
            rate = (self.kills[place] + 0.3) / (self.tries[place] + 1) / (self.suite.takes(program, tests) + 0.05)
            return (known is False, rate)
        return sorted(sorted(self.suite.tests_for(mutant).items()), key=worth, reverse=True)

    def killer(self, mutant, suite, key, object_file, tests_of=lambda program, tests: tests):
        """The first program of a suite that fails with it."""
        binaries = {}
        with tempfile.TemporaryDirectory(dir=HERE) as folder:
            for program, all_tests in self.order(mutant):
                tests = tests_of(program, all_tests)
                passed = self.notes.get(key(program))
                if passed is None:
                    group = suite.group[program]
                    if group not in binaries:
                        binaries[group] = f"{folder}/{group}"
                        if not suite.link(group, [object_file(folder)], binaries[group]):
                            return "the linker"
                    passed = suite.passes(program, tests, binaries[group], self.suite.takes(program, tests))
                    self.notes.put(key(program), passed)
                if suite is self.suite:
                    self.tries[mutant.file, program] += 1
                    self.kills[mutant.file, program] += not passed
                if not passed:
                    return program
        return None

    def judge(self, mutant, listed):
        """Sets mutant.fate, and mutant.killer. Is it listed as equivalent?"""
        mutant.killer = self.killer(mutant, self.suite, lambda program: self.verdict_key(mutant, program),
                                    lambda folder: self.compiler.object_file(mutant))
        Path(self.compiler.path(mutant.object)).unlink(missing_ok=True)
        mutant.fate = {"the linker": "did not compile", None: "survived"}.get(mutant.killer, "killed")
        if mutant.fate == "survived" and listed:
            mutant.fate = "equivalent"
        if mutant.fate != "survived":
            return
        if not compile_text(mutant.file, mutant.text, f"{HERE}/warned_{threading.get_ident()}.o", [*WARN, "-Werror"]):
            mutant.fate = "warned"
            return
        with self.lock:
            self.sanitized = self.sanitized or Suite(self.suite.sources, sanitized=True)
        source = digest(self.compiler.state(mutant.file), *SANITIZED, mutant.file, mutant.text)

        def object_file(folder):
            compile_text(mutant.file, mutant.text, f"{folder}/mutant.o", flags=SANITIZED)
            return f"{folder}/mutant.o"
        mutant.killer = self.killer(mutant, self.sanitized, lambda program: f"sanitized {source} {self.sanitized.sha[program]}",
                                    object_file, self.suite.shortest)
        if mutant.killer:
            mutant.fate = "by sanitizers"


def share(count):
    killed = count["killed"] + count["by sanitizers"]
    return killed / (killed + count["survived"]) if killed + count["survived"] else 1.0


def report(mutants, equivalents, seconds):
    """Writes report.txt and report.json. Is it good enough?"""
    by_file = {}
    for m in mutants:
        by_file.setdefault(m.file, Counter()).update(["mutants", m.fate])
    lines = [f"{'':28}" + "".join(f"{fate:>17}" for fate in FATES) + f"{'share killed':>14}"]
    for group, folders in GROUPS.items():
        total = Counter()
        for file, count in sorted(by_file.items()):
            if file.startswith(folders):
                total.update(count)
                lines.append(f"{file:28}" + "".join(f"{count[fate]:17}" for fate in FATES) + f"{share(count):13.1%}")
        if total:
            lines.append(f"{group + ', all':28}" + "".join(f"{total[fate]:17}" for fate in FATES) + f"{share(total):13.1%}\n")
    survivors = [m for m in mutants if m.fate == "survived"]
    lines += [f"survived: {m.file}:{m.line} {m.function or ''}\n- {m.before}\n+ {m.after}" for m in survivors]
    wrong = [m for m in mutants if m.key in equivalents and m.fate in ("killed", "by sanitizers")]
    lines += [f"listed as equivalent, and killed by {m.killer}: {m.file}:{m.line}\n- {m.before}\n+ {m.after}" for m in wrong]
    lines.append(f"{seconds:.0f} s on {JOBS} at a time; seed {SEED}")
    Path(f"{HERE}/report.txt").write_text("\n".join(lines) + "\n")
    Path(f"{HERE}/report.json").write_text(json.dumps(
        [{"file": m.file, "function": m.function, "line": m.line, "before": m.before, "after": m.after, "fate": m.fate,
          "killer": getattr(m, "killer", None), "why": equivalents.get(m.key)} for m in mutants], indent=0))
    print("\n".join(lines))
    groups = [sum(GROUPS.values(), ())] if SAMPLE else GROUPS.values()   # of a sample there are too few for two shares
    shares = [share(Counter(m.fate for m in mutants if m.file.startswith(group))) for group in groups]
    return min(shares) >= LEAST and not wrong


def draw(mutant):
    """The place in a seeded order, which comes from what the mutant is, so that a change elsewhere draws no others."""
    return digest(str(SEED), *mutant.key)


def main():
    begin = time.monotonic()
    os.makedirs(HERE, exist_ok=True)
    equivalents = listed.read()
    ops_mutants, above = listed.mutants()
    suite = Suite(sorted(map(str, Path("ops").rglob("*.c"))) + listed.files_above())
    notes = Notes(f"{HERE}/notes")
    compiler = Compiler(notes)
    if FILE:
        drawn = [([m for m in ops_mutants + above if m.file == FILE], None)]
    else:
        above.sort(key=draw)
        if SAMPLE:
            ops_mutants.sort(key=draw)
        drawn = [(ops_mutants, SAMPLE // 2 or None), (above, SAMPLE - SAMPLE // 2 or ABOVE)]
    looked_at = []
    with ThreadPoolExecutor(JOBS) as pool:
        chosen = []
        for mutants, most in drawn:
            chosen += distinct(mutants, compiler, pool, most)
            looked_at += mutants
        chosen.sort(key=draw)   # so that what is known of some of them is of all
        judge, done = Judge(suite, compiler, notes), Counter()

        def one(m):
            if m.key in equivalents and SAMPLE:
                m.fate = "equivalent"
                return
            judge.judge(m, m.key in equivalents)
            done[m.fate] += 1
            if m.fate == "survived":
                print(f"survived: {m.file}:{m.line} {m.function or ''}\n- {m.before}\n+ {m.after}", flush=True)
            if sum(done.values()) % 100 == 0:
                print(f"  {dict(done)} of {len(chosen)}, {time.monotonic() - begin:.0f} s", flush=True)
        list(pool.map(one, chosen))
    shutil.rmtree(compiler.folder)
    good = report([m for m in looked_at if hasattr(m, "fate")], equivalents, time.monotonic() - begin)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
