/* The n-th request for memory or call into the operating system fails, for every n, while a profile
 * starts or its trace is written: an error, the old file as it was, and no memory or file left. */
#include "src/core/profile.h"
#include "tests/support/io_faults.h"

START_TEST(no_memory_to_start) {
    const int64_t before = ct_memory(context).live;
    fault_arm(FAULT_TAKE, 1);
    ck_assert(!ct_profile_start(context));
    fault_disarm();
    ck_assert_int_eq(ct_error(context), CT_ERR_MEMORY);
    ct_error_clear(context);
    ck_assert(ct_memory(context).live == before && !context->observed);
    ck_assert(!ct_profile_stop(context));
    ct_error_clear(context);
    ck_assert(ct_profile_start(context));
    train(1);
    fault_arm(FAULT_TAKE, 1); /* the second start needs none */
    ck_assert(ct_profile_start(context) && fault.calls == 0);
    fault_disarm();
}
END_TEST

static bool step(void *input) {
    ct_scope scope = ct_scope_open(context);
    ct_optim_zero_grad(optim);
    const bool done =
        ct_backward(ct_mse_loss(ct_forward(module, input), input)) && ct_optim_step(optim);
    ct_scope_close(scope);
    return done;
}
static void end_step(const fault_end *end, void *input) {
    (void)input;
    FAULT_CK(end, end->done == !end->struck);
    FAULT_CK(end, !context->profile->open);
}

/* Each request fails while a step is profiled: the spans of ops that fail end. */
START_TEST(no_memory_in_a_step) {
    ck_assert(ct_profile_start(context));
    fault_sweep(&(fault_case){.name = "a profiled step",
                              .kind = FAULT_TAKE,
                              .context = &context,
                              .arg = ct_randn(context, CT_F32, CT_SHAPE(4, 3)),
                              .run = step,
                              .end = end_step,
                              .grows = true});
}
END_TEST

static int files; /* in the folder */

static bool trace(void *arg) { return (void)arg, ct_profile_trace(context, path); }

static void check_trace(const fault_end *end, void *arg) {
    static content now;
    (void)arg;
    FAULT_CK(end, ct_memory(context).live == end->live);
    FAULT_CK(end, count_entries(folder) == files);
    if (!end->done && !strstr(end->message, "written, but")) {
        FAULT_CK(end, ct_error(context) == CT_ERR_MEMORY || strstr(end->message, path));
        read_file(&now);
        FAULT_CK(end, equal(&now, &old_file));
    }
    if (end->done) touch(path);
}

static void sweep(fault_kind kind, int64_t least) {
    touch(path);
    read_file(&old_file);
    files = count_entries(folder);
    ck_assert(ct_profile_start(context));
    train(40); /* more than one buffer of the trace */
    ck_assert(ct_profile_stop(context));
    fault_sweep(&(fault_case){.name = "a trace",
                              .kind = kind,
                              .context = &context,
                              .run = trace,
                              .end = check_trace,
                              .unchanged = open_files,
                              .least = least});
}

START_TEST(no_memory_for_the_trace) { sweep(FAULT_TAKE, 4); }
END_TEST
START_TEST(calls_that_fail) { sweep(FAULT_CALL, 8); }
END_TEST

START_TEST(interrupted_and_short) {
    static content now;
    ck_assert(ct_profile_start(context));
    train(1);
    ck_assert(ct_profile_stop(context) && ct_profile_trace(context, path));
    read_file(&old_file);
    for (transfers = INTERRUPTED; transfers <= SHORT; transfers++) {
        ck_assert_msg(ct_profile_trace(context, path), "%s", ct_error_message(context));
        read_file(&now);
        ck_assert(equal(&now, &old_file));
    }
}
END_TEST

int main(void) {
    return run_tests("profile faults", setup, teardown,
                     TESTS(TEST(no_memory_to_start), TEST(no_memory_in_a_step),
                           TEST(no_memory_for_the_trace), TEST(calls_that_fail),
                           TEST(interrupted_and_short)));
}
