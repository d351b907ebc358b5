/* The functions of POSIX that the tests use and Windows lacks. The file is included before each file
 * of the tests. Links, FIFOs, modes and forks cannot be had here: their functions fail, and the
 * tests that need them are tagged "posix" or "forks" and left out. */
#ifndef PORTABLE_WINDOWS_H
#define PORTABLE_WINDOWS_H

#define tell portable_old_tell /* a name that tests use for their own */
#include <direct.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#undef tell
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Files are bytes. */
static inline __attribute__((constructor)) void portable_begin(void) { _fmode = _O_BINARY; }

static inline int portable_setenv(const char *name, const char *value, int replace) {
    return replace || !getenv(name) ? _putenv_s(name, value) : 0;
}
#define setenv      portable_setenv
#define unsetenv(n) _putenv_s(n, "")

static inline char *portable_mkdtemp(char *path) {
    static unsigned count;
    _mkdir("/tmp");
    for (int i = 0; i < 1000; i++) {
        snprintf(path + strlen(path) - 6, 7, "%06x",
                 ((unsigned)_getpid() * 7919u + (unsigned)clock() + count++ * 104729u) & 0xFFFFFFu);
        if (_mkdir(path) == 0) return path;
    }
    return NULL;
}
#define mkdtemp portable_mkdtemp

/* of paths in UTF-8, of any length */
__declspec(dllimport) int __stdcall RemoveDirectoryW(const wchar_t *path);
__declspec(dllimport) int __stdcall CreateDirectoryW(const wchar_t *path, void *security);
__declspec(dllimport) int __stdcall DeleteFileW(const wchar_t *path);
__declspec(dllimport) int __stdcall MultiByteToWideChar(unsigned page, unsigned long flags,
                                                        const char *text, int size, wchar_t *out,
                                                        int room);
enum { PORTABLE_PATH = 8192 };
static inline const wchar_t *portable_path(const char *path) {
    static wchar_t name[PORTABLE_PATH], whole[PORTABLE_PATH + 4] = L"\\\\?\\";
    MultiByteToWideChar(65001, 0, path, -1, name, PORTABLE_PATH);
    return _wfullpath(whole + 4, name, PORTABLE_PATH) ? whole : L"";
}
static inline int portable_mkdir(const char *path) {
    return CreateDirectoryW(portable_path(path), NULL) ? 0 : -1;
}
static inline int portable_rmdir(const char *path) {
    return RemoveDirectoryW(portable_path(path)) ? 0 : -1;
}
static inline int portable_remove(const char *path) {
    const wchar_t *name = portable_path(path);
    return DeleteFileW(name) || RemoveDirectoryW(name) ? 0 : -1;
}
#define mkdir(path, mode) portable_mkdir(path)
#define rmdir             portable_rmdir
#define remove            portable_remove
#define unlink            portable_remove

/* Folders with names in UTF-8. Under Wine /proc is that of the Unix system, which lists other
 * descriptors than the program's, so it counts as missing. */
__declspec(dllimport) int __stdcall WideCharToMultiByte(unsigned page, unsigned long flags,
                                                        const wchar_t *text, int size, char *out,
                                                        int room, const char *other, int *used);
typedef struct {
    _WDIR *list;
    struct portable_entry {
        char d_name[3 * 260];
    } entry;
} portable_dir;
static inline portable_dir *portable_opendir(const char *path) {
    wchar_t name[PORTABLE_PATH];
    if (!strncmp(path, "/proc/", 6)) return NULL;
    MultiByteToWideChar(65001, 0, path, -1, name, PORTABLE_PATH);
    portable_dir *dir = calloc(1, sizeof *dir);
    if (dir) dir->list = _wopendir(name);
    if (dir && dir->list) return dir;
    free(dir);
    return NULL;
}
static inline struct portable_entry *portable_readdir(portable_dir *dir) {
    const struct _wdirent *found = _wreaddir(dir->list);
    if (!found) return NULL;
    WideCharToMultiByte(65001, 0, found->d_name, -1, dir->entry.d_name, sizeof dir->entry.d_name,
                        NULL, NULL);
    return &dir->entry;
}
static inline int portable_closedir(portable_dir *dir) {
    const int status = _wclosedir(dir->list);
    free(dir);
    return status;
}
#define DIR      portable_dir
#define dirent   portable_entry
#define opendir  portable_opendir
#define readdir  portable_readdir
#define closedir portable_closedir

