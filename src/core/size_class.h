/* The size classes of blocks. Up to 4,096 bytes they are linear: there is one for each multiple of
 * 64 bytes. Above they are geometric, with eight classes to a doubling: a block of such a class has
 * m << s units of 64 bytes, with m = 9 ... 16 and s >= 3. The first has 9 << 3 = 72 units, 4,608
 * bytes. So rounding a size up to its class wastes at most an eighth of the block, or 63 bytes. */
#ifndef CTI_CORE_SIZE_CLASS_H
#define CTI_CORE_SIZE_CLASS_H

#include "assert.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CTI_ALIGN = 64 }; /* the alignment of every block in bytes, which is a cache line */

/* The largest request in bytes. Rounded up to its class and with a header it does not overflow. */
#define CTI_MOST_BYTES ((size_t)PTRDIFF_MAX / 4)

enum {
    CTI_LINEAR_MAX = 4096,
    CTI_LINEAR_CLASSES = CTI_LINEAR_MAX / CTI_ALIGN,
    CTI_SIZE_CLASSES = 8 * 64
};

_Static_assert(CTI_LINEAR_CLASSES == 8 << 3, "the geometric classes continue the linear ones");
_Static_assert(CTI_LINEAR_MAX == 1 << 12, "log2 of the largest linear class, below, is 12");
_Static_assert(CTI_MOST_BYTES <= (uint64_t)1 << 61, "log2 of the largest request, below, is 61");
_Static_assert(CTI_LINEAR_CLASSES + 8 * (61 - 12) <= CTI_SIZE_CLASSES, "every request has a class");

/* Whether 1 <= size <= CTI_LINEAR_MAX. For 0 the subtraction wraps around. */
static inline bool cti_is_linear(size_t size) { return size - 1 < CTI_LINEAR_MAX; }
/* The class of such a size; *bytes is the size of the class's blocks. */
static inline int cti_linear_class(size_t size, size_t *bytes) {
    CTI_ASSERT(cti_is_linear(size));
    const size_t class = (size - 1) / CTI_ALIGN;
    *bytes = (class + 1) * CTI_ALIGN;
    return (int)class;
}

/* The smallest class that holds `size` bytes; *bytes is the size of its blocks. */
static inline int cti_size_class(size_t size, size_t *bytes) {
    if (size <= CTI_LINEAR_MAX) return cti_linear_class(size ? size : 1, bytes);
    const size_t last = (size - 1) / CTI_ALIGN; /* the number of units minus one */
    const int s = 63 - __builtin_clzll(last) - 3;
    const size_t m = (last >> s) + 1;
    *bytes = (m << s) * CTI_ALIGN;
    return CTI_LINEAR_CLASSES + 8 * (s - 3) + (int)m - 9;
}

/* The size of the blocks of a class, the inverse of cti_size_class. */
static inline size_t cti_class_bytes(int class) {
    CTI_ASSERT(class >= 0 && class < CTI_SIZE_CLASSES);
    const int above = class - CTI_LINEAR_CLASSES;
    const size_t units =
        above < 0 ? (size_t) class + 1 : (size_t)(9 + above % 8) << (3 + above / 8);
    return units * CTI_ALIGN;
}

#endif
