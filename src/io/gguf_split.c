/* Finds the GGUF file of a folder, and opens split files: NAME-00001-of-00003.gguf and so on, of
 * which the first has the metadata. */
#include "gguf_split.h"

#include <stdio.h>
#include <string.h>

#include "../core/context.h"
#include "../os/os.h"
#include "kind.h"

enum { MOST_FILES = 99999, SPLIT_END = sizeof "-00001-of-00003.gguf" - 1, SPLIT_ROOM = 32 };

static void split_end(char end[SPLIT_ROOM], int64_t number, int64_t count) {
    snprintf(end, SPLIT_ROOM, "-%05d-of-%05d.gguf", (int)(number % (MOST_FILES + 1)),
             (int)(count % (MOST_FILES + 1)));
}

/* ---- folders ---- */

/* The number of a file in a split set by its name, from 1 on; 0 if it is no such name. */
static int number_in_set(const char *name) {
    const size_t size = strlen(name);
    int number, count;
    char end[SPLIT_ROOM];
    if (size <= SPLIT_END ||
        sscanf(name + size - SPLIT_END, "-%5d-of-%5d.gguf", &number, &count) != 2)
        return 0;
    split_end(end, number, count);
    return strcmp(end, name + size - SPLIT_END) == 0 && number >= 1 ? number : 0;
}

/* The files of a folder that can be opened: each .gguf but those behind the first of a set. */
static bool is_opened_by_name(const char *name) {
    return cti_kind_is_name(name, "", CTI_KIND_GGUF) && number_in_set(name) <= 1;
}

bool cti_gguf_find_in(ct_context *context, const char *op, const char *folder, char **path) {
    char name[256] = "", other[256] = "";
    cti_os_folder *list = cti_os_folder_open(folder);
    *path = NULL;
    for (const char *entry = list ? cti_os_folder_next(list) : NULL; entry;
         entry = cti_os_folder_next(list)) {
        if (!is_opened_by_name(entry) || strlen(entry) >= sizeof name) continue;
        /* the two smallest names, whatever the order of the folder */
        const bool first = !*name || strcmp(entry, name) < 0;
        if (first || !*other || strcmp(entry, other) < 0) {
            if (first) strcpy(other, name);
            strcpy(first ? name : other, entry);
        }
    }
    if (!list) return cti_file_fail(context, op, folder, "cannot list the folder");
    cti_os_folder_close(list);
    if (!*name) return true;
    if (*other)
        return ct_fail(context, CT_ERR_FORMAT, "%s: %s: the folder has %s and %s; name one", op,
                       folder, name, other);
    *path = cti_path_in(context, folder, name);
    return *path;
}

/* ---- sets ---- */

/* Reads split.no, split.count and split.tensors.count; a file without them is one of one. */
static bool split_keys_read(const cti_gguf *gguf, cti_gguf_split *split) {
    *split = (cti_gguf_split){.count = 1, .tensors = -1};
    if (!cti_gguf_integer(gguf, "split.no", &split->number) ||
        !cti_gguf_integer(gguf, "split.count", &split->count) ||
        !cti_gguf_integer(gguf, "split.tensors.count", &split->tensors))
        return false;
    if (split->count == 0 && split->number == 0) split->count = 1;
    return (split->count >= 1 && split->count <= MOST_FILES && split->number >= 0 &&
            split->number < split->count) ||
           cti_gguf_fail(gguf, "split.count", "file %lld of %lld", (long long)split->number + 1,
                         (long long)split->count);
}

bool cti_gguf_split_first(const cti_gguf *gguf, cti_gguf_split *split) {
    if (!split_keys_read(gguf, split)) return false;
    if (split->count == 1) return true;
    char end[SPLIT_ROOM];
    const size_t size = strlen(gguf->path);
    split_end(end, split->number + 1, split->count);
    if (size < SPLIT_END || strcmp(gguf->path + size - SPLIT_END, end) != 0)
        return cti_gguf_fail(gguf, "split.count",
                             "this is file %lld of %lld, but its name does not end in %s",
                             (long long)split->number + 1, (long long)split->count, end);
    if (split->number == 0) return true;
    split_end(end, 1, split->count);
    return cti_gguf_fail(gguf, "split.no", "this is file %lld of %lld: open the first, ...%s",
                         (long long)split->number + 1, (long long)split->count, end);
}

char *cti_gguf_split_path(const cti_gguf *first, const cti_gguf_split *split, int64_t i) {
    char *path = cti_string_take(first->context, first->path), end[SPLIT_ROOM];
    if (!path) return NULL;
    split_end(end, i + 1, split->count);
    memcpy(path + strlen(path) - SPLIT_END, end, SPLIT_END);
    return path;
}

bool cti_gguf_split_check(const cti_gguf *gguf, const cti_gguf_split *split, int64_t i) {
    cti_gguf_split its;
    if (!split_keys_read(gguf, &its)) return false;
    return (its.number == i && its.count == split->count) ||
           cti_gguf_fail(gguf, "split.no", "this is file %lld of %lld, not file %lld of %lld",
                         (long long)its.number + 1, (long long)its.count, (long long)i + 1,
                         (long long)split->count);
}

bool cti_gguf_split_sum(const cti_gguf *first, const cti_gguf_split *split, int64_t tensors) {
    return split->tensors < 0 || split->tensors == tensors ||
           cti_gguf_fail(first, "split.tensors.count", "is %lld, and the files have %lld tensors",
                         (long long)split->tensors, (long long)tensors);
}
