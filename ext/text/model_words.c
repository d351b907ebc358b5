/* WordPiece and WordLevel (words.h). */
#include <stdlib.h>
#include <string.h>

#include "../../src/core/int_math.h"
#include "byte_alphabet.h"
#include "utf8.h"
#include "words.h"

/* ---- reading ---- */

/* Puts a token into a map, without the prefix. In bytes mode the key is the bytes that the text
 * stands for; a text outside of the alphabet is left out, because no piece has it. */
static bool words_put(const cti_reading *r, const cti_words *m, cti_text text, size_t prefix,
                      int64_t id, cti_byte_map *map) {
    text = (cti_text){text.at + prefix, text.size - prefix};
    if (m->bytes) {
        char *bytes = cti_arena_take(r->arena, text.size + 1, 1);
        if (!bytes) return false;
        text = (cti_text){bytes, cti_alphabet_to_bytes(text, bytes)};
        if (text.size == SIZE_MAX) return true;
    }
    if (text.size) cti_byte_map_put(map, text.at, text.size, (int32_t)id);
    return true;
}

static bool words_read_parts(const cti_reading *r, cti_json_at value, cti_text *prefix,
                             int64_t *most) {
    static const char key[] = "max_input_chars_per_word";
    *most = -1;
    return cti_reading_needs_text(r, value, "continuing_subword_prefix", prefix) &&
           cti_reading_natural(r, value, key, most) &&
           (*most >= 0 || cti_reading_fail(r, value, "\"%s\" is missing", key));
}

bool cti_words_read(const cti_reading *r, cti_json_at value, bool bytes, bool parts,
                    const cti_vocabulary *v, const cti_words **words) {
    cti_words *m = cti_arena_take(r->arena, 1, sizeof *m);
    cti_text unknown, prefix = {0};
    if (!m) return false;
    *m = (cti_words){.bytes = bytes, .parts = parts, .most_characters = INT64_MAX};
    *words = m;
    if (!cti_reading_needs_text(r, value, "unk_token", &unknown) ||
        (parts && !words_read_parts(r, value, &prefix, &m->most_characters)))
        return false;
    m->unknown = (int32_t)cti_vocabulary_find(v, unknown.at, unknown.size);
    size_t continued = 0;
    for (int64_t id = 0; id < v->size && parts; id++)
        continued += v->text[id].at && v->text[id].size >= prefix.size &&
                     !memcmp(v->text[id].at, prefix.at, prefix.size);
    if (!cti_byte_map_new(r->arena, (size_t)v->count, &m->first) ||
        !cti_byte_map_new(r->arena, continued, &m->next))
        return false;
    for (int64_t id = 0; id < v->size; id++) {
        const cti_text text = v->text[id];
        if (!text.at) continue;
        if (!words_put(r, m, text, 0, id, &m->first)) return false;
        if (parts && text.size >= prefix.size && !memcmp(text.at, prefix.at, prefix.size) &&
            !words_put(r, m, text, prefix.size, id, &m->next))
            return false;
    }
    return true;
}

/* ---- encoding ---- */

void cti_words_work_end(cti_words_work *work) {
    free(work->hash);
    *work = (cti_words_work){0};
}

static bool words_room(cti_words_work *work, size_t room) {
    if (room <= work->room) return true;
    free(work->hash);
    work->room = 0;
    work->hash =
        malloc(room < SIZE_MAX / sizeof *work->hash ? room * sizeof *work->hash : SIZE_MAX);
    if (work->hash) work->room = room;
    return work->hash != NULL;
}

/* Whether a piece has more characters than a word may have. */
static bool words_is_long(const cti_words *m, const char *piece, size_t size) {
    if (size <= (uint64_t)m->most_characters) return false;
    size_t characters = m->bytes ? size : 0;
    for (size_t i = 0; i < size && !m->bytes; i++) characters += !cti_utf8_continues(piece[i]);
    return characters > (uint64_t)m->most_characters;
}

/* The longest key of the map that the text begins with. Returns its length, 0 if there is none, and
 * sets *id. A key ends with a character, so that the rest of the text begins with one. */
static size_t words_longest(const cti_byte_map *map, cti_words_work *work, const char *text,
                            size_t size, int32_t *id) {
    const size_t most = size < map->longest ? size : map->longest;
    uint64_t hash = CTI_HASH_BEGIN;
    for (size_t i = 0; i < most; i++) {
        hash = cti_hash_next(hash, text[i]);
        work->hash[i] = hash;
    }
    for (size_t n = most; n; n--) {
        *id = cti_byte_map_find(map, cti_hash_end(work->hash[n - 1]), text, n);
        if (*id != CTI_NO_ID) return n;
    }
    return 0;
}

bool cti_words_encode(const cti_words *m, cti_words_work *work, size_t begin, size_t end,
                      cti_sink *sink) {
    const char *text = sink->text->at;
    const size_t size = end - begin,
                 longest = m->first.longest > m->next.longest ? m->first.longest : m->next.longest;
    const int64_t before = sink->count;
    bool known = !m->parts || !words_is_long(m, text + begin, size);
    int32_t id;
    if (known && size <= m->first.longest) {
        id = cti_byte_map_find(&m->first, cti_text_hash(text + begin, size), text + begin, size);
        if (id != CTI_NO_ID) {
            cti_sink_put(sink, id, begin, end);
            return true;
        }
    }
    known = known && m->parts;
    if (known && !words_room(work, size < longest ? size : longest)) return false;
    for (size_t at = begin; at < end && known;) {
        const size_t n =
            words_longest(at == begin ? &m->first : &m->next, work, text + at, end - at, &id);
        if (n) cti_sink_put(sink, id, at, at + n);
        known = n > 0;
        at += n;
    }
    if (known) return true;
    sink->count = before; /* the unknown token replaces the word's other tokens */
    if (m->unknown == CTI_NO_ID) return false;
    cti_sink_put(sink, m->unknown, begin, end);
    return true;
}
