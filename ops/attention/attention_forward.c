/* attention, fused:  out = P v,  P = softmax(scale q k^T + mask) with dropout, a block of queries and keys at a time and never whole:
 *
 *     for each block of keys:  s = scale k q^T + mask,  m' = max(m, s),  p = e^(s - m'),
 *                              sum = sum e^(m - m') + 1 p,  o = o e^(m - m') + v^T p
 *     out = (o / sum)^T
 *
 * Saved are out and each query's m and 1 / sum: what backward computes P from again, of scores that have the same bits, as a register
 * block sums over d in one order whichever of q and k it packs. Dao et al. 2022, arXiv:2205.14135. They are kept apart, and not as
 * m + log sum, whose rounding would be that of large scores. (Scores are kept in units of log 2, and so is m.)
 *
 * A piece of work is a range of queries of one head. Scores are turned, keys by queries, so that a query is a lane (see
 * src/kernels/attention_tmpl.h). Cut by size alone. */
#include "attention.h"

#include <math.h>
#include <string.h>

enum { RANGE = 1024, RANGE_BYTES = 512 << 10, KEYS = 120 }; /* queries of a piece, what they may take packed; keys of a block */

typedef struct {
    attention a;
    int64_t range, ranges, keys; /* queries in a piece, pieces in a head, keys in a block */
    char *scratch;
    size_t bytes; /* of one worker */
} forward;

/* A worker's scratch. */
typedef struct {
    char *q, *o, *max, *sum; /* panels of queries (d, nr); outputs (queries, dv); a lane of each query */
    char *k, *v;             /* a block of keys (keys, d) and of values (keys, dv), where they are not read where they lie */
    char *s, *bias, *stage, *ones;
} room;

static room rooms(const forward *f, char *base, size_t *used) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, n = cti_attention_up(f->range, nr), keys = f->keys;
    const bool staged = (a->mask.data && a->mask_is_bool) || a->set.dropout > 0;
    room r;
    r.q = cti_attention_carve(a, base, used, n, a->d);
    r.o = cti_attention_carve(a, base, used, n, a->dv);
    r.max = cti_attention_carve(a, base, used, n, 1);
    r.sum = cti_attention_carve(a, base, used, n, 1);
    r.k = cti_attention_carve(a, base, used, keys, a->d);
    r.v = cti_attention_carve(a, base, used, keys, a->dv);
    r.s = cti_attention_carve(a, base, used, keys, nr);
    r.bias = cti_attention_carve(a, base, used, keys, nr);
    r.stage = cti_attention_carve(a, base, used, staged ? nr : 0, keys);
    r.ones = cti_attention_carve(a, base, used, a->set.dropout > 0 ? keys : 0, 1);
    return r;
}

/* p times dropout's factors: those of one query are next to each other along the keys. */
static void drop(const forward *f, const room *r, int64_t head, int64_t q0, int64_t nq, int64_t k0, int64_t nk) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr;
    for (int64_t i = 0; i < nq; i++)
        a->k->dropout(nk, (head * a->t + q0 + i) * a->s + k0, a->set.random, a->set.dropout, r->ones, r->stage + i * nk * a->size);
    a->k->gemm.pack_b(nk, nq, r->stage, 1, nk, r->bias);
    a->k->mul(nk * nr, r->s, 1, r->bias, 1, r->s);
}

/* One block of keys for one panel of queries. */
static void block(const forward *f, const room *r, int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t panel, int64_t k0, int64_t nk,
                  const cti_attention_rows *k, const cti_attention_rows *v) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, width = cti_attention_width(a, nq), at = panel * nr * a->size;
    const cti_attention_weights p = {r->s, 1, nr, nq, nk, -nq, a->set.causal ? q0 + 1 - k0 : nk};
    char *o = r->o + at * a->dv;
    cti_attention_product(a, nk, width, a->d, k, r->q + at * a->d, a->score_scale, r->s);
    cti_attention_masks(a, b, h, q0, nq, k0, nk, true, r->s, r->bias, r->stage);
    const bool begun = a->k->attention.soften(nk, width, r->s, r->max + at, r->sum + at, a->dv, o);
    if (a->set.dropout > 0) drop(f, r, b * a->heads + h, q0, nq, k0, nk);
    cti_attention_gather(a, &p, a->dv, v, 1, begun, o, a->dv);
}

static void attend_keys(const forward *f, const room *r, int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t k0, int64_t nk) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, kv = h / a->group;
    const cti_attention_rows k = cti_attention_seen(a, a->key, b, kv, k0, nk, a->d, r->k);
    const cti_attention_rows v = cti_attention_seen(a, a->value, b, kv, k0, nk, a->dv, r->v);
    for (int64_t i = 0; i < nq; i += nr) {
        const int64_t n = cti_attention_min(nr, nq - i), seen = a->set.causal ? cti_attention_min(nk, q0 + i + n - k0) : nk;
        if (seen > 0) block(f, r, b, h, q0 + i, n, i / nr, k0, seen, &k, &v);
    }
}

