/* Regular expressions in oniguruma's syntax, compiled for a matcher whose time is proportional to
 * the length of the text times the length of the expression.
 *
 * Invariants of a program:
 *
 * 1. Op 0 begins a match, and the last op is CTI_RE_MATCH. A way through the program is decided by
 *    its place in the program and in the text: there are no counters and no captures.
 * 2. A cycle of jumps consumes a character, because a repeat of an expression that can be empty is
 *    refused.
 * 3. Each SPLIT, STAR and SPAN has a number of its own below `choices`. The matcher marks (choice,
 *    place in the text) when it arrives at the choice. If it arrives again, the first visit has
 *    failed, so it fails at once. */
#ifndef CTI_TEXT_REGEX_H
#define CTI_TEXT_REGEX_H

#include "char_set.h"
#include "pattern.h"

typedef enum {
    CTI_RE_CHAR,   /* the character `a` */
    CTI_RE_SET,    /* a character of set[a] */
    CTI_RE_STAR,   /* as many characters of set[a] as possible, or fewer */
    CTI_RE_SPAN,   /* as many characters of set[a] as possible */
    CTI_RE_OPTION, /* a character of set[a] if there is one */
    CTI_RE_LOOK,   /* the next character is in set[a], or with CTI_LOOK_END in b the text ends */
    CTI_RE_ANCHOR, /* a place: a cti_anchor */
    CTI_RE_SPLIT,  /* goes on at op `a`, or if that fails at op `b` */
    CTI_RE_JUMP,   /* goes on at op `a` */
    CTI_RE_MATCH
} cti_regex_kind;

enum { CTI_LOOK_END = 1, CTI_LOOK_NOT = 2 }; /* bits of b of CTI_RE_LOOK */

typedef enum {
    CTI_AT_TEXT_BEGIN,   /* \A */
    CTI_AT_TEXT_END,     /* \z */
    CTI_AT_LAST_LINE,    /* \Z: the end of the text, or before a newline that ends the text */
    CTI_AT_LINE_BEGIN,   /* ^ */
    CTI_AT_LINE_END,     /* $ */
    CTI_AT_WORD_EDGE,    /* \b */
    CTI_NOT_AT_WORD_EDGE /* \B */
} cti_anchor;

typedef struct {
    cti_regex_kind kind;
    uint32_t a, b;
    uint32_t choice; /* the number of a SPLIT, STAR or SPAN */
} cti_regex_op;

typedef struct {
    const cti_regex_op *op;
    const cti_char_set *set;
    uint32_t count, choices;
} cti_regex;

/* Compiles an expression into memory of the arena. An expression that is wrong or not supported is
 * an error "regex: byte N: ..." at the value of the file. */
bool cti_regex_compile(const cti_reading *reading, cti_json_at value, cti_text expression,
                       cti_regex *regex);

/* Finds the first match that begins at or after `from`. */
cti_find_result cti_regex_search(const cti_regex *regex, const char *text, size_t size, size_t from,
                                 cti_pattern_memory *memory, cti_extent *found);

#endif
