/* JSON, as little of it as a file's header needs: a strict reader that the caller pulls values from, so that it neither
 * recurses nor builds a tree, and strings to write. */
#ifndef CT_SRC_IO_JSON_H
#define CT_SRC_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes with their length; a NUL stands behind them, and may stand among them. */
typedef struct {
    const char *at;
    size_t size;
} ct_text;

ct_text ct_text_of(const char *string);
int ct_text_compare(ct_text a, ct_text b); /* by bytes: negative, 0 or positive */

/* Text under the reader. Strings are unescaped where they stand, over what has been read. */
typedef struct {
    char *text, *at, *end;
    const char *fault; /* what is wrong at `at`, the first time; then every call is false */
} ct_json;

/* Where the first byte that is not UTF-8 stands; size where all is. Overlong forms and surrogates are not UTF-8. */
size_t ct_json_utf8(const char *text, size_t size);

/* text has been found to be UTF-8, and is writable.
 *
 *     for (bool first = ct_json_open(json, '{'); ct_json_next(json, '}', &first);) { key, value }
 *
 * visits the members of an object, or with brackets the items of an array; the caller reads each. */
ct_json ct_json_read(char *text, size_t size);
bool ct_json_open(ct_json *json, char bracket);
bool ct_json_next(ct_json *json, char bracket, bool *first);
bool ct_json_key(ct_json *json, ct_text *key); /* with its colon */
bool ct_json_string(ct_json *json, ct_text *string);
bool ct_json_natural(ct_json *json, int64_t *number); /* 0, 1, 2, ... INT64_MAX: no sign, point, exponent or leading zero */
bool ct_json_fail(ct_json *json, const char *fault);  /* records the fault at this place; false */

/* A text that is being written. With no buffer it only counts; what does not fit is counted, not written. */
typedef struct {
    char *at;
    size_t size, used;
} ct_writer;

void ct_write_bytes(ct_writer *writer, const char *bytes, size_t size);
void ct_write(ct_writer *writer, const char *string);
void ct_write_natural(ct_writer *writer, int64_t number);
void ct_write_escaped(ct_writer *writer, ct_text text); /* what stands between the quotes of a JSON string; text is UTF-8 */
void ct_write_quoted(ct_writer *writer, ct_text text);

#endif
