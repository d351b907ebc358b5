/* Numbers and strings as they are written in a template. */
#ifndef CTI_TEXT_JINJA_LITERAL_H
#define CTI_TEXT_JINJA_LITERAL_H

#include "lexer.h"

/* The word at lexer->at, which begins with a digit, or with a quote. */
bool cti_jinja_lex_number(cti_jinja_lexer *lexer, cti_jinja_word *word);
bool cti_jinja_lex_string(cti_jinja_lexer *lexer, cti_jinja_word *word);

#endif
