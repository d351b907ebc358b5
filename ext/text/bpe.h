/* Byte-pair encoding. A piece begins as one symbol for each character (in bytes mode, for each
 * byte); then, again and again, the pair of neighbours whose merge has the smallest rank, the
 * leftmost of equal ones, becomes one symbol.
 *
 * Invariants of a cti_bpe:
 *
 * 1. A merge's rank is its index in the file. made[rank] is the id of its result.
 * 2. If `regular` holds, two different merges at the same place of a piece never have the same
 *    result. Then a queue of merges may drop those that have become impossible, and a scan for the
 *    smallest rank finds the same merge as the package's queue, which does not drop them. It holds
 *    unless a merge has the unknown token or a byte token as an operand, because all other symbols
 *    spell the part of the piece that they stand for.
 * 3. If `exact` holds, bytes mode has a symbol for each byte, without prefix and suffix, so the
 *    symbols of a piece are its bytes.
 * 4. A piece in `whole` or `long_whole` is known to be one token.
 * 5. A merge joins two characters only if `joins` has them: they are the last one of its left
 *    token and the first one of its right token. So between two characters that are symbols and
 *    that no merge joins, a piece can be divided, and its parts are merged one by one. Models
 *    without splitting, whose pieces are whole texts, are fast because of this. `joins` is NULL if
 *    parts could have other tokens than the piece: because of a prefix or suffix, because the model
 *    is not regular, or because characters are dropped. */
#ifndef CTI_TEXT_BPE_H
#define CTI_TEXT_BPE_H

#include <string.h>

#include "model.h"

#define CTI_NO_RANK UINT32_MAX

typedef struct {
    int32_t left, right;
    uint32_t rank; /* CTI_NO_RANK: a free slot */
} cti_merge_slot;

/* A piece of at most 16 bytes, padded with zeros, that is one token. */
typedef struct {
    uint64_t key[2];
    uint32_t size; /* 0: a free slot */
    int32_t id;
} cti_whole_slot;

/* A character that is a symbol. */
typedef struct {
    uint32_t key; /* the character << 2 | its form; UINT32_MAX: a free slot */
    int32_t id;
} cti_symbol_slot;

/* The forms of a symbol: with the prefix, because it is not the first one, and with the suffix,
 * because it is the last one. */
enum { CTI_WITH_PREFIX = 1, CTI_WITH_SUFFIX = 2, CTI_SYMBOL_FORMS = 4 };

typedef struct {
    bool bytes, exact, regular;
    bool byte_fallback, fuse_unknown, ignore_merges;
    bool has_unknown; /* unk_token is given */
    int32_t unknown;  /* its id; CTI_NO_ID if it is not in the vocabulary */
    cti_text prefix, suffix;

    int32_t byte[CTI_SYMBOL_FORMS][256]; /* the symbols of bytes, or of ASCII characters */
    cti_symbol_slot *symbol;             /* [symbols], the symbols of characters; an open table */
    size_t symbols;
    int32_t byte_token[256]; /* the ids of <0x00>, ... for byte_fallback; CTI_NO_ID: none */

    cti_merge_slot *merge; /* [merges], an open hash table */
    size_t merges;
    int32_t *made;
    uint32_t *byte_rank; /* [256 * 256] if exact: the rank of two bytes */

    uint64_t *joins; /* [CTI_JOIN_BITS / 64], a set of pairs of characters; NULL */

    cti_whole_slot *whole; /* [wholes], an open hash table */
    size_t wholes;
    cti_byte_map long_whole; /* pieces of more than 16 bytes */
} cti_bpe;

bool cti_bpe_read(const cti_reading *reading, cti_json_at value, bool bytes,
                  const cti_vocabulary *vocabulary, const cti_bpe **bpe);

/* The memory of an encode. While a piece of many symbols is merged, `tag` has an item for each unit
 * (the package's bytes: of UTF-8, or in bytes mode of the alphabet): at a symbol's first unit its
 * id, at its second and its last unit minus its length, and in between a negative number. So the
 * neighbours on both sides of a symbol are found from it. */
typedef struct cti_bpe_cached cti_bpe_cached;
typedef struct {
    int32_t *tag; /* [room] */
    size_t room;
    uint64_t *queue; /* [queue_room], a heap of rank << 32 | unit */
    size_t queue_room;
    cti_bpe_cached *cache; /* [caches], a power of 2: pieces that were merged; NULL: none */
    size_t caches;
} cti_bpe_work;

