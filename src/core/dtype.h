/* The table of dtypes and their properties. A new dtype is a new row in dtype.c. No switch over
 * dtypes has a default, so -Werror=switch then names each switch that lacks a case. */
#ifndef CTI_CORE_DTYPE_H
#define CTI_CORE_DTYPE_H

#include <cotangent/types.h>

#include <math.h>

#include "../kernels/block_line.h"
#include "assert.h"

enum { CTI_DTYPES = CT_Q4_0 + 1 };

typedef struct {
    const char *name;        /* the name in messages and in names of functions: "f32" */
    const char *file;        /* the name in a safetensors file: "F32" */
    unsigned char size;      /* the bytes of an element; 0 in a dtype of blocks */
    bool real;               /* whether ops compute in this dtype; its tensors can have gradients */
    ct_dtype computed;       /* the dtype of a product's result: this dtype, or a wider one */
    ct_dtype statistics;     /* the dtype of a mean, a maximum or 1 / a sum that a kernel keeps of a
                              * row: `real` in src/kernels/simd.h */
    unsigned char code_bits; /* of an element in a dtype of blocks (block_matrix.h); else 0 */
} cti_dtype_info;

extern const cti_dtype_info cti_dtype_table[CTI_DTYPES];

static inline const char *cti_dtype_name(ct_dtype dtype) { return cti_dtype_table[dtype].name; }
static inline size_t cti_dtype_size(ct_dtype dtype) { return cti_dtype_table[dtype].size; }
static inline ct_dtype cti_dtype_computed(ct_dtype dtype) {
    return cti_dtype_table[dtype].computed;
}
static inline ct_dtype cti_dtype_statistics(ct_dtype dtype) {
    return cti_dtype_table[dtype].statistics;
}
static inline bool cti_is_real(ct_dtype dtype) { return cti_dtype_table[dtype].real; }
static inline bool cti_is_blocks(ct_dtype dtype) { return cti_dtype_table[dtype].code_bits != 0; }

/* The bytes of n elements one behind the other; of blocks, of whole lines with n elements. */
static inline int64_t cti_dtype_bytes(ct_dtype dtype, int64_t n) {
    return cti_is_blocks(dtype) ? cti_line_bytes(cti_dtype_table[dtype].code_bits, n)
                                : n * (int64_t)cti_dtype_size(dtype);
}

/* The next three functions access an element of an array of f32 or f64. They are for checks and for
 * tables of a few numbers. */

/* x[i] */
static inline double cti_real_get(ct_dtype dtype, const void *x, int64_t i) {
    CTI_ASSERT(dtype == CT_F32 || dtype == CT_F64);
    switch (dtype) {
    case CT_F32: return (double)((const float *)x)[i];
    case CT_F64: return ((const double *)x)[i];
    case CT_I64:
    case CT_BOOL:
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0: break;
    }
    return (double)NAN;
}

/* to[i] += from[j] */
static inline void cti_real_add(ct_dtype dtype, void *to, int64_t i, const void *from, int64_t j) {
    CTI_ASSERT(dtype == CT_F32 || dtype == CT_F64);
    switch (dtype) {
    case CT_F32: ((float *)to)[i] += ((const float *)from)[j]; break;
    case CT_F64: ((double *)to)[i] += ((const double *)from)[j]; break;
    case CT_I64:
    case CT_BOOL:
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0: break;
    }
}

static inline void cti_real_set(ct_dtype dtype, void *x, int64_t i, double value) {
    CTI_ASSERT(dtype == CT_F32 || dtype == CT_F64);
    switch (dtype) {
    case CT_F32: ((float *)x)[i] = (float)value; break;
    case CT_F64: ((double *)x)[i] = value; break;
    case CT_I64:
    case CT_BOOL:
    case CT_BF16:
    case CT_Q8_0:
    case CT_Q4_0: break;
    }
}

#endif
