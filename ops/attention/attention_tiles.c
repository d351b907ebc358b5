/* A call's tensors and operands, and the rows of a tile. */
#include "attention_tiles.h"
#include "../../src/core/isa.h"
#include "../../src/kernels/attention_kernels.h"
#include "../../src/kernels/elementwise.h"
#include "../../src/kernels/products.h"
#include "../../src/kernels/random.h"

#include <string.h>

#include "../../src/core/cache_sets.h"
#include "attention_masks.h"

/* ---- tensors and operands ---- */

bool cti_attention_unpack(ct_tensor *x, int64_t heads, ct_tensor *third[3]) {
    const int64_t width = x->shape.dim[2] / 3;
    for (int i = 0; i < 3; i++) {
        third[i] = cti_op_heads(x, heads, i * width, width);
        if (!third[i]) return false;
    }
    return true;
}

bool cti_attention_tensors_of(const ct_call *c, cti_attention_tensors *x) {
    const int64_t heads = ((const cti_attention_attrs *)c->attrs)->packed_heads;
    ct_tensor *third[3] = {c->in[CTI_ATTENTION_Q], c->in[CTI_ATTENTION_K], c->in[CTI_ATTENTION_V]};
    if (heads && !cti_attention_unpack(c->in[CTI_ATTENTION_Q], heads, third)) return false;
    *x = (cti_attention_tensors){.q = third[0],
                                 .k = third[1],
                                 .v = third[2],
                                 .mask = c->in[CTI_ATTENTION_MASK],
                                 .key_mask = c->in[CTI_ATTENTION_KEY_MASK]};
    if (c->n <= CTI_ATTENTION_FEWEST_INPUTS) return true;
    x->bias = c->in[CTI_ATTENTION_BIAS];
    x->lengths = c->in[CTI_ATTENTION_LENGTHS];
    x->segments = c->in[CTI_ATTENTION_SEGMENTS];
    return true;
}

cti_attention_operand cti_attention_broadcast(const ct_tensor *x, ct_shape shape) {
    cti_attention_operand o = {.data = x->data};
    const int added = shape.ndim - x->shape.ndim; /* leading dims, with stride 0 */
    for (int d = 0; d < x->shape.ndim; d++) {
        const bool repeats = x->shape.dim[d] == 1 && shape.dim[added + d] != 1;
        o.stride[added + d] = repeats ? 0 : x->stride[d];
    }
    return o;
}

/* Sets what the code of a tile reads of masks, bias, lengths, segments and the window. */
static void masks_of(const cti_attention_tensors *x, cti_attention_params *a) {
    const ct_window *window = &a->attrs.window;
    if (x->mask || x->bias) {
        const ct_shape scores = CT_SHAPE(a->batch, a->heads, a->t, a->s);
        if (x->mask) a->mask = cti_attention_broadcast(x->mask, scores);
        if (x->bias) a->bias = cti_attention_broadcast(x->bias, scores);
    }
    if (x->key_mask)
        a->key_mask = (cti_attention_operand){
            .data = x->key_mask->data,
            .stride = {[0] = x->key_mask->stride[0], [3] = x->key_mask->stride[1]}};
    if (x->lengths) {
        a->lengths = (const int64_t *)x->lengths->data;
        a->lengths_stride = x->lengths->stride[0];
    }
    if (x->extents) a->segments = (const cti_attention_segment *)x->extents->data;
    a->has_window = window->left || window->right || a->attrs.lower_right;
    a->limited = a->has_window || x->lengths || x->segments;
    a->guarded = a->attrs.causal || a->has_window || x->segments || x->mask || x->bias;
    a->hides_keys = x->key_mask || x->lengths;
    a->masked = a->hides_keys || a->has_window || x->segments || x->mask || x->bias;
}

