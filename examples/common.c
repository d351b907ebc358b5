/* What the examples share; see common.h. Plain C and POSIX. */
#include "common.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *program = "example";
static bool bar_shown;             /* the cursor stands behind a progress bar */
static volatile sig_atomic_t stop; /* Ctrl-C was pressed */

_Noreturn void fail(int exit_code, const char *format, ...) {
    progress_end();
    fflush(stdout);
    fprintf(stderr, "%s: ", program);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(exit_code);
}

void check(const ct_context *context, int exit_code) {
    if (!context) fail(EXIT_FAILED, "out of memory");
    if (ct_error(context) != CT_OK) fail(exit_code, "%s", ct_error_message(context));
}

/* ---- flags ---- */

static void print_help(const flag *flags, int n, const char *usage) {
    printf("usage: %s %s\n", program, usage);
    for (const flag *f = flags; f < flags + n; f++) {
        if (f->kind == HEADING) printf("\n%s:", f->help);
        else printf("  --%s %-*s  %s", f->name, 18 - (int)strlen(f->name), f->kind == SWITCH ? "(or --no-)" : f->word, f->help);
        if (f->kind == INTEGER) printf(" (%lld)", *(long long *)f->value);
        if (f->kind == REAL) printf(" (%g)", *(double *)f->value);
        if (f->kind == TEXT && *(const char **)f->value) printf(" (%s)", *(const char **)f->value);
        printf("\n");
    }
    exit(fflush(stdout) ? EXIT_FAILED : 0);
}

static void set_flag(const flag *f, const char *text) {
    if (f->kind == TEXT) *(const char **)f->value = text;
    if (f->kind == TEXT) return;
    char *end = NULL;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    double number = f->kind == REAL ? strtod(text, &end) : (double)whole;
    if (end == text || *end) fail(EXIT_USAGE, "--%s takes a %snumber, not '%s'", f->name, f->kind == REAL ? "" : "whole ", text);
    if (errno == ERANGE || !(number >= f->low && number <= f->high))
        fail(EXIT_USAGE, "--%s must lie between %.10g and %.10g, not %s", f->name, f->low, f->high, text);
    if (f->kind == REAL) *(double *)f->value = number;
    else *(long long *)f->value = whole;
}

int read_flags(int argc, char **argv, const flag *flags, int n, const char *usage) {
    int others = 0;
    program = strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) print_help(flags, n, usage);
        if (argv[i][0] != '-' || !argv[i][1]) {
            argv[1 + others++] = argv[i];
            continue;
        }
        const char *text = strchr(argv[i], '=');
        char name[32], off[36]; /* what is cut short is no flag either */
        snprintf(name, sizeof name, "%.*s", text ? (int)(text - argv[i]) : 31, argv[i]);
        const flag *f = flags;
        for (; f < flags + n; f++) {
            if (f->kind == HEADING) continue;
            snprintf(off, sizeof off, "--no-%s", f->name);
            if (!strcmp(name + 2, f->name) || (f->kind == SWITCH && !strcmp(name, off))) break;
        }
        if (f == flags + n || name[1] != '-') fail(EXIT_USAGE, "unknown flag %s (--help lists them)", name);
        if (f->kind == SWITCH && text) fail(EXIT_USAGE, "%s takes no value", name);
        if (f->kind == SWITCH) *(long long *)f->value = strcmp(name, off) != 0;
        else if (text || i + 1 < argc) set_flag(f, text ? text + 1 : argv[++i]);
        else fail(EXIT_USAGE, "%s needs a value", name);
    }
    return others;
}

