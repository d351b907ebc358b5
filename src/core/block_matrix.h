/* Tensors of blocks (CT_Q8_0, CT_Q4_0): weights at rest, read by products, look-ups and casts.
 *
 * Invariants:
 * 1. The tensor is a whole matrix (rows, cols) with row-major strides, cols a multiple of 32. Each
 *    row is a line (../kernels/block_line.h), and the lines lie one behind the other. A handle of
 *    some of its rows (cti_block_matrix_rows) is such a matrix too.
 * 2. It is not `contiguous`, because an element has no address. So no code copies it, or walks
 *    along its elements, on the path of dense tensors. cti_dtype_size of its dtype is 0.
 * 3. It has no gradient, and no function changes it except a load, an exchange of storages
 *    (cti_tensor_exchange) and the functions below, all of whole rows.
 * 4. An op gets it only with the flag CTI_OP_READS_BLOCKS (../autograd/tape.h). */
#ifndef CTI_CORE_BLOCK_MATRIX_H
#define CTI_CORE_BLOCK_MATRIX_H

#include "blocks.h"
#include "context.h"

/* Whether a tensor of a dtype of blocks can have this shape. If not, an error is recorded. */
bool cti_block_shape_check(ct_context *context, const char *op, ct_dtype dtype,
                           const ct_shape *shape);

/* The type of GGML's blocks with the same codes and scales. */
static inline cti_block cti_block_type(ct_dtype dtype) {
    CTI_ASSERT(cti_is_blocks(dtype));
    return dtype == CT_Q8_0 ? CTI_BLOCK_Q8_0 : CTI_BLOCK_Q4_0;
}

static inline int64_t cti_block_row_bytes(const ct_tensor *t) {
    return cti_dtype_bytes(t->dtype, t->shape.dim[1]);
}
static inline char *cti_block_row(const ct_tensor *t, int64_t row) {
    return t->data + row * cti_block_row_bytes(t);
}

/* Returns a view of whole rows, which only modules and saves make. */
static inline ct_tensor *cti_block_matrix_rows(ct_tensor *t, int64_t first_row, int64_t n_rows) {
    CTI_ASSERT(first_row >= 0 && n_rows >= 0 && n_rows <= t->shape.dim[0] - first_row);
    return cti_tensor_view(t, cti_block_row(t, first_row), CT_SHAPE(n_rows, t->shape.dim[1]), NULL);
}

/* out[i] = element (row, first + i), i < n */
void cti_block_row_widen(const ct_tensor *t, int64_t row, int64_t first, int64_t n, float *out);
/* The element at an offset in elements. */
double cti_block_element(const ct_tensor *t, int64_t offset);

/* Sets elements [at, at + n), which are whole blocks, by cti_blocks_round. */
void cti_block_matrix_round(ct_tensor *t, int64_t at, int64_t n, const float *in);
/* Does this for the rows of a dense matrix of f32, which become rows of t from first_row on. */
void cti_block_matrix_set_floats(ct_tensor *t, int64_t first_row, const ct_tensor *rows);

/* Sets elements [at, at + n) to GGML's blocks, which do not cross the ends of rows. Blocks of the
 * tensor's own type keep each code and scale; of other types their values are rounded. */
void cti_block_matrix_set(ct_tensor *t, int64_t at, int64_t n, cti_block type,
                          const unsigned char *blocks);
/* Does this for whole rows. */
void cti_block_matrix_set_rows(ct_tensor *t, int64_t first_row, int64_t n_rows, cti_block type,
                               const unsigned char *blocks);
/* Writes rows as GGML's blocks of the tensor's type. */
void cti_block_matrix_get_rows(const ct_tensor *t, int64_t first_row, int64_t n_rows,
                               unsigned char *blocks);

/* to = from for whole matrices of the same shape, of any two dtypes of floats of which one or both
 * are blocks; on all threads. */
void cti_block_matrix_cast(ct_tensor *to, const ct_tensor *from);

#endif
