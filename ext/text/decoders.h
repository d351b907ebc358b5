/* Decoders: functions that make text of the texts of tokens. ByteLevel, Metaspace, WordPiece,
 * BPEDecoder, Replace, Strip, ByteFallback, Fuse and Sequence.
 *
 * A decoder is a list of stages in this order:
 *
 *     token by token    Replace, Metaspace, WordPiece, Strip, or only a BPEDecoder
 *     bytes             ByteLevel or ByteFallback, or neither
 *     the whole text    Fuse, which joins the tokens, and behind it or ByteLevel a Strip
 *
 * Other orders are refused, because their text could not be written while the tokens come. */
#ifndef CTI_TEXT_DECODERS_H
#define CTI_TEXT_DECODERS_H

#include <cotangent/tokenizer.h>

#include "pattern.h"
#include "reading.h"

typedef enum {
    CTI_DECODE_REPLACE,
    CTI_DECODE_METASPACE,
    CTI_DECODE_WORDPIECE,
    CTI_DECODE_STRIP,
    CTI_DECODE_BPE,
    CTI_DECODE_BYTES,
    CTI_DECODE_FALLBACK,
    CTI_DECODE_FUSE,
    CTI_DECODE_SEQUENCE,
    CTI_DECODE_KINDS
} cti_decode_kind;

/* A stage. .text is Replace's content, Metaspace's replacement, WordPiece's prefix, BPEDecoder's
 * suffix, or the character that Strip removes. */
typedef struct {
    cti_decode_kind kind;
    cti_text text;
    const cti_pattern *pattern; /* of Replace */
    int64_t start, stop;        /* of Strip: how many characters it removes at each end */
    bool flag; /* Metaspace: the first token keeps its spaces; WordPiece: cleanup */
} cti_decode_stage;

enum { CTI_MOST_STAGES = 16 };
typedef struct {
    bool joins_with_space; /* the file has no decoder: spaces stand between the tokens */
    cti_decode_stage stage[CTI_MOST_STAGES]; /* the stages that change single tokens */
    int stages;
    cti_decode_kind bytes;  /* CTI_DECODE_BYTES, CTI_DECODE_FALLBACK, or CTI_DECODE_FUSE: neither */
    cti_decode_stage strip; /* the Strip of the whole text; zeros: none */
    bool strips;
} cti_decoder;

/* Reads the value of "decoder", 0 if there is none. */
bool cti_decoder_read(const cti_reading *reading, cti_json_at value, cti_decoder *decoder);

/* A text that grows, by malloc. A failed allocation sets `failed`. */
typedef struct {
    char *at;
    size_t size, room;
    bool failed;
} cti_buffer;

/* The work of one call: the text so far, and room for the stages of single tokens. Zeros at first.
 */
typedef struct {
    cti_buffer text, token, other;
    cti_pattern_memory memory;
    size_t run;  /* ByteFallback: where the run of bytes at the end of `text` begins */
    bool in_run; /* there is one */
} cti_decoding;

void cti_decoding_free(cti_decoding *decoding);
/* Appends a token to a whole text; `first` and `last` tell its place. Returns false if memory is
 * short. */
bool cti_decode_token(const cti_decoder *decoder, cti_decoding *decoding, cti_text token,
                      bool first, bool last);
/* Ends a whole text: its ill-formed parts become U+FFFD. */
bool cti_decode_end(const cti_decoder *decoder, cti_decoding *decoding);

/* The next token of a stream, or with .at NULL its end: the text that is whole by now. */
bool cti_decode_stream(const cti_decoder *decoder, cti_decoding *decoding, ct_decode_state *state,
                       cti_text token, bool last);
/* Whether a token's text depends on whether it is the last one (BPEDecoder), so that a stream is
 * one token behind. */
bool cti_decoder_waits(const cti_decoder *decoder);

/* A bound of the bytes that cti_decode_stream writes for a token of `size` bytes. */
size_t cti_decode_room(const cti_decoder *decoder, size_t size);

#endif
