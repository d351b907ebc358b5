/* Pre-tokenizers: functions that divide a section of the text into pieces, each of which the model
 * turns into tokens. ByteLevel, Split, Digits, Metaspace, BertPreTokenizer, Whitespace,
 * WhitespaceSplit, Punctuation, CharDelimiterSplit and Sequence. */
#ifndef CTI_TEXT_PRETOKENIZE_H
#define CTI_TEXT_PRETOKENIZE_H

#include "aligned.h"
#include "pattern.h"
#include "reading.h"

typedef struct cti_pretokenizer cti_pretokenizer;

/* Reads the value of "pre_tokenizer"; *pretokenizer is NULL for null. */
bool cti_pretokenizer_read(const cti_reading *reading, cti_json_at value,
                           const cti_pretokenizer **pretokenizer);

/* Bytes [begin, end) of a section, which has fewer than 4 GiB. */
typedef struct {
    uint32_t begin, end;
} cti_piece;

/* A section and its pieces. Pieces are in order and do not overlap, and none is empty. */
typedef struct {
    cti_aligned text;
    cti_aligned spare;
    cti_piece *piece;  /* [count], by malloc */
    cti_piece *spared; /* the array into which a divider writes */
    size_t count, room, spared_room;
    cti_pattern_memory memory;
} cti_pieces;
void cti_pieces_free(cti_pieces *pieces);

/* Whether the pre-tokenizer ends with a ByteLevel. Then pieces are not written in the alphabet of
 * bytes, because the model works with bytes (model.h), and .bytes of a piece's text are its own. */
bool cti_pretokenizer_ends_in_bytes(const cti_pretokenizer *pretokenizer);
/* If the pre-tokenizer is only a pattern that covers every text (and perhaps a ByteLevel at its
 * end, without a prefix space), the pattern's function; NULL otherwise. Then the pieces of a text
 * are found one after the other without an array, which is the fast way. */
cti_next_piece *cti_pretokenizer_pieces(const cti_pretokenizer *pretokenizer);

/* Divides pieces->text into pieces. Returns false if memory is short. */
bool cti_pretokenizer_run(const cti_pretokenizer *pretokenizer, cti_pieces *pieces);

#endif
