/* The products of a tile in the computed type; attention_rounded.c has the products that round. */
#include "attention_products.h"
#include "../../src/kernels/attention_kernels.h"
#include "../../src/kernels/elementwise.h"
#include "../../src/kernels/products.h"
#include "../../src/kernels/rows.h"

void cti_attention_pack(const cti_attention_params *a, int64_t k, int64_t n, const char *b,
                        int64_t row, int64_t col, char *packed) {
    for (int64_t j = 0; j < n; j += a->nr)
        a->kernels->gemm->pack_b(k, cti_min(a->nr, n - j), b + j * col * a->size, row, col,
                                 packed + j * k * a->size);
}

void cti_attention_panel_product(const cti_attention_params *a, int64_t m, int64_t width, int64_t k,
                                 const cti_attention_rows *rows, const char *b, double alpha,
                                 char *panel) {
    if (a->rounded) {
        cti_attention_rounded_panel(a, m, width, k, rows, b, alpha, panel);
        return;
    }
    const cti_gemm_params params = {.k = k,
                                    .a_row = rows->stride,
                                    .a_col = 1,
                                    .b_row = a->nr,
                                    .row = a->nr,
                                    .col = 1,
                                    .base_row = a->nr,
                                    .alpha = alpha};
    a->kernels->gemm->macro_kernel(&params, m, width, rows->data, b, a->nr * a->size, NULL, panel);
}

/* Each micro-kernel tile of rows is one call of the macro-kernel: so few rows share a range of
 * columns that little time goes to the zeros beside the band. */
static void exact_band(const cti_attention_params *a, const cti_attention_band *band, int64_t cols,
                       const cti_attention_rows *b, double alpha, bool accumulate, char *c,
                       int64_t c_row) {
    const int64_t most = cols > a->kernels->attention->lanes ? a->mr : a->mr_narrow;
    const int64_t rows = cti_ceil_div(band->m, cti_ceil_div(band->m, most));
    for (int64_t i = 0; i < band->m; i += rows, c += rows * c_row * a->size) {
        const int64_t m = cti_min(rows, band->m - i);
        const int64_t begin = cti_max(0, cti_min(i + band->low, band->k));
        const int64_t end = cti_min(band->k, i + m - 1 + band->high);
        const cti_gemm_params params = {.k = cti_max(0, end - begin),
                                        .a_row = band->row,
                                        .a_col = band->col,
                                        .b_row = b->stride,
                                        .row = c_row,
                                        .col = 1,
                                        .base_row = c_row,
                                        .alpha = alpha};
        a->kernels->gemm->macro_kernel(
            &params, m, cols, band->data + (i * band->row + begin * band->col) * a->size,
            b->data + begin * b->stride * a->size, a->nr * a->size, accumulate ? c : NULL, c);
    }
}

void cti_attention_band_product(const cti_attention_params *a, const cti_attention_band *band,
                                int64_t cols, const cti_attention_rows *b, double alpha,
                                bool accumulate, char *c, int64_t c_row) {
    if (band->m <= 0) return;
    if (a->rounded) cti_attention_rounded_band(a, band, cols, b, alpha, accumulate, c, c_row);
    else exact_band(a, band, cols, b, alpha, accumulate, c, c_row);
    if (band->hidden->bad) cti_hidden_add(a->kernels, a->dtype, band, cols, alpha, c, c_row);
}
