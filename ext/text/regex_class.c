/* Sets of characters in regular expressions: brackets, escapes and properties. */
#include <string.h>

#include "regex_parse.h"
#include "utf8.h"

uint32_t cti_regex_take_char(cti_regex_parser *p) {
    size_t length;
    const uint32_t c = cti_utf8_get(p->at, &length);
    p->at += length;
    return c;
}

static bool looking_at(const cti_regex_parser *p, const char *text) {
    const size_t size = strlen(text);
    return (size_t)(p->end - p->at) >= size && memcmp(p->at, text, size) == 0;
}

static int value_of_hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads at least `least` and at most `most` hexadecimal digits. */
static bool hex_read(cti_regex_parser *p, int least, int most, uint32_t *c) {
    int n = 0;
    *c = 0;
    for (; n < most && p->at < p->end && value_of_hex(*p->at) >= 0; n++)
        *c = *c * 16 + (uint32_t)value_of_hex(*p->at++);
    return n >= least || cti_regex_fault(p, p->at, "a hexadecimal digit is missing");
}

/* Reads the rest of \x or \u. \xHH above 7F would be a byte and not a character, so it is refused.
 */
static bool number_escape_read(cti_regex_parser *p, bool is_x, uint32_t *c) {
    const char *at = p->at;
    bool works;
    if (is_x && looking_at(p, "{")) {
        p->at++;
        works = hex_read(p, 1, 8, c);
        if (works && !looking_at(p, "}")) works = cti_regex_fault(p, p->at, "'}' is missing");
        p->at++;
    } else {
        works = is_x ? hex_read(p, 1, 2, c) : hex_read(p, 4, 4, c);
        if (works && is_x && *c >= 0x80)
            works = cti_regex_fault(p, at, "a byte above 0x7F is not supported");
    }
    if (!works) return false;
    const bool is_char = *c <= CTI_LAST_CHARACTER && (*c < 0xD800 || *c > 0xDFFF);
    return is_char || cti_regex_fault(p, at, "no such character");
}

static bool is_ascii_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

bool cti_regex_read_char_escape(cti_regex_parser *p, uint32_t *c) {
    static const char names[] = "tnrfvae", values[] = "\t\n\r\f\v\a\x1B";
    const char *at = p->at;
    if (at == p->end) return cti_regex_fault(p, at, "nothing follows the backslash");
    const char *name = *at ? strchr(names, *at) : NULL;
    *c = cti_regex_take_char(p);
    if (name) *c = (unsigned char)values[name - names];
    if (name) return true;
    if (*at == 'x' || *at == 'u') return number_escape_read(p, *at == 'x', c);
    if (*at >= '0' && *at <= '9')
        return cti_regex_fault(p, at, "back-references and octal numbers are not supported");
    return !is_ascii_letter(*at) || cti_regex_fault(p, at, "this escape is not supported");
}

/* Adds a property, or the complement of it. */
static bool property_add(cti_regex_parser *p, cti_set_builder *set, int number, bool negated) {
    if (!number) return cti_regex_fault(p, p->at, "this property of characters is not supported");
    if (!p->property[number].count) cti_property_add(&p->property[number], number);
    if (!negated) {
        cti_set_add_all(set, &p->property[number]);
        return true;
    }
    cti_set_builder part = {0};
    cti_set_add_all(&part, &p->property[number]);
    cti_set_negate(&part);
    cti_set_add_all(set, &part);
    cti_set_free(&part);
    return true;
}

/* Reads {NAME} or {^NAME}. */
static bool property_read(cti_regex_parser *p, cti_set_builder *set, bool bracket, bool negated) {
    if (!looking_at(p, "{")) return cti_regex_fault(p, p->at, "'{' is missing");
    p->at++;
    if (looking_at(p, "^")) {
        negated = !negated;
        p->at++;
    }
    const char *close = memchr(p->at, '}', (size_t)(p->end - p->at));
    if (!close) return cti_regex_fault(p, p->at, "'}' is missing");
    int number = cti_property_number(p->at, (size_t)(close - p->at));
    if (bracket) number = cti_property_in_bracket(number, false);
    if (!property_add(p, set, number, negated)) return false;
    p->at = close + 1;
    return true;
}

bool cti_regex_read_set_escape(cti_regex_parser *p, cti_set_builder *set, bool bracket,
                               bool *is_set) {
    static const char letters[] = "sSdDwWhH";
    static const char *const names[] = {"space", "digit", "word", "xdigit"};
    *is_set = false;
    if (p->at == p->end || !*p->at) return true;
    const char letter = *p->at, *place = strchr(letters, letter);
    if (!place && letter != 'p' && letter != 'P') return true;
    *is_set = true;
    p->at++;
    if (!place) return property_read(p, set, bracket, letter == 'P');
    const size_t i = (size_t)(place - letters);
    int number = cti_property_number(names[i / 2], strlen(names[i / 2]));
    if (bracket) number = cti_property_in_bracket(number, false);
    return property_add(p, set, number, i % 2);
}

