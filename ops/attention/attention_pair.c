/* A pair of attention's backward, from the inside outwards: a block of queries against a panel of
 * keys, against a block of keys, and against the range of keys. Unlike in forward, panels of scores
 * are not transposed: a key is a lane. */
#include "attention_pair.h"
#include "../../src/kernels/attention_kernels.h"
#include "../../src/kernels/elementwise.h"
#include "../../src/kernels/rows.h"
#include "../../src/kernels/unary.h"

#include <math.h>
#include <string.h>

#include "attention_masks.h"
#include "attention_products.h"
#include "attention_sums.h"

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
    char *bias;    /* a panel (queries, nr) for masks; a row of dbias */
    char *ones;    /* (k_block): ones, from which the dropout kernel makes its factors */
    char *factors; /* dropout's factors against a block of keys (queries, k_block) */
    char *tanh;    /* a panel (queries, nr): tanh of the scores, with a softcap */
    char *hidden;  /* a panel (queries, nr): -inf for the pairs that are hidden */
    cti_hidden_buffers k_guard, q_guard, dout_guard;
} pair_buffers;
_Static_assert(sizeof(pair_buffers) <= CTI_ATTENTION_BUFFERS * sizeof(char *), "buffers");

/* Returns the distance of two rows of dS, in elements. It is not k_block, which is 128: rows 512 or
 * 1,024 bytes apart begin in 8 or 4 L1d sets and cause conflict misses. With one panel of padding
 * attention of 4,096 tokens is 1.04 times as fast. */
static int64_t ds_row(const cti_attention_backward_call *f) {
    return f->schedule.k_block + f->a.nr;
}

void cti_attention_pair_reserve(const void *call, cti_attention_workspace *space, void *buffers) {
    const cti_attention_backward_call *f = call;
    const cti_attention_params *a = &f->a;
    const int64_t k_block = f->schedule.k_block, range = f->schedule.k_range;
    const int64_t padded = cti_round_up(range, a->nr);
    const int64_t queries = cti_min(CTI_ATTENTION_QUERY_BLOCK, f->schedule.q_range);
    const bool dropout = a->attrs.dropout > 0, guarded = a->guarded;
    pair_buffers *w = buffers;
    w->kt_panels = cti_attention_reserve_columns(space, padded, a->d_bytes);
    w->vt_panels = cti_attention_reserve_columns(space, padded, a->dv_bytes);
    w->q = cti_attention_reserve(space, queries, a->d);
    w->dout = cti_attention_reserve(space, queries, a->dv);
    w->kv = cti_attention_reserve(space, range, cti_max(a->d, a->dv));
    w->dq = cti_attention_reserve(space, queries, a->d);
    w->dk = cti_attention_reserve(space, range, a->d);
    w->dv = cti_attention_reserve(space, range, a->dv);
    w->dot = cti_attention_reserve(space, queries, 1);
    w->s = cti_attention_reserve(space, queries, a->nr);
    w->dp = cti_attention_reserve(space, queries, a->nr);
    w->ds = cti_attention_reserve(space, queries, ds_row(f));
    w->bias = cti_attention_reserve(space, a->masked ? queries : 0, a->nr);
    w->ones = cti_attention_reserve_ones(space, dropout ? k_block : 0);
    w->factors = cti_attention_reserve(space, dropout ? queries : 0, k_block);
    if (a->cap > 0) w->tanh = cti_attention_reserve(space, queries, a->nr);
    if (guarded) {
        w->hidden = cti_attention_reserve(space, queries, a->nr);
        w->k_guard = cti_attention_reserve_guard(space, range, a->d);
        w->q_guard = cti_attention_reserve_guard(space, queries, a->d);
        w->dout_guard = cti_attention_reserve_guard(space, queries, a->dv);
    }
    if (!a->rounded) return;
    w->q_left = cti_attention_reserve_left(space, queries, a->d);
    w->q_right = cti_attention_reserve_right(space, a->d);
    w->dout_left = cti_attention_reserve_left(space, queries, a->dv);
    w->dout_right = cti_attention_reserve_right(space, a->dv);
    w->k_right = cti_attention_reserve_right(space, cti_ceil_div(range, k_block) *
                                                        cti_round_up(a->d, a->nr));
}

/* Returns the place of a block of keys, packed as a right factor of K. The block begins at row
 * `key` of the range. */
