/* Filters of text. */
#include <string.h>

#include "../unicode.h"
#include "../utf8.h"
#include "filters.h"
#include "format.h"
#include "number.h"
#include "text.h"

/* Argument 0 as a string, which stays Markup. */
static const cti_jinja_string *filter_string(cti_jinja_run *run, const cti_jinja_call *call) {
    return cti_jinja_text(run, call->arg[0]);
}

static cti_jinja_value filter_case(cti_jinja_run *run, const cti_jinja_call *call,
                                   cti_jinja_case to) {
    const cti_jinja_string *string = filter_string(run, call);
    return string ? cti_jinja_to_case(run, string, to) : call->arg[0];
}
CTI_JINJA_FILTER(upper) { return filter_case(run, call, CTI_JINJA_UPPER); }
CTI_JINJA_FILTER(lower) { return filter_case(run, call, CTI_JINJA_LOWER); }
CTI_JINJA_FILTER(capitalize) { return filter_case(run, call, CTI_JINJA_CAPITALIZE); }

CTI_JINJA_FILTER(string) {
    const cti_jinja_string *string = filter_string(run, call);
    return string ? cti_jinja_string_value(string) : call->arg[0];
}

/* Whether a word begins behind the character: - ( { [ < or white space. */
static bool is_word_start(uint32_t c) {
    return (c && c < 0x80 && strchr("-({[<", (int)c)) || cti_python_is_space(c);
}

/* The first letter of each part upper, the others lower; unlike str.title it's -> It's. */
CTI_JINJA_FILTER(title) {
    const cti_jinja_string *string = filter_string(run, call);
    if (!string) return call->arg[0];
    cti_jinja_builder out = cti_jinja_build(run);
    size_t length;
    for (size_t begin = 0, end; begin < string->size && cti_jinja_step(run); begin = end) {
        end = begin;
        const bool gap = is_word_start(cti_utf8_get(string->at + end, &length));
        while (end < string->size && is_word_start(cti_utf8_get(string->at + end, &length)) == gap)
            end += length;
        const size_t second = begin + cti_utf8_length((unsigned char)string->at[begin]);
        const cti_jinja_value first = cti_jinja_substring(run, string, begin, second);
        const cti_jinja_value others = cti_jinja_substring(run, string, second, end);
        if (run->failed) break;
        const cti_jinja_value upper = cti_jinja_to_case(run, first.string, CTI_JINJA_UPPER);
        const cti_jinja_value lower = cti_jinja_to_case(run, others.string, CTI_JINJA_LOWER);
        if (run->failed) break;
        cti_jinja_add_string(&out, upper.string);
        cti_jinja_add_string(&out, lower.string);
    }
    return cti_jinja_built(&out, false);
}

CTI_JINJA_FILTER(trim) {
    const cti_jinja_string *string = filter_string(run, call), *chars = NULL;
    if (!cti_jinja_is_none(call->arg[1])) {
        if (call->arg[1].kind != CTI_JINJA_STRING)
            return cti_jinja_fail(run, "strip arg must be None or str");
        chars = call->arg[1].string;
    }
    return string ? cti_jinja_strip(run, string, chars, true, true) : call->arg[0];
}

CTI_JINJA_FILTER(center) {
    const cti_jinja_string *string = filter_string(run, call);
    const cti_jinja_value width =
        cti_jinja_is_absent(call->arg[1]) ? cti_jinja_int(80, 0) : call->arg[1];
    return string ? cti_jinja_pad(run, string, '^', width, NULL) : call->arg[0];
}

CTI_JINJA_FILTER(replace) {
    const cti_jinja_string *string = filter_string(run, call);
    const cti_jinja_string *old = cti_jinja_text(run, call->arg[1]);
    const cti_jinja_string *by = cti_jinja_text(run, call->arg[2]);
    int64_t most = -1;
    if (!cti_jinja_is_none(call->arg[3])) cti_jinja_int_of(run, call->arg[3], &most);
    if (run->failed) return call->arg[0];
    const cti_jinja_value replaced = cti_jinja_replace(run, string, old, by, most);
    if (run->failed || !replaced.string->markup) return replaced;
    return cti_jinja_string_markup(run, replaced.string, false);
}

CTI_JINJA_FILTER(format) {
    const cti_jinja_string *string = filter_string(run, call);
    if (call->rests && call->keywords->count)
        return cti_jinja_fail(run, "can't handle positional and keyword arguments at the same "
                                   "time");
    if (!string) return call->arg[0];
    if (call->keywords->count)
        return cti_jinja_percent(run, string, cti_jinja_dict_value(call->keywords, 0));
    cti_jinja_list *arguments = cti_jinja_list_new(run, call->rests);
    for (int64_t i = 0; i < call->rests; i++) cti_jinja_append(run, arguments, call->rest[i]);
    return cti_jinja_percent(run, string, cti_jinja_list_value(CTI_JINJA_TUPLE, arguments, 0));
}

