/* cti_attention_weights: the weights that fused attention took, P = 2^(s - max) / sum, of each head or their mean over heads, from scores that
 * are computed again and the max and sum that it kept: so the weights of all heads are never in memory where their mean is wanted.
 *
 *     dS = P (g - <P, g>),  dq = scale dS k,  dk = scale dS^T q,  dmask += dS;  of a mean: g / H for each head
 *
 * Few ask for that gradient: it is made of primitive ops, with P whole. A piece of work is a range of queries against one of keys, of all
 * heads one after the other where their mean is wanted. */
#include "attention.h"

#include <math.h>

#include "../update/update.h"

enum { QUERIES = 2 * CTI_ATTENTION_QUERIES, KEYS = 256 }; /* of a piece: its weights stay in a second-level cache */

typedef struct {
    attention a;
    cti_attention_part y;
    bool mean;
    int64_t down, across; /* pieces of the queries and of the keys */
    char *scratch;
    size_t bytes; /* of one worker */
} weights;

/* A worker's scratch. */
typedef struct {
    char *kt_b, *q, *k; /* packed keys (d, keys); queries and keys that are not read where they lie */
    char *s, *bias;     /* panels */
} room;

static room rooms(const weights *f, char *base, size_t *used) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, rows = cti_attention_min(CTI_ATTENTION_QUERIES, a->t), keys = cti_attention_min(KEYS, a->s);
    room r;
    r.kt_b = cti_attention_carve(a, base, used, cti_attention_up(keys, nr), a->d);
    r.q = cti_attention_carve(a, base, used, rows, a->d);
    r.k = cti_attention_carve(a, base, used, keys, a->d);
    r.s = cti_attention_carve(a, base, used, rows, nr);
    r.bias = cti_attention_carve(a, base, used, a->mask.data || a->keys.data ? rows : 0, nr);
    return r;
}

/* A block of one head's queries against a range of keys, added to what is there. */
static void block(const weights *f, const room *r, int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t k0, int64_t nk) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, *to = f->y.stride;
    const cti_attention_rows q = cti_attention_near(a, a->q, b, h, q0, nq, a->d, r->q);
    for (int64_t p = 0; p < nk; p += nr) {
        const int64_t n = cti_attention_min(nr, nk - p), width = cti_attention_width(a, n), key = k0 + p;
        const int64_t first = a->set.causal && key > q0 ? key - q0 : 0; /* queries before it see none of the panel */
        const int64_t rows = nq - first;
        const int64_t stat = ((b * a->heads + h) * a->t + q0 + first) * a->size;
        if (rows <= 0) break;
        const cti_attention_rows from = cti_attention_from(a, &q, first);
        cti_attention_product(a, rows, width, a->d, &from, r->kt_b + p * a->d * a->size, a->score_scale, r->s);
        cti_attention_masks(a, b, h, q0 + first, rows, key, n, false, r->s, r->bias, NULL);
        a->k->attention.weights(rows, width, r->s, a->max + stat, a->inverse + stat, f->mean ? 1 / (double)a->heads : 1);
        a->k->copy2d(rows, n, r->s, nr, 1, cti_attention_at(a, f->y, b, h, q0 + first, key), to[2], to[3], true);
    }
}

static void piece(const weights *f, const room *r, int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t k0, int64_t nk) {
    const attention *a = &f->a;
    if (cti_attention_hides_all(a, b, k0, nk) || (a->set.causal && k0 > q0 + nq - 1)) return;
    const cti_attention_rows k = cti_attention_seen(a, a->key, b, h / a->group, k0, nk, a->d, r->k);
    cti_attention_pack_b(a, a->d, nk, k.data, 1, k.row, r->kt_b, a->d);
    for (int64_t q = 0; q < nq; q += CTI_ATTENTION_QUERIES) block(f, r, b, h, q0 + q, cti_attention_min(CTI_ATTENTION_QUERIES, nq - q), k0, nk);
}

static void pieces_task(void *arg, int64_t begin, int64_t end, int worker) {
    const weights *f = arg;
    const attention *a = &f->a;
    const int64_t together = f->mean ? a->heads : 1; /* heads */
    size_t used = 0;
    const room r = rooms(f, f->scratch + (size_t)worker * f->bytes, &used);
    for (int64_t i = begin; i < end; i++) {
        const int64_t q0 = i / f->across % f->down * QUERIES, k0 = i % f->across * KEYS, head = i / f->across / f->down * together;
        const int64_t b = head / a->heads, h = head % a->heads, nq = cti_attention_min(QUERIES, a->t - q0), nk = cti_attention_min(KEYS, a->s - k0);
        for (int64_t q = 0; q < nq; q++) a->k->fill(nk, 0, cti_attention_at(a, f->y, b, h, q0 + q, k0));
        for (int64_t n = 0; n < together; n++) piece(f, &r, b, h + n, q0, nq, k0, nk);
    }
}

