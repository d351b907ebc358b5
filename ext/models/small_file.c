/* Small files of a folder, which are read whole, and copies of files into the folder of a save. */
#include "small_file.h"

#include <cotangent/autograd.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/file.h"
#include "../../src/io/kind.h"
#include "../../src/io/set.h"

enum { MOST_CONFIG = 1 << 24 };

char *cti_lm_read_file(ct_context *context, const char *op, const char *path, size_t *size) {
    cti_file file;
    if (!cti_file_open(context, op, path, &file)) return NULL;
    char *text = NULL;
    if (file.size > MOST_CONFIG)
        ct_fail(context, CT_ERR_FORMAT, "%s: %s: its %" PRId64 " bytes are too many", op, path,
                file.size);
    else text = cti_take_any(context, (size_t)file.size + 1);
    *size = (size_t)file.size;
    if (text && (!cti_file_read(&file, 0, text, *size) || cti_kind_refuse_json(&file, text))) {
        cti_give_any(context, text, *size + 1);
        text = NULL;
    }
    cti_file_close(&file);
    if (text) text[*size] = 0;
    return text;
}

/* Copies a file in blocks. */
static bool file_copy(ct_context *context, const char *op, const char *from, const char *to) {
    enum { BLOCK = 1 << 16 };
    cti_file old;
    cti_file_new file;
    if (!cti_file_open(context, op, from, &old)) return false;
    char *block = cti_take_any(context, BLOCK);
    bool ok = block && cti_file_new_open(context, op, to, &file);
    if (ok) {
        for (int64_t at = 0; at < old.size && ok; at += BLOCK) {
            const size_t n = old.size - at < BLOCK ? (size_t)(old.size - at) : BLOCK;
            ok = cti_file_read(&old, at, block, n) && cti_file_new_write(&file, block, n);
        }
        if (ok) ok = cti_file_new_commit(&file);
        else cti_file_new_drop(&file);
    }
    if (block) cti_give_any(context, block, BLOCK);
    cti_file_close(&old);
    return ok;
}

bool cti_lm_has_file(ct_context *context, const char *op, const char *folder, const char *name,
                     bool *has) {
    cti_os_about about = {.kind = CTI_OS_ABSENT};
    char *path = cti_path_in(context, folder, name);
    const bool ok = path && cti_file_find(context, op, path, &about);
    *has = ok && about.kind == CTI_OS_FILE;
    cti_path_free(context, path);
    return ok;
}

static bool path_mirror(ct_context *context, const char *op, const char *from, const char *to,
                        const char *name) {
    cti_os_about old = {.kind = CTI_OS_ABSENT}, own;
    if ((from && !cti_file_find(context, op, from, &old)) || !cti_file_find(context, op, to, &own))
        return false;
    if (old.kind == CTI_OS_ABSENT)
        return own.kind != CTI_OS_FILE || cti_set_remove(context, op, name);
    const bool is_same =
        own.kind == old.kind && own.device == old.device && own.number == old.number;
    return old.kind != CTI_OS_FILE || is_same || file_copy(context, op, from, to);
}

bool cti_lm_mirror_file(ct_context *context, const char *op, const char *from, const char *to,
                        const char *name) {
    char *old = from ? cti_path_in(context, from, name) : NULL,
         *own = old || !from ? cti_path_in(context, to, name) : NULL;
    const bool ok = own && path_mirror(context, op, old, own, name);
    cti_path_free(context, old);
    cti_path_free(context, own);
    return ok;
}
