/* Sets of characters: sorted ranges of code points that neither overlap nor touch. */
#ifndef CTI_TEXT_CHAR_SET_H
#define CTI_TEXT_CHAR_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CTI_LAST_CHARACTER UINT32_C(0x10FFFF)

typedef struct {
    uint32_t first, last;
} cti_char_range;

/* A set that is being made, by malloc. If memory is short the set is wrong and `failed` is set. */
typedef struct {
    cti_char_range *range;
    size_t count, room;
    bool failed;
} cti_set_builder;

void cti_set_add(cti_set_builder *set, uint32_t first, uint32_t last);
void cti_set_add_all(cti_set_builder *set, const cti_set_builder *other);
void cti_set_negate(cti_set_builder *set);
void cti_set_intersect(cti_set_builder *set, const cti_set_builder *other);
void cti_set_sort(cti_set_builder *set); /* sorts the ranges and joins those that touch */
void cti_set_free(cti_set_builder *set);

/* A set that a program looks up: `ascii` has a bit for each character below 0x80. */
typedef struct {
    uint32_t ascii[4];
    uint32_t count;
    const cti_char_range *range; /* [count] */
} cti_char_set;

bool cti_char_set_has_wide(const cti_char_set *set, uint32_t c);
static inline bool cti_char_set_has(const cti_char_set *set, uint32_t c) {
    return c < 0x80 ? set->ascii[c / 32] >> (c % 32) & 1 : cti_char_set_has_wide(set, c);
}

#endif
