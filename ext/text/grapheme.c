/* The ends of graphemes (grapheme.h). */
#include "grapheme.h"

#include "unicode_tables.h"
#include "utf8.h"

/* What a grapheme has so far: its last character, and what that needs from those before it. */
typedef struct {
    cti_grapheme last;
    uint32_t c;
    bool picture;          /* a picture, and behind it only what extends it, and perhaps a joiner */
    bool conjunct, linked; /* a consonant and what extends it, and a linker among that */
} grapheme_state;

static void grapheme_add(grapheme_state *state, uint32_t c, cti_grapheme class) {
    const bool extends = class >= CTI_EXTENDS && class <= CTI_LINKER;
    state->picture = class == CTI_PICTURE || (state->picture && state->last != CTI_JOINER &&
                                              (extends || class == CTI_JOINER));
    if (class == CTI_CONSONANT) {
        state->conjunct = true;
        state->linked = false;
    } else if (class == CTI_LINKER || class == CTI_EXTENDS_CONJUNCT || class == CTI_JOINER) {
        state->linked |= state->conjunct && class == CTI_LINKER;
    } else {
        state->conjunct = state->linked = false;
    }
    state->last = class;
    state->c = c;
}

/* Whether Hangul goes on: L with L, V or a syllable, V with V or T, T with T. */
static bool hangul_joins(const grapheme_state *state, cti_grapheme class) {
    enum { SYLLABLES = 0xAC00, TRAILING = 28 };
    const bool has_trailing =
        state->last == CTI_HANGUL_T ||
        (state->last == CTI_HANGUL_SYLLABLE && (state->c - SYLLABLES) % TRAILING != 0);
    switch (class) {
    case CTI_HANGUL_L:
    case CTI_HANGUL_SYLLABLE: return state->last == CTI_HANGUL_L;
    case CTI_HANGUL_V:
        return state->last == CTI_HANGUL_L || state->last == CTI_HANGUL_V ||
               (state->last == CTI_HANGUL_SYLLABLE && !has_trailing);
    case CTI_HANGUL_T:
        return state->last == CTI_HANGUL_V || state->last == CTI_HANGUL_SYLLABLE || has_trailing;
    default: return false;
    }
}

static bool grapheme_goes_on(const grapheme_state *state, uint32_t c, cti_grapheme class) {
    if (state->last == CTI_CONTROL || class == CTI_CONTROL) return state->c == '\r' && c == '\n';
    if (class >= CTI_EXTENDS && class <= CTI_SPACING) return true;
    if (state->last == CTI_PREPENDED || hangul_joins(state, class)) return true;
    if (class == CTI_PICTURE) return state->picture && state->last == CTI_JOINER;
    return class == CTI_CONSONANT && state->linked;
}

size_t cti_grapheme_end(const char *text, size_t size, size_t at) {
    grapheme_state state = {.last = CTI_NO_GRAPHEME};
    size_t length;
    const size_t begin = at;
    for (; at < size; at += length) {
        const uint32_t c = cti_utf8_get(text + at, &length);
        const cti_grapheme class = (cti_grapheme)cti_unicode_record_of(c)->grapheme;
        if (at > begin && !grapheme_goes_on(&state, c, class)) break;
        grapheme_add(&state, c, class);
    }
    return at;
}
