/* Errors of a config.json, with the key and the value. */
#include "config.h"

#include <cotangent/autograd.h>

#include <stdarg.h>
#include <stdio.h>

#include "../../src/core/message.h"

void cti_lm_value_text(const cti_lm_reader *reader, cti_json_at value, char out[CTI_LM_VALUE]) {
    const cti_json_tree *tree = reader->tree;
    switch (tree->value[value].kind) {
    case CTI_JSON_NULL: snprintf(out, CTI_LM_VALUE, "null"); break;
    case CTI_JSON_FALSE: snprintf(out, CTI_LM_VALUE, "false"); break;
    case CTI_JSON_TRUE: snprintf(out, CTI_LM_VALUE, "true"); break;
    case CTI_JSON_ARRAY: snprintf(out, CTI_LM_VALUE, "[...]"); break;
    case CTI_JSON_OBJECT: snprintf(out, CTI_LM_VALUE, "{...}"); break;
    case CTI_JSON_NUMBER:
    case CTI_JSON_STRING: {
        const bool quoted = tree->value[value].kind == CTI_JSON_STRING;
        const cti_text text = cti_json_text(tree, value);
        char shortened[88];
        cti_text_shorten(shortened, sizeof shortened - 1, text.at, text.size);
        snprintf(out, CTI_LM_VALUE, quoted ? "\"%s\"" : "%s", shortened);
    }
    }
}

bool cti_lm_refuse(const cti_lm_reader *reader, const char *key, cti_json_at value,
                   const char *format, ...) {
    char reason[256], text[CTI_LM_VALUE] = "absent";
    va_list list;
    va_start(list, format);
    vsnprintf(reason, sizeof reason, format, list);
    va_end(list);
    if (value) cti_lm_value_text(reader, value, text);
    return ct_fail(reader->context, CT_ERR_FORMAT, "%s: %s: \"%s\" is %s: %s", reader->op,
                   reader->path, key, text, reason);
}
