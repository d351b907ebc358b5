/* The text of tokens. */
#include "decoders.h"

#include <stdlib.h>
#include <string.h>

#include "byte_alphabet.h"
#include "utf8.h"

/* ---- buffers ---- */

/* Makes room for `more` bytes. */
static bool buffer_grow(cti_buffer *buffer, size_t more) {
    if (buffer->failed) return false;
    if (more <= buffer->room - buffer->size) return true;
    size_t room = buffer->room < 64 ? 64 : buffer->room;
    while (room - buffer->size < more && room <= SIZE_MAX / 4) room *= 2;
    char *at = room - buffer->size < more ? NULL : realloc(buffer->at, room);
    if (!at) {
        buffer->failed = true;
        return false;
    }
    buffer->at = at;
    buffer->room = room;
    return true;
}

static void bytes_append(cti_buffer *buffer, const char *bytes, size_t size) {
    if (!size || !buffer_grow(buffer, size)) return;
    memcpy(buffer->at + buffer->size, bytes, size);
    buffer->size += size;
}

static void character_append(cti_buffer *buffer, uint32_t c) {
    char bytes[4];
    bytes_append(buffer, bytes, cti_utf8_put(bytes, c));
}

static cti_text buffer_text(const cti_buffer *buffer) {
    return (cti_text){buffer->at ? buffer->at : "", buffer->size};
}

void cti_decoding_free(cti_decoding *decoding) {
    free(decoding->text.at);
    free(decoding->token.at);
    free(decoding->other.at);
    cti_pattern_memory_free(&decoding->memory);
}

/* ---- stages of single tokens ---- */

/* The size of the character at text[at]; 1 behind the end. */
static size_t character_size(cti_text text, size_t at) {
    return at < text.size ? cti_utf8_length((unsigned char)text.at[at]) : 1;
}

/* Returns false if memory is short. */
static bool replace_stage_decode(const cti_decode_stage *stage, cti_text token,
                                 cti_pattern_memory *memory, cti_buffer *out) {
    if (!token.size) return true; /* the package finds nothing in it, also no empty match */
    size_t copied = 0;
    cti_extent found;
    memory->ended = 0;
    cti_find_result result =
        cti_pattern_find(stage->pattern, token.at, token.size, 0, memory, &found);
    while (result == CTI_FOUND) {
        bytes_append(out, token.at + copied, found.begin - copied);
        bytes_append(out, stage->text.at, stage->text.size);
        copied = found.end;
        result = cti_pattern_find(stage->pattern, token.at, token.size, copied, memory, &found);
    }
    if (result == CTI_NO_MEMORY) return false;
    bytes_append(out, token.at + copied, token.size - copied);
    return true;
}

/* The offset of the first `what` in text at or after `from`; SIZE_MAX if there is none. */
static size_t text_find(cti_text text, size_t from, cti_text what) {
    while (from <= text.size && what.size <= text.size - from) {
        if (!what.size) return from;
        const char *at = memchr(text.at + from, what.at[0], text.size - from);
        if (!at) break;
        from = (size_t)(at - text.at);
        if (what.size <= text.size - from && !memcmp(at, what.at, what.size)) return from;
        from++;
    }
    return SIZE_MAX;
}

/* Replaces every `what`; an empty one is found before each character and at the end. */
static void text_replace(cti_text text, cti_text what, cti_text by, cti_buffer *out) {
    size_t copied = 0, at = text_find(text, 0, what);
    while (at != SIZE_MAX) {
        bytes_append(out, text.at + copied, at - copied);
        bytes_append(out, by.at, by.size);
        copied = at + what.size;
        at = text_find(text, what.size ? copied : at + character_size(text, at), what);
    }
    bytes_append(out, text.at + copied, text.size - copied);
}

static void metaspace_stage_decode(const cti_decode_stage *stage, cti_text token, bool first,
                                   cti_buffer *out) {
    const cti_text space = cti_text_of(first && !stage->flag ? "" : " ");
    text_replace(token, stage->text, space, out);
}

