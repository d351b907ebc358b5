/* A string in a string: beside a search at each place, and in time in proportion to the lengths. */
#include <stdlib.h>

#include "ext/text/jinja/value.h"
#include "tests/support/suite.h"

static uint32_t state = 1;
static size_t draw(size_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
}

static size_t find_each(const cti_jinja_string *in, const cti_jinja_string *what, size_t from,
                        size_t to, bool last) {
    size_t found = SIZE_MAX;
    if (to > in->size) return found;
    for (size_t at = from; at + what->size <= to; at++) {
        if (memcmp(in->at + at, what->at, what->size) != 0) continue;
        found = at;
        if (!last) break;
    }
    return found;
}

/* Few letters, in parts periodic. */
static void fill(char *text, size_t size) {
    const size_t letters = 1 + draw(3), period = 1 + draw(9);
    const bool periodic = draw(2);
    for (size_t i = 0; i < size; i++)
        text[i] = periodic && i >= period ? text[i - period] : (char)('a' + draw(letters));
    for (size_t changes = draw(3); changes && size; changes--) text[draw(size)] = 'b';
}

START_TEST(beside_a_search_at_each_place) {
    char text[160], part[80];
    int found = 0;
    for (int i = 0; i < 60000; i++) {
        const cti_jinja_string in = {.at = text, .size = draw(sizeof text)};
        const cti_jinja_string what = {.at = part, .size = draw(sizeof part)};
        fill(text, in.size);
        fill(part, what.size);
        if (in.size > what.size && draw(2)) {
            memcpy(part, text + draw(in.size - what.size + 1), what.size);
            if (what.size && !draw(4)) part[draw(what.size)] = 'b';
        }
        const size_t from = draw(4) ? 0 : draw(sizeof text), to = draw(4) ? in.size : draw(170);
        const bool last = draw(2);
        const size_t at = cti_jinja_find(&in, &what, from, to, last);
        ck_assert_msg(at == find_each(&in, &what, from, to, last), "draw %d: %d", i, (int)at);
        found += at != SIZE_MAX && what.size > 16;
    }
    ck_assert_int_gt(found, 1000);
}
END_TEST

/* A place at a time this would be 10^11 comparisons of bytes. */
START_TEST(in_proportion_to_the_lengths) {
    const size_t size = 1 << 20, half = size / 2;
    char *text = malloc(size), *part = malloc(half);
    ck_assert(text && part);
    memset(text, 'a', size);
    const cti_jinja_string in = {.at = text, .size = size}, what = {.at = part, .size = half};
    const size_t other[] = {0, half / 2, half - 1};
    for (size_t i = 0; i < 3; i++) {
        memset(part, 'a', half);
        part[other[i]] = 'b';
        ck_assert(cti_jinja_find(&in, &what, 0, size, false) == SIZE_MAX);
        ck_assert(cti_jinja_find(&in, &what, 0, size, true) == SIZE_MAX);
        memcpy(text + 1000, part, half);
        ck_assert_uint_eq(cti_jinja_find(&in, &what, 0, size, false), 1000);
        ck_assert_uint_eq(cti_jinja_find(&in, &what, 0, size, true), 1000);
        memset(text, 'a', size);
    }
    free(text);
    free(part);
}
END_TEST

int main(void) {
    return run_tests(
        "jinja_find", NULL, NULL,
        TESTS(TEST(beside_a_search_at_each_place), TEST(in_proportion_to_the_lengths)));
}
