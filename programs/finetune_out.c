/* What finetune writes; see finetune_out.h. */
#include "finetune_out.h"
#include "common.h"
#include "system.h"
#include "weights.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void result_path(const char *path, const char *word, char out[RESULT_PATH]) {
    const int suffix = is_gguf(path) ? (int)strlen(".gguf") : 0, stem = (int)strlen(path) - suffix;
    if (snprintf(out, RESULT_PATH, "%.*s.%s%s", stem, path, word, path + stem) >= RESULT_PATH)
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
static void folder_of(const char *path, char folder[RESULT_PATH]) {
    if (snprintf(folder, RESULT_PATH, "%.*s.", (int)cti_os_folder_length(path), path) >=
        RESULT_PATH)
        fail(EXIT_USAGE, "the path %s is too long", path);
}

bool result_check(const char *path, bool may_exist) {
    char unfinished[RESULT_PATH], parent[RESULT_PATH];
    result_path(path, "unfinished", unfinished);
    folder_of(path, parent);
    const char *what = is_gguf(path) ? "file" : "folder";
    const size_t length = strlen(path);
    if (!length || cti_os_is_separator(path[length - 1]))
        fail(EXIT_USAGE,
             "--out needs the name of a folder or file that will be made, without a / behind it");
    const bool exists = is_there(path);
    if (exists && !may_exist)
        fail(EXIT_USAGE, "%s is there already: --out names a %s that will be made", path, what);
    if (!system_may_write_in(parent))
        fail(EXIT_USAGE, "cannot make the %s %s: %s", what, path, strerror(errno));
    return exists;
}

/* ---- the same result again ---- */

static bool have_same_bytes(const char *one, const char *other) {
    FILE *a = system_fopen(one, "rb"), *b = system_fopen(other, "rb");
    int x = 0, y = 0;
    while (a && b && x == y && x != EOF) {
        x = getc(a);
        y = getc(b);
    }
    const bool same = a && b && x == y && !ferror(a) && !ferror(b);
    if (a) fclose(a);
    if (b) fclose(b);
    return same;
}

/* Two folders that are compared, and whether a file has differed. */
typedef struct {
    const char *written, *there;
    bool differ;
} comparison;

static void compare_file(void *to, const char *name) {
    comparison *c = to;
    char one[RESULT_PATH + 300], other[RESULT_PATH + 300];
    if (!strcmp(name, ".") || !strcmp(name, "..")) return;
    snprintf(one, sizeof one, "%s/%s", c->written, name);
    snprintf(other, sizeof other, "%s/%s", c->there, name);
    c->differ |= !have_same_bytes(one, other);
}

/* Removes a file that a run left in the folder when it was killed. */
static void remove_file(void *folder, const char *name) {
    char path[RESULT_PATH + 300];
    snprintf(path, sizeof path, "%s/%s", (const char *)folder, name);
    cti_os_remove(path);
}

/* Whether the result at the path is the one that was written, which is removed. */
static bool is_same_result(const char *unfinished, const char *path) {
    if (is_gguf(path)) {
        const bool same = have_same_bytes(unfinished, path);
        cti_os_remove(unfinished);
        return same;
    }
    comparison c = {.written = unfinished, .there = path};
    if (!system_list(unfinished, compare_file, &c)) c.differ = true;
    system_list(unfinished, remove_file, (void *)unfinished);
    system_remove_folder(unfinished);
    return !c.differ;
}

/* ---- writing ---- */

static void make_folder(const char *unfinished) {
    if (cti_os_make_folder(unfinished)) return;
    if (errno != EEXIST)
        fail(EXIT_FAILED, "cannot make the folder %s: %s", unfinished, strerror(errno));
    system_list(unfinished, remove_file, (void *)unfinished);
}

bool result_save(const result *r, const char *path) {
    char unfinished[RESULT_PATH], parent[RESULT_PATH];
    result_path(path, "unfinished", unfinished);
    folder_of(path, parent);
    const bool is_folder = !is_gguf(path);
    if (is_folder) make_folder(unfinished);
    const bool saved = r->adapters
                           ? ct_lora_save(r->lm, unfinished)
                           : ct_lm_save(r->lm, unfinished, (ct_save_opts){.floats = r->floats});
    if (saved && is_folder && r->tokenizer) ct_tokenizer_save(r->tokenizer, unfinished);
    check(r->context, EXIT_FAILED);
    if (is_there(path)) {
        if (is_same_result(unfinished, path)) return false;
        fail(EXIT_USAGE, "%s is there already, and is not the result of this run", path);
    }
    if (!cti_os_rename(unfinished, path))
        fail(EXIT_FAILED, "cannot rename %s to %s: %s", unfinished, path, strerror(errno));
    if (!system_sync_folder(parent))
        fail(EXIT_FAILED, "cannot sync the folder of %s: %s", path, strerror(errno));
    return true;
}
