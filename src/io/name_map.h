/* Patterns of names, and the entries of a map of names (ct_load_map). A load and a save use the
 * same entries, in opposite directions. */
#ifndef CTI_IO_NAME_MAP_H
#define CTI_IO_NAME_MAP_H

#include <cotangent/io.h>

#include "json.h"

/* Whether a pattern matches the whole name. A * stands for any text, a ? for one character. */
bool cti_name_matches(const char *pattern, cti_text name);

/* The map of an operation; op and path are for messages. */
typedef struct {
    ct_context *context;
    const char *op, *path;
    const ct_load_map *entry; /* [n] */
    int64_t n;
} cti_name_map;

/* Whether each entry is valid by itself, whatever names the tensors have. If not, CT_ERR_ARGUMENT
 * is recorded. */
bool cti_name_map_check(const cti_name_map *map);
/* Records that entry k is wrong. Returns false. */
bool cti_name_map_refuse(const cti_name_map *map, int64_t k, const char *what);

/* Whether the entry's .param is the name or, if it has a *, matches it. If so, *text is the text in
 * the place of the *, or empty without one. */
bool cti_name_map_matches(const ct_load_map *entry, const char *name, cti_text *text);
/* Whether the .param of an entry is exactly this name. If it is, and the name is a further name of
 * a shared tensor, the caller ignores entries with a * that match it, because they are meant for
 * other tensors. */
bool cti_name_map_calls(const cti_name_map *map, const char *name);
/* The entry's .file with `text` in the place of its *, in a block of strlen + 1; NULL if memory is
 * short. */
char *cti_name_map_file(ct_context *context, const ct_load_map *entry, cti_text text);

#endif
