/* This file implements the log of a run; see run_log.h. */
#include "run_log.h"
#include "system.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lines ---- */

static const struct {
    const char *key;
    bool whole; /* whether it is an int64_t, which is never null */
    size_t at;  /* the offset of the field in log_line */
} fields[] = {
    {"step", true, offsetof(log_line, step)},
    {"loss", false, offsetof(log_line, loss)},
    {"validation", false, offsetof(log_line, validation)},
    {"lr", false, offsetof(log_line, lr)},
    {"grad_norm", false, offsetof(log_line, grad_norm)},
    {"tokens_per_s", false, offsetof(log_line, tokens_per_s)},
    {"peak_bytes", true, offsetof(log_line, peak_bytes)},
    {"seconds", false, offsetof(log_line, seconds)},
};
enum { FIELDS = sizeof fields / sizeof *fields, NUMBER = 64 /* bytes of the longest number */ };

/* Replaces a decimal point, if the number has one. `locale` says whether it gets the locale's, with
 * which printf writes and strtod reads, or else a point. */
static void change_point(char text[NUMBER], bool locale) {
    char half[NUMBER];
    snprintf(half, sizeof half, "%.1f", 0.5);
    half[strlen(half) - 1] = 0; /* 0, the locale's point, 5 */
    const char *from = locale ? "." : half + 1, *to = locale ? half + 1 : ".";
    char *at = strstr(text, from);
    if (!at || strlen(text) + strlen(to) >= NUMBER) return;
    memmove(at + strlen(to), at + strlen(from), strlen(at + strlen(from)) + 1);
    memcpy(at, to, strlen(to));
}

/* Prints a number with the fewest digits, from 15 to 17, that give the same double when they are
 * read. */
