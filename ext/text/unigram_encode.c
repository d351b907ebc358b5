/* The encoding of a Unigram model (unigram.h). */
#include <stdlib.h>

#include "byte_alphabet.h"
#include "unigram.h"
#include "utf8.h"

void cti_unigram_work_end(cti_unigram_work *work) {
    free(work->way);
    *work = (cti_unigram_work){0};
}

/* Makes room for the ways to all places of a piece. */
static bool unigram_room(cti_unigram_work *work, size_t size) {
    if (size < work->room) return true;
    if (size >= UINT32_MAX || size >= SIZE_MAX / sizeof *work->way / 2) return false;
    const size_t room = size + 64;
    free(work->way);
    work->way = malloc(room * sizeof *work->way);
    work->room = work->way ? room : 0;
    return work->way != NULL;
}

/* Finds the best way to `at`, where the automaton is in `node`; the last character has `length`
 * bytes. Returns false if it must be unknown and the model has no unknown token. */
static bool unigram_best(const cti_unigram *m, uint32_t node, cti_unigram_way *way, size_t at,
                         size_t length) {
    cti_unigram_way best = {.id = CTI_NO_ID};
    bool found = false;
    size_t size = 0; /* of the last token, which is the shortest */
    for (int32_t t = m->node[node].token; t >= 0; t = m->made[t].shorter) {
        const cti_unigram_token *token = &m->made[t];
        size = token->size;
        const double score = token->score + way[at - size].score;
        if (!found || score > best.score)
            best = (cti_unigram_way){score, (uint32_t)(at - size), token->id};
        found = true;
    }
    if (size != length) {
        const double score = m->unknown_score + way[at - length].score;
        if (!found || score > best.score) {
            if (m->unknown == CTI_NO_ID) return false;
            best = (cti_unigram_way){score, (uint32_t)(at - length), m->unknown};
        }
    }
    way[at] = best;
    return true;
}

/* Turns the ways round: from each place of the best way, .from is the next one. */
static void ways_turn(cti_unigram_way *way, size_t size) {
    for (uint32_t to = (uint32_t)size, from = way[to].from;;) {
        const uint32_t before = way[from].from;
        way[from].from = to;
        if (!from) return;
        to = from;
        from = before;
    }
}

/* The token of these bytes; CTI_NO_ID if there is none. */
static int32_t unigram_find(const cti_unigram *m, const char *at, size_t size) {
    uint32_t node = 0;
    for (size_t i = 0; i < size; i++) {
        node = cti_unigram_child(m, node, at[i]);
        if (!node) return CTI_NO_ID;
    }
    const int32_t token = m->node[node].token;
    return token >= 0 && m->made[token].size == size ? m->made[token].id : CTI_NO_ID;
}

/* Puts the byte tokens of a character in bytes mode or of a byte; with no sink it only tells
 * whether they are there. */
static bool unigram_fall_back(const cti_unigram *m, char byte, size_t begin, size_t end,
                              cti_sink *sink) {
    char spelled[4] = {byte};
    size_t length = 1;
    if (m->bytes) length = cti_utf8_put(spelled, cti_byte_character((unsigned char)byte));
    for (size_t i = 0; i < length; i++) {
        const int32_t id = m->byte_token[(unsigned char)spelled[i]];
        if (id == CTI_NO_ID) return false;
        if (sink) cti_sink_put(sink, id, begin, end);
    }
    return true;
}

/* Puts unknown characters in a row: as the token that they happen to be, as bytes, or as the
 * unknown token. */
static void unknown_put(const cti_unigram *m, size_t begin, size_t end, cti_sink *sink) {
    const char *text = sink->text->at;
    const int32_t whole = unigram_find(m, text + begin, end - begin);
    bool falls_back = m->falls_back && whole == CTI_NO_ID;
    for (size_t i = begin; i < end && falls_back; i++)
        falls_back = unigram_fall_back(m, text[i], begin, end, NULL);
    if (!falls_back) cti_sink_put(sink, whole == CTI_NO_ID ? m->unknown : whole, begin, end);
    for (size_t i = begin; i < end && falls_back; i++)
        unigram_fall_back(m, text[i], begin, end, sink);
}

bool cti_unigram_encode(const cti_unigram *m, cti_unigram_work *work, size_t begin, size_t end,
                        cti_sink *sink) {
    const char *text = sink->text->at + begin;
    const size_t size = end - begin;
    if (!unigram_room(work, size)) return false;
    cti_unigram_way *way = work->way;
    way[0] = (cti_unigram_way){.id = CTI_NO_ID};
    uint32_t node = 0;
    for (size_t at = 0; at < size;) {
        const size_t length = m->bytes ? 1 : cti_utf8_length((unsigned char)text[at]);
        for (size_t i = 0; i < length; i++) node = cti_unigram_next(m, node, text[at++]);
        if (!unigram_best(m, node, way, at, length)) return false;
    }
    ways_turn(way, size);
    for (size_t at = 0, to; at < size; at = to) {
        to = way[at].from;
        const int32_t id = way[to].id;
        if (id != m->unknown || id == CTI_NO_ID) {
            cti_sink_put(sink, id, begin + at, begin + to);
            continue;
        }
        while (to < size && way[way[to].from].id == id) to = way[to].from;
        unknown_put(m, begin + at, begin + to, sink);
    }
    return true;
}
