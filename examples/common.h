/* What the examples share: flags, the files that they read and write, a progress bar and Ctrl-C.
 * None of it is about transformers. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <cotangent/cotangent.h>
#include <stdio.h>

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

/* ---- files ----
 * A program names every file that it reads and every file that it writes, before it reads any. If
 * an output is the same file as an input or as another output, it would replace it, so the program
 * ends with a message. The spelling of a path does not matter, and links are followed. */

void input_paths(int n, char **paths); /* "-" is standard input */

/* The path of an output: folder/name, or name if folder is NULL. Makes the folder if it is missing.
 * Fails at once if the file cannot be written. */
const char *output_path(const char *folder, const char *name);

/* A folder in which every file whose name fits is an output, as a run's checkpoints are. Makes the
 * folder if it is missing. */
void output_series(const char *folder, bool (*fits)(const char *name));

typedef struct {
    unsigned char *bytes; /* for free() */
    int64_t length, capacity;
} contents;
contents read_files(int n, char **paths); /* one after the other; fails if one is empty */

/* A file that is written under a temporary name beside its path, and gets its own name when it is
 * complete; if the program ends before, the temporary file is removed. What is no ordinary file,
 * such as /dev/stdout, is written directly; if that is not allowed it is an error. */
typedef struct {
    FILE *file; /* to write to */
    int fd;     /* of the temporary file; -1: there is none */
    const char *path;
    char target[4096], temporary[4096]; /* target is path without links; temporary may be "" */
} output;
void output_begin(output *o, const char *path, bool only_ordinary);
void output_end(output *o);
void output_remove(
    void); /* the temporary file that is being written; a signal handler may call it */

/* ---- the terminal ---- */

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

#endif
