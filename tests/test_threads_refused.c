/* Threads of POSIX. A system that gives no mutex, condition or thread: the caller does the work,
 * with the same bits, and nothing leaks; the Makefile wraps the calls of pthread.h. And the signals
 * of a thread that is given. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "../src/os/os.h"
#include "op_check.h"

static int calls, fails_at, fails_from; /* of the call that is watched; 0: never */
static enum { MUTEX, CONDITION, THREAD, ONCE } watched;

static bool refused(int which) {
    if (which != (int)watched) return false;
    calls++;
    return calls == fails_at || (fails_from && calls >= fails_from);
}

#define WRAP(which, name, error, parameters, arguments)                                            \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters { return refused(which) ? error : __real_##name arguments; }
WRAP(MUTEX, pthread_mutex_init, ENOMEM, (pthread_mutex_t * m, const pthread_mutexattr_t *a), (m, a))
WRAP(CONDITION, pthread_cond_init, EAGAIN, (pthread_cond_t * c, const pthread_condattr_t *a),
     (c, a))
WRAP(THREAD, pthread_create, EAGAIN,
     (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *x), (t, a, f, x))
WRAP(ONCE, pthread_once, EINVAL, (pthread_once_t * o, void (*f)(void)), (o, f))

/* The caller's allocator, so that a pool that is not given back is seen. */
static int64_t blocks;
static void *take(void *data, size_t size) {
    (void)data;
    void *block = aligned_alloc(64, (size + 63) / 64 * 64);
    blocks += block != NULL;
    return block;
}
static void give(void *data, void *block, size_t size) {
    (void)data, (void)size;
    blocks -= block != NULL;
    free(block);
}

enum { N = 70000 };
static float expected[N], got[N];

/* Sums and an elementwise op that are large enough to be shared. */
static void compute(int threads, float *out) {
    ct_context *c = ct_context_new((ct_context_opts){
        .seed = 3, .threads = threads, .allocator = {.alloc = take, .free = give}});
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
    for (int round = 0; round < 2; round++) { /* a pool that could not start is asked for again */
        ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(N));
        ct_tensor *y = ct_mul(ct_exp(x), ct_sum(x, CT_ALL, false));
        ck_assert_msg(ct_to_f32(y, out, N), "%s", ct_error_message(c));
    }
    ck_assert_int_eq(ct_threads(c), threads);
    ct_context_free(c);
    ck_assert_int_eq(blocks, 0);
}

START_TEST(no_help) {
    static const struct {
        int watched, at, from;
    } cases[] = {{MUTEX, 1, 0},  {MUTEX, 0, 1},     {CONDITION, 1, 0}, {CONDITION, 2, 0},
                 {THREAD, 1, 0}, {THREAD, 3, 0},    {THREAD, 0, 1},    {THREAD, 0, 2},
                 {ONCE, 1, 0},   {CONDITION, 0, 1}, {ONCE, 0, 1}};
    watched = MUTEX, fails_at = fails_from = 0;
    compute(1, expected);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        calls = 0;
        watched = cases[i].watched, fails_at = cases[i].at, fails_from = cases[i].from;
        compute(4, got);
        ck_assert_msg(calls >= cases[i].at && calls >= cases[i].from, "case %zu: %d calls", i,
                      calls);
        ck_assert_msg(!memcmp(got, expected, sizeof got), "case %zu: other bits", i);
    }
}
END_TEST

/* A caller's handlers run in its own threads, but that of a fault runs where the fault is. */
static void get_mask(void *arg) { pthread_sigmask(SIG_SETMASK, NULL, arg); }

START_TEST(signals_of_a_thread) {
    sigset_t before, after, mask;
    cti_thread thread;
    fails_at = fails_from = 0;
    get_mask(&before);
    ck_assert(cti_thread_start(&thread, get_mask, &mask));
    cti_thread_join(&thread);
    get_mask(&after);
    static const int blocked[] = {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPIPE},
                     faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (int i = 0; i < 6; i++) {
        ck_assert(sigismember(&mask, blocked[i]));
        ck_assert(sigismember(&before, blocked[i]) == sigismember(&after, blocked[i]));
    }
    for (int i = 0; i < 4; i++) ck_assert(!sigismember(&mask, faults[i]));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("threads_refused");
    TCase *tcase = tcase_create("threads_refused");
    tcase_add_test(tcase, no_help);
    tcase_add_test(tcase, signals_of_a_thread);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
