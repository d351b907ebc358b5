#include "list.h"

#include <string.h>

#include "../core/context.h"
#include "../core/int_math.h"

void *cti_list_grow(ct_context *context, void *items, int64_t n, int64_t *room, size_t size) {
    if (n < *room) return items;
    const int64_t more = *room ? 2 * *room : 16;
    void *block = cti_take(context, cti_bytes(more, size));
    if (!block) return NULL;
    if (n) memcpy(block, items, (size_t)n * size);
    cti_give(context, items, (size_t)*room * size);
    *room = more;
    return block;
}

/* ---- sorting: a merge sort ---- */

static void runs_merge(const void **to, const void *const *a, const void *const *a_end,
                       const void *const *b, const void *const *b_end, cti_compare *compare) {
    while (a < a_end && b < b_end) *to++ = compare(*b, *a) < 0 ? *b++ : *a++;
    while (a < a_end) *to++ = *a++;
    while (b < b_end) *to++ = *b++;
}

static void list_merge_sort(const void **item, const void **scratch, int64_t n,
                            cti_compare *compare) {
    const void **from = item, **to = scratch;
    int64_t width = 1; /* length of the sorted runs in `from` */
    while (width < n) {
        for (int64_t i = 0, end; i < n; i = end) {
            const int64_t middle = i + cti_min(width, n - i);
            end = middle + cti_min(width, n - middle);
            runs_merge(to + i, from + i, from + middle, from + middle, from + end, compare);
        }
        const void **swap = from;
        from = to;
        to = swap;
        width = width > n / 2 ? n : 2 * width; /* the product could overflow */
    }
    if (from != item) memcpy(item, from, (size_t)n * sizeof *item);
}

bool cti_list_sort(ct_context *context, const void **item, int64_t n, cti_compare *compare) {
    const size_t bytes = cti_bytes(n, sizeof *item);
    const void **scratch = cti_take(context, bytes);
    if (!scratch) return false;
    list_merge_sort(item, scratch, n, compare);
    cti_give(context, scratch, bytes);
    return true;
}

/* ---- sorted lists ---- */

const void *cti_list_repeat(const void *const *item, int64_t n, cti_compare *compare) {
    for (int64_t i = 1; i < n; i++)
        if (compare(item[i - 1], item[i]) == 0) return item[i];
    return NULL;
}

const void *cti_list_find(const void *const *item, int64_t n, const void *key,
                          cti_compare *compare) {
    for (int64_t low = 0, high = n; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        const int order = compare(key, item[middle]);
        if (order == 0) return item[middle];
        if (order < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}
