"""The C suite, as the mutants meet it: which tests of which programs enter a function, how long each takes, and a run of those with a
mutant; plainly built, or under sanitizers."""
import contextlib
import glob
import hashlib
import json
import math
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from functions import functions_of

BUILD = os.environ.get("BUILD", "build")
HERE = f"{BUILD}/mutation"
CC = os.environ.get("CC", "cc")
FLAGS = shlex.split(os.environ["FLAGS"])
SANITIZED = shlex.split(os.environ["SANITIZED"])   # the flags of BUILD/asan
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


def compile_text(file, text, out, extra=(), flags=FLAGS):
    """Without line numbers or names of files, so that what means the same is the same object. False: it does not compile."""
    command = [CC, *flags, "-g0", *(extra or ["-w"]), "-x", "c", "-iquote", os.path.dirname(file), "-c", "-", "-o", out]
    return subprocess.run(command, input=text.encode(), stderr=subprocess.DEVNULL).returncode == 0


def sleeps(pid):
    """Do all threads of that process?"""
    try:
        return all(Path(stat).read_text().rpartition(")")[2].split()[0] == "S" for stat in Path(f"/proc/{pid}/task").glob("*/stat"))
    except OSError:   # a thread that has just ended
        return False


@contextlib.contextmanager
def beside_the_tree():
    """A folder with links to all that the tree has, for one run. What a mutant writes by a relative path ends with it."""
    with tempfile.TemporaryDirectory() as folder:
        for entry in os.listdir():
            os.symlink(os.path.abspath(entry), f"{folder}/{entry}")
        yield folder


