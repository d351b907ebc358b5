/* Messages: texts that are too long are shortened so that the cause is still in the message; all
 * else is printed as by printf. */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/stat.h>
#include <wchar.h>

#include "src/core/context.h"
#include "src/io/json.h"
#include "src/core/message.h"
#include "tests/support/files.h"
#include "tests/support/suite.h"

static char message[256], plain[8192];

__attribute__((format(printf, 1, 2))) static void print(const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    memset(message, 'x', sizeof message);
    cti_message(message, sizeof message, format, args);
    vsnprintf(plain, sizeof plain, format, again);
    va_end(again);
    va_end(args);
}

static char *repeated(const char *word, int times) {
    static char text[4][6000];
    static int turn;
    char *out = text[turn++ % 4];
    *out = 0;
    for (int i = 0; i < times; i++) strcat(out, word);
    return out;
}

/* Every conversion after a text that must be shortened is formatted as by printf. */
START_TEST(conversions) {
    const char *text = repeated("abcdefgh", 100);
    print("%s", "short");
    ck_assert_str_eq(message, "short");
#define SAME(format, ...)                                                                          \
    do {                                                                                           \
        print("%s|" format "|end", text, __VA_ARGS__);                                             \
        ck_assert_uint_eq(strlen(message), sizeof message - 1);                                    \
        ck_assert_msg(!strcmp(strchr(message, '|'), strchr(plain, '|')), "%s", message);           \
        ck_assert(!strncmp(message, "abcdefgh", 8) && strstr(message, "..."));                     \
    } while (0)
    SAME("%d %i %u %o %x %X %c", -1, INT32_MIN, UINT32_MAX, 8u, 255u, 255u, 'c');
    SAME("%hhd %hd %hhu %hu", (signed char)-3, (short)-4, (unsigned char)200,
         (unsigned short)60000);
    SAME("%ld %lld %jd %zd %td", -5L, -6LL, (intmax_t)-7, (ssize_t)-8, (ptrdiff_t)-9);
    SAME("%lu %llx %ju %zu %to", ULONG_MAX, ULLONG_MAX, UINTMAX_MAX, (size_t)SIZE_MAX,
         (ptrdiff_t)8);
    SAME("%g %e %f %a %G %E %F %A", 1.5, -2e300, 3.25, 4.5, NAN, 1e-9, -INFINITY, 0.1);
    SAME("%Lg %Lf", LDBL_MAX, 0.5L);
    SAME("%5d|%-5d|%05d|%+d|% d|%#x|%*d|%-*d", 1, 2, 3, 4, 5, 6u, 7, 8, 9, 10);
    SAME("%.3f|%8.3f|%.*f|%*.*f|%.f", 1.0 / 3, 2.0 / 3, 2, 0.125, 9, 1, 0.25, 1.5);
    SAME("%p|%%|%s|%8s|%-8s|%.2s|%.*s|%.*s", (void *)text, "text", "right", "left", "cut", 1, "cut",
         -1, "whole");
    SAME("%ls", L"wide");
    char open[3] = {'a', 'b', 'c'}; /* no NUL behind it */
    SAME("%.3s|%.*s", open, 2, open);
#undef SAME
}
END_TEST

/* A conversion that this file does not know: printed by printf, and cut off at the end. */
START_TEST(unknown_conversions) {
    const char *text = repeated("abcdefgh", 100);
#define CUT(format, ...)                                                                           \
    do {                                                                                           \
        print("%s|" format "|end", text, __VA_ARGS__);                                             \
        ck_assert_uint_eq(strlen(message), sizeof message - 1);                                    \
        ck_assert_msg(!strncmp(message, plain, sizeof message - 1), "%s", message);                \
    } while (0)
    CUT("%lc", (wint_t)'w');
    CUT("%C", (wint_t)'w');
#undef CUT
    print("%lc and %s|end", (wint_t)'w', "short"); /* a text that fits is printf's own */
    ck_assert_str_eq(message, "w and short|end");
}
END_TEST

/* The longest text is shortened, to its beginning and its end. */
START_TEST(the_longest_gives_way) {
    char *path = repeated("/folder", 200), *what = repeated("w", 60);
    print("op: %s: %s at byte %d", path, what, 7);
    char end[128];
    snprintf(end, sizeof end, "folder: %s at byte 7", what);
    ck_assert_uint_eq(strlen(message), sizeof message - 1);
    ck_assert_msg(!strncmp(message, "op: /folder/folder", 18), "%s", message);
    ck_assert_msg(strstr(message, end) != NULL, "%s", message);
    print("%s and %s: end", path, what = repeated("q", 5000)); /* both are long */
    ck_assert_msg(strstr(message, "folder and qqq") && strstr(message, "qqq: end"), "%s", message);
    /* a text bounded by a precision may still be too long */
    print("%.*s: %s: end", 4000, path, path);
    ck_assert_msg(strstr(message, "folder: /folder") && strstr(message, "folder: end"), "%s",
                  message);
}
END_TEST

