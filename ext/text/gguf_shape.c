/* The shapes of normalizers and pre-tokenizers: "Digits(true);ByteLevel(false,true);". Two values
 * with one shape do the same to every text. Left out is what has no effect: a Sequence of its own,
 * options with their defaults, and trim_offsets, which is about ranges. */
#include <string.h>

#include "gguf_tokens.h"

static bool shape_is(cti_text text, const char *word) {
    return !cti_text_compare(text, cti_text_of(word));
}

/* The text of a string, or the spelling of a value of another kind. */
static void value_write(cti_writer *writer, const cti_json_tree *tree, cti_json_at value) {
    switch (value ? tree->value[value].kind : CTI_JSON_NULL) {
    case CTI_JSON_STRING:
    case CTI_JSON_NUMBER: {
        const cti_text text = cti_json_text(tree, value);
        cti_bytes_write(writer, text.at, text.size);
        break;
    }
    case CTI_JSON_TRUE: cti_string_write(writer, "true"); break;
    case CTI_JSON_FALSE: cti_string_write(writer, "false"); break;
    default: cti_string_write(writer, "null");
    }
}

static bool shape_flag(const cti_json_tree *tree, cti_json_at object, const char *key,
                       bool absent) {
    const cti_json_at value = cti_json_member(tree, object, key);
    return value ? tree->value[value].kind == CTI_JSON_TRUE : absent;
}

/* "(Regex,EXPRESSION": the pattern of a Split or a Replace. */
static void pattern_write(cti_writer *writer, const cti_json_tree *tree, cti_json_at kind) {
    const cti_json_at pattern = cti_json_member(tree, kind, "pattern");
    const cti_json_at text = pattern ? cti_json_first(tree, pattern) : 0;
    cti_string_write(writer, "(");
    if (text) {
        const cti_text key = cti_json_key_of(tree, text);
        cti_bytes_write(writer, key.at, key.size);
        cti_string_write(writer, ",");
    }
    value_write(writer, tree, text);
}

/* A Split whose matches cover every text does the same if it keeps the matches, and if it removes
 * what is between them. */
static void split_shape_write(cti_writer *writer, const cti_json_tree *tree, cti_json_at kind) {
    const cti_json_at behavior = cti_json_member(tree, kind, "behavior");
    const bool inverts = shape_flag(tree, kind, "invert", false);
    pattern_write(writer, tree, kind);
    cti_string_write(writer, ",");
    if (inverts && behavior && shape_is(cti_json_text(tree, behavior), "Removed")) {
        cti_string_write(writer, "Isolated,false");
        return;
    }
    value_write(writer, tree, behavior);
    cti_string_write(writer, inverts ? ",true" : ",false");
}

static void members_write(cti_writer *writer, const cti_json_tree *tree, cti_json_at kind) {
    const char *separator = "(";
    for (cti_json_at i = cti_json_first(tree, kind); i; i = tree->value[i].next) {
        const cti_text key = cti_json_key_of(tree, i);
        if (shape_is(key, "type") || shape_is(key, "trim_offsets")) continue;
        cti_string_write(writer, separator);
        value_write(writer, tree, i);
        separator = ",";
    }
    if (separator[0] == '(') cti_string_write(writer, "(");
}

void cti_gguf_shape_write(cti_writer *writer, const cti_json_tree *tree, cti_json_at value) {
    if (!value || tree->value[value].kind != CTI_JSON_OBJECT) return;
    const cti_json_at type = cti_json_member(tree, value, "type");
    if (!type || tree->value[type].kind != CTI_JSON_STRING) return;
    const cti_text name = cti_json_text(tree, type);
    if (shape_is(name, "Sequence")) {
        cti_json_at list = cti_json_member(tree, value, "pretokenizers");
        if (!list) list = cti_json_member(tree, value, "normalizers");
        for (cti_json_at i = list ? cti_json_first(tree, list) : 0; i; i = tree->value[i].next)
            cti_gguf_shape_write(writer, tree, i);
        return;
    }
    cti_bytes_write(writer, name.at, name.size);
    if (shape_is(name, "Split")) split_shape_write(writer, tree, value);
    else if (shape_is(name, "Replace")) {
        pattern_write(writer, tree, value);
        cti_string_write(writer, ",");
        value_write(writer, tree, cti_json_member(tree, value, "content"));
    } else if (shape_is(name, "ByteLevel")) {
        cti_string_write(writer,
                         shape_flag(tree, value, "add_prefix_space", true) ? "(true" : "(false");
        cti_string_write(writer, shape_flag(tree, value, "use_regex", true) ? ",true" : ",false");
    } else if (shape_is(name, "BertNormalizer")) { /* the other two are keys of their own */
        cti_string_write(writer, shape_flag(tree, value, "clean_text", true) ? "(true" : "(false");
        cti_string_write(writer, shape_flag(tree, value, "handle_chinese_chars", true) ? ",true"
                                                                                       : ",false");
    } else members_write(writer, tree, value);
    cti_string_write(writer, ");");
}