class Suite:
    def __init__(self, sources, sanitized=False):
        self.sources, self.sanitized, self.flags = sources, sanitized, SANITIZED if sanitized else FLAGS
        build, self.folder = (f"{BUILD}/asan", f"{HERE}/suite_asan") if sanitized else (BUILD, f"{HERE}/suite")
        os.makedirs(self.folder, exist_ok=True)
        self.library = f"{self.folder}/library.a"
        run(["objcopy", "-g", f"{build}/libcotangent.a", self.library])
        object_of = {Path(p).stem: f"{build}/obj/{p.with_suffix('.o')}" for p in Path("tests").glob("*/*.c")}
        self.programs = sorted(name for name in object_of if name.startswith("test_"))
        self.sha, objects = {}, {}
        for program in self.programs + ["cases"]:
            objects[program] = f"{self.folder}/{program}.o"
            run(["objcopy", "-g", "--redefine-sym", f"main=main_{program}", object_of[program], objects[program]])
            self.sha[program] = digest(Path(objects[program]).read_bytes())
        # What some programs are linked with besides: of an archive the linker takes what a program needs.
        helpers = f"{self.folder}/helpers.a"
        names = [p for p in glob.glob(f"{build}/obj/tests/*/*.o") + glob.glob(f"{build}/obj/programs/*.o")
                 if not Path(p).stem.startswith("test_") and Path(p).stem != "cases"]
        Path(helpers).unlink(missing_ok=True)
        run(["ar", "rcs", helpers, *sorted(names)])
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
            if group == "all":   # two programs may use a name for two things
                for p in members:
                    run(["objcopy", f"--keep-global-symbol=main_{p}", objects[p]])
            run([CC, "-r", "-nostdlib", *(objects[p] for p in members), objects["cases"], helpers, "-o", joined])
            for runner, trace in (self.runner(group), []), (self.runner(group, True), ["-DTRACE"]):
                run([CC, "-std=c11", "-O1", "-D_POSIX_C_SOURCE=200809L", names, *trace, "-c", "tests/mutation/runner.c", "-o", runner])
            self.link_with[group] = (joined, shlex.split(os.environ.get(f"LDFLAGS_{group}", "")))
        self.lock, self.right_alone = threading.Lock(), {}
        if not sanitized:
            self.learn()
        elif not all(self.link(group, [], f"{self.folder}/{group}") for group in self.link_with):
            raise SystemExit(f"the suite does not link under sanitizers: {self.linker_said}")

    def runner(self, group, trace=False):
        return f"{self.folder}/{'tracer' if trace else 'runner'}_{group}.o"

    def link(self, group, objects, out, trace=False):
        joined, flags = self.link_with[group]
        command = [CC, "-no-pie", *(self.flags if self.sanitized else []), self.runner(group, trace), joined, *objects, self.library,
                   "-o", out, "-Wl,--wrap=_ck_assert_failed,--wrap=mkdtemp,--wrap=_tcase_add_test", *LIBRARIES, *flags]
        linked = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace")
        self.linker_said = linked.stderr[:2000]
        return linked.returncode == 0

    def start(self, binary, program, tests, seconds):
        """Do those tests of the program pass, and what do they say? They are given so many seconds of a processor. A deadlock takes none:
        so it ends as well after a minute in which it slept each time it was looked at. One that waits for a processor, or was stopped,
        does not sleep: whatever else the machine does kills no mutant."""
        bytes, options = BYTES, ""
        if self.sanitized:   # which has an address space of its own, and a huge one
            bytes, options = (1 << 64) - 1, f"allocator_may_return_null=1:detect_leaks=1:hard_rss_limit_mb={BYTES >> 20}"
        command = [binary, program, str(seconds), str(bytes), tests if isinstance(tests, str) else ",".join(map(str, tests))]
        with tempfile.TemporaryFile() as out, beside_the_tree() as here:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL, cwd=here,
                                       env={**os.environ, "ASAN_OPTIONS": options})
            asleep = 0
            while asleep < 60:
                try:
                    process.wait(1)
                    break
                except subprocess.TimeoutExpired:
                    asleep = asleep + 1 if sleeps(process.pid) else 0
            else:
                process.kill()
            passed = process.wait() == 0
            out.seek(0)
            said = out.read().decode(errors="replace")
        for folder in re.findall(r"^folder (/\S+)$", said, re.M):
            shutil.rmtree(folder, ignore_errors=True)
        return passed, said

    def start_each(self, folder, programs):
        with ThreadPoolExecutor(JOBS) as pool:
            return list(pool.map(lambda p: self.start(f"{folder}/{self.group[p]}", p, "all", 600)[1], programs))

    def learn(self):
        """Which tests enter which functions of the sources, and how long each takes; kept from the last time if nothing has changed."""
        kept = Path(f"{self.folder}/learned.json")
        state = digest(*(Path(f).read_bytes() for f in [*self.sources, "tests/mutation/runner.c"]), *self.sha.values(), *FLAGS)
        if not kept.exists() or json.loads(kept.read_text())["state"] != state:
            print("which tests enter which functions ...", flush=True)
            for group in self.link_with:
                if not self.link(group, [], f"{self.folder}/{group}"):
                    raise SystemExit(f"the suite does not link: {self.linker_said}")
            enter, seconds = self.trace()
            kept.write_text(json.dumps({"state": state, "enter": enter, "seconds": seconds}))
        learned = json.loads(kept.read_text())
        self.seconds = {(program, int(test)): s for program, of in learned["seconds"].items() for test, s in of.items()}
        self.enter = {}
        for file, name, program, tests in learned["enter"]:
            self.enter.setdefault((file, name), {})[program] = tests

    def trace(self):
        """[file, function, program, tests], as the sources' functions call the runner when they are entered; and {program: {test: seconds}}."""
        folder = f"{self.folder}/trace"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        home = {f.name: file for file in self.sources for f in functions_of(file) if not f.static}

        def traced(file):
            """An object in which each static function is called file:function."""
            object = f"{folder}/{file.replace('/', '_')}.o"
            run([CC, *FLAGS, "-O0", "-g0", "-w", "-finstrument-functions", "-c", file, "-o", object])
            own = [line.split()[2] for line in run(["nm", object]).decode().splitlines() if line.split()[-2] == "t"]
            if own:
                run(["objcopy", *(f"--redefine-sym={name}={file}:{name}" for name in own), object])
            return object
        with ThreadPoolExecutor(JOBS) as pool:
            objects = list(pool.map(traced, self.sources))
        found, seconds = {}, {}
        for group in self.link_with:
            if not self.link(group, objects, f"{folder}/{group}", True):
                raise SystemExit(f"the suite does not link: {self.linker_said}")
            at = {}
            for line in run(["nm", f"{folder}/{group}"]).decode().splitlines():
                address, kind, name = line.split(None, 2) if line[0] != " " else ("", "", "")
                if kind in ("t", "T"):
                    file, name = name.split(":", 1) if ":" in name else (home.get(name.split(".")[0]), name)
                    at[int(address, 16)] = file, name.split(".")[0]   # "name.localalias" is the compiler's
            programs = [p for p in self.programs if self.group[p] == group]
            for program, said in zip(programs, self.start_each(folder, programs)):
                seconds[program] = {test: float(s) for test, s in re.findall(r"^took (\d+) (\S+)$", said, re.M)}
                for line in re.findall(r"^entered (.*)$", said, re.M):
                    first, second, *addresses = line.split()
                    for address in addresses:
                        file, name = at.get(int(address, 16), (None, None))
                        if file:
                            found.setdefault((file, name, program), set()).update((int(first), int(second)))
        shutil.rmtree(folder)
        return [[*key, sorted(t for t in tests if t >= 0)] for key, tests in sorted(found.items())], seconds

    def tests_for(self, mutant):
        """{program: tests}. Only a test that enters a function can tell a change in it; what stands outside of functions is read by all of
        its file's."""
        chosen = {}
        for (file, name), programs in self.enter.items():
            if file == mutant.file and mutant.function in (name, None):
                for program, tests in programs.items():
                    chosen.setdefault(program, set()).update(tests)
        return {program: sorted(tests) for program, tests in chosen.items()}

    def takes(self, program, tests):
        return sum(self.seconds.get((program, test), 0) for test in tests)

    def shortest(self, program, tests):
        """Of those tests the ones that take least, up to a second."""
        chosen, left = [], 1.0
        for test in sorted(tests, key=lambda test: self.takes(program, [test])):
            left -= self.takes(program, [test])
            if left > 0 or not chosen:
                chosen.append(test)
        return sorted(chosen)

    def passes(self, program, tests, binary, seconds):
        """Of tests that take so many seconds of a processor with instrumented functions and without a mutant."""
        limit = math.ceil((40 if self.sanitized else 4) * seconds + 2)
        if self.start(binary, program, tests, limit)[0]:
            return True
        key = (program, tuple(tests))   # fails; do these tests pass alone, with no mutant?
        with self.lock:
            if key not in self.right_alone:
                self.right_alone[key] = self.start(f"{self.folder}/{self.group[program]}", program, tests, limit)[0]
        if not self.right_alone[key]:
            raise SystemExit(f"{program} fails with no mutant: {tests}")
        return False
