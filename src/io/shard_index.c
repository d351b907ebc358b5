/* Reading an index of shards, as Hugging Face's model.safetensors.index.json. */
#include <string.h>

#include "../core/context.h"
#include "shards.h"

static bool refuse(const cti_index *index, const cti_json *json) {
    const cti_file *file = index->file;
    return ct_fail(file->context, CT_ERR_FORMAT,
                   "%s: %s: is not an index of safetensors files: %s at byte %lld", file->op,
                   file->path, json->fault, (long long)(json->at - json->text));
}

/* Only a name in the index's own folder: hostile indices name other files. */
static bool is_plain_name(cti_text file) {
    return file.size > 0 && strlen(file.at) == file.size && !strchr(file.at, '/') &&
           cti_os_folder_length(file.at) == 0 && /* on Windows: no ..\x, no C:x */
           strcmp(file.at, ".") != 0 && strcmp(file.at, "..") != 0;
}

static bool add(cti_index *index, cti_index_entry entry) {
    const cti_file *file = index->file;
    if (!is_plain_name(entry.file))
        return ct_fail(file->context, CT_ERR_FORMAT,
                       "%s: %s: tensor \"%s\" is in \"%s\", which is no name of a file beside the "
                       "index",
                       file->op, file->path, NAME(entry.name), NAME(entry.file));
    if (index->entries == index->room) {
        const int64_t room = index->room ? 2 * index->room : 64;
        cti_index_entry *more = cti_take(file->context, cti_bytes(room, sizeof *more));
        if (!more) return false;
        if (index->entries) memcpy(more, index->entry, (size_t)index->entries * sizeof *more);
        cti_give(file->context, index->entry, (size_t)index->room * sizeof *more);
        index->entry = more;
        index->room = room;
    }
    index->entry[index->entries++] = entry;
    return true;
}

static bool read_map(cti_index *index, cti_json *json) {
    for (bool first = cti_json_open(json, '{'); cti_json_next(json, '}', &first);) {
        cti_index_entry entry;
        if (!cti_json_key(json, &entry.name) || !cti_json_string(json, &entry.file)) break;
        if (!add(index, entry)) return false;
    }
    return !json->fault || refuse(index, json);
}

bool cti_index_parse(cti_index *index) {
    cti_json json = cti_json_read(index->text, index->size);
    const size_t valid = cti_json_utf8(index->text, index->size);
    if (valid < index->size) {
        json.at += valid;
        cti_json_fail(&json, "not UTF-8");
    }
    bool map = false;
    for (bool first = cti_json_open(&json, '{'); cti_json_next(&json, '}', &first);) {
        cti_text key;
        if (!cti_json_key(&json, &key)) break;
        if (cti_text_compare(key, cti_text_of("weight_map")) != 0) {
            if (!cti_json_skip(&json)) break;
            continue;
        }
        if (map) cti_json_fail(&json, "weight_map is there twice");
        map = true;
        if (!json.fault && !read_map(index, &json)) return false;
    }
    while (json.at < json.end && strchr(" \n\t\r", *json.at) && *json.at) json.at++;
    if (json.at < json.end) cti_json_fail(&json, "something behind the index");
    if (!map) cti_json_fail(&json, "weight_map is missing");
    return !json.fault || refuse(index, &json);
}

void cti_index_free(cti_index *index) {
    cti_give(index->file->context, index->entry, (size_t)index->room * sizeof *index->entry);
    index->entry = NULL;
    index->entries = index->room = 0;
}
