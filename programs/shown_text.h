/* A model's text as it is shown while it comes. On a terminal, control characters are shown as
 * escapes such as \x1b, so that they have no effect there, and reasoning between <think> and
 * </think> is dimmed. Elsewhere the text is written as it is. */
#ifndef PROGRAMS_SHOWN_TEXT_H
#define PROGRAMS_SHOWN_TEXT_H

#include <stdbool.h>
#include <stddef.h>

enum { SHOWN_TAIL = 8 };

typedef struct {
    bool escapes, dims; /* on a terminal, and one with colours */
    bool is_reasoning;
    char tail[SHOWN_TAIL]; /* the last bytes of the text, in which the marks are found */
} shown_text;

/* A text that begins now, inside of reasoning or not. */
shown_text shown_begin(bool is_reasoning);
/* Writes a part of the text, of whole characters, to standard output. */
void shown_write(shown_text *shown, const char *text, size_t size);
/* Ends the text, and the dimming. */
void shown_end(shown_text *shown);

#endif
