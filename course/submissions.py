"""Grades a folder of submissions: `grade --all DIR --csv marks.csv`; README.md says what may lie in it.

No submission can harm another: each is compiled in a folder of its own, each of its tests is a process group of its own behind the
seal, and an error that nobody has thought of is a line of the list, too. The list is replaced, whole, whenever a submission is done, and
the file of gradings gets a line, from which the same command goes on after an interruption."""
import collections
import concurrent.futures
import contextlib
import csv
import io
import os
import re
import traceback
from pathlib import Path

import alike
import page
from marks import Trouble, lines_of, printable, read_gradings, shown_to_student, write_whole

# One file to grade. `path` is what is graded: a file, or the folder of an exercise.c. If `why` is a sentence there is nothing to grade.
Submission = collections.namedtuple("Submission", "name exercise path why")
DEEPEST, MOST_FOLDERS = 4, 1000  # of a submission's folder: where an exercise.c is looked for


def clean(text, most=200):
    """In one line, without what is no character."""
    text = printable(re.sub(r"\s", " ", str(text)).encode("utf-8", "surrogateescape"), 4000)
    return text if len(text) <= most else text[:most - 4] + " ..."


# ---- which files are submissions ----

def named_in(path, exercises):
    """The exercise whose name or number a file's or folder's name has: 05.c, ex05, 05_layer_norm, hw-05-ada; None if none, or several."""
    numbers = {number.zfill(2) for number in re.findall(r"(?<![0-9])[0-9]{1,2}(?![0-9])", path.name)}
    found = [e for e in exercises if e.name in path.name] or [e for e in exercises if e.name.split("_")[0] in numbers]
    return found[0] if len(found) == 1 else None


# A name that a line at the left edge defines for other files: a function or a variable that is not static.
DEFINED = re.compile(r"^(?!static\b|typedef\b|extern\b)\w[\w \t*]*?\b(\w+)\s*(?:\(|=|\[|;)", re.M)


def defined_in(path, exercises):
    """The exercise of which a file defines the greatest share; of two that it defines whole, the one with more names."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW), "rb") as file:
            names = set(DEFINED.findall(file.read(1 << 20).decode("utf-8", "replace")))
    except OSError:
        return None
    shares = sorted(((len(e.defines & names) / len(e.defines), len(e.defines), number) for number, e in enumerate(exercises)), reverse=True)
    clear = shares and shares[0][0] > 0 and (len(shares) == 1 or shares[0][:2] > shares[1][:2])
    return exercises[shares[0][2]] if clear else None


def files_of(folder):
    """The .c files of a submission that is a folder: those in it, and each exercise.c a few folders deep."""
    found = []
    for number, (place, folders, files) in enumerate(os.walk(folder)):
        place = Path(place)
        depth = len(place.relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if depth < DEEPEST and not name.startswith(".") and name != "__MACOSX")
        found += [place / name for name in sorted(files) if name == "exercise.c" or (depth == 0 and re.fullmatch(r"[^.].*\.c", name))]
        if number == MOST_FOLDERS:
            break
    return found


def exercise_of(path, folder, known):
    """The exercise that an exercise.c in a folder of the submission's, or a .c file beside others, is of; None: it cannot be told."""
    if path.name == "exercise.c" and path.parent == folder:
        return defined_in(path, known)
    return named_in(path.parent if path.name == "exercise.c" else path, known) or defined_in(path, known)


def in_folder(name, folder, exercises, known):
    """A submission for each exercise that is found in a folder; or why there is none."""
    files = files_of(folder)
    if len(exercises) == 1 and (folder / "exercise.c" in files or not files):
        yield Submission(name, exercises[0], folder, None)  # if there is none, to grade it says what is there
        return
    found = collections.defaultdict(list)
    for path in files:
        found[exercise_of(path, folder, known)].append(path)
    chosen = [e for e in exercises if e in found]
    if not chosen:
        why = f"no file in it is of {'that exercise' if len(exercises) == 1 else 'an exercise that can be told'}" if files else "it has no .c file"
        yield Submission(name, exercises[0] if len(exercises) == 1 else None, folder, why)
    for exercise in chosen:
        paths = [path for path in found[exercise] if path.name == "exercise.c"] or found[exercise]
        why = f"several files are of that exercise: {', '.join(clean(p.relative_to(folder)) for p in paths)}" if len(paths) > 1 else None
        why = "it is a link, which is not followed" if paths[0].is_symlink() else why
        yield Submission(name, exercise, paths[0].parent if paths[0].name == "exercise.c" else paths[0], why)


