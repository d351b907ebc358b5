/* attention of one or two queries, as in decoding. Each key is used once or twice, too rarely to be
 * worth packing. So each query is a row times a matrix: keys and values are read in place, also
 * if they are bf16, and all scores are one row of the workspace.
 *
 *     p = 2^(s - max),  out = p v / sum
 *
 * gemv sums over d in another order than the micro-kernel that backward uses for tiles. Backward's
 * scores would be rounded differently, and for a large score the weight 2^(s - max) would be off by
 * that rounding. So the scores, S for each query, are saved for backward. */
#include "attention.h"
#include "../../src/kernels/attention_kernels.h"
#include "../../src/kernels/elementwise.h"
#include "../../src/kernels/products.h"
#include "../../src/kernels/rows.h"
#include "../../src/kernels/unary.h"

#include <math.h>
#include <string.h>

#include "attention_hidden.h"
#include "attention_masks.h"
#include "attention_workspace.h"

/* A worker's buffers. The number of keys is rounded up to a multiple of nr, because kernels read a
 * row of scores as a panel of keys / nr rows. */
typedef struct {
    char *s;     /* (keys): scores, then weights */
    char *bias;  /* (keys) */
    char *max;   /* (nr): one number in every lane */
    char *sum;   /* (nr): partial sums */
    char *clean; /* (kc, dv): values with zeros in place of hidden rows; reserved only if
                  * has_hidden_pairs */
} decode_buffers;
_Static_assert(sizeof(decode_buffers) <= CTI_ATTENTION_BUFFERS * sizeof(char *), "buffers");

static const cti_gemm_kernels *vector_kernels(const cti_attention_params *a) {
    return a->keys_dtype == CT_BF16 ? a->kernels->gemm_of_bf16 : a->kernels->gemm;
}

/* Returns whether a key inside a query's range may be hidden by something other than the key mask.
 * Diagonals and lengths cannot: they only limit the range. */
static bool has_hidden_pairs(const cti_attention_params *a) {
    return a->mask.data || a->bias.data || a->segments;
}

/* The size follows from the capacity of a KV cache, the distance from one head's keys to the next
 * head's, not from its present length: so every token takes a workspace of the same size. */
static void decode_reserve(const void *call, cti_attention_workspace *space, void *buffers) {
    const cti_attention_params *a = call;
    const int64_t row = a->k.stride[2], capacity = row > 0 ? a->k.stride[1] / row : 0;
    const int64_t keys = cti_round_up(cti_max(a->s, capacity), a->nr);
    decode_buffers *w = buffers;
    w->s = cti_attention_reserve(space, keys, 1);
    w->bias = cti_attention_reserve(space, keys, 1);
    w->max = cti_attention_reserve(space, a->nr, 1);
    w->sum = cti_attention_reserve(space, a->nr, 1);
    if (has_hidden_pairs(a))
        w->clean = cti_attention_reserve(space, cti_min(vector_kernels(a)->kc, keys), a->dv);
}

/* A vector of k numbers times a matrix (k, n) of keys or values, whose element (i, j) is at i row +
 * j col. */
typedef struct {
    int64_t k, n;
    const char *x, *b;
    int64_t x_stride, row, col;
} vector_matrix;

/* y (n) = alpha x B, or y += alpha x B with accumulate. */
static void vector_product(const cti_attention_params *a, const vector_matrix *p, double alpha,
                           bool accumulate, char *y) {
    const cti_gemm_kernels *f = vector_kernels(a);
    for (int64_t i = 0; i < p->k; i += f->kc)
        f->gemv(&(cti_gemm_rows){.m = 1,
                                 .n = p->n,
                                 .k = cti_min(f->kc, p->k - i),
                                 .a_col = p->x_stride,
                                 .b_row = p->row,
                                 .b_col = p->col,
                                 .col = 1,
                                 .a = p->x + i * p->x_stride * a->size,
                                 .b = p->b + i * p->row * a->keys_size,
                                 .c = y,
                                 .alpha = alpha,
                                 .add = accumulate || i > 0});
}

