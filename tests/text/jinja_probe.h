/* The interpreter of chat templates for tests in Python. */
#ifndef JINJA_PROBE_H
#define JINJA_PROBE_H

#include <cotangent/types.h>

/* Renders a template of `size` bytes with an object of variables, which are marked as of no message
 * (-1). Writes the text and the mark of each byte. Returns the number of bytes; -1 after an error,
 * of which it writes the text. */
CT_API int64_t jinja_probe_render(const char *text, int64_t size, const char *variables, char *out,
                                  int32_t *mark, int64_t room, char *error, int64_t error_room);

/* Row `index` of a table ("filters", "tests", "globals", "str", "Markup", "list", "tuple", "dict",
 * "int", "float"): its name, or NULL behind the last; *refused is why it is not run, or NULL. */
CT_API const char *jinja_probe_row(const char *table, int64_t index, const char **refused);

#endif
