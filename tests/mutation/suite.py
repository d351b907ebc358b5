"""The C suite, as the mutants meet it: which programs reach which function, how long each takes, and a run of one with a mutant."""
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

BUILD = os.environ.get("BUILD", "build")
HERE = f"{BUILD}/mutation"
CC = os.environ.get("CC", "cc")
FLAGS = shlex.split(os.environ["FLAGS"])
LIBRARIES = shlex.split(os.environ["LIBRARIES"])
JOBS = int(os.environ.get("JOBS") or len(os.sched_getaffinity(0)))
BYTES = 4 << 30   # of address space, for one program


def run(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **options).stdout


def digest(*parts):
    h = hashlib.sha256()
    for part in parts:
        h.update(part.encode() if isinstance(part, str) else part)
        h.update(b"\0")
    return h.hexdigest()[:32]


def compile_text(file, text, out, extra=()):
    """Without line numbers or names of files, so that what means the same is the same object. False: it does not compile."""
    command = [CC, *FLAGS, "-g0", "-w", *extra, "-x", "c", "-iquote", os.path.dirname(file), "-c", "-", "-o", out]
    return subprocess.run(command, input=text.encode(), stderr=subprocess.DEVNULL).returncode == 0


class Suite:
    def __init__(self, sources):
        self.sources = sources
        self.folder = f"{HERE}/suite"
        os.makedirs(self.folder, exist_ok=True)
        self.library = f"{self.folder}/library.a"
        run(["objcopy", "-g", f"{BUILD}/obj/inside.a", self.library])
        self.programs = sorted(Path(p).stem for p in Path("tests").glob("test_*.c"))
        self.sha, objects = {}, {}
        for program in self.programs + ["cases"]:
            objects[program] = f"{self.folder}/{program}.o"
            run(["objcopy", "-g", "--redefine-sym", f"main=main_{program}", f"{BUILD}/obj/tests/{program}.o", objects[program]])
            self.sha[program] = digest(Path(objects[program]).read_bytes())
        for program in self.programs:
            self.sha[program] = digest(program, self.sha[program], self.sha["cases"])
        # Most programs are one; those that put themselves in the place of other functions are linked alone.
        alone = [p for p in self.programs if f"LDFLAGS_{p}" in os.environ]
        self.group = {p: p if p in alone else "all" for p in self.programs}
        self.link_with = {}
        for group in ["all"] + alone:
            members = [p for p in self.programs if self.group[p] == group]
            joined = f"{self.folder}/{group}_joined.o"
            names = "-DPROGRAMS=" + " ".join(f"P({p})" for p in members)
            run([CC, "-std=c11", "-D_POSIX_C_SOURCE=200809L", names, "-c", "tests/mutation/runner.c", "-o", f"{self.folder}/runner_{group}.o"])
            if group == "all":   # two programs may use a name for two things
                for p in members:
                    run(["objcopy", f"--keep-global-symbol=main_{p}", objects[p]])
            parts = [objects[p] for p in members]
            run([CC, "-r", "-nostdlib", f"{self.folder}/runner_{group}.o", *parts, objects["cases"], "-o", joined])
            self.link_with[group] = (joined, shlex.split(os.environ.get(f"LDFLAGS_{group}", "")))
        self.learn()

    def link(self, group, objects, out, extra=()):
        joined, flags = self.link_with[group]
        command = [CC, *extra, joined, *objects, self.library, "-o", out, "-Wl,--wrap=_ck_assert_failed,--wrap=mkdtemp", *LIBRARIES, *flags]
        return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0

    def start(self, binary, program, seconds):
        """Does the program pass? It is given so many seconds of a processor. A deadlock takes none: so there is an end by the clock as well,
        in seconds that are counted here, so that those do not count in which all of this was stopped."""
        command = [binary, program, str(seconds), str(BYTES)]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.DEVNULL)
            for _ in range(60 + 10 * seconds):
                try:
                    process.wait(1)
                    break
                except subprocess.TimeoutExpired:
                    pass
            else:
                process.kill()
            passed = process.wait() == 0
            said.seek(0)
            for folder in re.findall(rb"^folder (/\S+)$", said.read(), re.M):
                shutil.rmtree(folder, ignore_errors=True)
        return passed

    def learn(self):
        """Which programs run which functions of the sources, and how long each takes; kept from the last time if nothing has changed."""
        kept = Path(f"{self.folder}/learned.json")
        state = digest(*(Path(f).read_bytes() for f in self.sources), *self.sha.values(), *FLAGS)
        if not kept.exists() or json.loads(kept.read_text())["state"] != state:
            kept.write_text(json.dumps({"state": state, "reach": self.coverage(), "seconds": self.times()}))
        learned = json.loads(kept.read_text())
        self.seconds = learned["seconds"]
        self.reach = {(file, name): set(programs) for file, name, programs in learned["reach"]}

    def coverage(self):
        print("which programs reach which functions ...", flush=True)
        folder = Path(f"{self.folder}/coverage").absolute()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        objects = {}
        for file in self.sources:
            objects[file] = str(folder / (file.replace("/", "_") + ".o"))
        with ThreadPoolExecutor(JOBS) as pool:
            list(pool.map(lambda file: run([CC, *FLAGS, "-O0", "-w", "--coverage", "-c", file, "-o", objects[file]]), self.sources))
        for group in self.link_with:
            if not self.link(group, objects.values(), f"{folder}/{group}", ["--coverage"]):
                raise SystemExit("the suite does not link with --coverage")
        reach = {}
        for program in self.programs:
            for old in folder.glob("*.gcda"):
                old.unlink()
            self.start(f"{folder}/{self.group[program]}", program, 600)
            counts = sorted(map(str, folder.glob("*.gcda")))
            said = run(["gcov", "--json-format", "--stdout", *counts], stderr=subprocess.DEVNULL) if counts else b""
            for line in said.splitlines():
                for source in json.loads(line)["files"] if line.strip() else []:
                    for f in source["functions"]:
                        if f["execution_count"]:
                            reach.setdefault((source["file"], f["name"]), []).append(program)
        shutil.rmtree(folder)
        return [[file, name, programs] for (file, name), programs in sorted(reach.items())]

    def times(self):
        """Of the suite with no mutant, which must pass."""
        print("how long each takes ...", flush=True)
        seconds = {}
        for group in self.link_with:
            if not self.link(group, [], f"{self.folder}/{group}"):
                raise SystemExit("the suite does not link")
        for program in self.programs:
            begin = time.monotonic()
            passed = self.start(f"{self.folder}/{self.group[program]}", program, 600)
            seconds[program] = time.monotonic() - begin if passed else None
        return seconds

    def programs_for(self, mutant):
        """Only a program that runs a function can tell a change in it; what stands outside of functions is read by all of its file's."""
        programs = set()
        for (file, name), reached in self.reach.items():
            if file == mutant.file and mutant.function in (name, None):
                programs |= reached
        red = [p for p in programs if self.seconds[p] is None]
        if red:
            raise SystemExit(f"{red[0]} fails with no mutant")
        return programs

    def passes(self, program, binary):
        return self.start(binary, program, math.ceil(4 * self.seconds[program] + 2))
