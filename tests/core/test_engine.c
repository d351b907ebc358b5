/* The engine under the ops: contexts, scopes, errors, processes. Memory is in test_memory.c. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "src/core/context.h"

#include "tests/support/one_context.h"

/* ---- contexts ---- */

START_TEST(a_context_of_another_machine) {
    ct_context *c = ct_context_new((ct_context_opts){.isa = "z80"});
    ck_assert_ptr_nonnull(c);
    expect_in(c, CT_ERR_ARGUMENT, "z80", "scalar");
    ct_tensor *x = ct_ones(c, CT_F32, CT_SHAPE(3)); /* works after the error is cleared */
    ck_assert(ct_item(ct_sum(x, CT_ALL, false)) == 3);
    ct_context_free(c);

    setenv("CT_ISA", "pdp11", 1);
    c = ct_context_new((ct_context_opts){0});
    expect_in(c, CT_ERR_ARGUMENT, "pdp11", "");
    ct_context_free(c);
    c = ct_context_new((ct_context_opts){.isa = "scalar"}); /* the option overrides CT_ISA */
    ck_assert_int_eq(ct_error(c), CT_OK);
    ct_context_free(c);
    setenv("CT_ISA", "scalar", 1);
    c = ct_context_new((ct_context_opts){0});
    ck_assert_int_eq(ct_error(c), CT_OK);
    ct_context_free(c);
    unsetenv("CT_ISA");
}
END_TEST

START_TEST(numbers_of_threads) {
    int wrong[] = {-1, 1025, INT32_MAX};
    for (int i = 0; i < 3; i++) {
        ct_context *c = ct_context_new((ct_context_opts){.threads = wrong[i]});
        expect_in(c, CT_ERR_ARGUMENT, "thread", "");
        ct_context_free(c);
        ck_refused(ct_set_threads(context, wrong[i]), CT_ERR_ARGUMENT, "thread", "");
    }
    ck_refused(ct_set_threads(context, 0), CT_ERR_ARGUMENT, "thread", "");
    setenv("CT_NUM_THREADS", "many", 1);
    ct_context *c = ct_context_new((ct_context_opts){0});
    expect_in(c, CT_ERR_ARGUMENT, "CT_NUM_THREADS", "many");
    ct_context_free(c);
    setenv("CT_NUM_THREADS", "3", 1);
    c = ct_context_new((ct_context_opts){0});
    ck_assert_int_eq(ct_error(c), CT_OK);
    for (int threads = 5; threads > 0; threads--) {
        ck_assert(ct_set_threads(c, threads));
        ct_tensor *x = ct_ones(c, CT_F32, CT_SHAPE(300, 1000));
        ck_assert(ct_item(ct_sum(x, CT_ALL, false)) == 300000);
    }
    ct_context_free(c);
    unsetenv("CT_NUM_THREADS");
    ct_context_free(NULL);
}
END_TEST

static void *one_thread(void *arg) {
    double *out = arg;
    ct_context *c = ct_context_new((ct_context_opts){.seed = 3, .threads = 2});
    for (int i = 0; i < 20; i++) {
        ct_scope scope = ct_scope_open(c);
        ct_tensor *x = ct_set_requires_grad(ct_randn(c, CT_F64, CT_SHAPE(200, 200)), true);
        ct_tensor *loss = ct_mean(ct_tanh(ct_matmul(x, x)), CT_ALL, false);
        ct_backward(loss);
        *out += ct_item(loss) + ct_item(ct_sum(ct_grad(x), CT_ALL, false));
        ct_scope_close(scope);
    }
    if (ct_error(c)) *out = NAN;
    ct_context_free(c);
    return NULL;
}