/* A descriptor of the library is a handle, a multiple of 4. */
__declspec(dllimport) int __stdcall GetHandleInformation(void *handle, unsigned long *flags);
static inline int portable_is_open(int fd) {
    unsigned long flags;
    return fd % 4 == 0 && GetHandleInformation((void *)(intptr_t)fd, &flags) ? 0 : -1;
}
#define F_GETFD         1
#define fcntl(fd, what) portable_is_open(fd)

#define lstat(path, about)  stat(path, about)
#define S_ISLNK(mode)       ((void)(mode), 0)
#define symlink(to, from)   ((void)(to), (void)(from), errno = ENOSYS, -1)
#define mkfifo(path, mode)  ((void)(path), errno = ENOSYS, -1)
#define fchdir(fd)          ((void)(fd), errno = ENOSYS, -1)
#define utimes(path, times) ((void)(path), (void)(times), errno = ENOSYS, -1)

static inline int portable_truncate(const char *path, long long size) {
    const int fd = _open(path, _O_RDWR | _O_BINARY);
    const int status = fd >= 0 ? _chsize_s(fd, size) : -1;
    if (fd >= 0) _close(fd);
    return status ? -1 : 0;
}
#define truncate portable_truncate

static inline long long portable_pwrite(int fd, const void *data, size_t size, long long offset) {
    return _lseeki64(fd, offset, SEEK_SET) < 0 ? -1 : _write(fd, data, (unsigned)size);
}
#define pwrite           portable_pwrite
#define ftruncate(fd, n) _chsize_s(fd, n)

/* rename replaces a file, as elsewhere */
static inline int portable_rename(const char *from, const char *to) {
    return remove(to), rename(from, to);
}
#define rename portable_rename

/* ---- streams in memory: temporary files that are read when they are closed ---- */

static inline FILE *portable_tmpfile(void) {
    char *name = _tempnam(NULL, "ct");
    FILE *file = name ? fopen(name, "w+bTD") : NULL;
    free(name);
    return file;
}
#define tmpfile portable_tmpfile

static struct {
    FILE *file;
    char *fixed, **text; /* fmemopen's buffer, or open_memstream's result */
    size_t *size, room;
} portable_memory[8] __attribute__((unused));

static inline FILE *portable_open(char *fixed, size_t room, char **text, size_t *size) {
    for (int i = 0; i < 8; i++)
        if (!portable_memory[i].file) {
            portable_memory[i].fixed = fixed;
            portable_memory[i].room = room;
            portable_memory[i].text = text;
            portable_memory[i].size = size;
            return portable_memory[i].file = portable_tmpfile();
        }
    return NULL;
}
#define fmemopen(buffer, room, mode) portable_open(buffer, room, NULL, NULL)
#define open_memstream(text, size)   portable_open(NULL, 0, text, size)

static inline int portable_fclose(FILE *file) {
    for (int i = 0; i < 8; i++)
        if (portable_memory[i].file == file) {
            size_t size = (size_t)ftell(file);
            portable_memory[i].file = NULL;
            rewind(file);
            if (portable_memory[i].text) {
                char *text = malloc(size + 1);
                if (text) text[fread(text, 1, size, file)] = 0;
                *portable_memory[i].text = text;
                *portable_memory[i].size = size;
            } else {
                if (size >= portable_memory[i].room) size = portable_memory[i].room - 1;
                portable_memory[i].fixed[fread(portable_memory[i].fixed, 1, size, file)] = 0;
            }
        }
    return fclose(file);
}
#define fclose portable_fclose

#endif
