/* attention, fused, backward: for each block of queries and keys, with P from the scores computed again and D_i = <dO_i, O_i>,
 *
 *     dV += P^T dO,  dP = dO V^T,  dS = P (dP - D),  dQ += scale dS K,  dK += scale dS^T Q,  dmask += dS
 *
 * (with dropout's factors M: dV += (P M)^T dO, dP = (dO V^T) M). Dao et al. 2022, arXiv:2205.14135. Here a key is a lane.
 *
 * A cell is one range of queries against one of keys: with each block's P it does all five products. Cells in different rows and
 * columns of the table of cells share no gradient, so those run side by side, of all heads, and each gradient is added up in one
 * order, whatever the threads:
 *
 *     keys    0 1 2 3          the step in which a cell runs (causal: those above the diagonal have nothing to do)
 *     query 0 0 1 2 3
 *           1 2 3 0 1
 *
 * The query heads of one key head belong to one cell. Where a mask that wants a gradient repeats over batch or heads, the cells that
 * share a part of it form one piece of work, or a few with a sum each. */
#include "attention.h"

#include <string.h>

#include "../update/update.h"

enum { PARTS = 8 }; /* sums of a shared mask's gradient */

typedef struct {
    attention a;
    cti_attention_part g, dq, dk, dv, dmask;
    int64_t mask_dims[4]; /* of the mask's gradient; 1 where it repeats */
    int64_t part;         /* elements from one part of dmask to the next */
    cti_attention_cells cut;
    int64_t step;
    int64_t shared_b, shared_h, parts; /* batches and key heads that share a mask's gradient, in so many pieces */
    bool shared_cells, add;            /* one piece does all cells of a head; gradients hold something */
    char *scratch;
    size_t bytes;
} backward;

/* Rows of a gradient: where they belong, if nothing is there yet, or in scratch. */
typedef struct {
    char *data;
    int64_t row;
} target;

/* A worker's scratch. Packed as B: ..._b. */
typedef struct {
    char *kt_b, *vt_b;   /* keys (d, keys), values (dv, keys): of a range */
    char *q, *g, *k, *v; /* a block of queries (queries, d), of dO (queries, dv), a range of keys, of values, if not read where they lie */
    char *dq, *dk, *dv;  /* (queries, d), (keys, d), (keys, dv), if not written where they belong */
    char *dot;           /* (queries) */
    char *s, *dp, *ds;   /* panels (queries, nr); dS of a block (queries, ds_row) */
    char *bias, *ones, *drop;
} room;

/* A panel longer than a block's keys: rows of 512 bytes would begin in a few sets of a first-level cache. */
static int64_t ds_row(const backward *f) { return f->cut.keys + f->a.k->gemm.nr; }

static room rooms(const backward *f, char *base, size_t *used) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, keys = cti_attention_up(f->cut.sr, nr), rows = cti_attention_min(CTI_ATTENTION_QUERIES, f->cut.tr);
    const bool dropped = a->set.dropout > 0;
    room r = {0};
    r.kt_b = cti_attention_carve(a, base, used, keys, a->d);
    r.vt_b = cti_attention_carve(a, base, used, keys, a->dv);
    r.q = cti_attention_carve(a, base, used, rows, a->d);
    r.g = cti_attention_carve(a, base, used, rows, a->dv);
    r.k = cti_attention_carve(a, base, used, f->cut.sr, a->d > a->dv ? a->d : a->dv);
    r.v = r.k; /* first packed, and then no longer read */
    r.dq = cti_attention_carve(a, base, used, rows, a->d);
    r.dk = cti_attention_carve(a, base, used, f->cut.sr, a->d);
    r.dv = cti_attention_carve(a, base, used, f->cut.sr, a->dv);
    r.dot = cti_attention_carve(a, base, used, rows, 1);
    r.s = cti_attention_carve(a, base, used, rows, nr);
    r.dp = cti_attention_carve(a, base, used, rows, nr);
    r.ds = cti_attention_carve(a, base, used, rows, ds_row(f));
    r.bias = cti_attention_carve(a, base, used, a->mask.data || a->keys.data ? rows : 0, nr);
    r.ones = cti_attention_carve(a, base, used, dropped ? f->cut.keys : 0, 1);
    r.drop = cti_attention_carve(a, base, used, dropped ? rows : 0, f->cut.keys);
    return r;
}

/* ---- where gradients are added up ---- */

