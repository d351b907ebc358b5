/* Lists: arrays that grow; arrays of pointers that are sorted, checked for repeats and searched. */
#ifndef CTI_IO_LIST_H
#define CTI_IO_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cotangent/context.h>

/* Returns an array with room for one more than n items of `size` bytes: `items` itself, which has
 * room for *room, or a copy with more. If memory is short it returns NULL and changes nothing. */
void *cti_list_grow(ct_context *context, void *items, int64_t n, int64_t *room, size_t size);

/* Compares two items as qsort's function does: negative, 0 or positive. */
typedef int cti_compare(const void *a, const void *b);

/* Sorts item[0 ... n - 1]. Equal items stay in their order. Returns false if memory is short; the
 * items are then unchanged. libc's qsort is not used, because it may call malloc or take quadratic
 * time. */
bool cti_list_sort(ct_context *context, const void **item, int64_t n, cti_compare *compare);

/* In a sorted list, the first item that is equal to the item before it; NULL if all differ. */
const void *cti_list_repeat(const void *const *item, int64_t n, cti_compare *compare);

/* In a sorted list, an item that is equal to *key; NULL if there is none. */
const void *cti_list_find(const void *const *item, int64_t n, const void *key,
                          cti_compare *compare);

#endif
