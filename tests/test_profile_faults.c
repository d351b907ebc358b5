/* The n-th request for memory or call into the operating system fails, for every n, while a profile
 * starts or its trace is written: an error, the old file as it was, and no memory or file left. */
#include "../src/core/profile.h"
#include "io_faults.h"

static void inject(int64_t at, bool memory) {
    fault.calls = 0, fault.at = at, fault.memory = memory, fault.failed = NULL, fault.mode = FAIL;
}

START_TEST(no_memory_to_start) {
    const int64_t before = ct_memory(context).live;
    inject(1, true);
    ck_assert(!ct_profile_start(context));
    fault.mode = NONE;
    ck_assert_int_eq(ct_error(context), CT_ERR_MEMORY);
    ct_error_clear(context);
    ck_assert(ct_memory(context).live == before && !context->observed);
    ck_assert(!ct_profile_stop(context));
    ct_error_clear(context);
    ck_assert(ct_profile_start(context));
    train(1);
    inject(1, true); /* the second start needs none */
    ck_assert(ct_profile_start(context) && fault.calls == 0);
    fault.mode = NONE;
}
END_TEST

/* Each request fails while a step is profiled: the spans of what fails end. */
START_TEST(no_memory_in_a_step) {
    ct_tensor *x = ct_randn(context, CT_F32, CT_SHAPE(4, 3));
    ck_assert(ct_profile_start(context));
    bool done = false;
    for (int64_t at = 1; !done; at++) {
        ct_scope scope = ct_scope_open(context);
        ct_optim_zero_grad(optim);
        inject(at, true);
        done = ct_backward(ct_mse_loss(ct_forward(module, x), x)) && ct_optim_step(optim);
        fault.mode = NONE;
        ck_assert(done == !fault.failed);
        ct_error_clear(context);
        ck_assert_ptr_null(context->profile->open);
        ct_scope_close(scope);
    }
}
END_TEST

static void sweep(bool memory) {
    static content now;
    touch(path);
    read_file(&old_file);
    ck_assert(ct_profile_start(context));
    train(40); /* more than one buffer of the trace */
    ck_assert(ct_profile_stop(context));
    int64_t failures = 0;
    for (int64_t at = 1;; at++) {
        const int64_t before = ct_memory(context).live;
        const int files = count_entries(folder), fds = count_entries("/proc/self/fd");
        inject(at, memory);
        const bool done = ct_profile_trace(context, path);
        fault.mode = NONE;
        ck_assert(done == (ct_error(context) == CT_OK));
        ck_assert(ct_memory(context).live == before);
        ck_assert_int_eq(count_entries("/proc/self/fd"), fds);
        ck_assert_int_eq(count_entries(folder), files);
        if (!fault.failed) break;
        failures++;
        const char *message = ct_error_message(context);
        if (!done && !strstr(message, "written, but")) {
            ck_assert_int_eq(ct_error(context), memory ? CT_ERR_MEMORY : CT_ERR_IO);
            ck_assert(memory || strstr(message, path));
            read_file(&now);
            ck_assert_msg(equal(&now, &old_file), "fault %lld (%s)", (long long)at, fault.failed);
        }
        ct_error_clear(context);
        if (done) touch(path);
    }
    ck_assert_int_ge(failures, memory ? 4 : 8);
}

START_TEST(no_memory_for_the_trace) { sweep(true); }
END_TEST
START_TEST(calls_that_fail) { sweep(false); }
END_TEST

START_TEST(interrupted_and_short) {
    ck_assert(ct_profile_start(context));
    train(1);
    ck_assert(ct_profile_stop(context) && ct_profile_trace(context, path));
    read_file(&old_file);
    for (fault_mode mode = INTERRUPT; mode <= SHORT; mode++) {
        static content now;
        fault.interrupts = 0;
        fault.mode = mode;
        const bool done = ct_profile_trace(context, path);
        fault.mode = NONE;
        ck_assert_msg(done, "%s", ct_error_message(context));
        read_file(&now);
        ck_assert(equal(&now, &old_file));
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("profile faults");
    TCase *faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, setup, teardown);
    tcase_add_test(faults, no_memory_to_start);
    tcase_add_test(faults, no_memory_in_a_step);
    tcase_add_test(faults, no_memory_for_the_trace);
    tcase_add_test(faults, calls_that_fail);
    tcase_add_test(faults, interrupted_and_short);
    suite_add_tcase(suite, faults);
    return run_suite(suite);
}
