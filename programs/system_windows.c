/* system.h on Windows 10 and later. A descriptor is the C library's. */
#define WIN32_LEAN_AND_MEAN
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
/* these headers must follow windows.h */
#include <psapi.h>

static bool fail(DWORD error) {
    errno = EIO;
    if (error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND ||
        error == ERROR_INVALID_NAME)
        errno = ENOENT;
    if (error == ERROR_ACCESS_DENIED || error == ERROR_SHARING_VIOLATION) errno = EACCES;
    if (error == ERROR_ALREADY_EXISTS || error == ERROR_FILE_EXISTS) errno = EEXIST;
    if (error == ERROR_DISK_FULL || error == ERROR_HANDLE_DISK_FULL) errno = ENOSPC;
    if (error == ERROR_FILENAME_EXCED_RANGE) errno = ENAMETOOLONG;
    return false;
}

enum { PATH = 4096 }; /* units of UTF-16, or bytes of UTF-8 */

/* The path in UTF-16, in one of two buffers in turn. A long path on a drive is made absolute and
 * gets the prefix \\?\, with which it may be longer than MAX_PATH. */
static const wchar_t *wide(const char *path) {
    enum { PREFIX = 4, SHORT_PATH = MAX_PATH - 13 }; /* leaves room for an 8.3 name */
    static wchar_t paths[2][PATH];
    static int turn;
    turn = 1 - turn;
    wchar_t *out = paths[turn], whole[PATH];
    if (!MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, PATH))
        *out = 0; /* the empty path, which nothing opens */
    const DWORD units = *out ? GetFullPathNameW(out, PATH, whole, NULL) : 0;
    if (units >= SHORT_PATH && units < PATH - PREFIX && *whole != L'\\') {
        wcscpy(out, L"\\\\?\\");
        wcscpy(out + PREFIX, whole);
    }
    return out;
}

/* Windows converts main's arguments to the system's code page, which may lack a letter. So this
 * replaces the arguments by those of the command line in UTF-16, converted to UTF-8. */
void system_begin(int argc, char **argv) {
    typedef struct {
        int newmode;
    } start;
    extern int __wgetmainargs(int *, wchar_t ***, wchar_t ***, int, start *);
    extern int _dowildcard;
    wchar_t **words = NULL, **environment;
    int n = 0;
    _setmode(_fileno(stdout), _O_BINARY);
    _setmode(_fileno(stdin), _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
    DWORD mode;
    const HANDLE console = GetStdHandle(STD_OUTPUT_HANDLE);
    enum { ESCAPES = 4 }; /* ENABLE_VIRTUAL_TERMINAL_PROCESSING */
    if (GetConsoleMode(console, &mode)) SetConsoleMode(console, mode | ESCAPES);
    __wgetmainargs(&n, &words, &environment, _dowildcard, &(start){0});
    for (int i = 0; n == argc && i < n; i++) {
        const int size = WideCharToMultiByte(CP_UTF8, 0, words[i], -1, NULL, 0, NULL, NULL);
        char *word = size > 0 ? malloc((size_t)size) : NULL;
        if (!word) continue;
        WideCharToMultiByte(CP_UTF8, 0, words[i], -1, word, size, NULL, NULL);
        argv[i] = word;
    }
}

double system_seconds(void) {
    LARGE_INTEGER ticks, a_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&a_second);
    return (double)ticks.QuadPart / (double)a_second.QuadPart;
}

double system_peak_memory(void) {
    PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof memory};
    if (!K32GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory)) return NAN;
    return (double)memory.PeakWorkingSetSize;
}

bool system_is_terminal(void) { return _isatty(_fileno(stdout)); }

int system_columns(void) {
    CONSOLE_SCREEN_BUFFER_INFO screen;
    if (!GetConsoleScreenBufferInfo(GetStdHandle(STD_OUTPUT_HANDLE), &screen)) return 0;
    return screen.srWindow.Right - screen.srWindow.Left + 1;
}

/* The C library resets a handler before it calls the handler, so each handler runs once, whatever
 * `once` is. */
void system_on_interrupt(void (*handler)(int), bool once) {
    (void)once;
    signal(SIGINT, handler);
    signal(SIGTERM, handler);
}

static void (*on_request)(int);

static BOOL WINAPI on_event(DWORD event) {
    if (event != CTRL_BREAK_EVENT) return FALSE;
    on_request((int)event);
    return TRUE;
}

void system_on_request(void (*handler)(int)) {
    on_request = handler;
    SetConsoleCtrlHandler(on_event, TRUE);
}

/* ---- paths ---- */

FILE *system_fopen(const char *path, const char *mode) {
    wchar_t wide_mode[8] = {0};
    for (int i = 0; i < 7 && mode[i]; i++) wide_mode[i] = (wchar_t)mode[i];
    return _wfopen(wide(path), wide_mode);
}

static bool done(BOOL ok) { return ok || fail(GetLastError()); }

