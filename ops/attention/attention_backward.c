/* attention, fused, backward. P is computed again, a block at a time, from q, k and the statistics
 * that forward has saved; with D_i = <dO_i, O_i>:
 *
 *     dV += P^T dO,  dP = dO V^T,  dS = P (dP - D),
 *     dQ += scale dS K,  dK += scale dS^T Q,  dmask += dS
 *
 * (with dropout's factors M: dV += (P M)^T dO, dP = (dO V^T) M). Dao et al. 2022, arXiv:2205.14135.
 * Panels of scores are not transposed: a key is a lane.
 *
 * A pair is a range of queries against a range of keys of one key head; all five products of its
 * blocks are computed there. Two pairs that differ in both ranges write to different rows of dQ, dK
 * and dV. So a step runs, in parallel, one pair for each range of queries and head, and steps
 * follow each other: every gradient is summed in one order, whatever the threads.
 *
 *     key range       0 1 2 3
 *     query range 0   0 1 2 3   the step in which a pair runs
 *     query range 1   2 3 0 1   (causal: a pair above the diagonal does nothing)
 *
 * The query heads of one key head belong to one pair, as they share dK and dV. If a mask is
 * broadcast over batch or heads, many pairs add to the same elements of its gradient: these pairs
 * are one piece of work, or up to 8 pieces with a partial sum of the gradient each. */
#include "attention.h"

#include <string.h>

#include "../update/update.h"

enum { MASK_SUMS = 8 }; /* partial sums of a broadcast mask's gradient, at most */

typedef struct {
    cti_attention_params a;
    cti_attention_backward_schedule schedule;
    cti_attention_operand dout, dq, dk, dv; /* data NULL: not wanted */
    /* dq, dk and dv hold zeros or earlier steps' sums and are added to; else they are undefined. */
    bool accumulate;
    int64_t step;
    cti_attention_operand dmask;    /* of the first partial sum; data NULL: not wanted */
    int64_t mask_dims[4];           /* of dmask; 1 in a dim that is broadcast */
    int64_t mask_sums, mask_stride; /* how many partial sums, and elements from one to the next */
    /* How many batches, and how many key heads, add to one element of dmask: 1 or all. */
    int64_t shared_b, shared_h;
    bool shared_ranges; /* dmask is broadcast over T and S, so all pairs of a head add to it, too */
    char *workspaces;   /* one for each worker */
    size_t workspace_bytes;
} backward_pass;

/* A worker's buffers, for a block of queries and a range of keys. */
typedef struct {
    char *kt_panels; /* K^T (d, keys), packed in panels */
    char *vt_panels; /* V^T (dv, keys), packed in panels */
    char *kv;        /* V (keys, dv) while it is packed, then K (keys, d); unless read in place */
    char *q;         /* Q (queries, d), unless read in place */
    char *dout;      /* dO (queries, dv), unless read in place */
    /* Factors of products that round: Q, dO of a block of queries, K of each block of keys. */
    char *q_left, *q_right, *dout_left, *dout_right, *k_right;
    char *dq;      /* dQ (queries, d), unless summed in place */
    char *dk;      /* dK (keys, d), unless summed in place */
    char *dv;      /* dV (keys, dv), unless summed in place */
    char *dot;     /* D (queries) */
    char *s;       /* a panel (queries, nr): scores, then P */
    char *dp;      /* a panel (queries, nr): dP */
    char *ds;      /* dS against a block of keys (queries, k_block), rows ds_row apart */
    char *bias;    /* a panel (queries, nr) for masks; a row of dmask */
    char *ones;    /* (k_block): ones, from which the dropout kernel makes its factors */
    char *factors; /* dropout's factors against a block of keys (queries, k_block) */
} backward_buffers;

/* Not k_block, which is 128: rows 512 or 1,024 bytes apart begin in 8 or 4 L1d sets and cause
 * conflict misses. With one panel of padding attention of 4,096 tokens is 1.04 times as fast. */
static int64_t ds_row(const backward_pass *f) { return f->schedule.k_block + f->a.nr; }