static char *k_right_at(const cti_attention_backward_call *f, const pair_buffers *w, int64_t key) {
    const int64_t panels = cti_ceil_div(f->a.d, f->a.nr);
    return w->k_right + key / f->schedule.k_block * panels * cti_attention_right_panel(&f->a);
}

/* ---- a block of queries against a panel of keys ---- */

enum { FEWEST_LANES = 4 }; /* nr is not smaller */

/* A range of one head's keys. */
typedef struct {
    int64_t k0;
    cti_attention_rows k;     /* (keys, d); a right factor if products do not round */
    cti_hidden_rows hidden;   /* the keys that are not finite */
    cti_attention_sum dk, dv; /* (keys, d), (keys, dv) */
    /* for each panel of nr keys, whether its rows of dk and dv have been written */
    bool begun[CTI_ATTENTION_MOST_KEYS / FEWEST_LANES];
} key_range;

/* A block of one head's queries. */
typedef struct {
    int64_t q0;
    int64_t bias_sum;           /* the partial sum of dbias to which it adds */
    cti_attention_rows q, dout; /* (queries, d), (queries, dv), left factors */
    /* The right factors of both: q and dout, or right_q and right_dout if these must differ. They
     * are pointers, because a copy of a struct that has just been written is a store-forwarding
     * stall (docs/design.md). */
    const cti_attention_rows *q_right, *dout_right;
    cti_attention_rows right_q, right_dout;
    cti_hidden_rows q_hidden, dout_hidden; /* the rows of both that are not finite */
    bool clears_pairs;    /* whether P, dS or their factors may be NaN for a hidden pair */
    cti_attention_sum dq; /* (queries, d) */
    bool begun;           /* whether dq has been written */
} query_block;

/* dbias += dS. dS is summed over the dims in which the bias is broadcast; dbias's stride is 0 in
 * these dims. */
static void add_bias_gradient(const cti_attention_backward_call *f, const pair_buffers *w,
                              const cti_attention_tile *t, int64_t bias_sum, const char *ds) {
    const cti_kernels *kernels = f->a.kernels;
    const int64_t row = f->dbias.stride[2], col = f->dbias.stride[3];
    char *to = cti_attention_at(&f->a, &f->dbias, t->b, t->h, t->q0, t->k0) +
               bias_sum * f->bias_stride * f->a.size;
    if (row != 0) {
        kernels->elementwise->copy2d(t->nq, t->nk, ds, ds_row(f), 1, to, row, col, true);
    } else {
        kernels->rows->sum(t->nq, t->nk, ds, ds_row(f), w->bias);
        kernels->elementwise->copy2d(1, t->nk, w->bias, t->nk, 1, to, t->nk, col, true);
    }
}

/* panel *= dropout's factors; `factors` is the tile's first one. */
static void drop_panel(const cti_attention_backward_call *f, const cti_attention_tile *t,
                       const char *factors, char *panel) {
    const cti_attention_params *a = &f->a;
    for (int64_t i = 0; i < t->nq; i++) {
        char *row = panel + i * a->nr * a->size;
        a->kernels->elementwise->mul(t->nk, row, 1, factors + i * f->schedule.k_block * a->size, 1,
                                     row);
    }
}

/* Copies the scores that attention_decode.c has saved into a panel. Lanes beyond the keys become
 * zeros; a product with a padded panel leaves zeros in them too. */
static void load_scores(const cti_attention_params *a, const cti_attention_tile *t, int64_t width,
                        char *panel) {
    for (int64_t i = 0; i < t->nq; i++) {
        const char *scores = a->scores + (cti_attention_query(a, t, i) * a->s + t->k0) * a->size;
        char *row = panel + i * a->nr * a->size;
        memcpy(row, scores, (size_t)(t->nk * a->size));
        memset(row + t->nk * a->size, 0, (size_t)((width - t->nk) * a->size));
    }
}

/* w->s = the scores of a tile that is one panel; `key` is its first key, counted in the range. */
static void compute_scores(const cti_attention_params *a, const pair_buffers *w,
                           const cti_attention_tile *t, const cti_attention_rows *q, int64_t key) {
    const int64_t width = cti_attention_width(a, t->nk);
    if (a->scores) {
        load_scores(a, t, width, w->s);
    } else {
        const char *kt = w->kt_panels + key * a->d_bytes;
        cti_attention_panel_product(a, t->nq, width, a->d, q, kt, a->score_scale, w->s);
        if (a->cap > 0) cti_attention_cap_panel(a, t->nq, width, w->s, w->tanh);
        cti_attention_mask_panel(a, t, false, w->s, w->bias, NULL);
    }
}

