/* Code that programs and examples share; see common.h. It uses only standard C and system.h. */
#include "common.h"
#include "system.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *program = "example";
static char rank_text[32];         /* "rank 2: " */
static bool bar_shown;             /* the cursor stands behind a progress bar */
static volatile sig_atomic_t stop; /* Ctrl-C was pressed */

static void say(const char *format, va_list args) {
    char text[4096]; /* the whole message is written by one call, because several ranks may share
                        stderr */
    vsnprintf(text, sizeof text, format, args);
    progress_end();
    fflush(stdout);
    fprintf(stderr, "%s: %s%s\n", program, rank_text, text);
}

void speak_as(int rank, int ranks) {
    if (ranks > 1) snprintf(rank_text, sizeof rank_text, "rank %d: ", rank);
    if (rank > 0 && !freopen("/dev/null", "w", stdout))
        fail(EXIT_FAILED, "cannot open /dev/null: %s", strerror(errno));
}

/* A program that fails ends with what it holds, which is no leak. LeakSanitizer asks for this at
 * the exit, because the pointers of functions that do not return may stand nowhere any more. */
static bool failed;
CT_API int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return failed; }

_Noreturn void fail(int exit_code, const char *format, ...) {
    failed = true;
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    exit(exit_code);
}

void warn(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
}

const char *error_text(const char *message) {
    const size_t name = strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return name && !strncmp(message + name, ": ", 2) ? message + name + 2 : message;
}

void check(const ct_context *context, int exit_code) {
    if (!context) fail(EXIT_FAILED, "out of memory");
    if (ct_error(context) != CT_OK) fail(exit_code, "%s", error_text(ct_error_message(context)));
}

/* Runs at every exit of the program: removes a file that is not complete, and reports an error of
 * standard output. */
static void at_exit(void) {
    output_remove();
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return;
    fprintf(stderr, "%s: %scannot write to standard output%s%s\n", program, rank_text,
            errno ? ": " : "", errno ? strerror(errno) : "");
    _Exit(EXIT_FAILED);
}

const char *begin_program(int argc, char **argv) {
    system_begin(argc, argv);
    program = argv[0] + cti_os_folder_length(argv[0]);
    atexit(at_exit);
    return program;
}

/* ---- files ---- */

/* A file that the program reads or writes, or a folder with a series of outputs. */
typedef struct {
    char *path;
    bool written, known; /* known: the path leads to an ordinary file, or to a place for one */
    system_file file;
    bool (*fits)(const char *name); /* accepts a series' names; NULL: one file */
} named_file;

static named_file *named; /* [n_named] the files that the program has named so far */
static int n_named;

static bool is_in_series(const named_file *f, const named_file *series) {
    return series->fits && system_same_folder(&f->file, &series->file) &&
           series->fits(f->file.name);
}

/* Fails if the two files are the same file and one of them is an output. */
static void compare_files(const named_file *a, const named_file *b) {
    if (!a->known || !b->known || (!a->written && !b->written) || (a->fits && b->fits)) return;
    if (a->fits || b->fits) {
        const named_file *series = a->fits ? a : b, *f = a->fits ? b : a;
        if (is_in_series(f, series))
            fail(EXIT_USAGE, "%s has the name of a file that is written or removed in %s", f->path,
                 series->path);
        return;
    }
    if (!system_same_file(&a->file, &b->file)) return;
    if (a->written && b->written && !strcmp(a->path, b->path))
        fail(EXIT_USAGE, "%s would be written twice: name another file for one of the outputs",
             a->path);
    if (a->written && b->written)
        fail(EXIT_USAGE, "the outputs %s and %s are the same file", a->path, b->path);
    const named_file *out = a->written ? a : b, *in = a->written ? b : a;
    fail(EXIT_USAGE, "the output %s would replace an input: %s", out->path, in->path);
}

