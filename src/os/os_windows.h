/* Functions that the implementation of os.h for Windows shares between its files. A path is UTF-8,
 * with / or \, and of any length. It is on a drive, on a network share (\\server\share), or has the
 * prefix \\?\. A wide path is such a path in UTF-16, made by cti_windows_path. */
#ifndef CTI_OS_OS_WINDOWS_H
#define CTI_OS_OS_WINDOWS_H

#include "os.h"

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

/* The mode in which files are opened: other programs may read, write, rename and remove the file
 * meanwhile, as on POSIX systems. */
enum { CTI_WINDOWS_SHARED = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE };
/* While another program has a file open, an access to it is tried ATTEMPTS times, with a pause of
 * PAUSE ms before each further attempt. */
enum { CTI_WINDOWS_ATTEMPTS = 10, CTI_WINDOWS_PAUSE = 20 };

bool cti_windows_fail(DWORD error); /* sets errno from an error of the system; returns false */
bool cti_windows_done(BOOL ok);     /* returns true if ok, else fails with the last error */
uint64_t cti_windows_join(DWORD high, DWORD low);

/* Returns the wide path, which the caller frees by free(), or NULL if it fails. */
wchar_t *cti_windows_path(const char *path);
/* Writes UTF-16 as UTF-8. Returns false with ERANGE if it is longer than `room` bytes. */
bool cti_windows_utf8(const wchar_t *path, char *out, size_t room);
/* Does the same for a path that a call of the system has written to an array of CTI_OS_PATH units.
 * `units` is the result of this call: 0 if it failed, and CTI_OS_PATH or more if the path did not
 * fit. */
bool cti_windows_answer(const wchar_t *path, DWORD units, char *out, size_t room);

/* Renames `from` to `to`, which may exist and be open. */
bool cti_windows_replace(const wchar_t *from, const wchar_t *to);
/* Whether a file that was missing exists again, or will in a moment because another program is
 * replacing it. */
bool cti_windows_reappears(const wchar_t *path);

#endif
