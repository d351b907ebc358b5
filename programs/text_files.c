/* Files of text: UTF-8 and separators; see common.h. */
#include "common.h"
#include "system.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A text that is checked byte by byte. */
typedef struct {
    const char *path;
    int64_t at, begin; /* the offsets of the next byte, and of the character that is read */
    int left;          /* the bytes that the character still needs */
    int low, high;     /* the bounds of the next one of them */
    unsigned char first[2];
} utf8_check;

static _Noreturn void fail_text(const utf8_check *check) {
    const bool marked =
        check->begin == 0 && check->at < 3 &&
        (!memcmp(check->first, "\xff\xfe", 2) || !memcmp(check->first, "\xfe\xff", 2));
    if (marked) fail(EXIT_USAGE, "%s is UTF-16: it must be saved as UTF-8", check->path);
    fail(EXIT_USAGE, "%s is no text in UTF-8: byte %lld is ill-formed (it must be saved as UTF-8)",
         check->path, (long long)check->begin);
}

/* Returns how many bytes follow the first byte of a character, and sets the bounds of the second
 * byte; -1: no character begins with this byte. */
static int begin_character(utf8_check *check, int byte) {
    check->low = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    check->high = byte == 0xed ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    if (byte < 0x80) return 0;
    if (byte < 0xc2 || byte > 0xf4) return -1;
    return byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
}

static void check_byte(utf8_check *check, int byte) {
    if (check->at < 2) check->first[check->at] = (unsigned char)byte;
    if (!check->left) {
        check->begin = check->at;
        if (!byte)
            fail(EXIT_USAGE, "%s is no text: byte %lld is NUL", check->path, (long long)check->at);
        check->left = begin_character(check, byte);
        /* the second byte of the file tells UTF-16 from other files that are no UTF-8 */
        if (check->left < 0 && check->at == 0 && byte >= 0xfe) check->left = 1, check->low = 256;
        else if (check->left < 0) fail_text(check);
    } else {
        if (byte < check->low || byte > check->high) fail_text(check);
        check->left--;
        check->low = 0x80, check->high = 0xbf;
    }
    check->at++;
}

static void check_end(const utf8_check *check) {
    if (check->left) fail_text(check);
}

void check_text_file(const char *path) {
    utf8_check check = {.path = path};
    FILE *file = system_fopen(path, "rb");
    if (!file) fail(EXIT_USAGE, "cannot open %s: %s", path, strerror(errno));
    static unsigned char block[1 << 16];
    size_t n;
    do {
        n = fread(block, 1, sizeof block, file);
        for (size_t i = 0; i < n; i++) check_byte(&check, block[i]);
    } while (n == sizeof block);
    if (ferror(file)) fail(EXIT_USAGE, "cannot read %s: %s", path, strerror(errno));
    fclose(file);
    check_end(&check);
}

/* Reads a text, without its byte order mark. */
static contents read_text_file(char *path) {
    contents text = read_files(1, &path);
    utf8_check check = {.path = path};
    for (int64_t i = 0; i < text.length; i++) check_byte(&check, text.bytes[i]);
    check_end(&check);
    if (text.length < 3 || memcmp(text.bytes, "\xef\xbb\xbf", 3) != 0) return text;
    text.length -= 3;
    memmove(text.bytes, text.bytes + 3, (size_t)text.length);
    return text;
}

contents read_text_files(int n, char **paths) {
    contents all = read_text_file(paths[0]);
    for (int i = 1; i < n; i++) {
        contents one = read_text_file(paths[i]);
        all.capacity = all.length + one.length + 1;
        all.bytes = room_for(all.bytes, (size_t)all.capacity, 1);
        memcpy(all.bytes + all.length, one.bytes, (size_t)one.length);
        all.length += one.length;
        free(one.bytes);
    }
    return all;
}

/* ---- separators ---- */

int64_t count_in_file(const char *path, const char *text) {
    const size_t size = strlen(text);
    char *last = malloc(size); /* the last `held` bytes of the file, as a ring */
    FILE *file = system_fopen(path, "rb");
    if (!file) fail(EXIT_USAGE, "cannot open %s: %s", path, strerror(errno));
    if (!last) fail(EXIT_FAILED, "out of memory");
    int64_t count = 0;
    size_t held = 0, next = 0;
    for (int byte = getc(file); byte != EOF; byte = getc(file)) {
        last[next] = (char)byte;
        next = (next + 1) % size;
        held += held < size;
        if (held < size || (char)byte != text[size - 1]) continue;
        if (memcmp(last + next, text, size - next) != 0 ||
            memcmp(last, text + size - next, next) != 0)
            continue;
        count++;
        held = 0; /* places do not overlap */
    }
    if (ferror(file)) fail(EXIT_USAGE, "cannot read %s: %s", path, strerror(errno));
    fclose(file);
    free(last);
    return count;
}

_Noreturn void fail_separator(const char *path, const char *separator) {
    fail(EXIT_USAGE, "the separator '%s' does not stand in %s%s", separator, path,
         strchr(separator, '\\')
             ? " (a backslash is a backslash: in most shells $'---\\n' ends with a "
               "line end)"
             : "");
}
