/* The methods of strings. */
#include <string.h>

#include "format.h"
#include "number.h"
#include "text.h"

static const cti_jinja_string *self_of(const cti_jinja_call *call) { return call->receiver.string; }

/* An argument that must be a string; NULL after an error. */
static const cti_jinja_string *string_arg(cti_jinja_run *run, const cti_jinja_call *call, int i) {
    if (call->arg[i].kind == CTI_JINJA_STRING) return call->arg[i].string;
    cti_jinja_fail(run, "%s() argument %d must be str, not %s", call->row->name, i + 1,
                   cti_jinja_type_name(call->arg[i]));
    return NULL;
}

/* A string or, if it is None or was left out, NULL. */
static bool optional_string(cti_jinja_run *run, const cti_jinja_call *call, int i,
                            const cti_jinja_string **string) {
    *string = NULL;
    if (!cti_jinja_is_none(call->arg[i])) *string = string_arg(run, call, i);
    return !run->failed;
}

static bool optional_int(cti_jinja_run *run, const cti_jinja_call *call, int i, int64_t other,
                         int64_t *integer) {
    *integer = other;
    return cti_jinja_is_absent(call->arg[i]) || cti_jinja_int_of(run, call->arg[i], integer);
}

static cti_jinja_value method_upper(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_to_case(run, self_of(call), CTI_JINJA_UPPER);
}
static cti_jinja_value method_lower(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_to_case(run, self_of(call), CTI_JINJA_LOWER);
}
static cti_jinja_value method_title(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_to_case(run, self_of(call), CTI_JINJA_TITLE);
}
static cti_jinja_value method_capitalize(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_to_case(run, self_of(call), CTI_JINJA_CAPITALIZE);
}
static cti_jinja_value method_swapcase(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_to_case(run, self_of(call), CTI_JINJA_SWAPCASE);
}
static cti_jinja_value method_casefold(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_to_case(run, self_of(call), CTI_JINJA_CASEFOLD);
}
static cti_jinja_value method_text_is(cti_jinja_run *run, const cti_jinja_call *call) {
    (void)run;
    return cti_jinja_bool(cti_jinja_characters_are(self_of(call), call->row->name), 0);
}

static cti_jinja_value method_strip(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *chars;
    const char side = call->row->name[0]; /* of strip, lstrip or rstrip */
    if (!optional_string(run, call, 0, &chars)) return call->receiver;
    return cti_jinja_strip(run, self_of(call), chars, side != 'r', side != 'l');
}

static cti_jinja_value method_split(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *separator;
    int64_t most;
    if (!optional_string(run, call, 0, &separator) || !optional_int(run, call, 1, -1, &most))
        return call->receiver;
    return cti_jinja_list_value(
        CTI_JINJA_LIST,
        cti_jinja_split(run, self_of(call), separator, most, call->row->name[0] == 'r'),
        call->receiver.mark);
}

static cti_jinja_value method_splitlines(cti_jinja_run *run, const cti_jinja_call *call) {
    int64_t keep;
    if (!optional_int(run, call, 0, 0, &keep)) return call->receiver;
    return cti_jinja_list_value(CTI_JINJA_LIST, cti_jinja_splitlines(run, self_of(call), keep),
                                call->receiver.mark);
}

static cti_jinja_value method_partition(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *string = self_of(call), *separator = string_arg(run, call, 0);
    const bool right = call->row->name[0] == 'r';
    if (!separator) return call->receiver;
    if (!separator->size) return cti_jinja_fail(run, "empty separator");
    const size_t found = cti_jinja_find(string, separator, 0, string->size, right);
    cti_jinja_list *parts = cti_jinja_list_new(run, 3);
    const size_t nothing = right ? 0 : string->size; /* where it stands if it is not there */
    const size_t begin = found == SIZE_MAX ? nothing : found;
    const size_t end = found == SIZE_MAX ? nothing : found + separator->size;
    cti_jinja_append(run, parts, cti_jinja_substring(run, string, 0, begin));
    cti_jinja_append(run, parts, cti_jinja_substring(run, string, begin, end));
    cti_jinja_append(run, parts, cti_jinja_substring(run, string, end, string->size));
    return cti_jinja_list_value(CTI_JINJA_TUPLE, parts, call->receiver.mark);
}

