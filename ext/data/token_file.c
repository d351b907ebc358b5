/* Files of token ids: the header, the size, and reads that check that the file has not changed. */
#include "token_file.h"

#include <cotangent/autograd.h>

#include <errno.h>
#include <string.h>

#include "../../src/core/memory.h"
#include "../../src/io/kind.h"
#include "npy.h"

static const char token_op[] = "tokens";

/* ---- llm.c's header ---- */

/* llm.c's header has 256 little-endian i32, of which three are used: the magic, a version and the
 * number of ids. The magic is MAGIC_GPT2 or MAGIC_LLAMA3; version 1 has ids of 2 bytes, version 7
 * of 4. A file of u16 without a header is not
 * mistaken for one with a header: it would have to begin with the id 55432 or 55713, and GPT-2's
 * vocabulary has 50257 ids. */
enum { MAGIC_GPT2 = 20240520, MAGIC_LLAMA3 = 20240801 };

void cti_token_header(unsigned char header[CTI_TOKEN_HEADER], int bytes, int64_t ids) {
    memset(header, 0, CTI_TOKEN_HEADER);
    cti_token_put(header, bytes == 2 ? MAGIC_GPT2 : MAGIC_LLAMA3, 4);
    cti_token_put(header + 4, bytes == 2 ? 1 : 7, 4);
    cti_token_put(header + 8, (uint64_t)ids, 4);
}

static bool has_header(const unsigned char first[12]) {
    const int64_t magic = cti_token_at(first, 4, 0);
    return magic == MAGIC_GPT2 || magic == MAGIC_LLAMA3;
}

static bool token_header_read(cti_token_file *file, const unsigned char first[12], int asked) {
    ct_context *context = file->file.context;
    const long long version = cti_token_at(first, 4, 1), count = cti_token_at(first, 4, 2),
                    rest = file->file.size - CTI_TOKEN_HEADER;
    if (rest < 0)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: the file ends at byte %lld, inside llm.c's header of %d bytes",
                       token_op, file->path, (long long)file->file.size, CTI_TOKEN_HEADER);
    if (version != 1 && version != 7)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: byte 4: version %lld of llm.c's header, not 1 (ids of 2 bytes) or "
                       "7 (ids of 4)",
                       token_op, file->path, version);
    file->bytes = version == 1 ? 2 : 4;
    if (asked && asked != file->bytes)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: byte 4: ids of %d bytes by llm.c's header, of %d by .bytes",
                       token_op, file->path, file->bytes, asked);
    if (count * file->bytes != rest)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: byte 8: llm.c's header says %lld ids of %d bytes, and %lld bytes "
                       "follow it",
                       token_op, file->path, count, file->bytes, rest);
    file->data = CTI_TOKEN_HEADER;
    file->ids = count;
    return true;
}

/* ---- NumPy's header ---- */

static bool npy_read(cti_token_file *file, int asked) {
    static const struct {
        const char *dtype;
        int bytes;
        bool is_signed;
    } kinds[] = {{"<u2", 2, false},
                 {"<u4", 4, false},
                 {"<u8", 8, false},
                 {"<i4", 4, true},
                 {"<i8", 8, true}};
    ct_context *context = file->file.context;
    cti_npy npy;
    if (!cti_npy_read(&file->file, &npy)) return false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(npy.dtype, kinds[i].dtype) != 0) continue;
        file->bytes = kinds[i].bytes;
        file->is_signed = kinds[i].is_signed;
    }
    if (!file->bytes)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: ids of NumPy's dtype '%s'%s, and not of '<u2', '<u4', '<u8', '<i4' "
                       "or '<i8'",
                       token_op, file->path, npy.dtype,
                       npy.dtype[0] == '>' ? ", which is big-endian" : "");
    if (npy.dims != 1)
        return ct_fail(context, CT_ERR_FORMAT, "%s: %s: a NumPy array of %d dims, and not of one",
                       token_op, file->path, npy.dims);
    if (asked && asked != file->bytes)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: ids of %d bytes by NumPy's header, of %d by .bytes", token_op,
                       file->path, file->bytes, asked);
    const int64_t rest = file->file.size - npy.data;
    if (rest % file->bytes || npy.length != rest / file->bytes)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: NumPy's header says %lld ids of %d bytes, and %lld bytes follow it",
                       token_op, file->path, (long long)npy.length, file->bytes, (long long)rest);
    file->data = npy.data;
    file->ids = npy.length;
    return true;
}

/* ---- any file ---- */

