"""How marks are told: on paper, to Gradescope, in words that tests have in common."""
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


def show(graded):
    width = max([len(test["name"]) for test in graded["tests"]] + [5])
    print(f"{graded['exercise'].name}: {graded['submission']}\n")
    for test in graded["tests"]:
        end = "passed" if test["passed"] else "partly" if test["score"] else "failed"
        print(f"  {test['name']:{width}}  {test['score']:2}/{test['points']}  {end}")
    print(f"  {'total':{width}}  {graded['score']:2}/{graded['points']}\n")
    if graded.get("left_out"):
        print(f"  and {graded['left_out']} hidden\n")
    if graded["seal"] != "sealed":
        print(f"  {UNSEALED}\n")
    if graded["seed"] != 1:
        print(f"  with SEED={graded['seed']}\n")
    if graded["note"]:
        print(indented(graded["note"], "  "))
    failed = [test for test in graded["tests"] if not test["passed"] and not graded["note"].startswith(test["sentence"])]
    shown = {}  # a mistake, and the first of the tests that have it
    for test in failed:
        first = shown.setdefault(told(test) if test["word"] in OF_NO_KIND else mistake_of(test), test)
        alike = [other["name"] for other in failed if other is not test and is_told_by(test, other)]
        if first is test:
            same = f"\nthe same mistake: {', '.join(alike)}" if alike else ""
            print(f"{test['name']}:\n{indented(told(test) + same, '  ')}")
        elif not is_told_by(first, test):  # it has printed something else
            print(f"{test['name']}:\n{indented('the same mistake as in ' + first['name'] + chr(10) + printed_by(test), '  ')}")


def is_told_by(first, test):
    """Whether nothing new is to say of a test, once the first that has its mistake is shown."""
    alike = told(first) == told(test) if test["word"] in OF_NO_KIND else mistake_of(first) == mistake_of(test)
    return alike and test["printed"] in ("", first["printed"])


def gradescope(all_graded, hidden="hidden"):
    """results.json as Gradescope reads it."""
    of = lambda graded, text: f"{graded['exercise'].name}: {text}" if len(all_graded) > 1 else text
    tests = [{"name": of(graded, test["name"]), "number": f"{graded['exercise'].name[:2]}.{number}", "score": test["score"],
              "max_score": test["points"], "status": "passed" if test["passed"] else "failed", "output": told(test) or "right",
              "visibility": hidden if test["hidden"] else "visible"}
             for graded in all_graded for number, test in enumerate(graded["tests"], 1)]
    seed, seal = all_graded[0]["seed"], all_graded[0]["seal"]
    notes = [of(graded, graded["note"]) for graded in all_graded if graded["note"]] + [f"SEED={seed}"] * (seed != 1)
    notes += [UNSEALED] * any(graded["seal"] != "sealed" for graded in all_graded)
    return {"score": sum(graded["score"] for graded in all_graded),
            "execution_time": round(sum(graded["seconds"] for graded in all_graded)),
            "output": "\n\n".join(notes), "extra_data": {"seed": seed, "seal": seal}, "tests": tests}


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
