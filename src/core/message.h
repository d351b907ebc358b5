/* The text of an error message. */
#ifndef CTI_CORE_MESSAGE_H
#define CTI_CORE_MESSAGE_H

#include <stdarg.h>
#include <stddef.h>

/* vsnprintf into a buffer of `size` bytes, but where the message would be cut off its texts (%s)
 * are shortened instead, the longest ones, each to its beginning, "..." and its end: a path of any
 * length leaves room for what went wrong. */
void cti_message(char *out, size_t size, const char *format, va_list args);

/* The text, shortened in the same way to at most `most` bytes, which are at least 5, and a NUL.
 * Returns how many there are. A character of UTF-8 is not cut. */
size_t cti_shorten(char *out, size_t most, const char *text, size_t length);

#endif
