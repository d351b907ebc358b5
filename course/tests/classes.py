"""A class: folders of submissions, in which no submission may harm another."""
import csv
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
GRADE = HERE.parent / "grade"
SOLUTION = (HERE / "01_broadcasting/solution.c").read_text()
NEURON = "static ct_tensor *neuron_forward(ct_call *call) {\n"  # what follows runs in two tests


def mistaken(inside):
    return "#include <stdlib.h>\n" + SOLUTION.replace(NEURON, NEURON + inside + "\n")


ENDLESS = "for (volatile int i = 0; i < 1; i *= 1) {}"
# name in the folder, text, name in the list, points, part of the diagnosis
CLASS = [
    ("ada.c", SOLUTION, "ada", 10, ""),
    ("bob/exercise.c", SOLUTION.replace("1 - y * y", "1 + y * y"), "bob", 7, "neuron_by_hand, neuron_gradient: 1 + y^2 is written for 1 - y^2"),
    ("broken.c", "int x", "broken", 0, "does not compile"),
    ("crash/exercise.c", mistaken("*(volatile int *)0 = 1;"), "crash", 7, "neuron_by_hand, neuron_gradient: crashed: "),
    ("eater.c", mistaken("for (;;) *(volatile char *)malloc(1 << 28) = 1;"), "eater", 7, "needed more memory than the limit"),
    ("endless.c", mistaken(ENDLESS), "endless", 7, "neuron_by_hand, neuron_gradient: ran longer than 2 s"),
    ("=cmd|x!A1/exercise.c", SOLUTION, "'=cmd|x!A1", 10, ""),
    ("'\"quoted\", twice.c", SOLUTION, "'\"quoted\", twice", 10, ""),
    ("two\nlines.c", SOLUTION, "two lines", 10, ""),
    ("ev\udc80il.c", "", "ev\ufffdil", 0, "refused: it is empty"),
    ("both.c", SOLUTION, "both.c", 10, ""),
    ("both/exercise.c", "\0", "both", 0, "refused: it is no text"),
    ("fay/course/01_broadcasting/exercise.c", SOLUTION, "fay", 10, ""),
    ("fay/course/02_matmul/exercise.c", "int x", None, 0, ""),  # another exercise: not asked for
    ("gus/answer.txt", "42", "gus", 0, "there is no exercise.c in "),
    ("hal.zip", "", "hal.zip", 0, "it is neither a .c file nor a folder"),
    ("marks.csv", "old", None, 0, ""),
    (".hidden", "", None, 0, ""),
]


