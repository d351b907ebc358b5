/* What the two directions of fused attention share. */
#include "attention.h"

#include <math.h>
#include <string.h>

enum { NEAR_ROWS = 64 << 10 }; /* n rows so many bytes from place to place of a first-level cache: they meet in it about twice */

cti_attention_part cti_attention_part_of(const ct_tensor *x, ct_shape shape) {
    cti_attention_part p = {.data = x->data};
    const int grown = shape.ndim - x->shape.ndim;
    for (int d = 0; d < x->shape.ndim; d++) p.stride[grown + d] = x->shape.dim[d] == 1 && shape.dim[grown + d] != 1 ? 0 : x->stride[d];
    return p;
}

bool cti_attention_unpack(ct_tensor *x, int64_t heads, ct_tensor *part[3]) {
    const int64_t width = x->shape.dim[2] / 3;
    for (int i = 0; i < 3; i++)
        if (!(part[i] = cti_op_heads(x, heads, i * width, width))) return false;
    return true;
}

bool cti_attention_operands(const ct_call *c, ct_tensor *part[3]) {
    const int64_t heads = ((const cti_attention_attrs *)c->attrs)->heads;
    if (heads) return cti_attention_unpack(c->in[0], heads, part);
    for (int i = 0; i < 3; i++) part[i] = c->in[i];
    if (!part[2]) part[2] = part[1]; /* of no use for the weights */
    return true;
}

attention cti_attention_of(const ct_call *c, ct_tensor *const part[3], ct_tensor *out, ct_tensor *stats) {
    const ct_tensor *q = part[0], *key = part[1], *v = part[2], *mask = c->in[3], *keys = c->in[4];
    attention a = {.set = *(const cti_attention_attrs *)c->attrs, .k = kernels(c), .size = (int64_t)cti_dtype_size(q->dtype)};
    a.score_scale = a.set.scale * 1.44269504088896340736;
    a.batch = q->shape.dim[0], a.heads = q->shape.dim[1], a.t = q->shape.dim[2], a.d = q->shape.dim[3];
    a.kv_heads = key->shape.dim[1], a.s = key->shape.dim[2], a.dv = v->shape.dim[3];
    a.group = a.kv_heads > 0 ? a.heads / a.kv_heads : 1;
    a.q = cti_attention_part_of(q, q->shape);
    a.key = cti_attention_part_of(key, key->shape);
    a.value = cti_attention_part_of(v, v->shape);
    a.out = cti_attention_part_of(out, out->shape);
    if (mask) a.mask = cti_attention_part_of(mask, CT_SHAPE(a.batch, a.heads, a.t, a.s));
    a.mask_is_bool = mask && mask->dtype == CT_BOOL;
    if (keys) a.keys = (cti_attention_part){keys->data, {keys->stride[0], 0, 0, keys->stride[1]}};
    if (stats) {
        a.max = stats->data;
        a.inverse = a.max + a.batch * a.heads * a.t * a.size;
        if (stats->shape.dim[0] > 2) a.scores = a.inverse + a.batch * a.heads * a.t * a.size;
    }
    return a;
}

ct_tensor *cti_attention_new_like(const ct_call *c, const ct_tensor *x, int64_t n) {
    const ct_shape s = CT_SHAPE(x->shape.dim[0], x->shape.dim[1], x->shape.dim[2], n);
    const int64_t h = s.dim[1], t = s.dim[2];
    if (h < 2 || t < 2 || x->stride[1] >= x->stride[2]) return cti_op_new(c, x->dtype, s);
    ct_tensor *y = cti_op_new(c, x->dtype, CT_SHAPE(s.dim[0], t, h, n));
    return y ? cti_tensor_view(y, y->data, s, (int64_t[]){t * h * n, n, h * n, 1}) : NULL;
}

char *cti_attention_carve(const attention *a, char *base, size_t *used, int64_t rows, int64_t cols) {
    const size_t bytes = cti_bytes(rows, cti_bytes(cols, (size_t)a->size)), at = *used;
    const bool fits = bytes < SIZE_MAX / 4 && at < SIZE_MAX / 4;
    *used = fits ? at + (bytes + CTI_ALIGN - 1) / CTI_ALIGN * CTI_ALIGN : SIZE_MAX;
    return base && fits ? base + at : NULL;
}

/* ---- the key mask ---- */

