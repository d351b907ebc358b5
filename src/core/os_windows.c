/* os.h on Windows 10 and later. A descriptor is a HANDLE, of which the system uses 32 bits alone.
 *
 * Files are opened so that others may read, write, rename and remove them meanwhile, as on POSIX
 * systems. */
#define WIN32_LEAN_AND_MEAN
#include "os.h"

#include <errno.h>
#include <math.h>
#include <process.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* Sets errno from an error of the system; false. */
static bool fail(DWORD error) {
    enum { MOST = 7 };
    static const struct {
        int number;
        DWORD errors[MOST];
    } causes[] = {
        {ENOENT,
         {ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, ERROR_INVALID_NAME, ERROR_BAD_PATHNAME,
          ERROR_BAD_NETPATH, ERROR_BAD_NET_NAME, ERROR_INVALID_DRIVE}},
        {EACCES, {ERROR_ACCESS_DENIED, ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION}},
        {EEXIST, {ERROR_ALREADY_EXISTS, ERROR_FILE_EXISTS}},
        {ENOSPC, {ERROR_DISK_FULL, ERROR_HANDLE_DISK_FULL}},
        {ENOMEM, {ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY}},
        {EMFILE, {ERROR_TOO_MANY_OPEN_FILES}},
        {ENAMETOOLONG, {ERROR_FILENAME_EXCED_RANGE}},
        {ENOTDIR, {ERROR_DIRECTORY}},
        {EINVAL, {ERROR_INVALID_PARAMETER}},
        {EROFS, {ERROR_WRITE_PROTECT}},
        {EXDEV, {ERROR_NOT_SAME_DEVICE}},
        {EILSEQ, {ERROR_NO_UNICODE_TRANSLATION}},
    };
    errno = EIO;
    for (size_t i = 0; error && i < sizeof causes / sizeof *causes; i++)
        for (int j = 0; j < MOST; j++)
            if (causes[i].errors[j] == error) errno = causes[i].number;
    return false;
}

static uint64_t join(DWORD high, DWORD low) { return (uint64_t)high << 32 | low; }

static bool done(BOOL ok) { return ok ? true : fail(GetLastError()); }

/* ---- the machine and the process ---- */

int cti_os_cores(void) {
    DWORD_PTR mine = 0, all = 0;
    /* both masks are 0 for a process with cores in several groups, each of at most 64 */
    if (GetProcessAffinityMask(GetCurrentProcess(), &mine, &all) && mine)
        return __builtin_popcountll(mine);
    const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count ? (int)count : 1;
}

/* The first core's cache of a level that holds data. */
static CACHE_DESCRIPTOR cache(int level) {
    CACHE_DESCRIPTOR found = {0};
    DWORD bytes = 0;
    GetLogicalProcessorInformation(NULL, &bytes);
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION *all = malloc(bytes ? bytes : 1);
    if (all && bytes && GetLogicalProcessorInformation(all, &bytes))
        for (DWORD i = bytes / sizeof *all; i-- > 0;)
            if (all[i].Relationship == RelationCache && all[i].Cache.Level == level &&
                (all[i].Cache.Type == CacheData || all[i].Cache.Type == CacheUnified))
                found = all[i].Cache;
    free(all);
    return found;
}

int64_t cti_os_l2_bytes(void) { return cache(2).Size; }

int64_t cti_os_l1d_ways(void) {
    const BYTE ways = cache(1).Associativity;
    return ways == CACHE_FULLY_ASSOCIATIVE ? 0 : ways;
}

int64_t cti_os_now(void) {
    LARGE_INTEGER ticks, a_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&a_second);
    const int64_t rest = ticks.QuadPart % a_second.QuadPart;
    return ticks.QuadPart / a_second.QuadPart * 1000000000 + rest * 1000000000 / a_second.QuadPart;
}

void cti_os_sleep(int64_t ns) { Sleep((DWORD)((ns + 999999) / 1000000)); }