/* At every length: no write past the buffer, and no UTF-8 character is cut. */
START_TEST(every_length) {
    for (int n = 0; n < 400; n++) {
        print("%.*s%s!", n % 7, "aaaaaaa",
              repeated(n % 2 ? "\xe2\x82\xac" : "\xf0\x9f\x98\x80", n));
        ck_assert_uint_lt(strlen(message), sizeof message);
        ck_assert_int_eq(message[strlen(message) - 1], '!');
        ck_assert_uint_eq(cti_json_utf8(message, strlen(message)), strlen(message));
        if (strlen(plain) < sizeof message) ck_assert_str_eq(message, plain);
    }
    char out[16];
    for (size_t most = 5; most < 15; most++)
        for (size_t length = 0; length < 30; length++) {
            memset(out, 'x', sizeof out);
            const size_t n = cti_text_shorten(out, most, repeated("abc", 10), length);
            ck_assert_uint_eq(n, length < most ? length : most);
            ck_assert_uint_eq(strlen(out), n);
            ck_assert(length <= most || strstr(out, "..."));
        }
}
END_TEST

/* Without a text to shorten, or if the rest does not fit, the message is cut off as by snprintf. */
START_TEST(nothing_to_shorten) {
    print("%300d%s", 1, repeated("a", 300));
    ck_assert_uint_eq(strlen(message), sizeof message - 1);
    ck_assert(!strncmp(message, plain, sizeof message - 1));
    print("%s%080d%080d%080d", repeated("a", 300), 1, 2, 3);
    ck_assert(strstr(message, "...") &&
              !strcmp(message + strlen(message) - 80, plain + strlen(plain) - 80));
}
END_TEST

/* ---- texts of callers ---- */

/* ENAMETOOLONG in the words of the C library: musl's (and WASI's) are others. */
#if defined __GLIBC__ || defined __APPLE__
#define TOO_LONG "File name too long"
#else
#define TOO_LONG "Filename too long"
#endif

static void ends_with(const char *begins, const char *ends) {
    const char *text = ct_error_message(context);
    ck_assert_uint_lt(strlen(text), CTI_MESSAGE_SIZE);
    ck_assert_msg(!strncmp(text, begins, strlen(begins)), "%s", text);
    ck_assert_msg(strlen(text) >= strlen(ends) && !strcmp(text + strlen(text) - strlen(ends), ends),
                  "%s", text);
    ct_error_clear(context);
}

static ct_module *two_module(void) {
    ct_module *module = ct_module_new(context, "Two");
    ct_module_add_param(module, "w", ct_zeros(context, CT_F32, CT_SHAPE(2)));
    return module;
}