/* WordPiece's cleanup: these replacements one after the other. */
static void spaces_clean_up(cti_buffer *text, cti_buffer *other) {
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (text_find(buffer_text(text), 0, cti_text_of(pairs[i][0])) == SIZE_MAX) continue;
        other->size = 0;
        text_replace(buffer_text(text), cti_text_of(pairs[i][0]), cti_text_of(pairs[i][1]), other);
        const cti_buffer swapped = *text;
        *text = *other;
        *other = swapped;
    }
}

static void wordpiece_stage_decode(const cti_decode_stage *stage, cti_text token, bool first,
                                   cti_buffer *out) {
    const cti_text prefix = stage->text;
    if (!first) {
        if (token.size >= prefix.size && !memcmp(token.at, prefix.at, prefix.size))
            token = (cti_text){token.at + prefix.size, token.size - prefix.size};
        else bytes_append(out, " ", 1);
    }
    bytes_append(out, token.at, token.size);
}

/* A text begins with some copies of the character `what`. Returns the number of bytes of the first
 * n copies, or of all if there are fewer. trailing_bytes does the same at the end. */
static size_t leading_bytes(cti_text text, cti_text what, int64_t n) {
    size_t at = 0;
    for (; n && what.size <= text.size - at && !memcmp(text.at + at, what.at, what.size); n--)
        at += what.size;
    return at;
}

static size_t trailing_bytes(cti_text text, cti_text what, int64_t n) {
    size_t end = text.size;
    for (; n && what.size <= end && !memcmp(text.at + end - what.size, what.at, what.size); n--)
        end -= what.size;
    return text.size - end;
}

static cti_text stripped(const cti_decode_stage *stage, cti_text text) {
    const size_t begin = leading_bytes(text, stage->text, stage->start);
    text = (cti_text){text.at + begin, text.size - begin};
    text.size -= trailing_bytes(text, stage->text, stage->stop);
    return text;
}

/* Runs the stages of single tokens. The result is in decoding->token or is the token itself. */
static bool stages_run(const cti_decoder *decoder, cti_decoding *decoding, cti_text *token,
                       bool first, bool last) {
    for (int i = 0; i < decoder->stages; i++) {
        const cti_decode_stage *stage = &decoder->stage[i];
        cti_buffer *out = &decoding->other; /* `token` may be in the other buffer */
        out->size = 0;
        switch (stage->kind) {
        case CTI_DECODE_REPLACE:
            if (!replace_stage_decode(stage, *token, &decoding->memory, out)) return false;
            break;
        case CTI_DECODE_METASPACE: metaspace_stage_decode(stage, *token, first, out); break;
        case CTI_DECODE_WORDPIECE: wordpiece_stage_decode(stage, *token, first, out); break;
        case CTI_DECODE_BPE:
            text_replace(*token, stage->text, cti_text_of(last ? "" : " "), out);
            break;
        default: *token = stripped(stage, *token); continue;
        }
        const cti_buffer swapped = decoding->token;
        decoding->token = *out;
        decoding->other = swapped;
        if (stage->kind == CTI_DECODE_WORDPIECE && stage->flag)
            spaces_clean_up(&decoding->token, &decoding->other);
        if (decoding->token.failed || decoding->other.failed) return false;
        *token = buffer_text(&decoding->token);
    }
    return true;
}

/* ---- bytes ---- */

/* Appends the bytes that a token stands for, or its text if a character is not in the alphabet. */
static void alphabet_text_append(cti_buffer *out, cti_text token) {
    if (!buffer_grow(out, token.size)) return;
    const size_t size = cti_alphabet_to_bytes(token, out->at + out->size);
    if (size == SIZE_MAX) bytes_append(out, token.at, token.size);
    else out->size += size;
}

static int fallback_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of a token such as <0xE2>, or -1. A plus in place of the first digit is read as 0,
 * because the package reads it so. */
