/* cti_tally: distinct texts and their counts. A slot has the upper half of a text's hash beside its
 * index, so that a search reads a text only if these 32 bits are equal. */
#include "tally.h"

#include <stdlib.h>
#include <string.h>

#include "../../src/core/assert.h"

enum { LEAST_TALLY = 1024 };
#define MOST_TEXTS (UINT32_MAX - 1)

static uint64_t tally_mix(uint64_t a, uint64_t b) {
    const uint64_t x = (a ^ b) * UINT64_C(0x9E3779B97F4A7C15);
    return x ^ x >> 32;
}

/* The order of a machine's bytes changes the hash, and a hash changes no result. */
static uint32_t tally_hash(const char *at, size_t size) {
    uint64_t hash = size, word;
    for (; size >= sizeof word; at += sizeof word, size -= sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = tally_mix(hash, word);
    }
    word = 0;
    for (size_t i = 0; i < size; i++) word = word << 8 | (unsigned char)at[i];
    hash = tally_mix(hash, word) * UINT64_C(0xD6E8FEB86659FD93);
    return (uint32_t)(hash >> 32);
}

/* Doubles the slots. The texts are distinct, so each goes to the first free slot. */
static bool slots_grow(cti_tally *tally) {
    const size_t slots = tally->slots ? 2 * tally->slots : LEAST_TALLY;
    if (slots > SIZE_MAX / 2 / sizeof *tally->slot) return false;
    uint64_t *slot = calloc(slots, sizeof *slot);
    if (!slot) return false;
    for (size_t i = 0; i < tally->count; i++) {
        size_t s = tally->text[i].hash & (slots - 1);
        while (slot[s]) s = (s + 1) & (slots - 1);
        slot[s] = (uint64_t)tally->text[i].hash << 32 | (i + 1);
    }
    free(tally->slot);
    tally->slot = slot;
    tally->slots = slots;
    return true;
}

/* Makes room for one more text of `size` bytes. */
static bool texts_grow(cti_tally *tally, size_t size) {
    if (tally->count == MOST_TEXTS || size > SIZE_MAX / 4 - tally->used) return false;
    if (tally->count == tally->room) {
        const size_t room = tally->room ? tally->room + tally->room / 2 : LEAST_TALLY / 2;
        if (room > SIZE_MAX / sizeof *tally->text) return false;
        cti_tally_text *text = realloc(tally->text, room * sizeof *text);
        if (!text) return false;
        tally->text = text;
        tally->room = room;
    }
    if (size > tally->bytes_room - tally->used) {
        const size_t room = (tally->used + size) / 2 * 3 + LEAST_TALLY;
        char *bytes = realloc(tally->bytes, room);
        if (!bytes) return false;
        tally->bytes = bytes;
        tally->bytes_room = room;
    }
    return true;
}

static size_t tally_new(cti_tally *tally, const char *at, size_t size, uint32_t hash) {
    if (tally->count >= tally->slots / 2 && !slots_grow(tally)) return CTI_TALLY_FULL;
    if (!texts_grow(tally, size)) return CTI_TALLY_FULL;
    const size_t index = tally->count++;
    memcpy(tally->bytes + tally->used, at, size);
    tally->text[index] = (cti_tally_text){.at = tally->used, .size = (uint32_t)size, .hash = hash};
    tally->used += size;
    size_t s = hash & (tally->slots - 1);
    while (tally->slot[s]) s = (s + 1) & (tally->slots - 1);
    tally->slot[s] = (uint64_t)hash << 32 | (index + 1);
    return index;
}

size_t cti_tally_add(cti_tally *tally, const char *at, size_t size, int64_t times) {
    CTI_ASSERT(size <= UINT32_MAX);
    const uint32_t hash = tally_hash(at, size);
    size_t index = CTI_TALLY_FULL;
    if (tally->slots) {
        const size_t mask = tally->slots - 1;
        for (size_t s = hash & mask; tally->slot[s]; s = (s + 1) & mask) {
            if (tally->slot[s] >> 32 != hash) continue;
            const size_t i = (size_t)(uint32_t)tally->slot[s] - 1;
            const cti_tally_text *text = &tally->text[i];
            if (text->size != size || memcmp(tally->bytes + text->at, at, size)) continue;
            index = i;
            break;
        }
    }
    if (index == CTI_TALLY_FULL) index = tally_new(tally, at, size, hash);
    if (index != CTI_TALLY_FULL) tally->text[index].count += times;
    return index;
}

bool cti_tally_merge(cti_tally *tally, const cti_tally *other) {
    for (size_t i = 0; i < other->count; i++) {
        const cti_tally_text *text = &other->text[i];
        if (cti_tally_add(tally, other->bytes + text->at, text->size, text->count) ==
            CTI_TALLY_FULL)
            return false;
    }
    return true;
}

void cti_tally_free(cti_tally *tally) {
    free(tally->text);
    free(tally->bytes);
    free(tally->slot);
    *tally = (cti_tally){0};
}
