/* The kernels of one ISA and one real dtype: the parts by subject, and the table. */
#include "kernels.h"
#include "random.h"
#include "simd.h"
#include "to_int64_tmpl.h"

typedef stored element;
#define NUMBER(x) to_real(x)
INLINE element element_of(double value) { return to_stored((real)value); }
INLINE int64_t whole(element x) { return whole_of((double)to_real(x)); }
INLINE element plus(element a, element b) { return to_stored(to_real(a) + to_real(b)); }

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

static void arange(int64_t n, int64_t begin, double start, double step, void *y) {
    for (int64_t i = 0; i < n; i++)
        put((stored *)y + i, (real)(start + (double)(begin + i) * step));
}

static void axpy(int64_t n, double a, const void *x, void *y) {
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
        const vec a = load_part(x + i, n - i), b = se ? load_part(end + i, n - i) : splat(get(end));
        store_part(y + i, (near ? a : b) + factor * (b - a), n - i);
    }
}
static void lerp(int64_t n, const void *x, const void *end, int64_t se, double w, void *y) {
    const real weight = (real)w;
    if (weight > REAL(-0.5) && weight < REAL(0.5)) lerp_near(true, n, x, end, se, weight, y);
    else lerp_near(false, n, x, end, se, weight - 1, y);
}

extern const cti_random_kernels CTI_RANDOM;
static void uniform(int64_t n, int64_t start, cti_random r, double low, double high, void *y) {
    CTI_RANDOM.uniform(n, start, r, low, high, y);
}
static void normal(int64_t n, int64_t start, cti_random r, double mean, double std, void *y) {
    CTI_RANDOM.normal(n, start, r, mean, std, y);
}
static void dropout(int64_t n, int64_t start, cti_random r, double p, const void *x, void *y) {
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
    .exp_backward = exp_backward,
    .sqrt_backward = sqrt_backward,
    .tanh_backward = tanh_backward,
    .sigmoid_backward = sigmoid_backward,
    .relu_backward = relu_backward,
    .log_backward = log_backward,
    .abs_backward = abs_backward,
    .silu_backward = silu_backward,
    .gelu_backward = gelu_backward,
    .gelu_tanh_backward = gelu_tanh_backward,
    .sin_backward = sin_backward,
    .cos_backward = cos_backward,
    .relu_both = relu_both,
    .silu_both = silu_both,
    .gelu_both = gelu_both,
    .gelu_tanh_both = gelu_tanh_both,

    /* elementwise, two arrays */
    .add = zip_add,
    .sub = zip_sub,
    .mul = zip_mul,
    .div = zip_div,
    .maximum = zip_maximum,
    .minimum = zip_minimum,
    .maximum_backward = maximum_backward,
    .minimum_backward = minimum_backward,
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
    .pow_backward = pow_backward,
    .clamp = clamp,
    .clamp_backward = clamp_backward,
    .where = data_where,
    .fill = data_fill,
    .arange = arange,
    .axpy = axpy,
    .lerp = lerp,
    .copy2d = data_copy2d,
    .cast = {cast_f32, cast_f64, cast_i64, cast_bool, cast_bf16},

    /* reductions */
    .sum_rows = reduce_sum_rows,
    .max_rows = reduce_max_rows,
    .sum = reduce_sum,
    .max = reduce_max,
    .min = reduce_min,
    .argmax = reduce_argmax,
    .max_backward = max_backward,
    .moments = moments,
    .var_backward = var_backward,
    .sum_squares = sum_squares,
    .has_nan = has_nan,

    /* rows and columns */
    .softmax_columns = softmax_columns,
    .softmax_columns_backward = softmax_columns_backward,
    .softmax = softmax,
    .log_softmax = log_softmax,
    .softmax_backward = softmax_backward,
    .log_softmax_backward = log_softmax_backward,
    .masked_softmax = masked_softmax,
    .masked_softmax_backward = masked_softmax_backward,
    .logsumexp = logsumexp,
    .logsumexp_backward = logsumexp_backward,
    .layer_norm = layer_norm,
    .layer_norm_backward = layer_norm_backward,
    .rms_norm = rms_norm,
    .rms_norm_backward = rms_norm_backward,
    .cross_entropy = cross_entropy,
    .cross_entropy_backward = cross_entropy_backward,
    .weighted_gap = weighted_gap,
    .bce = bce,
    .bce_backward = bce_backward,
    .kl_div = kl_div,
    .kl_div_log = kl_div_log,
    .entropy_slope = entropy_slope,
    .rope = rope,
    .cumsum = cumsum,

    /* random */
    .uniform = uniform,
    .normal = normal,
    .dropout = dropout,

    /* optimisers */
    .adam = adam,
    .sgd = sgd,

    /* matrix products and attention */
    .gemm = GEMM_KERNELS,
#ifndef CTI_F64_KERNELS
    .gemm_of_bf16 = GEMM_KERNELS_OF_BF16,
#endif
    .attention = ATTENTION_KERNELS,
};
