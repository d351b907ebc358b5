/* The JSON that a safetensors header and an index need: a strict pull parser, which neither
 * recurses nor builds a tree, and a writer of strings and numbers. */
#ifndef CTI_IO_JSON_H
#define CTI_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes with their length, followed by a NUL; they may contain NULs. */
typedef struct {
    const char *at;
    size_t size;
} cti_text;

cti_text cti_text_of(const char *string);
int cti_text_compare(cti_text a, cti_text b); /* as memcmp: negative, 0 or positive */

/* The parser. Strings are unescaped in place: an escape is at least as long as its character. */
typedef struct {
    char *text, *at, *end;
    const char *fault; /* the first one, found at `at`; from then on every function returns false */
    int64_t skipped;   /* objects that cti_json_skip has passed over */
} cti_json;

/* The index of the first byte that is not valid UTF-8; size if there is none. Overlong forms and
 * surrogates are not valid. */
size_t cti_json_utf8(const char *text, size_t size);

/* Starts on a text that is valid UTF-8. The parser overwrites it.
 *
 *     for (bool first = cti_json_open(json, '{'); cti_json_next(json, '}', &first);) { key, value }
 *
 * visits the members of an object or, with '[' and ']', the items of an array. The caller reads
 * each. */
cti_json cti_json_read(char *text, size_t size);
bool cti_json_open(cti_json *json, char bracket);
bool cti_json_next(cti_json *json, char bracket, bool *first);
bool cti_json_key(cti_json *json, cti_text *key); /* and its colon */
bool cti_json_string(cti_json *json, cti_text *string);
/* 0, 1, 2, ... INT64_MAX: no sign, point, exponent or leading zero */
bool cti_json_natural(cti_json *json, int64_t *number);
/* Passes over any value, which is checked like one that is read; arrays and objects may be nested
 * 64 deep. `key`, or NULL, is called with each key of each object, whose number counts the objects
 * that were skipped, from 1: a key that an object has twice is for the caller to find. It may
 * return false, without a fault, which ends the skip. */
typedef bool cti_json_visit(void *arg, int64_t object, cti_text key);
bool cti_json_skip(cti_json *json, cti_json_visit *key, void *arg);
bool cti_json_fail(cti_json *json, const char *fault); /* records it, unless there is one; false */

/* Appends to a buffer of `size` bytes. What does not fit is counted in `used` but not written, so a
 * writer without a buffer measures a text. */
typedef struct {
    char *at;
    size_t size, used;
} cti_writer;

void cti_write_bytes(cti_writer *writer, const char *bytes, size_t size);
void cti_write(cti_writer *writer, const char *string);
void cti_write_natural(cti_writer *writer, int64_t number);
/* A JSON string without and with its quotes; text is UTF-8. */
void cti_write_escaped(cti_writer *writer, cti_text text);
void cti_write_quoted(cti_writer *writer, cti_text text);

#endif
