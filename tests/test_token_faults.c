/* The n-th call into the system, or request for memory, fails while token files are opened and
 * read: an error says so, x and y stay what they were, nothing stays open, and the next batch is
 * right. */
#include "io_faults.h"

enum { B = 3, T = 20, IDS = 5 * T + 1 };

static const char *paths[2];
static char second[160];
static ct_tensor *x, *y;

static void put_ids(const char *name, int from) {
    FILE *file = fopen(name, "wb");
    for (int i = 0; i < IDS; i++) {
        putc((from + i) & 255, file);
        putc((from + i) >> 8, file);
    }
    ck_assert_int_eq(fclose(file), 0);
}

static void begin_files(void) {
    setup();
    snprintf(second, sizeof second, "%s.second", path);
    paths[0] = path;
    paths[1] = second;
    put_ids(path, 0);
    put_ids(second, 1000);
}

static void end_files(void) {
    fault.mode = NONE;
    unlink(second);
    teardown();
}

/* Opens both files and reads a batch of their windows. */
static bool open_and_read(void) {
    ct_tokens *tokens = ct_tokens_open(context, paths, 2, (ct_tokens_opts){.vocabulary = 2000});
    const bool done = ct_tokens_batch(tokens, 1, 0, B, T, &x, &y);
    ct_tokens_close(tokens);
    return done;
}

static bool is_right(void) {
    for (int64_t i = 0; i < B * T; i++) {
        const int64_t id = ct_data_i64(x)[i];
        if (ct_data_i64(y)[i] != id + 1 || (i % T && id != ct_data_i64(x)[i - 1] + 1)) return false;
    }
    return true;
}

static void sweep(bool memory) {
    int failures = 0;
    for (bool failed = true; failed; failures++) {
        ct_scope scope = ct_scope_open(context);
        ct_tensor *const before = ct_zeros(context, CT_F32, CT_SCALAR);
        const int fds = count_entries("/proc/self/fd");
        const int64_t live = ct_memory(context).live;
        x = y = before;
        fault.calls = 0, fault.at = failures + 1, fault.memory = memory, fault.failed = NULL;
        fault.mode = FAIL;
        const bool done = open_and_read();
        fault.mode = NONE;
        failed = fault.failed != NULL;
        const char *message = ct_error_message(context);
        ck_assert_int_eq(count_entries("/proc/self/fd"), fds);
        if (done) {
            /* a failure to close what was read is harmless */
            ck_assert(!failed || !strcmp(fault.failed, "close"));
            ck_assert(is_right());
        } else {
            ck_assert_msg(ct_error(context) == (memory ? CT_ERR_MEMORY : CT_ERR_IO), "%s", message);
            ck_assert_msg(memory || (strstr(message, path) && strstr(message, strerror(EIO))), "%s",
                          message);
            ck_assert_msg(memory || strcmp(fault.failed, "pread") != 0 || strstr(message, "byte "),
                          "%s", message);
            ck_assert(x == before && y == before);
            ck_assert_int_eq(ct_memory(context).live, live);
            ct_error_clear(context);
            ck_assert(open_and_read() && is_right());
        }
        ct_scope_close(scope);
    }
    ck_assert_int_gt(failures, memory ? 6 : 12);
}

START_TEST(every_call_fails) { sweep(false); }
END_TEST
START_TEST(every_request_for_memory_fails) { sweep(true); }
END_TEST

START_TEST(interrupted_and_short) {
    for (fault_mode mode = INTERRUPT; mode <= SHORT; mode++) {
        fault.interrupts = 0;
        fault.mode = mode;
        const bool done = open_and_read();
        fault.mode = NONE;
        ck_assert_msg(done, "%s", ct_error_message(context));
        ck_assert(is_right());
    }
}
END_TEST

/* The first file is cut where it is about to be read. */
START_TEST(cut_while_it_is_read) {
    int cut = 0;
    for (int at = 1; at < 30; at++) {
        put_ids(path, 0);
        ct_tensor *const before = ct_zeros(context, CT_F32, CT_SCALAR);
        x = y = before;
        fault.calls = 0, fault.at = at, fault.mode = SHRINK;
        const bool done = open_and_read();
        fault.mode = NONE;
        if (fault.calls < at) {
            ck_assert(done && is_right());
            break;
        }
        cut++;
        const char *message = ct_error_message(context);
        /* what is read is another file, and this one is not, or not any more */
        if (done) continue;
        ck_assert(x == before && y == before && ct_error(context) == CT_ERR_FORMAT);
        ck_assert_msg(strstr(message, path) && strstr(message, "byte"), "%s", message);
        ct_error_clear(context);
    }
    ck_assert_int_ge(cut, 4);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("token faults");
    TCase *faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, begin_files, end_files);
    tcase_add_test(faults, every_call_fails);
    tcase_add_test(faults, every_request_for_memory_fails);
    tcase_add_test(faults, interrupted_and_short);
    tcase_add_test(faults, cut_while_it_is_read);
    suite_add_tcase(suite, faults);
    return run_suite(suite);
}
