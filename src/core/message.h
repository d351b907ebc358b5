/* The text of an error message. */
#ifndef CTI_CORE_MESSAGE_H
#define CTI_CORE_MESSAGE_H

#include <cotangent/types.h>

#include <stdarg.h>

enum { CTI_MESSAGE_SIZE = 1024 };

/* The message and the status of the pending error; "" and CT_OK if none is pending. The error does
 * not count as seen, because the library reads it here in order to pass it on, and the program has
 * not looked at it. */
const char *cti_pending_error(const ct_context *context, ct_status *status);

/* The bytes of the character of UTF-8 that a text of `size` > 0 bytes begins with; 0 if it begins
 * with none. Overlong forms and surrogates are none. */
size_t cti_utf8_character(const char *text, size_t size);

/* Does the work of vsnprintf with a buffer of `size` bytes. Arguments may come from a file or a
 * user, so no control character and no ill-formed byte of them reaches the message: it has \u001b
 * and \xff in their place. If the message is longer than that, its longest texts (%s) are
 * shortened. Each is replaced by its beginning, "..." and its end, so that a long path does not cut
 * off the rest of the message. */
void cti_message(char *out, size_t size, const char *format, va_list list);

/* Copies a text and a NUL. A text of more than `most` >= 5 bytes is shortened in the same way to at
 * most this length. Returns the length of the copy. UTF-8 sequences stay whole. */
size_t cti_text_shorten(char *out, size_t most, const char *text, size_t length);

#endif
