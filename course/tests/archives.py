"""What teachers give away: handout and autograder are unpacked into an empty folder, without the rest of the tree and without git, and used
there as students and Gradescope use them. Also what the students' pages link to, and how their hints are shown."""
import importlib.machinery
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
COURSE = HERE.parent
ROOT = COURSE.parent
# Names of files that neither may have. Of tests/, bench/ and ext/ranks/mpi/ they have the makefiles, which the Makefile includes.
# No op is there that an exercise asks for and a later one does not let students call.
GIVEN_AWAY = re.compile(r"solution|wrong_|\.change|^course/tests/|^(tests|bench|ext/ranks/mpi)/.*(?<!\.mk)$|^nn/|"
                        r"^ops/(mul|softmax|log_softmax|cross_entropy|layer_norm|rms_norm|dropout|heads|rope)\.c|"
                        r"^ops/attention/")


def load_kit():
    loader = importlib.machinery.SourceFileLoader("kit", str(COURSE / "kit"))
    kit = importlib.util.module_from_spec(importlib.util.spec_from_loader("kit", loader))
    loader.exec_module(kit)
    return kit


def kit(build):
    """No solution leaves the house, by autograder or handout; hidden.c goes into the autograder only; an exercise.c with points stops both."""
    kit = load_kit()
    with tempfile.TemporaryDirectory() as place:
        target, course = Path(place) / "target", Path(place) / "course"
        shutil.copytree(COURSE / "03_softmax", course / "03_softmax")
        (course / "03_softmax/hidden.c").write_text("/* nothing */\n")
        has = {}
        for name, for_students in (("handout", True), ("autograder", False)):
            kit.lay_out(target, [course / "03_softmax"], build.folder, for_students)
            has[name] = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
        solution = HERE / "03_softmax/solution.c"
        texts = [path for path in target.rglob("*.c") if path.read_bytes() == solution.read_bytes()]
        shutil.copy(solution, course / "03_softmax/exercise.c")
        try:
            kit.lay_out(target, [course / "03_softmax"], build.folder, False)
            stopped = False
        except kit.Trouble as trouble:
            stopped = "gets points" in str(trouble)
        wrong = [f"{name}: {file}" for name, files in has.items() for file in files if GIVEN_AWAY.search(file)]
    needed = {"Makefile", "course/grade", "course/03_softmax/test.c", "include/cotangent/cotangent.h"}
    hidden = [name for name, files in has.items() if "course/03_softmax/hidden.c" in files]
    right = stopped and not texts and not wrong and all(needed <= files for files in has.values()) and hidden == ["autograder"]
    return None if right else f"stopped {stopped}; {texts}; {wrong}; hidden.c in {hidden}"


class Wrong(Exception):
    pass


def quick(build, place):
    """The environment of what is unpacked: compiled quickly, for one instruction set; git fails, and apt-get installs nothing."""
    tools = place / "tools"
    tools.mkdir()
    for name, status in (("git", 1), ("apt-get", 0)):
        (tools / name).write_text(f"#!/bin/sh\nexit {status}\n")
        (tools / name).chmod(0o755)
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "CCACHE_DIR", "CCACHE_DISABLE") if name in os.environ}
    return {**kept, "PATH": f"{tools}:{os.environ['PATH']}", "LC_ALL": "C", "CC": " ".join(build.compiler), "ISAS": "scalar", "OPT": "-O0"}


def say(command, environment, status, *words, **options):
    """What a command prints: its exit status and some of its words must be these, and neither make nor the shell may complain."""
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=1200, **options)
    said = done.stdout + done.stderr
    complaint = re.search(r"make(\[\d+\])?: \*\*\*|No such file|cannot open|not found|Traceback|fatal:", said)
    if done.returncode != status or complaint or not all(word in said for word in words):
        raise Wrong(f"{' '.join(map(str, command))}: exit status {done.returncode}, not {status}, with {words}: {said[-1500:]}")
    return said


def as_in_the_tree(folder):
    """Each file is the tree's."""
    files = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    other = [str(path) for path in files if not (ROOT / path).is_file() or (ROOT / path).read_bytes() != (folder / path).read_bytes()]
    other = [path for path in other if path != "course/handout.mk"]  # made for the archive
    given = [str(path) for path in files if GIVEN_AWAY.search(str(path))]
    if other or given or not files:
        raise Wrong(f"{folder.name} has files that the tree has not, {other}, or that may not be given away, {given}")


def as_a_student(build, place, environment):
    """Unpacks the handout, grades a stub, then a solution."""
    kit = load_kit()
    kit.check_stub = lambda *_: None  # the stub of each exercise: `check` grades them all
    archive = kit.handout(build.folder)
    with tarfile.open(archive) as tar:
        tar.extractall(place)
    archive.unlink()
    folder = place / "cotangent-course"
    as_in_the_tree(folder)
    links(folder)
    say(["make", "-j2", "grade", "EX=03"], environment, 0, "CC", " 0/10\n", "not written yet", cwd=folder)
    shutil.copy(HERE / "03_softmax/solution.c", folder / "course/03_softmax/exercise.c")
    say(["make", "grade", "EX=03"], environment, 0, " 10/10\n", cwd=folder)
    say(["make", "-n", "all"], environment, 0, "libcotangent.so", cwd=folder)
    return folder


