/* The kernels of rows and columns: reductions, softmax, norms, losses. */
#include "rows.h"

#include "loss_tmpl.h"
#include "norm_tmpl.h"
#include "reduce_tmpl.h"
#include "rope_tmpl.h"
#include "scan_tmpl.h"
#include "softmax_tmpl.h"

void CTI_PUT(rows)(cti_kernels *table);
void CTI_PUT(rows)(cti_kernels *table) {
    static const cti_row_kernels kernels = {
        .sum_rows = reduce_sum_rows,
        .max_rows = reduce_max_rows,
        .sum = reduce_sum,
        .max = reduce_max,
        .min = reduce_min,
        .argmax = reduce_argmax,
        .max_backward = reduce_max_backward,
        .moments = scan_moments,
        .var_backward = scan_var_backward,
        .sum_squares = reduce_sum_squares,
        .has_nan = reduce_has_nan,
        .is_finite = reduce_is_finite,
        .softmax_columns = columns_softmax,
        .softmax_columns_backward = columns_softmax_backward,
        .softmax = row_softmax,
        .log_softmax = row_log_softmax,
        .softmax_backward = row_softmax_backward,
        .log_softmax_backward = row_log_softmax_backward,
        .masked_softmax = row_masked_softmax,
        .masked_softmax_backward = row_masked_softmax_backward,
        .logsumexp = row_logsumexp,
        .logsumexp_backward = row_logsumexp_backward,
        .layer_norm = row_layer_norm,
        .layer_norm_backward = row_layer_norm_backward,
        .rms_norm = row_rms_norm,
        .rms_norm_backward = row_rms_norm_backward,
        .cross_entropy = row_cross_entropy,
        .cross_entropy_backward = row_cross_entropy_backward,
        .weighted_gap = loss_weighted_gap,
        .bce = loss_bce,
        .bce_backward = loss_bce_backward,
        .kl_div = loss_kl_div,
        .kl_div_log = loss_kl_div_log,
        .entropy_slope = loss_entropy_slope,
        .rope = row_rope,
        .cumsum = scan_cumsum,
    };
    table->rows = &kernels;
}
