/* Code that programs and examples share: flags, input and output files, a progress bar and Ctrl-C.
 * None of it is about transformers. */
#ifndef PROGRAMS_COMMON_H
#define PROGRAMS_COMMON_H

#include <cotangent/cotangent.h>
#include <stdio.h>
#include <stdlib.h>

/* The exit codes of a failure and of wrong usage. */
enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* ---- messages and exit; each function prints "program: message" to stderr ---- */
_Noreturn void fail(int exit_code, const char *format, ...) __attribute__((format(printf, 2, 3)));

void warn(const char *format, ...) __attribute__((format(printf, 1, 2))); /* prints and returns */

/* Fails with the pending error, if there is one. */
void check(const ct_context *context, int exit_code);
/* A message of the library without the function that it begins with, which a program's user does
 * not know. */
const char *error_text(const char *message);

/* realloc(block, n size), which fails with a message. Of no bytes it is a block too. */
void *room_for(void *block, size_t n, size_t size);

#define PLURAL(n) ((n) == 1 ? "" : "s") /* "%lld row%s" */

/* For programs with several ranks: adds the rank to these messages from now on, and discards the
 * standard output of all ranks except rank 0. */
void speak_as(int rank, int ranks);

/* ---- flags: --name value, --name=value, and --name or --no-name for a SWITCH ---- */
typedef struct {
    enum { HEADING, INTEGER, REAL, TEXT, SWITCH, CHOICE } kind;
    const char *name;
    void *value;       /* the variable, which has the default before read_flags */
    const char *word;  /* name of the value in --help */
    const char *words; /* words of a CHOICE: "reverse|sort" */
    const char *help;
    double low, high; /* bounds of a number, both included */
} flag;

flag flag_integer(const char *name, long long *value, double low, double high, const char *help);
flag flag_real(const char *name, double *value, const char *word, double low, double high,
               const char *help);
flag flag_text(const char *name, const char **value, const char *word, const char *help);
flag flag_switch(const char *name, long long *value, const char *help);
/* Makes a CHOICE flag, whose value is one of the words of a list such as "reverse|sort". *value is
 * the position of the word in the list, from 1. */
flag flag_choice(const char *name, long long *value, const char *words, const char *help);
flag flag_matmul(long long *value);  /* --matmul; the value is a ct_matmul_precision */
flag flag_heading(const char *help); /* a line of --help */

/* Returns the length of word i of a CHOICE, from 1 on, and sets *word to its first character.
 * Returns 0 after the last word. */
int flag_word(const char *words, long long i, const char **word);

/* Sets the values of the flags and moves all other arguments to the front of argv + 1; returns
 * their number. The first line of `usage` is the form of the command. --help prints the flags and
 * --version the version; both exit with 0. After a wrong flag the program prints a message and
 * exits with 2. */
int read_flags(int argc, char **argv, const flag *flags, int n, const char *usage);
bool flag_was_read(const char *name); /* whether the program was started with this flag */

/* For a small program, whose only argument is a number that it may leave out: returns the number,
 * or `number` without one. */
long long read_number(int argc, char **argv, long long number, double low, double high,
                      const char *usage);

/* Prints a message about the arguments, and the form of the command, and exits with 2. */
_Noreturn void fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prepares messages and standard output; read_flags calls it. Returns the program's name. */
const char *begin_program(int argc, char **argv);

/* ---- files ----
 * A program names every file that it reads and every file that it writes, before it reads any. If
 * an output is the same file as an input or as another output, it would replace it, so the program
 * ends with a message. The spelling of a path does not matter, and links are followed. */

void input_paths(int n, char **paths); /* "-" is standard input */

/* The path of an output: folder/name, or name if folder is NULL. Makes the folder if it is missing.
 * Fails at once if the file cannot be written. */
const char *output_path(const char *folder, const char *name);

/* Declares that the program writes a series of files to a folder, such as checkpoints: fits(name)
 * must be true for the name of each of these files. Creates the folder if it does not exist. */
void output_series(const char *folder, bool (*fits)(const char *name));

typedef struct {
    unsigned char *bytes; /* the caller frees them */
    int64_t length, capacity;
} contents;
contents read_standard_input(void);       /* to its end */
contents read_files(int n, char **paths); /* concatenates them; fails if one is empty */
/* Does the same for text files. A byte order mark is left out. A file that is not UTF-8 or has a
 * NUL is an error, which names the byte. */
contents read_text_files(int n, char **paths);
/* Fails if a file is no such text; it may be larger than the memory. */
void check_text_file(const char *path);

/* The number of places of a file at which a text stands, without overlaps. */
int64_t count_in_file(const char *path, const char *text);
/* Fails because a separator does not occur in a file. */
_Noreturn void fail_separator(const char *path, const char *separator);

/* A file that is written under a temporary name beside its path, and renamed to its path when it is
 * complete. If the program exits before that, the temporary file is removed. A path that is not a
 * regular file, such as /dev/stdout, is written directly, or is an error if only_ordinary is
 * set. */
typedef struct {
    FILE *file; /* the stream to which the program writes */
    int fd;     /* the descriptor of the temporary file; -1 if there is none */
    const char *path;
    char target[4096], temporary[4096]; /* target is path without links; temporary may be "" */
} output;
void output_begin(output *o, const char *path, bool only_ordinary);
void output_end(output *o);
void output_remove(
    void); /* the temporary file that is being written; a signal handler may call it */

/* ---- the terminal ---- */

bool colours(void); /* whether stdout is a terminal and NO_COLOR is not set */
double now(void);   /* seconds */

/* ---- Ctrl-C: the first requests the end of a loop, the second kills the program ---- */
void catch_interrupts(void);
bool interrupted(void);
/* For a program that goes on after Ctrl-C: each one interrupts, and two in a row without
 * interrupt_forget between them kill the program. With `ends_input` standard input ends then, also
 * for a read that waits. */
void catch_each_interrupt(bool ends_input);
void interrupt_forget(void);
/* The exit code of a program that was interrupted, as a shell has it: 130 after Ctrl-C, 143 after a
 * request to end. An interrupted run must not look like one that is done, so the program writes
 * nothing under the final name of its result unless --keep-partial asks for it. */
int interrupt_exit(void);

/* ---- progress: on a terminal a bar with the time left, otherwise a line from time to time ---- */
typedef struct {
    int64_t total, first; /* first: the number of steps done before this run */
    double per_step;      /* units of a step; the bar shows units per second */
    const char *unit;     /* "tokens/s"; NULL: no speed is shown */
    double begun;         /* now() */
    double drawn;         /* when the bar was last drawn; starts as 0 */
} progress;
void progress_show(progress *p, int64_t done, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void progress_end(void);

/* Whether a loss is larger than it was before the training, by more than rounding, or is NaN. */
bool loss_is_worse(double after, double before);

#endif
