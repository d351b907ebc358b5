/* Filters of HTML and of addresses. */
#include <stdio.h>
#include <string.h>

#include "filters.h"
#include "format.h"
#include "number.h"
#include "text.h"

static const cti_jinja_string *escape_value(cti_jinja_run *run, cti_jinja_value value) {
    const cti_jinja_string *string = cti_jinja_text(run, value);
    return string && !string->markup ? cti_jinja_escaped(run, string) : string;
}

CTI_JINJA_FILTER(escape) {
    const cti_jinja_string *string = escape_value(run, call->arg[0]);
    return string ? cti_jinja_string_value(string) : call->arg[0];
}

CTI_JINJA_FILTER(forceescape) {
    const cti_jinja_string *string = cti_jinja_text(run, call->arg[0]);
    if (string) string = cti_jinja_escaped(run, string);
    return string ? cti_jinja_string_value(string) : call->arg[0];
}

CTI_JINJA_FILTER(safe) {
    const cti_jinja_string *string = cti_jinja_text(run, call->arg[0]);
    return string ? cti_jinja_string_markup(run, string, true) : call->arg[0];
}

CTI_JINJA_FILTER(striptags) {
    const cti_jinja_string *string = cti_jinja_text(run, call->arg[0]);
    return string ? cti_jinja_striptags(run, string) : call->arg[0];
}

/* Adds a text as a part of an address; in a query a space is a plus, and a slash is not plain. */
static void add_quoted(cti_jinja_builder *out, cti_jinja_value value, bool query) {
    const cti_jinja_string *string = cti_jinja_text(out->run, value);
    for (size_t i = 0; string && i < string->size && !out->run->failed; i++) {
        const unsigned char c = (unsigned char)string->at[i];
        const int32_t mark = cti_jinja_mark_at(string, i);
        char code[4];
        const bool letter = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
        if (letter || (c && strchr("_.-~", c)) || (c == '/' && !query))
            cti_jinja_add(out, string->at + i, 1, mark);
        else if (c == ' ' && query) cti_jinja_add_text(out, "+", mark);
        else {
            snprintf(code, sizeof code, "%%%02X", c);
            cti_jinja_add_text(out, code, mark);
        }
    }
}

/* The two items of a pair; false after an error. */
static bool unpack_pair(cti_jinja_run *run, cti_jinja_value pair, cti_jinja_value two[2]) {
    const cti_jinja_list *items = cti_jinja_collect(run, pair);
    if (!items) return false;
    if (items->count != 2) {
        cti_jinja_fail(run, "%s values to unpack (expected 2)",
                       items->count < 2 ? "not enough" : "too many");
        return false;
    }
    two[0] = items->item[0];
    two[1] = items->item[1];
    return true;
}

CTI_JINJA_FILTER(urlencode) {
    cti_jinja_value value = call->arg[0];
    cti_jinja_builder out = cti_jinja_build(run);
    if (value.kind == CTI_JINJA_STRING || !cti_jinja_is_iterable(value)) {
        add_quoted(&out, value, false);
        return cti_jinja_built(&out, false);
    }
    if (value.kind == CTI_JINJA_DICT) {
        const cti_jinja_row *items = cti_jinja_method_find(value, "items", 5);
        value = cti_jinja_row_call(run, items, value, NULL, 0, NULL);
    }
    cti_jinja_iterator *iterator = cti_jinja_iterate(run, value);
    bool first = true;
    for (cti_jinja_value pair, two[2]; cti_jinja_next(run, iterator, &pair); first = false) {
        if (!unpack_pair(run, pair, two)) break;
        if (!first) cti_jinja_add_text(&out, "&", value.mark);
        add_quoted(&out, two[0], true);
        cti_jinja_add_text(&out, "=", value.mark);
        add_quoted(&out, two[1], true);
    }
    return cti_jinja_built(&out, false);
}

CTI_JINJA_FILTER(xmlattr) {
    const cti_jinja_value value = call->arg[0];
    if (value.kind == CTI_JINJA_UNDEFINED) return cti_jinja_undefined_fail(run, value);
    if (value.kind != CTI_JINJA_DICT)
        return cti_jinja_fail(run, "'%s' object has no attribute 'items'",
                              cti_jinja_type_name(value));
    const bool space = cti_jinja_is_absent(call->arg[1]) || cti_jinja_truth(run, call->arg[1]);
    cti_jinja_builder out = cti_jinja_build(run);
    bool first = true;
    for (int64_t i = 0; i < value.dict->count && cti_jinja_step(run); i++) {
        const cti_jinja_entry *entry = &value.dict->entry[i];
        if (cti_jinja_is_none(entry->value) || entry->value.kind == CTI_JINJA_UNDEFINED) continue;
        if (entry->key.kind != CTI_JINJA_STRING)
            return cti_jinja_fail(run, "expected string or bytes-like object, got '%s'",
                                  cti_jinja_type_name(entry->key));
        const cti_jinja_string *key = entry->key.string;
        for (size_t j = 0; j < key->size; j++)
            if (key->at[j] && strchr("\t\n\v\f\r />=", key->at[j]))
                return cti_jinja_fail(run, "Invalid character in attribute name: '%.*s'",
                                      (int)(key->size < 100 ? key->size : 100), key->at);
        if (!first || space) cti_jinja_add_text(&out, " ", value.mark);
        first = false;
        cti_jinja_add_string(&out, escape_value(run, entry->key));
        cti_jinja_add_text(&out, "=\"", value.mark);
        cti_jinja_add_string(&out, escape_value(run, entry->value));
        cti_jinja_add_text(&out, "\"", value.mark);
    }
    return cti_jinja_built(&out, false);
}
