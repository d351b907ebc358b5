/* format.format(...): fields in braces, as Python's string.Formatter reads them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../utf8.h"
#include "format.h"
#include "number.h"

typedef struct {
    cti_jinja_run *run;
    const cti_jinja_value *arg;
    int64_t n;
    const cti_jinja_dict *keywords;
    bool markup;       /* what is filled in is escaped */
    int64_t automatic; /* the number of the next field without a name; -1: fields have numbers */
} format_job;

/* A field {name!conversion:spec}, by bytes of the format. */
typedef struct {
    size_t name, name_end, spec, spec_end;
    char conversion;
} format_field;

static void format_fault(format_job *job, const char *fault) {
    cti_jinja_fail(job->run, "%s", fault);
}

/* ---- the spec of a field ---- */

static bool is_alignment(char c) { return c && strchr("<>=^", c); }

static bool read_spec_length(cti_jinja_run *run, const char **at, const char *end,
                             int64_t *length) {
    for (*length = -1; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        *length = 10 * (*length < 0 ? 0 : *length) + (**at - '0');
        if (*length <= INT32_MAX) continue;
        cti_jinja_fail(run, "Too many decimal digits in format string");
        return false;
    }
    return true;
}

/* Fill, alignment, sign, # and 0. `number`: the value is one, so that zeros stand behind its sign.
 */
static const char *read_spec_start(cti_jinja_run *run, const cti_jinja_string *text, bool number,
                                   cti_jinja_spec *spec) {
    const char *at = text->at, *const end = at + text->size;
    const size_t first = text->size ? cti_utf8_length((unsigned char)*at) : 0;
    bool filled = false;
    if (text->size > first && is_alignment(at[first])) {
        memcpy(spec->fill, at, first);
        spec->fill_size = first;
        spec->align = at[first];
        at += first + 1;
        filled = true;
    } else if (at < end && is_alignment(*at)) {
        spec->align = *at++;
    }
    if (at < end && strchr("+- ", *at)) spec->sign = *at++;
    if (at < end && *at == 'z') cti_jinja_fail(run, "z in a format is not run");
    if (at < end && *at == '#') {
        spec->alternate = true;
        at++;
    }
    if (!filled && at < end && *at == '0') {
        spec->fill[0] = '0';
        if (!spec->align && number) spec->align = '=';
        at++;
    }
    return at;
}

static bool read_spec(cti_jinja_run *run, const cti_jinja_string *text, bool number,
                      cti_jinja_spec *spec) {
    *spec = (cti_jinja_spec){.fill = " ", .fill_size = 1, .precision = -1};
    spec->mark = text->size ? cti_jinja_mark_at(text, 0) : 0;
    const char *at = read_spec_start(run, text, number, spec), *const end = text->at + text->size;
    if (run->failed || !read_spec_length(run, &at, end, &spec->width)) return false;
    if (at < end && (*at == ',' || *at == '_')) spec->grouping = *at++;
    if (at < end && (*at == ',' || (*at == '_' && spec->grouping)))
        cti_jinja_fail(run, "Cannot specify both ',' and '_'.");
    if (at < end && *at == '.') {
        at++;
        if (!read_spec_length(run, &at, end, &spec->precision)) return false;
        if (spec->precision < 0) cti_jinja_fail(run, "Format specifier missing precision");
    }
    if (at < end) spec->type = *at++;
    if (at < end || (unsigned char)spec->type >= 0x80)
        cti_jinja_fail(run, "Invalid format specifier");
    const bool in_fours = spec->type && strchr("boxX", spec->type) && spec->grouping == '_';
    if (spec->grouping && spec->type && !strchr("defgEG%F", spec->type) && !in_fours)
        cti_jinja_fail(run, "Cannot specify '%c' with '%c'.", spec->grouping, spec->type);
    return !run->failed;
}

static void unknown_code(cti_jinja_run *run, char code, cti_jinja_value value) {
    cti_jinja_fail(run, "Unknown format code '%c' for object of type '%s'", code,
                   cti_jinja_type_name(value));
}

static void format_string(cti_jinja_builder *out, cti_jinja_value value, cti_jinja_spec *spec) {
    cti_jinja_run *run = out->run;
    if (spec->type && spec->type != 's') unknown_code(run, spec->type, value);
    else if (spec->sign) cti_jinja_fail(run, "Sign not allowed in string format specifier");
    else if (spec->alternate)
        cti_jinja_fail(run, "Alternate form (#) not allowed in string format specifier");
    else if (spec->align == '=')
        cti_jinja_fail(run, "'=' alignment not allowed in string format specifier");
    else if (spec->grouping) cti_jinja_fail(run, "Cannot specify '%c' with 's'.", spec->grouping);
    else cti_jinja_add_aligned(out, cti_jinja_cut(run, value.string, spec->precision), spec, '<');
}

