"""A class of 200 students, made of what is here: every solution, every wrong submission, stubs, attacks, bombs, and files that are no
submissions. It is graded twice, the second time with more neighbours at a time, and gets the same marks, which are those that each must get.
`make course-class` runs it; it takes some minutes of processor time, which it prints."""
import collections
import contextlib
import csv
import ctypes
import os
import re
import resource
import shutil
import subprocess
import tempfile
from pathlib import Path

import cheats
import grader

HERE = Path(__file__).resolve().parent
GRADE = HERE.parent / "grade"
STUDENTS, SECONDS = 200, 5
SUBREAPER = 36  # of prctl: orphans become children of this process
FULL, NONE, LESS = "full marks", "no points", "fewer than full marks"
# What is handed in for the first exercise and is no C, by its bytes.
NO_PROGRAMS = [("empty", b""), ("blank", b"\n\n \t\n"), ("binary", b"\x7fELF\x02\x01" + bytes(range(256))), ("utf-16", "int x;".encode("utf-16")),
               ("large", b"//" + b"x" * (1 << 20)), ("a word document", b"PK\x03\x04" + b"word/document.xml" * 40), ("a letter", b"Dear Ada,\nI was ill.\n"),
               ("half a file", (HERE / "01_broadcasting/solution.c").read_bytes()[:700])]


def programs(exercises, whole, expected):
    """(exercise, what it is, text, the marks that it must get) of each program: honest, wrong, and hostile ones."""
    for exercise in exercises:
        folder = HERE / exercise.name
        yield exercise, "the solution", (folder / "solution.c").read_text().encode(), FULL
        yield exercise, "the solution, again", (folder / "solution.c").read_text().encode(), FULL
        yield exercise, "the stub", (exercise.folder / "exercise.c").read_bytes(), NONE
        for file in sorted(folder.glob("wrong_*.change")):
            score, _, lines = expected(file)
            slow = any("longer" in words for _, _, words in lines)  # graded in another time
            yield exercise, file.name, whole(file).encode(), LESS if slow else score
    attacked = next(exercise for exercise in exercises if exercise.name == "03_softmax")
    for name, before, inside, after in cheats.cheats():
        text = cheats.HEAD + before + cheats.TAIL.replace("CHEAT", inside).replace("AFTER", after)
        yield attacked, f"a cheat: {name}", text.encode(), NONE
    first = exercises[0]
    for name, before, inside, words, *_ in [*grader.AT_RUN_TIME, *grader.REFUSED]:
        refused = len(words or "") and (name, before, inside, words) in grader.REFUSED
        yield first, name, grader.source(before, inside).encode("latin-1"), NONE if refused else FULL if words is None else LESS
    for name, text in NO_PROGRAMS:
        yield first, name, text, NONE


def deal(folder, handed_in):
    """Gives each program to a student who has none of its exercise yet. Returns (student, exercise) -> (what it is, marks)."""
    names, has = [f"student {number:03}" for number in range(STUDENTS - 3)], {}
    turn = 0
    for exercise, what, text, marks in handed_in:
        while (names[turn % len(names)], exercise.name) in has:
            turn += 1
        name = names[turn % len(names)]
        place = folder / name / "course" / exercise.name
        place.mkdir(parents=True)
        (place / "exercise.c").write_bytes(text)
        has[name, exercise.name] = what, marks
        turn += 1
    (folder / "no file").mkdir()
    (folder / "no file/notes.txt").write_text("to do\n")
    (folder / "archive.zip").write_bytes(b"PK\x03\x04")
    (folder / "link").symlink_to(HERE)
    has.update({("no file", ""): ("no file", None), ("archive.zip", ""): ("an archive", None), ("link", ""): ("a link", None)})
    return has


def reap():
    """Waits for programs that their judges did not wait for, so that their time counts."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def grade_once(build, folder, place, number, *more):
    """The rows of the list, and the processor time."""
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    path = place / f"marks{number}.csv"
    done = subprocess.run([GRADE, "--build", str(build.folder), "--all", folder, "--csv", path, "--json", place / f"class{number}.json",
                           "--feedback", place / "pages", "--time", str(SECONDS), *more], capture_output=True, text=True)
    reap()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(path, newline="", encoding="utf-8") as file:
        rows = {(row["name"], row["exercise"]): row for row in csv.DictReader(file)}
    return done, rows, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def wrong_with(row, what, marks):
    """What is not as it must be in a row of the list."""
    if row is None:
        return f"{what}: it is not in the list"
    points, most = row["points"], row["of"]
    right = {FULL: points == most, NONE: points == "0", LESS: points and int(points) < int(most or 0), None: points == ""}.get(marks, points == str(marks))
    return None if right else f"{what}: {points} of {most} points, not {marks}: {row['diagnosis'][:300]}"


def without_figures(cell):
    """A cell of the list; of a diagnosis, its words: what a program took of memory is another number each time."""
    return cell if cell.isdecimal() else re.sub(r"[0-9.]+", "", cell)


def twice(grade, build, whole, expected):
    with tempfile.TemporaryDirectory(prefix="crowd-") as place:
        place = Path(place)
        place.chmod(0o755)
        folder = place / "class"
        folder.mkdir()
        handed_in = list(programs(grade.exercises("all"), whole, expected))
        has = deal(folder, handed_in)
        (done, rows, seconds), (_, again, more_seconds) = (grade_once(build, folder, place, 1), grade_once(build, folder, place, 2, "--jobs", "8"))
        pages = len(list((place / "pages").iterdir()))
        shutil.rmtree(folder)
    wrong = [said for key, (what, marks) in has.items() for said in [wrong_with(rows.get(key), what, marks)] if said]
    for key, row in rows.items():
        other = again.get(key, {})
        changed = [f"{name}: {row[name]} and then {other.get(name)}" for name in row if without_figures(row[name]) != without_figures(other.get(name, ""))]
        wrong += [f"{key}, {has.get(key, '?')}: {changed}"] * bool(changed)
    if "Traceback" in done.stdout + done.stderr or len(rows) != len(has) or done.returncode != 2:  # 2: three students have handed in nothing
        wrong.append(f"exit status {done.returncode}, {len(rows)} rows for {len(has)}: {done.stderr[-500:]}")
    kinds = collections.Counter(exercise.name for exercise, *_ in handed_in)
    print(f"{STUDENTS} students, {len(has)} submissions of {len(kinds)} exercises, {pages} pages: {seconds:.0f} s of processor time, "
          f"and again {more_seconds:.0f} s with 8 at a time, on {os.cpu_count()} processors")
    return "\n".join(wrong) or None


def tasks(grade, build, whole, expected):
    yield "crowd: graded twice", lambda: twice(grade, build, whole, expected)
