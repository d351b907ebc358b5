/* JSON: a strict pull parser, which neither recurses nor builds a tree (json_tree.h builds one with
 * it), and a writer of strings and numbers. */
#ifndef CTI_IO_JSON_H
#define CTI_IO_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes with their length. A NUL follows them, and they may contain NULs. */
typedef struct {
    const char *at;
    size_t size;
} cti_text;

cti_text cti_text_of(const char *string);
/* Compares as memcmp does: negative, 0 or positive. A text comes before its extensions. */
int cti_text_compare(cti_text a, cti_text b);

/* The parser. Strings are unescaped in place, because an escape is at least as long as its
 * character. After the first fault every function returns false. */
typedef struct {
    char *text, *at, *end;
    const char *fault; /* the first fault, which was found at `at`; NULL if none */
    int64_t skipped;   /* number of objects that cti_json_skip has passed over */
} cti_json;

/* The index of the first byte that is not valid UTF-8; size if all bytes are valid. Overlong forms
 * and surrogates are not valid. */
size_t cti_json_utf8(const char *text, size_t size);

/* Starts to parse a text that is valid UTF-8; the parser overwrites it. This loop visits the
 * members of an object or, with '[' and ']', the items of an array; its body reads each of them:
 *
 *     for (bool first = cti_json_open(json, '{'); cti_json_next(json, '}', &first);) { key, value }
 */
cti_json cti_json_read(char *text, size_t size);
bool cti_json_open(cti_json *json, char bracket);
bool cti_json_next(cti_json *json, char bracket, bool *first);
bool cti_json_key(cti_json *json, cti_text *key); /* reads the key and its colon */
bool cti_json_string(cti_json *json, cti_text *string);
/* Reads one of 0, 1, 2, ... INT64_MAX. A sign, point, exponent or leading zero is a fault. */
bool cti_json_natural(cti_json *json, int64_t *number);
/* The double of a number's spelling: digits with a point and an exponent, as in JSON. */
double cti_real_read(cti_text spelling);
/* The next byte that is no white space, which is not passed over; 0 at the end of the text and
 * after a fault. */
char cti_json_look(cti_json *json);
/* Reads a number of any form; *spelling is its text, behind which no NUL is put. */
bool cti_json_number(cti_json *json, cti_text *spelling);
/* Passes over "true", "false" or "null", if the text has this word next. Returns whether it has; it
 * is no fault if it has not. */
bool cti_json_word(cti_json *json, const char *word);
/* Passes over a value of any type. It is parsed as strictly as a value that is read; arrays and
 * objects may be nested 64 deep. The parser does not check that an object has no key twice. It
 * calls key, unless key is NULL, with each key of each object, so that the caller can check this.
 * `object` is the object's number: objects that are skipped are counted from 1. If key returns
 * false the skip ends and returns false, without a fault. */
typedef bool cti_json_visit(void *arg, int64_t object, cti_text key);
bool cti_json_skip(cti_json *json, cti_json_visit *key, void *arg);
bool cti_json_fail(cti_json *json, const char *fault); /* records a first fault; returns false */

/* A writer appends to a buffer of `size` bytes. Bytes that do not fit are counted in `used` but not
 * written, so a writer without a buffer measures a text. */
typedef struct {
    char *at;
    size_t size, used;
} cti_writer;

void cti_bytes_write(cti_writer *writer, const char *bytes, size_t size);
void cti_string_write(cti_writer *writer, const char *string);
void cti_natural_write(cti_writer *writer, int64_t number);
/* Writes a finite number with the fewest digits that give the same number when they are read. */
void cti_real_write(cti_writer *writer, double number);
/* A number that printf has written has the decimal point of the program's locale, which may have
 * several bytes. Puts '.' in its place. */
void cti_json_point(char *number);
/* These write a JSON string: cti_escaped_write without the quotes around it, cti_quoted_write with
 * them. The text must be UTF-8. */
void cti_escaped_write(cti_writer *writer, cti_text text);
void cti_quoted_write(cti_writer *writer, cti_text text);

#endif