START_TEST(two_contexts_in_two_threads_never_meet) {
    double result[3] = {0};
    pthread_t thread[2];
    one_thread(&result[2]);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, one_thread, &result[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    ck_assert(isfinite(result[2]));
    ck_assert(result[0] == result[2] && result[1] == result[2]);
}
END_TEST

/* ---- the caller's floating-point mode ---- */

/* The work of two threads at the same time: each chunk waits until both threads have begun. */
typedef struct {
    atomic_int begun;
    int rounding[2], worker[2];
    double third[2], tiny[2];
} two_pieces;

static void compute_piece(void *arg, int64_t begin, int64_t end, int worker) {
    two_pieces *p = arg;
    volatile double one = 1, least = DBL_MIN;
    (void)end;
    atomic_fetch_add(&p->begun, 1);
    while (atomic_load(&p->begun) < 2) sched_yield();
    p->worker[begin] = worker;
    p->rounding[begin] = fegetround();
    p->third[begin] = one / 3;
    p->tiny[begin] = least / 4; /* 0 where denormals count as zero */
}

static void both_compute(double third, double tiny) {
    two_pieces p = {.rounding = {-1, -2}};
    cti_parallel(context, 2, 1, compute_piece, &p);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(p.rounding[i], fegetround());
        ck_assert(p.third[i] == third && p.tiny[i] == tiny);
    }
    ck_assert_int_ne(p.worker[0], p.worker[1]);
}

static const int roundings[] = {
    FE_TONEAREST,
#ifdef FE_UPWARD
    FE_UPWARD,
#endif
#ifdef FE_DOWNWARD
    FE_DOWNWARD,
#endif
#ifdef FE_TOWARDZERO
    FE_TOWARDZERO,
#endif
};
enum { ROUNDINGS = sizeof roundings / sizeof *roundings };

/* Threads that were there before the mode was set, and threads that begin afterwards. */
START_TEST(workers_round_as_their_caller) {
    volatile double one = 1, least = DBL_MIN;
    for (int i = 0; i < 2 * ROUNDINGS; i++) {
        ck_assert(ct_set_threads(context, 1 + i % 2) && ct_set_threads(context, 2));
        if (i % 2) both_compute(one / 3, least / 4);
        fesetround(roundings[i / 2]);
        both_compute(one / 3, least / 4);
        fesetround(FE_TONEAREST);
        both_compute(one / 3, least / 4);
    }
}
END_TEST

#ifdef __SSE__
/* As plug-in hosts and start-up code of -ffast-math do. */
START_TEST(workers_flush_denormals_as_their_caller) {
    enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZERO = 1 << 6 };
    const unsigned plain = __builtin_ia32_stmxcsr();
    ck_assert(ct_set_threads(context, 2));
    volatile double one = 1, least = DBL_MIN;
    both_compute(one / 3, least / 4);
    __builtin_ia32_ldmxcsr(plain | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
    both_compute(one / 3, least / 4); /* 0 on every machine; not under valgrind */
    __builtin_ia32_ldmxcsr(plain);
    ck_assert(least / 4 > 0);
    both_compute(one / 3, least / 4);
}
END_TEST
#endif

/* All of a step, in each mode: the same bits for one thread and three. */
static uint64_t bits_of_a_step(int threads) {
    ct_context *c = ct_context_new((ct_context_opts){.seed = 3, .threads = threads});
    ct_tensor *x = ct_set_requires_grad(ct_randn(c, CT_F32, CT_SHAPE(2, 3, 70, 32)), true);
    ct_tensor *y = ct_attention(x, x, x, (ct_attention_opts){.causal = true}).out;
    y = ct_matmul(ct_gelu(ct_view(y, CT_SHAPE(420, 32))), ct_randn(c, CT_F32, CT_SHAPE(32, 300)));
    ct_backward(ct_mean(ct_mul(ct_softmax(y, 1), y), CT_ALL, false));
    uint64_t hash = 1469598103934665603u;
    const unsigned char *at = (const unsigned char *)ct_data_f32(ct_grad(x));
    for (int64_t i = 0; i < 4 * ct_numel(x); i++) hash = (hash ^ at[i]) * 1099511628211u;
    ck_assert_int_eq(ct_error(c), CT_OK);
    ct_context_free(c);
    return hash;
}

START_TEST(the_same_bits_in_each_mode) {
    uint64_t one[ROUNDINGS];
    for (int i = 0; i < ROUNDINGS; i++) {
        fesetround(roundings[i]);
        one[i] = bits_of_a_step(1);
        for (int again = 0; again < 3; again++) ck_assert(bits_of_a_step(3) == one[i]);
    }
    fesetround(FE_TONEAREST);
}
END_TEST

/* ---- scopes ---- */

