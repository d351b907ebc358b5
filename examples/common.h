/* What the examples share: flags, a progress bar, Ctrl-C, and two kinds of picture. Nothing here is about transformers. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <cotangent/cotangent.h>

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 }; /* something broke; what was asked for makes no sense */

/* ---- ending. Each prints "program: message" to stderr. ---- */
_Noreturn void fail(int exit_code, const char *format, ...) __attribute__((format(printf, 2, 3)));
void check(const ct_context *context, int exit_code); /* fails with the pending error, if there is one */

/* ---- flags: --name value, --name=value, and --name or --no-name for a SWITCH ---- */
typedef struct {
    const char *name; /* NULL: a heading of --help */
    enum { HEADING, INTEGER, REAL, TEXT, SWITCH } kind;
    void *value;      /* long long, double or const char *: the default, and what the flag sets */
    const char *word; /* what --help calls the value; "one|two": it must be one of these */
    const char *help;
    double low, high; /* of a number, both included */
} flag;

/* Sets the values and moves what is no flag to the front of argv + 1; returns how many those are. --help prints and exits with 0;
 * anything wrong is a message and exit code 2. */
int read_flags(int argc, char **argv, const flag *flags, int n, const char *usage);

/* ---- output ---- */

/* folder/name, or with folder NULL just name; makes the folder where it is missing. What cannot be written is told before the work, not
 * after. */
const char *output_path(const char *folder, const char *name);
bool colours(void); /* stdout is a terminal, and NO_COLOR is not set */
double now(void);   /* seconds */

/* ---- Ctrl-C: the first asks a loop to end, a second one kills ---- */
void catch_interrupts(void);
bool interrupted(void);

/* ---- progress: a bar with the time left on a terminal, else a line now and then ---- */
typedef struct {
    int64_t total;
    double per_step; /* units a step, for the rate */
    const char *unit;
    double begun, drawn; /* begun = now() */
} progress;
void progress_show(progress *p, int64_t done, const char *format, ...) __attribute__((format(printf, 3, 4)));
void progress_end(void);

/* ---- pictures, as SVG ---- */
typedef struct {
    const char *name, *colour;
    const double *x, *y; /* x NULL: 1, 2, 3 ... */
    int64_t n;
    bool noisy; /* drawn faint, under its running mean; else with a dot at each point */
} curve;
void plot_curves(const char *path, const char *title, const char *x_label, const char *y_label, const curve *curves, int n);

/* values (rows, columns) in [0, 1] */
void plot_map(const char *path, const char *title, const char *x_label, const char *y_label, const char *const *columns, int n_columns,
              const char *const *rows, int n_rows, const double *values);

#endif
