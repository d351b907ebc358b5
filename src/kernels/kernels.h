/* The table of kernels: loops over raw memory, one table for each ISA and dtype. A kernel knows no
 * tensor, no error and no thread. The same sources are compiled once for each ISA and each of f32
 * and f64 (real.c); the scalar tables are the specification that the others are tested against. i64
 * and bool have the kernels that make sense for them; the others are NULL, which an op reports as a
 * dtype that it does not take.
 *
 * A table points to a struct for each subject, which has a header of its own. A file includes only
 * the headers of the kernels that it calls. So a new kernel makes few files compile again.
 *
 * Arrays are contiguous unless a stride is given; strides are in elements. An output may be one of
 * the inputs of the same dtype (the same address), else they do not overlap. void * points to the
 * table's dtype, `bool *` and `int64_t *` are themselves. n is any length, also 0. */
#ifndef CTI_KERNELS_KERNELS_H
#define CTI_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* y[i] = f(x[i]) */
typedef void cti_unary(int64_t n, const void *x, void *y);
/* dx[i] = g[i] f'(...), from the op's input x or its output y, by the field's comment */
typedef void cti_unary_backward(int64_t n, const void *xy, const void *g, void *dx);
/* y[i] = f(x[i]) and dx[i] = g[i] f'(x[i]), the same bits as one by one; y or dx may be x or g */
typedef void cti_unary_both(int64_t n, const void *x, const void *g, void *y, void *dx);
/* y[i] = f(a[i sa], b[i sb]); sa and sb are 0 or 1. For the comparisons y is bool */
typedef void cti_binary(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb, void *y);
/* da[i] = g[i] df/da */
typedef void cti_binary_backward(int64_t n, const void *a, int64_t sa, const void *b, int64_t sb,
                                 const void *g, void *da);
/* y[i] = f(x[i], a) */
typedef void cti_unary_scalar(int64_t n, const void *x, double a, void *y);
/* dx[i] = g[i] f'(x[i], a) */
typedef void cti_unary_scalar_backward(int64_t n, const void *x, double a, const void *g, void *dx);
/* y[i] = f(x[i], a) and dx[i] = g[i] f'(x[i], a), the same bits as one by one; y or dx may be x or
 * g */
typedef void cti_unary_scalar_both(int64_t n, const void *x, double a, const void *g, void *y,
                                   void *dx);
/* y[j] = reduction over i of x[i stride + j], i < n, j < inner. n = 0 gives 0 (sum). inner = 1 with
 * stride 1 is a row */
typedef void cti_reduce(int64_t n, int64_t inner, const void *x, int64_t stride, void *y);

typedef struct cti_unary_kernels cti_unary_kernels;             /* unary.h */
typedef struct cti_elementwise_kernels cti_elementwise_kernels; /* elementwise.h */
typedef struct cti_row_kernels cti_row_kernels;                 /* rows.h */
typedef struct cti_random_kernels cti_random_kernels;           /* random.h */
typedef struct cti_gemm_kernels cti_gemm_kernels;               /* products.h */
typedef struct cti_attention_kernels cti_attention_kernels;     /* attention_kernels.h */

/* Every dtype's table has the first four structs, in which kernels may be NULL. The pointers after
 * them are NULL except in the tables of f32 and f64. */
typedef struct cti_kernels {
    const cti_unary_kernels *unary;
    const cti_elementwise_kernels *elementwise;
    const cti_row_kernels *rows;
    const cti_random_kernels *random;
    const cti_attention_kernels *attention;
    const cti_gemm_kernels *gemm;
    /* f32's table only: the same with a B of bf16 in pack_b, dots and gemv; A and C are f32. The
     * macro-kernel reads only packed panels. Each has the bits of gemm with the same numbers of B
     * in f32. */
    const cti_gemm_kernels *gemm_of_bf16;
    /* f32's table only: the same with a B of blocks in dots, gemv and widen, while pack_b takes f32
     * that widen has made. */
    const cti_gemm_kernels *gemm_of_q8_0, *gemm_of_q4_0;
    /* f32's table only: products of f32 whose operands are rounded while they are packed, to bf16,
     * or to sums of two or three bf16 of which three or six products are computed (ct_set_matmul).
     * Panels are of bf16, C of f32. The macro-kernel reads only packed panels; dots and gemv are
     * NULL. A pointer is NULL where its products are not faster than gemm's. */
    const cti_gemm_kernels *bf16, *bf16x3, *bf16x6;
} cti_kernels;

/* A source of kernels has one function, which puts its kernels into a table. The sources that are
 * compiled once for each ISA and real dtype name it by CTI_SET: cti_unary_avx2_f32. */
#define CTI_PUT(source)           CTI_PUT_BY(source, CTI_SET)
#define CTI_PUT_BY(source, set)   CTI_PUT_NAME(source, set)
#define CTI_PUT_NAME(source, set) cti_##source##_##set

/* The tables of dtypes that have one for all ISAs. */
void cti_kernels_i64(cti_kernels *table);
void cti_kernels_bool(cti_kernels *table);
void cti_kernels_bf16(cti_kernels *table);

#endif
