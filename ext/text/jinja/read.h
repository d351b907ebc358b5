/* JSON as values. */
#ifndef CTI_TEXT_JINJA_READ_H
#define CTI_TEXT_JINJA_READ_H

#include "value.h"

typedef struct {
    cti_jinja_run *run;
    cti_json json;
    const char *what; /* for messages: "message 2", "tools" */
    int32_t mark;     /* of the values that are read */
    int depth;        /* of the value that is read */
} cti_jinja_reader;

/* Starts to read a text, which is copied. Returns false after an error. */
bool cti_jinja_read_begin(cti_jinja_reader *reader, cti_jinja_run *run, const char *text,
                          const char *what, int32_t mark);
/* The next value. */
cti_jinja_value cti_jinja_read_value(cti_jinja_reader *reader);
/* Checks that nothing follows. */
bool cti_jinja_read_end(cti_jinja_reader *reader);
/* Reads a key and its colon, whose object must not have it already. */
bool cti_jinja_read_key(cti_jinja_reader *reader, const cti_jinja_dict *object, int32_t mark,
                        cti_jinja_value *key);
/* Records an error "what: byte N: fault" at the parser's place. Returns an undefined value. */
cti_jinja_value cti_jinja_read_fail(cti_jinja_reader *reader, const char *fault);

#endif
