/* The folder that finetune writes; see finetune_out.h. */
#include "finetune_out.h"
#include "common.h"
#include "system.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PATH = 1200 };

static void unfinished_path(const char *path, char unfinished[PATH]) {
    if (snprintf(unfinished, PATH, "%s.unfinished", path) >= PATH)
        fail(EXIT_USAGE, "the path %s is too long", path);
}

/* Whether a path leads to a file or a folder. If the system cannot tell, there may
 * be one. */
static bool is_there(const char *path) {
    system_file file;
    errno = 0;
    if (system_find_folder(path, &file)) return true;
    if (errno && errno != ENOENT && errno != ENOTDIR)
        fail(EXIT_FAILED, "cannot look for %s: %s", path, strerror(errno));
    return false;
}

/* The folder in which a path is. */
static void folder_of(const char *path, char folder[PATH]) {
    if (snprintf(folder, PATH, "%.*s.", (int)cti_os_folder_length(path), path) >= PATH)
        fail(EXIT_USAGE, "the path %s is too long", path);
}

bool out_check(const char *path, bool may_exist) {
    char unfinished[PATH], parent[PATH];
    unfinished_path(path, unfinished);
    folder_of(path, parent);
    const size_t length = strlen(path);
    if (!length || cti_os_is_separator(path[length - 1]))
        fail(EXIT_USAGE,
             "--out needs the name of a folder that will be made, without a / behind it");
    const bool exists = is_there(path);
    if (exists && !may_exist)
        fail(EXIT_USAGE, "%s is there already: --out names a folder that will be made", path);
    if (!system_may_write_in(parent))
        fail(EXIT_USAGE, "cannot make the folder %s: %s", path, strerror(errno));
    return exists;
}

/* ---- the same folder again ---- */

/* Two folders that are compared, and whether a file has differed. */
typedef struct {
    const char *written, *there;
    bool differ;
} comparison;

static void compare_file(void *to, const char *name) {
    comparison *c = to;
    char path[PATH + 300];
    if (!strcmp(name, ".") || !strcmp(name, "..")) return;
    snprintf(path, sizeof path, "%s/%s", c->written, name);
    FILE *a = system_fopen(path, "rb");
    snprintf(path, sizeof path, "%s/%s", c->there, name);
    FILE *b = system_fopen(path, "rb");
    int x = 0, y = 0;
    while (a && b && x == y && x != EOF) {
        x = getc(a);
        y = getc(b);
    }
    if (!a || !b || x != y || ferror(a) || ferror(b)) c->differ = true;
    if (a) fclose(a);
    if (b) fclose(b);
}

/* Removes a file that a run left in the folder when it was killed. */
static void remove_file(void *folder, const char *name) {
    char path[PATH + 300];
    snprintf(path, sizeof path, "%s/%s", (const char *)folder, name);
    cti_os_remove(path);
}

/* Whether the folder at the path has every file that was written, with the same bytes. Removes the
 * folder that was written. */
static bool is_same_folder(const char *unfinished, const char *path) {
    comparison c = {.written = unfinished, .there = path};
    if (!system_list(unfinished, compare_file, &c)) c.differ = true;
    system_list(unfinished, remove_file, (void *)unfinished);
    system_remove_folder(unfinished);
    return !c.differ;
}

bool out_save(ct_context *context, ct_module *lm, const ct_tokenizer *tokenizer, const char *path,
              bool adapters) {
    char unfinished[PATH], parent[PATH];
    unfinished_path(path, unfinished);
    folder_of(path, parent);
    if (!cti_os_make_folder(unfinished)) {
        if (errno != EEXIST)
            fail(EXIT_FAILED, "cannot make the folder %s: %s", unfinished, strerror(errno));
        system_list(unfinished, remove_file, unfinished);
    }
    const bool saved =
        adapters ? ct_lora_save(lm, unfinished) : ct_lm_save(lm, unfinished, (ct_save_opts){0});
    if (saved && tokenizer) ct_tokenizer_save(tokenizer, unfinished);
    check(context, EXIT_FAILED);
    if (is_there(path)) {
        if (is_same_folder(unfinished, path)) return false;
        fail(EXIT_USAGE, "%s is there already, and is not the result of this run", path);
    }
    if (!cti_os_rename(unfinished, path))
        fail(EXIT_FAILED, "cannot rename %s to %s: %s", unfinished, path, strerror(errno));
    if (!system_sync_folder(parent))
        fail(EXIT_FAILED, "cannot sync the folder of %s: %s", path, strerror(errno));
    return true;
}
