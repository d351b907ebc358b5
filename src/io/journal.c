/* The journal of a folder, in the format and the order of journal.h and set.h. */
#include "journal.h"

#include <errno.h>
#include <string.h>

#include "../core/context.h"
#include "json.h"

enum { WAIT_SECONDS = 60, MOST_RECORD = 1 << 24 };
static const int64_t lock_pause = 1000000; /* ns between two attempts to lock */
static const char record_begin[] = "cotangent save 1\n", record_end[] = "end\n";

/* ---- the lock ---- */

/* The process of which a thread holds the lock of a folder; 0 if none does. It excludes the threads
 * of one process from each other where locks of open file descriptions are missing. In a child of a
 * fork the number of the parent counts for nothing. */
static _Atomic uintptr_t journal_holder;

static bool journal_take_turn(void) {
    const uintptr_t self = (uintptr_t)cti_os_process();
    uintptr_t holder = atomic_load(&journal_holder);
    return holder != self && atomic_compare_exchange_strong(&journal_holder, &holder, self);
}

/* Waits for the turn of this thread with the lock's file open, because a close would end the lock
 * of the other thread. That thread removes the file at its end, and then false is returned. */
static bool has_turn(cti_journal *j, int64_t end) {
    if (j->lock == CTI_LOCK_DESCRIPTION) return true;
    while (!journal_take_turn()) {
        if (cti_os_now() > end) return false;
        cti_os_sleep(lock_pause);
    }
    j->turn = cti_os_lock(j->fd, &j->lock) && cti_os_still_named(j->fd, j->lock_path);
    if (!j->turn) atomic_store(&journal_holder, 0);
    return j->turn;
}

static bool journal_lock(cti_journal *j) {
    const int64_t end = cti_os_now() + (int64_t)WAIT_SECONDS * 1000000000;
    while (cti_os_now() <= end) {
        j->fd = cti_os_lock_path(j->lock_path, &j->lock);
        if (j->fd < 0 && errno != EAGAIN)
            return cti_file_fail(j->context, j->op, j->lock_path, j->what);
        if (j->fd >= 0 && has_turn(j, end)) return true;
        if (j->fd >= 0) cti_os_close(j->fd);
        j->fd = -1;
        cti_os_sleep(lock_pause);
    }
    return ct_fail(j->context, CT_ERR_IO,
                   "%s: %s: another save holds the lock of the folder for over %d s", j->op,
                   j->lock_path, WAIT_SECONDS);
}

static void journal_unlock(cti_journal *j) {
    if (j->fd < 0) return;
    cti_os_unlock_path(j->fd, j->lock_path);
    if (j->turn) atomic_store(&journal_holder, 0);
    j->fd = -1;
}

/* ---- the steps ---- */

static const char *path_to(const cti_journal *j, char *path, const char *name) {
    const size_t folder = cti_os_folder_length(j->record);
    memcpy(path, j->record, folder);
    strcpy(path + folder, name);
    return path;
}

static bool journal_fail(const cti_journal *j, const char *path, const char *what) {
    return cti_file_fail(j->context, j->op, path, what);
}

/* Whether a name of the folder is there. If this cannot be found out, an error is recorded and *ok
 * is set to false. */
static bool journal_has(const cti_journal *j, const char *name, bool *ok) {
    cti_os_about about;
    const char *path = path_to(j, j->to, name);
    if (cti_os_about_link(path, &about)) return true;
    if (errno != ENOENT && errno != ENOTDIR) *ok = journal_fail(j, path, "cannot look for it");
    return false;
}

static bool journal_sync(const cti_journal *j) {
    return cti_os_sync(j->folder_fd) || errno == EINVAL || /* some file systems cannot */
           journal_fail(j, j->folder, "cannot sync the folder");
}

/* ---- folders below the folder ---- */

/* Writes the path of the folder in the folder that a name begins with; NULL: it begins with none.
 */
static const char *path_below(const cti_journal *j, const char *name) {
    const int below = cti_path_below(name);
    if (below <= 0) return NULL;
    path_to(j, j->to, name);
    j->to[cti_os_folder_length(j->record) + (size_t)below - 1] = 0;
    return j->to;
}

/* Makes the folders of new files that are missing. A link is refused, as it may lead out of the
 * folder. */
static bool below_make(const cti_journal *j, const cti_journal_step *step, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        cti_os_about about;
        const char *path = path_below(j, step[i].name);
        if (!path) continue;
        if (step[i].temporary && !cti_os_make_folder(path) && errno != EEXIST)
            return journal_fail(j, path, "cannot make the folder");
        if (!cti_os_about_link(path, &about)) {
            if (errno != ENOENT || step[i].temporary)
                return journal_fail(j, path, "cannot look for it");
        } else if (about.kind != CTI_OS_FOLDER) {
            return ct_fail(j->context, CT_ERR_IO, "%s: %s: is not a folder", j->op, path);
        }
    }
    return true;
}