/* Sets P and dS of hidden pairs to 0, which they are already if all numbers are finite
 * (attention_hidden.h, invariant 2). */
static void clear_hidden_pairs(const cti_attention_backward_call *f, const pair_buffers *w,
                               const cti_attention_tile *t, char *ds) {
    const cti_attention_params *a = &f->a;
    for (int64_t i = 0; i < t->nq; i++)
        a->kernels->elementwise->fill(a->nr, 0, w->hidden + i * a->nr * a->size);
    cti_attention_mask_panel(a, t, false, w->hidden, w->bias, NULL);
    cti_hidden_clear_pairs(a, t, w->hidden, w->s, ds, ds_row(f));
}

/* dS *= 1 - tanh^2 */
static void uncap(const cti_attention_backward_call *f, const pair_buffers *w,
                  const cti_attention_tile *t, char *ds) {
    const cti_attention_params *a = &f->a;
    for (int64_t i = 0; i < t->nq; i++) {
        char *row = ds + i * ds_row(f) * a->size;
        a->kernels->unary->tanh_backward(t->nk, w->tanh + i * a->nr * a->size, row, row);
    }
}

/* dV += P^T dO and dK += scale dS^T Q, of a tile that is one panel, with P in w->s. */
static void add_key_gradients(const cti_attention_backward_call *f, const pair_buffers *w,
                              key_range *keys, const query_block *queries,
                              const cti_attention_tile *t, const char *ds) {
    const cti_attention_params *a = &f->a;
    const int64_t key = t->k0 - keys->k0;    /* in the range */
    const int64_t row = t->q0 - queries->q0; /* in the block of queries */
    const cti_attention_rows q = cti_attention_rows_from(a, queries->q_right, row);
    const cti_attention_rows dout = cti_attention_rows_from(a, queries->dout_right, row);
    CTI_ASSERT(key % a->nr == 0 && key / a->nr < COUNT(keys->begun));
    bool *begun = &keys->begun[key / a->nr];
    char *dk = cti_attention_sum_row(f, &keys->dk, key),
         *dv = cti_attention_sum_row(f, &keys->dv, key);
    const cti_attention_diagonals seen = cti_attention_transposed(cti_attention_diagonals_of(a, t));
    cti_attention_band band = {.data = w->s,
                               .row = 1,
                               .col = a->nr,
                               .m = t->nk,
                               .k = t->nq,
                               .low = seen.low,
                               .high = seen.high,
                               .hidden = &queries->dout_hidden,
                               .hidden_first = row};
    cti_attention_band_product(a, &band, a->dv, &dout, 1, *begun, dv, keys->dv.stride);
    band.data = ds;
    band.col = ds_row(f);
    band.hidden = &queries->q_hidden;
    cti_attention_band_product(a, &band, a->d, &q, a->attrs.scale, *begun, dk, keys->dk.stride);
    *begun = true;
}

/* Computes dS, into w->ds, and adds to dV, dK and dbias, for a tile that is one panel: at most nr
 * keys, and the queries of the block that attend to any of them. */
