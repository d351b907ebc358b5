"""Submissions that attack: the seal, the judge, the grader and their neighbours. No rule on their text holds here (grade's checks of it are
switched off), so all of this is what code can do that is past them. None may get a point, end in another way than with its own marks, or
take a point from the honest submissions that are graded at the same time."""
import concurrent.futures
import os
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEAD = r"""
#define _GNU_SOURCE
#include "exercise.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>
#pragma GCC diagnostic ignored "-Wunused-result"
enum { CALL = 1, ANSWER = 16, ANSWER_ERROR, ANSWER_SAYS, ANSWER_BACK };
/* An answer of so many words on descriptor 3. */
static void say(unsigned long kind, unsigned long size, const void *data) {
    unsigned long head[2] = {kind, size};
    write(3, head, sizeof head), write(3, data, size);
}
static unsigned long zeros[1 << 12];
"""
TAIL = r"""
static ct_tensor *forward(ct_call *call) {
    CHEAT;
    ct_tensor *y = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[0]));
    AFTER;
    return y;
}
static bool backward(const ct_call *call, ct_tensor *const *g, ct_tensor **grad) {
    (void)g;
    grad[0] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[0]));
    return true;
}
const ct_op softmax = {.name = "softmax", .forward = forward, .backward = backward};
const ct_op log_softmax = {.name = "log_softmax", .forward = forward, .backward = backward};
"""
NOTHING = "(void)0"
FILL = "for (int64_t i = 0; i < ct_numel(y); i++) ct_data_f64(y)[i] = "
# (what it is, code before the functions, code in each forward, code after it has made its result)
CHEATS = [
    ("the judge is killed", "", "kill(getppid(), 9)", NOTHING),
    ("the judge is stopped", "", "kill(getppid(), SIGSTOP)", NOTHING),
    ("everyone is killed", "", "kill(-1, 9)", NOTHING),
    ("the group is killed", "", "kill(0, 9), killpg(getpgrp(), 9)", NOTHING),
    ("a thread of the judge is killed", "", "syscall(SYS_tgkill, getppid(), getppid(), 9), syscall(SYS_tkill, getppid(), 9)", NOTHING),
    ("a signal with a value", "", "sigqueue(getppid(), 9, (union sigval){0})", NOTHING),
    ("a descriptor of the judge's process", "", "syscall(434, getppid(), 0), syscall(424, 5, 9, 0, 0)", NOTHING),
    ("the judge is traced", "", "ptrace(PTRACE_SEIZE, getppid(), 0, 0), ptrace(PTRACE_ATTACH, getppid(), 0, 0)", NOTHING),
    ("the judge's memory is written", "",
     "struct iovec a = {zeros, 64}, b = {(void *)0x400000, 64}; process_vm_writev(getppid(), &a, 1, &b, 1, 0); process_vm_readv(getppid(), &a, 1, &b, 1, 0)",
     NOTHING),
    ("the judge's memory as a file", "", "char p[64]; snprintf(p, 64, \"/proc/%d/mem\", getppid()); if (open(p, O_RDWR) >= 0) kill(getppid(), 9)", NOTHING),
    ("files are read", "", "int f = open(\"/etc/passwd\", 0); char t[64] = \"\"; read(f, t, 63); printf(\"%s\", t)", NOTHING),
    ("files are made", "", "if (creat(\"/tmp/cotangent-cheat\", 0600) >= 0 || mkdir(\"/tmp/cotangent-cheat-folder\", 0700) == 0) puts(\"GOT THROUGH\")", NOTHING),
    ("the network", "", "if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || socket(AF_UNIX, SOCK_STREAM, 0) >= 0) puts(\"GOT THROUGH\")", NOTHING),
    ("a bomb of processes", "", "for (int i = 0; i < 100; i++) if (fork() == 0) for (;;) fork()", NOTHING),
    ("vfork", "", "if (vfork() == 0) for (;;) {}", NOTHING),
    ("clone", "", "if (syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) == 0) for (;;) {}", NOTHING),
    ("clone3", "", "unsigned long a[11] = {0}; if (syscall(435, a, sizeof a) == 0) for (;;) {}", NOTHING),
    ("another program", "", "char *a[] = {\"sh\", \"-c\", \"echo GOT THROUGH\", NULL}; execv(\"/bin/sh\", a)", NOTHING),
    ("this program again", "", "char *a[] = {\"x\", NULL}; syscall(SYS_execveat, 4, \"\", a, NULL, AT_EMPTY_PATH), execv(\"/proc/self/exe\", a)", NOTHING),
    ("a verdict on every descriptor", "", "for (int fd = 0; fd < 64; fd++) write(fd, \"passed\\n\", 7)", NOTHING),
    ("an answer of zeros", "", "say(ANSWER, 256, zeros)", NOTHING),
    ("an answer of nothing", "", "say(ANSWER, 0, zeros)", NOTHING),
    ("an answer that is too short, then the end", "", "say(ANSWER, 64, zeros), _exit(0)", NOTHING),
    ("an answer twice", "", NOTHING, "say(ANSWER, 64, zeros), say(ANSWER, 64, zeros)"),
    ("an answer before the question", "__attribute__((constructor)) static void early(void) { say(ANSWER, 64, zeros), say(ANSWER, 64, zeros); }", NOTHING, NOTHING),
    ("a size that no answer has", "", "unsigned long h[2] = {ANSWER, ~0ul & ~7ul}; write(3, h, sizeof h)", NOTHING),
    ("a large size, and nothing", "", "unsigned long h[2] = {ANSWER, 1ul << 28}; write(3, h, sizeof h); _exit(0)", NOTHING),
    ("a kind that no answer has", "", "say(99, 64, zeros)", NOTHING),
    ("a mistake without a word", "", "say(ANSWER_SAYS, 64, zeros)", NOTHING),
    ("an error that is none", "", "say(ANSWER_ERROR, 64, zeros)", NOTHING),
    ("calls back that nobody wants", "", "for (;;) say(ANSWER_BACK, 64, zeros)", NOTHING),
    ("the descriptor closed", "", "close(3)", NOTHING),
    ("the descriptor shut down", "", "shutdown(3, SHUT_RDWR)", NOTHING),
    ("another descriptor in its place", "", "dup2(1, 3), dup2(3, 1)", NOTHING),
    ("the next question stolen", "", "char t[64]; read(3, t, 64)", NOTHING),
    ("a fault that is caught, for ever", "static void again(int s) { (void)s; }", "signal(SIGSEGV, again), *(volatile int *)8 = 1", NOTHING),
    ("the time's signals ignored", "", "signal(SIGXCPU, SIG_IGN), signal(SIGPROF, SIG_IGN), signal(SIGALRM, SIG_IGN); for (;;) {}", NOTHING),
    ("the limits raised", "", "struct rlimit r = {-1, -1}; setrlimit(RLIMIT_CPU, &r), setrlimit(RLIMIT_AS, &r), setrlimit(RLIMIT_NPROC, &r); fork()", NOTHING),
    ("waiting for ever", "", "int w = 0; syscall(SYS_futex, &w, 0, 0, NULL, NULL, 0), pause(), sleep(1000)", NOTHING),
    ("an endless loop", "", "for (volatile int i = 0;; i++) {}", NOTHING),
    ("a bomb of memory", "", "for (;;) memset(sbrk(1 << 20) , 1, 1 << 20)", NOTHING),
    ("a bomb of mappings", "", "for (;;) { char *p = mmap(0, 1 << 24, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); if (p == MAP_FAILED) break; memset(p, 1, 1 << 24); }", NOTHING),
    ("a bomb of the stack", "static int deep(volatile int *p) { volatile int here[1024] = {*p}; return deep(here) + here[3]; }",
     "volatile int one = 1; deep(&one)", NOTHING),
    ("a flood of output", "", "for (int i = 0; i < 200000; i++) puts(\"a flood of output, and no end of it, and no end of it, and no end of it\")", NOTHING),
    ("code on the heap", "", "unsigned char *p = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); if (p != MAP_FAILED) puts(\"GOT THROUGH\")", NOTHING),
    ("data made executable", "", "if (mprotect((void *)((unsigned long)zeros & ~4095ul), 4096, 7) == 0) puts(\"GOT THROUGH\")", NOTHING),
    ("shared memory", "", "if (syscall(SYS_shmget, 0, 4096, 01600) >= 0 || syscall(319, \"x\", 0) >= 0) puts(\"GOT THROUGH\")", NOTHING),
    ("the filter taken off", "", "prctl(PR_SET_SECCOMP, 0), prctl(PR_SET_DUMPABLE, 1), prctl(PR_SET_PDEATHSIG, 0); if (open(\"/etc/passwd\", 0) >= 0) puts(\"GOT THROUGH\")", NOTHING),
    ("a constructor that kills", "__attribute__((constructor)) static void early(void) { kill(getppid(), 9); }", NOTHING, NOTHING),
    ("a constructor that ends", "__attribute__((constructor)) static void early(void) { _exit(0); }", NOTHING, NOTHING),
    ("an ifunc that kills", "static void real(void) {} static void *resolve(void) { syscall(SYS_kill, getppid(), 9); return real; }\n"
     "void chosen(void) __attribute__((ifunc(\"resolve\")));", "chosen()", NOTHING),
    ("a destructor", "__attribute__((destructor)) static void late(void) { say(ANSWER, 64, zeros); }", "exit(0)", NOTHING),
    ("exit", "", "exit(0)", NOTHING),
    ("abort", "", "abort()", NOTHING),
    ("a jump out", "static jmp_buf place; static int calls;", "if (calls++) longjmp(place, 1); setjmp(place)", NOTHING),
    ("NaN for everything", "", NOTHING, FILL + "NAN"),
    ("infinity for everything", "", NOTHING, FILL + "INFINITY"),
    ("another answer in each call", "static int calls;", NOTHING, FILL + "calls++"),
    ("the input back", "", "return call->in[0]", NOTHING),
    ("a result of another shape", "", "return ct_zeros(call->context, CT_F64, CT_SHAPE(1 << 20))", NOTHING),
    ("writes behind its result", "", NOTHING, "ct_data_f64(y)[ct_numel(y) + 3] = 1"),
    ("writes before its input", "", "ct_data_f64(call->in[0])[-2] = 1", NOTHING),
]
X86 = [
    ("the 32-bit ABI", "", "long r; __asm__ volatile(\"int $0x80\" : \"=a\"(r) : \"a\"(37), \"b\"(getppid()), \"c\"(9) : \"memory\")", NOTHING),
    ("the x32 ABI", "", "syscall(0x40000000 + 62, getppid(), 9)", NOTHING),
]
SEEN = ("root:", "GOT THROUGH")  # what only one that has got through prints
NEIGHBOURS = 6


