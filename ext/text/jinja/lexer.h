/* The words of a template, one at a time, by jinja2's rules of blanks: trim_blocks, lstrip_blocks,
 * and the modifiers - and +. */
#ifndef CTI_TEXT_JINJA_LEXER_H
#define CTI_TEXT_JINJA_LEXER_H

#include "jinja.h"

typedef enum {
    CTI_JINJA_END,
    CTI_JINJA_DATA,           /* text between tags */
    CTI_JINJA_BLOCK_BEGIN,    /* {% */
    CTI_JINJA_BLOCK_END,      /* %} */
    CTI_JINJA_VARIABLE_BEGIN, /* {{ */
    CTI_JINJA_VARIABLE_END,   /* }} */
    CTI_JINJA_NAME,
    CTI_JINJA_STRING_WORD,
    CTI_JINJA_INTEGER_WORD,
    CTI_JINJA_REAL_WORD,
    CTI_JINJA_OPERATOR
} cti_jinja_word_kind;

typedef struct {
    cti_jinja_word_kind kind;
    size_t at;     /* its byte in the text, for messages */
    cti_text text; /* DATA, NAME, OPERATOR: its text; STRING_WORD: what the string says */
    int64_t integer;
    double real;
} cti_jinja_word;

enum { CTI_JINJA_BRACKETS = 256 };

typedef struct {
    cti_arena *arena; /* of strings with escapes */
    const char *text; /* with \n for each end of a line, and without the last one */
    size_t size, at;
    enum { CTI_JINJA_IN_DATA, CTI_JINJA_IN_BLOCK, CTI_JINJA_IN_VARIABLE } where;
    bool line_begins; /* the last tag ended with a newline */
    char bracket[CTI_JINJA_BRACKETS];
    int brackets;
    cti_jinja_fault *fault;
    bool failed;
} cti_jinja_lexer;

/* Starts with a text, which is copied. Returns false after an error. */
bool cti_jinja_lex(cti_jinja_lexer *lexer, cti_arena *arena, cti_text text, cti_jinja_fault *fault);
/* The next word; an END after an error. */
cti_jinja_word cti_jinja_lex_next(cti_jinja_lexer *lexer);
/* Records an error at a byte of the text, unless there is one. Returns false. */
CT_FORMAT(3, 4) bool cti_jinja_lex_fail(cti_jinja_lexer *lexer, size_t at, const char *format, ...);
/* Records that memory was short, which has no place in the text. Returns false. */
bool cti_jinja_lex_no_memory(cti_jinja_lexer *lexer);
/* The line and the column of a byte, from 1 on. */
void cti_jinja_place(const char *text, size_t at, int *line, int *column);

#endif
