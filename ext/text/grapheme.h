/* The ends of extended grapheme clusters, what a reader sees as one character: rules GB1 to GB13 of
 * Unicode's annex 29, except that regional indicators stay single (no caller sees the
 * difference: charsmap.c). */
#ifndef CTI_TEXT_GRAPHEME_H
#define CTI_TEXT_GRAPHEME_H

#include <stddef.h>

/* The end of the grapheme that begins at text[at], at < size; the text is well-formed. */
size_t cti_grapheme_end(const char *text, size_t size, size_t at);

#endif