START_TEST(closing_a_scope_ends_what_is_in_it) {
    ct_scope scope = ct_scope_open(context); /* the pool's first slabs are not counted then */
    ct_zeros(context, CT_F32, CT_SHAPE(10));
    ct_scope_close(scope);
    int64_t before = live();
    scope = ct_scope_open(context);
    for (int i = 0; i < 10; i++) ct_zeros(context, CT_F32, CT_SHAPE(1000));
    ck_assert(live() >= before + 40000);
    ct_scope inner = ct_scope_open(context), innermost = ct_scope_open(context);
    ct_zeros(context, CT_F32, CT_SHAPE(1000));
    ct_scope_close(scope); /* and closes the two inside it */
    ck_assert_int_eq(live(), before);
    ct_scope_close(innermost), ct_scope_close(inner), ct_scope_close(scope), ct_scope_close(scope);
    ck_assert_int_eq(live(), before);

    ct_scope a = ct_scope_open(context), b = ct_scope_open(context);
    ct_scope_close(a);
    ct_scope c = ct_scope_open(context);
    ct_zeros(context, CT_F32, CT_SHAPE(1000));
    ct_scope_close(b); /* closed before: does not close later scopes */
    ck_assert(live() > before);
    ct_scope_close(c);
    ck_assert_int_eq(live(), before);
    no_error();
    ct_scope_close((ct_scope){0});
}
END_TEST

START_TEST(keeping_returning_releasing) {
    ct_scope warm = ct_scope_open(context);
    ct_scope_close(warm);
    int64_t before = live();
    ct_scope outer = ct_scope_open(context), inner = ct_scope_open(context);
    ct_tensor *x = ct_full(context, CT_F64, CT_SHAPE(100), 5),
              *y = ct_full(context, CT_F64, CT_SHAPE(100), 7);
    ck_assert_ptr_eq(ct_scope_keep(inner, x), x);
    ck_assert_ptr_null(ct_scope_keep(inner, NULL));
    ck_assert_ptr_eq(ct_scope_return(inner, y), y);
    ck_assert(ct_data_f64(x)[99] == 5 && ct_data_f64(y)[99] == 7);
    ct_release(y);
    ct_release(NULL);
    inner = ct_scope_open(context);
    ct_scope_keep(inner, x); /* x is in an outer scope already: no change */
    ck_assert_ptr_null(ct_scope_return(inner, NULL));
    ck_assert(ct_data_f64(x)[0] == 5);
    inner = ct_scope_open(context);
    ct_tensor *z = ct_keep(ct_full(context, CT_F64, CT_SHAPE(100), 9));
    ck_assert_ptr_null(ct_keep(NULL));
    ct_scope_close(outer);
    ck_assert(ct_data_f64(z)[50] == 9);
    ct_release(z);
    ck_assert_int_eq(live(), before);
    no_error();
}
END_TEST

START_TEST(a_view_holds_the_memory_it_needs) {
    ct_scope scope = ct_scope_open(context);
    ct_tensor *x = ct_full(context, CT_F64, CT_SHAPE(3, 4), 2), *view = ct_transpose(x, 0, 1);
    ct_release(x);
    ct_full(context, CT_F64, CT_SHAPE(3, 4), 8); /* would be where x was */
    ck_assert(ct_item(ct_sum(view, CT_ALL, false)) == 24);
    ct_scope_close(scope);
}
END_TEST

START_TEST(scopes_close_while_an_error_is_pending) {
    int64_t before = live();
    ct_scope scope = ct_scope_open(context);
    ct_tensor *x = ct_zeros(context, CT_F64, CT_SHAPE(100));
    ck_assert_ptr_null(ct_matmul(x, ct_zeros(context, CT_F64, CT_SHAPE(7, 7))));
    ck_assert_int_eq(ct_numel(x), 100); /* readers work */
    ck_assert(ct_item(ct_zeros(context, CT_F64, CT_SHAPE(1))) != 0);
    double values[100];
    ck_assert(ct_to_f64(x, values, 100) && values[3] == 0);
    ct_scope inner = ct_scope_open(context);
    ct_scope_close(inner);
    ct_scope_close(scope);
    ck_assert_int_eq(live(), before);
    expect(CT_ERR_SHAPE, "matmul", "(100)");
}
END_TEST

/* ---- errors ---- */

typedef struct {
    int calls;
    ct_status status;
    char message[200];
} heard;

