/* attention, fused:  out = P v,  P = softmax(score + bias) with dropout
 *
 * Keys are read a block at a time, so the whole P is never in memory. Online softmax, with a
 * running maximum m and sum l for each query:
 *
 *     for each block of keys:  s = scale k q^T + bias,  m' = max(m, s),  p = e^(s - m'),
 *                              l = l e^(m - m') + sum of p,  o = o e^(m - m') + p^T v,  m = m'
 *     out = o / l
 *
 * Dao et al. 2022, arXiv:2205.14135. Backward computes P again from the statistics m and 1 / l of
 * each query. Its scores have the same bits as these: a micro-kernel sums over d in one order,
 * whichever of q and k is packed. m and 1 / l are two saved numbers, because one, m + log l, would
 * be rounded to the last place of a large score. Scores and m are divided by log 2, so that e^(s -
 * m) is computed as 2^(s - m).
 *
 * A task is a range of queries of one head against all its keys. Panels of scores are
 * transposed, keys by queries, so that a query is a lane (src/kernels/attention_tmpl.h). */
#include "attention.h"
#include "../../src/kernels/attention_kernels.h"
#include "../../src/kernels/elementwise.h"

#include <math.h>
#include <string.h>

#include "attention_masks.h"
#include "attention_products.h"
#include "attention_schedule.h"
#include "attention_workspace.h"

typedef struct {
    const cti_attention_params *a;
    cti_attention_forward_schedule schedule;
} forward_call;

/* A worker's buffers. */
typedef struct {
    char *q;                /* a range of queries (queries, d), packed in panels */
    char *o;                /* (queries, dv) */
    char *max;              /* (queries) */
    char *sum;              /* (queries) */
    char *k;                /* a block of keys (k_block, d), unless they are read in place */
    char *v;                /* its values (k_block, dv), unless they are read in place */
    char *k_left, *v_right; /* the same as factors of products that round */
    char *s;                /* a panel (k_block, nr): scores, then weights */
    char *bias;             /* a panel (k_block, nr): a mask's numbers, or dropout's factors */
    char *rows; /* (nr, k_block): the same by queries, before it is transposed into bias */
    char *ones; /* (k_block): ones, from which the dropout kernel makes its factors */
    cti_hidden_buffers guard; /* a block of values */
} forward_buffers;
_Static_assert(sizeof(forward_buffers) <= CTI_ATTENTION_BUFFERS * sizeof(char *), "buffers");

static void forward_reserve(const void *call, cti_attention_workspace *space, void *buffers) {
    const forward_call *f = call;
    const cti_attention_params *a = f->a;
    const int64_t queries = cti_round_up(f->schedule.q_range, a->nr), keys = f->schedule.k_block;
    const bool dropout = a->attrs.dropout > 0;
    const bool has_rows = dropout || a->mask.data;
    forward_buffers *w = buffers;
    w->q = cti_attention_reserve_columns(space, queries, a->d_bytes);
    w->o = cti_attention_reserve(space, queries, a->dv);
    w->max = cti_attention_reserve(space, queries, 1);
    w->sum = cti_attention_reserve(space, queries, 1);
    w->k = cti_attention_reserve(space, keys, a->d);
    w->v = cti_attention_reserve(space, keys, a->dv);
    w->s = cti_attention_reserve(space, keys, a->nr);
    w->bias = cti_attention_reserve(space, keys, a->nr);
    w->rows = cti_attention_reserve(space, has_rows ? a->nr : 0, keys);
    w->ones = cti_attention_reserve_ones(space, dropout ? keys : 0);
    if (a->guarded) w->guard = cti_attention_reserve_guard(space, keys, a->dv);
    if (!a->rounded) return;
    w->k_left = cti_attention_reserve_left(space, keys, a->d);
    w->v_right = cti_attention_reserve_right(space, a->dv);
}

/* Multiplies the weights of a panel by dropout's factors, which are drawn along the keys of each
 * query, then transposed. */
static void drop_weights(const cti_attention_params *a, const forward_buffers *w,
                         const cti_attention_tile *t) {
    cti_attention_dropout(a, t, w->ones, t->nk, w->rows);
    cti_attention_pack(a, t->nk, t->nq, w->rows, 1, t->nk, w->bias);
    a->kernels->elementwise->mul(t->nk * a->nr, w->s, 1, w->bias, 1, w->s);
}

/* A block of keys and its values, as factors. */
typedef struct {
    cti_attention_rows k, v;
    cti_hidden_rows hidden; /* the values that are not finite */
} key_block;

/* Attends from one panel of queries, from row `panel` of the range on, to keys of a block, from row
 * `key` of the block on. */
