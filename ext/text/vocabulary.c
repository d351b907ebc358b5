/* Open hash tables of texts. */
#include "vocabulary.h"

#include <string.h>

#include "../../src/core/assert.h"
#include "../../src/core/int_math.h"

enum { LEAST_SLOTS = 64, SPARE_IDS = 65536, IDS_TO_A_TOKEN = 16 };

uint64_t cti_text_hash(const char *at, size_t size) {
    uint64_t hash = CTI_HASH_BEGIN;
    for (size_t i = 0; i < size; i++) hash = cti_hash_next(hash, at[i]);
    return cti_hash_end(hash);
}

bool cti_vocabulary_allows(int64_t id, int64_t tokens) {
    return id >= 0 && id < CTI_MOST_IDS && (id - SPARE_IDS) / IDS_TO_A_TOKEN <= tokens;
}

/* ---- slots ----
 *
 * A slot is 0 if it is empty. Otherwise its upper 32 bits are those of the text's hash, and its
 * lower 32 bits are the text's index + 1. */

static const uint64_t upper_half = 0xFFFFFFFF00000000u;

/* The number of slots for `count` texts: a power of two, of which at most half are used, so that a
 * search soon meets an empty slot. */
static size_t slots_for(size_t count) {
    size_t slots = LEAST_SLOTS;
    while (slots / 2 < count) slots *= 2;
    return slots;
}

static uint64_t *slots_take(cti_arena *arena, size_t slots) {
    uint64_t *slot = cti_arena_take(arena, slots, sizeof *slot);
    if (slot) memset(slot, 0, slots * sizeof *slot);
    return slot;
}

static void slot_put(uint64_t *slot, size_t slots, uint64_t hash, size_t index) {
    size_t i = (size_t)hash & (slots - 1);
    while (slot[i]) i = (i + 1) & (slots - 1);
    slot[i] = (hash & upper_half) | (uint32_t)(index + 1);
}

/* ---- the vocabulary ---- */

static bool vocabulary_widen(cti_vocabulary *v, int64_t room) {
    if (room <= v->room) return true;
    cti_text *text = cti_arena_take(v->arena, (size_t)room, sizeof *text);
    if (!text) return false;
    if (v->size) memcpy(text, v->text, (size_t)v->size * sizeof *text);
    v->text = text;
    v->room = room;
    return true;
}

static bool vocabulary_rehash(cti_vocabulary *v, size_t slots) {
    if (slots <= v->slots) return true;
    uint64_t *slot = slots_take(v->arena, slots);
    if (!slot) return false;
    for (int64_t id = 0; id < v->size; id++) {
        const cti_text text = v->text[id];
        if (text.at) slot_put(slot, slots, cti_text_hash(text.at, text.size), (size_t)id);
    }
    v->slot = slot;
    v->slots = slots;
    return true;
}

bool cti_vocabulary_reserve(cti_vocabulary *v, int64_t tokens, int64_t size) {
    CTI_ASSERT(tokens >= 0 && size >= 0 && size <= CTI_MOST_IDS);
    return vocabulary_widen(v, size) && vocabulary_rehash(v, slots_for((size_t)tokens));
}

bool cti_vocabulary_add(cti_vocabulary *v, cti_text text, int64_t id) {
    CTI_ASSERT(id >= 0 && id < CTI_MOST_IDS);
    CTI_ASSERT(!cti_vocabulary_text(v, id).at);
    if (id >= v->room && !vocabulary_widen(v, cti_max(id + 1, v->room + v->room / 2 + 16)))
        return false;
    if (!vocabulary_rehash(v, slots_for((size_t)v->count + 1))) return false;
    for (; v->size <= id; v->size++) v->text[v->size] = (cti_text){0};
    v->text[id] = text;
    v->count++;
    slot_put(v->slot, v->slots, cti_text_hash(text.at, text.size), (size_t)id);
    return true;
}

static int64_t slot_id(uint64_t slot) { return (int64_t)(slot & ~upper_half) - 1; }

/* The slot of a text; NULL if there is none. */
static uint64_t *vocabulary_slot(const cti_vocabulary *v, const char *at, size_t size) {
    if (!v->slots) return NULL;
    const uint64_t hash = cti_text_hash(at, size);
    for (size_t i = (size_t)hash & (v->slots - 1); v->slot[i]; i = (i + 1) & (v->slots - 1)) {
        if ((v->slot[i] ^ hash) & upper_half) continue;
        const int64_t id = slot_id(v->slot[i]);
        if (v->text[id].size == size && !memcmp(v->text[id].at, at, size)) return &v->slot[i];
    }
    return NULL;
}

int64_t cti_vocabulary_find(const cti_vocabulary *v, const char *at, size_t size) {
    const uint64_t *slot = vocabulary_slot(v, at, size);
    return slot ? slot_id(*slot) : CTI_NO_ID;
}

bool cti_vocabulary_add_again(cti_vocabulary *v, cti_text text, int64_t id) {
    uint64_t *slot = vocabulary_slot(v, text.at, text.size);
    if (!slot) return cti_vocabulary_add(v, text, id);
    CTI_ASSERT(id < v->room && !cti_vocabulary_text(v, id).at);
    for (; v->size <= id; v->size++) v->text[v->size] = (cti_text){0};
    v->text[id] = text;
    *slot = (*slot & upper_half) | (uint32_t)(id + 1);
    return true;
}

void cti_byte_tokens(const cti_vocabulary *v, bool falls_back, int32_t token[256]) {
    for (int b = 0; b < 256; b++) {
        static const char digit[] = "0123456789ABCDEF";
        const char name[] = {'<', '0', 'x', digit[b >> 4], digit[b & 15], '>'};
        token[b] = falls_back ? (int32_t)cti_vocabulary_find(v, name, sizeof name) : CTI_NO_ID;
    }
}

/* ---- maps from bytes ---- */

bool cti_byte_map_new(cti_arena *arena, size_t most, cti_byte_map *map) {
    *map = (cti_byte_map){.slots = slots_for(most)};
    map->entry = cti_arena_take(arena, most + 1, sizeof *map->entry);
    if (map->entry) map->slot = slots_take(arena, map->slots);
    return map->slot != NULL;
}

void cti_byte_map_put(cti_byte_map *map, const char *at, size_t size, int32_t id) {
    const uint64_t hash = cti_text_hash(at, size);
    if (cti_byte_map_find(map, hash, at, size) != CTI_NO_ID) return;
    CTI_ASSERT(map->count < map->slots / 2 && size <= UINT32_MAX);
    map->entry[map->count] = (cti_byte_entry){at, (uint32_t)size, id};
    slot_put(map->slot, map->slots, hash, map->count++);
    if (size > map->longest) map->longest = size;
}

int32_t cti_byte_map_find(const cti_byte_map *map, uint64_t hash, const char *at, size_t size) {
    const size_t mask = map->slots - 1;
    for (size_t i = (size_t)hash & mask; map->slot[i]; i = (i + 1) & mask) {
        if ((map->slot[i] ^ hash) & upper_half) continue;
        const cti_byte_entry *entry = &map->entry[(map->slot[i] & ~upper_half) - 1];
        if (entry->size == size && !memcmp(entry->at, at, size)) return entry->id;
    }
    return CTI_NO_ID;
}
