/* What the files of os.h for Windows share. A path is UTF-8, with / or \, of any length: on a
 * drive, on a share (\\server\share), or with the prefix \\?\. A wide path is the same in UTF-16,
 * as cti_windows_path makes it. */
#ifndef CTI_OS_OS_WINDOWS_H
#define CTI_OS_OS_WINDOWS_H

#include "os.h"

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

/* Files are opened so that others may read, write, rename and remove them meanwhile, as on POSIX
 * systems. */
enum { CTI_WINDOWS_SHARED = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };
/* How often, and after how many ms, an access is tried again while another program has the file. */
enum { CTI_WINDOWS_ATTEMPTS = 10, CTI_WINDOWS_PAUSE = 20 };

bool cti_windows_fail(DWORD error); /* sets errno from an error of the system; returns false */
bool cti_windows_done(BOOL ok);     /* ok, or cti_windows_fail with the last error */
uint64_t cti_windows_join(DWORD high, DWORD low);

/* A wide path for free(). NULL: failed. */
wchar_t *cti_windows_path(const char *path);
/* UTF-16 as UTF-8; false with ERANGE if it is longer than `room` bytes. */
bool cti_windows_utf8(const wchar_t *path, char *out, size_t room);
/* The same for a path that a call of the system has written to an array of CTI_OS_PATH units;
 * `units` is what it returned: 0: it failed; CTI_OS_PATH or more: the path did not fit. */
bool cti_windows_answer(const wchar_t *path, DWORD units, char *out, size_t room);

/* Renames `from` to `to`, which may be there and open. */
bool cti_windows_replace(const wchar_t *from, const wchar_t *to);
/* Whether a file that was not there is back, or will be in a moment. */
bool cti_windows_reappears(const wchar_t *path);

#endif