/* ---- finding ---- */

/* An index of a slice, None or left out; *given is what it is clipped to. */
static bool slice_index(cti_jinja_run *run, cti_jinja_value value, int64_t length, int64_t *given) {
    int64_t index;
    if (cti_jinja_is_none(value)) return true;
    if (!cti_jinja_is_int(value, &index)) {
        cti_jinja_fail(run, "slice indices must be integers or None or have an __index__ method");
        return false;
    }
    if (index < 0) index = index + length < 0 ? 0 : index + length;
    *given = index;
    return true;
}

/* The bytes of arguments `first` and first + 1, as start and end. Returns false after an error;
 * *from > *to if the range lies behind the string. */
static bool byte_range(cti_jinja_run *run, const cti_jinja_call *call, int first, size_t *from,
                       size_t *to) {
    const cti_jinja_string *string = self_of(call);
    int64_t start = 0, end = string->length;
    if (!slice_index(run, call->arg[first], string->length, &start) ||
        !slice_index(run, call->arg[first + 1], string->length, &end))
        return false;
    if (end > string->length) end = string->length;
    *to = cti_jinja_byte_of(string, end);
    *from = start > end ? *to + 1 : cti_jinja_byte_of(string, start);
    return true;
}

static cti_jinja_value method_find(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *string = self_of(call), *what = string_arg(run, call, 0);
    const char *name = call->row->name;
    size_t from, to;
    if (!what || !byte_range(run, call, 1, &from, &to)) return call->receiver;
    const size_t found = cti_jinja_find(string, what, from, to, name[0] == 'r');
    if (found != SIZE_MAX) return cti_jinja_int(cti_jinja_index_of(string, found), 0);
    if (strstr(name, "index")) return cti_jinja_fail(run, "substring not found");
    return cti_jinja_int(-1, 0);
}

static cti_jinja_value method_count(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *what = string_arg(run, call, 0);
    size_t from, to;
    if (!what || !byte_range(run, call, 1, &from, &to)) return call->receiver;
    return cti_jinja_int(cti_jinja_count(run, self_of(call), what, from, to), 0);
}

static bool has_affix(const cti_jinja_string *string, const cti_jinja_string *affix, size_t from,
                      size_t to, bool at_end) {
    if (from > to || affix->size > to - from) return false;
    const size_t at = at_end ? to - affix->size : from;
    return !affix->size || !memcmp(string->at + at, affix->at, affix->size);
}

static cti_jinja_value method_starts(cti_jinja_run *run, const cti_jinja_call *call) {
    const bool at_end = call->row->name[0] == 'e';
    const cti_jinja_value affix = call->arg[0];
    size_t from, to;
    if (affix.kind != CTI_JINJA_STRING && affix.kind != CTI_JINJA_TUPLE)
        return cti_jinja_fail(run, "%s first arg must be str or a tuple of str, not %s",
                              call->row->name, cti_jinja_type_name(affix));
    if (!byte_range(run, call, 1, &from, &to)) return affix;
    const cti_jinja_value *each = affix.kind == CTI_JINJA_TUPLE ? affix.list->item : &affix;
    const int64_t n = affix.kind == CTI_JINJA_TUPLE ? affix.list->count : 1;
    for (int64_t i = 0; i < n && cti_jinja_step(run); i++) {
        if (each[i].kind != CTI_JINJA_STRING)
            return cti_jinja_fail(run, "tuple for %s must only contain str, not %s",
                                  call->row->name, cti_jinja_type_name(each[i]));
        if (has_affix(self_of(call), each[i].string, from, to, at_end))
            return cti_jinja_bool(true, 0);
    }
    return cti_jinja_bool(false, 0);
}

