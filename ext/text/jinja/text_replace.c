/* text.h: strings put together. */
#include <string.h>

#include "../utf8.h"
#include "number.h"
#include "text.h"

cti_jinja_value cti_jinja_replace(cti_jinja_run *run, const cti_jinja_string *string,
                                  const cti_jinja_string *old, const cti_jinja_string *by,
                                  int64_t most) {
    cti_jinja_builder out = cti_jinja_build(run);
    size_t copied = 0, from = 0;
    for (int64_t n = 0; most < 0 || n < most; n++) {
        const size_t found = cti_jinja_find(string, old, from, string->size, false);
        if (found == SIZE_MAX || !cti_jinja_step(run)) break;
        cti_jinja_add_part(&out, string, copied, found);
        cti_jinja_add_string(&out, by);
        copied = found + old->size;
        from = copied;
        if (old->size) continue;
        if (from == string->size) break; /* '' stands before each character and at the end */
        from += cti_utf8_length((unsigned char)string->at[from]);
    }
    cti_jinja_add_part(&out, string, copied, string->size);
    return cti_jinja_built(&out, string->markup);
}

int64_t cti_jinja_count(cti_jinja_run *run, const cti_jinja_string *string,
                        const cti_jinja_string *what, size_t from, size_t to) {
    if (from > to) return 0;
    if (!what->size) return cti_jinja_index_of(string, to) - cti_jinja_index_of(string, from) + 1;
    int64_t count = 0;
    while (cti_jinja_step(run)) {
        const size_t found = cti_jinja_find(string, what, from, to, false);
        if (found == SIZE_MAX) break;
        count++;
        from = found + what->size;
    }
    return count;
}

cti_jinja_value cti_jinja_pad(cti_jinja_run *run, const cti_jinja_string *string, char align,
                              cti_jinja_value width, const cti_jinja_string *fill) {
    int64_t wanted;
    if (!cti_jinja_int_of(run, width, &wanted)) return width;
    if (fill && fill->length != 1)
        return cti_jinja_fail(run, "The fill character must be exactly one character long");
    const int64_t missing = wanted > string->length ? wanted - string->length : 0;
    int64_t before = align == '<' ? 0 : missing;
    if (align == '^') before = missing / 2 + (missing & wanted & 1);
    cti_jinja_builder out = cti_jinja_build(run);
    for (int64_t i = 0; i <= missing && !run->failed; i++) {
        if (i == before) cti_jinja_add_string(&out, string);
        if (i == missing) break;
        if (fill) cti_jinja_add_string(&out, fill);
        else cti_jinja_add_text(&out, align == '0' ? "0" : " ", width.mark);
    }
    return cti_jinja_built(&out, string->markup);
}

cti_jinja_value cti_jinja_join(cti_jinja_run *run, const cti_jinja_string *separator,
                               cti_jinja_value items) {
    cti_jinja_builder out = cti_jinja_build(run);
    cti_jinja_iterator *iterator = cti_jinja_iterate(run, items);
    int64_t i = 0;
    for (cti_jinja_value item; cti_jinja_next(run, iterator, &item); i++) {
        if (i) cti_jinja_add_string(&out, separator);
        const bool string = item.kind == CTI_JINJA_STRING;
        if (!string && !separator->markup)
            return cti_jinja_fail(run, "sequence item %d: expected str instance, %s found", (int)i,
                                  cti_jinja_type_name(item));
        if (separator->markup && !(string && item.string->markup))
            cti_jinja_add_escaped(&out, cti_jinja_text(run, item));
        else cti_jinja_add_string(&out, item.string);
    }
    return cti_jinja_built(&out, separator->markup);
}

/* ---- HTML ---- */

/* The reference at `at`, which begins with &: its character, and in *size its bytes. Returns 0 if
 * there is none. */
static uint32_t read_named(const char *at, size_t rest, size_t *size) {
    static const struct {
        const char *name;
        uint32_t c;
    } names[] = {{"&amp;", '&'},  {"&lt;", '<'},    {"&gt;", '>'},
                 {"&quot;", '"'}, {"&apos;", '\''}, {"&nbsp;", 0xA0}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        *size = strlen(names[i].name);
        if (*size <= rest && !memcmp(at, names[i].name, *size)) return names[i].c;
    }
    return 0;
}

/* The character of &#123; or &#x7b;, by HTML's rules of what a code is that is no character: *none
 * for one that vanishes. */
