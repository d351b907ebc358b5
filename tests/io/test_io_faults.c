/* The n-th call into the operating system fails, for every n: a save or load says so, leaves the
 * old file and the module as they were, no temporary file, no open file, no memory, and the context
 * goes on after ct_error_clear. */
#include "tests/support/io_faults.h"

static content now;
static int files; /* in the folder, before a run */

static void begin_run(void *arg) {
    const operation *o = arg;
    begin(o);
    unlink(stale_path);
    files = count_entries(folder);
    if (o->writes) touch(stale_path);
}

static bool run(void *arg) { return ((const operation *)arg)->run(); }

/* Whether a call may fail without that the operation does. */
static bool is_harmless(const char *call, bool writes, bool done) {
    static const char *const helpful[] = {"openat", "fstatat", "unlinkat", "fcntl", "fchown"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(call, helpful[i])) return true;
    if (!strcmp(call, "close")) return done || !writes; /* the file was only read */
    return !strcmp(call, "fstat") && writes && done;    /* it made another temporary file */
}

static void after_no_fault(const fault_end *end, const operation *o, bool swept) {
    FAULT_CK(end, swept);
    if (!o->writes || !o->prepare) return;
    FAULT_CK(end, mode_of(path) == 0661);
    FAULT_CK(end, geteuid() != 0 || (about(path).st_uid == 2 && about(path).st_gid == 3));
}

static void after_fault(const fault_end *end, const operation *o) {
    /* the folder's fsync failed after the new file was in place */
    const bool after = strstr(end->message, "written, but") != NULL;
    if (o->writes && o->prepare) FAULT_CK(end, (mode_of(path) & ~0661u) == 0);
    FAULT_CK(end, end->done == is_harmless(end->struck, o->writes, end->done));
    if (!end->done && !after) {
        FAULT_CK(end, count_entries(folder) == files);
        if (o->prepare) {
            read_file(&now);
            FAULT_CK(end, equal(&now, &old_file));
        }
    }
}

static int expected_error; /* 0: of a request for memory */

static void check_run(const fault_end *end, void *arg) {
    const operation *o = arg;
    const bool swept = unlink(stale_path) != 0, named = end->done || !expected_error;
    FAULT_CK(end, ct_memory(context).live == end->live);
    FAULT_CK(end, named || strstr(end->message, folder) != NULL);
    FAULT_CK(end, named || strstr(end->message, strerror(expected_error)) != NULL);
    if (end->struck) after_fault(end, o);
    else after_no_fault(end, o, swept);
    ct_error_clear(context);
    snapshot(&now);
    if (end->struck && (o->writes || !end->done)) FAULT_CK(end, equal(&now, &old_state));
}

static void sweep(int i, fault_kind kind, int error) {
    expected_error = error;
    fault_sweep(&(fault_case){.name = operations[i].name,
                              .kind = kind,
                              .error = error,
                              .context = &context,
                              .arg = (void *)&operations[i],
                              .begin = begin_run,
                              .run = run,
                              .end = check_run,
                              .again = run,
                              .unchanged = open_files,
                              .least = 5});
}

START_TEST(every_call_fails) { sweep(_i, FAULT_CALL, EIO); }
END_TEST
START_TEST(every_request_for_memory_fails) { sweep(_i, FAULT_TAKE, 0); }
END_TEST

/* A full disk, a quota, and a file system that cannot be written. */
START_TEST(no_room) {
    static const int errors[] = {ENOSPC, EDQUOT, EROFS};
    for (int i = 0; i < 3; i++) sweep(_i, FAULT_CALL, errors[i]);
}
END_TEST

/* Interrupted calls are repeated, and short reads and writes are continued. */
START_TEST(interrupted_and_short) {
    const operation *o = &operations[_i];
    begin(o);
    ck_assert(o->run());
    read_file(&old_file);
    snapshot(&old_state);
    for (transfers = INTERRUPTED; transfers <= SHORT; transfers++) {
        ck_assert_msg(o->run(), "%s, %s: %s", o->name, transfers == SHORT ? "short" : "interrupted",
                      ct_error_message(context));
        read_file(&now);
        ck_assert(equal(&now, &old_file));
        snapshot(&now);
        ck_assert(equal(&now, &old_state));
    }
}
END_TEST

static void begin_plainly(void *arg) { begin(arg); }

static void check_interrupted(const fault_end *end, void *arg) {
    FAULT_CK(end, end->done);
    snapshot(&now);
    if (((const operation *)arg)->writes) FAULT_CK(end, equal(&now, &old_state));
}

START_TEST(each_call_is_interrupted) {
    fault_sweep(&(fault_case){.name = operations[_i].name,
                              .kind = FAULT_SIGNAL,
                              .context = &context,
                              .arg = (void *)&operations[_i],
                              .begin = begin_plainly,
                              .run = run,
                              .end = check_interrupted,
                              .least = 3,
                              .may_succeed = true});
}
END_TEST

static void check_shrunk(const fault_end *end, void *arg) {
    (void)arg;
    FAULT_CK(end, end->done == !end->struck);
    if (end->done) return;
    FAULT_CK(end, strstr(end->message, "while being read"));
    ct_error_clear(context);
    snapshot(&now);
    FAULT_CK(end, equal(&now, &old_state));
}

START_TEST(file_shrinks_while_it_is_read) {
    fault_sweep(&(fault_case){.name = "a file that shrinks",
                              .kind = FAULT_SHRINK,
                              .status = CT_ERR_FORMAT,
                              .context = &context,
                              .arg = (void *)&operations[6],
                              .begin = begin_plainly,
                              .run = run,
                              .end = check_shrunk,
                              .least = 10});
}
END_TEST

int main(void) {
    return run_tests(
        "io faults", setup, teardown,
        TESTS(LOOP(every_call_fails, OPERATIONS), LOOP(every_request_for_memory_fails, OPERATIONS),
              LOOP(no_room, OPERATIONS), LOOP(interrupted_and_short, OPERATIONS),
              LOOP(each_call_is_interrupted, OPERATIONS), TEST(file_shrinks_while_it_is_read)));
}