static void attend_panel(const cti_attention_params *a, const forward_buffers *w,
                         const cti_attention_tile *t, int64_t panel, const key_block *keys,
                         int64_t key) {
    const int64_t width = cti_attention_width(a, t->nq), at = panel * a->size;
    const cti_attention_rows k = cti_attention_rows_from(a, &keys->k, key);
    const cti_attention_rows v = cti_attention_rows_from(a, &keys->v, key);
    char *o = w->o + at * a->dv;
    cti_attention_panel_product(a, t->nk, width, a->d, &k, w->q + panel * a->d_bytes,
                                a->score_scale, w->s);
    if (a->cap > 0) cti_attention_cap_panel(a, t->nk, width, w->s, NULL);
    cti_attention_mask_panel(a, t, true, w->s, w->bias, w->rows);
    const bool begun = a->kernels->attention->online_softmax_update(t->nk, width, w->s, w->max + at,
                                                                    w->sum + at, a->dv, o);
    if (a->attrs.dropout > 0) drop_weights(a, w, t);
    const cti_attention_diagonals seen = cti_attention_diagonals_of(a, t);
    const cti_attention_band p = {.data = w->s, /* P (queries, keys) */
                                  .row = 1,
                                  .col = a->nr,
                                  .m = t->nq,
                                  .k = t->nk,
                                  .low = seen.low,
                                  .high = seen.high,
                                  .hidden = &keys->hidden,
                                  .hidden_first = key};
    cti_attention_band_product(a, &p, a->dv, &v, 1, begun, o, a->dv);
}

/* Attends from a range of queries to a block of keys. */
static void attend_keys(const cti_attention_params *a, const forward_buffers *w,
                        const cti_attention_tile *t, bool guarded) {
    key_block keys;
    keys.k = cti_attention_gather_keys(a, &a->k, t, a->d, w->k);
    keys.v = cti_attention_gather_keys(a, &a->v, t, a->dv, w->v);
    keys.hidden.bad = NULL;
    if (guarded && cti_attention_hides_pairs(a, t))
        keys.hidden = cti_hidden_guard(a->kernels, a->size, &keys.v, t->nk, a->dv, &w->guard);
    if (a->rounded) {
        keys.k = cti_attention_left(a, &keys.k, t->nk, a->d, w->k_left);
        keys.v = cti_attention_right(a, &keys.v, t->nk, a->dv, w->v_right);
    }
    for (int64_t i = 0; i < t->nq; i += a->nr) {
        cti_attention_tile panel = cti_attention_subtile(t, i, a->nr, 0, t->nk);
        const cti_attention_span seen = cti_attention_keys_of(a, &panel);
        if (seen.begin >= seen.end) continue;
        const int64_t key = cti_attention_tile_begin(a, seen.begin);
        panel.k0 += key;
        panel.nk = seen.end - key;
        attend_panel(a, w, &panel, i, &keys, key);
    }
}

/* Attends from a range of queries, packed in w->q, to all keys. Returns whether its output has a
 * NaN. */
static bool attend_all_keys(const forward_call *f, const forward_buffers *w,
                            const cti_attention_tile *all, bool guarded) {
    const cti_attention_params *a = f->a;
    const int64_t nq = all->nq, padded = cti_round_up(nq, a->nr);
    const cti_attention_span keys = cti_attention_keys_of(a, all);
    a->kernels->elementwise->fill(padded, -INFINITY, w->max);
    a->kernels->elementwise->fill(padded, 0, w->sum);
    /* Blocks begin at multiples of their length, so the bits of a query do not depend on the range
     * that it is in. */
    for (int64_t k0 = keys.begin / f->schedule.k_block * f->schedule.k_block; k0 < keys.end;
         k0 += f->schedule.k_block) {
        const int64_t nk = cti_min(f->schedule.k_block, keys.end - k0);
        const cti_attention_tile t = cti_attention_subtile(all, 0, nq, k0, nk);
        if (cti_attention_visible_keys(a, &t) != CTI_KEYS_NONE) attend_keys(a, w, &t, guarded);
    }
    char *out = cti_attention_at(a, &a->out, all->b, all->h, all->q0, 0);
    return a->kernels->attention->online_softmax_finalize(nq, a->dv, w->max, w->sum, w->o, out,
                                                          a->out.stride[2]);
}

/* A NaN in the output may come from a hidden value, so what has one is computed again with a guard
 * (attention_hidden.h, invariants 4 and 5). */
static void attend_range(const forward_call *f, const forward_buffers *w,
                         const cti_attention_tile *all) {
    const cti_attention_params *a = f->a;
    const int64_t nq = all->nq;
    const char *q = cti_attention_at(a, &a->q, all->b, all->h, all->q0, 0);
    cti_attention_pack_columns(a, a->d, nq, q, a->q.stride[3], a->q.stride[2], w->q);
    if (attend_all_keys(f, w, all, false) && a->guarded) attend_all_keys(f, w, all, true);
    const int64_t first = cti_attention_query(a, all, 0) * a->stat_size;
    memcpy(a->max + first, w->max, (size_t)(nq * a->stat_size));
    memcpy(a->inverse_sum + first, w->sum, (size_t)(nq * a->stat_size)); /* 1 / sum by now */
    for (int64_t i = 0; i < nq; i++) CTI_ASSERT(cti_attention_stats_are_sound(a, all, i));
}

