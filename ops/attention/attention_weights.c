/* attention_weights: P = 2^(s - max) / sum, the weights of fused attention, for each head or as the
 * mean over heads. Scores are computed again; max and 1 / sum are the fused op's statistics. With
 * these a weight needs no second pass, so a mean is summed tile by tile, and the weights of all
 * heads are never in memory.
 *
 *     dS = P (g - <P, g>),  dq = scale dS k,  dk = scale dS^T q,  dbias += dS
 *     (of a mean: g / H for each head)
 *
 * This gradient is rarely wanted, so backward is that of attention_whole.c, with P in memory. A
 * task is a tile of one head, or, for a mean, of all heads one after the other. */
#include "attention.h"
#include "../../src/kernels/attention_kernels.h"
#include "../../src/kernels/elementwise.h"

#include <math.h>

#include "../update/update.h"
#include "attention_hidden.h"
#include "attention_masks.h"
#include "attention_products.h"
#include "attention_schedule.h"
#include "attention_workspace.h"

/* The fused op's inputs, without v, and its statistics. */
enum { WEIGHTS_STATS = CTI_ATTENTION_INPUTS, WEIGHTS_INPUTS };

enum { BLOCK_QUERIES = 120 }; /* queries of a block: a panel of their scores stays in L1d */

typedef struct {
    cti_attention_params a;
    cti_attention_weights_schedule schedule;
    cti_attention_operand y; /* (B, H, T, S); for a mean the stride over heads is 0 */
    int64_t summed_heads;    /* the heads of a task: 1, or H for a mean */
} weights_call;

/* A worker's buffers. */
typedef struct {
    char *kt_panels; /* K^T of a tile (d, keys), packed in panels */
    char *q;         /* a block of queries (queries, d), unless they are read in place */
    char *q_left;    /* the same as a left factor of products that round */
    char *k;         /* a tile's keys (keys, d), unless they are read in place */
    char *s;         /* a panel (queries, nr): scores, then weights */
    char *bias;      /* a panel (queries, nr) for masks */
} weights_buffers;
_Static_assert(sizeof(weights_buffers) <= CTI_ATTENTION_BUFFERS * sizeof(char *), "buffers");

static void weights_reserve(const void *call, cti_attention_workspace *space, void *buffers) {
    const cti_attention_params *a = &((const weights_call *)call)->a;
    const int64_t queries = cti_min(BLOCK_QUERIES, a->t);
    const int64_t keys = cti_min(CTI_ATTENTION_WEIGHTS_KEYS, a->s);
    weights_buffers *w = buffers;
    w->kt_panels = cti_attention_reserve_columns(space, cti_round_up(keys, a->nr), a->d_bytes);
    w->q = cti_attention_reserve(space, queries, a->d);
    w->k = cti_attention_reserve(space, keys, a->d);
    w->s = cti_attention_reserve(space, queries, a->nr);
    w->bias = cti_attention_reserve(space, a->masked ? queries : 0, a->nr);
    if (a->rounded) w->q_left = cti_attention_reserve_left(space, queries, a->d);
}

/* y += the weights of a tile that is one panel; `key` is its first key, counted in kt_panels. */
static void add_panel(const weights_call *f, const weights_buffers *w, const cti_attention_tile *t,
                      int64_t key, const cti_attention_rows *q) {
    const cti_attention_params *a = &f->a;
    const int64_t width = cti_attention_width(a, t->nk);
    const int64_t *stride = f->y.stride, stat = cti_attention_query(a, t, 0) * a->stat_size;
    const double factor = a->attrs.mean_weights ? 1 / (double)a->heads : 1;
    const char *kt = w->kt_panels + key * a->d_bytes;
    char *y = cti_attention_at(a, &f->y, t->b, t->h, t->q0, t->k0);
    cti_attention_panel_product(a, t->nq, width, a->d, q, kt, a->score_scale, w->s);
    if (a->cap > 0) cti_attention_cap_panel(a, t->nq, width, w->s, NULL);
    cti_attention_mask_panel(a, t, false, w->s, w->bias, NULL);
    a->kernels->attention->softmax_from_stats(t->nq, width, w->s, a->max + stat,
                                              a->inverse_sum + stat, factor);
    a->kernels->elementwise->copy2d(t->nq, t->nk, w->s, a->nr, 1, y, stride[2], stride[3], true);
}

