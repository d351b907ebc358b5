/* The reading of tokenizer.json: the parsed file, the memory for its parts, and errors that name
 * the file, the place and the kind. A kind is an object with a "type", such as
 * {"type": "Digits", "individual_digits": true}. */
#ifndef CTI_TEXT_READING_H
#define CTI_TEXT_READING_H

#include "../../src/io/json_tree.h"
#include "arena.h"

typedef struct {
    ct_context *context;
    cti_arena *arena; /* the tokenizer's */
    const char *path; /* the path of the file, for messages */
    const cti_json_tree *tree;
    cti_json_at type_of; /* the innermost kind that is being read, for messages; 0: none */
    const char *op;      /* the function that messages name; NULL: tokenizer_open */
} cti_reading;

/* Records CT_ERR_FORMAT "OP: PATH: byte N: KIND: ..." for a value of the file. Returns
 * false. */
bool cti_reading_fail(const cti_reading *reading, cti_json_at value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* These read the member `key` of an object. A member that is absent or null leaves *out as it is,
 * unless it is required (cti_reading_needs_...). A value of another type is an error that names the
 * key. */
bool cti_reading_bool(const cti_reading *reading, cti_json_at object, const char *key, bool *out);
bool cti_reading_natural(const cti_reading *reading, cti_json_at object, const char *key,
                         int64_t *out);
bool cti_reading_text(const cti_reading *reading, cti_json_at object, const char *key,
                      cti_text *out); /* a copy in the arena */
bool cti_reading_needs_text(const cti_reading *reading, cti_json_at object, const char *key,
                            cti_text *out);

/* Reads the "type" of a kind: the index of its name in names[0 ... n). Another name is an error
 * that lists nothing but the name and the place ("unknown normalizer 'Nmt'"); `noun` is
 * "normalizer", "pre-tokenizer", ... Returns -1 after an error. */
int cti_reading_kind(const cti_reading *reading, cti_json_at object, const char *noun,
                     const char *const *names, int n);

/* Refuses members of a kind that are not in the list, which ends with NULL ("type" is always in
 * it). */
bool cti_reading_only(const cti_reading *reading, cti_json_at object, const char *const *keys);

#endif
