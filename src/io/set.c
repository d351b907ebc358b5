/* Sets of files, in the steps that set.h lists. */
#include "set.h"

#include <errno.h>
#include <string.h>

#include <cotangent/autograd.h>

#include "../core/context.h"
#include "journal.h"

/* ---- saving ---- */

static bool set_folder_make(const cti_set *set) {
    const char *folder = set->files.folder;
    if (cti_os_make_folder(folder)) return cti_file_sync_folder(set->context, set->op, folder);
    return errno == EEXIST ||
           cti_file_fail(set->context, set->op, folder, "cannot make the folder");
}

bool cti_set_begin(ct_context *context, const char *op, const char *folder, cti_set *set) {
    *set =
        (cti_set){.files = {.folder = folder}, .context = context, .op = op, .outer = context->set};
    set->joins = set->outer && !strcmp(set->outer->folder, folder);
    if (set->joins) return true;
    cti_journal journal;
    if (!set_folder_make(set) || !cti_journal_open(context, op, folder, &journal)) return false;
    cti_journal_remove_dead(&journal);
    cti_journal_close(&journal);
    context->set = &set->files;
    return true;
}

bool cti_set_remove(ct_context *context, const char *op, const char *name) {
    cti_set_member *member = cti_file_set_add(context, op, context->set, name);
    if (!member) return false;
    member->removed = true;
    member->file.fd = -1;
    return true;
}

bool cti_set_has_file(const ct_context *context, const char *name) {
    for (int64_t i = 0; i < context->set->n; i++)
        if (!strcmp(context->set->member[i].name, name)) return true;
    return false;
}

static bool set_commit_files(const cti_set *set, bool *kept) {
    const cti_file_set *files = &set->files;
    const size_t bytes = cti_bytes(files->n, sizeof(cti_journal_step));
    cti_journal journal;
    cti_journal_step *step = cti_take(set->context, bytes);
    for (int64_t i = 0; step && i < files->n; i++) {
        const cti_set_member *member = &files->member[i];
        const char *temporary = member->file.temporary;
        step[i] = (cti_journal_step){
            .temporary = member->removed ? NULL : temporary + cti_os_folder_length(temporary),
            .name = member->name};
    }
    bool ok = step && cti_journal_open(set->context, set->op, files->folder, &journal);
    if (ok) {
        ok = cti_journal_commit(&journal, step, files->n, kept);
        cti_journal_close(&journal);
    }
    cti_give(set->context, step, bytes);
    return ok;
}

bool cti_set_end(cti_set *set, bool ok) {
    if (set->joins) return ok;
    cti_file_set *files = &set->files;
    bool kept = true;
    set->context->set = set->outer;
    ok = ok && set_commit_files(set, &kept);
    for (int64_t i = 0; i < files->n; i++) {
        cti_file_new *file = &files->member[i].file;
        file->exists &= kept; /* else it has its final name, or gets it by the record */
        if (!files->member[i].removed) cti_file_new_drop(file);
    }
    cti_give(set->context, files->member, (size_t)files->room * sizeof *files->member);
    return ok;
}

/* ---- reading ---- */

static void heads_close(const cti_set_reading *r) {
    for (int i = 0; i < CTI_SET_HEADS; i++)
        if (r->fd[i] >= 0) cti_os_close(r->fd[i]);
}

bool cti_set_read_begin(cti_set_reading *r) {
    if (!r->attempts) r->pending = r->context->status != CT_OK;
    for (int i = 0; i < CTI_SET_HEADS; i++) r->fd[i] = -1;
    if (!cti_journal_settle(r->context, r->op, r->folder)) return false;
    for (int i = 0; i < CTI_SET_HEADS && r->head[i]; i++) {
        char *path = cti_path_in(r->context, r->folder, r->head[i]);
        if (path) r->fd[i] = cti_os_open(path);
        const bool ok = path && (r->fd[i] >= 0 || errno == ENOENT || errno == ENOTDIR ||
                                 cti_file_fail(r->context, r->op, path, "cannot open"));
        cti_path_free(r->context, path);
        if (!ok) {
            heads_close(r);
            return false;
        }
    }
    return true;
}

/* Whether `name` in the folder is still the file that is open as fd. With fd -1: whether there is
 * still no such file. */
static bool is_still(const cti_set_reading *r, const char *name, int fd, bool *ok) {
    cti_os_about opened, named;
    char *path = cti_path_in(r->context, r->folder, name);
    *ok = *ok && path && cti_file_find(r->context, r->op, path, &named);
    cti_path_free(r->context, path);
    if (!*ok) return true;
    if (fd < 0 || named.kind == CTI_OS_ABSENT) return fd < 0 && named.kind == CTI_OS_ABSENT;
    return cti_os_about_file(fd, &opened) && opened.device == named.device &&
           opened.number == named.number;
}

bool cti_set_read_end(cti_set_reading *r, bool ok, bool *again) {
    enum { ATTEMPTS = 5 };
    bool known = true, same = is_still(r, CTI_JOURNAL_RECORD, -1, &known);
    for (int i = 0; i < CTI_SET_HEADS && r->head[i]; i++)
        same = same && is_still(r, r->head[i], r->fd[i], &known);
    heads_close(r);
    *again = known && !same && ++r->attempts < ATTEMPTS;
    if (*again && !ok && !r->pending) ct_error_clear(r->context);
    if (!*again && ok && known && !same)
        ct_fail(r->context, CT_ERR_IO, "%s: %s: it was replaced while its files were opened", r->op,
                r->folder);
    return ok && known && same;
}

bool cti_set_settle_folder(ct_context *context, const char *op, const char *folder) {
    return cti_journal_settle(context, op, folder);
}

bool cti_set_settle(ct_context *context, const char *op, const char *path) {
    char *folder = cti_path_folder(context, path);
    const bool ok = folder && cti_journal_settle(context, op, folder);
    cti_path_free(context, folder);
    return ok;
}
