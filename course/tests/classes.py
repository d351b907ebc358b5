"""A class: folders of submissions, in which no submission may harm another."""
import csv
import html.parser
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from grader import program

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


def which_exercise(build):
    """Each solution and each stub is told by what it defines, also if it has helpers of names that are another exercise's."""
    submissions, exercises = program("submissions.py"), program("grade").exercises("all")
    wrong = [str(path) for e in exercises for path in (HERE / e.name / "solution.c", HERE.parent / e.name / "exercise.c")
             if submissions.defined_in(path, exercises) is not e]
    return None if not wrong else f"not told: {' '.join(wrong)}"


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
                            ("--csv and --feedback go with --all", ["1", "--csv", "x"]),
                            ("goes with neither", ["1", "--all", folder, "--report", "x"]),):
            done = subprocess.run([GRADE, "--build", str(build.folder), *args], capture_output=True, text=True, timeout=600)
            if done.returncode != 2 or words not in done.stderr or "Traceback" in done.stderr:
                return f"{words}: {done.returncode} {done.stdout} {done.stderr}"
        shutil.copy(HERE / "01_broadcasting/solution.c", folder / "ada.c")
        done = subprocess.run([GRADE, "--build", str(build.folder), "1", "--all", folder, "--csv", Path(place) / "none/marks.csv"], capture_output=True,
                              text=True, timeout=600)
        if done.returncode != 2 or "cannot write" not in done.stderr or "10/10" in done.stdout:
            return f"{done.stdout} {done.stderr}"
        other = Path(place) / "other"
        for text in ("Dear Ada,\n", "Dear Ada,", "{}\n", "[1]\n", "\n"):
            other.write_text(text)
            done = subprocess.run([GRADE, "--build", str(build.folder), "1", "--all", folder, "--json", other, "--seed", "random"], capture_output=True,
                                  text=True, timeout=600)
            if done.returncode != 2 or other.read_text() != text or "is no file of gradings" not in done.stderr:
                return f"{text!r}: {done.stdout} {done.stderr}"
    return None


def goes_on(build):
    """The same command grades only what is not in its file: what is new, changed, or was cut short; with the seed that was drawn first."""
    with tempfile.TemporaryDirectory() as place:
        folder, gradings, marks = Path(place) / "class", Path(place) / "gradings.json", Path(place) / "marks.csv"
        lay_out(folder, [("ada.c", SOLUTION), ("bob.c", SOLUTION), ("cy.c", SOLUTION), ("dan.c", mistaken("return NULL;"))])
        said = []
        for run in range(3):
            done = subprocess.run([GRADE, "--build", str(build.folder), "1", "--all", folder, "--csv", marks, "--json", gradings, "--seed", "random",
                                   "--jobs", "1"], capture_output=True, text=True, timeout=600)
            said.append([line.split()[0] for line in done.stdout.splitlines() if " 10/10  " in line or "/10  " in line])
            lines = gradings.read_text().splitlines()
            seeds = {json.loads(line)["seed"] for line in lines}
            rows = [(row["name"], row["points"]) for row in listed(marks)]
            if done.returncode or len(lines) != 4 or len(seeds) != 1 or (run and seeds != first):
                return f"{run}: {done.returncode} {lines} {done.stdout} {done.stderr}"
            first = seeds
            if run == 0:
                last = json.loads(lines[-1])["name"]
                gradings.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:100])
                (folder / "bob.c").write_text(mistaken("return NULL;"))
    right = said == [["ada", "bob", "cy", "dan"], ["bob", "dan"], []] and last == "dan" and rows == [("ada", "10"), ("bob", "7"), ("cy", "10"), ("dan", "7")]
    return None if right else f"{said} {last} {rows}"


