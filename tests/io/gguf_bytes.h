/* GGUF files written as words, a byte sequence for each:
 *
 *     G         the magic              s:TEXT   a string: its length and bytes
 *     1:7       a byte                 z:16     zeros
 *     4:7 8:7   u32 and u64            p:32     zeros up to a multiple of 32 bytes
 *
 * A number may be hexadecimal. */
#ifndef CT_TESTS_GGUF_BYTES_H
#define CT_TESTS_GGUF_BYTES_H

#include "src/io/gguf.h"

#include "tests/support/files.h"

static unsigned char gguf_bytes[1 << 14];
static size_t gguf_size;

static void gguf_number(uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++) gguf_bytes[gguf_size++] = (unsigned char)(number >> 8 * i);
}

static void gguf_words(const char *words) {
    char text[2048];
    ck_assert(strlen(words) < sizeof text);
    strcpy(text, words);
    gguf_size = 0;
    memset(gguf_bytes, 0, sizeof gguf_bytes);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        const uint64_t number = word[0] == 'G' ? 0 : strtoull(word + 2, NULL, 0);
        switch (word[0]) {
        case 'G':
            memcpy(gguf_bytes, "GGUF", 4);
            gguf_size = 4;
            break;
        case '1': gguf_number(number, 1); break;
        case '4': gguf_number(number, 4); break;
        case '8': gguf_number(number, 8); break;
        case 's':
            gguf_number(strlen(word + 2), 8);
            memcpy(gguf_bytes + gguf_size, word + 2, strlen(word + 2));
            gguf_size += strlen(word + 2);
            break;
        case 'z': gguf_size += number; break;
        default: ck_assert(word[0] == 'p'); gguf_size = (gguf_size + number - 1) / number * number;
        }
    }
}

/* Writes the bytes to a file of the test's folder and returns its path. */
static inline const char *gguf_put(const char *name) {
    const char *path = in_folder(name);
    FILE *file = fopen(path, "wb");
    ck_assert(file && fwrite(gguf_bytes, 1, gguf_size, file) == gguf_size);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

/* A header of version 3 with so many tensors and keys; a key's first words; an info of a vector. */
#define GGUF_HEAD(tensors, keys)          "G 4:3 8:" #tensors " 8:" #keys " "
#define GGUF_KEY(key, kind)               "s:" key " 4:" #kind " "
#define GGUF_LIST(key, kind, count)       "s:" key " 4:9 4:" #kind " 8:" #count " "
#define GGUF_VECTOR(name, n, type, begin) "s:" name " 4:1 8:" #n " 4:" #type " 8:" #begin " "

#endif
