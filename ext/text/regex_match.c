/* The matcher of regular expressions: it tries the alternatives in their order, goes back after a
 * failure, and marks the choices that it has come to, so that it never goes on from one twice.
 *
 * A mark stays true while the same text is searched, also for matches that begin later, because
 * the success after a choice depends on its place only. The exception is a match that was found:
 * the choices at its end did not fail, so their marks are cleared. Choices before the end are not
 * reached again.
 *
 * Invariants:
 *
 * 1. Marks are in rows, one for each byte of the text from `base`; `rows` of them are in use.
 * 2. A way on the stack is an op and a place to go on from. For a STAR it is the range [low, at] of
 *    ends that the run may have; the places above `at` have failed.
 * 3. (STAR, p) is marked if the STAR's run has ended at p, after all longer ends. So a run is read
 *    only up to the first marked place, and the time is linear. */
#include "regex.h"

#include <stdlib.h>
#include <string.h>

#include "unicode.h"
#include "utf8.h"

typedef struct {
    const cti_regex *regex;
    const char *text;
    size_t size;
    cti_pattern_memory *memory;
    size_t row_bytes, depth;
    bool failed; /* memory is short */
} regex_search;

#define PLAIN_WAY UINT32_MAX /* the `low` of a way that is not of a STAR */

/* Makes rows for the places from `base` to `at`. */
static bool rows_up_to(regex_search *s, size_t at) {
    cti_pattern_memory *m = s->memory;
    const size_t rows = at - m->base + 1;
    if (rows <= m->rows) return true;
    if (rows > m->room / s->row_bytes) {
        const size_t most = SIZE_MAX / 4 / s->row_bytes;
        const size_t room = rows > most ? 0 : (2 * rows + 64) * s->row_bytes;
        void *more = room ? realloc(m->block, room) : NULL;
        if (!more) {
            s->failed = true;
            return false;
        }
        m->block = more;
        m->room = room;
    }
    memset((char *)m->block + m->rows * s->row_bytes, 0, (rows - m->rows) * s->row_bytes);
    m->rows = rows;
    return true;
}

/* Forgets the rows before `from` if they are more than the others. */
static void search_move_base(regex_search *s, size_t from) {
    cti_pattern_memory *m = s->memory;
    const size_t gone = from - m->base;
    if (gone >= m->rows) {
        m->rows = 0;
        m->base = from;
    } else if (gone > m->rows / 2) {
        memmove(m->block, (char *)m->block + gone * s->row_bytes, (m->rows - gone) * s->row_bytes);
        m->rows -= gone;
        m->base = from;
    }
}

static bool is_marked(const regex_search *s, uint32_t choice, size_t at) {
    const cti_pattern_memory *m = s->memory;
    if (at - m->base >= m->rows) return false;
    const unsigned char *row = (unsigned char *)m->block + (at - m->base) * s->row_bytes;
    return row[choice / 8] >> (choice % 8) & 1;
}

static void choice_mark(regex_search *s, uint32_t choice, size_t at) {
    if (!rows_up_to(s, at)) return;
    unsigned char *row = (unsigned char *)s->memory->block + (at - s->memory->base) * s->row_bytes;
    row[choice / 8] |= (unsigned char)(1u << (choice % 8));
}

static void way_push(regex_search *s, uint32_t op, uint32_t low, size_t at) {
    cti_pattern_memory *m = s->memory;
    if (s->depth == m->ways) {
        const size_t most = SIZE_MAX / 2 / sizeof *m->way, ways = 2 * m->ways + 64;
        cti_pattern_way *more = ways > most ? NULL : realloc(m->way, ways * sizeof *more);
        if (!more) {
            s->failed = true;
            return;
        }
        m->way = more;
        m->ways = ways;
    }
    m->way[s->depth++] = (cti_pattern_way){.op = op, .low = low, .at = (uint32_t)at};
}

static size_t before(const char *text, size_t at) {
    at--;
    while (cti_utf8_continues(text[at])) at--;
    return at;
}

static bool is_word_at(const regex_search *s, size_t at) {
    size_t length;
    return at < s->size && cti_unicode_is_word(cti_utf8_get(s->text + at, &length));
}

static bool anchor_holds(const regex_search *s, cti_anchor anchor, size_t at) {
    switch (anchor) {
    case CTI_AT_TEXT_BEGIN: return at == 0;
    case CTI_AT_TEXT_END: return at == s->size;
    case CTI_AT_LAST_LINE: return at == s->size || (at == s->size - 1 && s->text[at] == '\n');
    case CTI_AT_LINE_BEGIN: return at == 0 || (at < s->size && s->text[at - 1] == '\n');
    case CTI_AT_LINE_END: return at == s->size || s->text[at] == '\n';
    default: break;
    }
    const bool behind = at > 0 && is_word_at(s, before(s->text, at));
    return (behind != is_word_at(s, at)) == (anchor == CTI_AT_WORD_EDGE);
}

