/* text.h: upper and lower case, and what characters are. */
#include <string.h>

#include "../unicode.h"
#include "../utf8.h"
#include "text.h"

enum { CAPITAL_SIGMA = 0x3A3, SIGMA = 0x3C3, FINAL_SIGMA = 0x3C2 };

static bool is_cased(uint32_t c) {
    return cti_python_is_lower(c) || cti_python_is_upper(c) || cti_python_is_title(c);
}

static uint32_t letter_before(const cti_jinja_string *string, size_t *at) {
    size_t length;
    do --*at;
    while (cti_utf8_continues(string->at[*at]));
    return cti_utf8_get(string->at + *at, &length);
}

/* Whether a sigma is the last letter of a word: a letter with a case stands before it and none
 * behind it. Accents and the like may stand between. */
static bool is_final_sigma(const cti_jinja_string *string, size_t at, size_t behind) {
    uint32_t c = '.';
    while (at && cti_python_is_case_ignorable(c)) c = letter_before(string, &at);
    if (!is_cased(c) || cti_python_is_case_ignorable(c)) return false;
    c = '.';
    for (size_t length; behind < string->size && cti_python_is_case_ignorable(c); behind += length)
        c = cti_utf8_get(string->at + behind, &length);
    return !is_cased(c) || cti_python_is_case_ignorable(c);
}

static int lower_in_context(const cti_jinja_string *string, size_t at, size_t behind, uint32_t c,
                            uint32_t out[CTI_FOLDED]) {
    if (c != CAPITAL_SIGMA) return cti_unicode_lower(c, out);
    out[0] = is_final_sigma(string, at, behind) ? FINAL_SIGMA : SIGMA;
    return 1;
}

cti_jinja_value cti_jinja_to_case(cti_jinja_run *run, const cti_jinja_string *string,
                                  cti_jinja_case to) {
    cti_jinja_builder out = cti_jinja_build(run);
    bool in_word = false; /* behind a letter with a case */
    size_t length;
    for (size_t i = 0; i < string->size && !run->failed; i += length) {
        const uint32_t c = cti_utf8_get(string->at + i, &length);
        uint32_t made[CTI_FOLDED] = {c};
        int n = 1;
        const bool title =
            (to == CTI_JINJA_TITLE && !in_word) || (to == CTI_JINJA_CAPITALIZE && !i);
        const bool upper =
            to == CTI_JINJA_UPPER || (to == CTI_JINJA_SWAPCASE && cti_python_is_lower(c));
        if (title) n = cti_unicode_title(c, made);
        else if (upper) n = cti_unicode_upper(c, made);
        else if (to == CTI_JINJA_CASEFOLD) n = cti_unicode_full_fold(c, made);
        else if (to != CTI_JINJA_SWAPCASE || cti_python_is_upper(c))
            n = lower_in_context(string, i, i + length, c, made);
        if (to == CTI_JINJA_TITLE) in_word = is_cased(c);
        char utf8[4 * CTI_FOLDED];
        size_t size = 0;
        for (int j = 0; j < n; j++) size += cti_utf8_put(utf8 + size, made[j]);
        cti_jinja_add(&out, utf8, size, cti_jinja_mark_at(string, i));
    }
    return cti_jinja_built(&out, string->markup);
}

static bool is_ascii_character(uint32_t c) { return c < 0x80; }

static bool is_alnum(uint32_t c) {
    return cti_python_is_alpha(c) || cti_python_is_decimal(c) || cti_python_is_digit(c) ||
           cti_python_is_numeric(c);
}

/* isupper, islower, istitle: whether letters with a case have the right one, and there is one. */
static bool case_is(const cti_jinja_string *string, const char *name) {
    bool found = false, in_word = false;
    size_t length;
    for (size_t i = 0; i < string->size; i += length) {
        const uint32_t c = cti_utf8_get(string->at + i, &length);
        const bool upper = cti_python_is_upper(c), lower = cti_python_is_lower(c);
        const bool title = cti_python_is_title(c);
        if (name[2] == 'u' && (lower || title)) return false;
        if (name[2] == 'l' && (upper || title)) return false;
        if (name[2] == 't' && ((upper || title) ? in_word : lower && !in_word)) return false;
        in_word = upper || lower || title;
        found = found || in_word;
    }
    return found;
}

bool cti_jinja_characters_are(const cti_jinja_string *string, const char *name) {
    static const struct {
        const char *name;
        bool (*is)(uint32_t c);
        bool empty;
    } kinds[] = {
        {"isalpha", cti_python_is_alpha, false},        {"isalnum", is_alnum, false},
        {"isdecimal", cti_python_is_decimal, false},    {"isdigit", cti_python_is_digit, false},
        {"isnumeric", cti_python_is_numeric, false},    {"isspace", cti_python_is_space, false},
        {"isprintable", cti_python_is_printable, true}, {"isascii", is_ascii_character, true}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (strcmp(kinds[k].name, name)) continue;
        size_t length;
        for (size_t i = 0; i < string->size; i += length)
            if (!kinds[k].is(cti_utf8_get(string->at + i, &length))) return false;
        return string->size || kinds[k].empty;
    }
    return case_is(string, name);
}