static void hear(void *data, ct_status status, const char *message) {
    heard *h = data;
    h->calls++, h->status = status;
    snprintf(h->message, sizeof h->message, "%s", message);
}

START_TEST(the_first_error_stays) {
    heard h = {0};
    ct_context *c =
        ct_context_new((ct_context_opts){.threads = 1, .on_error = hear, .on_error_data = &h});
    ck_assert_str_eq(ct_error_message(c), "");
    ct_tensor *a = ct_ones(c, CT_F32, CT_SHAPE(2, 3)), *b = ct_ones(c, CT_F32, CT_SHAPE(4, 5));
    ct_rng rng = ct_rng_get(c);
    ck_assert_ptr_null(ct_exp(ct_matmul(a, b)));
    ck_assert_int_eq(h.calls, 1);
    ck_assert_int_eq(h.status, CT_ERR_SHAPE);
    ck_assert(strstr(h.message, "matmul") && strstr(h.message, "(2, 3)") &&
              strstr(h.message, "(4, 5)"));
    ck_assert_ptr_null(ct_zeros(c, CT_F32, CT_SHAPE(-1)));
    ck_assert_ptr_null(ct_rand(c, CT_F32, CT_SHAPE(2)));
    ck_assert(!ct_set_threads(c, 2));
    ck_assert_int_eq(ct_random_below(c, 10), -1);
    ck_assert_ptr_null(ct_fail(c, CT_ERR_IO, "later"));
    ck_assert(!ct_init_constant(a, 7));
    ck_assert_int_eq(h.calls, 1);
    ck_assert_str_eq(ct_error_message(c), h.message);
    ck_assert_int_eq(ct_rng_get(c).stream, rng.stream);
    ct_error_clear(c);
    ck_assert_str_eq(ct_error_message(c), "");
    ck_assert(ct_item(ct_sum(a, CT_ALL, false)) == 6); /* unchanged, and usable */
    ct_fail(c, CT_ERR_FORMAT, "%d", 17);
    ck_assert_int_eq(h.calls, 2);
    ck_assert_str_eq(h.message, "17");
    ct_context_free(c);
}
END_TEST

typedef struct {
    ct_context *context;
    ct_scope scope;
    int calls;
} meddling;

static void meddle(void *data, ct_status status, const char *message) {
    meddling *m = data;
    m->calls++;
    ct_error_clear(m->context); /* nothing */
    ck_assert(ct_error(m->context) == status && !strcmp(ct_error_message(m->context), message));
    ck_assert(!ct_ones(m->context, CT_F32, CT_SHAPE(3)));
    ct_scope_close(m->scope);
}

/* on_error runs inside the function that failed and goes on afterwards, so on_error can neither
 * clear the error nor end tensors that are in use. */
START_TEST(on_error_cannot_clear) {
    meddling m = {0};
    ct_context *c = m.context =
        ct_context_new((ct_context_opts){.threads = 1, .on_error = meddle, .on_error_data = &m});
    const int64_t live_before = ct_memory(c).live;
    for (int round = 0; round < 2; round++) {
        m.scope = ct_scope_open(c);
        ct_tensor *x = ct_ones(c, CT_F32, CT_SHAPE(2, 3));
        ck_assert(!ct_embedding(ct_full(c, CT_I64, CT_SHAPE(2), 9), x));
        ck_assert_int_eq(ct_error(c), CT_ERR_ARGUMENT);
        ct_error_clear(c);
        ck_assert_int_eq(ct_error(c), CT_OK);
        ct_scope_close(m.scope); /* it may be closed by now */
        ck_assert(!ct_mha_new(c, (ct_mha_opts){.embed_dim = 6, .num_heads = 4}));
        ct_error_clear(c);
        /* everything that was made is freed */
        ck_assert(!ct_encoder_new(c, (ct_layer_opts){.embed_dim = 6, .num_heads = 4}, 2, true));
        ct_error_clear(c);
        ck_assert_int_eq(ct_memory(c).live, live_before);
        ck_assert_int_eq(m.calls, 3 * (round + 1));
    }
    ct_context_free(c);
}
END_TEST

/* ---- processes ---- */

