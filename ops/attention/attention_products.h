/* The matrix products of a tile, by the micro-kernels of src/kernels/gemm_tmpl.h. */
#ifndef CTI_OPS_ATTENTION_ATTENTION_PRODUCTS_H
#define CTI_OPS_ATTENTION_ATTENTION_PRODUCTS_H

#include "attention_hidden.h"
#include "../../src/kernels/products.h"

/* ---- factors ---- */

/* A factor is a number of rows of a tensor. It is read in place (cti_attention_rows) or, if
 * products are rounded, packed to a buffer. cti_attention_rows_from finds a later row in either
 * case, so a caller treats both alike. A row of a left factor is a row of A, and `first` is a
 * multiple of row_unit; a row of a right factor is a row of B. */

/* The most rows of a packed right factor: blocks of keys or queries are not longer. */
enum { CTI_ATTENTION_RIGHT_ROWS = 128 };

/* Returns whether products of an attention of these sizes round now (ct_set_matmul). */
bool cti_attention_is_rounded(const ct_context *context, ct_dtype dtype, int64_t t, int64_t s,
                              int64_t d, int64_t dv);

/* These pack x, n rows of `cols` numbers, to a left or a right factor. They are called only if
 * products are rounded. */
cti_attention_rows cti_attention_left(const cti_attention_params *a, const cti_attention_rows *x,
                                      int64_t n, int64_t cols, char *buffer);
cti_attention_rows cti_attention_right(const cti_attention_params *a, const cti_attention_rows *x,
                                       int64_t n, int64_t cols, char *buffer);

/* Returns the bytes from one panel of a right factor to its next. */
static inline int64_t cti_attention_right_panel(const cti_attention_params *a) {
    return a->nr * CTI_ATTENTION_RIGHT_ROWS * a->rounded->packed_bytes;
}

/* Packs B (k, n), whose element (i, j) is at i row + j col, into panels (k, nr) of the computed
 * type. The panel of columns [j, j + nr) begins at element j k of `packed`. */
void cti_attention_pack(const cti_attention_params *a, int64_t k, int64_t n, const char *b,
                        int64_t row, int64_t col, char *packed);

/* Packs the n columns of B (k, n): K^T, Q^T or V^T. A column takes d_bytes or dv_bytes. */
static inline void cti_attention_pack_columns(const cti_attention_params *a, int64_t k, int64_t n,
                                              const char *b, int64_t row, int64_t col,
                                              char *packed) {
    if (a->rounded) a->rounded->pack_b(k, n, b, row, col, packed);
    else cti_attention_pack(a, k, n, b, row, col, packed);
}

/* ---- products ---- */

/* Computes panel (m, width) = alpha A B: A (m, k) is a left factor, B a panel of packed columns (k,
 * nr). */
void cti_attention_panel_product(const cti_attention_params *a, int64_t m, int64_t width, int64_t k,
                                 const cti_attention_rows *rows, const char *b, double alpha,
                                 char *panel);

/* A band matrix A (m, k), such as weights under the causal mask: element (i, j), at i row + j col,
 * is zero unless i + low <= j < i + high. A micro-kernel computes up to mr_narrow rows at once, and
 * reads for all of them the columns in which any of them is not zero. In these columns memory must
 * hold the zeros. In all others memory is not read, and may hold anything. */
struct cti_attention_band {
    const char *data;
    int64_t row, col; /* strides, in elements */
    int64_t m, k, low, high;
    const cti_hidden_rows *hidden; /* the rows of B that are left out; they are added afterwards */
    int64_t hidden_first;          /* B's first row among them */
};

/* Computes C (m, cols) = alpha A B, or C += alpha A B with accumulate; B (k, cols) is a right
 * factor. C's rows are c_row apart. If products are rounded A is packed here; up to row_unit - 1 of
 * its columns before the first that is not zero are read too. */
void cti_attention_band_product(const cti_attention_params *a, const cti_attention_band *band,
                                int64_t cols, const cti_attention_rows *b, double alpha,
                                bool accumulate, char *c, int64_t c_row);

/* The same two products with rounded operands. */
void cti_attention_rounded_panel(const cti_attention_params *a, int64_t m, int64_t width, int64_t k,
                                 const cti_attention_rows *rows, const char *b, double alpha,
                                 char *panel);
void cti_attention_rounded_band(const cti_attention_params *a, const cti_attention_band *band,
                                int64_t cols, const cti_attention_rows *b, double alpha,
                                bool accumulate, char *c, int64_t c_row);

#endif
