/* The fingerprint of an instruction set in this build: a number that stands for the bits that its
 * kernels compute. */
#ifndef CTI_CORE_KERNEL_BITS_H
#define CTI_CORE_KERNEL_BITS_H

#include <cotangent/context.h>

#include "isa.h"

/* A hash of the results of the kernels on fixed numbers, in the caller's floating-point mode. It
 * takes about a millisecond. `rounded` has the kernels for products that round their operands;
 * NULL if products do not round. */
uint64_t cti_fingerprint(const cti_isa *isa, const cti_gemm_kernels *rounded);

/* The compiler of this build and its level of optimisation: "GCC 12.2, -O3". */
const char *cti_build(void);

/* The name of a precision in the environment variable CT_MATMUL: "bf16x3". */
const char *cti_matmul_name(ct_matmul_precision precision);

/* The text of the context's fingerprint, its instruction set, its products if they round, and the
 * build: "0123456789abcdef avx2, GCC 12.2, -O3". */
enum { CTI_FINGERPRINT_DIGITS = 16, CTI_FINGERPRINT_TEXT = 96 };
void cti_fingerprint_text(const ct_context *context, char text[CTI_FINGERPRINT_TEXT]);

#endif
