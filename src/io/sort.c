#include "sort.h"

#include "../core/int_math.h"

#include <string.h>

static void merge_runs(const void **to, const void *const *a, const void *const *a_end,
                       const void *const *b, const void *const *b_end,
                       int (*compare)(const void *, const void *)) {
    while (a < a_end && b < b_end) *to++ = compare(*b, *a) < 0 ? *b++ : *a++;
    while (a < a_end) *to++ = *a++;
    while (b < b_end) *to++ = *b++;
}

void cti_sort(const void **item, const void **scratch, int64_t n,
              int (*compare)(const void *, const void *)) {
    const void **from = item, **to = scratch;
    int64_t width = 1; /* length of the sorted runs in `from` */
    while (width < n) {
        for (int64_t i = 0, end; i < n; i = end) {
            const int64_t middle = i + cti_min(width, n - i);
            end = middle + cti_min(width, n - middle);
            merge_runs(to + i, from + i, from + middle, from + middle, from + end, compare);
        }
        const void **swap = from;
        from = to;
        to = swap;
        width = width > n / 2 ? n : 2 * width; /* the product could overflow */
    }
    if (from != item) memcpy(item, from, (size_t)n * sizeof *item);
}
