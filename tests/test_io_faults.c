/* The n-th call into the operating system fails, for every n: a save or load says so, leaves the
 * old file and the module as they were, no temporary file, no open file, no memory, and the context
 * goes on after ct_error_clear. */
#include "io_faults.h"

static content now;

static void sweep(int i, bool memory, int error) {
    int64_t failures = 0;
    for (int64_t at = 1;; at++) {
        begin(i);
        unlink(stale_path);
        int64_t live = ct_memory(context).live;
        int files = count_entries(folder), fds = count_entries("/proc/self/fd");
        if (operations[i].writes) touch(stale_path);
        fault.calls = 0, fault.at = at, fault.memory = memory, fault.failed = NULL,
        fault.error = error, fault.mode = FAIL;
        bool done = operations[i].run();
        fault.mode = NONE;
        const char *failed = fault.failed, *message = ct_error_message(context);
#define CK(condition)                                                                              \
    ck_assert_msg(condition, "%s, fault %lld (%s): %s: %s", operations[i].name, (long long)at,     \
                  failed ? failed : "none", #condition, message)
        const bool swept = unlink(stale_path) != 0;
        CK(done == (ct_error(context) == CT_OK));
        CK(ct_memory(context).live == live);
        CK(count_entries("/proc/self/fd") == fds);
        if (!failed) {
            CK(done);
            CK(swept);
            if (operations[i].writes && operations[i].prepare) {
                CK(mode_of(path) == 0661);
                CK(geteuid() != 0 || (about(path).st_uid == 2 && about(path).st_gid == 3));
            }
            break;
        }
        failures++;
        /* calls whose failure does not make a save fail */
        static const char *const helpful[] = {"openat", "fstatat", "unlinkat", "fcntl", "fchown"};
        /* whether what is read is a folder: opening it will tell */
        bool harmless = !strcmp(failed, "stat") && !operations[i].writes;
        /* closing a file that was read */
        harmless |= !strcmp(failed, "close") && (done || !operations[i].writes);
        for (int h = 0; h < 5; h++) harmless |= !strcmp(failed, helpful[h]);
        /* the save made another temporary file */
        if (!strcmp(failed, "fstat") && operations[i].writes) harmless |= done;
        if (operations[i].writes && operations[i].prepare) CK((mode_of(path) & ~0661u) == 0);
        /* the folder's fsync failed after the new file was in place */
        bool after = strstr(message, "written, but") != NULL;
        CK(harmless ? done : !done);
        CK(done || ct_error(context) == (memory ? CT_ERR_MEMORY : CT_ERR_IO));
        CK(done || memory || strstr(message, folder) != NULL);
        CK(done || memory || strstr(message, strerror(error)) != NULL);
        if (!done && !after) {
            if (operations[i].prepare) {
                CK(count_entries(folder) == files);
                read_file(&now);
                CK(equal(&now, &old_file));
            } else {
                CK(count_entries(folder) == files);
            }
        }
        ct_error_clear(context);
        snapshot(&now);
        if (operations[i].writes || !done) CK(equal(&now, &old_state));
        ck_assert_msg(operations[i].run(), "%s", ct_error_message(context));
    }
    ck_assert_int_ge(failures, 5);
}

START_TEST(every_call_fails) { sweep(_i, false, EIO); }
END_TEST
START_TEST(every_request_for_memory_fails) { sweep(_i, true, EIO); }
END_TEST

/* A full disk, a quota, and a file system that cannot be written. */
START_TEST(no_room) {
    static const int errors[] = {ENOSPC, EDQUOT, EROFS};
    for (int i = 0; i < 3; i++) sweep(_i, false, errors[i]);
}
END_TEST

/* Interrupted calls are repeated, and short reads and writes are continued. */
START_TEST(interrupted_and_short) {
    begin(_i);
    ck_assert(operations[_i].run());
    read_file(&old_file);
    snapshot(&old_state);
    for (fault_mode mode = INTERRUPT; mode <= SHORT; mode++) {
        fault.interrupts = 0;
        fault.mode = mode;
        bool done = operations[_i].run();
        fault.mode = NONE;
        ck_assert_msg(done, "%s, %s: %s", operations[_i].name,
                      mode == SHORT ? "short" : "interrupted", ct_error_message(context));
        read_file(&now);
        ck_assert(equal(&now, &old_file));
        snapshot(&now);
        ck_assert(equal(&now, &old_state));
    }
}
END_TEST

START_TEST(each_call_is_interrupted) {
    int64_t at = 1;
    for (bool more = true; more; at++) {
        begin(_i);
        fault.interrupts = 0, fault.at = at, fault.mode = INTERRUPT_ONCE;
        const bool done = operations[_i].run();
        fault.mode = NONE;
        more = fault.interrupts >= at;
        ck_assert_msg(done, "%s, call %lld: %s", operations[_i].name, (long long)at,
                      ct_error_message(context));
        snapshot(&now);
        if (operations[_i].writes) ck_assert(equal(&now, &old_state));
    }
    ck_assert_int_ge(at, 4);
}
END_TEST

START_TEST(file_shrinks_while_it_is_read) {
    int64_t at = 1;
    for (;; at++) {
        begin(6);
        fault.calls = 0, fault.at = at, fault.mode = SHRINK;
        bool done = load_all();
        fault.mode = NONE;
        if (fault.calls < at) {
            ck_assert(done);
            break;
        }
        ck_assert(!done && ct_error(context) == CT_ERR_FORMAT);
        ck_assert_ptr_nonnull(strstr(ct_error_message(context), "while being read"));
        ct_error_clear(context);
        snapshot(&now);
        ck_assert(equal(&now, &old_state));
    }
    ck_assert_int_gt(at, 10);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("io faults");
    TCase *faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, setup, teardown);
    tcase_add_loop_test(faults, every_call_fails, 0, OPERATIONS);
    tcase_add_loop_test(faults, every_request_for_memory_fails, 0, OPERATIONS);
    tcase_add_loop_test(faults, no_room, 0, OPERATIONS);
    tcase_add_loop_test(faults, interrupted_and_short, 0, OPERATIONS);
    tcase_add_loop_test(faults, each_call_is_interrupted, 0, OPERATIONS);
    tcase_add_test(faults, file_shrinks_while_it_is_read);
    suite_add_tcase(suite, faults);
    return run_suite(suite);
}
