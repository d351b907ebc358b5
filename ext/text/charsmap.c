/* SentencePiece's tables of texts that become others (charsmap.h).
 *
 * A unit of the double array is a node at its own index, or a value if its bit 31 is set. A node
 * has the last byte of its text in bits 0 to 7, in bit 8 whether the table has its text, and the
 * distance (by exclusive or) to its children in bits 10 to 30, in units of 256 if bit 9 is set. The
 * child by a byte is that far from the children's place, and the value is at that place. */
#include "charsmap.h"

#include <string.h>

#include "grapheme.h"
#include "utf8.h"

enum {
    UNIT_BYTES = 4,
    UNIT_IS_WIDE = 1 << 9,
    UNIT_HAS_VALUE = 1 << 8,
    SHORT_GRAPHEME = 6 /* bytes, which a grapheme that is looked up does not reach */
};
static const uint32_t UNIT_IS_VALUE = (uint32_t)1 << 31;

struct cti_charsmap {
    const uint32_t *unit; /* [units], at least 1 */
    size_t units;
    cti_text pool;
    bool changes[128]; /* which ASCII characters change, if no other character extends them */
};

static size_t unit_distance(uint32_t unit) {
    return (size_t)(unit >> 10) << (unit & UNIT_IS_WIDE ? 8 : 0);
}

/* ---- reading ---- */

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Decodes base64, with or without the padding, into out. Returns the number of bytes; SIZE_MAX if
 * the text is none. */
static size_t base64_decode(cti_text text, unsigned char *out) {
    size_t padding = 0, size = 0;
    while (padding < 2 && text.size && text.at[text.size - 1] == '=') {
        text.size--;
        padding++;
    }
    if (text.size % 4 == 1 || (padding && (text.size + padding) % 4)) return SIZE_MAX;
    uint32_t bits = 0;
    int filled = 0;
    for (size_t i = 0; i < text.size; i++) {
        const int digit = base64_digit(text.at[i]);
        if (digit < 0) return SIZE_MAX;
        bits = bits << 6 | (uint32_t)digit;
        filled += 6;
        if (filled < 8) continue;
        filled -= 8;
        out[size++] = (unsigned char)(bits >> filled);
        bits &= ((uint32_t)1 << filled) - 1;
    }
    return bits ? SIZE_MAX : size;
}

/* Whether a place in the pool is the beginning of a character or the end. */
static bool is_in_pool(const cti_charsmap *map, size_t at) {
    return at <= map->pool.size && (at == map->pool.size || !cti_utf8_continues(map->pool.at[at]));
}

/* Whether all units point into the table. */
static bool charsmap_is_closed(const cti_charsmap *map) {
    for (size_t i = 0; i < map->units; i++) {
        const uint32_t unit = map->unit[i];
        if (unit & UNIT_IS_VALUE) continue;
        const size_t children = i ^ unit_distance(unit);
        if (children >= map->units) return false;
        if (unit & UNIT_HAS_VALUE && !is_in_pool(map, map->unit[children] & ~UNIT_IS_VALUE))
            return false;
    }
    return true;
}

static bool charsmap_find(const cti_charsmap *map, const char *text, size_t size, cti_text *found);

/* Divides the bytes into units and pool. `unit` has room for all units. */
static bool charsmap_take(const cti_reading *r, cti_json_at value, const unsigned char *bytes,
                          size_t size, cti_charsmap *map) {
    uint32_t *unit = cti_arena_take(r->arena, size / UNIT_BYTES + 1, sizeof *unit);
    if (!unit) return false;
    for (size_t i = 0; i < size / UNIT_BYTES; i++) {
        const unsigned char *b = bytes + UNIT_BYTES * i;
        unit[i] = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    }
    map->units = size < UNIT_BYTES ? 0 : unit[0] / UNIT_BYTES;
    map->unit = unit + 1;
    if (!map->units || map->units > size / UNIT_BYTES - 1)
        return cti_reading_fail(r, value, "the charsmap is cut");
    const size_t before = UNIT_BYTES * (map->units + 1);
    map->pool = (cti_text){(const char *)bytes + before, size - before};
    if (cti_utf8_check(map->pool.at, map->pool.size) != map->pool.size)
        return cti_reading_fail(r, value, "the texts of the charsmap are not UTF-8");
    if (!charsmap_is_closed(map))
        return cti_reading_fail(r, value, "the charsmap points out of itself");
    for (int c = 0; c < 128; c++) {
        cti_text found;
        map->changes[c] = charsmap_find(map, (const char[]){(char)c}, 1, &found);
    }
    return true;
}

bool cti_charsmap_read(const cti_reading *r, cti_json_at value, const cti_charsmap **out) {
    if (r->tree->value[value].kind != CTI_JSON_STRING)
        return cti_reading_fail(r, value, "\"precompiled_charsmap\" is not a string");
    const cti_text text = cti_json_text(r->tree, value);
    cti_charsmap *map = cti_arena_take(r->arena, 1, sizeof *map);
    unsigned char *bytes = map ? cti_arena_take(r->arena, text.size + 1, 1) : NULL;
    if (!bytes) return false;
    *map = (cti_charsmap){0};
    *out = map;
    const size_t size = base64_decode(text, bytes);
    if (size == SIZE_MAX) return cti_reading_fail(r, value, "the charsmap is not base64");
    return charsmap_take(r, value, bytes, size, map);
}

