/* A number for the bits that an instruction set's kernels compute in this build. */
#ifndef CTI_CORE_KERNEL_BITS_H
#define CTI_CORE_KERNEL_BITS_H

#include <cotangent/types.h>

#include "isa.h"

/* A hash of what the kernels make of fixed numbers, in the caller's floating-point mode: a tenth of
 * a millisecond or two. rounded: the kernels of products that are rounded, or NULL. */
uint64_t cti_fingerprint(const cti_isa *isa, const cti_gemm_kernels *rounded);

/* The compiler of this build and how far it optimised: "GCC 12.2, -O3". */
const char *cti_build(void);

/* The context's number and what made it: "0123456789abcdef avx2, GCC 12.2, -O3". */
enum { CTI_FINGERPRINT_DIGITS = 16, CTI_FINGERPRINT_TEXT = 96 };
void cti_fingerprint_text(const ct_context *context, char text[CTI_FINGERPRINT_TEXT]);

#endif
