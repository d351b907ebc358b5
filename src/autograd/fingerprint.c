/* Fingerprints of tensors. The elements are read as words of 32 bits. A number that depends on the
 * index is added to each word, and the squares of the results are summed modulo 2^64. A sum can be
 * computed in chunks and in any order, and the compiler makes vector code of a square. */
#include "fingerprint.h"
#include "../core/isa.h"
#include "../core/int_math.h"
#include "../core/strided_loop.h"
#include "../kernels/elementwise.h"

#include <string.h>

static inline uint64_t square(uint32_t word, uint64_t index) {
    const uint32_t shifted = word + (uint32_t)index * 0x9e3779b1;
    return (uint64_t)shifted * shifted;
}

static uint64_t sum_of_f32(const char *data, int64_t n, uint64_t first) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t word;
        memcpy(&word, data + i * 4, 4);
        sum += square((word & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : word, first + (uint64_t)i);
    }
    return sum;
}

static uint64_t sum_of_f64(const char *data, int64_t n, uint64_t first) {
    const uint64_t infinity = 0x7ff0000000000000, nan = 0x7ff8000000000000;
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, data + i * 8, 8);
        bits = (bits << 1) > (infinity << 1) ? nan : bits;
        const uint64_t index = 2 * (first + (uint64_t)i);
        sum += square((uint32_t)bits, index) + square((uint32_t)(bits >> 32), index + 1);
    }
    return sum;
}

/* Sums of dtypes in which no bits stand for a NaN. Each size has its own loop, of which the
 * compiler makes vector code. */
static uint64_t sum_of_i64(const char *data, int64_t n, uint64_t first) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, data + i * 8, 8);
        const uint64_t index = 2 * (first + (uint64_t)i);
        sum += square((uint32_t)bits, index) + square((uint32_t)(bits >> 32), index + 1);
    }
    return sum;
}

static uint64_t sum_of_bf16(const char *data, int64_t n, uint64_t first) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        uint16_t bits;
        memcpy(&bits, data + i * 2, 2);
        sum += square(bits, first + (uint64_t)i);
    }
    return sum;
}

static uint64_t sum_of_bool(const char *data, int64_t n, uint64_t first) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < n; i++) sum += square((uint8_t)data[i], first + (uint64_t)i);
    return sum;
}

static uint64_t sum_of(ct_dtype dtype, const char *data, int64_t n, uint64_t first) {
    switch (dtype) {
    case CT_F32: return sum_of_f32(data, n, first);
    case CT_F64: return sum_of_f64(data, n, first);
    case CT_I64: return sum_of_i64(data, n, first);
    case CT_BOOL: return sum_of_bool(data, n, first);
    case CT_BF16: return sum_of_bf16(data, n, first);
    case CT_Q8_0:
    case CT_Q4_0: break;
    }
    CTI_ASSERT(false); /* cti_fingerprint_values sums their bytes */
    return 0;
}

typedef struct {
    const ct_tensor *tensor;
    _Atomic uint64_t sum;
} values;

/* Adds the elements [begin, end) of a row-major tensor to the sum. */
static void elements_add(void *arg, int64_t begin, int64_t end, int worker) {
    (void)worker;
    values *v = arg;
    const ct_dtype dtype = v->tensor->dtype;
    const char *data = v->tensor->data + (size_t)begin * cti_dtype_size(dtype);
    atomic_fetch_add(&v->sum, sum_of(dtype, data, end - begin, (uint64_t)begin));
}

/* The sum of a strided tensor, whose rows are copied into a small buffer. */
static uint64_t sum_of_rows(const ct_tensor *t) {
    enum { CHUNK = 256 };
    uint64_t buffer[CHUNK], sum = 0;
    const int64_t size = (int64_t)cti_dtype_size(t->dtype);
    CTI_ASSERT(size <= (int64_t)sizeof *buffer);
    const cti_kernels *kernels = t->context->isa->of[t->dtype];
    cti_strided_loop loop;
    cti_strided_loop_over(&loop, t->shape, 1, &t);
    for (int64_t i = 0, n; i < t->numel; i += n) {
        int64_t at[CTI_STRIDED_MOST];
        n = cti_min(cti_strided_loop_left(&loop, i), CHUNK);
        cti_strided_loop_at(&loop, i, at);
        kernels->elementwise->copy2d(1, n, t->data + at[0] * size, 0, loop.step[0], buffer, 0, 1,
                                     false);
        sum += sum_of(t->dtype, (const char *)buffer, n, (uint64_t)i);
    }
    return sum;
}

uint64_t cti_fingerprint_type(uint64_t print, const ct_tensor *t) {
    print = cti_fingerprint_add(print, (uint64_t)t->dtype);
    print = cti_fingerprint_add(print, (uint64_t)t->shape.ndim);
    for (int d = 0; d < t->shape.ndim; d++)
        print = cti_fingerprint_add(print, (uint64_t)t->shape.dim[d]);
    return print;
}

uint64_t cti_fingerprint_values(uint64_t print, const ct_tensor *t) {
    enum { CHUNK_ELEMENTS = 1 << 17 };
    if (cti_is_blocks(t->dtype))
        return cti_fingerprint_add(print,
                                   sum_of_bool(t->data, cti_dtype_bytes(t->dtype, t->numel), 0));
    if (!t->contiguous) return cti_fingerprint_add(print, sum_of_rows(t));
    values v = {.tensor = t};
    cti_parallel(t->context, t->numel, CHUNK_ELEMENTS, elements_add, &v);
    return cti_fingerprint_add(print, atomic_load(&v.sum));
}