uint64_t cti_os_process(void) { return GetCurrentProcessId(); }

uint64_t cti_os_entropy(void) {
    FILETIME now;
    GetSystemTimePreciseAsFileTime(&now);
    LARGE_INTEGER ticks; /* the time may stand still between two calls */
    QueryPerformanceCounter(&ticks);
    return join(now.dwHighDateTime, now.dwLowDateTime) ^ (uint64_t)ticks.QuadPart << 20;
}

bool cti_os_count_forks(void) { return true; } /* there are none */
unsigned cti_os_forks(void) { return 0; }

/* Of a fiber: on the fiber's own. */
bool cti_os_on_stack(uintptr_t a, uintptr_t b) {
    ULONG_PTR low, high;
    GetCurrentThreadStackLimits(&low, &high);
    return a - low < high - low && b - low < high - low;
}

bool cti_os_grants_amx(void) { return false; }
bool cti_os_saves_avx512_late(void) { return false; }

/* With MinGW's pow of doubles the gradient of x^-2 is off by over 3 ulp; its tanh is off by 2.004
 * at -0.2159. */
double cti_os_pow(double x, double e) { return (double)powl(x, e); }
double cti_os_tanh(double x) { return (double)tanhl(x); }

/* ---- memory ---- */

/* Large pages need a privilege that users do not have. */
void *cti_os_alloc(size_t size) { return malloc(size); }
void cti_os_free(void *block) { free(block); }

/* ---- threads ---- */

_Static_assert(sizeof(SRWLOCK) <= sizeof(cti_mutex), "a mutex fits");
_Static_assert(sizeof(CONDITION_VARIABLE) <= sizeof(cti_cond), "a condition variable fits");
_Static_assert(sizeof(INIT_ONCE) <= sizeof(cti_once), "a once fits");

static SRWLOCK *lock_of(cti_mutex *mutex) { return (SRWLOCK *)mutex->opaque; }
static CONDITION_VARIABLE *cond_of(cti_cond *cond) { return (CONDITION_VARIABLE *)cond->opaque; }

bool cti_mutex_init(cti_mutex *mutex) {
    InitializeSRWLock(lock_of(mutex));
    return true;
}
void cti_mutex_lock(cti_mutex *mutex) { AcquireSRWLockExclusive(lock_of(mutex)); }
void cti_mutex_unlock(cti_mutex *mutex) { ReleaseSRWLockExclusive(lock_of(mutex)); }
void cti_mutex_free(cti_mutex *mutex) { (void)mutex; }

bool cti_cond_init(cti_cond *cond) {
    InitializeConditionVariable(cond_of(cond));
    return true;
}
void cti_cond_wait(cti_cond *cond, cti_mutex *mutex) {
    SleepConditionVariableSRW(cond_of(cond), lock_of(mutex), INFINITE, 0);
}
void cti_cond_signal(cti_cond *cond) { WakeConditionVariable(cond_of(cond)); }
void cti_cond_broadcast(cti_cond *cond) { WakeAllConditionVariable(cond_of(cond)); }
void cti_cond_free(cti_cond *cond) { (void)cond; }

/* MinGW's exp, log and tanh of doubles are computed by the x87, which rounds to 64 bits in a
 * program's first thread and to 53 in others; results would depend on the number of threads. */
static unsigned __stdcall begin(void *arg) {
#if defined __x86_64__
    __asm__ volatile("fninit"); /* 64 bits */
#endif
    const cti_thread *thread = arg;
    thread->work(thread->arg);
    return 0;
}

bool cti_thread_start(cti_thread *thread, void (*work)(void *arg), void *arg) {
    thread->work = work;
    thread->arg = arg;
    thread->opaque = (void *)_beginthreadex(NULL, 0, begin, thread, 0, NULL);
    return thread->opaque != NULL;
}

