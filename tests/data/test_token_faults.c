/* The n-th call into the system, or request for memory, fails while token files are opened and
 * read: an error says so, x and y stay what they were, nothing stays open, and the next batch is
 * right. */
#include "tests/support/io_faults.h"

enum { B = 3, T = 20, IDS = 5 * T + 1 };

static const char *paths[2];
static char second[160];
static ct_tensor *x, *y;

/* Writes ids of 2 bytes without a header, or ids of 8 bytes with NumPy's. */
static void put_ids(const char *name, int from, bool npy) {
    FILE *file = fopen(name, "wb");
    if (npy) {
        fwrite("\x93NUMPY\1\0\x38", 1, 10,
               file); /* the length, of which the higher byte is the NUL */
        fprintf(file, "%-56s", "{'descr':'<i8','fortran_order':False,'shape':(101,)}");
    }
    for (int i = 0; i < IDS; i++)
        for (int b = 0; b < (npy ? 8 : 2); b++) putc(b < 2 ? (from + i) >> 8 * b & 255 : 0, file);
    ck_assert_int_eq(fclose(file), 0);
}

static void begin_files(void) {
    setup();
    snprintf(second, sizeof second, "%s.second", path);
    paths[0] = path;
    paths[1] = second;
    put_ids(path, 0, false);
    put_ids(second, 1000, true);
}

static void end_files(void) {
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

static ct_scope scope;
static ct_tensor *before; /* x and y before a run */

static void begin_run(void *arg) {
    (void)arg;
    scope = ct_scope_open(context);
    x = y = before = ct_zeros(context, CT_F32, CT_SCALAR);
}
static bool run(void *arg) { return (void)arg, open_and_read(); }
static bool run_again(void *arg) {
    const bool done = run(arg) && is_right();
    ct_scope_close(scope);
    return done;
}

static void check_run(const fault_end *end, void *arg) {
    (void)arg;
    if (end->done) {
        /* a failure to close what was read is harmless */
        FAULT_CK(end, !end->struck || !strcmp(end->struck, "close"));
        FAULT_CK(end, is_right());
        return;
    }
    FAULT_CK(end, x == before && y == before);
    if (ct_error(context) == CT_ERR_MEMORY) return;
    FAULT_CK(end, strstr(end->message, path) && strstr(end->message, strerror(EIO)));
    FAULT_CK(end, strcmp(end->struck, "pread") != 0 || strstr(end->message, "byte "));
}

static void sweep(fault_kind kind, int64_t least) {
    fault_sweep(&(fault_case){.name = "tokens",
                              .kind = kind,
                              .context = &context,
                              .begin = begin_run,
                              .run = run,
                              .end = check_run,
                              .again = run_again,
                              .unchanged = open_files,
                              .least = least});
}

START_TEST(every_call_fails) { sweep(FAULT_CALL, 12); }
END_TEST
START_TEST(every_request_for_memory_fails) { sweep(FAULT_TAKE, 6); }
END_TEST

START_TEST(interrupted_and_short) {
    for (transfers = INTERRUPTED; transfers <= SHORT; transfers++) {
        ck_assert_msg(open_and_read(), "%s", ct_error_message(context));
        ck_assert(is_right());
    }
}
END_TEST

static void begin_cut(void *arg) {
    put_ids(path, 0, false);
    begin_run(arg);
}
static void check_cut(const fault_end *end, void *arg) {
    (void)arg;
    /* another file is read, and this one is not, or no longer */
    if (end->done) {
        FAULT_CK(end, end->struck || is_right());
    } else {
        FAULT_CK(end, x == before && y == before);
        FAULT_CK(end, strstr(end->message, path) && strstr(end->message, "byte"));
    }
    ct_scope_close(scope);
}

/* The first file is cut just before each of its reads. */
START_TEST(cut_while_it_is_read) {
    fault_sweep(&(fault_case){.name = "a file that is cut",
                              .kind = FAULT_SHRINK,
                              .status = CT_ERR_FORMAT,
                              .context = &context,
                              .begin = begin_cut,
                              .run = run,
                              .end = check_cut,
                              .least = 4,
                              .most = 30});
}
END_TEST

int main(void) {
    return run_tests("token faults", begin_files, end_files,
                     TESTS(TEST(every_call_fails), TEST(every_request_for_memory_fails),
                           TEST(interrupted_and_short), TEST(cut_while_it_is_read)));
}