void cti_attention_params_of(const ct_call *c, const cti_attention_tensors *x,
                             cti_attention_params *a) {
    const int64_t *q = x->q->shape.dim, *k = x->k->shape.dim;
    const cti_kernels *f = kernels(c);
    *a = (cti_attention_params){
        .attrs = *(const cti_attention_attrs *)c->attrs,
        .kernels = f,
        .nr = f->gemm->nr,
        .mr = f->gemm->mr,
        .mr_narrow = f->gemm->mr_narrow,
        .size = (int64_t)cti_dtype_size(x->q->dtype),
        .keys_size = (int64_t)cti_dtype_size(x->k->dtype),
        .dtype = x->q->dtype,
        .keys_dtype = x->k->dtype,
        .stats_dtype = cti_dtype_statistics(x->q->dtype),
        .batch = q[0],
        .heads = q[1],
        .t = q[2],
        .d = q[3],
        .kv_heads = k[1],
        .s = k[2],
        .group = k[1] > 0 ? q[1] / k[1] : 1,
        .q = cti_attention_operand_of(x->q),
        .k = cti_attention_operand_of(x->k),
    };
    a->cap = a->attrs.softcap * 1.44269504088896340736;
    a->score_scale = a->attrs.softcap > 0 ? a->attrs.scale / a->attrs.softcap
                                          : a->attrs.scale * 1.44269504088896340736;
    a->stat_size = (int64_t)cti_dtype_size(a->stats_dtype);
    if (x->stats) {
        a->max = x->stats->data;
        a->inverse_sum = cti_op_second_half(x->stats);
    }
    if (x->scores) a->scores = x->scores->data;
    if (x->v) a->v = cti_attention_operand_of(x->v);
    if (x->v) a->dv = x->v->shape.dim[3];
    if (a->keys_dtype != a->dtype)
        a->widen = c->context->isa->of[a->keys_dtype]->elementwise->cast[a->dtype];
    a->rounded = a->attrs.rounded ? f->bf16 : NULL;
    a->row_unit = 1;
    a->d_bytes = a->d * a->size;
    a->dv_bytes = a->dv * a->size;
    if (a->rounded) {
        a->row_unit = a->rounded->mr;
        a->mr_narrow = cti_max(a->mr_narrow, a->row_unit);
        a->d_bytes = cti_gemm_packed(a->rounded, a->d);
        a->dv_bytes = cti_gemm_packed(a->rounded, a->dv);
    }
    if (x->out) a->out = cti_attention_operand_of(x->out);
    masks_of(x, a);
    CTI_ASSERT(a->heads == a->kv_heads * a->group && a->mr <= a->mr_narrow);
    CTI_ASSERT(cti_dtype_computed(a->keys_dtype) == a->dtype);
    CTI_ASSERT(!x->v || x->v->dtype == a->keys_dtype);
    CTI_ASSERT(a->nr % f->attention->lanes == 0);
    CTI_ASSERT(!x->stats || (x->stats->dtype == a->stats_dtype && x->stats->contiguous &&
                             x->stats->numel == 2 * a->batch * a->heads * a->t));
    CTI_ASSERT(!x->scores || x->scores->numel == a->batch * a->heads * a->t * a->s);
}

ct_tensor *cti_attention_new_like(const ct_call *c, const ct_tensor *x, int64_t n) {
    const int64_t b = x->shape.dim[0], h = x->shape.dim[1], t = x->shape.dim[2];
    const bool split_by_view = h > 1 && t > 1 && x->stride[1] < x->stride[2];
    if (!split_by_view) return cti_op_new(c, x->dtype, CT_SHAPE(b, h, t, n));
    ct_tensor *y = cti_op_new(c, x->dtype, CT_SHAPE(b, t, h, n));
    return y ? cti_tensor_view(y, y->data, CT_SHAPE(b, h, t, n),
                               (int64_t[]){t * h * n, n, h * n, 1})
             : NULL;
}

/* ---- tiles ---- */