/* Makes nested folders and returns a path of about `size` bytes to a file in the last. */
static char *deep_path(char *path, size_t size, bool make) {
    char name[201] = "";
    memset(name, 'd', 200);
    strcpy(path, folder);
    while (strlen(path) + 202 + 5 < size) {
        strcat(strcat(path, "/"), name);
        if (make) ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    return strcat(path, "/file");
}

static void remove_deep(char *path) {
    remove(path);
    for (char *slash; strlen(path) > strlen(folder) && (slash = strrchr(path, '/'));) {
        *slash = 0;
        if (strlen(path) > strlen(folder)) rmdir(path);
    }
}

START_TEST(long_paths) {
    static char path[8192];
    ct_module *module = two_module(), *other = ct_module_new(context, "Other");
    ct_module_add_param(other, "v", ct_zeros(context, CT_F32, CT_SHAPE(3)));
    ct_optim *optim = ct_sgd_new(module, (ct_sgd_opts){0});
    ct_checkpoint checkpoint = {.module = module, .optim = optim};
#ifdef __APPLE__
    enum { LONGEST = 900 }; /* of 1024 that the system allows */
#else
    enum { LONGEST = 3600 };
#endif
    for (int size = 900; size <= LONGEST; size += 300) {
        deep_path(path, (size_t)size, true);
        ck_assert(!ct_load(module, path, (ct_load_opts){0}));
        ends_with("load: /tmp/cotangent-io-", "dd/file: cannot open: No such file or directory");
        ck_assert_msg(ct_save(module, path, (ct_save_opts){0}), "%s", ct_error_message(context));
        ck_assert(!ct_load(other, path, (ct_load_opts){0}));
        ends_with("load: /tmp/cotangent-io-", "dd/file: missing: v; unexpected: w");
        ck_assert(!ct_checkpoint_load(path, &checkpoint));
        ends_with("checkpoint_load: /tmp/",
                  "dd/file: metadata \"format\" is not \"cotangent checkpoint 1\"");
        ck_assert(!ct_load_metadata(context, path, "key", path + 8000, 8));
        ends_with("load_metadata: /tmp/", "dd/file: no metadata key \"key\"");
        ck_assert(
            !ct_save(module, path, (ct_save_opts){.metadata = (const char *const[]){"a", NULL}}));
        ends_with("save: /tmp/", "dd/file: a metadata key without a value");
        FILE *file = fopen(path, "wb");
        fwrite("\x02\0\0\0\0\0\0\0[]", 1, 10, file);
        fclose(file);
        ck_assert(!ct_load(module, path, (ct_load_opts){0}));
        ends_with("load: /tmp/",
                  "dd/file: is not a safetensors file: header: '{' is expected at byte 8");
        remove_deep(path);
    }
}
END_TEST

START_TEST(too_long_paths) {
    static char path[8192];
    ct_module *module = two_module();
    ct_optim *optim = ct_sgd_new(module, (ct_sgd_opts){0});
    ct_checkpoint checkpoint = {.module = module, .optim = optim};
    deep_path(path, 5000, false); /* longer than the system allows */
    ck_assert(!ct_load(module, path, (ct_load_opts){0}));
    ends_with("load: /tmp/cotangent-io-", "dd/file: cannot look for it: " TOO_LONG);
    ck_assert(!ct_save(module, path, (ct_save_opts){0}));
    ends_with("save: /tmp/cotangent-io-", "dd/file: cannot write: " TOO_LONG);
    ck_assert(!ct_checkpoint_save(path, &checkpoint));
    ends_with("checkpoint_save: /tmp/cotangent-io-", "dd/file: cannot write: " TOO_LONG);
}
END_TEST

/* Mismatches are counted even if the path is long. */
START_TEST(long_path_and_long_report) {
    static char path[8192];
    ct_module *module = ct_module_new(context, "Many");
    char name[24];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "parameter%03d", i);
        ct_module_add_param(module, name, ct_zeros(context, CT_F32, CT_SHAPE(1)));
    }
    ct_module_add_param(module, "z", ct_zeros(context, CT_F32, CT_SHAPE(1)));
    for (int size = 100; size < 1600; size += 250) {
        deep_path(path, (size_t)size, true);
        ck_assert(ct_save(two_module(), path, (ct_save_opts){0}) &&
                  !ct_load(module, path, (ct_load_opts){0}));
        int named = 0, more = 0;
        const char *text = ct_error_message(context);
        for (const char *c = text; (c = strstr(c, "parameter")); c++) named++;
        const char *end = strstr(text, "; and ");
        ck_assert_msg(end && sscanf(end, "; and %d more", &more) == 1, "%s", text);
        ck_assert_int_eq(named + more, 301 + 1);
        ck_assert_int_gt(named, 30);
        ck_assert_ptr_null(strstr(text, ", z")); /* would fit, but comes after one that does not */
        ends_with("load: /tmp/cotangent-io-", " more");
        remove_deep(path);
    }
}
END_TEST

static ct_tensor *fails(ct_call *call) {
    return ct_fail(call->context, CT_ERR_ARGUMENT, "%s: no such thing", call->op->name);
}

static ct_tensor *copies(ct_call *call) { return ct_add_scalar(call->in[0], 0); }
static bool refuses(const ct_call *call, ct_tensor *const *cotangent, ct_tensor **grad) {
    (void)cotangent, (void)grad;
    return ct_fail(call->context, CT_ERR_ARGUMENT, "%s: no derivative here", call->op->name);
}
static ct_tensor *apply(ct_tensor *const *in, int n, void *op) { return ct_apply(op, in, n, NULL); }

/* The diagnosis of a failed backward has the reason, however long the op's name is. */
START_TEST(long_name_in_a_diagnosis) {
    ct_op op = {.name = repeated("name", 1000), .forward = copies, .backward = refuses};
    ct_tensor *x = ct_ones(context, CT_F64, CT_SHAPE(2));
    const ct_gradcheck_result result = ct_gradcheck(apply, &op, &x, 1, (ct_gradcheck_opts){0});
    ck_assert_int_eq(result.mistake, CT_MISTAKE_REFUSED);
    ck_assert_msg(strstr(result.diagnosis, "name: no derivative here") != NULL, "%s",
                  result.diagnosis);
}
END_TEST

