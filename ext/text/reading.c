/* Members of tokenizer.json by key and type, and the errors of the file. */
#include "reading.h"

#include <cotangent/autograd.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/message.h"

static const char reading_op[] = "tokenizer_open";

/* The "type" of the object that is being read, for the message; "" if it has none. */
static cti_text kind_in_message(const cti_reading *reading) {
    cti_json_at type = 0;
    if (reading->type_of) type = cti_json_member(reading->tree, reading->type_of, "type");
    if (!type || reading->tree->value[type].kind != CTI_JSON_STRING) return cti_text_of("");
    return cti_json_text(reading->tree, type);
}

bool cti_reading_fail(const cti_reading *reading, cti_json_at value, const char *format, ...) {
    char fault[CTI_MESSAGE_SIZE / 2];
    va_list list;
    va_start(list, format);
    cti_message(fault, sizeof fault, format, list);
    va_end(list);
    const cti_text kind = kind_in_message(reading);
    return ct_fail(reading->context, CT_ERR_FORMAT, "%s: %s: byte %lu: %s%s%s",
                   reading->op ? reading->op : reading_op, reading->path,
                   (unsigned long)reading->tree->value[value].begin, kind.at, kind.size ? ": " : "",
                   fault);
}

/* Finds a member that is neither absent nor null. Returns 0 if there is none. */
static cti_json_at member_of(const cti_reading *reading, cti_json_at object, const char *key) {
    const cti_json_at member = cti_json_member(reading->tree, object, key);
    return member && reading->tree->value[member].kind != CTI_JSON_NULL ? member : 0;
}

bool cti_reading_bool(const cti_reading *reading, cti_json_at object, const char *key, bool *out) {
    const cti_json_at member = member_of(reading, object, key);
    if (!member) return true;
    const cti_json_kind kind = reading->tree->value[member].kind;
    if (kind != CTI_JSON_TRUE && kind != CTI_JSON_FALSE)
        return cti_reading_fail(reading, member, "\"%s\" is neither true nor false", key);
    *out = kind == CTI_JSON_TRUE;
    return true;
}

bool cti_reading_natural(const cti_reading *reading, cti_json_at object, const char *key,
                         int64_t *out) {
    const cti_json_at member = member_of(reading, object, key);
    if (!member || cti_json_whole(reading->tree, member, out)) return true;
    return cti_reading_fail(reading, member, "\"%s\" is not a natural number below 2^63", key);
}

bool cti_reading_text(const cti_reading *reading, cti_json_at object, const char *key,
                      cti_text *out) {
    const cti_json_at member = member_of(reading, object, key);
    if (!member) return true;
    if (reading->tree->value[member].kind != CTI_JSON_STRING)
        return cti_reading_fail(reading, member, "\"%s\" is not a string", key);
    *out = cti_arena_copy(reading->arena, cti_json_text(reading->tree, member));
    return out->at != NULL;
}

bool cti_reading_needs_text(const cti_reading *reading, cti_json_at object, const char *key,
                            cti_text *out) {
    if (!member_of(reading, object, key))
        return cti_reading_fail(reading, object, "it has no \"%s\"", key);
    return cti_reading_text(reading, object, key, out);
}

int cti_reading_kind(const cti_reading *reading, cti_json_at object, const char *noun,
                     const char *const *names, int n) {
    const cti_json_tree *tree = reading->tree;
    const cti_json_at type = cti_json_member(tree, object, "type");
    if (!type || tree->value[type].kind != CTI_JSON_STRING) {
        cti_reading_fail(reading, object, "a %s is an object with a \"type\"", noun);
        return -1;
    }
    const cti_text name = cti_json_text(tree, type);
    for (int i = 0; i < n; i++)
        if (strlen(names[i]) == name.size && !memcmp(names[i], name.at, name.size)) return i;
    cti_reading_fail(reading, type, "unknown %s '%s'", noun, name.at);
    return -1;
}

bool cti_reading_only(const cti_reading *reading, cti_json_at object, const char *const *keys) {
    const cti_json_tree *tree = reading->tree;
    for (cti_json_at i = cti_json_first(tree, object); i; i = tree->value[i].next) {
        const cti_text key = cti_json_key_of(tree, i);
        bool known = key.size == 4 && !memcmp(key.at, "type", 4);
        for (int k = 0; keys[k] && !known; k++)
            known = strlen(keys[k]) == key.size && !memcmp(keys[k], key.at, key.size);
        if (!known) return cti_reading_fail(reading, i, "unknown member \"%s\"", key.at);
    }
    return true;
}
