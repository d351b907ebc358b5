/* Replacing a file on Windows.
 *
 * NTFS renames over a file that is open. FAT, network file systems and Wine do not, so on these the
 * replacement has steps:
 *
 *     name           old file | (none)   | new file | new file
 *     name.replaced  (none)   | old file | old file | (none)
 *
 * 1. Between the first two steps no file has the name. A function that opens a file and finds none
 *    waits while a file of the second name exists (cti_windows_reappears).
 * 2. If the new file cannot get the name, the old file gets it back, unless another program has
 *    given the name to a new file. */
#include "os_windows.h"

#include <stdlib.h>
#include <string.h>

/* The end of the name of a file that was moved aside; a digit may follow. */
static const wchar_t aside_end[] = L".replaced";

/* Returns the path with aside_end and the character `last` behind it. If `last` is 0 there is room
 * for a character. The caller frees the path by free(). Returns NULL if memory is short. */
static wchar_t *aside_path(const wchar_t *path, wchar_t last) {
    const size_t length = wcslen(path), end = sizeof aside_end / sizeof *aside_end - 1;
    wchar_t *aside = malloc((length + end + 2) * sizeof *aside);
    if (!aside) return NULL;
    memcpy(aside, path, length * sizeof *aside);
    memcpy(aside + length, aside_end, sizeof aside_end);
    aside[length + end] = last;
    aside[length + end + 1] = 0;
    return aside;
}

static bool is_moved_aside(const wchar_t *path) {
    wchar_t *any = aside_path(path, L'*');
    WIN32_FIND_DATAW data;
    const HANDLE find = any ? FindFirstFileW(any, &data) : INVALID_HANDLE_VALUE;
    free(any);
    return find != INVALID_HANDLE_VALUE && FindClose(find);
}

bool cti_windows_reappears(const wchar_t *path) {
    return is_moved_aside(path) || GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES;
}

/* Renames as POSIX does: a program that has the old file open still reads its content. NTFS can do
 * this. */
static bool rename_open(const wchar_t *from, const wchar_t *to) {
    enum { INFO_EX = 22, REPLACES = 1, POSIX = 2 }; /* FileRenameInfoEx */
    const size_t length = wcslen(to) * sizeof *to, bytes = sizeof(FILE_RENAME_INFO) + length;
    const HANDLE file = CreateFileW(from, DELETE | GENERIC_WRITE, CTI_WINDOWS_SHARED, NULL,
                                    OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    if (file == INVALID_HANDLE_VALUE) return false;
    FILE_RENAME_INFO *info = calloc(1, bytes);
    if (info) {
        const DWORD flags = REPLACES | POSIX;
        memcpy(info, &flags, sizeof flags); /* in older headers this field is a BOOLEAN */
        info->FileNameLength = (DWORD)length;
        memcpy(info->FileName, to, length);
    }
    const bool ok = info && SetFileInformationByHandle(file, (FILE_INFO_BY_HANDLE_CLASS)INFO_EX,
                                                       info, (DWORD)bytes);
    if (ok) FlushFileBuffers(file); /* syncs the rename; the content was synced before */
    CloseHandle(file);
    free(info);
    return ok;
}

static bool rename_over(const wchar_t *from, const wchar_t *to) {
    return rename_open(from, to) ||
           MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
}

/* Moves the old file aside first. Its new name may be taken, by the file of a program that was
 * killed between the steps, or by a removed file that is still open. Then a digit is added to the
 * name. */
static bool replace_in_two_steps(const wchar_t *from, const wchar_t *to) {
    wchar_t *aside = aside_path(to, 0);
    if (!aside) return false;
    wchar_t *last = aside + wcslen(aside);
    bool ok = MoveFileExW(to, aside, 0);
    for (wchar_t digit = L'1'; !ok && digit <= L'9'; digit++) {
        *last = digit;
        ok = MoveFileExW(to, aside, 0);
    }
    if (ok) {
        ok = rename_over(from, to);
        /* the old file is moved back, unless another program's new file has its name */
        if (ok || (!MoveFileExW(aside, to, 0) && GetLastError() == ERROR_ALREADY_EXISTS))
            DeleteFileW(aside);
    }
    free(aside);
    return ok;
}

/* Whether rename_over may succeed in a moment, because another program has `to` open or is
 * replacing it. */
static bool is_target_held(const wchar_t *to, DWORD error) {
    if (error != ERROR_ACCESS_DENIED && error != ERROR_SHARING_VIOLATION) return false;
    const DWORD attributes = GetFileAttributesW(to);
    if (attributes == INVALID_FILE_ATTRIBUTES) return cti_windows_reappears(to);
    return !(attributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_READONLY));
}

/* A program such as a virus scanner has a file open for a moment only, so the old file is moved
 * aside after ATTEMPTS attempts. As many attempts follow, because another program may be replacing
 * the file too. */
bool cti_windows_replace(const wchar_t *from, const wchar_t *to) {
    DWORD error = 0;
    for (int i = 0; i < 2 * CTI_WINDOWS_ATTEMPTS; i++) {
        if (i > 0) Sleep(CTI_WINDOWS_PAUSE);
        if (rename_over(from, to)) return true;
        error = GetLastError();
        if (!is_target_held(to, error)) break;
        if (i + 1 >= CTI_WINDOWS_ATTEMPTS && replace_in_two_steps(from, to)) return true;
    }
    return cti_windows_fail(error);
}
