#include "sort.h"

#include <string.h>

static void merge(const void **to, const void *const *a, const void *const *a_end,
                  const void *const *b, const void *const *b_end,
                  int (*compare)(const void *, const void *)) {
    while (a < a_end && b < b_end) *to++ = compare(*b, *a) < 0 ? *b++ : *a++;
    while (a < a_end) *to++ = *a++;
    while (b < b_end) *to++ = *b++;
}

void cti_sort(const void **item, const void **scratch, int64_t n,
              int (*compare)(const void *, const void *)) {
    const void **from = item, **to = scratch;
    for (int64_t width = 1; width<n; width = width> n / 2 ? n : 2 * width) {
        for (int64_t i = 0; i < n;) {
            int64_t middle = n - i > width ? i + width : n,
                    end = n - middle > width ? middle + width : n;
            merge(to + i, from + i, from + middle, from + middle, from + end, compare);
            i = end;
        }
        const void **swap = from;
        from = to;
        to = swap;
    }
    if (from != item) memcpy(item, from, (size_t)n * sizeof *item);
}
