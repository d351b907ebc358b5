/* Names: patterns, and the entries of a map of names (ct_load_map), which loads and saves read in
 * opposite directions. */
#ifndef CTI_IO_NAME_MAP_H
#define CTI_IO_NAME_MAP_H

#include <cotangent/io.h>

#include "json.h"

/* Whether a pattern matches the whole name: * stands for any text, ? for one character. */
bool cti_name_matches(const char *pattern, cti_text name);

/* The map of an operation: op and path are for messages. */
typedef struct {
    ct_context *context;
    const char *op, *path;
    const ct_load_map *entry; /* [n] */
    int64_t n;
} cti_name_map;

/* Whether each entry is right in itself. False: CT_ERR_ARGUMENT was recorded. */
bool cti_name_map_check(const cti_name_map *map);
/* Records that entry k is wrong; false. */
bool cti_name_map_refuse(const cti_name_map *map, int64_t k, const char *what);

/* Whether the entry's .param is the name or, with a *, matches it. *text is then the text in the
 * place of the *, or empty. */
bool cti_name_map_matches(const ct_load_map *entry, const char *name, cti_text *text);
/* Whether an entry without a * has this .param. For a further name of a shared tensor patterns do
 * not count then, as they mean other tensors. */
bool cti_name_map_calls(const cti_name_map *map, const char *name);
/* The entry's .file with the text for its *, in a block of strlen + 1. NULL: no memory. */
char *cti_name_map_file(ct_context *context, const ct_load_map *entry, cti_text text);

#endif