void cti_bpe_work_begin(cti_bpe_work *work, size_t text_size);
void cti_bpe_work_end(cti_bpe_work *work);
bool cti_bpe_encode(const cti_bpe *bpe, cti_bpe_work *work, size_t begin, size_t end,
                    cti_sink *sink);

/* Merges a piece. Sets *whole to the id of its token if it has only one, which stands for all of
 * its bytes; otherwise to CTI_NO_ID. Returns false if memory is short. */
bool cti_bpe_is_whole(const cti_bpe *bpe, cti_bpe_work *work, const char *piece, size_t size,
                      int32_t *whole);

/* ---- tables that both sides use ---- */

static inline size_t cti_merge_hash(int32_t left, int32_t right) {
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    const uint64_t hash = (pair ^ pair >> 29) * 0x9E3779B97F4A7C15u;
    return (size_t)(hash >> 32);
}

/* The slot of a pair, or the free slot for it. */
static inline cti_merge_slot *cti_merge_at(const cti_bpe *bpe, int32_t left, int32_t right) {
    const size_t mask = bpe->merges - 1;
    for (size_t i = cti_merge_hash(left, right) & mask;; i = (i + 1) & mask) {
        cti_merge_slot *slot = &bpe->merge[i];
        if (slot->rank == CTI_NO_RANK || (slot->left == left && slot->right == right)) return slot;
    }
}

static inline uint32_t cti_merge_rank(const cti_bpe *bpe, int32_t left, int32_t right) {
    return cti_merge_at(bpe, left, right)->rank;
}

/* The bit of a pair of characters (in bytes mode, of bytes) in `joins`. Pairs may share a bit. */
enum { CTI_JOIN_BITS = 1 << 18 };
static inline size_t cti_join_bit(uint32_t left, uint32_t right) {
    const size_t a = left < 256 ? left : 256 + (left * 0x9E3779B1u >> 24);
    const size_t b = right < 256 ? right : 256 + (right * 0x9E3779B1u >> 24);
    return a << 9 | b;
}

static inline cti_symbol_slot *cti_symbol_at(const cti_bpe *bpe, uint32_t key) {
    const size_t mask = bpe->symbols - 1;
    for (size_t i = (key * 0x9E3779B1u >> 7) & mask;; i = (i + 1) & mask) {
        cti_symbol_slot *slot = &bpe->symbol[i];
        if (slot->key == key || slot->key == UINT32_MAX) return slot;
    }
}

enum { CTI_KEY_BYTES = 16 };

/* Fills key with size <= 16 bytes at `at`, padded with zeros; `left` bytes can be read from `at`
 * on. */
static inline void cti_key_of(const char *at, size_t size, size_t left, uint64_t key[2]) {
    static const unsigned char mask[2 * CTI_KEY_BYTES] = {255, 255, 255, 255, 255, 255, 255, 255,
                                                          255, 255, 255, 255, 255, 255, 255, 255};
    if (left < CTI_KEY_BYTES) {
        unsigned char padded[CTI_KEY_BYTES] = {0};
        memcpy(padded, at, size);
        memcpy(key, padded, sizeof padded);
        return;
    }
    uint64_t keep[2];
    memcpy(keep, mask + CTI_KEY_BYTES - size, sizeof keep);
    memcpy(key, at, CTI_KEY_BYTES);
    key[0] &= keep[0];
    key[1] &= keep[1];
}

static inline size_t cti_key_hash(const uint64_t key[2], size_t size) {
    uint64_t hash = key[0] * 0x9E3779B97F4A7C15u ^ (key[1] + size) * 0xC2B2AE3D27D4EB4Fu;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93u;
    return (size_t)(hash >> 32);
}

/* The slot of a key, or the free slot for it. */
static inline cti_whole_slot *cti_whole_at(const cti_bpe *bpe, const uint64_t key[2], size_t size,
                                           size_t hash) {
    const size_t mask = bpe->wholes - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        cti_whole_slot *slot = &bpe->whole[i];
        if (!slot->size || (slot->key[0] == key[0] && slot->key[1] == key[1] && slot->size == size))
            return slot;
    }
}

#endif
