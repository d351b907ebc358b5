/* A model of a disk under a writer. The model tracks the durable state of a folder: for a file, its
 * bytes at its last fsync; for a folder, its entries at its last fsync. A later change may be lost
 * when the power fails. Each sector of 512 bytes may come from any write since the fsync, and a
 * file may have any of its sizes since then, with zeros or garbage in sectors that never reached
 * the disk. Each change of an entry (create, rename, unlink, mkdir) may have happened or not, in
 * any order.
 *
 * Before every call that changes something the model makes folders in states in which the disk may
 * be left, and passes them to a function. Calls can fail too, one at a time. Programs are linked
 * with -Wl,--wrap for the calls below. */
#ifndef DISK_MODEL_H
#define DISK_MODEL_H

#include "tests/support/suite.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 512, MOST_INODES = 512, MOST_ENTRIES = 512, MOST_PENDING = 256, MOST_FDS = 256 };
enum { MOST_VERSIONS = 256, MODEL_NAME = 80, MODEL_PATH = 300 };

typedef struct {
    size_t size;
    unsigned char *bytes;
} file_bytes;

/* A file or folder. versions[0] is durable; programs read the last version. */
typedef struct {
    bool is_folder;
    int n;
    file_bytes versions[MOST_VERSIONS];
} inode;

typedef struct {
    int folder, inode; /* -1: no such name */
    char name[MODEL_NAME];
} entry;

/* One change of a folder: a rename takes one name away and sets another, at once. */
typedef struct {
    int n;
    entry change[2];
} pending_change;

typedef struct {
    int n;
    entry at[MOST_ENTRIES];
} entry_list;

static struct {
    bool on;
    char root[64]; /* the folder that is modelled: inode 0 */
    int inodes;
    inode inode[MOST_INODES];
    entry_list now, durable;
    int n_pending;
    pending_change pending[MOST_PENDING];
    int fd_inode[MOST_FDS]; /* -1: none of the model's */
    size_t fd_offset[MOST_FDS];
    bool fd_appends[MOST_FDS];

    int outcomes; /* states that are tried before each call */
    uint64_t random;
    int64_t calls; /* calls so far that change something */
    int64_t tried;
    char crashed[64];                  /* the folder that a state is written to */
    void (*look)(const char *crashed); /* looks at it */
    bool no_file_sync, no_folder_sync; /* broken writers: fsync does nothing */
    int64_t fail_at;                   /* this call of all calls fails; 0: none */
    int64_t fail_calls;                /* the number of calls so far */
    int fail_errno;
    int64_t kill_at; /* kill is called before this fsync; 0: none */
    int64_t syncs;
    void (*kill)(void);
    const char *failed;
} disk;

static inline uint32_t draw(uint32_t below) {
    disk.random = disk.random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((disk.random >> 33) % below);
}

/* ---- folders ---- */

static inline int find(const entry_list *list, int folder, const char *name) {
    for (int i = 0; i < list->n; i++)
        if (list->at[i].folder == folder && !strcmp(list->at[i].name, name)) return i;
    return -1;
}

static inline void assign(entry_list *list, const entry *change) {
    const int i = find(list, change->folder, change->name);
    if (i >= 0) list->at[i] = list->at[--list->n];
    if (change->inode < 0) return;
    ck_assert_int_lt(list->n, MOST_ENTRIES);
    list->at[list->n++] = *change;
}

/* Splits a path below the root into its folder's inode and its name. Returns false if the path is
 * not below the root. */
static inline bool locate(const char *path, int *folder, char name[MODEL_NAME]) {
    const size_t length = strlen(disk.root);
    if (strncmp(path, disk.root, length) != 0 || path[length] != '/') return false;
    *folder = 0;
    const char *at = path + length + 1;
    for (const char *slash = strchr(at, '/'); slash; slash = strchr(at, '/')) {
        snprintf(name, MODEL_NAME, "%.*s", (int)(slash - at), at);
        const int i = find(&disk.now, *folder, name);
        if (i < 0) return false;
        *folder = disk.now.at[i].inode;
        at = slash + 1;
    }
    ck_assert_uint_lt(strlen(at), MODEL_NAME);
    snprintf(name, MODEL_NAME, "%s", at);
    return true;
}

static inline int inode_at(const char *path) {
    int folder;
    char name[MODEL_NAME];
    if (!strcmp(path, disk.root)) return 0;
    if (!locate(path, &folder, name)) return -1;
    if (!*name || !strcmp(name, ".")) return folder;
    const int i = find(&disk.now, folder, name);
    return i < 0 ? -1 : disk.now.at[i].inode;
}

static inline int new_inode(bool is_folder) {
    ck_assert_int_lt(disk.inodes, MOST_INODES);
    inode *made = &disk.inode[disk.inodes];
    *made = (inode){.is_folder = is_folder, .n = 1};
    return disk.inodes++;
}

