/* What the examples share; see common.h. Plain C. */
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
    char text[4096]; /* written at once, as several ranks may have one stderr */
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

_Noreturn void fail(int exit_code, const char *format, ...) {
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

void check(const ct_context *context, int exit_code) {
    if (!context) fail(EXIT_FAILED, "out of memory");
    if (ct_error(context) != CT_OK) fail(exit_code, "%s", ct_error_message(context));
}

/* ---- flags ---- */

flag flag_integer(const char *name, long long *value, double low, double high, const char *help) {
    return (flag){.kind = INTEGER,
                  .name = name,
                  .value = value,
                  .word = "N",
                  .help = help,
                  .low = low,
                  .high = high};
}

flag flag_real(const char *name, double *value, const char *word, double low, double high,
               const char *help) {
    return (flag){.kind = REAL,
                  .name = name,
                  .value = value,
                  .word = word,
                  .help = help,
                  .low = low,
                  .high = high};
}

flag flag_text(const char *name, const char **value, const char *word, const char *help) {
    return (flag){.kind = TEXT, .name = name, .value = value, .word = word, .help = help};
}

flag flag_switch(const char *name, long long *value, const char *help) {
    return (flag){.kind = SWITCH, .name = name, .value = value, .word = "(or --no-)", .help = help};
}

flag flag_choice(const char *name, long long *value, const char *words, const char *help) {
    return (flag){
        .kind = CHOICE, .name = name, .value = value, .word = "WORD", .words = words, .help = help};
}

flag flag_matmul(long long *value) {
    return flag_choice("matmul", value, "f32|bf16x6|bf16x3|bf16",
                       "how products may round; else CT_MATMUL says it, else f32");
}

int flag_word(const char *words, long long i, const char **word) {
    *word = words;
    for (; i > 1 && **word; i--) {
        *word += strcspn(*word, "|");
        *word += **word == '|';
    }
    return i == 1 ? (int)strcspn(*word, "|") : 0;
}

flag flag_heading(const char *help) { return (flag){.kind = HEADING, .help = help}; }

static void print_default(const flag *f) {
    if (f->kind == INTEGER) printf(" (%lld)", *(const long long *)f->value);
    if (f->kind == REAL) printf(" (%g)", *(const double *)f->value);
    if (f->kind == TEXT && *(const char **)f->value) printf(" (%s)", *(const char **)f->value);
    if (f->kind == CHOICE) {
        const char *word;
        int length = flag_word(f->words, *(const long long *)f->value, &word);
        if (length) printf(" (%.*s)", length, word);
    }
}

static _Noreturn void print_help(const flag *flags, int n, const char *usage) {
    printf("usage: %s %s\n", program, usage);
    for (int i = 0; i < n; i++) {
        const flag *f = &flags[i];
        if (f->kind == HEADING) {
            printf("\n%s:\n", f->help);
        } else {
            printf("  --%s %-*s  ", f->name, 18 - (int)strlen(f->name), f->word);
            if (f->kind == CHOICE) printf("%s: ", f->words);
            printf("%s", f->help);
            print_default(f);
            printf("\n");
        }
    }
    exit(fflush(stdout) ? EXIT_FAILED : 0);
}

/* Fails where the text is more than a number, or the number (read as `number`) out of range. */
static void check_number(const flag *f, const char *text, const char *end, double number) {
    const char *whole = f->kind == INTEGER ? "whole " : "";
    if (end == text || *end)
        fail(EXIT_USAGE, "--%s takes a %snumber, not '%s'", f->name, whole, text);
    if (errno == ERANGE || !(number >= f->low && number <= f->high))
        fail(EXIT_USAGE, "--%s must lie between %.10g and %.10g, not %s", f->name, f->low, f->high,
             text);
}

/* "f32, bf16x3 or bf16" for f32|bf16x3|bf16 */
static void list_words(const char *words, char *text, size_t size) {
    const char *word, *between = "";
    int length = 0;
    text[0] = 0;
    for (int i = 1; (length = flag_word(words, i, &word)) > 0; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%.*s", between, length, word);
        between = word[length] && strchr(word + length + 1, '|') ? ", " : " or ";
    }
}

static void set_choice(const flag *f, const char *text) {
    const char *word;
    int length = 0;
    for (int i = 1; (length = flag_word(f->words, i, &word)) > 0; i++) {
        if ((int)strlen(text) == length && !strncmp(text, word, (size_t)length)) {
            *(long long *)f->value = i;
            return;
        }
    }
    char words[200];
    list_words(f->words, words, sizeof words);
    fail(EXIT_USAGE, "--%s is %s, not '%s'", f->name, words, text);
}

static void set_flag(const flag *f, const char *text) {
    char *end = NULL;
    errno = 0;
    if (f->kind == INTEGER) {
        long long value = strtoll(text, &end, 10);
        check_number(f, text, end, (double)value);
        *(long long *)f->value = value;
    } else if (f->kind == REAL) {
        double value = strtod(text, &end);
        check_number(f, text, end, value);
        *(double *)f->value = value;
    } else if (f->kind == CHOICE) {
        set_choice(f, text);
    } else {
        *(const char **)f->value = text;
    }
}

/* The flag of that name, without its dashes; NULL if there is none. */
static const flag *find_flag(const flag *flags, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (flags[i].kind != HEADING && !strcmp(flags[i].name, name)) return &flags[i];
    return NULL;
}

enum { MOST_READ = 128 };
static const flag *were_read[MOST_READ]; /* each once */
static int n_read;

bool flag_was_read(const char *name) {
    for (int i = 0; i < n_read; i++)
        if (!strcmp(were_read[i]->name, name)) return true;
    return false;
}

static void note_read(const flag *f) {
    if (n_read < MOST_READ && !flag_was_read(f->name)) were_read[n_read++] = f;
}

/* Reads the flag argv[i], and its value; returns the index of the last argument that it took. */
static int read_flag(int argc, char **argv, int i, const flag *flags, int n) {
    const char *equals = strchr(argv[i], '=');
    int length = equals ? (int)(equals - argv[i]) : 31;
    char name[32]; /* what is cut short is no flag either */
    snprintf(name, sizeof name, "%.*s", length, argv[i]);

    bool dashes = !strncmp(name, "--", 2);
    const flag *f = dashes ? find_flag(flags, n, name + 2) : NULL;
    bool on = f != NULL;
    if (!f && !strncmp(name, "--no-", 5)) {
        f = find_flag(flags, n, name + 5);
        if (f && f->kind != SWITCH) f = NULL;
    }
    if (!f) fail(EXIT_USAGE, "unknown flag %s (--help lists them)", name);
    note_read(f);
    if (f->kind == SWITCH) {
        if (equals) fail(EXIT_USAGE, "%s takes no value", name);
        *(long long *)f->value = on;
        return i;
    }
    if (equals) {
        set_flag(f, equals + 1);
        return i;
    }
    if (i + 1 == argc) fail(EXIT_USAGE, "%s needs a value", name);
    set_flag(f, argv[i + 1]);
    return i + 1;
}

/* Bytes of a path's folder, with its separator; 0: it has none. */
static int folder_length(const char *path) {
    int length = (int)strlen(path);
    while (length > 0 && !system_is_separator(path[length - 1])) length--;
    return length;
}

int read_flags(int argc, char **argv, const flag *flags, int n, const char *usage) {
    system_begin(argc, argv);
    program = argv[0] + folder_length(argv[0]);
    int others = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) print_help(flags, n, usage);
        if (argv[i][0] == '-' && argv[i][1]) {
            i = read_flag(argc, argv, i, flags, n);
        } else {
            others++;
            argv[others] = argv[i];
        }
    }
    return others;
}

