/* The model that a path names; see model_path.h. */
#include "model_path.h"
#include "system.h"
#include "weights.h"

#include <string.h>

enum { PATH = 4096 };

static bool is_in(const char *folder, const char *name) {
    char path[3 * PATH + 64];
    system_file file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return system_find_file(path, &file) && file.exists;
}

/* Finds the model that adapters name: a path as it was written, from the working folder, or beside
 * the folder of the adapters, also by the last part of the name alone. */
static const char *find_named(const char *folder, const char *named) {
    static char path[3 * PATH];
    size_t length = strlen(folder), last = strlen(named);
    while (length > 1 && cti_os_is_separator(folder[length - 1])) length--;
    while (length && !cti_os_is_separator(folder[length - 1])) length--;
    while (last && cti_os_is_separator(named[last - 1])) last--;
    while (last && !cti_os_is_separator(named[last - 1])) last--;
    snprintf(path, sizeof path, "%s", named);
    if (*named && is_in(path, "config.json")) return path;
    snprintf(path, sizeof path, "%.*s%s", (int)length, folder, named);
    if (*named && is_in(path, "config.json")) return path;
    snprintf(path, sizeof path, "%.*s%s", (int)length, folder, named + last);
    return *named && is_in(path, "config.json") ? path : NULL;
}

const char *model_base(ct_context *context, const char *path, const char *base) {
    char named[PATH];
    const bool has_adapters = is_in(path, "adapter_config.json");
    if (base && !has_adapters && !is_gguf(path))
        fail(EXIT_USAGE, "--base is for adapters, and %s has none", path);
    if (base) return base;
    if (!has_adapters) return path;
    const int64_t size = ct_lora_base(context, path, named, sizeof named);
    check(context, EXIT_USAGE);
    const char *found = size < PATH ? find_named(path, named) : NULL;
    if (!found && !size)
        fail(EXIT_USAGE, "%s has adapters and does not name their model: --base FOLDER", path);
    if (!found)
        fail(EXIT_USAGE,
             "%s has adapters for the model %s, which is no folder from here and not beside them: "
             "--base FOLDER",
             path, named);
    return found;
}

ct_module *model_open(ct_context *context, const char *path, const char *base, ct_lm_opts opts) {
    ct_module *lm = ct_lm_open(context, base, opts);
    check(context, EXIT_USAGE);
    if (strcmp(path, base) != 0) ct_lora_load(lm, path);
    check(context, EXIT_USAGE);
    return lm;
}

ct_tokenizer *model_tokenizer(ct_context *context, const char *path, const char *base) {
    ct_tokenizer *tokenizer =
        ct_tokenizer_open(context, is_in(path, "tokenizer.json") ? path : base);
    check(context, EXIT_USAGE);
    if (ct_tokenizer_note(tokenizer)) warn("%s", ct_tokenizer_note(tokenizer));
    return tokenizer;
}