/* Adds a file and compares it with all others. Returns the copy of its path. */
static const char *name_file(const char *path, bool written, bool (*fits)(const char *name)) {
    named = room_for(named, (size_t)n_named + 1, sizeof *named);
    named_file *f = &named[n_named];
    const size_t size = strlen(path) + 1;
    *f = (named_file){.path = room_for(NULL, size, 1), .written = written, .fits = fits};
    memcpy(f->path, path, size);
    const bool standard = !written && !strcmp(path, "-");
    f->known = fits ? system_find_folder(path, &f->file)
                    : system_find_file(standard ? NULL : path, &f->file);
    for (int i = 0; i < n_named; i++) compare_files(&named[i], f);
    n_named++;
    return f->path;
}

void input_paths(int n, char **paths) {
    for (int i = 0; i < n; i++) name_file(paths[i], false, NULL);
}

static void make_folder(const char *folder) {
    if (!cti_os_make_folder(folder) && errno != EEXIST)
        fail(EXIT_USAGE, "cannot make the folder %s: %s", folder, strerror(errno));
}

void output_series(const char *folder, bool (*fits)(const char *name)) {
    make_folder(folder);
    name_file(folder, true, fits);
}

static void append_byte(contents *t, int byte) {
    if (t->length == t->capacity) {
        t->capacity = 2 * t->capacity + 65536;
        t->bytes = room_for(t->bytes, (size_t)t->capacity, 1);
    }
    t->bytes[t->length] = (unsigned char)byte;
    t->length++;
}

static void append_stream(contents *t, FILE *file) {
    for (int byte = getc(file); byte != EOF; byte = getc(file)) append_byte(t, byte);
}

contents read_standard_input(void) {
    contents t = {0};
    append_stream(&t, stdin);
    if (ferror(stdin)) fail(EXIT_USAGE, "cannot read standard input: %s", strerror(errno));
    return t;
}

static void append_file(contents *t, const char *path) {
    int64_t before = t->length;
    FILE *file = system_fopen(path, "rb");
    if (!file) fail(EXIT_USAGE, "cannot open %s: %s", path, strerror(errno));
    append_stream(t, file);
    if (ferror(file)) fail(EXIT_USAGE, "cannot read %s: %s", path, strerror(errno));
    if (t->length == before) fail(EXIT_USAGE, "%s is empty", path);
    fclose(file);
}

contents read_files(int n, char **paths) {
    contents t = {0};
    for (int i = 0; i < n; i++) append_file(&t, paths[i]);
    return t;
}

/* Fails if the file cannot be created: its folder does not exist or is not writable, or its path is
 * a folder. */
static void check_writable(const char *path) {
    char folder[1024 + 2];
    cti_os_about about;
    if (!*path) fail(EXIT_USAGE, "the name of an output is empty");
    if (cti_os_about_path(path, &about) && about.kind == CTI_OS_FOLDER)
        fail(EXIT_USAGE, "cannot write %s: %s", path, strerror(EISDIR));
    snprintf(folder, sizeof folder, "%.*s.", (int)cti_os_folder_length(path), path);
    if (!system_may_write_in(folder))
        fail(EXIT_USAGE, "cannot write %s: %s", path, strerror(errno));
}

const char *output_path(const char *folder, const char *name) {
    char path[1024];
    int length = 0;
    if (folder) {
        make_folder(folder);
        length = snprintf(path, sizeof path, "%s/%s", folder, name);
    } else {
        length = snprintf(path, sizeof path, "%s", name);
    }
    if (length >= (int)sizeof path) fail(EXIT_USAGE, "the path %s is too long", path);
    check_writable(path);
    return name_file(path, true, NULL);
}

static char unfinished[4096]; /* the path of the temporary file that is being written; "" if there
                                 is none */

void output_remove(void) {
    if (*unfinished) cti_os_remove(unfinished);
}

static _Noreturn void fail_to_write(const output *o) {
    fail(EXIT_FAILED, "cannot write %s: %s", o->path,
         strerror(errno)); /* exit removes the temporary file */
}

