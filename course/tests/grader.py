"""What a submission may try and what a teacher may mistype: each must end as it says here."""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GRADE = HERE.parent / "grade"
SOLUTION = HERE / "01_broadcasting/solution.c"


def program(name):
    """A program of course/, as a module."""
    loader = importlib.machinery.SourceFileLoader(name, str(HERE.parent / name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


adapt = program("adapt")
ADD = "static ct_tensor *forward(ct_call *call) {\n"  # of add and mul: a line put behind it runs in each of their forwards
PROTOTYPES = "#include <unistd.h>\n#include <stdlib.h>\n#include <stdio.h>\n#include <string.h>\n"

# name, what stands before the solution, what runs in add's and mul's forward (None: there is nothing else); what is said of every test.
REFUSED = [
    ("a missing brace", "static int f(void) {", "", "does not compile"),
    ("no declaration", "", "no_such_function();", "does not compile"),
    ("not a program", "\x00\x01\xff", "", "it is no text"),
    ("too large", "//" + "x" * (1 << 20), "", "larger than 1 MiB"),
    ("an array that no machine holds", "", "static double a[1ull << 60]; a[call->n] = 1;", "does not"),
    ("the library's op", "", "if (call->op == &mul) return ct_mul(call->in[0], call->in[1]);", "it calls ct_mul,"),
    ("through a pointer", "#include <cotangent/cotangent.h>\nstatic ct_tensor *(*volatile f)(ct_tensor *, ct_tensor *) = ct_mul;",
     "return f(call->in[0], call->in[1]);", "it calls ct_mul,"),
    ("under another name", "#include <cotangent/cotangent.h>\nct_tensor *f(ct_tensor *, ct_tensor *) __asm__(\"ct_mul\");",
     "return f(call->in[0], call->in[1]);", "assembly"),
    ("under another name, by a pragma", "#pragma redefine_extname f ct_mul\n#include <cotangent/cotangent.h>\n"
     "ct_tensor *f(ct_tensor *, ct_tensor *);", "return f(call->in[0], call->in[1]);", "it calls ct_mul,"),
    ("through assembly", "", "__asm__ volatile(\"call ct_mul\");", "assembly"),
    ("through assembly outside of functions", "__asm__(\".globl f\\nf: jmp ct_mul\");", "", "assembly"),
    ("the checker", "", "ct_gradcheck(0, 0, 0, 0, (ct_gradcheck_opts){0});", "it calls ct_gradcheck,"),
    ("write to the pipe", "", "write(3, \"passed\\n\", 7);", "it uses write,"),
    ("a file", "", "fopen(\"solution.c\", \"r\");", "it uses fopen,"),
    ("exit", "", "exit(0);", "it uses exit,"),
    ("a process", "", "if (system(\"true\")) return NULL;", "it uses system,"),
    ("another name of its own", "int helper(int x); int helper(int x) { return x; }", "", "it defines helper"),
    ("main", "int main(void) { return 0; }", "", "it defines main"),
    ("a library function of its own", "#define ct_gradcheck hidden\n#include <cotangent/cotangent.h>\n#undef ct_gradcheck\n"
     "ct_gradcheck_result ct_gradcheck(void); ct_gradcheck_result ct_gradcheck(void) { return (ct_gradcheck_result){.ok = true}; }", "",
     "it defines ct_gradcheck"),
    ("malloc of its own", "void *malloc(size_t n) { (void)n; return NULL; }", "", "it defines malloc"),
    ("code before the tests", "__attribute__((constructor)) static void early(void) { puts(\"early\"); }", "", "a section .init_array"),
    ("the library's source", f"#include \"{ROOT}/ops/mul.c\"", "", "it includes"),
    ("the solution", f"#include \"{SOLUTION}\"", None, "it includes"),
    # what is read before it is known to be wrong must not be shown
    ("a header said to be the system's", f"# 1 \"/usr/include/x.h\" 1 3\n#include \"{SOLUTION}\"", None, "a directive #1"),
    ("the same behind a comment", f"/* */ # /*\n*/ 1 \"/usr/include/x.h\" 1 3\n#include \"{SOLUTION}\"", None, "a directive #1"),
    ("the same in digraphs and two lines", f"%:\\\n1 \"/usr/include/x.h\" 1 3\n#include \"{SOLUTION}\"", None, "a directive #1"),
    ("the same behind what looks like a comment", f"char c = '/*';\n# 1 \"/usr/include/x.h\" 1 3\n#include \"{SOLUTION}\"\n/* '*/", None,
     "a directive #1"),
    ("the same behind a raw string", f"char c[] = R\"(/*)\";\n# 1 \"/usr/include/x.h\" 1 3\n#include \"{SOLUTION}\"\n/* */", None,
     "a raw string"),
    ("a path from a system's folder", "#include <../../etc/passwd>", None, "it includes <../../etc/passwd>"),
    ("a header by a macro", f"#define F \"{SOLUTION}\"\n#include F", None, "it includes F"),
    ("the next header", "#include_next </etc/passwd>", None, "a directive #include_next"),
    ("embedded bytes", "const char c[] = {\n#embed \"/etc/passwd\"\n};", None, "a directive #embed"),
    ("an import", "#import \"/etc/passwd\"", None, "a directive #import"),
    ("which files there are", "#if __has_include(\"/etc/passwd\")\nint x = ;\n#endif", None, "asks which files"),
    ("itself", "#include \"exercise.c\"", None, "exercise.c; only exercise.h"),
    ("the tests", "#include \"test.c\"", None, "it includes"),
    ("a file that is no C", "#include \"/etc/passwd\"", None, "it includes"),
    ("another file's lines in a message", "#line 1 \"/etc/passwd\"\nint x = ;", None, "a directive #line"),
    ("an assembler's file", "__asm__(\".include \\\"/etc/passwd\\\"\");", None, "assembly"),
    ("assembly in a name", "int x __asm__(\"x\\n.incbin \\\"/etc/passwd\\\"\\n\");", None, "assembly"),
    ("assembly by a macro of a header", "#include <sys/cdefs.h>\nint __REDIRECT(f, (void), ct_mul);", None, "assembly"),
    ("machine code", "__attribute__((section(\".text\"))) static const unsigned char code[] = {0xc3};",
     "((void (*)(void))(long)code)();", "a section of its own"),
    ("a jump to a caller", "static void *frame[5];", "__builtin_longjmp(frame, 1);", "__builtin_longjmp"),
    ("nothing", "", None, "it is empty"),
    ("UTF-16", "\xff\xfei\0n\0t\0", None, "it is in UTF-16"),
]

# The same, but what is said of add_broadcast alone; None: it passes.
AT_RUN_TIME = [
    ("an endless loop", "", "for (volatile int i = 0; i < 1; i *= 1) {}", "ran longer than 1 s"),
    ("an endless flood", "", "for (;;) puts(\"passed\");", "ran longer than 1 s"),
    ("a null pointer", "", "*(volatile int *)0 = 1;", "crashed: "),
    ("a recursion without end", "static int deep(volatile int *p) { volatile int here = *p; return deep(&here) + here; }",
     "volatile int one = 1; if (deep(&one)) return NULL;", "crashed: "),
    ("a trap", "", "__builtin_trap();", "crashed: "),
    ("more memory than there may be", "", "for (int i = 0; i < 64; i++) *(volatile char *)malloc(3u << 30) = 1;",
     "needed more memory than the limit of 1024 MiB"),
    ("a tensor larger than that", "", "if (!ct_zeros(call->context, CT_F64, CT_SHAPE(1 << 30))) return NULL;",
     "needed more memory than the limit of 1024 MiB"),
    ("a flood of output", "", "for (int i = 0; i < 20000; i++) puts(\"here I am\");", None),
    ("no new line, and what moves a cursor", "", "printf(\"\\033[2J\\xff\");", None),
    ("a byte order mark, lines that end as in Windows", "\xef\xbb\xbf/* */\r\n#define TWO \\\r\n 2\r\nint helper[TWO];\r\n".replace(
        "int", "static int"), "(void)helper;", None),
    ("directives that are right", "# /* null */\n#include /* here */ <math.h> // C's\n#if 0\nit's \"wrong\n#else\n#pragma GCC diagnostic push\n"
     "#endif\n#ifndef X\n#error no\n#elif 1\n#undef Y\n#endif\n".replace("#ifndef X", "#define X \"asm(\\\"\"\n#ifndef X"),
     "puts(\"# 1 __asm__\");", None),
    ("a cry of success", "", "puts(\"passed\"); fflush(stdout); *(volatile int *)0 = 1;", "crashed: "),
]

# Answers on the judge's descriptor, by what stdio has in its image: without the rules a submission may write there anyway.
SEND = """
static void send(const char *text) {
    fflush(stdout);
    const int old = stdout->_fileno;
    stdout->_fileno = 3;
    printf("%s", text), fflush(stdout);
    stdout->_fileno = old;
}
"""
MEMORY = [
    ("a text in place of an answer", SEND, "send(\"passed\\n                                \");", "no answer"),
    ("less than an answer", SEND, "send(\"passed\\n\");", ""),
]

# With the rules switched off: the verdict itself must not be forged.
FORGED = [
    ("passed on every pipe", "", "for (int fd = 3; fd < 64; fd++) if (write(fd, \"passed\\n                         \", 32)) {} _exit(0);", "no answer"),
    ("exit", "", "exit(0);", "ended with exit code 0"),
    ("exit before the tests", "__attribute__((constructor)) static void early(void) { _exit(0); }", "", "ended with exit code 0"),
    ("a process that stays", "", "if (fork() == 0) for (;;) {} _exit(0);", "ended with exit code 0"),
]


# An exercise that is none of the course's: it asks the submission which test it wants to be.
TOY = {"exercise.h": "int chosen(void);\nextern int chosen(void);\n", "allowed": "", "exercise.c": "int chosen(void) { return 0; }\n",
       "remote.c": """#include "../remote.h"
#include "exercise.h"
int chosen(void) {
    remote_begin("chosen");
    message *got = remote_call(NULL);
    const int x = (int)get_number(got);
    return remote_end(got), x;
}
""",
       "sealed.c": """#include "../sealed.h"
#include "exercise.h"
static void call(ct_context *context, message *in, message *out) { (void)context, (void)in, put_number(out, chosen()); }
const sealed_op sealed_ops[] = {{NULL, NULL, NULL}};
const sealed_function sealed_functions[] = {{"chosen", call}, {NULL, NULL}};
""",
       "test.c": """#include "../course.h"
#include "exercise.h"
static void some(ct_context *context) { (void)context, course_partial(chosen(), "%d of three", chosen()); }
static void hint(ct_context *context) {
    ct_tensor *two = ct_full(context, CT_F64, CT_SHAPE(1), 2), *four = ct_full(context, CT_F64, CT_SHAPE(1), 4);
    course_hint("never seen"), course_hint("%s", "");
    if (course_same(two, four, 1e-9)) course_hint("the same");
    if (course_same(ct_add(two, two), four, 1e-9)) course_hint("twice is what addition gives");
    course_value("two", two, ct_full(context, CT_F64, CT_SHAPE(1), chosen() > 9 ? 2 : 3), 1e-9);
}
static void nothing(ct_context *context) { (void)context, course_fail("worth nothing"); }
const course_test course_tests[] = {{"some", 3, some}, {.run = hint, .points = 1, .name = "hint"},
                                    {"nothing", 0, nothing, .hidden = true}};
const int course_test_count = sizeof course_tests / sizeof *course_tests;
"""}


def toy(grade, build, submission, seed=1):
    """What the toy exercise says of a submission."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "toy"
        folder.mkdir()
        for name, text in TOY.items():
            (folder / name).write_text(text)
        for header in GRADE.parent.glob("*.h"):
            (Path(place) / header.name).write_bytes(header.read_bytes())
        file = Path(place) / "submission.c"
        file.write_text(submission)
        shared = [build.object(GRADE.parent / name) for name in ("course.c", "reference.c", "remote.c", "seal.c")]
        compiler = [*build.compiler, *build.sanitize, "-std=gnu11", f"-I{ROOT / 'include'}"]
        link = ["test.o", "remote.o", *shared, build.library, "-lm", "-pthread", "-o", "judge"]
        for command in ([*compiler, "-c", "test.c", "remote.c", "sealed.c"], [*compiler, *link]):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                raise grade.Trouble(done.stderr)
        of_toy = grade.Build(build.folder)
        of_toy.object = lambda path: folder / "sealed.o" if path.parent == folder else build.object(path)
        of_toy.judge = lambda exercise: folder / "judge"
        return grade.grade(grade.Exercise(folder), of_toy, file, 10, 1024, seed=seed)


def partly(grade, build):
    """course_partial gives from nothing to less than all; 0 points are no pass."""
    wrong = []
    for asked, score in ((-1000, 0), (0, 0), (1, 1), (2, 2), (3, 2), (4, 2), (2147483647, 2)):
        graded = toy(grade, build, f"int chosen(void);\nint chosen(void) {{ return {asked}; }}\n")
        test, json_test = graded["tests"][0], adapt.gradescope([graded])["tests"][0]
        table = grade.marks.shown(graded)
        end = f"some      {score}/3  {'partly' if score else 'failed'}\n"
        if (test["score"], test["passed"], json_test["score"], json_test["status"], test["sentence"]) != (
                score, False, score, "failed", f"{asked} of three") or end not in table or graded["tests"][2]["passed"]:
            wrong.append(f"{asked}: {test}, {json_test}, {table}")
    return "; ".join(wrong) or None


def hinted(grade, build):
    of = lambda number: toy(grade, build, f"int chosen(void);\nint chosen(void) {{ return {number}; }}\n")["tests"][1]
    failed, passed = of(1), of(10)
    said = failed["sentence"]
    right = said == failed["word"] == "twice is what addition gives" and failed["report"].startswith("two: element (0) is 2") and passed["passed"]
    return None if right else f"{failed} {passed}"


def shown_once(grade, build):
    """A factor that all gradients have: each test says it, one shows where; the word comes before all numbers."""
    exercise = grade.exercises("01")[0]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "exercise.c"
        file.write_text(SOLUTION.read_text().replace("&add ? g[e] : g[e] *", "&add ? 3 * g[e] : 3 * g[e] *"))
        graded = grade.grade(exercise, build, file, 10, 1024)
    said = grade.marks.shown(graded)
    failed = [test for test in graded["tests"] if not test["passed"]]
    line = said.split("\nsame_shapes_gradient:\n  ")[1].split("\n")[0]
    right = (len(failed) == 3 and said.count("the worst:") == 1 and said.count("\n  factor: ") == 1 and "  the same mistake: add_gradient, mul_gradient\n" in said
             and said.count("and in the same way input") == 1 and re.match("factor: .*it is 3 times what it must be", line)
             and all(test["word"] == "factor" for test in failed) and said.count(" 3               1 ") == 3)
    return None if right else said


DIFFERENTIATED = ("01", "02", "03", "04", "05", "06", "07", "08", "09", "10")
# Backward by central differences of forward, for whatever the op is.
DIFFERENCES = """
static double weighted(ct_tensor *y, ct_tensor *g) {
    double sum = 0;
    for (int64_t i = 0; i < ct_numel(y); i++) sum += ct_data_f64(y)[i] * ct_data_f64(g)[i];
    return sum;
}
static bool differences(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    for (int i = 0; i < call->n; i++) {
        if (!call->in[i] || ct_dtype_of(call->in[i]) != CT_F64) continue;
        grad[i] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[i]));
        double *x = ct_data_f64(call->in[i]);
        for (int64_t j = 0; j < ct_numel(call->in[i]); j++) {
            const double old = x[j], h = 1e-5 * fmax(1e-6, fabs(old));
            ct_call up = *call, down = *call;
            x[j] = old + h;
            ct_tensor *y = call->op->forward(&up);
            const double above = weighted(y, cotangents[0]);
            if (y != call->in[i]) ct_release(y);
            x[j] = old - h;
            y = call->op->forward(&down);
            const double below = weighted(y, cotangents[0]);
            if (y != call->in[i]) ct_release(y);
            x[j] = old;
            ct_data_f64(grad[i])[j] = (above - below) / (2 * h);
        }
    }
    return true;
}
"""


def by_differences(grade, build, number):
    """The solution of an exercise with differences for its backward: no test of a gradient is passed."""
    exercise = grade.exercises(number)[0]
    solution = (SOLUTION.parent.parent / exercise.name / "solution.c").read_text()
    head, body = solution.split("#include \"exercise.h\"\n")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exercise.c"
        file.write_text(head + "#include \"exercise.h\"\n#include <math.h>\n" + DIFFERENCES + re.sub(r"\.backward = \w+", ".backward = differences",
                                                                                                  body))
        graded = grade.grade(exercise, build, file, 1, 1024)
    wrong = [f"{test['name']} has passed" for test in graded["tests"] if test["passed"] and "gradient" in test["name"]]
    return "; ".join(wrong) or (None if any(test["passed"] for test in graded["tests"]) else f"{graded['note']} {graded['tests'][0]}")


def hidden(grade, build):
    """A hidden test counts, and is told to Gradescope as hidden, but not to a student."""
    graded = toy(grade, build, "int chosen(void);\nint chosen(void) { return 10; }\n")
    student = grade.shown_to_student(graded)
    kinds = [[test["visibility"] for test in adapt.gradescope([graded], *args)["tests"]] for args in ((), ("after_published",))]
    table = grade.marks.shown(student)
    right = (kinds == [["visible", "visible", "hidden"], ["visible", "visible", "after_published"]] and "nothing" not in table
             and "and 1 hidden" in table and len(student["tests"]) == 2 and len(graded["tests"]) == 3)
    return None if right else f"{kinds} {table}"


def source(before, inside):
    if inside is None:
        return before
    mark = "\xef\xbb\xbf" if before.startswith("\xef") else ""
    solution = re.sub(re.escape(ADD), lambda found: found[0] + inside + "\n", SOLUTION.read_text(), count=1)
    return mark + PROTOTYPES + before.removeprefix(mark) + "\n" + solution


def attack(grade, build, before, inside, words, every):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exercise.c"
        file.write_bytes(source(before, inside).encode("latin-1"))
        graded = grade.grade(grade.exercises("01")[0], build, file, 1, 1024)
    wrong = []
    for test in graded["tests"]:
        if not every and test["name"] != "add_broadcast":
            continue
        said = grade.marks.told(test)
        if test["passed"] != (words is None) or (words or "") not in said:
            wrong.append(f"{test['name']}, {'passed' if test['passed'] else 'failed'}: {said[:500]}")
        if "root:" in said or "daemon" in said:
            wrong.append(f"{test['name']} shows a file: {said[:500]}")
        if len(said) > 10000 or re.search(r"[\x00-\x08\x0b-\x1f\x7f]", said):
            wrong.append(f"{test['name']} says too much, or control characters: {said[:80]!r}")
    return "; ".join(wrong) or None


def command(folder, code, words, *args):
    """The exit status of the grader as a program, and part of what it says."""
    done = subprocess.run([GRADE, "--build", str(folder), *map(str, args)], capture_output=True, text=True, timeout=1200)
    said = done.stdout + done.stderr
    right = done.returncode == code and words in said and "Traceback" not in said
    return None if right else f"exit status {done.returncode}, not {code}: {said[:1000]}"


def results_of(path):
    """What Gradescope reads, of a file of gradings."""
    return adapt.gradescope(adapt.read_gradings(path))


def with_json(folder):
    """Marks in the file are those that are printed; what was there before is replaced."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "grading.json"
        path.write_text("old")
        said = command(folder, 0, "10/10", "1", SOLUTION, "--json", path)
        results = results_of(path)
        stub = command(folder, 1, " 0/10", "1", "--json", path)
        none = results_of(path)
        left = [name.name for name in Path(place).iterdir()]
    total = lambda r, key: sum(test[key] for test in r["tests"])
    marks = lambda r: (r["score"], total(r, "score"), total(r, "max_score"), {test["status"] for test in r["tests"]})
    if marks(results) != (10, 10, 10, {"passed"}) or marks(none) != (0, 0, 10, {"failed"}) or left != ["grading.json"]:
        return f"{results} {none} {left}"
    return said or stub


