/* A text that was made from a part of the original text, with the place in the original of each of
 * its bytes: the result of a normalizer or a pre-tokenizer, which insert, remove and replace
 * characters.
 *
 * Invariants:
 *
 * 1. The text is well-formed UTF-8.
 * 2. If from is NULL the text is the original's bytes [base, base + size). Otherwise from[i] is the
 *    range of the original for byte i: the range of the character from which byte i came. All
 *    bytes of one character have the same range.
 * 3. An inserted character has the range of the character before it in the text, as in the
 *    tokenizers package; at the beginning of a section it has the range (0, 0), except after a
 *    prepend, which gives it the range of the first character.
 * 4. The range of a token [begin, end) of the text begins with the range of the token's first byte
 *    and ends with the range of its last byte. */
#ifndef CTI_TEXT_ALIGNED_H
#define CTI_TEXT_ALIGNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes [begin, end) of a text. */
typedef struct {
    size_t begin, end;
} cti_extent;

/* One byte's range in the original: the range of a whole character, or an empty one. `begin` is
 * relative to the beginning of the section (`base`), so a section of CTI_MOST_SECTION bytes or more
 * has no such ranges, and a change of it fails as if memory were short. */
typedef struct {
    uint32_t begin : 29, length : 3;
} cti_source;
#define CTI_MOST_SECTION ((size_t)1 << 29)

typedef struct {
    const char *at;
    size_t size;
    size_t base;            /* the offset of the section in the original text */
    const cti_source *from; /* [size], or NULL */
    /* the memory that belongs to this text, by malloc; NULL while it is the original's */
    char *text;
    cti_source *sources;
    size_t room; /* the room of both, in items */
} cti_aligned;

/* The range in the original text of the bytes [begin, end) of an aligned text, end > begin: whole
 * characters. */
cti_extent cti_aligned_origin(const cti_aligned *aligned, size_t begin, size_t end);

#define CTI_FROM_NOTHING SIZE_MAX

/* A writer of a new aligned text that is made from an old one, character by character. A failed
 * allocation sets `failed`; then nothing more is written. */
typedef struct {
    const cti_aligned *old;
    cti_aligned made;
    bool failed;
} cti_rewriter;

/* Begins to make a text from `old`; reuses the memory of *spare, which may be zeros, and takes it
 * over. */
cti_rewriter cti_rewriter_begin(const cti_aligned *old, cti_aligned *spare);
/* Appends a character that came from byte `from` of the old text; CTI_FROM_NOTHING gives it the
 * range (0, 0). */
void cti_rewriter_put(cti_rewriter *rewriter, uint32_t c, size_t from);
/* Appends old bytes [span.begin, span.end) unchanged. */
void cti_rewriter_copy(cti_rewriter *rewriter, cti_extent span);
/* Replaces *text by the text that was made and *spare by the old one's memory. Returns false if
 * memory was short; *text is unchanged then. */
bool cti_rewriter_end(cti_rewriter *rewriter, cti_aligned *text, cti_aligned *spare);
void cti_aligned_free(cti_aligned *aligned);

/* A few changes of a text, in order. Nothing is written before the first change, so a text without
 * any stays as it is. */
typedef struct {
    cti_aligned *text, *spare;
    cti_rewriter rewriter;
    bool begun;
    size_t done; /* the old bytes before this one have been copied or dropped */
} cti_edit;

cti_edit cti_edit_begin(cti_aligned *text, cti_aligned *spare);
/* Copies the old bytes [done, from), and drops the old bytes [from, to). */
void cti_edit_drop(cti_edit *edit, size_t from, size_t to);
/* Appends a character, as cti_rewriter_put, behind a cti_edit_drop. */
static inline void cti_edit_put(cti_edit *edit, uint32_t c, size_t from) {
    cti_rewriter_put(&edit->rewriter, c, from);
}
/* Copies the rest. Returns false if memory was short; the text is unchanged then. */
bool cti_edit_end(cti_edit *edit);

#endif
