#include "checksum.h"

#include <string.h>

#include "../core/context.h"
#include "../core/int_math.h"
#include "crc64.h"

/* The bytes between the header's length and the digits. */
static const char before_digits[] = "{\"__metadata__\":{\"" CTI_CHECKSUM_KEY "\":\"";
enum {
    LENGTH = 8, /* bytes of the header's length */
    BEFORE = sizeof before_digits - 1,
    AT = LENGTH + BEFORE, /* offset of the first digit */
    CHECKSUM_DIGITS = sizeof CTI_CHECKSUM_ZEROS - 1,
    CHECKSUM_CHUNK = 1 << 16 /* bytes read at a time */
};

static void digits_write(const cti_crc64 *crc, char digits[CHECKSUM_DIGITS]) {
    const uint64_t value = cti_crc64_value(crc);
    for (int i = 0; i < CHECKSUM_DIGITS; i++)
        digits[i] = "0123456789abcdef"[value >> 4 * (CHECKSUM_DIGITS - 1 - i) & 15];
}

/* ---- writing ---- */

bool cti_checksum_begin(cti_file_new *file) {
    file->crc = cti_take(file->context, sizeof *file->crc);
    if (file->crc) cti_crc64_begin(file->crc);
    return file->crc;
}

bool cti_checksum_end(const cti_file_new *file) {
    char digits[CHECKSUM_DIGITS];
    digits_write(file->crc, digits);
    return cti_file_new_write_at(file, AT, digits, sizeof digits);
}

/* ---- reading ---- */

bool cti_checksum_is_there(const cti_file *file, bool *ok) {
    char found[BEFORE];
    if (file->size < AT + CHECKSUM_DIGITS) return false;
    *ok = cti_file_read(file, LENGTH, found, sizeof found);
    return *ok && memcmp(found, before_digits, sizeof found) == 0;
}

static bool checksum_compare(const cti_file *file, cti_crc64 *crc, char *chunk) {
    char expected[CHECKSUM_DIGITS], found[CHECKSUM_DIGITS];
    cti_crc64_begin(crc);
    for (int64_t at = 0; at < file->size; at += CHECKSUM_CHUNK) {
        const size_t size = (size_t)cti_min(file->size - at, CHECKSUM_CHUNK);
        if (!cti_file_read(file, at, chunk, size)) return false;
        if (at == 0) {
            memcpy(expected, chunk + AT, sizeof expected);
            memcpy(chunk + AT, CTI_CHECKSUM_ZEROS, sizeof expected);
        }
        cti_crc64_add(crc, chunk, size);
    }
    digits_write(crc, found);
    if (memcmp(expected, found, sizeof found) == 0) return true;
    for (int i = 0; i < CHECKSUM_DIGITS; i++) /* makes the message printable */
        if (expected[i] < ' ' || expected[i] > '~') expected[i] = '?';
    return ct_fail(file->context, CT_ERR_FORMAT,
                   "%s: %s: is damaged: checksum %.16s expected, %.16s found", file->op, file->path,
                   expected, found);
}

bool cti_checksum_compare(const cti_file *file) {
    cti_crc64 *crc = cti_take(file->context, sizeof *crc);
    char *chunk = crc ? cti_take(file->context, CHECKSUM_CHUNK) : NULL;
    const bool ok = chunk && checksum_compare(file, crc, chunk);
    cti_give(file->context, chunk, CHECKSUM_CHUNK);
    cti_give(file->context, crc, sizeof *crc);
    return ok;
}
