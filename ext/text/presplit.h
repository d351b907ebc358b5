/* The steps of which pre-tokenizers are made: pretokenize.c reads and runs them, presplit.c divides
 * pieces, prerewrite.c changes the text of pieces. */
#ifndef CTI_TEXT_PRESPLIT_H
#define CTI_TEXT_PRESPLIT_H

#include "pretokenize.h"

/* The fate of the matches when a piece is divided. Invariant: matches and the gaps between them
 * cover the piece. */
typedef enum {
    CTI_REMOVED,              /* matches are no pieces */
    CTI_ISOLATED,             /* each match and each gap is a piece */
    CTI_MERGED_WITH_PREVIOUS, /* a match is the end of the gap before it */
    CTI_MERGED_WITH_NEXT,     /* a match is the beginning of the gap behind it */
    CTI_CONTIGUOUS            /* neighbouring matches are one piece */
} cti_behavior;

typedef enum {
    CTI_STEP_PATTERN,  /* matches of a pattern */
    CTI_STEP_CLASS,    /* each character of a class */
    CTI_STEP_WORDS,    /* the gaps between words and runs of symbols, which are \w+|[^\w\s]+ */
    CTI_STEP_PREFIX,   /* puts a space before each piece that does not begin with one */
    CTI_STEP_ALPHABET, /* writes the bytes of each piece in the alphabet */
    CTI_STEP_METASPACE /* replaces spaces, and puts the replacement before pieces */
} cti_step_kind;

typedef enum { CTI_PREPEND_ALWAYS, CTI_PREPEND_FIRST, CTI_PREPEND_NEVER } cti_prepend_scheme;

typedef bool cti_character_class(uint32_t c);

typedef struct {
    cti_step_kind kind;
    cti_behavior behavior;
    bool invert; /* matches are gaps, and gaps are matches */
    const cti_pattern *pattern;
    cti_character_class *in_class; /* NULL: only the character `c` is in the class */
    uint32_t c;                    /* or the character that METASPACE puts for spaces */
    cti_prepend_scheme scheme;
} cti_step;

/* Divide or rewrite the pieces. They return false if memory is short. */
bool cti_pieces_divide(const cti_step *step, cti_pieces *pieces);
bool cti_pieces_rewrite(const cti_step *step, cti_pieces *pieces);

#endif
