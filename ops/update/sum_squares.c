/* sum_i g_i^2 over all gradients, in f64: the sums of fixed units, added in their order. */
#include "../support/op.h"
#include "../../src/core/isa.h"
#include "update.h"
#include "../../src/kernels/rows.h"

#include <math.h>

static void sum_squares_chunk(void *arg, const ct_optim_item *item, int64_t first, int64_t at,
                              int64_t count) {
    const ct_tensor *g = item->grad;
    ((double *)arg)[first] = g->context->isa->of[g->dtype]->rows->sum_squares(
        count, g->data + (size_t)at * cti_dtype_size(g->dtype));
}

void cti_op_unit_squares(ct_optim_item *all, int64_t n, double *sums) {
    cti_op_step_all(all, n,
                    (cti_op_step_job){.name = "sum_squares",
                                      .arrays = 1,
                                      .unit = CTI_OP_SQUARES_UNIT,
                                      .grain = 1,
                                      .task = sum_squares_chunk,
                                      .arg = sums});
}

double cti_op_add_units(const double *sums, int64_t units) {
    double total = 0;
    for (int64_t i = 0; i < units; i++) total += sums[i];
    return total;
}

double cti_op_sum_squares(ct_optim_item *all, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!cti_op_updatable(all[i].grad, "sum_squares", true)) return NAN;
    if (n == 0) return 0;
    ct_context *context = all[0].grad->context;
    const int64_t units = cti_op_step_units(all, n, CTI_OP_SQUARES_UNIT);
    const size_t bytes = cti_bytes(units, sizeof(double));
    double *sums = cti_take(context, bytes);
    if (!sums) return NAN;
    cti_op_unit_squares(all, n, sums);
    const double total = cti_op_add_units(sums, units);
    cti_give(context, sums, bytes);
    return total;
}