/* Adds the weights of a block of queries and the tile's keys. */
static void add_block(const weights_call *f, const weights_buffers *w,
                      const cti_attention_tile *t) {
    const cti_attention_params *a = &f->a;
    cti_attention_rows q = cti_attention_gather_queries(a, &a->q, t, a->d, w->q);
    if (a->rounded) q = cti_attention_left(a, &q, t->nq, a->d, w->q_left);
    for (int64_t k = 0; k < t->nk; k += a->nr) {
        cti_attention_tile panel = cti_attention_subtile(t, 0, t->nq, k, a->nr);
        const cti_attention_span seen = cti_attention_queries_of(a, &panel);
        const int64_t first = cti_attention_tile_begin(a, seen.begin);
        if (seen.begin >= seen.end) continue;
        const cti_attention_rows rows = cti_attention_rows_from(a, &q, first);
        panel.q0 += first;
        panel.nq = seen.end - first;
        add_panel(f, w, &panel, k, &rows);
    }
}

static void add_tile(const weights_call *f, const weights_buffers *w, const cti_attention_tile *t) {
    const cti_attention_params *a = &f->a;
    if (cti_attention_visible_keys(a, t) == CTI_KEYS_NONE || cti_attention_is_hidden(a, t)) return;
    const cti_attention_rows k = cti_attention_gather_keys(a, &a->k, t, a->d, w->k);
    cti_attention_pack_columns(a, a->d, t->nk, k.data, 1, k.stride, w->kt_panels);
    for (int64_t q = 0; q < t->nq; q += BLOCK_QUERIES) {
        const cti_attention_tile block = cti_attention_subtile(t, q, BLOCK_QUERIES, 0, t->nk);
        if (!cti_attention_is_hidden(a, &block)) add_block(f, w, &block);
    }
}

static void weights_task(const void *call, const void *buffers, int64_t task) {
    const weights_call *f = call;
    const cti_attention_params *a = &f->a;
    const int64_t q_tiles = f->schedule.q_tiles, k_tiles = f->schedule.k_tiles;
    const int64_t q_tile = task / k_tiles % q_tiles, k_tile = task % k_tiles;
    const cti_attention_tile head =
        cti_attention_head(a, task / k_tiles / q_tiles * f->summed_heads);
    cti_attention_tile t = cti_attention_subtile(
        &head, q_tile * CTI_ATTENTION_WEIGHTS_QUERIES, CTI_ATTENTION_WEIGHTS_QUERIES,
        k_tile * CTI_ATTENTION_WEIGHTS_KEYS, CTI_ATTENTION_WEIGHTS_KEYS);
    for (int64_t q = t.q0; q < t.q0 + t.nq; q++)
        a->kernels->elementwise->fill(t.nk, 0, cti_attention_at(a, &f->y, t.b, t.h, q, t.k0));
    for (; t.h < head.h + f->summed_heads; t.h++) add_tile(f, buffers, &t);
}

static bool compute_tiles(ct_context *context, const weights_call *f) {
    const cti_attention_params *a = &f->a;
    const int64_t tiles = f->schedule.q_tiles * f->schedule.k_tiles;
    const cti_attention_pass pass = {.a = a,
                                     .call = f,
                                     .reserve = weights_reserve,
                                     .run = weights_task,
                                     .tasks = a->batch * a->heads / f->summed_heads * tiles,
                                     .grain = f->schedule.grain,
                                     .steps = 1,
                                     .flops = a->d};
    return cti_attention_run(context, &pass);
}