/* ---- replacing ---- */

/* Finds the shortest beginning of a text that is in the table, and its replacement. */
static bool charsmap_find(const cti_charsmap *map, const char *text, size_t size, cti_text *found) {
    size_t place = unit_distance(map->unit[0]);
    for (size_t i = 0; i < size && text[i]; i++) {
        const unsigned char byte = (unsigned char)text[i];
        const size_t node = place ^ byte;
        if (node >= map->units || (map->unit[node] & (UNIT_IS_VALUE | 0xFF)) != byte) return false;
        place = node ^ unit_distance(map->unit[node]);
        if (!(map->unit[node] & UNIT_HAS_VALUE)) continue;
        found->at = map->pool.at + (map->unit[place] & ~UNIT_IS_VALUE);
        const size_t rest = (size_t)(map->pool.at + map->pool.size - found->at);
        const char *end = rest ? memchr(found->at, 0, rest) : NULL;
        found->size = end ? (size_t)(end - found->at) : rest;
        return true;
    }
    return false;
}

/* The places of new characters are counted as in the package. New characters take the place of one
 * old one each, as far as there are any; the rest are inserted, and old ones that are left over, or
 * that become nothing, are dropped behind the character before. If that one was inserted, it takes
 * the place of the first of them. At the beginning there is none before: there, characters that
 * become nothing are not counted, and all places behind them come too early. `at` is the next old
 * character in this count. */
typedef struct {
    const cti_charsmap *map;
    cti_edit edit;
    size_t at;
    uint32_t inserted; /* a character that was inserted and waits for its place */
    bool waits;
} charsmap_work;

static void old_characters_take(charsmap_work *work, size_t count) {
    const cti_aligned *text = work->edit.text;
    for (; count && work->at < text->size; count--)
        work->at += cti_utf8_length((unsigned char)text->at[work->at]);
}

static size_t characters_count(const char *text, size_t size) {
    size_t count = 0;
    for (size_t i = 0; i < size; i++) count += !cti_utf8_continues(text[i]);
    return count;
}

/* Writes the character that waits, if there is one, with the place of an old byte. */
static void inserted_put(charsmap_work *work, size_t from) {
    if (work->waits) cti_edit_put(&work->edit, work->inserted, from);
    work->waits = false;
}

/* Replaces the old bytes [begin, end) by a text. */
static void charsmap_put(charsmap_work *work, size_t begin, size_t end, cti_text by) {
    size_t old = characters_count(work->edit.text->at + begin, end - begin), length;
    inserted_put(work, by.size ? work->at - 1 : work->at);
    cti_edit_drop(&work->edit, begin, end);
    const bool counts = by.size || work->at;
    for (size_t i = 0; i < by.size; i += length) {
        const uint32_t c = cti_utf8_get(by.at + i, &length);
        if (old) {
            cti_edit_put(&work->edit, c, work->at);
            old_characters_take(work, 1);
            old--;
        } else {
            inserted_put(work, work->at - 1);
            work->inserted = c;
            work->waits = true;
        }
    }
    if (counts) old_characters_take(work, old);
}

/* Goes over old bytes [begin, end) that stay: they are copied, or written with the places that the
 * package's count gives them. */
static void charsmap_keep(charsmap_work *work, size_t begin, size_t end) {
    inserted_put(work, work->at - 1);
    if (work->at == begin) {
        work->at = end;
        return;
    }
    const char *text = work->edit.text->at;
    cti_edit_drop(&work->edit, begin, end);
    size_t length;
    for (size_t i = begin; i < end; i += length) {
        cti_edit_put(&work->edit, cti_utf8_get(text + i, &length), work->at);
        old_characters_take(work, 1);
    }
}

static bool charsmap_replace(charsmap_work *work, size_t begin, size_t end) {
    cti_text by;
    if (!charsmap_find(work->map, work->edit.text->at + begin, end - begin, &by)) return false;
    charsmap_put(work, begin, end, by);
    return true;
}

/* The end of the ASCII characters from `at` on that do not change and that nothing extends. */
static size_t charsmap_skip(const cti_charsmap *map, const char *text, size_t size, size_t at) {
    while (at < size && (unsigned char)text[at] < 128 && text[at] != '\r' &&
           !map->changes[(unsigned char)text[at]] &&
           (at + 1 == size || (unsigned char)text[at + 1] < 128))
        at++;
    return at;
}

bool cti_charsmap_run(const cti_charsmap *map, cti_aligned *text, cti_aligned *spare) {
    charsmap_work work = {.map = map, .edit = cti_edit_begin(text, spare)};
    for (size_t at = 0, end; at < text->size; at = end) {
        end = charsmap_skip(map, text->at, text->size, at);
        if (end > at) {
            charsmap_keep(&work, at, end);
            continue;
        }
        end = cti_grapheme_end(text->at, text->size, at);
        if (end - at < SHORT_GRAPHEME && charsmap_replace(&work, at, end)) continue;
        for (size_t next; at < end; at = next) {
            next = at + cti_utf8_length((unsigned char)text->at[at]);
            if (!charsmap_replace(&work, at, next)) charsmap_keep(&work, at, next);
        }
    }
    inserted_put(&work, work.at - 1);
    return cti_edit_end(&work.edit);
}
