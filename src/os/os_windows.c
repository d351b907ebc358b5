/* os.h on Windows 10 and later: the machine, memory, threads, errors, text. */
#include "../kernels/libm.h"
#include "os_windows.h"

#include <errno.h>
#include <math.h>
#include <process.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

bool cti_windows_fail(DWORD error) {
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

uint64_t cti_windows_join(DWORD high, DWORD low) { return (uint64_t)high << 32 | low; }

bool cti_windows_done(BOOL ok) { return ok ? true : cti_windows_fail(GetLastError()); }

/* ---- the machine and the process ---- */

int cti_os_cores(void) {
    DWORD_PTR mine = 0, all = 0;
    /* A group has at most 64 cores. Both masks are 0 for a process with cores in several groups. */
    if (GetProcessAffinityMask(GetCurrentProcess(), &mine, &all) && mine)
        return __builtin_popcountll(mine);
    const DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count ? (int)count : 1;
}

/* The data cache, or the unified cache, of this level that the first core has. */
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
    LARGE_INTEGER ticks; /* another clock, because the time may be the same in two calls */
    QueryPerformanceCounter(&ticks);
    return cti_windows_join(now.dwHighDateTime, now.dwLowDateTime) ^ (uint64_t)ticks.QuadPart << 20;
}

int64_t cti_os_time(void) { return (int64_t)_time64(NULL); }

bool cti_os_local_date(int64_t time, cti_os_date *date) {
    const __time64_t at = time;
    struct tm tm;
    if (_localtime64_s(&tm, &at) != 0) return false;
    *date = (cti_os_date){.year = 1900 + (int64_t)tm.tm_year,
                          .month = tm.tm_mon + 1,
                          .day = tm.tm_mday,
                          .hour = tm.tm_hour,
                          .minute = tm.tm_min,
                          .second = tm.tm_sec,
                          .week_day = tm.tm_wday,
                          .year_day = tm.tm_yday};
    return true;
}

/* Windows has no fork. */
bool cti_os_count_forks(void) { return true; }
unsigned cti_os_forks(void) { return 0; }

bool cti_os_grants_amx(void) { return false; }
bool cti_os_saves_avx512_late(void) { return false; }

/* With MinGW's pow of doubles the gradient of x^-2 is off by more than 3 ulp. MinGW's tanh is off
 * by 2.004 ulp at -0.2159. */
double cti_libm_pow(double x, double e) { return (double)powl(x, e); }
double cti_libm_tanh(double x) { return (double)tanhl(x); }

/* ---- memory ---- */

/* Large pages need a privilege that users do not have. */
void *cti_os_alloc(size_t size) { return malloc(size); }
void cti_os_free(void *block) { free(block); }
bool cti_os_discard(void *memory, size_t size) {
    (void)memory, (void)size;
    return false;
}

/* ---- threads ---- */

_Static_assert(sizeof(SRWLOCK) <= sizeof(cti_mutex), "a mutex fits");
_Static_assert(sizeof(CONDITION_VARIABLE) <= sizeof(cti_cond), "a condition variable fits");
_Static_assert(sizeof(INIT_ONCE) <= sizeof(cti_once), "a once fits");

static SRWLOCK *lock_of(cti_mutex *mutex) { return (SRWLOCK *)mutex->opaque; }
static CONDITION_VARIABLE *condition_of(cti_cond *cond) {
    return (CONDITION_VARIABLE *)cond->opaque;
}

bool cti_mutex_init(cti_mutex *mutex) {
    InitializeSRWLock(lock_of(mutex));
    return true;
}
void cti_mutex_lock(cti_mutex *mutex) { AcquireSRWLockExclusive(lock_of(mutex)); }
void cti_mutex_unlock(cti_mutex *mutex) { ReleaseSRWLockExclusive(lock_of(mutex)); }
void cti_mutex_free(cti_mutex *mutex) { (void)mutex; }

bool cti_cond_init(cti_cond *cond) {
    InitializeConditionVariable(condition_of(cond));
    return true;
}
void cti_cond_wait(cti_cond *cond, cti_mutex *mutex) {
    SleepConditionVariableSRW(condition_of(cond), lock_of(mutex), INFINITE, 0);
}
void cti_cond_signal(cti_cond *cond) { WakeConditionVariable(condition_of(cond)); }
void cti_cond_broadcast(cti_cond *cond) { WakeAllConditionVariable(condition_of(cond)); }
void cti_cond_free(cti_cond *cond) { (void)cond; }

/* MinGW's exp, log and tanh of doubles use the x87. It rounds to 64 bits in the first thread of a
 * program and to 53 bits in other threads, so results would depend on the number of threads. */
static unsigned __stdcall begin_thread(void *arg) {
#if defined __x86_64__
    __asm__ volatile("fninit"); /* sets the x87 to round to 64 bits */
#endif
    const cti_thread *thread = arg;
    thread->work(thread->arg);
    return 0;
}

bool cti_thread_start(cti_thread *thread, void (*work)(void *arg), void *arg) {
    thread->work = work;
    thread->arg = arg;
    thread->opaque = (void *)_beginthreadex(NULL, 0, begin_thread, thread, 0, NULL);
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

void cti_os_error(char *words, size_t size) {
    const char *text = strerror(errno);
    if (!text) text = "unknown error";
    const size_t length = strlen(text) < size ? strlen(text) : size - 1;
    memcpy(words, text, length);
    words[length] = '\0';
}

/* ---- text in memory ---- */

/* The text is in a temporary file, which the C library removes when it is closed (D). */
bool cti_os_text_open(cti_os_text *out) {
    wchar_t folder[MAX_PATH + 1], name[MAX_PATH];
    *out = (cti_os_text){0};
    if (!GetTempPathW(MAX_PATH + 1, folder) || !GetTempFileNameW(folder, L"ct", 0, name))
        return cti_windows_fail(GetLastError());
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
