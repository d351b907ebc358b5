/* GGUF files that tests make of single keys, without the library's writer. */
#ifndef GGUF_BYTES_H
#define GGUF_BYTES_H

#include "tests/support/suite.h"

#include <stdint.h>
#include <stdio.h>

/* The pairs so far. A key that is put again stands in the place of the earlier one. */
enum { PAIRS = 32 };
static struct {
    char key[64];
    unsigned char *at;
    size_t size;
} pair[PAIRS];
static int pairs;

static void bytes_add(int i, const void *at, size_t size) {
    pair[i].at = realloc(pair[i].at, pair[i].size + size + 1);
    memcpy(pair[i].at + pair[i].size, at, size);
    pair[i].size += size;
}

static void number_add(int i, uint64_t value, int bytes) {
    unsigned char at[8];
    for (int k = 0; k < bytes; k++) at[k] = (unsigned char)(value >> 8 * k);
    bytes_add(i, at, (size_t)bytes);
}

static void text_add(int i, const char *text) {
    number_add(i, strlen(text), 8);
    bytes_add(i, text, strlen(text));
}

/* The pair of a key, empty but for its kind. */
static int pair_of(const char *key, int kind) {
    int i = 0;
    while (i < pairs && strcmp(pair[i].key, key) != 0) i++;
    ck_assert(i < PAIRS && strlen(key) < sizeof pair[i].key);
    pairs += i == pairs;
    strcpy(pair[i].key, key);
    pair[i].size = 0;
    number_add(i, (uint64_t)kind, 4);
    return i;
}

enum { KIND_U8, KIND_U32 = 4, KIND_I32, KIND_F32, KIND_BOOL, KIND_STRING, KIND_ARRAY };
static inline void put_text(const char *key, const char *text) {
    text_add(pair_of(key, KIND_STRING), text);
}
static inline void put_u32(const char *key, uint32_t value) {
    number_add(pair_of(key, KIND_U32), value, 4);
}
static inline void put_flag(const char *key, bool value) {
    number_add(pair_of(key, KIND_BOOL), value, 1);
}
/* Begins an array. */
static inline int put_array(const char *key, int kind, int64_t count) {
    const int i = pair_of(key, KIND_ARRAY);
    number_add(i, (uint64_t)kind, 4);
    number_add(i, (uint64_t)count, 8);
    return i;
}
static inline void put_texts(const char *key, const char *const *text, int64_t count) {
    const int i = put_array(key, KIND_STRING, count);
    for (int64_t k = 0; k < count; k++) text_add(i, text[k]);
}
static inline void put_i32s(const char *key, const int *value, int64_t count) {
    const int i = put_array(key, KIND_I32, count);
    for (int64_t k = 0; k < count; k++) number_add(i, (uint32_t)value[k], 4);
}
static inline void put_f32s(const char *key, const float *value, int64_t count) {
    const int i = put_array(key, KIND_F32, count);
    for (int64_t k = 0; k < count; k++) bytes_add(i, &value[k], 4);
}
static inline void put_bytes_key(const char *key, const void *at, size_t size) {
    bytes_add(put_array(key, KIND_U8, (int64_t)size), at, size);
}

/* Takes a key away. */
static inline void put_nothing(const char *key) {
    int i = 0;
    while (i < pairs && strcmp(pair[i].key, key) != 0) i++;
    if (i == pairs) return;
    free(pair[i].at);
    memmove(&pair[i], &pair[i + 1], (size_t)(pairs - i - 1) * sizeof *pair);
    memset(&pair[--pairs], 0, sizeof *pair);
}

static inline void pairs_free(void) {
    while (pairs) put_nothing(pair[0].key);
}

/* Writes the file, and returns its path. */
static inline const char *gguf_write(const char *name) {
    FILE *file = fopen(name, "wb");
    ck_assert_ptr_nonnull(file);
    const unsigned char head[24] = {'G', 'G', 'U', 'F', 3, [16] = (unsigned char)pairs};
    fwrite(head, 1, sizeof head, file);
    for (int i = 0; i < pairs; i++) {
        unsigned char size[8] = {(unsigned char)strlen(pair[i].key)};
        fwrite(size, 1, 8, file);
        fwrite(pair[i].key, 1, strlen(pair[i].key), file);
        fwrite(pair[i].at, 1, pair[i].size, file);
    }
    ck_assert(!fclose(file));
    return name;
}

#endif
