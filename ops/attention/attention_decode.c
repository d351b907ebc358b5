/* attention of one or two queries, as in decoding. Each key is used once or twice, too rarely to be
 * worth packing. So each query is a row times a matrix: keys and values are read in place, and all
 * scores are one row of the workspace.
 *
 *     p = 2^(s - max),  out = p v / sum
 *
 * gemv sums over d in another order than the micro-kernel that backward uses for tiles. Backward's
 * scores would be rounded differently, and for a large score the weight 2^(s - max) would be off by
 * that rounding. So the scores, S for each query, are saved for backward. */
#include "attention.h"

#include <math.h>
#include <string.h>

typedef struct {
    const cti_attention_params *a;
    char *workspaces; /* one for each worker */
    size_t workspace_bytes;
} decode_pass;

/* A worker's buffers. keys is rounded up to a multiple of nr, as kernels read a row of scores as a
 * panel of keys / nr rows. */
typedef struct {
    char *s;    /* (keys): scores, then weights */
    char *bias; /* (keys) */
    char *max;  /* (nr): one number in every lane */
    char *sum;  /* (nr): partial sums */
} decode_buffers;

/* Sized for the capacity of a KV cache, which is the distance from one head's keys to the next
 * head's, not for its present length: so every token takes a workspace of the same size. */
static decode_buffers decode_buffers_at(const cti_attention_params *a, char *base, size_t *used) {
    const int64_t row = a->k.stride[2], capacity = row > 0 ? a->k.stride[1] / row : 0;
    const int64_t keys = cti_round_up(cti_max(a->s, capacity), a->nr);
    decode_buffers w;
    w.s = cti_attention_reserve(a, base, used, keys, 1);
    w.bias = cti_attention_reserve(a, base, used, keys, 1);
    w.max = cti_attention_reserve(a, base, used, a->nr, 1);
    w.sum = cti_attention_reserve(a, base, used, a->nr, 1);
    return w;
}

static double stored_number(const cti_attention_params *a, const char *x) {
    return a->size == sizeof(float) ? (double)*(const float *)x : *(const double *)x;
}

static void store_number(const cti_attention_params *a, char *x, double value) {
    if (a->size == sizeof(float)) *(float *)x = (float)value;
    else *(double *)x = value;
}

/* y (n) = alpha x (k) B (k, n), or y += with accumulate. B's element (i, j) is at i b_row + j
 * b_col. */
static void row_product(const cti_attention_params *a, int64_t n, int64_t k, const char *x,
                        int64_t x_stride, const char *b, int64_t b_row, int64_t b_col, double alpha,
                        bool accumulate, char *y) {
    const int64_t kc = a->kernels->gemm.kc;
    for (int64_t p = 0; p < k; p += kc)
        a->kernels->gemm.gemv(n, cti_min(kc, k - p), x + p * x_stride * a->size, x_stride,
                              b + p * b_row * a->size, b_row, b_col, alpha, accumulate || p > 0, y,
                              1);
}

/* w->s = scale q k^T + masks, in units of log 2. */
static void score(const cti_attention_params *a, const decode_buffers *w,
                  const cti_attention_tile *t) {
    a->kernels->fill(cti_round_up(t->nk, a->nr), -INFINITY, w->s);
    if (a->d > 0) {
        const char *q = cti_attention_at(a, &a->q, t->b, t->h, t->q0, 0);
        const char *k = cti_attention_at(a, &a->k, t->b, t->h / a->group, 0, 0);
        row_product(a, t->nk, a->d, q, a->q.stride[3], k, a->k.stride[3], a->k.stride[2],
                    a->score_scale, false, w->s);
    } else {
        a->kernels->fill(t->nk, 0, w->s);
    }
    cti_attention_mask_row(a, t, w->s, w->bias);
}

static void keep_scores(const cti_attention_params *a, const decode_buffers *w,
                        const cti_attention_tile *t) {
    char *to = a->scores + cti_attention_stat_at(a, t->b, t->h, t->q0) * a->s;
    memcpy(to, w->s, (size_t)(t->nk * a->size));
    if (t->nk < a->s) a->kernels->fill(a->s - t->nk, -INFINITY, to + t->nk * a->size);
}

/* The first of the tile's keys, from `key` on, that the key mask hides (masked) or does not hide;
 * t->nk if there is none. */
static int64_t find_key(const cti_attention_params *a, const cti_attention_tile *t, int64_t key,
                        bool masked) {
    while (key < t->nk && cti_attention_key_is_masked(a, t->b, key) != masked) key++;
    return key;
}