static void print_real(double value, char text[NUMBER]) {
    if (!isfinite(value)) {
        strcpy(text, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, NUMBER, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    change_point(text, false);
}

int log_line_print(const log_line *line, char text[LOG_LINE]) {
    int end = 0;
    for (int i = 0; i < FIELDS; i++) {
        const char *field = (const char *)line + fields[i].at;
        char number[NUMBER];
        if (fields[i].whole) snprintf(number, NUMBER, "%lld", (long long)*(const int64_t *)field);
        else print_real(*(const double *)field, number);
        end += snprintf(text + end, (size_t)(LOG_LINE - end), "%c\"%s\":%s", i ? ',' : '{',
                        fields[i].key, number);
    }
    return end + snprintf(text + end, (size_t)(LOG_LINE - end), "}\n");
}

static const char *skip_spaces(const char *at) { return at + strspn(at, " \t\r"); }

/* Returns the end of a JSON number, or NULL if the text does not begin with one. (strtod also
 * accepts 0x1p3, inf and 01.) */
static const char *number_end(const char *at) {
    const char *digits = "0123456789";
    at += *at == '-';
    size_t n = strspn(at, digits);
    if (n == 0 || (n > 1 && *at == '0')) return NULL;
    at += n;
    if (*at == '.') {
        n = strspn(at + 1, digits);
        if (n == 0) return NULL;
        at += 1 + n;
    }
    if (*at == 'e' || *at == 'E') {
        at++;
        at += *at == '-' || *at == '+';
        n = strspn(at, digits);
        if (n == 0) return NULL;
        at += n;
    }
    return at;
}

/* Reads the value of field i. Returns the end of the value, or NULL if it is not valid. */
static const char *read_value(const char *at, int i, log_line *line) {
    char *field = (char *)line + fields[i].at;
    if (!fields[i].whole && !strncmp(at, "null", 4)) {
        *(double *)field = NAN;
        return at + 4;
    }
    const char *end = number_end(at);
    if (!end) return NULL;
    if (!fields[i].whole) {
        char text[NUMBER];
        if (snprintf(text, NUMBER, "%.*s", (int)(end - at), at) >= NUMBER) return NULL;
        change_point(text, true);
        *(double *)field = strtod(text, NULL);
        return isfinite(*(double *)field) ? end : NULL;
    }
    errno = 0;
    const long long value = strtoll(at, NULL, 10);
    if (errno || value < 0 || strcspn(at, ".eE") < (size_t)(end - at)) return NULL;
    *(int64_t *)field = value;
    return end;
}

/* Reads a key in quotes and returns the index of its field, or -1 if there is no such field. */
static int find_field(const char **at) {
    for (int i = 0; i < FIELDS; i++) {
        const size_t length = strlen(fields[i].key);
        if (**at == '"' && !strncmp(*at + 1, fields[i].key, length) && (*at)[1 + length] == '"') {
            *at += length + 2;
            return i;
        }
    }
    return -1;
}

/* Reads one key and its value. Returns the fault, or NULL. */
static const char *read_member(const char **at, bool seen[FIELDS], log_line *line) {
    const int i = find_field(at);
    if (i < 0) return "a key that is no log's";
    if (seen[i]) return "a key is there twice";
    seen[i] = true;
    *at = skip_spaces(*at);
    if (**at != ':') return "':' is expected";
    const char *end = read_value(skip_spaces(*at + 1), i, line);
    if (!end) return fields[i].whole ? "a value is no whole number" : "a value is no number";
    *at = skip_spaces(end);
    return NULL;
}

bool log_line_parse(const char *text, log_line *line, const char **fault) {
    bool seen[FIELDS] = {false};
    const char *at = skip_spaces(text);
    *fault = *at == '{' ? NULL : "'{' is expected";
    for (int i = 0; i < FIELDS && !*fault; i++) {
        at = skip_spaces(at + 1); /* behind '{' or ',' */
        *fault = read_member(&at, seen, line);
        if (!*fault && *at != (i == FIELDS - 1 ? '}' : ','))
            *fault = *at == '}' ? "a key is missing" : "',' or '}' is expected";
    }
    if (!*fault && *skip_spaces(at + 1)) *fault = "something is behind '}'";
    return !*fault;
}

/* ---- the file ---- */

__attribute__((format(printf, 2, 3))) static bool refuse(run_log *log, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(log->fault, sizeof log->fault, format, args);
    va_end(args);
    return false;
}

static bool refuse_call(run_log *log, const char *what) {
    return refuse(log, "%s: cannot %s the log: %s", log->path, what, strerror(errno));
}

bool sync_entry(const char *path) {
    char folder[1200];
    size_t length = strlen(path);
    while (length > 1 && cti_os_is_separator(path[length - 1]))
        length--; /* separators at the end */
    while (length > 0 && !cti_os_is_separator(path[length - 1])) length--;
    if (length + 2 > sizeof folder) {
        errno = ENAMETOOLONG;
        return false;
    }
    snprintf(folder, sizeof folder, "%.*s.", (int)length, path);
    return system_sync_folder(folder);
}

static bool open_file(run_log *log) {
    log->fd = system_open_log(log->path);
    if (log->fd < 0) return refuse_call(log, "open");
    cti_os_about about;
    if (!cti_os_about_file(log->fd, &about)) return refuse_call(log, "look at");
    log->ordinary = about.kind == CTI_OS_FILE;
    log->size = about.size;
    if (!log->ordinary) return true;
    if (!system_lock(log->fd)) return refuse(log, "%s: another run is writing this log", log->path);
    return sync_entry(log->path) || refuse_call(log, "sync the folder of");
}

bool run_log_open(run_log *log, const char *path) {
    *log = (run_log){.path = path, .fd = -1};
    if (open_file(log)) return true;
    run_log_close(log);
    return false;
}

void run_log_close(run_log *log) {
    if (log->fd >= 0) cti_os_close(log->fd);
    log->fd = -1;
}

bool run_log_is_new(run_log *log) {
    if (!log->ordinary || log->size == 0) return true;
    return refuse(log,
                  "%s: this log of an earlier run is not written over: remove it, or log to "
                  "another file",
                  log->path);
}

bool run_log_sync(run_log *log) { return system_sync(log->fd) || refuse_call(log, "sync"); }

bool run_log_append(run_log *log, const log_line *line) {
    char text[LOG_LINE];
    const int length = log_line_print(line, text);
    for (int done = 0; done < length;) {
        const int64_t n = cti_os_write(log->fd, text + done, (size_t)(length - done));
        if (n == 0) errno = EIO;
        if (n <= 0) {
            refuse_call(log, "write");
            /* if this fails too, the incomplete line is cut when the run continues */
            if (log->ordinary && done > 0) system_cut(log->fd, log->size);
            return false;
        }
        done += (int)n;
    }
    log->size += length;
    return true;
}

/* ---- resuming ---- */

/* Reads the file from its start by the descriptor of the log, because closing another descriptor of
 * the file would end the lock. */
typedef struct {
    run_log *log;
    int64_t offset; /* the file offset of the next read */
    size_t used, filled;
    char bytes[1 << 16];
} reader;

static bool fill(reader *r) {
    const int64_t n = cti_os_read_at(r->log->fd, r->offset, r->bytes, sizeof r->bytes);
    if (n < 0) return refuse_call(r->log, "read");
    r->offset += n;
    r->used = 0;
    r->filled = (size_t)n;
    return true;
}

/* Reads line `number` up to its newline, which is left out. */
static bool read_text(reader *r, int64_t number, int64_t steps, char text[LOG_LINE]) {
    for (int length = 0;; length++) {
        if (r->used == r->filled && !fill(r)) return false;
        if (r->filled == 0)
            return refuse(r->log,
                          "%s:%lld: the line of step %lld is %s, but the checkpoint is of step "
                          "%lld: this is not its log",
                          r->log->path, (long long)number, (long long)number,
                          length ? "torn" : "missing", (long long)steps);
        const char byte = r->bytes[r->used++];
        text[length] = '\0';
        if (byte == '\n') return true;
        if (byte == '\0' || length == LOG_LINE - 1)
            return refuse(r->log, "%s:%lld: is no line of a log: %s", r->log->path,
                          (long long)number, byte ? "it is too long" : "a NUL");
        text[length] = byte;
    }
}

static bool read_line(reader *r, int64_t number, int64_t steps, log_line *line) {
    char text[LOG_LINE];
    const char *fault;
    if (!read_text(r, number, steps, text)) return false;
    if (!log_line_parse(text, line, &fault))
        return refuse(r->log, "%s:%lld: is no line of a log: %s", r->log->path, (long long)number,
                      fault);
    if (line->step == number) return true;
    return refuse(r->log, "%s:%lld: is of step %lld, where step %lld belongs", r->log->path,
                  (long long)number, (long long)line->step, (long long)number);
}

bool run_log_resume(run_log *log, int64_t steps, void (*each)(void *to, const log_line *line),
                    void *to) {
    if (!log->ordinary)
        return refuse(log, "%s: is no ordinary file, so a run cannot go on with it", log->path);
    reader *r = malloc(sizeof *r);
    if (!r) return refuse(log, "%s: out of memory", log->path);
    r->log = log;
    r->offset = 0;
    r->used = r->filled = 0;
    bool ok = true;
    for (int64_t i = 1; ok && i <= steps; i++) {
        log_line line;
        ok = read_line(r, i, steps, &line);
        if (ok) each(to, &line);
    }
    const int64_t end = r->offset - (int64_t)(r->filled - r->used);
    free(r);
    if (!ok) return false;
    if (log->size > end && !system_cut(log->fd, end)) return refuse_call(log, "cut");
    log->size = end;
    return true;
}
