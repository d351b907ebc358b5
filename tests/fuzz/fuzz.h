/* Shared by the fuzz targets: a folder for files, and MUST, an assertion. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cotangent/cotangent.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static char fuzz_folder[64];

static inline const char *fuzz_path(const char *name) {
    static char path[4][128];
    static int turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", fuzz_folder, name);
    return out;
}

/* libFuzzer does not run atexit's functions, so the script that sets FUZZ_FOLDER removes the
 * folder. */
static inline void fuzz_begin(void) {
    const char *given = getenv("FUZZ_FOLDER");
    snprintf(fuzz_folder, sizeof fuzz_folder, "%s", given ? given : "/tmp/cotangent-fuzz-XXXXXX");
    MUST(given || mkdtemp(fuzz_folder));
}

static inline void fuzz_write(const char *path, const uint8_t *data, size_t size) {
    FILE *file = fopen(path, "wb");
    MUST(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
}

static inline size_t fuzz_read(const char *path, uint8_t *data, size_t room) {
    FILE *file = fopen(path, "rb");
    MUST(file);
    const size_t size = fread(data, 1, room, file);
    MUST(size < room && fclose(file) == 0);
    return size;
}

#endif