/* The end of the character at `at` if it is in the set, else `at`. */
static size_t past_one(const regex_search *s, uint32_t set, size_t at) {
    if (at == s->size) return at;
    size_t length;
    const uint32_t c = cti_utf8_get(s->text + at, &length);
    return cti_char_set_has(&s->regex->set[set], c) ? at + length : at;
}

/* Reads the run of a SPAN and marks all of its places, because from each of them the SPAN has the
 * same end. Returns false if that has failed before. */
static bool span_read(regex_search *s, const cti_regex_op *span, size_t *at) {
    for (;;) {
        if (is_marked(s, span->choice, *at)) return false;
        choice_mark(s, span->choice, *at);
        const size_t next = past_one(s, span->a, *at);
        if (next == *at) return true;
        *at = next;
    }
}

/* Reads the run of a STAR and leaves a way to its shorter ends. Returns false if every end has
 * failed before. */
static bool star_read(regex_search *s, uint32_t op, size_t *at) {
    const cti_regex_op *star = &s->regex->op[op];
    const size_t low = *at;
    if (is_marked(s, star->choice, low)) return false;
    size_t end = low;
    for (size_t next = past_one(s, star->a, end); next > end; next = past_one(s, star->a, end)) {
        if (is_marked(s, star->choice, next)) break;
        end = next;
    }
    choice_mark(s, star->choice, end);
    if (end > low) way_push(s, op, (uint32_t)low, end);
    *at = end;
    return true;
}

/* Goes back to the last way that was left. Returns false if there is none. */
static bool way_take(regex_search *s, uint32_t *op, size_t *at) {
    if (!s->depth) return false;
    cti_pattern_way *way = &s->memory->way[s->depth - 1];
    *op = way->op;
    if (way->low == PLAIN_WAY) {
        *at = way->at;
        s->depth--;
        return true;
    }
    *at = before(s->text, way->at);
    choice_mark(s, s->regex->op[way->op].choice, *at);
    way->at = (uint32_t)*at;
    if (way->at == way->low) s->depth--;
    (*op)++;
    return true;
}

static bool look_holds(const regex_search *s, const cti_regex_op *op, size_t at) {
    const bool seen = at == s->size ? op->b & CTI_LOOK_END : past_one(s, op->a, at) > at;
    return seen != !!(op->b & CTI_LOOK_NOT);
}

/* Runs an op that consumes characters or looks at the place. Returns false if it fails. */
static bool plain_op_run(const regex_search *s, const cti_regex_op *op, size_t *at) {
    const size_t was = *at;
    size_t length;
    switch (op->kind) {
    case CTI_RE_CHAR:
        if (was == s->size || cti_utf8_get(s->text + was, &length) != op->a) return false;
        *at = was + length;
        return true;
    case CTI_RE_SET: *at = past_one(s, op->a, was); return *at > was;
    case CTI_RE_OPTION: *at = past_one(s, op->a, was); return true;
    case CTI_RE_LOOK: return look_holds(s, op, was);
    default: return anchor_holds(s, (cti_anchor)op->a, was);
    }
}

/* Whether there is a match at `at`; sets *end to its end. */
static bool match_at(regex_search *s, size_t at, size_t *end) {
    uint32_t pc = 0;
    s->depth = 0;
    while (!s->failed) {
        const cti_regex_op *op = &s->regex->op[pc];
        bool works = true;
        switch (op->kind) {
        case CTI_RE_MATCH: *end = at; return true;
        case CTI_RE_JUMP: pc = op->a; break;
        case CTI_RE_SPLIT:
            works = !is_marked(s, op->choice, at);
            if (works) {
                choice_mark(s, op->choice, at);
                way_push(s, op->b, PLAIN_WAY, at);
                pc = op->a;
            }
            break;
        case CTI_RE_STAR:
            works = star_read(s, pc, &at);
            pc++;
            break;
        case CTI_RE_SPAN:
            works = span_read(s, op, &at);
            pc++;
            break;
        default:
            works = plain_op_run(s, op, &at);
            pc++;
            break;
        }
        if (!works && !way_take(s, &pc, &at)) return false;
    }
    return false;
}

cti_find_result cti_regex_search(const cti_regex *regex, const char *text, size_t size, size_t from,
                                 cti_pattern_memory *memory, cti_extent *found) {
    if (size >= UINT32_MAX) return CTI_NO_MEMORY; /* places of ways have 32 bits */
    regex_search s = {.regex = regex, .text = text, .size = size, .memory = memory};
    s.row_bytes = regex->choices / 8 + 1;
    for (size_t at = from, end; at <= size;) {
        search_move_base(&s, at);
        if (match_at(&s, at, &end)) {
            if (end - memory->base < memory->rows)
                memset((char *)memory->block + (end - memory->base) * s.row_bytes, 0, s.row_bytes);
            *found = (cti_extent){.begin = at, .end = end};
            return CTI_FOUND;
        }
        if (s.failed) return CTI_NO_MEMORY;
        if (at == size) break;
        at += cti_utf8_length((unsigned char)text[at]);
    }
    return CTI_NOT_FOUND;
}