static inline entry entry_of(const char *path, int number) {
    entry e = {.inode = number};
    ck_assert_msg(locate(path, &e.folder, e.name), "%s is outside of the model", path);
    return e;
}

static inline void change(int n, const entry *changes) {
    ck_assert_int_lt(disk.n_pending, MOST_PENDING);
    pending_change *p = &disk.pending[disk.n_pending++];
    p->n = n;
    for (int i = 0; i < n; i++) {
        p->change[i] = changes[i];
        assign(&disk.now, &changes[i]);
    }
}

static inline void sync_folder_entries(int folder) {
    int kept = 0;
    for (int i = 0; i < disk.n_pending; i++) {
        const pending_change *p = &disk.pending[i];
        if (p->change[0].folder != folder) disk.pending[kept++] = *p;
        else
            for (int k = 0; k < p->n; k++) assign(&disk.durable, &p->change[k]);
    }
    disk.n_pending = kept;
}

/* ---- files ---- */

static inline file_bytes *newest(inode *file) { return &file->versions[file->n - 1]; }

static inline void add_version(inode *file, size_t size) {
    ck_assert_int_lt(file->n, MOST_VERSIONS);
    const file_bytes *old = newest(file);
    file_bytes made = {.size = size, .bytes = calloc(size + 1, 1)};
    if (old->size) memcpy(made.bytes, old->bytes, old->size < size ? old->size : size);
    file->versions[file->n++] = made;
}

static inline void sync_file(inode *file) {
    for (int i = 0; i < file->n - 1; i++) free(file->versions[i].bytes);
    file->versions[0] = *newest(file);
    file->n = 1;
}

/* Returns bytes that a file may have after a crash; the caller frees them. */
static inline file_bytes crashed_bytes(const inode *file) {
    const file_bytes *one = &file->versions[draw((uint32_t)file->n)];
    file_bytes out = {.size = one->size};
    if (file->n > 1 && draw(4) == 0) { /* a size between the sizes of two versions */
        const size_t other = file->versions[draw((uint32_t)file->n)].size;
        const size_t low = other < one->size ? other : one->size;
        out.size = low + draw((uint32_t)((other > one->size ? other : one->size) - low) + 1);
    }
    out.bytes = calloc(out.size + 1, 1);
    const bool whole = draw(3) == 0; /* all sectors of one version */
    for (size_t at = 0; at < out.size; at += SECTOR) {
        const file_bytes *from = whole ? one : &file->versions[draw((uint32_t)file->n)];
        const size_t end = out.size < at + SECTOR ? out.size : at + SECTOR;
        const bool garbage = draw(2);
        for (size_t i = at; i < end; i++)
            out.bytes[i] =
                i < from->size ? from->bytes[i] : (unsigned char)(garbage ? draw(256) : 0);
    }
    return out;
}

/* ---- a crash ---- */

static inline void remove_tree(const char *path) {
    DIR *list = opendir(path);
    if (!list) return;
    for (struct dirent *e; (e = readdir(list));) {
        char inner[MODEL_PATH];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(inner, sizeof inner, "%.100s/%.180s", path, e->d_name);
        if (unlink(inner) != 0) remove_tree(inner);
    }
    closedir(list);
    rmdir(path);
}

static inline void lay_out(const entry_list *entries, int folder, const char *path) {
    ck_assert_int_eq(mkdir(path, 0777), 0);
    for (int i = 0; i < entries->n; i++) {
        const entry *e = &entries->at[i];
        char inner[MODEL_PATH];
        if (e->folder != folder) continue;
        snprintf(inner, sizeof inner, "%.200s/%s", path, e->name);
        if (disk.inode[e->inode].is_folder) {
            lay_out(entries, e->inode, inner);
            continue;
        }
        file_bytes bytes = crashed_bytes(&disk.inode[e->inode]);
        FILE *file = fopen(inner, "wb");
        ck_assert_ptr_nonnull(file);
        ck_assert_uint_eq(fwrite(bytes.bytes, 1, bytes.size, file), bytes.size);
        fclose(file);
        free(bytes.bytes);
    }
}

static inline void crash_once(void) {
    static entry_list entries;
    int order[MOST_PENDING], n = 0;
    entries = disk.durable;
    const uint32_t kept = draw(5); /* the number of changes out of four that are kept */
    for (int i = 0; i < disk.n_pending; i++)
        if (draw(4) < kept) order[n++] = i;
    if (draw(2)) /* in another order */
        for (int i = n - 1; i > 0; i--) {
            const int k = (int)draw((uint32_t)i + 1), swapped = order[i];
            order[i] = order[k];
            order[k] = swapped;
        }
    for (int i = 0; i < n; i++) {
        const pending_change *p = &disk.pending[order[i]];
        for (int k = 0; k < p->n; k++) assign(&entries, &p->change[k]);
    }
    lay_out(&entries, 0, disk.crashed);
    disk.look(disk.crashed);
    remove_tree(disk.crashed);
    disk.tried++;
}