static void backprop_panel(const cti_attention_backward_call *f, const pair_buffers *w,
                           key_range *keys, const query_block *queries,
                           const cti_attention_tile *t) {
    const cti_attention_params *a = &f->a;
    const int64_t width = cti_attention_width(a, t->nk), k_block = f->schedule.k_block;
    const int64_t row = t->q0 - queries->q0; /* in the block of queries */
    const int64_t key = t->k0 - keys->k0;    /* in the range of keys */
    const int64_t col = key % k_block;       /* in the block of keys */
    const int64_t stat = cti_attention_query(a, t, 0) * a->stat_size;
    const cti_attention_rows q = cti_attention_rows_from(a, &queries->q, row);
    const cti_attention_rows dout = cti_attention_rows_from(a, &queries->dout, row);
    CTI_ASSERT(row % a->row_unit == 0 && t->nk <= a->nr);
    const char *vt = w->vt_panels + key * a->dv_bytes;
    const char *dot = w->dot + row * a->size;
    const char *factors =
        a->attrs.dropout > 0 ? w->factors + (row * k_block + col) * a->size : NULL;
    char *ds = w->ds + (row * ds_row(f) + col) * a->size;
    compute_scores(a, w, t, &q, key);
    cti_attention_panel_product(a, t->nq, width, a->dv, &dout, vt, 1, w->dp);
    if (factors) drop_panel(f, t, factors, w->dp);
    a->kernels->attention->softmax_backward(t->nq, width, w->s, w->dp, a->max + stat,
                                            a->inverse_sum + stat, dot, ds, ds_row(f));
    if (factors) drop_panel(f, t, factors, w->s);
    if (queries->clears_pairs) clear_hidden_pairs(f, w, t, ds);
    if (f->dbias.data) add_bias_gradient(f, w, t, queries->bias_sum, ds);
    if (a->cap > 0) uncap(f, w, t, ds);
    if (a->cap > 0 && queries->clears_pairs) clear_hidden_pairs(f, w, t, ds); /* tanh may be NaN */
    add_key_gradients(f, w, keys, queries, t, ds);
}

/* ---- a block of queries against a block of keys ---- */

/* dQ += scale dS K for the queries of `seen`; the other queries see no key of the block. The sum is
 * over all k_block keys at once: for the nr keys of one panel, loading and storing dQ would take
 * about as long as the product. */
static void add_query_gradients(const cti_attention_backward_call *f, const pair_buffers *w,
                                const key_range *keys, query_block *queries,
                                const cti_attention_tile *t, cti_attention_span seen) {
    const cti_attention_params *a = &f->a;
    const int64_t key = t->k0 - keys->k0; /* in the range */
    const cti_attention_rows k = a->rounded
                                     ? (cti_attention_rows){.data = k_right_at(f, w, key),
                                                            .stride = queries->q_right->stride}
                                     : cti_attention_rows_from(a, &keys->k, key);
    const cti_attention_tile rows =
        cti_attention_subtile(t, seen.begin, seen.end - seen.begin, 0, t->nk);
    const cti_attention_diagonals visible = cti_attention_diagonals_of(a, &rows);
    const cti_attention_band band = {.data = w->ds + seen.begin * ds_row(f) * a->size,
                                     .row = ds_row(f),
                                     .col = 1,
                                     .m = rows.nq,
                                     .k = rows.nk,
                                     .low = visible.low,
                                     .high = visible.high,
                                     .hidden = &keys->hidden,
                                     .hidden_first = key};
    if (!queries->begun) {
        cti_attention_sum_clear(f, &queries->dq, 0, seen.begin, a->d);
        cti_attention_sum_clear(f, &queries->dq, seen.end, t->nq, a->d);
    }
    cti_attention_band_product(a, &band, a->d, &k, a->attrs.scale, queries->begun,
                               cti_attention_sum_row(f, &queries->dq, seen.begin),
                               queries->dq.stride);
    queries->begun = true;
}

/* The band product of dS reads columns of a panel for queries that see no key of it, because one
 * micro-kernel computes several rows together: memory must hold zeros in them. The causal mask
 * hides only rows before `begin`, and only the few that share a micro-kernel with it are read. */
static void clear_unseen(const cti_attention_backward_call *f, const pair_buffers *w,
                         cti_attention_span block, cti_attention_span seen, int64_t panel,
                         int64_t width) {
    const cti_attention_params *a = &f->a;
    const cti_attention_sum columns = {.data = w->ds + panel * a->size, .stride = ds_row(f)};
    const int64_t first =
        a->limited ? block.begin : cti_max(block.begin, seen.begin - a->mr_narrow);
    cti_attention_sum_clear(f, &columns, first, seen.begin, width);
    cti_attention_sum_clear(f, &columns, seen.end, block.end, width);
}

