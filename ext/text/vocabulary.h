/* The tokens of a model: a text for each id, and the id of each text. Ids may have gaps, but an id
 * that is far above the number of tokens is refused (cti_vocabulary_allows), so that memory stays
 * in proportion to the file. */
#ifndef CTI_TEXT_VOCABULARY_H
#define CTI_TEXT_VOCABULARY_H

#include "arena.h"

enum { CTI_NO_ID = -1 };
#define CTI_MOST_IDS INT32_MAX /* ids are below it */

typedef struct {
    cti_arena *arena;
    cti_text *text; /* [room]; .at is NULL for an id that has no token */
    int64_t size;   /* the largest id + 1 */
    int64_t room;
    /* [slots], a power of 2, an open hash table: the upper half of a text's hash, and its id + 1 in
     * the lower half; 0 is a free slot */
    uint64_t *slot;
    size_t slots;
    int64_t count; /* the number of tokens */
} cti_vocabulary;

/* The hash of a text is FNV-1a's, with a last step that mixes its bits; so the hashes of all
 * prefixes of a text are made in one pass. */
#define CTI_HASH_BEGIN 0xCBF29CE484222325u
static inline uint64_t cti_hash_next(uint64_t hash, char byte) {
    return (hash ^ (unsigned char)byte) * 0x100000001B3u;
}
static inline uint64_t cti_hash_end(uint64_t hash) {
    hash = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}
uint64_t cti_text_hash(const char *at, size_t size);

/* Whether a vocabulary of so many tokens may have this id: it is in [0, CTI_MOST_IDS), and at most
 * 65,536 + 16 times the number of tokens. */
bool cti_vocabulary_allows(int64_t id, int64_t tokens);
/* Makes room for so many tokens with ids below `size`. It is not necessary, but saves memory. */
bool cti_vocabulary_reserve(cti_vocabulary *vocabulary, int64_t tokens, int64_t size);
/* Adds a token, whose text must stay. Returns false after an error of memory. The caller checks
 * that the id is allowed, that the text is new and that the id is free. */
bool cti_vocabulary_add(cti_vocabulary *vocabulary, cti_text text, int64_t id);
/* The same, but the text may be there already: then it is found by the new id from now on, and the
 * old id only keeps its text. Room for all tokens was reserved. */
bool cti_vocabulary_add_again(cti_vocabulary *vocabulary, cti_text text, int64_t id);
/* The ids of <0x00>, ..., <0xFF>; CTI_NO_ID for those that the vocabulary lacks, and for all if the
 * model does not fall back to bytes. */
void cti_byte_tokens(const cti_vocabulary *vocabulary, bool falls_back, int32_t token[256]);
/* The id of a text; CTI_NO_ID if there is none. */
int64_t cti_vocabulary_find(const cti_vocabulary *vocabulary, const char *at, size_t size);
/* The text of an id; .at is NULL if there is none. */
static inline cti_text cti_vocabulary_text(const cti_vocabulary *vocabulary, int64_t id) {
    return id >= 0 && id < vocabulary->size ? vocabulary->text[id] : (cti_text){0};
}

/* An open hash table from bytes to ids. The most entries are known when it is made. */
typedef struct {
    const char *at;
    uint32_t size;
    int32_t id;
} cti_byte_entry;
typedef struct {
    cti_byte_entry *entry; /* [count] */
    uint64_t *
        slot; /* [slots], as in cti_vocabulary, but with the index of an entry in place of the id */
    size_t slots, count;
    size_t longest; /* the size of the longest key */
} cti_byte_map;

bool cti_byte_map_new(cti_arena *arena, size_t most, cti_byte_map *map);
/* Adds bytes, which must stay. If they are there already nothing changes. */
void cti_byte_map_put(cti_byte_map *map, const char *at, size_t size, int32_t id);
/* The id of bytes with this hash; CTI_NO_ID if there is none. */
int32_t cti_byte_map_find(const cti_byte_map *map, uint64_t hash, const char *at, size_t size);

#endif
