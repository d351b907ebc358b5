/* The kernels of random.c: random numbers. */
#ifndef CTI_KERNELS_RANDOM_H
#define CTI_KERNELS_RANDOM_H

#include "kernels.h"

typedef struct {
    uint64_t seed, stream;
} cti_random;

struct cti_random_kernels {
    /* element start + i of the stream; the same bits on every ISA */
    void (*uniform)(int64_t n, int64_t start, cti_random, double low, double high, void *y);
    void (*normal)(int64_t n, int64_t start, cti_random, double mean, double std, void *y);
    /* 0 with probability p, else x / (1 - p) */
    void (*dropout)(int64_t n, int64_t start, cti_random, double p, const void *x, void *y);
};

#endif