/* The indent is a string, or so many spaces, which have the number's mark. */
static const cti_jinja_string *indent_of(cti_jinja_run *run, cti_jinja_value width) {
    if (width.kind == CTI_JINJA_STRING) return width.string;
    if (cti_jinja_is_absent(width)) width = cti_jinja_int(4, 0);
    const cti_jinja_value space = cti_jinja_string_view(run, " ", 1, width.mark);
    const cti_jinja_value indent = cti_jinja_arithmetic(run, "*", space, width);
    return run->failed ? NULL : indent.string;
}

/* The lines are those of splitlines; each of their ends becomes \n, and a last one is dropped. */
CTI_JINJA_FILTER(indent) {
    enum { TEXT, WIDTH, FIRST, BLANK };
    const cti_jinja_value text = call->arg[TEXT];
    if (text.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, text);
    if (text.kind != CTI_JINJA_STRING)
        return cti_jinja_fail(run, "indent wants a string, not '%s'", cti_jinja_type_name(text));
    const cti_jinja_string *string = text.string, *indent = indent_of(run, call->arg[WIDTH]);
    if (!indent) return text;
    if (indent->markup && !string->markup)
        return cti_jinja_fail(run, "indent by a Markup is run for Markup only");
    const bool first = cti_jinja_truth(run, call->arg[FIRST]);
    const bool blank = cti_jinja_truth(run, call->arg[BLANK]);
    cti_jinja_builder out = cti_jinja_build(run);
    if (first) cti_jinja_add_string(&out, indent);
    size_t begin = 0, next = 0;
    while (cti_jinja_step(run)) {
        const size_t end = cti_jinja_line_end(string, begin, &next);
        if (begin && (end > begin || blank)) cti_jinja_add_string(&out, indent);
        cti_jinja_add_part(&out, string, begin, end);
        if (end == string->size) break; /* the text does not end with a line's end */
        cti_jinja_add_text(&out, "\n", cti_jinja_mark_at(string, end));
        begin = next;
    }
    return cti_jinja_built(&out, string->markup);
}

/* s[:length - len(end)], then without its last word unless words may be cut, then end. */
CTI_JINJA_FILTER(truncate) {
    enum { TEXT, LENGTH, KILLWORDS, END, LEEWAY };
    const cti_jinja_value text = call->arg[TEXT];
    const cti_jinja_value length =
        cti_jinja_is_absent(call->arg[LENGTH]) ? cti_jinja_int(255, 0) : call->arg[LENGTH];
    const cti_jinja_value end = cti_jinja_is_absent(call->arg[END])
                                    ? cti_jinja_string_view(run, "...", 3, 0)
                                    : call->arg[END];
    const cti_jinja_value leeway =
        cti_jinja_is_none(call->arg[LEEWAY]) ? cti_jinja_int(5, 0) : call->arg[LEEWAY];
    const cti_jinja_value cut = cti_jinja_int(cti_jinja_length(run, end), 0);
    if (!cti_jinja_compare(run, ">=", length, cut))
        return cti_jinja_fail(run, "expected length >= len(end)");
    if (!cti_jinja_compare(run, ">=", leeway, cti_jinja_int(0, 0)))
        return cti_jinja_fail(run, "expected leeway >= 0");
    const cti_jinja_value size = cti_jinja_int(cti_jinja_length(run, text), 0);
    if (cti_jinja_compare(run, "<=", size, cti_jinja_arithmetic(run, "+", length, leeway)))
        return text;
    const cti_jinja_value none = cti_jinja_none(0);
    cti_jinja_value kept =
        cti_jinja_slice(run, text, none, cti_jinja_arithmetic(run, "-", length, cut), none);
    if (run->failed) return text;
    if (!cti_jinja_truth(run, call->arg[KILLWORDS])) {
        if (kept.kind != CTI_JINJA_STRING)
            return cti_jinja_fail(run, "'%s' object has no attribute 'rsplit'",
                                  cti_jinja_type_name(kept));
        const cti_jinja_string space = {.at = " ", .size = 1, .length = 1};
        const size_t last = cti_jinja_find(kept.string, &space, 0, kept.string->size, true);
        if (last != SIZE_MAX) kept = cti_jinja_substring(run, kept.string, 0, last);
    }
    return cti_jinja_arithmetic(run, "+", kept, end);
}

/* The number of runs of letters, digits and _. */
CTI_JINJA_FILTER(wordcount) {
    const cti_jinja_string *string = filter_string(run, call);
    if (!string) return call->arg[0];
    int64_t count = 0;
    bool in_word = false;
    size_t size;
    for (size_t i = 0; i < string->size; i += size) {
        const uint32_t c = cti_utf8_get(string->at + i, &size);
        const bool word = c == '_' || cti_python_is_alpha(c) || cti_python_is_numeric(c) ||
                          cti_python_is_digit(c);
        count += word && !in_word;
        in_word = word;
    }
    return cti_jinja_int(count, call->arg[0].mark);
}
