/* The random kernels of one ISA and dtype. They are compiled apart from the rest, with no a b + c
 * made one instruction, so that their results are the same bits on every ISA. */
#ifndef CTI_KERNELS_RANDOM_H
#define CTI_KERNELS_RANDOM_H

#include "kernels.h"

typedef struct {
    void (*uniform)(int64_t n, int64_t start, cti_random, double low, double high, void *y);
    void (*normal)(int64_t n, int64_t start, cti_random, double mean, double std, void *y);
    void (*dropout)(int64_t n, int64_t start, cti_random, double p, const void *x, void *y);
} cti_random_kernels;

#endif
