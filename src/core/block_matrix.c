/* Rows of tensors of blocks, from and to f32 and GGML's blocks. */
#include "block_matrix.h"

#include <string.h>

#include "../kernels/elementwise.h"
#include "../kernels/products.h"
#include "int_math.h"
#include "isa.h"

bool cti_block_shape_check(ct_context *context, const char *op, ct_dtype dtype,
                           const ct_shape *shape) {
    int64_t numel;
    if (!cti_shape_fits(context, op, shape, cti_dtype_size(dtype), &numel)) return false;
    if (shape->ndim == 2 && shape->dim[1] % CTI_BLOCK_LENGTH == 0) return true;
    return ct_fail(context, CT_ERR_SHAPE,
                   "%s: %s is for a matrix whose rows are multiples of %d, not for %s",
                   op ? op : "tensor", cti_dtype_name(dtype), (int)CTI_BLOCK_LENGTH, SHAPE(*shape));
}

static const cti_gemm_kernels *block_kernels(const ct_tensor *t) {
    const cti_kernels *f32 = t->context->isa->of[CT_F32];
    return t->dtype == CT_Q8_0 ? f32->gemm_of_q8_0 : f32->gemm_of_q4_0;
}

void cti_block_row_widen(const ct_tensor *t, int64_t row, int64_t first, int64_t n, float *out) {
    CTI_ASSERT(first >= 0 && n >= 0 && first + n <= t->shape.dim[1]);
    block_kernels(t)->widen(t->shape.dim[1], cti_block_row(t, row), first, n, out);
}

double cti_block_element(const ct_tensor *t, int64_t offset) {
    float value;
    cti_block_row_widen(t, offset / t->shape.dim[1], offset % t->shape.dim[1], 1, &value);
    return (double)value;
}

/* ---- GGML's blocks: a scale, little-endian, and then the codes ---- */

enum { SCALE_BYTES = sizeof(uint16_t) };

/* Copies the codes of a block. memcpy of a number that the compiler does not know is a call, which
 * takes longer than the copy. */
static void codes_copy(void *to, const void *from, int64_t bytes) {
    enum { PART = 16 }; /* of which codes are a multiple */
    CTI_ASSERT(bytes % PART == 0);
    for (int64_t i = 0; i < bytes; i += PART) memcpy((char *)to + i, (const char *)from + i, PART);
}

/* Copies n blocks from or to a line, from its block `first` on. */
static void line_set_blocks(ct_dtype dtype, int64_t length, char *line, int64_t first, int64_t n,
                            const unsigned char *blocks) {
    const int64_t codes = cti_line_codes(cti_dtype_table[dtype].code_bits, CTI_BLOCK_LENGTH);
    char *scales = line + codes * (length / CTI_BLOCK_LENGTH);
    for (int64_t i = first; i < first + n; i++, blocks += SCALE_BYTES + codes) {
        const uint16_t scale = (uint16_t)(blocks[0] | blocks[1] << 8);
        memcpy(scales + i * SCALE_BYTES, &scale, SCALE_BYTES);
        codes_copy(line + i * codes, blocks + SCALE_BYTES, codes);
    }
}

static void line_get_blocks(ct_dtype dtype, int64_t length, const char *line,
                            unsigned char *blocks) {
    const int64_t codes = cti_line_codes(cti_dtype_table[dtype].code_bits, CTI_BLOCK_LENGTH),
                  n = length / CTI_BLOCK_LENGTH;
    const char *scales = line + codes * n;
    for (int64_t i = 0; i < n; i++, blocks += SCALE_BYTES + codes) {
        uint16_t scale;
        memcpy(&scale, scales + i * SCALE_BYTES, SCALE_BYTES);
        blocks[0] = (unsigned char)(scale & 0xFF);
        blocks[1] = (unsigned char)(scale >> 8);
        codes_copy(blocks + SCALE_BYTES, line + i * codes, codes);
    }
}

/* Rounds n elements, whole blocks, of a line from element `first` on. */
static void line_round(ct_dtype dtype, int64_t length, char *line, int64_t first, int64_t n,
                       const float *in) {
    enum { AT_ONCE = 8 };
    unsigned char blocks[AT_ONCE * CTI_BLOCK_LARGEST_BYTES];
    CTI_ASSERT(first % CTI_BLOCK_LENGTH == 0 && n % CTI_BLOCK_LENGTH == 0);
    for (int64_t i = 0, count; i < n; i += count * CTI_BLOCK_LENGTH) {
        count = cti_min((n - i) / CTI_BLOCK_LENGTH, AT_ONCE);
        cti_blocks_round(cti_block_type(dtype), in + i, blocks, count);
        line_set_blocks(dtype, length, line, (first + i) / CTI_BLOCK_LENGTH, count, blocks);
    }
}