void cti_attention_dropout(const cti_attention_params *a, const cti_attention_tile *t,
                           const char *x, int64_t row, char *y) {
    for (int64_t i = 0; i < t->nq; i++) {
        const int64_t index = cti_attention_query(a, t, i) * a->s + t->k0; /* in (B, H, T, S) */
        a->kernels->random->dropout(t->nk, index, a->attrs.random, a->attrs.dropout, x,
                                    y + i * row * a->size);
    }
}

/* ---- rows ---- */

/* At most 16 rows in place may begin at one offset of an L1d way (src/core/cache_sets.h). That is
 * twice the 8 ways of a set, and faster than a limit of 8: the backward of 64 x 64 attention takes
 * 17.5 us a head in place of 22.1 (docs/notes/performance.md). */
bool cti_attention_in_place(const cti_attention_params *a, int64_t n, int64_t stride,
                            int64_t cols) {
    enum { ROWS_PER_OFFSET = 16 };
    const int64_t distance = stride < 0 ? -stride : stride;
    const bool dense = distance <= 2 * cols; /* the rows use half of their memory or more */
    return dense || n <= ROWS_PER_OFFSET * cti_l1d_offsets(distance * a->size);
}

/* Returns n rows of x, the first of which is at `from`, in place or copied to buffer (n, cols). */
static cti_attention_rows gather_rows(const cti_attention_params *a, const cti_attention_operand *x,
                                      const char *from, int64_t n, int64_t cols, char *buffer) {
    if (x->stride[3] == 1 && cti_attention_in_place(a, n, x->stride[2], cols))
        return (cti_attention_rows){.data = from, .stride = x->stride[2]};
    a->kernels->elementwise->copy2d(n, cols, from, x->stride[2], x->stride[3], buffer, cols, 1,
                                    false);
    return (cti_attention_rows){.data = buffer, .stride = cols};
}

/* Copies n keys of x, the first of which is at `from`, to buffer (n, cols). */
static void copy_keys(const cti_attention_params *a, const cti_attention_operand *x,
                      const char *from, int64_t n, int64_t cols, char *buffer) {
    const int64_t row = x->stride[2], col = x->stride[3];
    if (!a->widen) {
        a->kernels->elementwise->copy2d(n, cols, from, row, col, buffer, cols, 1, false);
        return;
    }
    int64_t run = row == cols ? n * cols : cols; /* the numbers that follow each other in x */
    if (col != 1) run = 1;
    for (int64_t i = 0; i < n * cols; i += run)
        a->widen(run, from + (i / cols * row + i % cols * col) * a->keys_size,
                 buffer + i * a->size);
}

cti_attention_rows cti_attention_gather_queries(const cti_attention_params *a,
                                                const cti_attention_operand *x,
                                                const cti_attention_tile *t, int64_t cols,
                                                char *buffer) {
    return gather_rows(a, x, cti_attention_at(a, x, t->b, t->h, t->q0, 0), t->nq, cols, buffer);
}

cti_attention_rows cti_attention_gather_keys(const cti_attention_params *a,
                                             const cti_attention_operand *x,
                                             const cti_attention_tile *t, int64_t cols,
                                             char *buffer) {
    const char *from = cti_attention_key_at(a, x, t->b, t->h, t->k0);
    const bool all = cti_attention_visible_keys(a, t) == CTI_KEYS_ALL;
    if (all && !a->widen) return gather_rows(a, x, from, t->nk, cols, buffer);
    if (all) copy_keys(a, x, from, t->nk, cols, buffer);
    for (int64_t i = 0; i < t->nk && !all; i++, from += x->stride[2] * a->keys_size) {
        char *to = buffer + i * cols * a->size;
        if (cti_attention_key_is_masked(a, t->b, t->k0 + i))
            memset(to, 0, (size_t)(cols * a->size));
        else copy_keys(a, x, from, 1, cols, to);
    }
    return (cti_attention_rows){.data = buffer, .stride = cols};
}