static inline void crash_points(void) {
    if (!disk.on) return;
    disk.calls++;
    disk.on = false;
    for (int i = 0; disk.look && i < disk.outcomes; i++) crash_once();
    disk.on = true;
}

/* ---- begin and end ---- */

int __real_close(int fd);

static inline void import_folder(int folder, const char *path) {
    DIR *list = opendir(path);
    ck_assert_ptr_nonnull(list);
    for (struct dirent *e; (e = readdir(list));) {
        char inner[MODEL_PATH];
        struct stat about;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(inner, sizeof inner, "%.200s/%.80s", path, e->d_name);
        ck_assert_int_eq(lstat(inner, &about), 0);
        entry made = {.folder = folder, .inode = new_inode(S_ISDIR(about.st_mode))};
        snprintf(made.name, MODEL_NAME, "%.79s", e->d_name);
        assign(&disk.now, &made);
        assign(&disk.durable, &made);
        if (S_ISDIR(about.st_mode)) {
            import_folder(made.inode, inner);
            continue;
        }
        file_bytes *bytes = &disk.inode[made.inode].versions[0];
        *bytes = (file_bytes){.size = (size_t)about.st_size,
                              .bytes = calloc((size_t)about.st_size + 1, 1)};
        FILE *file = fopen(inner, "rb");
        ck_assert_uint_eq(fread(bytes->bytes, 1, bytes->size, file), bytes->size);
        fclose(file);
    }
    closedir(list);
}

/* Starts the model with the folder's files, which are all durable. */
static inline void disk_begin(const char *root, int outcomes, uint64_t seed,
                              void (*look)(const char *crashed)) {
    for (int i = 0; i < disk.inodes; i++)
        for (int k = 0; k < disk.inode[i].n; k++) free(disk.inode[i].versions[k].bytes);
    memset(&disk, 0, sizeof disk);
    for (int i = 0; i < MOST_FDS; i++) disk.fd_inode[i] = -1;
    snprintf(disk.root, sizeof disk.root, "%s", root);
    snprintf(disk.crashed, sizeof disk.crashed, "%.50s-crashed", root);
    disk.outcomes = outcomes;
    disk.random = seed;
    disk.look = look;
    new_inode(true);
    import_folder(0, root);
    disk.on = true;
}

/* Closes all files, like the system after the end of a process. */
static inline void close_all(void) {
    for (int fd = 0; fd < MOST_FDS; fd++) {
        if (disk.fd_inode[fd] >= 0) __real_close(fd);
        disk.fd_inode[fd] = -1;
    }
}

/* Tries the states after the last call, and ends the model. */
static inline void disk_end(void) {
    crash_points();
    disk.on = false;
}

/* ---- the calls ---- */

static inline bool call_fails(const char *call) {
    if (!disk.on || !disk.fail_at || ++disk.fail_calls != disk.fail_at) return false;
    disk.failed = call;
    errno = disk.fail_errno;
    return true;
}

static inline int modelled(int fd) {
    return disk.on && fd >= 0 && fd < MOST_FDS ? disk.fd_inode[fd] : -1;
}

static inline int opened(int fd, const char *path, int flags, bool made) {
    if (!disk.on || fd < 0) return fd;
    ck_assert_int_lt(fd, MOST_FDS);
    if (made) change(1, (entry[]){entry_of(path, new_inode(false))});
    disk.fd_inode[fd] = inode_at(path);
    disk.fd_offset[fd] = 0;
    disk.fd_appends[fd] = flags & O_APPEND;
    return fd;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & O_CREAT) {
        va_list args;
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    if (call_fails("open")) return -1;
    const bool made = disk.on && (flags & O_CREAT) && inode_at(path) < 0;
    if (made) crash_points();
    return opened(__real_open(path, flags, mode), path, flags, made);
}

/* The path of a name in an open folder. */
static inline const char *path_at(int at, const char *name, char path[MODEL_PATH]) {
    char link[40], folder[200] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    ck_assert_int_gt(readlink(link, folder, sizeof folder - 1), 0);
    snprintf(path, MODEL_PATH, "%s/%.90s", folder, name);
    return path;
}

int __real_openat(int at, const char *name, int flags, ...);
int __wrap_openat(int at, const char *name, int flags, ...);
int __wrap_openat(int at, const char *name, int flags, ...) { /* never creates a file */
    char path[MODEL_PATH];
    if (call_fails("openat")) return -1;
    const int fd = __real_openat(at, name, flags);
    return disk.on && fd >= 0 ? opened(fd, path_at(at, name, path), flags, false) : fd;
}

