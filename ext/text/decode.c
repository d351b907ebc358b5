/* Decoding: a whole text, and a stream. */
#include <string.h>

#include "tokenizer.h"

/* Writes at most room - 1 bytes and a NUL. Returns the number of bytes of the whole text. */
static int64_t decoded_write(const cti_buffer *from, char *text, size_t room) {
    const size_t size = from->size < room ? from->size : room - !!room;
    if (size) memcpy(text, from->at, size);
    if (room) text[size] = 0;
    return (int64_t)from->size;
}

/* The text of a token; .at is NULL if decoding leaves the token out. */
static cti_text decoded_token(const cti_tokenizer_parts *parts, int64_t id, bool keep_special) {
    const cti_added_token *added = cti_added_token_of(&parts->added, id);
    if (added && added->decoded.at)
        return added->skipped && !keep_special ? (cti_text){0} : added->decoded;
    return id >= 0 && id < parts->vocabulary.size ? parts->vocabulary.text[id] : (cti_text){0};
}

static bool ids_decode(const cti_tokenizer_parts *parts, const int64_t *ids, int64_t n,
                       bool keep_special, cti_decoding *decoding) {
    const cti_decoder *decoder = &parts->decoder;
    while (n && !decoded_token(parts, ids[n - 1], keep_special).at)
        n--; /* ids[n - 1] is now the last token */
    bool first = true;
    for (int64_t i = 0; i < n; i++) {
        const cti_text token = decoded_token(parts, ids[i], keep_special);
        if (!token.at) continue;
        if (!cti_decode_token(decoder, decoding, token, first, i == n - 1)) return false;
        first = false;
    }
    return cti_decode_end(decoder, decoding);
}

int64_t ct_decode(const ct_tokenizer *tokenizer, const int64_t *ids, int64_t n, bool keep_special,
                  char *text, size_t room) {
    if (!cti_tokenizer_is_open(tokenizer) || n < 0 || (!ids && n) || (!text && room)) return -1;
    cti_decoding decoding = {0};
    const bool done = ids_decode(tokenizer->parts, ids, n, keep_special, &decoding);
    const int64_t size = done ? decoded_write(&decoding.text, text, room) : -1;
    cti_decoding_free(&decoding);
    return size;
}

/* ---- a stream ---- */

/* A stream that is one token behind has the token's id in these bytes of .held. */
enum { WAITING_ID = 16, WAITS = 24 };

/* Decodes the waiting token, if there is one, and makes `id` the waiting one. */
static bool stream_behind(const cti_tokenizer_parts *parts, cti_decoding *decoding,
                          ct_decode_state *state, int64_t id) {
    const bool ends = id < 0;
    if (state->held[WAITS]) {
        int64_t waiting;
        memcpy(&waiting, state->held + WAITING_ID, sizeof waiting);
        const cti_text token = decoded_token(parts, waiting, true);
        if (token.at && !cti_decode_stream(&parts->decoder, decoding, state, token, ends))
            return false;
    }
    state->held[WAITS] = !ends;
    if (!ends) memcpy(state->held + WAITING_ID, &id, sizeof id);
    return !ends || cti_decode_stream(&parts->decoder, decoding, state, (cti_text){0}, true);
}

int64_t ct_decode_next(const ct_tokenizer *tokenizer, ct_decode_state *state, int64_t id,
                       char *text, size_t room) {
    if (!cti_tokenizer_is_open(tokenizer) || !state || (!text && room)) return -1;
    const cti_tokenizer_parts *parts = tokenizer->parts;
    const cti_decoder *decoder = &parts->decoder;
    ct_decode_state after = *state;
    cti_decoding decoding = {0};
    bool done = true;
    const cti_text token = decoded_token(parts, id, state->keep_special);
    if (token.at || id == -1)
        done = cti_decoder_waits(decoder)
                   ? stream_behind(parts, &decoding, &after, id)
                   : cti_decode_stream(decoder, &decoding, &after, token, false);
    const int64_t size = done ? decoded_write(&decoding.text, text, room) : -1;
    if (done && (decoding.text.size < room || !decoding.text.size))
        *state = id == -1 ? (ct_decode_state){.keep_special = state->keep_special} : after;
    cti_decoding_free(&decoding);
    return size;
}