/* ---- input ---- */

static void append_byte(contents *t, int byte) {
    if (t->length == t->capacity) {
        t->capacity = 2 * t->capacity + 65536;
        unsigned char *larger = realloc(t->bytes, (size_t)t->capacity);
        if (!larger) fail(EXIT_FAILED, "out of memory");
        t->bytes = larger;
    }
    t->bytes[t->length] = (unsigned char)byte;
    t->length++;
}

static void append_file(contents *t, const char *path) {
    int64_t before = t->length;
    FILE *file = system_fopen(path, "rb");
    if (!file) fail(EXIT_USAGE, "cannot open %s: %s", path, strerror(errno));
    int byte = getc(file);
    while (byte != EOF) {
        append_byte(t, byte);
        byte = getc(file);
    }
    if (ferror(file)) fail(EXIT_USAGE, "cannot read %s: %s", path, strerror(errno));
    if (t->length == before) fail(EXIT_USAGE, "%s is empty", path);
    fclose(file);
}

contents read_files(int n, char **paths) {
    contents t = {0};
    for (int i = 0; i < n; i++) append_file(&t, paths[i]);
    return t;
}

/* ---- output ---- */

/* Fails where a file cannot be made: in a folder that is missing or not ours. */
static void check_writable(const char *path) {
    char folder[1024];
    snprintf(folder, sizeof folder, "%.*s.", folder_length(path), path);
    if (!system_may_write_in(folder))
        fail(EXIT_USAGE, "cannot write %s: %s", path, strerror(errno));
}