static backward_buffers backward_buffers_at(const backward_pass *f, char *base, size_t *used) {
    const cti_attention_params *a = &f->a;
    const int64_t k_block = f->schedule.k_block, range = f->schedule.k_range;
    const int64_t padded = cti_round_up(range, a->nr);
    const int64_t queries = cti_min(CTI_ATTENTION_QUERY_BLOCK, f->schedule.q_range);
    const bool dropout = a->attrs.dropout > 0, masked = a->mask.data || a->key_mask.data;
    backward_buffers w;
    w.kt_panels = cti_attention_reserve_columns(a, base, used, padded, a->d_bytes);
    w.vt_panels = cti_attention_reserve_columns(a, base, used, padded, a->dv_bytes);
    w.q = cti_attention_reserve(a, base, used, queries, a->d);
    w.dout = cti_attention_reserve(a, base, used, queries, a->dv);
    w.kv = cti_attention_reserve(a, base, used, range, cti_max(a->d, a->dv));
    w.dq = cti_attention_reserve(a, base, used, queries, a->d);
    w.dk = cti_attention_reserve(a, base, used, range, a->d);
    w.dv = cti_attention_reserve(a, base, used, range, a->dv);
    w.dot = cti_attention_reserve(a, base, used, queries, 1);
    w.s = cti_attention_reserve(a, base, used, queries, a->nr);
    w.dp = cti_attention_reserve(a, base, used, queries, a->nr);
    w.ds = cti_attention_reserve(a, base, used, queries, ds_row(f));
    w.bias = cti_attention_reserve(a, base, used, masked ? queries : 0, a->nr);
    w.ones = cti_attention_reserve(a, base, used, dropout ? k_block : 0, 1);
    w.factors = cti_attention_reserve(a, base, used, dropout ? queries : 0, k_block);
    if (!a->rounded) return w;
    w.q_left = cti_attention_reserve_left(a, base, used, queries, a->d);
    w.q_right = cti_attention_reserve_right(a, base, used, a->d);
    w.dout_left = cti_attention_reserve_left(a, base, used, queries, a->dv);
    w.dout_right = cti_attention_reserve_right(a, base, used, a->dv);
    w.k_right = cti_attention_reserve_right(
        a, base, used, cti_ceil_div(range, k_block) * cti_round_up(a->d, a->nr));
    return w;
}

/* Where K's block of keys that begins at row `key` of the range is packed as a right factor. */
static char *k_right_at(const backward_pass *f, const backward_buffers *w, int64_t key) {
    const int64_t panels = cti_ceil_div(f->a.d, f->a.nr);
    return w->k_right + key / f->schedule.k_block * panels * cti_attention_right_panel(&f->a);
}

/* ---- sums of gradients ---- */

/* Rows of a gradient while they are summed: in the gradient itself, or in the workspace, from which
 * sum_end copies or adds them to the gradient. */
typedef struct {
    char *data;
    int64_t stride; /* from row to row, in elements */
    char *gradient; /* the same rows of the gradient; NULL: not wanted */
    int64_t gradient_stride;
} sum_rows;

static sum_rows sum_begin(const backward_pass *f, const cti_attention_operand *to, int64_t b,
                          int64_t h, int64_t first, int64_t n, int64_t cols, char *buffer) {
    char *gradient = to->data ? cti_attention_at(&f->a, to, b, h, first, 0) : NULL;
    const bool in_place =
        gradient && !f->accumulate && cti_attention_in_place(&f->a, n, to->stride[2], cols);
    return (sum_rows){.data = in_place ? gradient : buffer,
                      .stride = in_place ? to->stride[2] : cols,
                      .gradient = gradient,
                      .gradient_stride = to->stride[2]};
}

static char *sum_row(const backward_pass *f, const sum_rows *s, int64_t i) {
    return s->data + i * s->stride * f->a.size;
}

static void sum_clear(const backward_pass *f, const sum_rows *s, int64_t begin, int64_t end,
                      int64_t cols) {
    for (int64_t i = begin; i < end; i++) f->a.kernels->fill(cols, 0, sum_row(f, s, i));
}

static void sum_end(const backward_pass *f, const sum_rows *s, int64_t n, int64_t cols) {
    if (!s->gradient || s->gradient == s->data) return;
    f->a.kernels->copy2d(n, cols, s->data, s->stride, 1, s->gradient, s->gradient_stride, 1,
                         f->accumulate);
}

