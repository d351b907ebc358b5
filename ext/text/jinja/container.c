/* Lists and dicts. A dict of more than DICT_SMALL keys has a hash table. */
#include <math.h>
#include <string.h>

#include "value.h"

enum { DICT_SMALL = 8 };

cti_jinja_list *cti_jinja_list_new(cti_jinja_run *run, int64_t room) {
    cti_jinja_list *list = cti_jinja_take(run, 1, sizeof *list);
    if (!list) return NULL;
    *list = (cti_jinja_list){.room = room};
    if (room) list->item = cti_jinja_take(run, (size_t)room, sizeof *list->item);
    return run->failed ? NULL : list;
}

void cti_jinja_append(cti_jinja_run *run, cti_jinja_list *list, cti_jinja_value value) {
    if (!list || run->failed) return;
    if (list->count == list->room) {
        const int64_t room = list->room ? 2 * list->room : 4;
        cti_jinja_value *item = cti_jinja_take(run, (size_t)room, sizeof *item);
        if (!item) return;
        if (list->count) memcpy(item, list->item, (size_t)list->count * sizeof *item);
        list->item = item;
        list->room = room;
    }
    list->item[list->count++] = value;
}

cti_jinja_value cti_jinja_list_value(cti_jinja_kind kind, const cti_jinja_list *list,
                                     int32_t mark) {
    if (!list) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    return (cti_jinja_value){.kind = kind, .mark = mark, .list = list};
}

cti_jinja_value cti_jinja_dict_value(const cti_jinja_dict *dict, int32_t mark) {
    if (!dict) return (cti_jinja_value){.kind = CTI_JINJA_UNDEFINED};
    return (cti_jinja_value){.kind = CTI_JINJA_DICT, .mark = mark, .dict = dict};
}

cti_jinja_dict *cti_jinja_dict_new(cti_jinja_run *run, int64_t room) {
    cti_jinja_dict *dict = cti_jinja_take(run, 1, sizeof *dict);
    if (!dict) return NULL;
    *dict = (cti_jinja_dict){.room = room};
    if (room) dict->entry = cti_jinja_take(run, (size_t)room, sizeof *dict->entry);
    return run->failed ? NULL : dict;
}

