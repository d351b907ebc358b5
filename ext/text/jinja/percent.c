/* format % arguments, as printf. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "format.h"
#include "number.h"

/* What is being formatted. A format that is Markup escapes what it is given. */
typedef struct {
    cti_jinja_run *run;
    const cti_jinja_string *format;
    size_t at;                  /* the byte that is read */
    cti_jinja_value arguments;  /* the whole right operand */
    const cti_jinja_value *arg; /* [n] its items, if it is a tuple, or itself */
    int64_t n, used;
    bool mapping; /* it may have keys, and need not be used up */
    cti_jinja_builder out;
} percent_job;

static char percent_byte(percent_job *job) {
    if (job->at < job->format->size) return job->format->at[job->at++];
    cti_jinja_fail(job->run, "incomplete format");
    return 0;
}

static cti_jinja_value next_argument(percent_job *job) {
    if (job->used < job->n) return job->arg[job->used++];
    return cti_jinja_fail(job->run, "not enough arguments for format string");
}

/* The argument of %(key)s. */
static cti_jinja_value keyed_argument(percent_job *job) {
    const size_t begin = job->at;
    int depth = 1;
    while (depth && job->at < job->format->size) {
        const char c = job->format->at[job->at++];
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    }
    if (depth) return cti_jinja_fail(job->run, "incomplete format key");
    if (!job->mapping) return cti_jinja_fail(job->run, "format requires a mapping");
    const cti_jinja_value key = cti_jinja_substring(job->run, job->format, begin, job->at - 1);
    if (job->arguments.kind == CTI_JINJA_UNDEFINED)
        return cti_jinja_undefined_fail(job->run, job->arguments);
    if (job->arguments.kind != CTI_JINJA_DICT)
        return cti_jinja_fail(job->run, "%s indices must be integers or slices, not str",
                              cti_jinja_type_name(job->arguments));
    const cti_jinja_value *found = cti_jinja_get(job->run, job->arguments.dict, key);
    if (!found && !job->run->failed)
        return cti_jinja_fail(job->run, "the format's key '%.*s' is not in the dict",
                              (int)key.string->size, key.string->at);
    return found ? *found : key;
}

/* A width or precision: digits or *, which takes an argument. */
static bool read_length(percent_job *job, char *c, int64_t *length) {
    if (*c == '*') {
        const cti_jinja_value value = next_argument(job);
        if (job->run->failed) return false;
        if (job->format->markup || !cti_jinja_is_int(value, length)) {
            cti_jinja_fail(job->run, "* wants int");
            return false;
        }
        *c = percent_byte(job);
        return !job->run->failed;
    }
    *length = 0;
    for (; *c >= '0' && *c <= '9'; *c = percent_byte(job)) {
        *length = 10 * *length + (*c - '0');
        if (*length > INT32_MAX) cti_jinja_fail(job->run, "width or precision too big");
        if (job->run->failed) return false;
    }
    return !job->run->failed;
}

/* Reads flags, width and precision; *c is the byte behind them. */
static bool read_percent_spec(percent_job *job, char *c, cti_jinja_spec *spec) {
    bool zero = false, left = false;
    for (; *c && strchr("-+ #0", *c); *c = percent_byte(job)) {
        if (*c == '-') left = true;
        if (*c == '0') zero = true;
        if (*c == '#') spec->alternate = true;
        if (*c == '+' || (*c == ' ' && spec->sign != '+')) spec->sign = *c;
    }
    if (!read_length(job, c, &spec->width)) return false;
    if (spec->width < 0) {
        left = true;
        spec->width = spec->width == INT64_MIN ? INT64_MAX : -spec->width;
    }
    if (*c == '.') {
        *c = percent_byte(job);
        if (job->run->failed || !read_length(job, c, &spec->precision)) return false;
        if (spec->precision < 0) spec->precision = 0;
    }
    if (*c == 'h' || *c == 'l' || *c == 'L') *c = percent_byte(job);
    spec->align = left ? '<' : zero ? '=' : '>';
    if (zero && !left) spec->fill[0] = '0';
    return !job->run->failed;
}

/* The integer of %d or %x. */
static bool percent_integer(percent_job *job, cti_jinja_value value, char type, int64_t *integer) {
    cti_jinja_run *run = job->run;
    if (cti_jinja_is_int(value, integer)) return true;
    const bool decimal = type == 'd' || type == 'i' || type == 'u';
    if (value.kind == CTI_JINJA_REAL && decimal) {
        if (!isfinite(value.real))
            cti_jinja_fail(run, "cannot convert float %s to integer",
                           isnan(value.real) ? "NaN" : "infinity");
        else if (fabs(value.real) >= 0x1p63)
            cti_jinja_fail(run, "integers beyond 64 bits are not run");
        *integer = run->failed ? 0 : (int64_t)value.real;
    } else if (job->format->markup && value.kind == CTI_JINJA_STRING && decimal) {
        cti_jinja_fail(run, "%%%c of a string in Markup is not run", type);
    } else {
        cti_jinja_fail(run, "%%%c format: %s is required, not %s", type,
                       decimal ? "a real number" : "an integer", cti_jinja_type_name(value));
    }
    return !run->failed;
}