/* ---- a block of queries against a panel of keys ---- */

/* A range of one head's keys. */
typedef struct {
    int64_t k0;
    cti_attention_rows k; /* (keys, d); not rounded: a right factor */
    sum_rows dk, dv;      /* (keys, d), (keys, dv) */
    /* For each panel of keys (nr is at least 4): have its rows of dk and dv been written? */
    bool begun[CTI_ATTENTION_MOST_KEYS / 4];
} key_range;

/* A block of one head's queries. */
typedef struct {
    int64_t q0;
    int64_t mask_sum;                       /* the partial sum of dmask that it adds to */
    cti_attention_rows q, dout;             /* (queries, d), (queries, dv), left factors */
    cti_attention_rows q_right, dout_right; /* right factors; only if products are rounded */
    sum_rows dq;                            /* (queries, d) */
    bool begun;                             /* has dq been written? */
} query_block;

/* dmask += dS, summed over the dims in which the mask is broadcast: there dmask's stride is 0. */
static void add_mask_gradient(const backward_pass *f, const backward_buffers *w,
                              const cti_attention_tile *t, int64_t mask_sum, const char *ds) {
    const cti_kernels *kernels = f->a.kernels;
    const int64_t row = f->dmask.stride[2], col = f->dmask.stride[3];
    char *to = cti_attention_at(&f->a, &f->dmask, t->b, t->h, t->q0, t->k0) +
               mask_sum * f->mask_stride * f->a.size;
    if (row != 0) {
        kernels->copy2d(t->nq, t->nk, ds, ds_row(f), 1, to, row, col, true);
    } else {
        kernels->sum(t->nq, t->nk, ds, ds_row(f), w->bias);
        kernels->copy2d(1, t->nk, w->bias, t->nk, 1, to, t->nk, col, true);
    }
}

/* panel *= dropout's factors; `factors` is the tile's first one. */
static void drop_panel(const backward_pass *f, const cti_attention_tile *t, const char *factors,
                       char *panel) {
    const cti_attention_params *a = &f->a;
    for (int64_t i = 0; i < t->nq; i++) {
        char *row = panel + i * a->nr * a->size;
        a->kernels->mul(t->nk, row, 1, factors + i * f->schedule.k_block * a->size, 1, row);
    }
}

/* Copies the scores that attention_decode.c has saved into a panel. Lanes beyond the keys are
 * zeros, as after a product with a padded panel. */
static void load_scores(const cti_attention_params *a, const cti_attention_tile *t, int64_t width,
                        char *panel) {
    for (int64_t i = 0; i < t->nq; i++) {
        const char *scores =
            a->scores + cti_attention_stat_at(a, t->b, t->h, t->q0 + i) * a->s + t->k0 * a->size;
        char *row = panel + i * a->nr * a->size;
        memcpy(row, scores, (size_t)(t->nk * a->size));
        memset(row + t->nk * a->size, 0, (size_t)((width - t->nk) * a->size));
    }
}

/* w->s = the scores of a tile that is one panel; `key` is its first key, counted in the range. */
static void compute_scores(const cti_attention_params *a, const backward_buffers *w,
                           const cti_attention_tile *t, const cti_attention_rows *q, int64_t key) {
    const int64_t width = cti_attention_width(a, t->nk);
    if (a->scores) {
        load_scores(a, t, width, w->s);
    } else {
        const char *kt = w->kt_panels + key * a->d_bytes;
        cti_attention_panel_product(a, t->nq, width, a->d, q, kt, a->score_scale, w->s);
        cti_attention_mask_panel(a, t, false, w->s, w->bias, NULL);
    }
}

/* dV += P^T dO and dK += scale dS^T Q, of a tile that is one panel, with P in w->s; q and dout are
 * right factors. */
