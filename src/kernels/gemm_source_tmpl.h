/* The kernels of products use these functions to read a matrix whose type may differ from the
 * computed type. `of` is a compile-time constant of each caller; the matrix is given by its address
 * in bytes. */
#ifndef CTI_KERNELS_GEMM_SOURCE_TMPL_H
#define CTI_KERNELS_GEMM_SOURCE_TMPL_H

#include "gemm_vec_tmpl.h"

typedef enum { OF_STORED, OF_BF16 } gemm_source;

INLINE int64_t gemm_source_size(const gemm_source of) {
    return of == OF_BF16 ? (int64_t)sizeof(bf16_stored) : (int64_t)sizeof(stored);
}

/* Returns element i of x. */
INLINE real gemm_get_b(const gemm_source of, const char *x, int64_t i) {
#ifndef CTI_F64_KERNELS
    if (of == OF_BF16) return get_bf16((const bf16_stored *)(const void *)x + i);
#endif
    (void)of;
    return get_one((const stored *)(const void *)x + i);
}

/* Returns the vector that begins at element i. With by_part it has only the first n lanes, n <
 * LANES, and zeros in the others. */
INLINE gemm_vec gemm_load_b(const gemm_source of, const char *x, int64_t i, bool by_part,
                            int64_t n) {
#ifndef CTI_F64_KERNELS
    const bf16_stored *half = (const bf16_stored *)(const void *)x + i;
#if CTI_VECTOR_BYTES
    if (of == OF_BF16) return by_part ? load_bf16_part(half, n) : load_bf16(half);
#else
    if (of == OF_BF16) return get_bf16(half);
#endif
#endif
    (void)of;
    return gemm_load_if((const stored *)(const void *)x + i, by_part, n);
}

#endif
