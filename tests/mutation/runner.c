/* Test programs as one, to be linked again with each mutant:
 *
 *     runner test_ops 20 4000000000 3,17,18    tests 3, 17 and 18 of test_ops, in 20 seconds of a
 *                                              processor and as many bytes
 *     runner test_ops 20 4000000000 all
 *
 * Each round of a test that is a loop counts as a test. The number of a test is made from its name,
 * its round and the number of rounds: how often a loop runs depends on the instruction sets of the
 * library, and one that has other sets must not take another test for this one. The first assertion
 * that fails ends the program. The program prints to stdout the folders that a test makes, so that
 * the caller can remove them; the processor time of each test; and with TRACE, the functions that
 * each test has entered. */
#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define P(program) int main_##program(void);
PROGRAMS
#undef P

void __wrap__ck_assert_failed(const char *file, int line, const char *expression,
                              const char *message, ...);
void __wrap__ck_assert_failed(const char *file, int line, const char *expression,
                              const char *message, ...) {
    (void)message;
    fprintf(stderr, "%s:%d: %s\n", file, line, expression);
    _exit(1);
}

char *__real_mkdtemp(char *template);
char *__wrap_mkdtemp(char *template);
char *__wrap_mkdtemp(char *template) {
    char *folder = __real_mkdtemp(template);
    if (folder) printf("folder %s\n", folder);
    fflush(stdout);
    return folder;
}

/* ---- which functions were entered ---- */

enum { SLOTS = 1 << 14 };
static void *seen[SLOTS];

void __cyg_profile_func_enter(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site);
void __cyg_profile_func_exit(void *function, void *site) { (void)function, (void)site; }
void __cyg_profile_func_enter(void *function, void *site) {
    (void)site;
    for (size_t at = (uintptr_t)function / 4 % SLOTS;; at = (at + 1) % SLOTS) {
        void *free_slot = NULL;
        if (__atomic_load_n(&seen[at], __ATOMIC_RELAXED) == function) return;
        if (__atomic_compare_exchange_n(&seen[at], &free_slot, function, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED))
            return;
        if (free_slot == function) return;
    }
}

static long long latest = -1;

/* Prints the functions that were entered since the last call, for both tests: between two tests run
 * the end of one and the beginning of the next. */
static void say_entered(long long test, long long other) {
#ifdef TRACE
    printf("entered %lld %lld", test, other);
    for (int i = 0; i < SLOTS; i++)
        if (seen[i]) printf(" %lx", (unsigned long)(uintptr_t)seen[i]);
    printf("\n");
    memset(seen, 0, sizeof seen);
#else
    (void)test, (void)other;
#endif
}

static void say_rest(void) { say_entered(latest, latest); }

/* ---- one test at a time ---- */

enum { MOST = 1 << 14 };
static struct {
    const TTest *test;
    TTest ours; /* the test that Check runs in place of `test` */
    int round;
    long long number;
} tests[MOST];
static int count;
static const char *wanted; /* "3,17,18" or "all" */

static bool is_wanted(long long number) {
    if (!strcmp(wanted, "all")) return true;
    char *end;
    for (const char *at = wanted; *at; at = *end ? end + 1 : end)
        if (strtoll(at, &end, 10) == number) return true;
    return false;
}

/* `place` is 1 for a test that the program has added once before, because it runs it with other
 * fixtures too. */
static long long number_of(const char *name, int round, int rounds, int place) {
    char text[400];
    snprintf(text, sizeof text, "%s %d/%d %d", name, round, rounds, place);
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (const char *c = text; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    return (long long)(hash >> 12);
}

static double seconds(void) { /* processor time of this program, not the time of day */
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void run_one(int at) {
    const long long number = tests[at].number;
    say_entered(latest < 0 ? number : latest, number);
    const double begin = seconds();
    tests[at].test->fn(tests[at].round);
    printf("took %lld %g\n", number, seconds() - begin);
    say_entered(latest = number, number);
}

void __real__tcase_add_test(TCase *tcase, const TTest *test, int signal, int exit_code, int first,
                            int end);
void __wrap__tcase_add_test(TCase *tcase, const TTest *test, int signal, int exit_code, int first,
                            int end);
void __wrap__tcase_add_test(TCase *tcase, const TTest *test, int signal, int exit_code, int first,
                            int end) {
    int place = 0;
    for (int i = 0; i < count; i++)
        place += tests[i].test->fn == test->fn && tests[i].round == first;
    for (int round = first; round < end && count < MOST; round++, count++) {
        tests[count].test = test;
        tests[count].ours = *test;
        tests[count].ours.fn = run_one;
        tests[count].round = round;
        tests[count].number = number_of(test->name, round, end - first, place);
        if (is_wanted(tests[count].number))
            __real__tcase_add_test(tcase, &tests[count].ours, signal, exit_code, count, count + 1);
    }
}

static void limit(int what, rlim_t most) { setrlimit(what, &(struct rlimit){most, most}); }

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    limit(RLIMIT_CPU, strtoul(argv[2], NULL, 10));
    limit(RLIMIT_AS, strtoul(argv[3], NULL, 10));
    limit(RLIMIT_FSIZE, (rlim_t)1 << 30);
    limit(RLIMIT_CORE, 0);
    wanted = argv[4];
    setenv("CK_FORK", "no", 1);
    atexit(say_rest);
#define P(program)                                                                                 \
    if (!strcmp(argv[1], #program)) return main_##program();
    PROGRAMS
    return 2;
}