static ct_tensor *forward(ct_call *c) {
    ct_tensor *part[3], *stats = c->in[5];
    c->drop = CT_DROP_OUT | CT_DROP_IN(5);
    if (!cti_attention_operands(c, part)) return NULL;
    const cti_attention_attrs *set = c->attrs;
    weights f = {.a = cti_attention_of(c, part, part[0], stats), .mean = set->mean};
    const attention *a = &f.a;
    ct_tensor *y = cti_op_new(c, stats->dtype, f.mean ? CT_SHAPE(a->batch, a->t, a->s) : CT_SHAPE(a->batch, a->heads, a->t, a->s));
    if (!y || y->numel == 0) return y;
    if (a->heads == 0) return cti_op_fill(y, NAN) ? y : NULL;
    f.y = (cti_attention_part){y->data, {a->t * a->s, 0, a->s, 1}};
    if (!f.mean) f.y.stride[0] *= a->heads, f.y.stride[1] = a->t * a->s;
    f.down = cti_attention_pieces(a->t, QUERIES), f.across = cti_attention_pieces(a->s, KEYS);
    const int64_t items = a->batch * (f.mean ? 1 : a->heads) * f.down * f.across;
    const double cost =
        (double)cti_attention_min(QUERIES, a->t) * (double)cti_attention_min(KEYS, a->s) * (double)(a->d + 16) * (double)(f.mean ? a->heads : 1);
    const int64_t grain = 1 + (int64_t)((1 << 20) / cost);
    rooms(&f, NULL, &f.bytes);
    const size_t bytes = cti_bytes(items > grain ? cti_parallel_width(c->context) : 1, f.bytes);
    if (!(f.scratch = cti_take(c->context, bytes))) return NULL;
    cti_parallel(c->context, items, grain, pieces_task, &f);
    cti_give(c->context, f.scratch, bytes);
    return y;
}

/* ---- backward ---- */

/* The gradients of q and k, from that of the scores, which is zero for hidden keys. */
static bool through_product(const ct_call *c, ct_tensor *const part[3], ct_tensor *ds, ct_tensor *own[2]) {
    const cti_attention_attrs *set = c->attrs;
    ct_tensor *q = part[0], *k = part[1], *keys = c->in[4];
    const int64_t b = q->shape.dim[0], h_kv = k->shape.dim[1], d = q->shape.dim[3], s = k->shape.dim[2];
    const int64_t rows = q->shape.dim[1] / (h_kv > 0 ? h_kv : 1) * q->shape.dim[2]; /* of the queries that meet one head's keys */
    ds = ct_view(ct_scale(ds, set->scale), CT_SHAPE(b, h_kv, rows, s));
    own[0] = ct_view(ct_matmul(ds, keys ? cti_attention_unhidden(k, keys) : k), q->shape);
    own[1] = ct_matmul(ct_transpose(ds, 2, 3), ct_reshape(q, CT_SHAPE(b, h_kv, rows, d)));
    return cti_ready(c->context);
}

static bool backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    ct_tensor *g = cotangents[0];
    const cti_attention_attrs *set = c->attrs;
    ct_tensor *part[3], *own[2], *third[3];
    if (!cti_attention_operands(c, part)) return false;
    if (set->mean) g = ct_scale(ct_unsqueeze(g, 1), 1 / (double)part[0]->shape.dim[1]);
    ct_tensor *p = cti_attention_softmax(part[0], part[1], c->in[3], c->in[4], set->causal, set->scale), *pg = ct_mul(p, g);
    ct_tensor *ds = ct_sub(pg, ct_mul(p, ct_sum(pg, CT_DIMS(-1), true)));
    if (!through_product(c, part, ds, own)) return false;
    if (!set->heads) {
        grad[0] = own[0], grad[1] = own[1];
    } else {
        if (!(grad[0] = ct_zeros(c->context, g->dtype, c->in[0]->shape)) || !cti_attention_unpack(grad[0], set->heads, third)) return false;
        for (int i = 0; i < 2; i++)
            if (!cti_op_copy_into(third[i], own[i])) return false;
    }
    return !c->wants[3] || cti_op_sum_to_input(c, 3, ds, &grad[3]);
}

static const ct_op op = {.name = "cti_attention_weights",
                         .attrs_size = sizeof(cti_attention_attrs),
                         .forward = forward,
                         .backward = backward,
                         .flags = CT_OP_STRIDED | CT_OP_OPTIONAL};

ct_tensor *cti_attention_weights_of(ct_tensor *const in[CTI_ATTENTION_INPUTS], const cti_attention_attrs *attrs) {
    return ct_apply(&op, in, CTI_ATTENTION_INPUTS, attrs);
}
