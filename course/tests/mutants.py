"""Mutants of the solutions: each has one small mistake, as students make them, and must lose points. Of those that cannot, because they
compute the same, `mutants.equivalent` has a line with the reason. `make course-mutants` grades all, `make course-test` a few."""
import re
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EQUIVALENT = HERE / "mutants.equivalent"
NOT_CODE = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\])*"|#[^\n]*', re.S)
# what is replaced, and what stands there then
MUTATIONS = [
    (r"(?<= )<(?= )", "<="),
    (r"(?<= )<=(?= )", "<"),
    (r"(?<= )>(?= )", ">="),
    (r"(?<= )>=(?= )", ">"),
    (r"(?<= )\+(?= )", "-"),
    (r"(?<= )-(?= )", "+"),
    (r"(?<= )\+=(?= )", "="),
    (r"(?<= )-=(?= )", "+="),
    (r"(?<=[(=,?:] )-(?=[a-z(])", ""),
    (r"(?<= )\*(?= )", "/"),
    (r"(?<= )/(?= )", "*"),
    (r"(?<=\[)[a-z](?=\])", "0"),
    (r"(?<=int64_t \w = )0(?=;)", "1"),
    (r"(?<= )&&(?= )", "||"),
    (r"(?<= )\|\|(?= )", "&&"),
]


def mutants_of(exercise):
    """(line, what it is in the list, the program) of each."""
    text = (HERE / exercise.name / "solution.c").read_text()
    hidden = NOT_CODE.sub(lambda found: re.sub(r"[^\n]", "\0", found[0]), text)
    for pattern, other in MUTATIONS:
        for found in re.finditer(pattern, hidden):
            line = text.count("\n", 0, found.start()) + 1
            column = found.start() - text.rfind("\n", 0, found.start())
            yield f"{exercise.name} {line}:{column} {found[0]} becomes {other or 'nothing'}", text[:found.start()] + other + text[found.end():]


def known():
    """The names of equivalent mutants."""
    lines = EQUIVALENT.read_text().splitlines() if EQUIVALENT.exists() else []
    return {line.split(": ", 1)[0] for line in lines if line and not line.startswith("#")}


def survives(grade, build, exercise, name, text):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exercise.c"
        file.write_text(text)
        graded = grade.grade(exercise, build, file, 2, 512)
    return f"{name}: it has all points" if graded["score"] == graded["points"] else None


def tasks(grade, build, which="all", every=1):
    equivalent, number = known(), 0
    for exercise in grade.exercises(which):
        for name, text in mutants_of(exercise):
            number += 1
            if number % every == 0 and name not in equivalent:
                yield f"mutant {name}", lambda e=exercise, n=name, t=text: survives(grade, build, e, n, t)
