/* The division of pieces at matches. */
#include "presplit.h"

#include <stdlib.h>

#include "unicode.h"
#include "utf8.h"

/* The pieces that one piece becomes. */
typedef struct {
    const cti_step *step;
    cti_pieces *pieces;
    size_t made;    /* the pieces in pieces->spared */
    cti_piece open; /* the last piece, which may still grow */
    bool has_open;
    bool open_matched; /* the last part was a match */
    bool failed;
} piece_divider;

/* Adds a piece unless it is empty. */
static void divided_piece_put(piece_divider *d, cti_piece piece) {
    cti_pieces *p = d->pieces;
    if (d->failed || piece.begin == piece.end) return;
    if (d->made == p->spared_room) {
        const size_t most = SIZE_MAX / 2 / sizeof piece;
        const size_t room = p->spared_room + p->spared_room / 2 + 64;
        cti_piece *more = room > most ? NULL : realloc(p->spared, room * sizeof piece);
        if (!more) {
            d->failed = true;
            return;
        }
        p->spared = more;
        p->spared_room = room;
    }
    p->spared[d->made++] = piece;
}

static void open_piece_close(piece_divider *d) {
    if (d->has_open) divided_piece_put(d, d->open);
    d->has_open = false;
}

/* Adds the next part of a piece, a match or a gap. */
static void piece_part_put(piece_divider *d, size_t begin, size_t end, bool is_match) {
    const bool matched = is_match != d->step->invert, grows = d->has_open;
    const cti_piece part = {.begin = (uint32_t)begin, .end = (uint32_t)end};
    bool joins = false;
    switch (d->step->behavior) {
    case CTI_REMOVED:
        if (!matched) divided_piece_put(d, part);
        return;
    case CTI_ISOLATED: divided_piece_put(d, part); return;
    case CTI_MERGED_WITH_PREVIOUS: joins = matched && !d->open_matched; break;
    case CTI_MERGED_WITH_NEXT: joins = !matched && d->open_matched; break;
    case CTI_CONTIGUOUS: joins = matched == d->open_matched; break;
    }
    if (!grows || !joins) {
        open_piece_close(d);
        d->open = part;
        d->has_open = true;
    }
    d->open.end = part.end;
    d->open_matched = matched;
}

static bool piece_divide_by_pattern(piece_divider *d, cti_piece piece) {
    const char *text = d->pieces->text.at + piece.begin;
    const size_t size = piece.end - piece.begin;
    size_t end = 0;
    cti_extent found;
    cti_find_result result;
    d->pieces->memory.ended = 0;
    for (;; end = found.end) {
        result = cti_pattern_find(d->step->pattern, text, size, end, &d->pieces->memory, &found);
        if (result != CTI_FOUND) break;
        if (found.begin > end)
            piece_part_put(d, piece.begin + end, piece.begin + found.begin, false);
        piece_part_put(d, piece.begin + found.begin, piece.begin + found.end, true);
    }
    if (end < size) piece_part_put(d, piece.begin + end, piece.end, false);
    return result == CTI_NOT_FOUND;
}

static void piece_divide_by_class(piece_divider *d, cti_piece piece) {
    const char *text = d->pieces->text.at;
    size_t gap = piece.begin, length;
    for (size_t at = piece.begin; at < piece.end; at += length) {
        const uint32_t c = cti_utf8_get(text + at, &length);
        if (d->step->in_class ? !d->step->in_class(c) : c != d->step->c) continue;
        if (gap < at) piece_part_put(d, gap, at, false);
        piece_part_put(d, at, at + length, true);
        gap = at + length;
    }
    if (gap < piece.end) piece_part_put(d, gap, piece.end, false);
}

typedef enum { OF_WHITE_SPACE, OF_WORD, OF_SYMBOLS } run_kind;

static run_kind run_kind_at(const char *at, size_t *length) {
    const uint32_t c = cti_utf8_get(at, length);
    return cti_rust_is_word(c) ? OF_WORD : cti_rust_is_space(c) ? OF_WHITE_SPACE : OF_SYMBOLS;
}

/* The runs of word characters and of symbols are pieces, white space is none. */
static void piece_divide_into_words(piece_divider *d, cti_piece piece) {
    const char *text = d->pieces->text.at;
    size_t length;
    for (size_t at = piece.begin, end; at < piece.end; at = end) {
        const run_kind kind = run_kind_at(text + at, &length);
        for (end = at + length; end < piece.end; end += length)
            if (run_kind_at(text + end, &length) != kind) break;
        if (kind != OF_WHITE_SPACE)
            divided_piece_put(d, (cti_piece){.begin = (uint32_t)at, .end = (uint32_t)end});
    }
}

bool cti_pieces_divide(const cti_step *step, cti_pieces *pieces) {
    piece_divider d = {.step = step, .pieces = pieces};
    for (size_t i = 0; i < pieces->count && !d.failed; i++) {
        const cti_piece piece = pieces->piece[i];
        if (step->kind == CTI_STEP_PATTERN) d.failed |= !piece_divide_by_pattern(&d, piece);
        else if (step->kind == CTI_STEP_CLASS) piece_divide_by_class(&d, piece);
        else piece_divide_into_words(&d, piece);
        open_piece_close(&d);
    }
    if (d.failed) return false;
    cti_piece *old = pieces->piece;
    const size_t room = pieces->room;
    pieces->piece = pieces->spared;
    pieces->room = pieces->spared_room;
    pieces->count = d.made;
    pieces->spared = old;
    pieces->spared_room = room;
    return true;
}