static inline void wrote(int fd, size_t offset, const void *data, size_t size) {
    inode *file = &disk.inode[disk.fd_inode[fd]];
    const size_t end = offset + size;
    add_version(file, newest(file)->size < end ? end : newest(file)->size);
    memcpy(newest(file)->bytes + offset, data, size);
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size) {
    if (modelled(fd) < 0) return __real_write(fd, data, size);
    crash_points();
    if (call_fails("write")) {
        /* a disk that becomes full takes a part, and then nothing */
        if (disk.fail_errno == EINTR || size < 2) return -1;
        disk.fail_at++;
        size /= 2;
    }
    const ssize_t n = __real_write(fd, data, size);
    const inode *file = &disk.inode[disk.fd_inode[fd]];
    const size_t offset =
        disk.fd_appends[fd] ? file->versions[file->n - 1].size : disk.fd_offset[fd];
    if (n > 0) wrote(fd, offset, data, (size_t)n);
    if (n > 0) disk.fd_offset[fd] = offset + (size_t)n;
    return n;
}

ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset) {
    if (modelled(fd) < 0) return __real_pwrite(fd, data, size, offset);
    crash_points();
    if (call_fails("pwrite")) return -1;
    const ssize_t n = __real_pwrite(fd, data, size, offset);
    if (n > 0) wrote(fd, (size_t)offset, data, (size_t)n);
    return n;
}

int __real_ftruncate(int fd, off_t size);
int __wrap_ftruncate(int fd, off_t size);
int __wrap_ftruncate(int fd, off_t size) {
    if (modelled(fd) < 0) return __real_ftruncate(fd, size);
    crash_points();
    if (call_fails("ftruncate")) return -1;
    add_version(&disk.inode[disk.fd_inode[fd]], (size_t)size);
    return __real_ftruncate(fd, size);
}

int __wrap_fsync(int fd);
int __wrap_fsync(int fd) { /* does not sync, which would take long */
    const int i = modelled(fd);
    if (i < 0) return 0;
    crash_points();
    if (++disk.syncs == disk.kill_at) disk.kill();
    if (call_fails("fsync")) return -1;
    if (disk.inode[i].is_folder && !disk.no_folder_sync) sync_folder_entries(i);
    if (!disk.inode[i].is_folder && !disk.no_file_sync) sync_file(&disk.inode[i]);
    return 0;
}

int __wrap_close(int fd);
int __wrap_close(int fd) {
    if (modelled(fd) >= 0) disk.fd_inode[fd] = -1;
    const bool fail = call_fails("close");
    const int error = errno, status = __real_close(fd);
    if (fail) errno = error;
    return fail ? -1 : status;
}

int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to) {
    const int i = disk.on ? inode_at(from) : -1;
    if (i >= 0) crash_points();
    if (call_fails("rename")) return -1;
    const int status = __real_rename(from, to);
    if (i >= 0 && status == 0) change(2, (entry[]){entry_of(from, -1), entry_of(to, i)});
    return status;
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) {
    if (disk.on) crash_points();
    if (call_fails("mkdir")) return -1;
    const int status = __real_mkdir(path, mode);
    if (disk.on && status == 0) change(1, (entry[]){entry_of(path, new_inode(true))});
    return status;
}

int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __wrap_unlink(const char *path) {
    if (disk.on) crash_points();
    if (call_fails("unlink")) return -1;
    const int status = __real_unlink(path);
    if (disk.on && status == 0) change(1, (entry[]){entry_of(path, -1)});
    return status;
}

int __real_unlinkat(int at, const char *name, int flags);
int __wrap_unlinkat(int at, const char *name, int flags);
int __wrap_unlinkat(int at, const char *name, int flags) {
    char path[MODEL_PATH];
    if (disk.on) crash_points();
    if (call_fails("unlinkat")) return -1;
    const int status = __real_unlinkat(at, name, flags);
    if (disk.on && status == 0) change(1, (entry[]){entry_of(path_at(at, name, path), -1)});
    return status;
}

#define FAILING(call, arguments, names)                                                            \
    int __real_##call arguments;                                                                   \
    int __wrap_##call arguments;                                                                   \
    int __wrap_##call arguments { return call_fails(#call) ? -1 : __real_##call names; }
FAILING(fstat, (int fd, struct stat *about), (fd, about))
FAILING(lstat, (const char *path, struct stat *about), (path, about))
FAILING(stat, (const char *path, struct stat *about), (path, about))

ssize_t __real_pread(int fd, void *out, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *out, size_t size, off_t offset);
ssize_t __wrap_pread(int fd, void *out, size_t size, off_t offset) {
    return call_fails("pread") ? -1 : __real_pread(fd, out, size, offset);
}

#endif