/* w->s = score + bias, masked, in units of log 2. */
static void score(const cti_attention_params *a, const decode_buffers *w,
                  const cti_attention_tile *t) {
    a->kernels->elementwise->fill(cti_round_up(t->nk, a->nr), -INFINITY, w->s);
    if (a->d > 0) {
        const vector_matrix qk = {.k = a->d,
                                  .n = t->nk,
                                  .x = cti_attention_at(a, &a->q, t->b, t->h, t->q0, 0),
                                  .x_stride = a->q.stride[3],
                                  .b = cti_attention_key_at(a, &a->k, t->b, t->h, t->k0),
                                  .row = a->k.stride[3],
                                  .col = a->k.stride[2]};
        vector_product(a, &qk, a->score_scale, false, w->s);
    } else {
        a->kernels->elementwise->fill(t->nk, 0, w->s);
    }
    if (a->cap > 0) cti_attention_cap_panel(a, 1, t->nk, w->s, NULL);
    cti_attention_mask_row(a, t, w->s, w->bias);
}

static void keep_scores(const cti_attention_params *a, const decode_buffers *w,
                        const cti_attention_tile *t) {
    char *to = a->scores + cti_attention_query(a, t, 0) * a->s * a->size;
    const int64_t end = t->k0 + t->nk;
    if (t->k0 > 0) a->kernels->elementwise->fill(t->k0, -INFINITY, to);
    memcpy(to + t->k0 * a->size, w->s, (size_t)(t->nk * a->size));
    if (end < a->s) a->kernels->elementwise->fill(a->s - end, -INFINITY, to + end * a->size);
}

/* Returns the first of the tile's keys, from `key` on, that the key mask hides (masked) or does not
 * hide; t->nk if there is none. */
static int64_t find_key(const cti_attention_params *a, const cti_attention_tile *t, int64_t key,
                        bool masked) {
    while (key < t->nk && cti_attention_key_is_masked(a, t->b, t->k0 + key) != masked) key++;
    return key;
}

/* Computes vector_product without the rows whose factor is 0, which may be NaN
 * (attention_hidden.h). If all rows are finite it has the same bits. */
static void clean_product(const cti_attention_params *a, const decode_buffers *w,
                          const vector_matrix *p, double alpha, bool accumulate, char *y) {
    const int64_t kc = vector_kernels(a)->kc;
    for (int64_t i = 0; i < p->k; i += kc) {
        vector_matrix part = *p;
        part.k = cti_min(kc, p->k - i);
        part.x += i * p->x_stride * a->size;
        part.b += i * p->row * a->keys_size;
        cti_hidden_leave_out(a, part.k, part.n, part.x, part.b, &part.row, &part.col, w->clean);
        part.b = w->clean;
        vector_product(a, &part, alpha, accumulate || i > 0, y);
    }
}

/* out = p v / sum, with one product for each run of keys that the key mask does not hide, because
 * values of hidden keys may be NaN. If there are several runs, the total is scaled once at the end:
 * scaling each would round each. With `clean` no value of a key of weight 0 is read. */
static void sum_values(const cti_attention_params *a, const decode_buffers *w,
                       const cti_attention_tile *t, bool clean, double inverse_sum, char *out) {
    const bool all = !a->key_mask.data; /* no key is hidden: lengths end the tile */
    int64_t begin = all ? 0 : find_key(a, t, 0, false);
    int64_t end = all ? t->nk : find_key(a, t, begin, true);
    const bool one_run = find_key(a, t, end, false) == t->nk;
    const double alpha = one_run ? inverse_sum : 1;
    for (bool accumulate = false; begin < t->nk; accumulate = true) {
        const vector_matrix pv = {.k = end - begin,
                                  .n = a->dv,
                                  .x = w->s + begin * a->size,
                                  .x_stride = 1,
                                  .b = cti_attention_key_at(a, &a->v, t->b, t->h, t->k0 + begin),
                                  .row = a->v.stride[2],
                                  .col = a->v.stride[3]};
        if (clean) clean_product(a, w, &pv, alpha, accumulate, out);
        else vector_product(a, &pv, alpha, accumulate, out);
        begin = find_key(a, t, end, false);
        end = find_key(a, t, begin, true);
    }
    if (!one_run) a->kernels->unary->scale(a->dv, out, inverse_sum, out);
}