static cti_jinja_value method_remove(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *string = self_of(call), *affix = string_arg(run, call, 0);
    const bool at_end = !strcmp(call->row->name, "removesuffix");
    if (!affix) return call->receiver;
    if (!has_affix(string, affix, 0, string->size, at_end)) return call->receiver;
    return cti_jinja_substring(run, string, at_end ? 0 : affix->size,
                               at_end ? string->size - affix->size : string->size);
}

/* ---- putting together ---- */

static cti_jinja_value method_replace(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *string = self_of(call), *old = string_arg(run, call, 0);
    int64_t most;
    if (!old || !optional_int(run, call, 2, -1, &most)) return call->receiver;
    const cti_jinja_string *by = NULL;
    const bool escape =
        string->markup && !(call->arg[1].kind == CTI_JINJA_STRING && call->arg[1].string->markup);
    if (escape) by = cti_jinja_escaped(run, cti_jinja_text(run, call->arg[1]));
    else by = string_arg(run, call, 1);
    return by ? cti_jinja_replace(run, string, old, by, most) : call->receiver;
}

static cti_jinja_value method_pad(cti_jinja_run *run, const cti_jinja_call *call) {
    const char *name = call->row->name;
    const char align = name[0] == 'c' ? '^' : name[0] == 'l' ? '<' : '>';
    const cti_jinja_string *string = self_of(call), *fill = NULL;
    if (!cti_jinja_is_absent(call->arg[1])) {
        if (string->markup) fill = cti_jinja_escaped(run, cti_jinja_text(run, call->arg[1]));
        else fill = string_arg(run, call, 1);
        if (!fill) return call->receiver;
    }
    return cti_jinja_pad(run, string, align, call->arg[0], fill);
}

/* The zeros stand behind a sign. */
static cti_jinja_value method_zfill(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *string = self_of(call);
    const bool sign = string->size && (string->at[0] == '-' || string->at[0] == '+');
    int64_t width;
    if (!cti_jinja_int_of(run, call->arg[0], &width)) return call->receiver;
    const cti_jinja_value digits = cti_jinja_substring(run, string, sign, string->size);
    if (run->failed) return digits;
    const cti_jinja_value filled =
        cti_jinja_pad(run, digits.string, '0',
                      cti_jinja_int(width - (sign && width > INT64_MIN), call->arg[0].mark), NULL);
    if (run->failed) return filled;
    cti_jinja_builder out = cti_jinja_build(run);
    cti_jinja_add_part(&out, string, 0, sign);
    cti_jinja_add_string(&out, filled.string);
    return cti_jinja_built(&out, string->markup);
}

static cti_jinja_value method_expandtabs(cti_jinja_run *run, const cti_jinja_call *call) {
    const cti_jinja_string *string = self_of(call);
    int64_t size, column = 0;
    if (!optional_int(run, call, 0, 8, &size)) return call->receiver;
    cti_jinja_builder out = cti_jinja_build(run);
    for (size_t i = 0; i < string->size && !run->failed; i++) {
        const char c = string->at[i];
        if (c != '\t') {
            cti_jinja_add_part(&out, string, i, i + 1);
            if (c == '\n' || c == '\r') column = 0;
            else column += ((unsigned char)c & 0xC0) != 0x80;
            continue;
        }
        int64_t spaces = size > 0 ? size - column % size : 0;
        column += spaces;
        for (; spaces > 0 && !run->failed; spaces--)
            cti_jinja_add_text(&out, " ", cti_jinja_mark_at(string, i));
    }
    return cti_jinja_built(&out, string->markup);
}

static cti_jinja_value method_join(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_join(run, self_of(call), call->arg[0]);
}

static cti_jinja_value method_format(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_str_format(run, self_of(call), call->rest, call->rests, call->keywords);
}

