/* What the examples share: flags, a progress bar, Ctrl-C, and two kinds of picture. None of it is
 * about transformers. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <cotangent/cotangent.h>

/* Exit codes: a failure; wrong usage. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* ---- ending. Each prints "program: message" to stderr. ---- */
_Noreturn void fail(int exit_code, const char *format, ...) __attribute__((format(printf, 2, 3)));

void warn(const char *format, ...) __attribute__((format(printf, 1, 2))); /* and goes on */

/* Fails with the pending error, if there is one. */
void check(const ct_context *context, int exit_code);

/* From here on these messages name the rank, where there are several, and what ranks but 0 print to
 * stdout goes nowhere. */
void speak_as(int rank, int ranks);

/* ---- flags: --name value, --name=value, and --name or --no-name for a SWITCH ---- */
typedef struct {
    enum { HEADING, INTEGER, REAL, TEXT, SWITCH, CHOICE } kind;
    const char *name;
    void *value;       /* the default, and what the flag sets */
    const char *word;  /* what --help calls the value */
    const char *words; /* of a CHOICE: "reverse|sort" */
    const char *help;
    double low, high; /* of a number, both included */
} flag;

flag flag_integer(const char *name, long long *value, double low, double high, const char *help);
flag flag_real(const char *name, double *value, const char *word, double low, double high,
               const char *help);
flag flag_text(const char *name, const char **value, const char *word, const char *help);
flag flag_switch(const char *name, long long *value, const char *help);
/* The value is one of the words of a list such as "reverse|sort"; *value is its number, from 1. */
flag flag_choice(const char *name, long long *value, const char *words, const char *help);
flag flag_matmul(long long *value);  /* --matmul; the value is a ct_matmul_precision */
flag flag_heading(const char *help); /* a line of --help */

/* The length of word i of a CHOICE's words, from 1 on, and where it begins; 0 where there is none.
 */
int flag_word(const char *words, long long i, const char **word);

/* Sets the values and moves what is no flag to the front of argv + 1; returns how many those are.
 * --help prints and exits with 0; anything wrong is a message and exit code 2. */
int read_flags(int argc, char **argv, const flag *flags, int n, const char *usage);
bool flag_was_read(const char *name); /* whether the program was started with it */

/* ---- input ---- */
typedef struct {
    unsigned char *bytes; /* for free() */
    int64_t length, capacity;
} contents;
contents read_files(int n, char **paths); /* one after the other; fails if one is empty */

/* ---- output ---- */

/* folder/name, or with folder NULL just name. Makes the folder where it is missing. Fails at once
 * if the file cannot be written. */
const char *output_path(const char *folder, const char *name);
bool colours(void); /* stdout is a terminal, and NO_COLOR is not set */
double now(void);   /* seconds */

/* ---- Ctrl-C: the first asks a loop to end, a second one kills ---- */
void catch_interrupts(void);
bool interrupted(void);

/* ---- progress: a bar with the time left on a terminal, else a line now and then ---- */
typedef struct {
    int64_t total, first; /* first: done already before it began */
    double per_step;      /* units a step, for the rate */
    const char *unit;
    double begun; /* now() */
    double drawn; /* when the bar was last drawn; starts as 0 */
} progress;
void progress_show(progress *p, int64_t done, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void progress_end(void);

/* ---- pictures, as SVG ---- */
typedef struct {
    const char *name, *colour;
    const double *x, *y; /* x NULL: 1, 2, 3 ... */
    int64_t n;
    bool noisy; /* drawn faint, under its running mean; else with a dot at each point */
} curve;
void plot_curves(const char *path, const char *title, const char *x_label, const char *y_label,
                 const curve *curves, int n);

/* A table of numbers in [0, 1], each cell coloured by its number. */
typedef struct {
    const char *title, *x_label, *y_label;
    const char *const *columns, *const *rows; /* their names */
    int n_columns, n_rows;
    const double *values; /* (n_rows, n_columns) */
} map;
void plot_map(const char *path, const map *m);

#endif
