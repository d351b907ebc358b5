/* The normalizer Precompiled: SentencePiece's table of texts that become others, as base64 in the
 * file. It is a double array (of 4 bytes of the number of its bytes, then units of 4 bytes) that
 * maps beginnings of texts to places in a pool of texts, each of which ends with a NUL. */
#ifndef CTI_TEXT_CHARSMAP_H
#define CTI_TEXT_CHARSMAP_H

#include "aligned.h"
#include "reading.h"

typedef struct cti_charsmap cti_charsmap;

/* Reads the base64 text. Refuses a table that points out of itself. */
bool cti_charsmap_read(const cti_reading *reading, cti_json_at value, const cti_charsmap **map);

/* Replaces as the package does: a grapheme of fewer than 6 bytes of which the table has a beginning
 * becomes the text of the shortest such beginning; in others so does each character. Returns false
 * if memory is short. */
bool cti_charsmap_run(const cti_charsmap *map, cti_aligned *text, cti_aligned *spare);

#endif