def handed_in(folder, make, words, code=2):
    """Whatever is handed in, the file says why it gets no points; `make` makes it in a folder and returns what is graded."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "grading.json"
        there = Path(place) / "submission"
        there.mkdir()
        said = command(folder, code, words, "1", make(there), "--json", path)
        results = results_of(path) if path.exists() else {"tests": []}
        told = [test["output"] for test in results["tests"]]
    if said:
        return said
    right = len(told) == 9 and all(words.removeprefix("grade: ") in text for text in told) and results["score"] == 0 and words.removeprefix(
        "grade: ") in results["output"]
    return None if right else f"{results}"


def named(name, text=b"int x;\n"):
    def make(place):
        (place / name).write_bytes(text)
        return place
    return make


def link(place):
    (place / "exercise.c").symlink_to(SOLUTION)
    return place


def pipe(place):
    os.mkfifo(place / "exercise.c")
    return place


def locked(place):
    (place / "exercise.c").write_bytes(b"")
    (place / "exercise.c").chmod(0)
    return place


def in_a_folder(folder):
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "exercise.c").write_bytes(SOLUTION.read_bytes())
        return command(folder, 0, "10/10", "1", place)


def seeds(folder):
    """Another seed is another set of inputs; it is told, and gives the same again."""
    with tempfile.TemporaryDirectory() as place:
        wrong, path = Path(place) / "wrong.c", Path(place) / "grading.json"
        wrong.write_text(SOLUTION.read_text().replace(ADD, ADD + "printf(\"%a\", ct_numel(call->in[0]) ? *ct_data_f64(call->in[0]) : 0);"
                                                      "if (ct_ndim(call->in[0]) == 2) return NULL;\n").replace("#include", "#include <stdio.h>\n#include", 1))
        told = []
        for seed in ("1", "2", "2", "random"):
            run = subprocess.run([GRADE, "--build", str(folder), "1", wrong, "--seed", seed, "--json", path], capture_output=True, text=True,
                                 timeout=1200)
            results = results_of(path)
            used = results["extra_data"]["seed"]
            if seed != "1" and (f"with SEED={used}\n" not in run.stdout or f"SEED={used}" not in results["output"]):
                return f"the seed is not told: {run.stdout} {results['output']}"
            told.append([test["output"] for test in results["tests"]])
    return None if told[1] == told[2] and len({str(t) for t in told}) == 3 else f"{told}"


def late(grade, build):
    """After two tests that ran out of time each other one gets a second; one that ends is not in a hurry."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "exercise.c"
        file.write_text(source("", "for (volatile int i = 0; i < 1; i *= 1) {}"))
        graded = grade.grade(grade.exercises("01")[0], build, file, 3, 1024)
    said = [test["sentence"] for test in graded["tests"] if not test["passed"]]
    passed = [test["name"] for test in graded["tests"] if test["passed"]]
    right = passed and said == ["ran longer than 3 s: an endless loop?"] * 2 + ["ran longer than 1 s: an endless loop?"] * (len(said) - 2)
    return None if right and len(said) > 2 else f"{said} {passed}"


