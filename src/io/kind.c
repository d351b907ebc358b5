/* Binary formats are recognised by their magic bytes, texts by their first word, and the files of a
 * folder by the beginnings and ends of their names. */
#include "kind.h"

#include <stdio.h>
#include <string.h>

#include "../core/context.h"
#include "../os/os.h"
#include "json.h"

/* ---- binary formats ---- */

#define SAVE_FILE     ": in Python, safetensors.torch.save_file(tensors, path) writes one"
#define FROM_PYTORCH  ": in Python, safetensors.torch.save_file(torch.load(this), path) writes one"
#define UNPACK        ": unpack it first"
#define OF_A_MODEL    ": ct_lm_open reads a language model's"
#define WRONG_ADDRESS ": perhaps the address was wrong, or asks for a login"
#define GIT_LFS       ": `git lfs pull` fetches the file that it stands for"
#define IDS_BY_TOFILE ": in Python, ids.astype(numpy.uint16).tofile(path) writes one"

typedef struct {
    cti_kind kind;
    const char *magic;
    size_t size, offset;
    /* a 32-bit version below 256 follows the magic; with it a magic of four bytes is sure */
    bool version;
    bool sure; /* no file of ids begins with this magic */
} binary_kind;
#define KIND(bytes, ...) .magic = (bytes), .size = sizeof(bytes) - 1, .kind = {__VA_ARGS__}
#define SURE             .sure = true

static const binary_kind binary_kinds[] = {
    {KIND("\x93NUMPY", "a NumPy file (.npy)", SAVE_FILE, ""), SURE},
    {KIND("PK\5\6\0\0\0\0", "an empty zip archive", "", ""), SURE},
    {KIND("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9", "a pickle (an old PyTorch file)", FROM_PYTORCH, ""),
     SURE},
    {KIND("\x1f\x8b\x08", "a gzip file", UNPACK, UNPACK)},
    {KIND("BZh", "a bzip2 file", UNPACK, UNPACK)},
    {KIND("\xfd"
          "7zXZ\0",
          "an xz file", UNPACK, UNPACK),
     SURE},
    {KIND("7z\xbc\xaf\x27\x1c", "a 7z archive", UNPACK, UNPACK), SURE},
    /* as u16 its second id is 64815 */
    {KIND("\x28\xb5\x2f\xfd", "a Zstandard file", UNPACK, UNPACK), SURE},
    {KIND("\x04\x22\x4d\x18", "an LZ4 file", UNPACK, UNPACK)},
    {KIND("ustar", "a tar archive", UNPACK, UNPACK), .offset = 257, SURE},
    {KIND("\x89HDF\r\n\x1a\n", "an HDF5 file (.h5)", SAVE_FILE, IDS_BY_TOFILE), SURE},
    {KIND("PAR1\x15", "a Parquet file", "", IDS_BY_TOFILE), SURE},
    {KIND("ARROW1\0\0", "an Arrow file", "", IDS_BY_TOFILE), SURE},
    {KIND("SQLite format 3", "an SQLite database", "", ""), SURE},
    {KIND("MMIDIDX\0\0", "an index of Megatron-LM (.idx)", "",
          ": the ids are in the .bin beside it"),
     SURE},
    {KIND("GGUF", "a GGUF file (of llama.cpp)", OF_A_MODEL, ""), .version = true},
    {KIND("\xc6\xd7\x34\x01", "a model of llm.c", "", ""), .version = true},
    {KIND("\xc7\xd7\x34\x01", "a state of llm.c", "", ""), .version = true},
    {KIND("\xc8\xd7\x34\x01", "a tokenizer of llm.c", "", ""), .version = true},
    {KIND("\x8a\xd8\x34\x01", "a HellaSwag file of llm.c", "", ""), .version = true},
};

static uint64_t kind_little(const unsigned char *at, int bytes) {
    uint64_t number = 0;
    for (int i = bytes; i-- > 0;) number = number << 8 | at[i];
    return number;
}

/* Whether the bytes behind the magic confirm the kind. gzip: no reserved flag, and a level and a
 * system that RFC 1952 defines. bzip2: the mark of the first block. LZ4: version 1, no reserved
 * bit, a defined block size. */
