/* The kernels of one ISA and one real dtype: the parts by subject, and the table. */
#include "kernels.h"
#include "random.h"
#include "simd.h"

#include "attention_tmpl.h"
#include "compare_tmpl.h"
#include "data_tmpl.h"
#include "gemm_tmpl.h"
#include "gemm_bf16_tmpl.h"
#include "unary_tmpl.h"
#include "norm_tmpl.h"
#include "reduce_tmpl.h"
#include "rope_tmpl.h"
#include "softmax_tmpl.h"
#include "update_tmpl.h"
#include "binary_tmpl.h"
#include "trig_tmpl.h"
#include "scan_tmpl.h"
#include "loss_tmpl.h"

static void real_arange(int64_t n, int64_t begin, double start, double step, void *y) {
    for (int64_t i = 0; i < n; i++)
        put_one((stored *)y + i, (real)(start + (double)(begin + i) * step));
}

static void real_axpy(int64_t n, double a, const void *x, void *y) {
    const stored *from = x;
    const real scale = (real)a;
    stored *to = y;
    for (int64_t i = 0; i < n; i += LANES)
        store_part(to + i, load_part(to + i, n - i) + scale * load_part(from + i, n - i), n - i);
}

/* The choice of the formula is outside the loop: inside, it may become a branch between product and
 * sum. GCC makes an FMA only of what is in one basic block, so whole vectors and the last, partial
 * one would differ in bits. */
INLINE void lerp_near(const bool near, int64_t n, const stored *x, const stored *end, int64_t se,
                      real factor, stored *y) {
    for (int64_t i = 0; i < n; i += LANES) {
        const vec a = load_part(x + i, n - i),
                  b = se ? load_part(end + i, n - i) : splat(get_one(end));
        store_part(y + i, (near ? a : b) + factor * (b - a), n - i);
    }
}
static void real_lerp(int64_t n, const void *x, const void *end, int64_t se, double w, void *y) {
    const real weight = (real)w;
    if (weight > REAL(-0.5) && weight < REAL(0.5)) lerp_near(true, n, x, end, se, weight, y);
    else lerp_near(false, n, x, end, se, weight - 1, y);
}

extern const cti_random_kernels CTI_RANDOM;
static void real_uniform(int64_t n, int64_t start, cti_random r, double low, double high, void *y) {
    CTI_RANDOM.uniform(n, start, r, low, high, y);
}
static void real_normal(int64_t n, int64_t start, cti_random r, double mean, double std, void *y) {
    CTI_RANDOM.normal(n, start, r, mean, std, y);
}
static void real_dropout(int64_t n, int64_t start, cti_random r, double p, const void *x, void *y) {
    CTI_RANDOM.dropout(n, start, r, p, x, y);
}

extern const cti_kernels CTI_TABLE;
const cti_kernels CTI_TABLE = {
    /* elementwise, one array */
    .neg = map_neg,
    .exp = map_exp,
    .log = map_log,
    .sqrt = map_sqrt,
    .abs = map_abs,
    .tanh = map_tanh,
    .sigmoid = map_sigmoid,
    .relu = map_relu,
    .silu = map_silu,
    .gelu = map_gelu,
    .gelu_tanh = map_gelu_tanh,
    .sin = map_sin,
    .cos = map_cos,
    .sign = map_sign,
    .floor = map_floor,

    /* their backward from y, then from x; value and backward at once */
    .exp_backward = map_exp_backward,
    .sqrt_backward = map_sqrt_backward,
    .tanh_backward = map_tanh_backward,
    .sigmoid_backward = map_sigmoid_backward,
    .relu_backward = map_relu_backward,
    .log_backward = map_log_backward,
    .abs_backward = map_abs_backward,
    .silu_backward = map_silu_backward,
    .gelu_backward = map_gelu_backward,
    .gelu_tanh_backward = map_gelu_tanh_backward,
    .sin_backward = map_sin_backward,
    .cos_backward = map_cos_backward,
    .relu_both = map_relu_both,
    .silu_both = map_silu_both,
    .gelu_both = map_gelu_both,
    .gelu_tanh_both = map_gelu_tanh_both,

    /* elementwise, two arrays */
    .add = zip_add,
    .sub = zip_sub,
    .mul = zip_mul,
    .div = zip_div,
    .maximum = zip_maximum,
    .minimum = zip_minimum,
    .maximum_backward = zip_maximum_backward,
    .minimum_backward = zip_minimum_backward,
    .eq = compare_eq,
    .ne = compare_ne,
    .lt = compare_lt,
    .le = compare_le,
    .gt = compare_gt,
    .ge = compare_ge,

    /* a number; moving and converting */
    .scale = map_scale,
    .add_scalar = map_add_scalar,
    .pow = map_pow,
    .pow_backward = map_pow_backward,
    .clamp = map_clamp,
    .clamp_backward = map_clamp_backward,
    .where = data_where,
    .fill = data_fill,
    .arange = real_arange,
    .axpy = real_axpy,
    .lerp = real_lerp,
    .copy2d = data_copy2d,
    .cast = {cast_f32, cast_f64, cast_i64, cast_bool, cast_bf16},

    /* reductions */
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

    /* rows and columns */
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

    /* random */
    .uniform = real_uniform,
    .normal = real_normal,
    .dropout = real_dropout,

    /* optimisers */
    .adam = update_adam,
    .sgd = update_sgd,

    /* matrix products and attention */
    .gemm = GEMM_KERNELS,
#ifndef CTI_F64_KERNELS
    .gemm_of_bf16 = GEMM_KERNELS_OF_BF16,
#endif
    .attention = ATTENTION_KERNELS,
};