static bool layout_read(cti_token_file *file, int asked) {
    unsigned char first[CTI_KIND_BYTES] = {0};
    const int64_t size = file->file.size, n = size < CTI_KIND_BYTES ? size : CTI_KIND_BYTES;
    if (!cti_file_read(&file->file, 0, first, (size_t)n)) return false;
    if (has_header(first)) return token_header_read(file, first, asked);
    if (cti_npy_is(first, (size_t)n)) return npy_read(file, asked);
    const cti_kind *kind = cti_kind_of(first, (size_t)n, size, true);
    if (kind)
        return ct_fail(file->file.context, CT_ERR_FORMAT, "%s: %s: is %s, not a file of ids%s",
                       token_op, file->path, kind->name, kind->ids);
    file->bytes = asked ? asked : 2;
    file->data = 0;
    file->ids = size / file->bytes;
    if (size % file->bytes == 0) return true;
    return ct_fail(file->file.context, CT_ERR_FORMAT,
                   "%s: %s: its %lld bytes are no whole number of ids of %d bytes: the last one is "
                   "cut at byte %lld",
                   token_op, file->path, (long long)size, file->bytes,
                   (long long)(file->ids * file->bytes));
}

/* ---- open ---- */

/* Sets *folder to the current folder, in a block of *size bytes of cti_take_any, or to NULL if it
 * has no name any more. Returns false with an error if memory is short. */
static bool current_folder(ct_context *context, char **folder, size_t *size) {
    int failed = ERANGE;
    for (*size = 1024; failed == ERANGE; *size *= 2) {
        *folder = cti_take_any(context, *size);
        if (!*folder) return false;
        if (cti_os_current_folder(*folder, *size)) return true;
        failed = errno;
        cti_give_any(context, *folder, *size);
    }
    *folder = NULL;
    return true;
}

/* A copy of a path, in a block of strlen + 1. A relative path is made absolute, because the file is
 * opened again later, and the current folder may be another one then. */
static char *absolute(ct_context *context, const char *path) {
    if (cti_os_is_absolute(path) || !*path) return cti_string_take(context, path);
    char *folder;
    size_t size;
    if (!current_folder(context, &folder, &size)) return NULL;
    if (!folder) return cti_string_take(context, path);
    const size_t length = strlen(folder) + 1 + strlen(path) + 1;
    char *whole = cti_take_any(context, length);
    if (whole) snprintf(whole, length, "%s/%s", folder, path);
    cti_give_any(context, folder, size);
    return whole;
}

bool cti_token_file_open(ct_context *context, const char *path, int bytes, cti_token_file *file) {
    *file = (cti_token_file){.file = {.context = context, .fd = -1}};
    file->path = absolute(context, path);
    if (!file->path) return false;
    bool ok = cti_file_open(context, token_op, file->path, &file->file);
    if (ok && !cti_os_about_file(file->file.fd, &file->about))
        ok = cti_file_fail(context, token_op, file->path, "cannot read its size");
    if (ok) {
        file->file.size = file->about.size;
        ok = layout_read(file, bytes);
    }
    if (!ok) cti_token_file_free(file);
    return ok;
}

void cti_token_file_free(cti_token_file *file) {
    cti_file_close(&file->file);
    if (file->path) cti_give_any(file->file.context, file->path, strlen(file->path) + 1);
    file->path = NULL;
}

/* ---- reading ---- */

/* Whether the path still names the file that was opened, with the same size and time of change.
 * `offset` is the offset of the bytes that are read; it is used only in messages. */
static bool is_unchanged(const cti_token_file *file, long long offset) {
    ct_context *context = file->file.context;
    const cti_os_about *then = &file->about;
    cti_os_about now;
    if (!cti_os_about_path(file->path, &now)) {
        char what[80];
        snprintf(what, sizeof what, "cannot find it any more, for the ids at byte %lld", offset);
        return cti_file_fail(context, token_op, file->path, what);
    }
    /* The inode number of a file that is closed and was removed may be used again, even for a
     * folder. */
    if (now.device != then->device || now.number != then->number || now.kind != CTI_OS_FILE)
        return ct_fail(context, CT_ERR_IO,
                       "%s: %s: has been replaced since it was opened, found when the ids at byte "
                       "%lld were read",
                       token_op, file->path, offset);
    if (now.size != then->size)
        return ct_fail(context, CT_ERR_FORMAT,
                       "%s: %s: had %lld bytes when it was opened and has %lld now, found when the "
                       "ids at byte %lld were read",
                       token_op, file->path, (long long)then->size, (long long)now.size, offset);
    if (now.modified_s != then->modified_s || now.modified_ns != then->modified_ns)
        return ct_fail(context, CT_ERR_IO,
                       "%s: %s: has been written to since it was opened, found when the ids at "
                       "byte %lld were read",
                       token_op, file->path, offset);
    return true;
}

/* The comparison before a second open ensures that no FIFO or device in the file's place is opened.
 * The comparison after each read ensures that the bytes were in the file at the first open. */
bool cti_token_file_read(cti_token_file *file, int64_t first, int64_t count, void *out) {
    const int64_t offset = file->data + first * file->bytes;
    if (file->file.fd < 0 &&
        (!is_unchanged(file, offset) ||
         !cti_file_open(file->file.context, token_op, file->path, &file->file)))
        return false;
    return cti_file_read(&file->file, offset, out, (size_t)(count * file->bytes)) &&
           is_unchanged(file, offset);
}
