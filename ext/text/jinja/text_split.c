/* text.h: strings cut to parts. */
#include <string.h>

#include "../unicode.h"
#include "../utf8.h"
#include "text.h"

static bool contains_character(const cti_jinja_string *chars, uint32_t c) {
    size_t length;
    for (size_t i = 0; i < chars->size; i += length)
        if (cti_utf8_get(chars->at + i, &length) == c) return true;
    return false;
}

/* Whether the character at a byte is stripped: one of `chars`, or white space. */
static bool is_stripped(const cti_jinja_string *string, size_t at, const cti_jinja_string *chars,
                        size_t *length) {
    const uint32_t c = cti_utf8_get(string->at + at, length);
    return chars ? contains_character(chars, c) : cti_python_is_space(c);
}

/* The beginning of the character before a byte. */
static size_t step_back(const cti_jinja_string *string, size_t at) {
    do at--;
    while (cti_utf8_continues(string->at[at]));
    return at;
}

cti_jinja_value cti_jinja_strip(cti_jinja_run *run, const cti_jinja_string *string,
                                const cti_jinja_string *chars, bool left, bool right) {
    size_t begin = 0, end = string->size, length;
    while (left && begin < end && is_stripped(string, begin, chars, &length)) begin += length;
    while (right && end > begin) {
        const size_t last = step_back(string, end);
        if (!is_stripped(string, last, chars, &length)) break;
        end = last;
    }
    return cti_jinja_substring(run, string, begin, end);
}

static void append_part(cti_jinja_run *run, cti_jinja_list *list, const cti_jinja_string *string,
                        size_t begin, size_t end) {
    if (cti_jinja_step(run))
        cti_jinja_append(run, list, cti_jinja_substring(run, string, begin, end));
}

static void reverse_items(cti_jinja_list *list) {
    for (int64_t i = 0, j = list ? list->count - 1 : 0; i < j; i++, j--) {
        const cti_jinja_value item = list->item[i];
        list->item[i] = list->item[j];
        list->item[j] = item;
    }
}

/* The end of the white space, or of what is none, that begins at a byte. */
static size_t pass_over(const cti_jinja_string *string, size_t at, bool space) {
    size_t length;
    while (at < string->size && is_stripped(string, at, NULL, &length) == space) at += length;
    return at;
}
static size_t pass_back(const cti_jinja_string *string, size_t at, bool space) {
    size_t length;
    while (at) {
        const size_t last = step_back(string, at);
        if (is_stripped(string, last, NULL, &length) != space) break;
        at = last;
    }
    return at;
}

static void split_words(cti_jinja_run *run, cti_jinja_list *list, const cti_jinja_string *string,
                        int64_t most) {
    size_t at = pass_over(string, 0, true);
    while (at < string->size && !run->failed) {
        const bool rest = most >= 0 && list->count == most;
        const size_t end = rest ? string->size : pass_over(string, at, false);
        append_part(run, list, string, at, end);
        at = pass_over(string, end, true);
    }
}

static void split_words_right(cti_jinja_run *run, cti_jinja_list *list,
                              const cti_jinja_string *string, int64_t most) {
    size_t at = pass_back(string, string->size, true);
    while (at && !run->failed) {
        const bool rest = most >= 0 && list->count == most;
        const size_t begin = rest ? 0 : pass_back(string, at, false);
        append_part(run, list, string, begin, at);
        at = pass_back(string, begin, true);
    }
    reverse_items(list);
}

static void split_at(cti_jinja_run *run, cti_jinja_list *list, const cti_jinja_string *string,
                     const cti_jinja_string *separator, int64_t most, bool right) {
    size_t begin = 0, end = string->size;
    while (!run->failed) {
        const bool rest = most >= 0 && list->count == most;
        const size_t found = rest ? SIZE_MAX : cti_jinja_find(string, separator, begin, end, right);
        if (found == SIZE_MAX) break;
        if (right) append_part(run, list, string, found + separator->size, end);
        else append_part(run, list, string, begin, found);
        if (right) end = found;
        else begin = found + separator->size;
    }
    append_part(run, list, string, begin, end);
    if (right) reverse_items(list);
}

cti_jinja_list *cti_jinja_split(cti_jinja_run *run, const cti_jinja_string *string,
                                const cti_jinja_string *separator, int64_t most, bool right) {
    cti_jinja_list *list = cti_jinja_list_new(run, 0);
    if (!list) return NULL;
    if (separator && !separator->size) cti_jinja_fail(run, "empty separator");
    else if (separator) split_at(run, list, string, separator, most, right);
    else if (right) split_words_right(run, list, string, most);
    else split_words(run, list, string, most);
    return run->failed ? NULL : list;
}

static bool is_line_break(uint32_t c) {
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

size_t cti_jinja_line_end(const cti_jinja_string *string, size_t begin, size_t *next) {
    size_t length;
    for (size_t i = begin; i < string->size; i += length) {
        const uint32_t c = cti_utf8_get(string->at + i, &length);
        if (!is_line_break(c)) continue;
        *next = i + length;
        if (c == '\r' && *next < string->size && string->at[*next] == '\n') ++*next;
        return i;
    }
    *next = string->size;
    return string->size;
}

cti_jinja_list *cti_jinja_splitlines(cti_jinja_run *run, const cti_jinja_string *string,
                                     bool keep_ends) {
    cti_jinja_list *list = cti_jinja_list_new(run, 0);
    for (size_t begin = 0, next; begin < string->size && !run->failed; begin = next) {
        const size_t end = cti_jinja_line_end(string, begin, &next);
        append_part(run, list, string, begin, keep_ends ? next : end);
    }
    return run->failed ? NULL : list;
}
