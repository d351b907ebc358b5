/* A JSON text as an array of values, parsed with the pull parser (json.c) and a stack of the open
 * arrays and objects. */
#include "json_tree.h"

#include <cotangent/autograd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/assert.h"
#include "../core/memory.h"

enum {
    TREE_DEEPEST = 64,     /* the most arrays and objects inside each other */
    TREE_FEW_MEMBERS = 64, /* an object of at most so many members has no key twice */
    TREE_LONGEST_KEY = (1 << 24) - 1,
    TREE_FIRST_ROOM = 64
};
#define TREE_LARGEST ((size_t)1 << 31) /* bytes of a text */

/* A parse. The open arrays and objects are at[0 ... depth). */
typedef struct {
    cti_json json;
    cti_json_tree *tree;
    bool no_memory; /* an allocation has failed, and its error is recorded */
    int depth;
    struct {
        cti_json_at parent, last; /* the array or object, and its last child; 0 if none */
    } at[TREE_DEEPEST];
} tree_parse;

static uint32_t offset_of(const tree_parse *parse, const char *at) {
    return (uint32_t)(at - parse->json.text);
}

static bool tree_grow(cti_json_tree *tree) {
    const size_t room = tree->room ? 2 * tree->room : TREE_FIRST_ROOM;
    cti_json_value *value = cti_take_any(tree->context, cti_bytes((int64_t)room, sizeof *value));
    if (!value) return false;
    if (tree->room) {
        memcpy(value, tree->value, tree->count * sizeof *value);
        cti_give_any(tree->context, tree->value, cti_bytes((int64_t)tree->room, sizeof *value));
    }
    tree->value = value;
    tree->room = room;
    return true;
}

/* Appends a value as the next child of the innermost open array or object. Returns NULL if memory
 * is short. */
static cti_json_value *value_add(tree_parse *parse, cti_text key) {
    cti_json_tree *tree = parse->tree;
    if (tree->count == tree->room && !tree_grow(tree)) {
        parse->no_memory = true;
        return NULL;
    }
    const cti_json_at index = (cti_json_at)tree->count++;
    cti_json_value *value = &tree->value[index];
    *value = (cti_json_value){.key = key.at ? offset_of(parse, key.at) : 0,
                              .key_size = (uint32_t)key.size & TREE_LONGEST_KEY};
    if (!parse->depth) return value;
    cti_json_at *last = &parse->at[parse->depth - 1].last;
    if (*last) tree->value[*last].next = index;
    tree->value[parse->at[parse->depth - 1].parent].count++;
    *last = index;
    return value;
}

/* ---- values ---- */

static bool scalar_parse(tree_parse *parse, cti_json_value *value) {
    static const char *const words[] = {"null", "false", "true"}; /* in the order of the kinds */
    cti_json *json = &parse->json;
    cti_text text = {.at = json->at};
    const char c = cti_json_look(json);
    if (c == '"') {
        if (!cti_json_string(json, &text)) return false;
        value->kind = CTI_JSON_STRING;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        if (!cti_json_number(json, &text)) return false;
        value->kind = CTI_JSON_NUMBER;
    } else {
        int word = 0;
        while (word < 3 && !cti_json_word(json, words[word])) word++;
        if (word == 3) return cti_json_fail(json, "a value is expected");
        value->kind = (cti_json_kind)(CTI_JSON_NULL + word);
        text = (cti_text){json->at - strlen(words[word]), strlen(words[word])};
    }
    value->begin = offset_of(parse, text.at);
    value->size = (uint32_t)text.size;
    return true;
}

/* Reads a scalar, or the bracket that opens an array or an object. */
static bool value_parse(tree_parse *parse, cti_text key) {
    cti_json *json = &parse->json;
    const char c = cti_json_look(json);
    if (json->fault) return false;
    cti_json_value *value = value_add(parse, key);
    if (!value) return false;
    if (c != '{' && c != '[') return scalar_parse(parse, value);
    if (parse->depth == TREE_DEEPEST) return cti_json_fail(json, "nested too deep");
    value->kind = c == '{' ? CTI_JSON_OBJECT : CTI_JSON_ARRAY;
    value->begin = offset_of(parse, json->at++);
    parse->at[parse->depth].parent = (cti_json_at)(value - parse->tree->value);
    parse->at[parse->depth++].last = 0;
    return true;
}

/* The first member whose key an earlier member of the object has too; 0 if there is none. */
static cti_json_at repeated_member(const cti_json_tree *tree, cti_json_at object) {
    for (cti_json_at i = cti_json_first(tree, object); i; i = tree->value[i].next) {
        const cti_text key = cti_json_key_of(tree, i);
        for (cti_json_at k = object + 1; k != i; k = tree->value[k].next) {
            const cti_text other = cti_json_key_of(tree, k);
            if (other.size == key.size && !memcmp(other.at, key.at, key.size)) return i;
        }
    }
    return 0;
}

