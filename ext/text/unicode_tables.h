/* The tables behind unicode.h, which make_unicode makes.
 *
 * A character c has the item cti_unicode_item[64 b + c % 64] of the block b = cti_unicode_block[c /
 * 64], which is the index of its record. Distinct blocks are there once. The blocks are those below
 * CTI_BLOCKS_END and, behind them, those of the tags; the other characters are unassigned or
 * private. The classes of cti_unicode_class are in two tables of the same form, of blocks of 128
 * characters with four characters in each byte.
 *
 * The sizes here are those that make_unicode found: the compiler says if they differ. */
#ifndef CTI_TEXT_UNICODE_TABLES_H
#define CTI_TEXT_UNICODE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

enum { CTI_BLOCKS_END = 0x32400, CTI_TAGS = 0xE0000, CTI_TAGS_END = 0xE0200 };

/* The flags of a record. */
enum {
    CTI_HAS_SPACE = 1 << 0,
    CTI_HAS_WORD = 1 << 1,
    CTI_HAS_RUST_SPACE = 1 << 2,
    CTI_HAS_RUST_NUMERIC = 1 << 3,
    CTI_HAS_RUST_WORD = 1 << 4,
    CTI_HAS_BERT_REMOVED = 1 << 5,
    CTI_HAS_BERT_SPACE = 1 << 6,
    CTI_HAS_BERT_CHINESE = 1 << 7,
    CTI_HAS_BERT_PUNCTUATION = 1 << 8,
    CTI_HAS_ACCENT = 1 << 9,
    CTI_HAS_BERT_ACCENT = 1 << 10,
    CTI_HAS_LOWER = 1 << 11,      /* its lower case is another character */
    CTI_HAS_DECOMPOSES = 1 << 12, /* NFD changes it */
    CTI_HAS_NFC_MOVES = 1 << 13   /* NFC may change it, move it, or compose it with another */
};

/* The properties that many characters share. */
typedef struct {
    uint8_t category, combining_class;
    uint16_t flags;
} cti_unicode_record;

/* Characters first, first + step ... last, whose lower case or fold is `delta` further. */
typedef struct {
    uint32_t first, last;
    int32_t step, delta;
} cti_case_run;

extern const uint16_t cti_unicode_block[3224];
extern const uint8_t cti_unicode_item[28544];
extern const uint8_t cti_unicode_unassigned, cti_unicode_private; /* indices of records */
extern const cti_unicode_record cti_unicode_records[144];
extern const uint8_t cti_class_block[1608];
extern const uint8_t cti_class_item[6656];
extern const cti_case_run cti_lower_runs[186];
/* The folds that are not lower cases, and the folds of several characters: an entry has the fold of
 * one character and the two or three that it is equal to. A fold stands before those that it
 * begins. */
extern const cti_case_run cti_fold_runs[32];
extern const uint16_t cti_long_folds[73][4];

/* Decompositions, in the order of their characters, without those of Hangul syllables: 4 c + n - 1
 * for n parts, and the index of the first of them in cti_decomposed_parts, which is UTF-16. */
extern const uint32_t cti_decomposed[2060];
extern const uint16_t cti_decomposed_at[2060];
extern const uint16_t cti_decomposed_parts[3575];
/* Pairs in order, each with the character that it composes to. */
extern const uint16_t cti_composed[928][3];
extern const uint32_t cti_composed_large[12][3];

/* The record of a character. */
static inline const cti_unicode_record *cti_unicode_record_of(uint32_t c) {
    uint32_t block = c / 64;
    if (c >= CTI_BLOCKS_END) {
        if (c < CTI_TAGS || c >= CTI_TAGS_END) {
            return &cti_unicode_records[c >= 0xF0000 && (c & 0xFFFE) != 0xFFFE
                                            ? cti_unicode_private
                                            : cti_unicode_unassigned];
        }
        block = (CTI_BLOCKS_END + c - CTI_TAGS) / 64;
    }
    return &cti_unicode_records[cti_unicode_item[64 * cti_unicode_block[block] + c % 64]];
}

static inline bool cti_unicode_has(uint32_t c, unsigned flag) {
    return cti_unicode_record_of(c)->flags & flag;
}

#endif