def unzipped(archive, folder):
    """As unzip does it: with modes and times."""
    with zipfile.ZipFile(archive) as packed:
        for entry in packed.infolist():
            path = Path(packed.extract(entry, folder))
            if not entry.is_dir():
                path.chmod(entry.external_attr >> 16 & 0o777)
                os.utime(path, (0, 0))


def as_gradescope(build, place, environment, handout):
    """Unpacks the autograder and runs its programs. Objects that were compiled of the same files are taken from the handout."""
    root = place / "autograder"
    archive = ROOT / say([COURSE / "kit", "autograder", "3", "--build", str(build.folder)], environment, 0, cwd=ROOT).splitlines()[-1]
    unzipped(archive, root / "source")
    archive.unlink()
    folder = root / "source/cotangent"
    as_in_the_tree(folder)
    shutil.copytree(handout / "build", folder / "build", ignore=shutil.ignore_patterns("course", "*.a"))
    environment = {**environment, "AUTOGRADER_ROOT": str(root)}
    said = say([root / "source/setup.sh"], environment, 0, "AR", cwd="/")
    if "build/obj/src" in said or (folder / "src").exists() or (folder / "build/obj/src").exists():
        raise Wrong(f"setup.sh compiles what is compiled, or leaves the sources: {said}")
    for name in ("results", "submission"):
        (root / name).mkdir()
    for file, least, most in ((COURSE / "03_softmax/exercise.c", 0, 2), (HERE / "03_softmax/solution.c", 10, 10)):
        shutil.copy(file, root / "submission/exercise.c")
        say([root / "source/run_autograder"], environment, 0, cwd="/")
        results = json.loads((root / "results/results.json").read_text())
        points = [sum(test[key] for test in results["tests"]) for key in ("score", "max_score")]
        if not least <= results["score"] <= most or points != [results["score"], 10]:
            raise Wrong(f"{file} gets {results}")
    (root / "submission/exercise.c").unlink()
    say([root / "source/run_autograder"], environment, 0, "there is no exercise.c", cwd="/")
    if json.loads((root / "results/results.json").read_text())["score"]:
        raise Wrong("points for nothing")


def unpacked(build):
    """Both archives; the library is compiled once."""
    with tempfile.TemporaryDirectory(prefix="archives-") as place:
        Path(place).chmod(0o755)
        try:
            environment = quick(build, Path(place))
            handout = as_a_student(build, Path(place), environment)
            as_gradescope(build, Path(place), environment, handout)
        except Wrong as wrong:
            return str(wrong)
    return None


# ---- pages ----

def links(tree):
    """Each link of the course's pages leads to a file of this tree, and so does each page or program of docs/, programs/ or examples/ that they name."""
    course = tree / "course"
    for page in [*course.glob("*.md"), *course.glob("*/*.md")]:
        for link, name in re.findall(r"\]\(([\w./-]+\.\w+|[\w./-]*/[\w./-]*)(?:#[^)]*)?\)|`((?:docs|programs|examples)/[\w./-]+\.\w+)`", page.read_text()):
            if not (tree / name if name else page.parent / link).exists():
                raise Wrong(f"{page.relative_to(tree)} names {link or name}, which is not there")


def containers():
    """All places that install packages install the same: a container that lacks one fails only when it is built."""
    lists = {}
    for name in ("Dockerfile", "kit", "README.md"):
        for found in re.findall(r"apt-get install ((?:-\S+ |--\S+ )*)((?:[a-z0-9-]+ ?)+)", (COURSE / name).read_text()):
            lists[name] = " ".join(sorted(found[1].split()))
    packages = {" ".join(sorted(set(text.split()) | {"binutils"})) for text in lists.values()}  # gcc needs binutils
    return None if len(lists) == 3 and len(packages) == 1 else f"{lists}"


def hints():
    """Hints stand beside each other: one that is open shows no other's text, and a closed one hides no other."""
    for page in sorted(COURSE.glob("[0-9]*/README.md")):
        tags = re.findall(r"^</?details>", page.read_text(), re.M)
        if tags != ["<details>", "</details>"] * (len(tags) // 2) or not tags:
            return f"{page.parent.name}: {tags}"
    return None


def linked():
    try:
        links(ROOT)
    except Wrong as wrong:
        return str(wrong)
    return None


def tasks(build):
    yield "kit: both archives, unpacked", lambda: unpacked(build)
    yield "kit: what is given away", lambda: kit(build)
    yield "pages: links", linked
    yield "pages: hints", hints
    yield "pages: packages of containers", containers
