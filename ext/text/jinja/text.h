/* What Python's str does. Results keep the marks of what they are copied from, and are Markup if
 * their string is. */
#ifndef CTI_TEXT_JINJA_TEXT_H
#define CTI_TEXT_JINJA_TEXT_H

#include "value.h"

typedef enum {
    CTI_JINJA_UPPER,
    CTI_JINJA_LOWER,
    CTI_JINJA_TITLE,
    CTI_JINJA_CAPITALIZE,
    CTI_JINJA_SWAPCASE,
    CTI_JINJA_CASEFOLD
} cti_jinja_case;
cti_jinja_value cti_jinja_to_case(cti_jinja_run *run, const cti_jinja_string *string,
                                  cti_jinja_case to);
/* Whether a string is what isalpha, isupper, ... ask; `name` is one of these. */
bool cti_jinja_characters_are(const cti_jinja_string *string, const char *name);

/* Without the characters of `chars` at its ends, or without white space (NULL). */
cti_jinja_value cti_jinja_strip(cti_jinja_run *run, const cti_jinja_string *string,
                                const cti_jinja_string *chars, bool left, bool right);
/* Parts between separators (NULL: between white space), at most `most` + 1 if most >= 0; counted
 * from the end with `right`. */
cti_jinja_list *cti_jinja_split(cti_jinja_run *run, const cti_jinja_string *string,
                                const cti_jinja_string *separator, int64_t most, bool right);
/* The end of the line that begins at a byte, and in *next the beginning of the next one. */
size_t cti_jinja_line_end(const cti_jinja_string *string, size_t begin, size_t *next);
cti_jinja_list *cti_jinja_splitlines(cti_jinja_run *run, const cti_jinja_string *string,
                                     bool keep_ends);

/* The first `most` occurrences replaced, all for most < 0. */
cti_jinja_value cti_jinja_replace(cti_jinja_run *run, const cti_jinja_string *string,
                                  const cti_jinja_string *old, const cti_jinja_string *by,
                                  int64_t most);
int64_t cti_jinja_count(cti_jinja_run *run, const cti_jinja_string *string,
                        const cti_jinja_string *what, size_t from, size_t to);
/* Fills with a character up to a width, with spaces that have the width's mark if fill is NULL. */
cti_jinja_value cti_jinja_pad(cti_jinja_run *run, const cti_jinja_string *string, char align,
                              cti_jinja_value width, const cti_jinja_string *fill);
cti_jinja_value cti_jinja_join(cti_jinja_run *run, const cti_jinja_string *separator,
                               cti_jinja_value items);

/* html.unescape. A reference by a name that is not &amp; &lt; &gt; &quot; &apos; &nbsp; is an
 * error. */
cti_jinja_value cti_jinja_unescape(cti_jinja_run *run, const cti_jinja_string *string);
cti_jinja_value cti_jinja_striptags(cti_jinja_run *run, const cti_jinja_string *string);

#endif
