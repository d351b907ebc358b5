/* The tokens of a model: a text for each id, and the id of each text. Ids may have gaps. */
#ifndef CTI_TEXT_VOCABULARY_H
#define CTI_TEXT_VOCABULARY_H

#include "arena.h"

enum { CTI_NO_ID = -1 };
#define CTI_MOST_IDS INT32_MAX /* ids are below it */

typedef struct {
    cti_arena *arena;
    cti_text *text; /* [size]; .at is NULL for an id that has no token */
    int64_t size;   /* the largest id + 1 */
    int64_t room;
    int32_t *slot; /* [slots], a power of 2, an open hash table of ids; CTI_NO_ID is a free slot */
    size_t slots;
    int64_t count; /* the number of tokens */
} cti_vocabulary;

uint64_t cti_text_hash(const char *at, size_t size);
/* Adds a token, whose text must stay. *added is false if the text was there already with the same
 * id (nothing is changed). Returns false after an error of memory. The caller checks that the id is
 * in [0, CTI_MOST_IDS), that the text is new and that the id is free. */
bool cti_vocabulary_add(cti_vocabulary *vocabulary, cti_text text, int64_t id);
/* The id of a text; CTI_NO_ID if there is none. */
int64_t cti_vocabulary_find(const cti_vocabulary *vocabulary, const char *at, size_t size);

#endif