static bool kind_is_sure(const binary_kind *kind, const unsigned char *at, size_t n) {
    const unsigned char *rest = at + kind->size;
    if (kind->sure) return true;
    if (kind->version) return n >= 8 && kind_little(rest, 4) < 256;
    if (at[0] == 0x1f)
        return n >= 18 && rest[0] < 0x20 && (rest[5] == 0 || rest[5] == 2 || rest[5] == 4) &&
               (rest[6] < 14 || rest[6] == 255);
    if (at[0] == 'B') return n >= 10 && !memcmp(rest + 1, "1AY&SY", 6);
    return n >= 7 && (rest[0] & 0xc2) == 0x40 && (rest[1] & 0x8f) == 0 && rest[1] >= 0x40;
}

static const cti_kind *kind_by_magic(const unsigned char *at, size_t n, bool sure) {
    for (size_t i = 0; i < sizeof binary_kinds / sizeof *binary_kinds; i++) {
        const binary_kind *kind = &binary_kinds[i];
        if (n >= kind->offset + kind->size && !memcmp(at + kind->offset, kind->magic, kind->size) &&
            (!sure || kind_is_sure(kind, at, n)))
            return &kind->kind;
    }
    return NULL;
}

/* ---- formats that need more than a magic ---- */

static bool kind_contains(const unsigned char *at, size_t n, const char *text) {
    const size_t size = strlen(text);
    for (size_t i = 0; i + size <= n; i++)
        if (!memcmp(at + i, text, size)) return true;
    return false;
}

/* A zip archive is PyTorch's if its beginning names data.pkl, which lies in a folder of any name;
 * it is NumPy's (.npz) if its first file's name ends in .npy. */
static const cti_kind *zip_kind(const unsigned char *at, size_t n, bool sure) {
    static const cti_kind torch = {"a pickle in a zip archive (a PyTorch file)", FROM_PYTORCH, ""},
                          npz = {"a NumPy archive (.npz)", SAVE_FILE, IDS_BY_TOFILE},
                          other = {"a zip archive, as PyTorch's .pt and .bin are (pickles)",
                                   FROM_PYTORCH, UNPACK};
    if (n < 4 || memcmp(at, "PK\3\4", 4)) return NULL;
    const bool whole = n >= 30 && kind_little(at + 4, 2) < 64; /* the version that unpacks it */
    if (sure && !whole) return NULL;
    if (kind_contains(at, n, "data.pkl")) return &torch;
    const size_t name = whole ? (size_t)kind_little(at + 26, 2) : 0;
    return name > 4 && name <= n - 30 && !memcmp(at + 30 + name - 4, ".npy", 4) ? &npz : &other;
}

/* Whether the bytes are the name of a Python module and a new line, as behind a pickle's opcode c.
 */
static bool kind_is_module(const unsigned char *at, size_t n) {
    size_t i = 0;
    while (i < n && ((at[i] >= 'a' && at[i] <= 'z') || at[i] == '.' || at[i] == '_')) i++;
    return i > 2 && i < n && at[i] == '\n';
}

/* A pickle begins with the opcode 0x80 and its protocol. From protocol 4 on a frame and its size
 * follow. In protocols 2 and 3 the next object is mostly a class, or a list or dict that becomes
 * entry 0 of the memo. */
static const cti_kind *pickle_kind(const unsigned char *at, size_t n, int64_t size, bool sure) {
    static const cti_kind pickle = {"a pickle", FROM_PYTORCH, IDS_BY_TOFILE};
    if (n < 2 || at[0] != 0x80 || at[1] < 2 || at[1] > 5) return NULL;
    if (!sure) return &pickle;
    if (n >= 11 && at[1] >= 4 && at[2] == 0x95 && kind_little(at + 3, 8) <= (uint64_t)size - 11)
        return &pickle;
    if (n >= 5 && (at[2] == ']' || at[2] == '}') && at[3] == 'q' && at[4] == 0) return &pickle;
    return n >= 3 && at[2] == 'c' && kind_is_module(at + 3, n - 3) ? &pickle : NULL;
}

static const cti_kind *safetensors_kind(const unsigned char *at, size_t n, int64_t size) {
    static const cti_kind safetensors = {"a safetensors file", "", ""};
    const bool header = n >= 10 && kind_little(at, 8) >= 2 &&
                        kind_little(at, 8) <= (uint64_t)size - 8 && at[8] == '{' &&
                        strchr("\"} \n", at[9]) && at[9];
    return header ? &safetensors : NULL;
}

