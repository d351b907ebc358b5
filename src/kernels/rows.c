/* The kernels of rows and columns: reductions, softmax, norms, losses. */
#include "kernels.h"

#include "loss_tmpl.h"
#include "norm_tmpl.h"
#include "reduce_tmpl.h"
#include "rope_tmpl.h"
#include "scan_tmpl.h"
#include "softmax_tmpl.h"

void CTI_PUT(rows)(cti_kernels *table);
void CTI_PUT(rows)(cti_kernels *table) {
    table->sum_rows = reduce_sum_rows;
    table->max_rows = reduce_max_rows;
    table->sum = reduce_sum;
    table->max = reduce_max;
    table->min = reduce_min;
    table->argmax = reduce_argmax;
    table->max_backward = reduce_max_backward;
    table->moments = scan_moments;
    table->var_backward = scan_var_backward;
    table->sum_squares = reduce_sum_squares;
    table->has_nan = reduce_has_nan;
    table->is_finite = reduce_is_finite;
    table->softmax_columns = columns_softmax;
    table->softmax_columns_backward = columns_softmax_backward;
    table->softmax = row_softmax;
    table->log_softmax = row_log_softmax;
    table->softmax_backward = row_softmax_backward;
    table->log_softmax_backward = row_log_softmax_backward;
    table->masked_softmax = row_masked_softmax;
    table->masked_softmax_backward = row_masked_softmax_backward;
    table->logsumexp = row_logsumexp;
    table->logsumexp_backward = row_logsumexp_backward;
    table->layer_norm = row_layer_norm;
    table->layer_norm_backward = row_layer_norm_backward;
    table->rms_norm = row_rms_norm;
    table->rms_norm_backward = row_rms_norm_backward;
    table->cross_entropy = row_cross_entropy;
    table->cross_entropy_backward = row_cross_entropy_backward;
    table->weighted_gap = loss_weighted_gap;
    table->bce = loss_bce;
    table->bce_backward = loss_bce_backward;
    table->kl_div = loss_kl_div;
    table->kl_div_log = loss_kl_div_log;
    table->entropy_slope = loss_entropy_slope;
    table->rope = row_rope;
    table->cumsum = scan_cumsum;
}