def found_in(folder, exercises, known, but):
    """All submissions of a folder, in the order of their names; `but` are the files and folders that are written."""
    try:
        entries = sorted(Path(folder).iterdir())
    except OSError as error:
        raise Trouble(f"cannot read {folder}: {error.strerror}") from None
    written = {Path(path).absolute() for path in but if path}
    entries = [e for e in entries if not e.name.startswith(".") and e.name != "__MACOSX" and e.absolute() not in written]
    stems = collections.Counter(e.stem if e.suffix == ".c" else e.name for e in entries)
    only = exercises[0] if len(exercises) == 1 else None
    for entry in entries:
        name = clean(entry.stem if entry.suffix == ".c" and stems[entry.stem] == 1 else entry.name)
        if entry.is_symlink():
            yield Submission(name, only, entry, "it is a link, which is not followed")
        elif entry.is_dir():
            yield from in_folder(name, entry, exercises, known)
        elif entry.suffix != ".c":
            yield Submission(name, only, entry, "it is neither a .c file nor a folder")
        else:
            exercise = only or defined_in(entry, exercises) or named_in(entry, exercises)
            yield Submission(name, exercise, entry, None if exercise else "it is of no exercise that can be told")


# ---- the list ----

def diagnosis(graded):
    """Each mistake in a word or a few, after the tests that have it."""
    tests = {}
    for test in graded["tests"]:
        if not test["passed"]:
            tests.setdefault(clean(test["word"], 120), []).append(test["name"])
    if len(tests) == 1 and len(graded["tests"]) == len(next(iter(tests.values()))):
        return next(iter(tests))
    return "; ".join(f"{', '.join(names)}: {word}" for word, names in tests.items())


def safe(text):
    """A cell that no spreadsheet takes for a formula."""
    return "'" + text if re.match(r"\s*[=+\-@|%\uff1d\uff0b\uff0d\uff20]", text) else text


class Marks:
    """The list as it is so far: a row for each submission; `done` has what is known of it: the marks, or a sentence if it was not graded."""

    def __init__(self, path, submissions, exercises, build):
        self.path, self.submissions, self.exercises, self.build = path, submissions, exercises, build
        self.done = {}

    def columns(self, exercise):
        prefix = f"{exercise.name.split('_')[0]}." if len(self.exercises) > 1 else ""
        return [prefix + name for name, _, _ in exercise.tests(self.build)]

    def row(self, number):
        submission, graded = self.submissions[number], self.done.get(number, "not graded yet")
        row = {"name": safe(submission.name), "exercise": submission.exercise.name if submission.exercise else ""}
        if isinstance(graded, str):
            return {**row, "diagnosis": safe(graded)}
        row.update(zip(self.columns(submission.exercise), (test["score"] for test in graded["tests"])))
        return {**row, "points": graded["score"], "of": graded["points"], "diagnosis": safe(diagnosis(graded))}

    def write(self):
        if not self.path:
            return
        tests = [column for exercise in self.exercises for column in self.columns(exercise)]
        text = io.StringIO()
        writer = csv.DictWriter(text, ["name", "exercise", "points", "of", *tests, "diagnosis"], restval="", quoting=csv.QUOTE_NONNUMERIC,
                                lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.row(number) for number in range(len(self.submissions)))
        write_whole(self.path, text.getvalue())

    def line(self, number):
        row = self.row(number)
        width = min(30, max(len(s.name) for s in self.submissions))
        points = f"{row['points']:2}/{row['of']}" if "points" in row else "  -  "
        exercise = f"  {row['exercise']:3.3}".replace("_", " ") if len(self.exercises) > 1 else ""
        return f"{self.submissions[number].name:{width}}{exercise}  {points}  {clean(row['diagnosis'], 150) or 'all right'}"

    def summary(self):
        graded = [marks for marks in self.done.values() if not isinstance(marks, str)]
        full = sum(marks["score"] == marks["points"] for marks in graded)
        mean = sum(marks["score"] for marks in graded) / max(1, len(graded))
        return f"{len(graded)} of {len(self.submissions)} graded, {full} with full marks, {mean:.2f} points on average"

    def mistakes(self, most=25):
        """How many submissions have each mistake, the most frequent first."""
        counts = collections.Counter()
        for marks in self.done.values():
            if not isinstance(marks, str):
                counts.update({(marks["exercise"], clean(test["word"], 120)) for test in marks["tests"] if not test["passed"]})
        several = len(self.exercises) > 1
        lines = [f"  {count:4}  {exercise[:2] + '  ' if several else ''}{word}" for (exercise, word), count in counts.most_common(most)]
        return lines + [f"  and {len(counts) - most} others"] * (len(counts) > most)


