/* Changes of values in the text of a config.json. */
#include "config_edit.h"

#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/json_tree.h"

bool cti_lm_edit_begin(ct_context *context, const char *op, cti_text text, cti_lm_edit *edit) {
    *edit = (cti_lm_edit){.context = context, .op = op, .size = text.size};
    edit->text = cti_take_any(context, text.size + 1);
    if (!edit->text) return false;
    memcpy(edit->text, text.at, text.size);
    edit->text[text.size] = 0;
    return true;
}

void cti_lm_edit_end(cti_lm_edit *edit) {
    if (edit->text) cti_give_any(edit->context, edit->text, edit->size + 1);
    edit->text = NULL;
}

/* The place of a member's value in the text, quotes included; *begin is SIZE_MAX if there is no
 * such key. */
static bool value_find(const cti_lm_edit *edit, const char *key, size_t *begin, size_t *end) {
    cti_lm_edit copy;
    cti_json_tree tree;
    *begin = *end = SIZE_MAX;
    if (!cti_lm_edit_begin(edit->context, edit->op, (cti_text){edit->text, edit->size}, &copy))
        return false;
    const bool ok =
        cti_json_tree_read(edit->context, edit->op, "config.json", copy.text, copy.size, &tree);
    const cti_json_at value = ok ? cti_json_member(&tree, 0, key) : 0;
    if (value) {
        *begin = tree.value[value].begin;
        *end = *begin + tree.value[value].size;
        if (tree.value[value].kind == CTI_JSON_STRING) {
            --*begin; /* the string may have been longer before its escapes were replaced */
            for (*end = *begin + 1; edit->text[*end] != '"'; ++*end)
                if (edit->text[*end] == '\\') ++*end;
            ++*end;
        }
    }
    if (ok) cti_json_tree_free(&tree);
    cti_lm_edit_end(&copy);
    return ok;
}

bool cti_lm_edit_find(const cti_lm_edit *edit, const char *key, bool *has) {
    size_t begin, end;
    const bool ok = value_find(edit, key, &begin, &end);
    *has = begin != SIZE_MAX;
    return ok;
}

bool cti_lm_edit_set(cti_lm_edit *edit, const char *key, const char *value) {
    size_t begin, end;
    if (!value_find(edit, key, &begin, &end)) return false;
    char before[64] = "";
    const char *after = "";
    if (begin == SIZE_MAX) {
        begin = end = (size_t)(strchr(edit->text, '{') - edit->text) + 1;
        const char *rest = edit->text + begin + strspn(edit->text + begin, " \t\r\n");
        snprintf(before, sizeof before, "\n  \"%s\": ", key);
        after = *rest == '}' ? "\n" : ",";
    }
    const size_t size = edit->size - (end - begin) + strlen(before) + strlen(value) + strlen(after);
    char *text = cti_take_any(edit->context, size + 1);
    if (!text) return false;
    snprintf(text, size + 1, "%.*s%s%s%s%s", (int)begin, edit->text, before, value, after,
             edit->text + end);
    cti_lm_edit_end(edit);
    edit->text = text, edit->size = size;
    return true;
}
