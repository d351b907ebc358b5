/* The seal: limits, another user if root grades, namespaces where they can be had, and a filter of
 * system calls. Linux only; elsewhere a submission is started without it, for practice. */
#define _GNU_SOURCE /* unshare, syscall, setgroups */
#include "seal.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

enum { UNSEALED = 125, PROGRAM = 4 /* the descriptor that is executed, and then closed */ };

#if defined __linux__ && (defined __x86_64__ || defined __aarch64__)

#ifdef __x86_64__
#define OWN_ABI AUDIT_ARCH_X86_64
#else
#define OWN_ABI AUDIT_ARCH_AARCH64
#endif

/* ---- the filter ---- */

/* Instructions of the filter. A system call's number stands in the accumulator; a row that looks at
 * an argument ends the call's decision. */
#define LOAD(field)   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define LOW(argument) LOAD(args[argument]) /* the lower half: both machines store it first */
#define HIGH(argument)                                                                             \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[argument]) + 4)
#define RETURN(action)     BPF_STMT(BPF_RET | BPF_K, (action))
#define ALLOW              RETURN(SECCOMP_RET_ALLOW)
#define REFUSE             RETURN(SECCOMP_RET_ERRNO | EPERM)
#define EQUAL(x, yes, no)  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(x), (yes), (no))
#define ANY_OF(x, yes, no) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(x), (yes), (no))
#define CALL(name)         EQUAL(SYS_##name, 0, 1), ALLOW
/* allowed if an argument is this number, or lies in this range */
#define CALL_IF(name, argument, x)                                                                 \
    EQUAL(SYS_##name, 0, 4), LOW(argument), EQUAL(x, 0, 1), ALLOW, REFUSE
#define CALL_IN(name, argument, first, last)                                                       \
    EQUAL(SYS_##name, 0, 5), LOW(argument), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (first), 0, 2),    \
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (last), 1, 0), ALLOW, REFUSE
/* allowed if an argument has none of these bits */
#define CALL_WITHOUT(name, argument, bits)                                                         \
    EQUAL(SYS_##name, 0, 4), LOW(argument), ANY_OF(bits, 1, 0), ALLOW, REFUSE

/* Installs the filter in this process, which is about to execute the submission's program: all that
 * a static program needs for memory, output and its own end, and nothing that opens a file, starts
 * a thread or a process, or reaches another one. */
static bool set_filter(void) {
    const struct sock_filter rows[] = {
        LOAD(arch),
        EQUAL(OWN_ABI, 1, 0),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        LOAD(nr),
#ifdef __x86_64__
        /* the third ABI, x32, has numbers from 2^30 on */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1),
        RETURN(SECCOMP_RET_KILL_PROCESS),
        EQUAL(SYS_arch_prctl, 0, 4),
        LOW(0),
        EQUAL(0x1002 /* ARCH_SET_FS */, 0, 1),
        ALLOW,
        REFUSE,
#endif
        EQUAL(SYS_clone3, 0, 1),
        RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        /* talk with the judge, and output */
        EQUAL(SYS_read, 0, 5),
        LOW(0),
        EQUAL(3, 1, 0),
        EQUAL(0, 0, 1),
        ALLOW,
        REFUSE,
        CALL_IN(write, 0, 1, 3),
        CALL_IN(writev, 0, 1, 2),
        CALL_IN(fstat, 0, 0, 2),
        /* memory: anonymous, and never executable */
        CALL(brk),
        CALL(munmap),
        CALL(mremap),
        CALL(madvise),
        CALL_WITHOUT(mprotect, 2, PROT_EXEC),
        EQUAL(SYS_mmap, 0, 7),
        LOW(2),
        ANY_OF(PROT_EXEC, 4, 0),
        LOW(3),
        ANY_OF(MAP_ANONYMOUS, 0, 2),
        ANY_OF(MAP_SHARED, 1, 0),
        ALLOW,
        REFUSE,
        /* the C library's begin and end */
        CALL(set_tid_address),
        CALL(set_robust_list),
        CALL(rseq),
        CALL(getrandom),
        CALL(getpid),
        CALL(gettid),
        CALL(clock_gettime),
        CALL(sched_getaffinity),
        CALL(sched_yield),
        CALL(uname),
        CALL(futex),
        CALL(exit),
        CALL(exit_group),
        CALL(rt_sigreturn),
        CALL(rt_sigprocmask),
        CALL(rt_sigaction),
        /* limits are read, not set: the new ones are NULL */
        EQUAL(SYS_prlimit64, 0, 6),
        LOW(2),
        EQUAL(0, 0, 3),
        HIGH(2),
        EQUAL(0, 0, 1),
        ALLOW,
        REFUSE,
        /* abort sends a signal to its own process */
        CALL_IF(tgkill, 0, getpid()),
        /* the program itself: its descriptor is closed by this call, so there is no second one */
        CALL_IF(execveat, 0, PROGRAM),
        REFUSE,
    };
    struct sock_fprog filter = {sizeof rows / sizeof *rows, (struct sock_filter *)(uintptr_t)rows};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

bool seal_is_there(void) {
    /* a filter of NULL: EFAULT where there are filters, EINVAL where there are none */
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL) != 0 && errno == EFAULT;
}

/* Takes the network, and makes every file system read-only: a second wall, where users may have
 * namespaces. */
static void leave_namespaces(void) {
    enum { SETATTR = 442, RECURSIVE = 0x8000 };
    const struct {
        uint64_t set, clear, propagation, userns;
    } read_only = {.set = 1, .propagation = MS_PRIVATE};
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) == 0)
        syscall(SETATTR, -1, "/", RECURSIVE, &read_only, sizeof read_only);
}

