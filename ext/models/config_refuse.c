/* Errors of a config.json, with the key and the value. */
#include "config.h"

#include <cotangent/autograd.h>

#include <stdarg.h>
#include <stdio.h>

#include "../../src/core/message.h"

/* The text of a value, in which a long value is shortened. */
static void value_text(const cti_lm_reader *reader, cti_json_at value, char out[96]) {
    const cti_json_tree *tree = reader->tree;
    switch (tree->value[value].kind) {
    case CTI_JSON_NULL: snprintf(out, 96, "null"); break;
    case CTI_JSON_FALSE: snprintf(out, 96, "false"); break;
    case CTI_JSON_TRUE: snprintf(out, 96, "true"); break;
    case CTI_JSON_ARRAY: snprintf(out, 96, "[...]"); break;
    case CTI_JSON_OBJECT: snprintf(out, 96, "{...}"); break;
    case CTI_JSON_NUMBER:
    case CTI_JSON_STRING: {
        const bool quoted = tree->value[value].kind == CTI_JSON_STRING;
        const cti_text text = cti_json_text(tree, value);
        char shortened[88];
        cti_shorten(shortened, sizeof shortened - 1, text.at, text.size);
        snprintf(out, 96, quoted ? "\"%s\"" : "%s", shortened);
    }
    }
}

bool cti_lm_refuse(const cti_lm_reader *reader, const char *key, cti_json_at value,
                   const char *format, ...) {
    char reason[256], text[96] = "absent";
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    if (value) value_text(reader, value, text);
    return ct_fail(reader->context, CT_ERR_FORMAT, "%s: %s: \"%s\" is %s: %s", reader->op,
                   reader->path, key, text, reason);
}
