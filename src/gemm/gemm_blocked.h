/* Blocked and split-K products. */
#ifndef CTI_GEMM_GEMM_BLOCKED_H
#define CTI_GEMM_GEMM_BLOCKED_H

#include "gemm_plan.h"

/* Computes g, whose plan is of kind blocked or split-K. If the plan is transposed, g is already C'
 * = B' A'. False: CT_ERR_MEMORY. */
bool cti_gemm_blocked(ct_context *context, const cti_gemm_args *g, const cti_gemm_plan *plan);

#endif