/* out = p v / sum, a product for each run of visible keys, as values of hidden keys may be NaN. If
 * there are several runs, the total is scaled once at the end: scaling each would round each. */
static void sum_values(const cti_attention_params *a, const cti_attention_tile *t, const char *p,
                       double inverse_sum, char *out) {
    int64_t begin = find_key(a, t, 0, false), end = find_key(a, t, begin, true);
    const bool one_run = find_key(a, t, end, false) == t->nk;
    for (bool accumulate = false; begin < t->nk; accumulate = true) {
        const char *v = cti_attention_at(a, &a->v, t->b, t->h / a->group, begin, 0);
        row_product(a, a->dv, end - begin, p + begin * a->size, 1, v, a->v.stride[2],
                    a->v.stride[3], one_run ? inverse_sum : 1, accumulate, out);
        begin = find_key(a, t, end, false);
        end = find_key(a, t, begin, true);
    }
    if (!one_run) a->kernels->scale(a->dv, out, inverse_sum, out);
}

/* Turns the row of scores into weights and returns their sum. The kernel reads the row as a panel:
 * every lane is given the maximum of the whole row, and its sum is a partial sum. */
static double softmax_of_row(const cti_attention_params *a, const decode_buffers *w, int64_t n,
                             double max) {
    a->kernels->fill(a->nr, max, w->max);
    a->kernels->fill(a->nr, 0, w->sum);
    a->kernels->attention.online_softmax_update(cti_ceil_div(n, a->nr), a->nr, w->s, w->max, w->sum,
                                                0, NULL);
    a->kernels->sum(a->nr, 1, w->sum, 1, w->bias);
    return stored_number(a, w->bias);
}

static void decode_query(const cti_attention_params *a, const decode_buffers *w,
                         const cti_attention_tile *t) {
    const int64_t stat = cti_attention_stat_at(a, t->b, t->h, t->q0);
    const int64_t index = stat / a->size * a->s; /* of the query's first score, in (B, H, T, S) */
    char *out = cti_attention_at(a, &a->out, t->b, t->h, t->q0, 0);
    double max = -INFINITY, sum = 0;
    if (t->nk > 0) {
        score(a, w, t);
        a->kernels->max(t->nk, 1, w->s, 1, w->max);
        max = stored_number(a, w->max);
        if (a->scores) keep_scores(a, w, t);
    }
    a->kernels->fill(a->dv, 0, out);
    if (max != -INFINITY) {
        sum = softmax_of_row(a, w, t->nk, max);
        if (a->attrs.dropout > 0)
            a->kernels->dropout(t->nk, index, a->attrs.random, a->attrs.dropout, w->s, w->s);
        sum_values(a, t, w->s, 1 / sum, out);
    }
    store_number(a, a->max + stat, max == -INFINITY ? 0 : max);
    store_number(a, a->inverse_sum + stat, sum == 0 ? 0 : 1 / sum);
}

static void decode_task(void *arg, int64_t begin, int64_t end, int worker) {
    const decode_pass *f = arg;
    const cti_attention_params *a = f->a;
    size_t used = 0;
    const decode_buffers w =
        decode_buffers_at(a, f->workspaces + (size_t)worker * f->workspace_bytes, &used);
    for (int64_t i = begin; i < end; i++) {
        const cti_attention_tile head = cti_attention_head(a, i / a->t);
        cti_attention_tile t = cti_attention_tile_part(&head, i % a->t, 1, 0, a->s);
        t.nk = cti_attention_causal_keys(a, &t);
        decode_query(a, &w, &t);
    }
}

bool cti_attention_decode(ct_context *context, const cti_attention_params *a) {
    const int64_t queries = a->batch * a->heads * a->t;
    const int64_t grain = cti_op_grain((a->s + 8) * (a->d + a->dv + 16) / 8);
    if (queries == 0) return true;
    decode_pass f = {.a = a};
    decode_buffers_at(a, NULL, &f.workspace_bytes);
    const size_t bytes = cti_bytes(cti_parallel_width(context), f.workspace_bytes);
    f.workspaces = cti_take(context, bytes);
    if (!f.workspaces) return false;
    if (context->observed) cti_attention_count(context, a, a->d + a->dv);
    cti_parallel(context, queries, grain, decode_task, &f);
    cti_give(context, f.workspaces, bytes);
    return true;
}