static cti_jinja_value method_format_map(cti_jinja_run *run, const cti_jinja_call *call) {
    if (call->arg[0].kind != CTI_JINJA_DICT)
        return cti_jinja_fail(run, "format_map() is run with a dict, not with '%s'",
                              cti_jinja_type_name(call->arg[0]));
    return cti_jinja_str_format(run, self_of(call), NULL, 0, call->arg[0].dict);
}

static cti_jinja_value method_striptags(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_striptags(run, self_of(call));
}
static cti_jinja_value method_unescape(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_unescape(run, self_of(call));
}

#define IS(method)   {.name = (method), .run = method_text_is, .positional = true}
#define CASE(method) {.name = #method, .run = method_##method, .positional = true}
#define STRIP(method)                                                                              \
    {.name = (method), .run = method_strip, .parameter = {"chars"}, .positional = true}
#define SPLIT(method)                                                                              \
    {                                                                                              \
        .name = (method), .run = method_split, .parameter = { "sep", "maxsplit" }                  \
    }
#define RANGED(method, function, what)                                                             \
    {.name = (method),                                                                             \
     .run = (function),                                                                            \
     .parameter = {(what), "start", "end"},                                                        \
     .required = 1,                                                                                \
     .positional = true}
#define ONE(method, function, what)                                                                \
    {.name = (method), .run = (function), .parameter = {(what)}, .required = 1, .positional = true}
#define PAD(method)                                                                                \
    {.name = (method),                                                                             \
     .run = method_pad,                                                                            \
     .parameter = {"width", "fillchar"},                                                           \
     .required = 1,                                                                                \
     .positional = true}
#define REFUSED(method, why) {.name = (method), .refused = (why)}

const cti_jinja_row cti_jinja_string_methods[] = {
    CASE(capitalize),
    CASE(casefold),
    PAD("center"),
    RANGED("count", method_count, "sub"),
    REFUSED("encode", "there are no bytes"),
    RANGED("endswith", method_starts, "suffix"),
    {.name = "expandtabs", .run = method_expandtabs, .parameter = {"tabsize"}},
    RANGED("find", method_find, "sub"),
    {.name = "format", .run = method_format, .rest = true, .keywords = true},
    ONE("format_map", method_format_map, "mapping"),
    RANGED("index", method_find, "sub"),
    IS("isalnum"),
    IS("isalpha"),
    IS("isascii"),
    IS("isdecimal"),
    IS("isdigit"),
    REFUSED("isidentifier", "there are no identifiers"),
    IS("islower"),
    IS("isnumeric"),
    IS("isprintable"),
    IS("isspace"),
    IS("istitle"),
    IS("isupper"),
    ONE("join", method_join, "iterable"),
    PAD("ljust"),
    CASE(lower),
    STRIP("lstrip"),
    REFUSED("maketrans", "there are no tables of characters"),
    ONE("partition", method_partition, "sep"),
    ONE("removeprefix", method_remove, "prefix"),
    ONE("removesuffix", method_remove, "suffix"),
    {.name = "replace",
     .run = method_replace,
     .parameter = {"old", "new", "count"},
     .required = 2,
     .positional = true},
    RANGED("rfind", method_find, "sub"),
    RANGED("rindex", method_find, "sub"),
    PAD("rjust"),
    ONE("rpartition", method_partition, "sep"),
    SPLIT("rsplit"),
    STRIP("rstrip"),
    SPLIT("split"),
    {.name = "splitlines", .run = method_splitlines, .parameter = {"keepends"}},
    RANGED("startswith", method_starts, "prefix"),
    STRIP("strip"),
    CASE(swapcase),
    CASE(title),
    REFUSED("translate", "there are no tables of characters"),
    CASE(upper),
    ONE("zfill", method_zfill, "width"),
    {.name = NULL}};

const cti_jinja_row cti_jinja_markup_methods[] = {REFUSED("escape", "the filter escape does it"),
                                                  CASE(striptags),
                                                  CASE(unescape),
                                                  {.name = NULL}};