WORLD = """
int s = socket(2, 1, 0);
printf("network %d\\n", s < 0 ? errno : 0);
printf("read %d\\n", open("/etc/passwd", 0) < 0 ? errno : 0);
printf("write %d\\n", open("/tmp/cotangent-course-world", 0101, 0600) < 0 ? errno : 0);
printf("fork %d\\n", fork() < 0 ? errno : 0);
printf("kill %d\\n", kill(getppid(), 0) < 0 ? errno : 0);
"""


def sealed(without_rules, build):
    """What a submission that is past all rules can reach: nothing."""
    exercise = without_rules.exercises("01")[0]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "exercise.c"
        file.write_text("#include <errno.h>\n#include <fcntl.h>\n#include <signal.h>\n#include <sys/socket.h>\n" + source("", WORLD))
        graded = without_rules.grade(exercise, build, file, 10, 1024)
    if graded["seal"] != "sealed":
        return f"the seal is {graded['seal']}: a static C library and seccomp are needed"
    test = next(test for test in graded["tests"] if test["name"] == "add_broadcast")
    wanted = "network 1\nread 1\nwrite 1\nfork 1\nkill 1\n"
    return None if test["passed"] and test["printed"].startswith(wanted) else f"{test}"


OPS = set("""ct_add ct_mul ct_tanh ct_exp ct_matmul ct_linear ct_softmax ct_log_softmax ct_cross_entropy ct_layer_norm ct_rms_norm ct_attention
ct_masked_softmax ct_causal_mask ct_split_heads ct_combine_heads ct_mha_new ct_dropout ct_rope ct_embedding ct_silu ct_adamw_new ct_gradcheck
ct_jacobian""".split())