const char *output_path(const char *folder, const char *name) {
    static char paths[8][1024];
    static int used;
    char *path = paths[used % 8];
    used++;
    int length = 0;
    if (folder) {
        if (!system_make_folder(folder) && errno != EEXIST)
            fail(EXIT_USAGE, "cannot make the folder %s: %s", folder, strerror(errno));
        length = snprintf(path, sizeof *paths, "%s/%s", folder, name);
    } else {
        length = snprintf(path, sizeof *paths, "%s", name);
    }
    if (length >= (int)sizeof *paths) fail(EXIT_USAGE, "the path %s is too long", path);
    check_writable(path);
    return path;
}

bool colours(void) {
    const char *none = getenv("NO_COLOR");
    return system_is_terminal() && !(none && *none);
}

double now(void) { return system_seconds(); }

static void on_signal(int number) { stop = number; }

void catch_interrupts(void) { system_on_interrupt(on_signal, true); }

bool interrupted(void) { return stop != 0; }

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
    char line[400];
    int length =
        snprintf(line, sizeof line, "%*lld/%s  %s  %.*f %s  %d:%02d left", width, (long long)done,
                 total, text, rate < 100 ? 1 : 0, rate, p->unit, left / 60, left % 60);
    if (bar) draw_bar(line, length, (double)done / (double)p->total);
    else printf("step %s\n", line);
    fflush(stdout);
}

/* ---- pictures: the plot's corner is the origin, its margins lie at negative coordinates ---- */

static FILE *svg_begin(const char *path, int w, int h, const char *title, const char *x_label,
                       const char *y_label) {
    FILE *file = system_fopen(path, "wb");
    if (!file) fail(EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
    int width = w + 110, height = h + 120;
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-84 -58 %d %d\" ", width,
            height);
    fprintf(file, "width=\"%d\" height=\"%d\"\n", width, height);
    fprintf(file, " font-family=\"Helvetica, Arial, sans-serif\" font-size=\"14\" "
                  "text-anchor=\"middle\" fill=\"#333\">\n");
    fprintf(file, "<rect x=\"-84\" y=\"-58\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
    fprintf(file, "<text x=\"%d\" y=\"-24\" font-size=\"18\" font-weight=\"bold\">%s</text>\n",
            w / 2 - 29, title);
    fprintf(file, "<text x=\"%d\" y=\"%d\">%s</text>\n", w / 2, h + 48, x_label);
    fprintf(file, "<text transform=\"translate(-58 %d) rotate(-90)\">%s</text>\n", h / 2, y_label);
    return file;
}

static void svg_end(FILE *file, const char *path) {
    bool bad = fprintf(file, "</svg>\n") < 0 || fflush(file) || ferror(file);
    bool unclosed = fclose(file) != 0;
    if (bad || unclosed) fail(EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
}

/* A range, in steps of 1, 2 or 5 times a power of ten, and where it lies in the picture. */
typedef struct {
    double low, high, step, from, to;
} axis;

static axis make_axis(double low, double high, double from, double to) {
    if (!isfinite(high - low)) { /* no point at all */
        low = 0;
        high = 0;
    }
    if (!(high > low)) high = low + 1;
    double least = (high - low) / 8; /* eight steps or fewer */
    double ten = pow(10, floor(log10(least)));
    double step = ten;
    if (least / ten > 1) step = 2 * ten;
    if (least / ten > 2) step = 5 * ten;
    if (least / ten > 5) step = 10 * ten;
    return (axis){
        .low = step * floor(low / step + 1e-9),
        .high = step * ceil(high / step - 1e-9),
        .step = step,
        .from = from,
        .to = to,
    };
}

static double position(axis a, double value) {
    return a.from + (value - a.low) / (a.high - a.low) * (a.to - a.from);
}

static double x_of(const curve *c, int64_t i) { return c->x ? c->x[i] : (double)(i + 1); }

/* The mean of y[i] and half points to either side, fewer near the ends. */
static double running_mean(const curve *c, int64_t i, int64_t half) {
    int64_t reach = half;
    if (reach > i) reach = i;
    if (reach > c->n - 1 - i) reach = c->n - 1 - i;
    double sum = 0;
    for (int64_t j = i - reach; j <= i + reach; j++) sum += c->y[j];
    return sum / (double)(2 * reach + 1);
}

/* A line through the running means, at most two thousand of them. */
static void svg_line(FILE *file, const curve *c, axis x, axis y, int64_t half, const char *style) {
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-linejoin=\"round\" %s points=\"",
            c->colour, style);
    int64_t every = 1 + c->n / 1000;
    for (int64_t i = 0; i < c->n; i += every)
        fprintf(file, "%.1f,%.1f ", position(x, x_of(c, i)), position(y, running_mean(c, i, half)));
    fprintf(file, "\"/>\n");
}

static void svg_axes(FILE *file, axis x, axis y) {
    for (double v = y.low; v < y.high + y.step / 2; v += y.step) {
        double at = position(y, v);
        fprintf(file, "<path d=\"M0 %.1fh660\" stroke=\"#e4e4e4\"/>", at);
        fprintf(file, "<text x=\"-9\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n", at + 5, v);
    }
    for (double v = x.low; v < x.high + x.step / 2; v += x.step) {
        double at = position(x, v);
        fprintf(file, "<path d=\"M%.1f 330v6\" stroke=\"#333\"/>", at);
        fprintf(file, "<text x=\"%.1f\" y=\"354\">%.8g</text>\n", at, v);
    }
    fprintf(file, "<path d=\"M0 0v330h660\" fill=\"none\" stroke=\"#333\"/>\n");
}

static void svg_curve(FILE *file, const curve *c, axis x, axis y) {
    if (c->noisy) {
        svg_line(file, c, x, y, 0, "opacity=\"0.3\"");
        svg_line(file, c, x, y, c->n / 60, "stroke-width=\"2.2\"");
        return;
    }
    svg_line(file, c, x, y, 0, "stroke-width=\"2.2\"");
    for (int64_t i = 0; i < c->n; i++) {
        fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\"/>\n",
                position(x, x_of(c, i)), position(y, c->y[i]), c->colour);
    }
}

