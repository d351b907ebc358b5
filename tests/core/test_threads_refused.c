/* Threads of POSIX. A system that gives no mutex, condition or thread: the caller does the work,
 * with the same bits, and nothing leaks; the Makefile wraps the calls of pthread.h. And the signals
 * of a thread that is given. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "src/os/os.h"
#include "tests/support/fault_sweep.h"
#include "tests/support/op_check.h"

#define WRAP(name, error, parameters, arguments)                                                   \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters {                                                                 \
        return fault_strikes(FAULT_CALL, #name) ? error : __real_##name arguments;                 \
    }
WRAP(pthread_mutex_init, ENOMEM, (pthread_mutex_t * m, const pthread_mutexattr_t *a), (m, a))
WRAP(pthread_cond_init, EAGAIN, (pthread_cond_t * c, const pthread_condattr_t *a), (c, a))
WRAP(pthread_create, EAGAIN, (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *x),
     (t, a, f, x))
WRAP(pthread_once, EINVAL, (pthread_once_t * o, void (*f)(void)), (o, f))

enum { N = 70000 };
static float expected[N], got[N];

/* Sums and an elementwise op that are large enough to be shared. */
static void compute(int threads, float *out) {
    ct_context *c = ct_context_new(
        (ct_context_opts){.seed = 3, .threads = threads, .allocator = {allocate, release, NULL}});
    ck_assert_msg(ct_error(c) == CT_OK, "%s", ct_error_message(c));
    for (int round = 0; round < 2; round++) { /* a pool that could not start is asked for again */
        ct_tensor *x = ct_randn(c, CT_F32, CT_SHAPE(N));
        ct_tensor *y = ct_mul(ct_exp(x), ct_sum(x, CT_ALL, false));
        ck_assert_msg(ct_to_f32(y, out, N), "%s", ct_error_message(c));
    }
    ck_assert_int_eq(ct_threads(c), threads);
    ct_context_free(c);
    ck_assert_int_eq(allocated.bytes, 0);
}

static bool compute_on_four(void *arg) {
    (void)arg;
    compute(4, got);
    return true;
}
static void check_bits(const fault_end *end, void *arg) {
    (void)arg;
    FAULT_CK(end, !memcmp(got, expected, sizeof got));
}

/* Each call is refused, once or from then on: the caller's thread computes what another would. */
START_TEST(no_help) {
    static const struct {
        const char *call;
        int64_t least;
    } calls[] = {{"pthread_mutex_init", 1},
                 {"pthread_cond_init", 2},
                 {"pthread_create", 3},
                 {"pthread_once", 1}};
    compute(1, expected);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int forever = 0; forever < 2; forever++)
            fault_sweep(&(fault_case){.name = calls[i].call,
                                      .kind = FAULT_CALL,
                                      .only = calls[i].call,
                                      .forever = forever,
                                      .run = compute_on_four,
                                      .end = check_bits,
                                      .least = calls[i].least,
                                      .may_succeed = true});
}
END_TEST

/* A caller's handlers run in its own threads, but a handler of a fault runs in the thread of the
 * fault. */
static void get_mask(void *arg) { pthread_sigmask(SIG_SETMASK, NULL, arg); }

START_TEST(signals_of_a_thread) {
    sigset_t before, after, mask;
    cti_thread thread;
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
    return run_tests("threads_refused", NULL, NULL,
                     TESTS(TEST(no_help), TEST(signals_of_a_thread)));
}
