#include "ranking.h"
#include "columns.h"

#include <string.h>

/* An element's index and its value as a number that has the wanted order, smallest first. */
typedef struct {
    uint64_t key;
    int64_t index;
} ranking_entry;

/* No two entries are equal, so the order does not depend on the algorithm. */
static bool ranking_before(const ranking_entry *a, const ranking_entry *b) {
    return a->key < b->key || (a->key == b->key && a->index < b->index);
}

static const uint64_t TOP_BIT = (uint64_t)1 << 63;

/* The bits of doubles, read as integers, have the order of their magnitudes. */
static uint64_t key_of_real(double x) {
    uint64_t bits;
    if (x != x) return UINT64_MAX;
    if (x == 0) return TOP_BIT;
    memcpy(&bits, &x, sizeof bits);
    return bits & TOP_BIT ? ~bits : bits | TOP_BIT;
}

static uint64_t key_of(ct_dtype dtype, const char *x, int64_t i) {
    switch (dtype) {
    case CT_F32:
    case CT_F64: return key_of_real(cti_real_get(dtype, x, i));
    case CT_I64: return (uint64_t)((const int64_t *)x)[i] ^ TOP_BIT;
    case CT_BOOL: return ((const bool *)x)[i];
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0: break;
    }
    CTI_ASSERT(false); /* topk and argsort refuse other dtypes */
    return 0;
}

/* In the heap no entry comes before its child, so the last of all is on top. */
static void ranking_sift_down(ranking_entry *heap, int64_t n, int64_t i) {
    const ranking_entry moved = heap[i];
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && ranking_before(&heap[child], &heap[child + 1])) child++;
        if (!ranking_before(&moved, &heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

typedef struct {
    ct_dtype dtype;
    cti_columns of;
    int64_t k;
    uint64_t flip; /* all ones if the largest comes first */
    const char *x;
    int64_t *index;
    ranking_entry *heaps; /* k entries for each worker */
} ranking;

/* The heap holds the first k, in the wanted order, of the elements so far. At the end entries are
 * taken from its top, the last of them first. */
static void rank_rows(void *arg, int64_t begin, int64_t end, int worker) {
    const ranking *r = arg;
    const int64_t n = r->of.n, inner = r->of.inner, k = r->k;
    ranking_entry *heap = r->heaps + worker * k;
    for (int64_t row = begin; row < end; row++) {
        const int64_t first = row / inner * n * inner + row % inner;
        for (int64_t i = 0; i < n; i++) {
            const ranking_entry e = {key_of(r->dtype, r->x, first + i * inner) ^ r->flip, i};
            if (i < k) heap[i] = e;
            if (i == k - 1)
                for (int64_t h = k / 2 - 1; h >= 0; h--) ranking_sift_down(heap, k, h);
            if (i < k || !ranking_before(&e, heap)) continue;
            heap[0] = e;
            ranking_sift_down(heap, k, 0);
        }
        int64_t *to = r->index + row / inner * k * inner + row % inner;
        for (int64_t left = k; left > 0; left--) {
            to[(left - 1) * inner] = heap[0].index;
            heap[0] = heap[left - 1];
            ranking_sift_down(heap, left - 1, 0);
        }
    }
}

bool cti_rank(const ct_call *c, const ct_tensor *x, int dim, bool descending, ct_tensor *index) {
    CTI_ASSERT(x->contiguous && index->dtype == CT_I64 && index->contiguous);
    CTI_ASSERT(index->shape.ndim == x->shape.ndim);
    if (index->numel == 0) return true;
    ranking r = {.dtype = x->dtype,
                 .of = cti_columns_along(x->shape, dim),
                 .k = index->shape.ndim ? index->shape.dim[dim] : 1,
                 .flip = descending ? UINT64_MAX : 0,
                 .x = x->data,
                 .index = (int64_t *)index->data};
    CTI_ASSERT(r.k > 0 && r.k <= r.of.n);
    const int64_t rows = r.of.outer * r.of.inner, grain = cti_op_grain(8 * r.of.n);
    const int64_t heaps = rows > grain ? cti_parallel_width(c->context) : 1;
    const size_t bytes = cti_bytes(r.k, (size_t)heaps * sizeof *r.heaps);
    r.heaps = cti_take(c->context, bytes);
    if (!r.heaps) return false;
    cti_parallel(c->context, rows, grain, rank_rows, &r);
    cti_give(c->context, r.heaps, bytes);
    return true;
}