/* Reads [:NAME:] or [:^NAME:] if that is at p->at. */
static bool posix_read(cti_regex_parser *p, cti_set_builder *set, bool *is_posix) {
    *is_posix = false;
    if (!looking_at(p, "[:")) return true;
    const char *name = p->at + 2;
    const char *close = memchr(name, ']', (size_t)(p->end - name));
    if (!close || close == name || close[-1] != ':') return true;
    *is_posix = true;
    const bool negated = *name == '^';
    if (negated) name++;
    const size_t size = close - 1 > name ? (size_t)(close - 1 - name) : 0;
    const int number = cti_property_in_bracket(cti_property_number(name, size), true);
    if (!property_add(p, set, number, negated)) return false;
    p->at = close + 1;
    return true;
}

/* An item of a bracket that is one character, which may begin a range. */
static bool class_item_char_read(cti_regex_parser *p, uint32_t *c) {
    if (*p->at != '\\') {
        *c = cti_regex_take_char(p);
        return true;
    }
    p->at++;
    if (looking_at(p, "b")) {
        p->at++;
        *c = '\b';
        return true;
    }
    return cti_regex_read_char_escape(p, c);
}

/* Reads a character or a range of characters. */
static bool class_item_read(cti_regex_parser *p, cti_set_builder *set) {
    const char *begin = p->at;
    uint32_t first;
    if (!class_item_char_read(p, &first)) return false;
    if (!looking_at(p, "-") || looking_at(p, "-]")) {
        cti_set_add(set, first, first);
        return true;
    }
    p->at++;
    const char *at = p->at;
    bool is_set = false;
    cti_set_builder none = {0};
    if (looking_at(p, "[") || looking_at(p, "&&"))
        return cti_regex_fault(p, at, "a set ends a range");
    if (looking_at(p, "\\")) {
        p->at++;
        const bool works = cti_regex_read_set_escape(p, &none, true, &is_set);
        cti_set_free(&none);
        if (!works) return false;
        if (is_set) return cti_regex_fault(p, at, "a set ends a range");
        p->at = at;
    }
    uint32_t last;
    if (p->at == p->end) return cti_regex_fault(p, at, "']' is missing");
    if (!class_item_char_read(p, &last)) return false;
    if (last < first) return cti_regex_fault(p, begin, "the range is empty");
    cti_set_add(set, first, last);
    /* A '-' behind a range is itself. */
    if (!looking_at(p, "-") || looking_at(p, "-]")) return true;
    p->at++;
    cti_set_add(set, '-', '-');
    return true;
}

/* Reads one of [set], [:name:], \s, a character or a range. */
static bool class_items_read(cti_regex_parser *p, cti_set_builder *set) {
    bool is_read = false;
    if (looking_at(p, "[")) {
        if (!posix_read(p, set, &is_read)) return false;
        if (is_read) return true;
        p->at++;
        cti_set_builder inner = {0};
        bool negated;
        const bool works = cti_regex_read_bracket(p, &inner, &negated);
        if (works && negated) cti_set_negate(&inner);
        cti_set_add_all(set, &inner);
        cti_set_free(&inner);
        return works;
    }
    if (!looking_at(p, "\\")) return class_item_read(p, set);
    const char *begin = p->at++;
    if (!cti_regex_read_set_escape(p, set, true, &is_read)) return false;
    if (!is_read) {
        p->at = begin;
        return class_item_read(p, set);
    }
    if (looking_at(p, "-") && !looking_at(p, "-]"))
        return cti_regex_fault(p, p->at, "a set begins a range");
    return true;
}

/* Reads up to the bracket's end: items, and && between them. */
static bool bracket_body_read(cti_regex_parser *p, cti_set_builder *set) {
    cti_set_builder left = {0}; /* the intersection of the parts before the last && */
    bool has_left = false, works = true;
    const char *begin = p->at;
    while (works && p->at < p->end && (*p->at != ']' || p->at == begin)) {
        if (!looking_at(p, "&&")) {
            works = class_items_read(p, set);
            continue;
        }
        p->at += 2;
        if (has_left) cti_set_intersect(set, &left);
        cti_set_free(&left);
        left = *set;
        *set = (cti_set_builder){.failed = left.failed};
        has_left = true;
    }
    if (works && p->at == p->end) works = cti_regex_fault(p, p->at, "']' is missing");
    if (works) p->at++;
    if (has_left) cti_set_intersect(set, &left);
    cti_set_free(&left);
    return works;
}

bool cti_regex_read_bracket(cti_regex_parser *p, cti_set_builder *set, bool *negated) {
    const char *begin = p->at;
    *negated = looking_at(p, "^");
    if (p->depth == CTI_REGEX_DEPTH)
        return cti_regex_fault(p, begin, "brackets are nested too deeply");
    if (*negated) p->at++;
    p->depth++;
    const bool works = bracket_body_read(p, set);
    p->depth--;
    return works;
}
