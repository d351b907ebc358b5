/* Opens a GGUF file, and parses and checks its header. */
#include "gguf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../core/context.h"
#include "../core/int_math.h"
#include "kind.h"
#include "list.h"

static const unsigned char magic[4] = {'G', 'G', 'U', 'F'};

enum {
    FIRST_BYTES = 1 << 16, /* of a file, which most often have the whole header */
    DEFAULT_ALIGNMENT = 32,
    GGUF_NAME = 64, /* of ggml's tensors, with the NUL */
    GGUF_DIMS = 4,
    LEAST_PAIR = 8 + 1 + 4 + 1, /* bytes: a key of a byte, and a value of a byte */
    LEAST_INFO = 8 + 4 + 4 + 8
};

/* ---- types ---- */

static const struct {
    const char *name;
    int bytes; /* of a number; 0 for texts and arrays */
} gguf_kinds[CTI_GGUF_KINDS] = {
    [CTI_GGUF_U8] = {"u8", 1},         [CTI_GGUF_I8] = {"i8", 1},
    [CTI_GGUF_U16] = {"u16", 2},       [CTI_GGUF_I16] = {"i16", 2},
    [CTI_GGUF_U32] = {"u32", 4},       [CTI_GGUF_I32] = {"i32", 4},
    [CTI_GGUF_F32] = {"f32", 4},       [CTI_GGUF_BOOL] = {"bool", 1},
    [CTI_GGUF_STRING] = {"string", 0}, [CTI_GGUF_ARRAY] = {"array", 0},
    [CTI_GGUF_U64] = {"u64", 8},       [CTI_GGUF_I64] = {"i64", 8},
    [CTI_GGUF_F64] = {"f64", 8},
};
const char *cti_gguf_kind_name(cti_gguf_kind kind) { return gguf_kinds[kind].name; }

/* ggml's numbers of types. Numbers that are left out were removed, or are unknown. */
static const struct {
    int number;
    cti_file_dtype dtype;
} gguf_types[] = {
    {0, CTI_FILE_F32},      {1, CTI_FILE_F16},     {2, CTI_FILE_Q4_0},     {3, CTI_FILE_Q4_1},
    {6, CTI_FILE_Q5_0},     {7, CTI_FILE_Q5_1},    {8, CTI_FILE_Q8_0},     {9, CTI_FILE_Q8_1},
    {10, CTI_FILE_Q2_K},    {11, CTI_FILE_Q3_K},   {12, CTI_FILE_Q4_K},    {13, CTI_FILE_Q5_K},
    {14, CTI_FILE_Q6_K},    {15, CTI_FILE_Q8_K},   {16, CTI_FILE_IQ2_XXS}, {17, CTI_FILE_IQ2_XS},
    {18, CTI_FILE_IQ3_XXS}, {19, CTI_FILE_IQ1_S},  {20, CTI_FILE_IQ4_NL},  {21, CTI_FILE_IQ3_S},
    {22, CTI_FILE_IQ2_S},   {23, CTI_FILE_IQ4_XS}, {24, CTI_FILE_I8},      {25, CTI_FILE_I16},
    {26, CTI_FILE_I32},     {27, CTI_FILE_I64},    {28, CTI_FILE_F64},     {29, CTI_FILE_IQ1_M},
    {30, CTI_FILE_BF16},    {34, CTI_FILE_TQ1_0},  {35, CTI_FILE_TQ2_0},   {39, CTI_FILE_MXFP4},
    {40, CTI_FILE_NVFP4},   {41, CTI_FILE_Q1_0},   {42, CTI_FILE_Q2_0},
};
enum { GGUF_TYPES = sizeof gguf_types / sizeof *gguf_types, LAST_REMOVED = 38 };

int cti_gguf_type(cti_file_dtype dtype) {
    for (int i = 0; i < GGUF_TYPES; i++)
        if (gguf_types[i].dtype == dtype) return gguf_types[i].number;
    return -1;
}

static bool type_find(uint32_t number, cti_file_dtype *dtype) {
    for (int i = 0; i < GGUF_TYPES; i++) {
        *dtype = gguf_types[i].dtype;
        if ((uint32_t)gguf_types[i].number == number) return true;
    }
    return false;
}

