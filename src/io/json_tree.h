/* A whole JSON text as a tree: for files whose objects are read by key, in any order. Values lie in
 * one array in the order of the text, and a value is named by its index. The text is at most 2 GiB.
 *
 * Invariants:
 *
 * 1. Value 0 is the root. A value's first child is the next value; `next` is the index of its
 *    next sibling, 0 for the last.
 * 2. Strings are unescaped in place (json.h), so the text must outlive the tree.
 * 3. No object of at most 64 members has a key twice: the parser refuses it. A caller that reads a
 *    larger object checks this itself. */
#ifndef CTI_IO_JSON_TREE_H
#define CTI_IO_JSON_TREE_H

#include <cotangent/types.h>

#include "json.h"

typedef enum {
    CTI_JSON_NULL,
    CTI_JSON_FALSE,
    CTI_JSON_TRUE,
    CTI_JSON_NUMBER,
    CTI_JSON_STRING,
    CTI_JSON_ARRAY,
    CTI_JSON_OBJECT
} cti_json_kind;

typedef uint32_t cti_json_at; /* the index of a value */

typedef struct {
    cti_json_kind kind : 8;
    uint32_t key_size : 24; /* of a member's key; a longer key is refused */
    uint32_t key;           /* the offset of a member's key in the text */
    uint32_t begin, size;   /* the value's place in the text; a string's bytes without quotes */
    uint32_t count;         /* the number of items or members */
    cti_json_at next;
} cti_json_value;

typedef struct {
    ct_context *context;
    char *text;
    cti_json_value *value; /* [count], in a block of `room` items of the context */
    size_t count, room;
} cti_json_tree;

/* Parses a text, which is overwritten and must outlive the tree. A fault is CT_ERR_FORMAT, "op:
 * path: byte N: fault". */
bool cti_json_tree_read(ct_context *context, const char *op, const char *path, char *text,
                        size_t size, cti_json_tree *tree);
void cti_json_tree_free(cti_json_tree *tree);

/* The member with this key of an object; 0 if there is none, or if the value is no object. */
cti_json_at cti_json_member(const cti_json_tree *tree, cti_json_at object, const char *key);
/* The text of a string, or the spelling of a number. */
cti_text cti_json_text(const cti_json_tree *tree, cti_json_at value);
cti_text cti_json_key_of(const cti_json_tree *tree, cti_json_at member);
/* A number as a natural number in [0, INT64_MAX], and any number as a double. Return false for
 * another kind, and cti_json_whole for a number that is not natural. */
bool cti_json_whole(const cti_json_tree *tree, cti_json_at value, int64_t *out);
bool cti_json_real(const cti_json_tree *tree, cti_json_at value, double *out);

/* Visits the items or members of `parent`:  for (cti_json_at i = cti_json_first(tree, parent); i; i
 * = tree->value[i].next) */
static inline cti_json_at cti_json_first(const cti_json_tree *tree, cti_json_at parent) {
    return tree->value[parent].count ? parent + 1 : 0;
}

#endif