/* A message of Arrow's stream begins with a mark, its size, and the offset of a root inside it. */
static const cti_kind *arrow_kind(const unsigned char *at, size_t n, int64_t size) {
    static const cti_kind arrow = {"an Arrow stream", "", IDS_BY_TOFILE};
    if (n < 16 || kind_little(at, 4) != UINT32_MAX) return NULL;
    const uint64_t length = kind_little(at + 4, 4);
    const bool message = length > 8 && length % 8 == 0 && length <= (uint64_t)size - 8 &&
                         kind_little(at + 8, 4) >= 4 && kind_little(at + 8, 4) < length &&
                         at[8] % 2 == 0;
    return message ? &arrow : NULL;
}

static const cti_kind *zeros_kind(const unsigned char *at, size_t n) {
    static const cti_kind zeros = {"a file that begins with zeros",
                                   ": perhaps its download did not end", ""};
    size_t i = 0;
    while (i < n && !at[i]) i++;
    return n >= 64 && i == n ? &zeros : NULL;
}

/* ---- texts ---- */

/* Whether the bytes have control characters other than white space. */
static bool kind_has_controls(const unsigned char *at, size_t n) {
    for (size_t i = 0; i < n; i++)
        if ((at[i] < 0x20 && (at[i] < '\t' || at[i] > '\r')) || at[i] == 0x7f) return true;
    return false;
}

/* Whether the bytes are UTF-8. The last character may be cut if the file goes on behind it. */
static bool kind_is_utf8(const unsigned char *at, size_t n, int64_t size) {
    const size_t valid = cti_json_utf8((const char *)at, n);
    return n > 0 && (valid == n || ((int64_t)n < size && valid + 4 > n));
}

/* Whether the bytes are Latin letters in UTF-16 behind a byte order mark. */
static bool kind_is_utf16(const unsigned char *at, size_t n) {
    if (n < 4 || !((at[0] == 0xff && at[1] == 0xfe) || (at[0] == 0xfe && at[1] == 0xff)))
        return false;
    for (size_t i = 2, high = at[0] == 0xff; i + 1 < n; i += 2)
        if (at[i + high] || !at[i + !high]) return false;
    return true;
}

/* Whether the text begins with `begin`, which is in lower case. The text may be in any case. */
static bool kind_begins(const unsigned char *at, size_t n, const char *begin) {
    for (; *begin; begin++, at++, n--) {
        const int small = n && *at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : n ? *at : 0;
        if (small != *begin) return false;
    }
    return true;
}

enum { SURE_TEXT = 32 }; /* a text of this many bytes cannot be a file of ids */

static const cti_kind git_lfs = {"a git-lfs pointer", GIT_LFS, GIT_LFS};

/* The kind of a git-lfs pointer, an XML text or an HTML page by its first word, in any encoding
 * that contains ASCII. The tags are some of those by which browsers recognise a page. */
static const cti_kind *marked_text_kind(const unsigned char *at, size_t n) {
    static const cti_kind html = {"an HTML page", WRONG_ADDRESS, WRONG_ADDRESS},
                          xml = {"an XML text", WRONG_ADDRESS, WRONG_ADDRESS};
    static const char *const tags[] = {"<!doctype html", "<html",   "<head>", "<title>",
                                       "<body",          "<script", "<!--"};
    if (kind_begins(at, n, "version https://git-lfs")) return &git_lfs;
    if (kind_begins(at, n, "<?xml")) return &xml;
    for (size_t k = 0; k < sizeof tags / sizeof *tags; k++)
        if (kind_begins(at, n, tags[k])) return &html;
    return NULL;
}

static const cti_kind json_text = {"a JSON text", "", ": a tokenizer makes ids of it"},
                      plain_text = {"a text", "", ": a tokenizer makes ids of it"};

bool cti_kind_is_text(const cti_kind *kind) { return kind == &json_text || kind == &plain_text; }