static void add_key_gradients(const backward_pass *f, const backward_buffers *w, key_range *keys,
                              const cti_attention_tile *t, const cti_attention_rows *q,
                              const cti_attention_rows *dout, const char *ds) {
    const cti_attention_params *a = &f->a;
    const int64_t key = t->k0 - keys->k0; /* in the range */
    bool *begun = &keys->begun[key / a->nr];
    char *dk = sum_row(f, &keys->dk, key), *dv = sum_row(f, &keys->dv, key);
    cti_attention_band band = {
        .data = w->s,
        .row = 1,
        .col = a->nr,
        .m = t->nk,
        .k = t->nq,
        .low = a->attrs.causal ? t->k0 - t->q0 : -t->nk, /* query q < key k0 + i: weight 0 */
        .high = t->nq,
    };
    cti_attention_band_product(a, &band, a->dv, dout, 1, *begun, dv, keys->dv.stride);
    band.data = ds;
    band.col = ds_row(f);
    cti_attention_band_product(a, &band, a->d, q, a->attrs.scale, *begun, dk, keys->dk.stride);
    *begun = true;
}

/* dS in w->ds, and dV, dK and dmask, of a tile that is one panel: at most nr keys, and the queries
 * of the block that attend to any of them. */
static void backprop_panel(const backward_pass *f, const backward_buffers *w, key_range *keys,
                           const query_block *queries, const cti_attention_tile *t) {
    const cti_attention_params *a = &f->a;
    const int64_t width = cti_attention_width(a, t->nk), k_block = f->schedule.k_block;
    const int64_t row = t->q0 - queries->q0; /* in the block of queries */
    const int64_t key = t->k0 - keys->k0;    /* in the range of keys */
    const int64_t col = key % k_block;       /* in the block of keys */
    const int64_t stat = cti_attention_stat_at(a, t->b, t->h, t->q0);
    cti_attention_rows q = cti_attention_rows_from(a, &queries->q, row);
    cti_attention_rows dout = cti_attention_rows_from(a, &queries->dout, row);
    const char *vt = w->vt_panels + key * a->dv_bytes;
    const char *dot = w->dot + row * a->size;
    const char *factors =
        a->attrs.dropout > 0 ? w->factors + (row * k_block + col) * a->size : NULL;
    char *ds = w->ds + (row * ds_row(f) + col) * a->size;
    compute_scores(a, w, t, &q, key);
    cti_attention_panel_product(a, t->nq, width, a->dv, &dout, vt, 1, w->dp);
    if (factors) drop_panel(f, t, factors, w->dp);
    a->kernels->attention.softmax_backward(t->nq, width, w->s, w->dp, a->max + stat,
                                           a->inverse_sum + stat, dot, ds, ds_row(f));
    if (factors) drop_panel(f, t, factors, w->s);
    if (f->dmask.data) add_mask_gradient(f, w, t, queries->mask_sum, ds);
    if (a->rounded) {
        q = cti_attention_rows_from(a, &queries->q_right, row);
        dout = cti_attention_rows_from(a, &queries->dout_right, row);
    }
    add_key_gradients(f, w, keys, t, &q, &dout, ds);
}

/* ---- a block of queries against a block of keys ---- */

/* dQ += scale dS K for queries from `first` on; queries before it attend to no key of the block.
 * Summed over all k_block keys at once: for the nr keys of one panel, loading and storing dQ would
 * take about as long as the product. */
static void add_query_gradients(const backward_pass *f, const backward_buffers *w,
                                const key_range *keys, query_block *queries,
                                const cti_attention_tile *t, int64_t first) {
    const cti_attention_params *a = &f->a;
    const int64_t key = t->k0 - keys->k0; /* in the range */
    const cti_attention_rows k =
        a->rounded
            ? (cti_attention_rows){.data = k_right_at(f, w, key), .stride = queries->q_right.stride}
            : cti_attention_rows_from(a, &keys->k, key);
    const cti_attention_band band = {
        .data = w->ds + first * ds_row(f) * a->size,
        .row = ds_row(f),
        .col = 1,
        .m = t->nq - first,
        .k = t->nk,
        .low = -t->nq,
        .high = a->attrs.causal ? t->q0 + first + 1 - t->k0 : t->nk, /* key after query: dS 0 */
    };
    if (!queries->begun) sum_clear(f, &queries->dq, 0, first, a->d);
    cti_attention_band_product(a, &band, a->d, &k, a->attrs.scale, queries->begun,
                               sum_row(f, &queries->dq, first), queries->dq.stride);
    queries->begun = true;
}