static void attend(const forward *f, const room *r, int64_t b, int64_t h, int64_t q0, int64_t nq) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, n = cti_attention_up(nq, nr), end = a->set.causal ? cti_attention_min(a->s, q0 + nq) : a->s;
    cti_attention_pack_b(a, a->d, nq, cti_attention_at(a, a->q, b, h, q0, 0), a->q.stride[3], a->q.stride[2], r->q, a->d);
    a->k->fill(n, -INFINITY, r->max);
    a->k->fill(n, 0, r->sum);
    for (int64_t k0 = 0; k0 < end; k0 += f->keys) {
        const int64_t nk = cti_attention_min(f->keys, end - k0);
        if (!cti_attention_hides_all(a, b, k0, nk)) attend_keys(f, r, b, h, q0, nq, k0, nk);
    }
    a->k->attention.finish(nq, a->dv, r->max, r->sum, r->o, cti_attention_at(a, a->out, b, h, q0, 0), a->out.stride[2]);
    const int64_t stat = ((b * a->heads + h) * a->t + q0) * a->size;
    memcpy(a->max + stat, r->max, (size_t)(nq * a->size));
    memcpy(a->inverse + stat, r->sum, (size_t)(nq * a->size));
}

static void attend_task(void *arg, int64_t begin, int64_t end, int worker) {
    const forward *f = arg;
    const attention *a = &f->a;
    size_t used = 0;
    const room r = rooms(f, f->scratch + (size_t)worker * f->bytes, &used);
    if (a->set.dropout > 0) a->k->fill(f->keys, 1, r.ones);
    for (int64_t i = begin; i < end; i++) { /* a head's pieces follow each other, as its keys stay in cache; causal: the longest first */
        const int64_t head = i / f->ranges, q0 = (f->ranges - 1 - i % f->ranges) * f->range;
        attend(f, &r, head / a->heads, head % a->heads, q0, cti_attention_min(f->range, a->t - q0));
    }
}

static bool run(ct_context *context, forward *f) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, heads = a->batch * a->heads, wide = a->d + a->dv;
    if (heads * a->t == 0) return true;
    f->range = wide < RANGE_BYTES / a->size / RANGE ? RANGE : RANGE_BYTES / a->size / wide / nr * nr;
    while (f->range > 128 && heads * cti_attention_pieces(a->t, f->range) < 16) f->range /= 2;
    if (f->range < nr) f->range = nr;
    f->ranges = cti_attention_pieces(a->t, f->range);
    f->range = cti_attention_min(cti_attention_up(cti_attention_pieces(a->t, f->ranges), nr), a->t);
    f->ranges = cti_attention_pieces(a->t, f->range);
    f->keys = KEYS; /* whatever S: one query against a growing cache takes the same scratch every time */
    const double cost = ((double)f->range + 8) * (double)(a->s + 8) * (double)(wide + 16);
    const int64_t grain = cost < 1 << 20 ? (int64_t)((1 << 20) / cost) : 1, items = heads * f->ranges;
    rooms(f, NULL, &f->bytes);
    const size_t bytes = cti_bytes(cti_parallel_width(context), f->bytes);
    if (!(f->scratch = cti_take(context, bytes))) return false;
    cti_parallel(context, items, grain, attend_task, f);
    cti_give(context, f->scratch, bytes);
    return true;
}

static ct_tensor *attention_forward(ct_call *c) {
    const int64_t heads = ((const cti_attention_attrs *)c->attrs)->heads; /* packed */
    ct_tensor *part[3], *y, *out;                                     /* what is returned, and as heads */
    if (!cti_attention_operands(c, part)) return NULL;
    const int64_t *n = part[0]->shape.dim;
    y = heads ? cti_op_new(c, c->in[0]->dtype, CT_SHAPE(n[0], n[2], n[1] * n[3])) : cti_attention_new_like(c, part[0], part[2]->shape.dim[3]);
    out = y && heads ? cti_op_heads(y, heads, 0, y->shape.dim[2]) : y;
    const bool few = n[2] <= CTI_ATTENTION_FEW, keep = few && (c->wants[0] || c->wants[1] || c->wants[2] || c->wants[3]);
    const int64_t kept = keep ? 2 + part[1]->shape.dim[2] : 2;
    ct_tensor *stats = !out ? NULL : c->n > 5 ? c->in[5] : cti_op_new(c, y->dtype, CT_SHAPE(kept, n[0], n[1], n[2]));
    if (!stats) return NULL;
    c->saved[0] = stats;
    c->drop = CT_DROP_IN(5);
    forward f = {.a = cti_attention_of(c, part, out, stats)};
    if (few) return stats->numel == 0 || cti_attention_few(c->context, &f.a) ? y : NULL;
    return run(c->context, &f) ? y : NULL;
}

#define ATTENTION(its_name)                                                                                                                \
    {                                                                                                                                      \
        .name = its_name, .attrs_size = sizeof(cti_attention_attrs), .forward = attention_forward, .backward = cti_attention_backward,             \
        .flags = CT_OP_STRIDED | CT_OP_OPTIONAL                                                                                            \
    }
static const ct_op apart = ATTENTION("attention"), packed = ATTENTION("packed_attention");

ct_tensor *cti_attention_fused(ct_tensor *const in[CTI_ATTENTION_INPUTS], const cti_attention_attrs *attrs) {
    return ct_apply(attrs->heads ? &packed : &apart, in, in[5] ? CTI_ATTENTION_INPUTS : 5, attrs);
}