static target target_of(const backward *f, cti_attention_part to, int64_t b, int64_t h, int64_t first, int64_t n, int64_t cols, char *scratch) {
    if (!to.data || f->add || !cti_attention_is_near(&f->a, n, to.stride[2], cols)) return (target){scratch, cols};
    return (target){cti_attention_at(&f->a, to, b, h, first, 0), to.stride[2]};
}

static char *row_of(const attention *a, target t, int64_t i) { return t.data + i * t.row * a->size; }

static void clear(const attention *a, target t, int64_t begin, int64_t end, int64_t cols) {
    for (int64_t i = begin; i < end; i++) a->k->fill(cols, 0, row_of(a, t, i));
}

/* From scratch to where they belong. */
static void deliver(const backward *f, target t, cti_attention_part to, int64_t b, int64_t h, int64_t first, int64_t n, int64_t cols) {
    const attention *a = &f->a;
    if (to.data) a->k->copy2d(n, cols, t.data, t.row, 1, cti_attention_at(a, to, b, h, first, 0), to.stride[2], 1, f->add);
}

/* ---- one panel of keys ---- */

/* A range of one head's keys and values, and a block of queries. */
typedef struct {
    int64_t b, first, n;
    cti_attention_rows k;
    target dk, dv;
    bool begun[CTI_ATTENTION_RANGE / 4]; /* do they hold something? for each panel, of four keys at least */
} keys;
typedef struct {
    int64_t head, first, n, part; /* part: of a mask's gradient */
    cti_attention_rows q, g;
    target dq;
    bool begun; /* does dq hold something? */
} queries;

/* dmask += dS, summed where the mask repeats. */
static void add_mask(const backward *f, const room *r, int64_t b, const queries *q, int64_t first, const char *ds, int64_t k0, int64_t nk) {
    const attention *a = &f->a;
    const int64_t row = f->dmask.stride[2], col = f->dmask.stride[3], n = q->n - first;
    char *to = cti_attention_at(a, f->dmask, b, q->head, q->first + first, k0) + q->part * f->part * a->size;
    if (row != 0) {
        a->k->copy2d(n, nk, ds, ds_row(f), 1, to, row, col, true);
    } else {
        a->k->sum(n, nk, ds, ds_row(f), r->bias);
        a->k->copy2d(1, nk, r->bias, nk, 1, to, nk, col, true);
    }
}

/* x times the factors of dropout, of which r->drop holds a block's. */
static void multiply(const backward *f, const room *r, int64_t first, int64_t nq, int64_t col, int64_t nk, char *x) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr;
    for (int64_t i = 0; i < nq; i++) {
        char *row = x + i * nr * a->size;
        a->k->mul(nk, row, 1, r->drop + ((first + i) * f->cut.keys + col) * a->size, 1, row);
    }
}

/* The scores that forward has kept, as a panel; lanes beyond the keys are zeros, as products leave
 * them. */
static void kept_scores(const attention *a, int64_t rows, const char *scores, int64_t nk,
                        int64_t width, char *panel) {
    for (int64_t i = 0; i < rows; i++, scores += a->s * a->size, panel += a->k->gemm.nr * a->size) {
        memcpy(panel, scores, (size_t)(nk * a->size));
        memset(panel + nk * a->size, 0, (size_t)((width - nk) * a->size));
    }
}

/* The block's queries from `first` on against nk keys from key `at` of the range on, a panel, which starts at column col of its block:
 * dV, dK and dS. */