static void backprop_key_block(const backward_pass *f, const backward_buffers *w, key_range *keys,
                               query_block *queries, const cti_attention_tile *t) {
    const cti_attention_params *a = &f->a;
    const int64_t first = cti_attention_causal_hidden_queries(a, t);
    for (int64_t p = 0; p < t->nk; p += a->nr) {
        cti_attention_tile part = cti_attention_tile_part(t, 0, t->nq, p, a->nr);
        const int64_t hidden = cti_attention_causal_hidden_queries(a, &part);
        const int64_t skip = a->rounded ? hidden / a->row_unit * a->row_unit : hidden;
        if (hidden >= t->nq) break;
        /* The band product of dS reads these columns of a few rows before `skip` too, as one
         * micro-kernel computes them together: memory must hold zeros there. */
        const sum_rows columns = {.data = w->ds + p * a->size, .stride = ds_row(f)};
        sum_clear(f, &columns, cti_max(first, skip - a->mr_narrow), skip, part.nk);
        part.q0 += skip;
        part.nq -= skip;
        backprop_panel(f, w, keys, queries, &part);
    }
    add_query_gradients(f, w, keys, queries, t, first);
}

static void draw_dropout(const backward_pass *f, const backward_buffers *w,
                         const cti_attention_tile *t) {
    const cti_attention_params *a = &f->a;
    for (int64_t i = 0; i < t->nq; i++) {
        const int64_t query = (t->b * a->heads + t->h) * a->t + t->q0 + i; /* in (B, H, T) */
        const int64_t index = query * a->s + t->k0;                        /* in (B, H, T, S) */
        a->kernels->dropout(t->nk, index, a->attrs.random, a->attrs.dropout, w->ones,
                            w->factors + i * f->schedule.k_block * a->size);
    }
}

/* ---- a block of queries against a range of keys ---- */

/* Gradients of hidden keys, and of queries whose keys are all hidden, are set to +0 at the end. A
 * product may have written to such a row, if others of its tile are visible, and then it is -0 if
 * the scale is negative: the bits would depend on the sizes of tiles. */

/* Do masks hide all keys from the tile's query i? */
static bool attends_to_nothing(const cti_attention_params *a, const cti_attention_tile *t,
                               int64_t i) {
    if (!a->mask.data && !a->key_mask.data) return false; /* key 0 is visible to all */
    const char *inverse_sum = a->inverse_sum + cti_attention_stat_at(a, t->b, t->h, t->q0 + i);
    return a->size == sizeof(float) ? *(const float *)inverse_sum == 0
                                    : *(const double *)inverse_sum == 0;
}

static void backprop_query_block(const backward_pass *f, const backward_buffers *w, key_range *keys,
                                 const cti_attention_tile *t, int64_t mask_sum) {
    const cti_attention_params *a = &f->a;
    const int64_t end = cti_attention_causal_keys(a, t);
    query_block queries = {.q0 = t->q0, .mask_sum = mask_sum};
    queries.q = cti_attention_gather_queries(a, &a->q, t, a->d, w->q);
    queries.dout = cti_attention_gather_queries(a, &f->dout, t, a->dv, w->dout);
    queries.dq = sum_begin(f, &f->dq, t->b, t->h, t->q0, t->nq, a->d, w->dq);
    a->kernels->attention.row_dots(t->nq, a->dv, queries.dout.data, queries.dout.stride,
                                   cti_attention_at(a, &a->out, t->b, t->h, t->q0, 0),
                                   a->out.stride[2], w->dot);
    if (a->rounded) {
        queries.q_right = cti_attention_right(a, &queries.q, t->nq, a->d, w->q_right);
        queries.q = cti_attention_left(a, &queries.q, t->nq, a->d, w->q_left);
        queries.dout_right = cti_attention_right(a, &queries.dout, t->nq, a->dv, w->dout_right);
        queries.dout = cti_attention_left(a, &queries.dout, t->nq, a->dv, w->dout_left);
    }
    for (int64_t k = 0; k < end; k += f->schedule.k_block) {
        const cti_attention_tile part =
            cti_attention_tile_part(t, 0, t->nq, k, f->schedule.k_block);
        if (cti_attention_visible_keys(a, &part) == CTI_KEYS_NONE) continue;
        if (a->attrs.dropout > 0) draw_dropout(f, w, &part);
        backprop_key_block(f, w, keys, &queries, &part);
    }
    for (int64_t i = 0; i < t->nq; i++)
        if (!queries.begun || attends_to_nothing(a, t, i))
            sum_clear(f, &queries.dq, i, i + 1, a->d);
    sum_end(f, &queries.dq, t->nq, a->d);
}