void plot_curves(const char *path, const char *title, const char *x_label, const char *y_label,
                 const curve *curves, int n) {
    double low = INFINITY, high = -INFINITY, last = 0;
    for (int k = 0; k < n; k++) {
        for (int64_t i = 0; i < curves[k].n; i++) {
            low = fmin(low, curves[k].y[i]);
            high = fmax(high, curves[k].y[i]);
            last = fmax(last, x_of(&curves[k], i));
        }
    }
    axis x = make_axis(0, last, 0, 660);
    axis y = make_axis(low, high, 330, 0);
    FILE *file = svg_begin(path, 660, 330, title, x_label, y_label);
    svg_axes(file, x, y);
    for (int k = 0; k < n; k++) {
        svg_curve(file, &curves[k], x, y);
        fprintf(file, "<path d=\"M500 %dh26\" stroke=\"%s\" stroke-width=\"3\"/>", 16 + 22 * k,
                curves[k].colour);
        fprintf(file, "<text x=\"534\" y=\"%d\" text-anchor=\"start\">%s</text>\n", 21 + 22 * k,
                curves[k].name);
    }
    svg_end(file, path);
}

enum { CELL = 44 };

static void svg_cell(FILE *file, int row, int column, double value) {
    double v = fmin(fmax(value, 0), 1);
    const char *ink = "#234";
    if (v < 0.005) ink = "#9ab";
    if (v > 0.4) ink = "#fff";
    int x = CELL * column, y = CELL * row;
    fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" ", x, y, CELL - 1, CELL - 1);
    fprintf(file, "fill=\"rgb(%.0f,%.0f,%.0f)\"/>", 244 - 236 * v, 247 - 190 * v, 251 - 130 * v);
    fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"12\" fill=\"%s\">%.2f</text>\n",
            x + CELL / 2, y + CELL / 2 + 4, ink, v);
}

void plot_map(const char *path, const map *m) {
    int width = CELL * m->n_columns, height = CELL * m->n_rows;
    FILE *file = svg_begin(path, width, height, m->title, m->x_label, m->y_label);
    for (int j = 0; j < m->n_columns; j++) {
        fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"16\">%s</text>\n", CELL * j + CELL / 2,
                height + 20, m->columns[j]);
    }
    for (int i = 0; i < m->n_rows; i++) {
        fprintf(file, "<text x=\"-10\" y=\"%d\" font-size=\"16\" text-anchor=\"end\">%s</text>\n",
                CELL * i + CELL / 2 + 5, m->rows[i]);
        for (int j = 0; j < m->n_columns; j++)
            svg_cell(file, i, j, m->values[i * m->n_columns + j]);
    }
    svg_end(file, path);
}