# An exercise whose ops are those of earlier ones has them of the library, too, and these are what it must not have.
NO_OPS = set("ct_mha_new ct_adamw_new ct_gradcheck ct_jacobian ct_attention".split())


def without_answers(grade, build):
    """The program of a submission holds no op of the library but those that the exercise allows."""
    wrong = []
    for exercise in grade.exercises("all"):
        with tempfile.TemporaryDirectory() as folder:
            program, _ = grade.compile_submission(exercise, build, SOLUTION.parent.parent / exercise.name / "solution.c", Path(folder))
            symbols = subprocess.run(["nm", program], capture_output=True, text=True).stdout
        held = set(re.findall(r" [Tt] (ct_\w+)", symbols)) & (NO_OPS if exercise.linked else OPS) - exercise.allowed
        wrong += [f"{exercise.name}: {', '.join(sorted(held))}"] * bool(held) + [f"{exercise.name}: no symbols"] * ("ct_apply" not in symbols)
    return "; ".join(wrong) or None


def practice(grade, build):
    """Without a static C library the marks say what they are worth."""
    of_dynamic = grade.Build(build.folder)
    of_dynamic.has_static_libc = False
    graded = grade.grade(grade.exercises("01")[0], of_dynamic, SOLUTION, 10, 1024)
    table, told = grade.marks.shown(graded), "not sealed: for practice"
    right = graded["score"] == 10 and told in table and told in adapt.gradescope([graded])["output"]
    return None if right else f"{graded} {table}"


