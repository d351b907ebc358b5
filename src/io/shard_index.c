/* Reads an index of shards, in the format of Hugging Face's model.safetensors.index.json. */
#include <string.h>

#include "../core/context.h"
#include "list.h"
#include "shards.h"

static bool index_refuse(const cti_index *index, const cti_json *json) {
    const cti_file *file = index->file;
    return ct_fail(file->context, CT_ERR_FORMAT,
                   "%s: %s: is not an index of safetensors files: %s at byte %lld", file->op,
                   file->path, json->fault, (long long)(json->at - json->text));
}

/* Whether `file` names a file in the index's own folder. Any other path is refused, because a
 * hostile index could name any file of the machine. */
static bool is_plain_name(cti_text file) {
    return strlen(file.at) == file.size && cti_path_is_name(file.at);
}

static bool shard_tensor_add(cti_index *index, cti_index_entry entry) {
    const cti_file *file = index->file;
    if (!is_plain_name(entry.file))
        return ct_fail(file->context, CT_ERR_FORMAT,
                       "%s: %s: tensor \"%s\" is in \"%s\", which is no name of a file beside the "
                       "index",
                       file->op, file->path, NAME(entry.name), NAME(entry.file));
    cti_index_entry *more =
        cti_list_grow(file->context, index->entry, index->entries, &index->room, sizeof *more);
    if (!more) return false;
    index->entry = more;
    index->entry[index->entries++] = entry;
    return true;
}

static bool index_visit(void *arg, int64_t object, cti_text key) {
    cti_index *index = arg;
    cti_index_key *more = cti_list_grow(index->file->context, index->key, index->keys,
                                        &index->key_room, sizeof *more);
    if (!more) return false;
    index->key = more;
    index->key[index->keys++] = (cti_index_key){object, key};
    return true;
}

static int by_object(const void *a, const void *b) {
    const cti_index_key *x = a, *y = b;
    if (x->object != y->object) return x->object < y->object ? -1 : 1;
    return cti_text_compare(x->key, y->key);
}

/* Checks that no object has a key twice, outside of weight_map. */
static bool index_check_keys(const cti_index *index) {
    const cti_file *file = index->file;
    const size_t bytes = cti_bytes(index->keys, sizeof(void *));
    const void **key = cti_take(file->context, bytes);
    for (int64_t i = 0; key && i < index->keys; i++) key[i] = &index->key[i];
    const bool sorted = key && cti_list_sort(file->context, key, index->keys, by_object);
    const cti_index_key *repeat = sorted ? cti_list_repeat(key, index->keys, by_object) : NULL;
    cti_give(file->context, key, bytes);
    if (repeat)
        return ct_fail(file->context, CT_ERR_FORMAT,
                       "%s: %s: is not an index of safetensors files: \"%s\" is there twice",
                       file->op, file->path, NAME(repeat->key));
    return sorted;
}

static bool map_read(cti_index *index, cti_json *json) {
    for (bool first = cti_json_open(json, '{'); cti_json_next(json, '}', &first);) {
        cti_index_entry entry;
        if (!cti_json_key(json, &entry.name) || !cti_json_string(json, &entry.file)) break;
        if (!shard_tensor_add(index, entry)) return false;
    }
    return !json->fault || index_refuse(index, json);
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
        if (!index_visit(index, 0, key)) return false;
        if (cti_text_compare(key, cti_text_of("weight_map")) != 0) {
            if (!cti_json_skip(&json, index_visit, index) && !json.fault) return false;
            continue;
        }
        if (map) cti_json_fail(&json, "weight_map is there twice");
        map = true;
        if (!json.fault && !map_read(index, &json)) return false;
    }
    while (json.at < json.end && strchr(" \n\t\r", *json.at) && *json.at) json.at++;
    if (json.at < json.end) cti_json_fail(&json, "something behind the index");
    if (!map) cti_json_fail(&json, "weight_map is missing");
    return json.fault ? index_refuse(index, &json) : index_check_keys(index);
}

void cti_index_free(cti_index *index) {
    cti_give(index->file->context, index->entry, (size_t)index->room * sizeof *index->entry);
    cti_give(index->file->context, index->key, (size_t)index->key_room * sizeof *index->key);
    index->entry = NULL;
    index->key = NULL;
    index->entries = index->room = index->keys = index->key_room = 0;
}