# ---- gradings that are kept, and pages ----

class Kept:
    """The file of gradings of a class: a line for each, written at once. `key(submission)` says what a grading depends on: one that is in the
    file with the same key is not made again."""

    def __init__(self, path, submissions, key):
        self.path, self.keys = path, {number: key(submission) for number, submission in enumerate(submissions) if path and submission.exercise}
        self.submissions, self.before = submissions, {}
        if not path:
            return
        known = {(kept.get("name"), kept["exercise"]): kept for kept in read_gradings(path, unfinished=True)}
        for number, submission in enumerate(submissions):
            kept = submission.exercise and known.get((submission.name, submission.exercise.name))
            if kept and kept.get("key") == self.keys[number]:
                self.before[number] = kept
        write_whole(path, lines_of(self.before.values()))

    def add(self, number, graded):
        """The grading as it is in the file."""
        if not self.path or isinstance(graded, str):
            return graded
        graded = {"name": self.submissions[number].name, "key": self.keys[number], **graded}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(lines_of([graded]))
            file.flush()
            os.fsync(file.fileno())
        return graded


class Pages:
    """A page for each student, in a folder."""

    def __init__(self, folder, marks):
        self.folder, self.marks, taken = folder and Path(folder), marks, set()
        if not folder:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Trouble(f"cannot make {folder}: {error.strerror}") from None
        self.numbers = collections.defaultdict(list)
        for number, submission in enumerate(marks.submissions):
            self.numbers[submission.name].append(number)
        self.files = {name: page.file_name(name, taken) for name in self.numbers}

    def write(self, name):
        if not self.folder:
            return
        graded = [self.marks.done.get(number, "") for number in self.numbers[name]]
        graded = [shown_to_student(one) for one in graded if not isinstance(one, str)]
        if graded:
            write_whole(self.folder / self.files[name], page.page(name, graded))


def texts_of(submissions, exercise, read):
    """The programs of an exercise."""
    found = {}
    for submission in submissions:
        if submission.exercise is exercise and not submission.why:
            with contextlib.suppress(Trouble):
                found[submission.name] = read(submission.path).decode("utf-8", "replace")
    return found


def tell_likeness(submissions, exercises, read):
    """Which programs of a class are alike. It is printed, and nothing depends on it."""
    for exercise in exercises:
        solution = exercise.folder.parent / "tests" / exercise.name / "solution.c"
        lines = alike.said(texts_of(submissions, exercise, read), solution.read_text() if solution.exists() else None,
                           (exercise.folder / "exercise.c").read_text(), exercise.allowed | exercise.defines)
        if lines:
            print(f"\nprograms of {exercise.name} that are alike (no marks depend on it: look at them):", *lines, sep="\n")


# ---- a class ----

def attempt(submission, one):
    """The marks, or why there are none: of any error, as others are still to be graded."""
    try:
        return one(submission)
    except Trouble as trouble:
        return f"not graded: {clean(trouble)}"
    except Exception:
        return f"not graded: {clean(traceback.format_exc(limit=-1).splitlines()[-1])}"


def grade_all(found, exercises, build, one, stop, kept, args):
    """Grades what was found with `one(submission)`, which `stop()` ends. 0: all got marks, however many."""
    marks = Marks(args.csv, found, exercises, build)
    pages = Pages(args.feedback, marks)
    marks.done.update(kept.before)
    marks.write()
    for name in {found[number].name for number in kept.before}:
        pages.write(name)
    if kept.before:
        print(f"{len(kept.before)} of {len(found)} were graded before: {args.json} has them\n")
    pool = concurrent.futures.ThreadPoolExecutor(args.jobs)
    try:
        futures = {pool.submit(attempt, submission, one): number for number, submission in enumerate(found) if number not in kept.before}
        for future in concurrent.futures.as_completed(futures):
            number = futures[future]
            marks.done[number] = kept.add(number, future.result())
            marks.write()
            pages.write(found[number].name)
            print(marks.line(number), flush=True)
    finally:
        stop()  # nothing runs, unless this is an interruption or the list cannot be written
        pool.shutdown(cancel_futures=True)
    print(f"\n{marks.summary()}" + (f"; {args.csv}" if args.csv else ""))
    mistakes = marks.mistakes()
    if mistakes:
        print("\nhow many have each mistake:", *mistakes, sep="\n")
    return 2 if any(isinstance(m, str) for m in marks.done.values()) else 0
