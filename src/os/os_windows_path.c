/* Paths on Windows: UTF-8 to and from the system's UTF-16. */
#include "os_windows.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Whether the system passes a path to the file system unchanged (\\?\), or it names a device
 * (\\.\). */
static bool is_literal(const wchar_t *path) {
    return wcsncmp(path, L"\\\\?\\", 4) == 0 || wcsncmp(path, L"\\\\.\\", 4) == 0;
}

/* Returns the absolute path behind the prefix \\?\, with which a path may have more than MAX_PATH
 * units. The caller frees it by free(). Returns NULL if it fails. */
static wchar_t *prefixed(const wchar_t *path) {
    static const wchar_t drive[] = L"\\\\?\\", share[] = L"\\\\?\\UNC";
    enum { PREFIX = sizeof share / sizeof *share - 1 };
    const DWORD room = GetFullPathNameW(path, 0, NULL, NULL);
    if (room == 0) return cti_windows_fail(GetLastError()), NULL;
    wchar_t *out = malloc((PREFIX + (size_t)room) * sizeof *out);
    if (!out) return cti_windows_fail(ERROR_OUTOFMEMORY), NULL;
    wchar_t *whole = out + PREFIX;
    const DWORD units = GetFullPathNameW(path, room, whole, NULL);
    if (units == 0 || units >= room) { /* another thread has changed the current folder */
        free(out);
        return cti_windows_fail(ERROR_PATH_NOT_FOUND), NULL;
    }
    const wchar_t *prefix = drive;
    if (is_literal(whole)) { /* the name of a device becomes \\.\NUL */
        prefix = L"";
    } else if (wcsncmp(whole, L"\\\\", 2) == 0) {
        prefix = share;
        whole++; /* \\?\UNC, then one backslash */
    }
    const size_t length = wcslen(prefix);
    memmove(out + length, whole, (wcslen(whole) + 1) * sizeof *out);
    memcpy(out, prefix, length * sizeof *out);
    return out;
}

wchar_t *cti_windows_path(const char *path) {
    enum { SHORT_PATH = MAX_PATH - 13 }; /* leaves room for an 8.3 name */
    const int units = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    if (units <= 0) return cti_windows_done(FALSE), NULL;
    wchar_t *out = malloc((size_t)units * sizeof *out);
    if (!out) return cti_windows_fail(ERROR_OUTOFMEMORY), NULL;
    MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, units);
    if (is_literal(out)) { /* only \ separates names in such a path, and no name contains / */
        for (wchar_t *at = out; *at; at++)
            if (*at == L'/') *at = L'\\';
        return out;
    }
    /* A short relative path may be long with the current folder before it. */
    if (units <= SHORT_PATH && GetFullPathNameW(out, 0, NULL, NULL) <= SHORT_PATH) return out;
    wchar_t *whole = prefixed(out);
    free(out);
    return whole;
}

bool cti_windows_utf8(const wchar_t *path, char *out, size_t room) {
    const int most = room > INT_MAX ? INT_MAX : (int)room;
    if (WideCharToMultiByte(CP_UTF8, 0, path, -1, out, most, NULL, NULL) > 0) return true;
    errno = ERANGE;
    return false;
}

bool cti_windows_answer(const wchar_t *path, DWORD units, char *out, size_t room) {
    if (units == 0) return cti_windows_fail(GetLastError());
    if (units >= CTI_OS_PATH) return cti_windows_fail(ERROR_FILENAME_EXCED_RANGE);
    return cti_windows_utf8(path, out, room);
}

bool cti_os_is_separator(char c) { return c == '/' || c == '\\'; }

static bool has_drive(const char *path) {
    return ((*path >= 'A' && *path <= 'Z') || (*path >= 'a' && *path <= 'z')) && path[1] == ':';
}

size_t cti_os_folder_length(const char *path) {
    size_t length = strlen(path);
    const size_t least = has_drive(path) ? 2 : 0;
    while (length > least && !cti_os_is_separator(path[length - 1])) length--;
    return length;
}

/* "C:file" depends on the drive's current folder, but no folder can be put before it. */
bool cti_os_is_absolute(const char *path) { return cti_os_is_separator(*path) || has_drive(path); }

bool cti_os_current_folder(char *out, size_t room) {
    wchar_t folder[CTI_OS_PATH];
    const DWORD units = GetCurrentDirectoryW(CTI_OS_PATH, folder);
    return cti_windows_answer(folder, units, out, room);
}
