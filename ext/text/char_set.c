/* Operations on sets of characters. */
#include "char_set.h"

#include <stdlib.h>
#include <string.h>

void cti_set_add(cti_set_builder *set, uint32_t first, uint32_t last) {
    if (set->failed) return;
    if (set->count == set->room) {
        const size_t room = set->room ? 2 * set->room : 8;
        cti_char_range *more =
            room > SIZE_MAX / 2 / sizeof *more ? NULL : realloc(set->range, room * sizeof *more);
        if (!more) {
            set->failed = true;
            return;
        }
        set->range = more;
        set->room = room;
    }
    set->range[set->count++] = (cti_char_range){.first = first, .last = last};
}

void cti_set_add_all(cti_set_builder *set, const cti_set_builder *other) {
    for (size_t i = 0; i < other->count; i++)
        cti_set_add(set, other->range[i].first, other->range[i].last);
    set->failed |= other->failed;
}

static int ranges_compare(const void *a, const void *b) {
    const uint32_t x = ((const cti_char_range *)a)->first, y = ((const cti_char_range *)b)->first;
    return (x > y) - (x < y);
}

void cti_set_sort(cti_set_builder *set) {
    if (set->count < 2) return;
    qsort(set->range, set->count, sizeof *set->range, ranges_compare);
    size_t n = 0;
    for (size_t i = 1; i < set->count; i++) {
        const cti_char_range next = set->range[i];
        cti_char_range *last = &set->range[n];
        if (next.first > last->last + 1) set->range[++n] = next;
        else if (next.last > last->last) last->last = next.last;
    }
    set->count = n + 1;
}

void cti_set_negate(cti_set_builder *set) {
    cti_set_sort(set);
    cti_set_builder result = {.failed = set->failed};
    uint32_t next = 0; /* the first character that no range before has */
    for (size_t i = 0; i < set->count; i++) {
        if (set->range[i].first > next) cti_set_add(&result, next, set->range[i].first - 1);
        next = set->range[i].last + 1;
    }
    if (next <= CTI_LAST_CHARACTER) cti_set_add(&result, next, CTI_LAST_CHARACTER);
    cti_set_free(set);
    *set = result;
}

void cti_set_intersect(cti_set_builder *set, const cti_set_builder *other) {
    cti_set_builder neither = {0};
    cti_set_add_all(&neither, other);
    cti_set_negate(&neither);
    cti_set_negate(set);
    cti_set_add_all(set, &neither);
    cti_set_negate(set);
    cti_set_free(&neither);
}

void cti_set_free(cti_set_builder *set) {
    free(set->range);
    *set = (cti_set_builder){.failed = set->failed};
}

bool cti_char_set_has_wide(const cti_char_set *set, uint32_t c) {
    size_t low = 0, high = set->count; /* the range that has c is in [low, high) */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (c > set->range[middle].last) low = middle + 1;
        else if (c < set->range[middle].first) high = middle;
        else return true;
    }
    return false;
}