void cti_block_matrix_round(ct_tensor *t, int64_t at, int64_t n, const float *in) {
    const int64_t length = t->shape.dim[1], end = at + n;
    CTI_ASSERT(at >= 0 && end <= t->numel);
    for (int64_t count; at < end; at += count, in += count) {
        count = cti_min(length - at % length, end - at);
        line_round(t->dtype, length, cti_block_row(t, at / length), at % length, count, in);
    }
}

void cti_block_matrix_set_floats(ct_tensor *t, int64_t first_row, const ct_tensor *rows) {
    CTI_ASSERT(rows->dtype == CT_F32 && rows->contiguous && rows->shape.dim[1] == t->shape.dim[1]);
    cti_block_matrix_round(t, first_row * t->shape.dim[1], rows->numel,
                           (const float *)(const void *)rows->data);
}

void cti_block_matrix_set(ct_tensor *t, int64_t at, int64_t n, cti_block type,
                          const unsigned char *blocks) {
    const int64_t length = t->shape.dim[1], size = cti_block_elements(type), end = at + n;
    const bool same = type == cti_block_type(t->dtype);
    float values[CTI_BLOCK_LARGEST];
    CTI_ASSERT(at >= 0 && end <= t->numel && n % size == 0);
    for (int64_t count; at < end; at += count, blocks += count / size * cti_block_bytes(type)) {
        char *line = cti_block_row(t, at / length);
        count = same ? cti_min(length - at % length, end - at) : size;
        CTI_ASSERT(at % length + count <= length);
        if (same) {
            line_set_blocks(t->dtype, length, line, at % length / size, count / size, blocks);
        } else {
            cti_blocks_widen(type, blocks, values, 1);
            line_round(t->dtype, length, line, at % length, size, values);
        }
    }
}

void cti_block_matrix_set_rows(ct_tensor *t, int64_t first_row, int64_t n_rows, cti_block type,
                               const unsigned char *blocks) {
    cti_block_matrix_set(t, first_row * t->shape.dim[1], n_rows * t->shape.dim[1], type, blocks);
}

void cti_block_matrix_get_rows(const ct_tensor *t, int64_t first_row, int64_t n_rows,
                               unsigned char *blocks) {
    const int64_t length = t->shape.dim[1],
                  bytes = length / CTI_BLOCK_LENGTH * cti_block_bytes(cti_block_type(t->dtype));
    for (int64_t i = 0; i < n_rows; i++)
        line_get_blocks(t->dtype, length, cti_block_row(t, first_row + i), blocks + i * bytes);
}

/* ---- casts ---- */

typedef struct {
    ct_tensor *to;
    const ct_tensor *from;
} block_cast;

/* A chunk of a row is in f32 for a moment. It is a multiple of a block. */
static void cast_rows(void *arg, int64_t begin, int64_t end, int worker) {
    enum { CHUNK = 512 };
    const block_cast *c = arg;
    ct_tensor *to = c->to;
    const ct_tensor *from = c->from;
    const cti_isa *isa = to->context->isa;
    const int64_t cols = to->shape.dim[1];
    float wide[CHUNK];
    (void)worker;
    for (int64_t row = begin; row < end; row++) {
        for (int64_t j = 0, n; j < cols; j += n) {
            const int64_t at = row * cols + j;
            n = cti_min(cols - j, CHUNK);
            if (cti_is_blocks(from->dtype)) cti_block_row_widen(from, row, j, n, wide);
            else
                isa->of[from->dtype]->elementwise->cast[CT_F32](
                    n, from->data + at * (int64_t)cti_dtype_size(from->dtype), wide);
            if (cti_is_blocks(to->dtype))
                line_round(to->dtype, cols, cti_block_row(to, row), j, n, wide);
            else
                isa->of[CT_F32]->elementwise->cast[to->dtype](
                    n, wide, to->data + at * (int64_t)cti_dtype_size(to->dtype));
        }
    }
}

void cti_block_matrix_cast(ct_tensor *to, const ct_tensor *from) {
    enum { ELEMENTS = 16384 }; /* the least of a task */
    CTI_ASSERT(cti_shape_same(&to->shape, &from->shape) && to->shape.ndim == 2);
    CTI_ASSERT(to->contiguous != cti_is_blocks(to->dtype));
    CTI_ASSERT(from->contiguous != cti_is_blocks(from->dtype));
    if (to->numel == 0) return;
    if (to->dtype == from->dtype)
        memcpy(to->data, from->data, (size_t)cti_dtype_bytes(to->dtype, to->numel));
    else
        cti_parallel(to->context, to->shape.dim[0], cti_ceil_div(ELEMENTS, to->shape.dim[1]),
                     cast_rows, &(block_cast){to, from});
}
