/* A string in a string, in time in proportion to the sum of their lengths: a message that is
 * searched must not hold up a render.
 *
 * Short strings are compared at each place where their first byte stands. Longer ones are found by
 * Crochemore and Perrin's two-way algorithm ("Two-way string-matching", 1991). It divides what is
 * sought at a place where no short period crosses, compares the right part forwards and then the
 * left part backwards, and needs no memory. The last occurrence is the first one of the strings
 * read from their ends. */
#include <string.h>

#include "value.h"

enum { FIND_SHORT = 16 };

/* Bytes at[0], at[step], ...; step is 1 or -1. */
typedef struct {
    const char *at;
    ptrdiff_t step;
    size_t size;
} find_text;

static unsigned char byte_at(const find_text *text, size_t i) {
    return (unsigned char)text->at[(ptrdiff_t)i * text->step];
}

/* The beginning of the largest suffix, in the order of bytes or the reversed one, and its period.
 */
static size_t largest_suffix(const find_text *what, bool reversed, size_t *period) {
    size_t begin = 0, other = 1, same = 0; /* `same` bytes of both suffixes are equal */
    *period = 1;
    while (other + same < what->size) {
        const unsigned char a = byte_at(what, other + same), b = byte_at(what, begin + same);
        if (a == b) {
            if (++same < *period) continue;
            other += *period;
            same = 0;
        } else if (reversed ? a > b : a < b) {
            other += same + 1;
            same = 0;
            *period = other - begin;
        } else {
            begin = other++;
            same = 0;
            *period = 1;
        }
    }
    return begin;
}

/* The place of the first occurrence, or SIZE_MAX. */
static size_t find_two_way(const find_text *in, const find_text *what) {
    size_t period, other_period;
    size_t middle = largest_suffix(what, false, &period);
    const size_t other = largest_suffix(what, true, &other_period);
    if (other > middle) middle = other, period = other_period;
    size_t i = 0;
    while (i < middle && byte_at(what, i) == byte_at(what, i + period)) i++;
    const bool periodic = i == middle;
    if (!periodic) period = (middle > what->size - middle ? middle : what->size - middle) + 1;
    size_t known = 0; /* so many bytes at the beginning are known to be equal */
    for (size_t at = 0; at + what->size <= in->size;) {
        i = known > middle ? known : middle;
        while (i < what->size && byte_at(what, i) == byte_at(in, at + i)) i++;
        if (i < what->size) {
            at += i - middle + 1;
            known = 0;
            continue;
        }
        i = middle;
        while (i > known && byte_at(what, i - 1) == byte_at(in, at + i - 1)) i--;
        if (i <= known) return at;
        at += period;
        known = periodic ? what->size - period : 0;
    }
    return SIZE_MAX;
}

static size_t find_short(const char *in, size_t places, const cti_jinja_string *what, bool last) {
    if (last) {
        for (size_t i = places; i-- > 0;)
            if (in[i] == what->at[0] && !memcmp(in + i, what->at, what->size)) return i;
        return SIZE_MAX;
    }
    for (size_t i = 0; i < places; i++) {
        const char *found = memchr(in + i, what->at[0], places - i);
        if (!found) return SIZE_MAX;
        i = (size_t)(found - in);
        if (!memcmp(found, what->at, what->size)) return i;
    }
    return SIZE_MAX;
}

size_t cti_jinja_find(const cti_jinja_string *in, const cti_jinja_string *what, size_t from,
                      size_t to, bool last) {
    if (from > to || to > in->size || what->size > to - from) return SIZE_MAX;
    const size_t size = to - from, places = size - what->size + 1;
    size_t found;
    if (!what->size) return last ? to : from;
    if (what->size <= FIND_SHORT) {
        found = find_short(in->at + from, places, what, last);
    } else if (last) {
        found = find_two_way(&(find_text){in->at + to - 1, -1, size},
                             &(find_text){what->at + what->size - 1, -1, what->size});
        if (found != SIZE_MAX) found = size - what->size - found;
    } else {
        found = find_two_way(&(find_text){in->at + from, 1, size},
                             &(find_text){what->at, 1, what->size});
    }
    return found == SIZE_MAX ? SIZE_MAX : from + found;
}