/* Syncs the folder and those in it in which files change. */
static bool folders_sync(const cti_journal *j, const cti_journal_step *step, int64_t n) {
    const char *before = NULL;
    for (int64_t i = 0; i < n; i++) {
        const int below = cti_path_below(step[i].name);
        const bool same = before && below > 0 && !strncmp(before, step[i].name, (size_t)below);
        if (below <= 0 || same || !step[i].temporary) continue;
        before = step[i].name;
        if (!cti_file_sync_folder(j->context, j->op, path_to(j, j->to, before))) return false;
    }
    return journal_sync(j);
}

/* ---- old and new files ---- */

/* Removes a file that may be missing. */
static bool name_remove(const cti_journal *j, const char *name) {
    const char *path = path_to(j, j->to, name);
    return cti_os_remove(path) || errno == ENOENT ||
           journal_fail(j, path, "cannot remove it to put the new file in its place");
}

/* Removes the old files, the head first. A file whose temporary file is gone is a new one. */
static bool old_files_remove(const cti_journal *j, const cti_journal_step *step, int64_t n,
                             bool *kept) {
    bool ok = true;
    for (int64_t i = n - 1; ok && i >= 0; i--) {
        if (step[i].temporary && !journal_has(j, step[i].temporary, &ok)) {
            if (ok) *kept = false;
            continue;
        }
        ok = name_remove(j, step[i].name);
        if (ok) *kept = false;
    }
    return ok && folders_sync(j, step, n);
}

/* Renames the new files, the head last. A temporary file that is gone was renamed before. */
static bool new_files_rename(const cti_journal *j, const cti_journal_step *step, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (i == n - 1 && !folders_sync(j, step, n)) return false;
        if (!step[i].temporary) continue;
        const char *from = path_to(j, j->from, step[i].temporary),
                   *to = path_to(j, j->to, step[i].name);
        if (!cti_os_rename(from, to) && errno != ENOENT)
            return journal_fail(j, to, "cannot rename the new file to it");
    }
    return folders_sync(j, step, n);
}

static bool record_remove(const cti_journal *j) {
    return (cti_os_remove(j->record) || errno == ENOENT ||
            journal_fail(j, j->record, "cannot remove it")) &&
           journal_sync(j);
}

/* Does what a record says, from any state in which a process may have left it. */
static bool journal_complete(const cti_journal *j, const cti_journal_step *step, int64_t n,
                             bool *kept) {
    return old_files_remove(j, step, n, kept) && new_files_rename(j, step, n) && record_remove(j);
}

/* ---- the record ---- */

static void steps_write(cti_writer *out, const cti_journal_step *step, int64_t n) {
    cti_string_write(out, record_begin);
    for (int64_t i = 0; i < n; i++) {
        cti_string_write(out, step[i].temporary ? step[i].temporary : "-");
        cti_string_write(out, " ");
        cti_string_write(out, step[i].name);
        cti_string_write(out, "\n");
    }
    cti_string_write(out, record_end);
}

static bool record_write(const cti_journal *j, const cti_journal_step *step, int64_t n) {
    cti_writer out = {0};
    steps_write(&out, step, n);
    const size_t size = out.used;
    char *text = cti_take(j->context, size);
    if (!text) return false;
    out = (cti_writer){.at = text, .size = size};
    steps_write(&out, step, n);
    const bool ok = cti_file_write(j->context, j->op, j->record, text, size);
    cti_give(j->context, text, size);
    return ok;
}

/* Reads the line at *at, and moves *at behind it. False: it is no line of a step. */
static bool step_read(char **at, cti_journal_step *step) {
    char *space = strchr(*at, ' '), *end = strchr(*at, '\n');
    if (!space || !end || space > end) return false;
    *space = *end = 0;
    const bool removes = !strcmp(*at, "-");
    *step = (cti_journal_step){.temporary = removes ? NULL : *at, .name = space + 1};
    *at = end + 1;
    return (removes || cti_temporary_is_of_set(step->temporary)) &&
           cti_path_below(step->name) >= 0 && strlen(step->name) < CTI_SET_NAME;
}

/* Completes the save of a record's text, which has this number of lines. */
static bool text_complete(const cti_journal *j, char *text, int64_t lines) {
    const size_t bytes = cti_bytes(lines, sizeof(cti_journal_step));
    cti_journal_step *step = cti_take(j->context, bytes);
    if (!step) return false;
    int64_t n = 0;
    bool ok = !strncmp(text, record_begin, sizeof record_begin - 1), kept;
    char *at = text + (ok ? sizeof record_begin - 1 : 0);
    while (ok && strcmp(at, record_end) != 0) ok = step_read(&at, &step[n++]);
    if (!ok)
        ct_fail(j->context, CT_ERR_FORMAT, "%s: %s: is not the record of a save", j->op, j->record);
    ok = ok && below_make(j, step, n) && journal_complete(j, step, n, &kept);
    cti_give(j->context, step, bytes);
    return ok;
}