/* Opens the folder with the right to make files in it. _waccess would test only the read-only
 * attribute, which has no meaning for a folder. */
bool system_may_write_in(const char *folder) {
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    const HANDLE handle = CreateFileW(wide(folder), FILE_ADD_FILE, share, NULL, OPEN_EXISTING,
                                      FILE_FLAG_BACKUP_SEMANTICS, NULL);
    return done(handle != INVALID_HANDLE_VALUE) && done(CloseHandle(handle));
}

bool system_make_folder(const char *path) { return done(CreateDirectoryW(wide(path), NULL)); }
bool system_remove(const char *path) { return done(DeleteFileW(wide(path))); }
bool system_remove_folder(const char *path) { return done(RemoveDirectoryW(wide(path))); }
bool system_is_separator(char c) { return c == '/' || c == '\\'; }

bool system_rename(const char *from, const char *to) {
    const DWORD flags = MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH;
    return done(MoveFileExW(wide(from), wide(to), flags));
}

/* This does not use FindFirstFile, because FindFirstFile may refuse a folder that
 * system_lock_folder has open. */
bool system_list(const char *folder, void (*each)(void *to, const char *name), void *to) {
    union {
        FILE_ID_BOTH_DIR_INFO first;
        char bytes[8192];
    } list;
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    const HANDLE handle = CreateFileW(wide(folder), FILE_LIST_DIRECTORY, share, NULL, OPEN_EXISTING,
                                      FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE) return fail(GetLastError());
    while (GetFileInformationByHandleEx(handle, FileIdBothDirectoryInfo, &list, sizeof list)) {
        const FILE_ID_BOTH_DIR_INFO *at = &list.first;
        for (DWORD next = 1; next; at = (const void *)((const char *)at + next)) {
            char name[3 * MAX_PATH];
            const int units = (int)(at->FileNameLength / sizeof(wchar_t)),
                      size = WideCharToMultiByte(CP_UTF8, 0, at->FileName, units, name,
                                                 sizeof name - 1, NULL, NULL);
            name[size] = 0;
            if (size > 0) each(to, name);
            next = at->NextEntryOffset;
        }
    }
    const DWORD error = GetLastError();
    CloseHandle(handle);
    return error == ERROR_NO_MORE_FILES || fail(error);
}

/* The system itself syncs changes in a folder. */
bool system_sync_folder(const char *folder) { return (void)folder, true; }

/* ---- open files ---- */

static HANDLE handle_of(int fd) { return (HANDLE)_get_osfhandle(fd); }

/* Returns a descriptor of the C library for the handle. Closing the descriptor closes the handle.
 * Returns -1 if there are too many descriptors. */
static int descriptor_of(HANDLE handle) {
    const int fd = _open_osfhandle((intptr_t)handle, _O_BINARY | _O_NOINHERIT);
    if (fd < 0) CloseHandle(handle);
    return fd;
}

static int open_file(const char *path, DWORD access, DWORD share, DWORD how) {
    const HANDLE handle = CreateFileW(wide(path), access, share, NULL, how, 0, NULL);
    if (handle == INVALID_HANDLE_VALUE) {
        const DWORD error = GetLastError(), attributes = GetFileAttributesW(wide(path));
        fail(error);
        if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY))
            errno = EISDIR;
        return -1;
    }
    return descriptor_of(handle);
}

/* Sets the numbers that identify an open file or folder. Returns false if the system does not give
 * them. */
static bool identify(HANDLE handle, uint64_t *device, uint64_t *number) {
    BY_HANDLE_FILE_INFORMATION about;
    if (!GetFileInformationByHandle(handle, &about)) return false;
    *device = about.dwVolumeSerialNumber;
    *number = (uint64_t)about.nFileIndexHigh << 32 | about.nFileIndexLow;
    return true;
}

/* Does the same for a path. *ordinary is set to false for a folder or a device. */
static bool identify_path(const char *path, uint64_t *device, uint64_t *number, bool *ordinary) {
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    const HANDLE handle = CreateFileW(wide(path), FILE_READ_ATTRIBUTES, share, NULL, OPEN_EXISTING,
                                      FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle == INVALID_HANDLE_VALUE) return false;
    const DWORD attributes = GetFileAttributesW(wide(path));
    *ordinary = GetFileType(handle) == FILE_TYPE_DISK && !(attributes & FILE_ATTRIBUTE_DIRECTORY);
    const bool ok = identify(handle, device, number);
    CloseHandle(handle);
    return ok;
}

bool system_find_folder(const char *path, system_file *file) {
    bool ordinary;
    *file = (system_file){0};
    file->in_folder = identify_path(path, &file->folder_device, &file->folder, &ordinary);
    return file->in_folder;
}