static ct_tensor *weights_forward(ct_call *c) {
    cti_attention_tensors x;
    c->drop = CT_DROP_OUT | CT_DROP_IN(WEIGHTS_STATS);
    if (!cti_attention_tensors_of(c, &x)) return NULL;
    x.stats = c->in[WEIGHTS_STATS];
    weights_call f = {0};
    cti_attention_params_of(c, &x, &f.a);
    const cti_attention_params *a = &f.a;
    const bool mean = a->attrs.mean_weights;
    const ct_shape shape =
        mean ? CT_SHAPE(a->batch, a->t, a->s) : CT_SHAPE(a->batch, a->heads, a->t, a->s);
    ct_tensor *y = cti_op_new(c, x.q->dtype, shape);
    if (!y || y->numel == 0) return y;
    if (a->heads == 0) return cti_op_fill(y, NAN) ? y : NULL; /* a mean of nothing */
    f.y = (cti_attention_operand){.data = y->data,
                                  .stride = {y->stride[0], mean ? 0 : a->t * a->s, a->s, 1}};
    if (x.segments && !cti_attention_read_segments(c, &x)) return NULL;
    if (x.segments) cti_attention_params_of(c, &x, &f.a);
    f.schedule = cti_attention_schedule_weights(a);
    f.summed_heads = mean ? a->heads : 1;
    return compute_tiles(c->context, &f) ? y : NULL;
}

/* ---- backward ---- */

static bool weights_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    const cti_attention_attrs *attrs = c->attrs;
    ct_tensor *g = cotangents[0], *parts[CTI_ATTENTION_INPUTS] = {NULL}, *third[3];
    cti_attention_tensors x;
    cti_attention_softmax s;
    if (!cti_attention_tensors_of(c, &x)) return false;
    const ct_attention_opts opts = cti_attention_opts_of(&x, attrs);
    if (!cti_attention_softmax_of(&x, &opts, &s)) return false;
    if (attrs->mean_weights) {
        g = ct_scale(ct_unsqueeze(g, 1), 1 / (double)x.q->shape.dim[1]);
        g = ct_expand(g, s.p->shape);
    }
    if (!g || !cti_attention_softmax_backward(c, &x, &s, g, parts)) return false;
    grad[CTI_ATTENTION_BIAS] = parts[CTI_ATTENTION_BIAS];
    if (!attrs->packed_heads) {
        grad[CTI_ATTENTION_Q] = parts[CTI_ATTENTION_Q];
        grad[CTI_ATTENTION_K] = parts[CTI_ATTENTION_K];
        return true;
    }
    /* the third of v has no gradient */
    grad[0] = ct_zeros(c->context, g->dtype, c->in[CTI_ATTENTION_Q]->shape);
    return grad[0] && cti_attention_unpack(grad[0], attrs->packed_heads, third) &&
           ct_copy_into(third[0], parts[CTI_ATTENTION_Q]) &&
           ct_copy_into(third[1], parts[CTI_ATTENTION_K]);
}

static const ct_op weights_op = {.name = "attention_weights",
                                 .attrs_size = sizeof(cti_attention_attrs),
                                 .forward = weights_forward,
                                 .backward = weights_backward,
                                 .flags = CT_OP_STRIDED | CT_OP_OPTIONAL};

ct_tensor *cti_attention_weights(ct_tensor *const in[CTI_ATTENTION_INPUTS], ct_tensor *stats,
                                 const cti_attention_attrs *attrs) {
    ct_tensor *inputs[WEIGHTS_INPUTS] = {[CTI_ATTENTION_Q] = in[CTI_ATTENTION_Q],
                                         [CTI_ATTENTION_K] = in[CTI_ATTENTION_K],
                                         [CTI_ATTENTION_MASK] = in[CTI_ATTENTION_MASK],
                                         [CTI_ATTENTION_KEY_MASK] = in[CTI_ATTENTION_KEY_MASK],
                                         [CTI_ATTENTION_BIAS] = in[CTI_ATTENTION_BIAS],
                                         [CTI_ATTENTION_LENGTHS] = in[CTI_ATTENTION_LENGTHS],
                                         [CTI_ATTENTION_SEGMENTS] = in[CTI_ATTENTION_SEGMENTS],
                                         [WEIGHTS_STATS] = stats};
    return ct_apply(&weights_op, inputs, WEIGHTS_INPUTS, attrs);
}
