/* A call's operands, the rows of a tile, and the products of a tile. */
#include "attention.h"

#include <string.h>

#include "../../src/core/cache_sets.h"
#include "../../src/core/profile.h"

/* ---- the call ---- */

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
    return true;
}

cti_attention_operand cti_attention_operand_of(const ct_tensor *x, ct_shape shape) {
    cti_attention_operand o = {.data = x->data};
    const int added = shape.ndim - x->shape.ndim; /* leading dims, with stride 0 */
    for (int d = 0; d < x->shape.ndim; d++) {
        const bool repeats = x->shape.dim[d] == 1 && shape.dim[added + d] != 1;
        o.stride[added + d] = repeats ? 0 : x->stride[d];
    }
    return o;
}

cti_attention_params cti_attention_params_of(const ct_call *c, const cti_attention_tensors *x) {
    const int64_t *q = x->q->shape.dim, *k = x->k->shape.dim;
    const cti_kernels *f = kernels(c);
    cti_attention_params a = {
        .attrs = *(const cti_attention_attrs *)c->attrs,
        .kernels = f,
        .nr = f->gemm.nr,
        .mr = f->gemm.mr,
        .mr_narrow = f->gemm.mr_narrow,
        .size = (int64_t)cti_dtype_size(x->q->dtype),
        .batch = q[0],
        .heads = q[1],
        .t = q[2],
        .d = q[3],
        .kv_heads = k[1],
        .s = k[2],
        .group = k[1] > 0 ? q[1] / k[1] : 1,
        .q = cti_attention_operand_of(x->q, x->q->shape),
        .k = cti_attention_operand_of(x->k, x->k->shape),
    };
    a.score_scale = a.attrs.scale * 1.44269504088896340736;
    if (x->stats) {
        a.max = x->stats->data;
        a.inverse_sum = a.max + a.batch * a.heads * a.t * a.size;
    }
    if (x->scores) a.scores = x->scores->data;
    if (x->v) a.v = cti_attention_operand_of(x->v, x->v->shape);
    if (x->v) a.dv = x->v->shape.dim[3];
    a.rounded = a.attrs.rounded ? f->bf16 : NULL;
    a.row_unit = 1;
    a.d_bytes = a.d * a.size;
    a.dv_bytes = a.dv * a.size;
    if (a.rounded) {
        a.row_unit = a.rounded->mr;
        a.mr_narrow = cti_max(a.mr_narrow, a.row_unit);
        a.d_bytes = cti_gemm_packed(a.rounded, a.d);
        a.dv_bytes = cti_gemm_packed(a.rounded, a.dv);
    }
    if (x->out) a.out = cti_attention_operand_of(x->out, x->out->shape);
    if (x->mask) a.mask = cti_attention_operand_of(x->mask, CT_SHAPE(a.batch, a.heads, a.t, a.s));
    a.mask_is_bool = x->mask && x->mask->dtype == CT_BOOL;
    if (x->key_mask)
        a.key_mask = (cti_attention_operand){
            .data = x->key_mask->data,
            .stride = {[0] = x->key_mask->stride[0], [3] = x->key_mask->stride[1]}};
    return a;
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

cti_attention_keys cti_attention_visible_keys(const cti_attention_params *a,
                                              const cti_attention_tile *t) {
    if (!a->key_mask.data || t->nk <= 0) return CTI_KEYS_ALL;
    const bool *flag = cti_attention_key_flags(a, t->b, t->k0);
    const bool first = flag[0];
    for (int64_t i = 1; i < t->nk; i++)
        if (!flag[i * a->key_mask.stride[3]] != !first) return CTI_KEYS_SOME;
    return first ? CTI_KEYS_ALL : CTI_KEYS_NONE;
}

/* ---- workspace ---- */

char *cti_attention_reserve(const cti_attention_params *a, char *base, size_t *used, int64_t rows,
                            int64_t cols) {
    const size_t bytes = cti_bytes(rows, cti_bytes(cols, (size_t)a->size)), at = *used;
    const bool fits = bytes < SIZE_MAX / 4 && at < SIZE_MAX / 4;
    *used = fits ? at + (bytes + CTI_ALIGN - 1) / CTI_ALIGN * CTI_ALIGN : SIZE_MAX;
    return base && fits ? base + at : NULL;
}

/* ---- rows ---- */

/* At most 16 rows in place may begin at one offset of an L1d way (src/core/cache_sets.h). That is
 * twice the 8 ways of a set; a limit of 8 was slower: 64 x 64 attention 22.1 us a head backward,
 * now 17.5 (docs/performance.md). */
bool cti_attention_in_place(const cti_attention_params *a, int64_t n, int64_t stride,
                            int64_t cols) {
    enum { ROWS_PER_OFFSET = 16 };
    const int64_t distance = stride < 0 ? -stride : stride;
    const bool dense = distance <= 2 * cols; /* the rows use half of their memory or more */
    return dense || n <= ROWS_PER_OFFSET * cti_l1d_offsets(distance * a->size);
}

static cti_attention_rows gather_rows(const cti_attention_params *a, const cti_attention_operand *x,
                                      int64_t b, int64_t h, int64_t first, int64_t n, int64_t cols,
                                      char *buffer) {
    const char *from = cti_attention_at(a, x, b, h, first, 0);
    if (x->stride[3] == 1 && cti_attention_in_place(a, n, x->stride[2], cols))
        return (cti_attention_rows){.data = from, .stride = x->stride[2]};
    a->kernels->copy2d(n, cols, from, x->stride[2], x->stride[3], buffer, cols, 1, false);
    return (cti_attention_rows){.data = buffer, .stride = cols};
}

cti_attention_rows cti_attention_gather_queries(const cti_attention_params *a,
                                                const cti_attention_operand *x,
                                                const cti_attention_tile *t, int64_t cols,
                                                char *buffer) {
    return gather_rows(a, x, t->b, t->h, t->q0, t->nq, cols, buffer);
}

cti_attention_rows cti_attention_gather_keys(const cti_attention_params *a,
                                             const cti_attention_operand *x,
                                             const cti_attention_tile *t, int64_t cols,
                                             char *buffer) {
    const int64_t h = t->h / a->group;
    if (cti_attention_visible_keys(a, t) == CTI_KEYS_ALL)
        return gather_rows(a, x, t->b, h, t->k0, t->nk, cols, buffer);
    const bool *flags = cti_attention_key_flags(a, t->b, t->k0);
    for (int64_t i = 0; i < t->nk; i++) {
        char *to = buffer + i * cols * a->size;
        const char *from = cti_attention_at(a, x, t->b, h, t->k0 + i, 0);
        if (!flags[i * a->key_mask.stride[3]]) memset(to, 0, (size_t)(cols * a->size));
        else a->kernels->copy2d(1, cols, from, cols, x->stride[3], to, cols, 1, false);
    }
    return (cti_attention_rows){.data = buffer, .stride = cols};
}

/* ---- products ---- */

/* Element (i, j) is at i row + j col, in elements. */
typedef struct {
    const char *data;
    int64_t row, col;
} tile_matrix;

/* C (m, n) = alpha A (m, k) B (k, n), or C += with accumulate. B's rows are b_row apart: nr for a
 * packed panel. Columns of B and of C are consecutive. All products of attention but those of
 * attention_decode.c are calls of this function. */
static void gemm(const cti_attention_params *a, int64_t m, int64_t n, int64_t k, double alpha,
                 const tile_matrix *x, const char *b, int64_t b_row, bool accumulate, char *c,
                 int64_t c_row) {
    const cti_gemm_params params = {.k = k,
                                    .a_row = x->row,
                                    .a_col = x->col,
                                    .b_row = b_row,
                                    .row = c_row,
                                    .col = 1,
                                    .base_row = c_row,
                                    .alpha = alpha};
    a->kernels->gemm.macro_kernel(&params, m, n, x->data, b, a->nr * a->size, accumulate ? c : NULL,
                                  c);
}

void cti_attention_pack(const cti_attention_params *a, int64_t k, int64_t n, const char *b,
                        int64_t row, int64_t col, char *packed) {
    for (int64_t j = 0; j < n; j += a->nr)
        a->kernels->gemm.pack_b(k, cti_min(a->nr, n - j), b + j * col * a->size, row, col,
                                packed + j * k * a->size);
}

void cti_attention_panel_product(const cti_attention_params *a, int64_t m, int64_t width, int64_t k,
                                 const cti_attention_rows *rows, const char *b, double alpha,
                                 char *panel) {
    if (a->rounded) {
        cti_attention_rounded_panel(a, m, width, k, rows, b, alpha, panel);
        return;
    }
    const tile_matrix x = {.data = rows->data, .row = rows->stride, .col = 1};
    gemm(a, m, width, k, alpha, &x, b, a->nr, false, panel, a->nr);
}

void cti_attention_count(ct_context *context, const cti_attention_params *a, int64_t per_pair) {
    const int64_t t = a->t, s = a->s, seeing_all = cti_max(0, t - s);
    const double triangle = (double)(t - seeing_all) * (double)(t - seeing_all + 1) / 2;
    const double causal = triangle + (double)seeing_all * (double)s;
    const double pairs = a->attrs.causal ? causal : (double)t * (double)s;
    cti_profile_add_flops(context, 2 * (double)(a->batch * a->heads) * pairs * (double)per_pair);
}

/* One macro-kernel call for each micro-kernel tile of rows: so few rows share a range of columns
 * that little time goes to the zeros beside the band. */
void cti_attention_band_product(const cti_attention_params *a, const cti_attention_band *band,
                                int64_t cols, const cti_attention_rows *b, double alpha,
                                bool accumulate, char *c, int64_t c_row) {
    if (band->m <= 0) return;
    if (a->rounded) {
        cti_attention_rounded_band(a, band, cols, b, alpha, accumulate, c, c_row);
        return;
    }
    const int64_t most = cols > a->kernels->attention.lanes ? a->mr : a->mr_narrow;
    const int64_t share = cti_ceil_div(band->m, cti_ceil_div(band->m, most));
    for (int64_t i = 0; i < band->m; i += share) {
        const int64_t m = cti_min(share, band->m - i);
        const int64_t begin = cti_max(0, cti_min(i + band->low, band->k));
        const int64_t end = cti_min(band->k, i + m - 1 + band->high), k = cti_max(0, end - begin);
        const cti_attention_rows rows = cti_attention_rows_from(a, b, begin);
        const tile_matrix x = {.data = band->data + (i * band->row + begin * band->col) * a->size,
                               .row = band->row,
                               .col = band->col};
        gemm(a, m, cols, k, alpha, &x, rows.data, rows.stride, accumulate, c + i * c_row * a->size,
             c_row);
    }
}