static void format_integer(cti_jinja_builder *out, cti_jinja_value value, int64_t integer,
                           cti_jinja_spec *spec) {
    cti_jinja_run *run = out->run;
    if (spec->type && strchr("eEfFgG%", spec->type)) {
        cti_jinja_add_real(out, (double)integer, value.mark, spec);
        return;
    }
    if (spec->type == 'n') spec->type = 'd';
    if (spec->type && !strchr("bcdoxX", spec->type)) unknown_code(run, spec->type, value);
    else if (spec->precision >= 0)
        cti_jinja_fail(run, "Precision not allowed in integer format specifier");
    else if (spec->type == 'c' && spec->sign)
        cti_jinja_fail(run, "Sign not allowed with integer format specifier 'c'");
    else if (spec->type == 'c' && spec->alternate)
        cti_jinja_fail(run, "Alternate form (#) not allowed with integer format specifier 'c'");
    else cti_jinja_add_integer(out, integer, value.mark, spec);
}

static void format_real(cti_jinja_builder *out, cti_jinja_value value, cti_jinja_spec *spec) {
    if (spec->type && !strchr("eEfFgGn%", spec->type)) unknown_code(out->run, spec->type, value);
    else if (!spec->type && spec->alternate)
        cti_jinja_fail(out->run, "# in a format is run with a type only");
    else cti_jinja_add_real(out, value.real, value.mark, spec);
}

/* format(value, text) */
static void format_value(cti_jinja_builder *out, cti_jinja_value value,
                         const cti_jinja_string *text) {
    cti_jinja_run *run = out->run;
    int64_t integer = 0;
    cti_jinja_spec spec;
    const bool number = cti_jinja_is_int(value, &integer) || value.kind == CTI_JINJA_REAL;
    if (!text->size) {
        cti_jinja_print(out, value);
    } else if (!number && value.kind != CTI_JINJA_STRING) {
        cti_jinja_fail(run, "unsupported format string passed to %s.__format__",
                       cti_jinja_type_name(value));
    } else if (read_spec(run, text, number, &spec)) {
        if (value.kind == CTI_JINJA_STRING) format_string(out, value, &spec);
        else if (value.kind == CTI_JINJA_REAL) format_real(out, value, &spec);
        else format_integer(out, value, integer, &spec);
    }
}

/* ---- fields ---- */

/* Reads a field whose brace was passed over, up to its closing brace. */
static bool read_field(format_job *job, const cti_jinja_string *format, size_t *at,
                       format_field *field) {
    char c = 0;
    *field = (format_field){.name = *at};
    while (*at < format->size) {
        c = format->at[(*at)++];
        if (c == '[')
            while (*at < format->size && format->at[*at] != ']') ++*at;
        if (c == '{') format_fault(job, "unexpected '{' in field name");
        if (strchr("{}:!", c) && c) break;
    }
    field->name_end = *at - 1;
    field->spec = field->spec_end = *at;
    if (job->run->failed || c == '}') return !job->run->failed;
    if (c != ':' && c != '!') format_fault(job, "expected '}' before end of string");
    if (c == '!') {
        if (*at >= format->size)
            format_fault(job, "end of string while looking for conversion specifier");
        else field->conversion = format->at[(*at)++];
        if (!job->run->failed && *at < format->size) {
            c = format->at[(*at)++];
            field->spec = field->spec_end = *at;
            if (c == '}') return true;
            if (c != ':') format_fault(job, "expected ':' after conversion specifier");
        }
    }
    field->spec = *at;
    for (int64_t depth = 1; !job->run->failed && *at < format->size;) {
        c = format->at[(*at)++];
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        field->spec_end = *at - 1;
        if (!depth) return true;
    }
    format_fault(job, "unmatched '{' in format spec");
    return false;
}

/* A number in [0, 10^9), if all bytes are digits; -1. */
static int64_t field_index(const char *at, size_t size) {
    int64_t index = size ? 0 : -1;
    for (size_t i = 0; i < size && index >= 0; i++)
        index = at[i] >= '0' && at[i] <= '9' && index < 100000000 ? 10 * index + (at[i] - '0') : -1;
    return index;
}

