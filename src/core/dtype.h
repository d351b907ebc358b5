/* Properties of dtypes, a table. To add a dtype, add its row in dtype.c; no switch over dtypes has
 * a default, so that -Werror=switch then names each one that lacks a case. */
#ifndef CTI_CORE_DTYPE_H
#define CTI_CORE_DTYPE_H

#include <cotangent/types.h>

#include <math.h>

#include "assert.h"

enum { CTI_DTYPES = CT_BF16 + 1 };

typedef struct {
    const char *name;    /* "f32": in messages and names of functions */
    const char *file;    /* "F32": in a safetensors file */
    unsigned char size;  /* bytes of an element */
    bool real;           /* whether ops compute in this dtype; its tensors can have gradients */
    ct_dtype computed;   /* the dtype of a product's result: itself, or a wider one */
    ct_dtype statistics; /* the dtype of a mean, a maximum or 1 / a sum that a kernel keeps of a
                          * row: `real` in src/kernels/simd.h */
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

/* Element i of an array of f32 or f64. They serve checks and tables of a few numbers. */
static inline double cti_real_get(ct_dtype dtype, const void *x, int64_t i) {
    CTI_ASSERT(dtype == CT_F32 || dtype == CT_F64);
    switch (dtype) {
    case CT_F32: return (double)((const float *)x)[i];
    case CT_F64: return ((const double *)x)[i];
    case CT_I64:
    case CT_BOOL:
    case CT_BF16: break;
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
    case CT_BF16: break;
    }
}

static inline void cti_real_set(ct_dtype dtype, void *x, int64_t i, double value) {
    CTI_ASSERT(dtype == CT_F32 || dtype == CT_F64);
    switch (dtype) {
    case CT_F32: ((float *)x)[i] = (float)value; break;
    case CT_F64: ((double *)x)[i] = value; break;
    case CT_I64:
    case CT_BOOL:
    case CT_BF16: break;
    }
}

#endif
