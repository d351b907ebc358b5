#include "name_map.h"

#include <string.h>

#include "../core/context.h"

/* ---- patterns ---- */

/* The rest of a text behind its first character, which has several bytes if it is not ASCII. */
static const char *behind_character(const char *at, const char *end) {
    do at++;
    while (at < end && (*at & 0xC0) == 0x80);
    return at;
}

/* Each * first matches the empty text. If the rest of the pattern then fails, only the last * is
 * made one byte longer: a longer match of an earlier * would leave less text to the rest, so it
 * cannot help. The time is therefore at most proportional to the product of both lengths. */
bool cti_name_matches(const char *pattern, cti_text name) {
    const char *star = NULL, *from = NULL; /* the last *, and the end of its match */
    const char *at = name.at, *end = name.at + name.size;
    while (at < end) {
        if (*pattern == '*') {
            star = pattern++;
            from = at;
        } else if (*pattern == '?') {
            pattern++;
            at = behind_character(at, end);
        } else if (*pattern && *pattern == *at) {
            pattern++, at++;
        } else if (star) {
            pattern = star + 1;
            at = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*') pattern++;
    return !*pattern;
}

/* ---- entries ---- */

bool cti_name_map_refuse(const cti_name_map *map, int64_t k, const char *what) {
    const char *param = map->entry[k].param;
    return ct_fail(map->context, CT_ERR_ARGUMENT, "%s: %s: map entry %lld (%s): %s", map->op,
                   map->path, (long long)k, param ? param : "NULL", what);
}

static int stars(const char *pattern) {
    int n = 0;
    for (; *pattern; pattern++) n += *pattern == '*';
    return n;
}

static bool entry_check(const cti_name_map *map, int64_t k) {
    const ct_load_map *entry = &map->entry[k];
    if (!entry->param || !entry->file) return cti_name_map_refuse(map, k, "param or file is NULL");
    if (stars(entry->param) > 1 || stars(entry->file) > 1)
        return cti_name_map_refuse(map, k, "more than one *");
    if (stars(entry->file) > stars(entry->param))
        return cti_name_map_refuse(map, k, "a * in file, but none in param");
    if (entry->param_start < 0 || entry->file_start < 0 || entry->rows < 0)
        return cti_name_map_refuse(map, k, "param_start, file_start or rows is negative");
    return true;
}

bool cti_name_map_check(const cti_name_map *map) {
    if (map->n < 0 || (map->n > 0 && !map->entry))
        return ct_fail(map->context, CT_ERR_ARGUMENT, "%s: %s: map is NULL, or n_map negative",
                       map->op, map->path);
    for (int64_t k = 0; k < map->n; k++)
        if (!entry_check(map, k)) return false;
    return true;
}

bool cti_name_map_matches(const ct_load_map *entry, const char *name, cti_text *text) {
    const char *pattern = entry->param, *star = strchr(pattern, '*');
    *text = (cti_text){"", 0};
    if (!star) return !strcmp(pattern, name);
    const size_t before = (size_t)(star - pattern), after = strlen(star + 1), size = strlen(name);
    if (size < before + after || memcmp(pattern, name, before) ||
        memcmp(star + 1, name + size - after, after))
        return false;
    *text = (cti_text){name + before, size - before - after};
    return true;
}

bool cti_name_map_calls(const cti_name_map *map, const char *name) {
    for (int64_t k = 0; k < map->n; k++)
        if (!strcmp(map->entry[k].param, name)) return true;
    return false;
}

char *cti_name_map_file(ct_context *context, const ct_load_map *entry, cti_text text) {
    const char *pattern = entry->file, *star = strchr(pattern, '*');
    const size_t before = star ? (size_t)(star - pattern) : strlen(pattern);
    const size_t middle = star ? text.size : 0, after = star ? strlen(star + 1) : 0;
    char *name = cti_take(context, before + middle + after + 1);
    if (!name) return NULL;
    memcpy(name, pattern, before);
    memcpy(name + before, text.at, middle);
    if (after) memcpy(name + before + middle, star + 1, after);
    name[before + middle + after] = 0;
    return name;
}
