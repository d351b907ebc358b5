/* The files of os.h on Windows. A descriptor is a HANDLE, of which the system uses only 32 bits. */
#include "os_windows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ---- */

enum { MOST_AT_ONCE = 1 << 30 }; /* the largest number of bytes of one read or write */

static HANDLE handle_of(int fd) { return (HANDLE)(intptr_t)fd; }

/* The error of a path that could not be opened. If the path's folder is a file, the system's error
 * is ERROR_PATH_NOT_FOUND, and this function returns ERROR_DIRECTORY. It cuts the path at its
 * folder. */
static DWORD open_error(wchar_t *path, DWORD error) {
    if (error != ERROR_PATH_NOT_FOUND) return error;
    wchar_t *end = NULL;
    for (wchar_t *at = path; *at; at++)
        if (*at == L'/' || *at == L'\\') end = at;
    if (!end) return error;
    *end = 0;
    const DWORD folder = GetFileAttributesW(path);
    const bool is_file = folder != INVALID_FILE_ATTRIBUTES && !(folder & FILE_ATTRIBUTE_DIRECTORY);
    return is_file ? ERROR_DIRECTORY : error;
}

/* Returns a descriptor, or -1 with errno set. */
static int open_path(const char *path, DWORD access, DWORD how, DWORD flags) {
    wchar_t *name = cti_windows_path(path);
    if (!name) return -1;
    HANDLE handle = INVALID_HANDLE_VALUE;
    DWORD error = 0;
    for (int i = 0; i < CTI_WINDOWS_ATTEMPTS; i++) {
        if (i > 0) Sleep(CTI_WINDOWS_PAUSE);
        handle = CreateFileW(name, access, CTI_WINDOWS_SHARED, NULL, how, flags, NULL);
        error = GetLastError();
        if (handle != INVALID_HANDLE_VALUE || error != ERROR_FILE_NOT_FOUND ||
            !cti_windows_reappears(name))
            break;
    }
    if (handle == INVALID_HANDLE_VALUE) cti_windows_fail(open_error(name, error));
    free(name);
    return handle == INVALID_HANDLE_VALUE ? -1 : (int)(intptr_t)handle;
}

