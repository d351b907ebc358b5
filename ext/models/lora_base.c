/* ct_lora_base: the model that a folder of adapters names. */
#include <cotangent/autograd.h>
#include <cotangent/models.h>

#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/json_tree.h"
#include "../../src/io/set.h"
#include "lm_gguf.h"
#include "small_file.h"

static const char lora_base_op[] = "lora_base";

/* Finds the name in the text of the file; it is "" if there is none. */
static bool base_find(ct_context *context, const char *path, const cti_json_tree *tree,
                      cti_text *name) {
    const cti_json_at at = cti_json_member(tree, 0, "base_model_name_or_path");
    *name = cti_text_of("");
    if (tree->value[0].kind != CTI_JSON_OBJECT)
        return ct_fail(context, CT_ERR_FORMAT, "%s: %s: not a JSON object", lora_base_op, path);
    if (!at || tree->value[at].kind == CTI_JSON_NULL) return true;
    *name = cti_json_text(tree, at);
    if (tree->value[at].kind == CTI_JSON_STRING && strlen(name->at) == name->size) return true;
    return ct_fail(context, CT_ERR_FORMAT, "%s: %s: \"base_model_name_or_path\" is not a text",
                   lora_base_op, path);
}

/* Reads the name from the file. Returns its bytes, or -1 after an error. */
static int64_t base_read(ct_context *context, const char *file, char *out, size_t room) {
    size_t size;
    cti_json_tree tree;
    int64_t count = -1;
    char *text = cti_lm_read_file(context, lora_base_op, file, &size);
    if (!text) return -1;
    if (cti_json_tree_read(context, lora_base_op, file, text, size, &tree)) {
        cti_text name;
        if (base_find(context, file, &tree, &name)) {
            const size_t fits = room ? room - 1 : 0, n = name.size < fits ? name.size : fits;
            if (room) memcpy(out, name.at, n);
            if (room) out[n] = 0;
            count = (int64_t)name.size;
        }
        cti_json_tree_free(&tree);
    }
    cti_give_any(context, text, size + 1);
    return count;
}

int64_t ct_lora_base(ct_context *context, const char *folder, char *path, size_t room) {
    if (!cti_lm_is_ready(context)) return -1;
    if (!folder || (room && !path)) {
        ct_fail(context, CT_ERR_ARGUMENT, "%s: the %s is NULL", lora_base_op,
                folder ? "path" : "folder");
        return -1;
    }
    bool is_gguf;
    if (!cti_lm_gguf_is(context, lora_base_op, folder, &is_gguf)) return -1;
    if (is_gguf) {
        if (room) *path = 0;
        return 0;
    }
    if (!cti_set_settle_folder(context, lora_base_op, folder)) return -1;
    char *file = cti_path_in(context, folder, "adapter_config.json");
    if (!file) return -1;
    const int64_t count = base_read(context, file, path, room);
    cti_path_free(context, file);
    return count;
}
