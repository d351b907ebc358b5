/* JSON, as little of it as a file's header needs: a strict reader that the caller pulls values
 * from, so that it neither recurses nor builds a tree, and strings to write. */
#ifndef CTI_IO_JSON_H
#define CTI_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes with their length; a NUL stands behind them, and may stand among them. */
typedef struct {
    const char *at;
    size_t size;
} cti_text;

cti_text cti_text_of(const char *string);
int cti_text_compare(cti_text a, cti_text b); /* by bytes: negative, 0 or positive */

/* Text under the reader. Strings are unescaped where they stand, over what has been read. */
typedef struct {
    char *text, *at, *end;
    const char *fault; /* what is wrong at `at`, the first time; then every call is false */
} cti_json;

/* Where the first byte that is not UTF-8 stands; size where all is. Overlong forms and surrogates
 * are not UTF-8. */
size_t cti_json_utf8(const char *text, size_t size);

/* text has been found to be UTF-8, and is writable.
 *
 *     for (bool first = cti_json_open(json, '{'); cti_json_next(json, '}', &first);) { key, value }
 *
 * visits the members of an object, or with brackets the items of an array; the caller reads
 * each. */
cti_json cti_json_read(char *text, size_t size);
bool cti_json_open(cti_json *json, char bracket);
bool cti_json_next(cti_json *json, char bracket, bool *first);
bool cti_json_key(cti_json *json, cti_text *key); /* with its colon */
bool cti_json_string(cti_json *json, cti_text *string);
/* 0, 1, 2, ... INT64_MAX: no sign, point, exponent or leading zero */
bool cti_json_natural(cti_json *json, int64_t *number);
bool cti_json_fail(cti_json *json, const char *fault); /* records the fault at this place; false */

/* A text that is being written. With no buffer it only counts; what does not fit is counted, not
 * written. */
typedef struct {
    char *at;
    size_t size, used;
} cti_writer;

void cti_write_bytes(cti_writer *writer, const char *bytes, size_t size);
void cti_write(cti_writer *writer, const char *string);
void cti_write_natural(cti_writer *writer, int64_t number);
/* what stands between the quotes of a JSON string; text is UTF-8 */
void cti_write_escaped(cti_writer *writer, cti_text text);
void cti_write_quoted(cti_writer *writer, cti_text text);

#endif