/* FILE_FLAG_BACKUP_SEMANTICS opens a folder too, so that cti_os_about_file can tell its kind. */
int cti_os_open(const char *path) {
    return open_path(path, GENERIC_READ, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
}

int cti_os_open_folder(const char *path) {
    const int fd = cti_os_open(path);
    if (fd < 0) return -1;
    cti_os_about about;
    const bool known = cti_os_about_file(fd, &about);
    if (known && about.kind == CTI_OS_FOLDER) return fd;
    const int error = known ? ENOTDIR : errno;
    cti_os_close(fd);
    errno = error;
    return -1;
}

int cti_os_create(const char *path, unsigned mode) {
    (void)mode; /* the file inherits its folder's access control list */
    const DWORD access = GENERIC_READ | GENERIC_WRITE | DELETE;
    const int fd = open_path(path, access | WRITE_DAC, CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
    if (fd >= 0 || errno != EACCES) return fd;
    /* A file system may grant all rights except WRITE_DAC, which cti_os_keep_access needs. */
    return open_path(path, access, CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
}

void cti_os_close(int fd) { CloseHandle(handle_of(fd)); }

static OVERLAPPED overlapped_at(int64_t offset) {
    return (OVERLAPPED){.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
}

static DWORD transfer_size(size_t size) { return size < MOST_AT_ONCE ? (DWORD)size : MOST_AT_ONCE; }

int64_t cti_os_read_at(int fd, int64_t offset, void *out, size_t size) {
    OVERLAPPED where = overlapped_at(offset);
    DWORD n = 0;
    if (ReadFile(handle_of(fd), out, transfer_size(size), &n, &where)) return n;
    const DWORD error = GetLastError();
    if (error == ERROR_HANDLE_EOF) return 0;
    return cti_windows_fail(error), -1;
}

int64_t cti_os_write(int fd, const void *data, size_t size) {
    DWORD n = 0;
    if (WriteFile(handle_of(fd), data, transfer_size(size), &n, NULL)) return n;
    return cti_windows_fail(GetLastError()), -1;
}

/* Restores the position at which cti_os_write writes. */
int64_t cti_os_write_at(int fd, int64_t offset, const void *data, size_t size) {
    OVERLAPPED where = overlapped_at(offset);
    LARGE_INTEGER before;
    DWORD n = 0;
    if (SetFilePointerEx(handle_of(fd), (LARGE_INTEGER){.QuadPart = 0}, &before, FILE_CURRENT) &&
        WriteFile(handle_of(fd), data, transfer_size(size), &n, &where) &&
        SetFilePointerEx(handle_of(fd), before, NULL, FILE_BEGIN))
        return n;
    return cti_windows_fail(GetLastError()), -1;
}

bool cti_os_sync(int fd) {
    if (FlushFileBuffers(handle_of(fd))) return true;
    cti_windows_fail(GetLastError());
    cti_os_about about;
    const int error = errno;
    /* The system itself syncs the names in a folder when files are made and renamed. */
    errno = cti_os_about_file(fd, &about) && about.kind == CTI_OS_FOLDER ? EINVAL : error;
    return false;
}

/* ---- properties of a path or an open file ---- */

static cti_os_kind kind_of_handle(HANDLE handle, DWORD attributes) {
    FILE_ATTRIBUTE_TAG_INFO tag;
    if ((attributes & FILE_ATTRIBUTE_REPARSE_POINT) &&
        GetFileInformationByHandleEx(handle, FileAttributeTagInfo, &tag, sizeof tag) &&
        (tag.ReparseTag == IO_REPARSE_TAG_SYMLINK || tag.ReparseTag == IO_REPARSE_TAG_MOUNT_POINT))
        return CTI_OS_LINK;
    return attributes & FILE_ATTRIBUTE_DIRECTORY ? CTI_OS_FOLDER : CTI_OS_FILE;
}

bool cti_os_about_file(int fd, cti_os_about *about) {
    BY_HANDLE_FILE_INFORMATION info;
    *about = (cti_os_about){.kind = CTI_OS_OTHER};
    if (GetFileType(handle_of(fd)) != FILE_TYPE_DISK) return true;
    if (!GetFileInformationByHandle(handle_of(fd), &info)) return cti_windows_fail(GetLastError());
    const uint64_t time =
        cti_windows_join(info.ftLastWriteTime.dwHighDateTime, info.ftLastWriteTime.dwLowDateTime);
    enum { TICKS = 10000000 }; /* the number of ticks in a second */
    *about =
        (cti_os_about){.kind = kind_of_handle(handle_of(fd), info.dwFileAttributes),
                       .size = (int64_t)cti_windows_join(info.nFileSizeHigh, info.nFileSizeLow),
                       .device = info.dwVolumeSerialNumber,
                       .number = cti_windows_join(info.nFileIndexHigh, info.nFileIndexLow),
                       .modified_s = (int64_t)(time / TICKS),
                       .modified_ns = (int64_t)(time % TICKS) * 100,
                       .mode = 0600};
    return true;
}

static bool about_opened(const char *path, DWORD flags, cti_os_about *about) {
    const int fd =
        open_path(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | flags);
    const bool ok = fd >= 0 && cti_os_about_file(fd, about);
    if (fd >= 0) cti_os_close(fd);
    return ok;
}

bool cti_os_about_path(const char *path, cti_os_about *about) {
    return about_opened(path, 0, about);
}

bool cti_os_about_link(const char *path, cti_os_about *about) {
    return about_opened(path, FILE_FLAG_OPEN_REPARSE_POINT, about);
}

bool cti_os_real_path(const char *path, char *out) {
    const int fd = open_path(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (fd < 0) return false;
    wchar_t name[CTI_OS_PATH];
    const DWORD units = GetFinalPathNameByHandleW(handle_of(fd), name, CTI_OS_PATH, 0);
    const bool ok = cti_windows_answer(name, units, out, CTI_OS_PATH);
    cti_os_close(fd);
    return ok;
}

/* ---- replacing and removing ---- */

/* Gives the new file the access control list of the old file. */
const char *cti_os_keep_access(int fd, const char *path, const cti_os_about *old) {
    (void)old;
    static const char failed[] = "cannot keep its access control list";
    const int from = open_path(path, READ_CONTROL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    /* The old file may have been removed meanwhile. */
    if (from < 0) return errno == ENOENT ? NULL : failed;
    DWORD bytes = 0;
    GetKernelObjectSecurity(handle_of(from), DACL_SECURITY_INFORMATION, NULL, 0, &bytes);
    SECURITY_DESCRIPTOR *list = bytes ? malloc(bytes) : NULL;
    bool ok = bytes == 0; /* FAT has no lists */
    if (list)
        ok = cti_windows_done(
            GetKernelObjectSecurity(handle_of(from), DACL_SECURITY_INFORMATION, list, bytes,
                                    &bytes) &&
            SetKernelObjectSecurity(handle_of(fd), DACL_SECURITY_INFORMATION, list));
    else if (!ok) cti_windows_fail(ERROR_OUTOFMEMORY);
    free(list);
    cti_os_close(from);
    return ok ? NULL : failed;
}

bool cti_os_rename(const char *from, const char *to) {
    wchar_t *source = cti_windows_path(from), *target = source ? cti_windows_path(to) : NULL;
    const bool ok = target && cti_windows_replace(source, target);
    const int error = errno;
    free(source);
    free(target);
    errno = error;
    return ok;
}

bool cti_os_remove(const char *path) {
    wchar_t *name = cti_windows_path(path);
    const bool ok = name && cti_windows_done(DeleteFileW(name));
    free(name);
    return ok;
}

bool cti_os_make_folder(const char *path) {
    wchar_t *name = cti_windows_path(path);
    const bool ok = name && cti_windows_done(CreateDirectoryW(name, NULL));
    free(name);
    return ok;
}

/* ---- locks, and the unlocked files of a folder ---- */

/* An open file needs no other lock: until it is closed, cti_os_folder_remove_unlocked cannot open
 * it, because it opens without sharing. */
bool cti_os_lock(int fd, cti_lock *lock) {
    (void)fd;
    *lock = CTI_LOCK_DESCRIPTION;
    return true;
}

/* Whether a file that refuses to be opened is there, or is being removed. */
static bool is_held(const wchar_t *path, DWORD error) {
    if (error != ERROR_ACCESS_DENIED) return error == ERROR_SHARING_VIOLATION;
    return GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES ||
           GetLastError() != ERROR_FILE_NOT_FOUND;
}

/* Nobody else can open the file while it is open here, and the system removes it at its close. */
int cti_os_lock_path(const char *path, cti_lock *lock) {
    wchar_t *name = cti_windows_path(path);
    if (!name) return -1;
    *lock = CTI_LOCK_DESCRIPTION;
    const HANDLE handle =
        CreateFileW(name, GENERIC_READ | GENERIC_WRITE | DELETE, 0, NULL, OPEN_ALWAYS,
                    FILE_ATTRIBUTE_NORMAL | FILE_FLAG_DELETE_ON_CLOSE, NULL);
    const DWORD error = handle == INVALID_HANDLE_VALUE ? GetLastError() : 0;
    const bool waits = error && is_held(name, error);
    free(name);
    if (!error) return (int)(intptr_t)handle;
    cti_windows_fail(error);
    if (waits) errno = EAGAIN;
    return -1;
}

void cti_os_unlock_path(int fd, const char *path) {
    (void)path;
    cti_os_close(fd);
}

bool cti_os_still_named(int fd, const char *path) {
    cti_os_about opened, named;
    return cti_os_about_file(fd, &opened) && cti_os_about_link(path, &named) &&
           named.kind == CTI_OS_FILE && opened.device == named.device &&
           opened.number == named.number;
}

enum { NAME_BYTES = 3 * MAX_PATH };

struct cti_os_folder {
    HANDLE find;
    WIN32_FIND_DATAW next;
    bool found;            /* whether `next` has a name that was not returned yet */
    char name[NAME_BYTES]; /* the last name that cti_os_folder_next has returned */
    char path[];           /* the path of the folder, and room for a name behind it */
};

/* The wide path of a name in the folder. */
static wchar_t *wide_in(cti_os_folder *folder, const char *name) {
    const size_t end = strlen(folder->path);
    strcpy(folder->path + end, name);
    wchar_t *path = cti_windows_path(folder->path);
    folder->path[end] = '\0';
    return path;
}

cti_os_folder *cti_os_folder_open(const char *path) {
    const size_t length = strlen(path);
    cti_os_folder *folder = malloc(sizeof *folder + length + NAME_BYTES + 2);
    if (!folder) return cti_windows_fail(ERROR_OUTOFMEMORY), NULL;
    memcpy(folder->path, path, length + 1);
    /* No separator follows "C:", the current folder of the drive; "C:/" would be its root. */
    if (cti_os_folder_length(path) != length) strcat(folder->path, "/");
    wchar_t *name = wide_in(folder, "*");
    folder->find = name ? FindFirstFileW(name, &folder->next) : INVALID_HANDLE_VALUE;
    folder->found = folder->find != INVALID_HANDLE_VALUE;
    if (name && !folder->found) cti_windows_fail(GetLastError());
    free(name);
    if (folder->found) return folder;
    free(folder);
    return NULL;
}

const char *cti_os_folder_next(cti_os_folder *folder) {
    if (!folder->found && !FindNextFileW(folder->find, &folder->next)) return NULL;
    folder->found = false;
    return cti_windows_utf8(folder->next.cFileName, folder->name, NAME_BYTES) ? folder->name : "";
}

void cti_os_folder_close(cti_os_folder *folder) {
    FindClose(folder->find);
    free(folder);
}

bool cti_os_folder_remove_unlocked(cti_os_folder *folder, const char *name, cti_lock lock) {
    (void)lock;
    wchar_t *path = strlen(name) < NAME_BYTES ? wide_in(folder, name) : NULL;
    const DWORD flags = FILE_FLAG_DELETE_ON_CLOSE | FILE_FLAG_OPEN_REPARSE_POINT;
    const HANDLE handle = path ? CreateFileW(path, DELETE, 0, NULL, OPEN_EXISTING, flags, NULL)
                               : INVALID_HANDLE_VALUE;
    free(path);
    return handle != INVALID_HANDLE_VALUE && CloseHandle(handle);
}