/* The tasks of one head follow each other, so that its keys stay in cache. Within a head the last
 * range of queries comes first: under a causal mask it has the most keys, and a long task at the
 * end leaves the other threads without work. */
static void forward_task(const void *call, const void *buffers, int64_t task) {
    const forward_call *f = call;
    const int64_t ranges = f->schedule.q_ranges, range = f->schedule.q_range;
    const int64_t q0 = (ranges - 1 - task % ranges) * range;
    const cti_attention_tile head = cti_attention_head(f->a, task / ranges);
    const cti_attention_tile t = cti_attention_subtile(&head, q0, range, 0, f->a->s);
    attend_range(f, buffers, &t);
}

static bool attend_tiles(ct_context *context, const cti_attention_params *a) {
    const int64_t heads = a->batch * a->heads;
    if (heads * a->t == 0) return true;
    const forward_call f = {.a = a, .schedule = cti_attention_schedule_forward(a)};
    const cti_attention_pass pass = {.a = a,
                                     .call = &f,
                                     .reserve = forward_reserve,
                                     .run = forward_task,
                                     .tasks = heads * f.schedule.q_ranges,
                                     .grain = f.schedule.grain,
                                     .steps = 1,
                                     .steady = true,
                                     .flops = a->d + a->dv};
    return cti_attention_run(context, &pass);
}

/* ---- the op ---- */

/* Returns a new output, and sets x->out to it, viewed as (B, H, T, dv). */
static ct_tensor *new_output(const ct_call *c, cti_attention_tensors *x) {
    const int64_t *q = x->q->shape.dim;
    const int64_t heads = ((const cti_attention_attrs *)c->attrs)->packed_heads;
    if (!heads) return x->out = cti_attention_new_like(c, x->q, x->v->shape.dim[3]);
    ct_tensor *y = cti_op_new(c, x->q->dtype, CT_SHAPE(q[0], q[2], q[1] * q[3]));
    x->out = y ? cti_op_heads(y, heads, 0, y->shape.dim[2]) : NULL;
    return x->out ? y : NULL;
}

static bool wants_gradient(const ct_call *c) {
    bool wants = false;
    for (int i = 0; i < c->n; i++) wants |= c->wants[i];
    return wants;
}

static ct_tensor *fused_forward(ct_call *c) {
    cti_attention_tensors x;
    if (!cti_attention_tensors_of(c, &x)) return NULL;
    const int64_t *q = x.q->shape.dim, *k = x.k->shape.dim;
    const bool decode = ((const cti_attention_attrs *)c->attrs)->way == CTI_ATTENTION_ROWS;
    ct_tensor *y = new_output(c, &x);
    if (!y) return NULL;
    /* There is nothing to compute. This is not only a shortcut: if d and dv are 0, T and S may be
     * of any size. */
    if (y->numel == 0 && c->n_outs == 1) return y;
    if (x.segments && !cti_attention_read_segments(c, &x)) return NULL;
    x.stats = cti_op_new(c, cti_dtype_statistics(y->dtype), CT_SHAPE(2, q[0], q[1], q[2]));
    if (!x.stats) return NULL;
    if (decode && wants_gradient(c)) {
        x.scores = cti_op_new(c, y->dtype, CT_SHAPE(q[0], q[1], q[2], k[2]));
        if (!x.scores) return NULL;
    }
    if (c->n_outs > 1) c->outs[1] = x.stats;
    else c->saved[0] = x.stats;
    c->saved[1] = x.scores;
    cti_attention_params a;
    cti_attention_params_of(c, &x, &a);
    const bool done = decode ? cti_attention_decode(c->context, &a) : attend_tiles(c->context, &a);
    return done ? y : NULL;
}

/* The statistics are a second output only of a call that asks for weights. In all others they are a
 * saved tensor, and the recorded graph shows an op with one output. */
#define FUSED(its_name, its_outputs)                                                               \
    {.name = (its_name),                                                                           \
     .attrs_size = sizeof(cti_attention_attrs),                                                    \
     .forward = fused_forward,                                                                     \
     .backward = cti_attention_backward,                                                           \
     .flags = CT_OP_STRIDED | CT_OP_OPTIONAL,                                                      \
     .outputs = (its_outputs)}
static const ct_op separate = FUSED("attention", 1), packed = FUSED("packed_attention", 1);
static const ct_op separate_with_stats = FUSED("attention", 2);
static const ct_op packed_with_stats = FUSED("packed_attention", 2);

ct_tensor *cti_attention_fused(ct_tensor *const in[CTI_ATTENTION_INPUTS],
                               const cti_attention_attrs *attrs, ct_tensor **stats) {
    const int n = cti_attention_input_count(in);
    if (!stats) return ct_apply(attrs->packed_heads ? &packed : &separate, in, n, attrs);
    const ct_op *op = attrs->packed_heads ? &packed_with_stats : &separate_with_stats;
    ct_tensor *outs[2];
    if (!ct_apply_many(op, in, n, attrs, outs)) return NULL;
    *stats = ct_detach(outs[1]); /* no gradient flows through them */
    return *stats ? outs[0] : NULL;
}