static void panel(const backward *f, const room *r, keys *k, const queries *q, int64_t first, int64_t at, int64_t nk, int64_t col) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, width = cti_attention_width(a, nk), n = q->n - first, q0 = q->first + first, k0 = k->first + at;
    const int64_t stat = ((k->b * a->heads + q->head) * a->t + q0) * a->size;
    const int64_t low = a->set.causal ? k0 - q0 : -nk; /* who sees whom */
    const cti_attention_rows qs = cti_attention_from(a, &q->q, first), gs = cti_attention_from(a, &q->g, first);
    char *ds = r->ds + (first * ds_row(f) + col) * a->size;
    bool *begun = &k->begun[at / nr];
    if (a->scores) {
        kept_scores(a, n, a->scores + (stat / a->size * a->s + k0) * a->size, nk, width, r->s);
    } else {
        cti_attention_product(a, n, width, a->d, &qs, r->kt_b + at * a->d * a->size, a->score_scale,
                          r->s);
        cti_attention_masks(a, k->b, q->head, q0, n, k0, nk, false, r->s, r->bias, NULL);
    }
    cti_attention_product(a, n, width, a->dv, &gs, r->vt_b + at * a->dv * a->size, 1, r->dp);
    if (a->set.dropout > 0) multiply(f, r, first, n, col, nk, r->dp);
    a->k->attention.scores(n, width, r->s, r->dp, a->max + stat, a->inverse + stat, r->dot + first * a->size, ds, ds_row(f));
    if (a->set.dropout > 0) multiply(f, r, first, n, col, nk, r->s);
    if (f->dmask.data) add_mask(f, r, k->b, q, first, ds, k0, nk);
    cti_attention_gather(a, &(cti_attention_weights){r->s, 1, nr, nk, n, low, n}, a->dv, &gs, 1, *begun, row_of(a, k->dv, at), k->dv.row);
    cti_attention_gather(a, &(cti_attention_weights){ds, 1, ds_row(f), nk, n, low, n}, a->d, &qs, a->set.scale, *begun, row_of(a, k->dk, at),
                     k->dk.row);
    *begun = true;
}

/* The block's queries against nk keys from key `at` of the range on, panel by panel. dQ is of all of them at once: a sum over one panel is
 * hardly longer than it takes to begin and to end it. */
static void panels(const backward *f, const room *r, keys *k, queries *q, int64_t at, int64_t nk) {
    const attention *a = &f->a;
    const int64_t nr = a->k->gemm.nr, row = ds_row(f), ahead = a->set.causal ? k->first + at - q->first : -nk;
    const int64_t top = ahead > 0 ? ahead : 0; /* queries before these see none of the keys */
    for (int64_t p = 0; p < nk && p < q->n - ahead; p += nr) {
        const int64_t n = cti_attention_min(nr, nk - p), first = ahead + p > 0 ? ahead + p : 0, near = first - a->k->gemm.mr_narrow;
        /* What a block of dQ reads beside the rows of those who see the panel. */
        clear(a, (target){r->ds + p * a->size, row}, near > top ? near : top, first, n);
        panel(f, r, k, q, first, at + p, n, p);
    }
    const cti_attention_weights ds = {r->ds + top * row * a->size, row, 1, q->n - top, nk, -q->n, a->set.causal ? top + 1 - ahead : nk};
    const cti_attention_rows ks = cti_attention_from(a, &k->k, at);
    if (!q->begun) clear(a, q->dq, 0, top, a->d);
    cti_attention_gather(a, &ds, a->d, &ks, a->set.scale, q->begun, row_of(a, q->dq, top), q->dq.row);
    q->begun = true;
}

/* ---- a block of queries against a range of keys ---- */

/* Gradients of hidden keys, and of queries whose keys are all hidden, are written as +0: where they share a block with others they have
 * been computed, and the product's zeros are -0 if the scale is negative. */
static bool sees_nothing(const attention *a, int64_t b, int64_t head, int64_t query) {
    const int64_t i = (b * a->heads + head) * a->t + query;
    if (!a->mask.data && !a->keys.data) return false; /* each sees the first key */
    return a->size == sizeof(float) ? ((const float *)a->inverse)[i] == 0 : ((const double *)a->inverse)[i] == 0;
}

static void block(const backward *f, const room *r, keys *k, int64_t head, int64_t q0, int64_t nq, int64_t part) {
    const attention *a = &f->a;
    const cti_attention_part *out = &a->out;
    const int64_t b = k->b, k0 = k->first, seen = a->set.causal ? cti_attention_min(k->n, q0 + nq - k0) : k->n;
    queries q = {.head = head, .first = q0, .n = nq, .part = part};
    q.q = cti_attention_near(a, a->q, b, head, q0, nq, a->d, r->q);
    q.g = cti_attention_near(a, f->g, b, head, q0, nq, a->dv, r->g);
    q.dq = target_of(f, f->dq, b, head, q0, nq, a->d, r->dq);
    a->k->attention.dots(nq, a->dv, q.g.data, q.g.row, cti_attention_at(a, *out, b, head, q0, 0), out->stride[2], r->dot);
    for (int64_t j = 0; j < seen; j += f->cut.keys) {
        const int64_t n = cti_attention_min(f->cut.keys, k->n - j);
        if (cti_attention_hides_all(a, b, k0 + j, n)) continue;
        if (a->set.dropout > 0)
            for (int64_t i = 0; i < nq; i++)
                a->k->dropout(n, ((b * a->heads + head) * a->t + q0 + i) * a->s + k0 + j, a->set.random, a->set.dropout, r->ones,
                              r->drop + i * f->cut.keys * a->size);
        panels(f, r, k, &q, j, n);
    }
    for (int64_t i = 0; i < nq; i++)
        if (!q.begun || sees_nothing(a, b, head, q0 + i)) clear(a, q.dq, i, i + 1, a->d);
    deliver(f, q.dq, f->dq, b, head, q0, nq, a->d);
}

