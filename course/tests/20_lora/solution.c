/* Every gradient is a product of what the forward has: of W only where W's or x's is wanted. */
#include "exercise.h"

#include <math.h>

enum { X, WEIGHT, BIAS, A, B };

typedef struct {
    int64_t n, in, out, rank;
    double scale;
} sizes;

static sizes sizes_of(const ct_call *call) {
    return (sizes){.n = ct_dim(call->in[X], 0),
                   .in = ct_dim(call->in[X], 1),
                   .out = ct_dim(call->in[WEIGHT], 0),
                   .rank = ct_dim(call->in[A], 0),
                   .scale = ((const lora_attrs *)call->attrs)->scale};
}

/* y (rows, columns) += factor p q^T, with p (rows, inner) and q (columns, inner). */
static void add_rows(int64_t rows, int64_t columns, int64_t inner, double factor, const double *p,
                     const double *q, double *y) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t k = 0; k < inner; k++)
                y[r * columns + c] += factor * p[r * inner + k] * q[c * inner + k];
}

/* y (rows, columns) += factor p q, with p (rows, inner) and q (inner, columns). */
static void add_product(int64_t rows, int64_t columns, int64_t inner, double factor,
                        const double *p, const double *q, double *y) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < inner; k++)
            for (int64_t c = 0; c < columns; c++)
                y[r * columns + c] += factor * p[r * inner + k] * q[k * columns + c];
}

/* y (rows, columns) += factor p^T q, with p (inner, rows) and q (inner, columns). */
static void add_columns(int64_t rows, int64_t columns, int64_t inner, double factor,
                        const double *p, const double *q, double *y) {
    for (int64_t k = 0; k < inner; k++)
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                y[r * columns + c] += factor * p[k * rows + r] * q[k * columns + c];
}

static ct_tensor *lora_forward(ct_call *call) {
    const sizes s = sizes_of(call);
    ct_tensor *y = ct_zeros(call->context, CT_F64, CT_SHAPE(s.n, s.out)),
              *low = ct_zeros(call->context, CT_F64, CT_SHAPE(s.n, s.rank)); /* x a^T */
    if (!y || !low) return NULL;
    const double *x = ct_data_f64(call->in[X]);
    if (call->in[BIAS])
        for (int64_t i = 0; i < s.n * s.out; i++)
            ct_data_f64(y)[i] = ct_data_f64(call->in[BIAS])[i % s.out];
    add_rows(s.n, s.out, s.in, 1, x, ct_data_f64(call->in[WEIGHT]), ct_data_f64(y));
    add_rows(s.n, s.rank, s.in, 1, x, ct_data_f64(call->in[A]), ct_data_f64(low));
    add_rows(s.n, s.out, s.rank, s.scale, ct_data_f64(low), ct_data_f64(call->in[B]),
             ct_data_f64(y));
    call->saved[0] = low;
    return y;
}

static bool lora_backward(const ct_call *call, ct_tensor *const *cotangents, ct_tensor **grad) {
    const sizes s = sizes_of(call);
    double *to[5] = {NULL}, *in[5] = {NULL}, *g = ct_data_f64(cotangents[0]);
    for (int i = 0; i < call->n; i++) {
        in[i] = call->in[i] ? ct_data_f64(call->in[i]) : NULL;
        if (!call->wants[i]) continue;
        grad[i] = ct_zeros(call->context, CT_F64, ct_shape_of(call->in[i]));
        if (!grad[i]) return false;
        to[i] = ct_data_f64(grad[i]);
    }
    /* g b, of which a's and x's gradients are made */
    ct_tensor *gb = ct_zeros(call->context, CT_F64, CT_SHAPE(s.n, s.rank));
    if (!gb) return false;
    if (to[X] || to[A]) add_product(s.n, s.rank, s.out, s.scale, g, in[B], ct_data_f64(gb));
    if (to[X]) add_product(s.n, s.in, s.out, 1, g, in[WEIGHT], to[X]);
    if (to[X]) add_product(s.n, s.in, s.rank, 1, ct_data_f64(gb), in[A], to[X]);
    if (to[WEIGHT]) add_columns(s.out, s.in, s.n, 1, g, in[X], to[WEIGHT]);
    for (int64_t i = 0; to[BIAS] && i < s.n * s.out; i++) to[BIAS][i % s.out] += g[i];
    if (to[A]) add_columns(s.rank, s.in, s.n, 1, ct_data_f64(gb), in[X], to[A]);
    if (to[B]) add_columns(s.out, s.rank, s.n, s.scale, g, ct_data_f64(call->saved[0]), to[B]);
    return true;
}

const ct_op lora = {.name = "lora",
                    .attrs_size = sizeof(lora_attrs),
                    .forward = lora_forward,
                    .backward = lora_backward,
                    .flags = CT_OP_OPTIONAL};

bool lora_init(ct_context *context, int64_t out, int64_t in, int64_t rank, ct_tensor **a,
               ct_tensor **b) {
    const double bound = 1 / sqrt((double)in);
    *a = ct_rand(context, CT_F64, CT_SHAPE(rank, in));
    *b = ct_zeros(context, CT_F64, CT_SHAPE(out, rank));
    if (!*a || !*b) return false;
    for (int64_t i = 0; i < rank * in; i++)
        ct_data_f64(*a)[i] = bound * (2 * ct_data_f64(*a)[i] - 1);
    return ct_set_requires_grad(*a, true) && ct_set_requires_grad(*b, true);
}

void lora_merge(int64_t out, int64_t in, int64_t rank, double *weight, const double *a,
                const double *b, double scale) {
    add_product(out, in, rank, scale, b, a, weight);
}