static uint32_t read_numbered(const char *at, size_t rest, size_t *size, bool *none) {
    static const uint16_t windows[32] = {
        0x20AC, 0x81,   0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021, 0x2C6,  0x2030, 0x160,
        0x2039, 0x152,  0x8D,   0x17D,  0x8F,   0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
        0x2013, 0x2014, 0x2DC,  0x2122, 0x161,  0x203A, 0x153,  0x9D,   0x17E,  0x178};
    const bool hex = rest > 2 && (at[2] | 0x20) == 'x';
    const char *const digits = "0123456789abcdefABCDEF";
    size_t i = hex ? 3 : 2;
    const size_t first = i;
    uint64_t code = 0;
    for (; i < rest && at[i] && memchr(digits, at[i], hex ? 22 : 10); i++) {
        const int digit = at[i] <= '9' ? at[i] - '0' : (at[i] | 0x20) - 'a' + 10;
        if (code < 0x200000) code = code * (hex ? 16 : 10) + (uint64_t)digit;
    }
    if (i == first) return 0;
    *size = i + (i < rest && at[i] == ';');
    if (code >= 0x80 && code < 0xA0) return windows[code - 0x80];
    if (code == '\r') return '\r';
    if (!code || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return CTI_REPLACEMENT;
    *none = (code < 0x20 && code != '\t' && code != '\n' && code != '\f') || code == 0x7F ||
            (code >= 0xFDD0 && code < 0xFDF0) || (code & 0xFFFE) == 0xFFFE;
    return (uint32_t)code;
}

cti_jinja_value cti_jinja_unescape(cti_jinja_run *run, const cti_jinja_string *string) {
    cti_jinja_builder out = cti_jinja_build(run);
    size_t copied = 0, size;
    for (size_t i = 0; i < string->size; i += size) {
        const char *at = string->at + i;
        const size_t rest = string->size - i;
        size = 1;
        if (*at != '&' || rest < 2) continue;
        bool none = false;
        uint32_t c =
            at[1] == '#' ? read_numbered(at, rest, &size, &none) : read_named(at, rest, &size);
        const char letter = (char)(at[1] | 0x20);
        if (!c && letter >= 'a' && letter <= 'z')
            return cti_jinja_fail(run, "references of HTML are run by number and for amp, lt, gt, "
                                       "quot, apos and nbsp with a semicolon");
        if (!c) {
            size = 1;
            continue;
        }
        char utf8[4];
        cti_jinja_add_part(&out, string, copied, i);
        if (!none) cti_jinja_add(&out, utf8, cti_utf8_put(utf8, c), cti_jinja_mark_at(string, i));
        copied = i + size;
    }
    cti_jinja_add_part(&out, string, copied, string->size);
    return cti_jinja_built(&out, false);
}

/* The end of the tag or comment that begins at a byte; SIZE_MAX if it has none. */
static size_t html_tag_end(const cti_jinja_string *string, size_t at) {
    const bool comment = string->size - at >= 4 && !memcmp(string->at + at, "<!--", 4);
    const cti_jinja_string close = {.at = comment ? "-->" : ">", .size = comment ? 3 : 1};
    const size_t end = cti_jinja_find(string, &close, at + (comment ? 4 : 0), string->size, false);
    return end == SIZE_MAX ? SIZE_MAX : end + close.size;
}

cti_jinja_value cti_jinja_striptags(cti_jinja_run *run, const cti_jinja_string *string) {
    cti_jinja_builder out = cti_jinja_build(run);
    size_t at = 0;
    while (at < string->size) {
        const char *tag = memchr(string->at + at, '<', string->size - at);
        const size_t begin = tag ? (size_t)(tag - string->at) : string->size;
        const size_t end = tag ? html_tag_end(string, begin) : SIZE_MAX;
        if (end == SIZE_MAX) break;
        cti_jinja_add_part(&out, string, at, begin);
        at = end;
    }
    cti_jinja_add_part(&out, string, at, string->size);
    const cti_jinja_value plain = cti_jinja_built(&out, false);
    if (run->failed) return plain;
    cti_jinja_list *words = cti_jinja_split(run, plain.string, NULL, -1, false);
    if (!words) return plain;
    for (int64_t i = 0; i < words->count; i++) {
        if (i) { /* the space stands for white space of the text */
            const size_t behind = (size_t)(words->item[i].string->at - plain.string->at);
            cti_jinja_add_text(&out, " ", cti_jinja_mark_at(plain.string, behind - 1));
        }
        cti_jinja_add_string(&out, words->item[i].string);
    }
    const cti_jinja_value joined = cti_jinja_built(&out, false);
    return run->failed ? joined : cti_jinja_unescape(run, joined.string);
}
