/* The log of a run: a line of JSON for each step, in a file that grows by whole lines.
 *
 *     {"step":1,"loss":4.25,"validation":null,"lr":0.001,"grad_norm":2.5,"tokens_per_s":51000.5,
 *      "peak_bytes":9437184,"seconds":0.25}
 *
 * Steps are 1, 2, 3 ... without gap or repeat, also where the run was stopped and went on. */
#ifndef EXAMPLES_RUN_LOG_H
#define EXAMPLES_RUN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int64_t step, peak_bytes;
    double loss, validation, lr,
        grad_norm; /* NaN and infinities are written as null, which is read as NaN */
    double tokens_per_s, seconds;
} log_line;

enum { LOG_LINE = 512 }; /* bytes of the longest line, with its end */

/* Writes a line with its newline; returns its length. Numbers have as many digits as it takes to
 * read back the same bits. */
int log_line_print(const log_line *line, char text[LOG_LINE]);
/* Reads a line without its newline. Every key stands once, in any order. If the line is wrong,
 * returns false and sets *fault. */
bool log_line_parse(const char *text, log_line *line, const char **fault);

/* Functions that return false have set fault, a sentence with the path. */
typedef struct {
    const char *path;
    int fd;
    bool ordinary; /* a file; a terminal or a pipe can only be the log of a new run */
    int64_t size;  /* bytes of whole lines */
    char fault[1400];
} run_log;

/* Opens and locks the file, and makes it if it is missing. Fails if another run has locked it. */
bool run_log_open(run_log *log, const char *path);
/* For a new run: returns false if the file is not empty. */
bool run_log_is_new(run_log *log);
/* For a run that continues after so many steps: calls `each` with their lines, and cuts the lines
 * after them. If a line is missing or wrong, the fault has its number and the file stays as it
 * is. */
bool run_log_resume(run_log *log, int64_t steps, void (*each)(void *to, const log_line *line),
                    void *to);
/* Appends a line by one write; if the disk is full none of it stays. */
bool run_log_append(run_log *log, const log_line *line);
bool run_log_sync(run_log *log); /* lines that were appended survive a loss of power */
void run_log_close(run_log *log);

/* Makes the entry of a path in its folder survive a loss of power. False: see errno. */
bool sync_entry(const char *path);

#endif
