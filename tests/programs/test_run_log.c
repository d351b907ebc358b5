/* The log of a run: lines are read back to the same bits, an invalid line is refused with file and
 * line number, and a run that resumes removes the lines after its checkpoint. */
#include "tests/support/suite.h"
#include <cotangent/cotangent.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "programs/run_log.h"
#include "programs/system.h"

static char folder[64], path[128];
static run_log the_log;

static void setup(void) {
    strcpy(folder, "/tmp/cotangent-log-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/run.jsonl", folder);
    the_log.fd = -1;
}

static void teardown(void) {
    run_log_close(&the_log);
    remove(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void put(const char *text, size_t size) {
    FILE *file = fopen(path, "wb");
    ck_assert(file && fwrite(text, 1, size, file) == size && fclose(file) == 0);
}

static size_t get(char *text, size_t room) {
    FILE *file = fopen(path, "rb");
    const size_t size = fread(text, 1, room - 1, file);
    fclose(file);
    text[size] = 0;
    return size;
}

static bool same_bits(double a, double b) {
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* ---- lines ---- */

START_TEST(lines_read_back) {
    static const double numbers[] = {0.1,     1.0 / 3,  0,         -0.0, DBL_MAX,  -DBL_MAX,
                                     DBL_MIN, 4.9e-324, 1e15,      1e16, 1e17 + 2, 123456789.125,
                                     NAN,     INFINITY, -INFINITY, 5e-5, 2.5,      1e300};
    enum { N = sizeof numbers / sizeof *numbers };
    for (int i = 0; i < 4 * N; i++) {
        log_line line = {.step = i % 3 ? i : INT64_MAX, .peak_bytes = i % 5 ? i : INT64_MAX};
        double *fields[] = {&line.loss,      &line.validation,   &line.lr,
                            &line.grad_norm, &line.tokens_per_s, &line.seconds};
        for (int k = 0; k < 6; k++) {
            const double x = numbers[(i + 5 * k) % N];
            *fields[k] = i < N ? x : nextafter(x, i < 2 * N ? 0 : 1e308);
        }
        char text[LOG_LINE];
        const int length = log_line_print(&line, text);
        ck_assert(length == (int)strlen(text) && text[length - 1] == '\n' &&
                  length < LOG_LINE / 2 + 150);
        ck_assert(!strstr(text, "nan") && !strstr(text, "inf"));
        text[length - 1] = 0;
        log_line read;
        const char *fault;
        ck_assert_msg(log_line_parse(text, &read, &fault), "%s: %s", text, fault);
        const double *again[] = {&read.loss,      &read.validation,   &read.lr,
                                 &read.grad_norm, &read.tokens_per_s, &read.seconds};
        ck_assert(read.step == line.step && read.peak_bytes == line.peak_bytes);
        for (int k = 0; k < 6; k++)
            ck_assert_msg(same_bits(*again[k], isfinite(*fields[k]) ? *fields[k] : NAN), "%s",
                          text);
    }
}
END_TEST

#define LINE(step)                                                                                 \
    "{\"step\":" step ",\"loss\":1.5,\"validation\":null,\"lr\":0.1,\"grad_norm\":2,"              \
    "\"tokens_per_s\":3,\"peak_bytes\":4,\"seconds\":5}"
#define REST                                                                                       \
    "\"validation\":null,\"lr\":0.1,\"grad_norm\":2,\"tokens_per_s\":3,\"peak_bytes\":4,"          \
    "\"seconds\":5}"

static const struct {
    const char *text, *says; /* NULL: it is a line */
} lines[] = {
    {LINE("1"), NULL},
    {" { \"loss\" : -1.5e+3 , \"step\" : 1 , " REST " \r", NULL},
    {"{\"loss\":0.0,\"step\":0," REST, NULL},
    {"", "'{' is expected"},
    {"[]", "'{' is expected"},
    {"{}", "a key that is no log's"},
    {"{\"step\":1}", "a key is missing"},
    {"{\"step\":1,\"step\":1," REST, "a key is there twice"},
    {"{\"step\":1,\"lost\":1," REST, "a key that is no log's"},
    {"{\"step\":1,\"loss\" 1," REST, "':' is expected"},
    {"{\"step\":1,\"loss\":1 " REST, "',' or '}' is expected"},
    {"{\"step\":1,\"loss\":1," REST "}", "something is behind '}'"},
    {"{\"step\":1,\"loss\":1," REST " x", "something is behind '}'"},
    {"{\"step\":null,\"loss\":1," REST, "a value is no whole number"},
    {"{\"step\":-1,\"loss\":1," REST, "a value is no whole number"},
    {"{\"step\":1.0,\"loss\":1," REST, "a value is no whole number"},
    {"{\"step\":1e3,\"loss\":1," REST, "a value is no whole number"},
    {"{\"step\":9223372036854775808,\"loss\":1," REST, "a value is no whole number"},
    {"{\"step\":1,\"loss\":nan," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":inf," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":0x1p3," REST, "',' or '}' is expected"},
    {"{\"step\":1,\"loss\":01," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":1.," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":.5," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":+1," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":1e," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":1e999," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":\"1\"," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":true," REST, "a value is no number"},
    {"{\"step\":1,\"loss\":nul", "a value is no number"},
    {"{\"step\":1,\"loss\":1,", "a key that is no log's"},
    {"{\"step", "a key that is no log's"},
};

START_TEST(what_is_no_line) {
    log_line line;
    const char *fault = NULL;
    const bool is_line = log_line_parse(lines[_i].text, &line, &fault);
    ck_assert_msg(is_line == !lines[_i].says, "%s: %s", lines[_i].text, fault ? fault : "taken");
    if (!is_line) ck_assert_str_eq(fault, lines[_i].says);
}
END_TEST

/* ---- files ---- */

static int64_t taken;
static void take(void *to, const log_line *line) {
    ck_assert(to == folder && line->step == ++taken && line->loss == 1.5);
}

static bool resume(int64_t steps) {
    taken = 0;
    return run_log_open(&the_log, path) && run_log_resume(&the_log, steps, take, folder);
}

#define THREE LINE("1") "\n" LINE("2") "\n" LINE("3") "\n"

/* Everything behind the step is cut, and the next line follows. */
START_TEST(cut_and_gone_on) {
    static const char *const behind[] = {
        "",   "{\"step\":4,\"lo",       LINE("4") "\n", LINE("4") "\n" LINE("5") "\n" LINE("6"),
        "\n", "hello\n" LINE("4") "\n", LINE("4")};
    char text[4096];
    for (int steps = 0; steps <= 3; steps++)
        for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
            snprintf(text, sizeof text, "%s%s", THREE, behind[i]);
            put(text, strlen(text));
            ck_assert_msg(resume(steps), "%s", the_log.fault);
            ck_assert_int_eq(taken, steps);
            const log_line next = {.step = steps + 1, .loss = NAN};
            ck_assert(run_log_append(&the_log, &next) && run_log_sync(&the_log));
            run_log_close(&the_log);
            char expected[2048], line[LOG_LINE];
            log_line_print(&next, line);
            snprintf(expected, sizeof expected, "%.*s%s", steps * (int)strlen(LINE("1") "\n"),
                     THREE, line);
            get(text, sizeof text);
            ck_assert_str_eq(text, expected);
        }
}
END_TEST

/* A log that lacks steps, or has others: the fault has the line, and nothing is written. */
START_TEST(another_log) {
    static const struct {
        const char *text;
        size_t size; /* 0: up to its NUL */
        const char *says;
    } wrong[] = {
        {"", 0, ":1: the line of step 1 is missing, but the checkpoint is of step 4"},
        {THREE, 0, ":4: the line of step 4 is missing, but the checkpoint is of step 4"},
        {THREE "{\"step\":4,", 0, ":4: the line of step 4 is torn"},
        {THREE LINE("4"), 0, ":4: the line of step 4 is torn"},
        {THREE LINE("5") "\n", 0, ":4: is of step 5, where step 4 belongs"},
        {THREE LINE("3") "\n", 0, ":4: is of step 3, where step 4 belongs"},
        {LINE("1") "\n\n" LINE("2") "\n", 0, ":2: is no line of a log: '{' is expected"},
        {LINE("1") "\nhello\n", 0, ":2: is no line of a log: '{' is expected"},
        {LINE("1") "\n\0\n", sizeof(LINE("1") "\n\0\n") - 1, ":2: is no line of a log: a NUL"},
    };
    char now[4096];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const size_t size = wrong[i].size ? wrong[i].size : strlen(wrong[i].text);
        put(wrong[i].text, size);
        ck_assert(!resume(4));
        ck_assert_msg(!strncmp(the_log.fault, path, strlen(path)) &&
                          strstr(the_log.fault, wrong[i].says),
                      "%s, not %s", the_log.fault, wrong[i].says);
        run_log_close(&the_log);
        ck_assert(get(now, sizeof now) == size && !memcmp(now, wrong[i].text, size));
    }
    char text[2 * LOG_LINE];
    memset(text, ' ', sizeof text);
    put(text, sizeof text);
    ck_assert(!resume(1) && strstr(the_log.fault, ":1: is no line of a log: it is too long"));
}
END_TEST

/* Longer than one read. */
START_TEST(many_lines) {
    enum { N = 3000 };
    FILE *file = fopen(path, "wb");
    for (int i = 1; i <= N; i++) {
        char text[LOG_LINE];
        log_line_print(&(log_line){.step = i, .loss = 1.5, .lr = 1.0 / i}, text);
        fputs(text, file);
    }
    fclose(file);
    for (int steps = N; steps > 0; steps -= 271) {
        ck_assert_msg(resume(steps), "%s", the_log.fault);
        ck_assert_int_eq(taken, steps);
        run_log_close(&the_log);
    }
    ck_assert(!resume(N));
}
END_TEST

START_TEST(a_new_run) {
    ck_assert(run_log_open(&the_log, path) && run_log_is_new(&the_log));
    ck_assert(run_log_append(&the_log, &(log_line){.step = 1}));
    run_log_close(&the_log);
    ck_assert(run_log_open(&the_log, path) && !run_log_is_new(&the_log));
    ck_assert_msg(strstr(the_log.fault, "is not written over"), "%s", the_log.fault);
    run_log_close(&the_log);
    ck_assert(!run_log_open(&the_log, folder) && strstr(the_log.fault, "Is a directory"));
}
END_TEST

START_TEST(what_is_no_file) {
    ck_assert(!run_log_open(&the_log, "/dev/null/log") && strstr(the_log.fault, "Not a directory"));
    /* a run that begins can write to a device or pipe */
    ck_assert_msg(run_log_open(&the_log, "/dev/null"), "%s", the_log.fault);
    ck_assert(run_log_is_new(&the_log) && run_log_append(&the_log, &(log_line){.step = 1}) &&
              run_log_sync(&the_log));
    ck_assert(!run_log_resume(&the_log, 0, take, folder) &&
              strstr(the_log.fault, "is no ordinary file"));
    run_log_close(&the_log);
    if (access("/dev/full", W_OK)) return;
    ck_assert(run_log_open(&the_log, "/dev/full"));
    ck_assert(!run_log_append(&the_log, &(log_line){.step = 1}) &&
              strstr(the_log.fault, "/dev/full: cannot write the log: No space left"));
}
END_TEST

/* Two runs do not write one log. */
START_TEST(locked) {
    ck_assert(run_log_open(&the_log, path));
    const pid_t child = fork();
    if (child == 0) {
        run_log other;
        _exit(run_log_open(&other, path) ? 1
                                         : !strstr(other.fault, "another run is writing this log"));
    }
    int status = 1;
    ck_assert(waitpid(child, &status, 0) == child && status == 0);
}
END_TEST

/* ---- what differs between systems ---- */

static bool is_there(const char *file) {
    FILE *found = system_fopen(file, "rb");
    if (found) fclose(found);
    return found != NULL;
}

/* A program that is stopped removes its temporary file, which is still open. If it could not, a
 * later program with the same process number takes another name. */
START_TEST(a_file_beside) {
    char target[256], left[256], name[256];
    const int other = system_create_beside(path, target, left, sizeof left),
              fd = system_create_beside(path, target, name, sizeof name);
    ck_assert_msg(other >= 0 && fd >= 0, "%s", strerror(errno));
    ck_assert_str_ne(left, name);
    ck_assert_int_eq(cti_os_write(fd, "x", 1), 1);
    ck_assert_msg(cti_os_remove(name), "%s", strerror(errno));
    cti_os_close(fd);
    cti_os_close(other);
    ck_assert(!is_there(name) && is_there(left) && cti_os_rename(left, target));
    ck_assert(is_there(path) && !is_there(left));
}
END_TEST

static void see(void *to, const char *name) { *(bool *)to |= strcmp(name, "run.jsonl") == 0; }

START_TEST(folders) {
    ck_assert(system_may_write_in(folder));
    char none[128];
    snprintf(none, sizeof none, "%s/none", folder);
    ck_assert(!system_may_write_in(none) && errno == ENOENT);
    /* a program that has locked a folder lists it, and writes, renames and removes in it */
    const int lock = system_lock_folder(folder);
    put("x", 1);
    bool found = false;
    ck_assert_msg(lock >= 0 && system_list(folder, see, &found), "%s", strerror(errno));
    ck_assert(found && system_may_write_in(folder));
    char other[128];
    snprintf(other, sizeof other, "%s/other", folder);
    ck_assert_msg(cti_os_rename(path, other), "%s", strerror(errno));
    ck_assert_msg(cti_os_remove(other), "%s", strerror(errno));
    cti_os_close(lock);
    ck_assert(!system_list(none, see, &found) && errno == ENOENT);
}
END_TEST

/* Two paths lead to one file, whether it is there or not, or to two. */
START_TEST(same_files) {
    static const char *const spellings[] = {"%s/%s", "%s/./%s", "%s/../%s/%s", "%s/x/../%s"};
    const char *last = strrchr(folder, '/') + 1;
    char other[256], x[128];
    system_file a, b;
    snprintf(x, sizeof x, "%s/x", folder);
    ck_assert(cti_os_make_folder(x));
    for (int there = 0; there < 2; there++) {
        const char *name = there ? "run.jsonl" : "later";
        snprintf(other, sizeof other, "%s/%s", folder, name);
        if (there) put("x", 1);
        ck_assert(system_find_file(other, &a) && a.exists == (there == 1));
        for (int i = 0; i < 4; i++) {
            if (i == 2) snprintf(other, sizeof other, spellings[i], folder, last, name);
            else snprintf(other, sizeof other, spellings[i], folder, name);
            ck_assert_msg(system_find_file(other, &b) && system_same_file(&a, &b), "%s", other);
            ck_assert(system_same_folder(&a, &b));
        }
        snprintf(other, sizeof other, "%s/x/%s", folder, name);
        ck_assert(system_find_file(other, &b) && !system_same_file(&a, &b));
        snprintf(other, sizeof other, "%s/%s2", folder, name);
        ck_assert(system_find_file(other, &b) && !system_same_file(&a, &b));
        ck_assert(system_same_folder(&a, &b));
    }
    ck_assert(!system_find_file(folder, &a)); /* no ordinary file */
    ck_assert(system_find_folder(folder, &a) && system_same_folder(&a, &b));
    snprintf(other, sizeof other, "%s/none/file", folder);
    ck_assert(!system_find_file(other, &a) && !system_find_folder(other, &b));
    ck_assert_int_eq(rmdir(x), 0);
}
END_TEST

/* Beyond the 260 characters that old programs of Windows are held to. */
START_TEST(long_paths) {
    enum { FOLDERS = 5 };
    char deep[512], file[600], target[600], name[600];
    size_t length = (size_t)snprintf(deep, sizeof deep, "%s", folder), ends[FOLDERS];
    for (int i = 0; i < FOLDERS; i++) {
        ends[i] = length;
        length += (size_t)snprintf(deep + length, sizeof deep - length, "/%060d", i);
        ck_assert_msg(cti_os_make_folder(deep), "%s: %s", deep, strerror(errno));
    }
    ck_assert(system_may_write_in(deep));
    snprintf(file, sizeof file, "%s/file", deep);
    const int fd = system_create_beside(file, target, name, sizeof name);
    ck_assert_msg(fd >= 0, "%s", strerror(errno));
    cti_os_close(fd);
    ck_assert(cti_os_rename(name, target) && is_there(file));
    ck_assert(cti_os_remove(file));
    for (int i = FOLDERS; i-- > 0; deep[ends[i]] = 0) ck_assert_int_eq(rmdir(deep), 0);
}
END_TEST

int main(void) {
    return run_cases(
        "run log",
        CASES({.name = "logs",
               .before = setup,
               .after = teardown,
               .tests = TESTS(
                   TEST(lines_read_back), LOOP(what_is_no_line, sizeof lines / sizeof *lines),
                   TEST(cut_and_gone_on), TEST(another_log), TEST(many_lines), TEST(a_new_run))},
              {.name = "systems",
               .before = setup,
               .after = teardown,
               .tests =
                   TESTS(TEST(a_file_beside), TEST(folders), TEST(same_files), TEST(long_paths))},
              {.name = "locks",
               .tags = "forks",
               .before = setup,
               .after = teardown,
               .tests = TESTS(TEST(locked))},
              {.name = "what is no file",
               .tags = "posix",
               .before = setup,
               .after = teardown,
               .tests = TESTS(TEST(what_is_no_file))}));
}