/* ---- a cell ---- */

static void cell(const backward *f, room *r, int64_t b, int64_t kv, int64_t i, int64_t part) {
    const attention *a = &f->a;
    const int64_t q0 = i * f->cut.tr, k0 = cti_attention_cell_keys(&f->cut, i, f->step) * f->cut.sr;
    const int64_t nq = cti_attention_min(f->cut.tr, a->t - q0), nk = cti_attention_min(f->cut.sr, a->s - k0), nr = a->k->gemm.nr;
    if (a->set.causal && k0 > q0 + nq - 1) return;
    keys k = {.b = b, .first = k0, .n = nk};
    const cti_attention_rows v = cti_attention_seen(a, a->value, b, kv, k0, nk, a->dv, r->v);
    cti_attention_pack_b(a, a->dv, nk, v.data, 1, v.row, r->vt_b, a->dv);
    k.k = cti_attention_seen(a, a->key, b, kv, k0, nk, a->d, r->k);
    if (!a->scores) cti_attention_pack_b(a, a->d, nk, k.k.data, 1, k.k.row, r->kt_b, a->d);
    k.dk = target_of(f, f->dk, b, kv, k0, nk, a->d, r->dk);
    k.dv = target_of(f, f->dv, b, kv, k0, nk, a->dv, r->dv);
    for (int64_t h = kv * a->group; h < (kv + 1) * a->group; h++)
        for (int64_t q = 0; q < nq; q += CTI_ATTENTION_QUERIES) block(f, r, &k, h, q0 + q, cti_attention_min(CTI_ATTENTION_QUERIES, nq - q), part);
    for (int64_t j = 0; j < nk; j++) {
        if (k.begun[j / nr] && !cti_attention_hides(a, b, k0 + j, 1)) continue;
        clear(a, k.dk, j, j + 1, a->d);
        clear(a, k.dv, j, j + 1, a->dv);
    }
    deliver(f, k.dk, f->dk, b, kv, k0, nk, a->d);
    deliver(f, k.dv, f->dv, b, kv, k0, nk, a->dv);
}

/* ---- all cells ---- */

/* A piece of work: a cell of those heads that share a mask's gradient, or of a part of them; usually of one head. */
static void cells_task(void *arg, int64_t begin, int64_t end, int worker) {
    const backward *f = arg;
    const attention *a = &f->a;
    size_t used = 0;
    room r = rooms(f, f->scratch + (size_t)worker * f->bytes, &used);
    const int64_t cells = f->shared_cells ? 1 : f->cut.tn, own_h = a->kv_heads / f->shared_h, shared = f->shared_b * f->shared_h;
    if (a->set.dropout > 0) a->k->fill(f->cut.keys, 1, r.ones);
    for (int64_t item = begin; item < end; item++) {
        const int64_t i = item % cells, part = item / cells % f->parts, own = item / cells / f->parts;
        for (int64_t n = shared * part / f->parts; n < shared * (part + 1) / f->parts; n++) {
            const int64_t b = n / f->shared_h + own / own_h, kv = n % f->shared_h + own % own_h; /* one of the two is 0 */
            if (f->shared_cells)
                for (int64_t c = 0; c < f->cut.tn; c++) cell(f, &r, b, kv, c, part);
            else cell(f, &r, b, kv, i, part);
        }
    }
}

/* Who shares a part of the mask's gradient, and in how many pieces. */
static void share_mask(backward *f) {
    const attention *a = &f->a;
    f->shared_b = f->shared_h = f->parts = 1;
    if (!f->dmask.data) return;
    if (f->mask_dims[0] == 1) f->shared_b = a->batch;
    if (f->mask_dims[1] == 1) f->shared_h = a->kv_heads;
    f->shared_cells = f->mask_dims[2] == 1 && f->mask_dims[3] == 1;
    f->parts = cti_attention_min(PARTS, f->shared_b * f->shared_h);
}

