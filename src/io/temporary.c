#include "temporary.h"

#include <errno.h>
#include <string.h>

/* A name is the stem, TAG hex digits that all names of one process have in common,
 * TEMPORARY_DIGITS - TAG random hex digits, and one of the ends. */
static const char stem[] = ".cotangent-", locked_end[] = ".tmp", set_end[] = ".new",
                  unlocked_end[] = ".part";
enum { STEM = sizeof stem - 1, TAG = 8, TEMPORARY_DIGITS = 16 };
_Static_assert(STEM + TEMPORARY_DIGITS + sizeof locked_end <= CTI_TEMPORARY_NAME,
               "a locked name fits");
_Static_assert(STEM + TEMPORARY_DIGITS + sizeof unlocked_end <= CTI_TEMPORARY_NAME,
               "an unlocked one fits");

enum {
    ATTEMPTS = 100,  /* random names tried until one is free */
    ENTRIES = 10000, /* most entries of a folder that one save reads */
    REMOVALS = 1000  /* most files that one save removes */
};

/* ---- names ---- */

static uint64_t tag_mix(uint64_t x) { /* the output function of splitmix64 */
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static void hex_write(char *out, uint64_t x, int digits) {
    for (int i = 0; i < digits; i++) out[i] = "0123456789abcdef"[x >> 4 * i & 15];
}

/* Writes a hash of the process. If two processes have the same tag, neither removes the other's
 * stale files under CTI_LOCK_PROCESS; a third process will. */
static void tag_write(char out[TAG]) {
    static const char here;
    hex_write(out, tag_mix(cti_os_process() << 32 ^ (uint64_t)(uintptr_t)&here), TAG);
}

/* The digits need not be unpredictable, because cti_os_create refuses a name that exists. */
static uint64_t random_digits(const void *here, int attempt) {
    const uint64_t x = cti_os_entropy() ^ (uint64_t)(uintptr_t)here << 3;
    return tag_mix(x + (uint64_t)attempt * 0x9E3779B97F4A7C15u);
}

static bool is_temporary(const char *name, const char *end) {
    return !strncmp(name, stem, STEM) &&
           strspn(name + STEM, "0123456789abcdef") == TEMPORARY_DIGITS &&
           !strcmp(name + STEM + TEMPORARY_DIGITS, end);
}

bool cti_temporary_is_of_set(const char *name) {
    return is_temporary(name, set_end) || is_temporary(name, unlocked_end);
}

/* ---- creating ---- */

/* Between create and lock another save may believe that the writer is dead, and lock or remove the
 * file. The loop then tries another name. */
int cti_temporary_open(char *path, size_t folder, unsigned mode, bool in_set, cti_lock *lock) {
    const char *end = in_set ? set_end : locked_end;
    char *name = path + folder;
    bool locks = true;
    memcpy(name, stem, STEM);
    tag_write(name + STEM);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        hex_write(name + STEM + TAG, random_digits(&mode, attempt), TEMPORARY_DIGITS - TAG);
        strcpy(name + STEM + TEMPORARY_DIGITS, locks ? end : unlocked_end);
        const int fd = cti_os_create(path, mode);
        if (fd < 0 && errno != EEXIST) return -1;
        if (fd < 0) continue;
        *lock = CTI_LOCK_NONE;
        if (!locks) return fd;
        const bool held = cti_os_lock(fd, lock);
        if (held && *lock != CTI_LOCK_NONE && cti_os_still_named(fd, path)) return fd;
        if (held && *lock == CTI_LOCK_NONE) locks = false;
        cti_os_remove(path);
        cti_os_close(fd);
    }
    errno = EEXIST;
    return -1;
}

/* ---- removing files of dead writers ---- */

void cti_temporary_remove_dead(char *path, size_t folder, bool of_sets, cti_lock lock) {
    char *name = path + folder, own[CTI_TEMPORARY_NAME], first = *name;
    if (lock == CTI_LOCK_NONE) return;
    memcpy(own, stem, STEM);
    tag_write(own + STEM);
    *name = 0;
    cti_os_folder *list = cti_os_folder_open(path);
    *name = first;
    if (!list) return;
    /* Closing a descriptor of a file ends this process's CTI_LOCK_PROCESS on it, and a save in
     * another thread may hold that lock. So with CTI_LOCK_PROCESS all files with this process's tag
     * are skipped. With another kind of lock only the caller's own file is skipped. */
    const bool skips = lock == CTI_LOCK_PROCESS;
    int removed = 0;
    for (int i = 0; i < ENTRIES && removed < REMOVALS; i++) {
        const char *entry = cti_os_folder_next(list);
        if (!entry) break;
        if (!strcmp(entry, name) || (skips && !strncmp(entry, own, STEM + TAG))) continue;
        if (is_temporary(entry, locked_end) || (of_sets && is_temporary(entry, set_end)))
            removed += cti_os_folder_remove_unlocked(list, entry, lock);
    }
    cti_os_folder_close(list);
}