static double mean_of(ct_context *c) {
    ct_scope scope = ct_scope_open(c);
    ct_tensor *x = ct_full(c, CT_F32, CT_SHAPE(500, 500), 0.5);
    const double mean = ct_item(ct_mean(ct_matmul(x, x), CT_ALL, false));
    ct_scope_close(scope);
    return mean;
}

/* After a fork the child has only the thread that forked; contexts of the parent still work in it
 * and can be freed. */
START_TEST(a_child_of_fork) {
    for (int what = 0; what < 4; what++) {
        ct_context *c = ct_context_new((ct_context_opts){.threads = 3});
        const double want = mean_of(c); /* its threads have begun */
        const pid_t child = fork();
        ck_assert(child >= 0);
        if (child == 0) {
            bool right = true;
            if (what == 1) right = mean_of(c) == want && mean_of(c) == want;
            if (what == 2) right = ct_set_threads(c, 2) && mean_of(c) == want;
            if (what == 3) { /* and a child of the child */
                right = mean_of(c) == want;
                const pid_t grandchild = fork();
                if (grandchild == 0) {
                    const bool also = mean_of(c) == want;
                    ct_context_free(c);
                    _exit(also ? 0 : 1);
                }
                int status;
                right &= waitpid(grandchild, &status, 0) == grandchild && status == 0;
            }
            ct_context_free(c);
            _exit(right ? 0 : 1);
        }
        int status;
        ck_assert(waitpid(child, &status, 0) == child);
        ck_assert_msg(status == 0, "%d: the child's status is %d", what, status);
        ck_assert(mean_of(c) == want);
        ct_context_free(c);
    }
}
END_TEST

START_TEST(nothing_to_record_in) {
    ck_assert_ptr_null(ct_zeros(NULL, CT_F32, CT_SHAPE(1)));
    ck_assert_ptr_null(ct_add(NULL, NULL));
    ck_assert_ptr_null(ct_causal_mask(NULL, 1, 1));
    ck_assert_ptr_null(ct_context_of(NULL));
    ck_assert_int_eq(ct_shape_of(NULL).ndim, 0);
    ck_assert_int_eq(ct_numel(NULL), 0);
    ck_assert(isnan(ct_item(NULL)));
    ck_assert(!ct_to_f32(NULL, NULL, 0) && !ct_data_f32(NULL));
    ck_assert_int_eq(ct_random_below(NULL, 5), -1);
    ct_error_clear(NULL), ct_memory_trim(NULL), ct_memory_reset_peak(NULL), ct_seed(NULL, 1);
    ct_scope_close(ct_scope_open(NULL));
    ct_print(NULL, stdout);
}
END_TEST

START_TEST(dying_with_a_message) {
    ct_context *c = ct_context_new((ct_context_opts){.on_error = ct_error_die});
    ct_zeros(c, CT_F32, CT_SHAPE(-1));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("engine");
    TCase *tcase = tcase_create("engine"), *processes = tcase_create("processes");
    tcase_set_tags(processes,
                   "one-thread forks"); /* ThreadSanitizer takes no threads after a fork */
    tcase_add_test(processes, a_child_of_fork);
    suite_add_tcase(suite, processes);
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_context_of_another_machine);
    tcase_add_test(tcase, numbers_of_threads);
    tcase_add_test(tcase, closing_a_scope_ends_what_is_in_it);
    tcase_add_test(tcase, keeping_returning_releasing);
    tcase_add_test(tcase, a_view_holds_the_memory_it_needs);
    tcase_add_test(tcase, scopes_close_while_an_error_is_pending);
    tcase_add_test(tcase, the_first_error_stays);
    tcase_add_test(tcase, nothing_to_record_in);
    tcase_add_test(tcase, on_error_cannot_clear);
    if (tests_fork()) tcase_add_exit_test(tcase, dying_with_a_message, 1);
    suite_add_tcase(suite, tcase);
    TCase *threads = tcase_create("threads");
    tcase_set_tags(threads, "threads");
    tcase_add_checked_fixture(threads, setup, teardown);
    tcase_add_test(threads, two_contexts_in_two_threads_never_meet);
    tcase_add_test(threads, workers_round_as_their_caller);
#ifdef __SSE__
    tcase_add_test(threads, workers_flush_denormals_as_their_caller);
#endif
    tcase_add_test(threads, the_same_bits_in_each_mode);
    suite_add_tcase(suite, threads);
    return run_suite(suite);
}
