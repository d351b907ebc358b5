/* The log of a training run: a file with one line of JSON for each step. Only whole lines are
 * appended. The example is one line, broken here to fit the page:
 *
 *     {"step":1,"loss":4.25,"validation":null,"lr":0.001,"grad_norm":2.5,"tokens_per_s":51000.5,
 *      "peak_bytes":9437184,"seconds":0.25}
 *
 * The steps are numbered 1, 2, 3, ... without gaps or repeats, even if the run was stopped and
 * resumed. */
#ifndef PROGRAMS_RUN_LOG_H
#define PROGRAMS_RUN_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int64_t step, peak_bytes;
    double loss, validation, lr,
        grad_norm; /* null in the file stands for NaN or an infinity and is read as NaN */
    double tokens_per_s, seconds;
} log_line;

enum { LOG_LINE = 512 }; /* bytes of the longest line, with its newline and a NUL */

/* Writes the text of a line with its newline and a NUL; returns its length without the NUL. A
 * number has enough digits to give the same bits when it is read. */
int log_line_print(const log_line *line, char text[LOG_LINE]);
/* Parses the text of a line, which has no newline. Every key must appear exactly once; their order
 * does not matter. If the line is invalid, returns false and sets *fault to the reason. */
bool log_line_parse(const char *text, log_line *line, const char **fault);

/* An open log. A function below that takes a log and returns false has set its `fault`. */
typedef struct {
    const char *path;
    int fd;
    /* whether the log is a regular file. A terminal or a pipe cannot be read again, so a run that
     * logs to it cannot be resumed. */
    bool ordinary;
    int64_t size;     /* the number of bytes of whole lines */
    char fault[1400]; /* the error message, which contains the path */
} run_log;

/* Opens and locks the file; creates it if it does not exist. Fails if another run has locked it. */
bool run_log_open(run_log *log, const char *path);
/* Checks the log of a new run: returns false if the file is not empty. */
bool run_log_is_new(run_log *log);
/* Prepares the log of a run that resumes after `steps` steps: calls each(to, line) for the lines of
 * steps 1 to `steps`, and removes all later lines from the file. If one of the lines is missing or
 * invalid, `fault` contains its line number and the file is unchanged. */
bool run_log_resume(run_log *log, int64_t steps, void (*each)(void *to, const log_line *line),
                    void *to);
/* Appends a line. If the write fails (a full disk), removes the bytes that were written. */
bool run_log_append(run_log *log, const log_line *line);
bool run_log_sync(run_log *log); /* after this, the appended lines survive a power failure */
void run_log_close(run_log *log);

/* Syncs the folder of a path, so that the file's directory entry survives a power failure. If it
 * returns false, errno has the reason. */
bool sync_entry(const char *path);

#endif