def lay_out(folder, files):
    for name, text in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def listed(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def a_class(build):
    """Each gets its own marks, whatever the others do, and the list has all; nothing is left beside it."""
    wrong = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lay_out(folder, [row[:2] for row in CLASS])
        (folder / "link.c").symlink_to(HERE / "01_broadcasting/solution.c")
        done = subprocess.run([GRADE, "--build", str(build.folder), "1", "--all", place, "--csv", folder / "marks.csv", "--time", "2"],
                              capture_output=True, text=True, timeout=1200)
        rows = {row["name"]: row for row in listed(folder / "marks.csv")}
        left = [path.name for path in folder.iterdir() if path.name.startswith("marks.csv.")]
    expected = [row[2:] for row in CLASS if row[2]] + [("link", 0, "it is a link")]
    for name, points, words in expected:
        row = rows.pop(name, None)
        if not row or row["points"] != str(points) or row["of"] != "10" or words not in row["diagnosis"] or bool(words) != bool(row["diagnosis"]):
            wrong.append(f"{name!r}: {row}")
        elif sum(int(row[test]) for test in row if test not in ("name", "exercise", "points", "of", "diagnosis")) != points:
            wrong.append(f"{name!r}: not the sum: {row}")
    if rows or left or done.returncode or f"{len(expected)} of {len(expected)} graded, 6 with full marks" not in done.stdout:
        wrong.append(f"{rows} {left} {done.returncode} {done.stdout[-300:]} {done.stderr}")
    return "; ".join(wrong) or None


def several_exercises(build):
    """Without an exercise each file is told by a name or by what it defines; what cannot be told is no harm, and exit status 2."""
    softmax = (HERE / "03_softmax/solution.c").read_text()
    with tempfile.TemporaryDirectory() as place:
        lay_out(Path(place), [("ada/x.c", SOLUTION), ("ada/03.c", softmax), ("bob/ex03/exercise.c", "int x"), ("cy.c", softmax), ("dan.c", "int x;")])
        path = Path(place) / "marks.csv"
        done = subprocess.run([GRADE, "--build", str(build.folder), "--all", place, "--csv", path], capture_output=True, text=True, timeout=1200)
        rows = listed(path)
    got = [(row["name"], row["exercise"], row["points"]) for row in rows]
    expected = [("ada", "01_broadcasting", "10"), ("ada", "03_softmax", "10"), ("bob", "03_softmax", "0"), ("cy", "03_softmax", "10"), ("dan", "", "")]
    right = sorted(got) == expected and done.returncode == 2 and rows[0]["03.softmax_large"] in ("", "1") and "cannot" not in done.stderr
    return None if right and "no exercise that can be told" in rows[-1]["diagnosis"] else f"{done.returncode} {rows} {done.stdout} {done.stderr}"


def running_in(place):
    """Processes whose folder lies there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += [process.name] * os.readlink(process / "cwd").startswith(place)
        except OSError:
            pass
    return found


def interrupted(build, number):
    """What is done when it is interrupted stays in the list, and nothing goes on running."""
    with tempfile.TemporaryDirectory() as place:
        folder, scratch = Path(place) / "class", Path(place) / "scratch"
        scratch.mkdir()
        scratch.chmod(0o711), Path(place).chmod(0o711)
        lay_out(folder, [("ada.c", SOLUTION), ("endless.c", mistaken(ENDLESS))])
        path = Path(place) / "marks.csv"
        process = subprocess.Popen([GRADE, "--build", str(build.folder), "1", "--all", folder, "--csv", path, "--time", "60", "--jobs", "2"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, TMPDIR=str(scratch)),
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # a job in the background ignores it
        for _ in range(6000):
            if path.exists() and listed(path)[0]["points"] == "10" and running_in(str(scratch)):
                break
            time.sleep(0.02)
        process.send_signal(number)
        said = process.communicate(timeout=60)[0]
        for _ in range(500):  # a compiler's own process is killed with it, and is gone a little later
            left = running_in(str(scratch))
            if not left:
                break
            time.sleep(0.02)
        rows, scraps = listed(path), list(scratch.iterdir())
    right = process.returncode == 2 and [row["points"] for row in rows] == ["10", ""] and rows[1]["diagnosis"] == "not graded yet"
    return None if right and not left and not scraps and b"Traceback" not in said else f"{process.returncode} {rows} {left} {scraps} {said}"


def refused(build):
    """What is asked for wrongly is said before anything is graded."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "class"
        folder.mkdir()
        for words, args in (("there is no submission in", ["1", "--all", folder]), ("cannot read", ["1", "--all", Path(place) / "none"]),
                            ("--csv goes with --all", ["1", "--csv", "x"]), ("goes with neither", ["1", "--all", folder, "--json", "x"])):
            done = subprocess.run([GRADE, "--build", str(build.folder), *args], capture_output=True, text=True, timeout=600)
            if done.returncode != 2 or words not in done.stderr or "Traceback" in done.stderr:
                return f"{words}: {done.returncode} {done.stdout} {done.stderr}"
        shutil.copy(HERE / "01_broadcasting/solution.c", folder / "ada.c")
        done = subprocess.run([GRADE, "--build", str(build.folder), "1", "--all", folder, "--csv", Path(place) / "none/marks.csv"], capture_output=True,
                              text=True, timeout=600)
    return None if done.returncode == 2 and "cannot write" in done.stderr and "10/10" not in done.stdout else f"{done.stdout} {done.stderr}"


def tasks(build):
    yield "class: one of each kind", lambda: a_class(build)
    yield "class: several exercises", lambda: several_exercises(build)
    yield "class: interrupted", lambda: interrupted(build, signal.SIGINT)
    yield "class: ended", lambda: interrupted(build, signal.SIGTERM)
    yield "class: what is asked for wrongly", lambda: refused(build)