def json_not_written(folder, path, words):
    with tempfile.TemporaryDirectory() as place:
        said = command(folder, 2, words, "1", SOLUTION, "--json", path.format(place=place))
        return said or (list(Path(place).iterdir()) and "a file is left") or None


def full_output(folder):
    with open("/dev/full", "w") as full:
        done = subprocess.run([GRADE, "--build", str(folder), "1"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=1200)
    return None if done.returncode == 2 and re.fullmatch("grade: .*No space left.*\n", done.stderr) else f"{done.returncode}: {done.stderr}"


def no_compiler():
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "flags").write_text("no-such-compiler -std=c11\n")
        return command(place, 2, "grade: cannot run no-such-compiler: No such file", "1", SOLUTION)


def tasks(grade, without_rules, build):
    for name, before, inside, words in REFUSED:
        yield f"refused: {name}", lambda b=before, i=inside, w=words: attack(grade, build, b, i, w, True)
    for name, before, inside, words in AT_RUN_TIME:
        yield f"at run time: {name}", lambda b=before, i=inside, w=words: attack(grade, build, b, i, w, False)
    for name, before, inside, words in MEMORY:
        yield f"forged: {name}", lambda b=before, i=inside, w=words: attack(grade, build, b, i, w, False)
    for name, before, inside, words in FORGED:
        yield f"forged: {name}", lambda b=before, i=inside, w=words: attack(without_rules, build, b, i, w, False)
    for number in DIFFERENTIATED:
        yield f"differences: exercise {number}", lambda number=number: by_differences(grade, build, number)
    yield "grade: some of a test's points", lambda: partly(grade, build)
    yield "grade: a hidden test", lambda: hidden(grade, build)
    yield "grade: a hint", lambda: hinted(grade, build)
    yield "grade: one mistake, shown once", lambda: shown_once(grade, build)
    folder = build.folder
    yield "grade: the file of gradings", lambda: with_json(folder)
    yield "grade: no folder for the gradings", lambda: json_not_written(folder, "{place}/none/grading.json", "grade: cannot write")
    yield "grade: a folder for the gradings", lambda: json_not_written(folder, "{place}", "grade: cannot write")
    yield "grade: a full disk", lambda: json_not_written(folder, "/dev/full", "grade: cannot write /dev/full: No space left")
    yield "grade: standard output is full", lambda: full_output(folder)
    yield "grade: an unknown exercise", lambda: command(folder, 2, "grade: there is no exercise 99; there are: 01_broadcasting, 02", "99")
    yield "grade: an unknown file", lambda: handed_in(folder, lambda place: place / "no.c", "no.c: No such file")
    yield "grade: a folder without it", lambda: handed_in(folder, named("wrong.c"), "grade: there is no exercise.c in ")
    yield "grade: a link to another file", lambda: handed_in(folder, link, "exercise.c: Too many levels")
    yield "grade: a pipe", lambda: handed_in(folder, pipe, "exercise.c: it is no file")
    yield "grade: a folder of its name", lambda: handed_in(folder, lambda place: (place / "exercise.c").mkdir() or place, "")
    yield "grade: a file that may not be read", lambda: os.getuid() and handed_in(folder, locked, "exercise.c: Permission denied") or None
    yield "grade: nothing in it", lambda: handed_in(folder, named("exercise.c", b" \n"), "refused: it is empty", 1)
    yield "grade: UTF-16", lambda: handed_in(folder, named("exercise.c", "int x;".encode("utf-16")), "refused: it is in UTF-16", 1)
    yield "grade: an object file", lambda: handed_in(folder, named("exercise.c", b"\x7fELF\0\1"), "refused: it is no text", 1)
    yield "grade: more than 1 MiB", lambda: handed_in(folder, named("exercise.c", b"/" * (1 << 20) + b"/"), "it is larger than 1 MiB", 1)
    yield "grade: a folder with it", lambda: in_a_folder(folder)
    yield "grade: seeds", lambda: seeds(folder)
    yield "grade: out of time", lambda: late(grade, build)
    yield "seal: what can be reached", lambda: sealed(without_rules, build)
    yield "seal: no answers inside", lambda: without_answers(grade, build)
    yield "seal: none", lambda: practice(grade, build)
    yield "grade: one file for all", lambda: command(folder, 2, "one file is one exercise", "all", SOLUTION)
    yield "grade: no time", lambda: command(folder, 2, "0 is no whole number", "--time", "0", "1")
    yield "grade: an unknown flag", lambda: command(folder, 2, "usage:", "--points", "10")
    yield "grade: no library", lambda: command("/dev/null", 2, "holds no built library: make grade builds it", "1", SOLUTION)
    yield "grade: no compiler", no_compiler