static void backprop_key_block(const cti_attention_backward_call *f, const pair_buffers *w,
                               key_range *keys, query_block *queries, const cti_attention_tile *t) {
    const cti_attention_params *a = &f->a;
    const cti_attention_span block = cti_attention_queries_of(a, t);
    if (block.begin >= block.end) return;
    for (int64_t p = 0; p < t->nk; p += a->nr) {
        cti_attention_tile panel = cti_attention_subtile(t, 0, t->nq, p, a->nr);
        cti_attention_span seen = cti_attention_queries_of(a, &panel);
        const bool hidden = seen.begin >= seen.end;
        if (hidden && !a->limited) break; /* all later panels are hidden too */
        if (hidden) seen = (cti_attention_span){.begin = block.end, .end = block.end};
        else seen.begin = cti_attention_tile_begin(a, seen.begin);
        if (seen.begin > block.begin || seen.end < block.end)
            clear_unseen(f, w, block, seen, p, panel.nk);
        if (hidden) continue;
        panel.q0 += seen.begin;
        panel.nq = seen.end - seen.begin;
        backprop_panel(f, w, keys, queries, &panel);
    }
    add_query_gradients(f, w, keys, queries, t, block);
}

/* ---- a block of queries against a range of keys ---- */

/* Gradients of hidden keys, and of queries from which all keys are hidden, are set to +0 at the
 * end. A product may have written to such a row if others of its tile are visible, and the row
 * would be -0 if the scale is negative: the bits would depend on the sizes of tiles. */

/* Sets the fields of a block of queries. None is set before: to zero the whole struct takes longer
 * than the products of a few tokens. */
static void query_block_begin(const cti_attention_backward_call *f, const pair_buffers *w,
                              const key_range *keys, const cti_attention_tile *t,
                              query_block *queries) {
    const cti_attention_params *a = &f->a;
    queries->q0 = t->q0;
    queries->begun = queries->clears_pairs = false;
    queries->q_hidden.bad = queries->dout_hidden.bad = NULL;
    queries->q = cti_attention_gather_queries(a, &a->q, t, a->d, w->q);
    queries->dout = cti_attention_gather_queries(a, &f->dout, t, a->dv, w->dout);
    queries->dq = cti_attention_sum_begin(f, &f->dq, t->b, t->h, t->q0, t->nq, a->d, w->dq);
    a->kernels->attention->row_dots(t->nq, a->dv, queries->dout.data, queries->dout.stride,
                                    cti_attention_at(a, &a->out, t->b, t->h, t->q0, 0),
                                    a->out.stride[2], w->dot);
    queries->q_right = &queries->q;
    queries->dout_right = &queries->dout;
    const bool guarded = cti_attention_hides_pairs(a, t);
    if (guarded || a->rounded) {
        queries->right_q = queries->q;
        queries->right_dout = queries->dout;
        queries->q_right = &queries->right_q;
        queries->dout_right = &queries->right_dout;
    }
    if (guarded) {
        const bool broken = cti_hidden_breaks_weights(a, t, w->s);
        if (broken || a->cap > 0)
            queries->q_hidden =
                cti_hidden_guard(a->kernels, a->size, &queries->right_q, t->nq, a->d, &w->q_guard);
        if (!a->kernels->rows->is_finite(t->nq, w->dot))
            queries->dout_hidden = cti_hidden_guard(a->kernels, a->size, &queries->right_dout,
                                                    t->nq, a->dv, &w->dout_guard);
        queries->clears_pairs = keys->hidden.bad || queries->q_hidden.bad || broken;
    }
    if (a->rounded) {
        queries->right_q = cti_attention_right(a, &queries->right_q, t->nq, a->d, w->q_right);
        queries->q = cti_attention_left(a, &queries->q, t->nq, a->d, w->q_left);
        queries->right_dout =
            cti_attention_right(a, &queries->right_dout, t->nq, a->dv, w->dout_right);
        queries->dout = cti_attention_left(a, &queries->dout, t->nq, a->dv, w->dout_left);
    }
}

static void backprop_query_block(const cti_attention_backward_call *f, const pair_buffers *w,
                                 key_range *keys, const cti_attention_tile *t, int64_t bias_sum) {
    const cti_attention_params *a = &f->a;
    const int64_t k_block = f->schedule.k_block;
    const cti_attention_span seen = cti_attention_keys_of(a, t);
    if (seen.begin >= seen.end && f->accumulate) return; /* the gradient has zeros or sums */
    query_block queries;
    queries.bias_sum = bias_sum;
    query_block_begin(f, w, keys, t, &queries);
    for (int64_t k = seen.begin / k_block * k_block; k < seen.end; k += k_block) {
        const cti_attention_tile block = cti_attention_subtile(t, 0, t->nq, k, k_block);
        if (cti_attention_visible_keys(a, &block) == CTI_KEYS_NONE) continue;
        if (a->attrs.dropout > 0) cti_attention_dropout(a, &block, w->ones, k_block, w->factors);
        backprop_key_block(f, w, keys, &queries, &block);
    }
    for (int64_t i = 0; i < t->nq; i++)
        if (!queries.begun || cti_attention_sees_nothing(a, t, i))
            cti_attention_sum_clear(f, &queries.dq, i, i + 1, a->d);
    cti_attention_sum_end(f, &queries.dq, t->nq, a->d);
}