/* ---- a pair ---- */

/* Packs the range's values, then its keys. Both may need w->kv for rows that are not read in place;
 * the keys come second and keep it, as dQ += dS K reads their rows. */
static void key_range_begin(const backward_pass *f, const backward_buffers *w,
                            const cti_attention_tile *t, key_range *keys) {
    const cti_attention_params *a = &f->a;
    const int64_t kv = t->h / a->group;
    const cti_attention_rows v = cti_attention_gather_keys(a, &a->v, t, a->dv, w->kv);
    cti_attention_pack_columns(a, a->dv, t->nk, v.data, 1, v.stride, w->vt_panels);
    keys->k0 = t->k0;
    keys->k = cti_attention_gather_keys(a, &a->k, t, a->d, w->kv);
    if (!a->scores)
        cti_attention_pack_columns(a, a->d, t->nk, keys->k.data, 1, keys->k.stride, w->kt_panels);
    for (int64_t i = 0; i < t->nk && a->rounded; i += f->schedule.k_block) {
        const cti_attention_rows rows = cti_attention_rows_from(a, &keys->k, i);
        cti_attention_right(a, &rows, cti_min(f->schedule.k_block, t->nk - i), a->d,
                            k_right_at(f, w, i));
    }
    keys->dk = sum_begin(f, &f->dk, t->b, kv, t->k0, t->nk, a->d, w->dk);
    keys->dv = sum_begin(f, &f->dv, t->b, kv, t->k0, t->nk, a->dv, w->dv);
}

static void key_range_end(const backward_pass *f, const cti_attention_tile *t,
                          const key_range *keys) {
    const cti_attention_params *a = &f->a;
    for (int64_t k = 0; k < t->nk; k++) {
        if (keys->begun[k / a->nr] && !cti_attention_key_is_masked(a, t->b, t->k0 + k)) continue;
        sum_clear(f, &keys->dk, k, k + 1, a->d);
        sum_clear(f, &keys->dv, k, k + 1, a->dv);
    }
    sum_end(f, &keys->dk, t->nk, a->d);
    sum_end(f, &keys->dv, t->nk, a->dv);
}

/* One pair: a range of queries, of all query heads that share key head kv, against the range of
 * keys that this step pairs it with. */
static void backprop_pair(const backward_pass *f, const backward_buffers *w, int64_t b, int64_t kv,
                          int64_t q_range, int64_t mask_sum) {
    const cti_attention_params *a = &f->a;
    const cti_attention_backward_schedule *s = &f->schedule;
    const int64_t k_range = cti_attention_keys_of_step(s, q_range, f->step);
    const cti_attention_tile head = {.b = b, .h = kv * a->group, .nq = a->t, .nk = a->s};
    cti_attention_tile t = cti_attention_tile_part(&head, q_range * s->q_range, s->q_range,
                                                   k_range * s->k_range, s->k_range);
    if (cti_attention_causal_keys(a, &t) <= 0) return;
    key_range keys = {0};
    key_range_begin(f, w, &t, &keys);
    for (; t.h < head.h + a->group; t.h++)
        for (int64_t q = 0; q < t.nq; q += CTI_ATTENTION_QUERY_BLOCK) {
            const cti_attention_tile part =
                cti_attention_tile_part(&t, q, CTI_ATTENTION_QUERY_BLOCK, 0, t.nk);
            backprop_query_block(f, w, &keys, &part, mask_sum);
        }
    key_range_end(f, &t, &keys);
}

/* ---- a step ---- */

/* How many ranges of queries a piece of work has. */
static int64_t ranges_of_piece(const backward_pass *f) {
    return f->shared_ranges ? f->schedule.q_ranges : 1;
}

