/* A stable merge sort of pointers. libc's qsort may call malloc or take quadratic time. */
#ifndef CTI_IO_SORT_H
#define CTI_IO_SORT_H

#include <stdint.h>

/* scratch: [n] */
void cti_sort(const void **item, const void **scratch, int64_t n,
              int (*compare)(const void *, const void *));

#endif