/* ---- a pair ---- */

/* Packs the range's values, then its keys. Both may need w->kv for rows that are not read in place;
 * the keys come second and keep it, because dQ += dS K reads their rows. */
static void key_range_begin(const cti_attention_backward_call *f, const pair_buffers *w,
                            const cti_attention_tile *t, key_range *keys) {
    const cti_attention_params *a = &f->a;
    const int64_t kv = t->h / a->group;
    const cti_attention_rows v = cti_attention_gather_keys(a, &a->v, t, a->dv, w->kv);
    cti_attention_pack_columns(a, a->dv, t->nk, v.data, 1, v.stride, w->vt_panels);
    keys->k0 = t->k0;
    keys->hidden.bad = NULL;
    memset(keys->begun, false, (size_t)cti_ceil_div(t->nk, FEWEST_LANES));
    keys->k = cti_attention_gather_keys(a, &a->k, t, a->d, w->kv);
    if (!a->scores)
        cti_attention_pack_columns(a, a->d, t->nk, keys->k.data, 1, keys->k.stride, w->kt_panels);
    if (cti_attention_hides_pairs(a, t))
        keys->hidden = cti_hidden_guard(a->kernels, a->size, &keys->k, t->nk, a->d, &w->k_guard);
    for (int64_t i = 0; i < t->nk && a->rounded; i += f->schedule.k_block) {
        const cti_attention_rows rows = cti_attention_rows_from(a, &keys->k, i);
        cti_attention_right(a, &rows, cti_min(f->schedule.k_block, t->nk - i), a->d,
                            k_right_at(f, w, i));
    }
    keys->dk = cti_attention_sum_begin(f, &f->dk, t->b, kv, t->k0, t->nk, a->d, w->dk);
    keys->dv = cti_attention_sum_begin(f, &f->dv, t->b, kv, t->k0, t->nk, a->dv, w->dv);
}

static void key_range_end(const cti_attention_backward_call *f, const cti_attention_tile *t,
                          const key_range *keys) {
    const cti_attention_params *a = &f->a;
    const bool *begun = keys->begun;
    for (int64_t p = 0; p < t->nk; p += a->nr, begun++) {
        if (*begun && !a->hides_keys) continue;
        for (int64_t k = p; k < cti_min(t->nk, p + a->nr); k++) {
            if (*begun && !cti_attention_key_is_masked(a, t->b, t->k0 + k)) continue;
            cti_attention_sum_clear(f, &keys->dk, k, k + 1, a->d);
            cti_attention_sum_clear(f, &keys->dv, k, k + 1, a->dv);
        }
    }
    cti_attention_sum_end(f, &keys->dk, t->nk, a->d);
    cti_attention_sum_end(f, &keys->dv, t->nk, a->dv);
}

void cti_attention_backprop_pair(const cti_attention_backward_call *f, const void *buffers,
                                 const cti_attention_pair *pair) {
    const cti_attention_params *a = &f->a;
    const cti_attention_backward_schedule *s = &f->schedule;
    const int64_t first = pair->kv * a->group; /* query head */
    const cti_attention_tile head = {.b = pair->b, .h = first, .nq = a->t, .nk = a->s};
    cti_attention_tile t = cti_attention_subtile(&head, pair->q_range * s->q_range, s->q_range,
                                                 pair->k_range * s->k_range, s->k_range);
    if (f->accumulate && cti_attention_is_hidden(a, &t)) return;
    key_range keys;
    key_range_begin(f, buffers, &t, &keys);
    for (; t.h < first + a->group; t.h++)
        for (int64_t q = 0; q < t.nq; q += CTI_ATTENTION_QUERY_BLOCK) {
            const cti_attention_tile block =
                cti_attention_subtile(&t, q, CTI_ATTENTION_QUERY_BLOCK, 0, t.nk);
            backprop_query_block(f, buffers, &keys, &block, pair->bias_sum);
        }
    key_range_end(f, &t, &keys);
}
