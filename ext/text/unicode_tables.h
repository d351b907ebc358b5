/* The tables behind unicode.h, which make_unicode makes.
 *
 * A character has a record, which is found in three steps, as equal blocks are there once: a block
 * of 128 characters begins at cti_unicode_block[c / 128] in cti_unicode_eight, which has one entry
 * for each eight of them; these begin there in cti_unicode_item, which has the indices of records.
 * Blocks overlap where they can. The blocks are those below CTI_BLOCKS_END and, behind them, those
 * of the tags; the other characters are unassigned or private.
 *
 * The sizes here are those that make_unicode found: the compiler says if they differ. */
#ifndef CTI_TEXT_UNICODE_TABLES_H
#define CTI_TEXT_UNICODE_TABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "char_set.h"

enum { CTI_BLOCKS_END = 0x32400, CTI_TAGS = 0xE0000, CTI_TAGS_END = 0xE1000 };

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
    CTI_HAS_LOWER = 1 << 11,        /* its lower case is another character */
    CTI_HAS_DECOMPOSES = 1 << 12,   /* NFD changes it */
    CTI_HAS_NFC_MOVES = 1 << 13,    /* NFC may change it, move it, or compose it with another */
    CTI_HAS_MORE_LOWER = 1 << 14,   /* Python's islower, though its category is not Ll */
    CTI_HAS_MORE_UPPER = 1 << 15,   /* isupper, not Lu */
    CTI_HAS_MORE_DIGIT = 1 << 16,   /* isdigit, not Nd */
    CTI_HAS_MORE_NUMERIC = 1 << 17, /* isnumeric, no number */
    CTI_HAS_COMPATIBLE = 1 << 18,   /* NFKD makes something else of it than NFD */
    CTI_CLASS_SHIFT = 30            /* the two bits above are its cti_class */
};

/* The properties that many characters share. */
typedef struct {
    uint8_t category, combining_class, grapheme; /* .grapheme: a cti_grapheme */
    uint32_t flags;
} cti_unicode_record;

/* Where a grapheme ends depends on these classes of its characters (grapheme.h). Those from
 * CTI_EXTENDS to CTI_SPACING never begin one behind another character but a control. */
typedef enum {
    CTI_NO_GRAPHEME,
    CTI_CONTROL,
    CTI_PREPENDED,
    CTI_EXTENDS,
    CTI_EXTENDS_CONJUNCT, /* and may stand between a consonant and its linker */
    CTI_LINKER,           /* a virama, which joins two consonants */
    CTI_JOINER,           /* U+200D, which joins two pictures */
    CTI_SPACING,
    CTI_HANGUL_L,
    CTI_HANGUL_V,
    CTI_HANGUL_T,
    CTI_HANGUL_SYLLABLE, /* LV or LVT */
    CTI_PICTURE,
    CTI_CONSONANT
} cti_grapheme;

/* Characters first, first + step ... last, whose lower case, upper case or fold is
 * `delta` further. */
typedef struct {
    uint32_t first, last;
    int32_t step, delta;
} cti_case_run;

/* Characters from `first` on, up to the first of the next run: one after the other their
 * decompositions are those from `at` on. */
typedef struct {
    uint32_t first;
    uint16_t at;
} cti_decomposed_run;

/* Characters from `first` on, up to the first of the next run or as far as they have the flag:
 * their compatible decompositions of `length` characters each are those from `at` on. */
typedef struct {
    uint32_t first;
    uint16_t at, length;
} cti_compatible_run;

/* A script of regular expressions: `count` ranges of cti_script_ranges from `at` on. */
typedef struct {
    const char *name;
    uint16_t at, count;
} cti_script;

extern const uint16_t cti_unicode_block[1640];
extern const uint16_t cti_unicode_eight[4636];
extern const uint8_t cti_unicode_item[7069];
extern const cti_unicode_record cti_unicode_records[210];
extern const uint8_t cti_unicode_unassigned, cti_unicode_private; /* indices of records */
extern const cti_case_run cti_lower_runs[186];
extern const cti_case_run cti_upper_runs[194]; /* upper cases of one character */
/* A character, its upper case of two or three characters, and its title case, in order. */
extern const uint16_t cti_long_cases[102][7];
/* The folds that are not lower cases, and the folds of several characters: an entry has the fold of
 * one character and the two or three that it is equal to. A fold stands before those that it
 * begins. */
extern const cti_case_run cti_fold_runs[32];
extern const uint16_t cti_long_folds[73][4];

/* Decompositions in the order of their characters, without those of Hangul syllables. A character
 * is equal to its first part, which may have a decomposition too, and its second part, which has
 * none; second 0: to the first alone. cti_composed has the decompositions that NFC composes again,
 * in the order of (first, second). */
extern const cti_decomposed_run cti_decomposed_runs[230];
extern const uint32_t cti_decomposed_first[2060];
extern const uint32_t cti_decomposed_second[2060];
extern const uint16_t cti_composed[940];

/* Full compatible decompositions of one character that is `delta` further, and of any others. */
extern const cti_case_run cti_compatible_near[204];
extern const cti_compatible_run cti_compatible_runs[480];
extern const uint16_t cti_compatible[4063];

extern const cti_script cti_scripts[12];
extern const cti_char_range cti_script_ranges[219];

/* The record of a character. */
static inline const cti_unicode_record *cti_unicode_record_of(uint32_t c) {
    uint32_t block = c / 128;
    if (c >= CTI_BLOCKS_END) {
        if (c < CTI_TAGS || c >= CTI_TAGS_END) {
            return &cti_unicode_records[c >= 0xF0000 && (c & 0xFFFE) != 0xFFFE
                                            ? cti_unicode_private
                                            : cti_unicode_unassigned];
        }
        block = (CTI_BLOCKS_END + c - CTI_TAGS) / 128;
    }
    const uint32_t eight = cti_unicode_eight[cti_unicode_block[block] + c / 8 % 16];
    return &cti_unicode_records[cti_unicode_item[eight + c % 8]];
}

static inline bool cti_unicode_has(uint32_t c, unsigned flag) {
    return cti_unicode_record_of(c)->flags & flag;
}

#endif