/* ---- faults ---- */

CT_FORMAT(2, 3) static bool gguf_refuse(const cti_gguf *gguf, const char *format, ...) {
    char what[2 * CTI_NAME_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ct_fail(gguf->context, CT_ERR_FORMAT, "%s: %s: %s", gguf->op, gguf->path, what);
}

bool cti_gguf_fail(const cti_gguf *gguf, const char *key, const char *format, ...) {
    char what[2 * CTI_NAME_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return gguf_refuse(gguf, "key \"%s\": %s", NAME(cti_text_of(key)), what);
}

/* ---- the cursor ---- */

/* Corrects a pointer into the header's bytes, which have moved. */
static void pointer_move(const cti_gguf *gguf, const unsigned char *to, const void **at) {
    if (*at) *at = to + ((const unsigned char *)*at - gguf->text);
}
static void text_move(const cti_gguf *gguf, const unsigned char *to, cti_text *text) {
    if (text->at) text->at = (const char *)to + ((const unsigned char *)text->at - gguf->text);
}

/* Reads more of the file, at least up to `end`, into a block of at least twice the size. */
static bool header_load(cti_gguf *gguf, int64_t end) {
    const int64_t room =
        cti_min(gguf->file.size, cti_max(end, cti_max(FIRST_BYTES, 2 * gguf->room)));
    unsigned char *text = cti_take(gguf->context, (size_t)room);
    if (!text) return false;
    if (gguf->loaded) memcpy(text, gguf->text, (size_t)gguf->loaded);
    for (int64_t i = 0; i < gguf->pairs; i++) {
        const void *at = gguf->pair[i].at;
        text_move(gguf, text, &gguf->pair[i].key);
        pointer_move(gguf, text, &at);
        gguf->pair[i].at = at;
    }
    for (int64_t i = 0; i < gguf->tensors; i++) text_move(gguf, text, &gguf->tensor[i].name);
    cti_give(gguf->context, gguf->text, (size_t)gguf->room);
    const int64_t from = gguf->loaded;
    gguf->text = text;
    gguf->loaded = gguf->room = room;
    return cti_file_read(&gguf->file, from, text + from, (size_t)(room - from));
}

static int64_t bytes_left(const cti_gguf *gguf) { return gguf->file.size - gguf->at; }

/* Whether the next n bytes are there. They are then in memory. */
static bool header_has(cti_gguf *gguf, uint64_t n, const char *what) {
    if (n > (uint64_t)bytes_left(gguf))
        return gguf_refuse(
            gguf, "the file ends inside %s: %llu bytes from byte %lld on, and it has %lld", what,
            (unsigned long long)n, (long long)gguf->at, (long long)gguf->file.size);
    const int64_t end = gguf->at + (int64_t)n;
    if (end > CTI_LARGEST_GGUF_HEADER)
        return gguf_refuse(gguf, "the header goes on behind byte %d, in %s",
                           CTI_LARGEST_GGUF_HEADER, what);
    return end <= gguf->loaded || header_load(gguf, end);
}

static uint64_t little(const unsigned char *at, int bytes) {
    uint64_t number = 0;
    for (int i = bytes; i-- > 0;) number = number << 8 | at[i];
    return number;
}

/* Reads a number of 4 or 8 bytes. */
static bool number_pass(cti_gguf *gguf, int bytes, const char *what, uint64_t *number) {
    if (!header_has(gguf, (uint64_t)bytes, what)) return false;
    *number = little(gguf->text + gguf->at, bytes);
    gguf->at += bytes;
    return true;
}

/* Passes a string, and moves it as the head of gguf.h says. */
static bool string_pass(cti_gguf *gguf, const char *what, cti_text *text) {
    if (!header_has(gguf, 8, what)) return false;
    const uint64_t length = little(gguf->text + gguf->at, 8);
    if (length > (uint64_t)bytes_left(gguf) - 8)
        return gguf_refuse(gguf, "%s: a text of %llu bytes does not fit in the file, at byte %lld",
                           what, (unsigned long long)length, (long long)gguf->at);
    if (!header_has(gguf, 8 + length, what)) return false;
    unsigned char *at = gguf->text + gguf->at;
    memmove(at + 4, at + 8, (size_t)length);
    memset(at + 4 + length, 0, 4);
    *text = (cti_text){(const char *)at + 4, (size_t)length};
    gguf->at += 8 + (int64_t)length;
    return true;
}

/* ---- keys and values ---- */

/* The text of messages about the place where a pair or an info is parsed. */
typedef struct {
    char text[CTI_NAME_TEXT + 32];
} place;
static const char *place_write(place *p, const char *what, cti_text name) {
    snprintf(p->text, sizeof p->text, "%s \"%s\"", what, NAME(name));
    return p->text;
}

/* Whether a key or name is UTF-8 without U+0000. */
static bool name_check(const cti_gguf *gguf, const char *what, cti_text name, int64_t byte) {
    if (!memchr(name.at, 0, name.size) && cti_json_utf8(name.at, name.size) == name.size)
        return true;
    return gguf_refuse(gguf, "%s \"%s\" is not UTF-8 without U+0000, at byte %lld", what,
                       NAME(name), (long long)byte);
}

/* Passes the elements of a pair, `pair->count` of `pair->kind`. */
static bool elements_pass(cti_gguf *gguf, int64_t pair, const char *what) {
    const int64_t count = gguf->pair[pair].count;
    const int bytes = gguf_kinds[gguf->pair[pair].kind].bytes;
    gguf->pair[pair].byte = gguf->at;
    if (count > bytes_left(gguf) / (bytes ? bytes : 8))
        return gguf_refuse(gguf, "%s: %lld elements do not fit in the file, at byte %lld", what,
                           (long long)count, (long long)gguf->at);
    if (!header_has(gguf, (uint64_t)(count * bytes), what)) return false;
    gguf->pair[pair].at = gguf->text + gguf->at;
    gguf->at += count * bytes;
    for (int64_t i = 0; bytes == 0 && i < count; i++) {
        cti_text text;
        if (!string_pass(gguf, what, &text)) return false;
    }
    return true;
}

static bool kind_pass(cti_gguf *gguf, const char *what, cti_gguf_kind *kind) {
    uint64_t number;
    if (!number_pass(gguf, 4, what, &number)) return false;
    *kind = (cti_gguf_kind)number;
    return number < CTI_GGUF_KINDS ||
           gguf_refuse(gguf, "%s: kind %llu is none of GGUF's, at byte %lld", what,
                       (unsigned long long)number, (long long)gguf->at - 4);
}

static bool array_pass(cti_gguf *gguf, int64_t pair, const char *what) {
    uint64_t count;
    gguf->pair[pair].is_array = true;
    if (!kind_pass(gguf, what, &gguf->pair[pair].kind)) return false;
    if (gguf->pair[pair].kind == CTI_GGUF_ARRAY)
        return gguf_refuse(gguf, "%s: an array of arrays, which is not read, at byte %lld", what,
                           (long long)gguf->at - 4);
    if (!number_pass(gguf, 8, what, &count)) return false;
    if (count > INT64_MAX)
        return gguf_refuse(gguf, "%s: %llu elements do not fit in the file, at byte %lld", what,
                           (unsigned long long)count, (long long)gguf->at - 8);
    gguf->pair[pair].count = (int64_t)count;
    return elements_pass(gguf, pair, what);
}

static bool pair_pass(cti_gguf *gguf) {
    cti_gguf_pair *more =
        cti_list_grow(gguf->context, gguf->pair, gguf->pairs, &gguf->pair_room, sizeof *gguf->pair);
    if (!more) return false;
    gguf->pair = more;
    const int64_t pair = gguf->pairs++, byte = gguf->at;
    gguf->pair[pair] = (cti_gguf_pair){.count = 1};
    char what[48];
    snprintf(what, sizeof what, "key %lld", (long long)pair);
    cti_text key;
    if (!string_pass(gguf, what, &key)) return false;
    gguf->pair[pair].key = key;
    if (key.size == 0)
        return gguf_refuse(gguf, "key %lld is empty, at byte %lld", (long long)pair,
                           (long long)byte);
    if (!name_check(gguf, "key", key, byte)) return false;
    place where;
    place_write(&where, "key", key); /* now: the key moves with what is loaded */
    if (!kind_pass(gguf, where.text, &gguf->pair[pair].kind)) return false;
    return gguf->pair[pair].kind == CTI_GGUF_ARRAY ? array_pass(gguf, pair, where.text)
                                                   : elements_pass(gguf, pair, where.text);
}

static int gguf_by_key(const void *a, const void *b) {
    return cti_text_compare(((const cti_gguf_pair *)a)->key, ((const cti_gguf_pair *)b)->key);
}

static bool pairs_pass(cti_gguf *gguf, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!pair_pass(gguf)) return false;
    gguf->by_key = cti_take(gguf->context, cti_bytes(n, sizeof *gguf->by_key));
    if (!gguf->by_key) return false;
    for (int64_t i = 0; i < n; i++) gguf->by_key[i] = &gguf->pair[i];
    if (!cti_list_sort(gguf->context, gguf->by_key, n, gguf_by_key)) return false;
    const cti_gguf_pair *repeat = cti_list_repeat(gguf->by_key, n, gguf_by_key);
    return !repeat || gguf_refuse(gguf, "key \"%s\" is there twice", NAME(repeat->key));
}

const cti_gguf_pair *cti_gguf_find(const cti_gguf *gguf, const char *key) {
    const cti_gguf_pair named = {.key = cti_text_of(key)};
    return cti_list_find(gguf->by_key, gguf->pairs, &named, gguf_by_key);
}

static bool alignment_read(cti_gguf *gguf) {
    static const char key[] = "general.alignment";
    const cti_gguf_pair *pair = cti_gguf_find(gguf, key);
    gguf->alignment = DEFAULT_ALIGNMENT;
    if (!pair) return true;
    if (pair->is_array || pair->kind != CTI_GGUF_U32)
        return cti_gguf_fail(gguf, key, "is %s%s, not u32", pair->is_array ? "an array of " : "",
                             cti_gguf_kind_name(pair->kind));
    gguf->alignment = (int64_t)little(pair->at, 4);
    if (gguf->alignment > 0 && (gguf->alignment & (gguf->alignment - 1)) == 0) return true;
    return cti_gguf_fail(gguf, key, "is %lld, not a power of two", (long long)gguf->alignment);
}

/* ---- tensors ---- */

/* Passes the sizes, of which the first in the file is the last dim. */
static bool dims_pass(cti_gguf *gguf, cti_file_tensor *tensor, const char *what) {
    uint64_t dims, size;
    if (!number_pass(gguf, 4, what, &dims)) return false;
    if (dims > GGUF_DIMS)
        return gguf_refuse(gguf, "%s has %llu dims, and %d at most can be, at byte %lld", what,
                           (unsigned long long)dims, GGUF_DIMS, (long long)gguf->at - 4);
    tensor->ndim = tensor->shape.ndim = (int)dims;
    tensor->numel = 1;
    for (int d = (int)dims; d-- > 0;) {
        if (!number_pass(gguf, 8, what, &size)) return false;
        if (size > INT64_MAX || (size > 0 && tensor->numel > INT64_MAX / (int64_t)size))
            return gguf_refuse(gguf, "%s: the product of its sizes overflows, at byte %lld", what,
                               (long long)gguf->at - 8);
        tensor->shape.dim[d] = (int64_t)size;
        tensor->numel *= (int64_t)size;
    }
    return true;
}

static bool type_pass(cti_gguf *gguf, cti_file_tensor *tensor, const char *what) {
    uint64_t number;
    if (!number_pass(gguf, 4, what, &number)) return false;
    if (type_find((uint32_t)number, &tensor->dtype)) return true;
    return gguf_refuse(gguf,
                       number <= LAST_REMOVED
                           ? "%s has type %llu, which ggml has removed: convert the model anew, at "
                             "byte %lld"
                           : "%s has type %llu, which is unknown, at byte %lld",
                       what, (unsigned long long)number, (long long)gguf->at - 4);
}

/* Sets begin and end. The bytes of a tensor are checked against the file by layout_check. */
static bool range_set(cti_gguf *gguf, cti_file_tensor *tensor, const char *what) {
    uint64_t offset;
    if (!number_pass(gguf, 8, what, &offset)) return false;
    const int64_t per = cti_file_dtype_elements(tensor->dtype),
                  bytes = cti_file_dtype_bits(tensor->dtype) / 8,
                  row = tensor->ndim ? tensor->shape.dim[tensor->ndim - 1] : 1;
    if (row % per != 0)
        return gguf_refuse(gguf, "%s: a row of %lld is not whole blocks of %s, which have %lld",
                           what, (long long)row, cti_file_dtype_name(tensor->dtype),
                           (long long)per);
    const int64_t blocks = tensor->numel / per;
    if (blocks > INT64_MAX / bytes || offset > (uint64_t)(INT64_MAX - blocks * bytes))
        return gguf_refuse(gguf, "%s: its size and offset overflow, at byte %lld", what,
                           (long long)gguf->at - 8);
    tensor->begin = (int64_t)offset;
    tensor->end = tensor->begin + blocks * bytes;
    return true;
}

static bool info_pass(cti_gguf *gguf) {
    cti_file_tensor *more = cti_list_grow(gguf->context, gguf->tensor, gguf->tensors,
                                          &gguf->tensor_room, sizeof *gguf->tensor);
    if (!more) return false;
    gguf->tensor = more;
    const int64_t i = gguf->tensors++, byte = gguf->at;
    gguf->tensor[i] = (cti_file_tensor){.file = &gguf->file};
    char what[48];
    snprintf(what, sizeof what, "tensor %lld", (long long)i);
    cti_text name;
    if (!string_pass(gguf, what, &name)) return false;
    gguf->tensor[i].name = name;
    if (name.size >= GGUF_NAME)
        return gguf_refuse(gguf, "tensor \"%s\": a name of %zu bytes, over %d, at byte %lld",
                           NAME(name), name.size, GGUF_NAME - 1, (long long)byte);
    if (!name_check(gguf, "tensor", name, byte)) return false;
    place where;
    place_write(&where, "tensor", name);
    cti_file_tensor info = {0};
    const bool ok = dims_pass(gguf, &info, where.text) && type_pass(gguf, &info, where.text) &&
                    range_set(gguf, &info, where.text);
    info.file = &gguf->file;
    info.name = gguf->tensor[i].name;
    gguf->tensor[i] = info;
    return ok;
}

static int gguf_by_name(const void *a, const void *b) {
    return cti_text_compare(((const cti_file_tensor *)a)->name, ((const cti_file_tensor *)b)->name);
}

/* Checks that no tensor is there twice. */
static bool twice_check(const cti_gguf *gguf) {
    const size_t bytes = cti_bytes(gguf->tensors, sizeof(void *));
    const void **name = cti_take(gguf->context, bytes);
    for (int64_t i = 0; name && i < gguf->tensors; i++) name[i] = &gguf->tensor[i];
    const bool sorted = name && cti_list_sort(gguf->context, name, gguf->tensors, gguf_by_name);
    const cti_file_tensor *repeat =
        sorted ? cti_list_repeat(name, gguf->tensors, gguf_by_name) : NULL;
    cti_give(gguf->context, name, bytes);
    return sorted &&
           (!repeat || gguf_refuse(gguf, "tensor \"%s\" is there twice", NAME(repeat->name)));
}

/* Checks invariant 6, and sets where the data are. */
static bool layout_check(cti_gguf *gguf) {
    gguf->data = gguf->tensors ? cti_round_up(gguf->at, gguf->alignment) : gguf->at;
    gguf->data_size = cti_max(gguf->file.size - gguf->data, 0);
    int64_t expected = 0;
    for (int64_t i = 0; i < gguf->tensors; i++) {
        cti_file_tensor *tensor = &gguf->tensor[i];
        tensor->data = gguf->data;
        if (tensor->begin != expected)
            return gguf_refuse(gguf,
                               "tensor \"%s\": its data begin at %lld, and the tensors before it "
                               "end at %lld",
                               NAME(tensor->name), (long long)tensor->begin, (long long)expected);
        if (tensor->end > gguf->data_size && tensor->end > tensor->begin)
            return gguf_refuse(gguf,
                               "tensor \"%s\": its data end at byte %lld, and the file at %lld",
                               NAME(tensor->name), (long long)(gguf->data + tensor->end),
                               (long long)gguf->file.size);
        expected = cti_round_up(tensor->end, gguf->alignment);
    }
    return true;
}

/* ---- the header ---- */

static bool version_check(const cti_gguf *gguf, uint32_t version) {
    if (version == 2 || version == 3) return true;
    if (version == 1)
        return gguf_refuse(gguf, "is GGUF of version 1, which is no longer read: convert the model "
                                 "anew");
    if (version && (version & 0xFFFF) == 0)
        return gguf_refuse(gguf, "is a big-endian GGUF file: gguf_convert_endian.py of llama.cpp "
                                 "writes it little-endian");
    return gguf_refuse(gguf, "is GGUF of version %u, and versions 2 and 3 are read", version);
}

static bool magic_check(cti_gguf *gguf) {
    if (gguf->file.size == 0) return gguf_refuse(gguf, "is not a GGUF file: the file is empty");
    if (!header_has(gguf, (uint64_t)cti_min(gguf->file.size, sizeof magic), "the header"))
        return false;
    if (gguf->file.size >= (int64_t)sizeof magic && !memcmp(gguf->text, magic, sizeof magic)) {
        gguf->at = sizeof magic;
        return true;
    }
    const size_t n = (size_t)cti_min(gguf->loaded, CTI_KIND_BYTES);
    return !cti_kind_refuse(&gguf->file, gguf->text, n, "a GGUF file") &&
           gguf_refuse(gguf, "is not a GGUF file: it does not begin with GGUF");
}

bool cti_gguf_parse(cti_gguf *gguf) {
    uint64_t version, tensors, pairs;
    if (!magic_check(gguf) || !number_pass(gguf, 4, "the header", &version) ||
        !version_check(gguf, (uint32_t)version) || !number_pass(gguf, 8, "the header", &tensors) ||
        !number_pass(gguf, 8, "the header", &pairs))
        return false;
    if (pairs > (uint64_t)bytes_left(gguf) / LEAST_PAIR)
        return gguf_refuse(gguf, "%llu keys do not fit in the file, at byte 16",
                           (unsigned long long)pairs);
    if (tensors > (uint64_t)bytes_left(gguf) / LEAST_INFO)
        return gguf_refuse(gguf, "%llu tensors do not fit in the file, at byte 8",
                           (unsigned long long)tensors);
    if (!pairs_pass(gguf, (int64_t)pairs) || !alignment_read(gguf)) return false;
    for (uint64_t i = 0; i < tensors; i++)
        if (!info_pass(gguf)) return false;
    return twice_check(gguf) && layout_check(gguf);
}

bool cti_gguf_open(ct_context *context, const char *op, const char *path, cti_gguf *gguf) {
    *gguf = (cti_gguf){.context = context, .op = op, .path = path};
    if (!cti_file_open(context, op, path, &gguf->file)) return false;
    if (cti_gguf_parse(gguf)) return true;
    cti_gguf_close(gguf);
    return false;
}

void cti_gguf_close(cti_gguf *gguf) {
    ct_context *context = gguf->context;
    cti_give(context, gguf->text, (size_t)gguf->room);
    cti_give(context, gguf->pair, (size_t)gguf->pair_room * sizeof *gguf->pair);
    if (gguf->by_key) cti_give(context, gguf->by_key, (size_t)gguf->pairs * sizeof *gguf->by_key);
    cti_give(context, gguf->tensor, (size_t)gguf->tensor_room * sizeof *gguf->tensor);
    cti_file_close(&gguf->file);
    *gguf = (cti_gguf){.context = context, .op = gguf->op, .path = gguf->path, .file.fd = -1};
}

bool cti_gguf_is(ct_context *context, const char *op, const char *path, bool *is) {
    unsigned char first[sizeof magic] = {0};
    cti_file file;
    if (!cti_file_open(context, op, path, &file)) return false;
    const bool ok = cti_file_read(&file, 0, first, (size_t)cti_min(file.size, sizeof first));
    *is = !memcmp(first, magic, sizeof magic);
    cti_file_close(&file);
    return ok;
}