/* A piece of work is one pair, or, if heads add to the same elements of dmask, all pairs that add
 * to one partial sum. Pieces are numbered by (element group of dmask, partial sum, range of
 * queries), the last one fastest; a group is the heads that share elements of dmask. */
static void pairs_task(void *arg, int64_t begin, int64_t end, int worker) {
    const backward_pass *f = arg;
    const cti_attention_params *a = &f->a;
    const int64_t ranges = ranges_of_piece(f), pieces = f->schedule.q_ranges / ranges;
    const int64_t group_heads = f->shared_b * f->shared_h; /* key heads of all batches in a group */
    const int64_t groups_h = a->kv_heads / f->shared_h;    /* groups along the heads */
    size_t used = 0;
    const backward_buffers w =
        backward_buffers_at(f, f->workspaces + (size_t)worker * f->workspace_bytes, &used);
    if (a->attrs.dropout > 0) a->kernels->fill(f->schedule.k_block, 1, w.ones);
    cti_attention_begin(a);
    for (int64_t item = begin; item < end; item++) {
        const int64_t q_range = item % pieces * ranges, sum = item / pieces % f->mask_sums;
        const int64_t group = item / pieces / f->mask_sums;
        const int64_t first = group_heads * sum / f->mask_sums;
        const int64_t last = group_heads * (sum + 1) / f->mask_sums;
        for (int64_t n = first; n < last; n++) {
            /* Either all batches are in one group, or each is in another: one summand is 0. The
             * same for heads. */
            const int64_t b = n / f->shared_h + group / groups_h;
            const int64_t kv = n % f->shared_h + group % groups_h;
            for (int64_t i = 0; i < ranges; i++) backprop_pair(f, &w, b, kv, q_range + i, sum);
        }
    }
    cti_attention_end(a);
}

static bool run_steps(ct_context *context, backward_pass *f) {
    const cti_attention_params *a = &f->a;
    const int64_t groups = a->batch / f->shared_b * (a->kv_heads / f->shared_h);
    const int64_t grain = f->schedule.grain;
    const int64_t items = groups * f->mask_sums * (f->schedule.q_ranges / ranges_of_piece(f));
    backward_buffers_at(f, NULL, &f->workspace_bytes);
    const size_t bytes =
        cti_bytes(items > grain ? cti_parallel_width(context) : 1, f->workspace_bytes);
    f->workspaces = cti_take(context, bytes);
    if (!f->workspaces) return false;
    if (context->observed) cti_attention_count(context, a, 2 * a->dv + (a->scores ? 2 : 3) * a->d);
    for (f->step = 0; f->step < f->schedule.k_ranges; f->step++)
        cti_parallel(context, items, grain, pairs_task, f);
    cti_give(context, f->workspaces, bytes);
    return true;
}

/* ---- gradients ---- */

/* Sets shared_b, shared_h, shared_ranges and mask_sums, and makes the partial sums, which are
 * zeros: (mask_sums, the mask's dims). *sums is NULL if the mask wants no gradient. False: an
 * error. */
static bool new_mask_sums(const ct_call *c, backward_pass *f, bool empty, ct_tensor **sums) {
    const cti_attention_params *a = &f->a;
    const ct_tensor *mask = c->in[CTI_ATTENTION_MASK];
    int64_t *dims = f->mask_dims;
    *sums = NULL;
    f->shared_b = f->shared_h = f->mask_sums = 1;
    if (!c->wants[CTI_ATTENTION_MASK]) return true;
    for (int d = 0; d < 4; d++)
        dims[d] = d < 4 - mask->shape.ndim ? 1 : mask->shape.dim[d - 4 + mask->shape.ndim];
    if (!empty) {
        if (dims[0] == 1) f->shared_b = a->batch;
        if (dims[1] == 1) f->shared_h = a->kv_heads;
        f->shared_ranges = dims[2] == 1 && dims[3] == 1;
        f->mask_sums = cti_min(MASK_SUMS, f->shared_b * f->shared_h);
    }
    *sums = ct_zeros(c->context, mask->dtype,
                     CT_SHAPE(f->mask_sums, dims[0], dims[1], dims[2], dims[3]));
    ct_tensor *first = *sums ? ct_select(*sums, 0, 0) : NULL;
    if (!first) return false;
    f->dmask = cti_attention_operand_of(first, CT_SHAPE(a->batch, a->heads, a->t, a->s));
    f->mask_stride = (*sums)->stride[0];
    return true;
}

