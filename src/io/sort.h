/* A stable merge sort of pointers. libc's qsort is not used, because it may call malloc or take
 * quadratic time. */
#ifndef CTI_IO_SORT_H
#define CTI_IO_SORT_H

#include <stdint.h>

/* Sorts item [n]. scratch [n] is overwritten. */
void cti_sort(const void **item, const void **scratch, int64_t n,
              int (*compare)(const void *, const void *));

#endif