/* Turns the row of scores into weights and returns their sum. The kernel reads the row as a panel:
 * every lane is given the maximum of the whole row, and its sum is a partial sum. */
static double softmax_of_row(const cti_attention_params *a, const decode_buffers *w, int64_t n,
                             double max) {
    a->kernels->elementwise->fill(a->nr, max, w->max);
    a->kernels->elementwise->fill(a->nr, 0, w->sum);
    a->kernels->attention->online_softmax_update(cti_ceil_div(n, a->nr), a->nr, w->s, w->max,
                                                 w->sum, 0, NULL);
    a->kernels->rows->sum(a->nr, 1, w->sum, 1, w->bias);
    return cti_real_get(a->dtype, w->bias, 0);
}

static void decode_query(const cti_attention_params *a, const decode_buffers *w,
                         const cti_attention_tile *t) {
    const int64_t query = cti_attention_query(a, t, 0);
    char *out = cti_attention_at(a, &a->out, t->b, t->h, t->q0, 0);
    double max = -INFINITY, sum = 0;
    if (t->nk > 0) {
        score(a, w, t);
        a->kernels->rows->max(t->nk, 1, w->s, 1, w->max);
        max = cti_real_get(a->dtype, w->max, 0);
        if (a->scores) keep_scores(a, w, t);
    }
    a->kernels->elementwise->fill(a->dv, 0, out);
    if (max != -INFINITY) {
        sum = softmax_of_row(a, w, t->nk, max);
        if (a->attrs.dropout > 0) cti_attention_dropout(a, t, w->s, t->nk, w->s);
        sum_values(a, w, t, false, 1 / sum, out);
        /* A NaN may come from a hidden value (attention_hidden.h, invariant 5). */
        if (has_hidden_pairs(a) && a->kernels->rows->has_nan(a->dv, out)) {
            a->kernels->elementwise->fill(a->dv, 0, out);
            sum_values(a, w, t, true, 1 / sum, out);
        }
    }
    cti_real_set(a->stats_dtype, a->max, query, max == -INFINITY ? 0 : max);
    cti_real_set(a->stats_dtype, a->inverse_sum, query, sum == 0 ? 0 : 1 / sum);
    CTI_ASSERT(cti_attention_stats_are_sound(a, t, 0));
}

/* A task is a query. */
static void decode_task(const void *call, const void *buffers, int64_t task) {
    const cti_attention_params *a = call;
    const cti_attention_tile head = cti_attention_head(a, task / a->t);
    cti_attention_tile t = cti_attention_subtile(&head, task % a->t, 1, 0, a->s);
    const cti_attention_span seen = cti_attention_keys_of(a, &t);
    t.k0 = seen.end > seen.begin ? seen.begin : 0;
    t.nk = cti_max(0, seen.end - seen.begin);
    decode_query(a, buffers, &t);
}

bool cti_attention_decode(ct_context *context, const cti_attention_params *a) {
    const int64_t queries = a->batch * a->heads * a->t;
    CTI_ASSERT(!a->rounded);
    if (queries == 0) return true;
    const cti_attention_pass pass = {
        .a = a,
        .call = a,
        .reserve = decode_reserve,
        .run = decode_task,
        .tasks = queries,
        .grain = cti_op_grain((a->s + 8) * (a->d + a->dv + 16) / 8),
        .steps = 1,
        .steady = true,
        .flops = a->d + a->dv,
    };
    return cti_attention_run(context, &pass);
}