const char *output_path(const char *folder, const char *name) {
    static char paths[8][1024];
    static int used;
    char *path = paths[used++ % 8], parent[1024];
    if (folder && mkdir(folder, 0777) && errno != EEXIST) fail(EXIT_USAGE, "cannot make the folder %s: %s", folder, strerror(errno));
    int length = snprintf(path, sizeof *paths, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
    if (length >= (int)sizeof *paths) fail(EXIT_USAGE, "the path %s is too long", path);
    snprintf(parent, sizeof parent, "%.*s.", strrchr(path, '/') ? (int)(strrchr(path, '/') + 1 - path) : 0, path);
    if (access(parent, W_OK)) fail(EXIT_USAGE, "cannot write %s: %s", path, strerror(errno));
    return path;
}

bool colours(void) { return isatty(STDOUT_FILENO) && !(getenv("NO_COLOR") && *getenv("NO_COLOR")); }

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void on_signal(int number) { stop = number; }

void catch_interrupts(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART | (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool interrupted(void) { return stop != 0; }

void progress_end(void) {
    if (bar_shown) printf("\n");
    bar_shown = false;
}

/* " ━━━━━━━━━━──────────  270/600  loss 0.0123  21.3 steps/s  0:12 left", over the one before */
static void draw_bar(const char *line, int length, double part) {
    struct winsize window = {0};
    int columns = !ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) && window.ws_col ? window.ws_col : 80;
    int width = columns - length - 5 < 40 ? columns - length - 5 : 40, full = (int)(part * width);
    const char *on = colours() ? "\033[36m" : "", *off = colours() ? "\033[2;37m" : "";
    printf("\r ");
    for (int i = 0; i < width; i++) printf("%s%s", i == full ? off : i == 0 ? on : "", i < full ? "━" : "─");
    printf("%s%s%.*s\033[K", colours() ? "\033[0m" : "", width > 0 ? "  " : "", columns - 2, line);
    bar_shown = true;
}

void progress_show(progress *p, int64_t done, const char *format, ...) {
    const char *term = getenv("TERM");
    bool bar = isatty(STDOUT_FILENO) && term && strcmp(term, "dumb"), ends = done == 1 || done == p->total;
    double time = now(), rate = (double)done / (time - p->begun + 1e-9), left = (double)(p->total - done) / rate;
    if (!ends && (bar ? time - p->drawn < 0.1 : done % (p->total / 20 + (p->total < 20)))) return;
    p->drawn = time;
    char text[160], line[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int length = snprintf(line, sizeof line, "%*lld/%lld  %s  %.*f %s  %d:%02d left", snprintf(NULL, 0, "%lld", (long long)p->total),
                          (long long)done, (long long)p->total, text, rate * p->per_step < 100, rate * p->per_step, p->unit, (int)left / 60,
                          (int)left % 60);
    if (bar) draw_bar(line, length, (double)done / (double)p->total);
    else printf("step %s\n", line);
    fflush(stdout);
}

/* ---- pictures: the plot's corner is the origin, its margins lie at negative coordinates ---- */

static FILE *svg_begin(const char *path, int w, int h, const char *title, const char *x_label, const char *y_label) {
    FILE *file = fopen(path, "w");
    if (!file) fail(EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
    fprintf(file, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-84 -58 %d %d\" width=\"%d\" height=\"%d\"\n", w + 110, h + 120,
            w + 110, h + 120);
    fprintf(file, " font-family=\"Helvetica, Arial, sans-serif\" font-size=\"14\" text-anchor=\"middle\" fill=\"#333\">\n"
                  "<rect x=\"-84\" y=\"-58\" width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n");
    fprintf(file, "<text x=\"%d\" y=\"-24\" font-size=\"18\" font-weight=\"bold\">%s</text>\n<text x=\"%d\" y=\"%d\">%s</text>\n",
            w / 2 - 29, title, w / 2, h + 48, x_label);
    fprintf(file, "<text transform=\"translate(-58 %d) rotate(-90)\">%s</text>\n", h / 2, y_label);
    return file;
}

static void svg_end(FILE *file, const char *path) {
    bool bad = fprintf(file, "</svg>\n") < 0 || fflush(file) || ferror(file);
    if (fclose(file) || bad) fail(EXIT_FAILED, "cannot write %s: %s", path, strerror(errno));
}

typedef struct { /* a range, in steps of 1, 2 or 5 times a power of ten, and where it lies in the picture */
    double low, high, step, from, to;
} axis;

static axis make_axis(double low, double high, double from, double to) {
    if (!isfinite(high - low)) low = high = 0; /* no point at all */
    if (!(high > low)) high = low + 1;
    double ten = pow(10, floor(log10((high - low) / 8))), part = (high - low) / 8 / ten;
    double step = ten * (part > 5 ? 10 : part > 2 ? 5 : part > 1 ? 2 : 1);
    return (axis){step * floor(low / step + 1e-9), step * ceil(high / step - 1e-9), step, from, to};
}

static double place(axis a, double value) { return a.from + (value - a.low) / (a.high - a.low) * (a.to - a.from); }
static double x_of(const curve *c, int64_t i) { return c->x ? c->x[i] : (double)(i + 1); }

/* Through the means of half points to either side, fewer near the ends; at most two thousand of them. */
static void svg_line(FILE *file, const curve *c, axis x, axis y, int64_t half, const char *style) {
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-linejoin=\"round\" %s points=\"", c->colour, style);
    for (int64_t i = 0; i < c->n; i += 1 + c->n / 1000) {
        int64_t reach = i < c->n - 1 - i ? i : c->n - 1 - i;
        double sum = 0;
        if (reach > half) reach = half;
        for (int64_t j = i - reach; j <= i + reach; j++) sum += c->y[j];
        fprintf(file, "%.1f,%.1f ", place(x, x_of(c, i)), place(y, sum / (double)(2 * reach + 1)));
    }
    fprintf(file, "\"/>\n");
}

void plot_curves(const char *path, const char *title, const char *x_label, const char *y_label, const curve *curves, int n) {
    double low = INFINITY, high = -INFINITY, last = 0;
    for (const curve *c = curves; c < curves + n; c++)
        for (int64_t i = 0; i < c->n; i++) low = fmin(low, c->y[i]), high = fmax(high, c->y[i]), last = fmax(last, x_of(c, i));
    axis x = make_axis(0, last, 0, 660), y = make_axis(low, high, 330, 0);
    FILE *file = svg_begin(path, 660, 330, title, x_label, y_label);
    for (double v = y.low; v < y.high + y.step / 2; v += y.step)
        fprintf(file, "<path d=\"M0 %.1fh660\" stroke=\"#e4e4e4\"/><text x=\"-9\" y=\"%.1f\" text-anchor=\"end\">%.6g</text>\n",
                place(y, v), place(y, v) + 5, v);
    for (double v = x.low; v < x.high + x.step / 2; v += x.step)
        fprintf(file, "<path d=\"M%.1f 330v6\" stroke=\"#333\"/><text x=\"%.1f\" y=\"354\">%.8g</text>\n", place(x, v), place(x, v), v);
    fprintf(file, "<path d=\"M0 0v330h660\" fill=\"none\" stroke=\"#333\"/>\n");
    for (int k = 0; k < n; k++) {
        const curve *c = curves + k;
        if (c->noisy) svg_line(file, c, x, y, 0, "opacity=\"0.3\"");
        svg_line(file, c, x, y, c->noisy ? c->n / 60 : 0, "stroke-width=\"2.2\"");
        for (int64_t i = 0; i < c->n && !c->noisy; i++)
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\"/>\n", place(x, x_of(c, i)), place(y, c->y[i]), c->colour);
        fprintf(file, "<path d=\"M500 %dh26\" stroke=\"%s\" stroke-width=\"3\"/>", 16 + 22 * k, c->colour);
        fprintf(file, "<text x=\"534\" y=\"%d\" text-anchor=\"start\">%s</text>\n", 21 + 22 * k, c->name);
    }
    svg_end(file, path);
}

void plot_map(const char *path, const char *title, const char *x_label, const char *y_label, const char *const *columns, int n_columns,
              const char *const *rows, int n_rows, const double *values) {
    FILE *file = svg_begin(path, 44 * n_columns, 44 * n_rows, title, x_label, y_label); /* cells of 44, written around their middle */
    for (int j = 0; j < n_columns; j++)
        fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"16\">%s</text>\n", 44 * j + 22, 44 * n_rows + 20, columns[j]);
    for (int i = 0; i < n_rows; i++) {
        fprintf(file, "<text x=\"-10\" y=\"%d\" font-size=\"16\" text-anchor=\"end\">%s</text>\n", 44 * i + 27, rows[i]);
        for (int j = 0; j < n_columns; j++) {
            double v = fmin(fmax(values[i * n_columns + j], 0), 1);
            const char *ink = v > 0.4 ? "#fff" : v < 0.005 ? "#9ab" : "#234";
            fprintf(file, "<rect x=\"%d\" y=\"%d\" width=\"43\" height=\"43\" ", 44 * j, 44 * i);
            fprintf(file, "fill=\"rgb(%.0f,%.0f,%.0f)\"/>", 244 - 236 * v, 247 - 190 * v, 251 - 130 * v);
            fprintf(file, "<text x=\"%d\" y=\"%d\" font-size=\"12\" fill=\"%s\">%.2f</text>\n", 44 * j + 22, 44 * i + 26, ink, v);
        }
    }
    svg_end(file, path);
}