static const cti_kind *text_kind(const unsigned char *at, size_t n, int64_t size, bool sure) {
    static const cti_kind utf16 = {"a text (UTF-16)", "", ": a tokenizer makes ids of it"};
    if (sure && n < SURE_TEXT) return NULL;
    if (kind_is_utf16(at, n)) return &utf16;
    if (kind_has_controls(at, n)) return NULL;
    size_t i = n >= 3 && !memcmp(at, "\xef\xbb\xbf", 3) ? 3 : 0; /* skips UTF-8's byte order mark */
    while (i < n && strchr(" \t\n\v\f\r", at[i])) i++;
    const cti_kind *marked = marked_text_kind(at + i, n - i);
    if (marked || !kind_is_utf8(at, n, size)) return marked;
    return i < n && at[i] == '{' ? &json_text : &plain_text;
}

const cti_kind *cti_kind_of(const unsigned char *at, size_t n, int64_t size, bool sure) {
    const cti_kind *kind = kind_by_magic(at, n, sure);
    if (!kind) kind = zip_kind(at, n, sure);
    if (!kind) kind = pickle_kind(at, n, size, sure);
    if (!kind) kind = safetensors_kind(at, n, size);
    if (!kind) kind = arrow_kind(at, n, size);
    if (!kind && !sure) kind = zeros_kind(at, n);
    return kind ? kind : text_kind(at, n, size, sure);
}

/* Writes the size that a git-lfs pointer gives of its file, " (of 269060552 bytes)"; "" for another
 * kind, and if the size is missing or has more than 19 digits. */
static void pointer_size(const cti_kind *kind, const unsigned char *at, size_t n, char out[48]) {
    static const char key[] = "\nsize ";
    *out = 0;
    for (size_t i = 0; kind == &git_lfs && i + sizeof key - 1 < n; i++) {
        if (memcmp(at + i, key, sizeof key - 1)) continue;
        const unsigned char *number = at + i + sizeof key - 1;
        size_t digits = 0;
        while (number + digits < at + n && number[digits] >= '0' && number[digits] <= '9') digits++;
        if (digits > 0 && digits < 20)
            snprintf(out, 48, " (of %.*s bytes)", (int)digits, (const char *)number);
        return;
    }
}

static bool kind_refuse(const cti_file *file, const cti_kind *kind, const unsigned char *at,
                        size_t n, const char *expected, const char *advice) {
    char size[48];
    pointer_size(kind, at, n, size);
    ct_fail(file->context, CT_ERR_FORMAT, "%s: %s: is %s%s, not %s%s", file->op, file->path,
            kind->name, size, expected, advice);
    return true;
}

bool cti_kind_refuse(const cti_file *file, const unsigned char *at, size_t n,
                     const char *expected) {
    const cti_kind *kind = cti_kind_of(at, n, file->size, false);
    return kind && kind_refuse(file, kind, at, n, expected, kind->tensors);
}

bool cti_kind_refuse_json(const cti_file *file, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    const size_t n = file->size < CTI_KIND_BYTES ? (size_t)file->size : CTI_KIND_BYTES;
    const cti_kind *kind = cti_kind_of(at, n, file->size, false);
    if (!kind || cti_kind_is_text(kind)) return false;
    /* advice that is the same for tensors and for ids fits any content */
    const bool fits = !strcmp(kind->tensors, kind->ids);
    return kind_refuse(file, kind, at, n, "a JSON text", fits ? kind->tensors : "");
}

/* ---- names ---- */

bool cti_kind_is_name(const char *name, const char *begin, const char *end) {
    const size_t n = strlen(name), b = strlen(begin), e = strlen(end);
    return n >= b + e && !memcmp(name, begin, b) && !memcmp(name + n - e, end, e);
}

int cti_kind_find(const char *folder, int (*rank)(const char *name), char *name, size_t size) {
    int best = -1;
    *name = 0;
    cti_os_folder *list = cti_os_folder_open(folder);
    for (const char *entry = list ? cti_os_folder_next(list) : NULL; entry;
         entry = cti_os_folder_next(list)) {
        const int its = rank(entry);
        if (its < 0 || (best >= 0 && (its > best || (its == best && strcmp(entry, name) >= 0))))
            continue;
        best = its;
        snprintf(name, size, "%.*s", (int)size - 1, entry);
    }
    if (list) cti_os_folder_close(list);
    return best;
}