static const bool *key_mask(const attention *a, int64_t b, int64_t k0) {
    return (const bool *)a->keys.data + b * a->keys.stride[0] + k0 * a->keys.stride[3];
}

bool cti_attention_hides(const attention *a, int64_t b, int64_t k0, int64_t n) {
    if (!a->keys.data) return false;
    const bool *seen = key_mask(a, b, k0);
    for (int64_t i = 0; i < n; i++)
        if (!seen[i * a->keys.stride[3]]) return true;
    return false;
}

bool cti_attention_hides_all(const attention *a, int64_t b, int64_t k0, int64_t n) {
    if (!a->keys.data) return false;
    const bool *seen = key_mask(a, b, k0);
    for (int64_t i = 0; i < n; i++)
        if (seen[i * a->keys.stride[3]]) return false;
    return true;
}

/* A step of an odd multiple of 2^i bytes leads to 4096 / 2^i places of a first-level cache before it comes to the first again. */
bool cti_attention_is_near(const attention *a, int64_t n, int64_t step, int64_t cols) {
    if (step < 0) step = -step;
    const int64_t bytes = step * a->size, lowest = bytes & -bytes;
    return step <= 2 * cols || n == 1 || n * (lowest < 4096 ? lowest : 4096) <= NEAR_ROWS;
}

cti_attention_rows cti_attention_near(const attention *a, cti_attention_part x, int64_t b, int64_t h, int64_t first, int64_t n, int64_t cols,
                              char *stage) {
    const char *from = cti_attention_at(a, x, b, h, first, 0);
    if (x.stride[3] == 1 && cti_attention_is_near(a, n, x.stride[2], cols)) return (cti_attention_rows){from, x.stride[2]};
    a->k->copy2d(n, cols, from, x.stride[2], x.stride[3], stage, cols, 1, false);
    return (cti_attention_rows){stage, cols};
}

cti_attention_rows cti_attention_seen(const attention *a, cti_attention_part x, int64_t b, int64_t h, int64_t k0, int64_t n, int64_t cols,
                              char *stage) {
    if (!cti_attention_hides(a, b, k0, n)) return cti_attention_near(a, x, b, h, k0, n, cols, stage);
    const bool *seen = key_mask(a, b, k0);
    for (int64_t i = 0; i < n; i++) {
        char *to = stage + i * cols * a->size;
        if (seen[i * a->keys.stride[3]])
            a->k->copy2d(1, cols, cti_attention_at(a, x, b, h, k0 + i, 0), x.stride[2], x.stride[3], to, cols, 1, false);
        else memset(to, 0, (size_t)(cols * a->size));
    }
    return (cti_attention_rows){stage, cols};
}

/* ---- packing, products ---- */

void cti_attention_pack_b(const attention *a, int64_t rows, int64_t cols, const char *x, int64_t row, int64_t col, char *packed,
                      int64_t packed_rows) {
    const int64_t nr = a->k->gemm.nr;
    for (int64_t i = 0; i < cols; i += nr)
        a->k->gemm.pack_b(rows, cti_attention_min(nr, cols - i), x + i * col * a->size, row, col, packed + i * packed_rows * a->size);
}

void cti_attention_product(const attention *a, int64_t m, int64_t width, int64_t k, const cti_attention_rows *rows, const char *panel,
                       double alpha, char *c) {
    const int64_t nr = a->k->gemm.nr;
    const cti_gemm_params form = {k, rows->row, 1, nr, nr, 1, 0, alpha};
    a->k->gemm.macro_kernel(&form, m, width, rows->data, panel, 0, NULL, c);
}

void cti_attention_gather(const attention *a, const cti_attention_weights *x, int64_t cols, const cti_attention_rows *rows, double alpha, bool add,
                      char *c, int64_t c_row) {
    const cti_gemm_kernels *f = &a->k->gemm;
    const int64_t blocks = cti_attention_pieces(x->m, cols > f->lanes ? f->mr : f->mr_narrow), step = x->m > 0 ? cti_attention_pieces(x->m, blocks) : 1;
    for (int64_t i = 0; i < x->m; i += step) {   /* a block's rows at a time, in its shares: each begins and ends along K where they do */
        const int64_t n = cti_attention_min(step, x->m - i), end = cti_attention_min(x->k, i + n - 1 + x->high);
        const int64_t begin = i + x->low < 0 ? 0 : cti_attention_min(i + x->low, x->k), k = end > begin ? end - begin : 0;
        const cti_gemm_params form = {k, x->row, x->col, rows->row, c_row, 1, c_row, alpha};
        char *to = c + i * c_row * a->size;
        f->macro_kernel(&form, n, cols, x->data + (i * x->row + begin * x->col) * a->size, rows->data + begin * rows->row * a->size,
                  f->nr * a->size, add ? to : NULL, to);
    }
}