void output_begin(output *o, const char *path, bool only_ordinary) {
    *o = (output){.path = path};
    o->fd = system_create_beside(path, o->target, o->temporary, sizeof o->temporary);
    if (o->fd < 0 && (errno || only_ordinary))
        fail(EXIT_USAGE, "cannot write %s: %s", path,
             errno ? strerror(errno) : "it is not an ordinary file");
    if (o->fd < 0) *o->temporary = '\0';
    memcpy(unfinished, o->temporary, sizeof unfinished);
    o->file = o->fd < 0 ? system_fopen(path, "wb") : system_open_stream(o->fd, "wb");
    if (!o->file) fail_to_write(o);
}

void output_end(output *o) {
    if (ferror(o->file) || fflush(o->file)) fail_to_write(o);
    if (*o->temporary && !system_sync(o->fd)) fail_to_write(o);
    if (fclose(o->file)) fail_to_write(o);
    if (*o->temporary && !cti_os_rename(o->temporary, o->target)) fail_to_write(o);
    *unfinished = '\0';
}

/* ---- the terminal ---- */

bool colours(void) {
    const char *none = getenv("NO_COLOR");
    return system_is_terminal() && !(none && *none);
}

double now(void) { return 1e-9 * (double)cti_os_now(); }

static void on_signal(int number) { stop = number; }

void catch_interrupts(void) { system_on_interrupt(on_signal, true); }

static volatile sig_atomic_t input_ends; /* at the next signal */

static void on_each_signal(int number) {
    if (stop || number != SIGINT) system_die_of(number);
    stop = number;
    if (input_ends) system_end_input();
    system_on_interrupt(on_each_signal, false); /* Windows forgets a handler that it has called */
}

void catch_each_interrupt(bool ends_input) {
    input_ends = ends_input;
    system_on_interrupt(on_each_signal, false);
}

void interrupt_forget(void) { stop = 0; }

bool interrupted(void) { return stop != 0; }

int interrupt_exit(void) { return 128 + (stop ? stop : SIGINT); }

/* ---- progress ---- */

void progress_end(void) {
    if (bar_shown) printf("\n");
    bar_shown = false;
}

/* " ━━━━━━━━━━──────────  270/600  loss 0.0123  21.3 steps/s  0:12 left", over the one before */
static void draw_bar(const char *line, int length, double part) {
    int columns = system_columns();
    if (columns == 0) columns = 80;
    int width = columns - length - 5;
    if (width > 40) width = 40;
    int full = (int)(part * width);
    const char *bright = colours() ? "\033[36m" : "";
    const char *faint = colours() ? "\033[2;37m" : "";
    const char *plain = colours() ? "\033[0m" : "";
    printf("\r %s", bright);
    for (int i = 0; i < width; i++) {
        if (i == full) printf("%s", faint);
        printf("%s", i < full ? "━" : "─");
    }
    printf("%s%s%.*s\033[K", plain, width > 0 ? "  " : "", columns - 2, line);
    bar_shown = true;
}

void progress_show(progress *p, int64_t done, const char *format, ...) {
    const char *term = getenv("TERM");
    bool bar = system_is_terminal() && term && strcmp(term, "dumb");
    double time = now();
    if (done != p->first + 1 && done != p->total) {
        int64_t every = p->total < 20 ? 1 : p->total / 20;
        if (bar && time - p->drawn < 0.1) return;
        if (!bar && done % every) return;
    }
    p->drawn = time;

    char text[160];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);

    double steps_per_second = (double)(done - p->first) / (time - p->begun + 1e-9);
    double rate = steps_per_second * p->per_step;
    int left = (int)((double)(p->total - done) / steps_per_second);
    char total[24];
    int width = snprintf(total, sizeof total, "%lld", (long long)p->total);
    char line[400], speed[64] = "";
    if (p->unit) snprintf(speed, sizeof speed, "  %.*f %s", rate < 100 ? 1 : 0, rate, p->unit);
    int length = snprintf(line, sizeof line, "%*lld/%s  %s%s  %d:%02d left", width, (long long)done,
                          total, text, speed, left / 60, left % 60);
    if (bar) draw_bar(line, length, (double)done / (double)p->total);
    else printf("step %s\n", line);
    fflush(stdout);
}

bool loss_is_worse(double after, double before) {
    return !(after <= before + 1e-3 * fmax(1, fabs(before)));
}
