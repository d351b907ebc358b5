/* Helpers of the tests of files: a folder and a context for each test, and files of given bytes. */
#ifndef CT_TESTS_FILES_H
#define CT_TESTS_FILES_H

#include "refused.h"
#include <cotangent/cotangent.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static ct_context *context;

static const char *in_folder(const char *name) {
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static inline int files_in_folder(void) {
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        n += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return n;
}

static void setup(void) {
    strcpy(folder, "/tmp/cotangent-io-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    context = ct_context_new((ct_context_opts){.seed = 1, .threads = 1});
    ck_assert_int_eq(ct_error(context), CT_OK);
}

static inline void teardown(void) {
    ct_context_free(context);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir));)
        if (entry->d_name[0] != '.' || strlen(entry->d_name) > 2) remove(in_folder(entry->d_name));
    closedir(dir);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* The text that ct_load_report_print prints. */
static inline const char *printed_report(const ct_load_report *report) {
    static char text[1024];
    FILE *file = fopen(in_folder("report"), "w+");
    ct_load_report_print(report, file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

/* Whether both modules have the same names of parameters and the same bits. */
static inline bool same(const ct_module *a, const ct_module *b) {
    ct_param p = {0}, q = {0};
    while (ct_module_next(a, &p)) {
        if (!ct_module_next(b, &q) || strcmp(p.name, q.name)) return false;
        bool f32 = ct_dtype_of(p.tensor) == CT_F32;
        const void *x = f32 ? (void *)ct_data_f32(p.tensor) : (void *)ct_data_f64(p.tensor);
        const void *y = f32 ? (void *)ct_data_f32(q.tensor) : (void *)ct_data_f64(q.tensor);
        if (ct_numel(p.tensor) && memcmp(x, y, (size_t)ct_numel(p.tensor) * (f32 ? 4 : 8)))
            return false;
    }
    return !ct_module_next(b, &q);
}

/* Writes a safetensors file of any bytes and returns its path. If length < 0, the length prefix is
 * the true length of the header. */
static inline const char *put(const char *header, size_t header_size, int64_t length,
                              const void *data, size_t data_size) {
    const char *path = in_folder("file.safetensors");
    FILE *file = fopen(path, "wb");
    uint64_t n = length < 0 ? header_size : (uint64_t)length;
    for (int i = 0; i < 8; i++) putc((int)(n >> 8 * i & 255), file);
    fwrite(header, 1, header_size, file);
    for (size_t i = 0; i < data_size; i++) putc(data ? ((const unsigned char *)data)[i] : 0, file);
    fclose(file);
    return path;
}

/* Copies a number of `size` bytes in little-endian order, the order of files. */
static inline void put_little(void *to, const void *number, size_t size) {
    const uint16_t one = 1;
    const bool big = *(const unsigned char *)&one == 0;
    for (size_t b = 0; b < size; b++)
        ((char *)to)[b] = ((const char *)number)[big ? size - 1 - b : b];
}

/* Writes a file as `put` does, with n numbers of `size` bytes each as the data. */
static inline const char *put_numbers(const char *header, const void *number, size_t size,
                                      size_t n) {
    unsigned char bytes[128];
    for (size_t i = 0; i < n; i++)
        put_little(bytes + i * size, (const char *)number + i * size, size);
    return put(header, strlen(header), -1, bytes, n * size);
}

/* Reads the file's bytes and returns their number. */
static inline size_t read_all(const char *path, char *bytes, size_t room) {
    FILE *file = fopen(path, "rb");
    const size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

/* The offset of a tensor's data in a file. */
static inline size_t place_of(const char *bytes, const char *name) {
    uint64_t header = 0;
    put_little(&header, bytes, 8); /* and back: the same swap */
    char quoted[64], text[1 << 13];
    ck_assert_uint_lt(header, sizeof text);
    memcpy(text, bytes + 8, header);
    text[header] = 0;
    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    const char *at = strstr(text, quoted);
    ck_assert_msg(at != NULL, "no %s in %s", quoted, text);
    unsigned long long begin = 0;
    ck_assert_int_eq(sscanf(strstr(at, "\"data_offsets\":["), "\"data_offsets\":[%llu", &begin), 1);
    return (size_t)(8 + header + begin);
}

static inline void write_all(const char *path, const char *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* CRC-64 of ECMA-182, reflected, bit by bit. */
static inline uint64_t crc64(const char *bytes, size_t size) {
    uint64_t crc = UINT64_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xC96C5795D7870F42u : 0);
    }
    return ~crc;
}

/* Writes the right checksum into a checkpoint's bytes, if they begin like a checkpoint. */
static inline void seal(char *bytes, size_t size) {
    static const char begin[] = "{\"__metadata__\":{\"checksum\":\"";
    char digits[17], *at = bytes + 8 + sizeof begin - 1;
    if (size < 8 + sizeof begin - 1 + 16 || memcmp(bytes + 8, begin, sizeof begin - 1)) return;
    memset(at, '0', 16);
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)crc64(bytes, size));
    memcpy(at, digits, 16);
}

/* The first pair of a checkpoint's metadata, before the checksum is written into it. */
#define CHECKSUM "checksum", "0000000000000000"

static inline void seal_file(const char *path) {
    static char bytes[1 << 16];
    const size_t size = read_all(path, bytes, sizeof bytes);
    seal(bytes, size);
    write_all(path, bytes, size);
}

#define GOOD "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"
#define W(dtype, shape, offsets)                                                                   \
    "{\"w\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define TWO(a, b)                                                                                  \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" a                                   \
    "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" b "}}"
#define PLUS(members) "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}," members "}"

static inline ct_module *two_numbers(void) { /* w: f32 (2), 5 and 7 */
    ct_module *module = ct_module_new(context, "Two");
    ct_module_add_param(module, "w", ct_from_f32(context, CT_SHAPE(2), (float[]){5, 7}));
    return module;
}

#endif