static bool run(ct_context *context, backward *f) {
    const attention *a = &f->a;
    const int64_t grain = f->cut.grain, cells = f->shared_cells ? 1 : f->cut.tn;
    const int64_t items = a->batch / f->shared_b * (a->kv_heads / f->shared_h) * f->parts * cells;
    rooms(f, NULL, &f->bytes);
    const size_t bytes = cti_bytes(items > grain ? cti_parallel_width(context) : 1, f->bytes);
    if (!(f->scratch = cti_take(context, bytes))) return false;
    for (f->step = 0; f->step < f->cut.sn; f->step++) cti_parallel(context, items, grain, cells_task, f);
    cti_give(context, f->scratch, bytes);
    return true;
}

/* A gradient of x's shape, in memory as x is where x's heads were split without moving; zeros if it is to be added to. */
static ct_tensor *gradient(const ct_call *c, const ct_tensor *x, bool zero) {
    ct_tensor *y = cti_attention_new_like(c, x, x->shape.dim[3]);
    return y && (!zero || cti_op_fill(y->contiguous ? y : cti_tensor_view(y, y->data, CT_SHAPE(y->numel), NULL), 0)) ? y : NULL;
}

/* Gradients of q, k and v, as heads, and of the inputs. */
static bool gradients(const ct_call *c, ct_tensor *const part[3], bool zero, ct_tensor *own[3], ct_tensor **grad) {
    const int64_t heads = ((const cti_attention_attrs *)c->attrs)->heads;
    if (heads) {
        if (!c->wants[0]) return true;
        grad[0] = zero ? ct_zeros(c->context, c->in[0]->dtype, c->in[0]->shape) : cti_op_new(c, c->in[0]->dtype, c->in[0]->shape);
        return grad[0] && cti_attention_unpack(grad[0], heads, own);
    }
    for (int i = 0; i < 3; i++)
        if (c->wants[i] && !(own[i] = grad[i] = gradient(c, part[i], zero))) return false;
    return true;
}

bool cti_attention_backward(const ct_call *c, ct_tensor *const *cotangents, ct_tensor **grad) {
    ct_tensor *g = cotangents[0];
    const int64_t heads = ((const cti_attention_attrs *)c->attrs)->heads;
    const ct_tensor *mask = c->in[3];
    ct_tensor *part[3], *own[3] = {0}, *out = c->out;
    if (!cti_attention_operands(c, part)) return false;
    if (heads) {
        out = cti_op_heads(out, heads, 0, out->shape.dim[2]);
        g = cti_op_heads(g, heads, 0, g->shape.dim[2]);
        if (!out || !g) return false;
    }
    backward f = {.a = cti_attention_of(c, part, out, c->saved[0]), .g = cti_attention_part_of(g, g->shape)};
    const attention *a = &f.a;
    const bool empty = out->numel == 0 || a->s == 0; /* then all gradients are zeros */
    ct_tensor *sums = NULL;
    if (c->wants[3]) {
        f.mask_dims[0] = f.mask_dims[1] = f.mask_dims[2] = f.mask_dims[3] = 1;
        for (int d = 0; d < mask->shape.ndim; d++) f.mask_dims[4 - mask->shape.ndim + d] = mask->shape.dim[d];
        f.dmask.data = a->q.data; /* there will be one */
    }
    if (!empty) {
        f.cut = cti_attention_cells_of(a);
        f.add = f.cut.sn > 1; /* there are never more ranges of queries */
        share_mask(&f);
    }
    if (!gradients(c, part, empty || f.add, own, grad)) return false;
    if (c->wants[3]) {
        const ct_shape shape = CT_SHAPE(empty ? 1 : f.parts, f.mask_dims[0], f.mask_dims[1], f.mask_dims[2], f.mask_dims[3]);
        if (!(sums = ct_zeros(c->context, mask->dtype, shape))) return false;
        ct_tensor *first = ct_select(sums, 0, 0);
        if (!first) return false;
        f.dmask = cti_attention_part_of(first, CT_SHAPE(a->batch, a->heads, a->t, a->s));
        f.part = sums->stride[0];
    }
    cti_attention_part *to[] = {&f.dq, &f.dk, &f.dv};
    for (int i = 0; i < 3; i++)
        if (own[i]) *to[i] = cti_attention_part_of(own[i], own[i]->shape);
    if (!empty && !run(c->context, &f)) return false;
    return !c->wants[3] || (grad[3] = ct_view(ct_sum(sums, CT_DIMS(0), false), mask->shape));
}
