/* The kernels of products use these functions to read a matrix whose type may differ from the
 * computed type. `of` is a compile-time constant of each caller; the matrix is given by its address
 * in bytes. */
#ifndef CTI_KERNELS_GEMM_SOURCE_TMPL_H
#define CTI_KERNELS_GEMM_SOURCE_TMPL_H

#include "block_line.h"
#include "gemm_vec_tmpl.h"

typedef enum { OF_STORED, OF_BF16, OF_Q8_0, OF_Q4_0 } gemm_source;

INLINE bool gemm_is_blocks(const gemm_source of) { return of == OF_Q8_0 || of == OF_Q4_0; }
INLINE int gemm_code_bits(const gemm_source of) { return of == OF_Q8_0 ? 8 : 4; }

/* Returns the size of an element, which is not one of a block. */
INLINE int64_t gemm_source_size(const gemm_source of) {
    return of == OF_BF16 ? (int64_t)sizeof(bf16_stored) : (int64_t)sizeof(stored);
}

/* Returns the bytes of n dense elements; for blocks they are a line. */
INLINE int64_t gemm_source_bytes(const gemm_source of, int64_t n) {
    return gemm_is_blocks(of) ? cti_line_bytes(gemm_code_bits(of), n) : n * gemm_source_size(of);
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
