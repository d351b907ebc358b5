/* str(value), repr(value) and HTML escapes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../unicode.h"
#include "../utf8.h"
#include "number.h"

/* The escape of a character in a repr between quotes; 0 if it stands for itself. */
static size_t escape_character(uint32_t c, char quote, char out[12]) {
    const char *letter = c == '\n'   ? "n"
                         : c == '\r' ? "r"
                         : c == '\t' ? "t"
                         : c == '\\' ? "\\"
                                     : "";
    if (c == (unsigned char)quote) {
        out[0] = '\\';
        out[1] = quote;
        return 2;
    }
    if (*letter) return (size_t)snprintf(out, 12, "\\%s", letter);
    if (cti_python_is_printable(c)) return 0;
    const char *format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    return (size_t)snprintf(out, 12, format, (unsigned)c);
}

static void repr_string(cti_jinja_builder *out, const cti_jinja_string *string, int32_t quotes) {
    const bool single = string->size && memchr(string->at, '\'', string->size);
    const char quote = single && !memchr(string->at, '"', string->size) ? '"' : '\'';
    if (string->markup) cti_jinja_add_text(out, "Markup(", quotes);
    cti_jinja_add(out, &quote, 1, quotes);
    size_t copied = 0, length;
    for (size_t i = 0; i < string->size; i += length) {
        char escape[12];
        const uint32_t c = cti_utf8_get(string->at + i, &length);
        const size_t size = escape_character(c, quote, escape);
        if (!size) continue;
        cti_jinja_add_part(out, string, copied, i);
        cti_jinja_add(out, escape, size, cti_jinja_mark_at(string, i));
        copied = i + length;
    }
    cti_jinja_add_part(out, string, copied, string->size);
    cti_jinja_add(out, &quote, 1, quotes);
    if (string->markup) cti_jinja_add_text(out, ")", quotes);
}

static void repr_items(cti_jinja_builder *out, cti_jinja_value value, const char *open,
                       const char *close) {
    cti_jinja_run *run = out->run;
    cti_jinja_add_text(out, open, value.mark);
    for (int64_t i = 0; i < value.list->count && cti_jinja_step(run); i++) {
        if (i) cti_jinja_add_text(out, ", ", value.mark);
        cti_jinja_repr(out, value.list->item[i], value.mark);
    }
    if (value.kind == CTI_JINJA_TUPLE && value.list->count == 1)
        cti_jinja_add_text(out, ",", value.mark);
    cti_jinja_add_text(out, close, value.mark);
}

static void repr_dict(cti_jinja_builder *out, const cti_jinja_dict *dict, int32_t mark) {
    cti_jinja_add_text(out, "{", mark);
    for (int64_t i = 0; i < dict->count && cti_jinja_step(out->run); i++) {
        if (i) cti_jinja_add_text(out, ", ", mark);
        cti_jinja_repr(out, dict->entry[i].key, mark);
        cti_jinja_add_text(out, ": ", mark);
        cti_jinja_repr(out, dict->entry[i].value, mark);
    }
    cti_jinja_add_text(out, "}", mark);
}

static void repr_range(cti_jinja_builder *out, const cti_jinja_list *range, int32_t mark) {
    char text[3 * 24];
    int size =
        snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, range->start, range->stop);
    if (range->step != 1)
        size += snprintf(text + size, sizeof text - (size_t)size, ", %" PRId64, range->step);
    cti_jinja_add(out, text, (size_t)size, mark);
    cti_jinja_add_text(out, ")", mark);
}

/* What holds other values. */
static void repr_container(cti_jinja_builder *out, cti_jinja_value value) {
    if (!cti_jinja_enter(out->run)) return;
    switch (value.kind) {
    case CTI_JINJA_LIST: repr_items(out, value, "[", "]"); break;
    case CTI_JINJA_TUPLE: repr_items(out, value, "(", ")"); break;
    case CTI_JINJA_VIEW:
        cti_jinja_add_text(out, value.list->name, value.mark);
        repr_items(out, value, "([", "])");
        break;
    case CTI_JINJA_NAMESPACE:
        cti_jinja_add_text(out, "<Namespace ", value.mark);
        repr_dict(out, value.space, value.mark);
        cti_jinja_add_text(out, ">", value.mark);
        break;
    default: repr_dict(out, value.dict, value.mark); break;
    }
    cti_jinja_leave(out->run);
}

void cti_jinja_repr(cti_jinja_builder *out, cti_jinja_value value, int32_t quotes) {
    char text[CTI_JINJA_DIGITS];
    switch (value.kind) {
    case CTI_JINJA_UNDEFINED: cti_jinja_add_text(out, "Undefined", value.mark); return;
    case CTI_JINJA_NONE: cti_jinja_add_text(out, "None", value.mark); return;
    case CTI_JINJA_BOOL:
        cti_jinja_add_text(out, value.boolean ? "True" : "False", value.mark);
        return;
    case CTI_JINJA_INT:
        snprintf(text, sizeof text, "%" PRId64, value.integer);
        cti_jinja_add_text(out, text, value.mark);
        return;
    case CTI_JINJA_REAL:
        cti_jinja_real_text(value.real, text);
        cti_jinja_add_text(out, text, value.mark);
        return;
    case CTI_JINJA_STRING: repr_string(out, value.string, quotes); return;
    case CTI_JINJA_RANGE_OBJECT: repr_range(out, value.list, value.mark); return;
    case CTI_JINJA_LIST:
    case CTI_JINJA_TUPLE:
    case CTI_JINJA_VIEW:
    case CTI_JINJA_NAMESPACE:
    case CTI_JINJA_DICT: repr_container(out, value); return;
    default:
        cti_jinja_fail(out->run, "a '%s' has no text: Python prints its address",
                       cti_jinja_type_name(value));
    }
}

void cti_jinja_print(cti_jinja_builder *out, cti_jinja_value value) {
    if (value.kind == CTI_JINJA_STRING) cti_jinja_add_string(out, value.string);
    else if (value.kind != CTI_JINJA_UNDEFINED) cti_jinja_repr(out, value, value.mark);
}

const cti_jinja_string *cti_jinja_text(cti_jinja_run *run, cti_jinja_value value) {
    if (run->failed) return NULL;
    if (value.kind == CTI_JINJA_STRING) return value.string;
    cti_jinja_builder out = cti_jinja_build(run);
    cti_jinja_print(&out, value);
    const cti_jinja_value text = cti_jinja_built(&out, false);
    return run->failed ? NULL : text.string;
}

void cti_jinja_add_escaped(cti_jinja_builder *out, const cti_jinja_string *string) {
    if (!string) return;
    size_t copied = 0;
    for (size_t i = 0; i < string->size; i++) {
        const char c = string->at[i];
        const char *escape = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '\'' ? "&#39;"
                             : c == '"'  ? "&#34;"
                                         : NULL;
        if (!escape) continue;
        cti_jinja_add_part(out, string, copied, i);
        cti_jinja_add_text(out, escape, cti_jinja_mark_at(string, i));
        copied = i + 1;
    }
    cti_jinja_add_part(out, string, copied, string->size);
}