/* Ends the innermost open array or object, whose bracket has been passed. */
static bool value_close(tree_parse *parse) {
    cti_json_tree *tree = parse->tree;
    const cti_json_at parent = parse->at[--parse->depth].parent;
    cti_json_value *value = &tree->value[parent];
    value->size = offset_of(parse, parse->json.at) - value->begin;
    if (value->kind != CTI_JSON_OBJECT || value->count > TREE_FEW_MEMBERS) return true;
    const cti_json_at repeated = repeated_member(tree, parent);
    if (!repeated) return true;
    parse->json.at = tree->text + tree->value[repeated].key;
    return cti_json_fail(&parse->json, "the object has this key twice");
}

static bool json_parse_all(tree_parse *parse) {
    cti_json *json = &parse->json;
    if (!value_parse(parse, (cti_text){0})) return false;
    while (parse->depth) {
        const cti_json_value *open = &parse->tree->value[parse->at[parse->depth - 1].parent];
        const bool is_object = open->kind == CTI_JSON_OBJECT;
        bool first = !open->count;
        if (!cti_json_next(json, is_object ? '}' : ']', &first)) {
            if (json->fault || !value_close(parse)) return false;
            continue;
        }
        cti_text key = {0};
        if (is_object && !cti_json_key(json, &key)) return false;
        if (key.size > TREE_LONGEST_KEY) return cti_json_fail(json, "a key is too long");
        if (!value_parse(parse, key)) return false;
    }
    cti_json_look(json);
    return json->at == json->end || cti_json_fail(json, "the text does not end behind its value");
}

bool cti_json_tree_read(ct_context *context, const char *op, const char *path, char *text,
                        size_t size, cti_json_tree *tree) {
    *tree = (cti_json_tree){.context = context, .text = text};
    if (size > TREE_LARGEST)
        return ct_fail(context, CT_ERR_FORMAT, "%s: %s: %llu bytes of JSON, and at most 2^31", op,
                       path, (unsigned long long)size);
    const size_t bad = cti_json_utf8(text, size);
    if (bad < size)
        return ct_fail(context, CT_ERR_FORMAT, "%s: %s: byte %llu: the JSON is not UTF-8", op, path,
                       (unsigned long long)bad);
    tree_parse parse = {.json = cti_json_read(text, size), .tree = tree};
    if (json_parse_all(&parse)) return true;
    cti_json_tree_free(tree);
    if (parse.no_memory) return false;
    return ct_fail(context, CT_ERR_FORMAT, "%s: %s: byte %llu: %s", op, path,
                   (unsigned long long)(parse.json.at - text), parse.json.fault);
}

void cti_json_tree_free(cti_json_tree *tree) {
    if (tree->room)
        cti_give_any(tree->context, tree->value,
                     cti_bytes((int64_t)tree->room, sizeof *tree->value));
    *tree = (cti_json_tree){0};
}

/* ---- access ---- */

cti_text cti_json_text(const cti_json_tree *tree, cti_json_at value) {
    return (cti_text){tree->text + tree->value[value].begin, tree->value[value].size};
}

cti_text cti_json_key_of(const cti_json_tree *tree, cti_json_at member) {
    return (cti_text){tree->text + tree->value[member].key, tree->value[member].key_size};
}

cti_json_at cti_json_member(const cti_json_tree *tree, cti_json_at object, const char *key) {
    if (tree->value[object].kind != CTI_JSON_OBJECT) return 0;
    const size_t size = strlen(key);
    cti_json_at i = cti_json_first(tree, object);
    while (i && (tree->value[i].key_size != size ||
                 memcmp(tree->text + tree->value[i].key, key, size) != 0))
        i = tree->value[i].next;
    return i;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool cti_json_whole(const cti_json_tree *tree, cti_json_at value, int64_t *out) {
    if (tree->value[value].kind != CTI_JSON_NUMBER) return false;
    const cti_text text = cti_json_text(tree, value);
    int64_t n = 0;
    for (size_t i = 0; i < text.size; i++) {
        const int digit = text.at[i] - '0';
        if (!is_digit(text.at[i]) || n > (INT64_MAX - digit) / 10) return false;
        n = 10 * n + digit;
    }
    *out = n;
    return true;
}

bool cti_json_real(const cti_json_tree *tree, cti_json_at value, double *out) {
    if (tree->value[value].kind != CTI_JSON_NUMBER) return false;
    *out = cti_real_read(cti_json_text(tree, value));
    return true;
}