START_TEST(long_names) {
    char *name = repeated("name", 1000);
    ct_module *module = two_module();
    ck_assert(!ct_module_get(module, name));
    ends_with("Two: no parameter \"name", "name\"");
    ck_assert(!ct_module_child(module, name));
    ends_with("Two: no child \"name", "name\"");
    ct_module_add_param(module, name, ct_zeros(context, CT_F32, CT_SHAPE(2)));
    ends_with("Two: a full name with \"name", "takes 4000 bytes, more than 255");
    ct_module_add_param(module, name, NULL);
    ends_with("Two: the parameter \"name", "name\" is NULL");
    ct_module *long_module = ct_module_new(context, name);
    ck_assert(!ct_module_get(long_module, "w"));
    ends_with("name", ": no parameter \"w\"");
    const char *path = in_folder("file");
    ck_assert(
        !ct_save(module, path,
                 (ct_save_opts){.metadata = (const char *const[]){name, "1", name, "2", NULL}}));
    ends_with("save: ", "name...\" is there twice");
    ck_assert(ct_save(module, path, (ct_save_opts){0}) &&
              !ct_load_metadata(context, path, name, name + 3990, 8));
    ends_with("load_metadata: ", "name...\"");
    const ct_op op = {.name = name, .forward = fails};
    ct_tensor *x = ct_zeros(context, CT_F32, CT_SHAPE(2));
    ck_assert(!ct_apply(&op, &x, 1, NULL));
    ends_with("name", "name: no such thing");
    ck_assert(!ct_apply(&op, (ct_tensor *[]){x, NULL}, 2, NULL));
    ends_with("name", "name: input 1 is NULL");
    ct_context *wrong = ct_context_new((ct_context_opts){.isa = name});
    const char *text = ct_error_message(wrong);
    ck_assert_msg(
        strstr(text, "name is not in this build or not on this machine; the build has ") != NULL,
        "%s", text);
    ct_context_free(wrong);
}
END_TEST

/* Nothing that a terminal obeys, and no ill-formed byte, whatever an argument has and at every
 * length; the rest of the message stays. */
START_TEST(controls_are_escaped) {
    print("%s: \"%s\" at %d%%", "op", "\x1b[31mred\n\t\x7f\xc2\x9b\xc2\xa0", 7);
    ck_assert_str_eq(message, "op: \"\\u001b[31mred\\u000a\\u0009\\u007f\\u009b\xc2\xa0\" at 7%");
    print("%s %.*s|%c%c|%-3s|", "\xff\xc3\xa9\xed\xa0\x80\xf4\x90", 2, "\xe2\x82\xac", '\a', 'b',
          "c");
    ck_assert_str_eq(message, "\\xff\xc3\xa9\\xed\\xa0\\x80\\xf4\\x90 \\xe2\\x82|\\u0007b|c  |");
    print("%s", repeated(message, 1)); /* an escaped text is not escaped again */
    ck_assert_ptr_nonnull(strstr(message, "\\xff\xc3"));
    for (int n = 0; n < 200; n++) {
        print("%s: %s: the reason", repeated("\x01/a", n), repeated("\x80", 200 - n));
        ck_assert_uint_eq(cti_json_utf8(message, strlen(message)), strlen(message));
        for (const char *c = message; *c; c++) ck_assert_int_ge(*c, ' ');
        ck_assert_ptr_nonnull(strstr(message, ": the reason"));
    }
    print("%lc\x1b%s", (wint_t)'w', "\r"); /* a conversion that this file does not know */
    ck_assert_str_eq(message, "w??");
}
END_TEST

int main(void) {
    return run_cases("message",
                     CASES({.name = "formats",
                            .tests = TESTS(TEST(conversions), TEST(unknown_conversions),
                                           TEST(the_longest_gives_way), TEST(every_length),
                                           TEST(nothing_to_shorten), TEST(controls_are_escaped))},
                           {.name = "texts of callers",
                            .before = setup,
                            .after = teardown,
                            .tests = TESTS(TEST(long_paths), TEST(long_path_and_long_report),
                                           TEST(long_names), TEST(long_name_in_a_diagnosis))},
                           {.name = "longer than POSIX systems allow",
                            .tags = "posix",
                            .before = setup,
                            .after = teardown,
                            .tests = TESTS(TEST(too_long_paths))}));
}