static int fallback_byte(cti_text token) {
    if (token.size != 6 || memcmp(token.at, "<0x", 3) != 0 || token.at[5] != '>') return -1;
    const int high = token.at[3] == '+' ? 0 : fallback_digit(token.at[3]),
              low = fallback_digit(token.at[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* Ends a run of byte tokens in a whole text: if it is ill-formed each byte becomes U+FFFD. */
static void byte_run_end(cti_decoding *decoding) {
    if (!decoding->in_run) return;
    decoding->in_run = false;
    cti_buffer *text = &decoding->text;
    const size_t run = decoding->run, size = text->size - run;
    if (text->failed || cti_utf8_check(text->at + run, size) == size) return;
    text->size = run;
    for (size_t i = 0; i < size; i++) character_append(text, CTI_REPLACEMENT);
}

/* ---- a whole text ---- */

bool cti_decode_token(const cti_decoder *decoder, cti_decoding *decoding, cti_text token,
                      bool first, bool last) {
    cti_buffer *text = &decoding->text;
    if (!stages_run(decoder, decoding, &token, first, last)) return false;
    if (decoder->joins_with_space && !first) bytes_append(text, " ", 1);
    if (decoder->bytes == CTI_DECODE_BYTES) {
        alphabet_text_append(text, token);
        return !text->failed;
    }
    const int byte = decoder->bytes == CTI_DECODE_FALLBACK ? fallback_byte(token) : -1;
    if (byte < 0) {
        byte_run_end(decoding);
        bytes_append(text, token.at, token.size);
        return !text->failed;
    }
    if (!decoding->in_run) decoding->run = text->size;
    decoding->in_run = true;
    bytes_append(text, (const char[]){(char)byte}, 1);
    return !text->failed;
}

/* Appends text with U+FFFD for each ill-formed part. */
static void text_append_lossy(cti_buffer *out, cti_text text) {
    for (size_t at = 0; at < text.size;) {
        const size_t good = cti_utf8_check(text.at + at, text.size - at);
        bytes_append(out, text.at + at, good);
        at += good;
        if (at == text.size) break;
        uint32_t c;
        at += cti_utf8_read(text.at + at, text.size - at, &c);
        character_append(out, CTI_REPLACEMENT);
    }
}

bool cti_decode_end(const cti_decoder *decoder, cti_decoding *decoding) {
    cti_buffer *text = &decoding->text;
    byte_run_end(decoding);
    if (decoder->bytes == CTI_DECODE_BYTES && !text->failed &&
        cti_utf8_check(buffer_text(text).at, text->size) < text->size) {
        decoding->other.size = 0;
        text_append_lossy(&decoding->other, buffer_text(text));
        const cti_buffer swapped = *text;
        *text = decoding->other;
        decoding->other = swapped;
    }
    if (text->failed) return false;
    if (decoder->strips && text->size) {
        const cti_text rest = stripped(&decoder->strip, buffer_text(text));
        memmove(text->at, rest.at, rest.size);
        text->size = rest.size;
    }
    return true;
}

/* ---- a stream ---- */

/* ct_decode_state.held begins with the bytes that are held, at most STATE_MOST_HELD. The constants
 * below are the indices of further bytes of it, in which the stages keep their state. */
enum {
    STATE_STRIPPED = 56, /* how many characters Strip has removed at the beginning */
    STATE_STRIP_DONE,    /* 1: the beginning is over */
    STATE_TRAILING,      /* how many of Strip's characters are held at the end */
    STATE_BAD_RUN,       /* 1: the run of byte tokens is ill-formed */
    STATE_MOST_HELD = 3
};

/* Moves the held bytes into the front of a buffer. */
static void held_take(ct_decode_state *state, cti_buffer *out) {
    if (state->count > 0 && state->count <= STATE_MOST_HELD)
        bytes_append(out, (const char *)state->held, (size_t)state->count);
    state->count = 0;
}

static void held_put(ct_decode_state *state, cti_text bytes) {
    memcpy(state->held, bytes.at, bytes.size);
    state->count = (int)bytes.size;
}

/* The number of bytes at the end of a text that begin a character which is not whole, and could
 * become whole. */
static size_t unfinished(cti_text text) {
    for (size_t n = 1; n <= STATE_MOST_HELD && n <= text.size; n++) {
        const char *at = text.at + text.size - n;
        if (cti_utf8_continues(*at)) continue;
        const unsigned char lead = (unsigned char)*at;
        if (lead < 0xC2 || lead > 0xF4 || cti_utf8_length(lead) <= n) return 0;
        uint32_t c;
        return cti_utf8_read(at, n, &c) == n ? n : 0;
    }
    return 0;
}

/* Adds bytes to a stream of ByteLevel. */
static void stream_bytes(cti_decoding *decoding, ct_decode_state *state, cti_text token) {
    cti_buffer *raw = &decoding->other;
    raw->size = 0;
    held_take(state, raw);
    if (token.at) alphabet_text_append(raw, token);
    if (raw->failed) return;
    cti_text text = buffer_text(raw);
    const size_t tail = token.at ? unfinished(text) : 0;
    text.size -= tail;
    text_append_lossy(&decoding->text, text);
    held_put(state, (cti_text){text.at + text.size, tail});
}

static void held_replace(ct_decode_state *state, cti_buffer *text) {
    for (; state->count > 0; state->count--) character_append(text, CTI_REPLACEMENT);
}

/* Adds a token to a stream of ByteFallback. */
static void stream_fallback(cti_decoding *decoding, ct_decode_state *state, cti_text token) {
    cti_buffer *text = &decoding->text;
    const int byte = token.at ? fallback_byte(token) : -1;
    if (byte < 0) {
        held_replace(state, text);
        state->held[STATE_BAD_RUN] = 0;
        bytes_append(text, token.at, token.size);
        return;
    }
    if (state->count < 0 || state->count > STATE_MOST_HELD) state->count = 0;
    state->held[state->count++] = (unsigned char)byte;
    const cti_text held = {(const char *)state->held, (size_t)state->count};
    if (state->held[STATE_BAD_RUN] ||
        (cti_utf8_check(held.at, held.size) < held.size && unfinished(held) < held.size)) {
        state->held[STATE_BAD_RUN] = 1;
        held_replace(state, text);
    } else if (!unfinished(held)) {
        bytes_append(text, held.at, held.size);
        state->count = 0;
    }
}

/* Applies Strip to the text that is whole by now. */
static void stream_strip(const cti_decode_stage *strip, cti_decoding *decoding,
                         ct_decode_state *state, bool ends) {
    cti_buffer *text = &decoding->text, *other = &decoding->other;
    if (text->failed) return;
    cti_text now = buffer_text(text);
    if (!state->held[STATE_STRIP_DONE] && now.size) {
        const int64_t left = strip->start - state->held[STATE_STRIPPED];
        const size_t begin = leading_bytes(now, strip->text, left < 0 ? 0 : left);
        now = (cti_text){now.at + begin, now.size - begin};
        state->held[STATE_STRIPPED] += (unsigned char)(begin / strip->text.size);
        if (now.size || state->held[STATE_STRIPPED] >= strip->start)
            state->held[STATE_STRIP_DONE] = 1;
    }
    other->size = 0;
    for (int i = 0; i < state->held[STATE_TRAILING]; i++)
        bytes_append(other, strip->text.at, strip->text.size);
    bytes_append(other, now.at, now.size);
    now = buffer_text(other);
    const size_t tail = trailing_bytes(now, strip->text, strip->stop);
    state->held[STATE_TRAILING] = ends ? 0 : (unsigned char)(tail / strip->text.size);
    text->size = 0;
    bytes_append(text, now.at, now.size - tail);
    text->failed |= other->failed;
}

bool cti_decode_stream(const cti_decoder *decoder, cti_decoding *decoding, ct_decode_state *state,
                       cti_text token, bool last) {
    cti_buffer *text = &decoding->text;
    if (token.at) {
        if (!stages_run(decoder, decoding, &token, !state->begun, last)) return false;
        if (decoder->joins_with_space && state->begun) bytes_append(text, " ", 1);
    }
    if (decoder->bytes == CTI_DECODE_BYTES) stream_bytes(decoding, state, token);
    else if (decoder->bytes == CTI_DECODE_FALLBACK) stream_fallback(decoding, state, token);
    else bytes_append(text, token.at, token.size);
    if (decoder->strips) stream_strip(&decoder->strip, decoding, state, !token.at);
    state->begun = true;
    return !text->failed && !decoding->other.failed;
}