/* Root grades as nobody. */
static bool drop_root(void) {
    enum { NOBODY = 65534 };
    return geteuid() != 0 ||
           (setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

static void end_with_judge(void) { prctl(PR_SET_PDEATHSIG, SIGKILL); }

static bool set_seal(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && set_filter(); }
static void execute(char **args, char **environment) {
    syscall(SYS_execveat, PROGRAM, "", args, environment, AT_EMPTY_PATH);
}

#else

bool seal_is_there(void) { return false; }
static void leave_namespaces(void) {}
static void end_with_judge(void) {}
static bool drop_root(void) { return true; }
static bool set_seal(void) { return false; }
static void execute(char **args, char **environment) { fexecve(PROGRAM, args, environment); }

#endif

/* ---- the program ---- */

static bool limit(int what, unsigned long most) {
    return setrlimit(what, &(struct rlimit){most, most}) == 0;
}

static bool set_limits(const seal_options *o) {
    if (!limit(RLIMIT_CORE, 0) || !limit(RLIMIT_FSIZE, 0) || !limit(RLIMIT_CPU, o->seconds + 1))
        return false;
    return o->sanitized || (limit(RLIMIT_AS, o->memory_mib << 20) && limit(RLIMIT_NPROC, 0));
}

/* In the new process. */
static void become(const char *program, int talk, const seal_options *o) {
    char *args[] = {(char[]){"submission"}, NULL}, *environment[] = {NULL, NULL};
    char sanitizers[256];
    const int empty = open("/dev/null", O_RDONLY | O_CLOEXEC), high = fcntl(talk, F_DUPFD, 16),
              file = open(program, O_RDONLY | O_CLOEXEC), kept = fcntl(file, F_DUPFD, 16);
    if (empty < 0 || high < 0 || kept < 0) _exit(UNSEALED);
    if (dup2(empty, 0) != 0 || dup2(high, 3) != 3 || dup2(kept, PROGRAM) != PROGRAM)
        _exit(UNSEALED);
    fcntl(PROGRAM, F_SETFD, FD_CLOEXEC);
    const int most = (int)sysconf(_SC_OPEN_MAX);
    for (int i = PROGRAM + 1; i < (most < 0 || most > 4096 ? 4096 : most); i++) close(i);
    if (o->sanitized) {
        snprintf(sanitizers, sizeof sanitizers,
                 "ASAN_OPTIONS=handle_segv=0:handle_sigfpe=0:allocator_may_return_null=1:"
                 "max_allocation_size_mb=%lu:detect_leaks=0:hard_rss_limit_mb=%lu",
                 o->memory_mib, 2 * o->memory_mib);
        environment[0] = sanitizers;
    }
    signal(SIGPIPE, SIG_DFL);
    if (!drop_root()) _exit(UNSEALED);
    end_with_judge();
    if (o->sealed) leave_namespaces();
    if (!set_limits(o) || (o->sealed && !set_seal())) _exit(UNSEALED);
    execute(args, environment);
    _exit(UNSEALED);
}

int seal_start(const char *program, int talk, const seal_options *options) {
    const int pid = fork();
    if (pid == 0) become(program, talk, options);
    return pid;
}
