/* attention of a few queries, as in decoding: nothing is used often enough to be worth packing. One query at a time against all keys,
 * its scores in one row of scratch:  p = 2^(s - max),  out = p v / sum.
 *
 * The sums over d are not in the order of a register block. Blocks that computed the scores again
 * would round them differently, and e^s of a large s is off by that rounding; so the scores, which
 * are T S numbers a head, are kept for backward. */
#include "attention.h"

#include <math.h>
#include <string.h>

typedef struct {
    const attention *a;
    char *scratch;
    size_t bytes; /* of one worker */
} few;

/* A worker's scratch: rows of all keys, seen as panels of whole rows; and one row of lanes each. */
typedef struct {
    char *s, *bias, *max, *sum;
} room;

static room rooms(const attention *a, char *base, size_t *used) {
    /* For as many keys as lie between two heads: a growing cache takes the same scratch for every token. */
    const int64_t nr = a->k->gemm.nr, stride = a->key.stride[2], most = stride > 0 ? a->key.stride[1] / stride : 0;
    const int64_t keys = cti_attention_up(a->s > most ? a->s : most, nr);
    room r;
    r.s = cti_attention_carve(a, base, used, keys, 1);
    r.bias = cti_attention_carve(a, base, used, keys, 1);
    r.max = cti_attention_carve(a, base, used, nr, 1);
    r.sum = cti_attention_carve(a, base, used, nr, 1);
    return r;
}

static double number(const attention *a, const char *x) { return a->size == 4 ? (double)*(const float *)x : *(const double *)x; }
static void put(const attention *a, char *x, double value) {
    if (a->size == 4) *(float *)x = (float)value;
    else *(double *)x = value;
}

/* y = alpha x B for n columns, k rows of B. */
static void row_product(const attention *a, int64_t n, int64_t k, const char *x, int64_t x_step, const char *b, int64_t b_row,
                        int64_t b_col, double alpha, bool add, char *y) {
    const int64_t kc = a->k->gemm.kc;
    for (int64_t p = 0; p < k; p += kc)
        a->k->gemm.gemv(n, cti_attention_min(kc, k - p), x + p * x_step * a->size, x_step, b + p * b_row * a->size, b_row, b_col, alpha,
                       add || p > 0, y, 1);
}

static int64_t skip(const attention *a, int64_t b, int64_t k, int64_t n, bool hidden) {
    while (k < n && cti_attention_hides(a, b, k, 1) == hidden) k++;
    return k;
}

/* out = p v alpha over the runs of keys that the key mask shows. Of several runs the sum is
 * multiplied, not each, which would be a rounding each. */
static void add_values(const attention *a, int64_t b, int64_t kv, int64_t n, const char *p, double alpha, char *out) {
    bool add = false;
    for (int64_t from = skip(a, b, 0, n, true), to, next; from < n; from = next, add = true) {
        to = skip(a, b, from, n, false), next = skip(a, b, to, n, true);
        row_product(a, a->dv, to - from, p + from * a->size, 1,
                    cti_attention_at(a, a->value, b, kv, from, 0), a->value.stride[2],
                    a->value.stride[3], add || next < n ? 1 : alpha, add, out);
        if (add && next == n) a->k->scale(a->dv, out, alpha, out);
    }
}

static void attend(const attention *a, const room *r, int64_t b, int64_t h, int64_t t) {
    const int64_t nr = a->k->gemm.nr, kv = h / a->group, n = a->set.causal ? cti_attention_min(a->s, t + 1) : a->s;
    const int64_t rows = cti_attention_pieces(n, nr), row = (b * a->heads + h) * a->t + t;
    char *out = cti_attention_at(a, a->out, b, h, t, 0), *max = a->max + row * a->size, *inverse = a->inverse + row * a->size;
    double top = -INFINITY, sum = 0;
    if (n > 0) {
        a->k->fill(rows * nr, -INFINITY, r->s);
        if (a->d > 0)
            row_product(a, n, a->d, cti_attention_at(a, a->q, b, h, t, 0), a->q.stride[3], cti_attention_at(a, a->key, b, kv, 0, 0),
                        a->key.stride[3], a->key.stride[2], a->score_scale, false, r->s);
        else a->k->fill(n, 0, r->s);
        cti_attention_mask_row(a, b, h, t, n, r->s, r->bias);
        a->k->max(n, 1, r->s, 1, r->max);
        top = number(a, r->max);
        if (a->scores) {
            char *to = a->scores + row * a->s * a->size;
            memcpy(to, r->s, (size_t)(n * a->size));
            if (n < a->s) a->k->fill(a->s - n, -INFINITY, to + n * a->size);
        }
    }
    a->k->fill(a->dv, 0, out);
    if (top != -INFINITY) {
        a->k->fill(nr, top, r->max);
        a->k->fill(nr, 0, r->sum);
        a->k->attention.soften(rows, nr, r->s, r->max, r->sum, 0, NULL);
        a->k->sum(nr, 1, r->sum, 1, r->bias);
        sum = number(a, r->bias);
        if (a->set.dropout > 0) a->k->dropout(n, row * a->s, a->set.random, a->set.dropout, r->s, r->s);
        add_values(a, b, kv, n, r->s, 1 / sum, out);
    }
    put(a, max, top == -INFINITY ? 0 : top);
    put(a, inverse, sum == 0 ? 0 : 1 / sum);
}

static void attend_task(void *arg, int64_t begin, int64_t end, int worker) {
    const few *f = arg;
    size_t used = 0;
    const room r = rooms(f->a, f->scratch + (size_t)worker * f->bytes, &used);
    for (int64_t i = begin; i < end; i++) attend(f->a, &r, i / f->a->t / f->a->heads, i / f->a->t % f->a->heads, i % f->a->t);
}

bool cti_attention_few(ct_context *context, const attention *a) {
    few f = {.a = a};
    rooms(a, NULL, &f.bytes);
    const int64_t items = a->batch * a->heads * a->t, grain = cti_op_grain((a->s + 8) * (a->d + a->dv + 16) / 8);
    const size_t bytes = cti_bytes(cti_parallel_width(context), f.bytes);
    if (!(f.scratch = cti_take(context, bytes))) return false;
    cti_parallel(context, items, grain, attend_task, &f);
    cti_give(context, f.scratch, bytes);
    return true;
}