def cheats():
    return CHEATS + (X86 if os.uname().machine == "x86_64" else [])


def grade_one(without_rules, exercise, build, cheat):
    _, before, inside, after = cheat
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "exercise.c"
        file.write_text(HEAD + before + TAIL.replace("CHEAT", inside).replace("AFTER", after))
        return without_rules.grade(exercise, build, file, 1, 256)


def wrong_with(graded):
    if graded["note"].startswith(("does not", "refused")):
        return f"it was not even run: {graded['note']}"
    said = "".join(test["sentence"] + test["printed"] for test in graded["tests"])
    if graded["score"] or any(word in said for word in SEEN):
        return f"it has {graded['score']} points: {said[:500]}"
    return None


def together(grade, without_rules, build):
    """All cheats, and among them honest submissions."""
    exercise, honest = without_rules.exercises("03")[0], grade.exercises("03")[0]
    exercise.tests(build)
    solution, every = HERE / "03_softmax/solution.c", cheats()
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        jobs = []
        for number, cheat in enumerate(every):
            jobs.append((cheat[0], pool.submit(grade_one, without_rules, exercise, build, cheat)))
            if number % (len(every) // NEIGHBOURS) == 0 and number < NEIGHBOURS * (len(every) // NEIGHBOURS):
                jobs.append((None, pool.submit(grade.grade, honest, build, solution, 10, 1024)))
        for name, job in jobs:
            try:
                graded = job.result()
            except Exception as error:  # the grader must not fail because of a submission
                wrong.append(f"{name or 'an honest one'}: {error!r}")
                continue
            if name is None:
                if graded["score"] != 10:
                    wrong.append(f"an honest one has {graded['score']}: {[test['sentence'] for test in graded['tests']]}")
            elif wrong_with(graded):
                wrong.append(f"{name}: {wrong_with(graded)}")
    return "\n".join(wrong) or None


def tasks(grade, without_rules, build):
    yield f"cheats: {len(cheats())} of them, and {NEIGHBOURS} honest neighbours", lambda: together(grade, without_rules, build)
