"""Gradings: what is said of one on paper, how several are kept in a file, and which mistakes tests have in common."""
import json
import os
import re
import tempfile
from pathlib import Path


UNSEALED = "not sealed: for practice"  # what marks without the seal are worth


class Trouble(Exception):
    """Nothing can be graded."""


def printable(data, most=4000):
    """What a program wrote, cut and without what would move a terminal's cursor."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    text = "".join(c if c in "\n\t" or c.isprintable() else "?" for c in text)
    return text if len(text) <= most else text[:most] + "\n... cut"


def shown_to_student(graded):
    """The same without hidden tests."""
    tests = [test for test in graded["tests"] if not test["hidden"]]
    return {**graded, "tests": tests, "left_out": len(graded["tests"]) - len(tests), "score": sum(t["score"] for t in tests),
            "points": sum(t["points"] for t in tests)}


def indented(text, by="    "):
    return "".join(f"{by}{line}\n" for line in text.splitlines())


def printed_by(test):
    return "it printed:\n" + indented(test["printed"]).rstrip("\n") if test["printed"] else ""


def told(test):
    """What is said of one test that failed, and what it printed."""
    return "\n".join(part for part in (test["sentence"], of_inputs(test), printed_by(test)) if part)


def of_inputs(test):
    """The report, in which inputs with the mistake that the sentence has of one are named, and the mistake is not said again."""
    of_input = re.compile(r" *and (input \d+ \([\d, ]*\)): .*")
    same, lines = [], []
    for line in test["report"].splitlines():
        found = of_input.fullmatch(line)
        if found and pattern_of(line).split(":", 1)[1] == pattern_of(test["sentence"]).split(":", 2)[-1]:
            same.append(found[1])
        else:
            lines.append(line)
    return "\n".join(lines[:1] + [f"  and in the same way {', '.join(same)}"] * bool(same) + lines[1:])


def pattern_of(sentence):
    """What is said, without inputs, shapes and the sizes that a factor may be."""
    return re.sub(r"(what it must be).*", r"\1", re.sub(r"input \d+|\([\d, ]*\)", "", sentence))


OF_NO_KIND = {"wrong values", "wrong shape", "wrong dtype", "no result", "another error", "wrong gradient", "cannot tell"}


def mistake_of(test):
    """What two tests that show one mistake have in common."""
    return test["word"], pattern_of(test["sentence"])


def mistakes_of(graded):
    """Each mistake once: the first test that has it, the names of others that it tells all of, and, of a test that has printed something else,
    the name of the first with its mistake."""
    failed = [test for test in graded["tests"] if not test["passed"] and not graded["note"].startswith(test["sentence"])]
    shown = {}  # a mistake, and the first of the tests that have it
    for test in failed:
        first = shown.setdefault(told(test) if test["word"] in OF_NO_KIND else mistake_of(test), test)
        if first is test:
            yield test, [other["name"] for other in failed if other is not test and is_told_by(test, other)], None
        elif not is_told_by(first, test):
            yield test, [], first["name"]


def how(test):
    return "passed" if test["passed"] else "partly" if test["score"] else "failed"


def shown(graded):
    """A grading as it is printed."""
    width = max([len(test["name"]) for test in graded["tests"]] + [5])
    said = [f"{graded['exercise']}: {graded['submission']}\n"]
    said += [f"  {test['name']:{width}}  {test['score']:2}/{test['points']}  {how(test)}" for test in graded["tests"]]
    said += [f"  {'total':{width}}  {graded['score']:2}/{graded['points']}\n"]
    left_out = graded.get("left_out", 0)
    said += [f"  and {left_out} hidden\n"] * (left_out > 0)
    said += [f"  {UNSEALED}\n"] * (graded["seal"] != "sealed") + [f"  with SEED={graded['seed']}\n"] * (graded["seed"] != 1)
    said += [indented(graded["note"], "  ")] * bool(graded["note"])
    for test, alike, first in mistakes_of(graded):
        same = f"\nthe same mistake: {', '.join(alike)}" if alike else ""
        text = f"the same mistake as in {first}\n{printed_by(test)}" if first else told(test) + same
        said.append(f"{test['name']}:\n{indented(text, '  ')}")
    return "\n".join(said) + "\n"


def is_told_by(first, test):
    """Whether nothing new is to say of a test, once the first that has its mistake is shown."""
    alike = told(first) == told(test) if test["word"] in OF_NO_KIND else mistake_of(first) == mistake_of(test)
    return alike and test["printed"] in ("", first["printed"])


# ---- files ----

def lines_of(gradings):
    """Gradings as `--json` writes them: each a line of JSON."""
    return "".join(json.dumps(graded) + "\n" for graded in gradings)


def read_gradings(path, unfinished=False):
    """The gradings of a file. An unfinished one may be missing, and its last line may have been cut short."""
    try:
        text = Path(path).read_bytes()
    except OSError as error:
        if unfinished and isinstance(error, FileNotFoundError):
            return []
        raise Trouble(f"cannot read {path}: {error.strerror}") from None
    whole = text[:text.rfind(b"\n") + 1] if unfinished and text.startswith(b'{"') else text
    try:
        gradings = [json.loads(line) for line in whole.splitlines()]
    except ValueError:
        gradings = [None]
    if not all(isinstance(graded, dict) and {"exercise", "seed", "tests"} <= graded.keys() for graded in gradings):
        raise Trouble(f"{path} is no file of gradings: grade --json writes one")
    return gradings


def write_whole(path, text):
    """All of it or nothing: beside it, then in its place."""
    path = Path(path)
    try:
        if path.exists() and not path.is_file():  # a device or a pipe
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return
        handle, name = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise Trouble(f"cannot write {path}: {error.strerror}") from None
