/* Fingerprints: numbers of 64 bits by which recompute.c compares its two runs without keeping the
 * first. Equal runs have equal fingerprints; different runs have equal fingerprints about once in
 * 2^32 cases, or more rarely. */
#ifndef CTI_AUTOGRAD_FINGERPRINT_H
#define CTI_AUTOGRAD_FINGERPRINT_H

#include "../core/context.h"

enum { CTI_FINGERPRINT = 17 }; /* the fingerprint before any data is added */

/* These functions continue a fingerprint: the result stands for the data of `print`, followed by
 * more data. */

/* Continues a fingerprint by a number. */
static inline uint64_t cti_fingerprint_add(uint64_t print, uint64_t number) {
    const uint64_t mixed = (print ^ number) * 0x9e3779b97f4a7c15;
    return mixed ^ mixed >> 29;
}

/* Continues a fingerprint by a tensor's shape and dtype. */
uint64_t cti_fingerprint_type(uint64_t print, const ct_tensor *t);

/* Continues a fingerprint by the bits of a tensor's elements in row-major order. All NaN count as
 * the same number. This takes no memory, and runs on the context's threads. */
uint64_t cti_fingerprint_values(uint64_t print, const ct_tensor *t);

#endif