/* Completes an interrupted save. The folder is locked. */
static bool record_complete(const cti_journal *j) {
    bool ok = true;
    cti_file file;
    if (!journal_has(j, CTI_JOURNAL_RECORD, &ok)) return ok;
    if (!cti_file_open(j->context, j->op, j->record, &file)) return false;
    if (file.size > MOST_RECORD) {
        cti_file_close(&file);
        return ct_fail(j->context, CT_ERR_FORMAT, "%s: %s: is not the record of a save", j->op,
                       j->record);
    }
    const size_t size = (size_t)file.size;
    char *text = cti_take(j->context, size + 1);
    ok = text && cti_file_read(&file, 0, text, size);
    cti_file_close(&file);
    if (ok) {
        int64_t lines = 1;
        text[size] = 0;
        for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
        ok = text_complete(j, text, lines);
    }
    cti_give(j->context, text, size + 1);
    return ok;
}

/* ---- the functions ---- */

static void give_journal(cti_journal *j) {
    if (j->folder_fd >= 0) cti_os_close(j->folder_fd);
    cti_path_free(j->context, j->record);
    cti_path_free(j->context, j->lock_path);
    cti_give(j->context, j->from, j->room);
    cti_give(j->context, j->to, j->room);
}

static bool journal_make(cti_journal *j) {
    j->record = cti_path_in(j->context, j->folder, CTI_JOURNAL_RECORD);
    j->lock_path = j->record ? cti_path_in(j->context, j->folder, CTI_JOURNAL_LOCK) : NULL;
    if (!j->lock_path) return false;
    j->room = cti_os_folder_length(j->record) + CTI_SET_NAME;
    j->from = cti_take(j->context, j->room);
    j->to = j->from ? cti_take(j->context, j->room) : NULL;
    if (!j->to) return false;
    j->folder_fd = cti_os_open_folder(j->folder);
    return j->folder_fd >= 0 || journal_fail(j, j->folder, "cannot open the folder");
}

static bool journal_open(ct_context *context, const char *op, const char *folder, const char *what,
                         cti_journal *j) {
    *j = (cti_journal){
        .context = context, .op = op, .folder = folder, .what = what, .folder_fd = -1, .fd = -1};
    if (journal_make(j) && journal_lock(j) && record_complete(j)) return true;
    cti_journal_close(j);
    return false;
}

bool cti_journal_open(ct_context *context, const char *op, const char *folder, cti_journal *j) {
    return journal_open(context, op, folder, "cannot lock the folder", j);
}

void cti_journal_close(cti_journal *j) {
    journal_unlock(j);
    give_journal(j);
}

void cti_journal_remove_dead(const cti_journal *j) {
    cti_temporary_remove_dead(j->lock_path, cti_os_folder_length(j->lock_path), true, j->lock);
}

/* A folder in the place of a file is found before anything changes. */
static bool can_replace(const cti_journal *j, const cti_journal_step *step, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        cti_os_about about;
        const char *path = path_to(j, j->to, step[i].name);
        if (!cti_os_about_link(path, &about)) {
            if (errno != ENOENT && errno != ENOTDIR)
                return journal_fail(j, path, "cannot look for it");
        } else if (about.kind != CTI_OS_FILE && about.kind != CTI_OS_LINK) {
            return ct_fail(j->context, CT_ERR_IO, "%s: %s: %s", j->op, path,
                           about.kind == CTI_OS_FOLDER ? "is a folder" : "is not an ordinary file");
        }
    }
    return true;
}

/* If nothing has changed yet, the record is taken back. If it cannot be, the set is the new one. */
bool cti_journal_commit(const cti_journal *j, const cti_journal_step *step, int64_t n, bool *kept) {
    *kept = true;
    if (!below_make(j, step, n) || !can_replace(j, step, n) || !journal_sync(j)) return false;
    const bool ok = record_write(j, step, n) && journal_complete(j, step, n, kept);
    if (!ok && *kept) *kept = record_remove(j);
    return ok;
}

bool cti_journal_settle(ct_context *context, const char *op, const char *folder) {
    cti_os_about about;
    cti_journal journal;
    char *record = cti_path_in(context, folder, CTI_JOURNAL_RECORD);
    if (!record) return false;
    /* if the name is too long for the system, there is no record */
    const bool there = cti_os_about_path(record, &about),
               none = !there && (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG);
    if (!there && !none) cti_file_fail(context, op, record, "cannot look for an interrupted save");
    cti_path_free(context, record);
    if (!there) return none;
    if (!journal_open(context, op, folder,
                      "cannot lock the folder, which has an interrupted save to complete",
                      &journal))
        return false;
    cti_journal_close(&journal);
    return true;
}
