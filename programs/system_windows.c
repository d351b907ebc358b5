/* system.h on Windows 10 and later. A descriptor is a HANDLE, as in os_windows_files.c. */
#include "../src/os/os_windows.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
/* this header must follow windows.h */
#include <psapi.h>

/* Opens a file or folder. Returns a descriptor, or -1 with errno set. */
static int open_path(const char *path, DWORD access, DWORD share, DWORD how, DWORD flags) {
    wchar_t *wide = cti_windows_path(path);
    if (!wide) return -1;
    const HANDLE handle = CreateFileW(wide, access, share, NULL, how, flags, NULL);
    const DWORD error = GetLastError(), attributes = GetFileAttributesW(wide);
    free(wide);
    if (handle != INVALID_HANDLE_VALUE) return (int)(intptr_t)handle;
    SetLastError(error);
    cti_windows_fail(error);
    if (!flags && attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY))
        errno = EISDIR;
    return -1;
}

static HANDLE handle_of(int fd) { return (HANDLE)(intptr_t)fd; }

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

double system_peak_memory(void) {
    PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof memory};
    if (!K32GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof memory)) return NAN;
    return (double)memory.PeakWorkingSetSize;
}

bool system_is_terminal(void) { return _isatty(_fileno(stdout)); }
bool system_input_is_terminal(void) { return _isatty(_fileno(stdin)); }

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

void system_end_input(void) {}

void system_die_of(int number) {
    signal(number, SIG_DFL);
    raise(number);
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
    wchar_t *wide = cti_windows_path(path);
    FILE *file = wide ? _wfopen(wide, wide_mode) : NULL;
    const int error = errno;
    free(wide);
    errno = error;
    return file;
}

/* Opens the folder with the right to make files in it. _waccess would test only the read-only
 * attribute, which has no meaning for a folder. */
bool system_may_write_in(const char *folder) {
    const int fd = open_path(folder, FILE_ADD_FILE, CTI_WINDOWS_SHARED, OPEN_EXISTING,
                             FILE_FLAG_BACKUP_SEMANTICS);
    if (fd >= 0) cti_os_close(fd);
    return fd >= 0;
}

bool system_remove_folder(const char *path) {
    wchar_t *wide = cti_windows_path(path);
    const bool ok = wide && cti_windows_done(RemoveDirectoryW(wide));
    free(wide);
    return ok;
}

/* This does not use FindFirstFile, because FindFirstFile may refuse a folder that
 * system_lock_folder has open. */
bool system_list(const char *folder, void (*each)(void *to, const char *name), void *to) {
    union {
        FILE_ID_BOTH_DIR_INFO first;
        char bytes[8192];
    } list;
    const int fd = open_path(folder, FILE_LIST_DIRECTORY, CTI_WINDOWS_SHARED, OPEN_EXISTING,
                             FILE_FLAG_BACKUP_SEMANTICS);
    if (fd < 0) return false;
    while (
        GetFileInformationByHandleEx(handle_of(fd), FileIdBothDirectoryInfo, &list, sizeof list)) {
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
    cti_os_close(fd);
    return error == ERROR_NO_MORE_FILES || cti_windows_fail(error);
}

bool system_same_name(const char *a, const char *b) { return !_stricmp(a, b); }
bool system_follow_link(char *path, size_t room) { return (void)path, (void)room, false; }

/* The handle has the right to delete the folder and does not share this right, so the system
 * refuses a second such handle. This is the lock. */
int system_lock_folder(const char *folder) {
    const int fd = open_path(folder, DELETE, FILE_SHARE_READ | FILE_SHARE_WRITE, OPEN_EXISTING,
                             FILE_FLAG_BACKUP_SEMANTICS);
    if (fd < 0 && GetLastError() == ERROR_SHARING_VIOLATION) errno = EAGAIN;
    return fd;
}

/* ---- open files ---- */

int system_standard_input(void) { return (int)(intptr_t)GetStdHandle(STD_INPUT_HANDLE); }

int system_open_log(const char *path) {
    const int fd =
        open_path(path, GENERIC_READ | GENERIC_WRITE, CTI_WINDOWS_SHARED, OPEN_ALWAYS, 0);
    if (fd >= 0) SetFilePointer(handle_of(fd), 0, NULL, FILE_END);
    return fd;
}

/* Locks one byte far behind the end of the file, because other programs cannot read locked
 * bytes. */
bool system_lock(int fd) {
    OVERLAPPED beyond = {.OffsetHigh = 1 << 30};
    const DWORD how = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    return LockFileEx(handle_of(fd), how, 0, 1, 0, &beyond) ||
           GetLastError() != ERROR_LOCK_VIOLATION;
}

/* fclose of the stream closes the handle. */
FILE *system_open_stream(int fd, const char *mode) {
    const int of_c = _open_osfhandle(fd, _O_BINARY | _O_NOINHERIT);
    FILE *file = of_c < 0 ? NULL : _fdopen(of_c, mode);
    if (of_c >= 0 && !file) _close(of_c);
    return file;
}

bool system_cut(int fd, int64_t size) {
    const LARGE_INTEGER end = {.QuadPart = size};
    return cti_windows_done(SetFilePointerEx(handle_of(fd), end, NULL, FILE_BEGIN) &&
                            SetEndOfFile(handle_of(fd)));
}
