/* Products of attention whose operands are rounded to bf16 (CT_MATMUL_BF16): the calls that round,
 * their factors, and the products. The weights P and their gradients dS are rounded when the
 * products that read them pack them; the softmax between stays f32. */
#include "attention_products.h"
#include "../../src/core/isa.h"
#include "../../src/kernels/products.h"

/* Bytes of the rows of a band's A that are packed at once. */
enum { BAND_BYTES = 32 * CTI_ATTENTION_RIGHT_ROWS * 2 };

bool cti_attention_is_rounded(const ct_context *context, ct_dtype dtype, int64_t t, int64_t s,
                              int64_t d, int64_t dv) {
    const cti_gemm_kernels *rounded = context->rounded;
    if (!rounded || context->matmul != CT_MATMUL_BF16 || dtype != CT_F32) return false;
    if (context->rows == CTI_ROWS_ONE) return false;
    const int64_t lines = rounded->tuning.rounded_lines;
    const bool many = context->rows == CTI_ROWS_MANY || cti_min(t, s) >= lines;
    const bool large = many && cti_min(d, dv) >= lines;
    /* A panel of scores must be a block of C for both kinds of kernels. */
    const bool fits = rounded->nr == context->isa->of[dtype]->gemm->nr &&
                      rounded->mr * CTI_ATTENTION_RIGHT_ROWS * rounded->packed_bytes <= BAND_BYTES;
    return large && fits;
}

/* ---- factors ---- */

cti_attention_rows cti_attention_left(const cti_attention_params *a, const cti_attention_rows *x,
                                      int64_t n, int64_t cols, char *buffer) {
    a->rounded->pack_a(n, cols, x->data, x->stride, 1, buffer);
    return (cti_attention_rows){.data = buffer,
                                .stride = cti_gemm_packed(a->rounded, cols) / a->size};
}

cti_attention_rows cti_attention_right(const cti_attention_params *a, const cti_attention_rows *x,
                                       int64_t n, int64_t cols, char *buffer) {
    CTI_ASSERT(n <= CTI_ATTENTION_RIGHT_ROWS);
    for (int64_t j = 0; j < cols; j += a->nr)
        a->rounded->pack_b(n, cti_min(a->nr, cols - j), x->data + j * a->size, x->stride, 1,
                           buffer + j / a->nr * cti_attention_right_panel(a));
    return (cti_attention_rows){.data = buffer,
                                .stride = a->nr * a->rounded->packed_bytes / a->size};
}

/* ---- products ---- */

void cti_attention_rounded_panel(const cti_attention_params *a, int64_t m, int64_t width, int64_t k,
                                 const cti_attention_rows *rows, const char *b, double alpha,
                                 char *panel) {
    const int64_t mr = a->rounded->mr;
    const cti_gemm_params params = {.k = k, .row = a->nr, .col = 1, .alpha = alpha};
    for (int64_t i = 0; i < m; i += mr)
        a->rounded->macro_kernel(&params, cti_min(mr, m - i), width,
                                 rows->data + i * rows->stride * a->size, b, 0, NULL,
                                 panel + i * a->nr * a->size);
}

void cti_attention_rounded_band(const cti_attention_params *a, const cti_attention_band *band,
                                int64_t cols, const cti_attention_rows *b, double alpha,
                                bool accumulate, char *c, int64_t c_row) {
    _Alignas(CTI_ALIGN) char packed[BAND_BYTES];
    const cti_gemm_kernels *f = a->rounded;
    for (int64_t i = 0; i < band->m; i += f->mr, c += f->mr * c_row * a->size) {
        const int64_t m = cti_min(f->mr, band->m - i);
        /* B's packed rows begin at multiples of k_unit. */
        const int64_t begin = cti_max(0, cti_min(i + band->low, band->k)) & -f->k_unit;
        const int64_t end = cti_min(band->k, i + m - 1 + band->high), k = cti_max(0, end - begin);
        const cti_gemm_params params = {
            .k = k, .row = c_row, .col = 1, .base_row = c_row, .alpha = alpha};
        f->pack_a(m, k, band->data + (i * band->row + begin * band->col) * a->size, band->row,
                  band->col, packed);
        f->macro_kernel(&params, m, cols, packed, b->data + begin * b->stride * a->size,
                        cti_attention_right_panel(a), accumulate ? c : NULL, c);
    }
}