void cti_thread_join(const cti_thread *thread) {
    WaitForSingleObject(thread->opaque, INFINITE);
    CloseHandle(thread->opaque);
}

static BOOL CALLBACK run_once(INIT_ONCE *once, void *run, void **result) {
    (void)once, (void)result;
    void (*function)(void);
    memcpy(&function, run, sizeof function);
    function();
    return TRUE;
}

void cti_once_run(cti_once *once, void (*run)(void)) {
    InitOnceExecuteOnce((INIT_ONCE *)&once->state, run_once, &run, NULL);
}

/* ---- files ---- */

enum { SHARED = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };

#include "os_windows_path_tmpl.h"
#include "os_windows_replace_tmpl.h"

enum { AT_ONCE = 1 << 30 }; /* bytes of one read or write */

static HANDLE handle_of(int fd) { return (HANDLE)(intptr_t)fd; }

/* The error of a path that could not be opened, or ERROR_DIRECTORY: its folder is a file, which the
 * system calls ERROR_PATH_NOT_FOUND. Cuts the path at its folder. */
static DWORD reason(wchar_t *path, DWORD error) {
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

/* -1 with errno: failed. */
static int open_path(const char *path, DWORD access, DWORD how, DWORD flags) {
    wchar_t *name = wide(path);
    if (!name) return -1;
    HANDLE handle = INVALID_HANDLE_VALUE;
    DWORD error = 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        if (i > 0) Sleep(PAUSE);
        handle = CreateFileW(name, access, SHARED, NULL, how, flags, NULL);
        error = GetLastError();
        if (handle != INVALID_HANDLE_VALUE || error != ERROR_FILE_NOT_FOUND || !reappears(name))
            break;
    }
    if (handle == INVALID_HANDLE_VALUE) fail(reason(name, error));
    free(name);
    return handle == INVALID_HANDLE_VALUE ? -1 : (int)(intptr_t)handle;
}

/* A folder can be opened too, so that it can be told what it is. */
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
    (void)mode; /* it inherits its folder's access control list */
    const DWORD access = GENERIC_READ | GENERIC_WRITE | DELETE;
    const int fd = open_path(path, access | WRITE_DAC, CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
    if (fd >= 0 || errno != EACCES) return fd;
    /* a file system may grant all but the change of that list (cti_os_keep_access) */
    return open_path(path, access, CREATE_NEW, FILE_ATTRIBUTE_NORMAL);
}

void cti_os_close(int fd) { CloseHandle(handle_of(fd)); }

static OVERLAPPED at(int64_t offset) {
    return (OVERLAPPED){.Offset = (DWORD)offset, .OffsetHigh = (DWORD)(offset >> 32)};
}

static DWORD at_once(size_t size) { return size < AT_ONCE ? (DWORD)size : AT_ONCE; }

int64_t cti_os_read_at(int fd, int64_t offset, void *out, size_t size) {
    OVERLAPPED where = at(offset);
    DWORD n = 0;
    if (ReadFile(handle_of(fd), out, at_once(size), &n, &where)) return n;
    const DWORD error = GetLastError();
    if (error == ERROR_HANDLE_EOF) return 0;
    return fail(error), -1;
}

int64_t cti_os_write(int fd, const void *data, size_t size) {
    DWORD n = 0;
    if (WriteFile(handle_of(fd), data, at_once(size), &n, NULL)) return n;
    return fail(GetLastError()), -1;
}

/* The position of cti_os_write stays where it is. */
int64_t cti_os_write_at(int fd, int64_t offset, const void *data, size_t size) {
    OVERLAPPED where = at(offset);
    LARGE_INTEGER before;
    DWORD n = 0;
    if (SetFilePointerEx(handle_of(fd), (LARGE_INTEGER){.QuadPart = 0}, &before, FILE_CURRENT) &&
        WriteFile(handle_of(fd), data, at_once(size), &n, &where) &&
        SetFilePointerEx(handle_of(fd), before, NULL, FILE_BEGIN))
        return n;
    return fail(GetLastError()), -1;
}

