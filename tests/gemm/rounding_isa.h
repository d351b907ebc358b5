/* A context whose instruction set has given kernels for rounded products. */
#ifndef ROUNDING_ISA_H
#define ROUNDING_ISA_H

#include "tests/support/suite.h"

#include <cotangent/cotangent.h>

#include "src/core/context.h"
#include "src/core/int_math.h"
#include "src/gemm/gemm_plan.h"
#include "src/kernels/bf16.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* An instruction set that has the scalar kernels, or the kernels of `isa`, and the given kernels
 * for rounded products. */
typedef struct {
    cti_isa isa;
    cti_kernels f32;
    const char *name;
} rounding_isa;

static inline void rounding_isa_of(rounding_isa *to, const char *isa, const char *name,
                                   const cti_gemm_kernels *bf16, const cti_gemm_kernels *bf16x3,
                                   const cti_gemm_kernels *bf16x6) {
    to->isa = *cti_isa_find(isa);
    to->f32 = *to->isa.of[CT_F32];
    to->f32.bf16 = bf16;
    to->f32.bf16x3 = bf16x3;
    to->f32.bf16x6 = bf16x6;
    to->isa.of[CT_F32] = &to->f32;
    to->name = name;
}

static inline ct_context *rounding_context(const rounding_isa *isa, int threads,
                                           ct_matmul_precision precision) {
    ct_context *c = ct_context_new((ct_context_opts){.threads = threads});
    c->isa = &isa->isa;
    ck_assert(ct_set_matmul(c, precision));
    return c;
}

#endif
