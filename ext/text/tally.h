/* A list of distinct texts with a count for each, in the order in which they came first: the pieces
 * of a corpus, or the tokens of a vocabulary that is being made. An open hash table finds them. */
#ifndef CTI_TEXT_TALLY_H
#define CTI_TEXT_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int64_t count;
    size_t at; /* the offset of the text in .bytes */
    uint32_t size;
    uint32_t hash;
} cti_tally_text;

typedef struct {
    cti_tally_text *text; /* [count] */
    size_t count, room;
    char *bytes; /* the texts, one behind the other */
    size_t used, bytes_room;
    uint64_t *slot; /* [slots], a power of 2: hash << 32 | index + 1; 0 is a free slot */
    size_t slots;
} cti_tally;

#define CTI_TALLY_FULL SIZE_MAX

/* Adds `times` to the count of a text, which must not lie in the tally's own memory. Returns the
 * index of the text, or CTI_TALLY_FULL if memory is short or there are 2^32 - 2 texts; then nothing
 * has changed. */
size_t cti_tally_add(cti_tally *tally, const char *at, size_t size, int64_t times);
/* Adds all counts of another tally. Returns false if memory is short. */
bool cti_tally_merge(cti_tally *tally, const cti_tally *other);
void cti_tally_free(cti_tally *tally);

#endif