bool cti_os_sync(int fd) {
    if (FlushFileBuffers(handle_of(fd))) return true;
    fail(GetLastError());
    cti_os_about about;
    const int error = errno;
    /* the system syncs what is made and renamed in a folder by itself */
    errno = cti_os_about_file(fd, &about) && about.kind == CTI_OS_FOLDER ? EINVAL : error;
    return false;
}

/* ---- what a path or an open file is ---- */

static cti_os_kind kind_of(HANDLE handle, DWORD attributes) {
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
    if (!GetFileInformationByHandle(handle_of(fd), &info)) return fail(GetLastError());
    const uint64_t time =
        join(info.ftLastWriteTime.dwHighDateTime, info.ftLastWriteTime.dwLowDateTime);
    enum { TICKS = 10000000 }; /* a second */
    *about = (cti_os_about){.kind = kind_of(handle_of(fd), info.dwFileAttributes),
                            .size = (int64_t)join(info.nFileSizeHigh, info.nFileSizeLow),
                            .device = info.dwVolumeSerialNumber,
                            .number = join(info.nFileIndexHigh, info.nFileIndexLow),
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
    const bool ok = answer_to_utf8(name, units, out, CTI_OS_PATH);
    cti_os_close(fd);
    return ok;
}

/* ---- replacing and removing ---- */

/* The new file gets the old one's access control list. */
const char *cti_os_keep_access(int fd, const char *path, const cti_os_about *old) {
    (void)old;
    static const char failed[] = "cannot keep its access control list";
    const int from = open_path(path, READ_CONTROL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    /* a save of shards has removed the old index by the time it replaces it */
    if (from < 0) return errno == ENOENT ? NULL : failed;
    DWORD bytes = 0;
    GetKernelObjectSecurity(handle_of(from), DACL_SECURITY_INFORMATION, NULL, 0, &bytes);
    SECURITY_DESCRIPTOR *list = bytes ? malloc(bytes) : NULL;
    bool ok = bytes == 0; /* FAT has no lists */
    if (list)
        ok = done(GetKernelObjectSecurity(handle_of(from), DACL_SECURITY_INFORMATION, list, bytes,
                                          &bytes) &&
                  SetKernelObjectSecurity(handle_of(fd), DACL_SECURITY_INFORMATION, list));
    else if (!ok) fail(ERROR_OUTOFMEMORY);
    free(list);
    cti_os_close(from);
    return ok ? NULL : failed;
}

bool cti_os_rename(const char *from, const char *to) {
    wchar_t *source = wide(from), *target = source ? wide(to) : NULL;
    const bool ok = target && replace(source, target);
    const int error = errno;
    free(source);
    free(target);
    errno = error;
    return ok;
}

bool cti_os_remove(const char *path) {
    wchar_t *name = wide(path);
    const bool ok = name && done(DeleteFileW(name));
    free(name);
    return ok;
}

bool cti_os_make_folder(const char *path) {
    wchar_t *name = wide(path);
    const bool ok = name && done(CreateDirectoryW(name, NULL));
    free(name);
    return ok;
}

void cti_os_error(char *words, size_t size) {
    const char *text = strerror(errno);
    if (!text) text = "unknown error";
    const size_t length = strlen(text) < size ? strlen(text) : size - 1;
    memcpy(words, text, length);
    words[length] = '\0';
}

/* ---- text in memory ---- */

/* In a temporary file, which the C library removes at its close (D). */
bool cti_os_text_open(cti_os_text *out) {
    wchar_t folder[MAX_PATH + 1], name[MAX_PATH];
    *out = (cti_os_text){0};
    if (!GetTempPathW(MAX_PATH + 1, folder) || !GetTempFileNameW(folder, L"ct", 0, name))
        return fail(GetLastError());
    out->file = _wfopen(name, L"w+bTD");
    if (!out->file) DeleteFileW(name);
    return out->file != NULL;
}

bool cti_os_text_close(cti_os_text *out) {
    const bool whole = !ferror(out->file) && fseek(out->file, 0, SEEK_END) == 0;
    const int64_t size = whole ? _ftelli64(out->file) : -1;
    if (size >= 0) out->text = malloc((size_t)size + 1);
    rewind(out->file);
    bool ok = out->text && fread(out->text, 1, (size_t)size, out->file) == (size_t)size;
    if (out->text) out->text[ok ? size : 0] = '\0';
    out->size = ok ? (size_t)size : 0;
    return (fclose(out->file) == 0) & ok;
}

/* ---- locks, and the files in a folder that nobody locks ---- */

/* An open file needs no further lock: until it is closed, nobody can open it without sharing, as
 * cti_os_folder_remove_unlocked does. */
bool cti_os_lock(int fd, cti_lock *lock) {
    (void)fd;
    *lock = CTI_LOCK_DESCRIPTION;
    return true;
}

bool cti_os_still_named(int fd, const char *path) {
    cti_os_about opened, named;
    return cti_os_about_file(fd, &opened) && cti_os_about_link(path, &named) &&
           named.kind == CTI_OS_FILE && opened.device == named.device &&
           opened.number == named.number;
}

enum { NAME = 3 * MAX_PATH };

struct cti_os_folder {
    HANDLE find;
    WIN32_FIND_DATAW next;
    bool found;      /* next has not been handed out */
    char name[NAME]; /* what cti_os_folder_next has returned last */
    char path[];     /* of the folder, to put a name behind, which has room here */
};

/* The path of a name in the folder, in UTF-16, as from wide. */
static wchar_t *wide_in(cti_os_folder *folder, const char *name) {
    const size_t end = strlen(folder->path);
    strcpy(folder->path + end, name);
    wchar_t *path = wide(folder->path);
    folder->path[end] = '\0';
    return path;
}

cti_os_folder *cti_os_folder_open(const char *path) {
    const size_t length = strlen(path);
    cti_os_folder *folder = malloc(sizeof *folder + length + NAME + 2);
    if (!folder) return fail(ERROR_OUTOFMEMORY), NULL;
    memcpy(folder->path, path, length + 1);
    /* none behind C:, which is not C:\, the root, but the drive's current folder */
    if (cti_os_folder_length(path) != length) strcat(folder->path, "/");
    wchar_t *name = wide_in(folder, "*");
    folder->find = name ? FindFirstFileW(name, &folder->next) : INVALID_HANDLE_VALUE;
    folder->found = folder->find != INVALID_HANDLE_VALUE;
    if (name && !folder->found) fail(GetLastError());
    free(name);
    if (folder->found) return folder;
    free(folder);
    return NULL;
}

const char *cti_os_folder_next(cti_os_folder *folder) {
    if (!folder->found && !FindNextFileW(folder->find, &folder->next)) return NULL;
    folder->found = false;
    return to_utf8(folder->next.cFileName, folder->name, NAME) ? folder->name : "";
}

void cti_os_folder_close(cti_os_folder *folder) {
    FindClose(folder->find);
    free(folder);
}

bool cti_os_folder_remove_unlocked(cti_os_folder *folder, const char *name, cti_lock lock) {
    (void)lock;
    wchar_t *path = strlen(name) < NAME ? wide_in(folder, name) : NULL;
    const DWORD flags = FILE_FLAG_DELETE_ON_CLOSE | FILE_FLAG_OPEN_REPARSE_POINT;
    const HANDLE handle = path ? CreateFileW(path, DELETE, 0, NULL, OPEN_EXISTING, flags, NULL)
                               : INVALID_HANDLE_VALUE;
    free(path);
    return handle != INVALID_HANDLE_VALUE && CloseHandle(handle);
}
