/* Calls of filters, tests and methods from text, "|center 'ab', width=5" or ".split 'a,b', ','" or
 * "is odd 3": the first argument is the value. Values are written as in a template; @1 before a
 * value gives it, and what it holds, the mark 1. */
#ifndef JINJA_LITERALS_H
#define JINJA_LITERALS_H

#include <stdlib.h>
#include <string.h>

#include "ext/text/jinja/value.h"
#include "ext/text/utf8.h"

typedef struct {
    cti_jinja_run *run;
    const char *at;
    int32_t mark;
} literal_reader;

static cti_jinja_value read_literal(literal_reader *reader);

static void skip_gap(literal_reader *reader) { reader->at += strspn(reader->at, " ,:"); }

static cti_jinja_value read_quoted(literal_reader *reader) {
    static const char letters[] = "n\nt\tr\r\\\\''\"\"";
    cti_jinja_builder out = cti_jinja_build(reader->run);
    const char quote = *reader->at++;
    while (*reader->at != quote) {
        if (*reader->at != '\\') {
            cti_jinja_add(&out, reader->at++, 1, reader->mark);
            continue;
        }
        const char letter = *++reader->at, *found = strchr(letters, letter);
        const int digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
        reader->at++;
        if (!digits) {
            cti_jinja_add(&out, found + 1, 1, reader->mark);
            continue;
        }
        char hex[9] = "", utf8[4];
        memcpy(hex, reader->at, (size_t)digits);
        reader->at += digits;
        const size_t size = cti_utf8_put(utf8, (uint32_t)strtoul(hex, NULL, 16));
        cti_jinja_add(&out, utf8, size, reader->mark);
    }
    reader->at++;
    return cti_jinja_built(&out, false);
}

static cti_jinja_value read_items(literal_reader *reader, char close) {
    cti_jinja_list *list = cti_jinja_list_new(reader->run, 0);
    for (reader->at++; *reader->at != close; skip_gap(reader))
        cti_jinja_append(reader->run, list, read_literal(reader));
    reader->at++;
    return cti_jinja_list_value(close == ']' ? CTI_JINJA_LIST : CTI_JINJA_TUPLE, list,
                                reader->mark);
}

static cti_jinja_value read_dict(literal_reader *reader) {
    cti_jinja_dict *dict = cti_jinja_dict_new(reader->run, 0);
    for (reader->at++; *reader->at != '}'; skip_gap(reader)) {
        const cti_jinja_value key = read_literal(reader);
        skip_gap(reader);
        cti_jinja_set(reader->run, dict, key, read_literal(reader));
    }
    reader->at++;
    return cti_jinja_dict_value(dict, reader->mark);
}

static cti_jinja_value read_literal(literal_reader *reader) {
    const int32_t mark = reader->mark;
    const char c = *reader->at;
    if (c == '@') {
        reader->mark = reader->at[1] - '0';
        reader->at += 2;
        skip_gap(reader);
        const cti_jinja_value value = read_literal(reader);
        reader->mark = mark;
        return value;
    }
    if (c == '\'' || c == '"') return read_quoted(reader);
    if (c == '[') return read_items(reader, ']');
    if (c == '(') return read_items(reader, ')');
    if (c == '{') return read_dict(reader);
    const size_t size = strcspn(reader->at, ",]}): ");
    const char *const word = reader->at;
    reader->at += size;
    if (c == 't' || c == 'f') return cti_jinja_bool(c == 't', mark);
    if (c == 'n') return cti_jinja_none(mark);
    char number[64] = "";
    memcpy(number, word, size);
    if (strpbrk(number, ".e")) return cti_jinja_real(strtod(number, NULL), mark);
    return cti_jinja_int(strtoll(number, NULL, 10), mark);
}

/* Reads a call and makes it. */
static inline cti_jinja_value call_literal(cti_jinja_run *run, const char *text) {
    enum { MOST = 16 };
    const char kind = text[0];
    literal_reader reader = {.run = run, .at = text + (kind == 'i' ? 3 : 1)};
    const char *const name = reader.at;
    const size_t size = strcspn(name, " ");
    cti_jinja_value arg[MOST];
    int64_t n = 0;
    cti_jinja_dict *keywords = cti_jinja_dict_new(run, 0);
    reader.at += size;
    for (skip_gap(&reader); *reader.at && n < MOST && !run->failed; skip_gap(&reader)) {
        const size_t word = strspn(reader.at, "abcdefghijklmnopqrstuvwxyz_");
        if (word && reader.at[word] == '=') {
            const cti_jinja_value key = cti_jinja_string_make(run, reader.at, word, 0);
            reader.at += word + 1;
            cti_jinja_set(run, keywords, key, read_literal(&reader));
        } else {
            arg[n++] = read_literal(&reader);
        }
    }
    const cti_jinja_value none = {.kind = CTI_JINJA_ABSENT};
    if (run->failed) return none;
    const cti_jinja_row *row =
        kind == '.'
            ? cti_jinja_method_find(arg[0], name, size)
            : cti_jinja_row_find(kind == '|' ? cti_jinja_filters : cti_jinja_tests, name, size);
    if (!row) return cti_jinja_fail(run, "there is no %s", text);
    const bool method = kind == '.';
    cti_jinja_value result =
        cti_jinja_row_call(run, row, method ? arg[0] : none, arg + method, n - method, keywords);
    if (result.kind == CTI_JINJA_ITERATOR && !run->failed)
        result = cti_jinja_list_value(CTI_JINJA_LIST, cti_jinja_collect(run, result), result.mark);
    return result;
}

#endif