/* A gradient with x's layout in memory; its values are zeros, or undefined. */
static ct_tensor *new_gradient(const ct_call *c, const ct_tensor *x, bool zero) {
    ct_tensor *y = cti_attention_new_like(c, x, x->shape.dim[3]);
    if (!y || !zero) return y;
    ct_tensor *dense = y->contiguous ? y : cti_tensor_view(y, y->data, CT_SHAPE(y->numel), NULL);
    return cti_op_fill(dense, 0) ? y : NULL;
}

/* Makes the gradients of q, k and v, and sets f->dq, dk and dv to them. False: an error. */
static bool new_gradients(const ct_call *c, backward_pass *f, const cti_attention_tensors *x,
                          bool zero, ct_tensor **grad) {
    const int64_t heads = f->a.attrs.packed_heads;
    ct_tensor *const of[3] = {x->q, x->k, x->v};
    cti_attention_operand *to[3] = {&f->dq, &f->dk, &f->dv};
    ct_tensor *own[3] = {NULL, NULL, NULL}; /* with a dim of heads */
    if (heads && c->wants[CTI_ATTENTION_Q]) {
        const ct_tensor *in = c->in[CTI_ATTENTION_Q];
        grad[0] =
            zero ? ct_zeros(c->context, in->dtype, in->shape) : cti_op_new(c, in->dtype, in->shape);
        if (!grad[0] || !cti_attention_unpack(grad[0], heads, own)) return false;
    } else if (!heads) {
        for (int i = 0; i < 3; i++) {
            if (!c->wants[i]) continue;
            own[i] = grad[i] = new_gradient(c, of[i], zero);
            if (!own[i]) return false;
        }
    }
    for (int i = 0; i < 3; i++)
        if (own[i]) *to[i] = cti_attention_operand_of(own[i], own[i]->shape);
    return true;
}

/* ---- the op ---- */

/* Sets x to the call's inputs and to what forward has computed, and returns dO as (B, H, T, dv).
 * NULL: an error. */
static ct_tensor *outputs_of(const ct_call *c, ct_tensor *dout, cti_attention_tensors *x) {
    const int64_t heads = ((const cti_attention_attrs *)c->attrs)->packed_heads;
    if (!cti_attention_tensors_of(c, x)) return NULL;
    x->stats = c->n_outs > 1 ? c->outs[1] : c->saved[0];
    x->scores = c->saved[1];
    x->out = heads ? cti_op_heads(c->out, heads, 0, c->out->shape.dim[2]) : c->out;
    return !x->out ? NULL : heads ? cti_op_heads(dout, heads, 0, dout->shape.dim[2]) : dout;
}

/* No gradient comes for the statistics: cti_attention_fused hands them out detached. */
bool cti_attention_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    cti_attention_tensors x;
    ct_tensor *dout = outputs_of(c, cotangents[0], &x), *mask_sums;
    if (!dout) return false;
    backward_pass f = {.a = cti_attention_params_of(c, &x),
                       .dout = cti_attention_operand_of(dout, dout->shape)};
    const bool empty = c->out->numel == 0 || f.a.s == 0; /* then all gradients are zeros */
    if (!empty) f.schedule = cti_attention_schedule_backward(&f.a);
    f.accumulate = !empty && f.schedule.k_ranges > 1; /* if it is 1, so is q_ranges */
    if (!new_gradients(c, &f, &x, empty || f.accumulate, grad) ||
        !new_mask_sums(c, &f, empty, &mask_sums))
        return false;
    if (!empty && !run_steps(c->context, &f)) return false;
    if (!mask_sums) return true;
    grad[CTI_ATTENTION_MASK] =
        ct_view(ct_sum(mask_sums, CT_DIMS(0), false), c->in[CTI_ATTENTION_MASK]->shape);
    return grad[CTI_ATTENTION_MASK] != NULL;
}