class Tags(html.parser.HTMLParser):
    """The tags of a page, balanced, with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.attributes, self.text, self.wrong = [], set(), set(), "", []
        self.feed(page)
        self.wrong += self.open

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        self.attributes.update(name for name, _ in attributes)
        self.wrong += [value for _, value in attributes if "://" in (value or "")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data


PLAIN = {"html", "head", "meta", "title", "style", "body", "p", "h1", "h2", "table", "tr", "td", "th", "pre", "figure", "figcaption", "svg", "rect", "text"}
HARMLESS = {"lang", "charset", "http-equiv", "content", "name", "class", "style", "width", "height", "viewbox", "role", "x", "y", "text-anchor"}
OUTPUT = "\u202e</pre></style><script>alert(1)</script><img src=http://example.org/x onerror=alert(1)>&amp;"


def feedback(build):
    """A page for each student: a picture of what is wrong, nothing of another's, and of a hostile name or output only the text."""
    names = ["<img src=x onerror=alert(1)>", "ada", "ADA", "a..b", "&quot;\"'"]
    wrong = SOLUTION.replace("1 - y * y", "1 + y * y").replace(NEURON, NEURON + f"puts({json.dumps(OUTPUT)});\n")
    with tempfile.TemporaryDirectory() as place:
        folder, pages = Path(place) / "class", Path(place) / "pages"
        lay_out(folder, [(f"{name}.c", "#include <stdio.h>\n" + wrong if name != "ada" else SOLUTION) for name in names])
        done = subprocess.run([GRADE, "--build", str(build.folder), "1", "--all", folder, "--feedback", pages], capture_output=True, text=True, timeout=600)
        found = {path.name: path.read_text("utf-8") for path in pages.iterdir()}
        report = Path(place) / "report.html"
        subprocess.run([GRADE, "--build", str(build.folder), "1", folder / "ADA.c", "--report", report], capture_output=True, timeout=600)
        found["report"] = report.read_text("utf-8")
    if done.returncode or len(found) != len(names) + 1 or "ada.html" not in {name.lower() for name in found}:
        return f"{done.returncode} {sorted(found)} {done.stderr}"
    for name, text in found.items():
        tags, full = Tags(text), "10/10" in text
        shown = [words in tags.text for words in (OUTPUT.replace("\u202e", "?"), "1 + y^2 is written for 1 - y^2", "neuron_by_hand")]
        if tags.wrong or not tags.seen <= PLAIN or not tags.attributes <= HARMLESS or shown != [not full, not full, True]:
            return f"{name}: {tags.wrong} {tags.seen - PLAIN} {tags.attributes - HARMLESS} {shown}"
        if not full and ("svg" not in tags.seen or "must be" not in tags.text):
            return f"{name}: no picture"
    named = [Tags(text).text for text in found.values()]
    return None if sum(names[0] in text for text in named) == 1 else f"{named}"


def counted(build):
    """After a class: how many have each mistake."""
    with tempfile.TemporaryDirectory() as place:
        lay_out(Path(place), [(f"{n}.c", SOLUTION.replace("1 - y * y", "1 + y * y")) for n in range(3)] + [("x.c", "int"), ("ada.c", SOLUTION)])
        done = subprocess.run([GRADE, "--build", str(build.folder), "1", "--all", place], capture_output=True, text=True, timeout=600)
    listed = done.stdout.split("how many have each mistake:\n")[-1].split("\n\n")[0].splitlines()
    return None if listed == ["     3  1 + y^2 is written for 1 - y^2", "     1  does not compile"] else f"{done.stdout}"


def likeness(build):
    """A copy with other names, constants, comments and brackets, whose functions stand in another order, is like its original; a program that was
    written apart is not. Nothing of this changes a mark."""
    known = set("ct_tensor ct_call ct_context ct_fail ct_zeros ct_numel forward backward".split())
    loop = "static void {name}(double *{a}, const double *{b}, int64_t n) {{\n    for (int64_t {i} = 0; {i} < n; {i}++) {a}[{i}] {op} {b}[{i}] * {c} + {a}[0];\n}}\n"
    one = "".join(loop.format(name=f"f{n}", a="out", b="in", i="i", op=op, c=n) for n, op in enumerate(("=", "+=", "-=", "*=", "/=")))
    other = "".join(loop.format(name=f"helper{n}", a="result", b="x", i="row", op=op, c=f"{n}.5").replace("const ", "").replace("\n    for", " /* a */ for")
                    .replace(")\n", ") {\n").replace(";\n}", "; }\n}") for n, op in enumerate(("/=", "*=", "-=", "+=", "=")))
    apart = """static double dot(const double *a, const double *b, int64_t n) {
    double sum = 0;
    while (n-- > 0) sum += *a++ * *b++;
    return sum;
}
static void rows(double *y, const double *x, int64_t n, int64_t m) {
    double *end = y + n;
    do { *y = sqrt(dot(x, x, m)) > 1 ? 1 / *y : exp(-*y), x += m; } while (++y < end);
    if (m == 0) memset(y - n, 0, n * sizeof *y);
}
"""
    alike = program("alike.py")
    said = alike.said({"ada": one, "bob": other, "cy": apart}, None, "", known)
    solved = alike.said({"bob": other, "cy": apart}, one, "", known)
    # exercise 15: a stub that is nearly all of the program
    same = alike.said({"ada": one + apart, "bob": one + apart}, None, one + apart.replace("n-- > 0", "--n > 0"), known)
    right = (len(said) == 2 and said[0].endswith("%  ada, bob") and int(said[0].split("%")[0]) >= 90 and not same
             and len(solved) == 2 and solved[0].endswith("%  bob, the published solution"))
    return None if right else f"{said} {solved} {same}"


def tasks(build):
    yield "class: one of each kind", lambda: a_class(build)
    yield "class: several exercises", lambda: several_exercises(build)
    yield "class: which exercise a file is of", lambda: which_exercise(build)
    yield "class: interrupted", lambda: interrupted(build, signal.SIGINT)
    yield "class: ended", lambda: interrupted(build, signal.SIGTERM)
    yield "class: what is asked for wrongly", lambda: refused(build)
    yield "class: goes on", lambda: goes_on(build)
    yield "class: pages", lambda: feedback(build)
    yield "class: counts of mistakes", lambda: counted(build)
    yield "class: likeness", lambda: likeness(build)