static uint64_t hash_mix(uint64_t hash) {
    hash ^= hash >> 32;
    hash *= 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

static uint64_t hash_bytes(const char *at, size_t size) {
    uint64_t hash = 0xCBF29CE484222325u ^ size;
    for (; size >= 8; at += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0x9FB21C651E98DF25u;
        hash ^= hash >> 35;
    }
    for (; size; at++, size--) hash = (hash ^ (unsigned char)*at) * 0x100000001B3u;
    return hash_mix(hash);
}

static uint64_t hash_real(double x) {
    if (x >= -0x1p63 && x < 0x1p63 && x == floor(x)) return hash_mix((uint64_t)(int64_t)x + 1);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return hash_mix(bits);
}

/* The hash of a key: equal values have equal hashes. Returns false for what Python cannot hash. */
static bool hash_value(cti_jinja_run *run, cti_jinja_value key, uint64_t *hash) {
    switch (key.kind) {
    case CTI_JINJA_STRING: *hash = hash_bytes(key.string->at, key.string->size); return true;
    case CTI_JINJA_BOOL: *hash = hash_mix((uint64_t)key.boolean + 1); return true;
    case CTI_JINJA_INT: *hash = hash_mix((uint64_t)key.integer + 1); return true;
    case CTI_JINJA_REAL: *hash = hash_real(key.real); return true;
    case CTI_JINJA_NONE: *hash = 7; return true;
    case CTI_JINJA_UNDEFINED: *hash = 11; return true;
    case CTI_JINJA_TUPLE:
        *hash = (uint64_t)key.list->count;
        if (!cti_jinja_enter(run)) return false;
        for (int64_t i = 0; i < key.list->count && cti_jinja_step(run); i++) {
            uint64_t item = 0;
            if (!hash_value(run, key.list->item[i], &item)) break;
            *hash = hash_mix(*hash * 31 + item);
        }
        cti_jinja_leave(run);
        return !run->failed;
    case CTI_JINJA_LIST:
    case CTI_JINJA_DICT:
    case CTI_JINJA_VIEW:
        cti_jinja_fail(run, "unhashable type: '%s'", cti_jinja_type_name(key));
        return false;
    default: /* Python hashes the address; such keys are equal if they are the same object */
        *hash = (uint64_t)(uintptr_t)key.list;
        return true;
    }
}

/* The index of a key's entry, or -1. */
static int64_t find_entry(cti_jinja_run *run, const cti_jinja_dict *dict, cti_jinja_value key,
                          uint64_t hash) {
    if (dict->slot) {
        for (uint32_t at = (uint32_t)hash & (dict->slots - 1); dict->slot[at];
             at = (at + 1) & (dict->slots - 1)) {
            const cti_jinja_entry *entry = &dict->entry[dict->slot[at] - 1];
            if (entry->hash == hash && cti_jinja_equal(run, entry->key, key))
                return dict->slot[at] - 1;
        }
        return -1;
    }
    for (int64_t i = 0; i < dict->count; i++)
        if (dict->entry[i].hash == hash && cti_jinja_equal(run, dict->entry[i].key, key)) return i;
    return -1;
}

static void put_slot(cti_jinja_dict *dict, int64_t index) {
    uint32_t at = (uint32_t)dict->entry[index].hash & (dict->slots - 1);
    while (dict->slot[at]) at = (at + 1) & (dict->slots - 1);
    dict->slot[at] = (uint32_t)index + 1;
}

/* Makes room for one more entry. */
static bool dict_room(cti_jinja_run *run, cti_jinja_dict *dict) {
    if (dict->count == dict->room) {
        const int64_t room = dict->room ? 2 * dict->room : 4;
        cti_jinja_entry *entry = cti_jinja_take(run, (size_t)room, sizeof *entry);
        if (!entry) return false;
        if (dict->count) memcpy(entry, dict->entry, (size_t)dict->count * sizeof *entry);
        dict->entry = entry;
        dict->room = room;
    }
    if (dict->count < DICT_SMALL || 2 * (uint64_t)dict->count < dict->slots) return true;
    const uint32_t slots = dict->slots ? 4 * dict->slots : 4 * DICT_SMALL;
    uint32_t *slot = cti_jinja_take(run, slots, sizeof *slot);
    if (!slot) return false;
    memset(slot, 0, slots * sizeof *slot);
    dict->slot = slot;
    dict->slots = slots;
    for (int64_t i = 0; i < dict->count; i++) put_slot(dict, i);
    return true;
}

void cti_jinja_set(cti_jinja_run *run, cti_jinja_dict *dict, cti_jinja_value key,
                   cti_jinja_value value) {
    uint64_t hash;
    if (!dict || run->failed || !hash_value(run, key, &hash)) return;
    const int64_t found = find_entry(run, dict, key, hash);
    if (found >= 0) {
        dict->entry[found].value = value;
        return;
    }
    if (!dict_room(run, dict)) return;
    dict->entry[dict->count] = (cti_jinja_entry){.key = key, .value = value, .hash = hash};
    dict->count++;
    if (dict->slot) put_slot(dict, dict->count - 1);
}

const cti_jinja_value *cti_jinja_get(cti_jinja_run *run, const cti_jinja_dict *dict,
                                     cti_jinja_value key) {
    uint64_t hash;
    if (!dict || run->failed || !hash_value(run, key, &hash)) return NULL;
    const int64_t found = find_entry(run, dict, key, hash);
    return found < 0 ? NULL : &dict->entry[found].value;
}

const cti_jinja_value *cti_jinja_get_text(const cti_jinja_dict *dict, const char *key) {
    for (int64_t i = 0; dict && i < dict->count; i++)
        if (dict->entry[i].key.kind == CTI_JINJA_STRING &&
            cti_jinja_string_is(dict->entry[i].key.string, key))
            return &dict->entry[i].value;
    return NULL;
}