bool system_find_file(const char *path, system_file *file) {
    bool ordinary = true;
    *file = (system_file){0};
    if (!path) {
        file->exists = identify((HANDLE)_get_osfhandle(0), &file->device, &file->number);
        return file->exists;
    }
    size_t length = strlen(path);
    while (length > 0 && !system_is_separator(path[length - 1])) length--;
    char folder[PATH];
    if (snprintf(folder, sizeof folder, "%.*s.", (int)length, path) >= PATH) return false;
    system_find_folder(folder, file);
    if (strlen(path + length) >= sizeof file->name) return false;
    strcpy(file->name, path + length);
    file->exists = identify_path(path, &file->device, &file->number, &ordinary);
    return ordinary && (file->exists || file->in_folder);
}

bool system_same_folder(const system_file *a, const system_file *b) {
    return a->in_folder && b->in_folder && a->folder_device == b->folder_device &&
           a->folder == b->folder;
}

/* Names that differ only by upper and lower case are names of one file. */
bool system_same_file(const system_file *a, const system_file *b) {
    if (a->exists && b->exists) return a->device == b->device && a->number == b->number;
    return a->exists == b->exists && system_same_folder(a, b) && !_stricmp(a->name, b->name);
}

/* The handle has the right to delete the folder and does not share this right, so the system
 * refuses a second such handle. This is the lock. */
int system_lock_folder(const char *folder) {
    const HANDLE handle = CreateFileW(wide(folder), DELETE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                                      NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (handle != INVALID_HANDLE_VALUE) return descriptor_of(handle);
    const DWORD error = GetLastError();
    fail(error);
    if (error == ERROR_SHARING_VIOLATION) errno = EAGAIN;
    return -1;
}

int system_open_log(const char *path) {
    const DWORD share = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;
    const int fd = open_file(path, GENERIC_READ | GENERIC_WRITE, share, OPEN_ALWAYS);
    if (fd >= 0) _lseeki64(fd, 0, SEEK_END);
    return fd;
}

bool system_look_at(int fd, bool *ordinary, int64_t *size) {
    LARGE_INTEGER bytes = {.QuadPart = 0};
    *ordinary = GetFileType(handle_of(fd)) == FILE_TYPE_DISK;
    if (*ordinary && !GetFileSizeEx(handle_of(fd), &bytes)) return fail(GetLastError());
    *size = bytes.QuadPart;
    return true;
}

/* Locks one byte far behind the end of the file, because other programs cannot read locked
 * bytes. */
bool system_lock(int fd) {
    OVERLAPPED beyond = {.OffsetHigh = 1 << 30};
    const DWORD how = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    return LockFileEx(handle_of(fd), how, 0, 1, 0, &beyond) ||
           GetLastError() != ERROR_LOCK_VIOLATION;
}

int64_t system_read_at(int fd, int64_t offset, void *out, size_t size) {
    OVERLAPPED where = {.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
    const int64_t before = _telli64(fd); /* the read changes this position */
    DWORD n = 0;
    const bool ok = ReadFile(handle_of(fd), out, (DWORD)size, &n, &where);
    const DWORD error = ok ? 0 : GetLastError();
    _lseeki64(fd, before, SEEK_SET);
    if (ok) return n;
    if (error == ERROR_HANDLE_EOF) return 0;
    return fail(error), -1;
}

int64_t system_write(int fd, const void *data, size_t size) {
    DWORD n = 0;
    if (WriteFile(handle_of(fd), data, (DWORD)size, &n, NULL)) return n;
    return fail(GetLastError()), -1;
}

static bool seek(int fd, int64_t offset, DWORD from) {
    return done(SetFilePointerEx(handle_of(fd), (LARGE_INTEGER){.QuadPart = offset}, NULL, from));
}

FILE *system_open_stream(int fd, const char *mode) { return _fdopen(fd, mode); }

bool system_cut(int fd, int64_t size) {
    return seek(fd, size, FILE_BEGIN) && done(SetEndOfFile(handle_of(fd)));
}

bool system_sync(int fd) {
    return GetFileType(handle_of(fd)) != FILE_TYPE_DISK || done(FlushFileBuffers(handle_of(fd)));
}

bool system_close(int fd) { return _close(fd) == 0; }

int system_create_beside(const char *path, char *target, char *temporary, size_t room) {
    errno = ENAMETOOLONG;
    if (snprintf(target, room, "%s", path) >= (int)room) return -1;
    const DWORD attributes = GetFileAttributesW(wide(path));
    errno = 0;
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY)) return -1;
    /* The file is shared so that it can be removed while it is open. An earlier process with the
     * same number may have left a file of this name; then the next name is tried. */
    const unsigned long long tag = GetCurrentProcessId();
    int fd = -1;
    errno = EEXIST;
    for (unsigned i = 0; i < 16 && fd < 0 && errno == EEXIST; i++) {
        if (snprintf(temporary, room, "%s.%06llx%x", target, tag, i) >= (int)room) {
            errno = ENAMETOOLONG;
            return -1;
        }
        fd = open_file(temporary, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, CREATE_NEW);
    }
    return fd;
}