/* The argument that a field names: its number or keyword, and items of that in brackets. */
static cti_jinja_value find_argument(format_job *job, const char *name, size_t size) {
    size_t first = 0;
    while (first < size && name[first] != '[' && name[first] != '.') first++;
    int64_t index = field_index(name, first);
    cti_jinja_value value = {.kind = CTI_JINJA_ABSENT};
    if (!size) {
        if (job->automatic < 0)
            format_fault(job, "cannot switch from manual field specification to automatic field "
                              "numbering");
        index = job->automatic++;
    } else if (index >= 0 && first == size) {
        if (job->automatic > 0)
            format_fault(job, "cannot switch from manual field specification to automatic field "
                              "numbering");
        job->automatic = -1;
    }
    if (index >= 0 && index < job->n) {
        value = job->arg[index];
    } else if (index < 0 && job->keywords) {
        const cti_jinja_value key = cti_jinja_string_make(job->run, name, first, 0);
        const cti_jinja_value *found = cti_jinja_get(job->run, job->keywords, key);
        if (found) value = *found;
    }
    if (value.kind == CTI_JINJA_ABSENT)
        return cti_jinja_fail(job->run, "str.format: there is no argument '%.*s'",
                              (int)(first < 100 ? first : 100), name);
    while (first < size && !job->run->failed) {
        if (name[first] == '.')
            return cti_jinja_fail(job->run, "str.format with attributes is not run");
        const char *end = memchr(name + first, ']', size - first);
        const char *begin = name + first + 1;
        if (*(begin - 1) != '[')
            return cti_jinja_fail(job->run,
                                  "Only '.' or '[' may follow ']' in format field specifier");
        if (!end) return cti_jinja_fail(job->run, "Missing ']' in format string");
        const size_t length = (size_t)(end - begin);
        if (!length) return cti_jinja_fail(job->run, "Empty attribute in format string");
        const int64_t at = field_index(begin, length);
        value = cti_jinja_item(job->run, value,
                               at >= 0 ? cti_jinja_int(at, 0)
                                       : cti_jinja_string_make(job->run, begin, length, 0));
        first = (size_t)(end + 1 - name);
    }
    return value;
}

static void format_all(format_job *job, cti_jinja_builder *out, const cti_jinja_string *format,
                       int depth);

static void format_one(format_job *job, cti_jinja_builder *out, const cti_jinja_string *format,
                       const format_field *field, int depth) {
    cti_jinja_run *run = job->run;
    cti_jinja_value value =
        find_argument(job, format->at + field->name, field->name_end - field->name);
    if (run->failed) return;
    if (field->conversion == 'r' || field->conversion == 'a') {
        const cti_jinja_string *text = cti_jinja_repr_text(run, value, field->conversion == 'a');
        value = cti_jinja_string_value(text);
    } else if (field->conversion == 's') {
        const cti_jinja_string *text = cti_jinja_text(run, value);
        if (text) value = cti_jinja_string_markup(run, text, false);
    } else if (field->conversion) {
        cti_jinja_fail(run, "Unknown conversion specifier %c", field->conversion);
    }
    cti_jinja_builder spec = cti_jinja_build(run);
    const cti_jinja_value written = cti_jinja_substring(run, format, field->spec, field->spec_end);
    if (run->failed) return;
    format_all(job, &spec, written.string, depth - 1);
    const cti_jinja_value text = cti_jinja_built(&spec, false);
    if (run->failed) return;
    if (!job->markup) {
        format_value(out, value, text.string);
    } else if (value.kind == CTI_JINJA_STRING && value.string->markup) {
        if (text.string->size) cti_jinja_fail(run, "Unsupported format specification for Markup.");
        cti_jinja_add_string(out, value.string);
    } else {
        format_value(&spec, value, text.string);
        const cti_jinja_value plain = cti_jinja_built(&spec, false);
        if (!run->failed) cti_jinja_add_escaped(out, plain.string);
    }
}

/* Adds a format with its fields filled in; fields may stand in the specs of fields, and no
 * deeper. */
static void format_all(format_job *job, cti_jinja_builder *out, const cti_jinja_string *format,
                       int depth) {
    if (depth < 0) {
        format_fault(job, "Max string recursion exceeded");
        return;
    }
    size_t at = 0;
    while (at < format->size && cti_jinja_step(job->run)) {
        size_t end = at;
        while (end < format->size && format->at[end] != '{' && format->at[end] != '}') end++;
        cti_jinja_add_part(out, format, at, end);
        if (end == format->size) return;
        const char c = format->at[end];
        at = end + 1;
        if (at < format->size && format->at[at] == c) {
            cti_jinja_add_part(out, format, end, at);
            at++;
        } else if (c == '}' || at == format->size) {
            cti_jinja_fail(job->run, "Single '%c' encountered in format string", c);
        } else {
            format_field field;
            if (read_field(job, format, &at, &field)) format_one(job, out, format, &field, depth);
        }
    }
}

cti_jinja_value cti_jinja_str_format(cti_jinja_run *run, const cti_jinja_string *format,
                                     const cti_jinja_value *arg, int64_t n,
                                     const cti_jinja_dict *keywords) {
    format_job job = {
        .run = run, .arg = arg, .n = n, .keywords = keywords, .markup = format->markup};
    cti_jinja_builder out = cti_jinja_build(run);
    format_all(&job, &out, format, 2);
    return cti_jinja_built(&out, format->markup);
}