/* ---- masks on a panel ---- */

static void hide(const attention *a, const char *mask, int64_t stride, int64_t n, char *to) {
    a->k->attention.hide(n, (const bool *)mask, stride, to);
}

/* A row of a panel of which `width` lanes are computed: 0 in those from n on. */
static void hide_lanes(const attention *a, const char *mask, int64_t stride, int64_t n, int64_t width, char *to) {
    hide(a, mask, stride, n, to);
    if (n < width) a->k->fill(width - n, 0, to + n * a->size);
}

/* The mask of these queries and keys as a panel of what is to be added. */
static void mask_panel(const attention *a, int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t k0, int64_t nk, bool turned, char *bias,
                       char *stage) {
    const int64_t *stride = a->mask.stride, across = stride[2], along = stride[3];
    const int64_t size = a->mask_is_bool ? 1 : a->size, nr = a->k->gemm.nr, width = cti_attention_width(a, nk);
    const char *mask = a->mask.data + (b * stride[0] + h * stride[1] + q0 * across + k0 * along) * size;
    if (!a->mask_is_bool) {
        if (turned) a->k->gemm.pack_b(nk, nq, mask, along, across, bias);
        else a->k->gemm.pack_b(nq, nk, mask, across, along, bias);
    } else if (turned) {
        for (int64_t i = 0; i < nq; i++) hide(a, mask + i * across, along, nk, stage + i * nk * a->size);
        a->k->gemm.pack_b(nk, nq, stage, 1, nk, bias);
    } else {
        for (int64_t i = 0; i < nq; i++) hide_lanes(a, mask + i * across, along, nk, width, bias + i * nr * a->size);
    }
}

void cti_attention_masks(const attention *a, int64_t b, int64_t h, int64_t q0, int64_t nq, int64_t k0, int64_t nk, bool turned, char *panel,
                     char *bias, char *stage) {
    const cti_attention_kernels *f = &a->k->attention;
    const int64_t rows = turned ? nk : nq, width = cti_attention_width(a, turned ? nq : nk), nr = a->k->gemm.nr;
    if (a->mask.data) {
        mask_panel(a, b, h, q0, nq, k0, nk, turned, bias, stage);
        f->bias(rows, width, panel, bias, nr);
    }
    if (a->set.causal && k0 + nk - 1 > q0) {
        if (turned) f->causal(rows, width, k0 - q0, true, panel);
        else f->causal(rows, width, q0 - k0 + 1, false, panel);
    }
    if (!cti_attention_hides(a, b, k0, nk)) return;
    if (turned) {
        const bool *seen = key_mask(a, b, k0);
        for (int64_t i = 0; i < nk; i++)
            if (!seen[i * a->keys.stride[3]]) a->k->fill(width, -INFINITY, panel + i * nr * a->size);
    } else {
        hide_lanes(a, (const char *)key_mask(a, b, k0), a->keys.stride[3], nk, width, bias);
        f->bias(rows, width, panel, bias, 0);
    }
}

void cti_attention_mask_row(const attention *a, int64_t b, int64_t h, int64_t t, int64_t n, char *scores, char *bias) {
    const cti_attention_kernels *f = &a->k->attention;
    const int64_t nr = a->k->gemm.nr, rows = cti_attention_pieces(n, nr), *stride = a->mask.stride;
    if (a->mask.data) {
        const char *mask = a->mask.data + (b * stride[0] + h * stride[1] + t * stride[2]) * (a->mask_is_bool ? 1 : a->size);
        a->k->fill(rows * nr, 0, bias);
        if (a->mask_is_bool) hide(a, mask, stride[3], n, bias);
        else a->k->copy2d(1, n, mask, n, stride[3], bias, n, 1, false);
        f->bias(rows, nr, scores, bias, nr);
    }
    if (!cti_attention_hides(a, b, 0, n)) return;
    a->k->fill(rows * nr, 0, bias);
    hide(a, (const char *)key_mask(a, b, 0), a->keys.stride[3], n, bias);
    f->bias(rows, nr, scores, bias, nr);
}