static bool percent_real(percent_job *job, cti_jinja_value value, double *x) {
    int64_t integer;
    if (value.kind == CTI_JINJA_REAL) *x = value.real;
    else if (cti_jinja_is_int(value, &integer)) *x = (double)integer;
    else if (job->format->markup && value.kind == CTI_JINJA_STRING)
        cti_jinja_fail(job->run, "%%f of a string in Markup is not run");
    else cti_jinja_fail(job->run, "must be real number, not %s", cti_jinja_type_name(value));
    return !job->run->failed;
}

static void percent_text(percent_job *job, cti_jinja_value value, cti_jinja_spec *spec) {
    const cti_jinja_string *text = spec->type == 's'
                                       ? cti_jinja_text(job->run, value)
                                       : cti_jinja_repr_text(job->run, value, spec->type == 'a');
    const bool safe = spec->type == 's' && text && text->markup;
    if (job->format->markup && text && !safe) text = cti_jinja_escaped(job->run, text);
    if (spec->align == '=') spec->align = '>';
    spec->fill[0] = ' ';
    cti_jinja_add_aligned(&job->out, cti_jinja_cut(job->run, text, spec->precision), spec, '>');
}

static void percent_character(percent_job *job, cti_jinja_value value, cti_jinja_spec *spec) {
    int64_t code;
    spec->fill[0] = ' ';
    if (spec->align == '=') spec->align = '>';
    if (!job->format->markup && value.kind == CTI_JINJA_STRING && value.string->length == 1)
        cti_jinja_add_aligned(&job->out, value.string, spec, '>');
    else if (!job->format->markup && cti_jinja_is_int(value, &code))
        cti_jinja_add_integer(&job->out, code, value.mark, spec);
    else cti_jinja_fail(job->run, "%%c requires int or char");
}

/* One conversion; the byte behind its % is read next. */
static void percent_convert(percent_job *job) {
    const int32_t mark = cti_jinja_mark_at(job->format, job->at - 1);
    cti_jinja_spec spec = {.fill = " ", .fill_size = 1, .mark = mark, .precision = -1};
    char c = percent_byte(job);
    cti_jinja_value value = {.kind = CTI_JINJA_ABSENT};
    if (c == '%') {
        cti_jinja_add_text(&job->out, "%", mark);
        return;
    }
    if (c == '(') {
        value = keyed_argument(job);
        if (!job->run->failed) c = percent_byte(job);
    }
    if (job->run->failed || !read_percent_spec(job, &c, &spec)) return;
    if (value.kind == CTI_JINJA_ABSENT) value = next_argument(job);
    if (job->run->failed) return;
    int64_t integer = 0;
    double x = 0;
    spec.type = c;
    if (!c || !strchr("diuoxXeEfFgGcrsa", c)) {
        cti_jinja_fail(job->run, "unsupported format character at index %d of a format",
                       (int)cti_jinja_index_of(job->format, job->at - 1));
    } else if (strchr("rsa", c)) {
        percent_text(job, value, &spec);
    } else if (c == 'c') {
        percent_character(job, value, &spec);
    } else if (strchr("diuoxX", c)) {
        if (percent_integer(job, value, c, &integer))
            cti_jinja_add_integer(&job->out, integer, value.mark, &spec);
    } else if (percent_real(job, value, &x)) {
        cti_jinja_add_real(&job->out, x, value.mark, &spec);
    }
}

cti_jinja_value cti_jinja_percent(cti_jinja_run *run, const cti_jinja_string *format,
                                  cti_jinja_value arguments) {
    percent_job job = {.run = run,
                       .format = format,
                       .arguments = arguments,
                       .arg = &arguments,
                       .n = 1,
                       .out = cti_jinja_build(run)};
    job.mapping = arguments.kind == CTI_JINJA_LIST || arguments.kind == CTI_JINJA_DICT ||
                  arguments.kind == CTI_JINJA_RANGE_OBJECT || arguments.kind == CTI_JINJA_UNDEFINED;
    if (arguments.kind == CTI_JINJA_TUPLE) {
        job.arg = arguments.list->item;
        job.n = arguments.list->count;
    }
    while (job.at < format->size && cti_jinja_step(run)) {
        const char *percent = memchr(format->at + job.at, '%', format->size - job.at);
        const size_t end = percent ? (size_t)(percent - format->at) : format->size;
        cti_jinja_add_part(&job.out, format, job.at, end);
        job.at = end;
        if (!percent) break;
        job.at++;
        percent_convert(&job);
    }
    if (!run->failed && job.used < job.n && !job.mapping)
        return cti_jinja_fail(run, "not all arguments converted during string formatting");
    return cti_jinja_built(&job.out, format->markup);
}
