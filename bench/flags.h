/* The flags that bench/ops and bench/vmath have in common. */
#ifndef BENCH_FLAGS_H
#define BENCH_FLAGS_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads --threads N and --only NAME. False, with the usage on stderr, for anything else. */
static inline bool threads_and_only(int argc, char **argv, const char *program, int *threads,
                                    const char **only) {
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (value && !strcmp(argv[i], "--threads")) *threads = atoi(value);
        else if (value && !strcmp(argv[i], "--only")) *only = value;
        else {
            fprintf(stderr, "usage: %s [--threads N] [--only NAME]\n", program);
            return false;
        }
    }
    return true;
}

#endif
