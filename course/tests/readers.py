"""The file of gradings, and what is made of it: for Gradescope, GitHub Classroom and Moodle."""
import json
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
COURSE = HERE.parent
SOLUTION = HERE / "01_broadcasting/solution.c"
# What a submission prints to be taken for a mark, and a mistake with which its output is shown.
FORGED = ('::notice title=Autograding report::{"totalPoints":99,"maxPoints":99}', "##[notice]x", "--|>", "Grade :=>> 99", "<|--", "-a heading", "```")
NEURON = "static ct_tensor *neuron_forward(ct_call *call) {\n"


def forging():
    prints = "".join(f"puts({json.dumps(text)});" for text in FORGED)
    return "#include <stdio.h>\n" + SOLUTION.read_text().replace(NEURON, NEURON + prints + "\n").replace("1 - y * y", "1 + y * y")


def whole(grade, build):
    """The file has what a page needs: marks, words, the wrong elements with both values, and a map of them as large as the array."""
    graded = json.loads(grade.marks.lines_of([grade.grade(grade.exercises("02")[0], build, HERE / "02_matmul/solution.c", 10, 1024)]))
    keys = {"exercise", "submission", "seed", "seal", "score", "points", "seconds", "note", "tests"}
    if set(graded) != keys or graded["score"] != 10 or any(test["wrong"] for test in graded["tests"]):
        return f"{graded}"
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "exercise.c"
        softmax = (HERE / "03_softmax/solution.c").read_text()
        file.write_text(re.sub(r"(dx\[i\] = )y\[i\] \* \(g\[i\] - dot\)", r"\1y[i] * g[i]", softmax))
        changed = grade.grade(grade.exercises("03")[0], build, file, 10, 1024)
    wrong = [test["wrong"] for test in changed["tests"] if test["wrong"]]
    for one in wrong:
        cells, (rows, columns) = one["map"], (1, one["shape"][-1])
        for size in one["shape"][:-1]:
            rows *= size
        marked = sum(c != "." for row in cells for c in row)
        if (not one["elements"] or marked == 0 or len(cells) > rows or len(cells[0]) > columns or one["wrong"] > one["of"]
                or any(len(e["index"]) != len(one["shape"]) or e["value"] == e["right"] for e in one["elements"])):
            return f"{one}"
    return None if wrong else f"{changed}"


def classroom(folder):
    """The workflow's step as a runner runs it: the status of the marks, points of all tests once, and nothing that a submission prints."""
    workflow = (COURSE / "classroom.yml").read_text()
    step = re.search(r"        run: \|\n((?:          .*\n)+)", workflow)[1]
    outside = lambda said: re.sub(r"^::stop-commands::(\w{32})\n.*^::\1::\n", "", said, flags=re.S | re.M)
    cases = [(SOLUTION.read_text(), 0, 10), (forging(), 1, 7), ((COURSE / "01_broadcasting/exercise.c").read_text(), 1, 0), (None, 2, 0)]
    for text, status, points in cases:
        with tempfile.TemporaryDirectory() as place:
            place = Path(place)
            (place / "course").mkdir()
            (place / "course/adapt").symlink_to(COURSE / "adapt")
            grade = place / "course/grade"  # one exercise of this tree, not all of the students'
            grade.write_text(f"#!/bin/sh\nshift\nexec {shlex.quote(str(COURSE / 'grade'))} --build {shlex.quote(str(folder))} 01 '{place}/handed' \"$@\"\n")
            grade.chmod(0o755)
            (place / "handed").mkdir()
            if text is not None:
                (place / "handed/exercise.c").write_text(text)
            (place / "step.sh").write_text(re.sub(r"^ {10}", "", step, flags=re.M))
            environment = {**os.environ, "RUNNER_TEMP": str(place), "GITHUB_STEP_SUMMARY": str(place / "summary.md")}
            done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "step.sh"], cwd=place, env=environment, capture_output=True,
                                  text=True, timeout=600)
            page = (place / "summary.md").read_text()
        wanted = (f"::notice title=Autograding complete::Points {points}/10\n"
                  f'::notice title=Autograding report::{{"totalPoints": {points}, "maxPoints": 10}}\n')
        code = all(line.startswith("    ") or not line for line in page.splitlines()[1:])
        if done.returncode != status or outside(done.stdout) != wanted or not page.startswith(f"**{points}/10**\n\n") or not code:
            return f"exit status {done.returncode}, not {status}: {done.stdout} {done.stderr} {page}"
        if text and "1 + y" in text and FORGED[0] not in done.stdout:
            return f"the forged line was not printed at all: {done.stdout}"
    return None


def vpl(folder):
    """The script as an execution server runs it. Moodle takes the last line that begins with Grade, and a comment's lines from a block."""
    for text, most, grade in ((SOLUTION.read_text(), "20", "20"), (forging(), "", "7"), (None, "100.0000", "0")):
        with tempfile.TemporaryDirectory() as place:
            place = Path(place)
            (place / "course/course").mkdir(parents=True)
            (place / "course/course/adapt").symlink_to(COURSE / "adapt")
            program = place / "course/course/grade"
            program.write_text(f"#!/bin/sh\nexec {shlex.quote(str(COURSE / 'grade'))} --build {shlex.quote(str(folder))} \"$@\"\n")
            program.chmod(0o755)
            (place / "box").mkdir()
            (place / "box/vpl_environment.sh").write_text(f"export VPL_GRADEMAX='{most}'\n")
            if text is not None:
                (place / "box/exercise.c").write_text(text)
            environment = {**os.environ, "COURSE": str(place / "course")}
            for command in (["bash", COURSE / "vpl_evaluate.sh"], ["./vpl_execution"]):
                done = subprocess.run(command, cwd=place / "box", env=environment, capture_output=True, text=True, timeout=600)
        lines = done.stdout.splitlines()
        marked = [line for line in lines if not line.startswith(("-", ">"))] + [line for line in lines if line.startswith("--|>")]
        if marked != ["<|--", f"Grade :=>> {grade}", "--|>"] or done.returncode or not any(line.startswith("-01_broadcasting: ") for line in lines):
            return f"{grade}: {done.returncode} {done.stdout} {done.stderr}"
    return None


def refused(folder):
    """What is no file of gradings is said to be none."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "grading.json"
        for text, words in ((None, "cannot read"), ("{", "is no file of gradings"), ("1\n", "is no file of gradings"), ("{}\n", "is no file of gradings"),
                            ("", "has no grading")):
            if text is not None:
                path.write_text(text)
            done = subprocess.run([COURSE / "adapt", "gradescope", path, Path(place) / "results.json"], capture_output=True, text=True, timeout=60)
            if done.returncode != 2 or words not in done.stderr or "Traceback" in done.stderr or (Path(place) / "results.json").exists():
                return f"{words}: {done.returncode} {done.stderr}"
    return None


def tasks(grade, build):
    folder = build.folder
    yield "readers: the file of gradings", lambda: whole(grade, build)
    yield "readers: GitHub Classroom's step", lambda: classroom(folder)
    yield "readers: Moodle's script", lambda: vpl(folder)
    yield "readers: no file of gradings", lambda: refused(folder)
